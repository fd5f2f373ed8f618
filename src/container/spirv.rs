//! Reads what a SPIR-V module is for: its capabilities and memory model, which its first instructions declare.
//!
//! | opcode | operands |
//! |---|---|
//! | 17, OpCapability | the capability; 6, Kernel: the module is for OpenCL, SYCL, OpenMP or HIP, not for graphics |
//! | 10, OpExtension; 11, OpExtInstImport | not used |
//! | 14, OpMemoryModel | addressing model: 1 has 32 bits, 2 has 64; memory model |
//!
//! An instruction is a word with its opcode in the lower 16 bits and its length in words in the upper ones, and its
//! operands. The header before the first one has 20 bytes; its first word sets the byte order. Source: SPIR-V
//! specification 1.6.

use std::mem::replace;
use std::ops::Range;

use crate::bytes::{array, len_of, span};

/// The first word of a module. It sets the byte order of all words.
pub(crate) const MAGIC: u32 = 0x0723_0203;

/// The length of the header in bytes.
pub(crate) const HEADER_LEN: u64 = 20;

/// The length of a word in bytes.
const WORD: u64 = 4;

const EXTENSION: u32 = 10;
const IMPORT: u32 = 11;
const MEMORY_MODEL: u32 = 14;
const CAPABILITY: u32 = 17;

const KERNEL: u32 = 6;

/// The width of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Bits32,
    Bits64,
}

/// Whether the module is for computing, not for graphics.
pub(crate) fn has_kernels(data: &[u8]) -> bool {
    declarations(data).any(|(opcode, operand)| opcode == CAPABILITY && operand == KERNEL)
}

/// The width of addresses; none if the module has no physical addresses.
pub(crate) fn width(data: &[u8]) -> Option<Width> {
    match declarations(data).find(|(opcode, _)| *opcode == MEMORY_MODEL)?.1 {
        1 => Some(Width::Bits32),
        2 => Some(Width::Bits64),
        _ => None,
    }
}

/// Reads the word at an offset, in the byte order of a module.
pub(crate) fn words(data: &[u8]) -> impl Fn(u64) -> Option<u32> {
    let is_little = data.starts_with(&MAGIC.to_le_bytes());
    move |offset| array(data, offset).map(if is_little { u32::from_le_bytes } else { u32::from_be_bytes })
}

/// The instructions: the first word of each, and its range, which may end after the data. One without a length is the last.
pub(crate) fn instructions(data: &[u8]) -> impl Iterator<Item = (u32, Range<u64>)> {
    let (word, mut next) = (words(data), Some(HEADER_LEN));
    std::iter::from_fn(move || {
        let start = next?;
        let first = word(start)?;
        let range = span(start, u64::from(first >> 16).saturating_mul(WORD));
        next = (!range.is_empty()).then_some(range.end);
        Some((first, range))
    })
}

/// The opcodes of the first instructions, up to the memory model, and their first operands.
fn declarations(data: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let (word, mut is_over) = (words(data), false);
    let is_model = |first: u32| first & 0xffff == MEMORY_MODEL;
    let up_to_model = instructions(data).take_while(move |(first, _)| !replace(&mut is_over, is_model(*first)));
    up_to_model.map_while(move |(first, range)| {
        let opcode = first & 0xffff;
        let is_declaration = [EXTENSION, IMPORT, MEMORY_MODEL, CAPABILITY].contains(&opcode);
        let operand = word(range.start.checked_add(WORD)?)?;
        (is_declaration && len_of(&range) > WORD).then_some((opcode, operand))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(words: &[u32], encode: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let header = [MAGIC, 0x1_0000, 0, 1, 0];
        header.iter().chain(words).flat_map(|word| encode(*word)).collect()
    }

    #[test]
    fn the_first_instructions_tell_what_a_module_is_for() {
        let kernel = [0x2_0011, 4, 0x2_0011, 6, 0x5_000b, 1, 0x6e65_704f, 0x732e_4c43, 0x6474, 0x3_000e, 2, 2];
        let shader = [0x2_0011, 1, 0x3_000e, 0, 1, 0x2_0011, 6];
        for encode in [u32::to_le_bytes, u32::to_be_bytes] {
            let kernel = module(&kernel, encode);
            assert_eq!((has_kernels(&kernel), width(&kernel)), (true, Some(Width::Bits64)));
            assert!((0..kernel.len() - 4).all(|len| width(&kernel[..len]).is_none()));
            let shader = module(&shader, encode);
            assert_eq!((has_kernels(&shader), width(&shader)), (false, None));
        }
        assert_eq!(width(&module(&[0x3_000e, 1, 2], u32::to_le_bytes)), Some(Width::Bits32));
        assert!(!has_kernels(&module(&[0x11, 6], u32::to_le_bytes)));
    }
}
