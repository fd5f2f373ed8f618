//! Gaps of ELF libraries: bytes that nothing uses any more, because the device code there became smaller.
//!
//! [`close`] takes whole pages of them out of the file and changes no address:
//!
//! - The segment around a gap is split. The part before it has fewer bytes in the file than in memory, and the part
//!   after it has a program header of its own. What follows moves by multiples of the alignment that the segments there
//!   need, which may be less than linkers gave them.
//! - The section is split too. Its parts are new sections of its name, at the end of the table. The old one becomes a
//!   section without contents, at an address behind all segments: GNU's `strip` takes one without an address for a part
//!   of every note. If it holds fatbins, it has the range of all parts in the file, because NVIDIA's cuobjdump reads
//!   just the first section of a name, whatever its type is. `eu-elflint` reports that. Otherwise it is empty.
//! - The new program headers stand before all else, with a new file header, and are loaded at the first address of the
//!   first gap. All else keeps its address, also the old headers. GNU's `strip` writes program headers directly after
//!   the file header, wherever they were, and here there is room for them.
//! - The new section headers stand after all else, and the old ones stay: patchelf 0.19 puts them into a segment. The
//!   number of zeros before the new ones, which are aligned, is that of zeros after them.
//!
//! [`open`] undoes this, since all old headers are still there. It undoes only what [`close`] would make again.
//!
//! Programs stay as they are. Their headers would have to be where Linux before 5.18 finds them, which is not where
//! `strip` and `objcopy` put them.
//!
//! Only little-endian ELF files of 64 bits are changed, which all hosts of GPUs are, and only gaps that lie in one
//! segment and one section alone. System V ABI, chapters 4 and 5, has the fields.

use std::collections::HashSet;
use std::ops::Range;

use object::elf::{
    DF_1_PIE, DT_DEBUG, DT_FLAGS_1, EM_RISCV, EM_S390, EM_X86_64, ET_DYN, ET_EXEC, ET_REL, PF_R, PF_X, PT_DYNAMIC,
    PT_INTERP, PT_LOAD, PT_PHDR, SHF_ALLOC, SHF_EXECINSTR, SHN_LORESERVE, SHT_DYNSYM, SHT_NOBITS, SHT_PROGBITS,
    SHT_SYMTAB,
};

use super::{Closing, HoleReason, Rewritten, change, in_order};
use crate::base::bytes::{is_zero, len_of, len_u64, part, slice, span, tail, to_u64, total};
use crate::base::io::piece::{Change, Piece};
use crate::beyond::container::fatbin;
use crate::llvm::container::host::elf::{Encoding, File, Header, Record, Section, Segment, Symbol, Table};
use crate::llvm::container::host::moves::Moves;

const ENCODING: Encoding = Encoding::LITTLE_64;
const HEADER_LEN: u64 = 64;
const SEGMENT_LEN: u64 = 56;
const SECTION_LEN: u64 = 64;
const SYMBOL_LEN: usize = 24;
/// The length of an entry of the dynamic section: a tag and a value.
const DYNAMIC_LEN: usize = 16;

/// The largest table of program headers that Linux reads, in bytes.
const TABLE_MAX: u64 = (64 << 10) - HEADER_LEN - SEGMENT_LEN;

/// The largest number of gaps for which it has room.
const CUTS_MAX: usize = 1100;

/// The largest number of sections that they add: what stands before, in, and after each.
const PARTS_MAX: usize = 3 * CUTS_MAX;

/// The alignment of the section headers, in bytes.
const TABLE_ALIGNMENT: u64 = 8;

/// The largest file that [`open`] makes, in bytes: longer than any that [`close`] was given, short enough for file
/// systems.
const OPENED_MAX: u64 = 1 << 40;

/// The smallest page of the hosts of GPUs, in bytes.
const PAGE_MIN: u64 = 4 << 10;

/// The largest, in bytes.
const PAGE_MAX: u64 = 64 << 10;

/// The largest number of segments that are aligned to more than pages and of which it is found out whether they need
/// that.
const ALIGNED_MAX: usize = 32;

/// The largest number of symbols in sections that are split.
const SYMBOLS_MAX: usize = 1 << 16;

/// The offset of `section` in a symbol.
const SYMBOL_SECTION: u64 = 6;

/// Ensures that [`close`] can take bytes out of files like this, if the gaps allow it.
pub(crate) fn ensure_can_close(data: &[u8]) -> Result<(), HoleReason> {
    let library = ElfLibrary::read(data)?;
    if library.is_program() {
        return Err(HoleReason::Program);
    }
    // Data after all that the headers know of may be found by its offset, as zip files are.
    let after = library.end().ok_or(HoleReason::Headers)?;
    if tail(data, after).is_some_and(|after| !is_zero(after)) { Err(HoleReason::DataAfter) } else { Ok(()) }
}

/// The changes that take whole pages of some gaps, which hold zeros, out of a file.
pub(crate) fn close(data: &[u8], gaps: &[Range<u64>]) -> Result<Closing, HoleReason> {
    ensure_can_close(data)?;
    let library = ElfLibrary::read(data)?;
    if library.loaded().next().is_none_or(|(_, first)| first.offset > 0) {
        return Err(HoleReason::FirstSegment);
    }
    let (mut cuts, mut left) = library.cuts(gaps);
    if cuts.is_empty() {
        return Err(left.unwrap_or(HoleReason::Small));
    }
    let room = library.room(&mut cuts)?;
    let pages = taken(&cuts);
    library.keep_alignment(&mut cuts);
    if cuts.is_empty() {
        return Err(HoleReason::Alignment);
    }
    let saved = taken(&cuts);
    if saved < pages {
        left = left.or(Some(HoleReason::Alignment));
    }
    let closed = library.closed(&cuts, &room).ok_or(HoleReason::Headers)?;
    closed.ensure_loaded(&library, &cuts, &room)?;
    let split: HashSet<usize> = closed.parts.iter().map(|part| part.of).collect();
    let symbols = library.renumbered(|section, address| {
        let mut parts = split.contains(&section).then_some(&closed.parts)?.iter();
        parts.rfind(|part| part.of == section && part.start <= address).map(|part| part.index)
    });
    let changes = closed.changes(&room, cuts, symbols.ok_or(HoleReason::Limits)?, library.len);
    let (changes, added) = changes.ok_or(HoleReason::Shared)?;
    if saved > added { Ok(Closing { changes, left }) } else { Err(HoleReason::Small) }
}

/// Returns the changes that give a file the bytes back that [`close`] took out of it, or `None` if it took none.
pub(crate) fn open(data: &[u8]) -> Result<Option<Vec<Change<'static>>>, Rewritten> {
    match ElfLibrary::read(data) {
        Ok(library) if library.has_parts() => library.opening().map(Some).ok_or(Rewritten),
        _ => Ok(None),
    }
}

fn is_loaded(segment: &Segment) -> bool {
    segment.is(PT_LOAD)
}

/// Whether loaders take a segment.
fn can_be_mapped(segment: &Segment) -> bool {
    let align = segment.alignment;
    let into = |place: u64| place.checked_rem(align);
    let is_aligned = align.is_power_of_two() && into(segment.offset) == into(segment.address);
    is_aligned && segment.size <= segment.memory
}

/// The records of a table.
fn table_at<R: Record>(data: &[u8], at: u64, count: u64) -> Option<Vec<R>> {
    let bytes = slice(data, at, count.checked_mul(ENCODING.len_of::<R>())?)?;
    Some(Table::new(ENCODING, bytes).iter().collect())
}

/// The length of a table of program headers.
fn table_len(segments: &[Segment]) -> u64 {
    to_u64(segments.len()).saturating_mul(SEGMENT_LEN)
}

/// Where a section ends in memory.
fn end_of(section: &Section) -> Option<u64> {
    section.address.checked_add(section.size)
}

/// The number of zeros before section headers after data that ends at an offset.
fn padding_at(end: u64) -> Option<u64> {
    end.checked_next_multiple_of(TABLE_ALIGNMENT)?.checked_sub(end)
}

/// Pages of a gap that are taken out of the file.
struct Cut {
    range: Range<u64>,
    /// The whole gap.
    gap: Range<u64>,
    /// The index of the segment around it.
    segment: usize,
    /// The index of the section around it.
    section: usize,
    /// Whether the section holds fatbins.
    is_of_cuda: bool,
}

/// The number of bytes that are taken out.
fn taken(cuts: &[Cut]) -> u64 {
    total(cuts.iter().map(|cut| len_of(&cut.range)))
}

/// Where the new program headers are.
struct Room {
    /// The number of bytes that are put before all else.
    front: u64,
    /// Where the first gap starts in the old file: the addresses of the new headers are those of this offset.
    start: u64,
}

/// A part of a section that was split.
struct SectionPart {
    /// The index of the section.
    of: usize,
    /// The first address.
    start: u64,
    /// Its own index.
    index: u16,
}

/// What a file is without some gaps.
struct Closed {
    header: Header,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// In the order of their addresses in each section.
    parts: Vec<SectionPart>,
    /// The number of zeros before the section headers, and after them.
    padding: u64,
}

impl Closed {
    /// All changes of a file of `len` bytes, in their order, and the number of bytes that they add.
    fn changes(
        &self,
        room: &Room,
        cuts: Vec<Cut>,
        mut changes: Vec<Change<'static>>,
        len: u64,
    ) -> Option<(Vec<Change<'static>>, u64)> {
        let (header, table) = (ENCODING.encode(&[self.header]), ENCODING.encode(&self.segments));
        let zeros = room.front.checked_sub(len_u64(&header))?.checked_sub(len_u64(&table))?;
        changes.push((0..0, vec![Piece::Bytes([header, table].concat()), Piece::Zeros(zeros)]));
        changes.extend(cuts.into_iter().map(|cut| (cut.range, Vec::new())));
        let (sections, padding) = (ENCODING.encode(&self.sections), self.padding);
        let added = total([room.front, padding, len_u64(&sections), padding]);
        changes.push((len..len, vec![Piece::Zeros(padding), Piece::Bytes(sections), Piece::Zeros(padding)]));
        Some((in_order(changes)?, added))
    }

    /// Ensures that loaders find each byte of the old segments, except those of gaps, at its address. They need not, if
    /// segments share bytes or addresses.
    fn ensure_loaded(&self, old: &ElfLibrary<'_>, cuts: &[Cut], room: &Room) -> Result<(), HoleReason> {
        let loaded = || self.segments.iter().filter(|segment| is_loaded(segment));
        // The gap that headers are loaded into may be needed for the alignment of what follows.
        if !loaded().any(|segment| segment.offset == 0) || !loaded().all(can_be_mapped) {
            return Err(HoleReason::Alignment);
        }
        let moves = moves(room, cuts);
        for (_, segment) in old.loaded() {
            let (mut at, end) = (segment.offset, segment.offset.saturating_add(segment.size));
            let shift = segment.address.wrapping_sub(segment.offset);
            while at < end {
                if let Some(cut) = cuts.iter().find(|cut| cut.range.contains(&at)) {
                    at = cut.range.end;
                    continue;
                }
                let address = at.wrapping_add(shift);
                let is_here = |part: &&Segment| span(part.address, part.size).contains(&address);
                let mut here = loaded().filter(is_here);
                let (Some(part), None) = (here.next(), here.next()) else { return Err(HoleReason::Shared) };
                if address.wrapping_sub(part.address).wrapping_add(part.offset) != moves.moved(at) {
                    return Err(HoleReason::Shared);
                }
                at = part.address.saturating_add(part.size).wrapping_sub(shift).min(end);
            }
        }
        Ok(())
    }
}

/// Where all of a file goes.
fn moves(room: &Room, cuts: &[Cut]) -> Moves {
    let mut replaced = vec![(0..0, room.front)];
    replaced.extend(cuts.iter().map(|cut| (cut.range.clone(), 0)));
    Moves::new(replaced)
}

/// The headers of a linked file.
struct ElfLibrary<'d> {
    data: &'d [u8],
    /// The length of the file.
    len: u64,
    header: Header,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// The size of the pages by which the file is mapped.
    page: u64,
    /// The alignment that each segment needs: linkers align some to pages of 2 MiB.
    alignments: Vec<u64>,
}

impl<'d> ElfLibrary<'d> {
    fn read(data: &'d [u8]) -> Result<Self, HoleReason> {
        let file = File::read(data).map_err(|_| HoleReason::Headers)?;
        let header = file.header;
        if header.kind() == ET_REL {
            return Err(HoleReason::Object);
        }
        if file.encoding != ENCODING {
            return Err(HoleReason::Format);
        }
        if !matches!(header.kind(), ET_DYN | ET_EXEC) {
            return Err(HoleReason::Headers);
        }
        // More segments or sections are counted elsewhere.
        if header.segment_count > TABLE_MAX / SEGMENT_LEN || header.section_count == 0 {
            return Err(HoleReason::Limits);
        }
        Self::of(data, len_u64(data), header, file.segments.iter().collect(), file.sections.iter().collect())
    }

    /// A file of `len` bytes with these headers.
    fn of(
        data: &'d [u8],
        len: u64,
        header: Header,
        segments: Vec<Segment>,
        sections: Vec<Section>,
    ) -> Result<Self, HoleReason> {
        let mut page = match header.machine() {
            EM_X86_64 | EM_RISCV | EM_S390 => PAGE_MIN,
            _ => PAGE_MAX,
        };
        for segment in segments.iter().filter(|segment| is_loaded(segment)) {
            if !can_be_mapped(segment) {
                return Err(HoleReason::Headers);
            }
            page = page.min(segment.alignment);
        }
        let is_aligned = |segment: &Segment| is_loaded(segment) && segment.alignment > page;
        let may_search = segments.iter().filter(|segment| is_aligned(segment)).count() <= ALIGNED_MAX;
        let needed = |segment: &Segment| {
            if !is_aligned(segment) || !may_search {
                return segment.alignment;
            }
            let is_inside = |section: &&Section| {
                let into = section.address.checked_sub(segment.address);
                section.flags & SHF_ALLOC.0 != 0 && into.is_some_and(|into| into < segment.memory)
            };
            let sections = sections.iter().filter(is_inside).map(|section| section.alignment);
            sections.fold(page, u64::max).min(segment.alignment)
        };
        let alignments = segments.iter().map(needed).collect();
        if page < PAGE_MIN {
            return Err(HoleReason::Alignment);
        }
        Ok(Self { data, len, header, segments, sections, page, alignments })
    }

    /// The segments that are loaded, with their indices.
    fn loaded(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.segments.iter().enumerate().filter(|(_, segment)| is_loaded(segment))
    }

    /// Whether a section was split: one without contents has the name of one with contents.
    fn has_parts(&self) -> bool {
        let is_in_memory = |section: &&Section| section.flags & SHF_ALLOC.0 != 0;
        let names = self.sections.iter().filter(is_in_memory).filter(|section| section.is(SHT_PROGBITS));
        let names: HashSet<u64> = names.map(|section| section.name).collect();
        let mut emptied = self.sections.iter().filter(is_in_memory).filter(|section| section.is(SHT_NOBITS));
        emptied.any(|section| names.contains(&section.name))
    }

    /// Whether the file is a program, or a library that can be run as one. Linkers put `DT_DEBUG` into programs only,
    /// static ones too; before they set `DF_1_PIE`, nothing else told such a program from a library.
    fn is_program(&self) -> bool {
        let has = |wanted| self.segments.iter().find(|segment| segment.is(wanted));
        if self.header.kind() == ET_EXEC || has(PT_INTERP).is_some() {
            return true;
        }
        let dynamic = has(PT_DYNAMIC).and_then(|segment| slice(self.data, segment.offset, segment.size));
        for entry in dynamic.unwrap_or_default().chunks_exact(DYNAMIC_LEN) {
            let (tag, value) = entry.split_at(DYNAMIC_LEN / 2);
            let tag = i64::try_from(ENCODING.read(tag)).unwrap_or(0);
            if tag == 0 {
                break;
            }
            if tag == DT_DEBUG.0 || tag == DT_FLAGS_1.0 && ENCODING.read(value) & DF_1_PIE.0 != 0 {
                return true;
            }
        }
        false
    }

    /// The first offset after all headers, segments and sections.
    fn end(&self) -> Option<u64> {
        let segments = table_len(&self.segments).checked_add(self.header.segments_at)?;
        let sections = to_u64(self.sections.len()).checked_mul(SECTION_LEN)?.checked_add(self.header.sections_at)?;
        let in_file = |section: &&Section| !section.is(SHT_NOBITS);
        let contents = self.sections.iter().filter(in_file).map(|section| (section.offset, section.size));
        let loaded = self.segments.iter().map(|segment| (segment.offset, segment.size));
        let mut ends = contents.chain(loaded).map(|(start, len)| start.checked_add(len));
        ends.try_fold(sections.max(segments), |last, end| Some(last.max(end?)))
    }

    /// The pages of gaps that can be taken out, in the order of the file: the largest, up to the number for which there
    /// is room. Why the largest of the others stays, too.
    fn cuts(&self, gaps: &[Range<u64>]) -> (Vec<Cut>, Option<HoleReason>) {
        let mut by_size: Vec<_> = gaps.iter().collect();
        by_size.sort_by_key(|gap| std::cmp::Reverse(len_of(gap)));
        let (mut cuts, mut left) = (Vec::new(), None);
        for gap in by_size {
            let cut = if cuts.len() < CUTS_MAX { self.cut(gap) } else { Err(HoleReason::Limits) };
            match cut {
                Ok(cut) => cuts.push(cut),
                Err(HoleReason::Small) => {}
                Err(reason) if len_of(gap) > self.page => left = left.or(Some(reason)),
                Err(_) => {}
            }
        }
        cuts.sort_by_key(|cut| cut.gap.start);
        (cuts, left)
    }

    /// The pages of a gap, if it lies in one segment and one section alone.
    fn cut(&self, gap: &Range<u64>) -> Result<Cut, HoleReason> {
        let (page, outside) = (self.page, HoleReason::Headers);
        let start = gap.start.checked_next_multiple_of(page).ok_or(outside)?;
        let mut range = start..gap.end.saturating_sub(gap.end.checked_rem(page).ok_or(outside)?);
        let meets = |start: u64, len: u64| len > 0 && start < gap.end && start.saturating_add(len) > gap.start;
        let mut segments = (0..).zip(&self.segments).filter(|(_, segment)| meets(segment.offset, segment.size));
        let mut sections = (0..)
            .zip(&self.sections)
            .filter(|(_, section)| !section.is(SHT_NOBITS) && meets(section.offset, section.size));
        let (Some((segment, in_memory)), None) = (segments.next(), segments.next()) else {
            return Err(HoleReason::Shared);
        };
        let (Some((index, section)), None) = (sections.next(), sections.next()) else {
            return Err(HoleReason::Shared);
        };
        let (offset, len) = (in_memory.offset, in_memory.size);
        let end = offset.checked_add(len).ok_or(outside)?;
        // Memory that follows the bytes of the segment stays behind some of them.
        if range.end == end && in_memory.memory > len {
            range.end = range.end.saturating_sub(page);
        }
        let address = |start: u64, base: u64| gap.start.checked_sub(start)?.checked_add(base);
        let section_end = section.offset.checked_add(section.size).ok_or(outside)?;
        let in_segment = address(offset, in_memory.address);
        let is_loaded = in_memory.is(PT_LOAD)
            && section.is(SHT_PROGBITS)
            && section.flags & SHF_ALLOC.0 != 0
            && gap.end <= end.min(section_end)
            && in_segment.is_some()
            && in_segment == address(section.offset, section.address);
        if !is_loaded {
            return Err(HoleReason::Shared);
        }
        if range.is_empty() {
            return Err(HoleReason::Small);
        }
        let is_of_cuda =
            slice(self.data, section.offset, section.size).is_some_and(|bytes| bytes.starts_with(&fatbin::MAGIC));
        Ok(Cut { range, gap: gap.clone(), segment, section: index, is_of_cuda })
    }

    /// Makes room for the new program headers in the first gap, in which they are loaded.
    fn room(&self, cuts: &mut Vec<Cut>) -> Result<Room, HoleReason> {
        let mut reason = HoleReason::Small;
        while let Some(first) = cuts.first() {
            let count = to_u64(self.segments.len()).saturating_add(to_u64(cuts.len())).saturating_add(1);
            let len = HEADER_LEN.saturating_add(count.saturating_mul(SEGMENT_LEN));
            let (start, outside) = (first.range.start, HoleReason::Headers);
            let pages = len.checked_next_multiple_of(self.page).ok_or(outside)?;
            if len > TABLE_MAX.saturating_add(HEADER_LEN) {
                reason = HoleReason::Limits;
                cuts.pop();
            } else if start.saturating_add(pages) >= first.range.end {
                cuts.remove(0);
            } else {
                let front = len.checked_next_multiple_of(self.alignment_from(0).max(self.page)).ok_or(outside)?;
                return Ok(Room { front, start });
            }
        }
        Err(reason)
    }

    /// Leaves so much of the gaps of each segment that what follows moves by a multiple of its alignment.
    fn keep_alignment(&self, cuts: &mut Vec<Cut>) {
        for (index, segment) in self.loaded() {
            let end = segment.offset.saturating_add(segment.size);
            let all = total(cuts.iter().filter(|cut| cut.segment == index).map(|cut| len_of(&cut.range)));
            let mut excess = all.checked_rem(self.alignment_from(end).max(self.page)).unwrap_or(0);
            for cut in cuts.iter_mut().rev().filter(|cut| cut.segment == index) {
                let kept = excess.min(len_of(&cut.range));
                cut.range.end = cut.range.end.saturating_sub(kept);
                excess = excess.saturating_sub(kept);
            }
        }
        cuts.retain(|cut| !cut.range.is_empty());
    }

    /// The largest alignment of the segments that are loaded from an offset on, also of those without bytes in the
    /// file, whose offsets loaders check too; 0 if there are none.
    fn alignment_from(&self, offset: u64) -> u64 {
        let is_after = |segment: &Segment| segment.offset >= offset;
        let after =
            self.segments.iter().zip(&self.alignments).filter(|(segment, _)| is_loaded(segment) && is_after(segment));
        after.map(|(_, alignment)| *alignment).max().unwrap_or(0)
    }

    /// The file without the gaps.
    fn closed(&self, cuts: &[Cut], room: &Room) -> Option<Closed> {
        let (mut sections, parts) = self.split_sections(cuts)?;
        let moves = moves(room, cuts);
        let memory = self.loaded().filter_map(|(_, segment)| segment.address.checked_add(segment.memory)).max();
        let mut free = memory?.checked_next_multiple_of(PAGE_MAX)?;
        for (index, section) in sections.iter_mut().enumerate().skip(1) {
            let (start, size) = (section.offset, section.size);
            section.offset = moves.moved(start);
            if let Some(cut) = cuts.iter().find(|cut| cut.section == index) {
                let end = moves.moved(start.checked_add(size)?);
                section.size = if cut.is_of_cuda { end.checked_sub(section.offset)? } else { 0 };
                section.kind = SHT_NOBITS.0.into();
                section.flags = SHF_ALLOC.0;
                section.address = free;
                free = free.checked_add(section.size)?.checked_next_multiple_of(PAGE_MAX)?;
            }
        }
        let segments = self.split_segments(cuts, room, &moves)?;
        let end = moves.moved(self.len);
        let padding = padding_at(end)?;
        let mut header = self.header;
        header.segments_at = HEADER_LEN;
        header.segment_count = u16::try_from(segments.len()).ok()?.into();
        header.sections_at = end.checked_add(padding)?;
        header.section_count = u16::try_from(sections.len()).ok().filter(|count| *count < SHN_LORESERVE)?.into();
        (!cuts.is_empty()).then_some(Closed { header, segments, sections, parts, padding })
    }

    /// The sections, and the parts of those that gaps split, at their old offsets.
    fn split_sections(&self, cuts: &[Cut]) -> Option<(Vec<Section>, Vec<SectionPart>)> {
        let (mut sections, mut parts) = (self.sections.clone(), Vec::new());
        for (at, cut) in cuts.iter().enumerate() {
            let old = self.sections.get(cut.section)?;
            let start = old.offset;
            let next = cuts.get(at.checked_add(1)?).filter(|next| next.section == cut.section);
            let end = next.map_or(start.checked_add(old.size)?, |next| next.gap.start);
            let is_first = !parts.iter().any(|part: &SectionPart| part.of == cut.section);
            let first = if is_first { start..cut.gap.start } else { start..start };
            let mut zeros = *old;
            // A name is needed, as symbols may stand there, but not one of device code: the same without its first
            // letter.
            zeros.name = old.name.checked_add(1)?;
            for (mut part, range) in [(*old, first), (zeros, cut.range.end..cut.gap.end), (*old, cut.gap.end..end)] {
                if range.is_empty() {
                    continue;
                }
                let address = range.start.checked_sub(start)?.checked_add(old.address)?;
                part.address = address;
                part.offset = range.start;
                part.size = len_of(&range);
                if range.start != start {
                    part.alignment = 1;
                }
                let index = u16::try_from(sections.len()).ok()?;
                parts.push(SectionPart { of: cut.section, start: address, index });
                sections.push(part);
            }
        }
        Some((sections, parts))
    }

    /// The new program headers.
    fn split_segments(&self, cuts: &[Cut], room: &Room, moves: &Moves) -> Option<Vec<Segment>> {
        let mut segments = Vec::new();
        let mut headers_address = None;
        for (index, (segment, alignment)) in self.segments.iter().zip(&self.alignments).enumerate() {
            let start = segment.offset;
            let end = start.checked_add(segment.size)?;
            let beyond = segment.memory.wrapping_sub(segment.size);
            let part = |range: Range<u64>, memory: u64| {
                let into = range.start.checked_sub(start)?;
                let mut part = *segment;
                part.offset = moves.moved(range.start);
                part.address = segment.address.checked_add(into)?;
                part.physical = segment.physical.wrapping_add(into);
                part.size = len_of(&range);
                part.memory = len_of(&range).wrapping_add(memory);
                if is_loaded(segment) {
                    part.alignment = if into == 0 { *alignment } else { self.page };
                }
                // eu-elflint, for one, expects executable sections in an executable segment.
                let has_code = |section: &Section| {
                    let start = section.offset;
                    section.flags & SHF_EXECINSTR.0 != 0 && start < range.end && range.start <= start
                };
                if into > 0 && !self.sections.iter().any(has_code) {
                    part.flags &= !u64::from(PF_X.0);
                }
                Some(part)
            };
            if is_loaded(segment) && (start..end).contains(&room.start) {
                headers_address = segment.address.checked_add(room.start.checked_sub(start)?);
            }
            let mut at = start;
            for Cut { range, .. } in cuts.iter().filter(|cut| cut.segment == index) {
                let mut before = part(at..range.start, len_of(range))?;
                if range.start == room.start {
                    before.memory = before.size;
                    segments.push(before);
                    before = part(range.start..range.start, len_of(range))?;
                    before.offset = 0;
                    before.flags = PF_R.0.into();
                }
                segments.push(before);
                at = range.end;
            }
            if at < end || at == start {
                segments.push(part(at..end, beyond)?);
            }
        }
        let table_len = table_len(&segments);
        let headers_len = HEADER_LEN.checked_add(table_len)?.checked_next_multiple_of(self.page)?;
        let is_header = |segment: &Segment| is_loaded(segment) && segment.offset == 0;
        for segment in &mut segments {
            if is_header(segment) {
                segment.size = headers_len;
                (segment.memory >= headers_len).then_some(())?;
            } else if segment.is(PT_PHDR) {
                let table = headers_address?.checked_add(HEADER_LEN)?;
                segment.offset = HEADER_LEN;
                segment.physical = segment.physical.wrapping_add(table).wrapping_sub(segment.address);
                segment.address = table;
                segment.size = table_len;
                segment.memory = table_len;
            }
        }
        Some(segments)
    }

    /// The changes of all symbols for whose section and address there is another section.
    fn renumbered(&self, section: impl Fn(usize, u64) -> Option<u16>) -> Option<Vec<Change<'static>>> {
        let mut changes = Vec::new();
        let tables = self.sections.iter().filter(|table| table.is_any(&[SHT_SYMTAB, SHT_DYNSYM]));
        // Tables that share bytes would be read again and again.
        if total(tables.clone().map(|table| table.size)) > len_u64(self.data) {
            return None;
        }
        for table in tables {
            let start = table.offset;
            let symbols = Table::<Symbol>::new(ENCODING, slice(self.data, start, table.size)?);
            for (symbol, at) in symbols.iter().zip((start..).step_by(SYMBOL_LEN)) {
                let number = usize::try_from(symbol.section).ok()?;
                let is_section = (1..usize::from(SHN_LORESERVE)).contains(&number);
                let new = section(number, symbol.value).filter(|_| is_section);
                changes.extend(new.and_then(|new| change(at.checked_add(SYMBOL_SECTION)?, new.to_le_bytes().to_vec())));
                if changes.len() > SYMBOLS_MAX {
                    return None;
                }
            }
        }
        Some(changes)
    }

    /// Returns the changes that give the bytes of gaps back, or `None` if they were not taken out so.
    fn opening(&self) -> Option<Vec<Change<'static>>> {
        let (_, first) = self.loaded().next()?;
        let front = first.offset;
        let header: Header = ENCODING.decode(slice(self.data, front, HEADER_LEN)?);
        let segments: Vec<Segment> = table_at(self.data, header.segments_at.checked_add(front)?, header.segment_count)?;
        let mut cuts = self.taken_out(&segments)?;
        let start = cuts.first()?.range.start;
        let room = Room { front, start };
        let moves = moves(&room, &cuts);
        let sections: Vec<Section> = table_at(self.data, moves.moved(header.sections_at), header.section_count)?;
        let added = self.sections.get(sections.len()..).filter(|added| added.len() <= PARTS_MAX)?;
        for cut in &mut cuts {
            self.find_gap(cut, &sections, added)?;
        }
        let after =
            len_u64(self.data).checked_sub(front)?.checked_add(total(cuts.iter().map(|cut| len_of(&cut.range))))?;
        let table = to_u64(self.sections.len()).checked_mul(SECTION_LEN)?;
        let table_start = self.header.sections_at;
        let padding = len_u64(self.data).checked_sub(table_start.checked_add(table)?)?;
        let len = after.checked_sub(padding.checked_mul(2)?)?.checked_sub(table)?;
        let opened =
            Self::of(self.data, Some(len).filter(|&len| len <= OPENED_MAX)?, header, segments, sections).ok()?;
        let again = opened.closed(&cuts, &room)?;
        let is_right = again.header == self.header
            && again.segments == self.segments
            && again.sections == self.sections
            && again.padding == padding
            && self.has_only_zeros_between_headers(front, padding);
        if !is_right {
            return None;
        }
        let kept = opened.sections.len();
        let owner =
            |section: usize| again.parts.get(section.checked_sub(kept)?).and_then(|part| u16::try_from(part.of).ok());
        let mut changes = self.renumbered(|section, _| owner(section))?;
        changes.push((0..front, Vec::new()));
        for Cut { range, .. } in &cuts {
            let at = moves.moved(range.start);
            changes.push((at..at, vec![Piece::Zeros(len_of(range))]));
        }
        changes.push((table_start.checked_sub(padding)?..len_u64(self.data), Vec::new()));
        in_order(changes)
    }

    /// Whether there are zeros after the program headers up to `front`, and before and after the section headers.
    fn has_only_zeros_between_headers(&self, front: u64, padding: u64) -> bool {
        let (start, end) = (self.header.sections_at, len_u64(self.data));
        let used = HEADER_LEN.saturating_add(table_len(&self.segments));
        let paddings = [used..front, start.saturating_sub(padding)..start, end.saturating_sub(padding)..end];
        paddings.into_iter().all(|range| part(self.data, range).is_some_and(is_zero))
    }

    /// The pages that were taken out of the segments of a file, in their order. Gap and section of each are not known
    /// yet.
    fn taken_out(&self, segments: &[Segment]) -> Option<Vec<Cut>> {
        let mut cuts = Vec::new();
        for (index, old) in segments.iter().enumerate().filter(|(_, old)| is_loaded(old)) {
            let addresses = old.address..old.address.checked_add(old.size)?;
            let is_part = |part: &&Segment| addresses.contains(&part.address) && part.offset > 0;
            let mut parts = self.loaded().map(|(_, part)| part).filter(is_part).peekable();
            while let Some(part) = parts.next() {
                let start = part.address.checked_add(part.size)?;
                let end = parts.peek().map_or(addresses.end, |next| next.address);
                if start >= end {
                    continue;
                }
                if cuts.len() == CUTS_MAX {
                    return None;
                }
                let offset = |at: u64| at.checked_sub(old.address)?.checked_add(old.offset);
                let range = offset(start)?..offset(end)?;
                cuts.push(Cut { range: range.clone(), gap: range, segment: index, section: 0, is_of_cuda: false });
            }
        }
        Some(cuts)
    }

    /// Finds the section of a gap, and where the gap begins and ends: between two parts of the section.
    fn find_gap(&self, cut: &mut Cut, sections: &[Section], added: &[Section]) -> Option<()> {
        let holds = |section: &Section| {
            let range = section.offset..section.offset.saturating_add(section.size);
            section.is(SHT_PROGBITS) && range.start <= cut.range.start && cut.range.end <= range.end
        };
        let index = sections.iter().position(holds)?;
        let section = sections.get(index)?;
        let address = |offset: u64| offset.checked_sub(section.offset)?.checked_add(section.address);
        let (start, end) = (address(cut.range.start)?, address(cut.range.end)?);
        let (mut gap_start, mut gap_end) = (section.address, end_of(section)?);
        for part in added.iter().filter(|part| part.name == section.name) {
            if (gap_start..=start).contains(&end_of(part)?) {
                gap_start = end_of(part)?;
            }
            if (end..gap_end).contains(&part.address) {
                gap_end = part.address;
            }
        }
        let offset = |address: u64| address.checked_sub(section.address)?.checked_add(section.offset);
        cut.gap = offset(gap_start)?..offset(gap_end)?;
        cut.section = index;
        cut.is_of_cuda = self.sections.get(index)?.size > 0;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use object::elf::{Machine, ProgramType, SectionType};

    use super::super::changed;
    use super::*;

    /// The alignment of memory in some samples, in bytes.
    const MEMORY_ALIGN: u64 = 128 << 10;

    /// A generator of numbers, the same in every run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % end
        }
    }

    /// A library with device code that has gaps.
    struct Sample {
        data: Vec<u8>,
        gaps: Vec<Range<u64>>,
    }

    /// The changes that close gaps, if any can be closed.
    fn closing(data: &[u8], gaps: &[Range<u64>]) -> Option<Vec<Change<'static>>> {
        close(data, gaps).ok().map(|closing| closing.changes)
    }

    fn segment(kind: ProgramType, offset: u64, address: u64, size: u64, memory: u64, alignment: u64) -> Segment {
        let (kind, flags) = (kind.0.into(), PF_R.0.into());
        Segment { kind, flags, offset, address, physical: address, size, memory, alignment }
    }

    fn section(name: u64, kind: SectionType, offset: u64, address: u64, size: u64) -> Section {
        let flags = if address > 0 { SHF_ALLOC.0 } else { 0 };
        Section { name, kind: kind.0.into(), flags, address, offset, size, alignment: 8, ..Section::default() }
    }

    /// The header of a file for a machine, whose section headers are at `tables`.
    fn header(machine: Machine, segments: &[Segment], sections: &[Section], tables: u64) -> Vec<u8> {
        let mut data = b"\x7fELF\x02\x01\x01".to_vec();
        data.resize(16, 0);
        data.extend([ET_DYN.0, machine.0].map(u16::to_le_bytes).concat());
        data.resize(64, 0);
        let mut header = Header::read(&data).unwrap();
        (header.segments_at, header.sections_at) = (HEADER_LEN, tables);
        (header.segment_len, header.section_len) = (SEGMENT_LEN, SECTION_LEN);
        (header.segment_count, header.section_count) = (to_u64(segments.len()), to_u64(sections.len()));
        ENCODING.encode(&[header])
    }

    /// Headers, host data, device code with gaps, host data and memory after it, a segment of data, symbols, and the
    /// section headers at the end or before the last segment.
    fn sample(numbers: &mut Numbers) -> Sample {
        let page: u64 = [4 << 10, 64 << 10][usize::try_from(numbers.below(2)).unwrap()];
        let align = if numbers.below(3) == 0 { 2 << 20 } else { page };
        let has_table = numbers.below(2) == 0;
        // Section headers before the last segment, in it, or at the end.
        let headers = numbers.below(3);
        let has_early_headers = headers == 0;
        let mut gaps = Vec::new();
        let code_start = 0x1000 + numbers.below(0x300) * 8;
        let mut end = code_start;
        for _ in 0..=numbers.below(4) {
            end += 100 + numbers.below(3 * page);
            let gap = end..end + numbers.below(9 * page);
            end = gap.end;
            gaps.push(gap);
        }
        let code = code_start..end;
        if numbers.below(2) == 0 {
            end += numbers.below(page);
        }
        let first = end;
        let shift = if numbers.below(2) == 0 { 0 } else { align };
        let headers_len = 9 * SECTION_LEN;
        let mut tables = end.next_multiple_of(8);
        if has_early_headers {
            end = tables + headers_len;
        }
        let second = end.next_multiple_of(align) + numbers.below(page / 8) * 8;
        let second_len = 1000 + numbers.below(page);
        let symbols = (second + second_len).next_multiple_of(8);
        end = symbols + 6 * 24;
        if !has_early_headers {
            tables = end;
            end += headers_len;
        }
        let trailing = numbers.below(50);

        let mut data: Vec<u8> = (0..end).map(|at| (at % 251).to_le_bytes()[0] + 1).collect();
        data.resize(usize::try_from(end + trailing).unwrap(), 0);
        for gap in &gaps {
            data[usize::try_from(gap.start).unwrap()..usize::try_from(gap.end).unwrap()].fill(0);
        }
        let base = if numbers.below(2) == 0 { 0 } else { 4 * align };
        let mut segments = vec![
            segment(PT_LOAD, 0, base, first, first + numbers.below(2) * (shift / 2), align),
            segment(PT_LOAD, second, base + shift + second, second_len, second_len + numbers.below(page), align),
            segment(PT_DYNAMIC, second, base + shift + second, 16, 16, 8),
        ];
        if has_table {
            segments.insert(0, segment(PT_PHDR, 64, base + 64, 56 * 5, 56 * 5, 8));
        }
        if headers == 1 {
            let all = tables + headers_len - second;
            (segments[usize::from(has_table) + 1].size, segments[usize::from(has_table) + 1].memory) = (all, all);
        }
        // Memory without bytes in the file, which needs a larger alignment than the rest. GNU ld gives it offset 0.
        let has_memory = numbers.below(2) == 0;
        let memory = (base + shift + second + second_len + page).next_multiple_of(MEMORY_ALIGN);
        if has_memory {
            segments.push(segment(PT_LOAD, 0, memory, 0, 8 * page, MEMORY_ALIGN));
        }
        let mut sections = vec![section(0, object::elf::SHT_NULL, 0, 0, 0)];
        sections.push(section(1, SHT_PROGBITS, 0x800, base + 0x800, 0x100));
        sections.push(section(7, SHT_PROGBITS, code.start, base + code.start, len_of(&code)));
        if first > code.end {
            sections.push(section(9, SHT_PROGBITS, code.end, base + code.end, first - code.end));
        }
        sections.push(section(11, SHT_PROGBITS, second, base + shift + second, second_len));
        sections.push(section(13, SHT_NOBITS, second + second_len, base + shift + second + second_len, 8));
        sections.push(section(15, SHT_SYMTAB, symbols, 0, 6 * 24));
        if has_memory {
            let mut aligned = section(17, SHT_NOBITS, second, memory, 8 * page);
            aligned.alignment = MEMORY_ALIGN;
            sections.push(aligned);
        }
        let machine = if page == PAGE_MIN { EM_X86_64 } else { object::elf::EM_AARCH64 };
        let mut put = |at: u64, bytes: &[u8]| {
            let at = usize::try_from(at).unwrap();
            data[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &header(machine, &segments, &sections, tables));
        put(64, &ENCODING.encode(&segments));
        put(tables, &ENCODING.encode(&sections));
        for index in 0..6 {
            let value = base + code.start + numbers.below(len_of(&code));
            let symbol = Symbol { section: 2, value, ..Symbol::default() };
            put(symbols + index * 24, &ENCODING.encode(&[symbol]));
        }
        Sample { data, gaps }
    }

    /// What the program headers load: runs of addresses, and their bytes.
    fn memory(data: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let program = ElfLibrary::read(data).unwrap();
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (_, segment) in program.loaded() {
            let bytes = slice(data, segment.offset, segment.size).unwrap();
            let align = segment.alignment;
            assert_eq!(segment.offset % align, segment.address % align);
            let end = runs.last().map_or(0, |(start, run)| start + len_u64(run));
            assert!(end <= segment.address, "{:#x} is loaded twice", segment.address);
            if end != segment.address || runs.is_empty() {
                runs.push((segment.address, Vec::new()));
            }
            let (start, run) = runs.last_mut().unwrap();
            run.extend_from_slice(bytes);
            run.resize(usize::try_from(segment.address + segment.memory - *start).unwrap(), 0);
        }
        runs
    }

    /// Clears the symbols of a file where they are loaded: they get the numbers of new sections.
    fn without_symbols(data: &[u8], memory: &mut [(u64, Vec<u8>)]) {
        let library = ElfLibrary::read(data).unwrap();
        let symbols = *library.sections.iter().find(|section| section.is(SHT_SYMTAB)).unwrap();
        for (_, segment) in library.loaded() {
            if !span(segment.offset, segment.size).contains(&symbols.offset) {
                continue;
            }
            let address = symbols.offset - segment.offset + segment.address;
            for (start, run) in memory.iter_mut() {
                if span(*start, len_u64(run)).contains(&address) {
                    let at = usize::try_from(address - *start).unwrap();
                    run[at..at + usize::try_from(symbols.size).unwrap()].fill(0);
                }
            }
        }
    }

    #[test]
    fn what_is_loaded_stays_and_all_comes_back() {
        let mut numbers = Numbers(1);
        let mut closed = 0;
        for round in 0..if cfg!(miri) { 3 } else { 20 } {
            let Sample { data, gaps } = sample(&mut numbers);
            let Some(changes) = closing(&data, &gaps) else { continue };
            closed += 1;
            let small = changed(&data, &changes);
            assert!(small.len() < data.len(), "{round}: not shorter");
            // The new headers are loaded where a gap was.
            let (mut before, mut after) = (memory(&data), memory(&small));
            for memory in [&mut before, &mut after] {
                without_symbols(&data, memory);
                let run = &mut memory[0].1;
                for gap in &gaps {
                    run[usize::try_from(gap.start).unwrap()..usize::try_from(gap.end).unwrap()].fill(0);
                }
            }
            assert!(before == after, "{round}: other bytes are loaded");
            // Each symbol is in a section with its address.
            let new = ElfLibrary::read(&small).unwrap();
            let symbols = new.sections.iter().find(|section| section.is(SHT_SYMTAB)).unwrap();
            let symbols = slice(&small, symbols.offset, symbols.size).unwrap();
            for symbol in Table::<Symbol>::new(ENCODING, symbols).iter() {
                let section = &new.sections[usize::try_from(symbol.section).unwrap()];
                assert!(section.address <= symbol.value && section.is(SHT_PROGBITS));
            }
            let back = changed(&small, &open(&small).unwrap().expect("it does not come back"));
            assert!(back == data, "{round}: other bytes come back");
            assert!(open(&data).unwrap().is_none());
        }
        assert!(cfg!(miri) || closed > 5, "{closed} files were closed");
    }

    /// A library with these segments and sections, whose headers stand at the end.
    fn library(segments: &[Segment], sections: &[Section], tables: u64) -> Vec<u8> {
        let mut data = [header(EM_X86_64, segments, sections, tables), ENCODING.encode(segments)].concat();
        assert!(len_u64(&data) <= tables);
        data.resize(usize::try_from(tables).unwrap(), 0);
        data.extend(ENCODING.encode(sections));
        data
    }

    #[test]
    fn only_files_whose_headers_are_known_are_read() {
        let sections = [section(0, object::elf::SHT_NULL, 0, 0, 0)];
        let data = library(&[segment(PT_LOAD, 0, 0, 0x1000, 0x1000, PAGE_MIN)], &sections, 0x1000);
        assert!(ElfLibrary::read(&data).is_ok());
        // Class, byte order, type, sizes of headers, number of sections.
        for (at, byte) in [(0, 0), (4, 1), (5, 2), (16, 1), (16, 4), (54, 55), (58, 63), (60, 0)] {
            let mut damaged = data.clone();
            damaged[at] = byte;
            assert!(ElfLibrary::read(&damaged).is_err(), "{at}");
        }
        let most = usize::try_from(TABLE_MAX / SEGMENT_LEN).unwrap();
        for (count, is_readable) in [(most, true), (most + 1, false)] {
            let data = library(&vec![segment(PT_INTERP, 0, 0, 0, 0, 1); count], &sections, 0x20000);
            assert_eq!(ElfLibrary::read(&data).is_ok(), is_readable, "{count}");
        }
    }

    #[test]
    fn programs_are_told_from_libraries() {
        let entry = |tag: i64, value: u64| [tag.to_le_bytes(), value.to_le_bytes()].concat();
        let (end, flags) = (entry(object::elf::DT_NULL.0, 0), |value| entry(DT_FLAGS_1.0, value));
        let pie = DF_1_PIE.0;
        for (dynamic, is_program) in [
            ([flags(pie), end.clone()], true),
            ([entry(DT_DEBUG.0, 0), end.clone()], true),
            ([entry(1, pie), flags(pie | 1)], true),
            ([flags(1), end.clone()], false),
            ([entry(1, pie), end.clone()], false),
            ([end.clone(), flags(pie)], false),
        ] {
            let segments = [
                segment(PT_LOAD, 0, 0, 0x1000, 0x1000, PAGE_MIN),
                segment(PT_DYNAMIC, 0x800, 0x800, 32, 32, 8),
                segment(PT_PHDR, 0, 0, 0, 0, 1),
            ];
            let mut data = library(&segments, &[section(0, object::elf::SHT_NULL, 0, 0, 0)], 0x1000);
            data[0x800..0x820].copy_from_slice(&dynamic.concat());
            assert_eq!(ElfLibrary::read(&data).unwrap().is_program(), is_program, "{dynamic:?}");
            assert_eq!(ensure_can_close(&data).err(), is_program.then_some(HoleReason::Program));
            data[64 + 2 * 56] = 3;
            assert!(ElfLibrary::read(&data).unwrap().is_program(), "with an interpreter");
            (data[64 + 2 * 56], data[16]) = (6, 2);
            assert!(ElfLibrary::read(&data).unwrap().is_program(), "not position-independent");
        }
    }

    #[test]
    fn gaps_lie_in_one_segment_and_one_section() {
        let cuts = |memory: u64, change: &dyn Fn(&mut Section), gap: Range<u64>| {
            let segments = [segment(PT_LOAD, 0, 0, 0x10000, memory, PAGE_MIN)];
            let mut sections = [
                section(0, object::elf::SHT_NULL, 0, 0, 0),
                section(1, SHT_PROGBITS, 0x1000, 0x1000, 0x3000),
                section(2, SHT_PROGBITS, 0x4000, 0x4000, 0x5000),
                section(3, SHT_PROGBITS, 0xa000, 0xa000, 0x6000),
                section(4, SHT_PROGBITS, 0x5800, 0x5800, 0),
            ];
            change(&mut sections[2]);
            let data = library(&segments, &sections, 0x20000);
            let (cuts, _) = ElfLibrary::read(&data).unwrap().cuts(&[gap]);
            cuts.into_iter().map(|cut| cut.range).next()
        };
        let same: &dyn Fn(&mut Section) = &|_| {};
        for (memory, gap, expected) in [
            (0x10000, 0x4000..0x7000, Some(0x4000..0x7000)),
            (0x10000, 0x4001..0x7fff, Some(0x5000..0x7000)),
            (0x10000, 0x4001..0x5fff, None),
            (0x10000, 0x3000..0x7000, None),
            (0x10000, 0x7000..0x9000, Some(0x7000..0x9000)),
            (0x10000, 0x7000..0x9001, None),
            (0x10000, 0x9000..0xa000, None),
            (0x10000, 0xb000..0x10000, Some(0xb000..0x10000)),
            (0x10001, 0xb000..0x10000, Some(0xb000..0xf000)),
            (0x10001, 0xf000..0x10000, None),
            (0x10001, 0x4000..0x7000, Some(0x4000..0x7000)),
        ] {
            assert_eq!(cuts(memory, same, gap.clone()), expected, "{memory:#x} {gap:x?}");
        }
        let others: [&dyn Fn(&mut Section); 4] = [
            &|section| section.kind = object::elf::SHT_NOTE.0.into(),
            &|section| section.flags = 0,
            &|section| section.address = 0x14000,
            &|section| section.size = 0x2fff,
        ];
        for change in others {
            assert_eq!(cuts(0x10000, change, 0x4000..0x7000), None);
        }
    }

    #[test]
    fn parts_with_code_of_the_host_stay_executable() {
        for has_code in [true, false] {
            let mut segments = [segment(PT_LOAD, 0, 0, 0x23000, 0x23000, PAGE_MIN)];
            segments[0].flags = (PF_R.0 | PF_X.0).into();
            let mut sections = [
                section(0, object::elf::SHT_NULL, 0, 0, 0),
                section(1, SHT_PROGBITS, 0x1000, 0x1000, 0x1000),
                section(2, SHT_PROGBITS, 0x2000, 0x2000, 0x20000),
                section(3, SHT_PROGBITS, 0x22000, 0x22000, 0x1000),
            ];
            for code in &mut sections[1..].iter_mut().step_by(2).take(if has_code { 2 } else { 0 }) {
                code.flags = SHF_ALLOC.0 | SHF_EXECINSTR.0;
            }
            let data = library(&segments, &sections, 0x24000);
            let gap = 0x3000..0x21000;
            let small = changed(&data, &closing(&data, std::slice::from_ref(&gap)).unwrap());
            let program = ElfLibrary::read(&small).unwrap();
            let flags: Vec<_> =
                program.loaded().map(|(_, part)| (part.address, part.flags & u64::from(PF_X.0) != 0)).collect();
            assert_eq!(flags, [(0, true), (0x3000, false), (0x21000, has_code)]);
        }
    }

    #[test]
    fn symbols_in_parts_have_a_limit() {
        for (count, expected) in [(SYMBOLS_MAX, Some(SYMBOLS_MAX)), (SYMBOLS_MAX + 1, None)] {
            let len = to_u64(count) * 24;
            let sections = [section(0, object::elf::SHT_NULL, 0, 0, 0), section(1, SHT_SYMTAB, 0x1000, 0, len)];
            let mut data = library(&[], &sections, (0x1000 + len).next_multiple_of(8));
            for symbol in data[0x1000..].chunks_exact_mut(24).take(count) {
                symbol[6] = 1;
            }
            let changes = ElfLibrary::read(&data).unwrap().renumbered(|_, _| Some(2));
            assert_eq!(changes.map(|changes| changes.len()), expected);
        }
    }

    #[test]
    fn program_headers_are_loaded_wherever_the_gaps_are() {
        let align = 0x10000;
        // Two sections of device code, each in a segment of its own. All of the gap in the first one is needed for the
        // alignment of the second, if that is larger than the gap.
        for (second, is_closed) in [(align, true), (align / 4, true), (align, false)] {
            let mut segments = vec![
                segment(PT_PHDR, 64, 64, 3 * 56, 3 * 56, 8),
                segment(PT_LOAD, 0, 0, 0x14000, 0x14000, align),
                segment(PT_LOAD, 0x20000, 0x20000, 0x80000, 0x80000, align),
            ];
            let mut sections = vec![
                section(0, object::elf::SHT_NULL, 0, 0, 0),
                section(1, SHT_PROGBITS, 0x1000, 0x1000, 0x13000),
                section(1, SHT_PROGBITS, 0x20000, 0x20000, 0x80000),
            ];
            sections[2].alignment = second;
            let first = if is_closed { 0x1100..0x14000 } else { 0xf100..0x14000 };
            let data = library(&segments, &sections, 0xa0000);
            let gaps = [first, 0x20100..0xa0000];
            let changes = closing(&data, &gaps);
            assert_eq!(changes.is_some(), is_closed, "{second:#x}");
            let Some(changes) = changes else { continue };
            let small = changed(&data, &changes);
            segments = ElfLibrary::read(&small).unwrap().segments;
            let table = segments.iter().find(|segment| segment.is(PT_PHDR)).unwrap();
            let start = usize::try_from(table.address).unwrap();
            let (_, loaded) = memory(&small).swap_remove(0);
            assert!(loaded[start..].starts_with(&ENCODING.encode(&segments)), "{second:#x}");
            assert!(changed(&small, &open(&small).unwrap().unwrap()) == data);
        }
    }

    #[test]
    fn segments_that_share_bytes_stay_aligned() {
        for shared in [0x60000, 0x100_000] {
            let segments = [
                segment(PT_LOAD, 0, 0, 0x100_000, 0x100_000, PAGE_MIN),
                segment(PT_LOAD, shared, 0x200_000 + shared, 0x1000, 0x1000, 0x20000),
            ];
            let mut sections = [
                section(0, object::elf::SHT_NULL, 0, 0, 0),
                section(1, SHT_PROGBITS, 0x1000, 0x1000, 0x50000),
                section(3, SHT_PROGBITS, shared, 0x200_000 + shared, 0x1000),
            ];
            sections[2].alignment = 0x20000;
            let data = library(&segments, &sections, 0x101_000);
            let gap = 0x1100..0x51000;
            let changes = closing(&data, std::slice::from_ref(&gap));
            assert_eq!(changes.is_some(), shared == 0x100_000);
            changes.into_iter().for_each(|changes| drop(memory(&changed(&data, &changes))));
        }
    }

    #[test]
    fn damaged_headers_end_in_nothing_or_in_what_comes_back() {
        let mut numbers = Numbers(2);
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            let Sample { data, gaps } = sample(&mut numbers);
            let Some(changes) = closing(&data, &gaps) else { continue };
            for mut damaged in [data.clone(), changed(&data, &changes)] {
                for _ in 0..200 {
                    let at = usize::try_from(numbers.below(512)).unwrap();
                    let old = std::mem::replace(&mut damaged[at], u8::try_from(numbers.below(256)).unwrap());
                    let gaps = if damaged.len() == data.len() { &gaps[..] } else { &[] };
                    let opening = open(&damaged).ok().flatten();
                    for changes in [closing(&damaged, gaps), opening].into_iter().flatten() {
                        changed(&damaged, &changes);
                    }
                    damaged[at] = old;
                }
            }
        }
    }

    #[test]
    fn what_stays_has_a_reason() {
        let sections = |has_other: bool| {
            let mut sections =
                vec![section(0, object::elf::SHT_NULL, 0, 0, 0), section(1, SHT_PROGBITS, 0x1000, 0x1000, 0x20000)];
            sections.extend(has_other.then(|| section(3, SHT_PROGBITS, 0x8000, 0x8000, 8)));
            sections
        };
        let load = |offset, size| segment(PT_LOAD, offset, offset, size, size, PAGE_MIN);
        let interpreter = segment(PT_INTERP, 0x200, 0x200, 8, 8, 1);
        let small = segment(PT_LOAD, 0, 0, 0x21000, 0x21000, 0x100);
        for (segments, has_other, gap, expected) in [
            (vec![load(0, 0x21000)], false, 0x1100..0x21000, Ok(())),
            (vec![load(0, 0x21000), interpreter], false, 0x1100..0x21000, Err(HoleReason::Program)),
            (vec![load(0x1000, 0x20000)], false, 0x1100..0x21000, Err(HoleReason::FirstSegment)),
            (vec![load(0, 0x21000)], true, 0x1100..0x21000, Err(HoleReason::Shared)),
            (vec![load(0, 0x21000), load(0x4000, 8)], false, 0x1100..0x21000, Err(HoleReason::Shared)),
            (vec![load(0, 0x21000)], false, 0x1100..0x1fff, Err(HoleReason::Small)),
            (vec![load(0, 0x21000)], false, 0x1100..0x3000, Err(HoleReason::Small)),
            (vec![small], false, 0x1100..0x21000, Err(HoleReason::Alignment)),
        ] {
            let data = library(&segments, &sections(has_other), 0x21000);
            let closed = close(&data, std::slice::from_ref(&gap));
            assert_eq!(closed.map(|closing| assert!(closing.left.is_none())), expected, "{gap:x?}");
        }
        let data = library(&[load(0, 0x21000)], &sections(false), 0x21000);
        let gap = 0x1100..0x21000;
        let followed = [&data[..], b"other"].concat();
        assert_eq!(close(&followed, std::slice::from_ref(&gap)).err(), Some(HoleReason::DataAfter));
        let mut other = data.clone();
        other[16] = 1;
        assert_eq!(ensure_can_close(&other), Err(HoleReason::Object));
        // A gap of the second section cannot be closed, that of the first one can.
        let mut two = sections(false);
        two.push(section(1, SHT_PROGBITS, 0x21000, 0x31000, 0x4000));
        let data = library(&[load(0, 0x25000)], &two, 0x25000);
        assert_eq!(close(&data, &[gap, 0x21000..0x25000]).unwrap().left, Some(HoleReason::Shared));
    }

    #[test]
    fn what_another_tool_rewrote_does_not_come_back() {
        let mut numbers = Numbers(3);
        let small = loop {
            let Sample { data, gaps } = sample(&mut numbers);
            if let Some(changes) = closing(&data, &gaps) {
                break changed(&data, &changes);
            }
        };
        assert!(open(&small).unwrap().is_some());
        // Appended data, and a byte in the padding of the headers, in the old and in the new headers.
        let front = ElfLibrary::read(&small).unwrap().loaded().next().unwrap().1.offset;
        let front = usize::try_from(front).unwrap();
        assert!(open(&[&small[..], b"other"].concat()).is_err());
        for at in [front - 1, front + 32, 64 + 32] {
            let mut other = small.clone();
            other[at] ^= 1;
            assert!(!matches!(open(&other), Ok(Some(_))), "{at}");
        }
    }
}
