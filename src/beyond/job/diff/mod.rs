//! Compares the device code of two files.

mod comparison;
mod condition;
#[cfg(feature = "serde")]
mod fields;
mod names;
mod pairs;
mod report;
mod rows;
mod run;
mod side;
mod total;

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::Arc;

use crate::base::error::Error;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::inventory::pick::Seen;
use crate::beyond::inventory::request::Selection;
use crate::beyond::inventory::{CodeSet, Coverage, ServedBundles};
use crate::beyond::scan::{CodeObject, Scan, Sizes};
pub use condition::{DiffCondition, DiffConditions};
pub use names::{unversioned, without_hash};
pub use report::{Compared, Counts, DiffReport, DiffTotals, GpuTotal, LibraryLoss, Presence, Summary};
pub use rows::{KernelRow, KernelRows, ListedKernels, SpillingKernels, SpillsByGpu};
pub use total::ComparedFiles;

/// The reason why it is not known which GPUs are lost.
const TOO_MANY_BUNDLES: &str = "too many different bundles to compare which GPUs they serve";

/// Compares the device code of two files of any format: which code objects differ, their sizes, and the registers and
/// memory of their kernels.
///
/// Code objects are compared in place. Checksums of zip files and hashes of compressed bundles are checked. With
/// `trust_hashes`, they decide instead, and only code objects that may be equal to another one are inflated. Kernels
/// are listed of code objects that differ. The kernels of a compressed code object are read when it is inflated, so
/// that it is inflated once. Bytes are compared, and bundles inflated, on all processors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Diff {
    /// The code objects that are compared.
    pub selection: Selection,
    /// The options of the search. The job itself sets how much is inflated and which checksums are compared, whatever
    /// is set here.
    pub scan: Scan,
    /// Whether compressed bundles that record the same hash and size, and members of zip files with the same checksum
    /// and size, count as equal without being read. This is fast, but wrong for broken files.
    pub trust_hashes: bool,
}

/// The differences of two files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FileDiff {
    /// The code objects for each GPU, by the [name](CodeObject::target) of the GPU.
    pub gpus: BTreeMap<Arc<str>, GpuDiff>,
    /// The numbers of code objects that are equal.
    pub equal: EqualCounts,
    /// The code objects that differ: changed and removed ones in the order of the old file, then added ones in that of
    /// the new file.
    pub code_objects: Vec<CodeObjectDiff>,
    /// The kernels in `code_objects` that differ in a number, or are in one file only. GPUs that only one of the files
    /// has code for are left out.
    pub kernels: Vec<KernelDiff>,
    /// The number of kernels in `code_objects` that are equal in both files.
    pub same_kernels: usize,
    /// The GPUs that fewer bundles of a library serve. Files that serve GPUs together with others of their directory do
    /// not count: see `in_directory`.
    pub losses: Vec<LostCoverage>,
    /// The code of the old and of the new file, if it serves GPUs together with others of its directory.
    pub(crate) in_directory: [Option<Arc<CodeSet>>; 2],
    /// The GPUs that the bundles of the old file serve, whether or not their code is selected.
    pub old_coverage: Coverage,
    /// The GPUs that the bundles of the new file serve, whether or not their code is selected.
    pub new_coverage: Coverage,
    /// The code objects of both files, selected or not.
    pub seen: Seen,
    /// The parts of the files that could not be read.
    pub problems: Vec<Error>,
}

/// The numbers of code objects that are equal in both files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EqualCounts {
    /// The number of all equal code objects.
    pub all: usize,
    /// The number in compressed bundles that were not inflated, because they record the same hash and size. Zero
    /// without [`trust_hashes`](Diff::trust_hashes).
    pub by_hash: usize,
    /// The number in members of zip files that were read once, because both files record the same checksum and size.
    /// Zero without [`trust_hashes`](Diff::trust_hashes).
    pub by_checksum: usize,
}

/// The code objects of one GPU in two files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GpuDiff {
    /// The number of code objects that are in both files, with different bytes.
    pub changed: usize,
    /// The number of code objects that are only in the new file.
    pub added: usize,
    /// The number of code objects that are only in the old file.
    pub removed: usize,
    /// The code objects of the old file.
    pub old: Sizes,
    /// The code objects of the new file.
    pub new: Sizes,
}

impl AddAssign<&Self> for GpuDiff {
    fn add_assign(&mut self, more: &Self) {
        self.changed += more.changed;
        self.added += more.added;
        self.removed += more.removed;
        self.old += more.old;
        self.new += more.new;
    }
}

impl<'g> Sum<&'g Self> for GpuDiff {
    fn sum<I: Iterator<Item = &'g Self>>(gpus: I) -> Self {
        gpus.fold(Self::default(), |mut sum, gpu| {
            sum += gpu;
            sum
        })
    }
}

/// How a code object or a kernel differs between two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffChange {
    /// In both files.
    Changed,
    /// Only in the new file.
    Added,
    /// Only in the old file.
    Removed,
}

impl DiffChange {
    fn between<T>(old: Option<&T>, new: Option<&T>) -> Self {
        match (old, new) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            _ => Self::Changed,
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

/// A code object that differs. With the feature `serde`, it is serialized as `docs/diff.schema.json` describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CodeObjectDiff {
    /// The name of its GPU.
    pub gpu: Arc<str>,
    /// The code object in the old file, or `None` if it was added.
    pub old: Option<Arc<CodeObject>>,
    /// The code object in the new file, or `None` if it was removed.
    pub new: Option<Arc<CodeObject>>,
}

impl CodeObjectDiff {
    /// Returns whether the code object was changed, added or removed.
    pub fn change(&self) -> DiffChange {
        DiffChange::between(self.old.as_ref(), self.new.as_ref())
    }
}

/// A kernel that differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelDiff {
    /// The name of its GPU.
    pub gpu: Arc<str>,
    /// The code object of the kernel: in the new file, unless the kernel was removed.
    pub code_object: Arc<CodeObject>,
    /// The name, which may be mangled and may be any bytes.
    pub name: Arc<[u8]>,
    /// The kernel in the old file, or `None` if it was added.
    pub old: Option<Kernel>,
    /// The kernel in the new file, or `None` if it was removed.
    pub new: Option<Kernel>,
}

impl KernelDiff {
    /// Returns whether the kernel was changed, added or removed.
    pub fn change(&self) -> DiffChange {
        DiffChange::between(self.old.as_ref(), self.new.as_ref())
    }

    /// Returns whether the new kernel spills more vector registers or more scalar registers than the old one. An added
    /// kernel spills more if it spills.
    pub fn spills_more(&self) -> bool {
        let Some(new) = &self.new else { return false };
        let [new_vector, new_scalar] = spills(new);
        let [old_vector, old_scalar] = self.old.as_ref().map(spills).unwrap_or_default();
        new_vector > old_vector || new_scalar > old_scalar
    }
}

/// Returns the numbers of spilled vector registers and scalar registers.
fn spills(kernel: &Kernel) -> [u32; 2] {
    [kernel.vgpr_spills, kernel.sgpr_spills].map(Option::unwrap_or_default)
}

/// A GPU that fewer bundles of a library serve: before, all bundles did, or now, none does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostCoverage {
    /// The name of the GPU.
    pub gpu: Arc<str>,
    /// The members of the file that lead to the library, or `None` if the library is the file itself.
    pub member: Option<String>,
    /// The number of bundles of the old library that serve the GPU.
    pub old: ServedBundles,
    /// The number of bundles of the new library that serve the GPU.
    pub new: ServedBundles,
}
