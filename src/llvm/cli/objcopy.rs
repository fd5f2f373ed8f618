//! `-###`: prints the command lines of llvm-objcopy that LLVM 22.1.8 would run. Nothing here runs llvm-objcopy.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::llvm::cli::program;

const NAME: &str = "llvm-objcopy";

/// Prints the command line for these arguments.
pub(crate) fn print_command(arguments: &[OsString]) {
    // If standard error fails, the failure cannot be reported.
    drop(io::stderr().write_all(&[command_line(arguments), b"\n".to_vec()].concat()));
}

/// The command line for these arguments, each in double quotes as LLVM prints it.
fn command_line(arguments: &[OsString]) -> Vec<u8> {
    let program = find_objcopy().unwrap_or_else(|| NAME.into()).into_os_string();
    let words = std::iter::once(&program).chain(arguments);
    words.map(|word| [b"\"", word.as_encoded_bytes(), b"\""].concat()).collect::<Vec<_>>().join(&b' ')
}

/// Finds llvm-objcopy where LLVM does: in the directory of this program, or else in the `PATH`. Returns `None` if it is
/// in neither.
fn find_objcopy() -> Option<PathBuf> {
    if let Ok(here) = std::env::current_exe()
        && let Some(directory) = here.parent()
        && let Some(found) = program::executable_in(directory, NAME)
    {
        return Some(found);
    }
    program::in_path(NAME).next()
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
