//! Runs the comparison of two files.

use std::collections::{HashMap, HashSet};

use super::comparison::FileComparison;
use super::side::Side;
use super::{Diff, FileDiff};
use crate::base::error::{Error, Result};
use crate::base::io::input::{self, Input};
use crate::beyond::container::Magic;
use crate::beyond::container::zip::{self, ZipContent, ZipMember};
use crate::beyond::job::digest::Digester;
use crate::beyond::parallel;

/// Returns the names of the members of two zip files that have the same recorded size and checksum in both. The set is
/// empty if one of the files is not a zip file.
fn find_equal_members(old: &Input, new: &Input) -> HashSet<Vec<u8>> {
    let mut equal_members = HashSet::new();
    if Magic::identify(old.bytes()) != Magic::Zip || Magic::identify(new.bytes()) != Magic::Zip {
        return equal_members;
    }
    // The search that follows reports the error of a broken directory.
    let [(of_old, _), (of_new, _)] = [old, new].map(|input| zip::members(input.as_slice()));
    let (of_old, of_new) = (contents_by_name(&of_old), contents_by_name(&of_new));
    for (name, old) in of_old {
        if let (Some(old), Some(Some(new))) = (old, of_new.get(name))
            && old.recorded() == new.recorded()
        {
            equal_members.insert(name.to_vec());
        }
    }
    equal_members
}

/// Returns the contents of the members of a zip file by name. The value is `None` if the member cannot be read, or if
/// several members have the name.
fn contents_by_name<'m, 'a>(members: &'m [ZipMember<'a>]) -> HashMap<&'m [u8], Option<&'m ZipContent<'a>>> {
    let mut contents = HashMap::new();
    for member in members {
        let content = member.content.as_ref().ok();
        contents.entry(&member.name[..]).and_modify(|known| *known = None).or_insert(content);
    }
    contents
}

/// Decides by the name of a member whether it is searched. Both files are searched at the same time.
type AcceptMember<'f> = &'f (dyn Fn(&[u8]) -> bool + Sync);

impl Diff {
    /// Compares an old file with a new one. Either may be `None` if the other file has no counterpart.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if a file cannot be read, or has changed. Broken parts are problems
    /// in the result.
    pub fn run(&self, old: Option<&Input>, new: Option<&Input>) -> Result<FileDiff> {
        input::unless_changed(old.into_iter().chain(new), self.compare(old, new))
    }

    /// Compares the files by steps. The first steps are fast, and leave fewer code objects to the slower ones.
    fn compare(&self, old: Option<&Input>, new: Option<&Input>) -> Result<FileDiff> {
        let digester = Digester::default();
        let equal_members = match (old, new) {
            (Some(old), Some(new)) if self.trust_hashes => find_equal_members(old, new),
            _ => HashSet::new(),
        };
        let sides = self.search_both(&digester, old, new, &equal_members)?;
        let mut comparison = FileComparison::new(self, &digester, sides);
        if self.trust_hashes {
            comparison.note_equal_members(equal_members);
            comparison.pair_by_recorded_hash();
        }
        comparison.pair_by_stored_bytes()?;
        comparison.pair_by_digest()?;
        let kernels = comparison.read_kernels()?;
        Ok(comparison.list_differences(kernels))
    }

    /// Searches both files at the same time. The `equal_members` are searched in the old file only.
    fn search_both<'i>(
        &self,
        digester: &Digester,
        old: Option<&'i Input>,
        new: Option<&'i Input>,
        equal_members: &HashSet<Vec<u8>>,
    ) -> Result<[Side<'i>; 2]> {
        let accept_all: AcceptMember<'_> = &|_| true;
        // The members that are equal are not searched again in the new file.
        let accept_different: AcceptMember<'_> = &|member| !equal_members.contains(member);
        // The results of both searches are wanted, whatever memory they take.
        const NO_WEIGHT: usize = 0;
        parallel::in_order(
            vec![(old, accept_all), (new, accept_different)],
            |(input, is_searched)| Side::search(self, digester, input, is_searched, equal_members),
            |_| NO_WEIGHT,
            |sides| {
                let mut next = || sides.next().unwrap_or_else(|| Err(Error::internal("a search ended early")));
                let (old, new) = (next(), next());
                Ok([old?, new?])
            },
        )
    }
}
