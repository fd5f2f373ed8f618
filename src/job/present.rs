//! What is there, for the error that nothing matches.

use std::collections::HashSet;

use crate::scan::KnownId;

/// The entry IDs that were met, each once, in file order.
#[derive(Debug, Default)]
pub(super) struct Present {
    ids: Vec<String>,
    known: HashSet<String>,
}

impl Present {
    pub(super) fn note(&mut self, id: &KnownId) {
        if !self.known.contains(&id.shown) {
            self.known.insert(id.shown.clone());
            self.ids.push(id.shown.clone());
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Forgets all but the first ones.
    pub(super) fn truncate(&mut self, kept: usize) {
        for id in self.ids.drain(kept.min(self.ids.len())..) {
            self.known.remove(&id);
        }
    }

    pub(super) fn into_ids(self) -> Vec<String> {
        self.ids
    }
}
