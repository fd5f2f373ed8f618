//! Inflates DEFLATE and zlib streams with decoders that are used again.

use std::cell::RefCell;
use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// The number of decoders that a thread keeps: streams are rarely nested more deeply.
const UNUSED_MAX: usize = 4;

thread_local! {
    /// The decoders of this thread that no reader uses. Each takes 47 kB. If each member of a zip file allocated one,
    /// kept results would soon lie in the gaps that these leave, and the memory would grow by a decoder for each member.
    static UNUSED: RefCell<Vec<Decompress>> = const { RefCell::new(Vec::new()) };
}

/// A reader of the bytes of one stream, which it takes from `reader`.
pub(super) struct Inflater<R> {
    reader: R,
    /// The decoder, until the reader is dropped.
    decoder: Option<Decompress>,
}

impl<R> Inflater<R> {
    pub(super) fn new(reader: R, has_zlib_header: bool) -> Self {
        let unused = UNUSED.try_with(|unused| unused.borrow_mut().pop());
        let decoder = match unused {
            Ok(Some(mut decoder)) => {
                decoder.reset(has_zlib_header);
                decoder
            }
            _ => Decompress::new(has_zlib_header),
        };
        Self { reader, decoder: Some(decoder) }
    }
}

impl<R> Drop for Inflater<R> {
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

impl<R: BufRead> Read for Inflater<R> {
    /// Fails, with the messages of `flate2`, if the stream is broken or ends early.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        loop {
            let stored = self.reader.fill_buf()?;
            let is_at_end = stored.is_empty();
            let (used_before, inflated_before) = (decoder.total_in(), decoder.total_out());
            let flush = if is_at_end { FlushDecompress::Finish } else { FlushDecompress::None };
            let status = decoder.decompress(stored, buffer, flush);
            let used = length(used_before, decoder.total_in());
            let inflated = length(inflated_before, decoder.total_out());
            self.reader.consume(used);
            // Without inflated bytes, a stream that has not ended needs more stored bytes.
            let needs_more = inflated == 0 && !buffer.is_empty();
            return match status {
                Ok(Status::Ok | Status::BufError) if needs_more && !is_at_end => continue,
                Ok(Status::Ok | Status::BufError) if needs_more => {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete deflate stream"))
                }
                Ok(_) => Ok(inflated),
                Err(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "corrupt deflate stream")),
            };
        }
    }
}

/// Returns the number of bytes between two counts of the same buffer, which is no longer than memory.
fn length(before: u64, after: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
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
            let mut part = Inflater::new(&all[..], has_zlib_header);
            part.read_exact(&mut [0; 1000]).unwrap();
            drop(part);
            for (stream, expected) in [(&all[..all.len() / 2], "incomplete"), (&[0xff; 99], "corrupt")] {
                let error = io::copy(&mut Inflater::new(stream, has_zlib_header), &mut io::sink()).unwrap_err();
                assert!(error.to_string().contains(expected), "{error}");
            }
            let mut inflated = Vec::new();
            Inflater::new(&all[..], has_zlib_header).read_to_end(&mut inflated).unwrap();
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
        Inflater::new(&mut rest, true).read_to_end(&mut inflated).unwrap();
        assert_eq!((&inflated[..], rest), (&b"code"[..], &expected[..]));
    }
}
