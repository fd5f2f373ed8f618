//! The kernels that differ, the ones that got worse first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use offload_bundle::job::KernelDiff;
use offload_bundle::kernels::Kernel;
use offload_bundle::serialized::Counts;

use crate::cli::kernels::column::spills;
use crate::cli::kernels::report::demangled_names;

/// Kernels that differ, sorted: those that got worse in the first of spills, scratch memory, registers, shared memory
/// and code size come first.
#[derive(Debug, Default)]
pub(super) struct KernelRows {
    kept: Vec<KernelDiff>,
    /// The names as they are shown; of a table, they are demangled when it is written.
    names: HashMap<Arc<[u8]>, Arc<str>>,
    /// The number of kernels that changed, were added and were removed.
    pub(super) numbers: Counts,
    /// How the kernels of each GPU spill.
    pub(super) spills: Spills,
}

/// The kernels that spill more than before, by GPU, and whether they are [`New`].
pub(super) type Spills = BTreeMap<(Arc<str>, New), Spilling>;

/// Whether the old file does not have a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct New(pub(super) bool);

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
    /// The rows of a pair of files: at most `top`, with names if `is_named`.
    pub(super) fn new(kernels: Vec<KernelDiff>, top: usize, is_named: bool) -> Self {
        let mut rows = Self::default();
        for kernel in &kernels {
            rows.numbers.add(kernel.change());
            if kernel.spills_more() {
                let key = (Arc::clone(&kernel.gpu), New(kernel.old.is_none()));
                add_spills(&mut rows.spills, key, Spilling { kernels: 1, worst: kernel.clone() });
            }
        }
        rows.kept = kernels;
        rows.keep(top);
        if is_named {
            rows.name();
        }
        rows
    }

    /// Adds the rows of other files, of which at most `top` are kept.
    pub(super) fn add(&mut self, more: Self, top: usize) {
        self.kept.extend(more.kept);
        // Sorting at every file would take time for each of them.
        if self.kept.len() / 2 > top.max(SPARE) {
            self.keep(top);
        }
    }

    fn keep(&mut self, top: usize) {
        self.kept.sort_by_cached_key(|kernel| Reverse(worsening(kernel)));
        self.kept.truncate(top);
    }

    fn name(&mut self) {
        self.names = demangled_names(self.kept.iter().map(|kernel| &kernel.name), None);
    }

    /// The first `top` rows, with names.
    pub(super) fn finish(mut self, top: usize) -> Self {
        self.keep(top);
        self.name();
        self
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The rows, each with its name as it is shown.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&KernelDiff, &str)> {
        self.kept.iter().map(|kernel| (kernel, self.names.get(&kernel.name).map_or("", |name| name)))
    }
}

/// Adds kernels of a GPU.
pub(super) fn add_spills(spills: &mut Spills, key: (Arc<str>, New), more: Spilling) {
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
