//! Errors in messages and reports: a sentence for people, and facts for programs.

use crate::base::error::{Error, ErrorKind};

/// A sentence about work that could not be done. A report has only the sentence; messages also show facts and hint.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) text: String,
    pub(crate) facts: Option<ErrorFacts>,
    /// A way to fix the problem.
    pub(crate) hint: Option<String>,
}

impl Problem {
    /// Adds a way to fix the problem.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// The facts of an error, in addition to its text.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(crate) struct ErrorFacts {
    kind: ErrorKind,
    path: Option<String>,
    place: Option<String>,
    offset: Option<u64>,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let facts = ErrorFacts {
            kind: error.kind(),
            path: error.file().map(|path| path.to_string_lossy().into_owned()),
            place: error.place().map(str::to_owned),
            offset: error.offset(),
        };
        Self { text: error.to_string(), facts: Some(facts), hint: None }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { text, facts: None, hint: None }
    }
}
