//! What a search recognises, but does not read.
//!
//! | a file, or a part of one, that has | is |
//! |---|---|
//! | `50 ED 55 BA` | a CUDA fatbin |
//! | `KPAK` | a kpack archive: the code objects of a split ROCm library |
//! | `03 02 23 07` or the reverse | a SPIR-V module |
//! | the magic of an archive or a compressor | something that may hold any file |
//!
//! A format that becomes readable loses its row here and gets one in `walk.rs`.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::image::{FAT_BINARY, SPIR_V};
use crate::bytes::slice;

/// A format that is recognised, but not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unread {
    name: &'static str,
    holds: Holding,
}

/// What something holds that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holding {
    DeviceCode,
    Anything,
}

impl Unread {
    /// A format of device code.
    pub(super) const fn device_code(name: &'static str) -> Self {
        Self { name, holds: Holding::DeviceCode }
    }

    /// A format that may hold any file.
    pub(super) const fn anything(name: &'static str) -> Self {
        Self { name, holds: Holding::Anything }
    }

    /// What it is, such as `CUDA fatbin`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether it holds device code for certain. A compressed archive, for example, may hold anything.
    pub fn is_device_code(self) -> bool {
        self.holds == Holding::DeviceCode
    }

    /// The format of a file, or a part of one, that begins with `head`.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let has = |offset: u64, magic: &[u8]| {
            slice(head, offset, u64::try_from(magic.len()).unwrap_or(u64::MAX)).is_some_and(|found| found == magic)
        };
        FORMATS.iter().find(|(offset, magic, _)| has(*offset, magic)).map(|(_, _, unread)| *unread)
    }
}

/// Offset and magic of the formats.
const FORMATS: [(u64, &[u8], Unread); 25] = [
    (0, &FAT_BINARY, Unread::device_code("CUDA fatbin")),
    (0, b"KPAK", Unread::device_code("kpack archive")),
    (0, &SPIR_V[0], Unread::device_code("SPIR-V module")),
    (0, &SPIR_V[1], Unread::device_code("SPIR-V module")),
    (257, b"ustar", Unread::anything("tar archive")),
    (0, &[0x1f, 0x8b, 8], Unread::anything("gzip file")),
    (0, b"\xfd7zXZ\0", Unread::anything("xz file")),
    (4, b"1AY&SY", Unread::anything("bzip2 file")),
    (0, &[0x28, 0xb5, 0x2f, 0xfd], Unread::anything("zstd file")),
    (0, &[0x04, 0x22, 0x4d, 0x18], Unread::anything("LZ4 file")),
    (0, b"LZIP", Unread::anything("lzip file")),
    (0, b"7z\xbc\xaf\x27\x1c", Unread::anything("7-Zip archive")),
    (0, &[0xed, 0xab, 0xee, 0xdb], Unread::anything("RPM package")),
    (0, b"070701", Unread::anything("cpio archive")),
    (0, b"070702", Unread::anything("cpio archive")),
    (0, b"070707", Unread::anything("cpio archive")),
    (0, b"hsqs", Unread::anything("SquashFS image")),
    (0, b"MSCF\0\0\0\0", Unread::anything("cabinet file")),
    (0, b"xar!", Unread::anything("xar archive")),
    (0, &[0xfe, 0xed, 0xfa, 0xce], Unread::anything("Mach-O file")),
    (0, &[0xfe, 0xed, 0xfa, 0xcf], Unread::anything("Mach-O file")),
    (0, &[0xce, 0xfa, 0xed, 0xfe], Unread::anything("Mach-O file")),
    (0, &[0xcf, 0xfa, 0xed, 0xfe], Unread::anything("Mach-O file")),
    // Programs for Windows are read as PE files, unless the header that says so is broken.
    (0, b"MZ", Unread::anything("program without a PE header")),
    (0, b"\0asm", Unread::anything("WebAssembly module")),
];

/// An ELF file whose sections, in which device code would be found, are not named.
pub(super) const NO_SECTIONS: Unread = Unread::anything("ELF file without section headers");

/// A section for device code that has none of its own: the file holds nothing but debugging information, or was split.
pub(super) const NO_CONTENT: Unread = Unread::anything("section for device code without content in this file");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_their_magic() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (head, name) in [
            (&tar[..], Some("tar archive")),
            (b"KPAK\x01", Some("kpack archive")),
            (b"\x50\xed\x55\xba\x01", Some("CUDA fatbin")),
            (b"BZh91AY&SY", Some("bzip2 file")),
            (b"\xfd7zXZ", None),
            (b"", None),
            (b"text", None),
        ] {
            assert_eq!(Unread::of(head).map(Unread::name), name, "{}", head.escape_ascii());
        }
        let certain = FORMATS.iter().filter(|(_, _, unread)| unread.is_device_code()).count();
        assert_eq!(certain, 4);
    }
}
