//! The errors of searches and of jobs that select code objects.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::text::listed;
use crate::base::error::{Error, ErrorCause, ErrorKind, Malformed, Remedy, Result};

impl Error {
    /// Returns an entry ID that, compared exactly, selects one of the matches of an [ambiguous](ErrorKind::Ambiguous)
    /// selection alone.
    #[doc(hidden)]
    pub fn sole_match(&self) -> Option<&str> {
        if let Remedy::Sole(id) = self.remedy() { id.as_deref() } else { None }
    }

    /// Returns the requested targets that match no code object, as they were typed.
    #[doc(hidden)]
    pub fn unmatched_targets(&self) -> &[String] {
        if let Remedy::Targets { unmatched, .. } = self.remedy() { unmatched } else { &[] }
    }

    /// Returns the targets of all code objects if no code object matches a selection, or nothing for other errors. A
    /// target is a GPU or, for code without one, an entry ID.
    #[doc(hidden)]
    pub fn present_targets(&self) -> &[String] {
        if let Remedy::Targets { present, .. } = self.remedy() { present } else { &[] }
    }

    /// The error for a selection that matches several code objects in `path` and earlier files. `ids` are their entry
    /// IDs. `sole` is an ID that matches only one of them, if there is such an ID.
    pub(crate) fn several_match(path: &Path, ids: &[String], sole: Option<String>) -> Self {
        let ids = beginning(&counted(ids));
        let reason = format!("several code objects match, but standard output takes only one: {ids}");
        Self::refused(ErrorKind::Ambiguous, path, None, reason).with(Remedy::Sole(sole))
    }

    /// The error for a selection that matches no code object in `inputs`. `unmatched` are the parts of the selection
    /// that the message names, if any. `present` are the targets that the files have code for.
    pub(crate) fn no_match(inputs: &[PathBuf], unmatched: &[String], present: &[String]) -> Self {
        let wanted = if unmatched.is_empty() { String::new() } else { format!(" {}", unmatched.join(" or ")) };
        let (place, have) = match inputs {
            [input] => (format!("'{}'", input.display()), "it has"),
            inputs => (format!("{} files", inputs.len()), "they have"),
        };
        Self::unmatched(&format!("{wanted} in {place}; {have}"), unmatched, present)
    }

    /// The error for a selection that matches no code object, if some files were skipped. `unmatched` are the parts of
    /// the selection that match nowhere. `only_skipped` are the parts that match only in skipped files, as far as these
    /// could be read. `has_match_in_skipped` says whether skipped files have matching code objects. `present` are the
    /// targets that the other files have code for.
    pub(crate) fn no_sound_match(
        unmatched: &[String],
        only_skipped: &[String],
        present: &[String],
        has_match_in_skipped: bool,
    ) -> Self {
        const SKIPPED: &str = " except in skipped files";
        // With no parts to name, the message says only whether skipped files have matches.
        let wanted = match [unmatched, only_skipped].map(|wants| wants.join(" or ")).each_ref().map(String::as_str) {
            ["", ""] if !has_match_in_skipped => String::new(),
            ["", ""] => SKIPPED.to_owned(),
            [unmatched, ""] => format!(" {unmatched}"),
            ["", only_skipped] => format!(" {only_skipped}{SKIPPED}"),
            [unmatched, only_skipped] => format!(" {unmatched}, and none matches {only_skipped}{SKIPPED}"),
        };
        Self::unmatched(&format!("{wanted}; the other files have"), unmatched, present)
    }

    /// The error with the text "no code object matches ...". `wanted_and_have` is the middle of the sentence: the
    /// selection, and the beginning of the part about the code objects that the files have.
    fn unmatched(wanted_and_have: &str, unmatched: &[String], present: &[String]) -> Self {
        let text = format!("no code object matches{wanted_and_have}{}", list_or_none(present));
        let remedy = Remedy::Targets { unmatched: targets(unmatched), present: present.to_vec() };
        Self::new(ErrorKind::NotFound, text).with(remedy)
    }

    /// Adds a sentence about code that a runtime does not find or load, if there is such code, to the error that no
    /// code object matches. Another target would not help then, so the error no longer suggests one.
    pub(crate) fn with_unfound_code(mut self, unfound: Option<String>) -> Self {
        // The errors that no code object matches have a text. Errors with another cause stay as they are.
        if let ErrorCause::Text(text) = &mut self.0.cause
            && let Some(unfound) = unfound
        {
            *text = format!("{text}; {unfound}");
            self.0.remedy = Remedy::None;
        }
        self
    }

    /// Adds a hint.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        self.with(Remedy::Hint(hint))
    }

    fn with(mut self, remedy: Remedy) -> Self {
        self.0.remedy = remedy;
        self
    }

    /// Whether the system failed to read or write, so that the error says nothing about the bytes of an input.
    pub(crate) fn is_of_system(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io | ErrorKind::Temporary)
    }

    /// Whether the library refuses a file that it can read, as [`Self::refused`] does. Errors about bytes or from the
    /// system have other causes; wrong arguments and bugs are not about a file.
    pub(crate) fn is_refusal(&self) -> bool {
        let is_about_file = !matches!(self.0.kind, ErrorKind::Usage | ErrorKind::Internal);
        is_about_file && matches!(self.0.cause, ErrorCause::Text(_))
    }
}

/// Returns the targets among the parts of a selection: messages name a target in quotes, and no other part. The target
/// of a product is in parentheses after it: `'H100' (sm_90)`.
fn targets(wants: &[String]) -> Vec<String> {
    let target = |want: &'_ String| {
        let rest = want.strip_prefix('\'')?;
        let target = match rest.strip_suffix('\'') {
            Some(target) => target,
            None => rest.strip_suffix(')')?.rsplit_once("' (")?.1,
        };
        Some(target.to_owned())
    };
    wants.iter().filter_map(target).collect()
}

/// Returns the end of a sentence such as "the files have": the IDs of their code objects, or that they have none.
fn list_or_none(ids: &[String]) -> String {
    if ids.is_empty() { " none for a device".to_owned() } else { format!(": {}", beginning(ids)) }
}

/// Removes duplicates, in order of first occurrence, and appends the number of occurrences if there are several.
fn counted(texts: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut distinct = Vec::new();
    for text in texts {
        let count = counts.entry(text).or_default();
        if *count == 0 {
            distinct.push(text.as_str());
        }
        *count += 1;
    }
    let mut counted = Vec::with_capacity(distinct.len());
    for text in distinct {
        match counts.get(text) {
            Some(&count) if count > 1 => counted.push(format!("{text} ({count} times)")),
            _ => counted.push(text.to_owned()),
        }
    }
    counted
}

/// The beginning of a list, and the number of omitted elements.
fn beginning(list: &[String]) -> String {
    listed(list, 20, ", ", ", and ")
}

impl Malformed {
    /// The fault of a search that stops at `offset` because of a limit: `units` is a noun in the plural, as in "more
    /// than 5 bundles".
    pub(crate) fn search(units: &str, limit: u64, offset: u64) -> Self {
        Self::other(ErrorKind::Limit, offset, format!("more than {limit} {units}; stopped at offset {offset}"))
    }

    /// Adds `base`, the offset of a part in its file, to the offsets of a fault that was found in this part. Only
    /// faults of a field that is wrong or cut are changed. Other faults, with offsets of whole containers, stay as they
    /// are.
    pub(crate) fn shifted_by(self, base: u64) -> Self {
        match self {
            Self::Fault { what, offset, problem } => Self::Fault { what, offset: offset.saturating_add(base), problem },
            Self::Truncated { what, offset, needed, end } => {
                Self::Truncated { what, offset: offset.saturating_add(base), needed, end: end.saturating_add(base) }
            }
            other => other,
        }
    }
}

/// Fails with the fault that the sentence `what` describes, at an offset.
pub(crate) fn fail_at<T>(what: impl Into<String>, offset: u64) -> Result<T, Malformed> {
    Err(Malformed::at(what, offset))
}
