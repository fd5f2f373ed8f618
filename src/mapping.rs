//! Memory mapping of input files: the only module with `unsafe` code.
#![allow(unsafe_code, reason = "mapping a file has no safe form; the argument is written at the call")]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps the whole of a regular, non-empty file for reading.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only, and `Mmap` keeps it alive as long as any borrow of its
    // bytes. What cannot be excluded is that another process changes or shortens the file meanwhile. Changed
    // bytes are only ever parsed by checked code that holds no assumption across two reads of the same byte
    // for memory safety; a shortened file ends the process with SIGBUS, before any output is in place.
    unsafe { Mmap::map(file) }
}
