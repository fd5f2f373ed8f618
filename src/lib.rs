//! Reads, searches and writes the container files in which compilers store GPU code objects.
//!
//! This is the library of `clang-offload-bundler`, a drop-in replacement for LLVM's tool of that name and for
//! `llvm-offload-binary`. It never prints, never exits and does not panic on any input. Readers work on bytes: a
//! `&[u8]`, a `&Vec<u8>` or an [`io::Input`] (a file, a pipe or a device). They copy code objects only to write them.
//!
//! | module | purpose |
//! |---|---|
//! | [`scan`] | find the code objects in any file by content: bundles, CUDA fatbins, libraries, programs, archives, wheels |
//! | [`container`] | the formats: read a container from bytes, plan a new one (fatbins are only read and recompressed) |
//! | [`io`] | files: mapped inputs, outputs that appear complete or not at all |
//! | [`id`] | bundle entry IDs (`hip-amdgcn-amd-amdhsa--gfx90a:xnack+`): parsing, and compatibility with requests |
//! | [`runtime`] | what a GPU's runtime loads, and in how many bundles a GPU is served |
//! | [`kernels`] | the kernels of a code object: registers, memory, code size |
//! | [`display`] | make text from files safe to print |
//! | [`llvm`] | the work of LLVM's tools, from files to files: outputs appear complete or not at all |
//! | [`job`] | the same for our own subcommands |
//!
//! Sizes and offsets are in bytes. A *bundle* is any single container of code objects. A function that can fail returns
//! [`Error`], which names the file if the bytes are from one, or [`Malformed`], which describes bytes only. Both give
//! the offset where it is known; [`Error::kind`] classifies errors by how a caller can react.
//!
//! # Finding code objects in a file
//!
//! [`scan::Scan`] finds them. Nothing is copied: a code object that is not compressed is a slice of the data.
//!
//! ```
//! use std::path::Path;
//!
//! use offload_bundle::io::Input;
//! use offload_bundle::scan::{Finding, Scan};
//!
//! let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sequence/mixed.bundle");
//! let input = Input::read(&file)?;
//! let mut found = Vec::new();
//! Scan::default().run(&input, &mut |finding| {
//!     match finding {
//!         Finding::Bundle(bundle) => {
//!             for code_object in bundle.code_objects() {
//!                 let in_place = code_object.in_place().map(|slice| slice.bytes().len());
//!                 found.push((code_object.shown_id(), code_object.size(), in_place));
//!             }
//!         }
//!         Finding::Broken { place, error } => return Err(error.at(place)),
//!         _ => {}
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(found[0], ("hip-amdgcn-amd-amdhsa--gfx906".to_owned(), 22, Some(22)));
//! # Ok::<(), offload_bundle::Error>(())
//! ```
//!
//! Archives, packages and zip files are searched too: a Python wheel is read as its libraries are. What is found in them has a
//! [`Place`](scan::Place) that names the way.
//!
//! # The code object for a GPU
//!
//! [`runtime::loaded`] finds what a runtime would load, and [`Scan::read`](scan::Scan::read) reads it: on all processors, and what is
//! compressed together once.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::path::Path;
//!
//! use offload_bundle::io::Input;
//! use offload_bundle::runtime::{self, Device};
//! use offload_bundle::scan::{CodeObject, Scan};
//!
//! let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/compressed/llvm22-v3.ccob");
//! let (input, scan) = (Input::read(&file)?, Scan::default());
//! let loaded = runtime::loaded(&scan, &input, &[Device::parse("gfx90a:sramecc+:xnack-")?])?;
//! let wanted: Vec<&CodeObject> = loaded.iter().map(|loaded| &loaded.code_object).collect();
//! let mut code = Vec::new();
//! scan.read(&input, &wanted, |_, code| Ok(code.bytes().to_vec()), |_| 1, &mut |contents| {
//!     code.extend(contents);
//!     ControlFlow::Continue(())
//! })?;
//! let (index, bytes) = code.remove(0);
//! assert_eq!((index, bytes?.len()), (0, 75));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files that nobody can trust
//!
//! Any bytes give a result or an error, in a time and memory in proportion to the file: `Scan::limits` and
//! [`container::Limits`] cap what is inflated. What is broken is a [finding](scan::Finding::Broken), and the search goes on.
//!
//! # Writing a bundle
//!
//! The `plan` of a format, such as [`Binary`](container::binary::Binary), plans a bundle; [`io::write_to`] writes the plan to
//! any [`std::io::Write`]. [`llvm::BundleFiles`] bundles files into a file in one call, with or without compression.
//!
//! ```
//! use offload_bundle::container::{Container as _, Member, binary::Binary};
//! use offload_bundle::io;
//!
//! let member = |id: &str, content: &'static [u8]| Member { id: id.to_owned(), content: content.into() };
//! let members = [member("host-x86_64-unknown-linux-gnu-", b""), member("hip-amdgcn-amd-amdhsa--gfx90a", b"GPU!")];
//! let plan = Binary::default().plan(&members)?;
//! let mut bundle = Vec::new();
//! io::write_to(&plan, &mut bundle)?;
//!
//! let contents = Binary::default().read(&bundle, bundle.len().try_into()?, 0)?.ok_or("no bundle")?;
//! assert_eq!(contents.entries[1].content(&bundle).as_deref(), Some(&b"GPU!"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | enables |
//! |---|---|
//! | `cli` | the executable, with the packages that only it needs |
//! | `serde` | code objects, differences of them, and the reports of [`job::Inspect`] and [`job::Verify`], are serialized with the fields of the JSON reports |
//! | `bzip2`, `lz4`, `xz`, `zlib`, `zstd` | data compressed with that method; without the feature, it is an error that names the feature |
//!
//! All are enabled by default.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bytes;
mod code;
mod codec;
pub mod container;
pub mod display;
pub mod error;
mod event;
pub mod id;
pub mod io;
pub mod job;
pub mod llvm;
mod messagepack;
// For the executable of this package.
#[doc(hidden)]
pub mod parallel;
pub mod runtime;
pub mod scan;
// The documents of the executable of this package.
#[cfg(feature = "serde")]
#[doc(hidden)]
pub mod serialized;
#[cfg(test)]
mod testing;

pub use code::kernels;
pub use error::{Error, ErrorKind, Malformed, Result};
pub use event::{Event, Observer};

/// Runs the example of the page about the library as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Page;
