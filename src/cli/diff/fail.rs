//! The conditions of `--fail-on`.

use std::fmt;

use offload_bundle::job::{KernelDiff, Loss, Sizes};
use offload_bundle::runtime::Served;
use serde::Serialize;

use super::kernel::spills;
use super::total::{DiffTotal, Presence};
use crate::cli::kernels::report::demangled_names;
use crate::cli::print::units::{bytes, count};

/// A condition on which the command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    LostGpu,
    Spill,
    /// Device code grows by more than this.
    Size(Growth),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// In thousandths of a percent.
    Percent(u64),
    Bytes(u64),
}

/// A condition that is met, and why.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    condition: &'static str,
    reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.condition, self.reason)
    }
}

const UNITS: [(&str, u64); 4] = [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];

impl Condition {
    /// Reads a value of `--fail-on`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "lost-gpu" => Ok(Self::LostGpu),
            None if text == "spill" => Ok(Self::Spill),
            Some(("size", growth)) => Growth::parse(growth).map(Self::Size),
            None if text == "size" => Err(format!("by how much may it grow? {SIZE}")),
            _ => Err("not a condition; the conditions are lost-gpu, spill and size=+N%".to_owned()),
        }
    }
}

const SIZE: &str = "expected size=+5%, or a number of bytes such as size=+1MB (B, kB, MB or GB)";

impl Growth {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix('+').unwrap_or(text);
        let growth = match number.strip_suffix('%') {
            Some(percent) => thousandths(percent.trim_end(), 1000).map(Self::Percent),
            None => {
                let unit = UNITS.iter().find_map(|(unit, factor)| Some((number.strip_suffix(unit)?, *factor)));
                let (number, factor) = unit.unwrap_or((number, 1));
                thousandths(number.trim_end(), factor).map(Self::Bytes)
            }
        };
        growth.ok_or_else(|| SIZE.to_owned())
    }

    fn is_exceeded(self, old: u64, new: u64) -> bool {
        let grown = u128::from(new.saturating_sub(old));
        match self {
            Self::Bytes(most) => grown > most.into(),
            Self::Percent(most) => grown * 100_000 > u128::from(old) * u128::from(most),
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(most) => f.write_str(&bytes(*most)),
            Self::Percent(most) => {
                let rest = format!("{:03}", most % 1000);
                let rest = rest.trim_end_matches('0');
                write!(f, "{}{}{rest} %", most / 1000, if rest.is_empty() { "" } else { "." })
            }
        }
    }
}

/// A decimal number times `factor`, without a rest: at most three digits may follow the point.
fn thousandths(text: &str, factor: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    let thousandths = whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)?;
    let product = u128::from(thousandths).checked_mul(factor.into())?;
    u64::try_from(product / 1000).ok().filter(|_| product % 1000 == 0)
}

/// The conditions that are met, with the reasons.
pub(super) fn failures(conditions: &[Condition], total: &DiffTotal) -> Vec<Failure> {
    let mut failures = Vec::new();
    for condition in conditions {
        let (name, reasons) = match condition {
            Condition::LostGpu => ("lost-gpu", lost_gpus(total)),
            Condition::Spill => ("spill", spilling(total)),
            Condition::Size(growth) => ("size", grown(total, *growth)),
        };
        failures.extend(reasons.into_iter().map(|reason| Failure { condition: name, reason }));
    }
    failures
}

fn lost_gpus(total: &DiffTotal) -> Vec<String> {
    let presences = total.presences();
    let is_lost = |name: &str| presences.get(name) == Some(&Presence::Lost);
    let before = |sizes: &Sizes| count(sizes.code_objects, "code object", "code objects");
    let lost = total.gpus.iter().filter(|(name, _)| is_lost(name));
    let lost = lost.map(|(name, gpu)| format!("no code for {name} any longer, before {}", before(&gpu.old)));
    let in_libraries = total.losses.iter().filter(|(_, loss)| !is_lost(&loss.gpu));
    lost.chain(in_libraries.map(|(library, loss)| lost_in(library, loss))).collect()
}

/// How a GPU is served less than before.
pub(super) fn lost_in(library: &str, Loss { gpu, old, new, .. }: &Loss) -> String {
    let of = |served: &Served| format!("{} of {}", served.serving, count(served.bundles, "bundle", "bundles"));
    match new.serving {
        0 => format!("no bundle of '{library}' serves {gpu} any longer, before {}", of(old)),
        _ => format!("{} of '{library}' serve {gpu}, before {}", of(new), of(old)),
    }
}

fn spilling(total: &DiffTotal) -> Vec<String> {
    let mut reasons = Vec::new();
    for (gpu, spills) in &total.spills {
        let [changed, added] = &spills.worst;
        let more = |number: usize| count(number, "kernel spills", "kernels spill");
        if let Some(worst) = changed {
            let numbers = more(spills.changed);
            reasons.push(format!("{numbers} more registers on {gpu}, {}", described(worst)));
        }
        if let Some(worst) = added {
            let numbers = count(spills.added, "new kernel spills", "new kernels spill");
            reasons.push(format!("{numbers} registers on {gpu}, {}", described(worst)));
        }
    }
    reasons
}

/// A kernel, with the number of registers that it spills.
fn described(kernel: &KernelDiff) -> String {
    let names = demangled_names(std::iter::once(&kernel.name), None);
    let shown = names.get(&kernel.name).map_or("", |name| name);
    let number = |kernel: &Option<_>| kernel.as_ref().map_or("none".to_owned(), |kernel| spills(kernel).to_string());
    format!("{} (before {}) in '{shown}'", number(&kernel.new), number(&kernel.old))
}

fn grown(total: &DiffTotal, growth: Growth) -> Vec<String> {
    let all = total.all();
    let in_both = total.gpus.iter().filter(|(_, gpu)| gpu.old.code_objects > 0 && gpu.new.code_objects > 0);
    let of_gpus = in_both.map(|(name, gpu)| (format!("device code for {name}"), gpu));
    let sizes = std::iter::once(("all device code".to_owned(), &all)).chain(of_gpus);
    let exceeding = sizes.filter(|(_, gpu)| growth.is_exceeded(gpu.old.stored, gpu.new.stored));
    let reason = |(what, gpu): (String, &offload_bundle::job::GpuDiff)| {
        let (old, new) = (bytes(gpu.old.stored), bytes(gpu.new.stored));
        format!("{what} grew by more than {growth}, from {old} to {new}")
    };
    exceeding.map(reason).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growths_are_percents_or_bytes() {
        for (text, growth, shown) in [
            ("size=+5%", Growth::Percent(5000), "5 %"),
            ("size=0.25%", Growth::Percent(250), "0.25 %"),
            ("size=+0%", Growth::Percent(0), "0 %"),
            ("size=+1MB", Growth::Bytes(1_000_000), "1.00 MB"),
            ("size=1.5kB", Growth::Bytes(1500), "1.50 kB"),
            ("size=+12", Growth::Bytes(12), "12 B"),
            ("size=+12B", Growth::Bytes(12), "12 B"),
        ] {
            assert_eq!(Condition::parse(text), Ok(Condition::Size(growth)), "{text}");
            assert_eq!(growth.to_string(), shown);
        }
        for text in [
            "size=",
            "size=-5%",
            "size=+%",
            "size=+5",
            "size=1.2345%",
            "size=0.5",
            "size=1e3",
            "size=99999999999999999999%",
            "size=1TB",
        ] {
            assert_eq!(Condition::parse(text).is_err(), text != "size=+5", "{text}");
        }
    }

    #[test]
    fn a_growth_is_exceeded_by_one_byte_more() {
        let five = Growth::Percent(5000);
        assert!(!five.is_exceeded(1000, 1050) && five.is_exceeded(1000, 1051) && !five.is_exceeded(1000, 0));
        assert!(five.is_exceeded(0, 1) && !five.is_exceeded(0, 0) && five.is_exceeded(1, u64::MAX));
        assert!(!Growth::Bytes(10).is_exceeded(5, 15) && Growth::Bytes(10).is_exceeded(5, 16));
    }
}
