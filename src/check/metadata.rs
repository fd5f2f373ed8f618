//! Reads the metadata of a code object for an AMD GPU: a note whose content is one MessagePack map.
//!
//! | key | value |
//! |---|---|
//! | `amdhsa.kernels` | an array with a map for each kernel |
//! | | `.symbol`: the name of the symbol of its kernel descriptor |
//!
//! All of it must be valid MessagePack; only these keys are read. Source: User Guide for AMDGPU Backend.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use rmp::Marker;
use rmp::decode::{read_array_len, read_map_len, read_marker, read_str_len};

use crate::bytes::len_u64;

const KERNELS: &[u8] = b"amdhsa.kernels";
const SYMBOL: &[u8] = b".symbol";

/// The names of the kernels' symbols; none if the metadata is broken.
pub(super) fn symbols(mut data: &[u8]) -> Option<Vec<&[u8]>> {
    let rest = &mut data;
    let mut symbols = Vec::new();
    for _ in 0..read_map_len(rest).ok()? {
        if key(rest)? == Some(KERNELS) {
            for _ in 0..read_array_len(rest).ok()? {
                kernel(rest, &mut symbols)?;
            }
        } else {
            skip(rest)?;
        }
    }
    rest.is_empty().then_some(symbols)
}

fn kernel<'d>(rest: &mut &'d [u8], symbols: &mut Vec<&'d [u8]>) -> Option<()> {
    for _ in 0..read_map_len(rest).ok()? {
        if key(rest)? == Some(SYMBOL) {
            symbols.push(string(rest)?);
        } else {
            skip(rest)?;
        }
    }
    Some(())
}

/// A key, or none if it is not a string; all keys of interest are strings.
fn key<'d>(rest: &mut &'d [u8]) -> Option<Option<&'d [u8]>> {
    let mut ahead = *rest;
    match string(&mut ahead) {
        Some(key) => {
            *rest = ahead;
            Some(Some(key))
        }
        None => skip(rest).map(|()| None),
    }
}

fn string<'d>(rest: &mut &'d [u8]) -> Option<&'d [u8]> {
    let len = read_str_len(rest).ok()?;
    take(rest, len.into())
}

fn take<'d>(rest: &mut &'d [u8], len: u64) -> Option<&'d [u8]> {
    let (taken, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = behind;
    Some(taken)
}

/// Reads a big-endian number of `width` bytes.
fn number(rest: &mut &[u8], width: u64) -> Option<u64> {
    Some(take(rest, width)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Skips one value, including nested ones. It only counts the remaining values, so the nesting depth is not limited by
/// the stack.
fn skip(rest: &mut &[u8]) -> Option<()> {
    let mut left = 1_u64;
    while let Some(others) = left.checked_sub(1) {
        let (size, values) = match read_marker(rest).ok()? {
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
        left = others.checked_add(values)?;
        // Each takes at least one byte.
        if left > len_u64(rest) {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&[0xa0 | u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    }

    #[test]
    fn kernels_name_their_symbols_and_the_rest_is_skipped() {
        let others: [&[u8]; 8] = [
            &[0x07],
            &[0xcd, 1, 2],
            &[0xd9, 2, b'x', b'y'],
            &[0x93, 1, 0xc0, 0x81, 1, 2],
            &[0xdc, 0, 1, 0xff],
            &[0xde, 0, 1, 0xa1, b'k', 0xcb, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xc7, 1, 5, 9],
            &[0xd8; 18],
        ];
        for other in others {
            let kernel =
                |name: &str| [&[0x83][..], &text(".name"), other, &text(".symbol"), &text(name), &[1, 2]].concat();
            let kernels = [&[0x92][..], &kernel("a.kd"), &kernel("b.kd")].concat();
            let whole = [&[0x83][..], other, other, &text("amdhsa.kernels"), &kernels, &text("v"), other].concat();
            assert_eq!(symbols(&whole), Some(vec![&b"a.kd"[..], b"b.kd"]), "{other:x?}");
            (0..whole.len()).for_each(|len| assert_eq!(symbols(&whole[..len]), None, "{other:x?} {len}"));
            assert_eq!(symbols(&[&whole[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn claims_of_counts_and_depths_are_borne() {
        for data in
            [&[0xdf, 0xff, 0xff, 0xff, 0xff][..], &[0x81, 0xdd, 0xff, 0xff, 0xff, 0xff], &[0x81, 0xc1], &[0x07], &[]]
        {
            assert_eq!(symbols(data), None);
        }
        let deep = [&[0x81, 1][..], &[0x91; 1_000_000], &[0]].concat();
        assert_eq!(symbols(&deep), Some(Vec::new()));
    }
}
