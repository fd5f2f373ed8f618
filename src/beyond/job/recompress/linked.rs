//! Recompresses a linked file, ELF or PE: each bundle stays at its address, and holes after bundles are taken out of
//! the file.
//!
//! The output is checked before it is put in place: it has the same bundles, no wrapper has lost its bundle, and taking
//! out the holes can be undone. If not, the holes stay.

use std::ops::Range;

use super::super::digest::are_equal;
use super::super::rewrite::{changed, changed_len, changed_with_holes, undoes};
use super::bundles::is_fat_object;
use super::run::{Recompression, RewrittenFile};
use super::{HoleLeft, HoleReason, Recompressed};
use crate::base::bytes::{len_of, total};
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::base::io::piece::ChangedRange;
use crate::beyond::container::host::gaps;
use crate::beyond::container::host::gaps::{GapRemoval, elf, pe};
use crate::beyond::scan::sections::lost_wrappers;
use crate::beyond::scan::{Place, bundle_sections};
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::event::Observer;

/// The format of a linked file, which decides how holes are taken out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkedFormat {
    Elf,
    Pe,
}

impl LinkedFormat {
    fn identify(data: Slice<'_>) -> Self {
        if Magic::identify(data.bytes()) == Magic::Pe { Self::Pe } else { Self::Elf }
    }

    /// Fails with the reason if holes cannot be taken out of this file, whatever its holes are.
    fn ensure_can_remove_holes(self, data: Slice<'_>) -> Result<(), HoleReason> {
        match self {
            Self::Elf => elf::ensure_can_close(data.bytes()),
            Self::Pe => pe::ensure_can_close(data.bytes()),
        }
    }

    /// Returns the changes that take the holes out of a file. Fails with the reason if none can be taken out.
    fn changes_to_remove_holes(self, made: Slice<'_>, holes: &[Range<u64>]) -> Result<GapRemoval, HoleReason> {
        match self {
            Self::Elf => elf::close(made.bytes(), holes),
            Self::Pe => pe::close(made.bytes(), holes),
        }
    }

    /// Adds the change of the checksum that a PE file has. ELF files have none.
    fn with_checksum(self, made: Slice<'_>, changes: Vec<ChangedRange<'static>>) -> Result<Vec<ChangedRange<'static>>> {
        if self == Self::Pe { pe::with_checksum(made, changes) } else { Ok(changes) }
    }
}

/// The bundles that a search finds in a linked file, and the faults of the file.
struct FoundBundles {
    /// The entry IDs of each bundle.
    bundles: Vec<Vec<Vec<u8>>>,
    /// The number of sections with other data after their bundles.
    with_trailing_data: usize,
    /// The number of wrappers that do not point at a bundle.
    lost_wrappers: usize,
}

impl FoundBundles {
    /// Returns whether these are the bundles of `old` without `dropped` code objects, and whether there are no more
    /// faults than in `old`.
    fn equal_without_dropped(&self, old: &Self, dropped: usize) -> bool {
        if self.with_trailing_data > old.with_trailing_data || self.lost_wrappers > old.lost_wrappers {
            return false;
        }
        if self.bundles.len() != old.bundles.len() || self.code_objects() + dropped != old.code_objects() {
            return false;
        }
        let mut pairs = self.bundles.iter().zip(&old.bundles);
        pairs.all(|(ids, old_ids)| is_subsequence(ids, old_ids))
    }

    fn code_objects(&self) -> usize {
        self.bundles.iter().map(Vec::len).sum()
    }
}

/// Returns whether `ids` is `all` without some of its IDs, in the same order, as after code objects were removed.
fn is_subsequence(ids: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut rest = all.iter();
    ids.iter().all(|id| rest.any(|other| other == id))
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
    found: FoundBundles,
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
    /// 3. Rewrite the bundles at their offsets, and take out the holes after them.
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
        let unsigned = match &without_signature {
            Some(written) => written.as_slice(),
            None => data,
        };
        let can_remove_holes =
            if self.job.keep_offsets { Err(HoleReason::Asked) } else { format.ensure_can_remove_holes(unsigned) };
        let restoring = if can_remove_holes.is_ok() { self.changes_to_restore_holes(unsigned)? } else { Ok(None) };
        // The error means that another tool has rewritten the file, so the holes of an earlier job do not come back.
        let is_restored = restoring.is_ok();
        let with_old_holes = write_aside(unsigned, restoring.unwrap_or_default())?;
        let old = OldFile { format, signed: data, unsigned, with_old_holes: with_old_holes.as_ref() };
        let (output, mut result, reason) = self.rewrite_and_remove_holes(&old, can_remove_holes, output, observer)?;
        if let Some(reason) = reason
            && result.holes > 0
        {
            result.holes_left.push(HoleLeft { place: place.to_string(), size: result.holes, reason });
        }
        // Only a job without compression promises to restore the file that an earlier job made smaller.
        if !is_restored && self.job.compression.is_none() {
            result.not_restored.push(place.to_string());
        }
        Ok((output, result))
    }

    /// Returns the changes that put back the holes that an earlier job took out of a file, or `None` if it took none.
    /// The inner error means that another tool has rewritten the file since, so the holes cannot come back.
    fn changes_to_restore_holes(
        &self,
        data: Slice<'_>,
    ) -> Result<Result<Option<Vec<ChangedRange<'static>>>, gaps::RewrittenSince>> {
        Ok(match LinkedFormat::identify(data) {
            LinkedFormat::Elf => elf::open(data.bytes()),
            // An ELF file still has its old headers, which tell where holes were. In a PE file, holes were at some of
            // these ends.
            LinkedFormat::Pe => pe::open(data.bytes(), &self.ends_of_bundle_sections(data)?),
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
        let old_bundles = match old.with_old_holes {
            Some(with_old_holes) => with_old_holes.as_slice(),
            None => old.unsigned,
        };
        let ((made, mut result), holes) = self.rewrite_at_offsets(old_bundles, Output::temporary()?, observer)?;
        if result.bundles == 0 {
            return Ok((output, result, None));
        }
        let made = made.into_input(path)?;
        let made = made.as_slice();
        let found = self.find_bundles(made)?;
        // A replacement is checked by its caller, which compares all code objects.
        if self.replacing.is_none() && !found.equal_without_dropped(&self.find_bundles(old_bundles)?, result.dropped) {
            let reason = "cannot rewrite the bundles: other bundles would be found in the result";
            let hint = "verify reports what is wrong with the file";
            return Err(Error::refused(ErrorKind::Unsupported, path, None, reason).with_hint(hint));
        }
        let removal = match can_remove_holes {
            Ok(()) => old.format.changes_to_remove_holes(made, &holes),
            Err(reason) => Err(reason),
        };
        // Lengths are compared first, because comparing the bytes reads both files.
        let may_be_same = old.with_old_holes.is_none() && removal.is_err() && result.before == result.after;
        if may_be_same && are_equal(made, old.unsigned).with_path(path)? {
            // Nothing has changed, so a signature stays valid.
            return Ok((changed(old.signed, &[], output)?, result, removal.err()));
        }
        let new = NewFile { format: old.format, made, holes: &holes, found };
        let (output, changes, reason) = match removal {
            Ok(removal) => self.write_without_holes(&new, removal, output)?,
            Err(reason) => new.write_with_holes(output, reason)?,
        };
        // Holes of less than a page are not reported.
        result.holes = if reason.is_some() { result.holes.saturating_sub(taken_out(&changes)) } else { 0 };
        result.note_len(old.signed.len(), changed_len(made, &changes));
        Ok((output, result, reason))
    }

    /// Writes a new file without the holes that can be taken out. If a later job could not put these holes back, writes
    /// the file with all holes.
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
        let Ok(Some(changes_back)) = self.changes_to_restore_holes(without_holes.as_slice())? else {
            return Ok(false);
        };
        // The checksum of a PE file is computed anew, so it may differ.
        let ignored = pe::checksum(with_holes.made.bytes());
        if !undoes((with_holes.made, with_holes.holes), changes, &changes_back, &ignored) {
            return Ok(false);
        }
        const NONE_DROPPED: usize = 0;
        Ok(self.find_bundles(without_holes.as_slice())?.equal_without_dropped(&with_holes.found, NONE_DROPPED))
    }

    /// Finds the bundles in the sections of a linked file, as a later job would. Fat objects, and everything after one
    /// in its section, are left out, because they are not rewritten.
    fn find_bundles(&self, data: Slice<'_>) -> Result<FoundBundles> {
        let lost_wrappers = lost_wrappers(data)?;
        let mut found = FoundBundles { bundles: Vec::new(), with_trailing_data: 0, lost_wrappers };
        for section in bundle_sections(data)? {
            let mut bundles = self.bundles_in(section.content, Inflate::Headers);
            while let Some(bundle) = bundles.next().transpose()? {
                if is_fat_object(data, &bundle)? {
                    break;
                }
                found.bundles.push(bundle.entries.iter().map(|entry| entry.id().to_vec()).collect());
            }
            found.with_trailing_data += usize::from(bundles.stopped_at().is_some());
        }
        Ok(found)
    }

    /// Returns the ends of the sections that hold only bundles and the zeros after them. Holes are taken out only at
    /// the ends of these sections, so they come back only there.
    fn ends_of_bundle_sections(&self, data: Slice<'_>) -> Result<Vec<u64>> {
        let mut ends = Vec::new();
        for section in bundle_sections(data)? {
            if self.holds_only_bundles(data, section.content) {
                ends.push(section.content.end());
            }
        }
        Ok(ends)
    }

    /// Returns whether a section holds bundles that are rewritten, and nothing but zeros after them. Fat objects are
    /// not rewritten, so a section with one does not count.
    fn holds_only_bundles(&self, data: Slice<'_>, section: Slice<'_>) -> bool {
        let mut bundles = self.bundles_in(section, Inflate::Headers);
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

/// Returns advice about a bundle that needs more room in a file than it has, or `None` if the reason is another one
/// than the two below.
pub(super) fn no_room_hint(data: Slice<'_>) -> Option<&'static str> {
    let format = LinkedFormat::identify(data);
    // The holes of an earlier job, which would make room, cannot come back.
    if format == LinkedFormat::Elf && elf::open(data.bytes()).is_err() {
        return Some(
            "another tool has changed the file since recompress made it shorter: recompress --none has to run before it",
        );
    }
    match format.ensure_can_remove_holes(data) {
        Err(HoleReason::DataAfter) => {
            Some("other data follows the sections, so nothing can move: recompress the file before that data is added")
        }
        _ => None,
    }
}
