//! The packager, compared with LLVM 22's: packing and unpacking, clang, its linker wrapper and llvm-objdump as readers,
//! and broken files.
//!
//! Without LLVM 22, the comparisons print that and pass; `OFFLOAD_REQUIRE_LLVM=1` makes that a failure. The intended
//! differences are the rows of `reference/packager_rules.rs`; `OFFLOAD_SHOW_RULE` prints all differences of the row
//! that it names.
mod clients;
mod hostile;
mod inputs;
mod pack;
mod unpack;
mod versions;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::reference::harness::{Case, Report, Tools};
use crate::reference::packager_rules::NAME;

/// A command line of the packager.
fn packager<S: AsRef<str>>(args: &[S]) -> Case {
    Case::new(args).called(NAME)
}

/// Runs a group of cases if LLVM is available for comparison.
fn group(name: &'static str, compare: impl FnOnce(&mut Report, &Tools)) {
    Report::group(Tools::find_packagers(name), name, compare);
}

/// The directory of LLVM 22's programs.
fn llvm(tools: &Tools) -> &Path {
    tools.theirs.parent().unwrap()
}

/// Runs one of LLVM's programs, which must succeed, and returns its output.
fn call(tools: &Tools, dir: &Path, program: &str, args: &[&str]) -> String {
    let program: PathBuf = llvm(tools).join(program);
    let run = Command::new(&program).args(args).current_dir(dir).output().unwrap();
    assert!(run.status.success(), "{} {args:?}: {}", program.display(), String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn packing() {
    group("packing", pack::compare);
}

#[test]
fn unpacking() {
    group("unpacking", |report, tools| report.compare_all(tools, unpack::generated()));
}

#[test]
fn unpacking_by_hand() {
    group("unpacking by hand", |report, tools| report.compare_all(tools, unpack::by_hand()));
}

#[test]
fn unpacking_broken_files() {
    group("unpacking broken files", |report, tools| report.compare_all(tools, unpack::broken()));
}

#[test]
fn unpacking_into_archives() {
    group("unpacking into archives", unpack::compare_archives);
}

#[test]
fn inputs() {
    group("inputs of the packager", inputs::compare);
}

#[test]
fn versions() {
    group("versions of the offload binary", versions::compare);
}

#[test]
fn clients() {
    group("clients of the packager", clients::compare);
}
