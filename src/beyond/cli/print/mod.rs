//! What our subcommands print with: tables, pictures of numbers, JSON.

pub(super) mod json;
pub(super) mod problem;
pub(super) mod table;
pub(super) mod text;
pub(super) mod units;
