//! Gaps of PE programs and libraries, and the signature and checksum that depend on their bytes.
//!
//! [`close`] takes whole pages of gaps out of the file and changes no address:
//!
//! - A section is split where a gap ends. The part before it has fewer bytes in the file than in memory, which loaders
//!   fill with zeros. The part after it has another section header with the same name. A gap at the end of a section
//!   needs no section header.
//! - New section headers take the room after the old ones. If that is not enough, the headers grow, up to the first
//!   section.
//! - What follows moves by whole pages. The offsets of sections, of debug data and of the symbol table change
//!   accordingly.
//!
//! [`open`] undoes this, if [`close`] would make the same file again. Headers grow only if they have the minimum length
//! for their sections. Longer headers keep their length, and `free_header_count` never lets them reach the minimum.
//! `open` can thus tell the two cases apart.
//!
//! | at | field |
//! |---|---|
//! | 60 | offset of the magic `PE\0\0`, which the COFF header follows |
//! | COFF header + 2 (2 bytes) | number of sections |
//! | + 8, + 12 | offset of the symbol table, number of symbols, which have 18 bytes; the length of their names follows |
//! | + 16 (2 bytes) | length of the optional header, which begins at + 20; section headers follow it |
//! | optional header + 0 (2 bytes) | 0x10b for 32 bits, 0x20b for 64 bits |
//! | + 8 | bytes of initialized data in the file |
//! | + 32, + 36 | alignment of sections in memory, in the file |
//! | + 60, + 64 | length of all headers; checksum, 0 for none |
//! | + 96, for 64 bits + 112 | directories, after their number: address and size of each; of the signature (4) offset and size; of the list of debug data (6) |
//! | section header | name (8 bytes); size in memory, address; size in the file, offset; 16 bytes that stay as they are |
//! | debug data | 28 bytes: size at 16, offset at 24 |
//!
//! Layout: Microsoft's "PE Format" of 2025. Windows accepts at most 96 sections, in the order of their addresses.
//!
//! A file is made shorter only if its sections are aligned to pages, not to more, and do not share bytes. In a file
//! with symbols, only gaps at the ends of sections are closed, because each symbol has the number of its section.

use std::cmp::Reverse;
use std::ops::Range;

use super::{GapRemoval, HoleReason, RewrittenSince, replace_bytes, sort_changes};
use crate::base::bytes::{add, bytes_in, is_zero, len_of, len_u64, number, slice, span, tail, to_u64, total};
use crate::base::error::{Error, Result};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, Sink, emit};
use crate::beyond::base::io::ChangedRange;
use crate::llvm::container::host::coff::CoffSection;
use crate::llvm::container::host::moves::OffsetMap;
use crate::llvm::container::records::{Encoding, Table, record};

const ENCODING: Encoding = Encoding::LITTLE_64;
const COFF_LEN: u64 = 20;
const SECTION_LEN: u64 = 40;
const SYMBOL_LEN: u64 = 18;
const DEBUG_LEN: u64 = 28;

/// The offset of the checksum from the start of the COFF header, in bytes.
const CHECKSUM: u64 = 84;

/// The offset of the offset of the magic `PE\0\0`, in bytes.
const MAGIC_OFFSET_AT: u64 = 60;

/// The first number of the optional header for 32 and 64 bits, each with the offset of the directories in that header.
const DIRECTORIES_AT: [(u64, u64); 2] = [(0x10b, 96), (0x20b, 112)];

/// Indices of directories.
const SIGNATURE: u64 = 4;
const DEBUG: u64 = 6;
/// The largest number of directories that Windows uses.
const DIRECTORIES_MAX: u64 = 16;

/// The longest headers that are read and changed, in bytes. They end before the first section, which is usually at the
/// address 4096.
const HEADERS_MAX: u64 = 64 << 10;

/// The largest number of sections that Windows accepts.
const SECTIONS_MAX: usize = 96;

/// The longest list of debug data that is read, in bytes. Compilers write fewer than ten entries.
const DEBUG_LIST_MAX: u64 = 100 * DEBUG_LEN;

/// The size of a page, in bytes.
const PAGE: u64 = 4096;

/// The smallest alignment of sections in a file, in bytes.
const FILE_ALIGNMENT_MIN: u64 = 512;

/// Whether a PE file has no table for long section names: its header records no symbols.
pub(crate) fn has_no_names(data: &[u8]) -> bool {
    match PeImage::read(data) {
        Some(image) => image.header.symbols == 0,
        None => false,
    }
}

/// Returns the range of the signature of a PE file, which may be anywhere, or `None` if it is not signed.
pub(crate) fn signature(data: &[u8]) -> Option<Range<u64>> {
    PeImage::read(data)?.signature()
}

/// Returns the changes that remove the signature. Returns `None` if the file has no signature, if anything but zeros
/// follows it, or if headers, sections, symbols or debug data end after its start.
pub(crate) fn remove_signature(data: &[u8]) -> Option<Vec<ChangedRange<'static>>> {
    let image = PeImage::read(data)?;
    let range = image.signature()?;
    let is_last = image.end(data)? <= range.start && is_zero(tail(data, range.end)?);
    if !is_last {
        return None;
    }
    let directory = image.directories_at.checked_add(SIGNATURE.checked_mul(8)?)?;
    // The directory without its offset and size, and the file without the signature.
    Some(vec![replace_bytes(directory, vec![0; 8])?, (range.start..len_u64(data), Vec::new())])
}

/// Ensures that [`close`] can take bytes out of files like this, if the gaps allow it.
pub(crate) fn ensure_can_close(data: &[u8]) -> Result<(), HoleReason> {
    let image = PeImage::read(data).ok_or(HoleReason::Headers)?;
    image.ensure_movable(data)?;
    // Data after everything in the headers may be found by its offset. So is a signature, wherever it is.
    let after = image.end(data).ok_or(HoleReason::Headers)?;
    match tail(data, after) {
        Some(rest) if is_zero(rest) && image.signature().is_none() => Ok(()),
        _ => Err(HoleReason::DataAfter),
    }
}

/// Returns the changes that take whole pages of some gaps, which hold zeros, out of a file. The first change replaces
/// the headers, which keep the old checksum: [`with_checksum`] corrects it.
pub(crate) fn close(data: &[u8], gaps: &[Range<u64>]) -> Result<GapRemoval, HoleReason> {
    ensure_can_close(data)?;
    let image = PeImage::read(data).ok_or(HoleReason::Headers)?;
    let (removed, stay_reason) = image.select_pages(data, gaps).ok_or(HoleReason::Headers)?;
    if removed.is_empty() {
        return Err(stay_reason.unwrap_or(HoleReason::Small));
    }
    let saved = removed_len(&removed);
    let (headers, moves) = image.close_gaps(&removed).ok_or(HoleReason::Headers)?;
    // The new headers may be longer by as much as the pages save.
    if saved <= len_u64(&headers).saturating_sub(image.header.headers_len) {
        return Err(HoleReason::Small);
    }
    let mut changes = image.debug_changes(data, &moves).ok_or(HoleReason::Headers)?;
    changes.extend(removed.into_iter().map(|pages| (pages.range, Vec::new())));
    changes.push((0..len_u64(&image.headers), vec![Piece::Bytes(headers)]));
    Ok(GapRemoval { changes: sort_changes(changes).ok_or(HoleReason::Shared)?, stay_reason })
}

/// Adds the right checksum to the changes of a file, if the file has a checksum. The checksum is in the headers, so the
/// first of the changes then replaces all headers.
pub(crate) fn with_checksum(
    data: Slice<'_>,
    mut changes: Vec<ChangedRange<'static>>,
) -> Result<Vec<ChangedRange<'static>>> {
    let Some(image) = PeImage::read(data.bytes()) else { return Ok(changes) };
    if image.header.checksum == 0 {
        return Ok(changes);
    }
    let mut headers = take_new_headers(&mut changes, &image.headers)?;
    let at = image.coff_at.saturating_add(CHECKSUM);
    // The checksum is the sum of the file with 0 in place of the checksum, so the headers change twice. It is inside of
    // the headers, so `overwrite` finds room.
    overwrite(&mut headers, at, &[0; 4]);
    changes.insert(0, (0..len_u64(&image.headers), vec![Piece::Bytes(headers.clone())]));
    let checksum = Checksum::of_changed(data, &changes)?;
    overwrite(&mut headers, at, &checksum.to_le_bytes());
    if let Some((_, new)) = changes.first_mut() {
        *new = vec![Piece::Bytes(headers)];
    }
    Ok(changes)
}

/// Takes the new headers out of the changes, or copies the `old` ones if they do not change.
fn take_new_headers(changes: &mut Vec<ChangedRange<'static>>, old: &[u8]) -> Result<Vec<u8>> {
    let range = 0..len_u64(old);
    let Some(index) = changes.iter().position(|(changed, _)| *changed == range) else { return Ok(old.to_vec()) };
    let (_, pieces) = changes.remove(index);
    match <[Piece<'_>; 1]>::try_from(pieces) {
        Ok([Piece::Bytes(headers)]) => Ok(headers),
        _ => Err(Error::internal("the new headers of a PE file are not bytes")),
    }
}

/// Returns the range of the checksum in a file, which is empty if the file is not a PE file.
pub(crate) fn checksum(data: &[u8]) -> Range<u64> {
    match PeImage::read(data) {
        Some(image) => span(image.coff_at.saturating_add(CHECKSUM), 4),
        None => 0..0,
    }
}

/// Returns the changes that give a file the bytes back that [`close`] took out of it, or `None` if it took none. `ends`
/// are the offsets at which a section ends now, with zeros after its bundles. Gaps were only at some of them.
pub(crate) fn open(data: &[u8], ends: &[u64]) -> Result<Option<Vec<ChangedRange<'static>>>, RewrittenSince> {
    let Some(closed) = PeImage::read(data) else { return Ok(None) };
    if closed.ensure_movable(data).is_err() {
        return Ok(None);
    }
    let joined = closed.rejoin_sections(ends).ok_or(RewrittenSince)?;
    if joined.removed.is_empty() {
        return Ok(None);
    }
    Ok(Some(closed.undo(data, joined).ok_or(RewrittenSince)?))
}

/// Returns the ranges of the tables of a PE file, each with its description. They must not share bytes with bundles
/// that are rewritten.
pub(crate) fn tables(data: &[u8]) -> Vec<(&'static [u8], Range<u64>)> {
    let Some(image) = PeImage::read(data) else { return Vec::new() };
    let mut tables: Vec<(&'static [u8], Range<u64>)> = Vec::new();
    if let Some(end) = image.table_end(image.sections.len()) {
        tables.push((b"the headers", 0..end));
    }
    if let Some(range) = image.symbol_table(data) {
        tables.push((b"the symbol table", range));
    }
    if let Some(range) = image.signature() {
        tables.push((b"the signature", range));
    }
    tables.retain(|(_, range)| !range.is_empty());
    tables
}

fn is_multiple(number: u64, alignment: u64) -> bool {
    number.checked_rem(alignment) == Some(0)
}

/// Writes new bytes over old ones from the offset `at` on, or returns `None` if `data` ends before.
fn overwrite(data: &mut [u8], at: u64, new: &[u8]) -> Option<()> {
    let start = usize::try_from(at).ok()?;
    data.get_mut(start..start.checked_add(new.len())?)?.copy_from_slice(new);
    Some(())
}

record! {
    /// The COFF header, and the fields of the optional header that are the same for 32 and 64 bits.
    PeHeader(_word) {
        machine: 2,
        section_count: 2,
        time: 4,
        /// The offset of the symbol table, and the number of symbols.
        symbols: 4,
        symbol_count: 4,
        optional_len: 2,
        flags: 2,
        magic: 2,
        linker_and_code: 6,
        data_len: 4,
        zeros_and_entry: 8,
        bases: 8,
        base: 4,
        section_alignment: 4,
        file_alignment: 4,
        versions: 8,
        more_versions: 8,
        image_len: 4,
        headers_len: 4,
        checksum: 4,
    }
}

record! {
    /// An entry of the list of debug data.
    DebugEntry(_word) {
        flags_and_time: 8,
        version_and_kind: 8,
        size: 4,
        address: 4,
        offset: 4,
    }
}

impl CoffSection {
    /// The range of the bytes of the section in the file.
    fn range(&self) -> Range<u64> {
        span(self.offset, self.size)
    }

    /// The range of the bytes of the section in the file that are loaded.
    fn loaded_range(&self) -> Range<u64> {
        span(self.offset, self.size.min(self.memory))
    }

    /// Whether the section has relocations or line numbers. Linked files hardly have any, and their offsets in the file
    /// would have to change too.
    fn has_relocations_or_lines(&self) -> bool {
        let Self { relocations, lines, relocation_count, line_count, .. } = *self;
        relocations | lines | relocation_count | line_count != 0
    }

    /// Whether [`close`] may have taken out a gap after the section: its bytes in the file are whole pages, and fewer
    /// than in memory.
    fn has_only_whole_pages(&self) -> bool {
        self.size > 0 && self.size.is_multiple_of(PAGE) && self.size < self.memory
    }
}

/// Pages of a gap that are taken out of the file.
struct RemovedPages {
    /// The index of the section.
    section: usize,
    range: Range<u64>,
    /// Whether the section continues after the pages, in a part with another header.
    is_split: bool,
}

/// The number of bytes in all removed pages.
fn removed_len(removed: &[RemovedPages]) -> u64 {
    total(removed.iter().map(|pages| len_of(&pages.range)))
}

impl RemovedPages {
    /// Whether no other range overlaps the pages or begins where they do. Without the pages, their start and their end
    /// are the same offset. So [`open`] would take a range that begins at the start for one that begins at the end, and
    /// move it.
    fn is_apart_from(&self, others: &[Range<u64>]) -> bool {
        let Range { start, end } = self.range;
        others.iter().all(|other| {
            let is_before = other.end <= start && other.start < start;
            is_before || other.start >= end
        })
    }
}

/// The sections of a file with their parts joined, and the pages that come back to them.
#[derive(Default)]
struct RejoinedSections {
    /// The sections with their old sizes, but still at their offsets in the closed file.
    sections: Vec<CoffSection>,
    /// The pages that come back. Their ranges count from the start of the section.
    removed: Vec<RemovedPages>,
    /// The offsets in the file at which bytes come back, as empty ranges, each with the number of bytes.
    inserted: Vec<(Range<u64>, u64)>,
}

impl RejoinedSections {
    /// Gives back the bytes that were taken out after `part`, which is the last part of the last section so far. The
    /// section then has `end` bytes in the file. `is_split` says whether another part follows. Returns `None` if the
    /// section has more bytes already.
    fn give_back(&mut self, part: &CoffSection, end: u64, is_split: bool) -> Option<()> {
        let section = self.sections.len().checked_sub(1)?;
        let joined = self.sections.get_mut(section)?;
        let at = part.range().end;
        self.inserted.push((at..at, end.checked_sub(joined.size)?));
        self.removed.push(RemovedPages { section, range: joined.size..end, is_split });
        joined.size = end;
        Some(())
    }

    /// Appends a part to the last section. Returns `None` if the section would be too large.
    fn append(&mut self, part: &CoffSection) -> Option<()> {
        let section = self.sections.last_mut()?;
        section.size = section.size.checked_add(part.size)?;
        section.memory = section.memory.checked_add(part.memory)?;
        Some(())
    }
}

/// The headers of a file.
struct PeImage {
    /// The bytes of all headers, or only those up to the last section header if the recorded length is wrong.
    headers: Vec<u8>,
    /// The offset of the COFF header.
    coff_at: u64,
    header: PeHeader,
    /// The offset of the directories, which are pairs of an address and a size.
    directories_at: u64,
    directory_count: u64,
    /// The offset of the section headers.
    table_at: u64,
    sections: Vec<CoffSection>,
}

impl PeImage {
    /// Reads the headers of a file. Returns `None` if it is not a PE file, or ends before its section headers do.
    fn read(data: &[u8]) -> Option<Self> {
        if !data.starts_with(b"MZ") {
            return None;
        }
        let magic_at = number::<4>(data, MAGIC_OFFSET_AT)?;
        if slice(data, magic_at, 4)? != b"PE\0\0" {
            return None;
        }
        let coff_at = magic_at.checked_add(4)?;
        let header: PeHeader = ENCODING.decode(tail(data, coff_at)?);
        let optional_at = coff_at.checked_add(COFF_LEN)?;
        let (_, offset_in_optional) = DIRECTORIES_AT.into_iter().find(|(magic, _)| *magic == header.magic)?;
        let directories_at = optional_at.checked_add(offset_in_optional)?;
        let table_at = optional_at.checked_add(header.optional_len)?;
        // The number of directories is in the 4 bytes before them, and each has 8 bytes. The number may be larger than
        // the optional header has room for.
        let room = table_at.checked_sub(directories_at)?.checked_div(8)?;
        let recorded_count = number::<4>(data, directories_at.checked_sub(4)?)?;
        let directory_count = recorded_count.min(DIRECTORIES_MAX).min(room);
        let table_len = header.section_count.checked_mul(SECTION_LEN)?;
        let sections = Table::new(ENCODING, slice(data, table_at, table_len)?).iter().collect();
        let (len, table_end) = (header.headers_len, table_at.checked_add(table_len)?);
        // If the recorded length is wrong, the headers are read without it, and `ensure_movable` refuses the file.
        let is_plausible = len <= HEADERS_MAX.min(len_u64(data)) && len >= table_end;
        let headers = slice(data, 0, if is_plausible { len } else { table_end })?.to_vec();
        Some(Self { headers, coff_at, header, directories_at, directory_count, table_at, sections })
    }

    /// The offset after a table of this number of section headers.
    fn table_end(&self, count: usize) -> Option<u64> {
        self.table_at.checked_add(to_u64(count).checked_mul(SECTION_LEN)?)
    }

    /// The first possible start of a section from `offset` on.
    fn aligned(&self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(self.header.file_alignment)
    }

    /// Whether the headers have the minimum length for the sections of the file.
    fn has_minimum_headers(&self) -> bool {
        self.minimum_headers_len(self.sections.len()) == Some(self.header.headers_len)
    }

    /// The minimum length of the headers of a number of sections.
    fn minimum_headers_len(&self, section_count: usize) -> Option<u64> {
        self.aligned(self.table_end(section_count)?)
    }

    /// Returns the address and the size of a directory, or `None` if the file does not have it. The directory of the
    /// signature has an offset in place of the address.
    fn directory(&self, index: u64) -> Option<(u64, u64)> {
        if index >= self.directory_count {
            return None;
        }
        let at = self.directories_at.checked_add(index.checked_mul(8)?)?;
        let (start, size) = (number::<4>(&self.headers, at)?, number::<4>(&self.headers, at.checked_add(4)?)?);
        if start > 0 && size > 0 { Some((start, size)) } else { None }
    }

    fn signature(&self) -> Option<Range<u64>> {
        let (offset, size) = self.directory(SIGNATURE)?;
        Some(span(offset, size))
    }

    /// Ensures that sections can be split and moved: they are aligned to pages of 4096 bytes in memory, have the order
    /// of their addresses, and share no bytes of the file.
    fn ensure_movable(&self, data: &[u8]) -> Result<(), HoleReason> {
        let file_alignment = self.header.file_alignment;
        let is_usual_file_alignment =
            file_alignment.is_power_of_two() && (FILE_ALIGNMENT_MIN..=PAGE).contains(&file_alignment);
        if self.header.section_alignment != PAGE || !is_usual_file_alignment {
            return Err(HoleReason::Alignment);
        }
        if self.sections.len() > SECTIONS_MAX {
            return Err(HoleReason::Limits);
        }
        let headers_len = self.header.headers_len;
        if len_u64(&self.headers) != headers_len || !is_multiple(headers_len, file_alignment) {
            return Err(HoleReason::Headers);
        }
        // The first address that the next section may have.
        let mut next_address = headers_len;
        for section in &self.sections {
            let is_at_later_page = section.address >= next_address && is_multiple(section.address, PAGE);
            if !is_at_later_page || section.has_relocations_or_lines() {
                return Err(HoleReason::Headers);
            }
            // Even an empty section needs its own address.
            next_address = section.address.saturating_add(section.memory.max(1));
            let Range { start, end } = section.range();
            let is_in_file = start >= headers_len && end <= len_u64(data) && is_multiple(start, file_alignment);
            if section.size > 0 && !is_in_file {
                return Err(HoleReason::Headers);
            }
        }
        if self.sections_are_disjoint() { Ok(()) } else { Err(HoleReason::Shared) }
    }

    /// Whether no byte of the file is in two sections.
    fn sections_are_disjoint(&self) -> bool {
        let with_bytes = self.sections.iter().filter(|section| section.size > 0);
        let mut ranges: Vec<Range<u64>> = with_bytes.map(CoffSection::range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.is_sorted_by(|one, next| one.end <= next.start)
    }

    /// Returns the range of the symbol table with its names, which is empty if the file has no symbols.
    fn symbol_table(&self, data: &[u8]) -> Option<Range<u64>> {
        let PeHeader { symbols: start, symbol_count, .. } = self.header;
        if start == 0 {
            return Some(0..0);
        }
        // The names begin with their length in bytes, which counts itself.
        let names = start.checked_add(symbol_count.checked_mul(SYMBOL_LEN)?)?;
        Some(start..names.checked_add(number::<4>(data, names).unwrap_or(0))?)
    }

    /// Returns the list of debug data with its offset, or `None` if it is outside the sections, or too long. A file
    /// without such a list has an empty one at the offset 0.
    fn debug_list<'d>(&self, data: &'d [u8]) -> Option<(u64, Table<'d, DebugEntry>)> {
        let Some((address, size)) = self.directory(DEBUG) else { return Some((0, Table::new(ENCODING, &[]))) };
        if size > DEBUG_LIST_MAX {
            return None;
        }
        let offset = self.offset_of(address, size)?;
        Some((offset, Table::new(ENCODING, slice(data, offset, size)?)))
    }

    /// Returns the offset of `size` bytes at an address, or `None` if they are not in one section of the file.
    fn offset_of(&self, address: u64, size: u64) -> Option<u64> {
        for section in &self.sections {
            let Some(into) = address.checked_sub(section.address) else { continue };
            let Some(end) = into.checked_add(size) else { continue };
            if end <= section.size {
                return into.checked_add(section.offset);
            }
        }
        None
    }

    /// Returns the ranges of debug data and of the symbol table, which may be in sections or outside of them. Returns
    /// `None` if the list of debug data cannot be read, or if a number is too large.
    fn debug_and_symbol_ranges(&self, data: &[u8]) -> Option<Vec<Range<u64>>> {
        let (_, list) = self.debug_list(data)?;
        let mut ranges = Vec::new();
        for entry in list.iter() {
            // Debug data without an offset is not in the file.
            if entry.offset > 0 {
                ranges.push(span(entry.offset, entry.size));
            }
        }
        ranges.push(self.symbol_table(data)?);
        Some(ranges)
    }

    /// Returns the first offset after all headers, sections, symbols and debug data.
    fn end(&self, data: &[u8]) -> Option<u64> {
        let mut end = self.header.headers_len.max(len_u64(&self.headers));
        for section in &self.sections {
            if section.size > 0 {
                end = end.max(section.range().end);
            }
        }
        for range in self.debug_and_symbol_ranges(data)? {
            end = end.max(range.end);
        }
        Some(end)
    }

    /// Returns the change that gives the list of debug data the new offsets, or no change if the offsets stay. Returns
    /// `None` if the list cannot be read or an offset is too large.
    fn debug_changes(&self, data: &[u8], moves: &OffsetMap) -> Option<Vec<ChangedRange<'static>>> {
        let (offset, list) = self.debug_list(data)?;
        let mut new: Vec<DebugEntry> = list.iter().collect();
        for entry in &mut new {
            if entry.offset > 0 {
                entry.offset = moves.moved(entry.offset);
            }
        }
        let new = ENCODING.try_encode(&new)?;
        // The list may end in bytes that are not a whole entry: they stay.
        if list.bytes.starts_with(&new) { Some(Vec::new()) } else { Some(vec![replace_bytes(offset, new)?]) }
    }

    /// Returns the pages of gaps that can be taken out, in the order of the file, and why the largest other gap stays.
    /// If there are not enough section headers for all gaps, it selects the largest. Returns `None` if the headers, the
    /// list of debug data or the symbol table cannot be read.
    fn select_pages(&self, data: &[u8], gaps: &[Range<u64>]) -> Option<(Vec<RemovedPages>, Option<HoleReason>)> {
        let others = self.debug_and_symbol_ranges(data)?;
        let mut by_size: Vec<_> = gaps.iter().collect();
        by_size.sort_by_key(|gap| Reverse(len_of(gap)));
        // The first reason is that of the largest gap.
        let (mut removed, mut stay_reason) = (Vec::new(), None);
        for gap in by_size {
            let reason = match self.pages_of_gap(data, gap) {
                Ok(pages) if pages.is_apart_from(&others) => {
                    removed.push(pages);
                    continue;
                }
                Ok(_) => HoleReason::Shared,
                // A gap without whole pages needs no reason.
                Err(HoleReason::Small) => continue,
                Err(reason) => reason,
            };
            // A smaller gap would save too little to need a reason.
            if len_of(gap) > PAGE && stay_reason.is_none() {
                stay_reason = Some(reason);
            }
        }
        // Gaps at the ends of sections come first, because they need no section header. Then the largest gaps.
        removed.sort_by_key(|pages| (pages.is_split, Reverse(len_of(&pages.range))));
        let ends = removed.iter().take_while(|pages| !pages.is_split).count();
        let removable_count = ends.saturating_add(self.free_header_count()?);
        if removable_count < removed.len() && stay_reason.is_none() {
            stay_reason = Some(HoleReason::Limits);
        }
        removed.truncate(removable_count);
        removed.sort_by_key(|pages| pages.range.start);
        Some((removed, stay_reason))
    }

    /// Returns the whole pages of a gap, or the reason why they cannot be removed. The gap must be in a single section.
    /// A gap at the start of a section stays: [`open`] would not recognise the part before it, which has no bytes.
    fn pages_of_gap(&self, data: &[u8], gap: &Range<u64>) -> Result<RemovedPages, HoleReason> {
        let mut sections = self.sections.iter().enumerate();
        let holding = sections.find(|(_, section)| {
            let loaded = section.loaded_range();
            loaded.start < gap.start && gap.end <= loaded.end
        });
        let (index, section) = holding.ok_or(HoleReason::Shared)?;
        let loaded_end = section.loaded_range().end;
        let aligned = self.aligned(section.memory).ok_or(HoleReason::Headers)?;
        // If the section had more bytes in the file than in memory with padding, `can_continue` would not recognise the
        // part after the gap.
        if section.size > aligned {
            return Err(HoleReason::Headers);
        }
        // Pages count from the start of the section.
        let start_in_section = gap.start.saturating_sub(section.offset).checked_next_multiple_of(PAGE);
        let start = section.offset.saturating_add(start_in_section.ok_or(HoleReason::Headers)?);
        // A gap at the end of the section is taken out with the padding after it, and needs no other section header.
        // The section must have all its bytes in the file, because `rejoin_sections` fills it up to `aligned` bytes.
        let section_end = section.range().end;
        let is_at_end = gap.end == loaded_end && aligned == section.size;
        if is_at_end && bytes_in(data, gap.end..section_end).is_some_and(is_zero) {
            let pages = RemovedPages { section: index, range: start..section_end, is_split: false };
            return if pages.range.is_empty() { Err(HoleReason::Small) } else { Ok(pages) };
        }
        let gap_end_in_section = gap.end.saturating_sub(section.offset);
        let end = gap.end.saturating_sub(gap_end_in_section.checked_rem(PAGE).unwrap_or(0));
        // A split needs whole pages, and bytes of the section after them.
        if start >= end || end >= loaded_end {
            return Err(HoleReason::Small);
        }
        // After a split, the rest would be a section of device code with only zeros, which `verify` reports as a fault.
        if gap.end == loaded_end {
            return Err(HoleReason::Alignment);
        }
        Ok(RemovedPages { section: index, range: start..end, is_split: true })
    }

    /// Returns the number of section headers that can be added, or `None` if the headers contradict one another.
    fn free_header_count(&self) -> Option<usize> {
        // Each symbol has the number of its section, which another section before it would change.
        if self.header.symbol_count > 0 {
            return Some(0);
        }
        let end = self.table_end(self.sections.len())?;
        let most = self.end_of_header_space(end)?.checked_sub(end)?.checked_div(SECTION_LEN).unwrap_or(0);
        let most = usize::try_from(most).ok()?.min(SECTIONS_MAX.saturating_sub(self.sections.len()));
        Some((1..=most).rev().find(|&count| self.can_add_headers(count)).unwrap_or(0))
    }

    /// Returns the end of the space for section headers, which now end at `end`.
    fn end_of_header_space(&self, end: u64) -> Option<u64> {
        // The headers are loaded before the first section. At most they grow up to its address.
        let mut limit = match self.sections.first() {
            Some(first) => first.address,
            None => self.header.headers_len,
        };
        let zeros = tail(&self.headers, end)?.iter().take_while(|&&byte| byte == 0).count();
        let end_of_zeros = end.checked_add(to_u64(zeros))?;
        let has_other_data = end_of_zeros < self.header.headers_len;
        // Longer headers than necessary do not grow: the documentation of this module says why.
        if has_other_data || !self.has_minimum_headers() {
            limit = limit.min(end_of_zeros);
        }
        // The data of some directories is in the headers, after the section headers. Addresses there are offsets.
        for index in 0..self.directory_count {
            // This directory has an offset in the file in place of an address.
            if index == SIGNATURE {
                continue;
            }
            match self.directory(index) {
                Some((start, _)) if start >= end => limit = limit.min(start),
                _ => {}
            }
        }
        Some(limit)
    }

    /// Whether [`open`] can tell from the headers whether they grew, after this number of section headers was added.
    /// [`open`] assumes that headers of the minimum length grew. So headers that did not grow must have another length.
    fn can_add_headers(&self, count: usize) -> bool {
        // Headers of the minimum length grow if necessary, and then have the minimum length again.
        if self.has_minimum_headers() {
            return true;
        }
        match self.minimum_headers_len(self.sections.len().saturating_add(count)) {
            Some(len) => len != self.header.headers_len,
            None => false,
        }
    }

    /// Returns the section headers without some pages, still with the old offsets. Returns `None` if the numbers of a
    /// section and of its gaps do not fit together.
    fn split_sections(&self, removed: &[RemovedPages]) -> Option<Vec<CoffSection>> {
        let mut sections = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            let mut last = *section;
            for RemovedPages { range, is_split, .. } in removed.iter().filter(|pages| pages.section == index) {
                let mut rest = last;
                last.size = range.start.checked_sub(last.offset)?;
                // Without a split, the section becomes shorter in the file, but not in memory.
                if *is_split {
                    // In memory, the part before the gap also has the gap, so that the rest keeps its address.
                    let memory = range.end.checked_sub(last.offset)?;
                    last.memory = memory;
                    rest.address = rest.address.checked_add(memory)?;
                    rest.memory = rest.memory.checked_sub(memory)?;
                    rest.offset = range.end;
                    rest.size = rest.size.checked_sub(memory)?;
                    sections.push(std::mem::replace(&mut last, rest));
                }
            }
            sections.push(last);
        }
        Some(sections)
    }

    /// Returns the headers of the file without some pages, and the new offsets of everything else. Returns `None` if
    /// the numbers of a section and of its gaps do not fit together.
    fn close_gaps(&self, removed: &[RemovedPages]) -> Option<(Vec<u8>, OffsetMap)> {
        let mut sections = self.split_sections(removed)?;
        let old_len = self.header.headers_len;
        let len = if self.has_minimum_headers() { self.minimum_headers_len(sections.len())? } else { old_len };
        // The headers may grow: everything after them then moves.
        let mut replaced = vec![(old_len..old_len, len.checked_sub(old_len)?)];
        replaced.extend(removed.iter().map(|pages| (pages.range.clone(), 0)));
        let moves = OffsetMap::new(replaced);
        for section in &mut sections {
            if section.size > 0 {
                section.offset = moves.moved(section.offset);
            }
        }
        let data_len = self.header.data_len.checked_sub(removed_len(removed))?;
        Some((self.headers_with(&sections, len, &moves, data_len)?, moves))
    }

    /// Returns the headers of the file with `sections` in place of its section headers, filled with zeros up to the
    /// length `len`. `moves` has the new offset of the symbol table, and `data_len` is the new size of the initialized
    /// data. Returns `None` if the section headers need more than `len` bytes, or if a number is too large.
    fn headers_with(&self, sections: &[CoffSection], len: u64, moves: &OffsetMap, data_len: u64) -> Option<Vec<u8>> {
        let mut headers = self.headers.clone();
        // There may be fewer section headers than before: zeros replace the old ones.
        let old_table =
            vec![0; usize::try_from(self.table_end(self.sections.len())?.checked_sub(self.table_at)?).ok()?];
        overwrite(&mut headers, self.table_at, &old_table)?;
        if self.table_end(sections.len())? > len {
            return None;
        }
        headers.resize(usize::try_from(len).ok()?, 0);
        overwrite(&mut headers, self.table_at, &ENCODING.try_encode(sections)?)?;
        let symbols = match self.header.symbols {
            0 => 0,
            old => moves.moved(old),
        };
        let section_count = to_u64(sections.len());
        let header = PeHeader { section_count, symbols, data_len, headers_len: len, ..self.header };
        overwrite(&mut headers, self.coff_at, &ENCODING.try_encode(&[header])?)?;
        Some(headers)
    }

    /// Joins the parts of the sections that [`close`] split, and gives back the pages that it took out at some of the
    /// `ends`. Returns `None` if the numbers of a section do not fit together.
    fn rejoin_sections(&self, ends: &[u64]) -> Option<RejoinedSections> {
        const IS_SPLIT: bool = true;
        let mut joined = RejoinedSections::default();
        let mut sections = self.sections.iter().peekable();
        while let Some(section) = sections.next() {
            joined.sections.push(*section);
            // The last part of the section so far. A gap may follow it, and then another part.
            let mut part = section;
            while part.has_only_whole_pages() && ends.contains(&part.range().end) {
                let whole = *joined.sections.last()?;
                if let Some(next) = sections.next_if(|next| self.can_continue(part, next)) {
                    joined.give_back(part, next.address.checked_sub(whole.address)?, IS_SPLIT)?;
                    joined.append(next)?;
                    part = next;
                } else {
                    // The gap was at the end of the section: nothing follows it but padding.
                    joined.give_back(part, self.aligned(whole.memory)?, !IS_SPLIT)?;
                    break;
                }
            }
        }
        Some(joined)
    }

    /// Whether the section `next` may be the part that [`close`] made after a gap at the end of `part`. Then it has the
    /// same name and flags, and directly follows `part` in the file and in memory.
    fn can_continue(&self, part: &CoffSection, next: &CoffSection) -> bool {
        if (next.name, next.flags, next.offset) != (part.name, part.flags, part.range().end) {
            return false;
        }
        if part.address.checked_add(part.memory) != Some(next.address) {
            return false;
        }
        // The bytes of a part that are not in memory are only padding.
        let Some(aligned) = self.aligned(next.memory) else { return false };
        next.size > 0 && next.size <= aligned
    }

    /// Returns the changes that give the bytes of gaps back to the sections in `joined`. Returns `None` if a header
    /// cannot be read, or if [`close`] would not make this file of the old one.
    fn undo(&self, data: &[u8], joined: RejoinedSections) -> Option<Vec<ChangedRange<'static>>> {
        let RejoinedSections { mut sections, mut removed, inserted } = joined;
        // Headers of the minimum length may have grown, so they get the minimum length for the joined sections.
        let closed_len = self.header.headers_len;
        let len = if self.has_minimum_headers() { self.minimum_headers_len(sections.len())? } else { closed_len };
        // The pages come back, and the headers lose their bytes after `len`.
        let moves = OffsetMap::new([inserted.clone(), vec![(len..closed_len, 0)]].concat());
        for section in &mut sections {
            if section.size > 0 {
                section.offset = moves.moved(section.offset);
            }
        }
        // The ranges of the pages count from the start of their section. From here on, they count from the start of the
        // old file.
        for pages in &mut removed {
            let offset = sections.get(pages.section)?.offset;
            pages.range = pages.range.start.checked_add(offset)?..pages.range.end.checked_add(offset)?;
        }
        let data_len = self.header.data_len.checked_add(removed_len(&removed))?;
        let headers = self.headers_with(&sections, len, &moves, data_len)?;
        let mut others = self.debug_and_symbol_ranges(data)?;
        for other in &mut others {
            *other = span(moves.moved(other.start), len_of(other));
        }
        if !self.is_closed_form_of(&PeImage::read(&headers)?, &removed, &others)? {
            return None;
        }
        let mut changes = self.debug_changes(data, &moves)?;
        changes.extend(inserted.into_iter().map(|(range, len)| (range, vec![Piece::Zeros(len)])));
        changes.push((0..closed_len, vec![Piece::Bytes(headers)]));
        sort_changes(changes)
    }

    /// Whether [`close`] can make these headers from the file `opened`, by removing these pages. `others` are the
    /// ranges of debug data and symbols in that file. If not, another tool has changed this file since. Returns `None`
    /// if the numbers in `opened` contradict one another.
    fn is_closed_form_of(&self, opened: &Self, removed: &[RemovedPages], others: &[Range<u64>]) -> Option<bool> {
        let (closed_again, _) = opened.close_gaps(removed)?;
        let splits = removed.iter().filter(|pages| pages.is_split).count();
        let has_room = splits <= opened.free_header_count()?;
        Some(closed_again == self.headers && has_room && removed.iter().all(|pages| pages.is_apart_from(others)))
    }
}

/// The checksum of a PE file: the sum of all numbers of two bytes, with the carry added, and of the length. The
/// checksum itself counts as 0.
#[derive(Default)]
struct Checksum {
    sum: u64,
    len: u64,
}

impl Checksum {
    /// Computes the checksum of a file with some changes.
    fn of_changed(data: Slice<'_>, changes: &[ChangedRange<'_>]) -> Result<u32> {
        let (mut checksum, mut position) = (Self::default(), 0);
        for (range, new) in changes {
            checksum.copy(data.claimed(&(position..range.start))?)?;
            emit(new, &mut checksum)?;
            position = range.end;
        }
        checksum.copy(data.claimed(&(position..data.len()))?)?;
        Ok(checksum.value())
    }

    /// Returns the checksum of the bytes so far. The carry of the sum is added until the sum has 16 bits, and then the
    /// number of the bytes.
    fn value(&self) -> u32 {
        let mut sum = self.sum;
        while sum > u64::from(u16::MAX) {
            sum = (sum >> 16).saturating_add(sum & u64::from(u16::MAX));
        }
        u32::try_from(sum.saturating_add(self.len) & u64::from(u32::MAX)).unwrap_or(0)
    }
}

impl Sink for Checksum {
    /// Adds the next bytes of the file, which may begin or end in the middle of a number.
    fn write(&mut self, data: &[u8]) -> Result<()> {
        // The first byte may be the second one of a number that began in the data before.
        let is_odd = self.len & 1 == 1;
        let (first, rest) = data.split_at(usize::from(is_odd).min(data.len()));
        for &byte in first {
            add(&mut self.sum, u64::from(byte) << 8);
        }
        let (pairs, last) = rest.as_chunks();
        for &pair in pairs {
            add(&mut self.sum, u16::from_le_bytes(pair).into());
        }
        // The first byte of a number. The second one begins the next data, and counts as zero at the end of the file.
        for &byte in last {
            add(&mut self.sum, byte.into());
        }
        add(&mut self.len, len_u64(data));
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        slice.read_blocks(&mut |block| self.write(block))
    }
}

#[cfg(test)]
mod tests {
    use super::super::apply;
    use super::*;
    use crate::base::io::input::Input;

    const TABLE: u64 = 0x40 + 4 + COFF_LEN + 240;

    fn section_header(name: &[u8; 8], memory: u64, address: u64, size: u64, offset: u64) -> Vec<u8> {
        let name = u64::from_le_bytes(*name);
        let section = CoffSection { name, memory, address, size, offset, ..CoffSection::default() };
        ENCODING.try_encode(&[section]).unwrap()
    }

    /// Makes a library with headers of some length, whose section of device code has gaps of two pages each. The
    /// checksum is 0 for none.
    fn library(headers: u64, gaps: u64, checksum: u64) -> (Vec<u8>, Vec<Range<u64>>) {
        let code = (1 + 3 * gaps) * PAGE;
        let mut data = vec![0; usize::try_from(headers + code + 512).unwrap()];
        overwrite(&mut data, 0, b"MZ").unwrap();
        overwrite(&mut data, 60, &[0x40]).unwrap();
        overwrite(&mut data, 0x40, b"PE\0\0").unwrap();
        let header = PeHeader {
            machine: 0x8664,
            section_count: 2,
            optional_len: 240,
            magic: 0x20b,
            data_len: code + 512,
            section_alignment: PAGE,
            file_alignment: 512,
            headers_len: headers,
            checksum,
            ..PeHeader::default()
        };
        overwrite(&mut data, 0x44, &ENCODING.try_encode(&[header]).unwrap()).unwrap();
        overwrite(&mut data, TABLE, &section_header(b".nv_fatb", code - 100, PAGE, code, headers)).unwrap();
        let host_data = section_header(b".data\0\0\0", 300, PAGE + code, 512, headers + code);
        overwrite(&mut data, TABLE + SECTION_LEN, &host_data).unwrap();
        overwrite(&mut data, headers, b"fatbin").unwrap();
        overwrite(&mut data, headers + code, b"data").unwrap();
        let gaps = (0..gaps).map(|gap| headers + gap * 3 * PAGE + 50..headers + (gap + 1) * 3 * PAGE - 8);
        let gaps: Vec<_> = gaps.collect();
        for gap in &gaps {
            overwrite(&mut data, gap.end, b"code").unwrap();
        }
        (data, gaps)
    }

    /// Loads a file: addresses and bytes of sections, without the zeros at their ends.
    fn memory(data: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut memory: Vec<(u64, Vec<u8>)> = Vec::new();
        for section in PeImage::read(data).unwrap().sections {
            let bytes = bytes_in(data, section.range()).unwrap();
            match memory.last_mut() {
                Some((start, before)) if section.name == u64::from_le_bytes(*b".nv_fatb") => {
                    before.resize(usize::try_from(section.address - *start).unwrap(), 0);
                    before.extend(bytes);
                }
                _ => memory.push((section.address, bytes.to_vec())),
            }
        }
        for (_, bytes) in &mut memory {
            bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1);
        }
        memory
    }

    /// Returns the ends of all sections of device code.
    fn ends(image: &PeImage) -> Vec<u64> {
        let all = image.sections.iter().filter(|section| section.name == u64::from_le_bytes(*b".nv_fatb"));
        all.map(|section| section.range().end).collect()
    }

    /// Returns a file with those gaps closed that can be, and with the right checksum.
    fn closed(data: &[u8], gaps: &[Range<u64>]) -> Vec<u8> {
        let changes = match close(data, gaps) {
            Ok(closing) => closing.changes,
            Err(_) => Vec::new(),
        };
        let input = Input::from_bytes("in", data.to_vec());
        apply(data, &with_checksum(input.as_slice(), changes).unwrap())
    }

    #[test]
    fn headers_of_any_length_have_room_and_come_back() {
        for headers in (1..=8).map(|number| number * 512) {
            for count in (1..if cfg!(miri) { 5 } else { 110 }).step_by(3) {
                let (data, gaps) = library(headers, count, 1 - headers / 512 % 2);
                let small = closed(&data, &gaps);
                let image = PeImage::read(&small).unwrap();
                let what = format!("{headers} bytes of headers, {count} gaps, {} sections", image.sections.len());
                assert!(small.len() < data.len() && memory(&small) == memory(&data), "{what}");
                assert!(image.sections.len() <= SECTIONS_MAX && image.header.headers_len <= PAGE, "{what}");
                // The first section limits headers that grow, and their old end the others.
                let has_minimum_headers = headers == 512;
                let end = if has_minimum_headers { PAGE } else { headers - 512 };
                let room = (end - TABLE) / SECTION_LEN;
                assert_eq!(to_u64(image.sections.len()), room.min(96).min(2 + count).max(2), "{what}");
                let back = open(&small, &ends(&image)).unwrap();
                let back = back.map(|changes| closed(&apply(&small, &changes), &[]));
                assert!(back.unwrap_or(small) == closed(&data, &[]), "{what}");
            }
        }
    }

    #[test]
    fn gaps_that_stay_have_a_reason() {
        let (data, gaps) = library(512, 3, 0);
        assert_eq!(close(&data, &gaps).err(), None);
        assert_eq!(close(&[&data[..], b"other"].concat(), &gaps).err(), Some(HoleReason::DataAfter));
        assert_eq!(close(&data, std::slice::from_ref(&(1000..3000))).err(), Some(HoleReason::Small));
        assert_eq!(close(&data, std::slice::from_ref(&(100..9000))).err(), Some(HoleReason::Shared));
        let mut large_pages = data.clone();
        large_pages[0x44 + 20 + 33] = 0x20;
        assert_eq!(close(&large_pages, &gaps).err(), Some(HoleReason::Alignment));
        assert_eq!(close(&data[..100], &gaps).err(), Some(HoleReason::Headers));
        // One gap too many for the section headers.
        let (data, gaps) = library(512, 100, 0);
        assert_eq!(close(&data, &gaps).unwrap().stay_reason, Some(HoleReason::Limits));
    }

    fn checksum_of_parts(parts: &[&[u8]]) -> u32 {
        let mut checksum = Checksum::default();
        for part in parts {
            checksum.write(part).unwrap();
        }
        checksum.value()
    }

    #[test]
    fn a_checksum_does_not_depend_on_the_length_of_its_parts() {
        assert_eq!(checksum_of_parts(&[&[1, 2, 3]]), 0x201 + 3 + 3);
        assert_eq!(checksum_of_parts(&[&[0xff, 0xff, 2]]), 2 + 3);
        for parts in [&[&[1][..], &[2, 3]][..], &[&[1, 2], &[3]], &[&[], &[1], &[], &[2], &[3]]] {
            assert_eq!(checksum_of_parts(parts), checksum_of_parts(&[&[1, 2, 3]]));
        }
    }

    #[test]
    fn long_section_names_of_pe_files_need_symbols() {
        for (magic, header_len, count_at) in [(0x10b_u16, 224_u16, 92), (0x20b, 240, 108)] {
            for symbols in [0_u8, 1] {
                let mut data = vec![0; 64 + 24 + usize::from(header_len)];
                data[..2].copy_from_slice(b"MZ");
                data[60] = 64;
                data[64..68].copy_from_slice(b"PE\0\0");
                data[64 + 12] = symbols;
                data[64 + 20..64 + 22].copy_from_slice(&header_len.to_le_bytes());
                data[88..90].copy_from_slice(&magic.to_le_bytes());
                data[88 + count_at] = 16;
                assert_eq!(has_no_names(&data), symbols == 0, "{magic:#x}");
            }
        }
        assert!(!has_no_names(b"MZ") && !has_no_names(b"\x7fELF\x02\x01\x01"));
    }
}
