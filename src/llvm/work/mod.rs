//! The jobs of LLVM's tools: bundle, unbundle, unbundle an archive, list, package, unpackage, and copy the bytes that
//! URIs name. Each job is a struct with a `run` method.
//!
//! A job accesses only the files that it names, and prints nothing. If it fails before all its outputs are complete, no
//! file has changed. Information beyond the result is passed to the observer as [`Event`](crate::llvm::event::Event)s.
//!
//! Jobs map their inputs with [`Input::map`](crate::io::Input::map): do not run a job on a file that another process or
//! thread may change meanwhile. A change that the job notices is an error, and no output is put in place.

mod bundle;
pub(crate) mod extract_uris;
mod file_name;
mod library;
mod list;
mod objcopy;
mod open;
mod package;
mod requests;
mod stored_contents;
mod unbundle;
mod unbundle_archive;
mod unpackage;
mod walk;

pub use bundle::BundleFiles;
pub use extract_uris::ExtractUris;
pub use list::List;
pub(crate) use open::{NO_LIMIT, open};
pub use package::{ImageFiles, Package};
pub use unbundle::Unbundle;
pub use unbundle_archive::UnbundleArchive;
pub use unpackage::{Filter, ImageRequest, Unpackage};

use crate::base::error::{Error, Result};
use crate::base::io::input::Slice;
use crate::llvm::container::binary::Binary;
use crate::llvm::container::compressed;
use crate::llvm::container::object::Objects;
use crate::llvm::container::sequence::Bundle;
use crate::llvm::container::text::Text;
use crate::llvm::container::{Container, Entry};
use crate::llvm::event::{Event, Observer};

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
    /// An [`Error`] of the kind [`Usage`](crate::ErrorKind::Usage) for an unknown name.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "i" | "ii" | "cui" | "hipi" => Ok(Self::Text("//")),
            "d" | "s" => Ok(Self::Text("#")),
            "ll" => Ok(Self::Text(";")),
            "bc" | "gch" | "ast" => Ok(Self::Binary),
            "o" => Ok(Self::Object),
            "a" => Ok(Self::Archive),
            _ => Err(Error::usage(&format!("'{name}': invalid file type specified"))),
        }
    }

    /// Returns the reader and writer of the bundles in files of this type. For an archive, these are in its members.
    fn container(self) -> Box<dyn Container<Entry = Entry>> {
        match self {
            Self::Text(comment) => Box::new(Text { comment }),
            Self::Object | Self::Archive => Box::new(Objects::default()),
            Self::Binary => Box::new(Binary::default()),
        }
    }
}

/// Reports that a file does not begin with a compressed bundle. As in LLVM 22.1.8, nothing is reported if the file is
/// too short for the first fields of every header: magic string, version and method.
pub(crate) fn report_if_plain(data: Slice<'_>, observer: &mut Observer<'_>) {
    const COMMON_FIELDS_LEN: u64 = 8;
    if data.len() >= COMMON_FIELDS_LEN && !data.bytes().starts_with(compressed::MAGIC) {
        observer(Event::NotCompressed);
    }
}

/// Reports the inflation of a bundle that was fully inflated. Does nothing for any other bundle.
fn report_if_inflated(bundle: &Bundle<'_>, observer: &mut Observer<'_>) {
    if let Some(inflation) = bundle.inflation {
        observer(Event::Inflated(inflation));
    }
}
