//! The conditions of `--fail-on`, of `diff` and `kernels`.

use std::fmt;

use super::kernels::column::{NUMBERS, NumberColumn, SCRATCH};
use super::print::units::bytes;

/// A condition on which the command fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    LostGpu,
    /// A kernel spills registers; for `diff`, more than before.
    Spill,
    /// Device code grows by more than this.
    Size(Growth),
    /// A kernel needs calls of the host.
    Hostcall,
    /// A number of a kernel is larger than this.
    Above(NumberColumn, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// In thousandths of a percent.
    Percent(u64),
    Bytes(u64),
}

const UNITS: [(&str, u64); 4] = [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];

impl Condition {
    /// Reads a value of `diff --fail-on`.
    pub(super) fn of_diff(text: &str) -> Result<Self, String> {
        match Self::parse(text)? {
            Some(condition @ (Self::LostGpu | Self::Spill | Self::Size(_))) => Ok(condition),
            _ => Err("not a condition; the conditions are lost-gpu, spill and size=+N%".to_owned()),
        }
    }

    /// Reads a value of `kernels --fail-on`.
    pub(super) fn of_kernels(text: &str) -> Result<Self, String> {
        match Self::parse(text)? {
            Some(condition @ (Self::Spill | Self::Hostcall | Self::Above(..))) => Ok(condition),
            _ => Err("not a condition; the conditions are spill, scratch, hostcall and COLUMN>N, such as vgpr>128"
                .to_owned()),
        }
    }

    fn parse(text: &str) -> Result<Option<Self>, String> {
        let column = |name: &str| NUMBERS.into_iter().find(|column| column.name() == name);
        let above = || -> Option<Result<Self, String>> {
            let (name, number) = text.split_once('>')?;
            let limit = number.parse().map_err(|_| format!("expected a number after '>', such as {name}>128"));
            let column = column(name)?;
            Some(limit.map(|limit| Self::Above(column, limit)))
        };
        match text {
            "lost-gpu" => Ok(Some(Self::LostGpu)),
            "spill" => Ok(Some(Self::Spill)),
            "scratch" => Ok(Some(Self::Above(SCRATCH, 0))),
            "hostcall" => Ok(Some(Self::Hostcall)),
            "size" => Err(format!("by how much may it grow? {SIZE}")),
            // A shell takes what follows for the name of a file, unless it is quoted.
            _ if column(text).is_some() => Err(format!("above what? expected '{text}>128', in quotes")),
            _ => match text.strip_prefix("size=") {
                Some(growth) => Growth::parse(growth).map(|growth| Some(Self::Size(growth))),
                None => above().transpose(),
            },
        }
    }
}

/// The name, as typed.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostGpu => f.write_str("lost-gpu"),
            Self::Spill => f.write_str("spill"),
            Self::Size(_) => f.write_str("size"),
            Self::Hostcall => f.write_str("hostcall"),
            Self::Above(column, 0) if column.title == SCRATCH.title => f.write_str("scratch"),
            Self::Above(column, limit) => write!(f, "{}>{limit}", column.name()),
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
            assert!(matches!(Condition::of_diff(text), Ok(Condition::Size(read)) if read == growth), "{text}");
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
            assert_eq!(Condition::of_diff(text).is_err(), text != "size=+5", "{text}");
        }
    }

    #[test]
    fn each_subcommand_has_conditions_of_its_own() {
        for (text, of_diff, of_kernels) in [
            ("spill", true, true),
            ("lost-gpu", true, false),
            ("size=+5%", true, false),
            ("scratch", false, true),
            ("hostcall", false, true),
            ("vgpr>128", false, true),
            ("code>0", false, true),
            ("scratch>0", false, true),
            ("scratch>16", false, true),
            ("vgpr", false, false),
            ("vgpr>", false, false),
            ("vgpr>-1", false, false),
            ("vgpr>1K", false, false),
            ("VGPR>1", false, false),
            ("registers>1", false, false),
            ("size", false, false),
            ("", false, false),
        ] {
            let (diff, kernels) = (Condition::of_diff(text), Condition::of_kernels(text));
            assert_eq!((diff.is_ok(), kernels.is_ok()), (of_diff, of_kernels), "{text}");
            for condition in [diff, kernels].into_iter().flatten().map(|condition| condition.to_string()) {
                let is_other = matches!(text, "scratch>0" | "size=+5%");
                assert!(condition == text || is_other && text.starts_with(&condition), "{text} {condition}");
            }
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
