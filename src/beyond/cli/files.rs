//! The input files of a subcommand, named or found in directories, and the limits on their inflated size.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::Error;
use crate::base::io::{Accept, Input};
use crate::beyond::parallel;
use crate::beyond::scan::{Follow, Scan};
use crate::llvm::container::Limits;
use crate::llvm::uri::Uri;
use crate::llvm::work::open;
use clap::Args;
use walkdir::WalkDir;

use super::print::problem::Problem;
use crate::llvm::cli::print::progress;
use crate::llvm::cli::print::stdout::to_stdout;
use crate::llvm::cli::texts;
use crate::llvm::cli::values;

/// A file to process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkFile {
    pub(super) path: PathBuf,
    /// The directory named on the command line in which it was found; none if the file itself was named. Most files in
    /// directories have no device code.
    pub(super) directory: Option<Arc<Path>>,
}

impl WorkFile {
    /// Whether the command line names it.
    pub(super) fn is_named(&self) -> bool {
        self.directory.is_none()
    }

    /// Opens the file, or copies what a URI names. A named file may be a pipe, which is read up to the limit; a file
    /// from a directory may not.
    pub(super) fn open(&self, limits: Limits) -> Result<Input, Error> {
        let accept = if self.is_named() { Accept::Finite } else { Accept::Regular };
        Uri::open(&self.path, limits, |path| open(path, accept, limits.streamed))
    }
}

/// The paths of files that could be listed.
pub(super) fn paths(files: &[Result<WorkFile, Error>]) -> Vec<PathBuf> {
    files.iter().flatten().map(|file| file.path.clone()).collect()
}

/// The option that limits what inflates.
#[derive(Clone, Debug, Args)]
pub(super) struct SizeOption {
    #[arg(long, value_name = "BYTES", value_parser = size, help = texts::MAX_SIZE)]
    max_size: Option<u64>,
}

pub(super) fn size(text: &str) -> Result<u64, &'static str> {
    values::size(text.as_bytes()).ok_or("expected a number of bytes, optionally with suffix K, M or G")
}

impl SizeOption {
    pub(super) fn limits(&self) -> Limits {
        values::limits(self.max_size)
    }
}

/// The options that say which files are searched, and which of their bytes.
#[derive(Clone, Debug, Args)]
pub(super) struct SearchOptions {
    /// Descend into subdirectories, without following symbolic links.
    #[arg(short, long)]
    pub(super) recursive: bool,
    /// Search all bytes, not only the sections and formats made for device code.
    #[arg(
        long,
        long_help = "Search all bytes: also other sections, the space between sections, and files of any other format, such as \
            firmware. Bundles, offload binaries, CUDA fatbins and ELF files for GPUs are found at any offset, if they can be read. \
            Of archives, zip files and bitcode only the members are searched."
    )]
    pub(super) deep: bool,
    #[command(flatten)]
    size: SizeOption,
}

impl SearchOptions {
    /// The search, which may follow libraries to their kpack archives.
    pub(super) fn scan(&self, follow: Option<Arc<Follow>>) -> Scan {
        let mut scan = Scan::default();
        (scan.deep, scan.limits, scan.follow) = (self.deep, self.size.limits(), follow);
        scan
    }

    /// The files that are named, and those in the directories that are named. A file or directory that cannot be read
    /// is replaced by an error.
    pub(super) fn files(&self, named: &[PathBuf]) -> Vec<Result<WorkFile, Error>> {
        named.iter().flat_map(|path| self.files_at(path)).collect()
    }

    /// A file that is named, or the files in a directory.
    pub(super) fn files_at(&self, path: &Path) -> Vec<Result<WorkFile, Error>> {
        let depth = if self.recursive { usize::MAX } else { 1 };
        let mut files = Vec::new();
        match path.is_dir() {
            true if depth == 1 && has_only_directories(path) => {
                let reason = io::Error::new(io::ErrorKind::NotFound, "it has only subdirectories; -r searches them");
                files.push(Err(Error::io(path, reason)));
            }
            true => directory(path, depth, &mut files),
            false => files.push(Ok(WorkFile { path: path.to_owned(), directory: None })),
        }
        progress::expect(files.iter().flatten().map(|file| file.path.as_path()));
        files
    }
}

/// Options of a search that follows split libraries to their kpack archives unless it is told not to.
#[derive(Clone, Debug, Args)]
pub(super) struct FollowOptions {
    #[command(flatten)]
    pub(super) search: SearchOptions,
    /// Do not follow split ROCm libraries to their kpack archives.
    #[arg(
        long,
        long_help = "Do not follow split ROCm libraries to the kpack archives with their device code. These are found as by \
            ROCm's loader: in the places that a library names, for all target IDs. The environment variables ROCM_KPACK_PATH, \
            ROCM_KPACK_PATH_PREFIX and ROCM_KPACK_DISABLE apply. Archives that are among the files of the command are not \
            searched twice."
    )]
    no_follow: bool,
}

impl FollowOptions {
    /// The files as in [`SearchOptions::files`], their paths, and the search in them.
    pub(super) fn files(&self, named: &[PathBuf]) -> (Vec<Result<WorkFile, Error>>, Vec<PathBuf>, Scan) {
        let files = self.search.files(named);
        let paths = paths(&files);
        let scan = self.scan(&paths);
        (files, paths, scan)
    }

    /// The search in files with these paths.
    pub(super) fn scan(&self, paths: &[PathBuf]) -> Scan {
        let mut follow = Follow::from_environment();
        follow.own = paths.to_vec();
        let is_followed = !Follow::is_disabled() && !self.no_follow;
        self.search.scan(is_followed.then(|| Arc::new(follow)))
    }
}

/// Whether a directory has subdirectories and nothing else.
fn has_only_directories(path: &Path) -> bool {
    let mut entries = WalkDir::new(path).min_depth(1).max_depth(1).into_iter().peekable();
    entries.peek().is_some() && entries.all(|entry| entry.is_ok_and(|entry| entry.file_type().is_dir()))
}

/// What could not be read, in the order of the files; complete after the last one.
pub(super) type Problems = RefCell<Vec<Problem>>;

/// Whether several of the files are pipes, which may be the same one under several names.
pub(super) fn has_pipes(files: &[Result<WorkFile, Error>]) -> bool {
    files.iter().flatten().filter(|file| file.is_named() && !file.path.is_file()).nth(1).is_some()
}

/// Works on files or pairs of files, on several threads unless they have to be read in turn, and prints the results in
/// their order, each as soon as it is available. `note` gets each result before `print` does. See
/// [`parallel::in_order`].
pub(super) fn report<I: Send, T: Send>(
    items: Vec<I>,
    in_turn: bool,
    work: impl Fn(I) -> Result<T, Error> + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    mut note: impl FnMut(&mut T, &mut Vec<Problem>),
    problems: &Problems,
    print: impl FnOnce(&mut dyn Iterator<Item = T>, &mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let consume = |results: &mut dyn Iterator<Item = Result<T, Error>>| {
        let mut results = results.filter_map(|result| {
            let mut problems = problems.borrow_mut();
            let mut result = result.map_err(|error| problems.push(error.into())).ok()?;
            note(&mut result, &mut problems);
            Some(result)
        });
        let written = to_stdout(|out| print(&mut results, out));
        // A reader that has gone away hides no fault: the rest is read all the same.
        results.for_each(drop);
        written
    };
    match in_turn {
        true => consume(&mut items.into_iter().map(work)),
        false => parallel::in_order(items, work, |result| result.as_ref().map_or(1, &weight), consume),
    }
}

/// Adds the files in a directory and `depth - 1` levels of subdirectories, sorted by name, so that the output is
/// reproducible.
fn directory(path: &Path, depth: usize, files: &mut Vec<Result<WorkFile, Error>>) {
    let named: Arc<Path> = path.into();
    for entry in WalkDir::new(path).max_depth(depth).sort_by_file_name() {
        files.extend(match entry {
            Ok(entry) if entry.file_type().is_file() => {
                Some(Ok(WorkFile { path: entry.into_path(), directory: Some(Arc::clone(&named)) }))
            }
            Ok(_) => None,
            Err(error) => {
                let path = error.path().unwrap_or(path).to_owned();
                // Links are not followed, so there are no loops: every error is an I/O error.
                error.into_io_error().map(|error| Err(Error::io(path, error)))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::sys;

    #[test]
    fn directories_are_followed_in_order_and_links_in_them_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        for name in ["z", "a", "sub/m"] {
            std::fs::write(at(name), b"").unwrap();
        }
        sys::symlink_directory(dir.path(), &at("loop")).unwrap();
        let found = |depth| {
            let mut files = Vec::new();
            directory(dir.path(), depth, &mut files);
            files.into_iter().map(|file| file.unwrap().path).collect::<Vec<_>>()
        };
        assert_eq!(found(1), [at("a"), at("z")]);
        assert_eq!(found(usize::MAX), [at("a"), at("sub/m"), at("z")]);
    }
}
