//! The matrix of GPUs and libraries: in how many of its bundles each GPU is served, with the gaps in another colour.

use std::fmt::Write;

use crate::beyond::runtime::{Device, Served};

use super::library::{Libraries, Library};
use super::{CHARACTER, Canvas, Rect, escaped, fits, part, shortened, to_u64};
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

/// Served by all bundles, and by some or none.
const COMPLETE: (&str, &str) = ("#0072b2", "#fff");
const GAP: (&str, &str) = ("#d1242f", "#fff");

/// In how many bundles of each library a GPU is served.
pub(crate) struct Matrix<'p> {
    gpus: Vec<(Device, Served)>,
    columns: Vec<(&'p Library, Vec<Served>)>,
    /// A sentence of what it shows.
    pub(crate) facts: String,
}

impl<'p> Matrix<'p> {
    /// Returns the matrix, or `None` if no library has bundles for GPUs, or if there are too many bundles to compare.
    pub(crate) fn new(libraries: &'p Libraries) -> Option<Self> {
        let mut gpus = libraries.served().filter(|gpus| !gpus.is_empty())?;
        let complete = gpus.iter().filter(|(_, served)| served.is_complete()).count();
        let more_gpus = gpus.split_off(gpus.len().min(GPUS_MAX)).len();
        let devices: Vec<Device> = gpus.iter().map(|(gpu, _)| gpu.clone()).collect();
        let served = libraries.iter().filter_map(|library| Some((library, library.served(&devices)?)));
        let mut columns: Vec<(&Library, Vec<Served>)> = served.collect();
        let missing = |served: &[Served]| served.iter().any(|served| !served.is_complete());
        // Those with gaps are shown first only where not all can be shown.
        if columns.len() > LIBRARIES_MAX {
            columns.sort_by_key(|(_, served)| !missing(served));
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

    /// The numbers of each GPU: in all libraries, then in each.
    fn rows(&self) -> impl Iterator<Item = (&Device, Vec<Served>)> {
        let of = |index: usize| self.columns.iter().filter_map(move |(_, served)| served.get(index).copied());
        self.gpus.iter().enumerate().map(move |(index, (gpu, _))| (gpu, of(index).collect()))
    }

    /// Draws it, as wide as it has to be.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let columns = to_u64(self.columns.len()).max(1);
        let cell_in = |width: u64| (width.saturating_sub(NAME) / columns).clamp(CELL.0, CELL.1);
        let is_level = self.columns.iter().all(|(library, _)| fits(&library.short, cell_in(canvas.inner)));
        let longest = self.columns.iter().map(|(library, _)| to_u64(library.short.chars().count())).max();
        let head = if is_level { ROW } else { (longest.unwrap_or(0) * CHARACTER).min(HEAD) };
        // Slanted names reach this far to the right of the middle of their columns: the cosine of their angle is less.
        let reach = if is_level { 0 } else { head * 3 / 5 };
        let cell = cell_in(canvas.inner.saturating_sub(reach));
        let area = canvas.take(head);
        for (index, (library, _)) in (0..).zip(&self.columns) {
            let (x, y) = (area.x + NAME + index * cell + cell / 2, area.y + head - 8);
            let attributes = match is_level {
                true => r#"class="faint" font-size="12" text-anchor="middle""#.to_owned(),
                false => format!(r#"class="faint" font-size="12" transform="rotate(-55 {x} {y})""#),
            };
            canvas.text(x, y, &attributes, &shortened(&library.short, if is_level { cell } else { head }));
        }
        for (gpu, served) in self.rows() {
            let Rect { x, y, .. } = canvas.take(ROW);
            let name = shortened(gpu.name(), NAME - 8);
            canvas.text(x, y + 16, r#"font-weight="600""#, &name);
            for ((index, served), (library, _)) in (0..).zip(served).zip(&self.columns) {
                let x = x + NAME + index * cell;
                let hint = format!("{}: {}; {}", gpu.name(), of(served), library.name);
                draw_cell(canvas, Rect { x, y, width: cell - 2, height: ROW - 2 }, served, &hint);
            }
        }
        canvas.inner = NAME + cell * columns + reach.saturating_sub(cell / 2);
    }

    /// A table of HTML with the same numbers.
    pub(crate) fn table(&self) -> String {
        let head: String = self
            .columns
            .iter()
            .map(|(library, _)| format!("<th scope=\"col\">{}</th>", escaped(&library.short)))
            .collect();
        let mut out = format!("<table><thead><tr><th scope=\"col\">GPU</th>{head}</tr></thead><tbody>\n");
        for (gpu, served) in self.rows() {
            let cell = |served: &Served| match served.is_complete() {
                true => format!("<td>{}</td>", of(*served)),
                false => format!("<td class=\"gap\">{}</td>", of(*served)),
            };
            let cells: String = served.iter().map(cell).collect();
            let _ = writeln!(out, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(gpu.name()));
        }
        out + "</tbody></table>\n"
    }
}

fn of(served: Served) -> String {
    if served.bundles == 0 { "–".to_owned() } else { served.to_string() }
}

/// A cell: filled as far as bundles serve the GPU; the rest is a gap.
fn draw_cell(canvas: &mut Canvas, rect: Rect, served: Served, hint: &str) {
    if served.bundles == 0 {
        return canvas.rect(rect, r#"class="track" rx="2""#, hint);
    }
    let serving = part(to_u64(served.serving), to_u64(served.bundles), rect.width);
    let (fill, ink) = if served.is_complete() { COMPLETE } else { GAP };
    canvas.rect(rect, &format!(r#"fill="{fill}" rx="2""#), hint);
    if !served.is_complete() && serving > 0 {
        // A thin line at the bottom, so that the numbers are on one colour.
        let done = Rect { y: rect.y + rect.height - 4, height: 4, width: serving, ..rect };
        canvas.rect(done, &format!(r#"fill="{}""#, COMPLETE.0), "");
    }
    let text = if rect.width >= NUMBERED { served.to_string() } else { String::new() };
    if to_u64(text.len()) * (CHARACTER - 1) <= rect.width {
        let (x, y) = (rect.x + rect.width / 2, rect.y + rect.height / 2 + 4);
        canvas.text(x, y, &format!(r#"style="fill: {ink}" font-size="11" text-anchor="middle""#), &text);
    }
}
