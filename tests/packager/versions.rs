//! Later.
use super::harness::{Report, Tools};
pub fn compare(_: &mut Report, _: &Tools) {}
