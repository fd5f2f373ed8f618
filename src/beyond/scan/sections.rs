//! Finds the sections of host objects, libraries and programs that hold device code.
//!
//! | section | content |
//! |---|---|
//! | `.hip_fatbin`; `.hip_fat` in COFF and PE | consecutive bundles, in a linked library at multiples of 4096 |
//! | `.mc_fatbin` of MetaX; `.mt_fatbin` of Moore Threads, `.topsfb` of Enflame | consecutive bundles, which stay as they are when a file is recompressed |
//! | ELF type `SHT_LLVM_OFFLOADING`, 0x6FFF4C0B; `.llvm.offloading`; `.llvm.of` in PE; `.cray.llvm.offloading` of Cray's compilers | consecutive offload binaries |
//! | `.nv_fatbin`, `__nv_relfatbin`; `.nv_fatb`, `__nv_rel` in PE | consecutive CUDA fatbins |
//! | `__CLANG_OFFLOAD_BUNDLE__sycl-<triple>`, `__CLANG_OFFLOAD_BUNDLE__openmp-spir<...>` of linked files; `__CLANG_` in PE | device images of DPC++ for a triple |
//! | `OFFLOAD_DEVICE_CODE`; `OFFLOAD_` in PE | device images of DPC++ for any triples |
//! | `.tgtimg` | the table of the device images of DPC++, which is checked, and followed into other sections |
//! | `.kernel` | HCC (ROCm before 3.5): consecutive bundles; other programs may use this name |
//! | `.nvFatBinSegment`; `.nvFatBi` in PE | wrappers of CUDA fatbins, which are checked |
//! | `.rocm_kpack_ref`; `.kpackrf` in PE | reference of a split ROCm library to kpack archives with its device code |
//! | `.hipFatBinSegment`; `.hipFatB` in PE | wrappers of bundles, which are checked, and followed into other sections; in a split library, they hold indices |
//! | `__CLANG_OFFLOAD_BUNDLE__<entry ID>` | a code object of a fat object |
//! | all others that are loaded and not run, such as `.rodata`, `.data.rel.ro`, `.rdata`, `.rsrc`, `.cask_resource` of cuDNN | data of a program, searched for code objects and containers of them |
//!
//! Names: clang 22.1.8, both HIP drivers; CUDA 13.5; DPC++ 2026.2; rocm-kpack of February 2026; public documents for
//! MetaX, Moore Threads, Enflame and Cray, of whose files there are no samples.
//!
//! LLVM's packager looks for offload binaries only, in fewer places; the job [`Unpackage`](crate::llvm::work::Unpackage) has
//! its own walk.
//!
//! Rejected: everything that `container::host` rejects.

use std::collections::HashSet;
use std::ops::Range;

use object::ObjectKind;
use object::elf::SectionType;

use crate::base::bytes::{add, part, slice, span, tail, to_u64};
use crate::base::error::{Error, Malformed, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::code::elf;
use crate::beyond::container::host::gaps::pe::has_no_names;
use crate::beyond::container::host::wrapper::{self, Wrapped};
use crate::beyond::container::kpack;
use crate::beyond::container::sycl;
use crate::llvm::container::host::{self, ChosenSection, Section};
use crate::llvm::container::magic::Magic;

/// The content of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionContent {
    /// Containers that are read; their format is detected by content.
    Containers,
    /// Containers that LLVM's packager reads too: it treats them as offload binaries.
    OffloadBinaries,
    /// A code object of a fat object, which consists of all sections of this kind.
    FatObject,
    /// Containers, if it begins with one. Its name may mean something else.
    PerhapsContainers,
    /// Wrappers of this kind, and of those that lie beside it.
    Wrappers(Wrapped),
    /// The reference of a split library to kpack archives.
    KpackReference,
    /// Device images of DPC++.
    DeviceImages,
    /// A table of device images of DPC++.
    ImageTable,
    /// Data of a program, which may have device code anywhere in it.
    Data,
    /// Anything else.
    Other,
}

/// How the header of a section identifies it.
#[derive(Clone, Copy)]
enum SectionRule {
    /// By its type (ELF only).
    Type(SectionType),
    /// By its name.
    Is(&'static str),
    Begins(&'static str),
    /// By its name or the start of it, in linked files only.
    IsLinked(&'static str),
    BeginsLinked(&'static str),
    /// By its flags: the program loads it, and does not run it.
    IsData,
}

/// The name that lld gives `.llvm.offloading` in programs and libraries, which have no table for longer names.
const CUT_NAME: &str = ".llvm.of";

/// The sections with relocatable CUDA code (`nvcc -rdc=true`), which the linker leaves beside the code that it links.
const RELOCATABLE_CODE: [&str; 2] = ["__nv_relfatbin", "__nv_rel"];

/// The known sections and their content. The first matching row applies.
const SECTIONS: [(SectionRule, SectionContent); 28] = [
    (SectionRule::Type(SectionType(0x6fff_4c0b)), SectionContent::OffloadBinaries),
    (SectionRule::Is(".hip_fatbin"), SectionContent::Containers),
    (SectionRule::Is(".hip_fat"), SectionContent::Containers),
    (SectionRule::Is(".mc_fatbin"), SectionContent::PerhapsContainers),
    (SectionRule::Is(".mt_fatbin"), SectionContent::PerhapsContainers),
    (SectionRule::Is(".topsfb"), SectionContent::PerhapsContainers),
    (SectionRule::Begins(".llvm.offloading"), SectionContent::OffloadBinaries),
    (SectionRule::Is(".cray.llvm.offloading"), SectionContent::Containers),
    (SectionRule::Is(CUT_NAME), SectionContent::OffloadBinaries),
    (SectionRule::BeginsLinked("__CLANG_OFFLOAD_BUNDLE__sycl-"), SectionContent::DeviceImages),
    (SectionRule::BeginsLinked("__CLANG_OFFLOAD_BUNDLE__openmp-spir"), SectionContent::DeviceImages),
    (SectionRule::Begins("__CLANG_OFFLOAD_BUNDLE__"), SectionContent::FatObject),
    (SectionRule::IsLinked("__CLANG_"), SectionContent::DeviceImages),
    (SectionRule::Is("OFFLOAD_DEVICE_CODE"), SectionContent::DeviceImages),
    (SectionRule::IsLinked("OFFLOAD_"), SectionContent::DeviceImages),
    (SectionRule::IsLinked(sycl::TABLE), SectionContent::ImageTable),
    (SectionRule::Is(".nv_fatbin"), SectionContent::Containers),
    (SectionRule::Is(".nv_fatb"), SectionContent::Containers),
    (SectionRule::Is(RELOCATABLE_CODE[0]), SectionContent::Containers),
    (SectionRule::Is(RELOCATABLE_CODE[1]), SectionContent::Containers),
    (SectionRule::Is(".kernel"), SectionContent::PerhapsContainers),
    (SectionRule::Is(".nvFatBinSegment"), SectionContent::Wrappers(Wrapped::Fatbin)),
    (SectionRule::Is(".nvFatBi"), SectionContent::Wrappers(Wrapped::Fatbin)),
    (SectionRule::Is(".hipFatBinSegment"), SectionContent::Wrappers(Wrapped::Bundle)),
    (SectionRule::Is(".hipFatB"), SectionContent::Wrappers(Wrapped::Bundle)),
    (SectionRule::Is(kpack::REFERENCE_SECTIONS[0]), SectionContent::KpackReference),
    (SectionRule::Is(kpack::REFERENCE_SECTIONS[1]), SectionContent::KpackReference),
    (SectionRule::IsData, SectionContent::Data),
];

impl SectionContent {
    /// Whether its content is always read as containers.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Containers | Self::OffloadBinaries)
    }
}

impl SectionRule {
    fn fits(self, section: &Section<'_>) -> bool {
        let section_name = section.name.unwrap_or_default();
        match self {
            Self::Type(number) => section.section_type == Some(number),
            Self::Is(name) => section_name == name.as_bytes(),
            Self::Begins(name) => section_name.starts_with(name.as_bytes()),
            Self::IsLinked(name) => is_linked(section) && section_name == name.as_bytes(),
            Self::IsData => section.is_data,
            Self::BeginsLinked(name) => is_linked(section) && section_name.starts_with(name.as_bytes()),
        }
    }
}

fn is_linked(section: &Section<'_>) -> bool {
    section.object != ObjectKind::Relocatable
}

/// The sections of an object that matter to a search.
pub(super) struct Sections {
    /// The sections that are made for device code, in file order.
    pub(super) chosen: Vec<ChosenSection<SectionContent>>,
    /// Whether the object is linked, so that its empty sections stay empty.
    pub(super) is_linked: bool,
    /// The total number of sections.
    pub(super) count: u64,
    /// The names of sections for bundles or offload binaries that have no content in the file.
    pub(super) empty: Vec<Vec<u8>>,
    /// Sections of data with content, in the order of the section table, and all others with content, if they were
    /// asked for. A fault in their headers does not matter.
    pub(super) others: Vec<ChosenSection<SectionContent>>,
    /// Why some sections cannot be identified.
    pub(super) hidden: Option<Malformed>,
}

/// The sections to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedSections {
    /// Those that are made for device code, and those of data.
    Known,
    All,
}

/// What the sections of an object with device code hold.
pub(crate) fn held(data: &[u8]) -> Result<Vec<SectionContent>, Malformed> {
    Ok(read(data, 0, ListedSections::Known)?.chosen.iter().map(|section| section.holds).collect())
}

/// The number of sections in which [`lost_wrappers`] looks. Compilers write at most one for each kind of wrapper, and
/// each section takes all relocations of the file.
const WRAPPER_SECTIONS_MAX: usize = 16;

/// The number of wrappers in the first sections of an object that do not point at device code.
pub(crate) fn lost_wrappers(data: Slice<'_>) -> Result<usize, Error> {
    let sections = read(data.bytes(), data.offset(), ListedSections::Known).with_path(data.path())?.chosen;
    let wrappers = sections.iter().filter_map(|section| match section.holds {
        SectionContent::Wrappers(kind) => Some((&section.range, kind)),
        _ => None,
    });
    let mut lost = 0_usize;
    for (range, kind) in wrappers.take(WRAPPER_SECTIONS_MAX) {
        let faults = wrapper::faults(data.bytes(), data.offset(), range, kind);
        lost = lost.saturating_add(faults.len());
    }
    Ok(lost)
}

/// The sections of an object. Offsets in errors count from `base`.
pub(super) fn read(data: &[u8], base: u64, listed: ListedSections) -> Result<Sections, Malformed> {
    let (mut count, mut nameless, mut empty, mut is_linked) = (0, 0, Vec::new(), false);
    let mut others = Vec::new();
    let mut chosen = host::sections(data, base, |section| {
        add(&mut count, 1);
        add(&mut nameless, section.name.is_err().into());
        is_linked = self::is_linked(section);
        let holds = holds(section);
        if holds.is_some_and(SectionContent::is_read) && section.range.is_none() {
            empty.push(section.name.unwrap_or_default().to_vec());
        }
        let other = match holds {
            None if listed == ListedSections::All => SectionContent::Other,
            Some(SectionContent::Data) => SectionContent::Data,
            _ => return Ok(holds),
        };
        if let Some((start, len)) = section.range
            && slice(data, start, len).is_some_and(|content| !content.is_empty())
        {
            let name = section.name.unwrap_or_default().to_vec();
            others.push(ChosenSection { holds: other, name, range: span(start, len) });
        }
        Ok(None)
    })?;
    for section in chosen.iter_mut().filter(|section| section.holds.is_read()) {
        section.range = without_padding(data, std::mem::take(&mut section.range));
    }
    // Beside the parts of a section that `recompress` split, the old one is left without content.
    let with_content: HashSet<_> = chosen.iter().map(|section| &section.name).collect();
    empty.retain(|name| !with_content.contains(name));
    let hidden = match nameless {
        _ if Magic::identify(data).is_elf() => elf::check_names(data).err().map(|malformed| malformed.moved(base)),
        0 => None,
        // Linkers and `strip` leave references to a name table that a program no longer has.
        _ if has_no_names(data) => None,
        _ => Some(Malformed::at(format!("the names of {nameless} sections cannot be read"), base)),
    };
    Ok(Sections { chosen, is_linked, count, empty, others, hidden })
}

/// A section without the zeros before a container: parts into which `recompress` split the section of a PE file begin
/// at pages.
pub(super) fn without_padding(data: &[u8], range: Range<u64>) -> Range<u64> {
    const PAGE: usize = 4096;
    let is_padded = |content: &&[u8]| content.first() == Some(&0) && Magic::identify(data) == Magic::Pe;
    let content = part(data, range.clone()).filter(is_padded).unwrap_or_default();
    let zeros = to_u64(content.iter().take(PAGE).take_while(|&&byte| byte == 0).count());
    let rest = tail(content, zeros);
    match rest.map(Magic::identify) {
        Some(magic) if magic.is_container() => range.start.saturating_add(zeros)..range.end,
        _ => range,
    }
}

/// Whether a section with this name has relocatable CUDA code.
pub(super) fn is_relocatable_code(name: &[u8]) -> bool {
    RELOCATABLE_CODE.iter().any(|known| known.as_bytes() == name)
}

fn holds(section: &Section<'_>) -> Option<SectionContent> {
    SECTIONS.iter().find(|(header, _)| header.fits(section)).map(|(_, holds)| *holds)
}
