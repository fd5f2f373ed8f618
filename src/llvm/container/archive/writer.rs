//! Plans an archive, byte for byte as LLVM 22.1.8's `writeArchive` does for `K_GNU`: deterministic, and with an index
//! if a member is an object. The [parent module](super) documents the layout.
//!
//! | member | content |
//! |---|---|
//! | `/`, or `/SYM64/` if a member starts at 4 GiB or later | the index |
//! | `//` | the names that do not fit a header, each once and ended by `/` and a newline |
//!
//! The index holds the number of symbols, for each the offset of its member's header, their names, each ended by a NUL,
//! and zeros to an even length. Numbers are big-endian, of 4 bytes in `/` and 8 in `/SYM64/`.
//!
//! Rejected: an object whose symbols cannot be read, a member of 10^10 bytes or more.

use std::collections::HashMap;

use super::symbols::{IndexedSymbols, read_symbols};
use crate::base::bytes::len_u64;
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, sum, too_long};

const MAGIC: &[u8] = b"!<arch>\n";

/// The length of a header in bytes, and of the name in it.
const HEADER_LEN: u64 = 60;
const NAME_LEN: usize = 16;

/// Time, owner, group and mode in a header.
const MEMBER_FIELDS: &str = "0           0     0     644";
const INDEX_FIELDS: &str = "0           0     0     0";

/// The largest size that fits a header.
pub(crate) const SIZE_MAX: u64 = 9_999_999_999;

/// A member to write.
#[derive(Clone, Debug)]
pub struct NewMember<'a> {
    /// The name, which may be any bytes.
    pub name: Vec<u8>,
    /// The content.
    pub content: Slice<'a>,
}

/// Plans an archive. `unreadable` receives each bitcode member whose symbols cannot be read and are missing from the
/// index, with the reason.
///
/// # Errors
/// [`ErrorKind::Malformed`] for an object whose symbols cannot be read, [`ErrorKind::Limit`] for a member that is too
/// large.
///
/// # Example
/// ```
/// use offload_bundle::container::archive::{self, NewMember};
/// use offload_bundle::io;
///
/// let member = NewMember { name: b"gfx90a.o".to_vec(), content: b"GPU!"[..].into() };
/// let mut archive = Vec::new();
/// io::write_to(&archive::plan(&[member], &mut |_, _| {})?, &mut archive)?;
/// assert!(archive.starts_with(b"!<arch>\ngfx90a.o/") && archive.ends_with(b"`\nGPU!"));
/// # Ok::<(), offload_bundle::Error>(())
/// ```
pub fn plan<'a>(
    members: &[NewMember<'a>],
    unreadable: &mut dyn FnMut(&NewMember<'a>, &'static str),
) -> Result<Vec<Piece<'a>>> {
    plan_with_limit(members, unreadable, 1 << 32)
}

/// Like [`plan`], for tests with another `limit`: the first offset of a member that does not fit the index `/`.
fn plan_with_limit<'a>(
    members: &[NewMember<'a>],
    unreadable: &mut dyn FnMut(&NewMember<'a>, &'static str),
    limit: u64,
) -> Result<Vec<Piece<'a>>> {
    let index = Index::read(members, unreadable)?;
    let mut long_names = LongNames::default();
    let mut payload = Vec::new();
    let (mut offset, mut offsets) = (0, Vec::with_capacity(members.len()));
    for NewMember { name, content } in members {
        if content.len() > SIZE_MAX {
            let text = format!("'{}': too large for an archive", shown(name));
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let padding = if content.len().is_multiple_of(2) { "" } else { "\n" };
        payload.push(Piece::Bytes(header(&long_names.field_of(name), MEMBER_FIELDS, content.len())));
        payload.push(Piece::Input(*content));
        payload.push(Piece::Bytes(padding.into()));
        // These offsets count from the first member. `Index::into_member` adds the length of everything before it.
        offsets.push(offset);
        offset = sum([offset, HEADER_LEN, content.len(), len_u64(padding.as_bytes())])?;
    }
    let long_names = long_names.into_member();
    let mut pieces = vec![Piece::Bytes(MAGIC.to_vec())];
    if let Some(index) = index {
        pieces.extend(index.into_member(&offsets, len_u64(&long_names), limit)?);
    }
    pieces.push(Piece::Bytes(long_names));
    pieces.extend(payload);
    Ok(pieces)
}

/// The header of a member. `fields` are time, owner, group and mode, or empty for the member of long names. They are
/// constants, so that the same members always give the same archive.
fn header(name: &[u8], fields: &str, size: u64) -> Vec<u8> {
    let mut header = name.to_vec();
    header.resize(NAME_LEN, b' ');
    // The four fields take 32 columns together, and the size 10.
    header.extend(format!("{fields:<32}{size:<10}`\n").bytes());
    header
}

/// The names that do not fit a header.
#[derive(Default)]
struct LongNames<'m> {
    table: Vec<u8>,
    offsets: HashMap<&'m [u8], usize>,
}

impl<'m> LongNames<'m> {
    /// Returns the name field of a header. Adds a name that does not fit to the table.
    fn field_of(&mut self, name: &'m [u8]) -> Vec<u8> {
        // A slash ends a name in the field, so a name with a slash is in the table.
        if name.len() < NAME_LEN && !name.contains(&b'/') {
            return [name, b"/"].concat();
        }
        let offset = self.offsets.entry(name).or_insert_with(|| {
            let offset = self.table.len();
            self.table.extend([name, b"/\n"].concat());
            offset
        });
        format!("/{offset}").into_bytes()
    }

    /// Returns the member of long names, or no bytes without long names.
    fn into_member(self) -> Vec<u8> {
        let mut table = self.table;
        if table.is_empty() {
            return table;
        }
        if !table.len().is_multiple_of(2) {
            table.push(b'\n');
        }
        [header(b"//", "", len_u64(&table)), table].concat()
    }
}

/// The symbols that members define.
#[derive(Default)]
struct Index {
    /// The names, each ended by a NUL: there may be millions of them.
    names: Vec<u8>,
    /// The number of symbols of each member.
    counts: Vec<usize>,
}

impl Index {
    /// Reads the symbols of all members. Returns `None` if no member is an object, since LLVM then writes no index.
    /// `unreadable` receives bitcode that cannot be read. Unlike a broken object, it may only be newer than this
    /// reader, so it is not an error.
    fn read<'a>(
        members: &[NewMember<'a>],
        unreadable: &mut dyn FnMut(&NewMember<'a>, &'static str),
    ) -> Result<Option<Self>> {
        let mut index = Self::default();
        let mut has_object = false;
        for member in members {
            let names = match read_symbols(member.content.bytes()) {
                Ok(IndexedSymbols::Names(names)) => {
                    has_object = true;
                    names
                }
                Ok(IndexedSymbols::Unreadable(reason)) => {
                    unreadable(member, reason);
                    Vec::new()
                }
                Ok(IndexedSymbols::None) => Vec::new(),
                Err(reason) => {
                    let name = shown(&member.name);
                    let text = format!("the symbols of the code object for '{name}' cannot be read: {reason}");
                    let fault = Malformed::other(ErrorKind::Malformed, None, text);
                    return Err(Error::malformed(member.content.path(), fault));
                }
            };
            index.counts.push(names.len());
            for name in names {
                index.names.extend(name);
                index.names.push(0);
            }
            // The symbols were read through the mapping, which does not count these bytes.
            member.content.note_all_read();
        }
        // Without names, LLVM writes three NULs. A fourth pads them to an even length, as one NUL does for other names.
        let padding = if index.names.is_empty() { 4 } else { index.names.len() % 2 };
        index.names.extend(std::iter::repeat_n(0, padding));
        if has_object { Ok(Some(index)) } else { Ok(None) }
    }

    /// The number of symbols.
    fn symbol_count(&self) -> Result<u64> {
        u64::try_from(self.counts.iter().sum::<usize>()).map_err(|_| too_long())
    }

    /// The size of the index with numbers of `width` bytes: the number of symbols, an offset for each, and the names.
    fn size(&self, width: u64) -> Result<u64> {
        let numbers = sum([self.symbol_count()?, 1])?;
        let numbers_len = numbers.checked_mul(width).ok_or_else(too_long)?;
        sum([numbers_len, len_u64(&self.names)])
    }

    /// Plans the member that holds the index. `offsets` are the offsets of the members, relative to the first one,
    /// which follows `names_len` bytes of long names; `limit` is the first offset that does not fit 4 bytes.
    fn into_member<'a>(self, offsets: &[u64], names_len: u64, limit: u64) -> Result<[Piece<'a>; 2]> {
        const SHORT_WIDTH: u64 = 4;
        const LONG_WIDTH: u64 = 8;
        // The index comes before the members, so its size is part of their offsets, and depends on the width of the
        // offsets. The short width is tried first: it does if the offset of the last member, the largest, fits.
        let len_without_index = sum([len_u64(MAGIC), HEADER_LEN, names_len])?;
        let last_member = offsets.last().copied().unwrap_or(0);
        let is_short = sum([len_without_index, self.size(SHORT_WIDTH)?, last_member])? < limit;
        let (name, width) = if is_short { (&b"/"[..], SHORT_WIDTH) } else { (&b"/SYM64/"[..], LONG_WIDTH) };
        let size = self.size(width)?;
        let first_member = sum([len_without_index, size])?;
        let mut numbers = header(name, INDEX_FIELDS, size);
        push_number(&mut numbers, self.symbol_count()?, is_short);
        for (&offset, &count) in offsets.iter().zip(&self.counts) {
            let offset = sum([first_member, offset])?;
            // Each symbol has the offset of its member.
            for _ in 0..count {
                push_number(&mut numbers, offset, is_short);
            }
        }
        Ok([Piece::Bytes(numbers), Piece::Bytes(self.names)])
    }
}

/// Adds a number of the index, in 4 bytes if `is_short`, otherwise in 8.
fn push_number(numbers: &mut Vec<u8>, number: u64, is_short: bool) {
    let bytes = number.to_be_bytes();
    numbers.extend(if is_short { &bytes[4..] } else { &bytes[..] });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::piece::emit;

    fn archive(members: &[(&[u8], &[u8])]) -> Vec<u8> {
        archive_with_limit(members, 1 << 32)
    }

    fn archive_with_limit(members: &[(&[u8], &[u8])], limit: u64) -> Vec<u8> {
        let members = members.iter().map(|&(name, content)| NewMember { name: name.to_vec(), content: content.into() });
        let members: Vec<_> = members.collect();
        let mut archive = Vec::new();
        emit(&plan_with_limit(&members, &mut |_, _| {}, limit).unwrap(), &mut archive).unwrap();
        archive
    }

    fn header(name: &str, size: u32) -> String {
        format!("{name:<16}0           0     0     644     {size:<10}`\n")
    }

    fn names_header(size: u32) -> String {
        format!("{:<48}{size:<10}`\n", "//")
    }

    #[test]
    fn an_archive_without_objects_has_no_index() {
        assert_eq!(archive(&[]), b"!<arch>\n");
        let expected = ["!<arch>\n", &header("a/", 3), "one\n", &header("b/", 4), "two!"].concat();
        assert_eq!(archive(&[(b"a", b"one"), (b"b", b"two!")]), expected.as_bytes());
    }

    #[test]
    fn an_object_without_symbols_has_an_empty_index() {
        let index = "/               0           0     0     0       8         `\n\0\0\0\0\0\0\0\0";
        let module = b"\0asm\x01\0\0\0";
        let expected = ["!<arch>\n", index, &header("a/", 8), "\0asm\x01\0\0\0"].concat();
        assert_eq!(archive(&[(b"a", module)]), expected.as_bytes());
    }

    /// Checks that the result has the same bytes as that of `llvm-ar` with these limits in `SYM64_THRESHOLD`.
    #[test]
    fn the_index_is_as_wide_as_the_offset_of_the_last_member_needs() {
        let import = b"\0\0\xff\xff\0\0\x64\x86\0\0\0\0\x08\0\0\0\0\0\x04\0f\0a.dll\0";
        let members = [(&b"a"[..], &import[..]), (b"b", b"text"), (b"c", import)];
        let headers = [header("a/", 28), header("b/", 4), header("c/", 28)];
        let payload = headers.iter().zip(members).flat_map(|(header, (_, data))| [header.as_bytes(), data].concat());
        let tail: Vec<u8> = b"__imp_f\0f\0__imp_f\0f\0".iter().copied().chain(payload).collect();
        let short = [4_u32, 108, 108, 260, 260].iter().flat_map(|number| number.to_be_bytes()).collect();
        let wide = [4_u64, 128, 128, 280, 280].iter().flat_map(|number| number.to_be_bytes()).collect();
        for (limit, index, numbers) in [(261, header("/", 40), short), (260, header("/SYM64/", 60), wide)] {
            let index = index.replace("644", "0  ").into_bytes();
            let expected: [Vec<u8>; 4] = [b"!<arch>\n".to_vec(), index, numbers, tail.clone()];
            assert_eq!(archive_with_limit(&members, limit), expected.concat(), "{limit}");
        }
    }

    #[test]
    fn a_long_name_stands_once_in_the_names_member() {
        let long = b"a name of more than 16 bytes";
        let expected = [
            "!<arch>\n",
            &names_header(30),
            "a name of more than 16 bytes/\n",
            &header("/0", 1),
            "1\n",
            &header("/0", 2),
            "22",
        ];
        assert_eq!(archive(&[(long, b"1"), (long, b"22")]), expected.concat().as_bytes());
    }

    #[test]
    fn names_may_be_any_bytes() {
        let (a, b) = (b"\xe9 name of 18 bytes", b"\xe8 name of 18 bytes");
        let written = archive(&[(a, b"1"), (b, b"2"), (a, b"3")]);
        let mut expected = ["!<arch>\n", &names_header(40)].concat().into_bytes();
        expected.extend([&a[..], b"/\n", b, b"/\n"].concat());
        for (name, content) in [("/0", "1\n"), ("/20", "2\n"), ("/0", "3\n")] {
            expected.extend(header(name, 1).into_bytes());
            expected.extend(content.as_bytes());
        }
        assert_eq!(written, expected);
        let written = archive(&[(b"\xff", b"one!"), (b"text", b"two!"), (b"\xfe.o", b"3333"), (b"\xff", b"four")]);
        let mut expected = b"!<arch>\n".to_vec();
        for (name, content) in
            [(&b"\xff/  "[..], "one!"), (b"text/", "two!"), (b"\xfe.o/", "3333"), (b"\xff/  ", "four")]
        {
            expected.extend(name);
            expected.extend(&header("", 4).as_bytes()[name.len()..]);
            expected.extend(content.as_bytes());
        }
        assert_eq!(written, expected);
    }
}
