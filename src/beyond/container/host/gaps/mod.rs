//! Gaps of libraries: bytes that nothing uses any more, because the device code there became smaller. [`elf`] and [`pe`]
//! say which ranges of a file to change so that the gaps are gone from it, and how to undo this.

pub(crate) mod elf;
pub(crate) mod pe;

use std::fmt;

use crate::base::bytes::len_u64;
use crate::base::io::piece::{Change, Piece};

/// The reason why a hole stays in a file, in the space that its device code no longer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HoleReason {
    /// The job keeps all offsets.
    Asked,
    /// It is an ELF program, or a library that can be run as one.
    Program,
    /// It is an object in which not all that leads to the device code, or lies after it, can follow.
    Object,
    /// It is an ELF file of another class or byte order than 64 bits, little-endian.
    Format,
    /// Other data follows the headers, segments and sections, which may be found by its offset.
    DataAfter,
    /// The first segment does not begin with the file header.
    FirstSegment,
    /// Loaders would not take the headers that it has, or they lie outside of the file.
    Headers,
    /// It would need more segments, sections or symbols than can be written.
    Limits,
    /// Another section or segment, or none, has bytes of the hole.
    Shared,
    /// Segments or sections are not aligned to pages, or need a larger alignment than the hole allows.
    Alignment,
    /// The hole has fewer bytes than whole pages and the new headers need.
    Small,
    /// Not all bytes would come back.
    NotUndone,
}

impl fmt::Display for HoleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "all offsets are kept",
            Self::Program => "an ELF program keeps its offsets, because strip and objcopy break a shorter one",
            Self::Object => "not all parts of the object can move",
            Self::Format => "it is not a 64-bit little-endian file",
            Self::DataAfter => "other data follows the file's own",
            Self::FirstSegment => "its first segment does not begin at the start of the file",
            Self::Headers => "its headers cannot be changed",
            Self::Limits => "it would need too many segments, sections or symbols",
            Self::Shared => "the hole is not in one section and one segment alone",
            Self::Alignment => "what follows cannot move by whole pages",
            Self::Small => "without it the file would not be shorter",
            Self::NotUndone => "--none could not restore the file",
        })
    }
}

/// How to take gaps out of a file.
pub(crate) struct Closing {
    pub(crate) changes: Vec<Change<'static>>,
    /// Why the largest of the gaps that stay does so, or a part of a gap, if any is larger than a page.
    pub(crate) left: Option<HoleReason>,
}

/// Another tool rewrote a file after gaps had been taken out of it, so that they cannot come back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewritten;

/// Returns the changes in the order of the file, or `None` if two of them share bytes.
fn in_order(mut changes: Vec<Change<'static>>) -> Option<Vec<Change<'static>>> {
    changes.sort_by_key(|(range, _)| range.start);
    let is_apart = |pair: &[Change<'_>]| matches!(pair, [one, other] if one.0.end <= other.0.start);
    changes.windows(2).all(is_apart).then_some(changes)
}

/// New bytes for as many old ones.
fn change(start: u64, new: Vec<u8>) -> Option<Change<'static>> {
    Some((start..start.checked_add(len_u64(&new))?, vec![Piece::Bytes(new)]))
}

/// A file with some changes.
#[cfg(test)]
fn changed(data: &[u8], changes: &[Change<'_>]) -> Vec<u8> {
    let (mut new, mut at) = (Vec::new(), 0);
    for (range, pieces) in changes {
        new.extend_from_slice(&data[at..usize::try_from(range.start).unwrap()]);
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => new.extend_from_slice(bytes),
                Piece::Zeros(len) => new.resize(new.len() + usize::try_from(*len).unwrap(), 0),
                Piece::Input(_) => unreachable!(),
            }
        }
        at = usize::try_from(range.end).unwrap();
    }
    new.extend_from_slice(&data[at..]);
    new
}
