//! The matrix of GPUs and libraries, with the number of bundles that serve each GPU. Gaps have another colour.

use std::fmt::Write;

use crate::beyond::runtime::{Device, ServedBundles};

use super::library::{Libraries, Library};
use super::{CHARACTER, Canvas, Rect, escaped, fits, scaled, shortened, to_u64};
use crate::beyond::cli::print::units::count;

const ROW: u64 = 24;
const NAME: u64 = 138;
/// The narrowest and the widest cell, and the narrowest with numbers.
const CELL: (u64, u64) = (22, 190);
const NUMBERED: u64 = 56;
/// The largest height of slanted names.
const HEAD: u64 = 150;

/// The number of GPUs and of libraries that are shown.
const GPUS_MAX: usize = 60;
const LIBRARIES_MAX: usize = 30;

/// The colours of a GPU that all bundles serve, and of a gap, each with the colour of the text on it.
const COMPLETE: (&str, &str) = ("#0072b2", "#fff");
const GAP: (&str, &str) = ("#d1242f", "#fff");

/// The number of bundles of each library that serve each GPU.
pub(crate) struct Matrix<'p> {
    gpus: Vec<(Device, ServedBundles)>,
    columns: Vec<(&'p Library, Vec<ServedBundles>)>,
    /// A sentence about the contents.
    pub(crate) facts: String,
}

impl<'p> Matrix<'p> {
    /// Returns the matrix, or `None` if no library has bundles for GPUs, or if there are too many bundles to compare.
    pub(crate) fn new(libraries: &'p Libraries) -> Option<Self> {
        let mut gpus = libraries.served()?;
        if gpus.is_empty() {
            return None;
        }
        let complete = gpus.iter().filter(|(_, served)| served.is_complete()).count();
        let more_gpus = gpus.split_off(gpus.len().min(GPUS_MAX)).len();
        let devices: Vec<Device> = gpus.iter().map(|(gpu, _)| gpu.clone()).collect();
        let served = libraries.iter().filter_map(|library| Some((library, library.served(&devices)?)));
        let mut columns: Vec<(&Library, Vec<ServedBundles>)> = served.collect();
        // Libraries with gaps come first only where not all can be shown.
        if columns.len() > LIBRARIES_MAX {
            columns.sort_by_key(|(_, served)| served.iter().all(|served| served.is_complete()));
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
        Some(Self { gpus, columns, facts })
    }

    pub(crate) const TITLE: &'static str = "Bundles that serve each GPU";

    /// The rows of the matrix: each GPU with the numbers of each library.
    fn rows(&self) -> impl Iterator<Item = (&Device, Vec<ServedBundles>)> {
        self.gpus.iter().enumerate().map(|(index, (gpu, _))| {
            let numbers = self.columns.iter().filter_map(|(_, served)| served.get(index).copied());
            (gpu, numbers.collect())
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
        let is_level = self.columns.iter().all(|(library, _)| fits(&library.short, widest));
        let longest = self.columns.iter().map(|(library, _)| to_u64(library.short.chars().count())).max();
        let head = if is_level { ROW } else { (longest.unwrap_or(0) * CHARACTER).min(HEAD) };
        // Slanted names reach this far to the right of the middle of their columns: the cosine of their angle is less.
        let reach = if is_level { 0 } else { head * 3 / 5 };
        let cell = self.cell_width(canvas.inner.saturating_sub(reach));
        let area = canvas.reserve(head);
        for (index, (library, _)) in (0..).zip(&self.columns) {
            let (x, y) = (area.x + NAME + index * cell + cell / 2, area.y + head - 8);
            let attributes = if is_level {
                r#"class="faint" font-size="12" text-anchor="middle""#.to_owned()
            } else {
                format!(r#"class="faint" font-size="12" transform="rotate(-55 {x} {y})""#)
            };
            canvas.draw_text(x, y, &attributes, &shortened(&library.short, if is_level { cell } else { head }));
        }
        for (gpu, served) in self.rows() {
            let Rect { x, y, .. } = canvas.reserve(ROW);
            let name = shortened(gpu.name(), NAME - 8);
            canvas.draw_text(x, y + 16, r#"font-weight="600""#, &name);
            for ((index, served), (library, _)) in (0..).zip(served).zip(&self.columns) {
                let x = x + NAME + index * cell;
                let hint = format!("{}: {}; {}", gpu.name(), served_text(served), library.name);
                draw_cell(canvas, Rect { x, y, width: cell - 2, height: ROW - 2 }, served, &hint);
            }
        }
        canvas.inner = NAME + cell * columns + reach.saturating_sub(cell / 2);
    }

    /// A table of HTML with the same numbers.
    pub(crate) fn table(&self) -> String {
        let mut head = String::new();
        for (library, _) in &self.columns {
            let _ = write!(head, "<th scope=\"col\">{}</th>", escaped(&library.short));
        }
        let mut out = format!("<table><thead><tr><th scope=\"col\">GPU</th>{head}</tr></thead><tbody>\n");
        for (gpu, served) in self.rows() {
            let mut cells = String::new();
            for served in served {
                let class = if served.is_complete() { "" } else { " class=\"gap\"" };
                let _ = write!(cells, "<td{class}>{}</td>", served_text(served));
            }
            let _ = writeln!(out, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(gpu.name()));
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
