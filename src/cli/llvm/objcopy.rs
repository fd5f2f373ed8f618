//! `-###`: prints the command lines with which LLVM 22.1.8 would run llvm-objcopy. Nothing here runs llvm-objcopy.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use offload_bundle::io::sys::Stat;

const NAME: &str = "llvm-objcopy";

/// Prints the command line for these arguments.
pub(in crate::cli) fn print(arguments: &[OsString]) {
    // If standard error fails, the failure cannot be reported.
    drop(io::stderr().write_all(&[command_line(arguments), b"\n".to_vec()].concat()));
}

/// The command line for these arguments, each in double quotes as LLVM prints it.
fn command_line(arguments: &[OsString]) -> Vec<u8> {
    let program = find(places()).map_or(OsString::from(NAME), PathBuf::into_os_string);
    let words = std::iter::once(&program).chain(arguments);
    words.map(|word| [b"\"", word.as_encoded_bytes(), b"\""].concat()).collect::<Vec<_>>().join(&b' ')
}

/// The directory of this executable, and those of `PATH`.
fn places() -> impl Iterator<Item = PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside.into_iter().chain(std::env::split_paths(&path).collect::<Vec<_>>())
}

fn find(directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let file = [NAME, EXE_SUFFIX].concat();
    let mut candidates = directories.into_iter().map(|directory| directory.join(&file));
    candidates.find(|candidate| Stat::at(candidate).is_ok_and(|found| found.is_executable()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_quoted_and_nothing_is_escaped() {
        let line = String::from_utf8(command_line(&["--regex".into(), "a \"b\"".into()])).unwrap();
        assert!(line.ends_with("llvm-objcopy\" \"--regex\" \"a \"b\"\""), "{line}");
    }

    #[test]
    fn the_program_is_found_with_the_ending_that_programs_have() {
        let own = std::env::current_exe().unwrap();
        let [empty, full] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let program = full.path().join(format!("llvm-objcopy{EXE_SUFFIX}"));
        std::fs::copy(own, &program).unwrap();
        assert_eq!(find([empty.path().into(), full.path().into()]), Some(program));
        assert_eq!(find([empty.path().into()]), None);
    }
}
