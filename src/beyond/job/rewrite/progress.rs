//! Progress of a recompression.

use std::ops::Range;

use crate::base::bytes::len_of;
use crate::beyond::job::event::{Event, Observer};

/// The range of the job's input that the current data was read from. The data may be inflated.
#[derive(Clone, Copy)]
pub(crate) struct ProgressRange {
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The length of the input.
    pub(crate) total: u64,
}

impl ProgressRange {
    /// Reports that `done` of `len` bytes of the data were rewritten.
    pub(crate) fn report(self, done: u64, len: u64, observer: &mut Observer<'_>) {
        let done = self.start.saturating_add(scaled(done, len, self.len));
        observer(Event::Progress { done, total: self.total });
    }

    /// Returns the range of the input that a `range` of the data, which has `len` bytes in all, was read from.
    pub(crate) fn subrange(self, range: &Range<u64>, len: u64) -> Self {
        let start = self.start.saturating_add(scaled(range.start, len, self.len));
        Self { start, len: scaled(len_of(range), len, self.len), ..self }
    }
}

/// Returns the part of `total` in proportion to `done` of `len`, at most `total`. Of nothing, everything is done.
pub(crate) fn scaled(done: u64, len: u64, total: u64) -> u64 {
    let Some(part) = u128::from(done).saturating_mul(total.into()).checked_div(len.into()) else { return total };
    u64::try_from(part).unwrap_or(total).min(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_in_proportion_and_never_more_than_all() {
        for (done, len, expected) in
            [(0, 10, 0), (1, 10, 30), (9, 10, 270), (10, 10, 300), (11, 10, 300), (u64::MAX, 1, 300), (0, 0, 300)]
        {
            assert_eq!(scaled(done, len, 300), expected, "{done} of {len}");
        }
        assert_eq!(scaled(u64::MAX - 1, u64::MAX, u64::MAX), u64::MAX - 1);
    }
}
