//! Kernels of code objects for AMD GPUs: the metadata in notes (`check::metadata`), and the sizes of function symbols.
//!
//! The symbol of a kernel descriptor is `<function>.kd`; that of the function has the size of the code. Version 2 has
//! metadata in YAML, which no compiler has written since LLVM 11, and is not read.

use std::collections::HashMap;

use object::Endianness;
use object::elf::STT_FUNC;
use object::read::elf::{FileHeader, Sym};

use super::{Kernel, KernelsFound};
use crate::bytes::len_u64;
use crate::code::check::elf::{File, MetadataForm, name_of};
use crate::code::check::{charge, metadata, wrong};
use crate::error::{ErrorKind, Malformed};

const DESCRIPTOR: &[u8] = b".kd";

pub(super) fn read<Elf: FileHeader<Endian = Endianness>>(
    file: &File<'_, Elf>,
    list: &mut KernelsFound,
) -> Result<(), Malformed> {
    let notes = file.notes(&mut list.work)?;
    let sizes = if notes.is_empty() { HashMap::new() } else { code_sizes(file, list)? };
    for note in notes {
        if note.form == MetadataForm::Yaml {
            let at = note.offset;
            let text =
                format!("code object version 2 has kernel metadata in YAML at offset {at}, which is not supported");
            return Err(Malformed::other(ErrorKind::Unsupported, at, text));
        }
        let Some(kernels) = metadata::kernels(note.content) else { return wrong(metadata::BROKEN, note.offset) };
        for kernel in kernels {
            let Some(kernel) = kernel else { return wrong(metadata::BROKEN, note.offset) };
            let name = kernel.name.unwrap_or_default();
            let function = kernel.symbol.and_then(|symbol| symbol.strip_suffix(DESCRIPTOR)).unwrap_or(name);
            let read = Kernel {
                vgprs: kernel.vgprs,
                agprs: kernel.agprs,
                sgprs: kernel.sgprs,
                vgpr_spills: kernel.vgpr_spills,
                sgpr_spills: kernel.sgpr_spills,
                scratch: kernel.scratch,
                lds: kernel.lds,
                kernarg: kernel.kernarg,
                max_workgroup: kernel.workgroup,
                code_size: sizes.get(function).copied(),
                ..Kernel::default()
            };
            list.add(name, read, note.offset)?;
        }
    }
    Ok(())
}

/// The sizes of all functions in bytes, by name.
fn code_sizes<'d, Elf: FileHeader<Endian = Endianness>>(
    file: &File<'d, Elf>,
    list: &mut KernelsFound,
) -> Result<HashMap<&'d [u8], u64>, Malformed> {
    let mut sizes = HashMap::new();
    for table in file.symbol_tables(&mut list.work)? {
        for symbol in table.symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC) {
            let name = name_of(table.names, symbol.st_name(file.endian));
            charge(&mut list.work, len_u64(name), table.offset)?;
            sizes.insert(name, symbol.st_size(file.endian).into());
        }
    }
    Ok(sizes)
}
