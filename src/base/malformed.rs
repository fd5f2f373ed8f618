//! Faults in bytes, and the kinds of errors.

use std::fmt;

/// Kinds of errors, classified by how a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read, write or replace a file.
    /// [`Error::io_error`](crate::Error::io_error) has its reason.
    Io,
    /// An input refers to another file, as thin archives and split libraries do, that cannot be opened or read.
    /// [`Error::io_error`](crate::Error::io_error) has the reason.
    Referred,
    /// A temporary file could not be created or written. [`Error::io_error`](crate::Error::io_error) has the reason.
    Temporary,
    /// The contents of a file contradict its headers or its format.
    Malformed,
    /// A file, or an entry in it, has a kind that the operation does not support.
    Unsupported,
    /// A size or count exceeds a limit of the library or of a format.
    Limit,
    /// No match was found for a request.
    NotFound,
    /// Several code objects match, but the output takes only one.
    Ambiguous,
    /// Two files or entries exclude each other, such as two outputs of one name.
    Conflict,
    /// The arguments do not fit together, or one of them is invalid.
    Usage,
    /// A bug in the library; please report it.
    Internal,
}

/// A fault in bytes that do not follow their format. Offsets count from the start of the file, except where the text
/// says "inside the inflated bytes".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The data ends inside a field or a payload.
    #[error("{what} needs {needed} bytes at offset {offset}, but the data ends at offset {end}")]
    Truncated {
        /// The field or payload.
        what: String,
        /// The offset of its start.
        offset: u64,
        /// Its length in bytes.
        needed: u64,
        /// The offset of the end of the data.
        end: u64,
    },
    /// Bytes that do not follow their format.
    #[error("{what} at offset {offset}{problem}")]
    Fault {
        /// The field, container or other part, with its value.
        what: String,
        /// The offset of the part.
        offset: u64,
        /// The end of the sentence, such as the valid values; empty if `what` is a whole sentence.
        problem: String,
    },
    /// A compressed container whose recorded inflated size exceeds a limit.
    #[error("{what} at offset {offset}: its inflated size of {claimed} bytes exceeds {limit}")]
    Claim {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The recorded inflated size in bytes.
        claimed: u64,
        /// The limit: its size in bytes, and its scope.
        limit: String,
    },
    /// Bitcode that its reader rejects.
    #[error("the bitcode at offset {offset} cannot be read: {reason}")]
    Bitcode {
        /// The offset of the bitcode.
        offset: u64,
        /// The reader's reason.
        reason: &'static str,
    },
    /// A fault inside the inflated bytes of a compressed container.
    #[error("{what} at offset {offset}: inside the inflated bytes: {inner}")]
    Inflated {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container in the file.
        offset: u64,
        /// The fault; its offsets count inflated bytes.
        inner: Box<Malformed>,
    },
    /// Any other fault.
    #[error("{text}")]
    Other {
        /// The kind of the error.
        kind: ErrorKind,
        /// The offset of the fault, if it has one.
        offset: Option<u64>,
        /// The whole text of the error.
        text: String,
    },
}

impl Malformed {
    /// Returns the kind of the error. A recorded size that exceeds a limit has the kind [`ErrorKind::Limit`]: it may be
    /// correct.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Claim { .. } => ErrorKind::Limit,
            Self::Other { kind, .. } => *kind,
            _ => ErrorKind::Malformed,
        }
    }

    /// The offset of the fault in bytes. For a fault inside inflated bytes, this is the offset of their container in
    /// the file.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Truncated { offset, .. } | Self::Fault { offset, .. } | Self::Claim { offset, .. } => Some(*offset),
            Self::Bitcode { offset, .. } | Self::Inflated { offset, .. } => Some(*offset),
            Self::Other { offset, .. } => *offset,
        }
    }

    /// The fault of data that ends before the `needed` bytes of a field or payload.
    pub(crate) fn truncated(what: impl fmt::Display, offset: u64, needed: u64, end: u64) -> Self {
        Self::Truncated { what: what.to_string(), offset, needed, end }
    }

    /// The fault of a part of a file. `what` is the part, and `problem` the end of the sentence about it.
    pub(crate) fn fault(what: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Fault { what: what.into(), offset, problem: problem.into() }
    }

    /// The fault that the sentence `what` describes. `Display` adds the offset.
    pub(crate) fn at(what: impl Into<String>, offset: u64) -> Self {
        Self::fault(what, offset, "")
    }

    /// The fault of a field with a value that is invalid in the format.
    pub(crate) fn value(what: &str, found: impl Into<u64>, offset: u64, expected: &str) -> Self {
        Self::fault(format!("{what} {}", found.into()), offset, format!(", expected {expected}"))
    }

    /// The fault of a compressed container that cannot be inflated, or whose data contradicts its header.
    pub(crate) fn compressed(what: &str, offset: u64, reason: impl fmt::Display) -> Self {
        Self::fault(what, offset, format!(": {reason}"))
    }

    /// A fault of any kind, with its whole text and, if it has one, its offset.
    pub(crate) fn other(kind: ErrorKind, offset: impl Into<Option<u64>>, text: String) -> Self {
        Self::Other { kind, offset: offset.into(), text }
    }

    /// The fault of containers that are nested more than `most` levels deep, the first of them at `offset`.
    pub(crate) fn nested(what: &str, most: u32, offset: u64) -> Self {
        let text = format!("{what} nested more than {most} levels deep at offset {offset}");
        Self::other(ErrorKind::Limit, offset, text)
    }
}
