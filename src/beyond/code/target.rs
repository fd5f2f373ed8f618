//! Code objects without a bundle: ELF files for GPUs, SPIR-V, bitcode, PTX and LTO-IR, and the target that each
//! records.
//!
//! The header of an ELF file for a GPU has its processor and target ID, except for Intel GPUs ([`intel_gpu`]):
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 7 | 1 | operating system: 64 HSA, 65 PAL, 66 Mesa; 51, 65 CUDA |
//! | 8 | 1 | HSA: code object version, less 2 |
//! | 18 | 2 | machine: 224 AMD GPU, 190 NVIDIA GPU, 205 Intel GPU |
//! | 48; 36 in ELF32 | 4 | flags |
//!
//! | flags of | bits | meaning |
//! |---|---|---|
//! | AMD GPUs | 0 to 7 | processor, by the numbers of [`processors`] |
//! | | 8 to 9, 10 to 11 | version 4 and up: XNACK, SRAMECC: 0 not supported, 1 any, 2 off, 3 on |
//! | | 8, 9 | version 3: XNACK, SRAMECC are on |
//! | NVIDIA GPUs, system 51 | 0 to 7; 11 | number of the SM architecture; suffix `a` from sm_90 on |
//! | system 65 | 8 to 23; 3 | number of the SM architecture; suffix `a` from sm_90 on |
//!
//! `ptxas` of CUDA 13 sets no bit for the suffix: its cubins have the attribute 9 of the section `.nv.compat` instead,
//! which replaces the bit. Bit 11 of cubins before sm_90 has another meaning (`EF_CUDA_SW_1729687` of `nvdisasm`). The
//! suffix `f` is recorded in fatbins only. SPIR-V records its width in bits ([`spirv::width`]), bitcode its triple.
//! Sources: User Guide for AMDGPU Backend; numbers as LLVM 22.1.8 prints them; output of `cuobjdump` of CUDA 13.5 for
//! cubins of CUDA 12.9 and 13.5 with any flags.

use object::Endianness;
use object::elf::{EM_AARCH64, EM_AMDGPU, EM_CUDA, EM_LOONGARCH, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64};

use super::{CodeMagic, bitcode, intel_gpu};
use crate::base::id::processors::{self, Processor};
use crate::base::id::triple::Triple;
use crate::beyond::code::elf::{Encoding, File, Header};
use crate::beyond::code::spirv::{self, Width};
use crate::beyond::code::{lto_ir, ptx};

/// The offsets of the operating system and of the code object version in the header.
const OS_AT: usize = 7;
const VERSION_AT: usize = 8;

/// The operating systems of ELF files for AMD GPUs, other than HSA.
const OS_PAL: u8 = 65;
const OS_MESA: u8 = 66;

/// Code object version 3 as encoded in the header.
const VERSION_3: u8 = 1;

/// The operating systems of ELF files for NVIDIA GPUs.
const CUDA_BEFORE_SM_100: u8 = 51;
const CUDA: u8 = 65;

/// The first SM architecture that may have the suffix `a`, for code that runs on this architecture alone.
const FIRST_SPECIFIC: u32 = 90;

/// The section of a cubin with attributes about the GPUs that run it, of CUDA 13 and later.
const COMPAT_SECTION: &[u8] = b".nv.compat";
/// The format and the number of the attribute that is 1 if a cubin is for its architecture alone: the first two bytes
/// of the attribute.
const SPECIFIC_TARGET: [u8; 2] = [2, 9];
/// The format of an attribute that is followed by data. Its value is the length of that data.
const SIZED: u8 = 4;

/// Returns the target ID that an ELF file for a GPU records, or `None` for other data and for unknown processors. The
/// header is enough as `head`, except for Intel GPUs and for the suffix of an SM architecture: these need the whole
/// file.
pub(crate) fn target_id(head: &[u8]) -> Option<String> {
    if CodeMagic::identify(head) == Some(CodeMagic::IntelGpu) {
        return intel_gpu::name(head);
    }
    let header = Header::read(head)?;
    let flags = u32::try_from(header.flags).ok()?;
    match header.machine() {
        EM_AMDGPU => amd_target_id(head, flags),
        EM_CUDA => sm_architecture(head, flags),
        _ => None,
    }
}

/// Returns the name of the SM architecture of a cubin, or `None` for an unknown operating system in its header. The
/// table at the head of this file describes the flags. Since CUDA 13, an attribute in a section replaces the flag for
/// the suffix. If `data` ends before that section, the flag decides.
fn sm_architecture(data: &[u8], flags: u32) -> Option<String> {
    let (number, is_specific) = match *data.get(OS_AT)? {
        CUDA_BEFORE_SM_100 => (flags & 0xff, flags & 0x800 != 0),
        CUDA => ((flags >> 8) & 0xffff, specific_attribute(data).unwrap_or(flags & 0x8 != 0)),
        _ => return None,
    };
    // Before sm_90, the flag has another meaning.
    let suffix = if is_specific && number >= FIRST_SPECIFIC { "a" } else { "" };
    Some(format!("sm_{number}{suffix}"))
}

/// Returns whether the attributes of a cubin say that it is for its architecture alone. Returns `None` if `data` does
/// not have the section with the attributes, or if the section lacks this one.
fn specific_attribute(data: &[u8]) -> Option<bool> {
    let mut attributes = File::read(data).ok()?.section_named(COMPAT_SECTION)?;
    // An attribute has a format, a number, and a value of two bytes.
    while let [format, number, low, high, rest @ ..] = attributes {
        if [*format, *number] == SPECIFIC_TARGET {
            return Some(*low != 0);
        }
        let len = if *format == SIZED { usize::from(u16::from_le_bytes([*low, *high])) } else { 0 };
        attributes = rest.get(len..)?;
    }
    None
}

/// Returns the AMD GPU with this number in the flags of ELF files, or `None` if LLVM 23.1.4 does not assign the number.
pub(crate) fn processor_by_elf_number(number: u8) -> Option<&'static Processor> {
    processors::all().find(|processor| processor.elf_number == Some(number))
}

/// Returns the target ID of an ELF file for an AMD GPU, or `None` if the processor is not known.
fn amd_target_id(head: &[u8], flags: u32) -> Option<String> {
    let [number, features, ..] = flags.to_le_bytes();
    let processor = processor_by_elf_number(number)?.name;
    // If `head` ends before the version, the flags are read as in the latest version.
    let version = head.get(VERSION_AT).copied().unwrap_or(u8::MAX);
    // In version 3, each feature has one bit in `features`: the lowest for XNACK, the next for SRAMECC. In later
    // versions it has two: the lowest two for XNACK, the next two for SRAMECC.
    let (sramecc, xnack) = if version <= VERSION_3 {
        (sign_in_version_3(features & 2), sign_in_version_3(features & 1))
    } else {
        (sign_of_feature(features >> 2), sign_of_feature(features))
    };
    let mut target_id = processor.to_owned();
    for (name, sign) in [("sramecc", sramecc), ("xnack", xnack)] {
        if !sign.is_empty() {
            target_id.extend([":", name, sign]);
        }
    }
    Some(target_id)
}

/// Returns the sign of a feature in a target ID, by its bit in version 3. That version does not distinguish a feature
/// that is off from one that may be off or on, so a clear bit gives no sign.
fn sign_in_version_3(bit: u8) -> &'static str {
    if bit == 0 { "" } else { "+" }
}

/// Returns the sign of a feature in a target ID, by the lower two of `bits`, in version 4 and up.
fn sign_of_feature(bits: u8) -> &'static str {
    match bits & 3 {
        2 => "-",
        3 => "+",
        // The feature is not supported, or may be off or on.
        _ => "",
    }
}

/// Returns the triple and target ID of a code object, as in a bundle entry ID but without an offload kind. Whatever is
/// not recorded is left empty.
pub(crate) fn triple_and_target_id(data: &[u8]) -> String {
    match CodeMagic::identify(data) {
        Some(CodeMagic::Cubin) => format!("nvptx64-nvidia-cuda--{}", target_id(data).unwrap_or_default()),
        Some(CodeMagic::IntelGpu) => match intel_gpu::spirv(data) {
            Some(spirv) => format!("{}-unknown-unknown", spirv_arch(spirv)),
            None => format!("{}-unknown-unknown--{}", intel_gpu::ARCH, target_id(data).unwrap_or_default()),
        },
        Some(CodeMagic::SpirV) => format!("{}-unknown-unknown", spirv_arch(data)),
        Some(CodeMagic::Ptx) => match ptx::Header::of(data) {
            Some(header) => header.target(),
            None => "nvptx64-nvidia-cuda--".to_owned(),
        },
        Some(CodeMagic::LtoIr) => format!("nvptx64-nvidia-cuda--{}", lto_ir::architecture(data).unwrap_or_default()),
        Some(CodeMagic::Bitcode) => bitcode::triple(data).unwrap_or_default(),
        Some(CodeMagic::Elf) => host_target(data).to_owned(),
        // Any other code object is an ELF file for an AMD GPU.
        _ => amd_target(data),
    }
}

/// Returns the architecture of a SPIR-V module in LLVM's triples. A module without physical addresses has no width.
fn spirv_arch(data: &[u8]) -> &'static str {
    match spirv::width(data) {
        Some(Width::Bits32) => "spirv32",
        Some(Width::Bits64) => "spirv64",
        None => "spirv",
    }
}

/// Returns whether bitcode is for a GPU or another device, not for a host.
pub(crate) fn is_bitcode_for_device(data: &[u8]) -> bool {
    bitcode::triple(data).is_some_and(|triple| is_for_device(&triple))
}

/// Returns whether bitcode with this triple is for a GPU or another device, not for a host.
fn is_for_device(triple: &str) -> bool {
    let arch = Triple::parse(triple).arch();
    ["amdgpu", "r600", "nvptx", "nvptx64"].contains(&arch) || arch.starts_with("spir")
}

/// Returns the triple of an ELF file for a processor that OpenMP offloads to, as to a GPU. Returns an empty string for
/// any other processor.
fn host_target(head: &[u8]) -> &'static str {
    let Some(header) = Header::read(head) else { return "" };
    let is_big_endian = Encoding::of(head).order == Endianness::Big;
    match header.machine() {
        EM_X86_64 => "x86_64-unknown-unknown",
        EM_AARCH64 => "aarch64-unknown-unknown",
        EM_PPC64 if is_big_endian => "powerpc64-unknown-unknown",
        EM_PPC64 => "powerpc64le-unknown-unknown",
        EM_RISCV => "riscv64-unknown-unknown",
        EM_LOONGARCH => "loongarch64-unknown-unknown",
        EM_S390 => "s390x-unknown-unknown",
        _ => "",
    }
}

/// Returns the triple and target ID of an ELF file for an AMD GPU. Processors before GCN, whose names do not begin with
/// `gfx`, have the architecture `r600`.
fn amd_target(head: &[u8]) -> String {
    let os = match head.get(OS_AT) {
        Some(&OS_PAL) => "amdpal",
        Some(&OS_MESA) => "mesa3d",
        _ => "amdhsa",
    };
    let target_id = target_id(head).unwrap_or_default();
    // A processor that is not known is newer than the table, so it is not from before GCN.
    let arch = if target_id.is_empty() || target_id.starts_with("gfx") { "amdgcn" } else { "r600" };
    format!("{arch}-amd-{os}--{target_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(version: u8, flags: u32) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01\x40".to_vec();
        head.push(version);
        head.resize(64, 0);
        head[18] = 224;
        head[48..52].copy_from_slice(&flags.to_le_bytes());
        head
    }

    #[test]
    fn headers_have_processor_and_features() {
        for (version, flags, expected) in [
            (4, 0x3f, Some("gfx90a")),
            (4, 0x53f, Some("gfx90a")),
            (3, 0xe3f, Some("gfx90a:sramecc+:xnack-")),
            (2, 0xb3f, Some("gfx90a:sramecc-:xnack+")),
            (1, 0x12f, Some("gfx906:xnack+")),
            (1, 0x22f, Some("gfx906:sramecc+")),
            (4, 0x151, Some("gfx9-generic")),
            (4, 0x349, Some("gfx1250:xnack+")),
            (6, 0x0100_0062, Some("gfx11-7-generic")),
            (4, 0xff, None),
        ] {
            assert_eq!(target_id(&elf(version, flags)).as_deref(), expected, "{flags:x}");
        }
        for (system, flags, expected) in [
            (0x33, 0x32_0532, "sm_50"),
            (0x33, 0x5a_055a, "sm_90"),
            (0x33, 0x5a_0d5a, "sm_90a"),
            (0x33, 0x4b_0d4b, "sm_75"),
            (0x33, 0x59_0d59, "sm_89"),
            (0x33, 0x640_0d64, "sm_100a"),
            (0x41, 0x0600_5004, "sm_80"),
            (0x41, 0x0500_6402, "sm_100"),
            (0x41, 0x0600_7802, "sm_120"),
            (0x41, 0x0600_640a, "sm_100a"),
            (0x41, 0x0600_590a, "sm_89"),
            (0x41, 0x0601_5a02, "sm_346"),
        ] {
            let mut head = elf(0, flags);
            (head[7], head[18]) = (system, 190);
            assert_eq!(triple_and_target_id(&head), format!("nvptx64-nvidia-cuda--{expected}"), "{flags:x}");
        }
        assert_eq!(triple_and_target_id(&elf(4, 0x3f)), "amdgcn-amd-amdhsa--gfx90a");
        assert_eq!(triple_and_target_id(&elf(4, 0x0f)), "r600-amd-amdhsa--cayman");
        assert_eq!(target_id(b"\x7fELF"), None);
    }

    #[test]
    fn triples_of_gpus_are_for_devices() {
        for triple in [
            "amdgcn-amd-amdhsa",
            "amdgpu-amd-amdhsa",
            "amdgpu9.42-amd-amdhsa",
            "r600--",
            "nvptx64-nvidia-cuda",
            "spir64",
        ] {
            assert!(is_for_device(triple), "{triple}");
        }
        for triple in ["", "x86_64-unknown-linux-gnu", "aarch64", "amd"] {
            assert!(!is_for_device(triple), "{triple}");
        }
    }
}
