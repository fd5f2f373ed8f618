//! `extract`: copies code objects out of any file, selected by target.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use offload_bundle::Error;
use offload_bundle::display::printable;
use offload_bundle::id::OffloadKind;
use offload_bundle::job::{Destination, Event, Extract, Extracted, Source};
use offload_bundle::scan::Provenance;
use serde::Serialize;

use super::code_object::{CodeObject, Entry, InBundle, Target};
use super::console::Console;
use super::files::{Origin, WorkFile};
use super::stdout::to_stdout;
use super::subcommand::{Run, Subcommand, usage_error};
use super::{files, json, patterns};

pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "extract", command, run: Run::OnFiles(run) };

/// The version of the JSON schema. Adding a field does not change it.
const VERSION: u32 = 1;

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
  Print where each file is from, for a program:
    clang-offload-bundler extract torch-2.9-cp312-linux_x86_64.whl --json -o code

Exit status:
  0  all matches were written
  1  something that was asked for matches nothing, or something could not be read or written;
     nothing was written. Exception: broken files in a directory are reported and skipped, and
     the other matches are written
  2  the command line is invalid";

/// The short help of `--target`.
const TARGET: &str = "Target IDs or bundle entry IDs to extract, with wildcards * ? [...], in a comma list";

fn command() -> Command {
    Command::new("extract")
        .about("Extract GPU code objects to files")
        .long_about(
            "Extract GPU code objects to files.\n\n\
             Contents are detected automatically, as by `inspect`, and checked: compressed bundles against their hashes, \
             members of zip files against their checksums. Each code object is written to a file of its own, and the \
             names of the files are printed: <input>-<member>-<bundle number>-<bundle entry ID>.<extension>, with every \
             character except letters, digits and +-._= replaced by _. For a file found in a directory, the input is \
             its path from there; the member is that of an archive or a zip file; bundles at one place are numbered from \
             0. Without --target and --kind, everything except host code is \
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
                    "Target IDs (gfx90a:xnack+) or bundle entry IDs (hip-amdgcn-amd-amdhsa--gfx90a) to extract, with the \
                     wildcards * ? and [...], in a comma list. May be repeated. Each must match something; what matches any \
                     of them is extracted. A target ID matches all code objects that can run on it: gfx90a:xnack+ also \
                     matches gfx90a, which runs with any xnack setting. Without features, it matches every code object for \
                     that processor.",
                ),
            patterns::list("kind", "Offload kinds to extract, in a comma list; hip and hipv4 are equivalent")
                .short('k')
                .value_name("KIND")
                .value_parser(
                    PossibleValuesParser::new(["host", "openmp", "hip", "hipv4", "cuda", "sycl"])
                        .try_map(|name| OffloadKind::from_name(&name).ok_or("not an offload kind")),
                ),
            patterns::exact("Match only the exact target ID or entry ID, not all that are compatible"),
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print where each file is from instead of the names, as a JSON document (docs/extract.schema.json)"),
            Arg::new("dry-run").short('n').long("dry-run").action(ArgAction::SetTrue).help("Print the names of the files without writing them"),
        ])
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let destination = destination(matches);
    if matches.get_flag("json") && destination == Destination::StandardOutput {
        let text = "the argument '--json' cannot be used with '--output -': both print to the standard output";
        return Ok(usage_error(
            &command().bin_name("clang-offload-bundler extract").error(ErrorKind::ArgumentConflict, text),
        ));
    }
    let mut problems = Vec::new();
    let mut selection = patterns::selection(matches, "target");
    selection.kinds = matches.get_many("kind").into_iter().flatten().copied().collect();
    let inputs = sources(matches, &mut problems);
    let mut extract = Extract::new(inputs, selection, destination);
    extract.limits = files::limits(matches);
    let extracted = extract.run(&mut |event| match event {
        Event::LeftOut { error } => problems.push(error.to_string()),
        event => console.event(event),
    });
    let told = extracted.and_then(|extracted| match matches.get_flag("json") {
        true => to_stdout(|out| write_report(&extracted, &problems, out)),
        false => tell(&extract, &extracted),
    });
    problems.iter().for_each(|problem| console.error(problem));
    told?;
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The files to search. Directories and files in them that cannot be read are added to `problems`.
fn sources(matches: &ArgMatches, problems: &mut Vec<String>) -> Vec<Source> {
    let mut sources = Vec::new();
    for file in files::of(matches) {
        match file {
            Ok(WorkFile { path, origin: Origin::Named }) => sources.push(Source::named(path)),
            Ok(WorkFile { path, origin: Origin::InDirectory(directory) }) => {
                sources.push(Source::found(path, &directory));
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    sources
}

/// Prints the names of the written files.
fn tell(extract: &Extract, extracted: &[Extracted]) -> Result<(), Error> {
    if extract.destination == Destination::StandardOutput {
        return Ok(());
    }
    to_stdout(|out| {
        let mut paths = extracted.iter().map(|file| printable(&file.path.to_string_lossy()));
        paths.try_for_each(|path| writeln!(out, "{path}")).map_err(|error| Error::io("-", error))
    })
}

#[derive(Serialize)]
struct Document<'r> {
    version: u32,
    code_objects: Vec<Written<'r>>,
    problems: &'r [String],
}

#[derive(Serialize)]
struct Written<'r> {
    file: String,
    #[serde(flatten)]
    code_object: CodeObject<'r>,
}

/// The texts of a code object in the report.
struct Texts {
    id: String,
    target: Option<Target>,
    uri: Option<String>,
}

/// Writes the JSON report, whose schema is `docs/extract.schema.json`.
fn write_report(extracted: &[Extracted], problems: &[String], out: &mut dyn Write) -> Result<(), Error> {
    let texts = |Extracted { from, .. }: &Extracted| {
        let target = from.entry_id().map(|id| Target::new(&id, from.format));
        Ok(Texts { id: from.shown_id(), target, uri: from.uri()? })
    };
    let texts = extracted.iter().map(texts).collect::<Result<Vec<_>, Error>>()?;
    let code_objects = extracted.iter().zip(&texts).map(|(extracted, texts)| written(extracted, texts)).collect();
    json::write(&Document { version: VERSION, code_objects, problems }, out)
}

fn written<'r>(extracted: &'r Extracted, texts: &'r Texts) -> Written<'r> {
    let Provenance { place, format, bundle, bundle_range, compressed, range, packed, source, .. } = &extracted.from;
    let bundle = InBundle { place, format: *format, index: *bundle, range: bundle_range, compressed: *compressed };
    let entry = Entry {
        id: &texts.id,
        target: texts.target.as_ref(),
        content: Some(extracted.kind),
        size: extracted.size,
        packed: packed.as_ref(),
        source: source.as_deref(),
        range: range.as_ref(),
        recorded_target: extracted.recorded_target.as_deref(),
        uri: texts.uri.as_deref(),
    };
    let file = extracted.path.to_string_lossy().into_owned();
    Written { file, code_object: CodeObject::new(&bundle, &entry) }
}

fn destination(matches: &ArgMatches) -> Destination {
    let directory = matches.get_one::<PathBuf>("output").cloned().unwrap_or_default();
    match (directory.as_os_str() == "-", matches.get_flag("dry-run")) {
        (_, true) => Destination::Nowhere(directory),
        (true, false) => Destination::StandardOutput,
        (false, false) => Destination::Directory(directory),
    }
}
