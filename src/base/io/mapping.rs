//! Memory mapping of input files. Almost all `unsafe` code is here and in `sys`.
//!
//! # Files that change while they are mapped
//!
//! Rust assumes that the bytes of a `&[u8]` are constant. The bytes of a mapped file change if anyone writes to the
//! file. A program cannot prevent that, and the behaviour is then undefined. So mapping is `unsafe` here and in
//! [`Input::map`](crate::io::Input::map), and mapping a file of others is always explicit. The jobs and the executable
//! do it in one place each, `job::open` and `cli/files.rs`. They cannot know who writes to their inputs. They rely on
//! these rules:
//!
//! - No `str`, `bool` or enum borrows mapped bytes. Numbers are copied out of them. Text is copied before it is checked
//!   (`bytes::text`; a lint refuses the functions that would not copy).
//! - Safe code compares every index with the length of the slice, which does not change with the file.
//! - The decoders of zstd and zlib read from the file itself, while it is open, and not from the mapping. Only the
//!   search for the end of a version 1 zstd frame gets the mapping: zstd compares the size of each block with the
//!   remaining length.
//! - `Input::ensure_unchanged` makes the change an error before any output is put in place.
//!
//! As compiled today, changed bytes lead to different results, not to accesses outside the slice. This is evidence, not
//! proof: tests/hostile/races.rs changes files under all readers.
//!
//! Reading after the end of a file that became shorter raises SIGBUS, which ends the process. The handler in `sys` does
//! that with an error message, and removes files with temporary names.
#![allow(unsafe_code, reason = "mapping has no safe form")]

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Mmap, MmapOptions};

use crate::base::io::sys::{self, AfterMapping};

/// A file that is mapped for reading. The fields are dropped in this order, because `_after` works once the file is no
/// longer mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: Mmap,
    _after: AfterMapping,
}

impl Mapping {
    /// Maps the `len` bytes of a regular, non-empty file.
    ///
    /// # Safety
    /// Nobody changes or shortens the file while the mapping lives. The module documentation covers violations.
    pub(crate) unsafe fn of(file: &File, len: usize) -> io::Result<Self> {
        // SAFETY: the mapping is read-only, `Mmap` keeps it alive as long as any borrow of its bytes, and the caller
        // has promised that they do not change.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        // Dropping `_after` removes files that Windows refuses to remove while they are mapped.
        Ok(Self { map, _after: AfterMapping })
    }

    /// Releases the memory; later reads take the bytes from the file again.
    pub(crate) fn release(&self) {
        sys::release(&self.map);
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
