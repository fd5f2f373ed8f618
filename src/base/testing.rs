//! Helpers shared by the tests of several modules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The work that was done for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkDone {
    /// The number of walks through the file.
    pub(crate) walks: usize,
    /// The number of bytes that members of the file were inflated to.
    pub(crate) inflated: u64,
}

/// The work done since the start of the tests, by file.
static WORK_DONE: Mutex<BTreeMap<PathBuf, WorkDone>> = Mutex::new(BTreeMap::new());

pub(crate) fn note_walk(path: &Path) {
    change_work_done(path, |done| done.walks += 1);
}

pub(crate) fn note_inflated(path: &Path, bytes: u64) {
    change_work_done(path, |done| done.inflated += bytes);
}

/// Returns the work done for a file since the last call, whichever thread has done it.
#[cfg(all(feature = "zlib", feature = "zstd"))]
pub(crate) fn take_work_done(path: &Path) -> WorkDone {
    let mut taken = WorkDone::default();
    change_work_done(path, |done| taken = std::mem::take(done));
    taken
}

fn change_work_done(path: &Path, change: impl FnOnce(&mut WorkDone)) {
    let mut work_done = WORK_DONE.lock().unwrap_or_else(PoisonError::into_inner);
    change(work_done.entry(path.to_owned()).or_default());
}

/// The offsets where a test damages its sample: every byte, or only a few under miri, where each takes a thousand times
/// as long.
pub(crate) fn places(sample: &[u8]) -> impl Iterator<Item = usize> + use<> {
    let step = if cfg!(miri) { sample.len().div_ceil(8).max(1) } else { 1 };
    (0..sample.len()).step_by(step)
}

/// Runs a test again in a separate process, for tests of process-wide state. Returns whether this is that process.
#[cfg(unix)]
pub(crate) fn is_alone(test: &str) -> bool {
    const VARIABLE: &str = "OFFLOAD_TEST_ALONE";
    if std::env::var(VARIABLE).is_ok_and(|alone| alone == test) {
        return true;
    }
    let emulator = std::env::var("OFFLOAD_EMULATOR").unwrap_or_default();
    let executable = std::env::current_exe().unwrap();
    let mut words = emulator.split_whitespace().map(std::ffi::OsStr::new).chain([executable.as_os_str()]);
    let mut again = std::process::Command::new(words.next().unwrap());
    let run = again.args(words).args(["--exact", test]).env(VARIABLE, test).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && stdout.contains("1 passed"), "{:?}: {stdout}{stderr}", run.status);
    false
}

/// Maps a file that only the test itself may change.
#[allow(unsafe_code, reason = "tests are also about files that change")]
pub(crate) fn map(path: &std::path::Path) -> crate::base::error::Result<crate::base::io::Input> {
    // SAFETY: no test has a `str`, or any other value with invalid bit patterns, over a mapping while it changes the
    // file.
    unsafe { crate::base::io::Input::map(path, crate::base::io::Accept::Any, None) }
}

/// Prints a line that the test runner does not capture, as it does with the output of passing tests.
pub(crate) fn say(line: &str) {
    drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()));
}
