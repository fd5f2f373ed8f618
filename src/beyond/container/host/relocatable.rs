//! Relocatable ELF objects in which sections with device code get other contents, which may be shorter or longer.
//!
//! Nothing in such an object has an address, so all that follows a section moves in the file: the next section begins
//! at the first offset with its alignment, as assemblers lay them out, and further away only as far as it did. What
//! leads into the section follows: the offsets of sections and of their headers, symbols in it, and the addends of
//! relocations that refer to it.
//!
//! [`Relocatable::read`] returns none, and the caller keeps all offsets, for linked files, objects with program
//! headers, with sections that share bytes, or with other data than zeros between sections or after the last one.
//! Relocations to what changes have to be of the form `SHT_RELA`. Rejected: symbols and relocations that lead into the
//! middle of what changed, and relocations inside of it. Layout: System V ABI, chapter 4.

use std::collections::HashSet;
use std::ops::Range;

use object::elf::{EM_MIPS, EM_X86_64, SHN_LORESERVE, SHT_CREL, SHT_REL, SHT_RELA, SHT_SYMTAB};

use crate::base::bytes::{is_zero, len_of, len_u64, part, slice, tail, to_u64};
use crate::base::display::shown;
use crate::base::io::input::Slice;
use crate::base::io::piece::{Change, Piece};
use crate::llvm::container::host::elf::{
    File, Header, Record, Relocation, Section, ShortRelocation, Symbol, Table, name_of,
};

/// How far before its target a relocation of an instruction may lead: those of x86 count from their end.
const BIAS_MAX: u64 = 16;

/// The types of relocations of x86-64 that are not of instructions, and lead to their target itself: `R_X86_64_64`,
/// `_32`, `_32S`.
const DIRECT: [u64; 3] = [1, 10, 11];

/// A bundle of a section that gets other contents. Offsets count from the start of the section.
pub(crate) struct MovedBundle {
    pub(crate) before: Range<u64>,
    pub(crate) now: Range<u64>,
    /// Whether it has the same bytes.
    pub(crate) is_same: bool,
}

/// A section with other contents.
pub(crate) struct NewContent<'p> {
    /// The range of the section in the old file.
    pub(crate) old: Range<u64>,
    pub(crate) new: Slice<'p>,
    /// Its bundles, in their order.
    pub(crate) moved: Vec<MovedBundle>,
}

impl NewContent<'_> {
    /// The new offset of what begins at an offset of the section: a bundle, what directly follows one, what follows the
    /// last one, or a part of a bundle with the same bytes.
    fn start_at(&self, old: u64) -> Option<u64> {
        let bundles = self.moved.partition_point(|bundle| bundle.before.start <= old);
        let Some(bundle) = bundles.checked_sub(1).and_then(|last| self.moved.get(last)) else {
            return Some(old);
        };
        let MovedBundle { before, now, .. } = bundle;
        let is_between = bundles < self.moved.len() && old > before.end;
        match bundle.inside(old) {
            Some(new) => Some(new),
            None if old == before.start => Some(now.start),
            None => self.after(before, now, old).filter(|_| !is_between),
        }
    }

    /// Returns the new offset of what a relocation leads to that may be meant for up to `bias` bytes after it, or
    /// `None` if it leads into the middle of a bundle, or if what is meant would be at different distances.
    fn target_at(&self, old: u64, bias: u64) -> Option<u64> {
        let first = self.moved.partition_point(|bundle| bundle.before.start <= old);
        let near = |at: u64| at > old && at <= old.saturating_add(bias);
        let starts = self.moved.iter().skip(first).take_while(|bundle| near(bundle.before.start));
        let starts = starts.map(|bundle| (bundle.before.start, bundle.now.start));
        // Where the next one begins, that is meant.
        let ends = first
            .checked_sub(1)
            .and_then(|last| self.moved.get(last))
            .map(|bundle| (bundle.before.end, bundle.now.end));
        let next = self.moved.get(first).map(|bundle| bundle.before.start);
        let ends = ends.filter(|(end, _)| near(*end) && next != Some(*end));
        let ahead = starts.chain(ends).map(|(before, now)| now.checked_add(old)?.checked_sub(before));
        let mut meant = self.start_at(old).map(Some).into_iter().chain(ahead);
        let target = meant.next()??;
        meant.all(|other| other == Some(target)).then_some(target)
    }

    /// The new offset of the end of what ends at an offset of the section: with a bundle, or after one.
    fn end_at(&self, old: u64) -> Option<u64> {
        let bundles = self.moved.partition_point(|bundle| bundle.before.start < old);
        let Some(bundle) = bundles.checked_sub(1).and_then(|last| self.moved.get(last)) else {
            return Some(old);
        };
        let next = self.moved.get(bundles).map_or_else(|| self.new.len(), |next| next.now.start);
        bundle.inside(old).or_else(|| self.after(&bundle.before, &bundle.now, old).map(|end| end.min(next)))
    }

    fn after(&self, before: &Range<u64>, now: &Range<u64>, old: u64) -> Option<u64> {
        let distance = old.checked_sub(before.end).filter(|_| old <= len_of(&self.old))?;
        now.end.checked_add(distance)
    }
}

impl MovedBundle {
    /// The new offset of a part of a bundle with the same bytes.
    fn inside(&self, old: u64) -> Option<u64> {
        let distance = old.checked_sub(self.before.start).filter(|_| self.is_same && old < self.before.end)?;
        self.now.start.checked_add(distance)
    }
}

/// Something in the file that may move.
struct Movable {
    range: Range<u64>,
    alignment: u64,
    /// The index of a section; none for the section headers.
    section: Option<usize>,
}

/// An object in which sections can get other contents.
pub(crate) struct Relocatable<'d> {
    file: File<'d>,
    sections: Vec<Section>,
    /// In the order of their offsets.
    items: Vec<Movable>,
}

impl<'d> Relocatable<'d> {
    /// Returns the object in `data`, or `None` if not all that these headers describe can move.
    pub(crate) fn read(data: &'d [u8]) -> Option<Self> {
        let file = File::read(data).ok()?;
        let is_known = file.header.is_relocatable() && file.segments.is_empty() && file.header.machine() != EM_MIPS;
        let sections: Vec<Section> = file.sections.iter().collect();
        let object = Self { items: items(&file, &sections)?, file, sections };
        (is_known && !object.sections.is_empty()).then_some(object)
    }

    /// The index of the only section with this range, if it is one that [`Self::changes`] can follow.
    fn index_of(&self, range: &Range<u64>) -> Option<usize> {
        let key = |item: &Movable| (item.range.start, item.range.end);
        let at = self.items.partition_point(|item| key(item) < (range.start, range.end));
        let item = self.items.get(at).filter(|item| item.range == *range)?;
        item.section.filter(|index| *index < usize::from(SHN_LORESERVE))
    }

    /// Whether sections with these ranges can get other contents.
    pub(crate) fn can_change(&self, ranges: impl Iterator<Item = Range<u64>>) -> bool {
        let Some(changing) = ranges.map(|range| self.index_of(&range)).collect::<Option<HashSet<usize>>>() else {
            return false;
        };
        let is_followed = |section: &Section| match () {
            () if section.is(SHT_CREL) => false,
            () if section.is(SHT_REL) => !self.leads_into(section, &changing),
            () => true,
        };
        self.sections.iter().all(is_followed)
    }

    /// Whether relocations without addends are in some sections, or lead to them.
    fn leads_into(&self, section: &Section, changing: &HashSet<usize>) -> bool {
        let is_changing = |number: u64| usize::try_from(number).is_ok_and(|index| changing.contains(&index));
        let symbols = usize::try_from(section.link).ok().and_then(|index| self.sections.get(index));
        let symbols = symbols.map(|section| self.table::<Symbol>(section));
        let section_of = |relocation: ShortRelocation| {
            let number = usize::try_from(relocation.symbol(self.file.encoding)).ok()?;
            Some(symbols.as_ref()?.get(number)?.section)
        };
        is_changing(section.info)
            || self.table::<ShortRelocation>(section).iter().filter_map(section_of).any(is_changing)
    }

    /// The changes that give sections other contents. The error says what cannot follow.
    pub(crate) fn changes<'p>(&self, contents: &[NewContent<'p>]) -> Result<Vec<Change<'p>>, String> {
        let mut by_section: Vec<Option<&NewContent<'p>>> = vec![None; self.sections.len()];
        for content in contents {
            let index = self.index_of(&content.old).and_then(|index| by_section.get_mut(index));
            *index.ok_or("a section cannot be found again")? = Some(content);
        }
        let mut changes = self.layout(&by_section).ok_or("its sections would be too long")?;
        for (index, section) in self.sections.iter().enumerate() {
            if by_section.get(index).is_some_and(Option::is_some) {
                continue;
            }
            let new = match () {
                () if section.is(SHT_RELA) => self.relocations(section, &by_section)?,
                () if section.is(SHT_SYMTAB) => self.symbols(section, &by_section)?,
                () => continue,
            };
            let start = section.offset;
            changes.extend(new.map(|new| (start..start.saturating_add(len_u64(&new)), vec![Piece::Bytes(new)])));
        }
        changes.sort_by_key(|(range, _)| (range.start, range.end));
        Ok(changes)
    }

    /// The changes of contents, of the space between sections, and of the headers.
    fn layout<'p>(&self, by_section: &[Option<&NewContent<'p>>]) -> Option<Vec<Change<'p>>> {
        let (mut header, mut sections, mut changes) = (self.file.header, self.sections.clone(), Vec::new());
        // The ends of what stands before, in the old file and in the new one.
        let head = self.file.encoding.len_of::<Header>();
        let (mut old_end, mut new_end) = (head, head);
        for item in &self.items {
            let (old, gap) = (item.range.start, item.range.start.checked_sub(old_end));
            let new = match gap {
                Some(gap) => moved(old, gap, item.alignment, new_end)?,
                // It takes no bytes.
                None => old.saturating_add(new_end).saturating_sub(old_end),
            };
            if let Some(gap) = gap {
                let room = new.checked_sub(new_end)?;
                changes.extend((room != gap).then(|| (old_end..old, vec![Piece::Zeros(room)])));
            }
            let content = item.section.and_then(|index| *by_section.get(index)?);
            let len = content.map_or(len_of(&item.range), |content| content.new.len());
            changes.extend(content.map(|content| (item.range.clone(), vec![Piece::Input(content.new)])));
            match item.section.map(|index| sections.get_mut(index)) {
                Some(section) => {
                    let section = section?;
                    section.offset = new;
                    section.size = content.map_or(section.size, |content| content.new.len());
                }
                None => header.sections_at = new,
            }
            if gap.is_some() {
                (old_end, new_end) = (item.range.end, new.checked_add(len)?);
            }
        }
        let encoding = self.file.encoding;
        for (start, new) in
            [(0, encoding.encode(&[header])), (self.file.header.sections_at, encoding.encode(&sections))]
        {
            changes.push((start..start.checked_add(len_u64(&new))?, vec![Piece::Bytes(new)]));
        }
        Some(changes)
    }

    /// The content of a section, as a table.
    fn table<R: Record>(&self, section: &Section) -> Table<'d, R> {
        Table::new(self.file.encoding, slice(self.file.data, section.offset, section.size).unwrap_or_default())
    }

    /// The new content of a symbol table, if it changes.
    fn symbols(&self, section: &Section, by_section: &[Option<&NewContent<'_>>]) -> Result<Option<Vec<u8>>, String> {
        let table = self.table::<Symbol>(section);
        let mut new = None;
        for (number, mut symbol) in table.iter().enumerate() {
            let Some(content) = content_of(&symbol, by_section) else { continue };
            let end = symbol.value.checked_add(symbol.size);
            let inside = || format!("the symbol '{}' leads into the middle of one", self.symbol_name(section, &symbol));
            let start = content.start_at(symbol.value).ok_or_else(inside)?;
            if symbol.size > 0 {
                let end = end.and_then(|end| content.end_at(end)).ok_or_else(inside)?;
                symbol.size = end.saturating_sub(start);
            }
            symbol.value = start;
            self.put(&mut new, table.bytes, number, symbol);
        }
        Ok(new)
    }

    /// The new content of a table of relocations, if it changes.
    fn relocations(
        &self,
        section: &Section,
        by_section: &[Option<&NewContent<'_>>],
    ) -> Result<Option<Vec<u8>>, String> {
        let (table, encoding) = (self.table::<Relocation>(section), self.file.encoding);
        let of = |number: u64| usize::try_from(number).ok();
        if !table.is_empty()
            && of(section.info).is_some_and(|target| by_section.get(target).is_some_and(Option::is_some))
        {
            return Err(format!("they have relocations, in '{}'", self.name(section)));
        }
        let symbols = of(section.link).and_then(|index| self.sections.get(index));
        let symbols = symbols.map(|section| self.table::<Symbol>(section));
        let mut new = None;
        for (number, mut relocation) in table.iter().enumerate() {
            let symbol = symbols.as_ref().and_then(|symbols| symbols.get(of(relocation.symbol(encoding))?));
            let Some(symbol) = symbol else { continue };
            let Some(content) = content_of(&symbol, by_section) else { continue };
            let target = encoding.truncated(symbol.value.wrapping_add(relocation.addend));
            let is_direct = self.file.header.machine() != EM_X86_64 || DIRECT.contains(&relocation.kind(encoding));
            let bias = if is_direct { 0 } else { BIAS_MAX };
            let is_biased = encoding.truncated(relocation.addend.wrapping_neg()) <= bias;
            match (content.start_at(symbol.value), content.target_at(target, bias)) {
                (Some(_), _) if is_biased => continue,
                (Some(start), Some(target)) => relocation.addend = encoding.truncated(target.wrapping_sub(start)),
                _ => {
                    let name = self.name(section);
                    return Err(format!(
                        "a relocation in '{name}' leads into the middle of one, or not clearly to one"
                    ));
                }
            }
            self.put(&mut new, table.bytes, number, relocation);
        }
        Ok(new)
    }

    /// The name of a section, for messages.
    fn name(&self, section: &Section) -> String {
        let names = self.file.names.as_ref().ok().and_then(|names| usize::try_from(*names).ok());
        self.string(names, section.name)
    }

    /// The name of a symbol of a table, for messages.
    fn symbol_name(&self, table: &Section, symbol: &Symbol) -> String {
        self.string(usize::try_from(table.link).ok(), symbol.name)
    }

    fn string(&self, table: Option<usize>, at: u64) -> String {
        let table = table.and_then(|index| self.sections.get(index));
        let names = table.and_then(|table| slice(self.file.data, table.offset, self.file.stored(table)));
        shown(name_of(names.unwrap_or_default(), at)).to_string()
    }

    /// Replaces a record of a table in its new content, which begins as a copy of the old one.
    fn put<R: Record>(&self, new: &mut Option<Vec<u8>>, old: &[u8], number: usize, record: R) {
        let record = self.file.encoding.encode(&[record]);
        let start = number.saturating_mul(record.len());
        let range = start..start.saturating_add(record.len());
        if new.is_none() && old.get(range.clone()) == Some(&record) {
            return;
        }
        let new = new.get_or_insert_with(|| old.to_vec());
        new.get_mut(range).into_iter().for_each(|bytes| bytes.copy_from_slice(&record));
    }
}

/// The new content of the section that a symbol is in.
fn content_of<'c, 'p>(symbol: &Symbol, by_section: &[Option<&'c NewContent<'p>>]) -> Option<&'c NewContent<'p>> {
    *by_section.get(usize::try_from(symbol.section).ok()?)?
}

/// Returns the sections and their headers in the order of their offsets, or `None` if some of them share bytes, or if
/// there is more than zeros between and after them.
fn items(file: &File<'_>, sections: &[Section]) -> Option<Vec<Movable>> {
    let table = file.header.sections_at;
    let table = table..table.checked_add(len_u64(file.sections.bytes))?;
    let mut items = vec![Movable { range: table, alignment: to_u64(file.encoding.word), section: None }];
    for (index, section) in sections.iter().enumerate().skip(1) {
        let range = section.offset..section.offset.checked_add(file.stored(section))?;
        items.push(Movable { range, alignment: section.alignment, section: Some(index) });
    }
    items.sort_by_key(|item| (item.range.start, item.range.end));
    let mut end = file.encoding.len_of::<Header>();
    for item in &items {
        if item.range.start >= end {
            part(file.data, end..item.range.start).filter(|gap| is_zero(gap))?;
            end = item.range.end;
        } else if !item.range.is_empty() {
            return None;
        }
    }
    tail(file.data, end).filter(|rest| is_zero(rest))?;
    Some(items)
}

/// The new offset of what was at the offset `old`, `gap` bytes after what stands before it, which ends at `new_end`
/// now. Its distance from the first offset with its alignment stays, so that it can go back.
fn moved(old: u64, gap: u64, alignment: u64, new_end: u64) -> Option<u64> {
    let first = |end: u64| end.checked_next_multiple_of(alignment);
    let aligned = old.checked_sub(gap).and_then(first).and_then(|first| old.checked_sub(first));
    match aligned.filter(|more| more.is_multiple_of(alignment)) {
        Some(more) => first(new_end)?.checked_add(more),
        None => new_end.checked_add(gap),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of three bundles, of which the last one keeps its bytes.
    fn moved() -> Vec<MovedBundle> {
        [(0..100, 0..50, false), (104..200, 52..90, false), (4096..5000, 4096..5000, true)]
            .map(|(before, now, is_same)| MovedBundle { before, now, is_same })
            .into()
    }

    #[test]
    fn relocations_lead_to_what_they_are_meant_for() {
        let data = [0; 5000];
        let content = NewContent { old: 0..5100, new: (&data[..]).into(), moved: moved() };
        for (old, bias, new) in [
            (0, 0, Some(0)),
            (100, 0, Some(50)),
            (104, 0, Some(52)),
            (96, 0, None),
            (150, 0, None),
            (300, 0, None),
            // Of an instruction: the next bundle, or the end of the last one that changes.
            (4092, BIAS_MAX, Some(4092)),
            (196, BIAS_MAX, Some(86)),
            (150, BIAS_MAX, None),
            // An address that may be the end of one bundle or the start of the next: the distance between them has changed.
            (100, BIAS_MAX, None),
            (96, BIAS_MAX, None),
            // Inside of what has the same bytes.
            (4100, 0, Some(4100)),
            (4100, BIAS_MAX, Some(4100)),
        ] {
            assert_eq!(content.target_at(old, bias), new, "{old} {bias}");
        }
    }
}
