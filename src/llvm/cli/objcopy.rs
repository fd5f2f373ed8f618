//! `-###`: prints the command lines with which LLVM 22.1.8 would run llvm-objcopy. Nothing here runs llvm-objcopy.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::llvm::cli::program;

const NAME: &str = "llvm-objcopy";

/// Prints the command line for these arguments.
pub(crate) fn print(arguments: &[OsString]) {
    // If standard error fails, the failure cannot be reported.
    drop(io::stderr().write_all(&[command_line(arguments), b"\n".to_vec()].concat()));
}

/// The command line for these arguments, each in double quotes as LLVM prints it.
fn command_line(arguments: &[OsString]) -> Vec<u8> {
    let program = find().map_or(OsString::from(NAME), PathBuf::into_os_string);
    let words = std::iter::once(&program).chain(arguments);
    words.map(|word| [b"\"", word.as_encoded_bytes(), b"\""].concat()).collect::<Vec<_>>().join(&b' ')
}

fn find() -> Option<PathBuf> {
    let here = std::env::current_exe().ok();
    let beside = here.as_deref().and_then(Path::parent).and_then(|directory| program::executable_in(directory, NAME));
    beside.or_else(|| program::in_path(NAME).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_quoted_and_nothing_is_escaped() {
        let line = String::from_utf8(command_line(&["--regex".into(), "a \"b\"".into()])).unwrap();
        assert!(line.ends_with("llvm-objcopy\" \"--regex\" \"a \"b\"\""), "{line}");
    }
}
