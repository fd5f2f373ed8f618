//! Suggests the option of a tool that a misspelled one may have meant.
//!
//! As in LLVM 22.1.8, the nearest name by edit distance is suggested, however distant it is, together with the typed
//! value. Options that LLVM's tool lacks are not suggested.

use clap::{Arg, Command};

use super::options::{llvm_lacks, name_of, takes_value};

/// Returns the option nearest to `typed` (without its dashes), in the form to type, or `None` if nothing is typed.
pub(crate) fn nearest(command: &Command, typed: &[u8]) -> Option<Vec<u8>> {
    if typed.is_empty() {
        return None;
    }
    let mut halves = typed.splitn(2, |&byte| byte == b'=');
    let typed_name = halves.next().unwrap_or_default();
    let value = halves.next().unwrap_or_default();
    let mut best: Option<(&Arg, usize)> = None;
    for arg in command.get_opts() {
        let name = name_of(arg);
        // As in LLVM, hidden options are not suggested either.
        if arg.is_hide_set() || llvm_lacks(arg) {
            continue;
        }
        // For an option without a value, the value is part of the mistake, so the whole word is compared.
        let arg_distance = distance(name.as_bytes(), if takes_value(arg) { typed_name } else { typed });
        // Among equally near options, the first in the definition wins.
        match best {
            Some((_, least)) if least <= arg_distance => {}
            _ => best = Some((arg, arg_distance)),
        }
    }
    let (nearest_arg, _) = best?;
    Some(form_to_type(nearest_arg, value))
}

/// Returns the option in the form to type, with the typed value if it takes one.
fn form_to_type(arg: &Arg, value: &[u8]) -> Vec<u8> {
    let mut spelling = name_of(arg).into_bytes();
    if takes_value(arg) && !value.is_empty() {
        spelling.push(b'=');
        spelling.extend_from_slice(value);
    }
    // As in LLVM, an option of one letter gets two dashes if a value follows.
    let dashes: &[u8] = if spelling.len() == 1 { b"-" } else { b"--" };
    [dashes, &spelling].concat()
}

/// The edit distance in bytes, as LLVM counts: insertions, removals and replacements.
pub(crate) fn distance(from: &[u8], to: &[u8]) -> usize {
    strsim::generic_levenshtein(&from.to_vec(), &to.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::cli::options::Tool;
    use crate::llvm::cli::{bundler, packager};

    fn suggestion_of(tool: &Tool, typed: &str) -> String {
        String::from_utf8(nearest(&tool.command(), typed.as_bytes()).unwrap_or_default()).unwrap()
    }

    fn suggestion(typed: &str) -> String {
        suggestion_of(bundler::TOOL, typed)
    }

    fn packager_suggestion(typed: &str) -> String {
        suggestion_of(packager::TOOL, typed)
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
        assert_eq!(packager_suggestion("x"), "-o");
        assert_eq!(packager_suggestion("x=y"), "--o=y");
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
        assert_eq!(suggestion("max-siz"), "--list");
        assert_eq!(suggestion(""), "");
    }
}
