//! The help texts and the version line.
//!
//! Byte for byte those of LLVM 22.1.8's `clang-offload-bundler`, except that the version line names
//! this program too.

use super::options::{Category, HelpStyle, ROWS, Row, Shown, TOOL_NAME};

/// The LLVM release whose tool this program stands in for.
const LLVM_VERSION: &str = "22.1.8";

/// What the tool does, with the blank that closes each line but the last.
const OVERVIEW: &str = concat!(
    "A tool to bundle several input files of the specified type <type> \n",
    "referring to the same source file but different targets into a single \n",
    "one. The resulting file can also be unbundled into different files by \n",
    "this tool if -unbundle is provided.",
);

/// What stands between an option and its description.
const SEPARATOR: &str = " - ";

/// What `--version` prints.
pub(super) fn version() -> Vec<u8> {
    let own = env!("CARGO_PKG_VERSION");
    format!("{TOOL_NAME} version {LLVM_VERSION} (offload-bundle {own})\n").into_bytes()
}

/// One of the help texts, for a program called `name`.
pub(super) fn text(name: &[u8], style: HelpStyle) -> Vec<u8> {
    let shown = |row: &&Row| match row.shown {
        Shown::Always => true,
        Shown::ByCategory => style.by_category || style.hidden,
        Shown::Hidden => style.hidden,
        Shown::Never => false,
    };
    let rows: Vec<&Row> = ROWS.iter().filter(shown).collect();
    let width = rows.iter().map(|row| label(row).len()).max().unwrap_or_default();

    let mut text = [b"OVERVIEW: ", OVERVIEW.as_bytes(), b"\n\nUSAGE: ", name, b" [options]\n\nOPTIONS:\n"].concat();
    if style.by_category {
        let headings = [(Category::Generic, "Generic Options"), (Category::Tool, "clang-offload-bundler options")];
        for (category, heading) in headings {
            text.extend_from_slice(format!("\n{heading}:\n\n").as_bytes());
            let members = rows.iter().filter(|row| row.category == category);
            members.for_each(|row| describe(row, width, &mut text));
        }
    } else {
        rows.iter().for_each(|row| describe(row, width, &mut text));
    }
    text
}

/// The option as typed, indented.
fn label(row: &Row) -> String {
    if row.value_name.is_empty() {
        format!("  --{}", row.name)
    } else {
        format!("  --{}=<{}>", row.name, row.value_name)
    }
}

/// Adds an option and its description, whose further lines begin under the first.
fn describe(row: &Row, width: usize, text: &mut Vec<u8>) {
    let indent = width + SEPARATOR.len();
    let mut lead = format!("{:width$}{SEPARATOR}", label(row));
    for line in row.help.lines() {
        text.extend_from_slice(format!("{lead}{line}\n").as_bytes());
        lead = " ".repeat(indent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(by_category: bool, hidden: bool) -> String {
        String::from_utf8(text(b"foo", HelpStyle { by_category, hidden })).unwrap()
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
        assert_eq!(help(true, true).lines().count(), 50);
    }

    #[test]
    fn the_short_list_does_not_mention_itself() {
        assert!(help(true, false).contains("--help-list "));
        assert!(!help(false, false).contains("--help-list "));
        assert!(help(false, true).contains("--help-list "));
    }

    #[test]
    fn the_version_line_names_both_versions() {
        let line = String::from_utf8(version()).unwrap();
        assert!(line.starts_with("clang-offload-bundler version 22.1.8 (offload-bundle "));
        assert!(line.ends_with(")\n"));
    }
}
