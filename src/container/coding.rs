//! Inflates files that are compressed as a whole: gzip, xz, bzip2 and zstd.
//!
//! Several compressed parts in a row are one file, as for the programs of these names. The decoders find wrong checksums.
//!
//! Rejected: what the decoder refuses; an xz file that needs more than 1 GiB of memory, and a zstd file with a window of
//! more than 128 MiB, which `zstd` writes only if asked for (`--long`).
#![cfg_attr(
    not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")),
    allow(unreachable_code, unused_variables, reason = "a method that is left out uses nothing")
)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::Cell;
use std::io::{self, BufRead, Read};
#[cfg(feature = "xz")]
use std::thread;

#[cfg(feature = "bzip2")]
use bzip2::bufread::BzDecoder;
#[cfg(feature = "zlib")]
use flate2::bufread::GzDecoder;
#[cfg(feature = "xz")]
use liblzma::stream::{Action, MtStreamBuilder, Status, Stream};
#[cfg(feature = "zstd")]
use zstd::stream::raw::Operation;

#[cfg(not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")))]
use super::stream::Method;
#[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
use crate::bytes::to_u64;

/// The memory of an xz decoder, in bytes: all of it, and that up to which it uses several threads. `xz -9` needs 65 MiB
/// for one thread.
#[cfg(feature = "xz")]
const XZ_MEMORY: (u64, u64) = (1 << 30, 256 << 20);

/// A method that compresses a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Xz,
    Bzip2,
    Zstd,
}

impl Coding {
    /// What a file of this method is called.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip file",
            Self::Xz => "xz file",
            Self::Bzip2 => "bzip2 file",
            Self::Zstd => "zstd file",
        }
    }

    /// The error for a method that was left out when the library was built.
    #[cfg(not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")))]
    const fn left_out(self) -> &'static str {
        match self {
            Self::Gzip => Method::Zlib.left_out(),
            Self::Xz => "xz is missing: this program was built without the feature 'xz' of offload_bundle",
            Self::Bzip2 => "bzip2 is missing: this program was built without the feature 'bzip2' of offload_bundle",
            Self::Zstd => Method::Zstd.left_out(),
        }
    }

    /// A reader of the inflated bytes of a file that begins with a compressed part. Other parts may follow, and zeros, with
    /// which tapes are padded to whole blocks. At anything else the reader ends, and `trailing` is the offset of that.
    pub(crate) fn inflate<'r>(
        self,
        reader: impl BufRead + 'r,
        trailing: &'r Cell<Option<u64>>,
    ) -> io::Result<Box<dyn Read + 'r>> {
        #[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
        let reader = CompressedBytes { reader, position: 0, trailing };
        Ok(match self {
            #[cfg(feature = "zlib")]
            Self::Gzip => Box::new(Parts(Some(GzDecoder::new(reader)))),
            #[cfg(feature = "xz")]
            Self::Xz => Box::new(Xz::new(reader)?),
            #[cfg(feature = "bzip2")]
            Self::Bzip2 => Box::new(Parts(Some(BzDecoder::new(reader)))),
            #[cfg(feature = "zstd")]
            Self::Zstd => Box::new(Zstd { reader, decoder: zstd::stream::raw::Decoder::new()?, is_in_frame: true }),
            #[cfg(not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")))]
            left_out => return Err(io::Error::other(left_out.left_out())),
        })
    }
}

/// The bytes of a file that are compressed.
#[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
struct CompressedBytes<'c, R> {
    reader: R,
    /// The number of bytes that were read.
    position: u64,
    trailing: &'c Cell<Option<u64>>,
}

#[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
impl<R: BufRead> CompressedBytes<'_, R> {
    /// Whether another part follows, after zeros or none. `begins` looks at its first bytes.
    fn goes_on(&mut self, begins: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
        loop {
            let rest = self.fill_buf()?;
            let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
            match zeros {
                0 if rest.is_empty() => return Ok(false),
                0 if begins(rest) => return Ok(true),
                0 => {
                    self.trailing.set(Some(self.position));
                    return Ok(false);
                }
                zeros => self.consume(zeros),
            }
        }
    }
}

#[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
impl<R: BufRead> Read for CompressedBytes<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
impl<R: BufRead> BufRead for CompressedBytes<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.position = self.position.saturating_add(to_u64(count));
        self.reader.consume(count);
    }
}

/// Whether data begins with a magic, or is the beginning of it where a buffer ends.
#[cfg(any(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd"))]
fn may_be(data: &[u8], magic: &[u8]) -> bool {
    data.iter().zip(magic).all(|(found, byte)| found == byte)
}

/// Whether data begins with a part of a bzip2 file: the size of its blocks, then a block or the end.
#[cfg(feature = "bzip2")]
fn begins_bzip2(data: &[u8]) -> bool {
    let (magic, rest) = data.split_at(data.len().min(3));
    let is_block = |rest| may_be(rest, b"1AY&SY") || may_be(rest, b"\x17\x72\x45\x38\x50\x90");
    may_be(magic, b"BZh") && rest.split_first().is_none_or(|(size, rest)| matches!(size, b'1'..=b'9') && is_block(rest))
}

/// Whether data begins with a frame, of which decoders skip some.
#[cfg(feature = "zstd")]
fn begins_frame(data: &[u8]) -> bool {
    may_be(data, &[0x28, 0xb5, 0x2f, 0xfd])
        || data.split_first().is_some_and(|(first, rest)| first & 0xf0 == 0x50 && may_be(rest, &[0x2a, 0x4d, 0x18]))
}

/// A decoder of one part.
#[cfg(any(feature = "bzip2", feature = "zlib"))]
trait Part: Read + Sized {
    /// Whether another part follows, at the end of this one.
    fn goes_on(&mut self) -> io::Result<bool>;
    /// The decoder of the next part.
    fn next(self) -> Self;
}

#[cfg(feature = "zlib")]
impl<R: BufRead> Part for GzDecoder<CompressedBytes<'_, R>> {
    fn goes_on(&mut self) -> io::Result<bool> {
        self.get_mut().goes_on(|rest| may_be(rest, b"\x1f\x8b\x08"))
    }

    fn next(self) -> Self {
        Self::new(self.into_inner())
    }
}

#[cfg(feature = "bzip2")]
impl<R: BufRead> Part for BzDecoder<CompressedBytes<'_, R>> {
    fn goes_on(&mut self) -> io::Result<bool> {
        self.get_mut().goes_on(begins_bzip2)
    }

    fn next(self) -> Self {
        Self::new(self.into_inner())
    }
}

/// A reader of all parts of a file.
#[cfg(any(feature = "bzip2", feature = "zlib"))]
struct Parts<D>(Option<D>);

#[cfg(any(feature = "bzip2", feature = "zlib"))]
impl<D: Part> Read for Parts<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let goes_on = decoder.goes_on()?;
            self.0 = self.0.take().filter(|_| goes_on).map(Part::next);
        }
        Ok(0)
    }
}

/// A reader of the frames of a zstd file.
#[cfg(feature = "zstd")]
struct Zstd<'c, R> {
    reader: CompressedBytes<'c, R>,
    decoder: zstd::stream::raw::Decoder<'static>,
    is_in_frame: bool,
}

#[cfg(feature = "zstd")]
impl<R: BufRead> Read for Zstd<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_in_frame && !self.reader.goes_on(begins_frame)? {
                break;
            }
            let input = self.reader.fill_buf()?;
            let is_end = input.is_empty();
            let status = self.decoder.run_on_buffers(input, buffer)?;
            self.reader.consume(status.bytes_read);
            self.is_in_frame = status.remaining > 0;
            if status.bytes_written > 0 {
                return Ok(status.bytes_written);
            }
            if is_end && self.is_in_frame {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// A reader of the streams of an xz file. The first one is inflated in parallel by its blocks, which have 24 MiB in packages
/// of Debian.
///
/// `liblzma`'s own reader takes a file that ends early for a whole one.
#[cfg(feature = "xz")]
struct Xz<'c, R> {
    reader: CompressedBytes<'c, R>,
    state: CoderState,
}

#[cfg(feature = "xz")]
enum CoderState {
    First(Stream),
    /// All streams after the first: to set up threads for each would take longer than to inflate it.
    Others(Stream),
    End,
}

#[cfg(feature = "xz")]
impl<'c, R: BufRead> Xz<'c, R> {
    fn new(reader: CompressedBytes<'c, R>) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let (all, threading) = XZ_MEMORY;
        let mut builder = MtStreamBuilder::new();
        builder.threads(threads).memlimit_stop(all).memlimit_threading(threading);
        Ok(Self { reader, state: CoderState::First(builder.decoder()?) })
    }
}

#[cfg(feature = "xz")]
impl<R: BufRead> Read for Xz<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let stream = match &mut self.state {
                CoderState::First(stream) | CoderState::Others(stream) => stream,
                CoderState::End => break,
            };
            let input = self.reader.fill_buf()?;
            let (is_end, action) = match input {
                [] => (true, Action::Finish),
                _ => (false, Action::Run),
            };
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = stream.process(input, buffer, action)?;
            let length = |to: u64, from: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            let (read, written) = (length(stream.total_in(), read), length(stream.total_out(), written));
            self.reader.consume(read);
            match status {
                Status::StreamEnd if self.reader.goes_on(|rest| may_be(rest, b"\xfd7zXZ\0"))? => {
                    self.state = CoderState::Others(Stream::new_stream_decoder(XZ_MEMORY.0, 0)?);
                }
                Status::StreamEnd => self.state = CoderState::End,
                Status::MemNeeded if is_end => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }
}
