//! Reads the members of zip files, such as Python wheels.
//!
//! As for all readers, the central directory is authoritative, and other data may precede the first member. A member is
//! stored, deflated, or compressed with bzip2, LZMA, xz or zstd. Its claimed size limits how much is inflated. A member
//! of any other method is not read, which is no fault.
//!
//! Rejected:
//!
//! - directories that cannot be read, or that list more or fewer members than they count
//! - empty directories of a file that begins with a member
//! - members outside the file, and members that together claim more bytes than the file has: they overlap, to inflate
//!   the same bytes repeatedly
//! - encrypted members, sizes and checksums that disagree

mod rewrite;

pub(crate) use rewrite::{DirectoryRewrite, NewContents};

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use memchr::memmem;
use rawzip::{CompressionMethod, ZipArchive, ZipFileHeaderRecord};

use crate::base::bytes::{len_u64, number, span, tail, to_u64, total};
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::{Input, Slice};
use crate::beyond::codec::{Crc, StreamForm, checksum};
use crate::beyond::container::Unread;
use crate::beyond::once;
use crate::beyond::parallel;
use crate::llvm::container::limits::Allowance;

/// The maximum ratio of inflated to deflated size: at least 2 bits of deflated data make 258 bytes.
const DEFLATE_RATIO_MAX: u64 = 1032;

/// The size in bytes of the smallest member that is inflated on another thread.
const LARGE_LEN: u64 = 4 << 20;

/// The first bytes of a member.
const LOCAL_HEADER: &[u8] = b"PK\x03\x04";

/// The first bytes of the last record, its length without the comment, and the longest comment.
const END: &[u8] = b"PK\x05\x06";
const END_LEN: u64 = 22;
pub(crate) const COMMENT_MAX: u64 = 0xffff;

/// The offset of the length of the comment in the last record.
const COMMENT_LEN_AT: u64 = 20;

/// The end of the message for a zip file that lacks its end, where the directory of its members would be.
pub(crate) const CUT: &str = "cut short? --deep can still find what is there";

/// The length of a header in the directory, without its name, extra fields and comment.
const DIRECTORY_HEADER_LEN: u64 = 46;

/// The directory of a zip file.
#[derive(Default)]
pub(crate) struct ZipDirectory<'a> {
    pub(crate) members: Vec<ZipMember<'a>>,
    /// The error after these members, if the rest of the directory is broken.
    pub(crate) error: Option<Error>,
    /// The start of the directory.
    start: u64,
    /// The end of the last header in the directory that could be read.
    headers_end: u64,
    /// The offset of the end record, which is the last record of the zip file.
    end_record_at: u64,
}

/// A member of a zip file.
pub(crate) struct ZipMember<'a> {
    pub(crate) name: Vec<u8>,
    pub(crate) is_directory: bool,
    /// The stored bytes, or the reason why they cannot be read.
    pub(crate) content: Result<ZipContent<'a>>,
    /// The offset of a member whose method of compression is not read, and the name of the method. Its content is an
    /// error for callers that need it.
    pub(crate) unread: Option<(u64, Unread)>,
}

/// The bytes of a member.
#[derive(Clone, Copy)]
pub(crate) struct ZipContent<'a> {
    /// The start of the member's header in the zip file.
    pub(crate) start: u64,
    /// The member's header in the directory.
    pub(crate) directory_header: Slice<'a>,
    /// The form of the compressed bytes, or `None` if the member is stored as it is.
    pub(crate) form: Option<StreamForm>,
    /// The bytes in the zip file, perhaps compressed.
    pub(crate) stored: Slice<'a>,
    /// The claimed inflated size in bytes.
    pub(crate) size: u64,
    crc: u32,
}

/// The size and the checksum of a member, as the directory records them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordedContent {
    size: u64,
    crc: u32,
}

/// Returns the members of a zip file that are files, in directory order, and the error after them if the rest of the
/// directory is broken.
pub(crate) fn members(data: Slice<'_>) -> (Vec<ZipMember<'_>>, Option<Error>) {
    let ZipDirectory { mut members, error, .. } = ZipDirectory::read(data);
    members.retain(|member| !member.is_directory);
    (members, error)
}

/// Returns the start of a zip file that other data precedes, such as a program that unpacks it, or `None` if the data
/// does not end in a zip file. Offsets in the zip file may count from its start or from the start of the data. Its
/// comment has at most `comment_max` bytes.
///
/// The zip file begins with the header of a member, which need not be the first one in the directory.
pub(crate) fn start_at_end(data: Slice<'_>, comment_max: u64) -> Option<u64> {
    let bytes = data.bytes();
    // The end record and its comment are in the last bytes.
    let last_bytes = tail(bytes, data.len().saturating_sub(END_LEN.saturating_add(comment_max)))?;
    // Most data have no end record, so nothing else of them is read.
    memmem::find_iter(last_bytes, END).find(|&at| is_end_record(last_bytes.get(at..).unwrap_or_default()))?;
    let archive = ZipArchive::from_slice(bytes).ok()?;
    let (mut entries, mut first_start) = (archive.entries(), None);
    while let Ok(Some(entry)) = entries.next_entry() {
        let start = entry.local_header_offset();
        first_start = match first_start {
            Some(before) => Some(start.min(before)),
            None => {
                // If the first member has no header at its offset, this is not a zip file.
                archive.get_entry(entry.wayfinder()).ok()?;
                Some(start)
            }
        };
    }
    first_start
}

/// Whether data is the last record of a zip file, with its comment.
fn is_end_record(data: &[u8]) -> bool {
    match number::<2>(data, COMMENT_LEN_AT) {
        Some(comment) => END_LEN.saturating_add(comment) == len_u64(data),
        None => false,
    }
}

/// Returns the offset of the first byte that is not zero after a zip file and its comment, or `None` if there is none.
pub(crate) fn trailing(data: Slice<'_>) -> Option<u64> {
    let end = ZipArchive::from_slice(data.bytes()).ok()?.end_offset();
    let zeros = tail(data.bytes(), end)?.iter().position(|&byte| byte != 0)?;
    Some(end.saturating_add(to_u64(zeros)))
}

impl<'a> ZipDirectory<'a> {
    /// Reads the directory of a zip file. If it is broken, it has the members before the fault, and the fault.
    pub(crate) fn read(data: Slice<'a>) -> Self {
        let mut directory = Self::default();
        directory.error = directory.add_members(data).err();
        directory
    }

    /// Adds the members of a zip file up to the first fault of the directory, which is returned. A fault of one member
    /// is the error in its content.
    fn add_members(&mut self, data: Slice<'a>) -> Result<()> {
        let archive = ZipArchive::from_slice(data.bytes()).map_err(|error| missing_directory(data, &error))?;
        let start = archive.directory_offset();
        (self.start, self.headers_end, self.end_record_at) = (start, start, archive.eocd_offset());
        // Members that do not overlap have no more stored bytes than the file. `content_of` takes the stored bytes of
        // each member from `room`.
        let mut room = Allowance::new(data.len());
        let mut entries = archive.entries();
        while let Some(entry) = entries.next_entry().map_err(|error| malformed(data, 0, error.to_string()))? {
            let name = entry.file_path().as_bytes().to_vec();
            let parts = [&name[..], entry.extra_fields().remaining_bytes(), entry.comment().as_bytes()];
            let len = total(parts.map(len_u64)).saturating_add(DIRECTORY_HEADER_LEN);
            let directory_header = span(entry.central_directory_offset(), len);
            self.headers_end = directory_header.end;
            let unread = match form_of(entry.compression_method()) {
                Err(what) if !entry.is_dir() => Some((data.absolute(entry.local_header_offset()), what)),
                _ => None,
            };
            let content = match archive.get_entry(entry.wayfinder()) {
                Ok(located) => {
                    let (start, end) = located.compressed_data_range();
                    content_of(data, &entry, directory_header, start..end, &mut room)
                }
                Err(error) => Err(malformed(data, entry.local_header_offset(), error.to_string())),
            };
            self.members.push(ZipMember { name, is_directory: entry.is_dir(), content, unread });
        }
        self.check_count(data, archive.entries_hint())
    }

    /// Checks the number of members against the recorded one.
    fn check_count(&self, data: Slice<'_>, recorded: u64) -> Result<()> {
        let count = self.members.len();
        if count == 0 && data.bytes().starts_with(LOCAL_HEADER) {
            let reason = "the directory lists no members, but the file begins with one";
            return Err(malformed(data, 0, reason.to_owned()));
        }
        // Some writers store the number in 16 bits, however many members there are.
        if to_u64(count) & 0xffff != recorded & 0xffff {
            let reason = format!("the directory lists {count} members, but claims {recorded}");
            return Err(malformed(data, self.start, reason));
        }
        Ok(())
    }
}

/// Makes the error for a zip file whose directory cannot be found.
fn missing_directory(data: Slice<'_>, error: &rawzip::Error) -> Error {
    let is_cut = matches!(error.kind(), rawzip::ErrorKind::MissingEndOfCentralDirectory);
    let reason = if is_cut {
        format!("it ends at {}, without the directory of its members: {CUT}", data.len())
    } else {
        error.to_string()
    };
    malformed(data, 0, reason)
}

/// Returns the content of a member, and takes its stored length from `room`. At first, `room` is the length of the
/// file: if it is used up, members overlap.
fn content_of<'a>(
    data: Slice<'a>,
    entry: &ZipFileHeaderRecord<'_>,
    directory_header: Range<u64>,
    stored_data: Range<u64>,
    room: &mut Allowance,
) -> Result<ZipContent<'a>> {
    let (directory_header, stored) = (data.claimed(&directory_header)?, data.claimed(&stored_data)?);
    let (start, size, crc) = (entry.local_header_offset(), entry.uncompressed_size_hint(), entry.crc32());
    // A member that is a directory has no content, so nothing is checked.
    if entry.is_dir() {
        return Ok(ZipContent { start, directory_header, form: None, stored, size, crc });
    }
    if room.take(stored.len()).is_none() {
        return Err(malformed(data, start, "members overlap".to_owned()));
    }
    if entry.flags().is_encrypted() {
        return Err(malformed(data, start, "the member is encrypted".to_owned()));
    }
    let method = entry.compression_method();
    let form = form_of(method).map_err(|_| {
        let reason = format!("the member is compressed with method {}, which is not supported", method.as_u16());
        malformed(data, start, reason)
    })?;
    if form == Some(StreamForm::Deflate) && size > stored.len().saturating_mul(DEFLATE_RATIO_MAX) {
        let reason = format!("{size} bytes are recorded as deflated to {}", stored.len());
        return Err(malformed(data, start, reason));
    }
    Ok(ZipContent { start, directory_header, form, stored, size, crc })
}

/// Returns the form of the bytes that a method compresses, or `None` for members that are stored as they are. The error
/// names a method that is not read.
fn form_of(method: CompressionMethod) -> Result<Option<StreamForm>, Unread> {
    Ok(Some(match method {
        CompressionMethod::STORE => return Ok(None),
        CompressionMethod::DEFLATE => StreamForm::Deflate,
        CompressionMethod::BZIP2 => StreamForm::Bzip2,
        CompressionMethod::LZMA => StreamForm::Lzma,
        CompressionMethod::XZ => StreamForm::Xz,
        CompressionMethod::ZSTD => StreamForm::Frames,
        CompressionMethod::DEFLATE64 => return Err(Unread::anything("zip member compressed with Deflate64")),
        CompressionMethod::PPMD => return Err(Unread::anything("zip member compressed with PPMd")),
        _ => return Err(Unread::anything("zip member compressed with an unknown method")),
    }))
}

fn malformed(data: Slice<'_>, at: u64, reason: String) -> Error {
    broken(data.path(), data.absolute(at), &reason)
}

fn broken(path: &Path, offset: u64, reason: &str) -> Error {
    Error::malformed(path, Malformed::compressed("zip file broken", offset, reason))
}

impl<'a> ZipContent<'a> {
    /// Returns the size and checksum that the directory records. Members with different contents may have the same.
    pub(crate) fn recorded(&self) -> RecordedContent {
        RecordedContent { size: self.size, crc: self.crc }
    }

    /// Returns a reader of the inflated bytes, which fails unless size and checksum are as claimed. It ends at the
    /// claimed size at the latest.
    pub(crate) fn reader(&self) -> std::io::Result<impl Read + use<'a>> {
        Ok(self.check(self.inflated()?))
    }

    /// Passes a reader of the whole content to `consume`, as [`reader`](Self::reader) returns it. A large member is
    /// inflated on another thread, if the process may use several.
    pub(crate) fn read<T>(&self, consume: impl FnOnce(&mut dyn Read) -> std::io::Result<T>) -> std::io::Result<T> {
        if self.form.is_none() || self.size < LARGE_LEN {
            return consume(&mut self.reader()?);
        }
        parallel::read_ahead(|| self.inflated(), |inflated| consume(&mut self.check(inflated)))
    }

    /// Returns the whole content in memory or in a temporary file. `name` is the path in its errors.
    pub(crate) fn spool(&self, name: &Path) -> std::io::Result<Input> {
        self.read(|reader| Input::spool(name, reader))
    }

    /// Returns a reader of the inflated bytes, which checks nothing.
    fn inflated(&self) -> std::io::Result<Box<dyn Read + 'a>> {
        /// A recorded size that allows only windows that every decoder accepts, however large the member is.
        const USUAL_WINDOWS: u64 = 0;
        Ok(match self.form {
            None => Box::new(self.stored.reader()),
            // Without a mark at the end of the stream, only the size shows where it ends.
            Some(form @ StreamForm::Lzma) => Box::new(form.inflate(self.stored, self.size)?.take(self.size)),
            Some(form) => Box::new(form.inflate(self.stored, USUAL_WINDOWS)?),
        })
    }

    /// Checks the inflated bytes while they are read.
    fn check<R: Read>(&self, inflated: R) -> CheckedReader<R> {
        let unread = Allowance::new(self.size);
        // Tests count the bytes that are inflated from each file.
        #[cfg(test)]
        let path = self.form.map(|_| self.stored.path().to_owned());
        CheckedReader {
            inflated,
            unread,
            crc: Crc::default(),
            expected_crc: self.crc,
            #[cfg(test)]
            path,
        }
    }

    /// Reads the whole member to check it.
    pub(crate) fn check_all(&self) -> std::io::Result<()> {
        self.read(|reader| std::io::copy(reader, &mut std::io::sink())).map(drop)
    }

    /// Adds the location of the member to an error of its reader. An error that is not the system's means that the data
    /// is broken.
    pub(crate) fn error(&self, error: std::io::Error) -> Error {
        let error = Error::io(self.stored.path(), error);
        match error.io_error() {
            // An error of the system would have its number.
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
    /// The number of bytes that may still follow.
    unread: Allowance,
    crc: Crc,
    /// The checksum that the zip file claims.
    expected_crc: u32,
    /// The zip file, whose inflated bytes tests count.
    #[cfg(test)]
    path: Option<std::path::PathBuf>,
}

impl<R: Read> Read for CheckedReader<R> {
    /// Fails when there are more bytes than claimed, and at the end if there are fewer or the checksum is wrong.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inflated.read(buffer)?;
        self.crc.update(buffer.get(..count).unwrap_or_default());
        let read = to_u64(count);
        #[cfg(test)]
        if let Some(path) = &self.path {
            crate::base::testing::note_inflated(path, read);
        }
        self.unread.take(read).ok_or_else(|| once::broken("it inflates to more than its size"))?;
        // At the end of the data, size and checksum are known.
        if count == 0 && !buffer.is_empty() {
            if self.unread.left > 0 {
                return Err(once::broken("it inflates to less than its size"));
            }
            if checksum(&self.crc) != self.expected_crc {
                return Err(once::broken("its checksum is wrong"));
            }
        }
        Ok(count)
    }
}
