//! Tables on a terminal and elsewhere: colours, the width, and the columns of `kernels` and `diff`.

use std::io::{self, IsTerminal, Write};

use clap::{Args, ColorChoice};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The capabilities of the output.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Style {
    pub(in crate::cli) color: bool,
    pub(in crate::cli) unicode: bool,
    /// The width of a table in terminal columns; none for no limit.
    pub(in crate::cli) width: Option<usize>,
}

/// The option that colours tables.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct ColorOption {
    /// When to colour the table.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

impl ColorOption {
    /// The style at standard output.
    pub(in crate::cli) fn style(&self) -> Style {
        Style::new(self.color, io::stdout().is_terminal())
    }
}

impl Style {
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
        Self { color, unicode: locale.is_none_or(utf8), width }
    }

    pub(in crate::cli) fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A text without its middle, if it is wider than `width`: its end has at most `tail` columns. Returns the end, too.
    pub(in crate::cli) fn elided(self, text: &str, width: usize, tail: usize) -> (String, usize) {
        if text.width() <= width {
            return (text.to_owned(), text.len());
        }
        let mark = if self.unicode { "…" } else { "~" };
        let room = width.saturating_sub(1);
        let tail: String = fitting(text.chars().rev(), tail.min(room)).chars().rev().collect();
        let head = fitting(text.chars(), room.saturating_sub(tail.width()));
        (head + mark + &tail, tail.len())
    }
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
    let asked = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    typed.filter(|columns| *columns > 0).or_else(asked).filter(|columns| *columns > 0)
}

/// The width to which names are shortened before columns with numbers are left out.
const NAME_MIN: usize = 30;

/// The columns of a table.
pub(in crate::cli) struct Table<'t> {
    pub(in crate::cli) indent: usize,
    pub(in crate::cli) titles: Vec<&'t str>,
    /// The number of columns at the start that are aligned to the left. Numbers follow.
    pub(in crate::cli) labels: usize,
    /// The number of columns at the end with names, which are shortened if the terminal is too narrow.
    pub(in crate::cli) names: usize,
    /// The title of a column with numbers that is never left out.
    pub(in crate::cli) kept: Option<&'t str>,
}

/// The width of a column, and whether it has only zeros.
struct Column {
    width: usize,
    is_zero: bool,
}

impl Table<'_> {
    /// Writes the table. Empty columns are left out. `rows` is called twice, for the widths and for the rows, of which there
    /// may be very many.
    pub(in crate::cli) fn write<R: Iterator<Item = Vec<String>>>(
        &self,
        rows: impl Fn() -> R,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let column = |title: &&str| Column { width: title.width(), is_zero: true };
        let mut columns: Vec<Column> = self.titles.iter().map(column).collect();
        for row in rows() {
            for (column, text) in columns.iter_mut().zip(&row) {
                column.width = column.width.max(text.width());
                column.is_zero &= matches!(text.as_str(), "" | "0" | "-");
            }
        }
        self.fit(&mut columns, style.width);
        let titles: Vec<String> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        writeln!(out, "{}", style.paint("2", &self.line(&titles, &columns, Style { color: false, ..style })))?;
        rows().try_for_each(|row| writeln!(out, "{}", self.line(&row, &columns, style)))
    }

    fn is_name(&self, index: usize) -> bool {
        index + self.names >= self.titles.len()
    }

    /// Leaves out columns with numbers until names can be shown, those with only zeros first, and shortens the names.
    fn fit(&self, columns: &mut [Column], width: Option<usize>) {
        let Some(most) = width else { return };
        let total = |columns: &[Column], name_max: usize| {
            let width = |(index, column): (usize, &Column)| match column.width {
                0 => 0,
                width => width.min(if self.is_name(index) { name_max } else { usize::MAX }).saturating_add(2),
            };
            columns.iter().enumerate().map(width).fold(self.indent, usize::saturating_add).saturating_sub(2)
        };
        while total(columns, NAME_MIN) > most {
            let may_go = |index: usize, column: &Column| {
                let is_kept = self.kept.is_some_and(|kept| self.titles.get(index) == Some(&kept));
                column.width > 0 && index >= self.labels && !self.is_name(index) && !is_kept
            };
            let may_go = |(index, column): (usize, &Column)| may_go(index, column).then_some((index, column.is_zero));
            let numbers: Vec<(usize, bool)> = columns.iter().enumerate().filter_map(may_go).collect();
            let gone = numbers.iter().find(|(_, is_zero)| *is_zero).or(numbers.last()).map(|(index, _)| *index);
            let Some(gone) = gone.and_then(|index| columns.get_mut(index)) else { break };
            gone.width = 0;
        }
        while total(columns, usize::MAX) > most {
            let names = columns.iter_mut().enumerate().filter(|(index, _)| self.is_name(*index));
            match names.map(|(_, column)| column).max_by_key(|column| column.width) {
                Some(widest) if widest.width > 1 => widest.width = widest.width.saturating_sub(1),
                _ => break,
            }
        }
    }

    fn line(&self, row: &[String], columns: &[Column], style: Style) -> String {
        let last = columns.iter().rposition(|column| column.width > 0).unwrap_or_default();
        let mut line = " ".repeat(self.indent.saturating_sub(2));
        for (index, (text, column)) in row.iter().zip(columns).enumerate().filter(|(_, (_, column))| column.width > 0) {
            let (text, _) = style.elided(text, column.width, column.width / 2);
            let padding = " ".repeat(column.width.saturating_sub(text.width()));
            let cell = match index < self.labels || self.is_name(index) {
                true if index == last => text,
                true => text + &padding,
                false => padding + &text,
            };
            line.push_str("  ");
            line.push_str(&if index == 0 { style.paint("1", &cell) } else { cell });
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The length of the directories that all places have in common, which a column leaves out on a terminal.
pub(in crate::cli) fn common_start<'p>(places: impl Iterator<Item = &'p str> + Clone, style: Style) -> usize {
    let mut places = places.filter(|_| style.width.is_some());
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
    use super::*;

    fn written(width: Option<usize>, color: bool) -> Vec<String> {
        let table = Table {
            indent: 2,
            titles: vec!["GPU", "A", "ZERO", "CODE", "FILE", "KERNEL"],
            labels: 1,
            names: 2,
            kept: Some("CODE"),
        };
        let rows = || {
            [("gfx90a", "short"), ("sm_80", "void a_name::of_forty_characters<int>(int*)")]
                .into_iter()
                .map(|(gpu, name)| [gpu, "12", "0", "7000", "lib.so", name].map(str::to_owned).to_vec())
        };
        let mut out = Vec::new();
        table.write(rows, Style { color, unicode: false, width }, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
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
            common_start(places.iter().copied(), Style { color: false, unicode: true, width })
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
