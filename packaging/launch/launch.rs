//! Runs `clang-offload-bundler` from the directory of this executable, with the name by which this one was called. It
//! takes the place of a link where links cannot be: a wheel holds none.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Replaces this process. It returns only if that fails.
pub(crate) fn run() -> ExitCode {
    let mut words = env::args_os();
    let called = words.next().unwrap_or_default();
    let error = match env::current_exe() {
        Ok(own) => Command::new(own.with_file_name("clang-offload-bundler")).arg0(&called).args(words).exec(),
        Err(error) => error,
    };
    // There is nobody to tell if this fails too.
    drop(writeln!(io::stderr(), "{}: error: cannot run clang-offload-bundler: {error}", called.display()));
    ExitCode::FAILURE
}
