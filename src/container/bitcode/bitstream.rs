//! The bitstream: the container of LLVM bitcode, read only as far as its records.
//!
//! | bits | meaning |
//! |---|---|
//! | 32 | magic `BC` C0 DE |
//! | | at any level, an abbreviation ID of the block's width (2 at the top): |
//! | 0 | end of the block, then zeros to 32 bits |
//! | 1 | a block: number VBR8, its own ID width VBR4, zeros to 32 bits, length in words 32, content |
//! | 2 | an abbreviation: operand count VBR5, the operands |
//! | 3 | a record: code VBR6, operand count VBR6, operands VBR6 |
//! | 4.. | a record in the form of an abbreviation of the block |
//!
//! Bits are taken from the lowest of each byte up. VBR*n* is a number in groups of *n* bits, lowest first, whose
//! highest bit says that another one follows. Layout: LLVM Bitcode File Format, as of LLVM 22.1.8.
//!
//! Rejected: anything that reaches behind the end, an abbreviation that the block does not define. Abbreviations
//! from a BLOCKINFO block do not count: none of the blocks that are read here uses them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{Broken, Result};
use crate::bytes;

/// The bits of a file or a block, from some position on.
#[derive(Clone, Debug)]
pub(super) struct Bits<'a> {
    data: &'a [u8],
    /// In bits.
    position: u64,
}

const PAST_END: Broken = Broken("the bitstream ends too early");

/// More operands than any abbreviation that LLVM defines.
const MAX_OPERANDS: u64 = 256;

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    fn remaining(&self) -> u64 {
        bytes::len_u64(self.data).saturating_mul(8).saturating_sub(self.position)
    }

    /// The next `width` bits, at most 64.
    pub(super) fn read(&mut self, width: u64) -> Result<u64> {
        if width > self.remaining() || width > 64 {
            return Err(PAST_END);
        }
        let mut value = 0_u64;
        let mut filled = 0;
        while filled < width {
            let byte = bytes::slice(self.data, self.position / 8, 1).and_then(<[u8]>::first).ok_or(PAST_END)?;
            let used = self.position % 8;
            let count = width.saturating_sub(filled).min(8_u64.saturating_sub(used));
            let bits = (u64::from(*byte) >> used) & !(u64::MAX << count);
            value |= bits << filled;
            filled = filled.saturating_add(count);
            self.position = self.position.saturating_add(count);
        }
        Ok(value)
    }

    /// A number in groups of `width` bits.
    fn vbr(&mut self, width: u64) -> Result<u64> {
        let mut value = 0_u64;
        let mut shift = 0_u32;
        let more = 1_u64 << width.clamp(1, 32).saturating_sub(1);
        loop {
            let group = self.read(width)?;
            value |= (group & more.saturating_sub(1)).checked_shl(shift).unwrap_or(0);
            if group & more == 0 {
                return Ok(value);
            }
            shift = shift.saturating_add(u32::try_from(width).unwrap_or(32).saturating_sub(1));
            if shift > 63 {
                return Err(Broken("a number in the bitstream is too large"));
            }
        }
    }

    fn align32(&mut self) -> Result<()> {
        let padding = self.position.checked_next_multiple_of(32).unwrap_or(u64::MAX).saturating_sub(self.position);
        self.read(padding).map(drop)
    }

    /// So many bytes from a byte boundary.
    fn bytes(&mut self, len: u64) -> Result<&'a [u8]> {
        let data = bytes::slice(self.data, self.position / 8, len).ok_or(PAST_END)?;
        self.position = self.position.saturating_add(len.saturating_mul(8));
        Ok(data)
    }

    /// The block whose abbreviation ID was just read.
    fn block(&mut self) -> Result<Block<'a>> {
        let number = self.vbr(8)?;
        let width = self.vbr(4)?;
        self.align32()?;
        let words = self.read(32)?;
        let content = self.bytes(words.saturating_mul(4))?;
        if !(2..=32).contains(&width) {
            return Err(Broken("a block has an impossible width of abbreviation IDs"));
        }
        Ok(Block { number, width, bits: Bits::new(content), abbreviations: Vec::new() })
    }

    /// The next block at the top level, `None` at the end. Up to 8 bytes behind the last one are no block.
    pub(super) fn next_block(&mut self) -> Result<Option<Block<'a>>> {
        const TOP_WIDTH: u64 = 2;
        if self.remaining() <= 64 {
            return Ok(None);
        }
        match self.read(TOP_WIDTH)? {
            ENTER_BLOCK => self.block().map(Some),
            _ => Err(Broken("there is no block where one must begin")),
        }
    }
}

const END_BLOCK: u64 = 0;
const ENTER_BLOCK: u64 = 1;
const DEFINE_ABBREVIATION: u64 = 2;
const UNABBREVIATED: u64 = 3;

/// A block, open for reading its records.
#[derive(Clone, Debug)]
pub(super) struct Block<'a> {
    /// Which kind of block it is.
    pub(super) number: u64,
    width: u64,
    bits: Bits<'a>,
    abbreviations: Vec<Vec<Operand>>,
}

/// A record of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Record<'a> {
    /// What it says.
    pub(super) code: u64,
    /// The operands behind the code.
    pub(super) operands: Vec<u64>,
    /// The bytes at its end, if it has them.
    pub(super) blob: &'a [u8],
}

/// How an abbreviation stores an operand.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Literal(u64),
    Fixed(u64),
    Vbr(u64),
    Array,
    Char6,
    Blob,
}

impl<'a> Block<'a> {
    /// The next record; blocks inside this one are skipped.
    pub(super) fn next_record(&mut self) -> Result<Option<Record<'a>>> {
        loop {
            match self.bits.read(self.width)? {
                END_BLOCK => return Ok(None),
                ENTER_BLOCK => drop(self.bits.block()?),
                DEFINE_ABBREVIATION => {
                    let abbreviation = self.abbreviation()?;
                    self.abbreviations.push(abbreviation);
                }
                UNABBREVIATED => return self.unabbreviated().map(Some),
                id => return self.abbreviated(id.saturating_sub(4)).map(Some),
            }
        }
    }

    fn abbreviation(&mut self) -> Result<Vec<Operand>> {
        let count = self.bits.vbr(5)?;
        if count > MAX_OPERANDS {
            return Err(Broken("an abbreviation has too many operands"));
        }
        (0..count)
            .map(|_| {
                if self.bits.read(1)? == 1 {
                    return self.bits.vbr(8).map(Operand::Literal);
                }
                match self.bits.read(3)? {
                    1 => self.bits.vbr(5).map(Operand::Fixed),
                    2 => self.bits.vbr(5).map(Operand::Vbr),
                    3 => Ok(Operand::Array),
                    4 => Ok(Operand::Char6),
                    5 => Ok(Operand::Blob),
                    _ => Err(Broken("an abbreviation has an unknown encoding")),
                }
            })
            .collect()
    }

    fn unabbreviated(&mut self) -> Result<Record<'a>> {
        let code = self.bits.vbr(6)?;
        let count = self.bits.vbr(6)?;
        if count > self.bits.remaining() {
            return Err(PAST_END);
        }
        let operands = (0..count).map(|_| self.bits.vbr(6)).collect::<Result<Vec<_>>>()?;
        Ok(Record { code, operands, blob: &[] })
    }

    fn abbreviated(&mut self, index: u64) -> Result<Record<'a>> {
        let abbreviation = usize::try_from(index).ok().and_then(|index| self.abbreviations.get(index));
        let abbreviation = abbreviation.ok_or(Broken("a record uses an abbreviation that is not defined"))?.clone();
        let mut record = Record::default();
        let mut values = Vec::new();
        let mut operands = abbreviation.into_iter();
        while let Some(operand) = operands.next() {
            match operand {
                Operand::Array => {
                    let element = operands.next().ok_or(Broken("an array has no element type"))?;
                    self.array(element, &mut values)?;
                }
                Operand::Blob => {
                    let len = self.bits.vbr(6)?;
                    self.bits.align32()?;
                    record.blob = self.bits.bytes(len)?;
                    self.bits.align32()?;
                }
                scalar => values.push(self.scalar(scalar)?),
            }
        }
        if values.is_empty() {
            return Err(Broken("a record has no code"));
        }
        record.operands = values.split_off(1);
        record.code = values.first().copied().unwrap_or_default();
        Ok(record)
    }

    fn array(&mut self, element: Operand, values: &mut Vec<u64>) -> Result<()> {
        // An element that takes no bits could be repeated without end.
        if matches!(element, Operand::Literal(_) | Operand::Fixed(0) | Operand::Vbr(0)) {
            return Err(Broken("an array has elements without content"));
        }
        let count = self.bits.vbr(6)?;
        if count > self.bits.remaining() {
            return Err(PAST_END);
        }
        for _ in 0..count {
            values.push(self.scalar(element)?);
        }
        Ok(())
    }

    fn scalar(&mut self, operand: Operand) -> Result<u64> {
        match operand {
            Operand::Literal(value) => Ok(value),
            Operand::Fixed(width) | Operand::Vbr(width) if width > 64 => Err(Broken("an operand is too wide")),
            Operand::Fixed(0) | Operand::Vbr(0) => Ok(0),
            Operand::Fixed(width) => self.bits.read(width),
            Operand::Vbr(width) => self.bits.vbr(width),
            Operand::Char6 => self.bits.read(6),
            Operand::Array | Operand::Blob => Err(Broken("an array has elements without a size")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits as text, lowest first, spaces ignored.
    fn bits(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        digits.chunks(8).map(|chunk| chunk.iter().rev().fold(0, |byte, bit| byte * 2 + bit)).collect()
    }

    #[test]
    fn numbers_are_read_from_the_lowest_bit_up() {
        let data = bits("101 11 0001 1000 0000");
        let mut stream = Bits::new(&data);
        assert_eq!((stream.read(3), stream.read(2)), (Ok(5), Ok(3)));
        assert_eq!(stream.vbr(4), Ok(8));
        assert!(stream.read(64).is_err());
    }

    #[test]
    fn variable_width_numbers_have_a_largest_one() {
        assert_eq!(Bits::new(&bits("1001 1100 00000000")).vbr(4), Ok(1 + (3 << 3)));
        assert!(Bits::new(&[0xff; 64]).vbr(6).is_err());
    }

    #[test]
    fn arrays_that_take_no_room_are_refused() {
        let mut block = Block { number: 0, width: 2, bits: Bits::new(&[0xff; 8]), abbreviations: Vec::new() };
        block.abbreviations.push(vec![Operand::Literal(1), Operand::Array, Operand::Fixed(0)]);
        assert!(block.abbreviated(0).is_err());
        assert!(block.abbreviated(1).is_err());
    }
}
