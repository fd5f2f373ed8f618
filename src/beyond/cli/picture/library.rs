//! The libraries of a picture, with their names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::beyond::inventory::{Libraries, Library, SizesByGpu};
use crate::beyond::scan::Sizes;

use super::served::ServedFiles;
use crate::beyond::cli::print::names::{CommonParts, NameOfWheel, short_names};
use crate::beyond::cli::print::units::{bytes, count};

/// The largest number of libraries in a picture. All smaller libraries are merged into one entry.
const SHOWN_MAX: usize = 40;

/// The largest libraries, and the sum of all others, with the names that pictures, tables and pages show.
#[derive(Debug)]
pub(crate) struct PicturedLibraries {
    pub(crate) all: Libraries,
    /// The names to show, by the unique names of libraries.
    names: HashMap<String, LibraryName>,
    /// The parts that the names leave out, if there is only one package, or none.
    common: CommonParts,
    /// The files, with the number of their bundles that serve each GPU, if there are several.
    pub(super) served_files: Option<ServedFiles>,
}

/// The name of a library in two parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LibraryName {
    /// The short name of the package. Empty for a library that is a file itself, and if there is only one package.
    pub(crate) file: String,
    /// The part of the name that tells the library apart from others in the same package.
    pub(crate) library: String,
}

impl PicturedLibraries {
    /// Names the libraries, and merges all but the largest into one entry.
    pub(crate) fn new(mut all: Libraries) -> Self {
        let mut by_package: BTreeMap<Option<&str>, Vec<&Library>> = BTreeMap::new();
        for library in all.kept() {
            by_package.entry(library.package()).or_default().push(library);
        }
        let packages: Vec<&str> = by_package.keys().filter_map(|package| *package).collect();
        let mut file_names = short_names(&packages, NameOfWheel::Short);
        // Libraries that are files themselves count as one package here.
        let has_one_package = by_package.len() <= 1;
        if has_one_package {
            file_names.fill(String::new());
        }
        let mut file_by_package: HashMap<Option<&str>, String> = HashMap::new();
        file_by_package.extend(packages.into_iter().map(Some).zip(file_names));
        let (mut names, mut common) = (HashMap::new(), CommonParts::default());
        for (package, libraries) in by_package {
            let (labels, left_out) = labels(&libraries);
            if has_one_package {
                common = left_out;
            }
            let file = file_by_package.get(&package).cloned().unwrap_or_default();
            for (library, label) in libraries.into_iter().zip(labels) {
                names.insert(library.name.clone(), LibraryName { file: file.clone(), library: label });
            }
        }
        // The numbers of bundles count for all libraries, so they are computed before small ones are merged.
        let served_files = ServedFiles::new(&all);
        all.keep_largest(SHOWN_MAX);
        Self { all, names, common, served_files }
    }

    /// Returns the name of a library, or the whole text of the entry for the merged libraries, such as "5 more
    /// libraries".
    pub(super) fn name_of(&self, library: &Library) -> LibraryName {
        match self.names.get(&library.name) {
            Some(name) => name.clone(),
            None => LibraryName { library: library.name.clone(), ..LibraryName::default() },
        }
    }

    /// Returns the names of libraries, by the path of the file and the member that is the library.
    pub(crate) fn by_path(&self) -> HashMap<(String, Option<String>), LibraryName> {
        let mut names = HashMap::new();
        for library in self.all.kept() {
            if let Some(path) = library.path() {
                let key = (path.to_owned(), library.member().map(str::to_owned));
                names.insert(key, self.name_of(library));
            }
        }
        names
    }

    /// Returns the libraries of each package with their names, and last the entry for all libraries that are not shown,
    /// if there are any. Packages are in the order of their largest libraries.
    pub(super) fn by_file(&self) -> Vec<(String, Vec<(&Library, String)>)> {
        let mut files: Vec<(String, Vec<(&Library, String)>)> = Vec::new();
        for library in self.all.iter() {
            let LibraryName { file, library: name } = self.name_of(library);
            match files.iter_mut().find(|(known, _)| *known == file) {
                Some((_, libraries)) => libraries.push((library, name)),
                None => files.push((file, vec![(library, name)])),
            }
        }
        files
    }

    /// Returns the pattern of the libraries' names in the only package, with `*` for the part that is shown, or `None`
    /// if names are shown whole.
    pub(crate) fn pattern(&self) -> Option<String> {
        let pattern = self.common.pattern();
        // The part inside the parentheses is about the members of the package.
        let in_package = pattern.split_once('(').map_or(pattern.as_str(), |(_, member)| member.trim_end_matches(')'));
        if self.common.is_empty() || in_package == "*" { None } else { Some(in_package.to_owned()) }
    }

    /// Returns the stored size of all libraries.
    pub(crate) fn stored(&self) -> u64 {
        self.all.sizes().stored
    }

    /// Returns the heading about all libraries: their size, and the line below it with their numbers.
    pub(crate) fn summary(&self) -> [String; 2] {
        let (mut code_objects, mut targets) = (0, BTreeSet::new());
        for library in self.all.iter() {
            for (_, gpu, sizes) in sections(library) {
                code_objects += sizes.code_objects;
                // Code for the host counts among the code objects, but the host is not a target of device code.
                if gpu != "host" {
                    targets.insert(gpu);
                }
            }
        }
        let facts = format!(
            "{} for {} in {}",
            count(code_objects, "code object", "code objects"),
            count(targets.len(), "target", "targets"),
            count(self.all.len(), "library", "libraries")
        );
        [format!("{} of code objects", bytes(self.stored())), facts]
    }
}

/// Returns a label for each of some libraries, which are in the same package or are files themselves: its name without
/// the parts that all names have in common. Also returns these parts.
fn labels(libraries: &[&Library]) -> (Vec<String>, CommonParts) {
    let common = CommonParts::of(libraries.iter().map(|library| library.name.as_str()));
    let mut labels: Vec<String> =
        libraries.iter().map(|library| common.remove_from(&library.name).to_owned()).collect();
    drop_extensions(&mut labels);
    (labels, common)
}

/// Removes `.so` from the labels of several libraries, unless two of them would have the same label.
fn drop_extensions(labels: &mut [String]) {
    let short: HashSet<String> = labels.iter().map(|label| without_extension(label)).collect();
    if labels.len() > 1 && short.len() == labels.len() {
        for label in labels {
            *label = without_extension(label);
        }
    }
}

/// Returns a label without `.so`, unless nothing else would be left.
fn without_extension(label: &str) -> String {
    match label.strip_suffix(".so") {
        Some("") | None => label.to_owned(),
        Some(stem) => stem.to_owned(),
    }
}

/// Returns the sizes in a library, each with its section and GPU.
pub(crate) fn sections(library: &Library) -> impl Iterator<Item = (&String, &String, &Sizes)> {
    let sections = library.sections.iter();
    sections.flat_map(|(section, shares)| shares.iter().map(move |(gpu, sizes)| (section, gpu, sizes)))
}

/// Returns the sum of the stored sizes of all GPUs.
pub(super) fn stored_in_all(shares: &SizesByGpu) -> u64 {
    shares.values().copied().sum::<Sizes>().stored
}
