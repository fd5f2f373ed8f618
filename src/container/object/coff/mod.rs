//! Reads the sections of COFF objects, with 16-bit or 32-bit section numbers (`/bigobj`).
//!
//! | plain | big | width | file header |
//! |---|---|---|---|
//! | 2 | 44 | 2 / 4 | number of sections |
//! | 8 | 48 | 4 | offset of the symbol table |
//! | 12 | 52 | 4 | number of symbols |
//! | 16 | none | 2 | size of the optional header, which comes next |
//! | 20 | 56 | | end |
//!
//! | offset | width | section header |
//! |---|---|---|
//! | 0 | 8 | name, or `/` and its decimal offset among the strings, or `//` and that in base 64 |
//! | 8, 12 | 4 | virtual size and address |
//! | 16, 20 | 4 | size and offset of the content |
//! | 24, 28 | 4 | offsets of relocations and line numbers |
//! | 32, 34 | 2 | their counts |
//! | 36 | 4 | flags |
//!
//! Section headers follow the headers above, strings follow the symbols: their total length in four bytes, this
//! number included, then each with a final zero. Integers are little-endian. Layout: Microsoft PE and COFF
//! specification, with the limits of LLVM 22.1.8.
//!
//! Rejected: tables and contents outside the file, long names outside the strings, the unterminated name of a bundle's
//! section.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod append;
mod remove;
mod symbols;

use std::ops::Range;

use object::pe::{IMAGE_SCN_CNT_UNINITIALIZED_DATA, IMAGE_SCN_LNK_NRELOC_OVFL};

use super::record::Record;
use super::view::{FoundSection, View, bundle_name};
use crate::bytes;
use crate::container::MAGIC;
use crate::container::limits::EntryRoom;
use crate::display::shown;
use crate::error::Malformed;

/// A number in a record. Records are read whole, so it does not lie outside its record.
#[derive(Clone, Copy, Debug)]
struct Field {
    at: usize,
    width: usize,
}

impl Field {
    const fn new(at: usize, width: usize) -> Self {
        Self { at, width }
    }

    /// The value, 0 if the record is too short.
    fn get(self, record: &[u8]) -> u64 {
        number_in(record.get(self.at..).and_then(|rest| rest.get(..self.width)).unwrap_or_default())
    }

    /// Sets the value, unless the record is too short.
    fn set(self, record: &mut [u8], value: u64) {
        let field = record.get_mut(self.at..).and_then(|rest| rest.get_mut(..self.width));
        field.into_iter().flatten().zip(value.to_le_bytes()).for_each(|(field, byte)| *field = byte);
    }
}

/// The number in up to eight bytes.
fn number_in(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The differences between plain and big objects.
#[derive(Debug)]
struct CoffFields {
    header_len: u64,
    section_count: Field,
    section_max: u64,
    symbols_offset: Field,
    symbol_count: Field,
    /// The length of the optional header; width 0 if the field does not exist.
    optional_len: Field,
    symbol_len: u64,
    /// The section number of a symbol.
    symbol_section: Field,
    /// Type, storage class and number of the auxiliary records that follow.
    symbol_type: Field,
    symbol_class: Field,
    symbol_more: Field,
}

static PLAIN: CoffFields = CoffFields {
    header_len: 20,
    section_count: Field::new(2, 2),
    section_max: 0xfeff,
    symbols_offset: Field::new(8, 4),
    symbol_count: Field::new(12, 4),
    optional_len: Field::new(16, 2),
    symbol_len: 18,
    symbol_section: Field::new(12, 2),
    symbol_type: Field::new(14, 2),
    symbol_class: Field::new(16, 1),
    symbol_more: Field::new(17, 1),
};

static BIG: CoffFields = CoffFields {
    header_len: 56,
    section_count: Field::new(44, 4),
    section_max: 0x7fff_ffff,
    symbols_offset: Field::new(48, 4),
    symbol_count: Field::new(52, 4),
    optional_len: Field::new(0, 0),
    symbol_len: 20,
    symbol_section: Field::new(12, 4),
    symbol_type: Field::new(16, 2),
    symbol_class: Field::new(18, 1),
    symbol_more: Field::new(19, 1),
};

/// The length of a section header.
const SECTION_LEN: u64 = 40;

/// The lengths of a relocation and of a line number.
const RELOCATION_LEN: usize = 10;
const LINE_LEN: u64 = 6;

const VIRTUAL_SIZE: Field = Field::new(8, 4);
const VIRTUAL_ADDRESS: Field = Field::new(12, 4);
const SIZE: Field = Field::new(16, 4);
const CONTENT: Field = Field::new(20, 4);
const RELOCATIONS: Field = Field::new(24, 4);
const LINES: Field = Field::new(28, 4);
const RELOCATION_COUNT: Field = Field::new(32, 2);
const LINE_COUNT: Field = Field::new(34, 2);
const FLAGS: Field = Field::new(36, 4);

/// The fields of a section header that are file offsets.
const OFFSETS: [Field; 3] = [CONTENT, RELOCATIONS, LINES];

#[derive(Debug)]
pub(super) struct Coff<'v> {
    view: &'v View<'v>,
    layout: &'static CoffFields,
    /// All bytes before the section headers.
    header: Vec<u8>,
    sections: Vec<[u8; 40]>,
    /// The symbol table; if missing, an empty range at the end of the file.
    symbols: Range<u64>,
    /// The strings, including their length; empty if missing.
    strings: Range<u64>,
}

impl<'v> Coff<'v> {
    /// Reads the headers.
    pub(super) fn parse(view: &'v View<'v>) -> Result<Self, Malformed> {
        let signature = view.read(0, 4, "the COFF header")?;
        let layout = if *signature == [0, 0, 0xff, 0xff] { &BIG } else { &PLAIN };
        let fixed = view.read(0, layout.header_len, "the COFF header")?;
        let header_len = layout.header_len.saturating_add(layout.optional_len.get(&fixed));
        let header = view.read(0, header_len, "the COFF optional header")?.into_owned();
        let count = layout.section_count.get(&header);
        let table_len = count.saturating_mul(SECTION_LEN);
        let table = view.read(header_len, table_len, format_args!("the table of {count} section headers"))?;
        let sections = table.as_chunks().0.to_vec();
        let mut coff = Self { view, layout, header, sections, symbols: 0..0, strings: 0..0 };
        (coff.symbols, coff.strings) = coff.find_symbols()?;
        Ok(coff)
    }

    fn field(&self, field: Field) -> u64 {
        field.get(&self.header)
    }

    fn find_symbols(&self) -> Result<(Range<u64>, Range<u64>), Malformed> {
        let (start, count) = (self.field(self.layout.symbols_offset), self.field(self.layout.symbol_count));
        let file_end = self.view.len();
        if start == 0 {
            return Ok((file_end..file_end, file_end..file_end));
        }
        if start < self.headers_end() {
            return Err(self.view.broken("the symbol table lies inside the headers,", start));
        }
        let len = count.saturating_mul(self.layout.symbol_len);
        self.view.read(start, len, format_args!("the table of {count} symbols"))?;
        let end = start.saturating_add(len);
        // Strings may be missing at the end of the file, and a length of less than its own field means none.
        let Some(recorded) = self.view.get(end, 4) else { return Ok((start..end, end..end)) };
        let strings_len = number_in(&recorded).max(4);
        self.view.read(end, strings_len, "the string table")?;
        Ok((start..end, bytes::span(end, strings_len)))
    }

    /// The offset of the section headers.
    fn table(&self) -> u64 {
        crate::bytes::len_u64(&self.header)
    }

    /// The end of the section headers.
    fn headers_end(&self) -> u64 {
        self.table().saturating_add(self.count().saturating_mul(SECTION_LEN))
    }

    fn count(&self) -> u64 {
        bytes::to_u64(self.sections.len())
    }

    /// The sections that hold a bundle's entries, in section order.
    pub(super) fn found(&self) -> Result<Vec<FoundSection>, Malformed> {
        let (mut found, mut room) = (Vec::new(), EntryRoom::new());
        for (index, section) in self.sections.iter().enumerate() {
            if let Some(name) = self.bundle_name(index, section)? {
                room.take(&name, self.view.absolute(self.strings.start))?;
                let content = content(section);
                let len = bytes::len_of(&content);
                self.view.read(content.start, len, format_args!("section {index} ('{}')", shown(&name)))?;
                found.push(FoundSection { index, name, content });
            }
        }
        Ok(found)
    }

    /// The name of a section if it is a bundle's, which is always a long one.
    fn bundle_name(&self, index: usize, section: &[u8; 40]) -> Result<Option<Vec<u8>>, Malformed> {
        let (short, _) = section.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let end = memchr::memchr(0, short).unwrap_or(short.len());
        let short = short.get(..end).unwrap_or_default();
        let Some(long) = short.strip_prefix(b"/") else { return Ok(None) };
        let offset = long_name_offset(long).filter(|&offset| offset >= 4).unwrap_or(u64::MAX);
        let strings_len = bytes::len_of(&self.strings);
        let rest = strings_len.checked_sub(offset).filter(|&len| len > 0);
        let Some(rest) = rest.and_then(|len| self.view.get(self.strings.start.saturating_add(offset), len)) else {
            let name = bytes::escaped(short);
            let what = format!("the name '{name}' of section {index} is outside the string table; the table is");
            return Err(self.view.broken(what, self.strings.start));
        };
        // With strings after it, the name would be a different one.
        if rest.starts_with(MAGIC.as_bytes()) && memchr::memchr(0, &rest).is_none() {
            let what = format!("the name of section {index} is not terminated; the string table is");
            return Err(self.view.broken(what, self.strings.start));
        }
        Ok(bundle_name(&rest))
    }

    /// The record of how this file was made, if it was made here.
    pub(super) fn record(&self) -> Option<Record> {
        Record::before(self.symbols.start, self.view)
    }
}

/// Changes the file offsets in a section header.
fn move_offsets(section: &mut [u8; 40], new_offset: impl Fn(u64) -> u64) {
    for field in OFFSETS {
        let offset = field.get(section);
        field.set(section, new_offset(offset));
    }
}

/// The content of a section in the file.
fn content(section: &[u8; 40]) -> Range<u64> {
    let start = CONTENT.get(section);
    let in_file = start != 0 && FLAGS.get(section) & u64::from(IMAGE_SCN_CNT_UNINITIALIZED_DATA.0) == 0;
    bytes::span(start, if in_file { SIZE.get(section) } else { 0 })
}

/// The ranges of a section in the file: content, relocations and line numbers.
fn extents(section: &[u8; 40], view: &View<'_>) -> [Range<u64>; 3] {
    let relocation_len = bytes::to_u64(RELOCATION_LEN);
    let (relocations, lines) = (RELOCATIONS.get(section), LINES.get(section));
    let mut count = RELOCATION_COUNT.get(section);
    // A count that does not fit is stored in the first relocation, which is not a real one.
    if count == 0xffff && FLAGS.get(section) & u64::from(IMAGE_SCN_LNK_NRELOC_OVFL.0) != 0 {
        count = view.get(relocations, 4).map_or(count, |data| number_in(&data));
    }
    let lines_len = LINE_COUNT.get(section).saturating_mul(LINE_LEN);
    [content(section), bytes::span(relocations, count.saturating_mul(relocation_len)), bytes::span(lines, lines_len)]
}

/// The offset in the short form of a long name, after its first `/`.
fn long_name_offset(text: &[u8]) -> Option<u64> {
    if let Some(digits) = text.strip_prefix(b"/") {
        let digit =
            |byte: &u8| BASE64.iter().position(|known| known == byte).and_then(|digit| u64::try_from(digit).ok());
        return digits
            .iter()
            .try_fold(0_u64, |number, byte| Some(number << 6 | digit(byte)?))
            .filter(|_| digits.len() == 6);
    }
    bytes::text(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// The name field of a section for a name at an offset among the strings.
fn long_name(offset: u64) -> [u8; 8] {
    let mut field = [0; 8];
    let text = if offset <= 9_999_999 {
        format!("/{offset}").into_bytes()
    } else {
        let digits = (0..6_u32).rev().map(|place| {
            let digit = offset >> place.saturating_mul(6) & 63;
            usize::try_from(digit).ok().and_then(|digit| BASE64.get(digit).copied()).unwrap_or(b'A')
        });
        b"//".iter().copied().chain(digits).collect()
    };
    field.iter_mut().zip(text).for_each(|(field, byte)| *field = byte);
    field
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_decimal_while_they_fit_and_base_64_beyond() {
        assert_eq!(&long_name(4), b"/4\0\0\0\0\0\0");
        assert_eq!(&long_name(9_999_999), b"/9999999");
        assert_eq!(&long_name(10_000_000), b"//AAmJaA");
        for offset in [4, 9_999_999, 10_000_000, u64::from(u32::MAX)] {
            let field = long_name(offset);
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(8);
            assert_eq!(long_name_offset(&field[1..end]), Some(offset));
        }
        assert_eq!(long_name_offset(b""), None);
        assert_eq!(long_name_offset(b"+4"), None);
        assert_eq!(long_name_offset(b"/AAA"), None);
    }

    #[test]
    fn a_count_of_relocations_that_does_not_fit_is_in_the_first() {
        const OVERFLOW: u64 = 0x0100_0000;
        let view = [&[0; 8][..], &70_000_u32.to_le_bytes(), &[0; 6]].concat();
        let view = View::whole(&view, 0);
        for (count, flags, expected) in [
            (0xffff, OVERFLOW, 70_000),
            (0xffff, 0x20, 0xffff),
            (0xffff, 0, 0xffff),
            (0xfffe, OVERFLOW, 0xfffe),
            (0, OVERFLOW, 0),
        ] {
            let mut section = [0; 40];
            for (field, value) in
                [(RELOCATIONS, 8), (RELOCATION_COUNT, count), (FLAGS, flags), (LINES, 4), (LINE_COUNT, 2)]
            {
                field.set(&mut section, value);
            }
            assert_eq!(extents(&section, &view), [0..0, 8..8 + expected * 10, 4..4 + 12], "{count} {flags}");
        }
    }
}
