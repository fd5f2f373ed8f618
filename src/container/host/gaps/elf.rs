//! Gaps of ELF programs and libraries: bytes that nothing uses any more, because the device code there became smaller.
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
//! - The new program headers of a library stand before all else, with a new file header, and are loaded at the first
//!   address of the first gap. All else keeps its address, also the old headers. GNU's `strip` writes program headers
//!   directly after the file header, wherever they were, and here there is room for them.
//! - Those of a program stand in the first gap, behind a copy of the old file header, and both in the header of an
//!   empty fatbin, which cuobjdump skips. Linux before 5.18 looks for them as if they were in the segment that is
//!   loaded first, so only a gap at the same distance between offset and address serves.
//!
//! [`open`] undoes this: the old program headers still stand where they were, and so does the old file header, or its
//! copy. It undoes only what [`close`] would make again.
//!
//! Only little-endian ELF files of 64 bits are changed, which all hosts of GPUs are, and only gaps that lie in one
//! segment and one section alone. System V ABI, chapters 4 and 5, has the fields.

use std::collections::HashSet;
use std::ops::Range;

use object::elf::{
    DF_1_PIE, DT_FLAGS_1, EM_RISCV, EM_S390, EM_X86_64, ET_DYN, ET_EXEC, PF_R, PF_X, PT_DYNAMIC, PT_INTERP, PT_LOAD,
    PT_PHDR, SHF_ALLOC, SHF_EXECINSTR, SHN_LORESERVE, SHT_DYNSYM, SHT_NOBITS, SHT_PROGBITS, SHT_SYMTAB,
};

use super::{change, in_order};
use crate::bytes::{is_zero, len_of, len_u64, slice, tail, to_u64, total};
use crate::container::fatbin;
use crate::container::host::elf::{Encoding, File, Header, Record, Section, Segment, Symbol, Table};
use crate::container::host::moves::Moves;
use crate::io::piece::{Change, Piece};

const ENCODING: Encoding = Encoding::LITTLE_64;
const HEADER_LEN: u64 = 64;
/// The length of the header of a fatbin, if it has no more fields than all have.
const FATBIN_LEN: u64 = 16;
const SEGMENT_LEN: u64 = 56;
const SECTION_LEN: u64 = 64;
const SYMBOL_LEN: usize = 24;
/// The length of an entry of the dynamic section: a tag and a value.
const DYNAMIC_LEN: usize = 16;

/// The largest table of program headers that Linux reads, in bytes.
const TABLE_MAX: u64 = (64 << 10) - HEADER_LEN - FATBIN_LEN - SEGMENT_LEN;

/// The largest number of gaps for which it has room.
const CUTS_MAX: usize = 1100;

/// The largest number of sections that they add: what stands before, in, and after each.
const PARTS_MAX: usize = 3 * CUTS_MAX;

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

/// Whether [`close`] can take bytes out of files like this. Data after all that the headers know of may be found by its
/// offset, as zip files and AppImages are.
pub(crate) fn may_close(data: &[u8]) -> bool {
    let after = ElfProgram::read(data).and_then(|program| tail(data, program.end()?));
    after.is_some_and(is_zero)
}

/// The changes that take whole pages of some gaps, which hold zeros, out of a file; none if nothing can be taken out.
pub(crate) fn close(data: &[u8], gaps: &[Range<u64>]) -> Option<Vec<Change<'static>>> {
    let program = ElfProgram::read(data)?;
    let mut cuts = program.cuts(gaps);
    let room = program.room(&mut cuts)?;
    program.keep_alignment(&mut cuts);
    let closed = program.closed(&cuts, &room)?;
    let split: HashSet<usize> = closed.parts.iter().map(|part| part.of).collect();
    let mut changes = program.renumbered(|section, address| {
        let mut parts = split.contains(&section).then_some(&closed.parts)?.iter();
        parts.rfind(|part| part.of == section && part.start <= address).map(|part| part.index)
    })?;
    let (header, table) = (ENCODING.encode(&[closed.header]), ENCODING.encode(&closed.segments));
    if room.front > 0 {
        let zeros = room.front.checked_sub(len_u64(&header))?.checked_sub(len_u64(&table))?;
        changes.push((0..0, vec![Piece::Bytes([header, table].concat()), Piece::Zeros(zeros)]));
    } else {
        changes.push(change(0, header)?);
        let old = ENCODING.encode(&[program.header]);
        changes.push(change(room.start, wrapped(&[old, table].concat())?)?);
    }
    let saved = total(cuts.iter().map(|cut| len_of(&cut.range)));
    changes.extend(cuts.into_iter().map(|cut| (cut.range, Vec::new())));
    let (headers, sections) = (program.section_headers(program.sections.len())?, ENCODING.encode(&closed.sections));
    let padding = closed.grown.checked_sub(len_u64(&sections).checked_sub(len_of(&headers))?)?;
    changes.push((headers, vec![Piece::Bytes(sections), Piece::Zeros(padding)]));
    in_order(changes).filter(|_| saved > room.front.saturating_add(closed.grown))
}

/// The changes that give a file the bytes back that [`close`] took out of it; none if it took none.
pub(crate) fn open(data: &[u8]) -> Option<Vec<Change<'static>>> {
    let closed = ElfProgram::read(data)?;
    let (_, first) = closed.loaded().next()?;
    let (front, table) = (first.offset, closed.header.segments_at);
    let old_header = if front > 0 { front } else { table.checked_sub(HEADER_LEN)? };
    let header: Header = ENCODING.decode(slice(data, old_header, HEADER_LEN)?);
    let segments: Vec<Segment> = table_at(data, header.segments_at.checked_add(front)?, header.segment_count)?;
    let (sections, added) = closed.sections.split_at_checked(usize::try_from(header.section_count).ok()?)?;
    if added.len() > PARTS_MAX {
        return None;
    }

    let (mut sections, mut owners, mut cuts) = (sections.to_vec(), vec![None; added.len()], Vec::new());
    for (first, of) in added.iter().zip(&mut owners) {
        let is_split = |section: &Section| {
            let names = [section, first].map(|section| (section.name, section.offset));
            section.is(SHT_NOBITS) && names[0] == names[1]
        };
        if let Some(index) = sections.iter().position(is_split) {
            *sections.get_mut(index)? = *first;
            *of = u16::try_from(index).ok();
        }
    }
    let headers = closed.section_headers(sections.len())?;
    let grown = closed.growth(&headers, added.len())?;
    let headers = headers.start..headers.end.checked_add(grown)?;
    let mut replaced = vec![(0..front, 0), (headers.end.checked_sub(grown)?..headers.end, 0)];
    let mut changes = Vec::new();
    for (index, old) in segments.iter().enumerate().filter(|(_, old)| is_loaded(old)) {
        let addresses = old.address..old.address.checked_add(old.size)?;
        let is_part = |part: &&Segment| addresses.contains(&part.address) && (front == 0 || part.offset > 0);
        let mut parts = closed.loaded().map(|(_, part)| part).filter(is_part).peekable();
        while let Some(part) = parts.next() {
            let start = part.address.checked_add(part.size)?;
            let end = parts.peek().map_or(addresses.end, |next| next.address);
            if start >= end {
                continue;
            }
            if cuts.len() == CUTS_MAX {
                return None;
            }
            let at = part.offset.checked_add(part.size)?;
            let size = end.checked_sub(start)?;
            replaced.push((at..at, size));
            changes.push((at..at, vec![Piece::Zeros(size)]));
            let offset = |at: u64| at.checked_sub(old.address)?.checked_add(old.offset);
            let before = (0..).zip(&sections).filter(|(_, section)| end_of(section).is_some_and(|end| end <= start));
            let (owner, _) = before.max_by_key(|(_, section)| section.address)?;
            let section = sections.get_mut(owner)?;
            let mut gap = end_of(section)?..end;
            let mut section_end = end;
            for (next, of) in added.iter().zip(&mut owners).filter(|(_, of)| of.is_none()) {
                if next.address == section_end {
                    section_end = end_of(next)?;
                    gap.end = if next.name != section.name { section_end } else { gap.end };
                    *of = u16::try_from(owner).ok();
                }
            }
            section.size = section_end.checked_sub(section.address)?;
            let gap = offset(gap.start)?..offset(gap.end)?;
            let is_of_cuda = closed.sections.get(owner)?.size > 0;
            cuts.push(Cut { range: offset(start)?..offset(end)?, gap, segment: index, section: owner, is_of_cuda });
        }
    }

    let moves = Moves::new(replaced);
    for section in sections.iter_mut().skip(1) {
        section.offset = moves.moved(section.offset);
    }
    let len = Some(moves.moved(closed.len)).filter(|&len| len <= OPENED_MAX)?;
    let opened = ElfProgram::of(data, len, header, segments, sections)?;
    let start = if front > 0 { cuts.first()?.range.start } else { moves.moved(old_header).checked_sub(FATBIN_LEN)? };
    let again = opened.closed(&cuts, &Room { front, start })?;
    if again.header != closed.header || again.segments != closed.segments || again.sections != closed.sections {
        return None;
    }

    let kept = opened.sections.len();
    changes.extend(closed.renumbered(|section, _| *owners.get(section.checked_sub(kept)?)?)?);
    if front > 0 {
        changes.push((0..front, Vec::new()));
    } else {
        changes.push(change(0, ENCODING.encode(&[header]))?);
        let used = HEADER_LEN.checked_add(FATBIN_LEN)?.checked_add(table_len(&closed.segments))?;
        let start = old_header.checked_sub(FATBIN_LEN)?;
        changes.push((start..start.checked_add(used)?, vec![Piece::Zeros(used)]));
    }
    changes.push((headers, vec![Piece::Bytes(ENCODING.encode(&opened.sections))]));
    in_order(changes)
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

/// Pages of a gap that are taken out of the file.
struct Cut {
    range: Range<u64>,
    /// The whole gap.
    gap: Range<u64>,
    /// The indices of what it lies in.
    segment: usize,
    section: usize,
    /// Whether the section holds fatbins.
    is_of_cuda: bool,
}

/// Where the new program headers are.
struct Room {
    /// The number of bytes that are put before all else, 0 for a program.
    front: u64,
    /// Where the first gap starts in the old file: the addresses of the new headers are those of this offset.
    start: u64,
}

impl Room {
    /// The number of bytes before the file header.
    fn wrapper(&self) -> u64 {
        if self.front > 0 { 0 } else { FATBIN_LEN }
    }
}

/// The file header and the program headers of a program, as the header of a fatbin without entries.
fn wrapped(headers: &[u8]) -> Option<Vec<u8>> {
    let len = u16::try_from(len_u64(headers).checked_add(FATBIN_LEN)?).ok()?;
    Some([&fatbin::MAGIC[..], &1_u16.to_le_bytes(), &len.to_le_bytes(), &0_u64.to_le_bytes(), headers].concat())
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
    /// The number of bytes by which the table of sections grows, with its padding.
    grown: u64,
}

/// The headers of a file.
struct ElfProgram<'d> {
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

impl<'d> ElfProgram<'d> {
    fn read(data: &'d [u8]) -> Option<Self> {
        let file = File::read(data).ok().filter(|file| file.encoding == ENCODING)?;
        let header = file.header;
        // More segments or sections are counted elsewhere.
        let is_readable = header.segment_count <= TABLE_MAX / SEGMENT_LEN && header.section_count > 0;
        if !matches!(header.kind(), ET_DYN | ET_EXEC) || !is_readable {
            return None;
        }
        Self::of(data, len_u64(data), header, file.segments.iter().collect(), file.sections.iter().collect())
    }

    /// A file of `len` bytes with these headers; none if loaders could not map it.
    fn of(data: &'d [u8], len: u64, header: Header, segments: Vec<Segment>, sections: Vec<Section>) -> Option<Self> {
        let mut page = match header.machine() {
            EM_X86_64 | EM_RISCV | EM_S390 => PAGE_MIN,
            _ => PAGE_MAX,
        };
        for segment in segments.iter().filter(|segment| is_loaded(segment)) {
            if !can_be_mapped(segment) {
                return None;
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
        (page >= PAGE_MIN).then_some(Self { data, len, header, segments, sections, page, alignments })
    }

    /// The segments that are loaded, with their indices.
    fn loaded(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.segments.iter().enumerate().filter(|(_, segment)| is_loaded(segment))
    }

    /// The first offset after all headers, segments and sections.
    fn end(&self) -> Option<u64> {
        let segments = table_len(&self.segments).checked_add(self.header.segments_at)?;
        let headers = self.section_headers(self.sections.len())?.end.max(segments);
        let in_file = |section: &&Section| !section.is(SHT_NOBITS);
        let sections = self.sections.iter().filter(in_file).map(|section| (section.offset, section.size));
        let segments = self.segments.iter().map(|segment| (segment.offset, segment.size));
        let mut ends = sections.chain(segments).map(|(start, len)| start.checked_add(len));
        ends.try_fold(headers, |last, end| Some(last.max(end?)))
    }

    /// The pages of gaps that can be taken out, in the order of the file: the largest, up to the number for which there
    /// is room.
    fn cuts(&self, gaps: &[Range<u64>]) -> Vec<Cut> {
        let pages = |gap: &Range<u64>| {
            Some(
                gap.start.checked_next_multiple_of(self.page)?
                    ..gap.end.checked_div(self.page)?.checked_mul(self.page)?,
            )
        };
        let mut whole: Vec<_> = gaps.iter().filter_map(|gap| Some((gap, pages(gap)?))).collect();
        whole.retain(|(_, range)| !range.is_empty());
        whole.sort_by_key(|(_, range)| std::cmp::Reverse(len_of(range)));
        whole.truncate(CUTS_MAX);
        whole.sort_by_key(|(gap, _)| gap.start);
        whole.into_iter().filter_map(|(gap, range)| self.cut(gap, range)).collect()
    }

    /// Pages of a gap, if it lies in one segment and one section alone.
    fn cut(&self, gap: &Range<u64>, mut range: Range<u64>) -> Option<Cut> {
        let meets = |start: u64, len: u64| len > 0 && start < gap.end && start.saturating_add(len) > gap.start;
        let mut segments = (0..).zip(&self.segments).filter(|(_, segment)| meets(segment.offset, segment.size));
        let mut sections = (0..)
            .zip(&self.sections)
            .filter(|(_, section)| !section.is(SHT_NOBITS) && meets(section.offset, section.size));
        let ((segment, in_memory), (index, section)) = (segments.next()?, sections.next()?);
        let is_alone = segments.next().is_none() && sections.next().is_none();
        let (offset, len) = (in_memory.offset, in_memory.size);
        let end = offset.checked_add(len)?;
        // Memory that follows the bytes of the segment stays behind some of them.
        if range.end == end && in_memory.memory > len {
            range.end = range.end.checked_sub(self.page)?;
        }
        let address = |start: u64, base: u64| gap.start.checked_sub(start)?.checked_add(base);
        let is_loaded = in_memory.is(PT_LOAD)
            && section.is(SHT_PROGBITS)
            && section.flags & SHF_ALLOC.0 != 0
            && gap.end <= end.min(section.offset.checked_add(section.size)?)
            && address(offset, in_memory.address)? == address(section.offset, section.address)?;
        let is_of_cuda =
            slice(self.data, section.offset, section.size).is_some_and(|bytes| bytes.starts_with(&fatbin::MAGIC));
        let cut = Cut { range, gap: gap.clone(), segment, section: index, is_of_cuda };
        (is_alone && is_loaded && !cut.range.is_empty()).then_some(cut)
    }

    /// Makes room for the new program headers at the start of a gap, which is then the first.
    fn room(&self, cuts: &mut Vec<Cut>) -> Option<Room> {
        let is_program = self.is_program();
        while !cuts.is_empty() {
            let count = to_u64(self.segments.len()).checked_add(to_u64(cuts.len()))?.checked_add(1)?;
            let wrapper = if is_program { FATBIN_LEN } else { 0 };
            let len = wrapper.checked_add(HEADER_LEN)?.checked_add(count.checked_mul(SEGMENT_LEN)?)?;
            let first = cuts.first_mut()?;
            let start = if is_program { first.gap.start.checked_next_multiple_of(8)? } else { first.range.start };
            let end = start.checked_add(len)?.checked_next_multiple_of(self.page)?;
            if len > TABLE_MAX + HEADER_LEN {
                cuts.pop();
            } else if end >= first.range.end || is_program && !self.may_hold_headers(first.segment) {
                cuts.remove(0);
            } else if is_program {
                first.range.start = end;
                return (self.header.segments_at < start).then_some(Room { front: 0, start });
            } else {
                let front = len.checked_next_multiple_of(self.alignment_from(0).max(self.page))?;
                let is_first = self.loaded().next().is_some_and(|(_, first)| first.offset == 0);
                return is_first.then_some(Room { front, start });
            }
        }
        None
    }

    /// Whether program headers are found in a segment. Linux before 5.18 tells a program where they are as if they
    /// were in the first segment that is loaded.
    fn may_hold_headers(&self, segment: usize) -> bool {
        let shift = |segment: &Segment| segment.address.wrapping_sub(segment.offset);
        let first = self.loaded().next().map(|(_, first)| shift(first));
        self.segments.get(segment).map(shift) == first
    }

    /// Whether the file is a program, not only a library.
    fn is_program(&self) -> bool {
        let has = |wanted| self.segments.iter().find(|segment| segment.is(wanted));
        let dynamic = has(PT_DYNAMIC).and_then(|segment| slice(self.data, segment.offset, segment.size));
        let entries = dynamic.unwrap_or_default().chunks_exact(DYNAMIC_LEN);
        let mut entries = entries
            .map(|entry| entry.split_at(DYNAMIC_LEN / 2))
            .map(|(tag, value)| (ENCODING.read(tag), ENCODING.read(value)));
        let is_flags = |tag: u64| i64::try_from(tag) == Ok(DT_FLAGS_1.0);
        self.header.kind() == ET_EXEC
            || has(PT_INTERP).is_some()
            || entries
                .by_ref()
                .take_while(|(tag, _)| *tag > 0)
                .any(|(tag, value)| is_flags(tag) && value & DF_1_PIE.0 != 0)
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

    /// Where the first section headers are.
    fn section_headers(&self, count: usize) -> Option<Range<u64>> {
        let start = self.header.sections_at;
        Some(start..start.checked_add(to_u64(count).checked_mul(SECTION_LEN)?)?)
    }

    /// The number of bytes by which the table of sections, which is at `headers`, grows with some more. None if it is
    /// loaded.
    fn growth(&self, headers: &Range<u64>, added: usize) -> Option<u64> {
        let is_loaded = |segment: &Segment| {
            let start = segment.offset;
            start < headers.end && start.saturating_add(segment.size) > headers.start
        };
        if self.loaded().any(|(_, segment)| is_loaded(segment)) {
            return None;
        }
        let len = to_u64(added).checked_mul(SECTION_LEN)?;
        len.checked_next_multiple_of(self.alignment_from(headers.end).max(1))
    }

    /// The file without the gaps.
    fn closed(&self, cuts: &[Cut], room: &Room) -> Option<Closed> {
        let (mut sections, parts) = self.split_sections(cuts)?;
        let headers = self.section_headers(self.sections.len())?;
        let grown = self.growth(&headers, sections.len().checked_sub(self.sections.len())?)?;
        let mut replaced = vec![(0..0, room.front), (headers.end..headers.end, grown)];
        replaced.extend(cuts.iter().map(|cut| (cut.range.clone(), 0)));
        let moves = Moves::new(replaced);
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
        let mut header = self.header;
        header.segments_at = self.table(room, &moves)?;
        header.segment_count = u16::try_from(segments.len()).ok()?.into();
        header.sections_at = moves.moved(headers.start);
        header.section_count = u16::try_from(sections.len()).ok().filter(|count| *count < SHN_LORESERVE)?.into();
        (!cuts.is_empty()).then_some(Closed { header, segments, sections, parts, grown })
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
                if room.front > 0 && range.start == room.start {
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
        let is_header = |segment: &Segment| is_loaded(segment) && segment.offset == 0 && room.front > 0;
        for segment in &mut segments {
            if is_header(segment) {
                segment.size = headers_len;
                (segment.memory >= headers_len).then_some(())?;
            } else if segment.is(PT_PHDR) {
                let table = headers_address?.checked_add(HEADER_LEN)?.checked_add(room.wrapper())?;
                segment.offset = self.table(room, moves)?;
                segment.physical = segment.physical.wrapping_add(table).wrapping_sub(segment.address);
                segment.address = table;
                segment.size = table_len;
                segment.memory = table_len;
            }
        }
        // The gap that headers are loaded into may be needed for the alignment of what follows.
        let has_headers = room.front == 0 || segments.iter().any(is_header);
        // Segments that share bytes of the file do not move together.
        let can_be_loaded = segments.iter().filter(|segment| is_loaded(segment)).all(can_be_mapped);
        (has_headers && can_be_loaded).then_some(segments)
    }

    /// The offset of the new program headers.
    fn table(&self, room: &Room, moves: &Moves) -> Option<u64> {
        let header = if room.front > 0 { 0 } else { moves.moved(room.start) };
        header.checked_add(HEADER_LEN)?.checked_add(room.wrapper())
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

    /// A file with device code that has gaps, and what is asked of it.
    struct Sample {
        data: Vec<u8>,
        gaps: Vec<Range<u64>>,
        is_program: bool,
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
        let is_program = numbers.below(2) == 0;
        let has_early_headers = numbers.below(3) == 0;
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
        end += numbers.below(50);

        let mut data: Vec<u8> = (0..end).map(|at| (at % 251).to_le_bytes()[0] + 1).collect();
        for gap in &gaps {
            data[usize::try_from(gap.start).unwrap()..usize::try_from(gap.end).unwrap()].fill(0);
        }
        let base = if numbers.below(2) == 0 { 0 } else { 4 * align };
        let mut segments = vec![
            segment(PT_LOAD, 0, base, first, first + numbers.below(2) * (shift / 2), align),
            segment(PT_LOAD, second, base + shift + second, second_len, second_len + numbers.below(page), align),
            segment(PT_DYNAMIC, second, base + shift + second, 16, 16, 8),
        ];
        if is_program {
            segments.insert(0, segment(PT_PHDR, 64, base + 64, 56 * 5, 56 * 5, 8));
            segments.push(segment(PT_INTERP, 0x400, base + 0x400, 20, 20, 1));
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
        Sample { data, gaps, is_program }
    }

    /// What the program headers load: runs of addresses, and their bytes.
    fn memory(data: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let program = ElfProgram::read(data).unwrap();
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

    #[test]
    fn what_is_loaded_stays_and_all_comes_back() {
        let mut numbers = Numbers(1);
        let mut closed = [0, 0];
        for round in 0..if cfg!(miri) { 3 } else { 20 } {
            let Sample { data, gaps, is_program } = sample(&mut numbers);
            let Some(changes) = close(&data, &gaps) else { continue };
            closed[usize::from(is_program)] += 1;
            let small = changed(&data, &changes);
            assert!(small.len() < data.len(), "{round}: not shorter");
            // The new headers are loaded where a gap was; those of a program have other bytes.
            let (mut before, mut after) = (memory(&data), memory(&small));
            for memory in [&mut before, &mut after] {
                let run = &mut memory[0].1;
                for gap in gaps.iter().chain([&(0..HEADER_LEN)]) {
                    run[usize::try_from(gap.start).unwrap()..usize::try_from(gap.end).unwrap()].fill(0);
                }
            }
            assert!(before == after, "{round}: other bytes are loaded");
            // Each symbol is in a section with its address.
            let new = ElfProgram::read(&small).unwrap();
            let symbols = new.sections.iter().find(|section| section.is(SHT_SYMTAB)).unwrap();
            let symbols = slice(&small, symbols.offset, symbols.size).unwrap();
            for symbol in Table::<Symbol>::new(ENCODING, symbols).iter() {
                let section = &new.sections[usize::try_from(symbol.section).unwrap()];
                assert!(section.address <= symbol.value && section.is(SHT_PROGBITS));
            }
            let back = changed(&small, &open(&small).expect("it does not come back"));
            assert!(back == data, "{round}: other bytes come back");
            assert!(open(&data).is_none());
        }
        assert!(closed.iter().all(|&count| cfg!(miri) || count > 3), "{closed:?} files were closed");
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
    fn only_programs_whose_headers_are_known_are_read() {
        let sections = [section(0, object::elf::SHT_NULL, 0, 0, 0)];
        let data = library(&[segment(PT_LOAD, 0, 0, 0x1000, 0x1000, PAGE_MIN)], &sections, 0x1000);
        assert!(ElfProgram::read(&data).is_some());
        // Class, byte order, type, sizes of headers, number of sections.
        for (at, byte) in [(0, 0), (4, 1), (5, 2), (16, 1), (16, 4), (54, 55), (58, 63), (60, 0)] {
            let mut damaged = data.clone();
            damaged[at] = byte;
            assert!(ElfProgram::read(&damaged).is_none(), "{at}");
        }
        let most = usize::try_from(TABLE_MAX / SEGMENT_LEN).unwrap();
        for (count, is_readable) in [(most, true), (most + 1, false)] {
            let data = library(&vec![segment(PT_INTERP, 0, 0, 0, 0, 1); count], &sections, 0x20000);
            assert_eq!(ElfProgram::read(&data).is_some(), is_readable, "{count}");
        }
    }

    #[test]
    fn programs_are_told_from_libraries() {
        let entry = |tag: i64, value: u64| [tag.to_le_bytes(), value.to_le_bytes()].concat();
        let (end, flags) = (entry(object::elf::DT_NULL.0, 0), |value| entry(DT_FLAGS_1.0, value));
        let pie = DF_1_PIE.0;
        for (dynamic, is_program) in [
            ([flags(pie), end.clone()], true),
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
            assert_eq!(ElfProgram::read(&data).unwrap().is_program(), is_program, "{dynamic:?}");
            data[64 + 2 * 56] = 3;
            assert!(ElfProgram::read(&data).unwrap().is_program(), "with an interpreter");
            (data[64 + 2 * 56], data[16]) = (6, 2);
            assert!(ElfProgram::read(&data).unwrap().is_program(), "not position-independent");
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
            let cuts = ElfProgram::read(&data).unwrap().cuts(&[gap]);
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
            let small = changed(&data, &close(&data, std::slice::from_ref(&gap)).unwrap());
            let program = ElfProgram::read(&small).unwrap();
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
            let changes = ElfProgram::read(&data).unwrap().renumbered(|_, _| Some(2));
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
            let changes = close(&data, &gaps);
            assert_eq!(changes.is_some(), is_closed, "{second:#x}");
            let Some(changes) = changes else { continue };
            let small = changed(&data, &changes);
            segments = ElfProgram::read(&small).unwrap().segments;
            let table = segments.iter().find(|segment| segment.is(PT_PHDR)).unwrap();
            let start = usize::try_from(table.address).unwrap();
            let (_, loaded) = memory(&small).swap_remove(0);
            assert!(loaded[start..].starts_with(&ENCODING.encode(&segments)), "{second:#x}");
            assert!(changed(&small, &open(&small).unwrap()) == data);
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
            let changes = close(&data, std::slice::from_ref(&gap));
            assert_eq!(changes.is_some(), shared == 0x100_000);
            changes.into_iter().for_each(|changes| drop(memory(&changed(&data, &changes))));
        }
    }

    #[test]
    fn damaged_headers_end_in_nothing_or_in_what_comes_back() {
        let mut numbers = Numbers(2);
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            let Sample { data, gaps, .. } = sample(&mut numbers);
            let Some(changes) = close(&data, &gaps) else { continue };
            for mut damaged in [data.clone(), changed(&data, &changes)] {
                for _ in 0..200 {
                    let at = usize::try_from(numbers.below(512)).unwrap();
                    let old = std::mem::replace(&mut damaged[at], u8::try_from(numbers.below(256)).unwrap());
                    let gaps = if damaged.len() == data.len() { &gaps[..] } else { &[] };
                    for changes in [close(&damaged, gaps), open(&damaged)].into_iter().flatten() {
                        changed(&damaged, &changes);
                    }
                    damaged[at] = old;
                }
            }
        }
    }
}
