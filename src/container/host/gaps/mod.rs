//! Gaps of programs and libraries: bytes that nothing uses any more, because the device code there became smaller.
//! [`elf`] and [`pe`] say which ranges of a file to change so that the gaps are gone from it, and how to undo this.

pub(crate) mod elf;
pub(crate) mod pe;

use std::ops::Range;

use crate::bytes::len_u64;
use crate::io::piece::{Change, Piece};

/// The changes in the order of the file; none if two of them share bytes.
fn in_order(mut changes: Vec<Change<'static>>) -> Option<Vec<Change<'static>>> {
    changes.sort_by_key(|(range, _)| range.start);
    let is_apart = |pair: &[Change<'_>]| matches!(pair, [one, other] if one.0.end <= other.0.start);
    changes.windows(2).all(is_apart).then_some(changes)
}

/// New bytes for as many old ones.
fn change(start: u64, new: Vec<u8>) -> Option<Change<'static>> {
    Some((start..start.checked_add(len_u64(&new))?, vec![Piece::Bytes(new)]))
}

/// Where the bytes of a file go: the ranges that are replaced, in the order of the file, each with its new length.
#[derive(Default)]
struct Moves(Vec<(Range<u64>, u64)>);

impl Moves {
    fn add(&mut self, range: Range<u64>, len: u64) {
        let at = self.0.partition_point(|(before, _)| before.start <= range.start);
        self.0.insert(at, (range, len));
    }

    /// The new offset of what was at an offset. What was inside of a range goes to its start.
    fn moved(&self, old: u64) -> u64 {
        let before = self.0.iter().take_while(|(range, _)| range.start <= old);
        before.fold(old, |new, (range, len)| {
            new.saturating_sub(range.end.min(old).saturating_sub(range.start)).saturating_add(*len)
        })
    }
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
