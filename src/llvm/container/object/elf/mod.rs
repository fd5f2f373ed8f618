//! Reads the sections of ELF objects, 32-bit and 64-bit, in both byte orders. `container::host::elf` documents the
//! headers; the limits are the same as LLVM 22.1.8's.
//!
//! Rejected: section headers of another size, outside the file or too many; names outside their table; a section
//! of names that does not exist, is not a string table, or does not end with a zero.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod append;
mod remove;
mod symbols;

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use object::elf::{SHN_LORESERVE, SHN_XINDEX, SHT_STRTAB};

use super::record::Record;
use super::view::{FoundSection, View, read_bundle_name, too_many};
use crate::base::bytes::{len_u64, span, to_u64};
use crate::base::display::shown;
use crate::base::error::Malformed;
use crate::llvm::container::Part;
use crate::llvm::container::host::elf::{Encoding, Header, Section, Table};
use crate::llvm::container::limits::EntryAllowance;

/// The length in bytes of the last three numbers of the file header: size and number of the section headers, and the
/// number of the section with the names. The record of a fat object saves them as they are.
const SECTION_NUMBERS_LEN: usize = 6;

#[derive(Debug)]
pub(crate) struct Elf<'a> {
    view: View<'a>,
    encoding: Encoding,
    header: Header,
    sections: Vec<Section>,
    /// The number of the section with the names, or 0 without one.
    names_index: usize,
}

impl<'a> Elf<'a> {
    /// Reads the headers.
    pub(super) fn parse(view: View<'a>) -> Result<Self, Malformed> {
        let encoding = Encoding::of(&view.read(0, 16, "the ELF identification")?);
        let header = encoding.decode(&view.read(0, encoding.len_of::<Header>(), "the ELF header")?);
        let mut elf = Self { view, encoding, header, sections: Vec::new(), names_index: 0 };
        elf.sections = elf.read_sections()?;
        elf.names_index = elf.read_names_index();
        Ok(elf)
    }

    fn header_len(&self) -> u64 {
        self.encoding.len_of::<Header>()
    }

    /// Reads the section headers. If their count does not fit the file header, the count there is 0, and the first
    /// section header has the real one as its size.
    fn read_sections(&self) -> Result<Vec<Section>, Malformed> {
        let Header { sections_at, section_len, section_count, .. } = self.header;
        if sections_at == 0 {
            return Ok(Vec::new());
        }
        let len = self.encoding.len_of::<Section>();
        if section_len != len {
            // The size of a section header is the first of the last three numbers.
            let offset = self.view.absolute(self.header_len().saturating_sub(to_u64(SECTION_NUMBERS_LEN)));
            return Err(Malformed::value("section header size", section_len, offset, &len.to_string()));
        }
        let first = self.view.read(sections_at, len, "the first section header")?;
        let count = if section_count == 0 { self.encoding.decode::<Section>(&first).size } else { section_count };
        let tables_len = count.saturating_mul(len);
        let table = self.view.read(sections_at, tables_len, format_args!("the table of {count} section headers"))?;
        Ok(Table::new(self.encoding, &table).iter().collect())
    }

    /// Returns the number of the section with the names. If it does not fit the file header, it is the link of the
    /// first section.
    fn read_names_index(&self) -> usize {
        let extended = self.header.names == u64::from(SHN_XINDEX.0);
        let number = match self.sections.first() {
            Some(first) if extended => first.link,
            None if extended => 0,
            _ => self.header.names,
        };
        usize::try_from(number).unwrap_or(usize::MAX)
    }

    fn section_count(&self) -> u64 {
        to_u64(self.sections.len())
    }

    fn word(&self) -> u64 {
        to_u64(self.encoding.word)
    }

    /// Reads the content of a section. `what` names the content in the error.
    fn content(&self, section: &Section, what: impl Display) -> Result<Cow<'_, [u8]>, Malformed> {
        self.view.read(section.offset, section.stored(), what)
    }

    /// Reads the table of section names; empty if the header names no section for it.
    fn read_names(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        let index = self.names_index;
        if index == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let Some(section) = self.sections.get(index) else {
            let what = format!(
                "the section names are in section {index} of {}, according to the ELF header",
                self.section_count()
            );
            return Err(self.view.broken(what, 0));
        };
        let fault = |fault: &str| {
            let what = format!("section {index} should hold the section names, but {fault}; it starts");
            self.view.broken(what, section.offset)
        };
        if !section.is(SHT_STRTAB) {
            return Err(fault("is not a string table"));
        }
        let names = self.content(section, "the table of section names")?;
        if names.last() != Some(&0) {
            return Err(fault("is empty or does not end with a zero"));
        }
        Ok(names)
    }

    /// The offset of the table of section names, for errors; 0 without a table.
    fn names_offset(&self) -> u64 {
        match self.sections.get(self.names_index) {
            Some(names) => names.offset,
            None => 0,
        }
    }

    /// Finds the sections that hold a bundle's entries, in section order.
    pub(super) fn find_sections(&self) -> Result<Vec<FoundSection>, Malformed> {
        // Without sections, a broken table of names does not matter.
        if self.sections.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.read_names()?;
        let (mut found, mut room) = (Vec::new(), EntryAllowance::new());
        for (index, section) in self.sections.iter().enumerate() {
            // As in LLVM, a name at offset 0 means no name, whatever the table holds.
            if section.name == 0 {
                continue;
            }
            let start = usize::try_from(section.name).unwrap_or(usize::MAX);
            let Some(rest @ [_, ..]) = names.get(start..) else {
                let (name, size) = (section.name, names.len());
                let what = format!("the name of section {index} at byte {name} is outside the {size} bytes of names");
                return Err(self.view.broken(what, self.names_offset()));
            };
            // Section 0 is a placeholder without content.
            if index > 0
                && let Some(name) = read_bundle_name(rest)
            {
                room.take(&name, self.view.absolute(self.names_offset()))?;
                // Only checks that the content is inside the file.
                self.content(section, format_args!("section {index} ('{}')", shown(&name)))?;
                found.push(FoundSection { index, name, content: content_of(section) });
            }
        }
        Ok(found)
    }

    /// Undoes [`append_sections`](Self::append_sections) according to the record before the section headers. Returns
    /// the record and the parts of the host object that it claims, or `None` without a record.
    pub(super) fn claimed_host(&self) -> Option<(Record, Vec<Part>)> {
        let record = Record::before(self.header.sections_at, &self.view)?;
        let [sections_at, numbers] = record.saved;
        let mut header = self.encoding.encode(&[Header { sections_at, ..self.header }]);
        // The last bytes of the header were saved as one number.
        if let Some(last) = header.last_chunk_mut::<SECTION_NUMBERS_LEN>() {
            self.encoding.write(numbers, last);
        }
        Some((record, vec![Part::Bytes(header), Part::Range(self.header_len()..record.host_len)]))
    }

    /// Returns the file header and the section headers of a new file, whose section headers are at `headers_at`. The
    /// first section header holds the count of sections and the index of the section names if they do not fit the file
    /// header.
    fn encode_headers(&self, mut sections: Vec<Section>, headers_at: u64, names_index: usize) -> (Vec<u8>, Vec<u8>) {
        let (count, names) = (to_u64(sections.len()), to_u64(names_index));
        let limit = u64::from(SHN_LORESERVE);
        if let Some(first) = sections.first_mut() {
            first.size = if count >= limit { count } else { 0 };
            first.link = if names >= limit { names } else { 0 };
        }
        let header = Header {
            sections_at: headers_at,
            section_len: self.encoding.len_of::<Section>(),
            section_count: if count >= limit { 0 } else { count },
            names: if names >= limit { SHN_XINDEX.0.into() } else { names },
            ..self.header
        };
        (self.encoding.encode(&[header]), self.encoding.encode(&sections))
    }

    /// Checks that offsets can reach the end of a file of `len` bytes.
    fn check_len(&self, len: u64) -> Result<(), Malformed> {
        let most = if self.encoding.word == 4 { u64::from(u32::MAX) } else { u64::MAX };
        if len > most {
            return Err(too_many("bytes", len, most));
        }
        Ok(())
    }
}

/// The range of the content of a section in the file.
fn content_of(section: &Section) -> Range<u64> {
    span(section.offset, section.stored())
}

/// The first multiple of `alignment` from `position`; 0 and 1 mean no alignment.
fn align(position: u64, alignment: u64) -> u64 {
    position.checked_next_multiple_of(alignment.max(1)).unwrap_or(u64::MAX)
}

/// The length of a name with its final zero.
fn name_len(name: &[u8]) -> u64 {
    len_u64(name).saturating_add(1)
}
