//! The products that an incomplete or misspelled name may mean.

use std::collections::BTreeSet;

use crate::beyond::products::{all, is_counted, other_names, plain, words};

/// Returns the products that an incomplete or wrong name may mean, each with its processors, the older generations of
/// each vendor first: the products whose names have the typed words, or else the typed part. Without any, those that
/// differ least in their words, and those with one wrong letter.
pub(super) fn meant(typed: &str) -> Vec<(String, &'static str)> {
    let with_part = with_part(typed);
    let words = compared_words(typed);
    let with_words: Vec<_> =
        with_part.iter().copied().filter(|(_, name)| words.is_subset(&compared_words(name))).collect();
    let is_exact = !with_words.is_empty();
    let found = match () {
        () if is_exact => with_words,
        () if !with_part.is_empty() => with_part,
        () => with_nearest_words(typed),
    };
    let mut meant: Vec<(String, &str)> =
        found.into_iter().map(|(processor, name)| (processor.to_owned(), name)).collect();
    let (typed, whole) = (plain(typed), letters_and_digits(typed));
    let least = if digits(&typed).is_empty() { LETTERS_MIN } else { WITH_DIGITS_MIN };
    if is_exact || typed.len() < least {
        return meant;
    }
    let products = all().flat_map(|(processor, names)| names.iter().map(move |name| (processor.to_owned(), *name)));
    let others = other_names().map(|(name, processors)| (processors.join(", "), name));
    for (processors, name) in products.chain(others) {
        // The wrong letter may be in a word that does not count, such as Radeon.
        let is_near =
            has_one_wrong_letter(&typed, &plain(name)) || has_one_wrong_letter(&whole, &letters_and_digits(name));
        if is_near && meant.iter().all(|(_, other)| *other != name) {
            meant.push((processors, name));
        }
    }
    meant
}

/// The least length of a name that may have a wrong letter: of one without digits, and of one with digits.
const LETTERS_MIN: usize = 6;
const WITH_DIGITS_MIN: usize = 4;

/// Returns whether two names differ in one letter. A letter more after a number makes another product: RX 6800S.
fn has_one_wrong_letter(one: &str, other: &str) -> bool {
    if strsim::osa_distance(one, other) != 1 || digits(one) != digits(other) {
        return false;
    }
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let longer = if one.len() > other.len() { one } else { other };
    let (before, after) = longer.split_at_checked(same).unwrap_or_default();
    let ends_number = before.ends_with(|c: char| c.is_ascii_digit())
        && !after.chars().nth(1).is_some_and(|next| next.is_ascii_alphabetic());
    one.len() == other.len() || !ends_number
}

fn letters_and_digits(name: &str) -> String {
    words(name).collect::<String>().to_ascii_lowercase()
}

fn digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}

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
    use crate::beyond::products::processors;

    #[test]
    fn a_wrong_name_has_the_products_that_differ_least() {
        for (typed, names) in [
            ("RTX 7900 XTX", &["Radeon RX 7900 XTX"][..]),
            ("RTX 4090Ti", &["GeForce RTX 4090"]),
            ("RTX 6000 Pro", &["RTX PRO 6000"]),
            ("RTX 1660", &["GeForce GTX 1660"]),
            ("Arc B580 XT", &["Arc B580"]),
            // One letter after the number is another product, with another processor.
            ("RX 6900S", &[]),
            ("GeForce GTX 1080M", &[]),
            ("RTX 5095", &[]),
            ("NI300X", &["Instinct MI300X"]),
            ("L40Q", &["L40S"]),
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
            ("7900 XT", &["Radeon RX 7900 XT"]),
            ("9070XT", &["Radeon RX 9070 XT"]),
            ("6000 Ada", &["RTX 6000 Ada"]),
            ("4090 D", &["GeForce RTX 4090"]),
            ("509", &[]),
            ("90", &[]),
            ("RTX", &[]),
            ("", &[]),
        ] {
            let found: Vec<&str> = meant(typed).into_iter().map(|(_, name)| name).collect();
            assert_eq!(found, names, "{typed}");
        }
    }

    /// Each product is suggested if one letter of its name is wrong or missing, unless the result is a name itself, or
    /// all of it is in the names that are suggested.
    #[test]
    fn a_name_with_one_wrong_letter_has_its_product() {
        for (_, names) in all() {
            for name in names {
                for (at, _) in name.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()) {
                    for letter in ["", "q"] {
                        let typed = [&name[..at], letter, &name[at + 1..]].concat();
                        let least = if digits(&typed).is_empty() { LETTERS_MIN } else { WITH_DIGITS_MIN };
                        if plain(&typed).len() < least || processors(&typed).is_some() {
                            continue;
                        }
                        let meant: Vec<&str> = meant(&typed).into_iter().map(|(_, name)| name).collect();
                        let words = compared_words(&typed);
                        let is_exact =
                            !meant.is_empty() && meant.iter().all(|name| words.is_subset(&compared_words(name)));
                        assert!(is_exact || meant.contains(name), "{typed}: {meant:?}, not {name}");
                    }
                }
            }
        }
    }
}
