//! Searches kpack archives, and finds the archives of a split library as ROCm's loader does.
//!
//! The loader has the target ID of a device, and tries it with all subsets of its features in place of `@GFXARCH@`. A
//! search has no device, so it takes all archives whose names have a target ID there. Paths are relative to the
//! directory of the library, after symbolic links. Source: ROCm's loader of August 2026.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Format;
use super::found::{Finding, Followed, Split};
use super::place::{Place, Step};
use super::walk::{FilePart, ONLY_BUNDLE, Walk};
use crate::base::bytes::len_u64;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::sys::{self, Stat};
use crate::beyond::base::sys::{PATH_SEPARATOR, join, names_in};
use crate::beyond::container::SearchEntry;
use crate::beyond::container::host::wrapper;
use crate::beyond::container::kpack::{KpackArchive, PLACEHOLDER, Reference, SPIR_V, WrappedBinary, target_of};

/// How the kpack archives of split libraries are found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Follow {
    /// Archives that replace the archives in references.
    pub instead: Vec<PathBuf>,
    /// Archives that are searched before the archives in references.
    pub before: Vec<PathBuf>,
    /// Files that the caller searches too. Archives among them report their own code, so it is not reported again for a
    /// library.
    pub own: Vec<PathBuf>,
    /// The canonical paths of the files in `own`, once they are needed.
    own_canonical: OnceLock<HashSet<PathBuf>>,
    /// Whether only the tables of contents of archives are read, and no code in them is reported.
    is_tables_only: bool,
}

impl Follow {
    /// Returns the archives that ROCm's loader would find in this process. `ROCM_KPACK_PATH` lists the archives that
    /// replace the references, `ROCM_KPACK_PATH_PREFIX` the archives that are searched before them. Colons separate the
    /// paths, on Windows semicolons.
    pub fn from_environment() -> Self {
        let (instead, before) = (paths_in_variable("ROCM_KPACK_PATH"), paths_in_variable("ROCM_KPACK_PATH_PREFIX"));
        Self { instead, before, ..Self::default() }
    }

    /// Returns these settings, but for a search that reads only the tables of contents of archives, and reports no code
    /// in them.
    pub(crate) fn tables_only(&self) -> Self {
        Self { is_tables_only: true, ..self.clone() }
    }

    /// Returns whether the caller searches the file with this canonical path too.
    fn is_searched_by_caller(&self, path: &Path) -> bool {
        let own =
            self.own_canonical.get_or_init(|| self.own.iter().filter_map(|path| path.canonicalize().ok()).collect());
        own.contains(path)
    }

    /// Returns whether ROCm's loader would load nothing from archives in this process, because `ROCM_KPACK_DISABLE`
    /// is set.
    pub fn is_disabled() -> bool {
        let value = env::var_os("ROCM_KPACK_DISABLE").unwrap_or_default();
        !matches!(value.as_encoded_bytes().first(), None | Some(b'0'))
    }

    /// Finds the archives for a library, each once, in the order in which ROCm's loader searches them. If `instead` has
    /// paths, only these archives are found. Also returns errors: of a library whose path cannot be resolved, and of
    /// directories that cannot be read.
    pub(super) fn find_archives(&self, library: &Path, reference: &Reference) -> (Vec<PathBuf>, Vec<Error>) {
        let mut found = FoundArchives::default();
        if !self.instead.is_empty() {
            for path in &self.instead {
                found.add(path);
            }
            return (found.paths, found.errors);
        }
        for path in &self.before {
            found.add(path);
        }
        match library.canonicalize() {
            Ok(library) => found.add_referenced(&library, reference),
            Err(error) => found.errors.push(Error::io(library, error)),
        }
        (found.paths, found.errors)
    }
}

/// Returns the paths in an environment variable.
fn paths_in_variable(name: &str) -> Vec<PathBuf> {
    let value = env::var_os(name).unwrap_or_default();
    let mut paths = Vec::new();
    for path in value.as_encoded_bytes().split(|&byte| byte == PATH_SEPARATOR) {
        if !path.is_empty() {
            paths.push(sys::os_str(path).into_owned().into());
        }
    }
    paths
}

/// The kpack archives for a library that were found so far, and the errors of looking for them.
#[derive(Default)]
struct FoundArchives {
    /// The canonical paths, each file once.
    paths: Vec<PathBuf>,
    /// Device and inode of each archive.
    seen: HashSet<(u64, u64)>,
    errors: Vec<Error>,
}

impl FoundArchives {
    /// Adds the existing archives that the reference of a library names. `library` is a canonical path, because
    /// references count from the directory of the library after symbolic links.
    fn add_referenced(&mut self, library: &Path, reference: &Reference) {
        for path in &reference.search_paths {
            let path = join(&library.with_file_name(""), path);
            let Some((before, after)) = split_at_placeholder(&path) else {
                self.add(&path);
                continue;
            };
            match paths_with_target(before, after) {
                Ok(paths) => {
                    for path in paths {
                        self.add(&path);
                    }
                }
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Adds a path if it leads to a regular file that was not added before. A missing file is not an error: references
    /// name more archives than are installed.
    fn add(&mut self, path: &Path) {
        match canonical_path_and_stat(path) {
            Ok((path, stat)) => {
                if stat.is_file() && self.seen.insert(stat.identity()) {
                    self.paths.push(path);
                }
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => self.errors.push(Error::io(path, error)),
        }
    }
}

/// Returns the path of a file after symbolic links, and the metadata of the file.
fn canonical_path_and_stat(path: &Path) -> io::Result<(PathBuf, Stat)> {
    let path = path.canonicalize()?;
    let stat = Stat::at(&path)?;
    Ok((path, stat))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the existing paths that have a target ID between `before` and `after`, or no paths if their directory does
/// not exist. The paths of one processor follow one another, and more features come before fewer: the loader tries them
/// in this order.
fn paths_with_target(before: &[u8], after: &[u8]) -> Result<Vec<PathBuf>> {
    let name_start = match memchr::memrchr(b'/', before) {
        Some(slash) => slash.saturating_add(1),
        None => 0,
    };
    let (directory, prefix) = before.split_at(name_start);
    // The target ID may be in the name of a directory, with more of the path below it.
    let (suffix, below) = after.split_at(memchr::memchr(b'/', after).unwrap_or(after.len()));
    let directory = sys::os_str(directory);
    let directory = Path::new(&*directory);
    let entries = match names_in(directory) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(directory, error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| Error::io(directory, error))?;
        if let Some(target) = target_between(&name, prefix, suffix) {
            let mut parts = target.split(|&byte| byte == b':').map(<[u8]>::to_vec);
            let (processor, features) = (parts.next(), parts.collect::<Vec<_>>());
            let path = directory.join(sys::os_string([&name, below].concat()));
            // Sorted by the first field that differs.
            paths.push((processor, Reverse(features.len()), features, path));
        }
    }
    paths.sort_unstable();
    Ok(paths.into_iter().map(|(.., path)| path).collect())
}

/// Returns the parts of a pattern before and after its first placeholder, or `None` if it has no placeholder.
fn split_at_placeholder(pattern: &Path) -> Option<(&[u8], &[u8])> {
    let pattern = pattern.as_os_str().as_encoded_bytes();
    let (before, after) = pattern.split_at_checked(memchr::memmem::find(pattern, PLACEHOLDER)?)?;
    Some((before, after.strip_prefix(PLACEHOLDER)?))
}

/// Returns the target ID between `before` and `after` in a file name, or `None` if the name has another form.
fn target_between<'n>(name: &'n [u8], before: &[u8], after: &[u8]) -> Option<&'n [u8]> {
    let target = name.strip_prefix(before)?.strip_suffix(after)?;
    if is_target_id(target) { Some(target) } else { None }
}

/// Returns the target ID that a path has where `pattern` has the placeholder, or `None` if the path has another form.
pub(crate) fn target_in<'p>(path: &'p Path, pattern: &Path) -> Option<&'p [u8]> {
    let (before, after) = split_at_placeholder(pattern)?;
    target_between(path.as_os_str().as_encoded_bytes(), before, after)
}

/// Returns whether a part of a file name looks like a target ID.
fn is_target_id(text: &[u8]) -> bool {
    text == SPIR_V
        || (text.starts_with(b"gfx") && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-+:".contains(byte)))
}

/// Returns whether a loader could load a library and resolve its references, which are paths beside the file. Returns
/// false for bytes that are not from a file, for members of packages, and for devices and missing files.
fn is_loadable(library: &Place, section: Slice<'_>) -> bool {
    let is_member = !library.steps().is_empty();
    if section.input().is_none() || is_member {
        return false;
    }
    match library.file().metadata() {
        Ok(metadata) => metadata.is_file(),
        // A library that exists but cannot be examined counts, so that the error is reported when it is followed.
        Err(error) => !is_missing(&error),
    }
}

/// Prepares the error of an archive for a finding at a place in the library. A fault in the archive's content keeps the
/// path of the archive. Any other error is marked as [`ErrorKind::Referred`]: the library refers to the file.
fn error_at_library(error: Error) -> Error {
    match error.fault() {
        Some(fault) => Error::refused(error.kind(), error.path(), error.offset(), fault),
        None => error.into_referred(),
    }
}

/// The code objects that a library loads from archives. If several archives have code for the same index and target ID,
/// the library loads the code of the first archive.
struct WantedCode<'r> {
    reference: &'r Reference,
    /// The indices in the wrappers of the library. If there are none, as in a library without readable wrappers, code
    /// of any index is wanted.
    indices: HashSet<u32>,
    /// The indices and target IDs of the code objects found so far.
    seen: HashSet<(u32, Vec<u8>)>,
}

impl WantedCode<'_> {
    /// Returns the code objects of a binary that the library loads from this archive, and notes them. `claims` are the
    /// target IDs that the archive claims to have code for; the loader asks for no others.
    fn take_entries(&mut self, claims: &HashSet<&[u8]>, binary: &WrappedBinary) -> Vec<SearchEntry> {
        let mut entries = Vec::new();
        for entry in &binary.entries {
            let target = target_of(entry);
            if claims.contains(target) && self.note_if_wanted(&binary.key, target) {
                entries.push(entry.clone());
            }
        }
        entries
    }

    /// Notes a code object with this binary key and target ID. Returns whether the library loads it: the key has an
    /// index that the library uses, and no earlier archive has such code.
    fn note_if_wanted(&mut self, key: &[u8], target: &[u8]) -> bool {
        let Some(index) = self.reference.index_of(key) else { return false };
        // A library without readable wrappers has no known indices, so any index counts as used.
        let is_used = self.indices.is_empty() || self.indices.contains(&index);
        is_used && self.seen.insert((index, target.to_vec()))
    }
}

impl Walk<'_, '_, '_> {
    /// Reports the code objects of a kpack archive, as one bundle for each binary key, and then the archive itself.
    pub(super) fn search_kpack_archive(&mut self, at: FilePart<'_>) -> Result<()> {
        let archive = match KpackArchive::read(at.data) {
            Ok(archive) => archive,
            Err(error) => return self.report_broken_container(at, error),
        };
        for WrappedBinary { key, entries } in &archive.binaries {
            let Some(place) = self.step(at.place, Step::Member(key.clone())) else { continue };
            self.report_entries(at.at_place(&place, at.data), Format::Kpack, ONLY_BUNDLE, entries.clone())?;
        }
        self.report_faults(at, archive.faults.iter().cloned())?;
        self.report_finding(1, at, Finding::Kpack { place: at.place, archive: &archive })
    }

    /// Reports a library whose device code is in kpack archives, and the code in these archives if the settings ask to
    /// follow references to archives. `at` is the section with the reference, and `wrappers` the content of the
    /// library's section with wrappers. If the reference cannot be read, or another one was followed before, only that
    /// is reported.
    pub(super) fn report_split_library(
        &mut self,
        library: &Place,
        at: FilePart<'_>,
        wrappers: Option<Slice<'_>>,
    ) -> Result<()> {
        let section = at.data;
        let wrappers = if let Some(wrappers) = &wrappers { wrappers.bytes() } else { &[] };
        if !self.spend(at, len_u64(wrappers))? {
            return Ok(());
        }
        let Some(reference) =
            self.ok_or_report(at, Reference::read(section.bytes(), section.offset()).with_path(section.path()))?
        else {
            return Ok(());
        };
        let indices = wrapper::kpack_indices(wrappers);
        // The archives, or `None` if the reference is not followed.
        let mut archives = None;
        if let Some(follow) = &self.scan.follow
            && is_loadable(library, section)
        {
            let has_followed_another = std::mem::replace(&mut self.has_followed, true);
            if has_followed_another {
                let offset = section.offset();
                let (what, problem) = ("another reference to kpack archives", ": only the first one is followed");
                return self.report_broken(at, at.error(Malformed::fault(what, offset, problem)));
            }
            let indices = indices.iter().copied().collect();
            let mut wanted = WantedCode { reference: &reference, indices, seen: HashSet::new() };
            archives = Some(self.follow_reference(follow, library, at, &mut wanted)?);
        }
        let split = Split { reference: &reference, indices: &indices, archives: archives.as_deref() };
        self.report_finding(1, at, Finding::Split { place: at.place, split })
    }

    /// Searches the archives in the reference of a library for the wanted code, and returns them. Archives that cannot
    /// be found are reported.
    fn follow_reference(
        &mut self,
        follow: &Follow,
        library: &Place,
        at: FilePart<'_>,
        wanted: &mut WantedCode<'_>,
    ) -> Result<Vec<Followed>> {
        let (paths, errors) = follow.find_archives(library.file(), wanted.reference);
        for error in errors {
            self.report_broken(at, error.into_referred())?;
        }
        let mut followed = Vec::with_capacity(paths.len());
        for path in paths {
            followed.push(self.search_followed_archive(follow, at, path, wanted)?);
        }
        Ok(followed)
    }

    /// Searches a kpack archive in the reference of a library for code that the library loads, and returns the archive
    /// with the number of code objects. The code objects are not reported if the caller searches the archive too, or if
    /// only tables of contents are wanted.
    fn search_followed_archive(
        &mut self,
        follow: &Follow,
        at: FilePart<'_>,
        path: PathBuf,
        wanted: &mut WantedCode<'_>,
    ) -> Result<Followed> {
        let is_searched_by_caller = follow.is_searched_by_caller(&path);
        let place = at.place.clone().in_file(&path);
        let (archive, input) = match self.open_kpack_archive(&path) {
            Ok(opened) => opened,
            Err(error) => {
                let error = error_at_library(error);
                // The caller's own search of the archive reports faults of its content. It cannot report that the
                // library refers to an archive that cannot be opened (`Referred`).
                if !is_searched_by_caller || error.kind() == ErrorKind::Referred {
                    self.report_broken(at.at_place(&place, at.data), error)?;
                }
                return Ok(Followed { path, archive: None, code_objects: 0 });
            }
        };
        let is_reported = !is_searched_by_caller && !follow.is_tables_only;
        if is_reported {
            self.budget.add_file(input.len());
        }
        let (claims, mut code_objects) = (archive.claims(), 0_usize);
        for binary in &archive.binaries {
            let entries = wanted.take_entries(&claims, binary);
            code_objects = code_objects.saturating_add(entries.len());
            if is_reported && !entries.is_empty() && !self.budget.is_over {
                let Some(place) = self.step(&place, Step::Member(binary.key.clone())) else { continue };
                let at = at.at_place(&place, input.as_slice());
                let searched = self.report_entries(at, Format::Kpack, ONLY_BUNDLE, entries);
                input.unless_changed(searched)?;
            }
        }
        if is_reported {
            let at = at.at_place(&place, input.as_slice());
            self.report_faults(at, archive.faults.iter().cloned())?;
            self.report_end(at)?;
        }
        Ok(Followed { path, archive: Some(archive), code_objects })
    }

    /// Opens and reads a kpack archive that the searched file names. Returns the archive and its file.
    fn open_kpack_archive(&self, path: &Path) -> Result<(KpackArchive, Input)> {
        let input = self.sources.referring_input(path)?.open_beside(path)?;
        let archive = KpackArchive::read(&input);
        Ok((input.unless_changed(archive)?, input))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::base::testing::say;

    fn reference(paths: &[&str]) -> Reference {
        let search_paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        Reference { kernel_name: b"lib/x".to_vec(), search_paths }
    }

    #[test]
    fn archives_are_found_as_by_the_loader() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for directory in ["lib", "link", "kpack/gfx90a", "kpack/x_gfx908.kpack"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let [plain, minus, both, other] =
            ["", ":xnack-", ":sramecc+:xnack-", ":sramecc+"].map(|features| format!("kpack/x_gfx90a{features}.kpack"));
        let mixed = "kpack/gfx90a/y.kpack";
        for file in ["lib/x", &plain, &minus, &both, &other, "kpack/x_1.kpack", "kpack/x_gfx942.kpack.bak", mixed] {
            fs::write(at(file), b"").unwrap();
        }
        // Wine says that it makes links, and does not.
        if sys::symlink("../lib/x".as_ref(), &at("link/x")).is_err() || !at("link/x").exists() {
            return say("SKIPPED: links cannot be made here");
        }
        let found = |follow: &Follow, paths: &[&str]| {
            let (found, errors) = follow.find_archives(&at("link/x"), &reference(paths));
            assert!(errors.is_empty(), "{errors:?}");
            found
        };
        let pattern = "../kpack/x_@GFXARCH@.kpack";
        let follow = Follow::default();
        let in_order = [&both, &other, &minus, &plain].map(|name| at(name));
        assert_eq!(found(&follow, &[pattern]), in_order);
        assert_eq!(found(&follow, &["../kpack/@GFXARCH@/y.kpack", "../kpack/none"]), [at(mixed)]);
        // Each archive is taken once.
        let absolute = at(&minus);
        let twice = found(&follow, &[absolute.to_str().unwrap(), pattern, pattern]);
        assert_eq!(twice, [&minus, &both, &other, &plain].map(|name| at(name)));
        let before = Follow { before: vec![at(mixed)], ..Follow::default() };
        assert_eq!(found(&before, &[pattern])[0], at(mixed));
        let instead = Follow { instead: vec![at(mixed), at("none")], ..before };
        assert_eq!(found(&instead, &[pattern]), [at(mixed)]);
    }

    #[test]
    fn a_directory_that_cannot_be_read_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for file in ["x", "x_gfx906.kpack"] {
            fs::write(at(file), b"").unwrap();
        }
        let long = "n/".repeat(5000) + "@GFXARCH@";
        let (found, errors) = Follow::default().find_archives(&at("x"), &reference(&[&long, "x_@GFXARCH@.kpack"]));
        assert_eq!((found, errors.len()), (vec![at("x_gfx906.kpack")], 1));
    }
}
