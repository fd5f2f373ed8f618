//! The files in which compilers pack GPU code: bundles of code objects, their entry IDs, and the jobs on them.
//!
//! This is the library under `clang-offload-bundler`, a drop-in replacement for LLVM's tools of that name and of the name
//! `llvm-offload-binary`. It has three layers:
//!
//! - [`id`]: bundle entry IDs (`hip-amdgcn-amd-amdhsa--gfx90a:xnack+`), which triple and which processor they
//!   name, and which code object may serve which request.
//! - [`container`]: the formats, each with reader and writer: [`container::binary`], [`container::text`],
//!   [`container::compressed`], [`container::object`], [`container::archive`], [`container::offload_binary`], and
//!   [`container::sequence`] for several of them in one file. What is called a bundle there is any one container.
//! - [`job`]: [`job::Bundle`], [`job::Unbundle`], [`job::UnbundleArchive`], [`job::List`], [`job::Package`] and
//!   [`job::Unpackage`], which open files and write them.
//!
//! Inputs are mapped ([`input::Input`]), code objects stay where they are until their last copy, and outputs
//! appear complete or not at all. That a mapped file may become shorter is an error only where the library may take a
//! signal for it: [`process::hand_over`].
//!
//! # Which code objects does a bundle hold?
//!
//! ```
//! use offload_bundle::container::{Container, binary::Binary};
//!
//! let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__\x01\0\0\0\0\0\0\0".to_vec();
//! for field in [85_u64, 4, 29] {
//!     bundle.extend(field.to_le_bytes());
//! }
//! bundle.extend(b"hip-amdgcn-amd-amdhsa--gfx90aGPU!");
//!
//! let length = u64::try_from(bundle.len())?;
//! let contents = Binary::default().read(&bundle, length, 0)?.ok_or("no bundle")?;
//! assert_eq!(contents.entries[0].id, b"hip-amdgcn-amd-amdhsa--gfx90a");
//! assert_eq!(contents.entries[0].content(&bundle).as_deref(), Some(&b"GPU!"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
pub mod container;
pub mod error;
pub mod id;
pub mod input;
pub mod job;
mod live;
mod mapping;
mod meter;
mod output;
pub mod piece;
pub mod process;
mod staging;

pub use error::{Error, Malformed, Result};

/// The examples of the README are tests too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
