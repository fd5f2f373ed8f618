//! Reads the sections of ELF objects, 32-bit and 64-bit, in both byte orders.
//!
//! | 32 bit | 64 bit | width | file header |
//! |---|---|---|---|
//! | 5 | 5 | 1 | byte order: 1 little, 2 big |
//! | 28 | 32 | 4 / 8 | offset of the program headers |
//! | 32 | 40 | 4 / 8 | offset of the section headers |
//! | 42, 44 | 54, 56 | 2 | size and number of program headers |
//! | 46, 48 | 58, 60 | 2 | size and number of section headers |
//! | 50 | 62 | 2 | number of the section with the section names |
//!
//! A section header holds name, type (4 bytes each), flags, address, offset, size (4 or 8), link, info (4), alignment
//! and entry size (4 or 8). Numbers that do not fit the file header are in the first section header: its size is the
//! number of sections from 0xff00 on, its link the number of the names' section, its info the number of program
//! headers. Layout: System V ABI, generic part, with the limits of LLVM 22.1.8.
//!
//! Rejected: section headers of another size, outside the file or too many; names outside their table; a names' section
//! that does not exist or, if names are to be added, is not a string table.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod append;
mod remove;
mod symbols;

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use object::elf::{ELFCLASS64, ELFDATA2MSB, SHN_LORESERVE, SHN_XINDEX, SHT_NOBITS, SHT_NULL, SectionType};

use super::record::Record;
use super::view::{Field, FoundSection, PartOrder, View, bundle_name, too_many};
use crate::bytes::{len_of, len_u64, to_u64};
use crate::container::Part;
use crate::container::limits::EntryRoom;
use crate::display::shown;
use crate::error::Malformed;

/// The differences between 32-bit and 64-bit files.
#[derive(Debug)]
struct Layout {
    header_len: u64,
    section_len: u64,
    /// The width of addresses, offsets and sizes, and the alignment of tables.
    word: usize,
    program_offset: Field,
    program_size: Field,
    program_count: Field,
    section_offset: Field,
    /// The last three numbers of the file header: size and number of section headers, names' section.
    section_numbers: Field,
    section_size: Field,
    section_count: Field,
    names_index: Field,
}

static ELF32: Layout = Layout {
    header_len: 52,
    section_len: 40,
    word: 4,
    program_offset: Field::new(28, 4),
    program_size: Field::new(42, 2),
    program_count: Field::new(44, 2),
    section_offset: Field::new(32, 4),
    section_numbers: Field::new(46, 6),
    section_size: Field::new(46, 2),
    section_count: Field::new(48, 2),
    names_index: Field::new(50, 2),
};

static ELF64: Layout = Layout {
    header_len: 64,
    section_len: 64,
    word: 8,
    program_offset: Field::new(32, 8),
    program_size: Field::new(54, 2),
    program_count: Field::new(56, 2),
    section_offset: Field::new(40, 8),
    section_numbers: Field::new(58, 6),
    section_size: Field::new(58, 2),
    section_count: Field::new(60, 2),
    names_index: Field::new(62, 2),
};

/// A section header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Section {
    name: u64,
    kind: u64,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u64,
    info: u64,
    alignment: u64,
    entry_size: u64,
}

impl Section {
    fn is(&self, kind: SectionType) -> bool {
        self.kind == u64::from(kind.0)
    }

    /// The fields in file order, each with its width in bytes.
    fn fields(&mut self, word: usize) -> [(&mut u64, usize); 10] {
        [
            (&mut self.name, 4),
            (&mut self.kind, 4),
            (&mut self.flags, word),
            (&mut self.address, word),
            (&mut self.offset, word),
            (&mut self.size, word),
            (&mut self.link, 4),
            (&mut self.info, 4),
            (&mut self.alignment, word),
            (&mut self.entry_size, word),
        ]
    }

    /// The range of its content in the file.
    fn content(&self) -> Range<u64> {
        let size = if self.is(SHT_NOBITS) || self.is(SHT_NULL) { 0 } else { self.size };
        self.offset..self.offset.saturating_add(size)
    }
}

#[derive(Debug)]
pub(super) struct Elf<'v> {
    view: &'v View<'v>,
    layout: &'static Layout,
    order: PartOrder,
    header: Vec<u8>,
    sections: Vec<Section>,
    /// The number of the section with the names, 0 if there are none.
    names_index: usize,
}

impl<'v> Elf<'v> {
    /// Reads the headers.
    pub(super) fn parse(view: &'v View<'v>) -> Result<Self, Malformed> {
        let ident = view.read(0, 16, "the ELF identification")?;
        let layout = if ident.get(4) == Some(&ELFCLASS64.0) { &ELF64 } else { &ELF32 };
        let order = if ident.get(5) == Some(&ELFDATA2MSB.0) { PartOrder::Big } else { PartOrder::Little };
        let header = view.read(0, layout.header_len, "the ELF header")?.into_owned();
        let mut elf = Self { view, layout, order, header, sections: Vec::new(), names_index: 0 };
        elf.sections = elf.read_sections()?;
        elf.names_index = elf.read_names_index()?;
        Ok(elf)
    }

    fn field(&self, field: Field) -> u64 {
        field.get(self.order, &self.header)
    }

    fn read_sections(&self) -> Result<Vec<Section>, Malformed> {
        let (offset, count) = (self.field(self.layout.section_offset), self.field(self.layout.section_count));
        if offset == 0 {
            return Ok(Vec::new());
        }
        let len = self.layout.section_len;
        let size = self.field(self.layout.section_size);
        if size != len {
            let offset = self.view.absolute(self.layout.header_len.saturating_sub(6));
            return Err(Malformed::value("section header size", size, offset, &len.to_string()));
        }
        let first = self.view.read(offset, len, "the first section header")?;
        let count = if count == 0 { self.decode(&first).size } else { count };
        let table =
            self.view.read(offset, count.saturating_mul(len), format_args!("the table of {count} section headers"))?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(table.chunks_exact(len).map(|header| self.decode(header)).collect())
    }

    fn read_names_index(&self) -> Result<usize, Malformed> {
        let recorded = self.field(self.layout.names_index);
        let extended = recorded == u64::from(SHN_XINDEX.0);
        let first_link = self.sections.first().map_or(0, |first| first.link);
        let index = usize::try_from(if extended { first_link } else { recorded }).unwrap_or(usize::MAX);
        if index > 0 && index >= self.sections.len() {
            let what =
                format!("the section names are in section {index} of {}, according to the ELF header", self.count());
            return Err(self.view.broken(what, 0));
        }
        Ok(index)
    }

    fn count(&self) -> u64 {
        to_u64(self.sections.len())
    }

    fn word(&self) -> u64 {
        to_u64(self.layout.word)
    }

    /// The content of a section, called `what` in errors.
    fn content(&self, section: &Section, what: impl Display) -> Result<Cow<'_, [u8]>, Malformed> {
        let range = section.content();
        self.view.read(range.start, len_of(&range), what)
    }

    fn names(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        match self.sections.get(self.names_index) {
            Some(section) if self.names_index > 0 => self.content(section, "the table of section names"),
            _ => Ok(Cow::Borrowed(&[])),
        }
    }

    fn names_offset(&self) -> u64 {
        self.sections.get(self.names_index).map_or(0, |names| names.offset)
    }

    /// The sections that hold a bundle's entries, in section order.
    pub(super) fn found(&self) -> Result<Vec<FoundSection>, Malformed> {
        let names = self.names()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let (mut found, mut room) = (Vec::new(), EntryRoom::new());
        for (index, section) in self.sections.iter().enumerate().skip(1) {
            let start = usize::try_from(section.name).unwrap_or(usize::MAX);
            let Some(rest) = names.get(start..).filter(|rest| rest.last() == Some(&0)) else {
                let (name, size) = (section.name, names.len());
                let what = format!("the name of section {index} at byte {name} is outside the {size} bytes of names");
                return Err(self.view.broken(what, self.names_offset()));
            };
            if let Some(name) = bundle_name(rest) {
                room.take(&name, self.view.absolute(self.names_offset()))?;
                self.content(section, format_args!("section {index} ('{}')", shown(&name)))?;
                found.push(FoundSection { index, name, content: section.content() });
            }
        }
        Ok(found)
    }

    /// The record of how this file was made, if it was made here.
    pub(super) fn record(&self) -> Option<Record> {
        Record::before(self.field(self.layout.section_offset), self.view)
    }

    /// The host object that the record claims.
    pub(super) fn claimed_host(&self, record: &Record) -> Vec<Part> {
        let [section_offset, section_numbers] = record.saved;
        let mut header = self.header.clone();
        self.layout.section_offset.set(self.order, &mut header, section_offset);
        self.layout.section_numbers.set(self.order, &mut header, section_numbers);
        vec![Part::Bytes(header), Part::Range(self.layout.header_len..record.host_len)]
    }

    fn decode(&self, mut header: &[u8]) -> Section {
        let mut section = Section::default();
        for (field, width) in section.fields(self.layout.word) {
            let (number, rest) = header.split_at_checked(width).unwrap_or_default();
            *field = self.order.read(number);
            header = rest;
        }
        section
    }

    fn encode(&self, mut section: Section, out: &mut Vec<u8>) {
        for (field, width) in section.fields(self.layout.word) {
            let start = out.len();
            out.resize(start.saturating_add(width), 0);
            self.order.write(*field, out.get_mut(start..).unwrap_or_default());
        }
    }

    /// The file header and the section headers of a new file. The first section holds the numbers that do not fit the
    /// header.
    fn encode_headers(&self, sections: &[Section], table: u64, names_index: usize) -> (Vec<u8>, Vec<u8>) {
        let count = to_u64(sections.len());
        let names_index = to_u64(names_index);
        let limit = u64::from(SHN_LORESERVE);
        let mut first = sections.first().copied().unwrap_or_default();
        first.size = if count >= limit { count } else { 0 };
        first.link = if names_index >= limit { names_index } else { 0 };
        let mut header = self.header.clone();
        let fields = [
            (self.layout.section_offset, table),
            (self.layout.section_size, self.layout.section_len),
            (self.layout.section_count, if count >= limit { 0 } else { count }),
            (self.layout.names_index, if names_index >= limit { u64::from(SHN_XINDEX.0) } else { names_index }),
        ];
        for (field, value) in fields {
            field.set(self.order, &mut header, value);
        }
        let mut encoded = Vec::new();
        self.encode(first, &mut encoded);
        sections.iter().skip(1).for_each(|section| self.encode(*section, &mut encoded));
        (header, encoded)
    }

    /// Checks that offsets can reach the end of a file of `len` bytes.
    fn check_len(&self, len: u64) -> Result<(), Malformed> {
        let most = if self.layout.word == 4 { u64::from(u32::MAX) } else { u64::MAX };
        if len <= most { Ok(()) } else { Err(too_many("bytes", len, most)) }
    }
}

/// The first multiple of `alignment` from `position`; 0 and 1 mean no alignment.
fn align(position: u64, alignment: u64) -> u64 {
    position.checked_next_multiple_of(alignment.max(1)).unwrap_or(u64::MAX)
}

/// The length of a name with its final zero.
fn name_len(name: &[u8]) -> u64 {
    len_u64(name).saturating_add(1)
}
