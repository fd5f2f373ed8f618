//! Reads offload binaries. The [parent module](super) documents the layout and the rejected data.

use std::fmt::Arguments;
use std::sync::{Arc, OnceLock};

use memchr::memchr;

use super::{ENTRY_LEN, Header, ImageInfo, ImageKind, MAGIC, Strings, Version};
use crate::base::bytes::{self, Bounds, Cursor, len_u64};
use crate::base::error::{Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::llvm::container::limits::{
    Allowance, Limits, STRINGS_MAX, STRINGS_MIN, STRINGS_SHARED_MAX, check_entry_count,
};
use crate::llvm::container::stream::{Compressed, Method, PREFIX_LEN, Recorded};
use crate::llvm::container::{Contents, Entry, Part};

// The offsets of fields of the header: the offset of the entries, their number, and the inflated size.
const ENTRIES_OFFSET_AT: u64 = 16;
const ENTRIES_AT: u64 = 24;
const INFLATED_AT: u64 = 32;

/// The name of a compressed offload binary in messages.
const WHAT_COMPRESSED: &str = "compressed offload binary";

/// Reads the header at the start of `data`. Returns `None` without the magic. Offsets in errors count from `base`.
pub(crate) fn read_header(data: &[u8], base: u64) -> Result<Option<Header>, Malformed> {
    let Some(mut cursor) = Cursor::after(&MAGIC, data, base) else { return Ok(None) };
    let number = cursor.u32("the version of the offload binary")?;
    let version = Version::from_number(number);
    let version = version.ok_or_else(|| cursor.invalid("offload binary version", number, "1, 2 or 3"))?;
    let size = cursor.u64("the size of the offload binary")?;
    if size < version.header_len() {
        return Err(cursor.invalid("size of the offload binary", size, "at least the length of the header"));
    }
    let entries_offset = cursor.u64("the entry offset of the offload binary")?;
    let entries = cursor.u64("the entry size or count of the offload binary")?;
    let is_v3 = version == Version::V3;
    let inflated = if is_v3 { cursor.u64("the inflated size of the offload binary")? } else { 0 };
    Ok(Some(Header { version, size, entries_offset, entries, inflated }))
}

/// Reads the offload binary at the start of `data`, as [`Container::read`](crate::llvm::container::Container::read).
pub(super) fn read(data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
    read_with_limit(data, total, base, STRINGS_MAX)
}

/// Like [`read`], for tests with another limit on the bytes of all keys and values.
pub(super) fn read_with_limit(
    data: &[u8],
    total: u64,
    base: u64,
    strings_max: u64,
) -> Result<Option<Contents>, Malformed> {
    let Some(header) = read_header(data, base)? else { return Ok(None) };
    Bounds { base, len: total }.claim(0, header.size, "the offload binary")?;
    let bounds = Bounds { base, len: header.size };
    bounds.claim(header.entries_offset, header.entries_len(), "the table of entries")?;
    // `data` may be only the first bytes of the offload binary.
    let known = bytes::slice(data, 0, header.size).unwrap_or(data);
    let binary = PartialBinary { data: known, header, bounds };
    check_entry_count(header.count(), bounds.absolute(ENTRIES_AT))?;
    // Real images do not overlap, and neither do real tables of strings, so the size limits each of the two kinds. Real
    // strings share bytes, so together they may be longer than the offload binary. `STRINGS_MIN` is for small ones.
    let strings = header.size.saturating_mul(STRINGS_SHARED_MAX).saturating_add(STRINGS_MIN).min(strings_max);
    let [images, string_entries, strings] = [header.size, header.size, strings].map(Allowance::new);
    let mut budget = ImageBudget { images, string_entries, strings };
    let mut entries = Vec::new();
    for number in 0..header.count() {
        entries.push(binary.read_entry(number, &mut budget)?);
    }
    Ok(Some(Contents::new(entries, header.size)))
}

/// The remaining budget in bytes for all images and strings of an offload binary. Entries may refer to the same bytes,
/// so a small file could otherwise expand without bound.
struct ImageBudget {
    images: Allowance,
    /// The budget for the tables that locate keys and values.
    string_entries: Allowance,
    /// The budget for keys and values.
    strings: Allowance,
}

/// An offload binary, perhaps only its first bytes: a large compressed one is read while it is inflated.
struct PartialBinary<'a> {
    /// The bytes of the offload binary that are known so far.
    data: &'a [u8],
    header: Header,
    /// The bounds of the whole offload binary, which may be longer than the known bytes.
    bounds: Bounds,
}

impl<'a> PartialBinary<'a> {
    fn cursor(&self, offset: u64) -> Cursor<'a> {
        Cursor::new(bytes::tail(self.data, offset).unwrap_or_default(), self.bounds.absolute(offset))
    }

    /// Reads the entry `number`, counted from 0, and subtracts its image and its strings from the budget.
    fn read_entry(&self, number: u64, budget: &mut ImageBudget) -> Result<Entry, Malformed> {
        let entry_at = self.header.entries_offset.saturating_add(number.saturating_mul(ENTRY_LEN));
        let mut cursor = self.cursor(entry_at);
        let image_kind = ImageKind::from_number(cursor.u16(format_args!("the image kind of image {number}"))?);
        let kind_number = cursor.u16(format_args!("the offload kind of image {number}"))?;
        let flags = cursor.u32(format_args!("the flags of image {number}"))?;
        let strings_offset = cursor.u64(format_args!("the string offset of image {number}"))?;
        let strings_count = cursor.u64(format_args!("the number of strings of image {number}"))?;
        let start = cursor.u64(format_args!("the offset of image {number}"))?;
        let size = cursor.u64(format_args!("the size of image {number}"))?;
        let range = self.bounds.claim(start, size, format_args!("image {number}"))?;
        let at = self.bounds.absolute(start);
        let expected = "together with the other images no more than the offload binary holds";
        budget.images.claim("size of an image", size, at, expected)?;
        let strings = self.read_strings(number, strings_offset, strings_count, budget)?;
        let info = ImageInfo { image_kind, kind_number, flags, strings };
        let parts = vec![Part::Range(range)];
        Ok(Entry { id: info.entry_id(), parts, image: Some(Box::new(info)) })
    }

    /// Reads the keys and values of the image `number` through its table of strings: `count` string entries at
    /// `offset`. Subtracts the table and the strings from the budget.
    fn read_strings(
        &self,
        number: u64,
        offset: u64,
        count: u64,
        budget: &mut ImageBudget,
    ) -> Result<Strings, Malformed> {
        let len = count.saturating_mul(self.header.version.string_entry_len());
        self.bounds.claim(offset, len, format_args!("the table of strings of image {number}"))?;
        let at = self.bounds.absolute(offset);
        let expected = "together with those of the other images no more than the offload binary holds";
        budget.string_entries.claim("size of a table of strings", len, at, expected)?;
        let mut cursor = self.cursor(offset);
        let mut strings = Vec::new();
        for index in 0..count {
            let key_at = cursor.u64(format_args!("the key offset of string {index} of image {number}"))?;
            let value_at = cursor.u64(format_args!("the value offset of string {index} of image {number}"))?;
            let value_len = match self.header.version {
                Version::V1 => None,
                _ => Some(cursor.u64(format_args!("the value length of string {index} of image {number}"))?),
            };
            // In every version, keys end with a NUL.
            let key_len = None;
            let key =
                self.read_string(key_at, key_len, budget, format_args!("the key of string {index} of image {number}"))?;
            let value = self.read_string(
                value_at,
                value_len,
                budget,
                format_args!("the value of string {index} of image {number}"),
            )?;
            strings.push((key.to_vec(), value.to_vec()));
        }
        Ok(strings)
    }

    /// Reads a string of `len` bytes or, if `len` is `None` because none is recorded, up to the next NUL. `what` names
    /// the string in errors.
    fn read_string(
        &self,
        offset: u64,
        len: Option<u64>,
        budget: &mut ImageBudget,
        what: Arguments<'_>,
    ) -> Result<&'a [u8], Malformed> {
        let len = match len {
            Some(len) => len,
            None => {
                self.bounds.claim(offset, 1, what)?;
                let rest = bytes::tail(self.data, offset).unwrap_or_default();
                match memchr(0, rest) {
                    Some(end) => bytes::to_u64(end),
                    // The NUL is not in the known bytes. Claiming one more byte than they have is the error that asks
                    // for more bytes.
                    None => len_u64(rest).saturating_add(1),
                }
            }
        };
        self.bounds.claim(offset, len, what)?;
        let at = self.bounds.absolute(offset);
        let expected = "no more than 16 MiB for all strings together, and 16 times the size of the offload binary";
        budget.strings.claim("length of a string", len, at, expected)?;
        self.cursor(offset).take(len, what)
    }
}

/// Reads the header of the compressed offload binary at the start of `data`. Returns `None` if the data does not begin
/// like one.
pub(super) fn compressed(data: Slice<'_>, limits: Limits) -> Result<Option<Compressed<'_>>> {
    parse_compressed(data, limits).with_path(data.path())
}

/// Like [`compressed`], with errors that do not name the file.
fn parse_compressed(data: Slice<'_>, limits: Limits) -> Result<Option<Compressed<'_>>, Malformed> {
    let offset = data.offset();
    let Some(header) = read_header(data.bytes(), offset)? else { return Ok(None) };
    let is_plain = header.inflated == 0;
    if is_plain {
        return Ok(None);
    }
    limits.check(WHAT_COMPRESSED, offset, header.inflated)?;
    let Header { version, size, entries_offset, inflated, .. } = header;
    let header_len = version.header_len();
    if entries_offset != header_len {
        let expected = "40, the length of the header, as the offload binary is compressed";
        return Err(Malformed::value("entry offset", entries_offset, data.absolute(ENTRIES_OFFSET_AT), expected));
    }
    if inflated < header_len {
        let expected = "at least the length of the header";
        return Err(Malformed::value("inflated size", inflated, data.absolute(INFLATED_AT), expected));
    }
    let whole = data.claim(0, size, format_args!("the {WHAT_COMPRESSED}"))?;
    let body = whole.claim(header_len, size.saturating_sub(header_len), WHAT_COMPRESSED)?;
    let method = method_of(body.bytes());
    // The header is not in the stream. A reader of the inflated offload binary gets that of a plain one, whose size is
    // the inflated size.
    let prefix = Header { size: inflated, inflated: 0, ..header }.to_bytes().first_chunk::<PREFIX_LEN>().copied();
    let (what, version, total, hash) = (WHAT_COMPRESSED, version.number(), Some(size), None);
    let recorded = Recorded { what, version, method, total, inflated, hash };
    let stream_len = Arc::new(OnceLock::from(body.len()));
    Ok(Some(Compressed { recorded, offset, header_len, prefix, body, stream_len }))
}

/// Identifies the method of a stream by its first bytes.
fn method_of(stream: &[u8]) -> Method {
    if stream.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) { Method::Zstd } else { Method::Zlib }
}
