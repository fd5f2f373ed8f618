//! The matrix of GPUs and libraries, with the number of bundles that serve each GPU. Gaps have another colour.

use std::fmt::Write;

use crate::beyond::runtime::ServedBundles;

use super::library::Libraries;
use super::served::{GpuGroup, ServedLibrary, ServedTable};
use super::{CHARACTER, Canvas, Rect, escaped, fits, scaled, shortened, to_u64};
use crate::beyond::cli::print::units::count;

const ROW: u64 = 24;
const NAME: u64 = 138;
/// The narrowest and the widest cell, and the narrowest with numbers.
const CELL: (u64, u64) = (22, 190);
const NUMBERED: u64 = 56;
/// The largest height of slanted names.
const HEAD: u64 = 150;

/// The mark of a range of GPUs.
const RANGE: &str = "…";

/// The number of groups of GPUs and of libraries that are shown.
const GPUS_MAX: usize = 60;
const LIBRARIES_MAX: usize = 30;

/// The colours of a GPU that all bundles serve, and of a gap, each with the colour of the text on it.
const COMPLETE: (&str, &str) = ("#0072b2", "#fff");
const GAP: (&str, &str) = ("#d1242f", "#fff");

/// The number of bundles of each library that serve each GPU.
pub(crate) struct Matrix<'p> {
    groups: Vec<GpuGroup>,
    columns: Vec<ServedLibrary<'p>>,
    /// A sentence about the contents.
    pub(crate) facts: String,
}

impl<'p> Matrix<'p> {
    /// Returns the matrix, or `None` if no library has bundles for GPUs, or if there are too many bundles to compare.
    pub(crate) fn new(libraries: &'p Libraries) -> Option<Self> {
        let gpus = libraries.served()?;
        if gpus.is_empty() {
            return None;
        }
        let complete = gpus.iter().filter(|(_, served)| served.is_complete()).count();
        let ServedTable { libraries: mut columns, mut groups, other_gpus, .. } = ServedTable::new(libraries)?;
        let mut more_gpus = other_gpus;
        for group in groups.split_off(groups.len().min(GPUS_MAX)) {
            more_gpus += group.gpus.len();
        }
        // Libraries with gaps come first only where not all can be shown.
        if columns.len() > LIBRARIES_MAX {
            columns.sort_by_key(|library| library.served.iter().all(|served| served.is_complete()));
        }
        let more = columns.split_off(columns.len().min(LIBRARIES_MAX)).len();
        let mut facts = format!(
            "{}; {} served by all of them",
            count(libraries.coverage.bundles(), "bundle", "bundles"),
            count(complete, "GPU is", "GPUs are")
        );
        if more > 0 {
            let _ = write!(facts, "; {} not shown", count(more, "more library is", "more libraries are"));
        }
        if more_gpus > 0 {
            let _ = write!(facts, "; {} not shown", count(more_gpus, "more GPU is", "more GPUs are"));
        }
        Some(Self { groups, columns, facts })
    }

    pub(crate) const TITLE: &'static str = "Bundles that serve each GPU";

    /// The rows of the matrix: GPUs that all libraries serve alike, with the numbers of each library.
    fn rows(&self) -> impl Iterator<Item = (&GpuGroup, Vec<ServedBundles>)> {
        self.groups.iter().enumerate().map(|(index, group)| {
            let numbers = self.columns.iter().filter_map(|library| library.served.get(index).copied());
            (group, numbers.collect())
        })
    }

    /// The width of a cell if the matrix is as wide as this.
    fn cell_width(&self, width: u64) -> u64 {
        let columns = to_u64(self.columns.len()).max(1);
        (width.saturating_sub(NAME) / columns).clamp(CELL.0, CELL.1)
    }

    /// Draws the matrix, as wide as necessary.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let columns = to_u64(self.columns.len()).max(1);
        let widest = self.cell_width(canvas.inner);
        let is_level = self.columns.iter().all(|column| fits(&column.name, widest));
        let longest = self.columns.iter().map(|column| to_u64(column.name.chars().count())).max();
        let head = if is_level { ROW } else { (longest.unwrap_or(0) * CHARACTER).min(HEAD) };
        // Slanted names reach this far to the right of the middle of their columns: the cosine of their angle is less.
        let reach = if is_level { 0 } else { head * 3 / 5 };
        let cell = self.cell_width(canvas.inner.saturating_sub(reach));
        let area = canvas.reserve(head);
        for (index, column) in (0..).zip(&self.columns) {
            let (x, y) = (area.x + NAME + index * cell + cell / 2, area.y + head - 8);
            let attributes = if is_level {
                r#"class="faint" font-size="12" text-anchor="middle""#.to_owned()
            } else {
                format!(r#"class="faint" font-size="12" transform="rotate(-55 {x} {y})""#)
            };
            canvas.draw_text(x, y, &attributes, &shortened(&column.name, if is_level { cell } else { head }));
        }
        for (group, served) in self.rows() {
            let Rect { x, y, .. } = canvas.reserve(ROW);
            let name = shortened(&group.label(RANGE), NAME - 8);
            canvas.draw_text(x, y + 16, r#"font-weight="600""#, &name);
            for ((index, served), column) in (0..).zip(served).zip(&self.columns) {
                let x = x + NAME + index * cell;
                let hint = format!("{}: {}; {}", group.names(), served_text(served), column.library.name);
                draw_cell(canvas, Rect { x, y, width: cell - 2, height: ROW - 2 }, served, &hint);
            }
        }
        canvas.inner = NAME + cell * columns + reach.saturating_sub(cell / 2);
    }

    /// A table of HTML with the same numbers.
    pub(crate) fn table(&self) -> String {
        let mut head = String::new();
        for column in &self.columns {
            let _ = write!(head, "<th scope=\"col\">{}</th>", escaped(&column.name));
        }
        let mut out = format!("<table><thead><tr><th scope=\"col\">GPU</th>{head}</tr></thead><tbody>\n");
        for (group, served) in self.rows() {
            let mut cells = String::new();
            for served in served {
                let class = if served.is_complete() { "" } else { " class=\"gap\"" };
                let _ = write!(cells, "<td{class}>{}</td>", served_text(served));
            }
            let _ = writeln!(out, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(&group.label(RANGE)));
        }
        out + "</tbody></table>\n"
    }
}

fn served_text(served: ServedBundles) -> String {
    if served.bundles == 0 { "–".to_owned() } else { served.to_string() }
}

/// Draws a cell. If some bundles do not serve the GPU, it has the colour of a gap, and a line as long as the share of the
/// bundles that do.
fn draw_cell(canvas: &mut Canvas, rect: Rect, served: ServedBundles, hint: &str) {
    if served.bundles == 0 {
        return canvas.draw_rect(rect, r#"class="track" rx="2""#, hint);
    }
    let serving = scaled(to_u64(served.serving), to_u64(served.bundles), rect.width);
    let (fill, ink) = if served.is_complete() { COMPLETE } else { GAP };
    canvas.draw_rect(rect, &format!(r#"fill="{fill}" rx="2""#), hint);
    if !served.is_complete() && serving > 0 {
        // A thin line at the bottom, so that the numbers are on one colour.
        let done = Rect { y: rect.y + rect.height - 4, height: 4, width: serving, ..rect };
        canvas.draw_rect(done, &format!(r#"fill="{}""#, COMPLETE.0), "");
    }
    let text = if rect.width >= NUMBERED { served.to_string() } else { String::new() };
    if to_u64(text.len()) * (CHARACTER - 1) <= rect.width {
        let (x, y) = (rect.x + rect.width / 2, rect.y + rect.height / 2 + 4);
        canvas.draw_text(x, y, &format!(r#"style="fill: {ink}" font-size="11" text-anchor="middle""#), &text);
    }
}
