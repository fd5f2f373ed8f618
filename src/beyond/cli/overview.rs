//! `help`: prints the list of subcommands, and the help of each. `--help` remains LLVM's.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;

use super::catalogue::CATALOGUE;
use super::print::out::own_text_to_stdout;
use super::subcommand::{self, Group, OFFLOAD_BUNDLE, Options, about};
use crate::beyond::cli::BUNDLER;
use crate::llvm::cli::TOOLS;
use crate::llvm::cli::help;
use crate::llvm::cli::options::HelpStyle;
use crate::llvm::cli::print::console::Console;

/// List the subcommands, or print the help of one
#[derive(Clone, Debug, Parser)]
pub(super) struct HelpOptions {
    /// Subcommand to print the help of; without it, all are listed.
    #[arg(value_parser = PossibleValuesParser::new(CATALOGUE.names()), hide_possible_values = true)]
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
        let style = HelpStyle { by_category: true, hidden: false };
        // A tool that runs as a subcommand has no subcommands itself.
        let subcommands = &[];
        return help::text(&tool.command(), subcommands, name.as_bytes(), style);
    }
    let Some(subcommand) = CATALOGUE.find(name.as_ref()) else { return Vec::new() };
    // clap answers `--help` with an error that holds the text. The first word stands for the name of the program, which
    // clap does not use here.
    match subcommand.command_with_help(program).try_get_matches_from(["", "--help"]) {
        Ok(_) => Vec::new(),
        Err(help) => help.render().to_string().into_bytes(),
    }
}

/// Returns the help of the executable that runs as `program`: its usage, and the subcommands by their use.
pub(super) fn overview(program: &str) -> Vec<u8> {
    // `offload-bundle` has none of LLVM's options, so the help names the program that has them.
    let subcommands = format!("{program} <SUBCOMMAND> ...");
    let (usage, bundler) = match program {
        OFFLOAD_BUNDLE => (subcommands, BUNDLER),
        _ => (format!("{program} [OPTIONS]\n       {subcommands}"), program),
    };
    let mut text = format!("Bundle, unbundle, inspect and check GPU code objects\n\nUsage: {usage}\n");
    for (group, title) in Group::TITLES {
        let ours = CATALOGUE.subcommands.iter().filter(|ours| ours.group == group);
        add_list(&mut text, title, ours.map(|ours| (ours.name, about(&ours.command()))));
    }
    let tools = TOOLS.into_iter().filter_map(|tool| Some((tool.subcommand?, about(&tool.command()))));
    add_list(&mut text, "LLVM's other tools", tools);
    text.push_str(&format!(
        "\nHelp of a subcommand: {program} help <SUBCOMMAND>\n\
         LLVM's own options, to bundle, unbundle and list: {bundler} --help\n"
    ));
    text.into_bytes()
}

/// Adds a list of subcommands, each with its description.
fn add_list<'n>(text: &mut String, title: &str, subcommands: impl Iterator<Item = (&'n str, String)>) {
    text.push_str(&format!("\n{title}:\n"));
    for (name, about) in subcommands {
        // The longest name, `extract-bundle-entry`, has 20 characters.
        text.push_str(&format!("  {name:20}  {about}\n"));
    }
}
