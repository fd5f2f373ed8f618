//! The files of two directories that are compared with each other.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use offload_bundle::display::printable;
use offload_bundle::job::unversioned;
use offload_bundle::{Error, Result};

use crate::cli::files::WorkFile;

/// Two files that are compared; only one of them, if the other directory has no counterpart.
#[derive(Debug)]
pub(super) struct Pair {
    /// The path below the directories, or that of the file; in the new one unless it is only in the old one.
    pub(super) path: PathBuf,
    pub(super) old: Option<WorkFile>,
    pub(super) new: Option<WorkFile>,
}

impl Pair {
    /// The path, safe to print on a terminal.
    pub(super) fn shown(&self) -> String {
        printable(&self.path.to_string_lossy())
    }
}

/// Pairs the files of two paths, in the order of their names. What could not be listed is a problem.
pub(super) fn pairs(
    [old, new]: [&Path; 2],
    [of_old, of_new]: [Vec<Result<WorkFile, Error>>; 2],
    problems: &mut Vec<String>,
) -> Vec<Pair> {
    if !old.is_dir() {
        let first = |files: Vec<Result<WorkFile, Error>>| files.into_iter().flatten().next();
        return vec![Pair { path: new.to_owned(), old: first(of_old), new: first(of_new) }];
    }
    let mut below = |root: &Path, files: Vec<Result<WorkFile, Error>>| {
        let mut set = BTreeMap::new();
        for file in files {
            match file {
                Ok(file) => drop(set.insert(file.path.strip_prefix(root).unwrap_or(&file.path).to_owned(), file)),
                Err(error) => problems.push(error.to_string()),
            }
        }
        set
    };
    let (mut of_old, of_new) = (below(old, of_old), below(new, of_new));
    let mut pairs: Vec<Pair> = of_new
        .into_iter()
        .map(|(path, new)| {
            let old = of_old.remove(&path);
            Pair { path, old, new: Some(new) }
        })
        .collect();
    let mut left: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
    of_old.keys().for_each(|path| left.entry(stem(path)).or_default().push(path.clone()));
    let mut waiting: HashMap<PathBuf, Vec<&mut Pair>> = HashMap::new();
    for pair in pairs.iter_mut().filter(|pair| pair.old.is_none()) {
        waiting.entry(stem(&pair.path)).or_default().push(pair);
    }
    for (stem, waiting) in &mut waiting {
        if let ([pair], Some([path])) = (waiting.as_mut_slice(), left.get(stem).map(Vec::as_slice)) {
            pair.old = of_old.remove(path);
        }
    }
    pairs.extend(of_old.into_iter().map(|(path, old)| Pair { path, old: Some(old), new: None }));
    pairs.sort_by(|a, b| a.path.cmp(&b.path));
    pairs
}

/// A path without the version of a library.
fn stem(path: &Path) -> PathBuf {
    OsStr::from_bytes(unversioned(path.as_os_str().as_bytes())).into()
}
