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

    /// Returns the reason why holes cannot be taken out of a file of this format, as an error.
    fn ensure_can_close(self, data: Slice<'_>) -> Result<(), HoleReason> {
        match self {
            Self::Elf => elf::ensure_can_close(data.bytes()),
            Self::Pe => pe::ensure_can_close(data.bytes()),
        }
    }

    /// Takes the holes out of a file, or returns the reason why they stay, as an error.
    fn close(self, made: Slice<'_>, holes: &[Range<u64>]) -> Result<GapRemoval, HoleReason> {
        match self {
            Self::Elf => elf::close(made.bytes(), holes),
            Self::Pe => pe::close(made.bytes(), holes),
        }
    }

    /// Adds the change of the checksum, if the file has one.
    fn with_checksum(self, made: Slice<'_>, changes: Vec<ChangedRange<'static>>) -> Result<Vec<ChangedRange<'static>>> {
        if self == Self::Pe { pe::with_checksum(made, changes) } else { Ok(changes) }
    }
}

/// The bundles that are found in a linked file, and its faults.
struct FoundBundles {
    /// The entry IDs of each bundle.
    bundles: Vec<Vec<Vec<u8>>>,
    /// The number of sections with other data after the bundles.
    trailing: usize,
    /// The number of wrappers that do not point at a bundle.
    lost_wrappers: usize,
}

impl FoundBundles {
    /// Returns whether these are the bundles of `old` without `dropped` code objects, and whether no faults were added.
    fn equal_without_dropped(&self, old: &Self, dropped: usize) -> bool {
        let mut pairs = self.bundles.iter().zip(&old.bundles);
        self.bundles.len() == old.bundles.len()
            && self.code_objects() + dropped == old.code_objects()
            && self.trailing <= old.trailing
            && self.lost_wrappers <= old.lost_wrappers
            && pairs.all(|(ids, old_ids)| is_subsequence(ids, old_ids))
    }

    fn code_objects(&self) -> usize {
        self.bundles.iter().map(Vec::len).sum()
    }
}

/// Returns whether `ids` are some of `all` in the same order. Removing code objects gives such a list.
fn is_subsequence(ids: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut rest = all.iter();
    ids.iter().all(|id| rest.any(|other| other == id))
}

/// A file whose bundles are rewritten at their old addresses. The holes after them may be taken out.
struct NewFile<'d> {
    format: LinkedFormat,
    /// The bytes of the file, with holes.
    made: Slice<'d>,
    holes: &'d [Range<u64>],
    found: FoundBundles,
}

/// The output, its changes compared with the new file with holes, and the reason why holes stay.
type WrittenFile = (Output, Vec<ChangedRange<'static>>, Option<HoleReason>);

impl NewFile<'_> {
    /// Writes the file with its holes.
    fn write_with_holes(&self, output: Output, reason: HoleReason) -> Result<WrittenFile> {
        let changes = self.format.with_checksum(self.made, Vec::new())?;
        Ok((changed_with_holes(self.made, &changes, self.holes, output)?, changes, Some(reason)))
    }
}

/// Returns the number of bytes that some changes take out.
fn taken_out(changes: &[ChangedRange<'_>]) -> u64 {
    let removed = changes.iter().filter(|(_, new)| new.is_empty());
    total(removed.map(|(old, _)| len_of(old)))
}

impl Recompression<'_> {
    /// Rewrites a linked file at a place, in three steps: without its signature if that is asked for, then with the
    /// holes of an earlier job put back, and then with new bundles.
    pub(super) fn rewrite_linked(
        &mut self,
        data: Slice<'_>,
        place: &Place,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<RewrittenFile> {
        let format = LinkedFormat::identify(data);
        let unsigned = if format == LinkedFormat::Pe && self.job.drop_signature {
            pe::remove_signature(data.bytes())
        } else {
            None
        };
        let unsigned = write_aside(data, unsigned)?;
        let old = match &unsigned {
            Some(unsigned) => unsigned.as_slice(),
            None => data,
        };
        let can_close = if self.job.keep_offsets { Err(HoleReason::Asked) } else { format.ensure_can_close(old) };
        let opening = if can_close.is_ok() { self.changes_to_open(old)? } else { Ok(None) };
        // The error means that another tool has rewritten the file, so the holes of an earlier job do not come back.
        let is_restored = opening.is_ok();
        let opened = write_aside(old, opening.unwrap_or_default())?;
        let (output, mut result, reason) =
            self.rewrite_opened((format, can_close), (data, old, opened.as_ref()), output, observer)?;
        if let Some(reason) = reason
            && result.holes > 0
        {
            result.holes_left.push(HoleLeft { place: place.to_string(), size: result.holes, reason });
        }
        // Only a job without compression promises to restore the file.
        if !is_restored && self.job.compression.is_none() {
            result.not_restored.push(place.to_string());
        }
        Ok((output, result))
    }

    /// Returns the changes that put the holes back that an earlier job took out of a file, or `None` if it took none.
    /// Bundles may need the room again. The inner error means that another tool has rewritten the file since.
    fn changes_to_open(
        &self,
        data: Slice<'_>,
    ) -> Result<Result<Option<Vec<ChangedRange<'static>>>, gaps::RewrittenSince>> {
        Ok(match LinkedFormat::identify(data) {
            LinkedFormat::Elf => elf::open(data.bytes()),
            LinkedFormat::Pe => pe::open(data.bytes(), &self.ends_of_rows(data)?),
        })
    }

    /// Rewrites a linked file, and takes its holes out. Returns also the reason why holes stay, or `None` if none stays
    /// but those of less than a page.
    ///
    /// `signed` is the file as the job found it, and `data` the file without its signature. `opened` is `data` with the
    /// holes that an earlier job took out, or `None` if it took none. If no bundle changes, `signed` is written. If the
    /// file has no bundles, nothing is written.
    fn rewrite_opened(
        &mut self,
        (format, can_close): (LinkedFormat, Result<(), HoleReason>),
        (signed, data, opened): (Slice<'_>, Slice<'_>, Option<&Input>),
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(Output, Recompressed, Option<HoleReason>)> {
        let old = match opened {
            Some(opened) => opened.as_slice(),
            None => data,
        };
        let ((made, mut result), holes) = self.rewrite_at_offsets(old, Output::temporary()?, observer)?;
        if result.bundles == 0 {
            return Ok((output, result, None));
        }
        let made = made.into_input(data.path())?;
        let made = made.as_slice();
        let found = self.find_bundles(made)?;
        // A replacement is checked by its caller, which compares all code objects.
        if self.replacing.is_none() && !found.equal_without_dropped(&self.find_bundles(old)?, result.dropped) {
            let reason = "cannot rewrite the bundles: other bundles would be found in the result";
            let hint = "verify reports what is wrong with the file";
            return Err(Error::refused(ErrorKind::Unsupported, data.path(), None, reason).with_hint(hint));
        }
        let closing = match can_close {
            Ok(()) => format.close(made, &holes),
            Err(reason) => Err(reason),
        };
        // Lengths are compared first, because comparing the bytes reads both files.
        let may_be_same = opened.is_none() && closing.is_err() && result.before == result.after;
        if may_be_same && are_equal(made, data).with_path(data.path())? {
            return Ok((changed(signed, &[], output)?, result, closing.err()));
        }
        let new = NewFile { format, made, holes: &holes, found };
        let (output, changes, reason) = match closing {
            Ok(closing) => self.write_closed(&new, closing, output)?,
            Err(reason) => new.write_with_holes(output, reason)?,
        };
        // Holes of less than a page are not reported.
        result.holes = if reason.is_some() { result.holes.saturating_sub(taken_out(&changes)) } else { 0 };
        result.note_len(signed.len(), changed_len(made, &changes));
        Ok((output, result, reason))
    }

    /// Writes a new file without the holes that can be taken out. If that could not be undone, writes the file with all
    /// holes.
    fn write_closed(
        &self,
        new: &NewFile<'_>,
        GapRemoval { changes, left }: GapRemoval,
        output: Output,
    ) -> Result<WrittenFile> {
        let changes = new.format.with_checksum(new.made, changes)?;
        let mut output = changed(new.made, &changes, output)?;
        if self.can_undo(new, &changes, &mut output)? {
            return Ok((output, changes, left));
        }
        // The file is written again from its start.
        output.end_at(0)?;
        new.write_with_holes(output, HoleReason::NotUndone)
    }

    /// Returns whether `output`, which has no holes, has the same bundles as the file with holes, and can be changed
    /// back into it.
    fn can_undo(&self, with_holes: &NewFile<'_>, changes: &[ChangedRange<'_>], output: &mut Output) -> Result<bool> {
        let without_holes = output.read_again(with_holes.made.path())?;
        let Ok(Some(changes_back)) = self.changes_to_open(without_holes.as_slice())? else { return Ok(false) };
        // The checksum of a PE file is computed anew, so it may differ.
        let ignored = pe::checksum(with_holes.made.bytes());
        if !undoes((with_holes.made, with_holes.holes), changes, &changes_back, &ignored) {
            return Ok(false);
        }
        const NONE_DROPPED: usize = 0;
        Ok(self.find_bundles(without_holes.as_slice())?.equal_without_dropped(&with_holes.found, NONE_DROPPED))
    }

    /// Finds the bundles in the sections of a linked file, as a later job would.
    fn find_bundles(&self, data: Slice<'_>) -> Result<FoundBundles> {
        let mut found = FoundBundles { bundles: Vec::new(), trailing: 0, lost_wrappers: lost_wrappers(data)? };
        for section in bundle_sections(data)? {
            let mut bundles = self.bundles_in(section, Inflate::Headers);
            while let Some(bundle) = bundles.next().transpose()? {
                if is_fat_object(data, &bundle)? {
                    break;
                }
                found.bundles.push(bundle.entries.iter().map(|entry| entry.id().to_vec()).collect());
            }
            found.trailing += usize::from(bundles.stopped_at().is_some());
        }
        Ok(found)
    }

    /// Returns the ends of sections that hold only bundles, and zeros after them. Holes were taken out only there.
    fn ends_of_rows(&self, data: Slice<'_>) -> Result<Vec<u64>> {
        let mut ends = Vec::new();
        for section in bundle_sections(data)? {
            if self.is_row(data, section) {
                ends.push(section.end());
            }
        }
        Ok(ends)
    }

    /// Returns whether a section holds bundles that are rewritten, and nothing else. Fat objects are not rewritten.
    fn is_row(&self, data: Slice<'_>, section: Slice<'_>) -> bool {
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

/// Writes a temporary file with some changes, and returns it, or returns `None` if `changes` is `None`.
pub(super) fn write_aside(data: Slice<'_>, changes: Option<Vec<ChangedRange<'_>>>) -> Result<Option<Input>> {
    match changes {
        Some(changes) => Ok(Some(changed(data, &changes, Output::temporary()?)?.into_input(data.path())?)),
        None => Ok(None),
    }
}

/// Returns advice about a bundle that needs more room in a file than there is, or `None` if there is none.
pub(super) fn no_room_hint(data: Slice<'_>) -> Option<&'static str> {
    let format = LinkedFormat::identify(data);
    if format == LinkedFormat::Elf && elf::open(data.bytes()).is_err() {
        return Some(
            "another tool has changed the file since recompress made it shorter: recompress --none has to run before it",
        );
    }
    match format.ensure_can_close(data) {
        Err(HoleReason::DataAfter) => {
            Some("other data follows the sections, so nothing can move: recompress the file before that data is added")
        }
        _ => None,
    }
}
