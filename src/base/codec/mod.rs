//! Compression: the only place that knows which library reads and writes which method, and that a build may lack it.
//!
//! | data | type | read | written |
//! |---|---|---|---|
//! | the stream of a compressed container | [`Method`] | [`StreamForm::open`] | [`deflate`] |
//! | code objects that a container compresses one by one, or a few together | [`Codec`] | [`StreamForm::open`], [`inflate_block`] | [`Codec::compress`] |
//! | a member of a zip file | [`StreamForm`] | [`StreamForm::inflate`] | [`StreamForm::write`] |
//! | a whole file | [`Coding`] | [`Coding::inflate`] | |
//!
//! Decoders reject broken data, and zstd windows that its inflated size does not need. Callers check recorded sizes.
//! Without the feature of a method, an error names the feature.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![cfg_attr(
    not(all(feature = "bzip2", feature = "lz4", feature = "xz", feature = "zlib", feature = "zstd")),
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
mod decoder;
mod file;
#[cfg(feature = "zstd")]
mod frames;
pub(crate) mod hash;
#[cfg(feature = "xz")]
mod xz;
#[cfg(feature = "zlib")]
mod zlib;

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::Path;

#[cfg(feature = "zlib")]
pub(crate) use flate2::Crc;
#[cfg(all(feature = "search", not(feature = "zlib")))]
pub(crate) use rawzip::Crc32 as Crc;

use crate::base::bytes::len_u64;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::{Slice, note_read};
use crate::base::io::meter::{Meter, emit};
use crate::base::io::piece::{Piece, Writer, total_len};
pub use compression::{Compression, WINDOW_LOGS};
pub(crate) use decoder::Decoder;
pub(crate) use file::Coding;

/// The level of high compression of LZ4, from 1 to 12. Higher ones take three times as long for 1 % less.
const LZ4_LEVEL: i32 = 9;

/// The largest number of zstd frames whose lengths are added up to find the end of a compressed bundle that records no
/// length. LLVM 18, which writes such bundles, writes one frame. In a hostile file, many bundles may share their
/// frames, and each would be measured again.
pub(crate) const FRAMES_MAX: usize = 256;

/// Whether this build has the feature of a compression method. `feature` is `lz4`, `zlib` or `zstd`.
pub(crate) fn has_feature(feature: &str) -> bool {
    match feature {
        "lz4" => cfg!(feature = "lz4"),
        "zlib" => cfg!(feature = "zlib"),
        _ => cfg!(feature = "zstd"),
    }
}

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

    /// The form of a compressed container's stream.
    pub(crate) fn form(self) -> StreamForm {
        match self {
            Self::Zlib => StreamForm::Zlib,
            Self::Zstd => StreamForm::Frames,
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
}

/// The compression of single code objects in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// One zlib stream.
    Zlib,
    /// One LZ4 block.
    Lz4,
    /// One zstd frame.
    Zstd,
    /// A method that this library cannot undo. Some code is stored obfuscated.
    Unknown,
}

impl Codec {
    /// The name of the method.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Unknown => "unknown",
        }
    }

    /// Compresses some bytes. The level is clamped to [`Method::levels`]; LZ4 has one level.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for unknown methods, and for one that was left out when the library was
    /// built; [`ErrorKind::Io`] with the path `name` if the encoder fails.
    pub fn compress(self, data: &[u8], level: i32, name: &Path) -> Result<Vec<u8>> {
        note_read(len_u64(data));
        match self {
            Self::Unknown => Err(Error::usage("the method of compression is not known")),
            Self::Zlib => StreamForm::Zlib.write(level, Vec::new(), name, |out| out.write_all(data).with_path(name)),
            Self::Lz4 => with!("lz4", "LZ4", {
                let mode = lz4::block::CompressionMode::HIGHCOMPRESSION(LZ4_LEVEL);
                let prepends_size = false;
                lz4::block::compress(data, Some(mode), prepends_size).with_path(name)
            }),
            Self::Zstd => with!("zstd", {
                let levels = Method::Zstd.levels();
                zstd::bulk::compress(data, level.clamp(*levels.start(), *levels.end())).with_path(name)
            }),
        }
    }
}

/// Inflates an LZ4 block, which does not record its inflated size. Allocates `inflated` bytes at once, and fails if the
/// block needs more.
pub(crate) fn inflate_block(block: &[u8], inflated: i32) -> io::Result<Vec<u8>> {
    with!("lz4", "LZ4", lz4::block::decompress(block, Some(inflated)))
}

/// Returns the number of bytes between two totals of a decoder.
#[cfg(any(feature = "xz", feature = "zlib"))]
fn difference(after: u64, before: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}

/// Returns the length of the zstd frame at the start of `data`, and the inflated size if the frame records it, in
/// bytes.
pub(crate) fn frame_len_and_size(data: &[u8]) -> io::Result<(u64, Option<u64>)> {
    with!("zstd", frames::frame_len_and_size(data))
}

/// Returns the inflated size in bytes that a zstd frame records in its header, or `None` if it records none or is
/// broken.
pub(crate) fn frame_size(frame: &[u8]) -> io::Result<Option<u64>> {
    with!("zstd", Ok(frames::recorded_size(frame)))
}

/// Returns the checksum that zip files have, CRC-32, from whichever library this build has for it.
#[cfg(any(feature = "search", feature = "zlib"))]
pub(crate) fn checksum(crc: &Crc) -> u32 {
    #[cfg(feature = "zlib")]
    return crc.sum();
    #[cfg(not(feature = "zlib"))]
    return crc.checksum();
}

/// The form of compressed data that is read from start to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamForm {
    /// One stream of DEFLATE without a header.
    Deflate,
    /// One zlib stream.
    Zlib,
    /// One zstd frame.
    Frame,
    /// zstd frames up to the end of the data.
    Frames,
    /// One bzip2 stream.
    Bzip2,
    /// One LZMA stream as in zip files. It may lack a mark at its end, and more bytes may be read from it then.
    Lzma,
    /// xz streams up to the end of the data.
    Xz,
}

impl StreamForm {
    /// Returns a reader of the inflated bytes of a container or code object at `offset`. `what` is its name in errors.
    /// A method that this build lacks is an error about the file, and not one of the system.
    pub(crate) fn open<'d>(self, stored: Slice<'d>, inflated: u64, what: &str, offset: u64) -> Result<Decoder<'d>> {
        self.inflate(stored, inflated).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => Error::malformed(stored.path(), unsupported(what, offset, error)),
            _ => Error::io(stored.path(), error),
        })
    }

    /// Returns a reader of the inflated bytes. `inflated` is their recorded number, which limits the decoder's memory.
    /// The compressed bytes are read from the file, not from its mapping.
    pub(crate) fn inflate<'d>(self, stored: Slice<'d>, inflated: u64) -> io::Result<Decoder<'d>> {
        // The libraries' own readers have buffers of about these sizes.
        let capacity = if matches!(self, Self::Deflate | Self::Zlib) { 32 << 10 } else { 128 << 10 };
        self.decoder(BufReader::with_capacity(capacity, stored.reader()), inflated)
    }

    /// Returns a reader of the inflated bytes for a reader of compressed ones. `inflated` is their recorded number,
    /// which limits the decoder's memory.
    pub(crate) fn decoder<'d>(self, reader: impl BufRead + 'd, inflated: u64) -> io::Result<Decoder<'d>> {
        Decoder::new(reader, |reader| match self {
            Self::Deflate | Self::Zlib => with!("zlib", {
                let has_zlib_header = self == Self::Zlib;
                Ok(Box::new(zlib::Zlib::new(reader, has_zlib_header)))
            }),
            Self::Frame => with!("zstd", {
                let mut frame = frames::decoder(reader, inflated)?;
                // The bytes after the frame are not part of the code object.
                frame.set_single_frame();
                Ok(Box::new(frame))
            }),
            Self::Frames => with!("zstd", Ok(Box::new(frames::decoder(reader, inflated)?))),
            Self::Bzip2 => with!("bzip2", Ok(Box::new(bzip2::bufread::BzDecoder::new(reader)))),
            Self::Lzma => with!("xz", Ok(Box::new(xz::lzma_decoder(reader, inflated)?))),
            Self::Xz => with!("xz", Ok(Box::new(xz::Xz::new(reader)?))),
        })
    }

    /// Compresses the bytes that `work` writes into `to`, in one stream or frame, and returns `to`. Errors name `path`.
    pub(crate) fn write<W: Write>(
        self,
        level: i32,
        to: W,
        path: &Path,
        work: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<W> {
        match self {
            Self::Deflate | Self::Zlib => with!("zlib", {
                // zlib has the levels 0 to 9.
                let level = flate2::Compression::new(u32::try_from(level.clamp(0, 9)).unwrap_or_default());
                let has_zlib_header = self == Self::Zlib;
                let encoder = flate2::Compress::new(level, has_zlib_header);
                let mut encoder = flate2::write::ZlibEncoder::new_with_compress(to, encoder);
                work(&mut encoder)?;
                encoder.finish().with_path(path)
            }),
            // The encoder clamps the level itself.
            Self::Frame | Self::Frames => with!("zstd", {
                let mut encoder = zstd::Encoder::new(to, level).with_path(path)?;
                work(&mut encoder)?;
                encoder.finish().with_path(path)
            }),
            Self::Bzip2 => with!("bzip2", {
                let level = bzip2::Compression::new(u32::try_from(level.clamp(1, 9)).unwrap_or_default());
                let mut encoder = bzip2::write::BzEncoder::new(to, level);
                work(&mut encoder)?;
                encoder.finish().with_path(path)
            }),
            Self::Lzma | Self::Xz => with!("xz", {
                let preset = u32::try_from(level.clamp(0, 9)).unwrap_or_default();
                let mut encoder = match self {
                    Self::Xz => liblzma::write::XzEncoder::new(to, preset),
                    _ => xz::lzma_encoder(to, preset).with_path(path)?,
                };
                work(&mut encoder)?;
                encoder.finish().with_path(path)
            }),
        }
    }

    /// The level for members of zip files.
    pub(crate) fn usual_level(self) -> i32 {
        match self {
            // Most wheels are written with level 6 of zlib. This is the lowest level of zlib-rs that makes libraries as
            // small, and the only one that programs use for bzip2.
            Self::Deflate | Self::Zlib | Self::Bzip2 => 9,
            Self::Frame | Self::Frames => Method::Zstd.default_level(),
            Self::Lzma | Self::Xz => 6,
        }
    }
}

/// Writes the pieces as one stream that starts at `start`. Returns its length in bytes.
///
/// The result depends only on the pieces and the settings, not on the machine or its number of threads.
pub(crate) fn deflate<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    start: u64,
    to: &mut Writer<'_, W>,
    meter: &mut Meter<'_>,
) -> Result<u64> {
    let path = to.path;
    to.seek(SeekFrom::Start(start))?;
    match compression.method {
        Method::Zlib => {
            let (level, out) = (compression.level, &mut to.out);
            StreamForm::Zlib.write(level, out, path, |out| emit(pieces, &mut Writer { out, path }, meter)).map(drop)
        }
        Method::Zstd => with!("zstd", {
            let encoder = frames::encoder(pieces, total_len(pieces)?, compression).with_path(path)?;
            let mut encoder = zstd::Encoder::with_encoder(&mut to.out, encoder);
            emit(pieces, &mut Writer { out: &mut encoder, path }, meter)?;
            encoder.finish().with_path(path).map(drop)
        }),
    }?;
    let end = to.seek(SeekFrom::Current(0))?;
    end.checked_sub(start).ok_or_else(|| Error::internal("the compressed data ends before its start"))
}

/// The reason why a method cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsupported(&'static str);

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
