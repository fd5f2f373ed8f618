//! Inflates a stream of zlib or DEFLATE.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

use super::decoder::CountedReader;

/// A reader of the inflated bytes of one stream. All bytes before a fault are read before its error.
///
/// The reader of the crate `flate2` is not used, because it loses the bytes that the decoder wrote before it failed.
pub(super) struct Zlib<R> {
    reader: CountedReader<R>,
    decoder: Decompress,
    /// Whether the decoder has failed, after bytes that were read.
    has_failed: bool,
}

impl<R: BufRead> Zlib<R> {
    pub(super) fn new(reader: CountedReader<R>, has_header: bool) -> Self {
        Self { reader, decoder: Decompress::new(has_header), has_failed: false }
    }
}

impl<R: BufRead> Read for Zlib<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.has_failed {
            let input = self.reader.fill_buf()?;
            let (is_end, flush) = match input {
                [] => (true, FlushDecompress::Finish),
                _ => (false, FlushDecompress::None),
            };
            let (read, written) = (self.decoder.total_in(), self.decoder.total_out());
            let status = self.decoder.decompress(input, buffer, flush);
            let read = super::difference(self.decoder.total_in(), read);
            let written = super::difference(self.decoder.total_out(), written);
            self.reader.consume(read);
            self.has_failed = status.is_err();
            let is_stream_end = matches!(status, Ok(Status::StreamEnd));
            if written > 0 || buffer.is_empty() || is_stream_end {
                return Ok(written);
            }
            if is_end && !self.has_failed {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete deflate stream"));
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "corrupt deflate stream"))
    }
}
