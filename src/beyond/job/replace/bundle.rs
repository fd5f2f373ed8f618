//! Writes the bundle of the replaced code object again, in a file or in a member of a zip file.

use std::path::Path;

use crate::base::codec::Compression;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::base::io::output::Output;
use crate::base::io::piece::total_len;
use crate::beyond::container::fatbin::{self, CodePacking};
use crate::beyond::container::host::gaps::pe;
use crate::beyond::container::sequence::Content;
use crate::beyond::container::{Bundle, Magic};
use crate::beyond::job::rewrite::bundles::BundleWriter;
use crate::beyond::job::rewrite::form::{BundleForm, PlainBundle, as_member, ensure_end_is_known, read_contents};
use crate::beyond::job::rewrite::linked_format::LinkedFormat;
use crate::beyond::job::rewrite::progress::ProgressRange;
use crate::beyond::job::rewrite::{changed_with_holes, is_program};
use crate::beyond::scan::{Format, bundle_sections};
use crate::llvm::container::Limits;
use crate::llvm::event::Observer;

/// Another content of a code object. Everything else in its bundle stays.
pub(super) struct NewContent<'n> {
    /// The index of the code object in its bundle.
    pub(super) index: usize,
    pub(super) content: Slice<'n>,
    /// The compression of the bundle, if it is compressed.
    pub(super) compression: Compression,
    pub(super) limits: Limits,
}

/// Whether a bundle was plain and is compressed now.
type IsNowCompressed = bool;

impl NewContent<'_> {
    /// Writes some data with the bundle at an offset of it written again. Bundles in a row move together, and those in
    /// a program stay at their offsets. Returns `None` if no bundle is there that can be written again.
    pub(super) fn write(
        &self,
        data: Slice<'_>,
        offset: u64,
        progress: ProgressRange,
        observer: &mut Observer<'_>,
    ) -> Result<Option<(Output, IsNowCompressed)>> {
        let mut writer = BundleWriter::new(data, Output::temporary()?, progress);
        let mut written = None;
        let rewrite = &mut |writer: &mut BundleWriter<'_>, bundle: &Bundle<'_>, room| {
            writer.progress.report(bundle.offset, data.len(), observer);
            if bundle.offset != offset {
                return writer.write_bundle(bundle, BundleForm::AsItWas, room);
            }
            written = Some(self.write_bundle(writer, bundle, room, observer)?);
            Ok(())
        };
        let magic = Magic::identify(data.bytes());
        if is_program(magic) {
            let sections = bundle_sections(data)?;
            if !sections.is_empty() {
                ensure_unsigned(data)?;
            }
            writer.rewrite_program(sections, self.limits, rewrite)?;
        } else if magic != Magic::Container(Format::OffloadBinary) {
            writer.rewrite_adjacent(data, self.limits, rewrite)?;
        }
        let Some(is_now_compressed) = written else { return Ok(None) };
        let (output, holes) = writer.to.finish()?;
        if !is_program(magic) {
            return Ok(Some((output, is_now_compressed)));
        }
        let made = output.into_input(data.path())?;
        let changes = LinkedFormat::identify(data).with_checksum(made.as_slice(), Vec::new())?;
        let output = changed_with_holes(made.as_slice(), &changes, &holes, Output::temporary()?)?;
        Ok(Some((output, is_now_compressed)))
    }

    /// Writes the bundle, into `room` bytes if it must stay at its offset.
    fn write_bundle(
        &self,
        writer: &mut BundleWriter<'_>,
        bundle: &Bundle<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<IsNowCompressed> {
        if Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) {
            self.write_fatbin(writer, bundle, room)?;
            return Ok(false);
        }
        let path = writer.data.path();
        let contents = self.contents_of(path, bundle)?;
        let members: Vec<_> = contents.iter().map(as_member).collect();
        let plain = PlainBundle::new(path, bundle, Some(&members))?;
        let form = self.choose_form(writer, bundle, &plain, room, observer)?;
        ensure_end_is_known(writer.data, bundle, &plain, &form, room)?;
        let is_now_compressed = bundle.compressed.is_none() && matches!(form, BundleForm::Written(_));
        writer.write_bundle(bundle, form, room)?;
        Ok(is_now_compressed)
    }

    /// Writes a fatbin, whose other code objects are stored as they were.
    fn write_fatbin(&self, writer: &mut BundleWriter<'_>, bundle: &Bundle<'_>, room: Option<u64>) -> Result<()> {
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(writer.data.path(), fault.clone()));
        }
        let data = writer.data.claimed(&bundle.range()?)?;
        let packing = CodePacking::Replacing { index: self.index, content: self.content.bytes() };
        let to = &mut writer.to.output.writer()?;
        // All code objects are kept.
        let len = fatbin::rewrite(data, |_| true, packing, self.limits.inflated, to)?;
        writer.write_bundle(bundle, BundleForm::Written(len), room)
    }

    /// Reads all code objects of the bundle, with the new content of one of them.
    fn contents_of<'b>(&'b self, path: &Path, bundle: &'b Bundle<'_>) -> Result<Vec<(String, Content<'b>)>> {
        let all: Vec<usize> = (0..bundle.entries.len()).collect();
        let mut contents = read_contents(path, bundle, &all)?;
        // If there is no such code object, nothing changes, which the comparison of the files finds out.
        if let Some((_, replaced)) = contents.get_mut(self.index) {
            *replaced = Content::InPlace(self.content);
        }
        Ok(contents)
    }

    /// Chooses the form of the bundle: as before, plain or compressed, or the other form if the bundle does not fit
    /// into `room` as before.
    fn choose_form<'p>(
        &self,
        writer: &mut BundleWriter<'_>,
        bundle: &Bundle<'_>,
        plain: &'p PlainBundle<'p>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<BundleForm<'p>> {
        // The room of a bundle that may move is not limited.
        let room = room.unwrap_or(u64::MAX);
        let does_plain_fit = total_len(&plain.pieces)? <= room;
        if bundle.compressed.is_none() && does_plain_fit {
            return Ok(BundleForm::New(&plain.pieces));
        }
        // Readers would not find the end of a plain text bundle, or of a plain bundle before other data.
        let may_be_plain = does_plain_fit && !plain.is_text && !plain.has_tail;
        let len = writer.deflate_to_fit(bundle, plain, &self.compression, (room, may_be_plain), observer)?;
        if len > room && may_be_plain {
            // Remove the compressed bytes, which are in the output already.
            writer.to.truncate_to_counted()?;
            return Ok(BundleForm::New(&plain.pieces));
        }
        Ok(BundleForm::Written(len))
    }
}

/// Fails if a PE file is signed. The signature would not be valid for the new bundle.
fn ensure_unsigned(data: Slice<'_>) -> Result<()> {
    let Some(signature) = pe::signature(data.bytes()) else { return Ok(()) };
    let error = Error::refused(ErrorKind::Unsupported, data.path(), signature.start, "it is signed");
    Err(error.with_hint("remove the signature first: signtool remove /s"))
}
