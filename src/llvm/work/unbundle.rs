//! Unbundles selected code objects from one file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::requests::{Candidate, Requests, first_unknown, unknown_or};
use super::{FileType, observe_inflated, observe_plain};
use crate::base::error::{Error, Result, WithPath};
use crate::base::id::{EntryId, OffloadKind, Rules};
use crate::base::io::input::{Accept, Input};
use crate::base::io::meter::Meter;
use crate::base::io::output::{self, Output};
use crate::base::io::piece::Sink;
use crate::llvm::container::object::FatObject;
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::container::{Limits, compressed};
use crate::llvm::event::{Event, Observer};
use crate::llvm::work::open;

/// Unbundles code objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unbundle {
    /// The file to read.
    pub input: PathBuf,
    /// Its type.
    pub file_type: FileType,
    /// The requested entries, and the output for each.
    pub requests: Vec<(EntryId, PathBuf)>,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Whether entries may be missing: a request that no entry serves then gets an empty file. A missing host gets a
    /// file without a bundle as it is, and a fat object without the sections of its bundle.
    pub allow_missing: bool,
    /// Whether to report each comparison of an entry with a request as [`Event::Compared`].
    pub explain: bool,
    /// The extent to which compressed bundles are inflated.
    pub inflate: Inflate,
    /// Limits on the inflated size of the file.
    pub limits: Limits,
}

/// The entries that the bundles of a file hold for the requests.
struct FoundRequests {
    /// The output of each request that an entry serves.
    served: Vec<Option<Output>>,
    is_bundle: bool,
    /// The first entry of a host that serves no request.
    other_host: Option<EntryId>,
}

impl Unbundle {
    /// Unbundles by the rules of target IDs. Every request must be served; events that LLVM does not report are not
    /// reported.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType, requests: Vec<(EntryId, PathBuf)>) -> Self {
        Self {
            input: input.into(),
            file_type,
            requests,
            rules: Rules::default(),
            allow_missing: false,
            explain: false,
            inflate: Inflate::AsNeeded,
            limits: Limits::default(),
        }
    }

    /// Writes the code objects. Each request gets an entry of the first bundle that can serve it: the entry with its
    /// exact name, otherwise the first compatible one that is not taken.
    ///
    /// # Errors
    /// Any [`Error`]: of the kind [`NotFound`](crate::ErrorKind::NotFound) for missing entries, and
    /// [`Usage`](crate::ErrorKind::Usage) for one that was requested [by name](EntryId::by_name). All outputs are then
    /// unchanged.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        self.run_on(&self.open()?, observer)
    }

    /// Opens the input.
    pub(super) fn open(&self) -> Result<Input> {
        open(&self.input, Accept::Any, self.limits.streamed).map_err(|error| unknown_or(&self.requests, error))
    }

    /// Writes the code objects of an open input.
    pub(super) fn run_on(&self, input: &Input, observer: &mut Observer<'_>) -> Result<()> {
        let staged = self.stage(input, observer);
        let complete = staged.and_then(|found| self.complete(input, found, observer));
        output::commit(input.vouch_for(complete)?)
    }

    /// Does the work of [`Unbundle::run_on`] without putting any output in place. Returns for each request whether an
    /// entry serves it.
    pub(super) fn rehearse(&self, input: &Input, observer: &mut Observer<'_>) -> Result<Vec<bool>> {
        let found = input.vouch_for(self.stage(input, observer))?;
        Ok(found.served.iter().map(Option::is_some).collect())
    }

    /// Writes the code objects that serve the requests, but does not put them in place.
    fn stage(&self, input: &Input, observer: &mut Observer<'_>) -> Result<FoundRequests> {
        observe_plain(input.as_slice(), observer);
        if self.file_type == FileType::Archive {
            return Err(Error::usage("an archive is taken apart by UnbundleArchive"));
        }
        let container = self.file_type.container();
        let served = self.requests.iter().map(|_| None).collect();
        let mut found = FoundRequests { served, is_bundle: false, other_host: None };
        let mut requests = Requests::new(&self.requests, self.rules);
        let mut bundles = Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits);
        while !requests.are_served()
            && let Some(bundle) = bundles.next().transpose().map_err(|error| unknown_or(&self.requests, error))?
        {
            // A compressed container around something that is not a bundle counts as a bundle without bytes.
            found.is_bundle |= bundle.inflated_len > 0;
            observe_inflated(&bundle, observer);
            self.serve(&bundle, &mut requests, &mut found, observer)?;
        }
        let is_served = |request: usize| found.served.get(request).is_some_and(Option::is_some);
        if let Some(unknown) = first_unknown(&self.requests, is_served) {
            return Err(unknown);
        }
        let open = self.requests.iter().zip(&found.served).filter(|(_, output)| output.is_none());
        let missing: BTreeSet<String> = open.map(|((id, _), _)| id.to_string()).collect();
        if !missing.is_empty() && !self.allow_missing {
            return Err(Error::missing_entries(&missing.into_iter().collect::<Vec<_>>()));
        }
        Ok(found)
    }

    /// Adds outputs for the requests that no entry serves.
    fn complete(&self, input: &Input, found: FoundRequests, observer: &mut Observer<'_>) -> Result<Vec<Output>> {
        let is_host = |id: &EntryId| id.kind() == OffloadKind::Host;
        let has_host = self.requests.iter().zip(&found.served).any(|((id, _), output)| is_host(id) && output.is_some());
        let mut complete = Vec::with_capacity(self.requests.len());
        for ((id, path), output) in self.requests.iter().zip(found.served) {
            if let Some(output) = output {
                complete.push(output);
                continue;
            }
            let mut new = Output::stage(path)?;
            let is_delivered = is_host(id) && !has_host && self.copy_host(input, found.is_bundle, &mut new)?;
            if let Some(entry) = found.other_host.as_ref().filter(|_| is_host(id) && !is_delivered) {
                observer(Event::OtherHost { entry, request: id });
            }
            complete.push(new);
        }
        Ok(complete)
    }

    /// Copies the code of a host that no entry has to name: all of a file without a bundle, and a fat object without
    /// the sections of its bundle. Returns whether the file is one of these.
    fn copy_host(&self, input: &Input, is_bundle: bool, output: &mut Output) -> Result<bool> {
        if is_bundle && self.file_type != FileType::Object {
            return Ok(false);
        }
        let inflated = match compressed::read(input.as_slice(), self.limits)? {
            Some(compressed) => Some(compressed.inflate_whole()?.0),
            None => None,
        };
        let whole = inflated.as_ref().map_or(input.as_slice(), Input::as_slice);
        if !is_bundle {
            output.copy(whole)?;
            return Ok(true);
        }
        let host = FatObject::host(whole.bytes(), whole.offset()).with_path(whole.path())?;
        let is_fat = host.is_some();
        if let Some(host) = host {
            let bundle = Bundle::plain(whole, host, self.limits);
            bundle.extract(&mut [(0, output)], &mut Meter::silent())?;
        }
        Ok(is_fat)
    }

    /// Writes the code objects of all entries of the bundle that serve an open request.
    fn serve(
        &self,
        bundle: &Bundle<'_>,
        requests: &mut Requests<'_>,
        found: &mut FoundRequests,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let candidates = requests.candidates(&bundle.entries, observer);
        if self.explain {
            requests.explain(&candidates, observer);
        }
        let mut served = requests.assign(&candidates);
        served.sort_unstable_by_key(|(request, _)| *request);
        let is_served = |index: usize| served.iter().any(|(_, candidate)| candidate.index == index);
        let has_code = |index: usize| bundle.entries.get(index).is_some_and(|entry| entry.size() > 0);
        let other = |Candidate { id, index, .. }: &&Candidate<'_>| {
            id.kind() == OffloadKind::Host && !is_served(*index) && has_code(*index)
        };
        found.other_host = found.other_host.take().or_else(|| Some(candidates.iter().find(other)?.id.clone()));
        let mut staged = Vec::with_capacity(served.len());
        for (request, candidate) in &served {
            let (id, path) = self.requests.get(*request).ok_or_else(|| Error::internal("no such request"))?;
            candidate.report_guess(id, observer);
            staged.push(Output::stage(path)?);
        }
        let entries = served.iter().map(|(_, candidate)| candidate.index);
        let mut wanted: Vec<(usize, &mut Output)> = entries.zip(&mut staged).collect();
        // Missing entries may be replaced by empty files only if the rest of the file is valid.
        if wanted.is_empty() && !self.allow_missing {
            return Ok(());
        }
        let mut tell = |done, total| observer(Event::Progress { done, total });
        bundle.extract(&mut wanted, &mut Meter::new(&mut tell))?;
        for ((request, _), new) in served.into_iter().zip(staged) {
            if let Some(output) = found.served.get_mut(request) {
                *output = Some(new);
            }
        }
        Ok(())
    }
}
