//! What is said where a test needs more than the machine has.

use std::io::Write as _;

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
