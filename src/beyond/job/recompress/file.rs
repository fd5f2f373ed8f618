//! Rewrites a file, and the files in it: each kind of file in its own way.

use std::ops::Range;

use super::super::digest::are_equal;
use super::super::rewrite::bundles::BundleWriter;
use super::super::rewrite::{is_program, unexpected_parts};
use super::super::size_limit::limits_of_result;
use super::bundles::FileRecompression;
use super::check::FileCode;
use super::pick::Picks;
use super::run::{Recompression, RewrittenFile, may_hold_bundles};
use super::{HoleLeft, HoleReason, Recompressed, archive, object, unsupported, wheel};
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::beyond::code::elf::Header;
use crate::beyond::container::host::gaps::pe;
use crate::beyond::container::host::relocatable::Relocatable;
use crate::beyond::container::package::is_debian_package;
use crate::beyond::container::{Format, Magic};
use crate::beyond::job::event::Observer;
use crate::beyond::scan::{Place, bundle_sections, is_zip, movable_sections};

impl Recompression<'_> {
    /// Rewrites the file of the job to `output`, and adds the numbers for the file to the result.
    pub(super) fn rewrite_file(
        &mut self,
        data: Slice<'_>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Output> {
        match Magic::identify(data.bytes()) {
            Magic::Zip => wheel::rewrite(self, data, output, observer),
            // In a zip file after a bundle or an archive, offsets would be wrong, because that data moves. In a
            // program, everything stays at its offset.
            magic if !is_program(magic) && is_zip(data) => Err(zip_after_other_data(data)),
            _ => {
                let (output, result) = self.rewrite(data, &Place::of_file(data.path()), output, observer)?;
                self.result.add(&result);
                Ok(output)
            }
        }
    }

    /// Rewrites a member of an archive or a zip file, at a place. Returns the new contents and the numbers. The new
    /// contents are `None` if the member has no bundles, or if they equal the old ones.
    pub(super) fn rewrite_member(
        &mut self,
        old: &Input,
        place: &Place,
        observer: &mut Observer<'_>,
    ) -> Result<(Option<Input>, Recompressed)> {
        // Refusals from this index on are about this member, and get its place.
        let first_refusal = self.refusals.listed.len();
        let rewritten = self.rewrite(old.as_slice(), place, Output::temporary()?, observer);
        self.refusals.add_place(first_refusal, place);
        let (output, result) = rewritten.map_err(|error| error.at(place))?;
        let new = if result.bundles > 0 { Some(output.into_input(old.path())?) } else { None };
        if let Some(new) = &new
            && are_equal(new.as_slice(), old.as_slice()).with_path(old.path())?
        {
            return Ok((None, result));
        }
        Ok((new, result))
    }

    /// Rewrites a file at a place, from its first byte on, to `output`. Returns the output, which is checked, and the
    /// numbers for the file.
    fn rewrite(
        &mut self,
        data: Slice<'_>,
        place: &Place,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<RewrittenFile> {
        self.place = place.clone();
        self.kept.clear();
        self.picks = Picks::default();
        // A Debian package is not rewritten: it records checksums of its files.
        let is_archive = Magic::identify(data.bytes()) == Magic::Archive && !is_debian_package(data.bytes());
        if is_archive {
            return archive::rewrite(self, data, place, output, observer);
        }
        // `read_fat_object` returns a bundle only if the job removes code: a fat object is not compressed.
        if let Some(bundle) = object::read_fat_object(self, data)? {
            let rewritten = object::rewrite_fat(self, data, &bundle, output)?;
            return self.checked(data, rewritten);
        }
        if let Some((object, sections)) = self.resizable_sections(data)? {
            let (output, mut result) = object::rewrite(self, data, (&object, sections), output, observer)?;
            // A section gets a hole only if zeros followed its bundles before (`BundleWriter::end_section`). The hole
            // is not taken out of the object: a later job could not tell how many zeros to put back.
            if result.holes > 0 {
                let place = place.to_string();
                result.holes_left.push(HoleLeft { place, size: result.holes, reason: HoleReason::NotUndone });
            }
            return self.checked(data, (output, result));
        }
        if is_program(Magic::identify(data.bytes())) {
            // The file is checked before its holes are taken out, and again after that.
            return self.rewrite_linked(data, place, output, observer);
        }
        let (rewritten, _) = self.rewrite_at_offsets(data, output, observer)?;
        self.checked(data, rewritten)
    }

    /// Returns a rewritten file after a search of it has found the code that was to be kept of `old`. Without bundles,
    /// the output is incomplete and not used, so it is not searched.
    fn checked(&self, old: Slice<'_>, (mut output, result): RewrittenFile) -> Result<RewrittenFile> {
        if result.bundles > 0 {
            let written = output.read_again(old.path())?;
            self.find_expected(old, written.as_slice())?;
        }
        Ok((output, result))
    }

    /// Searches a rewritten file, and fails if the search does not find the code that was to be kept of `old`.
    pub(super) fn find_expected(&self, old: Slice<'_>, written: Slice<'_>) -> Result<FileCode> {
        let limits = limits_of_result(self.job.limits);
        let found = FileCode::of(written, limits)?;
        // A job that was refused a bundle does not use the file.
        if self.refusals.listed.is_empty() {
            let expected = match self.picks.expected(&self.kept) {
                Some(expected) => expected,
                None => FileCode::kept_of(old, &self.kept, limits)?,
            };
            if !found.is_as_expected(&expected) {
                return Err(unexpected_parts(old.path(), "bundles"));
            }
        }
        Ok(found)
    }

    /// Returns a relocatable ELF object, and its sections with bundles and offload binaries, if these sections can
    /// become shorter or longer. Returns `None` for other files. Fails if images are to be removed from offload
    /// binaries, but the length of their sections cannot change: readers expect no hole after an offload binary.
    fn resizable_sections<'d>(&self, data: Slice<'d>) -> Result<Option<(Relocatable<'d>, Vec<Slice<'d>>)>> {
        let Some(header) = Header::read(data.bytes()) else { return Ok(None) };
        if !header.is_relocatable() {
            return Ok(None);
        }
        let object = Relocatable::read(data.bytes());
        if object.is_none() && !self.job.removes() {
            return Ok(None);
        }
        let sections = movable_sections(data)?;
        if let Some(object) = object
            && !sections.is_empty()
            && object.can_change(sections.iter().map(|section| section.offset()..section.end()))
        {
            return Ok(Some((object, sections)));
        }
        let is_offload_binary =
            |section: &Slice<'_>| Magic::identify(section.bytes()) == Magic::Container(Format::OffloadBinary);
        if !self.job.removes() || !sections.iter().any(is_offload_binary) {
            return Ok(None);
        }
        let reason =
            "images cannot be removed from its offload binaries: other data or relocations of the object cannot follow";
        Err(Error::refused(ErrorKind::Unsupported, data.path(), None, reason))
    }

    /// Rewrites the bundles of a file. In a program, the data after a bundle stays at its offset, and bytes that the
    /// bundle no longer needs become a hole. Returns also the ranges of the holes in the output.
    pub(super) fn rewrite_at_offsets(
        &mut self,
        data: Slice<'_>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(RewrittenFile, Vec<Range<u64>>)> {
        let magic = Magic::identify(data.bytes());
        let sections = if is_program(magic) { bundle_sections(data)? } else { Vec::new() };
        if !sections.is_empty() || (!is_program(magic) && may_hold_bundles(magic)) {
            self.pick_in(data)?;
        }
        // A signature would not be valid for the new bundles.
        if !sections.is_empty()
            && let Some(signature) = pe::signature(data.bytes())
        {
            return Err(self.signed_error(data, &signature));
        }
        let (limits, mut writer) = (self.job.limits, BundleWriter::new(data, output, self.progress));
        let mut work = FileRecompression::new(self, data, observer);
        match magic {
            magic if is_program(magic) => writer.rewrite_program(sections, limits, &mut work)?,
            // `package --compress` compresses offload binaries. Here none is counted as a bundle, so the job refuses
            // the file.
            Magic::Container(Format::OffloadBinary) => {}
            _ => drop(writer.rewrite_adjacent(data, limits, &mut work)?),
        }
        let (to, result) = work.finish(writer);
        // Without bundles, the output is not used.
        let (output, holes) = if result.bundles > 0 { to.finish()? } else { (to.output, Vec::new()) };
        Ok(((output, result), holes))
    }

    /// Returns the error for a PE file that still has its signature, which is at the range `signature`.
    fn signed_error(&self, data: Slice<'_>, signature: &Range<u64>) -> Error {
        let (reason, hint) = if self.job.drop_signature {
            let remove = "remove the signature first: signtool remove /s";
            ("cannot remove its signature: other data may follow it", remove)
        } else {
            ("it is signed", "recompress --drop-signature removes the signature; sign the new file again")
        };
        Error::refused(ErrorKind::Unsupported, data.path(), signature.start, reason).with_hint(hint)
    }

    /// Returns the result. Fails if bundles were refused, if the file has no bundle that can be rewritten, or if a part
    /// of the job has matched nothing.
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
        self.picker.add_to_result(self.pick_total, input, &mut result)?;
        Ok(result)
    }
}

fn zip_after_other_data(data: Slice<'_>) -> Error {
    let reason = "it is a zip file after other data; recompress the zip file alone, then put that data before it";
    Error::refused(ErrorKind::Unsupported, data.path(), None, reason)
}
