//! The length of an ELF file among other bytes, from its own headers.
//!
//! | part | its end |
//! |---|---|
//! | program headers, section headers | offset of the table, plus size and number of its entries |
//! | segments, sections | offset and size, unless they take no bytes of the file |
//!
//! Rejected: tables, segments and sections outside the bytes, a file without any of them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use object::Endianness;
use object::elf::{EM_CUDA, FileHeader32, FileHeader64, Machine, PT_NULL, SHT_NULL};
use object::pod;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::bytes::len_u64;

/// The types of sections of cubins that take no bytes of the file, such as `.nv.global`, `.nv.local` and `.nv.shared`: those of
/// which `cuobjdump` of CUDA 13.5 reads none.
const CUDA_NO_BITS: [u32; 4] = [0x7000_0007, 0x7000_0009, 0x7000_000a, 0x7000_0015];

/// The offset and size of a section in a file for a machine; none if it takes no bytes of the file.
pub(crate) fn section_range<Section: SectionHeader<Endian = Endianness>>(
    machine: Machine,
    section: &Section,
    endian: Endianness,
) -> Option<(u64, u64)> {
    let is_without = machine == EM_CUDA && CUDA_NO_BITS.contains(&section.sh_type(endian).0);
    section.file_range(endian).filter(|_| !is_without)
}

/// The end of the tables of headers, of which one comes last in the output of most tools, cubins among them.
pub(super) fn tables_end(data: &[u8]) -> Option<u64> {
    match data.get(4)? {
        1 => end_of_tables(FileHeader32::<Endianness>::parse(data).ok()?),
        2 => end_of_tables(FileHeader64::<Endianness>::parse(data).ok()?),
        _ => None,
    }
}

/// The length of the file that begins with `data`, which may go on after it.
pub(crate) fn elf_len(data: &[u8]) -> Option<u64> {
    match data.get(4)? {
        1 => len(FileHeader32::<Endianness>::parse(data).ok()?, data),
        2 => len(FileHeader64::<Endianness>::parse(data).ok()?, data),
        _ => None,
    }
}

/// The offset of the section table of an ELF file, if it is not all in the file.
pub(crate) fn missing_section_table(data: &[u8]) -> Option<u64> {
    match data.get(4)? {
        1 => section_table(FileHeader32::<Endianness>::parse(data).ok()?, data),
        2 => section_table(FileHeader64::<Endianness>::parse(data).ok()?, data),
        _ => None,
    }
}

fn section_table<Elf: FileHeader<Endian = Endianness>>(header: &Elf, data: &[u8]) -> Option<u64> {
    let endian = header.endian().ok()?;
    let (start, count): (u64, u64) = (header.e_shoff(endian).into(), header.e_shnum(endian).into());
    let end = start.saturating_add(count.saturating_mul(header.e_shentsize(endian).into()));
    (end > len_u64(data)).then_some(start)
}

fn end_of_tables<Elf: FileHeader<Endian = Endianness>>(header: &Elf) -> Option<u64> {
    let endian = header.endian().ok()?;
    let end = |start: u64, size: u16, count: u16| start.checked_add(u64::from(size).checked_mul(count.into())?);
    let segments = end(header.e_phoff(endian).into(), header.e_phentsize(endian), header.e_phnum(endian))?;
    let sections = end(header.e_shoff(endian).into(), header.e_shentsize(endian), header.e_shnum(endian))?;
    Some(segments.max(sections))
}

fn len<Elf: FileHeader<Endian = Endianness>>(header: &Elf, data: &[u8]) -> Option<u64> {
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let sections = header.section_headers(endian, data).ok()?;
    if segments.is_empty() && sections.is_empty() {
        return None;
    }
    // Counts that do not fit the header are in the first section.
    let many = len_u64(pod::bytes_of_slice(sections)).checked_add(header.e_shoff(endian).into())?;
    let segments = segments.iter().filter(|segment| segment.p_type(endian) != PT_NULL);
    let sections = sections.iter().filter(|section| section.sh_type(endian) != SHT_NULL);
    let ranges = segments.map(|segment| segment.file_range(endian));
    let machine = header.e_machine(endian);
    let mut ranges = ranges.chain(sections.filter_map(|section| section_range(machine, section, endian)));
    let end = ranges.try_fold(end_of_tables(header)?.max(many), |end, range| match range {
        (_, 0) => Some(end),
        (start, len) => Some(end.max(start.checked_add(len)?)),
    })?;
    (end <= len_u64(data)).then_some(end)
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
            assert_eq!(elf_len(&data), expected, "{headers}, {start}, {size}");
            assert_eq!(tables_end(&data), Some(headers + 128));
        }
        // A section that takes no bytes: beyond the end, of a cubin and of another file.
        let mut shared = elf(64, 1 << 20, 100);
        shared[64 + 64 + 4..][..4].copy_from_slice(&0x7000_000a_u32.to_le_bytes());
        assert_eq!(elf_len(&shared), None);
        shared[18] = 190;
        assert_eq!(elf_len(&shared), Some(192));
        let whole = elf(64, 64, 0);
        assert_eq!(elf_len(&whole), Some(192));
        assert!((0..192).all(|len| elf_len(&whole[..len]).is_none()));
        let mut bare = whole;
        bare[40..48].fill(0);
        assert_eq!(elf_len(&bare), None);
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
