//! Memory mapping of input files: the only module with `unsafe` code.
#![allow(unsafe_code, reason = "mapping a file has no safe form; the argument is written at the call")]

use std::fs::File;
use std::io;

use memmap2::{Mmap, UncheckedAdvice};

/// Maps the whole of a regular, non-empty file for reading.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is read-only, and `Mmap` keeps it alive as long as any borrow of its
    // bytes. What cannot be excluded is that another process changes or shortens the file meanwhile. Changed
    // bytes are only ever parsed by checked code that holds no assumption across two reads of the same byte
    // for memory safety; a shortened file ends the process with SIGBUS, before any output is in place.
    let mapped = unsafe { Mmap::map(file) };
    mapped.map_err(|error| match file.metadata() {
        Ok(metadata) if isize::try_from(metadata.len()).is_err() => {
            io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than a 32-bit program can map")
        }
        _ => error,
    })
}

/// Gives the memory of a mapping back; reading it again takes it from the file again.
pub(crate) fn release(map: &Mmap) {
    // SAFETY: pages of a file that is mapped for reading come back with the bytes of the file, which are the same
    // ones unless another process changes the file: the case that `map` has argued about.
    // Where it fails, memory is used that need not be.
    drop(unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) });
}
