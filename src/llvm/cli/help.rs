//! Help texts and the version line.
//!
//! The texts are LLVM 22.1.8's, byte for byte, with two exceptions: the version line also names this program, and our
//! own options and the subcommands follow at the end.

use std::process::ExitCode;

use clap::{Arg, Command};

use super::additions::{Additions, Call};
use super::options::{GENERIC, HelpStyle, OWN, Tool, in_help_order, llvm_lacks, spelled, value_name};
use crate::llvm::cli::print::stdout::print;

/// The separator between an option and its description.
const SEPARATOR: &str = " - ";

/// The output of `--version`.
pub(crate) fn version(command: &Command) -> Vec<u8> {
    command.get_version().unwrap_or_default().as_bytes().to_vec()
}

/// Prints the help for a command line with nothing to do. Returns the exit status.
pub(crate) fn print_short(tool: &Tool, call: &Call<'_>) -> ExitCode {
    let subcommands = subcommands(tool, call.additions);
    let help = text(&tool.command(), &subcommands, call.program.name, HelpStyle::SHORT);
    let (errors, status) = (b"", 0);
    print(&help, errors, status)
}

/// The subcommands that the help of a tool lists, each with its description in one line.
pub(crate) fn subcommands(tool: &Tool, additions: &Additions) -> Vec<(&'static str, String)> {
    if tool.serves_every_name() { (additions.subcommands)() } else { Vec::new() }
}

/// Returns a help text for a program called `name`. Subcommands, each with its description in one line, are listed
/// last.
pub(crate) fn text(
    command: &Command,
    subcommands: &[(&'static str, String)],
    name: &[u8],
    style: HelpStyle,
) -> Vec<u8> {
    let mut listed = in_help_order(command);
    listed.retain(|arg| style.lists(arg));
    let width = label_width(&listed);

    let overview = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let mut text = [b"OVERVIEW: ", overview.as_bytes(), b"\n\nUSAGE: ", name, b" [options]"].concat();
    if let Some(positional) = command.get_positionals().next() {
        text.extend(format!(" {}", description(positional)).into_bytes());
    }
    text.extend(b"\n\nOPTIONS:\n");
    if style.by_category {
        describe_by_category(command.get_name(), &listed, width, &mut text);
    } else {
        describe(&listed, width, &mut text);
    }
    if !subcommands.is_empty() {
        describe_subcommands(subcommands, name, width, &mut text);
    }
    text
}

/// Appends the options under a heading for each category: the options of every LLVM tool, those of this tool, and our
/// own. A category without options is left out.
fn describe_by_category(tool: &str, listed: &[&Arg], width: usize, text: &mut Vec<u8>) {
    let of_tool = format!("{tool} options");
    for (category, heading) in [(Some(GENERIC), GENERIC), (None, &of_tool), (Some(OWN), OWN)] {
        let mut members = listed.to_vec();
        members.retain(|arg| arg.get_help_heading() == category);
        if !members.is_empty() {
            text.extend(format!("\n{heading}:\n\n").into_bytes());
            describe(&members, width, text);
        }
    }
}

/// Appends the subcommands, aligned with the options, and how to get their help.
fn describe_subcommands(subcommands: &[(&'static str, String)], program: &[u8], width: usize, text: &mut Vec<u8>) {
    text.extend(b"\nSubcommands that LLVM's tool does not have:\n\n");
    for (subcommand, about) in subcommands {
        text.extend(format!("{:width$}{SEPARATOR}{about}\n", format!("  {subcommand}")).into_bytes());
    }
    text.extend([b"\nHelp of a subcommand: ", program, b" help SUBCOMMAND\n"].concat());
}

/// The width of the longest label of LLVM's options, so that a longer option of ours does not change their layout.
fn label_width(listed: &[&Arg]) -> usize {
    let mut width = 0;
    for arg in listed {
        if !llvm_lacks(arg) {
            width = width.max(label(arg).len());
        }
    }
    width
}

/// The description of an option or a word.
fn description(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Returns the option with its value, as LLVM's help shows it: after `=`, or after a space for a one-letter option.
fn label(arg: &Arg) -> String {
    let option = spelled(arg);
    let value = match value_name(arg) {
        None => String::new(),
        Some(value) if arg.get_long().is_none() => format!(" <{value}>"),
        Some(value) => format!("=<{value}>"),
    };
    format!("  {option}{value}")
}

/// Appends options and their descriptions to `text`. All lines of a description begin in the same column, after labels
/// of up to `width` characters.
fn describe(options: &[&Arg], width: usize, text: &mut Vec<u8>) {
    for arg in options {
        let mut line_start = format!("{:width$}{SEPARATOR}", label(arg));
        for line in description(arg).lines() {
            text.extend(format!("{line_start}{line}\n").into_bytes());
            line_start = " ".repeat(width + SEPARATOR.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::cli::{bundler, packager};

    const LISTED: Additions = Additions {
        subcommands: || ["inspect", "verify"].map(|name| (name, format!("Do {name}"))).to_vec(),
        ..Additions::NONE
    };

    fn help_of(tool: &Tool, by_category: bool, hidden: bool) -> String {
        let style = HelpStyle { by_category, hidden };
        String::from_utf8(text(&tool.command(), &subcommands(tool, &LISTED), b"foo", style)).unwrap()
    }

    fn help(by_category: bool, hidden: bool) -> String {
        help_of(bundler::TOOL, by_category, hidden)
    }

    #[test]
    fn the_usage_line_has_the_name_of_the_program() {
        assert!(help(true, false).contains("\n\nUSAGE: foo [options]\n\nOPTIONS:\n\nGeneric Options:\n\n  --help  "));
        assert!(help(false, false).contains("\n\nUSAGE: foo [options]\n\nOPTIONS:\n  --### "));
    }

    #[test]
    fn descriptions_line_up() {
        let text = help(false, false);
        assert!(text.contains("\n  --compression-level=<n> - Specify the"));
        assert!(text.contains("\n  --list                  - List bundle IDs"));
        assert!(text.contains("unbundled.\n                            Current supported types are:\n"));
        assert!(text.contains("\n                              i    - cpp-output\n"));
    }

    #[test]
    fn hidden_options_are_in_the_long_texts_only() {
        for by_category in [true, false] {
            assert!(!help(by_category, false).contains("--print-options "));
            assert!(help(by_category, true).contains("--print-options "));
            assert!(!help(by_category, true).contains("  -h "));
            assert!(!help(by_category, true).contains("  --h "));
        }
    }

    #[test]
    fn the_short_list_does_not_mention_itself() {
        assert!(help(true, false).contains("--help-list "));
        assert!(!help(false, false).contains("--help-list "));
        assert!(help(false, true).contains("--help-list "));
    }

    #[test]
    fn the_version_line_names_both_versions() {
        for (tool, start, end) in [
            (bundler::TOOL, "clang-offload-bundler version 22.1.8 (offload-bundle ", ")\n"),
            (packager::TOOL, "LLVM version 22.1.8 (offload-bundle ", ")\n  Optimized build.\n"),
        ] {
            let line = String::from_utf8(version(&tool.command())).unwrap();
            assert!(line.starts_with(start) && line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn options_are_written_as_they_are_typed() {
        let text = help_of(packager::TOOL, true, false);
        assert!(text.contains("\n\nUSAGE: foo [options] Extract from <file>.\n\nOPTIONS:\n"));
        assert!(text.contains("\n  --image=<<key>=<value>,...> - List of"));
        assert!(text.contains("\n  -o <file>                   - Write output"));
    }

    #[test]
    fn the_bundler_explains_the_subcommands_last_and_the_packager_does_not() {
        for (by_category, hidden) in [(true, false), (true, true), (false, false), (false, true)] {
            let text = help(by_category, hidden);
            let (_, block) = text.split_once("\nSubcommands that LLVM's tool does not have:\n\n").unwrap();
            let lines: Vec<&str> = block.lines().collect();
            assert!(lines[0].starts_with("  inspect ") && lines[0].ends_with(" - Do inspect"), "{block}");
            assert_eq!(lines[0].find(" - "), lines[1].find(" - "), "{block}");
            assert_eq!(lines[2..], ["", "Help of a subcommand: foo help SUBCOMMAND"]);
            assert!(!help_of(packager::TOOL, by_category, hidden).contains("Subcommands"));
        }
    }

    #[test]
    fn our_own_options_follow_and_do_not_move_the_others() {
        for tool in [bundler::TOOL, packager::TOOL] {
            let title = "\nOptions that LLVM's tool does not have:\n";
            let text = help_of(tool, true, true);
            let (_, own) = text.split_once(title).unwrap();
            assert!(own.contains("--max-size=<bytes>"), "{own}");
        }
        assert!(help(true, true).contains("\n  --compression-level=<n> - Specify the"));
        assert!(!help(true, false).contains("--compression-window"));
        let text = help_of(packager::TOOL, false, false);
        assert!(text.find("--version ").unwrap() < text.find("--max-size=").unwrap());
    }
}
