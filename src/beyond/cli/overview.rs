//! `help`: prints the list of subcommands, and the help of each. `--help` remains LLVM's.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Command, Parser};

use super::catalogue::CATALOGUE;
use super::subcommand::{self, Options, SHORT};
use crate::llvm::cli::help;
use crate::llvm::cli::options::{HelpStyle, Tool};
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::print::stdout::text_to_stdout;
use crate::llvm::cli::{PROGRAM, TOOLS};

/// List the subcommands, or print the help of one
#[derive(Clone, Debug, Parser)]
pub(super) struct HelpOptions {
    /// Subcommand to print the help of.
    #[arg(value_parser = PossibleValuesParser::new(CATALOGUE.names()))]
    subcommand: Option<String>,
}

impl Options for HelpOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let program = subcommand::program(console);
        let text = match &self.subcommand {
            Some(name) => explained(name, &program),
            None => overview(&program),
        };
        text_to_stdout(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The help of a subcommand or of an LLVM tool.
fn explained(name: &str, program: &str) -> Vec<u8> {
    match TOOLS.into_iter().find(|tool| tool.subcommand == Some(name)) {
        Some(tool) => {
            let name = format!("{program} {name}");
            help::text(&tool.command(), &[], name.as_bytes(), HelpStyle::FULL)
        }
        None => {
            // clap answers `--help` with an error that holds the text.
            let own = CATALOGUE.find(name.as_ref()).map(|own| own.named(program));
            let answer = own.and_then(|command| command.try_get_matches_from(["", "--help"]).err());
            answer.map_or(Vec::new(), |help| help.render().to_string().into_bytes())
        }
    }
}

/// The list of subcommands.
pub(super) fn overview(program: &str) -> Vec<u8> {
    let listed = |tool: &Tool| Some(Command::new(tool.subcommand?).about(tool.command().get_about()?.clone()));
    let tools = TOOLS.into_iter().filter_map(listed);
    let subcommands = format!("{program} <SUBCOMMAND> ...");
    let (usage, bundler) = match program {
        SHORT => (subcommands, PROGRAM),
        _ => (format!("{program} [OPTIONS]\n       {subcommands}"), program),
    };
    let mut command = CATALOGUE
        .command()
        .override_usage(usage)
        .subcommands(tools)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .after_help(format!(
            "Help of a subcommand: {program} help <SUBCOMMAND>\n\
             LLVM's own options, to bundle, unbundle and list: {bundler} --help"
        ));
    command.render_long_help().to_string().into_bytes()
}
