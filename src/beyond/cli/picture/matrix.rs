//! The matrices of GPUs with files and with libraries: the number of bundles that serve each GPU.

use std::fmt::Write;

use crate::beyond::inventory::ServedBundles;

use super::library::{LibraryName, PicturedLibraries};
use super::served::{GpuGroup, ServedTable};
use crate::beyond::cli::print::units::count;

/// The largest number of groups of GPUs that are shown.
const DRAWN_GPUS_MAX: usize = 60;

/// The largest number of columns that are shown.
const DRAWN_COLUMNS_MAX: usize = 30;

/// The heading of the first matrix.
const TITLE: &str = "Bundles that serve each GPU";

/// The number of bundles that serve each GPU, in each file or in each library.
pub(crate) struct Matrix<'p> {
    pub(crate) title: &'static str,
    /// A sentence about the contents.
    pub(crate) facts: String,
    pub(super) groups: &'p [GpuGroup],
    pub(super) columns: Vec<MatrixColumn>,
}

/// A file or a library.
#[derive(Debug)]
pub(super) struct MatrixColumn {
    pub(super) name: LibraryName,
    /// The whole name.
    pub(super) title: String,
    /// For each group of the matrix, the number of bundles that serve its GPUs.
    pub(super) served: Vec<ServedBundles>,
}

/// The libraries of the matrices, and the bundles of each library that serve each GPU.
pub(crate) struct Served<'p> {
    libraries: &'p PicturedLibraries,
    /// The table of libraries, or `None` if no bundle has code for a GPU, or if there are too many bundles to compare.
    table: Option<ServedTable<'p>>,
}

impl<'p> Served<'p> {
    pub(crate) fn new(libraries: &'p PicturedLibraries) -> Self {
        let table = ServedTable::new(&libraries.all).filter(|table| !table.groups.is_empty());
        Self { libraries, table }
    }

    /// Returns the matrix of files, if there are several, and the matrix of libraries.
    pub(crate) fn matrices(&self) -> Vec<Matrix<'_>> {
        let Some(table) = &self.table else { return Vec::new() };
        let facts = format!(
            "{}; {} served by all bundles for GPUs of their vendor",
            count(self.libraries.all.coverage().bundles(), "bundle", "bundles"),
            count(table.complete_gpus, "GPU is", "GPUs are")
        );
        let mut matrices = Vec::new();
        if let Some(served) = &self.libraries.served_files {
            let mut columns = Vec::new();
            for file in &served.files {
                let name = LibraryName { library: file.name.clone(), ..LibraryName::default() };
                columns.push(MatrixColumn { name, title: file.file_name.clone(), served: file.served.clone() });
            }
            matrices.push(Matrix { title: TITLE, facts: facts.clone(), groups: &served.groups, columns });
        }
        let mut columns = Vec::new();
        for library in &table.libraries {
            let name = self.libraries.name_of(library.library);
            columns.push(MatrixColumn { name, title: library.library.name.clone(), served: library.served.clone() });
        }
        // The facts about all bundles are those of the first matrix.
        let facts = if matrices.is_empty() { facts } else { count(columns.len(), "library", "libraries") };
        let title = if matrices.is_empty() { TITLE } else { "By library" };
        matrices.push(Matrix { title, facts, groups: &table.groups, columns });
        for matrix in &mut matrices {
            matrix.limit();
        }
        matrices
    }
}

impl Matrix<'_> {
    /// Leaves out columns and groups of GPUs if there are too many, and adds the numbers of columns and GPUs that are
    /// left out to the facts.
    fn limit(&mut self) {
        let more_columns = self.columns.len().saturating_sub(DRAWN_COLUMNS_MAX);
        if more_columns > 0 {
            // Complete columns are left out first. The others stay in the order of their names.
            let mut shown_indices: Vec<usize> = (0..self.columns.len()).collect();
            shown_indices.sort_by_key(|index| self.columns.get(*index).is_some_and(MatrixColumn::is_complete));
            shown_indices.truncate(DRAWN_COLUMNS_MAX);
            let mut indices = 0..;
            self.columns.retain(|_| indices.next().is_some_and(|index| shown_indices.contains(&index)));
            // Writing to a string does not fail.
            let _ = write!(self.facts, "; {} not shown", count(more_columns, "more column is", "more columns are"));
        }
        let (shown, others) = self.groups.split_at(self.groups.len().min(DRAWN_GPUS_MAX));
        self.groups = shown;
        let more_gpus = others.iter().map(|group| group.gpus.len()).sum::<usize>();
        if more_gpus > 0 {
            let _ = write!(self.facts, "; {} not shown", count(more_gpus, "more GPU is", "more GPUs are"));
        }
    }

    /// Returns the rows: GPUs that all columns serve alike, with the numbers of each column.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&GpuGroup, Vec<ServedBundles>)> {
        self.groups.iter().enumerate().map(|(index, group)| {
            let numbers = self.columns.iter().filter_map(|column| column.served.get(index).copied());
            (group, numbers.collect())
        })
    }
}

impl MatrixColumn {
    fn is_complete(&self) -> bool {
        self.served.iter().all(|served| served.is_complete())
    }
}
