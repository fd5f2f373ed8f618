//! The table of `inspect --matrix`: in how many bundles of each library each GPU is served.

use std::collections::BTreeMap;
use std::io;

use crate::base::display::printable;
use crate::beyond::runtime::{Device, ServedBundles};

use super::table::unfound_lines;
use crate::beyond::cli::picture::{Libraries, Library};
use crate::beyond::cli::print::table::{Cell, Column, Fit, Table};
use crate::beyond::cli::print::text::Text;
use crate::beyond::cli::print::units::first;

/// The number of GPUs that are shown; hostile files can name any number.
const GPUS_MAX: usize = 200;

/// The number of libraries that are named below the table for each reason.
const LEFT_OUT_MAX: usize = 20;

/// The columns for the names of libraries if a terminal is too narrow for all GPUs, which then take several tables.
const NAME: usize = 32;

/// Writes the table, or the reason why it cannot be shown.
pub(super) fn write(libraries: &Libraries, text: &mut Text<'_>) -> io::Result<()> {
    let Some(mut all) = libraries.served() else {
        return text.write_line("too many GPUs and bundles to tell which bundles serve which GPU");
    };
    let more = all.split_off(all.len().min(GPUS_MAX)).len();
    let (gpus, served): (Vec<Device>, Vec<ServedBundles>) = all.into_iter().unzip();
    let mut left_out = LeftOut::default();
    let mut rows: Vec<(String, Vec<ServedBundles>)> = Vec::new();
    for library in libraries.iter() {
        match library.served(&gpus) {
            Some(served) if !gpus.is_empty() => rows.push((printable(&library.name), served)),
            _ => left_out.entry(reason(library, gpus.is_empty())).or_default().push(printable(&library.name)),
        }
    }
    if gpus.is_empty() {
        text.write_line("no bundles with code for GPUs")?;
        return write_left_out(&left_out, text);
    }
    if rows.len() > 1 {
        rows.push(("all".to_owned(), served));
    }
    let widest = gpus.iter().map(|gpu| gpu.name().len()).max().unwrap_or_default();
    let in_a_table = match text.style.width {
        Some(width) => (width.saturating_sub(NAME) / (widest + 2)).max(1),
        None => gpus.len(),
    };
    let gpus: Vec<(usize, Device)> = gpus.into_iter().enumerate().collect();
    for gpus in gpus.chunks(in_a_table) {
        let mut columns = vec![Column::name("LIBRARY", |(library, _): &(String, Vec<ServedBundles>)| library.clone())];
        columns.extend(gpus.iter().map(|(index, gpu)| Column {
            title: gpu.name().to_owned().into(),
            fit: Fit::Stays,
            ..Column::number("", |(_, served): &(String, Vec<ServedBundles>)| cell(served.get(*index)))
        }));
        text.write_table(Table { indent: 0, columns }, || rows.iter())?;
        text.write_empty_line()?;
    }
    if more > 0 {
        text.write_line(&format!("GPUs not shown: {more}"))?;
    }
    write_left_out(&left_out, text)?;
    for line in unfound_lines(libraries.all_coverage()) {
        text.write_line(&line)?;
    }
    text.write_line(
        "all: all bundles serve the GPU; 1/3: one of three does; -: none does; empty: no code for GPUs of its vendor",
    )
}

/// The libraries that are not in the table, by the reason. Its number is its place in the order of reasons.
type LeftOut = BTreeMap<(u8, &'static str), Vec<String>>;

fn reason(library: &Library, is_without_gpus: bool) -> (u8, &'static str) {
    if !library.has_bundles() {
        if library.is_apart {
            (1, "code in kpack archives that were not searched")
        } else {
            (0, "code without a bundle")
        }
    } else if !is_without_gpus {
        (4, "too many GPUs and bundles to compare")
    } else if library.is_lost {
        (2, "kpack archives not found")
    } else {
        (3, "no code for GPUs")
    }
}

fn write_left_out(left_out: &LeftOut, text: &mut Text<'_>) -> io::Result<()> {
    for ((_, why), names) in left_out {
        let (listed, more) = first(names, LEFT_OUT_MAX);
        let mut listed = listed.to_vec();
        if more > 0 {
            listed.push(format!("{more} more"));
        }
        text.write_line(&format!("not in the table ({why}): {}", listed.join(", ")))?;
    }
    Ok(())
}

fn cell(served: Option<&ServedBundles>) -> Cell {
    match served {
        None | Some(ServedBundles { bundles: 0, .. }) => Cell::Text(String::new()),
        Some(served) if served.is_complete() => Cell::Text("all".to_owned()),
        Some(ServedBundles { serving: 0, .. }) => Cell::Bold("-".to_owned()),
        Some(ServedBundles { serving, bundles, .. }) => Cell::Bold(format!("{serving}/{bundles}")),
    }
}
