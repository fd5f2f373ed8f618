//! Collects the GPUs, entry IDs or kinds of images that files hold, to list them when a selection matches nothing.

use std::collections::HashSet;

/// The collected names, in the form that selects them on a command line, without duplicates, in file order.
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
}
