//! The functions of Unix. Some of them exist only on Linux.

#[cfg(target_os = "linux")]
mod linux;
mod memory;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::base::io::staging::{Inherited, directory_of};
use crate::base::io::sys::Status;
#[cfg(not(target_os = "linux"))]
use crate::base::io::sys::{attributes, closed_streams, mapped_file};

#[cfg(target_os = "linux")]
pub(crate) use linux::{attributes, closed_streams, copy_in_kernel, link, mapped_file, next_data, unnamed};
pub(crate) use memory::{AfterMapping, close, forget_temporary, note_temporary, release, take_signals};

#[cfg(test)]
pub(crate) fn symlink(to: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, link)
}

/// Whether words of response files follow the rules of Windows.
pub const HAS_WINDOWS_QUOTING: bool = false;

/// The path that opens the standard input of a program again.
pub const STANDARD_INPUT: Option<&str> = Some("/dev/stdin");

/// The words of the command line. The first one is the name that the program was called by.
pub fn arguments() -> Vec<OsString> {
    env::args_os().collect()
}

/// The name with these bytes.
pub fn os_str(bytes: &[u8]) -> Cow<'_, OsStr> {
    Cow::Borrowed(OsStr::from_bytes(bytes))
}

/// The name with these owned bytes.
pub fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// A generated name of a file with these bytes, which must be valid on every system.
pub(crate) fn new_name(bytes: Vec<u8>) -> OsString {
    os_string(bytes)
}

/// The status of a file.
#[derive(Clone, Debug)]
pub struct Stat(Metadata);

impl Stat {
    /// The status of an open file.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(Self)
    }

    /// The status of the file that a path leads to.
    ///
    /// # Errors
    /// If it leads nowhere.
    pub fn at(path: &Path) -> io::Result<Self> {
        path.metadata().map(Self)
    }

    /// The status of the path itself, which may be a link.
    pub(crate) fn at_link(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(Self)
    }

    /// Whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.is_file()
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.0.is_dir()
    }

    pub(crate) fn is_symlink(&self) -> bool {
        self.0.is_symlink()
    }

    /// Whether this is a pipe.
    pub fn is_pipe(&self) -> bool {
        self.0.file_type().is_fifo()
    }

    /// Whether this is a device that may be endless: all but `/dev/null` and terminals.
    pub(crate) fn may_be_endless(&self, file: &File) -> bool {
        let kind = self.0.file_type();
        let is_device = kind.is_char_device() || kind.is_block_device();
        if !is_device || file.is_terminal() {
            return false;
        }
        match Path::new("/dev/null").metadata() {
            Ok(null) => null.rdev() != self.0.rdev(),
            Err(_) => true,
        }
    }

    /// The length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no caller asks whether a file is empty")]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether a length may be recorded without data, as that of `/proc/kcore`.
    pub(crate) fn takes_no_space(&self) -> bool {
        self.0.blocks() == 0
    }

    /// Device and inode. Two names of a file share them, and no two files do.
    pub fn identity(&self) -> (u64, u64) {
        (self.0.dev(), self.0.ino())
    }

    /// The time when the bytes of the file last changed, which programs can set.
    pub(crate) fn modified(&self) -> (i64, i64) {
        (self.0.mtime(), self.0.mtime_nsec())
    }

    /// The time when the file or its metadata last changed, with that metadata.
    pub(crate) fn status(&self) -> Status {
        let metadata = [self.0.mode().into(), self.0.uid().into(), self.0.gid().into(), self.0.nlink()];
        Status { changed: (self.0.ctime(), self.0.ctime_nsec()), metadata }
    }

    /// The permissions.
    pub(crate) fn mode(&self) -> u32 {
        self.0.mode()
    }

    /// Whether the file is a program.
    pub fn is_executable(&self) -> bool {
        self.0.is_file() && self.0.permissions().mode() & 0o111 != 0
    }
}

/// Whether a path is that of the null device, if the system cannot open it as a file like others.
pub(crate) fn is_null(_: &Path) -> bool {
    false
}

/// The error for a directory where a file is expected.
pub(crate) fn is_a_directory() -> io::Error {
    Errno::ISDIR.into()
}

/// The error for a file where a directory is expected.
pub(crate) fn not_a_directory() -> io::Error {
    Errno::NOTDIR.into()
}

/// The error for too many links.
pub(crate) fn too_many_links() -> io::Error {
    Errno::LOOP.into()
}

/// Whether an error says that memory could not be read.
pub(crate) fn is_fault(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::FAULT.raw_os_error())
}

/// Whether an error says that the process has too many open files.
pub(crate) fn is_too_many_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
}

/// Returns the text of an error as other systems have it, or `None` to use the text of this system.
pub(crate) fn text(_: &io::Error) -> Option<&'static str> {
    None
}

/// Whether few more files can be opened, according to a file that was just opened: a file gets the lowest free number,
/// and this number is in the upper half of the numbers that the process may use. `can_raise` says whether the limit may
/// be raised to the maximum.
pub(crate) fn is_late_file(file: &File, can_raise: bool) -> bool {
    /// Files with lower numbers are never late: a job with a few files asks the system nothing.
    const FIRST_CHECKED: u64 = 16;
    let Ok(number) = u64::try_from(file.as_raw_fd()) else { return false };
    if number < FIRST_CHECKED {
        return false;
    }
    let limits = getrlimit(Resource::Nofile);
    let limit = if can_raise { limits.maximum } else { limits.current };
    limit.is_some_and(|limit| number >= limit / 2)
}

/// Raises the limit on open files.
pub(crate) fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, opening the file reports the error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

/// Opens a file of any type for reading.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file that was regular when its status was read. Never blocks: neither on a pipe that has taken the name
/// since, nor on data that a file does not have yet (`/proc/kmsg`).
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(at_once.bits()).unwrap_or_default();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        // Another process, such as a file server, holds a lease on the file and releases it.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => File::open(path),
        opened => opened,
    }
}

/// Opens a file for writing if `write` is set, otherwise for reading. Does not follow a link.
pub(crate) fn open_unless_link(path: &Path, write: bool) -> io::Result<File> {
    OpenOptions::new().read(!write).write(write).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Creates a file with these permissions, less the umask.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// Opens a file for reading and writing. Does not follow a link.
pub(crate) fn open_to_update(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Returns the target of a link, or `None` if something else or nothing has this path.
pub(crate) fn read_link(path: &Path) -> io::Result<Option<PathBuf>> {
    match path.read_link() {
        Ok(target) => Ok(Some(target)),
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => Ok(None),
        // After another error, it is not known whether the path is a link.
        Err(error) => Err(error),
    }
}

/// Reads at an offset.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Standard input as a file.
pub(crate) fn standard_input() -> io::Result<File> {
    let [is_closed, _] = closed_streams();
    if is_closed {
        return Err(Errno::BADF.into());
    }
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Checks that standard output was not closed when the program started.
///
/// # Errors
/// If it was closed.
pub fn ensure_output() -> io::Result<()> {
    let [_, is_closed] = closed_streams();
    if is_closed { Err(Errno::BADF.into()) } else { Ok(()) }
}

/// Closes standard input and standard output again if they were closed when the program started, for a program that
/// replaces this one.
pub fn close_again() {
    for (descriptor, is_closed) in (0..).zip(closed_streams()) {
        if is_closed {
            #[allow(unsafe_code, reason = "a descriptor without an owner has no safe type")]
            // SAFETY: Rust's library has opened `/dev/null` there, for nobody to own.
            unsafe {
                libc::close(descriptor);
            }
        }
    }
}

/// Standard output as a file.
///
/// # Errors
/// If it is closed.
pub fn standard_output() -> io::Result<File> {
    ensure_output()?;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Makes a symbolic link to a directory.
#[cfg(all(test, feature = "cli"))]
pub(crate) fn symlink_directory(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// The width of the terminal at standard output.
#[cfg(feature = "cli")]
pub fn columns() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col))
}

/// The width of the terminal at standard error.
#[cfg(feature = "cli")]
pub fn error_columns() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col))
}

/// Whether standard error is a terminal that understands escape sequences.
pub fn takes_escapes() -> bool {
    if !io::stderr().is_terminal() {
        return false;
    }
    match env::var_os("TERM") {
        Some(term) => term != "dumb",
        None => false,
    }
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Removes all permissions of a new file except for those that both files give to their owners.
pub(crate) fn make_private(file: &File, old: &Stat) -> io::Result<()> {
    let mode = file.metadata()?.mode() & old.mode() & 0o700;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Gives a new file, which is still empty, the metadata of the old file that `inherited` selects.
///
/// # Errors
/// If one of them cannot be applied.
pub(crate) fn take_over(file: &File, old: &File, inherited: Inherited) -> io::Result<()> {
    let (new_metadata, old_metadata) = (file.metadata()?, old.metadata()?);
    let is_same_owner = (new_metadata.uid(), new_metadata.gid()) == (old_metadata.uid(), old_metadata.gid());
    let mode = match inherited {
        Inherited::Everything => {
            if !is_same_owner {
                fchown(file, Some(old_metadata.uid()), Some(old_metadata.gid()))?;
            }
            attributes::take_over(file, old, inherited)?;
            old_metadata.mode() & 0o7777
        }
        Inherited::Access if is_same_owner => {
            attributes::take_over(file, old, inherited)?;
            new_metadata.mode() & old_metadata.mode() & 0o777
        }
        Inherited::Access => {
            let has_access_control_list = attributes::has_access_control_list(old)?;
            let meaningful = meaningful_under_another_owner(&new_metadata, &old_metadata, has_access_control_list);
            new_metadata.mode() & old_metadata.mode() & meaningful
        }
    };
    // Setting the owner and the access control list may have changed the permissions.
    if file.metadata()?.mode() & 0o7777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    // Writing over the old file would have cleared its set-user-ID bit. Truncating the new file has the same effect.
    file.set_len(0)
}

/// Returns the mode bits that mean the same for a new file of another owner. Another group keeps the permissions that
/// everybody has. If the old file has an access control list, which names other users, only the owner keeps
/// permissions.
fn meaningful_under_another_owner(new: &Metadata, old: &Metadata, has_access_control_list: bool) -> u32 {
    if has_access_control_list {
        0o700
    } else if new.gid() == old.gid() {
        0o777
    } else {
        0o707 | (old.mode() & 0o007) << 3
    }
}

/// Renames a file. The new name may be that of another file, which is replaced.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Refuses a link that another user may have put there to make this program write elsewhere. Linux refuses to follow
/// such links (`fs.protected_symlinks`), but lets programs read and follow them on their own.
pub(crate) fn refuse_trap_link(link: &Path) -> io::Result<()> {
    let owner = link.symlink_metadata()?.uid();
    let directory = directory_of(link).metadata()?;
    if is_trap(owner, rustix::process::geteuid().as_raw(), (directory.uid(), directory.mode())) {
        return Err(Errno::ACCESS.into());
    }
    Ok(())
}

/// Whether a link may be a trap: it belongs to neither the user nor the directory's owner, and the directory is sticky
/// and writable by everyone, as `/tmp` is. `link_owner` and `user` are user IDs. The directory is given as its owner
/// and mode.
fn is_trap(link_owner: u32, user: u32, (directory_owner, mode): (u32, u32)) -> bool {
    const STICKY_AND_WRITABLE_BY_ALL: u32 = 0o1002;
    let is_shared = mode & STICKY_AND_WRITABLE_BY_ALL == STICKY_AND_WRITABLE_BY_ALL;
    is_shared && link_owner != user && link_owner != directory_owner
}

/// Opens for writing the existing file that was `seen` at a resolved path, and for reading too if `read` is set.
/// Returns `None` if the path now leads to another file. A link that has taken the path since is not followed.
///
/// With `O_CREAT`, Linux refuses another user's file in a directory such as `/tmp` (`fs.protected_regular`). If the
/// file is gone, `O_CREAT` creates an empty one, which is removed again.
pub(crate) fn open_existing(target: &Path, seen: &Stat, read: bool) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(read).write(true).create(true).truncate(false).mode(0o000).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(target)?;
    let opened = file.metadata()?;
    // A new file may have the inode number of a removed one, but only a file created here has no permissions.
    let is_created = opened.mode() & 0o7777 == 0 && opened.len() == 0 && opened.mode() != seen.0.mode();
    if is_created {
        std::fs::remove_file(target)?;
    }
    let is_seen = Stat(opened).identity() == seen.identity();
    Ok(if is_seen && !is_created { Some(file) } else { None })
}
