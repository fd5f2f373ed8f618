//! Extracting images from offload binaries.

use std::io::Write;
use std::path::PathBuf;

use super::Observer;
use crate::error::Result;
use crate::id::OffloadKind;

/// Extracting images.
#[derive(Clone, Debug)]
pub struct Unpackage {
    /// The file that holds offload binaries.
    pub input: PathBuf,
    /// What to extract.
    pub requests: Vec<ImageRequest>,
    /// Whether images go into archives.
    pub archive: bool,
}

/// A request for images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRequest {
    /// The request as typed.
    pub arguments: String,
    /// Where to.
    pub file: Option<PathBuf>,
    /// What an image must be.
    pub filters: Vec<Filter>,
}

/// A condition on an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// It has this kind.
    Kind(Option<OffloadKind>),
    /// It has this string.
    String {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
}

impl Unpackage {
    /// Extracts.
    ///
    /// # Errors
    /// None yet.
    pub fn run(&self, _out: &mut dyn Write, _observer: &mut Observer<'_>) -> Result<()> {
        Ok(())
    }
}
