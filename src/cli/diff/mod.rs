//! `diff`: compares the device code of two files, directories or wheels.

mod fail;
mod json;
mod kernel;
mod sets;
mod svg;
mod table;
mod total;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::PathBufValueParser;
use clap::{Arg, ArgMatches, Command, value_parser};
use offload_bundle::Result;
use offload_bundle::io::write_file;
use offload_bundle::job::{Diff, FileDiff, Matches};
use offload_bundle::parallel;

use super::files;
use super::files::WorkFile;
use super::patterns;
use super::print::console::Console;
use super::print::stdout::to_stdout;
use super::print::svg::svg_path;
use super::print::table::{Style, color};
use super::subcommand::{Run, Subcommand, flag, path_option};
use fail::Condition;
use kernel::Rows;
use sets::Pair;
use total::Total;

pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "diff", command, run: Run::OnFiles(run) };

const EXAMPLES: &str = "\
Examples:
  What changed from one build of a library to the next:
    clang-offload-bundler diff old/libkernels.so libkernels.so
  The same for two wheels, or for two installations:
    clang-offload-bundler diff torch-2.8.whl torch-2.9.whl
    clang-offload-bundler diff -r /opt/rocm-7.0/lib /opt/rocm-7.1/lib
  In CI, fail if a GPU is lost, a kernel spills more, or code grows by over 5 %:
    clang-offload-bundler diff old/libkernels.so libkernels.so \\
      --fail-on lost-gpu,spill,size=+5%
  The kernels that take more scratch memory than before, for a program:
    clang-offload-bundler diff --json old.so new.so \\
      | jq '.files[].kernels[] | select(.new.scratch > .old.scratch) | .name'

Conditions of --fail-on:
  lost-gpu  NEW has no code for a GPU for which OLD has; or not all bundles of a
            library serve it any longer, by any code that runtimes load there
            (see the coverage of `inspect`)
  spill     a kernel of an AMD GPU spills more vector or scalar registers than
            in OLD; a new kernel counts if it spills, and the same file in OLD
            has code for its GPU
  size=+N%  the stored size of all device code, or of that for a GPU which is in
            both, grows by more than N percent; size=+N by more than N bytes,
            with units kB, MB or GB

Exit status:
  0  everything was compared (with --trust-hashes: read, or equal by a recorded
     hash or checksum), whether or not there are differences
  1  a condition of --fail-on is met, --target matches nothing in either (unless
     --allow-none), or something is broken or could not be read
  2  the command line is invalid";

fn command() -> Command {
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .value_name(if name == "old" { "OLD" } else { "NEW" })
            .value_parser(PathBufValueParser::new())
            .required(true)
            .help(help)
    };
    Command::new("diff")
        .about("Compare the GPU code objects of two files, directories or wheels")
        .long_about(
            "Compare the GPU code objects of two files, directories or wheels: GPUs gained and lost, sizes by GPU, and kernels \
             whose registers, spills, memory or code size differ. Code objects with the same bytes are only counted, wherever they \
             are in the files.\n\n\
             Contents are detected automatically, as by `inspect`. Code for hosts is not compared. All code \
             objects are read, and broken containers, hashes and checksums are reported; faults inside code objects are found by `verify`. \
             With --trust-hashes, recorded hashes and checksums decide what is equal. Files in \
             directories are compared with the file of the same relative path, and libraries with the one whose name differs in the version after \
             `.so` only. Sizes are stored sizes; a code object in a compressed bundle has a share of that by its inflated size.",
        )
        .after_help(EXAMPLES)
        .args([
            path("old", "File, or directory of files, to compare with"),
            path("new", "File, or directory of files, to compare"),
            files::recursive(),
            files::deep(),
            files::max_size(),
            files::no_follow(),
            patterns::targets("code objects", "compared"),
            patterns::exact(),
            flag("trust-hashes", "Do not read what has the same recorded hash or checksum and size in both")
                .long_help(
                    "Do not read what has the same recorded hash or checksum and size in both: compressed bundles and members of \
                     wheels. This is fast, but broken files may be called equal. The report ends with the number of code objects \
                     that are equal by their recorded hash or checksum only.",
                ),
            Arg::new("top")
                .long("top")
                .value_name("N")
                .value_parser(value_parser!(usize))
                .help("Show only the first N kernels; without it, 20 in the table and all in JSON"),
            patterns::list("fail-on", "Exit with status 1 on lost-gpu, spill or size=+N% (see below), in a comma list")
                .value_name("CONDITION")
                .value_parser(Condition::parse),
            patterns::allow_none("Succeed even if --target matches nothing in either file"),
            flag("json", "Print a JSON document, described by docs/diff.schema.json"),
            color(),
            path_option("svg", "FILE", "Also draw the sizes of each GPU's code before and now"),
        ])
}

/// The number of kernels in a table.
const TOP: usize = 20;

/// A pair of files, and their differences.
struct Compared {
    pair: Pair,
    diff: FileDiff,
    rows: Rows,
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let [old, new] = ["old", "new"].map(|name| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default());
    if old.as_os_str() == "-" && new.as_os_str() == "-" {
        bail!("'-' and '-': the standard input can be only one of the two");
    }
    if old.exists() && new.exists() && old.is_dir() != new.is_dir() {
        bail!("'{}' and '{}': cannot compare a directory with a file", old.display(), new.display());
    }
    let (is_json, style) = (matches.get_flag("json"), Style::of(matches));
    let top = matches.get_one("top").copied().unwrap_or(if is_json { usize::MAX } else { TOP });
    let sets = [&old, &new].map(|path| files::at(path, matches));
    let inputs = sets.iter().flatten().filter_map(|file| file.as_ref().ok().map(|file| file.path.as_path()));
    let picture = svg_path(matches, inputs.chain([old.as_path(), new.as_path()]))?;
    let mut job = Diff::default();
    job.selection = patterns::selection(matches, "target");
    let listed: Vec<Result<WorkFile>> = sets.iter().flatten().flatten().cloned().map(Ok).collect();
    let paths = files::paths(&listed);
    job.follow = files::follow(matches, &listed);
    (job.limits, job.deep) = (files::limits(matches), matches.get_flag("deep"));
    job.trust_hashes = matches.get_flag("trust-hashes");
    let problems = RefCell::new(Vec::new());
    let pairs = sets::pairs([old.as_path(), new.as_path()], sets, &mut problems.borrow_mut());
    let is_tree = old.is_dir();
    let compare = |pair: Pair| -> Result<Compared> {
        let open = |file: &Option<WorkFile>| file.as_ref().map(|file| file.open(job.limits)).transpose();
        let (old, new) = (open(&pair.old)?, open(&pair.new)?);
        let mut diff = job.run(old.as_ref(), new.as_ref())?;
        let rows = Rows::new(std::mem::take(&mut diff.kernels), top, is_json);
        Ok(Compared { pair, diff, rows })
    };
    let weight = |compared: &Result<Compared>| {
        let items = |compared: &Compared| compared.rows.len() + compared.diff.code_objects.len();
        compared.as_ref().map_or(1, |compared| items(compared) + 1)
    };
    let conditions: Vec<Condition> = matches.get_many("fail-on").into_iter().flatten().copied().collect();
    let (total, mut found) = (RefCell::new(Total::default()), Matches::default());
    let failures = parallel::in_order(pairs, compare, weight, |compared| {
        let mut compared = compared.filter_map(|compared| {
            let mut compared = compared.map_err(|error| problems.borrow_mut().push(error.to_string())).ok()?;
            problems.borrow_mut().extend(compared.diff.problems.drain(..).map(|error| error.to_string()));
            total.borrow_mut().add(&compared);
            found.add(std::mem::take(&mut compared.diff.matches));
            Some(compared)
        });
        let written = to_stdout(|out| match is_json {
            true => json::write([&old, &new], &mut compared, &total, &conditions, &problems, out),
            false => table::write([&old, &new], &mut compared, &total, is_tree, top, style, out),
        });
        // A reader that has gone away hides no fault: the rest is read all the same.
        compared.for_each(drop);
        written.map(|()| fail::failures(&conditions, &total.borrow()))
    })?;
    let problems = problems.into_inner();
    problems.iter().for_each(|problem| console.error(problem));
    failures.iter().for_each(|failure| console.error(&failure.to_string()));
    if let Some(path) = picture {
        write_file(path, svg::draw(&total.borrow()).as_bytes())?;
    }
    patterns::ensure_match(matches, found, &job.selection, &paths, !problems.is_empty())?;
    Ok(if problems.is_empty() && failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
