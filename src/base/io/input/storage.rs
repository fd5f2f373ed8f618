//! The storage of an input's bytes: memory, or a file that is mapped.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::progress::CountedReader;
use crate::base::bytes::{is_zero, len_u64};
use crate::base::error::Error;
use crate::base::io::mapping::Mapping;
use crate::base::io::process;
use crate::base::io::sys::{self, Stat, Status};

/// The error of a file that has changed.
pub(super) fn changed() -> io::Error {
    io::Error::other("the file changed while it was read")
}

/// The maximum size of a pipe, a device or an inflated bundle that is kept in memory, in bytes.
pub(crate) const MEMORY_MAX: u64 = 16 << 20;

/// The maximum size in bytes that is kept in memory for each of many inputs. A temporary file is written in blocks of
/// this size too.
pub(crate) const SMALL: u64 = 64 << 10;

/// The size of the blocks of zeros that become holes of a temporary file, in bytes.
const SPARSE_BLOCK: usize = 64 << 10;

/// The maximum size to read, without an explicit limit, from a file that neither records its size nor can be mapped, in
/// bytes. The largest useful files of this kind are tables of some megabytes under `/proc` and `/sys`.
const UNSIZED_MAX: u64 = 64 << 20;

/// No limit on the size of a file that is read to its end.
const NO_LIMIT: u64 = u64::MAX;

/// The way to read the bytes of a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// From a mapping of the file, which does not change, as the caller of [`Input::map`] promises.
    Mapped,
    /// From a copy.
    Copied,
}

#[derive(Debug)]
pub(crate) enum Storage {
    Memory(Vec<u8>),
    Mapped { file: Option<File>, map: Mapping },
}

/// The identity of a file, and the metadata that changes with its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// The [identity](Stat::identity) of the file.
    pub(super) file: (u64, u64),
    pub(super) len: u64,
    modified: (i64, i64),
    status: Status,
    /// The [permissions](Stat::mode), which may change without the bytes.
    pub(super) mode: u32,
}

/// A change since a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// The file is shorter.
    Shorter,
    /// The file is longer, has another time of modification, or is another file. Or a program has changed the file and
    /// set its time of modification back, which only the time of its last change shows.
    Modified,
}

impl Stamp {
    pub(super) fn of(found: &Stat) -> Self {
        let (file, len, modified) = (found.identity(), found.len(), found.modified());
        Self { file, len, modified, status: found.status(), mode: found.mode() }
    }

    /// Returns the change of the file since an earlier stamp, or `None` if it has not changed.
    pub(super) fn change_since(&self, since: &Self) -> Option<FileChange> {
        if self.len < since.len {
            Some(FileChange::Shorter)
        } else if (self.file, self.len, self.modified) != (since.file, since.len, since.modified)
            || self.status.may_have_other_bytes(&since.status)
        {
            Some(FileChange::Modified)
        } else {
            None
        }
    }
}

impl Storage {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(data) => data,
            Self::Mapped { map, .. } => map,
        }
    }

    /// Reads standard input from its current position, since another process may have read a part of it, and leaves it
    /// at its end, as reading a pipe would. If it is read a second time, it is empty. Returns the same as
    /// [`of_file`](Self::of_file), and passes `max` and `access` to it.
    pub(super) fn of_standard_input(
        mut file: File,
        max: Option<u64>,
        access: Access,
    ) -> io::Result<(Self, Option<Stamp>)> {
        if !Stat::of(&file)?.is_file() {
            return Self::of_file(file, max, access);
        }
        // A mapping starts at the start of the file, so the rest of a file is copied. Later changes do not affect the
        // copy, so it has no stamp.
        if file.stream_position()? != 0 {
            return Ok((Self::spool(file, MEMORY_MAX)?, None));
        }
        let opened = Self::of_file(file, max, access)?;
        // Copying has moved the position to the end. A mapping leaves it at the start.
        if let (Self::Mapped { file: Some(file), .. }, _) = &opened {
            let mut file: &File = file;
            file.seek(SeekFrom::End(0))?;
        }
        Ok(opened)
    }

    /// Maps or copies a file. Returns the bytes and the state of the file when it was opened, for
    /// [`Input::ensure_unchanged`](super::Input::ensure_unchanged). The state is `None` if later changes have no
    /// effect. `max` limits the bytes of a pipe, a device or a pseudo-file; other regular files have no limit.
    pub(super) fn of_file(file: File, max: Option<u64>, access: Access) -> io::Result<(Self, Option<Stamp>)> {
        let metadata = Stat::of(&file)?;
        if metadata.is_dir() {
            return Err(sys::is_a_directory());
        }
        // A pipe or a device.
        if !metadata.is_file() {
            return Ok((Self::spool_within(file, max.unwrap_or(NO_LIMIT))?, None));
        }
        // Pseudo-files, such as those under /proc, record no length but have bytes. Their time of modification keeps
        // changing, so they get no state.
        if metadata.len() == 0 {
            return Ok((Self::spool_within(file, max.unwrap_or(UNSIZED_MAX))?, None));
        }
        let opened = Stamp::of(&metadata);
        match access {
            Access::Copied => Ok((Self::copy_of_one_state(&file, &opened)?, None)),
            // `max` has an effect only if the file cannot be mapped and is a pseudo-file that records a length.
            Access::Mapped => Self::map_or_copy(file, &metadata, max),
        }
    }

    /// Copies a regular file. Fails if the file changes meanwhile, because the copy may then mix two states of it.
    fn copy_of_one_state(file: &File, opened: &Stamp) -> io::Result<Self> {
        let storage = Self::spool(file, MEMORY_MAX)?;
        let now = Stamp::of(&Stat::of(file)?);
        if now.change_since(opened).is_some() {
            return Err(changed());
        }
        Ok(storage)
    }

    /// Maps a regular file for a caller of [`Input::map`](super::Input::map), or copies it if its file system cannot
    /// map files. Returns the same as [`of_file`](Self::of_file).
    fn map_or_copy(file: File, metadata: &Stat, max: Option<u64>) -> io::Result<(Self, Option<Stamp>)> {
        let len = mappable_len(metadata.len())?;
        #[allow(unsafe_code, reason = "mapping has no safe form")]
        // SAFETY: only the caller of `Input::map`, who has made the promise, passes `Access::Mapped`.
        let mapped = unsafe { Mapping::of(&file, len) };
        match mapped {
            Ok(map) => Ok((Self::Mapped { file: Some(file), map }, Some(Stamp::of(metadata)))),
            Err(_) => Ok((Self::copy_of_unmappable(file, metadata, max)?, None)),
        }
    }

    /// Copies a regular file that cannot be mapped. `max` limits the bytes of a pseudo-file; [`UNSIZED_MAX`] is the
    /// limit if it is `None`.
    fn copy_of_unmappable(mut file: File, metadata: &Stat, max: Option<u64>) -> io::Result<Self> {
        file.rewind()?;
        // A pseudo-file takes no disk space and may record any length: /proc/kcore has 2^47. Its time of modification
        // keeps changing.
        let is_pseudo_file = metadata.takes_no_space();
        if is_pseudo_file {
            Self::spool_within(file, max.unwrap_or(UNSIZED_MAX))
        } else {
            Self::copy_of_one_state(&file, &Stamp::of(metadata))
        }
    }

    /// Keeps all bytes of `reader`. Fails if there are more than `max`.
    fn spool_within(reader: impl Read, max: u64) -> io::Result<Self> {
        let reader = CountedReader(reader);
        // One byte more than `max` shows that the file is too long. Some pseudo-files can only be read in units of
        // several bytes, so whole pages are read.
        let enough = max.saturating_add(1).checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let storage = Self::spool(reader.take(enough), MEMORY_MAX)?;
        if len_u64(storage.bytes()) > max {
            let text = format!("longer than {max} bytes, the limit for a pipe, a device or a pseudo-file");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        Ok(storage)
    }

    /// Keeps all bytes of `reader`, in memory if there are fewer than `memory_max`.
    pub(crate) fn spool(reader: impl Read, memory_max: u64) -> io::Result<Self> {
        // The length is not known, so no memory is reserved.
        let expected_len = 0;
        Self::spool_of(reader, memory_max, expected_len)
    }

    /// Keeps all bytes of `reader`, which has about `expected_len` bytes, in memory if there are fewer than
    /// `memory_max`.
    pub(super) fn spool_of(mut reader: impl Read, memory_max: u64, expected_len: u64) -> io::Result<Self> {
        // One allocation saves copying as the data grows. A size that is expected too high costs nothing, because the
        // system provides memory only as it is written.
        let mut data = Vec::with_capacity(usize::try_from(expected_len.min(memory_max)).unwrap_or_default());
        reader.by_ref().take(memory_max).read_to_end(&mut data)?;
        let mut spool = Spool { data, file: None, memory_max };
        spool.move_to_file_if_full()?;
        io::copy(&mut BufReader::with_capacity(1 << 17, reader), &mut spool)?;
        spool.into_storage()
    }
}

/// Checks that a file of this length can be mapped. One run of bytes can take at most half of the address space.
fn mappable_len(len: u64) -> io::Result<usize> {
    match usize::try_from(len) {
        Ok(len) if isize::try_from(len).is_ok() => Ok(len),
        _ => Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than a 32-bit program can map")),
    }
}

/// Collects the bytes of an input: in memory while there are few, then in an unnamed file.
#[derive(Debug)]
pub(crate) struct Spool {
    /// The bytes that are not in the file.
    data: Vec<u8>,
    pub(crate) file: Option<File>,
    memory_max: u64,
}

impl Spool {
    pub(crate) fn new() -> Self {
        Self { data: Vec::new(), file: None, memory_max: MEMORY_MAX }
    }

    /// Returns the collected bytes: as they are if all of them are in memory, otherwise as a mapping of the temporary
    /// file.
    pub(super) fn into_storage(self) -> io::Result<Storage> {
        let Some(mut file) = self.file else { return Ok(Storage::Memory(self.data)) };
        write_sparsely(&mut file, &self.data).map_err(Error::temporary)?;
        // A hole at the end is not part of the file yet.
        let len = file.stream_position()?.max(file.metadata()?.len());
        file.set_len(len).map_err(Error::temporary)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        #[allow(unsafe_code, reason = "mapping has no safe form")]
        // SAFETY: the temporary file has no name, so that others cannot open it, and this process no longer writes to
        // it.
        let map = unsafe { Mapping::of(&file, len)? };
        Ok(Storage::Mapped { file: Some(file), map })
    }

    /// Moves the bytes in memory to the temporary file if there are too many of them. Once there is a file, the memory
    /// only gathers blocks for it.
    fn move_to_file_if_full(&mut self) -> io::Result<()> {
        let most = if self.file.is_some() { SMALL } else { self.memory_max };
        if len_u64(&self.data) >= most {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(process::open(tempfile::tempfile).map_err(Error::temporary)?),
            };
            write_sparsely(file, &self.data).map_err(Error::temporary)?;
            self.data = Vec::new();
        }
        Ok(())
    }
}

/// Writes data to a new file, with holes for blocks of zeros, which take neither space nor time. A library whose code
/// objects were recompressed has long runs of zeros.
fn write_sparsely(file: &mut File, data: &[u8]) -> io::Result<()> {
    for block in data.chunks(SPARSE_BLOCK) {
        if is_zero(block) {
            file.seek_relative(i64::try_from(block.len()).map_err(io::Error::other)?)?;
        } else {
            io::Write::write_all(file, block)?;
        }
    }
    Ok(())
}

impl io::Write for Spool {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.data.extend_from_slice(data);
        self.move_to_file_if_full()?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn holes_of_temporary_files_are_zeros() {
        let parts = [(0, 100), (7, 200_000), (0, 300_000), (1, 1), (0, 65_536), (2, 70_000), (0, 65_535)];
        for first in 0..parts.len() {
            for last in first..parts.len() {
                let part = |&(byte, len): &(u8, usize)| vec![byte; len];
                let data: Vec<u8> = parts[first..=last].iter().flat_map(part).collect();
                for step in [1, 30_000, 1 << 20] {
                    let mut spool = Spool { memory_max: 1000, ..Spool::new() };
                    for part in data.chunks(step.max(data.len() / 100)) {
                        io::Write::write_all(&mut spool, part).unwrap();
                    }
                    let input = spool.into_input(Path::new("x")).unwrap();
                    assert!(input.bytes() == data, "parts {first} to {last}, {step} at a time");
                }
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_mapped_is_copied_unless_it_changes() {
        let mut named = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(named.path()).unwrap();
        // More than stays in memory, so that the copy is a mapped file too.
        let data = vec![7; usize::try_from(MEMORY_MAX).unwrap() + 5];
        std::fs::write(named.path(), &data).unwrap();
        let (file, found) = (open(), Stat::at(named.path()).unwrap());
        assert!(Storage::copy_of_unmappable(open(), &found, Some(1)).unwrap().bytes() == data);
        io::Write::write_all(&mut named, b"8").unwrap();
        assert!(Storage::copy_of_unmappable(file, &found, None).is_err());
    }

    #[test]
    fn what_cannot_be_mapped_is_read_up_to_the_limit() {
        for (len, max, fits) in [(0, 0, true), (1, 0, false), (10, 10, true), (11, 10, false), (4097, 4096, false)] {
            let storage = Storage::spool_within(&vec![7; len][..], max);
            assert_eq!(storage.as_ref().ok().map(|storage| storage.bytes().len()), fits.then_some(len));
            assert!(fits || storage.unwrap_err().to_string().starts_with(&format!("longer than {max} bytes")));
        }
        let whole = vec![7; 17 << 20];
        assert!(Storage::spool_within(&whole[..], 17 << 20).unwrap().bytes() == whole);
        assert!(Storage::spool_within(&whole[..], (17 << 20) - 1).is_err());
    }
}
