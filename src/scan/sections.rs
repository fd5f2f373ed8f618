//! The sections of host objects, libraries and programs that hold device code.
//!
//! | section | content |
//! |---|---|
//! | `.hip_fatbin`; `.hip_fat` in COFF and PE | bundles, one after another, those of a linked library at multiples of 4096 |
//! | ELF type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B; `.llvm.offloading`; `.llvm.of` in PE | offload binaries, one after another |
//! | `__CLANG_OFFLOAD_BUNDLE__<entry ID>` | a code object of a fat object |
//!
//! Recognised, but not read:
//!
//! | section | content |
//! |---|---|
//! | `.nv_fatbin`, `__nv_relfatbin`; `.nv_fatb`, `__nv_rel` in PE | CUDA fatbins |
//! | `__CLANG_OFFLOAD_BUNDLE__sycl-<triple>` of what is linked; `OFFLOAD_DEVICE_CODE` | SYCL device images of DPC++ |
//! | `.tgtimg` | where these images lie |
//! | `.rocm_kpack_ref`; `.kpackrf` in PE | which kpack archives hold the device code of a split ROCm library |
//!
//! Names: clang 22.1.8, both HIP drivers; CUDA 13.5; DPC++ 2025.3; rocm-kpack of February 2026.
//!
//! Rejected: what `container::host` rejects.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ops::Range;

use object::ObjectKind;

use super::unread::Unread;
use crate::bytes::slice;
use crate::check;
use crate::container::host::{self, Chosen, Section};
use crate::error::Malformed;

/// The machines of ELF files that are device code.
pub(super) const EM_CUDA: u16 = 190;
pub(super) const EM_AMDGPU: u16 = 224;

pub(super) const ELF_MAGIC: &[u8] = b"\x7fELF";

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Bundles or offload binaries, as its content tells.
    Containers,
    /// A code object of a fat object, together with sections of the same kind.
    FatObject,
    /// Something that is recognised, but not read.
    Unread(Unread),
}

/// How a section is told by its name.
#[derive(Clone, Copy)]
enum Name {
    Is(&'static str),
    Begins(&'static str),
    /// The same, unless the file is yet to be linked.
    BeginsLinked(&'static str),
}

const CUDA: Holds = Holds::Unread(Unread::device_code("CUDA fatbins"));
const SYCL: Holds = Holds::Unread(Unread::device_code("SYCL device images"));
const KPACK: Holds = Holds::Unread(Unread::device_code("reference to kpack archives"));

/// What sections hold, by name. The first row that fits counts.
const SECTIONS: [(Name, Holds); 14] = [
    (Name::Is(".hip_fatbin"), Holds::Containers),
    (Name::Is(".hip_fat"), Holds::Containers),
    (Name::Begins(".llvm.offloading"), Holds::Containers),
    (Name::Is(".llvm.of"), Holds::Containers),
    (Name::BeginsLinked("__CLANG_OFFLOAD_BUNDLE__sycl-"), SYCL),
    (Name::Begins("__CLANG_OFFLOAD_BUNDLE__"), Holds::FatObject),
    (Name::Is("OFFLOAD_DEVICE_CODE"), SYCL),
    (Name::Is(".tgtimg"), SYCL),
    (Name::Is(".nv_fatbin"), CUDA),
    (Name::Is(".nv_fatb"), CUDA),
    (Name::Is("__nv_relfatbin"), CUDA),
    (Name::Is("__nv_rel"), CUDA),
    (Name::Is(".rocm_kpack_ref"), KPACK),
    (Name::Is(".kpackrf"), KPACK),
];

impl Name {
    fn fits(self, section: &[u8], object: ObjectKind) -> bool {
        match self {
            Self::Is(name) => section == name.as_bytes(),
            Self::Begins(name) => section.starts_with(name.as_bytes()),
            Self::BeginsLinked(name) => object != ObjectKind::Relocatable && section.starts_with(name.as_bytes()),
        }
    }
}

/// The sections of an object, as far as a search wants to know.
pub(super) struct Sections {
    /// Those that hold device code, in the order of the object.
    pub(super) chosen: Vec<Chosen<Holds>>,
    /// Whether the object is linked, so that nothing is to be filled in any more.
    pub(super) is_linked: bool,
    /// How many sections there are in all.
    pub(super) count: usize,
    /// The names of those that would hold bundles or offload binaries, but take no bytes of the file.
    pub(super) empty: Vec<Vec<u8>>,
    /// Why it cannot be told of some of them whether they hold device code.
    pub(super) hidden: Option<Malformed>,
}

/// The machine of an ELF file that begins with `head`.
pub(super) fn elf_machine(head: &[u8]) -> Option<u16> {
    let machine = *slice(head, 18, 2)?.first_chunk()?;
    match head.starts_with(ELF_MAGIC).then(|| head.get(5))? {
        Some(1) => Some(u16::from_le_bytes(machine)),
        Some(2) => Some(u16::from_be_bytes(machine)),
        _ => None,
    }
}

/// The sections of an object that hold device code. Offsets in errors count from `base`.
pub(super) fn read(data: &[u8], base: u64) -> Result<Sections, Malformed> {
    let (mut count, mut nameless, mut empty, mut is_linked) = (0_usize, 0_usize, Vec::new(), false);
    let chosen = host::sections(data, base, |section| {
        count = count.saturating_add(1);
        nameless = nameless.saturating_add(usize::from(section.name.is_err()));
        is_linked = section.object != ObjectKind::Relocatable;
        let holds = holds(section);
        if holds == Some(Holds::Containers) && section.range.is_none() {
            empty.push(section.name.unwrap_or_default().to_vec());
        }
        Ok(holds)
    })?;
    let hidden = match nameless {
        _ if data.starts_with(ELF_MAGIC) => check::elf::check_names(data).err().map(|malformed| malformed.moved(base)),
        0 => None,
        // Linkers and `strip` leave names behind that were in a table which a program no longer has.
        _ if host::has_no_names(data) => None,
        _ => Some(Malformed::Object { what: format!("the names of {nameless} sections cannot be read"), offset: base }),
    };
    Ok(Sections { chosen, is_linked, count, empty, hidden })
}

/// Where an object keeps bundles and offload binaries, in the order of its sections. Offsets in errors count from `base`.
pub(crate) fn containers(data: &[u8], base: u64) -> Result<Vec<Range<u64>>, Malformed> {
    let sections = read(data, base)?.chosen.into_iter().filter(|section| section.holds == Holds::Containers);
    Ok(sections.map(|section| section.range).collect())
}

fn holds(section: &Section<'_>) -> Option<Holds> {
    if section.holds_offload_binaries == Some(true) {
        return Some(Holds::Containers);
    }
    let name = section.name.unwrap_or_default();
    SECTIONS.iter().find(|(known, _)| known.fits(name, section.object)).map(|(_, holds)| *holds)
}
