//! Code objects by themselves: their kind, their target, whether they are intact, and their kernels.
//!
//! Nothing here knows containers around a code object, or files.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod bitcode;
pub(crate) mod check;
pub(crate) mod elf;
pub(crate) mod elf_tables;
pub(crate) mod gpu_header;
pub(crate) mod intel_gpu;
pub mod kernels;
pub(crate) mod lto_ir;
mod magic;
pub(crate) mod ptx;
pub(crate) mod spirv;
pub(crate) mod target;
pub(crate) mod undefined;
mod vendor;

use crate::base::bytes::len_u64;
use crate::llvm::container::limits::HEADER_MAX;
pub(crate) use magic::{CodeMagic, elf_machine, is_optix_ir, is_ptx};
pub(crate) use vendor::GpuVendor;

/// Returns the length of the ELF file, SPIR-V module or bitcode at the start of `data`, which other data may follow.
/// `magic` is the format of `data`.
///
/// # Errors
/// The code object is not complete, or its format does not record its length. The error is the cost of the attempt, in
/// bytes that a search could read in the same time.
pub(crate) fn len(magic: CodeMagic, data: &[u8]) -> Result<u64, u64> {
    match magic {
        magic if magic.is_elf() => elf::len(data).ok_or(len_u64(data).min(HEADER_MAX)),
        CodeMagic::SpirV => spirv::len(data),
        // Blocks may follow each other up to the end of the data.
        CodeMagic::Bitcode => bitcode::len(data).ok_or(len_u64(data)),
        _ => Err(0),
    }
}
