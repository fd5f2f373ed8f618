//! Reads inputs: a file, standard input or a device as one run of bytes, and ranges of it.
//!
//! [`Input::map`] maps a regular file, so opening is cheap at any size; it is `unsafe`, because others may change the
//! file. [`Input::read`] copies it. Inputs that cannot be mapped (a pipe, a device, standard input in the middle of a
//! file) are always read once: into memory if they are small, otherwise into an unnamed temporary file, in which long runs
//! of zeros are holes.
//!
//! Other programs may change a file while it is read. Neither the outputs made from it nor the errors it led to are
//! valid then, so [`Input::ensure_unchanged`] is called before a job puts its outputs in place or reports its errors.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bytes::{self, add, is_zero};
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::io::mapping::{Mapping, Watch};
use crate::io::process;
use crate::io::sys::{self, Stat};

/// The maximum size of a pipe, a device or an inflated bundle that is kept in memory, in bytes.
pub(crate) const MEMORY_MAX: u64 = 16 << 20;

/// The maximum size that is kept in memory if there may be many inputs, and the block size of writes to a temporary
/// file, in bytes.
const SMALL: u64 = 64 << 10;

/// The size of the blocks of zeros that become holes of a temporary file, in bytes.
const SPARSE: usize = 64 << 10;

/// The maximum size to read, without an explicit limit, from a file that neither records its size nor can be mapped, in
/// bytes. The largest useful files of this kind are tables of some megabytes under `/proc` and `/sys`.
const UNSIZED_MAX: u64 = 64 << 20;

/// The same limit for files that the user did not name: the size of the files under `/sys`, of which one run may read
/// many.
const ATTRIBUTE_MAX: u64 = 4096;

/// The types of files to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// All. The tool waits for a pipe or a device and reads it to its end, as LLVM's tools do.
    Any,
    /// All but devices that may be endless: the only devices opened are terminals and `/dev/null`. Pipes and their
    /// names (`/dev/stdin`) do not count as devices.
    Finite,
    /// Regular files, for paths that the user did not name: files found in a directory or in a thin archive. Opening
    /// never blocks. A file without a recorded size is treated as empty, because most files under `/proc` are endless
    /// or costly to read.
    Regular,
}

/// How the bytes of a regular file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// From a mapping of the file, which does not change, as the caller of [`Input::map`] promises.
    Mapped,
    /// From a copy.
    Copied,
}

/// An open input, which can be read at any offset.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    storage: Storage,
    access: Access,
    /// The state of the regular file when it was opened, if its bytes are still read from it.
    opened: Option<Stamp>,
    /// The number of temporary file faults at that time.
    faults: usize,
    /// The memory taken by the places that jobs have read and left, in bytes.
    looked_at: AtomicU64,
    progress: FileProgress,
}

/// How much of a regular file jobs have read, of its length; nothing of other inputs.
#[derive(Debug, Default)]
struct FileProgress {
    read: AtomicU64,
    len: u64,
}

/// The number of bytes that this process has read of its inputs so far.
static READ: AtomicU64 = AtomicU64::new(0);

/// The number of bytes that all jobs of this process have read so far, also of data that they had inflated or copied. It grows
/// during all long work, so that a program can show that something happens.
pub fn bytes_read() -> u64 {
    READ.load(Ordering::Relaxed)
}

/// Adds to the number of bytes read.
pub(crate) fn note_read(bytes: u64) {
    READ.fetch_add(bytes, Ordering::Relaxed);
}

/// The number of bytes that this process has done of the regular files that it has opened.
static DONE: AtomicU64 = AtomicU64::new(0);

/// The number of bytes that all jobs of this process have done of the regular files that they have opened: of an open file those that
/// were read, but not more than its length, and all of a file that is closed. A program that knows which files it opens can show how
/// much is left.
pub fn bytes_done() -> u64 {
    DONE.load(Ordering::Relaxed)
}

impl FileProgress {
    fn note(&self, bytes: u64) {
        let before = self.read.fetch_add(bytes, Ordering::Relaxed);
        let after = before.saturating_add(bytes).min(self.len);
        DONE.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
    }
}

impl Drop for FileProgress {
    fn drop(&mut self) {
        self.note(self.len);
    }
}

/// Memory is released after reads of this many bytes.
const LOOKED_AT_MAX: u64 = 32 << 20;

/// The cost of reading a header, in bytes: it brings 64 KiB or more around it into memory.
const LOOK: u64 = 256 << 10;

#[derive(Debug)]
enum Storage {
    Memory(Vec<u8>),
    Mapped { file: Option<File>, map: Mapping },
}

/// The identity of a file, and the metadata that changes with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(found: &Stat) -> Self {
        Self { file: found.identity(), len: found.len(), modified: found.modified() }
    }
}

impl Input {
    /// Reads `path` into memory or, if it is large, into an unnamed temporary file, so that later changes to the file
    /// have no effect. Waits for a pipe or a device and reads it to its end; `-` is standard input.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be opened or read, or changes meanwhile; [`ErrorKind::Temporary`] if there is no
    /// room for the copy.
    pub fn read(path: &Path) -> Result<Self> {
        Self::open(path, Accept::Any, None, Access::Copied)
    }

    /// Opens `path` by mapping it, which is cheap at any size; `-` is standard input. Files that cannot be mapped are
    /// read: pipes, devices, and regular files that do not record their size, such as most of those under `/proc`. At
    /// most `max` bytes of them are read. Without a limit, pipes and devices are read to their end, and at most 64 MiB
    /// of a regular file without a size.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be opened, read or mapped, or exceeds the limit; [`ErrorKind::Unsupported`] if
    /// `accept` excludes it.
    ///
    /// # Safety
    /// While the input lives, nobody changes or shortens the file: neither this program nor another. The same holds for
    /// the files that thin archives name, in the file or in those files: they are mapped too.
    ///
    /// Rust assumes that the bytes of a `&[u8]` are constant. If they change, the behaviour is undefined; the module
    /// `io::mapping` documents which consequences this library rules out. If the file becomes shorter, the system kills
    /// the program unless it has called [`hand_over`](crate::io::hand_over).
    #[allow(unsafe_code, reason = "only the caller knows who may change the file")]
    pub unsafe fn map(path: &Path, accept: Accept, max: Option<u64>) -> Result<Self> {
        Self::open(path, accept, max, Access::Mapped)
    }

    /// Opens a file that a thin archive in this input names, with the same access as this input.
    pub(crate) fn open_beside(&self, path: &Path) -> Result<Self> {
        Self::open(path, Accept::Regular, None, self.access)
    }

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
        let is_inherited = path.as_os_str() == "-";
        let opened =
            if is_inherited { Storage::of_inherited(file, max, access) } else { Storage::of_file(file, max, access) };
        Ok(Self::of_opened(path, opened.with_path(path)?, access))
    }

    fn open_regular(path: &Path, access: Access) -> Result<Self> {
        let opened = process::open(|| open_if_regular(path)).with_path(path)?;
        let reason = "not a regular file; members of thin archives and files in directories must be";
        let file = opened.ok_or_else(|| Error::refused(ErrorKind::Unsupported, path, None, reason))?;
        let opened = match Stat::of(&file).with_path(path)?.len() {
            0 => (Storage::Memory(Vec::new()), None),
            _ => Storage::of_file(file, Some(ATTRIBUTE_MAX), access).with_path(path)?,
        };
        Ok(Self::of_opened(path, opened, access))
    }

    fn of_opened(path: &Path, (storage, opened): (Storage, Option<Stamp>), access: Access) -> Self {
        let progress = FileProgress { len: opened.map_or(0, |opened| opened.len), read: AtomicU64::new(0) };
        Self { opened, access, progress, ..Self::of_storage(path, storage) }
    }

    /// An input over bytes in memory, called `name` in errors.
    pub fn from_bytes(name: impl Into<PathBuf>, data: Vec<u8>) -> Self {
        Self::of_storage(name, Storage::Memory(data))
    }

    /// An input over all bytes of `reader`, called `name` in errors.
    pub(crate) fn spool(name: &Path, reader: impl Read) -> io::Result<Self> {
        Ok(Self::of_storage(name, Storage::spool(reader, MEMORY_MAX)?))
    }

    /// An input over bytes of which a job may keep many: not in memory unless they are small.
    pub(crate) fn set_aside(name: &Path, data: &[u8]) -> io::Result<Self> {
        let mut input = Self::of_storage(name, Storage::spool(data, SMALL)?);
        input.close();
        Ok(input)
    }

    fn of_storage(name: impl Into<PathBuf>, storage: Storage) -> Self {
        let faults = sys::faults_of_temporaries();
        let (access, progress) = (Access::Copied, FileProgress::default());
        Self { path: name.into(), storage, access, opened: None, faults, looked_at: AtomicU64::new(0), progress }
    }

    /// The path as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes.
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

    /// Closes the file and keeps its bytes. For jobs with more inputs than a process may have open files.
    pub(crate) fn close(&mut self) {
        if let Storage::Mapped { file, .. } = &mut self.storage {
            *file = None;
        }
    }

    /// Counts a read of `len` bytes, and releases memory regularly. Otherwise a walk over the headers of a library
    /// would end with most of it in memory.
    fn looked_at(&self, len: u64) {
        let Storage::Mapped { map, .. } = &self.storage else { return };
        let before = self.looked_at.fetch_add(len, Ordering::Relaxed);
        if before.wrapping_add(len) / LOOKED_AT_MAX != before / LOOKED_AT_MAX {
            map.release();
        }
    }

    /// Checks that neither the input nor its data in temporary files has changed since it was opened. A change that
    /// keeps both the length and the modification time is not detected.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file was changed, or its bytes could not be read through the mapping. A fault in a
    /// temporary file is an error of every input that was open at the time.
    pub fn ensure_unchanged(&self) -> Result<()> {
        let now = self.stamp().with_path(&self.path)?;
        let faulted = matches!(&self.storage, Storage::Mapped { map, .. } if map.faulted());
        let change = match (self.opened, now) {
            (Some(then), Some(now)) if now.len < then.len => shrunk(),
            (Some(then), Some(now)) if now != then => changed(),
            _ if faulted => sys::unreadable(),
            _ if self.faults != sys::faults_of_temporaries() => io::Error::other("a temporary file could not be read"),
            _ => return Ok(()),
        };
        Err(Error::io(&self.path, change))
    }

    /// The permissions of the regular file that was opened.
    pub(crate) fn mode(&self) -> Option<u32> {
        self.opened.and_then(|_| Stat::of(self.file()?).ok()).map(|found| found.mode())
    }

    /// The current state of the regular file. If it is closed, the path is used; none if that now leads to a different
    /// file.
    fn stamp(&self) -> io::Result<Option<Stamp>> {
        let Some(opened) = self.opened else { return Ok(None) };
        match self.file() {
            Some(file) => Ok(Some(Stamp::of(&Stat::of(file)?))),
            None => Ok(Stat::at(&self.path).ok().map(|found| Stamp::of(&found)).filter(|now| now.file == opened.file)),
        }
    }

    /// The result of a job on the input, or an error if the input has changed.
    pub(crate) fn vouch_for<T>(&self, made: Result<T>) -> Result<T> {
        vouch_for([self], made)
    }

    fn file(&self) -> Option<&File> {
        match &self.storage {
            Storage::Memory(_) => None,
            Storage::Mapped { file, .. } => file.as_ref(),
        }
    }
}

fn open_file(path: &Path) -> Result<File> {
    let is_standard_input = path.as_os_str() == "-";
    let open = || match open_if_regular(path)? {
        Some(file) => Ok(file),
        None => sys::open(path),
    };
    process::open(|| if is_standard_input { sys::standard_input() } else { open() }).with_path(path)
}

/// Opens a regular file, and never blocks.
fn open_if_regular(path: &Path) -> io::Result<Option<File>> {
    if !Stat::at(path)?.is_file() {
        return Ok(None);
    }
    let file = sys::open_at_once(path)?;
    Ok(Stat::of(&file)?.is_file().then_some(file))
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(data) => data,
            Self::Mapped { map, .. } => map,
        }
    }

    /// Reads standard input from its current position and leaves it at its end: a process may inherit a regular file
    /// that was partly read, and standard input may be an input twice.
    fn of_inherited(mut file: File, max: Option<u64>, access: Access) -> io::Result<(Self, Option<Stamp>)> {
        if !Stat::of(&file)?.is_file() {
            return Self::of_file(file, max, access);
        }
        if file.stream_position()? != 0 {
            return Ok((Self::spool(file, MEMORY_MAX)?, None));
        }
        let opened = Self::of_file(file, max, access)?;
        if let (Self::Mapped { file: Some(file), .. }, _) = &opened {
            let mut file: &File = file;
            file.seek(SeekFrom::End(0))?;
        }
        Ok(opened)
    }

    fn of_file(mut file: File, max: Option<u64>, access: Access) -> io::Result<(Self, Option<Stamp>)> {
        let metadata = Stat::of(&file)?;
        if metadata.is_dir() {
            return Err(sys::is_a_directory());
        }
        if !metadata.is_file() {
            return Ok((Self::spool_within(file, max.unwrap_or(u64::MAX))?, None));
        }
        // Some files generated by the system have no length, and a modification time that keeps changing.
        if metadata.len() == 0 {
            return Ok((Self::spool_within(file, max.unwrap_or(UNSIZED_MAX))?, None));
        }
        let opened = Stamp::of(&metadata);
        if access == Access::Copied {
            let storage = Self::spool(&file, MEMORY_MAX)?;
            // So the copy is of one state of the file, as far as can be detected.
            return if Stamp::of(&Stat::of(&file)?) == opened { Ok((storage, None)) } else { Err(changed()) };
        }
        // One run of bytes can take at most half of the address space.
        let len = isize::try_from(opened.len).ok().and_then(|len| usize::try_from(len).ok()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than a 32-bit program can map")
        })?;
        #[allow(unsafe_code, reason = "to be asked for such a mapping takes unsafe code")]
        // SAFETY: only the caller of `Input::map`, who has made the promise, passes `Access::Mapped`.
        let mapped = unsafe { Mapping::of(&file, len, Watch::Each) };
        let storage = match mapped {
            Ok(map) => Self::Mapped { file: Some(file), map },
            // Not every file system can map files. The copy just written is read from its start.
            Err(_) => {
                file.rewind()?;
                // A file that takes no disk space may claim any length: that of /proc/kcore is 2^47.
                let is_made_up = metadata.takes_no_space();
                Self::spool_within(file, if is_made_up { max.unwrap_or(UNSIZED_MAX) } else { u64::MAX })?
            }
        };
        Ok((storage, Some(opened)))
    }

    /// Keeps all bytes of `reader`, at most `max`.
    fn spool_within(reader: impl Read, max: u64) -> io::Result<Self> {
        let reader = Counted(reader);
        // Some files can only be read in units of several bytes.
        let enough = max.saturating_add(1).checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let storage = Self::spool(reader.take(enough), MEMORY_MAX)?;
        if bytes::len_u64(storage.bytes()) > max {
            let text = format!("longer than {max} bytes, the limit for a pipe, a device or a pseudo-file");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        Ok(storage)
    }

    /// Keeps all bytes of `reader`, in memory if there are fewer than `memory_max`.
    fn spool(mut reader: impl Read, memory_max: u64) -> io::Result<Self> {
        let mut data = Vec::new();
        reader.by_ref().take(memory_max).read_to_end(&mut data)?;
        let mut spool = Spool { data, file: None, memory_max };
        spool.leave_memory_if_full()?;
        io::copy(&mut BufReader::with_capacity(1 << 17, reader), &mut spool)?;
        spool.into_storage()
    }
}

/// Collects the bytes of an input: in memory while there are few, then in an unnamed file.
#[derive(Debug)]
pub(crate) struct Spool {
    /// The bytes that are not in the file.
    data: Vec<u8>,
    file: Option<File>,
    memory_max: u64,
}

impl Spool {
    pub(crate) fn new() -> Self {
        Self { data: Vec::new(), file: None, memory_max: MEMORY_MAX }
    }

    /// The bytes of a temporary file without a name, which nobody else writes to.
    pub(crate) fn of_file(file: File) -> Self {
        Self { file: Some(file), ..Self::new() }
    }

    /// The finished input, called `name` in errors.
    pub(crate) fn into_input(self, name: &Path) -> io::Result<Input> {
        Ok(Input::of_storage(name, self.into_storage()?))
    }

    fn into_storage(self) -> io::Result<Storage> {
        let Some(mut file) = self.file else { return Ok(Storage::Memory(self.data)) };
        write_sparsely(&mut file, &self.data).map_err(Error::temporary)?;
        // A hole at the end is not part of the file yet.
        let len = file.stream_position()?.max(file.metadata()?.len());
        file.set_len(len).map_err(Error::temporary)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        #[allow(unsafe_code, reason = "mapping has no safe form")]
        // SAFETY: the temporary file has no name by which others could open it, and this process no longer writes to
        // it.
        let map = unsafe { Mapping::of(&file, len, Watch::Together)? };
        Ok(Storage::Mapped { file: Some(file), map })
    }

    fn leave_memory_if_full(&mut self) -> io::Result<()> {
        let most = if self.file.is_some() { SMALL } else { self.memory_max };
        if bytes::len_u64(&self.data) >= most {
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

/// Writes data to a new file, with holes for long runs of zeros. Readers skip holes, so those of libraries that were
/// recompressed take no memory.
fn write_sparsely(file: &mut File, data: &[u8]) -> io::Result<()> {
    data.chunks(SPARSE).try_for_each(|block| match is_zero(block) {
        true => file.seek_relative(i64::try_from(block.len()).map_err(io::Error::other)?),
        false => io::Write::write_all(file, block),
    })
}

impl io::Write for Spool {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.data.extend_from_slice(data);
        self.leave_memory_if_full()?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Some bytes and their origin: any bytes of the program, or a range of an [`Input`]. Errors name the input, and the
/// kernel copies its ranges to outputs.
///
/// Readers accept any type that converts into it: `&[u8]`, `&Vec<u8>` and `&Input`.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    input: Option<&'a Input>,
    data: &'a [u8],
    offset: u64,
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

    /// The input; none if the bytes are the program's own.
    pub(crate) fn input(&self) -> Option<&'a Input> {
        self.input
    }

    /// The input's path, for errors; empty if the bytes are the program's own.
    pub fn path(&self) -> &'a Path {
        self.input.map_or(Path::new(""), Input::path)
    }

    fn file(&self) -> Option<&'a File> {
        self.input.and_then(Input::file)
    }

    /// `len` bytes from `offset`, both relative to this range, if it has that many.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Self> {
        let data = bytes::slice(self.data, offset, len)?;
        Some(Self { input: self.input, data, offset: self.offset.checked_add(offset)? })
    }

    /// The bytes from `offset`, relative to this range, if it reaches that far.
    pub(crate) fn tail(&self, offset: u64) -> Option<Self> {
        self.slice(offset, self.len().checked_sub(offset)?)
    }

    /// Where it begins in `outer`, of which it is a part.
    pub(crate) fn start_in(self, outer: Self) -> u64 {
        self.offset.saturating_sub(outer.offset)
    }

    /// The offset in the input of a byte of this range.
    pub(crate) fn absolute(&self, offset: u64) -> u64 {
        self.offset.saturating_add(offset)
    }

    /// The offset in the input of the end of this range.
    pub(crate) fn end(&self) -> u64 {
        self.absolute(self.len())
    }

    /// This range of it, if it has that many bytes.
    pub(crate) fn range(&self, range: &Range<u64>) -> Option<Self> {
        self.slice(range.start, bytes::len_of(range))
    }

    /// This range of it, which its headers claim that it has.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] if it does not have that many bytes.
    pub(crate) fn claimed(&self, range: &Range<u64>) -> Result<Self> {
        self.claim(range.start, bytes::len_of(range), "a range of it").with_path(self.path())
    }

    /// `len` bytes from `offset`, relative to this range, which `what` claims.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if it does not have that many bytes.
    pub(crate) fn claim(&self, offset: u64, len: u64, what: impl Display) -> Result<Self, Malformed> {
        let truncated = || Malformed::truncated(what, self.absolute(offset), len, self.end());
        self.slice(offset, len).ok_or_else(truncated)
    }

    /// Marks a small range as read and not needed soon, for jobs that read a little here and there in many gigabytes.
    pub(crate) fn looked_at(&self) {
        self.input.inspect(|input| input.looked_at(LOOK));
    }

    /// Counts bytes of the range that were read.
    fn note_read(&self, bytes: u64) {
        note_read(bytes);
        self.input.inspect(|input| input.progress.note(bytes));
    }

    /// Marks a range as read, all of which may be in memory.
    pub(crate) fn looked_through(&self) {
        self.note_read(self.len());
        self.input.inspect(|input| input.looked_at(self.len().max(LOOK)));
    }

    /// The number of bytes at the start of the range that lie in a hole of the file, and are zero.
    pub(crate) fn hole_len(&self) -> u64 {
        // To ask the system takes longer than to look, and most padding is short. No file system has smaller blocks.
        if bytes::slice(self.data, 0, 512).is_none_or(|block| !is_zero(block)) {
            return 0;
        }
        // In tmpfs, a page of a hole becomes data when it is looked at.
        let page_end = self.offset.saturating_add(512).checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let looked_at = page_end.saturating_sub(self.offset).min(self.len());
        if !bytes::slice(self.data, 0, looked_at).is_some_and(is_zero) {
            return 0;
        }
        let data_at = self.file().and_then(|file| sys::next_data(file, self.offset.saturating_add(looked_at)));
        data_at.map_or(0, |at| at.saturating_sub(self.offset).min(self.len()))
    }

    /// Reads the range block by block. Several threads may read it at a time.
    pub(crate) fn read_blocks(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut reader = self.reader();
        let mut buffer = vec![0; 1 << 17];
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
        let copy_error = |source| Error::copy(self.path(), to_path, source);
        let mut to_file = to;
        if let Some(from) = self.file() {
            let copied = sys::copy_in_kernel(from, self.offset..self.end(), to, &|bytes| self.note_read(bytes));
            let rest = self.tail(copied).filter(|rest| !rest.is_empty());
            return rest.map_or(Ok(()), |rest| {
                rest.read_blocks(&mut |block| io::Write::write_all(&mut to_file, block).map_err(copy_error))
            });
        }
        io::Write::write_all(&mut to_file, self.data).map_err(|error| match sys::is_fault(&error) {
            // When the system reads the mapping for us, there is no signal.
            true => Error::io(self.path(), shrunk()),
            false => copy_error(error),
        })
    }
}

/// The result of a job on some inputs, or an error if one of them has changed.
pub(crate) fn vouch_for<'i, T>(inputs: impl IntoIterator<Item = &'i Input>, made: Result<T>) -> Result<T> {
    inputs.into_iter().try_for_each(Input::ensure_unchanged).and(made)
}

fn shrunk() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
}

fn changed() -> io::Error {
    io::Error::other("the file changed while it was read")
}

/// Counts what it reads.
struct Counted<R>(R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).inspect(|count| note_read(bytes::to_u64(*count)))
    }
}

/// Reads a [`Slice`] front to back.
#[derive(Debug)]
pub(crate) struct SliceReader<'a> {
    slice: Slice<'a>,
    position: u64,
}

impl Read for SliceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = bytes::tail(self.slice.data, self.position).unwrap_or_default();
        let want = rest.len().min(buffer.len());
        let Some(buffer) = buffer.get_mut(..want).filter(|buffer| !buffer.is_empty()) else { return Ok(0) };
        let count = match self.slice.file() {
            Some(file) => read_at(file, buffer, self.slice.absolute(self.position))?,
            None => {
                buffer.copy_from_slice(rest.get(..want).unwrap_or_default());
                want
            }
        };
        if count == 0 {
            return Err(shrunk());
        }
        add(&mut self.position, bytes::to_u64(count));
        self.slice.note_read(bytes::to_u64(count));
        Ok(count)
    }
}

/// Retries on interruption, which decoders treat as an error.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match sys::read_at(file, buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::map;

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
        let (storage, _) = Storage::of_inherited(file.try_clone().unwrap(), None, MAPPED).unwrap();
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
        let big = vec![7; 20 << 20];
        assert_eq!(Input::spool(Path::new("pipe"), &big[..]).unwrap().bytes(), big);
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
        let text = |input: &Input, made: Result<()>| input.vouch_for(made).unwrap_err().to_string();
        let (keep, input) = mapped(&[1; 100]);
        assert!(input.vouch_for(Ok(())).is_ok());
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
    fn bytes_that_are_not_to_be_had_are_zeros_and_an_error() {
        process::hand_over();
        let data = vec![1; 100_000];
        let (keep, input) = mapped(&data);
        let (_other_file, other) = mapped(&data);
        let modified = keep.as_file().metadata().unwrap().modified().unwrap();
        keep.as_file().set_len(50_000).unwrap();
        assert_eq!(input.bytes()[49_999], 1);
        assert!(input.bytes()[60_000..].iter().all(|&byte| byte == 0));
        assert_eq!(input.bytes()[10], 1);
        assert!(input.ensure_unchanged().unwrap_err().to_string().contains("became shorter"));
        // Simulates a disk that failed for a while.
        std::fs::write(keep.path(), &data).unwrap();
        keep.as_file().set_modified(modified).unwrap();
        assert!(input.ensure_unchanged().unwrap_err().to_string().ends_with("Input/output error"));
        assert!(other.bytes() == data && other.ensure_unchanged().is_ok());
    }

    #[test]
    fn bytes_that_are_not_to_be_had_of_temporary_files_are_an_error_of_what_was_open() {
        const NAME: &str =
            "io::input::tests::bytes_that_are_not_to_be_had_of_temporary_files_are_an_error_of_what_was_open";
        if !crate::testing::is_alone(NAME) {
            return;
        }
        process::hand_over();
        let (_keep, input) = mapped(&[1; 100]);
        let in_memory = Input::from_bytes("x", vec![1; 100]);
        let mut spooled = Input::spool(Path::new("pipe"), &vec![7; 20 << 20][..]).unwrap();
        assert!(spooled.bytes().ends_with(&[7; 100]) && input.ensure_unchanged().is_ok());
        // Simulates a disk that lost the data written to it.
        spooled.file().unwrap().set_len(1 << 20).unwrap();
        spooled.close();
        assert!(spooled.bytes().ends_with(&[0; 100]));
        assert!(spooled.ensure_unchanged().is_err());
        for input in [&input, &in_memory] {
            let error = input.ensure_unchanged().unwrap_err().to_string();
            assert_eq!(error, format!("'{}': a temporary file could not be read", input.path().display()));
        }
        let (_keep, later) = mapped(&[1; 100]);
        assert!(later.ensure_unchanged().is_ok());
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
    fn holes_of_temporary_files_are_zeros() {
        let parts = [(0, 100), (7, 200_000), (0, 300_000), (1, 1), (0, 65_536), (2, 70_000), (0, 65_535)];
        for first in 0..parts.len() {
            for last in first..parts.len() {
                let part = |&(byte, len): &(u8, usize)| vec![byte; len];
                let data: Vec<u8> = parts[first..=last].iter().flat_map(part).collect();
                for step in [1, 30_000, 1 << 20] {
                    let mut spool = Spool { memory_max: 1000, ..Spool::new() };
                    data.chunks(step.max(data.len() / 100))
                        .for_each(|part| io::Write::write_all(&mut spool, part).unwrap());
                    let input = spool.into_input(Path::new("x")).unwrap();
                    assert!(input.bytes() == data, "parts {first} to {last}, {step} at a time");
                }
            }
        }
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

    #[test]
    fn files_that_nobody_named_are_regular_and_as_long_as_they_say() {
        for path in ["/dev/null", "/"] {
            assert!(Input::open_regular(Path::new(path), MAPPED).unwrap_err().is_refusal(), "{path}");
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
