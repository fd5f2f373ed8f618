//! What pictures show: the device code of each library, by section and GPU.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path;

use crate::beyond::job::{Inspected, InspectedBundle};
use crate::beyond::runtime::{Coverage, Device, Served};
use crate::beyond::scan::{Place, Sizes, Step};

use crate::beyond::cli::gpus::generation;
use crate::beyond::cli::print::table::common_directory;
use crate::beyond::cli::print::units::{bytes, count, sum};

/// The number of libraries that are known by themselves, unless a hostile file has more, and of those that a picture
/// shows; the others share one place.
const LIBRARIES_MAX: usize = 10_000;
const SHOWN_MAX: usize = 40;

/// Sizes by GPU.
pub(super) type Shares = BTreeMap<String, Sizes>;

/// The device code of a file or of one of its members.
#[derive(Debug, Default)]
pub(crate) struct Library {
    /// The file, and in parentheses its member.
    pub(crate) name: String,
    /// Where there is room for little.
    pub(super) short: String,
    path: String,
    member: Option<String>,
    /// Whether it refers to kpack archives that were not searched.
    pub(crate) is_apart: bool,
    /// Whether it refers to kpack archives of which none was found.
    pub(crate) is_lost: bool,
    /// The sizes of each section, whose name is empty where there is none.
    pub(crate) sections: BTreeMap<String, Shares>,
    coverage: Coverage,
}

/// The libraries of several files, the largest first.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    largest: Vec<Library>,
    /// Directories whose files serve GPUs together, by their places, with the number of files in each.
    directories: HashMap<String, (Library, usize)>,
    /// The others, and their number.
    rest: Library,
    others: usize,
    /// The bundles of all libraries.
    pub(super) coverage: Coverage,
}

impl Libraries {
    pub(crate) fn add(&mut self, file: &Inspected) {
        self.coverage.merge(&file.coverage());
        let mut by_member: BTreeMap<Option<String>, Parts<'_>> = BTreeMap::new();
        for bundle in &file.bundles {
            if let Some(directory) = &bundle.directory {
                self.add_file(file, bundle, directory);
                continue;
            }
            // What kpack archives have for single sources of a library belongs to the library.
            let parts = by_member.entry(bundle.info.member()).or_default();
            parts.bundles.push(bundle);
            parts.containers.insert(bundle.info.container());
        }
        for reference in &file.references {
            let parts = by_member.entry(reference.place.member()).or_default();
            parts.containers.insert(reference.place.steps());
            parts.is_apart |= reference.archives.is_none();
            parts.is_lost |= reference.archives.as_ref().is_some_and(Vec::is_empty);
        }
        for (member, parts) in by_member {
            self.largest.push(Library::new(file, member, &parts));
            // Sorting at every library would take time for each of them.
            if self.largest.len() > 2 * LIBRARIES_MAX {
                self.keep(LIBRARIES_MAX);
            }
        }
    }

    /// Adds a file that serves GPUs together with others of its directory.
    fn add_file(&mut self, file: &Inspected, bundle: &InspectedBundle, directory: &Place) {
        let mut parts = Parts::default();
        parts.bundles.push(bundle);
        parts.containers.insert(bundle.info.container());
        let library = Library::new(file, bundle.info.member(), &parts);
        let key = directory.to_string();
        if self.directories.len() >= LIBRARIES_MAX && !self.directories.contains_key(&key) {
            return self.add_to_rest(&library);
        }
        match self.directories.entry(key) {
            Entry::Vacant(free) => {
                free.insert((library, 1));
            }
            Entry::Occupied(known) => {
                let (all, files) = known.into_mut();
                if *files == 1 {
                    all.rename(directory);
                }
                *files += 1;
                all.merge(&library);
            }
        }
    }

    /// Sorts the libraries once all are known, and gives those of the same name the directories that tell them apart.
    pub(crate) fn finish(&mut self) {
        let mut directories: Vec<_> = std::mem::take(&mut self.directories).into_iter().collect();
        directories.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.largest.extend(directories.into_iter().map(|(_, (library, _))| library));
        self.keep(LIBRARIES_MAX);
        let member = |library: &Library| library.member.as_ref().map_or(String::new(), |member| format!("({member})"));
        let place = |library: &Library| match &library.member {
            Some(member) => format!("{}/{member}", library.path),
            None => library.path.clone(),
        };
        tell_apart(&mut self.largest, |library| &mut library.name, |library| (library.path.clone(), member(library)));
        tell_apart(&mut self.largest, |library| &mut library.short, |library| (place(library), String::new()));
    }

    /// Keeps as many libraries by themselves as a picture shows.
    pub(crate) fn keep_shown(&mut self) {
        self.keep(SHOWN_MAX);
    }

    fn keep(&mut self, most: usize) {
        self.largest.sort_by_cached_key(|library| Reverse(library.stored()));
        let others = self.largest.split_off(self.largest.len().min(most));
        others.iter().rev().for_each(|smallest| self.add_to_rest(smallest));
    }

    fn add_to_rest(&mut self, library: &Library) {
        self.others += 1;
        self.rest.name = count(self.others, "more library", "more libraries");
        self.rest.short.clone_from(&self.rest.name);
        self.rest.merge(library);
    }

    /// The libraries that are shown.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Library> {
        self.largest.iter().chain((self.others > 0).then_some(&self.rest))
    }

    /// The sizes of each GPU in all libraries, without those of size 0; largest first.
    pub(super) fn gpus(&self) -> Vec<(String, Sizes)> {
        let mut all = Shares::new();
        self.iter().flat_map(|library| library.sections.values()).for_each(|shares| merge(&mut all, shares));
        let mut gpus: Vec<(String, Sizes)> = all.into_iter().filter(|(_, sizes)| sizes.stored > 0).collect();
        gpus.sort_by_key(|(_, sizes)| Reverse(sizes.stored));
        gpus
    }

    /// The sum of all sizes.
    pub(crate) fn stored(&self) -> u64 {
        sum(self.iter().map(Library::sizes)).stored
    }

    /// What all of it is, in two sentences: of a heading, and of the line after it.
    pub(crate) fn summary(&self) -> [String; 2] {
        let shares = || self.iter().flat_map(|library| library.sections.values()).flatten();
        let code_objects = shares().map(|(_, sizes)| sizes.code_objects).sum();
        let targets: BTreeSet<&String> = shares().map(|(gpu, _)| gpu).filter(|gpu| *gpu != "host").collect();
        let facts = format!(
            "{} for {} in {}",
            count(code_objects, "code object", "code objects"),
            count(targets.len(), "target", "targets"),
            count(self.largest.len() + self.others, "library", "libraries")
        );
        [format!("{} of code objects", bytes(self.stored())), facts]
    }

    /// In how many bundles of all libraries each GPU is served.
    pub(crate) fn all_coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Returns the GPUs that bundles have code for, by generation, or `None` if there are too many bundles to compare.
    pub(crate) fn served(&self) -> Option<Vec<(Device, Served)>> {
        let mut gpus = self.coverage.gpus()?;
        gpus.sort_by_cached_key(|(gpu, _)| generation(gpu.name()));
        Some(gpus)
    }
}

impl Library {
    fn new(file: &Inspected, member: Option<String>, parts: &Parts<'_>) -> Self {
        let short = file.path.file_name().unwrap_or(file.path.as_os_str()).to_string_lossy().into_owned();
        let (name, short) = match &member {
            Some(member) => (format!("{short}({member})"), member.rsplit('/').next().unwrap_or_default().to_owned()),
            None => (short.clone(), short),
        };
        let path = file.path.to_string_lossy().into_owned();
        let mut library =
            Self { name, short, path, member, is_apart: parts.is_apart, is_lost: parts.is_lost, ..Self::default() };
        for bundle in &parts.bundles {
            let shares = library.section(&bundle.info.place.section().unwrap_or_default());
            // A bundle has an empty entry for a host without code.
            let counted =
                bundle.code_objects.iter().filter(|code_object| code_object.size > 0 && !code_object.has_parts);
            for code_object in counted {
                *shares.entry(code_object.target()).or_default() += code_object.sizes();
            }
        }
        let containers = parts.containers.iter().filter_map(|container| file.coverage_in(container));
        containers.for_each(|coverage| library.coverage.merge(coverage));
        library
    }

    /// Makes it the library of all files of a directory.
    fn rename(&mut self, directory: &Place) {
        let file = directory.file();
        match directory.member() {
            Some(member) => {
                let package = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
                self.name = format!("{package}({member}/)");
                self.short = format!("{}/", last_name(&member));
                self.member = Some(format!("{member}/"));
            }
            None => {
                // A package with files at its top, or a directory.
                let path = file.to_string_lossy();
                let end = if path == self.path { "" } else { "/" };
                self.name = format!("{}{end}", last_name(&path));
                self.short.clone_from(&self.name);
                self.path = format!("{path}{end}");
                self.member = None;
            }
        }
    }

    /// Adds the code of another library.
    fn merge(&mut self, library: &Self) {
        library.sections.iter().for_each(|(section, shares)| merge(self.section(section), shares));
        self.coverage.merge(&library.coverage);
    }

    fn sizes(&self) -> Sizes {
        sum(self.sections.values().flat_map(Shares::values).copied())
    }

    /// The stored size of all its code.
    pub(super) fn stored(&self) -> u64 {
        self.sizes().stored
    }

    fn section(&mut self, name: &str) -> &mut Shares {
        self.sections.entry(name.to_owned()).or_default()
    }

    /// Whether it has bundles, of which a GPU may need code.
    pub(crate) fn has_bundles(&self) -> bool {
        self.coverage.bundles() > 0
    }

    /// In how many of its bundles each of these GPUs is served; none if it has no bundles, or too many to compare.
    pub(crate) fn served(&self, gpus: &[Device]) -> Option<Vec<Served>> {
        self.has_bundles().then(|| self.coverage.of_each(gpus)).flatten()
    }
}

/// The last name in the path of a directory, with the one before it if it stands for names of GPUs (`hsa/*`).
fn last_name(directory: &str) -> &str {
    let named = directory.trim_end_matches(|c| c == '*' || path::is_separator(c));
    let start = named.rfind(path::is_separator).map_or(0, |at| at.saturating_add(1));
    directory.get(start..).unwrap_or(directory)
}

/// The parts of a file that are one library.
#[derive(Debug, Default)]
struct Parts<'f> {
    bundles: Vec<&'f InspectedBundle>,
    containers: HashSet<&'f [Step]>,
    is_apart: bool,
    is_lost: bool,
}

/// Replaces the texts of libraries that have the same by their places, without the directories that these have in
/// common, and by what follows the place.
fn tell_apart(
    libraries: &mut [Library],
    text: fn(&mut Library) -> &mut String,
    place: impl Fn(&Library) -> (String, String),
) {
    let mut by_text: HashMap<String, Vec<&mut Library>> = HashMap::new();
    for library in libraries {
        by_text.entry(text(library).clone()).or_default().push(library);
    }
    for alike in by_text.into_values().filter(|alike| alike.len() > 1) {
        let places: Vec<(String, String)> = alike.iter().map(|library| place(library)).collect();
        let start = common_directory(places.iter().map(|(place, _)| place.as_str()));
        for (library, (place, rest)) in alike.into_iter().zip(places) {
            *text(library) = place.get(start..).unwrap_or_default().to_owned() + &rest;
        }
    }
}

/// The sizes in a library, each with its section and GPU.
pub(crate) fn sections(library: &Library) -> impl Iterator<Item = (&String, &String, &Sizes)> {
    let sections = library.sections.iter();
    sections.flat_map(|(section, shares)| shares.iter().map(move |(gpu, sizes)| (section, gpu, sizes)))
}

fn merge(into: &mut Shares, shares: &Shares) {
    shares.iter().for_each(|(gpu, sizes)| *into.entry(gpu.clone()).or_default() += *sizes);
}

/// The stored size of all GPUs.
pub(super) fn total(shares: &Shares) -> u64 {
    sum(shares.values().copied()).stored
}
