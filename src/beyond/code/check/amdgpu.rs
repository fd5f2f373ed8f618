//! Checks the kernel descriptors of AMD GPU code objects, and the metadata that names them.
//!
//! A kernel descriptor is an object of 64 bytes with a symbol `<kernel>.kd`:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 16 | 8 | where the kernel's code begins, counted from the descriptor |
//!
//! In a linked file the descriptor is in a section with content, and the code in an executable one, or at its
//! end. Each symbol that the metadata names must exist. Source: User Guide for AMDGPU Backend, code object version 3
//! and up; older versions have neither descriptors nor metadata.

use std::collections::HashSet;
use std::ops::Range;

use object::elf::{EM_AMDGPU, ET_DYN, ET_EXEC, ET_REL, SHF_EXECINSTR, SHT_NOBITS, STT_OBJECT};

use crate::base::bytes::{len_u64, slice, span};
use crate::base::display::shown;
use crate::base::error::{Malformed, wrong};
use crate::beyond::code::elf::{Metadata, MetadataForm, SymbolTable, charge};
use crate::beyond::code::kernels::metadata;
use crate::llvm::container::host::elf::{File, Symbol, name_of};
use crate::llvm::container::limits::Allowance;

const DESCRIPTOR_LEN: u64 = 64;
const CODE_OFFSET: u64 = 16;

/// The OS ABI of code for ROCm's runtimes, and the offset of that number in the header.
const ABI_HSA: u8 = 64;
const ABI_AT: usize = 7;

/// Whether a valid file lacks what HIP's runtime asks of linked code: names of sections, and one called `.strtab`. CLR
/// (`rocclr/elf/elf.cpp`) asks for no other section by its name; `.symtab` may be missing.
pub(super) fn lacks_strtab(data: &[u8]) -> bool {
    let Ok(file) = File::read(data) else { return false };
    let is_linked = [ET_EXEC, ET_DYN].contains(&file.header.kind());
    if file.header.machine() != EM_AMDGPU || data.get(ABI_AT) != Some(&ABI_HSA) || !is_linked {
        return false;
    }
    let names = file.section_names().unwrap_or_default();
    !file.sections.iter().any(|section| name_of(names, section.name) == b".strtab")
}

/// Checks the kernels of a file whose tables are valid.
pub(super) fn check(
    file: &File<'_>,
    tables: &[SymbolTable<'_>],
    notes: &[Metadata<'_>],
    work: &mut Allowance,
) -> Result<(), Malformed> {
    let mut names = HashSet::new();
    let code = code(file);
    for table in tables {
        for (number, symbol) in table.symbols.iter().enumerate().filter(|(_, symbol)| symbol.is(STT_OBJECT)) {
            let Some(section) = file.section_of(table, number, &symbol) else { continue };
            let name = name_of(table.names, symbol.name);
            charge(work, len_u64(name), table.offset)?;
            if name.ends_with(b".kd") {
                descriptor(file, name, &symbol, section, code.as_ref())?;
                names.insert(name);
            }
        }
    }
    for Metadata { content, offset, .. } in notes.iter().filter(|note| note.form == MetadataForm::MessagePack) {
        let Some(kernels) = metadata::kernels(content) else { return wrong(metadata::BROKEN, *offset) };
        for kernel in kernels {
            let Some(kernel) = kernel else { return wrong(metadata::BROKEN, *offset) };
            // A file stripped of its section headers has no symbol tables: its symbols are found through the dynamic
            // section.
            if let Some(missing) = kernel.symbol.filter(|name| !tables.is_empty() && !names.contains(name)) {
                let missing = shown(missing);
                return wrong(format!("metadata of a kernel whose descriptor '{missing}' does not exist,"), *offset);
            }
        }
    }
    Ok(())
}

fn descriptor(
    file: &File<'_>,
    name: &[u8],
    symbol: &Symbol,
    section: usize,
    code: Option<&Range<u64>>,
) -> Result<(), Malformed> {
    // A file that holds only debugging information has no content in other sections.
    let section = file.sections.get(section).filter(|section| !section.is(SHT_NOBITS));
    let Some(section) = section else { return Ok(()) };
    let is_relocatable = file.header.kind() == ET_REL;
    let (value, start, size) = (symbol.value, section.offset, section.size);
    let inside = value.checked_sub(if is_relocatable { 0 } else { section.address });
    let inside = inside.filter(|at| at.checked_add(DESCRIPTOR_LEN).is_some_and(|end| end <= size));
    let Some(inside) = inside else {
        return wrong(format!("the kernel descriptor '{}' outside of its section,", shown(name)), value);
    };
    if is_relocatable {
        return Ok(());
    }
    let field = slice(file.data, start.saturating_add(inside).saturating_add(CODE_OFFSET), 8);
    let Some(offset) = field.and_then(|field| field.first_chunk()).map(|field| i64::from_le_bytes(*field)) else {
        return wrong(format!("the kernel descriptor '{}' outside of the file,", shown(name)), start);
    };
    match value.checked_add_signed(offset) {
        // An empty kernel may begin where the last section ends.
        Some(at) if code.is_some_and(|code| code.start <= at && at <= code.end) => Ok(()),
        _ => wrong(format!("the kernel descriptor '{}' whose code is in no executable section,", shown(name)), value),
    }
}

/// Returns the address range of the executable sections, of which linkers write one, or `None` without such sections.
fn code(file: &File<'_>) -> Option<Range<u64>> {
    let executable = file.sections.iter().filter(|section| section.flags & SHF_EXECINSTR.0 != 0);
    let ranges = executable.map(|section| span(section.address, section.size));
    ranges.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end))
}
