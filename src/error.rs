//! What can go wrong: one type for the library, one for the bytes of a file.
//!
//! [`Malformed`] says what is wrong with bytes and where; [`Error`] adds the file. Where LLVM 22 has a
//! message for the same case, `Display` gives that text; offsets are written in decimal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::bytes;
use crate::id::IdError;

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed job: what, and in which file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to open, read, write or replace a file.
    #[error("'{}': {}", path.display(), OsText(source))]
    Io {
        /// The file as the caller named it.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Copying from one file to another failed; the cause may be on either side.
    #[error("'{}': {} (while copying from '{}')", to.display(), OsText(source), from.display())]
    Copy {
        /// The file that was read.
        from: PathBuf,
        /// The file that was written.
        to: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file does not hold what its headers claim.
    #[error("'{}': {source}", path.display())]
    Malformed {
        /// The file as the caller named it.
        path: PathBuf,
        /// What is wrong, and where.
        source: Malformed,
    },
    /// Something that lies in a file is broken, and the file alone does not tell what.
    #[error("'{place}': {}", InsideText { file, error })]
    Inside {
        /// The file that the place names first.
        file: PathBuf,
        /// Where it lies, as it may stand on a terminal.
        place: String,
        /// What is wrong.
        error: Box<Error>,
    },
    /// The file type is none of those that bundles are made of.
    #[error("'{0}': invalid file type specified")]
    FileType(String),
    /// The input is an object file of a kind that cannot carry bundle sections.
    #[error("'{}': {format} object files cannot hold a bundle; supported are {supported}", path.display())]
    ObjectFormat {
        /// The file as the caller named it.
        path: PathBuf,
        /// The format that was found.
        format: &'static str,
        /// The formats that would do.
        supported: &'static str,
    },
    /// An entry ID that is none.
    #[error(transparent)]
    EntryId(#[from] IdError),
    /// The input is no archive. The text is the reference's, whatever the size.
    #[error("file too small to be an archive")]
    NoArchive,
    /// No entry of an archive can serve a request.
    #[error("no compatible code object found for the target '{target}' in heterogeneous archive library: {}", archive.display())]
    NoCodeObject {
        /// The requested entry ID.
        target: String,
        /// The archive as the caller named it.
        archive: PathBuf,
    },
    /// A member of an archive holds two entries that must not stand in one bundle.
    #[error("conflicting TargetIDs [{first}, {second}] found in {member} of {}", archive.display())]
    ConflictingEntries {
        /// One entry ID.
        first: String,
        /// The other.
        second: String,
        /// The name of the member.
        member: String,
        /// The archive as the caller named it.
        archive: PathBuf,
    },
    /// Requested entries that no bundle in the input can serve, sorted.
    #[error("Can't find bundles for{}", MissingList(.0))]
    MissingEntries(Vec<String>),
    /// There is no bundle where one is needed.
    #[error("'{}': neither a bundle nor an ELF file with bundles in it", path.display())]
    NoBundle {
        /// The file as the caller named it.
        path: PathBuf,
    },
    /// A bundle would become larger than the place that it has to stay in.
    #[error("'{}': the bundle at offset {offset} would need {needed} bytes, and there is room for {room}", path.display())]
    NoRoom {
        /// The file as the caller named it.
        path: PathBuf,
        /// Where the bundle is.
        offset: u64,
        /// Its new size in bytes.
        needed: u64,
        /// The bytes up to what follows it.
        room: u64,
    },
    /// Bundles that are to be written anew lie in bytes that another part of the file has too.
    #[error(
        "'{}': the section '{bundles}' shares the bytes at offset {offset} with {other}, so that its bundles cannot be written anew",
        path.display()
    )]
    SharedBytes {
        /// The file as the caller named it.
        path: PathBuf,
        /// The section with the bundles.
        bundles: String,
        /// The other section, or a table of the file.
        other: String,
        /// The first byte that they share.
        offset: u64,
    },
    /// A compressed bundle that is to be plain, and would no longer end where it does.
    #[error("'{}': without compression, the bundle at offset {offset} would not end before {behind}", path.display())]
    NoEnd {
        /// The file as the caller named it.
        path: PathBuf,
        /// Where the bundle is.
        offset: u64,
        /// What would no longer be apart from it.
        behind: &'static str,
    },
    /// A text bundle that is to lose code objects would lose what stands between them, too.
    #[error("'{}': the text bundle at offset {offset} holds more than its entries, so that none of them can be left out", path.display())]
    MoreThanEntries {
        /// The file as the caller named it.
        path: PathBuf,
        /// Where the bundle is.
        offset: u64,
    },
    /// A bundle that is to lose code objects has an entry ID that cannot be written.
    #[error("'{}': an entry ID of the bundle at offset {offset} is no UTF-8, so that the bundle can only be kept whole", path.display())]
    NoUtf8 {
        /// The file as the caller named it.
        path: PathBuf,
        /// Where the bundle is.
        offset: u64,
    },
    /// A selection would leave no code object for any device.
    #[error("'{}': no code object for any device would be left", path.display())]
    NothingLeft {
        /// The file as the caller named it.
        path: PathBuf,
    },
    /// The standard output, which takes one code object, would get more.
    #[error("'{}': several code objects match, and the standard output takes one", path.display())]
    SeveralMatch {
        /// The file that holds one too many, as the caller named it.
        path: PathBuf,
    },
    /// An input is a device of which nobody knows whether it ever ends.
    #[error("'{}': this is a device, which may have no end; a copy of what is wanted of it can be read", path.display())]
    Device {
        /// The device as the caller named it.
        path: PathBuf,
    },
    /// A selection takes no code object.
    #[error("no code object matches{}", NoMatchText { targets, present })]
    NoMatch {
        /// The patterns of the selection as typed.
        targets: Vec<String>,
        /// The entry IDs that are there, each once, in file order.
        present: Vec<String>,
    },
    /// A selection takes no code object, but for those of files that are left out.
    #[error("no code object matches{}", NoSoundMatchText { targets, present, left_out: *left_out })]
    NoSoundMatch {
        /// The patterns of the selection as typed.
        targets: Vec<String>,
        /// The entry IDs that the other files have, each once, in file order.
        present: Vec<String>,
        /// How many code objects it takes of the files that are left out, as far as these could be read.
        left_out: usize,
    },
    /// The bundle is too large for the compressed format version that was asked for.
    #[error("{what} exceeds version 2 limit")]
    CompressedLimit {
        /// Which size, as the reference names it.
        what: &'static str,
    },
    /// One file is named for two outputs, of which only one could survive.
    #[error("'{}': several outputs go to this file", path.display())]
    SameOutput {
        /// The file.
        path: PathBuf,
    },
    /// A file that a thin archive names cannot be opened or read.
    #[error("'{}': {}", path.display(), OsText(source))]
    Member {
        /// The path that the archive names.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Thin archives that name one another, so that there is no end of them.
    #[error("'{}': this thin archive contains itself", path.display())]
    ArchiveCycle {
        /// The archive that came a second time.
        path: PathBuf,
    },
    /// Thin archives that name more files than anybody has.
    #[error("'{}': it is one of more than {most} files that thin archives name", path.display())]
    TooManyFiles {
        /// The file that is one too many.
        path: PathBuf,
        /// How many there may be.
        most: u32,
    },
    /// A generated name that is the name of a file that is read.
    #[error("'{}': this file is an input, and would be overwritten under a generated name", path.display())]
    OverwritesInput {
        /// The generated name.
        path: PathBuf,
    },
    /// A member of a thin archive, or a file that was found in a directory, is a device, a pipe or a directory.
    #[error("'{}': not a regular file, as a member of a thin archive or a file in a directory must be", path.display())]
    NoFile {
        /// The path that the archive names, or that was found.
        path: PathBuf,
    },
    /// The library broke a promise to itself: a fault to be reported.
    #[error("internal error: {0}")]
    Internal(&'static str),
    /// A caller of the library passed arguments that do not fit together.
    #[error("{0}")]
    Usage(&'static str),
}

/// What was asked for, and what there is.
struct NoMatchText<'e> {
    targets: &'e [String],
    present: &'e [String],
}

impl fmt::Display for NoMatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_targets(f, self.targets)?;
        match self.present {
            [] => f.write_str("; the input holds none"),
            present => write_present(f, "; there are:", present),
        }
    }
}

/// The same where files are left out.
struct NoSoundMatchText<'e> {
    targets: &'e [String],
    present: &'e [String],
    left_out: usize,
}

impl fmt::Display for NoSoundMatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_targets(f, self.targets)?;
        f.write_str(if self.left_out == 0 { "" } else { " but in files that are left out" })?;
        match self.present {
            [] => f.write_str("; the files that are not left out hold none"),
            present => write_present(f, "; the files that are not left out hold:", present),
        }
    }
}

fn write_targets(f: &mut fmt::Formatter<'_>, targets: &[String]) -> fmt::Result {
    let quoted: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
    if quoted.is_empty() { Ok(()) } else { write!(f, " {}", quoted.join(" or ")) }
}

fn write_present(f: &mut fmt::Formatter<'_>, head: &str, present: &[String]) -> fmt::Result {
    const SHOWN: usize = 20;
    let shown: Vec<&str> = present.iter().take(SHOWN).map(String::as_str).collect();
    write!(f, "{head} {}", shown.join(", "))?;
    match present.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => write!(f, ", and {more} more"),
    }
}

/// What is wrong at a place, without the file that the place names already. A member of a thin archive is a file of its
/// own, in which the offsets count.
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
    /// An operating system error on `path`.
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// Broken bytes in `path`.
    pub fn malformed(path: impl Into<PathBuf>, source: Malformed) -> Self {
        Self::Malformed { path: path.into(), source }
    }
}

/// Attaches the file to an operating system error.
pub(crate) trait WithPath<T> {
    /// The same result, its error naming `path`.
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

/// Bytes that are not what a format requires. Offsets count from the start of the file, except where the
/// text says "inside the inflated bytes".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The data ends inside a field or a payload.
    #[error("{what} needs {needed} bytes at offset {offset}, but the data ends at offset {end}")]
    Truncated {
        /// The field or payload.
        what: String,
        /// Where it starts.
        offset: u64,
        /// Its length in bytes.
        needed: u64,
        /// Where the data ends.
        end: u64,
    },
    /// A count that the remaining bytes cannot hold.
    #[error(
        "entry count {count} at offset {offset} is too large: the data ends at offset {end}, which leaves room for {most}"
    )]
    Count {
        /// The recorded count.
        count: u64,
        /// Where it is recorded.
        offset: u64,
        /// Where the data ends.
        end: u64,
        /// The entries that fit before that.
        most: u64,
    },
    /// A code object that would lie inside the header of its bundle.
    #[error(
        "entry {index} claims {size} bytes at offset {start}, inside the bundle's header, which ends at offset {header_end}"
    )]
    Overlap {
        /// The entry's number, from 1.
        index: u64,
        /// The recorded start of its code object.
        start: u64,
        /// The recorded size in bytes.
        size: u64,
        /// The first offset behind the header.
        header_end: u64,
    },
    /// A field with a value that the format does not have.
    #[error("{what} {found} at offset {offset}, expected {expected}")]
    Value {
        /// The field.
        what: &'static str,
        /// The recorded value.
        found: u64,
        /// Where it is recorded.
        offset: u64,
        /// The values that the format has.
        expected: &'static str,
    },
    /// A size that disagrees with the data it describes.
    #[error("{what} at offset {offset}: {size} is recorded as {recorded} bytes, but is {actual}")]
    Size {
        /// What the container is.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// Which size.
        size: &'static str,
        /// The recorded size.
        recorded: u64,
        /// What the data gives; a text because it may be known only as a bound.
        actual: String,
    },
    /// A recorded hash that disagrees with the data.
    #[error("{what} at offset {offset}: the recorded hash is {recorded:#018x}, but the data gives {actual:#018x}")]
    Hash {
        /// What the container is.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// The recorded hash.
        recorded: u64,
        /// The hash of the inflated data.
        actual: u64,
    },
    /// A compressed stream that its decoder refuses.
    #[error("{what} at offset {offset}: the {method} stream is broken behind {inflated} inflated bytes: {reason}")]
    Stream {
        /// What the container is.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// zlib or zstd.
        method: &'static str,
        /// Bytes inflated before the failure.
        inflated: u64,
        /// The decoder's reason.
        reason: String,
    },
    /// A start line of a text bundle that no end line closes.
    #[error("the entry '{id}' that starts at offset {offset} has no end line")]
    Unclosed {
        /// The entry ID on the start line.
        id: String,
        /// Where the start line begins.
        offset: u64,
    },
    /// An archive that its reader refuses.
    #[error("archive broken at or behind offset {offset}: {reason}")]
    Archive {
        /// The end of what could be read.
        offset: u64,
        /// The reader's reason.
        reason: String,
    },
    /// A zip file that cannot be read, or a member of one.
    #[error("zip file broken at offset {offset}: {reason}")]
    Zip {
        /// Where the member's header, its data, or the file starts.
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
    /// Bytes behind the last container, where only more of them or zeros may follow.
    #[error("at offset {offset} there is neither {what} nor zeros up to the end")]
    Trailing {
        /// What may follow.
        what: &'static str,
        /// Where the other bytes begin.
        offset: u64,
    },
    /// Containers in containers, deeper than anyone has them.
    #[error("{what} lie in one another more than {most} deep at offset {offset}")]
    Nested {
        /// The containers.
        what: &'static str,
        /// How deep they may lie.
        most: u32,
        /// Where the first one lies that is too deep.
        offset: u64,
    },
    /// Containers in one another that cost more than a search may.
    #[error("what lies in one another at offset {offset} comes to more than {limit} {what}; the search ends here")]
    Search {
        /// What there is too much of.
        what: &'static str,
        /// Where it is too much.
        offset: u64,
        /// How much there may be.
        limit: u64,
    },
    /// A compressed container that claims to inflate to more than it may.
    #[error("{what} at offset {offset}: it claims {claimed} bytes when inflated, more than the limit of {limit}")]
    Claim {
        /// What the container is.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// The recorded size of its inflated bytes.
        claimed: u64,
        /// The limit.
        limit: u64,
    },
    /// Compressed containers in other containers that claim together to inflate to more than they may.
    #[error(
        "{what} at offset {offset}: it claims {claimed} bytes when inflated, but those that lie in others may have only {limit} together"
    )]
    NestedClaim {
        /// What the container is.
        what: &'static str,
        /// Where it starts.
        offset: u64,
        /// The recorded size of its inflated bytes.
        claimed: u64,
        /// The limit for all of them.
        limit: u64,
    },
    /// Bitcode that its reader refuses.
    #[error("the bitcode at offset {offset} cannot be read: {reason}")]
    Bitcode {
        /// Where the bitcode starts.
        offset: u64,
        /// The reader's reason.
        reason: &'static str,
    },
    /// An object file with a structure that contradicts itself or is beyond what can be done with it.
    #[error("{what} at offset {offset}")]
    Object {
        /// What is wrong.
        what: String,
        /// The header, table or content that it is about.
        offset: u64,
    },
    /// A fat object that would not fit its object format.
    #[error("the fat object would have {needed} {what}, more than the {most} that its object format allows")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there would be.
        needed: u64,
        /// How much there may be.
        most: u64,
    },
    /// A compressed container around something that is no bundle.
    #[error("{what} at offset {offset}: what it inflates to is no bundle")]
    NoBundleInside {
        /// What the container is.
        what: &'static str,
        /// Where it starts.
        offset: u64,
    },
    /// Any of the above, inside the inflated bytes of a compressed container.
    #[error("{what} at offset {offset}: inside the inflated bytes: {inner}")]
    Inflated {
        /// What the container is.
        what: &'static str,
        /// Where it starts in the file.
        offset: u64,
        /// What is wrong; its offsets count inflated bytes.
        inner: Box<Malformed>,
    },
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

/// Whether a terminal shows a character, and does not obey it: it is neither a control character nor one that turns the
/// direction of the text around it.
pub(crate) fn is_shown(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

/// A text as it may stand on a terminal: what that would obey and not show is escaped.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_shown(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

/// A name from a file, which may be any bytes, as it may stand on a terminal: escaped byte by byte if it is no text, or if a
/// terminal would obey any of it.
pub(crate) fn printable_name(name: &[u8]) -> String {
    let is_shown = |text: &String| text.chars().all(|c| is_shown(c) && c != char::REPLACEMENT_CHARACTER);
    bytes::text(name).filter(is_shown).unwrap_or_else(|| bytes::escaped(name))
}

/// The reference's enumeration: ` A`, ` A and B`, ` A, B, and C`.
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
