//! Suggestions for misspelled options, subcommands and names of GPUs.
//!
//! An option of a subcommand is suggested only if it was misspelled (see [`is_slip`]).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::LazyLock;

use crate::base::display::{alternatives, printable};
use crate::base::error::Error;
use crate::base::id::processors::{self, ProcessorKind};
use crate::beyond::code::intel_gpu;
use crate::beyond::inventory::Pattern;
use crate::beyond::products;
use crate::beyond::runtime::{Device, DeviceError, Machine, MachineError, Named};

use super::gpus::without_brand;
use super::meant::meant;
use crate::llvm::cli::suggest::distance;

/// Returns the subcommand among `names` that a misspelled word may mean. The word may be a name in other tools
/// ([`NAMES_ELSEWHERE`]), an abbreviation, or a name with at most half of its letters wrong. Returns `None` if no name
/// is so near, or if the word has a dot or a slash: then it is a file.
pub(super) fn nearest_subcommand(word: &OsStr, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let word = word.to_str()?;
    if word.is_empty() || word.contains(['.', '/']) {
        return None;
    }
    if let Some((_, name)) = NAMES_ELSEWHERE.iter().find(|(names, _)| names.contains(&word)) {
        return Some(name);
    }
    // `wrong_letters` returns 0 for an abbreviation, which makes it the nearest name.
    let nearest = names.min_by_key(|name| wrong_letters(word, name))?;
    if wrong_letters(word, nearest) * 2 <= word.len() { Some(nearest) } else { None }
}

/// Returns the number of wrong letters in a word that may mean `name`, or 0 if the word is an abbreviation of the name.
fn wrong_letters(word: &str, name: &str) -> usize {
    if name.starts_with(word) { 0 } else { distance(word.as_bytes(), name.as_bytes()) }
}

/// The names that other tools have for the work of a subcommand.
const NAMES_ELSEWHERE: [(&[&str], &str); 4] = [
    (&["list", "ls", "show", "info", "dump"], "inspect"),
    (&["unbundle", "unpack"], "extract"),
    (&["check", "test"], "verify"),
    (&["compress", "decompress", "strip"], "recompress"),
];

/// Returns a word with two dashes instead of one if it has one of the long `options`, and `None` for all other words.
/// The name may have one error, so that `-targets` is refused as a misspelled `--target`. Otherwise `clap` would read
/// it as `-t argets`.
pub(super) fn with_two_dashes(word: &OsStr, options: &[String]) -> Option<OsString> {
    let name = word.to_str()?.strip_prefix('-')?.split('=').next()?;
    if name.starts_with('-') || !options.iter().any(|option| means_option(name, option)) {
        return None;
    }
    Some([OsStr::new("-"), word].into_iter().collect())
}

/// Returns whether a name, typed after one dash, means this long option: it is equal, or has one error.
fn means_option(name: &str, option: &str) -> bool {
    if name == option {
        return true;
    }
    // `-ojson` may be the short option `-o` with the value `json`, and not a misspelled `--json`.
    let is_attached = matches!(name.split_at_checked(1), Some((_, value)) if value == option);
    // A name of three letters is only one error away from unrelated options.
    let is_near = name.len() > 3 && !is_attached && name.get(..1) == option.get(..1);
    is_near && strsim::osa_distance(name, option) == 1
}

/// Returns whether `typed` is a misspelled `name`, and not a name for something else, such as `decompress` for
/// `compress`. Both must begin with the same letter, and one letter may be wrong, or two in a long name. Capitals and
/// underscores count as small letters and dashes.
pub(super) fn is_slip(typed: &str, name: &str) -> bool {
    /// In a name of at least this length, two letters may be wrong.
    const LONG_MIN: usize = 9;
    let [typed, name] = [typed, name].map(|name| name.to_ascii_lowercase().replace('_', "-"));
    let errors_max = if name.len() >= LONG_MIN { 2 } else { 1 };
    typed.chars().next() == name.chars().next() && strsim::osa_distance(&typed, &name) <= errors_max
}

/// Returns the hint for an error that targets match nothing, or `None` if nothing is similar to them.
pub(super) fn hint_for_no_match(error: &Error) -> Option<String> {
    let targets = error.unmatched_targets();
    let present: Vec<&str> = error.present_targets().iter().map(String::as_str).collect();
    // The best advice is code of another name that the GPU runs, such as its generic target.
    for target in targets {
        let Ok(device) = Device::parse(target) else { continue };
        let others: Vec<&str> = present.iter().copied().filter(|other| device.runs(other)).collect();
        if !others.is_empty() {
            return Some(format!(
                "{target} runs the code for {}: extract --as-runtime and recompress --keep-for take it",
                others.join(", ")
            ));
        }
    }
    let mut similar = Vec::new();
    for target in targets {
        if let Some(names) = nearest_names(target, present.iter().copied()) {
            similar.push((target, names));
        }
    }
    match similar.as_slice() {
        // No name in the files is near, so a name may be that of a product that we do not know.
        [] => targets.iter().find_map(|target| advice_on_unknown_product(target)),
        [(_, names)] if targets.len() == 1 => Some(format!("did you mean {names}?")),
        several => {
            let questions = several.iter().map(|(target, names)| format!("for '{target}', did you mean {names}?"));
            Some(questions.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Returns the names of GPUs, as LLVM or Intel's `ocloc` know them, that are the nearest to a misspelled one, or `None`
/// if no name is near. AMD's R600 family is left out: clang does not offload to it, and its names are common words,
/// such as `cypress`.
pub(super) fn nearest_known_gpus(typed: &str) -> Option<String> {
    let names = processors::all().filter(|known| known.kind != ProcessorKind::R600).map(|known| known.name);
    // LLVM has another name for one of Intel's GPUs, `bmg_g21`.
    let names = names.filter(|name| intel_gpu::name_of_target(name).is_none());
    nearest_names(typed, names.chain(intel_gpu::all().map(|gpu| gpu.name)))
}

/// Returns advice about a name that looks like that of a product and is not known, or `None` for other names.
fn advice_on_unknown_product(typed: &str) -> Option<String> {
    let name = typed.split(':').next().unwrap_or_default();
    // An entry ID has two dashes before its target.
    let may_be_product = !name.contains("--")
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '+' | '(' | ')'));
    let is_known_product = Named::of(typed).name.is_some();
    if !may_be_product || is_known_product {
        return None;
    }
    let is_like_product = series_of(name).is_some_and(|series| names_vendor(name) || is_known_series(&series));
    match products_meant(name) {
        Some(meant) if is_like_product => {
            return Some(format!("the table of products has no '{name}'; did you mean {meant}?"));
        }
        Some(meant) => return Some(format!("'{name}' is not the name of a GPU; did you mean {meant}?")),
        // Nothing shows that the name is meant for a GPU at all.
        None if !is_like_product => return None,
        None => {}
    }
    Some(format!(
        "the table of products has no '{name}': name its processor, such as gfx1100, which rocminfo prints, or sm_89, which is compute \
         capability 8.9 in the output of nvidia-smi --query-gpu=compute_cap --format=csv"
    ))
}

/// The largest number of products that are suggested for a name.
const PRODUCTS_MAX: usize = 5;

/// Returns the products that an incomplete name may mean, with their processors, as in `MI300X or MI300A (both
/// gfx942)`, or `None` if there are none or too many.
fn products_meant(typed: &str) -> Option<String> {
    let found = meant(typed);
    let (first, _) = found.first()?;
    if found.len() > PRODUCTS_MAX {
        return None;
    }
    if found.iter().any(|(processor, _)| processor != first) {
        let each: Vec<String> =
            found.iter().map(|(processor, name)| format!("{} ({processor})", without_brand(name))).collect();
        return Some(alternatives(&each));
    }
    let names: Vec<&str> = found.iter().map(|(_, name)| without_brand(name)).collect();
    let number = match names.len() {
        1 => "",
        2 => "both ",
        _ => "all ",
    };
    Some(format!("{} ({number}{first})", alternatives(&names)))
}

/// Returns the letters of a product before its number, such as `mi` of MI300X, or `None` if it has no number.
fn series_of(product: &str) -> Option<String> {
    let plain = products::plain(product);
    let number = plain.find(|c: char| c.is_ascii_digit())?;
    Some(plain.get(..number)?.to_owned())
}

/// Returns whether a known product has these letters before its number.
fn is_known_series(series: &str) -> bool {
    let mut known = products::all().flat_map(|(_, names)| names);
    !series.is_empty() && known.any(|name| series_of(name).as_deref() == Some(series))
}

/// Returns whether a word of a name is that of a vendor.
fn names_vendor(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| products::vendor_named(word).is_some())
}

/// Returns whether a word, or the last name in a comma list, is the name of a known GPU or product, in letters of any
/// case.
pub(super) fn is_gpu(name: &str) -> bool {
    let name = name.trim_end_matches(',').split(',').next_back().unwrap_or_default();
    let processor = name.split(':').next().unwrap_or_default().to_ascii_lowercase();
    // The names of other processors, such as AMD's `cypress`, are words, and may well be names of files.
    let is_processor = processor.starts_with(['g', 's']) && processors::find(&processor).is_some();
    is_processor || products::processors(name).is_some()
}

/// Our word for the GPUs of this machine.
const NATIVE: &str = "native";

/// Returns the GPUs of this machine if a name is `native`, in small or capital letters, and `None` for other names.
/// `native` with a suffix, such as one for features or for PTX, is an error.
pub(super) fn native_gpus(name: &str) -> Option<Result<Vec<Device>, String>> {
    let (typed, suffix) = name.split_at(name.find([':', '+']).unwrap_or(name.len()));
    if !typed.eq_ignore_ascii_case(NATIVE) {
        return None;
    }
    match suffix.get(..1) {
        None => {}
        Some("+") => {
            return Some(Err(format!(
                "native means the GPUs of this machine, without '{suffix}': native,ptx adds PTX"
            )));
        }
        Some(_) => {
            return Some(Err(format!(
                "native means the GPUs of this machine, which have their own settings: '{suffix}' cannot follow"
            )));
        }
    }
    let as_native = |machine: &Machine| machine.devices.iter().map(|device| device.clone().typed_as(NATIVE)).collect();
    Some(machine().as_ref().map(as_native).map_err(|error| printable(&error.to_string())))
}

/// Returns the GPUs that a pattern names. If the user typed `native`, the pattern names a GPU of this machine, which is
/// returned with the settings that the machine has.
pub(super) fn devices_of(pattern: &Pattern) -> Result<Vec<Device>, String> {
    match pattern.typed().and_then(native_gpus) {
        Some(native) => Ok(native?.into_iter().filter(|device| device.name() == pattern.as_str()).collect()),
        None => devices(pattern.as_str()),
    }
}

/// Returns the GPUs of this machine, which are looked for once.
pub(super) fn machine() -> &'static Result<Machine, MachineError> {
    static MACHINE: LazyLock<Result<Machine, MachineError>> = LazyLock::new(Machine::read);
    &MACHINE
}

/// Returns warnings about facts that could not be read from this machine, and about the assumptions in their place. The
/// list is empty unless `devices` has GPUs that the user typed as `native`.
pub(super) fn warnings_about_machine(devices: &[Device]) -> Vec<String> {
    let native: Vec<&Device> = devices.iter().filter(|device| device.typed() == Some(NATIVE)).collect();
    if native.is_empty() {
        return Vec::new();
    }
    let fault = machine().as_ref().ok().and_then(|machine| machine.nvidia_fault.as_ref());
    let without_nvidia = fault.map(|fault| format!("native leaves out NVIDIA's GPUs: {}", printable(fault)));
    let unknown_settings = native.into_iter().filter(|device| device.has_open_settings()).map(|device| {
        let name = device.name();
        format!(
            "native means {name} with XNACK on and off, because the kernel does not say which; {name}:xnack- means one"
        )
    });
    without_nvidia.into_iter().chain(unknown_settings).collect()
}

/// Returns the GPUs in a list, each once: see [`Device::parse_list`]. `native` means the GPUs of this machine. The
/// error is about the first name that is not a GPU, and suggests a GPU.
pub(super) fn devices(list: &str) -> Result<Vec<Device>, String> {
    let mut devices = Vec::new();
    for item in list.split([',', ';', '\n']).map(str::trim) {
        let named = match native_gpus(item) {
            Some(native) => native?,
            None => Device::parse_list(item).map_err(|error| describe_unknown_gpu(&error))?,
        };
        for device in named {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
    }
    Ok(devices)
}

/// Describes the fault in a name that is not a GPU, and the names that it may mean.
fn describe_unknown_gpu(error: &DeviceError) -> String {
    let name = error.text();
    // Names of processors have no spaces, but names of products do.
    if !name.contains(char::is_whitespace)
        && let Some(meant) = nearest_known_gpus(name)
    {
        return format!("'{}' is not the name of a GPU; did you mean {meant}?", printable(name));
    }
    match advice_on_unknown_product(name) {
        Some(advice) => advice,
        None if is_known_processor(name) => {
            format!("{}; inspect lists the GPUs that a file has code for", printable(&error.to_string()))
        }
        None => format!(
            "{}, or a product like 'RTX 5090'; inspect lists the GPUs that a file has code for, inspect --gpus the products",
            printable(&error.to_string())
        ),
    }
}

/// Returns the warning about a GPU that is not in our tables, with the names that it may mean. Returns `None` for a
/// known GPU.
pub(super) fn warning_about_unknown(device: &Device) -> Option<String> {
    if device.is_known() {
        return None;
    }
    let meant = nearest_known_gpus(device.name()).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    Some(format!("this program does not know the GPU '{}'{meant}", device.name()))
}

/// Returns whether a target ID with an error has the name of a processor. The error is then about its features, and a
/// hint at products would not help. Any name with `sm_` counts, because no product has such a name.
fn is_known_processor(target: &str) -> bool {
    let processor = target.split(':').next().unwrap_or_default();
    Device::parse(processor).is_ok() || processor.starts_with("sm_")
}

/// Returns the nearest names among `known`, quoted, that a misspelled target may mean. Names that differ in case and
/// separators only are nearest, then names with two characters swapped, then names with one wrong character. Returns
/// `None` for the name of a known GPU, for a pattern and for a very short name, and if no name or too many names are
/// equally near.
fn nearest_names<'k>(typed: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    const SUGGESTED_MAX: usize = 3;
    let (processor, features) = typed.split_at(typed.find(':').unwrap_or(typed.len()));
    let is_pattern = typed.contains(['*', '?', '[']);
    let is_known = processors::find(processor).is_some() || intel_gpu::canonical(processor).is_some();
    // Names of one or two characters are one error away from unrelated names.
    if is_pattern || processor.len() < 3 || is_known {
        return None;
    }
    let typed = products::plain(processor);
    let mut near = BTreeSet::new();
    for known_name in known {
        // A known name may be an entry ID, in which the target follows two dashes.
        let target = known_name.rsplit("--").next().unwrap_or(known_name);
        let name = target.split(':').next().unwrap_or(target);
        if let Some(rank) = rank_of_difference(&typed, &products::plain(name)) {
            near.insert((rank, name));
        }
    }
    let (nearest_rank, _) = *near.first()?;
    let names = near.iter().take_while(|(rank, _)| *rank == nearest_rank);
    let names: Vec<String> = names.map(|(_, name)| format!("'{name}{features}'")).collect();
    if names.len() <= SUGGESTED_MAX { Some(names.join(" or ")) } else { None }
}

/// Ranks the difference of two names: 0 if they are equal, 1 if two characters are swapped, 2 if one character is
/// wrong, or `None` if they differ more.
fn rank_of_difference(typed: &str, name: &str) -> Option<u8> {
    match strsim::osa_distance(typed, name) {
        0 => Some(0),
        1 if sorted_bytes(typed) == sorted_bytes(name) => Some(1),
        1 => Some(2),
        _ => None,
    }
}

/// Returns the sorted bytes of a text. They are equal for texts that differ only in the order of their characters.
fn sorted_bytes(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.sort_unstable();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::cli::catalogue::CATALOGUE;

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
    fn a_word_with_one_letter_wrong_is_recognised_and_others_are_not() {
        for name in CATALOGUE.names() {
            for at in 0..name.len() {
                let (before, rest) = name.split_at(at);
                for with in ["", "k", "kk"] {
                    let word = [before, with, &rest[usize::from(with.len() < 2)..]].concat();
                    assert_eq!(super::nearest_subcommand(OsStr::new(&word), CATALOGUE.names()), Some(name), "{word}");
                }
            }
        }
        for word in ["", "libkernels.so", "a", "bundle", "\u{fffd}"] {
            assert_eq!(super::nearest_subcommand(OsStr::new(word), CATALOGUE.names()), None, "{word}");
        }
    }

    #[test]
    fn one_error_in_the_name_of_a_gpu_is_recognised() {
        let present = ["gfx1030", "gfx900:xnack-", "gfx90a:xnack+", "gfx90a:xnack-", "gfx9-4-generic", "sm_90"];
        let gpu = |typed: &str| nearest_names(typed, present.into_iter()).unwrap_or_default();
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
            "L25",
            "GeForce GTX 1080M",
            "Radeon RX 6900M",
            "RTX 1660",
            "GTX 1250",
            "NVIDIA GeForce MX440",
            "T5",
            "MI3000X",
            "Radeon 840M",
        ] {
            let text = advice_on_unknown_product(typed).unwrap_or_else(|| panic!("{typed}"));
            assert!(text.contains(&format!("has no '{typed}'")), "{text}");
        }
        for typed in [
            "gfx9999",
            "sm_1000",
            "H100",
            "RTX 5090:x",
            "host-x86_64-linux",
            "hip-amdgcn-amd-amdhsa--gfx90x",
            "zz",
            "100",
            "",
            "İ1",
            "RTX*",
            "list1.txt",
        ] {
            assert_eq!(advice_on_unknown_product(typed), None, "{typed}");
        }
    }

    #[test]
    fn the_products_that_an_incomplete_name_may_mean_are_suggested_with_their_processors() {
        for (typed, meant) in [
            ("MI300", "MI300X or MI300A (both gfx942)"),
            ("5090", "RTX 5090 (sm_120)"),
            ("RTX 4000", "Quadro RTX 4000 (sm_75) or RTX 4000 Ada (sm_89)"),
            ("NVIDIA RTX 5000", "Quadro RTX 5000 (sm_75) or RTX 5000 Ada (sm_89)"),
            ("Tesla MI300X", "MI300X (gfx942)"),
            ("AMD A10", "A10 or A10G (both sm_86)"),
            ("7900 XT", "RX 7900 XTX or RX 7900 XT (both gfx1100)"),
            ("6000 Ada", "RTX 6000 Ada (sm_89)"),
            ("RX 7900", "RX 7900 XTX, RX 7900 XT, RX 7900 GRE or RX 7900M (all gfx1100)"),
        ] {
            let text = advice_on_unknown_product(typed).unwrap_or_else(|| panic!("{typed}"));
            assert!(text.contains(&format!("'{typed}'")), "{text}");
            assert!(text.ends_with(&format!("; did you mean {meant}?")), "{text}");
        }
    }

    #[test]
    fn every_known_gpu_is_suggested_for_other_cases_and_separators_and_never_for_itself() {
        let of_llvm = processors::all().filter(|known| known.kind != ProcessorKind::R600).map(|known| known.name);
        for name in of_llvm.filter(|name| *name != "bmg_g21").chain(intel_gpu::all().map(|gpu| gpu.name)) {
            assert_eq!(nearest_known_gpus(name), None);
            for typed in [name.to_ascii_uppercase().replace('_', "-"), name.to_ascii_uppercase().replace('-', "_")] {
                let is_suggested = nearest_known_gpus(&typed).is_some_and(|meant| meant.contains(name));
                assert!(name.len() < 3 || is_suggested, "{typed}");
            }
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
