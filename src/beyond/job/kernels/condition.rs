//! The conditions of `--fail-on`, and the kernels that meet them.

use std::fmt;

use super::super::condition::{Failure, Judged, nearest_name, word_and_rest};
use super::column::{KernelColumn, NUMBERS, SCRATCH, spills};
use super::row::NamedKernel;
use crate::base::display::alternatives;
use crate::beyond::base::text::count;
use crate::beyond::code::kernels::Kernel;

/// A condition on kernels.
#[derive(Clone, Copy, Debug)]
pub enum KernelCondition {
    /// A kernel spills registers.
    Spill,
    /// A kernel needs calls of the host.
    Hostcall,
    /// A number of a kernel is larger than this.
    Above(KernelColumn, u64),
}

impl KernelCondition {
    /// Reads a condition as the user types it: `spill`, `scratch`, `hostcall`, or a limit such as `vgpr>128` or
    /// `code > 5kB`.
    ///
    /// # Errors
    /// The reason why the text is no condition.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "spill" => return Ok(Self::Spill),
            "scratch" => return Ok(Self::Above(SCRATCH, 0)),
            "hostcall" => return Ok(Self::Hostcall),
            _ => {}
        }
        let (name, limit) = match text.split_once('>') {
            Some((name, limit)) => (name.trim_end(), Some(limit.trim_start())),
            None => (text, None),
        };
        let column = NUMBERS.into_iter().find(|column| column.name() == name);
        let column = column.ok_or_else(|| not_a_condition(text))?;
        // A shell uses the word after `>` as the name of a file, unless it is quoted.
        let limit = limit.ok_or_else(|| format!("above what? expected '{name}>128', in quotes"))?;
        let number = if column.is_size { size_in_bytes(limit) } else { limit.parse().ok() };
        let number = number.ok_or_else(|| match column.is_size {
            true => format!("expected a number of bytes after '>', such as {name}>5kB (B, kB, MB or GB)"),
            false => format!("expected a number after '>', such as {name}>128"),
        })?;
        Ok(Self::Above(column, number))
    }

    /// Returns whether a kernel records the number that the condition asks for.
    fn is_recorded(self, kernel: &Kernel) -> bool {
        match self {
            Self::Spill => kernel.vgpr_spills.is_some() || kernel.sgpr_spills.is_some(),
            Self::Hostcall => kernel.hostcall.is_some(),
            Self::Above(column, _) => (column.number)(kernel).is_some(),
        }
    }

    pub(super) fn is_met(self, kernel: &Kernel) -> bool {
        match self {
            Self::Spill => spills(kernel) > 0,
            Self::Hostcall => kernel.hostcall == Some(true),
            Self::Above(column, limit) => match (column.number)(kernel) {
                Some(number) => number > limit,
                None => false,
            },
        }
    }

    /// Returns the number of a kernel that meets the condition, or `None` if the condition has no number.
    fn number(self, kernel: &Kernel) -> Option<u64> {
        match self {
            Self::Spill => Some(spills(kernel)),
            Self::Hostcall => None,
            Self::Above(column, _) => (column.number)(kernel),
        }
    }
}

/// The units of sizes. `B` is last, because the other units end with it.
const UNITS: [(&str, u64); 4] = [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];

/// Parses a size with one of the [`UNITS`], or a number of bytes without a unit. Returns `None` if the text is neither.
fn size_in_bytes(text: &str) -> Option<u64> {
    for (unit, factor) in UNITS {
        if let Some(number) = text.strip_suffix(unit) {
            return number.trim_end().parse::<u64>().ok()?.checked_mul(factor);
        }
    }
    text.parse().ok()
}

/// Returns the message about a text that is not a condition: a list of the conditions, and the one that the user may
/// mean.
fn not_a_condition(text: &str) -> String {
    let columns = NUMBERS.map(|column| column.name());
    let conditions = format!(
        "not a condition; the conditions are spill, scratch, hostcall and COLUMN>N, such as vgpr>128, where COLUMN is {}",
        alternatives(&columns)
    );
    let without_limit = ["spill", "scratch", "hostcall"];
    let (typed, rest) = word_and_rest(text);
    let is_complete = |name: &str| match name {
        "spill" | "hostcall" => true,
        // `scratch` is a condition, and the name of a column if a limit follows.
        "scratch" => rest.is_empty(),
        _ => false,
    };
    match nearest_name(typed, without_limit.into_iter().chain(columns.iter().map(String::as_str))) {
        Some(name) if is_complete(name) => format!("{conditions}; did you mean '{name}'?"),
        Some(name) => {
            let limit = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            format!("{conditions}; did you mean '{name}>{}'?", if limit.is_empty() { "128" } else { limit })
        }
        None => conditions,
    }
}

/// Writes the condition as the user types it.
impl fmt::Display for KernelCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spill => f.write_str("spill"),
            Self::Hostcall => f.write_str("hostcall"),
            // `scratch` is short for `scratch>0`.
            Self::Above(column, 0) if column.title == SCRATCH.title => f.write_str("scratch"),
            Self::Above(column, limit) => write!(f, "{}>{limit}", column.name()),
        }
    }
}

/// The number of kernels that a message names.
const NAMED_MAX: usize = 3;

/// The results of all conditions for the kernels of one or more files.
#[derive(Clone, Debug, Default)]
pub struct ConditionResults {
    /// The number of kernels that the conditions apply to, whether they record the numbers of a condition or not.
    all: usize,
    results: Vec<ConditionResult>,
}

/// The kernels that meet a condition.
#[derive(Clone, Debug)]
struct ConditionResult {
    condition: KernelCondition,
    /// The number of kernels that record the number that the condition asks for.
    judged: usize,
    /// The number of kernels that meet the condition.
    met: usize,
    /// The texts about the first kernels that meet the condition.
    first_texts: Vec<String>,
}

impl ConditionResults {
    pub(super) fn new(conditions: &[KernelCondition]) -> Self {
        let mut results = Vec::new();
        for &condition in conditions {
            results.push(ConditionResult { condition, judged: 0, met: 0, first_texts: Vec::new() });
        }
        Self { all: 0, results }
    }

    /// Counts a kernel that the conditions apply to, and notes which numbers the kernel records.
    pub(super) fn count_judged(&mut self, kernel: &Kernel) {
        self.all += 1;
        for result in &mut self.results {
            result.judged += usize::from(result.condition.is_recorded(kernel));
        }
    }

    /// Counts the kernels that meet each condition, and keeps texts about the first ones.
    pub(super) fn count_matches(&mut self, rows: &[NamedKernel]) {
        for result in &mut self.results {
            for row in rows {
                if result.condition.is_met(&row.kernel) {
                    result.met += 1;
                    if result.first_texts.len() < NAMED_MAX {
                        result.first_texts.push(kernel_text(row, result.condition.number(&row.kernel)));
                    }
                }
            }
        }
    }

    /// Adds the results of the next file.
    pub(super) fn add(&mut self, more: Self) {
        self.all += more.all;
        // The default value has no conditions yet.
        if self.results.is_empty() {
            self.results = more.results;
            return;
        }
        for (result, more) in self.results.iter_mut().zip(more.results) {
            result.judged += more.judged;
            result.met += more.met;
            let room = NAMED_MAX - result.first_texts.len();
            result.first_texts.extend(more.first_texts.into_iter().take(room));
        }
    }

    /// Returns whether each condition judged a kernel. If not, there are no kernels, or none records the number that a
    /// condition asks for.
    pub fn judged(&self) -> Judged {
        if self.all == 0 {
            Judged::Nothing
        } else if self.results.iter().any(|result| result.judged == 0) {
            Judged::Unrecorded
        } else {
            Judged::Something
        }
    }

    /// Returns the conditions that ask for a number that no kernel records, such as `'spill', 'vgpr>128'`.
    pub fn unrecorded(&self) -> String {
        let unrecorded = self.results.iter().filter(|result| result.judged == 0);
        unrecorded.map(|result| format!("'{}'", result.condition)).collect::<Vec<_>>().join(", ")
    }

    /// Returns the conditions that ask for a number that some kernels do not record.
    pub fn not_judged(&self) -> Vec<NotJudged> {
        let mut conditions = Vec::new();
        for result in &self.results {
            let kernels = self.all - result.judged;
            if kernels > 0 {
                conditions.push(NotJudged { condition: result.condition.to_string(), kernels, of: self.all });
            }
        }
        conditions
    }

    /// Returns the conditions that kernels meet, with these kernels as the reason. Each makes the command fail.
    pub fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        for result in &self.results {
            if result.met > 0 {
                failures.push(Failure { condition: result.condition.to_string(), reason: result.reason() });
            }
        }
        failures
    }
}

impl ConditionResult {
    /// Returns the text that says how many kernels meet the condition, with the first of them.
    fn reason(&self) -> String {
        let kernels = match self.condition {
            KernelCondition::Hostcall => {
                count(self.met, "kernel needs calls of the host", "kernels need calls of the host")
            }
            KernelCondition::Above(column, limit) => {
                format!("{} with {} above {limit}", count(self.met, "kernel", "kernels"), column.title)
            }
            KernelCondition::Spill => count(self.met, "kernel spills registers", "kernels spill registers"),
        };
        let first = self.first_texts.join("; ");
        match self.met - self.first_texts.len() {
            0 => format!("{kernels}: {first}"),
            more => format!("{kernels}: {first}; and {more} more"),
        }
    }
}

/// Returns the text for a kernel that meets a condition: the number that the condition compares, if any, the name, the
/// GPU and the code object.
fn kernel_text(NamedKernel { code, name, .. }: &NamedKernel, number: Option<u64>) -> String {
    let place = match &code.uri {
        Some(uri) => uri.clone(),
        None => code.code_object.bundle.place.to_string(),
    };
    let number = match number {
        Some(number) => format!("{number} in "),
        None => String::new(),
    };
    format!("{number}'{name}' for {} in {place}", code.gpu)
}

/// A condition of `--fail-on` that did not judge some kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct NotJudged {
    /// The condition: `spill`, `scratch`, `hostcall` or a limit such as `vgpr>128`.
    #[cfg_attr(all(test, feature = "serde"), schemars(regex(pattern = "^(spill|scratch|hostcall|[a-z]+>[0-9]+)$")))]
    pub condition: String,
    /// The number of kernels that it did not judge.
    #[cfg_attr(all(test, feature = "serde"), schemars(range(min = 1)))]
    pub kernels: usize,
    /// The number of all kernels that the conditions apply to.
    pub of: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_known_by_their_names() {
        for text in ["spill", "scratch", "hostcall", "vgpr>128", "code>0", "scratch>16"] {
            assert_eq!(KernelCondition::parse(text).map(|condition| condition.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(
            KernelCondition::parse("scratch>0").map(|condition| condition.to_string()),
            Ok("scratch".to_owned())
        );
        for (spaced, text) in [
            (" spill ", "spill"),
            ("vgpr > 128", "vgpr>128"),
            ("code>5kB", "code>5000"),
            ("lds > 15 kB", "lds>15000"),
            ("kernarg>7B", "kernarg>7"),
        ] {
            let parsed = KernelCondition::parse(spaced).map(|condition| condition.to_string());
            assert_eq!(parsed, Ok(text.to_owned()));
        }
        for (text, meant) in [
            ("vgprs>20", "'vgpr>20'"),
            ("VGPR>1", "'vgpr>1'"),
            ("vgpr=9", "'vgpr>9'"),
            ("spills", "'spill'"),
            ("host-call", "'hostcall'"),
            ("Scratch", "'scratch'"),
        ] {
            let error = KernelCondition::parse(text).unwrap_err();
            assert!(error.ends_with(&format!("; did you mean {meant}?")), "{text}: {error}");
        }
        for (text, reason) in [
            ("code>1TB", "expected a number of bytes"),
            ("code>5%", "expected a number of bytes"),
            ("vgpr", "above what? expected 'vgpr>128', in quotes"),
            ("vgpr>", "expected a number after '>', such as vgpr>128"),
            ("vgpr>-1", "expected a number"),
            ("vgpr>1K", "expected a number"),
            ("VGPR>1", "not a condition"),
            ("registers>1", "not a condition"),
            ("lost-gpu", "not a condition"),
            ("size", "not a condition"),
            ("size=+5%", "not a condition"),
            ("", "not a condition"),
        ] {
            let error = KernelCondition::parse(text).unwrap_err();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}
