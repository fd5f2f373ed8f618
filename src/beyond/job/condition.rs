//! What conditions say of reports: those of `--fail-on`, which `kernels` and `diff` have.

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
