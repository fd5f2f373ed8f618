//! The results of the conditions of `--fail-on`, which `kernels` and `diff` have.

use std::fmt;

/// A condition of `--fail-on` that is met.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Failure {
    /// The condition: `lost-gpu`, `spill`, `size` or `total` of `diff`; `spill`, `scratch`, `hostcall` or a limit
    /// such as `vgpr>128` of `kernels`.
    #[cfg_attr(
        all(test, feature = "serde"),
        schemars(regex(pattern = "^(lost-gpu|spill|size|total|scratch|hostcall|[a-z]+>[0-9]+)$"))
    )]
    pub condition: String,
    /// The reason, as a sentence for people. For `kernels`, it has the number of kernels, and the first of them with
    /// the URIs of their code objects.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.condition, self.reason)
    }
}

/// The result of looking for something to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Some device code.
    Something,
    /// No device code.
    Nothing,
    /// Only libraries whose device code is in kpack archives, which were not searched.
    Elsewhere,
    /// Device code that does not record the numbers of one of the conditions or, for two versions of files, of any.
    Unrecorded,
}

/// Splits a condition after its name, which has letters, dashes and underscores.
pub(super) fn word_and_rest(text: &str) -> (&str, &str) {
    let is_of_name = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
    text.split_at(text.find(|c| !is_of_name(c)).unwrap_or(text.len()))
}

/// Returns the name that a misspelled one may mean: a name that differs only in case and separators, or else the first
/// name that begins with the typed letters, or has one letter more, less or wrong, or two swapped.
pub(super) fn nearest_name<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let typed = letters(typed);
    if typed.len() < 3 {
        return None;
    }
    let mut near = None;
    for name in names {
        let plain = letters(name);
        if plain == typed {
            return Some(name);
        }
        if near.is_none() && (plain.starts_with(&typed) || strsim::osa_distance(&typed, &plain) <= 1) {
            near = Some(name);
        }
    }
    near
}

/// Returns the letters of a name, in lower case.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect()
}
