//! `man`: prints manual pages, made from the same definitions as the help texts. `clap_mangen` renders them up to the
//! options. Exit statuses and examples are rendered here: `clap_mangen` would fill their lines like prose, under the
//! heading EXTRA.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::documented::documented;
use crate::base::io::{create_directory, write_file};
use clap::builder::StyledStr;
use clap::{Arg, Command, Parser};
use clap_mangen::Man;

use super::subcommand::{Catalogue, OFFLOAD_BUNDLE, OptionsAboutAll, Subcommand};
use crate::llvm::cli::TOOLS;
use crate::llvm::cli::options::Tool;
use crate::llvm::cli::print::console::Console;

/// Write the manual pages to a directory
#[derive(Clone, Debug, Parser)]
pub(super) struct ManOptions {
    /// Directory for the pages, created if necessary.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

impl OptionsAboutAll for ManOptions {
    fn run(&self, all: &Catalogue, _: &mut Console) -> anyhow::Result<ExitCode> {
        create_directory(&self.output)?;
        let own = all.subcommands.iter().copied().map(page_of_subcommand);
        let pages = std::iter::once(page_of_offload_bundle(all)).chain(own).chain(TOOLS.into_iter().map(page_of_tool));
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

/// The examples on the page of `offload-bundle`, in the form of the help texts.
const EXAMPLES: &str = "Examples:
  Which GPUs does a wheel run on?
    offload-bundle inspect torch.whl
  Does every library in it serve these GPUs?
    offload-bundle verify --expect MI300X,sm_90 torch.whl
  Make it smaller for them:
    offload-bundle recompress torch.whl --keep-for MI300X,sm_90 -o small/torch.whl
  Disassemble the code for one GPU:
    offload-bundle extract libfoo.so --target gfx90a -o - | llvm-objdump -d -
  Fail in CI if a kernel spills registers:
    offload-bundle kernels libfoo.so --fail-on spill
";

/// Returns the page of `offload-bundle`, which lists the subcommands. Without a subcommand, this name has no options.
fn page_of_offload_bundle(all: &Catalogue) -> ManPage {
    let mut list = String::new();
    for (name, about) in all.abouts() {
        list.push_str(&format!("  {name}  {about}\n"));
    }
    let about = text_of(all.command().get_about());
    let word = Arg::new("subcommand").value_name("SUBCOMMAND").help("Subcommand, each with a page of its own");
    let command = Command::new(OFFLOAD_BUNDLE).about(about).version(env!("CARGO_PKG_VERSION")).arg(word);
    ManPage {
        name: OFFLOAD_BUNDLE.to_owned(),
        command: command.after_long_help(format!("Subcommands:\n{list}\n{EXAMPLES}")),
        typed: OFFLOAD_BUNDLE.to_owned(),
    }
}

fn page_of_subcommand(subcommand: Subcommand) -> ManPage {
    let name = format!("{OFFLOAD_BUNDLE}-{}", subcommand.name);
    ManPage {
        name,
        command: subcommand.command_named(OFFLOAD_BUNDLE),
        typed: format!("{OFFLOAD_BUNDLE} {}", subcommand.name),
    }
}

/// Returns the manual page of one of LLVM's tools, with the options that LLVM's help lists, `--help` and `--version`
/// among them.
fn page_of_tool(tool: &Tool) -> ManPage {
    let definition = tool.command();
    let name = definition.get_name().to_owned();
    let command = Command::new(name.clone())
        .about(text_of(definition.get_about()))
        .long_about(text_of(definition.get_long_about()))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(documented(&definition));
    ManPage { name: name.clone(), command, typed: name }
}

/// Returns a text of a command, or an empty text if the command does not have it.
fn text_of(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// A manual page.
struct ManPage {
    /// The name of the page, without `.1`.
    name: String,
    /// The command that the page describes.
    command: Command,
    /// The words that start the command, such as `offload-bundle inspect`.
    typed: String,
}

impl ManPage {
    /// Writes the page, with references to `others` at its end.
    fn write(&self, others: &[String], out: &mut dyn Write) -> io::Result<()> {
        let mut command =
            self.command.clone().disable_help_subcommand(true).bin_name(&self.typed).display_name(&self.name);
        // `clap_mangen` leaves out the text of options that the short help leaves out.
        command = command.mut_args(|option| option.hide_short_help(false));
        // Without this usage, the synopsis would list every option.
        let usage = command.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        let source = format!("{OFFLOAD_BUNDLE} {}", env!("CARGO_PKG_VERSION"));
        // In roff, `\&` is an empty argument. The date is left out, and so is the centre of the header, since long
        // titles leave no room for it.
        let title = self.name.to_uppercase().replace('-', "\\-");
        let man = Man::new(command.override_usage(usage)).title(title).date("\\&").source(source).manual("\\&");
        man.render_title(out)?;
        // Words of command lines are not hyphenated, and lines are not stretched.
        writeln!(out, ".nh\n.ad l")?;
        man.render_name_section(out)?;
        man.render_synopsis_section(out)?;
        man.render_description_section(out)?;
        man.render_options_section(out)?;
        let after = text_of(self.command.get_after_long_help());
        write_sections(&after, out)?;
        let others: Vec<String> =
            others.iter().filter(|name| **name != self.name).map(|name| format!(".BR {} (1)", escaped(name))).collect();
        writeln!(out, ".SH SEE ALSO\n{}", others.join(",\n"))
    }
}

/// Writes the part of a help text after its options, with a section for each line that is not indented. In the
/// section of the examples, lines indented by two spaces are prose, and lines indented by four are commands. In all
/// other sections, a line indented by two spaces is an item of a list: a term, two or more spaces, and a text. The text
/// goes on in lines with a larger indent.
fn write_sections(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut is_list = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("    "), line.strip_prefix("  ")) {
            (None, None) => {
                let heading = line.trim_end_matches(':').trim_start_matches("The ");
                is_list = heading != "Examples";
                writeln!(out, ".SH {}", escaped(&heading.to_uppercase()))?;
            }
            (Some(more), _) if is_list => writeln!(out, "{}", escaped(more.trim_start()))?,
            (Some(code), _) => writeln!(out, ".RS 4\n.nf\n{}\n.fi\n.RE", escaped(code))?,
            (None, Some(item)) if is_list => {
                let (term, text) = item.split_once("  ").unwrap_or((item, ""));
                writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(text.trim_start()))?;
            }
            (None, Some(prose)) => writeln!(out, ".PP\n{}", escaped(prose))?,
        }
    }
    Ok(())
}

/// Escapes everything that roff would interpret or replace with a typographic character.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\*(Aq"),
            '`' => escaped.push_str("\\(ga"),
            '~' => escaped.push_str("\\(ti"),
            '^' => escaped.push_str("\\(ha"),
            c => escaped.push(c),
        }
    }
    if text.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stand_as_they_are_typed_and_lists_are_lists() {
        let text = "Examples:\n  What?\n    tool -o '~/x' | y\n\nThe rules:\n  one   the first\n        goes on\n";
        let mut page = Vec::new();
        write_sections(text, &mut page).unwrap();
        let expected = ".SH EXAMPLES\n.PP\nWhat?\n.RS 4\n.nf\ntool \\-o \\*(Aq\\(ti/x\\*(Aq | y\n.fi\n.RE\n\
                        .SH RULES\n.TP\n\\fBone\\fR\nthe first\ngoes on\n";
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }

    #[test]
    fn nothing_is_an_instruction() {
        assert_eq!(escaped(".so \\x"), "\\&.so \\ex");
        assert_eq!(escaped("'x'"), "\\*(Aqx\\*(Aq");
    }
}
