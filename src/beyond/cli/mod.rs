//! The command lines that LLVM's tools do not have: [`Subcommand`]s, parsed by `clap` alone. Each parses arguments,
//! runs a job and prints results. [`ADDITIONS`] is their place in the command lines of LLVM's tools.

mod catalogue;
mod completions;
mod deep;
mod diff;
mod documented;
mod extract;
mod files;
mod gpus;
mod inspect;
mod judged;
mod kernels;
mod man;
mod meant;
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

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use catalogue::CATALOGUE;
use subcommand::{OFFLOAD_BUNDLE, Subcommand, USAGE_STATUS};

use self::print::progress;
use crate::base::display::printable;
use crate::base::error::{Error, ErrorKind};
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::print::stdout::print;
use crate::llvm::cli::program::Program;
use crate::llvm::cli::{Additions, finish, without_subcommand};

/// The name of LLVM's bundler.
pub(crate) const BUNDLER: &str = "clang-offload-bundler";

/// The hooks that the command lines of LLVM's tools call for our subcommands, hints and URIs.
pub(crate) const ADDITIONS: &Additions = &Additions {
    run: run_if_ours,
    subcommands: || CATALOGUE.abouts().collect(),
    hint: |program, words| CATALOGUE.hint(program, words),
    read_uri: |uri, file, limits, take| take(uri.resolve(file, limits)?.as_slice()),
};

/// Runs a command line that begins with one of our subcommands, and every command line of `offload-bundle`. Returns
/// `None` for all other command lines: LLVM's tools read them.
fn run_if_ours(argv: &[OsString]) -> Option<ExitCode> {
    if let Some(word) = argv.get(1)
        && let Some(subcommand) = CATALOGUE.find(word)
    {
        return Some(run_subcommand(subcommand, argv.to_vec()));
    }
    if let Some(typed) = argv.first()
        && Program::new(typed).is_called(OFFLOAD_BUNDLE)
    {
        return Some(run_offload_bundle(argv));
    }
    None
}

impl Program<'_> {
    /// Returns whether the program has this name, with the system's extension of executables or without it.
    fn is_called(&self, name: &str) -> bool {
        self.name.strip_suffix(EXE_SUFFIX.as_bytes()).unwrap_or(self.name) == name.as_bytes()
    }
}

/// Runs one of our own subcommands. Prints its error and its hints, and returns the exit status.
fn run_subcommand(subcommand: Subcommand, argv: Vec<OsString>) -> ExitCode {
    let argv = without_subcommand(argv, subcommand.name);
    let mut console = Console::new(&argv.first().cloned().unwrap_or_default());
    console.write = progress::write_to_stderr;
    progress::start(subcommand.name);
    let (executed, usage_hint) = subcommand.run(CATALOGUE, &argv, &mut console);
    progress::end();
    let status = finish(&console, executed, hint_for_error);
    if let Some(hint) = usage_hint {
        console.hint(&hint);
    }
    status
}

/// Runs a command line of `offload-bundle` that has no subcommand: prints the help or the version, or refuses the
/// words. LLVM's options belong to `clang-offload-bundler`.
fn run_offload_bundle(argv: &[OsString]) -> ExitCode {
    let words = argv.get(1..).unwrap_or_default();
    // Without words, the help is printed.
    let word = match words.first() {
        Some(word) => word.to_string_lossy(),
        None => "--help".into(),
    };
    let (no_errors, success) = (b"", 0);
    match word.as_ref() {
        "--help" | "-h" => return print(&overview::overview(OFFLOAD_BUNDLE), no_errors, success),
        "--version" | "-V" => {
            return print(format!("{OFFLOAD_BUNDLE} {}\n", env!("CARGO_PKG_VERSION")).as_bytes(), no_errors, success);
        }
        _ => {}
    }
    let console = Console::new(OFFLOAD_BUNDLE.as_ref());
    console.error(&format!("'{word}' is not a subcommand"), None);
    let hint = if words.first().is_some_and(|word| Path::new(word).exists()) {
        format!("did you mean '{OFFLOAD_BUNDLE} inspect {}'?", printable(&word))
    } else if let Some(hint) = CATALOGUE.hint(OFFLOAD_BUNDLE.as_ref(), words) {
        hint
    } else {
        format!("LLVM's options belong to the name {BUNDLER}: type '{BUNDLER} {word} ...', or '{OFFLOAD_BUNDLE} help'")
    };
    console.hint(&hint);
    ExitCode::from(USAGE_STATUS)
}

/// Returns a way to fix an error, in terms of the command line, or `None` if the error says enough.
fn hint_for_error(error: &Error) -> Option<String> {
    const WRITE_ALL: &str = "write all of them into a directory with -o DIR";
    if let Some(hint) = error.hint() {
        return Some(hint.to_owned());
    }
    match error.kind() {
        // `sole_match` returns an ID that selects one of the matches alone, or `None` if there is no such ID.
        ErrorKind::Ambiguous => Some(match error.sole_match() {
            Some(id) => format!("choose one, such as --exact --target='{id}' with no other --target, or {WRITE_ALL}"),
            None => WRITE_ALL.to_owned(),
        }),
        ErrorKind::Io if error.io_error()?.kind() == io::ErrorKind::NotFound => {
            let parent = error.file()?.parent()?;
            // If the directory exists, only the file itself does not, and the error says so.
            if parent.as_os_str().is_empty() || parent.exists() {
                return None;
            }
            Some(format!("the directory '{}' does not exist", parent.display()))
        }
        _ => suggest::hint_for_no_match(error),
    }
}
