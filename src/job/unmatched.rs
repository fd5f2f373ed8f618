//! Tracks the targets and kinds of a selection that match, for the error that lists those that do not.

use std::collections::HashSet;
use std::path::PathBuf;

use super::present::Present;
use crate::error::{Error, Result};
use crate::runtime::Device;
use crate::scan::{KnownId, Selection};

/// Which parts of a selection have matched in some files, and what these files have code objects for.
#[derive(Debug, Default)]
pub struct Matches {
    matched: Matched,
    present: Present,
}

impl Matches {
    /// Whether a selection matches a code object with this ID. Records the parts that match.
    pub(super) fn takes(&mut self, selection: &Selection, id: &KnownId) -> bool {
        if count(selection) > 0 {
            self.present.note_code(id, std::iter::once(selection));
        }
        self.matched.takes(Wanted::of(selection), id, None)
    }

    /// Takes all parts of a selection as matched, because not everything was searched.
    pub(super) fn assume_all(&mut self, selection: &Selection) {
        self.matched.known.extend(0..count(selection));
    }

    /// Adds those of other files.
    pub fn add(&mut self, more: Self) {
        self.matched.add(more.matched);
        self.present.add(more.present);
    }

    /// Whether the files have any code objects, if the selection is not empty.
    pub fn has_code(&self) -> bool {
        self.present.len() > 0
    }

    /// Fails if a part of the selection has not matched in any of the files, which are `inputs`.
    ///
    /// # Errors
    /// An error of the kind [`NotFound`](crate::ErrorKind::NotFound), with the GPUs that the files have code objects
    /// for.
    pub fn ensure_all(self, selection: &Selection, inputs: &[PathBuf]) -> Result<()> {
        let (unmatched, _) = self.matched.unmatched(Wanted::of(selection), &HashSet::new());
        let error = || Error::no_match(inputs, &unmatched, &self.present.into_shown());
        if unmatched.is_empty() { Ok(()) } else { Err(error()) }
    }
}

/// A selection, and the GPUs whose runtimes choose.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'s> {
    pub(super) selection: &'s Selection,
    pub(super) devices: &'s [Device],
}

impl<'s> Wanted<'s> {
    pub(super) fn of(selection: &'s Selection) -> Self {
        Self { selection, devices: &[] }
    }
}

/// The parts of a selection that have matched a code object so far, by their indices. Kinds are numbered after all
/// targets, GPUs after all kinds.
#[derive(Debug, Default)]
pub(super) struct Matched {
    known: HashSet<usize>,
}

impl Matched {
    /// Whether a selection matches a code object with this ID, which the runtimes of the GPUs with these indices
    /// choose, if runtimes choose. Records the parts that match.
    pub(super) fn takes(&mut self, wanted: Wanted<'_>, id: &KnownId, devices: Option<&[usize]>) -> bool {
        let is_taken = wanted.selection.takes_id(id) && devices.is_none_or(|devices| !devices.is_empty());
        let patterns = count(wanted.selection);
        let wants = patterns + wanted.devices.len();
        if is_taken && self.known.len() < wants {
            let is_for = |want: usize| match want.checked_sub(patterns) {
                Some(device) => devices.is_some_and(|devices| devices.contains(&device)),
                None => is_for(wanted.selection, want, id),
            };
            self.known.extend((0..wants).filter(|want| is_for(*want)));
        }
        is_taken
    }

    /// Adds those of other files.
    pub(super) fn add(&mut self, more: Self) {
        self.known.extend(more.known);
    }

    /// Those that have matched.
    pub(super) fn into_known(self) -> HashSet<usize> {
        self.known
    }

    /// The parts of the selection that match in no file, and those that match only in `elsewhere`.
    pub(super) fn unmatched(&self, wanted: Wanted<'_>, elsewhere: &HashSet<usize>) -> (Vec<String>, Vec<String>) {
        let Selection { targets, kinds, .. } = wanted.selection;
        let targets = targets.iter().map(|pattern| format!("'{}'", pattern.as_str()));
        let kinds = kinds.iter().map(|kind| format!("the kind '{}'", kind.name()));
        let devices = wanted.devices.iter().map(|device| format!("'{device}'"));
        let wants = targets.chain(kinds).chain(devices).enumerate();
        let open = wants.filter(|(want, _)| !self.known.contains(want));
        let (only_elsewhere, nowhere): (Vec<_>, Vec<_>) = open.partition(|(want, _)| elsewhere.contains(want));
        let named = |wants: Vec<(usize, String)>| wants.into_iter().map(|(_, want)| want).collect();
        (named(nowhere), named(only_elsewhere))
    }
}

/// The number of targets and kinds.
fn count(selection: &Selection) -> usize {
    selection.targets.len() + selection.kinds.len()
}

/// Whether a target or kind matches an ID.
fn is_for(selection: &Selection, want: usize, id: &KnownId) -> bool {
    let Selection { targets, kinds, .. } = selection;
    let kind = || want.checked_sub(targets.len()).and_then(|want| kinds.get(want));
    match targets.get(want) {
        Some(pattern) => selection.target_takes(pattern, id),
        None => kind().is_some_and(|&kind| Selection::kind_takes(kind, id)),
    }
}
