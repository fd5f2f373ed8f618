//! Runs `clang-offload-bundler` from the directory of this executable, with the name by which this one was called. It
//! takes the place of a link where links cannot be: a wheel holds none.

use std::env;
use std::io::{self, Write};
use std::process::{Command, ExitCode};

/// Runs it, on Unix in place of this process.
pub(crate) fn run() -> ExitCode {
    let mut words = env::args_os();
    let called = words.next().unwrap_or_default();
    let program = format!("clang-offload-bundler{}", env::consts::EXE_SUFFIX);
    let ended = env::current_exe().and_then(|own| {
        let mut command = Command::new(own.with_file_name(program));
        command.args(words);
        named(command, &called)
    });
    ended.unwrap_or_else(|error| {
        // There is nobody to tell if this fails too.
        drop(writeln!(io::stderr(), "{}: error: cannot run clang-offload-bundler: {error}", called.display()));
        ExitCode::FAILURE
    })
}

/// Replaces this process. It returns only if that fails.
#[cfg(unix)]
fn named(mut command: Command, called: &std::ffi::OsStr) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    offload_bundle::io::sys::close_again();
    Err(command.arg0(called).exec())
}

/// Runs the command to its end. Windows gives a program no other name than that of its file.
#[cfg(windows)]
fn named(mut command: Command, called: &std::ffi::OsStr) -> io::Result<ExitCode> {
    let status = command.env("OFFLOAD_BUNDLE_CALLED_AS", called).status()?;
    let status = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(status.map_or(ExitCode::FAILURE, ExitCode::from))
}
