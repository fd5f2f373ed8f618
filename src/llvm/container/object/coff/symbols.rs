//! Rewrites the file offsets and section numbers in the symbols of a COFF object.
//!
//! A symbol of a removed section becomes a local absolute symbol, which needs no section. So all other symbols keep
//! their numbers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashSet;

use object::pe::{IMAGE_SYM_ABSOLUTE, IMAGE_SYM_CLASS_EXTERNAL, IMAGE_SYM_CLASS_STATIC};

use super::Coff;
use super::records::{AuxiliaryRecord, CoffSymbol};
use crate::base::bytes::{add, len_of};
use crate::base::error::Malformed;

/// The value for a function in the second hexadecimal digit of a symbol's type.
const FUNCTION: u64 = 2;

/// The changes of the file that symbols have to follow.
pub(super) struct SymbolMoves<'f> {
    /// Returns the new offset of data at an old offset.
    pub(super) new_offset: &'f dyn Fn(u64) -> u64,
    /// Returns the new number of a section, or `None` for a removed one. The field is `None` if no section is removed
    /// and all keep their numbers.
    pub(super) new_number: Option<&'f dyn Fn(u64) -> Option<u64>>,
}

/// A rewritten symbol table.
pub(super) struct MovedSymbols {
    pub(super) table: Vec<u8>,
    /// The indices of the symbols of removed sections. They stay, as local absolute symbols, so that other indices stay
    /// valid.
    pub(super) emptied: HashSet<u64>,
}

/// The fate of a symbol.
enum SymbolChange {
    Kept,
    /// The section of the symbol is removed, and the symbol is now a local absolute one.
    Emptied,
    /// The symbol stays, but is that of a section associated with a removed one. Linkers keep or drop both together.
    LosesAssociated,
}

impl Coff<'_> {
    /// Returns the symbol table with new offsets and section numbers. Returns `None` if no symbol can change: symbols
    /// hold only offsets of line numbers, and no section has any, and no section number changes.
    pub(super) fn move_symbols(&self, moves: &SymbolMoves<'_>) -> Result<Option<MovedSymbols>, Malformed> {
        let has_lines = self.sections.iter().any(|section| section.line_count > 0);
        if !has_lines && moves.new_number.is_none() {
            return Ok(None);
        }
        let (symbols, mut emptied, mut index) = (&self.symbols, HashSet::new(), 0_u64);
        let mut table = self.view.read(symbols.start, len_of(symbols), "the symbol table")?.into_owned();
        // An auxiliary record is stored in the place of a symbol, with the same length.
        let record_len = usize::try_from(self.encoding.len_of::<CoffSymbol>()).unwrap_or(usize::MAX);
        let mut records = table.chunks_exact_mut(record_len);
        while let Some(record) = records.next() {
            let mut symbol: CoffSymbol = self.encoding.decode(record);
            // Only the first of the auxiliary records after a symbol can hold an offset or a section number.
            let auxiliary_count = usize::try_from(symbol.auxiliary_count).unwrap_or(0);
            let first_auxiliary = if auxiliary_count > 0 { records.next() } else { None };
            for _ in 1..auxiliary_count {
                records.next();
            }
            // The auxiliary records of symbols of other classes have other fields, such as the name of a source file.
            let is_of_section =
                [IMAGE_SYM_CLASS_EXTERNAL.0, IMAGE_SYM_CLASS_STATIC.0].map(u64::from).contains(&symbol.class);
            let auxiliary_record = if is_of_section { first_auxiliary } else { None };
            let mut auxiliary = auxiliary_record.as_deref().map(|record| self.encoding.decode(record));
            match moves.change_symbol(&mut symbol, &mut auxiliary, has_lines) {
                SymbolChange::Kept => {}
                SymbolChange::Emptied => {
                    emptied.insert(index);
                }
                SymbolChange::LosesAssociated => {
                    let what = format!("symbol {index} refers to a section of the bundle; the symbol table is");
                    return Err(self.view.broken(what, symbols.start));
                }
            }
            record.copy_from_slice(&self.encoding.encode(&[symbol]));
            if let (Some(record), Some(auxiliary)) = (auxiliary_record, auxiliary) {
                record.copy_from_slice(&self.encoding.encode(&[auxiliary]));
            }
            add(&mut index, symbol.auxiliary_count.saturating_add(1));
        }
        Ok(Some(MovedSymbols { table, emptied }))
    }
}

impl SymbolMoves<'_> {
    /// Changes a symbol and its first auxiliary record, and returns how the symbol has changed. `has_lines` says
    /// whether any section has line numbers. Without any, the offset of a function's line numbers stays as it is.
    fn change_symbol(
        &self,
        symbol: &mut CoffSymbol,
        auxiliary: &mut Option<AuxiliaryRecord>,
        has_lines: bool,
    ) -> SymbolChange {
        let is_function = symbol.kind >> 4 & 3 == FUNCTION;
        // The offset 0 says that a function has no line numbers.
        if has_lines
            && is_function
            && let Some(AuxiliaryRecord { lines: lines @ 1.., .. }) = auxiliary
        {
            *lines = (self.new_offset)(*lines);
        }
        let Some(new_number) = self.new_number else { return SymbolChange::Kept };
        let old = symbol.section;
        let Some(new) = new_number(old) else {
            // A local absolute symbol of value 0 needs no section. The number that means "absolute" is negative, and is
            // cut to the width of the field.
            let section = u64::from_ne_bytes(i64::from(IMAGE_SYM_ABSOLUTE.0).to_ne_bytes());
            let class = u64::from(IMAGE_SYM_CLASS_STATIC.0);
            *symbol = CoffSymbol { value: 0, section, kind: 0, class, ..*symbol };
            *auxiliary = auxiliary.map(|_| AuxiliaryRecord::default());
            return SymbolChange::Emptied;
        };
        symbol.section = new;
        // Only the auxiliary record of a symbol for a whole section holds the number of an associated section.
        let is_section = symbol.class == u64::from(IMAGE_SYM_CLASS_STATIC.0) && old != 0 && !is_function;
        if is_section && let Some(record) = auxiliary {
            let Some(number) = new_number(record.associated_high << 16 | record.associated) else {
                return SymbolChange::LosesAssociated;
            };
            // Encoding cuts both fields to 16 bits. A plain object has no upper half.
            (record.associated, record.associated_high) = (number, number >> 16);
        }
        SymbolChange::Kept
    }
}
