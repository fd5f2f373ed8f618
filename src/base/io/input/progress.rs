//! Counts the bytes that are read, so that programs can show their progress.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::bytes::to_u64;

/// The share of one input in [`bytes_done`].
#[derive(Debug, Default)]
pub(super) struct FileProgress {
    /// The number of bytes that jobs have read, where a byte may count several times.
    pub(super) read: AtomicU64,
    /// The length of a regular file. Other inputs have zero here, so that they do not count.
    pub(super) len: u64,
}

/// The number of bytes that this process has read of its inputs so far.
static READ: AtomicU64 = AtomicU64::new(0);

/// The number of bytes that all jobs of this process have read so far, also of data that they had inflated or copied.
/// It grows during all long work, so that a program can show that something happens.
pub fn bytes_read() -> u64 {
    READ.load(Ordering::Relaxed)
}

/// Adds to the number of bytes read.
pub(crate) fn note_read(bytes: u64) {
    READ.fetch_add(bytes, Ordering::Relaxed);
}

/// The number of bytes of regular files that are done: see [`bytes_done`].
static DONE: AtomicU64 = AtomicU64::new(0);

/// The progress of all jobs of this process through the regular files that they open, in bytes. An open file counts
/// with the bytes that were read, up to its length, and a closed file with its length. So the sum of all lengths is the
/// end, and a program that knows its files can show how much is left.
pub fn bytes_done() -> u64 {
    DONE.load(Ordering::Relaxed)
}

impl FileProgress {
    /// Counts bytes of the file that were read.
    pub(super) fn note(&self, bytes: u64) {
        let before = self.read.fetch_add(bytes, Ordering::Relaxed);
        // Bytes may be read more than once, but the file counts with no more than its length.
        let after = before.saturating_add(bytes).min(self.len);
        DONE.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
    }
}

impl Drop for FileProgress {
    fn drop(&mut self) {
        // A file that is closed is done, even if a part of it was not needed.
        self.note(self.len);
    }
}

/// A reader that counts its bytes.
pub(super) struct CountedReader<R>(pub(super) R);

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).inspect(|count| note_read(to_u64(*count)))
    }
}
