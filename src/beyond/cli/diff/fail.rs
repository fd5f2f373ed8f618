//! The conditions of `--fail-on`, and the conditions that are met.

use std::fmt;

use super::kernel::SpillingKernels;
use super::total::{DiffTotal, Presence};
use crate::beyond::cli::judged::Judged;
use crate::beyond::cli::kernels::column::spills;
use crate::beyond::cli::kernels::report::demangled_names;
use crate::beyond::cli::print::units::{bytes, count};
use crate::beyond::job::{KernelDiff, LostCoverage};
use crate::beyond::serialized::Failure;

/// A condition on which the command fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiffCondition {
    LostGpu,
    /// A kernel spills more registers than before.
    Spill,
    /// Device code grows more.
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
        match text.split_once('=') {
            None if text == "lost-gpu" => Ok(Self::LostGpu),
            None if text == "spill" => Ok(Self::Spill),
            None if text == "size" => Err(format!("by how much may it grow? {SIZE}")),
            Some(("size", growth)) => Growth::parse(growth).map(Self::Size),
            _ => Err("not a condition; the conditions are lost-gpu, spill and size=+N%".to_owned()),
        }
    }

    /// Whether code for a GPU records the numbers of the condition. Only compilers for AMD GPUs record spills.
    fn is_recorded(self, gpu: &str) -> bool {
        match self {
            Self::Spill => gpu.starts_with("gfx"),
            Self::LostGpu | Self::Size(_) => true,
        }
    }

    /// Whether code of the old files records the numbers of the condition.
    fn is_recorded_in(self, total: &DiffTotal) -> bool {
        old_gpus(total).any(|gpu| self.is_recorded(gpu))
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
        let growth = if let Some(percent) = number.strip_suffix('%') {
            scaled(percent.trim_end(), 1000).map(Self::Percent)
        } else {
            let unit = UNITS.iter().find_map(|(unit, factor)| Some((number.strip_suffix(unit)?, *factor)));
            let (number, factor) = unit.unwrap_or((number, 1));
            scaled(number.trim_end(), factor).map(Self::Bytes)
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

/// Returns a decimal number times `factor`, or `None` if the text is not a number, has more than three digits after the
/// point, or the result is not a whole number.
fn scaled(text: &str, factor: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    let thousandths = whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)?;
    let product = u128::from(thousandths).checked_mul(factor.into())?;
    if product % 1000 != 0 {
        return None;
    }
    u64::try_from(product / 1000).ok()
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// The GPUs that the old files have code for.
fn old_gpus(total: &DiffTotal) -> impl Iterator<Item = &str> {
    total.gpus.iter().filter(|(_, gpu)| gpu.old.code_objects > 0).map(|(name, _)| &**name)
}

/// Says whether the conditions had something to judge: code of the old files, if the new ones have code to compare.
pub(super) fn judged(conditions: &[DiffCondition], total: &DiffTotal) -> Judged {
    if total.all().new.code_objects == 0 || old_gpus(total).next().is_none() {
        Judged::Nothing
    } else if conditions.iter().any(|condition| condition.is_recorded_in(total)) {
        Judged::Something
    } else {
        Judged::Unrecorded
    }
}

/// The names of the conditions whose numbers no code of the old files records, if other conditions were judged.
pub(super) fn unrecorded(conditions: &[DiffCondition], total: &DiffTotal) -> Vec<&'static str> {
    let mut names = Vec::new();
    if judged(conditions, total) == Judged::Something {
        for condition in conditions {
            if !condition.is_recorded_in(total) {
                names.push(condition.name());
            }
        }
    }
    names
}

/// The conditions that are met, with the reasons.
pub(super) fn failures(conditions: &[DiffCondition], total: &DiffTotal) -> Vec<Failure> {
    let mut failures = Vec::new();
    for condition in conditions {
        let reasons = match condition {
            DiffCondition::LostGpu => lost_gpus(total),
            DiffCondition::Spill => added_spills(total),
            DiffCondition::Size(growth) => grown_sizes(total, *growth),
        };
        for reason in reasons {
            failures.push(Failure { condition: condition.name().to_owned(), reason });
        }
    }
    failures
}

fn lost_gpus(total: &DiffTotal) -> Vec<String> {
    let presences = total.presences();
    let mut reasons = Vec::new();
    for (name, gpu) in &total.gpus {
        if presences.get(&**name) == Some(&Presence::Lost) {
            let before = count(gpu.old.code_objects, "code object", "code objects");
            reasons.push(format!("no code for {name} any longer, before {before}"));
        }
    }
    for (library, loss) in &total.losses {
        if presences.get(&*loss.gpu) != Some(&Presence::Lost) {
            reasons.push(loss_text(library, loss));
        }
    }
    reasons
}

/// The text about a GPU that fewer bundles of a library serve than before.
pub(super) fn loss_text(library: &str, LostCoverage { gpu, old, new, .. }: &LostCoverage) -> String {
    let [before, now] =
        [old, new].map(|served| format!("{} of {}", served.serving, count(served.bundles, "bundle", "bundles")));
    if new.serving == 0 {
        format!("no bundle of '{library}' serves {gpu} any longer, before {before}")
    } else {
        format!("{now} of '{library}' serve {gpu}, before {before}")
    }
}

fn added_spills(total: &DiffTotal) -> Vec<String> {
    let mut reasons = Vec::new();
    for ((gpu, is_new), SpillingKernels { kernels, worst }) in &total.spills {
        let numbers = if *is_new {
            format!("{} registers", count(*kernels, "new kernel spills", "new kernels spill"))
        } else {
            format!("{} more registers", count(*kernels, "kernel spills", "kernels spill"))
        };
        reasons.push(format!("{numbers} on {gpu}, {}", spills_text(worst)));
    }
    reasons
}

/// The numbers of registers that a kernel spills, and its name.
fn spills_text(kernel: &KernelDiff) -> String {
    let names = demangled_names(std::iter::once(&kernel.name), None);
    let shown = names.get(&kernel.name).map(|name| &**name).unwrap_or_default();
    let [old, new] = [&kernel.old, &kernel.new].map(|kernel| match kernel {
        Some(kernel) => spills(kernel).to_string(),
        None => "none".to_owned(),
    });
    format!("{new} (before {old}) in '{shown}'")
}

fn grown_sizes(total: &DiffTotal, growth: Growth) -> Vec<String> {
    let mut sizes = vec![("all device code".to_owned(), total.all())];
    for (name, gpu) in &total.gpus {
        if gpu.old.code_objects > 0 && gpu.new.code_objects > 0 {
            sizes.push((format!("device code for {name}"), *gpu));
        }
    }
    let mut reasons = Vec::new();
    for (code, gpu) in sizes {
        if growth.is_exceeded(gpu.old.stored, gpu.new.stored) {
            let (old, new) = (bytes(gpu.old.stored), bytes(gpu.new.stored));
            reasons.push(format!("{code} grew by more than {growth}, from {old} to {new}"));
        }
    }
    reasons
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
