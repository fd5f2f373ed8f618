//! The names of libraries in two builds: which of them stand for the same library.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::beyond::scan::{Format, Place, Step};

/// A path without the version that follows `.so`, in which two builds of a library may differ.
pub fn unversioned(path: &[u8]) -> &[u8] {
    const EXTENSION: &[u8] = b".so";
    let at = memchr::memmem::rfind(path, b".so.").and_then(|at| at.checked_add(EXTENSION.len()));
    let Some((start, version)) = at.and_then(|at| path.split_at_checked(at)) else { return path };
    if version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') { start } else { path }
}

/// The extensions of libraries whose names get hashes.
const EXTENSIONS: [&[u8]; 2] = [b".so", b".dll"];

/// The numbers of digits of the hashes of auditwheel and delvewheel.
const HASH_LENGTHS: [usize; 2] = [8, 32];

/// A path without the version of a library, and without the hash of its content that tools for wheels put before the
/// extension: `libnvjpeg-36e11081.so.13`, `libnvjpeg.36e11081.so.13` and `libnvjpeg.so.13` are the same library.
pub fn without_hash(path: &[u8]) -> Vec<u8> {
    let path = unversioned(path);
    for extension in EXTENSIONS {
        let Some(stem) = path.strip_suffix(extension) else { continue };
        let separator = stem.iter().rposition(|byte| matches!(byte, b'-' | b'.' | b'/' | b'\\'));
        let Some((name, hash)) = separator.and_then(|at| stem.split_at_checked(at)) else { continue };
        if is_hash(hash) && name.last().is_some_and(u8::is_ascii_alphanumeric) {
            return [name, extension].concat();
        }
    }
    path.to_vec()
}

/// Whether this is a dash or a dot, and the digits of a hash.
fn is_hash(text: &[u8]) -> bool {
    let Some((b'-' | b'.', digits)) = text.split_first() else { return false };
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    HASH_LENGTHS.contains(&digits.len()) && digits.iter().all(is_digit)
}

/// The members on the way to a library, without versions.
pub(super) type LibraryName = Vec<Vec<u8>>;

/// The members of a place, without versions.
pub(super) fn members_of(place: &Place) -> LibraryName {
    let names = place.steps().iter().filter_map(|step| match step {
        Step::Member(name) => Some(unversioned(name).to_vec()),
        _ => None,
    });
    names.collect()
}

/// The members of a new file that are called otherwise in the old one, with their old names.
#[derive(Debug, Default)]
pub(super) struct Renamed(HashMap<Vec<u8>, Vec<u8>>);

impl Renamed {
    /// Compares the names of both files, without versions. Those that differ only by a hash are the same library if no
    /// other one is called so in either file.
    pub(super) fn between(old: &HashSet<Vec<u8>>, new: &HashSet<Vec<u8>>) -> Self {
        let [of_old, of_new] = [by_stem(old, new), by_stem(new, old)];
        let mut renamed = HashMap::new();
        for (stem, new) in of_new {
            if let (Some(new), Some(Some(old))) = (new, of_old.get(&stem)) {
                renamed.insert(new.clone(), (*old).clone());
            }
        }
        Self(renamed)
    }

    /// The name in the old file.
    pub(super) fn old<'n>(&'n self, name: &'n [u8]) -> &'n [u8] {
        self.0.get(name).map_or(name, Vec::as_slice)
    }

    /// The name of a library in the old file.
    pub(super) fn old_library(&self, name: LibraryName) -> LibraryName {
        name.iter().map(|member| self.old(member).to_vec()).collect()
    }
}

/// The names that only one file has, by the names without hashes; none where several are alike.
fn by_stem<'n>(names: &'n HashSet<Vec<u8>>, others: &'n HashSet<Vec<u8>>) -> HashMap<Vec<u8>, Option<&'n Vec<u8>>> {
    let mut by_stem = HashMap::new();
    for name in names.difference(others) {
        by_stem.entry(without_hash(name)).and_modify(|known| *known = None).or_insert(Some(name));
    }
    by_stem
}

/// The names of a code object, as numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct NameKey {
    pub(super) gpu: Arc<str>,
    /// The place, in which versions of libraries do not count.
    pub(super) place: usize,
    /// The library: the members of the place.
    pub(super) library: usize,
    pub(super) id: usize,
}

/// A name for the library, or other file, that holds a bundle: the members on the way to it.
pub(super) fn library_name(place: &Place, format: Format) -> LibraryName {
    let mut members = members_of(place);
    if format == Format::Kpack {
        // In a kpack archive, the innermost name is that of the bundle.
        members.pop();
    }
    members
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
    fn renamed_libraries_are_those_that_alone_are_alike() {
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
            let renamed = Renamed::between(&set(old), &set(new));
            assert_eq!(renamed.old(name.as_bytes()), expected.as_bytes(), "{old:?} {new:?}");
        }
    }
}
