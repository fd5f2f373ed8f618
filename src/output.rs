//! Outputs that appear complete or not at all.
//!
//! Every output of a job is staged first: a regular file in the directory of its destination ([`Staged`]), anything else
//! (standard output, a device, a pipe, a file in a directory that takes no new names) in an unnamed temporary file.
//! [`commit`] puts them all in place, and undoes what it did if one of them fails.
//!
//! What is in place is not forced to the disk, as it is not by compilers and linkers: after a loss of power a file may be
//! empty or cut.
//!
//! A symbolic link is followed and kept; an existing file passes its permissions and owner on to its
//! successor and must itself be writable, as if it were written in place.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, WithPath};
use crate::input::Slice;
use crate::piece::Sink;
use crate::process;
use crate::staging::{Placed, Staged, Temporary, directory_of, take_over};

/// Ranges up to this length are gathered in memory rather than copied by a system call each.
const SMALL: u64 = 64 << 10;

/// How many symbolic links one output path may go through, as Linux has it.
const MAX_LINKS: usize = 40;

/// An output under construction.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    buffer: Vec<u8>,
    place: Place,
}

/// Where the bytes are, and how they get to their destination.
#[derive(Debug)]
enum Place {
    /// By giving the staged file its name.
    Name { staged: Staged, target: PathBuf, replaces: bool },
    /// By writing them into what is already there.
    Into { staged: File, destination: File },
}

impl Place {
    fn file(&mut self) -> &mut File {
        match self {
            Self::Name { staged, .. } => &mut staged.file,
            Self::Into { staged, .. } => staged,
        }
    }

    /// What cannot be taken back (a device) goes first, since what is behind it hardly ever fails; and what replaces nothing
    /// goes before what replaces a file, since that has to be kept for a while unless it is the last one.
    fn rank(&self) -> u8 {
        match self {
            Self::Into { .. } => 0,
            Self::Name { replaces: false, .. } => 1,
            Self::Name { replaces: true, .. } => 2,
        }
    }
}

impl Output {
    /// Stages an output for `path`; `-` is standard output.
    pub(crate) fn stage(path: &Path) -> Result<Self> {
        let place = stage(path).with_path(path)?;
        Ok(Self { path: path.to_owned(), buffer: Vec::new(), place })
    }

    /// The path as the caller gave it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The staged file with all bytes written to it so far.
    pub(crate) fn file(&mut self) -> Result<&mut File> {
        self.flush()?;
        Ok(self.place.file())
    }

    /// Writes bytes over the first ones, once all others are written.
    pub(crate) fn write_at_start(&mut self, data: &[u8]) -> Result<()> {
        self.flush()?;
        self.place.file().write_all_at(data, 0).with_path(&self.path)
    }

    /// Leaves so many bytes out, which are zero and take no space where the file system can do that.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.flush()?;
        let len = i64::try_from(len).map_err(io::Error::other).with_path(&self.path)?;
        self.place.file().seek_relative(len).with_path(&self.path)
    }

    /// Ends the output, whose last bytes may have been skipped, at this length in bytes.
    pub(crate) fn end_at(&mut self, len: u64) -> Result<()> {
        self.flush()?;
        self.place.file().set_len(len).with_path(&self.path)
    }

    /// Says that nothing more is written, so that many outputs can wait for the last one without their buffers.
    pub(crate) fn complete(&mut self) -> Result<()> {
        self.flush()?;
        self.buffer = Vec::new();
        Ok(())
    }

    /// Makes a new file one that whoever may read it may run; one that replaces another has what that had.
    pub(crate) fn make_executable(&mut self) -> Result<()> {
        if let Place::Name { replaces: false, staged, .. } = &self.place {
            let mode = staged.file.metadata().with_path(&self.path)?.mode();
            let readers = (mode & 0o444) >> 2;
            staged.file.set_permissions(Permissions::from_mode(mode | readers)).with_path(&self.path)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.place.file().write_all(&self.buffer).with_path(&self.path)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Sink for Output {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(data);
        if crate::bytes::len_u64(&self.buffer) > SMALL { self.flush() } else { Ok(()) }
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        if slice.len() <= SMALL {
            return self.write(slice.bytes());
        }
        self.flush()?;
        slice.copy_to_file(self.place.file(), &self.path)
    }
}

/// Puts all outputs in place, or none.
pub(crate) fn commit(mut outputs: Vec<Output>) -> Result<()> {
    for output in &mut outputs {
        output.flush()?;
    }
    refuse_repeats(&outputs)?;
    outputs.sort_by_key(|output| output.place.rank());
    let mut left = outputs.len();
    let mut done = Vec::with_capacity(left);
    for Output { path, place, .. } in outputs {
        left = left.saturating_sub(1);
        // Behind the last one nothing can fail.
        let old = if left > 0 { Old::Kept } else { Old::Lost };
        let put = match place {
            Place::Name { staged, target, replaces: false } => put(staged, target),
            Place::Name { staged, target, replaces: true } => replace(staged, target, old),
            // Standard output may be in the middle of a file; a named file is replaced as a whole.
            Place::Into { staged, destination } if path.as_os_str() == "-" => append(&staged, destination),
            Place::Into { staged, destination } => pour(&staged, destination),
        };
        match put {
            Ok(put) => done.push(put),
            Err(error) => {
                done.into_iter().rev().for_each(Done::undo);
                return Err(Error::io(path, error));
            }
        }
    }
    Ok(())
}

/// Whether a file that is replaced may be needed again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Old {
    Kept,
    Lost,
}

/// Two outputs in one file would leave only one of them.
fn refuse_repeats(outputs: &[Output]) -> Result<()> {
    if outputs.len() < 2 {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for output in outputs {
        if let Some(identity) = output.identity().with_path(&output.path)?
            && !seen.insert(identity)
        {
            return Err(Error::SameOutput { path: output.path.clone() });
        }
    }
    Ok(())
}

/// Writes a small file: complete, or not at all.
///
/// # Errors
/// [`Error::Io`] when the file cannot be made or replaced.
pub fn write_file(path: &Path, data: &[u8]) -> Result<()> {
    let mut output = Output::stage(path)?;
    output.write(data)?;
    commit(vec![output])
}

/// Creates a directory, and those above it, unless it is there.
///
/// # Errors
/// [`Error::Io`] when it cannot be created; `Not a directory` if the name is that of a file.
pub fn create_directory(path: &Path) -> Result<()> {
    let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    std::fs::create_dir_all(path)
        .map_err(|error| if is_taken(&error) { rustix::io::Errno::NOTDIR.into() } else { error })
        .with_path(path)
}

/// What makes two destinations one file: the name in its directory, or what is written into.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Name(PathBuf),
    Inode(u64, u64),
}

impl Output {
    /// None for what takes several outputs one after another, such as standard output.
    fn identity(&self) -> io::Result<Option<Identity>> {
        match &self.place {
            Place::Name { target, .. } => {
                let name = target.file_name().unwrap_or_default();
                Ok(Some(Identity::Name(directory_of(target).canonicalize()?.join(name))))
            }
            Place::Into { destination, .. } => {
                let metadata = destination.metadata()?;
                let named = metadata.is_file() && self.path.as_os_str() != "-";
                Ok(named.then_some(Identity::Inode(metadata.dev(), metadata.ino())))
            }
        }
    }
}

/// An output in place, and what it takes to undo that.
enum Done {
    /// Put under a name that was free.
    Named { target: PathBuf },
    /// Exchanged with the file that was there, which is removed when this is dropped.
    Exchanged { target: PathBuf, old: Temporary },
    /// Written into a file that held `old`.
    Poured { destination: File, old: File },
    /// Not to be undone.
    Final,
}

impl Done {
    /// Restores what was there before. The job has already failed; a second failure has nothing to add.
    fn undo(self) {
        match self {
            Self::Exchanged { target, old } => drop(exchange(old.path(), &target)),
            Self::Named { target } => drop(std::fs::remove_file(target)),
            Self::Poured { destination, old } => drop(overwrite(&destination, &old)),
            Self::Final => {}
        }
    }
}

fn put(staged: Staged, target: PathBuf) -> io::Result<Done> {
    match staged.put(&target)? {
        Placed::InPlace => Ok(Done::Named { target }),
        Placed::Beside(beside) => {
            // What got the name meanwhile is not ours to restore.
            let was_free = !target.exists();
            beside.rename(&target).map_err(|(_, error)| error)?;
            Ok(if was_free { Done::Named { target } } else { Done::Final })
        }
    }
}

fn replace(staged: Staged, target: PathBuf, old: Old) -> io::Result<Done> {
    let beside = staged.put_beside(&target)?;
    if old == Old::Kept && exchange(beside.path(), &target).is_ok() {
        return Ok(Done::Exchanged { target, old: beside });
    }
    match beside.rename(&target) {
        Ok(()) => Ok(Done::Final),
        // A file may be writable where its name is not: in a sticky directory, or mounted by itself.
        Err((beside, _)) => {
            let destination = OpenOptions::new().read(true).write(true).open(&target)?;
            pour(&File::open(beside.path())?, destination)
        }
    }
}

/// Swaps two names in one step. Not every file system can; the caller then goes without.
#[cfg(target_os = "linux")]
fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Writes into what is already there. Of a regular file the old content is kept until all is done.
fn pour(staged: &File, destination: File) -> io::Result<Done> {
    if !destination.metadata()?.is_file() {
        return append(staged, destination);
    }
    let old = process::open(tempfile::tempfile)?;
    copy_all(&destination, &old)?;
    // It is now or never that the disk may fail.
    match overwrite(&destination, staged).and_then(|()| destination.sync_data()) {
        Ok(()) => Ok(Done::Poured { destination, old }),
        Err(error) => {
            Done::Poured { destination, old }.undo();
            Err(error)
        }
    }
}

fn append(staged: &File, mut destination: File) -> io::Result<Done> {
    copy_all(staged, &destination)?;
    destination.flush().map(|()| Done::Final)
}

/// What is there is not cut off before it is written over, so that a full disk has room for it to be restored.
fn overwrite(mut destination: &File, content: &File) -> io::Result<()> {
    destination.seek(SeekFrom::Start(0))?;
    let len = copy_all(content, destination)?;
    destination.set_len(len)
}

fn copy_all(mut from: &File, mut to: &File) -> io::Result<u64> {
    let len = from.seek(SeekFrom::End(0))?;
    from.seek(SeekFrom::Start(0))?;
    match io::copy(&mut from, &mut to)? {
        copied if copied == len => Ok(len),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

fn stage(path: &Path) -> io::Result<Place> {
    if path.as_os_str() == "-" {
        let stdout = process::open(|| std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned())?;
        return Ok(Place::Into { staged: process::open(tempfile::tempfile)?, destination: File::from(stdout) });
    }
    let target = match resolve(path)? {
        Target::Descriptor => return stage_into(path),
        Target::Path(target) => target,
    };
    match target.metadata() {
        Ok(old) if old.is_dir() => Err(io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error())),
        Ok(old) if old.is_file() => stage_beside(target, Some(&old)),
        Ok(_) => stage_into(&target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => stage_beside(target, None),
        Err(error) => Err(error),
    }
}

/// What an output path leads to.
enum Target {
    /// A place in the file system, behind all symbolic links; the last may point to nothing yet.
    Path(PathBuf),
    /// A file that this process has open (`/dev/stdout`), which a rename would not reach.
    Descriptor,
}

fn resolve(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(Target::Descriptor);
        }
        match path.read_link() {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // No link, or nothing. Of anything else it is not known, and what is no link would be replaced.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(Target::Path(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Target::Path(path)),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

fn stage_into(path: &Path) -> io::Result<Place> {
    // Only a regular file has an old content to be read; opening a pipe to read would keep it open.
    let is_file = path.metadata()?.is_file();
    let destination = process::open(|| OpenOptions::new().read(is_file).write(true).open(path))?;
    Ok(Place::Into { staged: process::open(tempfile::tempfile)?, destination })
}

fn stage_beside(target: PathBuf, old: Option<&Metadata>) -> io::Result<Place> {
    if old.is_some() {
        // Renaming would also replace a file that its owner has made read-only.
        process::open(|| OpenOptions::new().write(true).open(&target))?;
    }
    let staged = match Staged::create(&target) {
        Ok(staged) => staged,
        Err(_) if old.is_some() => return stage_into(&target),
        Err(error) => return Err(error),
    };
    if let Some(old) = old {
        take_over(&staged.file, old)?;
    }
    Ok(Place::Name { staged, target, replaces: old.is_some() })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, data: &[u8]) -> Result<()> {
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

    #[test]
    fn links_and_permissions_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, b"old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o751);
    }

    #[test]
    fn a_dangling_link_gets_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("target", &link).unwrap();
        write(&link, b"x").unwrap();
        assert_eq!(fs::read(dir.path().join("target")).unwrap(), b"x");
        assert!(link.is_symlink());
        std::os::unix::fs::symlink("round", dir.path().join("round")).unwrap();
        assert!(write(&dir.path().join("round"), b"x").is_err());
    }

    #[test]
    fn a_failed_commit_restores_every_output() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), b"old").unwrap();
        let mut outputs: Vec<Output> = ["a", "b", "c"].iter().map(|name| Output::stage(&path(name)).unwrap()).collect();
        outputs.iter_mut().for_each(|output| output.write(b"new").unwrap());
        fs::create_dir(path("c")).unwrap();
        assert!(commit(outputs).is_err());
        assert_eq!(fs::read(path("a")).unwrap(), b"old");
        assert!(!path("b").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn two_outputs_cannot_be_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::os::unix::fs::symlink("x", dir.path().join("link")).unwrap();
        for other in ["link", "./x", "../x"] {
            let directory = if other.starts_with("..") { dir.path().join("sub") } else { dir.path().to_owned() };
            fs::create_dir_all(&directory).unwrap();
            let outputs = vec![Output::stage(&path).unwrap(), Output::stage(&directory.join(other)).unwrap()];
            assert!(matches!(commit(outputs), Err(Error::SameOutput { .. })), "{other}");
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_destination_that_cannot_be_replaced_is_written_into_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"the old content").unwrap();
        let staged = |data: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(data).unwrap();
            file
        };
        let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let done = pour(&staged(b"new"), open()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        done.undo();
        assert_eq!(fs::read(&path).unwrap(), b"the old content");
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

    #[test]
    fn errors_name_the_output_and_the_cause() {
        let text = |path: &str| Output::stage(Path::new(path)).unwrap_err().to_string();
        assert_eq!(text("/nonexistent/out"), "'/nonexistent/out': No such file or directory");
        assert_eq!(text("/"), "'/': Is a directory");
        assert_eq!(text("/dev/null/x"), "'/dev/null/x': Not a directory");
    }

    #[test]
    fn devices_are_written_to() {
        write(Path::new("/dev/null"), b"abc").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        assert!(write(Path::new("/dev/full"), b"abc").is_err());
    }
}
