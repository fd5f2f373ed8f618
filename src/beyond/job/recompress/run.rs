//! Runs a recompression: its state, and what each kind of file gives back.

use super::choice::{Choice, RemainingCode};
use super::refusals::Refusals;
use super::span::Span;
use super::{Recompress, Recompressed, Replacing};
use crate::base::codec::Codec;
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::{Accept, Slice};
use crate::base::io::output::{self, Output};
use crate::beyond::container::Bundle;
use crate::beyond::scan::{Budget, Place};
use crate::llvm::container::magic::Magic;
use crate::llvm::event::Observer;
use crate::llvm::work::open;

/// The state of a recompression: what all files have in common that it rewrites.
pub(super) struct Recompression<'j> {
    pub(super) job: &'j Recompress,
    /// The limit on the total inflated size of all bundles, as in a search.
    pub(super) budget: Budget,
    pub(super) result: Recompressed,
    pub(super) choice: Choice<'j>,
    /// The place of the file that is being rewritten: the input, or a member of it.
    pub(super) place: Place,
    /// The code that stays, if the job removes code by its target.
    pub(super) remaining: Option<RemainingCode<'j>>,
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
            place: Place::of_file(&job.input),
            remaining: job.removes_targets().then(|| RemainingCode::new(job)),
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

impl Recompress {
    /// Writes the file.
    ///
    /// # Errors
    /// Any [`Error`](crate::Error); the output is then unchanged. Its kind is [`NotFound`](crate::ErrorKind::NotFound)
    /// if a pattern of `keep` or all of `drop` match nothing, or if no code object for a device is left, and
    /// [`Limit`](crate::ErrorKind::Limit) if a bundle does not fit at its offset. It is
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the file holds nothing to compress, if sections overlap, if it
    /// is signed, if the end of a bundle would be lost, or if a bundle loses code objects and has an ID that cannot be
    /// written or is a text bundle that holds other data too.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Recompressed> {
        let input = open(&self.input, Accept::Finite, self.limits.streamed)?;
        let (mut run, output) = (Recompression::new(self, input.len()), Output::stage(&self.output)?);
        input.vouch_for(run.choice.settle_names(&input))?;
        let magic = Magic::identify(input.bytes());
        let written = run.rewrite_file(input.as_slice(), output, observer);
        let finished = written.and_then(|mut output| {
            let mut remaining = run.remaining.take();
            let mut result = run.finish(&input)?;
            if let Some(remaining) = &mut remaining
                && magic != Magic::Zip
            {
                let written = output.read_again(&self.input)?;
                remaining.add(&Place::of_file(&self.input), written.as_slice())?;
            }
            result.left = remaining.map(RemainingCode::into_places).unwrap_or_default();
            Ok((output, result))
        });
        let (mut output, result) = input.vouch_for(finished)?;
        // As linkers do with programs and libraries.
        if is_program(magic) && input.mode().is_some_and(|mode| mode & 0o111 != 0) {
            output.make_executable()?;
        }
        output::commit(vec![output])?;
        Ok(result)
    }
}

/// Writes a file with another content of one code object. Returns it, and whether a plain bundle is compressed now.
/// None if its bundle is not one that [`Recompress`] rewrites.
pub(crate) fn rewrite_with<'j>(
    job: &'j Recompress,
    replacing: Replacing<'j>,
    data: Slice<'_>,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Option<(Output, bool)>> {
    let mut run = Recompression { replacing: Some(replacing), ..Recompression::new(job, data.len()) };
    let output = run.rewrite_file(data, output, observer)?;
    Ok(run.replacing.and_then(|replacing| replacing.done).map(|is_now_compressed| (output, is_now_compressed)))
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
