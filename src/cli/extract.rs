//! `extract`: copies code objects out of any file, selected by target.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use offload_bundle::Error;
use offload_bundle::error::printable;
use offload_bundle::id::OffloadKind;
use offload_bundle::job::{Destination, Event, Extract, Extracted, IfBroken, Source};

use super::console::Console;
use super::files::{Origin, WorkFile};
use super::subcommand::Subcommand;
use super::to_stdout;
use super::{files, patterns};

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "extract", command, run };

const EXAMPLES: &str = "\
Examples:
  Write all code for one GPU to a directory:
    clang-offload-bundler extract libkernels.so --target gfx90a -o gfx90a
  Print the names of the files only:
    clang-offload-bundler extract libkernels.so --target gfx90a --dry-run
  Only exact matches of a target ID or a bundle entry ID:
    clang-offload-bundler extract libkernels.so --exact --target gfx90a:xnack+
    clang-offload-bundler extract libkernels.so --exact -t hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+
  All GPUs of a family, from a Python wheel:
    clang-offload-bundler extract torch-2.9-cp312-linux_x86_64.whl --target 'gfx11*' -o gfx11
  Disassemble a code object:
    clang-offload-bundler extract kernel.o --target gfx90a -o - | llvm-objdump -d -

Exit status:
  0  all matches were written
  1  nothing matches, or something could not be read or written; nothing was written. Exception:
     broken files in a directory are reported and skipped, and the other matches are written
  2  the command line is invalid";

/// The short help of `--target`.
const TARGET: &str = "Target ID or bundle entry ID to extract, with wildcards * ? [...]; may be repeated";

fn command() -> Command {
    Command::new("extract")
        .about("Extract GPU code objects to files")
        .long_about(
            "Extract GPU code objects to files.\n\n\
             Contents are detected automatically, as by `inspect`. Each code object is written to a file of its own, and the \
             names of the files are printed: <input>-<bundle number>-<bundle entry ID>.<extension>, with every character \
             except letters, digits and +-._= replaced by _. Without --target and --kind, everything except host code is \
             extracted.",
        )
        .after_help(EXAMPLES)
        .args([
            files::argument("Files to read, and directories of such files"),
            files::recursive(),
            files::max_size(),
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("DIR")
                .value_parser(PathBufValueParser::new())
                .default_value(".")
                .help("Output directory, created if necessary; - writes a single code object to standard output"),
            patterns::option("target", TARGET)
                .short('t')
                .long_help(
                    "Target ID (gfx90a:xnack+) or bundle entry ID (hip-amdgcn-amd-amdhsa--gfx90a) to extract, with the \
                     wildcards * ? and [...]. May be repeated, to extract what matches any of them. A target ID matches all \
                     code objects that can run on it: gfx90a:xnack+ also matches gfx90a, which runs with any xnack setting. \
                     Without features, it matches every code object for that processor.",
                ),
            Arg::new("kind")
                .short('k')
                .long("kind")
                .value_name("KIND")
                .value_parser(["host", "openmp", "hip", "hipv4", "cuda", "sycl"])
                .help("Offload kind to extract; hip and hipv4 are equivalent"),
            patterns::exact("Match only the exact target ID or entry ID, not all that are compatible"),
            Arg::new("dry-run").short('n').long("dry-run").action(ArgAction::SetTrue).help("Print the names of the files without writing them"),
        ])
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let mut problems = Vec::new();
    let mut selection = patterns::selection(matches, "target");
    selection.kind = matches.get_one::<String>("kind").and_then(|name| OffloadKind::from_name(name));
    let inputs = sources(matches, &mut problems);
    let extract = Extract { inputs, selection, destination: destination(matches), limits: files::limits(matches) };
    let extracted = extract.run(&mut |event| match event {
        Event::LeftOut { error } => problems.push(error.to_string()),
        event => console.event(event),
    });
    let told = extracted.and_then(|extracted| tell(&extract, &extracted));
    problems.iter().for_each(|problem| console.error(problem));
    told?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The files to look into. Directories that cannot be read are problems, as are the files in them.
fn sources(matches: &ArgMatches, problems: &mut Vec<String>) -> Vec<Source> {
    let mut sources = Vec::new();
    for file in files::of(matches) {
        match file {
            Ok(WorkFile { path, origin: Origin::Named }) => sources.push(Source { path, if_broken: IfBroken::Fail }),
            Ok(WorkFile { path, origin: Origin::InDirectory }) => {
                sources.push(Source { path, if_broken: IfBroken::LeaveOut });
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    sources
}

/// Prints the names of what was written.
fn tell(extract: &Extract, extracted: &[Extracted]) -> Result<(), Error> {
    if extract.destination == Destination::StandardOutput {
        return Ok(());
    }
    to_stdout(|out| {
        let mut paths = extracted.iter().map(|file| printable(&file.path.to_string_lossy()));
        paths.try_for_each(|path| writeln!(out, "{path}")).map_err(|error| Error::io("-", error))
    })
}

fn destination(matches: &ArgMatches) -> Destination {
    let directory = matches.get_one::<PathBuf>("output").cloned().unwrap_or_default();
    match (directory.as_os_str() == "-", matches.get_flag("dry-run")) {
        (_, true) => Destination::Nowhere(directory),
        (true, false) => Destination::StandardOutput,
        (false, false) => Destination::Directory(directory),
    }
}
