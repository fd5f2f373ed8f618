//! The matrix of GPUs and libraries, with the number of bundles that serve each GPU.

use std::fmt::Write;

use crate::beyond::inventory::{Libraries, ServedBundles};

use super::served::{GpuGroup, ServedLibrary, ServedTable};
use crate::beyond::cli::print::units::count;

/// The number of groups of GPUs that are shown.
const DRAWN_GPUS_MAX: usize = 60;

/// The number of libraries that are shown.
const DRAWN_LIBRARIES_MAX: usize = 30;

/// The number of bundles of each library that serve each GPU.
pub(crate) struct Matrix<'p> {
    groups: Vec<GpuGroup>,
    pub(super) columns: Vec<ServedLibrary<'p>>,
    /// A sentence about the contents.
    pub(crate) facts: String,
}

impl<'p> Matrix<'p> {
    /// Returns the matrix, or `None` if no library has bundles for GPUs, or if there are too many bundles to compare.
    pub(crate) fn new(libraries: &'p Libraries) -> Option<Self> {
        let ServedTable { libraries: mut columns, mut groups, complete_gpus, other_gpus, .. } =
            ServedTable::new(libraries)?;
        if groups.is_empty() {
            return None;
        }
        let mut more_gpus = other_gpus;
        for group in groups.split_off(groups.len().min(DRAWN_GPUS_MAX)) {
            more_gpus += group.gpus.len();
        }
        // If not all libraries can be shown, libraries with gaps come first. Otherwise the order of names stays.
        if columns.len() > DRAWN_LIBRARIES_MAX {
            columns.sort_by_key(|library| library.served.iter().all(|served| served.is_complete()));
        }
        let more = columns.split_off(columns.len().min(DRAWN_LIBRARIES_MAX)).len();
        let mut facts = format!(
            "{}; {} served by all bundles for GPUs of their vendor",
            count(libraries.coverage().bundles(), "bundle", "bundles"),
            count(complete_gpus, "GPU is", "GPUs are")
        );
        if more > 0 {
            let _ = write!(facts, "; {} not shown", count(more, "more library is", "more libraries are"));
        }
        if more_gpus > 0 {
            let _ = write!(facts, "; {} not shown", count(more_gpus, "more GPU is", "more GPUs are"));
        }
        Some(Self { groups, columns, facts })
    }

    pub(crate) const TITLE: &'static str = "Bundles that serve each GPU";

    /// Returns the rows of the matrix: GPUs that all libraries serve alike, with the numbers of each library.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&GpuGroup, Vec<ServedBundles>)> {
        self.groups.iter().enumerate().map(|(index, group)| {
            let numbers = self.columns.iter().filter_map(|library| library.served.get(index).copied());
            (group, numbers.collect())
        })
    }
}
