//! The columns of the table, and the orders of kernels.

use std::cmp::{Ordering, Reverse};

use offload_bundle::kernels::Kernel;

use super::report::Row;

/// A column with numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberColumn {
    pub(crate) title: &'static str,
    /// The number of a kernel, if it is recorded.
    pub(crate) of: fn(&Kernel) -> Option<u64>,
}

const VGPR: NumberColumn = NumberColumn { title: "VGPR", of: |kernel| kernel.vgprs.map(u64::from) };
const AGPR: NumberColumn = NumberColumn { title: "AGPR", of: |kernel| kernel.agprs.map(u64::from) };
const SGPR: NumberColumn = NumberColumn { title: "SGPR", of: |kernel| kernel.sgprs.map(u64::from) };
const VSPILL: NumberColumn = NumberColumn { title: "VSPILL", of: |kernel| kernel.vgpr_spills.map(u64::from) };
const SSPILL: NumberColumn = NumberColumn { title: "SSPILL", of: |kernel| kernel.sgpr_spills.map(u64::from) };
pub(crate) const SCRATCH: NumberColumn = NumberColumn { title: "SCRATCH", of: |kernel| kernel.scratch.map(u64::from) };
const LDS: NumberColumn = NumberColumn { title: "LDS", of: |kernel| kernel.lds.map(u64::from) };
const KERNARG: NumberColumn = NumberColumn { title: "KERNARG", of: |kernel| kernel.kernarg.map(u64::from) };
const GROUP: NumberColumn = NumberColumn { title: "GROUP", of: |kernel| kernel.max_workgroup.map(u64::from) };
const CODE: NumberColumn = NumberColumn { title: "CODE", of: |kernel| kernel.code_size };

/// The columns with numbers, in the order of the table.
pub(crate) const NUMBERS: [NumberColumn; 10] = [VGPR, AGPR, SGPR, VSPILL, SSPILL, SCRATCH, LDS, KERNARG, GROUP, CODE];

impl NumberColumn {
    /// The name on the command line.
    pub(crate) fn name(&self) -> String {
        self.title.to_ascii_lowercase()
    }
}

/// A column with what is true of some kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagColumn {
    pub(crate) title: &'static str,
    /// Whether it is true of a kernel, if that is recorded.
    pub(crate) of: fn(&Kernel) -> Option<bool>,
}

/// The columns with what is true of some kernels, after those with numbers.
pub(crate) const FLAGS: [FlagColumn; 2] = [
    FlagColumn { title: "DYNSTACK", of: |kernel| kernel.dynamic_stack },
    FlagColumn { title: "HOSTCALL", of: |kernel| kernel.hostcall },
];

/// The number of spilled registers of a kernel.
pub(crate) fn spills(kernel: &Kernel) -> u64 {
    [kernel.vgpr_spills, kernel.sgpr_spills].into_iter().flatten().map(u64::from).sum()
}

/// The key by which kernels are sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SortKey {
    Name,
    Gpu,
    /// One number, then another.
    Numbers(NumberColumn, NumberColumn),
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

    /// The order of two kernels: names and GPUs ascend, numbers descend, and what is not recorded comes last.
    pub(super) fn compare(self, a: &Row, b: &Row) -> Ordering {
        match self {
            Self::Name => a.name.cmp(&b.name),
            Self::Gpu => a.gpu.cmp(&b.gpu),
            Self::Numbers(first, then) => {
                let numbers = |row: &Row| Reverse(((first.of)(&row.kernel), (then.of)(&row.kernel)));
                numbers(a).cmp(&numbers(b))
            }
        }
    }
}
