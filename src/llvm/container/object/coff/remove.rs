//! Restores the host of a fat COFF object that was made or changed by another tool.
//!
//! The headers and contents of the removed sections are cut out of the file, and every offset after a cut is adjusted.
//! If remaining sections get other numbers, the symbols and associated sections that refer to them are changed too. The
//! names remain in the string table, unused.
//!
//! Rejected: a relocation that needs a symbol in a removed section, a section associated with a removed one, a removed
//! section whose content is used by something else.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashSet;
use std::ops::Range;

use super::super::view::{FoundSection, SectionNumbers, join_parts};
use super::symbols::SymbolMoves;
use super::{Coff, RELOCATION_LEN, SECTION_LEN};
use crate::base::bytes::{len_of, span, to_u64};
use crate::base::error::Malformed;
use crate::llvm::container::Part;
use crate::llvm::container::host::coff::CoffSection;
use crate::llvm::container::host::moves::OffsetMap;
use crate::llvm::container::limits::Allowance;

impl Coff<'_> {
    /// Returns the parts of this file that form the object without the sections `found`.
    pub(in crate::llvm::container::object) fn remove_sections(
        &self,
        found: &[FoundSection],
    ) -> Result<Vec<Part>, Malformed> {
        let cuts = Cuts::new(self.ranges_to_cut(found));
        let gone: HashSet<usize> = found.iter().map(|section| section.index).collect();
        self.check_cuts(found, &cuts, &gone)?;
        // Section numbers count from 1; 0 means no section.
        let is_gone = (0..self.sections.len()).map(|index| gone.contains(&index));
        let numbers = SectionNumbers::new([false].into_iter().chain(is_gone));
        let mut kept = Vec::new();
        for (_, section) in self.kept_sections(&gone) {
            kept.push(section.map_offsets(|offset| cuts.moves.moved(offset)));
        }
        // Without symbols, the header has the offset 0, and the range of the symbols is empty, at the end of the file.
        let has_symbols = self.header.symbols != 0;
        let symbols = if has_symbols { cuts.moves.moved(self.symbols.start) } else { 0 };
        let header = self.encode_headers(symbols, &kept);
        let mut parts = vec![Part::Bytes(header)];
        parts.extend(cuts.remaining(self.headers_end()..self.symbols.start).map(Part::Range));
        parts.push(self.update_symbols(&numbers, &cuts, &gone)?);
        parts.extend(cuts.remaining(self.symbols.end..self.view.len()).map(Part::Range));
        Ok(join_parts(parts))
    }

    /// The remaining sections with their indices.
    fn kept_sections(&self, gone: &HashSet<usize>) -> impl Iterator<Item = (usize, &CoffSection)> {
        self.sections.iter().enumerate().filter(|(index, _)| !gone.contains(index))
    }

    /// The ranges of the file to be removed: section headers and contents.
    fn ranges_to_cut(&self, found: &[FoundSection]) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        for section in found {
            let header_at = self.headers_at().saturating_add(to_u64(section.index).saturating_mul(SECTION_LEN));
            ranges.extend([span(header_at, SECTION_LEN), section.content.clone()]);
        }
        ranges
    }

    /// Checks that the cuts remove only data of the bundle's sections. In a broken or hostile file, their contents
    /// could be among the headers, or also belong to a remaining section.
    fn check_cuts(&self, found: &[FoundSection], cuts: &Cuts, gone: &HashSet<usize>) -> Result<(), Malformed> {
        for FoundSection { content, .. } in found {
            if content.start < content.end && content.start < self.headers_end() {
                let what = "a section of the bundle has its content among the section headers, at";
                return Err(self.view.broken(what, content.start));
            }
        }
        let used = self.kept_sections(gone).flat_map(|(_, section)| section.ranges_in_file(&self.view));
        let symbols = self.symbols.start..self.strings.end;
        for range in used.chain([symbols]) {
            if cuts.touch(&range) {
                let what = "the content of a section of the bundle is also that of something else, which is";
                return Err(self.view.broken(what, range.start));
            }
        }
        Ok(())
    }

    /// Returns the symbol table with new offsets and section numbers, or its range if it does not change. A symbol of a
    /// removed section stays without a section, so that the numbers of other symbols stay valid. `gone` has the indices
    /// of the removed sections.
    ///
    /// # Errors
    /// A remaining section or symbol that refers to a removed section.
    fn update_symbols(&self, numbers: &SectionNumbers, cuts: &Cuts, gone: &HashSet<usize>) -> Result<Part, Malformed> {
        let new_offset = |offset| cuts.moves.moved(offset);
        let new_number = |section| numbers.get(section);
        let moves = SymbolMoves { new_offset: &new_offset, new_number: Some(&new_number) };
        let Some(moved) = self.move_symbols(&moves)? else { return Ok(Part::Range(self.symbols.clone())) };
        if !moved.emptied.is_empty() {
            self.check_no_relocations(&moved.emptied, gone)?;
        }
        Ok(Part::Bytes(moved.table))
    }

    /// Checks that no relocation of a remaining section refers to these symbols.
    fn check_no_relocations(&self, emptied: &HashSet<u64>, gone: &HashSet<usize>) -> Result<(), Malformed> {
        // Sections that share relocations could otherwise make this check take a long time.
        let mut room = Allowance::new(self.view.len());
        for (index, section) in self.kept_sections(gone) {
            let [_, relocations, _] = section.ranges_in_file(&self.view);
            let len = len_of(&relocations);
            if room.take(len).is_none() {
                let what = format!("sections share relocations, those of section {index}");
                return Err(self.view.broken(what, relocations.start));
            }
            let data = self.view.read(relocations.start, len, format_args!("the relocations of section {index}"))?;
            for relocation in data.chunks_exact(RELOCATION_LEN) {
                // A relocation holds an address, the index of its symbol, and a type.
                let symbol = self.encoding.read(relocation.get(4..8).unwrap_or_default());
                if emptied.contains(&symbol) {
                    let what = format!("section {index} refers to a section of the bundle; its relocations are");
                    return Err(self.view.broken(what, relocations.start));
                }
            }
        }
        Ok(())
    }
}

/// Ranges that are cut out of a file.
struct Cuts {
    /// The ranges in file order, none of them empty, none touching the next.
    ranges: Vec<Range<u64>>,
    /// The new offsets of the data between and after the ranges.
    moves: OffsetMap,
}

impl Cuts {
    /// Drops empty ranges, sorts the others, and merges those that overlap or touch.
    fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        // A range that is cut out gets the new length 0.
        let moves = OffsetMap::new(merged.iter().map(|range| (range.clone(), 0)).collect());
        Self { ranges: merged, moves }
    }

    /// Whether any byte of a range is cut out.
    fn touch(&self, range: &Range<u64>) -> bool {
        let next_cut = self.ranges.partition_point(|cut| cut.end <= range.start);
        match self.ranges.get(next_cut) {
            Some(cut) => range.start < range.end && cut.start < range.end,
            None => false,
        }
    }

    /// The parts of a range that are not cut out.
    fn remaining(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        // The parts of the file before, between and after the cuts.
        let starts = std::iter::once(0).chain(self.ranges.iter().map(|cut| cut.end));
        let ends = self.ranges.iter().map(|cut| cut.start).chain([u64::MAX]);
        let parts = starts.zip(ends).map(move |(start, end)| start.max(range.start)..end.min(range.end));
        parts.filter(|part| part.start < part.end)
    }
}
