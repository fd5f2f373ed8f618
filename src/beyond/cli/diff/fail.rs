//! The conditions of `--fail-on`, and those that are met.

use std::fmt;
use std::sync::Arc;

use super::kernel::Spilling;
use super::total::{DiffTotal, Presence};
use crate::beyond::cli::judged::Judged;
use crate::beyond::cli::kernels::column::spills;
use crate::beyond::cli::kernels::report::demangled_names;
use crate::beyond::cli::print::units::{bytes, count};
use crate::beyond::job::{KernelDiff, Loss};
use crate::beyond::runtime::Served;
use crate::beyond::scan::Sizes;
use crate::beyond::serialized::Failure;

/// A condition on which the command fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiffCondition {
    LostGpu,
    /// A kernel spills more registers than before.
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

const UNITS: [(&str, u64); 4] = [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];

impl DiffCondition {
    /// Reads a value of `--fail-on`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("size=")) {
            ("lost-gpu", _) => Ok(Self::LostGpu),
            ("spill", _) => Ok(Self::Spill),
            ("size", _) => Err(format!("by how much may it grow? {SIZE}")),
            (_, Some(growth)) => Growth::parse(growth).map(Self::Size),
            _ => Err("not a condition; the conditions are lost-gpu, spill and size=+N%".to_owned()),
        }
    }

    /// Whether code for a GPU of the old file records what the condition asks for. Only compilers for AMD GPUs record
    /// spills.
    fn is_recorded(self, gpu: &str) -> bool {
        match self {
            Self::Spill => gpu.starts_with("gfx"),
            Self::LostGpu | Self::Size(_) => true,
        }
    }

    /// The name, as typed.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LostGpu => "lost-gpu",
            Self::Spill => "spill",
            Self::Size(_) => "size",
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

    pub(super) fn is_exceeded(self, old: u64, new: u64) -> bool {
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

/// The GPUs that the old file has code for.
fn old_gpus(total: &DiffTotal) -> impl Iterator<Item = &str> {
    total.gpus.iter().filter(|(_, gpu)| gpu.old.code_objects > 0).map(|(name, _)| &**name)
}

/// What there was to judge: what the old file has, if the new one has anything to compare with it.
pub(super) fn judged(conditions: &[DiffCondition], total: &DiffTotal) -> Judged {
    if total.all().new.code_objects == 0 {
        return Judged::Nothing;
    }
    let is_judged = |condition: &DiffCondition| old_gpus(total).any(|gpu| condition.is_recorded(gpu));
    match old_gpus(total).next() {
        None => Judged::Nothing,
        Some(_) if conditions.iter().any(is_judged) => Judged::Something,
        Some(_) => Judged::Unrecorded,
    }
}

/// The names of the conditions that ask for what no code of the old file records, if others were judged.
pub(super) fn unrecorded(conditions: &[DiffCondition], total: &DiffTotal) -> impl Iterator<Item = &'static str> {
    let is_judged = judged(conditions, total) == Judged::Something;
    let is_unrecorded = move |condition: &&DiffCondition| !old_gpus(total).any(|gpu| condition.is_recorded(gpu));
    conditions.iter().filter(move |_| is_judged).filter(is_unrecorded).map(|condition| condition.name())
}

/// The conditions that are met, with the reasons.
pub(super) fn failures(conditions: &[DiffCondition], total: &DiffTotal) -> Vec<Failure> {
    let mut failures = Vec::new();
    for condition in conditions {
        let reasons = match condition {
            DiffCondition::LostGpu => lost_gpus(total),
            DiffCondition::Spill => spilling(total),
            DiffCondition::Size(growth) => grown(total, *growth),
        };
        let failure = |reason| Failure { condition: condition.name().to_owned(), reason };
        failures.extend(reasons.into_iter().map(failure));
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
    let reason = |((gpu, is_new), Spilling { kernels, worst }): (&(Arc<str>, bool), &Spilling)| {
        let (numbers, more) = match is_new {
            false => (count(*kernels, "kernel spills", "kernels spill"), "more "),
            true => (count(*kernels, "new kernel spills", "new kernels spill"), ""),
        };
        format!("{numbers} {more}registers on {gpu}, {}", described(worst))
    };
    total.spills.iter().map(reason).collect()
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
    let reason = |(what, gpu): (String, &crate::beyond::job::GpuDiff)| {
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
            assert!(matches!(DiffCondition::parse(text), Ok(DiffCondition::Size(read)) if read == growth), "{text}");
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
            assert_eq!(DiffCondition::parse(text).is_err(), text != "size=+5", "{text}");
        }
    }

    #[test]
    fn conditions_are_known_by_their_names() {
        for name in ["lost-gpu", "spill"] {
            assert_eq!(DiffCondition::parse(name).map(DiffCondition::name), Ok(name));
        }
        assert_eq!(DiffCondition::parse("size=+5%").map(DiffCondition::name), Ok("size"));
        for text in ["size", "scratch", "hostcall", "vgpr>128", "lost", ""] {
            assert!(DiffCondition::parse(text).is_err(), "{text}");
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
