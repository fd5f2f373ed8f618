//! The code objects of a bundle, as a runtime compares them with a GPU.

use std::collections::BTreeSet;
use std::fmt;

use crate::base::id::target_id::TargetId;
use crate::base::id::{EntryId, OffloadKind};
use crate::beyond::container::kpack;
use crate::beyond::ids::is_kind_of_vendor;
use crate::beyond::runtime::loadable::{self, Unfound};
use crate::beyond::scan::{Format, Found};
use crate::llvm::container::content_kind::ContentKind;

/// The vendor of a GPU, whose runtime takes no code of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GpuVendor {
    Amd,
    Nvidia,
    /// Another one whose kind of entry IDs is known.
    Of(OffloadKind),
    Other,
}

/// A code object that a runtime may choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Code {
    /// Machine code for an AMD GPU.
    Amd(TargetId),
    /// SPIR-V that AMD's runtime compiles.
    AmdSpirV,
    /// Machine code for an NVIDIA GPU.
    Cubin(Sm),
    /// PTX, which NVIDIA's driver compiles.
    Ptx(Sm),
    /// LTO-IR, which a program links for its GPU with NVIDIA's linker.
    LtoIr(Sm),
    /// Code for another GPU.
    Other(String),
}

/// An architecture of NVIDIA's: the compute capability without its dot, such as 90, and the suffix of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sm {
    pub(crate) number: u32,
    pub(crate) suffix: Suffix,
}

/// What code may use beyond the features that later GPUs have too, in the order in which it is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Suffix {
    /// Features of this architecture alone (`a`).
    Architecture,
    /// Features of its family (`f`).
    Family,
    /// None.
    None,
}

impl Sm {
    /// Parses the part of a name after `sm_` or `compute_`, such as `90a`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = match text.strip_prefix(digits)? {
            "" => Suffix::None,
            "a" => Suffix::Architecture,
            "f" => Suffix::Family,
            _ => return None,
        };
        let is_number = (2..=3).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number && !digits.starts_with('0'))?;
        Some(Self { number, suffix })
    }

    /// The major and the minor number of the compute capability.
    pub(crate) fn capability(self) -> (u32, u32) {
        (self.number.checked_div(10).unwrap_or(0), self.number.checked_rem(10).unwrap_or(0))
    }
}

impl Code {
    /// The name of its target, which is also that of a GPU that it serves.
    pub(crate) fn name(&self) -> String {
        let sm = |prefix, Sm { number, suffix }: &Sm| {
            let suffix = match suffix {
                Suffix::Architecture => "a",
                Suffix::Family => "f",
                Suffix::None => "",
            };
            format!("{prefix}_{number}{suffix}")
        };
        match self {
            Self::Amd(target) => target.to_string(),
            Self::AmdSpirV => AMD_SPIR_V.to_owned(),
            Self::Cubin(code) => sm("sm", code),
            Self::Ptx(code) => sm("compute", code),
            Self::LtoIr(code) => sm("lto", code),
            Self::Other(target) => target.clone(),
        }
    }

    /// Returns the code of an entry for a GPU with this ID, or `None` for what no runtime takes.
    fn of_entry(id: &EntryId, content: Option<ContentKind>) -> Option<Self> {
        let target = id.target();
        if content == Some(ContentKind::Empty) {
            return None;
        }
        if target.processor() == AMD_SPIR_V {
            return Some(Self::AmdSpirV);
        }
        if target.is_empty() {
            return None;
        }
        match id.triple().arch() {
            "amdgpu" => Some(Self::Amd(target.into_owned())),
            "nvptx" | "nvptx64" => Self::of_nvidia(target.processor(), content),
            _ => Some(Self::Other(target.to_string())),
        }
    }

    /// Returns the code of an entry, for which LTO-IR counts like PTX: it is compiled for as many GPUs, or `None` if
    /// the target of the entry does not tell for which GPUs it is.
    pub(crate) fn compiled_for(id: &EntryId, content: Option<ContentKind>) -> Option<Self> {
        match content {
            Some(ContentKind::Bundle | ContentKind::FatBinary) => None,
            Some(ContentKind::Empty) => Self::of_entry(id, None),
            content => match Self::of_entry(id, content) {
                Some(Self::LtoIr(sm)) => Some(Self::Ptx(sm)),
                code => code,
            },
        }
    }

    /// The code with this [name](Self::name).
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == AMD_SPIR_V {
            return Some(Self::AmdSpirV);
        }
        Self::of_nvidia(name, None).or_else(|| Some(Self::Amd(name.parse().ok()?)))
    }

    fn of_nvidia(processor: &str, content: Option<ContentKind>) -> Option<Self> {
        let (form, sm) = processor.split_once('_')?;
        let sm = Sm::parse(sm)?;
        match (form, content) {
            ("sm", Some(ContentKind::Ptx)) | ("compute", _) => Some(Self::Ptx(sm)),
            ("sm", Some(ContentKind::LtoIr)) | ("lto", _) => Some(Self::LtoIr(sm)),
            ("sm", _) => Some(Self::Cubin(sm)),
            _ => None,
        }
    }

    /// The code that a kpack archive holds for a target ID.
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

/// The code of a bundle.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    /// The code objects that runtimes find.
    pub(crate) found: Vec<Held>,
    /// Code that HIP's runtime does not find there.
    pub(crate) unfound: Vec<UnfoundCode>,
    /// The vendors of the GPUs for which it has entries, found or not.
    pub(crate) vendors: BTreeSet<GpuVendor>,
    /// Whether it has only code that is itself a container, which the search reports too.
    pub(crate) is_outer: bool,
}

/// A code object in a bundle.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Its index in the bundle.
    pub(crate) index: usize,
    pub(crate) kind: OffloadKind,
    pub(crate) code: Code,
}

/// A code object that HIP's runtime does not find in its bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnfoundCode {
    pub(crate) code: Code,
    /// The entry ID, safe to print on a terminal.
    pub(crate) id: String,
    pub(crate) reason: Unfound,
}

/// The entry ID, and what the runtime looks for.
impl fmt::Display for UnfoundCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HIP's runtime does not find '{}': it looks for {}", self.id, self.reason.sought())
    }
}

impl Codes {
    pub(crate) fn of(found: &Found<'_>) -> Self {
        let unfound = loadable::unfound_in(found);
        let mut codes = Self { vendors: vendor_of(found.format).into_iter().collect(), ..Self::default() };
        let mut has_container = false;
        for code_object in found.code_objects() {
            let Some(id) = code_object.entry_id().filter(|id| id.kind() != OffloadKind::Host) else { continue };
            codes.vendors.insert(vendor_in(&id));
            let (content, kind, index) = (code_object.kind(), id.kind(), code_object.index());
            if matches!(content, Some(ContentKind::Bundle | ContentKind::FatBinary)) {
                has_container = true;
                continue;
            }
            let code = Code::of_entry(&id, content).filter(|_| code_object.unreadable().is_none());
            match (code, unfound.get(&index)) {
                (Some(code), None) => codes.found.push(Held { index, kind, code }),
                (Some(code), Some(&reason)) => {
                    codes.unfound.push(UnfoundCode { code, id: code_object.shown_id(), reason });
                }
                (None, _) => {}
            }
        }
        codes.keep_lto_ir_alone();
        codes.is_outer = has_container && codes.found.is_empty() && codes.unfound.is_empty();
        codes
    }

    /// Leaves out LTO-IR beside other code: a program whose runtime finds code that it can load does not link at run time.
    fn keep_lto_ir_alone(&mut self) {
        let is_lto_ir = |held: &Held| matches!(held.code, Code::LtoIr(_));
        if !self.found.iter().all(is_lto_ir) {
            self.found.retain(|held| !is_lto_ir(held));
        }
    }

    /// The code alone.
    pub(crate) fn into_codes(self) -> Vec<Code> {
        self.found.into_iter().map(|held| held.code).collect()
    }
}

/// The vendor of the GPUs that a triple is for.
fn vendor_in(id: &EntryId) -> GpuVendor {
    match (id.triple().arch(), id.triple().vendor()) {
        _ if is_kind_of_vendor(id.kind()) => GpuVendor::Of(id.kind()),
        ("amdgpu", _) | (_, "amd") => GpuVendor::Amd,
        ("nvptx" | "nvptx64", _) => GpuVendor::Nvidia,
        _ => GpuVendor::Other,
    }
}

/// The vendor whose code alone a container holds.
pub(crate) fn vendor_of(format: Format) -> Option<GpuVendor> {
    match format {
        Format::Fatbin => Some(GpuVendor::Nvidia),
        Format::Kpack => Some(GpuVendor::Amd),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_containers_hold_code_of_one_vendor() {
        for (format, vendor) in [
            (Format::Fatbin, Some(GpuVendor::Nvidia)),
            (Format::Kpack, Some(GpuVendor::Amd)),
            (Format::Bundle, None),
            (Format::OffloadBinary, None),
        ] {
            assert_eq!(vendor_of(format), vendor, "{format:?}");
        }
    }

    #[test]
    fn names_of_targets_are_names_of_code() {
        let amd = |target: &str| Code::Amd(target.parse().unwrap());
        for (target, expected) in [
            (&b"amdgcnspirv"[..], Some(Code::AmdSpirV)),
            (b"gfx906:xnack+", Some(amd("gfx906:xnack+"))),
            (b"gfx9999", Some(amd("gfx9999"))),
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
