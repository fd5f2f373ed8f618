//! Checks that a code object is intact: everything that its headers and tables refer to is inside it and consistent.
//!
//! | code object | checked |
//! |---|---|
//! | ELF | header, program headers, sections, string and symbol tables, notes: [`elf`] |
//! | ELF for an AMD GPU | also kernel descriptors and the metadata of kernels: [`amdgpu`] |
//! | SPIR-V | header, and the lengths of all instructions: [`spirv`] |
//! | bitcode | wrapper, magic, the blocks at the top level |
//! | PTX | braces, comments and strings: [`ptx`] |
//!
//! Instructions are not checked: no table shows that one was changed. Offsets in errors count from the start of the
//! code object. The time is proportional to the size of the code object: tables that share bytes are read up to a
//! limit.

mod amdgpu;
mod elf;
mod spirv;

use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::File;
use crate::beyond::code::{CodeMagic, bitcode, ptx};
use object::elf::{EM_CUDA, SectionType};

/// A start that no code object has, whatever its format.
const ZEROS: [u8; 4] = [0; 4];

/// The smallest size of data in bytes that can hold a header.
const HEADER_MIN: u64 = 16;

/// Checks a code object of the format `magic`. LTO-IR and unknown formats are accepted.
///
/// # Errors
/// The first fault.
pub(crate) fn code_object(magic: Option<CodeMagic>, data: &[u8]) -> Result<(), Malformed> {
    match magic {
        Some(magic) if magic.is_elf() => elf::check(data),
        Some(CodeMagic::SpirV) => spirv::check(data),
        Some(CodeMagic::Bitcode) => bitcode::check_blocks(data),
        Some(CodeMagic::Ptx) => ptx::check(data),
        _ => Ok(()),
    }
}

/// Returns whether HIP's runtime refuses a linked code object for an AMD GPU because it has no section `.strtab`.
/// Returns false for objects that are inputs of linkers, and for code for other runtimes (PAL, Mesa).
pub(crate) fn lacks_strtab(data: &[u8]) -> bool {
    CodeMagic::identify(data).is_some_and(CodeMagic::is_elf) && amdgpu::lacks_strtab(data)
}

/// The type of the section `.nv.callgraph` in cubins.
const SHT_CUDA_CALLGRAPH: u32 = 0x7000_0001;

/// Returns whether a cubin has neither code nor data to load, only tables of its compiler. nvcc writes such a cubin for
/// a source file without code for GPUs.
pub(crate) fn is_without_code(cubin: &[u8]) -> bool {
    let Ok(file) = File::read(cubin) else { return false };
    file.header.machine() == EM_CUDA
        && file.sections.iter().any(|section| section.is(SectionType(SHT_CUDA_CALLGRAPH)))
        && !file.sections.iter().any(|section| elf::is_loaded(&section))
}

/// Checks that a code object for a device does not begin with zeros in place of its header. `head` is its start, and
/// `len` its size in bytes.
///
/// # Errors
/// [`Malformed`] if it does.
pub(crate) fn beginning(head: &[u8], len: u64) -> Result<(), Malformed> {
    if head.starts_with(&ZEROS) && len >= HEADER_MIN { fail_at("zeros instead of a header", 0) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a linked ELF file without program headers, for a machine, with a section of 64 bytes at an offset.
    fn linked(machine: u16, kind: u32, offset: u64) -> Vec<u8> {
        let mut data = vec![0; 192];
        data[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        data[16] = 2;
        data[18..20].copy_from_slice(&machine.to_le_bytes());
        (data[20], data[40], data[52], data[58], data[60]) = (1, 64, 64, 64, 2);
        data[132..136].copy_from_slice(&kind.to_le_bytes());
        data[136] = 2;
        data[152..160].copy_from_slice(&offset.to_le_bytes());
        data[160] = 64;
        data
    }

    #[test]
    fn cubins_need_no_program_headers_and_have_sections_without_bytes() {
        const CUDA: u16 = 190;
        for (machine, kind, offset, is_intact) in [
            (CUDA, 1, 128, true),
            (CUDA, 1, 129, false),
            (CUDA, 8, 1 << 20, true),
            (CUDA, 0x7000_0007, 1 << 20, true),
            (CUDA, 0x7000_0008, 1 << 20, false),
            (CUDA, 0x7000_0009, 1 << 20, true),
            (CUDA, 0x7000_000a, 1 << 20, true),
            (CUDA, 0x7000_0014, 1 << 20, false),
            (CUDA, 0x7000_0015, 1 << 20, true),
            (62, 1, 128, false),
            (62, 0x7000_0007, 128, false),
        ] {
            let checked = elf::check(&linked(machine, kind, offset));
            assert_eq!(checked.is_ok(), is_intact, "{machine} {kind:#x} {offset}: {checked:?}");
        }
    }
}
