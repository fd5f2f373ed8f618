//! Names of libraries in two builds, and which of them are the same library.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::beyond::scan::{Place, Step};

/// Returns a path without the version after `.so`, because two builds of a library may differ in it.
pub fn unversioned(path: &[u8]) -> &[u8] {
    const EXTENSION: &[u8] = b".so";
    let Some(dot) = memchr::memmem::rfind(path, b".so.") else { return path };
    let Some((start, version)) = path.split_at_checked(dot.saturating_add(EXTENSION.len())) else { return path };
    if version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') { start } else { path }
}

/// The extensions of libraries. Tools for wheels add hashes to the names of these only.
const EXTENSIONS: [&[u8]; 2] = [b".so", b".dll"];

/// The numbers of digits of the hashes of auditwheel and delvewheel.
const HASH_LENGTHS: [usize; 2] = [8, 32];

/// Returns a path without the version of a library, and without the hash of its content that tools for wheels put
/// before the extension: `libnvjpeg-36e11081.so.13`, `libnvjpeg.36e11081.so.13` and `libnvjpeg.so.13` are the same
/// library.
pub fn without_hash(path: &[u8]) -> Vec<u8> {
    let path = unversioned(path);
    for extension in EXTENSIONS {
        let Some(stem) = path.strip_suffix(extension) else { continue };
        // A slash ends the search, because a hash in the name of a directory stays.
        let Some(separator) = stem.iter().rposition(|byte| matches!(byte, b'-' | b'.' | b'/' | b'\\')) else {
            continue;
        };
        let Some((name, hash)) = stem.split_at_checked(separator) else { continue };
        // The tools put a hash only after a name, never at its start.
        if is_hash(hash) && name.last().is_some_and(u8::is_ascii_alphanumeric) {
            return [name, extension].concat();
        }
    }
    path.to_vec()
}

/// Returns whether a text is a dash or a dot followed by as many lower-case hexadecimal digits as a hash has.
fn is_hash(text: &[u8]) -> bool {
    let Some((b'-' | b'.', digits)) = text.split_first() else { return false };
    HASH_LENGTHS.contains(&digits.len()) && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The members that lead to a library, without versions.
pub(super) type LibraryName = Vec<Vec<u8>>;

/// Returns the members of a place, without versions.
pub(super) fn members_of(place: &Place) -> LibraryName {
    let mut members = Vec::new();
    for step in place.steps() {
        if let Step::Member(name) = step {
            members.push(unversioned(name).to_vec());
        }
    }
    members
}

/// The members of a new file that have another name in the old file, with their old names.
#[derive(Debug, Default)]
pub(super) struct RenamedMembers(HashMap<Vec<u8>, Vec<u8>>);

impl RenamedMembers {
    /// Finds the renamed members among the names of both files, without versions. A hash in a name changes with each
    /// build, so an old and a new name that differ only by their hashes are the same library. If several names of one
    /// file differ only by their hashes, none of them counts as renamed.
    pub(super) fn between(old: &HashSet<Vec<u8>>, new: &HashSet<Vec<u8>>) -> Self {
        let [of_old, of_new] = [names_by_stem(old, new), names_by_stem(new, old)];
        let mut renamed = HashMap::new();
        for (stem, new) in of_new {
            // The value for a stem is `None` if several names have it.
            if let (Some(new), Some(Some(old))) = (new, of_old.get(&stem)) {
                renamed.insert(new.clone(), (*old).clone());
            }
        }
        Self(renamed)
    }

    /// Returns the name that a member of the new file has in the old file: its own unless it was renamed.
    pub(super) fn old_name<'n>(&'n self, name: &'n [u8]) -> &'n [u8] {
        match self.0.get(name) {
            Some(old) => old,
            None => name,
        }
    }

    /// Returns the name that a library of the new file has in the old file: its own unless a member was renamed.
    pub(super) fn old_library_name(&self, name: LibraryName) -> LibraryName {
        name.iter().map(|member| self.old_name(member).to_vec()).collect()
    }
}

/// Returns the `names` of one file that the other file does not have, by their forms without hashes. The value is
/// `None` if several names differ only by their hashes, because any of them may be the renamed library.
fn names_by_stem<'n>(
    names: &'n HashSet<Vec<u8>>,
    in_other_file: &'n HashSet<Vec<u8>>,
) -> HashMap<Vec<u8>, Option<&'n Vec<u8>>> {
    let mut by_stem = HashMap::new();
    for name in names.difference(in_other_file) {
        by_stem.entry(without_hash(name)).and_modify(|known| *known = None).or_insert(Some(name));
    }
    by_stem
}

/// The names that pair the code objects of two files. Long names are replaced by numbers, which are equal in both files
/// if the names are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct NameKey {
    pub(super) gpu: Arc<str>,
    /// The number of the place, without the versions of libraries.
    pub(super) place_number: usize,
    /// The number of the library. A library is named by the members in its place.
    pub(super) library_number: usize,
    /// The number of the entry ID.
    pub(super) id_number: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_hashes_are_left_out_and_nothing_else() {
        for (path, name) in [
            ("a.libs/libnvjpeg.36e11081.so.13", "a.libs/libnvjpeg.so"),
            ("a.libs/libnvjpeg.4a0b5c81.so.13", "a.libs/libnvjpeg.so"),
            ("libfoo-1a2b3c4d.so.1.2.3", "libfoo.so"),
            ("libfoo-1a2b3c4d.so", "libfoo.so"),
            ("libfoo.so.1", "libfoo.so"),
            ("libfoo.so", "libfoo.so"),
            ("a.libs/msvcp140-0123456789abcdef0123456789abcdef.dll", "a.libs/msvcp140.dll"),
            ("libfoo-1a2b3c4.so", "libfoo-1a2b3c4.so"),
            ("libfoo-1a2b3c4d5.so", "libfoo-1a2b3c4d5.so"),
            ("libfoo-1A2B3C4D.so", "libfoo-1A2B3C4D.so"),
            ("libfoo_1a2b3c4d.so", "libfoo_1a2b3c4d.so"),
            ("libfoo-pipeline.so", "libfoo-pipeline.so"),
            ("1a2b3c4d.so", "1a2b3c4d.so"),
            ("a/-1a2b3c4d.so", "a/-1a2b3c4d.so"),
            ("a/.1a2b3c4d.so", "a/.1a2b3c4d.so"),
            ("a-1a2b3c4d/libfoo.so", "a-1a2b3c4d/libfoo.so"),
            ("libfoo-1a2b3c4d.txt", "libfoo-1a2b3c4d.txt"),
            ("libfoo-1a2b3c4d", "libfoo-1a2b3c4d"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(without_hash(path.as_bytes())).unwrap(), name, "{path}");
        }
    }

    #[test]
    fn libraries_are_renamed_if_only_they_differ_by_a_hash() {
        let set = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<HashSet<_>>();
        let [a1, a2, a3] = ["a-11111111.so", "a-22222222.so", "a.33333333.so"];
        for (old, new, name, expected) in [
            (&[a1][..], &[a2][..], a2, a1),
            (&[a1], &[a3], a3, a1),
            (&["a.so"], &[a3], a3, "a.so"),
            (&[a1], &["a.so"], "a.so", a1),
            // In both files, one is the same.
            (&[a1, a2], &[a1, a3], a3, a2),
            (&[a1, a2], &[a1], a1, a1),
            // Several that are alike.
            (&[a1, a2], &[a3], a3, a3),
            (&[a1], &[a2, a3], a3, a3),
            (&[a1], &["b-11111111.so"], "b-11111111.so", "b-11111111.so"),
        ] {
            let renamed = RenamedMembers::between(&set(old), &set(new));
            assert_eq!(renamed.old_name(name.as_bytes()), expected.as_bytes(), "{old:?} {new:?}");
        }
    }
}
