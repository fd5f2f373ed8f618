//! Where LLVM 22.1.8 would find llvm-objcopy: beside the executable, then in `PATH`. Nothing here runs it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const NAME: &str = "llvm-objcopy";

/// The command line that runs it with these arguments, each in double quotes as LLVM prints it.
pub(crate) fn command_line(arguments: &[OsString]) -> Vec<u8> {
    let program = find().map_or(OsString::from(NAME), PathBuf::into_os_string);
    let words = std::iter::once(&program).chain(arguments);
    words.map(|word| [b"\"", word.as_bytes(), b"\""].concat()).collect::<Vec<_>>().join(&b' ')
}

fn find() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent).map(|directory| directory.join(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(OsStr::new(&path)).map(|directory| directory.join(NAME));
    beside.into_iter().chain(in_path).find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
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
