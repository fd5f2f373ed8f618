//! The words of a target triple and their meanings, as known to LLVM 22.1.8.
//!
//! Matching, per table:
//! - `ARCHES` and `VENDORS`: the whole word.
//! - `OSES` and `ENVIRONMENTS`: the word begins with the name, and may continue, for example with a version. The first
//!   match counts, so a name that begins with another one precedes it.
//! - `FORMATS`: the word ends with the name; here too, the longer name comes first.
//!
//! All matching is case-sensitive.

use super::arm;
use super::triple_kinds::{Arch, Environment, ObjectFormat, Os, SubArch, Vendor};

/// Plain `bpf` has the byte order of the machine that runs the program.
const NATIVE_BPF: Arch = if cfg!(target_endian = "big") { Arch::BpfEb } else { Arch::BpfEl };

const ARCHES: &[(&[&str], Arch)] = &[
    (&["x86_64", "amd64", "x86_64h"], Arch::X86_64),
    (&["amdgcn"], Arch::AmdGcn),
    (&["aarch64", "aarch64_lfi", "arm64", "arm64e", "arm64ec"], Arch::Aarch64),
    (&["aarch64_32", "arm64_32"], Arch::Aarch64_32),
    (&["aarch64_be"], Arch::Aarch64Be),
    (&["amdil"], Arch::AmdIl),
    (&["amdil64"], Arch::AmdIl64),
    (&["arc"], Arch::Arc),
    (&["arm", "xscale"], Arch::Arm),
    (&["armeb", "xscaleeb"], Arch::ArmEb),
    (&["avr"], Arch::Avr),
    (&["bpf"], NATIVE_BPF),
    (&["bpf_be", "bpfeb"], Arch::BpfEb),
    (&["bpf_le", "bpfel"], Arch::BpfEl),
    (&["csky"], Arch::Csky),
    (
        &[
            "dxil", "dxilv1.0", "dxilv1.1", "dxilv1.2", "dxilv1.3", "dxilv1.4", "dxilv1.5", "dxilv1.6", "dxilv1.7",
            "dxilv1.8", "dxilv1.9",
        ],
        Arch::Dxil,
    ),
    (&["hexagon"], Arch::Hexagon),
    (&["hsail"], Arch::Hsail),
    (&["hsail64"], Arch::Hsail64),
    (&["i386", "i486", "i586", "i686", "i786", "i886", "i986"], Arch::X86),
    (&["lanai"], Arch::Lanai),
    (&["loongarch32"], Arch::LoongArch32),
    (&["loongarch64"], Arch::LoongArch64),
    (&["m68k"], Arch::M68k),
    (&["mips", "mipsallegrex", "mipseb", "mipsisa32r6", "mipsr6"], Arch::Mips),
    (&["mips64", "mips64eb", "mips64r6", "mipsisa64r6", "mipsn32", "mipsn32r6"], Arch::Mips64),
    (&["mips64el", "mips64r6el", "mipsisa64r6el", "mipsn32el", "mipsn32r6el"], Arch::Mips64El),
    (&["mipsallegrexel", "mipsel", "mipsisa32r6el", "mipsr6el"], Arch::MipsEl),
    (&["msp430"], Arch::Msp430),
    (&["nvptx"], Arch::Nvptx),
    (&["nvptx64"], Arch::Nvptx64),
    (&["powerpc", "powerpcspe", "ppc", "ppc32"], Arch::Ppc),
    (&["powerpc64", "ppc64", "ppu"], Arch::Ppc64),
    (&["powerpc64le", "ppc64le"], Arch::Ppc64Le),
    (&["powerpcle", "ppc32le", "ppcle"], Arch::PpcLe),
    (&["r600"], Arch::R600),
    (&["renderscript32"], Arch::RenderScript32),
    (&["renderscript64"], Arch::RenderScript64),
    (&["riscv32"], Arch::RiscV32),
    (&["riscv32be"], Arch::RiscV32Be),
    (&["riscv64"], Arch::RiscV64),
    (&["riscv64be"], Arch::RiscV64Be),
    (&["s390x", "systemz"], Arch::SystemZ),
    (&["shave"], Arch::Shave),
    (&["sparc"], Arch::Sparc),
    (&["sparc64", "sparcv9"], Arch::SparcV9),
    (&["sparcel"], Arch::SparcEl),
    (&["spir"], Arch::Spir),
    (&["spir64"], Arch::Spir64),
    (&["spirv", "spirv1.5", "spirv1.6"], Arch::SpirV),
    (
        &[
            "spirv32",
            "spirv32v1.0",
            "spirv32v1.1",
            "spirv32v1.2",
            "spirv32v1.3",
            "spirv32v1.4",
            "spirv32v1.5",
            "spirv32v1.6",
        ],
        Arch::SpirV32,
    ),
    (
        &[
            "spirv64",
            "spirv64v1.0",
            "spirv64v1.1",
            "spirv64v1.2",
            "spirv64v1.3",
            "spirv64v1.4",
            "spirv64v1.5",
            "spirv64v1.6",
        ],
        Arch::SpirV64,
    ),
    (&["tce"], Arch::Tce),
    (&["tcele"], Arch::TceLe),
    (&["thumb"], Arch::Thumb),
    (&["thumbeb"], Arch::ThumbEb),
    (&["ve"], Arch::Ve),
    (&["wasm32"], Arch::Wasm32),
    (&["wasm64"], Arch::Wasm64),
    (&["xcore"], Arch::XCore),
    (&["xtensa"], Arch::Xtensa),
];

const VENDORS: &[(&[&str], Vendor)] = &[
    (&["amd"], Vendor::Amd),
    (&["apple"], Vendor::Apple),
    (&["csr"], Vendor::Csr),
    (&["fsl"], Vendor::Freescale),
    (&["ibm"], Vendor::Ibm),
    (&["img"], Vendor::ImaginationTechnologies),
    (&["intel"], Vendor::Intel),
    (&["mesa"], Vendor::Mesa),
    (&["meta"], Vendor::Meta),
    (&["mti"], Vendor::MipsTechnologies),
    (&["nvidia"], Vendor::Nvidia),
    (&["oe"], Vendor::OpenEmbedded),
    (&["pc"], Vendor::Pc),
    (&["scei", "sie"], Vendor::Scei),
    (&["suse"], Vendor::Suse),
];

const OSES: &[(&str, Os)] = &[
    ("aix", Os::Aix),
    ("amdhsa", Os::AmdHsa),
    ("amdpal", Os::AmdPal),
    ("bridgeos", Os::BridgeOs),
    ("cheriotrtos", Os::CheriotRtos),
    ("cuda", Os::Cuda),
    ("darwin", Os::Darwin),
    ("dragonfly", Os::DragonFly),
    ("driverkit", Os::DriverKit),
    ("elfiamcu", Os::ElfIamcu),
    ("emscripten", Os::Emscripten),
    ("freebsd", Os::FreeBsd),
    ("fuchsia", Os::Fuchsia),
    ("haiku", Os::Haiku),
    ("hermit", Os::HermitCore),
    ("hurd", Os::Hurd),
    ("ios", Os::Ios),
    ("kfreebsd", Os::KFreeBsd),
    ("linux", Os::Linux),
    ("liteos", Os::LiteOs),
    ("lv2", Os::Lv2),
    ("macos", Os::MacOsX),
    ("managarm", Os::Managarm),
    ("mesa3d", Os::Mesa3D),
    ("netbsd", Os::NetBsd),
    ("nvcl", Os::NvCl),
    ("openbsd", Os::OpenBsd),
    ("ps4", Os::Ps4),
    ("ps5", Os::Ps5),
    ("rtems", Os::Rtems),
    ("serenity", Os::Serenity),
    ("shadermodel", Os::ShaderModel),
    ("solaris", Os::Solaris),
    ("tvos", Os::TvOs),
    ("uefi", Os::Uefi),
    ("visionos", Os::XrOs),
    ("vulkan", Os::Vulkan),
    ("wasip1", Os::WasiP1),
    ("wasip2", Os::WasiP2),
    ("wasip3", Os::WasiP3),
    ("wasi", Os::Wasi),
    ("watchos", Os::WatchOs),
    ("win32", Os::Win32),
    ("windows", Os::Win32),
    ("xros", Os::XrOs),
    ("zos", Os::Zos),
];

const ENVIRONMENTS: &[(&str, Environment)] = &[
    ("amplification", Environment::Amplification),
    ("android", Environment::Android),
    ("anyhit", Environment::AnyHit),
    ("callable", Environment::Callable),
    ("closesthit", Environment::ClosestHit),
    ("code16", Environment::Code16),
    ("compute", Environment::Compute),
    ("coreclr", Environment::CoreClr),
    ("cygnus", Environment::Cygnus),
    ("domain", Environment::Domain),
    ("eabihf", Environment::EabiHf),
    ("eabi", Environment::Eabi),
    ("geometry", Environment::Geometry),
    ("gnu_ilp32", Environment::GnuIlp32),
    ("gnuabi64", Environment::GnuAbi64),
    ("gnuabin32", Environment::GnuAbiN32),
    ("gnueabihft64", Environment::GnuEabiHfT64),
    ("gnueabihf", Environment::GnuEabiHf),
    ("gnueabit64", Environment::GnuEabiT64),
    ("gnueabi", Environment::GnuEabi),
    ("gnuf32", Environment::GnuF32),
    ("gnuf64", Environment::GnuF64),
    ("gnusf", Environment::GnuSf),
    ("gnut64", Environment::GnuT64),
    ("gnux32", Environment::GnuX32),
    ("gnu", Environment::Gnu),
    ("hull", Environment::Hull),
    ("intersection", Environment::Intersection),
    ("itanium", Environment::Itanium),
    ("library", Environment::Library),
    ("llvm", Environment::Llvm),
    ("macabi", Environment::MacAbi),
    ("mesh", Environment::Mesh),
    ("miss", Environment::Miss),
    ("mlibc", Environment::Mlibc),
    ("msvc", Environment::Msvc),
    ("mtia", Environment::Mtia),
    ("muslabi64", Environment::MuslAbi64),
    ("muslabin32", Environment::MuslAbiN32),
    ("musleabihf", Environment::MuslEabiHf),
    ("musleabi", Environment::MuslEabi),
    ("muslf32", Environment::MuslF32),
    ("muslsf", Environment::MuslSf),
    ("muslwali", Environment::MuslWali),
    ("muslx32", Environment::MuslX32),
    ("musl", Environment::Musl),
    ("ohos", Environment::OpenHos),
    ("opencl", Environment::OpenCl),
    ("pauthtest", Environment::PAuthTest),
    ("pixel", Environment::Pixel),
    ("raygeneration", Environment::RayGeneration),
    ("rootsignature", Environment::RootSignature),
    ("simulator", Environment::Simulator),
    ("vertex", Environment::Vertex),
];

const FORMATS: &[(&str, ObjectFormat)] = &[
    ("xcoff", ObjectFormat::XCoff),
    ("coff", ObjectFormat::Coff),
    ("elf", ObjectFormat::Elf),
    ("goff", ObjectFormat::Goff),
    ("macho", ObjectFormat::MachO),
    ("spirv", ObjectFormat::SpirV),
    ("wasm", ObjectFormat::Wasm),
];

/// Suffixes of words that begin with `spirv`.
const SPIRV_VERSIONS: &[(&str, SubArch)] = &[
    ("v1.0", SubArch::SpirV1_0),
    ("v1.1", SubArch::SpirV1_1),
    ("v1.2", SubArch::SpirV1_2),
    ("v1.3", SubArch::SpirV1_3),
    ("v1.4", SubArch::SpirV1_4),
    ("v1.5", SubArch::SpirV1_5),
    ("v1.6", SubArch::SpirV1_6),
];

/// Suffixes of words that begin with `dxil`.
const DXIL_VERSIONS: &[(&str, SubArch)] = &[
    ("v1.0", SubArch::DxilV1_0),
    ("v1.1", SubArch::DxilV1_1),
    ("v1.2", SubArch::DxilV1_2),
    ("v1.3", SubArch::DxilV1_3),
    ("v1.4", SubArch::DxilV1_4),
    ("v1.5", SubArch::DxilV1_5),
    ("v1.6", SubArch::DxilV1_6),
    ("v1.7", SubArch::DxilV1_7),
    ("v1.8", SubArch::DxilV1_8),
    ("v1.9", SubArch::DxilV1_9),
];

/// Suffixes of words that cannot be an ARM architecture.
const KALIMBA_VERSIONS: &[(&str, SubArch)] =
    &[("kalimba3", SubArch::KalimbaV3), ("kalimba4", SubArch::KalimbaV4), ("kalimba5", SubArch::KalimbaV5)];

fn exact<T: Copy>(table: &[(&[&str], T)], word: &str) -> Option<T> {
    table.iter().find(|(names, _)| names.contains(&word)).map(|(_, value)| *value)
}

fn by_start<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| word.starts_with(name)).map(|(_, value)| *value)
}

fn by_end<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| word.ends_with(name)).map(|(_, value)| *value)
}

/// The architecture named by `word`.
pub(super) fn arch(word: &str) -> Arch {
    exact(ARCHES, word).unwrap_or_else(|| if word.starts_with("kalimba") { Arch::Kalimba } else { arm::arch(word) })
}

/// The version of the architecture named by `word`, independent of the result of [`arch`].
pub(super) fn sub_arch(word: &str) -> SubArch {
    if word.starts_with("mips") && (word.ends_with("r6") || word.ends_with("r6el")) {
        return SubArch::MipsR6;
    }
    match word {
        "powerpcspe" => return SubArch::PpcSpe,
        "arm64e" => return SubArch::Arm64e,
        "arm64ec" => return SubArch::Arm64ec,
        "aarch64_lfi" => return SubArch::Aarch64Lfi,
        _ => {}
    }
    if word.starts_with("spirv") {
        return by_end(SPIRV_VERSIONS, word).unwrap_or(SubArch::None);
    }
    if word.starts_with("dxil") {
        return by_end(DXIL_VERSIONS, word).unwrap_or(SubArch::None);
    }
    match arm::version_part(word) {
        Some(version) => arm::sub_arch(version),
        None => by_end(KALIMBA_VERSIONS, word).unwrap_or(SubArch::None),
    }
}

/// The vendor named by `word`.
pub(super) fn vendor(word: &str) -> Vendor {
    exact(VENDORS, word).unwrap_or(Vendor::Unknown)
}

/// The operating system with whose name `word` begins.
pub(super) fn os(word: &str) -> Os {
    by_start(OSES, word).unwrap_or(Os::Unknown)
}

/// The environment with whose name `word` begins.
pub(super) fn environment(word: &str) -> Environment {
    by_start(ENVIRONMENTS, word).unwrap_or(Environment::Unknown)
}

/// The object format with whose name `word` ends.
pub(super) fn object_format(word: &str) -> ObjectFormat {
    by_end(FORMATS, word).unwrap_or(ObjectFormat::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values, from LLVM 22.1.8.
    const ARCH_WORDS: &[(&str, Arch, SubArch)] = &[
        ("arm", Arch::Arm, SubArch::None),
        ("armeb", Arch::ArmEb, SubArch::None),
        ("armx", Arch::Arm, SubArch::None),
        ("armxx", Arch::Unknown, SubArch::None),
        ("armm", Arch::Thumb, SubArch::ArmV6m),
        ("armv2", Arch::Arm, SubArch::None),
        ("armv99", Arch::Arm, SubArch::None),
        ("armv6m", Arch::Thumb, SubArch::ArmV6m),
        ("armebv6m", Arch::ThumbEb, SubArch::ArmV6m),
        ("armv7", Arch::Arm, SubArch::ArmV7),
        ("armv7a", Arch::Arm, SubArch::ArmV7),
        ("armv7eb", Arch::ArmEb, SubArch::ArmV7),
        ("armebv7", Arch::ArmEb, SubArch::ArmV7),
        ("armebv7eb", Arch::Unknown, SubArch::None),
        ("armv7ve", Arch::Arm, SubArch::ArmV7ve),
        ("armv7s", Arch::Arm, SubArch::ArmV7s),
        ("armv7k", Arch::Arm, SubArch::ArmV7k),
        ("armv7r", Arch::Arm, SubArch::ArmV7),
        ("armv7em", Arch::Arm, SubArch::ArmV7em),
        ("armv7e", Arch::Arm, SubArch::None),
        ("armv8.1m.main", Arch::Arm, SubArch::ArmV8_1mMainline),
        ("armv8m.base", Arch::Arm, SubArch::ArmV8mBaseline),
        ("armv8r", Arch::Arm, SubArch::ArmV8r),
        ("armv8.9a", Arch::Arm, SubArch::ArmV8_9a),
        ("armv9.7a", Arch::Arm, SubArch::ArmV9_7a),
        ("armv9.8a", Arch::Arm, SubArch::None),
        ("arm64", Arch::Aarch64, SubArch::ArmV8),
        ("arm64e", Arch::Aarch64, SubArch::Arm64e),
        ("arm64ec", Arch::Aarch64, SubArch::Arm64ec),
        ("arm64e2", Arch::Aarch64, SubArch::ArmV6t2),
        ("arm64_32", Arch::Aarch64_32, SubArch::None),
        ("arm64_32v8", Arch::Aarch64, SubArch::ArmV8),
        ("arm64eb", Arch::Aarch64Be, SubArch::None),
        ("arm64v8eb", Arch::Aarch64Be, SubArch::ArmV8),
        ("arm64v6m", Arch::Thumb, SubArch::ArmV6m),
        ("arm64_lfi", Arch::Unknown, SubArch::None),
        ("aarch64", Arch::Aarch64, SubArch::ArmV8),
        ("aarch64_be", Arch::Aarch64Be, SubArch::None),
        ("aarch64_32", Arch::Aarch64_32, SubArch::None),
        ("aarch64_lfi", Arch::Aarch64, SubArch::Aarch64Lfi),
        ("aarch64_lfix", Arch::Unknown, SubArch::None),
        ("aarch64eb", Arch::Unknown, SubArch::None),
        ("aarch64v8.2a", Arch::Aarch64, SubArch::ArmV8_2a),
        ("aarch64_bev8", Arch::Aarch64Be, SubArch::ArmV8),
        ("aarch64v8_be", Arch::Aarch64, SubArch::None),
        ("aarch64_32eb", Arch::Aarch64, SubArch::None),
        ("thumb", Arch::Thumb, SubArch::None),
        ("thumbeb", Arch::ThumbEb, SubArch::None),
        ("thumbv2", Arch::Unknown, SubArch::None),
        ("thumbv3m", Arch::Unknown, SubArch::None),
        ("thumbv4t", Arch::Thumb, SubArch::ArmV4t),
        ("thumbv7", Arch::Thumb, SubArch::ArmV7),
        ("thumbv7eb", Arch::ThumbEb, SubArch::ArmV7),
        ("thumbebv6m", Arch::ThumbEb, SubArch::ArmV6m),
        ("thumbkalimba5", Arch::Unknown, SubArch::KalimbaV5),
        ("armkalimba3", Arch::Unknown, SubArch::KalimbaV3),
        ("xscale", Arch::Arm, SubArch::ArmV5te),
        ("xscaleeb", Arch::ArmEb, SubArch::ArmV5te),
        ("iwmmxt", Arch::Unknown, SubArch::ArmV5te),
        ("v7", Arch::Unknown, SubArch::ArmV7),
        ("v7eb", Arch::Unknown, SubArch::ArmV7),
        ("v7ebeb", Arch::Unknown, SubArch::ArmV7),
        ("v7ebebeb", Arch::Unknown, SubArch::None),
        ("te", Arch::Unknown, SubArch::ArmV5te),
        ("in", Arch::Unknown, SubArch::ArmV8mMainline),
        ("eb", Arch::Unknown, SubArch::None),
        ("rmv6k", Arch::Unknown, SubArch::ArmV6k),
        ("mv7ve", Arch::Unknown, SubArch::ArmV7ve),
        ("amv6k", Arch::Unknown, SubArch::None),
        ("kalimba3", Arch::Kalimba, SubArch::None),
        ("kalimbax", Arch::Kalimba, SubArch::None),
        ("mips", Arch::Mips, SubArch::None),
        ("mipsr6", Arch::Mips, SubArch::MipsR6),
        ("mips32r6", Arch::Unknown, SubArch::MipsR6),
        ("mipsfoor6el", Arch::Unknown, SubArch::MipsR6),
        ("mips64r6eb", Arch::Unknown, SubArch::None),
        ("powerpcspe", Arch::Ppc, SubArch::PpcSpe),
        ("ppu", Arch::Ppc64, SubArch::None),
        ("spirv1.4", Arch::Unknown, SubArch::SpirV1_4),
        ("spirv1.5", Arch::SpirV, SubArch::SpirV1_5),
        ("spirv32v1.0", Arch::SpirV32, SubArch::SpirV1_0),
        ("spirv64v1.7", Arch::Unknown, SubArch::None),
        ("dxilv1.9", Arch::Dxil, SubArch::DxilV1_9),
        ("dxilv1.10", Arch::Unknown, SubArch::None),
        ("bpfeb", Arch::BpfEb, SubArch::None),
        ("bpf_le", Arch::BpfEl, SubArch::None),
        ("bpfx", Arch::Unknown, SubArch::None),
        ("i386", Arch::X86, SubArch::None),
        ("i186", Arch::Unknown, SubArch::None),
        ("x86_64h", Arch::X86_64, SubArch::None),
        ("x86", Arch::Unknown, SubArch::None),
        ("X86_64", Arch::Unknown, SubArch::None),
        ("sparc64", Arch::SparcV9, SubArch::None),
        ("systemz", Arch::SystemZ, SubArch::None),
        ("ve", Arch::Ve, SubArch::ArmV7ve),
        ("nacl", Arch::Unknown, SubArch::None),
        ("riscv32be", Arch::RiscV32Be, SubArch::None),
        ("", Arch::Unknown, SubArch::None),
    ];

    #[test]
    fn architectures() {
        for (word, expected, version) in ARCH_WORDS {
            assert_eq!((arch(word), sub_arch(word)), (*expected, *version), "{word:?}");
        }
    }

    fn check<T: PartialEq + std::fmt::Debug>(parse: fn(&str) -> T, cases: &[(&str, T)]) {
        for (word, expected) in cases {
            assert_eq!(parse(word), *expected, "{word:?}");
        }
    }

    #[test]
    fn vendors() {
        let cases = [
            ("amd", Vendor::Amd),
            ("pc", Vendor::Pc),
            ("sie", Vendor::Scei),
            ("scei", Vendor::Scei),
            ("meta", Vendor::Meta),
            ("applex", Vendor::Unknown),
            ("AMD", Vendor::Unknown),
            ("w64", Vendor::Unknown),
            ("", Vendor::Unknown),
        ];
        check(vendor, &cases);
    }

    #[test]
    fn systems() {
        let cases = [
            ("linux", Os::Linux),
            ("linuxfoo", Os::Linux),
            ("macosx11", Os::MacOsX),
            ("macos", Os::MacOsX),
            ("visionos2", Os::XrOs),
            ("wasi", Os::Wasi),
            ("wasip", Os::Wasi),
            ("wasip1", Os::WasiP1),
            ("wasip3x", Os::WasiP3),
            ("wasip4", Os::Wasi),
            ("win32", Os::Win32),
            ("windows", Os::Win32),
            ("mingw32", Os::Unknown),
            ("nacl", Os::Unknown),
            ("hermitcore", Os::HermitCore),
            ("amdhsa1.0", Os::AmdHsa),
            ("none", Os::Unknown),
            ("xlinux", Os::Unknown),
            ("", Os::Unknown),
        ];
        check(os, &cases);
    }

    #[test]
    fn environments() {
        let cases = [
            ("gnu", Environment::Gnu),
            ("gnu64", Environment::Gnu),
            ("gnuabi", Environment::Gnu),
            ("gnuabi64", Environment::GnuAbi64),
            ("gnuabin32", Environment::GnuAbiN32),
            ("gnueabi", Environment::GnuEabi),
            ("gnueabit64", Environment::GnuEabiT64),
            ("gnueabihf", Environment::GnuEabiHf),
            ("gnueabihft64", Environment::GnuEabiHfT64),
            ("gnueabihft6", Environment::GnuEabiHf),
            ("gnuilp32", Environment::Gnu),
            ("gnu_ilp32", Environment::GnuIlp32),
            ("eabi", Environment::Eabi),
            ("eabihf5", Environment::EabiHf),
            ("musl", Environment::Musl),
            ("musleabi", Environment::MuslEabi),
            ("musleabihf", Environment::MuslEabiHf),
            ("muslwali", Environment::MuslWali),
            ("androideabi21", Environment::Android),
            ("elf", Environment::Unknown),
            ("mtia", Environment::Mtia),
            ("none", Environment::Unknown),
            ("", Environment::Unknown),
        ];
        check(environment, &cases);
    }

    #[test]
    fn formats() {
        let cases = [
            ("elf", ObjectFormat::Elf),
            ("xcoff", ObjectFormat::XCoff),
            ("coff", ObjectFormat::Coff),
            ("goff", ObjectFormat::Goff),
            ("gnumacho", ObjectFormat::MachO),
            ("gnu-spirv", ObjectFormat::SpirV),
            ("wasm", ObjectFormat::Wasm),
            ("elfx", ObjectFormat::Unknown),
            ("dxcontainer", ObjectFormat::Unknown),
        ];
        check(object_format, &cases);
    }

    fn assert_reachable<T>(table: &[(&str, T)], hides: fn(&str, &str) -> bool) {
        for (row, (name, _)) in table.iter().enumerate() {
            for (earlier, _) in &table[..row] {
                assert!(!hides(earlier, name), "{earlier} hides {name}");
            }
        }
    }

    #[test]
    fn no_row_hides_a_later_one() {
        let starts = |earlier: &str, name: &str| name.starts_with(earlier);
        let ends = |earlier: &str, name: &str| name.ends_with(earlier);
        let arches = ARCHES.iter().flat_map(|(names, _)| *names);
        let mut seen = std::collections::HashSet::new();
        for name in arches.chain(VENDORS.iter().flat_map(|(names, _)| *names)) {
            assert!(seen.insert(name), "{name}");
        }
        assert_reachable(OSES, starts);
        assert_reachable(ENVIRONMENTS, starts);
        assert_reachable(FORMATS, ends);
        assert_reachable(SPIRV_VERSIONS, ends);
        assert_reachable(DXIL_VERSIONS, ends);
        assert_reachable(KALIMBA_VERSIONS, ends);
    }

    #[test]
    fn formats_parse_back() {
        for (name, format) in FORMATS {
            assert_eq!(format.name(), *name);
        }
    }
}
