//! Compression of containers: the only place of the clone that knows which library reads and writes which method, and
//! that a build may lack it. `beyond::codec` has the other methods.
//!
//! Decoders reject broken data, and zstd windows that its inflated size does not need. Callers check recorded sizes.
//! Without the feature of a method, an error names the feature.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![cfg_attr(
    not(all(feature = "zlib", feature = "zstd")),
    allow(
        dead_code,
        unused_imports,
        unused_mut,
        unused_variables,
        reason = "items that only disabled compression methods use"
    )
)]

/// An expression that uses the library of a feature. In a build without the feature, it is the error [`Unsupported`].
macro_rules! with {
    ($feature:literal, $value:expr) => {
        with!($feature, $feature, $value)
    };
    ($feature:literal, $name:literal, $value:expr) => {{
        #[cfg(feature = $feature)]
        {
            $value
        }
        #[cfg(not(feature = $feature))]
        {
            Err($crate::base::codec::Unsupported(concat!(
                $name,
                " is missing: this program was built without the feature '",
                $feature,
                "' of offload_bundle"
            ))
            .into())
        }
    }};
}

mod compression;
pub(crate) mod decoder;
#[cfg(feature = "zstd")]
pub(crate) mod frames;
pub(crate) mod hash;
#[cfg(feature = "zlib")]
pub(crate) mod zlib;

use std::fmt::Display;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;

use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, Writer, emit, total_len};
pub use compression::{Compression, WINDOW_LOGS};
pub(crate) use decoder::Decoder;

/// The largest number of zstd frames whose lengths are added up to find the end of a compressed bundle that records no
/// length. LLVM 18, which writes such bundles, writes one frame. In a hostile file, many bundles may share their
/// frames, and each would be measured again.
pub(crate) const FRAMES_MAX: usize = 256;

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

    /// The levels of the method, in its own scale.
    pub fn levels(self) -> RangeInclusive<i32> {
        match self {
            Self::Zlib => 0..=9,
            // The lowest level of the zstd library is -2^17.
            Self::Zstd => -131_072..=22,
        }
    }

    /// The default level.
    pub(crate) const fn default_level(self) -> i32 {
        match self {
            // The level that `-1` selects in zlib; zlib-rs requires the number.
            Self::Zlib => 6,
            Self::Zstd => 3,
        }
    }

    /// Returns the length of the stream at the start of `data`, without inflating it. Returns `None` for zlib, which
    /// records no lengths, while the frames of zstd consist of blocks with recorded lengths.
    pub(crate) fn stream_len(self, data: &[u8]) -> io::Result<Option<u64>> {
        match self {
            Self::Zlib => with!("zlib", Ok(None)),
            Self::Zstd => with!("zstd", frames::frames_len(data).map(Some)),
        }
    }

    /// Returns a reader of the inflated bytes of a container at `offset`. `inflated` is their recorded number, which
    /// limits the decoder's memory. `what` is the name of the container in errors.
    pub(crate) fn open<'d>(self, stored: Slice<'d>, inflated: u64, what: &str, offset: u64) -> Result<Decoder<'d>> {
        // The libraries' own readers have buffers of about these sizes.
        let capacity = if self == Self::Zlib { 32 << 10 } else { 128 << 10 };
        let decoder = Decoder::new(BufReader::with_capacity(capacity, stored.reader()), |reader| match self {
            Self::Zlib => with!("zlib", Ok(Box::new(zlib::Zlib::new(reader, HAS_HEADER)))),
            Self::Zstd => with!("zstd", Ok(Box::new(frames::decoder(reader, inflated)?))),
        });
        opened(decoder, stored, what, offset)
    }
}

/// Streams of zlib in containers have a header.
const HAS_HEADER: bool = true;

/// Turns the error of a decoder for the container or code object `what` at `offset` into one about the file `stored`. A
/// method that this build lacks is an error about the file, and not one of the system.
pub(crate) fn opened<'d>(
    decoder: io::Result<Decoder<'d>>,
    stored: Slice<'_>,
    what: &str,
    offset: u64,
) -> Result<Decoder<'d>> {
    decoder.map_err(|error| match error.kind() {
        io::ErrorKind::Unsupported => Error::malformed(stored.path(), unsupported(what, offset, error)),
        _ => Error::io(stored.path(), error),
    })
}

/// Returns the number of bytes between two totals of a decoder.
#[cfg(any(feature = "xz", feature = "zlib"))]
pub(crate) fn difference(after: u64, before: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}

/// Writes the pieces as one stream that starts at `start`. Returns its length in bytes.
///
/// The result depends only on the pieces and the settings, not on the machine or its number of threads.
pub(crate) fn deflate<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    start: u64,
    to: &mut Writer<'_, W>,
) -> Result<u64> {
    let path = to.path;
    to.seek(SeekFrom::Start(start))?;
    let written: Result<()> = match compression.method {
        Method::Zlib => {
            let (level, out) = (compression.level, &mut to.out);
            with!("zlib", {
                zlib::write(HAS_HEADER, level, out, path, |out| emit(pieces, &mut Writer { out, path })).map(drop)
            })
        }
        Method::Zstd => with!("zstd", {
            let encoder = frames::encoder(pieces, total_len(pieces)?, compression).with_path(path)?;
            let mut encoder = zstd::Encoder::with_encoder(&mut to.out, encoder);
            emit(pieces, &mut Writer { out: &mut encoder, path })?;
            encoder.finish().with_path(path).map(drop)
        }),
    };
    written?;
    let end = to.seek(SeekFrom::Current(0))?;
    end.checked_sub(start).ok_or_else(|| Error::internal("the compressed data ends before its start"))
}

/// The reason why a method cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsupported(pub(crate) &'static str);

impl From<Unsupported> for io::Error {
    fn from(Unsupported(reason): Unsupported) -> Self {
        Self::new(io::ErrorKind::Unsupported, reason)
    }
}

impl From<Unsupported> for Error {
    fn from(Unsupported(reason): Unsupported) -> Self {
        Self::usage(reason)
    }
}

/// The fault of compressed data that this build cannot inflate, whether or not the data is sound.
pub(crate) fn unsupported(what: &str, offset: u64, reason: impl Display) -> Malformed {
    Malformed::other(ErrorKind::Unsupported, offset, format!("{what} at offset {offset}: {reason}"))
}
