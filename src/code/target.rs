//! Code objects without a bundle: ELF files for GPUs, SPIR-V, bitcode and PTX, and the target that each records.
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
//! | NVIDIA GPUs, system 51 | 0 to 7; 11 | number of the SM architecture; suffix `a` |
//! | system 65 | 8 to 15; 3 | number of the SM architecture; suffix `a` |
//!
//! `ptxas` of CUDA 13.5 sets no bit for the suffix. SPIR-V records its width in bits ([`Magic::SpirV`]), bitcode its
//! triple. Sources: User Guide for AMDGPU Backend; numbers as LLVM 22.1.8 prints them; cubins of CUDA 12.9 and 13.5.

use object::elf::{EM_AMDGPU, EM_CUDA};

use super::intel_gpu;
use crate::container::host::elf::Header;
use crate::container::magic::Magic;
use crate::container::spirv::{self, Width};
use crate::container::sycl::INTEL;
use crate::container::{bitcode, ptx};
use crate::id::processors;
use crate::id::triple::Triple;

/// Code object version 3 as encoded in the header.
const VERSION_3: u8 = 1;

/// The operating systems of ELF files for NVIDIA GPUs.
const CUDA_BEFORE_SM_100: u8 = 51;
const CUDA: u8 = 65;

/// The target ID in the header of an ELF file for a GPU. Those for Intel GPUs are needed as a whole.
pub(crate) fn target_id(head: &[u8]) -> Option<String> {
    if Magic::identify(head) == Magic::IntelGpu {
        return intel_gpu::name(head);
    }
    let header = Header::read(head)?;
    let flags = u32::try_from(header.flags).ok()?;
    match header.machine() {
        EM_AMDGPU => amd_target_id(head, flags),
        EM_CUDA => architecture(head, flags),
        _ => None,
    }
}

fn architecture(head: &[u8], flags: u32) -> Option<String> {
    let [low, high, ..] = flags.to_le_bytes();
    let (number, is_specific) = match *head.get(7)? {
        CUDA_BEFORE_SM_100 => (low, flags & 0x800 != 0),
        CUDA => (high, flags & 0x8 != 0),
        _ => return None,
    };
    Some(format!("sm_{number}{}", if is_specific { "a" } else { "" }))
}

fn amd_target_id(head: &[u8], flags: u32) -> Option<String> {
    let [number, features, ..] = flags.to_le_bytes();
    let processor = processors::by_elf_number(number)?.name;
    let setting = |on_in_version_3: u8, shift: u32| match head.get(8) {
        Some(&version) if version <= VERSION_3 => (features & on_in_version_3 != 0).then_some('+'),
        _ => match features.unbounded_shr(shift) & 3 {
            2 => Some('-'),
            3 => Some('+'),
            _ => None,
        },
    };
    let feature = |name: &str, sign: Option<char>| sign.map_or_else(String::new, |sign| format!(":{name}{sign}"));
    Some([processor, &*feature("sramecc", setting(2, 2)), &*feature("xnack", setting(1, 0))].concat())
}

/// The triple and target ID of a code object, as in a bundle entry ID.
pub(crate) fn of(data: &[u8]) -> String {
    match Magic::identify(data) {
        Magic::Cubin => format!("nvptx64-nvidia-cuda--{}", target_id(data).unwrap_or_default()),
        Magic::IntelGpu => format!("{INTEL}-unknown-unknown--{}", target_id(data).unwrap_or_default()),
        Magic::SpirV => format!("{}-unknown-unknown", spirv_arch(data)),
        Magic::Ptx => {
            ptx::Header::of(data).map_or_else(|| "nvptx64-nvidia-cuda--".to_owned(), |header| header.target())
        }
        Magic::Bitcode => bitcode::triple(data).unwrap_or_default(),
        _ => amd_target(data),
    }
}

/// The architecture of a SPIR-V module in LLVM's triples.
fn spirv_arch(data: &[u8]) -> &'static str {
    match spirv::width(data) {
        Some(Width::Bits32) => "spirv32",
        Some(Width::Bits64) => "spirv64",
        None => "spirv",
    }
}

/// Whether bitcode with this triple is for a GPU or another device, not for a host.
pub(crate) fn is_for_device(triple: &str) -> bool {
    let arch = Triple::parse(triple).arch();
    ["amdgpu", "r600", "nvptx", "nvptx64"].contains(&arch) || arch.starts_with("spir")
}

fn amd_target(head: &[u8]) -> String {
    let os = match head.get(7) {
        Some(65) => "amdpal",
        Some(66) => "mesa3d",
        _ => "amdhsa",
    };
    let target_id = target_id(head).unwrap_or_default();
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
    fn headers_name_processor_and_features() {
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
            (0x41, 0x0600_5004, "sm_80"),
            (0x41, 0x0500_6402, "sm_100"),
            (0x41, 0x0600_7802, "sm_120"),
        ] {
            let mut head = elf(0, flags);
            (head[7], head[18]) = (system, 190);
            assert_eq!(of(&head), format!("nvptx64-nvidia-cuda--{expected}"), "{flags:x}");
        }
        assert_eq!(of(&elf(4, 0x3f)), "amdgcn-amd-amdhsa--gfx90a");
        assert_eq!(of(&elf(4, 0x0f)), "r600-amd-amdhsa--cayman");
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
