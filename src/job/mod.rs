//! The jobs of our own subcommands: inspect, extract, list kernels, compare, verify, recompress and replace. Each is a
//! struct with a `run` method.
//!
//! A job accesses only the files that it names, prints nothing, and writes either all of its outputs or none.
//! Information beyond the result is passed to the observer as [`Event`](crate::Event)s.
//!
//! Jobs map their inputs with [`Input::map`]: do not run a job on a file that another process or thread may change
//! meanwhile. If you cannot rule that out, copy the file with [`Input::read`], and use the readers and the
//! [scan](crate::scan). A change that the job notices is an error, and no output is put in place.

mod diff;
mod digest;
mod extract;
mod inspect;
mod kernel_names;
mod kernels;
pub(crate) mod present;
mod recompress;
mod replace;
mod rewrite;
mod share;
mod unmatched;
mod verify;

pub use diff::{Change, CodeObjectDiff, Diff, Equal, FileDiff, GpuDiff, KernelDiff, Loss, unversioned, without_hash};
pub use extract::{Destination, Extract, Extracted, IfBroken, Source};
pub use inspect::{Inspect, Inspected, InspectedBundle, KpackReference};
pub use kernel_names::{Demangle, KernelNames};
pub use kernels::{CodeObjectKernels, KernelList, ListKernels};
pub use recompress::{HoleLeft, HoleReason, Missed, Recompress, Recompressed, RecompressedZip, Removed};
pub use replace::{Replace, Replaced};
pub use unmatched::Matches;
pub use verify::{Expect, ExpectTree, Extent, Fault, KpackTree, NotRead, Rule, Verified, Verify};

use std::path::Path;

use crate::error::Result;
use crate::io::input::{Accept, Input};

/// Opens an input of a job.
#[allow(unsafe_code, reason = "copying inputs of gigabytes would cost more than all else that a job does")]
pub(crate) fn open(path: &Path, accept: Accept, max: Option<u64>) -> Result<Input> {
    // SAFETY: callers must not change the inputs while a job runs (see the module documentation). If an input changes
    // nevertheless, no type with invalid bit patterns is made from its bytes, and the change is noticed before any
    // output is put in place: `io::mapping` has the list.
    unsafe { Input::map(path, accept, max) }
}
