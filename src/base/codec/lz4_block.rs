//! Finds the fault of a broken LZ4 block, whose place the library does not report.
//!
//! A block is a row of sequences: a token, whose halves are the lengths of literals and of a match, the rest of the
//! first length if the half is 15, the literals, the distance of the match to the bytes that it repeats, and the rest of
//! its length, which is 4 more than recorded. A length goes on with bytes that are added to it up to one that is not
//! 255. The last sequence ends after its literals.

use crate::base::bytes::{add, len_u64, tail};

/// Returns the number of bytes, at most `most`, that a broken block inflates to before its fault.
pub(crate) fn len_before_fault(block: &[u8], most: u64) -> u64 {
    let (mut sequences, mut len) = (Sequences(block), 0);
    while len < most && sequences.add_next(&mut len).is_some() {}
    len.min(most)
}

/// The sequences that are not read yet.
struct Sequences<'b>(&'b [u8]);

impl Sequences<'_> {
    /// Adds the length of the next sequence, or of the sound part of a broken or last one, for which it returns `None`.
    fn add_next(&mut self, len: &mut u64) -> Option<()> {
        const MATCH_LEN_MIN: u64 = 4;
        let token = self.byte()?;
        let literals = self.len(token >> 4)?.min(len_u64(self.0));
        self.0 = tail(self.0, literals)?;
        add(len, literals);
        let distance = u16::from_le_bytes([self.byte()?, self.byte()?]);
        let repeated = self.len(token & 15)?.saturating_add(MATCH_LEN_MIN);
        if distance == 0 || u64::from(distance) > *len {
            return None;
        }
        add(len, repeated);
        Some(())
    }

    fn len(&mut self, half: u8) -> Option<u64> {
        let mut len = u64::from(half);
        let mut goes_on = half == 15;
        while goes_on {
            let more = self.byte()?;
            add(&mut len, u64::from(more));
            goes_on = more == 255;
        }
        Some(len)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::bytes::to_u64;

    /// Appends a sequence, and returns the offset of its distance.
    fn append(block: &mut Vec<u8>, literals: usize, distance: u16, repeated: usize) -> usize {
        let half = |len: usize| u8::try_from(len.min(15)).unwrap();
        let more = |block: &mut Vec<u8>, len: usize| {
            if let Some(rest) = len.checked_sub(15) {
                block.extend(vec![255; rest / 255]);
                block.push(u8::try_from(rest % 255).unwrap());
            }
        };
        block.push(half(literals) << 4 | half(repeated - 4));
        more(block, literals);
        block.extend((0..literals).map(|at| u8::try_from(at % 251).unwrap()));
        let at = block.len();
        block.extend(distance.to_le_bytes());
        more(block, repeated - 4);
        at
    }

    #[test]
    fn every_cut_and_broken_distance_is_found() {
        let lens =
            [(1, 1, 4), (0, 1, 18), (14, 3, 19), (15, 40, 20), (300, 299, 4), (0, 2, 600), (40, 9, 9), (8, 1, 5)];
        let (mut block, mut len, mut distances) = (Vec::new(), 0, Vec::new());
        for (literals, distance, repeated) in lens {
            let start = block.len();
            let distance_at = append(&mut block, literals, distance, repeated);
            let literals_at = distance_at - literals;
            for cut in start..block.len() {
                let expected = len + cut.clamp(literals_at, distance_at) - literals_at;
                assert_eq!(len_before_fault(&block[..cut], 10_000), to_u64(expected), "cut at {cut}");
            }
            len += literals;
            distances.push((distance_at, len));
            len += repeated;
        }
        assert_eq!(len_before_fault(&block, 10_000), to_u64(len));
        assert_eq!(len_before_fault(&block, 7), 7);
        for (at, len) in distances {
            for wrong in [0, u16::MAX] {
                let mut block = block.clone();
                block[at..at + 2].copy_from_slice(&wrong.to_le_bytes());
                assert_eq!(len_before_fault(&block, 10_000), to_u64(len), "distance {wrong} at {at}");
            }
        }
    }

    #[test]
    #[cfg(feature = "lz4")]
    #[cfg_attr(miri, ignore = "compresses")]
    fn a_sound_block_has_the_length_that_the_library_inflates() {
        for period in [1, 3, 100, 5000] {
            let data: Vec<u8> = (0..20_000_usize).map(|at| u8::try_from(at % period % 251).unwrap()).collect();
            let block = lz4::block::compress(&data, None, false).unwrap();
            assert_eq!(len_before_fault(&block, u64::MAX), len_u64(&data));
        }
    }
}
