//! The state of a recompression, and what each kind of file gives back.

use super::choice::Choice;
use super::refusals::Refusals;
use super::span::Span;
use super::{Recompress, Recompressed, Replacing};
use crate::base::codec::Codec;
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::Slice;
use crate::base::io::output::Output;
use crate::beyond::container::Bundle;
use crate::beyond::scan::Budget;
use crate::llvm::container::magic::Magic;

/// The state of a recompression: what all files have in common that it rewrites.
pub(super) struct Recompression<'j> {
    pub(super) job: &'j Recompress,
    /// The limit on the total inflated size of all bundles, as in a search.
    pub(super) budget: Budget,
    pub(super) result: Recompressed,
    pub(super) choice: Choice<'j>,
    /// The only change, if one code object is replaced.
    pub(super) replacing: Option<Replacing<'j>>,
    pub(super) refusals: Refusals,
    pub(super) span: Span,
}

/// A rewritten file, which is incomplete if it holds no bundles, and its numbers.
pub(super) type Rewritten = (Output, Recompressed);

impl<'j> Recompression<'j> {
    /// A recompression of a file of `len` bytes.
    pub(super) fn new(job: &'j Recompress, len: u64) -> Self {
        Self {
            job,
            budget: Budget::new(job.limits, len),
            result: Recompressed::default(),
            choice: Choice::new(job),
            replacing: None,
            refusals: Refusals::default(),
            span: Span { start: 0, len, of: len },
        }
    }

    /// Whether a file from which this number of code objects was removed must be written even if it is not smaller.
    pub(super) fn must_change(&self, dropped: usize) -> bool {
        let is_converted = self.job.compression.is_none() || self.job.fatbin_codec == Some(Codec::Lz4);
        dropped > 0 || is_converted || self.replacing.is_some()
    }

    /// Charges a bundle of a file.
    pub(super) fn take_bundle(&mut self, data: Slice<'_>, bundle: &Bundle<'_>) -> Result<()> {
        let spent = |(what, limit)| Error::malformed(data.path(), Malformed::search(what, limit, bundle.offset));
        self.budget.take_bundle(bundle).map_err(spent)
    }
}

/// Whether a file has sections, in which bundles stay at their offsets.
pub(super) fn is_program(magic: Magic) -> bool {
    magic.is_elf() || magic == Magic::Pe
}

/// Whether a member of this kind may hold bundles that can be rewritten.
pub(super) fn may_hold_bundles(magic: Magic) -> bool {
    let is_bundle = matches!(magic, Magic::Bundle | Magic::CompressedBundle | Magic::TextBundle | Magic::FatBinary);
    is_bundle || is_program(magic) || magic == Magic::Coff
}
