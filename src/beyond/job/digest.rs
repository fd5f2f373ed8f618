//! Compares ranges of files byte for byte, or by digests of them.
//!
//! A digest is 128 bits of SipHash with keys that are chosen at random for each comparison, so that nobody can make
//! different code objects that have the same one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};

use crate::base::bytes::to_u64;
use crate::base::io::input::Slice;

/// The number of bytes that are read at a time.
const BLOCK: usize = 1 << 17;

pub(super) type Digest = [u64; 2];

/// The keys of the digests of one comparison.
#[derive(Debug, Default)]
pub(super) struct Digester([RandomState; 2]);

impl Digester {
    /// Computes the digest of some bytes: two hashes of 64 bits with different keys.
    pub(super) fn digest(&self, data: Slice<'_>) -> io::Result<Digest> {
        let mut hashers = [self.0[0].build_hasher(), self.0[1].build_hasher()];
        let (mut reader, mut buffer) = (data.reader(), vec![0; BLOCK]);
        loop {
            let block = fill(&mut reader, &mut buffer)?;
            for hasher in &mut hashers {
                hasher.write(block);
            }
            // Only the last block is shorter, perhaps empty.
            if block.len() < BLOCK {
                return Ok(hashers.map(|hasher| hasher.finish()));
            }
        }
    }
}

/// Returns whether two ranges have the same bytes. Both are read up to the first block that differs.
pub(super) fn are_equal(a: Slice<'_>, b: Slice<'_>) -> io::Result<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (a.reader(), b.reader());
    let (mut buffer_a, mut buffer_b) = (vec![0; BLOCK], vec![0; BLOCK]);
    loop {
        let (one, other) = (fill(&mut a, &mut buffer_a)?, fill(&mut b, &mut buffer_b)?);
        if one != other {
            return Ok(false);
        }
        if one.len() < BLOCK {
            return Ok(true);
        }
    }
}

/// Reads up to [`BLOCK`] bytes into a buffer, and returns them. Returns fewer bytes only at the end of the data.
fn fill<'b>(reader: &mut impl Read, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    buffer.clear();
    reader.take(to_u64(BLOCK)).read_to_end(buffer)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;

    #[test]
    fn equal_bytes_have_equal_digests_and_others_do_not() {
        let digester = Digester::default();
        for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let data = Input::from_bytes("a", (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect());
            let same = Input::from_bytes("b", data.bytes().to_vec());
            let digest = |input: &Input| digester.digest(input.as_slice()).unwrap();
            assert_eq!(digest(&data), digest(&same));
            assert!(are_equal(data.as_slice(), same.as_slice()).unwrap());
            for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                let mut other = data.bytes().to_vec();
                other[at] ^= 1;
                let other = Input::from_bytes("c", other);
                assert!(!are_equal(data.as_slice(), other.as_slice()).unwrap(), "{len} {at}");
                let (one, other) = (digest(&data), digest(&other));
                assert!(one[0] != other[0] && one[1] != other[1], "{len} {at}");
            }
        }
    }
}
