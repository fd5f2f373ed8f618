//! Recompresses the bundles of a file, and removes code objects from them.

use super::pick::PickedBundle;
use super::run::Recompression;
use super::{Recompress, Recompressed};
use crate::base::error::{Error, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::piece::{Piece, total_len};
use crate::beyond::base::io::spooled;
use crate::beyond::container::fatbin::{self, CodePacking};
use crate::beyond::container::{Bundle, Magic};
use crate::beyond::job::event::Observer;
use crate::beyond::job::rewrite::Rewriter;
use crate::beyond::job::rewrite::bundles::{
    BundleWriter, OldBundle, RewriteBundles, WrittenBundles, deflate_to_fit, is_offload_binary,
};
use crate::beyond::job::rewrite::form::{BundleForm, PlainBundle, as_member, ensure_end_is_known, read_contents};
use crate::beyond::job::size_limit::ensure_size_limit;
use crate::beyond::scan::Format;
use crate::llvm::container::offload_binary::{self, ImageKind, NewImage, Version};

/// The recompression of the bundles of a file.
pub(super) struct FileRecompression<'r, 'j, 'o> {
    run: &'r mut Recompression<'j>,
    data: Slice<'r>,
    observer: &'r mut Observer<'o>,
    /// The numbers for this file, without those of the written bundles.
    result: Recompressed,
    /// The number of code objects for devices that are kept.
    kept_devices: usize,
}

/// The new form of a bundle.
pub(super) enum NewForm<'d> {
    /// The old bytes.
    AsItWas {
        /// Whether a compressed form was made that would have been larger.
        would_not_shrink: bool,
    },
    /// A fatbin, or a compressed bundle.
    Made(Box<Input>),
    /// Not compressed, with the inflated bundle, or `None` if the old one is not compressed. The header and the order
    /// of the code objects are made only when this form is written.
    Plain(Option<Box<Bundle<'d>>>),
}

impl<'r, 'j, 'o> FileRecompression<'r, 'j, 'o> {
    /// Starts with the bundles of a file.
    pub(super) fn new(run: &'r mut Recompression<'j>, data: Slice<'r>, observer: &'r mut Observer<'o>) -> Self {
        Self { run, data, observer, result: Recompressed::default(), kept_devices: 0 }
    }

    /// Returns the written file and its numbers. A file that lost all code objects for devices counts as emptied.
    pub(super) fn finish<'d>(self, writer: BundleWriter<'d>) -> (Rewriter<'d>, Recompressed) {
        let WrittenBundles { bundles, before, after, holes } = writer.written;
        let emptied = usize::from(self.result.dropped > 0 && self.kept_devices == 0);
        (writer.to, Recompressed { bundles, before, after, holes, emptied, ..self.result })
    }

    /// Writes a bundle in its new form, and counts it.
    fn write_new(
        &mut self,
        writer: &mut BundleWriter<'r>,
        old: &OldBundle<'r, Option<PickedBundle>>,
        form: NewForm<'r>,
    ) -> Result<()> {
        self.count(old, &form, is_offload_binary(writer.data, &old.head))?;
        let (bundle, kept) = (&old.head, kept_subset(old));
        match form {
            NewForm::AsItWas { .. } => writer.write_bundle(bundle, BundleForm::AsItWas, old.room)?,
            NewForm::Made(made) => {
                writer.write_bundle(bundle, BundleForm::New(&[Piece::Input(made.as_slice())]), old.room)?;
            }
            NewForm::Plain(inflated) => {
                let whole = inflated.as_deref().unwrap_or(bundle);
                match kept {
                    Some(kept) if is_offload_binary(writer.data, bundle) => {
                        write_images(writer, (bundle, whole), kept, old.room)?;
                    }
                    _ => with_plain(writer.data, whole, kept, |plain| {
                        writer.write_bundle(bundle, BundleForm::New(&plain.pieces), old.room)
                    })?,
                }
            }
        }
        if let Some(kept) = kept {
            self.run.kept.insert(bundle.offset, kept.to_vec());
        }
        Ok(())
    }

    /// Counts a bundle that is written in a form.
    fn count(
        &mut self,
        old: &OldBundle<'r, Option<PickedBundle>>,
        form: &NewForm<'r>,
        is_offload_binary: bool,
    ) -> Result<()> {
        let bundle = &old.head;
        let is_compressed = bundle.compressed.is_some();
        // This job does not compress offload binaries. The count is for the advice to pack them again.
        self.result.uncompressed += usize::from(is_offload_binary && !is_compressed);
        match form {
            NewForm::AsItWas { would_not_shrink } => self.result.unchanged += usize::from(*would_not_shrink),
            NewForm::Made(made) if is_fatbin(bundle) => {
                // A code object never becomes larger, so none became smaller if the length is the same. Without
                // compression, nothing was expected to become smaller.
                let is_same = kept_subset(old).is_none() && made.len() == bundle.stored_len()?;
                let would_not_shrink = is_same && !bundle.entries.is_empty() && self.run.job.compression.is_some();
                self.result.unchanged += usize::from(would_not_shrink);
            }
            NewForm::Made(_) => {
                // Old HIP runtimes do not read compressed bundles, so a note tells the user how many there are.
                let mut ids = bundle.entries.iter().filter_map(|entry| entry.entry.entry_id());
                self.result.packed += usize::from(!is_compressed && ids.any(|id| id.kind().is_hip()));
            }
            NewForm::Plain(_) => {}
        }
        if let Some(PickedBundle { kept, device_count, .. }) = &old.choice {
            self.kept_devices += device_count;
            self.result.dropped += bundle.entries.len() - kept.len();
        }
        Ok(())
    }
}

impl<'r, 'j> RewriteBundles<'r> for FileRecompression<'r, 'j, '_> {
    type Choice = Option<PickedBundle>;
    type Maker = (&'j Recompress, Slice<'r>);
    type Made = NewForm<'r>;

    fn choose(&mut self, bundle: &Bundle<'r>) -> Result<Self::Choice> {
        // Fails if the job has read more bundles than a search may.
        self.run.take_bundle(self.data, bundle)?;
        // The images of a SYCLBIN file need one another, so none of them is removed.
        let mut infos = bundle.entries.iter().filter_map(|entry| entry.entry.image.as_ref());
        if is_offload_binary(self.data, bundle) && infos.any(|info| info.image_kind == ImageKind::SyclBin) {
            return Ok(None);
        }
        self.run.take_picked(self.data, bundle)
    }

    fn maker(&self) -> Self::Maker {
        (self.run.job, self.data)
    }

    fn make((job, data): &Self::Maker, old: &OldBundle<'r, Self::Choice>) -> Result<NewForm<'r>> {
        make(job, *data, old)
    }

    fn size_of(made: &NewForm<'r>) -> u64 {
        match made {
            NewForm::AsItWas { .. } | NewForm::Plain(None) => 0,
            NewForm::Made(made) => made.len(),
            NewForm::Plain(Some(inflated)) => inflated.inflated_len,
        }
    }

    /// Writes a bundle. A job that writes bundles without compression keeps a bundle that cannot be written so, and notes
    /// the reason: one error at the end reports all of these bundles.
    fn write(
        &mut self,
        writer: &mut BundleWriter<'r>,
        old: OldBundle<'r, Self::Choice>,
        made: Result<NewForm<'r>>,
    ) -> Result<()> {
        writer.progress.report(old.head.offset, writer.data.len(), self.observer);
        match made.and_then(|form| self.write_new(writer, &old, form)) {
            Err(error) if error.is_refusal() && self.run.job.compression.is_none() => {
                self.run.refusals.add(error);
                writer.written.bundles += 1;
                writer.to.copy_until(old.head.range()?.end)
            }
            written => written,
        }
    }
}

/// Makes the new form of a bundle.
fn make<'d>(job: &Recompress, data: Slice<'d>, old: &OldBundle<'d, Option<PickedBundle>>) -> Result<NewForm<'d>> {
    let kept = kept_subset(old);
    if is_fatbin(&old.head) {
        return make_fatbin(job, data, &old.head, kept);
    }
    let inflated = old.inflate()?.map(Box::new);
    if is_offload_binary(data, &old.head) {
        return Ok(if kept.is_some() {
            NewForm::Plain(inflated)
        } else {
            NewForm::AsItWas { would_not_shrink: false }
        });
    }
    let whole = inflated.as_deref().unwrap_or(&old.head);
    let form = with_plain(data, whole, kept, |plain| choose_form(job, data, (whole, plain), old.room))?;
    Ok(match form {
        NewForm::Plain(_) => NewForm::Plain(inflated),
        form => form,
    })
}

/// Makes a fatbin. Its code objects are compressed one by one, so the fatbin itself stays plain.
fn make_fatbin<'d>(
    job: &Recompress,
    data: Slice<'d>,
    bundle: &Bundle<'d>,
    kept: Option<&[usize]>,
) -> Result<NewForm<'d>> {
    if let Some(fault) = bundle.faults.first() {
        return Err(Error::malformed(data.path(), fault.clone()));
    }
    let packing = match &job.compression {
        Some(compression) => CodePacking::Smallest { codec: job.fatbin_codec, level: compression.level },
        None => CodePacking::Plain,
    };
    let fatbin = data.claimed(&bundle.range()?)?;
    let is_kept = |index| kept.is_none_or(|kept| kept.binary_search(&index).is_ok());
    let made = spooled(data.path(), |to| fatbin::rewrite(fatbin, is_kept, packing, job.limits.inflated, to))?;
    Ok(NewForm::Made(Box::new(made)))
}

/// Chooses the smallest form of a bundle, or the first one in the list of [`Recompress`] if several have the same size.
/// `plain` is the bundle without compression, and `room` the number of bytes that it may take at its offset.
fn choose_form<'d>(
    job: &Recompress,
    data: Slice<'_>,
    (bundle, plain): (&Bundle<'_>, &PlainBundle<'_>),
    room: Option<u64>,
) -> Result<NewForm<'d>> {
    // The caller puts the inflated bundle into this form.
    const AS_PLAIN: NewForm<'_> = NewForm::Plain(None);
    let Some(compression) = &job.compression else {
        if !plain.is_changed && bundle.compressed.is_none() {
            return Ok(NewForm::AsItWas { would_not_shrink: false });
        }
        ensure_end_is_known(data, bundle, plain, room)?;
        return Ok(AS_PLAIN);
    };
    // Without the header of a compressed bundle, readers would not find the end of a text bundle, or of a bundle with
    // other data after it.
    let may_be_plain = bundle.compressed.is_none() || !(plain.is_text || plain.has_tail);
    // A form that may not be chosen counts as longer than any other.
    let plain_len = if may_be_plain { total_len(&plain.pieces)? } else { u64::MAX };
    let old_len = if plain.is_changed { u64::MAX } else { bundle.stored_len()? };
    let most = room.unwrap_or(u64::MAX);
    let has_other_form = plain_len.min(old_len) <= most;
    let deflated = deflate_to_fit(bundle, plain, compression, (most, has_other_form))?;
    let least = old_len.min(deflated.len()).min(plain_len);
    if least == old_len {
        return Ok(NewForm::AsItWas { would_not_shrink: deflated.len() > old_len });
    }
    if least == deflated.len() {
        return Ok(NewForm::Made(Box::new(deflated)));
    }
    ensure_end_is_known(data, bundle, plain, room)?;
    Ok(AS_PLAIN)
}

/// Calls `with` with the plain form of a bundle, which keeps only the code objects in `kept`, or all if it is `None`.
fn with_plain<T>(
    data: Slice<'_>,
    bundle: &Bundle<'_>,
    kept: Option<&[usize]>,
    with: impl FnOnce(&PlainBundle<'_>) -> Result<T>,
) -> Result<T> {
    let contents = match kept {
        Some(kept) => Some(read_contents(data.path(), bundle, kept)?),
        None => None,
    };
    let members = contents.as_ref().map(|contents| contents.iter().map(as_member).collect::<Vec<_>>());
    with(&PlainBundle::new(data.path(), bundle, members.as_deref())?)
}

/// Writes an offload binary with the images in `kept`, or no bytes if no image is left. `whole` is the bundle with all of
/// its bytes.
fn write_images<'r>(
    writer: &mut BundleWriter<'r>,
    (bundle, whole): (&Bundle<'r>, &Bundle<'r>),
    kept: &[usize],
    room: Option<u64>,
) -> Result<()> {
    ensure_size_limit(writer.data.path(), whole, kept.iter().copied())?;
    let contents = kept.iter().map(|&index| whole.content(index)).collect::<Result<Vec<_>>>()?;
    let mut images = Vec::new();
    for (&index, content) in kept.iter().zip(&contents) {
        let info = whole.entries.get(index).and_then(|entry| entry.entry.image.as_deref());
        images.push(NewImage { info: info.cloned().unwrap_or_default(), content: content.as_slice() });
    }
    // Compression came with version 3, so readers of a compressed offload binary know it. More readers know version 2.
    let version = if bundle.compressed.is_some() { Version::V3 } else { Version::V2 };
    let pieces = offload_binary::plan(version, &images)?;
    writer.write_bundle(bundle, BundleForm::New(&pieces), room)
}

fn is_fatbin(bundle: &Bundle<'_>) -> bool {
    Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin)
}

/// Returns the sorted indices of the code objects to keep in a bundle that loses some, or `None` if all are kept.
fn kept_subset<'c>(old: &'c OldBundle<'_, Option<PickedBundle>>) -> Option<&'c [usize]> {
    let picked = old.choice.as_ref()?;
    if picked.kept.len() < old.head.entries.len() { Some(&picked.kept) } else { None }
}
