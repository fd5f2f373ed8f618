//! The code objects of a bundle, as a runtime compares them with a GPU.

use std::collections::BTreeSet;
use std::fmt;

use crate::base::id::target_id::TargetId;
use crate::base::id::triple::Triple;
use crate::base::id::{EntryId, OffloadKind};
pub(crate) use crate::beyond::code::GpuVendor;
use crate::beyond::code::intel_gpu;
use crate::beyond::codec::Codec;
use crate::beyond::container::{ContentKind, kpack};
use crate::beyond::ids::is_kind_of_vendor;
use crate::beyond::runtime::loadable::{self, UnfoundReason};
use crate::beyond::runtime::need::Need;
use crate::beyond::scan::sections::HIP_SECTIONS;
use crate::beyond::scan::{CodeObjectRef, Format, FoundBundle, Place};

/// A code object that a runtime may choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Code {
    /// Machine code for an AMD GPU.
    Amd(TargetId),
    /// SPIR-V that AMD's runtime compiles.
    AmdSpirV,
    /// Machine code for an NVIDIA GPU, and the need that limits which drivers load it.
    Cubin(Sm, Option<Need>),
    /// PTX, which NVIDIA's driver compiles, and the need that limits which drivers read it.
    Ptx(Sm, Option<Need>),
    /// LTO-IR, which a program links for its GPU with NVIDIA's linker.
    LtoIr(Sm),
    /// Machine code for a GPU of Intel's or of another vendor, with this target ID.
    Other(String),
    /// SPIR-V with this triple, which Intel's driver compiles for any of its GPUs.
    SpirV(String),
}

/// An architecture of NVIDIA: the compute capability without its dot, such as 90, and the suffix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sm {
    /// The major version times ten, plus the minor version.
    pub(crate) number: u32,
    pub(crate) suffix: Suffix,
}

/// The features that code may use although later GPUs do not have them, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Suffix {
    /// Features of this architecture alone (`a`).
    Architecture,
    /// Features of its family (`f`).
    Family,
    /// No additional features.
    None,
}

impl Sm {
    /// Parses the part of a name after `sm_` or `compute_`, such as `90a`. Returns `None` unless it is a number of two
    /// or three digits, without a zero at the start, and a known suffix.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = match text.strip_prefix(digits)? {
            "" => Suffix::None,
            "a" => Suffix::Architecture,
            "f" => Suffix::Family,
            _ => return None,
        };
        let is_number = (2..=3).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number || digits.starts_with('0') {
            return None;
        }
        Some(Self { number: digits.parse().ok()?, suffix })
    }

    /// Returns the name with a prefix such as `sm` or `compute`.
    fn with_prefix(self, prefix: &str) -> String {
        let suffix = match self.suffix {
            Suffix::Architecture => "a",
            Suffix::Family => "f",
            Suffix::None => "",
        };
        format!("{prefix}_{}{suffix}", self.number)
    }

    /// Returns the major and the minor version of the compute capability.
    pub(crate) fn capability(self) -> (u32, u32) {
        (self.number.checked_div(10).unwrap_or(0), self.number.checked_rem(10).unwrap_or(0))
    }
}

impl Code {
    /// Returns the name of the target of the code. Parsed as a device, the name means the GPUs that the code serves.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Amd(target) => target.to_string(),
            Self::AmdSpirV => AMD_SPIR_V.to_owned(),
            Self::Cubin(sm, _) => sm.with_prefix("sm"),
            Self::Ptx(sm, _) => sm.with_prefix("compute"),
            Self::LtoIr(sm) => sm.with_prefix("lto"),
            Self::Other(name) | Self::SpirV(name) => name.clone(),
        }
    }

    /// Returns whether the code is compiled when a program starts, or links it: it is not machine code.
    pub(crate) fn is_jit(&self) -> bool {
        match self {
            Self::AmdSpirV | Self::SpirV(_) | Self::Ptx(..) | Self::LtoIr(_) => true,
            Self::Amd(_) | Self::Cubin(..) | Self::Other(_) => false,
        }
    }

    /// Returns whether the code is for NVIDIA's GPUs.
    fn is_of_nvidia(&self) -> bool {
        matches!(self, Self::Cubin(..) | Self::Ptx(..) | Self::LtoIr(_))
    }

    /// Returns the code with one of these needs: that for the latest driver. Only NVIDIA's code has needs.
    fn with_needs(self, needs: impl IntoIterator<Item = Need>) -> Self {
        let latest = needs.into_iter().max_by_key(|need| need.cuda());
        match self {
            Self::Cubin(sm, _) => Self::Cubin(sm, latest),
            Self::Ptx(sm, _) => Self::Ptx(sm, latest),
            other => other,
        }
    }

    /// Returns the need that limits which drivers load the code, if it is known.
    pub(crate) fn need(&self) -> Option<Need> {
        match self {
            Self::Cubin(_, need) | Self::Ptx(_, need) => *need,
            _ => None,
        }
    }

    /// Returns whether two codes are for the same target. Their needs may differ.
    pub(crate) fn has_target_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cubin(one, _), Self::Cubin(other, _)) | (Self::Ptx(one, _), Self::Ptx(other, _)) => one == other,
            (one, other) => one == other,
        }
    }

    /// Returns the code of an entry with this ID. `recorded` is the target ID that its content records, which counts if
    /// the ID has none. Returns `None` if no runtime takes the code: the entry is empty, no target is known, or NVIDIA
    /// has no target of this name.
    pub(crate) fn of_entry(id: &EntryId, content: Option<ContentKind>, recorded: Option<&str>) -> Option<Self> {
        let target = id.target();
        if content == Some(ContentKind::Empty) {
            return None;
        }
        // SPIR-V for AMD GPUs has this target ID, while its triple is `spirv64-amd-amdhsa`.
        if target.processor() == AMD_SPIR_V {
            return Some(Self::AmdSpirV);
        }
        // Without any target ID, the triple may still name SPIR-V.
        if target.is_empty() {
            return recorded.map_or_else(|| Self::spir_v_of(id.triple()), Self::from_name);
        }
        match id.triple().arch() {
            "amdgpu" => Some(Self::Amd(target.into_owned())),
            "nvptx" | "nvptx64" => Self::of_nvidia(target.processor(), content),
            _ => Some(Self::Other(target.to_string())),
        }
    }

    /// Returns SPIR-V for a triple that names nothing else, or `None` for other triples. Triples such as `spir64_gen` are
    /// for code that is compiled ahead of time.
    fn spir_v_of(triple: &Triple) -> Option<Self> {
        let is_spir_v = matches!(triple.arch_name(), "spir" | "spir64" | "spirv" | "spirv32" | "spirv64");
        if is_spir_v && triple.vendor() != "amd" {
            return Some(Self::SpirV(triple.as_str().trim_end_matches('-').to_owned()));
        }
        None
    }

    /// Returns the code with this [name](Self::name), or `None` if the name is not a target ID. Any name that is not
    /// NVIDIA's or Intel's is parsed like a processor of AMD.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        if name == AMD_SPIR_V {
            return Some(Self::AmdSpirV);
        }
        if intel_gpu::name_of_target(name).is_some() {
            return Some(Self::Other(name.to_owned()));
        }
        match Self::of_nvidia(name, None).or_else(|| Self::spir_v_of(&Triple::parse(name))) {
            Some(code) => Some(code),
            None => Some(Self::Amd(name.parse().ok()?)),
        }
    }

    /// Returns NVIDIA's code for a name such as `sm_90`, or `None` for a name of another form. Entries with PTX or
    /// LTO-IR may be named after the GPU (`sm_90`) rather than the virtual architecture (`compute_90`), so the content
    /// decides.
    fn of_nvidia(processor: &str, content: Option<ContentKind>) -> Option<Self> {
        let (form, sm) = processor.split_once('_')?;
        let sm = Sm::parse(sm)?;
        match (form, content) {
            ("sm", Some(ContentKind::Ptx)) | ("compute", _) => Some(Self::Ptx(sm, None)),
            ("sm", Some(ContentKind::LtoIr)) | ("lto", _) => Some(Self::LtoIr(sm)),
            ("sm", _) => Some(Self::Cubin(sm, None)),
            _ => None,
        }
    }

    /// Returns the code that a kpack archive holds for a target ID, or `None` if the target ID is not valid.
    pub(crate) fn of_kpack(target: &[u8]) -> Option<Self> {
        if target == kpack::SPIR_V {
            return Some(Self::AmdSpirV);
        }
        let target = crate::base::bytes::text(target)?.parse().ok()?;
        Some(Self::Amd(target))
    }
}

/// The target of SPIR-V for all AMD GPUs.
pub(crate) const AMD_SPIR_V: &str = "amdgcnspirv";

/// The code of a bundle, sorted by whether runtimes find it.
#[derive(Debug, Default)]
pub(crate) struct BundleCodes {
    /// The code objects that runtimes find.
    pub(crate) found: Vec<FoundCode>,
    /// The code objects that runtimes do not find or load, because of their IDs or positions in the bundle, or because
    /// of their headers. Each has its offload kind.
    pub(crate) unfound: Vec<(OffloadKind, UnfoundCode)>,
    /// The vendors of the GPUs that the bundle has entries for, found or not. Empty if they are not known.
    pub(crate) vendors: BTreeSet<GpuVendor>,
    /// Whether all code of the bundle is in containers inside of it. The search reports these as bundles too.
    pub(crate) is_outer: bool,
}

/// A code object in a bundle that a runtime finds.
#[derive(Clone, Debug)]
pub(crate) struct FoundCode {
    /// The index in the bundle.
    pub(crate) index: usize,
    pub(crate) kind: OffloadKind,
    pub(crate) code: Code,
}

impl FoundCode {
    /// Returns whether the code is LTO-IR.
    fn is_lto_ir(&self) -> bool {
        matches!(self.code, Code::LtoIr(_))
    }
}

/// A code object that the runtime of its GPU does not find in its bundle, or does not load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UnfoundCode {
    pub(crate) code: Code,
    /// The entry ID, safe to print on a terminal.
    pub(crate) id: String,
    pub(crate) reason: UnfoundReason,
}

/// Writes a sentence with the entry ID and the reason.
impl fmt::Display for UnfoundCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only HIP's runtime looks for entries by their IDs, whatever GPU they name.
        let is_about_lookup = matches!(self.reason, UnfoundReason::Position | UnfoundReason::Triple);
        let runtime = if self.code.is_of_nvidia() && !is_about_lookup { "CUDA's driver" } else { "HIP's runtime" };
        let (verb, reason) = self.reason.texts();
        write!(f, "{runtime} does not {verb} '{}': {reason}", self.id)
    }
}

impl BundleCodes {
    /// Sorts the code objects of a bundle by whether a runtime finds them. Leaves out host code, code objects without a
    /// valid ID or without a target ID, and code objects that cannot be read. Also leaves out containers in the bundle,
    /// which the search reports as separate bundles, and LTO-IR beside other code.
    pub(crate) fn of(found: &FoundBundle<'_>) -> Self {
        let unfound = loadable::unfound_in(found);
        let mut codes = Self { vendors: found.format.row().vendor.into_iter().collect(), ..Self::default() };
        let mut has_container = false;
        for code_object in found.code_objects() {
            let Some(id) = code_object.entry_id() else { continue };
            if id.kind() == OffloadKind::Host {
                continue;
            }
            // Entries count for their vendor even if their code is empty, unreadable or not found.
            codes.vendors.insert(vendor_in(&id));
            let (content, kind, index) = (code_object.kind(), id.kind(), code_object.index());
            if matches!(content, Some(ContentKind::Bundle | ContentKind::FatBinary)) {
                has_container = true;
                continue;
            }
            if code_object.unreadable().is_some() {
                continue;
            }
            // For HIP's runtime, the target ID in the entry ID alone counts.
            let needs_recorded = id.target().is_empty() && !lacks_target(&id);
            let recorded = if needs_recorded { code_object.recorded_target() } else { None };
            let Some(code) = Code::of_entry(&id, content, recorded.as_deref()) else { continue };
            let code = code.with_needs(needs_of(&code_object));
            match unfound.get(&index) {
                None => codes.found.push(FoundCode { index, kind, code }),
                Some(reason) => {
                    let (id, reason) = (code_object.shown_id(), reason.clone());
                    codes.unfound.push((kind, UnfoundCode { code, id, reason }));
                }
            }
        }
        // Clang writes bundles in HIP's sections for AMD's GPUs. Such a bundle has only the host's entry if the code
        // for all GPUs was dropped, as by `recompress --keep-for` with GPUs of another vendor.
        if codes.vendors.is_empty() && is_in_hip_section(found.place) {
            codes.vendors.insert(GpuVendor::Amd);
        }
        codes.keep_lto_ir_alone();
        codes.is_outer = has_container && codes.found.is_empty() && codes.unfound.is_empty();
        codes
    }

    /// Leaves out LTO-IR if there is other code: a program does not link at run time if its runtime finds code that can
    /// be loaded as it is.
    fn keep_lto_ir_alone(&mut self) {
        if !self.found.iter().all(FoundCode::is_lto_ir) {
            self.found.retain(|found| !found.is_lto_ir());
        }
    }
}

/// Returns the needs of a code object that limit which CUDA drivers load it.
fn needs_of(code_object: &CodeObjectRef<'_>) -> impl Iterator<Item = Need> {
    let is_zstd = code_object.found.format == Format::Fatbin
        && code_object.packed().is_some_and(|packed| packed.codec == Codec::Zstd);
    let zstd = is_zstd.then_some(Need::CudaZstd);
    code_object.ptx_version().map(Need::Ptx).into_iter().chain(zstd)
}

/// Returns whether an entry ID for HIP has no target ID. HIP's runtime compares target IDs, so it does not find such
/// code, whatever its content is for.
pub(crate) fn lacks_target(id: &EntryId) -> bool {
    id.target().is_empty() && matches!(id.kind(), OffloadKind::Hip | OffloadKind::HipV4)
}

/// Returns the vendor of the GPUs that an entry with this ID is for. An offload kind of one vendor alone decides,
/// otherwise the triple does.
fn vendor_in(id: &EntryId) -> GpuVendor {
    match (id.triple().arch(), id.triple().vendor()) {
        _ if is_kind_of_vendor(id.kind()) => GpuVendor::Of(id.kind()),
        ("amdgpu", _) | (_, "amd") => GpuVendor::Amd,
        ("nvptx" | "nvptx64", _) => GpuVendor::Nvidia,
        _ if intel_gpu::is_for_intel(id.triple().arch_name()) => GpuVendor::Intel,
        _ => GpuVendor::Other,
    }
}

/// Whether a place is in a section for the bundles of HIP programs.
fn is_in_hip_section(place: &Place) -> bool {
    match place.section() {
        Some(section) => HIP_SECTIONS.contains(&section.as_str()),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_targets_are_names_of_code() {
        for (target, expected) in [
            (&b"amdgcnspirv"[..], Some(Code::AmdSpirV)),
            (b"gfx906:xnack+", Some(Code::Amd("gfx906:xnack+".parse().unwrap()))),
            (b"gfx9999", Some(Code::Amd("gfx9999".parse().unwrap()))),
            (b"\xff", None),
        ] {
            assert_eq!(Code::of_kpack(target), expected, "{}", target.escape_ascii());
        }
        for (processor, content, expected) in [
            ("sm_90a", None, Some("sm_90a")),
            ("sm_90", Some(ContentKind::Cubin), Some("sm_90")),
            ("sm_90", Some(ContentKind::Ptx), Some("compute_90")),
            ("sm_90", Some(ContentKind::LtoIr), Some("lto_90")),
            ("lto_90a", None, Some("lto_90a")),
            ("tileir_100", None, None),
            ("compute_100f", None, Some("compute_100f")),
            ("sm_9", None, None),
            ("sm_1000", None, None),
            ("sm_090", None, None),
            ("sm_90b", None, None),
            ("gfx906", None, None),
        ] {
            let name = Code::of_nvidia(processor, content).map(|code| code.name());
            assert_eq!(name.as_deref(), expected, "{processor} {content:?}");
        }
    }
}
