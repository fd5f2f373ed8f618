//! The text report of `kernels`: a table for each place, or one table of the sorted kernels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::beyond::code::kernels::Kernel;
use crate::beyond::job::Change;
use crate::beyond::scan::{CodeObject, Place};

use super::column::{FLAGS, KernelColumn, NUMBERS, SortKey};
use super::report::KernelSums;
use super::row::Row;
use crate::beyond::cli::print::table::{Cell, Column, Fit, Table, common_start};
use crate::beyond::cli::print::text::Text;
use crate::beyond::cli::print::units::{count, shown_uri};

/// The column of a table of kernels that says where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// None.
    Nowhere,
    /// The file and the members in it.
    File,
    /// The URI of the code object.
    Uri,
}

/// Writes the rows of each file as soon as they are available, in a table for each place. If they are sorted by a key,
/// they have one table, with their places unless these are the same in the only file.
pub(super) fn write(
    files: &mut dyn Iterator<Item = Vec<Row>>,
    key: Option<SortKey>,
    (is_one_file, has_uris): (bool, bool),
    sums: &RefCell<KernelSums>,
    mut text: Text<'_>,
) -> anyhow::Result<()> {
    let mut is_silent = true;
    for rows in files {
        is_silent &= rows.is_empty();
        let is_elsewhere = |row: &Row| rows.first().is_some_and(|first| place(first) != place(row));
        let place_column = match key {
            _ if has_uris => Where::Uri,
            None => Where::Nowhere,
            Some(_) if is_one_file && !rows.iter().any(is_elsewhere) => Where::Nowhere,
            Some(_) => Where::File,
        };
        let is_one = |a: &Row, b: &Row| key.is_some() || place(a) == place(b);
        for rows in rows.chunk_by(is_one) {
            if let (None, [first, ..]) = (key, rows) {
                text.heading(&place(first).to_string(), &format!(": {}", summary(rows)))?;
            }
            table(|| rows.iter().map(Listed::of), place_column, key, 2, &mut text)?;
        }
        text.out.flush()?;
    }
    if is_silent {
        text.line("no kernels found")?;
    }
    let others = &sums.borrow().others;
    if others.total() > 0 {
        text.line(&format!("code objects of other kinds, not listed: {others}"))?;
    }
    Ok(())
}

fn place(row: &Row) -> &Place {
    &row.code_object.bundle.place
}

/// The numbers of kernels and of code objects with them.
fn summary(rows: &[Row]) -> String {
    let code_objects = rows.chunk_by(|a, b| Arc::ptr_eq(&a.code_object, &b.code_object)).count();
    format!("{} in {}", count(rows.len(), "kernel", "kernels"), count(code_objects, "code object", "code objects"))
}

/// A kernel of a table: as it was before, if two files are compared, and as it is.
pub(crate) struct Listed<'r> {
    pub(crate) gpu: &'r str,
    pub(crate) code_object: &'r CodeObject,
    pub(crate) name: &'r str,
    /// How it differs, if two files are compared.
    pub(crate) change: Option<Change>,
    pub(crate) old: Option<&'r Kernel>,
    pub(crate) new: Option<&'r Kernel>,
}

impl<'r> Listed<'r> {
    fn of(Row { code_object, gpu, name, kernel }: &'r Row) -> Self {
        Self { gpu, code_object, name, change: None, old: None, new: Some(kernel) }
    }

    fn text(&self, column: &KernelColumn) -> String {
        let is_compared = self.change.is_some();
        let text = |number: Option<u64>| match number {
            Some(_) if column.is_flag => "yes".to_owned(),
            None if column.is_flag => if is_compared { "no" } else { "" }.to_owned(),
            Some(number) => number.to_string(),
            None => "-".to_owned(),
        };
        match (self.old.map(column.of), self.new.map(column.of)) {
            (Some(old), Some(new)) => either(old, new, text),
            (old, new) => text(new.or(old).flatten()),
        }
    }

    fn change(&self) -> &'static str {
        self.change.filter(|change| *change != Change::Changed).map_or("", Change::name)
    }
}

/// A number, or the old and the new one.
pub(crate) fn either<N: Copy + PartialEq>(old: N, new: N, text: impl Fn(N) -> String) -> String {
    if old == new { text(new) } else { format!("{} -> {}", text(old), text(new)) }
}

/// Writes a table of kernels. Columns in which nothing differs from the old file, or without one in which nothing is
/// recorded, are left out; the column `kept` stays however narrow the terminal is.
pub(crate) fn table<'r, I: Iterator<Item = Listed<'r>>>(
    rows: impl Fn() -> I,
    place_column: Where,
    kept: Option<SortKey>,
    indent: usize,
    text: &mut Text<'_>,
) -> io::Result<()> {
    if rows().next().is_none() {
        return Ok(());
    }
    let differs = |column: &&KernelColumn| {
        let number = |kernel: Option<&Kernel>| kernel.and_then(column.of);
        rows().any(|row| number(row.old) != number(row.new))
    };
    let shown: Vec<&KernelColumn> = NUMBERS.iter().chain(&FLAGS).filter(differs).collect();
    let key = |row: &Listed<'_>| match place_column {
        Where::Uri => std::ptr::from_ref(row.code_object).addr(),
        Where::File | Where::Nowhere => Arc::as_ptr(&row.code_object.bundle).addr(),
    };
    let mut places: HashMap<usize, String> = HashMap::new();
    for row in rows().filter(|_| place_column != Where::Nowhere) {
        places.entry(key(&row)).or_insert_with(|| match place_column {
            Where::Uri => shown_uri(row.code_object),
            Where::File | Where::Nowhere => row.code_object.bundle.place.to_string(),
        });
    }
    let is_file = place_column == Where::File;
    let start = common_start(places.values().map(String::as_str).filter(|_| is_file), text.style);
    let column = |column: &'static KernelColumn| {
        let is_kept = matches!(kept, Some(SortKey::Numbers(first, _)) if first.title == column.title);
        let fit = if is_kept { Fit::Stays } else { Fit::LeftOut(0) };
        let text = |row: &Listed<'r>| row.text(column);
        Column { fit, is_left_aligned: column.is_flag, ..Column::number(column.title, text) }
    };
    let place = |row: &Listed<'r>| {
        places.get(&key(row)).map(|place| place.get(start..).unwrap_or(place).to_owned()).unwrap_or_default()
    };
    let mut columns = vec![
        Column::label("GPU", |row: &Listed<'r>| Cell::Bold(row.gpu.to_owned())),
        Column::label("", |row: &Listed<'r>| row.change().to_owned()),
    ];
    columns.extend(shown.into_iter().map(column));
    match place_column {
        Where::Nowhere => {}
        Where::File => columns.push(Column::name("FILE", place)),
        Where::Uri => columns.push(Column::label("URI", place)),
    }
    columns.push(Column::name("KERNEL", |row: &Listed<'r>| row.name.to_owned()));
    text.table(Table { indent, columns }, rows)
}
