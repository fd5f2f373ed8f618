//! Offload kinds: the first field of bundle entry IDs.

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
    /// CUDA. Only in offload binaries.
    Cuda,
    /// SYCL. Only in offload binaries, and in bundles of Intel's DPC++.
    Sycl,
    /// HCC, the compiler of ROCm before 3.5. Only in bundles of that compiler, which LLVM's tool does not make.
    Hcc,
    /// MUSA, of Moore Threads. Only in bundles of MUSA's compiler.
    Musa,
    /// MACA, of MetaX. Only in bundles of MACA's compiler.
    Maca,
    /// TopsRider, of Enflame. Only in bundles of TopsRider's compiler.
    Tops,
}

impl OffloadKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        let llvm = [Self::Host, Self::OpenMp, Self::Hip, Self::HipV4, Self::Cuda, Self::Sycl];
        llvm.into_iter().chain([Self::Hcc, Self::Musa, Self::Maca, Self::Tops])
    }

    /// Returns the kind with this name, or `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// The name in entry IDs.
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
        }
    }

    /// Whether this is one of the two HIP kinds.
    pub fn is_hip(self) -> bool {
        matches!(self, Self::Hip | Self::HipV4)
    }

    /// Returns the kind with this name, or `None` if LLVM does not allow it in bundles.
    pub(super) fn from_name_in_bundle(name: &str) -> Option<Self> {
        match Self::from_name(name)? {
            kind @ (Self::Host | Self::OpenMp | Self::Hip | Self::HipV4) => Some(kind),
            _ => None,
        }
    }

    /// Whether a code object of this kind may serve a request for the kind `other`. The two HIP kinds always serve each
    /// other; `rules` decide about HIP and OpenMP.
    pub fn is_compatible_with(self, other: Self, rules: Rules) -> bool {
        match (self, other) {
            _ if self == other => true,
            (Self::OpenMp, kind) | (kind, Self::OpenMp) => kind.is_hip() && rules.hip_serves_openmp,
            _ => self.is_hip() && other.is_hip(),
        }
    }
}
