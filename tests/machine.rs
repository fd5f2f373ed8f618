//! The tools of this machine that tests need, and reports that it lacks one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of LLVM 22's tools: `LLVM_BIN`, or that of Debian's packages.
pub fn llvm_directory() -> PathBuf {
    std::env::var_os("LLVM_BIN").map_or_else(|| PathBuf::from("/usr/lib/llvm-22/bin"), PathBuf::from)
}

/// The directory of LLVM 22's tools, with these. If one of them is missing, prints that the test is skipped.
pub fn llvm(test: &str, needed: &[&str]) -> Option<PathBuf> {
    let directory = llvm_directory();
    let Some(missing) = needed.iter().map(|tool| directory.join(tool)).find(|tool| !tool.exists()) else {
        return Some(directory);
    };
    skip(test, &format!("LLVM 22 is not installed ({} is not there)", missing.display()));
    None
}

/// Prints that a test was skipped. This is a failure if `OFFLOAD_REQUIRE_LLVM=1` requires all tests.
pub fn skip(test: &str, why: &str) {
    skip_unless("OFFLOAD_REQUIRE_LLVM", test, why);
}

/// Prints that a test was skipped. This is a failure if the variable is 1.
pub fn skip_unless(variable: &str, test: &str, why: &str) {
    let required = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(!required, "{test}: {why}, and {variable}=1 is set");
    loud(&format!("SKIPPED: {why}: {test}"));
}

/// Prints a line directly, bypassing the test runner, which captures the output of passing tests.
pub fn loud(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// A temporary directory in memory, where the system has one, for thousands of small files one after another.
#[allow(dead_code, reason = "`portable` writes no such files")]
pub fn memory_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Writes a program with another process: one that is open for writing cannot be run, and the processes that other tests
/// start inherit what is open here.
pub fn write_program(path: &Path, content: &[u8]) {
    let mut install = Command::new("install");
    let mut child = install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}
