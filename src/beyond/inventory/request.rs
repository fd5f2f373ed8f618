//! Requests for code objects: by patterns over bundle entry IDs and target IDs, and by offload kinds, GPUs and kernels.
//!
//! A [`Selection`] is what a user asks for, and a [`Request`] its form that is fast for many code objects. Both decide
//! by headers, and do not change. The parts of a request that match nothing depend on the code objects that were seen:
//! see [`pick`](super::pick::pick).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::kernel_names::KernelNames;
use crate::base::id::target_id::TargetId;
use crate::base::id::{Compatibility, EntryId, OffloadKind, Rules, processors};
use crate::beyond::globs::{Globs, WILDCARDS};
use crate::beyond::ids::is_any_ptx;
use crate::beyond::runtime::Device;
use crate::beyond::scan::{CodeObjectRef, ParsedId};

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

/// The selection of all code objects but those of hosts.
pub(crate) static ALL: Selection =
    Selection { targets: Vec::new(), kinds: Vec::new(), comparison: Comparison::Compatible };

/// The prefix of the names of NVIDIA's virtual architectures. An ID with such a name is for PTX.
const COMPUTE: &str = "compute_";

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
    /// The pattern itself.
    text: String,
    /// The name of a product or another name that was typed for the target.
    typed: Option<String>,
    form: PatternForm,
}

/// The form of a pattern.
#[derive(Clone, Debug)]
enum PatternForm {
    Entry(Box<EntryId>),
    Target,
    /// PTX of any version.
    Ptx,
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
    /// Parses a bundle entry ID, a target ID, or either with the wildcards `*`, `?` and `[...]`. `ptx` matches PTX of
    /// any version.
    ///
    /// # Errors
    /// [`PatternError`] for an empty text, wildcards that do not parse, and target features without a sign.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        match PatternForm::parse(text) {
            Ok(form) => Ok(Self { text: text.to_owned(), typed: None, form }),
            Err(reason) => Err(PatternError { text: text.to_owned(), reason }),
        }
    }

    /// Returns the name that was typed for the target, if it differs from the text of the pattern.
    #[cfg(feature = "cli")]
    pub(crate) fn typed(&self) -> Option<&str> {
        self.typed.as_deref()
    }

    /// Returns the pattern with the name that was typed for it, such as that of a product, which messages show.
    #[cfg(feature = "cli")]
    pub(crate) fn typed_as(self, name: &str) -> Self {
        Self { typed: Some(name.to_owned()), ..self }
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches an ID.
    fn matches(&self, parsed_id: &ParsedId, comparison: Comparison) -> bool {
        let ParsedId { shown, parsed } = parsed_id;
        // An ID with the text of the pattern always matches, even if it cannot be parsed.
        if *shown == self.text {
            return true;
        }
        let Some(id) = parsed else { return self.matches_foreign(parsed_id) };
        match &self.form {
            PatternForm::Glob(glob) => {
                glob.matches(shown) || glob.matches(&id.target().to_string()) || glob.matches(&id.to_string())
            }
            PatternForm::Entry(pattern) => matches_entry_id(pattern, id, comparison),
            PatternForm::Ptx => id.target_id().processor().starts_with(COMPUTE),
            PatternForm::Target => matches_target_id(&self.text, id, comparison),
        }
    }

    /// Returns whether the pattern matches an ID that cannot be parsed, perhaps of another vendor's compiler.
    fn matches_foreign(&self, id: &ParsedId) -> bool {
        let target = id.foreign_target();
        match &self.form {
            PatternForm::Glob(glob) if glob.matches(&id.shown) => true,
            PatternForm::Glob(glob) => {
                let Some(target) = target else { return false };
                glob.matches(target)
            }
            PatternForm::Target => target == Some(&self.text),
            PatternForm::Entry(_) | PatternForm::Ptx => false,
        }
    }
}

impl PatternForm {
    /// Returns the form of a pattern, or the reason why it is not valid.
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.contains(WILDCARDS) {
            return match glob::Pattern::new(text) {
                Ok(pattern) => Ok(Self::Glob(pattern)),
                Err(error) => Err(error.msg.to_owned()),
            };
        }
        // Almost any word is a valid target ID, so the other forms are tried first.
        if is_any_ptx(text) {
            return Ok(Self::Ptx);
        }
        if let Ok(id) = EntryId::parse_any(text) {
            return Ok(Self::Entry(Box::new(id)));
        }
        match text.parse::<TargetId>() {
            Ok(_) => Ok(Self::Target),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns whether an entry ID matches a pattern that is an entry ID itself.
fn matches_entry_id(pattern: &EntryId, id: &EntryId, comparison: Comparison) -> bool {
    match id.compatibility(pattern, Rules::default()) {
        // Different spellings of one ID mean the same code, but an exact comparison distinguishes them.
        Compatibility::Exact => comparison == Comparison::Compatible || id == pattern,
        Compatibility::Compatible => comparison == Comparison::Compatible,
        Compatibility::KindOrTriple | Compatibility::Processor => false,
        // Only the features differ. A pattern without features matches all of them.
        _ => comparison == Comparison::Compatible && pattern.target_id().features().next().is_none(),
    }
}

/// Returns whether an entry ID matches a pattern that is a target ID.
fn matches_target_id(pattern: &str, id: &EntryId, comparison: Comparison) -> bool {
    // An alternative name of a processor counts only with an architecture of AMD GPUs.
    let Ok(pattern) = TargetId::parse(pattern, id.triple().arch()) else { return false };
    let target = id.target();
    if comparison == Comparison::Exact {
        return *target == pattern;
    }
    if pattern.features().next().is_some() {
        return target.compatibility(&pattern).is_compatible();
    }
    // A pattern without features matches all code of its processor, also bitcode, whose target has another name.
    target.processor() == pattern.processor() || id.processor_of_bitcode() == Some(pattern.processor())
}

impl Selection {
    /// Returns whether a code object is selected. Without targets and kinds, all but host code objects are.
    pub fn takes(&self, code_object: &CodeObjectRef<'_>) -> bool {
        let id = code_object.parsed_id();
        self.takes_kind(&id)
            && (self.targets.is_empty() || self.targets.iter().any(|pattern| self.target_takes(pattern, &id)))
    }

    /// Returns whether the kinds permit a code object with this ID. Without kinds, the targets decide, and without
    /// targets too, all but host code is permitted.
    fn takes_kind(&self, id: &ParsedId) -> bool {
        if self.kinds.is_empty() {
            return !self.targets.is_empty() || !id.is_host();
        }
        self.kinds.iter().any(|&kind| Self::kind_takes(kind, id))
    }

    /// Returns whether the target in this ID matches a pattern. The offload kind of the ID does not count.
    pub(crate) fn target_takes(&self, pattern: &Pattern, id: &ParsedId) -> bool {
        pattern.matches(id, self.comparison)
    }

    /// Returns whether a selected offload kind permits a code object with this ID: `hip` also permits `hipv4`, for
    /// example. An ID that cannot be parsed has no kind.
    pub(crate) fn kind_takes(kind: OffloadKind, id: &ParsedId) -> bool {
        match &id.parsed {
            Some(id) => id.kind().is_compatible_with(kind, Rules::default()),
            None => false,
        }
    }
}

/// A part of a request. Parts have positions: target patterns come first, then kinds, then GPUs. Names of kernels are
/// not parts, because messages list them separately.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'s> {
    Target(&'s Pattern),
    Kind(OffloadKind),
    Gpu(&'s Device),
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(Pattern { text, typed: Some(typed), .. }) => write!(f, "'{typed}' ({text})"),
            Self::Target(pattern) => write!(f, "'{}'", pattern.as_str()),
            Self::Kind(kind) => write!(f, "the kind '{}'", kind.name()),
            Self::Gpu(device) => f.write_str(&device.quoted()),
        }
    }
}

/// What the header of a code object does not tell: which GPUs of a request load it, and which kernels of the request it
/// defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The indices of the GPUs whose runtimes load it.
    pub(crate) gpus: BTreeSet<usize>,
    /// The indices of the names of kernels that it defines.
    pub(crate) kernels: BTreeSet<usize>,
}

impl Facts {
    /// Adds the facts about another code object with the same ID.
    pub(super) fn add(&mut self, more: Self) {
        self.gpus.extend(more.gpus);
        self.kernels.extend(more.kernels);
    }
}

/// A request, prepared for many code objects: each is compared only with the patterns that may match it. The position
/// of a pattern is its index in the targets of the selection.
#[derive(Clone, Debug)]
pub(crate) struct Request<'s> {
    selection: &'s Selection,
    /// The GPUs whose runtimes choose among the selected code objects. Without GPUs, the selection alone decides.
    gpus: &'s [Device],
    /// A code object has to define one of these kernels. `None` if no kernels are asked for.
    pub(super) kernels: Option<&'s KernelNames>,
    /// Whether the selection has offload kinds or patterns that are whole entry IDs.
    names_entries: bool,
    /// For each target pattern, the position of the first one with the same text.
    first_same: Vec<usize>,
    /// The first position of each text of a target pattern.
    by_text: HashMap<&'s str, usize>,
    /// The positions of patterns without wildcards, by the processors that they may name.
    by_processor: HashMap<&'s str, Vec<usize>>,
    /// The position of the pattern for PTX of any version.
    ptx: Option<usize>,
    /// The patterns with wildcards, with their positions.
    globs: Globs,
}

impl<'s> Request<'s> {
    /// Prepares a request for the code objects of a selection. Of several patterns with one text, only the first is
    /// compared with code objects.
    pub(crate) fn new(selection: &'s Selection) -> Self {
        let has_entry = selection.targets.iter().any(|pattern| matches!(pattern.form, PatternForm::Entry(_)));
        let mut request = Self {
            selection,
            gpus: &[],
            kernels: None,
            names_entries: has_entry || !selection.kinds.is_empty(),
            first_same: Vec::new(),
            by_text: HashMap::new(),
            by_processor: HashMap::new(),
            ptx: None,
            globs: Globs::default(),
        };
        for (position, pattern) in selection.targets.iter().enumerate() {
            let first = *request.by_text.entry(pattern.text.as_str()).or_insert(position);
            request.first_same.push(first);
            if first == position {
                request.add(position, pattern);
            }
        }
        request
    }

    /// Limits the request to code objects that the runtimes of these GPUs load, unless the list is empty, and that
    /// define one of these kernels, if any are given.
    pub(crate) fn with(self, gpus: &'s [Device], kernels: Option<&'s KernelNames>) -> Self {
        Self { gpus, kernels, ..self }
    }

    /// Adds a pattern to the tables of patterns that may match an ID, for [`targets_of`](Self::targets_of).
    fn add(&mut self, position: usize, pattern: &'s Pattern) {
        let processor = match &pattern.form {
            PatternForm::Glob(glob) => return self.globs.add(position, glob.clone()),
            PatternForm::Ptx => return self.ptx = Some(position),
            PatternForm::Entry(id) => id.target_id().processor(),
            PatternForm::Target => pattern.text.split(':').next().unwrap_or_default(),
        };
        self.by_processor.entry(processor).or_default().push(position);
        // IDs are compared by the main name of their processor, but a pattern may have an alternative name.
        if let Some(known) = processors::find(processor)
            && known.name != processor
        {
            self.by_processor.entry(known.name).or_default().push(position);
        }
    }

    /// Returns whether the request has no parts: apart from its kernels, it asks for all code objects but those of
    /// hosts.
    pub(crate) fn takes_all(&self) -> bool {
        self.selection.targets.is_empty() && self.selection.kinds.is_empty() && self.gpus.is_empty()
    }

    /// Returns whether the selection takes a code object with this ID.
    pub(crate) fn takes(&self, id: &ParsedId) -> bool {
        self.takes_by(id, &self.targets_of(id))
    }

    /// Returns whether the selection takes a code object with this ID. `matching` has the positions of the target
    /// patterns that match it, from [`targets_of`](Self::targets_of).
    fn takes_by(&self, id: &ParsedId, matching: &[usize]) -> bool {
        self.selection.takes_kind(id) && (self.selection.targets.is_empty() || !matching.is_empty())
    }

    /// Returns the positions of the parts that match a code object. Of several patterns with one text, only the first
    /// is returned. Returns `None` if the selection does not take the code object, or if GPUs are asked for, and the
    /// runtime of none of them loads it.
    pub(crate) fn parts_of(&self, id: &ParsedId, facts: &Facts) -> Option<Vec<usize>> {
        let mut parts = self.targets_of(id);
        if !self.takes_by(id, &parts) || (facts.gpus.is_empty() && !self.gpus.is_empty()) {
            return None;
        }
        let Selection { targets, kinds, .. } = self.selection;
        for (index, kind) in kinds.iter().enumerate() {
            if Selection::kind_takes(*kind, id) {
                parts.push(targets.len() + index);
            }
        }
        parts.extend(facts.gpus.iter().map(|index| self.first_gpu() + index));
        Some(parts)
    }

    /// Returns all parts, in the order of their positions.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'s>> + use<'s> {
        let Selection { targets, kinds, .. } = self.selection;
        let kinds = kinds.iter().map(|kind| Part::Kind(*kind));
        targets.iter().map(Part::Target).chain(kinds).chain(self.gpus.iter().map(Part::Gpu))
    }

    /// Returns the position of the first GPU among the parts.
    pub(super) fn first_gpu(&self) -> usize {
        self.selection.targets.len() + self.selection.kinds.len()
    }

    /// Returns the position of the first target pattern with the same text as the pattern at a position. Returns the
    /// position of another part unchanged.
    pub(crate) fn first_same_part(&self, position: usize) -> usize {
        self.first_same.get(position).copied().unwrap_or(position)
    }

    /// Returns whether the selection names offload kinds or whole entry IDs, and not only target IDs.
    pub(crate) fn names_entries(&self) -> bool {
        self.names_entries
    }

    /// Returns the positions of the target patterns that match an ID. If several patterns have the same text, only the
    /// first is returned.
    fn targets_of(&self, id: &ParsedId) -> Vec<usize> {
        if self.selection.targets.is_empty() {
            return Vec::new();
        }
        // First all patterns that may match are collected: those with a text or a processor of the ID, and globs that
        // match one of its texts.
        let named = [Some(id.shown.as_str()), id.foreign_target()];
        let (mut positions, mut texts) = (Vec::new(), Vec::<Cow<'_, str>>::new());
        for text in named.into_iter().flatten() {
            positions.extend(self.by_text.get(text));
            texts.push(text.into());
        }
        if let Some(id) = &id.parsed {
            // Patterns that are entry IDs are compared with the recorded target ID. Patterns that are target IDs are
            // compared with the GPU: if no target ID is recorded, the triple may name the GPU.
            let target = id.target();
            let processors = [Some(id.target_id().processor()), Some(target.processor()), id.processor_of_bitcode()];
            for processor in processors.into_iter().flatten() {
                positions.extend(self.by_processor.get(processor).into_iter().flatten());
            }
            // The pattern for PTX of any version names no processor, so it is collected for every ID.
            positions.extend(self.ptx);
            texts.extend([target.to_string().into(), id.to_string().into()]);
        }
        texts.sort_unstable();
        texts.dedup();
        for text in &texts {
            positions.extend(self.globs.matching(text));
        }
        positions.sort_unstable();
        positions.dedup();
        // Then each collected pattern is compared with the ID.
        positions.retain(|&position| match self.selection.targets.get(position) {
            Some(pattern) => pattern.matches(id, self.selection.comparison),
            None => false,
        });
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::scan::Format;

    #[test]
    fn a_request_matches_what_its_patterns_match_one_by_one() {
        let mut ids = Vec::new();
        for kind in ["hip", "hipv4", "openmp", "sycl", "host", "hcc", "cuda", "unknown"] {
            for triple in
                ["amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-unknown", "nvptx64-nvidia-cuda-", "x86_64-unknown-linux-gnu"]
            {
                for target in [
                    "",
                    "gfx90a",
                    "gfx90a:xnack+",
                    "gfx803",
                    "fiji",
                    "gfx942:sramecc-:xnack+",
                    "sm_90a",
                    "compute_90",
                    "gfx906-bc",
                ] {
                    ids.push(format!("{kind}-{triple}-{target}"));
                }
            }
        }
        ids.extend(
            [
                "gfx90a",
                "hip-spirv64-amd-amdhsa--amdgcnspirv",
                "hip-amdgpu9.0a-amd-amdhsa--",
                "openmp-amdgpu9.4-amd-amdhsa--",
                "hip-amdgpu9.42-amd-amdhsa--gfx942",
                "",
                "fiji",
                "\u{e9}*",
                "a--b:c",
            ]
            .map(str::to_owned),
        );
        let mut patterns = ids.clone();
        patterns.extend(
            [
                "*",
                "gfx9*",
                "*:xnack+",
                "hip*gfx803",
                "*--b:c",
                "?",
                "[g]fx90a",
                "gfx90a",
                "gfx90a",
                "gfx9-4-generic",
                "gfx9-4*",
                "ptx",
            ]
            .map(str::to_owned),
        );
        for comparison in [Comparison::Compatible, Comparison::Exact] {
            let targets: Vec<Pattern> = patterns.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
            let selection = Selection { targets, comparison, ..Selection::default() };
            let request = Request::new(&selection);
            for id in &ids {
                for format in [Format::Bundle, Format::CodeObject] {
                    let id = ParsedId::parse(id.as_bytes(), format);
                    let one_by_one = selection.targets.iter().enumerate().filter(|(position, pattern)| {
                        request.first_same_part(*position) == *position && selection.target_takes(pattern, &id)
                    });
                    let one_by_one: Vec<usize> = one_by_one.map(|(position, _)| position).collect();
                    assert_eq!(request.targets_of(&id), one_by_one, "{id:?}");
                }
            }
        }
    }
}
