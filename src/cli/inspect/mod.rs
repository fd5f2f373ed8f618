//! `inspect`: the code objects in files, their targets and sizes.

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
  The GPUs that a library supports, and the size of the code for each:
    clang-offload-bundler inspect libkernels.so
  The same for a Python wheel, or for all libraries of an installation:
    clang-offload-bundler inspect torch-2.9-cp312-linux_x86_64.whl
    clang-offload-bundler inspect -r /opt/rocm/lib
  Totals only:
    clang-offload-bundler inspect -r --summary /opt/rocm/lib
  Every code object with its location, as JSON:
    clang-offload-bundler inspect --json libkernels.so
  A chart of the space that each GPU takes:
    clang-offload-bundler inspect -r /opt/rocm/lib --svg space.svg

Exit status:
  0  everything was read
  1  something is broken or could not be read; the rest is still printed
  2  the command line is invalid";

fn command() -> Command {
    Command::new("inspect")
        .about("List the GPU code objects in files, and their sizes")
        .long_about(
            "List the GPU code objects in files, and their sizes.\n\n\
             Contents are detected automatically: bundles (plain, compressed, text, several in a row), offload binaries, fat \
             objects, ELF and COFF objects, libraries and programs, bitcode, ar archives, and zip files such as Python \
             wheels. What is recognised but cannot be read, such as CUDA fatbins, is named.\n\n\
             Only the beginning of a compressed bundle is inflated. Use --inflate to find bundles that are nested in its code \
             objects. Trailing bytes that are not a bundle are not reported; use `verify`.",
        )
        .after_help(EXAMPLES)
        .args([
            files::argument("Files to inspect, and directories of such files"),
            files::recursive(),
            files::max_size(),
            Arg::new("each")
                .long("each")
                .action(ArgAction::SetTrue)
                .help("Print a line for each code object, not one for each entry ID"),
            Arg::new("summary")
                .long("summary")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["each", "json"])
                .help("Print only the totals for each GPU, and the numbers of files without readable device code"),
            Arg::new("inflate")
                .long("inflate")
                .action(ArgAction::SetTrue)
                .help("Inflate compressed bundles completely, to detect image kinds and nested bundles"),
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .conflicts_with("each")
                .help("Print a JSON document, described by docs/inspect.schema.json"),
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .value_parser(PathBufValueParser::new())
                .help("Also draw a chart of the space that each GPU takes"),
            Arg::new("color")
                .long("color")
                .value_name("WHEN")
                .value_parser(["auto", "always", "never"])
                .default_value("auto")
                .help("When to colour the table"),
        ])
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let inflate = if matches.get_flag("inflate") { Inflate::Whole } else { Inflate::Headers };
    let svg = matches.get_one::<PathBuf>("svg");
    let mut report = Report::default();
    for file in files::of(matches) {
        match file {
            Ok(file) if file.origin == Origin::Named && svg.is_some_and(|svg| is_same(svg, &file.path)) => {
                bail!("'{}': --svg would overwrite this input", file.path.display());
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
    let rows = match (matches.get_flag("each"), matches.get_flag("summary")) {
        (true, _) => Rows::Each,
        (_, true) => Rows::Totals,
        _ => Rows::Grouped,
    };
    let style =
        Style::new(matches.get_one::<String>("color").map_or("auto", String::as_str), io::stdout().is_terminal());
    out.write_all(table::text(report, rows, style).as_bytes()).map_err(|error| Error::io("-", error))
}

/// Whether both paths name the same file.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b && a.is_file())
}

fn write_svg(path: &Path, report: &Report) -> Result<(), Error> {
    offload_bundle::io::write_file(path, svg::draw(report).as_bytes())
}
