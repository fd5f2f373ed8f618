//! The sections of host objects, libraries and programs that are known by their headers, and their content.
//!
//! Sections for containers of code objects are in the rows of [`FORMATS`]. [`SECTIONS`] has all others:
//!
//! | section | content |
//! |---|---|
//! | `__CLANG_OFFLOAD_BUNDLE__sycl-<triple>`, `__CLANG_OFFLOAD_BUNDLE__openmp-spir<...>` of linked files; `__CLANG_` in PE | device images of DPC++ for a triple |
//! | `OFFLOAD_DEVICE_CODE`; `OFFLOAD_` in PE | device images of DPC++ for any triples |
//! | `.tgtimg` | the table of the device images of DPC++, which is checked, and followed into other sections |
//! | `__CLANG_OFFLOAD_BUNDLE__<entry ID>` | a code object of a fat object |
//! | `.nvFatBinSegment`; `.nvFatBi` in PE | wrappers of CUDA fatbins, which are checked |
//! | `.hipFatBinSegment`; `.hipFatB` in PE | wrappers of bundles, which are checked, and followed into other sections; in a split library, they hold indices |
//! | `.rocm_kpack_ref`; `.kpackrf` in PE | reference of a split ROCm library to kpack archives with its device code |
//! | `__HIP,__fatbin` and `__NV_CUDA,__fatbin` of Mach-O | wrappers |
//! | all others that are loaded and not run, such as `.rodata`, `.data.rel.ro`, `.rdata`, `.rsrc`, `.cask_resource` of cuDNN | data of a program, searched for code objects and containers of them |
//!
//! Names: clang 22.1.8, both HIP drivers; CUDA 13.5; DPC++ 2026.2; rocm-kpack of February 2026; public documents for
//! MetaX, Moore Threads, Enflame and Cray (no samples of their files).

use object::ObjectKind;
use object::elf::SectionType;

use super::formats::FORMATS;
use super::host::wrapper::WrapperKind;
use super::{kpack, sycl};
use crate::llvm::container::host::Section;

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
pub(crate) enum SectionRule {
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
}

/// The name that lld gives `.llvm.offloading` in PE files, which cut section names to 8 bytes.
pub(crate) const PE_OFFLOADING: &str = ".llvm.of";

/// The sections with HIP's bundles. lld cuts the name in PE files, which have no table for longer names.
pub(crate) const HIP_SECTIONS: [&str; 2] = [".hip_fatbin", ".hip_fat"];

/// The sections with relocatable CUDA code (`nvcc -rdc=true`). The linker keeps them in addition to the linked code.
pub(crate) const RELOCATABLE_CODE: [&str; 2] = ["__nv_relfatbin", "__nv_rel"];

/// The known sections that are not for containers, and their content. The first matching row applies, so longer names
/// come before their beginnings.
static SECTIONS: [(SectionRule, SectionContent); 15] = [
    (SectionRule::BeginsLinked("__CLANG_OFFLOAD_BUNDLE__sycl-"), SectionContent::DeviceImages),
    (SectionRule::BeginsLinked("__CLANG_OFFLOAD_BUNDLE__openmp-spir"), SectionContent::DeviceImages),
    (SectionRule::Begins("__CLANG_OFFLOAD_BUNDLE__"), SectionContent::FatObject),
    (SectionRule::IsLinked("__CLANG_"), SectionContent::DeviceImages),
    (SectionRule::Is("OFFLOAD_DEVICE_CODE"), SectionContent::DeviceImages),
    (SectionRule::IsLinked("OFFLOAD_"), SectionContent::DeviceImages),
    (SectionRule::IsLinked(sycl::TABLE), SectionContent::ImageTable),
    (SectionRule::Is(".nvFatBinSegment"), SectionContent::Wrappers(WrapperKind::Fatbin)),
    (SectionRule::Is(".nvFatBi"), SectionContent::Wrappers(WrapperKind::Fatbin)),
    (SectionRule::Is(".hipFatBinSegment"), SectionContent::Wrappers(WrapperKind::Bundle)),
    (SectionRule::Is(".hipFatB"), SectionContent::Wrappers(WrapperKind::Bundle)),
    (SectionRule::Is(kpack::REFERENCE_SECTIONS[0]), SectionContent::KpackReference),
    (SectionRule::Is(kpack::REFERENCE_SECTIONS[1]), SectionContent::KpackReference),
    (SectionRule::InSegment("__HIP", "__fatbin"), SectionContent::Wrappers(WrapperKind::Bundle)),
    (SectionRule::InSegment("__NV_CUDA", "__fatbin"), SectionContent::Wrappers(WrapperKind::Fatbin)),
];

impl SectionContent {
    /// Returns whether the content is always read as containers.
    pub(crate) fn is_always_containers(self) -> bool {
        matches!(self, Self::Containers | Self::OffloadBinaries)
    }
}

impl SectionRule {
    /// The type `SHT_LLVM_OFFLOADING` (ELF).
    pub(crate) const OFFLOADING_TYPE: Self = Self::Type(SectionType(0x6fff_4c0b));

    /// Returns whether the header of a section meets the rule.
    fn applies_to(self, section: &Section<'_>) -> bool {
        let section_name = section.name.unwrap_or_default();
        match self {
            Self::Type(section_type) => section.section_type() == Some(section_type),
            Self::Is(name) => section_name == name.as_bytes(),
            Self::Begins(name) => section_name.starts_with(name.as_bytes()),
            Self::IsLinked(name) => is_linked(section) && section_name == name.as_bytes(),
            Self::InSegment(segment, name) => {
                section.segment == Some(segment.as_bytes()) && section_name == name.as_bytes()
            }
            Self::BeginsLinked(name) => is_linked(section) && section_name.starts_with(name.as_bytes()),
        }
    }
}

/// Returns whether the object of a section is a program or a library.
pub(crate) fn is_linked(section: &Section<'_>) -> bool {
    section.object != ObjectKind::Relocatable
}

/// Returns the content of a section, or `None` if no rule applies to it.
pub(crate) fn known_content(section: &Section<'_>) -> Option<SectionContent> {
    // The type decides before any name, as for LLVM's packager.
    if SectionRule::OFFLOADING_TYPE.applies_to(section) {
        return Some(SectionContent::OffloadBinaries);
    }
    for row in &FORMATS {
        if let Some(content) = first_content(row.sections, section) {
            return Some(content);
        }
    }
    let as_data = if section.is_data() { Some(SectionContent::Data) } else { None };
    first_content(&SECTIONS, section).or(as_data)
}

/// Returns the content of a section by the first rule that applies to it, or `None` if none does.
fn first_content(rules: &[(SectionRule, SectionContent)], section: &Section<'_>) -> Option<SectionContent> {
    let (_, content) = rules.iter().find(|(rule, _)| rule.applies_to(section))?;
    Some(*content)
}

#[cfg(test)]
mod tests {
    use object::SectionFlags;
    use object::elf::{SHF_ALLOC, SHT_PROGBITS};

    use super::*;

    #[test]
    fn the_type_of_a_section_comes_before_its_name() {
        let section = |name: &'static str, sh_type| Section {
            name: Ok(name.as_bytes()),
            segment: None,
            flags: SectionFlags::Elf { sh_type, sh_flags: SHF_ALLOC },
            object: ObjectKind::Relocatable,
            range: Some((64, 1)),
        };
        let SectionRule::Type(offloading) = SectionRule::OFFLOADING_TYPE else { panic!("no type") };
        for name in [".hip_fatbin", ".nv_fatbin", ".llvm.offloading", ".data"] {
            assert_eq!(known_content(&section(name, offloading)), Some(SectionContent::OffloadBinaries), "{name}");
        }
        assert_eq!(known_content(&section(".llvm.offloading", SHT_PROGBITS)), Some(SectionContent::OffloadBinaries));
        assert_eq!(known_content(&section(".hip_fatbin", SHT_PROGBITS)), Some(SectionContent::Containers));
    }
}
