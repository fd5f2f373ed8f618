//! Messages, progress and standard output, for all command lines.

pub(crate) mod console;
pub(crate) mod progress;
pub(crate) mod stdout;
pub(crate) mod units;
