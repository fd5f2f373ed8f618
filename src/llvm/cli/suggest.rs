//! Suggests the option of a tool that a misspelled one may have meant.
//!
//! As in LLVM 22.1.8, the nearest name by edit distance is suggested, however distant it is, together with the typed
//! value. An option of our own is suggested only if it was misspelled (see [`is_slip`]); otherwise the suggestion is
//! LLVM's.

use clap::{Arg, Command};

use super::options::{is_own, name_of, takes_value};

/// Returns the option nearest to `typed` (without its dashes), in the form to type, or `None` if nothing is typed.
pub(crate) fn nearest(command: &Command, typed: &[u8]) -> Option<Vec<u8>> {
    if typed.is_empty() {
        return None;
    }
    let mut halves = typed.splitn(2, |&byte| byte == b'=');
    let typed_name = halves.next().unwrap_or_default();
    let value = halves.next().unwrap_or_default();
    let mut nearest: Option<(&Arg, usize)> = None;
    for arg in command.get_opts() {
        let name = name_of(arg);
        if arg.is_hide_set() {
            continue;
        }
        // LLVM suggests its nearest option, however far. An option that LLVM lacks must resemble the typed one.
        if is_own(arg) && !is_slip(&String::from_utf8_lossy(typed_name), &name) {
            continue;
        }
        // For an option without a value, the value is part of the mistake, so the whole word is compared.
        let distance = distance(name.as_bytes(), if takes_value(arg) { typed_name } else { typed });
        // Among equally near options, the first in the definition wins.
        match nearest {
            Some((_, least)) if least <= distance => {}
            _ => nearest = Some((arg, distance)),
        }
    }
    let (nearest, _) = nearest?;
    Some(form_to_type(nearest, value))
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

/// Whether `typed` is a misspelled `name`, and not a name for something else, such as `decompress` for `compress`. Both
/// must begin with the same letter, and one letter may be wrong, or two in a long name. Capitals and underscores count
/// as small letters and dashes.
pub(crate) fn is_slip(typed: &str, name: &str) -> bool {
    const SHORT: usize = 8;
    let [typed, name] = [typed, name].map(|name| name.to_ascii_lowercase().replace('_', "-"));
    let most = if name.len() > SHORT { 2 } else { 1 };
    typed.chars().next() == name.chars().next() && strsim::osa_distance(&typed, &name) <= most
}

/// The edit distance in bytes, as LLVM counts: insertions, removals and replacements.
pub(crate) fn distance(from: &[u8], to: &[u8]) -> usize {
    strsim::generic_levenshtein(&from.to_vec(), &to.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::cli::options::{Tool, find_option};
    use crate::llvm::cli::{TOOLS, bundler, packager};

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
    fn our_own_options_must_be_near_and_come_behind_equally_near_ones() {
        for (typed, expected) in [
            ("compres=zlib", "--compress=zlib"),
            ("compression_format=zlib", "--compression-format=zlib"),
            ("compression-fromat=zlib", "--compression-format=zlib"),
            ("fomat-verson=2", "--format-version=2"),
            ("zma-version", "--version"),
            ("nonsense", "--help"),
        ] {
            assert_eq!(packager_suggestion(typed), expected, "{typed}");
        }
    }

    #[test]
    fn no_option_of_our_own_is_suggested_for_something_else() {
        let nouns = ["mode", "method", "type", "threads", "format", "level", "window", "version", "size", "jobs"];
        for tool in TOOLS {
            let command = tool.command();
            let mut typed: Vec<String> = Vec::new();
            for arg in command.get_opts() {
                if !is_own(arg) {
                    continue;
                }
                let own = name_of(arg);
                typed.extend(["de", "un", "re", "no-", "not-"].map(|before| format!("{before}{own}")));
                let first = own.split('-').next().unwrap_or_default();
                typed.extend(nouns.map(|noun| format!("{first}-{noun}")));
            }
            typed.retain(|word| find_option(&command, word.as_bytes()).is_none());
            for word in typed {
                let suggested = suggestion_of(tool, &word);
                let suggested = suggested.trim_start_matches('-');
                if !suggested.is_empty() {
                    let arg = find_option(&command, suggested.as_bytes()).unwrap();
                    assert!(!is_own(arg), "{}: {word} {suggested}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn a_slip_keeps_the_first_letter_and_nearly_all_others() {
        for (typed, name) in [
            ("expct", "expect"),
            ("Target", "target"),
            ("target_list", "target-list"),
            ("recrusiv", "recursive"),
            ("max-szie", "max-size"),
        ] {
            assert!(is_slip(typed, name), "{typed} {name}");
        }
        for (typed, name) in
            [("keeps", "deep"), ("kept", "expect"), ("no-compress", "compressed"), ("window", "kind"), ("", "deep")]
        {
            assert!(!is_slip(typed, name), "{typed} {name}");
        }
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
