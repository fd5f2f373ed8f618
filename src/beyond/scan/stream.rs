//! Data that is read once, from start to end, and readers for it: with limits, with an early end, or with errors that
//! name the broken format.

use std::cell::Cell;
use std::io::{self, Read};

use crate::base::bytes::to_u64;
use crate::base::error::{Error, ErrorKind, Malformed};
use crate::base::io::input::Slice;
use crate::beyond::once;

/// The number of bytes that identify the format of the data.
pub(crate) const HEAD: u64 = 4096;

/// Data that is read once.
pub(super) struct Stream<'r> {
    pub(super) reader: &'r mut dyn Read,
    /// The size in bytes, if it is recorded.
    pub(super) size: Option<u64>,
    /// Whether its bytes are charged already.
    pub(super) is_charged: bool,
    /// Whether the stream is all of the data at its place, neither inflated nor a part, so that offsets in both are the
    /// same.
    pub(super) is_source: bool,
}

/// The first bytes of data that is read once, and the error that ended them early.
pub(super) struct StreamHead {
    pub(super) bytes: Vec<u8>,
    pub(super) fault: Option<io::Error>,
}

impl StreamHead {
    pub(super) fn read(reader: &mut (impl Read + ?Sized)) -> Self {
        let mut bytes = Vec::new();
        let fault = reader.take(HEAD).read_to_end(&mut bytes).err();
        Self { bytes, fault }
    }
}

/// A reader that ends where another one fails, so that the bytes before are kept.
pub(super) struct ReaderUntilFault<R> {
    pub(super) reader: R,
    pub(super) fault: Option<io::Error>,
}

impl<R: Read> Read for ReaderUntilFault<R> {
    /// Keeps a fault of the reader for later, and ends the data instead. An interrupted read is no fault: the caller
    /// tries again.
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

/// A reader that fails with the error, if there is one, and then ends. An error that is still there afterwards was met
/// by no reader.
pub(super) struct FailingReader<'f>(pub(super) &'f mut Option<io::Error>);

impl Read for FailingReader<'_> {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.take() {
            Some(error) => Err(error),
            None => Ok(0),
        }
    }
}

/// The number of bytes that may be read next. The walk and the reader of an archive share it.
pub(super) struct ReadLimit {
    /// The number of bytes that may still be read.
    pub(super) left: Cell<u64>,
    /// The error for data beyond that.
    beyond: Cell<&'static str>,
    /// Whether the data has to have that many bytes.
    is_exact: Cell<bool>,
    /// Whether the last read failed.
    pub(super) has_failed: Cell<bool>,
    /// The total number of bytes that were read.
    pub(super) total: Cell<u64>,
}

impl ReadLimit {
    /// Allows `most` bytes at most. `beyond` is the error for longer data.
    pub(super) fn up_to(most: u64, beyond: &'static str) -> Self {
        let (left, total) = (Cell::new(most), Cell::new(0));
        Self { left, beyond: Cell::new(beyond), is_exact: Cell::new(false), has_failed: Cell::new(false), total }
    }

    /// Allows `most` more bytes at most. `beyond` is the error for longer data.
    pub(super) fn allow_up_to(&self, most: u64, beyond: &'static str) {
        self.left.set(most);
        self.beyond.set(beyond);
        self.is_exact.set(false);
    }

    /// Allows `len` more bytes. Data that ends before is an error.
    pub(super) fn allow_exactly(&self, len: u64) {
        self.left.set(len);
        self.is_exact.set(true);
    }

    /// Counts the `count` bytes that a read of `wanted` bytes returned.
    ///
    /// # Errors
    /// The data ends early, or is too long.
    fn take(&self, wanted: usize, count: usize) -> io::Result<usize> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(to_u64(count)));
        self.total.set(self.total.get().saturating_add(to_u64(count)));
        let is_exact = self.is_exact.get();
        if is_exact && count == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !is_exact && count > 0 && left == 0 {
            return Err(once::broken(self.beyond.get()));
        }
        Ok(count)
    }
}

/// A reader with a limit, which notes whether it has failed.
pub(super) struct BoundedReader<'m, R> {
    pub(super) reader: R,
    pub(super) limit: &'m ReadLimit,
}

impl<R: Read> Read for BoundedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = self.limit;
        let left = usize::try_from(limit.left.get()).unwrap_or(usize::MAX);
        // At the limit, a byte more shows whether the data ends here.
        let most = if left == 0 && limit.is_exact.get() { 0 } else { left.max(1) };
        let part = buffer.len().min(most);
        let part = buffer.get_mut(..part).unwrap_or_default();
        let wanted = part.len();
        let read = match self.reader.read(part) {
            Ok(count) => limit.take(wanted, count),
            Err(error) => Err(error),
        };
        limit.has_failed.set(read.is_err());
        read
    }
}

/// A reader whose errors say which format is broken.
pub(super) struct ExplainingReader<R, E> {
    pub(super) reader: R,
    pub(super) explain: E,
}

impl<R: Read, E: Fn(io::Error) -> Error> Read for ExplainingReader<R, E> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other((self.explain)(error)),
        })
    }
}

/// Returns the error of a reader, with the name of the format that is broken. Errors of the operating system, and
/// errors that are explained already, stay as they are.
pub(super) fn error_in(source: Slice<'_>, what: &str, error: io::Error) -> Error {
    let error = Error::io(source.path(), error);
    match error.io_error() {
        Some(reason) if error.is_io() && reason.raw_os_error().is_none() => {
            let reason = match reason.kind() {
                io::ErrorKind::UnexpectedEof => "it ends early".to_owned(),
                _ => reason.to_string(),
            };
            let text = format!("{what} broken: {reason}");
            Error::malformed(source.path(), Malformed::other(ErrorKind::Malformed, source.offset(), text))
        }
        _ => error,
    }
}
