//! Everything beyond LLVM's tools: the search for device code in any file, further formats, code objects, runtimes, and
//! our own subcommands.

#[cfg(feature = "cli")]
pub(crate) mod cli;
pub(crate) mod code;
pub(crate) mod container;
pub(crate) mod globs;
pub mod job;
pub(crate) mod messagepack;
pub mod runtime;
pub mod scan;
#[cfg(feature = "serde")]
pub(crate) mod serialized;
