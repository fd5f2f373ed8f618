//! Reads the members of zip files, such as Python wheels.
//!
//! As for all readers, the central directory is authoritative, and other data may lie before the first member. A member is stored, deflated or compressed with zstd;
//! its claimed size limits how much is inflated.
//!
//! Rejected: directories that cannot be read, members outside the file, members that together claim more bytes than the
//! file has (they overlap, to inflate the same bytes repeatedly), directories that list more or fewer members than they
//! count, empty directories of a file that begins with a member, encrypted members, other methods of compression, sizes
//! and checksums that disagree.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::Read;
use std::path::Path;

use memchr::memmem;
use rawzip::{CompressionMethod, ZipArchive};

use super::{ContentKind, Scan};
use crate::bytes::{array, len_u64, tail, to_u64};
use crate::codec::{Crc, Form, checksum};
use crate::container::limits::Allowance;
use crate::container::magic::Magic;
use crate::error::{Error, ErrorKind, Malformed, Result};
use crate::io::input::{Input, Slice};
use crate::io::once;

/// The maximum ratio of inflated to deflated size.
const DEFLATE_MAX: u64 = 1032;

/// The first bytes of a member.
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// The first bytes of the last record, its length without the comment, and the longest comment.
const END: &[u8] = b"PK\x05\x06";
const END_LEN: u64 = 22;
pub(crate) const COMMENT_MAX: u64 = 0xffff;

/// The end of the error for a file whose end is missing, and with it the table of what it holds.
pub(super) const CUT: &str = "cut short? --deep can still find what is there";

/// A member of a zip file.
pub(crate) struct ZipMember<'a> {
    pub(crate) name: Vec<u8>,
    /// The offset of its header in the directory.
    pub(crate) listed_at: u64,
    /// The stored bytes, or why they cannot be read.
    pub(crate) content: Result<ZipContent<'a>>,
}

/// The size from which on it pays to inflate a member on another thread, in bytes.
const LARGE: u64 = 1 << 20;

/// The bytes of a member.
#[derive(Clone, Copy)]
pub(crate) struct ZipContent<'a> {
    /// The form, if compressed.
    pub(crate) form: Option<Form>,
    pub(crate) stored: Slice<'a>,
    /// The claimed inflated size in bytes.
    pub(crate) size: u64,
    crc: u32,
}

/// The members of a zip file that are files, in directory order, and the error that ended them if the rest of the
/// directory is broken.
pub(crate) fn members(data: Slice<'_>) -> (Vec<ZipMember<'_>>, Option<Error>) {
    let mut members = Vec::new();
    let error = read_directory(data, &mut members).err();
    (members, error)
}

/// The start of the zip file with which data ends that begins with something else, such as a program that unpacks it;
/// none if it does not end with one. Its offsets may count from the start of the data or from its own. A comment after it
/// has at most `comment` bytes.
pub(crate) fn start_at_end(data: Slice<'_>, comment: u64) -> Option<u64> {
    let bytes = data.bytes();
    let start = data.len().saturating_sub(END_LEN.saturating_add(comment));
    let end = tail(bytes, start)?;
    let reaches_the_end = |record: &[u8]| {
        let comment = array(record, 20).map(u16::from_le_bytes).map(u64::from);
        comment.is_some_and(|comment| END_LEN.saturating_add(comment) == len_u64(record))
    };
    memmem::find_iter(end, END).find(|&at| end.get(at..).is_some_and(reaches_the_end))?;
    let archive = ZipArchive::from_slice(bytes).ok()?;
    let (mut entries, mut first) = (archive.entries(), None);
    while let Ok(Some(entry)) = entries.next_entry() {
        let start = entry.local_header_offset();
        match first {
            // Its header says that these are not the bytes of something else.
            None => archive.get_entry(entry.wayfinder()).is_ok().then(|| first = Some(start))?,
            Some(before) => first = Some(start.min(before)),
        }
    }
    first
}

/// The offset of other data after a zip file and its comment. Zeros may follow.
pub(super) fn trailing(data: Slice<'_>) -> Option<u64> {
    let end = ZipArchive::from_slice(data.bytes()).ok()?.end_offset();
    let zeros = tail(data.bytes(), end)?.iter().position(|&byte| byte != 0)?;
    Some(end.saturating_add(to_u64(zeros)))
}

fn read_directory<'a>(data: Slice<'a>, members: &mut Vec<ZipMember<'a>>) -> Result<()> {
    let broken = |error: rawzip::Error| malformed(data, 0, error.to_string());
    let archive = ZipArchive::from_slice(data.bytes()).map_err(|error| match error.kind() {
        rawzip::ErrorKind::MissingEndOfCentralDirectory => {
            malformed(data, 0, format!("it ends at {}, without the directory of its members: {CUT}", data.len()))
        }
        _ => broken(error),
    })?;
    let mut room = Allowance::new(data.len());
    let mut entries = archive.entries();
    let mut listed = 0_u64;
    while let Some(entry) = entries.next_entry().map_err(broken)? {
        listed = listed.saturating_add(1);
        if entry.is_dir() {
            continue;
        }
        let at = entry.local_header_offset();
        let name = entry.file_path().as_bytes().to_vec();
        let located = archive.get_entry(entry.wayfinder()).map_err(|error| malformed(data, at, error.to_string()));
        let content = located.and_then(|located| {
            let (start, end) = located.compressed_data_range();
            let size = end.saturating_sub(start);
            let stored = data.claimed(&(start..start.saturating_add(size)))?;
            room.take(size).ok_or_else(|| malformed(data, at, "members overlap".to_owned()))?;
            let form = form_of(entry.compression_method(), entry.flags().is_encrypted());
            let form = form.map_err(|reason| malformed(data, at, reason))?;
            let (size, crc) = (entry.uncompressed_size_hint(), entry.crc32());
            if form == Some(Form::Deflate) && size > stored.len().saturating_mul(DEFLATE_MAX) {
                let reason = format!("{size} bytes are recorded as deflated to {}", stored.len());
                return Err(malformed(data, at, reason));
            }
            Ok(ZipContent { form, stored, size, crc })
        });
        members.push(ZipMember { name, listed_at: entry.central_directory_offset(), content });
    }
    match (listed, data.bytes().starts_with(LOCAL_HEADER)) {
        (0, true) => Err(malformed(data, 0, "the directory lists no members, but the file begins with one".to_owned())),
        // Some writers store the count in 16 bits, however many members there are.
        _ if listed & 0xffff != archive.entries_hint() & 0xffff => {
            let reason = format!("the directory lists {listed} members, but claims {}", archive.entries_hint());
            Err(malformed(data, archive.directory_offset(), reason))
        }
        _ => Ok(()),
    }
}

fn form_of(method: CompressionMethod, encrypted: bool) -> Result<Option<Form>, String> {
    match method {
        _ if encrypted => Err("the member is encrypted".to_owned()),
        CompressionMethod::STORE => Ok(None),
        CompressionMethod::DEFLATE => Ok(Some(Form::Deflate)),
        CompressionMethod::ZSTD => Ok(Some(Form::Frames)),
        other => Err(format!("the member is compressed with method {}, which is not supported", other.as_u16())),
    }
}

fn malformed(data: Slice<'_>, at: u64, reason: String) -> Error {
    broken(data.path(), data.offset().saturating_add(at), &reason)
}

fn broken(path: &Path, offset: u64, reason: &str) -> Error {
    let text = format!("zip file broken at offset {offset}: {reason}");
    Error::malformed(path, Malformed::other(ErrorKind::Malformed, offset, text))
}

/// The compressed members, with their indices, that other threads may inflate: together to at most `budget` bytes. What
/// exceeds the budget is reported in its turn.
pub(super) fn large<'a>(members: &[ZipMember<'a>], budget: u64) -> Vec<(usize, ZipContent<'a>)> {
    let mut room = Allowance::new(budget);
    let contents = (0..).zip(members).filter_map(|(index, member)| Some((index, *member.content.as_ref().ok()?)));
    let large = contents.filter(|(_, content)| content.form.is_some() && content.size >= LARGE);
    large.filter(|(_, content)| room.take(content.size).is_some()).collect()
}

impl<'a> ZipContent<'a> {
    /// All of it, inflated; none unless a search needs it.
    pub(super) fn inflate_for(&self, scan: &Scan) -> Option<std::io::Result<Input>> {
        let magic = Magic::identify(&once::head(&mut self.reader().ok()?, ContentKind::HEAD_LEN).ok()?);
        let is_kept = !magic.is_package() && (scan.deep || magic.may_hold_code() && magic.unread().is_none());
        (is_kept && self.size <= scan.limits.inflated).then(|| Input::spool(self.stored.path(), self.reader()?))
    }

    /// Whether the directory records the same size and checksum for both.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.size, self.crc) == (other.size, other.crc)
    }

    /// A reader of the inflated bytes, which fails unless size and checksum are as claimed. It ends at the claimed size
    /// at the latest.
    pub(crate) fn reader(&self) -> std::io::Result<impl Read + use<'a>> {
        let inflated: Box<dyn Read + 'a> = match self.form {
            None => Box::new(self.stored.reader()),
            // Windows that every decoder accepts, however large the member.
            Some(form) => Box::new(form.inflate(self.stored, 0)?),
        };
        Ok(CheckedReader { inflated, size: Allowance::new(self.size), crc: Crc::default(), expected: self.crc })
    }

    /// Reads the whole member to check it.
    pub(crate) fn check(&self) -> std::io::Result<()> {
        std::io::copy(&mut self.reader()?, &mut std::io::sink()).map(|_| ())
    }

    /// A reader's error, with the location of the member.
    pub(crate) fn error(&self, error: std::io::Error) -> Error {
        match Error::io(self.stored.path(), error) {
            Error::Io { path, source } if source.raw_os_error().is_none() => {
                broken(&path, self.stored.offset(), &source.to_string())
            }
            error => error,
        }
    }
}

/// A reader that checks the size and checksum claimed by the zip file.
struct CheckedReader<R> {
    inflated: R,
    size: Allowance,
    crc: Crc,
    expected: u32,
}

impl<R: Read> Read for CheckedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inflated.read(buffer)?;
        self.crc.update(buffer.get(..count).unwrap_or_default());
        let read = to_u64(count);
        self.size.take(read).ok_or_else(|| once::broken("it inflates to more than its size"))?;
        if count == 0 && !buffer.is_empty() {
            if self.size.left() > 0 {
                return Err(once::broken("it inflates to less than its size"));
            }
            if checksum(&self.crc) != self.expected {
                return Err(once::broken("its checksum is wrong"));
            }
        }
        Ok(count)
    }
}
