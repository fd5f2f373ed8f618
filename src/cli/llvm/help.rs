//! Help texts and the version line.
//!
//! They equal those of LLVM 22.1.8's tools byte for byte, except that the version line also names this program, and
//! that our own options and the subcommands follow at the end.

use std::process::ExitCode;

use super::options::{Category, HelpStyle, Row, Shown, Tool};
use crate::cli::CATALOGUE;
use crate::cli::print::stdout::print;
use crate::cli::program::Program;

/// The separator between an option and its description.
const SEPARATOR: &str = " - ";

/// The output of `--version`.
pub(crate) fn version(tool: &Tool) -> Vec<u8> {
    let Tool { version_of, release, version_details, .. } = tool;
    let own = env!("CARGO_PKG_VERSION");
    format!("{version_of} version {release} (offload-bundle {own})\n{version_details}").into_bytes()
}

/// Prints the help for a command line with nothing to do. Returns the exit status.
pub(crate) fn print_short(tool: &Tool, program: &Program<'_>) -> ExitCode {
    print(&text(tool, program.name, HelpStyle::SHORT), b"", 0)
}

/// A help text for a program called `name`.
pub(crate) fn text(tool: &Tool, name: &[u8], style: HelpStyle) -> Vec<u8> {
    let shown = |row: &&Row| match row.shown {
        Shown::Always => true,
        Shown::ByCategory => style.by_category || style.hidden,
        Shown::Hidden => style.hidden,
        Shown::Never => false,
    };
    let rows: Vec<&Row> = tool.rows.iter().filter(shown).collect();
    // The width depends on LLVM's options only, so a longer option of ours does not change their layout.
    let reference = rows.iter().filter(|row| row.category != Category::Own);
    let width = reference.map(|row| label(row).len()).max().unwrap_or_default();

    let positional = tool.positional.as_ref().map_or(String::new(), |word| format!(" {}", word.usage));
    let mut text = [b"OVERVIEW: ", tool.overview.as_bytes(), b"\n\nUSAGE: ", name, b" [options]"].concat();
    text.extend(format!("{positional}\n\nOPTIONS:\n").into_bytes());
    if style.by_category {
        let headings = [
            (Category::Generic, "Generic Options"),
            (Category::Tool, &format!("{} options", tool.title)),
            (Category::Own, "Options that LLVM's tool does not have"),
        ];
        for (category, heading) in headings {
            let mut members = rows.iter().filter(|row| row.category == category).peekable();
            if members.peek().is_some() {
                text.extend(format!("\n{heading}:\n\n").into_bytes());
            }
            members.for_each(|row| describe(row, width, &mut text));
        }
    } else {
        rows.iter().for_each(|row| describe(row, width, &mut text));
    }
    if tool.has_subcommands() {
        text.extend(b"\nSubcommands that LLVM's tool does not have:\n\n");
        for (subcommand, about) in CATALOGUE.abouts() {
            text.extend(format!("{:width$}{SEPARATOR}{about}\n", format!("  {subcommand}")).into_bytes());
        }
        text.extend([b"\nHelp of a subcommand: ", name, b" help SUBCOMMAND\n"].concat());
    }
    text
}

/// The option as typed, indented.
fn label(row: &Row) -> String {
    let Row { name, value_name, .. } = row;
    let dashes = if name.len() == 1 { "-" } else { "--" };
    let value = match value_name {
        &"" => String::new(),
        _ if !row.requires_value() => format!("[=<{value_name}>]"),
        _ if name.len() == 1 => format!(" <{value_name}>"),
        _ => format!("=<{value_name}>"),
    };
    format!("  {dashes}{name}{value}")
}

/// Adds an option and its description, whose further lines are aligned with the first.
fn describe(row: &Row, width: usize, text: &mut Vec<u8>) {
    let mut lead = format!("{:width$}{SEPARATOR}", label(row));
    for line in row.help.lines() {
        text.extend(format!("{lead}{line}\n").into_bytes());
        lead = " ".repeat(width + SEPARATOR.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::llvm::{bundler, packager};

    fn help_of(tool: &Tool, by_category: bool, hidden: bool) -> String {
        String::from_utf8(text(tool, b"foo", HelpStyle { by_category, hidden })).unwrap()
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
            assert!(!help(by_category, true).contains("--debug-only"));
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
        let line = |tool| String::from_utf8(version(tool)).unwrap();
        assert!(line(bundler::TOOL).starts_with("clang-offload-bundler version 22.1.8 (offload-bundle "));
        assert!(line(bundler::TOOL).ends_with(")\n"));
        assert!(line(packager::TOOL).starts_with("LLVM version 22.1.8 (offload-bundle "));
        assert!(line(packager::TOOL).ends_with(")\n  Optimized build.\n"));
    }

    #[test]
    fn options_are_written_as_they_are_typed() {
        let text = help_of(packager::TOOL, true, false);
        assert!(text.contains("\n\nUSAGE: foo [options] Extract from <file>.\n\nOPTIONS:\n"));
        assert!(text.contains("\n  --image=<<key>=<value>,...> - List of"));
        assert!(text.contains("\n  -o <file>                   - Write output"));
        assert!(text.contains("\n  --compress[=<zstd|zlib>]    - Compress"));
    }

    #[test]
    fn the_bundler_explains_the_subcommands_last_and_the_packager_does_not() {
        for (by_category, hidden) in [(true, false), (true, true), (false, false), (false, true)] {
            let text = help(by_category, hidden);
            let block = text.split_once("\nSubcommands that LLVM's tool does not have:\n\n  inspect ").unwrap().1;
            let lines: Vec<&str> = block.lines().collect();
            assert!(lines.iter().take(13).skip(1).all(|line| line.find(" - ") == lines[1].find(" - ")), "{block}");
            assert!(lines[12].starts_with("  extract-bundle-entry ") && lines[12].contains(" - Copy the"), "{block}");
            assert_eq!(lines[13..], ["", "Help of a subcommand: foo help SUBCOMMAND"]);
            assert!(!help_of(packager::TOOL, by_category, hidden).contains("Subcommands"));
        }
    }

    #[test]
    fn our_own_options_follow_and_do_not_move_the_others() {
        for tool in [bundler::TOOL, packager::TOOL] {
            let title = "\nOptions that LLVM's tool does not have:\n";
            assert!(help_of(tool, true, true).split_once(title).is_some_and(|(_, own)| own.contains("-window=<log>")));
        }
        assert!(help(true, true).contains("\n  --compression-level=<n> - Specify the"));
        assert!(!help(true, false).contains("--compression-window"));
        let text = help_of(packager::TOOL, false, false);
        assert!(text.find("--version ").unwrap() < text.find("--compress[").unwrap());
    }
}
