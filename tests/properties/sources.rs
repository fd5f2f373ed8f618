//! The possible origins of output bytes: the input, and the inflated data of its compressed parts.

use memchr::memmem::find_iter;

use super::formats::{self, Ccob, inflate};
use super::kpacks;

/// The maximum number of compressed parts of an input that are examined, and their maximum total size in bytes.
const PARTS_MAX: usize = 64;
const BYTES_MAX: usize = 64 << 20;

/// An input and all data that inflates from it.
pub(super) struct Sources<'d> {
    data: &'d [u8],
    inflated: Vec<Vec<u8>>,
    /// Whether all of that data is known.
    complete: bool,
}

impl<'d> Sources<'d> {
    /// The data that inflates from the input directly.
    pub(super) fn of(data: &'d [u8]) -> Self {
        let mut sources = Self { data, inflated: Vec::new(), complete: true };
        sources.add(parts(data));
        sources
    }

    /// The data that inflates from the input, directly and recursively.
    pub(super) fn nested(data: &'d [u8]) -> Self {
        let mut sources = Self { data, inflated: Vec::new(), complete: true };
        sources.add(parts(data));
        let mut next = 0;
        while let Some(inner) = sources.inflated.get(next).cloned() {
            sources.add(parts(&inner));
            next += 1;
        }
        sources
    }

    fn add<'p>(&mut self, parts: impl Iterator<Item = (u16, &'p [u8])>) {
        for (method, stream) in parts {
            if self.inflated.len() == PARTS_MAX || self.inflated.iter().map(Vec::len).sum::<usize>() > BYTES_MAX {
                self.complete = false;
                break;
            }
            let part = inflate(method, stream);
            self.complete &= part.len() < formats::INFLATED_MAX;
            if !part.is_empty() {
                self.inflated.push(part);
            }
        }
    }

    /// The size of the data that inflates from the input, in bytes.
    pub(super) fn inflated_len(&self) -> usize {
        if self.complete { self.inflated.iter().map(Vec::len).sum() } else { usize::MAX }
    }

    /// Whether these bytes occur somewhere.
    pub(super) fn contain(&self, bytes: &[u8]) -> bool {
        let contains = |whole: &[u8]| memchr::memmem::find(whole, bytes).is_some();
        contains(self.data) || self.inflated.iter().any(|part| contains(part))
    }

    /// Whether some compressed part may be larger than the examined part of it.
    pub(super) fn is_large(&self) -> bool {
        !self.complete || self.inflated.iter().any(|part| part.len() > 16 << 20)
    }

    /// Checks that these bytes are from the input.
    pub(super) fn hold(&self, bytes: &[u8], what: &str) {
        let held = !self.complete || bytes.is_empty() || self.contain(bytes);
        assert!(held, "{what} is not from the input: {}", bytes.escape_ascii());
    }
}

/// The possible starts of compressed data, with the method.
fn parts(data: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let bundles = find_iter(data, b"CCOB").filter_map(|at| {
        let header = Ccob::read(&data[at..])?;
        Some((header.method, &data[at + header.header_len..]))
    });
    let binaries = find_iter(data, &[0x10, 0xff, 0x10, 0xad]).filter_map(|at| {
        let stream = data[at..].get(40..)?;
        Some((u16::from(is_zstd(stream)), stream))
    });
    // The directory records the method of a member; here, only its bytes are read.
    let members = find_iter(data, b"PK\x03\x04").filter_map(|at| {
        let header = data[at..].get(..30)?;
        let len = |at: usize| usize::from(header[at]) | usize::from(header[at + 1]) << 8;
        let stream = data[at + 30..].get(len(26) + len(28)..)?;
        Some((if is_zstd(stream) { 1 } else { formats::RAW_DEFLATE }, stream))
    });
    // Frames may be anywhere in an archive.
    let frames = find_iter(data, kpacks::MAGIC).take(1).flat_map(|_| find_iter(data, ZSTD).map(|at| (1, &data[at..])));
    bundles.chain(binaries).chain(members).chain(frames)
}

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

fn is_zstd(stream: &[u8]) -> bool {
    stream.starts_with(ZSTD)
}
