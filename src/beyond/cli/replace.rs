//! `replace`: puts a changed code object back in its place.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::beyond::job::Replace;
use crate::llvm::uri::Uri;
use clap::Parser;

use super::files::SizeOption;
use super::print::units::bytes;
use super::subcommand::Options;
use crate::llvm::cli::print::console::Console;

/// Put a changed code object back in its place
#[derive(Clone, Debug, Parser)]
pub(super) struct ReplaceOptions {
    #[arg(help = "URI of the code object to replace: file://<path>#offset=<n>&size=<n>")]
    uri: OsString,
    /// File with the new code object.
    file: PathBuf,
    /// File to write; - writes to standard output (default: the file of the URI).
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Also write a code object of another kind, for another target, or a broken one.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    size: SizeOption,
}

impl Options for ReplaceOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let mut replace = Replace::new(Uri::parse(&self.uri)?, &self.file);
        (replace.limits, replace.force) = (self.size.limits(), self.force);
        if let Some(output) = &self.output {
            replace.output.clone_from(output);
        }
        let replaced = replace.run(&mut |event| console.event(event))?;
        let how = if replaced.is_in_place {
            "in place"
        } else if replaced.is_now_compressed {
            "its bundle had no room and is compressed now"
        } else {
            "its container was written again"
        };
        console.line(&format!("code object: {} before, {} now; {how}", bytes(replaced.before), bytes(replaced.after)));
        Ok(ExitCode::SUCCESS)
    }
}
