//! The conditions of `--fail-on` that kernels meet.

use offload_bundle::Result;
use offload_bundle::kernels::Kernel;
use offload_bundle::serialized::Failure;

use super::column::spills;
use super::row::Row;
use crate::cli::conditions::Condition;
use crate::cli::print::units::count;

/// The number of kernels that a message names.
const NAMED: usize = 3;

/// The kernels that meet conditions.
#[derive(Debug, Default)]
pub(super) struct Failing(Vec<Met>);

/// The kernels that meet a condition.
#[derive(Debug)]
struct Met {
    condition: Condition,
    kernels: usize,
    /// The first ones.
    first: Vec<String>,
}

impl Failing {
    /// Checks kernels.
    ///
    /// # Errors
    /// Those of the URI of a code object.
    pub(super) fn of(conditions: &[Condition], rows: &[Row]) -> Result<Self> {
        let met = |condition: &Condition| {
            let failing = rows.iter().filter_map(|row| Some((row, number(*condition, &row.kernel)?)));
            let (mut kernels, mut first) = (0, Vec::new());
            for (row, number) in failing {
                kernels += 1;
                if first.len() < NAMED {
                    first.push(described(row, number)?);
                }
            }
            Ok(Met { condition: *condition, kernels, first })
        };
        conditions.iter().map(met).collect::<Result<_>>().map(Self)
    }

    /// Adds those of the next file.
    pub(super) fn add(&mut self, more: Self) {
        if self.0.is_empty() {
            *self = more;
            return;
        }
        for (met, more) in self.0.iter_mut().zip(more.0) {
            met.kernels += more.kernels;
            met.first.extend(more.first.into_iter().take(NAMED.saturating_sub(met.first.len())));
        }
    }

    /// The conditions that are met, with the reasons.
    pub(super) fn failures(&self) -> Vec<Failure> {
        let failure = |Met { condition, kernels, first }: &Met| {
            let of = |one: &str, many: &str| count(*kernels, &format!("kernel {one}"), &format!("kernels {many}"));
            let what = match condition {
                Condition::Hostcall => of("needs calls of the host", "need calls of the host"),
                Condition::Above(column, limit) => {
                    let exceeds = format!("with {} above {limit}", column.title);
                    of(&exceeds, &exceeds)
                }
                _ => of("spills registers", "spill registers"),
            };
            let more = match kernels.saturating_sub(first.len()) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            Failure { condition: condition.to_string(), reason: format!("{what}: {}{more}", first.join("; ")) }
        };
        self.0.iter().filter(|met| met.kernels > 0).map(failure).collect()
    }
}

/// The number by which a kernel meets a condition, if it does; none in it if it has no number.
fn number(condition: Condition, kernel: &Kernel) -> Option<Option<u64>> {
    match condition {
        Condition::Spill => Some(spills(kernel)).filter(|spills| *spills > 0).map(Some),
        Condition::Hostcall => kernel.hostcall?.then_some(None),
        Condition::Above(column, limit) => (column.of)(kernel).filter(|number| *number > limit).map(Some),
        Condition::LostGpu | Condition::Size(_) => None,
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
