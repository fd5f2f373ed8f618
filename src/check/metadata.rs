//! Reads the metadata of a code object for an AMD GPU: a note whose content is one MessagePack map.
//!
//! | key | value |
//! |---|---|
//! | `amdhsa.kernels` | an array with a map for each kernel |
//! | | `.symbol`: the name of the symbol of its kernel descriptor |
//!
//! All of it must be valid MessagePack; only these keys are read. Source: User Guide for AMDGPU Backend.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::messagepack::Value;

const KERNELS: &[u8] = b"amdhsa.kernels";
const SYMBOL: &[u8] = b".symbol";

/// The names of the kernels' symbols; none if the metadata is broken.
pub(super) fn symbols(data: &[u8]) -> Option<Vec<&[u8]>> {
    let (metadata, rest) = Value::first(data, 0)?;
    let mut symbols = Vec::new();
    for kernels in values(metadata, KERNELS)? {
        for kernel in kernels.array()? {
            for symbol in values(kernel, SYMBOL)? {
                symbols.push(symbol.text()?);
            }
        }
    }
    rest.is_empty().then_some(symbols)
}

/// The values of a map with this key.
fn values<'d>(map: Value<'d>, key: &'static [u8]) -> Option<impl Iterator<Item = Value<'d>> + use<'d>> {
    Some(map.map()?.filter_map(move |(name, value)| (name.text() == Some(key)).then_some(value)))
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
