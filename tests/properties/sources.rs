//! Where bytes that come out can be from: the input, and what its compressed parts inflate to.

use memchr::memmem::find_iter;

use super::formats::{self, Ccob, inflate};

/// How many compressed parts of one input are looked at.
const PARTS_MAX: usize = 64;

/// An input and all that inflates from it.
pub(super) struct Sources<'d> {
    data: &'d [u8],
    inflated: Vec<Vec<u8>>,
    /// Whether all of it is known.
    complete: bool,
}

impl<'d> Sources<'d> {
    pub(super) fn of(data: &'d [u8]) -> Self {
        let mut inflated = Vec::new();
        let bundles = find_iter(data, b"CCOB").filter_map(|at| {
            let header = Ccob::read(&data[at..])?;
            Some((header.method, &data[at + header.header_len..]))
        });
        let binaries = find_iter(data, &[0x10, 0xff, 0x10, 0xad]).filter_map(|at| {
            let stream = data[at..].get(40..)?;
            Some((u16::from(stream.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])), stream))
        });
        let mut complete = true;
        for (number, (method, stream)) in bundles.chain(binaries).enumerate() {
            if number == PARTS_MAX {
                complete = false;
                break;
            }
            let part = inflate(method, stream);
            complete &= part.len() < formats::INFLATED_MAX;
            inflated.push(part);
        }
        Self { data, inflated, complete }
    }

    /// Whether some compressed part is so large that less than all of it may be looked at.
    pub(super) fn is_large(&self) -> bool {
        !self.complete || self.inflated.iter().any(|part| part.len() > 16 << 20)
    }

    /// That these bytes are from the input.
    pub(super) fn hold(&self, bytes: &[u8], what: &str) {
        let holds = |whole: &[u8]| bytes.is_empty() || memchr::memmem::find(whole, bytes).is_some();
        let held = !self.complete || holds(self.data) || self.inflated.iter().any(|part| holds(part));
        assert!(held, "{what} is not from the input: {}", bytes.escape_ascii());
    }
}
