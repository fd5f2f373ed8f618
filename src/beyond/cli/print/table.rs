//! Tables: on a terminal in its width, elsewhere in full, or as Markdown.

use std::borrow::{Borrow, Cow};

use crate::base::display::{is_shown, printable};
use crate::beyond::base::text::common_directory;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::{Style, Tone, ansi, markdown};
use super::units::per_mille;

impl Style {
    /// Returns a bar of `width` columns for `whole`, as long as the share of `part`. Unicode has blocks for eighths
    /// of a column; a bar in ASCII has whole columns. Each bar for a part above 0 is visible.
    fn bar(self, part: u64, whole: u64, width: usize) -> String {
        let columns = u64::try_from(width).unwrap_or_default();
        // Rounded up, so that a small part is visible.
        let eighths = (per_mille(part, whole) * columns * 8).div_ceil(1000);
        let full_blocks = usize::try_from(eighths / 8).unwrap_or_default();
        if !self.unicode {
            return "#".repeat(full_blocks.max(usize::from(part > 0)).min(width));
        }
        let last_block = match eighths % 8 {
            0 => "",
            1 => "▏",
            2 => "▎",
            3 => "▍",
            4 => "▌",
            5 => "▋",
            6 => "▊",
            _ => "▉",
        };
        "█".repeat(full_blocks) + last_block
    }

    /// Shortens a text that is wider than `width`: leaves out its middle, and keeps at most `end_max` columns of its
    /// end. Also returns the length of the kept end in bytes: of a text that fits, the length of the text.
    fn elided(self, text: &str, width: usize, end_max: usize) -> (String, usize) {
        if columns_of(text) <= width {
            return (text.to_owned(), text.len());
        }
        let mark = if self.unicode { "…" } else { "~" };
        let room = width.saturating_sub(1);
        let end: String = fitting(text.chars().rev(), end_max.min(room)).chars().rev().collect();
        let start = fitting(text.chars(), room.saturating_sub(columns_of(&end)));
        (start + mark + &end, end.len())
    }
}

/// Returns the width of a text on a terminal, in columns.
pub(crate) fn columns_of(text: &str) -> usize {
    // Each ASCII character takes one column. Most texts are ASCII, so this saves most look-ups in Unicode's table.
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Returns the width of a column with these cells and this title.
pub(crate) fn widest(cells: impl Iterator<Item = impl AsRef<str>>, title: &str) -> usize {
    cells.map(|cell| columns_of(cell.as_ref())).max().unwrap_or_default().max(columns_of(title))
}

/// Returns the first characters that fit into `room` columns.
fn fitting(characters: impl Iterator<Item = char>, room: usize) -> String {
    let (mut text, mut columns) = (String::new(), 0_usize);
    for c in characters {
        columns += c.width().unwrap_or_default();
        if columns > room {
            break;
        }
        text.push(c);
    }
    text
}

/// Columns with numbers are left out before a name gets narrower than this.
pub(crate) const NAME_MIN: usize = 30;

/// The number of spaces before a column, unless [`Column::gap`] is set to another one.
pub(crate) const GAP: usize = 2;

/// The width of a bar in a table that is wide enough.
pub(crate) const BAR: usize = 24;
/// The least width of a bar. A shorter bar shows no differences, so the column is left out instead.
const BAR_MIN: usize = 4;

/// What happens to a column if the terminal is too narrow for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenNarrow {
    /// The column stays as it is.
    Stays,
    /// The column is left out, after columns with a higher rank. Of columns with the same rank, the last one goes
    /// first.
    LeftOut(u8),
    /// The column is shortened: to this width before other columns are left out, then as far as necessary.
    Shortened(usize),
    /// The column has bars, which get shorter before any other column changes.
    Bar,
}

/// A column of a table of `R`s.
pub(crate) struct Column<'c, R> {
    pub(crate) title: Cow<'static, str>,
    pub(crate) is_left_aligned: bool,
    pub(crate) when_narrow: WhenNarrow,
    /// The least width, until the table is laid out; then the width, which is 0 if the column is left out.
    pub(crate) width: usize,
    /// The number of spaces before the column.
    pub(crate) gap: usize,
    /// Whether all cells are zero or empty, so that the column says least and is the first to be left out.
    pub(crate) is_zero: bool,
    /// Returns the cell of a row.
    pub(crate) cell: Box<dyn Fn(&R) -> Cell + 'c>,
}

impl<'c, R> Column<'c, R> {
    /// Returns a column of short words, which stays on a narrow terminal.
    pub(crate) fn label<C: Into<Cell>>(title: &'static str, cell: impl Fn(&R) -> C + 'c) -> Self {
        let cell = Box::new(move |row: &R| cell(row).into());
        Self {
            title: title.into(),
            is_left_aligned: true,
            when_narrow: WhenNarrow::Stays,
            width: 0,
            gap: GAP,
            is_zero: true,
            cell,
        }
    }

    /// Returns a column of names, which are shortened on a narrow terminal.
    pub(crate) fn name<C: Into<Cell>>(title: &'static str, cell: impl Fn(&R) -> C + 'c) -> Self {
        Self { when_narrow: WhenNarrow::Shortened(NAME_MIN), ..Self::label(title, cell) }
    }

    /// Returns a column of numbers, which a narrow terminal may leave out.
    pub(crate) fn number<C: Into<Cell>>(title: &'static str, cell: impl Fn(&R) -> C + 'c) -> Self {
        Self { is_left_aligned: false, when_narrow: WhenNarrow::LeftOut(0), ..Self::label(title, cell) }
    }

    /// Returns the cell of a row, safe to print.
    fn printable_cell(&self, row: &R) -> Cell {
        (self.cell)(row).printable()
    }

    /// Returns the width that the column keeps as long as other columns can be left out.
    fn width_to_keep(&self) -> usize {
        if let WhenNarrow::Shortened(width) = self.when_narrow { self.width.min(width) } else { self.width }
    }
}

/// The content of a table where a row and a column meet.
pub(crate) enum Cell {
    Text(String),
    /// A text that stands out.
    Bold(String),
    /// A text in the colour of a tone. Markdown has no colours, and shows a text of the tone [`Tone::Bad`] bold.
    Toned(Tone, String),
    /// A text whose last `accent` bytes stand out. They are shortened last.
    Ending {
        text: String,
        accent: usize,
    },
    /// A bar that fills the column if `part` equals `whole`.
    Bar {
        part: u64,
        whole: u64,
    },
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Cell {
    /// Escapes the text of the cell for terminals.
    fn printable(self) -> Self {
        match self {
            Self::Text(text) if !text.chars().all(is_shown) => Self::Text(printable(&text)),
            Self::Bold(text) if !text.chars().all(is_shown) => Self::Bold(printable(&text)),
            Self::Toned(tone, text) if !text.chars().all(is_shown) => Self::Toned(tone, printable(&text)),
            Self::Ending { text, accent } if !text.chars().all(is_shown) => {
                let (start, end) = split_before_end(&text, accent).unwrap_or((&text, ""));
                let (start, end) = (printable(start), printable(end));
                Self::Ending { accent: end.len(), text: start + &end }
            }
            cell => cell,
        }
    }

    /// Returns the width that the column must have for this cell. A bar needs none: it fills the width that the column
    /// has anyway.
    fn width(&self) -> usize {
        match self {
            Self::Text(text) | Self::Bold(text) | Self::Toned(_, text) | Self::Ending { text, .. } => columns_of(text),
            Self::Bar { .. } => 0,
        }
    }

    /// Returns the text as Markdown. A bar has no text.
    fn markdown(&self) -> String {
        match self {
            Self::Text(text) | Self::Toned(Tone::Caution | Tone::Good, text) | Self::Ending { text, .. } => {
                markdown(text)
            }
            // Four stars without a text between them would be shown as stars.
            Self::Bold(text) | Self::Toned(Tone::Bad, text) if text.trim().is_empty() => String::new(),
            Self::Bold(text) | Self::Toned(Tone::Bad, text) => format!("**{}**", markdown(text)),
            Self::Bar { .. } => String::new(),
        }
    }

    /// Returns the cell as a text that fills `width` columns: shortened or padded, and with colours.
    fn shown(&self, width: usize, is_left_aligned: bool, style: Style) -> String {
        match self {
            Self::Text(text) | Self::Bold(text) | Self::Toned(_, text) => {
                // If the text is too wide, its middle is left out, and its end gets half of the width.
                let (text, _) = style.elided(text, width, width / 2);
                let padding = padding(&text, width);
                let cell = if is_left_aligned { text + &padding } else { padding + &text };
                match self {
                    Self::Bold(_) => style.paint(ansi::BOLD, &cell),
                    Self::Toned(tone, _) => style.toned(*tone, &cell),
                    _ => cell,
                }
            }
            Self::Ending { text, accent } => {
                // If the text is too wide, its middle is left out. The end that stands out stays, with two columns
                // more: in an entry ID, two dashes precede the target. Without an end that stands out, the start and
                // the end get half of the width each.
                let end_max = match split_before_end(text, *accent) {
                    Some((_, end)) if !end.is_empty() => columns_of(end) + 2,
                    _ => width.saturating_sub(1) / 2,
                };
                let (text, end_len) = style.elided(text, width, end_max);
                let padding = padding(&text, width);
                // A very narrow column shortens even the end that stands out.
                match split_before_end(&text, end_len.min(*accent)) {
                    Some((start, end)) if !start.is_empty() && !end.is_empty() => {
                        style.paint(ansi::FAINT, start) + &style.paint(ansi::BOLD, end) + &padding
                    }
                    _ => text + &padding,
                }
            }
            Self::Bar { part, whole } => {
                let bar = style.bar(*part, *whole, width);
                style.paint(ansi::GREEN, &bar) + &padding(&bar, width)
            }
        }
    }
}

/// Returns the spaces after or before a text in a column.
fn padding(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(columns_of(text)))
}

/// Returns the text before its last `len` bytes, and these bytes. Returns `None` if the text is shorter, or if the
/// split would be inside a character.
fn split_before_end(text: &str, len: usize) -> Option<(&str, &str)> {
    text.split_at_checked(text.len().checked_sub(len)?)
}

/// A table of `R`s.
pub(crate) struct Table<'t, R> {
    pub(crate) indent: usize,
    pub(crate) columns: Vec<Column<'t, R>>,
}

impl<'t, R> Table<'t, R> {
    /// Returns the lines of the table: titles and rows. `rows` is called once for the widths of columns, and once for
    /// the lines. Columns whose cells and title are all empty are left out.
    pub(super) fn lines<I: Iterator<Item: Borrow<R>>>(
        mut self,
        rows: impl Fn() -> I,
        style: Style,
    ) -> impl Iterator<Item = String> {
        for column in &mut self.columns {
            column.title = printable(&column.title).into();
        }
        self.measure_columns(rows());
        if let Some(width_max) = style.width {
            self.fit_into(width_max);
        }
        let titles = self.line(|column| Cell::Text(column.title.clone().into_owned()), style);
        let titles = if style.is_markdown {
            let rule = self.markdown_row(|column| if column.is_left_aligned { "---" } else { "--:" }.to_owned());
            format!("\n{titles}\n{rule}")
        } else {
            style.paint(ansi::FAINT, &titles)
        };
        std::iter::once(titles)
            .chain(rows().map(move |row| self.line(|column| column.printable_cell(row.borrow()), style)))
    }

    /// Returns the width of the table with these rows, if nothing limits it.
    pub(crate) fn width_of(&mut self, rows: impl Iterator<Item: Borrow<R>>) -> usize {
        self.measure_columns(rows);
        self.width()
    }

    /// Makes each column as wide as its title and its widest cell, and notes which columns have only zeros.
    fn measure_columns(&mut self, rows: impl Iterator<Item: Borrow<R>>) {
        for column in &mut self.columns {
            column.width = column.width.max(columns_of(&column.title));
        }
        for row in rows {
            for column in &mut self.columns {
                let cell = column.printable_cell(row.borrow());
                column.width = column.width.max(cell.width());
                column.is_zero &= matches!(cell, Cell::Text(text) if matches!(text.as_str(), "" | "0" | "-"));
            }
        }
    }

    /// Returns the columns that are not left out, each with the width of the space before it.
    fn shown_columns(&self) -> impl Iterator<Item = (usize, &Column<'_, R>)> {
        let spaced = self.columns.iter().enumerate().map(|(index, column)| (self.space_before(index, column), column));
        spaced.filter(|(_, column)| column.width > 0)
    }

    /// Returns the width of the table.
    fn width(&self) -> usize {
        self.shown_columns().map(|(space, column)| space + column.width).sum()
    }

    /// Returns the width of the table if each name has only the width that it keeps while columns are left out.
    fn width_to_keep(&self) -> usize {
        self.shown_columns().map(|(space, column)| space + column.width_to_keep()).sum()
    }

    /// Returns the width of the space before a column: for the first one, the indent of the table.
    fn space_before(&self, index: usize, column: &Column<'_, R>) -> usize {
        if index == 0 { self.indent } else { column.gap }
    }

    /// Fits the table into the width of the terminal. Bars get shorter first, because they only repeat numbers.
    /// Then columns with numbers are left out until the names have the width that they need. At last, the longest names
    /// are shortened. The table stays too wide if even that is not enough.
    fn fit_into(&mut self, width_max: usize) {
        let excess = self.width().saturating_sub(width_max);
        for column in &mut self.columns {
            if column.when_narrow == WhenNarrow::Bar {
                let room = column.width.saturating_sub(excess);
                column.width = if room < BAR_MIN { 0 } else { room };
            }
        }
        while self.width_to_keep() > width_max {
            let Some(column) = self.next_to_leave_out() else { break };
            // A column of width 0 is left out.
            column.width = 0;
        }
        while self.width() > width_max {
            let names = self.columns.iter_mut().filter(|column| matches!(column.when_narrow, WhenNarrow::Shortened(_)));
            match names.max_by_key(|column| column.width) {
                // One column remains for the mark that the name was shortened.
                Some(widest) if widest.width > 1 => widest.width -= 1,
                _ => break,
            }
        }
    }

    /// Returns the next column to leave out: the first with only zeros, or else the last one with the highest rank.
    /// Returns `None` if no column is left that may be left out.
    fn next_to_leave_out(&mut self) -> Option<&mut Column<'t, R>> {
        let mut next: Option<(u8, &mut Column<'t, R>)> = None;
        for column in &mut self.columns {
            let WhenNarrow::LeftOut(rank) = column.when_narrow else { continue };
            // The column is left out already.
            if column.width == 0 {
                continue;
            }
            if column.is_zero {
                return Some(column);
            }
            match &next {
                Some((highest, _)) if rank < *highest => {}
                // Of columns with the same rank, this one is further to the right.
                _ => next = Some((rank, column)),
            }
        }
        next.map(|(_, column)| column)
    }

    /// Returns a row in Markdown, which has no bars.
    fn markdown_row(&self, cell: impl Fn(&Column<'_, R>) -> String) -> String {
        let mut cells = Vec::new();
        for (_, column) in self.shown_columns() {
            if column.when_narrow != WhenNarrow::Bar {
                cells.push(cell(column));
            }
        }
        format!("| {} |", cells.join(" | "))
    }

    /// Returns a row, or the line of titles. `cell` returns the content of a column in this line.
    fn line(&self, cell: impl Fn(&Column<'_, R>) -> Cell, style: Style) -> String {
        if style.is_markdown {
            return self.markdown_row(|column| cell(column).markdown());
        }
        let mut line = String::new();
        for (space, column) in self.shown_columns() {
            line.extend(std::iter::repeat_n(' ', space));
            line.push_str(&cell(column).shown(column.width, column.is_left_aligned, style));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Returns the length in bytes of the directories that all places have in common, which a column leaves out on a
/// terminal. Elsewhere, programs may read the places, so nothing is left out: returns 0.
pub(crate) fn common_start<'p>(places: impl Iterator<Item = &'p str>, style: Style) -> usize {
    if style.width.is_some() { common_directory(places) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: Option<usize>, color: bool) -> Vec<String> {
        type Kernel = (&'static str, &'static str);
        let columns = vec![
            Column::label("GPU", |(gpu, _): &Kernel| Cell::Bold((*gpu).to_owned())),
            Column::number("A", |_| "12".to_owned()),
            Column::number("ZERO", |_| "0".to_owned()),
            Column { when_narrow: WhenNarrow::Stays, ..Column::number("CODE", |_| "7000".to_owned()) },
            Column::name("FILE", |_| "lib.so".to_owned()),
            Column::name("KERNEL", |(_, name): &Kernel| (*name).to_owned()),
        ];
        let rows: [Kernel; 2] = [("gfx90a", "short"), ("sm_80", "void a_name::of_forty_characters<int>(int*)")];
        let style = Style { color, unicode: false, width, is_markdown: false };
        Table { indent: 2, columns }.lines(|| rows.iter(), style).collect()
    }

    #[test]
    fn the_end_of_a_text_stands_out_in_colour_and_is_shortened_last() {
        let shown = |text: &str, accent, width, color| {
            let style = Style { color, unicode: true, width: None, is_markdown: false };
            Cell::Ending { text: text.to_owned(), accent }.shown(width, true, style)
        };
        let id = "hip-amdgcn-amd-amdhsa--gfx90a";
        assert_eq!(shown(id, 6, 31, false), "hip-amdgcn-amd-amdhsa--gfx90a  ");
        assert_eq!(shown(id, 6, 30, true), "\x1b[2mhip-amdgcn-amd-amdhsa--\x1b[0m\x1b[1mgfx90a\x1b[0m ");
        assert_eq!(shown(id, 6, 12, true), "\x1b[2mhip…--\x1b[0m\x1b[1mgfx90a\x1b[0m");
        for (text, accent) in [("host-x86_64-linux", 0), ("gfx90a", 6), ("é", 1), ("short", 9)] {
            assert_eq!(shown(text, accent, text.width(), true), text);
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
