//! Reads and writes the formats according to their descriptions, independent of the library.

use std::io::Read as _;

use md5::{Digest as _, Md5};

pub const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The maximum inflated size of a stream; the rest is ignored.
pub const INFLATED_MAX: usize = 32 << 20;

/// The method number used here for deflate without the frame of zlib, as in zip files. No header contains it.
pub const RAW_DEFLATE: u16 = u16::MAX;

/// A binary bundle of IDs and contents, each content at a multiple of `align`.
pub fn binary<I: AsRef<[u8]>, C: AsRef<[u8]>>(entries: &[(I, C)], align: usize) -> Vec<u8> {
    let mut offset = MAGIC.len() + 8 + entries.iter().map(|(id, _)| 24 + id.as_ref().len()).sum::<usize>();
    let mut header = [MAGIC, &number(entries.len())].concat();
    let mut payload = Vec::new();
    for (id, content) in entries {
        let (id, content) = (id.as_ref(), content.as_ref());
        let start = offset.next_multiple_of(align);
        payload.resize(payload.len() + start - offset, 0);
        payload.extend(content);
        offset = start + content.len();
        header.extend([number(start), number(content.len()), number(id.len())].concat());
        header.extend(id);
    }
    [header, payload].concat()
}

/// The number in eight bytes, little-endian.
pub fn number(number: usize) -> [u8; 8] {
    u64::try_from(number).unwrap().to_le_bytes()
}

/// The number in up to eight bytes, little-endian.
pub fn read_number(data: &[u8]) -> u64 {
    data.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A marker line of a text bundle.
pub fn marker(comment: &str, word: &str, id: &[u8]) -> Vec<u8> {
    [b"\n", comment.as_bytes(), b" ", MAGIC, b"__", word.as_bytes(), b"__ ", id, b"\n"].concat()
}

/// The header of a compressed bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ccob {
    pub version: u16,
    pub method: u16,
    pub total: Option<u64>,
    pub inflated: u64,
    pub hash: u64,
    pub header_len: usize,
}

impl Ccob {
    /// Reads the header at the start of the data.
    pub fn read(data: &[u8]) -> Option<Self> {
        let field = |at: usize, len: usize| Some(read_number(data.get(at..at + len)?));
        if !data.starts_with(b"CCOB") {
            return None;
        }
        let version = u16::try_from(field(4, 2)?).ok()?;
        let method = u16::try_from(field(6, 2)?).ok()?;
        let (total, inflated_at, width) = match version {
            1 => (None, 8, 4),
            2 => (Some(field(8, 4)?), 12, 4),
            3 => (Some(field(8, 8)?), 16, 8),
            _ => return None,
        };
        let (inflated, hash) = (field(inflated_at, width)?, field(inflated_at + width, 8)?);
        Some(Self { version, method, total, inflated, hash, header_len: inflated_at + width + 8 })
    }
}

/// The hash that compressed bundles record.
pub fn hash(payload: &[u8]) -> u64 {
    read_number(&Md5::digest(payload)[..8])
}

/// Inflates a stream as far as possible, up to [`INFLATED_MAX`] bytes. Method 0 is zlib, [`RAW_DEFLATE`] is raw
/// deflate, any other is zstd.
pub fn inflate(method: u16, stream: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    let limit = u64::try_from(INFLATED_MAX).unwrap();
    if method == 0 {
        drop(flate2::read::ZlibDecoder::new(stream).take(limit).read_to_end(&mut payload));
    } else if method == RAW_DEFLATE {
        drop(flate2::read::DeflateDecoder::new(stream).take(limit).read_to_end(&mut payload));
    } else if let Ok(mut decoder) = zstd::Decoder::new(stream) {
        decoder.window_log_max(31).unwrap();
        drop(decoder.take(limit).read_to_end(&mut payload));
    }
    payload
}
