//! Checks the kernel descriptors of AMD GPU code objects, and the metadata that names them.
//!
//! A kernel descriptor is an object of 64 bytes with a symbol `<kernel>.kd`:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 16 | 8 | offset of the kernel's code, counted from the descriptor |
//!
//! In a linked file the descriptor is in a section with content, and the code in an executable one, or at its
//! end. Each symbol that the metadata names must exist. Source: User Guide for AMDGPU Backend, code object version 3
//! and up; older versions have neither descriptors nor metadata.

use std::collections::HashSet;
use std::ops::Range;

use object::elf::{EM_AMDGPU, ET_DYN, ET_EXEC, ET_REL, SHF_EXECINSTR, SHT_NOBITS, STT_OBJECT};

use crate::base::bytes::{array, len_u64, span};
use crate::base::display::shown;
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::{File, Symbol, name_of};
use crate::beyond::code::elf_tables::{MetadataForm, MetadataNote, SymbolTable, charge};
use crate::beyond::code::kernels::metadata;
use crate::llvm::container::limits::Allowance;

/// The length of a kernel descriptor, and the offset of its field with the offset of the code.
const DESCRIPTOR_LEN: u64 = 64;
const CODE_OFFSET_AT: u64 = 16;

/// The OS ABI of code for ROCm's runtimes, and the offset of the OS ABI in the ELF header.
const ABI_HSA: u8 = 64;
const ABI_AT: usize = 7;

/// Returns whether a valid file lacks the section `.strtab`, which HIP's runtime needs in linked code. Returns false
/// for other files. CLR (`rocclr/elf/elf.cpp`) looks for no other section by its name; `.symtab` may be missing.
pub(super) fn lacks_strtab(data: &[u8]) -> bool {
    let Ok(file) = File::read(data) else { return false };
    let is_linked = [ET_EXEC, ET_DYN].contains(&file.header.kind());
    if file.header.machine() != EM_AMDGPU || data.get(ABI_AT) != Some(&ABI_HSA) || !is_linked {
        return false;
    }
    let names = file.section_names().unwrap_or_default();
    !file.sections.iter().any(|section| name_of(names, section.name) == b".strtab")
}

/// Checks the kernel descriptors of a file, and that each symbol that the metadata names exists. `tables` and `notes`
/// are the file's symbol tables and metadata, which were checked before.
pub(super) fn check(
    file: &File<'_>,
    tables: &[SymbolTable<'_>],
    notes: &[MetadataNote<'_>],
    work: &mut Allowance,
) -> Result<(), Malformed> {
    let mut descriptors = HashSet::new();
    let code_addresses = executable_addresses(file);
    for table in tables {
        for (number, symbol) in table.symbols.iter().enumerate() {
            if !symbol.is(STT_OBJECT) {
                continue;
            }
            // An undefined symbol has no section.
            let Some(section_index) = file.section_of(table, number, &symbol) else { continue };
            let name = name_of(table.names, symbol.name);
            charge(work, len_u64(name), table.offset)?;
            if name.ends_with(b".kd") {
                check_descriptor(file, name, &symbol, section_index, code_addresses.as_ref())?;
                descriptors.insert(name);
            }
        }
    }
    for MetadataNote { form, content, offset } in notes {
        // Code of version 2, whose metadata is YAML, has no descriptors.
        if *form != MetadataForm::MessagePack {
            continue;
        }
        let Some(kernels) = metadata::kernels(content) else { return fail_at(metadata::BROKEN, *offset) };
        for kernel in kernels {
            let Some(kernel) = kernel else { return fail_at(metadata::BROKEN, *offset) };
            // A file stripped of its section headers has no symbol tables here. Loaders find its symbols through the
            // dynamic segment.
            if let Some(name) = kernel.symbol
                && !tables.is_empty()
                && !descriptors.contains(name)
            {
                let missing = shown(name);
                return fail_at(format!("metadata of a kernel whose descriptor '{missing}' does not exist,"), *offset);
            }
        }
    }
    Ok(())
}

/// Checks that a kernel descriptor is inside its section. In a linked file, also checks that its code is in
/// `code_addresses`, the address range of the executable sections.
fn check_descriptor(
    file: &File<'_>,
    name: &[u8],
    symbol: &Symbol,
    section_index: usize,
    code_addresses: Option<&Range<u64>>,
) -> Result<(), Malformed> {
    // The section exists: `symbol_tables` has checked that.
    let Some(section) = file.sections.get(section_index) else { return Ok(()) };
    // A file that holds only debugging information (`objcopy --only-keep-debug`) has no content to check.
    if section.is(SHT_NOBITS) {
        return Ok(());
    }
    let is_relocatable = file.header.kind() == ET_REL;
    let value = symbol.value;
    // Before linking, the value of a symbol is its offset in the section. In a linked file, it is an address.
    let section_start = if is_relocatable { 0 } else { section.address };
    let offset_in_section = match value.checked_sub(section_start) {
        Some(offset) if offset.checked_add(DESCRIPTOR_LEN).is_some_and(|end| end <= section.size) => offset,
        _ => return fail_at(format!("the kernel descriptor '{}' outside of its section,", shown(name)), value),
    };
    // Before linking, the offset of the code is not filled in yet.
    if is_relocatable {
        return Ok(());
    }
    let descriptor_at = section.offset.saturating_add(offset_in_section);
    let Some(code_offset) = array(file.data, descriptor_at.saturating_add(CODE_OFFSET_AT)) else {
        return fail_at(format!("the kernel descriptor '{}' outside of the file,", shown(name)), section.offset);
    };
    match (code_addresses, value.checked_add_signed(i64::from_le_bytes(code_offset))) {
        // An empty kernel may begin where the last section ends.
        (Some(allowed), Some(address)) if allowed.start <= address && address <= allowed.end => Ok(()),
        _ => fail_at(format!("the kernel descriptor '{}' whose code is in no executable section,", shown(name)), value),
    }
}

/// Returns the address range from the first to the last executable section, or `None` if there are none. Linkers write
/// one such section.
fn executable_addresses(file: &File<'_>) -> Option<Range<u64>> {
    let mut covered: Option<Range<u64>> = None;
    for section in file.sections.iter() {
        if section.flags & SHF_EXECINSTR.0 == 0 {
            continue;
        }
        let range = span(section.address, section.size);
        covered = match covered {
            Some(covered) => Some(covered.start.min(range.start)..covered.end.max(range.end)),
            None => Some(range),
        };
    }
    covered
}
