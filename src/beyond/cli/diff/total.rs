//! The sums over all pairs of files.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::display::printable;
use crate::beyond::cli::gpus::short_target;
use crate::beyond::inventory::{Coverage, FileSet, LostGpu, lost_gpus};
use crate::beyond::job::{EqualCounts, GpuDiff, LostCoverage};
use crate::beyond::runtime::{Device, directory_of};
use crate::beyond::scan::Place;
use crate::beyond::serialized::{self, Counts, DiffTotals, GpuTotal, Summary};
use serde::{Serialize, Serializer};

use super::compared::Compared;
use super::fail::loss_text;
use super::kernel::{SpillsByGpu, add_spills};

/// The differences of all files.
#[derive(Debug, Default)]
pub(crate) struct DiffTotal {
    /// The number of pairs that were compared.
    pub(super) pairs: usize,
    /// The code objects of each GPU: their numbers and sizes.
    pub(crate) gpus: BTreeMap<Arc<str>, GpuDiff>,
    pub(super) equal: EqualCounts,
    /// The numbers of kernels in code objects that differ. A kernel in such a code object may be equal.
    pub(super) kernels: Counts,
    /// The GPUs that fewer bundles of a library serve, each with the library. Without those of `directories`.
    losses: Vec<(String, LostCoverage)>,
    /// The old and the new files that serve GPUs together with others of their directory on disk, by its path. The name
    /// is the path of a single file.
    directories: BTreeMap<PathBuf, (String, [FileSet; 2])>,
    /// For the old files and for the new files: which GPUs their bundles serve.
    coverage: [Coverage; 2],
    /// The kernels of each GPU that spill more.
    pub(super) spills: SpillsByGpu,
}

impl DiffTotal {
    /// Adds the result of a pair of files.
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
        // A library that only one of the directories has was added or removed. It did not lose single GPUs.
        if pair.old.is_some() && pair.new.is_some() {
            for loss in &diff.losses {
                let library = match &loss.member {
                    Some(member) => format!("{}({member})", pair.shown()),
                    None => pair.shown(),
                };
                self.losses.push((library, loss.clone()));
            }
        }
        if diff.in_directory.iter().any(Option::is_some) {
            let directory = directory_of(&Place::of_file(&pair.path)).file().to_owned();
            let (name, sides) =
                self.directories.entry(directory.clone()).or_insert_with(|| (pair.shown(), Default::default()));
            for (files, code) in sides.iter_mut().zip(&diff.in_directory) {
                code.iter().for_each(|code| files.add(code));
                if files.files > 1 {
                    *name = printable(&directory.to_string_lossy());
                }
            }
        }
        for (all, more) in self.coverage.iter_mut().zip([&diff.old_coverage, &diff.new_coverage]) {
            all.merge(more);
        }
        for (key, more) in &rows.spills {
            add_spills(&mut self.spills, key.clone(), more.clone());
        }
    }

    /// Returns the GPUs that fewer bundles of a library serve, each with the library. A directory whose files serve GPUs
    /// together is one.
    pub(super) fn losses(&self) -> Vec<(String, LostCoverage)> {
        let mut losses = self.losses.clone();
        for (name, [old, new]) in self.directories.values() {
            // A directory that has files on one side only was added or removed.
            if old.files == 0 || new.files == 0 {
                continue;
            }
            for LostGpu { device, old, new } in
                lost_gpus(&Coverage::of_files(old), &Coverage::of_files(new)).unwrap_or_default()
            {
                let gpu: Arc<str> = device.name().into();
                // GPUs whose code is not selected are not reported.
                if self.gpus.contains_key(&gpu) {
                    losses.push((name.clone(), LostCoverage { gpu, member: None, old, new }));
                }
            }
        }
        losses
    }

    /// Returns the presence of each GPU: whether the old files, the new files or both have code for it.
    pub(crate) fn presences(&self) -> HashMap<&str, Presence> {
        let mut presences: HashMap<&str, Presence> = HashMap::new();
        for (name, gpu) in &self.gpus {
            presences.insert(name, Presence::by_name(gpu));
        }
        // A GPU whose name is in one of the files only is not lost or gained if the other file serves it completely,
        // with code of another name.
        let [old, new] = &self.coverage;
        for (presence, other) in [(Presence::Lost, new), (Presence::Gained, old)] {
            let (mut names, mut devices): (Vec<&str>, Vec<Device>) = (Vec::new(), Vec::new());
            for (name, found) in &presences {
                if *found == presence
                    && let Ok(device) = Device::parse(name)
                {
                    names.push(name);
                    devices.push(device);
                }
            }
            let served = other.served_each(&devices).unwrap_or_default();
            for (name, served) in names.into_iter().zip(served) {
                // Without any bundle for GPUs of the vendor, `is_complete` is true too.
                if served.serving > 0 && served.is_complete() {
                    presences.insert(name, Presence::Replaced);
                }
            }
        }
        presences
    }

    /// Returns up to two sentences: the GPUs that only the old files have code for, and the GPUs that only the new
    /// files have code for.
    pub(crate) fn lost_and_gained(&self, presences: &HashMap<&str, Presence>) -> Vec<String> {
        let mut sentences = Vec::new();
        for (title, presence) in [("GPUs lost", Presence::Lost), ("GPUs gained", Presence::Gained)] {
            let mut names = Vec::new();
            for name in self.gpus.keys() {
                if presences.get(&**name) == Some(&presence) {
                    names.push(short_target(name));
                }
            }
            if !names.is_empty() {
                sentences.push(format!("{title}: {}", names.join(", ")));
            }
        }
        sentences
    }

    /// Returns the libraries that serve a GPU with fewer bundles than before, each with the GPU. GPUs that are lost
    /// everywhere are left out.
    pub(super) fn partial_losses(&self, presences: &HashMap<&str, Presence>) -> Vec<(String, LostCoverage)> {
        let mut losses = self.losses();
        losses.retain(|(_, loss)| presences.get(&*loss.gpu) != Some(&Presence::Lost));
        losses
    }

    /// Returns a sentence for each of the [partial losses](Self::partial_losses).
    pub(crate) fn less_served(&self, presences: &HashMap<&str, Presence>) -> Vec<String> {
        let losses = self.partial_losses(presences);
        losses.iter().map(|(library, loss)| loss_text(library, loss)).collect()
    }

    /// Returns the sums for the code objects of all GPUs.
    pub(crate) fn all(&self) -> GpuDiff {
        sum(self.gpus.values())
    }
}

/// Follows `docs/diff.schema.json`.
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
        let losses = self.losses();
        let losses = losses.iter().map(serialized::LostGpu::new).collect();
        DiffTotals { gpus: gpus.collect(), losses, summary }.serialize(serializer)
    }
}

/// Returns the sums for several GPUs.
pub(super) fn sum<'g>(gpus: impl Iterator<Item = &'g GpuDiff>) -> GpuDiff {
    let mut sum = GpuDiff::default();
    for gpu in gpus {
        sum += gpu;
    }
    sum
}

/// Whether the old files, the new files or both have code for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Only the old files have code for the GPU.
    Lost,
    /// Only the new files have code for the GPU.
    Gained,
    /// Only one of the files has code of this name, but all bundles of the other serve the GPU with other code.
    Replaced,
    Both,
}

impl Presence {
    /// Returns the presence of a GPU by the names of code objects only. The other file may serve the GPU with code of
    /// another name.
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
