//! A reader that another thread reads ahead, so that bytes are inflated while they are checked and kept.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::{mem, thread};

use crate::base::threads;

/// The length of the blocks that are read ahead, in bytes, and their number.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 8;

/// The first `len` bytes of a buffer.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    len: usize,
}

/// A block, or the error of reading it. A block without bytes is the end.
type Filled = io::Result<Block>;

/// Calls `consume` with the reader that `open` returns. Another thread reads ahead, if the process may use several.
/// Both threads together count as one in the number of threads, because they wait for each other.
///
/// # Errors
/// The errors of `open`, and those of `consume`, which gets the errors of reading.
pub(crate) fn read_ahead<R: Read, T>(
    open: impl Fn() -> io::Result<R> + Sync,
    consume: impl FnOnce(&mut dyn Read) -> io::Result<T>,
) -> io::Result<T> {
    if threads::count() < 2 {
        return consume(&mut open()?);
    }
    thread::scope(|scope| {
        let ((to_fill, empty), (full, filled)) = (mpsc::channel(), mpsc::sync_channel(BLOCKS));
        let open = &open;
        let thread = thread::Builder::new().spawn_scoped(scope, move || match open() {
            Ok(reader) => fill_blocks(reader, &empty, &full),
            Err(error) => drop(full.send(Err(error))),
        });
        if thread.is_err() {
            // The system allows no more threads.
            return consume(&mut open()?);
        }
        for _ in 0..BLOCKS {
            // If the thread has ended, `filled` has the reason.
            drop(to_fill.send(Vec::new()));
        }
        consume(&mut ReadAhead { filled, to_fill, block: Block::default(), position: 0, is_over: false })
    })
}

/// Fills blocks until the reader ends or fails, or until nobody needs them.
fn fill_blocks(mut reader: impl Read, empty: &Receiver<Vec<u8>>, full: &SyncSender<Filled>) {
    while let Ok(mut bytes) = empty.recv() {
        // A decoder is fastest with all of the block as its buffer.
        bytes.resize(BLOCK, 0);
        let (mut len, mut failure) = (0, None);
        while let Some(rest) = bytes.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match reader.read(rest) {
                Ok(0) => break,
                Ok(count) => len = len.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let is_end = len == 0 || failure.is_some();
        // Bytes before a fault are read before its error.
        if (len > 0 || failure.is_none()) && full.send(Ok(Block { bytes, len })).is_err() {
            return;
        }
        if let Some(error) = failure {
            drop(full.send(Err(error)));
        }
        if is_end {
            return;
        }
    }
}

/// A reader of blocks that another thread fills.
struct ReadAhead {
    filled: Receiver<Filled>,
    to_fill: Sender<Vec<u8>>,
    /// The block that is being read, and the number of its bytes that were read.
    block: Block,
    position: usize,
    /// Whether the block without bytes was received, which is the end.
    is_over: bool,
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.block.bytes.get(self.position..self.block.len).unwrap_or_default();
            if !rest.is_empty() || self.is_over || buffer.is_empty() {
                let count = (&mut &*rest).read(buffer)?;
                self.position = self.position.saturating_add(count);
                return Ok(count);
            }
            self.position = 0;
            // Once the thread has ended, it needs no more blocks.
            drop(self.to_fill.send(mem::take(&mut self.block).bytes));
            self.block =
                self.filled.recv().unwrap_or_else(|_| Err(io::Error::other("the reading thread ended early")))?;
            self.is_over = self.block.len == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives some bytes, a few at a time, then an error.
    struct Failing<'b>(&'b [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::Error::other("fault"));
            }
            let len = buffer.len().min(1000);
            self.0.read(&mut buffer[..len])
        }
    }

    #[test]
    fn all_bytes_are_read_in_order_and_those_before_a_fault_before_its_error() {
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 20 * BLOCK + 5] {
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut read = Vec::new();
            read_ahead(|| Ok(&bytes[..]), |reader| reader.read_to_end(&mut read)).unwrap();
            assert!(read == bytes, "{len}");
            let mut before = Vec::new();
            let error = read_ahead(|| Ok(Failing(&bytes)), |reader| reader.read_to_end(&mut before)).unwrap_err();
            assert!(before == bytes && error.to_string() == "fault", "{len}");
            // A consumer that ends early ends the thread too.
            read_ahead(|| Ok(io::repeat(7)), |reader| reader.read_exact(&mut vec![0; len])).unwrap();
        }
        let error = read_ahead(|| Err::<io::Empty, _>(io::Error::other("open")), |reader| reader.read(&mut [0]));
        assert_eq!(error.unwrap_err().to_string(), "open");
    }
}
