//! GPU processors that a target ID can name, as LLVM and clang 22.1.8 know them.
//!
//! LLVM (code generation) and clang (offloading driver) agree on the AMD GCN processors by their canonical names.
//! Alternative names and R600 processors are known to LLVM only; NVIDIA's and those of the last two kinds to the
//! offloading driver only.

/// What a processor name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessorKind {
    /// AMD GPU of the GCN, CDNA and RDNA families: architecture `amdgcn`.
    AmdGcn,
    /// Older AMD GPU: architecture `r600`.
    R600,
    /// NVIDIA GPU, by compute capability.
    Nvidia,
    /// SPIR-V for AMD GPUs, compiled for the GPU at hand when it is loaded.
    SpirV,
    /// Processor of another maker, or the generic one of any.
    Other,
}

/// A setting of AMD GPUs that a target ID can name with `+` or `-` behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Error correction of on-chip memory.
    SramEcc,
    /// Replay of memory accesses that met a page fault.
    Xnack,
}

impl Feature {
    /// Name in target IDs.
    pub fn name(self) -> &'static str {
        match self {
            Feature::SramEcc => "sramecc",
            Feature::Xnack => "xnack",
        }
    }
}

/// A processor, with facts from LLVM 22.1.8.
#[derive(Debug, PartialEq, Eq)]
pub struct Processor {
    /// Canonical name.
    pub name: &'static str,
    /// What the name belongs to.
    pub kind: ProcessorKind,
    /// Other names of the same processor.
    pub aliases: &'static [&'static str],
    /// Features its target IDs may name, in the order of canonical target IDs (by name).
    pub features: &'static [Feature],
}

/// Looks up a processor by canonical or other name, case included. `None` for a name LLVM 22.1.8 does not know.
pub fn find(name: &str) -> Option<&'static Processor> {
    PROCESSORS.iter().find(|processor| processor.name == name || processor.aliases.contains(&name))
}

/// Whether the offloading driver of clang 22.1.8 knows the name: it does not take [`Processor::aliases`], nor R600.
///
/// This is the test a bundle entry ID asks for: what stands behind its triple is a target ID only if this holds for
/// the part before the first colon.
pub fn is_offload_arch(name: &str) -> bool {
    PROCESSORS.iter().any(|processor| processor.name == name && processor.kind != ProcessorKind::R600)
}

const NONE: &[Feature] = &[];
const XNACK: &[Feature] = &[Feature::Xnack];
const BOTH: &[Feature] = &[Feature::SramEcc, Feature::Xnack];

const fn row(
    name: &'static str,
    kind: ProcessorKind,
    aliases: &'static [&'static str],
    features: &'static [Feature],
) -> Processor {
    Processor { name, kind, aliases, features }
}

static PROCESSORS: &[Processor] = &[
    row("gfx600", ProcessorKind::AmdGcn, &["tahiti"], NONE),
    row("gfx601", ProcessorKind::AmdGcn, &["pitcairn", "verde"], NONE),
    row("gfx602", ProcessorKind::AmdGcn, &["hainan", "oland"], NONE),
    row("gfx700", ProcessorKind::AmdGcn, &["kaveri"], NONE),
    row("gfx701", ProcessorKind::AmdGcn, &["hawaii"], NONE),
    row("gfx702", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx703", ProcessorKind::AmdGcn, &["kabini", "mullins"], NONE),
    row("gfx704", ProcessorKind::AmdGcn, &["bonaire"], NONE),
    row("gfx705", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx801", ProcessorKind::AmdGcn, &["carrizo"], XNACK),
    row("gfx802", ProcessorKind::AmdGcn, &["iceland", "tonga"], NONE),
    row("gfx803", ProcessorKind::AmdGcn, &["fiji", "polaris10", "polaris11"], NONE),
    row("gfx805", ProcessorKind::AmdGcn, &["tongapro"], NONE),
    row("gfx810", ProcessorKind::AmdGcn, &["stoney"], XNACK),
    row("gfx9-generic", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx900", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx902", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx904", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx906", ProcessorKind::AmdGcn, &[], BOTH),
    row("gfx908", ProcessorKind::AmdGcn, &[], BOTH),
    row("gfx909", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx90a", ProcessorKind::AmdGcn, &[], BOTH),
    row("gfx90c", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx9-4-generic", ProcessorKind::AmdGcn, &[], BOTH),
    row("gfx942", ProcessorKind::AmdGcn, &[], BOTH),
    row("gfx950", ProcessorKind::AmdGcn, &[], BOTH),
    row("gfx10-1-generic", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx1010", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx1011", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx1012", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx1013", ProcessorKind::AmdGcn, &[], XNACK),
    row("gfx10-3-generic", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1030", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1031", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1032", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1033", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1034", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1035", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1036", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx11-generic", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1100", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1101", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1102", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1103", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1150", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1151", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1152", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1153", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx12-generic", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1200", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1201", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1250", ProcessorKind::AmdGcn, &[], NONE),
    row("gfx1251", ProcessorKind::AmdGcn, &[], NONE),
    row("r600", ProcessorKind::R600, &["rv630", "rv635"], NONE),
    row("r630", ProcessorKind::R600, &[], NONE),
    row("rs880", ProcessorKind::R600, &["rs780", "rv610", "rv620"], NONE),
    row("rv670", ProcessorKind::R600, &[], NONE),
    row("rv710", ProcessorKind::R600, &[], NONE),
    row("rv730", ProcessorKind::R600, &[], NONE),
    row("rv770", ProcessorKind::R600, &["rv740"], NONE),
    row("cedar", ProcessorKind::R600, &["palm"], NONE),
    row("cypress", ProcessorKind::R600, &["hemlock"], NONE),
    row("juniper", ProcessorKind::R600, &[], NONE),
    row("redwood", ProcessorKind::R600, &[], NONE),
    row("sumo", ProcessorKind::R600, &["sumo2"], NONE),
    row("barts", ProcessorKind::R600, &[], NONE),
    row("caicos", ProcessorKind::R600, &[], NONE),
    row("cayman", ProcessorKind::R600, &["aruba"], NONE),
    row("turks", ProcessorKind::R600, &[], NONE),
    row("sm_20", ProcessorKind::Nvidia, &[], NONE),
    row("sm_21", ProcessorKind::Nvidia, &[], NONE),
    row("sm_30", ProcessorKind::Nvidia, &[], NONE),
    row("sm_32", ProcessorKind::Nvidia, &[], NONE),
    row("sm_35", ProcessorKind::Nvidia, &[], NONE),
    row("sm_37", ProcessorKind::Nvidia, &[], NONE),
    row("sm_50", ProcessorKind::Nvidia, &[], NONE),
    row("sm_52", ProcessorKind::Nvidia, &[], NONE),
    row("sm_53", ProcessorKind::Nvidia, &[], NONE),
    row("sm_60", ProcessorKind::Nvidia, &[], NONE),
    row("sm_61", ProcessorKind::Nvidia, &[], NONE),
    row("sm_62", ProcessorKind::Nvidia, &[], NONE),
    row("sm_70", ProcessorKind::Nvidia, &[], NONE),
    row("sm_72", ProcessorKind::Nvidia, &[], NONE),
    row("sm_75", ProcessorKind::Nvidia, &[], NONE),
    row("sm_80", ProcessorKind::Nvidia, &[], NONE),
    row("sm_86", ProcessorKind::Nvidia, &[], NONE),
    row("sm_87", ProcessorKind::Nvidia, &[], NONE),
    row("sm_88", ProcessorKind::Nvidia, &[], NONE),
    row("sm_89", ProcessorKind::Nvidia, &[], NONE),
    row("sm_90", ProcessorKind::Nvidia, &[], NONE),
    row("sm_90a", ProcessorKind::Nvidia, &[], NONE),
    row("sm_100", ProcessorKind::Nvidia, &[], NONE),
    row("sm_100a", ProcessorKind::Nvidia, &[], NONE),
    row("sm_101", ProcessorKind::Nvidia, &[], NONE),
    row("sm_101a", ProcessorKind::Nvidia, &[], NONE),
    row("sm_103", ProcessorKind::Nvidia, &[], NONE),
    row("sm_103a", ProcessorKind::Nvidia, &[], NONE),
    row("sm_110", ProcessorKind::Nvidia, &[], NONE),
    row("sm_110a", ProcessorKind::Nvidia, &[], NONE),
    row("sm_120", ProcessorKind::Nvidia, &[], NONE),
    row("sm_120a", ProcessorKind::Nvidia, &[], NONE),
    row("sm_121", ProcessorKind::Nvidia, &[], NONE),
    row("sm_121a", ProcessorKind::Nvidia, &[], NONE),
    row("amdgcnspirv", ProcessorKind::SpirV, &[], NONE),
    row("generic", ProcessorKind::Other, &[], NONE),
    row("graniterapids", ProcessorKind::Other, &[], NONE),
    row("bmg_g21", ProcessorKind::Other, &[], NONE),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn features(name: &str) -> Vec<&'static str> {
        find(name).unwrap().features.iter().map(|feature| feature.name()).collect()
    }

    #[test]
    fn finds_by_any_name() {
        let cases = [
            ("gfx906", "gfx906", ProcessorKind::AmdGcn),
            ("tahiti", "gfx600", ProcessorKind::AmdGcn),
            ("polaris11", "gfx803", ProcessorKind::AmdGcn),
            ("gfx9-4-generic", "gfx9-4-generic", ProcessorKind::AmdGcn),
            ("gfx1251", "gfx1251", ProcessorKind::AmdGcn),
            ("rv635", "r600", ProcessorKind::R600),
            ("aruba", "cayman", ProcessorKind::R600),
            ("sm_32", "sm_32", ProcessorKind::Nvidia),
            ("sm_121a", "sm_121a", ProcessorKind::Nvidia),
            ("amdgcnspirv", "amdgcnspirv", ProcessorKind::SpirV),
            ("generic", "generic", ProcessorKind::Other),
            ("bmg_g21", "bmg_g21", ProcessorKind::Other),
        ];
        for (name, canonical, kind) in cases {
            let processor = find(name).unwrap();
            assert_eq!((processor.name, processor.kind), (canonical, kind), "{name}");
        }
    }

    #[test]
    fn unknown_names() {
        for name in ["", "gfx", "gfx940", "GFX906", "gfx1252", "sm_32_", "sm_90f", "unknown", "amdgcn"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn names_of_the_driver() {
        for name in ["gfx90a", "gfx12-generic", "sm_90a", "amdgcnspirv", "generic", "graniterapids"] {
            assert!(is_offload_arch(name), "{name}");
        }
        for name in ["", "tahiti", "r600", "cayman", "gfx940", "unknown"] {
            assert!(!is_offload_arch(name), "{name}");
        }
    }

    #[test]
    fn features_by_name() {
        assert_eq!(features("gfx90a"), ["sramecc", "xnack"]);
        assert_eq!(features("gfx9-4-generic"), ["sramecc", "xnack"]);
        assert_eq!(features("gfx902"), ["xnack"]);
        assert_eq!(features("gfx10-1-generic"), ["xnack"]);
        assert!(features("gfx1250").is_empty());
        assert!(features("gfx803").is_empty());
        assert!(features("sm_90a").is_empty());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> =
            PROCESSORS.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name])).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn features_are_in_order() {
        for processor in PROCESSORS {
            assert!(processor.features.is_sorted_by_key(|feature| feature.name()), "{}", processor.name);
        }
    }
}
