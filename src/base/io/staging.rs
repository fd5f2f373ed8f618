//! Stages output files until they get their names.
//!
//! If the file system supports it, a staged file has no name, so a killed process leaves nothing. Otherwise it is a
//! hidden file next to its destination, and a kill leaves it there. After `hand_over`, a SIGBUS about a mapped file
//! removes it. An unnamed file replaces another by two system calls: it gets a free name, and is renamed after that. A
//! kill between the two leaves a hidden file too.
//!
//! A job may have more outputs than the process may have open files. If few more can be opened, a staged file
//! [rests](Staged::rest) under a hidden name, and is opened again for more bytes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::io::process;
use crate::base::io::sys::{self, Stat, link, unnamed};

/// The permissions of a new file, before the umask is applied.
pub(crate) const MODE: u32 = 0o666;

/// A file that is not in place yet. It is open, has a temporary name, or both.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The open file; `None` while it rests.
    file: Option<File>,
    /// The temporary name; `None` while the file has no name.
    name: Option<Temporary>,
    /// The offset for the next bytes of a file that rests.
    position: u64,
    /// The identity of a file that rests. Others may write to its directory, and give its name to another file.
    identity: (u64, u64),
}

impl Staged {
    /// Creates an empty file that will become `target`, with the permissions `mode` less the umask.
    pub(crate) fn create(target: &Path, mode: u32) -> io::Result<Self> {
        if let Ok(file) = process::open(|| unnamed(directory_of(target), mode)) {
            return Ok(Self::of(file, None));
        }
        // Not every file system has unnamed files.
        let (file, name) = named(target, mode)?;
        Ok(Self::of(file, Some(name)))
    }

    fn of(file: File, name: Option<Temporary>) -> Self {
        Self { file: Some(file), name, position: 0, identity: (0, 0) }
    }

    /// Returns the file. Opens it again if it rests.
    pub(crate) fn file(&mut self) -> io::Result<&mut File> {
        if let (None, Some(name)) = (&self.file, &self.name) {
            let mut file = process::open(|| sys::open_to_update(name.path()))?;
            if Stat::of(&file)?.identity() != self.identity {
                return Err(io::Error::other("another file has the temporary name of the output"));
            }
            file.seek(SeekFrom::Start(self.position))?;
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Closes the file, which will become `target`, if the process can open few more files. It gets a temporary name
    /// unless it has one. It stays open if it cannot get one, or if its permissions may prevent that it is opened
    /// again.
    pub(crate) fn rest(&mut self, target: &Path) -> io::Result<()> {
        const READ_AND_WRITE: u32 = 0o600;
        let Some(file) = &mut self.file else { return Ok(()) };
        if !process::is_short_of_files(file) {
            return Ok(());
        }
        let stat = Stat::of(file)?;
        if stat.mode() & READ_AND_WRITE != READ_AND_WRITE {
            return Ok(());
        }
        if self.name.is_none() {
            let Ok(((), name)) = under_new_name(target, |name| link(file, name)) else { return Ok(()) };
            self.name = Some(name);
        }
        (self.position, self.identity) = (file.stream_position()?, stat.identity());
        self.close()
    }

    /// Closes a file that has a name, so that an error of writing it is known before any output is put in place. Only a
    /// local disk has unnamed files, which report no error when they are closed.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if self.name.is_some() { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), sys::close)
    }

    /// Closes the file and gives it the name `target`. If that name is taken, or an unnamed file cannot get a name, the
    /// file gets a temporary name instead, which is returned for the caller to rename.
    pub(crate) fn give_name(mut self, target: &Path) -> io::Result<Option<Temporary>> {
        if self.name.is_none() && link(self.file()?, target).is_ok() {
            // If closing fails, the file is incomplete and its name is removed.
            let name = Temporary::new(target.to_owned());
            self.close()?;
            name.keep();
            return Ok(None);
        }
        self.give_name_beside(target).map(Some)
    }

    /// Gives the file a temporary name in the directory of `target`, and closes it.
    pub(crate) fn give_name_beside(mut self, target: &Path) -> io::Result<Temporary> {
        let name = match self.name.take() {
            Some(name) => name,
            None => self.name_beside(target)?,
        };
        self.close()?;
        Ok(name)
    }

    /// Gives a file without a name a temporary one in the directory of `target`.
    fn name_beside(&mut self, target: &Path) -> io::Result<Temporary> {
        let file = self.file()?;
        if let Ok(((), name)) = under_new_name(target, |name| link(file, name)) {
            return Ok(name);
        }
        // The file system cannot name an unnamed file, so the bytes go to a new file with a name.
        let (copy, name) = copy_named(file, target)?;
        self.file = Some(copy);
        Ok(name)
    }
}

/// A file name that is removed on drop.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Takes the name of a file that exists. A SIGBUS removes the file too (see the module).
    fn new(name: PathBuf) -> Self {
        sys::note_temporary(&name);
        Self(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Renames the file to `target`, which may exist unless it is a directory. On an error, returns the temporary name
    /// too.
    pub(crate) fn rename(self, target: &Path) -> Result<(), (Self, io::Error)> {
        match sys::replace(&self.0, target) {
            Ok(()) => {
                self.keep();
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }

    /// Keeps the file under this name, which is no longer temporary.
    fn keep(mut self) {
        sys::forget_temporary(&self.0);
        self.0.clear();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // `keep` empties the path.
        if !self.0.as_os_str().is_empty() {
            // The job has failed, or the new file is in place; either way, an error here cannot be handled.
            drop(sys::remove(&self.0));
            sys::forget_temporary(&self.0);
        }
    }
}

/// Returns the directory of a file, which is `.` for a name alone.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The metadata that a new file gets from the file it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inherited {
    /// The attributes that a file keeps when it is written in place: owner, permissions, extended attributes.
    Everything,
    /// Restrictions on readers: the new file gets no permission that the old file lacks, and its access control list.
    /// The owner is not inherited, because anyone may have put the old file there.
    Access,
}

/// Creates an empty file with a temporary name in the directory of `target`.
fn named(target: &Path, mode: u32) -> io::Result<(File, Temporary)> {
    under_new_name(target, |name| process::open(|| sys::create_new(name, mode)))
}

/// Copies an unnamed file to a new file with a temporary name, for file systems that cannot name the unnamed one.
fn copy_named(file: &File, target: &Path) -> io::Result<(File, Temporary)> {
    let (copy, name) = named(target, MODE)?;
    sys::take_over(&copy, file, Inherited::Everything)?;
    copy_all(file, &copy)?;
    Ok((copy, name))
}

/// Copies all of `from` to the current position of `to`. Returns the length of `from` in bytes.
pub(crate) fn copy_all(mut from: &File, mut to: &File) -> io::Result<u64> {
    let len = from.seek(SeekFrom::End(0))?;
    from.seek(SeekFrom::Start(0))?;
    match io::copy(&mut from, &mut to)? {
        copied if copied == len => Ok(len),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// Creates a file under an unused name in the directory of `target`: `make` creates it, or fails if the name is taken.
/// Returns the result of `make`, and the name. The package `tempfile` is not used, because it makes the path absolute,
/// which may be too long or unknown.
fn under_new_name<T>(target: &Path, mut make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(T, Temporary)> {
    const ATTEMPTS: u32 = 1000;
    let mut attempts = 1;
    loop {
        let name = directory_of(target).join(new_name(target.file_name().unwrap_or(OsStr::new("output"))));
        match make(&name) {
            Ok(made) => return Ok((made, Temporary::new(name))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns a number that no other file is likely to have in its name, made of the time and a count of calls.
pub(crate) fn new_number() -> u64 {
    /// 2^64 divided by the golden ratio: as a factor, it spreads the changes of the low bits over the high ones.
    const SPREADING_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The count changes the high half of the number, which the time changes only every few seconds.
    (u64::try_from(time).unwrap_or_default() ^ count.rotate_left(32)).wrapping_mul(SPREADING_FACTOR)
}

/// Returns a hidden name, made from `name` and a number, that is very unlikely to be in use.
fn new_name(name: &OsStr) -> OsString {
    let mut hidden = OsString::from(".");
    // Most file systems limit a name to 255 bytes.
    hidden.push(if name.len() > 200 { OsStr::new("output") } else { name });
    // The high bits of the number are spread best.
    hidden.push(format!("{:08x}.tmp", new_number() >> 32));
    hidden
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn staged(target: &Path, data: &[u8]) -> Staged {
        let mut staged = Staged::create(target, MODE).unwrap();
        staged.file().unwrap().write_all(data).unwrap();
        staged
    }

    fn count(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn an_unnamed_file_gets_its_name_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let first = staged(&target, b"first");
        let second = staged(&target, b"second");
        assert!(first.name.is_some() || count(dir.path()) == 0);
        for staged in [first, second] {
            if let Some(name) = staged.give_name(&target).unwrap() {
                name.rename(&target).unwrap();
            }
        }
        assert_eq!(fs::read(&target).unwrap(), b"second");
        assert_eq!(count(dir.path()), 1);
    }

    #[test]
    fn a_name_beside_goes_unless_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x".repeat(250));
        let beside = staged(&target, b"abc").give_name_beside(&target).unwrap();
        assert_eq!(fs::read(beside.path()).unwrap(), b"abc");
        let (beside, _) = beside.rename(&dir.path().join("no/such")).unwrap_err();
        assert!(beside.path().exists());
        drop(beside);
        assert_eq!(count(dir.path()), 0);
    }

    #[test]
    fn without_unnamed_files_all_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let (file, name) = named(&target, MODE).unwrap();
        drop(Staged::of(file, Some(name)));
        assert_eq!(count(dir.path()), 0);
        // The copy of a file that cannot get a name.
        let mut unnamed = staged(&target, b"abc");
        let unnamed = unnamed.file().unwrap();
        sys::make_private(unnamed, &Stat::of(unnamed).unwrap()).unwrap();
        let mode = Stat::of(unnamed).unwrap().mode();
        let (copy, name) = copy_named(unnamed, &target).unwrap();
        assert_eq!(Stat::of(&copy).unwrap().mode(), mode);
        name.rename(&target).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"abc");
    }
}
