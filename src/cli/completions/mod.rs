//! `completions`: prints shell scripts that complete subcommands, their options and LLVM's options.

mod bash;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, Parser, ValueHint};
use clap_complete::Shell;

use super::CATALOGUE;
use super::llvm::options::{Row, Shown, Tool, ValueKind};
use super::print::console::Console;
use super::print::stdout::text_to_stdout;
use super::subcommand::{self, Options, PROGRAM, SHORT};

/// Options whose value is a file.
const FILES: [&str; 5] = ["input", "inputs", "output", "outputs", "o"];

/// Print a script that completes command lines in your shell
#[derive(Clone, Copy, Debug, Parser)]
pub(super) struct CompletionsOptions {
    /// Your shell.
    shell: Shell,
}

impl Options for CompletionsOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        // A link of another name shares the script of LLVM's name.
        let program = if subcommand::program(console) == SHORT { SHORT } else { PROGRAM };
        text_to_stdout(script(self.shell, everything(program)).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn script(shell: Shell, mut everything: Command) -> String {
    if shell == Shell::Bash {
        everything.build();
        return bash::script(&everything);
    }
    let mut script = Vec::new();
    let program = everything.get_name().to_owned();
    clap_complete::generate(shell, &mut everything, program, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Fish { script + &fish_words(&everything) } else { script }
}

/// Lines for fish that `clap_complete` omits: the words that a subcommand accepts where fish would suggest files.
fn fish_words(everything: &Command) -> String {
    let program = everything.get_name();
    let line = |command: &Command| {
        let positional = command.get_positionals().next();
        let words: Vec<String> = positional
            .iter()
            .flat_map(|arg| arg.get_possible_values())
            .map(|value| value.get_name().to_owned())
            .collect();
        let takes_files = positional.is_some() && words.is_empty();
        let condition = format!("__fish_{}_using_subcommand {}", program.replace('-', "_"), command.get_name());
        let words = format!("complete -c {program} -n \"{condition}\" -f -a \"{}\"\n", words.join(" "));
        if takes_files { String::new() } else { words }
    };
    everything.get_subcommands().map(line).collect()
}

/// All tools and subcommands as one command. The short name has none of the bundler's options.
fn everything(program: &'static str) -> Command {
    let subcommands = CATALOGUE.command().name(program).propagate_version(true);
    let all = CATALOGUE.tools.into_iter().fold(subcommands, |all, tool| match tool.subcommand {
        Some(name) => all.subcommand(with_options(packager(name, tool), tool)),
        None if program == SHORT => all,
        None => with_options(all, tool),
    });
    all.mut_subcommands(|subcommand| subcommand.mut_args(hinted))
}

/// Marks a value as not being a file, so that shells do not suggest files.
fn hinted(arg: Arg) -> Arg {
    let is_open = arg.get_action().takes_values() && arg.get_value_hint() == ValueHint::Unknown;
    if is_open { arg.value_hint(ValueHint::Other) } else { arg }
}

/// The packager as a subcommand, which accepts `--version` but not `-V`.
fn packager(name: &'static str, tool: &Tool) -> Command {
    let version = Arg::new("version").long("version").action(ArgAction::Version).help("Print version");
    Command::new(name).about(tool.about).disable_version_flag(true).arg(version)
}

fn with_options(command: Command, tool: &Tool) -> Command {
    const OF_CLAP: [&str; 2] = ["help", "version"];
    const HARD_TO_QUOTE: &str = "###";
    let is_offered =
        |row: &&Row| row.shown != Shown::Never && !OF_CLAP.contains(&row.name) && row.name != HARD_TO_QUOTE;
    let rows = tool.rows.iter().filter(is_offered);
    let file = tool.positional.iter().map(|word| Arg::new(word.id).value_hint(ValueHint::FilePath));
    command.args(rows.map(option).chain(file))
}

/// An option of an LLVM tool, with the suggested values.
fn option(row: &'static Row) -> Arg {
    let arg = row.documented(row.help.lines().next().unwrap_or_default());
    match row.kind {
        ValueKind::Act(_) | ValueKind::Flag => arg.action(ArgAction::SetTrue),
        ValueKind::Choice { of, bare } => {
            let least = usize::from(bare.is_none());
            arg.value_parser(PossibleValuesParser::new(of)).num_args(least..=1).require_equals(bare.is_some())
        }
        ValueKind::Text if row.name == "type" => arg.value_parser(PossibleValuesParser::new(types(row.help))),
        _ if FILES.contains(&row.name) => arg.value_hint(ValueHint::FilePath),
        _ => arg.value_hint(ValueHint::Other),
    }
}

/// The file types that the help lists.
fn types(help: &'static str) -> Vec<&'static str> {
    help.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_consistent_and_has_the_types() {
        let everything = everything(PROGRAM);
        everything.clone().debug_assert();
        let file_type = everything.get_arguments().find(|arg| arg.get_id() == "type").unwrap();
        let types: Vec<String> =
            file_type.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(types.join(" "), "i ii cui hipi d ll bc s o a gch ast");
    }
}
