//! Gaps of libraries: bytes that nothing uses any more, because the device code there became smaller. [`elf`] and
//! [`pe`] return the changes of a file that remove its gaps, and the changes that undo this.

pub(crate) mod elf;
pub(crate) mod pe;

use std::fmt;

use crate::base::bytes::len_u64;
use crate::base::io::piece::Piece;
use crate::beyond::base::io::ChangedRange;

/// The reason why a hole stays in a file. A hole, or gap, is a range of bytes that the device code no longer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HoleReason {
    /// Other tools may still change the file, and the job was not asked to close its gaps.
    Unfinished,
    /// The file is an ELF program, or a library that can be run as one.
    Program,
    /// The file is an object with a part that cannot move: a reference to the device code, or data after that code.
    Object,
    /// The file is an ELF file of another class or byte order than 64 bits, little-endian.
    Format,
    /// The headers, segments and sections are followed by other data, which may be found by its offset.
    DataAfter,
    /// The first segment does not begin with the file header.
    FirstSegment,
    /// Loaders would not accept the headers of the file, or the headers are outside of it.
    Headers,
    /// The file would need more segments, sections or symbols than can be written.
    Limits,
    /// The hole is not in a single section and a single segment.
    Shared,
    /// Segments or sections are not aligned to pages, or need a larger alignment than the hole allows.
    Alignment,
    /// The hole has fewer bytes than whole pages and the new headers need.
    Small,
    /// `recompress --none` could not restore the file without the hole to its old bytes.
    NotUndone,
}

impl fmt::Display for HoleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unfinished => "strip, objcopy or patchelf may still change it; --close-gaps shortens it",
            Self::Program => "Linux before 5.18 would not find the headers of a shorter ELF program",
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

/// The changes that take gaps out of a file.
pub(crate) struct GapRemoval {
    /// The changes, in the order of the file.
    pub(crate) changes: Vec<ChangedRange<'static>>,
    /// The reason why the largest remaining gap was not removed, or not all of it. `None` if no remaining gap is larger
    /// than a page.
    pub(crate) stay_reason: Option<HoleReason>,
}

/// The error that gaps cannot come back, because another tool rewrote the file since they were taken out of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RewrittenSince;

/// Returns the changes in the order of the file, or `None` if two of them share bytes.
fn sort_changes(mut changes: Vec<ChangedRange<'static>>) -> Option<Vec<ChangedRange<'static>>> {
    changes.sort_by_key(|(range, _)| range.start);
    let is_disjoint = changes.is_sorted_by(|(one, _), (next, _)| one.end <= next.start);
    if is_disjoint { Some(changes) } else { None }
}

/// Returns the change that writes `new` over the bytes from `start` on, or `None` if no file is that long.
fn replace_bytes(start: u64, new: Vec<u8>) -> Option<ChangedRange<'static>> {
    Some((start..start.checked_add(len_u64(&new))?, vec![Piece::Bytes(new)]))
}

/// Returns a file with some changes made.
#[cfg(test)]
fn apply(data: &[u8], changes: &[ChangedRange<'_>]) -> Vec<u8> {
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
