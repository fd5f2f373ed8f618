//! Identifies the format of a file or code object by its first bytes, as far as LLVM's tools tell formats apart.

use object::pe::ANON_OBJECT_HEADER_BIGOBJ_CLASS_ID;
use object::{FileKind, archive};

use crate::base::bytes::{array, slice};
use crate::llvm::container::{bitcode, offload_binary};

/// The first word of a SPIR-V module, which sets the byte order of all words.
pub(crate) const SPIR_V: u32 = 0x0723_0203;

/// A format, identified by the first bytes. The rest may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magic {
    OffloadBinary,
    Bitcode,
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
    SpirV,
    /// Any other format.
    Unknown,
}

/// The first bytes of the formats that have a magic. The `object` crate identifies the other ones.
pub(crate) const MAGICS: [(&[u8], Magic); 10] = [
    (&archive::MAGIC, Magic::Archive),
    (&archive::THIN_MAGIC, Magic::Archive),
    (&archive::AIX_BIG_MAGIC, Magic::Archive),
    (&offload_binary::MAGIC, Magic::OffloadBinary),
    (&bitcode::MAGIC, Magic::Bitcode),
    (&bitcode::WRAPPER_MAGIC, Magic::Bitcode),
    (&SPIR_V.to_le_bytes(), Magic::SpirV),
    (&SPIR_V.to_be_bytes(), Magic::SpirV),
    (b"\x7fELF", Magic::BrokenElf),
    (b"\0asm", Magic::Wasm),
];

impl Magic {
    /// Identifies the format of a file by `data`, its first bytes.
    pub(crate) fn identify(data: &[u8]) -> Self {
        match FileKind::parse(data) {
            Ok(FileKind::Elf32 | FileKind::Elf64) => Self::Elf,
            Ok(FileKind::Coff | FileKind::CoffBig) => Self::Coff,
            Ok(FileKind::CoffImport) => Self::CoffImport,
            Ok(FileKind::Pe32 | FileKind::Pe64) => Self::Pe,
            Ok(FileKind::MachO32 | FileKind::MachO64) => Self::MachO,
            Ok(FileKind::Xcoff32 | FileKind::Xcoff64) => Self::Xcoff,
            _ => match MAGICS.iter().find(|(magic, _)| data.starts_with(magic)) {
                Some((_, format)) => *format,
                None => Self::Unknown,
            },
        }
    }

    /// Whether this is an ELF file of any kind.
    pub(crate) fn is_elf(self) -> bool {
        matches!(self, Self::Elf | Self::BrokenElf)
    }
}

/// Whether LLVM 22.1.8 treats an ELF file that begins with `head` as an object, a program or a library. LLVM looks only
/// at the type in the header, even if the rest of the header is broken.
pub(crate) fn is_elf_object(head: &[u8]) -> bool {
    // As in LLVM, an unknown byte order is little-endian.
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

    #[test]
    fn formats_are_told_by_how_they_begin() {
        for (head, magic) in [
            (&b""[..], Magic::Unknown),
            (b"text", Magic::Unknown),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0", Magic::Elf),
            (b"\x7fELF\x03\x01\x01\0\0\0\0\0\0\0\0\0\x01\0", Magic::BrokenElf),
            (b"\x7fELF", Magic::BrokenElf),
            (b"\x64\x86\x03\0\0\0\0\0\0\0\0\0\0\0\0\0", Magic::Coff),
            (b"!<thin>\n", Magic::Archive),
            (b"\x07\x23\x02\x03", Magic::SpirV),
            (b"\x10\xff\x10\xad\x01", Magic::OffloadBinary),
            (b"MZ", Magic::Unknown),
            (b"PK\x03\x04", Magic::Unknown),
        ] {
            assert_eq!(Magic::identify(head), magic, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn no_row_hides_another() {
        for (index, (magic, kind)) in MAGICS.iter().enumerate() {
            assert_eq!(Magic::identify(magic), *kind, "row {index}");
        }
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
