//! Limits on the cost of a search. A file of a few kilobytes can name the same bytes repeatedly, or inflate to
//! gigabytes when nested.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::found::ID_MAX;
use super::place::{Origin, Place};
use crate::bytes::len_u64;
use crate::container::Limits;
use crate::container::sequence::{Bundle, Bundles};
use crate::error::{Error, Malformed};

/// How often a search may read the bytes of a file. Files without shared bytes need a few passes. A member of a zip
/// file can inflate to this many times its size; the zeros of a recompressed library come near.
const TIMES: u64 = 1040;

/// The maximum number of bundles, code objects and faults of one search. Each takes some hundred bytes of memory in a
/// caller that prints all of them.
const FOUND_MAX: u64 = 250_000;

/// The maximum size of the names of all findings of one search, in bytes, beyond the length of the file: entry IDs and,
/// for each finding and each code object, the names on the path to it, which reports repeat.
const NAMES_MAX: u64 = 8 << 20;

/// The minimum cost of a compressed container, in bytes.
const INFLATED_MIN: u64 = 64 << 10;

/// The budget that is left.
pub(crate) struct Budget {
    limits: Limits,
    /// In bytes that are read or inflated.
    bytes: u64,
    found: u64,
    /// In bytes of names.
    names: u64,
    bytes_max: u64,
    names_max: u64,
    pub(super) is_spent: bool,
}

/// An exceeded limit: its unit and its value.
pub(crate) type Spent = (&'static str, u64);

impl Budget {
    /// The budget for a file of `len` bytes.
    pub(crate) fn new(limits: Limits, len: u64) -> Self {
        let bytes = limits.nested.max(len.saturating_mul(TIMES));
        let names = NAMES_MAX.saturating_add(len);
        Self { limits, bytes, found: FOUND_MAX, names, bytes_max: bytes, names_max: names, is_spent: false }
    }

    /// Adds another file of `len` bytes to the search.
    pub(super) fn add_file(&mut self, len: u64) {
        let more = len.saturating_mul(TIMES);
        (self.bytes, self.bytes_max) = (self.bytes.saturating_add(more), self.bytes_max.saturating_add(more));
        (self.names, self.names_max) = (self.names.saturating_add(len), self.names_max.saturating_add(len));
    }

    /// Charges `bytes` to read.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Spent> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(("bytes to read", self.bytes_max))?;
        Ok(())
    }

    /// Charges `count` bundles, code objects and faults.
    pub(super) fn take_found(&mut self, count: u64) -> Result<(), Spent> {
        self.found = self.found.checked_sub(count).ok_or(("bundles, code objects and faults", FOUND_MAX))?;
        Ok(())
    }

    /// Charges `bytes` of names.
    pub(super) fn take_names(&mut self, bytes: u64) -> Result<(), Spent> {
        self.names = self.names.checked_sub(bytes).ok_or(("bytes of names", self.names_max))?;
        Ok(())
    }

    /// Charges a bundle in the file itself: its entries and their IDs.
    pub(crate) fn take_bundle(&mut self, bundle: &Bundle<'_>) -> Result<(), Spent> {
        self.take(ids_len(bundle))?;
        self.take_found(found_in(bundle))
    }

    /// The next bundle inside another one, limited to the remaining budget for nested containers.
    pub(crate) fn next_nested<'a>(&mut self, bundles: &mut Bundles<'a>) -> Result<Option<Bundle<'a>>, Error> {
        let inflated = self.limits.inflated.min(self.bytes);
        let bundle = bundles.next_within(Limits { inflated, ..self.limits }).map_err(|error| match error {
            Error::Malformed { path, source: Malformed::Claim { what, offset, claimed, .. } }
                if claimed <= self.limits.inflated =>
            {
                let limit = format!("what is left of the limit of {} for nested containers", self.bytes_max);
                Error::malformed(path, Malformed::Claim { what, offset, claimed, limit })
            }
            error => error,
        })?;
        if let Some(recorded) = bundle.as_ref().and_then(|bundle| bundle.compressed) {
            self.bytes = self.bytes.saturating_sub(recorded.inflated.max(INFLATED_MIN));
        }
        Ok(bundle)
    }

    /// The limits for a compressed container at a place. In the file itself, only the claimed size counts.
    pub(super) fn limits_at(&self, place: &Place) -> Limits {
        match place.origin() {
            Origin::File(_) => self.limits,
            Origin::Inflated => Limits { inflated: self.limits.inflated.min(self.bytes), ..self.limits },
        }
    }

    /// The cost of inflating a compressed container to `bytes`.
    pub(super) fn inflating(place: &Place, bytes: u64) -> u64 {
        match place.origin() {
            Origin::File(_) => 0,
            Origin::Inflated => bytes.max(INFLATED_MIN),
        }
    }
}

/// The length of all IDs of a bundle, in bytes.
pub(super) fn ids_len(bundle: &Bundle<'_>) -> u64 {
    bundle.entries.iter().map(|entry| len_u64(&entry.id)).fold(0, u64::saturating_add)
}

/// The length of all IDs of a bundle as shown, in bytes.
pub(super) fn ids_shown(bundle: &Bundle<'_>) -> u64 {
    let shown = |id: &Vec<u8>| u64::try_from(id.len().min(ID_MAX)).unwrap_or(u64::MAX);
    bundle.entries.iter().map(|entry| shown(&entry.id)).fold(0, u64::saturating_add)
}

/// The number of findings in a bundle: itself and its code objects.
pub(super) fn found_in(bundle: &Bundle<'_>) -> u64 {
    u64::try_from(bundle.entries.len()).unwrap_or(u64::MAX).saturating_add(1)
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
        assert_eq!((budget.take(100), budget.take(1)), (Ok(()), Err(("bytes to read", 100))));
        budget.add_file(2);
        assert_eq!((budget.take(2 * TIMES), budget.take(1)), (Ok(()), Err(("bytes to read", 100 + 2 * TIMES))));
        assert_eq!(Budget::new(limits, 2).take(2 * TIMES), Ok(()));
        assert_eq!(budget.take_found(FOUND_MAX), Ok(()));
        assert_eq!(budget.take_found(1), Err(("bundles, code objects and faults", FOUND_MAX)));
        assert_eq!(budget.take_names(NAMES_MAX + 2), Ok(()));
        assert_eq!(budget.take_names(1), Err(("bytes of names", NAMES_MAX + 2)));
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
