//! The text report of `kernels`: a table for each place, or one table of the sorted kernels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use offload_bundle::scan::BundleInfo;

use super::column::{FLAGS, NUMBERS, SortKey};
use super::report::Row;
use crate::cli::print::table::{Cell, Column, Fit, Style, Table, common_start};
use crate::cli::print::units::{Kinds, count};

/// How a report shows the places of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Each place has a table.
    ByPlace,
    /// One table has a column with the places.
    Column,
    /// One table, without places unless they differ.
    None,
}

/// Writes the rows of each file as soon as they are available.
pub(super) fn write(
    files: &mut dyn Iterator<Item = Vec<Row>>,
    grouping: Grouping,
    key: Option<SortKey>,
    style: Style,
    others: &RefCell<Kinds>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut is_silent = true;
    for rows in files {
        is_silent &= rows.is_empty();
        let has_places = match grouping {
            Grouping::ByPlace => false,
            Grouping::Column => true,
            Grouping::None => rows.iter().any(|row| {
                rows.first().is_some_and(|first| first.code_object.bundle.place != row.code_object.bundle.place)
            }),
        };
        let written = match grouping {
            Grouping::Column | Grouping::None => table(&rows, has_places, key, style, out),
            Grouping::ByPlace => {
                rows.chunk_by(|a, b| a.code_object.bundle.place == b.code_object.bundle.place).try_for_each(|rows| {
                    let place = rows.first().map(place).unwrap_or_default();
                    writeln!(out, "{}: {}", style.paint("1", &place), summary(rows))?;
                    table(rows, has_places, key, style, out)
                })
            }
        };
        written.and_then(|()| out.flush())?;
    }
    let others = others.borrow();
    let lines = [
        is_silent.then(|| "no kernels found".to_owned()),
        (others.total() > 0).then(|| format!("code objects of other kinds, not listed: {others}")),
    ];
    let mut lines = lines.into_iter().flatten();
    Ok(lines.try_for_each(|line| writeln!(out, "{line}"))?)
}

fn place(row: &Row) -> String {
    row.code_object.bundle.place.to_string()
}

/// The numbers of kernels and of code objects with them.
fn summary(rows: &[Row]) -> String {
    let code_objects = rows.chunk_by(|a, b| Arc::ptr_eq(&a.code_object, &b.code_object)).count();
    format!("{} in {}", count(rows.len(), "kernel", "kernels"), count(code_objects, "code object", "code objects"))
}

/// Writes a table. Columns without a number, and those of what is true of no kernel, are left out.
fn table(
    rows: &[Row],
    has_places: bool,
    kept: Option<SortKey>,
    style: Style,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let numbers: Vec<_> =
        NUMBERS.iter().filter(|number| rows.iter().any(|row| (number.of)(&row.kernel).is_some())).collect();
    let flags: Vec<_> =
        FLAGS.iter().filter(|flag| rows.iter().any(|row| (flag.of)(&row.kernel) == Some(true))).collect();
    let digits = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let places: HashMap<*const BundleInfo, String> = match has_places {
        true => rows.iter().map(|row| (Arc::as_ptr(&row.code_object.bundle), place(row))).collect(),
        false => HashMap::new(),
    };
    let start = common_start(places.values().map(String::as_str), style);
    let is_kept = |title| matches!(kept, Some(SortKey::Numbers(number, _)) if number.title == title);
    let number = |title| {
        let column = Column::number(title);
        if is_kept(title) { Column { fit: Fit::Stays, ..column } } else { column }
    };
    let columns = numbers.iter().map(|column| number(column.title)).chain(flags.iter().map(|flag| flag.column()));
    let names = has_places.then(|| Column::name("FILE")).into_iter().chain([Column::name("KERNEL")]);
    let table = Table { indent: 2, columns: [Column::label("GPU")].into_iter().chain(columns).chain(names).collect() };
    let cells = |row: &Row| {
        let place = places
            .get(&Arc::as_ptr(&row.code_object.bundle))
            .map(|place| place.get(start..).unwrap_or(place).to_owned());
        let numbers = numbers.iter().map(|number| digits((number.of)(&row.kernel)));
        let is_true = |flag: Option<bool>| if flag == Some(true) { "yes".to_owned() } else { String::new() };
        let flags = flags.iter().map(|flag| is_true((flag.of)(&row.kernel)));
        let texts = numbers.chain(flags).chain(place).chain([row.name.to_string()]).map(Cell::Text);
        [Cell::Bold(row.gpu.to_string())].into_iter().chain(texts).collect::<Vec<_>>()
    };
    table.lines(|| rows.iter().map(cells), style).try_for_each(|line| writeln!(out, "{line}"))
}
