//! Target triples, which name the machine that runs the code: `architecture-vendor-system[-environment]`.

use super::amdgpu;
use super::triple_tables as tables;

pub use super::normalize::{Form, normalize};

/// A target triple: its text as given, and the meaning of each field to LLVM 22.1.8. If several names have one meaning,
/// LLVM's main name represents it: `x86_64` for `amd64`, `win32` for `windows`.
///
/// For AMD GPUs, the rules are LLVM 23.1.4's, which calls their architecture `amdgpu`. Version numbers may follow it
/// (`amdgpu9.42`); `amdgcn` is its older name.
///
/// The text is neither reordered nor respelled; use [`normalize`] for that. Two triples are equal if their texts are
/// equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Triple {
    text: String,
    arch: &'static str,
    sub_arch: &'static str,
    /// The sub-architecture, if the architecture is that of AMD GPUs.
    pub(crate) amdgpu: Option<amdgpu::SubArch>,
    vendor: &'static str,
    os: &'static str,
    environment: &'static str,
    object_format: &'static str,
}

impl Triple {
    /// Parses a triple. Any text is valid.
    pub fn parse(text: &str) -> Self {
        let mut fields = text.splitn(4, '-');
        let arch_name = fields.next().unwrap_or("");
        let vendor_name = fields.next();
        let os_name = fields.next();
        let environment_name = fields.next();

        let arch = tables::arch(arch_name);
        let os = os_name.map_or("", tables::os);
        // As in LLVM, only a text of nothing but an architecture takes its environment from the architecture, and only
        // for MIPS, where the name of the architecture implies an ABI.
        let environment = match vendor_name {
            Some(_) => environment_name.map_or("", tables::environment),
            None => mips_environment(arch_name),
        };
        let object_format = match environment_name.map_or("", tables::object_format) {
            "" => default_format(arch, os),
            named => named,
        };
        Triple {
            text: text.to_owned(),
            arch,
            sub_arch: tables::sub_arch(arch_name),
            amdgpu: amdgpu::SubArch::parse(arch_name),
            vendor: vendor_name.map_or("", tables::vendor),
            os,
            environment,
            object_format,
        }
    }

    /// Parses a triple that an offload binary records, and adds fields until it has four. With fewer than three fields,
    /// only normalising shows which of them are missing; with three, the environment is missing.
    pub(crate) fn of_image(recorded: &str) -> Self {
        match recorded.split('-').count() {
            ..3 => Self::parse(&(normalize(recorded, Form::Three) + "-")),
            3 => Self::parse(&[recorded, "-"].concat()),
            _ => Self::parse(recorded),
        }
    }

    /// The text of the triple.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The architecture by LLVM's main name, such as `x86_64` also for `amd64` and `amdgpu` also for `amdgcn`; empty if
    /// LLVM does not know the architecture.
    pub fn arch(&self) -> &'static str {
        self.arch
    }

    /// The vendor by LLVM's main name (`scei` also for `sie`); empty if LLVM does not know the vendor.
    pub fn vendor(&self) -> &'static str {
        self.vendor
    }

    /// The operating system by LLVM's main name, without a version (`win32` also for `windows`); empty if LLVM does not
    /// know the system.
    pub fn os(&self) -> &'static str {
        self.os
    }

    /// The architecture as spelled.
    pub(crate) fn arch_name(&self) -> &str {
        self.text.split('-').next().unwrap_or("")
    }

    /// Returns the AMD GPU that the architecture names, or `None` if it names no GPU: `gfx942` for `amdgpu9.42`, and
    /// `gfx9-4-generic` for its family, `amdgpu9.4`.
    pub fn amd_processor(&self) -> Option<String> {
        self.amdgpu?.processor()
    }

    /// Whether LLVM knows the architecture.
    pub(crate) fn is_known(&self) -> bool {
        !self.arch.is_empty()
    }

    /// Whether the text has at least four fields.
    pub(super) fn has_four_fields(&self) -> bool {
        self.text.splitn(4, '-').nth(3).is_some()
    }

    /// Whether LLVM 22.1.8 considers code for `other` usable for this triple; for AMD GPUs, whether LLVM 23.1.4 does.
    ///
    /// Not symmetric: vendor and system of `self` determine which fields are compared. A triple is compatible with
    /// itself, unless it names a version of AMD GPUs that LLVM does not know.
    pub fn is_compatible_with(&self, other: &Triple) -> bool {
        // ARM programs may call Thumb code, and the other way round.
        let is_arm_with_thumb = matches!(
            (self.arch, other.arch),
            ("arm", "thumb") | ("thumb", "arm") | ("armeb", "thumbeb") | ("thumbeb", "armeb")
        );
        // Two triples for AMD GPUs are compared by LLVM 23's rules for families.
        let is_same_machine = match (self.amdgpu, other.amdgpu) {
            (Some(own), Some(wanted)) => own.is_compatible_with(wanted),
            _ => (is_arm_with_thumb || self.arch == other.arch) && self.sub_arch == other.sub_arch,
        };

        // LLVM ignores the vendor for MinGW, where compilers name various vendors for the same machine. The exception,
        // ARM with Thumb of Apple, is LLVM's too.
        let is_apple = self.vendor == "apple";
        let is_mingw = self.os == "win32" && self.environment == "gnu";
        let ignores_vendor = is_mingw && !(is_apple && is_arm_with_thumb);
        // For Apple, LLVM compares neither environment nor object format.
        let has_same_environment =
            is_apple || (self.environment == other.environment && self.object_format == other.object_format);

        is_same_machine
            && (ignores_vendor || self.vendor == other.vendor)
            && self.os == other.os
            && has_same_environment
    }
}

/// Returns the environment of a triple that consists only of an architecture, as LLVM does: MIPS architectures imply
/// their ABI, and others no environment.
fn mips_environment(arch_name: &str) -> &'static str {
    if arch_name.starts_with("mipsn32") {
        "gnuabin32"
    } else if arch_name.starts_with("mips64") || arch_name.starts_with("mipsisa64") {
        "gnuabi64"
    } else if arch_name.starts_with("mipsisa32") || matches!(arch_name, "mips" | "mipsel" | "mipsr6" | "mipsr6el") {
        "gnu"
    } else {
        ""
    }
}

/// Returns the object format that LLVM assumes for a triple without one. The architecture `""` is an unknown one.
fn default_format(arch: &str, os: &str) -> &'static str {
    let is_of_apple = matches!(os, "darwin" | "macos" | "ios" | "tvos" | "watchos" | "xros" | "driverkit" | "bridgeos");
    let is_arch_of_apple_or_windows =
        matches!(arch, "" | "aarch64" | "aarch64_32" | "arm" | "thumb" | "i386" | "x86_64");
    match (arch, os) {
        ("wasm32" | "wasm64", _) => "wasm",
        ("spirv" | "spirv32" | "spirv64", _) => "spirv",
        ("dxil", _) => "dxcontainer",
        ("s390x", "zos") => "goff",
        ("powerpc" | "powerpc64", "aix") => "xcoff",
        ("mipsel", "win32") => "coff",
        (_, "win32" | "uefi") if is_arch_of_apple_or_windows => "coff",
        // Old Macs have PowerPC processors.
        ("powerpc" | "powerpc64", _) if is_of_apple => "macho",
        _ if is_of_apple && is_arch_of_apple_or_windows => "macho",
        _ => "elf",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text; architecture, its version, vendor, system, environment, format, each `-` if LLVM does not know it. From
    /// LLVM 22.1.8.
    const PARSED: &[(&str, &str)] = &[
        ("x86_64-unknown-linux-gnu", "x86_64 - - linux gnu elf"),
        ("amdgcn-amd-amdhsa--gfx90a", "amdgpu - amd amdhsa - elf"),
        ("amdgcn-amd-amdhsa", "amdgpu - amd amdhsa - elf"),
        ("amdgpu9.42-amd-amdhsa", "amdgpu - amd amdhsa - elf"),
        ("nvptx64-nvidia-cuda", "nvptx64 - nvidia cuda - elf"),
        ("", "- - - - - elf"),
        ("x86_64", "x86_64 - - - - elf"),
        ("x86_64-", "x86_64 - - - - elf"),
        ("x86_64--", "x86_64 - - - - elf"),
        ("x86_64-pc-windows", "x86_64 - pc win32 - coff"),
        ("x86_64-pc-windows-msvc-elf", "x86_64 - pc win32 msvc elf"),
        ("aarch64-unknown-uefi", "aarch64 v8-a - uefi - coff"),
        ("aarch64-apple-ios", "aarch64 v8-a apple ios - macho"),
        ("arm64e-apple-bridgeos", "aarch64 arm64e apple bridgeos - macho"),
        ("ppc-apple-darwin9", "powerpc - apple darwin - macho"),
        ("ppc64-ibm-aix", "powerpc64 - ibm aix - xcoff"),
        ("s390x-ibm-zos", "s390x - ibm zos - goff"),
        ("s390x-ibm-linux", "s390x - ibm linux - elf"),
        ("mipsel-pc-windows", "mipsel - pc win32 - coff"),
        ("mips-pc-windows", "mips - pc win32 - elf"),
        ("wasm32-unknown-wasip2", "wasm32 - - wasip2 - wasm"),
        ("spirv64-amd-amdhsa", "spirv64 - amd amdhsa - spirv"),
        ("dxil-pc-shadermodel6.3-hull", "dxil - pc shadermodel hull dxcontainer"),
        ("foo-bar-windows-gnu", "- - - win32 gnu coff"),
        ("mips", "mips - - - gnu elf"),
        ("mips-x", "mips - - - - elf"),
        ("mipsr6", "mips r6 - - gnu elf"),
        ("mipsn32el", "mips64el - - - gnuabin32 elf"),
        ("mips64", "mips64 - - - gnuabi64 elf"),
        ("mips64r6el", "mips64el r6 - - gnuabi64 elf"),
        ("mipsisa64x", "- - - - gnuabi64 elf"),
        ("mipsisa32r6", "mips r6 - - gnu elf"),
        ("mipsallegrex", "mips - - - - elf"),
        ("armeb-pc-windows", "armeb - pc win32 - elf"),
        ("armv7-unknown-linux-gnueabihf", "arm v7-a - linux gnueabihf elf"),
        ("x86_64-linux-gnu", "x86_64 - - - - elf"),
        ("a-b-c-gnu-elf-macho", "- v7-a - - gnu macho"),
        ("a-b-c-elf-gnu", "- v7-a - - - elf"),
        ("a-b-c-xcoff", "- v7-a - - - xcoff"),
    ];

    /// Two triples, and whether code for the second is usable for the first. From LLVM 22.1.8 and, for AMD GPUs, from
    /// LLVM 23.1.4.
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
        ("amdgpu-amd-amdhsa", "amdgcn-amd-amdhsa", true),
        ("amdgpu9.42-amd-amdhsa", "amdgpu9.4-amd-amdhsa", true),
        ("amdgpu9.42-amd-amdhsa", "amdgcn-mesa-amdhsa", false),
        ("amdgpu9.99-amd-amdhsa", "amdgpu9.99-amd-amdhsa", false),
        ("amdgpu-amd-amdhsa", "r600-amd-amdhsa", false),
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
        for (text, expected) in PARSED {
            let triple = Triple::parse(text);
            let Triple { arch, sub_arch, vendor, os, environment, object_format, .. } = triple;
            let words = [arch, sub_arch, vendor, os, environment, object_format];
            assert_eq!(words.map(|word| if word.is_empty() { "-" } else { word }).join(" "), *expected, "{text:?}");
            assert_eq!((triple.as_str(), triple.arch_name()), (*text, text.split('-').next().unwrap()));
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
