//! The conditions of `--fail-on`, and the kernels that meet them.

use std::fmt;

use crate::base::error::Result;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::serialized::Failure;

use super::column::{KernelColumn, NUMBERS, SCRATCH, spills};
use super::row::Row;
use crate::beyond::cli::judged::Judged;
use crate::beyond::cli::print::units::count;

/// A condition on which the command fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KernelCondition {
    /// A kernel spills registers.
    Spill,
    /// A kernel needs calls of the host.
    Hostcall,
    /// A number of a kernel is larger than this.
    Above(KernelColumn, u64),
}

impl KernelCondition {
    /// Reads a value of `--fail-on`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "spill" => return Ok(Self::Spill),
            "scratch" => return Ok(Self::Above(SCRATCH, 0)),
            "hostcall" => return Ok(Self::Hostcall),
            _ => {}
        }
        let (name, limit) = text.split_once('>').map_or((text, None), |(name, limit)| (name, Some(limit)));
        let column = NUMBERS.into_iter().find(|column| column.name() == name);
        let column = column
            .ok_or("not a condition; the conditions are spill, scratch, hostcall and COLUMN>N, such as vgpr>128")?;
        // A shell takes what follows for the name of a file, unless it is quoted.
        let limit = limit.ok_or_else(|| format!("above what? expected '{name}>128', in quotes"))?;
        let limit = limit.parse().map_err(|_| format!("expected a number after '>', such as {name}>128"))?;
        Ok(Self::Above(column, limit))
    }

    /// Whether a kernel records what the condition asks for.
    fn is_recorded(self, kernel: &Kernel) -> bool {
        match self {
            Self::Spill => kernel.vgpr_spills.is_some() || kernel.sgpr_spills.is_some(),
            Self::Hostcall => kernel.hostcall.is_some(),
            Self::Above(column, _) => (column.of)(kernel).is_some(),
        }
    }

    /// The number by which a kernel meets it, if it does; none in it if it has no number.
    fn number(self, kernel: &Kernel) -> Option<Option<u64>> {
        match self {
            Self::Spill => Some(spills(kernel)).filter(|spills| *spills > 0).map(Some),
            Self::Hostcall => kernel.hostcall?.then_some(None),
            Self::Above(column, limit) => (column.of)(kernel).filter(|number| *number > limit).map(Some),
        }
    }
}

/// The name, as typed.
impl fmt::Display for KernelCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spill => f.write_str("spill"),
            Self::Hostcall => f.write_str("hostcall"),
            Self::Above(column, 0) if column.title == SCRATCH.title => f.write_str("scratch"),
            Self::Above(column, limit) => write!(f, "{}>{limit}", column.name()),
        }
    }
}

/// The number of kernels that a message names.
const NAMED: usize = 3;

/// The kernels that conditions were applied to, and those that meet them.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// The number of kernels, whether they record what a condition asks for or not.
    kernels: usize,
    conditions: Vec<Met>,
}

/// The kernels that meet a condition.
#[derive(Debug)]
struct Met {
    condition: KernelCondition,
    /// Whether a kernel records what the condition asks for.
    is_recorded: bool,
    kernels: usize,
    /// The first ones.
    first: Vec<String>,
}

impl Failing {
    pub(super) fn new(conditions: &[KernelCondition]) -> Self {
        let met = |condition: &KernelCondition| Met {
            condition: *condition,
            is_recorded: false,
            kernels: 0,
            first: Vec::new(),
        };
        Self { kernels: 0, conditions: conditions.iter().map(met).collect() }
    }

    /// Notes a kernel that the conditions apply to.
    pub(super) fn note(&mut self, kernel: &Kernel) {
        self.kernels += 1;
        for met in &mut self.conditions {
            met.is_recorded |= met.condition.is_recorded(kernel);
        }
    }

    /// Checks kernels.
    ///
    /// # Errors
    /// The errors of the URI of a code object.
    pub(super) fn check(&mut self, rows: &[Row]) -> Result<()> {
        for met in &mut self.conditions {
            for row in rows {
                let Some(number) = met.condition.number(&row.kernel) else { continue };
                met.kernels += 1;
                if met.first.len() < NAMED {
                    met.first.push(described(row, number)?);
                }
            }
        }
        Ok(())
    }

    /// Adds those of the next file.
    pub(super) fn add(&mut self, more: Self) {
        self.kernels += more.kernels;
        if self.conditions.is_empty() {
            self.conditions = more.conditions;
            return;
        }
        for (met, more) in self.conditions.iter_mut().zip(more.conditions) {
            met.is_recorded |= more.is_recorded;
            met.kernels += more.kernels;
            met.first.extend(more.first.into_iter().take(NAMED - met.first.len()));
        }
    }

    /// What there was to judge.
    pub(super) fn judged(&self) -> Judged {
        match self.conditions.iter().any(|met| met.is_recorded) {
            true => Judged::Something,
            false if self.kernels > 0 => Judged::Unrecorded,
            false => Judged::Nothing,
        }
    }

    /// The conditions that ask for what none of the kernels records.
    pub(super) fn unrecorded(&self) -> impl Iterator<Item = KernelCondition> {
        self.conditions.iter().filter(|met| !met.is_recorded).map(|met| met.condition)
    }

    /// The conditions that are met, with the reasons.
    pub(super) fn failures(&self) -> Vec<Failure> {
        let failure = |Met { condition, kernels, first, .. }: &Met| {
            let of = |one: &str, many: &str| count(*kernels, &format!("kernel {one}"), &format!("kernels {many}"));
            let what = match condition {
                KernelCondition::Hostcall => of("needs calls of the host", "need calls of the host"),
                KernelCondition::Above(column, limit) => {
                    let exceeds = format!("with {} above {limit}", column.title);
                    of(&exceeds, &exceeds)
                }
                KernelCondition::Spill => of("spills registers", "spill registers"),
            };
            let more = match kernels - first.len() {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            Failure { condition: condition.to_string(), reason: format!("{what}: {}{more}", first.join("; ")) }
        };
        self.conditions.iter().filter(|met| met.kernels > 0).map(failure).collect()
    }
}

/// A kernel, with its code object.
fn described(row: &Row, number: Option<u64>) -> Result<String> {
    let Row { code_object, gpu, name, .. } = row;
    let place = match code_object.uri()? {
        Some(uri) => uri.to_string(),
        None => code_object.bundle.place.to_string(),
    };
    let number = number.map_or_else(String::new, |number| format!("{number} in "));
    Ok(format!("{number}'{name}' for {gpu} in {place}"))
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
        for (text, reason) in [
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
