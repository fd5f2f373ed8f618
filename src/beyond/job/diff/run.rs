//! Runs the comparison of two files.

use std::collections::{HashMap, HashSet};

use super::comparison::FileComparison;
use super::side::Side;
use super::{Diff, FileDiff};
use crate::base::error::{Error, Result};
use crate::base::io::input::{self, Input};
use crate::beyond::container::zip::{self, ZipContent, ZipMember};
use crate::beyond::job::digest::Digester;
use crate::llvm::container::magic::Magic;

/// The members of two zip files for which both record the same size and checksum.
fn same_members(old: &Input, new: &Input) -> HashSet<Vec<u8>> {
    if ![old, new].iter().all(|input| Magic::identify(input.bytes()) == Magic::Zip) {
        return HashSet::new();
    }
    let [(of_old, _), (of_new, _)] = [old, new].map(|input| zip::members(input.as_slice()));
    let (of_old, of_new) = (by_name(&of_old), by_name(&of_new));
    let is_same = |(name, old): (&&[u8], &Option<&ZipContent<'_>>)| {
        let is_like = |new: &ZipContent<'_>| old.is_some_and(|old| old.is_like(new));
        of_new.get(name).copied().flatten().is_some_and(is_like).then(|| name.to_vec())
    };
    of_old.iter().filter_map(is_same).collect()
}

/// The readable members of a zip file; none for a name that several have.
fn by_name<'m, 'a>(members: &'m [ZipMember<'a>]) -> HashMap<&'m [u8], Option<&'m ZipContent<'a>>> {
    let mut by_name = HashMap::new();
    for member in members {
        let content = member.content.as_ref().ok();
        by_name.entry(&member.name[..]).and_modify(|known| *known = None).or_insert(content);
    }
    by_name
}

impl Diff {
    /// Compares an old file with a new one; none of either if the other has no counterpart.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if a file cannot be read, or has changed. What is broken in it is a
    /// problem in the result.
    pub fn run(&self, old: Option<&Input>, new: Option<&Input>) -> Result<FileDiff> {
        input::vouch_for(old.into_iter().chain(new), self.compare(old, new))
    }

    fn compare(&self, old: Option<&Input>, new: Option<&Input>) -> Result<FileDiff> {
        let digester = Digester::default();
        let same = match (old, new) {
            (Some(old), Some(new)) if self.trust_hashes => same_members(old, new),
            _ => HashSet::new(),
        };
        // What is in both files is searched in the old one only.
        let is_other = |name: &[u8]| !same.contains(name);
        let sides = std::thread::scope(|scope| {
            let search = || Side::search(self, &digester, new, &is_other);
            let thread = std::thread::Builder::new().spawn_scoped(scope, search);
            let old = Side::search(self, &digester, old, &|_| true);
            let new = match thread {
                Ok(thread) => thread.join().unwrap_or(Err(Error::internal("the search ended early"))),
                // The system cannot start a thread.
                Err(_) => search(),
            };
            Ok::<_, Error>([old?, new?])
        })?;
        let mut comparison = FileComparison::new(self, &digester, sides);
        if self.trust_hashes {
            comparison.take_members(same);
            comparison.by_recorded_hash();
        }
        comparison.stored_bytes()?;
        comparison.digests()?;
        let kernels = comparison.kernels()?;
        Ok(comparison.finish(kernels))
    }
}
