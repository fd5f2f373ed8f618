//! Collects the entry IDs or kinds of images that files hold, for the error that nothing matches.

use std::collections::HashSet;

/// The collected names, as a selection would name them, without duplicates, in file order.
#[derive(Debug, Default)]
pub(super) struct Present {
    shown: Vec<String>,
    known: HashSet<String>,
}

impl Present {
    pub(super) fn note(&mut self, shown: &str) {
        if !self.known.contains(shown) {
            self.known.insert(shown.to_owned());
            self.shown.push(shown.to_owned());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shown.len()
    }

    /// Removes all but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        for shown in self.shown.drain(kept.min(self.shown.len())..) {
            self.known.remove(&shown);
        }
    }

    pub(super) fn into_shown(self) -> Vec<String> {
        self.shown
    }
}
