//! Finds the end of LLVM bitcode that other data follows, checks its blocks, and reads the target triple of its modules.
//!
//! | block | content |
//! |---|---|
//! | 13 | the release of LLVM that wrote the module after it |

use crate::base::bytes::{self, number};
use crate::base::error::Malformed;
use crate::llvm::container::bitcode::bitstream::Bits;
use crate::llvm::container::bitcode::{
    MAGIC, MODULE_BLOCK, NotBitcode, STRTAB_BLOCK, SYMTAB_BLOCK, VERSION, WRAPPED_AT, WRAPPED_LEN_AT, WRAPPER_MAGIC,
    open, without_wrapper,
};

const IDENTIFICATION_BLOCK: u64 = 13;

/// The code of the record with the target triple of a module.
const TRIPLE: u64 = 2;

/// The longest triple that is read, in bytes.
const TRIPLE_MAX: usize = 200;

/// The first module version with names in a string table.
const VERSION_WITH_NAME_TABLE: u64 = 2;

/// Checks the structure of a file: the top-level blocks and the items of each module are inside the file, and a string
/// table follows each module that has its names there.
pub(crate) fn check_blocks(data: &[u8]) -> Result<(), Malformed> {
    walk_blocks(data).map_err(|NotBitcode(reason)| Malformed::Bitcode { offset: 0, reason })
}

/// Whether data that begins with the magic continues with the start of an identification block or a module block, which
/// writers put first.
pub(crate) fn is_plausible(data: &[u8]) -> bool {
    // A block begins with the abbreviation ID 1 (ENTER_SUBBLOCK) in 2 bits, and its number in 8 bits (VBR8).
    let block_starts = [IDENTIFICATION_BLOCK, MODULE_BLOCK].map(|number| number << 2 | 1);
    number::<4>(data, bytes::len_u64(&MAGIC)).is_some_and(|word| block_starts.contains(&(word & 0x3ff)))
}

/// Returns the length of the bitcode at the start of `data`, which other data may follow: the end of its last block, or
/// of its wrapper. Returns `None` if the bitcode is not complete, or has no module.
pub(crate) fn len(data: &[u8]) -> Option<u64> {
    // `stream_len` refuses a wrapper inside the wrapper.
    let stream_len = stream_len(without_wrapper(data).ok()?)?;
    if data.starts_with(&WRAPPER_MAGIC) {
        return number::<4>(data, WRAPPED_AT)?.checked_add(number::<4>(data, WRAPPED_LEN_AT)?);
    }
    Some(stream_len)
}

/// Returns the length of the bitcode without a wrapper at the start of `data`, as [`len`] does.
fn stream_len(data: &[u8]) -> Option<u64> {
    if !data.starts_with(&MAGIC) {
        return None;
    }
    let mut stream = Bits::new(data);
    stream.read(32).ok()?;
    let (mut has_module, mut last_block_end) = (false, None);
    // Data after the bitcode may look like a block by chance. Writers put only these four kinds of blocks here, so a
    // block of any other kind ends the bitcode.
    while let Ok(Some(block)) = stream.next_block() {
        match block.number {
            MODULE_BLOCK => has_module = true,
            IDENTIFICATION_BLOCK | STRTAB_BLOCK | SYMTAB_BLOCK => {}
            _ => break,
        }
        last_block_end = Some(stream.position.div_ceil(8));
    }
    if has_module { last_block_end } else { None }
}

/// Reads the target triple of the first module that has one. Returns `None` for a file without a triple, for broken
/// blocks before it, and for a triple that is not text or too long.
pub(crate) fn triple(data: &[u8]) -> Option<String> {
    let mut stream = open(data).ok()?;
    while let Some(mut block) = stream.next_block().ok()? {
        if block.number != MODULE_BLOCK {
            continue;
        }
        // A broken record ends its module, but later modules are read.
        while let Ok(Some(record)) = block.next_record() {
            if record.code == TRIPLE {
                let triple = bytes::text(&record.bytes(0).ok()?)?;
                return if triple.len() <= TRIPLE_MAX { Some(triple) } else { None };
            }
        }
    }
    None
}

/// Reads all blocks of a file, for [`check_blocks`].
fn walk_blocks(data: &[u8]) -> Result<(), NotBitcode> {
    let mut stream = open(data)?;
    let (mut has_module, mut lacks_name_table) = (false, false);
    while let Some(mut block) = stream.next_block()? {
        match block.number {
            MODULE_BLOCK => {
                has_module = true;
                while let Some(record) = block.next_record()? {
                    lacks_name_table |= record.code == VERSION && record.value(0) >= VERSION_WITH_NAME_TABLE;
                }
            }
            // The string table has the names of all modules before it.
            STRTAB_BLOCK => lacks_name_table = false,
            _ => {}
        }
    }
    if !has_module {
        return Err(NotBitcode("no module found"));
    }
    if lacks_name_table {
        return Err(NotBitcode("the string table with the names of its module is missing"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_bitcode_is_found_whatever_follows() {
        // Zeros follow the bitcode in a wrapper.
        for (bitcode, padding) in [
            (&include_bytes!("../../../fixtures/bitcode/llvm14-as.bc")[..], 0),
            (include_bytes!("../../../fixtures/bitcode/llvm22-cat.bc"), 0),
            (include_bytes!("../../../fixtures/bitcode/llvm22-thin.bc"), 0),
            (include_bytes!("../../../fixtures/bitcode/llvm22-wrapper.bc"), 4),
        ] {
            let whole = Some(bytes::len_u64(bitcode) - padding);
            for after in [&b""[..], &[0; 100], &[0xff; 100], b"\x05\x04\0\0\0\0\0\0 and more text", b"ELF", bitcode] {
                assert_eq!(len(&[bitcode, after].concat()), whole, "{}", after.escape_ascii());
            }
            assert_eq!(len(&bitcode[..40]), None);
            let start = without_wrapper(bitcode).unwrap();
            assert!(is_plausible(start) && !is_plausible(&start[..4]) && !is_plausible(&start[4..]));
        }
        assert_eq!(len(b"BC\xc0\xde"), None);
        assert_eq!(len(b"text"), None);
        // A wrapper around itself.
        let wrapper = [&WRAPPER_MAGIC[..], &[0; 8], &16_u32.to_le_bytes()].concat();
        assert_eq!(len(&wrapper), None);
    }
}
