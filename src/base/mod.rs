//! The foundation of all parts: bytes, errors, input and output, compression, and bundle entry IDs. Nothing here knows
//! a container.

pub(crate) mod bytes;
#[macro_use]
pub(crate) mod codec;
pub mod display;
pub mod error;
pub mod id;
pub mod io;
pub(crate) mod malformed;
#[cfg(test)]
pub(crate) mod testing;
pub mod threads;
