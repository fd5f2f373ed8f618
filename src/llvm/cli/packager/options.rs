//! The options of the packager.

use std::ffi::OsString;

use clap::{ArgAction, Parser, ValueHint};

use crate::llvm::cli::options::{GENERIC, OWN};
use crate::llvm::cli::texts;

/// The description of the tool.
const OVERVIEW: &str = "A utility for bundling several object files into a single binary.
The output binary can then be embedded into the host section table
to create a fatbinary containing offloading code.";

// The command line of the packager; see `llvm::cli::options` for the order of the fields and the meaning of the
// attributes. Fields that begin with `_` are options whose effect is in the grammar, and options without effect, as in
// LLVM.
#[derive(Debug, Default, Parser)]
#[command(
    name = "llvm-offload-binary",
    about = "Pack and unpack offload binaries",
    long_about = OVERVIEW,
    version = concat!(texts::version!("LLVM", "22.1.8"), "  Optimized build.\n")
)]
#[rustfmt::skip]
pub(crate) struct PackagerOptions {
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, help = "Extract from <file>.")]
    pub(super) input: Option<OsString>,
    #[arg(long, action = ArgAction::HelpLong, help_heading = GENERIC, help = texts::HELP)]
    _help: (),
    #[arg(long, help = "Write extracted files to a static archive")]
    pub(super) archive: Option<bool>,
    #[arg(long, action = ArgAction::HelpLong, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::HELP_HIDDEN)]
    _help_hidden: (),
    #[arg(long, action = ArgAction::Version, help_heading = GENERIC, help = texts::VERSION)]
    _version: (),
    #[arg(long, action = ArgAction::HelpShort, help_heading = GENERIC, hide_short_help = true, help = texts::HELP_LIST)]
    _help_list: (),
    #[arg(short = 'o', value_name = "file", value_hint = ValueHint::FilePath, help = "Write output to <file>.")]
    pub(super) output: Option<OsString>,
    #[arg(long, action = ArgAction::HelpShort, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::HELP_LIST_HIDDEN)]
    _help_list_hidden: (),
    #[arg(long, value_name = "<key>=<value>,...", help = "List of key and value arguments. Required keywords are 'file' and 'triple'.")]
    pub(super) image: Vec<OsString>,
    #[arg(long, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::PRINT_OPTIONS)]
    _print_options: Option<bool>,
    #[arg(long, help_heading = GENERIC, hide_short_help = true, hide_long_help = true, help = texts::PRINT_ALL_OPTIONS)]
    _print_all_options: Option<bool>,
    #[arg(long, hide = true, help = texts::COLOR)]
    pub(super) color: Option<bool>,
    #[arg(short = 'h', hide = true, help = texts::SHORT_HELP)]
    pub(super) short_help: Option<bool>,
    #[arg(long, value_name = "bytes", help_heading = OWN, help = texts::MAX_SIZE)]
    pub(super) max_size: Option<u64>,
}
