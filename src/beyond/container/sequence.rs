//! Walks the bundles that a search finds, and reads their code objects.
//!
//! The walk is that of LLVM's tools ([`sequence`]). Added are fillers between bundles, rules for their positions, code
//! objects that are compressed on their own, and bundles that another thread has inflated ahead of the walk.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::entry::SearchEntry;
use super::packed::LastInflated;
use crate::base::bytes::len_of;
use crate::base::codec::Method;
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::base::io::piece::{Sink, Writer};
use crate::llvm::container::sequence::{self, Body, Inflate, WHOLE_MAX};
use crate::llvm::container::stream::{Compressed, Inflation, Recorded};
use crate::llvm::container::{Container, Contents, Limits};

/// A bundle that a search finds.
pub(crate) type Bundle<'a> = sequence::Bundle<'a, SearchEntry>;

/// A bundle format as a search reads it.
pub trait SearchContainer: Container<Entry = SearchEntry> {
    /// Returns the fault of a bundle that begins at a position where its runtime would not look for it, or `None` if
    /// the position is valid. `position` counts from the first bundle, `offset` from the start of the file.
    fn misplaced(&self, _position: u64, _offset: u64) -> Option<Malformed> {
        None
    }

    /// Returns the length of the filler at the start of `data`, or 0 without a filler. A filler is text that some
    /// bundler writes between bundles, besides the usual zeros.
    fn filler_len(&self, _data: &[u8]) -> u64 {
        0
    }
}

/// The code object of an entry.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// Borrowed from its bundle.
    InPlace(Slice<'a>),
    /// Assembled from parts.
    Restored(Input),
    /// In this range of inflated bytes.
    Inflated(Rc<Input>, Range<u64>),
}

impl Content<'_> {
    /// The whole code object.
    pub(crate) fn as_slice(&self) -> Slice<'_> {
        match self {
            Self::InPlace(slice) => *slice,
            Self::Restored(input) => input.as_slice(),
            // The range was checked when this value was made, so the whole input is never returned instead.
            Self::Inflated(input, range) => input.slice(range.start, len_of(range)).unwrap_or_else(|| input.as_slice()),
        }
    }
}

impl<'a> Bundle<'a> {
    /// A bundle at the start of `data` that is not compressed as a whole. Each of its code objects may be compressed on
    /// its own, and is inflated within `limits`.
    pub(crate) fn plain_within(data: Slice<'a>, contents: Contents<SearchEntry>, limits: Limits) -> Self {
        let mut bundle = Self::plain(data, contents);
        bundle.limit(limits);
        bundle
    }

    /// Sets the limits for inflating the code objects that are compressed on their own.
    fn limit(&mut self, limits: Limits) {
        for packed in self.entries.iter_mut().filter_map(|entry| entry.packed.as_mut()) {
            packed.limit = limits.inflated;
        }
    }

    /// Copies the code objects of some entries (given by their index) to sinks. A compressed bundle is always inflated
    /// to its end and checked.
    pub(crate) fn extract<S: Sink>(&self, wanted: &mut [(usize, &mut S)]) -> Result<()> {
        match &self.body {
            Body::Plain { data, .. } => self.copy_entries(*data, wanted),
            Body::Inflated { input, .. } => self.copy_entries(input.as_slice(), wanted),
            Body::Stream { compressed, .. } => self.inflate_entries(compressed, wanted),
        }
    }

    /// Writes the code object of an entry (given by its index) to `out`. A compressed bundle is inflated to its end,
    /// because its hash covers all of it: the output is valid only if this succeeds.
    ///
    /// # Errors
    /// [`Usage`](crate::ErrorKind::Usage) if the entry does not exist, [`Malformed`](crate::ErrorKind::Malformed) if
    /// the bundle is broken, [`Io`](crate::ErrorKind::Io) on the path `-` if `out` fails.
    pub fn write_to(&self, index: usize, out: &mut dyn io::Write) -> Result<()> {
        if index >= self.entries.len() {
            return Err(Error::usage("the bundle has no such entry"));
        }
        self.extract(&mut [(index, &mut Writer::new(out))])
    }

    /// The code object of an entry (given by its index): borrowed from the file if it is contiguous there, otherwise
    /// restored, or inflated and checked as in [`write_to`](Self::write_to).
    ///
    /// # Errors
    /// The errors of [`write_to`](Self::write_to).
    pub fn bytes(&self, index: usize) -> Result<Cow<'a, [u8]>> {
        if let Some(slice) = self.in_place(index) {
            return Ok(Cow::Borrowed(slice.bytes()));
        }
        let mut bytes = Vec::new();
        self.write_to(index, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// Returns the bytes of the whole bundle, or `None` if the bundle is compressed and was not inflated as a whole.
    pub(crate) fn whole(&self) -> Option<Slice<'_>> {
        match &self.body {
            Body::Plain { data, stored_len } => data.slice(0, *stored_len),
            Body::Inflated { input, .. } => Some(input.as_slice()),
            Body::Stream { .. } => None,
        }
    }

    /// Inflates and checks all bytes of a compressed bundle. Returns `None` for a plain bundle, and for a compressed
    /// one that was already inflated as a whole.
    ///
    /// # Errors
    /// The errors of inflating the stream.
    pub(crate) fn inflate_whole(&self) -> Result<Option<Input>> {
        let Body::Stream { compressed, .. } = &self.body else { return Ok(None) };
        let (input, _) = compressed.inflate_whole()?;
        Ok(Some(input))
    }

    /// Copies code objects from `data`, the (inflated) bundle.
    fn copy_entries<S: Sink>(&self, data: Slice<'_>, wanted: &mut [(usize, &mut S)]) -> Result<()> {
        // Code objects that are compressed together are inflated once, and kept for the next entry.
        let mut kept = LastInflated::default();
        for (index, output) in wanted {
            self.entry(*index)?.copy(data, &mut kept, *output)?;
        }
        Ok(())
    }

    /// Reads the code object of an entry (given by its index).
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) unless the bundle is plain or was inflated as a whole, and
    /// the errors of reading the code object.
    pub(crate) fn content(&self, index: usize) -> Result<Content<'_>> {
        self.content_after(index, &mut LastInflated::default())
    }

    /// Like [`content`](Self::content), for a caller that reads several entries one after another. `kept` is the
    /// memory from one entry to the next: code objects that are compressed together are inflated once.
    pub(crate) fn content_after(&self, index: usize, kept: &mut LastInflated) -> Result<Content<'_>> {
        let data = match &self.body {
            Body::Plain { data, .. } => *data,
            Body::Inflated { input, .. } => input.as_slice(),
            Body::Stream { .. } => return Err(Error::internal("the bundle is not inflated")),
        };
        let entry = self.entry(index)?;
        if let Some((inflated, range)) = entry.inflated(data, kept)? {
            return Ok(Content::Inflated(inflated, range));
        }
        match entry.range() {
            Some(range) => data.claimed(range).map(Content::InPlace),
            None => Ok(Content::Restored(copy_to_input(data, entry, kept)?)),
        }
    }

    /// Returns the data from the start of a plain bundle, perhaps beyond its end, or `None` for a compressed bundle.
    pub(crate) fn plain_data(&self) -> Option<Slice<'a>> {
        match &self.body {
            Body::Plain { data, .. } => Some(*data),
            Body::Inflated { .. } | Body::Stream { .. } => None,
        }
    }

    /// Whether the bundle was compressed and is inflated as a whole.
    pub(crate) fn is_inflated(&self) -> bool {
        matches!(self.body, Body::Inflated { .. })
    }
}

/// Copies a code object that is not one range of `data`, its bundle, so that it can be read as one input. A large one
/// goes into a temporary file.
fn copy_to_input(data: Slice<'_>, entry: &SearchEntry, kept: &mut LastInflated) -> Result<Input> {
    if entry.size() <= WHOLE_MAX {
        let mut bytes = Vec::new();
        entry.copy(data, kept, &mut bytes)?;
        return Input::spool_copy(data.path(), &bytes).with_path(data.path());
    }
    let mut output = Output::temporary()?;
    entry.copy(data, kept, &mut output)?;
    let mut input = output.into_input(data.path())?;
    // A caller may keep more code objects than a process may have open files. The mapping stays.
    input.close();
    Ok(input)
}

impl Recorded {
    /// Whether the stream has to be inflated to find its end, because nothing records its length. A frame of zstd at
    /// least records the lengths of its blocks, a stream of zlib does not.
    pub(crate) fn end_needs_inflating(&self) -> bool {
        self.total.is_none() && self.method == Method::Zlib
    }
}

/// The bundles of a file that is searched, as [`sequence::Bundles`].
pub struct SearchBundles<'a> {
    walk: sequence::Bundles<'a, SearchEntry>,
    container: &'a dyn SearchContainer,
    /// The inflated size that the header of the last bundle claims, or `None` if that bundle is not compressed.
    claimed: Option<u64>,
    /// The next bundle that another thread has inflated ahead of the walk, with its offset.
    ready: Option<(u64, Inflated)>,
}

/// A compressed bundle that was inflated as a whole, or the error of inflating it.
pub(crate) type Inflated = Result<(Input, Inflation)>;

/// The maximum number of compressed bundles whose headers are read ahead. It bounds the time and the memory that this
/// takes before the first bundle is reported.
const AHEAD_MAX: usize = 4096;

/// Finds the compressed bundles at the start of `data` that a walk will inflate as a whole, so that other threads can
/// inflate them ahead. Stops at the first bundle that is plain, broken, or without a recorded end. Errors are not
/// reported, because the walk meets them again.
pub(crate) fn find_inflated_whole<'a>(
    data: Slice<'a>,
    container: &'a dyn SearchContainer,
    inflate: Inflate,
    limits: Limits,
) -> Vec<Compressed<'a>> {
    let bundles = SearchBundles::new(data, container, inflate);
    let (mut to_inflate, mut position) = (Vec::new(), 0);
    for _ in 0..AHEAD_MAX {
        let Some(rest) = bundles.walk.rest(position) else { break };
        let Ok(Some(compressed)) = container.compressed(rest, limits) else { break };
        if compressed.recorded().end_needs_inflating() {
            // Finding the end would inflate the bundle, which the caller has to count against its limits.
            break;
        }
        // The length is taken first, because the list takes the bundle.
        let stored_len = compressed.stored_len();
        // A bundle that the walk may inflate only in part is not inflated ahead.
        if !bundles.walk.may_read_prefix(&compressed) {
            to_inflate.push(compressed);
        }
        let Ok(stored_len) = stored_len else { break };
        let end = bundles.walk.skip_padding(position.saturating_add(stored_len));
        let Some(next) = end.and_then(|end| bundles.skip_fillers(end)) else { break };
        position = next;
    }
    to_inflate
}

impl<'a> SearchBundles<'a> {
    /// Walks `data`, whose bundles are of one format, compressed or not. The bundles borrow from the data, and outlive
    /// the walk.
    pub fn new(data: impl Into<Slice<'a>>, container: &'a dyn SearchContainer, inflate: Inflate) -> Self {
        let walk = sequence::Bundles::new(data, container, inflate);
        Self { walk, container, claimed: None, ready: None }
    }

    /// Sets the limits for compressed bundles and code objects. By default, each may inflate to its recorded size.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.walk.limits = limits;
        self
    }

    /// Fetches the next of the bundles that were inflated `ahead`, unless the walk has not yet used the last one
    /// fetched.
    pub(crate) fn take_inflated(&mut self, ahead: &mut dyn Iterator<Item = (u64, Inflated)>) {
        if self.ready.is_none() {
            self.ready = ahead.next();
        }
    }

    /// Reads the next bundle within other limits, which hold for the rest of the walk.
    pub(crate) fn next_within(&mut self, limits: Limits) -> Result<Option<Bundle<'a>>> {
        self.walk.limits = limits;
        self.next().transpose()
    }

    /// Returns the inflated size that the header of the last bundle claims. Returns `None` if that bundle is not
    /// compressed, or was refused because the claim exceeds the limits. The bundle may be broken.
    pub(crate) fn claimed(&self) -> Option<u64> {
        self.claimed
    }

    /// Returns the offset of data that is not a bundle and ended the walk, or `None` if the walk met no such data.
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        self.walk.stopped_at()
    }

    /// Returns the first position from `position` on that is neither padding nor a filler, or `None` without one.
    /// `position` must not be padding.
    fn skip_fillers(&self, position: u64) -> Option<u64> {
        let mut position = position;
        loop {
            match self.container.filler_len(self.walk.rest(position)?.bytes()) {
                0 => return Some(position),
                len => position = self.walk.skip_padding(position.saturating_add(len))?,
            }
        }
    }

    /// Reads the bundle at `position`, as the walk of LLVM's tools does. A compressed one may be inflated already.
    fn read_at(&mut self, position: u64) -> Result<Option<Bundle<'a>>> {
        let (limits, Some(data)) = (self.walk.limits, self.walk.rest(position)) else { return Ok(None) };
        let Some(compressed) = self.container.compressed(data, limits)? else {
            return self.read_plain(position, data);
        };
        // Set before the bundle is read: the claim counts even if the bundle is broken.
        self.claimed = Some(compressed.recorded().inflated);
        let bundle = match self.ready.take_if(|(offset, _)| *offset == compressed.offset()) {
            Some((_, inflated)) => inflated.and_then(|inflated| self.walk.read_inflated(&compressed, inflated)),
            None => self.walk.read_compressed(&compressed),
        };
        self.walk.go_on_after(position, compressed, bundle.is_ok());
        bundle.map(Some)
    }

    /// Reads a bundle that is not compressed as a whole. A bundle at a wrong position is read too, and has that fault.
    fn read_plain(&mut self, position: u64, data: Slice<'a>) -> Result<Option<Bundle<'a>>> {
        let Some(mut bundle) = self.walk.read_plain(position, data)? else { return Ok(None) };
        bundle.limit(self.walk.limits);
        if let Some(misplaced) = self.container.misplaced(position, bundle.offset) {
            bundle.faults.insert(0, misplaced);
        }
        Ok(Some(bundle))
    }
}

impl<'a> Iterator for SearchBundles<'a> {
    type Item = Result<Bundle<'a>>;

    /// Reads the next bundle, after padding and fillers.
    fn next(&mut self) -> Option<Self::Item> {
        self.claimed = None;
        match self.walk.next_position() {
            // A file does not begin with a filler.
            Ok(Some(position)) if position > 0 => self.read_at(self.skip_fillers(position)?).transpose(),
            Ok(position) => self.read_at(position?).transpose(),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::bytes::len_u64;
    use crate::beyond::container::entry::SearchFormat;
    use crate::llvm::container::binary::Binary;
    use crate::llvm::container::{Entry, Part};

    const MIXED: &[u8] = include_bytes!("../../../fixtures/sequence/mixed.bundle");

    /// The claims of the bundles of a file, and whether each can be read. Bundles that are inflated `ahead` are used.
    fn claims(data: &[u8], ahead: Vec<(u64, Inflated)>) -> Vec<(Option<u64>, bool)> {
        let (container, mut ahead) = (SearchFormat(Binary::default()), ahead.into_iter());
        let mut bundles = SearchBundles::new(data, &container, Inflate::AsNeeded);
        std::iter::from_fn(|| {
            bundles.take_inflated(&mut ahead);
            let is_read = bundles.next()?.is_ok();
            Some((bundles.claimed(), is_read))
        })
        .collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "inflates")]
    fn compressed_bundles_claim_their_size_even_if_they_are_broken() {
        let container = SearchFormat(Binary::default());
        let bundles: Vec<_> = SearchBundles::new(MIXED, &container, Inflate::AsNeeded).map(Result::unwrap).collect();
        let mut expected: Vec<_> =
            bundles.iter().map(|bundle| (bundle.compressed.map(|recorded| recorded.inflated), true)).collect();
        assert_eq!(claims(MIXED, Vec::new()), expected);
        // After a broken bundle of unknown length, the walk ends.
        let has_end = |bundle: &Bundle<'_>| bundle.compressed.is_some_and(|recorded| recorded.total.is_some());
        let compressed = bundles.iter().position(has_end).unwrap();
        let at = bundles[compressed].offset;
        // The bundle that was inflated ahead is the one that is read.
        let error = Error::internal("inflated ahead");
        expected[compressed].1 = false;
        assert_eq!(claims(MIXED, vec![(at, Err(error))]), expected);
        let mut broken = MIXED.to_vec();
        let end = usize::try_from(bundles[compressed].range().unwrap().end).unwrap();
        broken[end - 9..end].fill(0xff);
        assert_eq!(claims(&broken, Vec::new()), expected);
        assert!(bundles.len() > 1 && at < len_u64(MIXED));
    }

    #[test]
    fn only_zlib_streams_of_unknown_length_are_inflated_to_find_their_end() {
        for (method, total, expected) in
            [(Method::Zlib, None, true), (Method::Zlib, Some(1), false), (Method::Zstd, None, false)]
        {
            let recorded = Recorded { what: "", version: 1, method, total, inflated: 1, hash: None };
            assert_eq!(recorded.end_needs_inflating(), expected);
        }
    }

    #[test]
    fn few_bytes_and_many_are_copied_alike() {
        let data = vec![7; usize::try_from(WHOLE_MAX).unwrap() + 9];
        let input = Input::from_bytes("in", data.clone());
        let few = [Part::Range(1..3), Part::Bytes(b"xyz".to_vec()), Part::Range(9..9), Part::Range(5..6)].to_vec();
        let mut entry = SearchEntry::from(Entry { parts: few, ..Entry::at(b"", 0..0) });
        assert_eq!(
            copy_to_input(input.as_slice(), &entry, &mut LastInflated::default()).unwrap().bytes(),
            b"\x07\x07xyz\x07"
        );
        entry.entry.parts.push(Part::Range(0..WHOLE_MAX));
        let many = copy_to_input(input.as_slice(), &entry, &mut LastInflated::default()).unwrap();
        assert!(many.bytes() == [b"\x07\x07xyz\x07", &data[9..]].concat());
        let broken = Part::Unreadable(Malformed::at("x", 0));
        entry.entry.parts.push(broken);
        assert!(copy_to_input(input.as_slice(), &entry, &mut LastInflated::default()).is_err());
    }
}
