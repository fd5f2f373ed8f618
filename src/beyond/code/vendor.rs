//! The vendors of GPUs.

use crate::base::id::OffloadKind;

/// The vendor of a GPU. Its runtime takes no code for GPUs of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GpuVendor {
    Amd,
    Nvidia,
    Intel,
    /// Another vendor, whose compiler writes entry IDs with its own offload kind.
    Of(OffloadKind),
    /// An unknown vendor.
    Other,
}

impl GpuVendor {
    /// The name of the vendor, or `None` if it is not AMD, NVIDIA or Intel.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Amd => Some("AMD"),
            Self::Nvidia => Some("NVIDIA"),
            Self::Intel => Some("Intel"),
            Self::Of(_) | Self::Other => None,
        }
    }
}
