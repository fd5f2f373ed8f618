//! A `PATH` without some programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::machine::memory_directory;

/// A `PATH` with the programs of this machine, except for some names. A directory that has one of the names is replaced
/// by a directory of links to its other programs.
pub struct PathWithout {
    directories: Vec<PathBuf>,
    /// The directories of links, which last as long as this path.
    links: Vec<tempfile::TempDir>,
}

impl PathWithout {
    /// The `PATH` of this process without `names`.
    pub fn new(names: &[&str]) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        Self::in_directories(&directories, names)
    }

    /// A path of these directories without `names`.
    pub fn in_directories(directories: &[PathBuf], names: &[&str]) -> Self {
        let mut path = Self { directories: Vec::new(), links: Vec::new() };
        for directory in directories {
            // A broken link of one of the names is no program.
            if !names.iter().any(|name| directory.join(name).exists()) {
                path.directories.push(directory.clone());
                continue;
            }
            let links = memory_directory();
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if !names.iter().any(|name| entry.file_name() == *name) {
                    let target = std::path::absolute(entry.path()).unwrap();
                    std::os::unix::fs::symlink(target, links.path().join(entry.file_name())).unwrap();
                }
            }
            path.directories.push(links.path().to_owned());
            path.links.push(links);
        }
        path
    }

    /// The value of the variable with another directory first.
    pub fn after(&self, first: &Path) -> OsString {
        std::env::join_paths(std::iter::once(first).chain(self.directories.iter().map(PathBuf::as_path))).unwrap()
    }
}
