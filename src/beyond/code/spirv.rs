//! Reads the purpose of a SPIR-V module: its capabilities and memory model, which its first instructions declare.
//!
//! | opcode | operands |
//! |---|---|
//! | 17, OpCapability | the capability; 6, Kernel: the module is for OpenCL, SYCL, OpenMP or HIP, not for graphics |
//! | 10, OpExtension; 11, OpExtInstImport | not used |
//! | 14, OpMemoryModel | addressing model: 1 has 32 bits, 2 has 64; memory model |
//! | 54, OpFunction; 56, OpFunctionEnd | around each function; all functions are last |
//! | 8, OpLine; 317, OpNoLine | possible between them |
//!
//! An instruction is a word with its opcode in the lower 16 bits and its length in words in the upper ones, and its
//! operands. The header before the first one has 20 bytes; its first word sets the byte order. Source: SPIR-V
//! specification 1.6.

use std::ops::Range;

use crate::base::bytes::{add, array, len_of, len_u64, span};
pub(crate) use crate::llvm::container::magic::SPIR_V as MAGIC;

/// The length of the header in bytes.
pub(crate) const HEADER_LEN: u64 = 20;

/// The length of a word in bytes.
const WORD: u64 = 4;

/// The cost of reading an instruction in vain, in bytes that a search could read in the same time.
const INSTRUCTION_COST: u64 = 256;

const EXTENSION: u32 = 10;
const IMPORT: u32 = 11;
const MEMORY_MODEL: u32 = 14;
const CAPABILITY: u32 = 17;

/// The first words of instructions whose length is fixed: length and opcode.
const ONE_CAPABILITY: u32 = 0x2_0000 | CAPABILITY;
const FUNCTION: u32 = 0x5_0036;
const FUNCTION_END: u32 = 0x1_0038;
const LINE: u32 = 0x4_0008;
const NO_LINE: u32 = 0x1_013d;

/// The capability of modules for computing.
const KERNEL: u32 = 6;

/// The addressing models with physical addresses.
const PHYSICAL_32: u32 = 1;
const PHYSICAL_64: u32 = 2;

/// In the first word of an instruction: the bits of the opcode, and the number of bits below the length in words.
const OPCODE: u32 = 0xffff;
const LENGTH_SHIFT: u32 = 16;

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

/// Returns the width of addresses, or `None` if the module has no physical addresses.
pub(crate) fn width(data: &[u8]) -> Option<Width> {
    let (_, addressing_model) = declarations(data).find(|(opcode, _)| *opcode == MEMORY_MODEL)?;
    match addressing_model {
        PHYSICAL_32 => Some(Width::Bits32),
        PHYSICAL_64 => Some(Width::Bits64),
        _ => None,
    }
}

/// Whether data begins with a header and a capability, as each module does. Other data is unlikely to begin with such
/// words.
pub(crate) fn is_plausible(data: &[u8]) -> bool {
    // The header is: magic, version, generator, bound, and a reserved word.
    let word = words(data);
    let (Some(version), Some(bound)) = (word(4), word(12)) else { return false };
    // Version 1.6 is 0x00010600. The bound is more than the largest ID, and IDs are more than 0.
    let is_version_1 = (0x1_0000..0x2_0000).contains(&version) && version & 0xff == 0;
    if !is_version_1 || bound == 0 {
        return false;
    }
    let (reserved, first_instruction) = (word(16), word(HEADER_LEN));
    reserved == Some(0) && first_instruction == Some(ONE_CAPABILITY)
}

/// Returns the length of the module at the start of data, up to the end of its last function.
///
/// # Errors
/// The data has no memory model or no function, or its last function does not end. The error is the cost of the
/// attempt, in bytes that a search could read in the same time.
pub(crate) fn len(data: &[u8]) -> Result<u64, u64> {
    // Instructions are: declarations with the memory model, then functions. Only `OpLine` and `OpNoLine` may follow a
    // function without beginning the next one.
    let (mut has_model, mut is_in_function, mut function_end, mut cost) = (false, false, None, 0);
    for (first_word, range) in instructions(data) {
        // An instruction without a length, or with an end beyond the data, is other data.
        if range.is_empty() || range.end > len_u64(data) {
            break;
        }
        add(&mut cost, INSTRUCTION_COST);
        match first_word {
            FUNCTION if has_model && !is_in_function => is_in_function = true,
            FUNCTION_END if is_in_function => {
                is_in_function = false;
                function_end = Some(range.end);
            }
            LINE | NO_LINE => {}
            // The header of another module.
            MAGIC => break,
            // Functions come last, so this is other data after the module.
            _ if function_end.is_some() && !is_in_function => break,
            _ => has_model |= first_word & OPCODE == MEMORY_MODEL,
        }
    }
    match function_end {
        Some(end) if !is_in_function => Ok(end),
        _ => Err(cost),
    }
}

/// Returns a function that reads the word at an offset, in the byte order of a module.
pub(crate) fn words(data: &[u8]) -> impl Fn(u64) -> Option<u32> {
    let is_little = data.starts_with(&MAGIC.to_le_bytes());
    move |offset| array(data, offset).map(if is_little { u32::from_le_bytes } else { u32::from_be_bytes })
}

/// Returns the instructions: the first word of each, and its range, which may end after the data. An instruction with
/// the length 0, which is malformed, is the last one.
pub(crate) fn instructions(data: &[u8]) -> impl Iterator<Item = (u32, Range<u64>)> {
    let (word, mut next) = (words(data), Some(HEADER_LEN));
    std::iter::from_fn(move || {
        let start = next?;
        let first_word = word(start)?;
        let word_count = first_word >> LENGTH_SHIFT;
        let range = span(start, u64::from(word_count).saturating_mul(WORD));
        next = if range.is_empty() { None } else { Some(range.end) };
        Some((first_word, range))
    })
}

/// Returns the opcode and the first operand of each declaration at the start of a module. The memory model is the last
/// declaration. Any other instruction before it ends the declarations too, and is not returned.
fn declarations(data: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let (word, mut instructions, mut is_over) = (words(data), instructions(data), false);
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let (first_word, range) = instructions.next()?;
        let opcode = first_word & OPCODE;
        let is_declaration = [EXTENSION, IMPORT, MEMORY_MODEL, CAPABILITY].contains(&opcode);
        is_over = opcode == MEMORY_MODEL || !is_declaration;
        if !is_declaration || len_of(&range) <= WORD {
            return None;
        }
        Some((opcode, word(range.start.checked_add(WORD)?)?))
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
    fn the_first_instructions_have_the_purpose_of_a_module() {
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

    #[test]
    fn a_module_ends_with_its_last_function() {
        let head = [ONE_CAPABILITY, 6, 0x3_000e, 2, 2, 0x2_0013, 1];
        let function = [FUNCTION, 1, 2, 0, 3, 0x2_00f8, 4, 0x1_00fd, FUNCTION_END];
        let (line, no_line) = ([LINE, 1, 2, 3], [NO_LINE]);
        let other = [FUNCTION, 1, 2, 0];
        let rest: [&[u32]; 6] = [&[], &[0, 0], &[0x0723_0203, 0x1_0000, 0, 1, 0], &[0x6574_7865, 9], &line, &other];
        for encode in [u32::to_le_bytes, u32::to_be_bytes] {
            let one = module(&[&head[..], &function].concat(), encode);
            let two = module(&[&head[..], &line, &function, &no_line, &line, &function].concat(), encode);
            for (whole, is_two) in [(one, false), (two, true)] {
                let first = if is_two { 20 + 4 * (head.len() + 4 + function.len()) } else { 0 };
                assert!(is_plausible(&whole) && (0..24).all(|len| !is_plausible(&whole[..len])));
                for rest in rest {
                    let rest: Vec<u8> = rest.iter().flat_map(|word| encode(*word)).collect();
                    assert_eq!(len(&[&whole[..], &rest].concat()), Ok(len_u64(&whole)), "{rest:?}");
                }
                for cut in (0..whole.len()).filter(|&cut| cut < first || cut > first + 40) {
                    assert!(len(&whole[..cut]).is_err(), "{cut}");
                }
            }
            let unended = module(&[&head[..], &function[..8]].concat(), encode);
            assert_eq!(len(&unended.repeat(1000)), Err(7 * INSTRUCTION_COST));
            let without_model = module(&[&head[..2], &function].concat(), encode);
            assert_eq!(len(&without_model), Err(5 * INSTRUCTION_COST));
        }
    }
}
