//! Tracks which parts of a request match a code object, for the error that lists the parts that match none.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use crate::base::error::{Error, Result};
use crate::base::id::OffloadKind;
use crate::beyond::runtime::{Device, UnfoundCode};
use crate::beyond::scan::{ParsedId, Pattern, PreparedSelection, Selection};
use crate::llvm::work::present::PresentNames;

/// The request for code objects: a selection, and the GPUs whose runtimes choose among the selected ones, if there are
/// any.
#[derive(Clone, Copy)]
pub(super) struct WantedCode<'s> {
    pub(super) selector: &'s PreparedSelection<'s>,
    pub(super) devices: &'s [Device],
}

/// A part of a request. Parts have positions: target patterns come first, then kinds, then GPUs.
enum WantedPart<'s> {
    Target(&'s Pattern),
    Kind(OffloadKind),
    Gpu(&'s Device),
}

impl<'s> WantedCode<'s> {
    /// Requests all code objects that a selection takes, whatever runtimes choose.
    pub(super) fn selected_by(selector: &'s PreparedSelection<'s>) -> Self {
        Self { selector, devices: &[] }
    }

    /// Returns all parts, in the order of their positions.
    fn parts(self) -> impl Iterator<Item = WantedPart<'s>> {
        let Selection { targets, kinds, .. } = self.selector.selection();
        let kinds = kinds.iter().map(|kind| WantedPart::Kind(*kind));
        targets.iter().map(WantedPart::Target).chain(kinds).chain(self.devices.iter().map(WantedPart::Gpu))
    }

    /// Returns the positions of the parts that match a code object with this ID. `targets` are the positions of the
    /// target patterns that match it, and `devices` the indices of the GPUs whose runtimes choose it.
    fn matching_parts(self, targets: Vec<usize>, id: &ParsedId, devices: &[usize]) -> Vec<usize> {
        let Selection { targets: all_targets, kinds, .. } = self.selector.selection();
        let mut parts = targets;
        for (index, kind) in kinds.iter().enumerate() {
            if Selection::kind_takes(*kind, id) {
                parts.push(all_targets.len() + index);
            }
        }
        for index in devices {
            parts.push(all_targets.len() + kinds.len() + index);
        }
        parts
    }
}

impl fmt::Display for WantedPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(pattern) => write!(f, "'{}'", pattern.as_str()),
            Self::Kind(kind) => write!(f, "the kind '{}'", kind.name()),
            Self::Gpu(device) => write!(f, "'{device}'"),
        }
    }
}

/// The parts of a selection that have matched in some files, and the GPUs that these files have code objects for.
#[derive(Debug, Default)]
pub struct SelectionMatches {
    /// The positions of the parts that have matched, as [`WantedPart`] orders them.
    matched: HashSet<usize>,
    present: PresentNames,
    /// Code that runtimes do not find or load, by the name of a GPU that is asked for.
    unfound: BTreeMap<String, UnfoundCode>,
}

impl SelectionMatches {
    /// Returns whether a selection matches a code object with this ID. Records the parts that match.
    pub(super) fn takes(&mut self, selector: &PreparedSelection<'_>, id: &ParsedId) -> bool {
        // An empty selection cannot fail to match, so no message lists the names.
        if !selector.takes_all() {
            self.note(id, selector.names_entries());
        }
        self.takes_for(WantedCode::selected_by(selector), id, None)
    }

    /// Notes that the files have a code object with this ID, for messages: by its target ID, or by its whole ID.
    pub(super) fn note(&mut self, id: &ParsedId, by_whole_id: bool) {
        if by_whole_id {
            self.present.note(&id.shown);
        } else if let Some(target) = id.target() {
            self.present.note(&target);
        }
    }

    /// Returns whether a code object with this ID is wanted. `devices` are the indices of the GPUs whose runtimes
    /// choose it, or `None` if the selection alone decides. Records the parts that match.
    pub(super) fn takes_for(&mut self, wanted: WantedCode<'_>, id: &ParsedId, devices: Option<&[usize]>) -> bool {
        let targets = wanted.selector.targets_of(id);
        // An empty list means that no runtime chooses the code object.
        if !wanted.selector.takes_by(id, &targets) || devices == Some(&[]) {
            return false;
        }
        self.matched.extend(wanted.matching_parts(targets, id, devices.unwrap_or_default()));
        true
    }

    /// Returns the number of parts that have matched.
    pub(super) fn matched_count(&self) -> usize {
        self.matched.len()
    }

    /// Counts all parts of a selection as matched, because not everything was searched.
    pub(super) fn assume_all(&mut self, selector: &PreparedSelection<'_>) {
        self.matched.extend(0..WantedCode::selected_by(selector).parts().count());
    }

    /// Notes code for a GPU that its runtime does not find or load.
    pub(super) fn note_unfound(&mut self, device: &Device, code: UnfoundCode) {
        self.unfound.entry(device.name().to_owned()).or_insert(code);
    }

    /// Returns a sentence about code that a runtime does not find or load, for the first of the `unmatched` GPUs that
    /// has such code. Returns `None` if no GPU has. The GPUs are named as in messages, in quotes.
    pub(super) fn unfound_for(&self, unmatched: &[String]) -> Option<String> {
        let code = unmatched.iter().find_map(|name| self.unfound.get(name.trim_matches('\'')))?;
        Some(code.to_string())
    }

    /// Adds the matches in other files.
    pub fn add(&mut self, more: Self) {
        self.matched.extend(more.matched);
        for shown in more.present.shown() {
            self.present.note(shown);
        }
        for (device, code) in more.unfound {
            self.unfound.entry(device).or_insert(code);
        }
    }

    /// Returns whether the files have any code objects. With an empty selection, returns false, because code objects
    /// are then not recorded.
    pub fn has_code(&self) -> bool {
        !self.present().is_empty()
    }

    /// Returns the targets, or entry IDs, of the code objects in the files, as messages list them.
    pub(super) fn present(&self) -> &[String] {
        self.present.shown()
    }

    /// Returns the parts that match in no file, and the parts that match only in the files of `elsewhere`.
    pub(super) fn unmatched(&self, wanted: WantedCode<'_>, elsewhere: Option<&Self>) -> (Vec<String>, Vec<String>) {
        let (mut nowhere, mut only_elsewhere) = (Vec::new(), Vec::new());
        for (position, part) in wanted.parts().enumerate() {
            // Only the first of several equal patterns is recorded as matched.
            let first = wanted.selector.first_same_pattern(position);
            if self.matched.contains(&first) {
                continue;
            }
            match elsewhere {
                Some(other) if other.matched.contains(&first) => only_elsewhere.push(part.to_string()),
                _ => nowhere.push(part.to_string()),
            }
        }
        (nowhere, only_elsewhere)
    }

    /// Fails if a part of the selection has not matched in any of the files, which are `inputs`.
    ///
    /// # Errors
    /// The kind is [`NotFound`](crate::ErrorKind::NotFound). The message lists the GPUs that the files have
    /// code objects for.
    pub fn ensure_all(&self, selection: &Selection, inputs: &[PathBuf]) -> Result<()> {
        let (unmatched, _) = self.unmatched(WantedCode::selected_by(&PreparedSelection::new(selection)), None);
        if unmatched.is_empty() { Ok(()) } else { Err(Error::no_match(inputs, &unmatched, self.present())) }
    }
}
