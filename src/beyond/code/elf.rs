//! The view of ELF files that all readers of a search share. The records are those of `llvm`.
//!
//! [`File::read`] rejects the same files as the crate `object`, with its words. [`len`] also rejects tables, segments
//! and sections outside the bytes, and a file without any of them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use object::elf::{
    EM_CUDA, ET_REL, FileHeader32, FileHeader64, FileType, Machine, PT_NULL, ProgramType, SectionType, SymbolType,
};
use object::read::elf::FileHeader;
use object::{Endianness, pod};

use crate::base::bytes::{len_u64, slice, tail};
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
pub(crate) use crate::llvm::container::host::elf::{
    Encoding, Header, Relocation, Section, Segment, ShortRelocation, Symbol, Table, symbol_of,
};
pub(crate) use crate::llvm::container::records::Record;

/// The machine of ELF files for Intel GPUs.
pub(crate) const EM_INTELGT: Machine = Machine(205);

/// The types of sections of cubins that take no bytes of the file, such as `.nv.global`, `.nv.local` and `.nv.shared`.
/// `cuobjdump` of CUDA 13.5 reads no bytes of sections of these types.
const CUDA_NO_BITS: [SectionType; 4] =
    [SectionType(0x7000_0007), SectionType(0x7000_0009), SectionType(0x7000_000a), SectionType(0x7000_0015)];

impl Header {
    /// Reads the header of the file that begins with `data`. Returns `None` for data that is not ELF or too short for
    /// the header.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        // The magic, then a class, a byte order, and the only version.
        let [0x7f, b'E', b'L', b'F', 1 | 2, 1 | 2, 1, ..] = data else { return None };
        let encoding = Encoding::of(data);
        Some(encoding.decode(slice(data, 0, encoding.len_of::<Self>())?))
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType(u16::try_from(self.kind).unwrap_or_default())
    }

    /// Whether the file is an object, not a linked file.
    pub(crate) fn is_relocatable(&self) -> bool {
        self.kind() == ET_REL
    }

    /// Returns the end of the program headers or of the section headers, whichever is later, or `None` if the numbers
    /// in the header are too large. Most tools write one of these tables last, so this is usually the end of the file.
    pub(crate) fn tables_end(&self) -> Option<u64> {
        let segments_len = self.segment_len.checked_mul(self.segment_count)?;
        let sections_len = self.section_len.checked_mul(self.section_count)?;
        let segments_end = self.segments_at.checked_add(segments_len)?;
        Some(segments_end.max(self.sections_at.checked_add(sections_len)?))
    }
}

impl Segment {
    pub(crate) fn is(&self, kind: ProgramType) -> bool {
        self.kind == u64::from(kind.0)
    }
}

impl Symbol {
    pub(crate) fn is(&self, kind: SymbolType) -> bool {
        self.info & 0xf == u64::from(kind.0)
    }
}

impl Relocation {
    /// The number of the symbol, except in 64-bit MIPS files, which store these fields in another order.
    pub(crate) fn symbol(&self, encoding: Encoding) -> u64 {
        symbol_of(self.info, encoding)
    }

    /// The type, except in 64-bit MIPS files.
    pub(crate) fn kind(&self, encoding: Encoding) -> u64 {
        self.info & if encoding.word == 8 { 0xffff_ffff } else { 0xff }
    }
}

impl ShortRelocation {
    /// The number of the symbol, except in 64-bit MIPS files, which store these fields in another order.
    pub(crate) fn symbol(&self, encoding: Encoding) -> u64 {
        symbol_of(self.info, encoding)
    }
}

/// An ELF file whose tables of headers are complete.
pub(crate) struct File<'d> {
    pub(crate) data: &'d [u8],
    pub(crate) encoding: Encoding,
    pub(crate) header: Header,
    pub(crate) segments: Table<'d, Segment>,
    pub(crate) sections: Table<'d, Section>,
    /// The index of the section with the names of all sections, or an error if the file has no such section. The error
    /// is kept here because the sections can still be read without their names.
    pub(crate) names_index: object::read::Result<u32>,
}

impl<'d> File<'d> {
    /// Reads the headers. Offsets in errors count from the start of the file.
    pub(crate) fn read(data: &'d [u8]) -> Result<Self, Malformed> {
        let file = match data.get(4) {
            Some(1) => Self::of_class::<FileHeader32<Endianness>>(data),
            Some(2) => Self::of_class::<FileHeader64<Endianness>>(data),
            _ => return fail_at("invalid ELF class", 4),
        };
        file.map_err(|error| Malformed::at(error.to_string(), 0))
    }

    /// Reads the headers of a 32-bit or a 64-bit file.
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
            names_index: header.shstrndx(order, data),
        })
    }

    /// The number of bytes that a section takes in the file. In cubins, NVIDIA's own types of sections for memory
    /// without content have a size, but no bytes.
    pub(crate) fn stored(&self, section: &Section) -> u64 {
        if self.header.machine() == EM_CUDA && section.is_any(&CUDA_NO_BITS) {
            return 0;
        }
        section.stored()
    }

    /// Returns the content of the first section with this name, or `None` if no section has it, or if the names or the
    /// content are outside the file.
    pub(crate) fn section_named(&self, name: &[u8]) -> Option<&'d [u8]> {
        let names_index = usize::try_from(self.names_index.ok()?).ok()?;
        let names = self.content(&self.sections.get(names_index)?)?;
        for section in self.sections.iter() {
            if name_of(names, section.name) == name {
                return self.content(&section);
            }
        }
        None
    }

    fn content(&self, section: &Section) -> Option<&'d [u8]> {
        slice(self.data, section.offset, section.stored())
    }
}

/// The name that starts at this offset of a string table, without its NUL; empty if the offset is outside the table.
pub(crate) fn name_of(names: &[u8], start: u64) -> &[u8] {
    let rest = tail(names, start).unwrap_or_default();
    match memchr::memchr(0, rest) {
        Some(end) => rest.get(..end).unwrap_or_default(),
        None => rest,
    }
}

/// Returns the length of the ELF file at the start of `data`, which other data may follow: the end of its last table,
/// segment or section. Returns `None` if the file is broken, not complete, or only a file header.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    let file = File::read(data).ok()?;
    if file.segments.is_empty() && file.sections.is_empty() {
        return None;
    }
    // `tables_end` uses the count of sections in the file header, whose field is too small for very many sections.
    let sections_end = len_u64(file.sections.bytes).checked_add(file.header.sections_at)?;
    let mut end = file.header.tables_end()?.max(sections_end);
    for segment in file.segments.iter() {
        if segment.size > 0 && !segment.is(PT_NULL) {
            end = end.max(segment.offset.checked_add(segment.size)?);
        }
    }
    for section in file.sections.iter() {
        let stored = file.stored(&section);
        if stored > 0 {
            end = end.max(section.offset.checked_add(stored)?);
        }
    }
    if end <= len_u64(data) { Some(end) } else { None }
}

/// Returns the offset of the section table of an ELF file if a part of the table is missing at the end of the file.
/// Returns `None` if the table is complete, and for data without an ELF header.
pub(crate) fn missing_section_table(data: &[u8]) -> Option<u64> {
    let Header { sections_at, section_len, section_count, .. } = Header::read(data)?;
    let end = sections_at.saturating_add(section_count.saturating_mul(section_len));
    if end > len_u64(data) { Some(sections_at) } else { None }
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
