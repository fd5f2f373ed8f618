//! LLVM 23's `llvm-extract-bundle-entry`, which copies the code objects that URIs name.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use offload_bundle::io::Accept;
use offload_bundle::io::sys;
use offload_bundle::llvm::ExtractUris;
use offload_bundle::scan::Uri;

use super::options::{Action, HELP, MAX_SIZE_HELP, Positional, Row, Shown, Tool, ValueKind};
use super::settings::Settings;
use crate::cli::files::open;
use crate::cli::print::console::Console;
use crate::cli::program::Program;
use crate::cli::values::{limits, size};

pub(crate) const TOOL: &Tool = &Tool {
    names: &["extract-bundle-entry"],
    subcommand: Some("extract-bundle-entry"),
    rows: ROWS,
    positional: Some(Positional { id: "uri", usage: "URI...", value_name: "URI", most: usize::MAX }),
    about: "Copy the code objects that URIs name",
    overview: OVERVIEW,
    title: "llvm-extract-bundle-entry",
    version_of: "llvm-extract-bundle-entry\nLLVM",
    release: "23.1.4",
    version_details: "  Optimized build.\n",
    goes_on_without_options: false,
    execute,
};

/// The description of the tool.
const OVERVIEW: &str = "llvm-extract-bundle-entry tool

Copies the code object that each URI names to a file beside the file of the URI:
  <file>-offset<offset>-size<size>.co
Without a URI, reads URIs from standard input, one per line.

URI: file://<file>#offset=<number>&size=<number>, with ? or #, and numbers in
decimal, hexadecimal (0x10) or octal (010). 'inspect --json' prints longer URIs for
code objects in compressed bundles and members: their fields member=<name>,
inflated-offset=<number> and inflated-size=<number> are read too.";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row::secret("V", ValueKind::Act(Action::Version), "", "Alias for --version"),
    Row::secret("h", HELP, "", "Alias for --help"),
    Row::generic("help", HELP, Shown::Always, 0, "Display available options"),
    Row::tool("o", ValueKind::Text, "file", 1, "Write output to <file>, for a single URI; - is standard output"),
    Row::generic("version", ValueKind::Act(Action::Version), Shown::Always, 2, "Display the version of this program"),
    Row::own("max-size", ValueKind::Size, "bytes", 3, MAX_SIZE_HELP),
];

fn execute(_: &Program<'_>, settings: &Settings, _: &mut Console) -> anyhow::Result<ExitCode> {
    let limits = limits(settings.parsed("max-size", size));
    let mut uris = settings.all("uri").map(Uri::parse).collect::<Result<Vec<_>, _>>()?;
    if uris.is_empty() {
        ensure!(!io::stdin().is_terminal(), "no URI is given; --help describes them");
        let input = open(Path::new("-"), Accept::Finite, limits.streamed)?;
        let lines = input.bytes().split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let named = lines.filter(|line| !line.is_empty()).map(|line| Uri::parse(&sys::os_str(line)));
        uris = named.collect::<Result<_, _>>()?;
        ensure!(!uris.is_empty(), "standard input has no URI");
    }
    let mut extract = ExtractUris::new(uris);
    extract.output = settings.last("o").map(PathBuf::from);
    extract.limits = limits;
    extract.run()?;
    Ok(ExitCode::SUCCESS)
}
