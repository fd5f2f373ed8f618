//! Opens the inputs of jobs.

use std::path::Path;

use crate::base::error::Result;
use crate::base::io::input::{Accept, Input};

/// Reads a pipe to its end: the `max` of [`open`].
pub(crate) const NO_LIMIT: Option<u64> = None;

/// Opens an input of a job as a mapping. A pipe is read up to `max` bytes; `accept` says which kinds of files are
/// allowed.
#[allow(unsafe_code, reason = "copying inputs of gigabytes would cost more than the rest of a job")]
pub(crate) fn open(path: &Path, accept: Accept, max: Option<u64>) -> Result<Input> {
    // SAFETY: callers must not change the inputs while a job runs (see the module documentation). If an input changes
    // nevertheless, no type with invalid bit patterns is made from its bytes, and the change is noticed before any
    // output is put in place: `io::mapping` has the list.
    unsafe { Input::map(path, accept, max) }
}
