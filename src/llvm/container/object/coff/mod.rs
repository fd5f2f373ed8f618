//! Reads the sections of COFF objects, with 16-bit or 32-bit section numbers (`/bigobj`).
//!
//! Section headers follow the file header. The string table follows the symbols: its length in four bytes, these
//! included, then each string with a final zero. A section name of more than 8 bytes is in the string table. The name
//! field then holds `/` and the decimal offset in the table, or `//` and the offset in base 64. Integers are
//! little-endian. Layout: Microsoft PE and COFF specification, with the limits of LLVM 22.1.8.
//!
//! Rejected: tables and contents outside the file, long names outside the strings, the unterminated name of a bundle's
//! section.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod append;
mod records;
mod remove;
mod symbols;

use std::borrow::Cow;
use std::ops::Range;

use object::Endianness;
use object::pe::{IMAGE_SCN_CNT_UNINITIALIZED_DATA, IMAGE_SCN_LNK_NRELOC_OVFL};

use self::records::{BIG, CoffHeader, CoffSymbol, PLAIN};
use super::view::{FoundSection, View, read_bundle_name};
use crate::base::bytes;
use crate::base::display::shown;
use crate::base::error::Malformed;
use crate::llvm::container::MAGIC;
use crate::llvm::container::host::coff::CoffSection;
use crate::llvm::container::limits::EntryAllowance;
use crate::llvm::container::records::{Encoding, Table};

/// The length of a section header.
const SECTION_LEN: u64 = 40;

/// The lengths of a relocation and of a line number.
const RELOCATION_LEN: usize = 10;
const LINE_LEN: u64 = 6;

#[derive(Debug)]
pub(crate) struct Coff<'a> {
    view: View<'a>,
    /// The encoding of the records. The width of its words is that of a section number.
    encoding: Encoding,
    header: CoffHeader,
    optional: Vec<u8>,
    sections: Vec<CoffSection>,
    /// The symbol table; if missing, an empty range at the end of the file.
    symbols: Range<u64>,
    /// The strings, including their length; empty if missing.
    strings: Range<u64>,
}

impl<'a> Coff<'a> {
    /// Reads the headers, and finds the symbol table and the string table.
    pub(super) fn parse(view: View<'a>) -> Result<Self, Malformed> {
        let mut coff = Self::read_headers(view)?;
        (coff.symbols, coff.strings) = coff.find_symbols()?;
        Ok(coff)
    }

    /// Whether the name of any section is in the string table, where a bundle's sections have their names. Returns
    /// `false` if the headers cannot be read.
    pub(super) fn has_long_names(view: View<'a>) -> bool {
        match Self::read_headers(view) {
            Ok(coff) => coff.sections.iter().any(|section| section.name.to_le_bytes().starts_with(b"/")),
            Err(_) => false,
        }
    }

    /// Reads the headers. The ranges of symbols and strings are still missing.
    fn read_headers(view: View<'a>) -> Result<Self, Malformed> {
        let signature = view.read(0, 4, "the COFF header")?;
        // A big object begins with these bytes. In a plain one, they would be no machine and 65,535 sections.
        let is_big = *signature == [0, 0, 0xff, 0xff];
        let word = if is_big { BIG } else { PLAIN };
        let encoding = Encoding { word, order: Endianness::Little };
        let fixed = encoding.len_of::<CoffHeader>();
        let header: CoffHeader = encoding.decode(&view.read(0, fixed, "the COFF header")?);
        let (count, table_at) = (header.section_count, fixed.saturating_add(header.optional_len));
        let optional = view.read(0, table_at, "the COFF optional header")?;
        let optional = bytes::tail(&optional, fixed).unwrap_or_default().to_vec();
        let table_len = count.saturating_mul(SECTION_LEN);
        let table = view.read(table_at, table_len, format_args!("the table of {count} section headers"))?;
        let sections = Table::new(encoding, &table).iter().collect();
        Ok(Self { view, encoding, header, optional, sections, symbols: 0..0, strings: 0..0 })
    }

    /// Returns all headers with other sections and another offset of the symbol table.
    fn encode_headers(&self, symbols: u64, sections: &[CoffSection]) -> Vec<u8> {
        let header = CoffHeader { section_count: bytes::to_u64(sections.len()), symbols, ..self.header };
        [self.encoding.encode(&[header]), self.optional.clone(), self.encoding.encode(sections)].concat()
    }

    /// Returns the ranges of the symbol table and of the strings. A missing one is an empty range.
    fn find_symbols(&self) -> Result<(Range<u64>, Range<u64>), Malformed> {
        let CoffHeader { symbols: start, symbol_count: count, .. } = self.header;
        let file_end = self.view.len();
        if start == 0 {
            return Ok((file_end..file_end, file_end..file_end));
        }
        if start < self.headers_end() {
            return Err(self.view.broken("the symbol table lies inside the headers,", start));
        }
        let len = count.saturating_mul(self.encoding.len_of::<CoffSymbol>());
        self.view.read(start, len, format_args!("the table of {count} symbols"))?;
        let end = bytes::span(start, len).end;
        // The string table may be missing at the end of the file. A length of less than its own four bytes means that
        // it is empty.
        let Some(recorded) = self.view.get(end, 4) else { return Ok((start..end, end..end)) };
        let strings_len = self.encoding.read(&recorded).max(4);
        self.view.read(end, strings_len, "the string table")?;
        Ok((start..end, bytes::span(end, strings_len)))
    }

    /// The offset of the section headers.
    fn headers_at(&self) -> u64 {
        bytes::total([self.encoding.len_of::<CoffHeader>(), bytes::len_u64(&self.optional)])
    }

    /// The end of the section headers.
    fn headers_end(&self) -> u64 {
        self.headers_at().saturating_add(self.section_count().saturating_mul(SECTION_LEN))
    }

    fn section_count(&self) -> u64 {
        bytes::to_u64(self.sections.len())
    }

    /// Finds the sections that hold a bundle's entries, in section order.
    pub(super) fn find_sections(&self) -> Result<Vec<FoundSection>, Malformed> {
        let (mut found, mut room) = (Vec::new(), EntryAllowance::new());
        for (index, section) in self.sections.iter().enumerate() {
            if let Some(name) = self.read_bundle_name(index, section)? {
                // Long names are in the string table, so an error gives the offset of this table.
                room.take(&name, self.view.absolute(self.strings.start))?;
                let content = section.content();
                let len = bytes::len_of(&content);
                // Only checks that the content is inside the file.
                self.view.read(content.start, len, format_args!("section {index} ('{}')", shown(&name)))?;
                found.push(FoundSection { index, name, content });
            }
        }
        Ok(found)
    }

    /// Returns the name of a bundle's section, or `None` for other sections. The name is longer than its field of 8
    /// bytes, so it is in the string table.
    fn read_bundle_name(&self, index: usize, section: &CoffSection) -> Result<Option<Vec<u8>>, Malformed> {
        let field = section.name.to_le_bytes();
        let short = field.split(|&byte| byte == 0).next().unwrap_or_default();
        let Some(long) = short.strip_prefix(b"/") else { return Ok(None) };
        let offset = long_name_offset(long);
        let Some(rest) = offset.and_then(|offset| self.strings_from(offset)) else {
            let name = bytes::escaped(short);
            let what = format!("the name '{name}' of section {index} is outside the string table; the table is");
            return Err(self.view.broken(what, self.strings.start));
        };
        // The name would end with the table. With more strings appended to the table, it would become another name.
        if rest.starts_with(MAGIC.as_bytes()) && memchr::memchr(0, &rest).is_none() {
            let what = format!("the name of section {index} is not terminated; the string table is");
            return Err(self.view.broken(what, self.strings.start));
        }
        Ok(read_bundle_name(&rest))
    }

    /// Returns the bytes of the string table from an offset on, or `None` for an offset in the length field or past the
    /// end.
    fn strings_from(&self, offset: u64) -> Option<Cow<'a, [u8]>> {
        let len = bytes::len_of(&self.strings).checked_sub(offset)?;
        let is_in_length_field = offset < 4;
        if is_in_length_field || len == 0 {
            return None;
        }
        self.view.get(self.strings.start.saturating_add(offset), len)
    }
}

impl CoffSection {
    /// The fields that are file offsets.
    fn offsets(&mut self) -> [&mut u64; 3] {
        [&mut self.offset, &mut self.relocations, &mut self.lines]
    }

    /// Replaces each file offset.
    fn map_offsets(mut self, new_offset: impl Fn(u64) -> u64) -> Self {
        for offset in self.offsets() {
            *offset = new_offset(*offset);
        }
        self
    }

    /// The range of the content in the file; empty without content.
    fn content(&self) -> Range<u64> {
        let is_in_file = self.offset != 0 && self.flags & u64::from(IMAGE_SCN_CNT_UNINITIALIZED_DATA.0) == 0;
        bytes::span(self.offset, if is_in_file { self.size } else { 0 })
    }

    /// The ranges in the file: content, relocations and line numbers.
    fn ranges_in_file(&self, view: &View<'_>) -> [Range<u64>; 3] {
        let mut count = self.relocation_count;
        // A count that does not fit is stored in place of the first relocation.
        if count == 0xffff
            && self.flags & u64::from(IMAGE_SCN_LNK_NRELOC_OVFL.0) != 0
            && let Some(first) = view.get(self.relocations, 4)
        {
            count = Encoding::LITTLE_64.read(&first);
        }
        let relocations_len = count.saturating_mul(bytes::to_u64(RELOCATION_LEN));
        let lines_len = self.line_count.saturating_mul(LINE_LEN);
        let relocations = bytes::span(self.relocations, relocations_len);
        [self.content(), relocations, bytes::span(self.lines, lines_len)]
    }
}

/// Parses the offset of a long name from the text after the first `/` of the name field. Returns `None` for text that
/// is not an offset.
fn long_name_offset(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let Some(digits) = text.strip_prefix(b"/") else { return bytes::digits(text, 10) };
    // In base 64, an offset always has six digits.
    if digits.len() != 6 {
        return None;
    }
    let mut number = 0_u64;
    for byte in digits {
        let digit = BASE64.iter().position(|known| known == byte)?;
        number = number << 6 | bytes::to_u64(digit);
    }
    Some(number)
}

/// The name field of a section whose name is at an offset of the string table.
fn long_name(offset: u64) -> u64 {
    let mut text = format!("/{offset}").into_bytes();
    // The field has room for seven digits. A larger offset is in base 64, after `//`.
    if offset > 9_999_999 {
        text = b"//".to_vec();
        for place in (0..6_u32).rev() {
            let digit = usize::try_from(offset >> place.saturating_mul(6) & 63).unwrap_or_default();
            text.push(BASE64.get(digit).copied().unwrap_or(b'A'));
        }
    }
    let mut field = [0; 8];
    for (field, byte) in field.iter_mut().zip(text) {
        *field = byte;
    }
    u64::from_le_bytes(field)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_decimal_while_they_fit_and_base_64_beyond() {
        assert_eq!(&long_name(4).to_le_bytes(), b"/4\0\0\0\0\0\0");
        assert_eq!(&long_name(9_999_999).to_le_bytes(), b"/9999999");
        assert_eq!(&long_name(10_000_000).to_le_bytes(), b"//AAmJaA");
        for offset in [4, 9_999_999, 10_000_000, u64::from(u32::MAX)] {
            let field = long_name(offset).to_le_bytes();
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
            let (relocations, relocation_count, lines, line_count) = (8, count, 4, 2);
            let section =
                CoffSection { relocations, relocation_count, flags, lines, line_count, ..CoffSection::default() };
            assert_eq!(section.ranges_in_file(&view), [0..0, 8..8 + expected * 10, 4..4 + 12], "{count} {flags}");
        }
    }
}
