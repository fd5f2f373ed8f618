//! Finds the sections of host objects, libraries and programs that hold device code.
//!
//! Of Mach-O files, only the sections that clang makes for device code are read.
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
//! | `__HIP,__hip_fatbin`, `__LLVM,__offloading`, `__NV_CUDA,__nv_fatbin` and `__NV_CUDA,__nv_relfatbin`, `__HIP,__fatbin` and `__NV_CUDA,__fatbin` of Mach-O | bundles, offload binaries, fatbins, wrappers |
//! | all others that are loaded and not run, such as `.rodata`, `.data.rel.ro`, `.rdata`, `.rsrc`, `.cask_resource` of cuDNN | data of a program, searched for code objects and containers of them |
//!
//! Names: clang 22.1.8, both HIP drivers; CUDA 13.5; DPC++ 2026.2; rocm-kpack of February 2026; public documents for
//! MetaX, Moore Threads, Enflame and Cray (no samples of their files).
//!
//! Linked ELF files without section headers are read by their [`segments`].
//!
//! LLVM's packager looks for offload binaries only, in fewer places. The job
//! [`Unpackage`](crate::llvm::work::Unpackage) has its own walk.
//!
//! Rejected: everything that `container::host` rejects.

use std::collections::HashSet;
use std::ops::Range;

use object::ObjectKind;
use object::elf::SectionType;

use super::found::Linking;
use super::segments::{self, Segments};
use crate::base::bytes::{add, bytes_in, slice, span, tail, to_u64};
use crate::base::error::Malformed;
use crate::beyond::code::elf;
use crate::beyond::container::host::gaps::pe::has_no_names;
use crate::beyond::container::host::wrapper::WrapperKind;
use crate::beyond::container::kpack;
use crate::beyond::container::sycl;
use crate::llvm::container::host::{self, ChosenSection, Section};
use crate::llvm::container::magic::Magic;

/// The content of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionContent {
    /// Containers of any format, which is detected by content.
    Containers,
    /// Offload binaries, by the name or type under which LLVM's packager looks for them.
    OffloadBinaries,
    /// A code object of a fat object. All sections of this kind together are the fat object's bundle.
    FatObject,
    /// Containers, if the section begins with one. Other programs use sections of this name for other content.
    PerhapsContainers,
    /// Wrappers of this kind: a program passes these records to a runtime to register its device code. In a split
    /// library, wrappers of bundles hold the indices of code in kpack archives instead of addresses.
    Wrappers(WrapperKind),
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
    /// By the start of its name.
    Begins(&'static str),
    /// By the names of its segment and itself (Mach-O only).
    InSegment(&'static str, &'static str),
    /// By its name, in linked files only: in objects, the name may mean something else.
    IsLinked(&'static str),
    /// By the start of its name, in linked files only.
    BeginsLinked(&'static str),
    /// By its flags: the program loads it, and does not run it.
    IsData,
}

/// The name that lld gives `.llvm.offloading` in PE files, which cut section names to 8 bytes.
const CUT_NAME: &str = ".llvm.of";

/// The sections with HIP's bundles. lld cuts the name in PE files, which have no table for longer names.
pub(crate) const HIP_SECTIONS: [&str; 2] = [".hip_fatbin", ".hip_fat"];

/// The end of the names of sections with offload binaries, of clang and of Cray's compilers.
const OFFLOADING: &[u8] = b".llvm.offloading";

/// The sections with relocatable CUDA code (`nvcc -rdc=true`). The linker keeps them in addition to the linked code.
const RELOCATABLE_CODE: [&str; 2] = ["__nv_relfatbin", "__nv_rel"];

/// The known sections and their content; the head of this file says who writes them. The first matching row applies, so
/// longer names come before their beginnings.
const SECTIONS: [(SectionRule, SectionContent); 34] = [
    (SectionRule::Type(SectionType(0x6fff_4c0b)), SectionContent::OffloadBinaries),
    (SectionRule::Is(HIP_SECTIONS[0]), SectionContent::Containers),
    (SectionRule::Is(HIP_SECTIONS[1]), SectionContent::Containers),
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
    (SectionRule::Is(".nvFatBinSegment"), SectionContent::Wrappers(WrapperKind::Fatbin)),
    (SectionRule::Is(".nvFatBi"), SectionContent::Wrappers(WrapperKind::Fatbin)),
    (SectionRule::Is(".hipFatBinSegment"), SectionContent::Wrappers(WrapperKind::Bundle)),
    (SectionRule::Is(".hipFatB"), SectionContent::Wrappers(WrapperKind::Bundle)),
    (SectionRule::Is(kpack::REFERENCE_SECTIONS[0]), SectionContent::KpackReference),
    (SectionRule::Is(kpack::REFERENCE_SECTIONS[1]), SectionContent::KpackReference),
    (SectionRule::InSegment("__HIP", "__hip_fatbin"), SectionContent::Containers),
    (SectionRule::InSegment("__HIP", "__fatbin"), SectionContent::Wrappers(WrapperKind::Bundle)),
    (SectionRule::InSegment("__LLVM", "__offloading"), SectionContent::OffloadBinaries),
    (SectionRule::InSegment("__NV_CUDA", "__nv_fatbin"), SectionContent::Containers),
    (SectionRule::InSegment("__NV_CUDA", RELOCATABLE_CODE[0]), SectionContent::Containers),
    (SectionRule::InSegment("__NV_CUDA", "__fatbin"), SectionContent::Wrappers(WrapperKind::Fatbin)),
    (SectionRule::IsData, SectionContent::Data),
];

impl SectionContent {
    /// Returns whether the content is always read as containers.
    pub(super) fn is_always_containers(self) -> bool {
        matches!(self, Self::Containers | Self::OffloadBinaries)
    }
}

impl SectionRule {
    /// Returns whether the header of a section meets the rule.
    fn applies_to(self, section: &Section<'_>) -> bool {
        let section_name = section.name.unwrap_or_default();
        match self {
            Self::Type(number) => section.section_type() == Some(number),
            Self::Is(name) => section_name == name.as_bytes(),
            Self::Begins(name) => section_name.starts_with(name.as_bytes()),
            Self::IsLinked(name) => is_linked(section) && section_name == name.as_bytes(),
            Self::InSegment(segment, name) => {
                section.segment == Some(segment.as_bytes()) && section_name == name.as_bytes()
            }
            Self::IsData => section.is_data(),
            Self::BeginsLinked(name) => is_linked(section) && section_name.starts_with(name.as_bytes()),
        }
    }
}

/// Returns whether the object of a section is a program or a library.
fn is_linked(section: &Section<'_>) -> bool {
    section.object != ObjectKind::Relocatable
}

/// The sections of an object that matter to a search.
pub(super) struct Sections {
    /// The sections that are made for device code, in the order of the section table.
    pub(super) for_device: Vec<ChosenSection<SectionContent>>,
    /// Whether the object is linked: a program or a library. In an object that is not, sections for device code may be
    /// empty or zero, because the linker fills them.
    pub(super) is_linked: bool,
    /// The total number of sections. In a file without sections, other lists have parts of its segments.
    pub(super) count: u64,
    /// The names of sections for bundles or offload binaries without content in the file, as `strip` leaves them in a
    /// file with debugging information alone.
    pub(super) empty: Vec<Vec<u8>>,
    /// Sections of data with content, in the order of the section table; with [`ListedSections::All`], all other
    /// sections with content too. Sections that reach beyond the file are left out.
    pub(super) others: Vec<ChosenSection<SectionContent>>,
    /// The fault that makes the names of some sections unreadable, so that sections for device code may be missed.
    pub(super) hidden: Option<Malformed>,
}

/// The sections to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedSections {
    /// Sections that are made for device code, and sections of data.
    Known,
    /// All sections with content, for a deep search or because wrappers may point into any of them.
    All,
}

/// Returns the kinds of content of the sections of an object that are made for device code.
pub(crate) fn device_contents(data: &[u8]) -> Result<Vec<SectionContent>, Malformed> {
    Ok(read(data, 0, ListedSections::Known)?.for_device.iter().map(|section| section.holds).collect())
}

/// Reads the section table of an object, and sorts the sections by content. Offsets in errors count from `base`.
pub(super) fn read(data: &[u8], base: u64, listed: ListedSections) -> Result<Sections, Malformed> {
    let (mut count, mut nameless, mut empty, mut is_linked) = (0, 0, Vec::new(), false);
    let mut others = Vec::new();
    // `host::sections` checks the sections with a returned content: it fails if one reaches beyond the object. So other
    // sections, which need not be sound, are collected in `others` instead.
    let mut for_device = host::sections(data, base, |section| {
        add(&mut count, 1);
        add(&mut nameless, section.name.is_err().into());
        // The answer is the same for each section of the object.
        is_linked = self::is_linked(section);
        let content = known_content(section);
        let has_content = section.range.is_some();
        if let Some(content) = content
            && content.is_always_containers()
            && !has_content
        {
            empty.push(section.name.unwrap_or_default().to_vec());
        }
        let other = match content {
            None if listed == ListedSections::All => SectionContent::Other,
            Some(SectionContent::Data) => SectionContent::Data,
            _ => return Ok(content),
        };
        // An empty section, or one that reaches beyond the object, has nothing to search.
        if let Some((start, len)) = section.range
            && len > 0
            && slice(data, start, len).is_some()
        {
            let name = section.name.unwrap_or_default().to_vec();
            others.push(ChosenSection { holds: other, name, range: span(start, len) });
        }
        Ok(None)
    })?;
    // The magic is checked first, because few files are without sections.
    if count == 0 && Magic::identify(data) == Magic::Elf && elf::check_names(data).is_ok() {
        let Segments { for_device, data: others, hidden } = segments::read(data, base);
        return Ok(Sections { for_device, is_linked: true, count, empty, others, hidden });
    }
    // A container is read from the start of its range, so padding before it is left out.
    for section in &mut for_device {
        if section.holds.is_always_containers() {
            section.range = without_padding(data, std::mem::take(&mut section.range));
        }
    }
    // When `recompress` splits a section, the old section stays without content, and its parts have the same name.
    let with_content: HashSet<_> = for_device.iter().map(|section| &section.name).collect();
    empty.retain(|name| !with_content.contains(name));
    // If names cannot be read, sections for device code may be missed, which the caller reports.
    let hidden = unreadable_names(data, nameless, base);
    Ok(Sections { for_device, is_linked, count, empty, others, hidden })
}

/// Returns the fault that hides the names of some sections of an object, or `None` if no name is missing.
fn unreadable_names(data: &[u8], nameless: u64, base: u64) -> Option<Malformed> {
    if Magic::identify(data).is_elf() {
        let Err(malformed) = elf::check_names(data) else { return None };
        return Some(malformed.shifted_by(base));
    }
    // A PE program without a name table is usual: linkers and `strip` drop the table, but leave references to it.
    if nameless == 0 || has_no_names(data) {
        return None;
    }
    Some(Malformed::at(format!("the names of {nameless} sections cannot be read"), base))
}

/// Returns the range of a section of a PE file without the zeros before its container. `recompress` writes such zeros
/// where it splits a section, because the parts of a section of PE begin at pages. Returns any other range unchanged.
pub(super) fn without_padding(data: &[u8], range: Range<u64>) -> Range<u64> {
    /// The size of a page, and so more than the padding before a part.
    const PAGE: usize = 4096;
    let Some(content) = bytes_in(data, range.clone()) else { return range };
    if content.first() != Some(&0) || Magic::identify(data) != Magic::Pe {
        return range;
    }
    let zeros = to_u64(content.iter().take(PAGE).take_while(|&&byte| byte == 0).count());
    match tail(content, zeros) {
        Some(rest) if Magic::identify(rest).is_container() => range.start.saturating_add(zeros)..range.end,
        _ => range,
    }
}

/// Returns whether a section with this name has relocatable CUDA code.
pub(crate) fn is_relocatable_code(name: &[u8]) -> bool {
    // In Mach-O files, the name of the segment and a comma come first.
    let name = name.rsplit(|&byte| byte == b',').next().unwrap_or(name);
    RELOCATABLE_CODE.iter().any(|known| known.as_bytes() == name)
}

impl ChosenSection<SectionContent> {
    /// Returns the time when the code in the section is linked. Linkers and the CUDA driver link relocatable CUDA code,
    /// and clang's linker links the code in offload binaries. `is_linked` says whether the object is linked.
    pub(super) fn linking(&self, is_linked: bool) -> Linking {
        let is_relocatable = is_relocatable_code(&self.name);
        if is_linked {
            return if is_relocatable { Linking::AtStart } else { Linking::Before };
        }
        let is_for_linkers =
            is_relocatable || self.name.ends_with(OFFLOADING) || self.holds == SectionContent::OffloadBinaries;
        if is_for_linkers { Linking::WithObject } else { Linking::Before }
    }
}

/// Returns whether a section with this name, in an ELF or PE file, has device images.
pub(crate) fn has_device_images(name: &[u8]) -> bool {
    [&b"__CLANG_"[..], b"OFFLOAD_"].iter().any(|start| name.starts_with(start))
}

/// Returns the content of a section, or `None` if no row of [`SECTIONS`] applies to it.
fn known_content(section: &Section<'_>) -> Option<SectionContent> {
    let (_, content) = SECTIONS.iter().find(|(rule, _)| rule.applies_to(section))?;
    Some(*content)
}
