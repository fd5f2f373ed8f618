//! Builds bitcode for tests.

use super::MAGIC;
use super::bitstream::Part;

/// Bits, lowest of each byte first.
#[derive(Default)]
pub(super) struct BitWriter(Vec<bool>);

impl BitWriter {
    pub(super) fn put(&mut self, value: u64, width: u32) {
        self.0.extend((0..width).map(|bit| value >> bit & 1 == 1));
    }

    pub(super) fn vbr(&mut self, mut value: u64, width: u32) {
        let half = 1 << (width - 1);
        while value >= half {
            self.put(value % half + half, width);
            value /= half;
        }
        self.put(value, width);
    }

    pub(super) fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(32), false);
    }

    pub(super) fn bytes(&mut self, data: &[u8]) {
        for &byte in data {
            self.put(byte.into(), 8);
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte * 2 + u8::from(bit))).collect()
    }

    /// A block with abbreviation IDs of 3 bits, inside a level with IDs of `level` bits.
    pub(super) fn block(&mut self, level: u32, number: u64, content: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        content(&mut inner);
        inner.put(0, 3);
        inner.align();
        self.put(1, level);
        self.vbr(number, 8);
        self.vbr(3, 4);
        self.align();
        self.put(u64::try_from(inner.0.len() / 32).unwrap(), 32);
        self.0.extend(inner.0);
    }

    pub(super) fn blob(&mut self, number: u64, data: &[u8]) {
        self.block(2, number, |block| {
            block.define(&[Part::Literal(1), Part::Blob]);
            block.put(4, 3);
            block.vbr(data.len().try_into().unwrap(), 6);
            block.align();
            block.bytes(data);
            block.align();
        });
    }

    /// Writes an abbreviation for the current block or, in BLOCKINFO, for the block that it describes.
    pub(super) fn define(&mut self, parts: &[Part]) {
        self.put(2, 3);
        self.vbr(parts.len().try_into().unwrap(), 5);
        for part in parts {
            self.put(u64::from(matches!(part, Part::Literal(_))), 1);
            match *part {
                Part::Literal(value) => self.vbr(value, 8),
                Part::Fixed(width) => self.encoding(1, width),
                Part::Vbr(width) => self.encoding(2, width),
                Part::Array => self.put(3, 3),
                Part::Char6 => self.put(4, 3),
                Part::Blob => self.put(5, 3),
            }
        }
    }

    fn encoding(&mut self, encoding: u64, width: u64) {
        self.put(encoding, 3);
        self.vbr(width, 5);
    }

    pub(super) fn record(&mut self, code: u64, operands: &[u64]) {
        self.put(3, 3);
        self.vbr(code, 6);
        self.vbr(operands.len().try_into().unwrap(), 6);
        for &operand in operands {
            self.vbr(operand, 6);
        }
    }
}

/// A file without blocks.
pub(super) fn start() -> BitWriter {
    let mut file = BitWriter::default();
    file.bytes(&MAGIC);
    file
}
