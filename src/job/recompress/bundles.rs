//! Rewrites the bundles of a file, one after the other.

use std::ops::Range;

use super::super::rewrite::Rewriter;
use super::super::share::check_size;
use super::Recompressed;
use super::choice::Chosen;
use super::form::{BundleForm, ChosenForm, Plain, contents, ensure_it_ends, first_aligned_as, member};
use super::run::{Recompression, Rewritten};
use super::span::scaled;
use crate::bytes::tail;
use crate::codec::Compression;
use crate::container::fatbin::{self, Fatbin, Packing};
use crate::container::host::gaps::pe;
use crate::container::magic::Magic;
use crate::container::offload_binary::{self, ImageKind, NewImage, Version};
use crate::container::sequence::{Bundle, Bundles, Content, Inflate};
use crate::container::{Container, Entry, compressed};
use crate::error::{Error, ErrorKind, Result, WithPath};
use crate::event::{Event, Observer};
use crate::io::input::Slice;
use crate::io::meter::Meter;
use crate::io::piece::{Piece, total_len};
use crate::scan::{BundleReader, Format, Wide, bundle_sections};

/// The state of a file that is being rewritten.
pub(super) struct FileRewrite<'r, 'j> {
    pub(super) run: &'r mut Recompression<'j>,
    pub(super) data: Slice<'r>,
    pub(super) to: Rewriter<'r>,
    /// The numbers of this file.
    pub(super) result: Recompressed,
    /// The number of remaining code objects for devices.
    pub(super) left: usize,
}

/// Where each bundle of a row was and is now, counted from the start of the row.
pub(super) type Moved = Vec<(Range<u64>, Range<u64>)>;

impl FileRewrite<'_, '_> {
    /// Rewrites bundles in a row, which move together.
    pub(super) fn sequence(&mut self, row: Slice<'_>, observer: &mut Observer<'_>) -> Result<Moved> {
        let (mut moved, start) = (Vec::new(), self.to.written());
        let mut bundles = Bundles::new(row, container_of(row), Inflate::Whole).with_limits(self.run.job.limits);
        while let Some(bundle) = bundles.next().transpose()? {
            if is_fat_object(self.data, &bundle)? {
                break;
            }
            let (old, position) = (bundle.range()?, self.to.written().saturating_sub(start));
            let old = old.start.saturating_sub(row.offset())..old.end.saturating_sub(row.offset());
            let new =
                if is_offload_binary(self.data, &bundle) { position } else { first_aligned_as(old.start, position) };
            self.to.write(&[Piece::Zeros(new.saturating_sub(position))])?;
            self.to.skip_until(bundle.offset);
            self.bundle_or_refusal(&bundle, None, observer)?;
            moved.push((old, new..self.to.written().saturating_sub(start)));
        }
        Ok(moved)
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
            let end = section.offset().saturating_add(section.len());
            let mut bundles =
                Bundles::new(section, container_of(section), Inflate::Whole).with_limits(self.run.job.limits);
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
        match self.bundle(bundle, room, observer) {
            Err(error) if error.is_refusal() && is_plain_wanted => {
                self.run.refusals.add(error);
                self.to.take_back()?;
                self.result.bundles += 1;
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
            self.to.write(&[Piece::Input(self.data.claimed(&bundle.range()?)?)])?;
            return self.count(bundle, bundle.stored_len()?, false, room);
        }
        if Magic::identify(bundle.beginning()) == Magic::FatBinary {
            self.note_replaced(false);
            return self.fatbin(bundle, new, room);
        }
        if is_offload_binary(self.data, bundle) {
            return self.offload_binary(bundle, room);
        }
        let kept = if new.is_some() { Some((0..bundle.entries.len()).collect()) } else { self.kept(bundle)? };
        let mut contents = kept.map(|kept: Vec<usize>| contents(path, bundle, &kept)).transpose()?;
        if let (Some((index, content)), Some(contents)) = (new, &mut contents) {
            // Its caller compares the result with the old file.
            contents.get_mut(index).into_iter().for_each(|replaced| replaced.1 = Content::InPlace(content));
        }
        let members = contents.as_ref().map(|contents| contents.iter().map(member).collect::<Vec<_>>());
        let plain = Plain::of(path, bundle, members.as_deref())?;
        let chosen = match new {
            Some(_) => self.keep_form(bundle, &plain, room, observer)?,
            None => self.choose(bundle, &plain, observer)?,
        };
        let is_now_compressed = bundle.compressed.is_none() && chosen.form == BundleForm::Compressed;
        self.note_replaced(is_now_compressed);
        let is_for_hip = bundle.entries.iter().filter_map(Entry::entry_id).any(|id| id.kind().is_hip());
        self.result.packed += usize::from(is_now_compressed && is_for_hip);
        ensure_it_ends(self.data, bundle, &plain, &chosen.form)?;
        self.ensure_room("bundle", bundle, chosen.len, room)?;
        self.write_form(bundle, &plain, &chosen)?;
        self.count(bundle, chosen.len, chosen.would_grow, room)
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
        let (path, before) = (self.data.path(), bundle.stored_len()?);
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(path, fault.clone()));
        }
        let kept = if new.is_some() { None } else { self.kept(bundle)? };
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
        self.ensure_room("fatbin", bundle, len, room)?;
        self.to.count(len)?;
        let is_same = kept.is_none() && len == before && !bundle.entries.is_empty();
        let would_grow = is_same && packing != Packing::Plain;
        self.count(bundle, len, would_grow, room)
    }

    /// Rewrites an offload binary, from which images may be removed. Without images nothing is left of it.
    fn offload_binary(&mut self, bundle: &Bundle<'_>, room: Option<u64>) -> Result<()> {
        // The images of a SYCLBIN file are parts of one another.
        let is_one = bundle
            .entries
            .iter()
            .filter_map(|entry| entry.image.as_ref())
            .any(|info| info.image_kind == ImageKind::SyclBin);
        let kept = if is_one { None } else { self.kept(bundle)? };
        self.result.uncompressed += usize::from(bundle.compressed.is_none());
        let Some(kept) = kept else {
            self.to.write(&[Piece::Input(self.data.claimed(&bundle.range()?)?)])?;
            return self.count(bundle, bundle.stored_len()?, false, room);
        };
        check_size(self.data.path(), bundle, kept.iter().copied())?;
        let contents = kept.iter().map(|&index| bundle.content(index)).collect::<Result<Vec<_>>>()?;
        let infos = kept.iter().map(|&index| bundle.entries.get(index)?.image.as_deref().cloned());
        let images = infos
            .zip(&contents)
            .map(|(info, content)| NewImage { info: info.unwrap_or_default(), content: content.as_slice() });
        let version = if bundle.compressed.is_some() { Version::V3 } else { Version::V2 };
        let pieces = offload_binary::plan(version, &images.collect::<Vec<_>>())?;
        self.to.write(&pieces)?;
        self.count(bundle, total_len(&pieces)?, false, room)
    }

    /// Fails if a bundle that must stay at its offset needs more than `room` bytes.
    fn ensure_room(&self, what: &str, bundle: &Bundle<'_>, needed: u64, room: Option<u64>) -> Result<()> {
        let Some(room) = room.filter(|&room| needed > room) else { return Ok(()) };
        let offset = bundle.offset;
        let reason = format!("the {what} at offset {offset} needs {needed} bytes, but has room for only {room}");
        let error = Error::refused(ErrorKind::Limit, self.data.path(), offset, reason);
        let is_stuck = Magic::identify(self.data.bytes()) == Magic::Pe && !pe::may_close(self.data.bytes());
        let hint = "other data follows the sections of this PE file, so that nothing moves: recompress it before that data is added";
        Err(if is_stuck { error.with_hint(hint) } else { error })
    }

    /// Chooses the form of a bundle.
    fn choose(&mut self, bundle: &Bundle<'_>, plain: &Plain<'_>, observer: &mut Observer<'_>) -> Result<ChosenForm> {
        let kept = (!plain.is_changed).then_some((BundleForm::AsItWas, bundle.stored_len()?));
        let plain_len = total_len(&plain.pieces)?;
        let Some(compression) = &self.run.job.compression else {
            let kept = kept.filter(|_| bundle.compressed.is_none());
            let (form, len) = kept.unwrap_or((BundleForm::Plain, plain_len));
            return Ok(ChosenForm { form, len, would_grow: false });
        };
        let deflated_len = self.deflate(bundle, plain, compression, observer)?;
        let may_be_plain = bundle.compressed.is_none() || !(plain.is_text || plain.has_tail);
        let forms = [
            kept,
            Some((BundleForm::Compressed, deflated_len)),
            may_be_plain.then_some((BundleForm::Plain, plain_len)),
        ];
        let smallest = forms.into_iter().flatten().min_by_key(|(_, len)| *len);
        let (form, len) = smallest.unwrap_or((BundleForm::Compressed, deflated_len));
        let would_grow = form == BundleForm::AsItWas && deflated_len > len;
        if form != BundleForm::Compressed {
            self.to.take_back()?;
        }
        Ok(ChosenForm { form, len, would_grow })
    }

    /// The form that a bundle had, or the other one if that does not fit.
    fn keep_form(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &Plain<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<ChosenForm> {
        let fits = |len: u64| room.is_none_or(|room| len <= room);
        let plain_len = total_len(&plain.pieces)?;
        let as_plain = ChosenForm { form: BundleForm::Plain, len: plain_len, would_grow: false };
        if bundle.compressed.is_none() && fits(plain_len) {
            return Ok(as_plain);
        }
        let len = self.deflate(bundle, plain, &self.run.job.compression.unwrap_or_default(), observer)?;
        if !fits(len) && fits(plain_len) && !plain.is_text && !plain.has_tail {
            self.to.take_back()?;
            return Ok(as_plain);
        }
        Ok(ChosenForm { form: BundleForm::Compressed, len, would_grow: false })
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

    fn write_form(&mut self, bundle: &Bundle<'_>, plain: &Plain<'_>, chosen: &ChosenForm) -> Result<()> {
        match chosen.form {
            BundleForm::AsItWas => self.to.write(&[Piece::Input(self.data.claimed(&bundle.range()?)?)]),
            BundleForm::Plain => self.to.write(&plain.pieces),
            BundleForm::Compressed => self.to.count(chosen.len),
        }
    }

    /// Counts a bundle that was written with `after` bytes, and leaves the part of its room that it does not need.
    fn count(&mut self, bundle: &Bundle<'_>, after: u64, would_grow: bool, room: Option<u64>) -> Result<()> {
        let (result, before) = (&mut self.result, bundle.stored_len()?);
        result.bundles += 1;
        result.unchanged += usize::from(would_grow);
        result.before += before;
        result.after += after;
        let Some(room) = room else {
            self.to.skip_until(bundle.range()?.end);
            return Ok(());
        };
        let hole = room.checked_sub(after).ok_or_else(|| Error::internal("a bundle is larger than its room"))?;
        result.holes += hole.min(before.saturating_sub(after));
        self.to.leave_room(hole)?;
        self.to.skip_until(bundle.offset.saturating_add(room));
        Ok(())
    }

    /// The indices of the code objects to keep; `None` if all are kept.
    fn kept(&mut self, bundle: &Bundle<'_>) -> Result<Option<Vec<usize>>> {
        let Chosen { kept, devices } = self.run.choice.choose(self.data.path(), bundle)?;
        self.left += devices;
        let dropped = bundle.entries.len() - kept.len();
        self.result.dropped += dropped;
        Ok((dropped > 0).then_some(kept))
    }

    /// Whether all code objects for devices were removed.
    pub(super) fn is_emptied(&self) -> bool {
        self.result.dropped > 0 && self.left == 0
    }

    /// Ends the file.
    pub(super) fn finish(self) -> Result<(Rewritten, Vec<Range<u64>>)> {
        let is_emptied = self.is_emptied();
        let (output, holes) = if self.result.bundles > 0 { self.to.finish()? } else { (self.to.output, Vec::new()) };
        Ok((Rewritten { output, result: self.result, is_emptied }, holes))
    }
}

/// Whether a bundle of the data is a fat object, which this job rejects: linkers need it as an object, and a rewritten
/// one would no longer be one.
pub(super) fn is_fat_object(data: Slice<'_>, bundle: &Bundle<'_>) -> Result<bool> {
    let is_other = Magic::identify(bundle.beginning()) == Magic::FatBinary || is_offload_binary(data, bundle);
    Ok(!is_other && Wide::form_of(bundle).with_path(data.path())? == Format::FatObject)
}

fn is_offload_binary(data: Slice<'_>, bundle: &Bundle<'_>) -> bool {
    tail(data.bytes(), bundle.offset).is_some_and(|data| Magic::identify(data) == Magic::OffloadBinary)
}

/// The container of the bundles that data begins with.
pub(super) fn container_of(data: Slice<'_>) -> &'static dyn Container {
    match Magic::identify(data.bytes()) {
        Magic::FatBinary => &Fatbin,
        Magic::OffloadBinary => BundleReader::PACKAGER.container,
        _ => &Wide,
    }
}
