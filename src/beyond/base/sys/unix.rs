//! The functions of Unix.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};

use crate::base::io::sys::os_str;

/// The separator of paths in an environment variable.
pub(crate) const PATH_SEPARATOR: u8 = b':';

/// Joins a directory and a relative path.
pub(crate) fn join(directory: &Path, relative: &[u8]) -> PathBuf {
    directory.join(&*os_str(relative))
}

/// The free space of a file system in bytes.
pub(crate) fn free_space(directory: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(directory).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// The names in a directory.
pub(crate) fn names_in(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
    // Not by the standard library, which panics if a directory cannot be closed.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = Dir::new(rustix::fs::open(directory, flags, Mode::empty())?)?;
    Ok(entries.map(|entry| Ok(entry?.file_name().to_bytes().to_vec())))
}

/// Grants execute permission wherever read permission is granted.
pub(crate) fn make_executable(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    let readers = (mode & 0o444) >> 2;
    file.set_permissions(Permissions::from_mode(mode | readers))
}
