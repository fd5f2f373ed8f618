//! Checks ELF files of either class and byte order.
//!
//! | part | requirement |
//! |---|---|
//! | header | class, byte order, versions, type, machine and the sizes of headers are those of ELF |
//! | program headers, section headers | the table is inside the file; count and offset are both set or both zero |
//! | segments, sections | inside the file, unless they take no bytes of it |
//! | section names | the string table has the right type, ends with a zero, and all names begin in it |
//! | symbol tables | whole symbols, whose names begin in the string table and whose sections exist |
//! | links | refer to sections that exist |
//! | notes | fill their section; those of NVIDIA and Intel GPUs are not checked |
//!
//! Names of constants: System V ABI, generic and AMDGPU supplements. Output of compilers, linkers, `strip` and
//! `objcopy` is accepted: empty sections anywhere, `SHT_NULL` sections with leftovers, files without section headers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::fmt::Display;

use object::elf::{
    EM_AMDGPU, EM_CUDA, EM_NONE, ET_DYN, ET_EXEC, ET_NONE, PT_LOAD, PT_NOTE, PT_NULL, SHF_ALLOC, SHN_LORESERVE,
    SHN_XINDEX, SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_GROUP, SHT_HASH, SHT_NOTE, SHT_NULL, SHT_REL, SHT_RELA,
    SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX, SectionType,
};

use super::{amdgpu, charge, wrong};
use crate::bytes::{Bounds, len_u64, slice, tail, to_u64};
use crate::container::host::elf::{EM_INTELGT, Encoding, File, Header, Section, Symbol, Table, name_of};
use crate::container::limits::{Allowance, CHECKED_MAX};
use crate::display::shown;
use crate::error::Malformed;

type Result<T = ()> = std::result::Result<T, Malformed>;

/// The first file type reserved for operating systems and processors, which have their own rules for the rest of the
/// header.
const OWN_TYPES: u16 = 0xfe00;

/// The types of sections whose link is the number of another section.
const LINKED: [SectionType; 9] =
    [SHT_SYMTAB, SHT_DYNSYM, SHT_DYNAMIC, SHT_HASH, SHT_GNU_HASH, SHT_REL, SHT_RELA, SHT_GROUP, SHT_SYMTAB_SHNDX];

/// Checks a code object.
pub(super) fn check(data: &[u8]) -> Result {
    File::read(data)?.check()
}

/// Checks that the sections of a file can be identified by their names.
pub(crate) fn check_names(data: &[u8]) -> Result {
    File::read(data)?.section_names().map(drop)
}

/// A symbol table whose bytes are all inside the file.
pub(crate) struct SymbolTable<'d> {
    pub(crate) symbols: Table<'d, Symbol>,
    pub(crate) names: &'d [u8],
    /// The offset in the file.
    pub(crate) offset: u64,
    /// Section numbers that do not fit the symbols.
    extended: Option<&'d [u8]>,
}

impl<'d> File<'d> {
    fn check(&self) -> Result {
        let mut work = Allowance::times(CHECKED_MAX, self.data);
        self.file_header()?;
        self.program_headers()?;
        let names = self.section_names()?;
        for section in self.sections.iter().filter(|section| !section.is(SHT_NULL)) {
            self.section(&section, names)?;
        }
        let tables = self.symbol_tables(&mut work)?;
        let metadata = self.notes(&mut work)?;
        let is_amd = self.header.machine() == EM_AMDGPU;
        if is_amd { amdgpu::check(self, &tables, &metadata, &mut work) } else { Ok(()) }
    }

    /// All symbol tables. Each symbol has a name in the string table, and a section that exists if it has one.
    pub(crate) fn symbol_tables(&self, work: &mut Allowance) -> Result<Vec<SymbolTable<'d>>> {
        let extensions = self.sections.iter().filter(|section| section.is(SHT_SYMTAB_SHNDX));
        // For each symbol table, the section numbers that do not fit its symbols.
        let extended: HashMap<_, _> = extensions.map(|section| (section.link, section)).collect();
        let mut tables = Vec::new();
        for (index, section) in (0..).zip(self.sections.iter()) {
            if section.is_any(&[SHT_SYMTAB, SHT_DYNSYM]) && section.size > 0 {
                let table = self.symbol_table(&section, extended.get(&index))?;
                self.symbols(&table, work)?;
                tables.push(table);
            }
        }
        Ok(tables)
    }

    fn file_header(&self) -> Result {
        let Header { len, version, .. } = self.header;
        let (kind, machine) = (self.header.kind(), self.header.machine());
        if kind == ET_NONE {
            return wrong("invalid ELF type", 16);
        }
        if machine == EM_NONE && kind.0 < OWN_TYPES {
            return wrong("invalid ELF machine", 18);
        }
        // NVIDIA stores the CUDA version there, times ten.
        if version == 0 || (version != 1 && machine != EM_CUDA) {
            return wrong(format!("ELF version {version}, which does not exist,"), 20);
        }
        if len != self.encoding.len_of::<Header>() {
            return wrong(format!("an ELF header that claims to be {len} bytes long"), 0);
        }
        Ok(())
    }

    fn program_headers(&self) -> Result {
        let Header { segments_at, segment_count, .. } = self.header;
        if segments_at == 0 && segment_count != 0 {
            return wrong(format!("an ELF header with {segment_count} program headers at no offset"), 0);
        }
        for segment in self.segments.iter().filter(|segment| !segment.is(PT_NULL) && segment.size > 0) {
            self.bytes(segment.offset, segment.size, format_args!("a segment of type {:#x}", segment.kind))?;
            if segment.is(PT_LOAD) && segment.size > segment.memory {
                return wrong(format!("a segment of {} bytes that takes less in memory", segment.size), segment.offset);
            }
        }
        let is_loaded =
            |section: Section| !section.is(SHT_NULL) && section.flags & SHF_ALLOC.0 != 0 && section.size > 0;
        // NVIDIA's driver loads cubins by their sections.
        let needs_segments = [ET_DYN, ET_EXEC].contains(&self.header.kind()) && self.header.machine() != EM_CUDA;
        if needs_segments && self.segments.is_empty() && self.sections.iter().any(is_loaded) {
            return wrong("a linked ELF file without program headers", 0);
        }
        Ok(())
    }

    /// The string table with the names of all sections.
    pub(crate) fn section_names(&self) -> Result<&'d [u8]> {
        let Header { sections_at, section_count, names: recorded, .. } = self.header;
        if self.sections.is_empty() {
            if sections_at != 0 || section_count != 0 || recorded != 0 {
                let what = "an ELF header whose table of sections has either no offset or no entries,";
                return wrong(what, sections_at);
            }
            return Ok(&[]);
        }
        let mut names: &[u8] = &[];
        if recorded != 0 {
            let number = self.names.map_err(|error| Malformed::at(error.to_string(), sections_at))?;
            names = self.strings(number.into(), "section names", sections_at)?;
        }
        let is_beyond = |section: &Section| section.name >= len_u64(names) && section.name > 0;
        match self.sections.iter().skip(1).filter(is_beyond).count() {
            0 => Ok(names),
            count => wrong(format!("section names outside of their string table, {count} in all,"), sections_at),
        }
    }

    /// The content of the string table in this section.
    fn strings(&self, number: u64, what: &str, offset: u64) -> Result<&'d [u8]> {
        let section = usize::try_from(number).ok().and_then(|index| self.sections.get(index));
        let Some(section) = section.filter(|section| section.is(SHT_STRTAB)) else {
            return wrong(format!("{what} in section {number}, which is not a string table,"), offset);
        };
        let strings = self.bytes(section.offset, section.size, format_args!("the string table of {what}"))?;
        match strings.last() {
            None | Some(0) => Ok(strings),
            Some(_) => wrong(format!("a string table of {what} that does not end with a zero"), section.offset),
        }
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self, offset: u64, len: u64, what: impl Display) -> Result<&'d [u8]> {
        slice(self.data, offset, len).ok_or_else(|| Bounds::of(self.data, 0).truncated(offset, len, what))
    }

    fn section(&self, section: &Section, names: &[u8]) -> Result {
        let name = shown(name_of(names, section.name));
        let stored = self.stored(section);
        if stored > 0 {
            self.bytes(section.offset, stored, format_args!("the section '{name}'"))?;
        }
        let link = section.link;
        if section.is_any(&LINKED) && link >= to_u64(self.sections.len()) {
            let what = format!("the section '{name}' with a link to section {link}, which does not exist,");
            return wrong(what, self.header.sections_at);
        }
        Ok(())
    }

    fn symbol_table(&self, section: &Section, extended: Option<&Section>) -> Result<SymbolTable<'d>> {
        let Section { offset, size, entry_len, .. } = *section;
        if entry_len != self.encoding.len_of::<Symbol>() || size.checked_rem(entry_len) != Some(0) {
            return wrong(format!("a symbol table of {size} bytes with symbols of {entry_len}"), offset);
        }
        let symbols = Table::new(self.encoding, self.bytes(offset, size, "a symbol table")?);
        let names = self.strings(section.link, "symbol names", offset)?;
        let extended = extended.and_then(|section| slice(self.data, section.offset, section.size));
        Ok(SymbolTable { symbols, names, offset, extended })
    }

    fn symbols(&self, table: &SymbolTable<'d>, work: &mut Allowance) -> Result {
        charge(work, len_u64(table.symbols.bytes), table.offset)?;
        let sections = self.sections.len();
        for (number, symbol) in table.symbols.iter().enumerate() {
            if symbol.name > 0 && symbol.name >= len_u64(table.names) {
                return wrong(format!("symbol {number} with a name outside of the string table,"), table.offset);
            }
            if self.section_of(table, number, &symbol).is_some_and(|section| section >= sections) {
                return wrong(format!("symbol {number} in a section that does not exist,"), table.offset);
            }
        }
        Ok(())
    }

    /// The number of the section in which a symbol is defined; none for a symbol without a section.
    pub(crate) fn section_of(&self, table: &SymbolTable<'d>, number: usize, symbol: &Symbol) -> Option<usize> {
        if symbol.section != u64::from(SHN_XINDEX.0) {
            let is_section = (1..SHN_LORESERVE.into()).contains(&symbol.section);
            return usize::try_from(symbol.section).ok().filter(|_| is_section);
        }
        let at = to_u64(number).checked_mul(4)?;
        let extended = table.extended.and_then(|numbers| slice(numbers, at, 4));
        // A missing number is treated as that of a section that does not exist.
        Some(extended.map_or(usize::MAX, |bytes| usize::try_from(self.encoding.read(bytes)).unwrap_or(usize::MAX)))
    }

    /// Reads all notes and returns those with the metadata of AMD GPUs.
    pub(crate) fn notes(&self, work: &mut Allowance) -> Result<Vec<Metadata<'d>>> {
        let mut metadata = Vec::new();
        if [EM_CUDA, EM_INTELGT].contains(&self.header.machine()) {
            return Ok(metadata);
        }
        let segments = self.segments.iter().filter(|segment| segment.is(PT_NOTE));
        let segments = segments.map(|segment| (segment.offset, segment.size, segment.alignment));
        let sections = self.sections.iter().filter(|section| section.is(SHT_NOTE));
        let sections = sections.map(|section| (section.offset, section.size, section.alignment));
        let mut places: Vec<_> = segments.chain(sections).collect();
        // Most notes are in both a section and a segment.
        places.sort_unstable();
        places.dedup_by_key(|(offset, len, _)| (*offset, *len));
        for (offset, len, align) in places {
            charge(work, len, offset)?;
            let data = self.bytes(offset, len, "the notes")?;
            let align = if align == 8 { 8 } else { 4 };
            notes(Notes { data, offset, align, encoding: self.encoding }, &mut metadata)?;
        }
        Ok(metadata)
    }
}

/// Consecutive notes.
struct Notes<'d> {
    data: &'d [u8],
    offset: u64,
    align: u64,
    encoding: Encoding,
}

/// A note with the metadata of an AMD GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata<'d> {
    pub(crate) form: MetadataForm,
    pub(crate) content: &'d [u8],
    /// The offset of the content in the file.
    pub(crate) offset: u64,
}

/// The form of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataForm {
    /// MessagePack, in code object versions 3 and up.
    MessagePack,
    /// YAML, in version 2.
    Yaml,
}

/// The names and types of the notes with metadata of AMD GPUs.
const FORMS: [(&[u8], u64, MetadataForm); 2] =
    [(b"AMDGPU\0", 32, MetadataForm::MessagePack), (b"AMD\0", 10, MetadataForm::Yaml)];

const NOTE_HEADER: u64 = 12;

fn notes<'d>(notes: Notes<'d>, metadata: &mut Vec<Metadata<'d>>) -> Result {
    let Notes { data, offset, align, encoding } = notes;
    let end = len_u64(data);
    let number = |at: u64| Some(encoding.read(slice(data, at, 4)?));
    let aligned = |at: u64| at.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    let mut at = 0_u64;
    while at < end {
        let here = offset.saturating_add(at);
        let (Some(name_len), Some(len), Some(kind)) =
            (number(at), number(at.saturating_add(4)), number(at.saturating_add(8)))
        else {
            let rest = tail(data, at).unwrap_or_default();
            // Padding at the end.
            return if rest.iter().all(|&byte| byte == 0) { Ok(()) } else { wrong("a note that is cut off", here) };
        };
        let name_at = at.saturating_add(NOTE_HEADER);
        let content_at = aligned(name_at.saturating_add(name_len));
        let name = slice(data, name_at, name_len);
        let (Some(name), Some(content)) = (name, slice(data, content_at.min(end), len)) else {
            return wrong("a note that reaches beyond its section", here);
        };
        let form = FORMS.iter().find(|(owner, number, _)| name == *owner && kind == *number);
        let offset = offset.saturating_add(content_at);
        metadata.extend(form.map(|(.., form)| Metadata { form: *form, content, offset }));
        at = aligned(content_at.saturating_add(len));
    }
    Ok(())
}
