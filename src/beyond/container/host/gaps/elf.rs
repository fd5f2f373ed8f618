//! Gaps of ELF libraries: bytes that nothing uses any more, because the device code there became smaller.
//!
//! [`close`] takes whole pages of gaps out of the file and changes no address. Loaders and debuggers read the result.
//! After some sequences of `strip`, `objcopy` and `patchelf` it no longer loads, so only finished files are closed:
//!
//! - The segment around a gap is split. The part before it has fewer bytes in the file than in memory, and the part
//!   after it has another program header. The segments after it move by multiples of the alignment that they need,
//!   which may be less than linkers gave them.
//! - The section is split too. Its parts are new sections of its name, at the end of the table. The old one becomes a
//!   section without contents, at an address after all segments. If it holds fatbins, it has the range of all parts in
//!   the file, because NVIDIA's cuobjdump reads just the first section of a name, whatever its type is. `eu-elflint`
//!   reports that. Otherwise it is empty.
//! - The new program headers come first in the file, with a new file header, and are loaded at the first address of the
//!   first gap. Everything else keeps its address, also the old headers.
//! - The new section headers come last in the file, and the old ones stay. As many zeros follow the new ones as precede
//!   them to align them.
//!
//! [`open`] undoes this, since all old headers are still there. It refuses a file if [`close`] would not make the same
//! file again, because another tool has changed it then. So with any other layout, files that were closed before would
//! not come back.
//!
//! Programs stay as they are: Linux before 5.18 expects their headers in the first segment.
//!
//! Only little-endian ELF files of 64 bits are changed, which all hosts of GPUs have, and only gaps in a single segment
//! and a single section. System V ABI, chapters 4 and 5, has the fields.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use object::elf::{
    DF_1_PIE, DT_DEBUG, DT_FLAGS_1, EM_RISCV, EM_S390, EM_X86_64, ET_DYN, ET_EXEC, ET_REL, PF_R, PF_X, PT_DYNAMIC,
    PT_INTERP, PT_LOAD, PT_PHDR, ProgramType, SHF_ALLOC, SHF_EXECINSTR, SHN_LORESERVE, SHT_DYNSYM, SHT_NOBITS,
    SHT_PROGBITS, SHT_SYMTAB,
};

use super::{GapRemoval, HoleReason, RewrittenSince, replace_bytes, sort_changes};
use crate::base::bytes::{bytes_in, is_zero, len_of, len_u64, slice, span, tail, to_u64, total};
use crate::base::io::piece::Piece;
use crate::beyond::base::io::ChangedRange;
use crate::beyond::code::elf::{Encoding, File, Header, Record, Section, Segment, Symbol, Table};
use crate::beyond::container::fatbin;
use crate::llvm::container::host::moves::OffsetMap;

const ENCODING: Encoding = Encoding::LITTLE_64;
const HEADER_LEN: u64 = 64;
const SEGMENT_LEN: u64 = 56;
const SECTION_LEN: u64 = 64;
const SYMBOL_LEN: usize = 24;
/// The length of an entry of the dynamic section: a tag and a value.
const DYNAMIC_LEN: usize = 16;

/// The largest table of program headers, in bytes. Linux reads no more than 64 KiB, and here these also have room for
/// the file header and one more program header.
const TABLE_MAX: u64 = (64 << 10) - HEADER_LEN - SEGMENT_LEN;

/// The largest number of gaps that are removed. Each needs a program header in a table of [`TABLE_MAX`] bytes.
const GAPS_MAX: usize = 1100;

/// The largest number of sections that [`GAPS_MAX`] gaps add: for each gap one before it, one in it and one after it.
const PARTS_MAX: usize = 3 * GAPS_MAX;

/// The alignment of the section headers, in bytes.
const TABLE_ALIGNMENT: u64 = 8;

/// The largest file that [`open`] makes, in bytes. Real files are shorter, and file systems can hold this length.
const OPENED_MAX: u64 = 1 << 40;

/// The smallest page of the hosts of GPUs, in bytes.
const PAGE_MIN: u64 = 4 << 10;

/// The largest page of the hosts of GPUs, in bytes.
const PAGE_MAX: u64 = 64 << 10;

/// The largest number of segments, aligned to more than a page, whose sections are searched for the alignment that they
/// need. If a file has more, all keep their alignment.
const ALIGNED_MAX: usize = 32;

/// The largest number of symbols that get another section. Each is a separate change in memory.
const SYMBOLS_MAX: usize = 1 << 16;

/// The offset of the section number in a symbol, in bytes.
const SYMBOL_SECTION: u64 = 6;

/// Ensures that [`close`] can take bytes out of files like this, if the gaps allow it.
pub(crate) fn ensure_can_close(data: &[u8]) -> Result<(), HoleReason> {
    let library = ElfLibrary::read(data)?;
    if library.is_program() {
        return Err(HoleReason::Program);
    }
    // Data after everything in the headers may be found by its offset, as zip files are.
    let after = library.end().ok_or(HoleReason::Headers)?;
    match tail(data, after) {
        Some(rest) if !is_zero(rest) => Err(HoleReason::DataAfter),
        _ => Ok(()),
    }
}

/// Returns the changes that take whole pages of some gaps, which hold zeros, out of a file.
pub(crate) fn close(data: &[u8], gaps: &[Range<u64>]) -> Result<GapRemoval, HoleReason> {
    ensure_can_close(data)?;
    let library = ElfLibrary::read(data)?;
    // `open` finds the old file header at the start of the first segment.
    match library.loaded_segments().next() {
        Some((_, first)) if first.offset == 0 => {}
        _ => return Err(HoleReason::FirstSegment),
    }
    let (mut removed, mut stay_reason) = library.select_pages(gaps);
    if removed.is_empty() {
        return Err(stay_reason.unwrap_or(HoleReason::Small));
    }
    // `reserve_headers` leaves out whole gaps. `keep_alignment` then shortens the pages of the gaps that remain.
    let front = library.reserve_headers(&mut removed)?;
    let selected_len = removed_len(&removed);
    library.keep_alignment(&mut removed);
    if removed.is_empty() {
        return Err(HoleReason::Alignment);
    }
    let saved = removed_len(&removed);
    if saved < selected_len && stay_reason.is_none() {
        stay_reason = Some(HoleReason::Alignment);
    }
    let closed = library.close_gaps(&removed, &front).ok_or(HoleReason::Headers)?;
    closed.ensure_loaded(&library, &removed, &front)?;
    let symbol_changes = library.move_symbols_to_parts(&closed).ok_or(HoleReason::Limits)?;
    let changes = closed.changes(&front, removed, symbol_changes, library.len);
    let (changes, added) = changes.ok_or(HoleReason::Shared)?;
    if saved > added { Ok(GapRemoval { changes, stay_reason }) } else { Err(HoleReason::Small) }
}

/// Returns the changes that give a file the bytes back that [`close`] took out of it, or `None` if it took none.
pub(crate) fn open(data: &[u8]) -> Result<Option<Vec<ChangedRange<'static>>>, RewrittenSince> {
    let Ok(library) = ElfLibrary::read(data) else { return Ok(None) };
    if !library.has_parts() {
        return Ok(None);
    }
    Ok(Some(library.undo().ok_or(RewrittenSince)?))
}

fn is_loaded(segment: &Segment) -> bool {
    segment.is(PT_LOAD)
}

/// Whether loaders accept a segment. Its bytes must fit into its memory, and loaders map whole pages, so its offset and
/// its address must be at the same distance from an aligned one.
fn can_be_mapped(segment: &Segment) -> bool {
    let align = segment.alignment;
    if !align.is_power_of_two() || segment.size > segment.memory {
        return false;
    }
    segment.offset.checked_rem(align) == segment.address.checked_rem(align)
}

fn is_in_memory(section: &Section) -> bool {
    section.flags & SHF_ALLOC.0 != 0
}

/// Whether some bytes of `range` are among the `len` bytes from `start`.
fn overlaps(range: &Range<u64>, start: u64, len: u64) -> bool {
    len > 0 && start < range.end && start.saturating_add(len) > range.start
}

/// Returns the item of an iterator that has exactly one, otherwise `None`.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    match items.next() {
        None => Some(first),
        Some(_) => None,
    }
}

/// Converts an offset into an address, or an address into an offset. `from` and `to` are the same byte in both
/// systems. Returns `None` if `at` is before `from`.
fn translate(at: u64, from: u64, to: u64) -> Option<u64> {
    at.checked_sub(from)?.checked_add(to)
}

/// Reads the `count` records of the table at the offset `at`.
fn table_at<R: Record>(data: &[u8], at: u64, count: u64) -> Option<Vec<R>> {
    let bytes = slice(data, at, count.checked_mul(ENCODING.len_of::<R>())?)?;
    Some(Table::new(ENCODING, bytes).iter().collect())
}

/// The length of a table of program headers.
fn table_len(segments: &[Segment]) -> u64 {
    to_u64(segments.len()).saturating_mul(SEGMENT_LEN)
}

/// The address after a section.
fn end_of(section: &Section) -> Option<u64> {
    section.address.checked_add(section.size)
}

/// The number of zeros before section headers after data that ends at an offset.
fn padding_at(end: u64) -> Option<u64> {
    end.checked_next_multiple_of(TABLE_ALIGNMENT)?.checked_sub(end)
}

/// Pages of a gap that are taken out of the file.
struct RemovedPages {
    range: Range<u64>,
    /// The whole gap, with its bytes before and after the removed pages, which stay in the file.
    gap: Range<u64>,
    /// The index of the segment that holds the gap.
    segment: usize,
    /// The index of the section that holds the gap.
    section: usize,
    /// Whether that section holds fatbins.
    holds_fatbins: bool,
}

/// The number of bytes in all removed pages.
fn removed_len(removed: &[RemovedPages]) -> u64 {
    total(ranges(removed).map(len_of))
}

/// The space for the new program headers at the front of the file.
struct FrontHeaders {
    /// The number of bytes that are put before everything else.
    len: u64,
    /// The start of the first removed pages in the old file. The new headers are loaded at the address of this offset.
    start: u64,
}

/// A part of a section that was split.
struct SectionPart {
    /// The index of the section that was split.
    section: usize,
    /// The first address of the part.
    start: u64,
    /// The index of the new section that is this part.
    index: u16,
}

/// The headers of a file without some gaps.
struct ClosedHeaders {
    header: Header,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// In the order of their addresses in each section.
    parts: Vec<SectionPart>,
    /// The number of zeros that align the section headers, before them and again after them. [`open`] counts the
    /// latter.
    padding: u64,
}

impl ClosedHeaders {
    /// Returns the index of the part of a section that holds an address, or `None` if no part begins at or before it.
    fn part_at(&self, section: usize, address: u64) -> Option<u16> {
        let mut parts = self.parts.iter();
        let part = parts.rfind(|part| part.section == section && part.start <= address)?;
        Some(part.index)
    }

    /// Returns all changes of a file of `len` bytes in their order, and the number of bytes that they insert. `changes`
    /// are the changes of symbols, to which those of headers and pages are added. Returns `None` if the new headers at
    /// the front do not fit into their space, or if changes share bytes.
    ///
    /// The old headers stay in the file: their bytes keep their addresses, and [`open`] reads them.
    fn changes(
        &self,
        front: &FrontHeaders,
        removed: Vec<RemovedPages>,
        mut changes: Vec<ChangedRange<'static>>,
        len: u64,
    ) -> Option<(Vec<ChangedRange<'static>>, u64)> {
        let (header, table) = (ENCODING.encode(&[self.header]), ENCODING.encode(&self.segments));
        let zeros = front.len.checked_sub(len_u64(&header))?.checked_sub(len_u64(&table))?;
        changes.push((0..0, vec![Piece::Bytes([header, table].concat()), Piece::Zeros(zeros)]));
        changes.extend(removed.into_iter().map(|pages| (pages.range, Vec::new())));
        let (sections, padding) = (ENCODING.encode(&self.sections), self.padding);
        // Only inserted bytes count here: changed symbols keep their length, and the caller subtracts the removed
        // pages.
        let added = total([front.len, padding, len_u64(&sections), padding]);
        // The first padding aligns the section headers. The second one has the same length and ends the file, so that
        // `open` knows the length of the first.
        changes.push((len..len, vec![Piece::Zeros(padding), Piece::Bytes(sections), Piece::Zeros(padding)]));
        Some((sort_changes(changes)?, added))
    }

    /// Ensures that loaders find each byte of the old segments, except those of gaps, at its address. Segments that
    /// share bytes or addresses may prevent this.
    fn ensure_loaded(
        &self,
        old: &ElfLibrary<'_>,
        removed: &[RemovedPages],
        front: &FrontHeaders,
    ) -> Result<(), HoleReason> {
        let loaded: Vec<&Segment> = self.segments.iter().filter(|segment| is_loaded(segment)).collect();
        // If `keep_alignment` gave back all pages of the first gap, no segment loads the new headers.
        let has_headers = loaded.iter().any(|segment| segment.offset == 0);
        if !has_headers || !loaded.iter().all(|segment| can_be_mapped(segment)) {
            return Err(HoleReason::Alignment);
        }
        let moves = moves_without(front.len, ranges(removed));
        for (_, segment) in old.loaded_segments() {
            let (mut at, end) = (segment.offset, segment.offset.saturating_add(segment.size));
            let shift = segment.address.wrapping_sub(segment.offset);
            // Each step checks the first byte of a range that one new segment holds, and goes to the end of that range.
            while at < end {
                if let Some(pages) = removed.iter().find(|pages| pages.range.contains(&at)) {
                    at = pages.range.end;
                    continue;
                }
                let address = at.wrapping_add(shift);
                let parts = loaded.iter().filter(|part| span(part.address, part.size).contains(&address));
                let part = only(parts).ok_or(HoleReason::Shared)?;
                if address.wrapping_sub(part.address).wrapping_add(part.offset) != moves.moved(at) {
                    return Err(HoleReason::Shared);
                }
                at = part.address.saturating_add(part.size).wrapping_sub(shift).min(end);
            }
        }
        Ok(())
    }
}

/// Returns the new offsets of the bytes of a file when headers of `front_len` bytes are put in front, and ranges are
/// removed.
fn moves_without<'r>(front_len: u64, removed: impl Iterator<Item = &'r Range<u64>>) -> OffsetMap {
    let mut replaced = vec![(0..0, front_len)];
    replaced.extend(removed.map(|range| (range.clone(), 0)));
    OffsetMap::new(replaced)
}

/// The ranges of all removed pages.
fn ranges(removed: &[RemovedPages]) -> impl Iterator<Item = &Range<u64>> {
    removed.iter().map(|pages| &pages.range)
}

/// A file before [`close`] took pages out of it, as the closed file records it.
struct OldFile<'d> {
    library: ElfLibrary<'d>,
    removed: Vec<RemovedPages>,
    front: FrontHeaders,
    /// The number of zeros that [`close`] wrote before its section headers, and again after them.
    padding: u64,
}

/// The headers of a linked file.
struct ElfLibrary<'d> {
    data: &'d [u8],
    /// The length of the file with these headers. If [`open`] has restored them, `data` is another file: the closed
    /// one.
    len: u64,
    header: Header,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    /// The size of the pages that loaders map.
    page: u64,
    /// The alignment that each segment needs. Linkers align some to pages of 2 MiB, more than their sections need. With
    /// a smaller alignment, more pages can be removed before a segment.
    alignments: Vec<u64>,
}

impl<'d> ElfLibrary<'d> {
    /// Reads the headers of a linked file. The error says why its gaps have to stay.
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
        // If there are too many sections for the field of the header, it has 0, and another field has their number.
        // That field is not read.
        if header.segment_count > TABLE_MAX / SEGMENT_LEN || header.section_count == 0 {
            return Err(HoleReason::Limits);
        }
        let (segments, sections) = (file.segments.iter().collect(), file.sections.iter().collect());
        Self::with_headers(data, len_u64(data), header, segments, sections)
    }

    /// Makes the description of a file with these headers, which need not be those of `data`. `len` is the length of
    /// that file.
    fn with_headers(
        data: &'d [u8],
        len: u64,
        header: Header,
        segments: Vec<Segment>,
        sections: Vec<Section>,
    ) -> Result<Self, HoleReason> {
        // Other hosts may have pages of several sizes. Multiples of the largest size are multiples of all.
        let mut page = match header.machine() {
            EM_X86_64 | EM_RISCV | EM_S390 => PAGE_MIN,
            _ => PAGE_MAX,
        };
        for segment in &segments {
            if !is_loaded(segment) {
                continue;
            }
            if !can_be_mapped(segment) {
                return Err(HoleReason::Headers);
            }
            // Loaders map whole pages, so a host that loads the segment has no pages larger than its alignment.
            page = page.min(segment.alignment);
        }
        if page < PAGE_MIN {
            return Err(HoleReason::Alignment);
        }
        let mut library = Self { data, len, header, segments, sections, page, alignments: Vec::new() };
        library.alignments = library.needed_alignments();
        Ok(library)
    }

    /// Returns the alignment that each segment needs. A segment that is aligned to a page or less keeps its alignment.
    fn needed_alignments(&self) -> Vec<u64> {
        let mut alignments: Vec<u64> = self.segments.iter().map(|segment| segment.alignment).collect();
        let large: Vec<usize> = self
            .loaded_segments()
            .filter(|(_, segment)| segment.alignment > self.page)
            .map(|(index, _)| index)
            .collect();
        // Each search looks at every section, so many such segments would take long.
        if large.len() > ALIGNED_MAX {
            return alignments;
        }
        for index in large {
            if let (Some(segment), Some(alignment)) = (self.segments.get(index), alignments.get_mut(index)) {
                *alignment = self.needed_alignment(segment);
            }
        }
        alignments
    }

    /// Returns the largest alignment of the sections in a segment, but at least a page and at most its own.
    fn needed_alignment(&self, segment: &Segment) -> u64 {
        let memory = span(segment.address, segment.memory);
        let mut needed = self.page;
        for section in &self.sections {
            if is_in_memory(section) && memory.contains(&section.address) {
                needed = needed.max(section.alignment);
            }
        }
        needed.min(segment.alignment)
    }

    /// The segments that are loaded, with their indices.
    fn loaded_segments(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.segments.iter().enumerate().filter(|(_, segment)| is_loaded(segment))
    }

    fn find_segment(&self, kind: ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.is(kind))
    }

    /// Whether [`close`] split a section: then a section without contents has the same name as one with contents.
    fn has_parts(&self) -> bool {
        let mut names = HashSet::new();
        for section in &self.sections {
            if is_in_memory(section) && section.is(SHT_PROGBITS) {
                names.insert(section.name);
            }
        }
        let mut sections = self.sections.iter();
        sections.any(|section| is_in_memory(section) && section.is(SHT_NOBITS) && names.contains(&section.name))
    }

    /// Whether the file is a program, or a library that can be run as one. Linkers put `DT_DEBUG` into programs only,
    /// also into static ones. Older linkers do not set `DF_1_PIE`, so nothing else distinguishes their static
    /// position-independent programs from libraries.
    fn is_program(&self) -> bool {
        if self.header.kind() == ET_EXEC || self.find_segment(PT_INTERP).is_some() {
            return true;
        }
        self.dynamic_entries().any(|(tag, value)| {
            let is_marked_as_program = tag == DT_FLAGS_1.0 && value & DF_1_PIE.0 != 0;
            tag == DT_DEBUG.0 || is_marked_as_program
        })
    }

    /// The tags and values in the dynamic segment, up to its last entry, `DT_NULL`.
    fn dynamic_entries(&self) -> impl Iterator<Item = (i64, u64)> {
        let segment = self.find_segment(PT_DYNAMIC);
        let table = segment.and_then(|segment| slice(self.data, segment.offset, segment.size)).unwrap_or_default();
        let entries = table.chunks_exact(DYNAMIC_LEN).map(|entry| {
            let (tag, value) = entry.split_at(DYNAMIC_LEN / 2);
            (i64::try_from(ENCODING.read(tag)).unwrap_or(0), ENCODING.read(value))
        });
        entries.take_while(|(tag, _)| *tag != 0)
    }

    /// Returns the first offset after all headers, segments and sections.
    fn end(&self) -> Option<u64> {
        let segments = table_len(&self.segments).checked_add(self.header.segments_at)?;
        let sections = to_u64(self.sections.len()).checked_mul(SECTION_LEN)?.checked_add(self.header.sections_at)?;
        let mut end = segments.max(sections);
        for section in &self.sections {
            if !section.is(SHT_NOBITS) {
                end = end.max(section.offset.checked_add(section.size)?);
            }
        }
        for segment in &self.segments {
            end = end.max(segment.offset.checked_add(segment.size)?);
        }
        Some(end)
    }

    /// Returns the pages of gaps that can be taken out, in the order of the file, and why the largest other gap stays.
    /// If there are more than [`GAPS_MAX`] gaps, it selects the largest.
    fn select_pages(&self, gaps: &[Range<u64>]) -> (Vec<RemovedPages>, Option<HoleReason>) {
        let mut by_size: Vec<_> = gaps.iter().collect();
        by_size.sort_by_key(|gap| Reverse(len_of(gap)));
        // The first reason is that of the largest gap.
        let (mut removed, mut stay_reason) = (Vec::new(), None);
        for gap in by_size {
            let pages = if removed.len() < GAPS_MAX { self.pages_of_gap(gap) } else { Err(HoleReason::Limits) };
            match pages {
                Ok(pages) => removed.push(pages),
                // A gap without whole pages needs no reason.
                Err(HoleReason::Small) => {}
                Err(reason) if len_of(gap) > self.page && stay_reason.is_none() => stay_reason = Some(reason),
                // A larger gap has a reason already, or this gap is hardly worth one.
                Err(_) => {}
            }
        }
        removed.sort_by_key(|pages| pages.gap.start);
        (removed, stay_reason)
    }

    /// Returns the whole pages of a gap, or the reason why they cannot be removed. The gap must be in one loaded
    /// segment and in one section, and both must give it the same address.
    fn pages_of_gap(&self, gap: &Range<u64>) -> Result<RemovedPages, HoleReason> {
        let (segment_index, segment) = self.segment_with(gap).ok_or(HoleReason::Shared)?;
        let (section_index, section) = self.section_with(gap).ok_or(HoleReason::Shared)?;
        if !is_loaded(segment) || !section.is(SHT_PROGBITS) || !is_in_memory(section) {
            return Err(HoleReason::Shared);
        }
        // If section and segment gave the gap different addresses, the parts of the section would have other addresses
        // than the parts of the segment.
        let address = translate(gap.start, segment.offset, segment.address).ok_or(HoleReason::Shared)?;
        if translate(gap.start, section.offset, section.address) != Some(address) {
            return Err(HoleReason::Shared);
        }
        let range = self.removable_pages(gap, segment).ok_or(HoleReason::Headers)?;
        if range.is_empty() {
            return Err(HoleReason::Small);
        }
        let content = slice(self.data, section.offset, section.size).unwrap_or_default();
        // If it holds fatbins, `close_gaps` keeps a size in the old header of the section.
        let holds_fatbins = content.starts_with(&fatbin::MAGIC);
        Ok(RemovedPages { range, gap: gap.clone(), segment: segment_index, section: section_index, holds_fatbins })
    }

    /// Returns the segment that a gap ends in, with its index, or `None` if other segments have bytes of the gap too.
    fn segment_with(&self, gap: &Range<u64>) -> Option<(usize, &Segment)> {
        let segments = self.segments.iter().enumerate();
        let (index, segment) = only(segments.filter(|(_, segment)| overlaps(gap, segment.offset, segment.size)))?;
        if gap.end <= segment.offset.checked_add(segment.size)? { Some((index, segment)) } else { None }
    }

    /// Returns the section that a gap ends in, with its index, or `None` if other sections have bytes of the gap too.
    fn section_with(&self, gap: &Range<u64>) -> Option<(usize, &Section)> {
        let sections = self.sections.iter().enumerate().filter(|(_, section)| !section.is(SHT_NOBITS));
        let (index, section) = only(sections.filter(|(_, section)| overlaps(gap, section.offset, section.size)))?;
        if gap.end <= section.offset.checked_add(section.size)? { Some((index, section)) } else { None }
    }

    /// Returns the range of the whole pages of a gap that the segment around it can do without. Returns `None` if a
    /// number is too large.
    fn removable_pages(&self, gap: &Range<u64>, segment: &Segment) -> Option<Range<u64>> {
        let start = gap.start.checked_next_multiple_of(self.page)?;
        let mut end = gap.end.checked_sub(gap.end.checked_rem(self.page)?)?;
        // The memory of a segment that has no bytes in the file (`.bss`) belongs to the last part of the segment. That
        // part needs some bytes, so the last page stays.
        let is_at_end = end == segment.offset.checked_add(segment.size)?;
        if is_at_end && segment.memory > segment.size {
            end = end.saturating_sub(self.page);
        }
        Some(start..end)
    }

    /// Reserves space for the new program headers, which are loaded at the addresses of the first removed pages. Gaps
    /// that are too small for them are left out of `removed`, until the first one is large enough. Gaps at the end are
    /// left out if the program headers are too many.
    ///
    /// # Errors
    /// - [`HoleReason::Headers`] if a number is too large
    /// - [`HoleReason::Limits`] if no gap remains, and at least one was left out because of too many program headers
    /// - [`HoleReason::Small`] if no gap remains, and all were too small
    fn reserve_headers(&self, removed: &mut Vec<RemovedPages>) -> Result<FrontHeaders, HoleReason> {
        let mut reason = HoleReason::Small;
        while let Some(first) = removed.first() {
            // Each gap splits a segment, and the headers get a segment of their own.
            let count = to_u64(self.segments.len()).saturating_add(to_u64(removed.len())).saturating_add(1);
            let len = HEADER_LEN.saturating_add(count.saturating_mul(SEGMENT_LEN));
            let (start, overflow) = (first.range.start, HoleReason::Headers);
            let mapped_len = len.checked_next_multiple_of(self.page).ok_or(overflow)?;
            if len > TABLE_MAX.saturating_add(HEADER_LEN) {
                // Each gap needs a program header. With one gap less, the headers are shorter.
                reason = HoleReason::Limits;
                removed.pop();
            } else if start.saturating_add(mapped_len) >= first.range.end {
                // The headers do not fit into the memory of this gap, or fill it, so that nothing is saved. The next
                // gap may be larger.
                removed.remove(0);
            } else {
                // Everything else moves by this length, so it is a multiple of the alignment that all segments need.
                let len = len.checked_next_multiple_of(self.alignment_from(0).max(self.page)).ok_or(overflow)?;
                return Ok(FrontHeaders { len, start });
            }
        }
        Err(reason)
    }

    /// Shortens the removed pages of each segment so that the segments after it move by multiples of the alignment that
    /// they need.
    fn keep_alignment(&self, removed: &mut Vec<RemovedPages>) {
        for (index, segment) in self.loaded_segments() {
            let end = segment.offset.saturating_add(segment.size);
            let in_segment = removed.iter().filter(|pages| pages.segment == index);
            let len = total(in_segment.map(|pages| len_of(&pages.range)));
            let mut excess = len.checked_rem(self.alignment_from(end).max(self.page)).unwrap_or(0);
            // The last gaps lose pages first, because the new headers need those of the first gap.
            for pages in removed.iter_mut().rev() {
                if pages.segment == index {
                    let kept = excess.min(len_of(&pages.range));
                    pages.range.end = pages.range.end.saturating_sub(kept);
                    excess = excess.saturating_sub(kept);
                }
            }
        }
        removed.retain(|pages| !pages.range.is_empty());
    }

    /// Returns the largest alignment of the segments that are loaded from an offset on, or 0 if there are none. It
    /// includes segments without bytes in the file, because loaders check their offsets too.
    fn alignment_from(&self, offset: u64) -> u64 {
        let mut largest = 0;
        for (segment, alignment) in self.segments.iter().zip(&self.alignments) {
            if is_loaded(segment) && segment.offset >= offset {
                largest = largest.max(*alignment);
            }
        }
        largest
    }

    /// Returns the headers of the file without the removed pages. Returns `None` if there are no such pages, or if a
    /// number does not fit into its field.
    ///
    /// A section with removed pages is split: new sections, its parts, hold its bytes. Its old header stays, without
    /// contents, so that the numbers of the other sections stay valid.
    fn close_gaps(&self, removed: &[RemovedPages], front: &FrontHeaders) -> Option<ClosedHeaders> {
        if removed.is_empty() {
            return None;
        }
        let moves = moves_without(front.len, ranges(removed));
        let (mut sections, parts) = self.split_sections(removed)?;
        self.move_sections(&mut sections, removed, &moves)?;
        let segments = self.split_segments(removed, front, &moves)?;
        let end = moves.moved(self.len);
        let padding = padding_at(end)?;
        let section_count = u16::try_from(sections.len()).ok()?;
        // Numbers from here on have special meanings in symbols.
        if section_count >= SHN_LORESERVE {
            return None;
        }
        let mut header = self.header;
        header.segments_at = HEADER_LEN;
        header.segment_count = u16::try_from(segments.len()).ok()?.into();
        header.sections_at = end.checked_add(padding)?;
        header.section_count = section_count.into();
        Some(ClosedHeaders { header, segments, sections, parts, padding })
    }

    /// Gives the sections their new offsets. The old header of a section that was split gets an address after all
    /// segments, and no contents. Returns `None` if a number does not fit into its field.
    fn move_sections(&self, sections: &mut [Section], removed: &[RemovedPages], moves: &OffsetMap) -> Option<()> {
        let segment_ends =
            self.loaded_segments().filter_map(|(_, segment)| segment.address.checked_add(segment.memory));
        let mut free_address = segment_ends.max()?.checked_next_multiple_of(PAGE_MAX)?;
        // The first section header describes no section.
        for (index, section) in sections.iter_mut().enumerate().skip(1) {
            let old_end = section.offset.saturating_add(section.size);
            section.offset = moves.moved(section.offset);
            let Some(pages) = removed.iter().find(|pages| pages.section == index) else { continue };
            // cuobjdump reads only the first section of a name, whatever its type is. So the old header of a section
            // with fatbins spans all parts.
            section.size = if pages.holds_fatbins { moves.moved(old_end).checked_sub(section.offset)? } else { 0 };
            section.kind = SHT_NOBITS.0.into();
            section.flags = SHF_ALLOC.0;
            section.address = free_address;
            free_address = free_address.checked_add(section.size)?.checked_next_multiple_of(PAGE_MAX)?;
        }
        Some(())
    }

    /// Returns the sections, followed by the parts of the sections that gaps split, at their old offsets. Returns
    /// `None` if a number does not fit into its field.
    fn split_sections(&self, removed: &[RemovedPages]) -> Option<(Vec<Section>, Vec<SectionPart>)> {
        let (mut sections, mut parts) = (self.sections.clone(), Vec::new());
        for (position, pages) in removed.iter().enumerate() {
            let old = self.sections.get(pages.section)?;
            let start = old.offset;
            let old_end = start.checked_add(old.size)?;
            // The part after the gap reaches up to the next gap in the section.
            let end = match removed.get(position.checked_add(1)?) {
                Some(next) if next.section == pages.section => next.gap.start,
                _ => old_end,
            };
            let is_first_gap = !parts.iter().any(|part: &SectionPart| part.section == pages.section);
            // The part before a later gap is the part after the gap before it, which exists already.
            let before = if is_first_gap { start..pages.gap.start } else { start..start };
            let mut zeros = *old;
            // Symbols may refer to the zeros that stay, so these get a section. Names are offsets in a table: the next
            // offset has the name without its first letter. The zeros get that name, because they are not device code.
            zeros.name = old.name.checked_add(1)?;
            let (removed_end, gap_end) = (pages.range.end, pages.gap.end);
            for (mut part, range) in [(*old, before), (zeros, removed_end..gap_end), (*old, gap_end..end)] {
                if range.is_empty() {
                    continue;
                }
                let address = translate(range.start, start, old.address)?;
                part.address = address;
                part.offset = range.start;
                part.size = len_of(&range);
                // Later parts begin wherever the gap ends.
                if range.start != start {
                    part.alignment = 1;
                }
                let index = u16::try_from(sections.len()).ok()?;
                parts.push(SectionPart { section: pages.section, start: address, index });
                sections.push(part);
            }
        }
        Some((sections, parts))
    }

    /// Returns the new program headers, in which segments are split at their removed pages. Returns `None` if a number
    /// does not fit into its field, or if the first gap is too small for the headers.
    fn split_segments(
        &self,
        removed: &[RemovedPages],
        front: &FrontHeaders,
        moves: &OffsetMap,
    ) -> Option<Vec<Segment>> {
        const NO_MEMORY: u64 = 0;
        let mut segments = Vec::new();
        let mut headers_address = None;
        for (index, segment) in self.segments.iter().enumerate() {
            let start = segment.offset;
            let end = start.checked_add(segment.size)?;
            // The bytes of memory that are not in the file, after those that are. The number wraps for a segment that
            // is not loaded and has less memory than bytes. `part_of_segment` adds the bytes again and wraps back.
            let memory_after = segment.memory.wrapping_sub(segment.size);
            if is_loaded(segment) && (start..end).contains(&front.start) {
                headers_address = translate(front.start, start, segment.address);
            }
            let mut at = start;
            for RemovedPages { range, .. } in removed.iter().filter(|pages| pages.segment == index) {
                if range.start == front.start {
                    // The new headers are loaded at the addresses of these pages, so the part before them ends there.
                    segments.push(self.part_of_segment(index, at..range.start, NO_MEMORY, moves)?);
                    segments.push(self.segment_of_headers(index, range, moves)?);
                } else {
                    // In memory, the part before the pages also has the pages: loaders fill them with zeros.
                    segments.push(self.part_of_segment(index, at..range.start, len_of(range), moves)?);
                }
                at = range.end;
            }
            // A segment without gaps stays, even if it has no bytes in the file.
            if at < end || at == start {
                segments.push(self.part_of_segment(index, at..end, memory_after, moves)?);
            }
        }
        self.place_headers(&mut segments, headers_address)?;
        Some(segments)
    }

    /// Returns the segment that loads the new headers, which are at the offset 0, at the addresses of the removed
    /// `pages` of another segment. Its size is that of the pages until `place_headers` sets it.
    fn segment_of_headers(&self, index: usize, pages: &Range<u64>, moves: &OffsetMap) -> Option<Segment> {
        let segment = self.part_of_segment(index, pages.start..pages.start, len_of(pages), moves)?;
        Some(Segment { offset: 0, flags: PF_R.0.into(), ..segment })
    }

    /// Returns the part of a segment that has a range of its bytes in the old file, followed by `memory_after` bytes of
    /// memory that are not in the file.
    fn part_of_segment(
        &self,
        index: usize,
        range: Range<u64>,
        memory_after: u64,
        moves: &OffsetMap,
    ) -> Option<Segment> {
        let (segment, alignment) = (self.segments.get(index)?, self.alignments.get(index)?);
        let offset_in_segment = range.start.checked_sub(segment.offset)?;
        let mut part = *segment;
        part.offset = moves.moved(range.start);
        part.address = segment.address.checked_add(offset_in_segment)?;
        part.physical = segment.physical.wrapping_add(offset_in_segment);
        part.size = len_of(&range);
        part.memory = len_of(&range).wrapping_add(memory_after);
        // A later part begins at any page, so its offset and address may agree only up to the size of a page.
        if is_loaded(segment) {
            part.alignment = if offset_in_segment == 0 { *alignment } else { self.page };
        }
        // A part without code of the host is not executable: eu-elflint reports executable segments without such code.
        if offset_in_segment > 0 && !self.has_host_code(&range) {
            part.flags &= !u64::from(PF_X.0);
        }
        Some(part)
    }

    /// Whether a section with code of the host begins in a range of the file.
    fn has_host_code(&self, range: &Range<u64>) -> bool {
        let mut sections = self.sections.iter();
        sections.any(|section| section.flags & SHF_EXECINSTR.0 != 0 && range.contains(&section.offset))
    }

    /// Sets size and location of the new headers in the segment that loads them and in `PT_PHDR`, which describes them.
    /// They are loaded at `headers_address`, or not at all. Returns `None` if they do not fit into the memory of that
    /// segment, or if there is a `PT_PHDR` without an address for it.
    fn place_headers(&self, segments: &mut [Segment], headers_address: Option<u64>) -> Option<()> {
        let table_len = table_len(segments);
        let headers_len = HEADER_LEN.checked_add(table_len)?.checked_next_multiple_of(self.page)?;
        for segment in segments {
            // Everything else moved, so only the segment that loads the new headers has the offset 0.
            if is_loaded(segment) && segment.offset == 0 {
                if segment.memory < headers_len {
                    return None;
                }
                segment.size = headers_len;
            } else if segment.is(PT_PHDR) {
                let table_address = headers_address?.checked_add(HEADER_LEN)?;
                segment.offset = HEADER_LEN;
                // The physical address keeps its distance from the virtual one.
                segment.physical = segment.physical.wrapping_add(table_address).wrapping_sub(segment.address);
                segment.address = table_address;
                segment.size = table_len;
                segment.memory = table_len;
            }
        }
        Some(())
    }

    /// Returns the changes that move the symbols in split sections to the parts of these sections. Returns `None` in
    /// the cases of [`Self::renumber_symbols`].
    fn move_symbols_to_parts(&self, closed: &ClosedHeaders) -> Option<Vec<ChangedRange<'static>>> {
        let split: HashSet<usize> = closed.parts.iter().map(|part| part.section).collect();
        self.renumber_symbols(
            |section, address| {
                if split.contains(&section) { closed.part_at(section, address) } else { None }
            },
        )
    }

    /// Returns the changes of all symbols that get another section. `new_section` returns the new section number for
    /// the old number and the address of a symbol, or `None` if the symbol stays. The whole result is `None` if a
    /// symbol table is broken, or if more than [`SYMBOLS_MAX`] symbols change.
    fn renumber_symbols(&self, new_section: impl Fn(usize, u64) -> Option<u16>) -> Option<Vec<ChangedRange<'static>>> {
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
                // Other numbers have special meanings, such as that a symbol is undefined or has a fixed value.
                let is_section = (1..usize::from(SHN_LORESERVE)).contains(&number);
                if !is_section {
                    continue;
                }
                let Some(new) = new_section(number, symbol.value) else { continue };
                changes.push(replace_bytes(at.checked_add(SYMBOL_SECTION)?, new.to_le_bytes().to_vec())?);
                if changes.len() > SYMBOLS_MAX {
                    return None;
                }
            }
        }
        Some(changes)
    }

    /// Returns the changes that give the bytes of gaps back. Returns `None` if the old headers cannot be read, or if
    /// [`close`] would not make this file of the old one.
    fn undo(&self) -> Option<Vec<ChangedRange<'static>>> {
        let OldFile { library: old, removed, front, padding } = self.old_file()?;
        // Another tool has changed the file if closing the same gaps closed_again makes other headers.
        let closed_again = old.close_gaps(&removed, &front)?;
        let has_same_padding =
            closed_again.padding == padding && self.has_only_zeros_between_headers(front.len, padding);
        if !self.has_headers_of(&closed_again) || !has_same_padding {
            return None;
        }
        // The sections after those of the old file are the parts of split sections. Their symbols go back to these.
        let mut changes = self.renumber_symbols(|section, _| {
            let part = closed_again.parts.get(section.checked_sub(old.sections.len())?)?;
            u16::try_from(part.section).ok()
        })?;
        changes.push((0..front.len, Vec::new()));
        let moves = moves_without(front.len, ranges(&removed));
        for RemovedPages { range, .. } in &removed {
            let at = moves.moved(range.start);
            changes.push((at..at, vec![Piece::Zeros(len_of(range))]));
        }
        let new_table = self.header.sections_at.checked_sub(padding)?;
        changes.push((new_table..len_u64(self.data), Vec::new()));
        sort_changes(changes)
    }

    /// Returns the file from which [`close`] made this one, as its old headers describe it. Returns `None` if these
    /// cannot be read.
    fn old_file(&self) -> Option<OldFile<'d>> {
        // The old file header begins the first segment, because `close` needs a first segment at the offset 0. Only the
        // new headers come before that segment.
        let (_, first) = self.loaded_segments().next()?;
        let front_len = first.offset;
        let header: Header = ENCODING.decode(slice(self.data, front_len, HEADER_LEN)?);
        let segments_at = header.segments_at.checked_add(front_len)?;
        let segments: Vec<Segment> = table_at(self.data, segments_at, header.segment_count)?;
        let missing = self.find_missing_pages(&segments)?;
        let front = FrontHeaders { len: front_len, start: missing.first()?.1.start };
        let moves = moves_without(front_len, missing.iter().map(|(_, range)| range));
        let sections: Vec<Section> = table_at(self.data, moves.moved(header.sections_at), header.section_count)?;
        let parts = self.sections.get(sections.len()..)?;
        // `close` adds no more sections. Each of the removed pages is compared with all of them.
        if parts.len() > PARTS_MAX {
            return None;
        }
        let mut removed = Vec::new();
        for (segment, range) in missing {
            removed.push(self.removed_pages(segment, range, &sections, parts)?);
        }

        // The zeros before the section headers cannot be told from other zeros. `close` wrote the same number after the
        // headers.
        let table_len = to_u64(self.sections.len()).checked_mul(SECTION_LEN)?;
        let table_end = self.header.sections_at.checked_add(table_len)?;
        let padding = len_u64(self.data).checked_sub(table_end)?;
        // The old file has the removed pages, but neither the new headers at the front nor those at the end.
        let with_pages = len_u64(self.data).checked_add(removed_len(&removed))?;
        let len = with_pages.checked_sub(front_len)?.checked_sub(padding.checked_mul(2)?)?.checked_sub(table_len)?;
        // Only a broken file records removed pages of this length.
        if len > OPENED_MAX {
            return None;
        }
        let library = Self::with_headers(self.data, len, header, segments, sections).ok()?;
        Some(OldFile { library, removed, front, padding })
    }

    /// Whether the file has the headers that [`Self::close_gaps`] made for another file.
    fn has_headers_of(&self, closed: &ClosedHeaders) -> bool {
        closed.header == self.header && closed.segments == self.segments && closed.sections == self.sections
    }

    /// Whether [`close`] may have written the padding of the new headers: zeros after the program headers up to the
    /// offset `front`, and `padding` zeros before the section headers and at the end of the file.
    fn has_only_zeros_between_headers(&self, front: u64, padding: u64) -> bool {
        let (start, end) = (self.header.sections_at, len_u64(self.data));
        let used = HEADER_LEN.saturating_add(table_len(&self.segments));
        let paddings = [used..front, start.saturating_sub(padding)..start, end.saturating_sub(padding)..end];
        for range in paddings {
            let Some(bytes) = bytes_in(self.data, range) else { return false };
            if !is_zero(bytes) {
                return false;
            }
        }
        true
    }

    /// Returns the ranges of the old file that [`close`] took out, in order, each with the index of its old segment. If
    /// no new segment has bytes for some addresses of an old one, these are the addresses of removed pages. Returns
    /// `None` for more than [`GAPS_MAX`] gaps, or if a number is too large.
    fn find_missing_pages(&self, old_segments: &[Segment]) -> Option<Vec<(usize, Range<u64>)>> {
        let mut missing = Vec::new();
        for (index, old) in old_segments.iter().enumerate() {
            if !is_loaded(old) {
                continue;
            }
            let addresses = old.address..old.address.checked_add(old.size)?;
            let loaded = self.loaded_segments().map(|(_, part)| part);
            // The segment at the offset 0 loads the new headers at addresses of removed pages. It has no bytes of the
            // old file, so the pages at its addresses are missing although a segment loads something there.
            let mut parts = loaded.filter(|part| addresses.contains(&part.address) && part.offset > 0).peekable();
            while let Some(part) = parts.next() {
                let start = part.address.checked_add(part.size)?;
                let end = match parts.peek() {
                    Some(next) => next.address,
                    None => addresses.end,
                };
                // No pages are missing after this part.
                if start >= end {
                    continue;
                }
                if missing.len() == GAPS_MAX {
                    return None;
                }
                let start = translate(start, old.address, old.offset)?;
                missing.push((index, start..translate(end, old.address, old.offset)?));
            }
        }
        Some(missing)
    }

    /// Describes the removed pages that had this range of the old file, in the segment with this index. `sections` are
    /// those of the old file, and `parts` the sections that [`close`] added, with the bytes before and after each gap.
    /// Returns `None` if no section held the pages.
    fn removed_pages(
        &self,
        segment: usize,
        range: Range<u64>,
        sections: &[Section],
        parts: &[Section],
    ) -> Option<RemovedPages> {
        let Range { start, end } = range;
        let index = sections.iter().position(|section| {
            let range = span(section.offset, section.size);
            section.is(SHT_PROGBITS) && range.start <= start && end <= range.end
        })?;
        let section = sections.get(index)?;
        let start_address = translate(start, section.offset, section.address)?;
        let end_address = translate(end, section.offset, section.address)?;
        // The gap reaches from the last part before the pages to the first part after them. Without such parts, it
        // reaches to the start or the end of the section.
        let (mut gap_start, mut gap_end) = (section.address, end_of(section)?);
        for part in parts {
            // The zeros of a gap that stayed in the file have another name: see `split_sections`.
            if part.name != section.name {
                continue;
            }
            if (gap_start..=start_address).contains(&end_of(part)?) {
                gap_start = end_of(part)?;
            }
            if (end_address..gap_end).contains(&part.address) {
                gap_end = part.address;
            }
        }
        let gap_start = translate(gap_start, section.address, section.offset)?;
        let gap = gap_start..translate(gap_end, section.address, section.offset)?;
        // Of the sections that were split, `close_gaps` leaves only those with fatbins a size.
        let holds_fatbins = self.sections.get(index)?.size > 0;
        Some(RemovedPages { range, gap, segment, section: index, holds_fatbins })
    }
}

#[cfg(test)]
mod tests {
    use object::elf::{Machine, SectionType};

    use super::super::apply;
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

    /// Returns the changes that close gaps, or `None` if none can be closed.
    fn changes_to_close(data: &[u8], gaps: &[Range<u64>]) -> Option<Vec<ChangedRange<'static>>> {
        Some(close(data, gaps).ok()?.changes)
    }

    /// Writes over some bytes.
    fn put(data: &mut [u8], at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap();
        data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn segment(kind: ProgramType, offset: u64, address: u64, size: u64, memory: u64, alignment: u64) -> Segment {
        let (kind, flags) = (kind.0.into(), PF_R.0.into());
        Segment { kind, flags, offset, address, physical: address, size, memory, alignment }
    }

    fn section(name: u64, kind: SectionType, offset: u64, address: u64, size: u64) -> Section {
        let flags = if address > 0 { SHF_ALLOC.0 } else { 0 };
        Section { name, kind: kind.0.into(), flags, address, offset, size, alignment: 8, ..Section::default() }
    }

    /// Returns the header of a file for a machine, with section headers at `tables`.
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

    /// Makes a library of headers, host data, device code with gaps, host data and memory after it, a segment of data,
    /// symbols, and the section headers at the end or before the last segment.
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
        put(&mut data, 0, &header(machine, &segments, &sections, tables));
        put(&mut data, 64, &ENCODING.encode(&segments));
        put(&mut data, tables, &ENCODING.encode(&sections));
        for index in 0..6 {
            let value = base + code.start + numbers.below(len_of(&code));
            let symbol = Symbol { section: 2, value, ..Symbol::default() };
            put(&mut data, symbols + index * 24, &ENCODING.encode(&[symbol]));
        }
        Sample { data, gaps }
    }

    /// Loads a file as its program headers say: runs of addresses, and their bytes.
    fn memory(data: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let program = ElfLibrary::read(data).unwrap();
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (_, segment) in program.loaded_segments() {
            let bytes = slice(data, segment.offset, segment.size).unwrap();
            let align = segment.alignment;
            assert_eq!(segment.offset % align, segment.address % align);
            let end = match runs.last() {
                Some((start, run)) => start + len_u64(run),
                None => 0,
            };
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

    /// Clears the symbols of a file where they are loaded, because they get the numbers of new sections.
    fn clear_symbols(data: &[u8], memory: &mut [(u64, Vec<u8>)]) {
        let library = ElfLibrary::read(data).unwrap();
        let symbols = *library.sections.iter().find(|section| section.is(SHT_SYMTAB)).unwrap();
        for (_, segment) in library.loaded_segments() {
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
    fn loaded_bytes_stay_and_all_bytes_come_back() {
        let mut numbers = Numbers(1);
        let mut closed = 0;
        for round in 0..if cfg!(miri) { 3 } else { 20 } {
            let Sample { data, gaps } = sample(&mut numbers);
            let Some(changes) = changes_to_close(&data, &gaps) else { continue };
            closed += 1;
            let small = apply(&data, &changes);
            assert!(small.len() < data.len(), "{round}: not shorter");
            // The new headers are loaded where a gap was.
            let (mut before, mut after) = (memory(&data), memory(&small));
            for memory in [&mut before, &mut after] {
                clear_symbols(&data, memory);
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
            let back = apply(&small, &open(&small).unwrap().expect("it does not come back"));
            assert!(back == data, "{round}: other bytes come back");
            assert!(open(&data).unwrap().is_none());
        }
        assert!(cfg!(miri) || closed > 5, "{closed} files were closed");
    }

    /// Makes a library with these segments and sections, and with section headers at the end.
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

    /// An entry of the dynamic section.
    fn dynamic_entry(tag: i64, value: u64) -> Vec<u8> {
        [tag.to_le_bytes(), value.to_le_bytes()].concat()
    }

    #[test]
    fn programs_differ_from_libraries() {
        let end = dynamic_entry(object::elf::DT_NULL.0, 0);
        let (pie, flags) = (DF_1_PIE.0, DT_FLAGS_1.0);
        for (dynamic, is_program) in [
            ([dynamic_entry(flags, pie), end.clone()], true),
            ([dynamic_entry(DT_DEBUG.0, 0), end.clone()], true),
            ([dynamic_entry(1, pie), dynamic_entry(flags, pie | 1)], true),
            ([dynamic_entry(flags, 1), end.clone()], false),
            ([dynamic_entry(1, pie), end.clone()], false),
            ([end.clone(), dynamic_entry(flags, pie)], false),
        ] {
            let segments = [
                segment(PT_LOAD, 0, 0, 0x1000, 0x1000, PAGE_MIN),
                segment(PT_DYNAMIC, 0x800, 0x800, 32, 32, 8),
                segment(PT_PHDR, 0, 0, 0, 0, 1),
            ];
            let mut data = library(&segments, &[section(0, object::elf::SHT_NULL, 0, 0, 0)], 0x1000);
            data[0x800..0x820].copy_from_slice(&dynamic.concat());
            assert_eq!(ElfLibrary::read(&data).unwrap().is_program(), is_program, "{dynamic:?}");
            let expected = if is_program { Err(HoleReason::Program) } else { Ok(()) };
            assert_eq!(ensure_can_close(&data), expected);
            data[64 + 2 * 56] = 3;
            assert!(ElfLibrary::read(&data).unwrap().is_program(), "with an interpreter");
            (data[64 + 2 * 56], data[16]) = (6, 2);
            assert!(ElfLibrary::read(&data).unwrap().is_program(), "not position-independent");
        }
    }

    /// Returns the pages of a gap that are removed from a library with a segment of that much memory, whose section of
    /// device code was changed by `change`.
    fn pages_removed(memory: u64, change: &dyn Fn(&mut Section), gap: Range<u64>) -> Option<Range<u64>> {
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
        let (removed, _) = ElfLibrary::read(&data).unwrap().select_pages(&[gap]);
        Some(removed.into_iter().next()?.range)
    }

    #[test]
    fn gaps_are_in_one_segment_and_one_section() {
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
            assert_eq!(pages_removed(memory, same, gap.clone()), expected, "{memory:#x} {gap:x?}");
        }
        let others: [&dyn Fn(&mut Section); 4] = [
            &|section| section.kind = object::elf::SHT_NOTE.0.into(),
            &|section| section.flags = 0,
            &|section| section.address = 0x14000,
            &|section| section.size = 0x2fff,
        ];
        for change in others {
            assert_eq!(pages_removed(0x10000, change, 0x4000..0x7000), None);
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
            let small = apply(&data, &changes_to_close(&data, std::slice::from_ref(&gap)).unwrap());
            let program = ElfLibrary::read(&small).unwrap();
            let flags: Vec<_> = program
                .loaded_segments()
                .map(|(_, part)| (part.address, part.flags & u64::from(PF_X.0) != 0))
                .collect();
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
            let changes = ElfLibrary::read(&data).unwrap().renumber_symbols(|_, _| Some(2));
            assert_eq!(changes.map(|changes| changes.len()), expected);
        }
    }

    #[test]
    fn program_headers_are_loaded_wherever_the_gaps_are() {
        let align = 0x10000;
        // Two sections of device code, each in another segment. The gap in the first one stays if the alignment of the
        // second is larger than the gap.
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
            let changes = changes_to_close(&data, &gaps);
            assert_eq!(changes.is_some(), is_closed, "{second:#x}");
            let Some(changes) = changes else { continue };
            let small = apply(&data, &changes);
            segments = ElfLibrary::read(&small).unwrap().segments;
            let table = segments.iter().find(|segment| segment.is(PT_PHDR)).unwrap();
            let start = usize::try_from(table.address).unwrap();
            let (_, loaded) = memory(&small).swap_remove(0);
            assert!(loaded[start..].starts_with(&ENCODING.encode(&segments)), "{second:#x}");
            assert!(apply(&small, &open(&small).unwrap().unwrap()) == data);
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
            let changes = changes_to_close(&data, std::slice::from_ref(&gap));
            assert_eq!(changes.is_some(), shared == 0x100_000);
            if let Some(changes) = changes {
                memory(&apply(&data, &changes));
            }
        }
    }

    #[test]
    fn damaged_headers_cause_no_panic() {
        let mut numbers = Numbers(2);
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            let Sample { data, gaps } = sample(&mut numbers);
            let Some(changes) = changes_to_close(&data, &gaps) else { continue };
            for mut damaged in [data.clone(), apply(&data, &changes)] {
                for _ in 0..200 {
                    let at = usize::try_from(numbers.below(512)).unwrap();
                    let old = std::mem::replace(&mut damaged[at], u8::try_from(numbers.below(256)).unwrap());
                    let gaps = if damaged.len() == data.len() { &gaps[..] } else { &[] };
                    let opening = open(&damaged).ok().flatten();
                    for changes in [changes_to_close(&damaged, gaps), opening].into_iter().flatten() {
                        apply(&damaged, &changes);
                    }
                    damaged[at] = old;
                }
            }
        }
    }

    fn loaded_segment(offset: u64, size: u64) -> Segment {
        segment(PT_LOAD, offset, offset, size, size, PAGE_MIN)
    }

    #[test]
    fn gaps_that_stay_have_a_reason() {
        let one = vec![section(0, object::elf::SHT_NULL, 0, 0, 0), section(1, SHT_PROGBITS, 0x1000, 0x1000, 0x20000)];
        let mut overlapping = one.clone();
        overlapping.push(section(3, SHT_PROGBITS, 0x8000, 0x8000, 8));
        let whole = loaded_segment(0, 0x21000);
        let interpreter = segment(PT_INTERP, 0x200, 0x200, 8, 8, 1);
        let small = segment(PT_LOAD, 0, 0, 0x21000, 0x21000, 0x100);
        for (segments, sections, gap, expected) in [
            (vec![whole], &one, 0x1100..0x21000, Ok(())),
            (vec![whole, interpreter], &one, 0x1100..0x21000, Err(HoleReason::Program)),
            (vec![loaded_segment(0x1000, 0x20000)], &one, 0x1100..0x21000, Err(HoleReason::FirstSegment)),
            (vec![whole], &overlapping, 0x1100..0x21000, Err(HoleReason::Shared)),
            (vec![whole, loaded_segment(0x4000, 8)], &one, 0x1100..0x21000, Err(HoleReason::Shared)),
            (vec![whole], &one, 0x1100..0x1fff, Err(HoleReason::Small)),
            (vec![whole], &one, 0x1100..0x3000, Err(HoleReason::Small)),
            (vec![small], &one, 0x1100..0x21000, Err(HoleReason::Alignment)),
        ] {
            let data = library(&segments, sections, 0x21000);
            let closed = close(&data, std::slice::from_ref(&gap));
            assert_eq!(closed.map(|closing| assert!(closing.stay_reason.is_none())), expected, "{gap:x?}");
        }
        let data = library(&[whole], &one, 0x21000);
        let gap = 0x1100..0x21000;
        let followed = [&data[..], b"other"].concat();
        assert_eq!(close(&followed, std::slice::from_ref(&gap)).err(), Some(HoleReason::DataAfter));
        let mut other = data.clone();
        other[16] = 1;
        assert_eq!(ensure_can_close(&other), Err(HoleReason::Object));
        // A gap of the second section cannot be closed, that of the first one can.
        let mut two = one;
        two.push(section(1, SHT_PROGBITS, 0x21000, 0x31000, 0x4000));
        let data = library(&[loaded_segment(0, 0x25000)], &two, 0x25000);
        assert_eq!(close(&data, &[gap, 0x21000..0x25000]).unwrap().stay_reason, Some(HoleReason::Shared));
    }

    #[test]
    fn gaps_do_not_come_back_after_another_tool_rewrote_the_file() {
        let mut numbers = Numbers(3);
        let small = loop {
            let Sample { data, gaps } = sample(&mut numbers);
            if let Some(changes) = changes_to_close(&data, &gaps) {
                break apply(&data, &changes);
            }
        };
        assert!(open(&small).unwrap().is_some());
        // Appended data, and a byte in the padding of the headers, in the old and in the new headers.
        let front = ElfLibrary::read(&small).unwrap().loaded_segments().next().unwrap().1.offset;
        let front = usize::try_from(front).unwrap();
        assert!(open(&[&small[..], b"other"].concat()).is_err());
        for at in [front - 1, front + 32, 64 + 32] {
            let mut other = small.clone();
            other[at] ^= 1;
            assert!(!matches!(open(&other), Ok(Some(_))), "{at}");
        }
    }
}
