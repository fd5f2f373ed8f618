//! Collects the GPUs, entry IDs or kinds of images that files hold, for the error that nothing matches.

use std::collections::HashSet;

use crate::scan::KnownId;

/// The collected names, as a selection would name them, without duplicates, in file order.
#[derive(Debug, Default)]
pub(crate) struct Present {
    shown: Vec<String>,
    known: HashSet<String>,
}

impl Present {
    pub(crate) fn note(&mut self, shown: &str) {
        if !self.known.contains(shown) {
            self.known.insert(shown.to_owned());
            self.shown.push(shown.to_owned());
        }
    }

    /// Notes a code object: by its target ID, or by its whole ID, if that is what a selection names.
    pub(crate) fn note_code(&mut self, id: &KnownId, by_whole_id: bool) {
        match by_whole_id {
            true => self.note(&id.shown),
            false => id.target().iter().for_each(|target| self.note(target)),
        }
    }

    /// The names.
    pub(crate) fn shown(&self) -> &[String] {
        &self.shown
    }

    /// Adds those of other files.
    pub(crate) fn add(&mut self, more: Self) {
        more.shown.iter().for_each(|shown| self.note(shown));
    }
}
