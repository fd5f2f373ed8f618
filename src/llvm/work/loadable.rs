//! The plain bundles that HIP's runtime can load.
//!
//! The length of a plain bundle is not recorded, so the runtime passes its first 4096 bytes to comgr, AMD's library for
//! code objects. Comgr looks for entries there, and fails at the first one that is not described completely.
//!
//! Sources, as of ROCm 7: `PopulateCodeObjectMap` in CLR, `lookUpCodeObject` in comgr.

use crate::base::id::OffloadKind;
use crate::llvm::container::binary;
use crate::llvm::container::content_kind::ContentKind;

/// The number of bytes of a plain bundle that the runtime searches for entries.
const HEADER_MAX: u64 = 4096;

/// Returns whether a bundle is made for the runtime: it holds code objects for HIP and no host code. Bundles with host
/// code, and bundles of bitcode or assembly, are inputs of compilers and linkers.
///
/// Each entry is given by its offload kind and the kind of its content, or `None` for an unknown one. Unknown content
/// for HIP counts as code, unless another entry is text: such a bundle is one of assembly.
pub(crate) fn is_for_runtime(entries: impl Iterator<Item = (Option<OffloadKind>, Option<ContentKind>)>) -> bool {
    let (mut has_code, mut has_unknown, mut has_text) = (false, false, false);
    for entry in entries {
        match entry {
            // clang gives bundles for the runtime an empty entry for the host.
            (Some(OffloadKind::Host), Some(ContentKind::Empty)) => {}
            (Some(OffloadKind::Host), _) => return false,
            (Some(kind), Some(ContentKind::Elf | ContentKind::SpirV)) => has_code |= kind.is_hip(),
            (Some(kind), None) => has_unknown |= kind.is_hip(),
            (Some(kind), Some(ContentKind::Text)) => has_text |= kind.is_hip(),
            _ => {}
        }
    }
    has_code || (has_unknown && !has_text)
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
        use ContentKind::{Bitcode, Coff, Elf, Empty, SpirV, Text, Unknown};
        use OffloadKind::{Hip, HipV4, Host, OpenMp};
        let is_for_runtime = |entries: &[(OffloadKind, ContentKind)]| {
            is_for_runtime(entries.iter().map(|&(kind, content)| (Some(kind), Some(content))))
        };
        assert!(is_for_runtime(&[(Host, Empty), (HipV4, Elf)]));
        assert!(is_for_runtime(&[(Hip, SpirV), (Hip, Bitcode)]));
        assert!(is_for_runtime(&[(OpenMp, Elf), (Hip, Elf)]));
        for entries in [
            &[(Host, Elf), (HipV4, Elf)][..],
            &[(HipV4, Elf), (Host, Coff)],
            &[(Host, Bitcode), (Hip, Bitcode)],
            &[(Hip, Bitcode), (HipV4, Empty), (Hip, Unknown)],
            &[(Host, Empty), (OpenMp, Elf)],
            &[(HipV4, Text), (HipV4, Text)],
            &[(Host, Empty)],
            &[],
        ] {
            assert!(!is_for_runtime(entries), "{entries:?}");
        }
    }
}
