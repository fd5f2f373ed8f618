//! The report of `diff`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::condition::Failure;
use super::super::kernels::DemangleName;
use super::rows::{KernelRows, ListedKernels, SpillsByGpu};
use super::{DiffChange, FileDiff, GpuDiff};
use crate::base::display::printable;
use crate::beyond::base::text::count;
#[cfg(feature = "serde")]
use crate::beyond::document::Report;
use crate::beyond::inventory::ServedBundles;
#[cfg(all(test, feature = "serde"))]
use crate::beyond::job::schemas;

/// The differences of the device code in two files or directories. Code objects with the same bytes are only counted.
#[derive(Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DiffReport {
    /// The old file or directory.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::document::path"))]
    #[cfg_attr(all(test, feature = "serde"), schemars(with = "String"))]
    pub old: PathBuf,
    /// The new file or directory.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::document::path"))]
    #[cfg_attr(all(test, feature = "serde"), schemars(with = "String"))]
    pub new: PathBuf,
    /// The files with code objects that differ: each file of a directory with the one of the same name in the other.
    pub files: Vec<Compared>,
    /// The sums over all files.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub total: DiffTotals,
    /// The conditions of `--fail-on` that are met. The exit status is 1 if there are any.
    pub failures: Vec<Failure>,
}

#[cfg(feature = "serde")]
impl Report for DiffReport {}

impl DiffReport {
    /// Returns the report on two files or directories that have no differences so far.
    pub fn new(old: &Path, new: &Path) -> Self {
        Self { old: old.to_owned(), new: new.to_owned(), ..Self::default() }
    }
}

/// Two files and their differences. With the feature `serde`, they are serialized as a file in `docs/diff.schema.json`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Compared {
    /// The path for reports: below the directories, or that of the new file, or of the old file if there is no new one.
    pub path: PathBuf,
    /// The path of the old file, or `None` if there is none.
    pub old: Option<PathBuf>,
    /// The path of the new file, or `None` if there is none.
    pub new: Option<PathBuf>,
    /// The differences. The kernels among them are in `rows`.
    pub diff: FileDiff,
    /// The kernels that differ.
    pub rows: KernelRows,
}

impl Compared {
    /// Describes the differences of an old and a new file. `path` names the pair in reports. Of the kernels, keeps
    /// those in `listed`, at most `top`.
    pub fn new(
        path: PathBuf,
        [old, new]: [Option<&Path>; 2],
        mut diff: FileDiff,
        (top, listed): (usize, ListedKernels),
        demangle: DemangleName<'_>,
    ) -> Self {
        let rows = KernelRows::new(std::mem::take(&mut diff.kernels), (top, listed), demangle);
        let [old, new] = [old, new].map(|path| path.map(Path::to_owned));
        Self { path, old, new, diff, rows }
    }

    /// Returns the path, safe to print on a terminal.
    pub fn shown_path(&self) -> String {
        printable(&self.path.to_string_lossy())
    }

    /// Returns the number of findings, which limits how many results wait to be printed.
    pub fn weight(&self) -> usize {
        self.rows.kept.len() + self.diff.code_objects.len() + 1
    }
}

/// The sums over all files.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DiffTotals {
    /// The GPUs of all code objects, by name.
    pub gpus: Vec<GpuTotal>,
    /// The GPUs that fewer bundles of a library serve, with any code that a runtime loads there: all bundles did, or
    /// none does any longer.
    pub losses: Vec<LibraryLoss>,
    /// The numbers of code objects and kernels.
    pub summary: Summary,
    /// The number of pairs of files that were compared.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub pairs: usize,
    /// The kernels of each GPU that spill more.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub spills: SpillsByGpu,
}

impl DiffTotals {
    /// Returns the sums for the code objects of all GPUs.
    pub fn all(&self) -> GpuDiff {
        self.gpus.iter().map(|gpu| &gpu.numbers).sum()
    }

    /// Returns the names of the GPUs with a presence.
    pub fn names(&self, presence: Presence) -> impl Iterator<Item = &str> {
        self.gpus.iter().filter(move |gpu| gpu.presence == presence).map(|gpu| &*gpu.target_id)
    }

    /// Returns the libraries that serve a GPU with fewer bundles than before. GPUs that are lost everywhere are left
    /// out.
    pub fn partial_losses(&self) -> impl Iterator<Item = &LibraryLoss> {
        let lost: HashSet<&str> = self.names(Presence::Lost).collect();
        self.losses.iter().filter(move |loss| !lost.contains(&*loss.target_id))
    }
}

/// The code objects for one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GpuTotal {
    /// The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle
    /// entry ID.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::document::text"))]
    #[cfg_attr(all(test, feature = "serde"), schemars(with = "String"))]
    pub target_id: Arc<str>,
    /// Whether there is code for the GPU only in the old one (`lost`), only in the new one (`gained`), or in both.
    /// `replaced`: only one has code of this name, but all bundles of the other serve the GPU with other code, such as
    /// that for its generic target.
    #[cfg_attr(all(test, feature = "serde"), schemars(schema_with = "schemas::presences"))]
    pub presence: Presence,
    /// The numbers of code objects, and their sizes.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub numbers: GpuDiff,
}

/// Whether the old files, the new files or both have code for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Only the old files have code for the GPU.
    Lost,
    /// Only the new files have code for the GPU.
    Gained,
    /// Only one of the files has code of this name, but all bundles of the other serve the GPU with other code.
    Replaced,
    /// Both have code for it.
    Both,
}

impl Presence {
    /// Returns the presence of a GPU by the names of code objects only. The other file may serve the GPU with code of
    /// another name.
    pub(super) fn by_name(gpu: &GpuDiff) -> Self {
        match (gpu.old.code_objects, gpu.new.code_objects) {
            (1.., 0) => Self::Lost,
            (0, 1..) => Self::Gained,
            _ => Self::Both,
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Gained => "gained",
            Self::Replaced => "replaced",
            Self::Both => "in both",
        }
    }
}

/// A GPU that fewer bundles of a library serve.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema), schemars(rename = "LostGpu"))]
#[non_exhaustive]
pub struct LibraryLoss {
    /// The target ID, such as `gfx90a:xnack-` or `sm_90`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::document::text"))]
    #[cfg_attr(all(test, feature = "serde"), schemars(with = "String"))]
    pub target_id: Arc<str>,
    /// The library: the file, and in parentheses its member.
    pub library: String,
    /// The member alone, or `None` if the library is the file itself, or a directory.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub member: Option<String>,
    /// How many bundles of the old library serve the GPU.
    pub old: ServedBundles,
    /// How many bundles of the new library serve the GPU.
    pub new: ServedBundles,
}

impl LibraryLoss {
    /// Returns a sentence about the loss. `library` is the name of the library in it.
    pub fn text(&self, library: &str) -> String {
        let Self { target_id, old, new, .. } = self;
        let [before, now] =
            [old, new].map(|served| format!("{} of {}", served.serving, count(served.bundles, "bundle", "bundles")));
        if new.serving == 0 {
            format!("no bundle of '{library}' serves {target_id} any longer, before {before}")
        } else {
            format!("{now} of '{library}' serve {target_id}, before {before}")
        }
    }
}

/// The numbers of code objects and kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Summary {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Counts {
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
    pub(super) fn add(&mut self, change: DiffChange) {
        let number = match change {
            DiffChange::Changed => &mut self.changed,
            DiffChange::Added => &mut self.added,
            DiffChange::Removed => &mut self.removed,
        };
        *number += 1;
    }
}
