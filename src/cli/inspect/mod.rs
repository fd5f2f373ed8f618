//! `inspect`: which code objects files hold, for whom, and how large each is.

mod json;
mod report;
mod svg;
mod table;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use offload_bundle::Error;
use offload_bundle::container::sequence::Inflate;

use super::console::Console;
use super::files::{self, Origin};
use super::subcommand::Subcommand;
use super::to_stdout;
use report::Report;
use table::{Rows, Style};

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "inspect", command, run };

const EXAMPLES: &str = "\
Examples:
  Which GPUs does a library carry code for, and how much of it?
    clang-offload-bundler inspect libkernels.so
  The same for all that a Python wheel holds, or an installation:
    clang-offload-bundler inspect torch-2.9-cp312-linux_x86_64.whl
    clang-offload-bundler inspect -r /opt/rocm/lib
  Each code object by itself, with its place, for a program:
    clang-offload-bundler inspect --json libkernels.so
  A picture of who takes the space:
    clang-offload-bundler inspect -r /opt/rocm/lib --svg space.svg

Exit status:
  0  everything was read
  1  something could not be read, or is broken; the rest is shown all the same
  2  the command line is wrong";

fn command() -> Command {
    Command::new("inspect")
        .about("Show which GPU code objects files hold, and how large each is")
        .long_about(
            "Show which GPU code objects files hold, and how large each is.\n\n\
             Device code is found by content: in bundles (plain, compressed, text, many in a row), offload binaries, fat \
             objects, ELF and COFF objects, libraries and programs, bitcode, ar archives, and zip files such as Python \
             wheels. Of compressed bundles only the beginning is inflated: what a code object in one holds, such as a bundle \
             that is nested in it, is found with --inflate only. Bytes behind the bundles of a place that are none are not \
             told of; `verify` does that. What is recognised, but cannot be read, such as CUDA fatbins, is named.",
        )
        .after_help(EXAMPLES)
        .args([
            files::argument("Files to look into, and directories, whose files are looked into"),
            files::recursive(),
            files::max_size(),
            Arg::new("each")
                .long("each")
                .action(ArgAction::SetTrue)
                .help("A line for each code object, not one for all with the same ID"),
            Arg::new("inflate")
                .long("inflate")
                .action(ArgAction::SetTrue)
                .help("Inflate compressed bundles as a whole, to tell what kind each image is and what is nested in it"),
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .conflicts_with("each")
                .help("One JSON document, described by docs/inspect.schema.json"),
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .value_parser(PathBufValueParser::new())
                .help("Also draw who takes the space"),
            Arg::new("color")
                .long("color")
                .value_name("WHEN")
                .value_parser(["auto", "always", "never"])
                .default_value("auto")
                .help("Colours in the table"),
        ])
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let inflate = if matches.get_flag("inflate") { Inflate::Whole } else { Inflate::Headers };
    let svg = matches.get_one::<PathBuf>("svg");
    let mut report = Report::default();
    for file in files::of(matches) {
        match file {
            Ok(file) if file.origin == Origin::Named && svg.is_some_and(|svg| is_same(svg, &file.path)) => {
                bail!("'{}': the picture would take the place of this input", file.path.display());
            }
            Ok(file) => report.add(&file, inflate, files::limits(matches))?,
            Err(error) => report.fail(&error),
        }
    }
    if let Some(path) = svg {
        write_svg(path, &report)?;
    }
    to_stdout(|out| print(matches, &report, out))?;
    let problems = report.problems();
    problems.iter().for_each(|problem| console.error(problem));
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(matches: &ArgMatches, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    if matches.get_flag("json") {
        return json::write(report, out);
    }
    let rows = if matches.get_flag("each") { Rows::Each } else { Rows::Grouped };
    let style =
        Style::new(matches.get_one::<String>("color").map_or("auto", String::as_str), io::stdout().is_terminal());
    out.write_all(table::text(report, rows, style).as_bytes()).map_err(|error| Error::io("-", error))
}

/// Whether both are one file, which the picture would take the place of.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b && a.is_file())
}

fn write_svg(path: &Path, report: &Report) -> Result<(), Error> {
    offload_bundle::write_file(path, svg::draw(report).as_bytes())
}
