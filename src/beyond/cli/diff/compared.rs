//! The differences of a pair of files.

use crate::base::error::Result;
use crate::base::io::Input;
use crate::beyond::job::{Diff, FileDiff};
use crate::beyond::serialized::{ComparedFile, KernelChange};
use serde::{Serialize, Serializer};

use super::kernel::{KernelRows, ListedKernels};
use super::sets::FilePair;
use crate::beyond::cli::files::WorkFile;
use crate::beyond::cli::kernels::report::mangled;

/// A pair of files, and their differences.
pub(crate) struct Compared {
    pub(super) pair: FilePair,
    pub(crate) diff: FileDiff,
    pub(super) rows: KernelRows,
}

impl Compared {
    /// Compares a pair. Keeps at most `top` kernels.
    pub(crate) fn new(job: &Diff, pair: FilePair, top: usize) -> Result<Self> {
        Self::with_kernels(job, pair, top, ListedKernels::All)
    }

    /// Compares a pair for a table. Keeps at most `top` kernels. A kernel that relocatable and linked code have with
    /// the same numbers counts once.
    pub(super) fn for_table(job: &Diff, pair: FilePair, top: usize) -> Result<Self> {
        Self::with_kernels(job, pair, top, ListedKernels::WithoutRepeats)
    }

    fn with_kernels(job: &Diff, pair: FilePair, top: usize, listed: ListedKernels) -> Result<Self> {
        let (old, new) = (open_if_some(job, pair.old.as_ref())?, open_if_some(job, pair.new.as_ref())?);
        let mut diff = job.run(old.as_ref(), new.as_ref())?;
        let rows = KernelRows::new(std::mem::take(&mut diff.kernels), top, listed);
        Ok(Self { pair, diff, rows })
    }

    /// Returns the number of findings, which limits how many results wait to be printed.
    pub(crate) fn weight(&self) -> usize {
        self.rows.kept.len() + self.diff.code_objects.len() + 1
    }

    /// Returns the kernels that differ.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = KernelChange<'_>> {
        self.rows.kept.iter().map(|(kernel, name)| KernelChange::new(kernel, (name, mangled(&kernel.name))))
    }
}

fn open_if_some(job: &Diff, file: Option<&WorkFile>) -> Result<Option<Input>> {
    match file {
        Some(file) => Ok(Some(file.open(job.scan.limits)?)),
        None => Ok(None),
    }
}

/// Follows `docs/diff.schema.json`.
impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { pair, diff, .. } = self;
        let files = [&pair.old, &pair.new].map(|file| file.as_ref().map(|file| file.path.as_path()));
        ComparedFile::new(&pair.path, files, &diff.code_objects, self.kernels().collect()).serialize(serializer)
    }
}
