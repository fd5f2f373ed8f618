//! The functions of Windows.
#![allow(unsafe_code, reason = "the functions of Windows have no safe form")]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;

use crate::base::io::sys::{os_str, wide};

/// The separator of paths in an environment variable.
pub(crate) const PATH_SEPARATOR: u8 = b';';

/// Joins a directory and a relative path, which files for any system record with `/`, and perhaps `..`. The prefix
/// `\\?\` of a canonical directory is removed, because Windows treats both as parts of names after it.
pub(crate) fn join(directory: &Path, relative: &[u8]) -> PathBuf {
    let Some(text) = directory.to_str() else { return directory.join(&*os_str(relative)) };
    let plain = match (text.strip_prefix(r"\\?\UNC\"), text.strip_prefix(r"\\?\")) {
        (Some(share), _) => format!(r"\\{share}"),
        (None, plain) => plain.unwrap_or(text).to_owned(),
    };
    Path::new(&plain.replace('\\', "/")).join(&*os_str(relative))
}

/// The free space of a file system in bytes.
pub(crate) fn free_space(directory: &Path) -> Option<u64> {
    let mut free = 0;
    let directory = wide(directory);
    // SAFETY: the name ends with a zero, the number is there to be written, and null pointers ask for nothing.
    let asked =
        unsafe { GetDiskFreeSpaceExW(directory.as_ptr(), &raw mut free, std::ptr::null_mut(), std::ptr::null_mut()) };
    if asked == 0 { None } else { Some(free) }
}

/// The names in a directory.
pub(crate) fn names_in(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
    Ok(std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_encoded_bytes())))
}

/// Any file may be run.
pub(crate) fn make_executable(_: &File) -> io::Result<()> {
    Ok(())
}
