//! Our own subcommands, which LLVM's tools do not have: their command lines are plain `clap`.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, Command};
use offload_bundle::Error;
use offload_bundle::error::printable;
use serde::Serialize;

use super::console::Console;
use super::{completions, extract, inspect, man, overview, recompress, verify};

/// The name under which help and man pages know the executable.
pub(super) const PROGRAM: &str = "clang-offload-bundler";

/// A subcommand.
#[derive(Debug)]
pub(super) struct Subcommand {
    /// The first word, which chooses it.
    pub(super) name: &'static str,
    /// Its command line.
    pub(super) command: fn() -> Command,
    /// Does what a command line asks for. An error ends with status 1, as does [`ExitCode::FAILURE`], whose reason has
    /// been told.
    pub(super) run: fn(&ArgMatches, &mut Console) -> anyhow::Result<ExitCode>,
}

/// All of them.
pub(super) const SUBCOMMANDS: [&Subcommand; 7] = [
    inspect::SUBCOMMAND,
    extract::SUBCOMMAND,
    verify::SUBCOMMAND,
    recompress::SUBCOMMAND,
    completions::SUBCOMMAND,
    man::SUBCOMMAND,
    overview::SUBCOMMAND,
];

/// The subcommand that a command line begins with.
pub(super) fn find(word: &OsStr) -> Option<&'static Subcommand> {
    SUBCOMMANDS.into_iter().find(|subcommand| word == subcommand.name)
}

/// All subcommands as those of one command, for man pages and completions.
pub(super) fn all() -> Command {
    let subcommands = SUBCOMMANDS.into_iter().map(|subcommand| (subcommand.command)());
    Command::new(PROGRAM)
        .about("Look into bundles of GPU code objects and whatever holds them")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommands(subcommands)
}

/// Reads the command line, without the name of the subcommand, and does what it asks for.
pub(super) fn run(subcommand: &Subcommand, argv: Vec<OsString>, console: &mut Console) -> anyhow::Result<ExitCode> {
    let command =
        (subcommand.command)().bin_name(format!("{PROGRAM} {}", subcommand.name)).version(env!("CARGO_PKG_VERSION"));
    match command.try_get_matches_from(argv) {
        Ok(matches) => (subcommand.run)(&matches, console),
        Err(error) => Ok(usage_error(&error)),
    }
}

/// Prints what `clap` has to say instead of running a command, which may be a help text. Returns the exit status.
pub(super) fn usage_error(error: &clap::Error) -> ExitCode {
    // Nothing is left to report to when the stream fails.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Writes a document for programs. What a terminal would obey, of which the format escapes a part only, is escaped too.
pub(super) fn write_json(document: &impl Serialize, out: &mut dyn Write) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document).map_err(|error| Error::io("-", error.into()))?;
    let mut lines = text.lines().map(escaped);
    lines.try_for_each(|line| writeln!(out, "{line}")).map_err(|error| Error::io("-", error))
}

/// A line of a document.
fn escaped(line: &str) -> Cow<'_, str> {
    if printable(line) == line {
        return line.into();
    }
    let mut escaped = String::new();
    for c in line.chars() {
        if printable(c.encode_utf8(&mut [0; 4])).starts_with(c) {
            escaped.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        }
    }
    escaped.into()
}

/// The status of a command line that cannot be understood.
const USAGE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_consistent_and_named_as_they_are_found() {
        all().debug_assert();
        for subcommand in SUBCOMMANDS {
            assert_eq!((subcommand.command)().get_name(), subcommand.name);
            assert_eq!(find(OsStr::new(subcommand.name)).map(|found| found.name), Some(subcommand.name));
        }
    }

    #[test]
    fn a_document_holds_nothing_that_a_terminal_obeys() {
        let hostile = "\x1b[2J \u{9b}2J \x7f \u{202e} \n \\ é \u{1f600}";
        let mut out = Vec::new();
        write_json(&vec![hostile, "plain"], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "[\n  \"\\u001b[2J \\u009b2J \\u007f \\u202e \\n \\\\ é \u{1f600}\",\n  \"plain\"\n]\n");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [hostile, "plain"]);
    }

    #[test]
    fn every_help_ends_with_examples_and_exit_statuses() {
        for subcommand in SUBCOMMANDS {
            let help = (subcommand.command)().render_long_help().to_string();
            // Beyond 100 characters clap would break an example in two.
            let examples = (subcommand.command)().get_after_help().unwrap().to_string();
            assert!(examples.lines().all(|line| line.chars().count() <= 100), "{}", subcommand.name);
            assert!(help.contains("\nExamples:\n") && help.contains("\nExit status:\n"), "{}", subcommand.name);
        }
    }
}
