//! The options of the bundler.

use std::ffi::OsString;

use clap::{ArgAction, Parser, ValueHint};

use crate::llvm::cli::options::{GENERIC, OWN};
use crate::llvm::cli::texts;

/// The description of the tool. As in LLVM's help text, all lines except the last end with a space.
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

// The command line of the bundler; see `llvm::cli::options` for the order of the fields and the meaning of the
// attributes. Fields that begin with `_` are options whose effect is in the grammar, and options without effect, as in
// LLVM.
#[derive(Debug, Default, Parser)]
#[command(
    name = "clang-offload-bundler",
    about = "Bundle, unbundle and list GPU code objects",
    long_about = OVERVIEW,
    version = texts::version!("clang-offload-bundler", "22.1.8")
)]
#[rustfmt::skip]
pub(crate) struct BundlerOptions {
    #[arg(long, action = ArgAction::HelpLong, help_heading = GENERIC, help = texts::HELP)]
    _help: (),
    #[arg(long, help = "List bundle IDs in the bundled file.")]
    pub(super) list: Option<bool>,
    #[arg(long, help = "Check if input heterogeneous archive is valid in terms of TargetID rules.")]
    pub(super) check_input_archive: Option<bool>,
    #[arg(long, action = ArgAction::HelpLong, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::HELP_HIDDEN)]
    _help_hidden: (),
    #[arg(long, value_name = "string", value_hint = ValueHint::FilePath, help = "Output file. Can be specified multiple times for multiple output files.")]
    pub(super) output: Vec<OsString>,
    #[arg(long, help = "Unbundle bundled file into several output files.")]
    pub(super) unbundle: Option<bool>,
    #[arg(long, action = ArgAction::Version, help_heading = GENERIC, help = texts::VERSION)]
    _version: (),
    #[arg(long, action = ArgAction::HelpShort, help_heading = GENERIC, hide_short_help = true, help = texts::HELP_LIST)]
    _help_list: (),
    #[arg(long, value_name = "n", help = "Specify the compression level (integer)")]
    pub(super) compression_level: Option<i32>,
    #[arg(long, help = "Create empty files if bundles are missing when unbundling.")]
    pub(super) allow_missing_bundles: Option<bool>,
    #[arg(long = "###", help = "Print any external commands that are to be executed instead of actually executing them - for testing purposes.")]
    pub(super) print_commands: Option<bool>,
    #[arg(long = "type", value_name = "string", help = TYPE_HELP)]
    pub(super) file_type: OsString,
    #[arg(long, action = ArgAction::HelpShort, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::HELP_LIST_HIDDEN)]
    _help_list_hidden: (),
    #[arg(long, value_name = "string", value_delimiter = ',', value_hint = ValueHint::FilePath, help = "[<input file>,...] (deprecated)")]
    pub(super) inputs: Vec<OsString>,
    #[arg(long, help = "Print debug information.")]
    pub(super) verbose: Option<bool>,
    #[arg(long, value_name = "string", value_delimiter = ',', help = "[<offload kind>-<target triple>,...]")]
    pub(super) targets: Vec<OsString>,
    #[arg(long, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::PRINT_OPTIONS)]
    _print_options: Option<bool>,
    #[arg(long, value_name = "string", value_hint = ValueHint::FilePath, help = "Input file. Can be specified multiple times for multiple input files.")]
    pub(super) input: Vec<OsString>,
    #[arg(long, value_name = "uint", help = "Alignment of bundle for binary files")]
    pub(super) bundle_align: Option<u32>,
    #[arg(long, value_name = "string", value_delimiter = ',', value_hint = ValueHint::FilePath, help = "[<output file>,...] (deprecated)")]
    pub(super) outputs: Vec<OsString>,
    #[arg(long, help = "Treat hip and hipv4 offload kinds as compatible with openmp kind, and vice versa.")]
    pub(super) hip_openmp_compatible: Option<bool>,
    #[arg(long, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::PRINT_ALL_OPTIONS)]
    _print_all_options: Option<bool>,
    #[arg(long, help = "Compress output file when bundling.")]
    pub(super) compress: Option<bool>,
    #[arg(long, hide = true, help = texts::COLOR)]
    pub(super) color: Option<bool>,
    #[arg(short = 'h', hide = true, help = texts::SHORT_HELP)]
    pub(super) short_help: Option<bool>,
    #[arg(long, value_name = "log", help_heading = OWN, hide_short_help = true, hide_long_help = true, help = texts::WINDOW)]
    pub(super) compression_window: Option<u32>,
    #[arg(long, value_name = "bytes", help_heading = OWN, hide_short_help = true, hide_long_help = true, help = texts::MAX_SIZE)]
    pub(super) max_size: Option<u64>,
}
