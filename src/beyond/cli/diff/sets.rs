//! The files of two directories that are compared with each other.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::io::{Input, sys};
use crate::beyond::job::{self, Compared, Diff, ListedKernels, unversioned};
use anyhow::bail;

use crate::beyond::cli::files::{self, SearchOptions, WorkFile};
use crate::beyond::cli::kernels::demangle::Demangler;
use crate::beyond::cli::print::problem::Problem;

/// The files of a path, with an error for each file or directory that could not be listed.
type ListedFiles = Vec<Result<WorkFile, Error>>;

/// Two files that are compared, or one file that has no counterpart in the other directory.
#[derive(Debug)]
pub(crate) struct FilePair {
    /// The path for reports: the path of the new file, or of the old file if there is no new one. It is without the
    /// directory if two directories are compared.
    pub(super) path: PathBuf,
    pub(super) old: Option<WorkFile>,
    pub(super) new: Option<WorkFile>,
}

impl FilePair {
    /// Compares the files. `listed` says which of the kernels that differ are listed, and the largest number of them.
    pub(crate) fn compare(self, job: &Diff, listed: (usize, ListedKernels)) -> Result<Compared> {
        let Self { path, old, new } = self;
        let (old_input, new_input) = (open_if_some(job, old.as_ref())?, open_if_some(job, new.as_ref())?);
        let diff = job.run(old_input.as_ref(), new_input.as_ref())?;
        let paths = [&old, &new].map(|file| file.as_ref().map(|file| file.path.as_path()));
        let demangler = Demangler::default();
        Ok(Compared::new(path, paths, diff, listed, &|name| demangler.demangled(name)))
    }
}

fn open_if_some(job: &Diff, file: Option<&WorkFile>) -> Result<Option<Input>> {
    match file {
        Some(file) => Ok(Some(file.open(job.scan.limits)?)),
        None => Ok(None),
    }
}

/// The files of two paths, which are two files or two directories.
pub(crate) struct FileSets {
    /// The paths of all files.
    pub(crate) paths: Vec<PathBuf>,
    /// The files in pairs, in the order of their names.
    pub(crate) pairs: Vec<FilePair>,
    /// The errors of files that could not be listed.
    pub(crate) problems: Vec<Problem>,
}

impl FileSets {
    /// Lists the files of two paths, and pairs them. Fails if a directory would be compared with a file. A path that
    /// does not exist, such as a URI, counts as a file here.
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

/// Pairs the files of two directories, in the order of their paths, or makes one pair of two files. Adds the errors of
/// files in directories that could not be listed to `problems`.
fn pairs(
    [old, new]: [&PathBuf; 2],
    [old_files, new_files]: [ListedFiles; 2],
    problems: &mut Vec<Problem>,
) -> Vec<FilePair> {
    if !old.is_dir() {
        // A path that is not a directory is never an error in these lists: only opening it shows whether it exists.
        let [old_file, new_file] = [old_files, new_files].map(|files| files.into_iter().flatten().next());
        return vec![FilePair { path: new.clone(), old: old_file, new: new_file }];
    }
    let mut old_files = by_path_below(old, old_files, problems);
    let mut pairs = Vec::new();
    for (path, new_file) in by_path_below(new, new_files, problems) {
        let old_file = old_files.remove(&path);
        pairs.push(FilePair { path, old: old_file, new: Some(new_file) });
    }
    // Files of different paths are paired too, by rules that ignore more and more. The rules ignore the version of a
    // library, the hash in its name, its directory, and last the version of a package. Each rule sees only files that
    // have no partner yet.
    for rule in [without_version, without_hash, name_without_version, name_without_hash, package_without_version] {
        pair_by_rule(rule, &mut old_files, &mut pairs);
    }
    pairs.extend(old_files.into_iter().map(|(path, old)| FilePair { path, old: Some(old), new: None }));
    pairs.sort_by(|a, b| a.path.cmp(&b.path));
    pairs
}

/// Returns the files of a directory, by their paths below it. Adds the errors in `files` to `problems`.
fn by_path_below(root: &Path, files: ListedFiles, problems: &mut Vec<Problem>) -> BTreeMap<PathBuf, WorkFile> {
    let mut by_path = BTreeMap::new();
    for file in files {
        match file {
            Ok(file) => {
                by_path.insert(file.path.strip_prefix(root).unwrap_or(&file.path).to_owned(), file);
            }
            Err(error) => problems.push(error.into()),
        }
    }
    by_path
}

/// Pairs an old and a new file that have no partner yet, if `rule` returns the same name for both. If it also returns
/// this name for another file without a partner, the pair would be a guess, and the files stay single.
fn pair_by_rule(rule: fn(&Path) -> PathBuf, old_files: &mut BTreeMap<PathBuf, WorkFile>, pairs: &mut [FilePair]) {
    let mut old_paths: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
    for path in old_files.keys() {
        old_paths.entry(rule(path)).or_default().push(path.clone());
    }
    let mut without_partner: HashMap<PathBuf, Vec<&mut FilePair>> = HashMap::new();
    for pair in pairs {
        if pair.old.is_none() {
            without_partner.entry(rule(&pair.path)).or_default().push(pair);
        }
    }
    for (name, new_files) in &mut without_partner {
        if let ([pair], Some([path])) = (new_files.as_mut_slice(), old_paths.get(name).map(Vec::as_slice)) {
            pair.old = old_files.remove(path);
        }
    }
}

/// Returns the name of a package without its version. The version is the second part of the name:
/// `name-version-tags.whl` for a wheel, `name_version_arch.deb` for a package of Debian. Other paths are returned
/// whole.
fn package_without_version(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let separator = match path.extension().and_then(OsStr::to_str) {
        Some("whl") => '-',
        Some("deb") => '_',
        _ => return path.to_owned(),
    };
    let parts: Vec<&str> = name.splitn(3, separator).collect();
    // The result is only compared with the names of other packages.
    if let [name, _, rest] = *parts { [name, rest].iter().collect() } else { path.to_owned() }
}

/// Returns a path without the version of a library.
fn without_version(path: &Path) -> PathBuf {
    sys::os_str(unversioned(path.as_os_str().as_encoded_bytes())).into_owned().into()
}

/// Returns a path without the version and the hash in the name of a library.
fn without_hash(path: &Path) -> PathBuf {
    sys::os_str(&job::without_hash(path.as_os_str().as_encoded_bytes())).into_owned().into()
}

fn name_without_version(path: &Path) -> PathBuf {
    without_version(Path::new(path.file_name().unwrap_or_default()))
}

fn name_without_hash(path: &Path) -> PathBuf {
    without_hash(Path::new(path.file_name().unwrap_or_default()))
}
