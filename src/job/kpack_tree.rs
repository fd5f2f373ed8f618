//! Compares split libraries with the kpack archives that hold their device code.
//!
//! The rules are those by which ROCm's loader finds a code object: it takes the archives whose names fit, of those the
//! ones that claim the target ID of the device, with all or some of its features, and asks each for the binary key with
//! the index of the wrapper. Before August 2026 it asked only the first.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::verify::{Fault, Rule, Verified};
use crate::container::kpack::{Archive, Reference, target_of};
use crate::display::shown;
use crate::scan::{Followed, Place, Split, Step, is_target_id, target_in};

/// The maximum number of target IDs for which the archives of a library are compared with one another.
const COMPARED_MAX: usize = 100;

/// The number of indices that a fault lists.
const LISTED_MAX: usize = 3;

/// What files record about kpack archives: facts that can only be checked together.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    libraries: Vec<Library>,
    archives: Vec<Known>,
}

/// A split library.
#[derive(Clone, Debug)]
struct Library {
    place: Place,
    reference: Reference,
    indices: BTreeSet<u32>,
    /// The archives of a library on disk; none if a zip file holds it.
    archives: Option<Vec<Known>>,
}

/// An archive. Files are identified by their canonical path, members of zip files by their name.
#[derive(Clone, Debug)]
struct Known {
    place: Place,
    path: PathBuf,
    is_member: bool,
    /// None if it cannot be read.
    contents: Option<Contents>,
}

/// The table of contents of an archive, without the code objects.
#[derive(Clone, Debug, Default)]
struct Contents {
    targets: Vec<Vec<u8>>,
    /// The binary keys for each target ID with code objects.
    keys: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl Contents {
    fn new(archive: &Archive) -> Self {
        let mut keys = BTreeMap::<_, Vec<_>>::new();
        for binary in &archive.binaries {
            for target in binary.entries.iter().map(target_of) {
                keys.entry(target.to_vec()).or_default().push(binary.key.clone());
            }
        }
        Self { targets: archive.targets.clone(), keys }
    }

    fn claims(&self, target: &[u8]) -> bool {
        self.targets.iter().any(|claimed| claimed == target)
    }
}

impl Facts {
    /// Adds an archive that is a file, or a member of a zip file. Others are not where a loader finds them.
    pub(super) fn add_archive(&mut self, place: &Place, archive: &Archive) {
        let (path, is_member) = match place.steps() {
            [] => (place.file().canonicalize().unwrap_or_else(|_| place.file().to_owned()), false),
            [Step::Member(name)] => (normal(path_of(name)), true),
            _ => return,
        };
        self.archives.push(Known { place: place.clone(), path, is_member, contents: Some(Contents::new(archive)) });
    }

    /// Adds a library that is a file, or a member of a zip file.
    pub(super) fn add_library(&mut self, place: &Place, split: &Split<'_>) {
        if !matches!(place.steps(), [Step::Section(_)] | [Step::Member(_), Step::Section(_)]) {
            return;
        }
        let archives = split.archives.map(|archives| {
            let known = |followed: &Followed| Known {
                place: Place::of_file(&followed.path),
                path: followed.path.clone(),
                is_member: false,
                contents: followed.archive.as_ref().map(Contents::new),
            };
            archives.iter().map(known).collect()
        });
        let (reference, indices) = (split.reference.clone(), split.indices.iter().copied().collect());
        self.libraries.push(Library { place: place.clone(), reference, indices, archives });
    }
}

/// The split libraries and kpack archives of a tree, or of several wheels that are installed together.
#[derive(Clone, Debug, Default)]
pub struct KpackTree {
    facts: Facts,
}

impl KpackTree {
    /// Adds the libraries and archives of a file.
    pub fn add(&mut self, verified: &mut Verified) {
        let Facts { libraries, archives } = std::mem::take(&mut verified.kpack);
        self.facts.libraries.extend(libraries);
        self.facts.archives.extend(archives);
    }

    /// The faults that none of the files shows alone, those of libraries first.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut asked = HashSet::new();
        for library in &self.facts.libraries {
            let archives: Vec<&Known> = match (&library.archives, library.place.steps()) {
                (Some(archives), _) => archives.iter().collect(),
                (None, [Step::Member(name), ..]) => self.members_for(name, &library.reference),
                _ => continue,
            };
            asked.extend(archives.iter().map(|archive| (archive.is_member, archive.path.clone())));
            library.check(&archives, &mut |text| faults.push(fault(&library.place, text)));
        }
        for archive in &self.facts.archives {
            archive.check(&mut |text| faults.push(fault(&archive.place, text)));
            if !asked.is_empty() && !asked.contains(&(archive.is_member, archive.path.clone())) {
                faults.push(fault(&archive.place, "none of the libraries refers to this kpack archive".to_owned()));
            }
        }
        faults
    }

    /// The members of zip files that a library in a zip file refers to.
    fn members_for(&self, library: &[u8], reference: &Reference) -> Vec<&Known> {
        let library = path_of(library);
        let patterns =
            reference.search_paths.iter().map(|path| normal(&library.with_file_name("").join(path_of(path))));
        let patterns: Vec<PathBuf> = patterns.collect();
        let members = self.facts.archives.iter().filter(|archive| archive.is_member);
        let fits = |archive: &&Known| {
            patterns.iter().any(|pattern| *pattern == archive.path || target_in(&archive.path, pattern).is_some())
        };
        members.filter(fits).collect()
    }
}

fn fault(place: &Place, text: String) -> Fault {
    Fault { place: place.clone(), bundle: None, offset: None, rule: Rule::Kpack, text }
}

impl Library {
    /// Compares the wrappers of the library with the code objects in its archives.
    fn check(&self, archives: &[&Known], fault: &mut dyn FnMut(String)) {
        let name = shown(&self.reference.kernel_name);
        if self.indices.is_empty() {
            fault(format!("'{name}' refers to kpack archives, but has no wrappers that load from them"));
        }
        if archives.is_empty() {
            let paths = self.reference.search_paths.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
            fault(format!("no kpack archive found at {paths}"));
        }
        let mut present = BTreeMap::<&[u8], BTreeSet<u32>>::new();
        for archive in archives {
            let Some(contents) = &archive.contents else {
                fault(format!("the kpack archive {} cannot be read", archive.place));
                continue;
            };
            for target in &contents.targets {
                let keys = contents.keys.get(target).into_iter().flatten();
                let indices = keys.filter_map(|key| self.reference.index_of(key));
                present.entry(target).or_default().extend(indices);
            }
        }
        if present.len() > COMPARED_MAX {
            let text = format!("its kpack archives claim more than {COMPARED_MAX} target IDs, which are not compared");
            return fault(text);
        }
        for (target, indices) in &present {
            let target_name = shown(target);
            let surplus = numbers(indices.difference(&self.indices));
            if let Some(surplus) = surplus.filter(|_| !self.indices.is_empty()) {
                fault(format!("no wrapper loads the code objects {surplus} for '{target_name}'"));
            }
            let mut reachable = indices.clone();
            for (general, others) in present.iter().filter(|(general, _)| is_more_general(general, target)) {
                if let Some(fewer) =
                    numbers(others.intersection(&self.indices).filter(|index| !indices.contains(index)))
                {
                    fault(format!(
                        "'{target_name}' lacks the code objects {fewer}, which '{}' has: loaders before August 2026 take \
                         neither",
                        shown(general)
                    ));
                }
                reachable.extend(others);
            }
            if let Some(missing) = numbers(self.indices.difference(&reachable)) {
                fault(format!(
                    "its kpack archives claim '{target_name}', but lack the code objects {missing} of its wrappers"
                ));
            }
        }
    }
}

impl Known {
    /// Compares the claims of the archive, and the target ID in its name, with its code objects.
    fn check(&self, fault: &mut dyn FnMut(String)) {
        let Some(contents) = &self.contents else { return };
        for target in contents.targets.iter().filter(|target| !contents.keys.contains_key(*target)) {
            fault(format!("the kpack archive claims '{}', but holds no code for it", shown(target)));
        }
        for (target, keys) in contents.keys.iter().filter(|(target, _)| !contents.claims(target)) {
            let objects = keys.len();
            fault(format!(
                "the kpack archive does not claim '{}', so nothing loads its {objects} code objects",
                shown(target)
            ));
        }
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        let target = name.strip_suffix(b".kpack").and_then(|stem| stem.rsplit(|&byte| byte == b'_').next());
        if let Some(target) = target.filter(|target| is_target_id(target) && !contents.claims(target)) {
            fault(format!("the name of the kpack archive is for '{}', which it does not claim", shown(target)));
        }
    }
}

/// Whether code for the target ID `general` also runs on the more specific `target`: it sets some of its features.
fn is_more_general(general: &[u8], target: &[u8]) -> bool {
    let parts = |id: &'_ [u8]| id.split(|&byte| byte == b':').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (general, target) = (parts(general), parts(target));
    general.first() == target.first()
        && general.len() < target.len()
        && general.iter().all(|feature| target.contains(feature))
}

/// Some indices as a binary key ends in them, the first three of them; none if there are none.
fn numbers<'i>(indices: impl Iterator<Item = &'i u32>) -> Option<String> {
    let indices: Vec<String> = indices.map(|index| format!("#{index}")).collect();
    let (first, others) = indices.split_at(indices.len().min(LISTED_MAX));
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    (!first.is_empty()).then(|| first.join(", ") + &more)
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// A path in a zip file without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            component => normal.push(component),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive at `path` in a zip file that claims some target IDs, and the indices of its code objects for each.
    fn archive(path: &str, claims: &[&str], held: &[(&str, &[u32])]) -> Known {
        let place = Place::of_file(Path::new("w.whl"));
        let key = |index: &u32| format!("lib/x#{index}").into_bytes();
        let keys = held.iter().map(|(target, indices)| (target.as_bytes().to_vec(), indices.iter().map(key).collect()));
        let targets = claims.iter().map(|claim| claim.as_bytes().to_vec()).collect();
        let contents = Some(Contents { targets, keys: keys.collect() });
        Known { place, path: path.into(), is_member: true, contents }
    }

    /// The faults of a library in a zip file with these wrappers and archives.
    fn faults(indices: &[u32], archives: Vec<Known>) -> Vec<String> {
        let place = Place::of_file(Path::new("w.whl")).join(Step::Member(b"p/lib/x".to_vec()));
        let place = place.join(Step::Section(b".rocm_kpack_ref".to_vec()));
        let search_paths = vec![b"../.kpack/x_@GFXARCH@.kpack".to_vec()];
        let reference = Reference { kernel_name: b"lib/x".to_vec(), search_paths };
        let indices = indices.iter().copied().collect();
        let libraries = vec![Library { place, reference, indices, archives: None }];
        let tree = KpackTree { facts: Facts { libraries, archives } };
        tree.faults().into_iter().map(|fault| fault.text).collect()
    }

    #[test]
    fn sound_libraries_have_no_faults() {
        let plain = archive("p/.kpack/x_gfx906.kpack", &["gfx906"], &[("gfx906", &[0, 1])]);
        let full = archive("p/.kpack/x_gfx90a:xnack-.kpack", &["gfx90a:xnack-"], &[("gfx90a:xnack-", &[1, 0])]);
        assert_eq!(faults(&[0, 1], vec![plain, full]), [""; 0]);
    }

    #[test]
    fn each_rule_is_broken_by_itself() {
        let at = |name: &str| format!("p/.kpack/x_{name}.kpack");
        let sound = || archive(&at("gfx906"), &["gfx906"], &[("gfx906", &[0, 1])]);
        let plain = archive(&at("gfx90a"), &["gfx90a"], &[("gfx90a", &[0, 1])]);
        let fewer = archive(&at("gfx90a:xnack-"), &["gfx90a:xnack-"], &[("gfx90a:xnack-", &[0])]);
        let elsewhere = archive("q/.kpack/x_gfx906.kpack", &["gfx906"], &[("gfx906", &[0, 1])]);
        let unreadable = Known { contents: None, ..sound() };
        for (indices, archives, expected) in [
            (&[0, 1, 2, 3, 4][..], vec![sound()], "claim 'gfx906', but lack the code objects #2, #3, #4 of its"),
            (&[0, 1, 2, 3, 4, 5], vec![sound()], "code objects #2, #3, #4 and 1 more of its wrappers"),
            (&[0], vec![sound()], "no wrapper loads the code objects #1 for 'gfx906'"),
            (&[], vec![sound()], "has no wrappers that load"),
            (&[0, 1], vec![], "no kpack archive found at ../.kpack/x_@GFXARCH@.kpack"),
            (&[0, 1], vec![unreadable], "cannot be read"),
            (&[0, 1], vec![plain, fewer], "'gfx90a:xnack-' lacks the code objects #1, which 'gfx90a' has"),
            (&[0, 1], vec![sound(), elsewhere], "none of the libraries refers"),
            (
                &[0, 1],
                vec![archive(&at("gfx906"), &["gfx906"], &[("gfx906", &[0, 1]), ("gfx908", &[0])])],
                "claim 'gfx908'",
            ),
            (&[0, 1], vec![archive(&at("gfx908"), &["gfx906"], &[("gfx906", &[0, 1])])], "name of the kpack archive"),
        ] {
            let found = faults(indices, archives);
            assert!(matches!(found.as_slice(), [text] if text.contains(expected)), "{expected}: {found:#?}");
        }
        // A target ID without any code breaks two rules: that of the archive, and that of the library.
        let empty = archive(&at("gfx906"), &["gfx906", "gfx942"], &[("gfx906", &[0, 1])]);
        let found = faults(&[0, 1], vec![empty]);
        assert!(found.len() == 2 && found.iter().all(|text| text.contains("'gfx942'")), "{found:#?}");
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
}
