//! Patterns with the wildcards `*`, `?` and `[...]`. A name is compared only with patterns that it may match.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The characters that begin a wildcard: `*`, `?` and `[...]`.
pub(crate) const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Patterns, each with a number that its caller gives it, and an index to find the patterns that a name may match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globs {
    /// The patterns by the lengths of their fixed ends, which are the texts before the first wildcard and after the
    /// last one, and then by these two texts in one.
    by_ends: BTreeMap<(usize, usize), HashMap<String, SameEnds>>,
}

/// Patterns whose fixed ends are the same two texts.
#[derive(Clone, Debug, Default)]
struct SameEnds {
    /// The patterns with their numbers.
    globs: Vec<(usize, glob::Pattern)>,
    /// The positions of patterns in `globs`, by the inner text of each: the longest text without wildcards in it.
    by_inner: HashMap<String, Vec<usize>>,
    /// The lengths of the texts in `by_inner`.
    inner_lens: BTreeSet<usize>,
}

impl Globs {
    /// Adds a pattern and its number.
    pub(crate) fn add(&mut self, number: usize, pattern: glob::Pattern) {
        let text = pattern.as_str();
        // `**/` may also match nothing, together with its slash, so the texts around it are not fixed.
        let parts = if text.contains("**") { None } else { fixed_parts(text) };
        // Empty texts are in every name, so a pattern without fixed texts is compared with every name.
        let (before, inner, after) = parts.unwrap_or_default();
        let (lens, ends, inner) = ((before.len(), after.len()), [before, after].concat(), inner.to_owned());
        let group = self.by_ends.entry(lens).or_default().entry(ends).or_default();
        group.inner_lens.insert(inner.len());
        group.by_inner.entry(inner).or_default().push(group.globs.len());
        group.globs.push((number, pattern));
    }

    /// Returns whether there are no patterns.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_ends.is_empty()
    }

    /// Returns the numbers of the patterns that match the whole of a name.
    pub(crate) fn matching(&self, name: &str) -> Vec<usize> {
        let mut numbers = Vec::new();
        for ((before_len, after_len), by_ends) in &self.by_ends {
            // Each group is for one pair of fixed ends, the texts before the first wildcard and after the last. So the
            // ends of the name, cut to the same lengths, lead to the only group that can match. No pattern with these
            // lengths matches a name that is shorter, or that has a character of several bytes where an end is cut.
            let Some((start, rest)) = name.split_at_checked(*before_len) else { continue };
            let Some(end_at) = rest.len().checked_sub(*after_len) else { continue };
            let Some(end) = rest.get(end_at..) else { continue };
            if let Some(group) = by_ends.get(&[start, end].concat()) {
                group.add_matching(name, &mut numbers);
            }
        }
        numbers
    }
}

impl SameEnds {
    /// Adds the numbers of the patterns that match a name, which begins and ends with the fixed ends of these patterns.
    fn add_matching(&self, name: &str, numbers: &mut Vec<usize>) {
        // `positions_in` looks up the part of each inner length at each byte of the name. Looking up one part takes
        // about as long as comparing one pattern. So all patterns are compared, unless there are fewer parts.
        let lookups = self.inner_lens.len().saturating_mul(name.len());
        if self.globs.len() <= lookups {
            for (number, pattern) in &self.globs {
                if pattern.matches(name) {
                    numbers.push(*number);
                }
            }
            return;
        }
        for position in self.positions_in(name) {
            match self.globs.get(position) {
                Some((number, pattern)) if pattern.matches(name) => numbers.push(*number),
                _ => {}
            }
        }
    }

    /// Returns the positions in `globs` of the patterns whose inner text is in a name.
    fn positions_in(&self, name: &str) -> BTreeSet<usize> {
        let mut positions = BTreeSet::new();
        for len in &self.inner_lens {
            for start in 0..=name.len() {
                if let Some(part) = name.get(start..start.saturating_add(*len))
                    && let Some(found) = self.by_inner.get(part)
                {
                    positions.extend(found);
                }
            }
        }
        positions
    }
}

/// Returns the text before the first wildcard, the longest text without wildcards, and the text after the last
/// wildcard. Returns `None` if the pattern has no wildcards. Text between brackets is not in every name that the
/// pattern matches, so the longest text is looked for only before the first bracket.
fn fixed_parts(pattern: &str) -> Option<(&str, &str, &str)> {
    let (before, _) = pattern.split_once(WILDCARDS)?;
    let (_, after) = pattern.rsplit_once(['*', '?', ']'])?;
    let inner = pattern.split('[').next()?.split(['*', '?']).max_by_key(|text| text.len())?;
    Some((before, inner, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all texts of up to `len` of some letters.
    fn texts(letters: &[&str], len: usize) -> Vec<String> {
        let (mut all, mut from) = (vec![String::new()], 0);
        for _ in 0..len {
            let to = all.len();
            for index in from..to {
                all.extend(letters.iter().map(|letter| all[index].clone() + letter).collect::<Vec<_>>());
            }
            from = to;
        }
        all
    }

    #[test]
    fn the_same_patterns_match_together_and_one_by_one() {
        let patterns: Vec<glob::Pattern> = texts(&["a", "é", "*", "?", "[a]", "[!*]", "]", "/", "**/"], 4)
            .iter()
            .filter_map(|text| glob::Pattern::new(text).ok())
            .collect();
        assert!(patterns.len() > 2000);
        let mut globs = Globs::default();
        for (number, pattern) in patterns.iter().enumerate() {
            globs.add(number, pattern.clone());
        }
        for name in texts(&["a", "é", "*", "]", "/"], 4) {
            let mut matching = globs.matching(&name);
            matching.sort_unstable();
            let mut one_by_one: Vec<usize> = (0..patterns.len()).collect();
            one_by_one.retain(|number| patterns[*number].matches(&name));
            assert_eq!(matching, one_by_one, "{name}");
        }
        assert!(!globs.is_empty() && Globs::default().is_empty());
    }
}
