//! Offload binaries in host objects: the sections of an object, a library or a program that hold them.
//!
//! | format | section |
//! |---|---|
//! | ELF | type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B, of any name |
//! | COFF, PE | name beginning with `.llvm.offloading`, as these formats have no section types; in PE also `.llvm.of` |
//!
//! A section may hold several offload binaries, one after another, once a linker has merged those of several objects.
//! Layout: LLVM 22.1.8.
//!
//! Rejected: what `container::host` rejects, and in COFF and PE names that cannot be read.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

use object::ObjectKind;

use crate::container::host;
use crate::error::Malformed;

const COFF_NAME: &[u8] = b".llvm.offloading";

/// The same as lld writes it into programs and libraries, which have no table for longer names.
const CUT_NAME: &[u8] = b".llvm.of";

/// Where offload binaries lie in an object, in the order of its sections. Offsets in errors count from `base`.
///
/// # Errors
/// Those of [`host::sections`].
pub(crate) fn offloading_sections(data: &[u8], base: u64) -> Result<Vec<Range<u64>>, Malformed> {
    let sections = host::sections(data, base, |section| {
        let holds = match (section.holds_offload_binaries, section.name) {
            (Some(by_type), _) => by_type,
            (None, name) => {
                let name = name?;
                name.starts_with(COFF_NAME) || (name == CUT_NAME && section.object != ObjectKind::Relocatable)
            }
        };
        Ok(holds.then_some(()))
    })?;
    Ok(sections.into_iter().map(|section| section.range).collect())
}
