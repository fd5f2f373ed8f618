//! Reads and writes offload binaries: device images with key and value strings, as OpenMP, CUDA, SYCL and the new HIP
//! driver embed them in host objects.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic 10 FF 10 AD |
//! | 4 | 4 | version |
//! | 8 | 8 | size of this offload binary in bytes |
//! | 16 | 8 | offset of the entries |
//! | 24 | 8 | v1: size of the one entry; v2, v3: number of entries |
//! | 32 | 8 | v3 only: size when inflated, 0 if not compressed |
//! | | | an entry: |
//! | +0 | 2 | image kind |
//! | +2 | 2 | offload kind |
//! | +4 | 4 | flags |
//! | +8 | 8 | offset of the string entries |
//! | +16 | 8 | number of string entries |
//! | +24 | 8 | offset of the image |
//! | +32 | 8 | size of the image in bytes |
//! | | | a string entry: |
//! | +0 | 8 | offset of the key, which is NUL-terminated |
//! | +8 | 8 | offset of the value, which is NUL-terminated |
//! | +16 | 8 | v2, v3: length of the value in bytes |
//!
//! Integers are little-endian; all offsets count from the start of the offload binary. A string that is the end of
//! another one shares its bytes. The images follow: the first at a multiple of 8, the others without padding, and zeros
//! after the last up to a multiple of 8. Version 1 holds one image; several images are several offload binaries, one
//! after another. In a compressed offload binary (v3), one zlib or zstd stream replaces everything after the header,
//! and the recorded size is that of header and stream.
//!
//! Layout: Clang Offload Packager documentation and LLVM 22.1.8 (v1), LLVM 23 (v2) and its successor (v3). HIP has the
//! number 4 since LLVM 21 and 3 before; both are read. The writer uses version 1 by default, byte for byte as LLVM
//! 22.1.8 does.
//!
//! Rejected: other versions, sizes and offsets beyond the data, unterminated strings, string tables whose total claimed
//! size exceeds the offload binary.
//!
//! # Which targets does it hold code for?
//!
//! ```
//! use offload_bundle::container::offload_binary::OffloadBinary;
//! use offload_bundle::container::sequence::{Bundles, Inflate};
//!
//! let data = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/offload/v3-zstd.offload"))?;
//! let container = OffloadBinary::default();
//! let mut targets = Vec::new();
//! for binary in Bundles::new(&data, &container, Inflate::AsNeeded) {
//!     for image in binary?.entries.iter().filter_map(|entry| entry.image.as_deref()) {
//!         targets.push((image.triple().to_vec(), image.arch().to_vec()));
//!     }
//! }
//! assert_eq!(targets[0], (b"amdgcn-amd-amdhsa".to_vec(), b"gfx906".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod read;
#[cfg(test)]
mod tests;
mod write;

use super::limits::Limits;
use super::magic::Magic;
use super::stream::Compressed;
use super::{Container, Contents, Entry, Member};
use crate::base::bytes;
use crate::base::error::{Malformed, Result};
use crate::base::id::{EntryId, OffloadKind};
use crate::base::io::input::Slice;
use crate::base::io::piece::Piece;

pub use write::{NewImage, plan};

/// The first bytes of an offload binary.
pub const MAGIC: [u8; 4] = [0x10, 0xff, 0x10, 0xad];

/// The alignment of offload binaries, and of the first image in each, in bytes.
pub const ALIGNMENT: u64 = 8;

/// The length of an entry in bytes.
const ENTRY_LEN: u64 = 40;

/// A version of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A single image. Supported by every reader.
    #[default]
    V1,
    /// Several images. Not supported by LLVM 22 and older.
    V2,
    /// Several images, optionally compressed. Not supported by LLVM 23 and older.
    V3,
}

impl Version {
    /// The version with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::V1, Self::V2, Self::V3].into_iter().find(|version| version.number() == number)
    }

    /// The number in the header.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// The length of the header in bytes.
    pub fn header_len(self) -> u64 {
        if self == Self::V3 { 40 } else { 32 }
    }

    fn string_entry_len(self) -> u64 {
        if self == Self::V1 { 16 } else { 24 }
    }
}

/// The kind of an image, as recorded in its entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageKind {
    /// Unknown.
    #[default]
    None,
    /// An object file.
    Object,
    /// LLVM bitcode.
    Bitcode,
    /// A CUDA object file.
    Cubin,
    /// A CUDA fat binary.
    FatBinary,
    /// CUDA PTX assembly.
    Ptx,
    /// SPIR-V. Unknown to LLVM 22 and older.
    SpirV,
    /// A SYCLBIN file, or a part of one, of Intel's DPC++.
    SyclBin,
    /// A number without a defined meaning.
    Other(u16),
}

impl ImageKind {
    /// The kinds that have a meaning, each at the index that is its number, with the extension of its files.
    const KNOWN: [(Self, &'static str); 8] = [
        (Self::None, ""),
        (Self::Object, "o"),
        (Self::Bitcode, "bc"),
        (Self::Cubin, "cubin"),
        (Self::FatBinary, "fatbin"),
        (Self::Ptx, "s"),
        // Unknown to LLVM 22, so its files have no extension there.
        (Self::SpirV, ""),
        (Self::SyclBin, ""),
    ];

    /// The kind with this number.
    pub fn from_number(number: u16) -> Self {
        match Self::KNOWN.get(usize::from(number)) {
            Some((kind, _)) => *kind,
            None => Self::Other(number),
        }
    }

    /// The number in the entry.
    pub fn number(self) -> u16 {
        if let Self::Other(number) = self {
            return number;
        }
        for (number, (kind, _)) in (0..).zip(Self::KNOWN) {
            if kind == self {
                return number;
            }
        }
        // Not reached: the list has all other kinds.
        0
    }

    /// The file extension of this kind, without the dot; empty if it has none.
    pub fn extension(self) -> &'static str {
        for (kind, extension) in Self::KNOWN {
            if kind == self {
                return extension;
            }
        }
        ""
    }

    /// The kind of files with this extension; [`ImageKind::None`] for an unknown extension.
    pub(crate) fn from_extension(extension: &[u8]) -> Self {
        for (kind, known) in Self::KNOWN {
            if known.as_bytes() == extension {
                return kind;
            }
        }
        Self::None
    }
}

/// Returns the number that LLVM 22.1.8 writes for an offload kind; 0 for a kind without a number. HIP was 3 up to LLVM
/// 20, which [`ImageInfo::offload_kind`] also reads.
pub fn kind_number(kind: Option<OffloadKind>) -> u16 {
    match kind {
        Some(OffloadKind::OpenMp) => 1,
        Some(OffloadKind::Cuda) => 2,
        Some(OffloadKind::Hip | OffloadKind::HipV4) => 4,
        Some(OffloadKind::Sycl) => 8,
        _ => 0,
    }
}

/// Keys and values, which may be any bytes.
pub type Strings = Vec<(Vec<u8>, Vec<u8>)>;

/// The data that an offload binary records for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageInfo {
    /// The kind of the image.
    pub image_kind: ImageKind,
    /// The number of the offload kind; [`ImageInfo::offload_kind`] returns its meaning.
    pub kind_number: u16,
    /// Flags, which no release defines yet.
    pub flags: u32,
    /// The strings in file order. If a key is repeated, its last value applies.
    pub strings: Strings,
}

impl ImageInfo {
    /// Returns the offload kind, or `None` if the number is 0 or undefined.
    pub fn offload_kind(&self) -> Option<OffloadKind> {
        match self.kind_number {
            1 => Some(OffloadKind::OpenMp),
            2 => Some(OffloadKind::Cuda),
            3 | 4 => Some(OffloadKind::Hip),
            8 => Some(OffloadKind::Sycl),
            _ => None,
        }
    }

    /// Returns the value of a key, or `None` if the image has no such key.
    pub fn string(&self, key: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.strings.iter().rev().find(|(known, _)| known == key)?;
        Some(value)
    }

    /// The target triple as recorded; empty if missing.
    pub fn triple(&self) -> &[u8] {
        self.string(b"triple").unwrap_or_default()
    }

    /// The architecture, which is a processor or a target ID; empty if missing.
    pub fn arch(&self) -> &[u8] {
        self.string(b"arch").unwrap_or_default()
    }

    /// The bundle entry ID of the image in its written form. If kind, triple and architecture do not form a valid ID,
    /// they are joined as recorded.
    pub fn entry_id(&self) -> Vec<u8> {
        if let (Some(kind), Some(triple), Some(arch)) =
            (self.offload_kind(), bytes::text(self.triple()), bytes::text(self.arch()))
            && let Ok(id) = EntryId::of_image(kind, &triple, &arch)
        {
            return id.to_string().into_bytes();
        }
        let kind = match self.offload_kind() {
            Some(kind) => kind.name(),
            None => "none",
        };
        [kind.as_bytes(), b"-", self.triple(), b"-", self.arch()].concat()
    }
}

/// The offload binary as a container. Its entries have the IDs that they would have in a bundle.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct OffloadBinary {
    /// The version to write.
    pub version: Version,
}

impl OffloadBinary {
    /// Plans a new offload binary of `members`.
    ///
    /// # Errors
    /// The error for an entry ID that cannot be parsed, and the errors of [`plan`].
    pub fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        let images = members.iter().map(|member| self.image_of(member)).collect::<Result<Vec<_>>>()?;
        plan(self.version, &images)
    }

    /// Returns the image for a member: with the kind, triple and target ID of its entry ID.
    fn image_of<'a>(self, member: &Member<'a>) -> Result<NewImage<'a>> {
        let id = EntryId::parse_recorded(&member.id)?;
        // A bundle entry ID pads the triple with a dash for its missing environment. Offload binaries record it
        // unpadded.
        let triple = id.triple().as_str().trim_end_matches('-').as_bytes().to_vec();
        let arch = id.target_id().to_string().into_bytes();
        let content = member.content;
        let image_kind = match Magic::identify(content.bytes()) {
            Magic::Bitcode => ImageKind::Bitcode,
            magic if magic.is_elf() => ImageKind::Object,
            _ => ImageKind::None,
        };
        let strings = vec![(b"triple".to_vec(), triple), (b"arch".to_vec(), arch)];
        let kind_number = kind_number(Some(id.kind()));
        Ok(NewImage { info: ImageInfo { image_kind, kind_number, flags: 0, strings }, content })
    }
}

impl Container for OffloadBinary {
    type Entry = Entry;

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        read::read(data, total, base)
    }

    fn compressed<'a>(&self, data: Slice<'a>, limits: Limits) -> Result<Option<Compressed<'a>>> {
        read::compressed(data, limits)
    }
}

/// The fields of a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) version: Version,
    /// The size in bytes: of header and stream if compressed.
    size: u64,
    entries_offset: u64,
    /// v1: the size of the one entry; v2, v3: the number of entries.
    entries: u64,
    /// The inflated size in bytes, 0 if not compressed.
    inflated: u64,
}

impl Header {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        bytes.extend(self.version.number().to_le_bytes());
        for field in [self.size, self.entries_offset, self.entries] {
            bytes.extend(field.to_le_bytes());
        }
        if self.version == Version::V3 {
            bytes.extend(self.inflated.to_le_bytes());
        }
        bytes
    }

    /// The number of entries.
    fn count(&self) -> u64 {
        if self.version == Version::V1 { 1 } else { self.entries }
    }

    /// The claimed size of all entries, in bytes.
    fn entries_len(&self) -> u64 {
        match self.version {
            Version::V1 => self.entries.max(ENTRY_LEN),
            Version::V2 | Version::V3 => self.entries.saturating_mul(ENTRY_LEN),
        }
    }
}
