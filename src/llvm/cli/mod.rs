//! The command lines of LLVM's tools, which share LLVM's grammar. The options of a [`Tool`](options::Tool) are one
//! struct, derived with `clap`. [`parse`] expands response files ([`response`]), reads the words as LLVM does
//! ([`grammar`], or [`option_table`] for `llvm-extract-bundle-entry`), and has `clap` fill the struct. The tool's own
//! module turns the struct into a job of the library.

mod additions;
pub(crate) mod bundle_entry;
pub(crate) mod bundler;
pub(crate) mod environment;
pub(crate) mod grammar;
pub(crate) mod help;
pub(crate) mod objcopy;
pub(crate) mod option_table;
pub(crate) mod options;
pub(crate) mod packager;
pub(crate) mod parse;
pub(crate) mod print;
pub(crate) mod program;
pub(crate) mod response;
pub(crate) mod suggest;
pub(crate) mod texts;
pub(crate) mod values;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::process::ExitCode;

use additions::Call;
use options::Tool;
use parse::{ParsedCommandLine, parse};
use print::console::{Console, NotedError};
use print::stdout::{print, reader_is_gone};
use program::Program;

use crate::base::error::Error;

pub(crate) use additions::Additions;

/// LLVM's tools. The first one serves every name that does not select another tool.
pub(crate) const TOOLS: [&Tool; 3] = [bundler::TOOL, packager::TOOL, bundle_entry::TOOL];

/// Runs the tool for a command line, including `argv[0]`, or a command of another part of the program. Returns the exit
/// status.
pub(crate) fn run(argv: Vec<OsString>, additions: &'static Additions) -> ExitCode {
    // From here on, a mapped input that becomes shorter ends the process with an error.
    crate::base::io::hand_over();
    let (tool, argv) = select_tool(argv);
    if tool.serves_every_name() {
        // The other part runs the command line if it is for one of its subcommands.
        if let Some(status) = (additions.run)(&argv) {
            return status;
        }
    }
    let mut console = Console::new(program_name(&argv));
    let (matches, called) = match parse(tool, argv, additions) {
        ParsedCommandLine::Exit { stdout, stderr, hint, status } => {
            let status = print(&stdout, &stderr, status);
            if let Some(hint) = hint {
                console.hint(&hint);
            }
            return status;
        }
        ParsedCommandLine::Run { matches, called, complaint } => {
            // If standard error fails, the failure cannot be reported.
            let _ = io::stderr().write_all(&complaint);
            (matches, called)
        }
    };
    // Without matches, a response file could not be read, and the tool goes on without any option, as LLVM's does.
    let call = Call { program: Program::new(&called), additions };
    let executed = (tool.execute)(matches, &call, &mut console);
    // Only command lines that cannot be parsed get a hint.
    finish(&console, executed, |_| None)
}

/// Ends the messages of a command: reports its error with the hint for it, then prints the hints kept for the end.
/// Returns the exit status. A closed standard output is not an error. `hint` returns the hint for an error of the
/// library, or `None` without one.
pub(crate) fn finish(
    console: &Console,
    executed: anyhow::Result<ExitCode>,
    hint: fn(&Error) -> Option<String>,
) -> ExitCode {
    let status = match executed {
        Ok(status) => status,
        Err(error) if reader_is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let known = error.downcast_ref::<Error>();
            let text = match known {
                Some(known) => known.to_string(),
                None => error.to_string(),
            };
            console.error(&text, known);
            if let Some(NotedError { note, .. }) = error.downcast_ref() {
                console.note(note);
            }
            if let Some(known) = known
                && let Some(hint) = hint(known)
            {
                console.hint(&hint);
            }
            ExitCode::FAILURE
        }
    };
    for hint in &console.last_hints {
        console.hint(hint);
    }
    status
}

/// Returns the tool that a program's name selects, or `None` if the name is not that of a tool. As in LLVM, the name
/// may have a prefix or a suffix, such as a version.
pub(crate) fn tool_of_program(program: &[u8]) -> Option<&'static Tool> {
    for tool in TOOLS {
        for name in tool.names {
            if memchr::memmem::find(program, name.as_bytes()).is_some() {
                return Some(tool);
            }
        }
    }
    None
}

/// Selects the tool for a command line: by the program's name, or else by the first word, or else the bundler. Returns
/// the tool with the command line, without a word that has selected it.
fn select_tool(argv: Vec<OsString>) -> (&'static Tool, Vec<OsString>) {
    let called = Program::new(program_name(&argv));
    if let Some(tool) = tool_of_program(called.name) {
        return (tool, argv);
    }
    for tool in TOOLS {
        if let (Some(name), Some(word)) = (tool.subcommand, argv.get(1))
            && word == name
        {
            return (tool, without_subcommand(argv, name));
        }
    }
    let [bundler, ..] = TOOLS;
    (bundler, argv)
}

/// `argv[0]`, or an empty name without it.
fn program_name(argv: &[OsString]) -> &OsStr {
    match argv.first() {
        Some(name) => name,
        None => OsStr::new(""),
    }
}

/// Removes the word that names a subcommand, and appends it to the program's name as shown in messages and help.
pub(crate) fn without_subcommand(mut argv: Vec<OsString>, word: &str) -> Vec<OsString> {
    if argv.len() > 1 {
        argv.remove(1);
    }
    if let Some(name) = argv.first_mut() {
        name.push(" ");
        name.push(word);
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(argv: &[&str]) -> (&'static str, Vec<String>) {
        let (tool, argv) = select_tool(argv.iter().map(OsString::from).collect());
        (
            tool.command().get_name().to_owned().leak(),
            argv.into_iter().map(|word| word.into_string().unwrap()).collect(),
        )
    }

    #[test]
    fn the_name_chooses_the_tool() {
        for name in [
            "llvm-offload-binary",
            "/a/b/clang-offload-packager",
            "x86_64-linux-gnu-llvm-offload-binary-22",
            "clang-offload-packager.exe",
        ] {
            assert_eq!(
                chosen(&[name, "package"]),
                ("llvm-offload-binary", vec![name.to_owned(), "package".to_owned()])
            );
        }
        for name in ["clang-offload-bundler", "clang-offload-bundler-22", "foo", "", "llvm-offload-binary/foo"] {
            assert_eq!(chosen(&[name, "-list"]).0, "clang-offload-bundler", "{name}");
        }
        for name in ["llvm-extract-bundle-entry", "/a/llvm-extract-bundle-entry-23"] {
            assert_eq!(chosen(&[name, "-h"]).0, "llvm-extract-bundle-entry", "{name}");
        }
        assert_eq!(chosen(&[]), ("clang-offload-bundler", vec![]));
    }

    #[test]
    fn the_first_word_chooses_the_tool_and_goes_into_the_name() {
        let argv = ["a/b package", "-o=x"].map(str::to_owned).to_vec();
        assert_eq!(chosen(&["a/b", "package", "-o=x"]), ("llvm-offload-binary", argv));
        for word in ["-package", "Package", "packag", "", "package=1"] {
            assert_eq!(chosen(&["b", word]), ("clang-offload-bundler", vec!["b".to_owned(), word.to_owned()]));
        }
        assert_eq!(chosen(&["b", "-list", "package"]).0, "clang-offload-bundler");
    }
}
