//! Stores code objects that a job needs again later and that are not stored as they are in the input.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::base::bytes::{add, len_of};
use crate::base::error::{Result, WithPath};
use crate::base::io::input::{Input, Slice, Spool};
use crate::base::io::meter::Meter;
use crate::base::io::piece::Sink;
use crate::llvm::container::sequence::Bundle;

/// The largest size in bytes that is read through a mapping rather than from the file.
const SMALL: u64 = 64 << 10;

/// Stored code objects, one after another: in memory while their total size is small, otherwise in a temporary file.
pub(super) struct Aside {
    spool: Spool,
    len: u64,
    /// The file that they are from, for errors.
    path: PathBuf,
}

/// The location of a code object.
#[derive(Clone, Debug)]
pub(super) enum KeptAside<'a> {
    /// In the input file, unchanged.
    InPlace(Slice<'a>),
    /// This byte range of the stored code objects.
    Aside(Range<u64>),
}

impl Aside {
    pub(super) fn new(path: &Path) -> Self {
        Self { spool: Spool::new(), len: 0, path: path.to_owned() }
    }

    /// Keeps the code object of an entry, given by its index. Stores a copy only if the input does not hold it
    /// unchanged.
    pub(super) fn keep<'a>(&mut self, bundle: &Bundle<'a>, index: usize) -> Result<KeptAside<'a>> {
        if let Some(slice) = bundle.in_place(index) {
            return Ok(KeptAside::InPlace(slice));
        }
        self.put(bundle, index).map(KeptAside::Aside)
    }

    /// Stores a copy of the code object of an entry, given by its index, and returns its byte range.
    pub(super) fn put(&mut self, bundle: &Bundle<'_>, index: usize) -> Result<Range<u64>> {
        let start = self.len;
        bundle.extract(&mut [(index, &mut *self)], &mut Meter::silent())?;
        Ok(start..self.len)
    }

    /// Returns all stored bytes.
    pub(super) fn into_input(self) -> Result<Input> {
        self.spool.into_input(&self.path).with_path(&self.path)
    }
}

impl<'a> KeptAside<'a> {
    /// The code object. `aside` is the result of [`Aside::into_input`].
    pub(super) fn as_slice(&self, aside: &'a Input) -> Result<Slice<'a>> {
        match self {
            Self::InPlace(slice) => Ok(*slice),
            Self::Aside(range) => put_aside(aside, range),
        }
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::InPlace(slice) => slice.len(),
            Self::Aside(range) => len_of(range),
        }
    }
}

/// A byte range of the result of [`Aside::into_input`].
pub(super) fn put_aside<'a>(aside: &'a Input, range: &Range<u64>) -> Result<Slice<'a>> {
    aside.as_slice().claimed(range)
}

impl Sink for Aside {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.spool.write_all(data).with_path(&self.path)?;
        add(&mut self.len, crate::base::bytes::len_u64(data));
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        if slice.len() <= SMALL { self.write(slice.bytes()) } else { slice.read_blocks(&mut |block| self.write(block)) }
    }
}
