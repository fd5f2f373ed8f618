//! Recompresses a linked file, ELF or PE: each bundle stays at its address. Holes after bundles are taken out of a file
//! only when no other tool will change it: `strip`, `objcopy` and `patchelf` may break a shorter one.
//!
//! The output is checked with its holes and without them: a search finds the expected code, and taking out the holes
//! can be undone. If not, the holes stay.

use std::ops::Range;

use super::super::digest::are_equal;
use super::super::rewrite::bundles::{bundles_in, is_fat_object};
use super::super::rewrite::linked_format::LinkedFormat;
use super::super::rewrite::{NO_CHANGES, changed, changed_len, changed_with_holes, undoes};
use super::super::size_limit::limits_of_result;
use super::check::FileCode;
use super::run::{Recompression, RewrittenFile};
use super::{HoleLeft, HoleReason, Recompressed};
use crate::base::bytes::{len_of, total};
use crate::base::error::{Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::beyond::base::io::ChangedRange;
use crate::beyond::container::host::gaps;
use crate::beyond::container::host::gaps::{GapRemoval, elf, pe};
use crate::beyond::job::event::Observer;
use crate::beyond::scan::{Place, bundle_sections};
use crate::llvm::container::Limits;
use crate::llvm::container::sequence::Inflate;

/// The holes that an earlier job took out of a file.
enum OldHoles {
    None,
    /// The changes that put them back.
    Found(Vec<ChangedRange<'static>>),
    /// Another tool has rewritten the file since, so they cannot be put back.
    Lost,
}

impl OldHoles {
    fn into_changes(self) -> Option<Vec<ChangedRange<'static>>> {
        match self {
            Self::Found(changes) => Some(changes),
            Self::None | Self::Lost => None,
        }
    }
}

/// The old file, as the steps of a job change it before they rewrite its bundles.
struct OldFile<'d> {
    format: LinkedFormat,
    /// The file as the job found it.
    signed: Slice<'d>,
    /// The file without its signature, if the job drops that.
    unsigned: Slice<'d>,
    /// The unsigned file with the holes that an earlier job took out. `None` if it took none.
    with_old_holes: Option<&'d Input>,
}

/// A file whose bundles are rewritten at their old addresses. The holes after them may be taken out.
struct NewFile<'d> {
    format: LinkedFormat,
    /// The bytes of the file, with holes.
    made: Slice<'d>,
    holes: &'d [Range<u64>],
    /// The code that a search finds in it.
    found: FileCode,
}

/// The output, its changes compared with the new file with holes, and the reason why holes stay in it. The reason is
/// `None` if the remaining holes have less than a page each.
type WrittenFile = (Output, Vec<ChangedRange<'static>>, Option<HoleReason>);

impl NewFile<'_> {
    /// Writes the file with its holes, which stay for the given reason.
    fn write_with_holes(&self, output: Output, reason: HoleReason) -> Result<WrittenFile> {
        let changes = self.format.with_checksum(self.made, Vec::new())?;
        Ok((changed_with_holes(self.made, &changes, self.holes, output)?, changes, Some(reason)))
    }
}

/// Returns the number of bytes that some changes take out without new bytes in their place.
fn taken_out(changes: &[ChangedRange<'_>]) -> u64 {
    let removed = changes.iter().filter(|(_, new)| new.is_empty());
    total(removed.map(|(old, _)| len_of(old)))
}

impl Recompression<'_> {
    /// Rewrites a linked file at a place, in three steps:
    ///
    /// 1. Remove its signature, if the job drops that.
    /// 2. Put back the holes that an earlier job took out, because the new bundles may need the room.
    /// 3. Rewrite the bundles at their offsets, and take out the holes after them, if the file is finished.
    ///
    /// Each step but the last writes a temporary file. Holes that stay are noted in the result.
    pub(super) fn rewrite_linked(
        &mut self,
        data: Slice<'_>,
        place: &Place,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<RewrittenFile> {
        let format = LinkedFormat::identify(data);
        let is_signature_dropped = format == LinkedFormat::Pe && self.job.drop_signature;
        let changes = if is_signature_dropped { pe::remove_signature(data.bytes()) } else { None };
        let without_signature = write_aside(data, changes)?;
        let unsigned = without_signature.as_ref().map_or(data, Input::as_slice);
        let can_remove_holes = format.ensure_can_remove_holes(unsigned);
        let old_holes = match can_remove_holes {
            Ok(()) => self.find_old_holes(unsigned, self.job.limits)?,
            // Nothing was taken out of a file like this.
            Err(_) => OldHoles::None,
        };
        // Only a job without compression promises to restore the file that an earlier job made smaller.
        let is_not_restored = matches!(old_holes, OldHoles::Lost) && self.job.compression.is_none();
        let with_old_holes = write_aside(unsigned, old_holes.into_changes())?;
        // No tool will change the file any more: the user says so, it is a member of a zip file, or it is shorter
        // already.
        let is_finished = self.job.close_gaps || self.is_in_zip || with_old_holes.is_some();
        let can_remove_holes = can_remove_holes.and(if is_finished { Ok(()) } else { Err(HoleReason::Unfinished) });
        let old = OldFile { format, signed: data, unsigned, with_old_holes: with_old_holes.as_ref() };
        let (output, mut result, reason) = self.rewrite_and_remove_holes(&old, can_remove_holes, output, observer)?;
        if let Some(reason) = reason
            && result.holes > 0
        {
            result.holes_left.push(HoleLeft { place: place.to_string(), size: result.holes, reason });
        }
        if is_not_restored {
            result.not_restored.push(place.to_string());
        }
        Ok((output, result))
    }

    /// Finds the holes that an earlier job took out of a file.
    fn find_old_holes(&self, data: Slice<'_>, limits: Limits) -> Result<OldHoles> {
        let changes = match LinkedFormat::identify(data) {
            LinkedFormat::Elf => elf::open(data.bytes()),
            // An ELF file still has its old headers, which tell where holes were. In a PE file, holes were at some of
            // these ends.
            LinkedFormat::Pe => pe::open(data.bytes(), &self.ends_of_bundle_sections(data, limits)?),
        };
        Ok(match changes {
            Ok(Some(changes)) => OldHoles::Found(changes),
            Ok(None) => OldHoles::None,
            Err(gaps::RewrittenSince) => OldHoles::Lost,
        })
    }

    /// Rewrites a linked file, and takes its holes out. Returns also the reason why holes stay, or `None` if only holes
    /// of less than a page stay.
    ///
    /// If no bundle changes, writes the signed file. If the file has no bundles, writes nothing.
    fn rewrite_and_remove_holes(
        &mut self,
        old: &OldFile<'_>,
        can_remove_holes: Result<(), HoleReason>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(Output, Recompressed, Option<HoleReason>)> {
        let path = old.unsigned.path();
        let old_bundles = old.with_old_holes.map_or(old.unsigned, Input::as_slice);
        let ((made, mut result), holes) = self.rewrite_at_offsets(old_bundles, Output::temporary()?, observer)?;
        if result.bundles == 0 {
            return Ok((output, result, None));
        }
        let made = made.into_input(path)?;
        let made = made.as_slice();
        let found = self.find_expected(old_bundles, made)?;
        let removal = match can_remove_holes {
            Ok(()) => old.format.changes_to_remove_holes(made, &holes),
            Err(reason) => Err(reason),
        };
        // Lengths are compared first, because comparing the bytes reads both files.
        let may_be_same = old.with_old_holes.is_none() && removal.is_err() && result.before == result.after;
        if may_be_same && are_equal(made, old.unsigned).with_path(path)? {
            // Nothing has changed, so a signature stays valid.
            return Ok((changed(old.signed, NO_CHANGES, output)?, result, removal.err()));
        }
        let new = NewFile { format: old.format, made, holes: &holes, found };
        let (output, changes, reason) = match removal {
            Ok(removal) => self.write_without_holes(&new, removal, output)?,
            Err(reason) => new.write_with_holes(output, reason)?,
        };
        // Without a reason, only holes of less than a page stay, which are not reported.
        result.holes = if reason.is_some() { result.holes.saturating_sub(taken_out(&changes)) } else { 0 };
        result.note_len(old.signed.len(), changed_len(made, &changes));
        Ok((output, result, reason))
    }

    /// Writes a new file to `output` without the holes that can be taken out. If a later job could not put these holes
    /// back, writes the file with all holes instead.
    fn write_without_holes(
        &self,
        new: &NewFile<'_>,
        GapRemoval { changes, stay_reason }: GapRemoval,
        output: Output,
    ) -> Result<WrittenFile> {
        let changes = new.format.with_checksum(new.made, changes)?;
        let mut output = changed(new.made, &changes, output)?;
        if self.can_undo(new, &changes, &mut output)? {
            return Ok((output, changes, stay_reason));
        }
        // The file is written again from its start.
        output.end_at(0)?;
        new.write_with_holes(output, HoleReason::NotUndone)
    }

    /// Returns whether `output`, which `changes` made of the file with holes, has the same bundles, and can be changed
    /// back into the file with holes.
    fn can_undo(&self, with_holes: &NewFile<'_>, changes: &[ChangedRange<'_>], output: &mut Output) -> Result<bool> {
        let without_holes = output.read_again(with_holes.made.path())?;
        let limits = limits_of_result(self.job.limits);
        let OldHoles::Found(changes_back) = self.find_old_holes(without_holes.as_slice(), limits)? else {
            return Ok(false);
        };
        // The checksum of a PE file is computed anew, so it may differ.
        let ignored = pe::checksum(with_holes.made.bytes());
        if !undoes((with_holes.made, with_holes.holes), changes, &changes_back, &ignored) {
            return Ok(false);
        }
        Ok(FileCode::of(without_holes.as_slice(), limits)?.is_as_expected(&with_holes.found))
    }

    /// Returns the ends of the sections that hold only bundles and the zeros after them. Holes are taken out only at
    /// the ends of these sections, so they come back only there.
    fn ends_of_bundle_sections(&self, data: Slice<'_>, limits: Limits) -> Result<Vec<u64>> {
        let mut ends = Vec::new();
        for section in bundle_sections(data)? {
            if self.holds_only_bundles(data, section, limits) {
                ends.push(section.end());
            }
        }
        Ok(ends)
    }

    /// Returns whether a section holds bundles that are rewritten, and nothing but zeros after them. Fat objects are
    /// not rewritten, so a section with one does not count.
    fn holds_only_bundles(&self, data: Slice<'_>, section: Slice<'_>, limits: Limits) -> bool {
        let mut bundles = bundles_in(section, Inflate::Headers, limits);
        let mut is_empty = true;
        for bundle in bundles.by_ref() {
            is_empty = false;
            let Ok(bundle) = bundle else { return false };
            if !matches!(is_fat_object(data, &bundle), Ok(false)) {
                return false;
            }
        }
        !is_empty && bundles.stopped_at().is_none()
    }
}

/// Writes a temporary file with some changes and returns it. Returns `None` without `changes`.
pub(super) fn write_aside(data: Slice<'_>, changes: Option<Vec<ChangedRange<'_>>>) -> Result<Option<Input>> {
    match changes {
        Some(changes) => Ok(Some(changed(data, &changes, Output::temporary()?)?.into_input(data.path())?)),
        None => Ok(None),
    }
}
