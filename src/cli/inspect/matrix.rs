//! The table of `inspect --matrix`: in how many bundles of each library each GPU is served.

use offload_bundle::display::printable;
use offload_bundle::runtime::{Device, Served};

use super::lines::line;
use crate::cli::picture::{Libraries, Library};
use crate::cli::print::table::{Cell, Column, Fit, Style, Table};

/// The number of GPUs that are shown; hostile files can name any number.
const GPUS_MAX: usize = 200;

/// The libraries of a kind that are named below the table.
const LEFT_OUT_MAX: usize = 20;

/// The room for the names of libraries where a terminal is too narrow for all GPUs, which then take several tables.
const NAME: usize = 32;

/// The table, or why there is none.
pub(super) fn matrix(libraries: &Libraries, style: Style) -> String {
    let mut out = String::new();
    let Some(mut all) = libraries.served() else {
        line(&mut out, &style.line("too many GPUs and bundles to tell which bundles serve which GPU"));
        return out;
    };
    let more = all.split_off(all.len().min(GPUS_MAX)).len();
    let (gpus, served): (Vec<Device>, Vec<Served>) = all.into_iter().unzip();
    let mut left_out = NotInTable::default();
    let mut rows: Vec<(String, Vec<Served>)> = Vec::new();
    for library in libraries.iter() {
        match library.served(&gpus).filter(|_| !gpus.is_empty()) {
            Some(served) => rows.push((printable(&library.name), served)),
            None => left_out.add(library, gpus.is_empty()),
        }
    }
    if gpus.is_empty() {
        line(&mut out, &style.line("no bundles with code for GPUs"));
        left_out.lines(style, &mut out);
        return out;
    }
    if rows.len() > 1 {
        rows.push(("all".to_owned(), served));
    }
    let widest = gpus.iter().map(|gpu| gpu.name().len()).max().unwrap_or_default();
    let in_a_table = style.width.map_or(gpus.len(), |width| (width.saturating_sub(NAME) / (widest + 2)).max(1));
    for (index, gpus) in gpus.chunks(in_a_table).enumerate() {
        let titles = gpus.iter().map(|gpu| Column { fit: Fit::Stays, ..Column::number(gpu.name().to_owned()) });
        let table = Table { indent: 0, columns: [Column::name("LIBRARY")].into_iter().chain(titles).collect() };
        let cells = |(library, served): &(String, Vec<Served>)| -> Vec<Cell> {
            let served = served.iter().skip(index * in_a_table).take(gpus.len());
            [Cell::Text(library.clone())].into_iter().chain(served.map(cell)).collect()
        };
        table.lines(|| rows.iter().map(cells), style).for_each(|text| line(&mut out, &text));
        out.push('\n');
    }
    if more > 0 {
        line(&mut out, &style.line(&format!("GPUs not shown: {more}")));
    }
    left_out.lines(style, &mut out);
    let legend =
        "all: all bundles serve the GPU; 1/3: one of three does; -: none does; empty: no code for GPUs of its vendor";
    line(&mut out, &style.line(legend));
    out
}

/// The libraries that are not in the table, by the reason.
#[derive(Default)]
struct NotInTable {
    unbundled: Vec<String>,
    apart: Vec<String>,
    lost: Vec<String>,
    for_none: Vec<String>,
    large: Vec<String>,
}

impl NotInTable {
    fn add(&mut self, library: &Library, is_without_gpus: bool) {
        let names = match library.has_bundles() {
            true if is_without_gpus && library.is_lost => &mut self.lost,
            true if is_without_gpus => &mut self.for_none,
            true => &mut self.large,
            false if library.is_apart => &mut self.apart,
            false => &mut self.unbundled,
        };
        names.push(printable(&library.name));
    }

    fn lines(&self, style: Style, out: &mut String) {
        for (why, names) in [
            ("code without a bundle", &self.unbundled),
            ("code in kpack archives that were not searched", &self.apart),
            ("kpack archives not found", &self.lost),
            ("no code for GPUs", &self.for_none),
            ("too many GPUs and bundles to compare", &self.large),
        ] {
            let (listed, more) = names.split_at(names.len().min(LEFT_OUT_MAX));
            let more = (!more.is_empty()).then(|| format!("{} more", more.len()));
            let listed: Vec<&str> = listed.iter().map(String::as_str).chain(more.as_deref()).collect();
            if !listed.is_empty() {
                line(out, &style.line(&format!("not in the table ({why}): {}", listed.join(", "))));
            }
        }
    }
}

fn cell(served: &Served) -> Cell {
    match served {
        Served { bundles: 0, .. } => Cell::Text(String::new()),
        served if served.is_complete() => Cell::Text("all".to_owned()),
        Served { serving: 0, .. } => Cell::Bold("-".to_owned()),
        Served { serving, bundles, .. } => Cell::Bold(format!("{serving}/{bundles}")),
    }
}
