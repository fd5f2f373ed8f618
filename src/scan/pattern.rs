//! Selects code objects by patterns over bundle entry IDs and target IDs.

use super::code_object::{CodeObjectRef, KnownId};
use crate::id::target_id::TargetId;
use crate::id::{Compatibility, EntryId, OffloadKind, Rules};

/// A selection of code objects.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Selection {
    /// The targets: a code object matches if any pattern matches it, or if the list is empty.
    pub targets: Vec<Pattern>,
    /// The offload kinds: a code object matches if it has one of them, or if the list is empty.
    pub kinds: Vec<OffloadKind>,
    /// How targets are compared.
    pub comparison: Comparison,
}

/// How the target of a code object is compared with a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// A code object matches if it can run on the pattern's target. A pattern without features matches every code
    /// object of its processor.
    #[default]
    Compatible,
    /// The target and the pattern are the same.
    Exact,
}

/// A pattern for targets.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    form: PatternForm,
}

#[derive(Clone, Debug)]
enum PatternForm {
    Entry(Box<EntryId>),
    Target,
    Glob(glob::Pattern),
}

/// The error for a text that is not a valid pattern, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a valid pattern: {reason}")]
pub struct PatternError {
    text: String,
    reason: String,
}

impl PatternError {
    /// The reason why the text is not a pattern.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl Pattern {
    /// Parses a bundle entry ID, a target ID, or either with the wildcards `*`, `?` and `[...]`.
    ///
    /// # Errors
    /// [`PatternError`] for an empty text, wildcards that do not parse, and target features without a sign.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let error = |reason: String| PatternError { text: text.to_owned(), reason };
        let form = if text.is_empty() {
            return Err(error("it is empty".to_owned()));
        } else if text.contains(['*', '?', '[']) {
            PatternForm::Glob(glob::Pattern::new(text).map_err(|glob| error(glob.msg.to_owned()))?)
        } else if let Ok(id) = EntryId::parse_any(text) {
            PatternForm::Entry(Box::new(id))
        } else {
            text.parse::<TargetId>().map_err(|reason| error(reason.to_string()))?;
            PatternForm::Target
        };
        Ok(Self { text: text.to_owned(), form })
    }

    /// The pattern as it was typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn matches(&self, KnownId { shown, parsed }: &KnownId, comparison: Comparison) -> bool {
        if *shown == self.text {
            return true;
        }
        let id = parsed.as_ref();
        // The target of an ID of another vendor's compiler, of an unknown kind or triple.
        let foreign = shown.rsplit_once("--").map(|(_, target)| target).filter(|_| id.is_none());
        match &self.form {
            PatternForm::Glob(glob) => {
                let written = |id: &EntryId| glob.matches(&id.target().to_string()) || glob.matches(&id.to_string());
                glob.matches(shown) || id.is_some_and(written) || foreign.is_some_and(|target| glob.matches(target))
            }
            PatternForm::Entry(pattern) => id.is_some_and(|id| match id.compatibility(pattern, Rules::default()) {
                Compatibility::Exact => comparison == Comparison::Compatible || *id == **pattern,
                Compatibility::Compatible => comparison == Comparison::Compatible,
                Compatibility::KindOrTriple | Compatibility::Processor => false,
                _ => comparison == Comparison::Compatible && pattern.target_id().features().next().is_none(),
            }),
            PatternForm::Target if foreign == Some(&self.text) => true,
            PatternForm::Target => id.is_some_and(|id| {
                let Ok(pattern) = TargetId::parse(&self.text, id.triple().arch()) else { return false };
                let (own, any) = (id.target(), pattern.features().next().is_none());
                match comparison {
                    Comparison::Exact => *own == pattern,
                    Comparison::Compatible if any => {
                        own.processor() == pattern.processor() || id.processor_of_bitcode() == Some(pattern.processor())
                    }
                    Comparison::Compatible => own.compatibility(&pattern).is_compatible(),
                }
            }),
        }
    }
}

impl Selection {
    /// Whether it names offload kinds or whole entry IDs, and not only target IDs.
    pub(crate) fn names_entries(&self) -> bool {
        !self.kinds.is_empty() || self.targets.iter().any(|pattern| matches!(pattern.form, PatternForm::Entry(_)))
    }

    /// Returns whether a code object is selected. Without targets and kinds, all but host code objects are.
    pub fn takes(&self, code_object: &CodeObjectRef<'_>) -> bool {
        self.takes_id(&code_object.known_id())
    }

    /// Returns whether a code object with this ID is selected.
    pub(crate) fn takes_id(&self, id: &KnownId) -> bool {
        if self.targets.is_empty() && self.kinds.is_empty() {
            return !id.is_host();
        }
        (self.kinds.is_empty() || self.kinds.iter().any(|&kind| Self::kind_takes(kind, id)))
            && (self.targets.is_empty() || self.targets.iter().any(|pattern| self.target_takes(pattern, id)))
    }

    /// Returns whether a code object with this ID matches a target pattern, whatever its kind.
    pub(crate) fn target_takes(&self, pattern: &Pattern, id: &KnownId) -> bool {
        pattern.matches(id, self.comparison)
    }

    /// Returns whether a code object with this ID has an offload kind.
    pub(crate) fn kind_takes(kind: OffloadKind, id: &KnownId) -> bool {
        id.parsed.as_ref().is_some_and(|id| id.kind().is_compatible_with(kind, Rules::default()))
    }
}
