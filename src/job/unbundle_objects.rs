//! Unbundles the code objects of an archive one by one, where [`UnbundleArchive`](super::UnbundleArchive) makes archives.
//!
//! Follows Intel's DPC++ (its types `ao`, `aoo`, `aocr` and `aocx`), but every entry serves every request that it is
//! compatible with, as in the archives. Of several entry IDs that fit one request, DPC++ takes the first in the order of a hash
//! table.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::file_name::FileName;
use super::library::{Library, Member};
use super::requests::Requests;
use super::{Event, Observer, open, parse_entry};
use crate::bytes;
use crate::container::sequence::{Bundle, Inflate};
use crate::container::{Entry, Limits};
use crate::display::plain;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryId, Rules};
use crate::io::input::Accept;
use crate::io::meter::Meter;
use crate::io::output::{self, Output};
use crate::io::piece::Sink;

/// The files that code objects of an archive are unbundled into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFiles {
    /// The output is the only code object for the target: `ao`.
    One,
    /// The output is a list: a line for each code object, with the path of a new file: `aoo`, `aocr` and `aocx`.
    Listed {
        /// The extension of the new files; `None` for `o` or, if the member is not an object file, `bc`.
        extension: Option<&'static str>,
    },
}

/// Unbundles the code objects of an archive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnbundleObjects {
    /// The archive to read.
    pub input: PathBuf,
    /// The form of the outputs.
    pub files: ObjectFiles,
    /// The requested entries, and the output for each.
    pub requests: Vec<(EntryId, PathBuf)>,
    /// The entry IDs that exclude all entries of their member. They are compared as spelled, and in written form.
    pub excluded: Vec<String>,
    /// The directory for the new files of a list.
    pub directory: PathBuf,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Whether entries may be missing: a request that no entry serves then gets an empty output.
    pub allow_missing: bool,
    /// Whether to report each comparison of an entry with a request as [`Event::Compared`].
    pub explain: bool,
    /// Limits on the inflated size of each compressed bundle in a member.
    pub limits: Limits,
}

/// What is found in the archive.
struct Objects<'j> {
    of_requests: Vec<Found>,
    requests: Requests<'j>,
    new_files: NewFiles<'j>,
}

/// What is found for a request.
#[derive(Default)]
struct Found {
    /// Whether an entry serves it, perhaps of an excluded member.
    is_served: bool,
    /// The only code object.
    one: Option<Output>,
    /// The lines of the list.
    list: Vec<u8>,
}

impl UnbundleObjects {
    /// Unbundles by the rules of target IDs. Every request must be served, no member is excluded, and the new files of a
    /// list are in the directory for temporary files.
    pub fn new(input: impl Into<PathBuf>, files: ObjectFiles, requests: Vec<(EntryId, PathBuf)>) -> Self {
        Self {
            input: input.into(),
            files,
            requests,
            excluded: Vec::new(),
            directory: std::env::temp_dir(),
            rules: Rules::default(),
            allow_missing: false,
            explain: false,
            limits: Limits::default(),
        }
    }

    /// Writes the outputs, and the new files of the lists.
    ///
    /// # Errors
    /// Any [`Error`], including [`Error::MissingEntries`]. All outputs are then unchanged, and there are no new files.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        let library = Library::open(open(&self.input, Accept::Any, self.limits.streamed)?, self.limits)?;
        let staged = self.stage(&library, observer);
        output::commit(library.vouch_for(staged)?)
    }

    /// Writes all files, but does not put them in place.
    fn stage(&self, library: &Library, observer: &mut Observer<'_>) -> Result<Vec<Output>> {
        let mut found = Objects {
            of_requests: self.requests.iter().map(|_| Found::default()).collect(),
            requests: Requests::new(&self.requests, self.rules),
            new_files: NewFiles::new(self),
        };
        let excluded = Excluded::new(&self.excluded);
        let members = library.members()?;
        let total = members.iter().map(Member::size).fold(0, u64::saturating_add);
        let mut done = 0_u64;
        for member in &members {
            // What is excluded in one bundle of a member must not have been taken from the one before it.
            let is_excluded = excluded.hold_one_of(member)?;
            member.bundles(Inflate::Whole, observer, &mut |bundle, observer| {
                self.take(member, &bundle, is_excluded, &mut found, observer)
            })?;
            done = done.saturating_add(member.size());
            observer(Event::Progress { done, total });
        }
        self.outputs(found)
    }

    /// The outputs of the requests, and the new files.
    fn outputs(&self, found: Objects<'_>) -> Result<Vec<Output>> {
        let requests = || self.requests.iter().zip(&found.of_requests);
        let mut missing: Vec<String> =
            requests().filter(|(_, found)| !found.is_served).map(|((id, _), _)| id.to_string()).collect();
        if !missing.is_empty() && !self.allow_missing {
            missing.sort_unstable();
            return Err(Error::MissingEntries(missing));
        }
        let mut staged = found.new_files.staged;
        for ((_, path), Found { one, list, .. }) in self.requests.iter().zip(found.of_requests) {
            let mut output = one.map_or_else(|| Output::stage(path), Ok)?;
            output.write(&list)?;
            staged.push(output);
        }
        Ok(staged)
    }

    /// Adds the entries of a bundle to what is found for the requests that they serve.
    fn take(
        &self,
        member: &Member<'_>,
        bundle: &Bundle<'_>,
        is_excluded: bool,
        found: &mut Objects<'_>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let Objects { of_requests, requests, new_files } = found;
        let candidates = requests.candidates(&bundle.entries, observer);
        if self.explain {
            requests.explain_all(&candidates, observer);
        }
        for (candidate, served) in requests.served_by(&candidates) {
            for request in served {
                let (Some(found), Some((id, path))) = (of_requests.get_mut(request), self.requests.get(request)) else {
                    continue;
                };
                found.is_served = true;
                if is_excluded {
                    continue;
                }
                candidate.report_guess(id, observer);
                let mut new = match self.files {
                    ObjectFiles::One if found.one.is_some() => return Err(self.several(id)),
                    ObjectFiles::One => Output::stage(path)?,
                    ObjectFiles::Listed { .. } => new_files.stage(member, &mut found.list)?,
                };
                bundle.extract(&mut [(candidate.index, &mut new)], &mut Meter::silent())?;
                new.complete()?;
                match self.files {
                    ObjectFiles::One => found.one = Some(new),
                    ObjectFiles::Listed { .. } => new_files.staged.push(new),
                }
            }
        }
        Ok(())
    }

    fn several(&self, id: &EntryId) -> Error {
        let text = format!(
            "the archive holds several code objects for the target '{id}', and -type=ao is for one; use -type=aoo"
        );
        Error::refused(ErrorKind::Conflict, &self.input, None, text)
    }
}

/// The IDs that exclude a member, as spelled and in written form.
struct Excluded<'j> {
    texts: HashSet<&'j str>,
    ids: HashSet<EntryId>,
}

impl<'j> Excluded<'j> {
    fn new(excluded: &'j [String]) -> Self {
        let ids = excluded.iter().filter_map(|text| EntryId::parse_any(text).ok());
        Self { texts: excluded.iter().map(String::as_str).collect(), ids: ids.collect() }
    }

    /// Whether an entry of the member has one of these IDs.
    fn hold_one_of(&self, member: &Member<'_>) -> Result<bool> {
        let is_excluded = |entry: &Entry| {
            let text = bytes::text(&entry.id);
            text.is_some_and(|text| self.texts.contains(&*text))
                || parse_entry(entry).is_some_and(|id| self.ids.contains(&id))
        };
        let mut found = false;
        if !self.texts.is_empty() {
            member.bundles(Inflate::AsNeeded, &mut |_| {}, &mut |bundle, _| {
                found |= bundle.entries.iter().any(is_excluded);
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// The maximum length of the stem of new files in bytes.
const STEM_MAX: usize = 200;

/// The new files of lists.
struct NewFiles<'j> {
    job: &'j UnbundleObjects,
    /// The start of their names: the stem of the archive's, as in DPC++. No reader of a list interprets it.
    stem: String,
    staged: Vec<Output>,
}

impl<'j> NewFiles<'j> {
    fn new(job: &'j UnbundleObjects) -> Self {
        let mut stem = plain(FileName::of(job.input.as_os_str().as_bytes()).stem);
        stem.truncate(STEM_MAX);
        Self { job, stem, staged: Vec::new() }
    }

    /// Stages a new file for an entry of a member, and adds its path to the list.
    fn stage(&self, member: &Member<'_>, list: &mut Vec<u8>) -> Result<Output> {
        let own = if member.is_object() { "o" } else { "bc" };
        let extension = match self.job.files {
            ObjectFiles::Listed { extension } => extension.unwrap_or(own),
            ObjectFiles::One => own,
        };
        let directory = &self.job.directory;
        if directory.as_os_str().as_bytes().contains(&b'\n') {
            let text = "a list cannot name files in a directory whose path has several lines";
            return Err(Error::refused(ErrorKind::Unsupported, directory, None, text));
        }
        let (output, path) = Output::stage_new(directory, &self.stem, extension)?;
        list.extend([path.as_os_str().as_bytes(), b"\n"].concat());
        Ok(output)
    }
}
