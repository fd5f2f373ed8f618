//! Reads the members of zip files, such as Python wheels.
//!
//! As for all readers, the central directory is authoritative, and other data may lie before the first member. A member
//! is stored, deflated or compressed with zstd; its claimed size limits how much is inflated.
//!
//! Rejected: directories that cannot be read, members outside the file, members that together claim more bytes than the
//! file has (they overlap, to inflate the same bytes repeatedly), directories that list more or fewer members than they
//! count, empty directories of a file that begins with a member, encrypted members, other methods of compression, sizes
//! and checksums that disagree.

mod rewrite;

pub(crate) use rewrite::{Layout, NewContents};

use std::io::Read;
use std::path::Path;

use memchr::memmem;
use rawzip::{CompressionMethod, ZipArchive, ZipFileHeaderRecord};

use crate::base::bytes::{len_u64, number, span, tail, to_u64, total};
use crate::base::codec::{Crc, StreamForm, checksum};
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::Slice;
use crate::beyond::once;
use crate::llvm::container::limits::Allowance;

/// The maximum ratio of inflated to deflated size.
const DEFLATE_MAX: u64 = 1032;

/// The first bytes of a member.
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// The first bytes of the last record, its length without the comment, and the longest comment.
const END: &[u8] = b"PK\x05\x06";
const END_LEN: u64 = 22;
pub(crate) const COMMENT_MAX: u64 = 0xffff;

/// The end of the error for a file whose end is missing, and with it the table of what it holds.
pub(crate) const CUT: &str = "cut short? --deep can still find what is there";

/// The length of a header in the directory, without its name, extra fields and comment.
const LISTED_LEN: u64 = 46;

/// The directory of a zip file.
#[derive(Default)]
pub(crate) struct Directory<'a> {
    pub(crate) members: Vec<ZipMember<'a>>,
    /// The error that ended them, if the rest of the directory is broken.
    pub(crate) error: Option<Error>,
    start: u64,
    /// The end of its headers.
    end: u64,
    /// The offset of the last record.
    last: u64,
}

/// A member of a zip file.
pub(crate) struct ZipMember<'a> {
    pub(crate) name: Vec<u8>,
    pub(crate) is_directory: bool,
    /// The stored bytes, or why they cannot be read.
    pub(crate) content: Result<ZipContent<'a>>,
}

/// The bytes of a member.
#[derive(Clone, Copy)]
pub(crate) struct ZipContent<'a> {
    /// The start of its header in the zip file.
    pub(crate) start: u64,
    /// Its header in the directory.
    pub(crate) listed: Slice<'a>,
    /// The form, if compressed.
    pub(crate) form: Option<StreamForm>,
    pub(crate) stored: Slice<'a>,
    /// The claimed inflated size in bytes.
    pub(crate) size: u64,
    crc: u32,
}

/// The members of a zip file that are files, in directory order, and the error that ended them if the rest of the
/// directory is broken.
pub(crate) fn members(data: Slice<'_>) -> (Vec<ZipMember<'_>>, Option<Error>) {
    let Directory { mut members, error, .. } = Directory::read(data);
    members.retain(|member| !member.is_directory);
    (members, error)
}

/// Returns the start of the zip file with which data ends that begins with something else, such as a program that
/// unpacks it, or `None` if it does not end with one. Its offsets may count from the start of the data or from its own.
/// A comment after it has at most `comment` bytes.
pub(crate) fn start_at_end(data: Slice<'_>, comment: u64) -> Option<u64> {
    let bytes = data.bytes();
    let start = data.len().saturating_sub(END_LEN.saturating_add(comment));
    let end = tail(bytes, start)?;
    let reaches_the_end = |record: &[u8]| {
        let comment = number::<2>(record, 20);
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
pub(crate) fn trailing(data: Slice<'_>) -> Option<u64> {
    let end = ZipArchive::from_slice(data.bytes()).ok()?.end_offset();
    let zeros = tail(data.bytes(), end)?.iter().position(|&byte| byte != 0)?;
    Some(end.saturating_add(to_u64(zeros)))
}

impl<'a> Directory<'a> {
    /// Reads the directory of a zip file.
    pub(crate) fn read(data: Slice<'a>) -> Self {
        let mut directory = Self::default();
        directory.error = directory.add_members(data).err();
        directory
    }

    fn add_members(&mut self, data: Slice<'a>) -> Result<()> {
        let broken = |error: rawzip::Error| malformed(data, 0, error.to_string());
        let archive = ZipArchive::from_slice(data.bytes()).map_err(|error| match error.kind() {
            rawzip::ErrorKind::MissingEndOfCentralDirectory => {
                malformed(data, 0, format!("it ends at {}, without the directory of its members: {CUT}", data.len()))
            }
            _ => broken(error),
        })?;
        let start = archive.directory_offset();
        (self.start, self.end, self.last) = (start, start, archive.eocd_offset());
        let mut room = Allowance::new(data.len());
        let mut entries = archive.entries();
        while let Some(entry) = entries.next_entry().map_err(broken)? {
            let name = entry.file_path().as_bytes().to_vec();
            let parts = [&name[..], entry.extra_fields().remaining_bytes(), entry.comment().as_bytes()];
            let len = total(parts.map(len_u64).into_iter().chain([LISTED_LEN]));
            let listed = span(entry.central_directory_offset(), len);
            self.end = listed.end;
            let broken = |error: rawzip::Error| malformed(data, entry.local_header_offset(), error.to_string());
            let content = archive.get_entry(entry.wayfinder()).map_err(broken).and_then(|located| {
                let (start, end) = located.compressed_data_range();
                content(data, &entry, data.claimed(&listed)?, data.claimed(&(start..end))?, &mut room)
            });
            self.members.push(ZipMember { name, is_directory: entry.is_dir(), content });
        }
        match (self.members.len(), data.bytes().starts_with(LOCAL_HEADER)) {
            (0, true) => {
                Err(malformed(data, 0, "the directory lists no members, but the file begins with one".to_owned()))
            }
            // Some writers store the count in 16 bits, however many members there are.
            (listed, _) if to_u64(listed) & 0xffff != archive.entries_hint() & 0xffff => {
                let reason = format!("the directory lists {listed} members, but claims {}", archive.entries_hint());
                Err(malformed(data, archive.directory_offset(), reason))
            }
            _ => Ok(()),
        }
    }
}

/// The content of a member, whose bytes count as `room` is taken: members that overlap have more than the file.
fn content<'a>(
    data: Slice<'_>,
    entry: &ZipFileHeaderRecord<'_>,
    listed: Slice<'a>,
    stored: Slice<'a>,
    room: &mut Allowance,
) -> Result<ZipContent<'a>> {
    let (start, size, crc) = (entry.local_header_offset(), entry.uncompressed_size_hint(), entry.crc32());
    if entry.is_dir() {
        return Ok(ZipContent { start, listed, form: None, stored, size, crc });
    }
    let broken = |reason: String| malformed(data, start, reason);
    room.take(stored.len()).ok_or_else(|| broken("members overlap".to_owned()))?;
    let form = form_of(entry.compression_method(), entry.flags().is_encrypted()).map_err(broken)?;
    if form == Some(StreamForm::Deflate) && size > stored.len().saturating_mul(DEFLATE_MAX) {
        return Err(broken(format!("{size} bytes are recorded as deflated to {}", stored.len())));
    }
    Ok(ZipContent { start, listed, form, stored, size, crc })
}

fn form_of(method: CompressionMethod, encrypted: bool) -> Result<Option<StreamForm>, String> {
    match method {
        _ if encrypted => Err("the member is encrypted".to_owned()),
        CompressionMethod::STORE => Ok(None),
        CompressionMethod::DEFLATE => Ok(Some(StreamForm::Deflate)),
        CompressionMethod::ZSTD => Ok(Some(StreamForm::Frames)),
        other => Err(format!("the member is compressed with method {}, which is not supported", other.as_u16())),
    }
}

fn malformed(data: Slice<'_>, at: u64, reason: String) -> Error {
    broken(data.path(), data.absolute(at), &reason)
}

fn broken(path: &Path, offset: u64, reason: &str) -> Error {
    Error::malformed(path, Malformed::compressed("zip file broken", offset, reason))
}

impl<'a> ZipContent<'a> {
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
        let size = Allowance::new(self.size);
        #[cfg(test)]
        let path = self.form.map(|_| self.stored.path().to_owned());
        Ok(CheckedReader {
            inflated,
            size,
            crc: Crc::default(),
            expected: self.crc,
            #[cfg(test)]
            path,
        })
    }

    /// Reads the whole member to check it.
    pub(crate) fn check(&self) -> std::io::Result<()> {
        std::io::copy(&mut self.reader()?, &mut std::io::sink()).map(|_| ())
    }

    /// A reader's error, with the location of the member.
    pub(crate) fn error(&self, error: std::io::Error) -> Error {
        let error = Error::io(self.stored.path(), error);
        match error.io_error() {
            Some(source) if error.is_io() && source.raw_os_error().is_none() => {
                broken(error.path(), self.stored.offset(), &source.to_string())
            }
            _ => error,
        }
    }
}

/// A reader that checks the size and checksum claimed by the zip file.
struct CheckedReader<R> {
    inflated: R,
    size: Allowance,
    crc: Crc,
    expected: u32,
    /// The zip file, whose inflated bytes tests count.
    #[cfg(test)]
    path: Option<std::path::PathBuf>,
}

impl<R: Read> Read for CheckedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inflated.read(buffer)?;
        self.crc.update(buffer.get(..count).unwrap_or_default());
        let read = to_u64(count);
        #[cfg(test)]
        if let Some(path) = &self.path {
            crate::base::testing::note_inflated(path, read);
        }
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
