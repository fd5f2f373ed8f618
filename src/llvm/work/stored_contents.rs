//! Stores code objects that had to be inflated or decoded, and that a job writes only after their bundle was dropped.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::base::bytes::{add, len_u64};
use crate::base::error::{Result, WithPath};
use crate::base::io::input::{Input, Slice, Spool};
use crate::base::io::piece::Sink;
use crate::llvm::container::sequence::Bundle;

/// The largest size in bytes that is copied from the mapping. Larger ranges are read from the file block by block, so
/// that they do not fill the memory with pages of the mapping.
const MAPPED_COPY_MAX: u64 = 64 << 10;

/// Stored code objects, one after another: in memory while their total size is small, otherwise in a temporary file.
pub(super) struct StoredContents {
    spool: Spool,
    /// The number of bytes stored so far.
    len: u64,
    /// The input file, for errors.
    path: PathBuf,
}

/// The location of a code object that a job writes later.
#[derive(Clone, Debug)]
pub(super) enum KeptContent<'a> {
    /// In the input file, unchanged.
    InPlace(Slice<'a>),
    /// In this byte range of the stored code objects.
    Stored(Range<u64>),
}

impl StoredContents {
    pub(super) fn new(path: &Path) -> Self {
        Self { spool: Spool::new(), len: 0, path: path.to_owned() }
    }

    /// Keeps the code object of an entry, given by its index. Stores a copy only if the input does not hold it
    /// unchanged.
    pub(super) fn keep<'a>(&mut self, bundle: &Bundle<'a>, index: usize) -> Result<KeptContent<'a>> {
        if let Some(slice) = bundle.in_place(index) {
            return Ok(KeptContent::InPlace(slice));
        }
        let range = self.store(bundle, index)?;
        Ok(KeptContent::Stored(range))
    }

    /// Stores a copy of the code object of an entry, given by its index, and returns its byte range.
    pub(super) fn store(&mut self, bundle: &Bundle<'_>, index: usize) -> Result<Range<u64>> {
        let start = self.len;
        bundle.extract(&mut [(index, &mut *self)])?;
        Ok(start..self.len)
    }

    /// Ends the storing, and returns all stored bytes, to be read.
    pub(super) fn into_input(self) -> Result<Input> {
        self.spool.into_input(&self.path).with_path(&self.path)
    }
}

impl<'a> KeptContent<'a> {
    /// The code object. `stored` is the result of [`StoredContents::into_input`].
    pub(super) fn as_slice(&self, stored: &'a Input) -> Result<Slice<'a>> {
        match self {
            Self::InPlace(slice) => Ok(*slice),
            Self::Stored(range) => stored_range(stored, range),
        }
    }
}

/// A byte range of the result of [`StoredContents::into_input`].
pub(super) fn stored_range<'a>(stored: &'a Input, range: &Range<u64>) -> Result<Slice<'a>> {
    stored.as_slice().claimed(range)
}

impl Sink for StoredContents {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.spool.write_all(data).with_path(&self.path)?;
        add(&mut self.len, len_u64(data));
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        if slice.len() <= MAPPED_COPY_MAX {
            return self.write(slice.bytes());
        }
        // Reads from the file, not from the mapping.
        slice.read_blocks(&mut |block| self.write(block))
    }
}
