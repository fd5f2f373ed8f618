//! Walks several bundles in one file.
//!
//! A linked HIP program has one bundle for each translation unit in its `.hip_fatbin` section, one after another,
//! padded with zeros; compressed and plain bundles may mix. The walk uses the recorded sizes and never searches for a
//! magic string, which payloads may contain. Data after the last bundle is ignored, as in LLVM 22.1.8.
//!
//! Rejected: everything that the formats reject, in any bundle up to the last one that a job needs.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::entry::{BundleEntry, Contents, Entry, Part};
use super::format::Container;
use super::limits::Limits;
use super::stream::{Compressed, HashCheck, Inflation, Recorded};
use crate::base::bytes::{add, bytes_in, len_of, len_u64, slice, span};
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::meter::{Meter, Metered};
use crate::base::io::output::Output;
use crate::base::io::piece::{Sink, Writer};

/// The largest inflated size in bytes of a compressed bundle that is inflated and checked as a whole before it is
/// used. Of a larger bundle, only the header is read at first. Its hash and sizes are checked when code objects are
/// extracted. The limit is lower in unit tests.
const WHOLE_MAX: u64 = if cfg!(test) { 1 << 20 } else { crate::base::io::input::MEMORY_MAX };

/// The number of bytes of padding that are read at a time. Before each block, holes of a sparse file are skipped
/// unread.
const PADDING_BLOCK: u64 = 64 << 10;

/// The number of bytes of a large compressed bundle that are inflated first to find its entries.
const PREFIX: usize = 64 << 10;

/// The maximum number of bytes of a large compressed bundle that are inflated into memory to find its entries. If
/// they do not hold the header, the whole bundle is inflated into a file.
const PREFIX_MAX: usize = 16 << 20;

/// The number of bytes that are inflated at a time when code objects are extracted.
const INFLATED_BLOCK: usize = 128 << 10;

/// The contents of a compressed container without a bundle. LLVM 22.1.8 treats it as a bundle without entries.
const fn empty_contents<E>() -> Contents<E> {
    Contents { entries: Vec::new(), len: 0, faults: Vec::new() }
}

/// How much of a compressed bundle to inflate to find its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inflate {
    /// No more than needed.
    AsNeeded,
    /// Only the headers, however small the bundle is. A bundle that does not record its stored length is inflated to
    /// its end to find it. Hash and sizes are checked when code objects are extracted.
    Headers,
    /// The whole bundle, however large it is, so that hash and sizes are checked before it is used.
    Whole,
}

/// A bundle of a file.
#[derive(Debug)]
pub struct Bundle<'a, E = Entry> {
    /// The offset of the bundle's start in the file.
    pub offset: u64,
    /// The inflated length in bytes, as claimed by the bundle's header and entries. A compressed container may hold
    /// more data after that, which belongs to no bundle.
    pub(crate) inflated_len: u64,
    /// The entries in file order.
    pub entries: Vec<E>,
    /// The faults of a bundle whose end is known nevertheless. Entries that cannot be read are missing in `entries`.
    pub faults: Vec<Malformed>,
    /// The header of the compressed bundle, if it is compressed.
    pub compressed: Option<Recorded>,
    /// Statistics of the inflation, if the bundle was inflated as a whole.
    pub inflation: Option<Inflation>,
    body: Body<'a>,
}

/// The bytes of a bundle.
#[derive(Debug)]
enum Body<'a> {
    /// A bundle that is not compressed as a whole.
    Plain {
        /// Data from the start of the bundle, perhaps beyond its end.
        data: Slice<'a>,
        stored_len: u64,
    },
    /// A compressed bundle that was inflated as a whole.
    Inflated { input: Input, stored_len: u64 },
    /// A compressed bundle that is inflated when code objects are extracted.
    Stream {
        compressed: Compressed<'a>,
        /// The first inflated bytes.
        prefix: Vec<u8>,
    },
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

impl<'a, E: BundleEntry> Bundle<'a, E> {
    /// A bundle at the start of `data` that is not compressed as a whole.
    pub(crate) fn plain(data: Slice<'a>, contents: Contents<E>, limits: Limits) -> Self {
        let Contents { mut entries, len, faults } = contents;
        for entry in &mut entries {
            // In a plain bundle, each code object may be compressed on its own.
            entry.limit(limits);
        }
        let (offset, stored_len) = (data.offset(), len.min(data.len()));
        let (inflated_len, body) = (stored_len, Body::Plain { data, stored_len });
        Self { offset, inflated_len, entries, faults, compressed: None, inflation: None, body }
    }

    /// The length in the file in bytes. A plain bundle ends where its header and entries say. A zlib stream after a
    /// header of version 1 is inflated to find its length, unless it was inflated before.
    ///
    /// # Errors
    /// The errors of inflating the stream.
    pub fn stored_len(&self) -> Result<u64> {
        match &self.body {
            Body::Plain { stored_len, .. } | Body::Inflated { stored_len, .. } => Ok(*stored_len),
            Body::Stream { compressed, .. } => compressed.stored_len(),
        }
    }

    /// The range in the file.
    ///
    /// # Errors
    /// The errors of [`stored_len`](Self::stored_len).
    pub fn range(&self) -> Result<Range<u64>> {
        Ok(span(self.offset, self.stored_len()?))
    }

    /// Copies the code objects of some entries (given by their index) to sinks. A compressed bundle is always inflated
    /// to its end and checked.
    pub(crate) fn extract<S: Sink>(&self, wanted: &mut [(usize, &mut S)], meter: &mut Meter<'_>) -> Result<()> {
        match &self.body {
            Body::Plain { data, .. } => self.copy_entries(*data, wanted, meter),
            Body::Inflated { input, .. } => self.copy_entries(input.as_slice(), wanted, meter),
            Body::Stream { compressed, .. } => self.inflate_entries(compressed, wanted, meter),
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
        self.extract(&mut [(index, &mut Writer::new(out))], &mut Meter::silent())
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

    /// Returns the code object of an entry (given by its index) as a slice of the file, or `None` if it is compressed
    /// or has to be restored.
    pub fn in_place(&self, index: usize) -> Option<Slice<'a>> {
        let Body::Plain { data, .. } = &self.body else { return None };
        match self.entries.get(index)?.entry().parts.as_slice() {
            [part @ Part::Range(range)] => data.slice(range.start, part.len()),
            _ => None,
        }
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

    /// Returns up to `len` bytes from the start of the code object of an entry (given by its index). Returns `None` for
    /// an index without an entry, an unreadable code object, and bytes that only more inflating would give.
    pub fn head(&self, index: usize, len: u64) -> Option<&[u8]> {
        if let Body::Plain { data, .. } = &self.body {
            // A listing reads the beginning of every bundle of a file, which would end up in memory. Counting the reads
            // lets the mapping release its pages now and then.
            data.note_header_read();
        }
        match self.entries.get(index)?.entry().parts.first() {
            Some(part @ Part::Range(range)) => slice(self.beginning(), range.start, part.len().min(len)),
            Some(Part::Bytes(data)) => slice(data, 0, len_u64(data).min(len)),
            Some(Part::Unreadable(_)) | None => None,
        }
    }

    /// The bytes from the start of the bundle that are available: of a plain bundle all data from there on, of a
    /// compressed one the bytes that were inflated so far.
    pub(crate) fn beginning(&self) -> &[u8] {
        match &self.body {
            Body::Plain { data, .. } => data.bytes(),
            Body::Inflated { input, .. } => input.bytes(),
            Body::Stream { prefix, .. } => prefix,
        }
    }

    /// Copies code objects from `data`, the (inflated) bundle.
    fn copy_entries<S: Sink>(
        &self,
        data: Slice<'_>,
        wanted: &mut [(usize, &mut S)],
        meter: &mut Meter<'_>,
    ) -> Result<()> {
        for (index, _) in &*wanted {
            meter.expect(self.entry(*index)?.size());
        }
        // Code objects that are compressed together are inflated once, and kept for the next entry.
        let mut kept = E::Kept::default();
        for (index, output) in wanted {
            self.entry(*index)?.copy(data, &mut kept, &mut Metered { sink: *output, meter })?;
        }
        Ok(())
    }

    /// Reads the code object of an entry (given by its index).
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) unless the bundle is plain or was inflated as a whole, and
    /// the errors of reading the code object.
    pub(crate) fn content(&self, index: usize) -> Result<Content<'_>> {
        self.content_after(index, &mut E::Kept::default())
    }

    /// Like [`content`](Self::content), for a caller that reads several entries one after another. `kept` is the
    /// memory from one entry to the next: code objects that are compressed together are inflated once.
    pub(crate) fn content_after(&self, index: usize, kept: &mut E::Kept) -> Result<Content<'_>> {
        let data = match &self.body {
            Body::Plain { data, .. } => *data,
            Body::Inflated { input, .. } => input.as_slice(),
            Body::Stream { .. } => return Err(Error::internal("the bundle is not inflated")),
        };
        let entry = self.entry(index)?;
        if let Some((inflated, range)) = entry.inflated(data, kept)? {
            return Ok(Content::Inflated(inflated, range));
        }
        if let [Part::Range(range)] = entry.entry().parts.as_slice() {
            return data.claimed(range).map(Content::InPlace);
        }
        Ok(Content::Restored(copy_to_input(data, entry, kept)?))
    }

    fn entry(&self, index: usize) -> Result<&E> {
        self.entries.get(index).ok_or_else(|| Error::internal("no such entry"))
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

    /// The range of the code object of an entry (given by its index) in the inflated bytes of a compressed bundle.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) if the entry does not exist, or its code object is not one
    /// range.
    pub(crate) fn range_of(&self, index: usize) -> Result<Range<u64>> {
        match self.entry(index)?.entry().parts.as_slice() {
            [Part::Range(range)] => Ok(range.clone()),
            _ => Err(Error::internal("the code object is not one range")),
        }
    }

    /// Inflates the bundle in one pass, and writes each block to the outputs of all entries that have bytes in it. The
    /// pass continues to the end of the stream even if all outputs are complete: only there the hash can be compared.
    fn inflate_entries<S: Sink>(
        &self,
        compressed: &Compressed<'_>,
        wanted: &mut [(usize, &mut S)],
        meter: &mut Meter<'_>,
    ) -> Result<()> {
        let ranges = wanted.iter().map(|(index, _)| self.range_of(*index)).collect::<Result<Vec<_>>>()?;
        let mut inflater = compressed.inflate(HashCheck::Compare)?;
        meter.expect(compressed.recorded().inflated);
        let mut block = Vec::new();
        let (mut position, mut is_end) = (0_u64, false);
        while !is_end {
            block.clear();
            is_end = inflater.fill(&mut block, INFLATED_BLOCK)?;
            let block_end = position.saturating_add(len_u64(&block));
            for ((_, output), range) in wanted.iter_mut().zip(&ranges) {
                // The part of the code object that is in this block. An empty code object gets an empty write, as from
                // a plain bundle.
                let (from, to) = (range.start.max(position), range.end.min(block_end));
                if from <= to
                    && let Some(data) = bytes_in(&block, from.saturating_sub(position)..to.saturating_sub(position))
                {
                    output.write(data)?;
                }
            }
            meter.advance(block_end.saturating_sub(position));
            position = block_end;
        }
        Ok(())
    }
}

/// Copies a code object that is not one range of `data`, its bundle, so that it can be read as one input. A large one
/// goes into a temporary file.
fn copy_to_input<E: BundleEntry>(data: Slice<'_>, entry: &E, kept: &mut E::Kept) -> Result<Input> {
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

/// An iterator over the bundles of a file, in file order. An error ends the walk, unless it is inside a compressed
/// bundle that records its size: the next bundle begins after that.
pub struct Bundles<'a, E = Entry> {
    data: Slice<'a>,
    container: &'a dyn Container<Entry = E>,
    inflate: Inflate,
    limits: Limits,
    next: NextBundle<'a>,
    /// The inflated size that the header of the last bundle claims, or `None` if that bundle is not compressed.
    claimed: Option<u64>,
    /// The offset of the data that ended the walk because it is not a bundle, or `None` while there is no such data.
    stopped_at: Option<u64>,
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
pub(crate) fn find_inflated_whole<'a, E: BundleEntry>(
    data: Slice<'a>,
    container: &'a dyn Container<Entry = E>,
    inflate: Inflate,
    limits: Limits,
) -> Vec<Compressed<'a>> {
    let bundles = Bundles::new(data, container, inflate);
    let (mut whole, mut position) = (Vec::new(), 0);
    for _ in 0..AHEAD_MAX {
        let Some(rest) = bundles.rest(position) else { break };
        let Ok(Some(compressed)) = container.compressed(rest, limits) else { break };
        if compressed.recorded().end_needs_inflating() {
            // Finding the end would inflate the bundle, which the caller has to count against its limits.
            break;
        }
        // The length is taken first, because the list takes the bundle.
        let stored_len = compressed.stored_len();
        // A bundle that the walk may inflate only in part is not inflated ahead.
        if !bundles.may_read_prefix(&compressed) {
            whole.push(compressed);
        }
        let Ok(stored_len) = stored_len else { break };
        let Some(next) = bundles.skip_padding(position.saturating_add(stored_len)) else { break };
        position = next;
    }
    whole
}

/// The position of the next bundle.
enum NextBundle<'a> {
    /// No bundle follows.
    Nowhere,
    /// At this position in the data, or after the padding there.
    At(u64),
    /// After the compressed bundle at this position. The bundle may have to be inflated to find its end, which is done
    /// only if the next bundle is asked for.
    After(u64, Compressed<'a>),
}

impl<'a, E: BundleEntry> Bundles<'a, E> {
    /// Walks `data`, whose bundles are of one format, compressed or not. The bundles borrow from the data, and outlive
    /// the walk.
    pub fn new(data: impl Into<Slice<'a>>, container: &'a dyn Container<Entry = E>, inflate: Inflate) -> Self {
        let (data, limits, next) = (data.into(), Limits::default(), NextBundle::At(0));
        Self { data, container, inflate, limits, next, claimed: None, stopped_at: None, ready: None }
    }

    /// Fetches the next of the bundles that were inflated `ahead`, unless the one fetched before is still unused.
    pub(crate) fn take_inflated(&mut self, ahead: &mut dyn Iterator<Item = (u64, Inflated)>) {
        if self.ready.is_none() {
            self.ready = ahead.next();
        }
    }

    /// Sets the limits for compressed bundles. By default, a bundle may inflate to its recorded size.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads the next bundle within other limits, which hold for the rest of the walk.
    pub(crate) fn next_within(&mut self, limits: Limits) -> Result<Option<Bundle<'a, E>>> {
        self.limits = limits;
        self.next().transpose()
    }

    /// Returns the inflated size that the header of the last bundle claims. Returns `None` if that bundle is not
    /// compressed, or was refused because the claim exceeds the limits. The bundle may be broken.
    pub(crate) fn claimed(&self) -> Option<u64> {
        self.claimed
    }

    /// Returns the offset of data that is not a bundle and ended the walk, or `None` if the walk met no such data.
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        self.stopped_at
    }

    /// Reads the bundle at `position`. Returns `None` if no bundle is there.
    ///
    /// Sets `self.next` to the end of this bundle, also if it is broken inside a compressed container of known length.
    fn read_at(&mut self, position: u64) -> Result<Option<Bundle<'a, E>>> {
        let Some(data) = self.rest(position) else { return Ok(None) };
        if let Some(compressed) = self.container.compressed(data, self.limits)? {
            // Set before the bundle is read: the claim counts even if the bundle is broken.
            self.claimed = Some(compressed.recorded().inflated);
            let bundle = self.read_compressed(&compressed);
            if bundle.is_ok() || compressed.recorded().total.is_some() {
                self.next = NextBundle::After(position, compressed);
            }
            return bundle.map(Some);
        }
        // In a format whose bundles do not repeat, a plain bundle is the whole file.
        if position > 0 && !self.container.repeats() {
            return Ok(None);
        }
        let offset = data.offset();
        let contents = self.container.read(data.bytes(), data.len(), offset).with_path(data.path())?;
        let Some(mut contents) = contents else { return Ok(None) };
        // A bundle at a wrong position is read all the same, with this fault.
        if let Some(misplaced) = self.container.misplaced(position, offset) {
            contents.faults.insert(0, misplaced);
        }
        // After a bundle of no length, the walk would find the same bundle again.
        if contents.len > 0
            && let Some(end) = position.checked_add(contents.len)
        {
            self.next = NextBundle::At(end);
        }
        Ok(Some(Bundle::plain(data, contents, self.limits)))
    }

    /// Reads a compressed bundle by its beginning if the mode allows that and the beginning is enough. Otherwise,
    /// inflates it as a whole.
    fn read_compressed(&mut self, compressed: &Compressed<'a>) -> Result<Bundle<'a, E>> {
        if self.inflate == Inflate::Headers {
            // A walk over headers reports where each bundle ends, so a bundle without an end is an error here.
            compressed.stored_len()?;
        }
        if self.may_read_prefix(compressed)
            && let Some(bundle) = self.read_by_prefix(compressed)?
        {
            return Ok(bundle);
        }
        self.read_inflated_whole(compressed)
    }

    /// Reads a compressed bundle by its first inflated bytes. Returns `None` if they do not hold the header, or if a
    /// code object is not one range: only ranges can be copied while the stream is inflated.
    fn read_by_prefix(&self, compressed: &Compressed<'a>) -> Result<Option<Bundle<'a, E>>> {
        let Some((contents, prefix)) = self.read_prefix(compressed)? else { return Ok(None) };
        if !contents.entries.iter().all(is_one_range) {
            return Ok(None);
        }
        let Contents { entries, len: inflated_len, faults } = contents;
        let (offset, recorded) = (compressed.offset(), Some(*compressed.recorded()));
        let body = Body::Stream { compressed: compressed.clone(), prefix };
        Ok(Some(Bundle { offset, inflated_len, entries, faults, compressed: recorded, inflation: None, body }))
    }

    /// Inflates a compressed bundle as a whole, unless this was done ahead, and reads it.
    fn read_inflated_whole(&mut self, compressed: &Compressed<'a>) -> Result<Bundle<'a, E>> {
        let (offset, recorded) = (compressed.offset(), Some(*compressed.recorded()));
        let (input, inflation) = match self.ready.take_if(|(of, _)| *of == offset) {
            Some((_, inflated)) => inflated?,
            None => compressed.inflate_whole()?,
        };
        let contents = self.container.read(input.bytes(), input.len(), 0);
        let contents = contents.map_err(|inner| compressed.inside(inner)).with_path(self.data.path())?;
        let Contents { entries, len: inflated_len, faults } = contents.unwrap_or(empty_contents());
        let stored_len = compressed.stored_len()?;
        let (inflation, body) = (Some(inflation), Body::Inflated { input, stored_len });
        Ok(Bundle { offset, inflated_len, entries, faults, compressed: recorded, inflation, body })
    }

    /// Whether the walk may inflate only the beginning of a compressed bundle.
    fn may_read_prefix(&self, compressed: &Compressed<'_>) -> bool {
        // Text bundles and fat objects do not repeat. Their entries may be anywhere in the data, so the beginning is
        // not enough.
        self.container.repeats()
            && match self.inflate {
                Inflate::Whole => false,
                Inflate::AsNeeded => compressed.recorded().inflated > WHOLE_MAX,
                Inflate::Headers => true,
            }
    }

    /// Inflates until the header of the bundle is complete, twice as much at each attempt. Returns the contents and the
    /// inflated bytes, or `None` if even [`PREFIX_MAX`] bytes do not hold the header.
    fn read_prefix(&self, compressed: &Compressed<'_>) -> Result<Option<(Contents<E>, Vec<u8>)>> {
        let total = compressed.recorded().inflated;
        let mut inflater = compressed.inflate(HashCheck::Skip)?;
        let mut prefix = Vec::new();
        let mut want = PREFIX;
        loop {
            let complete = inflater.fill(&mut prefix, want)?;
            match self.container.read(&prefix, total, 0) {
                Err(Malformed::Truncated { .. }) if !complete && want >= PREFIX_MAX => return Ok(None),
                Err(Malformed::Truncated { .. }) if !complete => want = want.saturating_mul(2),
                Err(inner) => return Err(compressed.inside(inner)).with_path(self.data.path()),
                Ok(contents) => return Ok(Some((contents.unwrap_or(empty_contents()), prefix))),
            }
        }
    }

    /// The data from a position on.
    fn rest(&self, position: u64) -> Option<Slice<'a>> {
        self.data.slice(position, self.data.len().checked_sub(position)?)
    }

    /// Returns the first position from `position` on that is not padding, or `None` if there is only padding. Padding
    /// is zeros and the fillers of the format.
    fn skip_padding(&self, position: u64) -> Option<u64> {
        let mut position = position;
        loop {
            // Reading a hole of a sparse file would load its zeros into memory.
            let hole = self.rest(position)?.hole_len();
            add(&mut position, hole);
            let rest = self.rest(position)?;
            if rest.is_empty() {
                return None;
            }
            let block = rest.slice(0, rest.len().min(PADDING_BLOCK))?;
            let Some(zeros) = block.bytes().iter().position(|&byte| byte != 0) else {
                add(&mut position, block.len());
                continue;
            };
            position = position.checked_add(u64::try_from(zeros).ok()?)?;
            match self.container.filler_len(self.rest(position)?.bytes()) {
                0 => return Some(position),
                len => add(&mut position, len),
            }
        }
    }
}

/// Whether the code object of an entry is one range of its bundle.
fn is_one_range<E: BundleEntry>(entry: &E) -> bool {
    matches!(entry.entry().parts.as_slice(), [Part::Range(_)])
}

impl<'a, E: BundleEntry> Iterator for Bundles<'a, E> {
    type Item = Result<Bundle<'a, E>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.claimed = None;
        // The walk ends here unless `read_at` finds where the next bundle begins.
        let position = match std::mem::replace(&mut self.next, NextBundle::Nowhere) {
            NextBundle::Nowhere => return None,
            // Padding is between bundles; a file does not begin with it.
            NextBundle::At(0) => 0,
            NextBundle::At(position) => self.skip_padding(position)?,
            NextBundle::After(position, compressed) => match compressed.stored_len() {
                Ok(len) => self.skip_padding(position.checked_add(len)?)?,
                Err(error) => return Some(Err(error)),
            },
        };
        let bundle = self.read_at(position);
        let has_other_data = position < self.data.len();
        if let Ok(None) = bundle
            && has_other_data
        {
            self.stopped_at = self.data.offset().checked_add(position);
        }
        bundle.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::{Compression, Method};
    use crate::base::io::output::{self, Output};
    use crate::base::io::piece::{Piece, emit};
    use crate::llvm::container::Member;
    use crate::llvm::container::binary::Binary;
    use crate::llvm::container::compressed;

    fn bundle(members: &[(&str, &[u8])]) -> Vec<u8> {
        let inputs: Vec<_> = members.iter().map(|(id, data)| (id, Input::from_bytes(*id, data.to_vec()))).collect();
        let members: Vec<_> =
            inputs.iter().map(|(id, input)| Member { id: id.to_string(), content: input.as_slice() }).collect();
        let mut out = Vec::new();
        emit(&Binary::default().plan(&members).unwrap(), &mut out).unwrap();
        out
    }

    fn compress(data: &[u8]) -> Vec<u8> {
        compress_with(Method::Zstd, data)
    }

    fn compress_with(method: Method, data: &[u8]) -> Vec<u8> {
        let mut out = std::io::Cursor::new(Vec::new());
        let pieces = [Piece::Bytes(data.to_vec())];
        compressed::write(&pieces, &Compression::with_method(method), None, &mut out).unwrap();
        out.into_inner()
    }

    fn ids(data: &[u8]) -> Vec<String> {
        let input = Input::from_bytes("in", data.to_vec());
        let binary = Binary::default();
        let bundles = Bundles::new(input.as_slice(), &binary, Inflate::AsNeeded);
        let entries = bundles.flat_map(|bundle| bundle.unwrap().entries);
        entries.map(|entry| String::from_utf8(entry.id).unwrap()).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn plain_and_compressed_bundles_mix() {
        let magic = super::super::MAGIC.as_bytes();
        let (a, b, c) = (bundle(&[("a", magic)]), bundle(&[("b", b"CCOB")]), bundle(&[("c", b"")]));
        let padding = [0; 4096];
        let mixed = [&a[..], &padding, &compress(&b), &compress(&c), &padding[..1], &c, &padding].concat();
        assert_eq!(ids(&mixed), ["a", "b", "c", "c"]);
        let binary = Binary::default();
        let mut bundles = Bundles::new(&mixed, &binary, Inflate::AsNeeded);
        let claims: Vec<_> = std::iter::from_fn(|| bundles.next().map(|_| bundles.claimed())).collect();
        let [b_len, c_len] = [&b, &c].map(|bundle| Some(len_u64(bundle)));
        assert_eq!(claims, [None, b_len, c_len, None]);
        assert_eq!(ids(&[&a[..], b"something else", &b].concat()), ["a"]);
        assert_eq!(ids(&[&padding[..], &a].concat()), [""; 0]);
        assert_eq!(ids(b""), [""; 0]);
    }

    #[test]
    fn few_bytes_and_many_are_copied_alike() {
        let data = vec![7; usize::try_from(WHOLE_MAX).unwrap() + 9];
        let input = Input::from_bytes("in", data.clone());
        let few = [Part::Range(1..3), Part::Bytes(b"xyz".to_vec()), Part::Range(9..9), Part::Range(5..6)].to_vec();
        let mut entry = Entry { parts: few, ..Entry::at(b"", 0..0) };
        assert_eq!(copy_to_input(input.as_slice(), &entry, &mut ()).unwrap().bytes(), b"\x07\x07xyz\x07");
        entry.parts.push(Part::Range(0..WHOLE_MAX));
        let many = copy_to_input(input.as_slice(), &entry, &mut ()).unwrap();
        assert!(many.bytes() == [b"\x07\x07xyz\x07", &data[9..]].concat());
        let broken = Part::Unreadable(Malformed::at("x", 0));
        entry.parts.push(broken);
        assert!(copy_to_input(input.as_slice(), &entry, &mut ()).is_err());
    }

    /// Extracts the code object of an entry of a large compressed bundle to a file, and returns its bytes.
    fn extract(file: &[u8], id: &str) -> Result<Vec<u8>> {
        let binary = Binary::default();
        let bundle = Bundles::new(file, &binary, Inflate::AsNeeded).next().unwrap()?;
        assert!(matches!(bundle.body, Body::Stream { .. }));
        let index = bundle.entries.iter().position(|entry| entry.id == id.as_bytes()).unwrap();
        let out = tempfile::NamedTempFile::new().unwrap();
        let mut output = Output::stage(out.path())?;
        bundle.extract(&mut [(index, &mut output)], &mut Meter::silent())?;
        output::commit(vec![output])?;
        Ok(std::fs::read(out.path()).unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn a_large_compressed_bundle_is_listed_by_its_beginning_and_checked_to_its_end() {
        let large = vec![7; usize::try_from(WHOLE_MAX).unwrap()];
        let names: Vec<String> = (0..3000).map(|n| format!("an entry with a long name, number {n}")).collect();
        let mut members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"small"[..])).collect();
        members.push(("first", b"one"));
        members.push(("last", &large));
        let mut file = compress(&bundle(&members));
        assert_eq!(extract(&file, "first").unwrap(), b"one");
        assert!(extract(&file, "last").unwrap() == large);
        // The hash covers all bytes: if it is wrong, none of them can be trusted.
        file[16] ^= 1;
        for name in ["first", "last"] {
            assert!(extract(&file, name).unwrap_err().to_string().contains("the recorded hash is"), "{name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn the_end_of_a_version_1_zlib_stream_is_found_by_the_first_who_needs_it() {
        let large = bundle(&[("large", &vec![7; usize::try_from(WHOLE_MAX).unwrap()])]);
        let v2 = compress_with(Method::Zlib, &large);
        let v1 = [&v2[..4], &[1, 0], &v2[6..8], &v2[12..]].concat();
        let file = [&v1[..], &[0; 9], &bundle(&[("next", b"")])].concat();
        let end = len_u64(&v1);
        let binary = Binary::default();
        for inflate in [Inflate::AsNeeded, Inflate::Headers, Inflate::Whole] {
            let mut bundles = Bundles::new(&file, &binary, inflate);
            let first = bundles.next().unwrap().unwrap();
            let NextBundle::After(_, compressed) = &bundles.next else { panic!("another bundle may follow") };
            assert_eq!(compressed.stream_len.get().map(|len| len + 20), (inflate != Inflate::AsNeeded).then_some(end));
            assert_eq!(first.bytes(0).unwrap().len(), usize::try_from(WHOLE_MAX).unwrap());
            assert_eq!(compressed.stream_len.get().map(|len| len + 20), Some(end));
            assert_eq!(first.range().unwrap(), 0..end);
            assert!(first.compressed.unwrap().end_needs_inflating());
            assert_eq!(bundles.next().unwrap().unwrap().entries[0].id, b"next");
            assert!(bundles.next().is_none() && bundles.stopped_at().is_none());
        }
        let with_end = Bundles::new(&v2, &binary, Inflate::Headers).next().unwrap().unwrap();
        assert!(!with_end.compressed.unwrap().end_needs_inflating());
        // Bundles after a broken one of unknown length cannot be found.
        let cut = &file[..v1.len() - 1];
        for inflate in [Inflate::AsNeeded, Inflate::Headers, Inflate::Whole] {
            assert_eq!(Bundles::new(cut, &binary, inflate).filter(Result::is_err).count(), 1, "{inflate:?}");
        }
    }
}
