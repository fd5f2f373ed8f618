//! Writes zip files again, with other contents for some of their members.
//!
//! Everything else is copied as it is: the headers of the other members, their data, the bytes between them, and the
//! comments. Only offsets are adjusted. The fields that change, in bytes from the start of each record (APPNOTE
//! 6.3.10):
//!
//! | record | signature | fields |
//! |---|---|---|
//! | local header | `PK\3\4` | 4 version needed, 6 flags, 14 checksum, 18 stored size, 22 size, 26 and 28 lengths of name and extra fields |
//! | data descriptor | `PK\7\8` or none | checksum, stored size and size, in 4 or 8 bytes each; after the data if bit 3 of the flags is set |
//! | directory header | `PK\1\2` | as in the local header, 2 or more bytes further on; 32 length of the comment, 42 offset |
//! | zip64 extra field | number 1 | size, stored size and offset, if the header has `0xffffffff` instead of them |
//! | zip64 end | `PK\6\6` | 4 its length, 40 size and 48 offset of the directory |
//! | zip64 locator | `PK\6\7` | 8 offset of the zip64 end |
//! | end | `PK\5\6` | 12 size and 16 offset of the directory |
//!
//! A member with new contents has them without a data descriptor: the local header has the sizes. Zip64 fields stay
//! where they are, and are added where a number does not fit.
//!
//! Rejected: data before the first member, members that overlap, directories with anything but headers in them (such as
//! a signature), zip64 records that are not between the directory and the end. Also rejected: members with new contents
//! whose local headers or data descriptors contradict the directory.

use std::ops::Range;

use object::Endianness;

use super::{ZipContent, ZipDirectory};
use crate::base::bytes::{bytes_in, len_u64, number, slice, span, tail, to_u64};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::llvm::container::records::{Encoding, record};

/// The value of a 32-bit field whose number is in a zip64 field or in the zip64 end instead.
const ELSEWHERE: u64 = 0xffff_ffff;

/// The number of the zip64 extra field.
const ZIP64: u64 = 1;

/// The offset of the checksum in a header of the directory.
const DIRECTORY_CRC_AT: u64 = 16;

/// The offsets of two fields in the record that ends a zip file, and in the zip64 record: the size of the directory, and
/// its start.
const END_FIELDS: (u64, u64) = (12, 16);
const ZIP64_END_FIELDS: (u64, u64) = (40, 48);

/// The position of a field in the zip64 locator. The field holds the offset of the zip64 end in the file.
const LOCATOR_OFFSET_AT: u64 = 8;

/// The version that readers of zip64 fields need.
const ZIP64_VERSION: u64 = 45;

/// The flag of a member with a data descriptor.
const HAS_DESCRIPTOR: u64 = 1 << 3;

/// The number of LZMA, and the flag of a member whose LZMA stream has a mark at its end.
const LZMA: u64 = 14;
const HAS_END_MARK: u64 = 1 << 1;

const LOCATOR: &[u8] = b"PK\x06\x07";
const LOCATOR_LEN: u64 = 20;
const ZIP64_END: &[u8] = b"PK\x06\x06";
const ZIP64_END_LEN: u64 = 56;

record! {
    /// A header of a member, before the data or in the directory. Only the one in the directory has the fields whose
    /// width depends on `word`: see [`LOCAL_FORM`] and [`DIRECTORY_FORM`].
    MemberHeader(word) {
        signature: 4,
        made_by: word / 2,
        /// The version that readers need. The upper byte is the number of an operating system.
        version: 2,
        flags: 2,
        method: 2,
        time: 4,
        crc: 4,
        stored: 4,
        size: 4,
        /// The lengths of the name and of the extra fields, which follow the header.
        name_len: 2,
        extra_len: 2,
        comment_len: word / 2,
        disk_and_kind: word,
        attributes: word,
        offset: word,
    }
}

/// The encoding of the header before the data of a member, which has none of the fields with words.
const LOCAL_FORM: Encoding = Encoding { word: 0, order: Endianness::Little };
/// The encoding of the header of a member in the directory.
const DIRECTORY_FORM: Encoding = Encoding { word: 4, order: Endianness::Little };

/// A zip file that can be written again: its members and its directory.
pub(crate) struct DirectoryRewrite<'a> {
    data: Slice<'a>,
    /// The members in directory order.
    pub(crate) members: Vec<ZipContent<'a>>,
    /// The starts of the members and of the directory, in the order of the file.
    starts: Vec<u64>,
    /// The directory without the records after it.
    directory: Range<u64>,
    /// The length of the zip64 end, if there is one.
    zip64_end: Option<u64>,
}

/// The numbers in the headers of a member with new contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewContents {
    pub(crate) crc: u32,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The size as stored in the zip file, perhaps compressed, in bytes.
    pub(crate) stored: u64,
}

impl<'a> DirectoryRewrite<'a> {
    /// Checks that a zip file with this directory and these members can be written again, and reads its records.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the zip file cannot be written again: the documentation of this module says why.
    pub(crate) fn check_and_read(
        data: Slice<'a>,
        directory: &ZipDirectory<'_>,
        members: Vec<ZipContent<'a>>,
    ) -> Result<Self> {
        let (end, zip64_end) = directory_end(data, directory.end_record_at)?;
        // If there is a zip64 end, which begins at `end`, its offset of the directory counts.
        let recorded = match zip64_end {
            Some(_) => number::<8>(data.bytes(), end.saturating_add(ZIP64_END_FIELDS.1)),
            None => number::<4>(data.bytes(), directory.end_record_at.saturating_add(END_FIELDS.1)),
        };
        if recorded != Some(directory.start) {
            return Err(refused(data, 0, "it begins with other data, from which its offsets do not count"));
        }
        if directory.headers_end != end {
            return Err(refused(
                data,
                directory.headers_end,
                "its directory holds more than headers, such as a signature",
            ));
        }
        let mut ranges: Vec<_> = members.iter().map(|member| (member.start, member.stored.end())).collect();
        ranges.push((directory.start, end));
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            if let [(start, end), (next, _)] = *pair
                && end > next
            {
                return Err(refused(data, start, "its members overlap"));
            }
        }
        let starts: Vec<u64> = ranges.into_iter().map(|(start, _)| start).collect();
        if starts.first() != Some(&0) {
            return Err(refused(data, 0, "it does not begin with a member"));
        }
        Ok(Self { data, members, starts, directory: directory.start..end, zip64_end })
    }

    /// The start of the directory.
    pub(crate) fn directory_start(&self) -> u64 {
        self.directory.start
    }

    /// The range of a member: its header, data and data descriptor.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if header or data descriptor contradict the directory, or if the member overlaps the
    /// next one.
    pub(crate) fn range_of(&self, member: &ZipContent<'_>) -> Result<Range<u64>> {
        let local = header_parts(self.local(member)?, LOCAL_FORM);
        let listed = header_parts(member.directory_header.bytes(), DIRECTORY_FORM);
        let flags = match (local, listed) {
            (Some((local, local_name, _)), Some((listed, listed_name, _)))
                if (local.method, local_name) == (listed.method, listed_name) =>
            {
                // If only one header claims a data descriptor, one has to be there, as `descriptor_end` checks.
                local.flags | listed.flags
            }
            _ => {
                let reason = "name or method of a member are not those in the directory";
                return Err(refused(self.data, member.start, reason));
            }
        };
        let end = match flags & HAS_DESCRIPTOR {
            0 => member.stored.end(),
            _ => self.descriptor_end(member)?,
        };
        // After the last member, the directory starts.
        let next_index = self.starts.partition_point(|start| *start <= member.start);
        match self.starts.get(next_index) {
            Some(next) if end <= *next => Ok(member.start..end),
            _ => Err(refused(self.data, member.start, "its members overlap")),
        }
    }

    /// Returns the end of the data descriptor of a member. Descriptors have one of four forms: with or without a
    /// signature, and with sizes of 4 or 8 bytes. No field says which, so the numbers of the directory decide.
    fn descriptor_end(&self, member: &ZipContent<'_>) -> Result<u64> {
        let crc = slice(member.directory_header.bytes(), DIRECTORY_CRC_AT, 4).unwrap_or_default();
        let forms = [(&b""[..], 4), (b"", 8), (b"PK\x07\x08", 4), (b"PK\x07\x08", 8)];
        let after_data = tail(self.data.bytes(), member.stored.end()).unwrap_or_default();
        for (signature, width) in forms {
            let mut expected = [signature, crc].concat();
            for size in [member.stored.len(), member.size] {
                // The first 4 bytes of the number, or all 8.
                expected.extend(size.to_le_bytes().get(..width).unwrap_or_default());
            }
            if after_data.starts_with(&expected) {
                return Ok(member.stored.end().saturating_add(len_u64(&expected)));
            }
        }
        Err(refused(self.data, member.stored.end(), "the data descriptor of a member is not what the directory says"))
    }

    /// Makes the local header of a member with new contents.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if its extra fields have no room for large sizes.
    pub(crate) fn local_header(&self, member: &ZipContent<'_>, contents: &NewContents) -> Result<Vec<u8>> {
        let no_offset = 0;
        self.header(member, self.local(member)?, LOCAL_FORM, no_offset, Some(contents))
    }

    /// Makes the header in the directory, with its comment, of a member that starts at `offset`. `contents` are the
    /// numbers of its new contents, or `None` if it keeps its contents.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if its extra fields have no room for large numbers.
    pub(crate) fn listed_header(
        &self,
        member: &ZipContent<'_>,
        offset: u64,
        contents: Option<&NewContents>,
    ) -> Result<Vec<u8>> {
        let old = member.directory_header.bytes();
        let mut header = self.header(member, old, DIRECTORY_FORM, offset, contents)?;
        // `header` ends before the comment, which comes last.
        let comment_len = DIRECTORY_FORM.decode::<MemberHeader>(old).comment_len;
        if let Some(at) = len_u64(old).checked_sub(comment_len) {
            header.extend(tail(old, at).unwrap_or_default());
        }
        Ok(header)
    }

    /// Returns the local header of a member as it is.
    ///
    /// # Errors
    /// An error if it is outside the file.
    pub(crate) fn old_local_header(&self, member: &ZipContent<'_>) -> Result<Vec<u8>> {
        Ok(self.local(member)?.to_vec())
    }

    /// Gives a local header of a member another name. Everything else in it stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the name is too long.
    pub(crate) fn rename_local(&self, member: &ZipContent<'_>, header: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.rename(member, header, LOCAL_FORM, name)
    }

    /// Gives a header of a member in the directory another name. Everything else in it stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the name is too long.
    pub(crate) fn rename_listed(&self, member: &ZipContent<'_>, header: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.rename(member, header, DIRECTORY_FORM, name)
    }

    /// Gives a header of this `form` another name. `member` is for the error.
    fn rename(&self, member: &ZipContent<'_>, old: &[u8], form: Encoding, name: &[u8]) -> Result<Vec<u8>> {
        match renamed(old, form, name) {
            Some(header) => Ok(header),
            None => Err(refused(self.data, member.start, "the new name of a member is too long")),
        }
    }

    /// Makes a header of the given `form`, without the comment. `contents` are the numbers of new contents, or `None`
    /// if the member keeps its contents. Only the header in the directory has the `offset`.
    fn header(
        &self,
        member: &ZipContent<'_>,
        old: &[u8],
        form: Encoding,
        offset: u64,
        contents: Option<&NewContents>,
    ) -> Result<Vec<u8>> {
        let Some((mut header, name, extra)) = header_parts(old, form) else {
            return Err(refused(self.data, member.start, "a header of a member is too short"));
        };
        let (extra, is_local) = (ExtraFields::split(extra), form == LOCAL_FORM);
        let (mut size, mut stored) = (member.size, member.stored.len());
        if let Some(contents) = contents {
            // The header has the sizes, so no data descriptor follows the data.
            header.flags &= !HAS_DESCRIPTOR;
            if header.method == LZMA {
                header.flags |= HAS_END_MARK;
            }
            header.crc = contents.crc.into();
            (size, stored) = (contents.size, contents.stored);
        }
        let zip64 = if is_local {
            write_local_sizes(&mut header, size, stored, &extra)
        } else {
            write_listed_numbers(&mut header, [size, stored, offset], &extra)
        };
        // A zip64 field stays, even if it is empty now.
        let has_zip64 = !zip64.is_empty() || extra.zip64.is_some();
        let fields = extra.with_zip64(if has_zip64 { Some(&zip64) } else { None });
        let Some((fields, extra_len)) = fields else {
            let reason = "the extra fields of a member have no room for its size";
            return Err(refused(self.data, member.start, reason));
        };
        header.extra_len = extra_len.into();
        // A reader has to know the zip64 field that was added. The upper byte of the version is an operating system.
        if has_zip64 && extra.zip64.is_none() {
            header.version = header.version & 0xff00 | (header.version & 0xff).max(ZIP64_VERSION);
        }
        Ok([&form.encode(&[header]), name, &fields].concat())
    }

    /// Makes the records after a directory of `directory_len` bytes at the offset `directory_at`, and everything that
    /// follows them: the zip64 end with its locator, and the end of the zip file. An old zip64 end stays, and a new one
    /// is added if a number needs it.
    pub(crate) fn end_records(&self, directory_at: u64, directory_len: u64) -> Result<Vec<u8>> {
        let old = tail(self.data.bytes(), self.directory.end).unwrap_or_default();
        let (mut records, mut zip64_len) = (Vec::new(), self.zip64_end);
        if zip64_len.is_none() && directory_at.max(directory_len) >= ELSEWHERE {
            records = self.new_zip64_end();
            zip64_len = Some(ZIP64_END_LEN);
        }
        records.extend(old);
        let mut end_at = 0;
        if let Some(locator_at) = zip64_len {
            // The zip64 end directly follows the directory. The locator is after it, and the end after the locator. So
            // the length of the zip64 end is the offset of the locator in the records.
            overwrite(&mut records, ZIP64_END_FIELDS.0, &directory_len.to_le_bytes())?;
            overwrite(&mut records, ZIP64_END_FIELDS.1, &directory_at.to_le_bytes())?;
            let zip64_at = directory_at.saturating_add(directory_len);
            overwrite(&mut records, locator_at.saturating_add(LOCATOR_OFFSET_AT), &zip64_at.to_le_bytes())?;
            end_at = locator_at.saturating_add(LOCATOR_LEN);
        }
        for (field, value) in [(END_FIELDS.0, directory_len), (END_FIELDS.1, directory_at)] {
            let field = end_at.saturating_add(field);
            // A number that was in the zip64 end already stays there. So does one that does not fit any more.
            let was_small = number::<4>(&records, field) != Some(ELSEWHERE);
            let small = if was_small { u32::try_from(value).unwrap_or(u32::MAX) } else { u32::MAX };
            overwrite(&mut records, field, &small.to_le_bytes())?;
        }
        Ok(records)
    }

    /// Makes a zip64 end and its locator. Size and offset of the directory and the offset of the zip64 end are zero:
    /// [`Self::end_records`], which alone knows them, writes them over the zeros.
    fn new_zip64_end(&self) -> Vec<u8> {
        let count = to_u64(self.members.len()).to_le_bytes();
        let version = &ZIP64_VERSION.to_le_bytes()[..2];
        let following_len = 44_u64.to_le_bytes();
        // The directory and this record are on disk 0, in 4 bytes each.
        let disk_numbers = [0_u8; 8];
        let (size, offset) = ([0_u8; 8], [0_u8; 8]);
        let end = [ZIP64_END, &following_len, version, version, &disk_numbers, &count, &count, &size, &offset];
        let (disk_number, end_offset, disk_count) = ([0_u8; 4], [0_u8; 8], 1_u32.to_le_bytes());
        [&end.concat(), LOCATOR, &disk_number, &end_offset, &disk_count].concat()
    }

    /// Returns the bytes from the start of a member to its data: its local header.
    fn local(&self, member: &ZipContent<'_>) -> Result<&'a [u8]> {
        Ok(self.data.claimed(&(member.start..member.stored.offset()))?.bytes())
    }
}

/// Returns the end of the directory, and the length of the zip64 end if one follows the directory. Without a zip64 end,
/// the directory ends at the end record of the zip file.
fn directory_end(data: Slice<'_>, end_record_at: u64) -> Result<(u64, Option<u64>)> {
    let Some(locator_at) = end_record_at.checked_sub(LOCATOR_LEN) else { return Ok((end_record_at, None)) };
    if slice(data.bytes(), locator_at, 4) != Some(LOCATOR) {
        return Ok((end_record_at, None));
    }
    match zip64_end_before(data.bytes(), locator_at) {
        Some(Range { start, end }) => Ok((start, Some(end.saturating_sub(start)))),
        None => Err(refused(data, locator_at, "its zip64 records are not between the directory and the end")),
    }
}

/// Returns the range of the zip64 end that the locator at `locator_at` names, or `None` if it does not end there.
fn zip64_end_before(data: &[u8], locator_at: u64) -> Option<Range<u64>> {
    let start = number::<8>(data, locator_at.checked_add(LOCATOR_OFFSET_AT)?)?;
    if slice(data, start, 4)? != ZIP64_END {
        return None;
    }
    // The recorded length is without the signature and itself, which have 4 and 8 bytes.
    let len = number::<8>(data, start.checked_add(4)?)?.checked_add(12)?;
    let end = start.checked_add(len)?;
    if len >= ZIP64_END_LEN && end == locator_at { Some(start..end) } else { None }
}

fn refused(data: Slice<'_>, at: u64, reason: &str) -> Error {
    let at = data.absolute(at);
    let reason = format!("cannot rewrite the zip file at offset {at}: {reason}");
    Error::refused(ErrorKind::Unsupported, data.path(), at, reason)
}

/// The extra fields of a header, and the zip64 field among them.
struct ExtraFields<'h> {
    before: &'h [u8],
    /// The zip64 field without number and length.
    zip64: Option<&'h [u8]>,
    after: &'h [u8],
}

impl<'h> ExtraFields<'h> {
    /// Splits the fields at the first zip64 field. Without one, or if a field before it is broken, all are `before` it.
    fn split(fields: &'h [u8]) -> Self {
        let mut rest = fields;
        while let (Some(kind), Some(len)) = (number::<2>(rest, 0), number::<2>(rest, 2)) {
            let (Some(field), Some(after)) = (slice(rest, 4, len), tail(rest, span(4, len).end)) else { break };
            if kind == ZIP64 {
                let before = fields.len().saturating_sub(rest.len());
                let before = fields.get(..before).unwrap_or_default();
                return Self { before, zip64: Some(field), after };
            }
            rest = after;
        }
        Self { before: fields, zip64: None, after: &[] }
    }

    /// Returns the fields with another zip64 field, or without one, and their length. Returns `None` if a length does
    /// not fit into its 16 bits.
    fn with_zip64(&self, zip64: Option<&[u8]>) -> Option<(Vec<u8>, u16)> {
        let mut fields = self.before.to_vec();
        if let Some(field) = zip64 {
            let len = u16::try_from(field.len()).ok()?;
            fields.extend([&ZIP64.to_le_bytes()[..2], &len.to_le_bytes(), field].concat());
        }
        fields.extend(self.after);
        let len = u16::try_from(fields.len()).ok()?;
        Some((fields, len))
    }
}

/// Writes both sizes to a local header. Returns the content of its zip64 field, which is empty or has both sizes, as
/// APPNOTE requires.
fn write_local_sizes(header: &mut MemberHeader, size: u64, stored: u64, extra: &ExtraFields<'_>) -> Vec<u8> {
    let needs_zip64 = extra.zip64.is_some() || size.max(stored) >= ELSEWHERE;
    if needs_zip64 {
        (header.size, header.stored) = (ELSEWHERE, ELSEWHERE);
        return [size.to_le_bytes(), stored.to_le_bytes()].concat();
    }
    (header.size, header.stored) = (size, stored);
    Vec::new()
}

/// Writes size, stored size and offset to a header of the directory. Returns the content of its zip64 field: the
/// numbers that do not fit into the header, or that were there already, and then the rest of the old content.
fn write_listed_numbers(header: &mut MemberHeader, numbers: [u64; 3], extra: &ExtraFields<'_>) -> Vec<u8> {
    let (mut zip64, mut old_len) = (Vec::new(), 0_usize);
    let fields = [&mut header.size, &mut header.stored, &mut header.offset];
    for (field, value) in fields.into_iter().zip(numbers) {
        let was_small = *field != ELSEWHERE;
        if !was_small {
            // The old content has this number, in 8 bytes.
            old_len = old_len.saturating_add(8);
        }
        if was_small && value < ELSEWHERE {
            *field = value;
        } else {
            *field = ELSEWHERE;
            zip64.extend(value.to_le_bytes());
        }
    }
    // The old content may go on with other numbers, such as the number of the disk.
    if let Some(old) = extra.zip64 {
        zip64.extend(old.get(old_len..).unwrap_or_default());
    }
    zip64
}

/// Splits a header into its fixed fields, its name and its extra fields, or returns `None` if the bytes end before
/// them.
fn header_parts(bytes: &[u8], form: Encoding) -> Option<(MemberHeader, &[u8], &[u8])> {
    let header: MemberHeader = form.decode(bytes);
    let name = span(form.len_of::<MemberHeader>(), header.name_len);
    let extra = slice(bytes, name.end, header.extra_len)?;
    Some((header, bytes_in(bytes, name)?, extra))
}

/// Returns a header of the given `form` with another name, or `None` if the name is too long or the header is cut
/// short.
fn renamed(old: &[u8], form: Encoding, name: &[u8]) -> Option<Vec<u8>> {
    let (mut header, old_name, _) = header_parts(old, form)?;
    let after_name = span(form.len_of::<MemberHeader>(), len_u64(old_name)).end;
    header.name_len = u16::try_from(name.len()).ok()?.into();
    Some([&form.encode(&[header]), name, tail(old, after_name)?].concat())
}

/// Writes `bytes` over bytes of some records, from the offset `at` on. The records were checked when the zip file was
/// read, so the error, which names no file, is not expected.
fn overwrite(records: &mut [u8], at: u64, bytes: &[u8]) -> Result<()> {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let Some(field) = records.get_mut(at..at.saturating_add(bytes.len())) else {
        let reason = "a field is outside of a header of a zip file";
        return Err(Error::refused(ErrorKind::Malformed, "", None, reason));
    };
    field.copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use rawzip::ZipArchive;

    use super::*;

    const LARGE: u64 = 5 << 32;

    /// Makes a zip file with two stored members, with extra fields if there are any.
    fn sample(extra: &[u8]) -> Vec<u8> {
        let (mut data, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in [(b"a", b"aaa"), (b"b", b"bbb")] {
            let start = u32::try_from(data.len()).unwrap().to_le_bytes();
            let crc = rawzip::crc32(content).to_le_bytes();
            let fixed = [&[20, 0, 0, 0, 0, 0, 1, 2, 3, 4], &crc[..], &[3, 0, 0, 0, 3, 0, 0, 0, 1, 0]].concat();
            let len = u16::try_from(extra.len()).unwrap().to_le_bytes();
            data.extend([b"PK\x03\x04", &fixed[..], &len, name, extra, content].concat());
            directory.extend(
                [b"PK\x01\x02\x14\x03", &fixed[..], &len, &[1, 0], &[0; 8], &start, name, extra, b"c"].concat(),
            );
        }
        let [at, len] = [data.len(), directory.len()].map(|len| u32::try_from(len).unwrap().to_le_bytes());
        [&data[..], &directory, b"PK\x05\x06\0\0\0\0\x02\0\x02\0", &len, &at, b"\x02\0!!"].concat()
    }

    fn layout_of(data: &[u8]) -> DirectoryRewrite<'_> {
        let data = Slice::from(data);
        let directory = ZipDirectory::read(data);
        let members = directory.members.iter().map(|member| *member.content.as_ref().ok().unwrap()).collect();
        DirectoryRewrite::check_and_read(data, &directory, members).unwrap()
    }

    /// Makes the directory of a file of gigabytes: the members of `layout` at `offset`, and the first with `contents`.
    fn directory(layout: &DirectoryRewrite<'_>, offset: u64, contents: &NewContents) -> Vec<u8> {
        let headers = layout.members.iter().zip([Some(contents), None]);
        let headers = headers.map(|(member, contents)| layout.listed_header(member, offset, contents).unwrap());
        headers.collect::<Vec<_>>().concat()
    }

    #[test]
    fn unchanged_records_are_written_as_they_were() {
        for extra in [&b""[..], &[9, 9, 1, 0, 7], &[1, 0, 0, 0], &[1, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8], &[9]] {
            let data = sample(extra);
            let layout = layout_of(&data);
            let contents = NewContents { crc: rawzip::crc32(b"aaa"), size: 3, stored: 3 };
            let old = &data[usize::try_from(layout.directory.start).unwrap()..];
            let [first, other] = &layout.members[..] else { panic!("there are two members") };
            let second = other.start;
            let headers = [layout.listed_header(first, 0, Some(&contents)), layout.listed_header(other, second, None)];
            let headers = headers.map(Result::unwrap).concat();
            let end = layout.end_records(layout.directory.start, len_u64(&headers)).unwrap();
            let has_zip64 = extra.starts_with(&[1]);
            assert!([&headers[..], &end].concat() == old, "{extra:?}");
            assert_eq!(layout.range_of(first).unwrap(), 0..second);
            let local = layout.local_header(first, &contents).unwrap();
            // A new local header has its sizes in such a field.
            assert!(
                has_zip64 || [&local[..], b"aaa"].concat() == data[..usize::try_from(second).unwrap()],
                "{extra:?}"
            );
        }
    }

    #[test]
    fn large_numbers_are_written_in_zip64_fields() {
        for extra in [&b""[..], &[9, 9, 1, 0, 7]] {
            let data = sample(extra);
            let layout = layout_of(&data);
            for (offset, size, stored) in [(7, LARGE, 9), (LARGE, 8, 9), (7, LARGE, LARGE + 1), (ELSEWHERE, 8, 9)] {
                let contents = NewContents { crc: 5, size, stored };
                let headers = directory(&layout, offset, &contents);
                let (header, _, fields) = header_parts(&headers, DIRECTORY_FORM).unwrap();
                for (field, value) in [(header.size, size), (header.stored, stored), (header.offset, offset)] {
                    assert_eq!(field, value.min(ELSEWHERE));
                }
                let zip64 = ExtraFields::split(fields).zip64.unwrap();
                let mut large = vec![size, stored, offset];
                large.retain(|value| *value >= ELSEWHERE);
                assert_eq!(zip64, large.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>());
                assert!(fields.starts_with(extra) && headers[6] == 45);
                let local = layout.local_header(&layout.members[0], &contents).unwrap();
                let field = ExtraFields::split(header_parts(&local, LOCAL_FORM).unwrap().2).zip64.map(<[u8]>::to_vec);
                let is_large = size.max(stored) >= LARGE;
                let expected = if is_large { Some([size, stored].map(u64::to_le_bytes).concat()) } else { None };
                assert_eq!(field, expected);
            }
        }
    }

    #[test]
    fn a_directory_far_away_gets_a_zip64_end_that_stays() {
        let data = sample(b"");
        let layout = layout_of(&data);
        let contents = NewContents { crc: 5, size: 3, stored: 3 };
        let headers = directory(&layout, 3, &contents);
        let far = [&headers[..], &layout.end_records(LARGE, len_u64(&headers)).unwrap()].concat();
        assert_eq!(number::<8>(&far, len_u64(&headers) + 48), Some(LARGE));
        assert_eq!(number::<8>(&far, len_u64(&headers) + 56 + 8), Some(LARGE + len_u64(&headers)));
        // The same directory after the members is found through these records.
        let near = [&data[..usize::try_from(layout.directory.start).unwrap()], &headers].concat();
        let far_end = DirectoryRewrite { data: Slice::from(&data), ..layout };
        let mut end = far_end.end_records(LARGE, len_u64(&headers)).unwrap();
        let [at, len] = [far_end.directory.start, len_u64(&headers)].map(u64::to_le_bytes);
        overwrite(&mut end, 40, &len).unwrap();
        overwrite(&mut end, 48, &at).unwrap();
        overwrite(&mut end, 56 + 8, &len_u64(&near).to_le_bytes()).unwrap();
        let wide = [near, end].concat();
        let archive = ZipArchive::from_slice(&wide).unwrap();
        assert_eq!((archive.entries_hint(), archive.directory_offset()), (2, far_end.directory.start));
        assert_eq!((archive.entries().count(), archive.comment().as_bytes()), (2, &b"!!"[..]));
    }

    #[test]
    fn a_renamed_header_differs_only_in_its_name() {
        let data = sample(&[9, 9, 1, 0, 7]);
        let layout = layout_of(&data);
        let member = &layout.members[0];
        let (local, listed) = (layout.old_local_header(member).unwrap(), member.directory_header.bytes());
        let renamed_local = layout.rename_local(member, &local, b"longer").unwrap();
        let renamed_listed = layout.rename_listed(member, listed, b"longer").unwrap();
        for (old, new, form) in [(&local[..], renamed_local, LOCAL_FORM), (listed, renamed_listed, DIRECTORY_FORM)] {
            assert_eq!(header_parts(&new, form).unwrap().1, b"longer");
            assert_eq!(renamed(&new, form, b"a").unwrap(), old);
        }
        for (len, fits) in [(0xffff, true), (0x1_0000, false)] {
            assert_eq!(layout.rename_local(member, &local, &vec![b'n'; len]).is_ok(), fits, "{len}");
        }
    }

    #[test]
    fn fields_outside_of_a_header_are_not_written() {
        for (at, is_inside) in [(0, true), (6, true), (7, false), (8, false), (u64::MAX, false)] {
            let mut header = [0; 8];
            assert_eq!(overwrite(&mut header, at, &[1, 1]).is_ok(), is_inside, "{at}");
            assert_eq!(header.contains(&1), is_inside, "{at}");
        }
    }

    fn zip64_records(len: u64, start: u64) -> Vec<u8> {
        let end = [ZIP64_END, &len.to_le_bytes(), &[0; 44]].concat();
        [&end[..], LOCATOR, &[0; 4], &start.to_le_bytes(), &[1, 0, 0, 0]].concat()
    }

    fn end_of(data: &[u8]) -> Option<(u64, Option<u64>)> {
        directory_end(Slice::from(data), len_u64(data)).ok()
    }

    #[test]
    fn zip64_records_are_between_the_directory_and_the_end() {
        assert_eq!(end_of(&zip64_records(44, 0)), Some((0, Some(56))));
        assert_eq!(end_of(&[b"before", &zip64_records(44, 6)[..]].concat()), Some((6, Some(56))));
        for (len, start) in [(43, 0), (45, 0), (u64::MAX, 0), (44, 1), (44, u64::MAX)] {
            assert_eq!(end_of(&zip64_records(len, start)), None, "{len} {start}");
        }
        assert_eq!(end_of(&zip64_records(44, 0)[..56]), Some((56, None)));
    }
}
