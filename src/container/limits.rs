//! Limits on untrusted input: decompressed size, entry counts, name lengths.
//!
//! A valid file of a few kilobytes can inflate to gigabytes, and a few bytes in a table can name the same megabytes a
//! thousand times. The claims of a file are compared with [`Limits`], which the caller chooses, and with the constants
//! here, which are far beyond anything that compilers write.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::bytes::len_u64;
use crate::error::Malformed;

/// The maximum number of entries in one bundle. Each takes some hundred bytes of memory.
const ENTRIES_MAX: u64 = 100_000;
const ENTRIES_ROOM: &str = "no more than 100000";

/// The maximum size of all IDs of a bundle, in bytes.
const IDS_MAX: u64 = 16 << 20;
const IDS_ROOM: &str = "no more than 16 MiB for all IDs of a bundle together";

/// Limits for reading untrusted files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum inflated size of one compressed container, in bytes. A container that claims more is an error before
    /// any of it is inflated.
    pub inflated: u64,
    /// The maximum inflated size of all compressed containers inside other containers, in bytes. Each counts as at
    /// least 64 KiB.
    pub nested: u64,
    /// The maximum size of an input that cannot be mapped, in bytes: the `max` of
    /// [`Input::map`](crate::io::Input::map).
    pub streamed: Option<u64>,
}

impl Default for Limits {
    /// A container may inflate to the size in its header, and containers inside others to 256 MiB in total. Pipes are
    /// read to their end.
    fn default() -> Self {
        Self { inflated: u64::MAX, nested: 256 << 20, streamed: None }
    }
}

impl Limits {
    /// Limits each container, and the total of all containers inside others, to `size` inflated bytes.
    pub const fn of(size: u64) -> Self {
        Self { inflated: size, nested: size, streamed: None }
    }

    /// Checks that a container at `offset` may inflate to `claimed` bytes.
    pub(super) fn check(&self, what: &'static str, offset: u64, claimed: u64) -> Result<(), Malformed> {
        if claimed > self.inflated { Err(self.exceeded(what, offset, claimed)) } else { Ok(()) }
    }

    /// The error for a container that claims too much.
    pub(crate) fn exceeded(&self, what: &'static str, offset: u64, claimed: u64) -> Malformed {
        Malformed::Claim { what, offset, claimed, limit: format!("the limit of {}", self.inflated) }
    }
}

/// The remaining budget for the entries of one bundle.
pub(super) struct Room {
    entries: u64,
    ids: u64,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { entries: ENTRIES_MAX, ids: IDS_MAX }
    }

    /// Charges `count` entries whose table is at `offset`.
    pub(super) fn take_entries(&mut self, count: u64, offset: u64) -> Result<(), Malformed> {
        let (what, found, expected) = ("entry count", count, ENTRIES_ROOM);
        self.entries = self.entries.checked_sub(count).ok_or(Malformed::Value { what, found, offset, expected })?;
        Ok(())
    }

    /// Charges an ID of `len` bytes at `offset`.
    pub(super) fn take_id(&mut self, len: u64, offset: u64) -> Result<(), Malformed> {
        let (what, found, expected) = ("entry ID length", len, IDS_ROOM);
        self.ids = self.ids.checked_sub(len).ok_or(Malformed::Value { what, found, offset, expected })?;
        Ok(())
    }

    /// Charges one more entry and its ID.
    pub(super) fn take(&mut self, id: &[u8], offset: u64) -> Result<(), Malformed> {
        let found = ENTRIES_MAX.saturating_sub(self.entries).saturating_add(1);
        let (what, expected) = ("entry count", ENTRIES_ROOM);
        self.entries = self.entries.checked_sub(1).ok_or(Malformed::Value { what, found, offset, expected })?;
        self.take_id(len_u64(id), offset)
    }
}

/// Names of symbols. They may share bytes of the file, up to a limit on their total length.
pub(crate) struct SymbolNames {
    names: Vec<Vec<u8>>,
    left: u64,
}

/// How often the names of symbols or sections may use the bytes of a file, which they may share.
pub(super) const NAMES_SHARED_MAX: u64 = 4;

impl SymbolNames {
    /// An empty list for a file of `len` bytes.
    pub(crate) fn new(len: u64) -> Self {
        Self { names: Vec::new(), left: len.saturating_mul(NAMES_SHARED_MAX) }
    }

    /// Adds a name; none if the names exceed the limit for the file.
    pub(crate) fn push(&mut self, name: &[u8]) -> Option<()> {
        self.left = self.left.checked_sub(len_u64(name))?;
        self.names.push(name.to_vec());
        Some(())
    }

    pub(crate) fn into_names(self) -> Vec<Vec<u8>> {
        self.names
    }
}

/// The error for names beyond the limit.
pub(crate) const NAMES_TOO_LONG: &str = "the names of its symbols are together longer than four times the file";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_more_than_the_limit_is_an_error() {
        let limits = Limits { inflated: 10, ..Limits::default() };
        assert_eq!(limits.check("bundle", 7, 10), Ok(()));
        let error = limits.check("bundle", 7, 11).unwrap_err().to_string();
        assert_eq!(error, "bundle at offset 7: its inflated size of 11 bytes exceeds the limit of 10");
        assert_eq!(Limits::default().check("bundle", 0, u64::MAX), Ok(()));
    }

    #[test]
    fn entries_and_ids_have_room_for_what_anybody_has() {
        let mut room = Room::new();
        assert_eq!(room.take_entries(ENTRIES_MAX - 1, 0), Ok(()));
        assert_eq!(room.take(b"id", 5), Ok(()));
        let error = room.take(b"id", 9).unwrap_err().to_string();
        assert_eq!(error, "entry count 100001 at offset 9, expected no more than 100000");
        assert!(Room::new().take_entries(u64::MAX, 0).is_err());
        assert_eq!(room.take_id(IDS_MAX - 2, 0), Ok(()));
        assert!(matches!(room.take_id(1, 0), Err(Malformed::Value { what: "entry ID length", .. })));
    }

    #[test]
    fn names_of_symbols_may_share_bytes_up_to_a_limit() {
        let mut names = SymbolNames::new(2);
        assert!((0..4).all(|_| names.push(b"ab").is_some()));
        assert!(names.push(b"").is_some() && names.push(b"a").is_none());
        assert_eq!(names.into_names().len(), 5);
    }
}
