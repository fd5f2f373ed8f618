//! Compresses and inflates containers that consist of a header and one zlib or zstd stream.
//!
//! [`super::compressed`] (CCOB) and [`super::offload_binary`] (version 3) read and write the headers; this module has
//! the common part. An inflated container is the input of a reader of the plain format: the inflated bytes of the
//! stream, after those of the header if the format keeps it outside the stream.
//!
//! Rejected: a stream that its decoder refuses, that inflates to more or fewer bytes than recorded, or that is followed
//! by other bytes; a hash that does not match; a method that was left out when the library was built.
#![cfg_attr(
    not(all(feature = "zlib", feature = "zstd")),
    allow(
        dead_code,
        unreachable_code,
        unused_imports,
        unused_variables,
        reason = "a method that is left out uses nothing"
    )
)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[cfg(feature = "zlib")]
use flate2::{read::ZlibDecoder, write::ZlibEncoder};
#[cfg(feature = "zstd")]
use zstd::stream::raw::{CParameter, Encoder as ZstdEncoder, Operation};

use super::hash::Hasher;
use crate::bytes::{len_u64, slice, to_u64};
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::io::input::{Input, Slice};
use crate::io::meter::{Meter, emit};
use crate::io::piece::{Piece, Writer, total_len};

/// The zstd windows that can be selected, as powers of two of bytes.
pub const WINDOW_LOGS: RangeInclusive<u32> = 10..=31;

/// The largest zstd window on this machine: with 32-bit addresses, zstd has no room for more.
const WINDOW_LOG_MAX: u32 = if usize::BITS < 64 { 30 } else { *WINDOW_LOGS.end() };

/// The smallest zstd table for long-distance matching.
const LDM_HASH_LOG_MIN: u32 = 6;

/// The window of LLVM 22.1.8: zstd's default for long-distance matching. Smaller windows are only used on request,
/// because zstd limits the window to the size of the data anyway.
const WINDOW_LOG_LLVM: u32 = 27;

/// The largest window that is written by default. A streaming decoder needs this much memory.
const WINDOW_LOG_DEFAULT_MAX: u32 = 30;

/// The bytes that one thread compresses at a time; less data is compressed in one go. Smaller jobs make the stream
/// larger, larger ones make threads wait.
const JOB: u32 = 128 << 20;

/// The maximum number of threads: more need more memory, and builds run several processes anyway.
const THREADS_MAX: u32 = 4;

/// The level above which each thread takes hundreds of megabytes.
const LEVEL_OF_MUCH_MEMORY: i32 = 15;

/// The length of the bytes before the stream's in an inflated container: the header of an offload binary of version 3,
/// the only format with such a prefix.
pub(super) const PREFIX_LEN: usize = 40;

/// How a container is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// zlib.
    Zlib,
    /// zstd.
    Zstd,
}

impl Method {
    /// The method with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Zlib, Self::Zstd].into_iter().find(|method| method.name() == name)
    }

    /// The name of the method.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// The error for a method that was left out when the library was built.
    #[cfg_attr(all(feature = "zlib", feature = "zstd"), allow(dead_code, reason = "none is left out"))]
    pub(crate) const fn left_out(self) -> &'static str {
        match self {
            Self::Zlib => "zlib is missing: this program was built without the feature 'zlib' of offload_bundle",
            Self::Zstd => "zstd is missing: this program was built without the feature 'zstd' of offload_bundle",
        }
    }

    /// The same for a container at `offset`.
    #[cfg_attr(all(feature = "zlib", feature = "zstd"), allow(dead_code, reason = "none is left out"))]
    pub(super) fn left_out_of(self, what: &str, offset: u64) -> Malformed {
        let text = format!("{what} at offset {offset}: {}", self.left_out());
        Malformed::other(ErrorKind::Unsupported, offset, text)
    }

    /// The levels of the method, in its own scale.
    pub fn levels(self) -> RangeInclusive<i32> {
        match self {
            Self::Zlib => 0..=9,
            Self::Zstd => -131_072..=22,
        }
    }

    /// The default level.
    pub const fn default_level(self) -> i32 {
        match self {
            // The level that `-1` selects in zlib; zlib-rs requires the number.
            Self::Zlib => 6,
            Self::Zstd => 3,
        }
    }
}

/// The recorded fields of a compressed container's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The name of the container in messages.
    pub what: &'static str,
    /// The version of its format.
    pub version: u32,
    /// The method of the stream.
    pub method: Method,
    /// The size of header and stream in bytes, if recorded.
    pub total: Option<u64>,
    /// The size of the inflated container in bytes.
    pub inflated: u64,
    /// The first 8 bytes of the MD5 of the inflated container, as a little-endian number, if there is a hash.
    pub hash: Option<u64>,
}

impl Recorded {
    /// Whether the end of the stream is found only by inflating all of it: a frame of zstd records its blocks, a stream of
    /// zlib does not.
    pub(crate) fn has_no_end(&self) -> bool {
        self.total.is_none() && self.method == Method::Zlib
    }
}

/// A compressed container in an input.
#[derive(Clone, Debug)]
pub struct Compressed<'a> {
    pub(super) recorded: Recorded,
    /// The offset of the container in its input.
    pub(super) offset: u64,
    pub(super) header_len: u64,
    /// The bytes before the stream's in the inflated container.
    pub(super) prefix: Option<[u8; PREFIX_LEN]>,
    /// The stream; if its length is not recorded, all data after the header.
    pub(super) body: Slice<'a>,
    /// The length of the stream in bytes. If it is not recorded, the first inflation to the end of the stream sets it.
    pub(super) stream_len: Arc<OnceLock<u64>>,
}

impl<'a> Compressed<'a> {
    /// The recorded header.
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// The offset of the header in its input.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The size of header and stream in bytes. A zlib stream under a header of version 1 is inflated to find its
    /// length, unless it was inflated before.
    ///
    /// # Errors
    /// Those of inflating the stream.
    pub fn stored_len(&self) -> Result<u64> {
        Ok(self.header_len.saturating_add(self.stream_len()?))
    }

    fn stream_len(&self) -> Result<u64> {
        if let Some(known) = self.stream_len.get() {
            return Ok(*known);
        }
        let mut inflater = self.inflate(false)?;
        let mut buffer = vec![0; 1 << 17];
        let mut read = inflater.next(&mut buffer);
        while matches!(read, Ok(1..)) {
            read = inflater.next(&mut buffer);
        }
        // A stream shorter than recorded has an end all the same.
        match self.stream_len.get() {
            Some(found) => Ok(*found),
            None => Err(read.err().unwrap_or_else(|| {
                let (what, reason) = (self.recorded.what, "its stream has no end".to_owned());
                self.malformed(Malformed::Compressed { what, offset: self.offset, reason })
            })),
        }
    }

    /// A reader of the inflated bytes. Reading to the end checks the recorded sizes and, with `hash`, the recorded
    /// hash.
    pub(crate) fn inflate(&self, hash: bool) -> Result<Inflater<'a>> {
        Inflater::new(self.clone(), hash)
    }

    /// Inflates all bytes, checks sizes and hash, and returns them with statistics.
    pub(crate) fn inflate_whole(&self) -> Result<(Input, Inflation)> {
        let started = Instant::now();
        let mut inflater = self.inflate(true)?;
        let read = Input::spool(self.body.path(), &mut inflater);
        if let Some(error) = inflater.failure.take() {
            return Err(error);
        }
        let input = read.with_path(self.body.path())?;
        let (recorded, stream_len) = (self.recorded, self.stream_len()?);
        Ok((input, Inflation { recorded, stream_len, elapsed: started.elapsed() }))
    }

    /// Wraps an error in the inflated bytes with the location of the container.
    pub(super) fn inside(&self, inner: Malformed) -> Malformed {
        Malformed::Inflated { what: self.recorded.what, offset: self.offset, inner: Box::new(inner) }
    }

    fn malformed(&self, malformed: Malformed) -> Error {
        Error::malformed(self.body.path(), malformed)
    }
}

/// Statistics of an inflation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Inflation {
    /// The header of the compressed container.
    pub recorded: Recorded,
    /// The size of the stream without the header, in bytes.
    pub stream_len: u64,
    /// The time taken by inflating and hashing.
    pub elapsed: Duration,
}

/// The largest window (as a power of two) that a stream may use, which the decoder needs memory for: the one that every
/// decoder accepts, or one that holds the whole inflated size.
pub(super) fn window_log_believed(inflated: u64) -> u32 {
    let whole = inflated.checked_next_power_of_two().map_or(u32::MAX, u64::ilog2);
    whole.clamp(WINDOW_LOG_LLVM, WINDOW_LOG_MAX)
}

/// The decoder of a method.
trait Decoder: Read {
    /// The number of stream bytes decoded. None if the decoder itself refuses data after its stream.
    fn decoded(&self) -> Option<u64>;
}

#[cfg(feature = "zlib")]
impl<R: Read> Decoder for ZlibDecoder<R> {
    fn decoded(&self) -> Option<u64> {
        Some(self.total_in())
    }
}

#[cfg(feature = "zstd")]
impl<R: io::BufRead> Decoder for zstd::Decoder<'_, R> {
    fn decoded(&self) -> Option<u64> {
        None
    }
}

fn decoder<'a>(source: &Compressed<'a>) -> Result<Box<dyn Decoder + 'a>> {
    let reader = source.body.reader();
    Ok(match source.recorded.method {
        #[cfg(feature = "zlib")]
        Method::Zlib => Box::new(ZlibDecoder::new(reader)),
        #[cfg(feature = "zstd")]
        Method::Zstd => {
            let mut decoder = zstd::Decoder::new(reader).with_path(source.body.path())?;
            let window_log = window_log_believed(source.recorded.inflated);
            decoder.window_log_max(window_log).with_path(source.body.path())?;
            Box::new(decoder)
        }
        #[cfg(not(all(feature = "zlib", feature = "zstd")))]
        method => {
            return Err(source.malformed(method.left_out_of(source.recorded.what, source.offset)));
        }
    })
}

/// A reader that inflates a compressed container and checks it against its header.
pub(crate) struct Inflater<'a> {
    source: Compressed<'a>,
    decoder: Box<dyn Decoder + 'a>,
    produced: u64,
    hash: Option<Hasher>,
    /// The cause of the last failed `read`, which could only return an [`io::Error`].
    failure: Option<Error>,
}

impl<'a> Inflater<'a> {
    fn new(source: Compressed<'a>, hash: bool) -> Result<Self> {
        let decoder = decoder(&source)?;
        let hash = (hash && source.recorded.hash.is_some()).then(|| Hasher::new(source.recorded.inflated));
        Ok(Self { source, decoder, produced: 0, hash, failure: None })
    }

    /// Reads the next inflated bytes; returns 0 at the end, after the checks.
    pub(crate) fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = match self.rest_of_prefix() {
            Some(prefix) => {
                let count = prefix.len().min(buffer.len());
                buffer.iter_mut().zip(prefix).for_each(|(to, from)| *to = *from);
                count
            }
            None => self.decode(buffer)?,
        };
        if count == 0 && !buffer.is_empty() {
            self.check_end()?;
            return Ok(0);
        }
        self.produced = self.produced.saturating_add(to_u64(count));
        if self.produced > self.source.recorded.inflated {
            return Err(self.size_error(format!("at least {}", self.produced)));
        }
        if let (Some(hash), Some(data)) = (&mut self.hash, buffer.get(..count)) {
            hash.update(data);
        }
        Ok(count)
    }

    /// The unread part of the prefix.
    fn rest_of_prefix(&self) -> Option<&[u8]> {
        let prefix = self.source.prefix.as_ref()?;
        let left = len_u64(prefix).checked_sub(self.produced).filter(|&left| left > 0)?;
        slice(prefix, self.produced, left)
    }

    fn decode(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.decoder.read(buffer).map_err(|error| self.stream_error(error))
    }

    /// Extends `buffer` to `want` bytes, or to the end of the data. Returns whether the data ends there.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, want: usize) -> Result<bool> {
        let mut filled = buffer.len();
        buffer.resize(want.max(filled), 0);
        let mut ended = false;
        while let Some(space) = buffer.get_mut(filled..).filter(|space| !space.is_empty() && !ended) {
            let count = self.next(space)?;
            ended = count == 0;
            filled = filled.saturating_add(count);
        }
        buffer.truncate(filled);
        Ok(ended)
    }

    fn check_end(&mut self) -> Result<()> {
        let Recorded { inflated, hash: recorded, .. } = self.source.recorded;
        let ends = self.decoder.decoded().map(|actual| (*self.source.stream_len.get_or_init(|| actual), actual));
        if self.produced != inflated {
            return Err(self.size_error(self.produced.to_string()));
        }
        if let Some((recorded, actual)) = ends.filter(|(recorded, actual)| recorded != actual) {
            let [recorded, actual] = [recorded, actual].map(|len| len.saturating_add(self.source.header_len));
            return Err(self.wrong(format!("the total size is recorded as {recorded} bytes, but is {actual}")));
        }
        match (self.hash.take().map(Hasher::finish).transpose()?, recorded) {
            (Some(actual), Some(recorded)) if actual != recorded => {
                Err(self.wrong(format!("the recorded hash is {recorded:#018x}, but the data gives {actual:#018x}")))
            }
            _ => Ok(()),
        }
    }

    fn size_error(&self, actual: String) -> Error {
        let recorded = self.source.recorded.inflated;
        self.wrong(format!("the inflated size is recorded as {recorded} bytes, but is {actual}"))
    }

    fn stream_error(&self, error: io::Error) -> Error {
        if error.raw_os_error().is_some() {
            return Error::io(self.source.body.path(), error);
        }
        let method = self.source.recorded.method.name();
        self.wrong(format!("the {method} stream is broken after {} inflated bytes: {error}", self.produced))
    }

    fn wrong(&self, reason: String) -> Error {
        let (what, offset) = (self.source.recorded.what, self.source.offset);
        self.source.malformed(Malformed::Compressed { what, offset, reason })
    }
}

impl Read for Inflater<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            io::Error::other(text)
        })
    }
}

/// Settings for compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compression {
    /// The method.
    pub method: Method,
    /// The level in the method's own scale, clamped to [`Method::levels`] as in LLVM.
    pub level: i32,
    /// The largest zstd window, as a power of two of bytes, in [`WINDOW_LOGS`]. Streaming decoders keep a whole window
    /// in memory, and refuse more than 27 by default.
    pub window_log_max: u32,
}

impl Default for Compression {
    /// zstd at its default level.
    fn default() -> Self {
        Self::of(Method::Zstd)
    }
}

impl Compression {
    /// The default settings of a method.
    pub const fn of(method: Method) -> Self {
        Self { method, level: method.default_level(), window_log_max: WINDOW_LOG_DEFAULT_MAX }
    }
}

/// Writes the pieces as one stream that starts at `start`. Returns its length in bytes.
///
/// The result depends only on the pieces and the settings, not on the machine or its number of threads.
pub(super) fn deflate<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    start: u64,
    to: &mut Writer<'_, W>,
    meter: &mut Meter<'_>,
) -> Result<u64> {
    let path = to.path;
    to.seek(SeekFrom::Start(start))?;
    match compression.method {
        #[cfg(feature = "zstd")]
        Method::Zstd => {
            let encoder = zstd_encoder(pieces, total_len(pieces)?, compression).with_path(path)?;
            let mut sink = Writer { out: zstd::Encoder::with_encoder(&mut to.out, encoder), path };
            emit(pieces, &mut sink, meter)?;
            sink.out.finish().with_path(path)?;
        }
        #[cfg(feature = "zlib")]
        Method::Zlib => {
            let level = u32::try_from(compression.level.clamp(0, 9)).unwrap_or_default();
            let encoder = ZlibEncoder::new(&mut to.out, flate2::Compression::new(level));
            let mut sink = Writer { out: encoder, path };
            emit(pieces, &mut sink, meter)?;
            sink.out.finish().with_path(path)?;
        }
        #[cfg(not(all(feature = "zlib", feature = "zstd")))]
        method => return Err(Error::Usage(method.left_out())),
    }
    let end = to.seek(SeekFrom::Current(0))?;
    end.checked_sub(start).ok_or(Error::Internal("the compressed data ends before its start"))
}

/// A zstd encoder with long-distance matching, as in LLVM 22.1.8. Data for more than one thread gets settings that were
/// found to make bundles smaller: a window that reaches from one code object to the previous one, more memory for
/// finding matches that far, and, at the default level, tables of twice the size.
#[cfg(feature = "zstd")]
fn zstd_encoder(pieces: &[Piece<'_>], total: u64, compression: &Compression) -> io::Result<ZstdEncoder<'static>> {
    if total <= u64::from(JOB) {
        return zstd_encoder_with(0, pieces, total, compression);
    }
    let most = if compression.level > LEVEL_OF_MUCH_MEMORY { 2 } else { THREADS_MAX };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads = u32::try_from(threads).unwrap_or(most).min(most);
    loop {
        let mut encoder = zstd_encoder_with(threads, pieces, total, compression)?;
        // The encoder starts its threads now, or fails if the system has none.
        match encoder.run_on_buffers(&[], &mut []) {
            Err(_) if threads > 0 => threads /= 2,
            started => return started.map(|_| encoder),
        }
    }
}

/// Without extra threads the stream differs a little: it is not split into jobs.
#[cfg(feature = "zstd")]
fn zstd_encoder_with(
    threads: u32,
    pieces: &[Piece<'_>],
    total: u64,
    compression: &Compression,
) -> io::Result<ZstdEncoder<'static>> {
    let mut encoder = ZstdEncoder::new(compression.level)?;
    encoder.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
    // One-shot decoders need the size in the frame.
    encoder.set_pledged_src_size(Some(total))?;
    let window_log = window_log(pieces).min(compression.window_log_max).min(WINDOW_LOG_MAX);
    encoder.set_parameter(CParameter::WindowLog(window_log))?;
    if total <= u64::from(JOB) {
        return Ok(encoder);
    }
    encoder.set_parameter(CParameter::LdmHashLog(window_log.saturating_sub(6).max(LDM_HASH_LOG_MIN)))?;
    if compression.level == Method::Zstd.default_level() {
        encoder.set_parameter(CParameter::HashLog(18))?;
        encoder.set_parameter(CParameter::ChainLog(17))?;
    }
    if threads > 0 {
        encoder.set_parameter(CParameter::JobSize(JOB))?;
        encoder.set_parameter(CParameter::NbWorkers(threads))?;
    }
    Ok(encoder)
}

/// The window (as a power of two) with which each code object can refer to the same place in the previous one, give or
/// take an eighth of its size.
fn window_log<'p>(pieces: impl IntoIterator<Item = &'p Piece<'p>>) -> u32 {
    let code_object = |piece: &Piece<'_>| matches!(piece, Piece::Input(slice) if !slice.is_empty());
    window_log_of(pieces.into_iter().map(|piece| (piece.len(), code_object(piece))))
}

/// The same for pairs of a length in bytes and whether it is that of a code object.
fn window_log_of(pieces: impl Iterator<Item = (u64, bool)>) -> u32 {
    let mut position = 0_u64;
    let mut previous: Option<(u64, u64)> = None;
    let mut reach = 0;
    for (len, is_code_object) in pieces {
        let start = position;
        position = position.saturating_add(len);
        if !is_code_object {
            continue;
        }
        // A code object much smaller than its neighbour has little to gain from it.
        if let Some((before, _)) = previous.filter(|(_, before_len)| len >= before_len / 4) {
            reach = reach.max(start.saturating_sub(before).saturating_add(len / 8));
        }
        previous = Some((start, len));
    }
    let log = reach.checked_next_power_of_two().map_or(u32::MAX, u64::ilog2);
    log.max(WINDOW_LOG_LLVM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_reaches_the_code_object_before() {
        const M: u64 = 1 << 20;
        let log = |lens: &[u64]| window_log_of(lens.iter().map(|&len| (len, len > 0)));
        assert_eq!(log(&[]), 27);
        assert_eq!(log(&[1, 1, 1]), 27);
        assert_eq!(log(&[0, 180 * M, 180 * M]), 28);
        assert_eq!(log(&[180 * M, 1]), 27);
        assert_eq!(log(&[300 * M, 200 * M]), 29);
        assert_eq!(log(&[1, 800 * M]), 27);
        assert_eq!(window_log_of([(180 * M, true), (100 * M, false), (180 * M, true)].into_iter()), 29);
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn the_levels_are_those_of_zstd() {
        assert_eq!(Method::Zstd.levels(), zstd::compression_level_range());
    }

    #[test]
    fn windows_are_believed_up_to_what_all_decoders_take_or_the_stream_needs() {
        for (inflated, log) in
            [(0, 27), (1 << 27, 27), ((1 << 27) + 1, 28), (1 << 31, WINDOW_LOG_MAX), (u64::MAX, WINDOW_LOG_MAX)]
        {
            assert_eq!(window_log_believed(inflated), log, "{inflated}");
        }
    }

    #[test]
    #[cfg(feature = "zstd")]
    #[cfg_attr(miri, ignore = "compresses")]
    fn every_window_can_be_asked_for() {
        let data = Piece::Zeros(u64::from(JOB) + 1);
        for window_log_max in [10, 11, 31] {
            let compression = Compression { window_log_max, ..Compression::of(Method::Zstd) };
            assert!(zstd_encoder(std::slice::from_ref(&data), data.len(), &compression).is_ok(), "{window_log_max}");
        }
    }
}
