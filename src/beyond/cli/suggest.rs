//! Suggests what misspelt options, subcommands and names of GPUs may have meant.
//!
//! Options of subcommands are suggested by the rule for our own options of LLVM's tools
//! ([`is_slip`](crate::llvm::cli::suggest::is_slip)).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use crate::base::display::printable;
use crate::base::error::Error;
use crate::base::id::processors::{self, ProcessorKind};
use crate::beyond::products;
use crate::beyond::runtime::{Device, DeviceError};

use super::gpus::target_of;
use crate::llvm::cli::suggest::distance;

/// The subcommand among `names` that a misspelled word may mean: one that it abbreviates or that other tools call so, otherwise the
/// nearest one if at most half of the word is wrong. A word with a dot or a slash is a file.
pub(super) fn subcommand(word: &OsStr, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let word = word.to_str().filter(|word| !word.is_empty() && !word.contains(['.', '/']))?;
    if let Some((_, name)) = ELSEWHERE.iter().find(|(names, _)| names.contains(&word)) {
        return Some(name);
    }
    let errors = |name: &&str| if name.starts_with(word) { 0 } else { distance(word.as_bytes(), name.as_bytes()) };
    names.min_by_key(errors).filter(|name| errors(name) * 2 <= word.len())
}

/// What other tools call something that a subcommand does.
const ELSEWHERE: [(&[&str], &str); 4] = [
    (&["list", "ls", "show", "info", "dump"], "inspect"),
    (&["unbundle", "unpack"], "extract"),
    (&["check", "test"], "verify"),
    (&["compress", "decompress", "strip"], "recompress"),
];

/// A word with a long option after one dash, as LLVM's tools accept it, with two dashes. So is one with one error, for
/// which `-targets` would otherwise be `-t argets`.
pub(super) fn with_two_dashes(word: &OsStr, options: &[String]) -> Option<OsString> {
    let name = word.to_str()?.strip_prefix('-').filter(|name| !name.starts_with('-'))?.split('=').next()?;
    let is_meant = |option: &String| {
        let attached = name.split_at_checked(1).is_some_and(|(_, value)| value == option);
        let is_near = name.len() > 3 && !attached && name.get(..1) == option.get(..1);
        name == option || (is_near && strsim::osa_distance(name, option) == 1)
    };
    options.iter().any(is_meant).then(|| [OsStr::new("-"), word].into_iter().collect())
}

/// The hint for targets that match nothing.
pub(super) fn for_no_match(error: &Error) -> Option<String> {
    let targets = error.unmatched_targets();
    let present = || error.present_targets().iter().map(String::as_str);
    let runs = |target: &&String| Device::parse(target).is_ok_and(|device| present().any(|other| device.runs(other)));
    if let Some(target) = targets.iter().find(runs) {
        let device = Device::parse(target).ok()?;
        let others: Vec<&str> = present().filter(|other| device.runs(other)).collect();
        return Some(format!(
            "{target} runs the code for {}: extract --as-runtime and recompress --keep-for take it",
            others.join(", ")
        ));
    }
    let meant: Vec<(&String, String)> =
        targets.iter().filter_map(|target| Some((target, gpu(target, present())?))).collect();
    match meant.as_slice() {
        [] => targets.iter().find_map(|target| unknown_product(target)),
        [(_, meant)] if targets.len() == 1 => Some(format!("did you mean {meant}?")),
        several => {
            let each = several.iter().map(|(target, meant)| format!("for '{target}', did you mean {meant}?"));
            Some(each.collect::<Vec<_>>().join(" "))
        }
    }
}

/// The GPUs that LLVM knows and whose names are the nearest to a misspelled one.
pub(super) fn known_gpu(typed: &str) -> Option<String> {
    let gpus = processors::all().filter(|known| known.kind != ProcessorKind::R600);
    gpu(typed, gpus.map(|known| known.name))
}

/// What to do about a name that looks like that of a product, and is not known.
fn unknown_product(typed: &str) -> Option<String> {
    let letters = |name: &str| {
        let plain = products::plain(name);
        plain.get(..plain.find(|c: char| c.is_ascii_digit())?).map(str::to_owned)
    };
    let name = typed.split(':').next().unwrap_or_default();
    let is_typed = !name.contains("--")
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '+' | '(' | ')'));
    let series = letters(name).filter(|_| is_typed && target_of(typed) == typed)?;
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let is_known = words.any(|word| products::vendor_named(word).is_some())
        || !series.is_empty()
            && products::all().flat_map(|(_, names)| names).any(|other| letters(other).as_ref() == Some(&series));
    is_known.then(|| {
        format!(
            "the table of products has no '{name}': name its processor, such as gfx1100, which rocminfo prints, or sm_89, which is compute \
             capability 8.9 in the output of nvidia-smi --query-gpu=compute_cap --format=csv"
        )
    })
}

/// Whether it is the name of a known GPU or product, in letters of any case.
pub(super) fn is_gpu(name: &str) -> bool {
    let name = name.trim_end_matches(',').split(',').next_back().unwrap_or_default();
    let processor = name.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_processor = processor.starts_with(['g', 's']) && processors::find(&processor).is_some();
    is_processor || products::processor(name).is_some()
}

/// The GPUs in a list, separated as in [`Device::parse_list`], except that names of products have spaces; the error
/// suggests one for the first that is not a GPU.
pub(super) fn devices(list: &str) -> Result<Vec<Device>, String> {
    let mut devices = Vec::new();
    for name in list.split([',', ';', '\n']).map(str::trim) {
        let named = Device::parse_list(&target_of(name)).map_err(|error| not_a_gpu(name, &error))?;
        let new = named.into_iter().filter(|device| !devices.contains(device)).collect::<Vec<_>>();
        devices.extend(new);
    }
    Ok(devices)
}

/// Says what is wrong in `name`, and what it may mean.
fn not_a_gpu(name: &str, error: &DeviceError) -> String {
    if let Some(meant) = known_gpu(error.text()) {
        return format!("'{}' is not the name of a GPU; did you mean {meant}?", printable(error.text()));
    }
    if products::all().any(|(processor, _)| processor == error.text()) {
        return format!(
            "'{name}' is {}, an Intel GPU; what runs there is known for GPUs of AMD and NVIDIA",
            error.text()
        );
    }
    unknown_product(name).unwrap_or_else(|| {
        format!("{}; inspect lists the GPUs that a file has code for", printable(&error.to_string()))
    })
}

/// Returns the names among `known`, quoted, that a misspelled target may mean: those that differ in case and separators
/// only, else those with two characters swapped, else those with one character wrong, or `None` for the name of a known
/// GPU, and if too many are as near.
fn gpu<'k>(typed: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    const MOST: usize = 3;
    let (processor, features) = typed.split_at(typed.find(':').unwrap_or(typed.len()));
    if processors::find(processor).is_some() || processor.len() < 3 || typed.contains(['*', '?', '[']) {
        return None;
    }
    let plain = products::plain;
    let letters = |name: &str| {
        let mut letters = name.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    let typed = plain(processor);
    let errors = |name: &str| {
        let name = plain(name);
        match strsim::osa_distance(&typed, &name) {
            0 => Some(0),
            1 if letters(&typed) == letters(&name) => Some(1),
            1 => Some(2),
            _ => None,
        }
    };
    let near: BTreeSet<(i32, &str)> = known
        .filter_map(|name| name.rsplit("--").next()?.split(':').next())
        .filter_map(|name| Some((errors(name)?, name)))
        .collect();
    let least = near.first()?.0;
    let names = near.iter().take_while(|(errors, _)| *errors == least);
    let names: Vec<String> = names.map(|(_, name)| format!("'{name}{features}'")).collect();
    (names.len() <= MOST).then(|| names.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::cli::catalogue::CATALOGUE;

    #[test]
    fn a_word_with_one_letter_wrong_is_recognised_and_others_are_not() {
        for name in CATALOGUE.names() {
            for at in 0..name.len() {
                let (before, rest) = name.split_at(at);
                for with in ["", "k", "kk"] {
                    let word = [before, with, &rest[usize::from(with.len() < 2)..]].concat();
                    assert_eq!(super::subcommand(OsStr::new(&word), CATALOGUE.names()), Some(name), "{word}");
                }
            }
        }
        for word in ["", "libkernels.so", "a", "bundle", "\u{fffd}"] {
            assert_eq!(super::subcommand(OsStr::new(word), CATALOGUE.names()), None, "{word}");
        }
    }

    #[test]
    fn one_error_in_the_name_of_a_gpu_is_recognised() {
        let present = ["gfx1030", "gfx900:xnack-", "gfx90a:xnack+", "gfx90a:xnack-", "gfx9-4-generic", "sm_90"];
        let gpu = |typed: &str| gpu(typed, present.into_iter()).unwrap_or_default();
        for (typed, meant) in [
            ("GFX90A", "'gfx90a'"),
            ("gfx-90a", "'gfx90a'"),
            ("sm90", "'sm_90'"),
            ("gfx9a0", "'gfx90a'"),
            ("gfx9a0:xnack+", "'gfx90a:xnack+'"),
            ("gfx103", "'gfx1030'"),
            ("gfx1O30", "'gfx1030'"),
            ("gfx90", "'gfx900' or 'gfx90a'"),
            ("gfx94-generic", "'gfx9-4-generic'"),
            ("mi250", ""),
            ("gfx", ""),
            ("gfx9?", ""),
            ("gfx906", ""),
            ("", ""),
            ("sm", ""),
        ] {
            assert_eq!(gpu(typed), meant, "{typed}");
        }
    }

    #[test]
    fn products_that_are_not_in_the_table_are_recognised() {
        for typed in [
            "GTX 1650X",
            "RTX 5095",
            "MI300",
            "L20",
            "GeForce GTX 960M",
            "Radeon RX 6800M",
            "RX 6800S",
            "RX 7700S",
            "RTX 4000",
            "NVIDIA RTX 5000",
            "RTX 1660",
            "Tesla MI300X",
            "AMD A10",
            "Radeon A100",
            "GTX 1250",
            "RX 5600 XT",
            "Quadro P1000",
            "H800",
            "Radeon 880M",
            "NVIDIA GeForce MX450",
            "T5",
            "MI3000X",
        ] {
            let text = unknown_product(typed).unwrap_or_else(|| panic!("{typed}"));
            assert!(text.contains(&format!("has no '{typed}'")), "{text}");
        }
        for typed in [
            "gfx9999",
            "sm_1000",
            "H100",
            "RTX 5090:x",
            "host-x86_64-linux",
            "hip-amdgcn-amd-amdhsa--gfx90x",
            "x1",
            "100",
            "",
            "İ1",
            "RTX*",
            "list1.txt",
        ] {
            assert_eq!(unknown_product(typed), None, "{typed}");
        }
    }

    #[test]
    fn every_known_gpu_is_suggested_for_other_cases_and_separators_and_never_for_itself() {
        for known in processors::all().filter(|known| known.kind != ProcessorKind::R600) {
            assert_eq!(known_gpu(known.name), None);
            let typed = known.name.to_ascii_uppercase().replace('_', "-");
            assert!(
                known.name.len() < 3 || known_gpu(&typed).is_some_and(|meant| meant.contains(known.name)),
                "{typed}"
            );
        }
    }

    #[test]
    fn long_options_may_have_one_dash_and_attached_values_stay() {
        let options = ["target", "output", "json", "exact", "name", "version"].map(str::to_owned);
        for (word, with_two) in [
            ("-target", "--target"),
            ("-target=gfx90a", "--target=gfx90a"),
            ("-targets=gfx90a", "--targets=gfx90a"),
            ("-output", "--output"),
            ("-josn", "--josn"),
        ] {
            assert_eq!(with_two_dashes(word.as_ref(), &options), Some(with_two.into()), "{word}");
        }
        for word in ["-", "--", "--target", "-t", "-tgfx90a", "-ojson", "-ooutput", "-nr", "-5", "target", "-o=json"] {
            assert_eq!(with_two_dashes(word.as_ref(), &options), None, "{word}");
        }
    }
}
