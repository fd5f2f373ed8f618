//! The output of our subcommands: tables, JSON, and numbers for people.

pub(super) mod json;
pub(super) mod names;
pub(super) mod out;
pub(super) mod problem;
pub(super) mod progress;
pub(super) mod table;
pub(super) mod text;
pub(super) mod units;
