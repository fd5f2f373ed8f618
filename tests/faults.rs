//! A failure loses nothing: whatever system call of a run fails, and wherever it is killed, each output is the old file
//! or the complete new one. After an orderly failure nothing else is left either, the exit status is 1, and the message
//! names a file and the cause.
//!
//! The faults are injected with `strace`. Where it is not installed, or not allowed to trace, the tests say so and pass;
//! `OFFLOAD_REQUIRE_STRACE=1` makes that a failure. `OFFLOAD_FAULTS_TOOL` and `--ignored` put another tool of the same
//! command line through the same faults and print what became of its outputs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "in a test, what must not happen ends the test; its modules are shared"
)]

#[path = "faults/matrix.rs"]
mod matrix;
#[path = "faults/scenario.rs"]
mod scenario;

use std::path::Path;

use matrix::{Injection, Tally, has_strace};
use scenario::{OURS, say};

fn assert_unbroken(what: &str, tally: &Tally) {
    let Tally { runs, injected, harmless, orderly, examples, .. } = tally;
    let broken = examples.len();
    say(&format!("faults: {injected} {what}: {harmless} harmless, {orderly} failures, {broken} broken promises"));
    if std::env::var_os("OFFLOAD_FAULTS_TIME").is_some() {
        say(&format!("{:#?}", tally.time));
    }
    assert!(examples.is_empty(), "{}", examples.join("\n"));
    assert!(*injected > 100 && injected * 20 > runs * 19, "{injected} faults in {runs} runs");
}

#[test]
fn every_call_that_fails_is_an_orderly_failure_or_none() {
    if has_strace() {
        let tally = matrix::run(&scenario::all(), Path::new(OURS), Injection::Errors);
        assert_unbroken("errors injected", &tally);
    }
}

#[test]
fn a_kill_at_any_call_leaves_old_or_complete_files() {
    if has_strace() {
        let tally = matrix::run(&scenario::all(), Path::new(OURS), Injection::Kills);
        assert_unbroken("kills", &tally);
    }
}
