//! Finding device code in any file, by content.
//!
//! | a file, or a part of one, that begins like | is looked into as |
//! |---|---|
//! | `__CLANG_OFFLOAD_BUNDLE__`, `CCOB` | bundles, plain and compressed, many in a row |
//! | a comment line with a start marker | a text bundle |
//! | an offload binary | offload binaries, many in a row |
//! | ELF, COFF or PE of a host | the sections that hold any of the above, and fat objects |
//! | ELF of a GPU | a code object by itself |
//! | bitcode | the offload binaries that it embeds |
//! | `ar` archive, zip file (Python wheels) | each member as any of these |
//!
//! What is recognised, but not read (CUDA fatbins, compressed archives and others), is reported by name.
//!
//! A code object that is itself a bundle or an offload binary is looked into too. Nothing but headers is read: of a
//! compressed bundle, the beginning is inflated, of a deflated member of a zip file all of it, if it begins like
//! one of the above. What is broken is reported in its place, and the rest is still found, up to what a file of its size
//! may cost.
//!
//! # Which GPUs does a file carry code for?
//!
//! ```
//! use std::path::Path;
//!
//! use offload_bundle::io::Input;
//! use offload_bundle::scan::{Finding, Scan};
//!
//! let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/offload/llvm22-embedded.o");
//! let input = Input::open(&file)?;
//! let mut found = Vec::new();
//! Scan::default().run(&input, &mut |finding| {
//!     if let Finding::Bundle(bundle) = finding {
//!         for code_object in bundle.code_objects() {
//!             found.push((code_object.shown_id(), bundle.place.section(), code_object.kind()));
//!         }
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(found[0].1.as_deref(), Some(".llvm.offloading"));
//! # Ok::<(), offload_bundle::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod amdgpu;
mod budget;
mod found;
mod image;
mod overlap;
mod pattern;
mod place;
mod sections;
mod walk;
mod wide;
mod zip;

pub(crate) use amdgpu::target_id as recorded_target;
pub(crate) use budget::Budget;
pub use found::{CodeObject, Finding, Format, Found, Provenance};
pub use image::ContentKind;
pub(crate) use overlap::{Overlap, find as overlap_with};
pub use pattern::{Comparison, Pattern, PatternError, Selection};
pub use place::{Origin, Place, Step};
pub(crate) use sections::containers as device_sections;
pub(crate) use walk::file_kind;
pub(crate) use wide::Wide;

use crate::container::Limits;
use crate::container::archive::Sources;
pub use crate::container::magic::Unread;
use crate::container::sequence::Inflate;
use crate::error::Result;
use crate::io::input::Input;

/// How a file is searched for device code.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Scan {
    /// How much of compressed bundles is inflated.
    pub inflate: Inflate,
    /// Which stored members of zip files are read as a whole and held against their checksums. Members that have to be
    /// inflated always are.
    pub checksums: Checksums,
    /// How much compressed containers and members of zip files may inflate to. What lies in one another may come to
    /// [`nested`](Limits::nested) or 1040 times the file in bytes, whichever is more, and to 250,000 bundles, code objects
    /// and faults.
    pub limits: Limits,
}

impl Default for Scan {
    /// Headers only.
    fn default() -> Self {
        Self { inflate: Inflate::Headers, checksums: Checksums::None, limits: Limits::default() }
    }
}

/// Members of a zip file whose checksums are compared with their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// None: their bytes are not read for that.
    None,
    /// Those in which device code is found, after it was handed to the visitor.
    OfFound,
    /// All.
    OfAll,
}

/// Takes what is found.
pub type Visitor<'v> = dyn FnMut(Finding<'_>) -> Result<()> + 'v;

impl Scan {
    /// Hands all that is found in a file to `visitor`, in the order of the file.
    ///
    /// # Errors
    /// Those of the visitor, which end the search. What is wrong with the file is a [`Finding::Broken`].
    pub fn run(&self, input: &Input, visitor: &mut Visitor<'_>) -> Result<()> {
        walk::Walk::new(*self, input, visitor).file(input).map(|_| ())
    }

    /// Hands the offload binaries that LLVM's packager finds in a file to `visitor`, in the order of the file, and what follows them
    /// as [`Finding::Trailing`]. Returns the files that were read.
    ///
    /// # Errors
    /// The first one, of the file or of the visitor.
    pub(crate) fn run_as_packager(&self, input: &Input, visitor: &mut Visitor<'_>) -> Result<Sources> {
        walk::Walk::of_packager(*self, input, visitor).file(input)
    }
}
