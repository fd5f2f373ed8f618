//! Code objects by themselves: their kind, their target, whether they are intact, and their kernels.
//!
//! Nothing here knows containers around a code object, or files.

pub(crate) mod check;
mod intel_gpu;
pub mod kernels;
mod kind;
pub(crate) mod target;

pub use kind::ContentKind;
