//! `man`: prints manual pages, made from the same definitions as the help texts.

mod page;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command, Parser};
use offload_bundle::io::{create_directory, write_file};

use super::CATALOGUE;
use super::llvm::options::{Row, Shown, Tool};
use super::print::console::Console;
use super::subcommand::{Catalogue, Options, SHORT, Subcommand};
use page::ManPage;

/// Write the manual pages to a directory
#[derive(Clone, Debug, Parser)]
pub(super) struct ManOptions {
    /// Directory for the pages, created if necessary.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

impl Options for ManOptions {
    fn run(&self, _: &mut Console) -> anyhow::Result<ExitCode> {
        create_directory(&self.output)?;
        let Catalogue { tools, subcommands } = CATALOGUE;
        let own = subcommands.iter().copied().map(page_of_subcommand);
        let pages = std::iter::once(page_of_all(CATALOGUE)).chain(own).chain(tools.iter().copied().map(page_of_tool));
        let pages: Vec<ManPage> = pages.collect();
        let names: Vec<String> = pages.iter().map(|page| page.name.clone()).collect();
        for page in &pages {
            let mut text = Vec::new();
            page.write(&names, &mut text)?;
            write_file(&self.output.join(format!("{}.1", page.name)), &text)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The page of the short name, which lists the subcommands.
fn page_of_all(catalogue: &Catalogue) -> ManPage {
    let all = catalogue.command();
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let line = |command: &Command| format!("  {}  {}\n", command.get_name(), about(command));
    let list: String = all.get_subcommands().map(line).collect();
    let word = Arg::new("subcommand").value_name("SUBCOMMAND").help("Subcommand, each with a page of its own");
    let command = Command::new(SHORT).about(about(&all)).version(env!("CARGO_PKG_VERSION")).arg(word);
    ManPage {
        name: SHORT.to_owned(),
        command: command.after_help(format!("Subcommands:\n{list}")),
        typed: SHORT.to_owned(),
    }
}

fn page_of_subcommand(subcommand: Subcommand) -> ManPage {
    let name = format!("{SHORT}-{}", subcommand.name);
    ManPage { name, command: subcommand.named(SHORT), typed: format!("{SHORT} {}", subcommand.name) }
}

/// The manual page of a tool, with its options as `clap` would show them.
fn page_of_tool(tool: &Tool) -> ManPage {
    let rows = tool.rows.iter().filter(|row| row.shown != Shown::Never);
    let words = tool.positional.iter();
    let words =
        words.map(|word| Arg::new(word.id).value_name(word.value_name).num_args(1..=word.most).help(word.usage));
    let command = Command::new(tool.title)
        .about(tool.about)
        .long_about(tool.overview)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(rows.map(described).chain(words));
    ManPage { name: tool.title.to_owned(), command, typed: tool.title.to_owned() }
}

fn described(row: &'static Row) -> Arg {
    let arg = row.documented(row.help);
    if row.value_name.is_empty() { arg.action(clap::ArgAction::SetTrue) } else { arg.value_name(row.value_name) }
}
