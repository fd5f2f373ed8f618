//! Rewrites the symbols of an ELF object whose sections get other numbers.
//!
//! | 32 bit | 64 bit | width | symbol |
//! |---|---|---|---|
//! | 12 | 4 | 1 | binding and type |
//! | 14 | 6 | 2 | number of its section, 0xffff if it is in the table of large numbers |
//!
//! A symbol in a section of the bundle is removed with it, but keeps its place, so that all others keep their numbers:
//! a local symbol is emptied, such as the section symbols written by linkers that combine objects; any other becomes a
//! weak reference, which needs no definition.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use object::elf::{
    EM_MIPS, SHN_LORESERVE, SHN_XINDEX, SHT_CREL, SHT_DYNSYM, SHT_GROUP, SHT_REL, SHT_RELA, SHT_SYMTAB,
    SHT_SYMTAB_SHNDX, STB_WEAK, SectionType,
};

use super::remove::SectionNumbers;
use super::{Elf, PartOrder, Section};
use crate::bytes::to_u64;
use crate::container::object::view::Field;
use crate::error::Malformed;

/// The fields of a symbol, and the length of its record.
struct SymbolFields {
    len: usize,
    info: Field,
    section: Field,
}

const SYMBOLS32: SymbolFields = SymbolFields { len: 16, info: Field::new(12, 1), section: Field::new(14, 2) };
const SYMBOLS64: SymbolFields = SymbolFields { len: 24, info: Field::new(4, 1), section: Field::new(6, 2) };
const LARGE_LEN: usize = 4;

/// The length of a symbol's first field, its name.
const NAME_LEN: usize = 4;

/// A rewritten symbol table.
struct Renumbered {
    table: Vec<u8>,
    /// The table of large section numbers.
    large: Vec<u8>,
    /// The symbols that were emptied.
    emptied: HashSet<u64>,
}

impl Elf<'_> {
    /// The changed contents, by section: symbol tables and tables of large section numbers.
    pub(super) fn renumbered_symbols(
        &self,
        gone: &[bool],
        numbers: &SectionNumbers,
    ) -> Result<HashMap<usize, Vec<u8>>, Malformed> {
        let mut changed = HashMap::new();
        let large_tables: HashMap<u64, usize> =
            self.of_kind(SHT_SYMTAB_SHNDX).map(|(index, section)| (section.link, index)).collect();
        for (index, section) in self.sections.iter().enumerate() {
            let is_table = section.is(SHT_SYMTAB) || section.is(SHT_DYNSYM);
            if !is_table || gone.get(index) == Some(&true) {
                continue;
            }
            let table = self.content(section, format_args!("symbol table {index}"))?;
            let large_index = u64::try_from(index).ok().and_then(|index| large_tables.get(&index).copied());
            let large = match large_index.and_then(|index| self.sections.get(index)) {
                Some(section) => self.content(section, "the table of large section numbers")?,
                None => Cow::Borrowed(&[][..]),
            };
            let Renumbered { table, large, emptied } = self.renumber(&table, &large, numbers);
            self.check_unused(index, &emptied, gone)?;
            if numbers.moved || !emptied.is_empty() {
                changed.insert(index, table);
                if let Some(index) = large_index {
                    changed.insert(index, large);
                }
            }
        }
        Ok(changed)
    }

    fn of_kind(&self, kind: SectionType) -> impl Iterator<Item = (usize, &Section)> {
        self.sections.iter().enumerate().filter(move |(_, section)| section.is(kind))
    }

    fn renumber(&self, table: &[u8], large: &[u8], numbers: &SectionNumbers) -> Renumbered {
        let fields = if self.layout.word == 4 { SYMBOLS32 } else { SYMBOLS64 };
        let (mut table, mut large) = (table.to_vec(), large.to_vec());
        let mut emptied = HashSet::new();
        let mut large_words = large.chunks_exact_mut(LARGE_LEN);
        for (number, symbol) in (0_u64..).zip(table.chunks_exact_mut(fields.len)) {
            let mut large_word = large_words.next();
            let recorded = fields.section.get(self.order, symbol);
            let is_large = recorded == u64::from(SHN_XINDEX.0);
            let old = match &large_word {
                Some(word) if is_large => self.order.read(word),
                _ => recorded,
            };
            let reserved = !is_large && recorded >= u64::from(SHN_LORESERVE);
            if old == 0 || reserved {
                continue;
            }
            match (numbers.get(old), large_word.as_mut().filter(|_| is_large)) {
                (Some(new), Some(word)) => self.order.write(new, word),
                (Some(new), None) => fields.section.set(self.order, symbol, new),
                (None, word) => {
                    self.empty(symbol, &fields);
                    word.into_iter().for_each(|word| word.fill(0));
                    emptied.insert(number);
                }
            }
        }
        Renumbered { table, large, emptied }
    }

    fn empty(&self, symbol: &mut [u8], fields: &SymbolFields) {
        // Binding and type are one number: the binding of a local symbol is 0.
        if fields.info.get(self.order, symbol) >> 4 == 0 {
            return symbol.fill(0);
        }
        symbol.iter_mut().skip(NAME_LEN).for_each(|byte| *byte = 0);
        fields.info.set(self.order, symbol, u64::from(STB_WEAK.0) << 4);
    }

    /// Checks that no remaining relocation or group refers to the emptied symbols of a table.
    fn check_unused(&self, table: usize, emptied: &HashSet<u64>, gone: &[bool]) -> Result<(), Malformed> {
        if emptied.is_empty() {
            return Ok(());
        }
        let table = to_u64(table);
        let users = [SHT_REL, SHT_RELA, SHT_CREL, SHT_GROUP].into_iter().flat_map(|kind| self.of_kind(kind));
        let stays = |index: usize| gone.get(index) != Some(&true);
        for (index, section) in users.filter(|(index, section)| section.link == table && stays(*index)) {
            if section.is(SHT_GROUP) {
                if emptied.contains(&section.info) {
                    let what = format!("section group {index} is named after a symbol of the bundle; it starts");
                    return Err(self.view.broken(what, section.offset));
                }
                continue;
            }
            let content = self.content(section, format_args!("relocation section {index}"))?;
            let used = self.relocated_symbols(section, &content).any(|symbol| emptied.contains(&symbol));
            if used || section.is(SHT_CREL) {
                let what = format!("relocation section {index} may refer to a section of the bundle; it starts");
                return Err(self.view.broken(what, section.offset));
            }
        }
        Ok(())
    }

    fn relocated_symbols(&self, section: &Section, content: &[u8]) -> impl Iterator<Item = u64> {
        let word = self.layout.word;
        let len = if section.is(SHT_RELA) { word.saturating_mul(3) } else { word.saturating_mul(2) };
        // The machine is a number of two bytes at offset 18. MIPS puts the symbol first in either byte order.
        let machine = Field::new(18, 2).get(self.order, &self.header);
        let mips = machine == u64::from(EM_MIPS.0) && word == 8 && self.order == PartOrder::Little;
        let info = Field::new(word, word);
        let order = self.order;
        let symbols: Vec<u64> = content
            .chunks_exact(len)
            .map(|relocation| match (word, info.get(order, relocation)) {
                (4, info) => info >> 8,
                (_, info) if mips => info & u64::from(u32::MAX),
                (_, info) => info >> 32,
            })
            .collect();
        symbols.into_iter()
    }
}
