//! The tables of ELF code objects: names of sections, symbols, and notes.
//!
//! The returned tables are valid: names begin in their string table, which ends with a zero; symbols are whole, and in
//! sections that exist; notes fill their section. Notes of NVIDIA and Intel GPUs are not read.

use std::collections::HashMap;
use std::fmt::Display;

use object::elf::{
    EM_AMDGPU, EM_CUDA, PT_NOTE, SHN_LORESERVE, SHN_XINDEX, SHT_DYNSYM, SHT_NOTE, SHT_STRTAB, SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
};

use crate::base::bytes::{Bounds, add, is_zero, len_u64, slice, tail, to_u64};
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::{EM_INTELGT, Encoding, File, Header, Section, Symbol, Table};
use crate::llvm::container::limits::Allowance;

type Result<T = ()> = std::result::Result<T, Malformed>;

/// Checks that the sections of a file can be identified by their names.
pub(crate) fn check_names(data: &[u8]) -> Result {
    File::read(data)?.section_names()?;
    Ok(())
}

/// A symbol table whose bytes are all inside the file.
pub(super) struct SymbolTable<'d> {
    pub(super) symbols: Table<'d, Symbol>,
    /// The string table with the names of the symbols.
    pub(super) names: &'d [u8],
    /// The offset of the symbol table in the file.
    pub(super) offset: u64,
    /// The section `SHT_SYMTAB_SHNDX` of the table, if there is one: for each symbol, 4 bytes with the section index,
    /// for indices that do not fit in the symbol.
    extended: Option<&'d [u8]>,
}

impl<'d> File<'d> {
    /// Reads and checks all symbol tables that have symbols: names begin in the string table, and sections exist.
    /// `work` limits the bytes that are read.
    pub(super) fn symbol_tables(&self, work: &mut Allowance) -> Result<Vec<SymbolTable<'d>>> {
        // The sections with extended section indices, by the index of their symbol table.
        let mut extended = HashMap::new();
        for section in self.sections.iter() {
            if section.is(SHT_SYMTAB_SHNDX) {
                extended.insert(section.link, section);
            }
        }
        let mut tables = Vec::new();
        for (index, section) in (0..).zip(self.sections.iter()) {
            if section.is_any(&[SHT_SYMTAB, SHT_DYNSYM]) && section.size > 0 {
                let table = self.read_symbol_table(&section, extended.get(&index))?;
                self.check_symbols(&table, work)?;
                tables.push(table);
            }
        }
        Ok(tables)
    }

    /// Returns the string table with the names of all sections, and checks that all names begin in it. Returns no bytes
    /// if the file has no sections or no names.
    pub(super) fn section_names(&self) -> Result<&'d [u8]> {
        let Header { sections_at, section_count, names: recorded_index, .. } = self.header;
        if self.sections.is_empty() {
            let claims_sections = sections_at != 0 || section_count != 0 || recorded_index != 0;
            if claims_sections {
                let what = "an ELF header whose table of sections has either no offset or no entries,";
                return fail_at(what, sections_at);
            }
            return Ok(&[]);
        }
        let mut names: &[u8] = &[];
        if recorded_index != 0 {
            // In files with very many sections, the field of the header is too small for the index. `names_index` is
            // the whole index.
            let names_index = self.names_index.map_err(|error| Malformed::at(error.to_string(), sections_at))?;
            names = self.strings(names_index.into(), "section names", sections_at)?;
        }
        let mut misplaced_count = 0_u64;
        // Section 0 is reserved, and has no name.
        for section in self.sections.iter().skip(1) {
            if section.name > 0 && section.name >= len_u64(names) {
                add(&mut misplaced_count, 1);
            }
        }
        if misplaced_count > 0 {
            return fail_at(
                format!("section names outside of their string table, {misplaced_count} in all,"),
                sections_at,
            );
        }
        Ok(names)
    }

    /// Returns the string table in a section. For errors, `names` says what the strings name, and `offset` is that of
    /// the table that refers to the section.
    fn strings(&self, section_index: u64, names: &str, offset: u64) -> Result<&'d [u8]> {
        let section = match usize::try_from(section_index).ok().and_then(|index| self.sections.get(index)) {
            Some(section) if section.is(SHT_STRTAB) => section,
            _ => return fail_at(format!("{names} in section {section_index}, which is not a string table,"), offset),
        };
        let strings = self.bytes(section.offset, section.size, format_args!("the string table of {names}"))?;
        match strings.last() {
            None | Some(0) => Ok(strings),
            Some(_) => fail_at(format!("a string table of {names} that does not end with a zero"), section.offset),
        }
    }

    /// Returns `len` bytes of the file from `offset`. `what` is their name in errors.
    pub(super) fn bytes(&self, offset: u64, len: u64, what: impl Display) -> Result<&'d [u8]> {
        slice(self.data, offset, len).ok_or_else(|| Bounds::of(self.data, 0).truncated(offset, len, what))
    }

    /// Reads the symbol table in a section. `extended` is the section with its extended section indices.
    fn read_symbol_table(&self, section: &Section, extended: Option<&Section>) -> Result<SymbolTable<'d>> {
        let Section { offset, size, entry_len, .. } = *section;
        if entry_len != self.encoding.len_of::<Symbol>() || size.checked_rem(entry_len) != Some(0) {
            return fail_at(format!("a symbol table of {size} bytes with symbols of {entry_len}"), offset);
        }
        let symbols = Table::new(self.encoding, self.bytes(offset, size, "a symbol table")?);
        let names = self.strings(section.link, "symbol names", offset)?;
        let extended = match extended {
            Some(section) => slice(self.data, section.offset, section.size),
            None => None,
        };
        Ok(SymbolTable { symbols, names, offset, extended })
    }

    /// Checks that the symbols of a table have names in its string table, and sections that exist.
    fn check_symbols(&self, table: &SymbolTable<'d>, work: &mut Allowance) -> Result {
        charge(work, len_u64(table.symbols.bytes), table.offset)?;
        let section_count = self.sections.len();
        for (number, symbol) in table.symbols.iter().enumerate() {
            if symbol.name > 0 && symbol.name >= len_u64(table.names) {
                return fail_at(format!("symbol {number} with a name outside of the string table,"), table.offset);
            }
            if self.section_of(table, number, &symbol).is_some_and(|section| section >= section_count) {
                return fail_at(format!("symbol {number} in a section that does not exist,"), table.offset);
            }
        }
        Ok(())
    }

    /// Returns the index of the section that defines a symbol, which has the index `index` in its table. Returns `None`
    /// for a symbol without a section, such as an undefined one.
    pub(super) fn section_of(&self, table: &SymbolTable<'d>, index: usize, symbol: &Symbol) -> Option<usize> {
        if symbol.section != u64::from(SHN_XINDEX.0) {
            let is_section = (1..SHN_LORESERVE.into()).contains(&symbol.section);
            return if is_section { usize::try_from(symbol.section).ok() } else { None };
        }
        // `SHN_XINDEX` says that the section index does not fit in the symbol. The extended table has it, in 4 bytes.
        let index_at = to_u64(index).checked_mul(4)?;
        let Some(index_bytes) = table.extended.and_then(|indices| slice(indices, index_at, 4)) else {
            // A missing index is treated as the index of a section that does not exist, which is a fault.
            return Some(usize::MAX);
        };
        Some(usize::try_from(self.encoding.read(index_bytes)).unwrap_or(usize::MAX))
    }

    /// Reads and checks all notes, and returns the notes with the metadata of AMD GPUs. Returns no notes for files for
    /// NVIDIA and Intel GPUs, whose notes are not read.
    pub(super) fn metadata_notes(&self, work: &mut Allowance) -> Result<Vec<MetadataNote<'d>>> {
        let mut metadata = Vec::new();
        let machine = self.header.machine();
        if [EM_CUDA, EM_INTELGT].contains(&machine) {
            return Ok(metadata);
        }
        let mut note_ranges = Vec::new();
        for segment in self.segments.iter() {
            if segment.is(PT_NOTE) {
                note_ranges.push((segment.offset, segment.size, segment.alignment));
            }
        }
        for section in self.sections.iter() {
            if section.is(SHT_NOTE) {
                note_ranges.push((section.offset, section.size, section.alignment));
            }
        }
        // Most notes are in both a section and a segment. They are read once, with the lower alignment.
        note_ranges.sort_unstable();
        note_ranges.dedup_by_key(|(offset, len, _)| (*offset, *len));
        for (offset, len, align) in note_ranges {
            charge(work, len, offset)?;
            let data = self.bytes(offset, len, "the notes")?;
            // Files for AMD GPUs align notes to 4 even in sections that are aligned to 8: HSAIL's finalizer, which is
            // in ROCm's runtime, wrote such sections.
            let align = if align == 8 && machine != EM_AMDGPU { 8 } else { 4 };
            Notes { data, offset, align, encoding: self.encoding }.read(&mut metadata)?;
        }
        Ok(metadata)
    }
}

/// Charges bytes that a table at `offset` uses. Hostile tables may all use the same bytes, so the sum of the bytes is
/// limited.
pub(super) fn charge(work: &mut Allowance, bytes: u64, offset: u64) -> Result {
    const TABLES_OVERLAP: &str = "tables that share their bytes, together many times the size of the file";
    match work.take(bytes) {
        Some(()) => Ok(()),
        None => fail_at(TABLES_OVERLAP, offset),
    }
}

/// The notes of a section or segment, one after another.
struct Notes<'d> {
    data: &'d [u8],
    /// The offset of `data` in the file.
    offset: u64,
    /// The alignment of contents and of notes, counted from the start of `data`.
    align: u64,
    encoding: Encoding,
}

/// A note with the metadata of an AMD GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetadataNote<'d> {
    pub(super) form: MetadataForm,
    pub(super) content: &'d [u8],
    /// The offset of the content in the file.
    pub(super) offset: u64,
}

/// The form of the metadata in a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetadataForm {
    /// MessagePack, in code object versions 3 and up.
    MessagePack,
    /// YAML, in version 2.
    Yaml,
}

/// The names and types of the notes with metadata of AMD GPUs.
const FORMS: [(&[u8], u64, MetadataForm); 2] =
    [(b"AMDGPU\0", 32, MetadataForm::MessagePack), (b"AMD\0", 10, MetadataForm::Yaml)];

/// The length of a note's header: the lengths of name and content, and the type, 4 bytes each.
const NOTE_HEADER: u64 = 12;

impl<'d> Notes<'d> {
    /// Reads all notes, and adds the notes with metadata of AMD GPUs to a list. The notes must fill the data, except
    /// for padding.
    fn read(&self, metadata: &mut Vec<MetadataNote<'d>>) -> Result {
        let end = len_u64(self.data);
        let mut note_at = 0_u64;
        while note_at < end {
            let file_offset = self.offset.saturating_add(note_at);
            let (Some(name_len), Some(len), Some(kind)) =
                (self.number(note_at, 0), self.number(note_at, 4), self.number(note_at, 8))
            else {
                // Less than a header is left: that has to be padding.
                let is_padding = is_zero(tail(self.data, note_at).unwrap_or_default());
                return if is_padding { Ok(()) } else { fail_at("a note that is cut off", file_offset) };
            };
            let name_at = note_at.saturating_add(NOTE_HEADER);
            let content_at = self.aligned(name_at.saturating_add(name_len));
            let name = slice(self.data, name_at, name_len);
            // The padding after the last name may be missing. Then an empty content seems to begin after the end.
            let (Some(name), Some(content)) = (name, slice(self.data, content_at.min(end), len)) else {
                return fail_at("a note that reaches beyond its section", file_offset);
            };
            for (owner, note_type, form) in FORMS {
                if name == owner && kind == note_type {
                    metadata.push(MetadataNote { form, content, offset: self.offset.saturating_add(content_at) });
                }
            }
            note_at = self.aligned(content_at.saturating_add(len));
        }
        Ok(())
    }

    /// Returns the 4-byte number at `offset` in the note that begins at `note`, or `None` if the data is too short.
    fn number(&self, note: u64, offset: u64) -> Option<u64> {
        let bytes = slice(self.data, note.saturating_add(offset), 4)?;
        Some(self.encoding.read(bytes))
    }

    fn aligned(&self, at: u64) -> u64 {
        at.checked_next_multiple_of(self.align).unwrap_or(u64::MAX)
    }
}
