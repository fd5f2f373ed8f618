//! The command lines of LLVM's tools, which share LLVM's grammar. The options of a [`Tool`](options::Tool) are one
//! struct, derived with `clap`. [`parse`] expands response files ([`response`]), reads the words as LLVM 22.1.8 does
//! ([`grammar`]), and has `clap` fill the struct. The tool's own module turns the struct into a job of the library.

pub(super) mod bundle_entry;
pub(super) mod bundler;
pub(super) mod environment;
pub(super) mod grammar;
pub(super) mod help;
pub(super) mod objcopy;
pub(super) mod options;
pub(super) mod packager;
pub(super) mod parse;
pub(super) mod response;
pub(super) mod texts;
