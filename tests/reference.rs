//! Compares LLVM's tool with ours on the same command lines: exit status, stdout, stderr and every output byte.
//!
//! Without LLVM 22, the tests print that and pass; `OFFLOAD_REQUIRE_LLVM=1` makes that a failure.
//! `LLVM_BIN` names another directory with tools to compare with. The intended differences are the rows of one table in
//! `reference/rules.rs`; `OFFLOAD_SHOW_RULE` prints all differences of the row that it names.
//!
//! A part of the command lines of each list also runs with LLVM 23's tool (`LLVM23_BIN`, `OFFLOAD_REQUIRE_LLVM23=1`).
//! The rules of `reference/llvm23.rs` list its differences from LLVM 22. Lists about features of LLVM 23 alone run only
//! with its tool.
mod amdgpu;
mod compressed;
mod fork_server;
pub mod formats;
pub mod harness;
pub mod llvm23;
mod names;
pub mod offload;
mod options;
mod packager_options;
pub mod packager_rules;
mod round_trip;
pub mod rules;
mod types;
mod unbundling;
pub mod view;

use harness::{Report, Tools};

/// Runs a group of cases if LLVM is available for comparison.
fn group(name: &'static str, compare: impl FnOnce(&mut Report, &Tools)) {
    Report::group(Tools::find(name), name, compare);
}

/// A group of the bundler's cases.
type Group = (&'static str, fn(&mut Report, &Tools));

const TARGET_NAMES: Group = ("target names", names::compare_names);

const OPTIONS: Group = ("options", |report, tools| {
    report.compare_all(tools, options::combinations());
    report.compare_all(tools, options::nearly_right());
    report.compare_all(tools, options::spellings());
    report.compare_all(tools, options::response_files());
    report.compare_all(tools, options::environment());
});

const TYPES: Group = ("types", |report, tools| {
    report.compare_all(tools, types::rounds());
    report.compare_all(tools, types::nested());
    report.compare_all(tools, types::lost_lines());
    report.compare_all(tools, types::streams());
});

const ALIGNMENTS: Group = ("alignments", |report, tools| report.compare_all(tools, types::alignments()));

const UNBUNDLING: Group = ("unbundling", |report, tools| {
    report.compare_all(tools, unbundling::requests());
    report.compare_all(tools, unbundling::compatibility());
    report.compare_all(tools, unbundling::places());
    report.compare_all(tools, unbundling::conflicts());
    report.compare_all(tools, unbundling::broken());
});

const COMPRESSED: Group = ("compressed", |report, tools| {
    compressed::compare_written(report, tools);
    report.compare_all(tools, compressed::read());
    report.compare_all(tools, compressed::in_frames());
    report.compare_all(tools, compressed::broken());
});

/// Runs a group with LLVM 22, if it is installed.
fn with_22((name, compare): Group) {
    group(name, compare);
}

#[test]
fn target_names() {
    with_22(TARGET_NAMES);
}

/// Without LLVM, this test unbundles only our own bundles.
#[test]
fn bundled_code_is_found_by_every_name() {
    let tools = Tools::find("round trip by name").unwrap_or_else(Tools::ours_alone);
    let mut report = Report::new("round trip by name");
    round_trip::compare(&mut report, &tools);
    report.finish();
}

#[test]
fn options() {
    with_22(OPTIONS);
}

#[test]
fn packager_options() {
    let name = "packager options";
    Report::group(Tools::find_packagers(name), name, |report, tools| {
        report.compare_all(tools, packager_options::information());
        report.compare_all(tools, packager_options::combinations());
        report.compare_all(tools, packager_options::spellings());
        report.compare_all(tools, packager_options::misspellings());
        report.compare_all(tools, packager_options::response_files());
        report.compare_all(tools, packager_options::own_options());
    });
}

#[test]
fn types() {
    with_22(TYPES);
}

#[test]
fn alignments() {
    with_22(ALIGNMENTS);
}

#[test]
fn unbundling() {
    with_22(UNBUNDLING);
}

#[test]
fn compressed() {
    with_22(COMPRESSED);
}

#[test]
fn the_same_with_llvm_23() {
    let round_trip: Group = ("round trip by name", round_trip::compare);
    let groups = [TARGET_NAMES, OPTIONS, TYPES, ALIGNMENTS, UNBUNDLING, COMPRESSED, round_trip];
    Report::group(Tools::find_23("LLVM 23"), "with LLVM 23", |report, tools| {
        report.was_compared_with_22();
        groups.into_iter().for_each(|(_, compare)| compare(report, tools));
    });
}

#[test]
fn triples_of_amd_are_those_of_llvm_23() {
    let name = "triples of AMD";
    Report::group(Tools::find_23(name), name, amdgpu::compare);
}
