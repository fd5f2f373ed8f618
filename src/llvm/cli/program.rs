//! The program's name in messages, and the search for other programs.
//!
//! Follows the path rules of LLVM 22.1.8, where `//name` is a network root. Response files use this rule too.

use std::env;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::path::{Path, PathBuf, is_separator};

use crate::base::io::sys::Stat;

/// The program's name.
pub(crate) struct Program<'a> {
    /// `argv[0]` as typed.
    pub(crate) typed: &'a [u8],
    /// The last component of `argv[0]`.
    pub(crate) name: &'a [u8],
}

impl<'a> Program<'a> {
    /// Whether the name, up to its last dot, ends with `end`.
    pub(crate) fn stem_ends_with(&self, end: &str) -> bool {
        let stem = match self.name.iter().rposition(|&byte| byte == b'.') {
            Some(dot) => self.name.get(..dot).unwrap_or_default(),
            None => self.name,
        };
        stem.ends_with(end.as_bytes())
    }

    /// Derives the names from `argv[0]`.
    pub(crate) fn new(typed: &'a OsStr) -> Program<'a> {
        let typed = typed.as_encoded_bytes();
        Program { typed, name: file_name(typed) }
    }
}

/// Whether `path` is `//name`, a network root. LLVM treats it as a single component of a path.
pub(crate) fn is_network_root(path: &[u8]) -> bool {
    let Some(name) = path.strip_prefix(b"//") else { return false };
    !name.is_empty() && !name.contains(&b'/')
}

/// Returns the last component of a path, as LLVM does: `.` after a closing slash, `/` for a root directory, and a
/// network root as it is.
fn file_name(path: &[u8]) -> &[u8] {
    if is_network_root(path) {
        return path;
    }
    let mut trimmed = path;
    while let Some((&last, shorter)) = trimmed.split_last()
        && is_separator(last.into())
    {
        trimmed = shorter;
    }
    let has_closing_separator = trimmed.len() < path.len();
    if !has_closing_separator {
        return path.rsplit(|&byte| is_separator(byte.into())).next().unwrap_or(path);
    }
    if trimmed.is_empty() || is_network_root(trimmed) { b"/" } else { b"." }
}

/// Returns the program `name` in a directory, or `None` if it cannot be run.
pub(crate) fn executable_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let path = directory.join([name, EXE_SUFFIX].concat());
    if Stat::at(&path).ok()?.is_executable() { Some(path) } else { None }
}

/// The programs `name` in the directories of the `PATH`, in their order. As in LLVM, an empty entry is not the current
/// directory.
pub(crate) fn in_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    directories.retain(|directory| !directory.as_os_str().is_empty());
    directories.into_iter().filter_map(move |directory| executable_in(&directory, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stem_ends_at_the_last_dot() {
        let cases = [("foo", true), ("a/x-foo", true), ("foo.exe", true), ("foo.a.b", false), (".foo", false)];
        for (typed, expected) in [cases.as_slice(), &[("foo-22", false), ("foo/", false), ("", false)]].concat() {
            assert_eq!(Program::new(OsStr::new(typed)).stem_ends_with("foo"), expected, "{typed}");
        }
    }

    #[test]
    fn last_components_are_those_of_the_reference() {
        let cases = [
            ("", ""),
            ("foo", "foo"),
            ("a/foo", "foo"),
            ("/a/foo", "foo"),
            ("//a", "//a"),
            ("//a/", "/"),
            ("//a/b", "b"),
            ("a/b/", "."),
            ("a/b//", "."),
            ("a/.", "."),
            ("/", "/"),
            ("//", "/"),
            ("///", "/"),
        ];
        for (path, name) in cases {
            assert_eq!(file_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_program_is_found_with_the_ending_that_programs_have() {
        let own = env::current_exe().unwrap();
        let [empty, full] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let program = full.path().join(format!("foo{EXE_SUFFIX}"));
        std::fs::copy(own, &program).unwrap();
        assert_eq!(executable_in(full.path(), "foo"), Some(program));
        assert_eq!(executable_in(empty.path(), "foo"), None);
    }
}
