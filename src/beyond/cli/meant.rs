//! The products that an incomplete or misspelled name may mean.

use std::collections::BTreeSet;

use crate::beyond::products::{all, is_counted, other_names, plain, words};

/// Returns the products that an incomplete or wrong name may mean, each with its processors, the older generations of
/// each vendor first: the products whose names have the typed part, or else those that differ least in their words. A
/// name without a number may have one wrong letter.
pub(super) fn meant(typed: &str) -> Vec<(String, &'static str)> {
    let mut found = with_part(typed);
    if found.is_empty() {
        found = with_nearest_words(typed);
    }
    let mut meant: Vec<(String, &str)> =
        found.into_iter().map(|(processor, name)| (processor.to_owned(), name)).collect();
    let typed = plain(typed);
    if typed.len() >= LETTERS_MIN && !typed.contains(|c: char| c.is_ascii_digit()) {
        let is_near = |name: &&str| strsim::osa_distance(&plain(name), &typed) == 1;
        for (processor, names) in all() {
            meant.extend(names.iter().copied().filter(is_near).map(|name| (processor.to_owned(), name)));
        }
        let others = other_names().filter(|(name, _)| is_near(name));
        meant.extend(others.map(|(name, processors)| (processors.join(", "), name)));
    }
    meant
}

/// The least number of letters in a name that may have a wrong one.
const LETTERS_MIN: usize = 6;

/// The largest number of words in which a name may differ from that of a product: one is missing and another added.
const WORDS_MAX: usize = 2;

/// Returns the products that have all numbers of a name and differ least in its other words: RX 7900 XTX for
/// `RTX 7900 XTX`, RTX PRO 6000 for `RTX 6000 Pro`, RTX 4090 for `RTX 4090Ti`.
fn with_nearest_words(typed: &str) -> Vec<(&'static str, &'static str)> {
    let typed = compared_words(typed);
    let has_number = |word: &&String| word.contains(|c: char| c.is_ascii_digit());
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut least = WORDS_MAX;
    if !typed.iter().any(|word| has_number(&word)) {
        return found;
    }
    for (processor, names) in all() {
        for name in names {
            let own = compared_words(name);
            let different: Vec<&String> = typed.symmetric_difference(&own).collect();
            if different.iter().any(has_number) || different.len() > least {
                continue;
            }
            if different.len() < least {
                found.clear();
                least = different.len();
            }
            found.push((processor, name));
        }
    }
    found
}

/// Returns the words of a name that count. A word of letters that follows a number without a space, such as `Ti` in
/// `4090Ti`, is one of its own; a single letter belongs to the number, because it names another product: RX 6800S.
fn compared_words(name: &str) -> BTreeSet<String> {
    let name = name.to_ascii_lowercase();
    let mut all = BTreeSet::new();
    for word in words(&name).filter(|word| is_counted(word)) {
        let letters = word.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_split =
            letters.len() > 1 && letters.len() < word.len() && !letters.contains(|c: char| c.is_ascii_digit());
        let (number, letters) = if is_split { word.split_at(word.len() - letters.len()) } else { (word, "") };
        all.extend([number, letters].into_iter().filter(|part| !part.is_empty()).map(str::to_owned));
    }
    all
}

/// Returns the products that an incomplete name may mean: MI300X and MI300A for `MI300`, RTX 5090 for `5090`, Quadro RTX 4000 and RTX 4000 Ada for `RTX 4000`. Numbers
/// must be complete: `50` does not mean RTX 5090. A name without a number means no product.
fn with_part(typed: &str) -> Vec<(&'static str, &'static str)> {
    let part = plain(typed);
    let mut found = Vec::new();
    if !part.contains(|c: char| c.is_ascii_digit()) {
        return found;
    }
    for (processor, names) in all() {
        for name in names {
            if has_part(&plain(name), &part) {
                found.push((processor, *name));
            }
        }
    }
    found
}

/// Whether `name` contains `part` without cutting a number. Only the first occurrence counts: it must not begin inside
/// of a number, and no digit may follow it.
fn has_part(name: &str, part: &str) -> bool {
    let Some((before, after)) = name.split_once(part) else { return false };
    let begins_inside_number =
        part.starts_with(|c: char| c.is_ascii_digit()) && before.ends_with(|c: char| c.is_ascii_digit());
    let is_before_digit = after.starts_with(|c: char| c.is_ascii_digit());
    !begins_inside_number && !is_before_digit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_has_the_products_that_differ_least() {
        for (typed, names) in [
            ("RTX 7900 XTX", &["Radeon RX 7900 XTX"][..]),
            ("RTX 4090Ti", &["GeForce RTX 4090"]),
            ("RTX 6000 Pro", &["RTX PRO 6000"]),
            ("RTX 1660", &["GeForce GTX 1660"]),
            ("Arc B580 XT", &["Arc B580"]),
            // One letter after the number is another product, with another processor.
            ("RX 6800S", &[]),
            ("GeForce GTX 960M", &[]),
            ("RTX 5095", &[]),
            ("Jetson Orinn", &["Jetson Orin NX", "Jetson Orin"]),
            ("meteorlak", &["Meteor Lake"]),
            ("Jetson", &[]),
            ("RTX", &[]),
            ("", &[]),
        ] {
            let found: Vec<&str> = meant(typed).into_iter().map(|(_, name)| name).collect();
            assert_eq!(found, names, "{typed}");
        }
    }

    #[test]
    fn an_incomplete_name_has_the_products_with_its_number() {
        for (typed, names) in [
            ("MI300", &["Instinct MI300X", "Instinct MI300A"][..]),
            ("mi-308", &["Instinct MI308X"]),
            ("5090", &["GeForce RTX 5090"]),
            ("7900 gre", &["Radeon RX 7900 GRE"]),
            ("RTX 4000", &["Quadro RTX 4000", "RTX 4000 Ada"]),
            ("A1000", &["RTX A1000"]),
            ("509", &[]),
            ("90", &[]),
            ("RTX", &[]),
            ("", &[]),
        ] {
            let found: Vec<&str> = with_part(typed).into_iter().map(|(_, name)| name).collect();
            assert_eq!(found, names, "{typed}");
        }
    }
}
