//! Gaps of programs and libraries: bytes that nothing uses any more, because the device code there became smaller.
//! [`elf`] and [`pe`] say which ranges of a file to change so that the gaps are gone from it, and how to undo this.

pub(crate) mod elf;
pub(crate) mod pe;

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
