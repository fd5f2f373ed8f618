//! Reads and writes the record that restores the host object of a fat object made by this library. No other tool reads
//! it.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 24 | magic `clang-offload-bundler fat`, cut to 24 bytes |
//! | 24 | 8 | length of the host object in bytes |
//! | 32 | 8 | number of sections that were added |
//! | 40 | 8 | the host's own offset of the section headers (ELF) or of the symbols (COFF) |
//! | 48 | 8 | the last bytes of the host's ELF header, which count sections, or the length of its COFF strings |
//!
//! Integers are little-endian. The record is between the contents of the sections and the table that the object's
//! header points to. No section covers it: copies keep it, and every tool that rewrites the object drops it. It is
//! untrusted like any other input. A reader restores the host from it, adds the sections again, and accepts it only
//! if the result is the same fat object.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::view::View;
use crate::base::bytes::Cursor;

const MAGIC: [u8; 24] = *b"clang-offload-bundler fa";

/// The length of a record in bytes.
pub(super) const LEN: u64 = 56;

/// The data at the end of a fat object that restore its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) host_len: u64,
    /// The number of sections that were added.
    pub(super) added: u64,
    /// The last two numbers of the record, whose meaning depends on the object format.
    pub(super) saved: [u64; 2],
}

impl Record {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let [first, second] = self.saved;
        let numbers = [self.host_len, self.added, first, second];
        MAGIC.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    /// Reads the record that ends at `end`. Returns `None` without its magic there: another tool made the object, or
    /// has changed it.
    pub(super) fn before(end: u64, view: &View<'_>) -> Option<Self> {
        let data = view.get(end.checked_sub(LEN)?, LEN)?;
        let mut cursor = Cursor::new(data.strip_prefix(&MAGIC)?, 0);
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = cursor.u64("a number of the record").ok()?;
        }
        let [host_len, added, first, second] = numbers;
        Some(Self { host_len, added, saved: [first, second] })
    }
}
