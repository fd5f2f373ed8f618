//! Jobs on files: bundle, unbundle, unbundle an archive, list, package and unpackage, as LLVM's tools do; find, and
//! unbundle the objects of an archive, as DPC++'s bundler does; extract, list kernels, compare, verify and recompress, which they do not have. Each job is a struct with a `run` method.
//!
//! A job accesses only the files that it names, prints nothing, and writes either all of its outputs or none.
//! Information beyond the result is passed to the observer as [`Event`]s.
//!
//! Jobs map their inputs with [`Input::map`]: do not run a job on a file that another process or thread may change
//! meanwhile. If you cannot rule that out, copy the file with [`Input::read`], and use the readers and the
//! [scan](crate::scan). A change that the job notices is an error, and no output is put in place.

mod aside;
mod bundle;
mod choice;
mod diff;
mod digest;
mod expect;
mod extract;
mod extract_uris;
mod file_name;
mod inspect;
mod kernels;
mod kpack_tree;
mod library;
mod list;
mod nature;
mod package;
mod present;
mod recompress;
mod replace;
mod requests;
mod share;
mod unbundle;
mod unbundle_archive;
mod unchanged;
mod unmatched;
mod unpackage;
mod verify;

pub use bundle::BundleFiles;
pub use diff::{CodeObjectDiff, Diff, Equal, FileDiff, GpuDiff, KernelDiff, Loss, Sizes, unversioned};
pub use expect::{Expect, Extent};
pub use extract::{Destination, Extract, Extracted, IfBroken, Source};
pub use extract_uris::ExtractUris;
pub use inspect::{Inspect, Inspected, InspectedBundle, KpackReference};
pub use kernels::{CodeObjectKernels, KernelList, ListKernels};
pub use kpack_tree::KpackTree;
pub use list::List;
pub use package::{ImageFiles, Package};
pub use recompress::{Recompress, Recompressed, RecompressedZip};
pub use replace::{Replace, Replaced};
pub use unbundle::Unbundle;
pub use unbundle_archive::UnbundleArchive;
pub use unmatched::Matches;
pub use unpackage::{Filter, ImageRequest, Unpackage};
pub use verify::{Fault, NotRead, Rule, Verified, Verify};

use std::path::{Path, PathBuf};

use crate::bytes;
use crate::container::binary::Binary;
use crate::container::compressed::Deflation;
use crate::container::object::Objects;
use crate::container::sequence::Bundle;
use crate::container::stream::Inflation;
use crate::container::text::Text;
use crate::container::{Container, Entry};
use crate::error::{Error, Result};
use crate::id::{Compatibility, EntryId};
use crate::io::input::{Accept, Input, Slice};

/// Opens an input of a job.
#[allow(unsafe_code, reason = "copying inputs of gigabytes would cost more than all else that a job does")]
fn open(path: &Path, accept: Accept, max: Option<u64>) -> Result<Input> {
    // SAFETY: callers must not change the inputs while a job runs (see the module documentation). If an input changes
    // nevertheless, no type with invalid bit patterns is made from its bytes, and the change is noticed before any
    // output is put in place: `io::mapping` has the list.
    unsafe { Input::map(path, accept, max) }
}

/// An event in a job that is not an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// The job has processed some of its input.
    Progress {
        /// The number of processed bytes.
        done: u64,
        /// The total number of bytes, as far as known.
        total: u64,
    },
    /// The output was compressed.
    Deflated(Deflation),
    /// A compressed bundle was fully inflated.
    Inflated(Inflation),
    /// The input is not compressed.
    NotCompressed,
    /// A bundle holds two entries with this ID; the second one serves no request.
    DuplicateEntry(String),
    /// An entry without a processor serves a request for a GPU that LLVM 22 does not know: LLVM writes the entries for
    /// such GPUs without a processor.
    NoProcessor {
        /// The entry.
        entry: &'e EntryId,
        /// The request.
        request: &'e EntryId,
    },
    /// A request for a host gets an empty file, although the bundle has code for another host.
    OtherHost {
        /// The entry of the other host.
        entry: &'e EntryId,
        /// The request.
        request: &'e EntryId,
    },
    /// An entry was compared with a request.
    Compared {
        /// The entry.
        entry: &'e EntryId,
        /// The request.
        request: &'e EntryId,
        /// The outcome.
        outcome: Compatibility,
    },
    /// The symbols of a bitcode member of a new archive are missing from the index, because it could not be read.
    NotIndexed {
        /// The name of the member.
        name: String,
        /// The reason.
        reason: String,
    },
    /// Several images match a request with one file. The file gets the last image.
    SeveralMatches {
        /// The file.
        file: PathBuf,
    },
    /// No image matches a request. Nothing is written for it.
    NoMatch {
        /// The file that was read.
        input: PathBuf,
        /// The request as typed; `None` if all images were requested.
        request: Option<String>,
        /// The kinds of images in the file, without duplicates, in file order.
        present: Vec<String>,
    },
    /// A broken input was skipped, and nothing is written from it.
    LeftOut {
        /// The error, which names the file.
        error: &'e Error,
    },
    /// An archive was requested without a file for it, so each image is written to a separate file.
    NoArchiveFile,
    /// HIP's runtime cannot load the new bundle, because it looks for entries in the first 4096 bytes only.
    NotLoadable {
        /// The first entry that is not described there.
        first: &'e EntryId,
        /// The number of entries that are not described there.
        lost: usize,
        /// The number of all entries.
        entries: usize,
    },
}

/// Receives the events of a job.
pub type Observer<'o> = dyn FnMut(Event<'_>) + 'o;

/// The file types of bundles, as in `-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A text format, given by the string that begins its comment lines.
    Text(&'static str),
    /// A binary format: bitcode, precompiled header, clang AST.
    Binary,
    /// An object file: with a section for each entry if the host's file is an object, otherwise a binary bundle.
    Object,
    /// An archive of bundles. Bundles are read from archives, but not written to them.
    Archive,
}

impl FileType {
    /// The type with this name.
    ///
    /// # Errors
    /// [`Error::FileType`] for an unknown name.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "i" | "ii" | "cui" | "hipi" => Ok(Self::Text("//")),
            "d" | "s" => Ok(Self::Text("#")),
            "ll" => Ok(Self::Text(";")),
            "bc" | "gch" | "ast" => Ok(Self::Binary),
            "o" => Ok(Self::Object),
            "a" => Ok(Self::Archive),
            _ => Err(Error::FileType(name.to_owned())),
        }
    }

    /// The container that a file of this type holds.
    fn container(self) -> Box<dyn Container> {
        match self {
            Self::Text(comment) => Box::new(Text { comment }),
            Self::Object | Self::Archive => Box::new(Objects::default()),
            Self::Binary => Box::new(Binary::default()),
        }
    }
}

/// The ID of an entry, if it is valid.
fn parse_entry(entry: &Entry) -> Option<EntryId> {
    EntryId::parse_any(&bytes::text(&entry.id)?).ok()
}

/// Reports that a file is not compressed, as LLVM 22.1.8 does for all but the shortest files.
fn observe_plain(data: Slice<'_>, observer: &mut Observer<'_>) {
    if data.len() >= 8 && !data.bytes().starts_with(crate::container::compressed::MAGIC) {
        observer(Event::NotCompressed);
    }
}

/// Reports the inflation of a bundle that was compressed.
fn observe_inflated(bundle: &Bundle<'_>, observer: &mut Observer<'_>) {
    bundle.inflation.into_iter().for_each(|inflation| observer(Event::Inflated(inflation)));
}
