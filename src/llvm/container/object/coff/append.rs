//! Makes a fat object out of a COFF object, and restores the COFF object.
//!
//! New section headers must follow the existing ones, so all data after them moves by their length. Every offset is
//! adjusted: of contents, relocations, line numbers and symbols, in the section headers and in the symbols of functions
//! with line numbers. The new contents are written where the symbol table was, followed by a [`Record`], the symbols,
//! and the strings with the new names at their end. If the host has data after its strings, its own symbols and strings
//! stay where they are, unused, and the fat object has a copy of them at the end.
//!
//! Names, flags, order and virtual addresses of the sections are the same as LLVM 22.1.8's.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::Cell;
use std::ops::{Range, RangeInclusive};

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

/// The largest number of sections of a plain object, and of a big one: higher numbers are reserved.
const PLAIN_MAX: u64 = 0xfeff;
const BIG_MAX: u64 = 0x7fff_ffff;

/// The bit that says in the record that the host has strings. The 32 bits below it are their length.
const HAS_STRINGS: u64 = 1 << 32;

/// The largest offset in a COFF file.
const OFFSET_MAX: u64 = 0xffff_ffff;

impl<'a> Coff<'a> {
    /// Plans the fat object: this object with more sections.
    pub(in crate::llvm::container::object) fn append_sections(
        &self,
        added: &[AddedSection<'a>],
    ) -> Result<Vec<Piece<'a>>, Malformed> {
        let added_count = to_u64(added.len());
        let count = self.section_count().saturating_add(added_count);
        let most = if self.encoding.word == BIG { BIG_MAX } else { PLAIN_MAX };
        if count > most {
            return Err(too_many("sections", count, most));
        }
        let body = self.headers_end()..self.body_end()?;
        let distance = added_count.saturating_mul(SECTION_LEN);
        let shift = OffsetShift { moved: body.start..=self.view.len(), distance };
        self.check_symbol_count()?;
        self.check_offsets(&shift)?;
        let mut sections: Vec<_> =
            self.sections.iter().map(|section| section.map_offsets(|offset| shift.forward(offset))).collect();
        let names = self.place_names(added)?;
        let contents_at = body.end.saturating_add(distance);
        let symbols_at = add_headers(&mut sections, added, &names, contents_at).saturating_add(record::LEN);
        let strings_len = names.total;
        let needed = total([symbols_at, len_of(&self.symbols), strings_len]);
        if needed > OFFSET_MAX {
            return Err(too_many("bytes", needed, OFFSET_MAX));
        }
        let header = self.encode_headers(symbols_at, &sections);
        let mut pieces = vec![Piece::Bytes(header)];
        pieces.extend(self.view.pieces(&body));
        pieces.extend(added.iter().map(|section| section.content.clone()));
        pieces.push(Piece::Bytes(self.record_of_host(added_count).to_bytes()));
        match self.move_symbols(&SymbolMoves { new_offset: &|offset| shift.forward(offset), new_number: None })? {
            Some(moved) => pieces.push(Piece::Bytes(moved.table)),
            // No symbol changes.
            None => pieces.extend(self.view.pieces(&self.symbols)),
        }
        // The string table is its length, the strings of this object, and the new names. The length is at most
        // `OFFSET_MAX`, so it fits four bytes.
        pieces.push(Piece::Bytes(strings_len.to_le_bytes()[..4].to_vec()));
        pieces.extend(self.view.pieces(&self.old_strings()));
        pieces.push(Piece::Bytes(names.bytes));
        Ok(pieces)
    }

    /// Returns the end of the data that the fat object keeps in one piece. Symbols and strings at the end of the file
    /// do not belong to it: they go to the end of the fat object. In the middle of the file, they are copied there.
    ///
    /// # Errors
    /// A section with content after this end: outside the file, or among the symbols.
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

    /// Checks that a header that counts symbols has a table for them. The fat object gets a table in any case, so the
    /// count would become valid.
    fn check_symbol_count(&self) -> Result<(), Malformed> {
        let count = self.header.symbol_count;
        if count > 0 && self.header.symbols == 0 {
            return Err(self.view.broken(format!("no symbol table for the {count} symbols counted in the header"), 0));
        }
        Ok(())
    }

    /// Checks that every offset can be restored from its new value. An offset just past the end of the file cannot: it
    /// does not move, and is then equal to the new offset of data that does.
    fn check_offsets(&self, shift: &OffsetShift) -> Result<(), Malformed> {
        // The offsets are only visited, not changed.
        let lost = Cell::new(None);
        let check = |offset| {
            if shift.back(shift.forward(offset)) != offset {
                lost.set(Some(offset));
            }
            offset
        };
        for section in &self.sections {
            section.map_offsets(check);
        }
        self.move_symbols(&SymbolMoves { new_offset: &check, new_number: None })?;
        match lost.get() {
            None => Ok(()),
            Some(offset) => Err(self.view.broken("data recorded past the end of the file,", offset)),
        }
    }

    /// The range of the strings without their length field.
    fn old_strings(&self) -> Range<u64> {
        self.strings.start.saturating_add(4).min(self.strings.end)..self.strings.end
    }

    /// Places the names of the added sections after the strings of this object.
    fn place_names(&self, added: &[AddedSection<'_>]) -> Result<AddedNames, Malformed> {
        let old = self.old_strings();
        let old_len = len_of(&old);
        // The string table begins with its length, four bytes. Offsets in the table count them.
        let total = old_len.saturating_add(4);
        let mut names = AddedNames { bytes: Vec::new(), offsets: Vec::new(), total };
        // The last string may lack its final zero. An empty name adds one. No section has it, so its offset is dropped.
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
        if names.total > OFFSET_MAX {
            return Err(too_many("bytes of names", names.total, OFFSET_MAX));
        }
        Ok(names)
    }

    /// The record that restores this object as the host of a fat object with `added` sections.
    fn record_of_host(&self, added: u64) -> Record {
        // The length of the strings may be recorded as 0. So `HAS_STRINGS` says whether there is a length at all.
        let mut strings = 0;
        if self.strings.start < self.strings.end
            && let Some(recorded) = self.view.get(self.strings.start, 4)
        {
            strings = self.encoding.read(&recorded) | HAS_STRINGS;
        }
        Record { host_len: self.view.len(), added, saved: [self.header.symbols, strings] }
    }

    /// Undoes [`append_sections`](Self::append_sections) according to the record before the symbols. Returns the record
    /// and the parts of the host object that it claims, or `None` without a record, or if its numbers are impossible.
    pub(in crate::llvm::container::object) fn claimed_host(&self) -> Option<(Record, Vec<Part>)> {
        let record = Record::before(self.symbols.start, &self.view)?;
        let [symbols_offset, saved_strings] = record.saved;
        // The headers of the added sections are the last ones. In the host, the data after the headers begins
        // `distance` bytes earlier.
        let host_count = self.section_count().checked_sub(record.added)?;
        let distance = record.added.checked_mul(SECTION_LEN)?;
        let body_start = self.headers_end().checked_sub(distance)?;
        let shift = OffsetShift { moved: body_start..=record.host_len, distance };
        let sections = self.sections.get(..usize::try_from(host_count).ok()?)?.iter();
        let sections: Vec<_> = sections.map(|section| section.map_offsets(|offset| shift.back(offset))).collect();
        let header = self.encode_headers(symbols_offset, &sections);
        // The length field of the host's strings, without the bit above it.
        let recorded_len = if saved_strings >= HAS_STRINGS {
            Some(u32::try_from(saved_strings & u64::from(u32::MAX)).ok()?)
        } else {
            None
        };
        // The fat object has all symbols of the host, so both tables have the same length.
        let symbols_len = self.symbols.end.checked_sub(self.symbols.start)?;
        let tail_len = symbols_len.checked_add(string_table_len(recorded_len))?;
        // Symbols and strings at the end of the host were moved. Otherwise the host is in one piece, with its symbols.
        let has_tail = symbols_offset != 0 && symbols_offset.checked_add(tail_len)? == record.host_len;
        let body_end = if has_tail { symbols_offset } else { record.host_len };
        // `body_start` and `body_end` are offsets in the host. The range is that of the same data in the fat object.
        let body = body_start.checked_add(distance)?..body_end.checked_add(distance)?;
        let mut parts = vec![Part::Bytes(header), Part::Range(body)];
        if has_tail {
            parts.extend(self.claimed_tail(&shift, recorded_len)?);
        }
        Some((record, parts))
    }

    /// Restores symbols and strings at the end of the host. `recorded_len` is the host's length field of its strings,
    /// or `None` if it has none. Returns `None` if the symbols cannot be read.
    fn claimed_tail(&self, shift: &OffsetShift, recorded_len: Option<u32>) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        match self.move_symbols(&SymbolMoves { new_offset: &|offset| shift.back(offset), new_number: None }).ok()? {
            Some(moved) => parts.push(Part::Bytes(moved.table)),
            None => parts.push(Part::Range(self.symbols.clone())),
        }
        if let Some(len) = recorded_len {
            parts.push(Part::Bytes(len.to_le_bytes().to_vec()));
            // The host's strings come first in the fat object, after the length field.
            let start = self.strings.start.checked_add(4)?;
            parts.push(Part::Range(start..start.checked_add(string_table_len(recorded_len).checked_sub(4)?)?));
        }
        Some(parts)
    }
}

/// The length of a string table with this length field, or 0 without one. Less than the field's own length means that
/// the table is empty.
fn string_table_len(recorded_len: Option<u32>) -> u64 {
    match recorded_len {
        Some(len) => u64::from(len).max(4),
        None => 0,
    }
}

/// Adds the section headers of the added sections, whose contents begin at `contents_at`. Returns the end of the
/// contents.
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
        // The offset 0 says that a section has no content in the file.
        let offset = if size > 0 { position } else { 0 };
        sections.push(CoffSection { name, memory: size, address, size, offset, flags, ..CoffSection::default() });
        add(&mut address, size);
        add(&mut position, size);
    }
    position
}

/// The shift of all data after the section headers of the host, to make room for more headers.
struct OffsetShift {
    /// The offsets in the host that move: from the end of the section headers up to the end of the file, which may be
    /// the offset of an empty range.
    moved: RangeInclusive<u64>,
    /// The number of bytes by which they move.
    distance: u64,
}

impl OffsetShift {
    /// The offset in the fat object of data at an offset in the host.
    fn forward(&self, old: u64) -> u64 {
        if self.moved.contains(&old) { old.saturating_add(self.distance) } else { old }
    }

    /// The offset in the host of data at an offset in the fat object.
    fn back(&self, new: u64) -> u64 {
        match new.checked_sub(self.distance) {
            Some(old) if self.moved.contains(&old) => old,
            _ => new,
        }
    }
}

/// The names that are added to the string table.
struct AddedNames {
    /// The names, each with its final zero.
    bytes: Vec<u8>,
    /// The offset of each name in the string table.
    offsets: Vec<u64>,
    /// The length of the string table: old strings, and the names so far.
    total: u64,
}

impl AddedNames {
    /// Adds a name and its final zero to the end of the string table.
    fn push(&mut self, name: &[u8]) {
        self.offsets.push(self.total);
        self.bytes.extend(name);
        self.bytes.push(0);
        self.total = self.total.saturating_add(len_u64(name)).saturating_add(1);
    }
}
