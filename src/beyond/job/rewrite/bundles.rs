//! Writes the bundles of a file again, one after the other. A caller says how each bundle is rewritten.

use std::ops::Range;
use std::path::Path;

use super::form::{BundleForm, PlainBundle, first_aligned_as};
use super::linked_format::no_room_hint;
use super::progress::ProgressRange;
use super::{NO_PATH, Rewriter, unexpected_parts};
use crate::base::bytes::{bytes_in, is_zero, len_of, len_u64, tail, total};
use crate::base::codec::{Compression, Method};
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::base::io::piece::{Piece, total_len};
use crate::beyond::base::io::spooled;
use crate::beyond::container::entry::SearchFormat;
use crate::beyond::container::fatbin::Fatbin;
use crate::beyond::container::{Bundle, Magic, SearchBundles, SearchContainer};
use crate::beyond::parallel::{self, has_disk_space};
use crate::beyond::scan::{AnyBundle, Format};
use crate::llvm::container::offload_binary::{OffloadBinary, Version};
use crate::llvm::container::sequence::{Body, Inflate};
use crate::llvm::container::{Limits, compressed};

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

/// A bundle that is to be written again.
pub(crate) struct OldBundle<'r, C> {
    /// The bundle, with only its headers inflated.
    pub(crate) head: Bundle<'r>,
    /// The data from the start of the bundle on.
    data: Slice<'r>,
    limits: Limits,
    /// The number of bytes that the bundle may take at its offset, or `None` if the bundle and the data after it may
    /// move.
    pub(crate) room: Option<u64>,
    /// The decision about the bundle.
    pub(crate) choice: C,
}

impl<'r, C> OldBundle<'r, C> {
    /// Returns the bundle with all of its bytes if it is compressed, and `None` if [`head`](Self::head) has them.
    pub(crate) fn inflate(&self) -> Result<Option<Bundle<'r>>> {
        if self.head.whole().is_some() {
            return Ok(None);
        }
        let bundle = bundles_in(self.data, Inflate::Whole, self.limits).next().transpose()?;
        bundle.map(Some).ok_or_else(|| unexpected_parts(self.data.path(), "bundles"))
    }
}

/// How the bundles of a file are written again: decided on in order, made on all processors, and written in order.
pub(crate) trait RewriteBundles<'r> {
    /// The decision about a bundle, before its new form is made.
    type Choice: Send;
    /// The new form of a bundle.
    type Made: Send;

    /// Decides about a bundle, which is the next one.
    fn choose(&mut self, bundle: &Bundle<'r>) -> Result<Self::Choice>;

    /// The data that [`make`](Self::make) needs for any bundle.
    type Maker: Sync;

    /// Returns what [`make`](Self::make) needs, so that threads make bundles while this one writes others.
    fn maker(&self) -> Self::Maker;

    /// Makes the new form of a bundle.
    fn make(maker: &Self::Maker, old: &OldBundle<'r, Self::Choice>) -> Result<Self::Made>;

    /// Returns the memory and the space that a new form takes, in bytes.
    fn size_of(made: &Self::Made) -> u64;

    /// Writes the next bundle in its new form.
    fn write(
        &mut self,
        writer: &mut BundleWriter<'r>,
        old: OldBundle<'r, Self::Choice>,
        made: Result<Self::Made>,
    ) -> Result<()>;
}

/// The format of offload binaries. Its version matters only for writing.
static OFFLOAD_BINARY: SearchFormat<OffloadBinary> = SearchFormat(OffloadBinary { version: Version::V1 });

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
    pub(crate) fn rewrite_adjacent<R: RewriteBundles<'r>>(
        &mut self,
        data: Slice<'r>,
        limits: Limits,
        rewrite: &mut R,
    ) -> Result<MovedRanges> {
        let (mut moved, start) = (Vec::new(), self.to.written());
        let stay = false;
        self.rewrite_groups(data, limits, rewrite, stay, |writer, rewrite, old, made| {
            let (range, position) = (old.head.range()?, writer.to.written() - start);
            let range = range.start.saturating_sub(data.offset())..range.end.saturating_sub(data.offset());
            // Readers look for the next offload binary directly after the one before, without padding.
            let is_adjacent = is_offload_binary(writer.data, &old.head);
            let new = if is_adjacent { position } else { first_aligned_as(range.start, position) };
            writer.to.write(&[Piece::Zeros(new - position)])?;
            writer.to.skip_until(old.head.offset);
            rewrite.write(writer, old, made)?;
            moved.push((range, new..writer.to.written() - start));
            Ok(())
        })?;
        Ok(moved)
    }

    /// Reads the bundles at the start of `data`, makes them, and passes them to `write`, in order. They are read in groups,
    /// because a file may have any number of bundles, and no more is inflated than their headers. If bundles `stay` at
    /// their offsets, the room of each ends where the next one starts, or other data.
    fn rewrite_groups<R: RewriteBundles<'r>>(
        &mut self,
        data: Slice<'r>,
        limits: Limits,
        rewrite: &mut R,
        stay: bool,
        mut write: impl FnMut(&mut Self, &mut R, OldBundle<'r, R::Choice>, Result<R::Made>) -> Result<()>,
    ) -> Result<()> {
        let mut heads = Heads::new(self.data, data, limits, stay);
        loop {
            let (group, end) = heads.next_group(rewrite);
            // If an error ends the bundles, those before it are made first, because they may have errors too.
            make_all(group, rewrite, |rewrite, old, made| write(self, rewrite, old, made))?;
            if let Some(end) = end {
                return end;
            }
        }
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
        // At least one of the two is zero.
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
    pub(crate) fn rewrite_program<R: RewriteBundles<'r>>(
        &mut self,
        sections: Vec<Slice<'r>>,
        limits: Limits,
        rewrite: &mut R,
    ) -> Result<()> {
        for section in sections {
            let stay = true;
            self.rewrite_groups(section, limits, rewrite, stay, |writer, rewrite, old, made| {
                writer.to.copy_until(old.head.offset)?;
                rewrite.write(writer, old, made)
            })?;
        }
        Ok(())
    }

    /// Writes a bundle in a form, counts it, and leaves the rest of its room as a hole. Fails if the form needs more
    /// than `room` bytes.
    pub(crate) fn write_bundle(&mut self, bundle: &Bundle<'_>, form: BundleForm<'_>, room: Option<u64>) -> Result<()> {
        let (old, before) = (bundle.range()?, bundle.stored_len()?);
        let after = match form {
            BundleForm::AsItWas => before,
            BundleForm::New(pieces) => total_len(pieces)?,
        };
        if let Some(room) = room
            && after > room
        {
            return Err(self.no_room_error(bundle, after, room));
        }
        match form {
            BundleForm::AsItWas => self.to.write(&[Piece::Input(self.data.claimed(&old)?)])?,
            BundleForm::New(pieces) => self.to.write(pieces)?,
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

/// Reads the bundles of some data that are to be rewritten, one after another, and no more of them than their headers.
struct Heads<'r> {
    /// The file that has the data.
    file: Slice<'r>,
    data: Slice<'r>,
    limits: Limits,
    /// Whether bundles stay at their offsets.
    stay: bool,
    read: SearchBundles<'r>,
    /// The next bundle, if it was read to learn the room of the one before.
    next: Option<Bundle<'r>>,
    /// The end of the last bundle's room, once there are no more bundles.
    end: Option<u64>,
}

impl<'r> Heads<'r> {
    fn new(file: Slice<'r>, data: Slice<'r>, limits: Limits, stay: bool) -> Self {
        let read = bundles_in(data, Inflate::Headers, limits);
        Self { file, data, limits, stay, read, next: None, end: None }
    }

    /// Reads the next bundles, until they take [`HELD_MAX`] bytes of memory. Returns also how the bundles end: with an
    /// error, or after the last one. `None` if more bundles may follow.
    fn next_group<R: RewriteBundles<'r>>(
        &mut self,
        rewrite: &mut R,
    ) -> (Vec<OldBundle<'r, R::Choice>>, Option<Result<()>>) {
        let (mut group, mut held) = (Vec::new(), 0_u64);
        while held < HELD_MAX {
            match self.next_chosen(rewrite) {
                Ok(Some(old)) => {
                    held = held.saturating_add(held_by(&old.head));
                    group.push(old);
                }
                Ok(None) => return (group, Some(Ok(()))),
                Err(error) => return (group, Some(Err(error))),
            }
        }
        (group, None)
    }

    /// Reads the next bundle, and lets `rewrite` decide about it.
    fn next_chosen<R: RewriteBundles<'r>>(&mut self, rewrite: &mut R) -> Result<Option<OldBundle<'r, R::Choice>>> {
        let Some(head) = self.next.take().map_or_else(|| self.read_next(), |next| Ok(Some(next)))? else {
            return Ok(None);
        };
        let mut room = None;
        if self.stay {
            self.next = self.read_next()?;
            let end = self.next.as_ref().map_or(self.end, |next| Some(next.offset));
            room = end.map(|end| end.saturating_sub(head.offset));
        }
        let rest = self.data.tail(head.offset.saturating_sub(self.data.offset()));
        let data = rest.ok_or_else(|| unexpected_parts(self.data.path(), "bundles"))?;
        let choice = rewrite.choose(&head)?;
        Ok(Some(OldBundle { head, data, limits: self.limits, room, choice }))
    }

    /// Reads the next bundle. Ends before a fat object, which is copied with everything after it.
    fn read_next(&mut self) -> Result<Option<Bundle<'r>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        match self.read.next().transpose()? {
            Some(bundle) if is_fat_object(self.file, &bundle)? => self.end = Some(bundle.offset),
            Some(bundle) => return Ok(Some(bundle)),
            // Data that is not a bundle ends the room too.
            None => self.end = Some(self.read.stopped_at().unwrap_or(self.data.end())),
        }
        Ok(None)
    }
}

/// The memory in bytes that the bundles of a group take at most, beside the last one.
const HELD_MAX: u64 = 4 << 20;

/// Estimates the memory that a bundle takes until it is written, in bytes: what is inflated of it, and its entries.
fn held_by(bundle: &Bundle<'_>) -> u64 {
    const OF_BUNDLE: u64 = 1000;
    const OF_ENTRY: u64 = 200;
    let inflated = match &bundle.body {
        Body::Plain { .. } => 0,
        Body::Inflated { input, .. } => input.len(),
        Body::Stream { prefix, .. } => len_u64(prefix),
    };
    let entries = bundle.entries.iter().map(|entry| OF_ENTRY.saturating_add(len_u64(entry.id())));
    total(entries.chain([OF_BUNDLE, inflated]))
}

/// Makes the new forms of bundles on all processors, and passes them to `write`, in order.
fn make_all<'r, R: RewriteBundles<'r>>(
    bundles: Vec<OldBundle<'r, R::Choice>>,
    rewrite: &mut R,
    mut write: impl FnMut(&mut R, OldBundle<'r, R::Choice>, Result<R::Made>) -> Result<()>,
) -> Result<()> {
    let maker = rewrite.maker();
    let make = |old: OldBundle<'r, R::Choice>| {
        let made = R::make(&maker, &old);
        (old, made)
    };
    let mut write_all = |all: &mut dyn Iterator<Item = (OldBundle<'r, R::Choice>, Result<R::Made>)>| -> Result<()> {
        for (old, made) in all {
            let made = match made {
                // If the disk was full, it may have room now.
                Err(error) if error.io_error().is_some() => R::make(&maker, &old),
                made => made,
            };
            write(rewrite, old, made)?;
        }
        Ok(())
    };
    /// The inflated bundle, and the new one.
    const FILES_PER_BUNDLE: u64 = 2;
    if !has_disk_space(bundles.iter().map(|old| inflated_len(&old.head)), FILES_PER_BUNDLE) {
        return write_all(&mut bundles.into_iter().map(make));
    }
    let weight = |made: &Result<R::Made>| parallel::weight_of_len(made.as_ref().map_or(0, R::size_of));
    parallel::in_order(bundles, make, |(_, made)| weight(made), write_all)
}

/// The length of a bundle in bytes, inflated if it is compressed.
fn inflated_len(bundle: &Bundle<'_>) -> u64 {
    bundle.compressed.map_or(bundle.inflated_len, |recorded| recorded.inflated.max(bundle.inflated_len))
}

/// Compresses a bundle as [`deflate`] does. If the result is longer than `room`, compresses it again at higher levels,
/// then with the method that the old bundle had: at the level of the job, even a part of the code may need more room
/// than the old bundle took. Does not compress again if the bundle `has_other_form` that fits.
pub(crate) fn deflate_to_fit(
    bundle: &Bundle<'_>,
    plain: &PlainBundle<'_>,
    compression: &Compression,
    (room, has_other_form): (u64, bool),
) -> Result<Input> {
    let mut made = deflate(plain, compression)?;
    let old_method = bundle.compressed.map(|recorded| recorded.method).filter(|old| *old != compression.method);
    for method in [Some(compression.method), old_method].into_iter().flatten() {
        for &level in slow_levels(method) {
            let is_tried = method == compression.method && level <= compression.level;
            if made.len() > room && !has_other_form && !is_tried {
                made = deflate(plain, &Compression { method, level, ..*compression })?;
            }
        }
    }
    Ok(made)
}

/// Compresses a bundle.
fn deflate(plain: &PlainBundle<'_>, compression: &Compression) -> Result<Input> {
    spooled(Path::new(NO_PATH), |to| {
        const ANY_VERSION: Option<compressed::HeaderVersion> = None;
        compressed::write_to(&plain.pieces, compression, ANY_VERSION, to)
    })
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
