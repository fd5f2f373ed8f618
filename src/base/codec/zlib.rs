//! Reads and writes streams of zlib and DEFLATE, with decoders that are used again.

use std::cell::RefCell;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use flate2::write::ZlibEncoder;
use flate2::{Compress, Decompress, FlushDecompress, Status};

use crate::base::error::{Result, WithPath};

/// The number of decoders that a thread keeps: streams are rarely nested more deeply.
const UNUSED_MAX: usize = 4;

thread_local! {
    /// The decoders of this thread that no reader uses. Each takes 47 kB. If each member of a zip file allocated one,
    /// kept results would soon lie in the gaps that these leave, and the memory would grow by a decoder for each
    /// member.
    static UNUSED: RefCell<Vec<Decompress>> = const { RefCell::new(Vec::new()) };
}

/// A reader of the inflated bytes of one stream. All bytes before a fault are read before its error.
///
/// The reader of the crate `flate2` is not used, because it loses the bytes that the decoder wrote before it failed.
pub(crate) struct Zlib<R> {
    reader: R,
    /// The decoder, until the reader is dropped.
    decoder: Option<Decompress>,
    /// Whether the decoder has failed. The error is returned once the bytes before the fault were read.
    has_failed: bool,
}

impl<R> Zlib<R> {
    /// A reader of a zlib stream or, if `has_header` is false, of a bare DEFLATE stream. Uses a decoder that an earlier
    /// reader of this thread has left, if there is one.
    pub(crate) fn new(reader: R, has_header: bool) -> Self {
        let unused = UNUSED.try_with(|unused| unused.borrow_mut().pop());
        let decoder = match unused {
            Ok(Some(mut decoder)) => {
                decoder.reset(has_header);
                decoder
            }
            _ => Decompress::new(has_header),
        };
        Self { reader, decoder: Some(decoder), has_failed: false }
    }
}

/// Returns an encoder of a stream. zlib has the levels 0 to 9, to which `level` is clamped.
pub(crate) fn encoder(has_header: bool, level: i32) -> Compress {
    let level = flate2::Compression::new(u32::try_from(level.clamp(0, 9)).unwrap_or_default());
    Compress::new(level, has_header)
}

/// Compresses the bytes that `work` writes into `to`, in one stream, and returns `to`. Errors name `path`.
pub(crate) fn write<W: Write>(
    has_header: bool,
    level: i32,
    to: W,
    path: &Path,
    work: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<W> {
    let mut encoder = ZlibEncoder::new_with_compress(to, encoder(has_header, level));
    work(&mut encoder)?;
    encoder.finish().with_path(path)
}

impl<R> Drop for Zlib<R> {
    fn drop(&mut self) {
        let Some(decoder) = self.decoder.take() else { return };
        // When the thread ends, its decoders may be gone already.
        let _: Result<(), _> = UNUSED.try_with(|unused| {
            let mut unused = unused.borrow_mut();
            if unused.len() < UNUSED_MAX {
                unused.push(decoder);
            }
        });
    }
}

impl<R: BufRead> Read for Zlib<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        // The decoder may take input without writing anything, and is then called again.
        while !self.has_failed {
            let input = self.reader.fill_buf()?;
            let (is_input_end, flush) = match input {
                [] => (true, FlushDecompress::Finish),
                _ => (false, FlushDecompress::None),
            };
            let (read_before, written_before) = (decoder.total_in(), decoder.total_out());
            let status = decoder.decompress(input, buffer, flush);
            let read = super::difference(decoder.total_in(), read_before);
            let written = super::difference(decoder.total_out(), written_before);
            self.reader.consume(read);
            self.has_failed = status.is_err();
            let is_stream_end = matches!(status, Ok(Status::StreamEnd));
            if written > 0 || buffer.is_empty() || is_stream_end {
                return Ok(written);
            }
            if is_input_end && !self.has_failed {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete deflate stream"));
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "corrupt deflate stream"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Compresses some bytes, with or without zlib's header.
    fn stored(data: &[u8], has_zlib_header: bool) -> Vec<u8> {
        let encoder = flate2::Compress::new(flate2::Compression::default(), has_zlib_header);
        let mut encoder = flate2::write::ZlibEncoder::new_with_compress(Vec::new(), encoder);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "inflates")]
    fn a_decoder_that_is_used_again_keeps_nothing_of_earlier_streams() {
        let data: Vec<u8> = (0..100_000_u32).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
        for has_zlib_header in [false, true, true, false] {
            let all = stored(&data, has_zlib_header);
            // A stream that is read in part, one that ends early, a broken one, and a whole one.
            let mut part = Zlib::new(&all[..], has_zlib_header);
            part.read_exact(&mut [0; 1000]).unwrap();
            drop(part);
            for (stream, expected) in [(&all[..all.len() / 2], "incomplete"), (&[0xff; 99], "corrupt")] {
                let error = io::copy(&mut Zlib::new(stream, has_zlib_header), &mut io::sink()).unwrap_err();
                assert!(error.to_string().contains(expected), "{error}");
            }
            let mut inflated = Vec::new();
            Zlib::new(&all[..], has_zlib_header).read_to_end(&mut inflated).unwrap();
            assert!(inflated == data);
            assert_eq!(UNUSED.with(|unused| unused.borrow().len()), 1);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "inflates")]
    fn bytes_after_a_stream_are_left() {
        let (mut data, expected) = (stored(b"code", true), b"next");
        data.extend(expected);
        let mut rest = &data[..];
        let mut inflated = Vec::new();
        Zlib::new(&mut rest, true).read_to_end(&mut inflated).unwrap();
        assert_eq!((&inflated[..], rest), (&b"code"[..], &expected[..]));
    }
}
