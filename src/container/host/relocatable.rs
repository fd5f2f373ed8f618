//! Relocatable ELF objects in which sections with device code get other contents, which may be shorter or longer.
//!
//! Nothing in such an object has an address, so all that follows a section moves in the file: the next section begins at
//! the first offset with its alignment, as assemblers lay them out, and further away only as far as it did. What leads
//! into the section follows: the offsets of sections and of their headers, symbols in it, and the addends of relocations
//! that refer to it.
//!
//! Left as they are, so that the caller has to keep all offsets: linked files, objects with program headers, with
//! sections that share bytes, or with other data than zeros between sections or after the last one; and objects whose
//! relocations have another form than `SHT_RELA`. Rejected: symbols and relocations that lead into the middle of what
//! changed, and relocations inside of it. Layout: System V ABI, chapter 4.

use std::ops::Range;

use object::elf::{EM_MIPS, ET_REL, SHN_LORESERVE, SHT_CREL, SHT_REL, SHT_RELA, SHT_SYMTAB};

use super::elf::{File, Header, Record, Relocation, Section, Symbol, Table, name_of};
use crate::bytes::{len_of, len_u64, part, slice, tail, to_u64};
use crate::display::shown;
use crate::io::input::Slice;
use crate::io::piece::{Change, Piece};

/// How far before a symbol a relocation may lead that is meant for it: instructions count from their end.
const BIAS_MAX: u64 = 16;

/// A section with other contents.
pub(crate) struct NewContent<'p> {
    /// The range of the section in the old file.
    pub(crate) old: Range<u64>,
    pub(crate) new: Slice<'p>,
    /// Where its bundles were and where they are, in their order, counted from the start of the section. What follows one has
    /// moved with its end.
    pub(crate) moved: Vec<(Range<u64>, Range<u64>)>,
}

impl NewContent<'_> {
    /// The new offset of what begins at an offset of the section: a bundle, what directly follows one, or what follows the
    /// last one.
    fn start_at(&self, old: u64) -> Option<u64> {
        let bundles = self.moved.partition_point(|(bundle, _)| bundle.start <= old);
        let Some((before, now)) = bundles.checked_sub(1).and_then(|last| self.moved.get(last)) else {
            return Some(old);
        };
        let is_between = bundles < self.moved.len() && old > before.end;
        if old == before.start { Some(now.start) } else { self.after(before, now, old).filter(|_| !is_between) }
    }

    /// The new offset of the end of what ends at an offset of the section: with a bundle, or after one.
    fn end_at(&self, old: u64) -> Option<u64> {
        let bundles = self.moved.partition_point(|(bundle, _)| bundle.start < old);
        let Some((before, now)) = bundles.checked_sub(1).and_then(|last| self.moved.get(last)) else {
            return Some(old);
        };
        let next = self.moved.get(bundles).map_or_else(|| self.new.len(), |(_, next)| next.start);
        self.after(before, now, old).map(|end| end.min(next))
    }

    fn after(&self, before: &Range<u64>, now: &Range<u64>, old: u64) -> Option<u64> {
        let distance = old.checked_sub(before.end).filter(|_| old <= len_of(&self.old))?;
        now.end.checked_add(distance)
    }
}

/// Something in the file that may move.
struct Item {
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
    items: Vec<Item>,
}

impl<'d> Relocatable<'d> {
    /// The object in `data`; none if not all that these headers describe can move.
    pub(crate) fn read(data: &'d [u8]) -> Option<Self> {
        let file = File::read(data).ok()?;
        let is_known = file.header.kind() == ET_REL && file.segments.is_empty() && file.header.machine() != EM_MIPS;
        let sections: Vec<Section> = file.sections.iter().collect();
        let object = Self { items: items(&file, &sections)?, file, sections };
        (is_known && !object.sections.is_empty()).then_some(object)
    }

    /// The index of the only section with this range, if it is one that [`Self::changes`] can follow.
    fn index_of(&self, range: &Range<u64>) -> Option<usize> {
        let key = |item: &Item| (item.range.start, item.range.end);
        let at = self.items.partition_point(|item| key(item) < (range.start, range.end));
        let item = self.items.get(at).filter(|item| item.range == *range)?;
        item.section.filter(|index| *index < usize::from(SHN_LORESERVE))
    }

    /// Whether sections with these ranges can get other contents.
    pub(crate) fn can_change(&self, mut ranges: impl Iterator<Item = Range<u64>>) -> bool {
        let is_other = |section: &Section| section.is(SHT_CREL) || section.is(SHT_REL);
        ranges.all(|range| self.index_of(&range).is_some()) && !self.sections.iter().any(is_other)
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
            return Err(format!("section '{}' has relocations in them", self.name(section)));
        }
        let symbols = of(section.link).and_then(|index| self.sections.get(index));
        let symbols = symbols.map(|section| self.table::<Symbol>(section));
        let mut new = None;
        for (number, mut relocation) in table.iter().enumerate() {
            let symbol = symbols.as_ref().and_then(|symbols| symbols.get(of(relocation.symbol(encoding))?));
            let Some(symbol) = symbol else { continue };
            let Some(content) = content_of(&symbol, by_section) else { continue };
            let target = encoding.truncated(symbol.value.wrapping_add(relocation.addend));
            let is_biased = encoding.truncated(relocation.addend.wrapping_neg()) <= BIAS_MAX;
            match (content.start_at(symbol.value), content.start_at(target)) {
                (Some(_), _) if is_biased => continue,
                (Some(start), Some(target)) => relocation.addend = encoding.truncated(target.wrapping_sub(start)),
                _ => return Err(format!("section '{}' leads into the middle of one", self.name(section))),
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

/// The sections and their headers in the order of their offsets; none if some of them share bytes, or if there is more than
/// zeros between and after them.
fn items(file: &File<'_>, sections: &[Section]) -> Option<Vec<Item>> {
    let table = file.header.sections_at;
    let table = table..table.checked_add(len_u64(file.sections.bytes))?;
    let mut items = vec![Item { range: table, alignment: to_u64(file.encoding.word), section: None }];
    for (index, section) in sections.iter().enumerate().skip(1) {
        let range = section.offset..section.offset.checked_add(file.stored(section))?;
        items.push(Item { range, alignment: section.alignment, section: Some(index) });
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

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// The new offset of what was at the offset `old`, `gap` bytes after what stands before it, which ends at `new_end` now. Its
/// distance from the first offset with its alignment stays, so that it can go back.
fn moved(old: u64, gap: u64, alignment: u64, new_end: u64) -> Option<u64> {
    let first = |end: u64| end.checked_next_multiple_of(alignment);
    let aligned = old.checked_sub(gap).and_then(first).and_then(|first| old.checked_sub(first));
    match aligned.filter(|more| more.is_multiple_of(alignment)) {
        Some(more) => first(new_end)?.checked_add(more),
        None => new_end.checked_add(gap),
    }
}
