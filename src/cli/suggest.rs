//! Suggests the option that a misspelt one may have meant.
//!
//! As in LLVM 22.1.8, the nearest name by edit distance is suggested, however distant it is, together with the typed
//! value. An option of our own is suggested only if the edit distance is less than half the length of its name;
//! otherwise the suggestion is LLVM's.

use super::options::{Category, Row};

/// The option nearest to `typed` (without its dashes), in the form to type.
pub(super) fn nearest(rows: &[Row], typed: &[u8]) -> Option<Vec<u8>> {
    if typed.is_empty() {
        return None;
    }
    let mut halves = typed.splitn(2, |&byte| byte == b'=');
    let name = halves.next().unwrap_or_default();
    let value = halves.next().unwrap_or_default();
    // For an option without a value, the value is part of the mistake, so the whole word is compared.
    let distance_to = |row: &Row| distance(row.name.as_bytes(), if row.takes_value() { name } else { typed });
    let offered = |row: &&Row| row.category != Category::Own || distance_to(row) * 2 < row.name.len();
    let candidates = rows.iter().filter(|row| row.turn.is_some()).filter(offered);
    let best = candidates.min_by_key(|row| (distance_to(row), row.turn))?;

    let mut spelling = best.name.as_bytes().to_vec();
    if best.takes_value() && !value.is_empty() {
        spelling.push(b'=');
        spelling.extend_from_slice(value);
    }
    // An option of one letter gets two dashes if a value follows.
    let dashes: &[u8] = if spelling.len() == 1 { b"-" } else { b"--" };
    Some([dashes, &spelling].concat())
}

/// The edit distance in bytes: insertions, removals and replacements.
pub(super) fn distance(from: &[u8], to: &[u8]) -> usize {
    strsim::generic_levenshtein(&from.to_vec(), &to.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{bundler, packager};

    fn suggestion_of(rows: &[Row], typed: &str) -> String {
        String::from_utf8(nearest(rows, typed.as_bytes()).unwrap_or_default()).unwrap()
    }

    fn suggestion(typed: &str) -> String {
        suggestion_of(bundler::TOOL.rows, typed)
    }

    #[test]
    fn distances_count_single_bytes() {
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"abc", b""), 3);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"list", b"list"), 0);
        assert_eq!(distance(b"list", b"lits"), 2);
    }

    #[test]
    fn the_first_of_the_nearest_wins() {
        assert_eq!(suggestion("typ"), "--type");
        assert_eq!(suggestion("x"), "--###");
        assert_eq!(suggestion("lp"), "--help");
        assert_eq!(suggestion("inpu"), "--input");
    }

    #[test]
    fn options_of_one_letter_have_one_dash_unless_a_value_follows() {
        let suggestion = |typed| suggestion_of(packager::TOOL.rows, typed);
        assert_eq!(suggestion("x"), "-o");
        assert_eq!(suggestion("x=y"), "--o=y");
    }

    #[test]
    fn our_own_options_must_be_near_and_come_behind_equally_near_ones() {
        let suggestion = |typed| suggestion_of(packager::TOOL.rows, typed);
        assert_eq!(suggestion("compres=zlib"), "--compress=zlib");
        assert_eq!(suggestion("zma-version"), "--version");
        assert_eq!(suggestion("xmat-version=2"), "--format-version=2");
        assert_eq!(suggestion("nonsense"), "--help");
    }

    #[test]
    fn the_value_goes_along_where_one_may_stand() {
        assert_eq!(suggestion("typ=x"), "--type=x");
        assert_eq!(suggestion("x=foo=bar"), "--###=foo=bar");
        assert_eq!(suggestion("foo="), "--###");
        assert_eq!(suggestion("elpp=3"), "--type=3");
        assert_eq!(suggestion("-help=3"), "--help");
    }

    #[test]
    fn options_the_reference_lacks_are_not_offered() {
        assert_eq!(suggestion("debug-onl=x"), "--unbundle=x");
        assert_eq!(suggestion(""), "");
    }
}
