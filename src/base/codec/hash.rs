//! Computes the hash of a compressed bundle: the first 8 bytes of the MD5 of the inflated bundle, as a little-endian
//! number.
//!
//! MD5 is slower than zstd inflates, so it runs on a separate thread for all but small bundles, if the process may use
//! several.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle, scope};

use md5::{Digest, Md5};

use crate::base::error::{Error, Result};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, Sink, emit, total_len};
use crate::base::threads;

/// The maximum size that is hashed without a thread, in bytes: starting one takes longer.
const INLINE_MAX: u64 = 1 << 20;

/// The size of the blocks passed to the thread, in bytes.
const BLOCK: usize = 256 << 10;

/// The number of blocks, which are filled, hashed and filled again. They limit how far the hash may lag behind.
const BLOCKS: usize = 8;

/// Runs `work`, which writes the pieces, and hashes their bytes meanwhile. Returns the hash and the result of `work`.
///
/// The hash reads the pieces on its own: a compressor takes its input in bursts, so sharing one reader would be slow.
pub(crate) fn hash_during<T>(pieces: &[Piece<'_>], work: impl FnOnce() -> Result<T>) -> Result<(u64, T)> {
    if total_len(pieces)? <= INLINE_MAX || threads::count() == 1 {
        return Ok((hash_of(pieces)?, work()?));
    }
    scope(|scope| {
        let thread = Builder::new().name("hash".to_owned()).spawn_scoped(scope, || hash_of(pieces));
        let result = work()?;
        let hash = match thread {
            Ok(thread) => thread.join().map_err(|_| thread_ended())??,
            // The system cannot start a thread.
            Err(_) => hash_of(pieces)?,
        };
        Ok((hash, result))
    })
}

fn thread_ended() -> Error {
    Error::internal("the hashing thread ended early")
}

/// Hashes the pieces on the calling thread.
fn hash_of(pieces: &[Piece<'_>]) -> Result<u64> {
    let mut hasher = Hasher::Inline(Md5::new());
    emit(pieces, &mut hasher)?;
    hasher.finish()
}

impl Sink for Hasher {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.update(data);
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        slice.read_blocks(&mut |block| self.write(block))
    }
}

/// A hasher of consecutive blocks.
pub(crate) enum Hasher {
    /// Hashes on the calling thread.
    Inline(Md5),
    /// Hashes on a separate thread.
    Thread(Worker),
}

/// A hashing thread, with the channels for blocks in both directions.
pub(crate) struct Worker {
    /// The block that is filled next.
    block: Vec<u8>,
    /// Takes full blocks to the thread.
    full: SyncSender<Vec<u8>>,
    /// Returns hashed blocks from the thread, empty.
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Md5>,
}

impl Hasher {
    /// A hasher for about `len` bytes.
    pub(crate) fn new(len: u64) -> Self {
        if len > INLINE_MAX
            && threads::count() > 1
            && let Some(worker) = Worker::start()
        {
            return Self::Thread(worker);
        }
        Self::Inline(Md5::new())
    }

    /// Hashes the next bytes.
    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Inline(hash) => hash.update(data),
            Self::Thread(worker) => worker.update(data),
        }
    }

    /// Returns the hash of all bytes as a compressed bundle records it: see the module.
    pub(crate) fn finish(self) -> Result<u64> {
        let [a, b, c, d, e, f, g, h, ..]: [u8; 16] = match self {
            Self::Inline(hash) => hash.finalize().into(),
            Self::Thread(worker) => worker.finish()?.finalize().into(),
        };
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl Worker {
    /// Starts the thread. Returns `None` if the system cannot start one.
    fn start() -> Option<Self> {
        let (full, to_hash) = sync_channel::<Vec<u8>>(BLOCKS);
        let (hashed, empty) = sync_channel::<Vec<u8>>(BLOCKS);
        // One block is filled first; the others are empty as if the thread had returned them.
        for _ in 1..BLOCKS {
            hashed.try_send(Vec::with_capacity(BLOCK)).ok()?;
        }
        let thread = Builder::new().name("hash".to_owned()).spawn(move || hash_blocks(&to_hash, &hashed)).ok()?;
        Some(Self { block: Vec::with_capacity(BLOCK), full, empty, thread })
    }

    /// Fills blocks with the data, and sends each full one to the thread. Waits while the thread has all other blocks.
    fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = BLOCK.saturating_sub(self.block.len());
            let Some((fitting, rest)) = data.split_at_checked(room.min(data.len())) else { return };
            self.block.extend_from_slice(fitting);
            data = rest;
            if self.block.len() >= BLOCK {
                // If the thread has panicked, it takes and returns no blocks. `finish` reports the error.
                let next = self.empty.recv().unwrap_or_default();
                drop(self.full.send(std::mem::replace(&mut self.block, next)));
            }
        }
    }

    /// Sends the last block, ends the thread and returns its hash.
    fn finish(self) -> Result<Md5> {
        let Self { block, full, empty, thread } = self;
        // Sending fails only if the thread has panicked, which `join` reports.
        drop(full.send(block));
        // Closing the channels ends the thread.
        drop((full, empty));
        thread.join().map_err(|_| thread_ended())
    }
}

/// Hashes the blocks that arrive, and sends them back empty. Returns the hash once no more blocks can arrive.
fn hash_blocks(to_hash: &Receiver<Vec<u8>>, hashed: &SyncSender<Vec<u8>>) -> Md5 {
    let mut hash = Md5::new();
    while let Ok(mut block) = to_hash.recv() {
        hash.update(&block);
        block.clear();
        // After the last block was sent, nobody takes empty blocks any more.
        drop(hashed.send(block));
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_in_steps(data: &[u8], expected_len: u64, step: usize) -> u64 {
        let mut hasher = Hasher::new(expected_len);
        for part in data.chunks(step) {
            hasher.update(part);
        }
        hasher.finish().unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "hashes megabytes")]
    fn the_thread_gives_the_same_hash() {
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 20 * BLOCK + 7] {
            let data: Vec<u8> = (0..len).map(|n| u8::try_from(n % 253).unwrap()).collect();
            let inline = hash_in_steps(&data, 0, 1000);
            assert_eq!(hash_in_steps(&data, INLINE_MAX + 1, 1000), inline);
            assert_eq!(hash_in_steps(&data, INLINE_MAX + 1, 3 * BLOCK), inline);
        }
        assert_eq!(Hasher::new(0).finish().unwrap().to_le_bytes(), [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0, 0xb2, 0x04]);
    }
}
