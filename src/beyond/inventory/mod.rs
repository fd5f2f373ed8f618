//! The middle: an owned model of the contents of files. Everything that a subcommand reports about files is computed
//! from it.
//!
//! | module | says |
//! |---|---|
//! | `contents` | what is in a file: bundles and their code objects, libraries, parts that are not read |
//! | `libraries` | the libraries of several files: sizes by section and GPU, and the GPUs that they serve |
//! | `code_for` | which GPUs a code object is for |
//! | `read` | how a file is read into contents, while a job reads the bytes that it needs |
//! | `unit` | which code a program loads together |
//! | `served` | which GPUs the code of a library serves |
//! | `order` | the order in which lists name GPUs |
//! | `loader`, `load` | which code objects the runtime of a GPU loads, and their bytes |
//! | `lost` | which GPUs a library no longer serves |
//! | `needs` | which drivers and runtimes read the code |
//! | `request` | which code objects a user asks for |
//! | `pick` | which code objects a request takes, and which of its parts match nothing |
//! | `kernel_names`, `similar_names` | requests by names of kernels |
//!
//! ```
//! use offload_bundle::inventory::Contents;
//! use offload_bundle::io::Input;
//! use offload_bundle::runtime::Device;
//! use offload_bundle::scan::Scan;
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sequence/mixed.bundle");
//! let contents = Contents::read(&Input::read(path.as_ref())?, &Scan::default())?;
//! let served = contents.coverage().served(&Device::parse("gfx906:sramecc+:xnack-")?);
//! assert_eq!(served.to_string(), "4 of 4");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code_for;
mod contents;
#[cfg(feature = "serde")]
mod fields;
mod groups;
pub(crate) mod kernel_names;
mod libraries;
mod load;
mod loader;
mod lost;
mod needs;
mod order;
pub(crate) mod pick;
mod read;
pub(crate) mod request;
mod served;
pub(crate) mod similar_names;
mod unit;

pub(crate) use code_for::CodeFor;
pub(crate) use code_for::Targets;
pub(crate) use code_for::short_target;
pub(crate) use contents::LibraryContents;
pub(crate) use contents::{Bad, BadPart, Keep};
pub use contents::{BundleContents, Contents, KpackReference, MemberCopies, UnreadPart};
#[cfg(feature = "serde")]
pub use fields::ServedGpu;
pub use libraries::{Libraries, LibrariesBuilder, Library, ServingLibraries, SizesByGpu};
pub use load::{LoadedCode, load};
pub(crate) use loader::Loader;
pub use loader::{LoadedCodeObject, loaded};
pub(crate) use lost::{LostGpu, lost_gpus};
pub use needs::{Need, Needs};
#[cfg(feature = "cli")]
pub(crate) use order::generation;
pub(crate) use order::listed_order;
pub(crate) use read::{Reading, Visit, each_bundle};
pub use request::{Comparison, Pattern, PatternError, Selection};
pub use served::{Coverage, ServedBundles, ServedDirectory};
pub(crate) use served::{FileSet, LibraryCode};
#[cfg(test)]
pub(crate) use unit::Units;
#[cfg(test)]
pub(crate) use unit::tests;
pub(crate) use unit::{CodeSet, Unit, UnitRole, by_library};
