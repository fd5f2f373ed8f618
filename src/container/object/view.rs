//! Reads ranges of an object file, which may exist only as [`Part`]s of another file. Every range is checked against
//! the file before use.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use crate::bytes::{Bounds, add, is_zero, len_of, len_u64, slice, total};
use crate::container::limits::NAME_MAX;
use crate::container::{MAGIC, Part};
use crate::error::{ErrorKind, Malformed};

/// An object file: some bytes, or parts of them in another order.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    data: &'a [u8],
    base: u64,
    parts: Vec<Part>,
}

impl<'a> View<'a> {
    /// All of `data`, whose first byte has the offset `base` in errors.
    pub(super) fn whole(data: &'a [u8], base: u64) -> Self {
        Self { data, base, parts: vec![Part::Range(0..len_u64(data))] }
    }

    /// The file that the parts form.
    pub(super) fn of_parts(data: &'a [u8], parts: Vec<Part>) -> Self {
        Self { data, base: 0, parts }
    }

    /// The parts of the file.
    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts of the file.
    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
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

    /// `len` bytes from `offset`, borrowed if they lie in one part.
    pub(super) fn get(&self, offset: u64, len: u64) -> Option<Cow<'_, [u8]>> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len())?;
        let mut gathered = Vec::new();
        let mut start = 0_u64;
        for part in &self.parts {
            let part_end = start.saturating_add(part.len());
            let (from, to) = (offset.max(start), end.min(part_end));
            if from < to {
                let piece = self.piece(part, from.saturating_sub(start), to.saturating_sub(from))?;
                if len_u64(piece) == len {
                    return Some(Cow::Borrowed(piece));
                }
                gathered.extend_from_slice(piece);
            }
            start = part_end;
        }
        Some(Cow::Owned(gathered))
    }

    fn piece<'s>(&'s self, part: &'s Part, offset: u64, len: u64) -> Option<&'s [u8]> {
        match part {
            Part::Range(range) => slice(self.data, range.start.checked_add(offset)?, len),
            Part::Bytes(data) => slice(data, offset, len),
            Part::Packed(_) | Part::Unreadable(_) => None,
        }
    }

    /// `len` bytes from `offset`. `what` names them in the error.
    pub(super) fn read(&self, offset: u64, len: u64, what: impl Display) -> Result<Cow<'_, [u8]>, Malformed> {
        let bounds = Bounds { base: self.base, len: self.len() };
        self.get(offset, len).ok_or_else(|| bounds.truncated(offset, len, what))
    }
}

/// A run of bytes of a fat object under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// Bytes of the host object.
    Host(Range<u64>),
    /// New bytes.
    Bytes(Vec<u8>),
    /// This number of zero bytes.
    Zeros(u64),
    /// The content of the added section with this index.
    Content(usize),
}

/// A section to be added, which linkers leave out of their output.
#[derive(Clone, Debug)]
pub(super) struct Added {
    pub(super) name: Vec<u8>,
    pub(super) size: u64,
}

/// A section that holds an entry of a bundle.
#[derive(Clone, Debug)]
pub(super) struct FoundSection {
    /// The index in the section table, from 0.
    pub(super) index: usize,
    pub(super) name: Vec<u8>,
    pub(super) content: Range<u64>,
}

/// The new numbers of sections.
pub(super) struct SectionNumbers {
    new: Vec<Option<u64>>,
    /// Whether any remaining section gets another number.
    pub(super) moved: bool,
}

impl SectionNumbers {
    /// The numbers of sections of which some are gone.
    pub(super) fn new(gone: impl Iterator<Item = bool>) -> Self {
        let (mut new, mut next, mut moved) = (Vec::new(), 0_u64, false);
        for (old, gone) in (0_u64..).zip(gone) {
            new.push((!gone).then_some(next));
            moved |= !gone && next != old;
            add(&mut next, u64::from(!gone));
        }
        Self { new, moved }
    }

    /// The new number of a section; none if it is removed. A value that is not a section number is returned unchanged.
    pub(super) fn get(&self, old: u64) -> Option<u64> {
        usize::try_from(old).ok().and_then(|index| self.new.get(index).copied()).unwrap_or(Some(old))
    }
}

/// The name of a bundle's section at the start of some bytes; none if it is another section's or not terminated.
pub(super) fn bundle_name(data: &[u8]) -> Option<Vec<u8>> {
    let near = data.get(..NAME_MAX).unwrap_or(data);
    let name = near.get(..memchr::memchr(0, near)?)?;
    name.starts_with(MAGIC.as_bytes()).then(|| name.to_vec())
}

/// Whether `fat` begins with these runs, with the contents in these ranges. The contents themselves are not compared.
pub(super) fn begins_with(fat: &[u8], runs: &[Run], host: &View<'_>, contents: &[Range<u64>]) -> bool {
    let mut position = 0_u64;
    for run in runs {
        let len = match run {
            Run::Host(range) => len_of(range),
            Run::Bytes(data) => len_u64(data),
            Run::Zeros(count) => *count,
            Run::Content(index) => contents.get(*index).map_or(0, len_of),
        };
        let Some(actual) = slice(fat, position, len) else { return false };
        let fits = match run {
            Run::Host(range) => host.get(range.start, len).is_some_and(|expected| same(actual, &expected)),
            Run::Bytes(data) => actual == data.as_slice(),
            Run::Zeros(_) => is_zero(actual),
            Run::Content(index) => len == 0 || contents.get(*index).is_some_and(|range| range.start == position),
        };
        if !fits {
            return false;
        }
        position = position.saturating_add(len);
    }
    true
}

/// The fault of a fat object that would need more than its object format allows.
pub(super) fn too_many(what: &str, needed: u64, most: u64) -> Malformed {
    let text = format!("the fat object would have {needed} {what}, more than the {most} that its object format allows");
    Malformed::other(ErrorKind::Limit, None, text)
}

/// Compares bytes without reading them if both slices are the same.
fn same(a: &[u8], b: &[u8]) -> bool {
    std::ptr::eq(a, b) || a == b
}

/// Merges adjacent parts and drops empty ones.
pub(super) fn join(parts: Vec<Part>) -> Vec<Part> {
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
