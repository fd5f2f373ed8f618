//! Fault injection: whichever system call of a run fails, and wherever the run is killed, each output is either the old
//! file or the complete new one, and the old one unless all are complete. After a normal failure, no other files are
//! left, the exit status is 1, and the message names a file and the cause.
//!
//! The faults are injected with `strace`. If it is not installed, or not allowed to trace, the tests print that and
//! pass; `OFFLOAD_REQUIRE_STRACE=1` makes that a failure. `OFFLOAD_FAULTS_TOOL` with `--ignored` injects the same
//! faults into another tool with the same command line, and prints the state of its outputs.
mod changes;
mod limits;
mod matrix;
mod scenario;

use std::path::{Path, PathBuf};

use matrix::{Broken, Injection, Tally, has_strace};
use scenario::{OURS, Scenario};

use crate::machine::loud;

fn assert_unbroken(what: &str, tally: &Tally) {
    let Tally { listed, runs, injected, harmless, orderly, names_left, examples, .. } = tally;
    let broken = examples.len();
    loud(&format!(
        "faults: {injected} of {listed} {what}: {harmless} harmless, {orderly} ended the run ({names_left} of all left a hidden name), \
         {broken} broken promises"
    ));
    if std::env::var_os("OFFLOAD_FAULTS_TIME").is_some() {
        loud(&format!("{:#?}", tally.time));
    }
    assert!(examples.is_empty(), "{}", examples.join("\n"));
    // A part of the calls, of few command lines, is about 100.
    assert!(*injected > 50 && injected * 20 > runs * 19, "{injected} faults in {runs} runs");
}

#[test]
fn failing_system_calls_are_orderly_failures_or_harmless() {
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

#[test]
fn without_unnamed_files_failures_are_as_orderly() {
    if has_strace() {
        let scenarios = scenario::named(&[
            "bundle over an old file",
            "unbundle to three files",
            "unpackage to generated names",
            "extract all over old files",
            "recompress a library",
        ]);
        let tally = matrix::run(&scenarios, Path::new(OURS), Injection::ErrorsWithNamedFiles);
        assert_unbroken("errors injected where all files have names", &tally);
    }
}

#[test]
fn failing_system_calls_of_any_thread_are_orderly_failures_or_harmless() {
    if has_strace() {
        let tally = matrix::run(&scenario::with_threads(), Path::new(OURS), Injection::ErrorsInThreads);
        assert_unbroken("errors injected into runs with 8 threads", &tally);
    }
}

/// Runs the same command lines with another tool, and prints the results for manual comparison.
#[test]
#[ignore = "for comparison with another tool, named in OFFLOAD_FAULTS_TOOL (a directory)"]
fn another_tool_on_the_same_faults() {
    let Some(directory) = std::env::var_os("OFFLOAD_FAULTS_TOOL").map(PathBuf::from) else { return };
    let is_other = |scenario: &Scenario| scenario.arguments[0] == "package";
    let scenarios = scenario::named(&[
        "bundle to a new file",
        "bundle over an old file",
        "compress",
        "unbundle to three files",
        "unbundle, compressed",
        "unbundle an archive",
        "list",
        "package",
        "unpackage to files",
        "unpackage to an archive",
    ]);
    loud("| run | | faults | success told, output not complete | output lost or cut | leftovers | crash |");
    for mut scenario in scenarios {
        let tool = directory.join(if is_other(&scenario) { "llvm-offload-binary" } else { "clang-offload-bundler" });
        if is_other(&scenario) {
            scenario.arguments.remove(0);
        }
        for (what, injection) in [("errors", Injection::Errors), ("kills", Injection::Kills)] {
            let tally = matrix::run(std::slice::from_ref(&scenario), &tool, injection);
            let counts = [
                tally.injected,
                tally.count(&[Broken::FalseSuccess]),
                tally.count(&[Broken::LostOld, Broken::Partial]),
                tally.count(&[Broken::Leftover]),
                tally.count(&[Broken::Crash]),
            ];
            loud(&format!("| {} | {what} | {} |", scenario.name, counts.map(|count| count.to_string()).join(" | ")));
        }
    }
}
