//! The formats that only a search reads: containers of other vendors, packages, and what linked files hold.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod archive_rewrite;
pub(crate) mod dxbc;
pub(crate) mod entry;
pub mod fatbin;
pub(crate) mod host;
pub mod kpack;
pub(crate) mod lto_ir;
pub(crate) mod package;
pub(crate) mod packed;
pub(crate) mod ptx;
pub(crate) mod spirv;
pub(crate) mod sycl;
pub(crate) mod syclbin;
pub(crate) mod zip;

pub(crate) use entry::SearchEntry;
pub(crate) use entry::{Bundle, Bundles, Stored};
pub use packed::Packed;
