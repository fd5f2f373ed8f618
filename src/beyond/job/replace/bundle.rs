//! Writes the bundle of the replaced code object again, in a file or in a member of a zip file.

use std::path::Path;

use crate::base::codec::Compression;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::base::io::piece::{Piece, emit, total_len};
use crate::beyond::base::io::spooled;
use crate::beyond::container::fatbin::{self, CodePacking};
use crate::beyond::container::host::gaps::pe;
use crate::beyond::container::sequence::Content;
use crate::beyond::container::{Bundle, Magic};
use crate::beyond::job::event::Observer;
use crate::beyond::job::rewrite::bundles::{BundleWriter, OldBundle, RewriteBundles, deflate_to_fit};
use crate::beyond::job::rewrite::form::{BundleForm, PlainBundle, as_member, ensure_end_is_known, read_contents};
use crate::beyond::job::rewrite::linked_format::LinkedFormat;
use crate::beyond::job::rewrite::progress::ProgressRange;
use crate::beyond::job::rewrite::{changed_with_holes, is_program};
use crate::beyond::scan::{Format, bundle_sections};
use crate::llvm::container::Limits;

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
        let mut replacement = Replacement { new: self, data, offset, observer, written: None };
        let magic = Magic::identify(data.bytes());
        if is_program(magic) {
            let sections = bundle_sections(data)?;
            if !sections.is_empty() {
                ensure_unsigned(data)?;
            }
            writer.rewrite_program(sections, self.limits, &mut replacement)?;
        } else if magic != Magic::Container(Format::OffloadBinary) {
            writer.rewrite_adjacent(data, self.limits, &mut replacement)?;
        }
        let Some(is_now_compressed) = replacement.written else { return Ok(None) };
        let (output, holes) = writer.to.finish()?;
        if !is_program(magic) {
            return Ok(Some((output, is_now_compressed)));
        }
        let made = output.into_input(data.path())?;
        let changes = LinkedFormat::identify(data).with_checksum(made.as_slice(), Vec::new())?;
        let output = changed_with_holes(made.as_slice(), &changes, &holes, Output::temporary()?)?;
        Ok(Some((output, is_now_compressed)))
    }

    /// Makes the bundle with the new content, for `room` bytes if it must stay at its offset.
    fn make(&self, data: Slice<'_>, bundle: &Bundle<'_>, room: Option<u64>) -> Result<Made> {
        if Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) {
            return Ok(Made { bytes: self.make_fatbin(data, bundle)?, is_now_compressed: false });
        }
        let contents = self.contents_of(data.path(), bundle)?;
        let members: Vec<_> = contents.iter().map(as_member).collect();
        let plain = PlainBundle::new(data.path(), bundle, Some(&members))?;
        match self.deflate_if_needed(bundle, &plain, room)? {
            Some(bytes) => Ok(Made { bytes, is_now_compressed: bundle.compressed.is_none() }),
            None => {
                ensure_end_is_known(data, bundle, &plain, room)?;
                let bytes = spooled(data.path(), |to| emit(&plain.pieces, to))?;
                Ok(Made { bytes, is_now_compressed: false })
            }
        }
    }

    /// Makes a fatbin, whose other code objects are stored as they were.
    fn make_fatbin(&self, data: Slice<'_>, bundle: &Bundle<'_>) -> Result<Input> {
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(data.path(), fault.clone()));
        }
        let fatbin = data.claimed(&bundle.range()?)?;
        let packing = CodePacking::Replacing { index: self.index, content: self.content.bytes() };
        // All code objects are kept.
        spooled(data.path(), |to| fatbin::rewrite(fatbin, |_| true, packing, self.limits.inflated, to))
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

    /// Returns the compressed form of the bundle, or `None` if it becomes plain. It stays plain or compressed, unless only
    /// the other form fits into `room`.
    fn deflate_if_needed(
        &self,
        bundle: &Bundle<'_>,
        plain: &PlainBundle<'_>,
        room: Option<u64>,
    ) -> Result<Option<Input>> {
        // The room of a bundle that may move is not limited.
        let room = room.unwrap_or(u64::MAX);
        let does_plain_fit = total_len(&plain.pieces)? <= room;
        if bundle.compressed.is_none() && does_plain_fit {
            return Ok(None);
        }
        // Without the header of a compressed bundle, readers would not find the end of a text bundle, or of a bundle
        // with other data after it.
        let may_be_plain = does_plain_fit && !plain.is_text && !plain.has_tail;
        let made = deflate_to_fit(bundle, plain, &self.compression, (room, may_be_plain))?;
        Ok(if made.len() > room && may_be_plain { None } else { Some(made) })
    }
}

/// The bundle with the new content.
struct Made {
    bytes: Input,
    is_now_compressed: IsNowCompressed,
}

/// The replacement in the bundle at an offset of some data. All other bundles stay as they are.
struct Replacement<'r, 'n, 'o> {
    new: &'r NewContent<'n>,
    data: Slice<'r>,
    offset: u64,
    observer: &'r mut Observer<'o>,
    /// Whether the bundle is compressed now, once it was written.
    written: Option<IsNowCompressed>,
}

impl<'r, 'n> RewriteBundles<'r> for Replacement<'r, 'n, '_> {
    type Choice = ();
    type Maker = (&'r NewContent<'n>, Slice<'r>, u64);
    /// `None` for the other bundles.
    type Made = Option<Made>;

    fn choose(&mut self, _: &Bundle<'r>) -> Result<()> {
        Ok(())
    }

    fn maker(&self) -> Self::Maker {
        (self.new, self.data, self.offset)
    }

    fn make((new, data, offset): &Self::Maker, old: &OldBundle<'r, ()>) -> Result<Option<Made>> {
        if old.head.offset != *offset {
            return Ok(None);
        }
        let inflated = old.inflate()?;
        new.make(*data, inflated.as_ref().unwrap_or(&old.head), old.room).map(Some)
    }

    fn size_of(made: &Option<Made>) -> u64 {
        made.as_ref().map_or(0, |made| made.bytes.len())
    }

    fn write(
        &mut self,
        writer: &mut BundleWriter<'r>,
        old: OldBundle<'r, ()>,
        made: Result<Option<Made>>,
    ) -> Result<()> {
        writer.progress.report(old.head.offset, writer.data.len(), self.observer);
        let Some(made) = made? else { return writer.write_bundle(&old.head, BundleForm::AsItWas, old.room) };
        writer.write_bundle(&old.head, BundleForm::New(&[Piece::Input(made.bytes.as_slice())]), old.room)?;
        self.written = Some(made.is_now_compressed);
        Ok(())
    }
}

/// Fails if a PE file is signed. The signature would not be valid for the new bundle.
fn ensure_unsigned(data: Slice<'_>) -> Result<()> {
    let Some(signature) = pe::signature(data.bytes()) else { return Ok(()) };
    let error = Error::refused(ErrorKind::Unsupported, data.path(), signature.start, "it is signed");
    Err(error.with_hint("remove the signature first: signtool remove /s"))
}
