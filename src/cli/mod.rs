//! The command line: what was typed, what it means, and what is printed.
//!
//! The options themselves are rows of one table ([`options`]). `parse` expands response files ([`response`]), reads
//! the words as LLVM 22.1.8 does ([`grammar`]) and leaves typed values to `clap`; [`job`] turns them into a job of
//! the library.

mod console;
mod environment;
mod grammar;
mod help;
mod job;
mod objcopy;
mod options;
mod parse;
mod program;
mod raw;
mod response;
mod suggest;
mod values;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use console::Console;
use environment::Environment;
use job::Job;
use offload_bundle::Error;
use offload_bundle::error::OsText;
use offload_bundle::job::Event;
use parse::{Parsed, parse};
use raw::RawArgs;

/// Runs the tool for one command line, `argv[0]` included.
pub(crate) fn run(argv: Vec<OsString>) -> ExitCode {
    let mut console = Console::new(argv.first().map_or("".as_ref(), OsString::as_os_str));
    match parse(argv) {
        Parsed::Exit { stdout, stderr, status } => print(&stdout, &stderr, status),
        Parsed::Run(raw) => match execute(raw, &mut console) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if reader_is_gone(&error) => ExitCode::SUCCESS,
            Err(error) => {
                console.error(&error.to_string());
                ExitCode::FAILURE
            }
        },
    }
}

fn execute(raw: RawArgs, console: &mut Console) -> anyhow::Result<()> {
    let environment = Environment::read(|name| std::env::var_os(name), &mut |text| console.line(text));
    console.set_verbose(raw.verbose.unwrap_or(environment.verbose));
    console.set_comparisons(raw.debug_only.iter().any(|name| name == "CodeObjectCompatibility"));
    let job = job::plan(raw, &environment, &mut |text| console.warning(text))?;
    let mut observer = |event: Event<'_>| console.event(event);
    match job {
        Job::List(list) => {
            let mut out = BufWriter::new(io::stdout().lock());
            let listed = list.run(&mut out, &mut observer);
            out.flush().map_err(|error| Error::io("-", error))?;
            listed?;
        }
        Job::Bundle(bundle) => bundle.run(&mut observer)?,
        Job::Unbundle(unbundle) => unbundle.run(&mut observer)?,
        Job::UnbundleArchive(unbundle) => unbundle.run(&mut observer)?,
    }
    Ok(())
}

/// Whether the error is only that whoever read the standard output has stopped.
fn reader_is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::Io { path, source })
        if path == Path::new("-") && source.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints the texts and ends with `status`, or with 1 when the standard output takes no more; a reader that has gone
/// away is no error.
fn print(stdout: &[u8], stderr: &[u8], status: u8) -> ExitCode {
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
