//! Messages and standard output, for all command lines.

pub(crate) mod console;
pub(crate) mod stdout;
