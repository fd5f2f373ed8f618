//! `help`: prints the list of subcommands, and the help of each. `--help` remains LLVM's.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Command, Parser};

use super::catalogue::CATALOGUE;
use super::print::out::own_text_to_stdout;
use super::subcommand::{self, Options, SHORT};
use crate::beyond::cli::PROGRAM;
use crate::llvm::cli::TOOLS;
use crate::llvm::cli::help;
use crate::llvm::cli::options::HelpStyle;
use crate::llvm::cli::print::console::Console;

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
            Some(name) => help_of(name, &program),
            None => overview(&program),
        };
        own_text_to_stdout(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the help of a subcommand or of an LLVM tool. Returns an empty text for other names, which the parser of the
/// command line does not let through.
fn help_of(name: &str, program: &str) -> Vec<u8> {
    if let Some(tool) = TOOLS.into_iter().find(|tool| tool.subcommand == Some(name)) {
        let name = format!("{program} {name}");
        // LLVM's tools have no subcommands under these names.
        let style = HelpStyle { by_category: true, hidden: false };
        return help::text(&tool.command(), &[], name.as_bytes(), style);
    }
    let Some(own) = CATALOGUE.find(name.as_ref()) else { return Vec::new() };
    // clap answers `--help` with an error that holds the text.
    match own.command_with_help(program).try_get_matches_from(["", "--help"]) {
        Ok(_) => Vec::new(),
        Err(help) => help.render().to_string().into_bytes(),
    }
}

/// Returns the help of the executable that runs as `program`: its usage, and the list of subcommands.
pub(super) fn overview(program: &str) -> Vec<u8> {
    let mut tools = Vec::new();
    for tool in TOOLS {
        if let Some(name) = tool.subcommand
            && let Some(about) = tool.command().get_about()
        {
            tools.push(Command::new(name).about(about.clone()));
        }
    }
    // The short name has none of LLVM's options, so the help names the program that has them.
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
