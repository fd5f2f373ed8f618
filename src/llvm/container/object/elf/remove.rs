//! Restores the host of a fat ELF object that was made or changed by another tool.
//!
//! The part of the file that program headers describe is not moved. The contents of the remaining sections follow in
//! the order of their offsets, at least as aligned as they were, then the section headers. Relocations of a removed
//! section are removed too, and so is a group that holds nothing else. If remaining sections get other numbers,
//! everything that refers to them by number is adjusted: links, symbols and their table of large section numbers,
//! groups.
//!
//! Rejected: a section that links to a removed one, a relocation or group that needs a symbol in a removed one,
//! sections that share bytes.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use object::elf::{PN_XNUM, SHF_INFO_LINK, SHT_GROUP, SHT_REL, SHT_RELA};

use super::super::view::{FoundSection, SectionNumbers, join_parts};
use super::{Elf, align, content_of};
use crate::base::bytes::{len_of, len_u64, span, to_u64, total};
use crate::base::error::Malformed;
use crate::llvm::container::Part;
use crate::llvm::container::host::elf::{Header, Section, Segment};

/// The width in bytes of a group's words: its flags and the numbers of its sections.
const GROUP_WORD: usize = 4;

/// A remaining section.
struct KeptSection {
    section: Section,
    /// The new content, or `None` if the content does not change.
    content: Option<Vec<u8>>,
}

impl Elf<'_> {
    /// Returns the parts of this file that form the object without the sections `found`.
    pub(in crate::llvm::container::object) fn remove_sections(
        &self,
        found: &[FoundSection],
    ) -> Result<Vec<Part>, Malformed> {
        // Each section is placed on its own, so sections that share bytes could make the object much larger than the
        // file.
        let total = total(self.sections.iter().map(Section::stored));
        if total > self.view.len() {
            let what = format!("the sections have {total} bytes, more than the file; the section headers are");
            return Err(self.view.broken(what, self.header.sections_at));
        }
        let gone = self.mark_gone(found)?;
        let numbers = SectionNumbers::new(gone.iter().copied());
        // If the section with the names is removed, the number 0 says that there is none.
        let names_index = numbers.get(to_u64(self.names_index)).unwrap_or(0);
        let names_index = usize::try_from(names_index).unwrap_or(0);
        let mut new_contents = self.renumber_symbols(&gone, &numbers)?;
        let mut kept = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            if gone.get(index) == Some(&true) {
                continue;
            }
            let mut section = self.renumber_references(index, section, &numbers)?;
            let content = if section.is(SHT_GROUP) {
                self.renumber_group(index, &section, &numbers)?
            } else {
                // Only symbol tables, and tables of large section numbers, have a new content here.
                new_contents.remove(&index)
            };
            if let Some(content) = &content {
                section.size = len_u64(content);
            }
            kept.push(KeptSection { section, content });
        }
        let (mut parts, end) = self.place_sections(&mut kept)?;
        let headers_at = align(end, self.word());
        let sections = kept.into_iter().map(|kept| kept.section).collect();
        let (header, headers) = self.encode_headers(sections, headers_at, names_index);
        parts.insert(0, Part::Bytes(header));
        parts.push(Part::Bytes(vec![0; usize::try_from(headers_at.saturating_sub(end)).unwrap_or(0)]));
        parts.push(Part::Bytes(headers));
        Ok(join_parts(parts))
    }

    /// Marks the sections to remove: sections of the bundle, their relocations, and groups that become empty.
    fn mark_gone(&self, found: &[FoundSection]) -> Result<Vec<bool>, Malformed> {
        let mut gone = vec![false; self.sections.len()];
        for section in found {
            if let Some(is_gone) = gone.get_mut(section.index) {
                *is_gone = true;
            }
        }
        // Relocations refer to the section that they change in `info`.
        let targets = gone.clone();
        for (is_gone, section) in gone.iter_mut().zip(&self.sections) {
            let is_relocation = section.is(SHT_REL) || section.is(SHT_RELA);
            *is_gone |= is_relocation && is_marked(&targets, section.info);
        }
        for (index, group) in self.sections.iter().enumerate() {
            if !group.is(SHT_GROUP) {
                continue;
            }
            let content = self.content(group, format_args!("section group {index}"))?;
            let mut members = content.chunks(GROUP_WORD).skip(1).map(|word| self.encoding.read(word));
            // A group that was already empty does not belong to the bundle.
            let is_empty = content.len() <= GROUP_WORD;
            if !is_empty
                && members.all(|member| is_marked(&gone, member))
                && let Some(is_gone) = gone.get_mut(index)
            {
                *is_gone = true;
            }
        }
        Ok(gone)
    }

    /// Returns the section header with the new numbers of the sections that it refers to. `index` is the old number of
    /// the section.
    ///
    /// # Errors
    /// A reference to a removed section.
    fn renumber_references(
        &self,
        index: usize,
        section: &Section,
        numbers: &SectionNumbers,
    ) -> Result<Section, Malformed> {
        let mut section = *section;
        if index == 0 {
            // Section 0 is a placeholder. Its fields may hold large numbers of the file header.
            return Ok(section);
        }
        let Some(link) = numbers.get(section.link) else { return Err(self.lost_reference(index, &section, "link")) };
        section.link = link;
        // In all other sections, `info` is not a section number.
        let is_relocation = section.is(SHT_REL) || section.is(SHT_RELA);
        if is_relocation || section.flags & SHF_INFO_LINK.0 != 0 {
            let Some(info) = numbers.get(section.info) else {
                return Err(self.lost_reference(index, &section, "info"));
            };
            section.info = info;
        }
        Ok(section)
    }

    /// The fault of a section that refers to a removed one.
    fn lost_reference(&self, index: usize, section: &Section, field: &str) -> Malformed {
        let what = format!("section {index} names a section of the bundle as its {field}; its content is");
        self.view.broken(what, section.offset)
    }

    /// Returns the content of a group with new section numbers and without removed sections, or `None` if nothing
    /// changes.
    fn renumber_group(
        &self,
        index: usize,
        group: &Section,
        numbers: &SectionNumbers,
    ) -> Result<Option<Vec<u8>>, Malformed> {
        let content = self.content(group, format_args!("section group {index}"))?;
        let mut renumbered = Vec::with_capacity(content.len());
        for (position, word) in content.chunks(GROUP_WORD).enumerate() {
            let old = self.encoding.read(word);
            // The first word holds the flags of the group.
            let new = if position == 0 { Some(old) } else { numbers.get(old) };
            if let Some(new) = new {
                let mut word = word.to_vec();
                self.encoding.write(new, &mut word);
                renumbered.extend(word);
            }
        }
        if renumbered == *content { Ok(None) } else { Ok(Some(renumbered)) }
    }

    /// Assigns every section its new offset, in the order of the old ones. Returns the parts of the new file after the
    /// file header, and their end.
    ///
    /// Sections that begin in the part that cannot move stay, and extend this part to their end. The others move
    /// towards the start of the file.
    fn place_sections(&self, sections: &mut [KeptSection]) -> Result<(Vec<Part>, u64), Malformed> {
        // Section 0 is a placeholder without content.
        let mut in_order: Vec<&mut KeptSection> = sections.iter_mut().skip(1).collect();
        in_order.sort_by_key(|kept| kept.section.offset);
        let mut fixed_end = self.fixed_end()?;
        let mut moving = Vec::with_capacity(in_order.len());
        for kept in in_order {
            let content = content_of(&kept.section);
            // A section without content stays if it is in the part that cannot move, or at its end.
            if len_of(&content) == 0 && content.start <= fixed_end {
                continue;
            }
            if content.start >= fixed_end {
                moving.push(kept);
            } else if kept.content.is_some() {
                let what = "a section that would have to change is part of a segment; its content is";
                return Err(self.view.broken(what, content.start));
            } else {
                fixed_end = fixed_end.max(content.end);
            }
        }
        // Only checks that this part is inside the file.
        self.view.read(0, fixed_end, "the part of the file that segments describe")?;
        let mut parts = vec![Part::Range(self.header_len()..fixed_end)];
        let mut position = fixed_end;
        for kept in moving {
            self.move_section(kept, &mut position, &mut parts)?;
        }
        Ok((parts, position))
    }

    /// Moves a section to `position`, or to the next offset that its alignment allows. Adds zeros up to that offset and
    /// the content to `parts`, and sets `position` to the end of the content.
    ///
    /// # Errors
    /// A content outside the file, and a section that would move away from the start of the file: sections only move
    /// that way if they overlap.
    fn move_section(&self, kept: &mut KeptSection, position: &mut u64, parts: &mut Vec<Part>) -> Result<(), Malformed> {
        let section = &mut kept.section;
        let source = content_of(section);
        // A recorded alignment that the old offset does not have is not needed.
        let is_aligned = section.offset.checked_rem(section.alignment.max(1)) == Some(0);
        let start = if is_aligned { align(*position, section.alignment) } else { *position };
        let is_empty = len_of(&source) == 0;
        // The offset of a section without content may be anything. If it is out of order or outside the file, any valid
        // offset will do.
        if is_empty && (start > section.offset || section.offset > self.view.len()) {
            section.offset = *position;
            return Ok(());
        }
        self.view.read(source.start, len_of(&source), "the content of a section")?;
        if start > section.offset {
            return Err(self.view.broken("a section shares bytes with another; its content is", source.start));
        }
        section.offset = start;
        parts.push(Part::Bytes(vec![0; usize::try_from(start.saturating_sub(*position)).unwrap_or(0)]));
        *position = start.saturating_add(len_of(&source));
        if !is_empty {
            match kept.content.take() {
                Some(content) => parts.push(Part::Bytes(content)),
                None => parts.push(Part::Range(source)),
            }
        }
        Ok(())
    }

    /// Returns the end of the part of the file that cannot move: the file header, the program headers, and the
    /// segments, whose offsets the program headers record.
    fn fixed_end(&self) -> Result<u64, Malformed> {
        let Header { segments_at, segment_len, segment_count, .. } = self.header;
        // A count that does not fit the file header is in the first section header.
        let is_extended = segment_count == u64::from(PN_XNUM);
        let count = match self.sections.first() {
            Some(first) if is_extended => first.info,
            None if is_extended => 0,
            _ => segment_count,
        };
        if segments_at == 0 || count == 0 || segment_len == 0 {
            return Ok(self.header_len());
        }
        let len = count.saturating_mul(segment_len);
        let headers = self.view.read(segments_at, len, format_args!("the table of {count} program headers"))?;
        let mut end = self.header_len().max(span(segments_at, len).end);
        for header in headers.chunks(usize::try_from(segment_len).unwrap_or(usize::MAX)) {
            let segment: Segment = self.encoding.decode(header);
            end = end.max(span(segment.offset, segment.size).end);
        }
        Ok(end)
    }
}

/// Whether the section with a number is marked. A number without a section is not.
fn is_marked(marked: &[bool], number: u64) -> bool {
    match usize::try_from(number) {
        Ok(index) => marked.get(index) == Some(&true),
        Err(_) => false,
    }
}
