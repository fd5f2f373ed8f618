//! What a tool's options are: one table for each tool, from which its `clap` command, its help texts and its spelling
//! suggestions are all made.
//!
//! Names, value names, help texts and the order of the suggestion candidates are those of LLVM 22.1.8's tools.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::console::Console;
use super::program::Program;
use super::values::{boolean, signed, size, unsigned};

/// A tool: what its command line may hold, what it says of itself, and what it does.
#[derive(Debug)]
pub(super) struct Tool {
    /// Parts of the executable's name that choose it.
    pub(super) names: &'static [&'static str],
    /// The first word that chooses it.
    pub(super) subcommand: Option<&'static str>,
    /// Its options, in the order in which help lists them: those that LLVM's tool lacks come last.
    pub(super) rows: &'static [Row],
    /// The word that may stand besides the options.
    pub(super) positional: Option<Positional>,
    /// What it does, in a line of our own.
    pub(super) about: &'static str,
    /// What it does, in LLVM's words.
    pub(super) overview: &'static str,
    /// The name under which the help texts list its options.
    pub(super) title: &'static str,
    /// What the version stands behind.
    pub(super) version_of: &'static str,
    /// What follows the version's line.
    pub(super) version_details: &'static str,
    /// What is wrong in LLVM's tool, which goes on without any option, when a response file cannot be read.
    pub(super) without_options: Option<&'static str>,
    /// Does what a command line without mistakes asks for.
    pub(super) execute: fn(&Program<'_>, &ArgMatches, &mut Console) -> anyhow::Result<Finish>,
}

/// The one word that a command line may hold besides options.
#[derive(Debug)]
pub(super) struct Positional {
    /// The name under which `clap` has it, which is no option.
    pub(super) id: &'static str,
    /// What the usage line says of it.
    pub(super) usage: &'static str,
}

/// How a tool's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// All is done.
    Done,
    /// There was nothing to do but to print the short help.
    Help,
}

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
    /// A number of bytes.
    Size,
    /// A string; the last one given counts.
    Text,
    /// A string; all of those given count.
    Texts,
    /// Strings separated by commas; all of those given count.
    List,
    /// One of several words; the last one given counts.
    Choice {
        /// The words.
        of: &'static [&'static str],
        /// What the name alone stands for, if it may stand alone.
        bare: Option<&'static str>,
    },
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
    /// Options that LLVM's tool does not have.
    Own,
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
    pub(super) const fn tool(
        name: &'static str,
        kind: Kind,
        value_name: &'static str,
        turn: u8,
        help: &'static str,
    ) -> Row {
        let (shown, category) = (Shown::Always, Category::Tool);
        Row { name, kind, required: false, shown, category, value_name, help, turn: Some(turn) }
    }

    pub(super) const fn generic(name: &'static str, kind: Kind, shown: Shown, turn: u8, help: &'static str) -> Row {
        let category = Category::Generic;
        Row { name, kind, required: false, shown, category, value_name: "", help, turn: Some(turn) }
    }

    pub(super) const fn own(
        name: &'static str,
        kind: Kind,
        value_name: &'static str,
        turn: u8,
        help: &'static str,
    ) -> Row {
        Row { category: Category::Own, ..Row::tool(name, kind, value_name, turn, help) }
    }

    pub(super) const fn secret(name: &'static str, kind: Kind, value_name: &'static str, help: &'static str) -> Row {
        let (shown, category) = (Shown::Never, Category::Generic);
        Row { name, kind, required: false, shown, category, value_name, help, turn: None }
    }

    /// Whether a value may follow the name.
    pub(super) fn takes_value(&self) -> bool {
        !matches!(self.kind, Kind::Act(_))
    }

    /// Whether its name needs a value.
    pub(super) fn requires_value(&self) -> bool {
        !matches!(self.kind, Kind::Act(_) | Kind::Flag | Kind::Choice { bare: Some(_), .. })
    }

    /// The option as `clap` knows it; options that act at once never get that far.
    fn arg(&self) -> Option<Arg> {
        let arg = setting(self.name).required(self.required);
        match self.kind {
            Kind::Act(_) => None,
            Kind::Flag => Some(arg.value_parser(read_by(boolean))),
            Kind::Uint => Some(arg.value_parser(read_by(unsigned))),
            Kind::Int => Some(arg.value_parser(read_by(signed))),
            Kind::Size => Some(arg.value_parser(read_by(size))),
            Kind::Text => Some(arg.value_parser(OsStringValueParser::new())),
            Kind::Choice { .. } => Some(arg),
            Kind::Texts => Some(arg.value_parser(OsStringValueParser::new()).action(ArgAction::Append)),
            Kind::List => {
                Some(arg.value_parser(OsStringValueParser::new()).action(ArgAction::Append).value_delimiter(','))
            }
        }
    }
}

/// The value that `read` gives; `clap` gets none that it refuses.
fn read_by<T: Clone + Send + Sync + 'static>(read: fn(&[u8]) -> Option<T>) -> impl TypedValueParser<Value = T> {
    OsStringValueParser::new().try_map(move |typed: OsString| read(typed.as_bytes()).ok_or("invalid value"))
}

impl Kind {
    /// Why a text is not a value: what LLVM says after the text and the quotation mark that follows it.
    pub(super) fn refusal(&self, text: &[u8]) -> Option<String> {
        let refusal = match self {
            Kind::Flag if boolean(text).is_none() => "is invalid value for boolean argument! Try 0 or 1",
            Kind::Uint if unsigned(text).is_none() => "value invalid for uint argument!",
            Kind::Int if signed(text).is_none() => "value invalid for integer argument!",
            Kind::Size if size(text).is_none() => {
                "value invalid for size argument! Try a number of bytes, optionally with suffix K, M or G"
            }
            Kind::Choice { of, .. } if of.iter().all(|word| word.as_bytes() != text) => {
                return Some(format!("is invalid value! Try {}", alternatives(of)));
            }
            _ => return None,
        };
        Some(refusal.to_owned())
    }
}

/// `a, b or c`.
fn alternatives(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Whether messages are coloured. LLVM's tools have it, and no help text shows it.
pub(super) const COLOR: Row =
    Row::secret("color", Kind::Flag, "", "Use colors in messages (default: if they go to a terminal)");

/// What both tools say of the option that limits the zstd window.
pub(super) const WINDOW_HELP: &str = "Largest zstd window as a power of two, 10 to 31 (27 for old streaming decoders)";

/// What both tools say of the option that limits what is inflated.
pub(super) const MAX_SIZE_HELP: &str = "Reject data that is larger than this when inflated or read from a pipe, in bytes or with suffix K, M or G (default: no limit)";

pub(super) const HELP: Kind = Kind::Act(Action::Help(HelpStyle { by_category: true, hidden: false }));
pub(super) const HELP_HIDDEN: Kind = Kind::Act(Action::Help(HelpStyle { by_category: true, hidden: true }));
pub(super) const HELP_LIST: Kind = Kind::Act(Action::Help(HelpStyle { by_category: false, hidden: false }));
pub(super) const HELP_LIST_HIDDEN: Kind = Kind::Act(Action::Help(HelpStyle { by_category: false, hidden: true }));

impl Tool {
    /// Whether the first word of its command line may be a subcommand.
    pub(super) fn has_subcommands(&self) -> bool {
        self.subcommand.is_none()
    }

    /// The option of exactly this name.
    pub(super) fn find(&self, name: &[u8]) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name.as_bytes() == name)
    }

    /// The `clap` command for words of the one form `--name=value`, the program's name left out.
    pub(super) fn command(&self) -> Command {
        let positional = self.positional.iter().map(|word| setting(word.id).value_parser(OsStringValueParser::new()));
        Command::new(self.title)
            .no_binary_name(true)
            .disable_help_flag(true)
            .disable_version_flag(true)
            .args_override_self(true)
            .args(self.rows.iter().filter_map(Row::arg).chain(positional))
    }
}

/// What `clap` reads as `--name=value`.
fn setting(name: &'static str) -> Arg {
    Arg::new(name).long(name).num_args(1).require_equals(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CATALOGUE;

    #[test]
    fn the_commands_are_consistent() {
        CATALOGUE.tools.iter().for_each(|tool| tool.command().debug_assert());
    }

    #[test]
    fn rows_are_in_order_of_name_without_doubles_and_our_own_come_last() {
        let key = |row: &'static Row| (row.category == Category::Own, row.name);
        for tool in CATALOGUE.tools {
            assert!(tool.rows.is_sorted_by(|a, b| key(a) < key(b)), "{}", tool.title);
        }
    }

    #[test]
    fn turns_are_all_different_and_without_gaps_and_our_own_come_last() {
        for tool in CATALOGUE.tools {
            let mut turns: Vec<(u8, bool)> =
                tool.rows.iter().filter_map(|row| Some((row.turn?, row.category == Category::Own))).collect();
            turns.sort_unstable();
            assert!(turns.iter().map(|(turn, _)| usize::from(*turn)).eq(0..turns.len()), "{}", tool.title);
            assert!(turns.is_sorted_by_key(|(_, own)| *own), "{}", tool.title);
        }
    }

    #[test]
    fn what_help_never_shows_is_never_suggested() {
        for row in CATALOGUE.tools.iter().flat_map(|tool| tool.rows) {
            assert_eq!(row.shown == Shown::Never, row.turn.is_none(), "{}", row.name);
        }
    }

    #[test]
    fn values_have_a_name_and_nothing_else_has() {
        for row in CATALOGUE.tools.iter().flat_map(|tool| tool.rows) {
            let valued = !matches!(row.kind, Kind::Act(_) | Kind::Flag);
            assert_eq!(valued, !row.value_name.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn only_the_type_is_required() {
        let rows = CATALOGUE.tools.iter().flat_map(|tool| tool.rows);
        let required: Vec<&str> = rows.filter(|row| row.required).map(|row| row.name).collect();
        assert_eq!(required, ["type"]);
    }

    #[test]
    fn words_besides_the_options_have_no_options_name() {
        for tool in CATALOGUE.tools {
            assert!(tool.positional.iter().all(|word| tool.find(word.id.as_bytes()).is_none()), "{}", tool.title);
        }
    }
}
