//! The matrix of GPUs and libraries, with the number of bundles that serve each GPU.

use std::fmt::Write;

use crate::beyond::runtime::{Device, ServedBundles};

use super::library::{Libraries, Library};
use crate::beyond::cli::print::units::count;

/// The number of GPUs and of libraries that are shown.
const GPUS_MAX: usize = 60;
const LIBRARIES_MAX: usize = 30;

/// The number of bundles of each library that serve each GPU.
pub(crate) struct Matrix<'p> {
    gpus: Vec<(Device, ServedBundles)>,
    pub(super) columns: Vec<(&'p Library, Vec<ServedBundles>)>,
    /// A sentence about the contents.
    pub(crate) facts: String,
}

impl<'p> Matrix<'p> {
    /// Returns the matrix, or `None` if no library has bundles for GPUs, or if there are too many bundles to compare.
    pub(crate) fn new(libraries: &'p Libraries) -> Option<Self> {
        let mut gpus = libraries.served()?;
        if gpus.is_empty() {
            return None;
        }
        let complete = gpus.iter().filter(|(_, served)| served.is_complete()).count();
        let more_gpus = gpus.split_off(gpus.len().min(GPUS_MAX)).len();
        let devices: Vec<Device> = gpus.iter().map(|(gpu, _)| gpu.clone()).collect();
        let served = libraries.iter().filter_map(|library| Some((library, library.served(&devices)?)));
        let mut columns: Vec<(&Library, Vec<ServedBundles>)> = served.collect();
        // Libraries with gaps come first only where not all can be shown.
        if columns.len() > LIBRARIES_MAX {
            columns.sort_by_key(|(_, served)| served.iter().all(|served| served.is_complete()));
        }
        let more = columns.split_off(columns.len().min(LIBRARIES_MAX)).len();
        let mut facts = format!(
            "{}; {} served by all of them",
            count(libraries.coverage.bundles(), "bundle", "bundles"),
            count(complete, "GPU is", "GPUs are")
        );
        if more > 0 {
            let _ = write!(facts, "; {} not shown", count(more, "more library is", "more libraries are"));
        }
        if more_gpus > 0 {
            let _ = write!(facts, "; {} not shown", count(more_gpus, "more GPU is", "more GPUs are"));
        }
        Some(Self { gpus, columns, facts })
    }

    pub(crate) const TITLE: &'static str = "Bundles that serve each GPU";

    /// The rows of the matrix: each GPU with the numbers of each library.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Device, Vec<ServedBundles>)> {
        self.gpus.iter().enumerate().map(|(index, (gpu, _))| {
            let numbers = self.columns.iter().filter_map(|(_, served)| served.get(index).copied());
            (gpu, numbers.collect())
        })
    }
}
