//! Lists the device code of a file.

#[cfg(feature = "serde")]
mod report;
mod total;

#[cfg(feature = "serde")]
pub use report::{Directory, InspectReport, LibraryCoverage};
pub use total::{GpuSizes, InspectTotal};

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
}
