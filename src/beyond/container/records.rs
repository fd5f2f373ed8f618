//! Functions on records that only a search and its jobs need: `llvm` has the others.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::llvm::container::records::{Encoding, Record, Table};

impl Encoding {
    /// Truncates a sum of addresses to the width of a word, as a loader that adds them does.
    pub(crate) fn truncated(self, sum: u64) -> u64 {
        if self.word == 8 { sum } else { sum & u64::from(u32::MAX) }
    }

    /// Returns the bytes of some records, or `None` if a number does not fit its field.
    pub(crate) fn try_encode<R: Record + PartialEq>(self, records: &[R]) -> Option<Vec<u8>> {
        let bytes = self.encode(records);
        // `encode` truncates a number that does not fit, and then the records read differently.
        let is_same = Table::<R>::new(self, &bytes).iter().eq(records.iter().copied());
        if is_same { Some(bytes) } else { None }
    }
}

impl<R: Record> Table<'_, R> {
    pub(crate) fn len(&self) -> usize {
        self.chunks().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, index: usize) -> Option<R> {
        self.chunks().nth(index).map(|record| self.encoding.decode(record))
    }
}
