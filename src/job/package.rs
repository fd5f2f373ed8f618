//! Packing images into an offload binary.

use std::path::PathBuf;

use crate::container::compressed::Method;
use crate::container::offload_binary::{HipNumber, Version};
use crate::error::Result;
use crate::id::OffloadKind;

/// Packing images.
#[derive(Clone, Debug)]
pub struct Package {
    /// The images.
    pub images: Vec<NewImage>,
    /// Where to.
    pub output: PathBuf,
    /// The version to write.
    pub version: Version,
    /// Which number stands for HIP.
    pub hip_number: HipNumber,
    /// Method and level, if the images are compressed.
    pub compression: Option<(Method, i32)>,
}

/// What becomes an image for each of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewImage {
    /// The files; none is an error when its turn comes.
    pub files: Vec<PathBuf>,
    /// The kind.
    pub offload_kind: Option<OffloadKind>,
    /// Keys and values in the order in which they are written.
    pub strings: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Package {
    /// Packs.
    ///
    /// # Errors
    /// None yet.
    pub fn run(&self) -> Result<()> {
        Ok(())
    }
}
