//! Events of a job while it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::error::Error;
use crate::base::id::{Compatibility, EntryId};
use crate::llvm::container::compressed::Deflation;
use crate::llvm::container::stream::Inflation;

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
    /// A broken input was skipped, and nothing is written from it.
    LeftOut {
        /// The error, which names the file.
        error: &'e Error,
    },
    /// Code objects of a file were passed over, because they cannot be read and were not asked for.
    NotReadable {
        /// The file.
        file: PathBuf,
        /// The number of code objects of each kind, by the name of the kind.
        code_objects: BTreeMap<&'static str, usize>,
    },
    /// A file is of a format that is recognised but not read, so nothing in it was searched.
    UnreadFile {
        /// The file.
        file: PathBuf,
        /// The name of the format.
        format: &'static str,
    },
}

/// Receives the events of a job.
pub type Observer<'o> = dyn FnMut(Event<'_>) + 'o;
