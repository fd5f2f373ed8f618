//! The input files of a subcommand, named or found in directories, and the limits on their inflated size.

use std::io;
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

use super::print::progress;
use super::subcommand::heading;
use crate::llvm::cli::texts;
use crate::llvm::cli::values;

/// A file to process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkFile {
    pub(super) path: PathBuf,
    /// The directory on the command line that has the file, or `None` if the command line names the file itself. Most
    /// files in directories have no device code, so less is reported about them.
    pub(super) directory: Option<Arc<Path>>,
}

impl WorkFile {
    /// Returns whether the command line names the file itself.
    pub(super) fn is_named(&self) -> bool {
        self.directory.is_none()
    }

    /// Opens the file or, if the path is a URI, copies the bytes that the URI names. A file that the command line names
    /// may be a pipe, which is read up to the limit. In a directory, a pipe is an error: it might never end.
    pub(super) fn open(&self, limits: Limits) -> Result<Input, Error> {
        let accept = if self.is_named() { Accept::Finite } else { Accept::Regular };
        Uri::open(&self.path, limits, |path| open(path, accept, limits.streamed))
    }
}

/// Returns the paths of the files, without the errors of directories that could not be listed.
pub(super) fn paths(files: &[Result<WorkFile, Error>]) -> Vec<PathBuf> {
    files.iter().flatten().map(|file| file.path.clone()).collect()
}

/// The option that limits the inflated size of data.
#[derive(Clone, Debug, Args)]
pub(super) struct SizeOption {
    /// Reject data that is larger when inflated or read from a pipe: 512M, 4G.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, long_help = texts::MAX_SIZE)]
    max_size: Option<u64>,
}

/// Parses a number of bytes, which may have the suffix K, M or G.
pub(super) fn parse_size(text: &str) -> Result<u64, &'static str> {
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
    #[arg(short, long, help_heading = heading::SEARCH)]
    pub(super) recursive: bool,
    /// Search all bytes, not only the sections and formats made for device code.
    #[arg(
        help_heading = heading::SEARCH,
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
    /// Returns the search, which may follow libraries to their kpack archives.
    pub(super) fn scan(&self, follow: Option<Arc<Follow>>) -> Scan {
        let mut scan = Scan::default();
        (scan.deep, scan.limits, scan.follow) = (self.deep, self.size.limits(), follow);
        scan
    }

    /// Returns the named files, and the files in the named directories. In place of a file or directory that cannot be
    /// listed, returns the error.
    pub(super) fn files(&self, named: &[PathBuf]) -> Vec<Result<WorkFile, Error>> {
        named.iter().flat_map(|path| self.files_at(path)).collect()
    }

    /// Returns the file with this path or, for a directory, the files in it, and adds their sizes to the progress bar.
    /// A directory that has only subdirectories is an error without `--recursive`: nothing in it would be searched.
    pub(super) fn files_at(&self, path: &Path) -> Vec<Result<WorkFile, Error>> {
        let mut files = Vec::new();
        if !path.is_dir() {
            files.push(Ok(WorkFile { path: path.to_owned(), directory: None }));
        } else if self.recursive {
            add_directory(path, ALL_LEVELS, &mut files);
        } else if has_only_directories(path) {
            let reason = io::Error::new(io::ErrorKind::NotFound, "it has only subdirectories; -r searches them");
            files.push(Err(Error::io(path, reason)));
        } else {
            add_directory(path, ONE_LEVEL, &mut files);
        }
        expect_bytes_of(files.iter().flatten().map(|file| file.path.as_path()));
        files
    }
}

/// Adds the sizes of files that will be read to the total of the progress bar. Does nothing if no progress is shown.
fn expect_bytes_of<'f>(paths: impl Iterator<Item = &'f Path>) {
    if !progress::lock().is_on {
        return;
    }
    // The line is not locked while the sizes are looked up, because that may take long.
    let mut expected_bytes = 0_u64;
    for path in paths {
        if let Ok(metadata) = path.metadata()
            && metadata.is_file()
        {
            expected_bytes = expected_bytes.saturating_add(metadata.len());
        }
    }
    let mut line = progress::lock();
    line.expected_bytes = line.expected_bytes.saturating_add(expected_bytes);
}

/// Options of a search that follows split libraries to their kpack archives, unless an option forbids it.
#[derive(Clone, Debug, Args)]
pub(super) struct FollowOptions {
    #[command(flatten)]
    pub(super) search: SearchOptions,
    /// Do not follow split ROCm libraries to their kpack archives.
    #[arg(
        help_heading = heading::SEARCH,
        long,
        long_help = "Do not follow split ROCm libraries to the kpack archives with their device code. The archives are \
            found as ROCm's loader finds them: in the places that a library names, for all target IDs. The environment variables ROCM_KPACK_PATH, \
            ROCM_KPACK_PATH_PREFIX and ROCM_KPACK_DISABLE apply. Archives that are among the files of the command are not \
            searched twice."
    )]
    no_follow: bool,
}

impl FollowOptions {
    /// Returns the files as in [`SearchOptions::files`], their paths, and the search that reads these files.
    pub(super) fn files(&self, named: &[PathBuf]) -> (Vec<Result<WorkFile, Error>>, Vec<PathBuf>, Scan) {
        let files = self.search.files(named);
        let paths = paths(&files);
        let scan = self.scan(&paths);
        (files, paths, scan)
    }

    /// Returns the search that reads files with these paths. It follows libraries to their kpack archives unless
    /// `--no-follow` or the environment of ROCm's loader forbids that.
    pub(super) fn scan(&self, paths: &[PathBuf]) -> Scan {
        if self.no_follow || Follow::is_disabled() {
            return self.search.scan(None);
        }
        let mut follow = Follow::from_environment();
        // Archives among the files of the command report their code themselves.
        follow.own = paths.to_vec();
        self.search.scan(Some(Arc::new(follow)))
    }
}

/// Returns whether a directory has subdirectories and nothing else.
fn has_only_directories(path: &Path) -> bool {
    let mut has_directories = false;
    for entry in WalkDir::new(path).min_depth(1).max_depth(1) {
        match entry {
            Ok(entry) if entry.file_type().is_dir() => has_directories = true,
            // There is a file, or an error that the search will report.
            _ => return false,
        }
    }
    has_directories
}

/// Returns whether several of the files are pipes. Several paths may name the same pipe, so only one of them may be
/// read at a time. Every named path that is not a regular file counts as a pipe.
pub(super) fn has_several_pipes(files: &[Result<WorkFile, Error>]) -> bool {
    let mut pipes = 0;
    for file in files.iter().flatten() {
        if file.is_named() && !file.path.is_file() {
            pipes += 1;
        }
    }
    pipes > 1
}

/// Works on files or pairs of files, on several threads unless they must be read one after the other (`one_by_one`).
/// Passes the results to `take` in the order of the items, each as soon as it is available. `work` reads an item. A
/// result that waits for its turn takes memory: `weight` estimates it, in findings. See [`parallel::in_order`].
///
/// All items are read, whatever `take` does with the results: if printing fails because the reader has gone away, the
/// problems of the other files are reported nevertheless.
pub(super) fn for_each<I: Send, T: Send>(
    items: Vec<I>,
    one_by_one: bool,
    work: impl Fn(I) -> Result<T, Error> + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    take: impl FnMut(Result<T, Error>),
) {
    if one_by_one {
        return items.into_iter().map(work).for_each(take);
    }
    // An error counts as one finding.
    let weight = |result: &Result<T, Error>| result.as_ref().map_or(1, &weight);
    parallel::in_order(items, work, weight, |results| results.for_each(take));
}

/// The depth that leaves out subdirectories.
const ONE_LEVEL: usize = 1;
/// The depth that includes all subdirectories.
const ALL_LEVELS: usize = usize::MAX;

/// Adds the files in a directory and in `depth - 1` levels of subdirectories. Adds an error for each directory or file
/// that cannot be listed. Files are sorted by name, so that the output is reproducible.
fn add_directory(path: &Path, depth: usize, files: &mut Vec<Result<WorkFile, Error>>) {
    let directory: Arc<Path> = path.into();
    for entry in WalkDir::new(path).max_depth(depth).sort_by_file_name() {
        match entry {
            Ok(entry) if entry.file_type().is_file() => {
                files.push(Ok(WorkFile { path: entry.into_path(), directory: Some(Arc::clone(&directory)) }));
            }
            Ok(_) => {}
            Err(error) => {
                let path = error.path().unwrap_or(path).to_owned();
                // Links are not followed, so there are no loops: every error is an I/O error.
                if let Some(error) = error.into_io_error() {
                    files.push(Err(Error::io(path, error)));
                }
            }
        }
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
            add_directory(dir.path(), depth, &mut files);
            files.into_iter().map(|file| file.unwrap().path).collect::<Vec<_>>()
        };
        assert_eq!(found(1), [at("a"), at("z")]);
        assert_eq!(found(usize::MAX), [at("a"), at("sub/m"), at("z")]);
    }
}
