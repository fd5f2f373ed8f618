//! Names under which GPUs are sold, and their processors.
//!
//! A product is in the table if one of these sources says which processor it has. Names that vendors used for several
//! processors, such as RTX 4000, GT 1030 and Radeon 840M, are not.
//!
//! | vendor | source |
//! |---|---|
//! | AMD | AMD's page "GPU specifications" of ROCm (2026); for older GPUs, LLVM's User Guide for AMDGPU Backend (2026); MI308X: AMD's ROCm blog (2026); RX 6500 XT, Radeon 680M, RX 7700S, Radeon 820M, Strix, MI450 and the chip of the Steam Deck (Van Gogh): the targets of AMD's TheRock (2026); others: products with the same chip in pci.ids or in `amdgpu.ids` of libdrm (2026), such as RX 6400 and RX 6500 XT, which have Navi 24 |
//! | NVIDIA | NVIDIA's pages "CUDA GPU Compute Capability" and "Legacy CUDA GPU Compute Capability" (2026) and earlier copies of them; others, such as GTX 16xx, H20 and RTX 3500 Ada: their chip in pci.ids (2026), whose processor is in `sm_for_chipset` of Mesa's driver for nouveau (2026); variants of these that `nvidia-smi` names, such as A10G, V100S and K40m, have the same processor |
//! | Intel | the devices of Intel's Compute Runtime (2026); names as `ocloc` writes them, see `code/intel_gpu.rs`; GPUs that are part of processors: Intel's product pages (2026) |
//! | series | `gfx110X-all` and its like: the families in `therock_amdgpu_targets.cmake` of TheRock (2026); Jetson Orin and Thor: the modules in NVIDIA's table; `adl`, `acm`, `arl` and `lnl`: the first part of the names that `ocloc` takes |

use std::slice;

/// Returns the processors of a product or series, such as `gfx942` for MI300X and `sm_90` for H100, or `None` if the
/// name is not known or has words of another vendor. A product has one processor, a series may have several.
///
/// Case and separators do not count, nor do words for the vendor and the kind of device (NVIDIA, GeForce, Radeon, GPU)
/// and for its form and memory (SXM4, 80GB). So the names that `nvidia-smi`, `rocminfo` and `amd-smi` print are known.
pub(crate) fn processors(name: &str) -> Option<&'static [&'static str]> {
    let typed = plain(name);
    // `plain` leaves out all separators, so a text with characters of a path or pattern could look like a name.
    if typed.is_empty() || !name.chars().all(is_of_name) {
        return None;
    }
    let product = PRODUCTS.iter().find(|(_, names)| names.iter().any(|name| plain(name) == typed));
    let processors = match product {
        Some((processor, _)) => slice::from_ref(processor),
        None => OTHER_NAMES.iter().find(|(name, _)| plain(name) == typed)?.1,
    };
    let vendor = vendor_of(processors.first()?);
    // `plain` leaves out the words for vendors, so a name with the wrong vendor ("AMD A10") was found too.
    let fits_vendor = |word| vendor_named(word).is_none_or(|named| named == vendor);
    if words(name).all(fits_vendor) { Some(processors) } else { None }
}

/// Returns the vendor of a processor in the tables, as [`BRANDS`] names it.
fn vendor_of(processor: &str) -> &'static str {
    match processor.get(..3) {
        Some("gfx") => "amd",
        Some("sm_") => "nvidia",
        _ => "intel",
    }
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

/// Returns the other names of processors, and the names of series, with their processors.
#[cfg(any(test, feature = "cli"))]
pub(crate) fn other_names() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    OTHER_NAMES.iter().copied()
}

/// Returns the products with a processor, or an empty list if the processor is not in the table.
pub(crate) fn with_processor(processor: &str) -> &'static [&'static str] {
    match PRODUCTS.iter().find(|(name, _)| *name == processor) {
        Some((_, products)) => products,
        None => &[],
    }
}

/// Returns a name as names are compared: its words in lower case and joined. Words for the vendor and for a size of
/// memory are left out, and so are the words [`WITHOUT_MEANING`].
pub(crate) fn plain(name: &str) -> String {
    // "with Max-Q Design" says nothing about the processor. "max-q" is removed as a whole, because "Max" alone is part
    // of some products' names.
    let name = name.to_ascii_lowercase().replace("max-q", "");
    let mut plain = String::new();
    for word in words(&name).filter(|word| is_counted(word)) {
        plain.push_str(word);
    }
    plain
}

/// Whether a word in lower case distinguishes products.
fn is_counted(word: &str) -> bool {
    !WITHOUT_MEANING.contains(&word) && vendor_named(word).is_none() && !is_memory_size(word)
}

/// Whether a word is a size of memory, such as `80gb` or `24g`.
fn is_memory_size(word: &str) -> bool {
    let Some(size) = word.strip_suffix("gb").or(word.strip_suffix('g')) else { return false };
    !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit())
}

/// Words, besides the [`BRANDS`], that do not distinguish products with different processors.
#[rustfmt::skip]
const WITHOUT_MEANING: [&str; 32] = [
    "accelerator", "blackwell", "center", "d", "data", "design", "edition", "generation", "gpu", "graphics", "hbm2",
    "hbm2e", "hbm3", "hbm3e", "hf", "laptop", "nvl", "oam", "pcie", "r", "series", "server", "sff", "super", "sxm2",
    "sxm3", "sxm4", "sxm5", "tm", "vf", "with", "workstation",
];

/// Processors with the names of their products.
#[rustfmt::skip]
static PRODUCTS: &[(&str, &[&str])] = &[
    ("gfx803", &["Instinct MI8", "Instinct MI6", "Radeon RX 590", "Radeon RX 580", "Radeon RX 570",
        "Radeon RX 480", "Radeon RX 470", "Radeon RX 460", "Radeon R9 Nano"]),
    ("gfx900", &["Instinct MI25", "Radeon RX Vega 64", "Radeon RX Vega 56", "Radeon Vega Frontier Edition"]),
    ("gfx906", &["Instinct MI60", "Instinct MI50", "Radeon VII", "Radeon Pro VII"]),
    ("gfx908", &["Instinct MI100"]),
    ("gfx90a", &["Instinct MI250X", "Instinct MI250", "Instinct MI210"]),
    ("gfx942", &["Instinct MI325X", "Instinct MI308X", "Instinct MI300X", "Instinct MI300A"]),
    ("gfx950", &["Instinct MI355X", "Instinct MI350X"]),
    ("gfx1010", &["Radeon RX 5700 XT", "Radeon RX 5700", "Radeon RX 5600 XT"]),
    ("gfx1011", &["Radeon Pro V520"]),
    ("gfx1012", &["Radeon RX 5500 XT", "Radeon RX 5500"]),
    ("gfx1030", &["Radeon RX 6950 XT", "Radeon RX 6900 XT", "Radeon RX 6800 XT", "Radeon RX 6800", "Radeon PRO W6800",
        "Radeon PRO V620"]),
    ("gfx1031", &["Radeon RX 6750 XT", "Radeon RX 6700 XT", "Radeon RX 6700", "Radeon RX 6850M XT", "Radeon RX 6800M"]),
    ("gfx1032", &["Radeon RX 6650 XT", "Radeon RX 6600 XT", "Radeon RX 6600", "Radeon PRO W6600",
        "Radeon RX 6800S", "Radeon RX 6700S", "Radeon RX 6600M"]),
    ("gfx1033", &["Steam Deck"]),
    ("gfx1034", &["Radeon RX 6500 XT", "Radeon RX 6400", "Radeon RX 6300"]),
    ("gfx1035", &["Radeon 680M", "Radeon 660M"]),
    ("gfx1100", &["Radeon RX 7900 XTX", "Radeon RX 7900 XT", "Radeon RX 7900 GRE", "Radeon PRO W7900",
        "Radeon PRO W7800", "Radeon RX 7900M"]),
    ("gfx1101", &["Radeon RX 7800 XT", "Radeon RX 7700 XT", "Radeon RX 7700", "Radeon PRO W7700", "Radeon PRO V710"]),
    ("gfx1102", &["Radeon RX 7600 XT", "Radeon RX 7600", "Radeon RX 7700S", "Radeon RX 7600M XT",
        "Radeon RX 7600S", "Radeon PRO W7600", "Radeon PRO W7500"]),
    ("gfx1103", &["Radeon 780M", "Radeon 760M", "Radeon 740M"]),
    ("gfx1150", &["Radeon 890M", "Radeon 880M", "Ryzen AI 9 HX 375", "Ryzen AI 9 HX 370", "Ryzen AI 9 365"]),
    ("gfx1151", &["Radeon 8060S", "Radeon 8050S", "Radeon 8040S", "Ryzen AI Max+ 395", "Ryzen AI Max 390",
        "Ryzen AI Max 385"]),
    ("gfx1152", &["Radeon 860M", "Ryzen AI 7 350"]),
    ("gfx1153", &["Radeon 820M"]),
    ("gfx1200", &["Radeon RX 9060 XT", "Radeon RX 9060"]),
    ("gfx1201", &["Radeon RX 9070 XT", "Radeon RX 9070", "Radeon RX 9070 GRE", "Radeon AI PRO R9700"]),
    ("gfx1250", &["Instinct MI455X", "Instinct MI450X"]),
    ("sm_30", &["Tesla K10", "Quadro K5000", "Quadro K4000", "GeForce GTX 770", "GeForce GTX 760", "GeForce GTX 690",
        "GeForce GTX 680", "GeForce GTX 670", "GeForce GTX 660 Ti", "GeForce GTX 660"]),
    ("sm_32", &["Jetson TK1"]),
    ("sm_35", &["Tesla K40", "Tesla K40m", "Tesla K40c", "Tesla K20", "Tesla K20X", "Tesla K20Xm", "Tesla K20m",
        "Tesla K20c", "GeForce GTX 780 Ti", "GeForce GTX 780", "GeForce GTX TITAN Z",
        "GeForce GTX TITAN Black", "GeForce GTX TITAN", "Quadro K6000", "Quadro K5200"]),
    ("sm_37", &["Tesla K80"]),
    ("sm_50", &["GeForce GTX 750 Ti", "GeForce GTX 750", "GeForce GTX 960M", "GeForce GTX 950M", "GeForce 940M",
        "Quadro K2200", "Quadro K1200", "Quadro K620"]),
    ("sm_52", &["Tesla M60", "Tesla M40", "Quadro M6000", "Quadro M5000", "Quadro M4000", "Quadro M2000",
        "GeForce GTX TITAN X", "GeForce GTX 980 Ti", "GeForce GTX 980", "GeForce GTX 970", "GeForce GTX 960",
        "GeForce GTX 950", "GeForce GTX 980M", "GeForce GTX 970M"]),
    ("sm_53", &["Jetson TX1", "Jetson Nano"]),
    ("sm_60", &["Tesla P100", "Quadro GP100"]),
    ("sm_61", &["Tesla P40", "Tesla P4", "Quadro P6000", "Quadro P5000", "Quadro P4000", "Quadro P2200", "Quadro P2000",
        "Quadro P1000", "Quadro P620", "Quadro P600", "Quadro P400", "TITAN Xp", "TITAN X (Pascal)",
        "GeForce GTX 1080 Ti", "GeForce GTX 1080", "GeForce GTX 1070 Ti", "GeForce GTX 1070", "GeForce GTX 1060",
        "GeForce GTX 1050 Ti", "GeForce GTX 1050", "GeForce MX150"]),
    ("sm_62", &["Jetson TX2"]),
    ("sm_70", &["V100", "V100S", "Quadro GV100", "TITAN V"]),
    ("sm_72", &["Jetson AGX Xavier", "Jetson Xavier NX"]),
    ("sm_75", &["T4", "Quadro RTX 8000", "Quadro RTX 6000", "Quadro RTX 5000", "Quadro RTX 4000", "Quadro RTX 3000",
        "T1000", "T600", "T400", "TITAN RTX", "GeForce RTX 2080 Ti", "GeForce RTX 2080", "GeForce RTX 2070",
        "GeForce RTX 2060", "GeForce GTX 1660 Ti", "GeForce GTX 1660", "GeForce GTX 1650 Ti", "GeForce GTX 1650",
        "GeForce GTX 1630", "GeForce MX450"]),
    ("sm_80", &["A100", "A800", "A30"]),
    ("sm_86", &["A40", "A10", "A10G", "A16", "A2", "RTX A6000", "RTX A5500", "RTX A5000", "RTX A4500", "RTX A4000",
        "RTX A3000", "RTX A2000", "RTX A1000", "RTX A400", "GeForce RTX 3090 Ti", "GeForce RTX 3090",
        "GeForce RTX 3080 Ti", "GeForce RTX 3080", "GeForce RTX 3070 Ti", "GeForce RTX 3070", "GeForce RTX 3060 Ti",
        "GeForce RTX 3060", "GeForce RTX 3050"]),
    ("sm_87", &["Jetson AGX Orin", "Jetson Orin NX", "Jetson Orin Nano"]),
    ("sm_89", &["L4", "L40", "L40S", "L20", "L2", "RTX 6000 Ada", "RTX 5000 Ada", "RTX 4500 Ada", "RTX 4000 Ada",
        "RTX 3500 Ada", "RTX 3000 Ada", "RTX 2000 Ada", "RTX 1000 Ada", "RTX 500 Ada",
        "GeForce RTX 4090", "GeForce RTX 4080", "GeForce RTX 4070 Ti", "GeForce RTX 4070", "GeForce RTX 4060 Ti",
        "GeForce RTX 4060", "GeForce RTX 4050"]),
    ("sm_90", &["GH200", "H200", "H100", "H20", "H800"]),
    ("sm_100", &["GB200", "B200", "B100"]),
    ("sm_103", &["GB300", "B300"]),
    ("sm_110", &["Jetson T5000", "Jetson T4000"]),
    ("sm_120", &["RTX PRO 6000", "RTX PRO 5000", "RTX PRO 4500", "RTX PRO 4000", "RTX PRO 3000", "RTX PRO 2000",
        "RTX PRO 1000", "RTX PRO 500", "GeForce RTX 5090",
        "GeForce RTX 5080", "GeForce RTX 5070 Ti", "GeForce RTX 5070", "GeForce RTX 5060 Ti", "GeForce RTX 5060",
        "GeForce RTX 5050"]),
    ("sm_121", &["GB10", "DGX Spark"]),
    ("dg1", &["Iris Xe MAX"]),
    ("dg2-g10", &["Arc A770", "Arc A750", "Arc A580", "Arc A770M", "Arc A730M", "Arc A550M", "Arc A760A",
        "Data Center GPU Flex 170"]),
    ("dg2-g11", &["Arc A380", "Arc A310", "Arc A370M", "Arc A350M", "Arc Pro A50", "Arc Pro A40", "Arc Pro A30M",
        "Data Center GPU Flex 140"]),
    ("dg2-g12", &["Arc A570M", "Arc A530M", "Arc Pro A60", "Arc Pro A60M"]),
    ("pvc", &["Data Center GPU Max 1550", "Data Center GPU Max 1100"]),
    ("mtl-u", &["Meteor Lake-U", "Arrow Lake-U", "Arrow Lake-S"]),
    ("mtl-h", &["Meteor Lake-H"]),
    ("arl-h", &["Arc 140T", "Arc 130T", "Arrow Lake-H"]),
    ("bmg-g21", &["Arc B580", "Arc B570", "Arc Pro B60", "Arc Pro B50"]),
    ("bmg-g31", &["Arc Pro B70", "Arc Pro B65"]),
    ("lnl-m", &["Arc 140V", "Arc 130V", "Lunar Lake"]),
    ("ptl-h", &["Arc B390", "Arc B370", "Panther Lake-H"]),
    ("ptl-u", &["Panther Lake-U"]),
    ("wcl", &["Wildcat Lake"]),
];

/// Other names of processors, and the names of series, with their processors.
#[rustfmt::skip]
static OTHER_NAMES: &[(&str, &[&str])] = &[
    ("Vega 64", &["gfx900"]),
    ("Vega 56", &["gfx900"]),
    ("W6800", &["gfx1030"]),
    ("W6600", &["gfx1032"]),
    ("W7900", &["gfx1100"]),
    ("W7800", &["gfx1100"]),
    ("W7700", &["gfx1101"]),
    ("W7600", &["gfx1102"]),
    ("W7500", &["gfx1102"]),
    ("R9700", &["gfx1201"]),
    ("Strix Point", &["gfx1150"]),
    ("Strix Halo", &["gfx1151"]),
    ("gfx94X-all", &["gfx942"]),
    ("gfx94X-dcgpu", &["gfx942"]),
    ("gfx950-all", &["gfx950"]),
    ("gfx950-dcgpu", &["gfx950"]),
    ("gfx101X-all", &["gfx1010", "gfx1011", "gfx1012"]),
    ("gfx101X-dgpu", &["gfx1010", "gfx1011", "gfx1012"]),
    ("gfx103X-all", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx103X-dgpu", &["gfx1030", "gfx1031", "gfx1032", "gfx1034"]),
    ("gfx103X-igpu", &["gfx1033", "gfx1035", "gfx1036"]),
    ("gfx110X-all", &["gfx1100", "gfx1101", "gfx1102", "gfx1103"]),
    ("gfx110X-dgpu", &["gfx1100", "gfx1101", "gfx1102"]),
    ("gfx110X-igpu", &["gfx1103"]),
    ("gfx115X-all", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx115X-igpu", &["gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx120X-all", &["gfx1200", "gfx1201"]),
    ("gfx125X-all", &["gfx1250"]),
    ("gfx125X-dcgpu", &["gfx1250"]),
    ("Jetson Xavier", &["sm_72"]),
    ("Jetson Orin", &["sm_87"]),
    ("Jetson Thor", &["sm_110"]),
    ("Jetson AGX Thor", &["sm_110"]),
    ("adl", &["adl-s", "adl-p", "adl-n"]),
    ("Alchemist", &["dg2-g10", "dg2-g11", "dg2-g12"]),
    ("acm", &["dg2-g10", "dg2-g11", "dg2-g12"]),
    ("Ponte Vecchio", &["pvc"]),
    ("Meteor Lake", &["mtl-u", "mtl-h"]),
    ("Arrow Lake", &["mtl-u", "arl-h"]),
    ("arl", &["mtl-u", "arl-h"]),
    ("lnl", &["lnl-m"]),
    ("Battlemage", &["bmg-g21", "bmg-g31"]),
    ("Panther Lake", &["ptl-h", "ptl-u"]),
];

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::base::id::processors as processors_of_llvm;
    use crate::beyond::code::intel_gpu;

    /// Returns the processor of a product, which has only one.
    fn processor(name: &str) -> Option<&'static str> {
        match processors(name)? {
            [processor] => Some(processor),
            several => panic!("{name}: {several:?}"),
        }
    }

    #[test]
    fn a_product_stands_for_its_processor_in_any_spelling() {
        assert_eq!(processor("NVIDIA H100 80GB HBM3"), Some("sm_90"));
        assert_eq!(processor("rx7900xtx"), processor("Radeon RX 7900 XTX"));
        assert_eq!(processor("AMD A10"), None);
        assert_eq!(processor("sm_90"), None);
    }

    #[test]
    fn each_name_is_that_of_one_processor_and_of_no_other_in_any_spelling() {
        let mut seen = HashMap::new();
        let products = all().flat_map(|(own, names)| names.iter().map(move |name| (vec![own], *name)));
        for (own, name) in products.chain(other_names().map(|(name, own)| (own.to_vec(), name))) {
            assert_eq!(seen.insert(plain(name), name), None, "{name}");
            let is_processor = |name: &str| processors_of_llvm::find(name).is_some();
            assert!(!is_processor(name) && !is_processor(&plain(name)), "{name}");
            let vendor = match vendor_of(own[0]) {
                "amd" => "AMD",
                "nvidia" => "NVIDIA",
                _ => "Intel",
            };
            for other in ["AMD", "Radeon", "Instinct", "NVIDIA", "GeForce", "Tesla", "Intel"] {
                let is_its = match other {
                    "Radeon" | "Instinct" => vendor == "AMD",
                    "GeForce" | "Tesla" => vendor == "NVIDIA",
                    other => vendor == other,
                };
                let expected = is_its.then_some(&*own);
                assert_eq!(processors(&format!("{other} {name}")), expected, "{other} {name}");
            }
            let spellings = [name.to_ascii_lowercase(), name.replace(' ', "-"), format!("{vendor} {name} GPU")];
            for spelling in spellings.iter().map(String::as_str).chain([name]) {
                assert_eq!(processors(spelling), Some(&*own), "{spelling}");
            }
        }
    }

    #[test]
    fn processors_are_known_and_in_the_order_of_generations() {
        let of_llvm = processors_of_llvm::all().map(|known| known.name);
        let known: Vec<&str> = of_llvm.chain(intel_gpu::all().map(|gpu| gpu.name)).collect();
        let place = |name| known.iter().position(|known| *known == name);
        let places: Vec<usize> = all().filter_map(|(own, _)| place(own)).collect();
        assert_eq!(places.len(), all().count());
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
