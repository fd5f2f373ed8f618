//! Recompresses the bundles of a file, and removes code objects from them.

use super::Recompressed;
use super::pick::PickedBundle;
use super::run::Recompression;
use crate::base::error::{Error, Result};
use crate::base::io::piece::total_len;
use crate::beyond::container::fatbin::{self, CodePacking};
use crate::beyond::container::{Bundle, Magic};
use crate::beyond::job::rewrite::Rewriter;
use crate::beyond::job::rewrite::bundles::{BundleWriter, WrittenBundles, is_offload_binary};
use crate::beyond::job::rewrite::form::{BundleForm, PlainBundle, as_member, ensure_end_is_known, read_contents};
use crate::beyond::job::size_limit::ensure_size_limit;
use crate::beyond::scan::Format;
use crate::llvm::container::offload_binary::{self, ImageKind, NewImage, Version};
use crate::llvm::event::Observer;

/// The recompression of the bundles of a file.
pub(super) struct FileRecompression<'r, 'j> {
    run: &'r mut Recompression<'j>,
    /// The numbers for this file, without those of the written bundles.
    result: Recompressed,
    /// The number of code objects for devices that are kept.
    kept_devices: usize,
}

impl<'r, 'j> FileRecompression<'r, 'j> {
    pub(super) fn new(run: &'r mut Recompression<'j>) -> Self {
        Self { run, result: Recompressed::default(), kept_devices: 0 }
    }

    /// Rewrites a bundle. A job that writes bundles without compression keeps a bundle that cannot be written so, and
    /// notes the reason: one error at the end reports all of these bundles. `room` is the number of bytes that the
    /// bundle may take at its offset, or `None` if the bundle and the data after it may move.
    pub(super) fn rewrite_or_keep_bundle(
        &mut self,
        writer: &mut BundleWriter<'_>,
        bundle: &Bundle<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let dropped = self.result.dropped;
        match self.rewrite_bundle(writer, bundle, room, observer) {
            Err(error) if error.is_refusal() && self.run.job.compression.is_none() => {
                self.run.refusals.add(error);
                // Before the error, bytes of the new bundle may have been written, and code objects counted as dropped.
                // The old bundle is copied in place of it.
                writer.to.truncate_to_counted()?;
                writer.written.bundles += 1;
                self.result.dropped = dropped;
                self.run.kept.remove(&bundle.offset);
                writer.to.copy_until(bundle.range()?.end)
            }
            rewritten => rewritten,
        }
    }

    /// Rewrites a bundle, into `room` bytes if it must stay at its offset.
    fn rewrite_bundle(
        &mut self,
        writer: &mut BundleWriter<'_>,
        bundle: &Bundle<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let path = writer.data.path();
        writer.progress.report(bundle.offset, writer.data.len(), observer);
        // Fails if the job has read more bundles than a search may.
        self.run.take_bundle(writer.data, bundle)?;
        if Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) {
            return self.rewrite_fatbin(writer, bundle, room);
        }
        if is_offload_binary(writer.data, bundle) {
            return self.rewrite_offload_binary(writer, bundle, room);
        }
        let contents = match self.choose_kept(writer, bundle)? {
            Some(kept) => Some(read_contents(path, bundle, &kept)?),
            None => None,
        };
        let members = contents.as_ref().map(|contents| contents.iter().map(as_member).collect::<Vec<_>>());
        let plain = PlainBundle::new(path, bundle, members.as_deref())?;
        let form = self.choose_form(writer, bundle, &plain, room, observer)?;
        let is_now_compressed = bundle.compressed.is_none() && matches!(form, BundleForm::Written(_));
        // Old HIP runtimes do not read compressed bundles, so a note tells the user how many there are.
        let is_for_hip = bundle.entries.iter().filter_map(|entry| entry.entry.entry_id()).any(|id| id.kind().is_hip());
        self.result.packed += usize::from(is_now_compressed && is_for_hip);
        ensure_end_is_known(writer.data, bundle, &plain, &form, room)?;
        writer.write_bundle(bundle, form, room)
    }

    /// Rewrites a fatbin, into `room` bytes if it must stay at its offset. Its code objects are compressed one by one,
    /// so the fatbin itself stays plain.
    fn rewrite_fatbin(&mut self, writer: &mut BundleWriter<'_>, bundle: &Bundle<'_>, room: Option<u64>) -> Result<()> {
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(writer.data.path(), fault.clone()));
        }
        let kept = self.choose_kept(writer, bundle)?;
        let packing = match &self.run.job.compression {
            Some(compression) => CodePacking::Smallest { codec: self.run.job.fatbin_codec, level: compression.level },
            None => CodePacking::Plain,
        };
        let data = writer.data.claimed(&bundle.range()?)?;
        let (limit, to) = (self.run.job.limits.inflated, &mut writer.to.output.writer()?);
        let len = fatbin::rewrite(data, |index| is_kept(kept.as_deref(), index), packing, limit, to)?;
        // A code object never becomes larger, so none became smaller if the length is the same.
        let is_same = kept.is_none() && len == bundle.stored_len()? && !bundle.entries.is_empty();
        // Without compression, nothing was expected to become smaller.
        self.result.unchanged += usize::from(is_same && packing != CodePacking::Plain);
        writer.write_bundle(bundle, BundleForm::Written(len), room)
    }

    /// Rewrites an offload binary without the images that are removed. Copies it if no image is removed, and writes
    /// no bytes if no image is left.
    fn rewrite_offload_binary(
        &mut self,
        writer: &mut BundleWriter<'_>,
        bundle: &Bundle<'_>,
        room: Option<u64>,
    ) -> Result<()> {
        // The images of a SYCLBIN file need one another, so none of them is removed.
        let mut infos = bundle.entries.iter().filter_map(|entry| entry.entry.image.as_ref());
        let is_sycl_bin = infos.any(|info| info.image_kind == ImageKind::SyclBin);
        let kept = if is_sycl_bin { None } else { self.choose_kept(writer, bundle)? };
        // This job does not compress offload binaries. The count is for the advice to pack them again.
        self.result.uncompressed += usize::from(bundle.compressed.is_none());
        let Some(kept) = kept else { return writer.write_bundle(bundle, BundleForm::AsItWas, room) };
        ensure_size_limit(writer.data.path(), bundle, kept.iter().copied())?;
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
        writer.write_bundle(bundle, BundleForm::New(&pieces), room)
    }

    /// Chooses the smallest form of a bundle, or the first one in the list of [`Recompress`](super::Recompress) if
    /// several have the same size. The compressed form is written to the output to learn its length, and removed again
    /// if another form is chosen.
    fn choose_form<'p>(
        &mut self,
        writer: &mut BundleWriter<'_>,
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
        let deflated_len = writer.deflate_to_fit(bundle, plain, compression, (room, has_other_form), observer)?;
        let least = old_len.min(deflated_len).min(plain_len);
        if least == deflated_len && least != old_len {
            return Ok(BundleForm::Written(deflated_len));
        }
        writer.to.truncate_to_counted()?;
        if least != old_len {
            return Ok(as_plain);
        }
        self.result.unchanged += usize::from(deflated_len > old_len);
        Ok(BundleForm::AsItWas)
    }

    /// Returns the indices of the code objects to keep, or `None` if all are kept. Counts the others as dropped.
    fn choose_kept(&mut self, writer: &BundleWriter<'_>, bundle: &Bundle<'_>) -> Result<Option<Vec<usize>>> {
        let Some(PickedBundle { kept, device_count, .. }) = self.run.take_picked(writer.data, bundle)? else {
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
    pub(super) fn finish<'d>(self, writer: BundleWriter<'d>) -> (Rewriter<'d>, Recompressed) {
        let WrittenBundles { bundles, before, after, holes } = writer.written;
        let emptied = usize::from(self.result.dropped > 0 && self.kept_devices == 0);
        (writer.to, Recompressed { bundles, before, after, holes, emptied, ..self.result })
    }
}

/// Returns whether the code object with an index is kept. `kept` has sorted indices, or is `None` if all are kept.
fn is_kept(kept: Option<&[usize]>, index: usize) -> bool {
    match kept {
        Some(kept) => kept.binary_search(&index).is_ok(),
        None => true,
    }
}
