//! Matches the requests of an unbundling with the entries of a bundle.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::base::bytes;
use crate::base::error::Error;
use crate::base::id::{Compatibility, EntryId, OffloadKind, Rules};
use crate::llvm::container::Entry;
use crate::llvm::event::{Event, Observer};

/// The open requests, indexed by name and processor to avoid comparing every entry with every request.
pub(super) struct Requests<'j> {
    ids: Vec<&'j EntryId>,
    rules: Rules,
    open: BTreeSet<usize>,
    /// The open requests for each processor. An entry fits only requests for its own processor.
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
    /// The rules by which an entry finds its request. Each rule is tried on all entries of a bundle, in file order,
    /// before the next one.
    const RULES: [fn(&Self, &Candidate<'_>) -> Option<usize>; 6] = [
        // The names match: in the written form of the request, which is how LLVM compares them, in its spelling, or in
        // the written forms of both.
        |requests, entry| requests.named(&requests.written, &bytes::text(entry.text)?),
        |requests, entry| requests.named(&requests.spelled, &bytes::text(entry.text)?),
        |requests, entry| requests.named(&requests.written, &entry.id.to_string()),
        // The first request for exactly the target of the entry, then the first compatible one.
        |requests, entry| {
            let mut compared = requests.compared(&entry.id);
            compared.find(|(_, outcome)| *outcome == Compatibility::Exact).map(|(request, _)| request)
        },
        |requests, entry| requests.fitting(&entry.id).next(),
        // The first request that LLVM would have written without its target ID.
        |requests, entry| requests.fitting_without_target_id(&entry.id).next(),
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

    /// The entries with a valid ID that a request may find, without those that repeat an earlier ID. A repetition that
    /// fits an open request is reported.
    pub(super) fn candidates<'b>(&self, entries: &'b [Entry], observer: &mut Observer<'_>) -> Vec<Candidate<'b>> {
        let (mut seen, mut reported) = (HashSet::new(), HashSet::new());
        let mut candidates = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let id = self.by_name(&entry.id).or_else(|| entry.entry_id());
            let Some(id) = id.filter(EntryId::is_requestable) else { continue };
            let text = entry.id.as_slice();
            if seen.insert(text) {
                candidates.push(Candidate { index, id, text });
            } else if reported.insert(text) && self.fitting(&id).next().is_some() {
                observer(Event::DuplicateEntry(id.to_string()));
            }
        }
        candidates
    }

    /// The ID of an entry that is requested by name.
    fn by_name(&self, recorded: &[u8]) -> Option<EntryId> {
        let named = self.written.get(&*bytes::text(recorded)?)?;
        let mut ids = named.iter().filter_map(|&request| self.ids.get(request));
        ids.find(|id| id.kind() == OffloadKind::Other).map(|id| (*id).clone())
    }

    /// The open requests that an entry fits, in request order.
    pub(super) fn fitting(&self, entry: &EntryId) -> impl Iterator<Item = usize> {
        self.compared(entry).filter(|(_, outcome)| outcome.is_compatible()).map(|(request, _)| request)
    }

    /// The open requests that an entry fits only because LLVM drops unknown target IDs, in request order.
    pub(super) fn fitting_without_target_id(&self, entry: &EntryId) -> impl Iterator<Item = usize> {
        let own = entry.target_id();
        let requests = match own.is_dropped_by_llvm() {
            true => self.processors.get(""),
            false => Some(&self.dropped).filter(|_| own.is_empty()),
        };
        let is_exact = |id: &&EntryId| entry.is_exact_without_target_id(id);
        requests.into_iter().flatten().copied().filter(move |&request| self.ids.get(request).is_some_and(is_exact))
    }

    /// The requests that each candidate serves if several entries may serve one request and one entry several.
    pub(super) fn served_by<'c, 'b>(&self, candidates: &'c [Candidate<'b>]) -> Vec<(&'c Candidate<'b>, Vec<usize>)> {
        let named: HashSet<usize> = candidates.iter().flat_map(|candidate| self.fitting(&candidate.id)).collect();
        let served = |candidate: &'c Candidate<'b>| {
            let guesses = self.fitting_without_target_id(&candidate.id).filter(|guess| !named.contains(guess));
            (candidate, self.fitting(&candidate.id).chain(guesses).collect())
        };
        candidates.iter().map(served).collect()
    }

    /// The open requests for the processor of an entry, in request order.
    fn compared(&self, entry: &EntryId) -> impl Iterator<Item = (usize, Compatibility)> {
        let requests = self.processors.get(entry.target_id().processor()).into_iter().flatten();
        requests.filter_map(|&request| Some((request, entry.compatibility(self.ids.get(request)?, self.rules))))
    }

    /// Assigns candidates to open requests, rule by rule, and closes these requests.
    pub(super) fn assign<'c, 'b>(&mut self, candidates: &'c [Candidate<'b>]) -> Vec<(usize, &'c Candidate<'b>)> {
        let mut served = Vec::new();
        let mut left: Vec<&Candidate<'_>> = candidates.iter().collect();
        for rule in Self::RULES {
            left.retain(|candidate| {
                let Some(request) = rule(self, candidate) else { return true };
                self.close(request);
                served.push((request, *candidate));
                false
            });
        }
        served
    }

    /// The first open request with this name.
    fn named(&self, names: &HashMap<String, Vec<usize>>, name: &str) -> Option<usize> {
        names.get(name)?.iter().copied().find(|request| self.open.contains(request))
    }

    fn close(&mut self, request: usize) {
        self.open.remove(&request);
        self.dropped.remove(&request);
        let id = self.ids.get(request);
        if let Some(open) = id.and_then(|id| self.processors.get_mut(id.target_id().processor())) {
            open.remove(&request);
        }
    }

    /// Reports the comparisons that LLVM makes to unbundle a file: each entry with the open requests in turn, until it
    /// fits one.
    pub(super) fn explain(&self, candidates: &[Candidate<'_>], observer: &mut Observer<'_>) {
        let mut open = self.open.clone();
        for candidate in candidates {
            let fitting = open.iter().copied().find(|&request| self.explain_one(&candidate.id, request, observer));
            fitting.map(|request| open.remove(&request));
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

    /// Whether an entry fits a request. Reports the comparison.
    fn explain_one(&self, entry: &EntryId, request: usize, observer: &mut Observer<'_>) -> bool {
        let Some(request) = self.ids.get(request) else { return false };
        let outcome = entry.compatibility(request, self.rules);
        observer(Event::Compared { entry, request, outcome });
        outcome.is_compatible()
    }
}

/// The error for a request that LLVM refuses, which it does before it reads the file, or the error of the file.
pub(super) fn unknown_or(requests: &[(EntryId, PathBuf)], error: Error) -> Error {
    first_unknown(requests, |_| false).unwrap_or(error)
}

/// LLVM's error for the first request by name that is not served: it does not know such an ID.
pub(super) fn first_unknown(requests: &[(EntryId, PathBuf)], is_served: impl Fn(usize) -> bool) -> Option<Error> {
    let mut unserved = requests.iter().enumerate().filter(|(request, _)| !is_served(*request));
    unserved.find_map(|(_, (id, _))| match id.kind() {
        OffloadKind::Other => EntryId::parse(&id.to_string()).err().map(Error::from),
        _ => None,
    })
}

impl Candidate<'_> {
    /// Reports that the entry, which has no processor, serves a request for a GPU.
    pub(super) fn report_guess(&self, request: &EntryId, observer: &mut Observer<'_>) {
        if self.id.target_id().is_empty() && request.names_gpu() {
            observer(Event::NoProcessor { entry: &self.id, request });
        }
    }
}
