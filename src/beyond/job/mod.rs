//! The jobs of our own subcommands: inspect, extract, list kernels, compare, verify, recompress and replace. Each is a
//! struct with a `run` method.
//!
//! A job accesses only the files that it names, prints nothing, and puts its outputs in place once all are complete.
//! Information beyond the result is passed to the observer as [`Event`]s.
//!
//! Jobs map their inputs with [`Input::map`](crate::io::Input::map): do not run a job on a file that another process or
//! thread may change meanwhile. If you cannot rule that out, copy the file with
//! [`Input::read`](crate::io::Input::read), and use the readers and the [scan](crate::scan). A change that the job
//! notices is an error, and no output is put in place.

mod condition;
mod diff;
mod digest;
#[cfg(test)]
#[cfg(all(feature = "zlib", feature = "zstd"))]
mod each_byte_once;
pub(crate) mod event;
mod extract;
mod inspect;
mod kernels;
mod output_file;
mod recompress;
mod replace;
mod rewrite;
#[cfg(all(test, feature = "serde"))]
mod schemas;
mod size_limit;
mod verify;

pub use crate::beyond::inventory::kernel_names::{Demangle, KernelNames, NameMatch};
pub use crate::beyond::inventory::pick::Seen;
pub use condition::{Failure, Judged};
pub use diff::{
    CodeObjectDiff, Compared, ComparedFiles, Counts, Diff, DiffChange, DiffCondition, DiffConditions, DiffReport,
    DiffTotals, EqualCounts, FileDiff, GpuDiff, GpuTotal, KernelDiff, KernelRow, KernelRows, LibraryLoss,
    ListedKernels, LostCoverage, Presence, SpillingKernels, SpillsByGpu, Summary, unversioned, without_hash,
};
pub use event::{Event, Observer};
#[cfg(feature = "serde")]
pub use extract::ExtractReport;
#[cfg(feature = "cli")]
pub(crate) use extract::OwnDirectory;
pub use extract::{Destination, Extract, Extracted, IfBroken, Source};
#[cfg(feature = "serde")]
pub use inspect::{Directory, InspectReport, LibraryCoverage};
pub use inspect::{GpuSizes, Inspect, InspectTotal};
pub use kernels::{
    CodeObjectKernels, ConditionResults, DemangleName, FLAGS, KernelColumn, KernelCondition, KernelList, KernelOrder,
    KernelSums, KernelsOfFile, KernelsReport, ListKernels, ListedCode, NUMBERS, NamedKernel, NotJudged, OtherCode,
    RecordedKeys, SortKey, WantedKernels,
};
#[cfg(feature = "cli")]
pub(crate) use output_file::{ensure_directory, output_file};
pub use recompress::{
    CodeElsewhere, HoleLeft, HoleReason, LocalVersion, MissedCode, Recompress, Recompressed, RecompressedZip,
    RemovedCode,
};
pub use replace::{Replace, Replaced};
pub use verify::{
    Expect, ExpectExtent, Fault, FaultOfTree, UndefinedInCode, Verified, VerifiedFiles, Verify, VerifyReport,
    VerifyRule, VerifyTotal,
};
