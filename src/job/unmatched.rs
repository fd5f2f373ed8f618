//! Tracks the parts of a request that match, for the error that lists those that do not.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use super::present::Present;
use crate::error::{Error, Result};
use crate::id::OffloadKind;
use crate::runtime::{Device, UnfoundCode};
use crate::scan::{KnownId, Pattern, Selection};

/// What is asked for: a selection, and the GPUs whose runtimes choose.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'s> {
    pub(super) selection: &'s Selection,
    pub(super) devices: &'s [Device],
}

/// A part of what is asked for.
enum Want<'s> {
    Target(&'s Pattern),
    Kind(OffloadKind),
    /// The GPU with this index.
    Gpu(usize, &'s Device),
}

impl<'s> Wanted<'s> {
    pub(super) fn of(selection: &'s Selection) -> Self {
        Self { selection, devices: &[] }
    }

    fn parts(self) -> impl Iterator<Item = (usize, Want<'s>)> {
        let targets = self.selection.targets.iter().map(Want::Target);
        let kinds = self.selection.kinds.iter().map(|kind| Want::Kind(*kind));
        let gpus = self.devices.iter().enumerate().map(|(index, device)| Want::Gpu(index, device));
        targets.chain(kinds).chain(gpus).enumerate()
    }
}

impl fmt::Display for Want<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(pattern) => write!(f, "'{}'", pattern.as_str()),
            Self::Kind(kind) => write!(f, "the kind '{}'", kind.name()),
            Self::Gpu(_, device) => write!(f, "'{device}'"),
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
    pub(super) fn takes(&mut self, selection: &Selection, id: &KnownId) -> bool {
        if Wanted::of(selection).parts().next().is_some() {
            self.note(id, std::iter::once(selection));
        }
        self.takes_for(Wanted::of(selection), id, None)
    }

    /// Notes that the files have a code object with this ID, for messages about some selections.
    pub(super) fn note<'s>(&mut self, id: &KnownId, selections: impl Iterator<Item = &'s Selection>) {
        self.present.note_code(id, selections);
    }

    /// Whether a code object with this ID is wanted, which the runtimes of the GPUs with these indices choose, if
    /// runtimes choose. Records the parts that match.
    pub(super) fn takes_for(&mut self, wanted: Wanted<'_>, id: &KnownId, devices: Option<&[usize]>) -> bool {
        let is_taken = wanted.selection.takes_id(id) && devices.is_none_or(|devices| !devices.is_empty());
        let is_met = |want: &Want<'_>| match want {
            Want::Target(pattern) => wanted.selection.target_takes(pattern, id),
            Want::Kind(kind) => Selection::kind_takes(*kind, id),
            Want::Gpu(index, _) => devices.is_some_and(|devices| devices.contains(index)),
        };
        for (position, want) in wanted.parts().filter(|_| is_taken) {
            if !self.matched.contains(&position) && is_met(&want) {
                self.matched.insert(position);
            }
        }
        is_taken
    }

    /// Takes all parts of a selection as matched, because not everything was searched.
    pub(super) fn assume_all(&mut self, selection: &Selection) {
        self.matched.extend(Wanted::of(selection).parts().map(|(position, _)| position));
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
        let is_elsewhere = |position: &usize| elsewhere.is_some_and(|other| other.matched.contains(position));
        let open = wanted.parts().filter(|(position, _)| !self.matched.contains(position));
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
        let (unmatched, _) = self.unmatched(Wanted::of(selection), None);
        if unmatched.is_empty() { Ok(()) } else { Err(Error::no_match(inputs, &unmatched, self.present())) }
    }
}
