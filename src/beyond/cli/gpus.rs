//! Options with names of GPUs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal as _};

use crate::base::id::processors;
use crate::beyond::inventory::{Coverage, ServedBundles};
pub(super) use crate::beyond::inventory::{Targets, generation, short_target};
use crate::beyond::runtime::{self, Code, Device, processor_in};
use anyhow::bail;

use super::suggest;
use crate::llvm::cli::print::console::Console;

/// The longest file with names of GPUs, in bytes.
const LIST_MAX: u64 = 1 << 20;

/// The GPUs of an option.
#[derive(Clone, Debug)]
pub(super) struct Gpus(pub(super) Vec<Device>);

impl Gpus {
    /// Returns the GPUs in a list, or in a file. In a file, `#` begins a comment.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let devices = match suggest::devices(text) {
            Ok(devices) => devices,
            Err(error) => read_list(text, &error)?,
        };
        if devices.is_empty() {
            bail!("it names no GPU");
        }
        Ok(Self(devices))
    }

    /// Warns of each GPU that is not in our tables, because it is newer or misspelled, and of GPUs of this machine that
    /// are not known in full.
    pub(super) fn warn_of_unknown(devices: &[Device], console: &Console) {
        let unknown = devices.iter().filter_map(suggest::warning_about_unknown);
        for warning in unknown.chain(suggest::warnings_about_machine(devices)) {
            console.warning(&warning);
        }
    }
}

/// Reads the GPUs in a file. `error` says why the path itself is not a list of GPUs.
fn read_list(path: &str, error: &str) -> anyhow::Result<Vec<Device>> {
    let file = match fs::metadata(path) {
        Ok(file) => file,
        // Without a dot or a slash, the text is rather a misspelled name of a GPU than the path of a missing file.
        Err(_) if !path.contains(['.', '/']) => bail!("{error}"),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => bail!("there is no such file, and {error}"),
        Err(reason) => bail!("{reason}, and {error}"),
    };
    if !file.is_file() || file.len() > LIST_MAX {
        bail!("it is not a file with a list of at most 1 MiB");
    }
    let content = fs::read_to_string(path)?;
    // Some editors write a byte order mark at the start. After `#`, the rest of a line is a comment.
    let lines = content.trim_start_matches('\u{feff}').lines();
    let names: Vec<&str> = lines.map(|line| line.split('#').next().unwrap_or_default()).collect();
    suggest::devices(&names.join("\n")).map_err(anyhow::Error::msg)
}

/// Returns the targets whose code the GPUs of this machine load. Finding the GPUs may take a while, so the set is
/// empty unless standard output is a terminal.
pub(super) fn loaded_here<'t>(targets: impl Iterator<Item = &'t str>) -> BTreeSet<&'t str> {
    let codes: Vec<(&str, Code)> = targets.filter_map(|target| Some((target, Code::from_name(target)?))).collect();
    if codes.is_empty() || !io::stdout().is_terminal() {
        return BTreeSet::new();
    }
    let devices = suggest::machine().as_ref().map(|machine| machine.devices.as_slice()).unwrap_or_default();
    devices.iter().flat_map(|device| device.choose(&codes)).collect()
}

/// Returns the GPUs that any bundle has code for, by generation, with the number of bundles that serve each. Returns
/// `None` if there are too many bundles to compare.
pub(super) fn by_generation(coverage: &Coverage) -> Option<Vec<(Device, ServedBundles)>> {
    let mut gpus = coverage.gpus()?;
    gpus.sort_by_cached_key(|(gpu, _)| generation(gpu.name()));
    Some(gpus)
}

/// Returns the start of the name that closely related GPUs have in common: `gfx110` of gfx1100 to gfx1103, and `sm_8`
/// of sm_80 to sm_89. Returns `None` for targets with features or suffixes, and for GPUs that are not known.
pub(super) fn family_of(target: &str) -> Option<&str> {
    let (series, number) = split_series(target)?;
    let is_known = match series {
        "compute_" => processors::find(&format!("sm_{number}")).is_some(),
        _ => processors::find(target).is_some(),
    };
    let family = target.get(..target.len().checked_sub(1)?)?;
    // `gfx11-generic` and `sm_90a` are not the name of a GPU. The letter of `gfx90a` belongs to its number.
    let is_plain = match series {
        "gfx" => !number.contains('-'),
        _ => number.bytes().all(|byte| byte.is_ascii_digit()),
    };
    if is_known && is_plain { Some(family) } else { None }
}

/// Splits the name of a GPU into its series and its number: `gfx` and `90a`, `sm_` and `90`.
fn split_series(target: &str) -> Option<(&str, &str)> {
    for series in ["gfx", "sm_", "compute_"] {
        if let Some(number) = target.strip_prefix(series) {
            return Some((series, number));
        }
    }
    None
}

/// Returns the name of a GPU without its series: `90a` of `gfx90a`.
pub(super) fn number_of(target: &str) -> &str {
    match split_series(target) {
        Some((_, number)) => number,
        None => target,
    }
}

/// Returns the short name of GPUs of one family, which are sorted by [`generation`]: `gfx1100…1103`, `sm_80,86,89`. A
/// range includes all GPUs that are known between its ends; `range_mark` is written between the ends. Targets without a
/// family are joined by commas.
pub(super) fn label_of_family(targets: &[&str], range_mark: &str) -> String {
    let [first, ..] = targets else { return String::new() };
    let Some(family) = family_of(first) else {
        return targets.iter().map(|target| short_target(target)).collect::<Vec<_>>().join(",");
    };
    let known: Vec<&str> =
        processors::all().map(|known| known.name).filter(|name| family_of(name) == Some(family)).collect();
    let mut label = String::new();
    let mut rest = targets;
    while let Some((first, others)) = rest.split_first() {
        if label.is_empty() {
            label.push_str(first);
        } else {
            label.push(',');
            label.push_str(number_of(first));
        }
        let length = length_of_run(rest, &known);
        match rest.get(length.saturating_sub(1)) {
            Some(last) if length >= RANGE_MIN => {
                label.push_str(range_mark);
                label.push_str(number_of(last));
                rest = rest.get(length..).unwrap_or_default();
            }
            _ => rest = others,
        }
    }
    label
}

/// The least number of GPUs that are written as a range: `80…86` for two would suggest more.
const RANGE_MIN: usize = 3;

/// Returns the number of targets at the start of `targets` that follow each other without a gap in `known`. A first
/// target that is not known is a run of 1.
fn length_of_run(targets: &[&str], known: &[&str]) -> usize {
    let Some(first) = targets.first() else { return 0 };
    let Some(start) = known.iter().position(|name| name == first) else { return 1 };
    let known = known.get(start..).unwrap_or_default();
    targets.iter().zip(known).take_while(|(target, known)| target == known).count()
}

/// Returns the names of the products that run code for a target, or a description of code that a runtime compiles, such
/// as PTX.
pub(super) fn products_of(target: &str) -> String {
    match description_if_compiled(processor_in(target)) {
        Some(description) => description.to_owned(),
        None => runtime::products_of(target).join(", "),
    }
}

/// Returns a description such as `PTX: GPUs of its family`, or only the part before the colon if there is no room for
/// more.
fn description_within(description: &str, room: usize) -> &str {
    match description.split_once(": ") {
        Some((form, _)) if description.len() > room => form,
        _ => description,
    }
}

/// Names products that run code for some targets, in at most `room` characters. If there is no room for all, each
/// series, such as RTX, has up to the same number of products, and `more_mark` at the end says that there are more.
pub(super) fn some_products_of(targets: &[&str], room: usize, more_mark: &str) -> String {
    // PTX and SPIR-V have a description in place of products.
    if let [target] = targets
        && let Some(description) = description_if_compiled(processor_in(target))
    {
        return description_within(description, room).to_owned();
    }
    let products: Vec<Vec<&str>> = targets.iter().map(|target| runtime::products_of(target)).collect();
    // No series of a target has more products than the target has in total, so this takes all of them.
    let most = products.iter().map(Vec::len).max().unwrap_or_default();
    let all = ProductsBySeries::new(&products, most).names();
    if all.join(", ").len() <= room {
        return all.join(", ");
    }
    // If there is no room for all, a series has at most this many products.
    const SERIES_MAX: usize = 3;
    let mut names = Vec::new();
    for most in (1..=SERIES_MAX).rev() {
        names = ProductsBySeries::new(&products, most).names();
        if names.join(", ").len() + ", ".len() + more_mark.len() <= room {
            break;
        }
    }
    // If one product of each series is too long, the last series are left out.
    while names.len() > 1 && names.join(", ").len() + ", ".len() + more_mark.len() > room {
        names.pop();
    }
    names.push(more_mark.to_owned());
    names.join(", ")
}

/// Products by series, such as RTX, the series for workstations last.
struct ProductsBySeries<'p>(Vec<(&'p str, Vec<&'p str>)>);

impl<'p> ProductsBySeries<'p> {
    /// Takes at most `most` products of each series for each target. An item of `products` has the names of the
    /// products that run code for one target.
    fn new(products: &[Vec<&'p str>], most: usize) -> Self {
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        for names in products {
            // The series of each product that this target has in `all`.
            let mut series_so_far: Vec<&str> = Vec::new();
            for name in names {
                let (series, model) = split_product(name);
                if series_so_far.iter().filter(|other| **other == series).count() >= most {
                    continue;
                }
                series_so_far.push(series);
                match all.iter_mut().find(|(other, _)| *other == series) {
                    Some((_, models)) if models.contains(&model) => {}
                    Some((_, models)) => models.push(model),
                    None => all.push((series, vec![model])),
                }
            }
        }
        // `false` comes first, so products for workstations come last.
        all.sort_by_key(|(series, _)| is_for_workstations(series));
        Self(all)
    }

    /// Returns the names without brands, each once. Only the first one of a series has the name of the series, as in
    /// `RTX 4090, 4080`.
    fn names(&self) -> Vec<String> {
        let (mut names, mut whole_names) = (Vec::new(), BTreeSet::new());
        let mut last_series = String::new();
        for (series, models) in &self.0 {
            for (index, model) in models.iter().enumerate() {
                let name = format!("{series} {model}");
                let name = without_brand(name.trim_start());
                if !whole_names.insert(name.to_owned()) {
                    continue;
                }
                let (series, _) = split_product(name);
                // Without its brand, a series may have the name of the series before it, which is not repeated.
                let is_named = index == 0 && (series != last_series || series.is_empty());
                names.push(if is_named { name.to_owned() } else { (*model).to_owned() });
                last_series = series.to_owned();
            }
        }
        names
    }
}

/// Returns whether the products of a series are for workstations. Fewer people know such products, so lists have them
/// last. NVIDIA calls them `RTX A6000`, for example, and its products for games `GeForce RTX 3090`.
fn is_for_workstations(series: &str) -> bool {
    series == "RTX" || ["Quadro", "PRO", "Pro", "TITAN", "Jetson"].iter().any(|word| series.contains(word))
}

/// Returns the name of a product without its brand, if the rest is clear: `RTX 5090`, `RX 7900 XTX`, `MI300X`.
pub(super) fn without_brand(product: &str) -> &str {
    for brand in ["GeForce ", "Instinct ", "Tesla ", "Data Center GPU "] {
        if let Some(name) = product.strip_prefix(brand) {
            return name;
        }
    }
    match product.strip_prefix("Radeon ") {
        Some(name) if name.starts_with("RX ") => name,
        _ => product,
    }
}

/// Splits the name of a product before the first word with a digit into its series and its model: `RTX` and `3090 Ti`.
/// The series is empty if the first word has a digit, as in `MI300X`, or if no word has one.
fn split_product(name: &str) -> (&str, &str) {
    let mut start = 0;
    for word in name.split_inclusive(' ') {
        if word.contains(|c: char| c.is_ascii_digit()) {
            let (series, model) = name.split_at(start);
            return (series.trim_end(), model);
        }
        start += word.len();
    }
    ("", name)
}

/// Returns a description of code that the driver compiles or links when it loads the code, and of NVIDIA's bitcode.
/// Returns `None` for machine code. NVIDIA's suffix `a` means code for one version only, and `f` code for its family.
fn description_if_compiled(processor: &str) -> Option<&'static str> {
    if processor == "amdgcnspirv" {
        return Some("SPIR-V: any GPU of AMD, whose runtime compiles it");
    }
    if matches!(Code::from_name(processor), Some(Code::SpirV(_))) {
        return Some("SPIR-V: any GPU whose driver compiles it");
    }
    if processor == "nvptx64-nvidia-gpulibs" {
        return Some("bitcode: NVIDIA's functions for compilers");
    }
    match processor.split_once('_')? {
        ("compute", version) if version.ends_with('a') => Some("PTX: GPUs of this version only"),
        ("compute", version) if version.ends_with('f') => Some("PTX: GPUs of its family"),
        ("compute", _) => Some("PTX: GPUs of this version or later"),
        ("lto", version) if version.ends_with('a') => Some("LTO-IR: linked at run time, GPUs of this version only"),
        ("lto", _) => Some("LTO-IR: linked at run time, GPUs of this version or later"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Result<Vec<String>, String> {
        match Gpus::parse(list) {
            Ok(gpus) => Ok(gpus.0.iter().map(|gpu| gpu.name().to_owned()).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn lists_may_mix_products_and_processors() {
        let list = "NVIDIA H100, sm_90; RTX 5090+ptx,gfx906 gfx90a\nRadeon RX 7900 XTX";
        let all = ["sm_90", "sm_120", "compute_120", "gfx906", "gfx90a", "gfx1100"].map(str::to_owned);
        assert_eq!(names(list), Ok(all.into()));
        for (list, expected) in [
            ("MI3000X", "the table of products has no 'MI3000X': name its processor, such as gfx1100"),
            ("H100,NVIDIA GeForce MX440", "the table of products has no 'NVIDIA GeForce MX440'"),
            ("GeForce GTX 1250", "the table of products has no 'GeForce GTX 1250'"),
            ("gfx906 gfx1O30", "'gfx1O30' is not the name of a GPU; did you mean 'gfx1030'?"),
            ("bmg_g22", "'bmg_g22' is not the name of a GPU; did you mean 'bmg-g21'?"),
            ("dg2_g10", "'dg2_g10' is not the name of a GPU; did you mean 'dg2-g10'?"),
            ("RTX 7900 XTX", "the table of products has no 'RTX 7900 XTX'; did you mean RX 7900 XTX (gfx1100)?"),
            ("H100,RTX 1660", "has no 'RTX 1660'; did you mean GTX 1660 (sm_75)?"),
            (
                "Jetson Orinn",
                "'Jetson Orinn' is not the name of a GPU; did you mean Jetson Orin NX or Jetson Orin (both sm_87)?",
            ),
            ("gfx110X-dcgpu", "'gfx110X-dcgpu' is not the name of a GPU"),
            ("MI300X:sramecc", "has no sign"),
        ] {
            let error = names(list).unwrap_err();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }

    #[test]
    fn labels_of_families_name_each_gpu_and_no_other() {
        for (targets, label) in [
            (&["gfx1100", "gfx1101", "gfx1102", "gfx1103"][..], "gfx1100…1103"),
            (&["gfx1030", "gfx1031", "gfx1033", "gfx1034", "gfx1035"], "gfx1030,1031,1033…1035"),
            (&["gfx908", "gfx90a"], "gfx908,90a"),
            (&["sm_80", "sm_86", "sm_89"], "sm_80,86,89"),
            (&["sm_86", "sm_87", "sm_88", "sm_89"], "sm_86…89"),
            (&["compute_80"], "compute_80"),
            (&["gfx90a:xnack+"], "gfx90a:xnack+"),
        ] {
            assert_eq!(label_of_family(targets, "…"), label);
        }
        for (target, family) in [
            ("gfx90a", Some("gfx90")),
            ("gfx1250", Some("gfx125")),
            ("sm_120", Some("sm_12")),
            ("sm_90a", None),
            ("compute_90", Some("compute_9")),
            ("gfx9001", None),
            ("gfx11-generic", None),
            ("gfx90a:xnack-", None),
            ("gfx", None),
            ("pvc", None),
        ] {
            assert_eq!(family_of(target), family, "{target}");
        }
    }

    #[test]
    fn some_products_of_each_series_are_named_within_the_room() {
        for (targets, room, products) in [
            (&["gfx942"][..], 40, "MI325X, MI308X, MI300X, MI300A"),
            (&["sm_90"], 40, "GH200, H200, H100, H20, H800"),
            (&["sm_120"], 30, "RTX 5090, RTX PRO 6000, …"),
            (&["gfx1100", "gfx1101", "gfx1102", "gfx1103"], 50, "RX 7900 XTX, 7800 XT, 7600 XT, Radeon 780M, …"),
            (&["sm_75"], 30, "T4, RTX 2080 Ti, …"),
            (&["sm_89"], 40, "L4, RTX 4090, 6000 Ada, …"),
            (&["compute_90"], 10, "PTX"),
            (&["compute_90"], 50, "PTX: GPUs of this version or later"),
            (&["pvc"], 40, "Max 1550, 1100"),
            (&["gfx1013"], 40, ""),
        ] {
            assert_eq!(some_products_of(targets, room, "…"), products, "{targets:?}");
        }
    }

    #[test]
    fn targets_have_the_products_that_take_their_code() {
        for (target, products) in [
            ("sm_103a", "GB300, B300"),
            ("sm_100f", "GB200, B200, B100, GB300, B300"),
            ("sm_103f", "GB300, B300"),
            ("gfx942:xnack-", "Instinct MI325X, Instinct MI308X, Instinct MI300X, Instinct MI300A"),
            (
                "gfx9-4-generic",
                "Instinct MI325X, Instinct MI308X, Instinct MI300X, Instinct MI300A, Instinct MI355X, Instinct MI350X",
            ),
            ("compute_90a", "PTX: GPUs of this version only"),
            ("lto_80", "LTO-IR: linked at run time, GPUs of this version or later"),
            ("spir64-unknown-unknown", "SPIR-V: any GPU whose driver compiles it"),
            ("spir64", "SPIR-V: any GPU whose driver compiles it"),
            ("spir64_x86_64-unknown-unknown", ""),
            ("gfx9999", ""),
        ] {
            assert_eq!(products_of(target), products, "{target}");
        }
    }
}
