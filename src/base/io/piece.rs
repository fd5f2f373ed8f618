//! Plans outputs as lists of pieces before any byte is copied.
//!
//! Every writer of a container is a function from its members to a list of [`Piece`]s: plan first, emit once. A sink
//! receives the pieces: a plain file copies large ranges in the kernel, a compressor reads them.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use crate::base::bytes::len_u64;
use crate::base::error::{Error, Result, WithPath};
use crate::base::io::input::Slice;

/// A run of output bytes.
#[derive(Clone, Debug)]
pub enum Piece<'a> {
    /// Bytes made by the writer: headers, marker lines.
    Bytes(Vec<u8>),
    /// A number of zero bytes, for alignment.
    Zeros(u64),
    /// A range of an input.
    Input(Slice<'a>),
}

impl Piece<'_> {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(data) => len_u64(data),
            Self::Zeros(count) => *count,
            Self::Input(slice) => slice.len(),
        }
    }

    /// Whether the piece is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the error for an output with a size or count that its format cannot record.
pub(crate) fn too_long() -> Error {
    Error::usage("the output would be larger than its format allows")
}

/// Returns the sum of lengths in bytes, or an error if it does not fit in 64 bits.
pub(crate) fn sum(lens: impl IntoIterator<Item = u64>) -> Result<u64> {
    lens.into_iter().try_fold(0, u64::checked_add).ok_or_else(too_long)
}

/// The length of a whole plan in bytes.
pub(crate) fn total_len(pieces: &[Piece<'_>]) -> Result<u64> {
    sum(pieces.iter().map(Piece::len))
}

/// A destination for pieces.
pub(crate) trait Sink {
    /// Writes bytes from memory.
    fn write(&mut self, data: &[u8]) -> Result<()>;

    /// Copies a range of an input.
    fn copy(&mut self, slice: Slice<'_>) -> Result<()>;
}

/// A sink in memory, for outputs that are known to be small.
impl Sink for Vec<u8> {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.extend_from_slice(data);
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        Sink::write(self, slice.bytes())
    }
}

/// Writes a plan to `out`. Ranges of inputs are read block by block.
///
/// # Errors
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if an input cannot be read, and on the path `-` if `out` fails.
pub fn write_to(pieces: &[Piece<'_>], out: &mut dyn io::Write) -> Result<()> {
    emit(pieces, &mut Writer::new(out))
}

/// A sink that writes to any writer. Errors name `path` as the file.
pub(crate) struct Writer<'p, W> {
    pub(crate) out: W,
    pub(crate) path: &'p Path,
}

impl<W> Writer<'static, W> {
    /// Returns a sink for a writer without a path. Errors name it `-`, as if it were standard output.
    pub(crate) fn new(out: W) -> Self {
        Self { out, path: Path::new("-") }
    }
}

impl<W: Write> Sink for Writer<'_, W> {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.out.write_all(data).with_path(self.path)
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        slice.read_blocks(&mut |block| self.write(block))
    }
}

impl<W: Write + Seek> Writer<'_, W> {
    /// Moves the position to `to`. Returns the new position.
    pub(crate) fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.out.seek(to).with_path(self.path)
    }

    /// Writes `data` over bytes that were skipped at `start`, and moves back to the current position.
    pub(crate) fn fill_in(&mut self, start: u64, data: &[u8]) -> Result<()> {
        let current = self.seek(SeekFrom::Current(0))?;
        self.seek(SeekFrom::Start(start))?;
        self.write(data)?;
        self.seek(SeekFrom::Start(current)).map(drop)
    }
}

/// Passes all pieces to a sink, in order.
pub(crate) fn emit(pieces: &[Piece<'_>], sink: &mut dyn Sink) -> Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    for piece in pieces {
        match piece {
            Piece::Bytes(data) => sink.write(data)?,
            Piece::Input(slice) => sink.copy(*slice)?,
            Piece::Zeros(count) => {
                let mut left = *count;
                while left > 0 {
                    let block = crate::base::bytes::slice(&ZEROS, 0, left).unwrap_or(&ZEROS);
                    sink.write(block)?;
                    left -= len_u64(block);
                }
            }
        }
    }
    Ok(())
}
