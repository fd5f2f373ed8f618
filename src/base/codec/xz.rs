//! Reads xz files.

use std::io::{self, BufRead, Read};
use std::thread;

use liblzma::stream::{Action, MtStreamBuilder, Status, Stream};

use super::decoder::{Counted, may_be};

/// The memory of an xz decoder, in bytes: all of it, and that up to which it uses several threads. `xz -9` needs 65 MiB
/// for one thread.
const XZ_MEMORY: (u64, u64) = (1 << 30, 256 << 20);

/// A reader of the streams of an xz file. The first one is inflated in parallel by its blocks, which have 24 MiB in
/// packages of Debian.
///
/// `liblzma`'s own reader takes a file that ends early for a whole one.
pub(super) struct Xz<R> {
    reader: Counted<R>,
    /// The decoder of the current stream; none at the end.
    stream: Option<Stream>,
}

impl<R: BufRead> Xz<R> {
    pub(super) fn new(reader: Counted<R>) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let (all, threading) = XZ_MEMORY;
        let mut builder = MtStreamBuilder::new();
        builder.threads(threads).memlimit_stop(all).memlimit_threading(threading);
        Ok(Self { reader, stream: Some(builder.decoder()?) })
    }
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let Some(stream) = &mut self.stream else { break };
            let input = self.reader.fill_buf()?;
            let (is_end, action) = match input {
                [] => (true, Action::Finish),
                _ => (false, Action::Run),
            };
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = stream.process(input, buffer, action)?;
            let length = |to: u64, from: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            let (read, written) = (length(stream.total_in(), read), length(stream.total_out(), written));
            self.reader.consume(read);
            match status {
                Status::StreamEnd => {
                    let goes_on = self.reader.goes_on(|rest| may_be(rest, b"\xfd7zXZ\0"))?;
                    // To set up threads for each stream after the first would take longer than to inflate it.
                    self.stream = goes_on.then(|| Stream::new_stream_decoder(XZ_MEMORY.0, 0)).transpose()?;
                }
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
