//! The needs of a file: the drivers and runtimes that a machine must have to read its code.

use std::collections::BTreeSet;
use std::mem;

use super::contents::Contents;
use crate::beyond::codec::Codec;
pub use crate::beyond::runtime::Need;
use crate::beyond::scan::Format;

impl Contents {
    /// Returns what a machine needs to read the code: one need of each kind, for the newest version of that code.
    pub fn needs(&self) -> Vec<Need> {
        let mut needs = Needs::default();
        needs.add(self);
        needs.newest()
    }
}

/// The first version of AMD's code objects that counts as a need: all releases of ROCm 6 and 7 read earlier ones.
const FIRST_COUNTED_VERSION: u8 = 6;

/// The needs of some files: the drivers and runtimes that a machine must have to read their code.
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
                let version = code_object.code_object_version.filter(|version| *version >= FIRST_COUNTED_VERSION);
                self.0.extend(version.map(Need::AmdCode));
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
    fn of_each_kind_the_newest_counts() {
        let needs =
            [Need::CudaZstd, Need::Ptx((9, 0)), Need::CompressedBundles(2), Need::Ptx((8, 7)), Need::Ptx((8, 10))];
        assert_eq!(Needs(needs.into()).newest(), [Need::Ptx((9, 0)), Need::CudaZstd, Need::CompressedBundles(2)]);
    }
}
