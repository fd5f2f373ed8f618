//! `verify`: whether the device code in files is what it claims to be.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use offload_bundle::error::printable;
use offload_bundle::job::{Fault, Verified, Verify};
use offload_bundle::{Error, Result};
use serde::Serialize;

use super::console::Console;
use super::files::{self, Origin, WorkFile};
use super::subcommand::{Subcommand, write_json};
use super::to_stdout;
use super::units::count;

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "verify", command, run };

/// The version of the JSON document's form. A field that is added does not change it.
const VERSION: u32 = 1;

const EXAMPLES: &str = "\
Examples:
  Is a library fit to be shipped?
    clang-offload-bundler verify libkernels.so
  All that an installation holds, for a program:
    clang-offload-bundler verify -r --json /opt/rocm/lib

The rules:
  readable   headers, ranges, sizes and hashes are what they claim to be
  trailing   nothing but padding stands between bundles and behind them
  entry-id   every bundle entry ID is one
  feature    a processor has the features that its target ID sets
  duplicate  no two entries of a bundle have the same ID
  conflict   a feature is set in all entries of a processor, or in none
  overlap    code objects do not overlap
  target     an ELF file for an AMD GPU is for the target that its entry ID names

Exit status:
  0  nothing is wrong
  1  something is wrong, or could not be read
  2  the command line is wrong";

fn command() -> Command {
    Command::new("verify")
        .about("Check the GPU code objects that files hold")
        .long_about(
            "Check the GPU code objects that files hold.\n\n\
             Device code is found by content, as by `inspect`. Everything is read, and what is compressed is inflated.",
        )
        .after_help(EXAMPLES)
        .args([
            files::argument("Files to check, and directories, whose files are checked"),
            files::recursive(),
            files::max_size(),
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("One JSON document, described by docs/verify.schema.json"),
        ])
}

/// A file and what came of it.
type Checked = (WorkFile, Verified);

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let (mut checked, mut failures): (Vec<Checked>, Vec<Error>) = (Vec::new(), Vec::new());
    let verify = Verify { limits: files::limits(matches) };
    for file in files::of(matches) {
        match file.and_then(|file| Ok((verify.check(&file.open(verify.limits)?)?, file))) {
            Ok((verified, file)) => checked.push((file, verified)),
            Err(error) => failures.push(error),
        }
    }
    to_stdout(|out| {
        if matches.get_flag("json") { write_report(&checked, &failures, out) } else { write_text(&checked, out) }
    })?;
    failures.iter().for_each(|error| console.error(&error.to_string()));
    let clean = failures.is_empty() && checked.iter().all(|(_, verified)| verified.faults.is_empty());
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_text(checked: &[Checked], out: &mut dyn Write) -> Result<()> {
    let shown = checked
        .iter()
        .filter(|(file, verified)| file.origin == Origin::Named || verified.bundles > 0 || !verified.faults.is_empty());
    let mut lines = Vec::new();
    for (file, Verified { bundles, code_objects, faults, .. }) in shown {
        lines.extend(faults.iter().map(|fault| printable(&fault.to_string())));
        let objects = count(*code_objects, "code object", "code objects");
        let held = format!("{objects} in {}", count(*bundles, "bundle", "bundles"));
        let verdict = match (faults.len(), bundles) {
            (0, 0) => "no device code".to_owned(),
            (0, _) => format!("{held}, nothing wrong"),
            (faults, _) => format!("{held}, {}", count(faults, "fault", "faults")),
        };
        lines.push(format!("{}: {verdict}", printable(&file.path.to_string_lossy())));
    }
    lines.iter().try_for_each(|line| writeln!(out, "{}", printable(line))).map_err(|error| Error::io("-", error))
}

#[derive(Serialize)]
struct Document {
    version: u32,
    files: Vec<FileReport>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct FileReport {
    path: String,
    bundles: usize,
    code_objects: usize,
    faults: Vec<FaultReport>,
}

#[derive(Serialize)]
struct FaultReport {
    rule: &'static str,
    member: Option<String>,
    section: Option<String>,
    bundle: Option<usize>,
    offset: Option<u64>,
    text: String,
}

fn write_report(checked: &[Checked], failures: &[Error], out: &mut dyn Write) -> Result<()> {
    let fault = |fault: &Fault| FaultReport {
        rule: fault.rule.name(),
        member: fault.place.member(),
        section: fault.place.section(),
        bundle: fault.bundle,
        offset: fault.offset,
        text: fault.text.clone(),
    };
    let file = |(file, verified): &Checked| FileReport {
        path: file.path.to_string_lossy().into_owned(),
        bundles: verified.bundles,
        code_objects: verified.code_objects,
        faults: verified.faults.iter().map(fault).collect(),
    };
    let files = checked.iter().map(file).collect();
    let document = Document { version: VERSION, files, problems: failures.iter().map(Error::to_string).collect() };
    write_json(&document, out)
}
