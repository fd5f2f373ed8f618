//! The kernels that differ; kernels that got worse come first.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::super::kernels::{
    DemangleName, KernelColumn, LDS, NUMBERS, ROWS_BETWEEN_SORTS, SCRATCH, shown_names, spills,
};
use super::{Counts, KernelDiff};
use crate::beyond::scan::Step;
use crate::beyond::scan::sections::is_relocatable_code;

/// A kernel that differs, with its name as it is shown. With the feature `serde`, it is serialized as
/// `docs/diff.schema.json` describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelRow {
    /// The kernel before and now.
    pub diff: KernelDiff,
    /// The demangled name, safe to print on a terminal.
    pub name: Arc<str>,
}

/// Kernels that differ. Those that got worse come first: spills count most, then scratch memory, registers, shared
/// memory and code size.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KernelRows {
    /// The kernels with a row.
    pub kept: Vec<KernelRow>,
    /// The number of kernels that changed, were added and were removed.
    pub numbers: Counts,
    /// The number of kernels in relocatable code without a row, because the row of the linked kernel says the same.
    pub repeats: usize,
    /// The kernels that spill more than before.
    pub spills: SpillsByGpu,
}

/// The kernels of a pair of files that have rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKernels {
    /// All that differ.
    All,
    /// Kernels in relocatable code are left out if the rows of the linked kernels have the same numbers.
    WithoutRepeats,
}

/// The kernels that spill more than before, by GPU and by whether they are new. A new kernel is not in the old files.
pub type SpillsByGpu = BTreeMap<(Arc<str>, bool), SpillingKernels>;

/// Some kernels that spill more than before.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpillingKernels {
    /// Their number.
    pub kernels: usize,
    /// The kernel whose spills grew most.
    pub worst: KernelDiff,
}

impl KernelRows {
    /// Returns the rows of a pair of files: at most `top`.
    pub fn new(
        mut kernels: Vec<KernelDiff>,
        (top, listed): (usize, ListedKernels),
        demangle: DemangleName<'_>,
    ) -> Self {
        let mut rows = Self::default();
        // The numbers and the spills are about all kernels, also about the repeats that get no row.
        for kernel in &kernels {
            rows.numbers.add(kernel.change());
            if kernel.spills_more() {
                let is_new = kernel.old.is_none();
                let key = (Arc::clone(&kernel.gpu), is_new);
                add_spills(&mut rows.spills, key, SpillingKernels { kernels: 1, worst: kernel.clone() });
            }
        }
        if listed == ListedKernels::WithoutRepeats {
            let all = kernels.len();
            kernels = without_repeats(kernels);
            rows.repeats = all - kernels.len();
        }
        kernels.sort_by_cached_key(|kernel| Reverse(severity(kernel)));
        kernels.truncate(top);
        let names = shown_names(kernels.iter().map(|kernel| &kernel.name), demangle);
        for diff in kernels {
            let name = names.get(&diff.name).cloned().unwrap_or_default();
            rows.kept.push(KernelRow { diff, name });
        }
        rows
    }

    /// Adds the rows of other files. [`keep_first`](Self::keep_first) sorts them in the end.
    pub fn add(&mut self, more: Self, top: usize) {
        self.kept.extend(more.kept);
        self.repeats += more.repeats;
        // Dropping rows only when at least half of them can go keeps the time for sorting low.
        if self.kept.len() / 2 > top.max(ROWS_BETWEEN_SORTS) {
            self.keep_first(top);
        }
    }

    /// Keeps the first `top` rows.
    pub fn keep_first(&mut self, top: usize) {
        self.kept.sort_by_cached_key(|row| Reverse(severity(&row.diff)));
        self.kept.truncate(top);
    }
}

/// The library of a kernel, its GPU and its name.
type KernelKey<'k> = (&'k Path, &'k [Step], &'k str, &'k [u8]);

/// Returns the library, the GPU and the name of a kernel, with the section of its code object. Returns `None` if the
/// code object is in no section.
fn key_in_section(kernel: &KernelDiff) -> Option<(KernelKey<'_>, &[u8])> {
    let place = &kernel.code_object.bundle.place;
    let (Step::Section(section), library) = place.steps().split_last()? else { return None };
    Some(((place.file(), library, &*kernel.gpu, &*kernel.name), section))
}

/// Returns whether the row of a kernel in relocatable code has nothing that the row of the linked kernel does not have.
/// Linking determines scratch and shared memory, so relocatable code does not have these numbers.
fn repeats_linked(relocatable: &KernelDiff, linked: &KernelDiff) -> bool {
    if relocatable.change() != linked.change() {
        return false;
    }
    for column in &NUMBERS {
        let [old, new] = old_and_new(column, relocatable);
        let is_known_after_linking = column.title == SCRATCH.title || column.title == LDS.title;
        let says_more = old != new && [old, new] != old_and_new(column, linked);
        if says_more && !is_known_after_linking {
            return false;
        }
    }
    true
}

/// Returns the number of a kernel in the old file, and that in the new file.
fn old_and_new(column: &KernelColumn, kernel: &KernelDiff) -> [Option<u64>; 2] {
    [column.number_of(kernel.old.as_ref()), column.number_of(kernel.new.as_ref())]
}

/// Leaves out kernels in relocatable code if the rows of the same kernels in the linked code of the library say the
/// same. Several kernels of the same name are compared in their order.
fn without_repeats(kernels: Vec<KernelDiff>) -> Vec<KernelDiff> {
    let mut linked: HashMap<KernelKey<'_>, VecDeque<&KernelDiff>> = HashMap::new();
    for kernel in &kernels {
        if let Some((key, section)) = key_in_section(kernel)
            && !is_relocatable_code(section)
        {
            linked.entry(key).or_default().push_back(kernel);
        }
    }
    let mut is_repeat = Vec::with_capacity(kernels.len());
    for kernel in &kernels {
        let mut counterpart = None;
        if let Some((key, section)) = key_in_section(kernel)
            && is_relocatable_code(section)
            && let Some(linked) = linked.get_mut(&key)
        {
            // The next kernel of this name is compared with the next linked one.
            counterpart = linked.pop_front();
        }
        is_repeat.push(match counterpart {
            Some(linked) => repeats_linked(kernel, linked),
            None => false,
        });
    }
    let mut kept = Vec::new();
    for (kernel, is_repeat) in kernels.into_iter().zip(is_repeat) {
        if !is_repeat {
            kept.push(kernel);
        }
    }
    kept
}

/// Adds kernels that spill more, and keeps the kernel whose spills grew most. `key` is their GPU, and whether the
/// kernels are new.
pub(super) fn add_spills(spills: &mut SpillsByGpu, key: (Arc<str>, bool), more: SpillingKernels) {
    match spills.entry(key) {
        Entry::Vacant(free) => {
            free.insert(more);
        }
        Entry::Occupied(known) => {
            let all = known.into_mut();
            all.kernels += more.kernels;
            if added_spills(&all.worst) < added_spills(&more.worst) {
                all.worst = more.worst;
            }
        }
    }
}

/// Returns the number of registers that a kernel spills more than before; all of them if the kernel is new.
fn added_spills(kernel: &KernelDiff) -> i128 {
    let [old, new] = [&kernel.old, &kernel.new].map(|kernel| match kernel {
        Some(kernel) => i128::from(spills(kernel)),
        None => 0,
    });
    new - old
}

/// Returns the key that sorts kernels: kernels of both files that became worse, then added kernels with spills or
/// scratch memory, then the rest.
fn severity(kernel: &KernelDiff) -> (bool, [i128; 5]) {
    let growth = worsening(kernel);
    let is_in_both = kernel.old.is_some() && kernel.new.is_some();
    // The most important number that changed decides.
    let is_worse = growth > [0; 5];
    (is_in_both && is_worse, growth)
}

/// Returns the growth of each number of a kernel for which more is worse, the most important number first. An added
/// kernel has nothing to grow from: only its spills and its scratch memory count, which are bad in themselves. A
/// removed kernel has no growth.
fn worsening(kernel: &KernelDiff) -> [i128; 5] {
    let (old, new) = match (&kernel.old, &kernel.new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(new)) => return [i128::from(spills(new)), new.scratch.unwrap_or_default().into(), 0, 0, 0],
        _ => return [0; 5],
    };
    [
        added_spills(kernel),
        growth(old.scratch, new.scratch),
        growth(old.vgprs, new.vgprs),
        growth(old.lds, new.lds),
        growth(old.code_size, new.code_size),
    ]
}

/// Returns the growth of a number, or 0 if the number of one of the files is not recorded.
fn growth<N: Into<i128>>(old: Option<N>, new: Option<N>) -> i128 {
    match (old, new) {
        (Some(old), Some(new)) => new.into() - old.into(),
        _ => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::beyond::code::kernels::Kernel;
    use crate::beyond::inventory::tests::place;
    use crate::beyond::scan::CodeObject;

    /// Returns a kernel that spills these numbers of registers before and now. `None` means that it is not there.
    pub(in super::super) fn kernel(name: &str, old: Option<u32>, new: Option<u32>) -> KernelDiff {
        let name: Arc<[u8]> = name.as_bytes().into();
        let of = |spills| Kernel { name: Arc::clone(&name), vgpr_spills: Some(spills), ..Kernel::default() };
        let code_object = Arc::new(CodeObject::in_bundle(place("a"), "hip-amdgcn-amd-amdhsa--gfx906"));
        KernelDiff { gpu: "gfx906".into(), code_object, old: old.map(of), new: new.map(of), name: Arc::clone(&name) }
    }

    /// Returns the rows of kernels that one file of several has, as they are shown together.
    fn rows(files: Vec<Vec<KernelDiff>>, top: usize) -> KernelRows {
        let mut all = KernelRows::default();
        for kernels in files {
            all.add(KernelRows::new(kernels, (top, ListedKernels::WithoutRepeats), &|_| None), top);
        }
        all.keep_first(top);
        all
    }

    fn names(rows: &KernelRows) -> Vec<String> {
        rows.kept.iter().map(|row| row.name.to_string()).collect()
    }

    #[test]
    fn kernels_that_got_worse_come_first_over_all_files() {
        let changed = |name: &str, change: fn(&mut Kernel)| {
            let mut diff = kernel(name, Some(10), Some(10));
            for side in [&mut diff.old, &mut diff.new].into_iter().flatten() {
                (side.vgprs, side.scratch, side.lds, side.code_size) = (Some(10), Some(10), Some(10), Some(100));
            }
            change(diff.new.as_mut().unwrap());
            diff
        };
        let kernels = vec![
            kernel("gone", Some(9), None),
            kernel("clean", None, Some(0)),
            kernel("new", None, Some(5)),
            changed("code", |kernel| kernel.code_size = Some(101)),
            // The most important number that changed decides.
            changed("less", |kernel| (kernel.vgpr_spills, kernel.scratch) = (Some(9), Some(99))),
            changed("lds", |kernel| kernel.lds = Some(11)),
            changed("registers", |kernel| kernel.vgprs = Some(11)),
            changed("scratch", |kernel| kernel.scratch = Some(11)),
            changed("spills", |kernel| kernel.vgpr_spills = Some(11)),
            changed("unknown", |kernel| kernel.scratch = None),
        ];
        let expected = ["spills", "scratch", "registers", "lds", "code", "new", "gone", "clean", "unknown", "less"];
        let split = kernels.iter().cloned().map(|kernel| vec![kernel]).collect::<Vec<_>>();
        for files in [vec![kernels.clone()], split] {
            for top in [0, 1, 3, 10, usize::MAX] {
                assert_eq!(names(&rows(files.clone(), top)), &expected[..top.min(10)], "{top}");
            }
        }
        let numbers = KernelRows::new(kernels, (2, ListedKernels::All), &|_| None).numbers;
        assert_eq!((numbers.changed, numbers.added, numbers.removed), (7, 2, 1));
    }

    #[test]
    fn many_rows_are_dropped_before_the_last_file() {
        let mut all = KernelRows::default();
        for file in 0..2000 {
            let more = vec![kernel(&format!("k{file}"), Some(0), Some(1 + file * 7 % 2000))];
            all.add(KernelRows::new(more, (3, ListedKernels::All), &|_| None), 3);
            assert!(all.kept.len() / 2 <= ROWS_BETWEEN_SORTS);
        }
        all.keep_first(3);
        let worst = all.kept.iter().map(|row| row.diff.new.as_ref().unwrap().vgpr_spills.unwrap());
        assert_eq!(worst.collect::<Vec<_>>(), [2000, 1999, 1998]);
    }
}
