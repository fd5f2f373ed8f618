//! The bundles that HIP's runtime can load.
//!
//! The length of a plain bundle is not recorded, so the runtime gives comgr the first 4096 bytes. Comgr looks for
//! entries there, and fails at the first one that is not described completely. Of a compressed bundle, the runtime
//! gives comgr as many bytes as are recorded, and reads that size as a number of 32 bits in every version. It asks for
//! the kind `hipv4`, which comgr takes as compatible with `hip`. Sources, as of ROCm 7: `PopulateCodeObjectMap` and
//! `UncompressAndPopulateCodeObject` in CLR, `lookUpCodeObject` and `AMDGPUCompiler::unbundle` in comgr.

use crate::code::ContentKind;
use crate::container::binary;
use crate::container::sequence::Bundle;
use crate::container::stream::Recorded;
use crate::id::OffloadKind;
use crate::scan::{Format, Found};

/// The length of the part of a plain bundle in which the runtime looks for entries, in bytes.
const HEADER_MAX: u64 = 4096;

/// Returns whether a bundle is one for the runtime: it holds code objects for HIP and no host code. Bundles with host
/// code, and bundles of bitcode, are inputs of compilers and linkers. Content whose kind is not known counts as code.
pub(crate) fn is_for_runtime(entries: impl Iterator<Item = (Option<OffloadKind>, Option<ContentKind>)>) -> bool {
    let mut has_code = false;
    for entry in entries {
        match entry {
            (Some(OffloadKind::Host), Some(ContentKind::Empty)) => {}
            (Some(OffloadKind::Host), _) => return false,
            (Some(kind), None | Some(ContentKind::Elf | ContentKind::SpirV)) => has_code |= kind.is_hip(),
            _ => {}
        }
    }
    has_code
}

/// The index of the first entry that the runtime does not find in a plain bundle of entries with these IDs. Entries
/// after it are not found either.
pub(crate) fn first_lost<'i>(ids: impl Iterator<Item = &'i [u8]>) -> Option<usize> {
    binary::header_ends(ids).position(|end| end > HEADER_MAX)
}

/// The recorded size of a compressed bundle, if the runtime misreads it.
pub(crate) fn misread_size(recorded: Recorded) -> Option<u64> {
    recorded.total.filter(|&total| u32::try_from(total).is_err())
}

/// The index of the first code object of a bundle for the runtime that it does not find; none if it finds all.
pub(crate) fn first_lost_of(found: &Found<'_>) -> Option<usize> {
    let first = match found.bundle {
        _ if found.format != Format::Bundle => None,
        Bundle { compressed: Some(recorded), .. } => misread_size(*recorded).map(|_| 0),
        Bundle { compressed: None, entries, .. } => first_lost(entries.iter().map(|entry| entry.id.as_slice())),
    };
    let kinds = || found.code_objects().map(|entry| (entry.entry_id().map(|id| id.kind()), entry.kind()));
    first.filter(|_| is_for_runtime(kinds()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Member;
    use crate::container::binary::Binary;
    use crate::container::offload_binary::{OffloadBinary, Version};
    use crate::io::{Input, write_to};
    use crate::scan::{Finding, Scan};

    #[test]
    fn inputs_of_compilers_are_not_for_the_runtime() {
        use ContentKind::{Bitcode, Coff, Elf, Empty, SpirV, Unknown};
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
            &[(Host, Empty)],
            &[],
        ] {
            assert!(!is_for_runtime(entries), "{entries:?}");
        }
    }

    #[test]
    fn entries_after_the_first_4096_bytes_are_lost_in_plain_bundles_alone() {
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        elf[18] = 224;
        let elf = Input::from_bytes("elf", elf);
        let ids: Vec<String> = (0..99).map(|index| format!("hipv4-amdgcn-amd-amdhsa--gfx90{index}")).collect();
        let members: Vec<_> = ids.iter().map(|id| Member { id: id.clone(), content: elf.as_slice() }).collect();
        // 32 bytes before 10 descriptions of 24 and 31 bytes, and 62 of 24 and 32 bytes, which end at 4054.
        let first = 72;
        assert_eq!(first_lost(ids.iter().map(String::as_bytes)), Some(first));
        assert_eq!(first_lost(ids[..first].iter().map(String::as_bytes)), None);
        let images = OffloadBinary { version: Version::V2, ..OffloadBinary::default() };
        for (plan, kept) in [(Binary::default().plan(&members), first), (images.plan(&members), ids.len())] {
            let mut data = Vec::new();
            write_to(&plan.unwrap(), &mut data).unwrap();
            let mut bundles = 0;
            let visitor = &mut |finding: Finding<'_>| {
                let Finding::Bundle(found) = finding else { panic!("{finding:?}") };
                assert_eq!(first_lost_of(&found).unwrap_or(found.bundle.entries.len()), kept);
                bundles += 1;
                Ok(())
            };
            Scan::default().run(&Input::from_bytes("bundle", data), visitor).unwrap();
            assert_eq!(bundles, 1);
        }
    }
}
