//! Errors in messages and reports: a sentence for people, and facts for programs.

use std::process::ExitCode;

use serde::{Serialize, Serializer};

use super::units::CountsByKind;
use super::{json, progress};
use crate::base::error::{Error, ErrorKind};
use crate::base::io::sys;
use crate::beyond::job::{Event, Failure};
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::program::Program;

/// A sentence about work that could not be done. A report has only the sentence; messages also show facts and hint.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) text: String,
    facts: Option<ErrorFacts>,
    /// A way to fix the problem.
    hint: Option<String>,
}

impl Problem {
    /// Adds a way to fix the problem.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// A message for programs, which is written as a line of JSON.
#[derive(Serialize)]
pub(crate) struct Message<'m> {
    level: &'static str,
    message: &'m str,
    #[serde(flatten)]
    facts: Option<&'m ErrorFacts>,
}

/// The facts of an error, in addition to its text.
#[derive(Clone, Debug, Serialize)]
struct ErrorFacts {
    kind: ErrorKind,
    path: Option<String>,
    place: Option<String>,
    offset: Option<u64>,
}

impl From<&Error> for ErrorFacts {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            path: error.file().map(|path| path.to_string_lossy().into_owned()),
            place: error.place().map(str::to_owned),
            offset: error.offset(),
        }
    }
}

/// Turns a message into a line of JSON, for [`Console::as_line`].
pub(crate) fn json_line(level: &'static str, message: &str, error: Option<&Error>) -> String {
    json::message(&Message { level, message, facts: error.map(ErrorFacts::from).as_ref() })
}

impl Console {
    /// The name of the program, as typed, without its directory.
    pub(crate) fn program(&self) -> String {
        String::from_utf8_lossy(Program::new(&sys::os_str(&self.name)).name).into_owned()
    }

    /// Prints the message for an event of a job, or shows its progress. An event without a message prints nothing.
    pub(crate) fn event_of_job(&self, event: Event<'_>) {
        match event {
            Event::Progress { done, total } => progress::set(done, total),
            Event::NotReadable { file, code_objects } => {
                let what = CountsByKind(code_objects);
                self.note(&format!("'{}': left out, because it cannot be read: {what}", file.display()));
            }
            Event::LeftOut { .. } | Event::UnreadFile { .. } => {}
        }
    }

    /// Prints errors with their hints. Returns the exit status.
    pub(crate) fn problems(&self, problems: &[Problem]) -> ExitCode {
        for Problem { text, facts, hint } in problems {
            if self.as_line.is_some() {
                let message = Message { level: "error", message: text, facts: facts.as_ref() };
                self.write_line(&json::message(&message));
            } else {
                self.error(text, None);
            }
            if let Some(hint) = hint {
                self.hint(hint);
            }
        }
        if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self { text: error.to_string(), facts: Some(error.into()), hint: None }
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

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        failure.to_string().into()
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
