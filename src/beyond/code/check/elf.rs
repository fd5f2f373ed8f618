//! Checks ELF files of either class and byte order.
//!
//! | part | requirement |
//! |---|---|
//! | header | class, byte order, versions, type, machine and the sizes of headers are those of ELF |
//! | program headers, section headers | the table is inside the file; count and offset are both set or both zero |
//! | segments, sections | inside the file, unless they take no bytes of it |
//! | section names | the string table has the right type, ends with a zero, and all names begin in it |
//! | symbol tables | whole symbols, whose names begin in the string table and whose sections exist |
//! | links | refer to sections that exist |
//! | notes | fill their section; those of NVIDIA and Intel GPUs are not checked |
//!
//! Names of constants: System V ABI, generic and AMDGPU supplements. Output of compilers, linkers, `strip` and
//! `objcopy` is accepted: empty sections anywhere, `SHT_NULL` sections with leftovers, files without section headers.

use object::elf::{
    EM_AMDGPU, EM_CUDA, EM_NONE, ET_DYN, ET_EXEC, ET_NONE, PT_LOAD, PT_NULL, SHF_ALLOC, SHT_DYNAMIC, SHT_DYNSYM,
    SHT_GNU_HASH, SHT_GROUP, SHT_HASH, SHT_NULL, SHT_REL, SHT_RELA, SHT_SYMTAB, SHT_SYMTAB_SHNDX, SectionType,
};

use super::amdgpu;
use crate::base::bytes::to_u64;
use crate::base::display::shown;
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::{File, Header, Section, name_of};
use crate::beyond::limits::CHECKED_MAX;
use crate::llvm::container::limits::Allowance;

type Result<T = ()> = std::result::Result<T, Malformed>;

/// The first file type reserved for operating systems and processors, which have other rules for the rest of the
/// header.
const RESERVED_TYPES: u16 = 0xfe00;

/// The offsets of fields in the ELF header.
const TYPE_AT: u64 = 16;
const MACHINE_AT: u64 = 18;
const VERSION_AT: u64 = 20;

/// The types of sections with the index of another section in `sh_link`.
const LINKED: [SectionType; 9] =
    [SHT_SYMTAB, SHT_DYNSYM, SHT_DYNAMIC, SHT_HASH, SHT_GNU_HASH, SHT_REL, SHT_RELA, SHT_GROUP, SHT_SYMTAB_SHNDX];

/// Checks an ELF file, as the table at the head of this file says. Returns the first fault.
pub(super) fn check(data: &[u8]) -> Result {
    File::read(data)?.check()
}

/// Returns whether a section takes memory in a running program.
pub(crate) fn is_loaded(section: &Section) -> bool {
    !section.is(SHT_NULL) && section.flags & SHF_ALLOC.0 != 0 && section.size > 0
}

impl File<'_> {
    /// Checks all parts of the file, in the order of the table at the head of this file.
    fn check(&self) -> Result {
        let mut work = Allowance::times(CHECKED_MAX, self.data);
        self.check_file_header()?;
        self.check_program_headers()?;
        let names = self.section_names()?;
        for section in self.sections.iter() {
            if !section.is(SHT_NULL) {
                self.check_section(&section, names)?;
            }
        }
        let tables = self.symbol_tables(&mut work)?;
        let metadata = self.metadata_notes(&mut work)?;
        let is_amd = self.header.machine() == EM_AMDGPU;
        if is_amd { amdgpu::check(self, &tables, &metadata, &mut work) } else { Ok(()) }
    }

    /// Checks type, machine, version and length in the file header. `File::read` has checked the rest of it.
    fn check_file_header(&self) -> Result {
        let Header { len, version, .. } = self.header;
        let (kind, machine) = (self.header.kind(), self.header.machine());
        if kind == ET_NONE {
            return fail_at("invalid ELF type", TYPE_AT);
        }
        // Files of the reserved types have other rules for the rest of the header, so they may name no machine.
        if machine == EM_NONE && kind.0 < RESERVED_TYPES {
            return fail_at("invalid ELF machine", MACHINE_AT);
        }
        // NVIDIA stores the CUDA version, times ten, in this field.
        if version == 0 || (version != 1 && machine != EM_CUDA) {
            return fail_at(format!("ELF version {version}, which does not exist,"), VERSION_AT);
        }
        if len != self.encoding.len_of::<Header>() {
            return fail_at(format!("an ELF header that claims to be {len} bytes long"), 0);
        }
        Ok(())
    }

    /// Checks that the segments are inside the file, and that a linked file has segments if it is loaded by them.
    fn check_program_headers(&self) -> Result {
        let Header { segments_at, segment_count, .. } = self.header;
        if segments_at == 0 && segment_count != 0 {
            return fail_at(format!("an ELF header with {segment_count} program headers at no offset"), 0);
        }
        for segment in self.segments.iter() {
            if segment.is(PT_NULL) || segment.size == 0 {
                continue;
            }
            self.bytes(segment.offset, segment.size, format_args!("a segment of type {:#x}", segment.kind))?;
            if segment.is(PT_LOAD) && segment.size > segment.memory {
                return fail_at(
                    format!("a segment of {} bytes that takes less in memory", segment.size),
                    segment.offset,
                );
            }
        }
        // NVIDIA's driver loads cubins by their sections, so they need no segments.
        let needs_segments = [ET_DYN, ET_EXEC].contains(&self.header.kind()) && self.header.machine() != EM_CUDA;
        if needs_segments && self.segments.is_empty() && self.sections.iter().any(|section| is_loaded(&section)) {
            return fail_at("a linked ELF file without program headers", 0);
        }
        Ok(())
    }

    /// Checks that a section is inside the file, and that its link refers to a section that exists.
    fn check_section(&self, section: &Section, names: &[u8]) -> Result {
        let name = shown(name_of(names, section.name));
        let stored = self.stored(section);
        if stored > 0 {
            self.bytes(section.offset, stored, format_args!("the section '{name}'"))?;
        }
        let link = section.link;
        if section.is_any(&LINKED) && link >= to_u64(self.sections.len()) {
            let what = format!("the section '{name}' with a link to section {link}, which does not exist,");
            return fail_at(what, self.header.sections_at);
        }
        Ok(())
    }
}
