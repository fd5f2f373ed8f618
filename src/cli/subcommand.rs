//! The subcommands that LLVM's tools do not have. Their command lines are plain `clap`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::builder::PathBufValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use memchr::memmem;
use offload_bundle::display::printable;

use super::console::Console;
use super::options::Tool;
use super::suggest::distance;

/// The name of the executable that is LLVM's. In the examples of help texts it stands for the name that was typed.
pub(super) const PROGRAM: &str = "clang-offload-bundler";

/// The name of the executable that has subcommands only, and none of LLVM's options.
pub(super) const SHORT: &str = "offload-bundle";

/// Every first word that selects a subcommand: our own, and those that select LLVM's tools.
pub(super) const NAMES: [&str; 12] = [
    "inspect",
    "extract",
    "kernels",
    "diff",
    "verify",
    "recompress",
    "replace",
    "completions",
    "man",
    "help",
    "package",
    "extract-bundle-entry",
];

/// A subcommand.
#[derive(Debug)]
pub(super) struct Subcommand {
    /// The first word, which selects it.
    pub(super) name: &'static str,
    pub(super) command: fn() -> Command,
    pub(super) run: Run,
}

/// The work of a subcommand. An error ends with status 1.
#[derive(Debug)]
pub(super) enum Run {
    /// Runs on files. [`ExitCode::FAILURE`] means that the reason has been printed already.
    OnFiles(fn(&ArgMatches, &mut Console) -> anyhow::Result<ExitCode>),
    /// Runs on the definitions of the command lines, for a name of the executable.
    OnCatalogue(fn(&ArgMatches, &Catalogue, program: &str) -> anyhow::Result<()>),
}

/// All tools and subcommands of the executable.
#[derive(Debug)]
pub(super) struct Catalogue {
    /// LLVM's tools. The first one serves every name that does not select another tool.
    pub(super) tools: [&'static Tool; 3],
    /// Our own subcommands.
    pub(super) subcommands: [&'static Subcommand; 10],
}

impl Catalogue {
    /// The subcommand named by the first word of a command line.
    pub(super) fn find(&self, word: &OsStr) -> Option<&'static Subcommand> {
        self.subcommands.into_iter().find(|subcommand| word == subcommand.name)
    }

    /// The subcommands as those of one `clap` command, for manual pages and completions.
    pub(super) fn command(&self) -> Command {
        Command::new(PROGRAM)
            .about("Bundle, unbundle, inspect and check GPU code objects")
            .version(env!("CARGO_PKG_VERSION"))
            .disable_help_subcommand(true)
            .subcommands(self.subcommands.into_iter().map(|subcommand| (subcommand.command)()))
    }
}

impl Subcommand {
    /// The `clap` command for a name of the executable, which its usage and examples show.
    pub(super) fn named(&self, program: &str) -> Command {
        let name = format!("{program} {}", self.name);
        let command = (self.command)();
        let examples = command.get_after_help().map(|text| text.to_string().replace(PROGRAM, program));
        let command = command.bin_name(&name).display_name(name).version(env!("CARGO_PKG_VERSION"));
        command.after_help(examples.unwrap_or_default())
    }

    /// Parses the command line, without the name of the subcommand, and runs the subcommand.
    pub(super) fn run(
        &self,
        argv: &[OsString],
        catalogue: &Catalogue,
        console: &mut Console,
    ) -> anyhow::Result<ExitCode> {
        let typed = console.program();
        let program = typed.strip_suffix(self.name).map_or(typed.as_str(), str::trim_end);
        match (self.named(program).try_get_matches_from(argv), &self.run) {
            (Ok(matches), Run::OnFiles(run)) => run(&matches, console),
            (Ok(matches), Run::OnCatalogue(run)) => run(&matches, catalogue, program).map(|()| ExitCode::SUCCESS),
            (Err(error), _) => Ok(usage_error(&with_better_tip(error, argv))),
        }
    }
}

/// An option without a value.
pub(super) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// An option whose value is a path.
pub(super) fn path_option(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value_name).value_parser(PathBufValueParser::new()).help(help)
}

/// The subcommand that a misspelled word may mean: one that it abbreviates, otherwise the nearest one if at most half
/// of the word is wrong. A word with a dot or a slash is a file.
fn nearest(word: &OsStr) -> Option<&'static str> {
    let word = word.to_str().filter(|word| !word.is_empty() && !word.contains(['.', '/']))?;
    let errors = |name: &&str| if name.starts_with(word) { 0 } else { distance(word.as_bytes(), name.as_bytes()) };
    NAMES.into_iter().min_by_key(errors).filter(|name| errors(name) * 2 <= word.len())
}

/// The hint that names the subcommands, for a command line that is empty, is only `-h`, or begins with a word that is
/// neither a subcommand nor an option. Compilers never pass such command lines.
pub(super) fn hint(words: &[OsString]) -> Option<String> {
    let nearest = match words {
        [] => None,
        [word] if ["-h", "--h"].map(OsStr::new).contains(&word.as_os_str()) => None,
        [word, ..] if word.as_bytes().first().is_some_and(|first| !b"-@".contains(first)) => nearest(word),
        _ => return None,
    };
    let meant = nearest.map_or(String::new(), |name| format!("did you mean '{name}'? "));
    Some(format!("{meant}subcommands: {}", NAMES.join(", ")))
}

/// Prints an error or a help text of `clap`. Returns the exit status.
pub(super) fn usage_error(error: &clap::Error) -> ExitCode {
    // If the stream fails, the failure cannot be reported.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Replaces clap's tip for a file whose name begins with a dash, which quotes only the first letter instead of the
/// word.
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

/// Whether a word combines several short options, including this one.
fn is_group_with(word: &OsStr, option: &str) -> bool {
    let is_group = word.len() > 2 && word.as_bytes().starts_with(b"-") && !word.as_bytes().starts_with(b"--");
    is_group
        && option.strip_prefix('-').is_some_and(|letter| memmem::find(word.as_bytes(), letter.as_bytes()).is_some())
}

/// The exit status for an invalid command line.
pub(super) const USAGE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_one_letter_wrong_is_recognised_and_others_are_not() {
        for name in NAMES {
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
}
