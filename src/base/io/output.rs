//! Writes outputs that appear complete or not at all.
//!
//! Every output of a job is staged first: a regular file in the directory of its destination ([`Staged`]), anything else
//! in an unnamed temporary file (standard output, a device, a pipe, a file in a directory that takes no new files).
//! [`commit`] puts them in place once all are complete and whatever can be refused has been refused. A file that gets its
//! name is complete then. If putting one in place fails, those before it stay, and what is copied (to standard output, a
//! device, a pipe, or into a file that cannot be replaced) may be there in part.
//!
//! As with compilers and linkers, the outputs are not synced to disk: after a power failure a file may be empty or cut.
//!
//! LLVM rewrites some outputs in place and replaces others by a new file. [`OverwriteMode`] selects one of the two,
//! and thus the treatment of an existing link or file. Either way, the new file is readable only by users who could
//! read the old one.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Sink, Writer};
use crate::base::io::process;
use crate::base::io::staging::{self, Inherited, Staged, copy_all, directory_of};
use crate::base::io::sys::{self, Stat, open_existing, refuse_trap_link, take_over};

/// Ranges up to this length in bytes are gathered in memory rather than copied by a system call each.
const GATHERED_MAX: u64 = 64 << 10;

/// How often staging is retried because another program has replaced the file.
const STAGE_ATTEMPTS: u32 = 100;

/// The maximum number of symbolic links in the resolution of an output path, as on Linux.
const MAX_LINKS: usize = 40;

/// The treatment of an existing file at the path of an output. A directory is always an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverwriteMode {
    /// Like a program that opens the file and writes: links are followed, and an existing file must be writable. The
    /// new file gets its owner, permissions and extended attributes; if that is not possible, the old file is written
    /// in place.
    Rewrite,
    /// Like [`Rewrite`](Self::Rewrite), but the file gets these permissions, except for the umask and for permissions
    /// that the old file lacks.
    WithMode(u32),
    /// A new file replaces a link or a file, writable or not. A device, a pipe or a link to one is written to.
    Replace,
    /// A new file replaces anything. For names that the program generated: another user may have put a link there.
    Generated,
}

impl OverwriteMode {
    /// Returns the mode in which LLVM 22.1.8 writes an archive, offload binary or image of this length. LLVM opens the
    /// old file to write an empty one, and replaces it otherwise.
    pub(crate) fn for_len(len: u64) -> Self {
        if len == 0 { Self::Rewrite } else { Self::Replace }
    }
}

/// An output under construction.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) path: PathBuf,
    /// Bytes that are not in the staged file yet.
    pub(crate) buffer: Vec<u8>,
    pub(crate) place: OutputPlace,
}

/// The location of the bytes, and how they reach their destination.
#[derive(Debug)]
pub(crate) enum OutputPlace {
    /// Linked: the staged file gets the name of the destination.
    Name { staged: Staged, target: PathBuf, existing: ExistingFile },
    /// Copied into the existing destination.
    Into { staged: File, destination: File },
    /// Nowhere: a temporary file, which the job reads again, or which is dropped because the destination is the null
    /// device.
    Nowhere(File),
}

/// The existing file at the destination of a staged file, and its treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingFile {
    /// No file has the name.
    Absent,
    /// The file or link is replaced.
    Replaced,
    /// The file is replaced, or written in place if its name cannot be taken.
    Rewritten,
}

impl OutputPlace {
    /// Returns the staged or temporary file, which has the bytes until the commit.
    fn file(&mut self) -> io::Result<&mut File> {
        match self {
            Self::Name { staged, .. } => staged.file(),
            Self::Into { staged, .. } | Self::Nowhere(staged) => Ok(staged),
        }
    }

    /// Closes a staged file until its next use if the process can open few more files.
    fn rest(&mut self) -> io::Result<()> {
        match self {
            Self::Name { staged, target, .. } => staged.rest(target),
            Self::Into { .. } | Self::Nowhere(_) => Ok(()),
        }
    }
}

impl Output {
    /// Stages an output for `path`, as [`OverwriteMode::Rewrite`]; `-` is standard output.
    pub(crate) fn stage(path: &Path) -> Result<Self> {
        Self::stage_as(path, OverwriteMode::Rewrite)
    }

    /// Stages an output for `path`; `-` is standard output.
    pub(crate) fn stage_as(path: &Path, overwrite: OverwriteMode) -> Result<Self> {
        let mut place = stage(path, overwrite).with_path(path)?;
        place.rest().with_path(path)?;
        Ok(Self { path: path.to_owned(), buffer: Vec::new(), place })
    }

    /// An output for `path` with this content.
    pub(crate) fn with_content(path: &Path, overwrite: OverwriteMode, content: Slice<'_>) -> Result<Self> {
        let mut output = Self::stage_as(path, overwrite)?;
        output.copy(content)?;
        output.complete()?;
        Ok(output)
    }

    /// A writer to the staged file, after the bytes written so far. Its errors name the output.
    pub(crate) fn writer(&mut self) -> Result<Writer<'_, &mut File>> {
        self.flush()?;
        let out = self.place.file().with_path(&self.path)?;
        Ok(Writer { out, path: &self.path })
    }

    /// Flushes and releases the buffer after the last write, so that many complete outputs take little memory and few
    /// open files until they are put in place.
    pub(crate) fn complete(&mut self) -> Result<()> {
        self.flush()?;
        self.buffer = Vec::new();
        // A writer may have left the file open.
        self.place.rest().with_path(&self.path)
    }

    /// Writes the gathered bytes to the staged file.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.place.file().and_then(|file| file.write_all(&self.buffer)).with_path(&self.path)?;
        self.buffer.clear();
        self.place.rest().with_path(&self.path)
    }
}

impl Sink for Output {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(data);
        if crate::base::bytes::len_u64(&self.buffer) > GATHERED_MAX { self.flush() } else { Ok(()) }
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        if slice.len() <= GATHERED_MAX {
            self.write(slice.bytes())?;
            // These bytes were read through the mapping, which does not count them.
            slice.note_all_read();
            return Ok(());
        }
        self.flush()?;
        slice.copy_to_file(self.place.file().with_path(&self.path)?, &self.path)?;
        self.place.rest().with_path(&self.path)
    }
}

/// Puts all outputs in place: none, if one is incomplete or refused. If one cannot be put in place, the outputs before it
/// stay there, and those after it are old.
pub(crate) fn commit(mut outputs: Vec<Output>) -> Result<()> {
    for output in &mut outputs {
        output.flush()?;
        if let OutputPlace::Name { staged, .. } = &mut output.place {
            staged.settle().with_path(&output.path)?;
        }
    }
    refuse_conflicts(&outputs)?;
    // Outputs that are or may be copied come first: a copy may fill the disk, while renames hardly ever fail.
    outputs.sort_by_key(|output| match output.place {
        OutputPlace::Into { .. } | OutputPlace::Nowhere(_) => 0,
        OutputPlace::Name { existing: ExistingFile::Rewritten, .. } => 1,
        OutputPlace::Name { .. } => 2,
    });
    for Output { path, place, .. } in outputs {
        let placed = match place {
            OutputPlace::Name { staged, target, existing } => give_name(staged, &target, existing),
            // Standard output may be a file that already has bytes of other programs. A named file is written as a
            // whole.
            OutputPlace::Into { staged, destination } if path.as_os_str() == "-" => append(&staged, destination),
            OutputPlace::Into { staged, destination } => write_into(&staged, destination),
            OutputPlace::Nowhere(_) => Ok(()),
        };
        placed.with_path(&path)?;
    }
    Ok(())
}

/// Refuses several outputs for one file, because only the last of them would remain, and a directory that has taken the
/// name of an output. A single output needs no check, since the rename refuses it.
fn refuse_conflicts(outputs: &[Output]) -> Result<()> {
    if outputs.len() < 2 {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for output in outputs {
        if let Some(identity) = output.identity().with_path(&output.path)?
            && !seen.insert(identity)
        {
            return Err(Error::refused(ErrorKind::Conflict, &output.path, None, "several outputs go to this file"));
        }
    }
    Ok(())
}

/// Writes a small file: complete, or not at all.
///
/// # Errors
/// [`ErrorKind::Io`] if the file cannot be created or replaced.
pub fn write_file(path: &Path, data: &[u8]) -> Result<()> {
    let mut output = Output::stage(path)?;
    output.write(data)?;
    commit(vec![output])
}

/// Creates a directory and its missing parents, unless it exists.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be created; `Not a directory` if the name is that of a file.
pub fn create_directory(path: &Path) -> Result<()> {
    let created = match std::fs::create_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(sys::not_a_directory()),
        created => created,
    };
    created.with_path(path)
}

/// The identity of a destination: the directory and the name in it, or the file that is written into.
type OutputIdentity = ((u64, u64), Option<OsString>);

impl Output {
    /// Returns the identity of the destination, or `None` if several outputs may go there: standard output, devices and
    /// pipes take one after the other, and the null device loses nothing. Fails if the destination is a directory.
    fn identity(&self) -> io::Result<Option<OutputIdentity>> {
        match &self.place {
            OutputPlace::Name { target, .. } => {
                if existing(target)?.is_some_and(|existing| existing.is_dir()) {
                    return Err(sys::is_a_directory());
                }
                // The target may not exist yet, so its directory and its name identify it.
                let name = target.file_name().unwrap_or_default().to_owned();
                Ok(Some((Stat::at(directory_of(target))?.identity(), Some(name))))
            }
            OutputPlace::Into { destination, .. } => {
                let found = Stat::of(destination)?;
                let is_named_file = found.is_file() && self.path.as_os_str() != "-";
                Ok(if is_named_file { Some((found.identity(), None)) } else { None })
            }
            OutputPlace::Nowhere(_) => Ok(None),
        }
    }
}

/// Gives a staged file the name of its destination. If the name of an existing file cannot be taken, the file is
/// written in place, provided that it may be rewritten.
fn give_name(staged: Staged, target: &Path, existing_file: ExistingFile) -> io::Result<()> {
    // A temporary name in the directory of the destination, or `None` if the file already has its final name.
    let beside = match existing_file {
        ExistingFile::Absent => staged.give_name(target)?,
        ExistingFile::Replaced | ExistingFile::Rewritten => Some(staged.give_name_beside(target)?),
    };
    let Some(beside) = beside else { return Ok(()) };
    match beside.rename(target) {
        Ok(()) => Ok(()),
        // A file may be writable although no rename can replace it: in a sticky directory, or as a mount point.
        Err((beside, error)) if existing_file == ExistingFile::Rewritten => {
            let Some(seen) = existing(target)? else { return Err(error) };
            // `write_into` reads the old content.
            let reads_content = true;
            let opened = process::open(|| open_existing(target, &seen, reads_content))?;
            let Some(destination) = opened else { return Err(error) };
            write_into(&File::open(beside.path())?, destination)
        }
        Err((_, error)) => Err(if target.is_dir() { sys::is_a_directory() } else { error }),
    }
}

/// Writes into an existing destination. If the disk is full or fails, a regular file gets its old content back; a device
/// or a pipe has none.
fn write_into(staged: &File, destination: File) -> io::Result<()> {
    if !Stat::of(&destination)?.is_file() {
        return append(staged, destination);
    }
    let old = process::open(tempfile::tempfile)?;
    copy_all(&destination, &old)?;
    // Synced now, so that a disk error is reported while the old content can still be restored.
    let written = overwrite(&destination, staged).and_then(|()| destination.sync_data());
    written.inspect_err(|_| drop(overwrite(&destination, &old)))
}

/// Writes at the current position of the destination.
fn append(staged: &File, mut destination: File) -> io::Result<()> {
    copy_all(staged, &destination)?;
    destination.flush()
}

/// Overwrites the destination without truncating it first, so that a full disk still has room for its old content.
fn overwrite(mut destination: &File, content: &File) -> io::Result<()> {
    destination.seek(SeekFrom::Start(0))?;
    let len = copy_all(content, destination)?;
    destination.set_len(len)
}

/// Stages an output, again if another program replaces the file at its path in the meantime.
fn stage(path: &Path, overwrite: OverwriteMode) -> io::Result<OutputPlace> {
    for _ in 0..STAGE_ATTEMPTS {
        if let Some(place) = stage_once(path, overwrite)? {
            return Ok(place);
        }
    }
    Err(io::Error::other("another program keeps replacing the file"))
}

/// Stages an output once. Returns where its bytes are and how they will reach the destination. Returns `None` if
/// another program replaced or removed the destination between the check of its type and its opening: staging is then
/// retried.
fn stage_once(path: &Path, overwrite: OverwriteMode) -> io::Result<Option<OutputPlace>> {
    if path.as_os_str() == "-" {
        let destination = process::open(sys::standard_output)?;
        let staged = process::open(tempfile::tempfile)?;
        return Ok(Some(OutputPlace::Into { staged, destination }));
    }
    if sys::is_null(path) {
        return process::open(tempfile::tempfile).map(|file| Some(OutputPlace::Nowhere(file)));
    }
    // The path of an open file of this process (`/dev/stdout`) has no target: a rename would not affect that file.
    let Some(target) = destination_of(path, overwrite)? else { return stage_into(path) };
    let replaces_links = matches!(overwrite, OverwriteMode::Replace | OverwriteMode::Generated);
    match existing(&target)? {
        Some(old) if old.is_dir() => Err(sys::is_a_directory()),
        // A device or a pipe. Under a generated name, it is replaced as a link is.
        Some(old) if !old.is_file() && !old.is_symlink() && overwrite != OverwriteMode::Generated => {
            stage_into(&target)
        }
        // The path itself, so that a link is replaced and not its target.
        _ if replaces_links => stage_replacing(path.to_owned(), overwrite).map(Some),
        None if ends_with_separator(&target) => Err(sys::is_a_directory()),
        None => stage_new(target, overwrite).map(Some),
        Some(old) => stage_rewriting(target, &old, overwrite),
    }
}

/// Returns the path whose file decides how the output is staged, or `None` for an open file of this process, which is
/// written into.
fn destination_of(path: &Path, overwrite: OverwriteMode) -> io::Result<Option<PathBuf>> {
    // Somebody else may have put a link at a generated name, so such a link is replaced and never followed.
    if overwrite == OverwriteMode::Generated {
        return Ok(Some(path.to_owned()));
    }
    match resolve(path) {
        // A link that cannot be followed can still be replaced.
        Err(_) if overwrite == OverwriteMode::Replace => Ok(Some(path.to_owned())),
        resolved => resolved,
    }
}

/// Returns the metadata of the path itself, without following a link, or `None` if nothing has the name.
fn existing(path: &Path) -> io::Result<Option<Stat>> {
    match Stat::at_link(path) {
        Ok(old) => Ok(Some(old)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a path ends like that of a directory: no file can be created under such a name.
fn ends_with_separator(path: &Path) -> bool {
    match path.as_os_str().as_encoded_bytes() {
        [.., last] => std::path::is_separator(char::from(*last)),
        [] => false,
    }
}

/// Follows an output path that is a symbolic link, and the links after it. Returns the path at the end, where a file
/// may exist or not. Returns `None` for an open file of this process (`/dev/stdout`), which a rename would not affect.
fn resolve(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(None);
        }
        let Some(target) = sys::read_link(&path)? else { return Ok(Some(path)) };
        // Another user may have put the link into a shared directory, to make this program write elsewhere.
        refuse_trap_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(sys::too_many_links())
}

/// Stages an output that is copied into the existing file, device or pipe at `path`. Returns `None` if the path now
/// leads to another file.
fn stage_into(path: &Path) -> io::Result<Option<OutputPlace>> {
    // Only a regular file is opened for reading too, to keep its old content. With a pipe, this process would be a
    // reader, and would not notice that the other readers have gone.
    let is_file = Stat::at(path)?.is_file();
    let destination = match existing(path)? {
        // `resolve` has followed all other links. One that is left leads to an open file of this process, such as
        // `/dev/stdout`, and is followed by the usual way to open.
        Some(old) if !old.is_symlink() => process::open(|| open_existing(path, &old, is_file))?,
        _ => Some(process::open(|| OpenOptions::new().read(is_file).write(true).open(path))?),
    };
    let Some(destination) = destination else { return Ok(None) };
    Ok(Some(OutputPlace::Into { staged: process::open(tempfile::tempfile)?, destination }))
}

/// Stages a file for a free name.
fn stage_new(target: PathBuf, overwrite: OverwriteMode) -> io::Result<OutputPlace> {
    let staged = Staged::create(&target, overwrite.mode())?;
    Ok(OutputPlace::Name { staged, target, existing: ExistingFile::Absent })
}

/// Stages a file that replaces a writable one. Returns `None` if the path now leads to another file.
fn stage_rewriting(target: PathBuf, seen: &Stat, overwrite: OverwriteMode) -> io::Result<Option<OutputPlace>> {
    // Only the metadata of the old file is needed here, not its bytes.
    let reads_content = false;
    let Some(old) = process::open(|| open_existing(&target, seen, reads_content))? else { return Ok(None) };
    // Special permissions need a new file.
    if let OverwriteMode::WithMode(_) = overwrite {
        let mut staged = Staged::create(&target, overwrite.mode())?;
        take_over(staged.file()?, &old, Inherited::Access)?;
        return Ok(Some(OutputPlace::Name { staged, target, existing: ExistingFile::Rewritten }));
    }
    match stage_inheriting(&target, &old) {
        Ok(staged) => Ok(Some(OutputPlace::Name { staged, target, existing: ExistingFile::Rewritten })),
        // A new file cannot get the metadata of the old one, so the old one is written in place.
        Err(_) => stage_into(&target),
    }
}

/// Stages a file with owner, permissions and extended attributes of an old one.
fn stage_inheriting(target: &Path, old: &File) -> io::Result<Staged> {
    let mut staged = Staged::create(target, staging::MODE)?;
    take_over(staged.file()?, old, Inherited::Everything)?;
    Ok(staged)
}

/// Stages a file that replaces anything at its path.
fn stage_replacing(target: PathBuf, overwrite: OverwriteMode) -> io::Result<OutputPlace> {
    let mut staged = Staged::create(&target, staging::MODE)?;
    let existing = match inherit_from_replaced(staged.file()?, &target)? {
        None => ExistingFile::Absent,
        // The user has named this file. Under a generated name, it may be anybody's.
        Some(old) if old.is_file() && overwrite != OverwriteMode::Generated => ExistingFile::Rewritten,
        Some(_) => ExistingFile::Replaced,
    };
    Ok(OutputPlace::Name { staged, target, existing })
}

/// Lets only users read a staged file who may read the file that it replaces at `target`. Does nothing if no file has
/// that name, or if it is a link, a device or a pipe, whose permissions are not about content. Returns the status of what
/// is replaced.
fn inherit_from_replaced(staged: &File, target: &Path) -> io::Result<Option<Stat>> {
    let Some(old) = existing(target)? else { return Ok(None) };
    if old.is_dir() {
        return Err(sys::is_a_directory());
    }
    if old.is_file() {
        match process::open(|| open_as_permitted(target)) {
            Ok(opened) => take_over(staged, &opened, Inherited::Access)?,
            // The access control list of a file that cannot be opened is unknown, so others get no access.
            Err(_) => sys::make_private(staged, &old)?,
        }
    }
    Ok(Some(old))
}

/// Opens a file for reading or, if that is not permitted, for writing. Does not follow a link.
fn open_as_permitted(path: &Path) -> io::Result<File> {
    const READ: bool = false;
    const WRITE: bool = true;
    match sys::open_unless_link(path, READ) {
        Ok(file) => Ok(file),
        Err(_) => sys::open_unless_link(path, WRITE),
    }
}

impl OverwriteMode {
    /// The permissions of a new file, before the umask is applied.
    fn mode(self) -> u32 {
        match self {
            Self::WithMode(mode) => mode & 0o777,
            Self::Rewrite | Self::Replace | Self::Generated => staging::MODE,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    pub(in crate::base::io) fn write(path: &Path, data: &[u8]) -> Result<()> {
        let mut output = Output::stage(path)?;
        output.write(data)?;
        commit(vec![output])
    }

    #[test]
    fn nothing_appears_before_the_commit_and_nothing_is_left_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut output = Output::stage(&path).unwrap();
        output.write(b"abc").unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        write(&path, b"abc").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    pub(in crate::base::io) const OVERWRITE_MODES: [OverwriteMode; 4] =
        [OverwriteMode::Rewrite, OverwriteMode::WithMode(0o640), OverwriteMode::Replace, OverwriteMode::Generated];

    #[test]
    fn what_can_be_refused_is_refused_before_the_first_output_is_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), b"old").unwrap();
        let mut outputs: Vec<Output> = ["a", "b", "c"].iter().map(|name| Output::stage(&path(name)).unwrap()).collect();
        for output in &mut outputs {
            output.write(b"new").unwrap();
        }
        fs::create_dir(path("c")).unwrap();
        assert!(commit(outputs).is_err());
        assert_eq!(fs::read(path("a")).unwrap(), b"old");
        assert!(!path("b").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_directory_that_took_the_name_of_an_output_stays_where_it_is() {
        for overwrite in OVERWRITE_MODES {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join(name);
            let stage = |name: &str| {
                fs::write(path(name), b"old").unwrap();
                let mut output = Output::stage_as(&path(name), overwrite).unwrap();
                output.write(b"new").unwrap();
                output
            };
            let outputs = vec![stage("a"), stage("b")];
            fs::remove_file(path("a")).unwrap();
            fs::create_dir_all(path("a").join("inside")).unwrap();
            let error = commit(outputs).unwrap_err().to_string();
            assert_eq!(error, format!("'{}': Is a directory", path("a").display()), "{overwrite:?}");
            assert!(path("a").join("inside").is_dir(), "{overwrite:?}");
            assert_eq!(fs::read(path("b")).unwrap(), b"old");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "{overwrite:?}");
        }
    }

    #[test]
    fn a_destination_that_cannot_be_replaced_is_written_into() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"the old content").unwrap();
        let mut staged = tempfile::tempfile().unwrap();
        staged.write_all(b"new").unwrap();
        let destination = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        write_into(&staged, destination).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn other_names_of_a_replaced_file_keep_the_old_content() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("x"), dir.path().join("other"));
        fs::write(&path, b"old").unwrap();
        fs::hard_link(&path, &other).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"old".to_vec()));
    }
}
