//! Matches the requests of an unbundling with the entries of a bundle.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::base::bytes;
use crate::base::error::{Error, Result};
use crate::base::id::{Compatibility, EntryId, OffloadKind, Rules};
use crate::llvm::container::Entry;
use crate::llvm::event::{Event, Observer};

/// The requests of an unbundling, indexed by name and processor to avoid comparing every entry with every request.
///
/// A request is open while it may still get an entry. In a file, that is until an entry serves it. In an archive,
/// several entries may serve a request, so every request stays open.
///
/// The name of a request is its ID in one of two forms: as spelled by the user, or in written form, which is how LLVM
/// 22 writes it (see [`EntryId`]).
pub(super) struct Requests<'j> {
    /// The ID of each request. All other fields give requests as indices of this list.
    ids: Vec<&'j EntryId>,
    rules: Rules,
    open_requests: BTreeSet<usize>,
    /// The open requests for each processor. An entry is compatible only with requests for its own processor.
    open_by_processor: HashMap<&'j str, BTreeSet<usize>>,
    /// The open requests with a target ID that LLVM would drop, because it does not know the processor.
    open_with_dropped_target_id: BTreeSet<usize>,
    /// All requests, open or not, by written form.
    by_written_form: HashMap<String, Vec<usize>>,
    /// All requests, open or not, by the user's spelling.
    by_spelling: HashMap<String, Vec<usize>>,
}

/// An entry of a bundle that may serve a request.
pub(super) struct Candidate<'b> {
    /// The index of the entry in the bundle.
    pub(super) index: usize,
    /// The parsed ID, or the ID of the request if the entry is requested by name.
    pub(super) id: EntryId,
    /// The ID as recorded in the bundle.
    pub(super) recorded_id: &'b [u8],
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

    /// Indexes the requests, which are all open at first.
    pub(super) fn new(requests: &'j [(EntryId, PathBuf)], rules: Rules) -> Self {
        let mut new = Self {
            ids: requests.iter().map(|(id, _)| id).collect(),
            rules,
            open_requests: (0..requests.len()).collect(),
            open_by_processor: HashMap::new(),
            open_with_dropped_target_id: BTreeSet::new(),
            by_written_form: HashMap::new(),
            by_spelling: HashMap::new(),
        };
        for (request, (id, _)) in requests.iter().enumerate() {
            new.open_by_processor.entry(id.target_id().processor()).or_default().insert(request);
            new.by_written_form.entry(id.to_string()).or_default().push(request);
            new.by_spelling.entry(id.spelled()).or_default().push(request);
            if id.target_id().is_dropped_by_llvm() {
                new.open_with_dropped_target_id.insert(request);
            }
        }
        new
    }

    /// Whether all requests are served.
    pub(super) fn are_served(&self) -> bool {
        self.open_requests.is_empty()
    }

    /// Returns the entries of a bundle that may serve a request. Leaves out entries without a valid ID, entries for AMD
    /// GPUs of a version that LLVM does not know, and entries that repeat an earlier ID. Of several entries with one
    /// ID, LLVM would use the last.
    ///
    /// Reports each repeated ID once if an open request is compatible with it.
    pub(super) fn candidates<'b>(&self, entries: &'b [Entry], observer: &mut Observer<'_>) -> Vec<Candidate<'b>> {
        let (mut seen_ids, mut repeated_ids) = (HashSet::new(), HashSet::new());
        let mut candidates = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let Some(id) = self.id_requested_by_name(&entry.id).or_else(|| entry.entry_id()) else { continue };
            if !id.is_requestable() {
                continue;
            }
            let recorded_id = entry.id.as_slice();
            if seen_ids.insert(recorded_id) {
                candidates.push(Candidate { index, id, recorded_id });
            } else if repeated_ids.insert(recorded_id) && self.compatible(&id).next().is_some() {
                observer(Event::DuplicateEntry(id.to_string()));
            }
        }
        candidates
    }

    /// Returns the ID of the request by name for the entry with this recorded ID, or `None` if the entry is not
    /// requested by name. An ID that LLVM does not know can only be requested by name.
    fn id_requested_by_name(&self, recorded: &[u8]) -> Option<EntryId> {
        for &request in self.by_written_form.get(&*bytes::text(recorded)?)? {
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

    /// The open requests that an entry serves because LLVM would have dropped the target ID of one of the two, in
    /// request order. LLVM writes and reads the ID of a GPU that it does not know without the target ID.
    fn compatible_without_target_id(&self, entry: &EntryId) -> impl Iterator<Item = usize> {
        let target_id = entry.target_id();
        // If the entry or the request has a target ID that LLVM drops, the other has none: its processor is empty.
        let requests = if target_id.is_dropped_by_llvm() {
            self.open_by_processor.get("")
        } else if target_id.is_empty() {
            Some(&self.open_with_dropped_target_id)
        } else {
            None
        };
        let requests = requests.into_iter().flatten().copied();
        requests.filter(|&request| self.ids.get(request).is_some_and(|id| entry.is_exact_without_target_id(id)))
    }

    /// Returns the requests that each candidate serves in an archive, where several entries may serve one request and
    /// one entry several requests.
    ///
    /// A candidate also serves a request that differs only in a target ID that LLVM would have dropped, unless another
    /// candidate is compatible with that request.
    pub(super) fn served_by_each<'c, 'b>(
        &self,
        candidates: &'c [Candidate<'b>],
    ) -> Vec<(&'c Candidate<'b>, Vec<usize>)> {
        let mut with_compatible_entry = HashSet::new();
        for candidate in candidates {
            with_compatible_entry.extend(self.compatible(&candidate.id));
        }
        let mut served_by_each = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let mut served: Vec<usize> = self.compatible(&candidate.id).collect();
            for request in self.compatible_without_target_id(&candidate.id) {
                if !with_compatible_entry.contains(&request) {
                    served.push(request);
                }
            }
            served_by_each.push((candidate, served));
        }
        served_by_each
    }

    /// The open requests for the processor of an entry, in request order, each with the outcome of comparing it.
    fn comparisons(&self, entry: &EntryId) -> impl Iterator<Item = (usize, Compatibility)> {
        let requests = self.open_by_processor.get(entry.target_id().processor()).into_iter().flatten();
        requests.filter_map(|&request| Some((request, entry.compatibility(self.ids.get(request)?, self.rules))))
    }

    /// Assigns candidates to open requests, rule by rule, and closes these requests. A candidate serves one request at
    /// most. Returns the pairs of request and candidate.
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
        self.first_open(&self.by_written_form, &bytes::text(entry.recorded_id)?)
    }

    /// Returns the first open request that is spelled like the ID that the bundle records for the entry.
    fn first_spelled_like_entry(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.first_open(&self.by_spelling, &bytes::text(entry.recorded_id)?)
    }

    /// Returns the first open request with the same written form as the entry, however the bundle records the entry.
    fn first_with_same_written_form(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.first_open(&self.by_written_form, &entry.id.to_string())
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

    /// Returns the first open request that the entry serves if one of the two has a target ID that LLVM would have
    /// dropped, because it does not know the processor.
    fn first_compatible_without_target_id(&self, entry: &Candidate<'_>) -> Option<usize> {
        self.compatible_without_target_id(&entry.id).next()
    }

    /// Returns the first open request with this name.
    fn first_open(&self, requests_by_name: &HashMap<String, Vec<usize>>, name: &str) -> Option<usize> {
        requests_by_name.get(name)?.iter().copied().find(|request| self.open_requests.contains(request))
    }

    /// Removes a request that is served from the open requests. The maps by name keep it, and `first_open` skips it
    /// there.
    fn close(&mut self, request: usize) {
        self.open_requests.remove(&request);
        self.open_with_dropped_target_id.remove(&request);
        if let Some(id) = self.ids.get(request)
            && let Some(open) = self.open_by_processor.get_mut(id.target_id().processor())
        {
            open.remove(&request);
        }
    }

    /// Reports the comparisons that LLVM makes to unbundle a file. LLVM compares each entry with the open requests in
    /// turn, up to the first compatible one, and closes that request. The requests here stay as they are.
    pub(super) fn report_comparisons(&self, candidates: &[Candidate<'_>], observer: &mut Observer<'_>) {
        let mut open = self.open_requests.clone();
        for candidate in candidates {
            let request =
                open.iter().copied().find(|&request| self.report_comparison(&candidate.id, request, observer));
            if let Some(request) = request {
                open.remove(&request);
            }
        }
    }

    /// Reports the comparisons that LLVM makes to unbundle an archive: each entry with every request.
    pub(super) fn report_all_comparisons(&self, candidates: &[Candidate<'_>], observer: &mut Observer<'_>) {
        for candidate in candidates {
            for &request in &self.open_requests {
                self.report_comparison(&candidate.id, request, observer);
            }
        }
    }

    /// Compares an entry with a request, reports the comparison, and returns whether they are compatible.
    fn report_comparison(&self, entry: &EntryId, request: usize, observer: &mut Observer<'_>) -> bool {
        let Some(request) = self.ids.get(request) else { return false };
        let outcome = entry.compatibility(request, self.rules);
        observer(Event::Compared { entry, request, outcome });
        outcome.is_compatible()
    }
}

/// Returns LLVM's error for the first request by name, if there is one, otherwise the error of the file. LLVM refuses
/// unknown IDs before it reads the file, so its error hides the file's.
pub(super) fn unknown_request_or(requests: &[(EntryId, PathBuf)], error: Error) -> Error {
    for (id, _) in requests {
        if let Some(unknown) = error_of_request_by_name(id) {
            return unknown;
        }
    }
    error
}

/// Fails with LLVM's error if a request by name is not served. `served` says for each request whether it is.
pub(super) fn check_names_served(requests: &[(EntryId, PathBuf)], served: &[bool]) -> Result<()> {
    for ((id, _), is_served) in requests.iter().zip(served) {
        if !is_served && let Some(unknown) = error_of_request_by_name(id) {
            return Err(unknown);
        }
    }
    Ok(())
}

/// Returns LLVM's error for a request whose ID cannot be parsed, so that it is taken as a name. Returns `None` for any
/// other request.
fn error_of_request_by_name(id: &EntryId) -> Option<Error> {
    if id.kind() != OffloadKind::Other {
        return None;
    }
    let parse_error = EntryId::parse(&id.to_string()).err()?;
    Some(parse_error.into())
}

impl Candidate<'_> {
    /// Whether the code object is not empty.
    pub(super) fn has_code(&self, entries_of_bundle: &[Entry]) -> bool {
        match entries_of_bundle.get(self.index) {
            Some(entry) => entry.size() > 0,
            None => false,
        }
    }

    /// Reports an entry without a processor that serves a request for a GPU. LLVM may have dropped the processor when
    /// it wrote the entry, so the code may be for another GPU.
    pub(super) fn report_missing_processor(&self, request: &EntryId, observer: &mut Observer<'_>) {
        if self.id.target_id().is_empty() && request.names_gpu() {
            observer(Event::NoProcessor { entry: &self.id, request });
        }
    }
}
