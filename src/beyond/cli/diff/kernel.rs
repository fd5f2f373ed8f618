//! The kernels that differ; kernels that got worse come first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::beyond::job::KernelDiff;
use crate::beyond::serialized::Counts;

use crate::beyond::cli::kernels::column::spills;
use crate::beyond::cli::kernels::report::demangled_names;

/// Kernels that differ, each with its name as it is shown. Kernels that got worse come first: they are compared by spills,
/// then scratch memory, registers, shared memory and code size.
#[derive(Debug, Default)]
pub(super) struct KernelRows {
    pub(super) kept: Vec<(KernelDiff, Arc<str>)>,
    /// The number of kernels that changed, were added and were removed.
    pub(super) numbers: Counts,
    /// The kernels that spill more than before.
    pub(super) spills: SpillsByGpu,
}

/// The kernels that spill more than before, by GPU, and whether they are new.
pub(super) type SpillsByGpu = BTreeMap<(Arc<str>, bool), SpillingKernels>;

/// Some kernels that spill more than before.
#[derive(Clone, Debug)]
pub(super) struct SpillingKernels {
    pub(super) kernels: usize,
    /// The kernel whose spills grew most.
    pub(super) worst: KernelDiff,
}

/// The number of kernels that a table keeps in memory in addition to the shown ones.
const SPARE: usize = 256;

impl KernelRows {
    /// The rows of a pair of files: at most `top`.
    pub(super) fn new(mut kernels: Vec<KernelDiff>, top: usize) -> Self {
        let mut rows = Self::default();
        for kernel in &kernels {
            rows.numbers.add(kernel.change());
            if kernel.spills_more() {
                let key = (Arc::clone(&kernel.gpu), kernel.old.is_none());
                add_spills(&mut rows.spills, key, SpillingKernels { kernels: 1, worst: kernel.clone() });
            }
        }
        kernels.sort_by_cached_key(|kernel| Reverse(worsening(kernel)));
        kernels.truncate(top);
        let names = demangled_names(kernels.iter().map(|kernel| &kernel.name), None);
        for kernel in kernels {
            let name = names.get(&kernel.name).cloned().unwrap_or_default();
            rows.kept.push((kernel, name));
        }
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

fn added_spills(kernel: &KernelDiff) -> i128 {
    let [old, new] = [&kernel.old, &kernel.new].map(|kernel| match kernel {
        Some(kernel) => i128::from(spills(kernel)),
        None => 0,
    });
    new - old
}

/// The numbers of a kernel that got worse, each with its growth. An added kernel counts with its spills and scratch
/// memory, a removed one not at all.
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

fn growth<N: Into<i128>>(old: Option<N>, new: Option<N>) -> i128 {
    match (old, new) {
        (Some(old), Some(new)) => new.into() - old.into(),
        _ => 0,
    }
}
