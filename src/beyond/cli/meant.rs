//! The products that an incomplete or misspelled name may mean.

use crate::beyond::products::{all, other_names, plain};

/// The least length of a name that may have a wrong letter.
const MISSPELLED_MIN: usize = 4;

/// Returns the products that an incomplete or misspelled name may mean, each with its processors, the older generations of
/// each vendor first: MI300X and MI300A for `MI300`, RTX 5090 for `5090`. If no name has the typed part, those with one
/// wrong letter: MI300X for `NI300X`.
pub(super) fn meant(typed: &str) -> Vec<(String, &'static str)> {
    let part = plain(typed);
    let products = || all().flat_map(|(processor, names)| names.iter().map(move |name| (processor.to_owned(), *name)));
    // A name without a number is a part of too many others.
    let has_number = part.contains(|c: char| c.is_ascii_digit());
    let found: Vec<_> = products().filter(|(_, name)| has_number && has_part(&plain(name), &part)).collect();
    if !found.is_empty() || part.len() < MISSPELLED_MIN {
        return found;
    }
    let whole = letters_and_digits(typed);
    let others = other_names().map(|(name, processors)| (processors.join(", "), name));
    // The wrong letter may be in a word that does not count, such as Radeon.
    let is_near = |name: &str| {
        has_one_wrong_letter(&part, &plain(name)) || has_one_wrong_letter(&whole, &letters_and_digits(name))
    };
    products().chain(others).filter(|(_, name)| is_near(name)).collect()
}

/// Returns whether two names differ in one letter. Another digit makes another product.
fn has_one_wrong_letter(one: &str, other: &str) -> bool {
    strsim::osa_distance(one, other) == 1 && digits(one) == digits(other)
}

fn letters_and_digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn digits(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}

/// Whether `name` contains `part` without cutting a number. Only the first occurrence counts: it must not begin inside
/// of a number, and no digit may follow it. So `50` does not mean RTX 5090.
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
    fn a_misspelled_name_has_the_products_with_one_other_letter() {
        for (typed, names) in [
            ("RTX 7900 XTX", &["Radeon RX 7900 XTX"][..]),
            ("RTX 1660", &["GeForce GTX 1660"]),
            ("Radeom 780M", &["Radeon 780M"]),
            ("NI300X", &["Instinct MI300X"]),
            ("L40Q", &["L40", "L40S"]),
            ("Jetson Orinn", &["Jetson Orin NX", "Jetson Orin"]),
            ("meteorlak", &["Meteor Lake"]),
            ("RTX 4090Ti", &[]),
            ("RTX 5095", &[]),
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
            ("7900 XT", &["Radeon RX 7900 XTX", "Radeon RX 7900 XT"]),
            ("9070XT", &["Radeon RX 9070 XT"]),
            ("6000 Ada", &["RTX 6000 Ada"]),
            ("4090 D", &["GeForce RTX 4090"]),
            ("509", &[]),
            ("90", &[]),
        ] {
            let found: Vec<&str> = meant(typed).into_iter().map(|(_, name)| name).collect();
            assert_eq!(found, names, "{typed}");
        }
    }

    /// Each product is suggested if one letter of its name is wrong or missing, unless the result is a name itself, or
    /// a part of other names.
    #[test]
    fn a_name_with_one_wrong_letter_has_its_product() {
        for (_, names) in all() {
            for name in names {
                for (at, _) in name.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()) {
                    for letter in ["", "q"] {
                        let typed = [&name[..at], letter, &name[at + 1..]].concat();
                        if plain(&typed).len() < MISSPELLED_MIN || processors(&typed).is_some() {
                            continue;
                        }
                        let meant: Vec<&str> = meant(&typed).into_iter().map(|(_, name)| name).collect();
                        let is_part = meant.iter().any(|name| has_part(&plain(name), &plain(&typed)));
                        assert!(is_part || meant.contains(name), "{typed}: {meant:?}, not {name}");
                    }
                }
            }
        }
    }
}
