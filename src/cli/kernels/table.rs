//! The text report of `kernels`: a table for each place, or one table of the sorted kernels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use offload_bundle::scan::BundleInfo;
use offload_bundle::{Error, Result};

use super::column::{NUMBERS, SortKey};
use super::report::{Others, Row};
use crate::cli::print::table::{Style, Table, common_start};
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
    others: &RefCell<Others>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut is_silent = true;
    for rows in files {
        is_silent &= rows.is_empty();
        let has_places = match grouping {
            Grouping::ByPlace => false,
            Grouping::Column => true,
            Grouping::None => rows
                .iter()
                .any(|row| rows.first().is_some_and(|first| first.from.bundle.place != row.from.bundle.place)),
        };
        let written = match grouping {
            Grouping::Column | Grouping::None => table(&rows, has_places, key, style, out),
            Grouping::ByPlace => {
                rows.chunk_by(|a, b| a.from.bundle.place == b.from.bundle.place).try_for_each(|rows| {
                    let place = rows.first().map(place).unwrap_or_default();
                    writeln!(out, "{}: {}", style.paint("1", &place), summary(rows))?;
                    table(rows, has_places, key, style, out)
                })
            }
        };
        written.and_then(|()| out.flush()).map_err(|error| Error::io("-", error))?;
    }
    let mut kinds = Kinds::default();
    others.borrow().0.iter().for_each(|(kind, number)| kinds.add(kind, *number));
    let lines = [
        is_silent.then(|| "no kernels found".to_owned()),
        (kinds.total() > 0).then(|| format!("code objects of other kinds, not listed: {kinds}")),
    ];
    let mut lines = lines.into_iter().flatten();
    lines.try_for_each(|line| writeln!(out, "{line}")).map_err(|error| Error::io("-", error))
}

fn place(row: &Row) -> String {
    row.from.bundle.place.to_string()
}

/// The numbers of kernels and of code objects with them.
fn summary(rows: &[Row]) -> String {
    let code_objects = rows.chunk_by(|a, b| std::sync::Arc::ptr_eq(&a.from, &b.from)).count();
    format!("{} in {}", count(rows.len(), "kernel", "kernels"), count(code_objects, "code object", "code objects"))
}

/// Writes a table. Columns without a number are left out.
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
    let digits = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let places: HashMap<*const BundleInfo, String> = match has_places {
        true => rows.iter().map(|row| (Arc::as_ptr(&row.from.bundle), place(row))).collect(),
        false => HashMap::new(),
    };
    let start = common_start(places.values().map(String::as_str), style);
    let titles = numbers.iter().map(|number| number.title);
    let titles = ["GPU"].into_iter().chain(titles).chain(has_places.then_some("FILE")).chain(["KERNEL"]).collect();
    let kept = match kept {
        Some(SortKey::Numbers(number, _)) => Some(number.title),
        _ => None,
    };
    let table = Table { indent: 2, titles, labels: 1, names: 1 + usize::from(has_places), kept };
    let cells = |row: &Row| {
        let place =
            places.get(&Arc::as_ptr(&row.from.bundle)).map(|place| place.get(start..).unwrap_or(place).to_owned());
        let numbers = numbers.iter().map(|number| digits((number.of)(&row.kernel)));
        [row.gpu.to_string()].into_iter().chain(numbers).chain(place).chain([row.name.to_string()]).collect()
    };
    table.write(|| rows.iter().map(cells), style, out)
}
