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

use std::io::{self, BufRead, Read};
#[cfg(feature = "xz")]
use std::thread;

#[cfg(feature = "zlib")]
use flate2::bufread::GzDecoder;
#[cfg(feature = "xz")]
use liblzma::stream::{Action, CONCATENATED, MtStreamBuilder, Status, Stream};

#[cfg(not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")))]
use super::stream::Method;

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

    /// A reader of the inflated bytes.
    pub(crate) fn inflate<'r>(self, reader: impl BufRead + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            #[cfg(feature = "zlib")]
            Self::Gzip => Box::new(Gzip(Some(GzDecoder::new(reader)))),
            #[cfg(feature = "xz")]
            Self::Xz => Box::new(Xz::new(reader)?),
            #[cfg(feature = "bzip2")]
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(reader)),
            #[cfg(feature = "zstd")]
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(reader)?),
            #[cfg(not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")))]
            left_out => return Err(io::Error::other(left_out.left_out())),
        })
    }
}

/// A reader of the parts of a gzip file, and of zeros after them, which fill up blocks of a tape.
#[cfg(feature = "zlib")]
struct Gzip<R>(Option<GzDecoder<R>>);

#[cfg(feature = "zlib")]
impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let has_more = skip_zeros(decoder.get_mut())?;
            self.0 = self.0.take().filter(|_| has_more).map(|decoder| GzDecoder::new(decoder.into_inner()));
        }
        Ok(0)
    }
}

/// Reads over zeros. Returns whether other data follows.
#[cfg(any(feature = "xz", feature = "zlib"))]
fn skip_zeros(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let rest = reader.fill_buf()?;
        let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
        match zeros {
            0 => return Ok(!rest.is_empty()),
            zeros => reader.consume(zeros),
        }
    }
}

/// A reader of the streams of an xz file. The first one is inflated in parallel by its blocks, which have 24 MiB in packages
/// of Debian.
///
/// `liblzma`'s own reader takes a file that ends early for a whole one.
#[cfg(feature = "xz")]
struct Xz<R> {
    reader: R,
    state: State,
}

#[cfg(feature = "xz")]
enum State {
    First(Stream),
    /// All streams after the first: to set up threads for each would take longer than to inflate it.
    Others(Stream),
    End,
}

#[cfg(feature = "xz")]
impl<R: BufRead> Xz<R> {
    fn new(reader: R) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let (all, threading) = XZ_MEMORY;
        let mut builder = MtStreamBuilder::new();
        builder.threads(threads).memlimit_stop(all).memlimit_threading(threading);
        Ok(Self { reader, state: State::First(builder.decoder()?) })
    }
}

#[cfg(feature = "xz")]
impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let stream = match &mut self.state {
                State::First(stream) | State::Others(stream) => stream,
                State::End => break,
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
            match (status, &self.state) {
                (Status::StreamEnd, State::First(_)) if skip_zeros(&mut self.reader)? => {
                    self.state = State::Others(Stream::new_stream_decoder(XZ_MEMORY.0, CONCATENATED)?);
                }
                (Status::StreamEnd, _) => self.state = State::End,
                (Status::MemNeeded, _) if is_end => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }
}
