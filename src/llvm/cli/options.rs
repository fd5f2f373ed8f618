//! The definitions of LLVM's tools: each is a struct that `clap` derives a [`Command`] from, with a field for each
//! option. The grammar, the help texts, the spelling suggestions, the completions and the manual pages all read that
//! command.
//!
//! | in the definition | meaning |
//! |---|---|
//! | order of the fields | LLVM's order of spelling suggestions: among equally near names, the first wins; ours are last |
//! | type of the field | the kind of the value, see [`ValueKind`]; all values of a `Vec` count, otherwise the last |
//! | `action` | the option takes effect where it appears, see [`ImmediateAction`] |
//! | `help_heading` | [`GENERIC`] for options of every LLVM tool, [`OWN`] for options that LLVM's tool does not have |
//! | `hide_short_help` | only help texts by category list the option |
//! | `hide_long_help` with it | only help texts that show hidden options list it |
//! | `hide` | no help text lists it, and it is never suggested |
//!
//! Names, value names, help texts and the order of the suggestions follow LLVM 22.1.8's tools.

use std::any::TypeId;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Parser};

use super::additions::Call;
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::values::{boolean, signed, size, unsigned};

/// The options of a tool.
pub(crate) trait ToolOptions: Parser + Default {
    /// Runs the tool for a valid command line.
    fn run(&self, call: &Call<'_>, console: &mut Console) -> anyhow::Result<ExitCode>;
}

/// The library of LLVM with which a tool reads its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// `llvm/Support/CommandLine.h`: see [`super::grammar`].
    CommandLine,
    /// `llvm/Option`: see [`super::option_table`].
    OptionTable,
}

/// A tool: its definition, its implementation and how it is selected.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The parts of the executable's name that select it.
    pub(crate) names: &'static [&'static str],
    /// The first word that selects it.
    pub(crate) subcommand: Option<&'static str>,
    /// Whether LLVM's tool goes on without any option if a response file cannot be read.
    pub(crate) goes_on_without_options: bool,
    pub(crate) grammar: Grammar,
    /// The options as `clap` derives them.
    pub(crate) definition: fn() -> Command,
    /// Runs the tool with the options that `clap` has parsed; for `None`, without any option.
    pub(crate) execute: fn(Option<ArgMatches>, &Call<'_>, &mut Console) -> anyhow::Result<ExitCode>,
}

impl Tool {
    /// The tool with these options, which serves every name of the executable.
    pub(crate) const fn of<O: ToolOptions>() -> Self {
        Self {
            names: &[],
            subcommand: None,
            goes_on_without_options: false,
            grammar: Grammar::CommandLine,
            definition: <O as CommandFactory>::command,
            execute: execute::<O>,
        }
    }

    /// Whether the tool serves every program name that does not select another tool. Its first word may then be a
    /// subcommand.
    pub(crate) fn serves_every_name(&self) -> bool {
        self.subcommand.is_none()
    }

    /// The definition for the words that the grammar writes: without the program's name, and without options of `clap`.
    pub(crate) fn command(&self) -> Command {
        let command = (self.definition)().no_binary_name(true).args_override_self(true);
        command.disable_help_flag(true).disable_version_flag(true)
    }
}

/// Runs a tool for the options that `clap` has parsed.
fn execute<O: ToolOptions>(
    matches: Option<ArgMatches>,
    call: &Call<'_>,
    console: &mut Console,
) -> anyhow::Result<ExitCode> {
    filled::<O>(matches)?.run(call, console)
}

/// Fills the struct of options from the matches of `clap`, or with defaults for `None`.
pub(crate) fn filled<O: ToolOptions>(matches: Option<ArgMatches>) -> clap::error::Result<O> {
    match matches {
        Some(mut matches) => O::from_arg_matches_mut(&mut matches),
        None => Ok(O::default()),
    }
}

/// The effect of an option that ends the reading of the command line, such as `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImmediateAction {
    Help(HelpStyle),
    Version,
}

impl ImmediateAction {
    /// Returns the action of an option, or `None` for an option that only sets a value. The definition uses `HelpLong`
    /// for help by category, and `HelpShort` for help as one list. As in LLVM, a help option that is hidden itself
    /// shows the hidden options.
    fn of(arg: &Arg) -> Option<Self> {
        let hidden = is_hidden(arg);
        match arg.get_action() {
            ArgAction::HelpLong => Some(Self::Help(HelpStyle { by_category: true, hidden })),
            ArgAction::HelpShort => Some(Self::Help(HelpStyle { by_category: false, hidden })),
            ArgAction::Version => Some(Self::Version),
            _ => None,
        }
    }
}

/// The form of the help text: by category or as one list, with or without hidden options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelpStyle {
    pub(crate) by_category: bool,
    pub(crate) hidden: bool,
}

impl HelpStyle {
    /// The form printed for `-h`.
    pub(crate) const SHORT: Self = Self { by_category: false, hidden: false };
    /// The form printed for `--help`.
    pub(crate) const LONG: Self = Self { by_category: true, hidden: false };

    /// Whether a help text of this form lists an option. Some help texts leave out three kinds of options (see the
    /// attributes in the head of this file): options that no help text lists, hidden options, and options that are
    /// listed by category.
    pub(crate) fn lists(self, arg: &Arg) -> bool {
        let is_listed_nowhere = arg.is_hide_set();
        let is_listed_by_category = arg.is_hide_short_help_set();
        if is_listed_nowhere {
            false
        } else if is_hidden(arg) {
            self.hidden
        } else if is_listed_by_category {
            self.by_category || self.hidden
        } else {
            true
        }
    }
}

/// The kind of an option's value, given by the type of the option's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// No value; takes effect at once.
    Immediate(ImmediateAction),
    /// A boolean (`bool`), whose value may be left out.
    Flag,
    /// An unsigned 32-bit number (`u32`).
    Uint,
    /// A signed 32-bit number (`i32`).
    Int,
    /// A number of bytes (`u64`), with a unit.
    Size,
    /// A string.
    Text,
}

impl ValueKind {
    /// Returns the kind of the value of an option. Apart from options that take effect at once, the parser that `clap`
    /// derives from the type of the option's field decides.
    pub(crate) fn of(arg: &Arg) -> Self {
        if let Some(action) = ImmediateAction::of(arg) {
            return Self::Immediate(action);
        }
        let field_type = arg.get_value_parser().type_id();
        if field_type == TypeId::of::<bool>() {
            Self::Flag
        } else if field_type == TypeId::of::<u32>() {
            Self::Uint
        } else if field_type == TypeId::of::<i32>() {
            Self::Int
        } else if field_type == TypeId::of::<u64>() {
            Self::Size
        } else {
            Self::Text
        }
    }
}

/// The heading of the options of every LLVM tool.
pub(crate) const GENERIC: &str = "Generic Options";

/// The heading of the options that LLVM's tool does not have.
pub(crate) const OWN: &str = "Options that LLVM's tool does not have";

/// Whether only help texts that show hidden options list an option. `clap`'s attribute for this has another meaning.
fn is_hidden(arg: &Arg) -> bool {
    arg.is_hide_long_help_set()
}

/// Whether LLVM's tool lacks an option.
pub(crate) fn llvm_lacks(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(OWN)
}

/// The name of an option, without dashes.
pub(crate) fn name_of(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => long.to_owned(),
        None => arg.get_short().map(String::from).unwrap_or_default(),
    }
}

/// The name of an option with its dashes: one for a single letter, two for others.
pub(crate) fn spelled(arg: &Arg) -> String {
    let name = name_of(arg);
    let dashes = if name.len() == 1 { "-" } else { "--" };
    [dashes, &name].concat()
}

/// Finds the option of this name, without dashes.
pub(crate) fn find_option<'c>(command: &'c Command, name: &[u8]) -> Option<&'c Arg> {
    let mut letter = [0; 4];
    command.get_arguments().find(|arg| match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => long.as_bytes() == name,
        (None, Some(short)) => short.encode_utf8(&mut letter).as_bytes() == name,
        (None, None) => false,
    })
}

/// The options in the order of the help texts: by name, with our own options last.
pub(crate) fn in_help_order(command: &Command) -> Vec<&Arg> {
    let mut options: Vec<&Arg> = command.get_opts().collect();
    options.sort_by_cached_key(|arg| (llvm_lacks(arg), name_of(arg)));
    options
}

/// Returns the name of an option's value in help texts, or `None` for an option that is shown without one.
pub(crate) fn value_name(arg: &Arg) -> Option<&str> {
    match ValueKind::of(arg) {
        ValueKind::Immediate(_) | ValueKind::Flag => None,
        _ => arg.get_value_names()?.first().map(AsRef::as_ref),
    }
}

/// Whether an option may have a value.
pub(crate) fn takes_value(arg: &Arg) -> bool {
    !matches!(ValueKind::of(arg), ValueKind::Immediate(_))
}

/// Whether an option must have a value.
pub(crate) fn requires_value(arg: &Arg) -> bool {
    !matches!(ValueKind::of(arg), ValueKind::Immediate(_) | ValueKind::Flag)
}

/// Rewrites a value in the form that `clap` parses. The error is the reason why it is not valid: LLVM's text after the
/// value and its closing quotation mark.
pub(crate) fn rewrite_value(arg: &Arg, typed: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (rewritten, refusal) = match ValueKind::of(arg) {
        ValueKind::Flag => (in_decimal(boolean(typed)), "is invalid value for boolean argument! Try 0 or 1"),
        ValueKind::Uint => (in_decimal(unsigned(typed)), "value invalid for uint argument!"),
        ValueKind::Int => (in_decimal(signed(typed)), "value invalid for integer argument!"),
        ValueKind::Size => (
            in_decimal(size(typed)),
            "value invalid for size argument! Try a number of bytes, optionally with suffix K, M or G",
        ),
        ValueKind::Immediate(_) | ValueKind::Text => return Ok(typed.to_vec()),
    };
    rewritten.ok_or(refusal)
}

/// Formats a boolean or a number as `clap` parses it. Returns `None` for `None`, which is a value that is not valid.
fn in_decimal(value: Option<impl ToString>) -> Option<Vec<u8>> {
    Some(value?.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::llvm::cli::TOOLS;

    fn commands() -> impl Iterator<Item = Command> {
        TOOLS.into_iter().map(Tool::command)
    }

    #[test]
    fn the_definitions_are_consistent() {
        for command in commands() {
            command.debug_assert();
        }
    }

    #[test]
    fn our_own_options_are_the_last_to_be_suggested() {
        for command in commands() {
            let suggested: Vec<&Arg> = command.get_opts().filter(|arg| !arg.is_hide_set()).collect();
            assert!(suggested.is_sorted_by_key(|arg| llvm_lacks(arg)), "{}", command.get_name());
        }
    }

    #[test]
    fn each_option_has_one_name_and_help() {
        for command in commands() {
            for arg in command.get_opts() {
                let is_letter = name_of(arg).len() == 1;
                assert_eq!((arg.get_short().is_some(), arg.get_long().is_some()), (is_letter, !is_letter), "{arg}");
                assert!(arg.get_help().is_some() && arg.get_long_help().is_none(), "{arg}");
            }
        }
    }

    #[test]
    fn every_field_is_of_a_type_that_the_grammar_knows() {
        let known = [
            TypeId::of::<bool>(),
            TypeId::of::<u32>(),
            TypeId::of::<i32>(),
            TypeId::of::<u64>(),
            TypeId::of::<OsString>(),
        ];
        for command in commands() {
            for arg in command.get_arguments() {
                let is_known = known.iter().any(|known| arg.get_value_parser().type_id() == *known);
                assert!(is_known || !takes_value(arg), "{arg}");
            }
        }
    }

    #[test]
    fn only_the_type_is_required() {
        for (tool, expected) in TOOLS.into_iter().zip([&["type"][..], &[], &[]]) {
            let command = tool.command();
            let mut required: Vec<&Arg> = command.get_arguments().collect();
            required.retain(|arg| arg.is_required_set());
            let names: Vec<String> = required.into_iter().map(name_of).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn values_have_the_form_that_clap_parses() {
        let command = super::super::bundler::TOOL.command();
        for (option, typed, expected) in [
            ("list", "", "true"),
            ("list", "FALSE", "false"),
            ("bundle-align", "0x1000", "4096"),
            ("compression-level", "-010", "-8"),
            ("max-size", "3k", "3072"),
            ("input", "-x", "-x"),
        ] {
            let arg = find_option(&command, option.as_bytes()).unwrap();
            assert_eq!(rewrite_value(arg, typed.as_bytes()), Ok(expected.as_bytes().to_vec()), "{option}");
        }
    }
}
