//! Rewrites the symbols of an ELF object whose sections get other numbers. A number that does not fit a symbol is in a
//! table of large numbers.
//!
//! A symbol in a section of the bundle is removed with it, but keeps its place, so that all others keep their
//! numbers. A local symbol is emptied, such as the section symbols written by linkers that combine objects. Any other
//! symbol becomes a weak reference, which needs no definition.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use object::elf::{
    EM_MIPS, SHN_LORESERVE, SHN_XINDEX, SHT_CREL, SHT_DYNSYM, SHT_GROUP, SHT_REL, SHT_RELA, SHT_SYMTAB,
    SHT_SYMTAB_SHNDX, STB_WEAK, SectionType,
};

use super::super::view::SectionNumbers;
use super::Elf;
use crate::base::bytes::to_u64;
use crate::base::error::Malformed;
use crate::llvm::container::host::elf::{Encoding, Relocation, Section, ShortRelocation, Symbol, Table, symbol_of};

/// The width in bytes of a number in a table of large section numbers, which has one for each symbol.
const LARGE_LEN: usize = 4;

/// A rewritten symbol table.
struct RenumberedTable {
    table: Vec<u8>,
    /// The table of large section numbers that belongs to the symbol table; empty if it has none.
    large: Vec<u8>,
    /// The indices of the symbols whose section is removed: see [`emptied_symbol`].
    emptied: HashSet<u64>,
}

impl Elf<'_> {
    /// Writes the new section numbers into all remaining symbol tables. Returns the new contents of the sections that
    /// change, by section index: symbol tables, and tables of large section numbers.
    ///
    /// # Errors
    /// A remaining relocation or group that refers to a symbol of a removed section.
    pub(super) fn renumber_symbols(
        &self,
        gone: &[bool],
        numbers: &SectionNumbers,
    ) -> Result<HashMap<usize, Vec<u8>>, Malformed> {
        let mut changed = HashMap::new();
        // The table of large section numbers of each symbol table, by the index of the symbol table. The link of such a
        // table is the index of its symbol table.
        let large_tables: HashMap<u64, usize> =
            self.sections_of_kind(SHT_SYMTAB_SHNDX).map(|(index, section)| (section.link, index)).collect();
        for (index, section) in self.sections.iter().enumerate() {
            let is_table = section.is(SHT_SYMTAB) || section.is(SHT_DYNSYM);
            if !is_table || gone.get(index) == Some(&true) {
                continue;
            }
            let table = self.content(section, format_args!("symbol table {index}"))?;
            let large_index = large_tables.get(&to_u64(index)).copied();
            let mut large = Cow::Borrowed(&[][..]);
            if let Some(large_index) = large_index
                && let Some(large_section) = self.sections.get(large_index)
            {
                large = self.content(large_section, "the table of large section numbers")?;
            }
            let RenumberedTable { table, large, emptied } = self.renumber_table(&table, &large, numbers);
            self.check_no_references(index, &emptied, gone)?;
            if numbers.has_changes || !emptied.is_empty() {
                changed.insert(index, table);
                if let Some(index) = large_index {
                    changed.insert(index, large);
                }
            }
        }
        Ok(changed)
    }

    fn sections_of_kind(&self, kind: SectionType) -> impl Iterator<Item = (usize, &Section)> {
        self.sections.iter().enumerate().filter(move |(_, section)| section.is(kind))
    }

    /// Writes the new section numbers into the symbols of a table, and replaces each symbol of a removed section: see
    /// [`emptied_symbol`]. `large` is the table's SHT_SYMTAB_SHNDX section, or empty if it has none.
    fn renumber_table(&self, table: &[u8], large: &[u8], numbers: &SectionNumbers) -> RenumberedTable {
        let mut symbols: Vec<Symbol> = Table::new(self.encoding, table).iter().collect();
        let mut large = large.to_vec();
        let mut emptied = HashSet::new();
        let mut large_words = large.chunks_exact_mut(LARGE_LEN);
        for (number, symbol) in (0_u64..).zip(&mut symbols) {
            let large_word = large_words.next();
            let is_large = symbol.section == u64::from(SHN_XINDEX.0);
            // A number that is too large for the symbol is in the table of large numbers.
            let old = match &large_word {
                Some(word) if is_large => self.encoding.read(word),
                _ => symbol.section,
            };
            // Undefined, absolute and common symbols have no section.
            let is_undefined = old == 0;
            let is_reserved = !is_large && old >= u64::from(SHN_LORESERVE);
            if is_undefined || is_reserved {
                continue;
            }
            match (numbers.get(old), large_word) {
                (Some(new), Some(word)) if is_large => self.encoding.write(new, word),
                (Some(new), _) => symbol.section = new,
                (None, word) => {
                    *symbol = emptied_symbol(*symbol);
                    if is_large && let Some(word) = word {
                        word.fill(0);
                    }
                    emptied.insert(number);
                }
            }
        }
        // Bytes after the last whole symbol stay.
        let mut renumbered = self.encoding.encode(&symbols);
        renumbered.extend(table.get(renumbered.len()..).unwrap_or_default());
        RenumberedTable { table: renumbered, large, emptied }
    }

    /// Checks that no remaining relocation or group refers to the emptied symbols of the symbol table with index
    /// `table`.
    fn check_no_references(&self, table: usize, emptied: &HashSet<u64>, gone: &[bool]) -> Result<(), Malformed> {
        if emptied.is_empty() {
            return Ok(());
        }
        let table = to_u64(table);
        let kinds = [SHT_REL, SHT_RELA, SHT_CREL, SHT_GROUP];
        for (index, section) in kinds.into_iter().flat_map(|kind| self.sections_of_kind(kind)) {
            if section.link != table || gone.get(index) == Some(&true) {
                continue;
            }
            if section.is(SHT_GROUP) {
                // The symbol in `info` is the name of the group.
                if emptied.contains(&section.info) {
                    let what = format!("section group {index} is named after a symbol of the bundle; it starts");
                    return Err(self.view.broken(what, section.offset));
                }
                continue;
            }
            let content = self.content(section, format_args!("relocation section {index}"))?;
            // Compact relocations (CREL) are not decoded, so any symbol may be in them.
            if section.is(SHT_CREL) || self.relocates_one_of(emptied, section, &content) {
                let what = format!("relocation section {index} may refer to a section of the bundle; it starts");
                return Err(self.view.broken(what, section.offset));
            }
        }
        Ok(())
    }

    /// Whether a relocation in the content of a section refers to one of these symbols.
    fn relocates_one_of(&self, symbols: &HashSet<u64>, section: &Section, content: &[u8]) -> bool {
        let encoding = self.encoding;
        // 64-bit MIPS stores the symbol before the type in both byte orders. Read as a little-endian number, the symbol
        // is the lower half, unlike in all other files.
        let is_lower_half = self.header.machine() == EM_MIPS && encoding == Encoding::LITTLE_64;
        if section.is(SHT_RELA) {
            let mut relocations = Table::new(encoding, content).iter();
            relocations.any(|entry: Relocation| symbols.contains(&symbol_in(entry.info, is_lower_half, encoding)))
        } else {
            let mut relocations = Table::new(encoding, content).iter();
            relocations.any(|entry: ShortRelocation| symbols.contains(&symbol_in(entry.info, is_lower_half, encoding)))
        }
    }
}

/// Returns the index of the symbol in the field `info` of a relocation. `is_lower_half` says that it is in the lower 32
/// bits, as in little-endian 64-bit MIPS.
fn symbol_in(info: u64, is_lower_half: bool, encoding: Encoding) -> u64 {
    if is_lower_half { info & u64::from(u32::MAX) } else { symbol_of(info, encoding) }
}

/// The record that replaces a removed symbol. An empty record is a local symbol, and ELF wants local symbols before all
/// others. So a symbol that is not local becomes an undefined weak one, which linkers need no definition for.
fn emptied_symbol(symbol: Symbol) -> Symbol {
    let binding = symbol.info >> 4;
    let is_local = binding == 0;
    if is_local {
        return Symbol::default();
    }
    Symbol { name: symbol.name, info: u64::from(STB_WEAK.0) << 4, ..Symbol::default() }
}
