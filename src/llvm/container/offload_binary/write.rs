//! Writes offload binaries, version 1 byte for byte as LLVM 22.1.8 does. The [parent module](super) documents the
//! layout.

use std::collections::HashMap;

use super::{ALIGNMENT, ENTRY_LEN, Header, ImageInfo, Version};
use crate::base::bytes::len_u64;
use crate::base::error::{Error, Result};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, sum, too_long};

/// An image to write.
#[derive(Clone, Debug)]
pub struct NewImage<'a> {
    /// The recorded data; the strings are written in this order.
    pub info: ImageInfo,
    /// The image itself.
    pub content: Slice<'a>,
}

/// Plans offload binaries with these images: one offload binary for each image in version 1, otherwise one for all of
/// them. Without images the list is empty.
///
/// # Errors
/// Only if the images together have 2^64 bytes or more.
pub fn plan<'a>(version: Version, images: &[NewImage<'a>]) -> Result<Vec<Piece<'a>>> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    if version != Version::V1 {
        return plan_one(version, images);
    }
    let mut pieces = Vec::new();
    for image in images {
        pieces.extend(plan_one(version, std::slice::from_ref(image))?);
    }
    Ok(pieces)
}

/// Plans one offload binary with all `images`.
fn plan_one<'a>(version: Version, images: &[NewImage<'a>]) -> Result<Vec<Piece<'a>>> {
    let strings = StringTable::of(images)?;
    let layout = Layout::new(version, images, &strings)?;
    let size = aligned(layout.images_end)?;
    // Version 1 records the size of its one entry, later versions the number of entries.
    let entries = if version == Version::V1 { ENTRY_LEN } else { count_u64(images.len())? };
    // An inflated size of 0 says that the offload binary is not compressed.
    let header = Header { version, size, entries_offset: version.header_len(), entries, inflated: 0 };
    let mut head = header.to_bytes();
    head.extend(encode_entries(version, images, &layout)?);
    head.extend(encode_string_entries(version, images, &strings, layout.strings)?);
    head.extend(strings.bytes);
    // Zeros align the first image. The others follow it without padding.
    head.resize(usize::try_from(layout.images).map_err(|_| too_long())?, 0);
    let mut pieces = vec![Piece::Bytes(head)];
    pieces.extend(images.iter().map(|image| Piece::Input(image.content)));
    pieces.push(Piece::Zeros(size.saturating_sub(layout.images_end)));
    Ok(pieces)
}

/// The offsets of the parts of an offload binary, which follow the header and the entries in this order.
struct Layout {
    string_entries: u64,
    strings: u64,
    images: u64,
    images_end: u64,
}

impl Layout {
    /// Computes the offsets. Only the first image is aligned: the others follow it without padding.
    fn new(version: Version, images: &[NewImage<'_>], strings: &StringTable<'_>) -> Result<Self> {
        let string_entries = sum([version.header_len(), table_len(images.len(), ENTRY_LEN)?])?;
        let mut strings_offset = string_entries;
        for image in images {
            strings_offset = sum([strings_offset, string_entries_len(version, image)?])?;
        }
        let images_offset = aligned(sum([strings_offset, len_u64(&strings.bytes)])?)?;
        let images_len = sum(images.iter().map(|image| image.content.len()))?;
        let images_end = sum([images_offset, images_len])?;
        Ok(Self { string_entries, strings: strings_offset, images: images_offset, images_end })
    }
}

/// Encodes the entry of each image. String entries and images are stored in the order of the entries.
fn encode_entries(version: Version, images: &[NewImage<'_>], layout: &Layout) -> Result<Vec<u8>> {
    let (mut string_entries_offset, mut image_offset) = (layout.string_entries, layout.images);
    let mut bytes = Vec::new();
    for image in images {
        bytes.extend(image.info.image_kind.number().to_le_bytes());
        bytes.extend(image.info.kind_number.to_le_bytes());
        bytes.extend(image.info.flags.to_le_bytes());
        let (strings_count, image_len) = (count_u64(image.info.strings.len())?, image.content.len());
        for field in [string_entries_offset, strings_count, image_offset, image_len] {
            bytes.extend(field.to_le_bytes());
        }
        string_entries_offset = sum([string_entries_offset, string_entries_len(version, image)?])?;
        image_offset = sum([image_offset, image_len])?;
    }
    Ok(bytes)
}

/// Encodes the string entries of all images: the offsets of key and value in `strings`, which begin at
/// `strings_offset`, and from version 2 on the length of the value.
fn encode_string_entries(
    version: Version,
    images: &[NewImage<'_>],
    strings: &StringTable<'_>,
    strings_offset: u64,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (key, value) in images.iter().flat_map(|image| &image.info.strings) {
        for text in [key, value] {
            bytes.extend(sum([strings_offset, strings.offset(text)?])?.to_le_bytes());
        }
        if version != Version::V1 {
            bytes.extend(len_u64(value).to_le_bytes());
        }
    }
    Ok(bytes)
}

/// The length of the string entries of one image in bytes.
fn string_entries_len(version: Version, image: &NewImage<'_>) -> Result<u64> {
    table_len(image.info.strings.len(), version.string_entry_len())
}

/// The length in bytes of a table of `rows`, each of `row_len` bytes.
fn table_len(rows: usize, row_len: u64) -> Result<u64> {
    count_u64(rows)?.checked_mul(row_len).ok_or_else(too_long)
}

fn count_u64(count: usize) -> Result<u64> {
    u64::try_from(count).map_err(|_| too_long())
}

fn aligned(offset: u64) -> Result<u64> {
    offset.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_long)
}

/// The strings of an offload binary, each once; a string that is the end of another one shares its bytes.
///
/// The order is that of LLVM's string tables: compared from the last byte backwards, the higher byte first, and the
/// longer string before its own suffix.
struct StringTable<'s> {
    bytes: Vec<u8>,
    offsets: HashMap<&'s [u8], u64>,
}

impl<'s> StringTable<'s> {
    /// The table of all keys and values of these images.
    fn of(images: &'s [NewImage<'_>]) -> Result<Self> {
        let mut sorted: Vec<&[u8]> = Vec::new();
        for image in images {
            for (key, value) in &image.info.strings {
                sorted.extend([key.as_slice(), value]);
            }
        }
        // The empty string is not sorted: LLVM puts it at the start of the table, as a single NUL.
        sorted.retain(|string| !string.is_empty());
        // In this order, a string that is the end of others directly follows one of them, and can share its bytes.
        sorted.sort_unstable_by(|a, b| b.iter().rev().cmp(a.iter().rev()));
        sorted.dedup();
        let mut table = Self { bytes: vec![0], offsets: HashMap::from([(&b""[..], 0)]) };
        let mut last: &[u8] = b"";
        for string in sorted {
            if !last.ends_with(string) {
                table.bytes.extend(string);
                table.bytes.push(0);
                last = string;
            }
            // The table ends with `last`, so also with this string and its NUL.
            let len_with_nul = sum([len_u64(string), 1])?;
            let offset = len_u64(&table.bytes).checked_sub(len_with_nul).ok_or_else(no_string)?;
            table.offsets.insert(string, offset);
        }
        Ok(table)
    }

    fn offset(&self, string: &[u8]) -> Result<u64> {
        self.offsets.get(string).copied().ok_or_else(no_string)
    }
}

fn no_string() -> Error {
    Error::internal("a string is not in its table")
}
