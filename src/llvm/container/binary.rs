//! Reads and writes binary bundles.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 24 | magic `__CLANG_OFFLOAD_BUNDLE__` |
//! | 24 | 8 | number of entries |
//! | 32 | | the entries, one after another: |
//! | +0 | 8 | offset of the code object, from the start of the bundle |
//! | +8 | 8 | its size in bytes |
//! | +16 | 8 | length of the entry ID in bytes |
//! | +24 | | the entry ID, not terminated |
//!
//! Integers are little-endian. The code objects follow, each padded with zeros to the alignment that the
//! writer was given. Layout: Clang Offload Bundler documentation; writer: byte for byte that of LLVM 22.1.8.
//!
//! Rejected: a count that the bytes cannot hold, a header of more than 64 MiB, a code object outside the bytes
//! or inside the header.

use std::num::NonZeroU32;

use super::limits::{HEADER_MAX, check_entry_count};
use super::{Container, Contents, Entry, MAGIC, Member};
use crate::base::bytes::{Bounds, Cursor, len_u64};
use crate::base::display::shown;
use crate::base::error::{Malformed, Result};
use crate::base::io::piece::{Piece, sum, too_long};

/// The length of the number of entries, in bytes.
pub(crate) const COUNT_FIELD: u64 = 8;

/// The length of an entry in the header without its ID, in bytes: offset, size and ID length.
pub(crate) const ENTRY_FIELDS: u64 = 24;

/// The binary bundle format.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Binary {
    /// The alignment of code objects in bytes, counted from the start of the bundle.
    pub alignment: NonZeroU32,
}

impl Default for Binary {
    fn default() -> Self {
        Self { alignment: NonZeroU32::MIN }
    }
}

impl Binary {
    /// Plans a new bundle of `members`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) if the bundle is too long for the format.
    pub fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        let alignment = u64::from(self.alignment.get());
        // The code objects follow the header, so its length comes first.
        let mut position = sum([len_u64(MAGIC.as_bytes()), COUNT_FIELD])?;
        for member in members {
            position = sum([position, ENTRY_FIELDS, len_u64(member.id.as_bytes())])?;
        }
        let mut header = Vec::from(MAGIC);
        header.extend(u64::try_from(members.len()).map_err(|_| too_long())?.to_le_bytes());
        let mut payload = Vec::new();
        for member in members {
            let start = position.checked_next_multiple_of(alignment).ok_or_else(too_long)?;
            let size = member.content.len();
            for field in [start, size, len_u64(member.id.as_bytes())] {
                header.extend(field.to_le_bytes());
            }
            header.extend(member.id.as_bytes());
            payload.push(Piece::Zeros(start.saturating_sub(position)));
            payload.push(Piece::Input(member.content));
            position = sum([start, size])?;
        }
        payload.insert(0, Piece::Bytes(header));
        Ok(payload)
    }
}

impl Container for Binary {
    type Entry = Entry;

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        let Some(mut cursor) = Cursor::after(MAGIC.as_bytes(), data, base) else { return Ok(None) };
        // `data` may be only the first of `total` bytes. Only the header is read, and `total` limits the code objects.
        let bundle = Bounds { base, len: total };
        let count = read_entry_count(&mut cursor, bundle)?;
        let mut entries = Vec::new();
        for index in 0..count {
            entries.push(read_description(&mut cursor, index, bundle)?);
        }
        let header_len = cursor.offset().saturating_sub(base);
        // The bundle ends with its last code object. No field records its length.
        let mut len = header_len;
        let mut checked = Vec::new();
        for (index, (id, start, size)) in (0..).zip(entries) {
            let id_shown = shown(id);
            let range = bundle.claim(start, size, format_args!("the code object of entry {index} ('{id_shown}')"))?;
            let is_in_header = start < header_len && size > 0;
            if is_in_header {
                let what = format!("entry {index} claims {size} bytes");
                let header_end = bundle.absolute(header_len);
                let problem = format!(", inside the bundle's header, which ends at offset {header_end}");
                return Err(Malformed::fault(what, bundle.absolute(start), problem));
            }
            len = len.max(range.end);
            checked.push(Entry::at(id, range));
        }
        Ok(Some(Contents::new(checked, len)))
    }
}

/// Reads the number of entries, and checks that the bundle is long enough for them.
fn read_entry_count(cursor: &mut Cursor<'_>, bundle: Bounds) -> Result<u64, Malformed> {
    let count = cursor.u64("the number of entries")?;
    let end = bundle.end();
    let most = end.saturating_sub(cursor.offset()).checked_div(ENTRY_FIELDS).unwrap_or(0);
    if count > most {
        let problem = format!(" is too large: the data ends at offset {end}, which leaves room for {most}");
        return Err(Malformed::fault(format!("entry count {count}"), cursor.last(), problem));
    }
    check_entry_count(count, cursor.last())?;
    Ok(count)
}

/// Reads the description of an entry: its ID, and the recorded offset and size of its code object.
fn read_description<'a>(
    cursor: &mut Cursor<'a>,
    index: u64,
    bundle: Bounds,
) -> Result<(&'a [u8], u64, u64), Malformed> {
    let start = cursor.u64(format_args!("the offset of entry {index}"))?;
    let size = cursor.u64(format_args!("the size of entry {index}"))?;
    let id_len = cursor.u64(format_args!("the ID length of entry {index}"))?;
    let header_end = cursor.offset().saturating_sub(bundle.base).saturating_add(id_len);
    // An ID that ends after the data is an error too, for which `take` has the better message.
    if header_end > HEADER_MAX && header_end <= bundle.len {
        return Err(cursor.invalid("entry ID length", id_len, "no more than a header of 64 MiB has room for"));
    }
    let id = cursor.take(id_len, format_args!("the ID of entry {index}"))?;
    Ok((id, start, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;
    use crate::base::io::piece::{emit, total_len};

    fn write(alignment: u32, members: &[(&str, &[u8])]) -> Vec<u8> {
        let inputs: Vec<_> = members.iter().map(|(id, data)| (id, Input::from_bytes(*id, data.to_vec()))).collect();
        let members: Vec<_> =
            inputs.iter().map(|(id, input)| Member { id: id.to_string(), content: input.as_slice() }).collect();
        let plan = Binary { alignment: NonZeroU32::new(alignment).unwrap() }.plan(&members).unwrap();
        let mut out = Vec::new();
        emit(&plan, &mut out).unwrap();
        assert_eq!(total_len(&plan).unwrap(), len_u64(&out));
        out
    }

    fn read(data: &[u8]) -> Result<Option<Contents>, Malformed> {
        Binary::default().read(data, len_u64(data), 0)
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut expected = b"__CLANG_OFFLOAD_BUNDLE__\x02\0\0\0\0\0\0\0".to_vec();
        expected.extend(b"\x58\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0host-a");
        expected.extend(b"\x60\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0b");
        expected.resize(0x58, 0);
        expected.extend(b"xyz\0\0\0\0\0pq");
        assert_eq!(write(8, &[("host-a", b"xyz"), ("b", b"pq")]), expected);
    }

    #[test]
    fn what_is_written_is_read_back_in_file_order() {
        for alignment in [1, 2, 7, 4096] {
            let data = write(alignment, &[("b", b"12345"), ("a", b""), ("b", b"678")]);
            let contents = read(&data).unwrap().unwrap();
            let found: Vec<_> = contents.entries.iter().map(|e| (e.id.clone(), e.content(&data).unwrap())).collect();
            let expected = [("b", "12345"), ("a", ""), ("b", "678")];
            assert_eq!(found, expected.map(|(id, content)| (id.as_bytes().to_vec(), content.as_bytes().to_vec())));
            assert_eq!(contents.len, len_u64(&data));
        }
    }

    #[test]
    fn a_cut_bundle_is_an_error_at_every_length() {
        let data = write(1, &[("host-x", b"abc"), ("hip-y", b"defg")]);
        for end in MAGIC.len()..data.len() {
            let error = read(&data[..end]).unwrap_err();
            assert!(error.to_string().contains("the data ends at"), "{end}: {error}");
        }
        assert_eq!(read(&data[..MAGIC.len() - 1]), Ok(None));
    }

    #[test]
    fn claims_are_checked_before_they_are_used() {
        let mut data = write(1, &[("a", b"abc")]);
        data[24..32].copy_from_slice(&(1_u64 << 63).to_le_bytes());
        let text = "entry count 9223372036854775808 at offset 24 is too large: \
                    the data ends at offset 60, which leaves room for 1";
        assert_eq!(read(&data).unwrap_err().to_string(), text);
        let mut data = write(1, &[("a", b"abc")]);
        data[32..40].copy_from_slice(&3_u64.to_le_bytes());
        let text = "entry 0 claims 3 bytes at offset 3, inside the bundle's header, which ends at offset 57";
        assert_eq!(read(&data).unwrap_err().to_string(), text);
        // Of an empty code object, any offset may be recorded.
        let mut empty = data.clone();
        empty[40..48].fill(0);
        assert_eq!(read(&empty).unwrap().unwrap().entries[0].content(&empty).as_deref(), Some(&b""[..]));
        data[48..56].copy_from_slice(&HEADER_MAX.to_le_bytes());
        assert!(matches!(read(&data), Err(Malformed::Truncated { .. })));
        let error = Binary::default().read(&data, 1 << 32, 0).unwrap_err().to_string();
        assert!(error.starts_with("entry ID length 67108864 at offset 48, expected "), "{error}");
        data[48..56].copy_from_slice(&1_u64.to_le_bytes());
        data[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(read(&data), Err(Malformed::Truncated { .. })));
    }
}
