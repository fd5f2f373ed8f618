//! Files that are read, changed and written again.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use tempfile::{SpooledData, SpooledTempFile};

use super::sys;
use crate::base::bytes::len_of;
use crate::base::error::{Error, Result, WithPath};
use crate::base::io::input::storage::{SMALL, Storage};
use crate::base::io::input::{Input, MEMORY_MAX, Slice, Spool};
use crate::base::io::output::{ExistingFile, Output, OutputPlace};
use crate::base::io::piece::{Piece, Writer};
use crate::base::io::process;

/// A range of a file, with the pieces that replace its bytes.
pub(crate) type ChangedRange<'p> = (Range<u64>, Vec<Piece<'p>>);

/// Adds `start` to both ends of a range.
pub(crate) fn shift_range(range: &Range<u64>, start: u64) -> Range<u64> {
    start.saturating_add(range.start)..start.saturating_add(range.end)
}

impl Input {
    /// An input over all bytes of `reader`, called `name` in errors.
    pub(crate) fn spool(name: &Path, reader: impl Read) -> io::Result<Self> {
        let unknown_size = 0;
        Self::spool_of(name, reader, unknown_size)
    }

    /// An input over a copy of `data`, which is in memory only if it is small. For jobs that keep many inputs.
    pub(crate) fn spool_copy(name: &Path, data: &[u8]) -> io::Result<Self> {
        let mut input = Self::of_storage(name, Storage::spool(data, SMALL)?);
        // The mapping keeps the bytes. The temporary file is closed, because the number of open files is limited.
        input.close();
        Ok(input)
    }
}

impl Slice<'_> {
    /// The offset of this range in `outer`, which contains it.
    pub(crate) fn start_in(self, outer: Self) -> u64 {
        self.offset().saturating_sub(outer.offset())
    }

    /// Returns the bytes in `range`, relative to the start of this slice, or `None` if the slice does not have all of
    /// them.
    pub(crate) fn range(&self, range: &Range<u64>) -> Option<Self> {
        self.slice(range.start, len_of(range))
    }
}

impl Spool {
    /// The bytes of a temporary file without a name, which nobody else writes to.
    fn of_file(file: File) -> Self {
        let mut spool = Self::new();
        spool.file = Some(file);
        spool
    }
}

/// Returns the bytes that `write` writes as an input: in memory if they are few, otherwise in a temporary file. Later
/// errors about the input call it `name`.
pub(crate) fn spooled<T>(
    name: &Path,
    write: impl FnOnce(&mut Writer<'_, &mut SpooledTempFile>) -> Result<T>,
) -> Result<Input> {
    let path = std::env::temp_dir();
    let mut file = SpooledTempFile::new(usize::try_from(MEMORY_MAX).unwrap_or(usize::MAX));
    write(&mut Writer { out: &mut file, path: &path })?;
    match file.into_inner() {
        SpooledData::InMemory(bytes) => Ok(Input::from_bytes(name, bytes.into_inner())),
        SpooledData::OnDisk(file) => Spool::of_file(file).into_input(name).with_path(&path),
    }
}

impl Output {
    /// An output without a destination, which the job reads again with [`into_input`](Self::into_input).
    pub(crate) fn temporary() -> Result<Self> {
        // The file has no name, so errors name the directory.
        let path = std::env::temp_dir();
        let file = process::open(tempfile::tempfile).map_err(Error::temporary).with_path(&path)?;
        Ok(Self { path, buffer: Vec::new(), place: OutputPlace::Nowhere(file) })
    }

    /// Returns the bytes of a [temporary](Self::temporary) output as an input. Later errors about the input call it
    /// `name`; an error in this function names the path of the output.
    pub(crate) fn into_input(mut self, name: &Path) -> Result<Input> {
        self.flush()?;
        match self.place {
            OutputPlace::Nowhere(file) => Spool::of_file(file).into_input(name).with_path(&self.path),
            OutputPlace::Name { .. } | OutputPlace::Into { .. } => {
                Err(Error::internal("an output cannot be read again"))
            }
        }
    }

    /// Returns the bytes written so far as an input, which is valid until more are written. Later errors about the
    /// input call it `name`; an error in this function names the path of the output.
    pub(crate) fn read_again(&mut self, name: &Path) -> Result<Input> {
        let Writer { out, path } = self.writer()?;
        let file = out.try_clone().with_path(path)?;
        Spool::of_file(file).into_input(name).with_path(path)
    }

    /// Skips `len` bytes, which are zero and take no space if the file system supports holes. At the end of an output,
    /// [`end_at`](Self::end_at) must follow, because skipping alone does not lengthen the file.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        let Writer { out, path } = self.writer()?;
        let len = i64::try_from(len).map_err(io::Error::other).with_path(path)?;
        out.seek_relative(len).with_path(path)
    }

    /// Sets the length of the output in bytes: less than was written, or more after skipped bytes.
    pub(crate) fn end_at(&mut self, len: u64) -> Result<()> {
        let mut writer = self.writer()?;
        writer.out.set_len(len).with_path(writer.path)?;
        writer.seek(SeekFrom::Start(len)).map(drop)
    }

    /// Grants execute permission on a new file wherever read permission is granted. Does nothing for other outputs: a
    /// replaced file keeps its mode.
    pub(crate) fn make_executable(&mut self) -> Result<()> {
        if let OutputPlace::Name { existing: ExistingFile::Absent, .. } = &self.place {
            let Writer { out, path } = self.writer()?;
            sys::make_executable(out).with_path(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_in_memory_is_spooled() {
        let big = vec![7; 20 << 20];
        assert_eq!(Input::spool(Path::new("pipe"), &big[..]).unwrap().bytes(), big);
    }
}
