//! Counts the bytes that are read, so that programs can show their progress.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::bytes::to_u64;

/// The number of bytes that jobs have read of a regular file, and its length. Other inputs have the length zero here,
/// so that they do not count.
#[derive(Debug, Default)]
pub(super) struct FileProgress {
    pub(super) read: AtomicU64,
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

/// The number of bytes that all jobs of this process have done of the regular files that they have opened. A file that
/// is closed counts with its length, an open file with the bytes that were read, but with no more than its length. A
/// program that knows which files it opens can show how much is left.
pub fn bytes_done() -> u64 {
    DONE.load(Ordering::Relaxed)
}

impl FileProgress {
    pub(super) fn note(&self, bytes: u64) {
        let before = self.read.fetch_add(bytes, Ordering::Relaxed);
        // Bytes may be read more than once, but the file counts with no more than its length.
        let after = before.saturating_add(bytes).min(self.len);
        DONE.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
    }
}

impl Drop for FileProgress {
    fn drop(&mut self) {
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
