//! Reports that the machine lacks something that a test needs.

use std::io::Write as _;

/// Prints that a test was skipped. This is a failure if `OFFLOAD_REQUIRE_LLVM=1` requires all tests.
pub fn skip(test: &str, why: &str) {
    assert!(
        std::env::var_os("OFFLOAD_REQUIRE_LLVM").is_none_or(|value| value != "1"),
        "{test}: {why}, and OFFLOAD_REQUIRE_LLVM=1 is set"
    );
    loud(&format!("SKIPPED: {why}: {test}"));
}

/// Prints a line directly, bypassing the test runner, which captures the output of passing tests.
pub fn loud(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
