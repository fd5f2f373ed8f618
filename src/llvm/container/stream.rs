//! Inflates containers that consist of a header and one zlib or zstd stream.
//!
//! [`super::compressed`] (CCOB) and [`super::offload_binary`] (version 3) read and write the headers; this module has
//! the common part of reading. A reader of the plain format reads the inflated container: the inflated stream, after
//! the bytes of the header if the format keeps its header outside the stream.
//!
//! Rejected: a stream that its decoder refuses, that inflates to more or fewer bytes than recorded, or that is followed
//! by other bytes; a hash that does not match; a method that was left out when the library was built.

use std::fmt::Display;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::base::bytes::{add, tail, to_u64};
use crate::base::codec::Decoder;
use crate::base::codec::hash::Hasher;
pub use crate::base::codec::{Compression, Method, WINDOW_LOGS};
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};

/// The highest ratio of inflated to stored bytes for which memory is reserved before a stream is inflated.
const RATIO_EXPECTED: u64 = 64;

/// The length of the prefix of an inflated container: bytes that belong before the inflated stream. Only offload
/// binaries of version 3 have a prefix, their header.
pub(crate) const PREFIX_LEN: usize = 40;

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

/// A compressed container in an input.
#[derive(Clone, Debug)]
pub struct Compressed<'a> {
    pub(crate) recorded: Recorded,
    /// The offset of the container in its input.
    pub(crate) offset: u64,
    pub(crate) header_len: u64,
    /// The bytes that belong before the inflated stream, or `None` in formats without a prefix.
    pub(crate) prefix: Option<[u8; PREFIX_LEN]>,
    /// The stream; if its length is not recorded, all data after the header.
    pub(crate) body: Slice<'a>,
    /// The length of the stream in bytes. If it is not recorded, the first inflation to the end of the stream sets it.
    pub(crate) stream_len: Arc<OnceLock<u64>>,
}

/// Whether inflating compares the recorded hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashCheck {
    /// The bytes are hashed, and compared with the recorded hash at the end.
    Compare,
    /// The bytes are not hashed.
    Skip,
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

    /// The size of header and stream in bytes. A zlib stream after a header of version 1 is inflated to find its
    /// length, unless it was inflated before.
    ///
    /// # Errors
    /// The errors of inflating the stream.
    pub fn stored_len(&self) -> Result<u64> {
        Ok(self.header_len.saturating_add(self.stream_len()?))
    }

    /// Returns the length of the stream in bytes. If it is neither recorded nor found before, inflates the stream to
    /// its end.
    fn stream_len(&self) -> Result<u64> {
        if let Some(known) = self.stream_len.get() {
            return Ok(*known);
        }
        let mut inflater = self.inflate(HashCheck::Skip)?;
        // Reading the end sets `self.stream_len`. The copy's own error is less exact than `inflater.failure`.
        drop(io::copy(&mut inflater, &mut io::sink()));
        // If the stream inflates to fewer bytes than recorded, reading fails, but the end has been found.
        match (self.stream_len.get(), inflater.failure) {
            (Some(found), _) => Ok(*found),
            (None, Some(error)) => Err(error),
            // Not expected: reading ends with an error, or at the end of the stream.
            (None, None) => {
                Err(self.malformed(Malformed::compressed(self.recorded.what, self.offset, "its stream has no end")))
            }
        }
    }

    /// A reader of the inflated bytes. Reading to the end checks the recorded sizes and, if `check` says so, the
    /// recorded hash.
    pub(crate) fn inflate(&self, check: HashCheck) -> Result<Inflater<'a>> {
        let Recorded { what, method, inflated, .. } = self.recorded;
        Ok(self.inflate_by(method.open(self.body, inflated, what, self.offset)?, check))
    }

    /// Like [`inflate`](Self::inflate), with this decoder of the stream.
    pub(crate) fn inflate_by(&self, decoder: Decoder<'a>, check: HashCheck) -> Inflater<'a> {
        let Recorded { inflated, hash: recorded, .. } = self.recorded;
        let hash = if check == HashCheck::Compare && recorded.is_some() { Some(Hasher::new(inflated)) } else { None };
        let (block, block_at) = (Vec::new(), 0);
        Inflater { source: self.clone(), decoder, block, block_at, produced: 0, hash, failure: None }
    }

    /// Inflates the container, checks its sizes and its hash, and returns all its bytes with statistics.
    pub(crate) fn inflate_whole(&self) -> Result<(Input, Inflation)> {
        let started = Instant::now();
        let input = self.read_up_to(u64::MAX, self.inflate(HashCheck::Compare)?)?;
        let (recorded, stream_len) = (self.recorded, self.stream_len()?);
        Ok((input, Inflation { recorded, stream_len, elapsed: started.elapsed() }))
    }

    /// Returns at most `most` inflated bytes. Sizes and hash are checked only if the container ends before that.
    pub(crate) fn read_up_to(&self, most: u64, mut inflater: Inflater<'a>) -> Result<Input> {
        // The recorded size is only a claim, so memory is reserved for no more than the stored bytes make likely.
        let expected = self.recorded.inflated.min(self.body.len().saturating_mul(RATIO_EXPECTED));
        let read = Input::spool_of(self.body.path(), inflater.by_ref().take(most), expected);
        // The error in `read` is only the text of this one.
        if let Some(error) = inflater.failure.take() {
            return Err(error);
        }
        read.with_path(self.body.path())
    }

    /// Adds the location of this container to a fault in its inflated bytes.
    pub(crate) fn inside(&self, inner: Malformed) -> Malformed {
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

/// The number of bytes that the decoder is asked for at a time.
const BLOCK: usize = 8 << 10;

/// A reader that inflates a compressed container and checks it against its header.
pub(crate) struct Inflater<'a> {
    source: Compressed<'a>,
    decoder: Decoder<'a>,
    /// The last inflated block, for a reader whose buffer is smaller than a block.
    block: Vec<u8>,
    /// The number of bytes of `block` that the reader has taken.
    block_at: usize,
    /// The number of bytes of the inflated container, prefix included, that readers have taken.
    produced: u64,
    hash: Option<Hasher>,
    /// The cause of the last failed `read`, which could only return an [`io::Error`].
    failure: Option<Error>,
}

impl Inflater<'_> {
    /// Reads the next inflated bytes and returns their number. At the end, checks sizes and hash and returns 0.
    pub(crate) fn next(&mut self, buffer: &mut [u8]) -> Result<usize> {
        // The prefix comes before the bytes of the stream, which do not include it.
        let count = match self.rest_of_prefix() {
            Some(mut prefix) => prefix.read(buffer).map_err(|error| self.stream_error(error))?,
            None => match self.read_block(buffer) {
                Ok(count) => count,
                Err(error) => return Err(self.stream_error(error)),
            },
        };
        if count == 0 && !buffer.is_empty() {
            self.check_end()?;
            return Ok(0);
        }
        add(&mut self.produced, to_u64(count));
        if self.produced > self.source.recorded.inflated {
            return Err(self.size_error(format!("at least {}", self.produced)));
        }
        if let (Some(hash), Some(data)) = (&mut self.hash, buffer.get(..count)) {
            hash.update(data);
        }
        Ok(count)
    }

    /// Reads from the stream. The decoder always gets a buffer of [`BLOCK`] bytes, whatever the size of `buffer`. So
    /// all readers report the same number of inflated bytes before a broken part.
    fn read_block(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block_at >= self.block.len() {
            if let Some(buffer) = buffer.get_mut(..BLOCK) {
                return self.decoder.read(buffer);
            }
            let mut block = std::mem::take(&mut self.block);
            block.resize(BLOCK, 0);
            let count = self.decoder.read(&mut block)?;
            block.truncate(count);
            (self.block, self.block_at) = (block, 0);
        }
        let mut rest = self.block.get(self.block_at..).unwrap_or_default();
        let count = rest.read(buffer)?;
        self.block_at = self.block_at.saturating_add(count);
        Ok(count)
    }

    /// Returns the unread part of the prefix, or `None` if all of it was read.
    fn rest_of_prefix(&self) -> Option<&[u8]> {
        let rest = tail(self.source.prefix.as_ref()?, self.produced)?;
        if rest.is_empty() { None } else { Some(rest) }
    }

    /// Extends `buffer` to `want` bytes, or to the end of the data. Returns whether the data ends there.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, want: usize) -> Result<bool> {
        let mut filled = buffer.len();
        buffer.resize(want.max(filled), 0);
        let mut ended = false;
        while !ended
            && let Some(space) = buffer.get_mut(filled..)
            && !space.is_empty()
        {
            let count = self.next(space)?;
            ended = count == 0;
            filled = filled.saturating_add(count);
        }
        buffer.truncate(filled);
        Ok(ended)
    }

    /// Checks the sizes and the hash at the end of the stream.
    fn check_end(&mut self) -> Result<()> {
        let Recorded { inflated, hash: recorded, total, .. } = self.source.recorded;
        let actual_len = self.decoder.used();
        // A length that was neither recorded nor found before is now known for later calls.
        let expected_len = *self.source.stream_len.get_or_init(|| actual_len);
        if self.produced != inflated {
            return Err(self.size_error(self.produced.to_string()));
        }
        if expected_len != actual_len && total.is_none() {
            // The header has no total that could be wrong, so the body has bytes after the stream.
            return Err(self.broken("other bytes follow its end"));
        }
        if expected_len != actual_len {
            let [recorded, actual] = [expected_len, actual_len].map(|len| len.saturating_add(self.source.header_len));
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

    /// Converts an error of the decoder: an error of the system comes from the input, any other is a broken stream.
    fn stream_error(&self, error: io::Error) -> Error {
        if error.raw_os_error().is_some() {
            return Error::io(self.source.body.path(), error);
        }
        self.broken(error)
    }

    fn broken(&self, reason: impl Display) -> Error {
        let method = self.source.recorded.method.name();
        self.wrong(format!("the {method} stream is broken after {} inflated bytes: {reason}", self.produced))
    }

    fn wrong(&self, reason: String) -> Error {
        self.source.malformed(Malformed::compressed(self.source.recorded.what, self.source.offset, reason))
    }
}

impl Read for Inflater<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(|error| {
            // An `io::Error` has only the text, so the caller takes the error itself from `failure`.
            let text = error.to_string();
            self.failure = Some(error);
            io::Error::other(text)
        })
    }
}
