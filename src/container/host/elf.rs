//! The view of ELF files that all readers share, and the records that writers change: of either class and byte order.
//!
//! | record | fields in their order; those with a star have the width of addresses, 4 or 8 bytes |
//! |---|---|
//! | file header | 16 bytes that begin with the magic, class (offset 4: 1 is 32 bits, 2 is 64) and byte order (5: 1 little, 2 big); type, machine (2); version (4); entry point\*, offset of the program headers\*, of the section headers\*; flags (4); its length, length and number of program headers, of section headers, number of the section with the names (2) |
//! | program header | type (4); in 64 bits the flags (4); offset\*, address\*, physical address\*, size in the file\*, in memory\*; in 32 bits the flags (4); alignment\* |
//! | section header | name, type (4); flags\*, address\*, offset\*, size\*; link, info (4); alignment\*, length of entries\* |
//! | symbol | name (4); in 32 bits value, size (4); info, other (1), number of its section (2); in 64 bits value, size (8) |
//! | relocation with an addend | offset\*, symbol and type\*, addend\*; the number of the symbol is in the upper 32 bits, or in 32 bits in the upper 24 |
//!
//! Numbers that do not fit the file header are in the first section header: its size is the number of sections from
//! 0xff00 on, its link the number of the names' section, its info the number of program headers. Layout: System V ABI,
//! generic part.
//!
//! Rejected by [`File::read`]: what the crate `object` rejects, with its words. [`len`] also rejects tables, segments
//! and sections outside the bytes, and a file without any of them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::marker::PhantomData;

use object::elf::{
    EM_CUDA, ET_REL, FileHeader32, FileHeader64, FileType, Machine, PT_NULL, ProgramType, SHT_NOBITS, SHT_NULL,
    SectionType, SymbolType,
};
use object::read::elf::FileHeader;
use object::{Endianness, pod};

use crate::bytes::{len_u64, slice, to_u64};
use crate::error::{Malformed, wrong};

/// The machine of ELF files for Intel GPUs.
pub(crate) const EM_INTELGT: Machine = Machine(205);

/// The types of sections of cubins that take no bytes of the file, such as `.nv.global`, `.nv.local` and `.nv.shared`:
/// those of which `cuobjdump` of CUDA 13.5 reads none.
const CUDA_NO_BITS: [SectionType; 4] =
    [SectionType(0x7000_0007), SectionType(0x7000_0009), SectionType(0x7000_000a), SectionType(0x7000_0015)];

/// How a file stores its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// The width of addresses, offsets and sizes in bytes, 4 or 8.
    pub(crate) word: usize,
    pub(crate) order: Endianness,
}

impl Encoding {
    pub(crate) const LITTLE_64: Self = Self { word: 8, order: Endianness::Little };

    /// The encoding of a file that begins with `head`.
    pub(crate) fn of(head: &[u8]) -> Self {
        let word = if head.get(4) == Some(&2) { 8 } else { 4 };
        Self { word, order: if head.get(5) == Some(&2) { Endianness::Big } else { Endianness::Little } }
    }

    /// The number in up to eight bytes.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8]) -> u64 {
        let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        match (self.order, bytes) {
            (Endianness::Big, _) => bytes.iter().fold(0, push),
            // Most numbers have these widths, and most files this byte order.
            (_, &[a, b]) => u16::from_le_bytes([a, b]).into(),
            (_, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
            (_, &[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => bytes.iter().rev().fold(0, push),
        }
    }

    /// Fills `out` with a number, truncated to its length.
    pub(crate) fn write(self, number: u64, out: &mut [u8]) {
        let bytes = number.to_le_bytes();
        match self.order {
            Endianness::Little => out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte),
            Endianness::Big => out.iter_mut().rev().zip(bytes).for_each(|(out, byte)| *out = byte),
        }
    }

    /// A sum of addresses, which wraps around.
    pub(crate) fn truncated(self, sum: u64) -> u64 {
        if self.word == 8 { sum } else { sum & u64::from(u32::MAX) }
    }

    /// The length of a record in bytes.
    pub(crate) fn len_of<R: Record>(self) -> u64 {
        to_u64(R::default().fields(self.word).into_iter().map(|(_, width)| width).sum())
    }

    /// The record at the start of some bytes. Fields for which there are too few bytes are zero.
    pub(crate) fn decode<R: Record>(self, bytes: &[u8]) -> R {
        // With a known encoding, the compiler knows where each field is: symbols are read by the million.
        if self == Self::LITTLE_64 { Self::LITTLE_64.decode_each(bytes) } else { self.decode_each(bytes) }
    }

    #[inline(always)]
    fn decode_each<R: Record>(self, mut bytes: &[u8]) -> R {
        let mut record = R::default();
        for (field, width) in record.fields(self.word) {
            let (number, rest) = bytes.split_at_checked(width).unwrap_or_default();
            (*field, bytes) = (self.read(number), rest);
        }
        record
    }

    /// The bytes of some records.
    pub(crate) fn encode<R: Record>(self, records: &[R]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for mut record in records.iter().copied() {
            for (field, width) in record.fields(self.word) {
                let mut number = [0; 8];
                let number = number.get_mut(..width).unwrap_or_default();
                self.write(*field, number);
                bytes.extend_from_slice(number);
            }
        }
        bytes
    }
}

/// A record, all of whose bytes are fields.
pub(crate) trait Record: Copy + Default {
    /// The fields in their order, each with its width in bytes, in a file with words of `word` bytes.
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)>;
}

/// The file header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) ident: [u64; 2],
    pub(crate) kind: u64,
    pub(crate) machine: u64,
    pub(crate) version: u64,
    pub(crate) entry: u64,
    /// The offset of the program headers.
    pub(crate) segments_at: u64,
    /// The offset of the section headers.
    pub(crate) sections_at: u64,
    pub(crate) flags: u64,
    pub(crate) len: u64,
    pub(crate) segment_len: u64,
    pub(crate) segment_count: u64,
    pub(crate) section_len: u64,
    pub(crate) section_count: u64,
    /// The number of the section with the names of all sections.
    pub(crate) names: u64,
}

impl Record for Header {
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
        let [first, second] = &mut self.ident;
        [
            (first, 8),
            (second, 8),
            (&mut self.kind, 2),
            (&mut self.machine, 2),
            (&mut self.version, 4),
            (&mut self.entry, word),
            (&mut self.segments_at, word),
            (&mut self.sections_at, word),
            (&mut self.flags, 4),
            (&mut self.len, 2),
            (&mut self.segment_len, 2),
            (&mut self.segment_count, 2),
            (&mut self.section_len, 2),
            (&mut self.section_count, 2),
            (&mut self.names, 2),
        ]
    }
}

impl Header {
    /// The header of the file that begins with `data`, if there is all of it.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let [0x7f, b'E', b'L', b'F', 1 | 2, 1 | 2, 1, ..] = data else { return None };
        let encoding = Encoding::of(data);
        Some(encoding.decode(slice(data, 0, encoding.len_of::<Self>())?))
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType(u16::try_from(self.kind).unwrap_or_default())
    }

    /// Whether it is that of an object, not of a linked file.
    pub(crate) fn is_relocatable(&self) -> bool {
        self.kind() == ET_REL
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine(u16::try_from(self.machine).unwrap_or_default())
    }

    /// The end of the tables of headers, of which one comes last in the output of most tools, cubins among them.
    pub(crate) fn tables_end(&self) -> Option<u64> {
        let end = |start: u64, len: u64, count: u64| start.checked_add(len.checked_mul(count)?);
        let segments = end(self.segments_at, self.segment_len, self.segment_count)?;
        Some(segments.max(end(self.sections_at, self.section_len, self.section_count)?))
    }
}

/// A program header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: u64,
    pub(crate) flags: u64,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) physical: u64,
    /// The size in the file, and that in memory.
    pub(crate) size: u64,
    pub(crate) memory: u64,
    pub(crate) alignment: u64,
}

impl Record for Segment {
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
        let Self { kind, flags, offset, address, physical, size, memory, alignment } = self;
        let [offset, address, physical, size, memory, alignment] =
            [offset, address, physical, size, memory, alignment].map(|field| (field, word));
        match word {
            8 => [(kind, 4), (flags, 4), offset, address, physical, size, memory, alignment],
            _ => [(kind, 4), offset, address, physical, size, memory, (flags, 4), alignment],
        }
    }
}

impl Segment {
    pub(crate) fn is(&self, kind: ProgramType) -> bool {
        self.kind == u64::from(kind.0)
    }
}

/// A section header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The offset of its name among those of all sections.
    pub(crate) name: u64,
    pub(crate) kind: u64,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u64,
    pub(crate) info: u64,
    pub(crate) alignment: u64,
    pub(crate) entry_len: u64,
}

impl Record for Section {
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
        [
            (&mut self.name, 4),
            (&mut self.kind, 4),
            (&mut self.flags, word),
            (&mut self.address, word),
            (&mut self.offset, word),
            (&mut self.size, word),
            (&mut self.link, 4),
            (&mut self.info, 4),
            (&mut self.alignment, word),
            (&mut self.entry_len, word),
        ]
    }
}

impl Section {
    pub(crate) fn is(&self, kind: SectionType) -> bool {
        self.kind == u64::from(kind.0)
    }

    pub(crate) fn is_any(&self, kinds: &[SectionType]) -> bool {
        kinds.iter().any(|kind| self.is(*kind))
    }

    /// The number of bytes that it takes in the file, unless that is a cubin.
    pub(crate) fn stored(&self) -> u64 {
        if self.is_any(&[SHT_NOBITS, SHT_NULL]) { 0 } else { self.size }
    }
}

/// A symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// The offset of its name in the string table.
    pub(crate) name: u64,
    /// The binding and, in the lower 4 bits, the type.
    pub(crate) info: u64,
    pub(crate) other: u64,
    pub(crate) section: u64,
    pub(crate) value: u64,
    pub(crate) size: u64,
}

impl Record for Symbol {
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
        let Self { name, info, other, section, value, size } = self;
        let (value, size) = ((value, word), (size, word));
        match word {
            8 => [(name, 4), (info, 1), (other, 1), (section, 2), value, size],
            _ => [(name, 4), value, size, (info, 1), (other, 1), (section, 2)],
        }
    }
}

impl Symbol {
    pub(crate) fn is(&self, kind: SymbolType) -> bool {
        self.info & 0xf == u64::from(kind.0)
    }
}

/// A relocation with an addend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relocation {
    pub(crate) offset: u64,
    /// Its symbol and its type.
    info: u64,
    pub(crate) addend: u64,
}

impl Record for Relocation {
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
        [(&mut self.offset, word), (&mut self.info, word), (&mut self.addend, word)]
    }
}

impl Relocation {
    /// The number of its symbol, except on MIPS.
    pub(crate) fn symbol(&self, encoding: Encoding) -> u64 {
        self.info >> if encoding.word == 8 { 32 } else { 8 }
    }

    /// Its type, except on MIPS.
    pub(crate) fn kind(&self, encoding: Encoding) -> u64 {
        self.info & if encoding.word == 8 { 0xffff_ffff } else { 0xff }
    }
}

/// A relocation whose addend is in the bytes that it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortRelocation {
    offset: u64,
    info: u64,
}

impl Record for ShortRelocation {
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
        [(&mut self.offset, word), (&mut self.info, word)]
    }
}

impl ShortRelocation {
    /// The number of its symbol, except on MIPS.
    pub(crate) fn symbol(&self, encoding: Encoding) -> u64 {
        Relocation { offset: self.offset, info: self.info, addend: 0 }.symbol(encoding)
    }
}

/// A table of records, which are decoded when they are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'d, R> {
    pub(crate) bytes: &'d [u8],
    encoding: Encoding,
    /// The length of a record in bytes.
    record_len: usize,
    records: PhantomData<R>,
}

impl<'d, R: Record> Table<'d, R> {
    pub(crate) fn new(encoding: Encoding, bytes: &'d [u8]) -> Self {
        let record_len = usize::try_from(encoding.len_of::<R>()).unwrap_or(usize::MAX);
        Self { bytes, encoding, record_len, records: PhantomData }
    }

    fn chunks(&self) -> std::slice::ChunksExact<'d, u8> {
        self.bytes.chunks_exact(self.record_len)
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, index: usize) -> Option<R> {
        self.chunks().nth(index).map(|record| self.encoding.decode(record))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = R> + use<'d, R> {
        let encoding = self.encoding;
        self.chunks().map(move |record| encoding.decode(record))
    }
}

/// A file, whose tables of headers are inside of it.
pub(crate) struct File<'d> {
    pub(crate) data: &'d [u8],
    pub(crate) encoding: Encoding,
    pub(crate) header: Header,
    pub(crate) segments: Table<'d, Segment>,
    pub(crate) sections: Table<'d, Section>,
    /// The number of the section with the names of all sections.
    pub(crate) names: object::read::Result<u32>,
}

impl<'d> File<'d> {
    /// Reads the headers. Offsets in errors count from the start of the file.
    pub(crate) fn read(data: &'d [u8]) -> Result<Self, Malformed> {
        let file = match data.get(4) {
            Some(1) => Self::of_class::<FileHeader32<Endianness>>(data),
            Some(2) => Self::of_class::<FileHeader64<Endianness>>(data),
            _ => return wrong("invalid ELF class", 4),
        };
        file.map_err(|error| Malformed::at(error.to_string(), 0))
    }

    fn of_class<Elf: FileHeader<Endian = Endianness>>(data: &'d [u8]) -> object::read::Result<Self> {
        let header = Elf::parse(data)?;
        let order = header.endian()?;
        let encoding = Encoding::of(data);
        let segments = pod::bytes_of_slice(header.program_headers(order, data)?);
        let sections = pod::bytes_of_slice(header.section_headers(order, data)?);
        Ok(Self {
            data,
            encoding,
            header: encoding.decode(pod::bytes_of(header)),
            segments: Table::new(encoding, segments),
            sections: Table::new(encoding, sections),
            names: header.shstrndx(order, data),
        })
    }

    /// The number of bytes that a section takes in the file.
    pub(crate) fn stored(&self, section: &Section) -> u64 {
        let is_without = self.header.machine() == EM_CUDA && section.is_any(&CUDA_NO_BITS);
        if is_without { 0 } else { section.stored() }
    }

    /// The content of the first section with a name.
    pub(crate) fn section_named(&self, name: &[u8]) -> Option<&'d [u8]> {
        let content = |section: Section| slice(self.data, section.offset, section.stored());
        let names = content(self.sections.get(usize::try_from(self.names.ok()?).ok()?)?)?;
        content(self.sections.iter().find(|section| name_of(names, section.name) == name)?)
    }
}

/// The name that starts at this offset of a string table.
pub(crate) fn name_of(names: &[u8], start: u64) -> &[u8] {
    let rest = usize::try_from(start).ok().and_then(|start| names.get(start..)).unwrap_or_default();
    memchr::memchr(0, rest).and_then(|end| rest.get(..end)).unwrap_or(rest)
}

/// The length of the file that begins with `data`, which may go on after it.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    let file = File::read(data).ok()?;
    if file.segments.is_empty() && file.sections.is_empty() {
        return None;
    }
    // Counts that do not fit the header are in the first section.
    let many = len_u64(file.sections.bytes).checked_add(file.header.sections_at)?;
    let segments = file.segments.iter().filter(|segment| !segment.is(PT_NULL));
    let segments = segments.map(|segment| (segment.offset, segment.size));
    let mut ranges = segments.chain(file.sections.iter().map(|section| (section.offset, file.stored(&section))));
    let end = ranges.try_fold(file.header.tables_end()?.max(many), |end, range| match range {
        (_, 0) => Some(end),
        (start, len) => Some(end.max(start.checked_add(len)?)),
    })?;
    (end <= len_u64(data)).then_some(end)
}

/// The offset of the section table of an ELF file, if it is not all in the file.
pub(crate) fn missing_section_table(data: &[u8]) -> Option<u64> {
    let Header { sections_at, section_len, section_count, .. } = Header::read(data)?;
    let end = sections_at.saturating_add(section_count.saturating_mul(section_len));
    (end > len_u64(data)).then_some(sections_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit file with one section of `size` bytes at `start`, and its headers at `headers`.
    fn elf(headers: u64, start: u64, size: u64) -> Vec<u8> {
        let mut data = b"\x7fELF\x02\x01\x01".to_vec();
        data.resize(64, 0);
        data[18] = 224;
        data[40..48].copy_from_slice(&headers.to_le_bytes());
        data[58] = 64;
        data[60] = 2;
        data.resize(usize::try_from(headers).unwrap() + 64, 0);
        let mut section = [0; 64];
        section[4] = 1;
        section[24..32].copy_from_slice(&start.to_le_bytes());
        section[32..40].copy_from_slice(&size.to_le_bytes());
        data.extend(section);
        data
    }

    #[test]
    fn files_end_with_their_last_table_or_content() {
        for (headers, start, size, expected) in
            [(64, 64, 0, Some(192)), (80, 64, 16, Some(208)), (64, 192, 30, Some(222)), (64, 192, 101, None)]
        {
            let mut data = elf(headers, start, size);
            data.resize(usize::try_from(headers).unwrap() + 128 + 100 - usize::from(start < 100), 0xff);
            assert_eq!(len(&data), expected, "{headers}, {start}, {size}");
            assert_eq!(Header::read(&data).and_then(|header| header.tables_end()), Some(headers + 128));
        }
        // A section that takes no bytes: beyond the end, of a cubin and of another file.
        let mut shared = elf(64, 1 << 20, 100);
        shared[64 + 64 + 4..][..4].copy_from_slice(&0x7000_000a_u32.to_le_bytes());
        assert_eq!(len(&shared), None);
        shared[18] = 190;
        assert_eq!(len(&shared), Some(192));
        let whole = elf(64, 64, 0);
        assert_eq!(len(&whole), Some(192));
        assert!((0..192).all(|end| len(&whole[..end]).is_none()));
        let mut bare = whole;
        bare[40..48].fill(0);
        assert_eq!(len(&bare), None);
    }

    #[test]
    fn a_section_table_is_missing_if_the_file_ends_before_it_does() {
        let mut elf_32 = b"\x7fELF\x01\x01\x01".to_vec();
        elf_32.resize(52 + 80, 0);
        (elf_32[32], elf_32[46], elf_32[48]) = (52, 40, 2);
        let mut other = elf(64, 64, 0);
        other[4] = 3;
        for (whole, header_len, start) in [(elf(64, 64, 0), 64, 64), (elf(80, 64, 16), 64, 80), (elf_32, 52, 52)] {
            assert_eq!(missing_section_table(&whole), None);
            assert!(
                (header_len..whole.len()).all(|len| missing_section_table(&whole[..len]) == Some(start)),
                "{start}"
            );
        }
        assert_eq!(missing_section_table(&other[..100]), None);
    }
}
