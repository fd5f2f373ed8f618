//! Checks SPIR-V modules.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic 0x07230203; its byte order is that of all words |
//! | 4 | 4 | version: 0, major, minor, 0 |
//! | 8 | 4 | generator |
//! | 12 | 4 | bound: all IDs are below it; not 0 |
//! | 16 | 4 | schema, 0 |
//! | 20 | | instructions: opcode in the lower 16 bits of the first word, length in words in the upper ones |
//!
//! Source: SPIR-V specification 1.6.

use crate::base::bytes::len_u64;
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::spirv::{self, HEADER_LEN};

/// Checks the header of a module, and that its instructions fill the rest of it.
pub(super) fn check(data: &[u8]) -> Result<(), Malformed> {
    let word = spirv::words(data);
    let end = len_u64(data);
    let (Some(version), Some(bound), Some(schema)) = (word(4), word(12), word(16)) else {
        return Err(Malformed::truncated("the header of the SPIR-V module", 0, HEADER_LEN, end));
    };
    let [low, minor, major, high] = version.to_le_bytes();
    let is_version_1 = low == 0 && major == 1 && high == 0;
    if !is_version_1 {
        return fail_at(format!("SPIR-V version {major}.{minor} ({version:#x}), which does not exist,"), 4);
    }
    if bound == 0 || schema != 0 {
        return fail_at("a SPIR-V header whose bound is 0 or whose schema is not", 12);
    }
    // The end of the last instruction with a possible length: not 0, and inside the module.
    let mut checked = HEADER_LEN;
    for (_, range) in spirv::instructions(data) {
        if range.is_empty() || range.end > end {
            break;
        }
        checked = range.end;
    }
    if checked < end { fail_at("a SPIR-V instruction with an impossible length", checked) } else { Ok(()) }
}
