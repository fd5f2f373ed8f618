//! Opens the files that thin archives name, with care: an archive may name itself, or any file of the machine.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::sys::{self, Stat};
use crate::llvm::container::limits::{Allowance, FILES_MAX, NESTED_FILES_MAX};

/// The identity of a file, whatever its name: device and inode.
type FileIdentity = (u64, u64);

/// The files that a job reads: its input, and the files that thin archives name.
#[derive(Debug)]
pub(crate) struct InputFiles<'a> {
    /// The input, or `None` if the job reads bytes in memory, which may not refer to files.
    input: Option<&'a Input>,
    /// The input and all files that were opened for it, so that a job does not overwrite one of them.
    all: HashSet<FileIdentity>,
    /// The input, and the archives in it that enclose the current data, outermost first. `None` is a file whose
    /// identity is unknown.
    enclosing: Vec<Option<FileIdentity>>,
    /// The number of files that thin archives may still name.
    files: Allowance,
    /// The number of files that thin archives in other archives may still name.
    nested_files: Allowance,
}

impl<'a> InputFiles<'a> {
    /// The files of a job that reads `data`.
    pub(crate) fn new(data: Slice<'a>) -> Self {
        let input = data.input();
        let identity = match input {
            Some(input) => identity_of_input(input.path()),
            None => None,
        };
        let all = identity.into_iter().collect();
        let [files, nested_files] = [FILES_MAX, NESTED_FILES_MAX].map(Allowance::new);
        Self { input, all, enclosing: vec![identity], files, nested_files }
    }

    /// Opens a member of a thin archive.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Input> {
        self.open_counted(path, identity_of(path))
    }

    /// Opens a member of a thin archive that may be an archive itself. Until [`leave`](Self::leave), the member counts
    /// as one of the archives that enclose the data.
    pub(crate) fn enter(&mut self, path: &Path) -> Result<Input> {
        // Without an identity, the file cannot be opened either.
        let identity = identity_of(path);
        if identity.is_some() && self.enclosing.contains(&identity) {
            return Err(Error::refused(ErrorKind::Malformed, path, None, "this thin archive contains itself"));
        }
        let input = self.open_counted(path, identity)?;
        self.enclosing.push(identity);
        Ok(input)
    }

    /// Returns the input, which refers to a file at `path`.
    ///
    /// # Errors
    /// Bytes in memory may not refer to files: their author could choose any file of the machine.
    pub(crate) fn referring_input(&self, path: &Path) -> Result<&'a Input> {
        let Some(input) = self.input else {
            let reason = io::Error::other("the input is not read from a file, so files beside it are not opened");
            return Err(Error::io(path, reason).into_referred());
        };
        Ok(input)
    }

    /// Leaves the member that was entered last.
    pub(crate) fn leave(&mut self) {
        self.enclosing.pop();
    }

    /// Opens the file of a member, counts it, and adds its `identity`, if known, to the files that the job reads.
    fn open_counted(&mut self, path: &Path, identity: Option<FileIdentity>) -> Result<Input> {
        let input = self.referring_input(path)?;
        // The first of the enclosing archives is the input itself.
        let is_nested = self.enclosing.len() > 1;
        let files = if is_nested { &mut self.nested_files } else { &mut self.files };
        if files.take(1).is_none() {
            let reason = format!("thin archives refer to more than {} files", files.most());
            return Err(Error::refused(ErrorKind::Limit, path, None, reason));
        }
        self.all.extend(identity);
        input.open_beside(path).map_err(Error::into_referred)
    }

    /// Whether a path leads to one of the files that the job reads.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        match identity_of(path) {
            Some(identity) => self.all.contains(&identity),
            None => false,
        }
    }
}

/// The identity of the file that a path leads to.
fn identity_of(path: &Path) -> Option<FileIdentity> {
    Some(Stat::at(path).ok()?.identity())
}

/// The identity of an input; `-` is the standard input.
fn identity_of_input(path: &Path) -> Option<FileIdentity> {
    if path.as_os_str() != "-" {
        return identity_of(path);
    }
    let file = sys::standard_input().ok()?;
    Some(Stat::of(&file).ok()?.identity())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::map;

    #[test]
    #[cfg_attr(miri, ignore = "maps files")]
    fn an_archive_encloses_its_members_until_it_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let [outer, inner] = ["outer.a", "inner.a"].map(|name| dir.path().join(name));
        std::fs::write(&outer, "outer").unwrap();
        std::fs::write(&inner, "inner").unwrap();
        let input = map(&outer).unwrap();
        let mut sources = InputFiles::new(input.as_slice());
        let left =
            |sources: &InputFiles<'_>| (FILES_MAX - sources.files.left, NESTED_FILES_MAX - sources.nested_files.left);
        assert!(sources.enter(&outer).unwrap_err().to_string().contains("this thin archive contains itself"));
        assert_eq!(left(&sources), (0, 0));
        for round in 1..3 {
            assert_eq!(sources.enter(&inner).unwrap().as_slice().bytes(), b"inner");
            // Only files that an archive in another one names are nested.
            assert_eq!(left(&sources), (round, round - 1));
            assert!(sources.enter(&inner).unwrap_err().to_string().contains("this thin archive contains itself"));
            sources.open(&inner).unwrap();
            assert_eq!(left(&sources), (round, round));
            sources.leave();
        }
        assert!(sources.contains(&inner) && sources.contains(&outer) && !sources.contains(dir.path()));
    }
}
