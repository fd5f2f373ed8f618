//! The kernels that differ, the ones that got worse first.

use std::cmp::Reverse;
use std::collections::HashMap;
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
    pub(super) spills: HashMap<Arc<str>, Spills>,
}

/// The kernels of a GPU that spill more than before.
#[derive(Clone, Debug, Default)]
pub(super) struct Spills {
    pub(super) changed: usize,
    /// Kernels that the old file does not have.
    pub(super) added: usize,
    /// One of the changed kernels, and one of the added ones: those that spill most more.
    pub(super) worst: [Option<KernelDiff>; 2],
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
                rows.spills.entry(Arc::clone(&kernel.gpu)).or_default().count(kernel);
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

impl Spills {
    fn count(&mut self, kernel: &KernelDiff) {
        let is_added = kernel.old.is_none();
        let number = if is_added { &mut self.added } else { &mut self.changed };
        *number += 1;
        self.keep(kernel);
    }

    fn keep(&mut self, kernel: &KernelDiff) {
        let [changed, added] = &mut self.worst;
        let worst = if kernel.old.is_none() { added } else { changed };
        if worst.as_ref().is_none_or(|worst| more_spills(worst) < more_spills(kernel)) {
            *worst = Some(kernel.clone());
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.changed += more.changed;
        self.added += more.added;
        more.worst.iter().flatten().for_each(|kernel| self.keep(kernel));
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
