//! Limits on the cost of a search. A file of a few kilobytes can name the same bytes repeatedly, or inflate to
//! gigabytes when nested.

use super::place::{Place, PlaceOrigin};
use crate::base::bytes::{add, len_u64, to_u64, total};
use crate::beyond::code::CodeMagic;
use crate::beyond::container::{Bundle, ContentKind, Magic};
use crate::beyond::limits::{FOUND_MAX, FOUND_NAMES_MAX, SEARCHED_MAX};
use crate::llvm::container::Limits;
use crate::llvm::container::limits::Allowance;

/// The minimum number of bytes that a nested compressed container costs: starting a decoder takes time too, however
/// little it inflates.
const INFLATED_MIN: u64 = 64 << 10;

/// The bytes, findings and names that a search may still cost.
#[derive(Clone)]
pub(crate) struct Budget {
    limits: Limits,
    /// The number of bytes to read or inflate.
    bytes: Allowance,
    /// The number of bundles, code objects and faults that are reported.
    findings: Allowance,
    /// The number of bytes of names in the reported places and entry IDs.
    names: Allowance,
    /// Whether the walk reads nothing more: a limit is exceeded, the visitor broke off, or the goal was reached.
    pub(super) is_over: bool,
}

/// An exceeded limit: the noun for the counted units in the error, and the limit.
pub(crate) type ExceededLimit = (&'static str, u64);

impl Budget {
    /// Returns the budget for a file of `len` bytes: the limits on bytes to read and on names grow with the file.
    pub(crate) fn new(limits: Limits, len: u64) -> Self {
        let bytes = limits.nested.max(len.saturating_mul(SEARCHED_MAX));
        let [bytes, findings, names] = [bytes, FOUND_MAX, FOUND_NAMES_MAX.saturating_add(len)].map(Allowance::new);
        Self { limits, bytes, findings, names, is_over: false }
    }

    /// Raises the limits for another file of `len` bytes, which the searched file names.
    pub(super) fn add_file(&mut self, len: u64) {
        self.bytes.add(len.saturating_mul(SEARCHED_MAX));
        self.names.add(len);
    }

    /// Charges all that was charged to `part`, the new budget that a part of the job started with. Returns `None`, and
    /// charges nothing, if less than that is left.
    #[must_use]
    pub(crate) fn charge_part(&mut self, part: &Self) -> Option<()> {
        let cost = |allowance: &Allowance| allowance.most().saturating_sub(allowance.left);
        let (mut bytes, mut findings, mut names) = (self.bytes, self.findings, self.names);
        bytes.take(cost(&part.bytes))?;
        findings.take(cost(&part.findings))?;
        names.take(cost(&part.names))?;
        (self.bytes, self.findings, self.names) = (bytes, findings, names);
        Some(())
    }

    /// Charges `bytes` to read.
    pub(crate) fn charge_bytes(&mut self, bytes: u64) -> Result<(), ExceededLimit> {
        self.bytes.take(bytes).ok_or(("bytes to read", self.bytes.most()))
    }

    /// The number of bytes that may still be read.
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes.left
    }

    /// Charges `count` bundles, code objects and faults.
    pub(super) fn charge_findings(&mut self, count: u64) -> Result<(), ExceededLimit> {
        self.findings.take(count).ok_or(("bundles, code objects and faults", self.findings.most()))
    }

    /// Charges `bytes` of names.
    pub(super) fn charge_names(&mut self, bytes: u64) -> Result<(), ExceededLimit> {
        self.names.take(bytes).ok_or(("bytes of names", self.names.most()))
    }

    /// Charges a bundle that a job reads without a walk: its entries, their IDs, and the inflated sizes of entries that
    /// are compressed one by one.
    pub(crate) fn charge_bundle(&mut self, bundle: &Bundle<'_>) -> Result<(), ExceededLimit> {
        self.charge_bytes(ids_len(bundle, WHOLE_ID).saturating_add(bundle.inflated_len_of_packed()))?;
        self.charge_findings(findings_in(bundle))
    }

    /// Returns the limits for a compressed container at a place. In the file itself, the limits of the search apply to
    /// each container alone. In inflated data, where containers multiply, the rest of the budget is a limit too.
    pub(super) fn limits_at(&self, place: &Place) -> Limits {
        match place.origin() {
            PlaceOrigin::File(_) => self.limits,
            PlaceOrigin::Inflated => self.limits_inside(),
        }
    }

    /// Returns the limits for a compressed container inside another one.
    fn limits_inside(&self) -> Limits {
        Limits { inflated: self.limits.inflated.min(self.bytes.left), ..self.limits }
    }

    /// Returns the cost of inflating a compressed container to `bytes`. In the file itself the cost is 0, because only
    /// nested containers multiply. In inflated data the cost is at least [`INFLATED_MIN`], because many small
    /// containers take time too.
    pub(super) fn cost_of_inflating(place: &Place, bytes: u64) -> u64 {
        match place.origin() {
            PlaceOrigin::File(_) => 0,
            PlaceOrigin::Inflated => bytes.max(INFLATED_MIN),
        }
    }
}

/// The maximum for [`ids_len`] that cuts no ID.
pub(super) const WHOLE_ID: usize = usize::MAX;

/// Returns the total length of the IDs of a bundle, in bytes. Of a longer ID, only `id_max` bytes count.
pub(super) fn ids_len(bundle: &Bundle<'_>, id_max: usize) -> u64 {
    total(bundle.entries.iter().map(|entry| len_u64(entry.id().get(..id_max).unwrap_or(entry.id()))))
}

/// Returns the number of bytes after the first ones that may be read to find the targets of the code objects of a
/// bundle. Only an ELF file for an Intel GPU costs more than its first bytes: it names the GPU in a section.
pub(super) fn targets_len(bundle: &Bundle<'_>) -> u64 {
    let mut len = 0;
    for (index, entry) in bundle.entries.iter().enumerate() {
        if let Some(head) = bundle.head(index, ContentKind::HEAD_LEN)
            && Magic::identify(head) == Magic::Code(CodeMagic::IntelGpu)
        {
            add(&mut len, entry.size());
        }
    }
    len
}

/// Returns the number of findings in a bundle: the bundle and its code objects.
pub(super) fn findings_in(bundle: &Bundle<'_>) -> u64 {
    to_u64(bundle.entries.len()).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::place::Step;
    use super::*;

    #[test]
    fn a_budget_is_that_of_the_file_or_of_the_limits() {
        let limits = Limits { inflated: 1000, nested: 100, streamed: None };
        let mut budget = Budget::new(limits, 0);
        assert_eq!((budget.charge_bytes(100), budget.charge_bytes(1)), (Ok(()), Err(("bytes to read", 100))));
        budget.add_file(2);
        assert_eq!(
            (budget.charge_bytes(2 * SEARCHED_MAX), budget.charge_bytes(1)),
            (Ok(()), Err(("bytes to read", 100 + 2 * SEARCHED_MAX)))
        );
        assert_eq!(Budget::new(limits, 2).charge_bytes(2 * SEARCHED_MAX), Ok(()));
        assert_eq!(budget.charge_findings(FOUND_MAX), Ok(()));
        assert_eq!(budget.charge_findings(1), Err(("bundles, code objects and faults", FOUND_MAX)));
        assert_eq!(budget.charge_names(FOUND_NAMES_MAX + 2), Ok(()));
        assert_eq!(budget.charge_names(1), Err(("bytes of names", FOUND_NAMES_MAX + 2)));
    }

    #[test]
    fn only_what_was_inflated_already_is_held_to_what_is_left() {
        let budget = Budget::new(Limits { inflated: 1000, nested: 100, streamed: None }, 0);
        let file = Place::of_file(Path::new("x"));
        let inside = file.join(Step::Embedded(0)).inflated();
        assert_eq!((budget.limits_at(&file).inflated, budget.limits_at(&inside).inflated), (1000, 100));
        assert_eq!((Budget::cost_of_inflating(&file, 9), Budget::cost_of_inflating(&inside, 9)), (0, INFLATED_MIN));
    }
}
