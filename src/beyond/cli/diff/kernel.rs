//! The kernels that differ, the ones that got worse first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::beyond::code::kernels::Kernel;
use crate::beyond::job::KernelDiff;
use crate::beyond::serialized::Counts;

use crate::beyond::cli::kernels::column::spills;
use crate::beyond::cli::kernels::report::demangled_names;

/// Kernels that differ, each with its name as it is shown. They are sorted: those that got worse in the first of
/// spills, scratch memory, registers, shared memory and code size come first.
#[derive(Debug, Default)]
pub(super) struct KernelRows {
    pub(super) kept: Vec<(KernelDiff, Arc<str>)>,
    /// The number of kernels that changed, were added and were removed.
    pub(super) numbers: Counts,
    /// How the kernels of each GPU spill.
    pub(super) spills: Spills,
}

/// The kernels that spill more than before, by GPU, and whether the old file does not have them.
pub(super) type Spills = BTreeMap<(Arc<str>, bool), Spilling>;

/// Some kernels that spill more than before.
#[derive(Clone, Debug)]
pub(super) struct Spilling {
    pub(super) kernels: usize,
    /// One of those that spill most more.
    pub(super) worst: KernelDiff,
}

/// The kernels that a table keeps in memory beyond those that it shows.
const SPARE: usize = 256;

impl KernelRows {
    /// The rows of a pair of files: at most `top`.
    pub(super) fn new(mut kernels: Vec<KernelDiff>, top: usize) -> Self {
        let mut rows = Self::default();
        for kernel in &kernels {
            rows.numbers.add(kernel.change());
            if kernel.spills_more() {
                let key = (Arc::clone(&kernel.gpu), kernel.old.is_none());
                add_spills(&mut rows.spills, key, Spilling { kernels: 1, worst: kernel.clone() });
            }
        }
        kernels.sort_by_cached_key(|kernel| Reverse(worsening(kernel)));
        kernels.truncate(top);
        let names = demangled_names(kernels.iter().map(|kernel| &kernel.name), None);
        let named = |kernel: KernelDiff| {
            let name = names.get(&kernel.name).cloned().unwrap_or_default();
            (kernel, name)
        };
        rows.kept = kernels.into_iter().map(named).collect();
        rows
    }

    /// Adds the rows of other files.
    pub(super) fn add(&mut self, more: Self, top: usize) {
        self.kept.extend(more.kept);
        // Sorting at every file would take time for each of them.
        if self.kept.len() / 2 > top.max(SPARE) {
            self.keep(top);
        }
    }

    /// Keeps the first `top` rows.
    pub(super) fn keep(&mut self, top: usize) {
        self.kept.sort_by_cached_key(|(kernel, _)| Reverse(worsening(kernel)));
        self.kept.truncate(top);
    }
}

/// Adds kernels of a GPU.
pub(super) fn add_spills(spills: &mut Spills, key: (Arc<str>, bool), more: Spilling) {
    let Some(all) = spills.get_mut(&key) else { return drop(spills.insert(key, more)) };
    all.kernels += more.kernels;
    if more_spills(&all.worst) < more_spills(&more.worst) {
        all.worst = more.worst;
    }
}

fn more_spills(kernel: &KernelDiff) -> i128 {
    let spills = |kernel: &Option<Kernel>| kernel.as_ref().map_or(0, |kernel| i128::from(spills(kernel)));
    spills(&kernel.new) - spills(&kernel.old)
}

/// By how much a kernel got worse. An added kernel got worse by what it spills, and a removed one not at all.
fn worsening(kernel: &KernelDiff) -> [i128; 5] {
    let (old, new) = match (&kernel.old, &kernel.new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(new)) => return [i128::from(spills(new)), new.scratch.unwrap_or_default().into(), 0, 0, 0],
        _ => return [0; 5],
    };
    let more = |number: fn(&Kernel) -> Option<u64>| match (number(old), number(new)) {
        (Some(old), Some(new)) => i128::from(new) - i128::from(old),
        _ => 0,
    };
    [
        more_spills(kernel),
        more(|kernel| kernel.scratch.map(u64::from)),
        more(|kernel| kernel.vgprs.map(u64::from)),
        more(|kernel| kernel.lds.map(u64::from)),
        more(|kernel| kernel.code_size),
    ]
}
