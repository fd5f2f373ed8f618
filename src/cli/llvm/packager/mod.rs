//! The packager: LLVM 22.1.8's `llvm-offload-binary`, formerly called `clang-offload-packager`.

mod dense_map;
mod image;
mod job;

use std::path::Path;
use std::process::ExitCode;

use offload_bundle::error::OsText;
use offload_bundle::{Error, ErrorKind, Malformed};

use super::environment::hip_number;
use super::help;
use super::options::{
    Action, COLOR, HELP, HELP_HIDDEN, HELP_LIST, HELP_LIST_HIDDEN, LLVM_VERSION, MAX_SIZE_HELP, Positional, Row, Shown,
    Tool, ValueKind, WINDOW_HELP,
};
use super::settings::Settings;
use crate::cli::print::console::{Console, Noted};
use crate::cli::print::stdout::to_stdout;
use crate::cli::program::Program;
use crate::cli::values::boolean;
use job::Job;

pub(crate) const TOOL: &Tool = &Tool {
    names: &["offload-packager", "offload-binary"],
    subcommand: Some("package"),
    rows: ROWS,
    positional: Some(Positional { id: "input", usage: "Extract from <file>.", value_name: "FILE", most: 1 }),
    about: "Pack and unpack offload binaries",
    overview: OVERVIEW,
    title: "llvm-offload-binary",
    version_of: "LLVM",
    release: LLVM_VERSION,
    version_details: "  Optimized build.\n",
    goes_on_without_options: false,
    execute,
};

/// The description of the tool.
const OVERVIEW: &str = "A utility for bundling several object files into a single binary.
The output binary can then be embedded into the host section table
to create a fatbinary containing offloading code.";

/// The deprecated name.
const OLD_NAME: &str = "clang-offload-packager";

const VERSIONS: ValueKind = ValueKind::Choice { of: &["1", "2", "3"], bare: None };
/// Without a value, `--compression-format` or the default chooses the method.
const COMPRESS: ValueKind = ValueKind::Choice { of: METHODS, bare: Some("") };
const METHODS: &[&str] = &["zstd", "zlib"];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row::tool("archive", ValueKind::Flag, "", 1, "Write extracted files to a static archive"),
    COLOR,
    Row::secret("h", ValueKind::Flag, "", "Print the list of options once the command line is read"),
    Row::generic("help", HELP, Shown::Always, 0, "Display available options (--help-hidden for more)"),
    Row::generic("help-hidden", HELP_HIDDEN, Shown::Hidden, 2, "Display all available options"),
    Row::generic("help-list", HELP_LIST, Shown::ByCategory, 4, "Display list of available options (--help-list-hidden for more)"),
    Row::generic("help-list-hidden", HELP_LIST_HIDDEN, Shown::Hidden, 6, "Display list of all available options"),
    Row::tool("image", ValueKind::Texts, "<key>=<value>,...", 7, "List of key and value arguments. Required keywords are 'file' and 'triple'."),
    Row::tool("o", ValueKind::Text, "file", 5, "Write output to <file>."),
    Row::generic("print-all-options", ValueKind::Flag, Shown::Hidden, 9, "Print all option values after command line parsing"),
    Row::generic("print-options", ValueKind::Flag, Shown::Hidden, 8, "Print non-default options after command line parsing"),
    Row::generic("version", ValueKind::Act(Action::Version), Shown::Always, 3, "Display the version of this program"),
    Row::own("compress", COMPRESS, "zstd|zlib", 10, "Compress the images, by default with zstd (writes version 3)"),
    Row::own("compression-format", ValueKind::Choice { of: METHODS, bare: None }, "name", 11, "Compression method for --compress, zstd or zlib, as in LLVM's main branch"),
    Row::own("compression-level", ValueKind::Int, "n", 12, "Compression level: 0 to 9 for zlib, up to 22 for zstd, also negative"),
    Row::own("compression-window", ValueKind::Uint, "log", 13, WINDOW_HELP),
    Row::own("format-version", VERSIONS, "1|2|3", 14, "Format version to write (default: 1, or 3 with --compress)"),
    Row::own("max-size", ValueKind::Size, "bytes", 15, MAX_SIZE_HELP),
];

fn execute(program: &Program<'_>, settings: &Settings, console: &mut Console) -> anyhow::Result<ExitCode> {
    console.set_color(settings.parsed("color", boolean));
    if program.stem_ends_with(OLD_NAME) {
        console.unnamed_warning(&format!("'{OLD_NAME}' is deprecated. Use '{}' instead.", TOOL.title));
    }
    if settings.flag("h") {
        return Ok(help::print_short(TOOL, program));
    }
    let hip_number = || hip_number(|name| std::env::var_os(name), &mut |text| console.line(text));
    match job::plan(settings, hip_number)? {
        Job::Nothing => return Ok(help::print_short(TOOL, program)),
        Job::Package(package) => {
            for option in job::without_effect(settings) {
                console.warning(&format!("--{option} has no effect without --compress"));
            }
            package.run(&mut |event| console.event(event)).map_err(|error| noted(error, None))?;
        }
        Job::Unpackage(unpackage) => {
            let noted = |error| noted(error, Some(&unpackage.input));
            to_stdout(|out| unpackage.run(out, &mut |event| console.event(event)).map_err(noted))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The error with LLVM's text, which names only the file `input` and omits the details of the fault.
fn noted(error: Error, input: Option<&Path>) -> anyhow::Error {
    let text = match (error.io_error(), error.fault()) {
        (Some(reason), _) if error.kind() == ErrorKind::Io => {
            // A file whose name is empty is named by neither LLVM nor `Error::file`.
            if error.file().is_some_and(|file| Some(file) == input || file.as_os_str() == "-") {
                return error.into();
            }
            OsText(reason).to_string()
        }
        (_, Some(Malformed::Truncated { .. })) => "The end of the file was unexpectedly encountered".to_owned(),
        (_, Some(Malformed::Bitcode { .. })) => "Failed to create module".to_owned(),
        (_, None | Some(Malformed::Claim { .. })) => return error.into(),
        (_, Some(_)) => "Invalid data was encountered while parsing the file".to_owned(),
    };
    Noted { text, note: error.to_string() }.into()
}
