//! Matches the requests of an unbundling with the entries of a bundle.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::base::bytes;
use crate::base::id::{Compatibility, EntryId, Rules};
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
    /// The parsed ID.
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
            let Some(id) = entry.entry_id() else { continue };
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
                // Without a request, the candidate is left to the next rule.
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

    /// Returns the first open request that the entry serves without a target ID: LLVM drops one with a processor that it
    /// does not know, from the entry or from the request.
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
}

impl Candidate<'_> {
    /// Reports an entry without a processor that serves a request for a GPU. LLVM may have dropped the processor when
    /// it wrote the entry, so the code may be for another GPU.
    pub(super) fn report_missing_processor(&self, request: &EntryId, observer: &mut Observer<'_>) {
        if self.id.target_id().is_empty() && request.names_gpu() {
            observer(Event::NoProcessor { entry: &self.id, request });
        }
    }
}
