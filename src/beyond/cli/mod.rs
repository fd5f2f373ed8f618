//! The command line: parses arguments, runs the job and prints results.
//!
//! One executable acts as several LLVM tools, whose command lines are in [`llvm`]; [`choose`] selects one. Commands
//! that LLVM does not have are [`Subcommand`]s, parsed by `clap` alone.

mod completions;
mod deep;
mod diff;
mod extract;
mod files;
mod gpus;
mod inspect;
mod judged;
mod kernels;
mod man;
mod overview;
mod patterns;
mod picture;
mod print;
mod recompress;
mod replace;
mod report;
mod subcommand;
mod suggest;
mod verify;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use subcommand::{Catalogue, SHORT, Subcommand, USAGE};

use crate::base::error::{Error, ErrorKind};
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::print::progress;
use crate::llvm::cli::print::stdout::print;
use crate::llvm::cli::program::Program;
use crate::llvm::cli::{Additions, PROGRAM, TOOLS, finish, without_subcommand};

/// All tools and subcommands.
const CATALOGUE: &Catalogue = &Catalogue {
    tools: TOOLS,
    subcommands: [
        Subcommand::of::<inspect::InspectOptions>("inspect", include_str!("help/inspect.txt")),
        Subcommand::of::<extract::ExtractOptions>("extract", include_str!("help/extract.txt")),
        Subcommand::of::<kernels::KernelsOptions>("kernels", include_str!("help/kernels.txt")),
        Subcommand::of::<diff::DiffOptions>("diff", include_str!("help/diff.txt")),
        Subcommand::of::<verify::VerifyOptions>("verify", include_str!("help/verify.txt")),
        Subcommand::of::<recompress::RecompressOptions>("recompress", include_str!("help/recompress.txt")),
        Subcommand::of::<replace::ReplaceOptions>("replace", include_str!("help/replace.txt")),
        Subcommand::of::<report::ReportOptions>("report", include_str!("help/report.txt")),
        Subcommand::of::<completions::CompletionsOptions>("completions", include_str!("help/completions.txt")),
        Subcommand::of::<man::ManOptions>("man", include_str!("help/man.txt")),
        Subcommand::of::<overview::HelpOptions>("help", include_str!("help/help.txt")),
    ],
};

/// The additions of the subcommands to the command lines of LLVM's tools.
pub(crate) const ADDITIONS: &Additions = &Additions {
    run: run_own,
    subcommands: || CATALOGUE.abouts().collect(),
    hint: subcommand::hint,
    list_hint: inspect::hint_for_list,
    read_uri: |uri, file, limits, take| take(uri.resolve(file, limits)?.as_slice()),
};

/// Runs a command line that begins with a subcommand, or any of the short name.
fn run_own(argv: &[OsString]) -> Option<ExitCode> {
    if let Some(subcommand) = argv.get(1).and_then(|word| CATALOGUE.find(word)) {
        return Some(run_subcommand(subcommand, argv.to_vec()));
    }
    if argv.first().is_some_and(|typed| Program::new(typed).is_called(SHORT)) {
        return Some(run_short(argv));
    }
    None
}

/// Runs one of our own subcommands.
fn run_subcommand(subcommand: Subcommand, argv: Vec<OsString>) -> ExitCode {
    let argv = without_subcommand(argv, subcommand.name);
    let mut console = Console::new(argv.first().map_or("".as_ref(), OsString::as_os_str));
    progress::start(subcommand.name);
    let (executed, usage_hint) = subcommand.run(&argv, &mut console);
    let status = finish(&console, executed, hint);
    usage_hint.iter().for_each(|hint| console.hint(hint));
    status
}

/// Runs a command line of the short name that has no subcommand.
fn run_short(argv: &[OsString]) -> ExitCode {
    let console = Console::new(SHORT.as_ref());
    let is = |names: &[&str]| argv.get(1).is_none_or(|word| names.iter().any(|name| word == name));
    if is(&["--help", "-h"]) {
        return print(&overview::overview(SHORT), b"", 0);
    }
    if is(&["--version", "-V"]) {
        return print(format!("{SHORT} {}\n", env!("CARGO_PKG_VERSION")).as_bytes(), b"", 0);
    }
    let words = argv.get(1..).unwrap_or_default();
    let word = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    console.error(&format!("'{word}' is not a subcommand"));
    console.hint(&subcommand::hint(SHORT.as_ref(), words).unwrap_or_else(|| {
        format!("LLVM's options belong to the name {PROGRAM}: type '{PROGRAM} {word} ...', or '{SHORT} help'")
    }));
    ExitCode::from(USAGE)
}

/// A way to fix an error, in terms of the command line.
fn hint(error: &Error) -> Option<String> {
    const ALL: &str = "write all of them into a directory with -o DIR";
    match error.kind() {
        ErrorKind::Ambiguous => Some(error.sole_match().map_or(ALL.to_owned(), |id| {
            format!("choose one, such as --exact --target='{id}' with no other --target, or {ALL}")
        })),
        ErrorKind::Io if error.io_error()?.kind() == io::ErrorKind::NotFound => {
            let parent = error.file()?.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists())?;
            Some(format!("the directory '{}' does not exist", parent.display()))
        }
        _ => error.hint().map(str::to_owned).or_else(|| suggest::for_no_match(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subcommands_are_consistent_and_named_as_they_are_found() {
        CATALOGUE.command().debug_assert();
        for subcommand in CATALOGUE.subcommands {
            assert_eq!(CATALOGUE.find(subcommand.name.as_ref()).map(|found| found.name), Some(subcommand.name));
        }
    }

    /// What judges fails if there is nothing to judge ([`judged`]): an option allows that.
    #[test]
    fn every_subcommand_that_judges_may_be_allowed_to_judge_nothing() {
        let judges = |name: &str| name == "fail-on" || name.starts_with("expect");
        let mut gates = Vec::new();
        for subcommand in CATALOGUE.subcommands {
            let command = subcommand.command();
            let options: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            if options.iter().any(|name| judges(name)) {
                gates.push(subcommand.name);
                assert!(options.contains(&"allow-none"), "{}", subcommand.name);
            }
        }
        // A new one needs rows in `tests/look/gates.rs`.
        assert_eq!(gates, ["kernels", "diff", "verify"]);
    }

    /// The words in backticks of a line.
    fn quoted(line: &str) -> Vec<&str> {
        line.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn the_documents_name_every_subcommand() {
        let page = |name: &str| {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            std::fs::read_to_string(path).unwrap()
        };
        let differences = page("docs/differences.md");
        let rows = differences.lines().filter_map(|line| line.strip_prefix("| `clang-offload-bundler "));
        let inputs: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
        let own: Vec<&str> = CATALOGUE.subcommands.iter().map(|subcommand| subcommand.name).collect();
        let row = inputs.iter().find(|input| input.starts_with("inspect")).unwrap();
        let named: Vec<&str> = row.split(", ").map(|word| word.trim_matches('`').trim_end_matches(" …")).collect();
        assert_eq!(named, own);
        for tool in CATALOGUE.tools.iter().filter_map(|tool| tool.subcommand) {
            assert!(inputs.iter().any(|input| input.trim_end_matches('`') == format!("{tool} …")), "{tool}");
        }
        let readme = page("README.md");
        let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
        let is_help = |name: &&&str| !["completions", "man", "help"].contains(*name);
        for name in own.iter().filter(is_help) {
            assert!(rows.iter().any(|row| quoted(row).first() == Some(name)), "README.md: {name}");
        }
        let statuses = page("docs/build-engineers.md");
        let head = statuses.lines().find(|line| line.starts_with("| exit status |")).unwrap();
        assert_eq!(quoted(head), own, "docs/build-engineers.md");
    }

    #[test]
    fn every_help_ends_with_examples_and_exit_statuses() {
        for subcommand in CATALOGUE.subcommands {
            let help = subcommand.command().render_long_help().to_string();
            assert!(help.contains("\nExamples:\n") && help.contains("\nExit status:\n"), "{}", subcommand.name);
        }
    }

    #[test]
    fn help_fits_80_columns_and_breaks_no_command() {
        for subcommand in CATALOGUE.subcommands {
            let command = subcommand.named(PROGRAM).term_width(80);
            let [about, after] = [command.get_long_about(), command.get_after_help()];
            let as_written = format!("{}\n{}", about.map_or(String::new(), ToString::to_string), after.unwrap());
            let help = command.try_get_matches_from(["", "--help"]).unwrap_err().to_string();
            let lines: Vec<&str> = help.lines().collect();
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{help}");
            // What is indented, such as examples and their tables, keeps its lines.
            for line in as_written.lines().filter(|line| line.starts_with("  ")) {
                assert!(lines.contains(&line.trim_end()), "{}: {line}", subcommand.name);
            }
        }
    }

    #[test]
    fn examples_in_help_texts_can_be_typed() {
        for subcommand in CATALOGUE.subcommands {
            let after = subcommand.command().get_after_help().unwrap().to_string();
            let examples = after.split("\n\n").find_map(|part| part.strip_prefix("Examples:\n")).unwrap();
            let mut continues = false;
            for line in examples.lines() {
                let text = line.trim_start();
                let (is_more, is_command) = (line.starts_with("      "), line.starts_with("    "));
                assert_eq!(continues, is_more, "{}: only a \\ or | continues a command: {line}", subcommand.name);
                continues = is_command && (text.ends_with(" \\") || text.ends_with(" |"));
            }
            assert!(!continues, "{}", subcommand.name);
        }
    }
}
