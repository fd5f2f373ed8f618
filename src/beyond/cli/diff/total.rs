//! The sums over all pairs of files.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::beyond::job::{Equal, GpuDiff, Loss};
use crate::beyond::runtime::{Coverage, Device};
use crate::beyond::serialized::{Counts, DiffTotals, GpuTotal, LostGpu, Summary};
use serde::{Serialize, Serializer};

use super::compared::Compared;
use super::kernel::{Spills, add_spills};

/// The differences of all files.
#[derive(Debug, Default)]
pub(crate) struct DiffTotal {
    /// The number of pairs that were compared.
    pub(super) pairs: usize,
    /// The code objects of each GPU: their numbers and sizes.
    pub(crate) gpus: BTreeMap<Arc<str>, GpuDiff>,
    pub(super) equal: Equal,
    /// The kernels in code objects that differ.
    pub(super) kernels: Counts,
    /// The GPUs that fewer bundles of a library serve, each with the library.
    pub(super) losses: Vec<(String, Loss)>,
    /// The GPUs that the bundles of all old files serve, and those of all new ones.
    coverage: [Coverage; 2],
    /// The kernels of each GPU that spill more.
    pub(super) spills: Spills,
}

impl DiffTotal {
    pub(crate) fn add(&mut self, Compared { pair, diff, rows }: &Compared) {
        self.pairs += 1;
        for (gpu, more) in &diff.gpus {
            *self.gpus.entry(Arc::clone(gpu)).or_default() += more;
        }
        let (equal, more) = (&mut self.equal, &diff.equal);
        equal.all += more.all;
        equal.by_hash += more.by_hash;
        equal.by_checksum += more.by_checksum;
        let (kernels, more) = (&mut self.kernels, &rows.numbers);
        kernels.equal += diff.same_kernels;
        kernels.changed += more.changed;
        kernels.added += more.added;
        kernels.removed += more.removed;
        if pair.old.is_some() && pair.new.is_some() {
            let library = |loss: &Loss| match &loss.member {
                Some(member) => format!("{}({member})", pair.shown()),
                None => pair.shown(),
            };
            self.losses.extend(diff.losses.iter().map(|loss| (library(loss), loss.clone())));
        }
        for (all, more) in self.coverage.iter_mut().zip([&diff.old_coverage, &diff.new_coverage]) {
            all.merge(more);
        }
        for (key, more) in &rows.spills {
            add_spills(&mut self.spills, key.clone(), more.clone());
        }
    }

    /// Whether each GPU has code in one of the files only.
    pub(crate) fn presences(&self) -> HashMap<&str, Presence> {
        let by_name = self.gpus.iter().map(|(name, gpu)| (&**name, Presence::by_name(gpu)));
        let mut presences: HashMap<&str, Presence> = by_name.collect();
        for (presence, other) in [(Presence::Lost, &self.coverage[1]), (Presence::Gained, &self.coverage[0])] {
            let names = presences.iter().filter(|(_, of)| **of == presence).map(|(name, _)| *name);
            let (names, devices): (Vec<&str>, Vec<Device>) =
                names.filter_map(|name| Some((name, Device::parse(name).ok()?))).unzip();
            let served = other.of_each(&devices).unwrap_or_default();
            let replaced = names.into_iter().zip(served).filter(|(_, of)| of.serving > 0 && of.is_complete());
            presences.extend(replaced.map(|(name, _)| (name, Presence::Replaced)));
        }
        presences
    }

    /// The GPUs that only the old files have code for, and those that only the new ones have, as two sentences at most.
    pub(crate) fn lost_and_gained(&self, presences: &HashMap<&str, Presence>) -> Vec<String> {
        let names = |presence| {
            let names = self.gpus.keys().map(|name| &**name).filter(|name| presences.get(name) == Some(&presence));
            names.collect::<Vec<_>>().join(", ")
        };
        let told = [("GPUs lost", names(Presence::Lost)), ("GPUs gained", names(Presence::Gained))];
        told.into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {names}"))
            .collect()
    }

    /// All code objects.
    pub(crate) fn all(&self) -> GpuDiff {
        sum(self.gpus.values())
    }
}

/// As in `docs/diff.schema.json`.
impl Serialize for DiffTotal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let presences = self.presences();
        let gpus = self.gpus.iter().map(|(target_id, numbers)| {
            let presence = presences.get(&**target_id).unwrap_or(&Presence::Both).name();
            GpuTotal { target_id, presence, numbers }
        });
        let (GpuDiff { changed, added, removed, .. }, equal) = (self.all(), self.equal);
        let summary = Summary {
            code_objects: Counts { equal: equal.all, changed, added, removed },
            kernels: self.kernels,
            equal_by_hash: equal.by_hash,
            equal_by_checksum: equal.by_checksum,
        };
        let losses = self.losses.iter().map(LostGpu::new).collect();
        DiffTotals { gpus: gpus.collect(), losses, summary }.serialize(serializer)
    }
}

/// The sums for several GPUs.
pub(super) fn sum<'g>(gpus: impl Iterator<Item = &'g GpuDiff>) -> GpuDiff {
    let mut sum = GpuDiff::default();
    gpus.for_each(|gpu| sum += gpu);
    sum
}

/// Whether a GPU has code in one of the files only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Lost,
    Gained,
    /// There is code of this name in one of them only, but all bundles of the other serve the GPU by other code.
    Replaced,
    Both,
}

impl Presence {
    /// By the names of code objects alone.
    fn by_name(gpu: &GpuDiff) -> Self {
        match (gpu.old.code_objects, gpu.new.code_objects) {
            (1.., 0) => Self::Lost,
            (0, 1..) => Self::Gained,
            _ => Self::Both,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Gained => "gained",
            Self::Replaced => "replaced",
            Self::Both => "in both",
        }
    }
}
