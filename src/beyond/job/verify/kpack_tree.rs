//! Checks kpack archives, and compares split libraries with the archives that hold their device code. A split library
//! has wrappers instead of device code. Each wrapper has an index, and an archive has the code object for it under a
//! binary key that ends with the index.
//!
//! The library has a reference: a name, and paths of archives with a placeholder for the target ID. An archive claims
//! some target IDs in its table of contents.
//!
//! The rules follow ROCm's loader. It takes the archives that the reference names and that claim the target ID of the
//! device, with all or some of its features. Then it asks each for the binary key with the index of the wrapper. Before
//! August 2026 it asked only the first archive.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use super::{Fault, Verified, VerifyRule};
use crate::base::bytes;
use crate::base::display::shown;
use crate::base::id::processors;
use crate::base::io::sys;
use crate::beyond::base::text::listed;
use crate::beyond::container::kpack::{KpackArchive, Reference, target_of};
use crate::beyond::scan::{Place, Split, Step, target_in};

/// The maximum number of target IDs that the archives of a library are compared for.
const COMPARED_MAX: usize = 100;

/// The number of items that a fault lists.
const NAMED_ITEMS_MAX: usize = 3;

/// The split libraries and kpack archives of a file, of a tree, or of several wheels that are installed together.
#[derive(Clone, Debug, Default)]
pub(super) struct KpackTree {
    /// Whether there is any split library. Only then is an archive without a library a fault.
    has_library: bool,
    /// The canonical paths of the archives that libraries on disk refer to.
    referred_files: HashSet<PathBuf>,
    /// The libraries in zip files.
    libraries: Vec<SplitLibrary>,
    archives: Vec<FoundArchive>,
}

/// A split library in a zip file.
#[derive(Clone, Debug)]
struct SplitLibrary {
    place: Place,
    /// The name of the member that is the library.
    name: Vec<u8>,
    reference: Reference,
    /// The indices of the wrappers of the library.
    indices: BTreeSet<u32>,
}

/// A kpack archive: a file, or a member of a zip file.
#[derive(Clone, Debug)]
struct FoundArchive {
    place: Place,
    /// The canonical path of the file, or the normalized name of the member.
    path: PathBuf,
    /// The table of contents of a member. `None` for a file, which is read when a search follows the reference of a
    /// library.
    table: Option<ArchiveTable>,
}

/// The table of contents of an archive, without the code objects.
#[derive(Clone, Debug)]
struct ArchiveTable {
    /// The target IDs that the archive claims to have code for.
    claims: Vec<Vec<u8>>,
    /// The binary keys.
    keys: Vec<Vec<u8>>,
    /// For each target ID that has code, the positions in `keys` of the keys with the code.
    key_positions: BTreeMap<Vec<u8>, Vec<usize>>,
}

/// The indices of the wrappers that archives have code for, by the target ID that the archives claim.
type ServedWrappers = BTreeMap<Vec<u8>, BTreeSet<u32>>;

impl ArchiveTable {
    /// Takes over the names in the table of contents of an archive.
    fn new(archive: &KpackArchive) -> Self {
        let mut key_positions = BTreeMap::<_, Vec<_>>::new();
        for (position, binary) in archive.binaries.iter().enumerate() {
            for target in binary.entries.iter().map(target_of) {
                key_positions.entry(target.to_vec()).or_default().push(position);
            }
        }
        let keys = archive.binaries.iter().map(|binary| binary.key.clone()).collect();
        Self { claims: archive.targets.clone(), keys, key_positions }
    }

    /// Adds the wrappers of a library that the archive has code for, by the target IDs that the archive claims. A
    /// claimed target ID without code is added with no wrappers.
    fn add_served(&self, reference: &Reference, served: &mut ServedWrappers) {
        // The index in each key, or `None` for a key of another library that uses the same archive.
        let indices: Vec<Option<u32>> = self.keys.iter().map(|key| reference.index_of(key)).collect();
        for target in &self.claims {
            let served_indices = served.entry(target.clone()).or_default();
            for &position in self.key_positions.get(target).into_iter().flatten() {
                if let Some(Some(index)) = indices.get(position) {
                    served_indices.insert(*index);
                }
            }
        }
    }
}

impl KpackTree {
    /// Adds an archive that is a file, or a member of a zip file. The table of a member is kept, because its bytes are
    /// only there now. The table of a file is not kept: the file is read again with the library that refers to it.
    pub(super) fn add_archive(&mut self, place: &Place, is_zip: bool, archive: &KpackArchive) {
        let (path, table) = match place.steps() {
            [] => (place.file().canonicalize().unwrap_or_else(|_| place.file().to_owned()), None),
            [Step::Member(name)] if is_zip => (normalized(&path_of(name)), Some(ArchiveTable::new(archive))),
            // Only a file or a member of a zip file is installed next to libraries.
            _ => return,
        };
        self.archives.push(FoundArchive { place: place.clone(), path, table });
    }

    /// Adds a split library. Returns the faults of a library whose reference was followed to archives on disk. `is_zip`
    /// says whether the searched file is a zip file: a member may otherwise be one of a static library.
    ///
    /// A member of a zip file has no faults yet: [`faults`](Self::faults) compares it with the archives in all zip
    /// files. A library in any other container is not compared.
    pub(super) fn add_library(&mut self, place: &Place, is_zip: bool, split: &Split<'_>) -> Vec<String> {
        let indices = split.indices.iter().copied().collect();
        match (split.archives, place.steps()) {
            // The reference was followed to archives on disk.
            (Some(archives), _) => {
                self.has_library = true;
                self.referred_files.extend(archives.iter().map(|followed| followed.path.clone()));
                let mut served = ServedWrappers::new();
                for archive in archives.iter().filter_map(|followed| followed.archive.as_ref()) {
                    ArchiveTable::new(archive).add_served(split.reference, &mut served);
                }
                check_library(split.reference, &indices, archives.len(), &served)
            }
            (None, [Step::Member(name), Step::Section(_)]) if is_zip => {
                self.has_library = true;
                let (name, reference) = (name.clone(), split.reference.clone());
                self.libraries.push(SplitLibrary { place: place.clone(), name, reference, indices });
                Vec::new()
            }
            // Only a file or a member of a zip file is installed next to archives.
            _ => Vec::new(),
        }
    }

    /// Adds the libraries and archives of a file. An archive that was found in a directory, or is in a zip file, must
    /// belong to a library that is added too. An archive on disk that the user named needs no library.
    pub(super) fn add(&mut self, verified: &mut Verified, is_from_directory: bool) {
        let Self { has_library, referred_files, libraries, archives } = std::mem::take(&mut verified.kpack);
        self.has_library |= has_library;
        self.referred_files.extend(referred_files);
        self.libraries.extend(libraries);
        for archive in archives {
            let is_in_zip = archive.table.is_some();
            if is_from_directory || is_in_zip {
                self.archives.push(archive);
            }
        }
    }

    /// Returns the faults that are known only when all files are added. The faults of libraries come first.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        // The names of the archives in zip files that a library refers to.
        let mut referred_members = HashSet::new();
        // The libraries here are in zip files. `add_library` has checked the libraries on disk, and has noted their
        // archives in `referred_files`.
        for library in &self.libraries {
            let mut served = ServedWrappers::new();
            let archives = self.members_for(library);
            for (archive, table) in &archives {
                referred_members.insert(archive.path.as_path());
                table.add_served(&library.reference, &mut served);
            }
            let SplitLibrary { place, reference, indices, .. } = library;
            let texts = check_library(reference, indices, archives.len(), &served);
            faults.extend(texts.into_iter().map(|text| fault(place, text)));
        }
        // A tree with archives alone, without any split library, has no faults.
        if self.has_library {
            for archive in &self.archives {
                // Only an archive in a zip file has a table here.
                let is_referred = match archive.table {
                    Some(_) => referred_members.contains(archive.path.as_path()),
                    None => self.referred_files.contains(&archive.path),
                };
                if !is_referred {
                    faults.push(fault(&archive.place, "none of the libraries refers to this kpack archive".to_owned()));
                }
            }
        }
        faults
    }

    /// Returns the members of zip files that a library in a zip file refers to, as if all were installed together. The
    /// paths in the reference count from the directory of the library.
    fn members_for(&self, library: &SplitLibrary) -> Vec<(&FoundArchive, &ArchiveTable)> {
        let directory = normalized(&path_of(&library.name)).with_file_name("");
        let paths = library.reference.search_paths.iter();
        let patterns: Vec<PathBuf> = paths.map(|path| normalized(&directory.join(path_of(path)))).collect();
        let mut members = Vec::new();
        for archive in &self.archives {
            let Some(table) = &archive.table else { continue };
            let path = &archive.path;
            // A path may have a placeholder for the target ID in the name of the archive.
            if patterns.iter().any(|pattern| pattern == path || target_in(path, pattern).is_some()) {
                members.push((archive, table));
            }
        }
        members
    }
}

fn fault(place: &Place, text: String) -> Fault {
    Fault::new(place, VerifyRule::Kpack, text)
}

/// Returns the faults of a split library. `wrappers` are the indices of its wrappers, `archive_count` is the number of
/// its archives, and `served` has the wrappers that these archives have code for.
fn check_library(
    reference: &Reference,
    wrappers: &BTreeSet<u32>,
    archive_count: usize,
    served: &ServedWrappers,
) -> Vec<String> {
    let mut faults = Vec::new();
    if wrappers.is_empty() {
        let name = shown(&reference.kernel_name);
        faults.push(format!("'{name}' refers to kpack archives, but has no wrappers that load from them"));
    }
    if archive_count == 0 {
        let paths = reference.search_paths.iter().map(|path| format!("'{}'", shown(path))).collect::<Vec<_>>();
        faults.push(format!("no kpack archive found at {}", paths.join(", ")));
    } else if served.values().all(BTreeSet::is_empty)
        && let Some(lacking) = list_indices(wrappers.iter())
    {
        faults.push(format!("its kpack archives lack the code objects {lacking} of its wrappers for every target ID"));
    }
    // Each target ID is compared with each other, so the time grows with the square of their number.
    if served.len() > COMPARED_MAX {
        let text = format!("its kpack archives claim more than {COMPARED_MAX} target IDs, which are not compared");
        faults.push(text);
        return faults;
    }
    for (target, indices) in served {
        faults.extend(check_target(target, indices, wrappers, served));
    }
    faults
}

/// Returns the faults of a split library for one target ID, for which its archives have the code objects `indices`.
/// `wrappers` are the indices of its wrappers, and `served` has all target IDs with their code objects.
fn check_target(
    target: &[u8],
    indices: &BTreeSet<u32>,
    wrappers: &BTreeSet<u32>,
    served: &ServedWrappers,
) -> Vec<String> {
    let (mut faults, target_name) = (Vec::new(), shown(target));
    // A library without any wrappers has a fault already.
    if let Some(surplus) = list_indices(indices.difference(wrappers))
        && !wrappers.is_empty()
    {
        faults.push(format!("no wrapper loads the code objects {surplus} for '{target_name}'"));
    }
    // Current loaders fall back to the code of more general target IDs.
    let mut reachable = indices.clone();
    for (general, general_indices) in served {
        if !is_more_general(general, target) {
            continue;
        }
        let lacking = general_indices.intersection(wrappers).filter(|index| !indices.contains(index));
        if let Some(fewer) = list_indices(lacking) {
            faults.push(format!(
                "'{target_name}' lacks the code objects {fewer}, which '{}' has: loaders before August 2026 do not \
                 fall back to that",
                shown(general)
            ));
        }
        reachable.extend(general_indices);
    }
    // An archive may claim a target ID only because of other libraries, so no code at all is no fault.
    if let Some(missing) = list_indices(wrappers.difference(&reachable))
        && !reachable.is_empty()
    {
        faults.push(format!(
            "its kpack archives claim '{target_name}', but lack the code objects {missing} of its wrappers"
        ));
    }
    faults
}

/// Compares the target IDs that an archive claims with its code objects, and with the target ID in its name. Returns
/// the faults.
pub(super) fn check_archive(archive: &KpackArchive, place: &Place) -> Vec<String> {
    let mut faults = Vec::new();
    let held: BTreeSet<&[u8]> = archive.binaries.iter().flat_map(|binary| &binary.entries).map(target_of).collect();
    let claims: BTreeSet<&[u8]> = archive.targets.iter().map(Vec::as_slice).collect();
    if let Some(without_code) = list_some(claims.difference(&held).map(|target| format!("'{}'", shown(target)))) {
        faults.push(format!("the kpack archive claims {without_code}, but holds no code for that"));
    }
    if let Some(unclaimed) = list_some(held.difference(&claims).map(|target| format!("'{}'", shown(target)))) {
        faults.push(format!("the kpack archive does not claim {unclaimed}, so nothing loads its code for that"));
    }
    // The name of an archive may end in `_` and a target ID.
    let path = match place.steps() {
        [.., Step::Member(name)] => path_of(name),
        _ => place.file().to_owned(),
    };
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    if let Some(stem) = name.strip_suffix(b".kpack")
        && let Some(target) = stem.rsplit(|&byte| byte == b'_').next()
        && is_target_id(target)
        && !claims.contains(target)
    {
        faults.push(format!("the name of the kpack archive is for '{}', which it does not claim", shown(target)));
    }
    faults
}

/// Returns whether a text is a target ID of a known processor. Names of archives may also end in a family of GPUs, such
/// as `gfx94X-dcgpu`.
fn is_target_id(text: &[u8]) -> bool {
    let processor = text.split(|&byte| byte == b':').next().unwrap_or_default();
    match bytes::text(processor) {
        Some(processor) => processors::find(&processor).is_some(),
        None => false,
    }
}

/// Returns whether code for the target ID `general` also runs on the more specific `target`: both have the same
/// processor, and `general` has only some of the features of `target`.
fn is_more_general(general: &[u8], target: &[u8]) -> bool {
    let [general, target] = [general, target].map(|id| id.split(|&byte| byte == b':').collect::<Vec<_>>());
    general.first() == target.first()
        && general.len() < target.len()
        && general.iter().all(|feature| target.contains(feature))
}

/// Lists some indices as at the end of a binary key, such as `#3`. Returns `None` without indices.
fn list_indices<'i>(indices: impl Iterator<Item = &'i u32>) -> Option<String> {
    list_some(indices.map(|index| format!("#{index}")))
}

/// Lists the first items, and the number of the others, or returns `None` if there are no items.
fn list_some(items: impl Iterator<Item = String>) -> Option<String> {
    let text = listed(items, NAMED_ITEMS_MAX, ", ", " and ");
    if text.is_empty() { None } else { Some(text) }
}

fn path_of(name: &[u8]) -> PathBuf {
    sys::os_str(name).into_owned().into()
}

/// Returns the path of a member of a wheel after installation, without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            component => normal.push(component),
        }
    }
    // The contents of `<wheel>.data/platlib` are installed next to those of the wheel.
    let mut parts = normal.iter();
    if let (Some(data), Some(scheme)) = (parts.next(), parts.next())
        && data.as_encoded_bytes().ends_with(b".data")
        && (scheme == "purelib" || scheme == "platlib")
    {
        return parts.as_path().to_owned();
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an archive at `path` in a zip file, with its claimed target IDs and the indices of its code objects for
    /// each.
    fn archive(path: &str, claims: &[&str], held: &[(&str, &[usize])]) -> FoundArchive {
        let place = Place::of_file(Path::new("w.whl"));
        let keys = (0..10).map(|index| format!("lib/x#{index}").into_bytes()).collect();
        let key_positions =
            held.iter().map(|(target, indices)| (target.as_bytes().to_vec(), indices.to_vec())).collect();
        let claims = claims.iter().map(|claim| claim.as_bytes().to_vec()).collect();
        FoundArchive {
            place,
            path: normalized(path.as_ref()),
            table: Some(ArchiveTable { claims, keys, key_positions }),
        }
    }

    /// Returns the faults of a library in a zip file with these wrappers and archives.
    fn faults(indices: &[u32], archives: Vec<FoundArchive>) -> Vec<String> {
        let (place, name) = (Place::of_file(Path::new("w.whl")), b"p/lib/x".to_vec());
        let search_paths = vec![b"../.kpack/x_@GFXARCH@.kpack".to_vec()];
        let reference = Reference { kernel_name: b"lib/x".to_vec(), search_paths };
        let indices = indices.iter().copied().collect();
        let libraries = vec![SplitLibrary { place, name, reference, indices }];
        let tree = KpackTree { has_library: true, referred_files: HashSet::new(), libraries, archives };
        tree.faults().into_iter().map(|fault| fault.text).collect()
    }

    #[test]
    fn sound_libraries_have_no_faults() {
        let plain = archive("p/.kpack/x_gfx906.kpack", &["gfx906"], &[("gfx906", &[0, 1])]);
        let full = archive("p/.kpack/x_gfx90a:xnack-.kpack", &["gfx90a:xnack-"], &[("gfx90a:xnack-", &[1, 0])]);
        assert_eq!(faults(&[0, 1], vec![plain, full]), [""; 0]);
        // Another library is built for more GPUs.
        let others = archive("p/.kpack/x_gfx906.kpack", &["gfx906", "gfx942"], &[("gfx906", &[0, 1])]);
        assert_eq!(faults(&[0, 1], vec![others]), [""; 0]);
    }

    #[test]
    fn each_rule_is_broken_alone() {
        let at = |name: &str| format!("p/.kpack/x_{name}.kpack");
        let sound = || archive(&at("gfx906"), &["gfx906"], &[("gfx906", &[0, 1])]);
        let plain = archive(&at("gfx90a"), &["gfx90a"], &[("gfx90a", &[0, 1])]);
        let fewer = archive(&at("gfx90a:xnack-"), &["gfx90a:xnack-"], &[("gfx90a:xnack-", &[0])]);
        let elsewhere = archive("q/.kpack/x_gfx906.kpack", &["gfx906"], &[("gfx906", &[0, 1])]);
        for (indices, archives, expected) in [
            (&[0, 1, 2, 3, 4][..], vec![sound()], "claim 'gfx906', but lack the code objects #2, #3, #4 of its"),
            (&[0, 1, 2, 3, 4, 5], vec![sound()], "code objects #2, #3, #4 and 1 more of its wrappers"),
            (&[0], vec![sound()], "no wrapper loads the code objects #1 for 'gfx906'"),
            (&[], vec![sound()], "has no wrappers that load"),
            (&[0, 1], vec![], "no kpack archive found at '../.kpack/x_@GFXARCH@.kpack'"),
            (&[0, 1], vec![plain, fewer], "'gfx90a:xnack-' lacks the code objects #1, which 'gfx90a' has"),
            (&[0, 1], vec![sound(), elsewhere], "none of the libraries refers"),
            (
                &[0, 1],
                vec![archive(&at("gfx942"), &["gfx942"], &[])],
                "lack the code objects #0, #1 of its wrappers for every",
            ),
        ] {
            let found = faults(indices, archives);
            assert!(matches!(found.as_slice(), [text] if text.contains(expected)), "{expected}: {found:#?}");
        }
    }

    #[test]
    fn code_for_fewer_features_is_more_general() {
        for (general, target, expected) in [
            ("gfx90a", "gfx90a:xnack-", true),
            ("gfx90a:xnack-", "gfx90a:sramecc+:xnack-", true),
            ("gfx90a:xnack-", "gfx90a:xnack-", false),
            ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", false),
            ("gfx906", "gfx90a:xnack-", false),
            ("gfx90a:xnack-", "gfx90a", false),
        ] {
            assert_eq!(is_more_general(general.as_bytes(), target.as_bytes()), expected, "{general} {target}");
        }
    }

    #[test]
    fn paths_are_as_after_installation() {
        for (path, expected) in [
            ("lib/../x.kpack", "x.kpack"),
            ("./lib/./x.kpack", "lib/x.kpack"),
            ("w.data/purelib/x.kpack", "x.kpack"),
            ("w.data/platlib/p/x.kpack", "p/x.kpack"),
            ("w.data/scripts/x.kpack", "w.data/scripts/x.kpack"),
            ("data/purelib/x.kpack", "data/purelib/x.kpack"),
            ("w.data", "w.data"),
        ] {
            assert_eq!(normalized(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
