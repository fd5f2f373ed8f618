//! Maps the offsets of a file to the offsets that they have when some ranges of the file get another length.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

/// The ranges that get another length, in file order and without overlaps. Each has the new offset of its end.
pub(crate) struct OffsetMap(Vec<(Range<u64>, u64)>);

impl OffsetMap {
    /// The map for some ranges, each given with its new length.
    pub(crate) fn new(mut replaced: Vec<(Range<u64>, u64)>) -> Self {
        replaced.sort_by_key(|(range, _)| (range.start, range.end));
        let mut ends = Vec::with_capacity(replaced.len());
        let (mut end, mut new_end) = (0_u64, 0_u64);
        for (range, new_len) in replaced {
            let unchanged = range.start.saturating_sub(end);
            new_end = new_end.saturating_add(unchanged).saturating_add(new_len);
            end = range.end;
            ends.push((range, new_end));
        }
        Self(ends)
    }

    /// The new offset of the byte at an old offset. An offset inside a changed range becomes the new end of that range.
    pub(crate) fn moved(&self, old: u64) -> u64 {
        let count = self.0.partition_point(|(range, _)| range.start <= old);
        let (before, _) = self.0.split_at_checked(count).unwrap_or_default();
        match before.last() {
            Some((range, new_end)) => new_end.saturating_add(old.saturating_sub(range.end)),
            None => old,
        }
    }
}
