//! GPU processors that a target ID can name, as LLVM and clang 22.1.8 know them, and further ones of LLVM 23.1.4.
//!
//! LLVM (code generation) and clang (offloading driver) know the AMD GCN processors by the same canonical names. Only
//! LLVM knows alternative names and R600 processors. Only the offloading driver knows NVIDIA's processors, SPIR-V and
//! processors of other vendors. Numbers in ELF files are from the User Guide for AMDGPU Backend, and as LLVM 23.1.4
//! prints them.

/// The family of GPUs or CPUs that a processor belongs to. It decides which architectures the processor may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessorKind {
    /// AMD GPU of the GCN, CDNA and RDNA families: architecture `amdgpu`, formerly `amdgcn`.
    AmdGcn,
    /// Older AMD GPU: architecture `r600`.
    R600,
    /// NVIDIA GPU, by compute capability.
    Nvidia,
    /// SPIR-V for AMD GPUs, compiled for the available GPU when it is loaded.
    SpirV,
    /// Processor of another vendor, or a generic processor of any vendor.
    Other,
}

/// A processor, as LLVM 23.1.4 knows it.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Processor {
    /// The canonical name.
    pub name: &'static str,
    /// The kind of the processor.
    pub kind: ProcessorKind,
    /// Other names of the same processor.
    pub aliases: &'static [&'static str],
    /// The features that its target IDs may name, followed by `+` or `-`, in the order of canonical target IDs (by
    /// name): `sramecc` is error correction of on-chip memory, `xnack` replay of memory accesses after a page fault.
    pub features: &'static [&'static str],
    /// Bits 0 to 7 of the flags of its ELF files; `None` if it is not an AMD GPU.
    pub elf_number: Option<u8>,
    /// The first major release of LLVM that knows the processor. The lowest number, 22, means LLVM 22 or an older
    /// release.
    pub since: u8,
}

/// Returns the processor with a canonical or alternative name, or `None` if LLVM 23.1.4 does not know the name. The
/// case of letters matters.
pub fn find(name: &str) -> Option<&'static Processor> {
    PROCESSORS.iter().find(|processor| processor.name == name || processor.aliases.contains(&name))
}

/// All known processors.
pub fn all() -> impl Iterator<Item = &'static Processor> {
    PROCESSORS.iter()
}

/// Whether the offloading driver of clang 22.1.8 knows the name. The driver knows neither [`Processor::aliases`] nor
/// R600 processors.
///
/// This determines whether the text after the triple of a bundle entry ID is a target ID: it is one only if the driver
/// knows the part before the first colon.
pub fn is_offload_arch(name: &str) -> bool {
    PROCESSORS.iter().any(|known| known.name == name && known.kind != ProcessorKind::R600 && known.since <= 22)
}

const NONE: &[&str] = &[];
const XNACK: &[&str] = &["xnack"];
const SRAMECC_XNACK: &[&str] = &["sramecc", "xnack"];

/// Returns an AMD GPU with this number in the flags of ELF files, which LLVM 22 knows.
const fn amd(
    elf_number: u8,
    name: &'static str,
    kind: ProcessorKind,
    aliases: &'static [&'static str],
    features: &'static [&'static str],
) -> Processor {
    Processor { name, kind, aliases, features, elf_number: Some(elf_number), since: 22 }
}

/// Returns an AMD GPU of the architecture `amdgcn`. `number` is that in the flags of ELF files.
const fn gcn(
    number: u8,
    name: &'static str,
    aliases: &'static [&'static str],
    features: &'static [&'static str],
) -> Processor {
    amd(number, name, ProcessorKind::AmdGcn, aliases, features)
}

const fn r600(number: u8, name: &'static str, aliases: &'static [&'static str]) -> Processor {
    amd(number, name, ProcessorKind::R600, aliases, NONE)
}

/// Returns a processor that is not an AMD GPU, which LLVM 22 knows.
const fn other(name: &'static str, kind: ProcessorKind) -> Processor {
    Processor { name, kind, aliases: &[], features: NONE, elf_number: None, since: 22 }
}

const fn nvidia(name: &'static str) -> Processor {
    other(name, ProcessorKind::Nvidia)
}

/// Marks a processor that LLVM 23 knows and LLVM 22 does not.
const fn since_23(processor: Processor) -> Processor {
    Processor { since: 23, ..processor }
}

#[rustfmt::skip]
static PROCESSORS: &[Processor] = &[
    gcn(0x20, "gfx600", &["tahiti"], NONE),
    gcn(0x21, "gfx601", &["pitcairn", "verde"], NONE),
    gcn(0x3a, "gfx602", &["hainan", "oland"], NONE),
    gcn(0x22, "gfx700", &["kaveri"], NONE),
    gcn(0x23, "gfx701", &["hawaii"], NONE),
    gcn(0x24, "gfx702", &[], NONE),
    gcn(0x25, "gfx703", &["kabini", "mullins"], NONE),
    gcn(0x26, "gfx704", &["bonaire"], NONE),
    gcn(0x3b, "gfx705", &[], NONE),
    gcn(0x28, "gfx801", &["carrizo"], XNACK),
    gcn(0x29, "gfx802", &["iceland", "tonga"], NONE),
    gcn(0x2a, "gfx803", &["fiji", "polaris10", "polaris11"], NONE),
    gcn(0x3c, "gfx805", &["tongapro"], NONE),
    gcn(0x2b, "gfx810", &["stoney"], XNACK),
    gcn(0x51, "gfx9-generic", &[], XNACK),
    gcn(0x2c, "gfx900", &[], XNACK),
    gcn(0x2d, "gfx902", &[], XNACK),
    gcn(0x2e, "gfx904", &[], XNACK),
    gcn(0x2f, "gfx906", &[], SRAMECC_XNACK),
    gcn(0x30, "gfx908", &[], SRAMECC_XNACK),
    gcn(0x31, "gfx909", &[], XNACK),
    gcn(0x3f, "gfx90a", &[], SRAMECC_XNACK),
    gcn(0x32, "gfx90c", &[], XNACK),
    gcn(0x5f, "gfx9-4-generic", &[], SRAMECC_XNACK),
    gcn(0x4c, "gfx942", &[], SRAMECC_XNACK),
    gcn(0x4f, "gfx950", &[], SRAMECC_XNACK),
    gcn(0x52, "gfx10-1-generic", &[], XNACK),
    gcn(0x33, "gfx1010", &[], XNACK),
    gcn(0x34, "gfx1011", &[], XNACK),
    gcn(0x35, "gfx1012", &[], XNACK),
    gcn(0x42, "gfx1013", &[], XNACK),
    gcn(0x53, "gfx10-3-generic", &[], NONE),
    gcn(0x36, "gfx1030", &[], NONE),
    gcn(0x37, "gfx1031", &[], NONE),
    gcn(0x38, "gfx1032", &[], NONE),
    gcn(0x39, "gfx1033", &[], NONE),
    gcn(0x3e, "gfx1034", &[], NONE),
    gcn(0x3d, "gfx1035", &[], NONE),
    gcn(0x45, "gfx1036", &[], NONE),
    gcn(0x54, "gfx11-generic", &[], NONE),
    gcn(0x41, "gfx1100", &[], NONE),
    gcn(0x46, "gfx1101", &[], NONE),
    gcn(0x47, "gfx1102", &[], NONE),
    gcn(0x44, "gfx1103", &[], NONE),
    gcn(0x43, "gfx1150", &[], NONE),
    gcn(0x4a, "gfx1151", &[], NONE),
    gcn(0x55, "gfx1152", &[], NONE),
    gcn(0x58, "gfx1153", &[], NONE),
    since_23(gcn(0x57, "gfx1154", &[], NONE)),
    since_23(gcn(0x62, "gfx11-7-generic", &[], NONE)),
    since_23(gcn(0x5d, "gfx1170", &[], NONE)),
    since_23(gcn(0x5e, "gfx1171", &[], NONE)),
    since_23(gcn(0x5c, "gfx1172", &[], NONE)),
    gcn(0x59, "gfx12-generic", &[], NONE),
    gcn(0x48, "gfx1200", &[], NONE),
    gcn(0x4e, "gfx1201", &[], NONE),
    since_23(gcn(0x5b, "gfx12-5-generic", &[], XNACK)),
    gcn(0x49, "gfx1250", &[], SRAMECC_XNACK),
    gcn(0x5a, "gfx1251", &[], SRAMECC_XNACK),
    since_23(gcn(0x63, "gfx13-generic", &[], NONE)),
    since_23(gcn(0x50, "gfx1310", &[], NONE)),
    r600(0x1, "r600", &["rv630", "rv635"]),
    r600(0x2, "r630", &[]),
    r600(0x3, "rs880", &["rs780", "rv610", "rv620"]),
    r600(0x4, "rv670", &[]),
    r600(0x5, "rv710", &[]),
    r600(0x6, "rv730", &[]),
    r600(0x7, "rv770", &["rv740"]),
    r600(0x8, "cedar", &["palm"]),
    r600(0x9, "cypress", &["hemlock"]),
    r600(0xa, "juniper", &[]),
    r600(0xb, "redwood", &[]),
    r600(0xc, "sumo", &["sumo2"]),
    r600(0xd, "barts", &[]),
    r600(0xe, "caicos", &[]),
    r600(0xf, "cayman", &["aruba"]),
    r600(0x10, "turks", &[]),
    nvidia("sm_20"), nvidia("sm_21"), nvidia("sm_30"), nvidia("sm_32"), nvidia("sm_35"), nvidia("sm_37"),
    nvidia("sm_50"), nvidia("sm_52"), nvidia("sm_53"), nvidia("sm_60"), nvidia("sm_61"), nvidia("sm_62"),
    nvidia("sm_70"), nvidia("sm_72"), nvidia("sm_75"), nvidia("sm_80"), nvidia("sm_86"), nvidia("sm_87"),
    nvidia("sm_88"), nvidia("sm_89"), nvidia("sm_90"), nvidia("sm_90a"), nvidia("sm_100"), nvidia("sm_100a"),
    since_23(nvidia("sm_100f")), nvidia("sm_101"), nvidia("sm_101a"), since_23(nvidia("sm_101f")), nvidia("sm_103"),
    nvidia("sm_103a"), since_23(nvidia("sm_103f")), nvidia("sm_110"), nvidia("sm_110a"), since_23(nvidia("sm_110f")),
    nvidia("sm_120"), nvidia("sm_120a"), since_23(nvidia("sm_120f")), nvidia("sm_121"), nvidia("sm_121a"),
    since_23(nvidia("sm_121f")),
    other("amdgcnspirv", ProcessorKind::SpirV),
    other("generic", ProcessorKind::Other),
    other("graniterapids", ProcessorKind::Other),
    other("bmg_g21", ProcessorKind::Other),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn features(name: &str) -> Vec<&'static str> {
        find(name).unwrap().features.to_vec()
    }

    #[test]
    fn finds_by_any_name() {
        let cases = [
            ("gfx906", "gfx906", ProcessorKind::AmdGcn),
            ("tahiti", "gfx600", ProcessorKind::AmdGcn),
            ("polaris11", "gfx803", ProcessorKind::AmdGcn),
            ("gfx9-4-generic", "gfx9-4-generic", ProcessorKind::AmdGcn),
            ("gfx1251", "gfx1251", ProcessorKind::AmdGcn),
            ("gfx11-7-generic", "gfx11-7-generic", ProcessorKind::AmdGcn),
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
        for name in ["", "tahiti", "r600", "cayman", "gfx940", "gfx1310", "sm_100f", "unknown"] {
            assert!(!is_offload_arch(name), "{name}");
        }
    }

    #[test]
    fn features_by_name() {
        assert_eq!(features("gfx90a"), ["sramecc", "xnack"]);
        assert_eq!(features("gfx9-4-generic"), ["sramecc", "xnack"]);
        assert_eq!(features("gfx902"), ["xnack"]);
        assert_eq!(features("gfx10-1-generic"), ["xnack"]);
        assert_eq!(features("gfx1250"), ["sramecc", "xnack"]);
        assert_eq!(features("gfx12-5-generic"), ["xnack"]);
        assert!(features("gfx1310").is_empty());
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
    fn elf_numbers_are_unique_and_those_of_amd() {
        for processor in PROCESSORS {
            let is_amd = matches!(processor.kind, ProcessorKind::AmdGcn | ProcessorKind::R600);
            assert_eq!(processor.elf_number.is_some(), is_amd, "{}", processor.name);
            let found = processor.elf_number.and_then(|number| all().find(|other| other.elf_number == Some(number)));
            assert!(found.is_none_or(|found| found == processor), "{}", processor.name);
        }
    }

    #[test]
    fn features_are_in_order() {
        for processor in PROCESSORS {
            assert!(processor.features.is_sorted(), "{}", processor.name);
        }
    }
}
