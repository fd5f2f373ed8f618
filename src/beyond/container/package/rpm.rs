//! Reads over the headers of RPM packages, to the archive in them.
//!
//! | part | length in bytes |
//! |---|---|
//! | lead, with the magic `ED AB EE DB` | 96 |
//! | signature: a header, padded to a multiple of 8 | |
//! | header | |
//! | payload: a cpio archive, usually compressed | the rest |
//!
//! | offset in a header | width | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `8E AD E8 01`, reserved |
//! | 8 | 4 | number of index entries, big endian; each takes 16 bytes |
//! | 12 | 4 | length of the data after them, big endian |
//!
//! Source: the format manual of RPM 4.20. Signatures and digests are not checked.
//!
//! Rejected: headers without the magic, or of more than 256 MiB, the limit of RPM itself.

use std::io::{self, Read};

use crate::beyond::once::{broken, skip};

/// The length of the lead in bytes.
const LEAD_LEN: u64 = 96;

/// The first bytes of a header.
const HEADER_MAGIC: [u8; 4] = [0x8e, 0xad, 0xe8, 0x01];

/// The maximum length of a header in bytes.
const HEADER_MAX: u64 = 256 << 20;

/// Reads up to the payload.
pub(crate) fn skip_headers(reader: &mut (impl Read + ?Sized)) -> io::Result<()> {
    skip(reader, LEAD_LEN)?;
    let signature_len = skip_header(reader)?;
    // The padding of the signature, up to a multiple of 8.
    skip(reader, signature_len.wrapping_neg() & 7)?;
    skip_header(reader)?;
    Ok(())
}

/// Reads over a header. Returns its length without the first 16 bytes.
fn skip_header(reader: &mut (impl Read + ?Sized)) -> io::Result<u64> {
    let mut head = [0; 16];
    reader.read_exact(&mut head)?;
    let [a, b, c, d, _, _, _, _, n0, n1, n2, n3, l0, l1, l2, l3] = head;
    if [a, b, c, d] != HEADER_MAGIC {
        return Err(broken("a header does not begin with its magic number"));
    }
    let count = u64::from(u32::from_be_bytes([n0, n1, n2, n3]));
    // The index entries, of 16 bytes each, and the data after them.
    let len = count.saturating_mul(16).saturating_add(u32::from_be_bytes([l0, l1, l2, l3]).into());
    if len > HEADER_MAX {
        return Err(broken("a header is longer than 256 MiB"));
    }
    skip(reader, len)?;
    Ok(len)
}
