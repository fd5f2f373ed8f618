//! The jobs: bundle, unbundle, unbundle an archive, list, package and unpackage, which are LLVM's; extract, verify and
//! recompress, which are ours. Each is a struct of what to do with a `run` that does it.
//!
//! A job touches no file but those it names, prints nothing and leaves either all of its outputs or none. What
//! a user may want to hear besides the result comes as [`Event`]s.
//!
//! Jobs map their inputs, as [`Input::map`] does: do not run one on a file that others may change meanwhile, and do not have
//! other threads of the program write to it. Where that cannot be told, [`Input::read`] a copy, and use the readers and the
//! [scan](crate::scan). A change that the job notices is an error, and no output is put in place.

mod aside;
mod bundle;
mod extract;
mod file_name;
mod library;
mod list;
mod package;
mod present;
mod recompress;
mod requests;
mod share;
mod unbundle;
mod unbundle_archive;
mod unmatched;
mod unpackage;
mod verify;

pub use bundle::BundleFiles;
pub use extract::{Destination, Extract, Extracted, IfBroken, Source};
pub use list::List;
pub use package::{ImageFiles, Package};
pub use recompress::{Recompress, Recompressed};
pub use unbundle::Unbundle;
pub use unbundle_archive::UnbundleArchive;
pub use unpackage::{Filter, ImageRequest, Unpackage};
pub use verify::{Fault, NotRead, Rule, Verified, Verify};

use std::path::{Path, PathBuf};

use crate::bytes;
use crate::container::binary::Binary;
use crate::container::compressed::Deflation;
use crate::container::object::Objects;
use crate::container::stream::Inflation;
use crate::container::text::Text;
use crate::container::{Container, Entry};
use crate::error::{Error, Result};
use crate::id::{Compatibility, EntryId};
use crate::io::input::{Accept, Input, Slice};

/// Opens an input of a job.
#[allow(unsafe_code, reason = "copying inputs of gigabytes would cost more than all else that a job does")]
fn open(path: &Path, accept: Accept, max: Option<u64>) -> Result<Input> {
    // SAFETY: who runs a job is asked not to change its inputs meanwhile (see the module). If others do all the same, this
    // library makes nothing of the bytes for which some bytes are invalid, and finds the change before it puts any output in
    // place: `io::mapping` has the list.
    unsafe { Input::map(path, accept, max) }
}

/// Something that happened in a job and is no error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// The job has worked through some of its bytes. Only jobs of many megabytes tell.
    Progress {
        /// Bytes worked through.
        done: u64,
        /// All bytes, as far as is known yet.
        total: u64,
    },
    /// The output was compressed.
    Deflated(Deflation),
    /// A compressed bundle was inflated as a whole.
    Inflated(Inflation),
    /// The input is not compressed.
    NotCompressed,
    /// A bundle holds two entries with this ID; the second one serves no request.
    DuplicateEntry(String),
    /// An entry without a processor serves a request for a GPU that LLVM 22 does not know: LLVM writes such entries so.
    NoProcessor {
        /// The entry.
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
    /// A bitcode member of a new archive could not be read, so that its symbols are not in the index.
    NotIndexed {
        /// The name of the member.
        name: String,
        /// Why.
        reason: String,
    },
    /// Several images go to one file, which gets the last of them.
    SeveralMatches {
        /// The file.
        file: PathBuf,
    },
    /// No image matches a request, for which nothing is written.
    NoMatch {
        /// The file that was read.
        input: PathBuf,
        /// The request as typed; none if everything was asked for.
        request: Option<String>,
        /// What the file holds, each kind of image once, in file order.
        present: Vec<String>,
    },
    /// An input that may be left out is broken, and nothing of it is written.
    LeftOut {
        /// What is wrong; it names the file.
        error: &'e Error,
    },
    /// An archive was asked for, but no file for it, so that every image gets a file of its own.
    NoArchiveFile,
}

/// Takes the events of a job.
pub type Observer<'o> = dyn FnMut(Event<'_>) + 'o;

/// The file types that bundles are made of, as in `-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A text format in which lines begin a comment with this.
    Text(&'static str),
    /// A binary format: bitcode, precompiled header, clang AST.
    Binary,
    /// An object file: a section for each entry if the host's is an object, a binary bundle otherwise.
    Object,
    /// An archive of bundles. Bundles are not written into archives, only read from them.
    Archive,
}

impl FileType {
    /// The type with this name.
    ///
    /// # Errors
    /// [`Error::FileType`] if there is none.
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

    /// The container to look for in a file of this type.
    fn container(self) -> Box<dyn Container> {
        match self {
            Self::Text(comment) => Box::new(Text { comment }),
            Self::Object | Self::Archive => Box::new(Objects::default()),
            Self::Binary => Box::new(Binary::default()),
        }
    }
}

/// The ID of an entry, if it is one.
fn parse_entry(entry: &Entry) -> Option<EntryId> {
    EntryId::parse(&bytes::text(&entry.id)?).ok()
}

/// Tells a verbose user that a file is not compressed, as LLVM 22.1.8 does for all but the shortest files.
fn observe_plain(data: Slice<'_>, observer: &mut Observer<'_>) {
    if data.len() >= 8 && !data.bytes().starts_with(crate::container::compressed::MAGIC) {
        observer(Event::NotCompressed);
    }
}
