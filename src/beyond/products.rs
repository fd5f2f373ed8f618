//! Names under which GPUs are sold, and their processors.
//!
//! A product is in the table if its vendor says which processor it has. Names that vendors used for several processors,
//! such as RTX 4000, are not.
//!
//! | vendor | source |
//! |---|---|
//! | AMD | AMD's page "GPU specifications" of ROCm 7.13 (2026); for older GPUs, LLVM's User Guide for AMDGPU Backend (2026), in which RX 580 is the `polaris10` of RX 480; MI308X: AMD's ROCm blog (2026); RX 6500 XT and Radeon 680M: the table of devices in the README of AMD's TheRock (2026); RX 6300 and RX 6400: the chip of RX 6500 XT, Navi 24, in pci.ids (2026) |
//! | NVIDIA | NVIDIA's pages "CUDA GPU Compute Capability" and "Legacy CUDA GPU Compute Capability" (2026); GTX 16xx: "GeForce GTX 16 Series", which has the processors of its architecture, Turing; variants of these that `nvidia-smi` names, such as A10G, V100S and K40m, have the same processor |
//! | Intel | the devices of Intel's Compute Runtime (2026); names as `ocloc` writes them, see `code/intel_gpu.rs` |

/// Returns the processor of a product, such as `gfx942` for MI300X and `sm_90` for H100, or `None` if the name is not
/// known or has words of another vendor.
///
/// Case and separators do not count, nor do words for the vendor and the kind of device (NVIDIA, GeForce, Radeon, GPU)
/// and for its form and memory (SXM4, 80GB). So the names that `nvidia-smi`, `rocminfo` and `amd-smi` print are known.
pub(crate) fn processor(product: &str) -> Option<&'static str> {
    let typed = plain(product);
    // `plain` leaves out all separators, so a text with characters of a path or pattern could look like a name.
    if typed.is_empty() || !product.chars().all(is_of_name) {
        return None;
    }
    let (processor, _) = PRODUCTS.iter().find(|(_, names)| names.iter().any(|name| plain(name) == typed))?;
    let vendor = match processor.get(..3) {
        Some("gfx") => "amd",
        Some("sm_") => "nvidia",
        _ => "intel",
    };
    // `plain` leaves out the words for vendors, so a name with the wrong vendor ("AMD A10") was found too.
    for word in words(product) {
        if let Some(named) = vendor_named(word)
            && named != vendor
        {
            return None;
        }
    }
    Some(*processor)
}

/// Whether a character occurs in names of products.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '+' | '(' | ')')
}

/// Returns the words of a name, which any characters but letters and digits separate; some of them may be empty.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
}

/// Words that name the vendor of a product, with the vendor.
const BRANDS: [(&str, &str); 7] = [
    ("amd", "amd"),
    ("geforce", "nvidia"),
    ("instinct", "amd"),
    ("intel", "intel"),
    ("nvidia", "nvidia"),
    ("radeon", "amd"),
    ("tesla", "nvidia"),
];

/// Returns the vendor that a word names, in any case, or `None` if it is not one of the [`BRANDS`].
pub(crate) fn vendor_named(word: &str) -> Option<&'static str> {
    let (_, vendor) = BRANDS.iter().find(|(brand, _)| word.eq_ignore_ascii_case(brand))?;
    Some(vendor)
}

/// Returns the processors with their products, the older generations of each vendor first.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    PRODUCTS.iter().copied()
}

/// Returns the products with a processor, or an empty list if the processor is not in the table.
pub(crate) fn with_processor(processor: &str) -> &'static [&'static str] {
    match PRODUCTS.iter().find(|(name, _)| *name == processor) {
        Some((_, products)) => products,
        None => &[],
    }
}

/// Returns the products that an incomplete name may mean, each with its processor, the older generations of each vendor
/// first: MI300X and MI300A for `MI300`, RTX 5090 for `5090`, Quadro RTX 4000 and RTX 4000 Ada for `RTX 4000`. Numbers
/// must be complete: `50` does not mean RTX 5090. A name without a number means no product.
pub(crate) fn with_part(typed: &str) -> Vec<(&'static str, &'static str)> {
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

/// Returns a name as names are compared: its words in lower case and joined. Words for the vendor and for a size of
/// memory are left out, and so are the words [`WITHOUT_MEANING`].
pub(crate) fn plain(name: &str) -> String {
    // "with Max-Q Design" says nothing about the processor. "max-q" is removed as a whole, because "Max" alone is part
    // of some products' names.
    let name = name.to_ascii_lowercase().replace("max-q", "");
    let mut plain = String::new();
    for word in words(&name) {
        if !WITHOUT_MEANING.contains(&word) && vendor_named(word).is_none() && !is_memory_size(word) {
            plain.push_str(word);
        }
    }
    plain
}

/// Whether a word is a size of memory, such as `80gb` or `24g`.
fn is_memory_size(word: &str) -> bool {
    let Some(size) = word.strip_suffix("gb").or(word.strip_suffix('g')) else { return false };
    !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit())
}

/// Words, besides the [`BRANDS`], that do not distinguish products with different processors.
#[rustfmt::skip]
const WITHOUT_MEANING: [&str; 30] = [
    "accelerator", "blackwell", "d", "design", "edition", "generation", "gpu", "graphics", "hbm2", "hbm2e", "hbm3",
    "hbm3e", "hf", "laptop", "nvl", "oam", "pcie", "r", "series", "server", "sff", "super", "sxm2", "sxm3", "sxm4",
    "sxm5", "tm", "vf", "with", "workstation",
];

/// Processors with the names of their products.
#[rustfmt::skip]
static PRODUCTS: &[(&str, &[&str])] = &[
    ("gfx803", &["Instinct MI8", "Instinct MI6", "Radeon RX 580", "Radeon RX 480", "Radeon RX 470", "Radeon RX 460", "Radeon R9 Nano"]),
    ("gfx900", &["Instinct MI25", "Radeon RX Vega 64", "Radeon RX Vega 56", "Radeon Vega Frontier Edition"]),
    ("gfx906", &["Instinct MI60", "Instinct MI50", "Radeon VII", "Radeon Pro VII"]),
    ("gfx908", &["Instinct MI100"]),
    ("gfx90a", &["Instinct MI250X", "Instinct MI250", "Instinct MI210"]),
    ("gfx942", &["Instinct MI325X", "Instinct MI308X", "Instinct MI300X", "Instinct MI300A"]),
    ("gfx950", &["Instinct MI355X", "Instinct MI350X"]),
    ("gfx1010", &["Radeon RX 5700 XT", "Radeon RX 5700"]),
    ("gfx1011", &["Radeon Pro V520"]),
    ("gfx1012", &["Radeon RX 5500 XT", "Radeon RX 5500"]),
    ("gfx1030", &["Radeon RX 6950 XT", "Radeon RX 6900 XT", "Radeon RX 6800 XT", "Radeon RX 6800", "Radeon PRO W6800",
        "Radeon PRO V620"]),
    ("gfx1031", &["Radeon RX 6750 XT", "Radeon RX 6700 XT"]),
    ("gfx1032", &["Radeon RX 6650 XT", "Radeon RX 6600 XT", "Radeon RX 6600", "Radeon PRO W6600"]),
    ("gfx1034", &["Radeon RX 6500 XT", "Radeon RX 6400", "Radeon RX 6300"]),
    ("gfx1035", &["Radeon 680M"]),
    ("gfx1100", &["Radeon RX 7900 XTX", "Radeon RX 7900 XT", "Radeon RX 7900 GRE", "Radeon PRO W7900",
        "Radeon PRO W7800"]),
    ("gfx1101", &["Radeon RX 7800 XT", "Radeon RX 7700 XT", "Radeon RX 7700", "Radeon PRO W7700", "Radeon PRO V710"]),
    ("gfx1102", &["Radeon RX 7600 XT", "Radeon RX 7600", "Radeon PRO W7600", "Radeon PRO W7500"]),
    ("gfx1103", &["Radeon 780M"]),
    ("gfx1150", &["Radeon 890M", "Ryzen AI 9 HX 375", "Ryzen AI 9 HX 370"]),
    ("gfx1151", &["Radeon 8060S", "Ryzen AI Max+ 395"]),
    ("gfx1152", &["Radeon 860M", "Ryzen AI 7 350"]),
    ("gfx1200", &["Radeon RX 9060 XT", "Radeon RX 9060"]),
    ("gfx1201", &["Radeon RX 9070 XT", "Radeon RX 9070", "Radeon RX 9070 GRE", "Radeon AI PRO R9700"]),
    ("sm_35", &["Tesla K40", "Tesla K40m", "Tesla K40c", "Tesla K20", "Tesla K20X", "Tesla K20Xm", "Tesla K20m",
        "Tesla K20c", "GeForce GTX 780 Ti", "GeForce GTX 780"]),
    ("sm_37", &["Tesla K80"]),
    ("sm_50", &["GeForce GTX 750 Ti", "GeForce GTX 750", "Quadro K2200"]),
    ("sm_52", &["Tesla M60", "Tesla M40", "Quadro M6000", "Quadro M5000", "Quadro M4000", "Quadro M2000",
        "GeForce GTX 980 Ti", "GeForce GTX 980", "GeForce GTX 970", "GeForce GTX 960", "GeForce GTX 950"]),
    ("sm_53", &["Jetson Nano"]),
    ("sm_60", &["Tesla P100", "Quadro GP100"]),
    ("sm_61", &["Tesla P40", "Tesla P4", "Quadro P6000", "Quadro P5000", "Quadro P4000", "Quadro P2000", "TITAN Xp",
        "GeForce GTX 1080 Ti", "GeForce GTX 1080", "GeForce GTX 1070 Ti", "GeForce GTX 1070", "GeForce GTX 1060",
        "GeForce GTX 1050"]),
    ("sm_62", &["Jetson TX2"]),
    ("sm_70", &["V100", "V100S", "Quadro GV100", "TITAN V"]),
    ("sm_72", &["Jetson AGX Xavier", "Jetson Xavier NX"]),
    ("sm_75", &["T4", "Quadro RTX 8000", "Quadro RTX 6000", "Quadro RTX 5000", "Quadro RTX 4000", "TITAN RTX",
        "GeForce RTX 2080 Ti", "GeForce RTX 2080", "GeForce RTX 2070", "GeForce RTX 2060", "GeForce GTX 1660 Ti",
        "GeForce GTX 1660", "GeForce GTX 1650 Ti", "GeForce GTX 1650", "GeForce GTX 1630"]),
    ("sm_80", &["A100", "A30"]),
    ("sm_86", &["A40", "A10", "A10G", "A16", "A2", "RTX A6000", "RTX A5500", "RTX A5000", "RTX A4500", "RTX A4000",
        "RTX A3000", "RTX A2000", "RTX A1000", "GeForce RTX 3090 Ti", "GeForce RTX 3090", "GeForce RTX 3080 Ti",
        "GeForce RTX 3080", "GeForce RTX 3070 Ti", "GeForce RTX 3070", "GeForce RTX 3060 Ti", "GeForce RTX 3060",
        "GeForce RTX 3050"]),
    ("sm_87", &["Jetson AGX Orin", "Jetson Orin NX", "Jetson Orin Nano"]),
    ("sm_89", &["L4", "L40", "L40S", "RTX 6000 Ada", "RTX 5000 Ada", "RTX 4500 Ada", "RTX 4000 Ada", "RTX 2000 Ada",
        "GeForce RTX 4090", "GeForce RTX 4080", "GeForce RTX 4070 Ti", "GeForce RTX 4070", "GeForce RTX 4060 Ti",
        "GeForce RTX 4060", "GeForce RTX 4050"]),
    ("sm_90", &["GH200", "H200", "H100"]),
    ("sm_100", &["GB200", "B200"]),
    ("sm_103", &["GB300", "B300"]),
    ("sm_110", &["Jetson T5000", "Jetson T4000"]),
    ("sm_120", &["RTX PRO 6000", "RTX PRO 5000", "RTX PRO 4500", "RTX PRO 4000", "RTX PRO 2000", "GeForce RTX 5090",
        "GeForce RTX 5080", "GeForce RTX 5070 Ti", "GeForce RTX 5070", "GeForce RTX 5060 Ti", "GeForce RTX 5060",
        "GeForce RTX 5050"]),
    ("sm_121", &["GB10", "DGX Spark"]),
    ("dg1", &["Iris Xe MAX"]),
    ("dg2-g10", &["Arc A770", "Arc A750", "Arc A580", "Arc A770M", "Arc A730M", "Arc A550M", "Data Center GPU Flex 170",
        "Flex 170"]),
    ("dg2-g11", &["Arc A380", "Arc A310", "Arc A370M", "Arc A350M", "Data Center GPU Flex 140", "Flex 140"]),
    ("pvc", &["Data Center GPU Max 1550", "Data Center GPU Max 1100", "Max 1550", "Max 1100"]),
    ("bmg-g21", &["Arc B580", "Arc B570", "Arc Pro B60", "Arc Pro B50"]),
];

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::base::id::processors;

    #[test]
    fn a_product_stands_for_its_processor_in_any_spelling() {
        assert_eq!(processor("NVIDIA H100 80GB HBM3"), Some("sm_90"));
        assert_eq!(processor("rx7900xtx"), processor("Radeon RX 7900 XTX"));
        assert_eq!(processor("AMD A10"), None);
        assert_eq!(processor("sm_90"), None);
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

    #[test]
    fn each_name_is_that_of_one_processor_and_of_no_other_in_any_spelling() {
        let mut seen = HashMap::new();
        for (own, names) in all() {
            assert_eq!(with_processor(own), names);
            for name in names {
                assert_eq!(seen.insert(plain(name), name), None, "{name}");
                assert!(processors::find(name).is_none() && processors::find(&plain(name)).is_none(), "{name}");
                let vendor = match own.split_at(3).0 {
                    "gfx" => "AMD",
                    "sm_" => "NVIDIA",
                    _ => "Intel",
                };
                for other in ["AMD", "Radeon", "Instinct", "NVIDIA", "GeForce", "Tesla", "Intel"] {
                    let is_its = match other {
                        "Radeon" | "Instinct" => vendor == "AMD",
                        "GeForce" | "Tesla" => vendor == "NVIDIA",
                        other => vendor == other,
                    };
                    assert_eq!(processor(&format!("{other} {name}")), is_its.then_some(own), "{other} {name}");
                }
                let spellings = [name.to_ascii_lowercase(), name.replace(' ', "-"), format!("{vendor} {name} GPU")];
                for spelling in spellings.iter().map(String::as_str).chain([*name]) {
                    assert_eq!(processor(spelling), Some(own), "{spelling}");
                }
            }
        }
    }

    #[test]
    fn processors_of_amd_and_nvidia_are_known_and_in_the_order_of_generations() {
        let known: Vec<&str> = processors::all().map(|known| known.name).collect();
        let place = |name| known.iter().position(|known| *known == name);
        let of_intel = ["dg1", "dg2-g10", "dg2-g11", "pvc", "bmg-g21"];
        let places: Vec<usize> =
            all().filter(|(own, _)| !of_intel.contains(own)).filter_map(|(own, _)| place(own)).collect();
        assert_eq!(places.len() + of_intel.len(), all().count());
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn processors_patterns_entry_ids_and_parts_of_names_are_not_products() {
        for name in [
            "",
            "gfx90a",
            "sm_90",
            "NVIDIA",
            "Radeon",
            "A1*0",
            "A10?",
            "[A]100",
            "host-x86_64-linux",
            "RTX",
            "RTX 4000",
            "NVIDIA RTX 4000 16GB",
            "80GB",
            "GB",
            "GTX SUPER 8GB",
            "144G",
            "MI300X A",
            "Intel GeForce RTX 4090",
            "AMD A10",
            "Radeon A100",
            "H1000",
            "MIG 1g.5gb",
            "hip-amdgcn-amd-amdhsa--gfx90a",
        ] {
            assert_eq!(processor(name), None, "{name}");
        }
        for (name, own) in [
            ("Intel(R) Arc(TM) A770 Graphics", "dg2-g10"),
            ("NVIDIA RTX PRO 6000 Blackwell", "sm_120"),
            ("nvidia geforce rtx 4090 laptop gpu", "sm_89"),
            ("AMD Instinct MI300X Accelerator", "gfx942"),
            ("Ryzen AI Max+ 395", "gfx1151"),
            ("NVIDIA A100-SXM4-80GB", "sm_80"),
            ("NVIDIA A100 80GB PCIe", "sm_80"),
            ("A100-PCIE-40GB", "sm_80"),
            ("NVIDIA H100 80GB HBM3", "sm_90"),
            ("NVIDIA H100 NVL", "sm_90"),
            ("NVIDIA GH200 480GB", "sm_90"),
            ("NVIDIA GH200 144G HBM3e", "sm_90"),
            ("NVIDIA A10G", "sm_86"),
            ("NVIDIA RTX A4500", "sm_86"),
            ("NVIDIA V100S-PCIE-32GB", "sm_70"),
            ("Tesla K40m", "sm_35"),
            ("Tesla K20Xm", "sm_35"),
            ("AMD Instinct MI300X VF", "gfx942"),
            ("AMD Instinct MI300X HF", "gfx942"),
            ("NVIDIA L40S", "sm_89"),
            ("NVIDIA GeForce RTX 4090", "sm_89"),
            ("NVIDIA GeForce RTX 4090 D", "sm_89"),
            ("NVIDIA GeForce RTX 4070 SUPER", "sm_89"),
            ("NVIDIA GeForce RTX 4070 Ti SUPER", "sm_89"),
            ("NVIDIA RTX 4000 SFF Ada Generation", "sm_89"),
            ("NVIDIA GeForce RTX 2060 with Max-Q Design", "sm_75"),
            ("NVIDIA GeForce GTX 1650", "sm_75"),
            ("NVIDIA GeForce GTX 1660 SUPER", "sm_75"),
            ("NVIDIA GeForce GTX 1060 6GB", "sm_61"),
            ("Tesla T4", "sm_75"),
            ("Tesla V100-SXM2-32GB", "sm_70"),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "sm_120"),
            ("NVIDIA B200", "sm_100"),
            ("Intel(R) Data Center GPU Max 1550", "pvc"),
            ("AMD Instinct MI300X", "gfx942"),
            ("AMD Instinct MI300X OAM", "gfx942"),
            ("AMD Radeon RX 7900 XTX", "gfx1100"),
            ("AMD Radeon PRO W7900", "gfx1100"),
            ("AMD Radeon 890M Graphics", "gfx1150"),
        ] {
            assert_eq!(processor(name), Some(own), "{name}");
        }
    }
}
