//! The sections of host objects, libraries and programs that hold device code.
//!
//! | section | content |
//! |---|---|
//! | `.hip_fatbin`; `.hip_fat` in COFF and PE | bundles, one after another, those of a linked library at multiples of 4096 |
//! | ELF type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B; `.llvm.offloading`; `.llvm.of` in PE | offload binaries, one after another |
//! | `__CLANG_OFFLOAD_BUNDLE__<entry ID>` | a code object of a fat object |
//!
//! Names: clang 22.1.8, both HIP drivers.
//!
//! Rejected: objects whose section table cannot be read, sections that reach beyond the file, names that together are
//! longer than four times the file.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

use object::elf::SectionType;
use object::read::elf::{ElfSection, FileHeader, SectionHeader};
use object::{Endianness, File, Object, ObjectSection};

use crate::bytes::{len_u64, slice};
use crate::container::MAGIC;
use crate::container::limits::shown;
use crate::container::offload_binary::host;
use crate::error::Malformed;

const SHT_LLVM_OFFLOADING: SectionType = SectionType(0x6fff_4c0b);

/// The machines of ELF files that are device code.
pub(super) const EM_CUDA: u16 = 190;
pub(super) const EM_AMDGPU: u16 = 224;

/// How often the bytes of an object may be used for names of sections, which may share them.
const NAMES_SHARED_MAX: u64 = 4;
const NAMES_TOO_LONG: &str = "the names of its sections are together longer than four times the file";

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Bundles or offload binaries, as its content tells.
    Containers,
    /// A code object of a fat object, together with sections of the same kind.
    FatObject,
}

/// A section that holds device code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceSection {
    pub(super) name: Vec<u8>,
    pub(super) holds: Holds,
    /// Where its content lies in the object.
    pub(super) range: Range<u64>,
}

/// The machine of an ELF file that begins with `head`.
pub(super) fn elf_machine(head: &[u8]) -> Option<u16> {
    let machine = *slice(head, 18, 2)?.first_chunk()?;
    match head.starts_with(b"\x7fELF").then(|| head.get(5))? {
        Some(1) => Some(u16::from_le_bytes(machine)),
        Some(2) => Some(u16::from_be_bytes(machine)),
        _ => None,
    }
}

/// The sections of an object that hold device code, in its order. Offsets in errors count from `base`.
pub(super) fn read(data: &[u8], base: u64) -> Result<Vec<DeviceSection>, Malformed> {
    let broken = |error: object::read::Error| Malformed::Object { what: error.to_string(), offset: base };
    let names_max = len_u64(data).saturating_mul(NAMES_SHARED_MAX);
    match File::parse(data).map_err(broken)? {
        File::Elf32(file) => collect(&file, names_max, is_offloading, ObjectSection::file_range),
        File::Elf64(file) => collect(&file, names_max, is_offloading, ObjectSection::file_range),
        File::Pe32(file) => collect(&file, names_max, |_| false, |section| host::pe_range(section.pe_section())),
        File::Pe64(file) => collect(&file, names_max, |_| false, |section| host::pe_range(section.pe_section())),
        file => collect(&file, names_max, |_| false, ObjectSection::file_range),
    }
    .ok_or_else(|| Malformed::Object { what: NAMES_TOO_LONG.to_owned(), offset: base })?
    .into_iter()
    .map(|section| check(section, data, base))
    .collect()
}

/// Where an object keeps bundles and offload binaries, in the order of its sections. Offsets in errors count from `base`.
pub(crate) fn containers(data: &[u8], base: u64) -> Result<Vec<Range<u64>>, Malformed> {
    let sections = read(data, base)?.into_iter().filter(|section| section.holds == Holds::Containers);
    Ok(sections.map(|section| section.range).collect())
}

/// None if their names take more than `names_max` bytes.
fn collect<'d: 'f, 'f, Objects: Object<'d>>(
    file: &'f Objects,
    names_max: u64,
    is_offloading: impl Fn(&Objects::Section<'f>) -> bool,
    range_of: impl Fn(&Objects::Section<'f>) -> Option<(u64, u64)>,
) -> Option<Vec<DeviceSection>> {
    let mut left = names_max;
    let mut sections = Vec::new();
    for section in file.sections() {
        let name = section.name_bytes().unwrap_or_default();
        left = left.checked_sub(len_u64(name))?;
        let holds = if is_offloading(&section) { Some(Holds::Containers) } else { holds(name) };
        if let (Some(holds), Some((start, size))) = (holds, range_of(&section)) {
            sections.push(DeviceSection { name: name.to_vec(), holds, range: start..start.saturating_add(size) });
        }
    }
    Some(sections)
}

fn is_offloading<'d, Elf: FileHeader<Endian = Endianness>>(section: &ElfSection<'d, '_, Elf>) -> bool {
    section.elf_section_header().sh_type(section.elf_file().endian()) == SHT_LLVM_OFFLOADING
}

fn holds(name: &[u8]) -> Option<Holds> {
    let containers = [&b".hip_fatbin"[..], b".hip_fat", b".llvm.of"];
    if containers.contains(&name) || name.starts_with(b".llvm.offloading") {
        Some(Holds::Containers)
    } else {
        name.starts_with(MAGIC.as_bytes()).then_some(Holds::FatObject)
    }
}

fn check(section: DeviceSection, data: &[u8], base: u64) -> Result<DeviceSection, Malformed> {
    let size = section.range.end.saturating_sub(section.range.start);
    match slice(data, section.range.start, size) {
        Some(_) => Ok(section),
        None => Err(Malformed::Truncated {
            what: format!("the section '{}'", shown(&section.name)),
            offset: base.saturating_add(section.range.start),
            needed: size,
            end: base.saturating_add(len_u64(data)),
        }),
    }
}
