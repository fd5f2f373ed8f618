//! Data that is read once, from start to end, and readers for it: with limits, with an early end, or with errors that
//! name the broken format.

use std::cell::Cell;
use std::io::{self, Read};

use crate::base::bytes::to_u64;
use crate::base::error::{Error, ErrorKind, Malformed};
use crate::base::io::input::Slice;
use crate::beyond::once;

/// The number of bytes that are enough to identify the format of the data.
pub(crate) const HEAD: u64 = 4096;

/// Data that is read once, from start to end.
pub(super) struct Stream<'r> {
    pub(super) reader: &'r mut dyn Read,
    /// The size in bytes, or `None` if nothing records it: the end of the stream is then found by reading.
    pub(super) size: Option<u64>,
    /// Whether the bytes of the stream are charged to the budget already.
    pub(super) is_charged: bool,
    /// Whether an offset in the stream is also an offset in the searched data. Inflated streams and members have other
    /// offsets, which cannot be reported.
    pub(super) has_source_offsets: bool,
}

/// The first bytes of data that is read once, and the error that ended them early.
pub(super) struct StreamHead {
    pub(super) bytes: Vec<u8>,
    pub(super) fault: Option<io::Error>,
}

impl StreamHead {
    /// Reads up to [`HEAD`] bytes. An error does not lose the bytes before it.
    pub(super) fn read(reader: &mut (impl Read + ?Sized)) -> Self {
        let mut bytes = Vec::new();
        let fault = reader.take(HEAD).read_to_end(&mut bytes).err();
        Self { bytes, fault }
    }
}

/// A reader that ends where the reader inside it fails, so that the bytes before the fault can be searched.
pub(super) struct ReaderUntilFault<R> {
    pub(super) reader: R,
    /// The fault at which the data ends, to be reported by the owner of the reader.
    pub(super) fault: Option<io::Error>,
}

impl<R: Read> Read for ReaderUntilFault<R> {
    /// Stores a fault of the inner reader, and ends the data instead. An interrupted read is passed on: callers repeat
    /// it.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            return Ok(0);
        }
        match self.reader.read(buffer) {
            Err(fault) if fault.kind() != io::ErrorKind::Interrupted => {
                self.fault = Some(fault);
                Ok(0)
            }
            read => read,
        }
    }
}

/// A reader without data, which returns the error once, if there is one, and takes it out of the option. So an error
/// that is still in the option afterwards was not returned to anyone.
pub(super) struct FailingReader<'f>(pub(super) &'f mut Option<io::Error>);

impl Read for FailingReader<'_> {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.take() {
            Some(error) => Err(error),
            None => Ok(0),
        }
    }
}

/// A limit on the next bytes of an archive. The walk sets it anew for each header and each member, while the
/// [`BoundedReader`] that obeys it is in use elsewhere: hence the cells.
pub(super) struct ReadLimit {
    /// The number of bytes that may still be read.
    pub(super) bytes_left: Cell<u64>,
    /// The message of the error for data that goes on after these bytes.
    too_long: Cell<&'static str>,
    /// Whether data with fewer bytes is an error, and the reader stops at the limit. Otherwise longer data is an error.
    is_exact: Cell<bool>,
    /// Whether the last read failed.
    pub(super) has_failed: Cell<bool>,
    /// The total number of bytes that were read, under this and all earlier limits.
    pub(super) bytes_read: Cell<u64>,
}

impl ReadLimit {
    /// Allows no bytes. For archives, which set the limit before they read a header or a member.
    pub(super) fn not_set_yet() -> Self {
        let no_message = "";
        Self::up_to(0, no_message)
    }

    /// Allows `most` bytes at most. `too_long` is the message of the error for longer data.
    pub(super) fn up_to(most: u64, too_long: &'static str) -> Self {
        Self {
            bytes_left: Cell::new(most),
            too_long: Cell::new(too_long),
            is_exact: Cell::new(false),
            has_failed: Cell::new(false),
            bytes_read: Cell::new(0),
        }
    }

    /// Allows `most` more bytes at most. `too_long` is the message of the error for longer data.
    pub(super) fn allow_up_to(&self, most: u64, too_long: &'static str) {
        self.bytes_left.set(most);
        self.too_long.set(too_long);
        self.is_exact.set(false);
    }

    /// Allows `len` more bytes, after which the reader seems to end. Data that ends earlier is an error.
    pub(super) fn allow_exactly(&self, len: u64) {
        self.bytes_left.set(len);
        self.is_exact.set(true);
    }

    /// Counts the `count` bytes that a read into a buffer of `wanted` bytes returned. Returns `count`.
    ///
    /// # Errors
    /// The data ends early, or is too long.
    fn count_read(&self, wanted: usize, count: usize) -> io::Result<usize> {
        let left = self.bytes_left.get();
        self.bytes_left.set(left.saturating_sub(to_u64(count)));
        self.bytes_read.set(self.bytes_read.get().saturating_add(to_u64(count)));
        let is_exact = self.is_exact.get();
        // A read into an empty buffer returns 0 bytes too, and is no early end.
        if is_exact && count == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !is_exact && count > 0 && left == 0 {
            return Err(once::broken(self.too_long.get()));
        }
        Ok(count)
    }
}

/// A reader that obeys a limit, and notes in it whether the last read failed.
pub(super) struct BoundedReader<'m, R> {
    pub(super) reader: R,
    pub(super) limit: &'m ReadLimit,
}

impl<R: Read> Read for BoundedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = self.limit;
        let left = usize::try_from(limit.bytes_left.get()).unwrap_or(usize::MAX);
        // Without an exact length, trying to read one byte more at the limit shows whether the data ends here.
        let most = if limit.is_exact.get() { left } else { left.max(1) };
        let part = buffer.len().min(most);
        let part = buffer.get_mut(..part).unwrap_or_default();
        let wanted = part.len();
        let read = match self.reader.read(part) {
            Ok(count) => limit.count_read(wanted, count),
            Err(error) => Err(error),
        };
        limit.has_failed.set(read.is_err());
        read
    }
}

/// A reader whose errors say which format is broken.
pub(super) struct ExplainingReader<R, E> {
    pub(super) reader: R,
    /// Turns an error of the inner reader into an error that names the format.
    pub(super) explain: E,
}

impl<R: Read, E: Fn(io::Error) -> Error> Read for ExplainingReader<R, E> {
    /// Explains the errors of the inner reader, except for interrupted reads, which callers repeat.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other((self.explain)(error)),
        })
    }
}

/// Returns the error of a reader: the data of this `format` in `source` is broken. Errors of the operating system, and
/// errors that are explained already, stay as they are.
pub(super) fn error_in(source: Slice<'_>, format: &str, error: io::Error) -> Error {
    let error = Error::io(source.path(), error);
    match error.io_error() {
        // Without a code of the operating system, the error is a decoder's.
        Some(reason) if error.is_io() && reason.raw_os_error().is_none() => {
            let reason = match reason.kind() {
                io::ErrorKind::UnexpectedEof => "it ends early".to_owned(),
                _ => reason.to_string(),
            };
            let text = format!("{format} broken: {reason}");
            Error::malformed(source.path(), Malformed::other(ErrorKind::Malformed, source.offset(), text))
        }
        _ => error,
    }
}
