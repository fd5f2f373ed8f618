//! The text of a report: lines, and the tables between them, on a terminal with colours, elsewhere plain, or as
//! Markdown.

use std::borrow::Borrow;
use std::io::{self, IsTerminal};

use crate::base::display::printable;
use crate::base::io::sys;
use clap::{Args, ColorChoice};

use super::out::Out;
use super::table::Table;
use crate::beyond::cli::subcommand::heading;

/// Codes of ANSI terminals for the look of a text, see [`Style::paint`].
pub(super) mod ansi {
    pub(in super::super) const BOLD: &str = "1";
    pub(in super::super) const FAINT: &str = "2";
    pub(in super::super) const RED: &str = "31";
    pub(in super::super) const GREEN: &str = "32";
    pub(in super::super) const YELLOW: &str = "33";
    pub(in super::super) const CYAN: &str = "36";
}

/// The judgement that a text expresses. It gives the text its colour on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// A gap, a loss or a fault.
    Bad,
    /// Code that is compiled when the program starts, or something that got worse.
    Caution,
    /// Nothing is wrong, or something got better.
    Good,
}

/// The capabilities of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) color: bool,
    pub(crate) unicode: bool,
    /// The width of a table in terminal columns, or `None` for no limit.
    pub(crate) width: Option<usize>,
    pub(crate) is_markdown: bool,
}

/// The options for the form of tables.
#[derive(Clone, Debug, Args)]
pub(crate) struct TableOptions {
    /// When to colour the table: auto, always or never.
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    /// Print the tables as Markdown, for GitHub.
    #[arg(long, conflicts_with_all = ["color", "json"], help_heading = heading::OUTPUT)]
    markdown: bool,
}

impl TableOptions {
    /// Returns the style at standard output.
    pub(crate) fn style(&self) -> Style {
        if self.markdown { Style::MARKDOWN } else { Style::new(self.color, io::stdout().is_terminal()) }
    }
}

impl Style {
    /// The style of Markdown, which does not depend on where it is written.
    const MARKDOWN: Self = Self { color: false, unicode: true, width: None, is_markdown: true };

    /// Returns the style at standard output, for subcommands without the options of tables.
    pub(crate) fn of_stdout() -> Self {
        Self::new(ColorChoice::Auto, io::stdout().is_terminal())
    }

    /// Returns the style for `--color=when`. Without the option, only a terminal gets colours. Only a terminal limits
    /// the width.
    pub(crate) fn new(when: ColorChoice, is_terminal: bool) -> Self {
        let color = match when {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // See https://no-color.org. A terminal that calls itself dumb shows colours as text.
            ColorChoice::Auto => {
                is_terminal && variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb")
            }
        };
        // POSIX: the first of these variables that is set names the encoding of characters.
        let unicode = match ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable) {
            Some(locale) => is_utf8(&locale),
            // Windows has no such variables, and a minimal container sets none.
            None => true,
        };
        let width = if is_terminal { width_of_terminal() } else { None };
        Self { color, unicode, width, is_markdown: false }
    }

    /// Returns the style for tables with so much text that they need a limit even in a file or pipe: 80 columns if the
    /// output has no width. Markdown stays without a limit, because its reader breaks lines.
    pub(crate) fn with_width(self) -> Self {
        const DEFAULT_WIDTH: usize = 80;
        let width = if self.is_markdown { None } else { self.width.or(Some(DEFAULT_WIDTH)) };
        Self { width, ..self }
    }

    /// Returns the mark of a range, as in `gfx1100…1103`.
    pub(crate) fn range(self) -> &'static str {
        if self.unicode { "…" } else { ".." }
    }

    /// Returns a text in the colour of a tone.
    pub(crate) fn toned(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Bad => ansi::RED,
            Tone::Caution => ansi::YELLOW,
            Tone::Good => ansi::GREEN,
        };
        self.paint(code, text)
    }

    /// Returns a text with a code of [`ansi`], or the text alone if the output has no colours.
    pub(crate) fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns an environment variable, or `None` if it is empty or not set.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    if value.is_empty() {
        return None;
    }
    Some(value.to_string_lossy().into_owned())
}

/// Returns whether the characters of a locale are encoded in UTF-8.
fn is_utf8(locale: &str) -> bool {
    let name = locale.to_ascii_lowercase();
    name.contains("utf-8") || name.contains("utf8")
}

/// A report that is written line by line. Every text is escaped before it gets colours.
pub(crate) struct Text<'o> {
    pub(crate) style: Style,
    pub(crate) out: Out<'o>,
}

impl Text<'_> {
    /// Returns the same output with another style.
    pub(crate) fn with_style(&mut self, style: Style) -> Text<'_> {
        Text { style, out: self.out.reborrow() }
    }

    /// Writes the first line about a file or a total: its name, and the text after it.
    pub(crate) fn write_heading(&mut self, name: &str, rest: &str) -> io::Result<()> {
        let (name, rest) = (printable(name), printable(rest));
        let plain = self.style.paint(ansi::BOLD, &name) + &rest;
        self.write_marked("\n### ", &(name + &rest), &plain)
    }

    /// Writes the first line about a part of a file.
    pub(crate) fn write_subheading(&mut self, text: &str) -> io::Result<()> {
        let text = printable(text);
        self.write_marked("\n#### ", &text, &format!("  {}", self.style.paint(ansi::CYAN, &text)))
    }

    /// Writes a line about a file or a total, below its heading.
    pub(crate) fn write_item(&mut self, text: &str) -> io::Result<()> {
        let text = printable(text);
        self.write_marked("- ", &text, &format!("  {text}"))
    }

    /// Writes a line about a file or a total, below its heading, in the colour of a tone.
    pub(crate) fn write_toned_item(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        let text = printable(text);
        let plain = format!("  {}", self.style.toned(tone, &text));
        self.write_marked("- ", &text, &plain)
    }

    /// Writes a line in which `verdict` has the colour of a tone.
    pub(crate) fn write_verdict(&mut self, start: &str, tone: Tone, verdict: &str, end: &str) -> io::Result<()> {
        let [start, verdict, end] = [start, verdict, end].map(printable);
        let plain = format!("{start}{}{end}", self.style.toned(tone, &verdict));
        self.write_marked("\n", &(start + &verdict + &end), &plain)
    }

    /// Writes a line that is not about one file, such as a note at the end.
    pub(crate) fn write_line(&mut self, text: &str) -> io::Result<()> {
        let text = printable(text);
        self.write_marked("\n", &text, &text)
    }

    /// Writes `text` as Markdown after `mark`, or else `plain`, which may have colours. A line end at the start of
    /// `mark` stands for an empty line before.
    fn write_marked(&mut self, mark: &str, text: &str, plain: &str) -> io::Result<()> {
        if !self.style.is_markdown {
            return self.write_escaped(plain);
        }
        // The output takes single lines, so the empty line is written on its own.
        let mark_of_line = mark.trim_start_matches('\n');
        if mark_of_line != mark {
            self.write_empty_line()?;
        }
        self.write_escaped(&(mark_of_line.to_owned() + &markdown(text)))
    }

    /// Writes a table. `rows` is called twice, for the widths and for the cells, so that the rows need no memory.
    pub(crate) fn write_table<R, I: Iterator<Item: Borrow<R>>>(
        &mut self,
        table: Table<'_, R>,
        rows: impl Fn() -> I,
    ) -> io::Result<()> {
        for line in table.lines(rows, self.style) {
            self.write_escaped(&line)?;
        }
        Ok(())
    }

    pub(crate) fn write_empty_line(&mut self) -> io::Result<()> {
        self.write_escaped("")
    }

    fn write_escaped(&mut self, line: &str) -> io::Result<()> {
        self.out.write_escaped(line.trim_end())
    }
}

/// Returns the Markdown that GitHub shows as this text, in a line or in a cell of a table.
pub(super) fn markdown(text: &str) -> String {
    let text = text.trim();
    let length_of_number = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    // Most texts need only a few backslashes.
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        let is_special = matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '|' | '~' | '$' | '&' | '#');
        let begins_list_or_heading = if at == 0 {
            // GitHub obeys a line of a log that begins with `::`.
            matches!(c, '-' | '+' | '=' | '>' | ':')
        } else if at == length_of_number && matches!(c, '.' | ')') {
            // A number at the start, with a point or parenthesis, begins an item of a list if a space or nothing
            // follows.
            text.chars().nth(at + 1).is_none_or(char::is_whitespace)
        } else {
            false
        };
        if is_special || begins_list_or_heading {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// Returns the width of the terminal at standard output; `COLUMNS` overrides it, as in other tools.
fn width_of_terminal() -> Option<usize> {
    if let Ok(typed) = std::env::var("COLUMNS")
        && let Ok(columns) = typed.parse()
        && columns > 0
    {
        return Some(columns);
    }
    match sys::columns() {
        // Some terminals, such as serial lines, do not know their width.
        Some(0) => None,
        columns => columns,
    }
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, HeadingLevel, Parser, TagEnd};

    use super::super::out::Buffer;
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
                let mut buffer = Buffer::default();
                write(&mut Text { style: Style::MARKDOWN, out: buffer.out() }).unwrap();
                buffer.text()
            };
            let list = [TagEnd::Item, TagEnd::List(false)];
            let expected = printable(text).trim().to_owned();
            let shown = |line: String, tags: &[TagEnd]| {
                assert_eq!(parsed(&line), (expected.clone(), tags.to_vec()), "{text:?}: {line:?}");
            };
            shown(written(&|out| out.write_heading(text, "")), &[TagEnd::Heading(HeadingLevel::H3)]);
            shown(written(&|out| out.write_subheading(text)), &[TagEnd::Heading(HeadingLevel::H4)]);
            shown(written(&|out| out.write_item(text)), &list);
            shown(written(&|out| out.write_line(text)), &[TagEnd::Paragraph]);
            let table = written(&|out| {
                let columns = vec![
                    Column::label("", |text: &&str| (*text).to_owned()),
                    Column::number("A|", |text: &&str| Cell::Bold((*text).to_owned())),
                ];
                out.write_item("x")?;
                out.write_table(Table { indent: 4, columns }, || [text].into_iter())?;
                out.write_item("y")
            });
            let (cells, tags) = parsed(&table);
            assert_eq!(cells, format!("xA|{expected}{expected}y"), "{table:?}");
            let cells = [TagEnd::TableCell, TagEnd::TableCell];
            let row = [TagEnd::TableCell, TagEnd::Strong, TagEnd::TableCell, TagEnd::TableRow, TagEnd::Table];
            assert_eq!(tags, [&list[..], &cells, &[TagEnd::TableHead], &row, &list].concat(), "{table:?}");
        }
    }
}
