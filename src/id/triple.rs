//! Target triples: the machine for which code is compiled, `architecture-vendor-system[-environment]`.

use super::triple_tables as tables;

pub use super::normalize::{Form, normalize};
pub use super::triple_kinds::{Arch, Environment, ObjectFormat, Os, SubArch, Vendor};

/// A target triple: its text as given, and its meaning to LLVM 22.1.8.
///
/// The text is neither reordered nor respelled; use [`normalize`] for that. Two triples are equal if their texts are
/// equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Triple {
    text: String,
    arch: Arch,
    sub_arch: SubArch,
    vendor: Vendor,
    os: Os,
    environment: Environment,
    object_format: ObjectFormat,
}

impl Triple {
    /// Parses a triple. Any text is valid; unknown parts are `Unknown`.
    pub fn parse(text: &str) -> Self {
        let mut fields = text.splitn(4, '-');
        let arch_name = fields.next().unwrap_or("");
        let vendor_name = fields.next();
        let os_name = fields.next();
        let environment_name = fields.next();

        let arch = tables::arch(arch_name);
        let os = os_name.map_or(Os::Unknown, tables::os);
        let environment = match vendor_name {
            Some(_) => environment_name.map_or(Environment::Unknown, tables::environment),
            None => mips_environment(arch_name),
        };
        let object_format = match environment_name.map_or(ObjectFormat::Unknown, tables::object_format) {
            ObjectFormat::Unknown => default_format(arch, os),
            named => named,
        };
        Triple {
            text: text.to_owned(),
            arch,
            sub_arch: tables::sub_arch(arch_name),
            vendor: vendor_name.map_or(Vendor::Unknown, tables::vendor),
            os,
            environment,
            object_format,
        }
    }

    /// The text of the triple.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The version or flavour of the architecture.
    pub fn sub_arch(&self) -> SubArch {
        self.sub_arch
    }

    /// The vendor.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// The operating system.
    pub fn os(&self) -> Os {
        self.os
    }

    /// The environment.
    pub fn environment(&self) -> Environment {
        self.environment
    }

    /// The object format: the one named in the text, otherwise the default for architecture and operating system.
    pub fn object_format(&self) -> ObjectFormat {
        self.object_format
    }

    /// The first field of the text.
    pub fn arch_name(&self) -> &str {
        self.field(0)
    }

    /// The second field of the text; empty if missing.
    pub fn vendor_name(&self) -> &str {
        self.field(1)
    }

    /// The third field of the text; empty if missing.
    pub fn os_name(&self) -> &str {
        self.field(2)
    }

    /// The text after the third dash; empty if missing.
    pub fn environment_name(&self) -> &str {
        self.field(3)
    }

    /// Whether the text has at least four fields.
    pub(super) fn has_four_fields(&self) -> bool {
        self.text.splitn(4, '-').nth(3).is_some()
    }

    fn field(&self, index: usize) -> &str {
        self.text.splitn(4, '-').nth(index).unwrap_or("")
    }

    /// Whether LLVM 22.1.8 considers code for `other` usable for this triple.
    ///
    /// Not symmetric: vendor and system of `self` determine which fields are compared.
    pub fn is_compatible_with(&self, other: &Triple) -> bool {
        let interworking = matches!(
            (self.arch, other.arch),
            (Arch::Arm, Arch::Thumb)
                | (Arch::Thumb, Arch::Arm)
                | (Arch::ArmEb, Arch::ThumbEb)
                | (Arch::ThumbEb, Arch::ArmEb)
        );
        let apple = self.vendor == Vendor::Apple;
        // MinGW triples name various vendors for the same machine.
        let mingw = self.os == Os::Win32 && self.environment == Environment::Gnu;
        let any_vendor = mingw && !(apple && interworking);

        (interworking || self.arch == other.arch)
            && self.sub_arch == other.sub_arch
            && (any_vendor || self.vendor == other.vendor)
            && self.os == other.os
            && (apple || (self.environment == other.environment && self.object_format == other.object_format))
    }
}

/// The environment of a triple that consists only of an architecture: MIPS architectures imply their ABI.
fn mips_environment(arch_name: &str) -> Environment {
    let begins = |names: &[&str]| names.iter().any(|name| arch_name.starts_with(name));
    if begins(&["mipsn32"]) {
        Environment::GnuAbiN32
    } else if begins(&["mips64", "mipsisa64"]) {
        Environment::GnuAbi64
    } else if begins(&["mipsisa32"]) || matches!(arch_name, "mips" | "mipsel" | "mipsr6" | "mipsr6el") {
        Environment::Gnu
    } else {
        Environment::Unknown
    }
}

/// The object format of a triple that does not name one.
fn default_format(arch: Arch, os: Os) -> ObjectFormat {
    let apple_system = matches!(
        os,
        Os::Darwin | Os::MacOsX | Os::Ios | Os::TvOs | Os::WatchOs | Os::XrOs | Os::DriverKit | Os::BridgeOs
    );
    match (arch, os) {
        (Arch::Wasm32 | Arch::Wasm64, _) => ObjectFormat::Wasm,
        (Arch::SpirV | Arch::SpirV32 | Arch::SpirV64, _) => ObjectFormat::SpirV,
        (Arch::Dxil, _) => ObjectFormat::DxContainer,
        (Arch::SystemZ, Os::Zos) => ObjectFormat::Goff,
        (Arch::Ppc | Arch::Ppc64, Os::Aix) => ObjectFormat::XCoff,
        (Arch::MipsEl, Os::Win32) => ObjectFormat::Coff,
        (Arch::Unknown | Arch::Aarch64 | Arch::Aarch64_32 | Arch::Arm | Arch::Thumb | Arch::X86 | Arch::X86_64, _) => {
            match os {
                Os::Win32 | Os::Uefi => ObjectFormat::Coff,
                _ if apple_system => ObjectFormat::MachO,
                _ => ObjectFormat::Elf,
            }
        }
        (Arch::Ppc | Arch::Ppc64, _) if apple_system => ObjectFormat::MachO,
        _ => ObjectFormat::Elf,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text; architecture, its version, vendor, system, environment, format; the four fields. From LLVM 22.1.8.
    const PARSED: &[(&str, &str, [&str; 4])] = &[
        ("x86_64-unknown-linux-gnu", "X86_64 None Unknown Linux Gnu Elf", ["x86_64", "unknown", "linux", "gnu"]),
        ("amdgcn-amd-amdhsa--gfx90a", "AmdGcn None Amd AmdHsa Unknown Elf", ["amdgcn", "amd", "amdhsa", "-gfx90a"]),
        ("amdgcn-amd-amdhsa", "AmdGcn None Amd AmdHsa Unknown Elf", ["amdgcn", "amd", "amdhsa", ""]),
        ("nvptx64-nvidia-cuda", "Nvptx64 None Nvidia Cuda Unknown Elf", ["nvptx64", "nvidia", "cuda", ""]),
        ("", "Unknown None Unknown Unknown Unknown Elf", ["", "", "", ""]),
        ("x86_64", "X86_64 None Unknown Unknown Unknown Elf", ["x86_64", "", "", ""]),
        ("x86_64-", "X86_64 None Unknown Unknown Unknown Elf", ["x86_64", "", "", ""]),
        ("x86_64--", "X86_64 None Unknown Unknown Unknown Elf", ["x86_64", "", "", ""]),
        ("x86_64-pc-windows", "X86_64 None Pc Win32 Unknown Coff", ["x86_64", "pc", "windows", ""]),
        ("x86_64-pc-windows-msvc-elf", "X86_64 None Pc Win32 Msvc Elf", ["x86_64", "pc", "windows", "msvc-elf"]),
        ("aarch64-unknown-uefi", "Aarch64 ArmV8 Unknown Uefi Unknown Coff", ["aarch64", "unknown", "uefi", ""]),
        ("aarch64-apple-ios", "Aarch64 ArmV8 Apple Ios Unknown MachO", ["aarch64", "apple", "ios", ""]),
        ("arm64e-apple-bridgeos", "Aarch64 Arm64e Apple BridgeOs Unknown MachO", ["arm64e", "apple", "bridgeos", ""]),
        ("ppc-apple-darwin9", "Ppc None Apple Darwin Unknown MachO", ["ppc", "apple", "darwin9", ""]),
        ("ppc64-ibm-aix", "Ppc64 None Ibm Aix Unknown XCoff", ["ppc64", "ibm", "aix", ""]),
        ("s390x-ibm-zos", "SystemZ None Ibm Zos Unknown Goff", ["s390x", "ibm", "zos", ""]),
        ("s390x-ibm-linux", "SystemZ None Ibm Linux Unknown Elf", ["s390x", "ibm", "linux", ""]),
        ("mipsel-pc-windows", "MipsEl None Pc Win32 Unknown Coff", ["mipsel", "pc", "windows", ""]),
        ("mips-pc-windows", "Mips None Pc Win32 Unknown Elf", ["mips", "pc", "windows", ""]),
        ("wasm32-unknown-wasip2", "Wasm32 None Unknown WasiP2 Unknown Wasm", ["wasm32", "unknown", "wasip2", ""]),
        ("spirv64-amd-amdhsa", "SpirV64 None Amd AmdHsa Unknown SpirV", ["spirv64", "amd", "amdhsa", ""]),
        (
            "dxil-pc-shadermodel6.3-hull",
            "Dxil None Pc ShaderModel Hull DxContainer",
            ["dxil", "pc", "shadermodel6.3", "hull"],
        ),
        ("foo-bar-windows-gnu", "Unknown None Unknown Win32 Gnu Coff", ["foo", "bar", "windows", "gnu"]),
        ("mips", "Mips None Unknown Unknown Gnu Elf", ["mips", "", "", ""]),
        ("mips-x", "Mips None Unknown Unknown Unknown Elf", ["mips", "x", "", ""]),
        ("mipsr6", "Mips MipsR6 Unknown Unknown Gnu Elf", ["mipsr6", "", "", ""]),
        ("mipsn32el", "Mips64El None Unknown Unknown GnuAbiN32 Elf", ["mipsn32el", "", "", ""]),
        ("mips64", "Mips64 None Unknown Unknown GnuAbi64 Elf", ["mips64", "", "", ""]),
        ("mips64r6el", "Mips64El MipsR6 Unknown Unknown GnuAbi64 Elf", ["mips64r6el", "", "", ""]),
        ("mipsisa64x", "Unknown None Unknown Unknown GnuAbi64 Elf", ["mipsisa64x", "", "", ""]),
        ("mipsisa32r6", "Mips MipsR6 Unknown Unknown Gnu Elf", ["mipsisa32r6", "", "", ""]),
        ("mipsallegrex", "Mips None Unknown Unknown Unknown Elf", ["mipsallegrex", "", "", ""]),
        ("armeb-pc-windows", "ArmEb None Pc Win32 Unknown Elf", ["armeb", "pc", "windows", ""]),
        (
            "armv7-unknown-linux-gnueabihf",
            "Arm ArmV7 Unknown Linux GnuEabiHf Elf",
            ["armv7", "unknown", "linux", "gnueabihf"],
        ),
        ("x86_64-linux-gnu", "X86_64 None Unknown Unknown Unknown Elf", ["x86_64", "linux", "gnu", ""]),
        ("a-b-c-gnu-elf-macho", "Unknown ArmV7 Unknown Unknown Gnu MachO", ["a", "b", "c", "gnu-elf-macho"]),
        ("a-b-c-elf-gnu", "Unknown ArmV7 Unknown Unknown Unknown Elf", ["a", "b", "c", "elf-gnu"]),
        ("a-b-c-xcoff", "Unknown ArmV7 Unknown Unknown Unknown XCoff", ["a", "b", "c", "xcoff"]),
    ];

    /// Two triples, and whether code for the second is usable for the first. From LLVM 22.1.8.
    const PAIRS: &[(&str, &str, bool)] = &[
        ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu", true),
        ("x86_64-unknown-linux-gnu", "x86_64-pc-linux-gnu", false),
        ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", false),
        ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu-macho", false),
        ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux5-gnu2", true),
        ("amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa--", true),
        ("amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa-unknown", true),
        ("amdgcn-amd-amdhsa", "amdgcn-amd-amdpal", false),
        ("amdgcn-amd-amdhsa", "amdgcn--amdhsa", false),
        ("i386-pc-linux", "i686-pc-linux", true),
        ("x86_64-w64-windows-gnu", "x86_64-pc-windows-gnu", true),
        ("x86_64-w64-windows-gnu", "x86_64-apple-windows-gnu", true),
        ("x86_64-w64-windows-msvc", "x86_64-pc-windows-msvc", false),
        ("x86_64-w64-windows-gnu", "x86_64-pc-windows-msvc", false),
        ("armv7-unknown-linux-gnueabi", "thumbv7-unknown-linux-gnueabi", true),
        ("armv7-unknown-linux-gnueabi", "thumbv6-unknown-linux-gnueabi", false),
        ("armv7-unknown-linux-gnueabi", "thumbv7-unknown-linux-gnueabihf", false),
        ("armebv7-unknown-linux", "thumbebv7-unknown-linux", true),
        ("armebv7-unknown-linux", "thumbv7-unknown-linux", false),
        ("thumbv7-pc-windows-gnu", "armv7-w64-windows-gnu", true),
        ("thumbv7-apple-ios5", "armv7-apple-ios6-simulator", true),
        ("thumbv7-apple-windows-gnu", "armv7-pc-windows-gnu", false),
        ("armv7-apple-windows-gnu", "armv7-pc-windows-gnu", true),
        ("armv7-apple-windows-gnu", "armv7-pc-windows-msvc", true),
        ("armv7-pc-windows-gnu", "armv7-apple-windows-gnu", true),
        ("x86_64-apple-macosx10.15", "x86_64-apple-macos11-elf", true),
        ("x86_64-apple-macosx10.15", "x86_64-apple-darwin", false),
        ("x86_64-apple-macosx", "x86_64-pc-macosx", false),
        ("aarch64-unknown-linux", "arm64-unknown-linux", true),
        ("aarch64-unknown-linux", "arm64e-unknown-linux", false),
        ("foo-bar-baz", "qux-x-y", true),
        ("v7-bar-baz", "v8-bar-baz", false),
        ("", "unknown", true),
    ];

    #[test]
    fn parses_as_llvm() {
        for (text, kinds, fields) in PARSED {
            let triple = Triple::parse(text);
            let found = format!(
                "{:?} {:?} {:?} {:?} {:?} {:?}",
                triple.arch(),
                triple.sub_arch(),
                triple.vendor(),
                triple.os(),
                triple.environment(),
                triple.object_format()
            );
            assert_eq!(found, *kinds, "{text:?}");
            let names = [triple.arch_name(), triple.vendor_name(), triple.os_name(), triple.environment_name()];
            assert_eq!(names, *fields, "{text:?}");
            assert_eq!(triple.as_str(), *text);
        }
    }

    #[test]
    fn compatible_as_in_llvm() {
        for (one, other, expected) in PAIRS {
            let found = Triple::parse(one).is_compatible_with(&Triple::parse(other));
            assert_eq!(found, *expected, "{one} {other}");
        }
    }
}
