//! The JSON report of `diff`, described by `docs/diff.schema.json`.

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offload_bundle::job::GpuDiff;
use offload_bundle::serialized::{
    ComparedFile, Counts, DiffReport, DiffTotals, GpuTotal, KernelChange, LostGpu, Summary,
};
use serde::{Serialize, Serializer};

use super::Compared;
use super::fail::{DiffCondition, failures};
use super::total::{DiffTotal, Presence};
use crate::cli::files::{Problems, WorkFile};
use crate::cli::kernels::report::mangled;
use crate::cli::print::json::{self, Each, Late};

/// Writes the document, each file as soon as it is compared. What follows is complete only after the last one.
pub(super) fn write(
    [old, new]: [&PathBuf; 2],
    files: &mut dyn Iterator<Item = Compared>,
    total: &RefCell<DiffTotal>,
    conditions: &[DiffCondition],
    problems: &Problems,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let differs = |compared: &Compared| !compared.diff.code_objects.is_empty();
    let files = Each::new(files.filter(differs));
    let failures = Late(|| failures(conditions, &total.borrow()));
    let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
    json::write(DiffReport { old, new, files, total, failures }, problems, out)
}

impl Compared {
    /// The kernels that differ.
    pub(in crate::cli) fn kernels(&self) -> impl Iterator<Item = KernelChange<'_>> {
        self.rows.iter().map(|(kernel, name)| KernelChange::new(kernel, (name, mangled(&kernel.name))))
    }
}

impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn path(file: &Option<WorkFile>) -> Option<&Path> {
            file.as_ref().map(|file| file.path.as_path())
        }
        let Self { pair, diff, .. } = self;
        let files = [path(&pair.old), path(&pair.new)];
        ComparedFile::new(&pair.path, files, &diff.code_objects, self.kernels().collect()).serialize(serializer)
    }
}

impl Serialize for DiffTotal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let presences = self.presences();
        let gpu = |(target_id, numbers)| {
            let target_id: &Arc<str> = target_id;
            let presence = presences.get(&**target_id).copied().unwrap_or(Presence::Both).name();
            GpuTotal { target_id, presence, numbers }
        };
        let (GpuDiff { changed, added, removed, .. }, equal) = (self.all(), self.equal);
        let summary = Summary {
            code_objects: Counts { equal: equal.all, changed, added, removed },
            kernels: self.kernels,
            equal_by_hash: equal.by_hash,
            equal_by_checksum: equal.by_checksum,
        };
        let losses = self.losses.iter().map(LostGpu::new).collect();
        DiffTotals { gpus: self.gpus.iter().map(gpu).collect(), losses, summary }.serialize(serializer)
    }
}
