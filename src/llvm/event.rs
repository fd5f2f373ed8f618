//! Events of a job while it runs.

use std::path::PathBuf;

use crate::base::id::EntryId;
use crate::llvm::container::compressed::Deflation;
use crate::llvm::container::stream::Inflation;

/// An event in a job that is not an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'e> {
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
}

/// Receives the events of a job.
pub type Observer<'o> = dyn FnMut(Event<'_>) + 'o;
