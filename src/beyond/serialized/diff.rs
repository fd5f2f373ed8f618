//! The report of `diff`.

use std::borrow::Cow;
use std::path::Path;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::Report;
use super::code_object::{Location, UriOf};
use super::fields::{serialized_as, shown};
#[cfg(test)]
use super::kernels::Failure;
use super::kernels::KernelName;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::inventory::ServedBundles;
use crate::beyond::job::{CodeObjectDiff, DiffChange, GpuDiff, KernelDiff, LostCoverage};
use crate::beyond::scan::CodeObject;

#[cfg(test)]
use super::tests;

serialized_as!(CodeObjectDiff => CodeObjectChange);

/// The differences of the device code in two files or directories. Code objects with the same bytes are only counted.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DiffReport<'r, F, T, C> {
    /// The old file or directory.
    pub old: Cow<'r, str>,
    /// The new file or directory.
    pub new: Cow<'r, str>,
    /// The files with code objects that differ: each file of a directory with the one of the same name in the other.
    #[cfg_attr(test, schemars(with = "Vec<ComparedFile<'_>>"))]
    pub files: F,
    /// The sums over all files.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "DiffTotals<'_>"))]
    pub total: T,
    /// The conditions of `--fail-on` that are met. The exit status is 1 if there are any.
    #[cfg_attr(test, schemars(with = "Vec<Failure>"))]
    pub failures: C,
}

impl<F: Serialize, T: Serialize, C: Serialize> Report for DiffReport<'_, F, T, C> {}

/// The sums over all files.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DiffTotals<'r> {
    /// The GPUs of all code objects, by name.
    pub gpus: Vec<GpuTotal<'r>>,
    /// The GPUs that fewer bundles of a library serve, with any code that a runtime loads there: all bundles did, or
    /// none does any longer.
    pub losses: Vec<LostGpu<'r>>,
    /// The numbers of code objects and kernels.
    pub summary: Summary,
}

/// Two files whose code objects differ.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ComparedFile<'r> {
    /// The path below the directories, or that of the new file.
    path: Cow<'r, str>,
    /// The path of the old file. Null if there is none.
    old: Option<Cow<'r, str>>,
    /// The path of the new file. Null if there is none.
    new: Option<Cow<'r, str>>,
    /// The code objects that differ: changed and removed ones in the order of the old file, then added ones in the
    /// order of the new file.
    code_objects: &'r [CodeObjectDiff],
    /// The kernels in these that differ in a number, or are in one file only; none for GPUs that only one of the files
    /// has code for. The ones that got worse are first: by spills, then scratch memory, registers, shared memory and
    /// code size. `--top` limits their number in each file.
    kernels: Vec<KernelChange<'r>>,
}

impl<'r> ComparedFile<'r> {
    /// The differences of two files.
    pub(crate) fn new(
        path: &'r Path,
        [old, new]: [Option<&'r Path>; 2],
        code_objects: &'r [CodeObjectDiff],
        kernels: Vec<KernelChange<'r>>,
    ) -> Self {
        Self { path: shown(path), old: old.map(shown), new: new.map(shown), code_objects, kernels }
    }
}

/// A code object that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct CodeObjectChange<'r> {
    /// Whether it is in both files (`changed`), only in the new one (`added`) or only in the old one (`removed`).
    #[cfg_attr(test, schemars(schema_with = "tests::changes"))]
    change: &'static str,
    /// The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle
    /// entry ID.
    target_id: &'r str,
    /// The one in the old file. Null if it was added.
    old: Option<Version<'r>>,
    /// The one in the new file. Null if it was removed.
    new: Option<Version<'r>>,
}

impl<'r> CodeObjectChange<'r> {
    fn of(diff: &'r CodeObjectDiff) -> Self {
        Self {
            change: diff.change().name(),
            target_id: &diff.gpu,
            old: diff.old.as_deref().map(Version::of),
            new: diff.new.as_deref().map(Version::of),
        }
    }
}

/// A code object of one of the files.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Version<'r> {
    #[serde(flatten)]
    location: Location<'r>,
    /// The inflated size.
    size: u64,
    /// The stored size; in a compressed bundle, its share of that by its inflated size.
    stored_size: u64,
    /// The URI, as in the report of `inspect`.
    uri: UriOf<'r>,
}

impl<'r> Version<'r> {
    fn of(code_object: &'r CodeObject) -> Self {
        let (size, stored_size) = (code_object.size, code_object.stored());
        Self { location: Location::of(code_object), size, stored_size, uri: UriOf(code_object) }
    }
}

/// A kernel that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct KernelChange<'r> {
    /// Whether it is in both files (`changed`), only in the new one (`added`) or only in the old one (`removed`).
    #[cfg_attr(test, schemars(schema_with = "tests::changes"))]
    change: &'static str,
    /// The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle
    /// entry ID.
    target_id: &'r str,
    #[serde(flatten)]
    name: KernelName<'r>,
    #[serde(flatten)]
    location: Location<'r>,
    /// Whether it spills more vector or more scalar registers than in the old file; for an added kernel, whether it
    /// spills.
    spills_more: bool,
    /// Its numbers in the old file. Null if it was added.
    old: Option<&'r Kernel>,
    /// Its numbers in the new file. Null if it was removed.
    new: Option<&'r Kernel>,
}

impl<'r> KernelChange<'r> {
    /// A kernel that differs, with its names as they are shown.
    pub(crate) fn new(kernel: &'r KernelDiff, (name, mangled_name): (&'r str, String)) -> Self {
        Self {
            change: kernel.change().name(),
            target_id: &kernel.gpu,
            name: KernelName { name, mangled_name },
            location: Location::of(&kernel.code_object),
            spills_more: kernel.spills_more(),
            old: kernel.old.as_ref(),
            new: kernel.new.as_ref(),
        }
    }
}

/// The code objects for one GPU.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct GpuTotal<'r> {
    /// The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle
    /// entry ID.
    pub target_id: &'r str,
    /// Whether there is code for the GPU only in the old one (`lost`), only in the new one (`gained`), or in both.
    /// `replaced`: only one has code of this name, but all bundles of the other serve the GPU with other code, such as
    /// that for its generic target.
    #[cfg_attr(test, schemars(schema_with = "tests::presences"))]
    pub presence: &'static str,
    /// The numbers of code objects, and their sizes.
    #[serde(flatten)]
    pub numbers: &'r GpuDiff,
}

/// A GPU that fewer bundles of a library serve.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LostGpu<'r> {
    /// The target ID, such as `gfx90a:xnack-` or `sm_90`.
    target_id: &'r str,
    /// The library: the file, and in parentheses its member.
    library: &'r str,
    /// How many bundles of the old library serve the GPU.
    old: ServedBundles,
    /// How many bundles of the new library serve the GPU.
    new: ServedBundles,
}

impl<'r> LostGpu<'r> {
    /// Makes the entry for a GPU that a library has lost.
    pub(crate) fn new((library, LostCoverage { gpu, old, new, .. }): &'r (String, LostCoverage)) -> Self {
        Self { target_id: gpu, library, old: *old, new: *new }
    }
}

/// The numbers of code objects and kernels.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Summary {
    /// The numbers of code objects.
    pub code_objects: Counts,
    /// The numbers of kernels in code objects that differ; `equal` are those whose numbers are the same.
    pub kernels: Counts,
    /// The number of code objects in compressed bundles that are equal by their recorded hash and size, and were not
    /// inflated. 0 without `--trust-hashes`.
    pub equal_by_hash: usize,
    /// The number of code objects in members of zip files that are equal by their recorded checksum and size, and were
    /// read only once. 0 without `--trust-hashes`.
    pub equal_by_checksum: usize,
}

/// The numbers of code objects or kernels that are equal and that differ.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Counts {
    /// The number of equal ones.
    pub equal: usize,
    /// The number in both that differ.
    pub changed: usize,
    /// The number only in the new one.
    pub added: usize,
    /// The number only in the old one.
    pub removed: usize,
}

impl Counts {
    /// Counts a difference.
    pub(crate) fn add(&mut self, change: DiffChange) {
        let number = match change {
            DiffChange::Changed => &mut self.changed,
            DiffChange::Added => &mut self.added,
            DiffChange::Removed => &mut self.removed,
        };
        *number += 1;
    }
}
