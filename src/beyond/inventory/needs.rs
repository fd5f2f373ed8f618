//! What a machine needs to read the code of a file, besides a GPU.

use std::collections::BTreeSet;
use std::{fmt, mem};

use super::contents::Contents;
use crate::beyond::codec::Codec;
use crate::beyond::runtime::cuda_of;
use crate::beyond::scan::Format;

/// Code of a file that older drivers or runtimes do not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Need {
    /// PTX of this version, the newest of the file, which the driver compiles.
    Ptx((u16, u16)),
    /// Code in CUDA fatbins that is compressed with zstd.
    CudaZstd,
    /// Compressed bundles with this version of the header.
    CompressedBundles(u32),
}

impl Need {
    /// The code.
    pub fn code(self) -> String {
        match self {
            Self::Ptx((major, minor)) => format!("PTX {major}.{minor}"),
            Self::CudaZstd => "CUDA code compressed with zstd".to_owned(),
            Self::CompressedBundles(version) => format!("compressed bundles of version {version}"),
        }
    }

    /// What it needs. The releases of drivers are those of NVIDIA's table of PTX versions, and of the release notes of
    /// CUDA 12.4 and of ROCm 6.2 and 7.0.
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
        }
    }
}

/// Writes the code and what it needs.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.needs())
    }
}

impl Contents {
    /// Returns what a machine needs to read the code, one of each kind: for the newest version of it.
    pub fn needs(&self) -> Vec<Need> {
        let mut needs = Needs::default();
        needs.add(self);
        needs.newest()
    }
}

/// What a machine needs to read the code of some files.
#[derive(Clone, Debug, Default)]
pub struct Needs(BTreeSet<Need>);

impl Needs {
    /// Adds the needs of a file.
    pub fn add(&mut self, file: &Contents) {
        for bundle in &file.bundles {
            // Other formats, such as offload binaries, have versions of their own, which HIP's runtime does not read.
            if bundle.info.format == Format::Bundle {
                self.0.extend(bundle.info.compressed.map(|recorded| Need::CompressedBundles(recorded.version)));
            }
            for code_object in &bundle.code_objects {
                self.0.extend(code_object.ptx_version.map(Need::Ptx));
                let codec = code_object.packed.as_ref().map(|packed| packed.codec);
                if bundle.info.format == Format::Fatbin && codec == Some(Codec::Zstd) {
                    self.0.insert(Need::CudaZstd);
                }
            }
        }
    }

    /// Returns one need of each kind, for the newest version.
    pub fn newest(&self) -> Vec<Need> {
        // Versions of one kind follow each other, the newest last.
        let mut newest: Vec<Need> = Vec::new();
        for need in &self.0 {
            match newest.last_mut() {
                Some(last) if mem::discriminant(last) == mem::discriminant(need) => *last = *need,
                _ => newest.push(*need),
            }
        }
        newest
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
        ] {
            assert_eq!(need.to_string(), text);
        }
    }

    #[test]
    fn of_each_kind_the_newest_counts() {
        let needs =
            [Need::CudaZstd, Need::Ptx((9, 0)), Need::CompressedBundles(2), Need::Ptx((8, 7)), Need::Ptx((8, 10))];
        assert_eq!(Needs(needs.into()).newest(), [Need::Ptx((9, 0)), Need::CudaZstd, Need::CompressedBundles(2)]);
    }
}
