//! LLVM 23's `llvm-extract-bundle-entry`, which copies the code objects that URIs name.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::llvm::uri::Uri;
use crate::llvm::work::ExtractUris;
use clap::{ArgAction, Parser, ValueHint};

use super::additions::Call;
use super::options::{GENERIC, Grammar, HelpStyle, OWN, Tool, ToolOptions};
use super::{help, texts};
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::print::stdout::print;
use crate::llvm::cli::values::limits;

pub(crate) const TOOL: &Tool = &Tool {
    names: &["extract-bundle-entry"],
    subcommand: Some("extract-bundle-entry"),
    grammar: Grammar::OptionTable,
    ..Tool::of::<BundleEntryOptions>()
};

/// Returns the description of the tool, with `$more` after it.
macro_rules! overview {
    ($more:literal) => {
        concat!(
            "llvm-extract-bundle-entry tool

Copies the code object that each URI names to a file beside the file of the URI:
  <file>-offset<offset>-size<size>.co

URI: file://<file>#offset=<number>&size=<number>, with ? or #, and numbers in
decimal, hexadecimal (0x10) or octal (010).",
            $more
        )
    };
}

#[cfg(not(feature = "cli"))]
const OVERVIEW: &str = overview!("");

#[cfg(feature = "cli")]
const OVERVIEW: &str = overview!(
    " 'inspect --json' prints longer URIs for
code objects in compressed bundles and members: their fields member=<name>,
inflated-offset=<number> and inflated-size=<number> are read too."
);

// The command line of the tool; see `llvm::cli::options` for the order of the fields and the meaning of the attributes.
// Fields that begin with `_` are options whose effect is in the grammar.
#[derive(Debug, Default, Parser)]
#[command(
    name = "llvm-extract-bundle-entry",
    about = "Copy the code objects that URIs name",
    long_about = OVERVIEW,
    version = concat!(texts::version!("llvm-extract-bundle-entry\nLLVM", "23.1.4"), "  Optimized build.\n")
)]
#[rustfmt::skip]
pub(crate) struct BundleEntryOptions {
    #[arg(value_name = "URI", value_hint = ValueHint::FilePath, help = "URI...")]
    uris: Vec<OsString>,
    #[arg(long, action = ArgAction::HelpLong, help_heading = GENERIC, help = "Display available options")]
    _help: (),
    #[arg(short = 'o', value_name = "file", value_hint = ValueHint::FilePath, help = "Write output to <file>, for a single URI; - is standard output")]
    output: Option<OsString>,
    #[arg(long, action = ArgAction::Version, help_heading = GENERIC, help = texts::VERSION)]
    _version: (),
    #[arg(short = 'V', action = ArgAction::Version, hide = true, help = "Alias for --version")]
    _short_version: (),
    #[arg(short = 'h', action = ArgAction::HelpLong, hide = true, help = "Alias for --help")]
    _short_help: (),
    #[arg(long, value_name = "bytes", help_heading = OWN, help = texts::MAX_SIZE)]
    max_size: Option<u64>,
}

impl ToolOptions for BundleEntryOptions {
    fn run(&self, call: &Call<'_>, _: &mut Console) -> anyhow::Result<ExitCode> {
        if self.uris.is_empty() {
            let help = help::text(&TOOL.command(), &[], call.program.name, HelpStyle::LONG);
            let (output, status) = (b"", 1);
            return Ok(print(output, &help, status));
        }
        let uris = self.uris.iter().map(|uri| Uri::parse(uri)).collect::<Result<Vec<_>, _>>()?;
        let mut extract = ExtractUris::new(uris).with_reader(call.additions.read_uri);
        extract.output = self.output.as_ref().map(PathBuf::from);
        extract.limits = limits(self.max_size);
        extract.run()?;
        Ok(ExitCode::SUCCESS)
    }
}
