//! A matrix of GPUs as a picture and as tables of HTML. Colours tell gaps from code that a library need not have, and
//! hatching tells code that is compiled when a program starts.

use std::fmt::Write;

use crate::beyond::inventory::ServedBundles;

use super::matrix::{Matrix, MatrixColumn};
use super::served::{GpuGroup, word_of};
use super::{CHARACTER_WIDTH, Canvas, NO_HINT, Rect, escaped, fits, scaled, shortened, to_u64};
use crate::beyond::base::text::natural_order;

/// The mark of a range of GPUs.
const RANGE: &str = "…";

/// Sizes in the picture, in pixels: the height of a row.
const ROW_HEIGHT: u64 = 24;
/// The width of the column with the names of GPUs.
const NAMES_WIDTH: u64 = 138;
/// The width of the narrowest cell.
const CELL_WIDTH_MIN: u64 = 22;
/// The width of the widest cell.
const CELL_WIDTH_MAX: u64 = 90;
/// The least width of the column with products. If there is less space, the column is left out.
const PRODUCTS_WIDTH_MIN: u64 = 180;
/// The largest height of slanted names.
const HEAD_HEIGHT_MAX: u64 = 150;
/// The height of a row of the legend.
const LEGEND_ROW_HEIGHT: u64 = 22;
/// The width of a colour in the legend.
const KEY_WIDTH: u64 = 20;

/// The names of libraries in the head of a table of HTML are written horizontally if none is longer than this, in
/// characters. Longer names are written vertically, because they would make the table too wide.
const HORIZONTAL_MAX: usize = 8;
/// Longer names are horizontal too if there are only few columns: if all columns, each as wide as the longest name,
/// have at most this many characters.
const ALL_HORIZONTAL_MAX: usize = 100;

/// The colours of a cell: its background and its text. `page.css` has the same colours.
struct CellColors {
    background: &'static str,
    text: &'static str,
}

const COMPLETE: CellColors = CellColors { background: "#0072b2", text: "#fff" };
const JIT: CellColors = CellColors { background: "#8cc4ec", text: "#000" };
const GAP: CellColors = CellColors { background: "#d1242f", text: "#fff" };

/// Describes how well a library serves a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// The GPU has code in all bundles of the library.
    Complete,
    /// All bundles of the library serve the GPU, but code of some is compiled when the program starts.
    Jit,
    /// A bundle of the library has no code for the GPU, but other bundles or libraries have.
    Gap,
    /// The library has no code for the GPU, nor have its older versions, but a newer version has.
    Older,
    /// The library has no code for GPUs of this vendor.
    OtherVendor,
}

impl Service {
    const ALL: [Self; 5] = [Self::Complete, Self::Jit, Self::Gap, Self::Older, Self::OtherVendor];

    /// Judges how well the library in a column serves a GPU. `column` is the index in `labels`, the names of all
    /// columns, and in `served`, their numbers of bundles for the GPU. The other columns may be newer versions of the
    /// library, see [`Older`](Self::Older).
    fn new(column: usize, labels: &[&str], served: &[ServedBundles]) -> Self {
        let Some(numbers) = served.get(column) else { return Self::OtherVendor };
        // Bundles count only if they have code for GPUs of the same vendor.
        if numbers.bundles == 0 {
            Self::OtherVendor
        } else if numbers.is_complete() {
            if numbers.jit > 0 { Self::Jit } else { Self::Complete }
        } else if numbers.serving == 0 && is_before_first_version(column, labels, served) {
            Self::Older
        } else {
            Self::Gap
        }
    }

    /// Returns the explanation in the legend.
    fn meaning(self) -> &'static str {
        match self {
            Self::Complete => "all: all bundles serve the GPU",
            Self::Jit => "jit: all do, but code is compiled when the program starts",
            Self::Gap => "gap: bundles without code for a GPU that others serve",
            Self::Older => "no code for the GPU yet: only newer versions have it",
            Self::OtherVendor => "no code for this vendor",
        }
    }

    /// Returns the class of a cell in HTML.
    fn class(self) -> &'static str {
        match self {
            // Complete cells have the usual colour. Tables leave out columns without code for the vendor.
            Self::Complete | Self::OtherVendor => "",
            Self::Jit => " class=\"jit\"",
            Self::Gap => " class=\"gap\"",
            Self::Older => " class=\"older\"",
        }
    }
}

/// Returns whether newer versions of a library serve a GPU, but no older version does. Versions of a library are
/// libraries whose labels differ only in numbers, such as `rocm64` and `rocm70`.
fn is_before_first_version(column: usize, labels: &[&str], served: &[ServedBundles]) -> bool {
    let Some(label) = labels.get(column) else { return false };
    let mut has_newer = false;
    for (other, served) in labels.iter().zip(served) {
        let is_version = without_numbers(other) == without_numbers(label);
        if !is_version || served.serving == 0 {
            continue;
        }
        if natural_order(other, label).is_lt() {
            return false;
        }
        has_newer = true;
    }
    has_newer
}

/// Returns a name with one `0` in place of each number.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('0') {
            out.push('0');
        }
    }
    out
}

/// The number of bundles of a library that serve a GPU, and how it is judged.
#[derive(Clone, Copy, Debug)]
struct Cell {
    served: ServedBundles,
    service: Service,
}

impl Cell {
    /// Returns the text that is shown while a mouse points at the cell.
    fn hint(self) -> String {
        if self.service == Service::OtherVendor { self.service.meaning().to_owned() } else { self.served.to_string() }
    }
}

impl Matrix<'_> {
    /// Returns the groups of GPUs, each with a cell for each column. The cell says how well the column serves the GPUs.
    fn judged_rows(&self) -> Vec<(&GpuGroup, Vec<Cell>)> {
        let labels: Vec<&str> = self.columns.iter().map(|column| column.name.library.as_str()).collect();
        let mut rows = Vec::new();
        for (group, numbers) in self.rows() {
            let mut cells = Vec::with_capacity(numbers.len());
            for (column, served) in numbers.iter().enumerate() {
                cells.push(Cell { served: *served, service: Service::new(column, &labels, &numbers) });
            }
            rows.push((group, cells));
        }
        rows
    }

    /// Returns the width of a cell if the matrix, with the names of GPUs, is `width` pixels wide.
    fn cell_width(&self, width: u64) -> u64 {
        let columns = to_u64(self.columns.len()).max(1);
        (width.saturating_sub(NAMES_WIDTH) / columns).clamp(CELL_WIDTH_MIN, CELL_WIDTH_MAX)
    }

    /// Draws the matrix with its legend.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let cell_width = self.draw_names(canvas);
        let rows = self.judged_rows();
        for (group, cells) in &rows {
            self.draw_row(canvas, group, cells, cell_width);
        }
        canvas.skip(8);
        for service in services(&rows) {
            let Rect { x, y, .. } = canvas.reserve(LEGEND_ROW_HEIGHT);
            draw_background(canvas, Rect { x, y: y + 2, width: KEY_WIDTH, height: 15 }, service, NO_HINT);
            canvas.draw_text(x + KEY_WIDTH + 8, y + 14, r#"class="faint" font-size="12""#, service.meaning());
        }
    }

    /// Draws the names of columns: horizontal if all fit, and slanted otherwise. The names of packages are above them.
    /// Returns the width of a cell.
    fn draw_names(&self, canvas: &mut Canvas) -> u64 {
        let width = canvas.inner_width.saturating_sub(PRODUCTS_WIDTH_MIN);
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.library.as_str()).collect();
        let is_horizontal = names.iter().all(|name| fits(name, self.cell_width(width)));
        let longest = names.iter().map(|name| to_u64(name.chars().count())).max().unwrap_or(0);
        let head_height = if is_horizontal { ROW_HEIGHT } else { (longest * CHARACTER_WIDTH).min(HEAD_HEIGHT_MAX) };
        // Slanted names reach this far to the right of the middle of their columns: the cosine of 55 degrees is below
        // 3/5. The last names reach above the column of products. If it is too narrow for them, the cells get narrower.
        let reach = if is_horizontal { 0 } else { head_height * 3 / 5 };
        let cell_width = self.cell_width(width.min(canvas.inner_width.saturating_sub(reach)));
        self.draw_files(canvas, cell_width);
        let area = canvas.reserve(head_height);
        for (index, name) in (0..).zip(names) {
            let (x, y) = (area.x + NAMES_WIDTH + index * cell_width + cell_width / 2, area.y + head_height - 8);
            let (attributes, room) = if is_horizontal {
                (r#"class="faint" font-size="12" text-anchor="middle""#.to_owned(), cell_width)
            } else {
                (format!(r#"class="faint" font-size="12" transform="rotate(-55 {x} {y})""#), head_height)
            };
            canvas.draw_text(x, y, &attributes, &shortened(name, room));
        }
        cell_width
    }

    /// Draws the names of packages, if there are several, each above the columns of its libraries.
    fn draw_files(&self, canvas: &mut Canvas, cell_width: u64) {
        if !has_files(self.columns.iter()) {
            return;
        }
        let Rect { mut x, y, .. } = canvas.reserve(ROW_HEIGHT);
        x += NAMES_WIDTH;
        for columns in self.columns.chunk_by(MatrixColumn::has_same_file) {
            let width = to_u64(columns.len()) * cell_width;
            let name = columns.first().map(|column| column.name.file.as_str()).unwrap_or_default();
            canvas.draw_text(x, y + 14, r#"font-size="12" font-weight="600""#, &shortened(name, width));
            x += width;
        }
    }

    /// Draws the name of a group of GPUs, a cell for each column, and products, if there is room for them.
    fn draw_row(&self, canvas: &mut Canvas, group: &GpuGroup, cells: &[Cell], cell_width: u64) {
        let Rect { x, y, width, .. } = canvas.reserve(ROW_HEIGHT);
        let name = shortened(&group.label(RANGE), NAMES_WIDTH - 8);
        canvas.draw_text(x, y + 16, r#"font-weight="600""#, &name);
        for ((index, cell), column) in (0..).zip(cells).zip(&self.columns) {
            let x = x + NAMES_WIDTH + index * cell_width;
            let hint = format!("{}: {}; {}", group.names(), cell.hint(), column.title);
            // Two pixels separate the cells.
            draw_cell(canvas, Rect { x, y, width: cell_width - 2, height: ROW_HEIGHT - 2 }, *cell, &hint);
        }
        let used = NAMES_WIDTH + to_u64(cells.len()) * cell_width + 8;
        let room = width.saturating_sub(used);
        if room + 8 >= PRODUCTS_WIDTH_MIN {
            let products = group.products(usize::try_from(room / (CHARACTER_WIDTH - 1)).unwrap_or(0));
            canvas.draw_text(x + used, y + 16, r#"class="faint" font-size="12""#, &products);
        }
    }

    /// Returns a table of HTML for the GPUs of each vendor, with the columns that have code for GPUs of the vendor.
    pub(crate) fn tables(&self) -> Vec<String> {
        let rows = self.judged_rows();
        let of_vendors = rows.chunk_by(|(one, _), (next, _)| one.vendor() == next.vendor());
        of_vendors.map(|rows| self.table(rows)).collect()
    }

    /// Returns the table of these rows, without columns that have no code for the vendor in any of them.
    fn table(&self, rows: &[(&GpuGroup, Vec<Cell>)]) -> String {
        let mut columns = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            if rows.iter().filter_map(|(_, cells)| cells.get(index)).any(|cell| cell.service != Service::OtherVendor) {
                columns.push((index, column));
            }
        }
        let longest = columns.iter().map(|(_, column)| column.name.library.chars().count()).max().unwrap_or(0);
        // Vertical names keep a table with long names in many columns narrow.
        let is_horizontal = longest <= HORIZONTAL_MAX || longest.saturating_mul(columns.len()) <= ALL_HORIZONTAL_MAX;
        let class = if is_horizontal { "cells" } else { "cells upright" };
        let mut out = format!("<table class=\"{class}\"><thead>");
        if has_files(columns.iter().map(|(_, column)| *column)) {
            out.push_str("<tr class=\"files\"><td></td>");
            for columns in columns.chunk_by(|(_, one), (_, next)| one.has_same_file(next)) {
                let name = columns.first().map(|(_, column)| column.name.file.as_str()).unwrap_or_default();
                let _ = write!(out, "<th scope=\"colgroup\" colspan=\"{}\">{}</th>", columns.len(), escaped(name));
            }
            out.push_str("</tr>");
        }
        out.push_str("<tr><th scope=\"col\">GPU</th>");
        for (_, column) in &columns {
            let (title, name) = (escaped(&column.title), escaped(&column.name.library));
            let _ = write!(out, "<th scope=\"col\" title=\"{title}\"><span>{name}</span></th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        for (group, cells) in rows {
            out.push_str(&head_of_row(group));
            for cell in columns.iter().filter_map(|(index, _)| cells.get(*index)) {
                let (class, hint, word) = (cell.service.class(), cell.hint(), word_of(cell.served));
                let _ = write!(out, "<td{class} title=\"{hint}\">{word}</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>\n");
        out
    }
}

/// Returns the legend of the tables of some matrices, with the colours that are in them.
pub(crate) fn legend(matrices: &[Matrix<'_>]) -> String {
    let mut items = String::new();
    let rows: Vec<_> = matrices.iter().flat_map(Matrix::judged_rows).collect();
    for service in services(&rows).into_iter().filter(|service| *service != Service::OtherVendor) {
        let _ = write!(items, "<li><b{}></b>{}</li>", service.class(), service.meaning());
    }
    format!("<ul class=\"key cells\">{items}</ul>\n")
}

/// Returns whether columns have names of packages above them.
fn has_files<'c>(mut columns: impl Iterator<Item = &'c MatrixColumn>) -> bool {
    columns.any(|column| !column.name.file.is_empty())
}

impl MatrixColumn {
    /// Returns whether the next column is about the same file, so that both are below one name.
    fn has_same_file(&self, next: &Self) -> bool {
        self.name.file == next.name.file
    }
}

/// Returns the start of a row of HTML: the GPUs with some of their products. A short label such as `gfx1100…1103` shows
/// all names while a mouse points at it.
fn head_of_row(group: &GpuGroup) -> String {
    const ROOM: usize = 36;
    let (names, label, products) = (group.names(), group.label(RANGE), group.products(ROOM));
    let title = if names == label { String::new() } else { format!(" title=\"{}\"", escaped(&names)) };
    let products = if products.is_empty() { products } else { format!(" <small>{}</small>", escaped(&products)) };
    format!("<tr><th scope=\"row\"{title}><b>{}</b>{products}</th>", escaped(&label))
}

/// Returns the services that are in a matrix, in the order of the legend.
fn services(rows: &[(&GpuGroup, Vec<Cell>)]) -> Vec<Service> {
    let mut found = Service::ALL.to_vec();
    found.retain(|service| rows.iter().any(|(_, cells)| cells.iter().any(|cell| cell.service == *service)));
    found
}

/// Draws a cell. In a gap, a line shows by its length the share of the bundles that serve the GPU. The text `hint` is
/// shown while a mouse points at the cell.
fn draw_cell(canvas: &mut Canvas, rect: Rect, cell: Cell, hint: &str) {
    let served = cell.served;
    draw_background(canvas, rect, cell.service, hint);
    if cell.service == Service::Gap && served.serving > 0 {
        let serving = scaled(to_u64(served.serving), to_u64(served.bundles), rect.width);
        // The line is thin and at the bottom, so that the background of the text has one colour.
        let line = Rect { y: rect.y + rect.height - 4, height: 4, width: serving, ..rect };
        canvas.draw_rect(line, &format!(r#"fill="{}""#, COMPLETE.background), NO_HINT);
    }
    let word = word_of(served);
    // The text has a smaller font than the labels that `CHARACTER_WIDTH` is for.
    if to_u64(word.chars().count()) * (CHARACTER_WIDTH - 1) <= rect.width {
        let (x, y) = (rect.x + rect.width / 2, rect.y + rect.height / 2 + 4);
        let color = match cell.service {
            Service::Complete => format!("style=\"fill: {}\"", COMPLETE.text),
            Service::Jit => format!("style=\"fill: {}\"", JIT.text),
            Service::Gap => format!("style=\"fill: {}\"", GAP.text),
            Service::Older | Service::OtherVendor => "class=\"faint\"".to_owned(),
        };
        canvas.draw_text(x, y, &format!(r#"{color} font-size="11" text-anchor="middle""#), &word);
    }
}

/// Draws the background of a cell. The text `hint` is shown while a mouse points at it.
fn draw_background(canvas: &mut Canvas, rect: Rect, service: Service, hint: &str) {
    let attributes = match service {
        Service::Complete => format!(r#"fill="{}" rx="2""#, COMPLETE.background),
        Service::Jit => format!(r#"fill="{}" rx="2""#, JIT.background),
        Service::Gap => format!(r#"fill="{}" rx="2""#, GAP.background),
        Service::Older => r#"class="track" rx="2""#.to_owned(),
        Service::OtherVendor => r#"class="track" fill-opacity=".4" rx="2""#.to_owned(),
    };
    canvas.draw_rect(rect, &attributes, hint);
    if service == Service::Jit {
        canvas.draw_hatching(rect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(labels: &[&str], numbers: &[(usize, usize)]) -> Vec<Service> {
        let served: Vec<ServedBundles> = numbers
            .iter()
            .map(|(serving, bundles)| ServedBundles { serving: *serving, bundles: *bundles, jit: 0 })
            .collect();
        (0..labels.len()).map(|column| Service::new(column, labels, &served)).collect()
    }

    #[test]
    fn a_gpu_that_only_newer_versions_serve_is_not_a_gap_of_the_older_ones() {
        use Service::{Complete, Gap, Older, OtherVendor};
        let labels = ["cuda118", "rocm64", "rocm70", "rocm715"];
        for (numbers, expected) in [
            ([(0, 0), (0, 2), (0, 2), (2, 2)], [OtherVendor, Older, Older, Complete]),
            // A newer version lost the GPU.
            ([(0, 0), (2, 2), (0, 2), (2, 2)], [OtherVendor, Complete, Gap, Complete]),
            ([(0, 0), (2, 2), (2, 2), (0, 2)], [OtherVendor, Complete, Complete, Gap]),
            // A library with code in one of two bundles has a gap in any version.
            ([(1, 1), (1, 2), (0, 2), (2, 2)], [Complete, Gap, Gap, Complete]),
        ] {
            assert_eq!(judged(&labels, &numbers), expected, "{numbers:?}");
        }
        // Two libraries with different names are not versions of one.
        assert_eq!(judged(&["blas", "sparse"], &[(0, 1), (1, 1)]), [Gap, Complete]);
    }
}
