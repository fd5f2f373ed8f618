//! What all command lines print with: messages, progress, tables, JSON.

pub(super) mod console;
pub(super) mod json;
pub(super) mod problem;
pub(super) mod progress;
pub(super) mod stdout;
pub(super) mod table;
pub(super) mod text;
pub(super) mod units;
