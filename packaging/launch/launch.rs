//! Runs `clang-offload-bundler` from the directory of this executable, under the name by which this one was called. This
//! takes the place of a link: neither wheels nor `cargo install` make any.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::{Command, ExitCode};

/// Runs the large executable with the words of this command line, and returns its exit status.
pub(crate) fn run() -> ExitCode {
    let mut words = env::args_os();
    let called: OsString = words.next().unwrap_or_default();
    match run_beside(&called, words) {
        Ok(status) => status,
        Err(error) => {
            let text = format!("{}: error: cannot run clang-offload-bundler: {error}", called.display());
            // If this fails too, nobody can be told.
            drop(writeln!(io::stderr(), "{text}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs `clang-offload-bundler` beside this executable, under another name.
fn run_beside(name: &OsStr, words: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let program = format!("clang-offload-bundler{}", env::consts::EXE_SUFFIX);
    let mut command = Command::new(env::current_exe()?.with_file_name(program));
    command.args(words);
    run_as(command, name)
}

/// Replaces this process by the command. It returns only if that fails.
#[cfg(unix)]
fn run_as(mut command: Command, name: &OsStr) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    offload_bundle::io::sys::close_again();
    Err(command.arg0(name).exec())
}

/// Runs the command to its end. On Windows, the name reaches the program in a variable: a program is always called by the
/// name of its file.
#[cfg(windows)]
fn run_as(mut command: Command, name: &OsStr) -> io::Result<ExitCode> {
    let status = command.env("OFFLOAD_BUNDLE_CALLED_AS", name).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
