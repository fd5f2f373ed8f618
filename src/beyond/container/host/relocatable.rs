//! Changes sections with device code in relocatable ELF objects. The new contents may be shorter or longer.
//!
//! Nothing in such an object has an address, so everything after a section can move in the file. Assemblers put each
//! section at the first offset with its alignment, so the next section begins there. A section that was further away
//! keeps its distance from that offset. Every reference into the section follows: the offsets of sections and of their
//! headers, symbols in it, and the addends of relocations that refer to it.
//!
//! [`Relocatable::read`] returns `None` for linked files, for objects with program headers or with sections that share
//! bytes, and if there is more than zeros between sections or after the last one. The caller then keeps all offsets.
//! Relocations to changed sections have to be of the form `SHT_RELA`. Rejected: symbols and relocations that refer to
//! the middle of a changed bundle, and relocations inside of it. Layout: System V ABI, chapter 4.

use std::collections::HashSet;
use std::ops::Range;

use object::elf::{EM_MIPS, EM_X86_64, SHN_LORESERVE, SHT_CREL, SHT_REL, SHT_RELA, SHT_SYMTAB};

use crate::base::bytes::{bytes_in, is_zero, len_of, len_u64, slice, span, tail, to_u64};
use crate::base::display::shown;
use crate::base::io::input::Slice;
use crate::base::io::piece::Piece;
use crate::beyond::base::io::ChangedRange;
use crate::beyond::code::elf::{File, Header, Record, Relocation, Section, ShortRelocation, Symbol, Table, name_of};

/// The largest distance in bytes from the offset that a relocation in an x86 instruction refers to up to its target.
///
/// The processor counts from the end of the instruction, but the relocation counts from the field that it fills in. So
/// compilers subtract the number of bytes from the field to the end of the instruction, which has at most 15 bytes.
const BIAS_MAX: u64 = 16;

/// The types of relocations of x86-64 for data, which refer to their target itself: `R_X86_64_64`, `_32`, `_32S`.
const DIRECT: [u64; 3] = [1, 10, 11];

/// A bundle in a section that gets new contents. Offsets count from the start of the section.
pub(crate) struct MovedBundle {
    /// The range in the old content of the section.
    pub(crate) old_range: Range<u64>,
    /// The range in the new content.
    pub(crate) new_range: Range<u64>,
    /// Whether the bundle keeps its bytes. Only then is there a new offset for each old offset inside of it.
    pub(crate) keeps_bytes: bool,
}

/// A section that gets new contents.
pub(crate) struct NewContent<'p> {
    /// The range of the section in the old file.
    pub(crate) old: Range<u64>,
    /// The new content.
    pub(crate) new: Slice<'p>,
    /// The bundles of the section, in their order.
    pub(crate) bundles: Vec<MovedBundle>,
}

impl NewContent<'_> {
    /// Returns the new offset of data that starts at `old_offset`. Returns `None` inside of a bundle whose bytes
    /// changed, in the padding between two bundles, and outside of the section.
    fn new_start_of(&self, old_offset: u64) -> Option<u64> {
        // The number of bundles that begin at the offset or before it.
        let begun_count = self.bundles.partition_point(|bundle| bundle.old_range.start <= old_offset);
        // Nothing before the first bundle moves.
        let Some(bundle) = self.last_of(begun_count) else { return Some(old_offset) };
        // The inside of a bundle that only moved moves with it.
        if let Some(new) = bundle.offset_inside(old_offset) {
            return Some(new);
        }
        if old_offset == bundle.old_range.start {
            return Some(bundle.new_range.start);
        }
        // The padding between two bundles may get another length. Data after the last bundle keeps its distance from
        // it.
        let is_last = begun_count == self.bundles.len();
        if !is_last && old_offset > bundle.old_range.end {
            return None;
        }
        self.offset_after(bundle, old_offset)
    }

    /// Returns the new offset for `old_offset`, to which a relocation refers.
    ///
    /// The relocation is for data that may begin up to `bias` bytes after `old_offset`: see [`BIAS_MAX`]. So it may be
    /// for the data at `old_offset` itself, for a bundle that begins up to `bias` bytes later, or for the end of the
    /// bundle that holds `old_offset`. Returns `None` if none of these has a new offset, or if they do not all move by
    /// the same distance.
    fn new_target_of(&self, old_offset: u64, bias: u64) -> Option<u64> {
        let begun_count = self.bundles.partition_point(|bundle| bundle.old_range.start <= old_offset);
        let reach = old_offset.saturating_add(bias);
        // The new offset in each of these cases, or `None` if it would be too large.
        let mut candidates = Vec::new();
        if let Some(start) = self.new_start_of(old_offset) {
            candidates.push(Some(start));
        }
        for bundle in self.bundles.iter().skip(begun_count) {
            if bundle.old_range.start > reach {
                break;
            }
            candidates.push(at_same_distance(old_offset, bundle.old_range.start, bundle.new_range.start));
        }
        if let Some(bundle) = self.last_of(begun_count) {
            let end = bundle.old_range.end;
            // If the next bundle begins where this one ends, the relocation is for the next one.
            let is_start_of_next = matches!(self.bundles.get(begun_count), Some(next) if next.old_range.start == end);
            let is_in_reach = old_offset < end && end <= reach;
            if is_in_reach && !is_start_of_next {
                candidates.push(at_same_distance(old_offset, end, bundle.new_range.end));
            }
        }
        // No candidate means that no case applies, and a candidate without an offset that it would be too large.
        let target = (*candidates.first()?)?;
        if candidates.iter().all(|other| *other == Some(target)) { Some(target) } else { None }
    }

    /// Returns the new end of data that ended at `old_offset`, or `None` if that offset is inside of a changed bundle
    /// or outside of the section.
    fn new_end_of(&self, old_offset: u64) -> Option<u64> {
        let begun_count = self.bundles.partition_point(|bundle| bundle.old_range.start < old_offset);
        let Some(bundle) = self.last_of(begun_count) else { return Some(old_offset) };
        if let Some(new) = bundle.offset_inside(old_offset) {
            return Some(new);
        }
        // Data that ended in the padding after the bundle must not reach into the next bundle, even if the padding
        // became shorter.
        let limit = match self.bundles.get(begun_count) {
            Some(next) => next.new_range.start,
            None => self.new.len(),
        };
        Some(self.offset_after(bundle, old_offset)?.min(limit))
    }

    /// Returns the last of the first `count` bundles.
    fn last_of(&self, count: usize) -> Option<&MovedBundle> {
        self.bundles.get(count.checked_sub(1)?)
    }

    /// Returns the new offset of `old_offset`, which keeps its distance from the end of `bundle`. Returns `None` if
    /// `old_offset` is before that end or outside of the section.
    fn offset_after(&self, bundle: &MovedBundle, old_offset: u64) -> Option<u64> {
        if old_offset > len_of(&self.old) {
            return None;
        }
        bundle.new_range.end.checked_add(old_offset.checked_sub(bundle.old_range.end)?)
    }
}

/// Returns the offset that is as far from `new` as `at` is from `old`.
fn at_same_distance(at: u64, old: u64, new: u64) -> Option<u64> {
    new.checked_add(at)?.checked_sub(old)
}

impl MovedBundle {
    /// Returns the new offset of `old_offset`, or `None` if that is outside of the bundle, or if the bytes of the
    /// bundle changed.
    fn offset_inside(&self, old_offset: u64) -> Option<u64> {
        if !self.keeps_bytes || !self.old_range.contains(&old_offset) {
            return None;
        }
        self.new_range.start.checked_add(old_offset.checked_sub(self.old_range.start)?)
    }
}

/// A part of the file that may move: a section, or the section headers.
struct MovablePart {
    range: Range<u64>,
    alignment: u64,
    /// The index of the section, or `None` for the section headers.
    section: Option<usize>,
}

impl MovablePart {
    /// Returns the key that sorts parts by their offsets.
    fn key(&self) -> (u64, u64) {
        (self.range.start, self.range.end)
    }
}

/// An object whose sections can get other contents.
pub(crate) struct Relocatable<'d> {
    file: File<'d>,
    sections: Vec<Section>,
    /// The sections and their headers in the order of their offsets.
    parts: Vec<MovablePart>,
}

impl<'d> Relocatable<'d> {
    /// Returns the object in `data`, or `None` if `data` is not an object whose parts can all move.
    pub(crate) fn read(data: &'d [u8]) -> Option<Self> {
        let file = File::read(data).ok()?;
        let has_addresses = !file.header.is_relocatable() || !file.segments.is_empty();
        // Relocations for MIPS have other fields than those that are read here.
        if has_addresses || file.header.machine() == EM_MIPS {
            return None;
        }
        let sections: Vec<Section> = file.sections.iter().collect();
        // Without section headers, no section with device code can be found.
        if sections.is_empty() {
            return None;
        }
        let parts = movable_parts(&file, &sections)?;
        Some(Self { file, sections, parts })
    }

    /// Returns the index of the section with this range, or `None` if [`Self::changes`] cannot change it.
    fn index_of(&self, range: &Range<u64>) -> Option<usize> {
        let at = self.parts.partition_point(|part| part.key() < (range.start, range.end));
        let part = self.parts.get(at)?;
        let index = part.section?;
        // A symbol in a section with a larger index records that index in another table, which is not read.
        let can_be_named = index < usize::from(SHN_LORESERVE);
        if part.range == *range && can_be_named { Some(index) } else { None }
    }

    /// Whether sections with these ranges can get other contents.
    pub(crate) fn can_change(&self, ranges: impl Iterator<Item = Range<u64>>) -> bool {
        let mut changing = HashSet::new();
        for range in ranges {
            let Some(index) = self.index_of(&range) else { return false };
            changing.insert(index);
        }
        for section in &self.sections {
            // Compact relocations are not read, so each may refer to a changed section.
            if section.is(SHT_CREL) {
                return false;
            }
            // The addends of these relocations are in the bytes that they replace, and are not changed.
            if section.is(SHT_REL) && self.refers_to(section, &changing) {
                return false;
            }
        }
        true
    }

    /// Whether the relocations without addends in the section `table` change bytes of a section with an index in
    /// `changing`, or refer to a symbol in one of these sections.
    fn refers_to(&self, table: &Section, changing: &HashSet<usize>) -> bool {
        // The field `info` is the index of the section whose bytes the relocations change.
        if contains(changing, table.info) {
            return true;
        }
        let Some(symbols) = self.linked_symbols(table) else { return false };
        for relocation in self.table::<ShortRelocation>(table).iter() {
            let symbol = symbol_at(&symbols, relocation.symbol(self.file.encoding));
            if symbol.is_some_and(|symbol| contains(changing, symbol.section)) {
                return true;
            }
        }
        false
    }

    /// Returns the symbol table that a section with relocations names.
    fn linked_symbols(&self, section: &Section) -> Option<Table<'d, Symbol>> {
        let symbols = self.sections.get(usize::try_from(section.link).ok()?)?;
        Some(self.table(symbols))
    }

    /// Returns the changes that give sections other contents.
    ///
    /// # Errors
    /// The reason why a reference cannot follow. It continues a message about the bundles: "cannot rewrite the bundles:
    /// …".
    pub(crate) fn changes<'p>(&self, contents: &[NewContent<'p>]) -> Result<Vec<ChangedRange<'p>>, String> {
        // The new content of each section, by its index; `None` for sections that keep their content.
        let mut by_section: Vec<Option<&NewContent<'p>>> = vec![None; self.sections.len()];
        for content in contents {
            let index = self.index_of(&content.old).ok_or("a section cannot be found again")?;
            *by_section.get_mut(index).ok_or("a section cannot be found again")? = Some(content);
        }
        let mut changes = self.layout_changes(&by_section).ok_or("its sections would be too long")?;
        for (section, content) in self.sections.iter().zip(&by_section) {
            // The new content replaces the whole section already, so it is not read as a table.
            if content.is_some() {
                continue;
            }
            let new = if section.is(SHT_RELA) {
                self.new_relocations(section, &by_section)?
            } else if section.is(SHT_SYMTAB) {
                self.new_symbols(section, &by_section)?
            } else {
                None
            };
            if let Some(new) = new {
                changes.push((span(section.offset, len_u64(&new)), vec![Piece::Bytes(new)]));
            }
        }
        changes.sort_by_key(|(range, _)| (range.start, range.end));
        Ok(changes)
    }

    /// Returns the changes of contents, of the space between sections, and of the headers, or `None` if an offset would
    /// be too large. `by_section` has the new content of each section, by its index.
    fn layout_changes<'p>(&self, by_section: &[Option<&NewContent<'p>>]) -> Option<Vec<ChangedRange<'p>>> {
        let (mut header, mut sections, mut changes) = (self.file.header, self.sections.clone(), Vec::new());
        // The ends of the previous part, in the old file and in the new one. The file header comes first.
        let file_header_len = self.file.encoding.len_of::<Header>();
        let (mut old_end, mut new_end) = (file_header_len, file_header_len);
        for part in &self.parts {
            let old = part.range.start;
            let new_content = part.section.and_then(|index| *by_section.get(index)?);
            let new_len = new_content.map_or(len_of(&part.range), |content| content.new.len());
            let new = if let Some(gap) = old.checked_sub(old_end) {
                let new = new_offset(old, gap, part.alignment, new_end)?;
                let new_gap = new.checked_sub(new_end)?;
                if new_gap != gap {
                    changes.push((old_end..old, vec![Piece::Zeros(new_gap)]));
                }
                (old_end, new_end) = (part.range.end, new.checked_add(new_len)?);
                new
            } else {
                // An empty section inside of the previous part, the only overlap that `movable_parts` accepts. It keeps
                // its distance from the end of that part. The next part follows the part around it.
                old.saturating_add(new_end).saturating_sub(old_end)
            };
            if let Some(content) = new_content {
                changes.push((part.range.clone(), vec![Piece::Input(content.new)]));
            }
            match part.section {
                Some(index) => {
                    let section = sections.get_mut(index)?;
                    section.offset = new;
                    // The size of a section without bytes in the file (`.bss`) is not the length of its range.
                    section.size = new_content.map_or(section.size, |_| new_len);
                }
                None => header.sections_at = new,
            }
        }
        let encoding = self.file.encoding;
        let (header, table) = (encoding.encode(&[header]), encoding.encode(&sections));
        for (start, new) in [(0, header), (self.file.header.sections_at, table)] {
            changes.push((start..start.checked_add(len_u64(&new))?, vec![Piece::Bytes(new)]));
        }
        Some(changes)
    }

    /// Reads the content of a section as a table.
    fn table<R: Record>(&self, section: &Section) -> Table<'d, R> {
        Table::new(self.file.encoding, slice(self.file.data, section.offset, section.size).unwrap_or_default())
    }

    /// Returns the new content of the symbol table in `section`, or `None` if it stays. `by_section` and the error are
    /// as for [`Self::changes`].
    fn new_symbols(
        &self,
        section: &Section,
        by_section: &[Option<&NewContent<'_>>],
    ) -> Result<Option<Vec<u8>>, String> {
        let table = self.table::<Symbol>(section);
        let mut new = None;
        for (number, mut symbol) in table.iter().enumerate() {
            // Symbols in sections that keep their content stay.
            let Some(content) = content_of(&symbol, by_section) else { continue };
            let Some((value, size)) = moved_symbol(&symbol, content) else {
                let name = self.symbol_name(section, &symbol);
                return Err(format!("the symbol '{name}' leads into the middle of one"));
            };
            (symbol.value, symbol.size) = (value, size);
            self.replace_record(&mut new, table.bytes, number, symbol);
        }
        Ok(new)
    }

    /// Returns the new content of the table of relocations in `section`, or `None` if it stays. `by_section` and the
    /// error are as for [`Self::changes`].
    fn new_relocations(
        &self,
        section: &Section,
        by_section: &[Option<&NewContent<'_>>],
    ) -> Result<Option<Vec<u8>>, String> {
        let (table, encoding) = (self.table::<Relocation>(section), self.file.encoding);
        // The field `info` has the index of the section whose bytes the relocations change.
        if !table.is_empty() && content_at(section.info, by_section).is_some() {
            return Err(format!("they have relocations, in '{}'", self.section_name(section)));
        }
        let Some(symbols) = self.linked_symbols(section) else { return Ok(None) };
        let mut new = None;
        for (number, mut relocation) in table.iter().enumerate() {
            // Relocations stay if they refer to no symbol, or to one in a section that keeps its content.
            let Some(symbol) = symbol_at(&symbols, relocation.symbol(encoding)) else { continue };
            let Some(content) = content_of(&symbol, by_section) else { continue };
            let Some(addend) = self.new_addend(&relocation, &symbol, content) else {
                let name = self.section_name(section);
                return Err(format!("a relocation in '{name}' leads into the middle of one, or not clearly to one"));
            };
            relocation.addend = addend;
            self.replace_record(&mut new, table.bytes, number, relocation);
        }
        Ok(new)
    }

    /// Returns the new addend of a relocation that refers to a symbol in a section with new `content`. The addend
    /// counts from the value of the symbol. Returns `None` if the relocation leads into the middle of a changed bundle,
    /// or not clearly to one bundle.
    fn new_addend(&self, relocation: &Relocation, symbol: &Symbol, content: &NewContent<'_>) -> Option<u64> {
        let encoding = self.file.encoding;
        // Instructions of x86-64 count from their end: see `BIAS_MAX`. Others count from the field itself.
        let may_be_in_instruction =
            self.file.header.machine() == EM_X86_64 && !DIRECT.contains(&relocation.kind(encoding));
        let bias = if may_be_in_instruction { BIAS_MAX } else { 0 };
        let new_symbol = content.new_start_of(symbol.value)?;
        // An addend from `-bias` to 0 refers to the symbol itself, whose new value is enough.
        if encoding.truncated(relocation.addend.wrapping_neg()) <= bias {
            return Some(relocation.addend);
        }
        let target = encoding.truncated(symbol.value.wrapping_add(relocation.addend));
        let new_target = content.new_target_of(target, bias)?;
        Some(encoding.truncated(new_target.wrapping_sub(new_symbol)))
    }

    /// The name of a section, for messages.
    fn section_name(&self, section: &Section) -> String {
        match &self.file.names_index {
            Ok(index) => self.string((*index).into(), section.name),
            Err(_) => shown(&[]).to_string(),
        }
    }

    /// The name of a symbol of a table, for messages.
    fn symbol_name(&self, table: &Section, symbol: &Symbol) -> String {
        self.string(table.link, symbol.name)
    }

    /// The string at an offset of a section, for messages.
    fn string(&self, section: u64, at: u64) -> String {
        let section = usize::try_from(section).ok().and_then(|index| self.sections.get(index));
        let strings = section.and_then(|section| slice(self.file.data, section.offset, self.file.stored(section)));
        shown(name_of(strings.unwrap_or_default(), at)).to_string()
    }

    /// Replaces the record with an index in a table. `new` is the new content of the table, or `None` as long as no
    /// record has changed. The first change makes it a copy of the `old` content.
    fn replace_record<R: Record>(&self, new: &mut Option<Vec<u8>>, old: &[u8], index: usize, record: R) {
        let record = self.file.encoding.encode(&[record]);
        let start = index.saturating_mul(record.len());
        let range = start..start.saturating_add(record.len());
        if new.is_none() && old.get(range.clone()) == Some(&record) {
            return;
        }
        let new = new.get_or_insert_with(|| old.to_vec());
        if let Some(bytes) = new.get_mut(range) {
            bytes.copy_from_slice(&record);
        }
    }
}

/// Whether the section with a number is one of those with these indices.
fn contains(indices: &HashSet<usize>, number: u64) -> bool {
    match usize::try_from(number) {
        Ok(index) => indices.contains(&index),
        Err(_) => false,
    }
}

fn symbol_at(symbols: &Table<'_, Symbol>, number: u64) -> Option<Symbol> {
    symbols.get(usize::try_from(number).ok()?)
}

/// Returns the new content of the section with a number, or `None` if it stays.
fn content_at<'c, 'p>(section: u64, by_section: &[Option<&'c NewContent<'p>>]) -> Option<&'c NewContent<'p>> {
    *by_section.get(usize::try_from(section).ok()?)?
}

/// Returns the new content of the section of a symbol, or `None` if it stays.
fn content_of<'c, 'p>(symbol: &Symbol, by_section: &[Option<&'c NewContent<'p>>]) -> Option<&'c NewContent<'p>> {
    content_at(symbol.section, by_section)
}

/// Returns the new value and size of a symbol, or `None` if it refers to the middle of a bundle.
fn moved_symbol(symbol: &Symbol, content: &NewContent<'_>) -> Option<(u64, u64)> {
    let start = content.new_start_of(symbol.value)?;
    if symbol.size == 0 {
        return Some((start, 0));
    }
    let end = content.new_end_of(symbol.value.checked_add(symbol.size)?)?;
    Some((start, end.saturating_sub(start)))
}

/// Returns the sections and their headers in the order of their offsets, or `None` if some of them share bytes, or if
/// there is more than zeros between and after them.
fn movable_parts(file: &File<'_>, sections: &[Section]) -> Option<Vec<MovablePart>> {
    let table_start = file.header.sections_at;
    let table = table_start..table_start.checked_add(len_u64(file.sections.bytes))?;
    let mut parts = vec![MovablePart { range: table, alignment: to_u64(file.encoding.word), section: None }];
    // The first section header describes no section.
    for (index, section) in sections.iter().enumerate().skip(1) {
        let range = section.offset..section.offset.checked_add(file.stored(section))?;
        parts.push(MovablePart { range, alignment: section.alignment, section: Some(index) });
    }
    parts.sort_by_key(MovablePart::key);
    let mut end = file.encoding.len_of::<Header>();
    for MovablePart { range, .. } in &parts {
        if range.start >= end {
            if !is_zero(bytes_in(file.data, end..range.start)?) {
                return None;
            }
            end = range.end;
        } else if !range.is_empty() {
            // The part shares bytes with one before it. An empty section has no bytes, so it may have any offset.
            return None;
        }
    }
    if is_zero(tail(file.data, end)?) { Some(parts) } else { None }
}

/// Returns the new offset of a part that began at `old`, `gap` bytes after the part before it. That part now ends at
/// `new_end`. An aligned part keeps its distance from the first aligned offset after the part before it, and an
/// unaligned part its gap. So the part gets its old offset back when the old contents are written again. Returns `None`
/// if the offset is too large.
fn new_offset(old: u64, gap: u64, alignment: u64, new_end: u64) -> Option<u64> {
    match distance_from_first_aligned(old, gap, alignment) {
        Some(distance) => new_end.checked_next_multiple_of(alignment)?.checked_add(distance),
        None => new_end.checked_add(gap),
    }
}

/// Returns the distance of `old` from the first aligned offset in the `gap` bytes before it. That is 0 where assemblers
/// put a section. Returns `None` if `old` is not aligned.
fn distance_from_first_aligned(old: u64, gap: u64, alignment: u64) -> Option<u64> {
    let first = old.checked_sub(gap)?.checked_next_multiple_of(alignment)?;
    let distance = old.checked_sub(first)?;
    if distance.is_multiple_of(alignment) { Some(distance) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bundles of a section: the last of three keeps its bytes.
    fn moved_bundles() -> Vec<MovedBundle> {
        [(0..100, 0..50, false), (104..200, 52..90, false), (4096..5000, 4096..5000, true)]
            .map(|(old_range, new_range, keeps_bytes)| MovedBundle { old_range, new_range, keeps_bytes })
            .into()
    }

    #[test]
    fn relocations_keep_their_targets() {
        let data = [0; 5000];
        let content = NewContent { old: 0..5100, new: (&data[..]).into(), bundles: moved_bundles() };
        for (old, bias, new) in [
            (0, 0, Some(0)),
            (100, 0, Some(50)),
            (104, 0, Some(52)),
            (96, 0, None),
            (150, 0, None),
            (300, 0, None),
            // In an instruction: the next bundle, or the end of the last one that changes.
            (4092, BIAS_MAX, Some(4092)),
            (196, BIAS_MAX, Some(86)),
            (150, BIAS_MAX, None),
            // An address that may be the end of one bundle or the start of the next: the distance between them has
            // changed.
            (100, BIAS_MAX, None),
            (96, BIAS_MAX, None),
            // Inside of a bundle with the same bytes.
            (4100, 0, Some(4100)),
            (4100, BIAS_MAX, Some(4100)),
        ] {
            assert_eq!(content.new_target_of(old, bias), new, "{old} {bias}");
        }
    }
}
