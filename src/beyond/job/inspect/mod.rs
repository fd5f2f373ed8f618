//! Lists the device code of a file.

#[cfg(feature = "serde")]
mod report;
mod total;

#[cfg(feature = "serde")]
pub use report::{Directory, InspectReport, LibraryCoverage};
pub use total::{GpuSizes, InspectTotal};

#[cfg(feature = "serde")]
use std::path::Path;

use crate::base::error::Result;
use crate::base::io::input::Input;
use crate::beyond::inventory::Contents;
use crate::beyond::scan::{Checksums, Scan};
use crate::llvm::container::sequence::Inflate;

/// Lists the device code of a file, by its headers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspect {
    /// The options of the search. The job itself sets how much is inflated and which checksums are compared, whatever
    /// is set here.
    pub scan: Scan,
    /// Whether everything is inflated, and all checksums are compared.
    pub inflate: bool,
}

impl Inspect {
    /// Lists the device code of an open file.
    ///
    /// # Errors
    /// The errors of [`Scan::run`]. Broken parts are problems in the list, and so is a file that has changed.
    pub fn run(&self, input: &Input) -> Result<Contents> {
        let (inflate, checksums) =
            if self.inflate { (Inflate::Whole, Checksums::OfAll) } else { (Inflate::Headers, Checksums::None) };
        Contents::read(input, &Scan { inflate, checksums, copies: true, ..self.scan.clone() })
    }

    /// Lists the device code of some files, with what they show together: the report that `inspect --json --matrix`
    /// prints. Directories are not searched.
    ///
    /// # Errors
    /// The errors of [`Input::read`] and of [`run`](Self::run).
    #[cfg(feature = "serde")]
    pub fn report(&self, paths: impl IntoIterator<Item: AsRef<Path>>) -> Result<InspectReport> {
        let mut files = Vec::new();
        for path in paths {
            files.push(self.run(&Input::read(path.as_ref())?)?);
        }
        Ok(InspectReport::new(files))
    }
}
