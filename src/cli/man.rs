//! `man`: manual pages, made from the same definitions as the help texts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgMatches, Command};
use clap_mangen::Man;
use offload_bundle::{create_directory, write_file};

use super::TOOLS;
use super::console::Console;
use super::options::{Row, Shown, Tool};
use super::subcommand::{self, PROGRAM, Subcommand};

/// The subcommand.
pub(super) const SUBCOMMAND: &Subcommand = &Subcommand { name: "man", command, run };

const EXAMPLES: &str = "\
Examples:
  Install all pages for yourself:
    clang-offload-bundler man -o ~/.local/share/man/man1
    man clang-offload-bundler-inspect

Exit status:
  0  the pages were written
  1  a page could not be written
  2  the command line is wrong";

fn command() -> Command {
    Command::new("man").about("Write the manual pages into a directory").after_help(EXAMPLES).arg(
        Arg::new("output")
            .short('o')
            .long("output")
            .value_name("DIR")
            .value_parser(PathBufValueParser::new())
            .required(true)
            .help("Where the pages go; made if there is none"),
    )
}

fn run(matches: &ArgMatches, _console: &mut Console) -> anyhow::Result<ExitCode> {
    let directory = matches.get_one::<PathBuf>("output").cloned().unwrap_or_default();
    create_directory(&directory)?;
    let tools = TOOLS.into_iter().map(page_of_tool);
    let subcommands = subcommand::SUBCOMMANDS.into_iter().map(|subcommand| {
        let name = format!("{PROGRAM}-{}", subcommand.name);
        let command = (subcommand.command)().version(env!("CARGO_PKG_VERSION"));
        command.name(name).bin_name(format!("{PROGRAM} {}", subcommand.name))
    });
    for page in tools.chain(subcommands) {
        let name = format!("{}.1", page.get_name());
        let mut text = Vec::new();
        Man::new(page.disable_help_subcommand(true)).render(&mut text)?;
        write_file(&directory.join(name), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A tool's options, as `clap` would show them.
fn page_of_tool(tool: &Tool) -> Command {
    let rows = tool.rows.iter().filter(|row| row.shown != Shown::Never);
    let others = subcommand::SUBCOMMANDS.into_iter().map(|subcommand| format!("{PROGRAM}-{}(1)", subcommand.name));
    let see_also = others.collect::<Vec<_>>().join(", ");
    Command::new(tool.title)
        .about(tool.overview)
        .after_help(format!("See also: {see_also}"))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(rows.map(described))
}

fn described(row: &'static Row) -> Arg {
    let arg = Arg::new(row.name).help(row.help);
    let arg = match row.name.chars().as_str() {
        name if name.len() == 1 => arg.short(name.chars().next()),
        name => arg.long(name),
    };
    if row.value_name.is_empty() { arg.action(clap::ArgAction::SetTrue) } else { arg.value_name(row.value_name) }
}
