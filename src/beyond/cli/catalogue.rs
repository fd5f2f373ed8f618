//! The subcommands of the executable.

use super::completions::CompletionsOptions;
use super::diff::DiffOptions;
use super::extract::ExtractOptions;
use super::inspect::InspectOptions;
use super::kernels::KernelsOptions;
use super::man::ManOptions;
use super::overview::HelpOptions;
use super::recompress::RecompressOptions;
use super::replace::ReplaceOptions;
use super::report::ReportOptions;
use super::subcommand::{Catalogue, Group, Subcommand};
use super::verify::VerifyOptions;

/// Our subcommands, in the order of the help.
pub(super) const CATALOGUE: &Catalogue = &Catalogue {
    subcommands: &[
        Subcommand::new::<InspectOptions>("inspect", Group::Look, include_str!("help/inspect.txt")),
        Subcommand::new::<ExtractOptions>("extract", Group::Look, include_str!("help/extract.txt")),
        Subcommand::new::<KernelsOptions>("kernels", Group::Look, include_str!("help/kernels.txt")),
        Subcommand::new::<DiffOptions>("diff", Group::Check, include_str!("help/diff.txt")),
        Subcommand::new::<VerifyOptions>("verify", Group::Check, include_str!("help/verify.txt")),
        Subcommand::new::<RecompressOptions>("recompress", Group::Change, include_str!("help/recompress.txt")),
        Subcommand::new::<ReplaceOptions>("replace", Group::Change, include_str!("help/replace.txt")),
        Subcommand::new::<ReportOptions>("report", Group::Look, include_str!("help/report.txt")),
        Subcommand::about_all::<CompletionsOptions>(
            "completions",
            Group::Program,
            include_str!("help/completions.txt"),
        ),
        Subcommand::about_all::<ManOptions>("man", Group::Program, include_str!("help/man.txt")),
        Subcommand::new::<HelpOptions>("help", Group::Program, include_str!("help/help.txt")),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::cli::BUNDLER;
    use crate::llvm::cli::TOOLS;

    #[test]
    fn the_subcommands_are_consistent_and_named_as_they_are_found() {
        CATALOGUE.command().debug_assert();
        for subcommand in CATALOGUE.subcommands {
            assert_eq!(CATALOGUE.find(subcommand.name.as_ref()).map(|found| found.name), Some(subcommand.name));
        }
    }

    /// A subcommand that judges fails if there is nothing to judge ([`judged`](crate::beyond::cli::judged)), unless an
    /// option allows that.
    #[test]
    fn every_subcommand_that_judges_may_be_allowed_to_judge_nothing() {
        let mut gates = Vec::new();
        for subcommand in CATALOGUE.subcommands {
            let command = subcommand.command();
            let options: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            if options.iter().any(|name| *name == "fail-on" || name.starts_with("expect")) {
                gates.push(subcommand.name);
                assert!(options.contains(&"allow-none"), "{}", subcommand.name);
            }
        }
        // Another subcommand needs rows in `tests/subcommands/nothing_to_judge.rs`.
        assert_eq!(gates, ["kernels", "diff", "verify"]);
    }

    /// The words in backticks of a line.
    fn quoted(line: &str) -> Vec<&str> {
        line.split('`').skip(1).step_by(2).collect()
    }

    /// The text of a document.
    fn page(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_documents_name_every_subcommand() {
        let differences = page("docs/differences.md");
        // The first word in backticks of such a row is `clang-offload-bundler SUBCOMMAND`, and more subcommands follow.
        let rows = differences.lines().filter(|line| line.starts_with("| `clang-offload-bundler "));
        let sentences = rows.filter_map(|row| row.split(" | ").next());
        let named: Vec<Vec<&str>> = sentences
            .map(|sentence| {
                let words = quoted(sentence).into_iter();
                words.map(|word| word.trim_start_matches("clang-offload-bundler ")).collect()
            })
            .collect();
        let own: Vec<&str> = CATALOGUE.subcommands.iter().map(|subcommand| subcommand.name).collect();
        assert!(named.contains(&own), "{named:?}");
        for tool in TOOLS.iter().filter_map(|tool| tool.subcommand) {
            assert!(named.iter().any(|names| names.contains(&tool)), "{tool}");
        }
        let readme = page("README.md");
        let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
        for name in own.iter().filter(|name| !["completions", "man", "help"].contains(*name)) {
            assert!(rows.iter().any(|row| quoted(row).first() == Some(name)), "README.md: {name}");
        }
        let statuses = page("docs/llvm.md");
        let head = statuses.lines().find(|line| line.starts_with("| exit status |")).unwrap();
        assert_eq!(quoted(head), own, "docs/llvm.md");
    }

    #[test]
    fn every_help_ends_with_examples_and_exit_statuses() {
        for subcommand in CATALOGUE.subcommands {
            let help = subcommand.command().render_long_help().to_string();
            assert!(help.contains("\nExamples:\n") && help.contains("\nExit status:\n"), "{}", subcommand.name);
        }
    }

    /// The short help of a command in a terminal of 100 columns.
    fn short_help(command: clap::Command) -> String {
        command.term_width(100).try_get_matches_from(["", "-h"]).unwrap_err().to_string()
    }

    #[test]
    fn the_short_help_has_one_line_for_each_option_and_fits_40_lines() {
        for subcommand in CATALOGUE.subcommands {
            for program in [BUNDLER, crate::beyond::cli::subcommand::OFFLOAD_BUNDLE] {
                let help = short_help(subcommand.command_with_help(program));
                assert!(help.lines().count() <= 40, "{help}");
                let more = format!("\n\nMore, with examples: `{program} {} --help`\n", subcommand.name);
                assert!(help.ends_with(&more), "{help}");
                // Options are indented by at most six spaces; the second line of a text is indented further.
                let second = help.lines().find(|line| line.starts_with("       "));
                assert_eq!(second, None, "{help}");
            }
        }
    }

    #[test]
    fn help_fits_80_columns_and_breaks_no_command() {
        for subcommand in CATALOGUE.subcommands {
            let command = subcommand.command_with_help(BUNDLER).term_width(80);
            let [about, after] = [command.get_long_about(), command.get_after_long_help()];
            let about = about.map(ToString::to_string).unwrap_or_default();
            let as_written = format!("{about}\n{}", after.unwrap());
            let help = command.try_get_matches_from(["", "--help"]).unwrap_err().to_string();
            let lines: Vec<&str> = help.lines().collect();
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{help}");
            // Indented text, such as examples and their tables, keeps its lines.
            for line in as_written.lines().filter(|line| line.starts_with("  ")) {
                assert!(lines.contains(&line.trim_end()), "{}: {line}", subcommand.name);
            }
        }
    }

    #[test]
    fn examples_in_help_texts_can_be_typed() {
        for subcommand in CATALOGUE.subcommands {
            let after = subcommand.command().get_after_long_help().unwrap().to_string();
            let examples = after.split("\n\n").find_map(|part| part.strip_prefix("Examples:\n")).unwrap();
            let mut continues = false;
            for line in examples.lines() {
                let text = line.trim_start();
                let (is_more, is_command) = (line.starts_with("      "), line.starts_with("    "));
                assert_eq!(continues, is_more, "{}: only a \\ or | continues a command: {line}", subcommand.name);
                continues = is_command && (text.ends_with(" \\") || text.ends_with(" |"));
            }
            assert!(!continues, "{}", subcommand.name);
        }
    }
}
