//! Reads the segments and relocations of linked ELF files as their loaders find them: through the program headers and
//! the dynamic segment, without section headers.
//!
//! | entries of the dynamic segment | relocations |
//! |---|---|
//! | `DT_RELA`, `DT_RELASZ` | an address, a symbol and an addend each |
//! | `DT_REL`, `DT_RELSZ` | an address and a symbol each; the addend is in the bytes that the loader replaces |
//! | `DT_ANDROID_RELA`, `DT_ANDROID_REL` and their sizes | the same, packed ([`PackedRelocations`]) |
//! | `DT_RELR`, `DT_ANDROID_RELR` | not read: the bytes in the file are the address, less the address at which the file is loaded |
//! | `DT_JMPREL` | not read: for functions only |
//!
//! Sources: System V ABI, chapter 5; lld 22.1.8 (`--pack-dyn-relocs`).

use std::ops::Range;

use object::elf::{
    DT_ANDROID_REL, DT_ANDROID_RELA, DT_ANDROID_RELASZ, DT_ANDROID_RELSZ, DT_REL, DT_RELA, DT_RELASZ, DT_RELSZ,
    DT_SYMTAB, DynamicTag, EM_MIPS, ET_DYN, ET_EXEC, PT_DYNAMIC, PT_LOAD,
};

use crate::base::bytes::{slice, span};
use crate::beyond::code::elf::{File, Record, Relocation, ShortRelocation, Symbol, symbol_of};
use crate::llvm::container::records::record;

record! {
    /// An entry of the dynamic segment.
    DynamicEntry(word) {
        tag: word,
        value: word,
    }
}

/// A segment that a loader maps.
pub(crate) struct LoadedSegment {
    /// The index in the program headers.
    pub(crate) index: usize,
    pub(crate) address: u64,
    /// The range in the file, which may end after the file.
    pub(crate) range: Range<u64>,
}

/// Returns the segments of a program or library that a loader maps, in the order of the program headers. Leaves out
/// segments without bytes in the file. Returns none for other files.
pub(crate) fn loaded_segments(data: &[u8]) -> Vec<LoadedSegment> {
    let mut segments = Vec::new();
    let Ok(file) = File::read(data) else { return segments };
    if ![ET_EXEC, ET_DYN].contains(&file.header.kind()) {
        return segments;
    }
    for (index, segment) in file.segments.iter().enumerate() {
        if segment.is(PT_LOAD) && segment.size > 0 {
            let range = span(segment.offset, segment.size);
            segments.push(LoadedSegment { index, address: segment.address, range });
        }
    }
    segments
}

/// A relocation that a loader applies.
pub(super) struct DynamicRelocation {
    pub(super) address: u64,
    /// The number of the symbol, or 0 without one.
    pub(super) symbol: u64,
    /// The addend, or `None` if it is in the bytes that the loader replaces.
    pub(super) addend: Option<u64>,
}

/// The dynamic segment of a linked ELF file.
pub(super) struct Dynamic<'d> {
    file: File<'d>,
    entries: Vec<DynamicEntry>,
    /// The offset of the table of symbols in the file, or `None` without one.
    symbols: Option<u64>,
}

impl<'d> Dynamic<'d> {
    /// Reads the segment. Returns `None` for a file without one, and for files for MIPS, whose relocations have other
    /// fields.
    pub(super) fn read(data: &'d [u8]) -> Option<Self> {
        let file = File::read(data).ok()?;
        if file.header.is_relocatable() || file.header.machine() == EM_MIPS {
            return None;
        }
        let segment = file.segments.iter().find(|segment| segment.is(PT_DYNAMIC))?;
        let table = slice(data, segment.offset, segment.size)?;
        // The first entry with the tag 0 is the last one.
        let entries = records::<DynamicEntry>(&file, table).take_while(|entry| entry.tag != 0).collect();
        let mut dynamic = Self { file, entries, symbols: None };
        // Found once, because there may be as many relocations as entries.
        dynamic.symbols = dynamic.value(DT_SYMTAB).and_then(|address| dynamic.offset_of(address));
        Some(dynamic)
    }

    /// Passes the relocations to `visit`, at most `max_count` of them.
    pub(super) fn visit_relocations(&self, max_count: usize, visit: &mut dyn FnMut(DynamicRelocation)) {
        let encoding = self.file.encoding;
        let with_addends = self.table(DT_RELA, DT_RELASZ);
        let with_addends = records::<Relocation>(&self.file, with_addends).map(|relocation| DynamicRelocation {
            address: relocation.offset,
            symbol: relocation.symbol(encoding),
            addend: Some(relocation.addend),
        });
        let short = self.table(DT_REL, DT_RELSZ);
        let short = records::<ShortRelocation>(&self.file, short).map(|relocation| DynamicRelocation {
            address: relocation.offset,
            symbol: relocation.symbol(encoding),
            addend: None,
        });
        let packed = [(DT_ANDROID_RELA, DT_ANDROID_RELASZ), (DT_ANDROID_REL, DT_ANDROID_RELSZ)];
        let packed = packed.into_iter().flat_map(|(start_tag, len_tag)| {
            let relocations = PackedRelocations::read(self.table(start_tag, len_tag));
            relocations.into_iter().flatten().map(move |packed| DynamicRelocation {
                address: packed.offset,
                symbol: symbol_of(packed.info, encoding),
                addend: if start_tag == DT_ANDROID_RELA { Some(packed.addend) } else { None },
            })
        });
        with_addends.chain(short).chain(packed).take(max_count).for_each(visit);
    }

    /// Returns the address of a symbol, or `None` if another file defines it. Without a symbol, the address is 0.
    pub(super) fn symbol_address(&self, number: u64) -> Option<u64> {
        if number == 0 {
            return Some(0);
        }
        let encoding = self.file.encoding;
        let len = encoding.len_of::<Symbol>();
        let start = self.symbols?.checked_add(number.checked_mul(len)?)?;
        let symbol: Symbol = encoding.decode(slice(self.file.data, start, len)?);
        let is_undefined = symbol.section == 0;
        if is_undefined { None } else { Some(symbol.value) }
    }

    /// Returns the value of the first entry with a tag.
    fn value(&self, tag: DynamicTag) -> Option<u64> {
        let tag = u64::try_from(tag.0).ok()?;
        Some(self.entries.iter().find(|entry| entry.tag == tag)?.value)
    }

    /// Returns the table that two entries locate, or no bytes if it is not in the file.
    fn table(&self, start_tag: DynamicTag, len_tag: DynamicTag) -> &'d [u8] {
        let locate = || slice(self.file.data, self.offset_of(self.value(start_tag)?)?, self.value(len_tag)?);
        locate().unwrap_or_default()
    }

    /// Returns the offset in the file of an address.
    fn offset_of(&self, address: u64) -> Option<u64> {
        self.file.segments.iter().find_map(|segment| {
            let offset_in_segment = address.checked_sub(segment.address)?;
            let is_inside = segment.is(PT_LOAD) && offset_in_segment < segment.size;
            if is_inside { segment.offset.checked_add(offset_in_segment) } else { None }
        })
    }
}

/// Returns the complete records in a table.
fn records<'t, R: Record + 't>(file: &File<'_>, table: &'t [u8]) -> impl Iterator<Item = R> + use<'t, R> {
    let encoding = file.encoding;
    let len = usize::try_from(encoding.len_of::<R>()).unwrap_or(usize::MAX);
    table.chunks_exact(len.max(1)).map(move |record| encoding.decode(record))
}

/// The flags of a group of packed relocations: the numbers that all its relocations share, and whether they have
/// addends.
const SAME_INFO: u64 = 1;
const SAME_DISTANCE: u64 = 2;
const SAME_ADDEND: u64 = 4;
const HAS_ADDENDS: u64 = 8;

/// Relocations as lld packs them for Android.
///
/// All numbers are SLEB128. After the magic `APS2` come the number of relocations and the first offset, then groups:
///
/// | number | if the flags have |
/// |---|---|
/// | count, flags | |
/// | distance of each relocation from the one before | 2 |
/// | symbol and type of each | 1 |
/// | difference of the addend from the one before | 4 and 8 |
///
/// The relocations of a group follow. Each has the numbers that the group lacks: distance, symbol and type, and with
/// the flag 8 the difference of the addend. Without the flag 8, the addend is 0.
struct PackedRelocations<'d> {
    data: &'d [u8],
    /// The number of relocations that are not read yet, in all groups.
    remaining: u64,
    /// The number of relocations that are not read yet in the current group.
    remaining_in_group: u64,
    /// The flags of the current group.
    flags: u64,
    /// The distance of all relocations of a group with the flag [`SAME_DISTANCE`].
    distance: u64,
    /// The numbers of the last relocation.
    offset: u64,
    info: u64,
    addend: u64,
}

/// A relocation of a packed table.
struct PackedRelocation {
    offset: u64,
    info: u64,
    addend: u64,
}

impl<'d> PackedRelocations<'d> {
    /// Reads the beginning of a table. Returns `None` for a table of another format.
    fn read(table: &'d [u8]) -> Option<Self> {
        let data = table.strip_prefix(b"APS2")?;
        let (remaining_in_group, flags, distance, info, addend) = (0, 0, 0, 0, 0);
        let mut packed = Self { data, remaining: 0, remaining_in_group, flags, distance, offset: 0, info, addend };
        packed.remaining = packed.number()?;
        packed.offset = packed.number()?;
        Some(packed)
    }

    /// Reads a number in SLEB128, and returns it in two's complement. Returns `None` if the data ends before its end.
    fn number(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        loop {
            let (&byte, rest) = self.data.split_first()?;
            self.data = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0;
                let sign = if is_negative { u64::MAX.checked_shl(shift).unwrap_or(0) } else { 0 };
                return Some(value | sign);
            }
        }
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Reads the numbers that all relocations of the next group have in common.
    fn start_group(&mut self) -> Option<()> {
        self.remaining_in_group = self.number()?;
        self.flags = self.number()?;
        if self.has(SAME_DISTANCE) {
            self.distance = self.number()?;
        }
        if self.has(SAME_INFO) {
            self.info = self.number()?;
        }
        if !self.has(HAS_ADDENDS) {
            self.addend = 0;
        } else if self.has(SAME_ADDEND) {
            self.addend = self.addend.wrapping_add(self.number()?);
        }
        Some(())
    }
}

impl Iterator for PackedRelocations<'_> {
    type Item = PackedRelocation;

    /// Reads the next relocation. Returns `None` after the last one, and if the table is cut off.
    fn next(&mut self) -> Option<PackedRelocation> {
        self.remaining = self.remaining.checked_sub(1)?;
        // A group may have no relocations.
        while self.remaining_in_group == 0 {
            self.start_group()?;
        }
        self.remaining_in_group = self.remaining_in_group.checked_sub(1)?;
        let distance = if self.has(SAME_DISTANCE) { self.distance } else { self.number()? };
        self.offset = self.offset.wrapping_add(distance);
        if !self.has(SAME_INFO) {
            self.info = self.number()?;
        }
        if self.has(HAS_ADDENDS) && !self.has(SAME_ADDEND) {
            self.addend = self.addend.wrapping_add(self.number()?);
        }
        Some(PackedRelocation { offset: self.offset, info: self.info, addend: self.addend })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends a number as SLEB128.
    fn put(table: &mut Vec<u8>, number: i64) {
        let mut rest = number;
        loop {
            let low = u8::try_from(rest & 0x7f).unwrap();
            rest >>= 7;
            let is_negative = low & 0x40 != 0;
            if rest == if is_negative { -1 } else { 0 } {
                return table.push(low);
            }
            table.push(low | 0x80);
        }
    }

    fn pack(numbers: &[i64]) -> Vec<u8> {
        let mut table = b"APS2".to_vec();
        numbers.iter().for_each(|number| put(&mut table, *number));
        table
    }

    fn unpack(table: &[u8]) -> Vec<(u64, u64, u64)> {
        let relocations = PackedRelocations::read(table).into_iter().flatten().take(1000);
        relocations.map(|relocation| (relocation.offset, relocation.info, relocation.addend)).collect()
    }

    /// Each table has the same four relocations, with more or fewer numbers in common.
    #[test]
    fn packed_relocations_are_read_in_all_groups() {
        let expected = [(0x1000, 8, 500), (0x1010, 8, 499), (0x1020, 8, 498), (0x1030, 8, 497)];
        for (numbers, is_same_addend) in [
            (&[4, 0xff0, 4, 8, 16, 8, 500, 16, 8, -1, 16, 8, -1, 16, 8, -1][..], false),
            (&[4, 0xff0, 4, 9, 8, 16, 500, 16, -1, 16, -1, 16, -1], false),
            (&[4, 0xff0, 4, 11, 16, 8, 500, -1, -1, -1], false),
            (&[4, 0x2000, 1, 9, 8, -0x1000, 500, 0, 8, 3, 11, 16, 8, -1, -1, -1], false),
            (&[4, 0xff0, 4, 15, 16, 8, 500], true),
        ] {
            let expected =
                expected.map(|(offset, info, addend)| (offset, info, if is_same_addend { 500 } else { addend }));
            assert_eq!(unpack(&pack(numbers)), expected, "{numbers:?}");
        }
        // Without addends, and with more relocations in the groups than in the table.
        assert_eq!(unpack(&pack(&[2, 0, 9, 3, 8, 1])), [(8, 1, 0), (16, 1, 0)]);
        // Claims end with the table.
        for hostile in
            [&[i64::MAX, 0, i64::MAX, 8, 1, 1, 1][..], &[i64::MAX, 0], &[9, 0, 0, 0, 0, 0], &[-1, 0, 1, 0, 1]]
        {
            assert!(unpack(&pack(hostile)).len() <= 1, "{hostile:?}");
        }
        assert_eq!(unpack(&pack(&[i64::MAX, 0, i64::MAX, 15, 0, 0, 0])).len(), 1000);
        assert_eq!(unpack(b"APS2"), []);
        assert_eq!(unpack(&[&b"APS2"[..], &[0xff; 20]].concat()), []);
        assert_eq!(unpack(b"APS1\x01\x00\x01\x00\x01\x01"), []);
    }
}
