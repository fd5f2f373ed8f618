//! Error types: [`Error`] for failures of the library, [`Malformed`] for faults in the bytes of a file.
//!
//! [`Malformed`] describes the fault and its offset; [`Error`] adds the file. `Display` gives the text of LLVM 22 where
//! LLVM has a message for the same case. Offsets are decimal.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::id::{IdError, OffloadKind};

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
    /// A file named by a thin archive cannot be opened or read.
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
    /// A file cannot be used as requested.
    Refused {
        /// The kind of the error.
        kind: ErrorKind,
        /// The file as the caller named it.
        path: PathBuf,
        /// The offset of the affected part in bytes, if only a part is affected.
        offset: Option<u64>,
        /// The reason.
        reason: String,
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
    /// No entry of an archive can serve a request.
    NoCodeObject {
        /// The requested entry ID.
        target: String,
        /// The archive as the caller named it.
        archive: PathBuf,
    },
    /// A member of an archive holds two entries that must not be in one bundle.
    ConflictingEntries {
        /// One entry ID.
        first: String,
        /// The other entry ID.
        second: String,
        /// The name of the member.
        member: String,
        /// The archive as the caller named it.
        archive: PathBuf,
    },
    /// No bundle in the input can serve these requested entries, which are sorted.
    MissingEntries(Vec<String>),
    /// Several code objects match, but standard output takes only one.
    SeveralMatch {
        /// The file with the second match, as the caller named it.
        path: PathBuf,
        /// The entry IDs of the matches, up to the bundle with the second one.
        ids: Vec<String>,
    },
    /// A selection, or a pattern of it, matches no code object.
    NoMatch {
        /// The files that were searched, as the caller named them.
        inputs: Vec<PathBuf>,
        /// The parts of the selection without a match; empty if the selection names nothing.
        unmatched: Vec<Want>,
        /// The entry IDs in the files, without duplicates, in file order.
        present: Vec<String>,
    },
    /// A selection, or a pattern of it, matches no code object, except in skipped files.
    NoSoundMatch {
        /// The parts of the selection without a match in any file.
        unmatched: Vec<Want>,
        /// The parts that match only in skipped files, as far as these could be read.
        only_left_out: Vec<Want>,
        /// The entry IDs in the other files, without duplicates, in file order.
        present: Vec<String>,
        /// The number of matching code objects in the skipped files.
        left_out: usize,
    },
    /// The bundle is too large for the requested version of the compressed format.
    CompressedLimit {
        /// The size that is too large, in LLVM's words.
        what: &'static str,
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
            Self::Malformed { path, source } => write!(f, "{}{source}", MaybeNamed(path)),
            Self::Inside { file, place, error } => write!(f, "'{place}': {}", InsideText { file, error }),
            Self::Refused { path, reason, .. } => write!(f, "{}{reason}", MaybeNamed(path)),
            Self::Unsupported { path, what } => write!(f, "'{}': {}", path.display(), UnsupportedText(*what)),
            Self::FileType(name) => write!(f, "'{name}': invalid file type specified"),
            Self::EntryId(error) => write!(f, "{error}"),
            Self::NoArchive => f.write_str("file too small to be an archive"),
            Self::NoCodeObject { target, archive } => write!(
                f,
                "no compatible code object found for the target '{target}' in heterogeneous archive library: {}",
                archive.display()
            ),
            Self::ConflictingEntries { first, second, member, archive } => {
                write!(f, "conflicting TargetIDs [{first}, {second}] found in {member} of {}", archive.display())
            }
            Self::MissingEntries(names) => write!(f, "Can't find bundles for{}", MissingList(names)),
            Self::SeveralMatch { path, ids } => {
                let path = path.display();
                let ids = counted(ids);
                write!(f, "'{path}': several code objects match, but standard output takes only one: {}", Listed(&ids))
            }
            Self::NoMatch { inputs, unmatched, present } => {
                write!(f, "no code object matches{}", NoMatchText { inputs, unmatched, present })
            }
            Self::NoSoundMatch { unmatched, only_left_out, present, left_out } => {
                let left_out = *left_out;
                let text = NoSoundMatchText { unmatched, only_left_out, present, left_out };
                write!(f, "no code object matches{text}")
            }
            Self::CompressedLimit { what } => write!(f, "{what} exceeds version 2 limit"),
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
            Self::NoCodeObject { .. } | Self::MissingEntries(_) => ErrorKind::NotFound,
            Self::NoMatch { .. } | Self::NoSoundMatch { .. } => ErrorKind::NotFound,
            Self::ConflictingEntries { .. } => ErrorKind::Conflict,
            Self::CompressedLimit { .. } => ErrorKind::Limit,
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
            Self::NoCodeObject { archive, .. } | Self::ConflictingEntries { archive, .. } => Some(archive),
            _ => None,
        }
        .map(PathBuf::as_path)
        .filter(|path| !path.as_os_str().is_empty())
    }

    /// The place in the file, member by member and section by section, escaped for terminals.
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::Inside { place, .. } => Some(place),
            Self::ConflictingEntries { member, .. } => Some(member),
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

    /// The error for a generated output name that names an input.
    pub(crate) fn overwrites_input(path: &Path) -> Self {
        Self::refused(ErrorKind::Conflict, path, None, "an output with a generated name would overwrite this input")
    }

    /// The error for a file that cannot be used as requested.
    pub(crate) fn refused(
        kind: ErrorKind,
        path: impl Into<PathBuf>,
        offset: impl Into<Option<u64>>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Refused { kind, path: path.into(), offset: offset.into(), reason: reason.into() }
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
    /// A COFF object.
    Coff,
    /// A Windows program or library.
    Pe,
    /// A host object with a section for each code object.
    FatObject,
    /// An ELF file for a GPU.
    CodeObject,
    /// An offload binary.
    OffloadBinary,
    /// LLVM bitcode.
    Bitcode,
    /// An `ar` archive.
    Archive,
    /// A zip file.
    Zip,
    /// Any other file.
    Other,
}

impl FileKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "an empty file",
            Self::Elf => "an ELF file without a bundle in .hip_fatbin or a fatbin in .nv_fatbin",
            Self::Coff => "a COFF object",
            Self::Pe => "a PE file",
            Self::FatObject => "a fat object",
            Self::CodeObject => "a code object without a bundle around it",
            Self::OffloadBinary => "an offload binary",
            Self::Bitcode => "LLVM bitcode",
            Self::Archive => "an ar archive",
            Self::Zip => "a zip file",
            Self::Other => "a file of unknown format",
        }
    }
}

/// The reason why a file cannot be rewritten.
struct UnsupportedText(FileKind);

impl fmt::Display for UnsupportedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FileKind::Other => f.write_str("cannot recompress: not a bundle or an ELF file"),
            kind => write!(f, "{}: not supported", kind.name()),
        }
    }
}

/// A part of a selection of code objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// A pattern for targets, as typed.
    Target(String),
    /// An offload kind.
    Kind(OffloadKind),
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(pattern) => write!(f, "'{pattern}'"),
            Self::Kind(kind) => write!(f, "the kind '{}'", kind.name()),
        }
    }
}

/// Joins the parts of a selection as alternatives.
fn alternatives(wants: &[Want]) -> String {
    wants.iter().map(Want::to_string).collect::<Vec<_>>().join(" or ")
}

/// The end of the text of [`Error::NoMatch`].
struct NoMatchText<'e> {
    inputs: &'e [PathBuf],
    unmatched: &'e [Want],
    present: &'e [String],
}

impl fmt::Display for NoMatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.unmatched.is_empty() {
            write!(f, " {}", alternatives(self.unmatched))?;
        }
        let have = match self.inputs {
            [input] => {
                write!(f, " in '{}'", input.display())?;
                "it has"
            }
            inputs => {
                write!(f, " in {} files", inputs.len())?;
                "they have"
            }
        };
        write_present(f, have, self.present)
    }
}

/// The end of the text of [`Error::NoSoundMatch`].
struct NoSoundMatchText<'e> {
    unmatched: &'e [Want],
    only_left_out: &'e [Want],
    present: &'e [String],
    left_out: usize,
}

impl fmt::Display for NoSoundMatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SKIPPED: &str = " except in skipped files";
        let [unmatched, only_left_out] = [self.unmatched, self.only_left_out].map(alternatives);
        match (unmatched.as_str(), only_left_out.as_str()) {
            ("", "") if self.left_out == 0 => {}
            ("", "") => f.write_str(SKIPPED)?,
            (_, "") => write!(f, " {unmatched}")?,
            ("", _) => write!(f, " {only_left_out}{SKIPPED}")?,
            _ => write!(f, " {unmatched}, and none matches {only_left_out}{SKIPPED}")?,
        }
        write_present(f, "the other files have", self.present)
    }
}

fn write_present(f: &mut fmt::Formatter<'_>, have: &str, present: &[String]) -> fmt::Result {
    match present {
        [] => write!(f, "; {have} none"),
        present => write!(f, "; {have}: {}", Listed(present)),
    }
}

/// Removes duplicates, in order of first occurrence, and appends the number of occurrences if there are several. The
/// search stops early, so that number is a lower bound.
fn counted(texts: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut distinct = Vec::new();
    for text in texts {
        let count = counts.entry(text).or_default();
        if *count == 0 {
            distinct.push(text.as_str());
        }
        *count = count.saturating_add(1);
    }
    let shown = |text: &str| match counts.get(text) {
        Some(&count) if count > 1 => format!("{text} (at least {count} times)"),
        _ => text.to_owned(),
    };
    distinct.into_iter().map(shown).collect()
}

/// Shows the beginning of a list, and the number of omitted elements.
struct Listed<'e>(&'e [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        let shown: Vec<&str> = self.0.iter().take(SHOWN).map(String::as_str).collect();
        f.write_str(&shown.join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

/// Shows the name of a file as a prefix, unless it is empty.
struct MaybeNamed<'e>(&'e Path);

impl fmt::Display for MaybeNamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_os_str().is_empty() { Ok(()) } else { write!(f, "'{}': ", self.0.display()) }
    }
}

/// Shows an error without its file, which the place already names. The file is shown for a member of a thin archive,
/// which is a separate file: offsets count from its start.
struct InsideText<'e> {
    file: &'e Path,
    error: &'e Error,
}

impl fmt::Display for InsideText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            Error::Malformed { path, source } if path == self.file => write!(f, "{source}"),
            Error::Io { path, source } if path == self.file => write!(f, "{}", OsText(source)),
            error => write!(f, "{error}"),
        }
    }
}

impl Error {
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
    /// A recorded count for which the remaining bytes are too few.
    #[error(
        "entry count {count} at offset {offset} is too large: the data ends at offset {end}, which leaves room for {most}"
    )]
    Count {
        /// The recorded count.
        count: u64,
        /// The offset of the count.
        offset: u64,
        /// The offset of the end of the data.
        end: u64,
        /// The largest count that fits into the remaining bytes.
        most: u64,
    },
    /// A code object that overlaps the header of its bundle.
    #[error(
        "entry {index} claims {size} bytes at offset {start}, inside the bundle's header, which ends at offset {header_end}"
    )]
    Overlap {
        /// The index of the entry, from 0.
        index: u64,
        /// The recorded offset of its code object.
        start: u64,
        /// The recorded size in bytes.
        size: u64,
        /// The first offset after the header.
        header_end: u64,
    },
    /// A field with a value that is invalid in the format.
    #[error("{what} {found} at offset {offset}, expected {expected}")]
    Value {
        /// The field.
        what: &'static str,
        /// The recorded value.
        found: u64,
        /// The offset of the field.
        offset: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// A size that disagrees with the data it describes.
    #[error("{what} at offset {offset}: {size} is recorded as {recorded} bytes, but is {actual}")]
    Size {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The name of the size.
        size: &'static str,
        /// The recorded size.
        recorded: u64,
        /// The actual size in bytes; text, because it may be known only as a bound.
        actual: String,
    },
    /// A recorded hash that disagrees with the data.
    #[error("{what} at offset {offset}: the recorded hash is {recorded:#018x}, but the data gives {actual:#018x}")]
    Hash {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The recorded hash.
        recorded: u64,
        /// The hash of the inflated data.
        actual: u64,
    },
    /// A compressed stream that its decoder rejects.
    #[error("{what} at offset {offset}: the {method} stream is broken after {inflated} inflated bytes: {reason}")]
    Stream {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The compression method: zlib or zstd.
        method: &'static str,
        /// The number of bytes inflated before the failure.
        inflated: u64,
        /// The decoder's reason.
        reason: String,
    },
    /// A stream of a compression method that this build of the library does not include.
    #[error("{what} at offset {offset}: {reason}")]
    Method {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The method, and the feature that enables it.
        reason: &'static str,
    },
    /// A start line of a text bundle without a matching end line.
    #[error("the entry '{id}' that starts at offset {offset} has no end line")]
    Unclosed {
        /// The entry ID on the start line.
        id: String,
        /// The offset of the start line.
        offset: u64,
    },
    /// An archive that its reader rejects.
    #[error("archive broken at or after offset {offset}: {reason}")]
    Archive {
        /// The offset of the end of the readable part.
        offset: u64,
        /// The reader's reason.
        reason: String,
    },
    /// A zip file or a member of one that cannot be read.
    #[error("zip file broken at offset {offset}: {reason}")]
    Zip {
        /// The offset of the member's header, of its data, or of the file.
        offset: u64,
        /// The reader's reason.
        reason: String,
    },
    /// A code object whose symbols cannot be read.
    #[error("the symbols of the code object cannot be read: {reason}")]
    Symbols {
        /// The reader's reason.
        reason: String,
    },
    /// Trailing bytes after the last container that are neither another container nor zeros.
    #[error("trailing data at offset {offset}: expected {what} or zeros")]
    Trailing {
        /// The data that is allowed there.
        what: &'static str,
        /// The offset of the first other byte.
        offset: u64,
    },
    /// Containers nested too deeply.
    #[error("{what} nested more than {most} levels deep at offset {offset}")]
    Nested {
        /// The name of the containers.
        what: &'static str,
        /// The maximum depth.
        most: u32,
        /// The offset of the first container that is too deep.
        offset: u64,
    },
    /// A search that exceeds a limit on reading or reporting.
    #[error("more than {limit} {what}; stopped at offset {offset}")]
    Search {
        /// The unit of the limit.
        what: &'static str,
        /// The offset at which the limit is exceeded.
        offset: u64,
        /// The limit.
        limit: u64,
    },
    /// A compressed container whose recorded inflated size exceeds the limit.
    #[error("{what} at offset {offset}: its inflated size of {claimed} bytes exceeds the limit of {limit}")]
    Claim {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The recorded inflated size in bytes.
        claimed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Nested compressed containers whose recorded inflated sizes together exceed the limit.
    #[error(
        "{what} at offset {offset}: its inflated size of {claimed} bytes exceeds what is left of the limit of {limit} for nested containers"
    )]
    NestedClaim {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
        /// The recorded inflated size in bytes.
        claimed: u64,
        /// The limit on the total, in bytes.
        limit: u64,
    },
    /// Bitcode that its reader rejects.
    #[error("the bitcode at offset {offset} cannot be read: {reason}")]
    Bitcode {
        /// The offset of the bitcode.
        offset: u64,
        /// The reader's reason.
        reason: &'static str,
    },
    /// An object file with a structure that is inconsistent or not supported.
    #[error("{what} at offset {offset}")]
    Object {
        /// The fault.
        what: String,
        /// The offset of the affected header, table or content.
        offset: u64,
    },
    /// A fat object that would exceed a limit of its object format.
    #[error("the fat object would have {needed} {what}, more than the {most} that its object format allows")]
    Limit {
        /// The unit of the limit.
        what: &'static str,
        /// The required number.
        needed: u64,
        /// The allowed number.
        most: u64,
    },
    /// A compressed container whose inflated data is not a bundle.
    #[error("{what} at offset {offset}: the inflated data is not a bundle")]
    NoBundleInside {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container.
        offset: u64,
    },
    /// Any other fault inside the inflated bytes of a compressed container.
    #[error("{what} at offset {offset}: inside the inflated bytes: {inner}")]
    Inflated {
        /// The name of the container.
        what: &'static str,
        /// The offset of the container in the file.
        offset: u64,
        /// The fault; its offsets count inflated bytes.
        inner: Box<Malformed>,
    },
}

impl Malformed {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Nested { .. } | Self::Search { .. } | Self::Claim { .. } => ErrorKind::Limit,
            Self::NestedClaim { .. } | Self::Limit { .. } => ErrorKind::Limit,
            Self::Method { .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Malformed,
        }
    }

    /// The offset of the fault in bytes. For a fault inside inflated bytes, this is the offset of their container in
    /// the file.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Overlap { start: offset, .. } => Some(*offset),
            Self::Symbols { .. } | Self::Limit { .. } => None,
            Self::Truncated { offset, .. } | Self::Count { offset, .. } | Self::Value { offset, .. } => Some(*offset),
            Self::Size { offset, .. } | Self::Hash { offset, .. } | Self::Stream { offset, .. } => Some(*offset),
            Self::Method { offset, .. } | Self::Unclosed { offset, .. } | Self::Archive { offset, .. } => Some(*offset),
            Self::Zip { offset, .. } | Self::Trailing { offset, .. } | Self::Nested { offset, .. } => Some(*offset),
            Self::Search { offset, .. } | Self::Claim { offset, .. } | Self::NestedClaim { offset, .. } => {
                Some(*offset)
            }
            Self::Bitcode { offset, .. } | Self::Object { offset, .. } => Some(*offset),
            Self::NoBundleInside { offset, .. } | Self::Inflated { offset, .. } => Some(*offset),
        }
    }

    /// The same fault with `base` added to its offset, if the offset is relative to a part of an object.
    pub(crate) fn moved(self, base: u64) -> Self {
        match self {
            Self::Object { what, offset } => Self::Object { what, offset: offset.saturating_add(base) },
            Self::Truncated { what, offset, needed, end } => {
                Self::Truncated { what, offset: offset.saturating_add(base), needed, end: end.saturating_add(base) }
            }
            other => other,
        }
    }
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

/// Formats a list as LLVM does: ` A`, ` A and B`, ` A, B, and C`.
struct MissingList<'a>(&'a [String]);

impl fmt::Display for MissingList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        for (index, name) in self.0.iter().enumerate() {
            if index > 0 && count > 2 {
                f.write_str(",")?;
            }
            f.write_str(if index > 0 && index + 1 == count { " and " } else { " " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_kind_a_file_a_place_and_an_offset_and_say_nothing_twice() {
        let malformed = || Malformed::Trailing { what: "a bundle", offset: 7 };
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
