//! Recompresses a linked file, ELF or PE: each bundle stays at its address, and the holes that bundles leave are taken
//! out of the file.
//!
//! Everything is checked before the output is put in place: the same bundles are found at the end, no wrapper has lost
//! its bundle, and taking out the holes can be undone. If it cannot, the holes stay.

use std::ops::Range;

use super::super::digest::are_equal;
use super::super::rewrite::{changed, changed_len, changed_with_holes, undoes};
use super::bundles::is_fat_object;
use super::run::{Recompression, Rewritten};
use super::{HoleLeft, HoleReason, Recompressed};
use crate::base::bytes::{len_of, total};
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::base::io::piece::Change;
use crate::beyond::container::host::gaps;
use crate::beyond::container::host::gaps::{Closing, elf, pe};
use crate::beyond::scan::sections::lost_wrappers;
use crate::beyond::scan::{Place, bundle_sections};
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::event::Observer;

/// How a linked file gives up its holes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linked {
    Elf,
    Pe,
}

impl Linked {
    fn of(data: Slice<'_>) -> Self {
        if Magic::identify(data.bytes()) == Magic::Pe { Self::Pe } else { Self::Elf }
    }

    fn ensure_can_close(self, data: Slice<'_>) -> Result<(), HoleReason> {
        match self {
            Self::Elf => elf::ensure_can_close(data.bytes()),
            Self::Pe => pe::ensure_can_close(data.bytes()),
        }
    }

    fn close(self, made: Slice<'_>, holes: &[Range<u64>]) -> Result<Closing, HoleReason> {
        match self {
            Self::Elf => elf::close(made.bytes(), holes),
            Self::Pe => pe::close(made.bytes(), holes),
        }
    }

    /// Changes of a file, with those of a checksum.
    fn with_checksum(self, made: Slice<'_>, changes: Vec<Change<'static>>) -> Result<Vec<Change<'static>>> {
        if self == Self::Pe { pe::with_checksum(made, changes) } else { Ok(changes) }
    }
}

/// What is read of the bundles in a linked file.
struct Seen {
    /// The entry IDs of each bundle.
    bundles: Vec<Vec<Vec<u8>>>,
    /// The number of sections in which other data follows the bundles.
    trailing: usize,
    /// The number of wrappers that point at no bundle.
    lost_wrappers: usize,
}

impl Seen {
    /// Whether this is what is left of others without some code objects, and with no more faults.
    fn is_left_of(&self, others: &Self, dropped: usize) -> bool {
        let count = |seen: &Self| seen.bundles.iter().map(Vec::len).sum::<usize>();
        let mut pairs = self.bundles.iter().zip(&others.bundles);
        let are_same = pairs.all(|(ids, old)| {
            let mut old = old.iter();
            ids.iter().all(|id| old.any(|other| other == id))
        });
        are_same
            && self.bundles.len() == others.bundles.len()
            && count(self) + dropped == count(others)
            && self.trailing <= others.trailing
            && self.lost_wrappers <= others.lost_wrappers
    }
}

/// A file that was rewritten, whose holes may be taken out.
struct NewFile<'d> {
    linked: Linked,
    made: Slice<'d>,
    holes: &'d [Range<u64>],
    seen: Seen,
}

/// The output, how it differs from the new file with holes, and why holes stay.
type Put = (Output, Vec<Change<'static>>, Option<HoleReason>);

impl NewFile<'_> {
    /// Writes the file with its holes.
    fn put(&self, output: Output, reason: HoleReason) -> Result<Put> {
        let changes = self.linked.with_checksum(self.made, Vec::new())?;
        Ok((changed_with_holes(self.made, &changes, self.holes, output)?, changes, Some(reason)))
    }
}

/// The number of bytes that some changes take out.
fn taken_out(changes: &[Change<'_>]) -> u64 {
    let removed = changes.iter().filter(|(_, new)| new.is_empty());
    total(removed.map(|(old, _)| len_of(old)))
}

impl Recompression<'_> {
    /// Rewrites a linked file at a place.
    pub(super) fn rewrite_linked(
        &mut self,
        data: Slice<'_>,
        place: &Place,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Rewritten> {
        let linked = Linked::of(data);
        let unsigned = if linked == Linked::Pe && self.job.drop_signature { pe::unsigned(data.bytes()) } else { None };
        let unsigned = aside(data, unsigned)?;
        let old = unsigned.as_ref().map_or(data, Input::as_slice);
        let can_close = if self.job.keep_offsets { Err(HoleReason::Asked) } else { linked.ensure_can_close(old) };
        let opening = if can_close.is_ok() { self.opening(old)? } else { Ok(None) };
        let is_restored = opening.is_ok();
        let opened = aside(old, opening.unwrap_or_default())?;
        let mut closed = self.rewrite_opened((linked, can_close), (data, old, opened.as_ref()), output, observer)?;
        let (_, result, reason) = &mut closed;
        if let Some(reason) = reason.filter(|_| result.holes > 0) {
            result.holes_left.push(HoleLeft { place: place.to_string(), size: result.holes, reason });
        }
        if !is_restored && self.job.compression.is_none() {
            result.not_restored.push(place.to_string());
        }
        let (output, result, _) = closed;
        Ok((output, result))
    }

    /// The changes that bring back what was taken out of a file, because bundles may need it again.
    fn opening(&self, data: Slice<'_>) -> Result<Result<Option<Vec<Change<'static>>>, gaps::Rewritten>> {
        Ok(match Linked::of(data) {
            Linked::Elf => elf::open(data.bytes()),
            Linked::Pe => pe::open(data.bytes(), &self.ends_of_rows(data)?),
        })
    }

    /// Rewrites a file that was `opened`, if it was, and takes its holes out. If no bundle changes, the file stays as
    /// it was `signed`. Returns why holes stay, too.
    fn rewrite_opened(
        &mut self,
        (linked, can_close): (Linked, Result<(), HoleReason>),
        (signed, data, opened): (Slice<'_>, Slice<'_>, Option<&Input>),
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(Output, Recompressed, Option<HoleReason>)> {
        let old = opened.map_or(data, Input::as_slice);
        let ((made, mut result), holes) = self.rewrite_at_offsets(old, Output::aside()?, observer)?;
        if result.bundles == 0 {
            return Ok((output, result, None));
        }
        let made = made.into_input(data.path())?;
        let made = made.as_slice();
        let seen = self.seen(made)?;
        if self.replacing.is_none() && !seen.is_left_of(&self.seen(old)?, result.dropped) {
            let reason = "cannot rewrite the bundles: other bundles would be found in the result";
            let hint = "verify reports what is wrong with the file";
            return Err(Error::refused(ErrorKind::Unsupported, data.path(), None, reason).with_hint(hint));
        }
        let closing = can_close.and_then(|()| linked.close(made, &holes));
        let may_be_same = opened.is_none() && closing.is_err() && result.before == result.after;
        if may_be_same && are_equal(made, data).with_path(data.path())? {
            return Ok((changed(signed, &[], output)?, result, closing.err()));
        }
        let new = NewFile { linked, made, holes: &holes, seen };
        let (output, changes, reason) = match closing {
            Ok(closing) => self.put_closed(&new, closing, output)?,
            Err(reason) => new.put(output, reason)?,
        };
        // Without a reason, only parts of pages stay.
        result.holes = if reason.is_some() { result.holes.saturating_sub(taken_out(&changes)) } else { 0 };
        result.note_len(signed.len(), changed_len(made, &changes));
        Ok((output, result, reason))
    }

    /// Writes a new file without the holes that can be taken out and put back, or with all. Returns its changes, and
    /// why holes stay.
    fn put_closed(&self, new: &NewFile<'_>, Closing { changes, left }: Closing, output: Output) -> Result<Put> {
        let changes = new.linked.with_checksum(new.made, changes)?;
        let mut output = changed(new.made, &changes, output)?;
        if self.is_right(new, &changes, &mut output)? {
            return Ok((output, changes, left));
        }
        output.end_at(0)?;
        new.put(output, HoleReason::NotUndone)
    }

    /// Whether a new file from which holes were taken out is read as the one with holes, and becomes that one again.
    fn is_right(&self, new: &NewFile<'_>, changes: &[Change<'_>], output: &mut Output) -> Result<bool> {
        let closed = output.read_again(new.made.path())?;
        let opening = self.opening(closed.as_slice())?.unwrap_or_default();
        // The checksum of a PE file is made right again.
        let ignored = pe::checksum(new.made.bytes());
        let is_undone = opening.is_some_and(|opening| undoes((new.made, new.holes), changes, &opening, &ignored));
        Ok(is_undone && self.seen(closed.as_slice())?.is_left_of(&new.seen, 0))
    }

    /// The bundles that are found in a linked file, and how many faults there are.
    fn seen(&self, data: Slice<'_>) -> Result<Seen> {
        let mut seen = Seen { bundles: Vec::new(), trailing: 0, lost_wrappers: lost_wrappers(data)? };
        for section in bundle_sections(data)? {
            let mut bundles = self.bundles_in(section, Inflate::Headers);
            while let Some(bundle) = bundles.next().transpose()? {
                if is_fat_object(data, &bundle)? {
                    break;
                }
                seen.bundles.push(bundle.entries.iter().map(|entry| entry.id().to_vec()).collect());
            }
            seen.trailing += usize::from(bundles.stopped_at().is_some());
        }
        Ok(seen)
    }

    /// The ends of sections that hold nothing but bundles, and zeros after them.
    fn ends_of_rows(&self, data: Slice<'_>) -> Result<Vec<u64>> {
        let is_row = |section: &Slice<'_>| {
            let mut bundles = self.bundles_in(*section, Inflate::Headers);
            let is_rewritten = |bundle| matches!(is_fat_object(data, &bundle), Ok(false));
            let mut is_row = false;
            for bundle in bundles.by_ref() {
                is_row = bundle.is_ok_and(is_rewritten);
                if !is_row {
                    return false;
                }
            }
            is_row && bundles.stopped_at().is_none()
        };
        Ok(bundle_sections(data)?.into_iter().filter(is_row).map(|section| section.end()).collect())
    }
}

/// Returns a temporary file with some changes, or `None` if there are none.
pub(super) fn aside(data: Slice<'_>, changes: Option<Vec<Change<'_>>>) -> Result<Option<Input>> {
    let changed = |changes: Vec<_>| changed(data, &changes, Output::aside()?)?.into_input(data.path());
    changes.map(changed).transpose()
}

/// What to do about a bundle that needs more room in a file than there is, if that is known.
pub(super) fn no_room_hint(data: Slice<'_>) -> Option<&'static str> {
    let linked = Linked::of(data);
    if linked == Linked::Elf && elf::open(data.bytes()).is_err() {
        return Some(
            "another tool has changed the file since recompress made it shorter: recompress --none has to run before it",
        );
    }
    match linked.ensure_can_close(data) {
        Err(HoleReason::DataAfter) => {
            Some("other data follows the sections, so nothing can move: recompress the file before that data is added")
        }
        _ => None,
    }
}
