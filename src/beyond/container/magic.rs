//! Identifies the format of a file, a section or a code object by its first bytes.
//!
//! Formats that LLVM's tools know are identified by [their table](crate::llvm::container::magic). Containers of code
//! objects have their first bytes in their rows of [`FORMATS`], and all other formats in [`OTHERS`]. The rest is
//! identified by a function: code by [`CodeMagic`], text bundles by their first line. A text may begin with a short
//! magic of letters.

use super::formats::{FORMATS, Format, Rule};
use super::package::{aks2, cpio, tar};
use super::text;
use crate::base::bytes::{number, slice, span};
use crate::beyond::code::{CodeMagic, is_optix_ir, is_ptx, lto_ir};
use crate::beyond::codec::{BZIP2_BLOCKS, Coding};
use crate::llvm::container::compressed;
use crate::llvm::container::magic;

/// A format, identified by the first bytes. The rest may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    /// A container of code objects, which is not compressed as a whole.
    Container(Format),
    /// A compressed bundle (CCOB). Other bundles may follow it.
    CompressedBundle,
    /// Code without a container, which may be for a host.
    Code(CodeMagic),
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

/// The formats that are not containers of code objects and that LLVM's tools do not know: the offset and the bytes of
/// the magic of each.
pub(crate) static OTHERS: [(usize, &[u8], Magic); 29] = [
    // A tar archive whose first header is broken. The name of a member comes before this magic, and may begin with
    // another magic of this table, which is shorter.
    (257, b"ustar\0", Magic::Tar),
    (257, b"ustar ", Magic::Tar),
    (0, compressed::MAGIC, Magic::CompressedBundle),
    (0, &lto_ir::MAGIC, Magic::Code(CodeMagic::LtoIr)),
    (0, b"PK\x03\x04", Magic::Zip),
    (0, b"PK\x05\x06", Magic::Zip),
    (0, cpio::MAGICS[0], Magic::Cpio),
    (0, cpio::MAGICS[1], Magic::Cpio),
    (0, cpio::MAGICS[2], Magic::Cpio),
    (0, &[0xed, 0xab, 0xee, 0xdb], Magic::Rpm),
    (0, &aks2::MAGIC, Magic::Aks2),
    (0, &[0x1f, 0x8b, 8], Magic::Coded(Coding::Gzip)),
    (0, b"\xfd7zXZ\0", Magic::Coded(Coding::Xz)),
    (0, &[0x28, 0xb5, 0x2f, 0xfd], Magic::Coded(Coding::Zstd)),
    (0, b"SQLite format 3\0", anything("SQLite database")),
    (0, b"#!", Magic::Script),
    (0, b"IBYS", Magic::Unread(Unread::device_code("SYCLBIN file of version 1"))),
    (0, b"version https://git-lfs.github.com/spec/v1\n", Magic::Unread(LFS_POINTER)),
    (0, b"MSCF\0\0\0\0", anything("cabinet file")),
    (0, b"07070X", anything("cpio archive without names, of an RPM package")),
    (0, b"DRPM", anything("delta of an RPM package")),
    (0, &[0x1f, 0x9d, 0x90], anything("file compressed with compress")),
    (0, &[0x04, 0x22, 0x4d, 0x18], anything("LZ4 file")),
    (0, b"LZIP", anything("lzip file")),
    (0, b"7z\xbc\xaf\x27\x1c", anything("7-Zip archive")),
    (0, b"hsqs", anything("SquashFS image")),
    (0, b"xar!", anything("xar archive")),
    (0, b"MTLB", anything("Metal library")),
    (0, b"DXBC", anything("DirectX shader container")),
];

/// A text that replaces a large file in a Git repository.
const LFS_POINTER: Unread = Unread::anything("Git LFS pointer (run git lfs pull)");

/// OptiX IR, NVIDIA's code for ray tracing, which only OptiX can compile.
const OPTIX_IR: Unread = Unread::device_code("OptiX IR");

/// The number of bytes at the start of a file that decide whether it is a text.
const TEXT_HEAD: u64 = 64;

/// Returns the offset, the magic and the format of each row that identifies a format by its first bytes.
fn rows() -> impl Iterator<Item = (usize, &'static [u8], Magic)> {
    let containers =
        FORMATS.iter().flat_map(|row| row.magics.iter().map(|magic| (0, *magic, Magic::Container(row.format))));
    containers.chain(OTHERS.iter().copied())
}

impl Magic {
    /// Identifies the format of a file by `data`, its first bytes.
    pub(crate) fn identify(data: &[u8]) -> Self {
        use magic::Magic as Known;
        // A tar archive begins with a name, which may be the magic of any other format, but it has a checksum.
        if tar::is_header(data) {
            return Self::Tar;
        }
        let known = Known::identify(data);
        if let Some(code) = CodeMagic::identify_known(known, data) {
            return Self::Code(code);
        }
        match known {
            Known::Coff => Self::Coff,
            Known::CoffImport => Self::CoffImport,
            Known::Pe => Self::Pe,
            Known::MachO => Self::MachO,
            Known::Xcoff => Self::Xcoff,
            Known::Wasm => Self::Wasm,
            Known::Archive => Self::Archive,
            Known::OffloadBinary => Self::Container(Format::OffloadBinary),
            // OptiX IR has the magic of LTO-IR.
            Known::Unknown if is_optix_ir(data) => Self::Unread(OPTIX_IR),
            Known::Unknown if text::identify(data).is_some() => Self::Container(Format::TextBundle),
            // Code is identified above.
            _ => Self::identify_by_table(data),
        }
    }

    /// Identifies a format by its row in [`FORMATS`] or [`OTHERS`], or else by its fields. If several rows apply, the
    /// one with more bytes of evidence wins.
    fn identify_by_table(data: &[u8]) -> Self {
        let mut best: Option<(&[u8], Self)> = None;
        for (at, magic, format) in rows() {
            // The first byte alone excludes most rows.
            if data.get(at) == magic.first()
                && data.get(at..).is_some_and(|rest| rest.starts_with(magic))
                && best.is_none_or(|(best, _)| magic.len() > best.len())
            {
                best = Some((magic, format));
            }
        }
        match best {
            Some((magic, format)) if format.is_confirmed(magic, data) => format,
            _ => Self::identify_by_fields(data),
        }
    }

    /// Returns whether data that begins with a magic of this format is of the format, and not another text that happens
    /// to begin like it. The headers of most formats have bytes that no text has.
    fn is_confirmed(self, magic: &[u8], data: &[u8]) -> bool {
        match self {
            // Files of these formats may be text, or their magic is too long for chance.
            Self::Script | Self::Unread(LFS_POINTER) => return true,
            Self::Container(format) => {
                if let Some(confirm) = format.row().confirm {
                    return confirm(data);
                }
            }
            _ => {}
        }
        let head = slice(data, 0, TEXT_HEAD).unwrap_or(data);
        // A header of a cpio archive is nothing but hexadecimal digits.
        let is_digits = head.iter().skip(magic.len()).all(u8::is_ascii_hexdigit);
        is_digits || !is_text(head)
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
            _ if is_ptx(data) => Self::Code(CodeMagic::Ptx),
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

    /// Returns the format of code without a container.
    pub(crate) fn code(self) -> Option<CodeMagic> {
        match self {
            Self::Code(code) => Some(code),
            _ => None,
        }
    }

    /// Whether this is an ELF file of any kind.
    pub(crate) fn is_elf(self) -> bool {
        self.code().is_some_and(CodeMagic::is_elf)
    }

    /// Whether this is an ELF file for a GPU.
    pub(crate) fn is_gpu_elf(self) -> bool {
        self.code().is_some_and(CodeMagic::is_gpu_elf)
    }

    /// Whether this is a container of code objects that may be in a section or in another container.
    pub(crate) fn is_container(self) -> bool {
        match self {
            Self::CompressedBundle => true,
            Self::Container(format) => format.has(Rule::Nested),
            _ => false,
        }
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
            Self::Container(format) => format.name(),
            Self::CompressedBundle => "compressed bundle",
            Self::Code(code) => code.name(),
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

/// Returns whether some bytes are UTF-8 text: at least one character, and no control character except white space. The
/// last character may be cut off.
#[allow(clippy::disallowed_methods, reason = "of a copy")]
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    // Copied, because the bytes of a mapped file may change while they are read.
    let copy = bytes.to_vec();
    // An error without a length means that only the last character is cut off.
    let text = match std::str::from_utf8(&copy) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return false,
        Err(error) => match copy.get(..error.valid_up_to()).map(std::str::from_utf8) {
            Some(Ok(before_cut)) => before_cut,
            _ => return false,
        },
    };
    !text.is_empty() && !text.contains(|c: char| c.is_control() && !c.is_whitespace())
}

/// The rows of all formats, also of those that LLVM's tools know: the offset and the bytes of the magic, and the
/// format. HCF data is not among them, because more text has to follow its magic.
#[cfg(test)]
pub(crate) fn rows_to_test() -> Vec<(usize, &'static [u8], Magic)> {
    let of_llvm = magic::MAGICS.map(|(magic, _)| (0, magic, Magic::identify(magic)));
    let ours = rows().filter(|(.., format)| !matches!(format, Magic::Container(Format::Hcf | Format::OffloadBinary)));
    of_llvm.into_iter().chain(ours).collect()
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
            (&text, Magic::Container(Format::TextBundle)),
            (&elf(2, 62), Magic::Code(CodeMagic::Elf)),
            (&elf(2, 190), Magic::Code(CodeMagic::Cubin)),
            (&elf(1, 224), Magic::Code(CodeMagic::AmdGpu)),
            (&elf(2, 205), Magic::Code(CodeMagic::IntelGpu)),
            (&elf(3, 62), Magic::Code(CodeMagic::BrokenElf)),
            (b"\x7fELF", Magic::Code(CodeMagic::BrokenElf)),
            (b"\x64\x86\x03\0\0\0\0\0\0\0\0\0\0\0\0\0", Magic::Coff),
            (b"!<thin>\n", Magic::Archive),
            (b"\x07\x23\x02\x03", Magic::Code(CodeMagic::SpirV)),
            (b"\x50\xed\x55\xba\x01", Magic::Container(Format::Fatbin)),
            (b"\xedCN\x7f\x01", Magic::Code(CodeMagic::LtoIr)),
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
            (b"// PTX\n\n.version 8.7\n.target sm_90a\n", Magic::Code(CodeMagic::Ptx)),
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
            (0xff00_u16, Magic::Code(CodeMagic::Elf)),
            (0xff01, Magic::Code(CodeMagic::IntelGpu)),
            (0xff05, Magic::Code(CodeMagic::IntelGpu)),
            (0xff06, Magic::Code(CodeMagic::Elf)),
            (2, Magic::Code(CodeMagic::Elf)),
        ] {
            for (order, number) in [(1, number.to_le_bytes()), (2, number.to_be_bytes())] {
                let head = [b"\x7fELF\x02", &[order, 1][..], &[0; 9], &number, &[0; 46]].concat();
                assert_eq!(Magic::identify(&head), magic, "{number:x?}");
            }
        }
    }

    /// Both read the first bytes of code, one of them without knowing containers.
    #[test]
    fn code_is_known_with_and_without_containers() {
        let ptx = [b".version 8.7\n.target sm_80\n".to_vec(), b" // PTX\n.version 8.7 .target sm_90a".to_vec()];
        let optix = b"\xedCN\x7f\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
        let rows = rows_to_test().into_iter().map(|(at, magic, _)| [&vec![0; at], magic].concat());
        let elf = (1..4).flat_map(|class| [0, 62, 190, 205, 224].map(|machine| elf(class, machine)));
        for head in rows.chain(elf).chain(elf_and_others()).chain(ptx).chain([optix, Vec::new()]) {
            assert_eq!(Magic::identify(&head).code(), CodeMagic::identify(&head), "{}", head.escape_ascii());
        }
    }

    #[test]
    fn no_row_hides_another() {
        for (index, (at, magic, kind)) in rows_to_test().into_iter().enumerate() {
            let head = [&vec![0; at], magic].concat();
            assert_eq!(Magic::identify(&head), kind, "row {index}");
        }
    }

    #[test]
    fn a_text_may_begin_with_the_magic_of_any_format() {
        for (at, magic, kind) in rows_to_test().into_iter().filter(|(at, ..)| *at == 0) {
            let follows = |rest: &[u8]| Magic::identify(&[magic, rest].concat());
            let may_be_text = magic.is_ascii() && !magic.iter().any(u8::is_ascii_control);
            let is_long = matches!(kind, Magic::Archive | Magic::Container(Format::Bundle) | Magic::Script);
            let expected = if may_be_text && !is_long { Magic::Unknown } else { kind };
            for text in [" is a magic\n", "\n", "s, and ä", &"text ".repeat(100)] {
                assert_eq!(follows(text.as_bytes()), expected, "{at} {}", magic.escape_ascii());
            }
            for header in [&b""[..], b"\x01", b"\x02\0\x01\0 text", b"0000000041ed", b"  \xff"] {
                assert_eq!(follows(header), kind, "{} {}", magic.escape_ascii(), header.escape_ascii());
            }
        }
    }

    /// The order of the rows does not matter, except for a tar archive with a member of the same length of evidence.
    #[test]
    fn rows_are_unambiguous() {
        let rows = rows_to_test();
        for (at, magic, kind) in &rows {
            for (of_other, other, other_kind) in &rows {
                let is_prefix = at == of_other && other.starts_with(magic) && magic.len() < other.len();
                let is_equal = at == of_other && magic == other && kind != other_kind;
                assert!(!is_prefix && !is_equal, "{} {}", magic.escape_ascii(), other.escape_ascii());
            }
        }
        assert!(Magic::identify(b"").name().is_none() && rows.iter().all(|(.., kind)| kind.name().is_some()));
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
        let (parsed, rows) = (elf_and_others(), rows_to_test());
        let names = rows
            .iter()
            .map(|(_, magic, _)| *magic)
            .chain([&b"MZ\x80\0\x01"[..]])
            .chain(parsed.iter().map(Vec::as_slice));
        for name in names.filter(|name| name[0] != 0) {
            for ustar in [&b""[..], b"ustar\x0000", b"ustar  \0"] {
                let mut header = tar_header(name, ustar);
                assert_eq!(Magic::identify(&header), Magic::Tar, "{}", name.escape_ascii());
                // Without the checksum, the longer magic counts, and formats of LLVM's tools come first.
                header[153] ^= 1;
                let is_longer = !ustar.is_empty() && name.len() <= 6;
                if magic::Magic::identify(&header) == magic::Magic::Unknown {
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
}
