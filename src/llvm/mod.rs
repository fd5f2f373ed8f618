//! The clone of LLVM's tools: `clang-offload-bundler`, `llvm-offload-binary` and `llvm-extract-bundle-entry`.
//!
//! | module | purpose |
//! |---|---|
//! | [`container`] | the formats that LLVM writes: bytes to entries, entries to bytes |
//! | `work` | bundle, unbundle, list, package, unpackage, copy the bytes of URIs: each a struct with a `run` method |
//! | `cli` | the command lines |
//!
//! The clone builds and works alone: nothing here uses [`beyond`](crate).

#[cfg(feature = "llvm")]
#[allow(
    clippy::disallowed_methods,
    clippy::field_reassign_with_default,
    clippy::indexing_slicing,
    reason = "command lines read no mapped bytes, and the public structs of options may get more fields"
)]
pub(crate) mod cli;
pub mod container;
pub mod event;
pub(crate) mod uri;
pub(crate) mod work;

pub use work::{
    BundleFiles, ExtractUris, FileType, Filter, ImageFiles, ImageRequest, List, Package, Unbundle, UnbundleArchive,
    Unpackage,
};
