//! Databases of SQLite in which AMD's libraries keep code objects. They are named, not read: the code objects are
//! compressed, or cut into pages.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 16 | magic |
//! | 16 | 2 | size of a page, big-endian; 1 is 65536 |
//!
//! The first page holds the statements that made the tables. Sources: SQLite 3.50; MIOpen and rocFFT of ROCm 7.

use memchr::memmem;

use crate::bytes::{array, slice};

pub(crate) const MAGIC: [u8; 16] = *b"SQLite format 3\0";

/// The columns of a table with code objects, and what it is.
const TABLES: [([&[u8]; 3], &str); 2] = [
    ([b"kernel_name", b"kernel_args", b"kernel_blob"], "MIOpen kernel database"),
    ([b"kernel_name", b"hip_version", b"generator_sum"], "rocFFT kernel cache"),
];

/// The kind of a database with code objects; none of any other.
pub(crate) fn kernels(data: &[u8]) -> Option<&'static str> {
    let page = match array(data, 16).map(u16::from_be_bytes)? {
        1 => 1 << 16,
        size => u64::from(size),
    };
    let page = slice(data, 0, page).unwrap_or(data);
    let has = |columns: &[&[u8]]| columns.iter().all(|column| memmem::find(page, column).is_some());
    TABLES.iter().find(|(columns, _)| has(columns)).map(|(_, what)| *what)
}
