//! The options of a tool in completions and manual pages.

use clap::{Arg, ArgAction, Command};

use crate::llvm::cli::options::{in_help_order, value_name};

/// Returns the options and positional arguments of a tool for completions and manual pages, in the order of the help
/// texts. Every option that a help text lists is shown, hidden or not. As in LLVM's usage line, none is required.
pub(crate) fn documented(command: &Command) -> Vec<Arg> {
    let mut documented = Vec::new();
    for arg in in_help_order(command) {
        if !arg.is_hide_set() {
            let shown = as_switch(arg).required(false).hide_short_help(false).hide_long_help(false);
            documented.push(shown.display_order(documented.len()));
        }
    }
    documented.extend(command.get_positionals().cloned());
    documented
}

/// Returns the option as a switch without a value, unless help texts show a value for it. Otherwise, completions and
/// manual pages would offer a value for booleans, whose value is rarely given.
fn as_switch(arg: &Arg) -> Arg {
    if value_name(arg).is_some() {
        return arg.clone();
    }
    let help = arg.get_help().cloned().unwrap_or_default();
    let mut switch = Arg::new(arg.get_id().clone()).action(ArgAction::SetTrue).short(arg.get_short()).help(help);
    if let Some(long) = arg.get_long() {
        switch = switch.long(long.to_owned());
    }
    if let Some(heading) = arg.get_help_heading() {
        switch = switch.help_heading(heading.to_owned());
    }
    switch
}
