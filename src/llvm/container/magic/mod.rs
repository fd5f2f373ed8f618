//! Identifies the format of a file, a section or a code object by its first bytes.
//!
//! A format with a magic is a row of [`MAGICS`]. The others are identified by a function: ELF by its machine; COFF, PE,
//! Mach-O and XCOFF by the `object` crate; text bundles by their first line. A text may begin with a short magic of
//! letters.

pub(crate) mod ptx;
pub(crate) mod tar;

use object::elf::{EM_AMDGPU, EM_CUDA, EM_NONE, Machine};
use object::pe::ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID;
use object::{FileKind, archive};

use crate::base::bytes::{array, is_text, len_u64, number, slice, span};
use crate::base::codec::Coding;
use crate::llvm::container::host::elf::EM_INTELGT;
use crate::llvm::container::text::Text;
use crate::llvm::container::{bitcode, compressed, offload_binary};

// The first bytes of formats that only a search reads.
pub(crate) const DXBC: [u8; 4] = *b"DXBC";
pub(crate) const LTO_IR: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];
/// The first word of a SPIR-V module, which sets the byte order of all words.
pub(crate) const SPIR_V: u32 = 0x0723_0203;
/// The first bytes of a CUDA fatbin.
pub const FATBIN: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
/// The first bytes of a kpack archive.
pub const KPACK: [u8; 4] = *b"KPAK";
pub(crate) const AKS2: [u8; 4] = *b"AKS2";
/// The first property of HCF data.
pub(crate) const HCF: &[u8] = b"object-id";
pub(crate) const RPM: [u8; 4] = [0xed, 0xab, 0xee, 0xdb];
pub(crate) const SQLITE: [u8; 16] = *b"SQLite format 3\0";
pub(crate) const CPIO: [&[u8]; 3] = [b"070701", b"070702", b"070707"];

/// The types of ELF files that Intel's OpenCL compiler writes. It records no machine in them.
const ET_OPENCL: std::ops::RangeInclusive<u16> = 0xff01..=0xff05;

/// A format, identified by the first bytes. The rest may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    /// A plain bundle.
    Bundle,
    /// A compressed bundle (CCOB). Other bundles may follow it.
    CompressedBundle,
    /// A text bundle: code objects between comment lines.
    TextBundle,
    OffloadBinary,
    Bitcode,
    /// An ELF file for an AMD GPU.
    AmdGpu,
    /// An ELF file for an NVIDIA GPU.
    Cubin,
    /// An ELF file for an Intel GPU.
    IntelGpu,
    /// Any other ELF file.
    Elf,
    /// An ELF file that is too short, or neither 32-bit nor 64-bit.
    BrokenElf,
    /// A COFF object, in its first form or with more sections (`/bigobj`).
    Coff,
    /// A short import object in an import library for a DLL.
    CoffImport,
    Pe,
    MachO,
    Xcoff,
    Wasm,
    /// An `ar` archive, including thin archives and the big archives of AIX.
    Archive,
    Zip,
    Tar,
    Cpio,
    /// An RPM package.
    Rpm,
    /// A file of kernels of AOTriton, a library for AMD GPUs.
    Aks2,
    /// A file that is compressed as a whole.
    Coded(Coding),
    SpirV,
    Ptx,
    /// Intermediate code for optimisation by NVIDIA's linker.
    LtoIr,
    /// A CUDA fatbin.
    FatBinary,
    /// HCF data of AdaptiveCpp.
    Hcf,
    /// A kpack archive.
    Kpack,
    /// A database, which may have tables with code objects.
    Sqlite,
    /// A script. A zip file may follow it, as in self-extracting files.
    Script,
    /// Another format that is recognised but not read.
    Unread(Unread),
    Unknown,
}

/// A format that is recognised but not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
pub struct Unread {
    /// The format, for people, such as `7-Zip archive`.
    #[cfg_attr(feature = "serde", serde(rename = "what"))]
    name: &'static str,
    /// Whether it certainly contains device code. A compressed archive, for example, may contain anything.
    is_device_code: bool,
}

impl Unread {
    /// A format of device code.
    pub(crate) const fn device_code(name: &'static str) -> Self {
        Self { name, is_device_code: true }
    }

    /// A format that may hold any file.
    pub(crate) const fn anything(name: &'static str) -> Self {
        Self { name, is_device_code: false }
    }

    /// The name of the format, such as `kpack archive`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether the format always holds device code. A compressed archive, for example, may hold anything.
    pub fn is_device_code(self) -> bool {
        self.is_device_code
    }
}

/// A format that is not read and may hold any file.
const fn anything(name: &'static str) -> Magic {
    Magic::Unread(Unread::anything(name))
}

/// Offset and first bytes of the formats that have a magic.
pub(crate) const MAGICS: [(u64, &[u8], Magic); 42] = [
    (0, crate::llvm::container::MAGIC.as_bytes(), Magic::Bundle),
    (0, &archive::MAGIC, Magic::Archive),
    (0, &archive::THIN_MAGIC, Magic::Archive),
    (0, &archive::AIX_BIG_MAGIC, Magic::Archive),
    (0, b"MSCF\0\0\0\0", anything("cabinet file")),
    (0, &SQLITE, Magic::Sqlite),
    (0, b"version https://git-lfs.github.com/spec/v1\n", Magic::Unread(LFS_POINTER)),
    // A tar archive whose first header is broken. The name of a member comes before this magic, and may begin with any
    // magic below.
    (257, b"ustar\0", Magic::Tar),
    (257, b"ustar ", Magic::Tar),
    (0, compressed::MAGIC, Magic::CompressedBundle),
    (0, &offload_binary::MAGIC, Magic::OffloadBinary),
    (0, &bitcode::MAGIC, Magic::Bitcode),
    (0, &bitcode::WRAPPER_MAGIC, Magic::Bitcode),
    (0, b"PK\x03\x04", Magic::Zip),
    (0, b"PK\x05\x06", Magic::Zip),
    (0, &SPIR_V.to_le_bytes(), Magic::SpirV),
    (0, &SPIR_V.to_be_bytes(), Magic::SpirV),
    (0, &FATBIN, Magic::FatBinary),
    (0, &LTO_IR, Magic::LtoIr),
    (0, &KPACK, Magic::Kpack),
    (0, b"IBYS", Magic::Unread(Unread::device_code("SYCLBIN file of version 1"))),
    (0, b"\x7fELF", Magic::BrokenElf),
    (0, b"\0asm", Magic::Wasm),
    (0, CPIO[0], Magic::Cpio),
    (0, CPIO[1], Magic::Cpio),
    (0, CPIO[2], Magic::Cpio),
    (0, b"07070X", anything("cpio archive without names, of an RPM package")),
    (0, &RPM, Magic::Rpm),
    (0, &AKS2, Magic::Aks2),
    (0, b"DRPM", anything("delta of an RPM package")),
    (0, &[0x1f, 0x9d, 0x90], anything("file compressed with compress")),
    (0, &[0x1f, 0x8b, 8], Magic::Coded(Coding::Gzip)),
    (0, b"\xfd7zXZ\0", Magic::Coded(Coding::Xz)),
    (0, &[0x28, 0xb5, 0x2f, 0xfd], Magic::Coded(Coding::Zstd)),
    (0, &[0x04, 0x22, 0x4d, 0x18], anything("LZ4 file")),
    (0, b"LZIP", anything("lzip file")),
    (0, b"7z\xbc\xaf\x27\x1c", anything("7-Zip archive")),
    (0, b"hsqs", anything("SquashFS image")),
    (0, b"xar!", anything("xar archive")),
    (0, b"MTLB", anything("Metal library")),
    (0, &DXBC, anything("DirectX shader container")),
    (0, b"#!", Magic::Script),
];

/// A text that replaces a large file in a Git repository.
const LFS_POINTER: Unread = Unread::anything("Git LFS pointer (run git lfs pull)");

/// OptiX IR, NVIDIA's code for ray tracing, which only OptiX can compile.
const OPTIX_IR: Unread = Unread::device_code("OptiX IR");

/// The offset and the value of the number that distinguishes OptiX IR of NVRTC 12.9 from LTO-IR. Both have the same
/// magic.
const NVVM_KIND: u64 = 14;
const NVVM_OPTIX: u64 = 2;

/// The number of bytes at the start of a file that decide whether it is a text.
const TEXT_HEAD: u64 = 64;

/// The number of bytes at the start of a file in which the header of PTX has to end, comments before it included.
const PTX_HEAD: u64 = 512;

/// The bytes after the level in a bzip2 file: the start of a block, or the end of a file without content.
const BZIP2_BLOCKS: [&[u8]; 2] = [b"1AY&SY", &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];

impl Magic {
    /// Identifies the format of a file by `data`, its first bytes. If several formats are possible, the one with more
    /// bytes of evidence wins.
    pub(crate) fn identify(data: &[u8]) -> Self {
        match FileKind::parse(data) {
            // A tar archive begins with a name, which may be the magic of any other format, but it has a checksum.
            _ if tar::is_header(data) => Self::Tar,
            // OptiX IR has the magic of LTO-IR, which the table has.
            _ if is_optix_ir(data) => Self::Unread(OPTIX_IR),
            Ok(FileKind::Elf32 | FileKind::Elf64) => match elf_machine(data) {
                Some(EM_AMDGPU) => Self::AmdGpu,
                Some(EM_CUDA) => Self::Cubin,
                Some(EM_INTELGT) => Self::IntelGpu,
                // Intel's OpenCL compiler records no machine, but its types of files are special.
                Some(EM_NONE) if matches!(elf_type(data), Some(kind) if ET_OPENCL.contains(&kind)) => Self::IntelGpu,
                _ => Self::Elf,
            },
            Ok(FileKind::Coff | FileKind::CoffBig) => Self::Coff,
            Ok(FileKind::CoffImport) => Self::CoffImport,
            Ok(FileKind::Pe32 | FileKind::Pe64) => Self::Pe,
            Ok(FileKind::MachO32 | FileKind::MachO64) => Self::MachO,
            Ok(FileKind::Xcoff32 | FileKind::Xcoff64) => Self::Xcoff,
            _ if Text::of(data).is_some() => Self::TextBundle,
            _ => Self::identify_by_table(data),
        }
    }

    /// Identifies a format by its row in [`MAGICS`], or else by its fields.
    fn identify_by_table(data: &[u8]) -> Self {
        for (offset, magic, format) in &MAGICS {
            if slice(data, *offset, len_u64(magic)) == Some(magic) {
                let is_chance = format.is_text_after(magic, data);
                return if is_chance { Self::identify_by_fields(data) } else { *format };
            }
        }
        Self::identify_by_fields(data)
    }

    /// Whether data is a text that only happens to begin with the magic of this format. The headers of most formats
    /// have bytes that no text has.
    fn is_text_after(self, magic: &[u8], data: &[u8]) -> bool {
        // Files of these formats may be text, or their magic is too long for chance.
        if matches!(self, Self::Archive | Self::Bundle | Self::Script | Self::Unread(LFS_POINTER)) {
            return false;
        }
        let head = slice(data, 0, TEXT_HEAD).unwrap_or(data);
        // A header of a cpio archive is nothing but hexadecimal digits.
        let is_digits = head.iter().skip(magic.len()).all(u8::is_ascii_hexdigit);
        !is_digits && is_text(head)
    }

    /// Identifies a format without a magic, by fields that other data hardly has. [`anything`] gives the name of a
    /// format that is recognised, but not read.
    fn identify_by_fields(data: &[u8]) -> Self {
        match data {
            // A frame of data that decoders skip. Both LZ4 and zstd have such frames, so the frame after it decides.
            // `pzstd` writes one before each frame of zstd.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] if is_lz4_after_skipped(data) => anything("LZ4 file"),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Coded(Coding::Zstd),
            [0x5d, ..] if is_lzma(data) => anything("lzma file"),
            // PTX is text. Blanks and comments may come before its first directive.
            [b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'.', ..]
                if ptx::Header::of(slice(data, 0, PTX_HEAD).unwrap_or(data)).is_some() =>
            {
                Self::Ptx
            }
            [b'o', ..] if is_hcf(data) => Self::Hcf,
            [0xc7, 0x71, ..] if is_binary_cpio(data) => anything("binary cpio archive"),
            [b'B', b'Z', b'h', b'1'..=b'9', block @ ..]
                if BZIP2_BLOCKS.iter().any(|magic| block.starts_with(magic)) =>
            {
                Self::Coded(Coding::Bzip2)
            }
            [b'M', b'Z', ..] if is_dos_program(data) => anything("program without a PE header"),
            _ => Self::Unknown,
        }
    }

    /// Whether this is an ELF file of any kind.
    pub(crate) fn is_elf(self) -> bool {
        self.is_gpu_elf() || matches!(self, Self::Elf | Self::BrokenElf)
    }

    /// Whether this is an ELF file for a GPU.
    pub(crate) fn is_gpu_elf(self) -> bool {
        matches!(self, Self::AmdGpu | Self::Cubin | Self::IntelGpu)
    }

    /// Whether this is a container of code objects that may be in a section or in another container.
    pub(crate) fn is_container(self) -> bool {
        matches!(self, Self::Bundle | Self::CompressedBundle | Self::OffloadBinary | Self::FatBinary)
    }

    /// Whether a file of this format holds other files, and a search reads it once from start to end. The contents are
    /// inflated or copied one after another, and not kept.
    pub(crate) fn is_package(self) -> bool {
        matches!(self, Self::Tar | Self::Cpio | Self::Rpm | Self::Aks2 | Self::Coded(_))
    }

    /// Whether a file of this format may hold device code, so that a search reads or reports it.
    pub(crate) fn may_hold_code(self) -> bool {
        !matches!(self, Self::CoffImport | Self::Xcoff | Self::Unknown)
    }

    /// Returns the name of the format, or `None` if it is unknown.
    pub(crate) fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Bundle => "bundle",
            Self::CompressedBundle => "compressed bundle",
            Self::TextBundle => "text bundle",
            Self::OffloadBinary => "offload binary",
            Self::Bitcode => "LLVM bitcode file",
            Self::AmdGpu | Self::Cubin | Self::IntelGpu => "code object",
            Self::Elf | Self::BrokenElf => "ELF file",
            Self::Coff => "COFF object",
            Self::CoffImport => "COFF import object",
            Self::Pe => "PE file",
            Self::MachO => "Mach-O file",
            Self::Xcoff => "XCOFF file",
            Self::Wasm => "WebAssembly module",
            Self::Archive => "ar archive",
            Self::Zip => "zip file",
            Self::Tar => "tar archive",
            Self::Cpio => "cpio archive",
            Self::Rpm => "RPM package",
            Self::Aks2 => "AKS2 file",
            Self::Coded(coding) => coding.file_name(),
            Self::SpirV => "SPIR-V module",
            Self::Ptx => "PTX file",
            Self::LtoIr => "LTO-IR file",
            Self::FatBinary => "fatbin",
            Self::Hcf => "HCF file",
            Self::Kpack => "kpack archive",
            Self::Sqlite => "SQLite database",
            Self::Script => "script",
            Self::Unread(unread) => unread.name,
            Self::Unknown => return None,
        })
    }

    /// Returns the format that a search reports because it may hold device code and is not read. Returns `None` for
    /// formats that are read, unknown, or hold no device code.
    pub(crate) fn unread(self) -> Option<Unread> {
        match (self, self.name()?) {
            // Only the symbols of these objects are read, for the index of an archive.
            (Self::Wasm, name) => Some(Unread::anything(name)),
            (Self::Unread(unread), _) => Some(unread),
            _ => None,
        }
    }
}

/// Whether data begins like HCF data of AdaptiveCpp: with a number, in the first line, and the name of the program that
/// wrote it.
pub(crate) fn is_hcf(data: &[u8]) -> bool {
    // The lines are much shorter than this.
    let head = slice(data, 0, PTX_HEAD).unwrap_or(data);
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let has_key =
        |line: &[u8], key| line.strip_prefix(key).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"="));
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return false };
    has_key(first, HCF) && first.last().is_some_and(u8::is_ascii_digit) && has_key(second, b"generator")
}

/// Whether an LZ4 frame follows the skippable frame at the start of data. Its length is at offset 4.
fn is_lz4_after_skipped(data: &[u8]) -> bool {
    let Some(len) = number::<4>(data, 4) else { return false };
    number::<4>(data, span(8, len).end) == Some(0x184d_2204)
}

/// Whether data that begins with lzma's default properties, one byte, has a likely header. The size of the dictionary
/// is a power of two, and the inflated size is unknown or less than 1 TB.
fn is_lzma(data: &[u8]) -> bool {
    const DICTIONARY_AT: u64 = 1;
    const SIZE_AT: u64 = 5;
    let Some(dictionary) = number::<4>(data, DICTIONARY_AT) else { return false };
    let Some(size) = slice(data, SIZE_AT, 8) else { return false };
    let is_unknown = size == [0xff; 8];
    // The size is little-endian. Less than 1 TB leaves the three highest bytes 0.
    let is_size = is_unknown || size.ends_with(&[0; 3]);
    dictionary.is_power_of_two() && dictionary >= 1 << 12 && is_size
}

/// Whether data that begins with the magic of binary cpio archives has a likely name after the header. The length of
/// the name, which the header records, includes the NUL at its end.
fn is_binary_cpio(data: &[u8]) -> bool {
    const NAME_LEN_AT: u64 = 20;
    const NAME_AT: u64 = 26;
    match number::<2>(data, NAME_LEN_AT) {
        Some(len @ 2..=4096) => slice(data, span(NAME_AT, len).end.saturating_sub(1), 1) == Some(&[0]),
        _ => false,
    }
}

/// Whether data that begins with `MZ` has a likely header of a DOS program: fewer than 512 bytes in the last page, and
/// at least one page. A text may begin with the same letters.
fn is_dos_program(data: &[u8]) -> bool {
    matches!((number::<2>(data, 2), number::<2>(data, 4)), (Some(..512), Some(1..)))
}

fn is_optix_ir(data: &[u8]) -> bool {
    data.starts_with(&LTO_IR) && number::<2>(data, NVVM_KIND) == Some(NVVM_OPTIX)
}

/// The machine of an ELF file that begins with `head`.
pub(crate) fn elf_machine(head: &[u8]) -> Option<Machine> {
    elf_number(head, 18).map(Machine)
}

fn elf_type(head: &[u8]) -> Option<u16> {
    elf_number(head, 16)
}

/// A number of two bytes in the header of an ELF file.
fn elf_number(head: &[u8], offset: u64) -> Option<u16> {
    let number = array(head, offset)?;
    // The byte order follows the class, the first byte after the magic.
    match head.strip_prefix(b"\x7fELF")?.get(1)? {
        1 => Some(u16::from_le_bytes(number)),
        2 => Some(u16::from_be_bytes(number)),
        _ => None,
    }
}

/// Whether LLVM 22.1.8 treats an ELF file that begins with `head` as an object, a program or a library. LLVM looks only
/// at the type in the header, even if the rest of the header is broken.
pub(crate) fn is_elf_object(head: &[u8]) -> bool {
    // Unlike `elf_type`, LLVM takes an unknown byte order as little-endian.
    let Some(number) = array(head, 16) else { return false };
    let is_big_endian = head.get(5) == Some(&2);
    let kind = if is_big_endian { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
    // Relocatable objects, programs, and shared libraries.
    matches!(kind, 1..=3)
}

/// Whether LLVM 22.1.8 treats data that begins with `head` as a COFF object. LLVM looks only at the machine in the
/// header, even if the rest is broken. [`Magic::identify`] is stricter, since any data may begin with two zeros: it
/// knows only the machines that compilers still write for.
pub(crate) fn is_coff_object(head: &[u8]) -> bool {
    // The start of a compiled resource file (`.res`).
    const RESOURCES: &[u8] = &[0, 0, 0, 0, 0x20, 0, 0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0];
    match head {
        // A header for several formats. Big objects have their class ID in it.
        [0, 0, 0xff, 0xff, ..] => slice(head, 12, 16) == Some(&ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID.0),
        // The machine 0 is none in particular, which a resource file has too.
        [0, 0, _, _, ..] => !head.starts_with(RESOURCES),
        // The machines that LLVM lists, with their lower byte first.
        [0x4c | 0x50 | 0x66 | 0x83 | 0x84 | 0xc4 | 0xf0, 1 | 2, _, _, ..] => true,
        [0x68 | 0x90, 2, _, _, ..] | [0x64, 0x86 | 0xaa, _, _, ..] | [0x41 | 0x4e, 0xa6, _, _, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of an ELF file of a class for a machine.
    fn elf(class: u8, machine: u8) -> Vec<u8> {
        [b"\x7fELF", &[class, 1, 1][..], &[0; 11], &[machine; 1], &[0; 45]].concat()
    }

    #[test]
    fn formats_are_told_by_how_they_begin() {
        let mut tar = vec![0; 512];
        tar[257..263].copy_from_slice(b"ustar\0");
        let text = [b"\n// ", crate::llvm::container::MAGIC.as_bytes()].concat();
        for (head, magic) in [
            (&b""[..], Magic::Unknown),
            (b"text", Magic::Unknown),
            (b"CCOB", Magic::CompressedBundle),
            (&text, Magic::TextBundle),
            (&elf(2, 62), Magic::Elf),
            (&elf(2, 190), Magic::Cubin),
            (&elf(1, 224), Magic::AmdGpu),
            (&elf(2, 205), Magic::IntelGpu),
            (&elf(3, 62), Magic::BrokenElf),
            (b"\x7fELF", Magic::BrokenElf),
            (b"\x64\x86\x03\0\0\0\0\0\0\0\0\0\0\0\0\0", Magic::Coff),
            (b"!<thin>\n", Magic::Archive),
            (b"\x07\x23\x02\x03", Magic::SpirV),
            (b"\x50\xed\x55\xba\x01", Magic::FatBinary),
            (b"\xedCN\x7f\x01", Magic::LtoIr),
            (b"\xfd7zXZ", Magic::Unknown),
            (b"BZh91AY&SY", Magic::Coded(Coding::Bzip2)),
            (&tar, Magic::Tar),
            (b"MZ\x80\0\x01\0", anything("program without a PE header")),
            (b"MZ\x80\0\0\0", Magic::Unknown),
            (b"MZ\0\x02\x01\0", Magic::Unknown),
            (b"\x5d\0\x10\0\0\xff\xff\xff\xff\xff\xff\xff\xff", anything("lzma file")),
            (b"\x5d\0\x10\0\0\0\0\0\0\x01\0\0\0", anything("lzma file")),
            (b"\x5d\0\x08\0\0\xff\xff\xff\xff\xff\xff\xff\xff", Magic::Unknown),
            (b"\x5d\0\x30\0\0\xff\xff\xff\xff\xff\xff\xff\xff", Magic::Unknown),
            (b"\x5d\0\x10\0\0\0\0\0\0\0\x01\0\0", Magic::Unknown),
            (b"// PTX\n\n.version 8.7\n.target sm_90a\n", Magic::Ptx),
            (b"\n.version 8.7\n.target x\n", Magic::Unknown),
            (b"MZ", Magic::Unknown),
            (b"MZ is what programs begin with", Magic::Unknown),
            (b"1234\x31AY&SY", Magic::Unknown),
        ] {
            assert_eq!(Magic::identify(head), magic, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn code_of_intels_opencl_is_known_by_its_type() {
        for (number, magic) in [
            (0xff00_u16, Magic::Elf),
            (0xff01, Magic::IntelGpu),
            (0xff05, Magic::IntelGpu),
            (0xff06, Magic::Elf),
            (2, Magic::Elf),
        ] {
            for (order, number) in [(1, number.to_le_bytes()), (2, number.to_be_bytes())] {
                let head = [b"\x7fELF\x02", &[order, 1][..], &[0; 9], &number, &[0; 46]].concat();
                assert_eq!(Magic::identify(&head), magic, "{number:x?}");
            }
        }
    }

    #[test]
    fn no_row_hides_another() {
        for (index, (offset, magic, kind)) in MAGICS.iter().enumerate() {
            let mut head = vec![0; usize::try_from(*offset).unwrap()];
            head.extend_from_slice(magic);
            assert_eq!(Magic::identify(&head), *kind, "row {index}");
        }
    }

    #[test]
    fn a_text_may_begin_with_the_magic_of_any_format() {
        for (offset, magic, kind) in MAGICS.iter().filter(|(offset, ..)| *offset == 0) {
            let follows = |rest: &[u8]| Magic::identify(&[magic, rest].concat());
            let may_be_text = magic.is_ascii() && !magic.iter().any(u8::is_ascii_control);
            let is_long = matches!(kind, Magic::Archive | Magic::Bundle | Magic::Script);
            let expected = if may_be_text && !is_long { Magic::Unknown } else { *kind };
            for text in [" is a magic\n", "\n", "s, and ä", &"text ".repeat(100)] {
                assert_eq!(follows(text.as_bytes()), expected, "{offset} {}", magic.escape_ascii());
            }
            for header in [&b""[..], b"\x01", b"\x02\0\x01\0 text", b"0000000041ed", b"  \xff"] {
                assert_eq!(follows(header), *kind, "{} {}", magic.escape_ascii(), header.escape_ascii());
            }
        }
    }

    /// A header of a tar archive for a member whose name begins with `name`.
    fn tar_header(name: &[u8], ustar: &[u8]) -> Vec<u8> {
        let mut header = vec![0; 512];
        header[..name.len()].copy_from_slice(name);
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(b"00000000000");
        header[257..257 + ustar.len()].copy_from_slice(ustar);
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        header
    }

    #[test]
    fn a_tar_archive_may_begin_with_the_magic_of_any_format() {
        let (parsed, longest) = (elf_and_others(), MAGICS.iter().map(|(_, magic, _)| *magic));
        let names = longest.chain([&b"MZ\x80\0\x01"[..]]).chain(parsed.iter().map(Vec::as_slice));
        for name in names.filter(|name| name[0] != 0) {
            for ustar in [&b""[..], b"ustar\x0000", b"ustar  \0"] {
                let mut header = tar_header(name, ustar);
                assert_eq!(Magic::identify(&header), Magic::Tar, "{}", name.escape_ascii());
                // Without the checksum, the longer magic counts.
                header[153] ^= 1;
                let (is_longer, is_parsed) =
                    (!ustar.is_empty() && name.len() <= 6, FileKind::parse(&header[..]).is_ok());
                if !is_parsed {
                    assert_eq!(Magic::identify(&header) == Magic::Tar, is_longer, "{}", name.escape_ascii());
                }
            }
        }
    }

    /// Heads of the formats that have no row.
    fn elf_and_others() -> Vec<Vec<u8>> {
        let [elf32, elf64, broken] = [1, 2, 3].map(|class| [b"\x7fELF", &[class][..]].concat());
        let text = ["# ", crate::llvm::container::MAGIC, "__START__ x\n"].concat();
        vec![elf32, elf64, broken, b"\x64\x86\x03".to_vec(), b"\xcf\xfa\xed\xfe".to_vec(), text.into_bytes()]
    }

    #[test]
    fn coff_objects_with_many_sections_have_a_class() {
        let big = [&[0, 0, 0xff, 0xff][..], &[0; 8], &ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID.0].concat();
        assert!(is_coff_object(&big));
        for len in 4..big.len() {
            assert!(!is_coff_object(&big[..len]), "{len}");
        }
        for (head, is) in
            [(&[0, 0, 1, 0][..], true), (&[0, 0, 1], false), (&[0x64, 0x86, 1, 0], true), (b"text", false)]
        {
            assert_eq!(is_coff_object(head), is, "{}", head.escape_ascii());
        }
    }
}
