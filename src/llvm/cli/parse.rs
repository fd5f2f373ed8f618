//! Parses `argv`: expands response files, applies LLVM's grammar, and lets `clap` parse the words that it gives.

use std::ffi::OsString;

use clap::ArgMatches;

use super::additions::Additions;
use super::grammar::{self, GrammarResult};
use super::help;
use super::option_table;
use super::options::{Grammar, ImmediateAction, Tool};
use super::response;
use crate::llvm::cli::program::Program;

/// The result of parsing a command line.
#[derive(Debug)]
pub(crate) enum ParsedCommandLine {
    /// Run the tool.
    Run {
        /// The options, or `None` to go on without any.
        matches: Option<ArgMatches>,
        /// `argv[0]` after response files are expanded, for messages.
        called: OsString,
        /// An error that LLVM prints and then ignores; empty without such an error. It is printed first.
        complaint: Vec<u8>,
    },
    /// Only print these texts and exit with this status.
    Exit {
        stdout: Vec<u8>,
        /// The text that is printed first.
        stderr: Vec<u8>,
        /// A way to fix the command line, printed last.
        hint: Option<String>,
        status: u8,
    },
}

/// Parses a command line, including `argv[0]`. Prints nothing; the result has the texts to print.
pub(crate) fn parse(tool: &Tool, argv: Vec<OsString>, additions: &Additions) -> ParsedCommandLine {
    let typed = argv.first().cloned().unwrap_or_default();
    let words = argv.get(1..).unwrap_or_default();
    // Only the bundler, which serves every program name, has a hint: a person may have wanted a subcommand. So the hint
    // is about the words as typed, before response files are expanded.
    let hint = if tool.serves_every_name() { (additions.hint)(&typed, words) } else { None };
    let argv = match response::expand(argv) {
        Ok(argv) => argv,
        Err(message) => {
            let complaint = [message, b"\n".to_vec()].concat();
            if tool.goes_on_without_options {
                return ParsedCommandLine::Run { matches: None, called: typed, complaint };
            }
            return refused(complaint, None);
        }
    };
    let called = argv.first().cloned().unwrap_or_default();
    let program = Program::new(&called);
    // Freeing all parts of the command would take longer than parsing most command lines, and the process ends soon.
    let command = Box::leak(Box::new(tool.command()));
    let read = match tool.grammar {
        Grammar::CommandLine => grammar::read,
        Grammar::OptionTable => option_table::read,
    };
    match read(command, &program, argv.get(1..).unwrap_or_default()) {
        GrammarResult::Words(words) => match command.try_get_matches_from_mut(words) {
            Ok(matches) => ParsedCommandLine::Run { matches: Some(matches), called, complaint: Vec::new() },
            // Not expected: the grammar gives only words that the definition allows.
            Err(error) => refused(error.to_string().into_bytes(), None),
        },
        GrammarResult::Immediate(action, stderr) => {
            let stdout = match action {
                ImmediateAction::Help(style) => {
                    help::text(command, &help::subcommands(tool, additions), program.name, style)
                }
                ImmediateAction::Version => help::version(command),
            };
            ParsedCommandLine::Exit { stdout, stderr, hint: None, status: 0 }
        }
        GrammarResult::Refused(stderr) => refused(stderr, hint),
    }
}

/// The result for a command line that is refused with these complaints, and with a hint if there is one.
fn refused(stderr: Vec<u8>, hint: Option<String>) -> ParsedCommandLine {
    ParsedCommandLine::Exit { stdout: Vec::new(), stderr, hint, status: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::cli::bundler::TOOL;
    use crate::llvm::cli::packager;

    const HINTING: Additions = Additions { hint: |_, _| Some("what may be meant".to_owned()), ..Additions::NONE };

    fn parsed(words: &[&str]) -> ParsedCommandLine {
        parse(TOOL, [&["foo"], words].concat().into_iter().map(OsString::from).collect(), &Additions::NONE)
    }

    fn exit(words: &[&str]) -> (String, String, u8) {
        match parsed(words) {
            ParsedCommandLine::Exit { stdout, stderr, status, .. } => {
                (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn short_help_waits_for_the_end() {
        let ParsedCommandLine::Run { matches, .. } = parsed(&["-h", "-type=o", "-list"]) else { panic!() };
        for id in ["short_help", "list"] {
            assert_eq!(matches.as_ref().unwrap().get_one::<bool>(id), Some(&true), "{id}");
        }
        let (stdout, stderr, status) = exit(&["-h"]);
        assert_eq!(stdout, "");
        assert_eq!(
            (stderr.lines().next(), status),
            (Some("foo: for the --type option: must be specified at least once!"), 1)
        );
    }

    #[test]
    fn an_unreadable_response_file_leaves_no_option() {
        let ParsedCommandLine::Run { matches: None, complaint, .. } = parsed(&["--help", "@/"]) else { panic!() };
        assert_eq!(String::from_utf8(complaint).unwrap(), "cannot not open file '/': Is a directory\n");
        let ParsedCommandLine::Exit { stderr, status, .. } =
            parse(packager::TOOL, ["foo", "@/"].map(OsString::from).to_vec(), &Additions::NONE)
        else {
            panic!()
        };
        assert_eq!((stderr.as_slice(), status), (&b"cannot not open file '/': Is a directory\n"[..], 1));
    }

    #[test]
    fn no_words_at_all_are_refused_too() {
        let ParsedCommandLine::Exit { stderr, hint, status, .. } = parse(TOOL, Vec::new(), &HINTING) else { panic!() };
        assert!(stderr.starts_with(b": for the --type option: must be specified at least once!\n"));
        assert_eq!(hint.as_deref(), Some("what may be meant"));
        assert_eq!(status, 1);
    }
}
