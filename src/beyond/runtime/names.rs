//! Names of GPUs that people type, and the target IDs that they mean.
//!
//! | typed | means |
//! |---|---|
//! | `RTX 4090`, `Instinct MI300X`, `Arc B580` | the processor of the [product](crate::beyond::products) |
//! | `Meteor Lake`, `gfx110X-all` | all processors of a series, by Intel's names and those of AMD's TheRock |
//! | `8.6`, `9.0a` | NVIDIA's compute capability, as in PyTorch's `TORCH_CUDA_ARCH_LIST` |
//! | `acm-g10`, `12.55.8` | an Intel GPU by another name or its IP version, as for `ocloc` |
//! | `amdgpu9.42` | the architecture of AMD's triples |
//!
//! Features (`MI250X:xnack-`) or `+ptx` (`9.0+PTX`) may follow.

use super::code::Sm;
use super::device::Device;
use crate::base::id::triple::Triple;
use crate::beyond::code::intel_gpu;
use crate::beyond::products;

/// The meaning of a typed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<'t> {
    /// The name without features and `+ptx`, or `None` if it is a target itself.
    pub(crate) name: Option<&'t str>,
    /// The target IDs, and for `+ptx` also the targets of PTX. Never empty: an unknown name is its own target ID.
    pub(crate) targets: Vec<String>,
}

impl<'t> Named<'t> {
    /// Returns what a typed text means.
    pub(crate) fn of(typed: &'t str) -> Self {
        let (name, suffix) = typed.split_at(length_of_name(typed));
        let processors = processors_of(name);
        let known_name = if processors.is_some() { Some(name) } else { None };
        let processors = processors.unwrap_or_else(|| vec![name.to_owned()]);
        if !suffix.starts_with('+') {
            return Self { name: known_name, targets: processors.into_iter().map(|name| name + suffix).collect() };
        }
        let mut targets = Vec::new();
        for processor in processors {
            // Only NVIDIA's GPUs have PTX.
            let Some(version) = processor.strip_prefix("sm_") else {
                return Self { name: None, targets: vec![typed.to_owned()] };
            };
            let ptx = format!("compute_{version}");
            targets.extend([processor, ptx]);
        }
        Self { name: known_name, targets }
    }
}

/// Returns the length of the name before features (`:xnack-`) or `+ptx`.
fn length_of_name(typed: &str) -> usize {
    if let Some(length) = typed.find(':') {
        return length;
    }
    for ptx in ["+ptx", "+PTX"] {
        if let Some(name) = typed.strip_suffix(ptx) {
            return name.len();
        }
    }
    typed.len()
}

/// Returns the processors that a name means, or `None` if it is not one of the names in the table at the head of this
/// file.
fn processors_of(name: &str) -> Option<Vec<String>> {
    if let Some(processors) = products::processors(name) {
        return Some(processors.iter().map(|processor| (*processor).to_owned()).collect());
    }
    if let Some(processor) = of_capability(name) {
        return Some(vec![processor]);
    }
    // Intel's GPUs have several names and versions.
    if let Some(gpu) = intel_gpu::canonical(name).filter(|gpu| gpu != name) {
        return Some(vec![gpu]);
    }
    // A whole triple or entry ID is not a name for a processor.
    if name.contains('-') { None } else { Some(vec![Triple::parse(name).amd_processor()?]) }
}

/// Returns NVIDIA's processor with a compute capability: `sm_86` for `8.6`, `sm_90a` for `9.0a`.
fn of_capability(text: &str) -> Option<String> {
    let (major, minor) = text.split_once('.')?;
    let digits = minor.trim_end_matches(['a', 'f']);
    let is_capability = digits.len() == 1 && minor.len() <= 2 && (1..=2).contains(&major.len());
    if !is_capability {
        return None;
    }
    let number = [major, minor].concat();
    Sm::parse(&number)?;
    Some(format!("sm_{number}"))
}

/// Returns the name of the processor in a target ID.
pub(crate) fn processor_in(target: &str) -> &str {
    target.split(':').next().unwrap_or_default()
}

/// Returns the products whose GPUs code for a target is made for.
pub(crate) fn products_of(target: &str) -> Vec<&'static str> {
    let processor = processor_in(target);
    let is_sm = processor.starts_with("sm_");
    if let Some(gpu) = intel_gpu::name_of_target(processor) {
        return intel_gpu::members(&gpu).iter().flat_map(|name| products::with_processor(name)).copied().collect();
    }
    // CUDA 13 has another name for the GPU.
    let processor = if processor.trim_end_matches(['a', 'f']) == "sm_101" { "sm_110" } else { processor };
    // `gfx11-generic` and `sm_100f` are code for a family of processors.
    if processor.ends_with("-generic") || is_sm && processor.ends_with('f') {
        return products_of_family(processor);
    }
    // Code with the suffix `a`, such as `sm_90a`, runs on the same products as `sm_90`, but not on later ones.
    let processor = if is_sm { processor.trim_end_matches('a') } else { processor };
    products::with_processor(processor).to_vec()
}

/// Returns the products whose processors run code for a whole family, such as `gfx11-generic`.
fn products_of_family(family: &str) -> Vec<&'static str> {
    let mut products = Vec::new();
    for (processor, names) in products::all() {
        if let Ok(device) = Device::parse(processor)
            && device.runs(family)
        {
            products.extend_from_slice(names);
        }
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_by_their_processors_and_features_stay() {
        for (typed, targets) in [
            ("MI300X", &["gfx942"][..]),
            ("AMD Instinct MI250X:xnack-", &["gfx90a:xnack-"]),
            ("rtx 5090+ptx", &["sm_120", "compute_120"]),
            ("sm_90+ptx", &["sm_90", "compute_90"]),
            ("8.6", &["sm_86"]),
            ("12.0", &["sm_120"]),
            ("9.0+PTX", &["sm_90", "compute_90"]),
            ("10.0f", &["sm_100f"]),
            ("9.0a+PTX", &["sm_90a", "compute_90a"]),
            ("gfx110X-all", &["gfx1100", "gfx1101", "gfx1102", "gfx1103"]),
            ("Meteor Lake", &["mtl-u", "mtl-h"]),
            ("Jetson Orin", &["sm_87"]),
            ("amdgpu9.42:xnack-", &["gfx942:xnack-"]),
            ("acm-g10", &["dg2-g10"]),
            ("20.1.0", &["bmg-g21"]),
            ("dg2", &["dg2"]),
            ("amdgpu9.4", &["gfx9-4-generic"]),
            ("amdgpu9.99", &["amdgpu9.99"]),
            ("amdgpu9.42-amd-amdhsa", &["amdgpu9.42-amd-amdhsa"]),
            ("Ryzen AI Max+ 395", &["gfx1151"]),
            ("gfx90a:xnack+", &["gfx90a:xnack+"]),
            ("gfx90a+ptx", &["gfx90a+ptx"]),
            ("MI300X+ptx", &["MI300X+ptx"]),
            ("A1*", &["A1*"]),
            ("hip-amdgcn-amd-amdhsa--gfx942", &["hip-amdgcn-amd-amdhsa--gfx942"]),
            (":xnack+", &[":xnack+"]),
            ("0.1", &["0.1"]),
            ("1.10", &["1.10"]),
            ("8.6.0", &["8.6.0"]),
            ("9.0b", &["9.0b"]),
            ("9.", &["9."]),
            ("İ", &["İ"]),
            ("", &[""]),
        ] {
            assert_eq!(Named::of(typed).targets, targets, "{typed}");
        }
    }

    #[test]
    fn targets_have_the_products_that_take_their_code() {
        for (target, products) in [
            ("sm_103a", &["GB300", "B300"][..]),
            ("sm_100f", &["GB200", "B200", "B100", "GB300", "B300"]),
            ("sm_101", &["Jetson T5000", "Jetson T4000"]),
            ("bmg_g21", &["Arc B580", "Arc B570", "Arc Pro B60", "Arc Pro B50"]),
            ("gfx9999", &[]),
            ("compute_90", &[]),
        ] {
            assert_eq!(products_of(target), products, "{target}");
        }
        // Code that records only the family has the products of its GPUs.
        let all = ["dg2-g10", "dg2-g11", "dg2-g12"].map(products_of).concat();
        assert_eq!(products_of("dg2"), all);
    }

    #[test]
    fn each_name_in_the_tables_is_a_gpu_in_any_form() {
        for (processor, names) in products::all() {
            assert_eq!(Device::parse(processor).unwrap().name(), processor);
            for name in names {
                let device: Device = name.parse().unwrap();
                assert_eq!((device.name(), device.is_known()), (processor, true), "{name}");
                assert!(device.products().contains(name), "{name}");
                assert_eq!(device.to_string(), format!("{name} ({processor})"));
                assert_eq!(Device::parse_list(&format!("{name}, {processor}")).unwrap(), [device], "{name}");
            }
        }
        for (name, processors) in products::other_names() {
            let devices = Device::parse_list(name).unwrap();
            assert_eq!(devices.iter().map(Device::name).collect::<Vec<_>>(), processors, "{name}");
            assert!(devices.iter().all(Device::is_known), "{name}");
            match &*devices {
                [device] => assert_eq!(Device::parse(name).unwrap(), *device),
                _ => assert!(Device::parse(name).unwrap_err().to_string().contains("it means several"), "{name}"),
            }
        }
    }
}
