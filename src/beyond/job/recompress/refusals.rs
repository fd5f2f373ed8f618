//! Bundles that cannot be written without compression.

use std::path::Path;

use crate::base::error::Error;
use crate::beyond::scan::Place;

/// The errors of bundles that cannot be written without compression. One error reports all of them.
#[derive(Default)]
pub(super) struct Refusals {
    /// The first errors, at most [`LISTED_ERRORS_MAX`](Self::LISTED_ERRORS_MAX).
    pub(super) listed: Vec<Error>,
    /// The number of further errors.
    more: usize,
}

impl Refusals {
    const LISTED_ERRORS_MAX: usize = 10;

    /// Adds an error, or only counts it if [`LISTED_ERRORS_MAX`](Self::LISTED_ERRORS_MAX) errors are listed already.
    pub(super) fn add(&mut self, error: Error) {
        match self.listed.len() {
            Self::LISTED_ERRORS_MAX.. => self.more += 1,
            _ => self.listed.push(error),
        }
    }

    /// Adds the errors of bundles in another member.
    pub(super) fn extend(&mut self, more: Self) {
        more.listed.into_iter().for_each(|error| self.add(error));
        self.more += more.more;
    }

    /// Adds a place to the listed errors from the index `first` on.
    pub(super) fn add_place(&mut self, first: usize, place: &Place) {
        let inside = self.listed.split_off(first.min(self.listed.len()));
        self.listed.extend(inside.into_iter().map(|error| error.at(place)));
    }

    /// Returns one error about all bundles, with the kind and the offset of the first. Returns a single error as it is,
    /// and `None` if there are none.
    pub(super) fn into_error(self, path: &Path) -> Option<Error> {
        let Self { mut listed, more } = self;
        if listed.len() < 2 {
            return listed.pop();
        }
        let count = listed.len() + more;
        // Each text begins with the file, which the common error names once.
        let file = format!("'{}': ", path.display());
        let texts = listed.iter().map(ToString::to_string);
        let mut texts: Vec<String> = texts.map(|text| text.strip_prefix(&file).unwrap_or(&text).to_owned()).collect();
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        let reason = format!("{count} bundles cannot be written without compression: {}", texts.join("; "));
        let first = listed.first()?;
        let error = Error::refused(first.kind(), path, first.offset(), reason);
        Some(match listed.iter().find_map(Error::hint) {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }
}
