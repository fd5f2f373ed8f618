//! Rewrites the bundles of a file, one after the other.

use std::ops::Range;
use std::path::Path;

use super::super::rewrite::Rewriter;
use super::super::size_limit::ensure_size_limit;
use super::Recompressed;
use super::form::{BundleForm, PlainBundle, as_member, ensure_end_is_known, first_aligned_as, read_contents};
use super::linked;
use super::pick::PickedBundle;
use super::progress::scaled;
use super::run::{Recompression, RewrittenFile};
use crate::base::bytes::{bytes_in, is_zero, len_of, tail};
use crate::base::codec::{Compression, Method};
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::meter::Meter;
use crate::base::io::piece::{Piece, total_len};
use crate::beyond::container::entry::SearchFormat;
use crate::beyond::container::fatbin::{self, CodePacking, Fatbin};
use crate::beyond::container::host::gaps::pe;
use crate::beyond::container::sequence::Content;
use crate::beyond::container::{Bundle, Magic, SearchBundles, SearchContainer};
use crate::beyond::scan::{AnyBundle, Format, bundle_sections};
use crate::llvm::container::offload_binary::{self, HipNumber, ImageKind, NewImage, OffloadBinary, Version};
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::{Limits, compressed};
use crate::llvm::event::{Event, Observer};

/// The state of a file that is being rewritten.
pub(super) struct FileRewrite<'r, 'j> {
    run: &'r mut Recompression<'j>,
    data: Slice<'r>,
    pub(super) to: Rewriter<'r>,
    /// The numbers of bundles and bytes for this file.
    result: Recompressed,
    /// The number of code objects for devices that are kept.
    kept_devices: usize,
}

/// The format of offload binaries. Its fields matter only for writing.
static OFFLOAD_BINARY: SearchFormat<OffloadBinary> =
    SearchFormat(OffloadBinary { version: Version::V1, hip_number: HipNumber::Current });

/// The old and the new range of each of some adjacent bundles, counted from the start of the first one.
pub(super) type MovedRanges = Vec<(Range<u64>, Range<u64>)>;

impl Recompression<'_> {
    /// Returns the bundles at the start of some data of the old file, inflated within the limits of the job.
    fn bundles_to_rewrite<'d>(&self, data: Slice<'d>) -> SearchBundles<'d> {
        bundles_in(data, Inflate::Whole, self.job.limits)
    }
}

/// Returns the bundles at the start of some data.
pub(super) fn bundles_in(data: Slice<'_>, inflate: Inflate, limits: Limits) -> SearchBundles<'_> {
    let container: &dyn SearchContainer = match Magic::identify(data.bytes()) {
        Magic::Container(Format::Fatbin) => &Fatbin,
        Magic::Container(Format::OffloadBinary) => &OFFLOAD_BINARY,
        _ => &AnyBundle,
    };
    SearchBundles::new(data, container, inflate).with_limits(limits)
}

impl<'r, 'j> FileRewrite<'r, 'j> {
    pub(super) fn new(run: &'r mut Recompression<'j>, data: Slice<'r>, to: Rewriter<'r>) -> Self {
        Self { run, data, to, result: Recompressed::default(), kept_devices: 0 }
    }

    /// Rewrites the adjacent bundles at the start of `data`, which move together: each follows directly after the one
    /// before, except for the padding that its alignment needs. Returns the old and the new range of each, counted from
    /// the start of the first. Ends before a fat object, which is not rewritten.
    pub(super) fn rewrite_adjacent(&mut self, data: Slice<'_>, observer: &mut Observer<'_>) -> Result<MovedRanges> {
        let (mut moved, start) = (Vec::new(), self.to.written());
        let mut bundles = self.run.bundles_to_rewrite(data);
        while let Some(bundle) = bundles.next().transpose()? {
            if is_fat_object(self.data, &bundle)? {
                break;
            }
            let (old, position) = (bundle.range()?, self.to.written() - start);
            let old = old.start.saturating_sub(data.offset())..old.end.saturating_sub(data.offset());
            // Readers look for the next offload binary directly after the one before, without padding.
            let new =
                if is_offload_binary(self.data, &bundle) { position } else { first_aligned_as(old.start, position) };
            self.to.write(&[Piece::Zeros(new - position)])?;
            self.to.skip_until(bundle.offset);
            const MAY_MOVE: Option<u64> = None;
            self.rewrite_or_keep_bundle(&bundle, MAY_MOVE, observer)?;
            moved.push((old, new..self.to.written() - start));
        }
        Ok(moved)
    }

    /// Writes the rest of an object's section, after its bundles were written. `old` is the range of the section in the
    /// old file.
    ///
    /// If nothing but zeros follows the bundles, these may be the hole that an earlier job left. The section then keeps
    /// its length if it can: shorter bundles make the hole larger, and longer bundles take a part of it.
    pub(super) fn end_section(&mut self, moved: &MovedRanges, old: &Range<u64>) -> Result<()> {
        let (old_len, new_len) = match moved.last() {
            Some((old_range, new_range)) => (old_range.end, new_range.end),
            None => (0, 0),
        };
        let rest = old.start.saturating_add(old_len)..old.end;
        let zeros = match bytes_in(self.data.bytes(), rest.clone()) {
            Some(bytes) if is_zero(bytes) => len_of(&rest),
            _ => 0,
        };
        // At most one of the two is not zero.
        let (growth, shrinkage) = (new_len.saturating_sub(old_len), old_len.saturating_sub(new_len));
        if (1..=zeros).contains(&growth) {
            self.to.skip_until(rest.start.saturating_add(growth));
        } else if (1..=zeros).contains(&shrinkage) {
            self.to.leave_hole(shrinkage)?;
            self.result.holes += shrinkage;
        }
        self.to.copy_until(old.end)
    }

    /// Rewrites the sections of a program. Each bundle stays at its offset.
    pub(super) fn rewrite_program(&mut self, observer: &mut Observer<'_>) -> Result<()> {
        let sections = bundle_sections(self.data)?;
        // A signature would not be valid for the new bundles.
        if !sections.is_empty()
            && let Some(signature) = pe::signature(self.data.bytes())
        {
            return Err(self.signed_error(&signature));
        }
        for section in sections {
            let section_end = section.end();
            let mut bundles = self.run.bundles_to_rewrite(section);
            // The room of a bundle ends where the next one starts, so the next one is read first.
            let mut next = bundles.next().transpose()?;
            while let Some(bundle) = next {
                // A fat object is copied, with everything after it in its section.
                if is_fat_object(self.data, &bundle)? {
                    break;
                }
                next = bundles.next().transpose()?;
                // The room of the last bundle ends at data that is not a bundle, or at the end of the section.
                let room_end = match &next {
                    Some(next) => next.offset,
                    None => bundles.stopped_at().unwrap_or(section_end),
                };
                self.to.copy_until(bundle.offset)?;
                self.rewrite_or_keep_bundle(&bundle, Some(room_end.saturating_sub(bundle.offset)), observer)?;
            }
        }
        Ok(())
    }

    /// Returns the error for a PE file that still has its signature, which is at the range `signature`.
    fn signed_error(&self, signature: &Range<u64>) -> Error {
        let remove = "remove the signature first: signtool remove /s";
        let (reason, hint) = if self.run.job.drop_signature {
            ("cannot remove its signature: other data may follow it", remove)
        } else if self.run.replacing.is_some() {
            ("it is signed", remove)
        } else {
            ("it is signed", "recompress --drop-signature removes the signature; sign the new file again")
        };
        Error::refused(ErrorKind::Unsupported, self.data.path(), signature.start, reason).with_hint(hint)
    }

    /// Rewrites a bundle. A job that writes bundles without compression keeps a bundle that cannot be written so, and
    /// notes the reason: one error at the end reports all of these bundles. `room` is the number of bytes that the
    /// bundle may take at its offset, or `None` if the bundle and the data after it may move.
    fn rewrite_or_keep_bundle(
        &mut self,
        bundle: &Bundle<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let is_plain_wanted = self.run.job.compression.is_none() && self.run.replacing.is_none();
        let dropped = self.result.dropped;
        match self.rewrite_bundle(bundle, room, observer) {
            Err(error) if error.is_refusal() && is_plain_wanted => {
                self.run.refusals.add(error);
                // Before the error, bytes of the new bundle may have been written, and code objects counted as dropped.
                // The old bundle is copied in place of it.
                self.to.truncate_to_counted()?;
                self.result.bundles += 1;
                self.result.dropped = dropped;
                self.run.kept.remove(&bundle.offset);
                self.to.copy_until(bundle.range()?.end)
            }
            rewritten => rewritten,
        }
    }

    /// Rewrites a bundle, into `room` bytes if it must stay at its offset. In a replacement, only the bundle with the
    /// code object changes.
    fn rewrite_bundle(&mut self, bundle: &Bundle<'_>, room: Option<u64>, observer: &mut Observer<'_>) -> Result<()> {
        let path = self.data.path();
        self.run.progress.report(bundle.offset, self.data.len(), observer);
        // Fails if the job has read more bundles than a search may.
        self.run.take_bundle(self.data, bundle)?;
        // The index and the content of the replaced code object, if the job is a replacement.
        let new = self.run.replacing.as_ref().map(|replacing| (replacing.index, replacing.content));
        if let Some(replacing) = &self.run.replacing
            && replacing.bundle != bundle.offset
        {
            return self.write_bundle(bundle, BundleForm::AsItWas, room);
        }
        if Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) {
            // The code objects of a fatbin are compressed one by one, so the fatbin itself stays plain.
            const IS_NOW_COMPRESSED: bool = false;
            self.note_replaced(IS_NOW_COMPRESSED);
            return self.rewrite_fatbin(bundle, new, room);
        }
        if is_offload_binary(self.data, bundle) {
            return self.rewrite_offload_binary(bundle, room);
        }
        let contents = match new {
            Some((index, content)) => Some(read_with_replaced(path, bundle, index, content)?),
            None => match self.choose_kept(bundle)? {
                Some(kept) => Some(read_contents(path, bundle, &kept)?),
                None => None,
            },
        };
        let members = contents.as_ref().map(|contents| contents.iter().map(as_member).collect::<Vec<_>>());
        let plain = PlainBundle::new(path, bundle, members.as_deref())?;
        let form = match new {
            Some(_) => self.choose_form_of_replaced(bundle, &plain, room, observer)?,
            None => self.choose_form(bundle, &plain, room, observer)?,
        };
        let is_now_compressed = bundle.compressed.is_none() && matches!(form, BundleForm::Written(_));
        self.note_replaced(is_now_compressed);
        // Old HIP runtimes do not read compressed bundles, so a note tells the user how many there are.
        let is_for_hip = bundle.entries.iter().filter_map(|entry| entry.entry.entry_id()).any(|id| id.kind().is_hip());
        self.result.packed += usize::from(is_now_compressed && is_for_hip);
        ensure_end_is_known(self.data, bundle, &plain, &form, room)?;
        self.write_bundle(bundle, form, room)
    }

    /// Notes that the bundle of the code object to replace is written, and whether it was plain and is compressed now.
    /// Does nothing in a recompression.
    fn note_replaced(&mut self, is_now_compressed: bool) {
        if let Some(replacing) = &mut self.run.replacing {
            replacing.is_now_compressed = Some(is_now_compressed);
        }
    }

    /// Rewrites a fatbin, into `room` bytes if it must stay at its offset. `new` is the index and the content of a
    /// replaced code object.
    fn rewrite_fatbin(
        &mut self,
        bundle: &Bundle<'_>,
        new: Option<(usize, Slice<'_>)>,
        room: Option<u64>,
    ) -> Result<()> {
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(self.data.path(), fault.clone()));
        }
        // A replacement keeps all code objects, and stores all but one as they are.
        let kept = if new.is_some() { None } else { self.choose_kept(bundle)? };
        let packing = match (new, &self.run.job.compression) {
            (Some((index, content)), _) => CodePacking::Replacing { index, content: content.bytes() },
            (None, Some(compression)) => {
                CodePacking::Smallest { codec: self.run.job.fatbin_codec, level: compression.level }
            }
            (None, None) => CodePacking::Plain,
        };
        let data = self.data.claimed(&bundle.range()?)?;
        let (limit, to) = (self.run.job.limits.inflated, &mut self.to.output.writer()?);
        let len = fatbin::rewrite(data, |index| is_kept(kept.as_deref(), index), packing, limit, to)?;
        // A code object never becomes larger, so none became smaller if the length is the same.
        let is_same = kept.is_none() && len == bundle.stored_len()? && !bundle.entries.is_empty();
        // Without compression, nothing was expected to become smaller.
        self.result.unchanged += usize::from(is_same && packing != CodePacking::Plain);
        self.write_bundle(bundle, BundleForm::Written(len), room)
    }

    /// Rewrites an offload binary without the images that are removed. Copies it if no image is removed, and writes
    /// no bytes if no image is left.
    fn rewrite_offload_binary(&mut self, bundle: &Bundle<'_>, room: Option<u64>) -> Result<()> {
        // The images of a SYCLBIN file need one another, so none of them is removed.
        let mut infos = bundle.entries.iter().filter_map(|entry| entry.entry.image.as_ref());
        let is_sycl_bin = infos.any(|info| info.image_kind == ImageKind::SyclBin);
        let kept = if is_sycl_bin { None } else { self.choose_kept(bundle)? };
        // This job does not compress offload binaries. The count is for the advice to pack them again.
        self.result.uncompressed += usize::from(bundle.compressed.is_none());
        let Some(kept) = kept else { return self.write_bundle(bundle, BundleForm::AsItWas, room) };
        ensure_size_limit(self.data.path(), bundle, kept.iter().copied())?;
        let contents = kept.iter().map(|&index| bundle.content(index)).collect::<Result<Vec<_>>>()?;
        let mut images = Vec::new();
        for (&index, content) in kept.iter().zip(&contents) {
            let info = bundle.entries.get(index).and_then(|entry| entry.entry.image.as_deref());
            images.push(NewImage { info: info.cloned().unwrap_or_default(), content: content.as_slice() });
        }
        // Compression came with version 3, so readers of a compressed offload binary know it. More readers know version
        // 2.
        let version = if bundle.compressed.is_some() { Version::V3 } else { Version::V2 };
        let pieces = offload_binary::plan(version, &images)?;
        self.write_bundle(bundle, BundleForm::New(&pieces), room)
    }

    /// Chooses the smallest form of a bundle, or the first one in the list of [`Recompress`](super::Recompress) if
    /// several have the same size. The compressed form is written to the output to learn its length, and removed again
    /// if another form is chosen.
    fn choose_form<'p>(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &'p PlainBundle<'p>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<BundleForm<'p>> {
        let as_plain = BundleForm::New(&plain.pieces);
        let Some(compression) = &self.run.job.compression else {
            let is_kept = !plain.is_changed && bundle.compressed.is_none();
            return Ok(if is_kept { BundleForm::AsItWas } else { as_plain });
        };
        // Readers would not find the end of a text bundle that was compressed, or of a plain bundle before other data.
        let may_be_plain = bundle.compressed.is_none() || !(plain.is_text || plain.has_tail);
        // A form that may not be chosen counts as longer than any other.
        let plain_len = if may_be_plain { total_len(&plain.pieces)? } else { u64::MAX };
        let old_len = if plain.is_changed { u64::MAX } else { bundle.stored_len()? };
        let room = room.unwrap_or(u64::MAX);
        let has_other_form = plain_len.min(old_len) <= room;
        let deflated_len = self.deflate_to_fit(bundle, plain, compression, (room, has_other_form), observer)?;
        let least = old_len.min(deflated_len).min(plain_len);
        if least == deflated_len && least != old_len {
            return Ok(BundleForm::Written(deflated_len));
        }
        self.to.truncate_to_counted()?;
        if least != old_len {
            return Ok(as_plain);
        }
        self.result.unchanged += usize::from(deflated_len > old_len);
        Ok(BundleForm::AsItWas)
    }

    /// Chooses the form of a bundle with a replaced code object: as before, plain or compressed, or the other form if
    /// the bundle does not fit into `room` as before.
    fn choose_form_of_replaced<'p>(
        &mut self,
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
        let compression = self.run.job.compression.unwrap_or_default();
        let len = self.deflate_to_fit(bundle, plain, &compression, (room, may_be_plain), observer)?;
        if len > room && may_be_plain {
            // Remove the compressed bytes, which are in the output already.
            self.to.truncate_to_counted()?;
            return Ok(BundleForm::New(&plain.pieces));
        }
        Ok(BundleForm::Written(len))
    }

    /// Compresses a bundle as [`deflate`](Self::deflate) does. If the result is longer than `room`, and no other form
    /// of the bundle fits, compresses it again at higher levels, then with the method that the old bundle had: at the
    /// level of the job, even a part of the code may need more room than the old bundle took.
    fn deflate_to_fit(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &PlainBundle<'_>,
        compression: &Compression,
        (room, has_other_form): (u64, bool),
        observer: &mut Observer<'_>,
    ) -> Result<u64> {
        let mut len = self.deflate(bundle, plain, compression, observer)?;
        let old_method = bundle.compressed.map(|recorded| recorded.method).filter(|old| *old != compression.method);
        for method in [Some(compression.method), old_method].into_iter().flatten() {
            for &level in slow_levels(method) {
                let is_tried = method == compression.method && level <= compression.level;
                if len > room && !has_other_form && !is_tried {
                    self.to.truncate_to_counted()?;
                    len = self.deflate(bundle, plain, &Compression { method, level, ..*compression }, observer)?;
                }
            }
        }
        Ok(len)
    }

    /// Compresses a bundle directly into the output, and returns the compressed length in bytes. The output does not
    /// count these bytes yet: the caller writes the bundle as [`BundleForm::Written`], or removes the bytes again.
    fn deflate(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &PlainBundle<'_>,
        compression: &Compression,
        observer: &mut Observer<'_>,
    ) -> Result<u64> {
        let (progress, stored, len) = (self.run.progress, bundle.stored_len()?, self.data.len());
        let mut report = |done, total| {
            let at = bundle.offset.saturating_add(scaled(done, total, stored));
            progress.report(at, len, observer);
        };
        let (to, meter) = (&mut self.to.output.writer()?, &mut Meter::new(&mut report));
        const ANY_VERSION: Option<compressed::HeaderVersion> = None;
        let deflation = compressed::write_metered(&plain.pieces, compression, ANY_VERSION, to, meter)?;
        observer(Event::Deflated(deflation));
        deflation.recorded.total.ok_or_else(|| Error::internal("a new compressed bundle has no length"))
    }

    /// Writes a bundle in a form, counts it, and leaves the rest of its room as a hole. Fails if the form needs more
    /// than `room` bytes.
    fn write_bundle(&mut self, bundle: &Bundle<'_>, form: BundleForm<'_>, room: Option<u64>) -> Result<()> {
        let (old, before) = (bundle.range()?, bundle.stored_len()?);
        let after = match form {
            BundleForm::AsItWas => before,
            BundleForm::New(pieces) => total_len(pieces)?,
            BundleForm::Written(len) => len,
        };
        if let Some(room) = room
            && after > room
        {
            return Err(self.no_room_error(bundle, after, room));
        }
        match form {
            BundleForm::AsItWas => self.to.write(&[Piece::Input(self.data.claimed(&old)?)])?,
            BundleForm::New(pieces) => self.to.write(pieces)?,
            BundleForm::Written(len) => self.to.count(len)?,
        }
        self.result.bundles += 1;
        self.result.before += before;
        self.result.after += after;
        let end = match room {
            None => old.end,
            Some(room) => {
                let hole = room - after;
                // Zeros that followed the old bundle are no new hole.
                self.result.holes += hole.min(before.saturating_sub(after));
                self.to.leave_hole(hole)?;
                old.start.saturating_add(room)
            }
        };
        self.to.skip_until(end);
        Ok(())
    }

    /// Returns the error for a bundle that must stay at its offset and needs more than `room` bytes.
    fn no_room_error(&self, bundle: &Bundle<'_>, needed: u64, room: u64) -> Error {
        let offset = bundle.offset;
        let what =
            if Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) { "fatbin" } else { "bundle" };
        let reason = format!("the {what} at offset {offset} needs {needed} bytes, but has room for only {room}");
        let error = Error::refused(ErrorKind::Limit, self.data.path(), offset, reason);
        match linked::no_room_hint(self.data) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// Returns the indices of the code objects to keep, or `None` if all are kept. Counts the others as dropped.
    fn choose_kept(&mut self, bundle: &Bundle<'_>) -> Result<Option<Vec<usize>>> {
        let Some(PickedBundle { kept, device_count, .. }) = self.run.take_picked(self.data, bundle)? else {
            return Ok(None);
        };
        self.kept_devices += device_count;
        let dropped = bundle.entries.len() - kept.len();
        self.result.dropped += dropped;
        if dropped == 0 {
            return Ok(None);
        }
        self.run.kept.insert(bundle.offset, kept.clone());
        Ok(Some(kept))
    }

    /// Returns the written file and its numbers. A file that lost all code objects for devices counts as emptied.
    pub(super) fn into_parts(self) -> (Rewriter<'r>, Recompressed) {
        let emptied = usize::from(self.result.dropped > 0 && self.kept_devices == 0);
        (self.to, Recompressed { emptied, ..self.result })
    }

    /// Copies the rest of the file, unless no bundle was rewritten: then the output is not used. Returns also the
    /// ranges of the holes in the output.
    pub(super) fn finish(self) -> Result<(RewrittenFile, Vec<Range<u64>>)> {
        let (to, result) = self.into_parts();
        let (output, holes) = if result.bundles > 0 { to.finish()? } else { (to.output, Vec::new()) };
        Ok(((output, result), holes))
    }
}

/// Returns the levels of a method for a bundle that does not fit otherwise. The last one is the highest. For zstd, the
/// one before it needs less time and memory, and is mostly enough.
fn slow_levels(method: Method) -> &'static [i32] {
    match method {
        Method::Zlib => &[9],
        Method::Zstd => &[19, 22],
    }
}

/// Reads all code objects of a bundle, with another content for one of them.
fn read_with_replaced<'b>(
    path: &Path,
    bundle: &'b Bundle<'_>,
    index: usize,
    content: Slice<'b>,
) -> Result<Vec<(String, Content<'b>)>> {
    let all: Vec<usize> = (0..bundle.entries.len()).collect();
    let mut contents = read_contents(path, bundle, &all)?;
    // If there is no such code object, nothing changes, which the caller finds out when it compares the files.
    if let Some((_, replaced)) = contents.get_mut(index) {
        *replaced = Content::InPlace(content);
    }
    Ok(contents)
}

/// Returns whether the code object with an index is kept. `kept` has sorted indices, or is `None` if all are kept.
fn is_kept(kept: Option<&[usize]>, index: usize) -> bool {
    match kept {
        Some(kept) => kept.binary_search(&index).is_ok(),
        None => true,
    }
}

/// Returns whether a bundle of the data is a fat object. Linkers need it as an object, which a rewritten bundle would
/// no longer be.
pub(super) fn is_fat_object(data: Slice<'_>, bundle: &Bundle<'_>) -> Result<bool> {
    let is_other =
        Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) || is_offload_binary(data, bundle);
    Ok(!is_other && AnyBundle::format_of_bundle(bundle).with_path(data.path())? == Format::FatObject)
}

/// Returns whether the bytes of a bundle in the file are an offload binary, which may be compressed.
fn is_offload_binary(data: Slice<'_>, bundle: &Bundle<'_>) -> bool {
    match tail(data.bytes(), bundle.offset) {
        Some(data) => Magic::identify(data) == Magic::Container(Format::OffloadBinary),
        None => false,
    }
}
