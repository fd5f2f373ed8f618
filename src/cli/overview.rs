//! `help`: the list of subcommands, and the help of each. `--help` stays LLVM's.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use offload_bundle::Error;

use super::console::Console;
use super::help;
use super::options::HelpStyle;
use super::subcommand::{self, PROGRAM, Subcommand};
use super::{TOOLS, to_stdout};

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "help", command, run };

const EXAMPLES: &str = "\
Examples:
  List the subcommands:
    clang-offload-bundler help
  Print the help of one:
    clang-offload-bundler help inspect

Exit status:
  0  the text was printed
  1  the text could not be printed
  2  the command line is invalid";

/// What `--help` prints of LLVM's tools.
const FULL_HELP: HelpStyle = HelpStyle { by_category: true, hidden: false };

fn command() -> Command {
    Command::new("help").about("List the subcommands, or print the help of one").after_help(EXAMPLES).arg(
        Arg::new("subcommand")
            .value_name("SUBCOMMAND")
            .value_parser(subcommand::names())
            .help("Subcommand to print the help of"),
    )
}

fn run(matches: &ArgMatches, _console: &mut Console) -> anyhow::Result<ExitCode> {
    let text = match matches.get_one::<String>("subcommand") {
        Some(name) => explained(name),
        None => overview(),
    };
    to_stdout(|out| out.write_all(&text).map_err(|error| Error::io("-", error)))?;
    Ok(ExitCode::SUCCESS)
}

/// The help of a subcommand, which may be one of LLVM's tools.
fn explained(name: &str) -> Vec<u8> {
    match TOOLS.into_iter().find(|tool| tool.subcommand == Some(name)) {
        Some(tool) => help::text(tool, format!("{PROGRAM} {name}").as_bytes(), FULL_HELP),
        None => subcommand::find(name.as_ref()).map(|own| asked_for_help(own.named())).unwrap_or_default(),
    }
}

/// What the command prints for `--help`.
fn asked_for_help(command: Command) -> Vec<u8> {
    let answer = command.try_get_matches_from(["", "--help"]).err();
    answer.map_or(Vec::new(), |help| help.render().to_string().into_bytes())
}

fn overview() -> Vec<u8> {
    let tools = TOOLS.into_iter().filter_map(|tool| Some(Command::new(tool.subcommand?).about(tool.about)));
    let mut command = subcommand::all()
        .override_usage(format!("{PROGRAM} [OPTIONS]\n       {PROGRAM} <SUBCOMMAND> ..."))
        .subcommands(tools)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .after_help(format!("LLVM's own options, to bundle, unbundle and list: {PROGRAM} --help"));
    command.render_long_help().to_string().into_bytes()
}
