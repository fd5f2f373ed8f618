//! Reads tar archives: the forms of Unix 7, POSIX (ustar, pax) and GNU.
//!
//! A member is a header of 512 bytes and its content, padded to a multiple of 512. Zeros between headers are skipped,
//! as for `tar -i`, so that archives in a row are read.
//!
//! | offset in a header | width | meaning |
//! |---|---|---|
//! | 0 | 100 | name |
//! | 124 | 12 | size of the content: octal digits or, if the first bit is set, a big-endian number |
//! | 148 | 8 | sum of all bytes, with spaces instead of this field: octal digits |
//! | 156 | 1 | type |
//! | 257 | 6 | `ustar`; then a NUL (POSIX) or a space (GNU) |
//! | 345 | 155 | POSIX: prefix of the name |
//! | 386, 483 | 4 × 24, 12 | GNU, type `S`: offset and size of four ranges, real size; 482 is 1 if 512 bytes with more ranges follow |
//!
//! | type | meaning |
//! |---|---|
//! | `1` to `6` | links, devices and directories: they have no content, whatever size they record |
//! | `L` | the name of the next member |
//! | `x`, `X` | attributes of the next member: `path`, `size`, `GNU.sparse.*` |
//! | `g`, `K`, `V`, `D` | attributes of all members, target of a link, label, names of a directory: skipped |
//! | `M` | the rest of a file that begins in another volume |
//! | `S` | a file with holes |
//! | any other | a file |
//!
//! The holes of a file are recorded in its header, in attributes (`GNU.sparse.offset` and `numbytes`, or `map`) or at
//! the start of the content (`GNU.sparse.major` is 1). Sources: pax in POSIX.1-2017; the manual of GNU tar 1.35,
//! chapter "Tar Internals".
//!
//! Rejected: wrong sums, invalid or too large numbers, attributes without a length, ranges that overlap or are larger
//! than the content. An archive that ends where a member does is whole, with or without zeros after it. The crate `tar`
//! is not used: it skips broken attributes, treats holes of pax files as content, and prints bytes of the file in its
//! errors.

use std::io::{self, Read};

use crate::base::bytes::{add, digits, is_zero, len_u64, slice, to_u64, total};
use crate::beyond::once::{self, broken, skip};

/// The length of a header. Content is padded to a multiple of this length.
pub(crate) const BLOCK: u64 = 512;

/// The offsets and lengths of the name and, in headers of POSIX, of its prefix.
const NAME: (u64, u64) = (0, 100);
const PREFIX: (u64, u64) = (345, 155);

/// The offset of the type in a header.
const TYPE_AT: usize = 156;

/// The offset of the magic in a header.
const MAGIC_AT: u64 = 257;

/// In a header of GNU tar for a file with holes: the offset and length of the ranges, the offset of the flag for more
/// ranges, and the offset of the size.
const GNU_RANGES: (u64, u64) = (386, 96);
const GNU_IS_EXTENDED_AT: usize = 482;
const GNU_SIZE_AT: u64 = 483;

/// The length of an offset or size in a header of GNU tar.
const NUMBER_LEN: usize = 12;

/// In a block with more ranges: the length of the ranges, after which the flag for another such block follows.
const MORE_RANGES_LEN: u64 = 504;
const MORE_IS_EXTENDED_AT: usize = 504;

/// The maximum length of a map of holes at the start of a content, in bytes.
const MAP_MAX: u64 = 1 << 20;

/// The header of a member, with the attributes that precede it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: MemberKind,
    /// The size of the stored content in bytes.
    pub(crate) stored: u64,
}

/// The kind of a member.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum MemberKind {
    #[default]
    File,
    /// A file of this size with holes. The content has only these ranges of the file.
    Sparse(u64, Vec<SparseRange>),
    /// The content begins with the map of the holes of a file of this size.
    MapInContent(u64),
    /// The rest of a file that begins in another volume, so that the content is not a whole file.
    Part,
    /// Anything but a file.
    Other,
}

/// Offset and size of a range of a file with holes.
type SparseRange = (u64, u64);

/// The next part of an archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextMember {
    Member(Header),
    /// A block of zeros, which ends an archive or separates two of them.
    Zeros,
    /// The end. Other data may follow it.
    End {
        has_trailing: bool,
    },
}

/// The attributes of a member, which other members before it record.
#[derive(Default)]
struct Attributes {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    /// The name and size of a file with holes.
    sparse_name: Option<Vec<u8>>,
    sparse_size: Option<u64>,
    /// The ranges of a file with holes: offset and size of each, in turn.
    ranges: Vec<u64>,
    /// Whether the ranges are recorded in the attributes.
    has_map: bool,
    /// Whether the ranges are recorded at the start of the content.
    has_map_in_content: bool,
}

/// The state of reading an archive.
#[derive(Default)]
pub(crate) struct TarArchive {
    /// Whether a block of zeros was read last. Another archive, other data or nothing may follow it.
    is_after_zeros: bool,
}

impl TarArchive {
    /// Reads up to the content of the next member.
    pub(crate) fn next(&mut self, reader: &mut impl Read) -> io::Result<NextMember> {
        let next = read_next(reader, self.is_after_zeros);
        self.is_after_zeros = matches!(next, Ok(NextMember::Zeros));
        next
    }
}

/// Reads up to the content of the next member. After zeros, the archive may be over: then data that is not a header is
/// the end, not a fault.
fn read_next(reader: &mut impl Read, is_after_zeros: bool) -> io::Result<NextMember> {
    let (mut attributes, mut has_attributes) = (Attributes::default(), false);
    loop {
        let block = read_block(reader)?;
        // At the end of the data, the block is empty, which counts as zeros too.
        let has_zeros = is_zero(&block);
        // The member that the attributes describe is missing.
        if has_attributes && has_zeros {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if block.is_empty() {
            return Ok(NextMember::End { has_trailing: false });
        }
        if len_u64(&block) < BLOCK {
            if is_after_zeros {
                return Ok(NextMember::End { has_trailing: !has_zeros });
            }
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if has_zeros {
            return Ok(NextMember::Zeros);
        }
        if !sum_is_right(&block) {
            // Without the magic of a header, this is other data.
            if is_after_zeros && slice(&block, MAGIC_AT, 5) != Some(b"ustar") {
                return Ok(NextMember::End { has_trailing: true });
            }
            return Err(broken("the checksum of a header is wrong"));
        }
        let size = size_of(&block).ok_or_else(|| broken("the size of a member is not a number"))?;
        match block.get(TYPE_AT).copied().unwrap_or_default() {
            // GNU tar writes a long name, and the long target of a link, into a member before. The target is not used.
            b'L' => attributes.name = Some(until_nul(&read_content(reader, size)?).to_vec()),
            b'x' | b'X' => attributes.add(&read_content(reader, size)?)?,
            b'K' => skip(reader, padded(size))?,
            // Attributes of all members need no member after them.
            b'g' => {
                skip(reader, padded(size))?;
                continue;
            }
            kind => return Ok(NextMember::Member(read_header(reader, kind, &block, size, attributes)?)),
        }
        has_attributes = true;
    }
}

/// Whether data begins with the header of a member: a name, a size, and the right sum. Names may begin like any other
/// format, so the sum of the bytes has to be right.
pub(crate) fn is_header(data: &[u8]) -> bool {
    let Some(block) = slice(data, 0, BLOCK) else { return false };
    sum_is_right(block) && size_of(block).is_some() && block.first() != Some(&0)
}

/// Whether a header records the sum of its bytes. Old writers added them as signed numbers.
fn sum_is_right(block: &[u8]) -> bool {
    const SUM_AT: usize = 148;
    const SUM_END: usize = 156;
    let Some(field) = block.get(SUM_AT..SUM_END) else { return false };
    // The field of the sum counts as eight spaces. They add up to 256, so no right sum is smaller.
    let Some(recorded @ 256..) = number(field) else { return false };
    let (mut unsigned, mut signed) = (0_i64, 0_i64);
    for (at, &byte) in block.iter().enumerate() {
        let byte = if (SUM_AT..SUM_END).contains(&at) { b' ' } else { byte };
        unsigned = unsigned.saturating_add(byte.into());
        signed = signed.saturating_add(byte.cast_signed().into());
    }
    [unsigned, signed].iter().any(|&sum| u64::try_from(sum) == Ok(recorded))
}

/// Returns the size of the content that a header records, or `None` if the field is not a number.
fn size_of(block: &[u8]) -> Option<u64> {
    number(slice(block, 124, 12)?)
}

/// Parses a number in a header: octal digits with spaces around them, up to the first NUL, where no digits mean 0.
/// Returns `None` for anything else.
fn number(field: &[u8]) -> Option<u64> {
    // GNU tar stores a number that is too large for the digits in binary, and sets the highest bit.
    if let [first @ 0x80..=0xff, rest @ ..] = field {
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |number, &byte| Some(number.checked_mul(256)? | u64::from(byte)));
    }
    digits(until_nul(field).trim_ascii(), 8)
}

/// Returns the bytes of a field before its first NUL.
fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The length of content with its padding.
pub(crate) fn padded(size: u64) -> u64 {
    size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// Makes the header of a member from its block and the attributes before it. Reads the blocks with more ranges of a
/// file with holes, if there are any.
fn read_header(
    reader: &mut impl Read,
    kind: u8,
    block: &[u8],
    size: u64,
    attributes: Attributes,
) -> io::Result<Header> {
    let stored = attributes.size.unwrap_or(size);
    let kind = match kind {
        // Links, devices and directories have no content, whatever size they record.
        b'1'..=b'6' => return Ok(Header { name: name_of(block, attributes), kind: MemberKind::Other, stored: 0 }),
        // The label of a volume, and the names in a directory.
        b'V' | b'D' => MemberKind::Other,
        // The rest of a file that begins in another volume.
        b'M' => MemberKind::Part,
        // A file with holes.
        b'S' => read_gnu_sparse(reader, block)?,
        // GNU tar records the holes of other files in attributes, or in the content if the attributes say so.
        _ if attributes.has_map_in_content => MemberKind::MapInContent(attributes.sparse_size.ok_or_else(no_size)?),
        _ if attributes.has_map => {
            MemberKind::Sparse(attributes.sparse_size.ok_or_else(no_size)?, pairs(&attributes.ranges)?)
        }
        _ => MemberKind::File,
    };
    if let MemberKind::Sparse(size, ranges) = &kind {
        check_ranges(*size, ranges, stored)?;
    }
    Ok(Header { name: name_of(block, attributes), kind, stored })
}

/// Returns the name of a member: from its attributes, otherwise from its header.
fn name_of(block: &[u8], attributes: Attributes) -> Vec<u8> {
    if let Some(name) = attributes.sparse_name.or(attributes.name) {
        return name;
    }
    let name = text_field(block, NAME);
    // GNU tar has other fields in place of the prefix.
    let is_posix = slice(block, MAGIC_AT, 6) == Some(b"ustar\0");
    let prefix = if is_posix { text_field(block, PREFIX) } else { &[] };
    if prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

/// Returns a field of a header up to its first NUL.
fn text_field(block: &[u8], (start, len): (u64, u64)) -> &[u8] {
    until_nul(slice(block, start, len).unwrap_or_default())
}

/// Reads the holes that a header of GNU tar records, with the blocks after it.
fn read_gnu_sparse(reader: &mut impl Read, block: &[u8]) -> io::Result<MemberKind> {
    let size = slice(block, GNU_SIZE_AT, to_u64(NUMBER_LEN)).and_then(number).ok_or_else(no_size)?;
    let (ranges_at, ranges_len) = GNU_RANGES;
    let mut ranges = gnu_ranges(slice(block, ranges_at, ranges_len).unwrap_or_default())?;
    let mut is_extended = block.get(GNU_IS_EXTENDED_AT) != Some(&0);
    while is_extended {
        let more = read_block(reader)?;
        if len_u64(&more) < BLOCK {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        ranges.extend(gnu_ranges(slice(&more, 0, MORE_RANGES_LEN).unwrap_or_default())?);
        is_extended = more.get(MORE_IS_EXTENDED_AT) != Some(&0);
    }
    Ok(MemberKind::Sparse(size, ranges))
}

/// Reads offset and size of each range, up to the first field that begins with a NUL.
fn gnu_ranges(fields: &[u8]) -> io::Result<Vec<SparseRange>> {
    let mut ranges = Vec::new();
    for field in fields.chunks_exact(2 * NUMBER_LEN) {
        if field.first() == Some(&0) {
            break;
        }
        let (offset, size) = field.split_at(NUMBER_LEN);
        let (Some(offset), Some(size)) = (number(offset), number(size)) else {
            return Err(broken("a range of a sparse file is not a number"));
        };
        ranges.push((offset, size));
    }
    Ok(ranges)
}

/// Makes ranges of the numbers of a map: offset and size of each.
fn pairs(numbers: &[u64]) -> io::Result<Vec<SparseRange>> {
    let (pairs, rest) = numbers.as_chunks();
    if !rest.is_empty() {
        return Err(broken("the map of a sparse file has an odd length"));
    }
    Ok(pairs.iter().map(|&[offset, size]| (offset, size)).collect())
}

/// Checks that ranges are in order, are in a file of `size` bytes, and are together as long as the stored content.
fn check_ranges(size: u64, ranges: &[SparseRange], stored: u64) -> io::Result<()> {
    let mut last_end = 0;
    for &(offset, len) in ranges {
        match offset.checked_add(len) {
            Some(end) if offset >= last_end && end <= size => last_end = end,
            _ => return Err(broken("the ranges of a sparse file overlap or are outside of it")),
        }
    }
    if total(ranges.iter().map(|(_, len)| *len)) != stored {
        return Err(broken("the ranges of a sparse file do not have the size of its content"));
    }
    Ok(())
}

/// Whether a map is complete: its first number counts the ranges, and two numbers follow for each.
fn is_complete(numbers: &[u64]) -> bool {
    let Some(count) = numbers.first() else { return false };
    to_u64(numbers.len()) > count.saturating_mul(2)
}

/// Reads the map at the start of the content of a file with holes: lines with the number of ranges, then offset and
/// size of each, in whole blocks. `size` is the size of the file with its holes. `unread` is the number of bytes of
/// stored content that were not read yet. The length of the map is subtracted from it.
pub(crate) fn read_map(reader: &mut impl Read, size: u64, unread: &mut u64) -> io::Result<Vec<SparseRange>> {
    let (mut line, mut numbers, mut map_len) = (Vec::new(), Vec::new(), 0_u64);
    while !is_complete(&numbers) {
        let block = read_block(reader)?;
        *unread = unread.checked_sub(BLOCK).ok_or_else(|| broken("the map of a sparse file is larger than it"))?;
        add(&mut map_len, len_u64(&block));
        if len_u64(&block) < BLOCK || map_len > MAP_MAX {
            return Err(broken("the map of a sparse file does not end, or is longer than 1 MiB"));
        }
        for byte in block {
            if byte != b'\n' {
                line.push(byte);
            } else if !is_complete(&numbers) {
                // Once the map is complete, the rest of its last block is padding.
                let number = decimal(&line);
                numbers.push(number.ok_or_else(|| broken("a line of the map of a sparse file is not a number"))?);
                line.clear();
            }
        }
    }
    // The first number counts the ranges.
    let ranges = pairs(numbers.get(1..).unwrap_or_default())?;
    // The ranges have the rest of the content.
    check_ranges(size, &ranges, *unread)?;
    Ok(ranges)
}

/// A file with holes, which are zeros.
pub(crate) struct Sparse<R> {
    reader: R,
    ranges: std::vec::IntoIter<SparseRange>,
    /// The number of zeros in the hole before the current range that were not returned yet.
    zeros_left: u64,
    /// The number of bytes of the current range that were not returned yet.
    data_left: u64,
    /// The end of the current range.
    position: u64,
    /// The size of the file with its holes.
    size: u64,
}

impl<R: Read> Sparse<R> {
    pub(crate) fn new(reader: R, size: u64, ranges: Vec<SparseRange>) -> Self {
        Self { reader, ranges: ranges.into_iter(), zeros_left: 0, data_left: 0, position: 0, size }
    }
}

impl<R: Read> Read for Sparse<R> {
    /// Returns zeros in a hole, and the bytes of the archive in a range.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.zeros_left == 0 && self.data_left == 0 && self.position < self.size {
            // The next range, with the hole before it. Both may be empty, so this is a loop. After all ranges, the rest
            // of the file is a hole.
            let (offset, len) = self.ranges.next().unwrap_or((self.size, 0));
            (self.zeros_left, self.data_left) = (offset.saturating_sub(self.position), len);
            self.position = offset.saturating_add(len);
        }
        let is_hole = self.zeros_left > 0;
        let left = if is_hole { self.zeros_left } else { self.data_left };
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let part = buffer.get_mut(..len).unwrap_or_default();
        if is_hole {
            part.fill(0);
            self.zeros_left = left.saturating_sub(to_u64(len));
            return Ok(len);
        }
        let count = self.reader.read(part)?;
        self.data_left = left.saturating_sub(to_u64(count));
        Ok(count)
    }
}

impl Attributes {
    /// Adds the attributes of a pax member: lines `<length> <key>=<value>`. The last line for a key counts.
    fn add(&mut self, mut data: &[u8]) -> io::Result<()> {
        // Some writers fill the block with zeros.
        while let Some(1..) = data.first() {
            let Some((key, value, rest)) = split_attribute(data) else {
                return Err(broken("the attributes of a member are not a length, a key and a value"));
            };
            self.set(key, value)?;
            data = rest;
        }
        Ok(())
    }

    /// Sets one attribute, or ignores it if it is not used here. In pax, an empty value removes an attribute, so that
    /// the field of the header counts.
    fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match key {
            b"path" if value.is_empty() => self.name = None,
            b"path" => self.name = Some(value.to_vec()),
            b"size" if value.is_empty() => self.size = None,
            b"size" => self.size = Some(attribute_number(value)?),
            b"GNU.sparse.name" => self.sparse_name = Some(value.to_vec()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => self.sparse_size = Some(attribute_number(value)?),
            b"GNU.sparse.major" => self.has_map_in_content = attribute_number(value)? > 0,
            // Each range has both attributes, the offset first.
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => self.ranges.push(attribute_number(value)?),
            b"GNU.sparse.numblocks" => self.has_map = true,
            b"GNU.sparse.map" => {
                let numbers: Option<Vec<u64>> = value.split(|&byte| byte == b',').map(decimal).collect();
                self.ranges = numbers.ok_or_else(|| broken("the map of a sparse file is not a list of numbers"))?;
                self.has_map = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the key and the value of the first attribute, and the data after it, or `None` if it is malformed. Its
/// length counts the whole line: the digits of the length itself, the space, and the line feed.
fn split_attribute(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = data.iter().position(|&byte| byte == b' ')?;
    let len = usize::try_from(decimal(data.get(..space)?)?).ok()?;
    let line = data.get(space.checked_add(1)?..len)?.strip_suffix(b"\n")?;
    let equals = line.iter().position(|&byte| byte == b'=')?;
    Some((line.get(..equals)?, line.get(equals.checked_add(1)?..)?, data.get(len..)?))
}

fn attribute_number(value: &[u8]) -> io::Result<u64> {
    decimal(value).ok_or_else(|| broken("an attribute of a member is not a number"))
}

/// Reads the next block, which is shorter at the end of the data.
fn read_block(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    once::head(reader, BLOCK)
}

/// Reads the content of a member that describes another one, and skips its padding. The reader of the caller limits how
/// much memory this takes.
fn read_content(reader: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    let content = once::head(reader, size)?;
    if len_u64(&content) < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    skip(reader, padded(size).saturating_sub(size))?;
    Ok(content)
}

/// Reads a decimal number of at least one digit.
fn decimal(field: &[u8]) -> Option<u64> {
    if field.is_empty() { None } else { digits(field, 10) }
}

/// Makes the error for a file with holes whose size is missing or broken.
fn no_size() -> io::Error {
    broken("the size of a sparse file is not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a header with its checksum.
    fn header(kind: u8, size: u8) -> Vec<u8> {
        let mut block = vec![0; 512];
        (block[0], block[156]) = (b'a', kind);
        block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        with_sum(block)
    }

    fn with_sum(mut block: Vec<u8>) -> Vec<u8> {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    fn next(data: &[u8]) -> Result<NextMember, String> {
        TarArchive::default().next(&mut &data[..]).map_err(|error| error.to_string())
    }

    /// Makes a line of attributes, which begins with its length.
    fn line((key, value): &(&str, &str)) -> String {
        let rest = format!(" {key}={value}\n");
        let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
        format!("{}{rest}", rest.len() + digits)
    }

    /// Reads the header of a file of `size` bytes with these attributes.
    fn with_attributes(attributes: &[u8], size: u8) -> Result<NextMember, String> {
        let mut data = header(b'x', u8::try_from(attributes.len()).unwrap());
        data.extend(attributes);
        data.resize(1024, 0);
        next(&[data, header(b'0', size)].concat())
    }

    fn file(name: &[u8], kind: MemberKind, stored: u64) -> Result<NextMember, String> {
        Ok(NextMember::Member(Header { name: name.to_vec(), kind, stored }))
    }

    fn sparse_attributes(map: &str) -> [(&str, &str); 3] {
        [("GNU.sparse.name", "s"), ("GNU.sparse.size", "10"), ("GNU.sparse.map", map)]
    }

    #[test]
    fn attributes_replace_fields_of_the_header() {
        use MemberKind::{File, MapInContent, Sparse};
        let old = [("GNU.sparse.size", "10"), ("GNU.sparse.numblocks", "2"), ("GNU.sparse.offset", "2")];
        let blocks = [("GNU.sparse.numbytes", "3"), ("GNU.sparse.offset", "6"), ("GNU.sparse.numbytes", "4")];
        let map = sparse_attributes("2,3,6,4");
        let new = [("GNU.sparse.major", "1"), ("GNU.sparse.name", "s"), ("GNU.sparse.realsize", "10")];
        for (attributes, expected) in [
            (&[("path", "dir/long"), ("size", "5"), ("mtime", "1.5")][..], file(b"dir/long", File, 5)),
            (&[("path", "x"), ("path", ""), ("size", "5"), ("size", "")], file(b"a", File, 7)),
            (&[old, blocks].concat(), file(b"a", Sparse(10, vec![(2, 3), (6, 4)]), 7)),
            (&map, file(b"s", Sparse(10, vec![(2, 3), (6, 4)]), 7)),
            (&[map, [("path", "GNUSparseFile.0/s"); 3]].concat(), file(b"s", Sparse(10, vec![(2, 3), (6, 4)]), 7)),
            (&new, file(b"s", MapInContent(10), 7)),
            (&[("GNU.sparse.major", "0")], file(b"a", File, 7)),
        ] {
            let lines: String = attributes.iter().map(line).collect();
            assert_eq!(with_attributes(lines.as_bytes(), 7), expected, "{lines}");
        }
        for (attributes, expected) in [
            (&[("size", "five")][..], "an attribute of a member is not a number"),
            (&sparse_attributes("2,3,6"), "odd length"),
            (&sparse_attributes("2,,6,4"), "not a list of numbers"),
            (&sparse_attributes("2,3,4,4"), "overlap or are outside"),
            (&sparse_attributes("2,3,7,4"), "overlap or are outside"),
            (&sparse_attributes("2,3,6,3"), "do not have the size of its content"),
            (&sparse_attributes("2,3,5,5"), "do not have the size of its content"),
            (&new[..2], "the size of a sparse file is not a number"),
            (&map[2..], "the size of a sparse file is not a number"),
        ] {
            let lines: String = attributes.iter().map(line).collect();
            let error = with_attributes(lines.as_bytes(), 7).unwrap_err();
            assert!(error.contains(expected), "{lines}: {error}");
        }
        for broken in [&b"path=x\n"[..], b"x path=x\n", b"9 path=x!", b"8 path=x\n", b"11 path=x\n", b"7 path\n"] {
            let error = with_attributes(broken, 0).unwrap_err();
            assert!(error.contains("not a length, a key and a value"), "{}: {error}", broken.escape_ascii());
        }
    }

    #[test]
    fn types_decide_the_kinds_of_members() {
        for (kind, expected) in [
            (b'0', (MemberKind::File, 7)),
            (0, (MemberKind::File, 7)),
            (b'7', (MemberKind::File, 7)),
            (b'1', (MemberKind::Other, 0)),
            (b'6', (MemberKind::Other, 0)),
            (b'V', (MemberKind::Other, 7)),
            (b'D', (MemberKind::Other, 7)),
            (b'M', (MemberKind::Part, 7)),
        ] {
            assert_eq!(next(&header(kind, 7)), file(b"a", expected.0, expected.1), "{}", char::from(kind));
        }
        let name = [b"dir/long\0".to_vec(), vec![0; 503]].concat();
        let data = [header(b'L', 9), name, header(b'0', 7)].concat();
        assert_eq!(next(&data), file(b"dir/long", MemberKind::File, 7));
        let data = [header(b'g', 1), vec![1; 512], header(b'0', 7)].concat();
        assert_eq!(next(&data), file(b"a", MemberKind::File, 7));
        // Only POSIX has a prefix.
        for (magic, name) in [(b"ustar\0", &b"dir/a"[..]), (b"ustar ", b"a")] {
            let mut block = header(b'0', 7);
            block[257..263].copy_from_slice(magic);
            block[345..348].copy_from_slice(b"dir");
            assert_eq!(next(&with_sum(block)), file(name, MemberKind::File, 7));
        }
    }

    fn put_numbers(block: &mut [u8], at: usize, numbers: &[u64]) {
        for (index, number) in numbers.iter().enumerate() {
            block[at + 12 * index..][..12].copy_from_slice(format!("{number:011o}\0").as_bytes());
        }
    }

    fn gnu_sparse_header(is_extended: u8, first: &[u64]) -> Vec<u8> {
        let mut block = header(b'S', 7);
        put_numbers(&mut block, 386, first);
        put_numbers(&mut block, 483, &[100]);
        block[482] = is_extended;
        with_sum(block)
    }

    #[test]
    fn gnu_tar_records_holes_in_headers() {
        let ranges = vec![(2, 3), (6, 4)];
        assert_eq!(next(&gnu_sparse_header(0, &[2, 3, 6, 4])), file(b"a", MemberKind::Sparse(100, ranges), 7));
        let (mut more, mut last) = (vec![0; 512], vec![0; 512]);
        put_numbers(&mut more, 0, &[20, 1]);
        more[504] = 1;
        put_numbers(&mut last, 0, &[30, 1]);
        let data = [gnu_sparse_header(1, &[2, 1, 4, 1, 6, 1, 8, 2]), more, last].concat();
        let ranges = vec![(2, 1), (4, 1), (6, 1), (8, 2), (20, 1), (30, 1)];
        assert_eq!(next(&data), file(b"a", MemberKind::Sparse(100, ranges), 7));
        for len in [512, 1024, 1535] {
            assert!(next(&data[..len]).unwrap_err().contains("unexpected end of file"), "{len}");
        }
    }

    #[test]
    fn holes_are_zeros() {
        for (size, ranges, expected) in [
            (10, vec![(2, 3), (6, 4)], &b"\0\0abc\0defg"[..]),
            (10, vec![(0, 3), (3, 4)], b"abcdefg\0\0\0"),
            (10, vec![(1, 0), (3, 7), (10, 0)], b"\0\0\0abcdefg"),
            (3, vec![], b"\0\0\0"),
            (0, vec![], b""),
        ] {
            for step in [1, 2, 100] {
                let mut sparse = Sparse::new(&b"abcdefg"[..], size, ranges.clone());
                let (mut content, mut buffer) = (Vec::new(), vec![9; step]);
                while let count @ 1.. = sparse.read(&mut buffer).unwrap() {
                    content.extend_from_slice(&buffer[..count]);
                }
                assert_eq!(content, expected, "{ranges:?} {step}");
            }
        }
    }

    #[test]
    fn after_zeros_anything_may_follow() {
        let mut other = vec![1; 512];
        let mut broken = header(b'0', 0);
        broken[257..262].copy_from_slice(b"ustar");
        for (after, data, expected) in [
            (false, &[][..], Some(Some(false))),
            (true, &[], Some(Some(false))),
            (true, &[0; 100], Some(Some(false))),
            (true, &other.split_off(100), Some(Some(true))),
            (true, &[1; 512], Some(Some(true))),
            (true, &broken, None),
            (false, &[0; 100], None),
            (false, &[1; 512], None),
            (true, &header(b'0', 0), Some(None)),
        ] {
            let zeros = if after { &[0; 512][..] } else { &[] };
            let (data, mut archive) = ([zeros, data].concat(), TarArchive::default());
            let mut reader = &data[..];
            if after {
                assert!(matches!(archive.next(&mut reader), Ok(NextMember::Zeros)));
            }
            let found = archive.next(&mut reader).ok().map(|next| match next {
                NextMember::End { has_trailing } => Some(has_trailing),
                _ => None,
            });
            assert_eq!(found, expected, "{after} {}", data.len());
        }
    }

    #[test]
    fn numbers_are_octal_or_big_endian() {
        for (field, expected) in [
            (&b"0000017\0"[..], Some(15)),
            (b"  17 \0", Some(15)),
            (b"\0\0", Some(0)),
            (b"18", None),
            (b"\x80\0\0\x01\x02", Some(0x102)),
            (b"\x81\x02", Some(0x102)),
            (b"\x80\xff\xff\xff\xff\xff\xff\xff\xff", Some(u64::MAX)),
            (b"\x81\xff\xff\xff\xff\xff\xff\xff\xff", None),
        ] {
            assert_eq!(number(field), expected, "{}", field.escape_ascii());
        }
    }

    #[test]
    fn attributes_have_a_member() {
        let zeros = vec![0; 512];
        assert!(matches!(next(&zeros), Ok(NextMember::Zeros)));
        assert!(matches!(next(&[header(b'x', 0), header(b'0', 0)].concat()), Ok(NextMember::Member(_))));
        for kind in [b'x', b'X', b'L', b'K'] {
            for rest in [&zeros[..], &[], &zeros[..100]] {
                let data = [&header(kind, 0), rest].concat();
                let error = TarArchive::default().next(&mut &data[..]).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{}", char::from(kind));
            }
        }
    }

    #[test]
    fn the_map_of_a_sparse_file_is_complete() {
        for (len, mut left, count) in [(512, 512, Some(1)), (511, 512, None), (6, 512, None), (512, 511, None)] {
            let mut block = b"1\n0\n0\n".to_vec();
            block.resize(len, 0);
            let ranges = read_map(&mut &block[..], 0, &mut left).ok();
            assert_eq!(ranges.map(|ranges| ranges.len()), count, "{len} {left}");
        }
    }
}
