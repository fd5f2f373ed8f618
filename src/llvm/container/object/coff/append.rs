//! Makes a fat object out of a COFF object, and restores the COFF object.
//!
//! New section headers must follow the existing ones, so all data after them moves by their length. Every offset is
//! adjusted: of contents, relocations, line numbers and symbols, in the section headers and in the symbols of functions
//! with line numbers. The new contents are written where the symbol table was, followed by a [`Record`], the symbols,
//! and the strings with the new names at their end. If the host has data after its strings, symbols and strings are
//! copied instead of moved.
//!
//! Names, flags, order and virtual addresses of the sections are the same as LLVM 22.1.8's.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::Cell;
use std::ops::Range;

use object::pe::{IMAGE_SCN_LNK_REMOVE, IMAGE_SCN_MEM_READ};

use super::super::record::{self, Record};
use super::super::view::{AddedSection, too_many};
use super::symbols::SymbolMoves;
use super::{BIG, Coff, SECTION_LEN, long_name};
use crate::base::bytes::{add, len_of, len_u64, to_u64, total};
use crate::base::error::Malformed;
use crate::base::io::piece::Piece;
use crate::llvm::container::Part;
use crate::llvm::container::host::coff::CoffSection;

/// The largest number of sections.
const PLAIN_MAX: u64 = 0xfeff;
const BIG_MAX: u64 = 0x7fff_ffff;

/// The bit that says in the record that the host has strings. The 32 bits below it are their length.
const HAS_STRINGS: u64 = 1 << 32;

/// The largest offset in a COFF file.
const MAX: u64 = 0xffff_ffff;

impl<'a> Coff<'a> {
    /// Plans the fat object: this object with more sections.
    pub(in crate::llvm::container::object) fn append_sections(
        &self,
        added: &[AddedSection<'a>],
    ) -> Result<Vec<Piece<'a>>, Malformed> {
        let added_count = to_u64(added.len());
        let count = self.count().saturating_add(added_count);
        let most = if self.encoding.word == BIG { BIG_MAX } else { PLAIN_MAX };
        if count > most {
            return Err(too_many("sections", count, most));
        }
        let body = self.headers_end()..self.body_end()?;
        let by = added_count.saturating_mul(SECTION_LEN);
        let shift = OffsetShift { from: body.start, end: self.view.len(), by };
        self.check_symbol_count()?;
        self.check_offsets(&shift)?;
        let mut sections: Vec<_> =
            self.sections.iter().map(|section| section.moved(|offset| shift.forward(offset))).collect();
        let names = self.new_names(added)?;
        let contents_at = body.end.saturating_add(shift.by);
        let symbols_at = add_headers(&mut sections, added, &names, contents_at).saturating_add(record::LEN);
        let strings_len = names.total;
        let needed = total([symbols_at, len_of(&self.symbols), strings_len]);
        if needed > MAX {
            return Err(too_many("bytes", needed, MAX));
        }
        let header = self.headers(symbols_at, &sections);
        let mut pieces = vec![Piece::Bytes(header)];
        pieces.extend(self.view.pieces(&body));
        pieces.extend(added.iter().map(|section| section.content.clone()));
        pieces.push(Piece::Bytes(self.own_record(added_count).to_bytes()));
        match self.move_symbols(&SymbolMoves { offset: &|offset| shift.forward(offset), number: None })? {
            Some(moved) => pieces.push(Piece::Bytes(moved.table)),
            None => pieces.extend(self.view.pieces(&self.symbols)),
        }
        pieces.push(Piece::Bytes(strings_len.to_le_bytes()[..4].to_vec()));
        pieces.extend(self.view.pieces(&self.old_strings()));
        pieces.push(Piece::Bytes(names.bytes));
        Ok(pieces)
    }

    /// The end of the data other than symbols and strings: the start of the symbols, if they are at the end of the
    /// file.
    fn body_end(&self) -> Result<u64, Malformed> {
        let len = self.view.len();
        let end = if self.strings.end == len { self.symbols.start } else { len };
        for (index, section) in self.sections.iter().enumerate() {
            let content = section.content();
            if content.start < content.end && content.end > end {
                let what = format!("the content of section {index} lies outside the file or among the symbols; it is");
                return Err(self.view.broken(what, content.start));
            }
        }
        Ok(end)
    }

    /// Checks that a symbol count comes with a table, which the fat object always has.
    fn check_symbol_count(&self) -> Result<(), Malformed> {
        let count = self.header.symbol_count;
        if count > 0 && self.header.symbols == 0 {
            return Err(self.view.broken(format!("no symbol table for the {count} symbols counted in the header"), 0));
        }
        Ok(())
    }

    /// Checks that no offset equals the new position of another one: it could not be restored.
    fn check_offsets(&self, shift: &OffsetShift) -> Result<(), Malformed> {
        let lost = Cell::new(None);
        let check = |offset| {
            if shift.back(shift.forward(offset)) != offset {
                lost.set(Some(offset));
            }
            offset
        };
        for section in &self.sections {
            section.moved(check);
        }
        self.move_symbols(&SymbolMoves { offset: &check, number: None })?;
        match lost.get() {
            None => Ok(()),
            Some(offset) => Err(self.view.broken("data recorded past the end of the file,", offset)),
        }
    }

    /// The strings without their length field.
    fn old_strings(&self) -> Range<u64> {
        self.strings.start.saturating_add(4).min(self.strings.end)..self.strings.end
    }

    /// The names of the added sections, each with its offset among all strings of the fat object.
    fn new_names(&self, added: &[AddedSection<'_>]) -> Result<AddedNames, Malformed> {
        let old = self.old_strings();
        let old_len = len_of(&old);
        let mut names = AddedNames { bytes: Vec::new(), offsets: Vec::new(), total: old_len.saturating_add(4) };
        // The last string may lack its final zero. An empty name adds one, and is the name of no section.
        if old_len > 0
            && let Some(last) = self.view.get(old.end.saturating_sub(1), 1)
            && *last != [0]
        {
            names.push(b"");
        }
        names.offsets.clear();
        for section in added {
            names.push(&section.name);
        }
        if names.total > MAX {
            return Err(too_many("bytes of names", names.total, MAX));
        }
        Ok(names)
    }

    /// The record that restores this object.
    fn own_record(&self, added: u64) -> Record {
        let mut strings = 0;
        if self.strings.start < self.strings.end
            && let Some(recorded) = self.view.get(self.strings.start, 4)
        {
            strings = self.encoding.read(&recorded) | HAS_STRINGS;
        }
        Record { host_len: self.view.len(), added, saved: [self.header.symbols, strings] }
    }

    /// Returns the record of a fat object made here, and the host object that it claims, or `None` without a record.
    pub(in crate::llvm::container::object) fn claimed_host(&self) -> Option<(Record, Vec<Part>)> {
        let record = Record::before(self.symbols.start, &self.view)?;
        let [symbols_offset, strings] = record.saved;
        let count = self.count().checked_sub(record.added)?;
        let by = record.added.checked_mul(SECTION_LEN)?;
        let from = self.headers_end().checked_sub(by)?;
        let shift = OffsetShift { from, end: record.host_len, by };
        let sections = self.sections.get(..usize::try_from(count).ok()?)?.iter();
        let sections: Vec<_> = sections.map(|section| section.moved(|offset| shift.back(offset))).collect();
        let header = self.headers(symbols_offset, &sections);
        let symbols_len = self.symbols.end.checked_sub(self.symbols.start)?;
        let has_strings = strings >= HAS_STRINGS;
        let strings = strings & u64::from(u32::MAX);
        let strings_len = if has_strings { strings.max(4) } else { 0 };
        let tail_len = symbols_len.checked_add(strings_len)?;
        // Symbols and strings are a tail of the host, unless the host has none, or has data after them.
        let is_tail = symbols_offset != 0 && symbols_offset.checked_add(tail_len)? == record.host_len;
        let body_end = if is_tail { symbols_offset } else { record.host_len };
        let mut parts = vec![Part::Bytes(header), Part::Range(from.checked_add(by)?..body_end.checked_add(by)?)];
        if is_tail {
            match self.move_symbols(&SymbolMoves { offset: &|offset| shift.back(offset), number: None }).ok()? {
                Some(moved) => parts.push(Part::Bytes(moved.table)),
                None => parts.push(Part::Range(self.symbols.clone())),
            }
            if has_strings {
                parts.push(Part::Bytes(u32::try_from(strings).ok()?.to_le_bytes().to_vec()));
                let start = self.strings.start.checked_add(4)?;
                parts.push(Part::Range(start..start.checked_add(strings_len.checked_sub(4)?)?));
            }
        }
        Some((record, parts))
    }
}

/// Adds the section headers and returns the end of the contents.
fn add_headers(
    sections: &mut Vec<CoffSection>,
    added: &[AddedSection<'_>],
    names: &AddedNames,
    contents_at: u64,
) -> u64 {
    let flags = u64::from(IMAGE_SCN_LNK_REMOVE.0 | IMAGE_SCN_MEM_READ.0);
    let mut position = contents_at;
    // LLVM gives each section the virtual address after the previous one.
    let mut address = match sections.last() {
        Some(last) => last.address.saturating_add(last.memory),
        None => 0,
    };
    for (section, &name_at) in added.iter().zip(&names.offsets) {
        let (name, size) = (long_name(name_at), section.content.len());
        let offset = if size > 0 { position } else { 0 };
        sections.push(CoffSection { name, memory: size, address, size, offset, flags, ..CoffSection::default() });
        add(&mut address, size);
        add(&mut position, size);
    }
    position
}

/// The move of the data after the headers, `from` an offset to the `end` of the file.
struct OffsetShift {
    from: u64,
    end: u64,
    by: u64,
}

impl OffsetShift {
    /// The new offset of data at an old offset.
    fn forward(&self, old: u64) -> u64 {
        if (self.from..=self.end).contains(&old) { old.saturating_add(self.by) } else { old }
    }

    /// The old offset of data at a new offset.
    fn back(&self, new: u64) -> u64 {
        match new.checked_sub(self.by) {
            Some(old) if (self.from..=self.end).contains(&old) => old,
            _ => new,
        }
    }
}

/// Names to add to the strings.
struct AddedNames {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
    /// The length of the whole string table.
    total: u64,
}

impl AddedNames {
    fn push(&mut self, name: &[u8]) {
        self.offsets.push(self.total);
        self.bytes.extend(name);
        self.bytes.push(0);
        self.total = self.total.saturating_add(len_u64(name)).saturating_add(1);
    }
}
