//! `completions`: what a shell needs to complete our own subcommands.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use offload_bundle::Error;

use super::console::Console;
use super::subcommand::{self, PROGRAM, Subcommand};
use super::to_stdout;

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "completions", command, run };

const EXAMPLES: &str = "\
Examples:
  For this and every later bash:
    clang-offload-bundler completions bash > ~/.local/share/bash-completion/completions/clang-offload-bundler
  For fish:
    clang-offload-bundler completions fish > ~/.config/fish/completions/clang-offload-bundler.fish

Exit status:
  0  the script was printed
  1  it could not be
  2  the command line is wrong";

fn command() -> Command {
    Command::new("completions")
        .about("Print what a shell needs to complete command lines")
        .after_help(EXAMPLES)
        .arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell"))
}

fn run(matches: &ArgMatches, _console: &mut Console) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<Shell>("shell").copied() {
        clap_complete::generate(shell, &mut subcommand::all(), PROGRAM, &mut script);
    }
    to_stdout(|out| out.write_all(&script).map_err(|error| Error::io("-", error)))?;
    Ok(ExitCode::SUCCESS)
}
