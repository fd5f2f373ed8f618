//! Where the bytes of a file go when some of its ranges get another length.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

/// Ranges that do not overlap, in the order of the file, each with the new offset of the bytes after it.
pub(crate) struct OffsetMap(Vec<(Range<u64>, u64)>);

impl OffsetMap {
    /// The moves for ranges that get other lengths, given with their new lengths.
    pub(crate) fn new(mut replaced: Vec<(Range<u64>, u64)>) -> Self {
        replaced.sort_by_key(|(range, _)| (range.start, range.end));
        let (mut end, mut new_end) = (0_u64, 0_u64);
        for (range, len) in &mut replaced {
            new_end = new_end.saturating_add(range.start.saturating_sub(end)).saturating_add(*len);
            (end, *len) = (range.end, new_end);
        }
        Self(replaced)
    }

    /// The new offset of the byte at an old offset. Offsets inside of a range move to its end.
    pub(crate) fn moved(&self, old: u64) -> u64 {
        let count = self.0.partition_point(|(range, _)| range.start <= old);
        let (before, _) = self.0.split_at_checked(count).unwrap_or_default();
        match before.last() {
            Some((range, new_end)) => new_end.saturating_add(old.saturating_sub(range.end)),
            None => old,
        }
    }
}
