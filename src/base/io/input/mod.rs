//! Reads inputs: a file, standard input or a device as one run of bytes, and ranges of it.
//!
//! [`Input::map`] maps a regular file, so opening is cheap at any size; it is `unsafe`, because others may change the
//! file. [`Input::read`] copies it. Inputs that cannot be mapped (a pipe, a device, standard input in the middle of a
//! file) are always read once. Small ones are kept in memory, others in an unnamed temporary file with holes for long
//! runs of zeros.
//!
//! A file may be changed by another program while it is read. Neither the outputs made from it nor the errors it led to
//! are valid then, so [`Input::ensure_unchanged`] is called before a job puts its outputs in place or reports its
//! errors.

pub(crate) mod progress;
mod slice;
pub(crate) mod storage;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::bytes;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::process;
use crate::base::io::sys::{self, Stat};
use progress::FileProgress;
pub use progress::{bytes_done, bytes_read};
pub use slice::Slice;
use storage::{Access, FileChange, Stamp, Storage, changed};
pub(crate) use storage::{MEMORY_MAX, Spool};

/// The maximum number of bytes to read from a pseudo-file that the user did not name. Files under `/sys` record this
/// length, whatever they hold, and a search of a directory may find many of them.
const PSEUDO_FILE_MAX: u64 = 4096;

/// The types of files to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Files of any type. The tool waits for a pipe or a device and reads it to its end, as LLVM's tools do.
    Any,
    /// Files of any type except devices that may be endless: the only devices opened are terminals and `/dev/null`.
    /// Pipes and their names (`/dev/stdin`) do not count as devices.
    Finite,
    /// Regular files, for paths that the user did not name: files found in a directory or in a thin archive. Opening
    /// never blocks. A file without a recorded size is treated as empty, because most files under `/proc` are endless
    /// or costly to read.
    Regular,
}

/// An open input, which can be read at any offset.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    storage: Storage,
    access: Access,
    /// The state of the regular file when it was opened; `None` if its bytes were copied, so that later changes do not
    /// matter, or if the input is not a regular file.
    opened: Option<Stamp>,
    /// The number of bytes of the mapping that reading has brought into memory so far. Their memory is released
    /// regularly.
    read_memory: AtomicU64,
    progress: FileProgress,
}

/// The memory of a mapping is released after reads of this many bytes.
const RELEASE_INTERVAL: u64 = 32 << 20;

/// The number of bytes to count for reading a header: with it, the system brings 64 KiB or more around it into memory.
const HEADER_READ: u64 = 256 << 10;

impl Input {
    /// Reads `path` into memory or, if it is large, into an unnamed temporary file, so that later changes to the file
    /// have no effect. Waits for a pipe or a device and reads it to its end; `-` is standard input.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be opened or read, or changes while it is read; [`ErrorKind::Temporary`] if
    /// there is no room for the copy.
    pub fn read(path: &Path) -> Result<Self> {
        Self::open(path, Accept::Any, None, Access::Copied)
    }

    /// Opens `path` by mapping it, which is cheap at any size; `-` is standard input. Files that cannot be mapped are
    /// read: pipes, devices, and regular files that do not record their size, such as most of those under `/proc`. At
    /// most `max` bytes of them are read. Without a limit, pipes and devices are read to their end, and at most 64 MiB
    /// of a regular file without a size.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be opened, read or mapped, or exceeds the limit; [`ErrorKind::Unsupported`]
    /// if `accept` excludes it.
    ///
    /// # Safety
    /// While the input lives, nobody changes or shortens the file: neither this program nor another. This holds as well
    /// for the members of thin archives, which are separate files and mapped too.
    ///
    /// Rust assumes that the bytes of a `&[u8]` are constant. If they change, the behaviour is undefined; the module
    /// `io::mapping` documents which consequences this library rules out. If the file becomes shorter, the system ends
    /// the program; after [`hand_over`](crate::io::hand_over), with an error message.
    #[allow(unsafe_code, reason = "only the caller knows who may change the file")]
    pub unsafe fn map(path: &Path, accept: Accept, max: Option<u64>) -> Result<Self> {
        Self::open(path, accept, max, Access::Mapped)
    }

    /// Opens a file that a thin archive in this input names, with the same access as this input.
    pub(crate) fn open_beside(&self, path: &Path) -> Result<Self> {
        Self::open(path, Accept::Regular, None, self.access)
    }

    /// Opens a file for [`read`](Self::read) or [`map`](Self::map). The latter explains `accept` and `max`. For
    /// [`Accept::Regular`], [`PSEUDO_FILE_MAX`] replaces `max`.
    fn open(path: &Path, accept: Accept, max: Option<u64>, access: Access) -> Result<Self> {
        if accept == Accept::Regular {
            return Self::open_regular(path, access);
        }
        if sys::is_null(path) {
            return Ok(Self::from_bytes(path, Vec::new()));
        }
        let file = open_file(path)?;
        if accept == Accept::Finite && Stat::of(&file).with_path(path)?.may_be_endless(&file) {
            let reason = "is a device and may be endless; copy the data to a regular file first";
            return Err(Error::refused(ErrorKind::Unsupported, path, None, reason));
        }
        let is_standard_input = path.as_os_str() == "-";
        let opened = if is_standard_input {
            Storage::of_standard_input(file, max, access)
        } else {
            Storage::of_file(file, max, access)
        };
        Ok(Self::of_opened(path, opened.with_path(path)?, access))
    }

    /// Opens a file for [`Accept::Regular`], or fails if the path leads to a file of another type.
    fn open_regular(path: &Path, access: Access) -> Result<Self> {
        let regular = process::open(|| open_if_regular(path)).with_path(path)?;
        let reason = "not a regular file; members of thin archives and files in directories must be";
        let file = regular.ok_or_else(|| Error::refused(ErrorKind::Unsupported, path, None, reason))?;
        let opened = match Stat::of(&file).with_path(path)?.len() {
            // A pseudo-file that records no length counts as empty, without a state that could change.
            0 => (Storage::Memory(Vec::new()), None),
            // Regular files of any other kind have no limit: see `Storage::of_file`.
            _ => Storage::of_file(file, Some(PSEUDO_FILE_MAX), access).with_path(path)?,
        };
        Ok(Self::of_opened(path, opened, access))
    }

    /// Returns the input for the result of [`Storage::of_file`]: the bytes, and the state of the file if later changes
    /// matter. Only a file with such a state counts for the progress. Closes the file if few more can be opened.
    fn of_opened(path: &Path, (storage, opened): (Storage, Option<Stamp>), access: Access) -> Self {
        let len = match &opened {
            Some(opened) => opened.len,
            None => 0,
        };
        let progress = FileProgress { len, read: AtomicU64::new(0) };
        let mut input = Self { opened, access, progress, ..Self::of_storage(path, storage) };
        if input.file().is_some_and(process::is_short_of_files) {
            input.close();
        }
        input
    }

    /// An input over bytes in memory, called `name` in errors.
    pub fn from_bytes(name: impl Into<PathBuf>, data: Vec<u8>) -> Self {
        Self::of_storage(name, Storage::Memory(data))
    }

    /// An input over all bytes of `reader`, which has about `expected_len` bytes.
    pub(crate) fn spool_of(name: &Path, reader: impl Read, expected_len: u64) -> io::Result<Self> {
        Ok(Self::of_storage(name, Storage::spool_of(reader, MEMORY_MAX, expected_len)?))
    }

    pub(crate) fn of_storage(name: impl Into<PathBuf>, storage: Storage) -> Self {
        let (access, progress) = (Access::Copied, FileProgress::default());
        Self { path: name.into(), storage, access, opened: None, read_memory: AtomicU64::new(0), progress }
    }

    /// The path as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        self.storage.bytes()
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        bytes::len_u64(self.bytes())
    }

    /// Whether the input is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// `len` bytes from `offset`, if the input has that many.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Slice<'_>> {
        self.as_slice().slice(offset, len)
    }

    /// The whole input as one range.
    pub fn as_slice(&self) -> Slice<'_> {
        Slice { input: Some(self), data: self.bytes(), offset: 0 }
    }

    /// Closes the file and keeps its bytes, in the mapping: a job may have more inputs than a process may have open
    /// files. Inputs that the user names are closed only if few more files can be opened.
    pub(crate) fn close(&mut self) {
        if let Storage::Mapped { file, .. } = &mut self.storage {
            *file = None;
        }
    }

    /// Counts a read of `len` bytes from the mapping, and releases the memory of the mapping regularly. Otherwise a
    /// walk over the headers in a library would end with most of the library in memory.
    fn count_read_memory(&self, len: u64) {
        let Storage::Mapped { map, .. } = &self.storage else { return };
        let before = self.read_memory.fetch_add(len, Ordering::Relaxed);
        if before.wrapping_add(len) / RELEASE_INTERVAL != before / RELEASE_INTERVAL {
            map.release();
        }
    }

    /// Checks that the input has not changed since it was opened: by the length, the modification time and, on Unix,
    /// the time of the last change. Does nothing if the bytes were copied, or if the file is closed and its path leads
    /// to another file. Two kinds of changes are not detected: a change through a mapping, and one within a tick of the
    /// file system's clock after the last change before the file was opened.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file was changed.
    pub fn ensure_unchanged(&self) -> Result<()> {
        let now = self.stamp().with_path(&self.path)?;
        let (Some(then), Some(now)) = (self.opened, now) else { return Ok(()) };
        match now.change_since(&then) {
            Some(FileChange::Shorter) => Err(Error::io(&self.path, shrunk())),
            Some(FileChange::Modified) => Err(Error::io(&self.path, changed())),
            None => Ok(()),
        }
    }

    /// Returns the permissions of the regular file that is mapped, as they were when it was opened, or `None` if the
    /// bytes were copied.
    pub(crate) fn mode(&self) -> Option<u32> {
        Some(self.opened?.mode)
    }

    /// Returns the current state of the regular file that was opened, or `None` if the bytes were copied. The state of
    /// a closed file is read by its path, and is `None` if the path now leads to nothing or to a different file.
    fn stamp(&self) -> io::Result<Option<Stamp>> {
        let Some(opened) = self.opened else { return Ok(None) };
        if let Some(file) = self.file() {
            return Ok(Some(Stamp::of(&Stat::of(file)?)));
        }
        let Ok(found) = Stat::at(&self.path) else { return Ok(None) };
        let now = Stamp::of(&found);
        Ok(if now.file == opened.file { Some(now) } else { None })
    }

    /// Returns `result`, that of a job on the input, or an error if the input has changed.
    pub(crate) fn unless_changed<T>(&self, result: Result<T>) -> Result<T> {
        unless_changed([self], result)
    }

    /// Returns the file that is mapped, or `None` if the bytes are in memory or the file is closed.
    fn file(&self) -> Option<&File> {
        match &self.storage {
            Storage::Memory(_) => None,
            Storage::Mapped { file, .. } => file.as_ref(),
        }
    }
}

impl Spool {
    /// The finished input, called `name` in errors.
    pub(crate) fn into_input(self, name: &Path) -> io::Result<Input> {
        Ok(Input::of_storage(name, self.into_storage()?))
    }
}

/// Opens a file of any type; `-` is standard input.
fn open_file(path: &Path) -> Result<File> {
    if path.as_os_str() == "-" {
        return process::open(sys::standard_input).with_path(path);
    }
    process::open(|| open_named(path)).with_path(path)
}

/// Opens a file of any type. Waits for the other end of a pipe. A regular file is opened in the way that never blocks.
fn open_named(path: &Path) -> io::Result<File> {
    match open_if_regular(path)? {
        Some(file) => Ok(file),
        None => sys::open(path),
    }
}

/// Opens a regular file, and never blocks. Returns `None` for a file of another type.
fn open_if_regular(path: &Path) -> io::Result<Option<File>> {
    if !Stat::at(path)?.is_file() {
        return Ok(None);
    }
    let file = sys::open_at_once(path)?;
    // Checked again, because another program may have replaced the file before it was opened.
    Ok(if Stat::of(&file)?.is_file() { Some(file) } else { None })
}

/// Returns `result`, that of a job on some inputs, or an error if one of them has changed.
pub(crate) fn unless_changed<'i, T>(inputs: impl IntoIterator<Item = &'i Input>, result: Result<T>) -> Result<T> {
    for input in inputs {
        input.ensure_unchanged()?;
    }
    result
}

/// The error of a file that became shorter.
fn shrunk() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use std::io::{Seek as _, SeekFrom};

    use super::*;
    use crate::base::testing::map;

    const MAPPED: Access = Access::Mapped;

    fn mapped(data: &[u8]) -> (tempfile::NamedTempFile, Input) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), data).unwrap();
        let input = map(file.path()).unwrap();
        (file, input)
    }

    #[test]
    fn slices_stay_inside() {
        let input = Input::from_bytes("x", b"abcdef".to_vec());
        let middle = input.slice(1, 4).unwrap();
        assert_eq!(middle.bytes(), b"bcde");
        assert_eq!(middle.slice(1, 2).unwrap().bytes(), b"cd");
        assert_eq!(middle.slice(1, 2).unwrap().offset(), 2);
        assert!(middle.slice(2, 3).is_none());
        assert!(input.slice(u64::MAX, 2).is_none());
    }

    #[test]
    fn readers_and_copies_give_the_same_bytes_from_files_and_memory() {
        let data: Vec<u8> = (0..200_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let (_keep, file) = mapped(&data);
        for input in [file, Input::from_bytes("x", data.clone())] {
            let range = input.slice(1000, 150_000).unwrap();
            let mut read = Vec::new();
            range.reader().read_to_end(&mut read).unwrap();
            assert_eq!(read, data[1000..151_000]);
            let out = tempfile::NamedTempFile::new().unwrap();
            range.copy_to_file(out.as_file(), out.path()).unwrap();
            assert_eq!(std::fs::read(out.path()).unwrap(), read);
        }
    }

    #[test]
    fn standard_input_stays_at_its_end_when_holes_are_looked_for() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"start").unwrap();
        file.seek(SeekFrom::Start(1 << 20)).unwrap();
        file.write_all(b"end").unwrap();
        file.rewind().unwrap();
        let (storage, _) = Storage::of_standard_input(file.try_clone().unwrap(), None, MAPPED).unwrap();
        let input = Input::of_storage("-", storage);
        for offset in [0, 5, 1 << 16, 1 << 20, input.len()] {
            let hole_len = input.slice(offset, input.len() - offset).unwrap().hole_len();
            assert!(offset + hole_len <= 1 << 20 || hole_len == 0);
            assert_eq!((&file).stream_position().unwrap(), input.len(), "{offset}");
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_read() {
        assert!(map(Path::new("/dev/null")).unwrap().is_empty());
        let error = map(Path::new("/")).unwrap_err();
        assert_eq!(error.to_string(), "'/': Is a directory");
    }

    #[cfg(target_pointer_width = "32")]
    #[test]
    fn a_file_beyond_the_addresses_is_refused() {
        for len in [1 << 31, 1 << 32, (1 << 32) + 1] {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(len).unwrap();
            let error = map(file.path()).unwrap_err().to_string();
            assert!(error.ends_with("': the file is larger than a 32-bit program can map"), "{error}");
        }
    }

    #[test]
    fn a_file_that_changes_is_an_error_whatever_was_made_of_it() {
        let text = |input: &Input, made: Result<()>| input.unless_changed(made).unwrap_err().to_string();
        let (keep, input) = mapped(&[1; 100]);
        assert!(input.unless_changed(Ok(())).is_ok());
        assert_eq!(text(&input, Err(Error::no_archive())), Error::no_archive().to_string());
        let name = format!("'{}'", keep.path().display());
        keep.as_file().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(text(&input, Err(Error::no_archive())), format!("{name}: the file changed while it was read"));
        keep.as_file().set_len(200).unwrap();
        assert_eq!(text(&input, Ok(())), format!("{name}: the file changed while it was read"));
        keep.as_file().set_len(99).unwrap();
        assert_eq!(text(&input, Ok(())), format!("{name}: the file became shorter while it was read"));
    }

    #[test]
    fn of_a_closed_file_the_name_is_asked_while_it_stands_for_it() {
        let (keep, mut input) = mapped(&[1; 100]);
        input.close();
        assert!(input.ensure_unchanged().is_ok());
        let other = keep.path().with_extension("other");
        std::fs::rename(keep.path(), &other).unwrap();
        std::fs::write(keep.path(), b"another file").unwrap();
        assert!(input.ensure_unchanged().is_ok());
        std::fs::rename(&other, keep.path()).unwrap();
        keep.as_file().set_len(7).unwrap();
        assert!(input.ensure_unchanged().unwrap_err().to_string().contains("became shorter"));
    }

    #[test]
    fn files_that_nobody_named_are_regular_and_as_long_as_they_say() {
        for path in ["/dev/null", "/"] {
            let error = Input::open_regular(Path::new(path), MAPPED).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{path}");
        }
        assert!(Input::open_regular(Path::new("-"), MAPPED).unwrap_err().is_io(), "not the standard input");
        let (file, input) = mapped(&[1; 100]);
        assert_eq!(Input::open_regular(file.path(), MAPPED).unwrap().bytes(), input.bytes());
        if let Ok(version) = map(Path::new("/proc/version")) {
            assert!(!version.is_empty() && Input::open_regular(version.path(), MAPPED).unwrap().is_empty());
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_of_its_reader() {
        let (keep, input) = mapped(&[1; 100]);
        let range = input.as_slice();
        std::fs::write(keep.path(), [1; 10]).unwrap();
        assert!(range.reader().read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn a_file_that_is_read_may_change_afterwards() {
        for len in [100, 17 << 20] {
            let data = vec![7; len];
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &data).unwrap();
            let input = Input::read(file.path()).unwrap();
            std::fs::write(file.path(), b"something else").unwrap();
            assert!(input.bytes() == data && input.ensure_unchanged().is_ok());
            assert!(input.as_slice().reader().read_to_end(&mut Vec::new()).unwrap() == len);
        }
        assert!(Input::read(Path::new("/dev/null")).unwrap().is_empty());
    }
}
