//! Writes a file again with other bytes in some of its ranges.
//!
//! A [`Rewriter`] goes once through the old file, in order. Ranges that are not skipped are copied, by the kernel if
//! possible. After new bytes, the rest of the file follows directly ([`skip_until`](Rewriter::skip_until)), as in a
//! file of bundles or a zip file. Or it stays at its offset after a hole ([`leave_hole`](Rewriter::leave_hole)), as in
//! programs, because their code has addresses.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::slice;

use crate::base::bytes::{bytes_in, is_zero, len_of};
use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::base::io::output::Output;
use crate::base::io::piece::{Piece, Sink, emit, sum, total_len};
use crate::beyond::base::io::ChangedRange;

/// The smallest number of zeros that become a hole. Fewer zeros are written.
const HOLE_MIN: u64 = 64 << 10;

/// A file that is being written again.
pub(crate) struct Rewriter<'d> {
    old: Slice<'d>,
    /// The output.
    pub(crate) output: Output,
    /// The end of the copied or skipped part of the old file.
    old_position: u64,
    /// The length of the output so far, in bytes.
    written: u64,
    /// The end of each skipped range in the old file, and the offset in the output of the bytes after that range.
    moves: Vec<(u64, u64)>,
    /// The ranges of the output that are holes.
    holes: Vec<Range<u64>>,
}

impl<'d> Rewriter<'d> {
    pub(crate) fn new(old: Slice<'d>, output: Output) -> Self {
        Self { old, output, old_position: 0, written: 0, moves: Vec::new(), holes: Vec::new() }
    }

    /// Returns the length of the output so far, in bytes.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Copies the old file up to an offset in it.
    pub(crate) fn copy_until(&mut self, old_offset: u64) -> Result<()> {
        let between = self.old.claimed(&(self.old_position..old_offset))?;
        self.output.copy(between)?;
        self.old_position = old_offset;
        self.count_written(between.len())
    }

    /// Skips the old file up to an offset in it.
    pub(crate) fn skip_until(&mut self, old_offset: u64) {
        self.old_position = old_offset;
        self.moves.push((old_offset, self.written));
    }

    /// Writes new bytes. Many zeros become a hole.
    pub(crate) fn write(&mut self, pieces: &[Piece<'_>]) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Zeros(len @ HOLE_MIN..) => self.leave_hole(*len)?,
                _ => {
                    emit(slice::from_ref(piece), &mut self.output)?;
                    self.count_written(piece.len())?;
                }
            }
        }
        Ok(())
    }

    fn count_written(&mut self, len: u64) -> Result<()> {
        self.written = sum([self.written, len])?;
        Ok(())
    }

    /// Sets the length of the output to that of what was written, which may end with a hole.
    fn end_at_written(&mut self) -> Result<()> {
        self.output.end_at(self.written)
    }

    /// Leaves a hole of `len` bytes in the output.
    pub(crate) fn leave_hole(&mut self, len: u64) -> Result<()> {
        self.output.skip(len)?;
        self.holes.push(self.written..sum([self.written, len])?);
        self.count_written(len)
    }

    /// Returns the offset in the output of a byte of the old file. The byte must have been copied.
    pub(crate) fn new_offset(&self, old: u64) -> u64 {
        // The last skipped range before a byte decides where the byte is now. Before the first one, nothing moves.
        let before = self.moves.partition_point(|(start, _)| *start <= old);
        match self.moves.get(..before).and_then(<[_]>::last) {
            Some((start, new)) => old.saturating_sub(*start).saturating_add(*new),
            None => old,
        }
    }

    /// Starts again from the beginning of both files, and removes everything that was written.
    pub(crate) fn restart(&mut self) -> Result<()> {
        (self.old_position, self.written) = (0, 0);
        self.moves.clear();
        self.holes.clear();
        self.end_at_written()
    }

    /// Copies the rest of the old file. Returns the output, and the ranges of it that are holes.
    pub(crate) fn finish(mut self) -> Result<(Output, Vec<Range<u64>>)> {
        self.copy_until(self.old.len())?;
        // Otherwise the file would end before a hole at its end.
        self.end_at_written()?;
        Ok((self.output, self.holes))
    }
}

/// Returns the length of a file with some changes.
pub(crate) fn changed_len(old: Slice<'_>, changes: &[ChangedRange<'_>]) -> u64 {
    let (mut gone, mut added) = (0_u64, 0_u64);
    for (range, new) in changes {
        gone = gone.saturating_add(len_of(range));
        added = added.saturating_add(total_len(new).unwrap_or(u64::MAX));
    }
    old.len().saturating_sub(gone).saturating_add(added)
}

/// A run of bytes in a changed file.
struct Run<'c> {
    /// The offset of the run in the changed file.
    start: u64,
    len: u64,
    from: RunOrigin<'c>,
}

impl Run<'_> {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// The source of the bytes of a run.
enum RunOrigin<'c> {
    /// The bytes from this offset on in the file before the changes.
    Copied(u64),
    /// New bytes.
    Written(&'c Piece<'c>),
}

/// Returns the runs of a changed file, in order. The file has `len` bytes before the changes.
fn runs_of<'c>(len: u64, changes: &'c [ChangedRange<'c>]) -> Vec<Run<'c>> {
    let (mut runs, mut old_position) = (Vec::new(), 0);
    for (range, new) in changes {
        push_run(&mut runs, range.start.saturating_sub(old_position), RunOrigin::Copied(old_position));
        for piece in new {
            push_run(&mut runs, piece.len(), RunOrigin::Written(piece));
        }
        old_position = range.end;
    }
    push_run(&mut runs, len.saturating_sub(old_position), RunOrigin::Copied(old_position));
    runs
}

fn push_run<'c>(runs: &mut Vec<Run<'c>>, len: u64, from: RunOrigin<'c>) {
    let start = match runs.last() {
        Some(last) => last.end(),
        None => 0,
    };
    runs.push(Run { start, len, from });
}

/// Returns whether the changes `back`, made after `changes`, give the old file back, except for the bytes in `ignored`.
///
/// Every byte of the result is followed to its source. A byte that both changes copy must be at its old offset again,
/// and is not read. New bytes are compared with the old file, except with its known `holes`, which are zeros.
pub(crate) fn undoes(
    (old, holes): (Slice<'_>, &[Range<u64>]),
    changes: &[ChangedRange<'_>],
    back: &[ChangedRange<'_>],
    ignored: &Range<u64>,
) -> bool {
    let changed_runs = runs_of(old.len(), changes);
    // The index of the run of the changed file that is being read.
    let mut run_index = 0_usize;
    // The offset of the next byte in the result, which must also be the offset of the same byte in the old file.
    let mut old_offset = 0_u64;
    for Run { len, from, .. } in runs_of(changed_len(old, changes), back) {
        // `start..end` is the range of the changed file that `back` copies to `old_offset`.
        let (mut start, end) = match from {
            RunOrigin::Copied(offset) => (offset, offset.saturating_add(len)),
            RunOrigin::Written(piece) => {
                if !equals_old((old, holes), old_offset, piece, 0..len, ignored) {
                    return false;
                }
                old_offset = old_offset.saturating_add(len);
                continue;
            }
        };
        while start < end {
            let Some(run) = changed_runs.get(run_index) else { return false };
            if run.end() <= start {
                run_index = run_index.saturating_add(1);
                continue;
            }
            // The part of the run that is in the range, counted from the start of the run.
            let part_start = start.saturating_sub(run.start);
            let part = part_start..run.len.min(end.saturating_sub(run.start));
            let is_restored = match run.from {
                RunOrigin::Copied(offset) => offset.saturating_add(part_start) == old_offset,
                RunOrigin::Written(piece) => equals_old((old, holes), old_offset, piece, part.clone(), ignored),
            };
            if !is_restored {
                return false;
            }
            start = start.saturating_add(len_of(&part));
            old_offset = old_offset.saturating_add(len_of(&part));
        }
    }
    old_offset == old.len()
}

/// Returns whether a range of a piece has the bytes of the old file from `old_offset` on, except for the bytes of the
/// old file in `ignored`.
fn equals_old(
    (old, holes): (Slice<'_>, &[Range<u64>]),
    old_offset: u64,
    piece: &Piece<'_>,
    range_in_piece: Range<u64>,
    ignored: &Range<u64>,
) -> bool {
    let range = old_offset..old_offset.saturating_add(len_of(&range_in_piece));
    let new = match piece {
        // `ignored` does not matter here. At worst, the old file counts as not given back.
        Piece::Zeros(_) => return is_zero_in_old(old, holes, range),
        Piece::Bytes(bytes) => bytes_in(bytes, range_in_piece),
        Piece::Input(slice) => bytes_in(slice.bytes(), range_in_piece),
    };
    let (Some(new), Some(was)) = (new, bytes_in(old.bytes(), range.clone())) else { return false };
    let mut pairs = (old_offset..).zip(new.iter().zip(was));
    pairs.all(|(offset, (new, was))| new == was || ignored.contains(&offset))
}

/// Returns whether a range of a file holds only zeros. Known holes are not read.
fn is_zero_in_old(old: Slice<'_>, holes: &[Range<u64>], range: Range<u64>) -> bool {
    let mut position = range.start;
    while position < range.end {
        let next = holes.partition_point(|hole| hole.end <= position);
        let (hole_start, hole_end) = match holes.get(next) {
            Some(hole) => (hole.start, hole.end),
            None => (range.end, range.end),
        };
        if position < hole_start {
            let Some(bytes) = bytes_in(old.bytes(), position..hole_start.min(range.end)) else { return false };
            if !is_zero(bytes) {
                return false;
            }
        }
        position = hole_end.max(hole_start);
    }
    true
}

/// The changes of a file that is copied.
pub(crate) const NO_CHANGES: &[ChangedRange<'static>] = &[];

/// Writes a file with some changes, in the order of the file.
pub(crate) fn changed(old: Slice<'_>, changes: &[ChangedRange<'_>], output: Output) -> Result<Output> {
    const NO_HOLES: &[Range<u64>] = &[];
    changed_with_holes(old, changes, NO_HOLES, output)
}

/// Writes a file with some changes, and with holes after the last change. The old bytes in the holes are left out, and
/// so must be zeros.
pub(crate) fn changed_with_holes(
    old: Slice<'_>,
    changes: &[ChangedRange<'_>],
    holes: &[Range<u64>],
    output: Output,
) -> Result<Output> {
    let mut rewriter = Rewriter::new(old, output);
    for (range, new) in changes {
        rewriter.copy_until(range.start)?;
        rewriter.write(new)?;
        rewriter.skip_until(range.end);
    }
    for hole in holes {
        rewriter.copy_until(hole.start)?;
        rewriter.leave_hole(len_of(hole))?;
        rewriter.skip_until(hole.end);
    }
    Ok(rewriter.finish()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;

    #[test]
    fn changes_are_undone_only_by_those_that_give_the_file_back() {
        let bytes = |text: &[u8]| vec![Piece::Bytes(text.to_vec())];
        let zeros = |len| vec![Piece::Zeros(len)];
        let old = Input::from_bytes("in", b"head\0\0\0\0\0\0tail".to_vec());
        // "NEW" comes first, and four of six zeros go.
        let changes = [(0..0, bytes(b"NEW")), (5..9, Vec::new())];
        for (back, expected) in [
            (vec![(0..3, Vec::new()), (8..8, zeros(4))], true),
            (vec![(0..3, Vec::new()), (7..8, zeros(5))], true),
            (vec![(0..4, bytes(b"h")), (8..8, bytes(b"\0\0\0\0"))], true),
            (vec![(0..3, Vec::new()), (8..8, zeros(3))], false),
            (vec![(0..3, Vec::new()), (8..8, zeros(5))], false),
            (vec![(0..3, Vec::new()), (6..6, zeros(4))], false),
            (vec![(0..4, bytes(b"H")), (8..8, zeros(4))], false),
            (vec![(0..3, Vec::new())], false),
            (vec![(8..8, zeros(4))], false),
            (Vec::new(), false),
        ] {
            for hole in [0..0, 4..10, 4..6] {
                let holes = std::slice::from_ref(&hole);
                let is_undone = undoes((old.as_slice(), holes), &changes, &back, &(0..0));
                assert_eq!(is_undone, expected, "{back:?} {hole:?}");
            }
        }
        let back = [(0..4, bytes(b"H")), (8..8, zeros(4))];
        assert!(undoes((old.as_slice(), &[]), &changes, &back, &(0..1)), "the first byte is ignored");
    }
}
