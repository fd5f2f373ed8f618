//! The error of the readers of bitcode.

/// The error for bytes that are not bitcode, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotBitcode(pub(crate) &'static str);

pub(super) type Result<T, E = NotBitcode> = std::result::Result<T, E>;
