//! Offload binaries.

/// The version of an offload binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
    /// Version 3.
    V3,
}

/// Which number stands for HIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HipNumber {
    /// 4.
    Current,
    /// 3.
    Old,
}
