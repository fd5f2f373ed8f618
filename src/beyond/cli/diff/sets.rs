//! The files of two directories that are compared with each other.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::base::display::printable;
use crate::base::error::{Error, Result};
use crate::base::io::sys;
use crate::beyond::job::{self, unversioned};
use anyhow::bail;

use crate::beyond::cli::files::{self, SearchOptions, WorkFile};
use crate::beyond::cli::print::problem::Problem;

/// The files of a path; an error for each that could not be listed.
type Files = Vec<Result<WorkFile, Error>>;

/// Two files that are compared; only one of them, if the other directory has no counterpart.
#[derive(Debug)]
pub(crate) struct FilePair {
    /// The path below the directories, or that of the file; in the new one unless it is only in the old one.
    pub(super) path: PathBuf,
    pub(super) old: Option<WorkFile>,
    pub(super) new: Option<WorkFile>,
}

impl FilePair {
    /// The path, safe to print on a terminal.
    pub(super) fn shown(&self) -> String {
        printable(&self.path.to_string_lossy())
    }
}

/// The files of two paths, which are two files or two directories.
pub(crate) struct FileSets {
    /// The paths of all files.
    pub(crate) paths: Vec<PathBuf>,
    /// The files in pairs, in the order of their names.
    pub(crate) pairs: Vec<FilePair>,
    /// What could not be listed.
    pub(crate) problems: Vec<Problem>,
}

impl FileSets {
    pub(crate) fn new(search: &SearchOptions, [old, new]: [&PathBuf; 2]) -> anyhow::Result<Self> {
        if old.as_os_str() == "-" && new.as_os_str() == "-" {
            bail!("'-' and '-': the standard input can be only one of the two");
        }
        if old.exists() && new.exists() && old.is_dir() != new.is_dir() {
            bail!("'{}' and '{}': cannot compare a directory with a file", old.display(), new.display());
        }
        let sets = [old, new].map(|path| search.files_at(path));
        let (paths, mut problems) = (sets.each_ref().map(|set| files::paths(set)).concat(), Vec::new());
        Ok(Self { paths, pairs: pairs([old, new], sets, &mut problems), problems })
    }
}

fn pairs([old, new]: [&PathBuf; 2], [of_old, of_new]: [Files; 2], problems: &mut Vec<Problem>) -> Vec<FilePair> {
    if !old.is_dir() {
        let first = |files: Files| files.into_iter().flatten().next();
        return vec![FilePair { path: new.clone(), old: first(of_old), new: first(of_new) }];
    }
    let mut below = |root: &Path, files: Files| {
        let mut set = BTreeMap::new();
        for file in files {
            match file {
                Ok(file) => drop(set.insert(file.path.strip_prefix(root).unwrap_or(&file.path).to_owned(), file)),
                Err(error) => problems.push(error.into()),
            }
        }
        set
    };
    let (mut of_old, of_new) = (below(old, of_old), below(new, of_new));
    let mut pairs: Vec<FilePair> = of_new
        .into_iter()
        .map(|(path, new)| {
            let old = of_old.remove(&path);
            FilePair { path, old, new: Some(new) }
        })
        .collect();
    // The version may differ, then the hash, then the directory, then the version in the name of a package.
    for alike in [stem, without_hash, stem_of_name, name_without_hash, package] {
        pair_alike(alike, &mut of_old, &mut pairs);
    }
    pairs.extend(of_old.into_iter().map(|(path, old)| FilePair { path, old: Some(old), new: None }));
    pairs.sort_by(|a, b| a.path.cmp(&b.path));
    pairs
}

/// Pairs an old and a new file that have no partner yet, if `alike` gives both the same name and no other file has it.
fn pair_alike(alike: fn(&Path) -> PathBuf, of_old: &mut BTreeMap<PathBuf, WorkFile>, pairs: &mut [FilePair]) {
    let mut left: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
    of_old.keys().for_each(|path| left.entry(alike(path)).or_default().push(path.clone()));
    let mut waiting: HashMap<PathBuf, Vec<&mut FilePair>> = HashMap::new();
    for pair in pairs.iter_mut().filter(|pair| pair.old.is_none()) {
        waiting.entry(alike(&pair.path)).or_default().push(pair);
    }
    for (name, waiting) in &mut waiting {
        if let ([pair], Some([path])) = (waiting.as_mut_slice(), left.get(name).map(Vec::as_slice)) {
            pair.old = of_old.remove(path);
        }
    }
}

/// The name of a package without its version, which is the second part: of a wheel (`name-version-tags.whl`), and of a
/// package for Debian (`name_version_arch.deb`). Other names stay.
fn package(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let separator = match path.extension().and_then(OsStr::to_str) {
        Some("whl") => '-',
        Some("deb") => '_',
        _ => return path.to_owned(),
    };
    let parts: Vec<&str> = name.splitn(3, separator).collect();
    if let [name, _, rest] = *parts { [name, rest].iter().collect() } else { path.to_owned() }
}

/// A path without the version of a library.
fn stem(path: &Path) -> PathBuf {
    sys::os_str(unversioned(path.as_os_str().as_encoded_bytes())).into_owned().into()
}

/// A path without the version and the hash in the name of a library.
fn without_hash(path: &Path) -> PathBuf {
    sys::os_str(&job::without_hash(path.as_os_str().as_encoded_bytes())).into_owned().into()
}

fn stem_of_name(path: &Path) -> PathBuf {
    stem(Path::new(path.file_name().unwrap_or_default()))
}

fn name_without_hash(path: &Path) -> PathBuf {
    without_hash(Path::new(path.file_name().unwrap_or_default()))
}
