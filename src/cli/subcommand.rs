//! The subcommands that LLVM's tools do not have. Their command lines are plain `clap`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use memchr::memmem;
use offload_bundle::Error;
use offload_bundle::error::printable;
use serde::{Serialize, Serializer};

use super::console::Console;
use super::suggest::distance;
use super::{TOOLS, completions, extract, inspect, man, overview, recompress, verify};

/// The name under which help and man pages know the executable.
pub(super) const PROGRAM: &str = "clang-offload-bundler";

/// A subcommand.
#[derive(Debug)]
pub(super) struct Subcommand {
    /// The first word, which chooses it.
    pub(super) name: &'static str,
    /// Its command line.
    pub(super) command: fn() -> Command,
    /// Runs it. An error ends with status 1, as does [`ExitCode::FAILURE`], whose reason has been printed already.
    pub(super) run: fn(&ArgMatches, &mut Console) -> anyhow::Result<ExitCode>,
}

impl Subcommand {
    /// Its command line, under the name by which the executable is called for it.
    pub(super) fn named(&self) -> Command {
        let name = format!("{PROGRAM} {}", self.name);
        (self.command)().bin_name(&name).display_name(name).version(env!("CARGO_PKG_VERSION"))
    }
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

/// Every first word that selects a subcommand: our own, and those that select LLVM's tools.
pub(super) fn names() -> Vec<&'static str> {
    let own = SUBCOMMANDS.into_iter().map(|subcommand| subcommand.name);
    own.chain(TOOLS.into_iter().filter_map(|tool| tool.subcommand)).collect()
}

/// The names in one line.
pub(super) fn listed() -> String {
    names().join(", ")
}

/// The subcommand that a misspelled word may mean: one that it abbreviates, or else the nearest, if at most half of the word
/// is wrong.
fn nearest(word: &OsStr) -> Option<&'static str> {
    let word = word.to_str().filter(|word| !word.is_empty())?;
    let errors = |name: &&str| if name.starts_with(word) { 0 } else { distance(word.as_bytes(), name.as_bytes()) };
    names().into_iter().min_by_key(errors).filter(|name| errors(name) * 2 <= word.len())
}

/// The hint that names the subcommands, for a command line that is empty, is only `-h`, or begins with a word that is neither a
/// subcommand nor an option. Compilers never pass these.
pub(super) fn hint(words: &[OsString]) -> Option<String> {
    let nearest = match words {
        [] => None,
        [word] if ["-h", "--h"].map(OsStr::new).contains(&word.as_os_str()) => None,
        [word, ..] if word.as_bytes().first().is_some_and(|first| !b"-@".contains(first)) => nearest(word),
        _ => return None,
    };
    let meant = nearest.map_or(String::new(), |name| format!("did you mean '{name}'? "));
    Some(format!("{meant}subcommands: {}", listed()))
}

/// All subcommands as those of one command, for man pages and completions.
pub(super) fn all() -> Command {
    let subcommands = SUBCOMMANDS.into_iter().map(|subcommand| (subcommand.command)());
    Command::new(PROGRAM)
        .about("Bundle, unbundle, inspect and check GPU code objects")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommands(subcommands)
}

/// Reads the command line, without the name of the subcommand, and does what it asks for.
pub(super) fn run(subcommand: &Subcommand, argv: Vec<OsString>, console: &mut Console) -> anyhow::Result<ExitCode> {
    match subcommand.named().try_get_matches_from(&argv) {
        Ok(matches) => (subcommand.run)(&matches, console),
        Err(error) => Ok(usage_error(&with_better_tip(error, &argv))),
    }
}

/// Prints what `clap` has to say instead of running a command, which may be a help text. Returns the exit status.
pub(super) fn usage_error(error: &clap::Error) -> ExitCode {
    // Nothing is left to report to when the stream fails.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Replaces clap's tip on a file whose name begins with a dash: it takes the first letter for the whole word.
fn with_better_tip(mut error: clap::Error, argv: &[OsString]) -> clap::Error {
    let refused = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(refused))) => refused.clone(),
        _ => return error,
    };
    let Some(word) = argv.iter().skip(1).find(|word| is_group_with(word, &refused)) else { return error };
    error.remove(ContextKind::Suggested);
    if Path::new(word).exists() {
        let name = printable(&word.to_string_lossy());
        let tip = format!("'{name}' is a file; type './{name}', or '--' before it");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Whether a word is several short options written together, of which this is one.
fn is_group_with(word: &OsStr, option: &str) -> bool {
    let is_group = word.len() > 2 && word.as_bytes().starts_with(b"-") && !word.as_bytes().starts_with(b"--");
    is_group
        && option.strip_prefix('-').is_some_and(|letter| memmem::find(word.as_bytes(), letter.as_bytes()).is_some())
}

/// Writes a JSON document. Escapes everything that a terminal would interpret, which JSON alone does not require.
pub(super) fn write_json(document: &impl Serialize, out: &mut dyn Write) -> Result<(), Error> {
    let mut lines = Lines { out, line: Vec::new() };
    serde_json::to_writer_pretty(&mut lines, document).map_err(|error| Error::io("-", error.into()))?;
    lines.write_all(b"\n").map_err(|error| Error::io("-", error))
}

/// A value that is known only when its turn comes.
pub(super) struct Late<F>(pub(super) F);

impl<T: Serialize, F: Fn() -> T> Serialize for Late<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0)().serialize(serializer)
    }
}

/// Serializes each item when it is its turn, so that no more than one is in memory.
pub(super) struct Each<I>(RefCell<I>);

impl<I> Each<I> {
    pub(super) fn new(items: I) -> Self {
        Self(RefCell::new(items))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Each<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&mut *self.0.borrow_mut())
    }
}

/// Escapes a document line by line, as it comes.
struct Lines<'o> {
    out: &'o mut dyn Write,
    line: Vec<u8>,
}

impl Write for Lines<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let len = memchr::memchr(b'\n', data).map_or(data.len(), |end| end.saturating_add(1));
        let (data, _) = data.split_at_checked(len).unwrap_or((data, b""));
        self.line.extend_from_slice(data);
        if self.line.ends_with(b"\n") {
            let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(io::Error::other)?;
            writeln!(self.out, "{}", escaped(line.trim_end_matches('\n')))?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
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

/// The exit status for an invalid command line.
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
    fn a_word_with_one_letter_wrong_is_recognised_and_others_are_not() {
        for name in names() {
            for at in 0..name.len() {
                let (before, rest) = name.split_at(at);
                for with in ["", "k", "kk"] {
                    let word = [before, with, &rest[usize::from(with.len() < 2)..]].concat();
                    assert_eq!(nearest(OsStr::new(&word)), Some(name), "{word}");
                }
            }
        }
        for word in ["", "libkernels.so", "a", "list", "unbundle", "\u{fffd}"] {
            assert_eq!(nearest(OsStr::new(word)), None, "{word}");
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
