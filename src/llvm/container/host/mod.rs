//! Reads and checks the sections of host objects, libraries and programs: ELF, COFF, PE, Mach-O.
//!
//! The caller selects the sections by name; the checks are the same for all callers.
//!
//! Rejected: objects whose section table cannot be read, sections that extend beyond the file, sections whose total
//! length is more than twice that of the file, names whose total length is more than four times that of the file.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub(crate) mod coff;
pub(crate) mod elf;
pub(crate) mod moves;

use std::ops::Range;

use object::elf::SectionType;
use object::pe::{ImageFileHeader, ImageSectionHeader};
use object::read::coff::CoffFile;
use object::{File, LittleEndian, Object, ObjectKind, ObjectSection, SectionFlags};

use crate::base::bytes::{Bounds, add, len_u64, number, total};
use crate::base::display::shown;
use crate::base::error::Malformed;
use crate::llvm::container::limits::{Allowance, NAMES_SHARED_MAX};
use crate::llvm::container::magic::is_coff_object;

const NAMES_TOO_LONG: &str = "the names of its sections are together longer than four times the file";

// The layout of a plain COFF object: fields of two bytes in the header, the length of the header without the optional
// part, and the length of a section header.
pub(crate) const COFF_SECTION_COUNT_AT: u64 = 2;
pub(crate) const COFF_OPTIONAL_LEN_AT: u64 = 16;
pub(crate) const COFF_HEADER_LEN: u64 = 20;
const COFF_SECTION_LEN: u64 = 40;

/// Parses the object file in `data`. Offsets in errors count from `base`.
///
/// The crate `object` recognises plain COFF objects only by some machines, but LLVM 22.1.8 reads them for more. All
/// other formats, and big COFF objects, have a magic that the crate knows.
pub(crate) fn parse(data: &[u8], base: u64) -> Result<File<'_>, Malformed> {
    let is_big_coff = data.starts_with(&[0, 0, 0xff, 0xff]);
    if !is_coff_object(data) || is_big_coff {
        return File::parse(data).map_err(|error| Malformed::at(error.to_string(), base));
    }
    check_coff(data, base)?;
    let file = CoffFile::parse(data).map_err(|error| Malformed::at(error.to_string(), base))?;
    let header: &ImageFileHeader = file.coff_header();
    if header.pointer_to_symbol_table.get(LittleEndian) == 0 && header.number_of_symbols.get(LittleEndian) != 0 {
        return Err(Malformed::at("the symbol table is missing", base));
    }
    Ok(File::Coff(file))
}

/// Checks that the file is long enough for the headers of a plain COFF object, section headers included.
pub(crate) fn check_coff(data: &[u8], base: u64) -> Result<(), Malformed> {
    let section_count = number::<2>(data, COFF_SECTION_COUNT_AT).unwrap_or(0);
    let optional_len = number::<2>(data, COFF_OPTIONAL_LEN_AT).unwrap_or(0);
    let needed = total([COFF_HEADER_LEN, optional_len, section_count.saturating_mul(COFF_SECTION_LEN)]);
    Bounds::of(data, base).claim(0, needed, "the COFF headers").map(drop)
}

/// A section, as described by its header.
pub(crate) struct Section<'d> {
    pub(crate) name: object::read::Result<&'d [u8]>,
    /// The name of the segment in Mach-O files, or `None` in other formats.
    pub(crate) segment: Option<&'d [u8]>,
    /// The flags, in ELF files with the type.
    pub(crate) flags: SectionFlags,
    /// The kind of the file: linked, or not yet.
    pub(crate) object: ObjectKind,
    /// The offset and size of the content in the file, or `None` without content.
    pub(crate) range: Option<(u64, u64)>,
}

impl Section<'_> {
    /// The type in ELF files, or `None` in COFF and PE, which have no types.
    pub(crate) fn section_type(&self) -> Option<SectionType> {
        if let SectionFlags::Elf { sh_type, .. } = self.flags { Some(sh_type) } else { None }
    }
}

/// A selected section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenSection<H> {
    /// The value that the caller's `select` returned for the section, such as the format of its content.
    pub(crate) holds: H,
    /// The name, in Mach-O files after that of its segment and a comma.
    pub(crate) name: Vec<u8>,
    /// The range of the content in the object.
    pub(crate) range: Range<u64>,
}

/// Returns the sections that `select` returns a value for, in file order. Leaves out sections without content in the
/// file. Offsets in errors count from `base`.
///
/// # Errors
/// [`Malformed`] for a broken object or its names, for a section beyond its end, and for sections that share its bytes
/// too often.
pub(crate) fn sections<H>(
    data: &[u8],
    base: u64,
    mut select: impl FnMut(&Section<'_>) -> object::read::Result<Option<H>>,
) -> Result<Vec<ChosenSection<H>>, Malformed> {
    let (mut chosen, mut total_size) = (Vec::new(), 0_u64);
    let mut names = Allowance::times(NAMES_SHARED_MAX, data);
    let file = parse(data, base)?;
    for section in file.sections() {
        let section = Section {
            name: section.name_bytes(),
            segment: section.segment_name_bytes().unwrap_or_default(),
            flags: section.flags(),
            object: file.kind(),
            range: file_range(&file, &section),
        };
        // A name that cannot be read is an error only if `select` looks at it.
        let name = section.name.unwrap_or_default();
        names.take(len_u64(name)).ok_or_else(|| Malformed::at(NAMES_TOO_LONG, base))?;
        let holds = select(&section).map_err(|error| Malformed::at(error.to_string(), base))?;
        if let (Some(holds), Some((start, len))) = (holds, section.range) {
            let range = Bounds::of(data, base).claim(start, len, format_args!("the section '{}'", shown(name)))?;
            add(&mut total_size, len);
            let name = match section.segment {
                Some(segment) => [segment, b",", name].concat(),
                None => name.to_vec(),
            };
            chosen.push(ChosenSection { holds, name, range });
        }
    }
    // A section header is short, so that a small file can name the same bytes in many headers. Two sections that share
    // bytes are accepted.
    if total_size > len_u64(data).saturating_mul(2) {
        let what = "size of the sections with device code";
        return Err(Malformed::value(what, total_size, base, "together no more than twice the object's"));
    }
    Ok(chosen)
}

/// Returns the offset and size of the content of a section in the file, or `None` without content. For sections that
/// llvm-objcopy has added to COFF and PE files, the crate `object` would find no content.
pub(crate) fn file_range(file: &File<'_>, section: &object::Section<'_, '_>) -> Option<(u64, u64)> {
    let (table, is_linked) = match file {
        File::Pe32(file) => (file.section_table(), true),
        File::Pe64(file) => (file.section_table(), true),
        File::Coff(file) => (file.coff_section_table(), false),
        File::CoffBig(file) => (file.coff_section_table(), false),
        _ => return section.file_range(),
    };
    let Ok(header) = table.section(section.index()) else { return section.file_range() };
    if is_linked { pe_range(header) } else { coff_range(header) }
}

/// The range of a PE section. Linkers round the size in the file up, so the size in memory is the real one. Only
/// llvm-objcopy leaves the size in memory 0.
fn pe_range(section: &ImageSectionHeader) -> Option<(u64, u64)> {
    let (stored, loaded) = (section.size_of_raw_data.get(LittleEndian), section.virtual_size.get(LittleEndian));
    let size = if loaded == 0 { stored } else { stored.min(loaded) };
    Some((section.pointer_to_raw_data.get(LittleEndian).into(), size.into()))
}

/// The range of a section of a COFF object, or `None` for an offset of 0. The flag for uninitialised data, which has no
/// content, is ignored: llvm-objcopy sets it by default for sections that it adds, and LLVM reads them nevertheless.
fn coff_range(section: &ImageSectionHeader) -> Option<(u64, u64)> {
    let start = section.pointer_to_raw_data.get(LittleEndian);
    if start == 0 {
        return None;
    }
    Some((start.into(), section.size_of_raw_data.get(LittleEndian).into()))
}
