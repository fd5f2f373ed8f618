//! Identifies code by its first bytes, whatever container it may be in.

use object::elf::{EM_AMDGPU, EM_CUDA, EM_NONE, Machine};

use super::elf::EM_INTELGT;
use super::{lto_ir, ptx};
use crate::base::bytes::{array, number, slice};
use crate::llvm::container::magic::Magic as LlvmMagic;

/// The types of ELF files that Intel's OpenCL compiler writes. It records no machine in them.
const ET_OPENCL: std::ops::RangeInclusive<u16> = 0xff01..=0xff05;

/// The offset of the type in the header of an ELF file.
const ELF_TYPE: u64 = 16;

/// The offset and the value of the number that distinguishes OptiX IR of NVRTC 12.9 from LTO-IR. Both have the same
/// magic.
const NVVM_KIND: u64 = 14;
const NVVM_OPTIX: u64 = 2;

/// The number of bytes at the start of a file that are searched for the header of PTX, with the comments before it.
const PTX_HEAD: u64 = 512;

/// The format of code, identified by the first bytes. The rest may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeMagic {
    Bitcode,
    /// An ELF file for an AMD GPU.
    AmdGpu,
    /// An ELF file for an NVIDIA GPU.
    Cubin,
    /// An ELF file for an Intel GPU.
    IntelGpu,
    /// Any other ELF file.
    Elf,
    /// An ELF file that is too short, or neither 32-bit nor 64-bit.
    BrokenElf,
    SpirV,
    Ptx,
    /// Intermediate code for optimisation by NVIDIA's linker.
    LtoIr,
}

impl CodeMagic {
    /// Identifies code by `data`, its first bytes. Returns `None` if it does not begin like code.
    pub(crate) fn identify(data: &[u8]) -> Option<Self> {
        match LlvmMagic::identify(data) {
            LlvmMagic::Unknown if data.starts_with(&lto_ir::MAGIC) && !is_optix_ir(data) => Some(Self::LtoIr),
            LlvmMagic::Unknown if is_ptx(data) => Some(Self::Ptx),
            known => Self::identify_known(known, data),
        }
    }

    /// Identifies code of a format that LLVM's tools know: `known`.
    pub(crate) fn identify_known(known: LlvmMagic, data: &[u8]) -> Option<Self> {
        match known {
            LlvmMagic::Elf => Some(match elf_machine(data) {
                Some(EM_AMDGPU) => Self::AmdGpu,
                Some(EM_CUDA) => Self::Cubin,
                Some(EM_INTELGT) => Self::IntelGpu,
                // Intel's OpenCL compiler records no machine, but its types of files are special.
                Some(EM_NONE) if elf_number(data, ELF_TYPE).is_some_and(|kind| ET_OPENCL.contains(&kind)) => {
                    Self::IntelGpu
                }
                _ => Self::Elf,
            }),
            LlvmMagic::BrokenElf => Some(Self::BrokenElf),
            LlvmMagic::Bitcode => Some(Self::Bitcode),
            LlvmMagic::SpirV => Some(Self::SpirV),
            _ => None,
        }
    }

    /// Whether this is an ELF file of any kind.
    pub(crate) fn is_elf(self) -> bool {
        self.is_gpu_elf() || matches!(self, Self::Elf | Self::BrokenElf)
    }

    /// Whether this is an ELF file for a GPU.
    pub(crate) fn is_gpu_elf(self) -> bool {
        matches!(self, Self::AmdGpu | Self::Cubin | Self::IntelGpu)
    }

    /// The name of the format, for a file that consists of this code alone.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bitcode => "LLVM bitcode file",
            Self::AmdGpu | Self::Cubin | Self::IntelGpu => "code object",
            Self::Elf | Self::BrokenElf => "ELF file",
            Self::SpirV => "SPIR-V module",
            Self::Ptx => "PTX file",
            Self::LtoIr => "LTO-IR file",
        }
    }
}

/// Whether data is OptiX IR, NVIDIA's code for ray tracing, which only OptiX can compile. It has the magic of LTO-IR.
pub(crate) fn is_optix_ir(data: &[u8]) -> bool {
    data.starts_with(&lto_ir::MAGIC) && number::<2>(data, NVVM_KIND) == Some(NVVM_OPTIX)
}

/// Whether data begins with the header of PTX. PTX is text: blanks and comments may come before its first directive.
pub(crate) fn is_ptx(data: &[u8]) -> bool {
    matches!(data, [b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'.', ..])
        && ptx::Header::of(slice(data, 0, PTX_HEAD).unwrap_or(data)).is_some()
}

/// The machine of an ELF file that begins with `head`.
pub(crate) fn elf_machine(head: &[u8]) -> Option<Machine> {
    elf_number(head, 18).map(Machine)
}

/// A number of two bytes in the header of an ELF file.
fn elf_number(head: &[u8], offset: u64) -> Option<u16> {
    let number = array(head, offset)?;
    // The byte order follows the class, the first byte after the magic.
    match head.strip_prefix(b"\x7fELF")?.get(1)? {
        1 => Some(u16::from_le_bytes(number)),
        2 => Some(u16::from_be_bytes(number)),
        _ => None,
    }
}
