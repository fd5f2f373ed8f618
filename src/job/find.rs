//! Finds out whether a file holds an entry for a target.

use std::path::PathBuf;

use super::list::List;
use super::requests::Requests;
use super::{FileType, Observer};
use crate::container::Limits;
use crate::container::sequence::Inflate;
use crate::error::Result;
use crate::id::{EntryId, Rules};

/// Finds out whether a file holds an entry that would serve a request, without reading any code object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Find {
    /// The file.
    pub input: PathBuf,
    /// Its type. All members of an archive are searched.
    pub file_type: FileType,
    /// The requested entry.
    pub request: EntryId,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Limits on the inflated size of the file.
    pub limits: Limits,
}

impl Find {
    /// Finds by the rules of target IDs.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType, request: EntryId) -> Self {
        Self { input: input.into(), file_type, request, rules: Rules::default(), limits: Limits::default() }
    }

    /// Returns whether an entry would serve the request.
    ///
    /// # Errors
    /// Any [`Error`](crate::Error). The file is read to its end, so a fault after the entry is an error too.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<bool> {
        let request = [(self.request.clone(), PathBuf::new())];
        let mut requests = Requests::new(&request, self.rules);
        let mut list = List::new(self.input.clone(), self.file_type);
        (list.inflate, list.limits) = (Inflate::Headers, self.limits);
        list.each_bundle(observer, &mut |bundle, _| {
            // A repeated ID is nothing to report here.
            let candidates = requests.candidates(&bundle.entries, &mut |_| {});
            requests.assign(&candidates);
            Ok(())
        })?;
        Ok(requests.are_served())
    }
}
