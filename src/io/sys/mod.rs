//! What differs between systems: a module for each, with the same functions. Nothing else asks for which system it is
//! built.
//!
//! On Windows a file cannot be removed or written over while it is mapped, but it can be renamed. So an output that
//! replaces an input exchanges its name with it, and the old file is removed when it is no longer mapped.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
