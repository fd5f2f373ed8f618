//! The text of a report: lines, and the tables between them, on a terminal with colours, elsewhere plain, or as
//! Markdown.

use std::borrow::Borrow;
use std::io::{self, IsTerminal, Write};

use crate::base::io::sys;
use clap::{Args, ColorChoice};

use super::table::Table;

/// The capabilities of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) color: bool,
    pub(crate) unicode: bool,
    /// The width of a table in terminal columns; none for no limit.
    pub(crate) width: Option<usize>,
    pub(crate) is_markdown: bool,
}

/// The options for the form of tables.
#[derive(Clone, Debug, Args)]
pub(crate) struct TableOptions {
    /// When to colour the table.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    /// Print the tables as Markdown, for GitHub.
    #[arg(long, conflicts_with_all = ["color", "json"])]
    markdown: bool,
}

impl TableOptions {
    /// The style at standard output.
    pub(crate) fn style(&self) -> Style {
        if self.markdown { Style::MARKDOWN } else { Style::new(self.color, io::stdout().is_terminal()) }
    }
}

impl Style {
    /// Markdown does not depend on where it is written.
    const MARKDOWN: Self = Self { color: false, unicode: true, width: None, is_markdown: true };

    /// The style for `--color=when`, on a terminal or elsewhere.
    fn new(when: ColorChoice, terminal: bool) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let color = match when {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && set("NO_COLOR").is_none() && !dumb,
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let utf8 = |locale: std::ffi::OsString| {
            let name = locale.to_string_lossy().to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        };
        let width = if terminal { columns() } else { None };
        Self { color, unicode: locale.is_none_or(utf8), width, is_markdown: false }
    }

    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A report that is written line by line.
pub(crate) struct Text<'o> {
    pub(crate) style: Style,
    pub(crate) out: &'o mut dyn Write,
}

impl Text<'_> {
    /// Writes the first line about a file or a total: its name, and what is said of it.
    pub(crate) fn heading(&mut self, name: &str, rest: &str) -> io::Result<()> {
        self.either("\n### ", &[name, rest].concat(), &(self.style.paint("1", name) + rest))
    }

    /// Writes the first line about a part of a file.
    pub(crate) fn subheading(&mut self, text: &str) -> io::Result<()> {
        self.either("\n#### ", text, &format!("  {}", self.style.paint("36", text)))
    }

    /// Writes a line about a file or a total, below its heading.
    pub(crate) fn item(&mut self, text: &str) -> io::Result<()> {
        self.either("- ", text, &format!("  {text}"))
    }

    /// Writes a line about everything.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.either("\n", text, text)
    }

    /// Writes a text as Markdown after `mark`, or a plain one.
    fn either(&mut self, mark: &str, text: &str, plain: &str) -> io::Result<()> {
        if self.style.is_markdown { self.write(&(mark.to_owned() + &markdown(text))) } else { self.write(plain) }
    }

    /// Writes a table. `rows` is called twice, for the widths and for the rows, of which there may be very many.
    pub(crate) fn table<R, I: Iterator<Item: Borrow<R>>>(
        &mut self,
        table: Table<'_, R>,
        rows: impl Fn() -> I,
    ) -> io::Result<()> {
        table.lines(rows, self.style).try_for_each(|line| self.write(&line))
    }

    pub(crate) fn empty_line(&mut self) -> io::Result<()> {
        self.write("")
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// A text in Markdown that GitHub shows as it is, in a line or in a cell of a table.
pub(super) fn markdown(text: &str) -> String {
    let text = text.trim();
    let number = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        let is_special = matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '|' | '~' | '$' | '&' | '#');
        // These begin a list or a heading, if the line begins with them.
        let ends_word = || text.chars().nth(at + 1).is_none_or(char::is_whitespace);
        let begins = at == 0 && matches!(c, '-' | '+' | '=' | '>')
            || at > 0 && at == number && matches!(c, '.' | ')') && ends_word();
        out.extend((is_special || begins).then_some('\\'));
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// The width of the terminal at standard output; `COLUMNS` overrides it, as in other tools.
fn columns() -> Option<usize> {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    typed.filter(|columns| *columns > 0).or_else(sys::columns).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, HeadingLevel, Parser, TagEnd};

    use super::super::table::{Cell, Column};
    use super::*;

    /// The text of a document in Markdown, with the tags around it.
    fn parsed(document: &str) -> (String, Vec<TagEnd>) {
        use pulldown_cmark::Options;
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
        let options = options | Options::ENABLE_TASKLISTS | Options::ENABLE_GFM | Options::ENABLE_MATH;
        let (mut text, mut tags) = (String::new(), Vec::new());
        for event in Parser::new_ext(document, options) {
            match event {
                Event::Text(more) => text.push_str(&more),
                Event::End(tag) => tags.push(tag),
                Event::Start(_) => {}
                other => panic!("{document:?}: {other:?}"),
            }
        }
        (text, tags)
    }

    #[test]
    fn markdown_shows_texts_as_they_are() {
        let characters = "\\`*_{}[]<>()#+-.!|~$&=:/^\"'%@,;?1a é\n\t".chars();
        let mut texts = vec!["<script>alert(1)</script>".to_owned(), "&lt;1. [a](b) ![c](d) <e@f.g>".to_owned()];
        texts.extend(
            ["a | b", "```a```", "1) b", "12. b", "3.", "> a", "* * *", "#### a ####", "a\r\n===\n| b |"]
                .map(str::to_owned),
        );
        let two = || characters.clone().flat_map(|a| characters.clone().map(move |b| format!("{a}{b}")));
        texts.extend(two().flat_map(|two| [two.clone() + "a", format!("a{two}"), format!("{two}a{two}"), two]));
        for text in texts.iter().map(String::as_str).filter(|text| !text.trim().is_empty()) {
            let written = |write: &dyn Fn(&mut Text<'_>) -> io::Result<()>| {
                let mut out = Vec::new();
                write(&mut Text { style: Style::MARKDOWN, out: &mut out }).unwrap();
                String::from_utf8(out).unwrap()
            };
            let list = [TagEnd::Item, TagEnd::List(false)];
            let expected = text.trim().replace(char::is_control, " ");
            let shown = |line: String, tags: &[TagEnd]| {
                assert_eq!(parsed(&line), (expected.clone(), tags.to_vec()), "{text:?}: {line:?}");
            };
            shown(written(&|out| out.heading(text, "")), &[TagEnd::Heading(HeadingLevel::H3)]);
            shown(written(&|out| out.subheading(text)), &[TagEnd::Heading(HeadingLevel::H4)]);
            shown(written(&|out| out.item(text)), &list);
            shown(written(&|out| out.line(text)), &[TagEnd::Paragraph]);
            let table = written(&|out| {
                let columns = vec![
                    Column::label("", |text: &&str| (*text).to_owned()),
                    Column::number("A|", |text: &&str| Cell::Bold((*text).to_owned())),
                ];
                out.item("x")?;
                out.table(Table { indent: 4, columns }, || [text].into_iter())?;
                out.item("y")
            });
            let (cells, tags) = parsed(&table);
            assert_eq!(cells, format!("xA|{expected}{expected}y"), "{table:?}");
            let cells = [TagEnd::TableCell, TagEnd::TableCell];
            let row = [TagEnd::TableCell, TagEnd::Strong, TagEnd::TableCell, TagEnd::TableRow, TagEnd::Table];
            assert_eq!(tags, [&list[..], &cells, &[TagEnd::TableHead], &row, &list].concat(), "{table:?}");
        }
    }
}
