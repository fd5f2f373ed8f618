//! IDs of other compilers, which LLVM does not know, and our own words for targets.
//!
//! **DPC++**, Intel's compiler for SYCL, writes triples with any number of fields and further architectures
//! (`sycl-spir64_gen`, `sycl-native_cpu-unknown-unknown`). It does so for OpenMP too (`openmp-spir64_x86_64`). The
//! search writes these triples as they are spelled.
//!
//! **Other vendors**, whose compilers derive from clang, write bundles of their own kinds. Their triples have three
//! fields, then one or two dashes, then the target ID. Two dashes are written.
//!
//! | vendor | entry IDs |
//! |---|---|
//! | Moore Threads | `musa-mtgpu-mt-musa--mp_31`, `musa-mtgpu-mt-musa-mp_31` |
//! | MetaX | `maca-mxc-metax-macahca--xcore1000`; `maca-mxc-metax-macahca--xcore1000-bc` for bitcode |
//! | Enflame | `tops-dtu-enflame-tops--efgcu500`, `tops-dtu-enflame-tops` |
//!
//! Sources: the entry IDs that the vendors' tools write and list, as public documents of their users show them. Hygon
//! writes IDs of HIP.

use std::str::FromStr;

use crate::base::bytes::text;
use crate::base::id::amdgpu::{FAMILIES, SubArch, processor_of};
use crate::base::id::triple::Triple;
use crate::base::id::{
    EntryId, IdError, OffloadKind, joined, split_triple, trim_dash, unknown_error, with_four_fields,
};
use crate::llvm::container::offload_binary::ImageInfo;

/// Our word for PTX of any version, in place of a processor.
pub(crate) const ANY_PTX: &str = "ptx";

/// Whether a name is [`ANY_PTX`], in any case.
pub(crate) fn is_any_ptx(name: &str) -> bool {
    name.eq_ignore_ascii_case(ANY_PTX)
}

/// The form of entry IDs of a vendor whose offload kind LLVM does not know.
struct Vendor {
    kind: OffloadKind,
    /// The architecture in triples.
    arch: &'static str,
    /// The texts before the number in names of processors: `mp_` for `mp_31`.
    processor_prefixes: &'static [&'static str],
    /// The suffix that marks bitcode for a processor: `-bc` in `xcore1000-bc`.
    bitcode_suffix: Option<&'static str>,
}

const VENDORS: [Vendor; 3] = [
    Vendor { kind: OffloadKind::Musa, arch: "mtgpu", processor_prefixes: &["mp_"], bitcode_suffix: None },
    Vendor { kind: OffloadKind::Maca, arch: "mxc", processor_prefixes: &["xcore"], bitcode_suffix: Some("-bc") },
    Vendor { kind: OffloadKind::Tops, arch: "dtu", processor_prefixes: &["gcu", "efgcu"], bitcode_suffix: None },
];

impl Vendor {
    /// Returns the vendor that has this kind, or `None` for the kinds that LLVM or DPC++ know.
    fn with_kind(kind: OffloadKind) -> Option<&'static Self> {
        VENDORS.iter().find(|vendor| vendor.kind == kind)
    }

    /// Returns the vendor that may have a processor or bitcode target with this name.
    fn with_processor(name: &str) -> Option<&'static Self> {
        VENDORS.iter().find(|vendor| vendor.may_name(name))
    }

    /// Whether the name has the form of the vendor's processors or bitcode targets: a prefix, a number and, for
    /// bitcode, a suffix.
    fn may_name(&self, name: &str) -> bool {
        let processor = match self.bitcode_suffix {
            Some(suffix) => name.strip_suffix(suffix).unwrap_or(name),
            None => name,
        };
        for prefix in self.processor_prefixes {
            if let Some(number) = processor.strip_prefix(prefix) {
                return !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            }
        }
        false
    }
}

/// Whether the kind is that of a vendor whom LLVM does not know.
pub(crate) fn is_kind_of_vendor(kind: OffloadKind) -> bool {
    Vendor::with_kind(kind).is_some()
}

/// Returns the offload kind of the vendor that may have a processor with this name. Returns `None` for processors of
/// the vendors that LLVM knows.
pub(crate) fn vendor_kind_of_processor(name: &str) -> Option<OffloadKind> {
    Some(Vendor::with_processor(name)?.kind)
}

/// Returns the bitcode target of a processor (`xcore1000-bc` for `xcore1000`), or the processor of a bitcode target.
/// Returns `None` for vendors that do not mark bitcode by a suffix.
pub(crate) fn bitcode_counterpart(name: &str) -> Option<String> {
    let suffix = Vendor::with_processor(name)?.bitcode_suffix?;
    match name.strip_suffix(suffix) {
        Some(processor) => Some(processor.to_owned()),
        None => Some(format!("{name}{suffix}")),
    }
}

impl EntryId {
    /// Parses the entry ID of a bundle, or of an image in an offload binary, which may have an offload kind that
    /// bundles do not have. Needs the feature `search`.
    ///
    /// # Errors
    /// The first [`IdError`] that applies.
    pub fn parse_any(id: &str) -> Result<Self, IdError> {
        let (kind_name, rest) = id.split_once('-').ok_or(IdError::Format)?;
        if let Some(kind) = OffloadKind::from_name(kind_name) {
            if let Some(vendor) = Vendor::with_kind(kind) {
                return parse_of_vendor(vendor, id, rest);
            }
            if let Some(parsed) = parse_of_dpcpp(kind, id, rest) {
                return parsed;
            }
        }
        // LLVM's rules for all other IDs, also for the error of an unknown kind.
        Self::parse_recorded(id)
    }

    /// Returns the entry ID for a known kind, triple and target ID, as recorded in an offload binary. Needs the feature
    /// `search`.
    ///
    /// # Errors
    /// [`IdError`] if the architecture of the triple is unknown, or the target ID breaks a rule.
    pub fn new(kind: OffloadKind, triple: &str, target_id: &str) -> Result<Self, IdError> {
        let parsed = Triple::of_image(triple);
        // LLVM's parser refuses the architectures that only DPC++ has.
        if !parsed.is_known() && is_arch_of_dpcpp(kind, parsed.arch_name()) {
            return Self::from_parts(kind, parsed, target_id, || joined(kind, triple, target_id));
        }
        Self::of_image(kind, triple, target_id)
    }

    /// Returns the processor that bitcode is for, or `None` if the ID does not mark bitcode by a suffix.
    pub(crate) fn processor_of_bitcode(&self) -> Option<&str> {
        let suffix = Vendor::with_kind(self.kind())?.bitcode_suffix?;
        self.target_id().processor().strip_suffix(suffix)
    }
}

impl FromStr for EntryId {
    type Err = IdError;

    fn from_str(id: &str) -> Result<Self, IdError> {
        Self::parse_any(id)
    }
}

/// Returns the entry ID of an image in an offload binary if only DPC++ has its triple. Returns `None` if LLVM knows the
/// triple, or if DPC++ does not know it either: the ID that LLVM gives the image is used then.
pub(crate) fn id_of_dpcpp_image(image: &ImageInfo) -> Option<Vec<u8>> {
    let kind = image.offload_kind()?;
    let triple = text(image.triple())?;
    if !is_arch_of_dpcpp(kind, arch_of(&triple)) {
        return None;
    }
    let id = EntryId::new(kind, &triple, &text(image.arch())?).ok()?;
    if id.triple().is_known() {
        return None;
    }
    Some(id.to_string().into_bytes())
}

/// Parses an entry ID that has the kind of `vendor`. `rest` is the text of `id` after the kind.
fn parse_of_vendor(vendor: &Vendor, id: &str, rest: &str) -> Result<EntryId, IdError> {
    let mut fields = rest.splitn(4, '-');
    let three_fields: Vec<&str> = fields.by_ref().take(3).collect();
    let after_triple = fields.next().unwrap_or_default();
    // The second dash before the target ID is optional; `splitn` has removed the first one.
    let target_id = trim_dash(after_triple.strip_prefix('-').unwrap_or(after_triple));
    let triple = Triple::parse(&with_four_fields(three_fields.join("-"))?);
    if triple.arch_name() != vendor.arch {
        return Err(unknown_error(id, vendor.kind.name(), Some(vendor.kind), rest));
    }
    EntryId::from_parts(vendor.kind, triple, target_id, || id.to_owned())
}

/// Parses an ID of DPC++, or returns `None` if it follows LLVM's rules. `rest` is the text after the kind.
///
/// In IDs of SYCL, every triple follows the rules of DPC++. In IDs of OpenMP, only triples that LLVM 22.1.8 does not
/// allow do so.
fn parse_of_dpcpp(kind: OffloadKind, id: &str, rest: &str) -> Option<Result<EntryId, IdError>> {
    if kind != OffloadKind::Sycl && !is_arch_of_dpcpp(kind, arch_of(rest)) {
        return None;
    }
    let (mut triple, target_id) = split_triple(rest);
    // LLVM allows triples with known architectures and at least two fields, so its rules apply to these.
    if kind == OffloadKind::OpenMp && triple.contains('-') && Triple::parse(&triple).is_known() {
        return None;
    }
    // Without a target ID, dashes at the end separate nothing.
    if target_id.is_empty() {
        triple.truncate(triple.trim_end_matches('-').len());
    }
    let triple = Triple::parse(&triple);
    // Only an ID of SYCL can fail here: in IDs of OpenMP, the first check has ensured an architecture of DPC++.
    if !triple.is_known() && !is_arch_of_dpcpp(kind, triple.arch_name()) {
        return Some(Err(unknown_error(id, kind.name(), Some(kind), rest)));
    }
    Some(EntryId::from_parts(kind, triple, target_id, || id.to_owned()))
}

/// Returns the first field of a triple.
fn arch_of(triple: &str) -> &str {
    triple.split('-').next().unwrap_or_default()
}

/// Whether compilers of SYCL write this architecture in IDs of the kind. LLVM may know it too.
fn is_arch_of_dpcpp(kind: OffloadKind, name: &str) -> bool {
    match kind {
        // AdaptiveCpp, another compiler of SYCL, calls intermediate code for any GPU `generic`.
        OffloadKind::Sycl => matches!(name, "native_cpu" | "generic") || name.starts_with("spir"),
        // DPC++ compiles OpenMP for these architectures only.
        OffloadKind::OpenMp => matches!(name, "spir" | "spir64" | "spir64_gen" | "spir64_x86_64"),
        _ => false,
    }
}

impl SubArch {
    /// Returns the sub-architecture of a processor or of a family's generic processor, or `None` if LLVM 23.1.4 does
    /// not know the processor.
    fn of_processor(name: &str) -> Option<Self> {
        for family in FAMILIES {
            if let Some(member) = family.members.iter().find(|member| processor_of(member) == name) {
                return Some(Self::Member(family, member));
            }
            if family.processor == name {
                return Some(Self::Family(family));
            }
        }
        None
    }
}

impl Triple {
    /// Whether the architecture names an AMD GPU or family that `processor` does not belong to, so that an entry ID
    /// with both contradicts itself. Returns false if either names no AMD GPU that LLVM 23.1.4 knows.
    pub(crate) fn contradicts(&self, processor: &str) -> bool {
        match (self.amdgpu, SubArch::of_processor(processor)) {
            (Some(SubArch::Any | SubArch::Unknown) | None, _) | (_, None) => false,
            (Some(in_triple), Some(of_processor)) => !in_triple.is_compatible_with(of_processor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::processors::{self, ProcessorKind};
    use crate::base::id::{Compatibility, Rules};
    use crate::beyond::container::SearchEntry;
    use crate::llvm::container::Entry;

    #[test]
    fn every_amd_processor_has_a_sub_architecture() {
        for known in processors::all().filter(|known| known.kind == ProcessorKind::AmdGcn) {
            assert_eq!(SubArch::of_processor(known.name).and_then(SubArch::processor).as_deref(), Some(known.name));
        }
        assert_eq!(SubArch::of_processor("gfx9999"), None);
    }

    fn id(text: &str) -> EntryId {
        EntryId::parse_any(text).unwrap()
    }

    fn compare(entry: &str, request: &str) -> Compatibility {
        id(entry).compatibility(&id(request), Rules::default())
    }

    #[test]
    fn sycl_ids_are_those_of_dpcpp() {
        for (typed, expected) in [
            ("sycl-spir64", "sycl-spir64"),
            ("sycl-spir64_gen-unknown-unknown", "sycl-spir64_gen-unknown-unknown"),
            ("sycl-spir64-unknown-unknown-sycldevice", "sycl-spir64-unknown-unknown-sycldevice-"),
            ("sycl-native_cpu-unknown-unknown", "sycl-native_cpu-unknown-unknown"),
            ("sycl-nvptx64-nvidia-cuda-sm_50", "sycl-nvptx64-nvidia-cuda-unknown-sm_50"),
            ("sycl-amdgcn-amd-amdhsa-gfx90a:xnack+", "sycl-amdgcn-amd-amdhsa--gfx90a:xnack+"),
            ("sycl-spir64_gen-unknown-gfx90a", "sycl-spir64_gen-unknown---gfx90a"),
            ("openmp-spir64", "openmp-spir64"),
            ("openmp-spir64_gen-unknown-unknown", "openmp-spir64_gen-unknown-unknown"),
        ] {
            for id in [typed, expected] {
                let id: EntryId = id.parse().unwrap();
                assert_eq!(id.to_string(), expected);
            }
            assert!(EntryId::parse(typed).is_err(), "{typed}");
        }
        for id in [
            "sycl",
            "sycl-",
            "sycl-gen-unknown-unknown",
            "openmp-x86_64",
            "openmp-gen",
            "sycl-fpga_aocx",
            "fpga-spir64",
            "hip-spir64",
        ] {
            assert!(EntryId::parse_any(id).is_err(), "{id}");
        }
        assert_eq!(compare("sycl-spir64-unknown-unknown", "sycl-spir64"), Compatibility::Exact);
        assert_ne!(id("sycl-spir64-unknown-unknown"), id("sycl-spir64"));
        for (entry, request) in [
            ("sycl-spir64_gen", "sycl-spir64_x86_64"),
            ("sycl-spir64", "sycl-spir64_gen"),
            ("sycl-native_cpu", "sycl-spir64_fpga"),
            ("sycl-spir64", "sycl-spirv64"),
        ] {
            assert_eq!(compare(entry, request), Compatibility::KindOrTriple);
            assert_eq!(compare(request, entry), Compatibility::KindOrTriple);
        }
        for triple in ["spir64_gen", "spir64_gen-unknown-unknown"] {
            let image = EntryId::new(OffloadKind::Sycl, triple, "pvc").unwrap().to_string();
            assert_eq!(image, "sycl-spir64_gen-unknown-unknown--pvc");
            assert_eq!(id(&image).target_id().processor(), "pvc");
        }
    }

    #[test]
    fn images_of_dpcpp_have_ids_that_llvm_does_not_know() {
        for (kind_number, triple, expected) in [
            (8, "spir64_gen-unknown-unknown", Some("sycl-spir64_gen-unknown-unknown--pvc")),
            (8, "spir64_gen", Some("sycl-spir64_gen-unknown-unknown--pvc")),
            (1, "spir64_x86_64", Some("openmp-spir64_x86_64-unknown-unknown--pvc")),
            (8, "spir64-unknown-unknown", None),
            (8, "nonsense", None),
            (4, "spir64_gen", None),
            (0, "spir64_gen", None),
        ] {
            let strings = vec![(b"triple".to_vec(), triple.into()), (b"arch".to_vec(), b"pvc".to_vec())];
            let image = ImageInfo { kind_number, strings, ..ImageInfo::default() };
            let id = id_of_dpcpp_image(&image);
            assert_eq!(id.as_deref(), expected.map(str::as_bytes), "{triple}");
            // The search shows this ID, and LLVM's otherwise.
            let entry =
                SearchEntry::from(Entry { image: Some(Box::new(image.clone())), ..Entry::at(&image.entry_id(), 0..4) });
            assert_eq!(entry.id(), id.unwrap_or_else(|| image.entry_id()));
        }
    }

    #[test]
    fn ids_of_other_vendors_have_one_or_two_dashes_before_the_target() {
        for (typed, expected, target) in [
            ("musa-mtgpu-mt-musa--mp_31", "musa-mtgpu-mt-musa--mp_31", "mp_31"),
            ("musa-mtgpu-mt-musa-mp_31", "musa-mtgpu-mt-musa--mp_31", "mp_31"),
            ("maca-mxc-metax-macahca--xcore1000", "maca-mxc-metax-macahca--xcore1000", "xcore1000"),
            ("maca-mxc-metax-macahca--xcore1000-bc", "maca-mxc-metax-macahca--xcore1000-bc", "xcore1000-bc"),
            ("tops-dtu-enflame-tops--efgcu500", "tops-dtu-enflame-tops--efgcu500", "efgcu500"),
            ("tops-dtu-enflame-tops", "tops-dtu-enflame-tops--", ""),
            ("tops-dtu-enflame-tops-", "tops-dtu-enflame-tops--", ""),
        ] {
            for id in [typed, expected] {
                let id = EntryId::parse_any(id).unwrap();
                assert_eq!((id.to_string().as_str(), id.target_id().processor()), (expected, target), "{typed}");
                assert_eq!(id.kind().name(), typed.split('-').next().unwrap());
            }
            // LLVM makes no such bundles.
            assert!(EntryId::parse(typed).is_err(), "{typed}");
        }
        for id in
            ["musa", "musa-mtgpu", "musa-nvptx64-nvidia-cuda--mp_31", "maca-mtgpu-mt-musa--mp_31", "mus-mtgpu-mt-musa"]
        {
            assert!(EntryId::parse_any(id).is_err(), "{id}");
        }
        assert_eq!(id("maca-mxc-metax-macahca--xcore1000-bc").processor_of_bitcode(), Some("xcore1000"));
        assert_eq!(id("maca-mxc-metax-macahca--xcore1000").processor_of_bitcode(), None);
        assert_eq!(id("tops-dtu-enflame-tops--x-bc").processor_of_bitcode(), None);
    }

    #[test]
    fn recorded_ids_are_read_as_they_were_typed() {
        let fields = ["gfx90a", "sm_50", "pvc", "", "unknown", "nvidia", "cuda", "amdhsa", "x"];
        let dpcpp =
            ["sycl-spir64", "sycl-spir64_gen", "sycl-nvptx64", "sycl-amdgcn", "sycl-native_cpu", "openmp-spir64"];
        let mut count = 0;
        for start in dpcpp.into_iter().chain(["hip-amdgcn", "openmp-nvptx64", "host-x86_64"]) {
            // A GPU is not a vendor.
            let mut ids: Vec<String> = fields[3..].iter().map(|vendor| format!("{start}-{vendor}")).collect();
            for _ in 0..3 {
                ids = ids.iter().flat_map(|id| fields.map(|field| format!("{id}-{field}"))).collect();
                for (typed, id) in ids.iter().filter_map(|typed| Some((typed, EntryId::parse_any(typed).ok()?))) {
                    let found = EntryId::parse_any(&id.to_string()).unwrap().compatibility(&id, Rules::default());
                    assert_eq!(found, Compatibility::Exact, "{typed}: {id}");
                    count += 1;
                }
            }
        }
        assert!(count > 40_000, "{count}");
    }
}
