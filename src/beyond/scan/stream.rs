//! Data that is read once, from start to end: readers that end early, within limits, or say what is broken.

use std::cell::Cell;
use std::io::{self, Read};

use crate::base::bytes::to_u64;
use crate::base::error::{Error, ErrorKind, Malformed};
use crate::base::io::input::Slice;
use crate::beyond::once;

/// The number of bytes that identify what is read.
pub(crate) const HEAD: u64 = 4096;

/// Data that is read once.
pub(super) struct Stream<'r> {
    pub(super) reader: &'r mut dyn Read,
    /// The size in bytes, if it is recorded.
    pub(super) size: Option<u64>,
    /// Whether its bytes are charged already.
    pub(super) is_charged: bool,
    /// Whether its bytes are those of `source`, rather than inflated from them or a part of them.
    pub(super) is_source: bool,
}

/// The first bytes of data that is read once, and why there are no more.
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

/// A reader that ends where another one fails, to keep what was read before.
pub(super) struct ReaderUntilFault<R> {
    pub(super) reader: R,
    pub(super) fault: Option<io::Error>,
}

impl<R: Read> Read for ReaderUntilFault<R> {
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

/// A reader that only fails, once.
pub(super) struct FailingReader<'f>(pub(super) &'f mut Option<io::Error>);

impl Read for FailingReader<'_> {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The number of bytes that may be read next. It is kept where both the walk and the reader of an archive can see it.
pub(super) struct ReadLimit {
    pub(super) left: Cell<u64>,
    /// The error for data beyond that.
    beyond: Cell<&'static str>,
    /// Whether the data has to have that many bytes.
    is_exact: Cell<bool>,
    pub(super) has_failed: Cell<bool>,
    /// The number of bytes that were read in all.
    pub(super) total: Cell<u64>,
}

impl ReadLimit {
    /// Room for `most` bytes at most, beyond which the data is too long.
    pub(super) fn up_to(most: u64, beyond: &'static str) -> Self {
        let (left, total) = (Cell::new(most), Cell::new(0));
        Self { left, beyond: Cell::new(beyond), is_exact: Cell::new(false), has_failed: Cell::new(false), total }
    }

    pub(super) fn give(&self, most: u64, beyond: &'static str) {
        self.left.set(most);
        self.beyond.set(beyond);
        self.is_exact.set(false);
    }

    /// Room for `len` bytes, before which the data must not end.
    pub(super) fn give_exactly(&self, len: u64) {
        self.left.set(len);
        self.is_exact.set(true);
    }

    /// What to do about a read of `wanted` bytes that gave `count` of them.
    fn take(&self, wanted: usize, count: usize) -> io::Result<usize> {
        let left = self.left.get();
        self.left.set(left.saturating_sub(to_u64(count)));
        self.total.set(self.total.get().saturating_add(to_u64(count)));
        match (count, self.is_exact.get()) {
            (0, true) if wanted > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            (1.., false) if left == 0 => Err(once::broken(self.beyond.get())),
            _ => Ok(count),
        }
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
        // With no room left, a byte more shows whether the data ends here.
        let most = if left == 0 && limit.is_exact.get() { 0 } else { left.max(1) };
        let part = buffer.len().min(most);
        let part = buffer.get_mut(..part).unwrap_or_default();
        let wanted = part.len();
        let read = self.reader.read(part).and_then(|count| limit.take(wanted, count));
        limit.has_failed.set(read.is_err());
        read
    }
}

/// A reader whose errors say what is broken.
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

/// The error of a reader. Those of the operating system, and those that are explained already, stay as they are.
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
