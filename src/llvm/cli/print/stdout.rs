//! Prints to standard output. If the reader has closed it, that is not an error, and other errors are still reported.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::base::error::Error;
use crate::base::error::OsText;
use crate::base::io::sys;

/// Runs `work`, which prints to standard output. If the reader has closed the output, that is not an error, but any
/// other error of `work` is still returned. A bare [`io::Error`] of `work` counts as an error of standard output,
/// because errors of files name the file.
pub(crate) fn to_stdout(work: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    print_to(Stdout, work)
}

/// Like [`to_stdout`], through a writer that ends there.
pub(crate) fn print_to(
    stdout: impl Write,
    work: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(stdout);
    let done = work(&mut out);
    ignore_closed_output(out.flush().map_err(anyhow::Error::new))?;
    ignore_closed_output(done)
}

/// Returns the result, with a name for standard output in its errors. The error that the reader has closed the output
/// becomes `Ok`.
fn ignore_closed_output(done: anyhow::Result<()>) -> anyhow::Result<()> {
    let Err(error) = done else { return Ok(()) };
    let error = named_output(error);
    if reader_is_gone(&error) { Ok(()) } else { Err(error) }
}

/// Names standard output, as `-`, in a bare [`io::Error`]. Returns any other error as it is: an `io::Error` below a
/// context belongs to another file.
fn named_output(error: anyhow::Error) -> anyhow::Error {
    match error.chain().next() {
        Some(outermost) if outermost.is::<io::Error>() => {}
        _ => return error,
    }
    match error.downcast::<io::Error>() {
        Ok(reason) => Error::io("-", reason).into(),
        Err(error) => error,
    }
}

/// Standard output. If it was closed when the program started, writing fails.
pub(crate) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        sys::ensure_output()?;
        io::stdout().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Whether the error is only that the reader has closed standard output.
pub(crate) fn reader_is_gone(error: &anyhow::Error) -> bool {
    let Some(error) = error.downcast_ref::<Error>() else { return false };
    let Some(reason) = error.io_error() else { return false };
    error.file() == Some(Path::new("-")) && reason.kind() == io::ErrorKind::BrokenPipe
}

/// Writes a text to standard output `out`. If the output was closed when the program started, that is an error only if
/// there is a text to write.
fn write_and_flush(text: &[u8], out: &mut dyn Write) -> io::Result<()> {
    if !text.is_empty() {
        sys::ensure_output()?;
    }
    out.write_all(text)?;
    out.flush()
}

/// Prints the texts as LLVM does, and returns `status`, or 1 if standard output fails. A reader that has closed it is
/// not a failure.
pub(crate) fn print(stdout: &[u8], stderr: &[u8], status: u8) -> ExitCode {
    let mut errors = io::stderr().lock();
    // If standard error fails, the failure cannot be reported.
    let _ = errors.write_all(stderr);
    match write_and_flush(stdout, &mut io::stdout().lock()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let reason = OsText(&error);
            let _ = writeln!(errors, "LLVM ERROR: IO failure on output stream: {reason}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(status),
    }
}
