//! The sums over all pairs of files.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::report::{Compared, DiffTotals, GpuTotal, LibraryLoss, Presence, Summary};
use super::rows::{SpillsByGpu, add_spills};
use super::{Counts, EqualCounts, GpuDiff, TOO_MANY_BUNDLES};
use crate::base::display::printable;
use crate::base::error::{Error, ErrorKind};
use crate::beyond::inventory::{Coverage, FileSet, LostGpu, lost_gpus};
use crate::beyond::runtime::{Device, directory_of};
use crate::beyond::scan::Place;

/// The pairs of files that are compared with each other, as far as they have been added. It keeps sums, and what files
/// say about each other.
#[derive(Clone, Debug, Default)]
pub struct ComparedFiles {
    /// The number of pairs that were compared.
    pairs: usize,
    /// The code objects of each GPU: their numbers and sizes.
    gpus: BTreeMap<Arc<str>, GpuDiff>,
    equal: EqualCounts,
    /// The numbers of kernels in code objects that differ. A kernel in such a code object may be equal.
    kernels: Counts,
    /// The GPUs that fewer bundles of a library serve. Without those of `directories`.
    losses: Vec<LibraryLoss>,
    /// The old and the new files that serve GPUs together with others of their directory on disk, by its path. The name
    /// is the path of a single file.
    directories: BTreeMap<PathBuf, (String, [FileSet; 2])>,
    /// For the old files and for the new files: which GPUs their bundles serve.
    coverage: [Coverage; 2],
    /// The kernels of each GPU that spill more.
    spills: SpillsByGpu,
}

impl ComparedFiles {
    /// Adds the result of a pair of files.
    pub fn add(&mut self, compared: &Compared) {
        let Compared { diff, rows, .. } = compared;
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
        if compared.old.is_some() && compared.new.is_some() {
            self.add_losses(compared);
        }
        if diff.in_directory.iter().any(Option::is_some) {
            self.add_to_directory(compared);
        }
        for (all, more) in self.coverage.iter_mut().zip([&diff.old_coverage, &diff.new_coverage]) {
            all.merge(more);
        }
        for (key, more) in &rows.spills {
            add_spills(&mut self.spills, key.clone(), more.clone());
        }
    }

    /// Adds the GPUs that fewer bundles of a library in the files serve.
    fn add_losses(&mut self, compared: &Compared) {
        for loss in &compared.diff.losses {
            let (file, member) = (compared.shown_path(), loss.member.clone());
            let library = match &member {
                Some(member) => format!("{file}({member})"),
                None => file,
            };
            let (target_id, old, new) = (Arc::clone(&loss.gpu), loss.old, loss.new);
            self.losses.push(LibraryLoss { target_id, library, member, old, new });
        }
    }

    /// Adds the code of files that serve GPUs together with others of their directory.
    fn add_to_directory(&mut self, compared: &Compared) {
        let directory = directory_of(&Place::of_file(&compared.path)).file().to_owned();
        let known = self.directories.entry(directory.clone());
        let (name, sides) = known.or_insert_with(|| (compared.shown_path(), Default::default()));
        for (files, code) in sides.iter_mut().zip(&compared.diff.in_directory) {
            code.iter().for_each(|code| files.add(code));
            if files.files > 1 {
                *name = printable(&directory.to_string_lossy());
            }
        }
    }

    /// Returns the sums after the last pair, and an error for each comparison of too many bundles. The GPUs that these
    /// bundles serve are not known then, so GPUs may be lost that the sums do not name.
    pub fn finish(mut self) -> (DiffTotals, Vec<Error>) {
        let mut problems = self.add_losses_of_directories();
        let (presences, problem) = self.presences();
        problems.extend(problem);
        let Self { gpus, equal, kernels, losses, pairs, spills, .. } = self;
        let mut totals = DiffTotals { losses, pairs, spills, ..DiffTotals::default() };
        for (target_id, numbers) in gpus {
            let presence = presences.get(&target_id).copied().unwrap_or(Presence::Both);
            totals.gpus.push(GpuTotal { target_id, presence, numbers });
        }
        let GpuDiff { changed, added, removed, .. } = totals.all();
        totals.summary = Summary {
            code_objects: Counts { equal: equal.all, changed, added, removed },
            kernels,
            equal_by_hash: equal.by_hash,
            equal_by_checksum: equal.by_checksum,
        };
        (totals, problems)
    }

    /// Adds the GPUs that fewer files of a directory serve, which serve GPUs together. Returns an error for each
    /// directory with too many different files to compare.
    fn add_losses_of_directories(&mut self) -> Vec<Error> {
        let mut problems = Vec::new();
        for (library, [old, new]) in std::mem::take(&mut self.directories).into_values() {
            // A directory that has files on one side only was added or removed.
            if old.files == 0 || new.files == 0 {
                continue;
            }
            let Some(lost) = lost_gpus(&Coverage::of_files(&old), &Coverage::of_files(&new)) else {
                let text = format!("'{library}': {TOO_MANY_BUNDLES}");
                problems.push(Error::new(ErrorKind::Limit, text));
                continue;
            };
            for LostGpu { device, old, new } in lost {
                let target_id: Arc<str> = device.name().into();
                // GPUs whose code is not selected are not reported.
                if self.gpus.contains_key(&target_id) {
                    self.losses.push(LibraryLoss { target_id, library: library.clone(), member: None, old, new });
                }
            }
        }
        problems
    }

    /// Returns the presence of each GPU: whether the old files, the new files or both have code for it. Returns an error
    /// too if there are too many different bundles to compare: then only the names of GPUs decide.
    fn presences(&self) -> (HashMap<Arc<str>, Presence>, Option<Error>) {
        let mut presences: HashMap<Arc<str>, Presence> = HashMap::new();
        for (name, gpu) in &self.gpus {
            presences.insert(Arc::clone(name), Presence::by_name(gpu));
        }
        // A GPU whose name is in one of the files only is not lost or gained if the other file serves it completely,
        // with code of another name.
        let ([old, new], mut problem) = (&self.coverage, None);
        for (presence, other) in [(Presence::Lost, new), (Presence::Gained, old)] {
            let with_presence = presences.iter().filter(|(_, found)| **found == presence);
            let (names, devices): (Vec<Arc<str>>, Vec<Device>) =
                with_presence.filter_map(|(name, _)| Some((Arc::clone(name), Device::parse(name).ok()?))).unzip();
            if devices.is_empty() {
                continue;
            }
            let Some(served) = other.served_each(&devices) else {
                problem = Some(Error::new(ErrorKind::Limit, TOO_MANY_BUNDLES));
                continue;
            };
            for (name, served) in names.into_iter().zip(served) {
                // Without any bundle for GPUs of the vendor, `is_complete` is true too.
                if served.serving > 0 && served.is_complete() {
                    presences.insert(name, Presence::Replaced);
                }
            }
        }
        (presences, problem)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileDiff, LostCoverage};
    use super::*;
    use crate::beyond::inventory::UnitRole::Whole;
    use crate::beyond::inventory::tests::unit;
    use crate::beyond::inventory::{ServedBundles, Unit};
    use crate::beyond::scan::Sizes;

    /// Returns the differences of two files with code for these GPUs, each GPU in one code object of a byte. Each item of
    /// a list is a bundle.
    fn compared(path: &str, [old, new]: [&[&str]; 2]) -> Compared {
        let mut diff = FileDiff::default();
        let (mut sides, mut paths) = (Vec::new(), Vec::new());
        for (index, bundles) in [old, new].into_iter().enumerate() {
            let units: Vec<Unit> = bundles.iter().map(|targets| unit(path, Whole, targets)).collect();
            sides.push(Coverage::of_library(&units));
            paths.push((!bundles.is_empty()).then(|| path.into()));
            for target in bundles.iter().flat_map(|targets| targets.split(' ')) {
                let numbers = diff.gpus.entry(target.into()).or_default();
                let side = if index == 0 { &mut numbers.old } else { &mut numbers.new };
                *side += sizes(1);
            }
        }
        (diff.new_coverage, diff.old_coverage) = (sides.pop().unwrap(), sides.pop().unwrap());
        let (new, old) = (paths.pop().unwrap(), paths.pop().unwrap());
        Compared { path: path.into(), old, new, diff, rows: Default::default() }
    }

    fn sizes(code_objects: usize) -> Sizes {
        let mut sizes = Sizes::default();
        (sizes.code_objects, sizes.stored) = (code_objects, 1);
        sizes
    }

    fn totals(files: &[Compared]) -> DiffTotals {
        let mut all = ComparedFiles::default();
        files.iter().for_each(|file| all.add(file));
        all.finish().0
    }

    fn presences(files: &[Compared]) -> Vec<String> {
        totals(files).gpus.iter().map(|gpu| format!("{} {}", gpu.target_id, gpu.presence.name())).collect()
    }

    #[test]
    fn a_gpu_is_lost_unless_all_bundles_of_the_other_files_serve_it() {
        for (old, new, expected) in [
            (&["gfx906 gfx90a"][..], &["gfx90a"][..], &["gfx906 lost", "gfx90a in both"][..]),
            (&["gfx90a"], &["gfx906 gfx90a"], &["gfx906 gained", "gfx90a in both"]),
            // Code for a generic target serves the GPU, and code for the GPU does not serve the generic target.
            (&["gfx1100"], &["gfx11-generic"], &["gfx11-generic gained", "gfx1100 replaced"]),
            (&["gfx11-generic"], &["gfx1100"], &["gfx11-generic lost", "gfx1100 replaced"]),
            (&["sm_90"], &["compute_80"], &["compute_80 gained", "sm_90 replaced"]),
            // One of two bundles does not serve it.
            (&["gfx1100"], &["gfx11-generic", "gfx90a"], &["gfx11-generic gained", "gfx1100 lost", "gfx90a gained"]),
            (&["gfx906:xnack-"], &["gfx906"], &["gfx906 gained", "gfx906:xnack- replaced"]),
        ] {
            assert_eq!(presences(&[compared("a", [old, new])]), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn too_many_bundles_to_compare_are_a_problem() {
        let many: Vec<String> = (0..250).map(|number| format!("gfx1{number:03}")).collect();
        let all = many.join(" ");
        for (old, new, in_directory, expected) in [
            (&all[..], "gfx906", false, ""),
            (&all, &all, false, ""),
            ("gfx906", "gfx90a", true, ""),
            (&all, &many[0], true, "'d/a.co': too many different bundles to compare which GPUs they serve"),
        ] {
            let mut file = compared("d/a.co", [&[old], &[new]]);
            if in_directory {
                let codes = [old, new].map(|targets| unit("d/a.co", Whole, targets).code);
                file.diff.in_directory = codes.map(Some);
            }
            let mut files = ComparedFiles::default();
            files.add(&file);
            let (totals, problems) = files.finish();
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems.join(", "), expected, "{new}");
            assert_eq!(totals.losses.len(), usize::from(in_directory && expected.is_empty()), "{new}");
        }
        let others: Vec<String> = (0..250).map(|number| format!("gfx2{number:03}")).collect();
        let mut files = ComparedFiles::default();
        files.add(&compared("a", [&[&all], &[&others.join(" ")]]));
        let (totals, problems) = files.finish();
        assert_eq!(totals.names(Presence::Lost).count(), 250);
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [TOO_MANY_BUNDLES]);
    }

    #[test]
    fn code_that_moves_to_another_file_is_in_both() {
        let moved = [compared("a", [&["gfx906"], &[]]), compared("b", [&[], &["gfx906"]])];
        assert_eq!(presences(&moved), ["gfx906 in both"]);
        assert_eq!(presences(&moved[..1]), ["gfx906 lost"]);
        assert_eq!(presences(&moved[1..]), ["gfx906 gained"]);
        let all = totals(&moved);
        assert_eq!((all.pairs, all.all().old, all.all().new), (2, sizes(1), sizes(1)));
        assert!(presences(&[]).is_empty());
    }

    #[test]
    fn losses_are_those_of_libraries_that_both_sides_have() {
        let lose = |mut file: Compared, member: Option<&str>| {
            let served = |serving| {
                let mut served = ServedBundles::default();
                (served.serving, served.bundles) = (serving, 2);
                served
            };
            let (gpu, member) = ("gfx906".into(), member.map(str::to_owned));
            file.diff.losses.push(LostCoverage { gpu, member, old: served(2), new: served(1) });
            file
        };
        let both: [&[&str]; 2] = [&["gfx906", "gfx906"], &["gfx906", "gfx90a"]];
        let files = [
            lose(compared("a\x1b.so", both), None),
            lose(compared("b.whl", both), Some("c.so")),
            lose(compared("removed.so", [&["gfx906"], &[]]), None),
            lose(compared("added.so", [&[], &["gfx906"]]), None),
        ];
        let all = totals(&files);
        let texts: Vec<String> = all.partial_losses().map(|loss| loss.text(&loss.library)).collect();
        assert_eq!(
            texts,
            [
                "1 of 2 bundles of 'a\\u{1b}.so' serve gfx906, before 2 of 2 bundles",
                "1 of 2 bundles of 'b.whl(c.so)' serve gfx906, before 2 of 2 bundles"
            ]
        );
        // A GPU without any code is lost, and not less served.
        let lost = totals(&[lose(compared("a", [&["gfx906 gfx90a"], &["gfx90a"]]), None)]);
        assert_eq!((lost.losses.len(), lost.partial_losses().count()), (1, 0));
        assert_eq!(lost.names(Presence::Lost).collect::<Vec<_>>(), ["gfx906"]);
    }

    #[test]
    fn files_of_a_directory_lose_gpus_together() {
        let of = |path: &str, [old, new]: [&str; 2]| {
            let lists = [old, new].map(|targets| if targets.is_empty() { vec![] } else { vec![targets] });
            let mut file = compared(path, [&lists[0], &lists[1]]);
            file.diff.in_directory =
                [old, new].map(|targets| (!targets.is_empty()).then(|| unit(path, Whole, targets).code));
            file
        };
        let losses = |files: &[Compared]| {
            let losses = totals(files).losses;
            losses.iter().map(|loss| loss.text(&loss.library)).collect::<Vec<_>>()
        };
        let [old, new] = [of("d/gfx906.co", ["gfx906", "gfx906"]), of("d/gfx90a.co", ["gfx90a", ""])];
        assert_eq!(losses(&[old, new]), ["no bundle of 'd' serves gfx90a any longer, before 1 of 1 bundle"]);
        // The code is in another file of the directory.
        assert_eq!(losses(&[of("d/a.co", ["gfx90a", ""]), of("d/b.co", ["gfx906", "gfx906 gfx90a"])]), [""; 0]);
        // A single file has its own name, and a directory that is gone has not lost single GPUs.
        let single = of("d/a.co", ["gfx906 gfx90a", "gfx906"]);
        assert_eq!(losses(&[single]), ["no bundle of 'd/a.co' serves gfx90a any longer, before 1 of 1 bundle"]);
        assert_eq!(losses(&[of("d/a.co", ["gfx906", ""]), of("e/a.co", ["", "gfx906"])]), [""; 0]);
    }
}
