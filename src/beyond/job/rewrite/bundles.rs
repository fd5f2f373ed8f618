//! Writes the bundles of a file again, one after the other. A caller says how each bundle is rewritten.

use std::ops::Range;

use super::Rewriter;
use super::form::{BundleForm, PlainBundle, first_aligned_as};
use super::linked_format::no_room_hint;
use super::progress::{ProgressRange, scaled};
use crate::base::bytes::{bytes_in, is_zero, len_of, tail};
use crate::base::codec::{Compression, Method};
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::meter::Meter;
use crate::base::io::output::Output;
use crate::base::io::piece::{Piece, total_len};
use crate::beyond::container::entry::SearchFormat;
use crate::beyond::container::fatbin::Fatbin;
use crate::beyond::container::{Bundle, Magic, SearchBundles, SearchContainer};
use crate::beyond::scan::{AnyBundle, Format};
use crate::llvm::container::offload_binary::{HipNumber, OffloadBinary, Version};
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::{Limits, compressed};
use crate::llvm::event::{Event, Observer};

/// A file whose bundles are written again.
pub(crate) struct BundleWriter<'r> {
    pub(crate) data: Slice<'r>,
    pub(crate) to: Rewriter<'r>,
    pub(crate) progress: ProgressRange,
    pub(crate) written: WrittenBundles,
}

/// The numbers of bundles and bytes that were written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WrittenBundles {
    pub(crate) bundles: usize,
    /// The size of the old bundles in bytes.
    pub(crate) before: u64,
    /// The size of the new bundles in bytes.
    pub(crate) after: u64,
    /// The number of bytes that became holes.
    pub(crate) holes: u64,
}

/// Writes a bundle, into so many bytes if it has to stay at its offset.
pub(crate) type RewriteBundle<'w, 'r> = dyn FnMut(&mut BundleWriter<'r>, &Bundle<'_>, Option<u64>) -> Result<()> + 'w;

/// The format of offload binaries. Its fields matter only for writing.
static OFFLOAD_BINARY: SearchFormat<OffloadBinary> =
    SearchFormat(OffloadBinary { version: Version::V1, hip_number: HipNumber::Current });

/// The old and the new range of each of some adjacent bundles, counted from the start of the first one.
pub(crate) type MovedRanges = Vec<(Range<u64>, Range<u64>)>;

/// Returns the bundles at the start of some data.
pub(crate) fn bundles_in(data: Slice<'_>, inflate: Inflate, limits: Limits) -> SearchBundles<'_> {
    let container: &dyn SearchContainer = match Magic::identify(data.bytes()) {
        Magic::Container(Format::Fatbin) => &Fatbin,
        Magic::Container(Format::OffloadBinary) => &OFFLOAD_BINARY,
        _ => &AnyBundle,
    };
    SearchBundles::new(data, container, inflate).with_limits(limits)
}

impl<'r> BundleWriter<'r> {
    pub(crate) fn new(data: Slice<'r>, output: Output, progress: ProgressRange) -> Self {
        Self { data, to: Rewriter::new(data, output), progress, written: WrittenBundles::default() }
    }

    /// Rewrites the adjacent bundles at the start of `data`, which move together: each follows directly after the one
    /// before, except for the padding that its alignment needs. Returns the old and the new range of each, counted from
    /// the start of the first. Ends before a fat object, which is not rewritten.
    pub(crate) fn rewrite_adjacent(
        &mut self,
        data: Slice<'_>,
        limits: Limits,
        rewrite: &mut RewriteBundle<'_, 'r>,
    ) -> Result<MovedRanges> {
        let (mut moved, start) = (Vec::new(), self.to.written());
        let mut bundles = bundles_in(data, Inflate::Whole, limits);
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
            rewrite(self, &bundle, MAY_MOVE)?;
            moved.push((old, new..self.to.written() - start));
        }
        Ok(moved)
    }

    /// Writes the rest of an object's section, after its bundles were written. `old` is the range of the section in the
    /// old file.
    ///
    /// If nothing but zeros follows the bundles, these may be the hole that an earlier job left. The section then keeps
    /// its length if it can: shorter bundles make the hole larger, and longer bundles take a part of it.
    pub(crate) fn end_section(&mut self, moved: &MovedRanges, old: &Range<u64>) -> Result<()> {
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
            self.written.holes += shrinkage;
        }
        self.to.copy_until(old.end)
    }

    /// Rewrites the bundles in these sections of a program. Each bundle stays at its offset.
    pub(crate) fn rewrite_program(
        &mut self,
        sections: Vec<Slice<'_>>,
        limits: Limits,
        rewrite: &mut RewriteBundle<'_, 'r>,
    ) -> Result<()> {
        for section in sections {
            let section_end = section.end();
            let mut bundles = bundles_in(section, Inflate::Whole, limits);
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
                rewrite(self, &bundle, Some(room_end.saturating_sub(bundle.offset)))?;
            }
        }
        Ok(())
    }

    /// Compresses a bundle as [`deflate`](Self::deflate) does. If the result is longer than `room`, and no other form
    /// of the bundle fits, compresses it again at higher levels, then with the method that the old bundle had: at the
    /// level of the job, even a part of the code may need more room than the old bundle took.
    pub(crate) fn deflate_to_fit(
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
        let (progress, stored, len) = (self.progress, bundle.stored_len()?, self.data.len());
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
    pub(crate) fn write_bundle(&mut self, bundle: &Bundle<'_>, form: BundleForm<'_>, room: Option<u64>) -> Result<()> {
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
        self.written.bundles += 1;
        self.written.before += before;
        self.written.after += after;
        let end = match room {
            None => old.end,
            Some(room) => {
                let hole = room - after;
                // Zeros that followed the old bundle are no new hole.
                self.written.holes += hole.min(before.saturating_sub(after));
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
        match no_room_hint(self.data) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
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

/// Returns whether a bundle of the data is a fat object. Linkers need it as an object, which a rewritten bundle would
/// no longer be.
pub(crate) fn is_fat_object(data: Slice<'_>, bundle: &Bundle<'_>) -> Result<bool> {
    let is_other =
        Magic::identify(bundle.beginning()) == Magic::Container(Format::Fatbin) || is_offload_binary(data, bundle);
    Ok(!is_other && AnyBundle::format_of_bundle(bundle).with_path(data.path())? == Format::FatObject)
}

/// Returns whether the bytes of a bundle in the file are an offload binary, which may be compressed.
pub(crate) fn is_offload_binary(data: Slice<'_>, bundle: &Bundle<'_>) -> bool {
    match tail(data.bytes(), bundle.offset) {
        Some(data) => Magic::identify(data) == Magic::Container(Format::OffloadBinary),
        None => false,
    }
}
