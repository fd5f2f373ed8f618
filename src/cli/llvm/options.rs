//! Option tables of LLVM's tools. The grammar, the help texts and the spelling suggestions of a tool are made from its
//! table.
//!
//! Names, value names, help texts and the order of the suggestion candidates are those of LLVM 22.1.8's tools.

use std::process::ExitCode;

use clap::Arg;

use super::settings::Settings;
use crate::cli::print::console::Console;
use crate::cli::program::Program;
use crate::cli::values::{boolean, signed, size, unsigned};

/// A tool: its options, its descriptions and its implementation.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The parts of the executable's name that select it.
    pub(crate) names: &'static [Text],
    /// The first word that selects it.
    pub(crate) subcommand: Option<&'static str>,
    /// The options in help order: those that LLVM's tool lacks are last.
    pub(crate) rows: &'static [Row],
    /// The words that are allowed besides the options.
    pub(crate) positional: Option<Positional>,
    /// Its description in one line of ours.
    pub(crate) about: &'static str,
    /// LLVM's description.
    pub(crate) overview: &'static str,
    /// The heading of its options in the help texts.
    pub(crate) title: &'static str,
    /// The name before the version number.
    pub(crate) version_of: &'static str,
    /// The LLVM release that it follows.
    pub(crate) release: &'static str,
    /// The text after the version line.
    pub(crate) version_details: &'static str,
    /// Whether LLVM's tool goes on without any option if a response file cannot be read.
    pub(crate) goes_on_without_options: bool,
    /// Runs the tool for a valid command line.
    pub(crate) execute: fn(&Program<'_>, &Settings, &mut Console) -> anyhow::Result<ExitCode>,
}

/// The words that are not options and are allowed on a command line.
#[derive(Debug)]
pub(crate) struct Positional {
    /// Their name among the [`Settings`], which is not the name of an option.
    pub(crate) id: &'static str,
    /// Their text in the usage line.
    pub(crate) usage: &'static str,
    /// What each is called in manual pages.
    pub(crate) value_name: &'static str,
    /// The maximum number of them.
    pub(crate) most: usize,
}

/// The action of an option that takes effect at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Help(HelpStyle),
    Version,
}

/// The form of the help text: by category or as one list, with or without hidden options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelpStyle {
    pub(crate) by_category: bool,
    pub(crate) hidden: bool,
}

impl HelpStyle {
    /// The form printed for `--help`.
    pub(crate) const FULL: Self = Self { by_category: true, hidden: false };
    /// The form printed for `-h`.
    pub(crate) const SHORT: Self = Self { by_category: false, hidden: false };
}

/// The kind of an option's value, and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// No value; takes effect at once.
    Act(Action),
    /// A boolean, whose value may be omitted.
    Flag,
    /// An unsigned 32-bit number.
    Uint,
    /// A signed 32-bit number.
    Int,
    /// A number of bytes.
    Size,
    /// A string; the last occurrence counts.
    Text,
    /// A string; all occurrences count.
    Texts,
    /// Strings separated by commas; all occurrences count.
    List,
    /// One of several words; the last occurrence counts.
    Choice {
        of: &'static [&'static str],
        /// The value of the name without one, if that is allowed.
        bare: Option<&'static str>,
    },
}

/// The help texts that list an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All help texts.
    Always,
    /// Help texts by category, and those that show hidden options.
    ByCategory,
    /// Help texts that show hidden options.
    Hidden,
    /// None. The option is never suggested either.
    Never,
}

/// The heading of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    /// Options of every LLVM tool.
    Generic,
    /// Options of this tool.
    Tool,
    /// Options that LLVM's tool does not have.
    Own,
}

/// A text of a table.
type Text = &'static str;

/// An option.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name, without dashes.
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    pub(crate) required: bool,
    pub(crate) shown: Shown,
    pub(crate) category: Category,
    /// The name of its value in help texts; empty if none is printed.
    pub(crate) value_name: &'static str,
    /// Its description in help texts; further lines are aligned with the first.
    pub(crate) help: &'static str,
    /// Its priority as a spelling suggestion: among equally near names, the lowest number wins.
    pub(crate) turn: Option<u8>,
}

impl Row {
    pub(crate) const fn tool(name: Text, kind: ValueKind, value_name: Text, turn: u8, help: Text) -> Row {
        let (shown, category) = (Shown::Always, Category::Tool);
        Row { name, kind, required: false, shown, category, value_name, help, turn: Some(turn) }
    }

    pub(crate) const fn generic(name: Text, kind: ValueKind, shown: Shown, turn: u8, help: Text) -> Row {
        let category = Category::Generic;
        Row { name, kind, required: false, shown, category, value_name: "", help, turn: Some(turn) }
    }

    pub(crate) const fn own(name: Text, kind: ValueKind, value_name: Text, turn: u8, help: Text) -> Row {
        Row { category: Category::Own, ..Row::tool(name, kind, value_name, turn, help) }
    }

    pub(crate) const fn secret(name: Text, kind: ValueKind, value_name: Text, help: Text) -> Row {
        let (shown, category) = (Shown::Never, Category::Generic);
        Row { name, kind, required: false, shown, category, value_name, help, turn: None }
    }

    /// Whether the name may have a value.
    pub(crate) fn takes_value(&self) -> bool {
        !matches!(self.kind, ValueKind::Act(_))
    }

    /// Whether the name must have a value.
    pub(crate) fn requires_value(&self) -> bool {
        !matches!(self.kind, ValueKind::Act(_) | ValueKind::Flag | ValueKind::Choice { bare: Some(_), .. })
    }

    /// A `clap` argument for manual pages and completions.
    pub(crate) fn documented(&self, help: Text) -> Arg {
        let arg = Arg::new(self.name).help(help);
        if self.name.len() == 1 { arg.short(self.name.chars().next()) } else { arg.long(self.name) }
    }
}

impl ValueKind {
    /// The reason why a text is not a valid value: LLVM's text after the value and its closing quotation mark.
    pub(crate) fn refusal(&self, text: &[u8]) -> Option<String> {
        let refusal = match self {
            ValueKind::Flag if boolean(text).is_none() => "is invalid value for boolean argument! Try 0 or 1",
            ValueKind::Uint if unsigned(text).is_none() => "value invalid for uint argument!",
            ValueKind::Int if signed(text).is_none() => "value invalid for integer argument!",
            ValueKind::Size if size(text).is_none() => {
                "value invalid for size argument! Try a number of bytes, optionally with suffix K, M or G"
            }
            ValueKind::Choice { of, .. } if of.iter().all(|word| word.as_bytes() != text) => {
                return Some(format!("is invalid value! Try {}", alternatives(of)));
            }
            _ => return None,
        };
        Some(refusal.to_owned())
    }
}

/// Joins words as `a, b or c`.
fn alternatives(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Whether messages are coloured. LLVM's tools have this option, but no help text lists it.
pub(crate) const COLOR: Row =
    Row::secret("color", ValueKind::Flag, "", "Use colors in messages (default: if they go to a terminal)");

/// The LLVM release whose bundler and packager this program replaces.
pub(crate) const LLVM_VERSION: &str = "22.1.8";

/// The help of both tools for the option that limits the zstd window.
pub(crate) const WINDOW_HELP: &str = "Largest zstd window as a power of two, 10 to 31 (27 for old streaming decoders)";

/// The help of both tools for the option that limits the inflated size.
pub(crate) const MAX_SIZE_HELP: &str = "Reject data that is larger than this when inflated or read from a pipe, in bytes or with suffix K, M or G (default: no limit)";

pub(crate) const HELP: ValueKind = ValueKind::Act(Action::Help(HelpStyle::FULL));
pub(crate) const HELP_HIDDEN: ValueKind = ValueKind::Act(Action::Help(HelpStyle { by_category: true, hidden: true }));
pub(crate) const HELP_LIST: ValueKind = ValueKind::Act(Action::Help(HelpStyle::SHORT));
pub(crate) const HELP_LIST_HIDDEN: ValueKind =
    ValueKind::Act(Action::Help(HelpStyle { by_category: false, hidden: true }));

impl Tool {
    /// Whether the first word of its command line may name a subcommand.
    pub(crate) fn has_subcommands(&self) -> bool {
        self.subcommand.is_none()
    }

    /// The option with exactly this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name.as_bytes() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CATALOGUE;

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
            let valued = !matches!(row.kind, ValueKind::Act(_) | ValueKind::Flag);
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
