//! Reads, searches and writes the container files in which compilers store GPU code objects.
//!
//! This is the library of `clang-offload-bundler`, a drop-in replacement for LLVM's tool of that name and for
//! `llvm-offload-binary`. It never prints, never exits and does not panic on any input. Readers work on bytes: a
//! `&[u8]`, a `&Vec<u8>` or an [`io::Input`] (a file, a pipe or a device). They copy code objects only to write them.
//!
//! | module | purpose |
//! |---|---|
//! | [`scan`] | find the code objects in any file by content: bundles, CUDA fatbins, libraries, programs, archives, packages, wheels |
//! | [`inventory`] | what is in a file: bundles and their code objects, and how many bundles serve a GPU |
//! | [`runtime`] | what a GPU's runtime loads |
//! | [`kernels`] | the kernels of a code object: registers, memory, code size |
//! | [`container`] | the formats: read a container from bytes, plan a new one |
//! | [`id`] | bundle entry IDs (`hip-amdgcn-amd-amdhsa--gfx90a:xnack+`): parsing, and compatibility with requests |
//! | [`io`] | files: mapped inputs, plans of outputs |
//! | [`display`] | make text from files safe to print |
//! | [`error`] | [`Error`] and [`Malformed`] |
//! | [`threads`] | how many threads jobs use |
//!
//! Most programs need only [`inventory`], [`scan`] and [`io`]. Sizes and offsets are in bytes. A *bundle* is any single
//! container of code objects, such as a CUDA fatbin.
//!
//! # Find code objects
//!
//! [`scan::Scan`] finds them in any file. Nothing is copied: a code object that is not compressed is a slice of the
//! data.
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
//! # Find the code for a GPU
//!
//! [`runtime::load`] returns the code that the runtime of a GPU would load, and inflates code objects that are
//! compressed together only once. [`runtime::loaded`] chooses it without reading it, for several GPUs.
//!
//! ```
//! use std::path::Path;
//!
//! use offload_bundle::io::Input;
//! use offload_bundle::runtime;
//!
//! let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/binary/llvm22-plain.bundle");
//! let input = Input::read(&file)?;
//! for code in runtime::load(&input, &"gfx90a:sramecc+:xnack-".parse()?)? {
//!     println!("{}", code.id());
//!     assert_eq!(code.bytes()?.len(), 75);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Walk a wheel
//!
//! Archives, packages and zip files need no option: a Python wheel is searched as its libraries are, and each finding
//! has a [`Place`](scan::Place), which is the path to it. [`Place::member`](scan::Place::member) is the name in the
//! wheel.
//!
//! ```
//! use offload_bundle::io::Input;
//! use offload_bundle::scan::{Finding, Scan};
//! # use std::io::Write as _;
//! # let library = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sequence/mixed.bundle"))?;
//! # let mut zip = rawzip::ZipArchiveWriter::new(std::io::Cursor::new(Vec::new()));
//! # let (mut entry, config) = zip.new_file("torch/lib/kernels.hipfb").start()?;
//! # let mut writer = config.wrap(&mut entry);
//! # writer.write_all(&library)?;
//! # let (_, descriptor) = writer.finish()?;
//! # entry.finish(descriptor)?;
//! # let wheel = zip.finish()?.into_inner();
//!
//! // Input::read(Path::new("torch.whl"))? for a file
//! let input = Input::from_bytes("torch.whl", wheel);
//! let mut places = Vec::new();
//! Scan::default().run(&input, &mut |finding| {
//!     if let Finding::Bundle(bundle) = finding {
//!         places.push((bundle.place.member(), bundle.place.to_string()));
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(places[0].0.as_deref(), Some("torch/lib/kernels.hipfb"));
//! assert_eq!(places[0].1, "torch.whl(torch/lib/kernels.hipfb)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! [`Error`] is one sentence with the file, the place in it and the offset, where these are known. [`Error::kind`] says
//! how a caller can react:
//!
//! | kind | react by |
//! |---|---|
//! | [`Io`](ErrorKind::Io), [`Referred`](ErrorKind::Referred), [`Temporary`](ErrorKind::Temporary) | [`Error::io_error`] has the reason: for the file, one that it refers to, or the directory for temporary files |
//! | [`Malformed`](ErrorKind::Malformed) | [`Error::fault`] describes the bytes, [`Error::offset`] is their place: the file is broken |
//! | [`Unsupported`](ErrorKind::Unsupported), [`Limit`](ErrorKind::Limit) | the file may be sound; another operation, a feature or a higher limit may help |
//! | [`NotFound`](ErrorKind::NotFound), [`Ambiguous`](ErrorKind::Ambiguous), [`Conflict`](ErrorKind::Conflict), [`Usage`](ErrorKind::Usage) | change the request |
//! | [`Internal`](ErrorKind::Internal) | report a bug |
//!
//! Functions that take bytes alone return [`Malformed`], which names no file.
//!
//! ```
//! use offload_bundle::container::{Container as _, binary::Binary};
//! use offload_bundle::io::Input;
//! use offload_bundle::{ErrorKind, Malformed};
//!
//! let error = Input::read("missing.so".as_ref()).unwrap_err();
//! assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some("missing.so".as_ref())));
//!
//! let cut = b"__CLANG_OFFLOAD_BUNDLE__\x01\0";
//! let fault = Binary::default().read(cut, 26, 0).unwrap_err();
//! assert!(matches!(fault, Malformed::Truncated { offset: 24, .. }), "{fault}");
//! ```
//!
//! # Hostile files
//!
//! Any bytes give a result or an error, in time and memory in proportion to the file. A broken part is a
//! [finding](scan::Finding::Broken), and the search goes on. A container inflates to no more than the size that it
//! records; [`Limits`](container::Limits) also cap that size. A container that records more is an error before any of
//! it is inflated.
//!
//! ```
//! use offload_bundle::ErrorKind;
//! use offload_bundle::container::Limits;
//! use offload_bundle::scan::{Finding, Scan};
//!
//! # #[cfg(feature = "zstd")] {
//! let bundle = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/compressed/llvm22-v3.ccob"))?;
//! let mut scan = Scan::default();
//! scan.limits = Limits::up_to(64);
//! let mut kinds = Vec::new();
//! scan.run(&bundle, &mut |finding| {
//!     if let Finding::Broken { error, .. } = finding {
//!         kinds.push(error.kind());
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(kinds, [ErrorKind::Limit]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Text from files may hold control characters: [`display::printable`] escapes them.
//!
//! # Write a bundle
//!
//! The `plan` of a format, such as [`Binary`](container::binary::Binary), plans a bundle; [`io::write_to`] writes the
//! plan to any [`std::io::Write`].
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
//! All features are enabled by default, because the executables need them. A program that uses the library sets
//! `default-features = false` and lists the features that it needs. Without any, the formats of LLVM's tools can be
//! read and written, but no compressed data.
//!
//! | feature | enables |
//! |---|---|
//! | `bzip2`, `lz4`, `xz`, `zlib`, `zstd` | data compressed with that method; without the feature, it is an error of the kind [`Unsupported`](ErrorKind::Unsupported) that names the feature |
//! | `search` | [`scan`], [`inventory`], [`runtime`] and [`kernels`]: everything beyond LLVM's tools |
//! | `serde` | code objects are serialized with the fields of the JSON reports |
//! | `llvm` | the executable with LLVM's tools alone, with the packages that only it needs |
//! | `cli` | the executable with our own subcommands too |
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::indexing_slicing))]

#[macro_use]
mod base;
#[cfg(feature = "search")]
mod beyond;
#[doc(hidden)]
pub mod llvm;

pub use base::error::{Error, ErrorKind, Malformed, Result};
pub use base::{display, error, id, io, threads};
#[cfg(feature = "search")]
pub use beyond::code::kernels;
#[cfg(feature = "search")]
#[doc(hidden)]
pub use beyond::job;
#[cfg(feature = "search")]
pub use beyond::{inventory, scan};

#[cfg(feature = "search")]
pub mod runtime {
    //! The code that the runtimes of GPUs load. [`inventory`](crate::inventory) counts the bundles that serve a GPU.

    pub use crate::beyond::inventory::{LoadedCode, LoadedCodeObject, load, loaded};
    pub use crate::beyond::runtime::*;
}

/// The formats of containers.
pub mod container {
    #[cfg(feature = "search")]
    pub use crate::beyond::codec::Codec;
    #[cfg(feature = "search")]
    pub use crate::beyond::container::{Packed, SearchBundles, SearchContainer, SearchEntry, fatbin, kpack};
    pub use crate::llvm::container::*;
}

/// Runs the executable of this package for the arguments of the process. Returns its exit status.
#[cfg(feature = "llvm")]
#[doc(hidden)]
pub fn main() -> std::process::ExitCode {
    #[cfg(feature = "cli")]
    let additions = beyond::cli::ADDITIONS;
    #[cfg(not(feature = "cli"))]
    let additions = &llvm::cli::Additions::NONE;
    llvm::cli::run(io::sys::arguments(), additions)
}

/// Runs the example of the page about the library as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Page;
