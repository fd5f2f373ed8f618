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

use object::Endianness;
use object::elf::{
    EM_AMDGPU, EM_CUDA, EM_NONE, ET_DYN, ET_EXEC, ET_NONE, FileHeader32, FileHeader64, Machine, PT_LOAD, PT_NOTE,
    PT_NULL, SHF_ALLOC, SHN_UNDEF, SHN_XINDEX, SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_GROUP, SHT_HASH, SHT_NOTE,
    SHT_NULL, SHT_REL, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX,
};
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

use super::{amdgpu, charge, wrong};
use crate::bytes::{Bounds, array, len_u64, slice, tail, to_u64};
use crate::container::extent::section_range;
use crate::container::limits::{Allowance, CHECKED_MAX};
use crate::container::magic::EM_INTELGT;
use crate::display::shown;
use crate::error::Malformed;

type Result<T = ()> = std::result::Result<T, Malformed>;

/// The first file type reserved for operating systems and processors, which have their own rules for the rest of the
/// header.
const OWN_TYPES: u16 = 0xfe00;

/// Checks a code object.
pub(super) fn check(data: &[u8]) -> Result {
    match data.get(4) {
        Some(1) => File::<FileHeader32<Endianness>>::open(data)?.check(),
        Some(2) => File::<FileHeader64<Endianness>>::open(data)?.check(),
        _ => wrong("invalid ELF class", 4),
    }
}

/// Checks that the sections of a file can be identified by their names.
pub(crate) fn check_names(data: &[u8]) -> Result {
    match data.get(4) {
        Some(1) => File::<FileHeader32<Endianness>>::open(data)?.section_names().map(drop),
        Some(2) => File::<FileHeader64<Endianness>>::open(data)?.section_names().map(drop),
        _ => wrong("invalid ELF class", 4),
    }
}

/// An ELF file and its tables.
pub(crate) struct File<'d, Elf: FileHeader<Endian = Endianness>> {
    pub(crate) data: &'d [u8],
    pub(crate) header: &'d Elf,
    pub(crate) endian: Endianness,
    pub(crate) segments: &'d [Elf::ProgramHeader],
    pub(crate) sections: &'d [Elf::SectionHeader],
}

/// A symbol table whose bytes are all inside the file.
pub(crate) struct SymbolTable<'d, Elf: FileHeader<Endian = Endianness>> {
    pub(crate) symbols: &'d [Elf::Sym],
    pub(crate) names: &'d [u8],
    /// The offset in the file.
    pub(crate) offset: u64,
    /// Section numbers that do not fit the symbols.
    extended: Option<&'d [u8]>,
}

impl<'d, Elf: FileHeader<Endian = Endianness>> File<'d, Elf> {
    pub(crate) fn open(data: &'d [u8]) -> Result<Self> {
        let broken = |error: object::read::Error| Malformed::at(error.to_string(), 0);
        let header = Elf::parse(data).map_err(broken)?;
        let endian = header.endian().map_err(broken)?;
        let segments = header.program_headers(endian, data).map_err(broken)?;
        let sections = header.section_headers(endian, data).map_err(broken)?;
        Ok(Self { data, header, endian, segments, sections })
    }

    fn check(&self) -> Result {
        let mut work = Allowance::times(CHECKED_MAX, self.data);
        self.file_header()?;
        self.program_headers()?;
        let names = self.section_names()?;
        for index in 0..self.sections.len() {
            self.section(index, names)?;
        }
        let tables = self.symbol_tables(&mut work)?;
        let metadata = self.notes(&mut work)?;
        if self.machine() == EM_AMDGPU { amdgpu::check(self, &tables, &metadata, &mut work) } else { Ok(()) }
    }

    /// All symbol tables. Each symbol has a name in the string table, and a section that exists if it has one.
    pub(crate) fn symbol_tables(&self, work: &mut Allowance) -> Result<Vec<SymbolTable<'d, Elf>>> {
        let extended = self.extended_indices();
        let mut tables = Vec::new();
        for index in 0..self.sections.len() {
            if let Some(table) = self.symbol_table(index, &extended)? {
                self.symbols(&table, work)?;
                tables.push(table);
            }
        }
        Ok(tables)
    }

    pub(crate) fn machine(&self) -> object::elf::Machine {
        self.header.e_machine(self.endian)
    }

    fn file_header(&self) -> Result {
        let (header, endian) = (self.header, self.endian);
        let kind = header.e_type(endian);
        let size = u64::from(header.e_ehsize(endian));
        if kind == ET_NONE {
            return wrong("invalid ELF type", 16);
        }
        if self.machine() == EM_NONE && kind.0 < OWN_TYPES {
            return wrong("invalid ELF machine", 18);
        }
        // NVIDIA stores the CUDA version there, times ten.
        let version = header.e_version(endian);
        if version == 0 || (version != 1 && self.machine() != EM_CUDA) {
            return wrong(format!("ELF version {version}, which does not exist,"), 20);
        }
        if usize::try_from(size) != Ok(size_of::<Elf>()) {
            return wrong(format!("an ELF header that claims to be {size} bytes long"), 0);
        }
        Ok(())
    }

    fn program_headers(&self) -> Result {
        let (header, endian) = (self.header, self.endian);
        let offset: u64 = header.e_phoff(endian).into();
        if offset == 0 && header.e_phnum(endian) != 0 {
            return wrong(format!("an ELF header with {} program headers at no offset", header.e_phnum(endian)), 0);
        }
        for segment in self.segments {
            let (start, len) = segment.file_range(endian);
            if segment.p_type(endian) == PT_NULL || len == 0 {
                continue;
            }
            self.bytes(start, len, format_args!("a segment of type {:#x}", segment.p_type(endian).0))?;
            if segment.p_type(endian) == PT_LOAD && len > segment.p_memsz(endian).into() {
                return wrong(format!("a segment of {len} bytes that takes less in memory"), start);
            }
        }
        let is_linked = [ET_DYN, ET_EXEC].contains(&header.e_type(endian));
        let is_loaded = |section: &Elf::SectionHeader| {
            section.sh_type(endian) != SHT_NULL
                && section.sh_flags(endian).contains(SHF_ALLOC)
                && section.sh_size(endian).into() > 0
        };
        // NVIDIA's driver loads cubins by their sections.
        let needs_segments = is_linked && self.machine() != EM_CUDA;
        if needs_segments && self.segments.is_empty() && self.sections.iter().any(is_loaded) {
            return wrong("a linked ELF file without program headers", 0);
        }
        Ok(())
    }

    /// The string table with the names of all sections.
    pub(crate) fn section_names(&self) -> Result<&'d [u8]> {
        let (header, endian) = (self.header, self.endian);
        let offset: u64 = header.e_shoff(endian).into();
        let index = header.e_shstrndx(endian);
        if self.sections.is_empty() {
            if offset != 0 || header.e_shnum(endian) != 0 || index != SHN_UNDEF {
                return wrong("an ELF header whose table of sections has either no offset or no entries,", offset);
            }
            return Ok(&[]);
        }
        let mut names: &[u8] = &[];
        if index != SHN_UNDEF {
            let broken = |error: object::read::Error| Malformed::at(error.to_string(), offset);
            let number = header.shstrndx(endian, self.data).map_err(broken)?;
            names = self.strings(number, "section names", offset)?;
        }
        let beyond = self.sections.iter().skip(1).filter(|section| {
            let name = u64::from(section.sh_name(endian));
            name >= len_u64(names) && name > 0
        });
        match beyond.count() {
            0 => Ok(names),
            count => wrong(format!("section names outside of their string table, {count} in all,"), offset),
        }
    }

    /// The content of the string table in this section.
    fn strings(&self, number: u32, what: &str, offset: u64) -> Result<&'d [u8]> {
        let section = usize::try_from(number).ok().and_then(|index| self.sections.get(index));
        let Some(section) = section.filter(|section| section.sh_type(self.endian) == SHT_STRTAB) else {
            return wrong(format!("{what} in section {number}, which is not a string table,"), offset);
        };
        let (start, len) = section.file_range(self.endian).unwrap_or_default();
        let strings = self.bytes(start, len, format_args!("the string table of {what}"))?;
        match strings.last() {
            None | Some(0) => Ok(strings),
            Some(_) => wrong(format!("a string table of {what} that does not end with a zero"), start),
        }
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self, offset: u64, len: u64, what: impl Display) -> Result<&'d [u8]> {
        slice(self.data, offset, len).ok_or_else(|| Bounds::of(self.data, 0).truncated(offset, len, what))
    }

    fn section(&self, index: usize, names: &[u8]) -> Result {
        let endian = self.endian;
        let Some(section) = self.sections.get(index).filter(|section| section.sh_type(endian) != SHT_NULL) else {
            return Ok(());
        };
        let kind = section.sh_type(endian);
        let name = shown(name_of(names, section.sh_name(endian)));
        if let Some((start, len)) = section_range(self.machine(), section, endian).filter(|(_, len)| *len > 0) {
            self.bytes(start, len, format_args!("the section '{name}'"))?;
        }
        let is_linked = [SHT_SYMTAB, SHT_DYNSYM, SHT_DYNAMIC, SHT_HASH, SHT_GNU_HASH].contains(&kind)
            || [SHT_REL, SHT_RELA, SHT_GROUP, SHT_SYMTAB_SHNDX].contains(&kind);
        let link = section.sh_link(endian);
        if is_linked && usize::try_from(link).is_ok_and(|link| link >= self.sections.len()) {
            let what = format!("the section '{name}' with a link to section {link}, which does not exist,");
            return wrong(what, self.header.e_shoff(endian).into());
        }
        Ok(())
    }

    /// For each symbol table, the section with the section numbers that do not fit its symbols.
    fn extended_indices(&self) -> HashMap<u32, &'d Elf::SectionHeader> {
        let is_extension = |section: &&Elf::SectionHeader| section.sh_type(self.endian) == SHT_SYMTAB_SHNDX;
        self.sections.iter().filter(is_extension).map(|section| (section.sh_link(self.endian), section)).collect()
    }

    fn symbol_table(
        &self,
        index: usize,
        extended: &HashMap<u32, &'d Elf::SectionHeader>,
    ) -> Result<Option<SymbolTable<'d, Elf>>> {
        let endian = self.endian;
        let is_table = |section: &&Elf::SectionHeader| [SHT_SYMTAB, SHT_DYNSYM].contains(&section.sh_type(endian));
        let Some(section) = self.sections.get(index).filter(is_table) else { return Ok(None) };
        let Some((offset, len)) = section.file_range(endian).filter(|(_, len)| *len > 0) else { return Ok(None) };
        let entry: u64 = section.sh_entsize(endian).into();
        let width = size_of::<Elf::Sym>();
        if usize::try_from(entry) != Ok(width) || len.checked_rem(entry) != Some(0) {
            return wrong(format!("a symbol table of {len} bytes with symbols of {entry}"), offset);
        }
        let bytes = self.bytes(offset, len, "a symbol table")?;
        let count = bytes.len().checked_div(width).unwrap_or_default();
        let Ok((symbols, _)) = pod::slice_from_bytes::<Elf::Sym>(bytes, count) else {
            return wrong("a symbol table that cannot be read", offset);
        };
        let names = self.strings(section.sh_link(endian), "symbol names", offset)?;
        let extended = u32::try_from(index).ok().and_then(|index| extended.get(&index));
        let extended = extended.and_then(|section| section.file_range(endian));
        let extended = extended.and_then(|(start, len)| slice(self.data, start, len));
        Ok(Some(SymbolTable { symbols, names, offset, extended }))
    }

    fn symbols(&self, table: &SymbolTable<'d, Elf>, work: &mut Allowance) -> Result {
        charge(work, to_u64(size_of_val(table.symbols)), table.offset)?;
        for (number, symbol) in table.symbols.iter().enumerate() {
            let name = u64::from(symbol.st_name(self.endian));
            if name > 0 && name >= len_u64(table.names) {
                return wrong(format!("symbol {number} with a name outside of the string table,"), table.offset);
            }
            if self.section_of(table, number, symbol).is_some_and(|section| section >= self.sections.len()) {
                return wrong(format!("symbol {number} in a section that does not exist,"), table.offset);
            }
        }
        Ok(())
    }

    /// The number of the section in which a symbol is defined; none for a symbol without a section.
    pub(crate) fn section_of(&self, table: &SymbolTable<'d, Elf>, number: usize, symbol: &Elf::Sym) -> Option<usize> {
        let section = symbol.st_shndx(self.endian);
        if let Some(index) = section.index() {
            return Some(usize::from(index));
        }
        if section != SHN_XINDEX {
            return None;
        }
        let at = u64::try_from(number).ok()?.checked_mul(4)?;
        let extended = table.extended.and_then(|numbers| array(numbers, at));
        // A missing number is treated as that of a section that does not exist.
        Some(extended.map_or(usize::MAX, |bytes| usize::try_from(number_of(self.endian, bytes)).unwrap_or(usize::MAX)))
    }

    /// Reads all notes and returns those with the metadata of AMD GPUs.
    pub(crate) fn notes(&self, work: &mut Allowance) -> Result<Vec<Metadata<'d>>> {
        let endian = self.endian;
        let mut metadata = Vec::new();
        if [EM_CUDA, Machine(EM_INTELGT)].contains(&self.machine()) {
            return Ok(metadata);
        }
        let segments = self.segments.iter().filter(|segment| segment.p_type(endian) == PT_NOTE);
        let segments = segments.map(|segment| (segment.file_range(endian), segment.p_align(endian).into()));
        let sections = self.sections.iter().filter(|section| section.sh_type(endian) == SHT_NOTE);
        let sections = sections
            .map(|section| (section.file_range(endian).unwrap_or_default(), section.sh_addralign(endian).into()));
        let mut places: Vec<((u64, u64), u64)> = segments.chain(sections).collect();
        // Most notes are in both a section and a segment.
        places.sort_unstable();
        places.dedup_by_key(|(range, _)| *range);
        for ((offset, len), align) in places {
            charge(work, len, offset)?;
            let data = self.bytes(offset, len, "the notes")?;
            notes(Notes { data, offset, align: if align == 8 { 8 } else { 4 }, endian }, &mut metadata)?;
        }
        Ok(metadata)
    }
}

/// The name that starts at this offset of a string table.
pub(crate) fn name_of(names: &[u8], start: u32) -> &[u8] {
    let rest = usize::try_from(start).ok().and_then(|start| names.get(start..)).unwrap_or_default();
    memchr::memchr(0, rest).and_then(|end| rest.get(..end)).unwrap_or(rest)
}

/// Consecutive notes.
struct Notes<'d> {
    data: &'d [u8],
    offset: u64,
    align: u64,
    endian: Endianness,
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
const FORMS: [(&[u8], u32, MetadataForm); 2] =
    [(b"AMDGPU\0", 32, MetadataForm::MessagePack), (b"AMD\0", 10, MetadataForm::Yaml)];

const NOTE_HEADER: u64 = 12;

fn notes<'d>(notes: Notes<'d>, metadata: &mut Vec<Metadata<'d>>) -> Result {
    let Notes { data, offset, align, endian } = notes;
    let end = len_u64(data);
    let number = |at: u64| Some(number_of(endian, array(data, at)?));
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
        let content_at = aligned(name_at.saturating_add(name_len.into()));
        let name = slice(data, name_at, name_len.into());
        let (Some(name), Some(content)) = (name, slice(data, content_at.min(end), len.into())) else {
            return wrong("a note that reaches beyond its section", here);
        };
        let form = FORMS.iter().find(|(owner, number, _)| name == *owner && kind == *number);
        let offset = offset.saturating_add(content_at);
        metadata.extend(form.map(|(.., form)| Metadata { form: *form, content, offset }));
        at = aligned(content_at.saturating_add(len.into()));
    }
    Ok(())
}

pub(crate) fn number_of(endian: Endianness, bytes: [u8; 4]) -> u32 {
    if endian == Endianness::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
}
