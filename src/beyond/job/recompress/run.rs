//! Runs a recompression, and keeps its state.

use std::path::PathBuf;

use super::check::KeptByOffset;
use super::local_version::WheelVersion;
use super::pick::{PickTotal, PickedBundle, Picker, Picks};
use super::refusals::Refusals;
use super::remaining::RemainingCode;
use super::{Recompress, Recompressed};
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::{Accept, Input, Slice};
use crate::base::io::output::{self, Output};
use crate::beyond::codec::Codec;
use crate::beyond::container::{Bundle, Format, Magic};
use crate::beyond::job::event::Observer;
use crate::beyond::job::output_file::output_file;
use crate::beyond::job::rewrite::progress::ProgressRange;
use crate::beyond::job::rewrite::{is_program, unexpected_parts};
use crate::beyond::scan::{Budget, Place};
use crate::llvm::work::open;

/// The state of a recompression, for all files that it rewrites.
pub(super) struct Recompression<'j> {
    pub(super) job: &'j Recompress,
    /// The limit on the total inflated size of all bundles and members, as in a search.
    pub(super) budget: Budget,
    pub(super) result: Recompressed,
    /// Decides which code objects are kept.
    pub(super) picker: &'j Picker<'j>,
    /// The code objects to keep in each bundle of the file that is being rewritten.
    pub(super) picks: Picks,
    /// The sums over the bundles that were rewritten: what was kept and removed.
    pub(super) pick_total: PickTotal,
    /// The place of the file that is being rewritten: the input, or a member of it.
    pub(super) place: Place,
    /// The code objects that are kept in the file that is being rewritten, in bundles that lose others.
    pub(super) kept: KeptByOffset,
    /// Whether the file that is being rewritten is a member of a zip file.
    pub(super) is_in_zip: bool,
    /// The code outside of bundles that stays although its target is to be removed, or `None` if the job removes no
    /// target.
    pub(super) remaining: Option<RemainingCode>,
    pub(super) refusals: Refusals,
    pub(super) progress: ProgressRange,
}

/// A rewritten file and the numbers for it. If the number of bundles is zero, the output is incomplete, and callers
/// ignore it.
pub(super) type RewrittenFile = (Output, Recompressed);

impl<'j> Recompression<'j> {
    /// Starts a recompression of a file of `len` bytes.
    pub(super) fn new(job: &'j Recompress, picker: &'j Picker<'j>, len: u64) -> Self {
        Self {
            job,
            budget: Budget::new(job.limits, len),
            result: Recompressed::default(),
            picker,
            picks: Picks::default(),
            pick_total: PickTotal::default(),
            place: Place::of_file(&job.input),
            kept: KeptByOffset::new(),
            is_in_zip: false,
            remaining: if job.removes_targets() { Some(RemainingCode::default()) } else { None },
            refusals: Refusals::default(),
            progress: ProgressRange { start: 0, len, total: len },
        }
    }

    /// Starts the recompression of a member of a zip file. `progress` is its share of the progress.
    pub(super) fn of_member(&self, budget: Budget, progress: ProgressRange) -> Self {
        Self { budget, progress, is_in_zip: true, ..Self::new(self.job, self.picker, progress.total) }
    }

    /// Adds what a recompression of a member has found and done.
    pub(super) fn add_member(&mut self, member: Recompression<'_>) {
        self.result.add(&member.result);
        self.pick_total.extend(member.pick_total);
        self.refusals.extend(member.refusals);
        if let (Some(remaining), Some(more)) = (&mut self.remaining, member.remaining) {
            remaining.extend(more);
        }
    }

    /// Returns whether a file from which `dropped` code objects were removed must be written even if it is not smaller.
    pub(super) fn must_change(&self, dropped: usize) -> bool {
        // The caller needs this form whatever its size: plain, or LZ4 for drivers that do not read zstd.
        let is_converted = self.job.compression.is_none() || self.job.fatbin_codec == Some(Codec::Lz4);
        dropped > 0 || is_converted
    }

    /// Decides which code objects are kept in a file, or in a member, whose bundles are rewritten next. Does nothing if
    /// the job removes none.
    pub(super) fn pick_in(&mut self, data: Slice<'_>) -> Result<()> {
        self.picks = if self.job.removes() { self.picker.pick_in(data)? } else { Picks::default() };
        Ok(())
    }

    /// Returns the code objects to keep in a bundle that is rewritten, and adds them to `pick_total`. Returns `None` if
    /// the job removes no code. Fails if the search has not found the bundle: it would not find the new one either.
    pub(super) fn take_picked(&mut self, data: Slice<'_>, bundle: &Bundle<'_>) -> Result<Option<PickedBundle>> {
        if !self.job.removes() {
            return Ok(None);
        }
        let picked = self.picks.take(bundle.offset).unwrap_or_else(|| {
            // A broken bundle is not found either.
            bundle.inflate_whole()?;
            Err(unexpected_parts(data.path(), "bundles"))
        });
        let mut picked = picked?;
        self.pick_total.extend(std::mem::take(&mut picked.total));
        Ok(Some(picked))
    }

    /// Charges a bundle to the budget of the search.
    pub(super) fn take_bundle(&mut self, data: Slice<'_>, bundle: &Bundle<'_>) -> Result<()> {
        self.budget
            .charge_bundle(bundle)
            .map_err(|(what, limit)| Error::malformed(data.path(), Malformed::search(what, limit, bundle.offset)))
    }
}

impl Recompress {
    /// Writes the file.
    ///
    /// # Errors
    /// Any [`Error`](crate::Error); the output is then unchanged. The kind is:
    ///
    /// - [`NotFound`](crate::ErrorKind::NotFound) if a pattern of `keep` or all of `drop` match nothing, or if no code
    ///   object for a device is left.
    /// - [`Limit`](crate::ErrorKind::Limit) if a bundle does not fit at its offset.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if the file holds nothing to compress, if sections overlap, if
    ///   the file is signed, or if the end of a bundle would be lost.
    /// - `Unsupported` if code objects are removed from a bundle whose IDs cannot be written again, or from a text
    ///   bundle with other data in it.
    /// - `Unsupported` if a file that gets a local version is not a wheel, or if the names in it do not agree.
    /// - [`Conflict`](crate::ErrorKind::Conflict) if the output has another name than the new wheel, or if the wheel
    ///   has the local version already.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Recompressed> {
        let input = open(&self.input, Accept::Finite, self.limits.streamed)?;
        let wheel = self.new_wheel(&input)?;
        let output = match &wheel {
            Some(wheel) => Output::stage(wheel)?,
            None => Output::stage(&output_file(&self.output, &self.input)?)?,
        };
        // A wildcard is literal if any kernel of the file has the name, so this is known before the first bundle is
        // rewritten.
        let picker = input.unless_changed(Picker::new(self).with_kernels_of(&input))?;
        let run = Recompression::new(self, &picker, input.len());
        let (mut output, mut result) = input.unless_changed(self.write(&input, run, output, observer))?;
        result.wheel = wheel;
        // Linkers make programs and libraries executable. A new output is not executable yet.
        if is_program(Magic::identify(input.bytes()))
            && let Some(mode) = input.mode()
            && mode & 0o111 != 0
        {
            output.make_executable()?;
        }
        output::commit(vec![output])?;
        Ok(result)
    }

    /// Returns the path of the new wheel if it has a local version, and `None` if the job adds none.
    fn new_wheel(&self, input: &Input) -> Result<Option<PathBuf>> {
        let Some(label) = &self.local_version else { return Ok(None) };
        let version = WheelVersion::of_file(input.path(), label)?;
        if Magic::identify(input.bytes()) != Magic::Zip {
            return Err(version.refused("it is not a wheel: it is not a zip file"));
        }
        Ok(Some(version.output_path(&self.output)?))
    }

    /// Writes the new file to `output`, and searches it for code that stays although its target is to be removed.
    fn write(
        &self,
        input: &Input,
        mut run: Recompression<'_>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(Output, Recompressed)> {
        let mut output = run.rewrite_file(input.as_slice(), output, observer)?;
        let remaining = run.remaining.take();
        let picker = run.picker;
        let mut result = run.finish(input)?;
        if let Some(mut remaining) = remaining {
            // The members of a zip file were added when they were written.
            if Magic::identify(input.bytes()) != Magic::Zip {
                let written = output.read_again(&self.input)?;
                remaining.add(picker, &Place::of_file(&self.input), written.as_slice())?;
            }
            result.left = remaining.into_holders();
        }
        Ok((output, result))
    }
}

/// Returns whether a member of this kind may hold bundles that can be rewritten.
pub(super) fn may_hold_bundles(magic: Magic) -> bool {
    let is_bundle = matches!(
        magic,
        Magic::Container(Format::Bundle)
            | Magic::CompressedBundle
            | Magic::Container(Format::TextBundle)
            | Magic::Container(Format::Fatbin)
    );
    is_bundle || is_program(magic) || magic == Magic::Coff
}
