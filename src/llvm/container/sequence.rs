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

use super::entry::{BundleEntry, Contents, Entry, Part};
use super::format::Container;
use super::limits::Limits;
use super::stream::{Compressed, HashCheck, Inflation, Recorded};
use crate::base::bytes::{add, bytes_in, len_u64, slice, span};
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::piece::{Sink, Writer};

/// The largest inflated size in bytes of a compressed bundle that is inflated and checked as a whole before it is
/// used. Of a larger bundle, only the header is read at first. Its hash and sizes are checked when code objects are
/// extracted. The limit is lower in unit tests.
pub(crate) const WHOLE_MAX: u64 = if cfg!(test) { 1 << 20 } else { crate::base::io::input::MEMORY_MAX };

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
    pub(crate) body: Body<'a>,
}

/// The bytes of a bundle.
#[derive(Debug)]
pub(crate) enum Body<'a> {
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

impl<'a, E: BundleEntry> Bundle<'a, E> {
    /// A bundle at the start of `data` that is not compressed as a whole.
    pub(crate) fn plain(data: Slice<'a>, contents: Contents<E>) -> Self {
        let Contents { entries, len, faults } = contents;
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

    /// Returns the code object of an entry (given by its index) as a slice of the file, or `None` if it is compressed
    /// or has to be restored.
    pub fn in_place(&self, index: usize) -> Option<Slice<'a>> {
        let Body::Plain { data, .. } = &self.body else { return None };
        match self.entries.get(index)?.entry().parts.as_slice() {
            [part @ Part::Range(range)] => data.slice(range.start, part.len()),
            _ => None,
        }
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

    pub(crate) fn entry(&self, index: usize) -> Result<&E> {
        self.entries.get(index).ok_or_else(|| Error::internal("no such entry"))
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
    /// `wanted` has the index and the output of each entry.
    pub(crate) fn inflate_entries<S: Sink>(
        &self,
        compressed: &Compressed<'_>,
        wanted: &mut [(usize, &mut S)],
    ) -> Result<()> {
        let ranges = wanted.iter().map(|(index, _)| self.range_of(*index)).collect::<Result<Vec<_>>>()?;
        let mut inflater = compressed.inflate(HashCheck::Compare)?;
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
            position = block_end;
        }
        Ok(())
    }
}

impl<'a> Bundle<'a> {
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

    /// Returns the code object of an entry (given by its index), which is one range of the bundle.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) unless the bundle is plain or was inflated as a whole, and
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if it does not hold all of the code object.
    pub(crate) fn content(&self, index: usize) -> Result<Slice<'_>> {
        let data = match &self.body {
            Body::Plain { data, .. } => *data,
            Body::Inflated { input, .. } => input.as_slice(),
            Body::Stream { .. } => return Err(Error::internal("the bundle is not inflated")),
        };
        data.claimed(&self.range_of(index)?)
    }

    /// Copies code objects from `data`, the (inflated) bundle.
    fn copy_entries<S: Sink>(&self, data: Slice<'_>, wanted: &mut [(usize, &mut S)]) -> Result<()> {
        for (index, output) in wanted {
            self.entry(*index)?.copy_parts(data, *output)?;
        }
        Ok(())
    }
}

/// An iterator over the bundles of a file, in file order. An error ends the walk, unless it is inside a compressed
/// bundle that records its size: the next bundle begins after that.
pub struct Bundles<'a, E = Entry> {
    data: Slice<'a>,
    container: &'a dyn Container<Entry = E>,
    inflate: Inflate,
    pub(crate) limits: Limits,
    pub(crate) next: NextBundle<'a>,
    /// The offset of the data that ended the walk because it is not a bundle, or `None` while there is no such data.
    stopped_at: Option<u64>,
}

/// The position of the next bundle.
pub(crate) enum NextBundle<'a> {
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
        Self { data, container, inflate, limits, next, stopped_at: None }
    }

    /// Sets the limits for compressed bundles. By default, a bundle may inflate to its recorded size.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the offset of data that is not a bundle and ended the walk, or `None` if the walk met no such data.
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        self.stopped_at
    }

    /// Returns the position of the next bundle, after the padding before it, or `None` if no bundle follows. Resets
    /// `self.next`, so that the walk ends after this bundle unless reading it finds where the next one begins.
    pub(crate) fn next_position(&mut self) -> Result<Option<u64>> {
        let end = match std::mem::replace(&mut self.next, NextBundle::Nowhere) {
            NextBundle::Nowhere => return Ok(None),
            // Padding is between bundles; a file does not begin with it.
            NextBundle::At(0) => return Ok(Some(0)),
            NextBundle::At(position) => Some(position),
            NextBundle::After(position, compressed) => position.checked_add(compressed.stored_len()?),
        };
        Ok(end.and_then(|end| self.skip_padding(end)))
    }

    /// Reads the bundle at `position`. Returns `None` if no bundle is there.
    ///
    /// Sets `self.next` to the end of this bundle, also if it is broken inside a compressed container of known length.
    fn read_at(&mut self, position: u64) -> Result<Option<Bundle<'a, E>>> {
        let Some(data) = self.rest(position) else { return Ok(None) };
        let Some(compressed) = self.container.compressed(data, self.limits)? else {
            return self.read_plain(position, data);
        };
        let bundle = self.read_compressed(&compressed);
        self.go_on_after(position, compressed, bundle.is_ok());
        bundle.map(Some)
    }

    /// Lets the walk go on after a compressed bundle, unless it is broken and its length is not known.
    pub(crate) fn go_on_after(&mut self, position: u64, compressed: Compressed<'a>, is_sound: bool) {
        if is_sound || compressed.recorded().total.is_some() {
            self.next = NextBundle::After(position, compressed);
        }
    }

    /// Reads the bundle at the start of `data`, which begins at `position`, if a bundle is there that is not compressed.
    /// Otherwise, the walk ends here.
    pub(crate) fn read_plain(&mut self, position: u64, data: Slice<'a>) -> Result<Option<Bundle<'a, E>>> {
        // In a format whose bundles do not repeat, a plain bundle is the whole file.
        let contents = if position > 0 && !self.container.repeats() {
            None
        } else {
            self.container.read(data.bytes(), data.len(), data.offset()).with_path(data.path())?
        };
        let Some(contents) = contents else {
            if !data.is_empty() {
                self.stopped_at = Some(data.offset());
            }
            return Ok(None);
        };
        // After a bundle of no length, the walk would find the same bundle again.
        if contents.len > 0
            && let Some(end) = position.checked_add(contents.len)
        {
            self.next = NextBundle::At(end);
        }
        Ok(Some(Bundle::plain(data, contents)))
    }

    /// Reads a compressed bundle by its beginning if the mode allows that and the beginning is enough. Otherwise,
    /// inflates it as a whole.
    pub(crate) fn read_compressed(&self, compressed: &Compressed<'a>) -> Result<Bundle<'a, E>> {
        if self.inflate == Inflate::Headers {
            // A walk over headers reports where each bundle ends, so a bundle without an end is an error here.
            compressed.stored_len()?;
        }
        if self.may_read_prefix(compressed)
            && let Some(bundle) = self.read_by_prefix(compressed)?
        {
            return Ok(bundle);
        }
        self.read_inflated(compressed, compressed.inflate_whole()?)
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

    /// Reads a compressed bundle that was inflated as a whole.
    pub(crate) fn read_inflated(
        &self,
        compressed: &Compressed<'a>,
        (input, inflation): (Input, Inflation),
    ) -> Result<Bundle<'a, E>> {
        let (offset, recorded) = (compressed.offset(), Some(*compressed.recorded()));
        let contents = self.container.read(input.bytes(), input.len(), 0);
        let contents = contents.map_err(|inner| compressed.inside(inner)).with_path(self.data.path())?;
        let Contents { entries, len: inflated_len, faults } = contents.unwrap_or(empty_contents());
        let stored_len = compressed.stored_len()?;
        let (inflation, body) = (Some(inflation), Body::Inflated { input, stored_len });
        Ok(Bundle { offset, inflated_len, entries, faults, compressed: recorded, inflation, body })
    }

    /// Whether the walk may inflate only the beginning of a compressed bundle.
    pub(crate) fn may_read_prefix(&self, compressed: &Compressed<'_>) -> bool {
        // Binary bundles repeat in a file, and list their entries at the start. Text bundles and fat objects may have
        // entries anywhere in the data.
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
    pub(crate) fn rest(&self, position: u64) -> Option<Slice<'a>> {
        self.data.slice(position, self.data.len().checked_sub(position)?)
    }

    /// Returns the first position from `position` on that is not a zero, or `None` if only zeros follow.
    pub(crate) fn skip_padding(&self, position: u64) -> Option<u64> {
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
            return position.checked_add(u64::try_from(zeros).ok()?);
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
        match self.next_position() {
            Ok(position) => self.read_at(position?).transpose(),
            Err(error) => Some(Err(error)),
        }
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
        assert_eq!(ids(&[&a[..], b"something else", &b].concat()), ["a"]);
        assert_eq!(ids(&[&padding[..], &a].concat()), [""; 0]);
        assert_eq!(ids(b""), [""; 0]);
    }

    /// Extracts the code object of an entry of a large compressed bundle to a file, and returns its bytes.
    fn extract(file: &[u8], id: &str) -> Result<Vec<u8>> {
        let binary = Binary::default();
        let bundle = Bundles::new(file, &binary, Inflate::AsNeeded).next().unwrap()?;
        assert!(matches!(bundle.body, Body::Stream { .. }));
        let index = bundle.entries.iter().position(|entry| entry.id == id.as_bytes()).unwrap();
        let out = tempfile::NamedTempFile::new().unwrap();
        let mut output = Output::stage(out.path())?;
        bundle.extract(&mut [(index, &mut output)])?;
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
            assert_eq!(bundles.next().unwrap().unwrap().entries[0].id, b"next");
            assert!(bundles.next().is_none() && bundles.stopped_at().is_none());
        }
        // Bundles after a broken one of unknown length cannot be found.
        let cut = &file[..v1.len() - 1];
        for inflate in [Inflate::AsNeeded, Inflate::Headers, Inflate::Whole] {
            assert_eq!(Bundles::new(cut, &binary, inflate).filter(Result::is_err).count(), 1, "{inflate:?}");
        }
    }
}
