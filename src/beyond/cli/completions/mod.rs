//! `completions`: prints shell scripts that complete subcommands, their options and LLVM's options, which may begin
//! with one dash.

mod bash;
mod one_dash;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, Parser, ValueHint};
use clap_complete::Shell;

use self::one_dash::LLVM;
use super::documented::documented;
use super::print::out::own_text_to_stdout;
use super::subcommand::{self, Catalogue, OptionsAboutAll, SHORT};
use crate::base::display::alternatives;
use crate::beyond::cli::PROGRAM;
use crate::llvm::cli::options::Tool;
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::{TOOLS, tool_of_program};

/// Print a script that completes command lines in your shell
#[derive(Clone, Debug, Parser)]
pub(super) struct CompletionsOptions {
    /// Your shell.
    shell: Shell,
    /// Name of the executable whose command lines are completed (default: as typed).
    #[arg(
        value_parser = PossibleValuesParser::new(NAMES), hide_possible_values = true,
        long_help = format!(
            "Name of the executable whose command lines are completed: {}. By default, the name that was typed.",
            alternatives(&NAMES),
        ),
    )]
    name: Option<String>,
}

/// The names of the executable.
const NAMES: [&str; 5] = [SHORT, PROGRAM, "llvm-offload-binary", "clang-offload-packager", "llvm-extract-bundle-entry"];

impl OptionsAboutAll for CompletionsOptions {
    fn run(&self, all: &Catalogue, console: &mut Console) -> anyhow::Result<ExitCode> {
        let typed = subcommand::program(console);
        let wanted = self.name.as_ref().unwrap_or(&typed);
        // A link of another name shares the script of LLVM's name.
        let name = NAMES.into_iter().find(|name| name == wanted).unwrap_or(PROGRAM);
        own_text_to_stdout(script(self.shell, command(all, name)).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the completion script for a shell. fish and zsh get LLVM's spellings with one dash too, and so does bash,
/// whose script is ours.
fn script(shell: Shell, mut everything: Command) -> String {
    if shell == Shell::Bash {
        // This adds `--help` and `--version` to the options. For other shells, `generate` does it.
        everything.build();
        return bash::script(&everything);
    }
    let mut script = Vec::new();
    let program = everything.get_name().to_owned();
    clap_complete::generate(shell, &mut everything, program, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Fish => one_dash::fish_script(&script, &everything) + &fish_words(&everything),
        Shell::Zsh => one_dash::zsh_script(&script, &everything),
        _ => script,
    }
}

/// Returns lines for fish that `clap_complete` omits: the words that a subcommand accepts where fish would suggest
/// files.
fn fish_words(everything: &Command) -> String {
    let program = everything.get_name();
    let mut lines = String::new();
    for command in everything.get_subcommands() {
        let positional = command.get_positionals().next();
        let words = positional.map(words_of).unwrap_or_default();
        // Without a positional argument or words, the line keeps fish from suggesting files.
        let takes_files = positional.is_some() && words.is_empty();
        if !takes_files {
            let condition = format!("__fish_{}_using_subcommand {}", program.replace('-', "_"), command.get_name());
            lines.push_str(&format!("complete -c {program} -n \"{condition}\" -f -a \"{words}\"\n"));
        }
    }
    lines
}

/// Returns the words that an argument accepts, with spaces between them, or an empty text if it accepts any word.
fn words_of(arg: &Arg) -> String {
    let words: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    words.join(" ")
}

/// Returns the command line that the executable has under this name. If the name contains that of an LLVM tool other
/// than the bundler, the command line has only the options of that tool. Otherwise it has the subcommands.
fn command(catalogue: &Catalogue, name: &'static str) -> Command {
    match tool_of_program(name.as_bytes()) {
        Some(tool) => tool_command(name, tool).version(env!("CARGO_PKG_VERSION")).mut_args(without_files),
        None => full_command(catalogue, name),
    }
}

/// Returns the command that completions describe: our subcommands, LLVM's tools that are subcommands too, and the
/// options of the bundler. The name `offload-bundle` does not have the bundler's options.
fn full_command(catalogue: &Catalogue, program: &'static str) -> Command {
    let subcommands = catalogue.command().name(program).propagate_version(true);
    let all = TOOLS.into_iter().fold(subcommands, |all, tool| match tool.subcommand {
        Some(name) => all.subcommand(tool_command(name, tool)),
        // The bundler is no subcommand.
        None if program == SHORT => all,
        None => all.args(offered(&tool.command())),
    });
    all.mut_subcommands(|subcommand| subcommand.mut_args(without_files))
}

/// Marks the value of an option as not being a file, unless the definition says what it is. Otherwise, shells would
/// suggest files for it.
fn without_files(arg: Arg) -> Arg {
    let has_no_hint = arg.get_action().takes_values() && arg.get_value_hint() == ValueHint::Unknown;
    if has_no_hint { arg.value_hint(ValueHint::Other) } else { arg }
}

/// Returns the command of one of LLVM's tools under this name, as a subcommand or as an executable. LLVM's tools accept
/// `--version` but not `-V`, which `clap` would add.
fn tool_command(name: &'static str, tool: &Tool) -> Command {
    let definition = tool.command();
    let version = Arg::new("version").long("version").action(ArgAction::Version).help("Print version");
    let command =
        Command::new(name).about(definition.get_about().cloned().unwrap_or_default()).disable_version_flag(true);
    command.arg(version).args(offered(&definition))
}

/// Returns the options of a tool that shells offer besides those of `clap`.
fn offered(definition: &Command) -> Vec<Arg> {
    const OF_CLAP: [&str; 2] = ["help", "version"];
    // `#` begins a comment in shells.
    const HARD_TO_QUOTE: &str = "###";
    let mut offered = Vec::new();
    for arg in documented(definition) {
        match arg.get_long() {
            Some(name) if OF_CLAP.contains(&name) || name == HARD_TO_QUOTE => {}
            _ => offered.push(marked_as_llvms(arg)),
        }
    }
    offered
}

/// Returns the option with only the first line of its help, below the heading that marks LLVM's options. `--type`
/// accepts the words that its help lists, so that shells suggest them.
fn marked_as_llvms(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let arg = match arg.get_long() {
        Some("type") => arg.value_parser(PossibleValuesParser::new(listed_types(&help))),
        _ => arg,
    };
    without_files(arg.help(help.lines().next().unwrap_or_default().to_owned()).help_heading(LLVM))
}

/// Returns the file types that a help text lists.
fn listed_types(help: &str) -> Vec<String> {
    help.lines().filter_map(|line| Some(line.strip_prefix("  ")?.split_whitespace().next()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::cli::catalogue::CATALOGUE;

    #[test]
    fn everything_is_consistent_and_has_the_types() {
        let everything = full_command(CATALOGUE, PROGRAM);
        everything.clone().debug_assert();
        let file_type = everything.get_arguments().find(|arg| arg.get_long() == Some("type")).unwrap();
        let types: Vec<String> =
            file_type.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(types.join(" "), "i ii cui hipi d ll bc s o a gch ast");
    }
}
