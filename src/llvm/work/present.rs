//! Collects the GPUs, entry IDs or kinds of images that files hold, for the error that nothing matches.

use std::collections::HashSet;

/// The collected names, as a selection would name them, without duplicates, in file order.
#[derive(Debug, Default)]
pub(crate) struct PresentNames {
    shown: Vec<String>,
    known: HashSet<String>,
}

impl PresentNames {
    /// Adds a name, unless it is known.
    pub(crate) fn note(&mut self, shown: &str) {
        if !self.known.contains(shown) {
            self.known.insert(shown.to_owned());
            self.shown.push(shown.to_owned());
        }
    }

    /// The names.
    pub(crate) fn shown(&self) -> &[String] {
        &self.shown
    }

    /// Adds the names of other files.
    pub(crate) fn add(&mut self, more: Self) {
        for shown in &more.shown {
            self.note(shown);
        }
    }
}
