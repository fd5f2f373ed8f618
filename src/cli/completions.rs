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
  For bash:
    cd ~/.local/share/bash-completion/completions
    clang-offload-bundler completions bash > clang-offload-bundler
  For fish:
    clang-offload-bundler completions fish > ~/.config/fish/completions/clang-offload-bundler.fish

Exit status:
  0  the script was printed
  1  it could not be printed
  2  the command line is wrong";

fn command() -> Command {
    Command::new("completions")
        .about("Print what a shell needs to complete command lines")
        .after_help(EXAMPLES)
        .arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell)).help("The shell"))
}

fn run(matches: &ArgMatches, _console: &mut Console) -> anyhow::Result<ExitCode> {
    let script = matches.get_one::<Shell>("shell").copied().map(script).unwrap_or_default();
    to_stdout(|out| out.write_all(script.as_bytes()).map_err(|error| Error::io("-", error)))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut subcommand::all(), PROGRAM, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if shell != Shell::Bash {
        return script;
    }
    // clap_complete spells the dashes of the program's name in two ways, so that nothing behind a subcommand would be
    // completed: https://github.com/clap-rs/clap/issues/6421.
    let spelled = |dash| [&PROGRAM.replace('-', dash), "__subcmd__"].concat();
    script.replace(&spelled("__subcmd__"), &spelled("__"))
}
