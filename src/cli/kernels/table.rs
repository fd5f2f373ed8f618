//! The text report of `kernels`: a table for each place, or one table of the sorted kernels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use offload_bundle::job::Change;
use offload_bundle::kernels::Kernel;
use offload_bundle::scan::{CodeObject, Place};

use super::column::{FLAGS, FlagColumn, NUMBERS, NumberColumn, SortKey};
use super::report::{KernelSums, Row};
use crate::cli::print::table::{Cell, Column, Fit, Table, common_start};
use crate::cli::print::text::Text;
use crate::cli::print::units::{count, shown_uri};

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

/// Writes the rows of each file as soon as they are available.
pub(super) fn write(
    files: &mut dyn Iterator<Item = Vec<Row>>,
    (grouping, has_uris): (Grouping, bool),
    key: Option<SortKey>,
    sums: &RefCell<KernelSums>,
    mut text: Text<'_>,
) -> anyhow::Result<()> {
    let mut is_silent = true;
    for rows in files {
        is_silent &= rows.is_empty();
        let is_elsewhere = |row: &Row| rows.first().is_some_and(|first| place(first) != place(row));
        let place_column = match grouping {
            _ if has_uris => Where::Uri,
            Grouping::ByPlace => Where::Nowhere,
            Grouping::None if !rows.iter().any(is_elsewhere) => Where::Nowhere,
            Grouping::Column | Grouping::None => Where::File,
        };
        let is_one = |a: &Row, b: &Row| grouping != Grouping::ByPlace || place(a) == place(b);
        for rows in rows.chunk_by(is_one) {
            if let (Grouping::ByPlace, [first, ..]) = (grouping, rows) {
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

    fn number(&self, column: &NumberColumn) -> String {
        let text = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        match (self.old.map(column.of), self.new.map(column.of)) {
            (Some(old), Some(new)) => either(old, new, text),
            (old, new) => text(new.or(old).flatten()),
        }
    }

    /// Whether a flag was true, and is.
    fn flags(&self, flag: &FlagColumn) -> (bool, bool) {
        let is_true = |kernel: Option<&Kernel>| kernel.and_then(flag.of) == Some(true);
        (is_true(self.old), is_true(self.new))
    }

    fn flag(&self, flag: &FlagColumn) -> String {
        let no = if self.change.is_some() { "no" } else { "" };
        let text = |is_true: bool| if is_true { "yes" } else { no }.to_owned();
        let (old, new) = self.flags(flag);
        if self.change == Some(Change::Changed) { either(old, new, text) } else { text(old || new) }
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
    let differs = |column: &&NumberColumn| {
        let number = |kernel: Option<&Kernel>| kernel.and_then(column.of);
        rows().any(|row| number(row.old) != number(row.new))
    };
    let changes = |flag: &&FlagColumn| rows().any(|row| matches!(row.flags(flag), (was, is) if was != is));
    let numbers: Vec<&NumberColumn> = NUMBERS.iter().filter(differs).collect();
    let flags: Vec<&FlagColumn> = FLAGS.iter().filter(changes).collect();
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
    let number = |column: &'static NumberColumn| {
        let is_kept = matches!(kept, Some(SortKey::Numbers(first, _)) if first.title == column.title);
        let column = Column::number(column.title, |row: &Listed<'r>| row.number(column));
        if is_kept { Column { fit: Fit::Stays, ..column } } else { column }
    };
    let flag = |flag: &'static FlagColumn| Column {
        is_left_aligned: true,
        ..Column::number(flag.title, |row: &Listed<'r>| row.flag(flag))
    };
    let place = |row: &Listed<'r>| {
        places.get(&key(row)).map(|place| place.get(start..).unwrap_or(place).to_owned()).unwrap_or_default()
    };
    let mut columns = vec![
        Column::label("GPU", |row: &Listed<'r>| Cell::Bold(row.gpu.to_owned())),
        Column::label("", |row: &Listed<'r>| row.change().to_owned()),
    ];
    columns.extend(numbers.into_iter().map(number).chain(flags.into_iter().map(flag)));
    match place_column {
        Where::Nowhere => {}
        Where::File => columns.push(Column::name("FILE", place)),
        Where::Uri => columns.push(Column::label("URI", place)),
    }
    columns.push(Column::name("KERNEL", |row: &Listed<'r>| row.name.to_owned()));
    text.table(Table { indent, columns }, rows)
}
