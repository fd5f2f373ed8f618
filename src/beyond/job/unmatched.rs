//! Tracks the parts of a request that match, for the error that lists those that do not.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use crate::base::error::{Error, Result};
use crate::base::id::OffloadKind;
use crate::beyond::runtime::{Device, UnfoundCode};
use crate::beyond::scan::{KnownId, Pattern, Selection, Selector};
use crate::llvm::work::present::Present;

/// What is asked for: a selection, and the GPUs whose runtimes choose.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'s> {
    pub(super) selector: &'s Selector<'s>,
    pub(super) devices: &'s [Device],
}

/// A part of what is asked for.
enum Want<'s> {
    Target(&'s Pattern),
    Kind(OffloadKind),
    Gpu(&'s Device),
}

impl<'s> Wanted<'s> {
    pub(super) fn of(selector: &'s Selector<'s>) -> Self {
        Self { selector, devices: &[] }
    }

    /// All parts, in the order of their positions.
    fn parts(self) -> impl Iterator<Item = Want<'s>> {
        let Selection { targets, kinds, .. } = self.selector.selection();
        let kinds = kinds.iter().map(|kind| Want::Kind(*kind));
        targets.iter().map(Want::Target).chain(kinds).chain(self.devices.iter().map(Want::Gpu))
    }

    /// The positions of the parts that a code object meets: the targets with these positions, its kinds, and the GPUs
    /// with these indices.
    fn met(self, targets: Vec<usize>, id: &KnownId, devices: &[usize]) -> impl Iterator<Item = usize> {
        let Selection { targets: all, kinds, .. } = self.selector.selection();
        let is_met = |(_, kind): &(usize, &OffloadKind)| Selection::kind_takes(**kind, id);
        let met_kinds = kinds.iter().enumerate().filter(is_met).map(|(index, _)| all.len() + index);
        let devices = devices.iter().map(|index| all.len() + kinds.len() + index);
        targets.into_iter().chain(met_kinds).chain(devices)
    }
}

impl fmt::Display for Want<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(pattern) => write!(f, "'{}'", pattern.as_str()),
            Self::Kind(kind) => write!(f, "the kind '{}'", kind.name()),
            Self::Gpu(device) => write!(f, "'{device}'"),
        }
    }
}

/// Which parts of a selection have matched in some files, and what these files have code objects for.
#[derive(Debug, Default)]
pub struct Matches {
    /// The parts, by their positions.
    matched: HashSet<usize>,
    present: Present,
    /// For a GPU that is asked for, code that HIP's runtime does not find.
    unfound: BTreeMap<String, UnfoundCode>,
}

impl Matches {
    /// Whether a selection matches a code object with this ID. Records the parts that match.
    pub(super) fn takes(&mut self, selector: &Selector<'_>, id: &KnownId) -> bool {
        if !selector.takes_all() {
            self.note(id, selector.names_entries());
        }
        self.takes_for(Wanted::of(selector), id, None)
    }

    /// Notes that the files have a code object with this ID, for messages about a selection: by its target ID, or by
    /// its whole ID.
    pub(super) fn note(&mut self, id: &KnownId, by_whole_id: bool) {
        if by_whole_id {
            self.present.note(&id.shown);
        } else if let Some(target) = id.target() {
            self.present.note(&target);
        }
    }

    /// Whether a code object with this ID is wanted, which the runtimes of the GPUs with these indices choose, if
    /// runtimes choose. Records the parts that match.
    pub(super) fn takes_for(&mut self, wanted: Wanted<'_>, id: &KnownId, devices: Option<&[usize]>) -> bool {
        let targets = wanted.selector.targets_of(id);
        let is_taken = wanted.selector.takes_by(id, &targets) && devices.is_none_or(|devices| !devices.is_empty());
        if is_taken {
            self.matched.extend(wanted.met(targets, id, devices.unwrap_or_default()));
        }
        is_taken
    }

    /// The number of parts that have matched.
    pub(super) fn matched(&self) -> usize {
        self.matched.len()
    }

    /// Takes all parts of a selection as matched, because not everything was searched.
    pub(super) fn assume_all(&mut self, selector: &Selector<'_>) {
        self.matched.extend(0..Wanted::of(selector).parts().count());
    }

    /// Notes code for a GPU that HIP's runtime does not find.
    pub(super) fn note_unfound(&mut self, device: &Device, code: UnfoundCode) {
        self.unfound.entry(device.name().to_owned()).or_insert(code);
    }

    /// The code that HIP's runtime does not find, for the first of some GPUs that has such code, in a sentence. The
    /// GPUs are named as in messages.
    pub(super) fn unfound_for(&self, unmatched: &[String]) -> Option<String> {
        let code = unmatched.iter().find_map(|name| self.unfound.get(name.trim_matches('\'')))?;
        Some(code.to_string())
    }

    /// Adds those of other files.
    pub fn add(&mut self, more: Self) {
        self.matched.extend(more.matched);
        self.present.add(more.present);
        for (device, code) in more.unfound {
            self.unfound.entry(device).or_insert(code);
        }
    }

    /// Whether the files have any code objects, if the selection is not empty.
    pub fn has_code(&self) -> bool {
        !self.present().is_empty()
    }

    /// What the files have code objects for.
    pub(super) fn present(&self) -> &[String] {
        self.present.shown()
    }

    /// The parts that match in no file, and those that match only in the files of `elsewhere`.
    pub(super) fn unmatched(&self, wanted: Wanted<'_>, elsewhere: Option<&Self>) -> (Vec<String>, Vec<String>) {
        let is_elsewhere = |position: &usize| {
            elsewhere.is_some_and(|other| other.matched.contains(&wanted.selector.first_of(*position)))
        };
        let is_open = |position: usize| !self.matched.contains(&wanted.selector.first_of(position));
        let open = wanted.parts().enumerate().filter(|(position, _)| is_open(*position));
        let (only_elsewhere, nowhere): (Vec<_>, Vec<_>) = open.partition(|(position, _)| is_elsewhere(position));
        let named = |wants: Vec<(usize, Want<'_>)>| wants.iter().map(|(_, want)| want.to_string()).collect();
        (named(nowhere), named(only_elsewhere))
    }

    /// Fails if a part of the selection has not matched in any of the files, which are `inputs`.
    ///
    /// # Errors
    /// An error of the kind [`NotFound`](crate::ErrorKind::NotFound), with the GPUs that the files have code objects
    /// for.
    pub fn ensure_all(&self, selection: &Selection, inputs: &[PathBuf]) -> Result<()> {
        let (unmatched, _) = self.unmatched(Wanted::of(&Selector::new(selection)), None);
        if unmatched.is_empty() { Ok(()) } else { Err(Error::no_match(inputs, &unmatched, self.present())) }
    }
}
