//! Checking device code wherever it lies in a file.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::container::Limits;
use crate::container::sequence::Inflate;
use crate::error::{Error, Result, printable};
use crate::id::EntryId;
use crate::input::Input;
use crate::scan::{CodeObject, Finding, Format, Found, Place, Scan};

/// Checks all device code in a file.
///
/// Every header and range is read, every compressed bundle inflated and compared with its sizes and its hash. Then come the
/// rules of the Clang Offload Bundler documentation for the entries of a bundle, and what a code object says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verify {
    /// How much compressed containers may inflate to.
    pub limits: Limits,
}

/// What a file holds, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// How many bundles were checked.
    pub bundles: usize,
    /// How many code objects they hold.
    pub code_objects: usize,
    /// What is wrong, in file order.
    pub faults: Vec<Fault>,
}

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// Which bundle of the place, counted from 0; none if it is about the place.
    pub bundle: Option<usize>,
    /// The offset, counted from the origin of the place.
    pub offset: Option<u64>,
    /// Which rule is broken.
    pub rule: Rule,
    /// What is wrong.
    pub text: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// Headers, ranges, sizes and hashes are what they claim to be.
    Readable,
    /// Nothing but padding stands between bundles and behind them.
    Trailing,
    /// Every entry ID is one.
    EntryId,
    /// A processor has the features that its target ID sets.
    Feature,
    /// No two entries of a bundle have the same ID.
    Duplicate,
    /// A feature is set in all entries of a processor, or in none.
    Conflict,
    /// Code objects do not overlap.
    Overlap,
    /// A code object is for the target that its entry ID names.
    Target,
}

impl Rule {
    /// The name of the rule.
    pub fn name(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::Trailing => "trailing",
            Self::EntryId => "entry-id",
            Self::Feature => "feature",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Overlap => "overlap",
            Self::Target => "target",
        }
    }
}

/// The place, the bundle, and what is wrong.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(bundle) = self.bundle {
            write!(f, ": bundle {bundle}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {} [{}]", self.text, self.rule.name())
    }
}

/// How much of an entry ID stands in a fault, in characters.
const SHOWN_MAX: usize = 200;

/// How much of a fault is told: reasons quote IDs too.
const TEXT_MAX: usize = 800;

impl Verify {
    /// Checks a file.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read. What is wrong with what it holds is a [`Fault`].
    pub fn run(&self, path: &Path) -> Result<Verified> {
        self.check(&Input::open_finite(path, self.limits.streamed)?)
    }

    /// Checks a file that is open.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn check(&self, input: &Input) -> Result<Verified> {
        let mut verified = Verified::default();
        let scanned = Scan { inflate: Inflate::Whole, limits: self.limits }.run(input, &mut |finding| {
            match finding {
                Finding::Bundle(found) => verified.bundle(&found),
                Finding::Broken { error: error @ Error::Io { .. }, .. } => return Err(error),
                Finding::Broken { place, error } => {
                    verified.fault(place, None, None, Rule::Readable, inner_text(&error));
                }
                Finding::Trailing { place, offset } => {
                    let text = "what stands here is no bundle".to_owned();
                    verified.fault(place, None, Some(offset), Rule::Trailing, text);
                }
            }
            Ok(())
        });
        input.vouch_for(scanned)?;
        Ok(verified)
    }
}

impl Verified {
    fn fault(&mut self, place: &Place, bundle: Option<usize>, offset: Option<u64>, rule: Rule, text: String) {
        // Entry IDs, which it quotes, may hold anything.
        self.faults.push(Fault { place: place.clone(), bundle, offset, rule, text: printable(&cut(text, TEXT_MAX)) });
    }

    fn bundle(&mut self, found: &Found<'_>) {
        self.bundles = self.bundles.saturating_add(1);
        let code_objects: Vec<CodeObject<'_>> = found.code_objects().collect();
        self.code_objects = self.code_objects.saturating_add(code_objects.len());
        let mut faults = Vec::new();
        if found.format != Format::CodeObject {
            let ids: Vec<(&CodeObject<'_>, EntryId)> =
                code_objects.iter().filter_map(|code_object| Some((code_object, code_object.entry_id()?))).collect();
            faults.extend(code_objects.iter().filter_map(check_id));
            faults.extend(ids.iter().filter_map(|(code_object, id)| check_features(code_object, id)));
            faults.extend(duplicates(&code_objects));
            faults.extend(conflicts(&ids));
            faults.extend(ids.iter().filter_map(|(code_object, id)| check_target(code_object, id)));
        }
        faults.extend(code_objects.iter().filter_map(check_readable));
        faults.extend(overlaps(&code_objects));
        for (rule, text) in faults {
            self.fault(found.place, Some(found.index), Some(found.bundle.offset), rule, text);
        }
    }
}

/// What an error says, without the file that the place names already.
fn inner_text(error: &Error) -> String {
    match error {
        Error::Malformed { source, .. } => source.to_string(),
        error => error.to_string(),
    }
}

/// An entry ID, which may be megabytes long, as a fault may have it.
fn shown(code_object: &CodeObject<'_>) -> String {
    cut(code_object.shown_id().into_owned(), SHOWN_MAX)
}

/// A text of so many characters at most.
fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn check_readable(code_object: &CodeObject<'_>) -> Option<(Rule, String)> {
    let reason = code_object.unreadable()?;
    Some((Rule::Readable, format!("'{}' cannot be taken: {reason}", shown(code_object))))
}

fn check_id(code_object: &CodeObject<'_>) -> Option<(Rule, String)> {
    let text = crate::bytes::text(code_object.id());
    let reason = match text.map(|text| EntryId::parse_any(&text)) {
        Some(Ok(_)) => return None,
        Some(Err(error)) => error.to_string(),
        None => "it is no UTF-8".to_owned(),
    };
    Some((Rule::EntryId, format!("'{}' is no bundle entry ID: {reason}", shown(code_object))))
}

fn check_features(code_object: &CodeObject<'_>, id: &EntryId) -> Option<(Rule, String)> {
    let error = id.target_id().check_features().err()?;
    Some((Rule::Feature, format!("'{}': {error}", shown(code_object))))
}

fn duplicates(code_objects: &[CodeObject<'_>]) -> Vec<(Rule, String)> {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    let mut faults = Vec::new();
    for code_object in code_objects {
        let count = counts.entry(code_object.id()).or_default();
        *count = count.saturating_add(1);
        if *count == 2 {
            let text = format!("several entries have the ID '{}'; runtimes take one of them", shown(code_object));
            faults.push((Rule::Duplicate, text));
        }
    }
    faults
}

/// Held against the first entry of a processor, so that many entries take no longer than their number.
fn conflicts(ids: &[(&CodeObject<'_>, EntryId)]) -> Vec<(Rule, String)> {
    let mut firsts: HashMap<String, (&CodeObject<'_>, &EntryId)> = HashMap::new();
    let mut faults = Vec::new();
    for (code_object, id) in ids {
        let written = id.to_string();
        let without_features = written.split(':').next().unwrap_or_default().to_owned();
        let (first, first_id) = *firsts.entry(without_features).or_insert((code_object, id));
        if id.target_id().conflicts_with(first_id.target_id()) {
            let (one, other) = (shown(first), shown(code_object));
            let text = format!("'{one}' and '{other}' conflict: a feature is set in one of them only");
            faults.push((Rule::Conflict, text));
        }
    }
    faults
}

fn overlaps(code_objects: &[CodeObject<'_>]) -> Vec<(Rule, String)> {
    let ranges = code_objects.iter().filter_map(|code_object| Some((code_object.range()?, code_object)));
    let mut ranges: Vec<(Range<u64>, &CodeObject<'_>)> = ranges.filter(|(range, _)| !range.is_empty()).collect();
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    let mut faults = Vec::new();
    // The one that reaches furthest so far.
    let mut furthest: Option<(Range<u64>, &CodeObject<'_>)> = None;
    for (range, code_object) in ranges {
        if let Some((before, other)) = furthest.as_ref().filter(|(before, _)| before.end > range.start) {
            let (a, b) = (shown(other), shown(code_object));
            faults.push((Rule::Overlap, format!("'{a}' and '{b}' overlap: {before:?} and {range:?}")));
        }
        if furthest.as_ref().is_none_or(|(before, _)| before.end < range.end) {
            furthest = Some((range, code_object));
        }
    }
    faults
}

/// What a code object says that it is for has to serve where its entry ID is looked for.
fn check_target(code_object: &CodeObject<'_>, id: &EntryId) -> Option<(Rule, String)> {
    if id.target_id().is_empty() {
        return None;
    }
    let recorded = code_object.recorded_target()?;
    let parsed = crate::id::target_id::TargetId::parse(&recorded, id.triple().arch()).ok()?;
    let differs = |(name, on): (&str, bool)| parsed.features().any(|(other, other_on)| name == other && on != other_on);
    if parsed.processor() == id.target_id().processor() && !id.target_id().features().any(differs) {
        return None;
    }
    Some((Rule::Target, format!("'{}' holds an ELF file for '{recorded}'", shown(code_object))))
}
