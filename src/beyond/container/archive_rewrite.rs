//! Writes the parts of an archive that change when members become shorter or longer: their headers, and the offsets in
//! the index. [`archive`](crate::llvm::container::archive) documents the headers.
//!
//! | index | numbers |
//! |---|---|
//! | `/`, `/SYM64/` | big-endian, of 4 or 8 bytes: their count, then the offsets of members |
//! | the second `/` (COFF) | little-endian, of 4 bytes: the same |
//! | `__.SYMDEF`, `__.SYMDEF_64` | in the byte order of the machine, of 4 or 8 bytes: the length of the next in bytes, then pairs of a name and the offset of a member |
//!
//! Rejected: thin archives and those of AIX, an index that claims numbers outside of it, a member or an offset that is
//! too large for its field.

use std::ops::Range;

use object::Endianness;
use object::read::archive::ArchiveKind;

use crate::base::bytes::{len_of, slice, span, to_u64};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::code::elf::Encoding;
use crate::llvm::container::archive::reader::{
    Archive, ArchiveMember, HEADER_LEN, MAGIC_LEN, MemberLocation, bsd_name_len, size_in,
};
use crate::llvm::container::archive::writer::SIZE_MAX;

/// The range of the field with the size of the content, in the header of a member.
const SIZE: Range<usize> = 48..58;

/// The range of the first two characters of the first member's name, after the magic. Spaces fill short names.
const FIRST_NAME: Range<usize> = 8..10;

/// The name of an index in messages.
const INDEX: &str = "the index of the archive";

/// The records of an index. The last number of each is the offset of a member.
struct IndexRecords {
    /// The range of all records.
    range: Range<u64>,
    record_len: usize,
    encoding: Encoding,
}

impl<'a> Archive<'a> {
    /// Returns the content of a member of an archive that can be written again.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for thin archives and those of AIX.
    pub(crate) fn content_of(&self, member: &ArchiveMember<'a>) -> Result<Slice<'a>> {
        match member.location {
            MemberLocation::Inside(_) if self.file.kind() == ArchiveKind::AixBig => {
                Err(self.unsupported("an AIX archive: not supported", "take its members out and recompress them"))
            }
            MemberLocation::Inside(content) => Ok(content),
            MemberLocation::Beside(_) => {
                let reason = "cannot recompress a thin archive, whose members are separate files";
                Err(self.unsupported(reason, "recompress these files instead"))
            }
        }
    }

    fn unsupported(&self, reason: &'static str, hint: &'static str) -> Error {
        Error::refused(ErrorKind::Unsupported, self.data.path(), None, reason).with_hint(hint)
    }

    /// The range of a member with its header and padding.
    pub(crate) fn range_of(&self, member: &ArchiveMember<'a>, content: Slice<'a>) -> Range<u64> {
        // Headers have even offsets. Padding may be missing after the last member.
        let end = content.end().saturating_sub(self.data.offset());
        member.header..end.saturating_add(end % 2).min(self.data.len())
    }

    /// Returns the header of a member, with its name, for a new content of `new_len` bytes. `content` is the old one.
    pub(crate) fn header_for(&self, member: &ArchiveMember<'a>, content: Slice<'a>, new_len: u64) -> Result<Vec<u8>> {
        let start = content.offset().saturating_sub(self.data.offset());
        let mut header = self.data.claimed(&(member.header..start))?.bytes().to_vec();
        // A name between the header and the content (BSD) counts as part of the content.
        let size = new_len.saturating_add(len_of(&(member.header..start)).saturating_sub(HEADER_LEN));
        // The field for the size has ten digits.
        if size > SIZE_MAX {
            let reason = format!("{size} bytes are too many for a member of an archive");
            return Err(Error::refused(ErrorKind::Limit, self.data.path(), content.offset(), reason));
        }
        let field = header.get_mut(SIZE).ok_or_else(|| Error::internal("a member has no header"))?;
        field.copy_from_slice(format!("{size:<10}").as_bytes());
        Ok(header)
    }

    /// Returns for each index the offset of its records in the archive, and the new records. `new_offset` maps the old
    /// offset of a member to the new one.
    pub(crate) fn index_with(&self, new_offset: impl Fn(u64) -> u64) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut new_records = Vec::new();
        for IndexRecords { range, record_len, encoding } in self.indexes().with_path(self.data.path())? {
            let mut records = self.data.claimed(&range)?.bytes().to_vec();
            for record in records.chunks_exact_mut(record_len) {
                // The offset is the last number of a record.
                let at = record_len.saturating_sub(encoding.word);
                let field = record.get_mut(at..).unwrap_or_default();
                let offset = new_offset(encoding.read(field));
                if encoding.truncated(offset) != offset {
                    let reason = format!("the offset {offset} of a member is too large for the index");
                    return Err(Error::refused(ErrorKind::Limit, self.data.path(), range.start, reason));
                }
                encoding.write(offset, field);
            }
            new_records.push((range.start, records));
        }
        Ok(new_records)
    }

    /// Returns the records of the indexes, which are the first members of the archive. An archive need not have any.
    fn indexes(&self) -> Result<Vec<IndexRecords>, Malformed> {
        let Some((first, next)) = self.content_at(MAGIC_LEN) else { return Ok(Vec::new()) };
        match self.file.kind() {
            // An archive without an index may have this kind, too: its first member does not have the name `/`.
            ArchiveKind::Gnu if self.data.bytes().get(FIRST_NAME) != Some(b"/ ") => Ok(Vec::new()),
            ArchiveKind::Gnu => Ok(vec![self.counted_offsets(&first, 4, Endianness::Big)?]),
            ArchiveKind::Gnu64 => Ok(vec![self.counted_offsets(&first, 8, Endianness::Big)?]),
            ArchiveKind::Coff => {
                // If the second index is missing, an empty range makes reading it fail.
                let (second, _) = self.content_at(next).unwrap_or_default();
                let first = self.counted_offsets(&first, 4, Endianness::Big)?;
                Ok(vec![first, self.counted_offsets(&second, 4, Endianness::Little)?])
            }
            ArchiveKind::Bsd => Ok(vec![self.name_offset_pairs(&first, 4)?]),
            ArchiveKind::Bsd64 => Ok(vec![self.name_offset_pairs(&first, 8)?]),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the range of the content of the member whose header is at `start`, and the offset of the next header. A
    /// name in front of the content is not part of the range.
    fn content_at(&self, start: u64) -> Option<(Range<u64>, u64)> {
        let header = slice(self.data.bytes(), start, HEADER_LEN)?;
        let content = span(start.checked_add(HEADER_LEN)?, size_in(header.get(SIZE)?)?);
        let name_len = bsd_name_len(header).unwrap_or_default();
        Some((content.start.checked_add(name_len)?..content.end, content.end.checked_next_multiple_of(2)?))
    }

    /// Returns the offsets of an index that begins with their count.
    fn counted_offsets(&self, index: &Range<u64>, word: usize, order: Endianness) -> Result<IndexRecords, Malformed> {
        let encoding = Encoding { word, order };
        let count = self.first_number(index, encoding)?;
        self.records(index, encoding, count.saturating_mul(to_u64(word)), word)
    }

    /// Returns the pairs of an index that begins with their length. The byte order is not recorded:
    /// little-endian is tried first, then big-endian. If the pairs fit in neither, the error is that of little-endian.
    fn name_offset_pairs(&self, index: &Range<u64>, word: usize) -> Result<IndexRecords, Malformed> {
        let little = self.pairs_in_order(index, Encoding { word, order: Endianness::Little });
        if little.is_ok() {
            return little;
        }
        match self.pairs_in_order(index, Encoding { word, order: Endianness::Big }) {
            Ok(big) => Ok(big),
            Err(_) => little,
        }
    }

    fn pairs_in_order(&self, index: &Range<u64>, encoding: Encoding) -> Result<IndexRecords, Malformed> {
        let len = self.first_number(index, encoding)?;
        self.records(index, encoding, len, encoding.word.saturating_mul(2))
    }

    /// The first number of an index.
    fn first_number(&self, index: &Range<u64>, encoding: Encoding) -> Result<u64, Malformed> {
        let field = self.data.claim(index.start, to_u64(encoding.word), INDEX)?;
        Ok(encoding.read(field.bytes()))
    }

    /// Returns the records after the first number of an index: `len` bytes in all, each of `record_len` bytes.
    fn records(
        &self,
        index: &Range<u64>,
        encoding: Encoding,
        len: u64,
        record_len: usize,
    ) -> Result<IndexRecords, Malformed> {
        let range = span(index.start.saturating_add(to_u64(encoding.word)), len);
        if range.end > index.end {
            return Err(Malformed::truncated(INDEX, range.start, len, index.end));
        }
        Ok(IndexRecords { range, record_len, encoding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;

    fn header(name: &str, size: usize) -> String {
        format!("{name:<16}0           0     0     644     {size:<10}`\n")
    }

    /// Makes an archive that begins with these members.
    fn archive(members: &[(&str, &[u8])]) -> Input {
        let mut data = b"!<arch>\n".to_vec();
        for (name, content) in members {
            data.extend(header(name, content.len()).bytes());
            data.extend(*content);
            data.resize(data.len().next_multiple_of(2), b'\n');
        }
        Input::from_bytes("x.a", data)
    }

    /// Returns the records of each index after every member moved by 1000 bytes, or the error.
    fn moved_index(members: &[(&str, &[u8])]) -> Result<Vec<Vec<u8>>, String> {
        let input = archive(&[members, &[("a.o/", b"object")]].concat());
        let archive = Archive::read(&input).map_err(|error| error.to_string())?;
        let index = archive.index_with(|old| old + 1000).map_err(|error| error.to_string())?;
        Ok(index.into_iter().map(|(_, offsets)| offsets).collect())
    }

    fn big(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn little(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn big_64(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn each_kind_of_index_gets_new_offsets() {
        let gnu = big(&[2, 80, 90]);
        let coff = little(&[1, 80]);
        for (members, expected) in [
            (&[("/", &gnu[..])][..], vec![big(&[1080, 1090])]),
            (&[("/SYM64/", &big_64(&[2, 80, 1 << 40]))], vec![big_64(&[1080, (1 << 40) + 1000])]),
            (&[("/", &gnu), ("/", &coff)], vec![big(&[1080, 1090]), little(&[1080])]),
            (&[("__.SYMDEF", &little(&[16, 7, 80, 9, 90, 0]))], vec![little(&[7, 1080, 9, 1090])]),
            (&[("__.SYMDEF SORTED", &big(&[8, 7, 80, 0]))], vec![big(&[7, 1080])]),
            (&[("#1/12", &[b"__.SYMDEF\0\0\0", &little(&[8, 7, 80, 0])[..]].concat())], vec![little(&[7, 1080])]),
            (&[("//", b"a long name.o/\n")], vec![]),
            (&[], vec![]),
        ] {
            assert_eq!(moved_index(members), Ok(expected), "{members:?}");
        }
    }

    #[test]
    fn claims_of_an_index_are_checked() {
        for (name, content, error) in [
            ("/", big(&[3, 80, 90]), "the index of the archive needs 12 bytes at offset 72"),
            ("/", big(&[u32::MAX]), "the index of the archive needs"),
            ("/SYM64/", vec![0xff; 16], "the index of the archive needs"),
            ("__.SYMDEF", vec![0xff; 16], "the index of the archive needs"),
            ("/", big(&[1, u32::MAX]), "the offset 4294968295 of a member is too large for the index"),
        ] {
            let said = moved_index(&[(name, &content)]).unwrap_err();
            assert!(said.contains(error), "{name}: {said}");
        }
    }

    #[test]
    fn a_header_gets_the_size_of_the_content_and_of_a_name_before_it() {
        for (field, name) in [("a.o/", ""), ("#1/3", "b.o"), ("#1/4", "b.o\0")] {
            let input = archive(&[(field, [name, "object"].concat().as_bytes())]);
            let archive = Archive::read(&input).unwrap();
            let member = archive.members().next().unwrap().unwrap();
            let content = archive.content_of(&member).unwrap();
            let new = archive.header_for(&member, content, 1000).unwrap();
            assert_eq!(String::from_utf8(new).unwrap(), header(field, name.len() + 1000) + name);
            let end = u64::try_from(68 + name.len() + 6 + name.len() % 2).unwrap();
            assert_eq!(archive.range_of(&member, content), 8..end);
            assert!(archive.header_for(&member, content, SIZE_MAX + 1).is_err());
        }
    }
}
