//! The header of an ELF file for a GPU, as the loader of its runtime reads it.

use object::elf::{EM_AMDGPU, EM_CUDA, FileType, Machine};

use crate::beyond::code::elf::Header;

/// The number of bytes at the start of a file that are enough for its header.
pub(crate) const HEADER_LEN: u64 = 64;

/// The offsets of the operating system (OSABI) and of its ABI version.
const SYSTEM_AT: usize = 7;
const ABI_VERSION_AT: usize = 8;

/// The fields of the header of an ELF file for an AMD or NVIDIA GPU that decide whether its runtime loads the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuHeader {
    pub(crate) machine: Machine,
    /// The type: an object, or a linked file.
    pub(crate) kind: FileType,
    /// The operating system (OSABI).
    pub(crate) system: u8,
    /// The ABI version of the operating system. For HSA, this is the code object version minus 2.
    pub(crate) abi_version: u8,
    /// The flags. [`target`](super::target) describes them.
    pub(crate) flags: u32,
}

/// The operating system HSA in the header of an ELF file for an AMD GPU.
pub(crate) const HSA: u8 = 64;

impl GpuHeader {
    /// Returns the code object version of a file for an AMD GPU and HSA, or `None` for other files.
    pub(crate) fn code_object_version(self) -> Option<u8> {
        if self.machine == EM_AMDGPU && self.system == HSA { self.abi_version.checked_add(2) } else { None }
    }

    /// Reads the header at the start of a code object. Returns `None` for other content, and if `head` is shorter than
    /// the header.
    pub(crate) fn read(head: &[u8]) -> Option<Self> {
        let header = Header::read(head)?;
        let machine = header.machine();
        if ![EM_AMDGPU, EM_CUDA].contains(&machine) {
            return None;
        }
        Some(Self {
            machine,
            kind: header.kind(),
            system: *head.get(SYSTEM_AT)?,
            abi_version: *head.get(ABI_VERSION_AT)?,
            flags: u32::try_from(header.flags).ok()?,
        })
    }
}
