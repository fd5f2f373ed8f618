//! The columns of the table, and the orders of kernels.

use std::cmp::Ordering;

use crate::beyond::code::kernels::Kernel;

use super::row::NamedKernel;

/// A column with a number that code objects record for kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelColumn {
    pub(crate) title: &'static str,
    /// The number of a kernel, if it is recorded.
    pub(crate) number: fn(&Kernel) -> Option<u64>,
    /// Whether the column says yes or no: yes for any number.
    pub(crate) is_flag: bool,
}

const fn number(title: &'static str, number: fn(&Kernel) -> Option<u64>) -> KernelColumn {
    KernelColumn { title, number, is_flag: false }
}

const fn flag(title: &'static str, number: fn(&Kernel) -> Option<u64>) -> KernelColumn {
    KernelColumn { title, number, is_flag: true }
}

fn one_if_true(flag: Option<bool>) -> Option<u64> {
    if flag == Some(true) { Some(1) } else { None }
}

const VGPR: KernelColumn = number("VGPR", |kernel| kernel.vgprs.map(u64::from));
const AGPR: KernelColumn = number("AGPR", |kernel| kernel.agprs.map(u64::from));
const SGPR: KernelColumn = number("SGPR", |kernel| kernel.sgprs.map(u64::from));
const VSPILL: KernelColumn = number("VSPILL", |kernel| kernel.vgpr_spills.map(u64::from));
const SSPILL: KernelColumn = number("SSPILL", |kernel| kernel.sgpr_spills.map(u64::from));
pub(crate) const SCRATCH: KernelColumn = number("SCRATCH", |kernel| kernel.scratch.map(u64::from));
const LDS: KernelColumn = number("LDS", |kernel| kernel.lds.map(u64::from));
const KERNARG: KernelColumn = number("KERNARG", |kernel| kernel.kernarg.map(u64::from));
const GROUP: KernelColumn = number("GROUP", |kernel| kernel.max_workgroup.map(u64::from));
const CODE: KernelColumn = number("CODE", |kernel| kernel.code_size);

/// The columns with numbers, in the order of the table.
pub(crate) const NUMBERS: [KernelColumn; 10] = [VGPR, AGPR, SGPR, VSPILL, SSPILL, SCRATCH, LDS, KERNARG, GROUP, CODE];

/// The columns after the numbers, which say yes for some kernels.
pub(crate) const FLAGS: [KernelColumn; 2] = [
    flag("DYNSTACK", |kernel| one_if_true(kernel.dynamic_stack)),
    flag("HOSTCALL", |kernel| one_if_true(kernel.hostcall)),
];

impl KernelColumn {
    /// The name on the command line.
    pub(crate) fn name(&self) -> String {
        self.title.to_ascii_lowercase()
    }

    /// The number of a kernel, if there is a kernel and its number is recorded.
    pub(crate) fn number_of(&self, kernel: Option<&Kernel>) -> Option<u64> {
        (self.number)(kernel?)
    }
}

/// The number of spilled registers of a kernel.
pub(crate) fn spills(kernel: &Kernel) -> u64 {
    [kernel.vgpr_spills, kernel.sgpr_spills].into_iter().flatten().map(u64::from).sum()
}

/// The key that sorts kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SortKey {
    Name,
    Gpu,
    /// One number, then another.
    Numbers(KernelColumn, KernelColumn),
}

/// The keys, by their names on the command line.
const KEYS: [(&str, SortKey); 11] = [
    ("name", SortKey::Name),
    ("gpu", SortKey::Gpu),
    ("vgpr", SortKey::Numbers(VGPR, AGPR)),
    ("agpr", SortKey::Numbers(AGPR, VGPR)),
    ("sgpr", SortKey::Numbers(SGPR, VGPR)),
    ("spills", SortKey::Numbers(VSPILL, SSPILL)),
    ("scratch", SortKey::Numbers(SCRATCH, VSPILL)),
    ("lds", SortKey::Numbers(LDS, VGPR)),
    ("kernarg", SortKey::Numbers(KERNARG, CODE)),
    ("group", SortKey::Numbers(GROUP, VGPR)),
    ("code", SortKey::Numbers(CODE, VGPR)),
];

impl SortKey {
    pub(super) fn names() -> [&'static str; 11] {
        KEYS.map(|(name, _)| name)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
    }

    /// The order of two kernels: names and GPUs ascend, numbers descend, and kernels without a number come last.
    pub(super) fn compare(self, a: &NamedKernel, b: &NamedKernel) -> Ordering {
        match self {
            Self::Name => a.name.cmp(&b.name),
            Self::Gpu => a.gpu.cmp(&b.gpu),
            Self::Numbers(first, then) => {
                let [a, b] = [a, b].map(|row| ((first.number)(&row.kernel), (then.number)(&row.kernel)));
                b.cmp(&a)
            }
        }
    }
}
