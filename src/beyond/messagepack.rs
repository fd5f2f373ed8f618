//! Reads MessagePack: a value borrows its bytes, and is decoded as far as a caller asks.
//!
//! `rmp` decodes markers, lengths and numbers. The extent of a value is found without recursion, so the depth of
//! nesting is limited by the data alone. Source: the MessagePack specification.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use rmp::Marker;
use rmp::decode::{read_array_len, read_int, read_map_len, read_marker, read_str_len};

use crate::base::bytes::len_u64;

/// A complete value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'d> {
    bytes: &'d [u8],
    /// The absolute offset of its first byte.
    pub(crate) offset: u64,
}

impl<'d> Value<'d> {
    /// Returns the value at the start of `data`, and the bytes after it, or `None` if the data ends in the value, or is
    /// not MessagePack. The first byte has the absolute offset `base`.
    pub(crate) fn first(data: &'d [u8], base: u64) -> Option<(Self, &'d [u8])> {
        let mut rest = data;
        skip(&mut rest)?;
        let bytes = data.get(..data.len().checked_sub(rest.len())?)?;
        Some((Self { bytes, offset: base }, rest))
    }

    /// Returns the keys and values, or `None` if the value is not a map.
    pub(crate) fn map(self) -> Option<impl Iterator<Item = (Self, Self)> + use<'d>> {
        let mut values = self.values(|rest| Some(u64::from(read_map_len(rest).ok()?)))?;
        Some(std::iter::from_fn(move || Some((values.next()?, values.next()?))))
    }

    /// Returns the elements, or `None` if the value is not an array.
    pub(crate) fn array(self) -> Option<impl Iterator<Item = Self> + use<'d>> {
        self.values(|rest| Some(u64::from(read_array_len(rest).ok()?)))
    }

    /// Returns the values in a map or an array. `read_len` reads its header, or returns `None` for a value of another
    /// type.
    fn values(self, read_len: fn(&mut &'d [u8]) -> Option<u64>) -> Option<impl Iterator<Item = Self> + use<'d>> {
        let mut rest = self.bytes;
        // Skips the header. The number of values in it is not needed: the last value ends where the bytes end.
        read_len(&mut rest)?;
        let end = self.offset.saturating_add(len_u64(self.bytes));
        Some(std::iter::from_fn(move || {
            let (value, after) = Self::first(rest, end.saturating_sub(len_u64(rest)))?;
            rest = after;
            Some(value)
        }))
    }

    /// Returns the bytes of a string, which may not be UTF-8, or `None` if the value is not a string.
    pub(crate) fn text(self) -> Option<&'d [u8]> {
        let mut rest = self.bytes;
        read_str_len(&mut rest).ok().map(|_| rest)
    }

    /// Returns the encoded bytes of the value.
    pub(crate) fn bytes(self) -> &'d [u8] {
        self.bytes
    }

    /// Returns the boolean, or `None` if the value is not one.
    pub(crate) fn boolean(self) -> Option<bool> {
        // A boolean is only a marker, and each of the two has its own.
        const FALSE: u8 = 0xc2;
        const TRUE: u8 = 0xc3;
        match self.bytes {
            [FALSE] => Some(false),
            [TRUE] => Some(true),
            _ => None,
        }
    }

    /// Returns the number, or `None` if the value is negative or not an integer.
    pub(crate) fn number(self) -> Option<u64> {
        let mut rest = self.bytes;
        read_int(&mut rest).ok()
    }

    /// Returns the number, or `None` if the value is negative, larger than 32 bits, or not an integer.
    pub(crate) fn number_u32(self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Returns the first value with this key, or `None` if the value is not a map, or lacks the key.
    pub(crate) fn get(self, key: &[u8]) -> Option<Self> {
        let (_, value) = self.map()?.find(|(name, _)| name.text() == Some(key))?;
        Some(value)
    }
}

/// Returns the first `len` bytes of `rest` and moves `rest` after them, or returns `None` if it has fewer.
fn take<'d>(rest: &mut &'d [u8], len: u64) -> Option<&'d [u8]> {
    let (taken, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(taken)
}

/// Reads a big-endian number of `width` bytes.
fn number(rest: &mut &[u8], width: u64) -> Option<u64> {
    Some(take(rest, width)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Moves `rest` after its first value and all values nested in that, or returns `None` if the value is not complete.
/// The values still to skip are counted in place of recursion, so that nesting does not fill the stack.
fn skip(rest: &mut &[u8]) -> Option<()> {
    let mut pending = 1_u64;
    while let Some(pending_after_this) = pending.checked_sub(1) {
        // The number of bytes after the marker, and the number of values in this value. An entry of a map has two: its
        // key and its value. `number` reads a length or count after the marker. An extension begins with its type, in
        // one byte.
        let (size, child_count) = match read_marker(rest).ok()? {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 => (2, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixExt1 => (2, 0),
            Marker::FixExt2 => (3, 0),
            Marker::FixExt4 => (5, 0),
            Marker::FixExt8 => (9, 0),
            Marker::FixExt16 => (17, 0),
            Marker::FixStr(len) => (len.into(), 0),
            Marker::Str8 | Marker::Bin8 => (number(rest, 1)?, 0),
            Marker::Str16 | Marker::Bin16 => (number(rest, 2)?, 0),
            Marker::Str32 | Marker::Bin32 => (number(rest, 4)?, 0),
            Marker::Ext8 => (number(rest, 1)?.checked_add(1)?, 0),
            Marker::Ext16 => (number(rest, 2)?.checked_add(1)?, 0),
            Marker::Ext32 => (number(rest, 4)?.checked_add(1)?, 0),
            Marker::FixArray(count) => (0, count.into()),
            Marker::Array16 => (0, number(rest, 2)?),
            Marker::Array32 => (0, number(rest, 4)?),
            Marker::FixMap(count) => (0, u64::from(count).checked_mul(2)?),
            Marker::Map16 => (0, number(rest, 2)?.checked_mul(2)?),
            Marker::Map32 => (0, number(rest, 4)?.checked_mul(2)?),
            Marker::Reserved => return None,
        };
        take(rest, size)?;
        pending = pending_after_this.checked_add(child_count)?;
        // Each value takes at least one byte, so more values than bytes are wrong.
        if pending > len_u64(rest) {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_as_far_as_asked() {
        let data = [&[0x82, 0xa1, b'a', 0x93, 1, 0xcd, 1, 2, 0xff, 0xa1, b'b'][..], &[0xd9, 2, b'x', 0xff, 7]].concat();
        let (map, rest) = Value::first(&data, 100).unwrap();
        assert_eq!(rest, [7]);
        let array: Vec<_> = map.get(b"a").unwrap().array().unwrap().collect();
        assert_eq!(array.iter().map(|value| value.number()).collect::<Vec<_>>(), [Some(1), Some(258), None]);
        assert_eq!(array.iter().map(|value| value.offset).collect::<Vec<_>>(), [104, 105, 108]);
        let text = map.get(b"b").unwrap();
        assert_eq!((text.text(), text.offset, text.number()), (Some(&b"x\xff"[..]), 111, None));
        assert!(text.map().is_none() && text.array().is_none() && map.get(b"c").is_none());
        for (byte, boolean) in [(0xc0, None), (0xc2, Some(false)), (0xc3, Some(true)), (1, None)] {
            assert_eq!(Value::first(&[byte], 0).unwrap().0.boolean(), boolean);
        }
        assert_eq!(map.map().unwrap().count(), 2);
        for len in 0..data.len() - 1 {
            assert!(Value::first(&data[..len], 0).is_none());
        }
    }
}
