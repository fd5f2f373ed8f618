//! The standard output. That its reader has gone away is not an error.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use offload_bundle::Error;
use offload_bundle::error::OsText;

/// Does work that prints to the standard output. A reader that has gone away is no error, nor does it hide one.
pub(super) fn to_stdout(work: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Result<(), Error> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = work(&mut out);
    let flushed = out.flush().map_err(|error| Error::io("-", error));
    let unless_gone = |done: Result<(), Error>| done.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) });
    unless_gone(flushed)?;
    unless_gone(done)
}

/// Whether the error is only that whoever read the standard output has stopped.
pub(super) fn reader_is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(is_gone)
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { path, source }
        if path == Path::new("-") && source.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints the texts and ends with `status`, or with 1 when the standard output takes no more; a reader that has gone
/// away is no error.
pub(super) fn print(stdout: &[u8], stderr: &[u8], status: u8) -> ExitCode {
    let mut errors = io::stderr().lock();
    // Nothing is left to report to when the error stream fails.
    let _ = errors.write_all(stderr);
    let mut out = io::stdout().lock();
    match out.write_all(stdout).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let reason = OsText(&error);
            let _ = writeln!(errors, "LLVM ERROR: IO failure on output stream: {reason}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(status),
    }
}
