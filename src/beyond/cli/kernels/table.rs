//! The text report of `kernels`: a table for each place, or one table of the sorted kernels.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::beyond::code::kernels::Kernel;
use crate::beyond::job::{
    DiffChange, FLAGS, KernelColumn, KernelsReport, NUMBERS, NamedKernel, NotJudged, OtherCode, SortKey,
};
use crate::beyond::scan::{CodeObject, Place};

use crate::beyond::cli::print::table::{Cell, Column, Table, WhenNarrow, common_start};
use crate::beyond::cli::print::text::{Text, Tone};
use crate::beyond::cli::print::units::{CountsByKind, count, shown_uri};

/// The column of a table of kernels with their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceColumn {
    /// The table has no such column.
    None,
    /// The file and the members in it.
    File,
    /// The URI of the code object.
    Uri,
}

/// The space before each line of a table.
const INDENT: usize = 2;

/// The tables of kernels. Without a sort key, each place has a table with a heading. With a sort key, all rows come at
/// once and have one table, with a column of places unless all are in one section of the only file. With `has_uris`, a
/// column has the URIs of the code objects instead.
pub(super) struct KernelTables<'o> {
    /// The column by which the rows are sorted.
    key: Option<SortKey>,
    /// Whether only one file is read, so that a table need not name it.
    is_one_file: bool,
    has_uris: bool,
    text: Text<'o>,
    /// Whether no rows have been written yet.
    is_empty: bool,
    /// The line that is written if there are no rows at all.
    pub(super) text_without_rows: &'static str,
}

impl<'o> KernelTables<'o> {
    pub(super) fn new(key: Option<SortKey>, is_one_file: bool, has_uris: bool, text: Text<'o>) -> Self {
        Self { key, is_one_file, has_uris, text, is_empty: true, text_without_rows: "no kernels found" }
    }

    /// Writes the rows of a file, or all rows if they are sorted.
    pub(super) fn write(&mut self, rows: &[NamedKernel]) -> io::Result<()> {
        let Self { key, text, .. } = self;
        self.is_empty &= rows.is_empty();
        // Without sorting, the heading of each table names the place.
        let place_column = if self.has_uris {
            PlaceColumn::Uri
        } else if key.is_none() || self.is_one_file && are_in_file_itself(rows) {
            PlaceColumn::None
        } else {
            PlaceColumn::File
        };
        for rows in rows.chunk_by(|a, b| key.is_some() || place(a) == place(b)) {
            if let (None, [first, ..]) = (&key, rows) {
                text.write_heading(&place(first).to_string(), &format!(": {}", summary(rows)))?;
            }
            write_kernels(|| rows.iter().map(ListedKernel::new), place_column, *key, INDENT, text)?;
        }
        text.out.flush()
    }

    /// Writes the end of the report: code objects of kinds that the tables do not list, and kernels that a condition
    /// did not judge.
    pub(super) fn end(mut self, KernelsReport { others, not_judged, .. }: &KernelsReport) -> io::Result<()> {
        let text = &mut self.text;
        if self.is_empty {
            text.write_line(self.text_without_rows)?;
        }
        if !others.is_empty() {
            let kinds = others.iter().map(|OtherCode { image_kind, code_objects, .. }| (*image_kind, *code_objects));
            let kinds = CountsByKind(kinds.collect());
            text.write_line(&format!("code objects of other kinds, not listed: {kinds}"))?;
        }
        for NotJudged { condition, kernels, of, .. } in not_judged {
            let all = count(*of, "kernel", "kernels");
            let line = format!("not judged by '{condition}': {kernels} of {all}, whose code does not record it");
            text.write_line(&line)?;
        }
        Ok(())
    }
}

fn place(row: &NamedKernel) -> &Place {
    &row.code.code_object.bundle.place
}

/// Returns whether all kernels are in one section of their file, or outside of sections, and not in members of the
/// file.
fn are_in_file_itself(rows: &[NamedKernel]) -> bool {
    let [first, others @ ..] = rows else { return true };
    place(first).member().is_none() && others.iter().all(|other| place(other) == place(first))
}

/// Returns a text with the number of kernels, and the number of code objects that define them.
fn summary(rows: &[NamedKernel]) -> String {
    let code_objects = rows.chunk_by(|a, b| Arc::ptr_eq(&a.code, &b.code)).count();
    format!("{} in {}", count(rows.len(), "kernel", "kernels"), count(code_objects, "code object", "code objects"))
}

/// The columns whose numbers are best 0: registers that spill, and the memory for them.
const SPILLS: [&str; 3] = ["VSPILL", "SSPILL", "SCRATCH"];

/// The columns whose numbers are not better if they are smaller.
const NEUTRAL: [&str; 2] = ["KERNARG", "GROUP"];

/// A row of a table: a kernel or, if two files are compared, the old and the new kernel.
#[derive(Clone, Copy)]
pub(crate) struct ListedKernel<'r> {
    pub(crate) gpu: &'r str,
    pub(crate) code_object: &'r CodeObject,
    /// The text of [`PlaceColumn::File`], or `None` for the whole place of the code object.
    pub(crate) place: Option<&'r str>,
    pub(crate) name: &'r str,
    /// The kind of difference, if two files are compared.
    pub(crate) change: Option<DiffChange>,
    pub(crate) old: Option<&'r Kernel>,
    pub(crate) new: Option<&'r Kernel>,
}

impl<'r> ListedKernel<'r> {
    fn new(NamedKernel { code, name, kernel, .. }: &'r NamedKernel) -> Self {
        let (gpu, code_object) = (&code.gpu, &code.code_object);
        Self { gpu, code_object, place: None, name, change: None, old: None, new: Some(kernel) }
    }

    /// Returns the text of a number: both numbers if they differ between the old and the new kernel.
    fn text(&self, column: &KernelColumn) -> String {
        match (self.old.map(column.number), self.new.map(column.number)) {
            (Some(old), Some(new)) => old_to_new(old, new, |number| self.number_text(column, number)),
            // Only one of the files has the kernel.
            (old, new) => self.number_text(column, new.or(old).flatten()),
        }
    }

    /// Returns the cell with a number. Numbers that grew, spills and scratch memory have the colour of caution, because
    /// they cost time. Numbers that became smaller have the colour of an improvement.
    fn cell(&self, column: &KernelColumn) -> Cell {
        let [old, new] = [self.old, self.new].map(|kernel| kernel.and_then(|kernel| (column.number)(kernel)));
        let text = self.text(column);
        let is_compared = self.old.is_some() && self.new.is_some();
        let costs_time = if is_compared { new > old } else { SPILLS.contains(&column.title) && new > Some(0) };
        if column.is_flag || self.new.is_none() || NEUTRAL.contains(&column.title) {
            Cell::Text(text)
        } else if costs_time {
            Cell::Toned(Tone::Caution, text)
        } else if is_compared && new < old {
            Cell::Toned(Tone::Good, text)
        } else {
            Cell::Text(text)
        }
    }

    /// Returns the text of a number, or of a flag, which kernels record as a number too.
    fn number_text(&self, column: &KernelColumn, number: Option<u64>) -> String {
        match number {
            Some(_) if column.is_flag => "yes".to_owned(),
            Some(number) => number.to_string(),
            None if !column.is_flag => "-".to_owned(),
            // A comparison shows that the kernel had the flag in one file only; otherwise an empty cell is easier to
            // read.
            None if self.change.is_some() => "no".to_owned(),
            None => String::new(),
        }
    }

    /// Returns whether a column is in the table because of this row: the numbers of the old and the new kernel differ,
    /// or only one of these kernels exists and has a number.
    fn differs_in(&self, column: &KernelColumn) -> bool {
        column.number_of(self.old) != column.number_of(self.new)
    }

    /// Returns the word for a kernel that only one of the files has, or an empty text. The numbers of a changed kernel
    /// show the change.
    fn change(&self) -> &'static str {
        match self.change {
            None | Some(DiffChange::Changed) => "",
            Some(change) => change.name(),
        }
    }

    /// Returns a key for the text of [`place_text`](Self::place_text): the address of the object that has the place. It
    /// is quicker to look up than the place. Each code object has its own URI; other places belong to bundles.
    fn place_key(&self, column: PlaceColumn) -> usize {
        match (column, self.place) {
            (PlaceColumn::Uri, _) => std::ptr::from_ref(self.code_object).addr(),
            (_, Some(place)) => place.as_ptr().addr(),
            (_, None) => Arc::as_ptr(&self.code_object.bundle).addr(),
        }
    }

    /// Returns the text for a column of places or URIs.
    fn place_text(&self, column: PlaceColumn) -> String {
        match (column, self.place) {
            (PlaceColumn::Uri, _) => shown_uri(self.code_object),
            (_, Some(place)) => place.to_owned(),
            (_, None) => self.code_object.bundle.place.to_string(),
        }
    }
}

/// Returns the text of a number, or of the old and the new number if they differ.
pub(crate) fn old_to_new<N: Copy + PartialEq>(old: N, new: N, text: impl Fn(N) -> String) -> String {
    if old == new { text(new) } else { format!("{} -> {}", text(old), text(new)) }
}

/// Writes a table of kernels. Columns without a difference from the old file, or without any number if there is no old
/// file, are left out. The column that sorts the rows stays however narrow the terminal is. `rows` is called several
/// times, because the rows are not kept. `indent` is the space before each line.
pub(crate) fn write_kernels<'r, I: Iterator<Item = ListedKernel<'r>>>(
    rows: impl Fn() -> I,
    place_column: PlaceColumn,
    sort_key: Option<SortKey>,
    indent: usize,
    text: &mut Text<'_>,
) -> io::Result<()> {
    if rows().next().is_none() {
        return Ok(());
    }
    let mut places_by_key: HashMap<usize, String> = HashMap::new();
    if place_column != PlaceColumn::None {
        for row in rows() {
            places_by_key.entry(row.place_key(place_column)).or_insert_with(|| row.place_text(place_column));
        }
    }
    // The length in bytes of the start that the column leaves out. Rows of `diff` have the texts of their places, which
    // lack the common start already.
    let mut common_len = 0;
    if place_column == PlaceColumn::File && rows().all(|row| row.place.is_none()) {
        common_len = common_start(places_by_key.values().map(String::as_str), text.style);
    }
    let mut columns = vec![
        Column::label("GPU", |row: &ListedKernel<'r>| Cell::Bold(row.gpu.to_owned())),
        Column::label("", |row: &ListedKernel<'r>| row.change().to_owned()),
    ];
    for column in NUMBERS.iter().chain(&FLAGS) {
        if rows().any(|row| row.differs_in(column)) {
            columns.push(number_column(column, sort_key));
        }
    }
    let place = Column::name("FILE", |row: &ListedKernel<'r>| {
        let place = places_by_key.get(&row.place_key(place_column)).map(String::as_str).unwrap_or_default();
        place.get(common_len..).unwrap_or(place).to_owned()
    });
    match place_column {
        PlaceColumn::None => {}
        PlaceColumn::File => columns.push(place),
        PlaceColumn::Uri => columns.push(Column { title: "URI".into(), when_narrow: WhenNarrow::Stays, ..place }),
    }
    columns.push(Column::name("KERNEL", |row: &ListedKernel<'r>| row.name.to_owned()));
    text.write_table(Table { indent, columns }, rows)
}

/// Returns the column of a table for a number of kernels. A narrow terminal leaves it out, unless the rows are sorted
/// by this number.
fn number_column<'c, 'r: 'c>(column: &'static KernelColumn, sort_key: Option<SortKey>) -> Column<'c, ListedKernel<'r>> {
    let when_narrow = match sort_key {
        Some(key) if key.sorts_by(column) => WhenNarrow::Stays,
        _ => WhenNarrow::LeftOut(0),
    };
    let numbers = Column::number(column.title, |row: &ListedKernel<'r>| row.cell(column));
    Column { when_narrow, is_left_aligned: column.is_flag, ..numbers }
}
