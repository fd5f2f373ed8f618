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

#[cfg(feature = "xz")]
use liblzma::stream::{Action, MtStreamBuilder, Status, Stream};

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
    fn left_out(self) -> String {
        let feature = match self {
            Self::Gzip => "zlib",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
        };
        format!("{feature} is missing: this program was built without the feature '{feature}' of offload_bundle")
    }

    /// A reader of the inflated bytes.
    pub(crate) fn inflate<'r>(self, reader: impl BufRead + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            #[cfg(feature = "zlib")]
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
            #[cfg(feature = "xz")]
            Self::Xz => Box::new(Xz { reader, stream: None, has_begun: false }),
            #[cfg(feature = "bzip2")]
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(reader)),
            #[cfg(feature = "zstd")]
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(reader)?),
            #[cfg(not(all(feature = "bzip2", feature = "xz", feature = "zlib", feature = "zstd")))]
            left_out => return Err(io::Error::other(left_out.left_out())),
        })
    }
}

/// A reader of the streams of an xz file, each inflated in parallel by its blocks. In packages of Debian these have 24 MiB.
///
/// `liblzma`'s own reader reads only the first stream, and takes a file that ends early for a whole one.
#[cfg(feature = "xz")]
struct Xz<R> {
    reader: R,
    /// The decoder of the current stream; none between two streams.
    stream: Option<Stream>,
    /// Whether there was a stream.
    has_begun: bool,
}

#[cfg(feature = "xz")]
impl<R: BufRead> Xz<R> {
    /// The next stream, after zeros that may lie before it.
    fn next_stream(&mut self) -> io::Result<Option<Stream>> {
        while self.has_begun {
            let zeros = self.reader.fill_buf()?.iter().take_while(|&&byte| byte == 0).count();
            if zeros == 0 {
                break;
            }
            self.reader.consume(zeros);
        }
        if self.reader.fill_buf()?.is_empty() && self.has_begun {
            return Ok(None);
        }
        self.has_begun = true;
        let threads = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let (all, threading) = XZ_MEMORY;
        let mut builder = MtStreamBuilder::new();
        builder.threads(threads).memlimit_stop(all).memlimit_threading(threading);
        Ok(Some(builder.decoder()?))
    }
}

#[cfg(feature = "xz")]
impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => match self.next_stream()? {
                    Some(stream) => stream,
                    None => break,
                },
            };
            let input = self.reader.fill_buf()?;
            let action = if input.is_empty() { Action::Finish } else { Action::Run };
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = stream.process(input, buffer, action)?;
            let length = |to: u64, from: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            let (read, written) = (length(stream.total_in(), read), length(stream.total_out(), written));
            self.reader.consume(read);
            match (status, action) {
                (Status::StreamEnd, _) => {}
                (Status::MemNeeded, Action::Finish) => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => self.stream = Some(stream),
            }
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }
}
