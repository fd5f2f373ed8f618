//! Reads the GPU of an ELF file for Intel GPUs (zebin) from its notes.
//!
//! The notes are in the section `.note.intelgt.compat`, of the owner `IntelGT`:
//!
//! | type | value | meaning |
//! |---|---|---|
//! | 1 | 4 bytes | product family |
//! | 6 | 4 bytes | IP version: architecture in bits 22 to 31, release in bits 14 to 21, revision in bits 0 to 5 |
//!
//! The name is the value that `ocloc` takes for `-device`. A GPU that is not in the table has the name of its IP
//! version, as `ocloc` writes it: `35.12.0`. Files of before 2023 have only the product family.
//!
//! Intel's runtime loads machine code whose IP version is that of the GPU, or is listed as compatible with it; without
//! an IP version, code of the same product family. The revision is left out here: it differs only in GPUs that were
//! never sold.
//!
//! Sources: `platforms.h`, `zebin_decoder.cpp` and `product_config_base.inl` of Intel's Compute Runtime of 2026; the
//! names of DPC++ in its manual for `-fsycl-targets`; files of `ocloc` 22.43.
//!
//! Not read: the device in ELF files of Intel's OpenCL compiler without zebin.

use crate::base::bytes::Cursor;
use crate::beyond::code::elf::File;

/// The architecture that DPC++ gives code for Intel GPUs.
pub(crate) const ARCH: &str = "spir64_gen";

/// Whether a triple, or its architecture alone, is that of SPIR-V or of code that DPC++ compiles from it for Intel's
/// GPUs. DPC++ compiles for CPUs and FPGAs too, and AMD has SPIR-V of its own.
pub(crate) fn is_for_intel(triple: &str) -> bool {
    let mut fields = triple.split('-');
    let arch = fields.next().unwrap_or_default();
    let is_other = matches!(arch, "spir64_x86_64" | "spir64_fpga") || fields.next() == Some("amd");
    arch.starts_with("spir") && !is_other
}

const NOTES_SECTION: &[u8] = b".note.intelgt.compat";

/// The owner of the notes, with the zero at its end.
const OWNER: &[u8] = b"IntelGT\0";

const PRODUCT_FAMILY: u32 = 1;
const PRODUCT_CONFIG: u32 = 6;

/// A GPU of Intel's.
#[derive(Debug)]
pub(crate) struct IntelGpu {
    /// The architecture and the release of its IP version.
    version: (u32, u32),
    /// The name, as `ocloc` takes it for `-device`.
    pub(crate) name: &'static str,
    /// Other names of the GPU that `ocloc` takes.
    aliases: &'static [&'static str],
    /// The product family in ELF files of before 2023.
    family: u32,
}

const fn gpu(version: (u32, u32), name: &'static str, aliases: &'static [&'static str], family: u32) -> IntelGpu {
    IntelGpu { version, name, aliases, family }
}

/// The GPUs, in the order of their versions.
#[rustfmt::skip]
const GPUS: [IntelGpu; 37] = [
    gpu((8, 0), "bdw", &[], 16),
    gpu((9, 0), "skl", &[], 18),
    gpu((9, 1), "kbl", &[], 19),
    gpu((9, 2), "cfl", &[], 20),
    gpu((9, 3), "apl", &["bxt"], 22),
    gpu((9, 4), "glk", &[], 23),
    gpu((9, 5), "whl", &[], 0),
    gpu((9, 6), "aml", &[], 0),
    gpu((9, 7), "cml", &[], 0),
    gpu((11, 0), "icllp", &["icl"], 26),
    gpu((11, 1), "lkf", &[], 27),
    gpu((11, 2), "ehl", &["jsl"], 28),
    gpu((12, 0), "tgllp", &["tgl"], 29),
    gpu((12, 1), "rkl", &[], 30),
    gpu((12, 2), "adl-s", &["rpl-s"], 31),
    gpu((12, 3), "adl-p", &["rpl-p"], 32),
    gpu((12, 4), "adl-n", &[], 33),
    gpu((12, 10), "dg1", &[], 1210),
    gpu((12, 50), "xehp-sdv", &[], 1250),
    gpu((12, 55), "dg2-g10", &["acm-g10", "ats-m150"], 1270),
    gpu((12, 56), "dg2-g11", &["acm-g11", "ats-m75"], 1270),
    gpu((12, 57), "dg2-g12", &["acm-g12"], 1270),
    gpu((12, 60), "pvc", &[], 1271),
    gpu((12, 61), "pvc-vg", &[], 0),
    gpu((12, 70), "mtl-u", &["mtl-s", "mtl-m", "arl-u", "arl-s"], 1272),
    gpu((12, 71), "mtl-h", &["mtl-p"], 1272),
    gpu((12, 74), "arl-h", &[], 1273),
    gpu((20, 1), "bmg-g21", &[], 1274),
    gpu((20, 2), "bmg-g31", &[], 1274),
    gpu((20, 4), "lnl-m", &[], 1275),
    gpu((30, 0), "ptl-h", &[], 1300),
    gpu((30, 1), "ptl-u", &[], 1300),
    gpu((30, 3), "wcl", &[], 1300),
    gpu((30, 4), "nvl-s", &["nvl-hx", "nvl-ul"], 0),
    gpu((30, 5), "nvl-u", &["nvl-h"], 0),
    gpu((35, 10), "nvl-p", &[], 0),
    gpu((35, 11), "cri", &[], 0),
];

/// The names of product families with several GPUs, which is all that ELF files of before 2023 record.
const FAMILIES: [(u32, &str); 4] = [(1270, "dg2"), (1272, "mtl"), (1274, "bmg"), (1300, "ptl")];

/// Each GPU whose code other GPUs load too, and these other GPUs, from Intel's table of compatible versions.
const TAKEN_BY: [(&str, &[&str]); 4] = [
    ("dg2-g10", &["dg2-g11", "dg2-g12"]),
    ("mtl-u", &["mtl-h"]),
    ("bmg-g21", &["bmg-g31", "lnl-m"]),
    ("ptl-h", &["ptl-u", "wcl", "nvl-s", "nvl-u"]),
];

/// Returns all GPUs, the older ones first.
pub(crate) fn all() -> impl Iterator<Item = &'static IntelGpu> {
    GPUS.iter()
}

/// Returns the main name of a GPU or of a family of GPUs for any of its names, or `None` if nothing has this name. A
/// GPU that is not in the table has its IP version (`35.12.0`) as its name.
pub(crate) fn canonical(name: &str) -> Option<String> {
    let gpu_name = all().find(|gpu| gpu.name == name || gpu.aliases.contains(&name)).map(|gpu| gpu.name);
    let family = FAMILIES.iter().find(|(_, family)| *family == name).map(|(_, family)| *family);
    match gpu_name.or(family) {
        Some(name) => Some(name.to_owned()),
        None => name_of_typed_version(name),
    }
}

/// Returns the main name of the GPU that machine code is for. LLVM and DPC++ have names of their own for the same GPUs:
/// `bmg_g21`, `intel_gpu_bmg_g21`, `intel_gpu_20_1_4`.
pub(crate) fn name_of_target(target: &str) -> Option<String> {
    let name = target.strip_prefix("intel_gpu_").unwrap_or(target);
    canonical(name).or_else(|| canonical(&name.replace('_', "-"))).or_else(|| canonical(&name.replace('_', ".")))
}

/// Returns the name of the GPU with an IP version such as `12.55.8`, or `None` for any other text.
fn name_of_typed_version(text: &str) -> Option<String> {
    let mut numbers = text.splitn(3, '.').map(|number| match number.parse::<u32>() {
        Ok(parsed) if parsed.to_string() == number => Some(parsed),
        _ => None,
    });
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    // The version is stored in bits, whose number limits each part.
    let [architecture, release, revision] = version;
    let fits = (8..1 << 10).contains(&architecture) && release < 1 << 8 && revision < 1 << 6;
    if fits { Some(name_of_version(architecture, release, revision)) } else { None }
}

/// Returns the GPUs of a family, or a single GPU itself, by its main name.
pub(crate) fn members(name: &str) -> Vec<String> {
    match FAMILIES.iter().find(|(_, family)| *family == name) {
        Some((number, _)) => all().filter(|gpu| gpu.family == *number).map(|gpu| gpu.name.to_owned()).collect(),
        None => vec![name.to_owned()],
    }
}

/// Returns the rank of machine code on a GPU, or `None` if the GPU does not load the code: 0 for code for the GPU
/// itself, which is preferred, 1 for code for its family or for a GPU that Intel's runtime lists as compatible. `code`
/// is the main name of the GPU that the code is for, and `gpu` that of the GPU.
pub(crate) fn preference(code: &str, gpu: &str) -> Option<u32> {
    if code == gpu {
        return Some(0);
    }
    let is_compatible = TAKEN_BY.iter().any(|(built_for, others)| *built_for == code && others.contains(&gpu));
    if is_compatible || members(code).iter().any(|member| member == gpu) { Some(1) } else { None }
}

/// The section with SPIR-V, which the driver compiles for any GPU, in an ELF file without machine code. The members
/// `generic_ir` of archives of `ocloc` are such files.
const SPIRV: &[u8] = b"SPIRV Object";

/// Returns the SPIR-V in an ELF file that is for any GPU, or `None` for an ELF file with machine code.
pub(super) fn spirv(data: &[u8]) -> Option<&[u8]> {
    File::read(data).ok()?.section_named(SPIRV)
}

/// Returns the name of the GPU that an ELF file is for. Returns `None` if the file has no such notes, or if they have
/// no IP version and an unknown product family.
pub(super) fn name(data: &[u8]) -> Option<String> {
    let notes = File::read(data).ok()?.section_named(NOTES_SECTION)?;
    match find_note(notes, PRODUCT_CONFIG) {
        // Without an IP version, the product family names the GPU.
        None | Some(0) => {}
        Some(config) => return Some(name_of_config(config)),
    }
    name_of_family(find_note(notes, PRODUCT_FAMILY)?).map(str::to_owned)
}

/// Returns the name of a product family, or of its GPU if it has only one. Returns `None` for an unknown number.
fn name_of_family(number: u32) -> Option<&'static str> {
    let family = FAMILIES.iter().find(|(family, _)| *family == number).map(|(_, name)| *name);
    // In the table of GPUs, 0 means that the family has no number.
    family.or_else(|| all().find(|gpu| gpu.family == number && number != 0).map(|gpu| gpu.name))
}

/// Returns the name of the GPU with an IP version in a note. The head of this file says which bits hold the three
/// numbers.
fn name_of_config(config: u32) -> String {
    name_of_version(config >> 22, (config >> 14) & 0xff, config & 0x3f)
}

/// Returns the name of the GPU with an IP version, or the version as text for a GPU that is not in the table.
fn name_of_version(architecture: u32, release: u32, revision: u32) -> String {
    match all().find(|gpu| gpu.version == (architecture, release)) {
        Some(gpu) => gpu.name.to_owned(),
        None => format!("{architecture}.{release}.{revision}"),
    }
}

/// Returns the length of a name or value with its padding.
fn padded(len: u32) -> u64 {
    u64::from(len).next_multiple_of(4)
}

/// Finds the first note of a type, and returns the first four bytes of its value as a number. Returns `None` if there
/// is no such note, or if a note before it is cut off. Names and values are padded to 4 bytes, but the padding of the
/// last value may be missing.
fn find_note(notes: &[u8], wanted_type: u32) -> Option<u32> {
    // Errors are dropped here, so the name and the offset in them do not matter.
    let what = "a note";
    let mut cursor = Cursor::new(notes, 0);
    loop {
        let [name_len, len, note_type] = [cursor.u32(what).ok()?, cursor.u32(what).ok()?, cursor.u32(what).ok()?];
        let is_of_intel = cursor.take(padded(name_len), what).ok()?.starts_with(OWNER);
        let value = cursor.take(padded(len).min(cursor.remaining()), what).ok()?;
        if is_of_intel && note_type == wanted_type {
            return Some(u32::from_le_bytes(*value.first_chunk()?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes_of(notes: &[(u32, &[u8])]) -> Vec<u8> {
        let mut data = Vec::new();
        for (number, value) in notes {
            let len = u32::try_from(value.len()).unwrap();
            data.extend([8, len, *number].map(u32::to_le_bytes).concat());
            data.extend(OWNER);
            data.extend(*value);
            data.resize(data.len().next_multiple_of(4), 0);
        }
        data
    }

    #[test]
    fn notes_of_other_types_and_lengths_are_skipped() {
        let data = notes_of(&[(4, b"1.20\0"), (1, &1271_u32.to_le_bytes()), (6, &0x030f_0007_u32.to_le_bytes())]);
        let found = [1, 6, 2].map(|number| find_note(&data, number));
        assert_eq!(found, [Some(1271), Some(0x030f_0007), None]);
        assert!((0..data.len()).all(|len| find_note(&data[..len], 6).is_none()));
    }

    #[test]
    fn versions_have_the_names_of_ocloc() {
        for (config, name) in [
            (0x030f_0007, "pvc"),
            (0x030d_c008, "dg2-g10"),
            (0x0500_4000, "bmg-g21"),
            (0x0501_0004, "lnl-m"),
            (0x0300_0000, "tgllp"),
            (0x0242_4009, "9.9.9"),
        ] {
            assert_eq!(name_of_config(config), name, "{config:x}");
        }
    }

    #[test]
    fn each_name_is_that_of_one_gpu() {
        assert!(GPUS.is_sorted_by(|one, other| one.version < other.version));
        let families = FAMILIES.iter().map(|(_, name)| *name);
        let mut names: Vec<&str> = all().flat_map(|gpu| [&[gpu.name], gpu.aliases].concat()).chain(families).collect();
        for name in &names {
            let canonical = canonical(name).unwrap();
            assert!(members(&canonical).iter().all(|gpu| all().any(|known| known.name == gpu)), "{name}");
            for of_code in [name.replace('-', "_"), format!("intel_gpu_{}", name.replace('-', "_"))] {
                assert_eq!(super::name_of_target(&of_code), Some(canonical.clone()), "{of_code}");
            }
        }
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
    }

    #[test]
    fn versions_are_names_too() {
        for (typed, name) in [
            ("12.55.8", Some("dg2-g10")),
            ("20.1.4", Some("bmg-g21")),
            ("35.12.0", Some("35.12.0")),
            ("intel_gpu_20_4_4", Some("lnl-m")),
            ("intel_gpu_dg2_g11", Some("dg2-g11")),
            ("acm-g10", Some("dg2-g10")),
            ("8.6", None),
            ("12.55", None),
            ("12.055.8", None),
            ("12.55.64", None),
            ("7.0.1", None),
            ("12.55.8.1", None),
            ("gfx90a", None),
            ("", None),
        ] {
            assert_eq!(name_of_target(typed).as_deref(), name, "{typed}");
        }
    }

    #[test]
    fn gpus_take_code_by_the_rules_of_the_runtime() {
        for (code, gpu, expected) in [
            ("dg2-g10", "dg2-g10", Some(0)),
            ("dg2-g10", "dg2-g11", Some(1)),
            ("dg2-g11", "dg2-g10", None),
            ("dg2", "dg2-g12", Some(1)),
            ("bmg-g21", "lnl-m", Some(1)),
            ("lnl-m", "bmg-g21", None),
            ("ptl", "wcl", Some(1)),
            ("pvc", "pvc-vg", None),
            ("mtl-u", "mtl-h", Some(1)),
            ("35.12.0", "35.12.0", Some(0)),
        ] {
            assert_eq!(preference(code, gpu), expected, "{code} {gpu}");
        }
    }
}
