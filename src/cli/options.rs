//! The options of the tool: one table from which the `clap` command, the help texts and the
//! spelling suggestions are all made.
//!
//! Names, value names, help texts and the order of the suggestion candidates are those of LLVM
//! 22.1.8's `clang-offload-bundler`.

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, Command, value_parser};

/// The name under which the help texts list the tool's own options.
pub(super) const TOOL_NAME: &str = "clang-offload-bundler";

/// What an option does at once, where it stands on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Print one of the help texts.
    Help(HelpStyle),
    /// Print the version.
    Version,
}

/// The four help texts: by category or as one list, with or without the hidden options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HelpStyle {
    /// Options stand under the heading of their category.
    pub(super) by_category: bool,
    /// Hidden options are shown too.
    pub(super) hidden: bool,
}

/// What follows an option's name, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Takes no value and acts at once.
    Act(Action),
    /// A boolean, whose value may be left out.
    Flag,
    /// An unsigned 32-bit number.
    Uint,
    /// A signed 32-bit number.
    Int,
    /// A string; the last one given counts.
    Text,
    /// A string; all of those given count.
    Texts,
    /// Strings separated by commas; all of those given count.
    List,
}

/// In which help texts an option appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// In all of them.
    Always,
    /// In those by category, and in those that show hidden options.
    ByCategory,
    /// In those that show hidden options.
    Hidden,
    /// In none, and it is never suggested.
    Never,
}

/// The heading an option stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// Options every LLVM tool has.
    Generic,
    /// Options of this tool.
    Tool,
}

/// One option.
#[derive(Debug)]
pub(super) struct Row {
    /// The name, without dashes.
    pub(super) name: &'static str,
    /// What it takes and does.
    pub(super) kind: Kind,
    /// Whether the command line must have it.
    pub(super) required: bool,
    /// Where help mentions it.
    pub(super) shown: Shown,
    /// The heading it stands under.
    pub(super) category: Category,
    /// What help calls its value; empty when it prints none.
    pub(super) value_name: &'static str,
    /// What help says of it; further lines are indented under the first.
    pub(super) help: &'static str,
    /// Its turn when the nearest spelling is sought: among equally near names the first one wins.
    pub(super) turn: Option<u8>,
}

impl Row {
    const fn tool(name: &'static str, kind: Kind, value_name: &'static str, turn: u8, help: &'static str) -> Row {
        let (shown, category) = (Shown::Always, Category::Tool);
        Row { name, kind, required: false, shown, category, value_name, help, turn: Some(turn) }
    }

    const fn generic(name: &'static str, kind: Kind, shown: Shown, turn: u8, help: &'static str) -> Row {
        let category = Category::Generic;
        Row { name, kind, required: false, shown, category, value_name: "", help, turn: Some(turn) }
    }

    const fn secret(name: &'static str, kind: Kind, value_name: &'static str, help: &'static str) -> Row {
        let (shown, category) = (Shown::Never, Category::Generic);
        Row { name, kind, required: false, shown, category, value_name, help, turn: None }
    }

    /// Whether a value may follow the name.
    pub(super) fn takes_value(&self) -> bool {
        !matches!(self.kind, Kind::Act(_))
    }

    /// The option as `clap` knows it; options that act at once never get that far.
    fn arg(&self) -> Option<Arg> {
        let arg = Arg::new(self.name).long(self.name).num_args(1).require_equals(true).required(self.required);
        match self.kind {
            Kind::Act(_) => None,
            Kind::Flag => Some(arg.value_parser(value_parser!(bool))),
            Kind::Uint => Some(arg.value_parser(value_parser!(u32))),
            Kind::Int => Some(arg.value_parser(value_parser!(i32))),
            Kind::Text => Some(arg.value_parser(OsStringValueParser::new())),
            Kind::Texts | Kind::List => Some(arg.value_parser(OsStringValueParser::new()).action(ArgAction::Append)),
        }
    }
}

const HELP: Kind = Kind::Act(Action::Help(HelpStyle { by_category: true, hidden: false }));
const HELP_HIDDEN: Kind = Kind::Act(Action::Help(HelpStyle { by_category: true, hidden: true }));
const HELP_LIST: Kind = Kind::Act(Action::Help(HelpStyle { by_category: false, hidden: false }));
const HELP_LIST_HIDDEN: Kind = Kind::Act(Action::Help(HelpStyle { by_category: false, hidden: true }));

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

/// All options, in the order in which help lists them.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    Row::tool("###", Kind::Flag, "", 10, "Print any external commands that are to be executed instead of actually executing them - for testing purposes."),
    Row::tool("allow-missing-bundles", Kind::Flag, "", 9, "Create empty files if bundles are missing when unbundling."),
    Row::tool("bundle-align", Kind::Uint, "uint", 18, "Alignment of bundle for binary files"),
    Row::tool("check-input-archive", Kind::Flag, "", 2, "Check if input heterogeneous archive is valid in terms of TargetID rules."),
    Row::tool("compress", Kind::Flag, "", 22, "Compress output file when bundling."),
    Row::tool("compression-level", Kind::Int, "n", 8, "Specify the compression level (integer)"),
    Row::secret("debug-only", Kind::List, "names", "Print the debugging messages of these components"),
    Row::secret("h", Kind::Flag, "", "Print the list of options once the command line is read"),
    Row::generic("help", HELP, Shown::Always, 0, "Display available options (--help-hidden for more)"),
    Row::generic("help-hidden", HELP_HIDDEN, Shown::Hidden, 3, "Display all available options"),
    Row::generic("help-list", HELP_LIST, Shown::ByCategory, 7, "Display list of available options (--help-list-hidden for more)"),
    Row::generic("help-list-hidden", HELP_LIST_HIDDEN, Shown::Hidden, 12, "Display list of all available options"),
    Row::tool("hip-openmp-compatible", Kind::Flag, "", 20, "Treat hip and hipv4 offload kinds as compatible with openmp kind, and vice versa."),
    Row::tool("input", Kind::Texts, "string", 17, "Input file. Can be specified multiple times for multiple input files."),
    Row::tool("inputs", Kind::List, "string", 13, "[<input file>,...] (deprecated)"),
    Row::tool("list", Kind::Flag, "", 1, "List bundle IDs in the bundled file."),
    Row::tool("output", Kind::Texts, "string", 4, "Output file. Can be specified multiple times for multiple output files."),
    Row::tool("outputs", Kind::List, "string", 19, "[<output file>,...] (deprecated)"),
    Row::generic("print-all-options", Kind::Flag, Shown::Hidden, 21, "Print all option values after command line parsing"),
    Row::generic("print-options", Kind::Flag, Shown::Hidden, 16, "Print non-default options after command line parsing"),
    Row::tool("targets", Kind::List, "string", 15, "[<offload kind>-<target triple>,...]"),
    Row { required: true, ..Row::tool("type", Kind::Text, "string", 11, TYPE_HELP) },
    Row::tool("unbundle", Kind::Flag, "", 5, "Unbundle bundled file into several output files."),
    Row::tool("verbose", Kind::Flag, "", 14, "Print debug information."),
    Row::generic("version", Kind::Act(Action::Version), Shown::Always, 6, "Display the version of this program"),
];

/// The option of exactly this name.
pub(super) fn find(name: &[u8]) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name.as_bytes() == name)
}

/// The `clap` command for words of the one form `--name=value`, the program's name left out.
pub(super) fn command() -> Command {
    Command::new(TOOL_NAME)
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .args(ROWS.iter().filter_map(Row::arg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn rows_are_in_order_of_name_without_doubles() {
        assert!(ROWS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn turns_are_all_different_and_without_gaps() {
        let mut turns: Vec<u8> = ROWS.iter().filter_map(|row| row.turn).collect();
        turns.sort_unstable();
        assert_eq!(turns, (0..23).collect::<Vec<u8>>());
    }

    #[test]
    fn what_help_never_shows_is_never_suggested() {
        for row in ROWS {
            assert_eq!(row.shown == Shown::Never, row.turn.is_none(), "{}", row.name);
        }
    }

    #[test]
    fn values_have_a_name_and_nothing_else_has() {
        for row in ROWS {
            let valued = !matches!(row.kind, Kind::Act(_) | Kind::Flag);
            assert_eq!(valued, !row.value_name.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn only_the_type_is_required() {
        let required: Vec<&str> = ROWS.iter().filter(|row| row.required).map(|row| row.name).collect();
        assert_eq!(required, ["type"]);
    }
}
