//! Databases of SQLite in which AMD's libraries keep code objects. They are named, not read: the code objects are
//! compressed, or cut into pages.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 16 | magic |
//! | 16 | 2 | size of a page, big-endian as all numbers; 1 is 65536 |
//! | 100 | 1 | type of the first page: 5 if it has the numbers of other pages |
//! | 103 | 2 | how many there are, but for the last |
//! | 108 | 4 | number of the last page, counted from 1 |
//! | 112 | 2 each | offsets of the numbers of the others |
//!
//! The first page holds the statements that made the tables or, if they are many, the numbers of the pages that do.
//! Sources: SQLite 3.50; MIOpen and rocFFT of ROCm 7.

use memchr::memmem;

use crate::base::bytes::{array, len_u64, slice, tail};

/// The columns of a table with code objects, and what it is.
const TABLES: [([&[u8]; 3], &str); 2] = [
    ([b"kernel_name", b"kernel_args", b"kernel_blob"], "MIOpen kernel database"),
    ([b"kernel_name", b"hip_version", b"generator_sum"], "rocFFT kernel cache"),
];

/// The kind of a database with code objects; none of any other.
pub(crate) fn kernels(data: &[u8]) -> Option<&'static str> {
    let size = match array(data, 16).map(u16::from_be_bytes)? {
        1 => 1 << 16,
        size => u64::from(size),
    };
    let pages = len_u64(data).checked_div(size).map_or(1, |pages| pages.max(1));
    let has = |page: &[u8], columns: &[&[u8]]| columns.iter().all(|column| memmem::find(page, column).is_some());
    // Each page is named once.
    schema(data).take(usize::try_from(pages).unwrap_or(usize::MAX)).find_map(|number| {
        let rest = tail(data, u64::from(number).checked_sub(1)?.checked_mul(size)?)?;
        let page = slice(rest, 0, size).unwrap_or(rest);
        TABLES.iter().find(|(columns, _)| has(page, columns)).map(|(_, what)| *what)
    })
}

/// The numbers of the pages with the statements that made the tables.
fn schema(data: &[u8]) -> impl Iterator<Item = u32> {
    let number = |offset| array(data, offset).map(u32::from_be_bytes);
    let short = |offset| array(data, offset).map(u16::from_be_bytes);
    let is_split = data.get(100) == Some(&5);
    let count = short(103).filter(|_| is_split).unwrap_or(0);
    let others = (112..).step_by(2).take(count.into()).filter_map(move |at| number(short(at)?.into()));
    others.chain(if is_split { number(108) } else { Some(1) })
}
