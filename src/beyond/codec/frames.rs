//! Single frames of zstd, and files of frames.

use std::io::{self, BufRead, Read};

use zstd::stream::raw::{Decoder as RawDecoder, Operation};
use zstd::zstd_safe;

use super::file::{PartsReader, may_begin_with};
use crate::base::bytes::to_u64;
use crate::base::codec::frames::zstd_error;

/// Returns the length of the frame at the start of `data`, and the inflated size if the frame records it.
pub(super) fn frame_len_and_size(data: &[u8]) -> io::Result<(u64, Option<u64>)> {
    let len = zstd_safe::find_frame_compressed_size(data).map_err(zstd_error)?;
    Ok((to_u64(len), recorded_size(data)))
}

/// Returns the inflated size that the frame at the start of `data` records in its header, or `None` if it records none
/// or is broken.
pub(super) fn recorded_size(data: &[u8]) -> Option<u64> {
    zstd_safe::get_frame_content_size(data).ok().flatten()
}

/// Whether data begins with a frame, or with a skippable frame. The magic numbers are those of RFC 8878; the first byte
/// of a skippable frame is any from 0x50 to 0x5f.
fn begins_frame(data: &[u8]) -> bool {
    if may_begin_with(data, &[0x28, 0xb5, 0x2f, 0xfd]) {
        return true;
    }
    let Some((first, rest)) = data.split_first() else { return false };
    first & 0xf0 == 0x50 && may_begin_with(rest, &[0x2a, 0x4d, 0x18])
}

/// A reader of the frames of a zstd file. It ends before padding or other data that follows the frames.
pub(super) struct ZstdFile<R> {
    reader: PartsReader<R>,
    decoder: RawDecoder<'static>,
    /// Whether the current frame goes on. Also true at the start of a file, so that a file without a frame is an error.
    is_in_frame: bool,
}

impl<R: BufRead> ZstdFile<R> {
    pub(super) fn new(reader: PartsReader<R>) -> io::Result<Self> {
        Ok(Self { reader, decoder: RawDecoder::new()?, is_in_frame: true })
    }
}

impl<R: BufRead> Read for ZstdFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_in_frame && !self.reader.skip_to_next_part(begins_frame)? {
                break;
            }
            let input = self.reader.fill_buf()?;
            let is_end = input.is_empty();
            let status = self.decoder.run_on_buffers(input, buffer)?;
            self.reader.consume(status.bytes_read);
            // zstd returns 0 once a frame has ended.
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
