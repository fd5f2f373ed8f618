//! Which of several files serve a GPU: a column for each file in the table of GPUs or, if there is no room for columns,
//! a table of files after it.

use std::collections::HashMap;
use std::io;

use crate::beyond::inventory::{Libraries, ServedBundles};

use super::matrix::legend;
use super::products::write_names;
use crate::beyond::cli::picture::{ServedFile, ServedFiles};
use crate::beyond::cli::print::table::{GAP, columns_of};
use crate::beyond::cli::print::text::Text;
use crate::beyond::cli::print::units::count;

/// The least width of a column of a file, for words such as `10/12`.
const COLUMN_MIN: usize = 5;

/// The largest number of files in a table of their own. More files have no table here, but one with `--matrix`.
const LISTED_FILES_MAX: usize = 20;

/// The files with the GPUs that they serve.
pub(super) struct ByFile {
    served: ServedFiles,
    /// The number of bundles in each file that serve each GPU, by the name of the GPU. `None` if there is no room for a
    /// column for each file.
    columns: Option<HashMap<String, Vec<ServedBundles>>>,
}

impl ByFile {
    /// Returns the files, or `None` in the cases of [`ServedFiles::new`]. The files have columns only if all columns
    /// together, with the spaces before them, are not wider than `room`.
    pub(super) fn new(libraries: &Libraries, room: usize) -> Option<Self> {
        let served = ServedFiles::new(libraries)?;
        let widths = served.files.iter().map(|file| GAP + columns_of(&file.name).max(COLUMN_MIN));
        let mut columns = None;
        if widths.sum::<usize>() <= room {
            let mut by_gpu = HashMap::new();
            for (index, group) in served.groups.iter().enumerate() {
                for gpu in &group.gpus {
                    by_gpu.insert(gpu.name().to_owned(), served_by_file(&served.files, index));
                }
            }
            columns = Some(by_gpu);
        }
        Some(Self { served, columns })
    }

    /// Returns whether there is no room for columns, so that the files have a table of their own.
    pub(super) fn has_own_table(&self) -> bool {
        self.columns.is_none()
    }

    /// Returns the names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let files = if self.columns.is_some() { self.served.files.as_slice() } else { &[] };
        files.iter().map(|file| file.name.as_str())
    }

    /// Returns, for each column, the number of bundles of its file that serve a GPU. Returns nothing without columns.
    pub(super) fn served(&self, gpu: &str) -> Vec<ServedBundles> {
        let columns = self.columns.as_ref();
        columns.and_then(|by_gpu| by_gpu.get(gpu)).cloned().unwrap_or_default()
    }

    /// Returns the width of the columns.
    pub(super) fn width(&self) -> usize {
        self.names().map(|name| GAP + columns_of(name).max(COLUMN_MIN)).sum()
    }

    /// Writes the legend of the columns or, without columns, the table of files, unless there are too many.
    pub(super) fn write_rest(&self, text: &mut Text<'_>) -> io::Result<()> {
        let ServedFiles { groups, files } = &self.served;
        if self.columns.is_some() {
            return text.write_item(&legend(files.iter().flat_map(|file| &file.served)));
        }
        if files.len() > LISTED_FILES_MAX {
            return Ok(());
        }
        let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
        for file in files {
            let mut gpus = Vec::new();
            for (group, served) in groups.iter().zip(&file.served) {
                gpus.extend(described(*served).map(|note| group.label(text.style.range()) + &note));
            }
            rows.push((&file.name, gpus));
        }
        text.write_subheading(&count(files.len(), "file", "files"))?;
        let indent = 4;
        write_names(["FILE", "GPUS"], rows, indent, text)
    }
}

/// Returns the number of bundles of each file that serve the GPUs of the group with this index.
fn served_by_file(files: &[ServedFile], group: usize) -> Vec<ServedBundles> {
    files.iter().map(|file| file.served.get(group).copied().unwrap_or_default()).collect()
}

/// Returns the text after the GPUs that a file serves, which is empty if it serves them with machine code in all of its
/// bundles. Returns `None` if it does not serve them.
fn described(served: ServedBundles) -> Option<String> {
    match served {
        ServedBundles { serving: 0, .. } => None,
        served if !served.is_complete() => Some(format!(" ({}/{})", served.serving, served.bundles)),
        served if served.jit > 0 => Some(" (jit)".to_owned()),
        _ => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_the_gpus_that_it_serves_and_how() {
        let served = |serving, bundles, jit| ServedBundles { serving, bundles, jit };
        for (served, expected) in [
            (served(2, 2, 0), Some("")),
            (served(2, 2, 1), Some(" (jit)")),
            (served(1, 2, 1), Some(" (1/2)")),
            (served(0, 2, 0), None),
            (served(0, 0, 0), None),
        ] {
            assert_eq!(described(served).as_deref(), expected, "{served:?}");
        }
    }
}
