//! Rewrites the bundles of a file, one after the other.

use std::ops::Range;

use super::super::rewrite::Rewriter;
use super::super::share::check_size;
use super::Recompressed;
use super::choice::Chosen;
use super::form::{BundleForm, Plain, contents, ensure_it_ends, first_aligned_as, member};
use super::linked;
use super::run::{Recompression, Rewritten};
use super::span::scaled;
use crate::base::bytes::{is_zero, len_of, part, tail};
use crate::base::codec::Compression;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::meter::Meter;
use crate::base::io::piece::{Piece, total_len};
use crate::beyond::container::SearchEntry;
use crate::beyond::container::entry::Searched;
use crate::beyond::container::fatbin::{self, Fatbin, Packing};
use crate::beyond::container::host::gaps::pe;
use crate::beyond::container::{Bundle, Bundles};
use crate::beyond::scan::{AnyBundle, EntryFacts, Format, Found, bundle_sections};
use crate::llvm::container::magic::Magic;
use crate::llvm::container::offload_binary::{self, HipNumber, ImageKind, NewImage, OffloadBinary, Version};
use crate::llvm::container::sequence::{Content, Inflate};
use crate::llvm::container::{Container, compressed};
use crate::llvm::event::{Event, Observer};

/// The state of a file that is being rewritten.
pub(super) struct FileRewrite<'r, 'j> {
    run: &'r mut Recompression<'j>,
    data: Slice<'r>,
    pub(super) to: Rewriter<'r>,
    /// The numbers of this file.
    result: Recompressed,
    /// The number of remaining code objects for devices.
    left: usize,
}

/// Reads offload binaries whatever their images hold. Only the versions that it writes depend on its fields.
static OFFLOAD_BINARY: Searched<OffloadBinary> =
    Searched(OffloadBinary { version: Version::V1, hip_number: HipNumber::Current });

/// Where each bundle of a row was and is now, counted from the start of the row.
pub(super) type Moved = Vec<(Range<u64>, Range<u64>)>;

impl Recompression<'_> {
    /// The bundles that some data begins with.
    pub(super) fn bundles_in<'d>(&self, data: Slice<'d>, inflate: Inflate) -> Bundles<'d> {
        let container: &dyn Container<Entry = SearchEntry> = match Magic::identify(data.bytes()) {
            Magic::FatBinary => &Fatbin,
            Magic::OffloadBinary => &OFFLOAD_BINARY,
            _ => &AnyBundle,
        };
        Bundles::new(data, container, inflate).with_limits(self.job.limits)
    }
}

impl<'r, 'j> FileRewrite<'r, 'j> {
    pub(super) fn new(run: &'r mut Recompression<'j>, data: Slice<'r>, to: Rewriter<'r>) -> Self {
        Self { run, data, to, result: Recompressed::default(), left: 0 }
    }

    /// Rewrites bundles in a row, which move together.
    pub(super) fn sequence(&mut self, row: Slice<'_>, observer: &mut Observer<'_>) -> Result<Moved> {
        let (mut moved, start) = (Vec::new(), self.to.written());
        let mut bundles = self.run.bundles_in(row, Inflate::Whole);
        while let Some(bundle) = bundles.next().transpose()? {
            if is_fat_object(self.data, &bundle)? {
                break;
            }
            let (old, position) = (bundle.range()?, self.to.written() - start);
            let old = old.start.saturating_sub(row.offset())..old.end.saturating_sub(row.offset());
            let new =
                if is_offload_binary(self.data, &bundle) { position } else { first_aligned_as(old.start, position) };
            self.to.write(&[Piece::Zeros(new - position)])?;
            self.to.skip_until(bundle.offset);
            self.bundle_or_refusal(&bundle, None, observer)?;
            moved.push((old, new..self.to.written() - start));
        }
        Ok(moved)
    }

    /// Ends a row of bundles that moved in a section of an object, which is at `old`. The zeros after it are the hole of
    /// a job that kept all offsets, if there are enough for what the bundles need more now. So that this is certain, a
    /// hole is left where there are that many before it.
    pub(super) fn end_of_row(&mut self, moved: &Moved, old: &Range<u64>) -> Result<()> {
        let (was, now) = moved.last().map_or((0, 0), |(was, now)| (was.end, now.end));
        let rest = old.start.saturating_add(was)..old.end;
        let zeros = if part(self.data.bytes(), rest.clone()).is_some_and(is_zero) { len_of(&rest) } else { 0 };
        let (more, less) = (now.saturating_sub(was), was.saturating_sub(now));
        if (1..=zeros).contains(&more) {
            self.to.skip_until(rest.start.saturating_add(more));
        } else if (1..=zeros).contains(&less) {
            self.to.leave_room(less)?;
            self.result.holes += less;
        }
        self.to.copy_until(old.end)
    }

    /// Rewrites the sections of a program, in which each bundle stays at its offset.
    pub(super) fn program(&mut self, observer: &mut Observer<'_>) -> Result<()> {
        let sections = bundle_sections(self.data)?;
        if !sections.is_empty()
            && let Some(signature) = pe::signature(self.data.bytes())
        {
            return Err(self.signed(&signature));
        }
        for section in sections {
            let end = section.end();
            let mut bundles = self.run.bundles_in(section, Inflate::Whole);
            let mut next = bundles.next().transpose()?;
            while let Some(bundle) = next {
                if is_fat_object(self.data, &bundle)? {
                    break;
                }
                next = bundles.next().transpose()?;
                let end = next.as_ref().map_or(bundles.stopped_at().unwrap_or(end), |next| next.offset);
                self.to.copy_until(bundle.offset)?;
                self.bundle_or_refusal(&bundle, Some(end.saturating_sub(bundle.offset)), observer)?;
            }
        }
        Ok(())
    }

    fn signed(&self, signature: &Range<u64>) -> Error {
        let remove = "remove the signature first: signtool remove /s";
        let (reason, hint) = match (self.run.job.drop_signature, &self.run.replacing) {
            (true, _) => ("cannot remove its signature: other data may follow it", remove),
            (false, Some(_)) => ("it is signed", remove),
            (false, None) => {
                ("it is signed", "recompress --drop-signature removes the signature; sign the new file again")
            }
        };
        Error::refused(ErrorKind::Unsupported, self.data.path(), signature.start, reason).with_hint(hint)
    }

    /// Rewrites a bundle, or keeps it and notes why it cannot be written without compression.
    fn bundle_or_refusal(&mut self, bundle: &Bundle<'_>, room: Option<u64>, observer: &mut Observer<'_>) -> Result<()> {
        let is_plain_wanted = self.run.job.compression.is_none() && self.run.replacing.is_none();
        let dropped = self.result.dropped;
        match self.bundle(bundle, room, observer) {
            Err(error) if error.is_refusal() && is_plain_wanted => {
                self.run.refusals.add(error);
                self.to.take_back()?;
                self.result.bundles += 1;
                self.result.dropped = dropped;
                self.to.copy_until(bundle.range()?.end)
            }
            rewritten => rewritten,
        }
    }

    /// Rewrites a bundle, into `room` bytes if it must stay at its offset.
    fn bundle(&mut self, bundle: &Bundle<'_>, room: Option<u64>, observer: &mut Observer<'_>) -> Result<()> {
        let path = self.data.path();
        self.run.span.tell(bundle.offset, self.data.len(), observer);
        self.run.take_bundle(self.data, bundle)?;
        let new = self.run.replacing.as_ref().map(|replacing| (replacing.index, replacing.content));
        if self.run.replacing.as_ref().is_some_and(|replacing| replacing.bundle != bundle.offset) {
            return self.put(bundle, BundleForm::AsItWas, room);
        }
        if Magic::identify(bundle.beginning()) == Magic::FatBinary {
            self.note_replaced(false);
            return self.fatbin(bundle, new, room);
        }
        if is_offload_binary(self.data, bundle) {
            return self.offload_binary(bundle, room);
        }
        let format = AnyBundle::format_of(bundle.beginning()).unwrap_or(Format::Bundle);
        let kept = if new.is_some() { Some((0..bundle.entries.len()).collect()) } else { self.kept(bundle, format)? };
        let mut contents = kept.map(|kept: Vec<usize>| contents(path, bundle, &kept)).transpose()?;
        if let (Some((index, content)), Some(contents)) = (new, &mut contents) {
            // Its caller compares the result with the old file.
            contents.get_mut(index).into_iter().for_each(|replaced| replaced.1 = Content::InPlace(content));
        }
        let members = contents.as_ref().map(|contents| contents.iter().map(member).collect::<Vec<_>>());
        let plain = Plain::of(path, bundle, members.as_deref())?;
        let form = match new {
            Some(_) => self.keep_form(bundle, &plain, room, observer)?,
            None => self.choose(bundle, &plain, observer)?,
        };
        let is_now_compressed = bundle.compressed.is_none() && matches!(form, BundleForm::Written(_));
        self.note_replaced(is_now_compressed);
        let is_for_hip = bundle.entries.iter().filter_map(|entry| entry.entry.entry_id()).any(|id| id.kind().is_hip());
        self.result.packed += usize::from(is_now_compressed && is_for_hip);
        ensure_it_ends(self.data, bundle, &plain, &form, room)?;
        self.put(bundle, form, room)
    }

    /// Notes that the code object that is replaced was found, and whether its bundle is compressed because of that.
    fn note_replaced(&mut self, is_now_compressed: bool) {
        if let Some(replacing) = &mut self.run.replacing {
            replacing.done = Some(is_now_compressed);
        }
    }

    /// Rewrites a fatbin, into `room` bytes if it must stay at its offset. One code object may be `new`: its index, and
    /// its other content.
    fn fatbin(&mut self, bundle: &Bundle<'_>, new: Option<(usize, Slice<'_>)>, room: Option<u64>) -> Result<()> {
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(self.data.path(), fault.clone()));
        }
        let kept = if new.is_some() { None } else { self.kept(bundle, Format::Fatbin)? };
        let keeps = |index: usize| kept.as_ref().is_none_or(|kept| kept.binary_search(&index).is_ok());
        let packing = match (new, &self.run.job.compression) {
            (Some((index, content)), _) => Packing::Replacing { index, content: content.bytes() },
            (None, Some(compression)) => {
                Packing::Smallest { codec: self.run.job.fatbin_codec, level: compression.level }
            }
            (None, None) => Packing::Plain,
        };
        let data = self.data.claimed(&bundle.range()?)?;
        let len = fatbin::rewrite(data, keeps, packing, self.run.job.limits.inflated, &mut self.to.output.writer()?)?;
        let is_same = kept.is_none() && len == bundle.stored_len()? && !bundle.entries.is_empty();
        self.result.unchanged += usize::from(is_same && packing != Packing::Plain);
        self.put(bundle, BundleForm::Written(len), room)
    }

    /// Rewrites an offload binary, from which images may be removed. Without images nothing is left of it.
    fn offload_binary(&mut self, bundle: &Bundle<'_>, room: Option<u64>) -> Result<()> {
        // The images of a SYCLBIN file are parts of one another.
        let mut infos = bundle.entries.iter().filter_map(|entry| entry.entry.image.as_ref());
        let is_one = infos.any(|info| info.image_kind == ImageKind::SyclBin);
        let kept = if is_one { None } else { self.kept(bundle, Format::OffloadBinary)? };
        self.result.uncompressed += usize::from(bundle.compressed.is_none());
        let Some(kept) = kept else { return self.put(bundle, BundleForm::AsItWas, room) };
        check_size(self.data.path(), bundle, kept.iter().copied())?;
        let contents = kept.iter().map(|&index| bundle.content(index)).collect::<Result<Vec<_>>>()?;
        let infos = kept.iter().map(|&index| bundle.entries.get(index)?.entry.image.as_deref().cloned());
        let images = infos
            .zip(&contents)
            .map(|(info, content)| NewImage { info: info.unwrap_or_default(), content: content.as_slice() });
        let version = if bundle.compressed.is_some() { Version::V3 } else { Version::V2 };
        let pieces = offload_binary::plan(version, &images.collect::<Vec<_>>())?;
        self.put(bundle, BundleForm::New(&pieces), room)
    }

    /// Chooses the smallest form of a bundle: of several, the first of those that [`Recompress`](super::Recompress)
    /// lists.
    fn choose<'p>(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &'p Plain<'p>,
        observer: &mut Observer<'_>,
    ) -> Result<BundleForm<'p>> {
        let as_plain = BundleForm::New(&plain.pieces);
        let Some(compression) = &self.run.job.compression else {
            let is_kept = !plain.is_changed && bundle.compressed.is_none();
            return Ok(if is_kept { BundleForm::AsItWas } else { as_plain });
        };
        let deflated_len = self.deflate(bundle, plain, compression, observer)?;
        let may_be_plain = bundle.compressed.is_none() || !(plain.is_text || plain.has_tail);
        let plain_len = if may_be_plain { total_len(&plain.pieces)? } else { u64::MAX };
        let old_len = if plain.is_changed { u64::MAX } else { bundle.stored_len()? };
        let least = old_len.min(deflated_len).min(plain_len);
        if least == deflated_len && least != old_len {
            return Ok(BundleForm::Written(deflated_len));
        }
        self.to.take_back()?;
        if least != old_len {
            return Ok(as_plain);
        }
        self.result.unchanged += usize::from(deflated_len > old_len);
        Ok(BundleForm::AsItWas)
    }

    /// The form that a bundle had, or the other one if that does not fit.
    fn keep_form<'p>(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &'p Plain<'p>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<BundleForm<'p>> {
        let fits = |len: u64| room.is_none_or(|room| len <= room);
        let is_plain_fit = fits(total_len(&plain.pieces)?);
        if bundle.compressed.is_none() && is_plain_fit {
            return Ok(BundleForm::New(&plain.pieces));
        }
        let len = self.deflate(bundle, plain, &self.run.job.compression.unwrap_or_default(), observer)?;
        if !fits(len) && is_plain_fit && !plain.is_text && !plain.has_tail {
            self.to.take_back()?;
            return Ok(BundleForm::New(&plain.pieces));
        }
        Ok(BundleForm::Written(len))
    }

    /// Compresses a bundle directly into the output, where it stays if no other form is smaller. Returns its length in
    /// bytes.
    fn deflate(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &Plain<'_>,
        compression: &Compression,
        observer: &mut Observer<'_>,
    ) -> Result<u64> {
        let (span, stored, len) = (self.run.span, bundle.stored_len()?, self.data.len());
        let at = |done, total| bundle.offset.saturating_add(scaled(done, total, stored));
        let mut tell = |done, total| span.tell(at(done, total), len, observer);
        let (to, meter) = (&mut self.to.output.writer()?, &mut Meter::new(&mut tell));
        let deflation = compressed::write_metered(&plain.pieces, compression, None, to, meter)?;
        observer(Event::Deflated(deflation));
        deflation.recorded.total.ok_or_else(|| Error::internal("a new compressed bundle has no length"))
    }

    /// Writes a bundle in a form, and leaves the part of its room that it does not need.
    fn put(&mut self, bundle: &Bundle<'_>, form: BundleForm<'_>, room: Option<u64>) -> Result<()> {
        let (old, before) = (bundle.range()?, bundle.stored_len()?);
        let after = match form {
            BundleForm::AsItWas => before,
            BundleForm::New(pieces) => total_len(pieces)?,
            BundleForm::Written(len) => len,
        };
        if let Some(room) = room.filter(|room| after > *room) {
            return Err(self.no_room(bundle, after, room));
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
                self.result.holes += hole.min(before.saturating_sub(after));
                self.to.leave_room(hole)?;
                old.start.saturating_add(room)
            }
        };
        self.to.skip_until(end);
        Ok(())
    }

    /// The error for a bundle that must stay at its offset and needs more than `room` bytes.
    fn no_room(&self, bundle: &Bundle<'_>, needed: u64, room: u64) -> Error {
        let offset = bundle.offset;
        let what = if Magic::identify(bundle.beginning()) == Magic::FatBinary { "fatbin" } else { "bundle" };
        let reason = format!("the {what} at offset {offset} needs {needed} bytes, but has room for only {room}");
        let error = Error::refused(ErrorKind::Limit, self.data.path(), offset, reason);
        match linked::no_room_hint(self.data) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// The indices of the code objects to keep; `None` if all are kept.
    fn kept(&mut self, bundle: &Bundle<'_>, format: Format) -> Result<Option<Vec<usize>>> {
        let (index, facts) = (self.result.bundles, EntryFacts::default());
        let found = Found { place: &self.run.place, format, index, bundle, facts: &facts, space_end: 0 };
        let Chosen { kept, devices } = self.run.choice.choose(&found)?;
        self.left += devices;
        let dropped = bundle.entries.len() - kept.len();
        self.result.dropped += dropped;
        Ok((dropped > 0).then_some(kept))
    }

    /// What was written, and the numbers of the file, which is emptied if all code objects for devices were removed.
    pub(super) fn into_parts(self) -> (Rewriter<'r>, Recompressed) {
        let emptied = usize::from(self.result.dropped > 0 && self.left == 0);
        (self.to, Recompressed { emptied, ..self.result })
    }

    /// Ends the file.
    pub(super) fn finish(self) -> Result<(Rewritten, Vec<Range<u64>>)> {
        let (to, result) = self.into_parts();
        let (output, holes) = if result.bundles > 0 { to.finish()? } else { (to.output, Vec::new()) };
        Ok(((output, result), holes))
    }
}

/// Whether a bundle of the data is a fat object, which this job rejects: linkers need it as an object, and a rewritten
/// one would no longer be one.
pub(super) fn is_fat_object(data: Slice<'_>, bundle: &Bundle<'_>) -> Result<bool> {
    let is_other = Magic::identify(bundle.beginning()) == Magic::FatBinary || is_offload_binary(data, bundle);
    Ok(!is_other && AnyBundle::form_of(bundle).with_path(data.path())? == Format::FatObject)
}

fn is_offload_binary(data: Slice<'_>, bundle: &Bundle<'_>) -> bool {
    tail(data.bytes(), bundle.offset).is_some_and(|data| Magic::identify(data) == Magic::OffloadBinary)
}
