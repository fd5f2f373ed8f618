//! What is there, for the error that nothing matches.

use std::collections::HashSet;

/// What was met, as a selection would name it, each once and in file order.
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.shown.len()
    }

    /// Forgets all but the first ones.
    pub(super) fn truncate(&mut self, kept: usize) {
        for shown in self.shown.drain(kept.min(self.shown.len())..) {
            self.known.remove(&shown);
        }
    }

    pub(super) fn into_shown(self) -> Vec<String> {
        self.shown
    }
}
