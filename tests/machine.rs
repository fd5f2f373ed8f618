//! Reports that the machine lacks something that a test needs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Writes a program with another process: one that is open for writing cannot be run, and the processes that other tests
/// start inherit what is open here.
pub fn write_program(path: &Path, content: &[u8]) {
    let mut install = Command::new("install");
    let mut child = install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}
