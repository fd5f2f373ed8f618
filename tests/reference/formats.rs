//! Writes and reads the bundle formats from their description, independent of both tools.

use std::io::{Read as _, Write as _};

use md5::{Digest as _, Md5};

pub use crate::properties::formats::MAGIC;
use crate::properties::formats::{self, number};

/// A binary bundle.
pub fn binary(entries: &[(&str, &[u8])], align: usize) -> Vec<u8> {
    formats::binary(entries, align)
}

/// A text bundle.
pub fn text(comment: &str, entries: &[(&str, &[u8])]) -> Vec<u8> {
    let line = |word: &str, id: &str| format!("\n{comment} __CLANG_OFFLOAD_BUNDLE____{word}__ {id}\n").into_bytes();
    entries.iter().flat_map(|(id, content)| [line("START", id), content.to_vec(), line("END", id)].concat()).collect()
}

/// The comment prefix of a text type.
pub fn comment(file_type: &str) -> Option<&'static str> {
    match file_type {
        "i" | "ii" | "cui" | "hipi" => Some("//"),
        "d" | "s" => Some("#"),
        "ll" => Some(";"),
        _ => None,
    }
}

/// A bundle of this file type.
pub fn bundle(file_type: &str, entries: &[(&str, &[u8])]) -> Vec<u8> {
    comment(file_type).map_or_else(|| binary(entries, 1), |comment| text(comment, entries))
}

/// A compressed bundle.
#[derive(Debug, PartialEq, Eq)]
pub struct Ccob {
    pub version: u16,
    pub method: u16,
    pub total: u64,
    pub inflated: u64,
    pub hash: u64,
    pub payload: Vec<u8>,
}

impl Ccob {
    pub fn read(data: &[u8]) -> Option<Self> {
        let rest = data.strip_prefix(b"CCOB")?;
        let number = |at: usize, len: usize| {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(rest.get(at..at + len)?);
            Some(u64::from_le_bytes(bytes))
        };
        let version = u16::try_from(number(0, 2)?).ok()?;
        let width = if version == 3 { 8 } else { 4 };
        let total = number(4, width)?;
        let inflated = number(4 + width, width)?;
        let hash = number(4 + 2 * width, 8)?;
        let method = u16::try_from(number(2, 2)?).ok()?;
        let payload = inflate(method, rest.get(12 + 2 * width..)?)?;
        Some(Self { version, method, total, inflated, hash, payload })
    }

    /// Checks rules that hold for every written bundle.
    pub fn is_consistent(&self, len: usize) -> bool {
        let hash = u64::from_le_bytes(Md5::digest(&self.payload)[..8].try_into().unwrap());
        self.hash == hash
            && usize::try_from(self.inflated).is_ok_and(|inflated| inflated == self.payload.len())
            && usize::try_from(self.total).is_ok_and(|total| total == len)
    }
}

fn inflate(method: u16, stream: &[u8]) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    if method == 0 {
        flate2::read::ZlibDecoder::new(stream).read_to_end(&mut payload).ok()?;
        return Some(payload);
    }
    let mut decoder = zstd::Decoder::new(stream).ok()?;
    decoder.window_log_max(31).ok()?;
    decoder.read_to_end(&mut payload).ok()?;
    Some(payload)
}

/// A compressed bundle with this version and method, around any bundle.
pub fn compressed(version: u16, method: u16, payload: &[u8]) -> Vec<u8> {
    if method == 1 {
        return compressed_as(version, method, payload, &zstd::encode_all(payload, 3).unwrap());
    }
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(payload).unwrap();
    compressed_as(version, method, payload, &encoder.finish().unwrap())
}

/// Returns a compressed bundle with this stream.
pub fn compressed_as(version: u16, method: u16, payload: &[u8], stream: &[u8]) -> Vec<u8> {
    let (width, sizes) = match version {
        1 => (4, 1),
        2 => (4, 2),
        _ => (8, 2),
    };
    let header_len = 8 + width * sizes + 8;
    let sizes = [header_len + stream.len(), payload.len()].into_iter().skip(2 - sizes);
    let mut data = [b"CCOB".as_slice(), &version.to_le_bytes(), &method.to_le_bytes()].concat();
    sizes.for_each(|size| data.extend(&number(size)[..width]));
    data.extend(&Md5::digest(payload)[..8]);
    data.extend(stream);
    data
}
