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

use super::super::view::{FoundSection, SectionNumbers, join};
use super::symbols::SymbolMoves;
use super::{Coff, RELOCATION_LEN, SECTION_LEN};
use crate::base::bytes::{len_of, span, to_u64};
use crate::base::error::Malformed;
use crate::llvm::container::Part;
use crate::llvm::container::host::moves::Moves;
use crate::llvm::container::limits::Allowance;

impl Coff<'_> {
    /// The parts of this file that form the object without the sections `found`.
    pub(in crate::llvm::container::object) fn remove(&self, found: &[FoundSection]) -> Result<Vec<Part>, Malformed> {
        let cuts = Cuts::new(self.cuts(found));
        let gone: HashSet<usize> = found.iter().map(|section| section.index).collect();
        self.check_untouched(found, &cuts, &gone)?;
        // Numbers count from 1; 0 is no section.
        let is_gone = (0..self.sections.len()).map(|index| gone.contains(&index));
        let numbers = SectionNumbers::new([false].into_iter().chain(is_gone));
        let kept = self.sections.iter().enumerate().filter(|(index, _)| !gone.contains(index));
        let kept: Vec<_> = kept.map(|(_, section)| section.moved(|offset| cuts.moves.moved(offset))).collect();
        let symbols = if self.header.symbols == 0 { 0 } else { cuts.moves.moved(self.symbols.start) };
        let header = self.headers(symbols, &kept);
        let mut parts = vec![Part::Bytes(header)];
        parts.extend(cuts.kept(self.headers_end()..self.symbols.start).map(Part::Range));
        parts.push(self.new_symbols(&numbers, &cuts, &gone)?);
        parts.extend(cuts.kept(self.symbols.end..self.view.len()).map(Part::Range));
        Ok(join(parts))
    }

    /// The removed ranges: section headers and contents.
    fn cuts(&self, found: &[FoundSection]) -> Vec<Range<u64>> {
        let headers = found.iter().map(|section| {
            let index = to_u64(section.index);
            let start = self.table().saturating_add(index.saturating_mul(SECTION_LEN));
            span(start, SECTION_LEN)
        });
        headers.chain(found.iter().map(|section| section.content.clone())).collect()
    }

    /// Checks that the cuts do not touch remaining data.
    fn check_untouched(&self, found: &[FoundSection], cuts: &Cuts, gone: &HashSet<usize>) -> Result<(), Malformed> {
        let sections = self.sections.iter().enumerate().filter(|(index, _)| !gone.contains(index));
        let used = sections.flat_map(|(_, section)| section.extents(&self.view));
        let headers = 0..self.headers_end();
        let contents = found.iter().map(|section| &section.content).filter(|content| content.start < content.end);
        if let Some(content) = contents.into_iter().find(|content| content.start < headers.end) {
            let what = "a section of the bundle has its content among the section headers, at";
            return Err(self.view.broken(what, content.start));
        }
        let symbols = self.symbols.start..self.strings.end;
        for range in used.chain([symbols]) {
            if cuts.touch(&range) {
                let what = "the content of a section of the bundle is also that of something else, which is";
                return Err(self.view.broken(what, range.start));
            }
        }
        Ok(())
    }

    fn new_symbols(&self, numbers: &SectionNumbers, cuts: &Cuts, gone: &HashSet<usize>) -> Result<Part, Malformed> {
        let new_number = |old| numbers.get(old);
        let moves = SymbolMoves { offset: &|offset| cuts.moves.moved(offset), number: Some(&new_number) };
        let Some(moved) = self.moved_symbols(&moves)? else { return Ok(Part::Range(self.symbols.clone())) };
        if !moved.emptied.is_empty() {
            self.check_unused(&moved.emptied, gone)?;
        }
        Ok(Part::Bytes(moved.table))
    }

    /// Checks that no relocation of a remaining section refers to these symbols.
    fn check_unused(&self, emptied: &HashSet<u64>, gone: &HashSet<usize>) -> Result<(), Malformed> {
        let mut room = Allowance::new(self.view.len());
        for (index, section) in self.sections.iter().enumerate().filter(|(index, _)| !gone.contains(index)) {
            let [_, relocations, _] = section.extents(&self.view);
            let len = len_of(&relocations);
            room.take(len).ok_or_else(|| {
                let what = format!("sections share relocations, those of section {index}");
                self.view.broken(what, relocations.start)
            })?;
            let data = self.view.read(relocations.start, len, format_args!("the relocations of section {index}"))?;
            let mut symbols = data
                .chunks_exact(RELOCATION_LEN)
                .map(|entry| entry.get(4..8).map_or(0, |symbol| self.encoding.read(symbol)));
            if symbols.any(|symbol| emptied.contains(&symbol)) {
                let what = format!("section {index} refers to a section of the bundle; its relocations are");
                return Err(self.view.broken(what, relocations.start));
            }
        }
        Ok(())
    }
}

/// Ranges that are cut out of a file, in order and not empty.
struct Cuts {
    ranges: Vec<Range<u64>>,
    moves: Moves,
}

impl Cuts {
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
        let moves = Moves::new(merged.iter().map(|range| (range.clone(), 0)).collect());
        Self { ranges: merged, moves }
    }

    fn touch(&self, range: &Range<u64>) -> bool {
        let next = self.ranges.partition_point(|cut| cut.end <= range.start);
        range.start < range.end && self.ranges.get(next).is_some_and(|cut| cut.start < range.end)
    }

    /// The remaining parts of a range.
    fn kept(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let starts = std::iter::once(0).chain(self.ranges.iter().map(|cut| cut.end));
        let ends = self.ranges.iter().map(|cut| cut.start).chain([u64::MAX]);
        starts.zip(ends).filter_map(move |(start, end)| {
            let kept = start.max(range.start)..end.min(range.end);
            (kept.start < kept.end).then_some(kept)
        })
    }
}
