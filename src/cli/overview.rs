//! `help`: which subcommands there are. The help of LLVM's tools stays what it is there.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use offload_bundle::Error;

use super::console::Console;
use super::subcommand::{self, PROGRAM, SUBCOMMANDS, Subcommand};
use super::to_stdout;

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "help", command, run };

const EXAMPLES: &str = "\
Examples:
  Which subcommands are there?
    clang-offload-bundler help
  What can one of them do?
    clang-offload-bundler help inspect

Exit status:
  0  the text was printed
  1  it could not be printed
  2  the command line is wrong";

fn command() -> Command {
    let names = SUBCOMMANDS.map(|subcommand| subcommand.name);
    Command::new("help")
        .about("List the subcommands, or explain one of them")
        .after_help(EXAMPLES)
        .arg(Arg::new("subcommand").value_name("SUBCOMMAND").value_parser(names).help("The subcommand to explain"))
}

fn run(matches: &ArgMatches, _console: &mut Console) -> anyhow::Result<ExitCode> {
    let asked = matches.get_one::<String>("subcommand").and_then(|name| subcommand::find(name.as_ref()));
    let text = match asked {
        Some(asked) => {
            let name = format!("{PROGRAM} {}", asked.name);
            (asked.command)().bin_name(name).render_long_help()
        }
        None => subcommand::all()
            .override_usage(format!("{PROGRAM} [OPTIONS]\n       {PROGRAM} <SUBCOMMAND> ..."))
            .subcommand(Command::new("package").about("Pack and unpack offload binaries, as llvm-offload-binary does"))
            .disable_help_flag(true)
            .disable_version_flag(true)
            .after_help(format!("Options: bundle, unbundle and list, as LLVM's tool does: {PROGRAM} --help"))
            .render_long_help(),
    };
    to_stdout(|out| writeln!(out, "{text}").map_err(|error| Error::io("-", error)))?;
    Ok(ExitCode::SUCCESS)
}
