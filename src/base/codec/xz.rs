//! Reads xz files.

use std::io::{self, BufRead, Read};
use std::thread;

use liblzma::stream::{Action, MtStreamBuilder, Status, Stream};

use super::decoder::{CountedReader, may_begin_with};
use super::difference;

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
    reader: CountedReader<R>,
    /// The decoder of the current stream; `None` at the end.
    stream: Option<Stream>,
}

impl<R: BufRead> Xz<R> {
    /// Returns a reader of all streams in `reader`. The first decoder uses one thread if several would take more than
    /// [`MEMORY_OF_THREADS_MAX`], and fails if one needs more than [`MEMORY_MAX`].
    pub(super) fn new(reader: CountedReader<R>) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
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
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = stream.process(input, buffer, action)?;
            let (read, written) = (difference(stream.total_in(), read), difference(stream.total_out(), written));
            self.reader.consume(read);
            match status {
                Status::StreamEnd => {
                    let has_next = self.reader.skip_to_next_part(|rest| may_begin_with(rest, MAGIC))?;
                    // Threads are worth their start only for the first stream, because packages have one. So this
                    // decoder of a further stream works on one thread.
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
