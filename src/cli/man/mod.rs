//! `man`: prints manual pages, made from the same definitions as the help texts.

mod page;

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use offload_bundle::io::{create_directory, write_file};

use super::options::{Row, Shown, Tool};
use super::subcommand::{Catalogue, PROGRAM, Run, Subcommand, path_option};
use page::Page;

pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "man", command, run: Run::OnCatalogue(run) };

const EXAMPLES: &str = "\
Examples:
  Install the pages next to an executable in ~/.cargo/bin, where `man` looks for them:
    clang-offload-bundler man -o ~/.cargo/share/man/man1
    man clang-offload-bundler-inspect

Exit status:
  0  all pages were written
  1  a page could not be written
  2  the command line is invalid";

fn command() -> Command {
    Command::new("man")
        .about("Write the manual pages to a directory")
        .after_help(EXAMPLES)
        .arg(path_option("output", "DIR", "Directory for the pages, created if necessary").short('o').required(true))
}

fn run(matches: &ArgMatches, catalogue: &Catalogue) -> anyhow::Result<()> {
    let directory = matches.get_one::<PathBuf>("output").cloned().unwrap_or_default();
    create_directory(&directory)?;
    let Catalogue { tools, subcommands } = catalogue;
    let own = subcommands.iter().copied().map(page_of_subcommand);
    let pages: Vec<Page> = tools.iter().copied().map(page_of_tool).chain(own).collect();
    let names: Vec<String> = pages.iter().map(|page| page.name.clone()).collect();
    for page in &pages {
        let mut text = Vec::new();
        page.write(&names, &mut text)?;
        write_file(&directory.join(format!("{}.1", page.name)), &text)?;
    }
    Ok(())
}

fn page_of_subcommand(subcommand: &Subcommand) -> Page {
    let name = format!("{PROGRAM}-{}", subcommand.name);
    Page { name, command: subcommand.named(), typed: format!("{PROGRAM} {}", subcommand.name) }
}

/// The manual page of a tool, with its options as `clap` would show them.
fn page_of_tool(tool: &Tool) -> Page {
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
    Page { name: tool.title.to_owned(), command, typed: tool.title.to_owned() }
}

fn described(row: &'static Row) -> Arg {
    let arg = row.documented(row.help);
    if row.value_name.is_empty() { arg.action(clap::ArgAction::SetTrue) } else { arg.value_name(row.value_name) }
}
