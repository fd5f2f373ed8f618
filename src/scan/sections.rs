//! The sections of host objects, libraries and programs that hold device code.
//!
//! | section | content |
//! |---|---|
//! | `.hip_fatbin`; `.hip_fat` in COFF and PE | bundles, one after another, those of a linked library at multiples of 4096 |
//! | ELF type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B; `.llvm.offloading`; `.llvm.of` in PE | offload binaries, one after another |
//! | `__CLANG_OFFLOAD_BUNDLE__<entry ID>` | a code object of a fat object |
//!
//! Names: clang 22.1.8, both HIP drivers.
//!
//! Rejected: what `container::host` rejects.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

use crate::bytes::slice;
use crate::container::MAGIC;
use crate::container::host::{self, Chosen, Section};
use crate::error::Malformed;

/// The machines of ELF files that are device code.
pub(super) const EM_CUDA: u16 = 190;
pub(super) const EM_AMDGPU: u16 = 224;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Bundles or offload binaries, as its content tells.
    Containers,
    /// A code object of a fat object, together with sections of the same kind.
    FatObject,
}

/// The machine of an ELF file that begins with `head`.
pub(super) fn elf_machine(head: &[u8]) -> Option<u16> {
    let machine = *slice(head, 18, 2)?.first_chunk()?;
    match head.starts_with(b"\x7fELF").then(|| head.get(5))? {
        Some(1) => Some(u16::from_le_bytes(machine)),
        Some(2) => Some(u16::from_be_bytes(machine)),
        _ => None,
    }
}

/// The sections of an object that hold device code, in its order. Offsets in errors count from `base`.
pub(super) fn read(data: &[u8], base: u64) -> Result<Vec<Chosen<Holds>>, Malformed> {
    host::sections(data, base, |section| Ok(holds(section)))
}

/// Where an object keeps bundles and offload binaries, in the order of its sections. Offsets in errors count from `base`.
pub(crate) fn containers(data: &[u8], base: u64) -> Result<Vec<Range<u64>>, Malformed> {
    let sections = read(data, base)?.into_iter().filter(|section| section.holds == Holds::Containers);
    Ok(sections.map(|section| section.range).collect())
}

fn holds(section: &Section<'_>) -> Option<Holds> {
    let name = section.name.unwrap_or_default();
    let containers = [&b".hip_fatbin"[..], b".hip_fat", b".llvm.of"];
    if section.holds_offload_binaries == Some(true)
        || containers.contains(&name)
        || name.starts_with(b".llvm.offloading")
    {
        Some(Holds::Containers)
    } else {
        name.starts_with(MAGIC.as_bytes()).then_some(Holds::FatObject)
    }
}
