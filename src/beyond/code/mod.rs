//! Code objects by themselves: their kind, their target, whether they are intact, and their kernels.
//!
//! Nothing here knows containers around a code object, or files.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod check;
pub(crate) mod elf;
pub(crate) mod gpu_header;
mod intel_gpu;
pub mod kernels;
pub(crate) mod target;
pub(crate) mod undefined;
