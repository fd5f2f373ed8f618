//! Decides which bytes count in sums of sizes, so that each byte counts once.
//!
//! The search lists a code object that is a container, and the code objects in it. Only the latter count. Bytes that
//! several entries of a bundle share count once.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::Format;
use super::code_object::{CodeObject, CodeObjectRef, step_name};
use super::place::{Place, Step};
use crate::beyond::container::{Bundle, Rule, SearchEntry};

/// The code objects of a search that hold other code objects. Only hashes of the steps to them are kept, which take
/// less memory.
#[derive(Debug, Default)]
pub(crate) struct CodeObjectsWithParts {
    state: RandomState,
    /// The hashes of the steps to these code objects.
    holders: HashSet<u64>,
}

impl CodeObjectsWithParts {
    /// Notes that the code objects around a bundle at `place` have parts. Called for each bundle of the search.
    pub(crate) fn note(&mut self, place: &Place) {
        for (index, step) in place.steps().iter().enumerate() {
            if matches!(step, Step::Entry(_)) {
                let key = self.state.hash_one(place.steps_to(index));
                self.holders.insert(key);
            }
        }
    }

    /// The number of code objects with parts.
    pub(crate) fn len(&self) -> usize {
        self.holders.len()
    }

    /// Sets whether a code object has [parts](CodeObject::has_parts), once all of its file is searched.
    pub(crate) fn mark(&self, code_object: &mut CodeObject) {
        if !self.holders.is_empty() {
            // For a bundle inside of the code object, `note` has kept the hash of the same steps.
            let place = code_object.place_inside();
            let last = place.steps().len().saturating_sub(1);
            code_object.has_parts = self.holders.contains(&self.state.hash_one(place.steps_to(last)));
        }
    }
}

impl Place {
    /// Returns the steps up to the one with this index, with their numbers.
    fn steps_to(&self, index: usize) -> Vec<(&Step, u64)> {
        self.steps().iter().zip(self.step_numbers().iter().copied()).take(index.saturating_add(1)).collect()
    }
}

impl CodeObject {
    /// Returns the place at which the search reports the code objects in this one, if it is a container.
    fn place_inside(&self) -> Place {
        self.bundle.place.join_numbered(Step::Entry(step_name(&self.id).to_vec()), self.number)
    }
}

impl CodeObjectRef<'_> {
    /// Returns the range of bytes that no other entry of a sound bundle has, counted as [`range`](Self::range). Returns
    /// `None` if entries of a sound bundle may share the bytes.
    pub(crate) fn exclusive_range(&self) -> Option<Range<u64>> {
        range_counted_once(self.found.bundle, self.found.format, self.entry)
    }
}

/// Returns the range of an entry's bytes if no other entry of a sound bundle has any of them. Returns `None` if the
/// bytes are not contiguous, or if entries of a sound bundle may share them.
fn range_counted_once(bundle: &Bundle<'_>, format: Format, entry: &SearchEntry) -> Option<Range<u64>> {
    let range = match &entry.packed {
        None => entry.range()?,
        Some(packed) if format.has(Rule::PackedAlone) => &packed.stored,
        // In other formats, code objects may be compressed together, and share the compressed bytes.
        Some(_) => return None,
    };
    // In a compressed bundle, offsets count from the start of the inflated bundle.
    let base = if bundle.compressed.is_some() { 0 } else { bundle.offset };
    Some(base.checked_add(range.start)?..base.checked_add(range.end)?)
}

/// Returns for each entry of a bundle the number of bytes that it shares with entries at lower offsets. Entries whose
/// bytes a sound bundle may share have 0.
pub(super) fn shared_bytes(bundle: &Bundle<'_>, format: Format) -> Vec<u64> {
    let mut shared = vec![0; bundle.entries.len()];
    let mut ranges = Vec::with_capacity(bundle.entries.len());
    for (index, entry) in bundle.entries.iter().enumerate() {
        if let Some(range) = range_counted_once(bundle, format, entry) {
            ranges.push((range, index));
        }
    }
    ranges.sort_by_key(|(range, index)| (range.start, *index));
    // The furthest end of all ranges before the next one.
    let mut furthest = 0_u64;
    for (range, index) in ranges {
        if let Some(shared) = shared.get_mut(index) {
            *shared = furthest.min(range.end).saturating_sub(range.start);
        }
        furthest = furthest.max(range.end);
    }
    shared
}
