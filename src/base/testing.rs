//! Helpers shared by the tests of several modules.

/// The offsets where a test damages its sample: every byte, or only a few under miri, where each takes a thousand times
/// as long.
pub(crate) fn places(sample: &[u8]) -> impl Iterator<Item = usize> + use<> {
    let step = if cfg!(miri) { sample.len().div_ceil(8).max(1) } else { 1 };
    (0..sample.len()).step_by(step)
}

/// Runs a test again in a separate process, for tests of process-wide state. Returns whether this is that process.
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
