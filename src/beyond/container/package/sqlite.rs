//! Recognises the databases of SQLite where AMD's libraries keep code objects. They are named, not read: the code
//! objects are compressed, or cut into pages.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 16 | magic |
//! | 16 | 2 | size of a page, big-endian as all numbers; 1 is 65536 |
//! | 100 | 1 | type of the first page: 5 if it has the numbers of other pages |
//! | 103 | 2 | count of these numbers, without the last |
//! | 108 | 4 | number of the last page, counted from 1 |
//! | 112 | 2 each | offsets of the numbers of the others |
//!
//! The first page holds the statements that made the tables or, if they are many, the numbers of the pages with them.
//! Sources: SQLite 3.50; MIOpen and rocFFT of ROCm 7.

use memchr::memmem;

use crate::base::bytes::{array, len_u64, slice, tail};

/// The columns of the tables with code objects, and the kind of their database.
const TABLES: [([&[u8]; 3], &str); 2] = [
    ([b"kernel_name", b"kernel_args", b"kernel_blob"], "MIOpen kernel database"),
    ([b"kernel_name", b"hip_version", b"generator_sum"], "rocFFT kernel cache"),
];

/// The offset of the size of a page.
const PAGE_SIZE_AT: u64 = 16;
/// The offset of the type of the first page.
const PAGE_TYPE_AT: usize = 100;
/// The type of a page with the numbers of other pages: an inner node of a b-tree.
const INNER_PAGE: u8 = 5;
/// The offset of the number of cells. Each cell names a page, but the last page has no cell.
const CELL_COUNT_AT: u64 = 103;
/// The offset of the number of the last page.
const LAST_PAGE_AT: u64 = 108;
/// The offset of the list of cells, which has the offset of each.
const CELL_OFFSETS_AT: u64 = 112;

/// Returns the kind of a database with code objects, or `None` if the database has other content. It is recognised by
/// the names of columns in the statements that made its tables.
pub(crate) fn kind_of_kernel_database(data: &[u8]) -> Option<&'static str> {
    let size = match array(data, PAGE_SIZE_AT).map(u16::from_be_bytes)? {
        // 65536 does not fit into the field.
        1 => 1 << 16,
        size => u64::from(size),
    };
    let page_count = len_u64(data).checked_div(size).unwrap_or_default().max(1);
    // A sound file names each page once, so no more pages are read than it has.
    for number in schema_pages(data).take(usize::try_from(page_count).unwrap_or(usize::MAX)) {
        let Some(page) = page_at(data, number, size) else { continue };
        for (columns, kind) in TABLES {
            if columns.iter().all(|column| memmem::find(page, column).is_some()) {
                return Some(kind);
            }
        }
    }
    None
}

/// Returns a page, counted from 1, which may be cut off.
fn page_at(data: &[u8], number: u32, size: u64) -> Option<&[u8]> {
    let rest = tail(data, u64::from(number).checked_sub(1)?.checked_mul(size)?)?;
    Some(slice(rest, 0, size).unwrap_or(rest))
}

/// Returns the numbers of the pages with the statements that made the tables: the pages that the first page names or,
/// if it names none, the first page itself.
fn schema_pages(data: &[u8]) -> impl Iterator<Item = u32> {
    let names_pages = data.get(PAGE_TYPE_AT) == Some(&INNER_PAGE);
    let (cell_count, last_page) = if names_pages {
        (short_at(data, CELL_COUNT_AT).unwrap_or(0), number_at(data, LAST_PAGE_AT))
    } else {
        (0, Some(1))
    };
    let offsets = (CELL_OFFSETS_AT..).step_by(2).take(cell_count.into());
    // A cell begins with the number of a page.
    offsets.filter_map(move |at| number_at(data, short_at(data, at)?.into())).chain(last_page)
}

fn short_at(data: &[u8], offset: u64) -> Option<u16> {
    array(data, offset).map(u16::from_be_bytes)
}

fn number_at(data: &[u8], offset: u64) -> Option<u32> {
    array(data, offset).map(u32::from_be_bytes)
}
