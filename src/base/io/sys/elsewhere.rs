//! Stand-ins for functions that only Linux has.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The system does not copy between open files.
pub(crate) fn copy_in_kernel(_: &File, _: Range<u64>, _: &File, _: &dyn Fn(u64)) -> u64 {
    0
}

/// Holes of files are not found here.
pub(crate) fn next_data(_: &File, _: u64) -> Option<u64> {
    None
}

/// The system does not list the files that are mapped.
#[cfg(unix)]
pub(crate) fn mapped_file(_: usize) -> Option<String> {
    None
}

/// Files cannot be created without a name.
pub(crate) fn unnamed(_: &Path, _: u32) -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// An open file cannot be given a name.
pub(crate) fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Whether standard input and standard output were closed when the program started, which is not known here.
#[cfg(unix)]
pub(crate) fn closed_streams() -> [bool; 2] {
    [false; 2]
}

/// Extended attributes are kept on Linux only.
#[cfg(unix)]
pub(crate) mod attributes {
    use super::{File, io};
    use crate::base::io::staging::Inherited;

    pub(crate) fn take_over(_: &File, _: &File, _: Inherited) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn has_access_control_list(_: &File) -> io::Result<bool> {
        Ok(false)
    }
}
