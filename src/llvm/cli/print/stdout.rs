//! Prints to standard output. If the reader has closed it, that is not an error, and other errors are still reported.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::base::error::Error;
use crate::base::error::OsText;
use crate::base::io::sys;

use super::progress;

/// Runs `work`, which prints to standard output. A reader that has closed it is not an error, but does not hide one
/// either. An [`io::Error`] of `work` is one of the standard output, if it has no context.
pub(crate) fn to_stdout(work: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    let mut out = BufWriter::new(Stdout { out: io::stdout().lock(), is_terminal });
    let done = work(&mut out);
    unless_gone(out.flush().map_err(anyhow::Error::new))?;
    unless_gone(done)
}

/// Names the standard output in its errors. That its reader is gone is not an error.
fn unless_gone(done: anyhow::Result<()>) -> anyhow::Result<()> {
    let Err(error) = done else { return Ok(()) };
    let is_of_output = error.chain().next().is_some_and(|error| error.is::<io::Error>());
    let named = |error: anyhow::Error| error.downcast::<io::Error>().map(|error| Error::io("-", error).into());
    let error = if is_of_output { named(error).unwrap_or_else(|error| error) } else { error };
    if reader_is_gone(&error) { Ok(()) } else { Err(error) }
}

/// Standard output, which removes the line with the progress if it goes to the same terminal.
struct Stdout {
    out: StdoutLock<'static>,
    is_terminal: bool,
}

impl Write for Stdout {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        sys::ensure_output()?;
        let mut held = self.is_terminal.then(progress::hold);
        let written = self.out.write(data)?;
        held.iter_mut().for_each(|line| line.printed(data.get(..written).unwrap_or_default()));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints a text to standard output, as [`to_stdout`].
pub(crate) fn text_to_stdout(text: &[u8]) -> anyhow::Result<()> {
    to_stdout(|out| Ok(out.write_all(text)?))
}

/// Whether the error is only that the reader has closed standard output.
pub(crate) fn reader_is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|error| {
        error.file() == Some(Path::new("-"))
            && error.io_error().is_some_and(|reason| reason.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Prints the texts in the way of LLVM and returns `status`, or 1 if standard output fails. A reader that has closed it
/// is not a failure.
pub(crate) fn print(stdout: &[u8], stderr: &[u8], status: u8) -> ExitCode {
    let mut errors = io::stderr().lock();
    // If standard error fails, the failure cannot be reported.
    let _ = errors.write_all(stderr);
    let mut out = io::stdout().lock();
    let is_open = if stdout.is_empty() { Ok(()) } else { sys::ensure_output() };
    match is_open.and_then(|()| out.write_all(stdout)).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let reason = OsText(&error);
            let _ = writeln!(errors, "LLVM ERROR: IO failure on output stream: {reason}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(status),
    }
}
