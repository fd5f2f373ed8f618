//! Which code objects are meant: patterns over bundle entry IDs and target IDs.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::found::CodeObject;
use crate::id::target_id::TargetId;
use crate::id::{Compatibility, EntryId, OffloadKind, Rules};

/// A choice of code objects.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Selection {
    /// What they are for: a code object matches if it matches any of these, or if there are none.
    pub targets: Vec<Pattern>,
    /// Their offload kind: any of these, or any at all if there are none.
    pub kinds: Vec<OffloadKind>,
    /// How targets are compared.
    pub comparison: Comparison,
}

/// How the target of a code object is compared with a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// A code object matches if it can run where the pattern asks for one; a pattern without features takes every code
    /// object of its processor.
    #[default]
    Compatible,
    /// Both are the same.
    Exact,
}

/// A pattern for targets.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Entry(Box<EntryId>),
    Target,
    Glob(glob::Pattern),
}

/// A text that is not a valid pattern, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a valid pattern: {reason}")]
pub struct PatternError {
    text: String,
    reason: String,
}

impl PatternError {
    /// Why it is none.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl Pattern {
    /// A pattern: a bundle entry ID, a target ID, or either with the wildcards `*`, `?` and `[...]`.
    ///
    /// # Errors
    /// [`PatternError`] for an empty text, wildcards that do not parse, and target features without a sign.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let error = |reason: String| PatternError { text: text.to_owned(), reason };
        let form = if text.is_empty() {
            return Err(error("it is empty".to_owned()));
        } else if text.contains(['*', '?', '[']) {
            Form::Glob(glob::Pattern::new(text).map_err(|glob| error(glob.msg.to_owned()))?)
        } else if let Ok(id) = EntryId::parse_any(text) {
            Form::Entry(Box::new(id))
        } else {
            let arch = crate::id::triple::Arch::AmdGcn;
            TargetId::parse(text, arch).map_err(|reason| error(reason.to_string()))?;
            Form::Target
        };
        Ok(Self { text: text.to_owned(), form })
    }

    /// The pattern as it was typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn matches(&self, code_object: &CodeObject<'_>, comparison: Comparison) -> bool {
        let id = code_object.entry_id();
        match &self.form {
            Form::Glob(glob) => {
                let target_id = id.as_ref().map(|id| id.target_id().to_string());
                let written = id.as_ref().map(EntryId::to_string);
                let names = [Some(code_object.shown_id()), target_id, written];
                names.into_iter().flatten().any(|name| glob.matches(&name))
            }
            Form::Entry(pattern) => id.is_some_and(|id| match id.compatibility(pattern, Rules::default()) {
                Compatibility::Exact => true,
                Compatibility::Compatible => comparison == Comparison::Compatible,
                Compatibility::KindOrTriple | Compatibility::Processor => false,
                _ => comparison == Comparison::Compatible && pattern.target_id().features().next().is_none(),
            }),
            Form::Target => id.is_some_and(|id| {
                let Ok(pattern) = TargetId::parse(&self.text, id.triple().arch()) else { return false };
                let (own, any) = (id.target_id(), pattern.features().next().is_none());
                match comparison {
                    Comparison::Exact => *own == pattern,
                    Comparison::Compatible if any => own.processor() == pattern.processor(),
                    Comparison::Compatible => own.compatibility(&pattern).is_compatible(),
                }
            }),
        }
    }
}

impl Selection {
    /// Whether a code object is meant. Where neither targets nor kinds are named, all are but those of hosts.
    pub fn takes(&self, code_object: &CodeObject<'_>) -> bool {
        if self.targets.is_empty() && self.kinds.is_empty() {
            return code_object.entry_id().is_none_or(|id| id.kind() != OffloadKind::Host);
        }
        (self.kinds.is_empty() || self.kinds.iter().any(|&kind| Self::kind_takes(kind, code_object)))
            && (self.targets.is_empty() || self.targets.iter().any(|pattern| self.target_takes(pattern, code_object)))
    }

    /// Whether a code object is for one of the targets, whatever its kind.
    pub(crate) fn target_takes(&self, pattern: &Pattern, code_object: &CodeObject<'_>) -> bool {
        pattern.matches(code_object, self.comparison)
    }

    /// Whether a code object is of a kind.
    pub(crate) fn kind_takes(kind: OffloadKind, code_object: &CodeObject<'_>) -> bool {
        code_object.entry_id().is_some_and(|id| id.kind().is_compatible_with(kind, Rules::default()))
    }
}
