//! Rewrites the file offsets and section numbers in the symbols of a COFF object.
//!
//! | offset | width | auxiliary record |
//! |---|---|---|
//! | 8 | 4 | of a function: offset of its line numbers in the file, 0 if it has none |
//! | 12 | 2 | of a section: number of the section that it is associated with |
//! | 16 | 2 | upper half of that number in a big object |
//!
//! A symbol in a section of the bundle is removed with it: it becomes a local absolute symbol, so that all others keep
//! their numbers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashSet;
use std::ops::Range;

use object::pe::{IMAGE_SYM_ABSOLUTE, IMAGE_SYM_CLASS_EXTERNAL, IMAGE_SYM_CLASS_STATIC};

use super::{BIG, Coff, Field, LINE_COUNT};
use crate::bytes::len_of;
use crate::error::Malformed;

const VALUE: Field = Field::new(8, 4);
const FUNCTION_LINES: Field = Field::new(8, 4);
const ASSOCIATED: Field = Field::new(12, 2);
const ASSOCIATED_HIGH: Field = Field::new(16, 2);

/// The symbol type of a function, in the second hexadecimal digit.
const FUNCTION: u64 = 2;

/// New offsets and section numbers. A section without a new number is removed.
pub(super) struct SymbolMoves<'f> {
    pub(super) offset: &'f dyn Fn(u64) -> u64,
    /// None if all sections keep their numbers.
    pub(super) number: Option<&'f dyn Fn(u64) -> Option<u64>>,
}

/// A rewritten symbol table.
pub(super) struct MovedSymbols {
    pub(super) table: Vec<u8>,
    /// The symbols of removed sections.
    pub(super) emptied: HashSet<u64>,
}

impl Coff<'_> {
    /// The symbol table with its offsets and numbers adjusted; none if nothing in it depends on them.
    pub(super) fn moved_symbols(&self, moves: &SymbolMoves<'_>) -> Result<Option<MovedSymbols>, Malformed> {
        let has_lines = self.sections.iter().any(|section| LINE_COUNT.get(section) > 0);
        if !has_lines && moves.number.is_none() {
            return Ok(None);
        }
        let mut emptied = HashSet::new();
        let change = &mut |index: u64, symbol: &mut [u8], mut more: Option<&mut [u8]>| {
            let is_function = self.layout.symbol_type.get(symbol) >> 4 & 3 == FUNCTION;
            if let Some(record) = more.as_mut().filter(|_| has_lines && is_function) {
                let offset = FUNCTION_LINES.get(record);
                FUNCTION_LINES.set(record, if offset == 0 { 0 } else { (moves.offset)(offset) });
            }
            let Some(number) = moves.number else { return Ok(()) };
            if number(self.layout.symbol_section.get(symbol)).is_none() {
                self.empty(symbol, more);
                emptied.insert(index);
                return Ok(());
            }
            let renumbered = self.renumber(symbol, more.filter(|_| !is_function), number);
            renumbered.ok_or_else(|| {
                let what = format!("symbol {index} refers to a section of the bundle; the symbol table is");
                self.view.broken(what, self.symbols.start)
            })
        };
        let table = self.edit(self.symbols.clone(), change)?;
        Ok(Some(MovedSymbols { table, emptied }))
    }

    fn empty(&self, symbol: &mut [u8], more: Option<&mut [u8]>) {
        let layout = self.layout;
        // The numbers that mean no section are negative, and as wide as the field.
        let absolute = u64::from_ne_bytes(i64::from(IMAGE_SYM_ABSOLUTE.0).to_ne_bytes());
        layout.symbol_section.set(symbol, absolute);
        layout.symbol_class.set(symbol, u64::from(IMAGE_SYM_CLASS_STATIC.0));
        layout.symbol_type.set(symbol, 0);
        VALUE.set(symbol, 0);
        more.into_iter().for_each(|record| record.fill(0));
    }

    /// Gives a symbol the new number of its section; `None` if the section is removed.
    fn renumber(&self, symbol: &mut [u8], more: Option<&mut [u8]>, number: &dyn Fn(u64) -> Option<u64>) -> Option<()> {
        let old = self.layout.symbol_section.get(symbol);
        self.layout.symbol_section.set(symbol, number(old)?);
        let class = self.layout.symbol_class.get(symbol);
        let is_section = class == u64::from(IMAGE_SYM_CLASS_STATIC.0) && old != 0;
        let Some(record) = more.filter(|_| is_section) else { return Some(()) };
        let big = self.layout.symbol_len == BIG.symbol_len;
        let high = if big { ASSOCIATED_HIGH.get(record) } else { 0 };
        let number = number(high << 16 | ASSOCIATED.get(record))?;
        ASSOCIATED.set(record, number);
        if big {
            ASSOCIATED_HIGH.set(record, number >> 16);
        }
        Some(())
    }

    /// Calls `change` for every symbol that may belong to a section, with its first auxiliary record.
    #[allow(clippy::type_complexity, reason = "a callback with one caller on each side")]
    fn edit(
        &self,
        symbols: Range<u64>,
        change: &mut dyn FnMut(u64, &mut [u8], Option<&mut [u8]>) -> Result<(), Malformed>,
    ) -> Result<Vec<u8>, Malformed> {
        let len = len_of(&symbols);
        let mut table = self.view.read(symbols.start, len, "the symbol table")?.into_owned();
        let mut records = table.chunks_exact_mut(usize::try_from(self.layout.symbol_len).unwrap_or(usize::MAX));
        let mut index = 0_u64;
        while let Some(symbol) = records.next() {
            let recorded = self.layout.symbol_more.get(symbol);
            let more = usize::try_from(recorded).unwrap_or(0);
            let first = if more > 0 { records.next() } else { None };
            let class = self.layout.symbol_class.get(symbol);
            if [IMAGE_SYM_CLASS_EXTERNAL.0, IMAGE_SYM_CLASS_STATIC.0].map(u64::from).contains(&class) {
                change(index, symbol, first)?;
            } else {
                change(index, symbol, None)?;
            }
            if more > 1 {
                records.nth(more.saturating_sub(2));
            }
            index = index.saturating_add(recorded).saturating_add(1);
        }
        Ok(table)
    }
}
