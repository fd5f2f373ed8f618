//! `recompress`: bundles made smaller, alone or inside a library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::job::{Recompress, Recompressed};
use offload_bundle::scan::Selection;

use super::console::Console;
use super::subcommand::Subcommand;
use super::units::{bytes, count};
use super::values::{limit_level, limit_window};
use super::{files, patterns};

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "recompress", command, run };

/// The method of bundles that are compressed.
const METHOD: Method = Method::Zstd;

const EXAMPLES: &str = "\
Examples:
  Compress the device code of a library:
    clang-offload-bundler recompress libkernels.so -o small/libkernels.so
  Keep the code for two GPUs only:
    clang-offload-bundler recompress libkernels.so -o libkernels.so --keep gfx90a,gfx942
  Make a bundle plain again:
    clang-offload-bundler recompress kernels.hipfb -o plain.hipfb --none

Exit status:
  0  the output was written
  1  it was not; a file that was there is unchanged
  2  the command line is wrong";

fn command() -> Command {
    Command::new("recompress")
        .about("Make bundles smaller: compress them anew, leave GPUs out")
        .long_about(
            "Make bundles smaller: compress them anew, leave GPUs out.\n\n\
             The file holds bundles, one or many in a row, or is an ELF library, program or object with bundles in its \
             .hip_fatbin section. There, each bundle stays at its offset, so that nothing else in the file changes; the space \
             that it no longer needs becomes a hole: zeros that take no space on disk and next to none in a wheel. A section \
             that shares bytes with bundles is an error.\n\n\
             Each bundle gets the smallest of three forms: compressed, plain or, if nothing of it is left out, as it was. What \
             stands behind the last one is kept. Every pattern of --keep has to take something.\n\n\
             HIP runtimes read compressed bundles since ROCm 6.2. LLVM 22's own bundler reads a compressed bundle only where \
             nothing stands behind it; --none gives it back what it can read.",
        )
        .after_help(EXAMPLES)
        .args([
            Arg::new("file")
                .value_name("FILE")
                .value_parser(PathBufValueParser::new())
                .required(true)
                .help("The file to read"),
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("OUT")
                .value_parser(PathBufValueParser::new())
                .required(true)
                .help("The file to write, which may be the same; - is the standard output"),
            Arg::new("level")
                .long("level")
                .value_name("N")
                .allow_negative_numbers(true)
                .value_parser(level)
                .help("The compression level in zstd's scale, 3 unless asked"),
            Arg::new("window")
                .long("window")
                .value_name("LOG")
                .value_parser(window)
                .help("The largest zstd window, 2 to the power of this (10 to 31)"),
            Arg::new("none")
                .long("none")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["level", "window"])
                .help("Do not compress")
                .long_help(
                    "Do not compress: every bundle is plain. A file of plain bundles that was recompressed, nothing left out, \
                     becomes what it was, byte by byte, if each bundle in it stood as near to the one before it as some \
                     alignment up to 4096 allows, as compilers place them; an ELF file always does.",
                ),
            files::max_size(),
            pattern("keep", "Keep what the patterns take, and host code, and leave out everything else"),
            pattern("drop", "Leave out what the patterns take"),
            patterns::exact("Patterns take only what has exactly this target ID or entry ID, not all that is compatible"),
        ])
}

fn pattern(name: &'static str, help: &'static str) -> Arg {
    let long =
        "Patterns are those of `extract`: target IDs, bundle entry IDs, or either with wildcards, in a comma list.";
    patterns::option(name, help).long_help(format!("{help}. {long}"))
}

fn run(matches: &ArgMatches, console: &mut Console) -> anyhow::Result<ExitCode> {
    let path = |name| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    let recompress = Recompress {
        input: path("file"),
        output: path("output"),
        compression: compression(matches),
        keep: selection(matches, "keep"),
        drop: selection(matches, "drop"),
        limits: files::limits(matches),
    };
    let result = recompress.run(&mut |event| console.event(event))?;
    console.end_progress();
    console.line(&summary(&result));
    Ok(ExitCode::SUCCESS)
}

fn compression(matches: &ArgMatches) -> Option<Compression> {
    if matches.get_flag("none") {
        return None;
    }
    let mut compression = Compression::of(METHOD);
    compression.level = matches.get_one("level").copied().unwrap_or(compression.level);
    compression.window_log_max = matches.get_one("window").copied().unwrap_or(compression.window_log_max);
    Some(compression)
}

/// What may be typed for `--level`.
fn level(text: &str) -> anyhow::Result<i32> {
    let level = text.parse()?;
    limit_level(&mut Compression::of(METHOD), "it", Some(level))?;
    Ok(level)
}

/// What may be typed for `--window`.
fn window(text: &str) -> anyhow::Result<u32> {
    let log = text.parse()?;
    limit_window(&mut Compression::of(METHOD), "it", Some(log))?;
    Ok(log)
}

/// What an option selects; none if it was not given.
fn selection(matches: &ArgMatches, name: &str) -> Option<Selection> {
    matches.contains_id(name).then(|| patterns::selection(matches, name))
}

/// What was done, in a line.
fn summary(result: &Recompressed) -> String {
    let Recompressed { bundles, unchanged, dropped, before, after, holes, .. } = *result;
    let mut text = format!("{}: {} before, {} now", count(bundles, "bundle", "bundles"), bytes(before), bytes(after));
    if dropped > 0 {
        text.push_str(&format!("; {} left out", count(dropped, "code object", "code objects")));
    }
    if unchanged > 0 {
        let as_before = if unchanged == 1 { "as it was" } else { "as they were" };
        let kept = count(unchanged, "bundle", "bundles");
        text.push_str(&format!("; {kept} would have become larger and stayed {as_before}"));
    }
    if holes > 0 {
        text.push_str(&format!("; the file has the size that it had, {} of it a hole", bytes(holes)));
    }
    text
}
