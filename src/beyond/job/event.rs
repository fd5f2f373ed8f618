//! Events of a job while it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::error::Error;

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
