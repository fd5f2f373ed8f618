//! Names of kernels that are similar to a typed one, for the error that no kernel has the typed name.

use std::collections::{BTreeMap, BTreeSet};

use super::kernel_names::EXACT;
use crate::base::display::{alternatives, printable, printable_start};
use crate::beyond::globs::WILDCARDS;

/// The number of similar names that are kept for each typed name.
const KEPT_MAX: usize = 3;

/// The longest function name that is compared letter by letter, in bytes. The time for a comparison grows with the
/// square of it.
const COMPARED_MAX: usize = 64;

/// The longest name of a kernel that is suggested as a whole, in characters.
const WHOLE_MAX: usize = 80;

/// A typed name, prepared for comparisons with names of kernels.
#[derive(Clone, Debug)]
pub(super) struct SoughtName {
    /// Whether only the kernel of exactly this name is meant.
    is_exact: bool,
    /// The longest part without wildcards, in small letters and without white space.
    part: String,
    /// The name of the function in this part, in small letters.
    function: String,
}

impl SoughtName {
    /// Prepares a typed name. Of a name with wildcards, only the longest part without them is compared.
    pub(super) fn new(typed: &str) -> Self {
        let name = typed.strip_prefix(EXACT).unwrap_or(typed);
        let mut longest = "";
        for part in name.split(WILDCARDS) {
            if part.len() > longest.len() {
                longest = part;
            }
        }
        Self {
            is_exact: name.len() < typed.len(),
            part: without_space(longest).to_ascii_lowercase(),
            function: function_name(longest).to_ascii_lowercase(),
        }
    }

    /// Returns how far the name of a kernel is from this name, or `None` if the names are not similar: 0 if the name of
    /// the kernel contains this name, apart from the case of letters, otherwise the number of wrong letters plus 1.
    fn distance(&self, kernel: &str) -> Option<usize> {
        let kernel = kernel.to_ascii_lowercase();
        if !self.part.is_empty() && without_space(&kernel).contains(&self.part) {
            return Some(0);
        }
        let len = self.function.len();
        // An empty name, of wildcards alone, is similar to nothing. The comparison of a long one takes too long.
        if len == 0 || len > COMPARED_MAX {
            return None;
        }
        // One letter in four may be wrong. Three letters at the end count as four.
        let wrong_max = (len + 1) / 4;
        let function = function_name(&kernel);
        // Each letter by which the kernel's name is shorter is wrong.
        if function.len() + wrong_max < len {
            return None;
        }
        let wrong = wrong_letters(self.function.as_bytes(), function.as_bytes());
        if wrong <= wrong_max { Some(wrong + 1) } else { None }
    }

    /// Returns the text to type for a kernel: its function, or its whole name if that has to be exact and is not too
    /// long to type.
    fn suggestion(&self, kernel: &str) -> String {
        if self.is_exact && kernel.chars().count() <= WHOLE_MAX {
            return format!("{EXACT}{}", printable(kernel));
        }
        printable_start(function_name(kernel), WHOLE_MAX)
    }
}

/// The names that are the most similar to each of some typed names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimilarNames {
    /// The names by the index of the typed name, each after its distance, nearest first.
    nearest: BTreeMap<usize, BTreeSet<(usize, String)>>,
}

impl SimilarNames {
    /// Adds the name of a kernel if it is similar to `sought`, the typed name with this index.
    pub(super) fn add(&mut self, index: usize, sought: &SoughtName, kernel: &str) {
        if let Some(distance) = sought.distance(kernel) {
            self.insert(index, distance, sought.suggestion(kernel));
        }
    }

    /// Adds the names of other kernels.
    pub(crate) fn extend(&mut self, more: &Self) {
        for index in more.nearest.keys() {
            self.extend_for(*index, more);
        }
    }

    /// Adds the names of other kernels that are similar to the typed name with this index.
    pub(super) fn extend_for(&mut self, index: usize, more: &Self) {
        for (distance, name) in more.nearest.get(&index).into_iter().flatten() {
            self.insert(index, *distance, name.clone());
        }
    }

    /// Adds a name that is similar to the typed name with this index. Keeps the [`KEPT_MAX`] names nearest to it.
    fn insert(&mut self, index: usize, distance: usize, name: String) {
        let nearest = self.nearest.entry(index).or_default();
        nearest.insert((distance, name));
        if nearest.len() > KEPT_MAX {
            nearest.pop_last();
        }
    }

    /// Returns the question whether one of the names was meant, or `None` if there are no names.
    pub(crate) fn question(&self) -> Option<String> {
        let mut names = Vec::new();
        for (_, name) in self.nearest.values().flatten() {
            let name = format!("'{name}'");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.truncate(KEPT_MAX);
        if names.is_empty() { None } else { Some(format!("did you mean {}?", alternatives(&names))) }
    }
}

pub(super) fn without_space(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// The only namespace with a parenthesis in its name.
const ANONYMOUS: &str = "(anonymous namespace)";

/// Returns the name of the function in the name of a kernel, without its type, namespaces, template arguments and
/// parameters.
fn function_name(kernel: &str) -> &str {
    let kernel = kernel.trim();
    let mut end = 0;
    loop {
        let rest = kernel.get(end..).unwrap_or_default();
        end += rest.find(['<', '(']).unwrap_or(rest.len());
        // An anonymous namespace has a parenthesis in its name, which does not begin the parameters.
        match kernel.get(end..) {
            Some(rest) if rest.starts_with(ANONYMOUS) => end += ANONYMOUS.len(),
            _ => break,
        }
    }
    let qualified = kernel.get(..end).unwrap_or_default();
    qualified.rsplit([' ', ':']).next().unwrap_or_default()
}

/// Returns the smallest Levenshtein distance of a typed name to a prefix of `name`: the number of letters to insert,
/// remove or replace. Prefixes count, so letters that are missing at the end of the typed name are not wrong.
fn wrong_letters(typed: &[u8], name: &[u8]) -> usize {
    // A prefix of more than twice the length is further away than the empty prefix.
    let name = name.get(..2 * typed.len()).unwrap_or(name);
    // The distances of the letters of `typed` so far to each prefix of `name`: a row of the usual table.
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (index, typed_letter) in typed.iter().enumerate() {
        let mut left = index + 1;
        let mut next_row = vec![left];
        for (letter, cells) in name.iter().zip(row.windows(2)) {
            // Windows of two cells match always.
            let [diagonal, above] = *cells else { continue };
            let replaced = if typed_letter == letter { diagonal } else { diagonal + 1 };
            left = replaced.min(above + 1).min(left + 1);
            next_row.push(left);
        }
        row = next_row;
    }
    row.into_iter().min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_similar_if_one_contains_the_other_or_few_letters_differ() {
        let kernel = "void ns::generate_kernel<int>(int*, (anonymous namespace)::state)";
        for (typed, expected) in [
            ("Generate_Kernel", Some(0)),
            ("generate_kernel<int> (int *", Some(0)),
            ("generate_kernel<*", Some(0)),
            ("=generate", Some(0)),
            ("generate_kernal", Some(2)),
            ("genarate", Some(2)),
            ("other::generate_kernel(long*)", Some(1)),
            ("kernel", Some(0)),
            ("gxneratorrr", None),
            ("fill", None),
            ("*", None),
            ("g", Some(0)),
            ("x", None),
        ] {
            assert_eq!(SoughtName::new(typed).distance(kernel), expected, "{typed}");
        }
        let hidden = "(anonymous namespace)::scale(float*)";
        assert_eq!(SoughtName::new("scala").distance(hidden), Some(2));
        assert_eq!(wrong_letters(b"kitten", b"sitting"), 2);
        assert_eq!([wrong_letters(b"", b"ab"), wrong_letters(b"ab", b"")], [0, 2]);
    }

    #[test]
    fn a_question_names_the_nearest_three_functions() {
        let mut similar = SimilarNames::default();
        assert_eq!(similar.question(), None);
        let sought = SoughtName::new("scales");
        for kernel in ["scale1(int)", "void scale<1>()", "other", "void scale<2>()", "rescales(float*)", "scxle22"] {
            similar.add(0, &sought, kernel);
        }
        assert_eq!(similar.question().as_deref(), Some("did you mean 'rescales', 'scale' or 'scale1'?"));
    }

    #[test]
    fn an_exact_name_is_suggested_as_a_whole_unless_it_is_long() {
        let long = format!("fill<{}>()", "x".repeat(WHOLE_MAX));
        for (kernel, expected) in [("fill(int*)", "did you mean '=fill(int*)'?"), (&long, "did you mean 'fill'?")] {
            let mut similar = SimilarNames::default();
            similar.add(0, &SoughtName::new("=fill"), kernel);
            assert_eq!(similar.question().as_deref(), Some(expected));
        }
    }
}
