//! What is there, for the error that nothing matches.

use std::collections::HashSet;

use crate::scan::CodeObject;

/// The entry IDs that were met, each once, in file order.
#[derive(Debug, Default)]
pub(super) struct Present {
    ids: Vec<String>,
    known: HashSet<String>,
}

impl Present {
    pub(super) fn note(&mut self, code_object: &CodeObject<'_>) {
        let id = code_object.shown_id();
        if !self.known.contains(&id) {
            self.known.insert(id.clone());
            self.ids.push(id);
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
