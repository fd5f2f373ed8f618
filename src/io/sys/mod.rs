//! What differs between systems: a module for each, with the same functions. Nothing else asks for which system it is
//! built.
//!
//! On Windows a file cannot be removed or written over while it is mapped, but it can be renamed. So an output that
//! replaces an input exchanges its name with it, and the old file is removed when it is no longer mapped.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

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

/// The error for bytes that a disk does not give.
pub(crate) fn unreadable() -> io::Error {
    io::Error::other("Input/output error")
}
