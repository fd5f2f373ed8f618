//! Offload kinds: the first field of bundle entry IDs.
//!
//! Vendors whose compilers derive from clang write bundles of their own kinds:
//!
//! | vendor | entry IDs |
//! |---|---|
//! | Moore Threads | `musa-mtgpu-mt-musa--mp_31`, `musa-mtgpu-mt-musa-mp_31` |
//! | MetaX | `maca-mxc-metax-macahca--xcore1000`; `maca-mxc-metax-macahca--xcore1000-bc` for bitcode |
//! | Enflame | `tops-dtu-enflame-tops--efgcu500`, `tops-dtu-enflame-tops` |
//!
//! Sources: what their tools write and list, as public documents of their users show it. Hygon's are those of HIP.

use super::Rules;

/// The runtime that manages a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OffloadKind {
    /// Host code.
    Host,
    /// OpenMP offloading.
    OpenMp,
    /// HIP.
    Hip,
    /// HIP, code objects of ABI version 4 and later.
    HipV4,
    /// CUDA. In offload binaries only.
    Cuda,
    /// SYCL. In offload binaries, and in bundles of Intel's DPC++.
    Sycl,
    /// HCC, the compiler of ROCm before 3.5. In its bundles only, which LLVM's tool does not make.
    Hcc,
    /// MUSA, of Moore Threads. In its bundles only.
    Musa,
    /// MACA, of MetaX. In its bundles only.
    Maca,
    /// TopsRider, of Enflame. In its bundles only.
    Tops,
    /// Any other, of which nothing is known. See [`EntryId::by_name`](super::EntryId::by_name).
    Other,
}

/// The facts about the compiler of a vendor whose kind LLVM does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vendor {
    kind: OffloadKind,
    /// The architecture in triples.
    pub(super) arch: &'static str,
    /// The beginnings of the names of processors, before a number.
    processors: &'static [&'static str],
    /// The suffix of the processor if the code object is bitcode for it.
    pub(super) bitcode: Option<&'static str>,
}

const VENDORS: [Vendor; 3] = [
    Vendor { kind: OffloadKind::Musa, arch: "mtgpu", processors: &["mp_"], bitcode: None },
    Vendor { kind: OffloadKind::Maca, arch: "mxc", processors: &["xcore"], bitcode: Some("-bc") },
    Vendor { kind: OffloadKind::Tops, arch: "dtu", processors: &["gcu", "efgcu"], bitcode: None },
];

/// The kind of another vendor whose processor may have this name.
pub(crate) fn vendor_of_processor(name: &str) -> Option<OffloadKind> {
    let is_numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_of = |vendor: &&Vendor| {
        let name = vendor.bitcode.and_then(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        vendor.processors.iter().any(|start| name.strip_prefix(start).is_some_and(is_numbered))
    };
    VENDORS.iter().find(is_of).map(|vendor| vendor.kind)
}

/// The target of bitcode for a processor, and the processor of such a target, if its vendor marks bitcode by a suffix.
pub(crate) fn other_form(name: &str) -> Option<String> {
    let kind = vendor_of_processor(name)?;
    let suffix = VENDORS.iter().find(|vendor| vendor.kind == kind)?.bitcode?;
    Some(name.strip_suffix(suffix).map_or_else(|| format!("{name}{suffix}"), str::to_owned))
}

impl OffloadKind {
    /// All kinds with a name.
    pub fn all() -> impl Iterator<Item = Self> {
        let llvm = [Self::Host, Self::OpenMp, Self::Hip, Self::HipV4, Self::Cuda, Self::Sycl, Self::Hcc];
        llvm.into_iter().chain(VENDORS.map(|vendor| vendor.kind))
    }

    /// The kind with this name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// The name in entry IDs; empty for [`OffloadKind::Other`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::OpenMp => "openmp",
            Self::Hip => "hip",
            Self::HipV4 => "hipv4",
            Self::Cuda => "cuda",
            Self::Sycl => "sycl",
            Self::Hcc => "hcc",
            Self::Musa => "musa",
            Self::Maca => "maca",
            Self::Tops => "tops",
            Self::Other => "",
        }
    }

    /// Whether this is one of the two HIP kinds.
    pub fn is_hip(self) -> bool {
        matches!(self, Self::Hip | Self::HipV4)
    }

    /// The kind with this name, if LLVM allows it in bundles.
    pub(super) fn of_bundle(name: &str) -> Option<Self> {
        let is_allowed = |kind: &Self| matches!(kind, Self::Host | Self::OpenMp | Self::Hip | Self::HipV4);
        Self::from_name(name).filter(is_allowed)
    }

    /// The vendor whose kind this is, if LLVM does not know it.
    pub(crate) fn vendor(self) -> Option<Vendor> {
        VENDORS.into_iter().find(|vendor| vendor.kind == self)
    }

    /// Whether a code object of this kind may serve a request for `other`.
    pub fn is_compatible_with(self, other: Self, rules: Rules) -> bool {
        let openmp = |a: Self, b: Self| rules.hip_serves_openmp && a == Self::OpenMp && b.is_hip();
        self == other || (self.is_hip() && other.is_hip()) || openmp(self, other) || openmp(other, self)
    }
}
