//! Reads the architecture of LTO-IR, NVIDIA's intermediate code for optimisation when linking: of `nvcc -ltoir`, of
//! NVRTC, and of fatbins that are not obfuscated.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic ED 43 4E 7F |
//! | 20 | 2, 2 | an attribute and its value; others follow, up to one with the number 0 or 99 |
//!
//! | attribute | meaning |
//! |---|---|
//! | 1 | ten times the number of the SM architecture |
//! | 32 | 1: for this architecture alone, suffix `a` |
//!
//! Integers are little-endian. The suffix `f` is not recorded. Source: files of `nvcc` 13.5 for sm_75 to sm_120f,
//! observed.
//!
//! Rejected: a header without an architecture.

use crate::base::bytes::{number, tail};
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;

/// The first bytes of LTO-IR, and of OptiX IR.
pub(crate) const MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];

/// The offset of the attributes.
const ATTRIBUTES_AT: u64 = 20;

/// The attribute with the number of the architecture, times ten.
const ARCHITECTURE: u64 = 1;
/// The attribute that is 1 if the code is for this architecture only, such as `lto_90a`.
const SPECIFIC: u64 = 32;
/// The numbers that mark the end of the attributes.
const END_MARKERS: [u64; 2] = [0, 99];

/// The largest number of attributes that are read, because a broken file may have no end marker.
const ATTRIBUTES_MAX: u64 = 64;

/// Checks the header of LTO-IR, which is at `file_offset` of its file.
///
/// # Errors
/// [`Malformed`] if the header names no architecture.
pub(crate) fn check(data: &[u8], file_offset: u64) -> Result<(), Malformed> {
    match architecture(data) {
        Some(_) => Ok(()),
        None => fail_at("LTO-IR whose header has no SM architecture", file_offset),
    }
}

/// Returns the architecture of LTO-IR as `nvcc` spells it, such as `lto_90a`, or `None` if the header has none.
pub(crate) fn architecture(data: &[u8]) -> Option<String> {
    if !data.starts_with(&MAGIC) {
        return None;
    }
    let attributes = tail(data, ATTRIBUTES_AT)?;
    let (mut architecture, mut suffix) = (None, "");
    for index in 0..ATTRIBUTES_MAX {
        // An attribute and its value have 2 bytes each.
        let at = index.saturating_mul(4);
        let attribute = number::<2>(attributes, at)?;
        if END_MARKERS.contains(&attribute) {
            break;
        }
        match (attribute, number::<2>(attributes, at.saturating_add(2))?) {
            // The value is ten times the number of the architecture, so less than 10 is not an architecture.
            (ARCHITECTURE, value) => architecture = if value < 10 { None } else { value.checked_div(10) },
            (SPECIFIC, 1) => suffix = "a",
            _ => {}
        }
    }
    Some(format!("lto_{}{suffix}", architecture?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a header with these attributes.
    fn header(attributes: &[[u16; 2]]) -> Vec<u8> {
        let mut data = MAGIC.to_vec();
        data.resize(20, 1);
        data.extend(attributes.iter().flatten().flat_map(|number| number.to_le_bytes()));
        data
    }

    #[test]
    fn headers_name_the_architecture() {
        for (attributes, expected) in [
            (&[[1, 750], [2, 2], [99, 0]][..], Some("lto_75")),
            (&[[1, 900], [2, 2], [32, 1], [99, 0]], Some("lto_90a")),
            (&[[2, 2], [1, 1030], [0, 0], [32, 1]], Some("lto_103")),
            (&[[2, 2], [99, 0], [1, 900]], None),
            (&[[1, 0], [99, 0]], None),
            (&[[1, 900]], None),
            (&[], None),
        ] {
            assert_eq!(architecture(&header(attributes)).as_deref(), expected, "{attributes:?}");
        }
        assert_eq!(architecture(&header(&[[2, 2]; 1000])), None);
        assert_eq!(architecture(b"\xed\x43"), None);
        assert!(check(&header(&[[1, 750], [0, 0]]), 0).is_ok() && check(&header(&[[0, 0]]), 0).is_err());
    }
}
