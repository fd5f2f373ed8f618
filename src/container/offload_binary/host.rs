//! Offload binaries in host objects: the sections of an object, a library or a program that hold them.
//!
//! | format | section |
//! |---|---|
//! | ELF | type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B, of any name |
//! | COFF, PE | name beginning with `.llvm.offloading`, as these formats have no section types; in PE also `.llvm.of` |
//!
//! A section may hold several offload binaries, one after another, once a linker has merged those of several objects.
//! Layout: LLVM 22.1.8.
//!
//! Rejected: objects whose section table cannot be read, sections that reach beyond the file.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

use object::elf::SectionType;
use object::pe::ImageSectionHeader;
use object::read::elf::{ElfFile, ElfSection, FileHeader, SectionHeader};
use object::{Endianness, File, FileKind, LittleEndian, Object, ObjectKind, ObjectSection};

use crate::bytes::{len_u64, slice};
use crate::error::Malformed;

const SHT_LLVM_OFFLOADING: SectionType = SectionType(0x6fff_4c0b);

const COFF_NAME: &[u8] = b".llvm.offloading";

/// The same as lld writes it into programs and libraries, which have no table for longer names.
const CUT_NAME: &[u8] = b".llvm.of";

/// Whether a file that begins with `data` may have such sections.
pub(crate) fn is_object(data: &[u8]) -> bool {
    matches!(
        FileKind::parse(data),
        Ok(FileKind::Elf32 | FileKind::Elf64 | FileKind::Coff | FileKind::CoffBig | FileKind::Pe32 | FileKind::Pe64)
    )
}

/// Where offload binaries lie in an object, in the order of its sections. Offsets in errors count from `base`.
///
/// # Errors
/// [`Malformed::Object`] for a broken object, [`Malformed::Truncated`] for a section beyond its end.
pub(crate) fn offloading_sections(data: &[u8], base: u64) -> Result<Vec<Range<u64>>, Malformed> {
    let broken = |error: object::read::Error| Malformed::Object { what: error.to_string(), offset: base };
    let ranges: Vec<(u64, u64)> = match File::parse(data).map_err(broken)? {
        File::Elf32(file) => by_type(&file),
        File::Elf64(file) => by_type(&file),
        File::Pe32(file) => by_name(&file, |section| pe_range(section.pe_section())).map_err(broken)?,
        File::Pe64(file) => by_name(&file, |section| pe_range(section.pe_section())).map_err(broken)?,
        file => by_name(&file, ObjectSection::file_range).map_err(broken)?,
    };
    let check = |(start, size): (u64, u64)| match slice(data, start, size) {
        Some(_) => Ok(start..start.saturating_add(size)),
        None => Err(Malformed::Truncated {
            what: "the section of offload binaries".to_owned(),
            offset: base.saturating_add(start),
            needed: size,
            end: base.saturating_add(len_u64(data)),
        }),
    };
    let ranges = ranges.into_iter().map(check).collect::<Result<Vec<_>, _>>()?;
    // A section header is short, and many of them can name the same bytes.
    let total = ranges.iter().map(|range| range.end.saturating_sub(range.start)).fold(0, u64::saturating_add);
    if total > len_u64(data) {
        let (what, offset) = ("size of the sections of offload binaries", base);
        let expected = "together no more than the object holds";
        return Err(Malformed::Value { what, found: total, offset, expected });
    }
    Ok(ranges)
}

/// The sections that have the name, each with the range that `range_of` finds.
fn by_name<'d: 'f, 'f, Objects: Object<'d>>(
    file: &'f Objects,
    range_of: impl Fn(&Objects::Section<'f>) -> Option<(u64, u64)>,
) -> object::read::Result<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    for section in file.sections() {
        let name = section.name_bytes()?;
        if name.starts_with(COFF_NAME) || (name == CUT_NAME && file.kind() != ObjectKind::Relocatable) {
            ranges.extend(range_of(&section));
        }
    }
    Ok(ranges)
}

/// Linkers round the size in the file up, llvm-objcopy leaves out the size in memory.
pub(crate) fn pe_range(section: &ImageSectionHeader) -> Option<(u64, u64)> {
    let (stored, loaded) = (section.size_of_raw_data.get(LittleEndian), section.virtual_size.get(LittleEndian));
    let size = if loaded == 0 { stored } else { stored.min(loaded) };
    Some((section.pointer_to_raw_data.get(LittleEndian).into(), size.into()))
}

fn by_type<'d, Elf: FileHeader<Endian = Endianness>>(file: &ElfFile<'d, Elf>) -> Vec<(u64, u64)> {
    let has_type =
        |section: &ElfSection<'d, '_, Elf>| section.elf_section_header().sh_type(file.endian()) == SHT_LLVM_OFFLOADING;
    file.sections().filter(has_type).filter_map(|section| section.file_range()).collect()
}
