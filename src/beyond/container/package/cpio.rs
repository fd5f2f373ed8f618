//! Reads cpio archives, such as the content of RPM packages.
//!
//! | form | header | numbers |
//! |---|---|---|
//! | `070701`, `070702` (with checksums) | 110 bytes, then the name; padding to 4 bytes after the name and the content | 8 hexadecimal digits |
//! | `070707` | 76 bytes, then the name; no padding | 6 or 11 octal digits |
//!
//! | field | offset, width in `07070[12]` | in `070707` |
//! |---|---|---|
//! | mode | 14, 8 | 18, 6 |
//! | size of the content | 54, 8 | 65, 11 |
//! | length of the name with its NUL | 94, 8 | 59, 6 |
//!
//! The name `TRAILER!!!` ends the archive. Checksums are not compared: they are sums that most writers leave zero.
//! Sources: cpio(5) of libarchive 3.8; the archives of GNU cpio 2.13.
//!
//! Rejected: headers that do not begin with a magic, numbers with other characters, names of more than 4096 bytes, and
//! archives that end without the last name. The binary form of 1977 is not recognised.

use std::io::{self, Read};

use crate::base::bytes::{digits, len_u64, slice};
use crate::beyond::once::{broken, skip};
use crate::llvm::container::limits::NAME_MAX;

/// The first bytes of the forms that are read.
pub(crate) const MAGICS: [&[u8]; 3] = [b"070701", b"070702", b"070707"];

/// The name of the last member, which has no content and ends the archive.
const TRAILER: &[u8] = b"TRAILER!!!";

/// The lengths of the magic and of both forms of a header with its magic, in bytes.
const MAGIC_LEN: usize = 6;
const HEXADECIMAL_LEN: usize = 110;
const OCTAL_LEN: usize = 76;

/// The type of a regular file, and the bits of the mode that hold the type.
const REGULAR_FILE: u64 = 0o100_000;
const TYPE_BITS: u64 = 0o170_000;

/// The header of a member, before its content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    /// The size of the content in bytes.
    pub(crate) size: u64,
    pub(crate) is_file: bool,
    /// The number of bytes of padding after the content.
    pub(crate) padding: u64,
}

impl Header {
    /// Returns the next header, or `None` at the end of the archive.
    pub(crate) fn read(reader: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEXADECIMAL_LEN];
        let (magic, rest) = head.split_at_mut(MAGIC_LEN);
        reader.read_exact(magic)?;
        let (is_octal, header_len) = match &*magic {
            b"070701" | b"070702" => (false, HEXADECIMAL_LEN),
            b"070707" => (true, OCTAL_LEN),
            _ => return Err(broken("a header does not begin with a magic number")),
        };
        reader.read_exact(rest.get_mut(..header_len.saturating_sub(MAGIC_LEN)).unwrap_or_default())?;
        // Offset, width and base of each number: the documentation of this module has the table.
        let (mode, size, name_len) = if is_octal {
            (number(&head, 18, 6, 8)?, number(&head, 65, 11, 8)?, number(&head, 59, 6, 8)?)
        } else {
            (number(&head, 14, 8, 16)?, number(&head, 54, 8, 16)?, number(&head, 94, 8, 16)?)
        };
        let mut name = match usize::try_from(name_len) {
            Ok(len) if len <= NAME_MAX => vec![0; len],
            _ => return Err(broken("the name of a member is longer than 4096 bytes")),
        };
        reader.read_exact(&mut name)?;
        let mut padding = 0;
        // Only the hexadecimal forms have padding: after the name, and after the content.
        if !is_octal {
            skip(reader, to_multiple_of_4(name_len.saturating_add(len_u64(&head))))?;
            padding = to_multiple_of_4(size);
        }
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        name.truncate(end);
        if name == TRAILER {
            return Ok(None);
        }
        Ok(Some(Self { name, size, is_file: mode & TYPE_BITS == REGULAR_FILE, padding }))
    }
}

/// The number of bytes from a length to the next multiple of 4.
fn to_multiple_of_4(len: u64) -> u64 {
    len.wrapping_neg() & 3
}

/// Parses the number of `width` digits at `start` of a header.
fn number(header: &[u8], start: u64, width: u64, base: u8) -> io::Result<u64> {
    let number = digits(slice(header, start, width).unwrap_or_default(), base);
    number.ok_or_else(|| broken("a number in a header has other characters than digits"))
}
