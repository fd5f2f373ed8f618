//! Reads the bitstream, the container of LLVM bitcode, down to its records.
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
//! Bits are read from the lowest of each byte up. VBR*n* is a number in groups of *n* bits, lowest first; the highest
//! bit of a group is set if another group follows. Block 0 (BLOCKINFO) defines abbreviations that every later block of
//! a kind begins with: records with code 1 name the kind. Layout: LLVM Bitcode File Format, as of LLVM 22.1.8.
//!
//! A record is only decoded when its values are requested. So unused records cost no memory and, if their parts have
//! fixed widths, no time.
//!
//! Rejected: anything beyond the end, an abbreviation that the block does not define, more abbreviations than any
//! writer needs.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::not_bitcode::{NotBitcode, Result};
use crate::base::bytes::{self, add};
use crate::llvm::container::limits::{ABBREVIATIONS_MAX, OPERANDS_MAX};

/// The bits of a file or a block, from some position on.
#[derive(Clone, Debug)]
pub(crate) struct Bits<'a> {
    data: &'a [u8],
    /// The position in bits.
    pub(crate) position: u64,
}

const PAST_END: NotBitcode = NotBitcode("the bitstream ends too early");

impl<'a> Bits<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, position: 0 }
    }

    fn remaining(&self) -> u64 {
        bytes::len_u64(self.data).saturating_mul(8).saturating_sub(self.position)
    }

    /// Reads the next `width` bits, at most 64.
    pub(crate) fn read(&mut self, width: u64) -> Result<u64> {
        if width > self.remaining() || width > 64 {
            return Err(PAST_END);
        }
        let tail = bytes::tail(self.data, self.position / 8).ok_or(PAST_END)?;
        // Up to 64 bits may be spread over nine bytes. A window of 16 bytes holds them in any case, as one number.
        let window = match tail.first_chunk() {
            Some(window) => *window,
            None => {
                let mut window = [0; 16];
                for (to, from) in window.iter_mut().zip(tail) {
                    *to = *from;
                }
                window
            }
        };
        let bits = u128::from_le_bytes(window) >> (self.position % 8);
        self.skip(width)?;
        Ok(u64::try_from(bits & !(u128::MAX << width)).unwrap_or_default())
    }

    /// Moves past the next `width` bits.
    fn skip(&mut self, width: u64) -> Result<()> {
        if width > self.remaining() {
            return Err(PAST_END);
        }
        add(&mut self.position, width);
        Ok(())
    }

    /// Reads a number in groups of `width` bits (VBR). The highest bit of a group says whether another group follows.
    pub(crate) fn vbr(&mut self, width: u64) -> Result<u64> {
        let mut value = 0_u64;
        let mut shift = 0_u32;
        // All callers pass 1 to 32. The limits only keep the shift valid.
        let more_bit = 1_u64 << width.clamp(1, 32).saturating_sub(1);
        loop {
            let group = self.read(width)?;
            value |= (group & more_bit.saturating_sub(1)).checked_shl(shift).unwrap_or(0);
            if group & more_bit == 0 {
                return Ok(value);
            }
            shift = shift.saturating_add(u32::try_from(width).unwrap_or(32).saturating_sub(1));
            if shift > 63 {
                return Err(NotBitcode("a number in the bitstream is too large"));
            }
        }
    }

    fn align32(&mut self) -> Result<()> {
        let padding = self.position.checked_next_multiple_of(32).unwrap_or(u64::MAX).saturating_sub(self.position);
        self.read(padding).map(drop)
    }

    /// Reads `len` bytes and appends them to `to`. Unlike [`read_bytes`](Self::read_bytes), works at any bit position.
    fn copy_bytes(&mut self, len: u64, to: &mut Vec<u8>) -> Result<()> {
        let start = self.position / 8;
        // The number of bits of the first byte that were read before.
        let used = self.position % 8;
        self.skip(len.checked_mul(8).ok_or(PAST_END)?)?;
        let low = bytes::slice(self.data, start, len).ok_or(PAST_END)?;
        if used == 0 {
            to.extend_from_slice(low);
            return Ok(());
        }
        // `skip` has checked that the last bits are in the data, so `high` is not shorter than `low`.
        let high = bytes::tail(self.data, start.saturating_add(1)).ok_or(PAST_END)?;
        // A byte has its lower bits in one byte of the data, and its upper bits in the next.
        to.extend(low.iter().zip(high).map(|(&low, &high)| {
            let [byte, _] = (u16::from_le_bytes([low, high]) >> used).to_le_bytes();
            byte
        }));
        Ok(())
    }

    /// Reads `len` bytes from a byte boundary.
    fn read_bytes(&mut self, len: u64) -> Result<&'a [u8]> {
        let data = bytes::slice(self.data, self.position / 8, len).ok_or(PAST_END)?;
        self.skip(len.checked_mul(8).ok_or(PAST_END)?)?;
        Ok(data)
    }

    /// Reads the block whose abbreviation ID was just read.
    fn read_block(&mut self, info: &BlockInfo) -> Result<Block<'a>> {
        let number = self.vbr(8)?;
        let width = self.vbr(4)?;
        self.align32()?;
        let words = self.read(32)?;
        let content = self.read_bytes(words.saturating_mul(4))?;
        if !(2..=32).contains(&width) {
            return Err(NotBitcode("a block has an impossible width of abbreviation IDs"));
        }
        let inherited = info.get(&number).cloned().unwrap_or_default();
        Ok(Block { number, width, bits: Bits::new(content), inherited, own: Vec::new(), info: Rc::clone(info) })
    }

    /// Reads the next block at the top level. Returns `None` at the end. As in LLVM, up to 8 bytes after the last block
    /// are ignored, because some archivers leave padding there.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block<'a>>> {
        const TOP_WIDTH: u64 = 2;
        if self.remaining() <= 64 {
            return Ok(None);
        }
        match self.read(TOP_WIDTH)? {
            ENTER_BLOCK => self.read_block(&BlockInfo::default()).map(Some),
            _ => Err(NotBitcode("expected the start of a block")),
        }
    }
}

const END_BLOCK: u64 = 0;
const ENTER_BLOCK: u64 = 1;
const DEFINE_ABBREVIATION: u64 = 2;
const UNABBREVIATED: u64 = 3;

const BLOCKINFO: u64 = 0;

/// The form of a record: its parts, first the record code. In an abbreviation without parts, all values are VBR6.
#[derive(Clone, Debug, Default)]
struct Abbreviation {
    parts: Rc<[Part]>,
    /// For each index of a part, the index of the next part that takes bits of the file, which may be the same. It
    /// serves to skip literals at once. They take no bits, so a small file could otherwise cost much time with them.
    next_stored: Rc<[usize]>,
}

impl From<&[Part]> for Abbreviation {
    /// Finds for each part the first part, at or after it, that takes bits of the file.
    fn from(parts: &[Part]) -> Self {
        let mut next = parts.len();
        let mut next_stored = vec![0; parts.len()];
        for (index, (part, next_of_part)) in parts.iter().zip(&mut next_stored).enumerate().rev() {
            if !matches!(part, Part::Literal(_)) {
                next = index;
            }
            *next_of_part = next;
        }
        Self { parts: parts.into(), next_stored: next_stored.into() }
    }
}

/// The abbreviations that each block of a kind begins with, by the number of the kind.
type BlockInfo = Rc<BTreeMap<u64, Rc<Vec<Abbreviation>>>>;

/// A block that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Block<'a> {
    /// The number of the block's kind.
    pub(crate) number: u64,
    /// The width of abbreviation IDs in bits.
    width: u64,
    /// The content that was not read yet.
    bits: Bits<'a>,
    /// The abbreviations that BLOCKINFO has defined for blocks of this kind.
    inherited: Rc<Vec<Abbreviation>>,
    /// The abbreviations that this block has defined so far.
    own: Vec<Abbreviation>,
    /// The abbreviations for blocks inside this one.
    info: BlockInfo,
}

/// An item of a block.
#[derive(Clone, Debug)]
pub(crate) enum Item<'a> {
    Block(Block<'a>),
    Record(Record<'a>),
}

#[derive(Clone, Debug)]
pub(crate) struct Record<'a> {
    /// The record code.
    pub(crate) code: u64,
    values: Values<'a>,
    /// The trailing bytes, if any.
    pub(crate) blob: &'a [u8],
}

/// The encoding of a part of a record in an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Literal(u64),
    Fixed(u64),
    Vbr(u64),
    Array,
    Char6,
    Blob,
}

/// The entry of a block that an abbreviation ID introduces.
enum AbbreviationEntry<'a> {
    End,
    Block(Block<'a>),
    Definition(Abbreviation),
    Record(Record<'a>),
}

impl<'a> Block<'a> {
    /// Reads the next record or block in this block. Returns `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item<'a>>> {
        loop {
            match self.next_entry()? {
                AbbreviationEntry::End => return Ok(None),
                // As in LLVM, a second block of this kind replaces what the first has defined.
                AbbreviationEntry::Block(block) if block.number == BLOCKINFO => self.info = block.read_info()?,
                AbbreviationEntry::Block(block) => return Ok(Some(Item::Block(block))),
                AbbreviationEntry::Definition(abbreviation) => {
                    if self.own.len() >= ABBREVIATIONS_MAX {
                        return Err(NotBitcode("a block has too many abbreviations"));
                    }
                    self.own.push(abbreviation);
                }
                AbbreviationEntry::Record(record) => return Ok(Some(Item::Record(record))),
            }
        }
    }

    /// Reads the next record, and skips blocks inside this one. Returns `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<Record<'a>>> {
        loop {
            match self.next_item()? {
                Some(Item::Block(_)) => {}
                Some(Item::Record(record)) => return Ok(Some(record)),
                None => return Ok(None),
            }
        }
    }

    /// Reads an abbreviation ID and the item that it introduces. A record is skipped, and decoded only on request.
    fn next_entry(&mut self) -> Result<AbbreviationEntry<'a>> {
        match self.bits.read(self.width)? {
            END_BLOCK => Ok(AbbreviationEntry::End),
            ENTER_BLOCK => self.bits.read_block(&self.info).map(AbbreviationEntry::Block),
            DEFINE_ABBREVIATION => self.read_abbreviation().map(AbbreviationEntry::Definition),
            UNABBREVIATED => {
                let code = self.bits.vbr(6)?;
                let left = self.bits.vbr(6)?;
                let (bits, abbreviation, part) = (self.bits.clone(), Abbreviation::default(), Part::Vbr(6));
                self.take_record(code, Values { bits, abbreviation, next: 0, part, left })
            }
            id => {
                let Some(abbreviation) = self.abbreviation(id) else {
                    return Err(NotBitcode("a record uses an abbreviation that is not defined"));
                };
                // `left` is 0, so the first call of `try_next` moves to the first part of the abbreviation. The literal
                // is unused.
                let (bits, part) = (self.bits.clone(), Part::Literal(0));
                let mut values = Values { bits, abbreviation, next: 0, part, left: 0 };
                let code = values.try_next()?.ok_or(NotBitcode("a record has no code"))?;
                self.take_record(code, values)
            }
        }
    }

    /// Returns the abbreviation with an ID, or `None` if it is not defined. The block's own abbreviations are numbered
    /// after the inherited ones.
    fn abbreviation(&self, id: u64) -> Option<Abbreviation> {
        // The lower IDs have fixed meanings.
        const FIRST_ID: u64 = 4;
        let index = usize::try_from(id.checked_sub(FIRST_ID)?).ok()?;
        match index.checked_sub(self.inherited.len()) {
            Some(own_index) => self.own.get(own_index).cloned(),
            None => self.inherited.get(index).cloned(),
        }
    }

    /// Returns the record with this code and these values after it, and moves the block past the record.
    fn take_record(&mut self, code: u64, values: Values<'a>) -> Result<AbbreviationEntry<'a>> {
        let mut end = values.clone();
        let blob = end.skip_all()?;
        self.bits = end.bits;
        Ok(AbbreviationEntry::Record(Record { code, values, blob }))
    }

    /// Reads the definition of an abbreviation, after its ID.
    fn read_abbreviation(&mut self) -> Result<Abbreviation> {
        let count = self.bits.vbr(5)?;
        if count > OPERANDS_MAX {
            return Err(NotBitcode("an abbreviation has too many operands"));
        }
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(self.read_part()?);
        }
        Ok(parts.as_slice().into())
    }

    /// Reads one operand of the definition of an abbreviation.
    fn read_part(&mut self) -> Result<Part> {
        const MAX_FIXED: u64 = 64;
        const MAX_VBR: u64 = 32;
        if self.bits.read(1)? == 1 {
            return self.bits.vbr(8).map(Part::Literal);
        }
        match self.bits.read(3)? {
            // 1 is a fixed width, 2 is VBR. A value without bits is always 0.
            encoding @ (1 | 2) => match (encoding, self.bits.vbr(5)?) {
                (_, 0) => Ok(Part::Literal(0)),
                (1, width @ ..=MAX_FIXED) => Ok(Part::Fixed(width)),
                (2, width @ ..=MAX_VBR) => Ok(Part::Vbr(width)),
                _ => Err(NotBitcode("an operand is too wide")),
            },
            3 => Ok(Part::Array),
            4 => Ok(Part::Char6),
            5 => Ok(Part::Blob),
            _ => Err(NotBitcode("an abbreviation has an unknown encoding")),
        }
    }

    /// Reads the abbreviations that this block (BLOCKINFO) defines for all later blocks of some kinds.
    fn read_info(mut self) -> Result<BlockInfo> {
        const SET_KIND: u64 = 1;
        let mut info = BTreeMap::<_, Vec<_>>::new();
        let mut kind = None;
        // Each abbreviation takes one number of this range.
        let mut allowed = 0..ABBREVIATIONS_MAX;
        loop {
            match self.next_entry()? {
                AbbreviationEntry::End => break,
                AbbreviationEntry::Block(_) => {}
                AbbreviationEntry::Definition(abbreviation) => {
                    allowed.next().ok_or(NotBitcode("a file has too many abbreviations"))?;
                    let kind = kind.ok_or(NotBitcode("an abbreviation is for no kind of block"))?;
                    info.entry(kind).or_default().push(abbreviation);
                }
                AbbreviationEntry::Record(record) if record.code == SET_KIND => kind = record.values().next(),
                AbbreviationEntry::Record(_) => {}
            }
        }
        Ok(Rc::new(info.into_iter().map(|(kind, abbreviations)| (kind, Rc::new(abbreviations))).collect()))
    }
}

impl<'a> Record<'a> {
    /// Returns an iterator over the values after the code.
    pub(crate) fn values(&self) -> Values<'a> {
        self.values.clone()
    }

    /// Decodes the value at an index, counted after the code; 0 if the record has fewer values.
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.values().nth(index).unwrap_or_default()
    }

    /// Decodes the values as bytes, of each value the lowest. The result has capacity for `extra` bytes that the caller
    /// will add.
    pub(crate) fn bytes(&self, extra: usize) -> Result<Vec<u8>> {
        let mut values = self.values();
        let mut content = Vec::new();
        // Each round decodes the remaining values of one part of the abbreviation.
        loop {
            // This count is not only a claim: reading the record has skipped this number of values, so the file has
            // them.
            let needed = usize::try_from(values.left).unwrap_or(usize::MAX).saturating_add(extra);
            content.try_reserve_exact(needed).map_err(|_| NotBitcode("an array does not fit into memory"))?;
            if values.part == Part::Fixed(8) {
                values.bits.copy_bytes(values.left, &mut content)?;
            } else {
                for _ in 0..values.left {
                    let [byte, ..] = values.bits.scalar(values.part)?.to_le_bytes();
                    content.push(byte);
                }
            }
            if !values.next_part()? {
                return Ok(content);
            }
        }
    }
}

/// The values of a record, decoded one by one.
#[derive(Clone, Debug)]
pub(crate) struct Values<'a> {
    bits: Bits<'a>,
    abbreviation: Abbreviation,
    /// The index of the part after the current one.
    next: usize,
    /// The encoding of the values of the current part.
    part: Part,
    /// The number of values of the current part that were not decoded yet.
    left: u64,
}

impl<'a> Values<'a> {
    /// Decodes the next value. Returns `None` at the end.
    fn try_next(&mut self) -> Result<Option<u64>> {
        while self.left == 0 {
            if !self.next_part()? {
                return Ok(None);
            }
        }
        self.left = self.left.saturating_sub(1);
        self.bits.scalar(self.part).map(Some)
    }

    /// Moves to the next part of the abbreviation. Returns `false` at the end of the record.
    fn next_part(&mut self) -> Result<bool> {
        self.left = 0;
        let Some(part) = self.take_part() else { return Ok(false) };
        match part {
            Part::Array => {
                let element = self.take_part().ok_or(NotBitcode("an array has no element type"))?;
                // An element that takes no bits could be repeated without end.
                if !matches!(element, Part::Fixed(_) | Part::Vbr(_) | Part::Char6) {
                    return Err(NotBitcode("an array has elements without content"));
                }
                if self.next < self.abbreviation.parts.len() {
                    return Err(NotBitcode("an array is not the last part of a record"));
                }
                self.part = element;
                self.left = self.bits.vbr(6)?;
            }
            // A blob is not a value, so it is only passed over. `Block::take_record` has put its bytes into
            // `Record::blob`.
            Part::Blob => drop(self.read_blob()?),
            scalar => {
                self.part = scalar;
                self.left = 1;
            }
        }
        Ok(true)
    }

    /// Returns the next part and moves past it, or `None` after the last part.
    fn take_part(&mut self) -> Option<Part> {
        let part = self.abbreviation.parts.get(self.next).copied()?;
        self.next = self.next.saturating_add(1);
        Some(part)
    }

    /// Reads a blob: its length, then its bytes, with padding to a multiple of 32 bits before and after them.
    fn read_blob(&mut self) -> Result<&'a [u8]> {
        let len = self.bits.vbr(6)?;
        self.bits.align32()?;
        let blob = self.bits.read_bytes(len)?;
        self.bits.align32()?;
        Ok(blob)
    }

    /// Moves past all values and returns the blob of the record, or no bytes without a blob.
    fn skip_all(&mut self) -> Result<&'a [u8]> {
        let mut blob = &[][..];
        loop {
            match self.part {
                Part::Vbr(width) => {
                    for _ in 0..self.left {
                        self.bits.vbr(width)?;
                    }
                }
                part => self.bits.skip(self.left.checked_mul(part.width()).ok_or(PAST_END)?)?,
            }
            self.left = 0;
            // `next` is the index of the part after `part`. Literals take no bits, so all of them are skipped at once:
            // `next_stored` has the index of the next part that takes bits. At the end, `next` stays.
            self.next = self.abbreviation.next_stored.get(self.next).copied().unwrap_or(self.next);
            // `next_part` would drop the blob.
            if self.abbreviation.parts.get(self.next) == Some(&Part::Blob) {
                self.next = self.next.saturating_add(1);
                blob = self.read_blob()?;
            } else if !self.next_part()? {
                return Ok(blob);
            }
        }
    }
}

impl Iterator for Values<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.try_next().ok().flatten()
    }
}

impl Part {
    /// The width of one value in bits, or 0 if it is not fixed, or if the part has no values in the file.
    fn width(self) -> u64 {
        match self {
            Self::Fixed(width) => width,
            Self::Char6 => 6,
            Self::Literal(_) | Self::Vbr(_) | Self::Array | Self::Blob => 0,
        }
    }
}

impl Bits<'_> {
    /// Reads a value with the encoding of a part.
    fn scalar(&mut self, part: Part) -> Result<u64> {
        const CHAR6: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
        match part {
            Part::Literal(value) => Ok(value),
            Part::Fixed(width) => self.read(width),
            Part::Vbr(width) => self.vbr(width),
            Part::Char6 => {
                let index = usize::try_from(self.read(6)?).unwrap_or_default();
                Ok(CHAR6.get(index).copied().unwrap_or_default().into())
            }
            Part::Array | Part::Blob => Err(NotBitcode("an array has elements without a size")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts bits as text, lowest first, ignoring spaces.
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

    fn block<'a>(data: &'a [u8], abbreviation: &[Part]) -> Block<'a> {
        let inherited = Rc::new(vec![abbreviation.into()]);
        Block { number: 0, width: 3, bits: Bits::new(data), inherited, own: Vec::new(), info: BlockInfo::default() }
    }

    #[test]
    fn literals_are_skipped_at_once_and_have_their_values() {
        let parts = [Part::Literal(7), Part::Fixed(2), Part::Literal(8), Part::Literal(9), Part::Fixed(1)];
        let abbreviation = Abbreviation::from(&parts[..]);
        assert_eq!(*abbreviation.next_stored, [1, 1, 4, 4, 4]);
        assert_eq!(*Abbreviation::from(&[Part::Literal(1); 2][..]).next_stored, [2, 2]);
        let data = bits("001 10 1 001 01 0 000");
        let mut block = block(&data, &parts);
        for expected in [[1, 8, 9, 1], [2, 8, 9, 0]] {
            let record = block.next_record().unwrap().unwrap();
            assert_eq!((record.code, record.values().collect::<Vec<_>>()), (7, expected.to_vec()));
        }
        assert!(block.next_record().unwrap().is_none());
    }

    #[test]
    fn arrays_that_take_no_room_are_refused() {
        for element in [Part::Literal(7), Part::Array, Part::Blob] {
            let data = bits("001 010000 0000000");
            assert!(block(&data, &[Part::Literal(1), Part::Array, element]).next_record().is_err());
        }
        assert!(block(&bits("101 00000"), &[Part::Literal(1)]).next_record().is_err());
    }

    #[test]
    fn a_claimed_length_is_held_against_what_is_there() {
        let data = bits("001 111111 111111 111111 111100 00000000");
        for element in [Part::Fixed(64), Part::Fixed(1), Part::Vbr(6), Part::Char6] {
            assert!(block(&data, &[Part::Literal(1), Part::Array, element]).next_record().is_err());
        }
    }

    #[test]
    fn every_form_of_array_gives_its_bytes() {
        let read = |text: &str, element: Part| {
            let data = bits(text);
            let mut block = block(&data, &[Part::Literal(9), Part::Fixed(2), Part::Array, element]);
            let record = block.next_record().unwrap().unwrap();
            assert_eq!((record.code, record.blob), (9, &[][..]));
            let values: Vec<u64> = record.values().collect();
            let bytes: Vec<u64> = record.bytes(0).unwrap().into_iter().map(u64::from).collect();
            assert!(values.iter().map(|value| value & 0xff).eq(bytes));
            assert!(block.next_record().unwrap().is_none());
            values
        };
        assert_eq!(read("001 11 010000 10000000 00000001 000 00", Part::Fixed(8)), [3, 1, 128]);
        assert_eq!(read("001 10 010000 1000000 1000001 000", Part::Fixed(7)), [1, 1, 65]);
        assert_eq!(read("001 10 010000 100000000 000000001 000", Part::Fixed(9)), [1, 1, 256]);
        assert_eq!(read("001 00 110000 000000 011111 111111 000", Part::Char6), [0, 97, 46, 95]);
        assert_eq!(read("001 00 010000 0100 0011 1000 000", Part::Vbr(4)), [0, 2, 12]);
        assert_eq!(read("001 01 000000 000", Part::Fixed(8)), [2]);
    }
}
