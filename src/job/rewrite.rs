//! Writes a file again with other bytes in some of its ranges: what `recompress` and `replace` have in common.
//!
//! A [`Rewriter`] goes once through the old file, in its order. All that is not skipped is copied as it is, in the
//! kernel where that can. After new bytes, the rest of the file follows directly
//! ([`skip_until`](Rewriter::skip_until)), as in a file of bundles or a zip file, or stays at its offset behind a hole
//! ([`leave_room`](Rewriter::leave_room)), as in programs, whose code has addresses.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::slice;

use crate::bytes::len_of;
use crate::error::Result;
use crate::io::input::Slice;
use crate::io::output::Output;
use crate::io::piece::{Change, Piece, Sink, emit, sum, total_len};

/// The smallest number of zeros that become a hole.
const HOLE_MIN: u64 = 64 << 10;

/// A file that is being written again.
pub(super) struct Rewriter<'d> {
    old: Slice<'d>,
    /// What is written to it directly has to be [counted](Self::count) or [taken back](Self::take_back).
    pub(super) output: Output,
    /// The end of what was copied or skipped so far, in the old file.
    read: u64,
    /// The length of the output so far, in bytes.
    written: u64,
    /// Where the old file goes on after each skipped range: the offset in it and in the output.
    moves: Vec<(u64, u64)>,
    /// The ranges of the output that are holes.
    holes: Vec<Range<u64>>,
}

impl<'d> Rewriter<'d> {
    pub(super) fn new(old: Slice<'d>, output: Output) -> Self {
        Self { old, output, read: 0, written: 0, moves: Vec::new(), holes: Vec::new() }
    }

    /// The length of the output so far, in bytes.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Copies the old file up to an offset.
    pub(super) fn copy_until(&mut self, end: u64) -> Result<()> {
        let between = self.old.claimed(&(self.read..end))?;
        self.output.copy(between)?;
        self.read = end;
        self.count(between.len())
    }

    /// Skips the old file up to an offset.
    pub(super) fn skip_until(&mut self, end: u64) {
        self.read = end;
        self.moves.push((end, self.written));
    }

    /// Writes new bytes. Many zeros become a hole.
    pub(super) fn write(&mut self, pieces: &[Piece<'_>]) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Zeros(len @ HOLE_MIN..) => self.leave_room(*len)?,
                _ => {
                    emit(slice::from_ref(piece), &mut self.output)?;
                    self.count(piece.len())?;
                }
            }
        }
        Ok(())
    }

    /// Counts new bytes that were written to the output directly.
    pub(super) fn count(&mut self, len: u64) -> Result<()> {
        self.written = sum([self.written, len])?;
        Ok(())
    }

    /// Takes back what was written to the output directly.
    pub(super) fn take_back(&mut self) -> Result<()> {
        self.output.end_at(self.written)
    }

    /// Leaves a hole of `len` bytes.
    pub(super) fn leave_room(&mut self, len: u64) -> Result<()> {
        self.output.skip(len)?;
        self.holes.push(self.written..sum([self.written, len])?);
        self.count(len)
    }

    /// The offset in the output of what was copied from an offset in the old file.
    pub(super) fn moved(&self, old: u64) -> u64 {
        let before = self.moves.partition_point(|(start, _)| *start <= old);
        let last = before.checked_sub(1).and_then(|last| self.moves.get(last));
        last.map_or(old, |(start, new)| old.saturating_sub(*start).saturating_add(*new))
    }

    /// Begins again.
    pub(super) fn restart(&mut self) -> Result<()> {
        (self.read, self.written) = (0, 0);
        self.moves.clear();
        self.holes.clear();
        self.take_back()
    }

    /// Copies the rest of the old file. Returns the holes too.
    pub(super) fn finish(mut self) -> Result<(Output, Vec<Range<u64>>)> {
        self.copy_until(self.old.len())?;
        self.take_back()?;
        Ok((self.output, self.holes))
    }
}

/// The length of a file with some changes.
pub(super) fn changed_len(old: Slice<'_>, changes: &[Change<'_>]) -> u64 {
    let (gone, added) = changes.iter().fold((0_u64, 0_u64), |(gone, added), (old, new)| {
        (gone.saturating_add(len_of(old)), added.saturating_add(total_len(new).unwrap_or(u64::MAX)))
    });
    old.len().saturating_sub(gone).saturating_add(added)
}

/// Writes a file with some changes, which are in the order of the file.
pub(super) fn changed(old: Slice<'_>, changes: &[Change<'_>], output: Output) -> Result<Output> {
    let mut rewriter = Rewriter::new(old, output);
    for (range, new) in changes {
        rewriter.copy_until(range.start)?;
        rewriter.write(new)?;
        rewriter.skip_until(range.end);
    }
    Ok(rewriter.finish()?.0)
}
