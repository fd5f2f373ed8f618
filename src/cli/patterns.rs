//! Patterns over bundle entry IDs and target IDs, in which a subcommand is told which code objects are meant.

use anyhow::anyhow;
use clap::{Arg, ArgAction, ArgMatches};
use offload_bundle::scan::{Comparison, Pattern, Selection};

/// An option that takes patterns, as often as it is given.
pub(super) fn option(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append).help(help)
}

/// The option for comparing patterns strictly.
pub(super) fn exact(help: &'static str) -> Arg {
    Arg::new("exact").long("exact").action(ArgAction::SetTrue).help(help)
}

/// What the patterns of an option select; everything if there is none.
pub(super) fn selection(matches: &ArgMatches, name: &str) -> anyhow::Result<Selection> {
    let mut selection = Selection::default();
    for pattern in matches.get_many::<String>(name).into_iter().flatten() {
        selection.targets.push(Pattern::parse(pattern).map_err(|error| anyhow!("--{name}: {error}"))?);
    }
    if matches.get_flag("exact") {
        selection.comparison = Comparison::Exact;
    }
    Ok(selection)
}
