//! The files in which compilers pack GPU code: what lies in them, how to take it out, how to write them.
//!
//! This is the library under `clang-offload-bundler`, a drop-in replacement for LLVM's tools of that name and of the name
//! `llvm-offload-binary`. It never prints, never exits and does not panic on any input. Readers work on bytes: a `&[u8]`, a
//! `&Vec<u8>` or an [`io::Input`], which is a file, a pipe or a device. They leave code objects where they are until their last
//! copy.
//!
//! | module | for |
//! |---|---|
//! | [`scan`] | finding the code objects in any file by content: bundles, libraries, programs, archives, wheels |
//! | [`container`] | the formats themselves: reading one from bytes, planning a new one |
//! | [`io`] | the files: inputs that are mapped, outputs that appear complete or not at all |
//! | [`id`] | bundle entry IDs (`hip-amdgcn-amd-amdhsa--gfx90a:xnack+`), and which code object may serve which request |
//! | [`display`] | texts from files, made safe to print |
//! | [`job`] | what the command lines do, file to file: outputs appear complete or not at all |
//!
//! Sizes and offsets are bytes. A function that can fail returns [`Error`], which names the file, or [`Malformed`], which
//! knows bytes only; both name the offset, and [`Error::kind`] tells what can be done. What is called a *bundle* is any one
//! container of code objects.
//! Errors of bytes that are of no file name none.
//!
//! # Which code objects does a file hold?
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
//! # The code for the GPU at hand
//!
//! [`container::sequence::Bundles`] walks a file of one known format, and [`Bundle::write_to`] takes one code object
//! out, inflating no more than it has to.
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
//! A [`container::Container`] plans a bundle; [`io::write_to`] writes the plan to anything. From files to a file,
//! compressed or not, [`job::BundleFiles`] does it in one call.
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
//! | feature | for |
//! |---|---|
//! | `cli` | the executable, with the packages that only it needs |
//! | `zlib`, `zstd` | data that is compressed with that method; without the feature it is an error that names the feature |
//!
//! All are on unless `default-features = false`.
//!
//! [`Bundle::write_to`]: container::sequence::Bundle::write_to
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bytes;
mod check;
pub mod container;
pub mod display;
pub mod error;
pub mod id;
pub mod io;
pub mod job;
pub mod scan;
#[cfg(test)]
mod testing;

pub use error::{Error, ErrorKind, Malformed, Result};

/// The examples of the README are tests too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
