//! Rewrites the file offsets and section numbers in the symbols of a COFF object.
//!
//! A symbol in a section of the bundle is removed with it: it becomes a local absolute symbol, so that all others keep
//! their numbers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashSet;

use object::pe::{IMAGE_SYM_ABSOLUTE, IMAGE_SYM_CLASS_EXTERNAL, IMAGE_SYM_CLASS_STATIC};

use super::Coff;
use super::records::{AuxiliaryRecord, CoffSymbol};
use crate::base::bytes::{add, len_of};
use crate::base::error::Malformed;

/// The symbol type of a function, in the second hexadecimal digit.
const FUNCTION: u64 = 2;

/// New offsets and section numbers. A section without a new number is removed.
pub(super) struct SymbolMoves<'f> {
    pub(super) offset: &'f dyn Fn(u64) -> u64,
    /// Gives the new number of a section; `None` if all sections keep their numbers.
    pub(super) number: Option<&'f dyn Fn(u64) -> Option<u64>>,
}

/// A rewritten symbol table.
pub(super) struct MovedSymbols {
    pub(super) table: Vec<u8>,
    /// The indices of the symbols of removed sections. They stay as empty records, so that other indices stay valid.
    pub(super) emptied: HashSet<u64>,
}

impl Coff<'_> {
    /// Adjusts offsets and section numbers in the symbol table. Returns `None` if no symbol can change: no section
    /// has line numbers, whose offsets symbols hold, and no section number changes.
    pub(super) fn move_symbols(&self, moves: &SymbolMoves<'_>) -> Result<Option<MovedSymbols>, Malformed> {
        let has_lines = self.sections.iter().any(|section| section.line_count > 0);
        if !has_lines && moves.number.is_none() {
            return Ok(None);
        }
        let (symbols, mut emptied, mut index) = (&self.symbols, HashSet::new(), 0_u64);
        let mut table = self.view.read(symbols.start, len_of(symbols), "the symbol table")?.into_owned();
        let record_len = usize::try_from(self.encoding.len_of::<CoffSymbol>()).unwrap_or(usize::MAX);
        let mut records = table.chunks_exact_mut(record_len);
        while let Some(record) = records.next() {
            let mut symbol: CoffSymbol = self.encoding.decode(record);
            // Only the first of the auxiliary records after a symbol can hold an offset or a section number.
            let more = usize::try_from(symbol.more).unwrap_or(0);
            let first = if more > 0 { records.next() } else { None };
            if more > 1 {
                records.nth(more.saturating_sub(2));
            }
            // Only symbols of these classes may belong to a section.
            let is_of_section =
                [IMAGE_SYM_CLASS_EXTERNAL.0, IMAGE_SYM_CLASS_STATIC.0].map(u64::from).contains(&symbol.class);
            let first = if is_of_section { first } else { None };
            let mut auxiliary = first.as_deref().map(|record| self.encoding.decode(record));
            let Some(is_removed) = moves.change_symbol(&mut symbol, &mut auxiliary, has_lines) else {
                let what = format!("symbol {index} refers to a section of the bundle; the symbol table is");
                return Err(self.view.broken(what, symbols.start));
            };
            if is_removed {
                emptied.insert(index);
            }
            record.copy_from_slice(&self.encoding.encode(&[symbol]));
            if let (Some(record), Some(auxiliary)) = (first, auxiliary) {
                record.copy_from_slice(&self.encoding.encode(&[auxiliary]));
            }
            add(&mut index, symbol.more.saturating_add(1));
        }
        Ok(Some(MovedSymbols { table, emptied }))
    }
}

impl SymbolMoves<'_> {
    /// Changes a symbol and its first auxiliary record. Returns whether it is removed with its section, or `None` if
    /// the section that it is associated with is removed.
    fn change_symbol(
        &self,
        symbol: &mut CoffSymbol,
        auxiliary: &mut Option<AuxiliaryRecord>,
        has_lines: bool,
    ) -> Option<bool> {
        let is_function = symbol.kind >> 4 & 3 == FUNCTION;
        if has_lines
            && is_function
            && let Some(AuxiliaryRecord { lines: lines @ 1.., .. }) = auxiliary
        {
            *lines = (self.offset)(*lines);
        }
        let Some(number) = self.number else { return Some(false) };
        let old = symbol.section;
        let Some(new) = number(old) else {
            // The numbers that mean no section are negative, and as wide as the field.
            let section = u64::from_ne_bytes(i64::from(IMAGE_SYM_ABSOLUTE.0).to_ne_bytes());
            let class = u64::from(IMAGE_SYM_CLASS_STATIC.0);
            *symbol = CoffSymbol { value: 0, section, kind: 0, class, ..*symbol };
            *auxiliary = auxiliary.map(|_| AuxiliaryRecord::default());
            return Some(true);
        };
        symbol.section = new;
        let is_section = symbol.class == u64::from(IMAGE_SYM_CLASS_STATIC.0) && old != 0 && !is_function;
        if is_section && let Some(record) = auxiliary {
            let number = number(record.associated_high << 16 | record.associated)?;
            (record.associated, record.associated_high) = (number, number >> 16);
        }
        Some(false)
    }
}
