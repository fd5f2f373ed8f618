//! Options that select code objects by patterns over bundle entry IDs and target IDs.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};
use offload_bundle::Result;
use offload_bundle::job::Matches;
use offload_bundle::scan::{Comparison, Pattern, Selection};

use super::subcommand::flag;

/// How patterns match targets.
pub(super) const MATCHING: &str = "A target ID matches all code objects that can run on it: gfx90a:xnack+ also matches gfx90a, which \
    runs with any xnack setting. Without features, it matches every code object for that processor.";

/// A repeatable option that takes a comma list of patterns.
pub(super) fn option(name: &'static str, help: &'static str) -> Arg {
    let parse = |text: &str| match text.trim() {
        "" => Err("a name is missing; a list has commas and no spaces: gfx90a,gfx942".to_owned()),
        text => Pattern::parse(text).map_err(|error| error.reason().to_owned()),
    };
    list(name, help).value_name("PATTERN").value_parser(parse)
}

/// The option `--target`, by which only some things are listed or compared.
pub(super) fn targets(things: &str, done: &str) -> Arg {
    option("target", "Target IDs or bundle entry IDs, with wildcards * ? [...], in a comma list").short('t').long_help(
        format!(
            "Target IDs (gfx90a:xnack+) or bundle entry IDs (hip-amdgcn-amd-amdhsa--gfx90a), with the wildcards * ? \
             and [...], in a comma list. May be repeated. Each must match something; only {things} for a target that \
             matches any of them are {done}. {MATCHING}"
        ),
    )
}

/// A repeatable option that takes a comma list.
pub(super) fn list(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::Append).value_delimiter(',').help(help)
}

/// The option for exact comparison.
pub(super) fn exact() -> Arg {
    flag("exact", "Match only the exact target ID or entry ID, not all that are compatible")
}

/// The option to accept patterns that match nothing.
pub(super) fn allow_none(help: &'static str) -> Arg {
    flag("allow-none", help)
}

/// Fails if a part of the selection matches nothing in any of the files, unless that is allowed or none could be read.
pub(super) fn ensure_match(
    matches: &ArgMatches,
    found: Matches,
    selection: &Selection,
    files: &[PathBuf],
    has_problems: bool,
) -> Result<()> {
    let is_accepted = matches.get_flag("allow-none") || (has_problems && !found.has_code());
    if is_accepted { Ok(()) } else { found.ensure_all(selection, files) }
}

/// The selection made by the patterns of an option; it matches everything if there are none.
pub(super) fn selection(matches: &ArgMatches, name: &str) -> Selection {
    let mut selection = Selection::default();
    selection.targets = matches.get_many::<Pattern>(name).into_iter().flatten().cloned().collect();
    if matches.get_flag("exact") {
        selection.comparison = Comparison::Exact;
    }
    selection
}
