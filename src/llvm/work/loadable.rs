//! The plain bundles that HIP's runtime can load.
//!
//! The length of a plain bundle is not recorded, so the runtime passes its first 4096 bytes to comgr, AMD's library for
//! code objects. Comgr looks for entries there, and fails at the first one that is not described completely.
//!
//! Sources, as of ROCm 7: `PopulateCodeObjectMap` in CLR, `lookUpCodeObject` in comgr.

use object::elf::EM_CUDA;

use crate::base::id::OffloadKind;
use crate::llvm::container::binary;
use crate::llvm::container::magic::{Magic, elf_machine};

/// The number of bytes of a plain bundle that the runtime searches for entries.
const HEADER_MAX: u64 = 4096;

/// The content of an entry, as far as it shows what the bundle is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryContent {
    Empty,
    /// Code that the runtime may load: an ELF file, but not one for NVIDIA's GPUs, or SPIR-V.
    Code,
    /// Anything else, such as bitcode and assembly.
    Other,
}

impl EntryContent {
    pub(crate) fn identify(content: &[u8]) -> Self {
        match Magic::identify(content) {
            Magic::SpirV => Self::Code,
            magic if magic.is_elf() && elf_machine(content) != Some(EM_CUDA) => Self::Code,
            _ if content.is_empty() => Self::Empty,
            _ => Self::Other,
        }
    }
}

/// Returns whether a bundle is made for the runtime: it holds code objects for HIP and no host code. Bundles with host
/// code, and bundles of bitcode or assembly, are inputs of compilers and linkers.
///
/// Each entry is given by its offload kind and its content.
pub(crate) fn is_for_runtime(entries: impl Iterator<Item = (OffloadKind, EntryContent)>) -> bool {
    let mut has_code = false;
    for entry in entries {
        match entry {
            // clang gives bundles for the runtime an empty entry for the host.
            (OffloadKind::Host, EntryContent::Empty) => {}
            (OffloadKind::Host, _) => return false,
            (kind, EntryContent::Code) => has_code |= kind.is_hip(),
            _ => {}
        }
    }
    has_code
}

/// Returns the index of the first entry that the runtime does not find in a plain bundle of entries with these IDs, or
/// `None` if it finds all. Entries after the first lost one are not found either.
pub(crate) fn first_lost<'i>(ids: impl Iterator<Item = &'i [u8]>) -> Option<usize> {
    binary::header_ends(ids).position(|end| end > HEADER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_compilers_are_not_for_the_runtime() {
        use EntryContent::{Code, Empty, Other};
        use OffloadKind::{Hip, HipV4, Host, OpenMp};
        let is_for_runtime = |entries: &[(OffloadKind, EntryContent)]| is_for_runtime(entries.iter().copied());
        assert!(is_for_runtime(&[(Host, Empty), (HipV4, Code)]));
        assert!(is_for_runtime(&[(Hip, Code), (Hip, Other)]));
        assert!(is_for_runtime(&[(OpenMp, Code), (Hip, Code)]));
        for entries in [
            &[(Host, Code), (HipV4, Code)][..],
            &[(HipV4, Code), (Host, Other)],
            &[(Host, Other), (Hip, Other)],
            &[(Hip, Other), (HipV4, Empty)],
            &[(Host, Empty), (OpenMp, Code)],
            &[(Host, Empty)],
            &[],
        ] {
            assert!(!is_for_runtime(entries), "{entries:?}");
        }
    }

    #[test]
    fn code_is_elf_and_spirv() {
        let elf = |machine: u8| [b"\x7fELF\x02\x01\x01", &[0; 11][..], &[machine, 0], &[0; 44]].concat();
        for (content, expected) in [
            (&b""[..], EntryContent::Empty),
            (&elf(224), EntryContent::Code),
            (&elf(62), EntryContent::Code),
            (b"\x7fELF", EntryContent::Code),
            (&elf(190), EntryContent::Other),
            (b"\x03\x02\x23\x07", EntryContent::Code),
            (b"BC\xc0\xde", EntryContent::Other),
            (b"; text", EntryContent::Other),
        ] {
            assert_eq!(EntryContent::identify(content), expected, "{}", content.escape_ascii());
        }
    }
}
