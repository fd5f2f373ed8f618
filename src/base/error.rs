//! Error types: [`Error`] for failures of the library, [`Malformed`] for faults in the bytes of a file.
//!
//! [`Malformed`] describes the fault and its offset; [`Error`] adds the file. `Display` gives the text of LLVM 22 where
//! LLVM has a message for the same case. Offsets are decimal.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::display::listed;
use crate::base::id::IdError;
use crate::base::io::sys;
pub(crate) use crate::base::malformed::fail_at;
pub use crate::base::malformed::{ErrorKind, Malformed};

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of a job: its [kind](Self::kind), its cause and, where known, the [file](Self::file), the
/// [place](Self::place) in it and the [offset](Self::offset).
///
/// `Display` gives all of this in one line, including the cause. [`source`](std::error::Error::source) returns only
/// errors below that cause, so printing the whole chain repeats nothing.
#[derive(Debug)]
pub struct Error(Box<ErrorData>);

#[derive(Debug)]
struct ErrorData {
    kind: ErrorKind,
    /// The file at fault; empty if the error is not about one file. For a failed copy, the file that was written.
    path: PathBuf,
    /// The file that the user named and the place in it, if only a part is affected.
    place: Option<(PathBuf, String)>,
    offset: Option<u64>,
    cause: ErrorCause,
    remedy: Remedy,
}

#[derive(Debug)]
enum ErrorCause {
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
enum Remedy {
    None,
    /// Another way to the requested result.
    Hint(&'static str),
    /// Several code objects match: an entry ID that matches only one of them, if there is such an ID.
    Sole(Option<String>),
    /// No code object matches: the requested targets, and the targets of the code objects.
    Targets {
        unmatched: Vec<String>,
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

    /// Returns an entry ID that, compared exactly, selects one of the matches of an [ambiguous](ErrorKind::Ambiguous)
    /// selection alone.
    #[doc(hidden)]
    pub fn sole_match(&self) -> Option<&str> {
        if let Remedy::Sole(id) = &self.0.remedy { id.as_deref() } else { None }
    }

    /// Returns the requested targets that match no code object, as they were typed.
    #[doc(hidden)]
    pub fn unmatched_targets(&self) -> &[String] {
        if let Remedy::Targets { unmatched, .. } = &self.0.remedy { unmatched } else { &[] }
    }

    /// Returns the targets of all code objects if no code object matches a selection, or nothing for other errors. A
    /// target is a GPU or, for code without one, an entry ID.
    #[doc(hidden)]
    pub fn present_targets(&self) -> &[String] {
        if let Remedy::Targets { present, .. } = &self.0.remedy { present } else { &[] }
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

    /// The error for a selection that matches several code objects in `path` and earlier files. `ids` are their entry
    /// IDs. `sole` is an ID that matches only one of them, if there is such an ID.
    pub(crate) fn several_match(path: &Path, ids: &[String], sole: Option<String>) -> Self {
        let ids = beginning(&counted(ids));
        let reason = format!("several code objects match, but standard output takes only one: {ids}");
        Self::refused(ErrorKind::Ambiguous, path, None, reason).with(Remedy::Sole(sole))
    }

    /// The error for a selection that matches no code object in `inputs`. `unmatched` are the parts of the selection
    /// that the message names, if any. `present` are the targets that the files have code for.
    pub(crate) fn no_match(inputs: &[PathBuf], unmatched: &[String], present: &[String]) -> Self {
        let wanted = if unmatched.is_empty() { String::new() } else { format!(" {}", unmatched.join(" or ")) };
        let (place, have) = match inputs {
            [input] => (format!("'{}'", input.display()), "it has"),
            inputs => (format!("{} files", inputs.len()), "they have"),
        };
        Self::unmatched(&format!("{wanted} in {place}; {have}"), unmatched, present)
    }

    /// The error for a selection that matches no code object, if some files were skipped. `unmatched` are the parts of
    /// the selection that match nowhere. `only_skipped` are the parts that match only in skipped files, as far as these
    /// could be read. `has_skipped` says whether they have matching code objects. `present` are the targets that the
    /// other files have code for.
    pub(crate) fn no_sound_match(
        unmatched: &[String],
        only_skipped: &[String],
        present: &[String],
        has_skipped: bool,
    ) -> Self {
        const SKIPPED: &str = " except in skipped files";
        // With no parts to name, the message says only whether skipped files have matches.
        let wanted = match [unmatched, only_skipped].map(|wants| wants.join(" or ")).each_ref().map(String::as_str) {
            ["", ""] if !has_skipped => String::new(),
            ["", ""] => SKIPPED.to_owned(),
            [unmatched, ""] => format!(" {unmatched}"),
            ["", only_skipped] => format!(" {only_skipped}{SKIPPED}"),
            [unmatched, only_skipped] => format!(" {unmatched}, and none matches {only_skipped}{SKIPPED}"),
        };
        Self::unmatched(&format!("{wanted}; the other files have"), unmatched, present)
    }

    /// The error with the text "no code object matches ...". `wanted_and_have` is the middle of the sentence: the
    /// selection, and the beginning of the part about the code objects that the files have.
    fn unmatched(wanted_and_have: &str, unmatched: &[String], present: &[String]) -> Self {
        let text = format!("no code object matches{wanted_and_have}{}", list_or_none(present));
        let remedy = Remedy::Targets { unmatched: targets(unmatched), present: present.to_vec() };
        Self::new(ErrorKind::NotFound, text).with(remedy)
    }

    /// Appends a reason to the text, if there is one. The reason means that no other target would match either, so the
    /// suggestion of other targets is dropped.
    pub(crate) fn with_reason(mut self, reason: Option<String>) -> Self {
        if let ErrorCause::Text(text) = &mut self.0.cause
            && let Some(reason) = reason
        {
            *text = format!("{text}; {reason}");
            self.0.remedy = Remedy::None;
        }
        self
    }

    /// Adds a hint.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        self.with(Remedy::Hint(hint))
    }

    fn with(mut self, remedy: Remedy) -> Self {
        self.0.remedy = remedy;
        self
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

    /// Whether the system failed to read or write, so that the error says nothing about the bytes of an input.
    pub(crate) fn is_of_system(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io | ErrorKind::Temporary)
    }

    /// Whether the library refuses a file that it can read, as [`Self::refused`] does. Errors about bytes or from the
    /// system have other causes; wrong arguments and bugs are not about a file.
    pub(crate) fn is_refusal(&self) -> bool {
        let is_about_file = !matches!(self.0.kind, ErrorKind::Usage | ErrorKind::Internal);
        is_about_file && matches!(self.0.cause, ErrorCause::Text(_))
    }
}

/// Returns the targets among the parts of a selection, without quotes: messages name a target in quotes, and no other
/// part.
fn targets(wants: &[String]) -> Vec<String> {
    wants.iter().filter_map(|want| Some(want.strip_prefix('\'')?.strip_suffix('\'')?.to_owned())).collect()
}

/// Returns the end of a sentence such as "the files have": the IDs of their code objects, or that they have none.
fn list_or_none(ids: &[String]) -> String {
    if ids.is_empty() { " none for a device".to_owned() } else { format!(": {}", beginning(ids)) }
}

/// Removes duplicates, in order of first occurrence, and appends the number of occurrences if there are several.
fn counted(texts: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut distinct = Vec::new();
    for text in texts {
        let count = counts.entry(text).or_default();
        if *count == 0 {
            distinct.push(text.as_str());
        }
        *count += 1;
    }
    let mut counted = Vec::with_capacity(distinct.len());
    for text in distinct {
        match counts.get(text) {
            Some(&count) if count > 1 => counted.push(format!("{text} ({count} times)")),
            _ => counted.push(text.to_owned()),
        }
    }
    counted
}

/// The beginning of a list, and the number of omitted elements.
fn beginning(list: &[String]) -> String {
    listed(list, 20, ", ", ", and ")
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
