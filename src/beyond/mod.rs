//! Everything beyond LLVM's tools: the search for device code in any file, further formats, code objects, runtimes, and
//! our own subcommands.

pub(crate) mod base;
#[cfg(feature = "cli")]
#[allow(
    clippy::disallowed_methods,
    clippy::field_reassign_with_default,
    clippy::indexing_slicing,
    reason = "command lines read no mapped bytes, and the public structs of options may get more fields"
)]
pub(crate) mod cli;
pub(crate) mod code;
pub(crate) mod codec;
pub(crate) mod container;
#[cfg(feature = "serde")]
pub(crate) mod document;
pub(crate) mod globs;
pub(crate) mod ids;
pub mod inventory;
pub mod job;
pub(crate) mod limits;
pub(crate) mod messagepack;
pub(crate) mod once;
pub(crate) mod parallel;
pub(crate) mod products;
pub(crate) mod runtime;
pub mod scan;
pub(crate) mod uri;
