//! `extract`: code objects out of any file, chosen by what they are for.

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
  All code for one GPU, into a directory:
    clang-offload-bundler extract libkernels.so --target gfx90a -o gfx90a
  What that would write:
    clang-offload-bundler extract libkernels.so --target gfx90a --dry-run
  Only the code objects with exactly this target ID, or this bundle entry ID:
    clang-offload-bundler extract libkernels.so --exact --target gfx90a:xnack+
    clang-offload-bundler extract libkernels.so --exact -t hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+
  Every GPU of a family, from all that a wheel holds:
    clang-offload-bundler extract torch-2.9-cp312-linux_x86_64.whl --target 'gfx11*' -o gfx11
  Straight into a disassembler:
    clang-offload-bundler extract kernel.o --target gfx90a -o - | llvm-objdump -d -

Exit status:
  0  everything that matches was written
  1  something that was asked for matches nothing, or something could not be read or written;
     nothing was written, unless all that is wrong is in files which nobody named but which were
     found in a directory: each of these is reported and left out, and what matches in the others
     was written
  2  the command line is wrong";

/// What the option for patterns takes.
const TARGET: &str = "Target IDs, bundle entry IDs, or either with * ? [...], in a comma list; each has to match";

fn command() -> Command {
    Command::new("extract")
        .about("Write the code objects for some GPUs into files")
        .long_about(
            "Write the code objects for some GPUs into files.\n\n\
             Device code is found by content, as by `inspect`. The names of the files that are written are printed: \
             <input>-<number of the bundle>-<bundle entry ID>.<what it is>, with _ for everything but letters, digits and \
             +-._=. Without --target and --kind, everything but host code is written.",
        )
        .after_help(EXAMPLES)
        .args([
            files::argument("Files to look into, and directories, whose files are looked into"),
            files::recursive(),
            files::max_size(),
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("DIR")
                .value_parser(PathBufValueParser::new())
                .default_value(".")
                .help("Where the files go; - writes the only code object that matches to the standard output"),
            patterns::option("target", TARGET)
                .short('t')
                .long_help(
                    "A target ID (gfx90a:xnack+), a bundle entry ID (hip-amdgcn-amd-amdhsa--gfx90a), or either with the \
                     wildcards * ? and [...]. Several stand in a comma list, or the option is given several times; each of them has \
                     to match something. A target ID takes the code objects that can run there: gfx90a:xnack+ takes gfx90a too, \
                     as that leaves xnack open. Without features, it takes every code object of that processor.",
                ),
            patterns::list("kind", "Offload kinds, in a comma list; hip and hipv4 are one; each has to match")
                .short('k')
                .value_name("KIND")
                .value_parser(["host", "openmp", "hip", "hipv4", "cuda", "sycl"]),
            patterns::exact("Take only what has exactly this target ID or entry ID, not all that is compatible"),
            Arg::new("dry-run").short('n').long("dry-run").action(ArgAction::SetTrue).help("Print the names, write nothing"),
        ])
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let mut problems = Vec::new();
    let mut selection = patterns::selection(matches, "target");
    let kinds = matches.get_many::<String>("kind").into_iter().flatten();
    selection.kinds = kinds.filter_map(|name| OffloadKind::from_name(name)).collect();
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
