//! Colours of GPUs: a hue for each vendor, in a shade for each generation.

use std::collections::HashMap;

use crate::beyond::cli::gpus::{family_of, generation, label_of_family, some_products_of};
use crate::beyond::inventory::SizesByGpu;
use crate::beyond::runtime::{Code, Device, GpuVendor, processor_in};
use crate::beyond::scan::Sizes;

/// The shades of a hue, from old to new generations. All are light enough for black text.
type Shades = [&'static str; 8];

const AMD: Shades = ["#fbefc2", "#f6dda4", "#f3cb87", "#f1b76b", "#f0a250", "#ee8b36", "#ea731e", "#e65909"];
const NVIDIA: Shades = ["#daf9d3", "#c3ebbf", "#aaddac", "#91d09a", "#76c28a", "#57b57b", "#30a86d", "#099864"];
const INTEL: Shades = ["#d2ecfd", "#b7dff9", "#9fd0f4", "#89c1ee", "#73b2e9", "#5fa2e3", "#4b91dd", "#3a81d7"];
const OTHER: Shades = ["#f1ddf6", "#e6ccef", "#dbbbe9", "#cfabe3", "#c39bdd", "#b68bd8", "#a97bd3", "#9b6bce"];

/// The colour of host code, and of parts that stand for several small ones.
pub(super) const GREY: &str = "#9aa3ad";

/// The look of the code for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) color: &'static str,
    /// Whether the code is compiled when a program starts. Such code is hatched.
    pub(super) is_jit: bool,
}

/// The GPUs of a generation, which look alike. Code that is compiled when a program starts forms separate generations.
#[derive(Debug)]
pub(super) struct Generation {
    vendor: GpuVendor,
    targets: Vec<String>,
    pub(super) sizes: Sizes,
    pub(super) look: Look,
}

impl Generation {
    /// Returns the names of the GPUs in short.
    pub(super) fn label(&self) -> String {
        /// Files can name any number of targets.
        const TARGETS_MAX: usize = 40;
        let targets: Vec<&str> = self.targets.iter().take(TARGETS_MAX).map(String::as_str).collect();
        let more = if targets.len() < self.targets.len() { ",…" } else { "" };
        let jit = if self.look.is_jit { " (JIT)" } else { "" };
        format!("{}{more}{jit}", label_of_family(&targets, "…"))
    }

    /// Returns the name of the vendor.
    pub(super) fn vendor(&self) -> &'static str {
        self.vendor.name().unwrap_or("Other")
    }
}

/// Returns the generations of GPUs by vendor, old ones first, and machine code before code that is compiled later. GPUs
/// of size 0 are left out.
pub(super) fn generations(gpus: &SizesByGpu) -> Vec<Generation> {
    let mut targets: Vec<Target<'_>> = Vec::new();
    targets.extend(gpus.iter().filter(|(_, sizes)| sizes.stored > 0).map(|(name, sizes)| Target::new(name, *sizes)));
    targets.sort_by_cached_key(|target| (target.vendor, generation(target.name)));
    let mut families_by_vendor: HashMap<GpuVendor, Vec<String>> = HashMap::new();
    for Target { vendor, family, .. } in &targets {
        let families = families_by_vendor.entry(*vendor).or_default();
        if families.last() != Some(family) {
            families.push(family.clone());
        }
    }
    // The sort is stable, so machine code stays in the order of generations, and so does other code.
    targets.sort_by_key(|target| (target.vendor, target.is_jit));
    let mut generations: Vec<Generation> = Vec::new();
    for alike in targets.chunk_by(Target::looks_like) {
        let Some(first) = alike.first() else { continue };
        let families = families_by_vendor.get(&first.vendor).map(Vec::as_slice).unwrap_or_default();
        let look = Look { color: first.color(families), is_jit: first.is_jit };
        let targets = alike.iter().map(|target| target.name.to_owned()).collect();
        let sizes = alike.iter().map(|target| target.sizes).sum();
        generations.push(Generation { vendor: first.vendor, targets, sizes, look });
    }
    generations
}

/// Returns the look of each GPU.
pub(super) fn looks(generations: &[Generation]) -> HashMap<&str, Look> {
    let mut looks = HashMap::new();
    for Generation { targets, look, .. } in generations {
        looks.extend(targets.iter().map(|target| (target.as_str(), *look)));
    }
    looks
}

/// Returns the name of a target with its products, or with a description of code that is compiled when a program
/// starts.
pub(super) fn with_products(target: &str) -> String {
    const ROOM: usize = 60;
    match some_products_of(&[target], ROOM, "…").as_str() {
        "" => target.to_owned(),
        products => format!("{target} ({products})"),
    }
}

/// The name of the target of host code.
const HOST: &str = "host";

/// The target of some code, with everything that the look of the code depends on.
struct Target<'g> {
    name: &'g str,
    vendor: GpuVendor,
    family: String,
    is_jit: bool,
    sizes: Sizes,
}

impl<'g> Target<'g> {
    /// Returns the target with this name, whose code has these sizes. The vendor of an unknown name is `Other`.
    fn new(name: &'g str, sizes: Sizes) -> Self {
        let code = if name == HOST { None } else { Code::from_name(name) };
        let vendor = match &code {
            // Only Intel's driver compiles SPIR-V that names no vendor.
            Some(Code::SpirV(_)) => GpuVendor::Intel,
            Some(code) => Device::from_code(code).map_or(GpuVendor::Other, |gpu| gpu.vendor()),
            None => GpuVendor::Other,
        };
        Self { name, vendor, family: family(name), is_jit: code.is_some_and(|code| code.is_jit()), sizes }
    }

    fn looks_like(&self, other: &Self) -> bool {
        (self.vendor, self.is_jit, &self.family) == (other.vendor, other.is_jit, &other.family)
    }

    /// Returns the colour in a picture with these families of the same vendor, old ones first. The newest one has the
    /// last shade.
    fn color(&self, families: &[String]) -> &'static str {
        let shades = match self.vendor {
            GpuVendor::Amd => AMD,
            GpuVendor::Nvidia => NVIDIA,
            GpuVendor::Intel => INTEL,
            GpuVendor::Of(_) | GpuVendor::Other => OTHER,
        };
        let older_families = families.iter().position(|family| *family == self.family).unwrap_or_default();
        let last = shades.len() - 1;
        // The distances between shades are equal, and a single family has the last shade.
        let shade = (older_families * last).checked_div(families.len().saturating_sub(1)).unwrap_or(last);
        if self.name == HOST { GREY } else { shades.get(shade).copied().unwrap_or(GREY) }
    }
}

/// Returns the family of a target: the start of the name that GPUs of its generation have in common. PTX has the family
/// of the machine code with the same version.
fn family(target: &str) -> String {
    let processor = processor_in(target);
    let name = match processor.split_once('_') {
        Some(("sm" | "compute" | "lto", version)) => {
            format!("sm_{}", version.trim_end_matches(|c: char| c.is_ascii_alphabetic()))
        }
        _ => processor.to_owned(),
    };
    match family_of(&name) {
        Some(family) => family.to_owned(),
        // Intel's names have the generation before the dash: `dg2-g10`.
        None if !name.starts_with("gfx") => name.split('-').next().unwrap_or_default().to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::super::STYLE;
    use super::*;

    fn pictured(targets: &[&str]) -> Vec<(String, &'static str, Look)> {
        let sizes = Sizes { code_objects: 1, size: 1, stored: 1 };
        let gpus: SizesByGpu = targets.iter().map(|target| ((*target).to_owned(), sizes)).collect();
        generations(&gpus).iter().map(|all| (all.label(), all.vendor(), all.look)).collect()
    }

    #[test]
    fn vendors_have_hues_generations_have_shades_and_compiled_code_is_apart() {
        let found = pictured(&[
            "sm_80",
            "compute_90",
            "gfx1100",
            "sm_90a",
            "host",
            "gfx1102",
            "gfx1101",
            "gfx906",
            "sm_86",
            "spir64",
            "pvc",
            "x1",
            "gfx90a:xnack+",
        ]);
        let found: Vec<_> =
            found.iter().map(|(label, vendor, look)| (label.as_str(), *vendor, look.color, look.is_jit)).collect();
        let expected = [
            ("gfx906,90a:xnack+", "AMD", AMD[0], false),
            ("gfx1100…1102", "AMD", AMD[7], false),
            ("sm_80,86", "NVIDIA", NVIDIA[0], false),
            ("sm_90a", "NVIDIA", NVIDIA[7], false),
            ("compute_90 (JIT)", "NVIDIA", NVIDIA[7], true),
            ("pvc", "Intel", INTEL[0], false),
            ("spir64 (JIT)", "Intel", INTEL[7], true),
            ("host", "Other", GREY, false),
            ("x1", "Other", OTHER[7], false),
        ];
        assert_eq!(found, expected);
        let shades: Vec<_> = pictured(&["sm_60", "sm_70", "sm_80"]).iter().map(|(.., look)| look.color).collect();
        assert_eq!(shades, [NVIDIA[0], NVIDIA[3], NVIDIA[7]]);
        assert_eq!(pictured(&["gfx942"])[0].2.color, AMD[7]);
    }

    #[test]
    fn shades_can_be_told_apart_and_written_on_and_told_from_the_page() {
        for shades in [AMD, NVIDIA, INTEL, OTHER] {
            for pair in shades.windows(2) {
                assert!(distance(rgb(pair[0]), rgb(pair[1])) > 6.0, "{pair:?}");
            }
        }
        for color in [AMD, NVIDIA, INTEL, OTHER].concat().into_iter().chain([GREY]) {
            assert!(contrast(rgb(color), [0.0; 3]) >= 4.5, "{color}");
            // The edge must contrast with the track or with the page, in light and dark mode.
            for (edge, track) in [("#59636e", "#eaeef2"), ("#9198a1", "#21262d")] {
                let told = contrast(rgb(color), rgb(track)).max(contrast(rgb(edge), rgb(track)));
                assert!(told >= 3.0, "{color} on {track}");
                assert!(
                    STYLE.contains(&format!(".track {{ fill: {track} }}"))
                        && STYLE.contains(&format!("stroke: {edge}"))
                );
            }
        }
        for (one, other) in [(AMD, NVIDIA), (AMD, INTEL), (NVIDIA, INTEL), (INTEL, OTHER)] {
            assert!(distance(rgb(one[7]), rgb(other[7])) > 20.0, "{} {}", one[7], other[7]);
        }
    }

    type Rgb = [f64; 3];

    fn rgb(hex: &str) -> Rgb {
        [1, 3, 5].map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap().into())
    }

    fn linear(value: f64) -> f64 {
        let value = value / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }

    /// The contrast ratio of WCAG 2.
    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    fn luminance(rgb: Rgb) -> f64 {
        let [r, g, b] = rgb.map(linear);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// The distance in CIELAB.
    fn distance(a: Rgb, b: Rgb) -> f64 {
        lab(a).iter().zip(lab(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    fn lab(rgb: Rgb) -> [f64; 3] {
        let [r, g, b] = rgb.map(linear);
        let x = cube_root((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.950_47);
        let y = cube_root(luminance(rgb));
        let z = cube_root((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The cube root, or a line in its place near 0, as CIELAB defines it.
    fn cube_root(t: f64) -> f64 {
        if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 }
    }
}
