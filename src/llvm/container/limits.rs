//! Limits on untrusted input: decompressed size, entry counts, name lengths.
//!
//! A valid file of a few kilobytes can inflate to gigabytes, and a few bytes in a table can name the same megabytes a
//! thousand times. The claims of a file are compared with [`Limits`], which the caller chooses, and with the constants
//! here, which are far beyond anything that compilers write.

use crate::base::bytes::{add, len_u64};
use crate::base::error::Malformed;

/// The maximum number of entries in one bundle. Each takes some hundred bytes of memory.
const ENTRIES_MAX: u64 = 100_000;

/// The maximum size of all IDs of a bundle, in bytes.
const IDS_MAX: u64 = 16 << 20;

/// The maximum length of the header of a binary bundle, in bytes: thousands of times that of any real one.
pub(crate) const HEADER_MAX: u64 = 64 << 20;

/// The maximum number of marker lines in one text bundle, including those inside entries.
pub(crate) const MARKERS_MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// The maximum size of the strings of one offload binary, in bytes: thousands of times that of any real one.
pub(crate) const STRINGS_MAX: u64 = 16 << 20;

/// The maximum size of the strings of one offload binary, as a multiple of its size. String entries may share the bytes
/// of equal strings, but each takes 16 bytes or more itself.
pub(crate) const STRINGS_SHARED_MAX: u64 = 16;

/// The size of strings in bytes that an offload binary may have in addition to [`STRINGS_SHARED_MAX`] times its size.
pub(crate) const STRINGS_MIN: u64 = 4 << 10;

/// The maximum number of host sections of one fat object that are restored. Our files have one, and one more for each
/// time that a fat object became the host of another.
pub(crate) const HOSTS_MAX: usize = 64;

/// The maximum length of the name of an archive member or of a bundle's section, in bytes: no file has a longer path.
/// In an archive, many short headers may refer to the same long name.
pub(crate) const NAME_MAX: usize = 4096;

/// The maximum size of all names of symbols or sections of a file, as a multiple of its size. Names may share bytes of
/// the file, such as `main` and `domain`.
pub(crate) const NAMES_SHARED_MAX: u64 = 4;

/// The maximum number of files that thin archives may name: more than a thin archive has members, and fewer than a
/// process may map on Linux.
pub(crate) const FILES_MAX: u64 = 60_000;

/// The maximum number of files that thin archives in other archives may name. No `ar` makes such archives.
pub(crate) const NESTED_FILES_MAX: u64 = 2_000;

/// The maximum number of objects that a bitcode module embeds: more than any real file has.
pub(crate) const OBJECTS_MAX: usize = 1 << 16;

/// The maximum size of all objects that a bitcode file embeds, as a multiple of its size. When modules that embed equal
/// objects are linked, one copy of the object stays, and is listed once for each module.
pub(crate) const OBJECTS_SHARED_MAX: u64 = 64;

/// The maximum number of operands of an abbreviation (the form of a record) in bitcode: more than LLVM's have.
pub(crate) const OPERANDS_MAX: u64 = 256;

/// The maximum number of abbreviations of a block in bitcode: more than any block of LLVM has.
pub(crate) const ABBREVIATIONS_MAX: usize = 4096;

/// A limit on bytes or items, and how many of them a file may still claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// The bytes or items that may still be claimed.
    pub(crate) left: u64,
    /// The whole limit.
    pub(crate) most: u64,
}

impl Allowance {
    pub(crate) const fn new(most: u64) -> Self {
        Self { left: most, most }
    }

    /// An allowance of `times` the bytes of `data`.
    pub(crate) fn times(times: u64, data: &[u8]) -> Self {
        Self::new(len_u64(data).saturating_mul(times))
    }

    /// Subtracts a cost. Returns `None`, and subtracts nothing, if the cost exceeds the rest.
    #[must_use]
    pub(crate) fn take(&mut self, cost: u64) -> Option<()> {
        self.left = self.left.checked_sub(cost)?;
        Some(())
    }

    /// Subtracts the number `found`, which a field at `offset` records and `what` names.
    ///
    /// # Errors
    /// [`Malformed`] if the number exceeds the rest. `expected` says in the message which numbers are valid.
    pub(crate) fn claim(
        &mut self,
        what: &'static str,
        found: u64,
        offset: u64,
        expected: &'static str,
    ) -> Result<(), Malformed> {
        self.take(found).ok_or_else(|| Malformed::value(what, found, offset, expected))
    }

    /// The whole limit.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }
}

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
    pub const fn up_to(size: u64) -> Self {
        Self { inflated: size, nested: size, streamed: None }
    }

    /// Checks that a container at `offset` may inflate to `claimed` bytes.
    pub(crate) fn check(&self, what: &'static str, offset: u64, claimed: u64) -> Result<(), Malformed> {
        if claimed > self.inflated {
            return Err(self.exceeded(what, offset, claimed));
        }
        Ok(())
    }

    /// The error for a container that claims too much.
    pub(crate) fn exceeded(&self, what: &'static str, offset: u64, claimed: u64) -> Malformed {
        Malformed::Claim { what, offset, claimed, limit: format!("the limit of {}", self.inflated) }
    }
}

/// Checks the number of entries that a bundle records at `offset`.
pub(crate) fn check_entry_count(found: u64, offset: u64) -> Result<(), Malformed> {
    Allowance::new(ENTRIES_MAX).claim("entry count", found, offset, "no more than 100000")
}

/// The limits on the entries of a bundle whose header does not record their number.
pub(crate) struct EntryAllowance {
    entries: u64,
    ids: Allowance,
}

impl EntryAllowance {
    pub(crate) fn new() -> Self {
        Self { entries: 0, ids: Allowance::new(IDS_MAX) }
    }

    /// Counts one more entry with this ID, which is at `offset`.
    pub(crate) fn take(&mut self, id: &[u8], offset: u64) -> Result<(), Malformed> {
        add(&mut self.entries, 1);
        check_entry_count(self.entries, offset)?;
        let expected = "no more than 16 MiB for all IDs of a bundle together";
        self.ids.claim("entry ID length", len_u64(id), offset, expected)
    }
}

/// The names of a file's symbols. Their total length is limited by [`NAMES_SHARED_MAX`].
pub(crate) struct SymbolNames {
    pub(crate) names: Vec<Vec<u8>>,
    room: Allowance,
}

impl SymbolNames {
    /// Creates an empty list for the file `data`.
    pub(crate) fn new(data: &[u8]) -> Self {
        Self { names: Vec::new(), room: Allowance::times(NAMES_SHARED_MAX, data) }
    }

    /// Adds a name. Returns `None` if the names exceed the limit for the file.
    pub(crate) fn push(&mut self, name: &[u8]) -> Option<()> {
        self.room.take(len_u64(name))?;
        self.names.push(name.to_vec());
        Some(())
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
        let mut room = EntryAllowance::new();
        assert!((0..ENTRIES_MAX).all(|_| room.take(b"id", 5).is_ok()));
        let error = room.take(b"id", 9).unwrap_err().to_string();
        assert_eq!(error, "entry count 100001 at offset 9, expected no more than 100000");
        assert_eq!(check_entry_count(ENTRIES_MAX, 0), Ok(()));
        assert!(check_entry_count(u64::MAX, 0).is_err());
        let (mut room, id) = (EntryAllowance::new(), vec![0; 1 << 24]);
        assert_eq!(room.take(&id, 0), Ok(()));
        assert!(room.take(b"x", 0).unwrap_err().to_string().starts_with("entry ID length 1 at offset 0, expected"));
    }

    #[test]
    fn names_of_symbols_may_share_bytes_up_to_a_limit() {
        let mut names = SymbolNames::new(b"ab");
        assert!((0..4).all(|_| names.push(b"ab").is_some()));
        assert!(names.push(b"").is_some() && names.push(b"a").is_none());
        assert_eq!(names.names.len(), 5);
    }
}
