//! Error types: [`Error`] for failures of the library, [`Malformed`] for faults in the bytes of a file.
//!
//! [`Malformed`] describes the fault and its offset; [`Error`] adds the file. `Display` gives the text of LLVM 22 where
//! LLVM has a message for the same case. Offsets are decimal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::id::IdError;
use crate::base::io::sys;
pub use crate::base::malformed::{ErrorKind, Malformed};

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of a job: its [kind](Self::kind), its cause and, where known, the [file](Self::file), the
/// [place](Self::place) in it and the [offset](Self::offset).
///
/// `Display` gives all of this in one line, including the cause. [`source`](std::error::Error::source) returns only
/// errors below that cause, so printing the whole chain repeats nothing.
#[derive(Debug)]
pub struct Error(pub(crate) Box<ErrorData>);

#[derive(Debug)]
pub(crate) struct ErrorData {
    pub(crate) kind: ErrorKind,
    /// The file at fault; empty if the error is not about one file. For a failed copy, the file that was written.
    path: PathBuf,
    /// The file that the user named and the place in it, if only a part is affected.
    place: Option<(PathBuf, String)>,
    offset: Option<u64>,
    pub(crate) cause: ErrorCause,
    pub(crate) remedy: Remedy,
}

#[derive(Debug)]
pub(crate) enum ErrorCause {
    /// The operating system refused an operation.
    System(io::Error),
    /// Copying from the file `from` to the file at fault failed; the system does not say which of the two is the
    /// reason.
    Copy { from: PathBuf, source: io::Error },
    /// The bytes of a file are at fault.
    Bytes(Malformed),
    /// Any other cause. The text is the whole message and names the file and the place.
    Text(String),
}

/// The data from which a program can suggest another request.
#[derive(Debug)]
#[doc(hidden)]
pub enum Remedy {
    /// Nothing to suggest.
    None,
    /// Another way to the requested result.
    Hint(&'static str),
    /// Several code objects match: an entry ID that matches only one of them, if there is such an ID.
    Sole(Option<String>),
    /// No code object matches.
    Targets {
        /// The requested targets, as they were typed.
        unmatched: Vec<String>,
        /// The targets of all code objects. A target is a GPU or, for code without one, an entry ID.
        present: Vec<String>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorData { kind, path, place, cause, .. } = &*self.0;
        let mut name = match cause {
            // As in LLVM's tools, the quotation marks are printed even if the name is empty.
            ErrorCause::System(_) | ErrorCause::Copy { .. } => format!("'{}': ", path.display()),
            ErrorCause::Bytes(_) | ErrorCause::Text(_) => prefix(path),
        };
        // A text names the place itself.
        if let Some((file, place)) = place
            && !matches!(cause, ErrorCause::Text(_))
        {
            write!(f, "'{place}': ")?;
            // The place begins with the name of the file. The file at fault is another one if it is a member of a thin
            // archive; it is named too, because the offset counts from its start.
            if file == path {
                name.clear();
            }
        }
        match cause {
            ErrorCause::System(source) if *kind == ErrorKind::Temporary => {
                write!(f, "cannot write a temporary file in '{}': {}", path.display(), OsText(source))
            }
            ErrorCause::System(source) => write!(f, "{name}{}", OsText(source)),
            ErrorCause::Copy { from, source } => {
                write!(f, "{name}{} (while copying from '{}')", OsText(source), from.display())
            }
            ErrorCause::Bytes(fault) => write!(f, "{name}{fault}"),
            ErrorCause::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.io_error()?.source()
    }
}

impl From<IdError> for Error {
    fn from(error: IdError) -> Self {
        Self::new(ErrorKind::Usage, error.to_string())
    }
}

impl Error {
    /// The kind of the error, which suggests how to react.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The affected file, as the caller named it. If copying fails, this is the file that was written; for a temporary
    /// file, it is the directory for these.
    pub fn file(&self) -> Option<&Path> {
        let file = match &self.0.place {
            Some((file, _)) => file,
            None => &self.0.path,
        };
        if file.as_os_str().is_empty() { None } else { Some(file) }
    }

    /// The place in the file, member by member and section by section, escaped for terminals.
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_ref().map(|(_, place)| place.as_str())
    }

    /// The offset in bytes, counted from the start of the innermost file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The operating system's error, if it is the cause.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0.cause {
            ErrorCause::System(source) | ErrorCause::Copy { source, .. } => Some(source),
            ErrorCause::Bytes(_) | ErrorCause::Text(_) => None,
        }
    }

    /// The fault in the bytes of a file, if it is the cause.
    pub fn fault(&self) -> Option<&Malformed> {
        if let ErrorCause::Bytes(fault) = &self.0.cause { Some(fault) } else { None }
    }

    /// Another way to the requested result, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        if let Remedy::Hint(hint) = self.0.remedy { Some(hint) } else { None }
    }

    /// The data from which a program can suggest another request.
    #[doc(hidden)]
    pub fn remedy(&self) -> &Remedy {
        &self.0.remedy
    }

    /// An operating system error on `path`. An [`Error`] inside `source` is returned unchanged, since it names the file
    /// at fault.
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        match source.downcast() {
            Ok(error) => error,
            Err(source) => Self::with_cause(ErrorKind::Io, path.into(), ErrorCause::System(source)),
        }
    }

    /// An error for malformed bytes in `path`, which may be empty.
    pub fn malformed(path: impl Into<PathBuf>, fault: Malformed) -> Self {
        let (kind, offset) = (fault.kind(), fault.offset());
        Self::with_cause(kind, path.into(), ErrorCause::Bytes(fault)).at_offset(offset)
    }

    fn with_cause(kind: ErrorKind, path: PathBuf, cause: ErrorCause) -> Self {
        Self(Box::new(ErrorData { kind, path, place: None, offset: None, cause, remedy: Remedy::None }))
    }

    /// An error with its whole text, which is not about one file.
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self::with_cause(kind, PathBuf::new(), ErrorCause::Text(text.into()))
    }

    /// The error for arguments that do not fit together.
    pub(crate) fn usage(text: &str) -> Self {
        Self::new(ErrorKind::Usage, text)
    }

    /// The error for a broken invariant of the library.
    pub(crate) fn internal(what: &str) -> Self {
        Self::new(ErrorKind::Internal, format!("internal error: {what}"))
    }

    /// The error for an input that is not an archive. LLVM reports this text for a file of any size.
    pub(crate) fn no_archive() -> Self {
        Self::new(ErrorKind::Malformed, "file too small to be an archive")
    }

    /// The error for requested entries that no bundle in the input has. `names` are sorted, as in LLVM's message.
    pub(crate) fn missing_entries(names: &[String]) -> Self {
        Self::new(ErrorKind::NotFound, format!("Can't find bundles for{}", list_of_llvm(names)))
    }

    /// A failure to copy from one file to another.
    pub(crate) fn copy(from: &Path, to: &Path, source: io::Error) -> Self {
        Self::with_cause(ErrorKind::Io, to.to_owned(), ErrorCause::Copy { from: from.to_owned(), source })
    }

    /// A failure to write a temporary file, wrapped for readers and writers to pass on; [`Error::io`] unwraps it.
    pub(crate) fn temporary(source: io::Error) -> io::Error {
        io::Error::other(Self::with_cause(ErrorKind::Temporary, std::env::temp_dir(), ErrorCause::System(source)))
    }

    /// The error for a generated output name that names an input.
    pub(crate) fn overwrites_input(path: &Path) -> Self {
        Self::refused(ErrorKind::Conflict, path, None, "an output with a generated name would overwrite this input")
    }

    /// The error for a file that cannot be used as requested.
    pub(crate) fn refused(
        kind: ErrorKind,
        path: impl Into<PathBuf>,
        offset: impl Into<Option<u64>>,
        reason: impl fmt::Display,
    ) -> Self {
        let path = path.into();
        Self::new(kind, format!("{}{reason}", prefix(&path))).with_file(path).at_offset(offset)
    }

    /// Sets the file at fault.
    pub(crate) fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.path = path.into();
        self
    }

    /// Marks an error of the operating system as one about a file that an input refers to, and that the user did not
    /// name. Other errors stay as they are.
    pub(crate) fn into_referred(mut self) -> Self {
        if self.is_io() {
            self.0.kind = ErrorKind::Referred;
        }
        self
    }

    /// Sets the offset.
    pub(crate) fn at_offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.0.offset = offset.into();
        self
    }

    /// Sets the place in `file` of an error whose text already names the place.
    pub(crate) fn with_place(mut self, file: &Path, place: String) -> Self {
        self.0.place = Some((file.to_owned(), place));
        self
    }

    /// Adds a place in `file` to the error, unless the error already has a place. A text names its place itself, so the
    /// place is put before it; for other causes, `Display` does that.
    pub(crate) fn inside(mut self, file: &Path, place: String) -> Self {
        if self.0.place.is_some() {
            return self;
        }
        if let ErrorCause::Text(text) = &mut self.0.cause {
            text.insert_str(0, &format!("'{place}': "));
        }
        self.with_place(file, place)
    }

    /// The file at fault, such as a member of a thin archive. [`Self::file`] is the file that the user named.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether the operating system could not read or write a file that the user named.
    pub(crate) fn is_io(&self) -> bool {
        self.0.kind == ErrorKind::Io
    }
}

/// The name of a file as a prefix; empty without a name.
fn prefix(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!("'{}': ", path.display()) }
}

/// Attaches a file to an error.
pub(crate) trait WithPath<T> {
    /// Returns the same result; an error names `path`.
    fn with_path(self, path: &Path) -> Result<T>;
}

impl<T> WithPath<T> for io::Result<T> {
    fn with_path(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::io(path, source))
    }
}

impl<T> WithPath<T> for Result<T, Malformed> {
    fn with_path(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::malformed(path, source))
    }
}

/// Shows an operating system error without the number that Rust appends and LLVM does not print.
#[derive(Debug)]
pub struct OsText<'a>(
    /// The error to show.
    pub &'a io::Error,
);

impl fmt::Display for OsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // On Windows, common errors have the texts of other systems.
        if let Some(text) = sys::text(self.0) {
            return f.write_str(text);
        }
        let text = self.0.to_string();
        // Rust appends the number of the error: `No such file or directory (os error 2)`.
        match text.split_once(" (os error") {
            Some((reason, _)) => f.write_str(reason),
            None => f.write_str(&text),
        }
    }
}

/// A list as LLVM formats it: ` A`, ` A and B`, ` A, B, and C`.
fn list_of_llvm(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => format!(" {name}"),
        [first, second] => format!(" {first} and {second}"),
        [first @ .., last] => format!(" {}, and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_kind_a_file_a_place_and_an_offset_and_say_nothing_twice() {
        let malformed = Malformed::at("x", 7);
        let (f, g) = (Some(Path::new("f")), Some(Path::new("g")));
        for (error, kind, file, place, offset) in [
            (Error::io("f", io::ErrorKind::NotFound.into()), ErrorKind::Io, f, None, None),
            (Error::malformed("f", malformed.clone()), ErrorKind::Malformed, f, None, Some(7)),
            (Error::malformed("", malformed.clone()), ErrorKind::Malformed, None, None, Some(7)),
            (
                Error::malformed("g", malformed).inside(Path::new("f"), "f(m)".to_owned()),
                ErrorKind::Malformed,
                f,
                Some("f(m)"),
                Some(7),
            ),
            (Error::refused(ErrorKind::Limit, "g", 3, "full"), ErrorKind::Limit, g, None, Some(3)),
            (Error::usage("no"), ErrorKind::Usage, None, None, None),
        ] {
            let found = (error.kind(), error.file(), error.place(), error.offset());
            assert_eq!(found, (kind, file, place, offset), "{error}");
            assert!(std::error::Error::source(&error).is_none(), "{error}");
        }
        let below = Error::io("f", io::Error::other(Error::usage("why")));
        assert_eq!(below.to_string(), "why", "an error of ours inside one of the system is taken out");
    }

    #[test]
    fn missing_entries_read_as_the_reference_writes_them() {
        for (names, expected) in [("A", " A"), ("A B", " A and B"), ("A B C", " A, B, and C")] {
            let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
            assert_eq!(Error::missing_entries(&names).to_string(), format!("Can't find bundles for{expected}"));
        }
    }

    #[test]
    fn os_errors_lose_their_number() {
        let error = Error::io("x", io::Error::from_raw_os_error(2));
        assert_eq!(error.to_string(), "'x': No such file or directory");
    }
}
