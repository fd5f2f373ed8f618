//! A range of an input.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use super::progress::note_read;
use super::{HEADER_READ, Input, shrunk};
use crate::base::bytes::{self, add, is_zero};
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::sys;

/// Some bytes and their origin: any bytes of the program, or a range of an [`Input`]. Errors name the input, and the
/// kernel copies its ranges to outputs.
///
/// Readers accept any type that converts into it: `&[u8]`, `&Vec<u8>` and `&Input`.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    pub(super) input: Option<&'a Input>,
    pub(super) data: &'a [u8],
    pub(super) offset: u64,
}

impl<'a> From<&'a [u8]> for Slice<'a> {
    fn from(data: &'a [u8]) -> Self {
        Self { input: None, data, offset: 0 }
    }
}

impl<'a> From<&'a Vec<u8>> for Slice<'a> {
    fn from(data: &'a Vec<u8>) -> Self {
        Self::from(data.as_slice())
    }
}

impl<'a> From<&'a Input> for Slice<'a> {
    fn from(input: &'a Input) -> Self {
        input.as_slice()
    }
}

impl<'a> Slice<'a> {
    /// The bytes of the range.
    pub fn bytes(&self) -> &'a [u8] {
        self.data
    }

    /// The offset of the range in its input, or in the bytes that it was made from.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        bytes::len_u64(self.data)
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns the input, or `None` if the bytes are the program's own.
    pub(crate) fn input(&self) -> Option<&'a Input> {
        self.input
    }

    /// The input's path, for errors; empty if the bytes are the program's own.
    pub fn path(&self) -> &'a Path {
        match self.input {
            Some(input) => input.path(),
            None => Path::new(""),
        }
    }

    fn file(&self) -> Option<&'a File> {
        self.input?.file()
    }

    /// Returns `len` bytes from `offset`, relative to this range, or `None` if it does not have that many.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Self> {
        let data = bytes::slice(self.data, offset, len)?;
        Some(Self { input: self.input, data, offset: self.offset.checked_add(offset)? })
    }

    /// Returns the bytes from `offset`, relative to this range, or `None` if `offset` is after its end.
    pub(crate) fn tail(&self, offset: u64) -> Option<Self> {
        self.slice(offset, self.len().checked_sub(offset)?)
    }

    /// The offset in the input of a byte of this range.
    pub(crate) fn absolute(&self, offset: u64) -> u64 {
        self.offset.saturating_add(offset)
    }

    /// The offset in the input of the end of this range.
    pub(crate) fn end(&self) -> u64 {
        self.absolute(self.len())
    }

    /// Returns the bytes in `range`, relative to the start of this slice, which a header of the file records.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] if the slice does not have all of them.
    pub(crate) fn claimed(&self, range: &Range<u64>) -> Result<Self> {
        self.claim(range.start, bytes::len_of(range), "a range of it").with_path(self.path())
    }

    /// Returns `len` bytes from `offset`, relative to this slice, as a header of the file records them. `what` is the
    /// name of these bytes in errors.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if the slice does not have that many bytes.
    pub(crate) fn claim(&self, offset: u64, len: u64, what: impl Display) -> Result<Self, Malformed> {
        match self.slice(offset, len) {
            Some(claimed) => Ok(claimed),
            None => Err(Malformed::truncated(what, self.absolute(offset), len, self.end())),
        }
    }

    /// Notes that a header was read from the mapping, so that its memory is released in time. For jobs that read many
    /// headers in gigabytes of data.
    pub(crate) fn note_header_read(&self) {
        if let Some(input) = self.input {
            input.count_read_memory(HEADER_READ);
        }
    }

    /// Counts bytes of the range that were read, for the progress.
    fn note_read(&self, bytes: u64) {
        note_read(bytes);
        if let Some(input) = self.input {
            input.progress.note(bytes);
        }
    }

    /// Counts the whole range as read from the mapping, which has brought it into memory: a small range too, because
    /// the system reads more around it.
    pub(crate) fn note_all_read(&self) {
        self.note_read(self.len());
        if let Some(input) = self.input {
            input.count_read_memory(self.len().max(HEADER_READ));
        }
    }

    /// Returns the number of zeros at the start of the range that are in a hole of the file. Returns 0 if the system
    /// does not know of a hole there.
    pub(crate) fn hole_len(&self) -> u64 {
        // Most padding is short, and looking at a few bytes is cheaper than asking the system.
        if !self.begins_with_zeros(SMALLEST_BLOCK) {
            return 0;
        }
        // In tmpfs, a page of a hole becomes data as soon as a byte of it is read. So the rest of the page is compared
        // too, and the system is asked about the bytes after it.
        let page_end = self.offset.saturating_add(SMALLEST_BLOCK).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let checked_len = page_end.saturating_sub(self.offset).min(self.len());
        if !self.begins_with_zeros(checked_len) {
            return 0;
        }
        let Some(file) = self.file() else { return 0 };
        let Some(data_at) = sys::next_data(file, self.offset.saturating_add(checked_len)) else { return 0 };
        data_at.saturating_sub(self.offset).min(self.len())
    }

    /// Whether the first `len` bytes are zeros; false if there are fewer.
    fn begins_with_zeros(&self, len: u64) -> bool {
        match bytes::slice(self.data, 0, len) {
            Some(start) => is_zero(start),
            None => false,
        }
    }

    /// Reads the range and passes it to `take` block by block. Several threads may read the same range at a time.
    pub(crate) fn read_blocks(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        const BLOCK_LEN: usize = 128 << 10;
        let mut reader = self.reader();
        let mut buffer = vec![0; BLOCK_LEN];
        loop {
            let count = reader.read(&mut buffer).with_path(self.path())?;
            match buffer.get(..count) {
                Some([]) | None => return Ok(()),
                Some(block) => take(block)?,
            }
        }
    }

    /// A reader over the range. It reads from the file rather than through the mapping, so that a range of gigabytes
    /// does not count against the memory of the process.
    pub(crate) fn reader(&self) -> SliceReader<'a> {
        SliceReader { slice: *self, position: 0 }
    }

    /// Copies the range to the current position of `to`, in the kernel where possible.
    pub(crate) fn copy_to_file(&self, to: &File, to_path: &Path) -> Result<()> {
        // Without an open file, the bytes are in memory or in the mapping of a closed file. The kernel copies only
        // files.
        let Some(from) = self.file() else { return self.write_to_file(to, to_path) };
        let copied = sys::copy_in_kernel(from, self.offset..self.end(), to, &|bytes| self.note_read(bytes));
        let Some(rest) = self.tail(copied) else { return Ok(()) };
        if rest.is_empty() {
            return Ok(());
        }
        let mut to = to;
        rest.read_blocks(&mut |block| {
            io::Write::write_all(&mut to, block).map_err(|error| Error::copy(self.path(), to_path, error))
        })
    }

    /// Writes the bytes from memory or from the mapping to the current position of `to`.
    fn write_to_file(&self, mut to: &File, to_path: &Path) -> Result<()> {
        match io::Write::write_all(&mut to, self.data) {
            Ok(()) => Ok(()),
            // If the mapped file became shorter, reading the mapping raises a signal in a program. In a system call, as
            // here, it is an error.
            Err(error) if sys::is_fault(&error) => Err(Error::io(self.path(), shrunk())),
            Err(error) => Err(Error::copy(self.path(), to_path, error)),
        }
    }
}

/// The size in bytes of the smallest blocks of any file system: a hole is not shorter.
const SMALLEST_BLOCK: u64 = 512;
/// The size in bytes of a page of memory.
const PAGE: u64 = 4096;

/// Reads a [`Slice`] front to back.
#[derive(Debug)]
pub(crate) struct SliceReader<'a> {
    slice: Slice<'a>,
    position: u64,
}

impl Read for SliceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = bytes::tail(self.slice.data, self.position).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        if len == 0 {
            return Ok(0);
        }
        let Some(buffer) = buffer.get_mut(..len) else { return Ok(0) };
        let count = match self.slice.file() {
            // Bytes read from the file do not count against the memory of the process, unlike bytes of the mapping.
            Some(file) => read_at(file, buffer, self.slice.absolute(self.position))?,
            None => {
                buffer.copy_from_slice(rest.get(..len).unwrap_or_default());
                len
            }
        };
        // The file ends although the range goes on.
        if count == 0 {
            return Err(shrunk());
        }
        add(&mut self.position, bytes::to_u64(count));
        self.slice.note_read(bytes::to_u64(count));
        Ok(count)
    }
}

/// Reads at an offset. Retries on interruption, which decoders treat as an error.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match sys::read_at(file, buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
