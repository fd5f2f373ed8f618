//! Writing offload binaries, version 1 byte for byte as LLVM 22.1.8 does. Layout as in the [module above](super).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use super::{ALIGNMENT, ENTRY_LEN, Header, ImageInfo, Version};
use crate::bytes::{self, len_u64};
use crate::container::stream::{Compression, deflate};
use crate::error::Result;
use crate::io::input::Slice;
use crate::io::meter::Meter;
use crate::io::output::Output;
use crate::io::piece::{Piece, Sink, total_len};

/// An image to be written.
#[derive(Clone, Debug)]
pub struct NewImage<'a> {
    /// What is recorded of it; the strings are written in this order.
    pub info: ImageInfo,
    /// The image itself.
    pub content: Slice<'a>,
}

/// The pieces of offload binaries with these images: one for each in version 1, one for all of them otherwise. Without
/// images there is nothing to write.
pub fn plan<'a>(version: Version, images: &[NewImage<'a>]) -> Vec<Piece<'a>> {
    match version {
        Version::V1 => images.iter().flat_map(|image| plan_one(version, std::slice::from_ref(image))).collect(),
        Version::V2 | Version::V3 if images.is_empty() => Vec::new(),
        Version::V2 | Version::V3 => plan_one(version, images),
    }
}

fn plan_one<'a>(version: Version, images: &[NewImage<'a>]) -> Vec<Piece<'a>> {
    let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
    let string_entries_len =
        |image: &NewImage<'_>| count(image.info.strings.len()).saturating_mul(version.string_entry_len());
    let entries_len = count(images.len()).saturating_mul(ENTRY_LEN);
    let mut string_offset = version.header_len().saturating_add(entries_len);
    let table_offset = images.iter().map(string_entries_len).fold(string_offset, u64::saturating_add);
    let table = StringTable::of(images);
    let table_end = table_offset.saturating_add(len_u64(&table.bytes));
    let images_offset = table_end.next_multiple_of(ALIGNMENT);
    let images_end = images.iter().map(|image| image.content.len()).fold(images_offset, u64::saturating_add);
    let size = images_end.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);

    let (entries_offset, inflated) = (version.header_len(), 0);
    let entries = if version == Version::V1 { ENTRY_LEN } else { count(images.len()) };
    let mut header = Header { version, size, entries_offset, entries, inflated }.to_bytes();
    let mut image_offset = images_offset;
    let mut string_entries = Vec::new();
    for image in images {
        header.extend(image.info.image_kind.number().to_le_bytes());
        header.extend(image.info.kind_number.to_le_bytes());
        header.extend(image.info.flags.to_le_bytes());
        for field in [string_offset, count(image.info.strings.len()), image_offset, image.content.len()] {
            header.extend(field.to_le_bytes());
        }
        for (key, value) in &image.info.strings {
            let offsets = [key, value].map(|text| table_offset.saturating_add(table.offset(text)));
            offsets.iter().for_each(|offset| string_entries.extend(offset.to_le_bytes()));
            if version != Version::V1 {
                string_entries.extend(len_u64(value).to_le_bytes());
            }
        }
        string_offset = string_offset.saturating_add(string_entries_len(image));
        image_offset = image_offset.saturating_add(image.content.len());
    }
    header.extend(string_entries);
    header.extend(table.bytes);
    header.resize(usize::try_from(images_offset).unwrap_or(header.len()), 0);
    let mut pieces = vec![Piece::Bytes(header)];
    pieces.extend(images.iter().map(|image| Piece::Input(image.content)));
    pieces.push(Piece::Zeros(size.saturating_sub(images_end)));
    pieces
}

/// The strings of an offload binary, each once, and none that another one ends with.
///
/// The order is that of LLVM's string tables: from the last byte backwards, the higher byte first, and the longer string
/// before the one that it ends with.
struct StringTable<'s> {
    bytes: Vec<u8>,
    offsets: HashMap<&'s [u8], u64>,
}

impl<'s> StringTable<'s> {
    fn of(images: &'s [NewImage<'_>]) -> Self {
        let strings = images.iter().flat_map(|image| &image.info.strings);
        let mut sorted: Vec<&[u8]> = strings.flat_map(|(key, value)| [key.as_slice(), value]).collect();
        sorted.sort_unstable_by(|a, b| b.iter().rev().cmp(a.iter().rev()));
        sorted.dedup();
        // The empty string is the NUL in front, not one behind another string.
        let mut table = Self { bytes: vec![0], offsets: HashMap::from([(&b""[..], 0)]) };
        let mut last: &[u8] = b"";
        for string in sorted.into_iter().filter(|string| !string.is_empty()) {
            if !last.ends_with(string) {
                table.bytes.extend(string);
                table.bytes.push(0);
                last = string;
            }
            let len_with_nul = len_u64(string).saturating_add(1);
            table.offsets.insert(string, len_u64(&table.bytes).saturating_sub(len_with_nul));
        }
        table
    }

    fn offset(&self, string: &[u8]) -> u64 {
        self.offsets.get(string).copied().unwrap_or_default()
    }
}

/// Writes one compressed offload binary of version 3 with these images into `output`, which must be empty.
pub(crate) fn write_compressed(
    images: &[NewImage<'_>],
    compression: &Compression,
    output: &mut Output,
    meter: &mut Meter<'_>,
) -> Result<()> {
    let mut pieces = plan(Version::V3, images);
    let inflated = total_len(&pieces);
    let header_len = Version::V3.header_len();
    let Some(Piece::Bytes(head)) = pieces.first_mut() else { return Ok(()) };
    // The header of the inflated form does not go into the stream.
    *head = head.split_off(usize::try_from(header_len).unwrap_or_default());
    let stream_len = deflate(&pieces, compression, header_len, output, meter)?;
    let size = header_len.saturating_add(stream_len);
    let padding = size.next_multiple_of(ALIGNMENT).saturating_sub(size);
    output.write(bytes::slice(&[0; 8], 0, padding).unwrap_or_default())?;
    let (version, entries) = (Version::V3, u64::try_from(images.len()).unwrap_or(u64::MAX));
    output.write_at_start(&Header { version, size, entries_offset: header_len, entries, inflated }.to_bytes())
}
