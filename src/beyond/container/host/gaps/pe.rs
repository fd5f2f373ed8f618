//! Gaps of PE programs and libraries, and what else of them depends on their bytes: signature and checksum.
//!
//! [`close`] takes whole pages of gaps out of the file and changes no address:
//!
//! - A section is split where a gap ends. The part before it has fewer bytes in the file than in memory, which loaders
//!   fill with zeros, and the part after it has a section header of its own, with the same name. A gap at the end of a
//!   section needs none.
//! - New section headers take the room after the old ones. If that is not enough, the headers grow, up to the first
//!   section.
//! - What follows moves by whole pages. So do the offsets of it: those of sections, of debug data, and of the symbol
//!   table.
//!
//! [`open`] undoes this, if [`close`] would make the same file again. Headers grow only if they have the minimum length
//! for their sections. Longer headers keep their length, and `room` never lets them reach the minimum. `open` can thus
//! tell which case it was.
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
//! Layout: Microsoft's "PE Format" of 2025. Windows takes no more than 96 sections, whose addresses follow each other.
//!
//! Only files are made shorter whose sections are aligned to pages, not to more, and do not share bytes; files with
//! symbols only at the ends of sections, because each symbol has the number of its section.

use std::ops::Range;

use super::{Closing, HoleReason, Rewritten, change, in_order};
use crate::base::bytes::{add, is_zero, len_of, len_u64, number, part, slice, span, tail, to_u64, total};
use crate::base::error::{Error, Result};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Change, Piece, Sink, emit};
use crate::llvm::container::host::coff::CoffSection;
use crate::llvm::container::host::moves::Moves;
use crate::llvm::container::records::{Encoding, Table, record};

const ENCODING: Encoding = Encoding::LITTLE_64;
const COFF_LEN: u64 = 20;
const SECTION_LEN: u64 = 40;
const SYMBOL_LEN: u64 = 18;
const DEBUG_LEN: u64 = 28;

/// The offset of the checksum in the headers.
const CHECKSUM: u64 = 84;

/// Indices of directories.
const SIGNATURE: u64 = 4;
const DEBUG: u64 = 6;
const DIRECTORIES_MAX: u64 = 16;

/// The longest headers that are changed, in bytes. They end before the first section, which mostly has the address
/// 4096.
const HEADERS_MAX: u64 = 64 << 10;

/// The largest number of sections that Windows takes.
const SECTIONS_MAX: usize = 96;

/// The longest list of debug data that is read, in bytes. Compilers write fewer than ten entries.
const DEBUG_LIST_MAX: u64 = 100 * DEBUG_LEN;

/// The size of a page, in bytes.
const PAGE: u64 = 4096;

/// The smallest alignment of sections in a file, in bytes.
const FILE_ALIGNMENT_MIN: u64 = 512;

/// Whether a PE file has no table for long section names: its header records no symbols.
pub(crate) fn has_no_names(data: &[u8]) -> bool {
    PeImage::read(data).is_some_and(|image| image.header.symbols == 0)
}

/// Returns the range of the signature of a PE file, which may lie anywhere, or `None` if it is not signed.
pub(crate) fn signature(data: &[u8]) -> Option<Range<u64>> {
    PeImage::read(data)?.signature()
}

/// Returns the changes that remove the signature, or `None` if anything but zeros follows it, or if it shares bytes
/// with anything.
pub(crate) fn unsigned(data: &[u8]) -> Option<Vec<Change<'static>>> {
    let image = PeImage::read(data)?;
    let range = image.signature()?;
    let is_last = image.end(data)? <= range.start && is_zero(tail(data, range.end)?);
    let directory = image.directories.checked_add(SIGNATURE.checked_mul(8)?)?;
    is_last.then_some(vec![change(directory, vec![0; 8])?, (range.start..len_u64(data), Vec::new())])
}

/// Ensures that [`close`] can take bytes out of files like this, if the gaps allow it.
pub(crate) fn ensure_can_close(data: &[u8]) -> Result<(), HoleReason> {
    let image = PeImage::read(data).ok_or(HoleReason::Headers)?;
    image.ensure_movable(data)?;
    // Data after all that the headers know of may be found by its offset.
    let after = image.end(data).ok_or(HoleReason::Headers)?;
    let is_last = image.signature().is_none() && tail(data, after).is_some_and(is_zero);
    if is_last { Ok(()) } else { Err(HoleReason::DataAfter) }
}

/// The changes that take whole pages of some gaps, which hold zeros, out of a file. The headers come first, and have
/// the old checksum.
pub(crate) fn close(data: &[u8], gaps: &[Range<u64>]) -> Result<Closing, HoleReason> {
    ensure_can_close(data)?;
    let image = PeImage::read(data).ok_or(HoleReason::Headers)?;
    let (cuts, left) = image.cuts(data, gaps).ok_or(HoleReason::Headers)?;
    if cuts.is_empty() {
        return Err(left.unwrap_or(HoleReason::Small));
    }
    let saved = total(cuts.iter().map(|cut| len_of(&cut.range)));
    let (headers, moves) = image.closed(&cuts).ok_or(HoleReason::Headers)?;
    if saved <= len_u64(&headers).saturating_sub(image.header.headers_len) {
        return Err(HoleReason::Small);
    }
    let mut changes = image.debug_changes(data, &moves).ok_or(HoleReason::Headers)?;
    changes.extend(cuts.into_iter().map(|cut| (cut.range, Vec::new())));
    changes.push((0..len_u64(&image.headers), vec![Piece::Bytes(headers)]));
    Ok(Closing { changes: in_order(changes).ok_or(HoleReason::Shared)?, left })
}

/// Some changes of a file, of which the headers come first or stay, with the right checksum, if it has any.
pub(crate) fn with_checksum(data: Slice<'_>, mut changes: Vec<Change<'static>>) -> Result<Vec<Change<'static>>> {
    let Some(image) = PeImage::read(data.bytes()).filter(|image| image.header.checksum > 0) else { return Ok(changes) };
    let range = 0..len_u64(&image.headers);
    let mut headers = match changes.first() {
        Some((first, pieces)) if *first == range => match pieces.as_slice() {
            [Piece::Bytes(headers)] => headers.clone(),
            _ => return Err(Error::internal("the new headers of a PE file are not bytes")),
        },
        _ => image.headers.clone(),
    };
    changes.retain(|(changed, _)| *changed != range);
    let at = image.at.saturating_add(CHECKSUM);
    put(&mut headers, at, &[0; 4]);
    changes.insert(0, (range, vec![Piece::Bytes(headers.clone())]));
    let checksum = Checksum::of(data, &changes)?;
    put(&mut headers, at, &checksum.to_le_bytes());
    if let Some((_, new)) = changes.first_mut() {
        *new = vec![Piece::Bytes(headers)];
    }
    Ok(changes)
}

/// The range of the checksum in a file; empty if the file is not a PE file.
pub(crate) fn checksum(data: &[u8]) -> Range<u64> {
    PeImage::read(data).map_or(0..0, |image| span(image.at.saturating_add(CHECKSUM), 4))
}

/// Returns the changes that give a file the bytes back that [`close`] took out of it, or `None` if it took none. Gaps
/// were only where a section ends now with zeros after bundles: at one of `ends`.
pub(crate) fn open(data: &[u8], ends: &[u64]) -> Result<Option<Vec<Change<'static>>>, Rewritten> {
    let Some(closed) = PeImage::read(data).filter(|image| image.ensure_movable(data).is_ok()) else { return Ok(None) };
    let joined = closed.joined(ends).ok_or(Rewritten)?;
    if joined.cuts.is_empty() { Ok(None) } else { closed.opening(data, joined).map(Some).ok_or(Rewritten) }
}

/// The tables of a PE file, each with its description.
pub(crate) fn tables(data: &[u8]) -> Vec<(&'static [u8], Range<u64>)> {
    let Some(image) = PeImage::read(data) else { return Vec::new() };
    let headers = image.table_end(image.sections.len()).map(|end| (&b"the headers"[..], 0..end));
    let symbols = image.symbols(data).map(|range| (&b"the symbol table"[..], range));
    let signature = image.signature().map(|range| (&b"the signature"[..], range));
    [headers, symbols, signature].into_iter().flatten().filter(|(_, range)| !range.is_empty()).collect()
}

/// Writes over some bytes.
fn put(data: &mut [u8], at: u64, new: &[u8]) -> Option<()> {
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
    /// The range of its bytes in the file.
    fn range(&self) -> Range<u64> {
        span(self.offset, self.size)
    }
}

/// Pages of a gap that are taken out of the file.
struct PeCut {
    /// The index of their section.
    section: usize,
    range: Range<u64>,
    /// Whether the section goes on after them, in a part of its own.
    is_split: bool,
}

impl PeCut {
    /// Whether it lies in none of some other ranges, and none begins where it does.
    fn is_apart_from(&self, others: &[Range<u64>]) -> bool {
        let Range { start, end } = self.range;
        others.iter().all(|other| other.start >= end || other.end <= start && other.start < start)
    }
}

/// The sections of a file to which their bytes come back.
#[derive(Default)]
struct Joined {
    /// At their old offsets.
    sections: Vec<CoffSection>,
    /// The bytes that come back, as offsets in the section.
    cuts: Vec<PeCut>,
    /// Where they come back, and how many.
    inserted: Vec<(Range<u64>, u64)>,
}

impl Joined {
    /// Inserts bytes after a part of the last section, which has its bytes up to `end` then.
    fn insert(&mut self, part: &CoffSection, end: u64, is_split: bool) -> Option<()> {
        let section = self.sections.len().checked_sub(1)?;
        let joined = self.sections.get_mut(section)?;
        let at = part.range().end;
        self.inserted.push((at..at, end.checked_sub(joined.size)?));
        self.cuts.push(PeCut { section, range: joined.size..end, is_split });
        joined.size = end;
        Some(())
    }
}

/// The headers of a file.
struct PeImage {
    /// All up to the first section, or just up to the last section header.
    headers: Vec<u8>,
    /// The offset of the COFF header.
    at: u64,
    header: PeHeader,
    directories: u64,
    directory_count: u64,
    table: u64,
    sections: Vec<CoffSection>,
}

impl PeImage {
    fn read(data: &[u8]) -> Option<Self> {
        let magic_at = number::<4>(data, 60).filter(|_| data.starts_with(b"MZ"))?;
        let at = magic_at.checked_add(4).filter(|_| slice(data, magic_at, 4) == Some(b"PE\0\0"))?;
        let header: PeHeader = ENCODING.decode(tail(data, at)?);
        let optional = at.checked_add(COFF_LEN)?;
        let directories = match header.magic {
            0x10b => optional.checked_add(96)?,
            0x20b => optional.checked_add(112)?,
            _ => return None,
        };
        let table = optional.checked_add(header.optional_len)?;
        let there = table.checked_sub(directories)?.checked_div(8)?;
        let directory_count = number::<4>(data, directories.checked_sub(4)?)?.min(DIRECTORIES_MAX).min(there);
        let table_len = header.section_count.checked_mul(SECTION_LEN)?;
        let sections = Table::new(ENCODING, slice(data, table, table_len)?).iter().collect();
        let (len, table_end) = (header.headers_len, table.checked_add(table_len)?);
        let is_short = len <= HEADERS_MAX.min(len_u64(data)) && len >= table_end;
        let headers = slice(data, 0, if is_short { len } else { table_end })?.to_vec();
        Some(Self { headers, at, header, directories, directory_count, table, sections })
    }

    /// Where a table of this number of section headers ends.
    fn table_end(&self, count: usize) -> Option<u64> {
        self.table.checked_add(to_u64(count).checked_mul(SECTION_LEN)?)
    }

    /// The first offset from `offset` on at which sections may begin.
    fn aligned(&self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(self.header.file_alignment)
    }

    /// Whether the headers are just as long as these sections need.
    fn is_fitting(&self) -> bool {
        self.table_end(self.sections.len()).and_then(|end| self.aligned(end)) == Some(self.header.headers_len)
    }

    /// A directory: an address or, for the signature, an offset; and a size. None if there is none.
    fn directory(&self, index: u64) -> Option<(u64, u64)> {
        let at = self.directories.checked_add(index.checked_mul(8)?).filter(|_| index < self.directory_count)?;
        let directory = (number::<4>(&self.headers, at)?, number::<4>(&self.headers, at.checked_add(4)?)?);
        Some(directory).filter(|&(start, size)| start > 0 && size > 0)
    }

    fn signature(&self) -> Option<Range<u64>> {
        self.directory(SIGNATURE).map(|(offset, size)| span(offset, size))
    }

    /// Ensures that sections can be split and moved.
    fn ensure_movable(&self, data: &[u8]) -> Result<(), HoleReason> {
        let is_aligned = |number: u64, alignment: u64| number.checked_rem(alignment) == Some(0);
        let file_alignment = self.header.file_alignment;
        if self.header.section_alignment != PAGE
            || !file_alignment.is_power_of_two()
            || !(FILE_ALIGNMENT_MIN..=PAGE).contains(&file_alignment)
        {
            return Err(HoleReason::Alignment);
        }
        if self.sections.len() > SECTIONS_MAX {
            return Err(HoleReason::Limits);
        }
        let headers_len = self.header.headers_len;
        if len_u64(&self.headers) != headers_len || !is_aligned(headers_len, file_alignment) {
            return Err(HoleReason::Headers);
        }
        let (mut address, mut ranges) = (self.header.headers_len, Vec::new());
        for section in &self.sections {
            let Range { start, end } = section.range();
            let lies_well = start >= self.header.headers_len
                && is_aligned(start, self.header.file_alignment)
                && end <= len_u64(data);
            let CoffSection { relocations, lines, relocation_count, line_count, .. } = *section;
            let has_numbers = relocations | lines | relocation_count | line_count != 0;
            if section.address < address
                || !is_aligned(section.address, PAGE)
                || has_numbers
                || section.size > 0 && !lies_well
            {
                return Err(HoleReason::Headers);
            }
            address = section.address.saturating_add(section.memory.max(1));
            ranges.extend((section.size > 0).then_some(start..end));
        }
        ranges.sort_unstable_by_key(|range| range.start);
        if ranges.is_sorted_by(|one, next| one.end <= next.start) { Ok(()) } else { Err(HoleReason::Shared) }
    }

    /// The range of the symbol table with its names, which is empty if there is none.
    fn symbols(&self, data: &[u8]) -> Option<Range<u64>> {
        let PeHeader { symbols: start, symbol_count, .. } = self.header;
        if start == 0 {
            return Some(0..0);
        }
        let names = start.checked_add(symbol_count.checked_mul(SYMBOL_LEN)?)?;
        Some(start..names.checked_add(number::<4>(data, names).unwrap_or(0))?)
    }

    /// Returns the offset of the list of debug data, and the list, or `None` if it is not in the file, or too long.
    fn debug_list<'d>(&self, data: &'d [u8]) -> Option<(u64, Table<'d, DebugEntry>)> {
        let Some((address, size)) = self.directory(DEBUG) else { return Some((0, Table::new(ENCODING, &[]))) };
        let is_inside = |section: &&CoffSection| {
            let into = address.checked_sub(section.address);
            into.and_then(|into| into.checked_add(size)).is_some_and(|end| end <= section.size)
        };
        let section = self.sections.iter().find(is_inside).filter(|_| size <= DEBUG_LIST_MAX)?;
        let offset = address.checked_sub(section.address)?.checked_add(section.offset)?;
        Some((offset, Table::new(ENCODING, slice(data, offset, size)?)))
    }

    /// The ranges in the file to which other fields than those of sections lead: debug data and symbols.
    fn others(&self, data: &[u8]) -> Option<Vec<Range<u64>>> {
        let (_, list) = self.debug_list(data)?;
        let ranges = list.iter().map(|entry| span(entry.offset, entry.size));
        Some(ranges.filter(|range| range.start > 0).chain([self.symbols(data)?]).collect())
    }

    /// The first offset after all headers, sections, symbols and debug data.
    fn end(&self, data: &[u8]) -> Option<u64> {
        let sections = self.sections.iter().map(CoffSection::range).filter(|range| !range.is_empty());
        let ends = sections.chain(self.others(data)?).map(|range| range.end);
        Some(ends.fold(self.header.headers_len.max(len_u64(&self.headers)), u64::max))
    }

    /// The changes of the list of debug data, if all moves.
    fn debug_changes(&self, data: &[u8], moves: &Moves) -> Option<Vec<Change<'static>>> {
        let (offset, list) = self.debug_list(data)?;
        let mut new: Vec<DebugEntry> = list.iter().collect();
        for entry in new.iter_mut().filter(|entry| entry.offset > 0) {
            entry.offset = moves.moved(entry.offset);
        }
        let new = ENCODING.try_encode(&new)?;
        if list.bytes.starts_with(&new) { Some(Vec::new()) } else { Some(vec![change(offset, new)?]) }
    }

    /// The pages of gaps that can be taken out, in the order of the file: the largest, as far as there is room for
    /// section headers. Why the largest of the others stays, too.
    fn cuts(&self, data: &[u8], gaps: &[Range<u64>]) -> Option<(Vec<PeCut>, Option<HoleReason>)> {
        let others = self.others(data)?;
        let mut by_size: Vec<_> = gaps.iter().collect();
        by_size.sort_by_key(|gap| std::cmp::Reverse(len_of(gap)));
        let (mut cuts, mut left) = (Vec::new(), None);
        for gap in by_size {
            match self.cut(data, gap) {
                Ok(cut) if cut.is_apart_from(&others) => cuts.push(cut),
                Err(HoleReason::Small) => {}
                _ if len_of(gap) <= PAGE => {}
                Ok(_) => left = left.or(Some(HoleReason::Shared)),
                Err(reason) => left = left.or(Some(reason)),
            }
        }
        cuts.sort_by_key(|cut| (cut.is_split, std::cmp::Reverse(len_of(&cut.range))));
        let ends = cuts.iter().take_while(|cut| !cut.is_split).count();
        let most = ends.saturating_add(self.room()?);
        if most < cuts.len() {
            left = left.or(Some(HoleReason::Limits));
        }
        cuts.truncate(most);
        cuts.sort_by_key(|cut| cut.range.start);
        Some((cuts, left))
    }

    /// The pages of a gap, if it lies in one section.
    fn cut(&self, data: &[u8], gap: &Range<u64>) -> Result<PeCut, HoleReason> {
        let used = |section: &CoffSection| span(section.offset, section.size.min(section.memory));
        let holds =
            |(_, section): &(usize, &CoffSection)| used(section).start < gap.start && gap.end <= used(section).end;
        let (index, section) = self.sections.iter().enumerate().find(holds).ok_or(HoleReason::Shared)?;
        let aligned = self.aligned(section.memory).filter(|&aligned| section.size <= aligned);
        let aligned = aligned.ok_or(HoleReason::Headers)?;
        let pages = gap.start.saturating_sub(section.offset).checked_next_multiple_of(PAGE);
        let start = section.offset.saturating_add(pages.ok_or(HoleReason::Headers)?);
        let rest = gap.end..section.range().end;
        let is_last = rest.start == used(section).end && aligned == section.size;
        if is_last && part(data, rest.clone()).is_some_and(is_zero) {
            let cut = PeCut { section: index, range: start..rest.end, is_split: false };
            return if start < rest.end { Ok(cut) } else { Err(HoleReason::Small) };
        }
        let into = gap.end.saturating_sub(section.offset);
        let end = gap.end.saturating_sub(into.checked_rem(PAGE).unwrap_or(0));
        if start >= end || end >= used(section).end {
            return Err(HoleReason::Small);
        }
        // The rest would be a section of device code that holds only zeros, which is a fault.
        if gap.end == used(section).end {
            return Err(HoleReason::Alignment);
        }
        Ok(PeCut { section: index, range: start..end, is_split: true })
    }

    /// The number of section headers for which there is room.
    fn room(&self) -> Option<usize> {
        let end = self.table_end(self.sections.len())?;
        let zeros = tail(&self.headers, end)?.iter().take_while(|&&byte| byte == 0).count();
        let used =
            Some(end.checked_add(to_u64(zeros))?).filter(|&used| used < self.header.headers_len || !self.is_fitting());
        // Some directories lie in the headers.
        let directories = (0..self.directory_count).filter(|&index| index != SIGNATURE);
        let directories = directories.filter_map(|index| self.directory(index)).map(|(start, _)| start);
        let first = self.sections.first().map_or(self.header.headers_len, |section| section.address);
        let limit = directories.filter(|start| *start >= end).chain(used).fold(first, u64::min);
        let most =
            limit.checked_sub(end)?.checked_div(SECTION_LEN).filter(|_| self.header.symbol_count == 0).unwrap_or(0);
        let most = usize::try_from(most).ok()?.min(SECTIONS_MAX.saturating_sub(self.sections.len()));
        let fits = |count: &usize| {
            let end = self.sections.len().checked_add(*count).and_then(|count| self.table_end(count));
            self.is_fitting() || end.and_then(|end| self.aligned(end)).is_some_and(|end| end != self.header.headers_len)
        };
        Some((1..=most).rev().find(fits).unwrap_or(0))
    }

    /// The headers without some pages, and where all else goes.
    fn closed(&self, cuts: &[PeCut]) -> Option<(Vec<u8>, Moves)> {
        let mut sections = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            let mut last = *section;
            for PeCut { range, is_split, .. } in cuts.iter().filter(|cut| cut.section == index) {
                let mut rest = last;
                last.size = range.start.checked_sub(last.offset)?;
                if *is_split {
                    let taken = range.end.checked_sub(last.offset)?;
                    last.memory = taken;
                    rest.address = rest.address.checked_add(taken)?;
                    rest.memory = rest.memory.checked_sub(taken)?;
                    rest.offset = range.end;
                    rest.size = rest.size.checked_sub(taken)?;
                    sections.push(std::mem::replace(&mut last, rest));
                }
            }
            sections.push(last);
        }
        let end = self.table_end(sections.len())?;
        let len = if self.is_fitting() { self.aligned(end)? } else { self.header.headers_len };
        let old_len = self.header.headers_len;
        let mut replaced = vec![(old_len..old_len, len.checked_sub(old_len)?)];
        replaced.extend(cuts.iter().map(|cut| (cut.range.clone(), 0)));
        let moves = Moves::new(replaced);
        for section in sections.iter_mut().filter(|section| section.size > 0) {
            section.offset = moves.moved(section.offset);
        }
        let data_len = self.header.data_len.checked_sub(total(cuts.iter().map(|cut| len_of(&cut.range))))?;
        Some((self.headers_with(&sections, len, &moves, data_len)?, moves))
    }

    /// The headers with other sections, of another length.
    fn headers_with(&self, sections: &[CoffSection], len: u64, moves: &Moves, data_len: u64) -> Option<Vec<u8>> {
        let (mut headers, end) = (self.headers.clone(), self.table_end(sections.len())?);
        let old_table = vec![0; usize::try_from(self.table_end(self.sections.len())?.checked_sub(self.table)?).ok()?];
        put(&mut headers, self.table, &old_table)?;
        headers.resize(usize::try_from(len).ok().filter(|_| end <= len)?, 0);
        put(&mut headers, self.table, &ENCODING.try_encode(sections)?)?;
        let symbols = match self.header.symbols {
            0 => 0,
            old => moves.moved(old),
        };
        let section_count = to_u64(sections.len());
        let header = PeHeader { section_count, symbols, data_len, headers_len: len, ..self.header };
        put(&mut headers, self.at, &ENCODING.try_encode(&[header])?)?;
        Some(headers)
    }

    /// The sections without parts, as they were before [`close`] took pages out at some of the `ends`.
    fn joined(&self, ends: &[u64]) -> Option<Joined> {
        let mut joined = Joined::default();
        let mut last: Option<&CoffSection> = None;
        let is_before_gap = |part: &&CoffSection| {
            let is_whole_pages = part.size > 0 && part.size.is_multiple_of(PAGE);
            is_whole_pages && part.size < part.memory && ends.contains(&part.range().end)
        };
        for section in self.sections.iter().map(Some).chain([None]) {
            if let Some((first, last)) = joined.sections.last().copied().zip(last.filter(is_before_gap)) {
                let is_part = |next: &&CoffSection| {
                    (next.name, next.flags, next.offset) == (last.name, last.flags, last.range().end)
                        && last.address.checked_add(last.memory) == Some(next.address)
                        && next.size > 0
                        && self.aligned(next.memory).is_some_and(|aligned| next.size <= aligned)
                };
                if let Some(next) = section.filter(is_part) {
                    joined.insert(last, next.address.checked_sub(first.address)?, true)?;
                    let whole = joined.sections.last_mut()?;
                    whole.size = whole.size.checked_add(next.size)?;
                    whole.memory = whole.memory.checked_add(next.memory)?;
                } else {
                    joined.insert(last, self.aligned(first.memory)?, false)?;
                    joined.sections.extend(section);
                }
            } else {
                joined.sections.extend(section);
            }
            last = section;
        }
        Some(joined)
    }

    /// Returns the changes that give the bytes of gaps back, or `None` if they were not taken out so.
    fn opening(&self, data: &[u8], joined: Joined) -> Option<Vec<Change<'static>>> {
        let Joined { mut sections, mut cuts, inserted } = joined;
        let closed_len = self.header.headers_len;
        let len = if self.is_fitting() { self.aligned(self.table_end(sections.len())?)? } else { closed_len };
        let moves = Moves::new([inserted.clone(), vec![(len..closed_len, 0)]].concat());
        for (index, section) in sections.iter_mut().enumerate().filter(|(_, section)| section.size > 0) {
            section.offset = moves.moved(section.offset);
            for cut in cuts.iter_mut().filter(|cut| cut.section == index) {
                let [start, end] = [cut.range.start, cut.range.end].map(|into| into.checked_add(section.offset));
                cut.range = start?..end?;
            }
        }
        let data_len = self.header.data_len.checked_add(total(cuts.iter().map(|cut| len_of(&cut.range))))?;
        let headers = self.headers_with(&sections, len, &moves, data_len)?;
        let opened = PeImage::read(&headers)?;
        let (again, _) = opened.closed(&cuts)?;
        let others = self.others(data)?.into_iter().map(|other| span(moves.moved(other.start), len_of(&other)));
        let others: Vec<_> = others.collect();
        let is_right = again == self.headers
            && cuts.iter().filter(|cut| cut.is_split).count() <= opened.room()?
            && cuts.iter().all(|cut| cut.is_apart_from(&others));
        if !is_right {
            return None;
        }
        let mut changes = self.debug_changes(data, &moves)?;
        changes.extend(inserted.into_iter().map(|(range, len)| (range, vec![Piece::Zeros(len)])));
        changes.push((0..closed_len, vec![Piece::Bytes(headers)]));
        in_order(changes)
    }
}

/// The checksum of a PE file, in which it is 0 itself: the sum of all numbers of two bytes, of which the carry is
/// added, and the length.
#[derive(Default)]
struct Checksum {
    sum: u64,
    len: u64,
}

impl Checksum {
    /// That of a file with some changes.
    fn of(data: Slice<'_>, changes: &[Change<'_>]) -> Result<u32> {
        let (mut checksum, mut read) = (Self::default(), 0);
        for (range, new) in changes {
            checksum.copy(data.claimed(&(read..range.start))?)?;
            emit(new, &mut checksum)?;
            read = range.end;
        }
        checksum.copy(data.claimed(&(read..data.len()))?)?;
        Ok(checksum.value())
    }

    fn value(&self) -> u32 {
        let mut sum = self.sum;
        while sum > u64::from(u16::MAX) {
            sum = (sum >> 16).saturating_add(sum & u64::from(u16::MAX));
        }
        u32::try_from(sum.saturating_add(self.len) & u64::from(u32::MAX)).unwrap_or(0)
    }
}

impl Sink for Checksum {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        let is_odd = self.len & 1 == 1;
        let (first, rest) = data.split_at(usize::from(is_odd).min(data.len()));
        let high = |byte: &u8| u64::from(*byte) << 8;
        let (pairs, last) = rest.as_chunks();
        let pairs = pairs.iter().map(|&pair| u64::from(u16::from_le_bytes(pair)));
        let all = pairs.chain(first.iter().map(high)).chain(last.iter().map(|&byte| byte.into()));
        self.sum = all.fold(self.sum, u64::saturating_add);
        add(&mut self.len, len_u64(data));
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        slice.read_blocks(&mut |block| self.write(block))
    }
}

#[cfg(test)]
mod tests {
    use super::super::changed;
    use super::*;
    use crate::base::io::input::Input;

    const TABLE: u64 = 0x40 + 4 + COFF_LEN + 240;

    /// A library with headers of some length, whose section of device code has gaps of two pages each, and with a
    /// checksum that may be none.
    fn library(headers: u64, gaps: u64, checksum: u64) -> (Vec<u8>, Vec<Range<u64>>) {
        let code = (1 + 3 * gaps) * PAGE;
        let mut data = vec![0; usize::try_from(headers + code + 512).unwrap()];
        let mut put = |at: u64, new: &[u8]| super::put(&mut data, at, new).unwrap();
        let section = |name: &[u8; 8], memory: u64, address: u64, size: u64, offset: u64| {
            let name = u64::from_le_bytes(*name);
            ENCODING
                .try_encode(&[CoffSection { name, memory, address, size, offset, ..CoffSection::default() }])
                .unwrap()
        };
        put(0, b"MZ");
        put(60, &[0x40]);
        put(0x40, b"PE\0\0");
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
        put(0x44, &ENCODING.try_encode(&[header]).unwrap());
        put(TABLE, &section(b".nv_fatb", code - 100, PAGE, code, headers));
        put(TABLE + SECTION_LEN, &section(b".data\0\0\0", 300, PAGE + code, 512, headers + code));
        put(headers, b"fatbin");
        put(headers + code, b"data");
        let gaps = (0..gaps).map(|gap| headers + gap * 3 * PAGE + 50..headers + (gap + 1) * 3 * PAGE - 8);
        let gaps: Vec<_> = gaps.inspect(|gap| put(gap.end, b"code")).collect();
        (data, gaps)
    }

    /// What is loaded: addresses and bytes of sections, without the zeros at their ends.
    fn memory(data: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut memory: Vec<(u64, Vec<u8>)> = Vec::new();
        for section in PeImage::read(data).unwrap().sections {
            let bytes = part(data, section.range()).unwrap();
            match memory.last_mut() {
                Some((start, before)) if section.name == u64::from_le_bytes(*b".nv_fatb") => {
                    before.resize(usize::try_from(section.address - *start).unwrap(), 0);
                    before.extend(bytes);
                }
                _ => memory.push((section.address, bytes.to_vec())),
            }
        }
        memory.iter_mut().for_each(|(_, bytes)| bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1));
        memory
    }

    /// The ends of all sections of device code.
    fn ends(image: &PeImage) -> Vec<u64> {
        let all = image.sections.iter().filter(|section| section.name == u64::from_le_bytes(*b".nv_fatb"));
        all.map(|section| section.range().end).collect()
    }

    /// A file with some gaps closed, or none, and with the right checksum.
    fn closed(data: &[u8], gaps: &[Range<u64>]) -> Vec<u8> {
        let changes = close(data, gaps).map_or_else(|_| Vec::new(), |closing| closing.changes);
        let input = Input::from_bytes("in", data.to_vec());
        changed(data, &with_checksum(input.as_slice(), changes).unwrap())
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
                // All gaps as far as there is room up to the first section, or up to the end of headers that do not
                // grow.
                let is_fitting = headers == 512;
                let end = if is_fitting { PAGE } else { headers - 512 };
                let room = (end - TABLE) / SECTION_LEN;
                assert_eq!(to_u64(image.sections.len()), room.min(96).min(2 + count).max(2), "{what}");
                let back = open(&small, &ends(&image)).unwrap();
                let back = back.map(|changes| closed(&changed(&small, &changes), &[]));
                assert!(back.unwrap_or(small) == closed(&data, &[]), "{what}");
            }
        }
    }

    #[test]
    fn what_stays_has_a_reason() {
        let (data, gaps) = library(512, 3, 0);
        let reason = |data: &[u8], gaps: &[Range<u64>]| close(data, gaps).err();
        assert_eq!(reason(&data, &gaps), None);
        assert_eq!(reason(&[&data[..], b"other"].concat(), &gaps), Some(HoleReason::DataAfter));
        assert_eq!(reason(&data, std::slice::from_ref(&(1000..3000))), Some(HoleReason::Small));
        assert_eq!(reason(&data, std::slice::from_ref(&(100..9000))), Some(HoleReason::Shared));
        let mut large_pages = data.clone();
        large_pages[0x44 + 20 + 33] = 0x20;
        assert_eq!(reason(&large_pages, &gaps), Some(HoleReason::Alignment));
        assert_eq!(reason(&data[..100], &gaps), Some(HoleReason::Headers));
        // One gap too many for the section headers.
        let (data, gaps) = library(512, 100, 0);
        assert_eq!(close(&data, &gaps).unwrap().left, Some(HoleReason::Limits));
    }

    #[test]
    fn a_checksum_is_that_of_its_parts() {
        let sum = |parts: &[&[u8]]| {
            let mut checksum = Checksum::default();
            parts.iter().for_each(|part| checksum.write(part).unwrap());
            checksum.value()
        };
        assert_eq!(sum(&[&[1, 2, 3]]), 0x201 + 3 + 3);
        assert_eq!(sum(&[&[0xff, 0xff, 2]]), 2 + 3);
        for parts in [&[&[1][..], &[2, 3]][..], &[&[1, 2], &[3]], &[&[], &[1], &[], &[2], &[3]]] {
            assert_eq!(sum(parts), sum(&[&[1, 2, 3]]));
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
