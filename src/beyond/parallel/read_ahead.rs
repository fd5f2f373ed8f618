//! A reader that another thread reads ahead, so that bytes are inflated while they are checked and kept.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::{mem, thread};

use crate::base::threads;

/// The length of the blocks that are read ahead, in bytes, and their number.
const BLOCK: u64 = 256 << 10;
const BLOCKS: usize = 8;

/// A block with bytes, or the error of reading it. A block without bytes is the end.
type Block = io::Result<Vec<u8>>;

/// Calls `consume` with the reader that `open` returns. Another thread reads ahead, if the process may use several. The
/// two count as one, because they wait for each other.
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
        consume(&mut ReadAhead { filled, to_fill, block: Vec::new(), position: 0, is_over: false })
    })
}

/// Fills empty blocks until the reader ends or fails, or until nobody needs them.
fn fill_blocks(mut reader: impl Read, empty: &Receiver<Vec<u8>>, full: &SyncSender<Block>) {
    while let Ok(mut block) = empty.recv() {
        let read = reader.by_ref().take(BLOCK).read_to_end(&mut block);
        // Bytes before a fault are read before its error.
        let (is_end, has_bytes) = (read.is_err() || block.is_empty(), !block.is_empty());
        if (has_bytes || read.is_ok()) && full.send(Ok(block)).is_err() {
            return;
        }
        if let Err(error) = read {
            drop(full.send(Err(error)));
        }
        if is_end {
            return;
        }
    }
}

/// A reader of blocks that another thread fills.
struct ReadAhead {
    filled: Receiver<Block>,
    to_fill: Sender<Vec<u8>>,
    /// The block that is being read, and the number of its bytes that were read.
    block: Vec<u8>,
    position: usize,
    is_over: bool,
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.block.get(self.position..).unwrap_or_default();
            if !rest.is_empty() || self.is_over || buffer.is_empty() {
                let count = (&mut &*rest).read(buffer)?;
                self.position = self.position.saturating_add(count);
                return Ok(count);
            }
            let mut used = mem::take(&mut self.block);
            self.position = 0;
            used.clear();
            // Once the thread has ended, it needs no more blocks.
            drop(self.to_fill.send(used));
            self.block =
                self.filled.recv().unwrap_or_else(|_| Err(io::Error::other("the reading thread ended early")))?;
            self.is_over = self.block.is_empty();
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
        let block = usize::try_from(BLOCK).unwrap();
        for len in [0, 1, block - 1, block, block + 1, 20 * block + 5] {
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
