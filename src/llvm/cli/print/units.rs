//! Numbers and lists for people.

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use crate::base::display::grouped;

/// Counts by kind. `Display` lists each kind once, with its count.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountsByKind(pub(crate) BTreeMap<&'static str, usize>);

impl fmt::Display for CountsByKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.0.iter().map(|(name, number)| format!("{name} ({number})")).collect();
        f.write_str(&kinds.join(", "))
    }
}
