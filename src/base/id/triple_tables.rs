//! The words of a target triple and their meanings, as known to LLVM 22.1.8, and `amdgpu`, which LLVM 23.1 knows.
//!
//! A meaning is the first of the words that have it, and empty for a word that LLVM does not know. Matching, per table:
//! - `ARCHES` and `VENDORS`: the whole word.
//! - `OSES` and `ENVIRONMENTS`: the word begins with the name, and may continue, for example with a version. The first
//!   match counts, so a name that begins with another one precedes it.
//! - `FORMATS`: the word ends with the name; here too, the longer name comes first.
//!
//! The case of letters matters.

use super::{amdgpu, arm};

/// The architecture of the word `bpf`: in LLVM, code for the byte order of the machine that runs LLVM.
const NATIVE_BPF: &str = if cfg!(target_endian = "big") { "bpfeb" } else { "bpfel" };

#[rustfmt::skip]
const ARCHES: &[&[&str]] = &[
    &["x86_64", "amd64", "x86_64h"], &[amdgpu::NAME, amdgpu::OLD_NAME], &["aarch64", "aarch64_lfi", "arm64", "arm64e", "arm64ec"],
    &["aarch64_32", "arm64_32"], &["aarch64_be"], &["amdil"], &["amdil64"], &["arc"], &["arm", "xscale"],
    &["armeb", "xscaleeb"], &["avr"], &["bpfeb", "bpf_be"], &["bpfel", "bpf_le"], &["csky"], &["dxil"], &["hexagon"],
    &["hsail"], &["hsail64"], &["i386", "i486", "i586", "i686", "i786", "i886", "i986"], &["lanai"], &["loongarch32"],
    &["loongarch64"], &["m68k"], &["mips", "mipsallegrex", "mipseb", "mipsisa32r6", "mipsr6"],
    &["mips64", "mips64eb", "mips64r6", "mipsisa64r6", "mipsn32", "mipsn32r6"],
    &["mips64el", "mips64r6el", "mipsisa64r6el", "mipsn32el", "mipsn32r6el"],
    &["mipsel", "mipsallegrexel", "mipsisa32r6el", "mipsr6el"], &["msp430"], &["nvptx"], &["nvptx64"],
    &["powerpc", "powerpcspe", "ppc", "ppc32"], &["powerpc64", "ppc64", "ppu"], &["powerpc64le", "ppc64le"],
    &["powerpcle", "ppc32le", "ppcle"], &["r600"], &["renderscript32"], &["renderscript64"], &["riscv32"],
    &["riscv32be"], &["riscv64"], &["riscv64be"], &["s390x", "systemz"], &["shave"], &["sparc"],
    &["sparc64", "sparcv9"], &["sparcel"], &["spir"], &["spir64"], &["spirv", "spirv1.5", "spirv1.6"], &["spirv32"],
    &["spirv64"], &["tce"], &["tcele"], &["thumb"], &["thumbeb"], &["ve"], &["wasm32"], &["wasm64"], &["xcore"],
    &["xtensa"],
];

#[rustfmt::skip]
const VENDORS: &[&str] = &[
    "amd", "apple", "csr", "fsl", "ibm", "img", "intel", "mesa", "meta", "mti", "nvidia", "oe", "pc", "scei", "sie",
    "suse",
];

#[rustfmt::skip]
const OSES: &[&str] = &[
    "aix", "amdhsa", "amdpal", "bridgeos", "cheriotrtos", "cuda", "darwin", "dragonfly", "driverkit", "elfiamcu",
    "emscripten", "freebsd", "fuchsia", "haiku", "hermit", "hurd", "ios", "kfreebsd", "linux", "liteos", "lv2",
    "macos", "managarm", "mesa3d", "netbsd", "nvcl", "openbsd", "ps4", "ps5", "rtems", "serenity", "shadermodel",
    "solaris", "tvos", "uefi", "visionos", "vulkan", "wasip1", "wasip2", "wasip3", "wasi", "watchos", "win32",
    "windows", "xros", "zos",
];

#[rustfmt::skip]
const ENVIRONMENTS: &[&str] = &[
    "amplification", "android", "anyhit", "callable", "closesthit", "code16", "compute", "coreclr", "cygnus",
    "domain", "eabihf", "eabi", "geometry", "gnu_ilp32", "gnuabi64", "gnuabin32", "gnueabihft64", "gnueabihf",
    "gnueabit64", "gnueabi", "gnuf32", "gnuf64", "gnusf", "gnut64", "gnux32", "gnu", "hull", "intersection",
    "itanium", "library", "llvm", "macabi", "mesh", "miss", "mlibc", "msvc", "mtia", "muslabi64", "muslabin32",
    "musleabihf", "musleabi", "muslf32", "muslsf", "muslwali", "muslx32", "musl", "ohos", "opencl", "pauthtest",
    "pixel", "raygeneration", "rootsignature", "simulator", "vertex",
];

const FORMATS: &[&str] = &["xcoff", "coff", "elf", "goff", "macho", "spirv", "wasm"];

/// The versions of SPIR-V that may follow `spirv`, `spirv32` and `spirv64`.
const SPIRV_VERSIONS: &[&str] = &["v1.0", "v1.1", "v1.2", "v1.3", "v1.4", "v1.5", "v1.6"];

/// DXIL by minor version, which equals the minor version of shader model 6.
pub(super) const DXIL_WORDS: [&str; 10] = [
    "dxilv1.0", "dxilv1.1", "dxilv1.2", "dxilv1.3", "dxilv1.4", "dxilv1.5", "dxilv1.6", "dxilv1.7", "dxilv1.8",
    "dxilv1.9",
];

/// The names of Kalimba processors with their versions. LLVM looks for one at the end of a word that has no ARM version
/// part ([`arm::version_part`]).
const KALIMBA_VERSIONS: &[&str] = &["kalimba3", "kalimba4", "kalimba5"];

/// The first name in a table that matches; empty if no name does.
fn find(table: &[&'static str], is_match: impl Fn(&str) -> bool) -> &'static str {
    table.iter().copied().find(|name| is_match(name)).unwrap_or_default()
}

/// Returns LLVM's main name of the architecture that `word` names, or an empty text for an unknown word. After the
/// whole words of the table, names with a version are tried.
pub(super) fn arch(word: &str) -> &'static str {
    match ARCHES.iter().find(|names| names.contains(&word)) {
        Some([name, ..]) => name,
        _ if word.starts_with(amdgpu::NAME) => amdgpu::NAME,
        _ if word == "bpf" => NATIVE_BPF,
        _ if word.starts_with("kalimba") => "kalimba",
        _ if DXIL_WORDS.contains(&word) => "dxil",
        _ if is_spirv_with_version(word, "spirv32") => "spirv32",
        _ if is_spirv_with_version(word, "spirv64") => "spirv64",
        _ => arm::arch(word),
    }
}

/// Whether `word` is the name of an architecture and a version of SPIR-V.
fn is_spirv_with_version(word: &str, name: &str) -> bool {
    match word.strip_prefix(name) {
        Some(version) => SPIRV_VERSIONS.contains(&version),
        None => false,
    }
}

/// Returns the version or flavour of the architecture that `word` names, or an empty text. As in LLVM, a word may have
/// a version although [`arch`] does not know it. Versions of AMD GPUs have other rules: see [`amdgpu::SubArch`].
pub(super) fn sub_arch(word: &str) -> &'static str {
    match word {
        _ if word.starts_with("mips") && (word.ends_with("r6") || word.ends_with("r6el")) => "r6",
        "powerpcspe" => "powerpcspe",
        "arm64e" => "arm64e",
        "arm64ec" => "arm64ec",
        "aarch64_lfi" => "aarch64_lfi",
        _ if word.starts_with("spirv") => find(SPIRV_VERSIONS, |version| word.ends_with(version)),
        _ if word.starts_with("dxil") => find(&DXIL_WORDS, |name| word.ends_with(name.trim_start_matches("dxil"))),
        _ => match arm::version_part(word) {
            Some(version) => arm::sub_arch(version),
            None => find(KALIMBA_VERSIONS, |version| word.ends_with(version)),
        },
    }
}

/// Returns LLVM's main name of the vendor that `word` names, or an empty text for an unknown word.
pub(super) fn vendor(word: &str) -> &'static str {
    match find(VENDORS, |name| name == word) {
        // Sony Interactive Entertainment has the name of Sony Computer Entertainment.
        "sie" => "scei",
        name => name,
    }
}

/// Returns LLVM's main name of the operating system whose name begins `word`, or an empty text for an unknown word.
pub(super) fn os(word: &str) -> &'static str {
    match find(OSES, |name| word.starts_with(name)) {
        "windows" => "win32",
        "visionos" => "xros",
        name => name,
    }
}

/// Returns the environment whose name begins `word`, or an empty text for an unknown word.
pub(super) fn environment(word: &str) -> &'static str {
    find(ENVIRONMENTS, |name| word.starts_with(name))
}

/// Returns the object format whose name ends `word`, or an empty text for an unknown word.
pub(super) fn object_format(word: &str) -> &'static str {
    find(FORMATS, |name| word.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words and their meanings to LLVM 22.1.8 and, for `amdgpu`, to LLVM 23.1.4.
    const ARCH_WORDS: &[(&str, &str, &str)] = &[
        ("arm", "arm", ""),
        ("armeb", "armeb", ""),
        ("armx", "arm", ""),
        ("armxx", "", ""),
        ("armm", "thumb", "v6-m"),
        ("armv2", "arm", ""),
        ("armv99", "arm", ""),
        ("armv6m", "thumb", "v6-m"),
        ("armebv6m", "thumbeb", "v6-m"),
        ("armv7", "arm", "v7-a"),
        ("armv7a", "arm", "v7-a"),
        ("armv7eb", "armeb", "v7-a"),
        ("armebv7", "armeb", "v7-a"),
        ("armebv7eb", "", ""),
        ("armv7ve", "arm", "v7ve"),
        ("armv7s", "arm", "v7s"),
        ("armv7k", "arm", "v7k"),
        ("armv7r", "arm", "v7-a"),
        ("armv7em", "arm", "v7e-m"),
        ("armv7e", "arm", ""),
        ("armv8.1m.main", "arm", "v8.1-m.main"),
        ("armv8m.base", "arm", "v8-m.base"),
        ("armv8r", "arm", "v8-r"),
        ("armv8.9a", "arm", "v8.9-a"),
        ("armv9.7a", "arm", "v9.7-a"),
        ("armv9.8a", "arm", ""),
        ("arm64", "aarch64", "v8-a"),
        ("arm64e", "aarch64", "arm64e"),
        ("arm64ec", "aarch64", "arm64ec"),
        ("arm64e2", "aarch64", "v6t2"),
        ("arm64_32", "aarch64_32", ""),
        ("arm64_32v8", "aarch64", "v8-a"),
        ("arm64eb", "aarch64_be", ""),
        ("arm64v8eb", "aarch64_be", "v8-a"),
        ("arm64v6m", "thumb", "v6-m"),
        ("arm64_lfi", "", ""),
        ("aarch64", "aarch64", "v8-a"),
        ("aarch64_be", "aarch64_be", ""),
        ("aarch64_32", "aarch64_32", ""),
        ("aarch64_lfi", "aarch64", "aarch64_lfi"),
        ("aarch64_lfix", "", ""),
        ("aarch64eb", "", ""),
        ("aarch64v8.2a", "aarch64", "v8.2-a"),
        ("aarch64_bev8", "aarch64_be", "v8-a"),
        ("aarch64v8_be", "aarch64", ""),
        ("aarch64_32eb", "aarch64", ""),
        ("thumb", "thumb", ""),
        ("thumbeb", "thumbeb", ""),
        ("thumbv2", "", ""),
        ("thumbv3m", "", ""),
        ("thumbv4t", "thumb", "v4t"),
        ("thumbv7", "thumb", "v7-a"),
        ("thumbv7eb", "thumbeb", "v7-a"),
        ("thumbebv6m", "thumbeb", "v6-m"),
        ("thumbkalimba5", "", "kalimba5"),
        ("armkalimba3", "", "kalimba3"),
        ("xscale", "arm", "v5te"),
        ("xscaleeb", "armeb", "v5te"),
        ("iwmmxt", "", "v5te"),
        ("v7", "", "v7-a"),
        ("v7eb", "", "v7-a"),
        ("v7ebeb", "", "v7-a"),
        ("v7ebebeb", "", ""),
        ("te", "", "v5te"),
        ("in", "", "v8-m.main"),
        ("eb", "", ""),
        ("rmv6k", "", "v6k"),
        ("mv7ve", "", "v7ve"),
        ("amv6k", "", ""),
        ("kalimba3", "kalimba", ""),
        ("kalimbax", "kalimba", ""),
        ("mips", "mips", ""),
        ("mipsr6", "mips", "r6"),
        ("mips32r6", "", "r6"),
        ("mipsfoor6el", "", "r6"),
        ("mips64r6eb", "", ""),
        ("powerpcspe", "powerpc", "powerpcspe"),
        ("ppu", "powerpc64", ""),
        ("spirv1.4", "", "v1.4"),
        ("spirv1.5", "spirv", "v1.5"),
        ("spirv32v1.0", "spirv32", "v1.0"),
        ("spirv64v1.7", "", ""),
        ("dxilv1.9", "dxil", "dxilv1.9"),
        ("dxilv1.10", "", ""),
        ("bpfeb", "bpfeb", ""),
        ("bpf_le", "bpfel", ""),
        ("bpfx", "", ""),
        ("i386", "i386", ""),
        ("i186", "", ""),
        ("x86_64h", "x86_64", ""),
        ("x86", "", ""),
        ("X86_64", "", ""),
        ("sparc64", "sparc64", ""),
        ("systemz", "s390x", ""),
        ("ve", "ve", "v7ve"),
        ("nacl", "", ""),
        ("riscv32be", "riscv32be", ""),
        ("amdgcn", "amdgpu", ""),
        ("amdgcn9", "", ""),
        ("amdgpu", "amdgpu", ""),
        ("amdgpu9.42", "amdgpu", ""),
        ("amdgpux", "amdgpu", ""),
        ("amdgp", "", ""),
        ("", "", ""),
    ];

    #[test]
    fn architectures() {
        for (word, expected, version) in ARCH_WORDS {
            assert_eq!((arch(word), sub_arch(word)), (*expected, *version), "{word:?}");
        }
    }

    fn check(parse: fn(&str) -> &'static str, cases: &[(&str, &str)]) {
        for (word, expected) in cases {
            assert_eq!(parse(word), *expected, "{word:?}");
        }
    }

    #[test]
    fn vendors() {
        let cases = [
            ("amd", "amd"),
            ("pc", "pc"),
            ("sie", "scei"),
            ("scei", "scei"),
            ("meta", "meta"),
            ("applex", ""),
            ("AMD", ""),
            ("w64", ""),
            ("", ""),
        ];
        check(vendor, &cases);
    }

    #[test]
    fn systems() {
        let cases = [
            ("linux", "linux"),
            ("linuxfoo", "linux"),
            ("macosx11", "macos"),
            ("macos", "macos"),
            ("visionos2", "xros"),
            ("wasi", "wasi"),
            ("wasip", "wasi"),
            ("wasip1", "wasip1"),
            ("wasip3x", "wasip3"),
            ("wasip4", "wasi"),
            ("win32", "win32"),
            ("windows", "win32"),
            ("mingw32", ""),
            ("nacl", ""),
            ("hermitcore", "hermit"),
            ("amdhsa1.0", "amdhsa"),
            ("none", ""),
            ("xlinux", ""),
            ("", ""),
        ];
        check(os, &cases);
    }

    #[test]
    fn environments() {
        let cases = [
            ("gnu", "gnu"),
            ("gnu64", "gnu"),
            ("gnuabi", "gnu"),
            ("gnuabi64", "gnuabi64"),
            ("gnuabin32", "gnuabin32"),
            ("gnueabi", "gnueabi"),
            ("gnueabit64", "gnueabit64"),
            ("gnueabihf", "gnueabihf"),
            ("gnueabihft64", "gnueabihft64"),
            ("gnueabihft6", "gnueabihf"),
            ("gnuilp32", "gnu"),
            ("gnu_ilp32", "gnu_ilp32"),
            ("eabi", "eabi"),
            ("eabihf5", "eabihf"),
            ("musl", "musl"),
            ("musleabi", "musleabi"),
            ("musleabihf", "musleabihf"),
            ("muslwali", "muslwali"),
            ("androideabi21", "android"),
            ("elf", ""),
            ("mtia", "mtia"),
            ("none", ""),
            ("", ""),
        ];
        check(environment, &cases);
    }

    #[test]
    fn formats() {
        let cases = [
            ("elf", "elf"),
            ("xcoff", "xcoff"),
            ("coff", "coff"),
            ("goff", "goff"),
            ("gnumacho", "macho"),
            ("gnu-spirv", "spirv"),
            ("wasm", "wasm"),
            ("elfx", ""),
            ("dxcontainer", ""),
        ];
        check(object_format, &cases);
    }

    fn assert_reachable(table: &[&str], hides: fn(&str, &str) -> bool) {
        for (row, name) in table.iter().enumerate() {
            for earlier in &table[..row] {
                assert!(!hides(earlier, name), "{earlier} hides {name}");
            }
        }
    }

    fn starts(earlier: &str, name: &str) -> bool {
        name.starts_with(earlier)
    }

    fn ends(earlier: &str, name: &str) -> bool {
        name.ends_with(earlier)
    }

    #[test]
    fn no_row_hides_a_later_one() {
        let arches = ARCHES.iter().copied().flatten();
        let mut seen = std::collections::HashSet::new();
        for name in arches.chain(VENDORS) {
            assert!(seen.insert(name), "{name}");
        }
        assert_reachable(OSES, starts);
        assert_reachable(ENVIRONMENTS, starts);
        assert_reachable(FORMATS, ends);
        assert_reachable(SPIRV_VERSIONS, ends);
        assert_reachable(&DXIL_WORDS, ends);
        assert_reachable(KALIMBA_VERSIONS, ends);
    }

    #[test]
    fn meanings_are_their_own() {
        for names in ARCHES {
            assert!(names.iter().all(|name| arch(name) == names[0]), "{names:?}");
        }
        assert!(VENDORS.iter().all(|name| vendor(vendor(name)) == vendor(name)));
        assert!(OSES.iter().all(|name| os(os(name)) == os(name)));
        assert!(ENVIRONMENTS.iter().all(|name| environment(name) == *name));
        assert!(FORMATS.iter().all(|name| object_format(name) == *name));
    }
}
