//! The texts of options that several tools have.

/// Returns the line of `--version`. `$of` is the text before the word "version", such as `LLVM`, and `$release` the
/// release of LLVM that the tool follows.
macro_rules! version {
    ($of:literal, $release:literal) => {
        concat!($of, " version ", $release, " (offload-bundle ", env!("CARGO_PKG_VERSION"), ")\n")
    };
}
pub(crate) use version;

pub(crate) const HELP: &str = "Display available options (--help-hidden for more)";
pub(crate) const HELP_HIDDEN: &str = "Display all available options";
pub(crate) const HELP_LIST: &str = "Display list of available options (--help-list-hidden for more)";
pub(crate) const HELP_LIST_HIDDEN: &str = "Display list of all available options";
pub(crate) const PRINT_ALL_OPTIONS: &str = "Print all option values after command line parsing";
pub(crate) const PRINT_OPTIONS: &str = "Print non-default options after command line parsing";
pub(crate) const VERSION: &str = "Display the version of this program";
pub(crate) const COLOR: &str = "Use colors in messages (default: if they go to a terminal)";
pub(crate) const SHORT_HELP: &str = "Print the list of options once the command line is read";
pub(crate) const WINDOW: &str = "Largest zstd window as a power of two, 10 to 31 (27 for old streaming decoders)";
pub(crate) const MAX_SIZE: &str = "Reject data that is larger than this when inflated or read from a pipe, in bytes or with suffix K, M or G (default: no limit)";
