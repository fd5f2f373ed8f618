//! Reads xz files, and reads and writes LZMA streams.

use std::io::{self, BufRead, Read, Write};

use liblzma::bufread::XzDecoder;
use liblzma::stream::{Action, Filters, LzmaOptions, MtStreamBuilder, Status, Stream};
use liblzma::write::XzEncoder;

use super::file::{PartsReader, may_begin_with};
use crate::base::codec::difference;
use crate::base::threads;

/// The maximum memory of an xz decoder in bytes. `xz -9` needs 65 MiB for one thread.
const MEMORY_MAX: u64 = 1 << 30;

/// The maximum memory of an xz decoder with several threads, in bytes. `liblzma` uses fewer threads rather than more
/// memory.
const MEMORY_OF_THREADS_MAX: u64 = 256 << 20;

/// A reader of the streams of an xz file. The first stream is inflated on several threads if it consists of several
/// blocks: packages of Debian have blocks of 24 MiB.
///
/// The reader of the crate `liblzma` is not used, because it reports no error if a file ends early.
pub(super) struct Xz<R> {
    reader: PartsReader<R>,
    /// The decoder of the current stream; `None` at the end.
    stream: Option<Stream>,
}

impl<R: BufRead> Xz<R> {
    /// Returns a reader of all streams in `reader`. The first decoder uses one thread if several would take more than
    /// [`MEMORY_OF_THREADS_MAX`], and fails if one needs more than [`MEMORY_MAX`].
    pub(super) fn new(reader: PartsReader<R>) -> io::Result<Self> {
        let threads = u32::try_from(threads::count()).unwrap_or(1);
        let mut builder = MtStreamBuilder::new();
        builder.threads(threads).memlimit_stop(MEMORY_MAX).memlimit_threading(MEMORY_OF_THREADS_MAX);
        Ok(Self { reader, stream: Some(builder.decoder()?) })
    }
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const MAGIC: &[u8] = b"\xfd7zXZ\0";
        const NO_FLAGS: u32 = 0;
        while !buffer.is_empty() {
            let Some(stream) = &mut self.stream else { break };
            let input = self.reader.fill_buf()?;
            let (is_end, action) = match input {
                [] => (true, Action::Finish),
                _ => (false, Action::Run),
            };
            let (read_before, written_before) = (stream.total_in(), stream.total_out());
            let status = stream.process(input, buffer, action)?;
            let read = difference(stream.total_in(), read_before);
            let written = difference(stream.total_out(), written_before);
            self.reader.consume(read);
            match status {
                Status::StreamEnd => {
                    let has_next = self.reader.skip_to_next_part(|rest| may_begin_with(rest, MAGIC))?;
                    // A further stream is decoded on one thread. Packages have only one stream, so starting threads for
                    // others does not pay.
                    self.stream = if has_next { Some(Stream::new_stream_decoder(MEMORY_MAX, NO_FLAGS)?) } else { None };
                }
                // The decoder needs more input: the crate gives this name to liblzma's `LZMA_BUF_ERROR`.
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

/// The header of an LZMA stream in a zip file (APPNOTE 6.3.10, 5.8.8): two bytes for the version of the LZMA SDK, which
/// may be any, and two for the length of the properties after them.
const LZMA_HEADER: [u8; 4] = [9, 4, 5, 0];

/// The first byte of the properties, which is the same at all presets: `lc + 9 * (lp + 5 * pb)` with 3 bits of literal
/// context (`lc`), no bit of literal position (`lp`) and 2 bits of position (`pb`). Four bytes for the size of the
/// dictionary follow.
const LZMA_PROPERTIES: u8 = 3 + 9 * (5 * 2);

/// The smallest dictionary of LZMA in bytes.
const LZMA_DICTIONARY_MIN: u64 = 4096;

/// Returns a reader of an LZMA stream of a zip file, which inflates to `inflated` bytes. The reader does not fail if
/// the data ends early.
pub(super) fn lzma_decoder<R: BufRead>(mut reader: R, inflated: u64) -> io::Result<XzDecoder<R>> {
    let broken = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut header = [0; 9];
    reader.read_exact(&mut header)?;
    let [_, _, len, zero, bits, dictionary @ ..] = header;
    if [len, zero] != [5, 0] {
        return Err(broken("the properties of LZMA do not have 5 bytes"));
    }
    // No match reaches back farther than to the start of the data. The recorded size of the dictionary is only a claim.
    let dictionary = u64::from(u32::from_le_bytes(dictionary)).min(inflated.max(LZMA_DICTIONARY_MIN));
    if dictionary > MEMORY_MAX {
        return Err(broken("the dictionary of LZMA is larger than 1 GiB"));
    }
    let [a, b, c, d, ..] = dictionary.to_le_bytes();
    let mut filters = Filters::new();
    filters.lzma1_properties(&[bits, a, b, c, d])?;
    Ok(XzDecoder::new_stream(reader, Stream::new_raw_decoder(&filters)?))
}

/// Returns a writer of an LZMA stream of a zip file, with a mark at its end, after the header of the stream.
pub(super) fn lzma_encoder<W: Write>(mut to: W, preset: u32) -> io::Result<XzEncoder<W>> {
    /// The dictionary of the presets up to 6, which is enough for members of zip files.
    const DICTIONARY: u32 = 8 << 20;
    let mut options = LzmaOptions::new_preset(preset)?;
    options.dict_size(DICTIONARY);
    let mut filters = Filters::new();
    filters.lzma1(&options);
    let stream = Stream::new_raw_encoder(&filters)?;
    to.write_all(&[&LZMA_HEADER[..], &[LZMA_PROPERTIES], &DICTIONARY.to_le_bytes()].concat())?;
    Ok(XzEncoder::new_stream(to, stream))
}
