//! Functions of another part of the program that extend the command lines of LLVM's tools. The other part may use the
//! clone, but the clone must not use the other part.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use super::program::Program;
use crate::llvm::work::extract_uris::ReadUri;

/// The functions that another part of the program adds to the command lines of LLVM's tools.
#[derive(Debug)]
pub(crate) struct Additions {
    /// Runs a command line that is not for one of LLVM's tools. Returns the exit status, or `None` without running
    /// anything if it is for one of them.
    pub(crate) run: fn(&[OsString]) -> Option<ExitCode>,
    /// Lists the subcommands, each with its description in one line, for the help of the bundler.
    pub(crate) subcommands: fn() -> Vec<(&'static str, String)>,
    /// Returns a hint for a command line that the bundler refuses. Takes `argv[0]` and the words after it, as typed.
    pub(crate) hint: fn(&OsStr, &[OsString]) -> Option<String>,
    /// Reads the bytes that a URI names.
    pub(crate) read_uri: ReadUri,
}

impl Additions {
    /// Adds nothing: LLVM's tools alone.
    #[cfg(any(test, not(feature = "cli")))]
    pub(crate) const NONE: Self = Self {
        run: |_| None,
        subcommands: Vec::new,
        hint: |_, _| None,
        read_uri: crate::llvm::work::extract_uris::read_stored,
    };
}

/// A call of one of LLVM's tools.
pub(crate) struct Call<'c> {
    pub(crate) program: Program<'c>,
    pub(crate) additions: &'static Additions,
}
