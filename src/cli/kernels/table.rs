//! The text report of `kernels`: a table for each place, or one table of the sorted kernels.

use std::cell::RefCell;
use std::io::Write;

use offload_bundle::scan::Place;
use offload_bundle::{Error, Result};
use unicode_width::UnicodeWidthStr;

use super::column::NUMBERS;
use super::report::{Others, Row};
use crate::cli::units::{Kinds, count};

/// The title of the column with target IDs, and of that with places.
const GPU: &str = "GPU";
const FILE: &str = "FILE";

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
    others: &RefCell<Others>,
    out: &mut dyn Write,
) -> Result<()> {
    let mut is_silent = true;
    for rows in files {
        is_silent &= rows.is_empty();
        let has_places = match grouping {
            Grouping::ByPlace => false,
            Grouping::Column => true,
            Grouping::None => {
                rows.iter().any(|row| rows.first().is_some_and(|first| first.from.place != row.from.place))
            }
        };
        let written = match grouping {
            Grouping::Column | Grouping::None => table(&rows, has_places, out),
            Grouping::ByPlace => rows.chunk_by(|a, b| a.from.place == b.from.place).try_for_each(|rows| {
                writeln!(out, "{}: {}", rows.first().map(place).unwrap_or_default(), summary(rows))?;
                table(rows, has_places, out)
            }),
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
    Place::to_string(&row.from.place)
}

/// The numbers of kernels and of code objects with them.
fn summary(rows: &[Row]) -> String {
    let code_objects = rows.chunk_by(|a, b| std::sync::Arc::ptr_eq(&a.from, &b.from)).count();
    format!("{} in {}", count(rows.len(), "kernel", "kernels"), count(code_objects, "code object", "code objects"))
}

/// Writes a table. Columns without a number are left out.
fn table(rows: &[Row], has_places: bool, out: &mut dyn Write) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let numbers: Vec<_> =
        NUMBERS.iter().filter(|number| rows.iter().any(|row| (number.of)(&row.kernel).is_some())).collect();
    let digits = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let widest = |title: &str, widths: &mut dyn Iterator<Item = usize>| widths.fold(title.len(), usize::max);
    let gpu = widest(GPU, &mut rows.iter().map(|row| row.gpu.width()));
    let widths: Vec<usize> = numbers
        .iter()
        .map(|number| widest(number.title, &mut rows.iter().map(|row| digits((number.of)(&row.kernel)).len())))
        .collect();
    let file = if has_places { widest(FILE, &mut rows.iter().map(|row| place(row).width())) } else { 0 };
    let mut line = |texts: &mut dyn Iterator<Item = String>, target: &str, place: &str, name: &str| {
        let cells: String = texts.zip(&widths).map(|(text, width)| format!("  {text:>width$}")).collect();
        let padding = |text: &str, width: usize| " ".repeat(width.saturating_sub(text.width()));
        let place = if has_places { format!("  {place}{}", padding(place, file)) } else { String::new() };
        writeln!(out, "  {target}{}{cells}{place}  {name}", padding(target, gpu))
    };
    line(&mut numbers.iter().map(|number| number.title.to_owned()), GPU, FILE, "KERNEL")?;
    for row in rows {
        let place = if has_places { place(row) } else { String::new() };
        line(&mut numbers.iter().map(|number| digits((number.of)(&row.kernel))), &row.gpu, &place, &row.name)?;
    }
    Ok(())
}
