//! What the machine has and allows, and what is said where a test needs more.

use std::io::Write as _;
use std::process::Command;

/// Says that a test did nothing; a failure where `OFFLOAD_REQUIRE_LLVM=1` asks for all of them.
pub fn skip(test: &str, why: &str) {
    assert!(
        std::env::var_os("OFFLOAD_REQUIRE_LLVM").is_none_or(|value| value != "1"),
        "{test}: {why}, and OFFLOAD_REQUIRE_LLVM=1 is set"
    );
    loud(&format!("SKIPPED: {why}: {test}"));
}

/// Prints a line past the test runner, which keeps what passing tests print to itself.
pub fn loud(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// Whether a namespace of our own can be had, in which something can be mounted.
pub fn has_namespaces() -> bool {
    let mut mount = Command::new("unshare");
    mount.args(["-Urm", "sh", "-c", "mount -t tmpfs -o size=64k none /tmp"]);
    let works = mount.output().is_ok_and(|run| run.status.success());
    if !works {
        loud("SKIPPED: no file systems can be mounted here; full disks and read-only directories are not tried");
    }
    works
}
