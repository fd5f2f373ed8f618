//! The functions of Windows.
#![allow(unsafe_code, reason = "two functions of the system have no safe form; the arguments are written at the calls")]
#![allow(
    clippy::disallowed_methods,
    reason = "names here are of characters: bytes that are not UTF-8 have no place in them"
)]

use std::borrow::Cow;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memmap2::Mmap;
#[cfg(feature = "cli")]
use winapi_util::HandleRef;
use winapi_util::{console, file};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, REPLACEFILE_IGNORE_ACL_ERRORS,
    REPLACEFILE_IGNORE_MERGE_ERRORS, ReplaceFileW,
};

use crate::base::io::staging::Inherited;
use crate::base::io::sys::Status;

/// Whether words of response files follow the rules of Windows.
pub const HAS_WINDOWS_QUOTING: bool = true;

/// The path that opens the standard input of a program again. Windows has no such path.
pub const STANDARD_INPUT: Option<&str> = None;

/// The environment variable with the name that the program was called by. Windows packages have small executables in
/// place of links, which run this one and set the variable to their own names.
const CALLED_AS: &str = "OFFLOAD_BUNDLE_CALLED_AS";

/// The system's error number for reading the target of a file that is not a link: `ERROR_NOT_A_REPARSE_POINT`.
const NOT_A_REPARSE_POINT: i32 = 4390;

/// Makes a symbolic link to a directory.
#[cfg(all(test, feature = "cli"))]
pub(crate) fn symlink_directory(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}

/// The words of the command line. The first one is the name that the program was called by.
pub fn arguments() -> Vec<OsString> {
    let typed = env::args_os();
    // The small executables of a package, which stand in place of links, pass on their own names.
    match env::var_os(CALLED_AS) {
        Some(name) if !name.is_empty() => std::iter::once(name).chain(typed.skip(1)).collect(),
        _ => typed.collect(),
    }
}

/// The name with these bytes. Invalid UTF-8 is replaced.
pub fn os_str(bytes: &[u8]) -> Cow<'_, OsStr> {
    Cow::Owned(os_string(bytes.to_vec()))
}

/// Returns the file name in `bytes`, which should be UTF-8: names on Windows are no bytes.
pub fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Returns a generated file name in a form that Windows allows. `_` replaces characters that no name may have. It is
/// also added after a dot or space at the end, and before the name of a device.
pub(crate) fn new_name(bytes: Vec<u8>) -> OsString {
    const DEVICES: [&str; 6] = ["AUX", "CON", "CONIN$", "CONOUT$", "NUL", "PRN"];
    const NUMBERED: [&str; 2] = ["COM", "LPT"];
    let mut name = String::from_utf8_lossy(&bytes).replace(['<', '>', ':', '"', '/', '\\', '|', '?', '*'], "_");
    if name.ends_with(['.', ' ']) {
        name.push('_');
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    // Windows reserves these names with any digit, also with a superscript one, as in `COM²`.
    let is_numbered = match NUMBERED.iter().find_map(|device| stem.strip_prefix(device)) {
        Some(number) => number.chars().count() == 1 && !number.contains(char::is_alphabetic),
        None => false,
    };
    if is_numbered || DEVICES.contains(&&*stem) { format!("_{name}").into() } else { name.into() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
    Pipe,
    Device,
}

/// The status of a file.
#[derive(Clone, Debug)]
pub struct Stat {
    kind: Kind,
    len: u64,
    identity: (u64, u64),
    modified: i64,
}

impl Stat {
    /// The status of an open file.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn of(opened: &File) -> io::Result<Self> {
        /// `FILE_ATTRIBUTE_DIRECTORY`.
        const DIRECTORY: u64 = 16;
        match file::typ(opened)? {
            kind if kind.is_pipe() => return Ok(Self::without_data(Kind::Pipe)),
            kind if !kind.is_disk() => return Ok(Self::without_data(Kind::Device)),
            _ => {}
        }
        // wine does not describe a file at standard input. Like a pipe, that file is read to its end.
        let Ok(found) = file::information(opened) else { return Ok(Self::without_data(Kind::Pipe)) };
        let is_directory = found.file_attributes() & DIRECTORY != 0;
        let modified = found.last_write_time().unwrap_or_default();
        Ok(Self {
            kind: if is_directory { Kind::Directory } else { Kind::File },
            len: found.file_size(),
            identity: (found.volume_serial_number(), found.file_index()),
            modified: i64::try_from(modified).unwrap_or_default(),
        })
    }

    /// Returns the status of a file with a known kind, but no other data.
    fn without_data(kind: Kind) -> Self {
        Self { kind, len: 0, identity: (0, 0), modified: 0 }
    }

    /// The status of the file that a path leads to.
    ///
    /// # Errors
    /// If it leads nowhere.
    pub fn at(path: &Path) -> io::Result<Self> {
        // Without access rights, the open file has only metadata. The flag is needed to open a directory.
        Self::of(&OpenOptions::new().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?)
    }

    /// The status of the path itself, which may be a link.
    pub(crate) fn at_link(path: &Path) -> io::Result<Self> {
        if path.symlink_metadata()?.is_symlink() {
            return Ok(Self::without_data(Kind::Link));
        }
        Self::at(path)
    }

    /// Whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    pub(crate) fn is_symlink(&self) -> bool {
        self.kind == Kind::Link
    }

    /// Whether this is a pipe.
    pub fn is_pipe(&self) -> bool {
        self.kind == Kind::Pipe
    }

    /// Whether this is a device that may be endless: all but terminals.
    pub(crate) fn may_be_endless(&self, file: &File) -> bool {
        self.kind == Kind::Device && !file.is_terminal()
    }

    /// The length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks whether a file is empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether a length may be recorded without data, which Windows has no files for.
    pub(crate) fn takes_no_space(&self) -> bool {
        false
    }

    /// The volume, and the index of the file on it. Two names of a file share them, and no two files do.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Returns an empty status, because Windows has no time of the last change that programs cannot set.
    #[allow(clippy::unused_self, reason = "as on other systems")]
    pub(crate) fn status(&self) -> Status {
        Status::default()
    }

    /// The time of the last change.
    pub(crate) fn modified(&self) -> (i64, i64) {
        (self.modified, 0)
    }

    /// Returns the default permissions of a file on other systems, because Windows has no such permissions.
    pub(crate) fn mode(&self) -> u32 {
        0o666
    }

    /// Whether the file may be a program.
    pub fn is_executable(&self) -> bool {
        self.is_file()
    }
}

/// Whether a path is that of the null device, as the system understands the path: `NUL` in any case and, depending on
/// the release, in any directory and with any ending. Build systems also pass the name that it has on Unix.
pub(crate) fn is_null(path: &Path) -> bool {
    if is_equal(path, b"/dev/null") {
        return true;
    }
    match std::path::absolute(path) {
        Ok(full) => is_equal(&full, br"\\.\nul"),
        Err(_) => false,
    }
}

/// Whether a path has this text, in any case.
fn is_equal(path: &Path, text: &[u8]) -> bool {
    path.as_os_str().as_encoded_bytes().eq_ignore_ascii_case(text)
}

/// The error for a directory where a file is expected.
pub(crate) fn is_a_directory() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "Is a directory")
}

/// The error for a file where a directory is expected.
pub(crate) fn not_a_directory() -> io::Error {
    io::Error::new(io::ErrorKind::NotADirectory, "Not a directory")
}

/// The error for too many links.
pub(crate) fn too_many_links() -> io::Error {
    io::Error::other("Too many levels of symbolic links")
}

/// Whether an error says that memory could not be read.
pub(crate) fn is_fault(_: &io::Error) -> bool {
    false
}

/// Whether few more files can be opened: the system has no limit that a job reaches.
pub(crate) fn is_late_file(_: &File, _: bool) -> bool {
    false
}

/// Whether an error says that the process has too many open files: the system has no limit that could be raised.
pub(crate) fn is_too_many_files(_: &io::Error) -> bool {
    false
}

/// Returns the text of an error as other systems have it, so that scripts and tests find one text everywhere.
pub(crate) fn text(error: &io::Error) -> Option<&'static str> {
    // An error that the system did not report has a text from this program.
    error.raw_os_error()?;
    Some(match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory",
        io::ErrorKind::PermissionDenied => "Permission denied",
        io::ErrorKind::AlreadyExists => "File exists",
        io::ErrorKind::NotADirectory => "Not a directory",
        io::ErrorKind::IsADirectory => "Is a directory",
        io::ErrorKind::StorageFull => "No space left on device",
        io::ErrorKind::BrokenPipe => "Broken pipe",
        _ => return None,
    })
}

/// Does nothing: the system has no limit that could be raised.
pub(crate) fn allow_many_files() {}

/// Opens a file of any type for reading. The error for a directory is that of other systems, although Windows reports
/// that access is denied.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path).map_err(|error| if path.is_dir() { is_a_directory() } else { error })
}

/// Opens a regular file.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file, but does not follow a link.
pub(crate) fn open_unless_link(path: &Path, write: bool) -> io::Result<File> {
    OpenOptions::new().read(!write).write(write).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)
}

/// Creates a file with the permissions that its directory passes on.
pub(crate) fn create_new(path: &Path, _: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Opens a file for reading and writing. Does not follow a link.
pub(crate) fn open_to_update(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)
}

/// Returns the target of a link, or `None` if something else or nothing has this path.
pub(crate) fn read_link(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.read_link() {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(NOT_A_REPARSE_POINT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(crate) fn symlink(to: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(to, link)
}

/// Allows every link: on Windows only administrators make links, and theirs are not traps.
pub(crate) fn refuse_trap_link(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Reads at an offset.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Standard input as a file.
pub(crate) fn standard_input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_handle().try_clone_to_owned()?))
}

/// Checks that standard output was not closed when the program started, which is not known here.
///
/// # Errors
/// Never fails on Windows.
pub fn ensure_output() -> io::Result<()> {
    Ok(())
}

/// Does nothing: it is not known here which streams were closed when the program started.
pub fn close_again() {}

/// Standard output as a file.
///
/// # Errors
/// If it is closed.
pub fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// The width of the terminal at standard output.
#[cfg(feature = "cli")]
pub fn columns() -> Option<usize> {
    columns_of(HandleRef::stdout())
}

/// The width of the terminal at standard error.
#[cfg(feature = "cli")]
pub fn error_columns() -> Option<usize> {
    columns_of(HandleRef::stderr())
}

#[cfg(feature = "cli")]
fn columns_of(terminal: HandleRef) -> Option<usize> {
    let window = console::screen_buffer_info(terminal).ok()?.window_rect();
    usize::try_from(i32::from(window.right) - i32::from(window.left) + 1).ok()
}

/// Makes a terminal at standard error understand escape sequences. Returns whether it does.
pub fn takes_escapes() -> bool {
    if !io::stderr().is_terminal() {
        return false;
    }
    match console::Console::stderr() {
        Ok(mut stderr) => stderr.set_virtual_terminal_processing(true).is_ok(),
        Err(_) => false,
    }
}

/// A new file has the permissions that its directory passes on.
pub(crate) fn make_private(_: &File, _: &Stat) -> io::Result<()> {
    Ok(())
}

/// Empties the new file: [`replace`] keeps attributes and access control list of the old name.
pub(crate) fn take_over(file: &File, _: &File, _: Inherited) -> io::Result<()> {
    file.set_len(0)
}

/// Opens for writing the existing file that was `seen` at a resolved path, and for reading too if `read` is set.
/// Returns `None` if the path now leads to another file.
pub(crate) fn open_existing(target: &Path, seen: &Stat, read: bool) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let opened = options.read(read).write(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(target);
    let opened = opened.map_err(|error| if target.is_dir() { is_a_directory() } else { error })?;
    let is_seen = Stat::of(&opened)?.identity() == seen.identity();
    Ok(if is_seen { Some(opened) } else { None })
}

/// Renames a file. The new name may be that of another file, which is replaced even while it is mapped: it gets a third
/// name, and is removed once it is no longer mapped. Attributes and access control list stay with the name `to`.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let old = from.with_extension("old");
    let [replaced, replacement, backup] = [to, from, &old].map(wide);
    let flags = REPLACEFILE_IGNORE_ACL_ERRORS | REPLACEFILE_IGNORE_MERGE_ERRORS;
    let null = std::ptr::null();
    // SAFETY: the names end with zeros, and both pointers that are reserved are null.
    let done = unsafe { ReplaceFileW(replaced.as_ptr(), replacement.as_ptr(), backup.as_ptr(), flags, null, null) };
    // No file has the name, or the system cannot replace this one.
    if done == 0
        && let Err(error) = std::fs::rename(from, to)
    {
        // The old file may have its third name already.
        if !to.exists() {
            drop(std::fs::rename(&old, to));
        }
        return Err(error);
    }
    // An error is that the file is still mapped, or that there was none.
    drop(remove(&old));
    Ok(())
}

/// Converts a path for functions of the system: to UTF-16 with a zero at the end and, as in the standard library, with
/// the prefix that long paths need.
pub(crate) fn wide(path: &Path) -> Vec<u16> {
    let mut units = match with_long_prefix(path) {
        Some(prefixed) => prefixed,
        None => units_of(path.as_os_str()),
    };
    units.push(0);
    units
}

/// Returns a long path in full, with the prefix for long paths, or `None` for a path that needs no prefix.
fn with_long_prefix(path: &Path) -> Option<Vec<u16>> {
    // A directory may have 248 characters with its end, a file 260.
    const LEN_MAX: usize = 240;
    let full = units_of(std::path::absolute(path).ok()?.as_os_str());
    if full.len() < LEN_MAX || full.starts_with(&units_of(r"\\?\".as_ref())) {
        return None;
    }
    let is_share = full.starts_with(&units_of(r"\\".as_ref()));
    let (prefix, rest) = if is_share { (r"\\?\UNC", full.get(1..)?) } else { (r"\\?\", &*full) };
    Some([&units_of(prefix.as_ref()), rest].concat())
}

fn units_of(text: &OsStr) -> Vec<u16> {
    text.encode_wide().collect()
}

/// The files to remove once they are no longer mapped: Windows refuses to remove a mapped file.
static TO_REMOVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes a file. If that fails, as it does while the file is mapped, it is tried again each time a file is unmapped;
/// see [`AfterMapping`].
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            TO_REMOVE.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
            Err(error)
        }
        removed => removed,
    }
}

/// The work that is left once a file is no longer mapped: removing files that could not be removed before.
#[derive(Debug)]
pub(crate) struct AfterMapping;

impl Drop for AfterMapping {
    fn drop(&mut self) {
        TO_REMOVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| std::fs::remove_file(path).is_err());
    }
}

/// No file is noted, since no signal handler ends the process here.
pub(crate) fn note_temporary(_: &Path) {}

/// No file is noted.
pub(crate) fn forget_temporary(_: &Path) {}

/// There are no signals.
pub(crate) fn take_signals() {}

/// Memory of mapped files is released by the system as it needs it.
pub(crate) fn release(_: &Mmap) {}

/// Closes a file. Windows reports failed writes earlier.
pub(crate) fn close(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}
