//! Error types: [`Error`] for failures of the library, [`Malformed`] for faults in the bytes of a file.
//!
//! [`Malformed`] describes the fault and its offset; [`Error`] adds the file. `Display` gives the text of LLVM 22 where
//! LLVM has a message for the same case. Offsets are decimal.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::id::IdError;

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors, classified by how a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read, write or replace a file. [`Error::io_error`] has its reason.
    Io,
    /// The contents of a file contradict its headers or its format.
    Malformed,
    /// A file, or an entry in it, has a kind that the operation does not support.
    Unsupported,
    /// A size or count exceeds a limit of the library or of a format.
    Limit,
    /// No match was found for a request.
    NotFound,
    /// Two files or entries exclude each other, such as two outputs of one name.
    Conflict,
    /// The arguments do not fit together, or one of them is invalid.
    Usage,
    /// A bug in the library; please report it.
    Internal,
}

/// The failure of a job: its [kind](Self::kind), its cause and, where known, the [file](Self::file), the
/// [place](Self::place) in it and the [offset](Self::offset).
///
/// `Display` gives all of this in one line, including the cause. [`source`](std::error::Error::source) returns only
/// errors below that cause, so printing the whole chain repeats nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to open, read, write or replace a file.
    Io {
        /// The file as the caller named it.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A temporary file could not be created or written.
    Temporary {
        /// The directory for temporary files.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Copying from one file to another failed; the cause may be on either side.
    Copy {
        /// The file that was read.
        from: PathBuf,
        /// The file that was written.
        to: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file to which an input refers, as thin archives and split libraries do, cannot be opened or read.
    Member {
        /// The path that the archive names.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The contents of a file contradict its headers or its format.
    Malformed {
        /// The file as the caller named it; empty if the bytes are not from a file.
        path: PathBuf,
        /// The fault and its offset.
        source: Malformed,
    },
    /// A fault in a part of a file, located by its place.
    Inside {
        /// The file that the place names first.
        file: PathBuf,
        /// The place of the part, escaped for terminals.
        place: String,
        /// The fault.
        error: Box<Error>,
    },
    /// A file cannot be used as requested, or a request cannot be met.
    Refused {
        /// The kind of the error.
        kind: ErrorKind,
        /// The file as the caller named it; empty if the error is not about one file.
        path: PathBuf,
        /// The place in the file, escaped for terminals, if only a part is affected.
        place: Option<String>,
        /// The offset of the affected part in bytes.
        offset: Option<u64>,
        /// The whole text of the error.
        text: String,
    },
    /// The bundles in a file of this kind cannot be rewritten.
    Unsupported {
        /// The file as the caller named it.
        path: PathBuf,
        /// The kind of the file.
        what: FileKind,
    },
    /// An unknown bundle file type.
    FileType(String),
    /// An invalid entry ID.
    EntryId(IdError),
    /// The input is not an archive. The text is LLVM's, whatever the size of the file.
    NoArchive,
    /// No bundle in the input can serve these requested entries, which are sorted.
    MissingEntries(Vec<String>),
    /// Several code objects match, but standard output takes only one.
    SeveralMatch {
        /// The file with the second match, as the caller named it.
        path: PathBuf,
        /// The entry IDs of the matches.
        ids: Vec<String>,
        /// An entry ID that selects one of them alone, if compared [exactly](crate::scan::Comparison::Exact).
        sole: Option<String>,
    },
    /// A selection, or parts of it, match no code object.
    NoMatch {
        /// The whole text of the error.
        text: String,
        /// The targets without a match, as they were typed.
        targets: Vec<String>,
        /// The GPUs, or else the entry IDs, that the files have code objects for.
        present: Vec<String>,
    },
    /// A bug in the library; please report it.
    Internal(&'static str),
    /// A caller of the library passed arguments that do not fit together.
    Usage(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } | Self::Member { path, source } => {
                write!(f, "'{}': {}", path.display(), OsText(source))
            }
            Self::Temporary { directory, source } => {
                write!(f, "cannot write a temporary file in '{}': {}", directory.display(), OsText(source))
            }
            Self::Copy { from, to, source } => {
                let source = OsText(source);
                write!(f, "'{}': {source} (while copying from '{}')", to.display(), from.display())
            }
            Self::Malformed { path, source } => write!(f, "{}{source}", prefix(path)),
            Self::Inside { file, place, error } => {
                write!(f, "'{place}': ")?;
                // The place names the file. A member of a thin archive is a separate file, from which offsets count.
                match &**error {
                    Self::Malformed { path, source } if path == file => write!(f, "{source}"),
                    Self::Io { path, source } if path == file => write!(f, "{}", OsText(source)),
                    error => write!(f, "{error}"),
                }
            }
            Self::Refused { text, .. } | Self::NoMatch { text, .. } => f.write_str(text),
            Self::Unsupported { path, what: FileKind::Other } => {
                write!(f, "'{}': cannot recompress: not a bundle, an ELF file or a zip file", path.display())
            }
            Self::Unsupported { path, what } => write!(f, "'{}': {}: not supported", path.display(), what.name()),
            Self::FileType(name) => write!(f, "'{name}': invalid file type specified"),
            Self::EntryId(error) => write!(f, "{error}"),
            Self::NoArchive => f.write_str("file too small to be an archive"),
            Self::MissingEntries(names) => write!(f, "Can't find bundles for{}", list_of_llvm(names)),
            Self::SeveralMatch { path, ids, .. } => {
                let (path, ids) = (path.display(), beginning(&counted(ids)));
                write!(f, "'{path}': several code objects match, but standard output takes only one: {ids}")
            }
            Self::Internal(what) => write!(f, "internal error: {what}"),
            Self::Usage(text) => f.write_str(text),
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
        Self::EntryId(error)
    }
}

impl Error {
    /// The kind of the error, which suggests how to react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Temporary { .. } | Self::Copy { .. } | Self::Member { .. } => ErrorKind::Io,
            Self::Malformed { source, .. } => source.kind(),
            Self::Inside { error, .. } => error.kind(),
            Self::Refused { kind, .. } => *kind,
            Self::NoArchive => ErrorKind::Malformed,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::FileType(_) | Self::EntryId(_) | Self::SeveralMatch { .. } | Self::Usage(_) => ErrorKind::Usage,
            Self::MissingEntries(_) | Self::NoMatch { .. } => ErrorKind::NotFound,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// The affected file, as the caller named it. If copying fails, this is the file that was written.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. } | Self::Member { path, .. } | Self::Copy { to: path, .. } => Some(path),
            Self::Malformed { path, .. } | Self::Refused { path, .. } => Some(path),
            Self::Unsupported { path, .. } | Self::SeveralMatch { path, .. } => Some(path),
            Self::Temporary { directory: path, .. } | Self::Inside { file: path, .. } => Some(path),
            _ => None,
        }
        .map(PathBuf::as_path)
        .filter(|path| !path.as_os_str().is_empty())
    }

    /// The place in the file, member by member and section by section, escaped for terminals.
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::Inside { place, .. } => Some(place),
            Self::Refused { place, .. } => place.as_deref(),
            _ => None,
        }
    }

    /// The offset in bytes, counted from the start of the innermost file.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Malformed { source, .. } => source.offset(),
            Self::Refused { offset, .. } => *offset,
            Self::Inside { error, .. } => error.offset(),
            _ => None,
        }
    }

    /// The operating system's error, if it is the cause.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } | Self::Temporary { source, .. } => Some(source),
            Self::Copy { source, .. } | Self::Member { source, .. } => Some(source),
            Self::Inside { error, .. } => error.io_error(),
            _ => None,
        }
    }

    /// An operating system error on `path`. An [`Error`] inside `source` is returned unchanged, since it names the file
    /// at fault.
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        source.downcast().unwrap_or_else(|source| Self::Io { path: path.into(), source })
    }

    /// A failure to write a temporary file, wrapped for readers and writers to pass on; [`Error::io`] unwraps it.
    pub(crate) fn temporary(source: io::Error) -> io::Error {
        io::Error::other(Self::Temporary { directory: std::env::temp_dir(), source })
    }

    /// An error for malformed bytes in `path`.
    pub fn malformed(path: impl Into<PathBuf>, source: Malformed) -> Self {
        Self::Malformed { path: path.into(), source }
    }

    /// The error for a generated output name that names an input.
    pub(crate) fn overwrites_input(path: &Path) -> Self {
        Self::refused(ErrorKind::Conflict, path, None, "an output with a generated name would overwrite this input")
    }

    /// The same error, of a file to which an input refers.
    pub(crate) fn of_referred(self) -> Self {
        match self {
            Self::Io { path, source } => Self::Member { path, source },
            error => error,
        }
    }

    /// The error for a file that cannot be used as requested.
    pub(crate) fn refused(
        kind: ErrorKind,
        path: impl Into<PathBuf>,
        offset: impl Into<Option<u64>>,
        reason: impl fmt::Display,
    ) -> Self {
        let (path, offset) = (path.into(), offset.into());
        let text = format!("{}{reason}", prefix(&path));
        Self::Refused { kind, path, place: None, offset, text }
    }

    /// The error for a selection that matches no code object in `inputs`, or the parts of it that match none. The files
    /// hold code objects for `present`.
    pub(crate) fn no_match(inputs: &[PathBuf], unmatched: &[String], present: &[String]) -> Self {
        let wanted = if unmatched.is_empty() { String::new() } else { format!(" {}", unmatched.join(" or ")) };
        let (place, have) = match inputs {
            [input] => (format!("'{}'", input.display()), "it has"),
            inputs => (format!("{} files", inputs.len()), "they have"),
        };
        let text = format!("no code object matches{wanted} in {place}; {have}{}", list_or_none(present));
        Self::NoMatch { text, targets: targets(unmatched), present: present.to_vec() }
    }

    /// The same if some files were skipped: `only_skipped` are the parts of the selection that match only in those, as
    /// far as they could be read, and `skipped` is the number of matching code objects in them.
    pub(crate) fn no_sound_match(
        unmatched: &[String],
        only_skipped: &[String],
        present: &[String],
        skipped: usize,
    ) -> Self {
        const SKIPPED: &str = " except in skipped files";
        let targets = targets(unmatched);
        let [unmatched, only_skipped] = [unmatched, only_skipped].map(|wants| wants.join(" or "));
        let wanted = match (unmatched.as_str(), only_skipped.as_str()) {
            ("", "") if skipped == 0 => String::new(),
            ("", "") => SKIPPED.to_owned(),
            (_, "") => format!(" {unmatched}"),
            ("", _) => format!(" {only_skipped}{SKIPPED}"),
            _ => format!(" {unmatched}, and none matches {only_skipped}{SKIPPED}"),
        };
        let text = format!("no code object matches{wanted}; the other files have{}", list_or_none(present));
        Self::NoMatch { text, targets, present: present.to_vec() }
    }
}

/// A kind of file whose bundles cannot be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// An empty file.
    Empty,
    /// An ELF file without bundles.
    Elf,
    /// A host object with a section for each code object.
    FatObject,
    /// A program or library with device images of DPC++.
    DeviceImages,
    /// An ELF file for a GPU.
    CodeObject,
    /// An offload binary.
    OffloadBinary,
    /// An `ar` archive.
    Archive,
    /// A zip file without a member that can be rewritten.
    Zip,
    /// A package or a compressed file with this name, such as `tar archive`.
    Package(&'static str),
    /// Another format with this name, such as `PE file`.
    Known(&'static str),
    /// Any other file.
    Other,
}

impl FileKind {
    /// The name in messages, with its article.
    pub fn name(self) -> String {
        let name = match self {
            Self::Empty => "empty file",
            Self::Elf => "ELF file without a bundle in .hip_fatbin or a fatbin in .nv_fatbin or __nv_relfatbin",
            Self::FatObject => "fat object",
            Self::DeviceImages => "program with device images of DPC++",
            Self::CodeObject => "code object without a bundle around it",
            Self::OffloadBinary => "offload binary",
            Self::Archive => "ar archive",
            Self::Zip => "zip file in which no member can be recompressed",
            Self::Package(name) | Self::Known(name) => name,
            Self::Other => "file of unknown format",
        };
        with_article(name)
    }
}

/// A noun with its article. Short names are read letter by letter.
fn with_article(name: &str) -> String {
    let letters = ["AKS", "ELF", "LLVM", "LZ4", "lz", "RPM", "x", "XCOFF"];
    let is_an = name.starts_with(['a', 'e', 'i', 'o']) || letters.iter().any(|start| name.starts_with(start));
    format!("{} {name}", if is_an { "an" } else { "a" })
}

/// The targets among parts of a selection, without quotes.
fn targets(wants: &[String]) -> Vec<String> {
    wants.iter().filter_map(|want| Some(want.strip_prefix('\'')?.strip_suffix('\'')?.to_owned())).collect()
}

/// What some files have code objects for, after `have`.
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
    let shown = |text: &str| match counts.get(text) {
        Some(&count) if count > 1 => format!("{text} ({count} times)"),
        _ => text.to_owned(),
    };
    distinct.into_iter().map(shown).collect()
}

/// The beginning of a list, and the number of omitted elements.
fn beginning(list: &[String]) -> String {
    match list.split_at_checked(20) {
        Some((shown, more)) if !more.is_empty() => format!("{}, and {} more", shown.join(", "), more.len()),
        _ => list.join(", "),
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
        /// The end of the sentence, such as the valid values; empty if `what` says it all.
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

    /// The fault of a part: `what` at an offset, and the end of the sentence.
    pub(crate) fn fault(what: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Fault { what: what.into(), offset, problem: problem.into() }
    }

    /// The fault that `what` says completely.
    pub(crate) fn at(what: impl Into<String>, offset: u64) -> Self {
        Self::fault(what, offset, "")
    }

    /// The fault of a field with a value that is invalid in the format.
    pub(crate) fn value(what: &str, found: impl Into<u64>, offset: u64, expected: &str) -> Self {
        Self::fault(format!("{what} {}", found.into()), offset, format!(", expected {expected}"))
    }

    /// The fault of a compressed container that cannot be inflated, or not to the data that its header describes.
    pub(crate) fn compressed(what: &str, offset: u64, reason: impl fmt::Display) -> Self {
        Self::fault(what, offset, format!(": {reason}"))
    }

    /// The fault of this kind at an offset, if it has one.
    pub(crate) fn other(kind: ErrorKind, offset: impl Into<Option<u64>>, text: String) -> Self {
        Self::Other { kind, offset: offset.into(), text }
    }

    /// The fault of containers that are nested more than `most` levels deep, the first of them at `offset`.
    pub(crate) fn nested(what: &str, most: u32, offset: u64) -> Self {
        let text = format!("{what} nested more than {most} levels deep at offset {offset}");
        Self::other(ErrorKind::Limit, offset, text)
    }

    /// The fault of a search that exceeds a limit: more than `limit` of the units `what`, at an offset.
    pub(crate) fn search(what: &str, limit: u64, offset: u64) -> Self {
        Self::other(ErrorKind::Limit, offset, format!("more than {limit} {what}; stopped at offset {offset}"))
    }

    /// The same fault with `base` added to its offset, if the offset is relative to a part of an object.
    pub(crate) fn moved(self, base: u64) -> Self {
        match self {
            Self::Fault { what, offset, problem } => Self::Fault { what, offset: offset.saturating_add(base), problem },
            Self::Truncated { what, offset, needed, end } => {
                Self::Truncated { what, offset: offset.saturating_add(base), needed, end: end.saturating_add(base) }
            }
            other => other,
        }
    }
}

/// Fails at an offset with a fault that `what` says completely.
pub(crate) fn wrong<T>(what: impl Into<String>, offset: u64) -> Result<T, Malformed> {
    Err(Malformed::at(what, offset))
}

/// Shows an operating system error without the number that Rust appends and LLVM does not print.
#[derive(Debug)]
pub struct OsText<'a>(pub &'a io::Error);

impl fmt::Display for OsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.split_once(" (os error").map_or(text.as_str(), |(head, _)| head))
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
    fn formats_are_named_with_their_article() {
        for name in [
            "xz file",
            "xar archive",
            "RPM package",
            "LZ4 file",
            "lzip file",
            "ar archive",
            "offload binary",
            "XCOFF file",
        ] {
            assert_eq!(FileKind::Known(name).name(), format!("an {name}"));
        }
        for name in
            ["tar archive", "PE file", "SquashFS image", "7-Zip archive", "Mach-O file", "zstd file", "kpack archive"]
        {
            assert_eq!(FileKind::Package(name).name(), format!("a {name}"));
        }
    }

    #[test]
    fn errors_have_a_kind_a_file_a_place_and_an_offset_and_say_nothing_twice() {
        let malformed = || Malformed::at("x", 7);
        let inside = |error| Error::Inside { file: "f".into(), place: "f(m)".to_owned(), error: Box::new(error) };
        let (f, g) = (Some(Path::new("f")), Some(Path::new("g")));
        for (error, kind, file, place, offset) in [
            (Error::io("f", io::ErrorKind::NotFound.into()), ErrorKind::Io, f, None, None),
            (Error::malformed("f", malformed()), ErrorKind::Malformed, f, None, Some(7)),
            (Error::malformed("", malformed()), ErrorKind::Malformed, None, None, Some(7)),
            (inside(Error::malformed("g", malformed())), ErrorKind::Malformed, f, Some("f(m)"), Some(7)),
            (Error::refused(ErrorKind::Limit, "g", 3, "full"), ErrorKind::Limit, g, None, Some(3)),
            (Error::Usage("no"), ErrorKind::Usage, None, None, None),
        ] {
            let told = (error.kind(), error.file(), error.place(), error.offset());
            assert_eq!(told, (kind, file, place, offset), "{error}");
            assert!(std::error::Error::source(&error).is_none(), "{error}");
        }
        let below = Error::io("f", io::Error::other(Error::Usage("why")));
        assert_eq!(below.to_string(), "why", "an error of ours inside one of the system is taken out");
    }

    #[test]
    fn missing_entries_read_as_the_reference_writes_them() {
        let text = |names: &[&str]| Error::MissingEntries(names.iter().map(|n| (*n).to_owned()).collect()).to_string();
        assert_eq!(text(&["A"]), "Can't find bundles for A");
        assert_eq!(text(&["A", "B"]), "Can't find bundles for A and B");
        assert_eq!(text(&["A", "B", "C"]), "Can't find bundles for A, B, and C");
    }

    #[test]
    fn os_errors_lose_their_number() {
        let error = Error::io("x", io::Error::from_raw_os_error(2));
        assert_eq!(error.to_string(), "'x': No such file or directory");
    }
}
