//! Reads ranges of an object file, which may exist only as [`Part`]s of another file. Every range is checked against
//! the file before use.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use crate::base::bytes::{Bounds, add, is_zero, len_u64, slice, span, total};
use crate::base::error::{ErrorKind, Malformed};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, emit};
use crate::llvm::container::limits::NAME_MAX;
use crate::llvm::container::{MAGIC, Part};

/// An object file: some bytes, or parts of them in another order. The host of a fat object, whose bytes bundling moved,
/// is read in its own order in this way, without a copy.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    data: Slice<'a>,
    /// The offset of the first byte in errors.
    base: u64,
    /// The parts of the object file. Their ranges are ranges of `data`.
    parts: Vec<Part>,
}

impl<'a> View<'a> {
    /// A view of the whole `data`, whose first byte has the offset `base` in errors.
    pub(super) fn whole(data: impl Into<Slice<'a>>, base: u64) -> Self {
        let data = data.into();
        Self { data, base, parts: vec![Part::Range(0..data.len())] }
    }

    /// The file that the parts form.
    pub(super) fn of_parts(data: &'a [u8], parts: Vec<Part>) -> Self {
        Self { data: data.into(), base: 0, parts }
    }

    pub(super) fn len(&self) -> u64 {
        total(self.parts.iter().map(Part::len))
    }

    /// The offset to report in errors.
    pub(super) fn absolute(&self, offset: u64) -> u64 {
        self.base.saturating_add(offset)
    }

    /// A fault at an offset.
    pub(super) fn broken(&self, what: impl Into<String>, offset: u64) -> Malformed {
        Malformed::at(what, self.absolute(offset))
    }

    /// Returns a range of the file as pieces to write. Unreadable parts and bytes past the end are left out.
    pub(super) fn pieces(&self, range: &Range<u64>) -> Vec<Piece<'a>> {
        let (mut pieces, mut start) = (Vec::new(), 0_u64);
        for part in &self.parts {
            // The part begins at `start` of the file, and has the bytes of the range that are from `from` to `to` of
            // the file. Its first `skipped` bytes are not in the range.
            let (from, to) = (range.start.max(start), range.end.min(span(start, part.len()).end));
            if let (Some(skipped), Some(len @ 1..)) = (from.checked_sub(start), to.checked_sub(from)) {
                match part {
                    Part::Range(stored) => {
                        let stored_at = stored.start.saturating_add(skipped);
                        pieces.extend(self.data.slice(stored_at, len).map(Piece::Input));
                    }
                    Part::Bytes(data) => {
                        pieces.extend(slice(data, skipped, len).map(|bytes| Piece::Bytes(bytes.to_vec())))
                    }
                    Part::Unreadable(_) => {}
                }
            }
            add(&mut start, part.len());
        }
        pieces
    }

    /// Returns `len` bytes from `offset`, borrowed if they are in one range of the data, or `None` if the file does not
    /// hold all of them.
    pub(super) fn get(&self, offset: u64, len: u64) -> Option<Cow<'a, [u8]>> {
        let end = offset.checked_add(len)?;
        if end > self.len() {
            return None;
        }
        let bytes = match &self.pieces(&(offset..end))[..] {
            [Piece::Input(slice)] => Cow::Borrowed(slice.bytes()),
            pieces => {
                let mut all = Vec::new();
                emit(pieces, &mut all).ok()?;
                Cow::Owned(all)
            }
        };
        // Unreadable parts of the file are missing from the pieces.
        if len_u64(&bytes) == len { Some(bytes) } else { None }
    }

    /// Reads `len` bytes from `offset`. `what` names them in the error.
    pub(super) fn read(&self, offset: u64, len: u64, what: impl Display) -> Result<Cow<'a, [u8]>, Malformed> {
        let bounds = Bounds { base: self.base, len: self.len() };
        self.get(offset, len).ok_or_else(|| bounds.truncated(offset, len, what))
    }
}

/// A section to be added, which linkers leave out of their output.
#[derive(Clone, Debug)]
pub(super) struct AddedSection<'a> {
    pub(super) name: Vec<u8>,
    pub(super) content: Piece<'a>,
}

/// A section that holds an entry of a bundle.
#[derive(Clone, Debug)]
pub(crate) struct FoundSection {
    /// The index in the section table, from 0.
    pub(crate) index: usize,
    pub(crate) name: Vec<u8>,
    pub(crate) content: Range<u64>,
}

/// The new numbers of sections after some are removed.
pub(super) struct SectionNumbers {
    /// The new number of each section, by its old number, or `None` if it is removed.
    by_old: Vec<Option<u64>>,
    /// Whether any remaining section gets another number.
    pub(super) has_changes: bool,
}

impl SectionNumbers {
    /// Numbers the remaining sections in their order. `gone` says of each section whether it is removed.
    pub(super) fn new(gone: impl Iterator<Item = bool>) -> Self {
        let (mut by_old, mut next, mut has_changes) = (Vec::new(), 0_u64, false);
        for (old, is_gone) in (0_u64..).zip(gone) {
            if is_gone {
                by_old.push(None);
                continue;
            }
            by_old.push(Some(next));
            has_changes |= next != old;
            add(&mut next, 1);
        }
        Self { by_old, has_changes }
    }

    /// Returns the new number of a section, or `None` if it is removed. A number without a section, such as a reserved
    /// one, stays as it is.
    pub(super) fn get(&self, old: u64) -> Option<u64> {
        let index = usize::try_from(old).unwrap_or(usize::MAX);
        match self.by_old.get(index) {
            Some(new) => *new,
            None => Some(old),
        }
    }
}

/// Returns the section name at the start of `names` if it is that of a bundle's section. Returns `None` for the name of
/// another section, and for a name that is too long or not terminated.
pub(super) fn read_bundle_name(names: &[u8]) -> Option<Vec<u8>> {
    let longest = names.get(..NAME_MAX).unwrap_or(names);
    let name = longest.get(..memchr::memchr(0, longest)?)?;
    if name.starts_with(MAGIC.as_bytes()) { Some(name.to_vec()) } else { None }
}

/// Whether `fat` begins with these pieces.
pub(super) fn begins_with(fat: &[u8], pieces: &[Piece<'_>]) -> bool {
    let mut position = 0_u64;
    for piece in pieces {
        let Some(found) = slice(fat, position, piece.len()) else { return false };
        let is_same = match piece {
            Piece::Bytes(data) => found == data.as_slice(),
            Piece::Zeros(_) => is_zero(found),
            // Most pieces are ranges of the fat object itself. Bytes at the same address need not be compared.
            Piece::Input(slice) => std::ptr::eq(found, slice.bytes()) || found == slice.bytes(),
        };
        if !is_same {
            return false;
        }
        add(&mut position, piece.len());
    }
    true
}

/// The fault of a fat object that would need more than its object format allows.
pub(super) fn too_many(what: &str, needed: u64, most: u64) -> Malformed {
    let text = format!("the fat object would have {needed} {what}, more than the {most} that its object format allows");
    Malformed::other(ErrorKind::Limit, None, text)
}

/// Merges adjacent parts and drops empty ones.
pub(super) fn join_parts(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (joined.last_mut(), part) {
            (_, part) if part.is_empty() => {}
            (Some(Part::Range(last)), Part::Range(next)) if last.end == next.start => last.end = next.end,
            (Some(Part::Bytes(last)), Part::Bytes(next)) => last.extend(next),
            (_, part) => joined.push(part),
        }
    }
    joined
}
