//! The table of `inspect --matrix`: in how many bundles of each library each GPU is served.

use std::io;

use crate::base::display::printable;
use crate::beyond::inventory::{Libraries, ServedBundles};

use super::table::unfound_lines;
use crate::beyond::cli::picture::{GpuGroup, ServedLibrary, ServedTable, word_of};
use crate::beyond::cli::print::table::{Cell, Column, GAP, Table, WhenNarrow, widest};
use crate::beyond::cli::print::text::{Style, Text, Tone};
use crate::beyond::cli::print::units::{count, grouped};

/// The first column counts with at most this width when a table must be narrow enough. Longer names can be shortened to
/// it.
const NAMES_WIDTH_MAX: usize = 32;

/// The title of the first column if rows are libraries.
const LIBRARY_TITLE: &str = "LIBRARY";
/// The title of the first column if rows are GPUs.
const GPU_TITLE: &str = "GPU";

/// Writes the tables, or the reason why they cannot be shown.
pub(super) fn write(libraries: &Libraries, text: &mut Text<'_>) -> io::Result<()> {
    let Some(served) = ServedTable::new(libraries) else {
        return text.write_line("too many GPUs and bundles to tell which bundles serve which GPU");
    };
    if served.groups.is_empty() {
        text.write_line("no bundles with code for GPUs")?;
        return write_left_out(&served, text);
    }
    // A package may have hundreds of libraries, so the width of tables is limited in files and pipes too.
    let mut text = text.with_style(text.style.with_width());
    let tables = tables(&served, text.style);
    for (index, (heading, grids)) in tables.iter().enumerate() {
        if index > 0 {
            text.write_empty_line()?;
        }
        if let Some(heading) = heading {
            text.write_line(heading)?;
            text.write_empty_line()?;
        }
        for (index, grid) in grids.iter().enumerate() {
            if index > 0 {
                text.write_empty_line()?;
            }
            grid.write(&mut text)?;
        }
    }
    text.write_empty_line()?;
    write_left_out(&served, &mut text)?;
    for line in unfound_lines(libraries.coverage()) {
        text.write_line(&line)?;
    }
    let grids = tables.iter().flat_map(|(_, grids)| grids);
    text.write_line(&legend(grids.flat_map(|grid| grid.rows.iter().flat_map(|(_, cells)| cells))))
}

/// Returns the tables, in groups with a heading of [`heading_of`] each: one group for all libraries if its tables are
/// narrow enough, and otherwise one for each package.
fn tables(served: &ServedTable<'_>, style: Style) -> Vec<(Option<String>, Vec<Grid>)> {
    let width = style.width.unwrap_or(usize::MAX);
    if let Some(grids) = Grid::first_that_fits(served, style, width) {
        return vec![(heading_of(served), grids)];
    }
    let mut tables = Vec::new();
    for table in served.split_by_package() {
        let grids = match Grid::first_that_fits(&table, style, width) {
            Some(grids) => grids,
            None => Grid::split_to_fit(&table, style, width),
        };
        tables.push((heading_of(&table), grids));
    }
    tables
}

/// Returns the heading of a table: the number of libraries, and the parts of their names that the table leaves out.
/// Returns `None` if nothing is left out, because the names say all then.
fn heading_of(served: &ServedTable<'_>) -> Option<String> {
    if served.common.is_empty() {
        return None;
    }
    let number = count(served.libraries.len(), "library", "libraries");
    Some(format!("{number}: {}", printable(&served.common.pattern())))
}

/// Explains the kinds of cells that tables have.
pub(super) fn legend<'s>(cells: impl Iterator<Item = &'s ServedBundles>) -> String {
    let cells: Vec<&ServedBundles> = cells.collect();
    // A library without bundles for GPUs of a vendor is complete too. The legend explains its empty cells below.
    let mut legend = "all: all bundles serve the GPU".to_owned();
    if cells.iter().any(|served| served.jit > 0) {
        legend.push_str("; jit: all do, but code is compiled when the program starts");
    }
    if cells.iter().any(|served| !served.is_complete() && served.serving > 0) {
        legend.push_str("; 1/3: one of three does");
    }
    if cells.iter().any(|served| !served.is_complete() && served.serving == 0) {
        legend.push_str("; -: none does");
    }
    if cells.iter().any(|served| served.bundles == 0) {
        legend.push_str("; empty: no code for its vendor");
    }
    legend
}

/// Writes a line with the number of libraries that are not in the table, by the reason. Writes nothing if every library
/// is in the table.
fn write_left_out(served: &ServedTable<'_>, text: &mut Text<'_>) -> io::Result<()> {
    let (mut number, mut by_reason) = (0, Vec::new());
    for (reason, libraries) in &served.left_out {
        number += libraries.len();
        by_reason.push((libraries.len(), reason.text()));
    }
    let reasons = match by_reason.as_slice() {
        [] => return Ok(()),
        [(_, reason)] => (*reason).to_owned(),
        several => {
            let each: Vec<String> =
                several.iter().map(|(number, reason)| format!("{}: {reason}", grouped(number))).collect();
            each.join("; ")
        }
    };
    // Users know these as places: a file whose code is not in a bundle, for example, need not be a library.
    text.write_line(&format!("not in the table: {} ({reasons})", count(number, "place", "places")))
}

/// A table with the number of serving bundles in each cell. Its rows are libraries and its columns are groups of GPUs,
/// or the other way round.
#[derive(Clone, Debug)]
struct Grid {
    /// The title of the first column.
    title: &'static str,
    /// The titles of the other columns.
    titles: Vec<String>,
    rows: Vec<GridRow>,
}

/// The name of a row, and its cells.
type GridRow = (String, Vec<ServedBundles>);

impl Grid {
    /// Returns the tables of the first of three layouts whose tables all fit into `width`, or `None` if no layout fits.
    /// The layouts are one table with libraries as rows, such a table for each vendor of GPUs, and a table for each
    /// vendor with GPUs as rows.
    fn first_that_fits(served: &ServedTable<'_>, style: Style, width: usize) -> Option<Vec<Self>> {
        let whole = Self::new(&served.libraries, &served.groups, style);
        let by_vendor = whole.split_by_vendor(served);
        let transposed = by_vendor.iter().map(Self::transposed).collect();
        [vec![whole], by_vendor, transposed].into_iter().find(|grids| grids.iter().all(|grid| grid.width() <= width))
    }

    /// Returns several tables for the GPUs of each vendor, each with only as many columns as fit into `width`.
    fn split_to_fit(served: &ServedTable<'_>, style: Style, width: usize) -> Vec<Self> {
        let by_vendor = Self::new(&served.libraries, &served.groups, style).split_by_vendor(served);
        by_vendor.iter().flat_map(|grid| grid.split_by_width(width)).collect()
    }

    /// Returns the table with libraries as rows.
    fn new(libraries: &[ServedLibrary<'_>], groups: &[GpuGroup], style: Style) -> Self {
        let titles = groups.iter().map(|group| group.label(style.range())).collect();
        let rows = libraries.iter().map(|library| (library.name.clone(), library.served.clone())).collect();
        Self { title: LIBRARY_TITLE, titles, rows }
    }

    /// Returns a table for the GPUs of each vendor, with the libraries that have code for them.
    fn split_by_vendor(&self, served: &ServedTable<'_>) -> Vec<Self> {
        let mut tables = Vec::new();
        let mut start = 0;
        for groups in served.groups.chunk_by(|one, next| one.vendor() == next.vendor()) {
            let mut table = self.with_columns(start, groups.len());
            table.rows.retain(|(_, cells)| cells.iter().any(|served| served.bundles > 0));
            tables.push(table);
            start += groups.len();
        }
        tables
    }

    /// Returns the table with only `number` of its columns, from `start` on.
    fn with_columns(&self, start: usize, number: usize) -> Self {
        let titles = self.titles.iter().skip(start).take(number).cloned().collect();
        let mut rows = Vec::new();
        for (name, cells) in &self.rows {
            rows.push((name.clone(), cells.iter().skip(start).take(number).copied().collect()));
        }
        Self { title: self.title, titles, rows }
    }

    /// Returns the table with GPUs as rows and libraries as columns.
    fn transposed(&self) -> Self {
        let mut rows = Vec::new();
        for (index, gpu) in self.titles.iter().enumerate() {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(index).copied()).collect();
            rows.push((gpu.clone(), cells));
        }
        Self { title: GPU_TITLE, titles: self.rows.iter().map(|(name, _)| name.clone()).collect(), rows }
    }

    /// Splits the table by columns into tables that are not wider than `width`. A table of only one column of cells may
    /// be wider.
    fn split_by_width(&self, width: usize) -> Vec<Self> {
        let mut tables = Vec::new();
        // The next table: its first column, the number of its columns, and its width.
        let (mut start, mut number, mut used) = (0, 0, self.width_of_names());
        for (index, _) in self.titles.iter().enumerate() {
            let column = GAP + self.width_of_column(index);
            if number > 0 && used + column > width {
                tables.push(self.with_columns(start, number));
                (start, number, used) = (index, 0, self.width_of_names());
            }
            number += 1;
            used += column;
        }
        tables.push(self.with_columns(start, number));
        tables
    }

    fn width(&self) -> usize {
        let mut width = self.width_of_names();
        for (index, _) in self.titles.iter().enumerate() {
            width += GAP + self.width_of_column(index);
        }
        width
    }

    fn width_of_names(&self) -> usize {
        widest(self.rows.iter().map(|(name, _)| name), self.title).min(NAMES_WIDTH_MAX)
    }

    fn width_of_column(&self, index: usize) -> usize {
        let title = self.titles.get(index).map(String::as_str).unwrap_or_default();
        let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(index));
        widest(cells.map(|served| word_of(*served)), title)
    }

    fn write(&self, text: &mut Text<'_>) -> io::Result<()> {
        let mut columns = vec![Column::name(self.title, |(name, _): &GridRow| name.clone())];
        for (index, title) in self.titles.iter().enumerate() {
            // `Column::number` takes only static titles, so the title is set below.
            let column =
                Column::number("", move |(_, cells): &GridRow| cell(cells.get(index).copied().unwrap_or_default()));
            columns.push(Column { title: title.clone().into(), when_narrow: WhenNarrow::Stays, gap: GAP, ..column });
        }
        text.write_table(Table { indent: 0, columns }, || self.rows.iter())
    }
}

/// Returns the cell for the number of bundles that serve a GPU, in the colour of what it says. The cell is empty if the
/// library has no code for the vendor of the GPU.
pub(super) fn cell(served: ServedBundles) -> Cell {
    let word = word_of(served);
    match served {
        // A library without bundles for the vendor is complete too, and its word is empty.
        served if !served.is_complete() => Cell::Toned(Tone::Bad, word),
        served if served.jit > 0 => Cell::Toned(Tone::Caution, word),
        _ => Cell::Text(word),
    }
}
