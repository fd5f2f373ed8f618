//! Rewrites a file, and the files in it: each kind of file in its own way.

use std::ops::Range;

use super::super::digest::are_equal;
use super::super::rewrite::{Rewriter, changed, changed_len};
use super::bundles::{FileRewrite, is_fat_object};
use super::run::{Recompression, Rewritten, is_program};
use super::{Recompressed, archive, object, unsupported, wheel};
use crate::bytes::len_of;
use crate::container::archive::is_debian_package;
use crate::container::host::elf::Header;
use crate::container::host::gaps::{elf, pe};
use crate::container::host::relocatable::Relocatable;
use crate::container::magic::Magic;
use crate::container::sequence::Inflate;
use crate::error::{Error, ErrorKind, Result, WithPath};
use crate::event::Observer;
use crate::io::input::{Input, Slice};
use crate::io::output::Output;
use crate::io::piece::Change;
use crate::scan::{Place, bundle_sections, is_zip, movable_sections};

impl Recompression<'_> {
    pub(super) fn rewrite_file(
        &mut self,
        data: Slice<'_>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Output> {
        match Magic::identify(data.bytes()) {
            Magic::Zip => wheel::rewrite(self, data, output, observer),
            // The sections of a program stay where they are, and so does a zip file after it.
            magic if !is_program(magic) && is_zip(data) => Err(zip_after_other_data(data)),
            _ => {
                let (output, result) = self.rewrite(data, &Place::of_file(data.path()), output, observer)?;
                self.result.add(&result);
                Ok(output)
            }
        }
    }

    /// Rewrites a member of an archive or a zip file, at a place. Returns its new contents, unless it is unchanged.
    pub(super) fn rewrite_member(
        &mut self,
        old: &Input,
        place: &Place,
        observer: &mut Observer<'_>,
    ) -> Result<(Option<Input>, Recompressed)> {
        let refused = self.refusals.listed.len();
        let rewritten = self.rewrite(old.as_slice(), place, Output::aside()?, observer);
        self.refusals.place(refused, place);
        let (output, result) = rewritten.map_err(|error| error.at(place))?;
        let new = if result.bundles > 0 { Some(output.into_input(old.path())?) } else { None };
        let is_same = new.as_ref().map(|new| are_equal(new.as_slice(), old.as_slice()).with_path(old.path()));
        let new = if is_same.transpose()? == Some(true) { None } else { new };
        Ok((new, result))
    }

    /// Rewrites a file at a place, from its first byte on, to `output`.
    fn rewrite(
        &mut self,
        data: Slice<'_>,
        place: &Place,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Rewritten> {
        if Magic::identify(data.bytes()) == Magic::Archive
            && self.replacing.is_none()
            && !is_debian_package(data.bytes())
        {
            return archive::rewrite(self, data, place, output, observer);
        }
        if let Some(bundle) = object::fat_object(self, data)? {
            return object::rewrite_fat(self, data, &bundle, output);
        }
        if let Some((object, sections)) = self.movable(data)? {
            return object::rewrite(self, data, (&object, sections), output, observer);
        }
        match Magic::identify(data.bytes()) {
            Magic::Pe => self.rewrite_pe(data, output, observer),
            _ if self.job.keep_offsets || !elf::may_close(data.bytes()) => {
                Ok(self.rewrite_at_offsets(data, output, observer)?.0)
            }
            _ => {
                let close =
                    |made: Slice<'_>, holes: &[Range<u64>]| Ok(elf::close(made.bytes(), holes).unwrap_or_default());
                self.rewrite_opened(data, data, elf::open, close, output, observer)
            }
        }
    }

    /// An ELF object in which sections with bundles and offload binaries can move, and these sections; none for all
    /// other files.
    ///
    /// # Errors
    /// Images are to be removed, and offload binaries of the object cannot move.
    fn movable<'d>(&self, data: Slice<'d>) -> Result<Option<(Relocatable<'d>, Vec<Slice<'d>>)>> {
        let is_object = Header::read(data.bytes()).is_some_and(|header| header.is_relocatable());
        if !is_object || self.replacing.is_some() {
            return Ok(None);
        }
        let object = if self.job.keep_offsets { None } else { Relocatable::read(data.bytes()) };
        let removes = self.job.removes();
        if object.is_none() && !removes {
            return Ok(None);
        }
        let sections = movable_sections(data)?;
        let ranges = || sections.iter().map(|section| section.offset()..section.end());
        if let Some(object) = object.filter(|object| !sections.is_empty() && object.can_change(ranges())) {
            return Ok(Some((object, sections)));
        }
        let is_offload = |section: &Slice<'_>| Magic::identify(section.bytes()) == Magic::OffloadBinary;
        if !removes || !sections.iter().any(is_offload) {
            return Ok(None);
        }
        let reason = match self.job.keep_offsets {
            true => "images cannot be removed from offload binaries at their offsets: leave out --keep-offsets",
            false => {
                "images cannot be removed from its offload binaries: other data or relocations of the object cannot follow"
            }
        };
        Err(Error::refused(ErrorKind::Unsupported, data.path(), None, reason))
    }

    /// Rewrites a PE file, without its signature if that is wanted and anything changes.
    fn rewrite_pe(&mut self, data: Slice<'_>, output: Output, observer: &mut Observer<'_>) -> Result<Rewritten> {
        let unsigned = if self.job.drop_signature { aside(data, pe::unsigned(data.bytes()))? } else { None };
        let old = unsigned.as_ref().map_or(data, Input::as_slice);
        let may_close = !self.job.keep_offsets && pe::may_close(old.bytes());
        let ends = if may_close { self.ends_of_rows(old)? } else { Vec::new() };
        let open = |data: &[u8]| pe::open(data, &ends);
        let close = |made: Slice<'_>, holes: &[Range<u64>]| pe::close(made, if may_close { holes } else { &[] });
        self.rewrite_opened(old, data, open, close, output, observer)
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

    /// Rewrites a program after what the bundles no longer needed has come back, since they may need it again. Then
    /// what they do not need is taken out. If no bundle changes, the file stays as it was `signed`.
    fn rewrite_opened(
        &mut self,
        data: Slice<'_>,
        signed: Slice<'_>,
        open: impl FnOnce(&[u8]) -> Option<Vec<Change<'static>>>,
        close: impl FnOnce(Slice<'_>, &[Range<u64>]) -> Result<Vec<Change<'static>>>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Rewritten> {
        let opened = aside(data, open(data.bytes()))?;
        let old = opened.as_ref().map_or(data, Input::as_slice);
        let ((made, mut result), holes) = self.rewrite_at_offsets(old, Output::aside()?, observer)?;
        if result.bundles == 0 {
            return Ok((output, result));
        }
        let made = made.into_input(data.path())?;
        let changes = close(made.as_slice(), &holes)?;
        let is_closed =
            |hole: &&Range<u64>| changes.iter().any(|(old, new)| new.is_empty() && hole.contains(&old.start));
        let closed = holes.iter().filter(is_closed).map(len_of).fold(0, u64::saturating_add);
        result.holes = result.holes.saturating_sub(closed);
        let len = changed_len(made.as_slice(), &changes);
        let may_be_same = opened.is_none() && len == data.len() && result.before == result.after;
        if may_be_same && are_equal(made.as_slice(), data).with_path(data.path())? {
            return Ok((changed(signed, &[], output)?, result));
        }
        result.note_len(signed.len(), len);
        Ok((changed(made.as_slice(), &changes, output)?, result))
    }

    /// Rewrites a file. In a program, all that follows a bundle stays at its offset, behind a hole. Returns the holes
    /// too.
    fn rewrite_at_offsets(
        &mut self,
        data: Slice<'_>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(Rewritten, Vec<Range<u64>>)> {
        let mut work = FileRewrite::new(self, data, Rewriter::new(data, output));
        match Magic::identify(data.bytes()) {
            magic if is_program(magic) => work.program(observer)?,
            // `package --compress` writes these again.
            Magic::OffloadBinary => {}
            _ => drop(work.sequence(data, observer)?),
        }
        work.finish()
    }

    /// The result, if the job did with `data` what it was asked to do.
    pub(super) fn finish(self, input: &Input) -> Result<Recompressed> {
        let data = input.as_slice();
        if let Some(error) = self.refusals.into_error(data.path()) {
            return Err(error);
        }
        if self.result.bundles == 0 {
            if is_program(Magic::identify(data.bytes())) && is_zip(data) {
                return Err(zip_after_other_data(data));
            }
            return Err(unsupported::refusal(data));
        }
        let mut result = self.result;
        self.choice.finish(input, &mut result)?;
        Ok(result)
    }
}

/// A temporary file with some changes; none if there are none.
fn aside(data: Slice<'_>, changes: Option<Vec<Change<'_>>>) -> Result<Option<Input>> {
    let changed = |changes: Vec<_>| changed(data, &changes, Output::aside()?)?.into_input(data.path());
    changes.map(changed).transpose()
}

fn zip_after_other_data(data: Slice<'_>) -> Error {
    let reason = "it is a zip file after other data; recompress the zip file alone, then put that data before it";
    Error::refused(ErrorKind::Unsupported, data.path(), None, reason)
}
