//! Unbundles selected code objects from one file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::requests::{Candidate, Requests, check_names_served, unknown_request_or};
use super::{FileType, report_if_inflated, report_if_plain};
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
    /// The type of the file.
    pub file_type: FileType,
    /// The requested entries, and the output for each.
    pub requests: Vec<(EntryId, PathBuf)>,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Whether entries may be missing: a request that no entry serves then gets an empty file. For a host, the code may
    /// be outside the entries: a file without a bundle is copied, and a fat object without the sections of its bundle.
    pub allow_missing: bool,
    /// Whether to report each comparison of an entry with a request as [`Event::Compared`].
    pub explain: bool,
    /// How much of compressed bundles is inflated to find their entries.
    pub inflate: Inflate,
    /// Limits on the inflated size of the file.
    pub limits: Limits,
}

/// The requests that the entries of a file serve.
struct ServedRequests {
    /// The output of each request, or `None` if no entry serves it.
    outputs: Vec<Option<Output>>,
    /// Whether a bundle was found.
    is_bundle: bool,
    /// The first host entry with code that serves no request. A user who requests a host and gets no code may have
    /// misspelled this ID.
    other_host: Option<EntryId>,
}

impl ServedRequests {
    /// Returns for each request whether an entry serves it.
    fn are_served(&self) -> Vec<bool> {
        self.outputs.iter().map(Option::is_some).collect()
    }
}

impl Unbundle {
    /// Unbundles by the rules of target IDs. Every request must be served, and comparisons are not reported.
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
    /// exact name, otherwise the first compatible one that serves no other request.
    ///
    /// # Errors
    /// Any [`Error`]; all outputs are then unchanged. The kind is [`NotFound`](crate::ErrorKind::NotFound) for missing
    /// entries, and [`Usage`](crate::ErrorKind::Usage) for a missing entry that was requested
    /// [by name](EntryId::by_name).
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        self.run_on(&self.open()?, observer)
    }

    /// Opens the input. An unknown request is reported before a failure to open the file.
    pub(super) fn open(&self) -> Result<Input> {
        open(&self.input, Accept::Any, self.limits.streamed).map_err(|error| unknown_request_or(&self.requests, error))
    }

    /// Writes the code objects of an open input.
    pub(super) fn run_on(&self, input: &Input, observer: &mut Observer<'_>) -> Result<()> {
        let outputs = self.stage_all(input, observer);
        output::commit(input.unless_changed(outputs)?)
    }

    /// Writes the outputs of all requests, but does not put them in place.
    fn stage_all(&self, input: &Input, observer: &mut Observer<'_>) -> Result<Vec<Output>> {
        let served = self.stage_served(input, observer)?;
        self.stage_unserved(input, served, observer)
    }

    /// Does the work and all checks of [`Unbundle::run_on`] for the requests that entries serve, but puts no output in
    /// place. Returns for each request whether an entry serves it.
    pub(super) fn dry_run(&self, input: &Input, observer: &mut Observer<'_>) -> Result<Vec<bool>> {
        let served = input.unless_changed(self.stage_served(input, observer))?;
        Ok(served.are_served())
    }

    /// Writes the code objects that serve requests, but does not put them in place. Stops at the bundle with the last
    /// of them, and fails if a request is not served and must be.
    fn stage_served(&self, input: &Input, observer: &mut Observer<'_>) -> Result<ServedRequests> {
        report_if_plain(input.as_slice(), observer);
        if self.file_type == FileType::Archive {
            return Err(Error::usage("an archive is taken apart by UnbundleArchive"));
        }
        let container = self.file_type.container();
        let outputs = self.requests.iter().map(|_| None).collect();
        let mut served = ServedRequests { outputs, is_bundle: false, other_host: None };
        let mut requests = Requests::new(&self.requests, self.rules);
        let mut bundles = Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits);
        while !requests.are_served()
            && let Some(bundle) =
                bundles.next().transpose().map_err(|error| unknown_request_or(&self.requests, error))?
        {
            // A compressed file that holds something else than a bundle comes as a bundle without bytes.
            let is_real_bundle = bundle.inflated_len > 0;
            served.is_bundle |= is_real_bundle;
            report_if_inflated(&bundle, observer);
            self.stage_entries(&bundle, &mut requests, &mut served, observer)?;
        }
        let are_served = served.are_served();
        // LLVM refuses an ID that it cannot parse, so its error for that ID comes before the one for missing entries.
        check_names_served(&self.requests, &are_served)?;
        if !self.allow_missing {
            self.check_all_served(&are_served)?;
        }
        Ok(served)
    }

    /// Fails if a request is not served, with an error that names the IDs in alphabetical order.
    fn check_all_served(&self, are_served: &[bool]) -> Result<()> {
        let mut missing = BTreeSet::new();
        for ((id, _), is_served) in self.requests.iter().zip(are_served) {
            if !is_served {
                missing.insert(id.to_string());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::missing_entries(&missing.into_iter().collect::<Vec<_>>()))
    }

    /// Adds the outputs of the requests that no entry serves, and returns the outputs of all requests. If no entry
    /// serves a host, each requested host gets the code that the file has outside its entries, if it has any. All
    /// others get empty files.
    fn stage_unserved(
        &self,
        input: &Input,
        served: ServedRequests,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<Output>> {
        let ServedRequests { outputs, is_bundle, other_host } = served;
        let is_host_served =
            self.requests.iter().zip(&outputs).any(|((id, _), output)| is_host(id) && output.is_some());
        let mut complete = Vec::with_capacity(self.requests.len());
        for ((id, path), output) in self.requests.iter().zip(outputs) {
            if let Some(output) = output {
                complete.push(output);
                continue;
            }
            let mut output = Output::stage(path)?;
            if is_host(id) {
                let is_copied = !is_host_served && self.copy_host(input, is_bundle, &mut output)?;
                if let Some(entry) = &other_host
                    && !is_copied
                {
                    observer(Event::OtherHost { entry, request: id });
                }
            }
            complete.push(output);
        }
        Ok(complete)
    }

    /// Copies the host's code from outside the entries: all of a file without a bundle, which is the host's own, or a
    /// fat object without the sections of its bundle. Returns false, and copies nothing, for any other file.
    fn copy_host(&self, input: &Input, is_bundle: bool, output: &mut Output) -> Result<bool> {
        if is_bundle && self.file_type != FileType::Object {
            return Ok(false);
        }
        // As in LLVM 22, compressed data that is not a bundle reaches the output inflated.
        let inflated = match compressed::read(input.as_slice(), self.limits)? {
            Some(compressed) => Some(compressed.inflate_whole()?.0),
            None => None,
        };
        let whole = inflated.as_ref().unwrap_or(input).as_slice();
        if !is_bundle {
            output.copy(whole)?;
            return Ok(true);
        }
        let host = FatObject::host(whole.bytes(), whole.offset()).with_path(whole.path())?;
        let Some(host) = host else { return Ok(false) };
        // The host's object is read like a bundle with one entry.
        const ONLY_ENTRY: usize = 0;
        let bundle = Bundle::plain(whole, host);
        bundle.extract(&mut [(ONLY_ENTRY, output)], &mut Meter::silent())?;
        Ok(true)
    }

    /// Stages the code objects of the entries of the bundle that serve an open request.
    fn stage_entries(
        &self,
        bundle: &Bundle<'_>,
        requests: &mut Requests<'_>,
        served: &mut ServedRequests,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let candidates = requests.candidates(&bundle.entries, observer);
        if self.explain {
            requests.report_comparisons(&candidates, observer);
        }
        let mut assigned = requests.assign(&candidates);
        // Outputs are staged in the order of the requests, so the first one that cannot be opened is reported.
        assigned.sort_unstable_by_key(|(request, _)| *request);
        // A user who requests a host and gets no code may have misspelled the ID of this one: a warning names it.
        if served.other_host.is_none() {
            served.other_host = unassigned_host(bundle, &candidates, &assigned);
        }
        let mut staged = Vec::with_capacity(assigned.len());
        for (request, candidate) in &assigned {
            let (id, path) = self.requests.get(*request).ok_or_else(|| Error::internal("no such request"))?;
            candidate.report_missing_processor(id, observer);
            staged.push(Output::stage(path)?);
        }
        // Extraction also inflates the bundle and checks its hash. Without a code object to write, that matters only if
        // missing entries become empty files: a broken bundle must not look like one without the entry.
        if staged.is_empty() && !self.allow_missing {
            return Ok(());
        }
        let entries = assigned.iter().map(|(_, candidate)| candidate.index);
        let mut wanted: Vec<(usize, &mut Output)> = entries.zip(&mut staged).collect();
        let mut report_progress = |done, total| observer(Event::Progress { done, total });
        bundle.extract(&mut wanted, &mut Meter::new(&mut report_progress))?;
        for ((request, _), new) in assigned.into_iter().zip(staged) {
            if let Some(output) = served.outputs.get_mut(request) {
                *output = Some(new);
            }
        }
        Ok(())
    }
}

fn is_host(id: &EntryId) -> bool {
    id.kind() == OffloadKind::Host
}

/// Returns the ID of the first host entry that has code and serves no request, or `None` if every one is assigned.
fn unassigned_host(
    bundle: &Bundle<'_>,
    candidates: &[Candidate<'_>],
    assigned: &[(usize, &Candidate<'_>)],
) -> Option<EntryId> {
    for candidate in candidates {
        let is_assigned = assigned.iter().any(|(_, other)| other.index == candidate.index);
        if is_host(&candidate.id) && !is_assigned && candidate.has_code(&bundle.entries) {
            return Some(candidate.id.clone());
        }
    }
    None
}
