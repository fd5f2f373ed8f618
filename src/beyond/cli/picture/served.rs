//! The table of libraries and GPUs: the number of bundles of each library that serve each GPU. `inspect --matrix`,
//! pictures and the page of `report` show it in the same order and with the same words.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::display::printable;
use crate::beyond::inventory::{Libraries, Library, ServedBundles};
use crate::beyond::runtime::{Device, GpuVendor};

use crate::beyond::base::text::file_name;
use crate::beyond::cli::gpus::{by_generation, family_of, label_of_family, some_products_of};
use crate::beyond::cli::print::names::{CommonParts, NameOfWheel, short_names};

/// The libraries and GPUs of several files, with the number of bundles that serve each GPU.
#[derive(Debug, Default)]
pub(crate) struct ServedTable<'l> {
    /// The libraries with bundles, in the natural order of their names.
    pub(crate) libraries: Vec<ServedLibrary<'l>>,
    /// The GPUs, by generation. GPUs of one family are a group if each library serves them alike.
    pub(crate) groups: Vec<GpuGroup>,
    /// The parts that the names of all libraries have in common.
    pub(crate) common: CommonParts,
    /// The number of GPUs that all bundles for GPUs of their vendor serve.
    pub(crate) complete_gpus: usize,
    /// The libraries that are not in the table, by the reason.
    pub(crate) left_out: BTreeMap<LeftOut, Vec<&'l Library>>,
}

/// A library in the table.
#[derive(Debug)]
pub(crate) struct ServedLibrary<'l> {
    pub(crate) library: &'l Library,
    /// The name without the parts that all have in common, safe to print.
    pub(crate) name: String,
    /// For each group, the number of bundles that serve its GPUs. It is the same for all GPUs of the group.
    pub(crate) served: Vec<ServedBundles>,
}

/// GPUs that each library serves alike.
#[derive(Debug)]
pub(crate) struct GpuGroup {
    pub(crate) gpus: Vec<Device>,
}

/// The reason why a library is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    WithoutBundle,
    NotSearched,
    ArchivesNotFound,
    WithoutGpus,
    TooManyToCompare,
}

impl LeftOut {
    /// Returns the reason why a library has no numbers in the table. If the table `has_no_gpus`, no bundle of any
    /// library has code for a GPU.
    fn of(library: &Library, has_no_gpus: bool) -> Self {
        if !library.has_bundles() {
            if library.has_unsearched_archives { Self::NotSearched } else { Self::WithoutBundle }
        } else if !has_no_gpus {
            // The library has bundles, and there are GPUs, so only the limit of comparisons can be the reason.
            Self::TooManyToCompare
        } else if library.lacks_archives {
            Self::ArchivesNotFound
        } else {
            Self::WithoutGpus
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::WithoutBundle => "code without a bundle",
            Self::NotSearched => "code in kpack archives that were not searched",
            Self::ArchivesNotFound => "kpack archives not found",
            Self::WithoutGpus => "no code for GPUs",
            Self::TooManyToCompare => "too many GPUs and bundles to compare",
        }
    }
}

impl GpuGroup {
    /// Returns the group of the GPUs with these indices.
    fn new(gpus: &[Device], indices: Vec<usize>) -> Self {
        Self { gpus: indices.into_iter().filter_map(|index| gpus.get(index).cloned()).collect() }
    }

    /// Names products that have the GPUs, in at most `room` characters.
    pub(crate) fn products(&self, room: usize) -> String {
        let names: Vec<&str> = self.gpus.iter().map(Device::name).collect();
        some_products_of(&names, room, "…")
    }

    /// Returns the names of the GPUs in short, such as `gfx1100…1103`. `range_mark` is written in a range.
    pub(crate) fn label(&self, range_mark: &str) -> String {
        let names: Vec<&str> = self.gpus.iter().map(Device::name).collect();
        label_of_family(&names, range_mark)
    }

    /// Returns the names of the GPUs in full.
    pub(crate) fn names(&self) -> String {
        self.gpus.iter().map(Device::name).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn vendor(&self) -> Option<GpuVendor> {
        Some(self.gpus.first()?.vendor())
    }
}

/// Returns the word for the number of bundles that serve a GPU. It is empty if the bundles are for other vendors' GPUs.
pub(crate) fn word_of(served: ServedBundles) -> String {
    match served {
        ServedBundles { bundles: 0, .. } => String::new(),
        ServedBundles { serving: 0, .. } => "-".to_owned(),
        served if served.is_complete() => if served.jit > 0 { "jit" } else { "all" }.to_owned(),
        ServedBundles { serving, bundles, .. } => format!("{serving}/{bundles}"),
    }
}

/// The packages, and the libraries that are files themselves, with the number of bundles that serve each GPU.
#[derive(Debug)]
pub(crate) struct ServedFiles {
    pub(crate) groups: Vec<GpuGroup>,
    /// The files, in the natural order of their names.
    pub(crate) files: Vec<ServedFile>,
}

/// A file with the number of its bundles that serve the GPUs of each group.
#[derive(Debug)]
pub(crate) struct ServedFile {
    /// The short name, safe to print.
    pub(crate) name: String,
    /// The whole name of the file, without directories and not escaped.
    pub(crate) file_name: String,
    /// For each group, the number of bundles that serve its GPUs.
    pub(crate) served: Vec<ServedBundles>,
}

impl ServedFiles {
    /// Returns the files, or `None` unless there are several, and a package among them. Returns `None` too if there are
    /// too many GPUs and bundles to compare.
    pub(crate) fn new(libraries: &Libraries) -> Option<Self> {
        // A single file, which is the usual case, is found before anything is compared.
        let packages: BTreeSet<&str> = libraries.iter().filter_map(Library::package).collect();
        let single_libraries = libraries.iter().filter(|library| library.package().is_none()).count();
        if packages.is_empty() || packages.len() + single_libraries < 2 {
            return None;
        }
        let table = ServedTable::new(libraries)?;
        let gpus = table.gpus();
        let one_library = 1;
        // A row for each file: its first library, and the sums over all its libraries.
        let mut rows: Vec<Row<'_>> = Vec::new();
        for library in &table.libraries {
            let (package, served_by_gpu) = (library.library.package(), table.served_by_gpu(library));
            match rows.iter_mut().find(|(first, _)| package.is_some() && first.package() == package) {
                Some((_, sums)) => {
                    sums.iter_mut().zip(served_by_gpu).for_each(|(sum, more)| sum.add(more, one_library))
                }
                None => rows.push((library.library, served_by_gpu)),
            }
        }
        let paths: Vec<&str> = rows.iter().map(|(library, _)| library.package().unwrap_or(&library.name)).collect();
        // The table has only files with code for GPUs in bundles, so fewer files may be left than above.
        if rows.len() < 2 || rows.iter().all(|(library, _)| library.package().is_none()) {
            return None;
        }
        let groups =
            groups_of_alike(&gpus, |one, other| rows.iter().all(|(_, served)| served.get(one) == served.get(other)));
        let mut files = Vec::new();
        for ((name, path), (_, served)) in short_names(&paths, NameOfWheel::Short).iter().zip(&paths).zip(&rows) {
            let served = groups.iter().filter_map(|group| served.get(*group.first()?).copied()).collect();
            files.push(ServedFile { name: printable(name), file_name: file_name(path.as_ref()), served });
        }
        Some(Self { groups: groups.into_iter().map(|group| GpuGroup::new(&gpus, group)).collect(), files })
    }
}

impl<'l> ServedTable<'l> {
    /// Returns the table, or `None` if there are too many GPUs and bundles to compare. The table has no rows if no
    /// bundle has code for a GPU.
    pub(crate) fn new(libraries: &'l Libraries) -> Option<Self> {
        let served = by_generation(libraries.coverage())?;
        let complete_gpus = served.iter().filter(|(_, served)| served.is_complete()).count();
        let mut gpus: Vec<Device> = served.into_iter().map(|(gpu, _)| gpu).collect();
        // PTX and SPIR-V, which are compiled when the program starts, come after the GPUs of their vendor.
        gpus.sort_by_key(|gpu| (gpu.vendor(), gpu.is_by_code()));
        if !libraries.can_compare(gpus.len()) {
            return None;
        }
        let mut rows: Vec<Row<'_>> = Vec::new();
        let mut left_out: BTreeMap<LeftOut, Vec<&Library>> = BTreeMap::new();
        let has_no_gpus = gpus.is_empty();
        for library in libraries.by_name() {
            let served = library.served(&gpus).map(|served| {
                let of_gpus = gpus.iter().zip(served);
                of_gpus.map(|(gpu, served)| served.without_implied_jit(gpu)).collect::<Vec<_>>()
            });
            match served {
                Some(served) if !has_no_gpus => rows.push((library, served)),
                _ => left_out.entry(LeftOut::of(library, has_no_gpus)).or_default().push(library),
            }
        }
        let mut table = Self::of_rows(&gpus, rows);
        (table.complete_gpus, table.left_out) = (complete_gpus, left_out);
        Some(table)
    }

    /// Groups GPUs that are served alike, and returns the table with these rows. It still lacks the complete GPUs and
    /// the libraries that are left out.
    fn of_rows(gpus: &[Device], rows: Vec<Row<'l>>) -> Self {
        // The sum of other libraries has a text such as "5 more libraries" in place of a name.
        let names = rows.iter().filter(|(library, _)| !library.is_rest).map(|(library, _)| library.name.as_str());
        let mut table = Self { common: CommonParts::of(names), ..Self::default() };
        let groups =
            groups_of_alike(gpus, |one, other| rows.iter().all(|(_, served)| served.get(one) == served.get(other)));
        for (library, served) in rows {
            let name = printable(table.common.remove_from(&library.name));
            // All GPUs of a group have the same numbers.
            let served = groups.iter().filter_map(|group| served.get(*group.first()?).copied()).collect();
            table.libraries.push(ServedLibrary { library, name, served });
        }
        for group in groups {
            table.groups.push(GpuGroup::new(gpus, group));
        }
        table
    }

    /// Returns the GPUs of all groups.
    fn gpus(&self) -> Vec<Device> {
        self.groups.iter().flat_map(|group| group.gpus.iter().cloned()).collect()
    }

    /// Returns the number of bundles of a library that serve each GPU, in the order of [`gpus`](Self::gpus).
    fn served_by_gpu(&self, library: &ServedLibrary<'_>) -> Vec<ServedBundles> {
        let of_groups = self.groups.iter().zip(&library.served);
        of_groups.flat_map(|(group, served)| group.gpus.iter().map(|_| *served)).collect()
    }

    /// Returns a table for each package, with the GPUs that its libraries serve, and one for the files that are
    /// libraries themselves, with the GPUs that these serve.
    pub(crate) fn split_by_package(&self) -> Vec<Self> {
        // GPUs are grouped anew in each table, because GPUs that differ in one package may be alike in another.
        let gpus = self.gpus();
        let mut by_package: BTreeMap<Option<&str>, Vec<Row<'l>>> = BTreeMap::new();
        for row in &self.libraries {
            by_package.entry(row.library.package()).or_default().push((row.library, self.served_by_gpu(row)));
        }
        let mut tables = Vec::new();
        for mut rows in by_package.into_values() {
            let is_served: Vec<bool> = (0..gpus.len()).map(|gpu| any_serves(&rows, gpu)).collect();
            for (_, served) in &mut rows {
                *served = selected(served, &is_served);
            }
            tables.push(Self::of_rows(&selected(&gpus, &is_served), rows));
        }
        tables
    }
}

/// A library, and for each GPU of a table the number of its bundles that serve the GPU.
type Row<'l> = (&'l Library, Vec<ServedBundles>);

/// Returns whether a bundle of any of the libraries serves the GPU with this index.
fn any_serves(rows: &[Row<'_>], gpu: usize) -> bool {
    rows.iter().filter_map(|(_, served)| served.get(gpu)).any(|served| served.serving > 0)
}

/// Returns clones of the items whose flags are set.
fn selected<T: Clone>(items: &[T], flags: &[bool]) -> Vec<T> {
    items.iter().zip(flags).filter(|(_, flag)| **flag).map(|(item, _)| item.clone()).collect()
}

/// Returns groups of GPUs, each as a list of indices: GPUs of one family that follow each other and are alike.
/// `are_alike` compares two GPUs by their indices.
fn groups_of_alike(gpus: &[Device], are_alike: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last_family = None;
    for (index, gpu) in gpus.iter().enumerate() {
        let family = family_of(gpu.name());
        let is_related = family.is_some() && family == last_family;
        last_family = family;
        match groups.last_mut() {
            // The first GPU has no previous one, so it is not related to any.
            Some(group) if is_related && are_alike(index, index.saturating_sub(1)) => group.push(index),
            _ => groups.push(vec![index]),
        }
    }
    groups
}
