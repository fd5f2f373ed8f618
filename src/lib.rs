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
//! # Extracting the code object for a GPU
//!
//! [`container::sequence::Bundles`] walks a file of one known format, and [`Bundle::write_to`] extracts one code
//! object, inflating only as much as necessary.
//!
//! ```
//! use offload_bundle::container::binary::Binary;
//! use offload_bundle::container::sequence::{Bundles, Inflate};
//! use offload_bundle::id::{EntryId, Rules};
//!
//! let data = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/compressed/llvm22-v3.ccob"))?;
//! let wanted = EntryId::parse("hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-")?;
//! let mut code = Vec::new();
//! for bundle in Bundles::new(&data, &Binary::default(), Inflate::AsNeeded) {
//!     let bundle = bundle?;
//!     let serves = |id: &[u8]| {
//!         let id = std::str::from_utf8(id).ok().and_then(|id| EntryId::parse(id).ok());
//!         id.is_some_and(|id| id.compatibility(&wanted, Rules::default()).is_compatible())
//!     };
//!     if let Some(index) = bundle.entries.iter().position(|entry| serves(&entry.id)) {
//!         bundle.write_to(index, &mut code)?;
//!         break;
//!     }
//! }
//! assert_eq!(code.len(), 75);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing a bundle
//!
//! A [`container::Container`] plans a bundle; [`io::write_to`] writes the plan to any [`std::io::Write`].
//! [`llvm::BundleFiles`] bundles files into a file in one call, with or without compression.
//!
//! ```
//! use offload_bundle::container::{Container, Member, binary::Binary};
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
//! | `lz4`, `zlib`, `zstd` | data compressed with that method; without the feature, it is an error that names the feature |
//!
//! All are enabled by default.
//!
//! [`Bundle::write_to`]: container::sequence::Bundle::write_to
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bytes;
mod check;
pub mod container;
pub mod display;
pub mod error;
mod event;
pub mod id;
pub mod io;
pub mod job;
pub mod kernels;
pub mod llvm;
mod messagepack;
pub mod parallel;
pub mod runtime;
pub mod scan;
#[cfg(test)]
mod testing;

pub use error::{Error, ErrorKind, Malformed, Result};
pub use event::{Event, Observer};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
