//! Compression that only a search and its jobs meet: of single code objects, members of zip files, and whole files. The
//! only place of `beyond` that knows which library reads and writes which method, and that a build may lack it.
//!
//! | data | type | read | written |
//! |---|---|---|---|
//! | code objects that a container compresses one by one, or a few together | [`Codec`] | [`StreamForm::inflate`], [`inflate_block`] | [`Codec::compress`] |
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

#[cfg(feature = "zlib")]
mod deflate;
mod file;
#[cfg(feature = "zstd")]
mod frames;
#[cfg(feature = "xz")]
mod xz;

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::rc::Rc;

#[cfg(feature = "zlib")]
pub(crate) use flate2::Crc;
#[cfg(not(feature = "zlib"))]
pub(crate) use rawzip::Crc32 as Crc;

use crate::base::bytes::len_u64;
use crate::base::codec::Method;
use crate::base::codec::decoder::Decoder;
#[cfg(feature = "zstd")]
use crate::base::codec::frames as zstd_frames;
pub(crate) use crate::base::codec::unsupported;
#[cfg(feature = "zlib")]
use crate::base::codec::zlib;
use crate::base::error::{Error, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::input::progress::note_read;
use file::PartsReader;
pub(crate) use file::{BZIP2_BLOCKS, Coding};

/// The level of high compression of LZ4, from 1 to 12. Higher ones take three times as long for 1 % less.
const LZ4_LEVEL: i32 = 9;

/// Whether this build has the feature of a compression method. `feature` is `lz4`, `zlib` or `zstd`.
pub(crate) fn has_feature(feature: &str) -> bool {
    match feature {
        "lz4" => cfg!(feature = "lz4"),
        "zlib" => cfg!(feature = "zlib"),
        _ => cfg!(feature = "zstd"),
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
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) for unknown methods, and for one that was left out when the library was
    /// built; [`ErrorKind::Io`](crate::ErrorKind::Io) with the path `name` if the encoder fails.
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
                let mut frame = zstd_frames::decoder(reader, inflated)?;
                // The bytes after the frame are not part of the code object.
                frame.set_single_frame();
                Ok(Box::new(frame))
            }),
            Self::Frames => with!("zstd", Ok(Box::new(zstd_frames::decoder(reader, inflated)?))),
            Self::Bzip2 => with!("bzip2", Ok(Box::new(bzip2::bufread::BzDecoder::new(reader)))),
            Self::Lzma => with!("xz", Ok(Box::new(xz::lzma_decoder(reader, inflated)?))),
            Self::Xz => {
                with!("xz", Ok(Box::new(xz::Xz::new(PartsReader { reader, is_before_other_data: Rc::default() })?)))
            }
        })
    }

    /// Calls `work` with a writer, compresses the bytes that it writes into `to`, in one stream or frame, and returns
    /// `to`. Errors name `path`.
    pub(crate) fn write<W: Write>(
        self,
        level: i32,
        to: W,
        path: &Path,
        work: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<W> {
        match self {
            Self::Deflate | Self::Zlib => with!("zlib", {
                let has_zlib_header = self == Self::Zlib;
                zlib::write(has_zlib_header, level, to, path, work)
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

    /// Compresses all of `data` into `to` at the [usual level](Self::usual_level), and passes the uncompressed bytes to
    /// `read`, in order. Returns `to`, and the CRC-32 of `data`.
    pub(crate) fn pack<W: Write>(self, data: Slice<'_>, mut to: W, read: &mut dyn FnMut(&[u8])) -> Result<(W, u32)> {
        #[cfg(feature = "zlib")]
        if self == Self::Deflate {
            let crc = deflate::write(data, self.usual_level(), &mut to, read)?;
            return Ok((to, crc.sum()));
        }
        let (mut crc, path) = (Crc::default(), data.path());
        let to = self.write(self.usual_level(), to, path, |to| {
            data.read_blocks(&mut |block| {
                read(block);
                crc.update(block);
                to.write_all(block).with_path(path)
            })
        })?;
        Ok((to, checksum(&crc)))
    }

    /// The level for members of zip files.
    fn usual_level(self) -> i32 {
        match self {
            // Most wheels are written with level 6 of zlib. This is the lowest level of zlib-rs that makes libraries as
            // small, and the only one that programs use for bzip2.
            Self::Deflate | Self::Zlib | Self::Bzip2 => 9,
            Self::Frame | Self::Frames => Method::Zstd.default_level(),
            Self::Lzma | Self::Xz => 6,
        }
    }
}
