//! The columns of the table, and the orders of kernels.

use std::cmp::{Ordering, Reverse};

use offload_bundle::kernels::Kernel;

use super::report::Row;

/// A column with numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Numbers {
    pub(in crate::cli) title: &'static str,
    /// The number of a kernel, if it is recorded.
    pub(in crate::cli) of: fn(&Kernel) -> Option<u64>,
}

const VGPR: Numbers = Numbers { title: "VGPR", of: |kernel| kernel.vgprs.map(u64::from) };
const AGPR: Numbers = Numbers { title: "AGPR", of: |kernel| kernel.agprs.map(u64::from) };
const SGPR: Numbers = Numbers { title: "SGPR", of: |kernel| kernel.sgprs.map(u64::from) };
const VSPILL: Numbers = Numbers { title: "VSPILL", of: |kernel| kernel.vgpr_spills.map(u64::from) };
const SSPILL: Numbers = Numbers { title: "SSPILL", of: |kernel| kernel.sgpr_spills.map(u64::from) };
const SCRATCH: Numbers = Numbers { title: "SCRATCH", of: |kernel| kernel.scratch.map(u64::from) };
const LDS: Numbers = Numbers { title: "LDS", of: |kernel| kernel.lds.map(u64::from) };
const KERNARG: Numbers = Numbers { title: "KERNARG", of: |kernel| kernel.kernarg.map(u64::from) };
const GROUP: Numbers = Numbers { title: "GROUP", of: |kernel| kernel.max_workgroup.map(u64::from) };
const CODE: Numbers = Numbers { title: "CODE", of: |kernel| kernel.code_size };

/// The columns with numbers, in the order of the table.
pub(in crate::cli) const NUMBERS: [Numbers; 10] =
    [VGPR, AGPR, SGPR, VSPILL, SSPILL, SCRATCH, LDS, KERNARG, GROUP, CODE];

/// The key by which kernels are sorted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    Name,
    Gpu,
    /// One number, then another.
    Numbers(Numbers, Numbers),
}

/// The keys, by their names on the command line.
const KEYS: [(&str, Key); 11] = [
    ("name", Key::Name),
    ("gpu", Key::Gpu),
    ("vgpr", Key::Numbers(VGPR, AGPR)),
    ("agpr", Key::Numbers(AGPR, VGPR)),
    ("sgpr", Key::Numbers(SGPR, VGPR)),
    ("spills", Key::Numbers(VSPILL, SSPILL)),
    ("scratch", Key::Numbers(SCRATCH, VSPILL)),
    ("lds", Key::Numbers(LDS, VGPR)),
    ("kernarg", Key::Numbers(KERNARG, CODE)),
    ("group", Key::Numbers(GROUP, VGPR)),
    ("code", Key::Numbers(CODE, VGPR)),
];

impl Key {
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
