//! Tables, and the lines around them: on a terminal with colours and in its width, elsewhere in full, or as Markdown.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use clap::{Args, ColorChoice};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::units::per_mille;
use offload_bundle::io::sys;

/// The capabilities of the output.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Style {
    pub(in crate::cli) color: bool,
    pub(in crate::cli) unicode: bool,
    /// The width of a table in terminal columns; none for no limit.
    pub(in crate::cli) width: Option<usize>,
    pub(in crate::cli) is_markdown: bool,
}

/// The options for the form of tables.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct TableOptions {
    /// When to colour the table.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    /// Print the tables as Markdown, for GitHub.
    #[arg(long, conflicts_with_all = ["color", "json"])]
    markdown: bool,
}

impl TableOptions {
    /// The style at standard output.
    pub(in crate::cli) fn style(&self) -> Style {
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

    pub(in crate::cli) fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The first line about a file or a total: its name, and what is said of it.
    pub(in crate::cli) fn heading(self, name: &str, rest: &str) -> String {
        if self.is_markdown {
            format!("\n### {}", markdown(&format!("{name}{rest}")))
        } else {
            self.paint("1", name) + rest
        }
    }

    /// The first line about a part of a file.
    pub(in crate::cli) fn subheading(self, text: &str) -> String {
        if self.is_markdown { format!("\n#### {}", markdown(text)) } else { format!("  {}", self.paint("36", text)) }
    }

    /// A line about a file or a total, below its heading.
    pub(in crate::cli) fn item(self, text: &str) -> String {
        if self.is_markdown { format!("- {}", markdown(text)) } else { format!("  {text}") }
    }

    /// A line about everything.
    pub(in crate::cli) fn line(self, text: &str) -> String {
        if self.is_markdown { format!("\n{}", markdown(text)) } else { text.to_owned() }
    }

    fn bar(self, part: u64, whole: u64, width: usize) -> String {
        let cells = u64::try_from(width).unwrap_or_default();
        let eighths = per_mille(part, whole).saturating_mul(cells * 8).div_ceil(1000);
        let full = usize::try_from(eighths / 8).unwrap_or_default();
        if !self.unicode {
            return "#".repeat(full.max(usize::from(part > 0)).min(width));
        }
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let rest = usize::try_from(eighths % 8).ok().and_then(|index| rest.get(index)).copied().unwrap_or_default();
        "█".repeat(full) + rest
    }

    /// A text without its middle, if it is wider than `width`: its end has at most `tail` columns. Returns the length
    /// of that end, too.
    fn elided(self, text: &str, width: usize, tail: usize) -> (String, usize) {
        if columns_of(text) <= width {
            return (text.to_owned(), text.len());
        }
        let mark = if self.unicode { "…" } else { "~" };
        let room = width.saturating_sub(1);
        let tail: String = fitting(text.chars().rev(), tail.min(room)).chars().rev().collect();
        let head = fitting(text.chars(), room.saturating_sub(columns_of(&tail)));
        (head + mark + &tail, tail.len())
    }
}

/// A text in Markdown that GitHub shows as it is, in a line or in a cell of a table.
fn markdown(text: &str) -> String {
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

/// The columns that a text takes.
fn columns_of(text: &str) -> usize {
    // Most texts are ASCII, for which nothing has to be looked up.
    if text.is_ascii() { text.len() } else { text.width() }
}

/// As many characters as fit into `room` columns.
fn fitting(characters: impl Iterator<Item = char>, room: usize) -> String {
    let mut taken = 0_usize;
    let mut fits = |c: &char| {
        taken += c.width().unwrap_or_default();
        taken <= room
    };
    characters.take_while(|c| fits(c)).collect()
}

/// The width of the terminal at standard output; `COLUMNS` overrides it, as in other tools.
fn columns() -> Option<usize> {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    typed.filter(|columns| *columns > 0).or_else(sys::columns).filter(|columns| *columns > 0)
}

/// The width to which names are shortened before columns with numbers are left out.
const NAME_MIN: usize = 30;

/// The widths of the longest and of the shortest useful bar.
pub(in crate::cli) const BAR: usize = 24;
const BAR_MIN: usize = 4;

/// What becomes of a column if the terminal is too narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Fit {
    /// It stays as it is.
    Stays,
    /// It is left out, the ones with the highest number first, of these the last one.
    LeftOut(u8),
    /// It is shortened: to this width before other columns are left out, then as far as it has to.
    Shortened(usize),
    /// It is a bar, which takes what others leave.
    Bar,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Column {
    pub(in crate::cli) title: Cow<'static, str>,
    pub(in crate::cli) is_left_aligned: bool,
    pub(in crate::cli) fit: Fit,
    /// The least width, until the table is laid out; then the width, which is 0 if the column is left out.
    pub(in crate::cli) width: usize,
    /// The space before it.
    pub(in crate::cli) gap: usize,
    /// Whether it has only zeros.
    pub(in crate::cli) is_zero: bool,
}

impl Column {
    fn new(title: impl Into<Cow<'static, str>>, is_left_aligned: bool, fit: Fit) -> Self {
        Self { title: title.into(), is_left_aligned, fit, width: 0, gap: 2, is_zero: true }
    }

    /// A column of words, which stays.
    pub(in crate::cli) fn label(title: impl Into<Cow<'static, str>>) -> Self {
        Self::new(title, true, Fit::Stays)
    }

    /// A column of names, which are shortened.
    pub(in crate::cli) fn name(title: impl Into<Cow<'static, str>>) -> Self {
        Self::new(title, true, Fit::Shortened(NAME_MIN))
    }

    /// A column of numbers, which may be left out.
    pub(in crate::cli) fn number(title: impl Into<Cow<'static, str>>) -> Self {
        Self::new(title, false, Fit::LeftOut(0))
    }

    /// The width up to which the column is not shortened.
    fn needed(&self) -> usize {
        if let Fit::Shortened(width) = self.fit { self.width.min(width) } else { self.width }
    }
}

/// What a row has in a column.
pub(in crate::cli) enum Cell {
    Text(String),
    /// A text that stands out.
    Bold(String),
    /// A text whose end stands out: its last `accent` bytes. That end is shortened last.
    Ending {
        text: String,
        accent: usize,
    },
    Bar {
        part: u64,
        whole: u64,
    },
}

impl Cell {
    fn width(&self) -> usize {
        match self {
            Self::Text(text) | Self::Bold(text) | Self::Ending { text, .. } => columns_of(text),
            Self::Bar { .. } => 0,
        }
    }

    /// The text as Markdown.
    fn markdown(&self) -> String {
        match self {
            Self::Text(text) | Self::Ending { text, .. } => markdown(text),
            Self::Bold(text) if text.trim().is_empty() => String::new(),
            Self::Bold(text) => format!("**{}**", markdown(text)),
            Self::Bar { .. } => String::new(),
        }
    }

    /// The text in a column, with its padding.
    fn shown(&self, column: &Column, style: Style) -> String {
        let width = column.width;
        let padding = |text: &str| " ".repeat(width.saturating_sub(columns_of(text)));
        match self {
            Self::Text(text) | Self::Bold(text) => {
                let (text, _) = style.elided(text, width, width / 2);
                let padding = padding(&text);
                let cell = if column.is_left_aligned { text + &padding } else { padding + &text };
                if let Self::Bold(_) = self { style.paint("1", &cell) } else { cell }
            }
            Self::Ending { text, accent } => {
                let end = text.len().checked_sub(*accent).and_then(|at| text.get(at..)).unwrap_or_default();
                let tail = if end.is_empty() { width.saturating_sub(1) / 2 } else { columns_of(end) + 2 };
                let (text, tail) = style.elided(text, width, tail);
                let padding = padding(&text);
                match text.len().checked_sub(tail.min(*accent)).and_then(|at| text.split_at_checked(at)) {
                    Some((start, end)) if !start.is_empty() && !end.is_empty() => {
                        style.paint("2", start) + &style.paint("1", end) + &padding
                    }
                    _ => text + &padding,
                }
            }
            Self::Bar { part, whole } => style.paint("32", &style.bar(*part, *whole, width)),
        }
    }
}

/// A table.
pub(in crate::cli) struct Table {
    pub(in crate::cli) indent: usize,
    pub(in crate::cli) columns: Vec<Column>,
}

impl Table {
    /// The lines of the table. Empty columns are left out. `rows` is called twice, for the widths and for the rows, of
    /// which there may be very many.
    pub(in crate::cli) fn lines<R: Iterator<Item: AsRef<[Cell]>>>(
        mut self,
        rows: impl Fn() -> R,
        style: Style,
    ) -> impl Iterator<Item = String> {
        for column in &mut self.columns {
            column.width = column.width.max(columns_of(&column.title));
        }
        for row in rows() {
            for (column, cell) in self.columns.iter_mut().zip(row.as_ref()) {
                column.width = column.width.max(cell.width());
                column.is_zero &= matches!(cell, Cell::Text(text) if matches!(text.as_str(), "" | "0" | "-"));
            }
        }
        if let Some(most) = style.width {
            self.fit(most);
        }
        let titles: Vec<Cell> =
            self.columns.iter().map(|column| Cell::Text(column.title.clone().into_owned())).collect();
        let titles = self.line(&titles, style);
        let titles = if style.is_markdown {
            let rule = |column: &Column| if column.is_left_aligned { "---" } else { "--:" }.to_owned();
            format!("\n{titles}\n{}", self.markdown_row(self.columns.iter().map(rule)))
        } else {
            style.paint("2", &titles)
        };
        std::iter::once(titles).chain(rows().map(move |row| self.line(row.as_ref(), style)))
    }

    /// The width of the table, if its columns have these widths.
    fn width(&self, of: fn(&Column) -> usize) -> usize {
        let widths = self.columns.iter().enumerate().filter(|(_, column)| column.width > 0);
        widths.map(|(index, column)| of(column) + self.space(index, column)).sum()
    }

    /// The space before a column.
    fn space(&self, index: usize, column: &Column) -> usize {
        if index == 0 { self.indent } else { column.gap }
    }

    /// Makes bars shorter, leaves out columns with numbers until names can be shown, those with only zeros first, and
    /// shortens the names.
    fn fit(&mut self, most: usize) {
        let excess = self.width(|column| column.width).saturating_sub(most);
        for bar in self.columns.iter_mut().filter(|column| column.fit == Fit::Bar) {
            let room = bar.width.saturating_sub(excess);
            bar.width = if room < BAR_MIN { 0 } else { room };
        }
        while self.width(Column::needed) > most {
            let ranks = self.columns.iter().enumerate().filter_map(|(index, column)| match column.fit {
                Fit::LeftOut(rank) if column.width > 0 => Some((index, column.is_zero, rank)),
                _ => None,
            });
            let zero = ranks.clone().find(|(_, is_zero, _)| *is_zero);
            let gone = zero.or_else(|| ranks.max_by_key(|(_, _, rank)| *rank)).map(|(index, ..)| index);
            let Some(gone) = gone.and_then(|index| self.columns.get_mut(index)) else { break };
            gone.width = 0;
        }
        while self.width(|column| column.width) > most {
            let names = self.columns.iter_mut().filter(|column| matches!(column.fit, Fit::Shortened(_)));
            match names.max_by_key(|column| column.width) {
                Some(widest) if widest.width > 1 => widest.width -= 1,
                _ => break,
            }
        }
    }

    /// A row in Markdown, which has no bars.
    fn markdown_row(&self, cells: impl Iterator<Item = String>) -> String {
        let cells = self.columns.iter().zip(cells).filter(|(column, _)| column.width > 0 && column.fit != Fit::Bar);
        format!("| {} |", cells.map(|(_, cell)| cell).collect::<Vec<_>>().join(" | "))
    }

    fn line(&self, row: &[Cell], style: Style) -> String {
        if style.is_markdown {
            return self.markdown_row(row.iter().map(Cell::markdown));
        }
        let mut line = String::new();
        for (index, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
            if column.width > 0 {
                line.extend(std::iter::repeat_n(' ', self.space(index, column)));
                line.push_str(&cell.shown(column, style));
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The length of the directories that all places have in common, which a column leaves out on a terminal.
pub(in crate::cli) fn common_start<'p>(places: impl Iterator<Item = &'p str> + Clone, style: Style) -> usize {
    common_directory(places.filter(|_| style.width.is_some()))
}

/// The length of the directories that all places have in common.
pub(in crate::cli) fn common_directory<'p>(mut places: impl Iterator<Item = &'p str>) -> usize {
    let Some(first) = places.next() else { return 0 };
    let common = |common: usize, place: &str| {
        let same = first.bytes().zip(place.bytes()).take(common).take_while(|(a, b)| a == b).count();
        first.as_bytes().get(..same).and_then(|same| same.iter().rposition(|byte| *byte == b'/')).map_or(0, |at| at + 1)
    };
    let directory = first.rfind('/').map_or(0, |at| at + 1);
    places.fold(directory, common)
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, HeadingLevel, Parser, TagEnd};

    use super::*;

    fn written(width: Option<usize>, color: bool) -> Vec<String> {
        let numbers = ["A", "ZERO"].map(Column::number);
        let names = ["FILE", "KERNEL"].map(Column::name);
        let columns = [Column::label("GPU")]
            .into_iter()
            .chain(numbers)
            .chain([Column { fit: Fit::Stays, ..Column::number("CODE") }]);
        let table = Table { indent: 2, columns: columns.chain(names).collect() };
        let rows = || {
            [("gfx90a", "short"), ("sm_80", "void a_name::of_forty_characters<int>(int*)")].into_iter().map(
                |(gpu, name)| {
                    let others = ["12", "0", "7000", "lib.so", name].map(|text| Cell::Text(text.to_owned()));
                    [Cell::Bold(gpu.to_owned())].into_iter().chain(others).collect::<Vec<_>>()
                },
            )
        };
        table.lines(rows, Style { color, unicode: false, width, is_markdown: false }).collect()
    }

    #[test]
    fn the_end_of_a_text_stands_out_in_colour_and_is_shortened_last() {
        let shown = |text: &str, accent, width, color| {
            let (column, style) = (
                Column { width, ..Column::label("") },
                Style { color, unicode: true, width: None, is_markdown: false },
            );
            Cell::Ending { text: text.to_owned(), accent }.shown(&column, style)
        };
        let id = "hip-amdgcn-amd-amdhsa--gfx90a";
        assert_eq!(shown(id, 6, 31, false), "hip-amdgcn-amd-amdhsa--gfx90a  ");
        assert_eq!(shown(id, 6, 30, true), "\x1b[2mhip-amdgcn-amd-amdhsa--\x1b[0m\x1b[1mgfx90a\x1b[0m ");
        assert_eq!(shown(id, 6, 12, true), "\x1b[2mhip…--\x1b[0m\x1b[1mgfx90a\x1b[0m");
        for (text, accent) in [("host-x86_64-linux", 0), ("gfx90a", 6), ("é", 1), ("short", 9)] {
            assert_eq!(shown(text, accent, text.width(), true), text);
        }
    }

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
            let style = Style::MARKDOWN;
            let heading = TagEnd::Heading(HeadingLevel::H3);
            let list = [TagEnd::Item, TagEnd::List(false)];
            let expected = text.trim().replace(char::is_control, " ");
            let shown = |line: String, tags: &[TagEnd]| {
                assert_eq!(parsed(&line), (expected.clone(), tags.to_vec()), "{text:?}: {line:?}");
            };
            shown(style.heading(text, ""), &[heading]);
            shown(style.item(text), &list);
            shown(style.line(text), &[TagEnd::Paragraph]);
            let columns = vec![Column::label(""), Column::number("A|")];
            let rows = || [[Cell::Text(text.to_owned()), Cell::Bold(text.to_owned())]].into_iter();
            let table: Vec<String> = Table { indent: 4, columns }.lines(rows, style).collect();
            let (cells, tags) = parsed(&(style.item("x") + "\n" + &table.join("\n") + "\n" + &style.item("y")));
            assert_eq!(cells, format!("xA|{expected}{expected}y"), "{table:?}");
            let cells = [TagEnd::TableCell, TagEnd::TableCell];
            let row = [TagEnd::TableCell, TagEnd::Strong, TagEnd::TableCell, TagEnd::TableRow, TagEnd::Table];
            assert_eq!(tags, [&list[..], &cells, &[TagEnd::TableHead], &row, &list].concat(), "{table:?}");
        }
    }

    #[test]
    fn bars_reach_as_far_as_the_part() {
        let [unicode, ascii] =
            [true, false].map(|unicode| Style { color: false, unicode, width: None, is_markdown: false });
        assert_eq!((unicode.bar(10, 10, BAR), ascii.bar(10, 10, BAR)), ("█".repeat(24), "#".repeat(24)));
        assert_eq!((unicode.bar(1, 2, BAR), ascii.bar(1, 2, BAR)), ("█".repeat(12), "#".repeat(12)));
        assert_eq!((unicode.bar(1, 1000, BAR), ascii.bar(1, 1000, BAR)), ("▏".to_owned(), "#".to_owned()));
        assert_eq!((unicode.bar(0, 10, BAR), ascii.bar(0, 0, BAR)), (String::new(), String::new()));
    }

    #[test]
    fn tables_fit_and_keep_what_matters_longest() {
        let whole = written(None, false);
        assert_eq!(whole[0], "  GPU      A  ZERO  CODE  FILE    KERNEL");
        assert_eq!(whole[2], "  sm_80   12     0  7000  lib.so  void a_name::of_forty_characters<int>(int*)");
        assert_eq!(written(Some(300), false), whole);
        for width in 20..90 {
            let lines = written(Some(width), false);
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:?}");
            assert!(lines[0].contains("CODE") && lines[1].starts_with("  gfx90a "), "{lines:?}");
        }
        let lines = written(Some(60), false);
        assert_eq!(lines[0], "  GPU      A  CODE  FILE    KERNEL");
        assert_eq!(lines[2], "  sm_80   12  7000  lib.so  void a_name::of~cters<int>(int*)");
    }

    #[test]
    fn colours_change_nothing_else() {
        let plain = |line: &String| line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
        let colored = written(None, true);
        assert!(colored.iter().all(|line| line.contains('\x1b')));
        assert_eq!(colored.iter().map(plain).collect::<Vec<_>>(), written(None, false));
    }

    #[test]
    fn directories_that_all_have_in_common_are_left_out_on_a_terminal() {
        let start = |places: &[&'static str], width| {
            common_start(places.iter().copied(), Style { color: false, unicode: true, width, is_markdown: false })
        };
        for (places, expected) in [
            (&["/a/b/c.so", "/a/b/d.so"][..], 5),
            (&["/a/b/c", "/a/bc/c"], 3),
            (&["/a/b/c"], 5),
            (&["a", "b"], 0),
            (&[], 0),
        ] {
            assert_eq!(start(places, Some(80)), expected, "{places:?}");
            assert_eq!(start(places, None), 0);
        }
    }
}
