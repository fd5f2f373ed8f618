//! What a search may cost. A few kilobytes can name the same bytes again and again, or inflate to gigabytes in one another.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::place::{Origin, Place};
use crate::container::Limits;

/// How often a search may go over the bytes of a file: no more than a few times where nothing shares bytes, and as often
/// as a member of a zip file may inflate to more than it is, of which the zeros of a recompressed library come near.
const TIMES: u64 = 1040;

/// The most bundles, code objects and faults of one search. Each takes some hundred bytes of memory of whoever tells them all.
const FOUND_MAX: u64 = 250_000;

/// What a compressed container costs at least, in bytes, however small it is.
const INFLATED_MIN: u64 = 64 << 10;

/// What is left.
pub(super) struct Budget {
    limits: Limits,
    /// In bytes that are looked at or inflated.
    bytes: u64,
    found: u64,
    bytes_max: u64,
    pub(super) is_spent: bool,
}

/// What was too much: how much there may be of what.
pub(super) type Spent = (&'static str, u64);

impl Budget {
    /// For a file of `len` bytes.
    pub(super) fn new(limits: Limits, len: u64) -> Self {
        let bytes = limits.nested.max(len.saturating_mul(TIMES));
        Self { limits, bytes, found: FOUND_MAX, bytes_max: bytes, is_spent: false }
    }

    /// Another file of `len` bytes belongs to the search.
    pub(super) fn add_file(&mut self, len: u64) {
        let more = len.saturating_mul(TIMES);
        (self.bytes, self.bytes_max) = (self.bytes.saturating_add(more), self.bytes_max.saturating_add(more));
    }

    /// Takes so many bytes.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Spent> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(("bytes", self.bytes_max))?;
        Ok(())
    }

    /// Takes the room for so many bundles, code objects and faults.
    pub(super) fn take_found(&mut self, count: u64) -> Result<(), Spent> {
        self.found = self.found.checked_sub(count).ok_or(("bundles, code objects and faults", FOUND_MAX))?;
        Ok(())
    }

    /// What a compressed container may inflate to. What lies in a file itself is measured by what it claims alone.
    pub(super) fn limits_at(&self, place: &Place) -> Limits {
        match place.origin() {
            Origin::File(_) => self.limits,
            Origin::Inflated => Limits { inflated: self.limits.inflated.min(self.bytes), ..self.limits },
        }
    }

    /// What it costs that a compressed container was inflated to so many bytes.
    pub(super) fn inflating(place: &Place, bytes: u64) -> u64 {
        match place.origin() {
            Origin::File(_) => 0,
            Origin::Inflated => bytes.max(INFLATED_MIN),
        }
    }
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
        assert_eq!((budget.take(100), budget.take(1)), (Ok(()), Err(("bytes", 100))));
        budget.add_file(2);
        assert_eq!((budget.take(2 * TIMES), budget.take(1)), (Ok(()), Err(("bytes", 100 + 2 * TIMES))));
        assert_eq!(Budget::new(limits, 2).take(2 * TIMES), Ok(()));
        assert_eq!(budget.take_found(FOUND_MAX), Ok(()));
        assert_eq!(budget.take_found(1), Err(("bundles, code objects and faults", FOUND_MAX)));
    }

    #[test]
    fn only_what_was_inflated_already_is_held_to_what_is_left() {
        let budget = Budget::new(Limits { inflated: 1000, nested: 100, streamed: None }, 0);
        let file = Place::of_file(Path::new("x"));
        let inside = file.join(Step::Embedded(0)).inflated();
        assert_eq!((budget.limits_at(&file).inflated, budget.limits_at(&inside).inflated), (1000, 100));
        assert_eq!((Budget::inflating(&file, 9), Budget::inflating(&inside, 9)), (0, INFLATED_MIN));
    }
}
