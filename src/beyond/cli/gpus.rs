//! Options with names of GPUs.

use std::borrow::Cow;
use std::io;

use crate::base::id::processors;
use crate::base::id::triple::Triple;
use crate::beyond::products;
use crate::beyond::runtime::Device;
use anyhow::bail;

use super::suggest;

/// The longest file with names of GPUs, in bytes.
const LIST_MAX: u64 = 1 << 20;

/// The GPUs of an option.
#[derive(Clone, Debug)]
pub(super) struct Gpus(pub(super) Vec<Device>);

impl Gpus {
    /// The GPUs in a list, or in a file. In a file, `#` begins a comment.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let devices = match suggest::devices(text) {
            Ok(devices) => devices,
            Err(error) => match std::fs::metadata(text) {
                Ok(file) if file.is_file() && file.len() <= LIST_MAX => {
                    let content = std::fs::read_to_string(text)?;
                    let lines = content.trim_start_matches('\u{feff}').lines();
                    let names: Vec<&str> = lines.map(|line| line.split('#').next().unwrap_or_default()).collect();
                    suggest::devices(&names.join("\n")).map_err(anyhow::Error::msg)?
                }
                Ok(_) => bail!("it is not a file with a list of at most 1 MiB"),
                Err(_) if !text.contains(['.', '/']) => bail!("{error}"),
                Err(file) if file.kind() == io::ErrorKind::NotFound => bail!("there is no such file, and {error}"),
                Err(file) => bail!("{file}, and {error}"),
            },
        };
        if devices.is_empty() {
            bail!("it names no GPU");
        }
        Ok(Self(devices))
    }
}

/// A target ID for one that is typed with the name of a product, or with the architecture of AMD's triples:
/// `gfx942:xnack-` for `MI300X:xnack-` and `amdgpu9.42:xnack-`, `sm_120+ptx` for `RTX 5090+ptx`. Everything else stays as
/// it is.
pub(super) fn target_of(typed: &str) -> Cow<'_, str> {
    let plus = || ["+ptx", "+PTX"].into_iter().find_map(|ptx| Some(typed.strip_suffix(ptx)?.len()));
    let (name, rest) = typed.split_at(typed.find(':').or_else(plus).unwrap_or(typed.len()));
    let processor = match products::processor(name) {
        Some(processor) => Some(processor.to_owned()),
        None if name.contains('-') => None,
        None => Triple::parse(name).amd_processor(),
    };
    processor.map_or(Cow::Borrowed(typed), |processor| Cow::Owned(processor + rest))
}

/// Orders target IDs by vendors and generations: `sm_50` before `sm_100`, `gfx90a` before `gfx1030`.
pub(super) fn generation(target: &str) -> impl Ord + use<> {
    let processor = target.split(':').next().unwrap_or_default();
    let compiled_for = processor.strip_prefix("compute_").or_else(|| processor.strip_prefix("lto_"));
    let processor = compiled_for.map_or_else(|| processor.to_owned(), |sm| format!("sm_{sm}"));
    let number = |name: &str| name.strip_prefix("sm_")?.trim_end_matches(char::is_alphabetic).parse::<u32>().ok();
    // NVIDIA's have numbers, by which new ones have a place too.
    let before = || {
        let own = number(&processor)?;
        let older = |name: &str| number(name).filter(|number| *number < own);
        let older = processors::all().enumerate().filter_map(|(at, known)| Some((older(known.name)?, at)));
        older.max().map(|(_, at)| at)
    };
    let known = processors::all().position(|known| known.name == processor).or_else(before).unwrap_or(usize::MAX);
    let sold = products::all().position(|(own, _)| own == processor).unwrap_or(usize::MAX);
    (known, sold, target.to_owned())
}

/// The products that code for a target runs on.
pub(super) fn products_of(target: &str) -> String {
    let processor = target.split(':').next().unwrap_or_default();
    if processor.ends_with("-generic") || processor.starts_with("sm_") && processor.ends_with('f') {
        let runs = |own: &str| Device::parse(own).is_ok_and(|device| device.runs(processor));
        let sold = products::all().filter(|(own, _)| runs(own)).flat_map(|(_, names)| names.iter().copied());
        return sold.collect::<Vec<_>>().join(", ");
    }
    match processor {
        "amdgcnspirv" => "SPIR-V: any GPU of AMD, whose runtime compiles it".to_owned(),
        _ if processor.starts_with("spir64-") || processor.starts_with("spirv") => {
            "SPIR-V: any GPU whose driver compiles it".to_owned()
        }
        _ if processor.starts_with("compute_") => match processor.as_bytes().last() {
            Some(b'a') => "PTX: GPUs of this version only".to_owned(),
            Some(b'f') => "PTX: GPUs of its family".to_owned(),
            _ => "PTX: any GPU of this version or a later one".to_owned(),
        },
        _ if processor.starts_with("lto_") => match processor.ends_with('a') {
            true => "LTO-IR, linked at run time: GPUs of this version only".to_owned(),
            false => "LTO-IR, linked at run time: any GPU of this version or a later one".to_owned(),
        },
        // Code with this suffix runs on the same products.
        _ if processor.starts_with("sm_") => products::of(processor.trim_end_matches('a')).join(", "),
        _ => products::of(processor).join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Result<Vec<String>, String> {
        let named = |gpus: Gpus| gpus.0.iter().map(Device::to_string).collect();
        Gpus::parse(list).map(named).map_err(|error| error.to_string())
    }

    #[test]
    fn products_stand_for_their_processors_and_keep_what_follows() {
        for (typed, target) in [
            ("MI300X", "gfx942"),
            ("AMD Instinct MI250X:xnack-", "gfx90a:xnack-"),
            ("rtx 5090+ptx", "sm_120+ptx"),
            ("amdgpu9.42:xnack-", "gfx942:xnack-"),
            ("amdgpu9.4", "gfx9-4-generic"),
            ("amdgpu9.99", "amdgpu9.99"),
            ("amdgpu9.42-amd-amdhsa", "amdgpu9.42-amd-amdhsa"),
            ("Ryzen AI Max+ 395", "gfx1151"),
            ("gfx90a:xnack+", "gfx90a:xnack+"),
            ("A1*", "A1*"),
            ("hip-amdgcn-amd-amdhsa--gfx942", "hip-amdgcn-amd-amdhsa--gfx942"),
            (":xnack+", ":xnack+"),
            ("İ", "İ"),
        ] {
            assert_eq!(target_of(typed), target, "{typed}");
        }
    }

    #[test]
    fn lists_may_mix_products_and_processors() {
        let list = "NVIDIA H100, sm_90; RTX 5090+ptx,gfx906 gfx90a\nRadeon RX 7900 XTX";
        let all = ["sm_90", "sm_120", "compute_120", "gfx906", "gfx90a", "gfx1100"].map(str::to_owned);
        assert_eq!(names(list), Ok(all.into()));
        for (list, expected) in [
            ("MI3000X", "the table of products has no 'MI3000X': name its processor, such as gfx1100"),
            ("H100,NVIDIA GeForce MX450", "the table of products has no 'NVIDIA GeForce MX450'"),
            ("GeForce GTX 1250", "the table of products has no 'GeForce GTX 1250'"),
            ("gfx906 gfx1O30", "'gfx1O30' is not the name of a GPU; did you mean 'gfx1030'?"),
            ("Arc A770", "'Arc A770' is dg2-g10"),
            ("MI300X:sramecc", "has no sign"),
        ] {
            let error = names(list).unwrap_err();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }

    #[test]
    fn gpus_are_in_the_order_of_generations() {
        let mut all = [
            "spir64-unknown-unknown",
            "bmg-g21",
            "sm_121",
            "sm_107",
            "sm_100",
            "sm_50",
            "compute_90",
            "sm_90",
            "sm_90a",
            "gfx1100",
            "gfx1030",
            "gfx11-generic",
            "gfx90a:xnack+",
            "pvc",
            "gfx906",
            "gfx9-generic",
        ];
        all.sort_by_key(|target| generation(target));
        let expected = [
            "gfx9-generic",
            "gfx906",
            "gfx90a:xnack+",
            "gfx1030",
            "gfx11-generic",
            "gfx1100",
            "sm_50",
            "compute_90",
            "sm_90",
            "sm_90a",
            "sm_100",
            "sm_107",
            "sm_121",
            "pvc",
            "bmg-g21",
            "spir64-unknown-unknown",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn targets_have_the_products_that_take_their_code() {
        for (target, products) in [
            ("sm_103a", "GB300, B300"),
            ("sm_100f", "GB200, B200, GB300, B300"),
            ("sm_103f", "GB300, B300"),
            ("gfx942:xnack-", "Instinct MI325X, Instinct MI300X, Instinct MI300A"),
            ("gfx9-4-generic", "Instinct MI325X, Instinct MI300X, Instinct MI300A, Instinct MI355X, Instinct MI350X"),
            ("compute_90a", "PTX: GPUs of this version only"),
            ("lto_80", "LTO-IR, linked at run time: any GPU of this version or a later one"),
            ("spir64-unknown-unknown", "SPIR-V: any GPU whose driver compiles it"),
            ("spir64_x86_64-unknown-unknown", ""),
            ("gfx9999", ""),
        ] {
            assert_eq!(products_of(target), products, "{target}");
        }
    }
}
