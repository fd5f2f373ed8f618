//! The needs of code: the releases of drivers and runtimes that read it.

use std::fmt;

use super::ptx_versions::cuda_of;

/// Code of a file that older drivers or runtimes do not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Need {
    /// PTX of this version, the newest of the file, which the driver compiles.
    Ptx((u16, u16)),
    /// Code in CUDA fatbins that is compressed with zstd.
    CudaZstd,
    /// Compressed bundles with this version of the header.
    CompressedBundles(u32),
    /// Code objects of this version for AMD GPUs.
    AmdCode(u8),
}

impl Need {
    /// The name of the code.
    pub fn code(self) -> String {
        match self {
            Self::Ptx((major, minor)) => format!("PTX {major}.{minor}"),
            Self::CudaZstd => "CUDA code compressed with zstd".to_owned(),
            Self::CompressedBundles(version) => format!("compressed bundles of version {version}"),
            Self::AmdCode(version) => format!("AMD code objects of version {version}"),
        }
    }

    /// Describes what the code needs. The releases of drivers are those of NVIDIA's table of PTX versions, and of the
    /// release notes of CUDA 12.4, of ROCm 6.2 and 7.0, and of clang 21, which writes code objects of version 6.
    pub fn needs(self) -> String {
        match self {
            Self::Ptx(version) => match cuda_of(version) {
                Some((major, minor)) => {
                    format!("a driver of CUDA {major}.{minor} or newer, to compile for GPUs without machine code")
                }
                None => "a driver that knows it; its CUDA release is not known".to_owned(),
            },
            Self::CudaZstd => "a driver of CUDA 12.4 or newer".to_owned(),
            Self::CompressedBundles(0..=2) => "the HIP runtime of ROCm 6.2 or newer".to_owned(),
            Self::CompressedBundles(3) => "the HIP runtime of ROCm 7.0 or newer".to_owned(),
            Self::CompressedBundles(_) => "a HIP runtime that knows it".to_owned(),
            Self::AmdCode(6) => "ROCm 6.3 or newer".to_owned(),
            Self::AmdCode(_) => "a ROCm that knows it; its release is not known".to_owned(),
        }
    }

    /// The first CUDA release with a driver that reads the code, or `None` if it is not known, and for other vendors.
    pub fn cuda(self) -> Option<(u16, u16)> {
        match self {
            Self::Ptx(version) => cuda_of(version),
            Self::CudaZstd => Some(ZSTD_CUDA),
            Self::CompressedBundles(_) | Self::AmdCode(_) => None,
        }
    }

    /// Describes what the code needs if a driver of this CUDA release does not read it, as in `PTX 9.0 needs a driver of
    /// CUDA 13.0`. Returns `None` if it does, or if that is not known.
    pub(crate) fn beyond(self, driver: (u16, u16)) -> Option<String> {
        let (major, minor) = self.cuda().filter(|cuda| *cuda > driver)?;
        Some(format!("{} needs a driver of CUDA {major}.{minor}", self.code()))
    }
}

/// The first CUDA release whose driver reads code in fatbins that is compressed with zstd.
const ZSTD_CUDA: (u16, u16) = (12, 4);

/// Writes the code and what it needs.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.needs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_tables_is_said() {
        for (need, text) in [
            (Need::Ptx((9, 5)), "PTX 9.5: a driver of CUDA 13.5 or newer, to compile for GPUs without machine code"),
            (Need::Ptx((99, 0)), "PTX 99.0: a driver that knows it; its CUDA release is not known"),
            (Need::CudaZstd, "CUDA code compressed with zstd: a driver of CUDA 12.4 or newer"),
            (Need::CompressedBundles(2), "compressed bundles of version 2: the HIP runtime of ROCm 6.2 or newer"),
            (Need::CompressedBundles(3), "compressed bundles of version 3: the HIP runtime of ROCm 7.0 or newer"),
            (Need::CompressedBundles(4), "compressed bundles of version 4: a HIP runtime that knows it"),
            (Need::AmdCode(6), "AMD code objects of version 6: ROCm 6.3 or newer"),
            (Need::AmdCode(7), "AMD code objects of version 7: a ROCm that knows it; its release is not known"),
        ] {
            assert_eq!(need.to_string(), text);
        }
    }

    #[test]
    fn drivers_read_code_of_their_release_and_of_earlier_ones() {
        for (need, driver, text) in [
            (Need::Ptx((9, 0)), (12, 4), Some("PTX 9.0 needs a driver of CUDA 13.0")),
            (Need::Ptx((9, 0)), (13, 0), None),
            (Need::Ptx((8, 4)), (12, 4), None),
            (Need::Ptx((99, 0)), (12, 4), None),
            (Need::CudaZstd, (12, 3), Some("CUDA code compressed with zstd needs a driver of CUDA 12.4")),
            (Need::CudaZstd, (12, 4), None),
            (Need::CompressedBundles(3), (1, 0), None),
        ] {
            assert_eq!(need.beyond(driver).as_deref(), text, "{need:?} {driver:?}");
        }
    }
}
