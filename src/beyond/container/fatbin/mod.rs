//! Reads CUDA fatbins, and writes them smaller.
//!
//! A fatbin is a header and entries, each a header and a code object:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic 0xBA55ED50 |
//! | 4 | 2 | version 1 |
//! | 6 | 2 | length of this header, 16 |
//! | 8 | 8 | length of all entries |
//!
//! An entry:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 2 | kind: 1 PTX; 2 and 16 ELF (cubin); 8 intermediate code (LTO-IR); 64 PTX that is linked at run time; 128 Tile IR; 256 several code objects compressed together |
//! | 2 | 2 | 0x0101 |
//! | 4 | 4 | length of this header with its strings |
//! | 8 | 8 | length of the code object as stored, padded with zeros to 8 |
//! | 16 | 4 | its exact length if it is compressed, otherwise 0 |
//! | 20 | 4 | offset of two numbers of 4 bytes: offset and length of the options; 0 if there are none |
//! | 24 | 2, 2 | minor, major version: of PTX, or of the ELF file |
//! | 28 | 4 | number of the SM architecture, such as 90 |
//! | 32 | 4, 4 | offset, length of the identifier (the source file); 0 if there is none |
//! | 40 | 8 | flags: see [`Image::flags`] |
//! | 56 | 8 | inflated length if it is compressed, otherwise 0 |
//!
//! Integers are little-endian; offsets count from the start of the entry. PTX ends in a zero byte, which is not part of
//! the code object. A plain cubin ends where its ELF headers say.
//!
//! An entry of kind 256 has at offset 64 the number of its records and their length, of 4 bytes each, and then the
//! records. A record is the header of an entry, with the offset of the code object in the inflated bytes at 4, and its
//! length at 8. The number at 68 is the length of the records with the two numbers. These code objects are padded to 8
//! in the inflated bytes.
//!
//! Sources: `fatbinary`, `ptxas` and `cuobjdump` of CUDA 12.9 and 13.5, observed. NVIDIA does not document the format.
//!
//! Rejected: another version, an entry that does not end inside the fatbin, strings outside their header, a code object
//! outside the inflated bytes, and everything that `container::packed` rejects.

mod record;
mod rewrite;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::entry::{SearchEntry, Stored};
use super::packed::{ContentEnd, Packed};
use super::sequence::SearchContainer;
use crate::base::bytes::{Bounds, Cursor, len_of, len_u64, number, slice, span, to_u64};
use crate::base::error::{Malformed, Result};
use crate::base::io::input::Slice;
use crate::beyond::code::elf;
use crate::beyond::codec::Codec;
use crate::beyond::limits::FAULTS_MAX;
use crate::llvm::container::limits::EntryAllowance;
use crate::llvm::container::stream::Compressed;
use crate::llvm::container::{Container, Contents, Limits};
use record::Record;
pub(crate) use rewrite::{CodePacking, made_for, rewrite};

/// The first bytes of a CUDA fatbin.
pub const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

/// The version of the format.
pub const VERSION: u32 = 1;

/// The length of the header of a fatbin, in bytes.
const HEADER_LEN: u64 = 16;

/// Headers and code objects are padded with zeros to a multiple of this length, in bytes.
const PADDING: u64 = 8;

/// The header may have attributes of the cubin, which is for sm_100 or later.
const FLAG_ATTRIBUTES: u64 = 0x100_0000;
/// The code object is for 64-bit addresses.
const FLAG_64_BIT: u64 = 0x1;
/// The code object is obfuscated.
const FLAG_OBFUSCATED: u64 = 0x1_0000;
/// The flags of compressed code objects. If several are set, the runtime uses the first. With the flag 0x4000,
/// `cuobjdump` calls a code object compressed, but does not inflate it.
const CODECS: [(u64, Codec); 5] = [
    (FLAG_OBFUSCATED, Codec::Unknown),
    (0x1000, Codec::Zlib),
    (0x2000, Codec::Lz4),
    (0x8000, Codec::Zstd),
    (0x4000, Codec::Unknown),
];
/// The code object is for one architecture (suffix `a`), or for its family (suffix `f`).
const FLAG_ARCHITECTURE: u64 = 0x10_0000;
const FLAG_FAMILY: u64 = 0x20_0000;

/// The form of a code object in a fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaKind {
    /// PTX assembly, which the driver compiles for any later GPU.
    Ptx,
    /// An ELF file for one SM architecture.
    Cubin,
    /// Intermediate code for optimisation when linking.
    LtoIr,
    /// Intermediate code of kernels that are written for tiles.
    TileIr,
    /// An unknown form, with its number.
    Other(u16),
}

/// Additional data of a code object in a fatbin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// The form of the code object.
    pub kind: CudaKind,
    /// The major and the minor version: of the language for PTX, and of ELF and its ABI for a cubin.
    pub version: (u16, u16),
    /// The number of the SM architecture, such as 90.
    pub sm: u32,
    /// Flags. The known ones are:
    ///
    /// | bit | meaning |
    /// |---|---|
    /// | 0x1 | 64-bit addresses |
    /// | 0x2 | debugging information |
    /// | 0x10, 0x20, 0x40 | host Linux, macOS, Windows |
    /// | 0x1000, 0x2000, 0x8000 | zlib, LZ4, zstd |
    /// | 0x10000 | obfuscated |
    /// | 0x100000, 0x200000 | architecture-specific (suffix `a`), family-specific (suffix `f`) |
    /// | 0x1000000 | a cubin for sm_100 or later |
    pub flags: u64,
    /// The identifier, which is the name of the source file; empty if there is none.
    pub source: Vec<u8>,
    /// Whether the code is PTX that a program links when it runs, as nvFatbin packs it.
    pub is_linked_at_run_time: bool,
}

impl Image {
    /// The architecture as `nvcc` spells it: `sm_90a`, `compute_90` for PTX, `lto_90` and `tileir_100` for intermediate
    /// code. For an unknown form, its number replaces `sm`: `kind32_90`.
    pub fn architecture(&self) -> String {
        let prefix = match self.kind {
            CudaKind::Ptx => "compute".to_owned(),
            CudaKind::Cubin => "sm".to_owned(),
            CudaKind::LtoIr => "lto".to_owned(),
            CudaKind::TileIr => "tileir".to_owned(),
            CudaKind::Other(number) => format!("kind{number}"),
        };
        let suffix = match (self.flags & FLAG_ARCHITECTURE, self.flags & FLAG_FAMILY) {
            (0, 0) => "",
            (0, _) => "f",
            _ => "a",
        };
        format!("{prefix}_{}{suffix}", self.sm)
    }

    /// Whether the code is stored in a form that only NVIDIA's linker undoes.
    pub(crate) fn is_obfuscated(&self) -> bool {
        self.flags & FLAG_OBFUSCATED != 0
    }

    fn entry_id(&self) -> Vec<u8> {
        let arch = if self.flags & FLAG_64_BIT == 0 { "nvptx" } else { "nvptx64" };
        format!("cuda-{arch}-nvidia-cuda--{}", self.architecture()).into_bytes()
    }
}

/// The fatbin format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fatbin;

/// Returns whether the field after the magic at the start of data is plausible.
pub(crate) fn is_plausible(data: &[u8]) -> bool {
    number::<2>(data, len_u64(&MAGIC)) == Some(VERSION.into())
}

impl Container for Fatbin {
    type Entry = SearchEntry;

    /// Reads a fatbin. After the fault of an entry, the next entries are still read.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<SearchEntry>>, Malformed> {
        if !data.starts_with(&MAGIC) {
            return Ok(None);
        }
        let entries_range = entries_range(data, base)?;
        let end = entries_range.end.min(total);
        let mut reader = EntryReader { data, entries: Vec::new(), faults: Vec::new(), room: EntryAllowance::new() };
        for record in Record::all(data, base, entries_range.start..end) {
            if reader.faults.len() == FAULTS_MAX {
                break;
            }
            if let Err(fault) = reader.read(record) {
                reader.faults.push(fault);
            }
        }
        // The file ends before the fatbin. If it ends inside of an entry, that entry has a fault already.
        if end < entries_range.end && reader.faults.is_empty() {
            let needed = entries_range.end.saturating_sub(HEADER_LEN);
            let bounds = Bounds { base, len: total };
            reader.faults.push(bounds.truncated(HEADER_LEN, needed, "the entries of the fatbin"));
        }
        Ok(Some(Contents { entries: reader.entries, len: end, faults: reader.faults }))
    }

    /// Returns `None`, because only single code objects are compressed.
    fn compressed<'a>(&self, _data: Slice<'a>, _limits: Limits) -> Result<Option<Compressed<'a>>> {
        Ok(None)
    }
}

impl SearchContainer for Fatbin {
    /// Returns a fault unless the fatbin is a multiple of 8 bytes after the first one.
    fn misplaced(&self, position: u64, offset: u64) -> Option<Malformed> {
        if position.is_multiple_of(PADDING) {
            return None;
        }
        Some(Malformed::value("distance of a fatbin from the first", position, offset, "a multiple of 8"))
    }
}

/// Returns the range of the entries of a fatbin, counted from its start. It may end after the data. `base` is the
/// offset of the fatbin in the file.
fn entries_range(data: &[u8], base: u64) -> Result<Range<u64>, Malformed> {
    let mut cursor = Cursor::new(data, base);
    cursor.take(len_u64(&MAGIC), "the magic of the fatbin")?;
    let version = cursor.u16("the version of the fatbin")?;
    if u32::from(version) != VERSION {
        return Err(cursor.invalid("fatbin version", version, "1"));
    }
    let header_len = u64::from(cursor.u16("the header length of the fatbin")?);
    if header_len < HEADER_LEN {
        return Err(cursor.invalid("fatbin header length", header_len, "16 or more"));
    }
    let len = cursor.u64("the length of the fatbin")?;
    match header_len.checked_add(len) {
        Some(end) => Ok(header_len..end),
        None => Err(cursor.invalid("fatbin length", len, "less than 2^64 bytes with the header")),
    }
}

/// The state of reading the entries of a fatbin.
struct EntryReader<'a> {
    data: &'a [u8],
    entries: Vec<SearchEntry>,
    faults: Vec<Malformed>,
    /// The limit on the number of entries and on their IDs.
    room: EntryAllowance,
}

impl EntryReader<'_> {
    /// Reads the code objects of an entry.
    fn read(&mut self, record: Result<Record<'_>, Malformed>) -> Result<(), Malformed> {
        let record = record?;
        match record.parts()? {
            None => self.read_single(&record),
            Some(parts) => self.read_concatenated(&record, &parts),
        }
    }

    /// Reads an entry of a single code object, compressed or not.
    fn read_single(&mut self, record: &Record<'_>) -> Result<(), Malformed> {
        let image = record.image()?;
        let stored = record.stored()?;
        let content = match record.codec() {
            Some(codec) => {
                // An unknown method may not record the inflated length. The stored length takes its place.
                let is_unknown = codec == Codec::Unknown && record.fields.inflated == 0;
                let inflated = if is_unknown { record.fields.stored_len } else { record.fields.inflated };
                let (end, len) = match image.kind {
                    CudaKind::Ptx => (ContentEnd::BeforeZero, inflated.saturating_sub(1)),
                    _ => (ContentEnd::Exact, inflated),
                };
                Stored::Packed(Packed { range: 0..len, end, ..Packed::whole(stored, codec, inflated) })
            }
            None => self.plain_content(image.kind, stored.start, len_of(&stored)),
        };
        self.push(record, image, content)
    }

    /// Reads an entry of several code objects that are compressed together.
    fn read_concatenated(&mut self, record: &Record<'_>, parts: &[Record<'_>]) -> Result<(), Malformed> {
        let (stored, codec) = (record.stored()?, record.codec());
        let inflated = if codec.is_some() { record.fields.inflated } else { len_of(&stored) };
        let whole_bounds = Bounds { base: 0, len: inflated };
        for part in parts {
            let (start, padded_len) = (part.offset_in_whole(), part.fields.stored_len);
            let range = whole_bounds.claim(start, padded_len, "a code object that is compressed with others")?;
            let image = part.image()?;
            let content = match codec {
                Some(codec) => {
                    let end = ContentEnd::Padded(image.kind);
                    Stored::Packed(Packed { range, end, ..Packed::whole(stored.clone(), codec, inflated) })
                }
                None => self.plain_content(image.kind, stored.start.saturating_add(start), padded_len),
            };
            self.push(part, image, content)?;
        }
        Ok(())
    }

    /// Finds the end of a plain code object that is padded to `padded_len` bytes. Its `start` counts from the start of
    /// the fatbin.
    fn plain_content(&self, kind: CudaKind, start: u64, padded_len: u64) -> Stored {
        let len = plain_len(kind, slice(self.data, start, padded_len).unwrap_or_default());
        Stored::Range(span(start, len))
    }

    /// Adds an entry with this image, unless there are too many.
    fn push(&mut self, record: &Record<'_>, image: Image, stored: Stored) -> Result<(), Malformed> {
        let id = image.entry_id();
        self.room.take(&id, record.offset())?;
        self.entries.push(SearchEntry { cuda: Some(Box::new(image)), ..SearchEntry::new(id, stored) });
        Ok(())
    }
}

/// Returns the length in bytes of a plain code object without its padding of zeros. Returns the length of all bytes if
/// nothing shows where the code object ends.
pub(super) fn plain_len(kind: CudaKind, padded: &[u8]) -> u64 {
    let len = len_u64(padded);
    // Up to seven zeros of padding, and the zero byte after PTX.
    let zeros = padded.iter().rev().take(8).take_while(|&&byte| byte == 0).count();
    let without_zeros = len.saturating_sub(to_u64(zeros));
    match kind {
        CudaKind::Ptx => without_zeros,
        CudaKind::Cubin => {
            let Some(header) = elf::Header::read(padded) else { return len };
            // An end before the zeros would drop code, and an end after them is outside of the bytes.
            match header.tables_end() {
                Some(end) if (without_zeros..=len).contains(&end) => end,
                _ => len,
            }
        }
        CudaKind::LtoIr | CudaKind::TileIr | CudaKind::Other(_) => len,
    }
}
