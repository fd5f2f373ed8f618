//! The matrix of GPUs and libraries as a picture and as a table of HTML. Colours tell gaps from code that a library
//! need not have.

use std::fmt::Write;

use crate::beyond::inventory::ServedBundles;

use super::matrix::Matrix;
use super::served::{GpuGroup, ServedLibrary};
use super::{CHARACTER, Canvas, Rect, escaped, fits, scaled, shortened, to_u64};
use crate::beyond::base::text::natural_order;

/// The mark of a range of GPUs.
const RANGE: &str = "…";

/// Sizes in the picture, in pixels: the height of a row.
const ROW: u64 = 24;
/// The width of the column with the names of GPUs.
const NAME: u64 = 138;
/// The widths of the narrowest and of the widest cell.
const CELL: (u64, u64) = (22, 190);
/// The width of the narrowest cell with numbers. The hint of a narrower cell has them.
const NUMBERED: u64 = 56;
/// The largest height of slanted names.
const HEAD: u64 = 150;
/// The height of a row of the legend.
const LEGEND_ROW: u64 = 22;
/// The width of a colour in the legend.
const KEY: u64 = 20;

/// The names of libraries in the head of a table of HTML are written horizontally if none is longer than this, in
/// characters. Longer names are written vertically, because they would make the table too wide.
const HORIZONTAL_MAX: usize = 8;
/// Longer names are horizontal too if there are only few columns: if all columns, each as wide as the longest name,
/// have at most this many characters.
const ALL_HORIZONTAL_MAX: usize = 100;

/// The colours of a GPU that all bundles serve, and of a gap, each with the colour of the text on it.
const COMPLETE: (&str, &str) = ("#0072b2", "#fff");
const GAP: (&str, &str) = ("#d1242f", "#fff");

/// Describes how well a library serves a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// The GPU has code in all bundles of the library.
    Complete,
    /// A bundle of the library has no code for the GPU, but other bundles or libraries have.
    Gap,
    /// The library has no code for the GPU, nor have its older versions, but a newer version has.
    Older,
    /// The library has no code for GPUs of this vendor.
    OtherVendor,
}

impl Service {
    const ALL: [Self; 4] = [Self::Complete, Self::Gap, Self::Older, Self::OtherVendor];

    /// Judges how well the library in a column serves a GPU. `labels` are the names of all libraries, and `served`
    /// their numbers for the GPU: the library is [`Older`](Self::Older) only if another column is a newer version of
    /// it.
    fn new(column: usize, labels: &[&str], served: &[ServedBundles]) -> Self {
        let Some(own) = served.get(column) else { return Self::OtherVendor };
        // Bundles count only if they have code for GPUs of the same vendor.
        if own.bundles == 0 {
            Self::OtherVendor
        } else if own.is_complete() {
            Self::Complete
        } else if own.serving == 0 && is_before_first_version(column, labels, served) {
            Self::Older
        } else {
            Self::Gap
        }
    }

    /// Returns the explanation in the legend.
    fn meaning(self) -> &'static str {
        match self {
            Self::Complete => "all bundles of the library serve the GPU",
            Self::Gap => "gap: bundles without code for a GPU that others serve",
            Self::Older => "no code for the GPU yet: only newer versions of the library have it",
            Self::OtherVendor => "no code for this vendor",
        }
    }

    /// Returns the class of a cell in HTML.
    fn class(self) -> &'static str {
        match self {
            // Tables have no cells of libraries for other vendors.
            Self::Complete | Self::OtherVendor => "",
            Self::Gap => " class=\"gap\"",
            Self::Older => " class=\"older\"",
        }
    }
}

/// Returns whether newer versions of a library serve a GPU, but no older version does. Versions of a library are
/// libraries whose labels differ only in numbers, such as `rocm64` and `rocm70`.
fn is_before_first_version(column: usize, labels: &[&str], served: &[ServedBundles]) -> bool {
    let Some(own) = labels.get(column) else { return false };
    let mut has_newer = false;
    for (label, served) in labels.iter().zip(served) {
        if served.serving == 0 || without_numbers(label) != without_numbers(own) {
            continue;
        }
        if natural_order(label, own).is_lt() {
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
    fn text(self) -> String {
        if self.service == Service::OtherVendor { "–".to_owned() } else { self.served.to_string() }
    }
}

impl Matrix<'_> {
    /// Returns the groups of GPUs, each with a cell for each library, which says how well the library serves the GPUs.
    fn judged_rows(&self) -> Vec<(&GpuGroup, Vec<Cell>)> {
        let labels: Vec<&str> = self.columns.iter().map(|library| library.name.as_str()).collect();
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
        (width.saturating_sub(NAME) / columns).clamp(CELL.0, CELL.1)
    }

    /// Draws the matrix with its legend.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let cell_width = self.draw_names_of_libraries(canvas);
        let rows = self.judged_rows();
        for (group, cells) in &rows {
            self.draw_row(canvas, group, cells, cell_width);
        }
        canvas.skip(8);
        for service in services(&rows) {
            let Rect { x, y, .. } = canvas.reserve(LEGEND_ROW);
            draw_background(canvas, Rect { x, y: y + 2, width: KEY, height: 15 }, service, "");
            canvas.draw_text(x + KEY + 8, y + 14, r#"class="faint" font-size="12""#, service.meaning());
        }
    }

    /// Draws the names of libraries above their columns: horizontal if all fit into the columns, and slanted otherwise.
    /// Returns the width of a cell.
    fn draw_names_of_libraries(&self, canvas: &mut Canvas) -> u64 {
        let widest = self.cell_width(canvas.inner_width);
        let is_horizontal = self.columns.iter().all(|library| fits(&library.name, widest));
        let longest = self.columns.iter().map(|library| to_u64(library.name.chars().count())).max();
        let head = if is_horizontal { ROW } else { (longest.unwrap_or(0) * CHARACTER).min(HEAD) };
        // Slanted names reach this far to the right of the middle of their columns: the cosine of 55 degrees is below
        // 3/5. The columns get narrower by as much, so that the last name stays inside the picture.
        let reach = if is_horizontal { 0 } else { head * 3 / 5 };
        let cell_width = self.cell_width(canvas.inner_width.saturating_sub(reach));
        let area = canvas.reserve(head);
        for (index, library) in (0..).zip(&self.columns) {
            let (x, y) = (area.x + NAME + index * cell_width + cell_width / 2, area.y + head - 8);
            let (attributes, room) = if is_horizontal {
                (r#"class="faint" font-size="12" text-anchor="middle""#.to_owned(), cell_width)
            } else {
                (format!(r#"class="faint" font-size="12" transform="rotate(-55 {x} {y})""#), head)
            };
            canvas.draw_text(x, y, &attributes, &shortened(&library.name, room));
        }
        cell_width
    }

    /// Draws the name of a group of GPUs, and a cell for each library.
    fn draw_row(&self, canvas: &mut Canvas, group: &GpuGroup, cells: &[Cell], cell_width: u64) {
        let Rect { x, y, .. } = canvas.reserve(ROW);
        let name = shortened(&group.label(RANGE), NAME - 8);
        canvas.draw_text(x, y + 16, r#"font-weight="600""#, &name);
        for ((index, cell), column) in (0..).zip(cells).zip(&self.columns) {
            let x = x + NAME + index * cell_width;
            let hint = format!("{}: {}; {}", group.names(), cell.text(), column.library.name);
            // Two pixels separate the cells.
            draw_cell(canvas, Rect { x, y, width: cell_width - 2, height: ROW - 2 }, *cell, &hint);
        }
    }

    /// Returns a table of HTML for the GPUs of each vendor, with the libraries that have code for GPUs of the vendor.
    pub(crate) fn tables(&self) -> Vec<String> {
        let rows = self.judged_rows();
        let of_vendors = rows.chunk_by(|(one, _), (next, _)| one.vendor() == next.vendor());
        of_vendors.map(|rows| self.table(rows)).collect()
    }

    /// Returns the table of these rows, without columns that have no code for the vendor in any of them.
    fn table(&self, rows: &[(&GpuGroup, Vec<Cell>)]) -> String {
        let mut columns = Vec::new();
        for (index, library) in self.columns.iter().enumerate() {
            if rows.iter().filter_map(|(_, cells)| cells.get(index)).any(|cell| cell.service != Service::OtherVendor) {
                columns.push((index, library));
            }
        }
        let longest = columns.iter().map(|(_, library)| library.name.chars().count()).max().unwrap_or(0);
        // Vertical names keep a table with long names in many columns narrow.
        let is_horizontal = longest <= HORIZONTAL_MAX || longest.saturating_mul(columns.len()) <= ALL_HORIZONTAL_MAX;
        let class = if is_horizontal { "cells" } else { "cells upright" };
        let number = columns.len();
        let mut out =
            format!("<table class=\"{class}\" style=\"--columns:{number}\"><thead><tr><th scope=\"col\">GPU</th>");
        for (_, library) in &columns {
            out.push_str(&column_head(library));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (group, cells) in rows {
            let (names, label) = (group.names(), group.label(RANGE));
            // A short label such as `gfx1100…1103` shows all names while a mouse points at it.
            let title = if names == label { String::new() } else { format!(" title=\"{}\"", escaped(&names)) };
            let _ = write!(out, "<tr><th scope=\"row\"{title}>{}</th>", escaped(&label));
            for cell in columns.iter().filter_map(|(index, _)| cells.get(*index)) {
                let _ = write!(out, "<td{}>{}</td>", cell.service.class(), cell.text());
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table>\n");
        out
    }

    /// Returns the legend of the tables, with the colours that are in them.
    pub(crate) fn legend(&self) -> String {
        let mut items = String::new();
        let found = services(&self.judged_rows());
        for service in found.into_iter().filter(|service| *service != Service::OtherVendor) {
            let _ = write!(items, "<li><b{}></b>{}</li>", service.class(), service.meaning());
        }
        format!("<ul class=\"key cells\">{items}</ul>\n")
    }
}

fn column_head(column: &ServedLibrary<'_>) -> String {
    format!("<th scope=\"col\" title=\"{}\"><span>{}</span></th>", escaped(&column.library.name), escaped(&column.name))
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
        // A thin line at the bottom, so that the numbers are on one colour.
        let done = Rect { y: rect.y + rect.height - 4, height: 4, width: serving, ..rect };
        canvas.draw_rect(done, &format!(r#"fill="{}""#, COMPLETE.0), "");
    }
    let text = if rect.width >= NUMBERED { cell.text() } else { String::new() };
    // The text has a smaller font than the labels that `CHARACTER` is for.
    if to_u64(text.chars().count()) * (CHARACTER - 1) <= rect.width {
        let (x, y) = (rect.x + rect.width / 2, rect.y + rect.height / 2 + 4);
        // The second colour is that of the text.
        let color = match cell.service {
            Service::Complete => format!("style=\"fill: {}\"", COMPLETE.1),
            Service::Gap => format!("style=\"fill: {}\"", GAP.1),
            Service::Older | Service::OtherVendor => "class=\"faint\"".to_owned(),
        };
        canvas.draw_text(x, y, &format!(r#"{color} font-size="11" text-anchor="middle""#), &text);
    }
}

/// Draws the background of a cell, in the first of the two colours of its service.
fn draw_background(canvas: &mut Canvas, rect: Rect, service: Service, hint: &str) {
    let attributes = match service {
        Service::Complete => format!(r#"fill="{}" rx="2""#, COMPLETE.0),
        Service::Gap => format!(r#"fill="{}" rx="2""#, GAP.0),
        Service::Older => r#"class="track" rx="2""#.to_owned(),
        Service::OtherVendor => r#"class="track" fill-opacity=".4" rx="2""#.to_owned(),
    };
    canvas.draw_rect(rect, &attributes, hint);
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
