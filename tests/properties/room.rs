//! A directory for the files of one job.

use std::fs;
use std::path::{Path, PathBuf};

use offload_bundle::Error;
use tempfile::TempDir;

/// A directory that contains only the input file `in`.
pub(super) struct Room {
    dir: TempDir,
}

impl Room {
    pub(super) fn with(data: &[u8]) -> Self {
        let memory = Path::new("/dev/shm");
        let base = match std::env::var_os("TMPDIR") {
            Some(base) => PathBuf::from(base),
            None if memory.is_dir() => memory.to_owned(),
            None => std::env::temp_dir(),
        };
        let room = Self { dir: TempDir::new_in(base).unwrap() };
        room.write("in", data);
        room
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn write(&self, name: &str, data: &[u8]) {
        fs::write(self.path(name), data).unwrap();
    }

    pub(super) fn input(&self) -> PathBuf {
        self.path("in")
    }

    /// Checks that an error is about the input, perhaps a place in it, or about a file that it names and that is
    /// missing.
    pub(super) fn holds_fault(&self, error: &Error) {
        let is_known = |file: &Path| file == self.input() || error.kind() == offload_bundle::ErrorKind::Referred;
        assert!(error.file().is_none_or(is_known), "{:?}: {error}", error.file());
        let starts_with_file = |place: &str| place.starts_with(&*self.input().to_string_lossy());
        assert!(error.place().is_none_or(starts_with_file), "{:?}: {error}", error.place());
    }

    /// Reads and removes a file.
    pub(super) fn take(&self, name: &str) -> Option<Vec<u8>> {
        let data = fs::read(self.path(name)).ok()?;
        fs::remove_file(self.path(name)).unwrap();
        Some(data)
    }

    /// Checks that there are no other files.
    pub(super) fn holds_only(&self, names: &[&str]) {
        for entry in fs::read_dir(self.dir.path()).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(names.iter().any(|known| name == *known), "a file was left: {name:?}");
        }
    }
}
