//! The bundler: LLVM 22.1.8's `clang-offload-bundler`.

mod job;

use std::process::ExitCode;

use offload_bundle::Event;
use offload_bundle::llvm::{List, Listed};
use offload_bundle::scan::Format;

use super::environment::EnvironmentSettings;
use super::options::{
    Action, COLOR, HELP, HELP_HIDDEN, HELP_LIST, HELP_LIST_HIDDEN, LLVM_VERSION, MAX_SIZE_HELP, Row, Shown, Tool,
    ValueKind, WINDOW_HELP,
};
use super::settings::Settings;
use super::{help, objcopy};
use crate::cli::print::console::Console;
use crate::cli::print::stdout::to_stdout;
use crate::cli::program::Program;
use crate::cli::values::boolean;
use job::Job;

const NAME: &str = "clang-offload-bundler";

pub(crate) const TOOL: &Tool = &Tool {
    names: &[],
    subcommand: None,
    rows: ROWS,
    positional: None,
    about: "Bundle, unbundle and list GPU code objects",
    overview: OVERVIEW,
    title: NAME,
    version_of: NAME,
    release: LLVM_VERSION,
    version_details: "",
    goes_on_without_options: true,
    execute,
};

/// The description of the tool. All lines except the last end with a space.
const OVERVIEW: &str = concat!(
    "A tool to bundle several input files of the specified type <type> \n",
    "referring to the same source file but different targets into a single \n",
    "one. The resulting file can also be unbundled into different files by \n",
    "this tool if -unbundle is provided.",
);

const TYPE_HELP: &str = "Type of the files to be bundled/unbundled.
Current supported types are:
  i    - cpp-output
  ii   - c++-cpp-output
  cui  - cuda-cpp-output
  hipi - hip-cpp-output
  d    - dependency
  ll   - llvm
  bc   - llvm-bc
  s    - assembler
  o    - object
  a    - archive of objects
  gch  - precompiled-header
  ast  - clang AST file";

/// The options, in the order of the help texts.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row::tool("###", ValueKind::Flag, "", 10, "Print any external commands that are to be executed instead of actually executing them - for testing purposes."),
    Row::tool("allow-missing-bundles", ValueKind::Flag, "", 9, "Create empty files if bundles are missing when unbundling."),
    Row::tool("bundle-align", ValueKind::Uint, "uint", 18, "Alignment of bundle for binary files"),
    Row::tool("check-input-archive", ValueKind::Flag, "", 2, "Check if input heterogeneous archive is valid in terms of TargetID rules."),
    COLOR,
    Row::tool("compress", ValueKind::Flag, "", 22, "Compress output file when bundling."),
    Row::tool("compression-level", ValueKind::Int, "n", 8, "Specify the compression level (integer)"),
    Row::secret("debug-only", ValueKind::List, "names", "Print the debugging messages of these components"),
    Row::secret("h", ValueKind::Flag, "", "Print the list of options once the command line is read"),
    Row::generic("help", HELP, Shown::Always, 0, "Display available options (--help-hidden for more)"),
    Row::generic("help-hidden", HELP_HIDDEN, Shown::Hidden, 3, "Display all available options"),
    Row::generic("help-list", HELP_LIST, Shown::ByCategory, 7, "Display list of available options (--help-list-hidden for more)"),
    Row::generic("help-list-hidden", HELP_LIST_HIDDEN, Shown::Hidden, 12, "Display list of all available options"),
    Row::tool("hip-openmp-compatible", ValueKind::Flag, "", 20, "Treat hip and hipv4 offload kinds as compatible with openmp kind, and vice versa."),
    Row::tool("input", ValueKind::Texts, "string", 17, "Input file. Can be specified multiple times for multiple input files."),
    Row::tool("inputs", ValueKind::List, "string", 13, "[<input file>,...] (deprecated)"),
    Row::tool("list", ValueKind::Flag, "", 1, "List bundle IDs in the bundled file."),
    Row::tool("output", ValueKind::Texts, "string", 4, "Output file. Can be specified multiple times for multiple output files."),
    Row::tool("outputs", ValueKind::List, "string", 19, "[<output file>,...] (deprecated)"),
    Row::generic("print-all-options", ValueKind::Flag, Shown::Hidden, 21, "Print all option values after command line parsing"),
    Row::generic("print-options", ValueKind::Flag, Shown::Hidden, 16, "Print non-default options after command line parsing"),
    Row::tool("targets", ValueKind::List, "string", 15, "[<offload kind>-<target triple>,...]"),
    Row { required: true, ..Row::tool("type", ValueKind::Text, "string", 11, TYPE_HELP) },
    Row::tool("unbundle", ValueKind::Flag, "", 5, "Unbundle bundled file into several output files."),
    Row::tool("verbose", ValueKind::Flag, "", 14, "Print debug information."),
    Row::generic("version", ValueKind::Act(Action::Version), Shown::Always, 6, "Display the version of this program"),
    Row { shown: Shown::Hidden, ..Row::own("compression-window", ValueKind::Uint, "log", 23, WINDOW_HELP) },
    Row { shown: Shown::Hidden, ..Row::own("max-size", ValueKind::Size, "bytes", 24, MAX_SIZE_HELP) },
];

fn execute(program: &Program<'_>, settings: &Settings, console: &mut Console) -> anyhow::Result<ExitCode> {
    console.set_color(settings.parsed("color", boolean));
    if settings.flag("h") {
        return Ok(help::print_short(TOOL, program));
    }
    let environment = EnvironmentSettings::read(|name| std::env::var_os(name), &mut |text| console.line(text));
    console.verbose = settings.parsed("verbose", boolean).unwrap_or(environment.verbose);
    let print_commands = settings.flag("###");
    let job = job::plan(settings, &environment, console)?;
    let mut observer = |event: Event<'_>| console.event(event);
    match job {
        Job::List(list) => {
            let mut listed = Listed::default();
            to_stdout(|out| {
                listed = list.run(out, &mut observer)?;
                Ok(())
            })?;
            // LLVM prints nothing, which programs may rely on.
            if console.is_on_terminal() {
                hint(&list, listed, program).iter().for_each(|hint| console.hint(hint));
            }
        }
        Job::Bundle(bundle) if print_commands => {
            bundle.run_or_command(&mut observer)?.as_deref().into_iter().for_each(objcopy::print);
        }
        Job::Unbundle(unbundle) if print_commands => {
            unbundle.run_or_command(&mut observer)?.as_deref().into_iter().for_each(objcopy::print);
        }
        Job::Bundle(bundle) => bundle.run(&mut observer)?,
        Job::Unbundle(unbundle) => unbundle.run(&mut observer)?,
        Job::UnbundleArchive(unbundle) => unbundle.run(&mut observer)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The hint for a file without bundles, if it is of another format that is known.
fn hint(list: &List, listed: Listed, program: &Program<'_>) -> Option<String> {
    let format = listed.format.filter(|_| listed.bundles == 0)?;
    let (input, program) = (list.input.display(), String::from_utf8_lossy(program.name));
    Some(match format {
        format if format == Format::OffloadBinary.name() => format!(
            "'{input}' is an offload binary and not a bundle: llvm-offload-binary unpacks it, '{program} inspect' lists it"
        ),
        format => format!(
            "'{input}' has no bundles of this type (format: {format}): '{program} inspect' lists the device code of any file"
        ),
    })
}
