//! Short names in tables: the parts that all names have in common, and names of files.

use std::collections::HashSet;

use crate::beyond::base::text::{common_directory, file_name};

/// The beginning and the end that several names have in common. A table writes them once, in its heading, and leaves
/// them out of each name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommonParts {
    pub(crate) beginning: String,
    pub(crate) end: String,
}

impl CommonParts {
    /// Returns the parts that all names have in common. Each part ends at a separator, so that no word and no version
    /// is cut, and something is left of each name. A single name loses its directories.
    pub(crate) fn of<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Self {
        let mut others = names.clone();
        let Some(first) = others.next() else { return Self::default() };
        let (mut beginning, mut end) = (first, first);
        let mut is_single = true;
        for name in others {
            is_single = false;
            beginning = common_beginning(beginning, name);
            end = common_end(end, name);
        }
        if is_single {
            return Self::directories_of(first);
        }
        beginning = beginning.get(..end_of_last_separator(beginning)).unwrap_or_default();
        end = end.get(start_of_first_separator(end)..).unwrap_or_default();
        // The shortest name must keep something between the common parts.
        let shortest = names.map(str::len).min().unwrap_or_default();
        if beginning.len() + end.len() >= shortest {
            end = "";
        }
        if beginning.len() >= shortest || !has_word(beginning) {
            beginning = "";
        }
        // An end without a word is kept only for the closing parenthesis of `package(member)`, if the beginning has the
        // opening one.
        if !has_word(end) {
            end = if beginning.contains('(') && end.ends_with(')') { ")" } else { "" };
        }
        Self { beginning: beginning.to_owned(), end: end.to_owned() }
    }

    /// Returns the parts to leave out of a single name: its directories, or for `package(directory/member)` everything
    /// around the last part of the member. Returns no parts if the name has neither.
    fn directories_of(name: &str) -> Self {
        let Some(at) = name.trim_end_matches('/').rfind(['/', '(']) else { return Self::default() };
        let (beginning, rest) = name.split_at(at.saturating_add(1));
        let is_member = beginning.contains('(') && rest.len() > 1 && rest.ends_with(')');
        let end = if is_member { ")" } else { "" };
        Self { beginning: beginning.to_owned(), end: end.to_owned() }
    }

    /// Returns whether nothing is left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.beginning.is_empty() && self.end.is_empty()
    }

    /// Returns a name without the common parts.
    pub(crate) fn remove_from<'n>(&self, name: &'n str) -> &'n str {
        let name = name.strip_prefix(self.beginning.as_str()).unwrap_or(name);
        name.strip_suffix(self.end.as_str()).unwrap_or(name)
    }

    /// Returns the pattern of the names, with `*` for the part of each that a table shows.
    pub(crate) fn pattern(&self) -> String {
        format!("{}*{}", self.beginning, self.end)
    }
}

/// How much of the name of a wheel is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameOfWheel {
    /// The name of the distribution, if no other file has it.
    Short,
    /// The version too.
    WithVersion,
}

/// Returns the shortest names that tell files apart: the first parts of the names of wheels, the names of files, or
/// paths without the directories that all have in common.
pub(crate) fn short_names(paths: &[&str], name_of_wheel: NameOfWheel) -> Vec<String> {
    let common_len = common_directory(paths.iter().copied());
    // From the shortest form of a name to the longest. The second argument is the length of the common directories.
    let forms: [fn(&str, usize) -> String; 4] = [
        |path, _| part_of_wheel(&file_name(path.as_ref()), 1),
        |path, _| part_of_wheel(&file_name(path.as_ref()), 2),
        |path, _| file_name(path.as_ref()),
        |path, common_len| path.get(common_len..).unwrap_or(path).to_owned(),
    ];
    let first_form = if name_of_wheel == NameOfWheel::Short { 0 } else { 1 };
    let mut names = Vec::new();
    for form in forms.into_iter().skip(first_form) {
        names = paths.iter().map(|path| form(path, common_len)).collect();
        if names.iter().collect::<HashSet<_>>().len() == paths.len() {
            break;
        }
    }
    names
}

/// Returns the first parts of the name of a wheel, `NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl`, see PEP 427. The
/// names of other files stay whole.
fn part_of_wheel(name: &str, parts: usize) -> String {
    let all: Vec<&str> = name.split('-').collect();
    match all.get(..parts) {
        Some(first) if name.ends_with(".whl") && all.len() >= 5 => first.join("-"),
        _ => name.to_owned(),
    }
}

/// Returns whether a text has a word, and not only punctuation, whose removal would not make a table clearer.
fn has_word(text: &str) -> bool {
    text.contains(|c: char| c.is_alphanumeric())
}

/// Returns the beginning of `one`, in whole characters, that `other` has too.
fn common_beginning<'n>(one: &'n str, other: &str) -> &'n str {
    let mut length = 0;
    for ((at, c), other) in one.char_indices().zip(other.chars()) {
        if c != other {
            break;
        }
        length = at.saturating_add(c.len_utf8());
    }
    one.get(..length).unwrap_or_default()
}

/// Returns the end of `one`, in whole characters, that `other` has too.
fn common_end<'n>(one: &'n str, other: &str) -> &'n str {
    let mut start = one.len();
    for ((at, c), other) in one.char_indices().rev().zip(other.chars().rev()) {
        if c != other {
            break;
        }
        start = at;
    }
    one.get(start..).unwrap_or_default()
}

/// Returns the length of a text up to its last separator: an ASCII character that is not a letter, digit or point. The
/// separator is included. A point may be inside a version.
fn end_of_last_separator(text: &str) -> usize {
    match text.rfind(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '.') {
        Some(at) => at.saturating_add(1),
        None => 0,
    }
}

/// Returns the position of the first separator in a text, or the length of the text. A point is a separator too, as
/// in `.so`, unless a digit follows: then it is part of a version.
fn start_of_first_separator(text: &str) -> usize {
    for (at, c) in text.char_indices() {
        let next = text.get(at.saturating_add(1)..).unwrap_or_default();
        let is_in_version = c == '.' && next.starts_with(|c: char| c.is_ascii_digit());
        if c.is_ascii() && !c.is_ascii_alphanumeric() && !is_in_version {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_tell_files_apart() {
        let [one, newer, other] =
            ["a/b/k-1-py3-none-any.whl", "a/k-2-1-py3-none-linux_x86_64.whl", "a/c/l-1.0-py3-none-any.whl"];
        for (paths, short, with_version) in [
            (&[one, other][..], &["k", "l"][..], &["k-1", "l-1.0"][..]),
            (&[one, newer, other], &["k-1", "k-2", "l-1.0"], &["k-1", "k-2", "l-1.0"]),
            (&["x/a.so", one], &["a.so", "k"], &["a.so", "k-1"]),
            (&["x/y/a.so", "x/z/a.so"], &["y/a.so", "z/a.so"], &["y/a.so", "z/a.so"]),
            (&["no-wheel.whl"], &["no-wheel.whl"], &["no-wheel.whl"]),
            (&[], &[], &[]),
        ] {
            assert_eq!(short_names(paths, NameOfWheel::Short), short, "{paths:?}");
            assert_eq!(short_names(paths, NameOfWheel::WithVersion), with_version, "{paths:?}");
        }
    }

    #[test]
    fn common_parts_end_between_words_and_leave_something_of_each_name() {
        for (names, beginning, end) in [
            (&["w.whl(b/lib_cuda118.so)", "w.whl(b/lib_cuda121.so)"][..], "w.whl(b/lib_", ".so)"),
            (&["libcublas.so.12", "libcusparse.so.12"], "", ".so.12"),
            (&["cuda-12.1", "cuda-12.8"], "cuda-", ""),
            (&["libé1.so", "libé2.so"], "", ".so"),
            (&["a_b", "a_b_c"], "a_", ""),
            (&["a_", "a_b"], "", ""),
            (&["x-y", "x-z-y"], "x-", ""),
            (&["v.whl(a.so)", "w.whl(b.so)"], "", ".so)"),
            (&["v.whl(a)", "w.whl(b)"], "", ""),
            (&["v.whl(a/)", "v.whl(b/)"], "v.whl(", ")"),
            (&["v.whl(a)", "v.whl(b)"], "v.whl(", ")"),
            (&["w.whl(a/b/lib.so.1)"], "w.whl(a/b/", ")"),
            (&["lib.so"], "", ""),
            (&["dir/"], "", ""),
            (&["./"], "", ""),
            (&[], "", ""),
        ] {
            let common = CommonParts::of(names.iter().copied());
            assert_eq!((common.beginning.as_str(), common.end.as_str()), (beginning, end), "{names:?}");
            for name in names {
                let cut = common.remove_from(name);
                assert!(!cut.is_empty(), "{names:?}");
                assert_eq!(common.pattern().replace('*', cut), **name, "{names:?}");
            }
        }
    }
}
