//! Patterns over bundle entry IDs and target IDs, in which a subcommand is told which code objects are meant.

use clap::{Arg, ArgAction, ArgMatches};
use offload_bundle::scan::{Comparison, Pattern, Selection};

/// An option that takes patterns: several in a comma list, and as often as it is given.
pub(super) fn option(name: &'static str, help: &'static str) -> Arg {
    let parse = |text: &str| Pattern::parse(text).map_err(|error| error.reason().to_owned());
    list(name, help).value_name("PATTERN").value_parser(parse)
}

/// An option that takes a comma list, as often as it is given.
pub(super) fn list(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::Append).value_delimiter(',').help(help)
}

/// The option for comparing patterns strictly.
pub(super) fn exact(help: &'static str) -> Arg {
    Arg::new("exact").long("exact").action(ArgAction::SetTrue).help(help)
}

/// What the patterns of an option select; everything if there is none.
pub(super) fn selection(matches: &ArgMatches, name: &str) -> Selection {
    let mut selection = Selection::default();
    selection.targets = matches.get_many::<Pattern>(name).into_iter().flatten().cloned().collect();
    if matches.get_flag("exact") {
        selection.comparison = Comparison::Exact;
    }
    selection
}
