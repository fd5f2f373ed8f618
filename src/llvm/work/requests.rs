//! Matches the requests of an unbundling with the entries of a bundle.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::base::bytes;
use crate::base::error::{Error, Result};
use crate::base::id::{Compatibility, EntryId, OffloadKind, Rules};
use crate::llvm::container::Entry;
use crate::llvm::event::{Event, Observer};

/// The requests of an unbundling, indexed by name and processor to avoid comparing every entry with every request. A
/// request is open until an entry serves it. The name of a request is its ID as spelled by the user, or in written
/// form, which is how LLVM 22 writes it (see [`EntryId`]).
pub(super) struct Requests<'j> {
    ids: Vec<&'j EntryId>,
    rules: Rules,
    open: BTreeSet<usize>,
    /// The open requests for each processor. An entry is compatible only with requests for its own processor.
    processors: HashMap<&'j str, BTreeSet<usize>>,
    /// The open requests whose target ID LLVM would drop.
    dropped: BTreeSet<usize>,
    /// The requests by written form.
    written: HashMap<String, Vec<usize>>,
    /// The requests by spelling.
    spelled: HashMap<String, Vec<usize>>,
}

/// An entry of a bundle that may serve a request.
pub(super) struct Candidate<'b> {
    /// The index of the entry in the bundle.
    pub(super) index: usize,
    pub(super) id: EntryId,
    /// The ID as recorded in the bundle.
    pub(super) text: &'b [u8],
}

impl<'j> Requests<'j> {
    /// The rules that find the request of an entry. Each rule is tried on all entries of a bundle, in file order,
    /// before the next one. Of the rules that compare names, LLVM has only the first.
    const RULES: [fn(&Self, &Candidate<'_>) -> Option<usize>; 6] = [
        Self::first_written_like_entry,
        Self::first_spelled_like_entry,
        Self::first_with_same_written_form,
        Self::first_exact,
        Self::first_compatible,
        Self::first_compatible_without_target_id,
    ];

    pub(super) fn new(requests: &'j [(EntryId, PathBuf)], rules: Rules) -> Self {
        let mut new = Self {
            ids: requests.iter().map(|(id, _)| id).collect(),
            rules,
            open: (0..requests.len()).collect(),
            processors: HashMap::new(),
            dropped: BTreeSet::new(),
            written: HashMap::new(),
            spelled: HashMap::new(),
        };
        for (request, (id, _)) in requests.iter().enumerate() {
            new.processors.entry(id.target_id().processor()).or_default().insert(request);
            new.written.entry(id.to_string()).or_default().push(request);
            new.spelled.entry(id.spelled()).or_default().push(request);
            if id.target_id().is_dropped_by_llvm() {
                new.dropped.insert(request);
            }
        }
        new
    }

    /// Whether all requests are served.
    pub(super) fn are_served(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the entries with a valid ID that a request may find, without entries that repeat an earlier ID. Reports
    /// repetitions that are compatible with an open request.
    pub(super) fn candidates<'b>(&self, entries: &'b [Entry], observer: &mut Observer<'_>) -> Vec<Candidate<'b>> {
        let (mut seen, mut reported) = (HashSet::new(), HashSet::new());
        let mut candidates = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let Some(id) = self.id_requested_by_name(&entry.id).or_else(|| entry.entry_id()) else { continue };
            if !id.is_requestable() {
                continue;
            }
            let text = entry.id.as_slice();
            if seen.insert(text) {
                candidates.push(Candidate { index, id, text });
            } else if reported.insert(text) && self.compatible(&id).next().is_some() {
                observer(Event::DuplicateEntry(id.to_string()));
            }
        }
        candidates
    }

    /// Returns the ID of an entry that is requested by name.
    fn id_requested_by_name(&self, recorded: &[u8]) -> Option<EntryId> {
        for &request in self.written.get(&*bytes::text(recorded)?)? {
            if let Some(&id) = self.ids.get(request)
                && id.kind() == OffloadKind::Other
            {
                return Some(id.clone());
            }
        }
        None
    }

    /// The open requests that an entry is compatible with, in request order.
    fn compatible(&self, entry: &EntryId) -> impl Iterator<Item = usize> {
        self.comparisons(entry).filter(|(_, outcome)| outcome.is_compatible()).map(|(request, _)| request)
    }

    /// The open requests that an entry is compatible with only because LLVM drops unknown target IDs, in request order.
    fn compatible_without_target_id(&self, entry: &EntryId) -> impl Iterator<Item = usize> {
        let target_id = entry.target_id();
        // LLVM would have dropped the target ID of either the entry or the request, so the other one has none.
        let requests = if target_id.is_dropped_by_llvm() {
            self.processors.get("")
        } else if target_id.is_empty() {
            Some(&self.dropped)
        } else {
            None
        };
        let requests = requests.into_iter().flatten().copied();
        requests.filter(|&request| self.ids.get(request).is_some_and(|id| entry.is_exact_without_target_id(id)))
    }

    /// Returns the requests that each candidate serves in an archive, where several entries may serve one request and
    /// one entry several requests. If any candidate is compatible with a request, no other one serves it only because
    /// LLVM drops unknown target IDs.
    pub(super) fn served_by_each<'c, 'b>(
        &self,
        candidates: &'c [Candidate<'b>],
    ) -> Vec<(&'c Candidate<'b>, Vec<usize>)> {
        let mut matched = HashSet::new();
        for candidate in candidates {
            matched.extend(self.compatible(&candidate.id));
        }
        let mut served_by_each = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let mut served: Vec<usize> = self.compatible(&candidate.id).collect();
            served.extend(self.compatible_without_target_id(&candidate.id).filter(|guess| !matched.contains(guess)));
            served_by_each.push((candidate, served));
        }
        served_by_each
    }

    /// The open requests for the processor of an entry, in request order, each with the outcome of comparing it.
    fn comparisons(&self, entry: &EntryId) -> impl Iterator<Item = (usize, Compatibility)> {
        let requests = self.processors.get(entry.target_id().processor()).into_iter().flatten();
        requests.filter_map(|&request| Some((request, entry.compatibility(self.ids.get(request)?, self.rules))))
    }

    /// Assigns candidates to open requests, rule by rule, and closes these requests. Returns the pairs of request and
    /// candidate.
    pub(super) fn assign<'c, 'b>(&mut self, candidates: &'c [Candidate<'b>]) -> Vec<(usize, &'c Candidate<'b>)> {
        let mut served = Vec::new();
        let mut unassigned: Vec<&Candidate<'_>> = candidates.iter().collect();
        for rule in Self::RULES {
            unassigned.retain(|candidate| {
                let Some(request) = rule(self, candidate) else { return true };
                self.close(request);
                served.push((request, *candidate));
                false
            });
        }
        served
    }

    /// Returns the first open request whose written form is the ID that the bundle records for the entry.
    fn first_written_like_entry(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.first_open(&self.written, &bytes::text(entry.text)?)
    }

    /// Returns the first open request that is spelled like the ID that the bundle records for the entry.
    fn first_spelled_like_entry(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.first_open(&self.spelled, &bytes::text(entry.text)?)
    }

    /// Returns the first open request whose written form is also that of the entry.
    fn first_with_same_written_form(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.first_open(&self.written, &entry.id.to_string())
    }

    /// Returns the first open request for exactly the target of the entry.
    fn first_exact(&self, entry: &Candidate<'_>) -> Option<usize> {
        for (request, outcome) in self.comparisons(&entry.id) {
            if outcome == Compatibility::Exact {
                return Some(request);
            }
        }
        None
    }

    /// Returns the first open request that the entry is compatible with.
    fn first_compatible(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.compatible(&entry.id).next()
    }

    /// Returns the first open request that LLVM would have written without its target ID.
    fn first_compatible_without_target_id(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.compatible_without_target_id(&entry.id).next()
    }

    /// Returns the first open request with this name.
    fn first_open(&self, requests_by_name: &HashMap<String, Vec<usize>>, name: &str) -> Option<usize> {
        requests_by_name.get(name)?.iter().copied().find(|request| self.open.contains(request))
    }

    /// Removes a request that is served.
    fn close(&mut self, request: usize) {
        self.open.remove(&request);
        self.dropped.remove(&request);
        if let Some(id) = self.ids.get(request)
            && let Some(open) = self.processors.get_mut(id.target_id().processor())
        {
            open.remove(&request);
        }
    }

    /// Reports the comparisons that LLVM makes to unbundle a file: each entry with the open requests in turn, up to the
    /// first compatible one.
    pub(super) fn explain(&self, candidates: &[Candidate<'_>], observer: &mut Observer<'_>) {
        let mut open = self.open.clone();
        for candidate in candidates {
            let request = open.iter().copied().find(|&request| self.explain_one(&candidate.id, request, observer));
            if let Some(request) = request {
                open.remove(&request);
            }
        }
    }

    /// Reports the comparisons that LLVM makes to unbundle an archive: each entry with every request.
    pub(super) fn explain_all(&self, candidates: &[Candidate<'_>], observer: &mut Observer<'_>) {
        for candidate in candidates {
            for &request in &self.open {
                self.explain_one(&candidate.id, request, observer);
            }
        }
    }

    /// Compares an entry with a request, reports the comparison, and returns whether they are compatible.
    fn explain_one(&self, entry: &EntryId, request: usize, observer: &mut Observer<'_>) -> bool {
        let Some(request) = self.ids.get(request) else { return false };
        let outcome = entry.compatibility(request, self.rules);
        observer(Event::Compared { entry, request, outcome });
        outcome.is_compatible()
    }
}

/// Returns the error for a request that LLVM refuses, or the error of the file: LLVM checks requests before it reads
/// the file.
pub(super) fn unknown_request_or(requests: &[(EntryId, PathBuf)], error: Error) -> Error {
    for (id, _) in requests {
        if let Some(unknown) = unknown_request(id) {
            return unknown;
        }
    }
    error
}

/// Fails if a request by name is not served. `served` says for each request whether it is.
pub(super) fn check_unserved_names(requests: &[(EntryId, PathBuf)], served: &[bool]) -> Result<()> {
    for ((id, _), is_served) in requests.iter().zip(served) {
        if !is_served && let Some(unknown) = unknown_request(id) {
            return Err(unknown);
        }
    }
    Ok(())
}

/// Returns LLVM's error for a request by name, or `None` for an ID that LLVM knows.
fn unknown_request(id: &EntryId) -> Option<Error> {
    if id.kind() != OffloadKind::Other {
        return None;
    }
    let invalid = EntryId::parse(&id.to_string()).err()?;
    Some(invalid.into())
}

impl Candidate<'_> {
    /// Whether the code object is not empty. `entries` are the entries of the bundle.
    pub(super) fn has_code(&self, entries: &[Entry]) -> bool {
        match entries.get(self.index) {
            Some(entry) => entry.size() > 0,
            None => false,
        }
    }

    /// Reports that the entry, which has no processor, serves a request for a GPU.
    pub(super) fn report_missing_processor(&self, request: &EntryId, observer: &mut Observer<'_>) {
        if self.id.target_id().is_empty() && request.names_gpu() {
            observer(Event::NoProcessor { entry: &self.id, request });
        }
    }
}
