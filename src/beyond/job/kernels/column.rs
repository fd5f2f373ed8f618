//! The numbers of kernels, each a column of tables, and the orders of kernels by them.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::row::NamedKernel;
use crate::beyond::code::kernels::Kernel;

/// A column with a number that code objects record for kernels.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KernelColumn {
    /// The title in tables.
    pub title: &'static str,
    /// Returns the number of a kernel, or `None` if it is not recorded.
    pub number: fn(&Kernel) -> Option<u64>,
    /// Whether the column has `yes` for each kernel with a number.
    pub is_flag: bool,
    /// Whether the number is in bytes.
    pub is_size: bool,
}

const fn number(title: &'static str, number: fn(&Kernel) -> Option<u64>) -> KernelColumn {
    KernelColumn { title, number, is_flag: false, is_size: false }
}

const fn flag(title: &'static str, number: fn(&Kernel) -> Option<u64>) -> KernelColumn {
    KernelColumn { title, number, is_flag: true, is_size: false }
}

const fn size(title: &'static str, number: fn(&Kernel) -> Option<u64>) -> KernelColumn {
    KernelColumn { title, number, is_flag: false, is_size: true }
}

fn one_if_true(flag: Option<bool>) -> Option<u64> {
    if flag == Some(true) { Some(1) } else { None }
}

const VGPR: KernelColumn = number("VGPR", |kernel| kernel.vgprs.map(u64::from));
const AGPR: KernelColumn = number("AGPR", |kernel| kernel.agprs.map(u64::from));
const SGPR: KernelColumn = number("SGPR", |kernel| kernel.sgprs.map(u64::from));
const VSPILL: KernelColumn = number("VSPILL", |kernel| kernel.vgpr_spills.map(u64::from));
const SSPILL: KernelColumn = number("SSPILL", |kernel| kernel.sgpr_spills.map(u64::from));
pub(in super::super) const SCRATCH: KernelColumn = size("SCRATCH", |kernel| kernel.scratch.map(u64::from));
pub(in super::super) const LDS: KernelColumn = size("LDS", |kernel| kernel.lds.map(u64::from));
const KERNARG: KernelColumn = size("KERNARG", |kernel| kernel.kernarg.map(u64::from));
const GROUP: KernelColumn = number("GROUP", |kernel| kernel.max_workgroup.map(u64::from));
const CODE: KernelColumn = size("CODE", |kernel| kernel.code_size);

/// The columns with numbers, in the order of the table.
pub const NUMBERS: [KernelColumn; 10] = [VGPR, AGPR, SGPR, VSPILL, SSPILL, SCRATCH, LDS, KERNARG, GROUP, CODE];

/// The columns after the numbers. A flag is recorded as the number 1, and shown as `yes`.
pub const FLAGS: [KernelColumn; 2] = [
    flag("DYNSTACK", |kernel| one_if_true(kernel.dynamic_stack)),
    flag("HOSTCALL", |kernel| one_if_true(kernel.hostcall)),
];

impl KernelColumn {
    /// Returns the name on the command line.
    pub fn name(&self) -> String {
        self.title.to_ascii_lowercase()
    }

    /// Returns the number of a kernel, or `None` if there is no kernel or its number is not recorded.
    pub fn number_of(&self, kernel: Option<&Kernel>) -> Option<u64> {
        (self.number)(kernel?)
    }
}

/// Returns the number of spilled registers of a kernel.
pub(in super::super) fn spills(kernel: &Kernel) -> u64 {
    [kernel.vgpr_spills, kernel.sgpr_spills].into_iter().flatten().map(u64::from).sum()
}

/// A key that sorts kernels.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// The name on the command line.
    name: &'static str,
    order: SortOrder,
}

/// The order of kernels that a key gives.
#[derive(Clone, Copy, Debug)]
enum SortOrder {
    Name,
    Gpu,
    /// By the first number, and kernels with the same first number by the second.
    Numbers(KernelColumn, KernelColumn),
}

const fn by(name: &'static str, order: SortOrder) -> SortKey {
    SortKey { name, order }
}

const SPILLS: SortKey = by("spills", SortOrder::Numbers(VSPILL, SSPILL));

/// The keys, in the order of messages.
const KEYS: [SortKey; 11] = [
    by("name", SortOrder::Name),
    by("gpu", SortOrder::Gpu),
    by("vgpr", SortOrder::Numbers(VGPR, AGPR)),
    by("agpr", SortOrder::Numbers(AGPR, VGPR)),
    by("sgpr", SortOrder::Numbers(SGPR, VGPR)),
    SPILLS,
    by("scratch", SortOrder::Numbers(SCRATCH, VSPILL)),
    by("lds", SortOrder::Numbers(LDS, VGPR)),
    by("kernarg", SortOrder::Numbers(KERNARG, CODE)),
    by("group", SortOrder::Numbers(GROUP, VGPR)),
    by("code", SortOrder::Numbers(CODE, VGPR)),
];

impl SortKey {
    /// Returns the names of all keys on the command line, in the order of messages.
    pub fn names() -> [&'static str; 11] {
        KEYS.map(|key| key.name)
    }

    /// Returns the key with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        KEYS.into_iter().find(|key| key.name == name)
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Compares two kernels: names and GPUs ascend, numbers descend, and kernels without a number come last.
    pub(super) fn compare(self, a: &NamedKernel, b: &NamedKernel) -> Ordering {
        match self.order {
            SortOrder::Name => a.name.cmp(&b.name),
            SortOrder::Gpu => a.code.gpu.cmp(&b.code.gpu),
            SortOrder::Numbers(first, then) => {
                let [a, b] = [a, b].map(|row| ((first.number)(&row.kernel), (then.number)(&row.kernel)));
                // `None` is less than any number.
                b.cmp(&a)
            }
        }
    }

    /// Returns whether the key sorts by this column first.
    pub fn sorts_by(self, column: &KernelColumn) -> bool {
        match self.order {
            SortOrder::Numbers(first, _) => first.title == column.title,
            SortOrder::Name | SortOrder::Gpu => false,
        }
    }

    /// Returns whether a kernel records the number of this key.
    fn is_recorded(self, kernel: &Kernel) -> bool {
        match self.order {
            SortOrder::Name | SortOrder::Gpu => true,
            SortOrder::Numbers(first, then) => {
                // Either kind of spills will do. For other keys, the second number only orders equal kernels.
                (first.number)(kernel).is_some() || (self.name == SPILLS.name && (then.number)(kernel).is_some())
            }
        }
    }
}

/// The names of the keys whose numbers some kernels record.
#[derive(Clone, Debug, Default)]
pub struct RecordedKeys(BTreeSet<&'static str>);

impl RecordedKeys {
    /// Returns the keys whose numbers at least one of the kernels records.
    pub(super) fn of_kernels(rows: &[NamedKernel]) -> Self {
        let mut names = BTreeSet::new();
        for key in KEYS {
            if rows.iter().any(|row| key.is_recorded(&row.kernel)) {
                names.insert(key.name);
            }
        }
        Self(names)
    }

    /// Adds the keys of other kernels.
    pub(super) fn add(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns whether a kernel records the number of this key, or there are no kernels.
    pub fn have(&self, key: SortKey) -> bool {
        self.0.is_empty() || self.0.contains(key.name)
    }

    /// Returns the names of the keys that kernels record, in the order of messages.
    pub fn names(&self) -> Vec<&'static str> {
        SortKey::names().into_iter().filter(|name| self.0.contains(name)).collect()
    }
}
