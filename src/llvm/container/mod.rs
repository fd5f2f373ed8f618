//! Containers of code objects: each format has its own file or folder.
//!
//! A format reads ([`Container::read`]: bytes to entries). A format that we write also has a `plan` (members to
//! pieces). Compression wraps any format; [`sequence`] walks several bundles in one file.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod archive;
pub mod binary;
pub(crate) mod bitcode;
pub mod compressed;
mod entry;
mod format;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod magic;
pub mod object;
pub mod offload_binary;
pub(crate) mod records;
pub mod sequence;
pub mod stream;
pub mod text;

pub use entry::{BundleEntry, Contents, Entry, Member, Part};
pub use format::Container;
pub use limits::Limits;

/// The magic string in every bundle that is not compressed.
pub const MAGIC: &str = "__CLANG_OFFLOAD_BUNDLE__";
