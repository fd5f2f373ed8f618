//! The data of pictures: the device code of each library, by section and GPU.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::{fmt, path};

use crate::beyond::inventory::{Contents, Coverage, LibraryContents, ServedBundles};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{Place, Sizes};

use crate::beyond::cli::gpus::{Targets, generation, short_target};
use crate::beyond::cli::print::names::{CommonParts, natural_order};
use crate::beyond::cli::print::table::common_directory;
use crate::beyond::cli::print::units::{bytes, count, sum};

/// The number of libraries that are kept while files are read, because a hostile file can have any number. All smaller
/// libraries are merged into one entry.
const LIBRARIES_MAX: usize = 10_000;

/// The number of libraries in a picture. All smaller libraries are merged into one entry.
const SHOWN_MAX: usize = 40;

/// The sizes of code objects by GPU, or `host`.
pub(super) type SizesByGpu = BTreeMap<String, Sizes>;

/// The device code of a file or of one of its members.
#[derive(Debug, Default)]
pub(crate) struct Library {
    /// The file, and in parentheses its member.
    pub(crate) name: String,
    /// The part of the name that tells the library apart from the others, for labels.
    pub(super) short: String,
    path: String,
    member: Option<String>,
    /// Whether this is the sum of the libraries that are not kept, and not a single library.
    pub(crate) is_rest: bool,
    /// Whether the library refers to kpack archives that were not searched.
    pub(crate) has_unsearched_archives: bool,
    /// Whether the library refers to kpack archives, and no archive was found.
    pub(crate) lacks_archives: bool,
    /// The sizes by section. The name is empty for code outside of sections.
    pub(crate) sections: BTreeMap<String, SizesByGpu>,
    coverage: Coverage,
}

/// The number of libraries that serve a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServingLibraries {
    /// The number of libraries with bundles for GPUs of the same vendor.
    pub(crate) all: usize,
    /// The number of libraries that serve the GPU with all their bundles.
    pub(crate) complete: usize,
    /// The number of libraries that serve the GPU with some bundles only.
    pub(crate) partial: usize,
}

impl ServingLibraries {
    /// Counts a library. `served` says how many of its bundles serve the GPU.
    fn add(&mut self, served: ServedBundles) {
        // The library has no code for GPUs of this vendor.
        if served.bundles == 0 {
            return;
        }
        self.all += 1;
        if served.is_complete() {
            self.complete += 1;
        } else if served.serving > 0 {
            self.partial += 1;
        }
    }
}

/// Writes the numbers as in `5 of 13` or, if only some bundles of 2 libraries serve the GPU, `5+2 of 13`.
impl fmt::Display for ServingLibraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partial {
            0 => write!(f, "{} of {}", self.complete, self.all),
            partial => write!(f, "{}+{partial} of {}", self.complete, self.all),
        }
    }
}

/// The libraries of several files. The largest ones are kept, and the others are only a sum.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    /// The kept libraries: the largest first, once [`sort_and_name`](Self::sort_and_name) was called.
    kept: Vec<Library>,
    /// Directories whose files serve GPUs together, by their places, with the number of files in each. Each directory
    /// becomes one library.
    directories: HashMap<String, (Library, usize)>,
    /// The sum of the libraries that are not kept.
    rest: Library,
    /// The number of libraries in `rest`.
    number_in_rest: usize,
    /// The bundles of all libraries.
    pub(super) coverage: Coverage,
    /// Whether [`sort_and_name`](Self::sort_and_name) was called.
    is_finished: bool,
    /// The parts that labels of libraries leave out.
    common: CommonParts,
}

impl Libraries {
    /// Adds the libraries in a file: the file itself, or files in it if it is a package.
    pub(crate) fn add(&mut self, file: &Contents) {
        let mut targets = Targets::default();
        for (place, contents) in file.libraries() {
            let library = Library::new(file, &place, &contents, &mut targets);
            self.coverage.merge(&library.coverage);
            self.kept.push(library);
            // Sorting after each library would take too long, so more libraries than the limit may be kept for a while.
            // `sort_and_name` keeps only the largest at the end.
            if self.kept.len() > 2 * LIBRARIES_MAX {
                self.keep_largest(LIBRARIES_MAX);
            }
        }
        for (directory, contents) in file.files() {
            let Some(bundle) = contents.bundles.first() else { continue };
            let library = Library::new(file, &bundle.info.place.library(), &contents, &mut targets);
            self.coverage.merge(&library.coverage);
            self.add_file(library, directory);
        }
    }

    /// Adds a file that serves GPUs together with the other files of its directory. If there are too many directories
    /// already, the file is added to the rest.
    fn add_file(&mut self, library: Library, directory: &Place) {
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
                // Until now, the entry had the name of its only file.
                if *files == 1 {
                    all.name_after_directory(directory);
                }
                *files += 1;
                all.merge(&library);
            }
        }
    }

    /// Sorts the libraries by size, and makes their names and labels unique. Labels lose the beginning and the end that
    /// all of them have in common. Call it after the last file. A second call does nothing, because labels would be
    /// shortened again.
    pub(crate) fn sort_and_name(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        // The order of a hash map is random, and libraries of the same size stay in this order.
        let mut directories: Vec<_> = std::mem::take(&mut self.directories).into_iter().collect();
        directories.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.kept.extend(directories.into_iter().map(|(_, (library, _))| library));
        self.keep_largest(LIBRARIES_MAX);
        make_unique(&mut self.kept, |library| &mut library.name, Library::path_and_member);
        make_unique(&mut self.kept, |library| &mut library.short, Library::whole_path);
        self.common = CommonParts::of(self.kept.iter().map(|library| library.short.as_str()));
        for library in &mut self.kept {
            library.short = self.common.remove_from(&library.short).to_owned();
        }
        self.drop_extensions();
    }

    /// Removes `.so` from the labels of several libraries, unless two of them would have the same label.
    fn drop_extensions(&mut self) {
        let labels: HashSet<String> = self.kept.iter().map(|library| without_extension(&library.short)).collect();
        if self.kept.len() > 1 && labels.len() == self.kept.len() {
            for library in &mut self.kept {
                library.short = without_extension(&library.short);
            }
        }
    }

    /// Keeps only the libraries that a picture shows, and merges the others.
    pub(crate) fn keep_shown(&mut self) {
        self.keep_largest(SHOWN_MAX);
    }

    /// Sorts the libraries by size, and merges all but the `most` largest ones.
    fn keep_largest(&mut self, most: usize) {
        self.kept.sort_by_cached_key(|library| Reverse(library.stored()));
        let others = self.kept.split_off(self.kept.len().min(most));
        for library in others.iter().rev() {
            self.add_to_rest(library);
        }
    }

    /// Adds a library to the sum of the libraries that are not kept. The name of the sum is their number.
    fn add_to_rest(&mut self, library: &Library) {
        self.number_in_rest += 1;
        self.rest.is_rest = true;
        self.rest.name = count(self.number_in_rest, "more library", "more libraries");
        self.rest.short.clone_from(&self.rest.name);
        self.rest.merge(library);
    }

    /// Returns the number of all libraries, also of libraries that are not kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len() + self.number_in_rest
    }

    /// Returns the kept libraries, and last the sum of the libraries that are not kept, if there are any.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Library> {
        let rest = if self.number_in_rest > 0 { Some(&self.rest) } else { None };
        self.kept.iter().chain(rest)
    }

    /// Returns the kept libraries in the natural order of their names, and last the sum of the libraries that are not
    /// kept.
    pub(crate) fn by_name(&self) -> Vec<&Library> {
        let mut libraries: Vec<&Library> = self.iter().collect();
        libraries
            .sort_by(|one, other| one.is_rest.cmp(&other.is_rest).then_with(|| natural_order(&one.name, &other.name)));
        libraries
    }

    /// Returns the pattern of the libraries' names with `*` for the part that is their label, or `None` if labels are
    /// whole names.
    pub(crate) fn pattern(&self) -> Option<String> {
        if self.common.is_empty() { None } else { Some(self.common.pattern()) }
    }

    /// Returns the sizes of each GPU in all libraries, without GPUs of size 0; largest first.
    pub(super) fn gpus(&self) -> Vec<(String, Sizes)> {
        let mut all = SizesByGpu::new();
        for library in self.iter() {
            for shares in library.sections.values() {
                merge(&mut all, shares);
            }
        }
        all.retain(|_, sizes| sizes.stored > 0);
        let mut gpus: Vec<(String, Sizes)> = all.into_iter().collect();
        gpus.sort_by_key(|(_, sizes)| Reverse(sizes.stored));
        gpus
    }

    /// Returns the stored size of all libraries.
    pub(crate) fn stored(&self) -> u64 {
        sum(self.iter().map(Library::sizes)).stored
    }

    /// Returns the heading about all libraries: their size, and the line below it with their numbers.
    pub(crate) fn summary(&self) -> [String; 2] {
        let (mut code_objects, mut targets) = (0, BTreeSet::new());
        for library in self.iter() {
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
            count(self.len(), "library", "libraries")
        );
        [format!("{} of code objects", bytes(self.stored())), facts]
    }

    /// Returns the coverage of the bundles of all libraries.
    pub(crate) fn all_coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Counts the libraries that serve each of some GPUs, or returns `None` if there are too many libraries or
    /// bundles to compare.
    pub(crate) fn serving(&self, gpus: &[Device]) -> Option<Vec<ServingLibraries>> {
        // The sum of the libraries that are not kept does not say how many of them serve a GPU.
        if self.number_in_rest > 0 {
            return None;
        }
        let mut numbers = vec![ServingLibraries::default(); gpus.len()];
        for library in self.iter() {
            if !library.has_bundles() {
                continue;
            }
            for (number, served) in numbers.iter_mut().zip(library.served(gpus)?) {
                number.add(served);
            }
        }
        Some(numbers)
    }

    /// Returns the GPUs that bundles have code for, by generation, or `None` if there are too many bundles to compare.
    pub(crate) fn served(&self) -> Option<Vec<(Device, ServedBundles)>> {
        let mut gpus = self.coverage.gpus()?;
        gpus.sort_by_cached_key(|(gpu, _)| generation(gpu.name()));
        Some(gpus)
    }
}

impl Library {
    /// Returns the library with these contents, at a place of a file.
    fn new<'f>(file: &Contents, place: &Place, contents: &LibraryContents<'f>, targets: &mut Targets<'f>) -> Self {
        let member = place.member();
        let short = file_name(&file.path);
        let (name, short) = match &member {
            Some(member) => (format!("{short}({member})"), member.rsplit('/').next().unwrap_or_default().to_owned()),
            None => (short.clone(), short),
        };
        let path = file.path.to_string_lossy().into_owned();
        let mut library = Self {
            name,
            short,
            path,
            member,
            // Archives are not searched with `--no-follow`, for example.
            has_unsearched_archives: contents.references.iter().any(|reference| reference.archives.is_none()),
            lacks_archives: contents.references.iter().any(|reference| reference.archives == Some(Vec::new())),
            coverage: contents.coverage(),
            ..Self::default()
        };
        for bundle in &contents.bundles {
            let shares = library.section(&bundle.info.place.section().unwrap_or_default());
            for code_object in &bundle.code_objects {
                // A bundle has an empty entry for a host without code. The contents of a container count in its place.
                if code_object.size == 0 || code_object.has_parts {
                    continue;
                }
                let target = short_target(targets.target_of(code_object));
                match shares.get_mut(target) {
                    Some(sizes) => *sizes += code_object.sizes(),
                    None => {
                        shares.insert(target.to_owned(), code_object.sizes());
                    }
                }
            }
        }
        library
    }

    /// Names the library after a directory, because it now has the code of all files there.
    fn name_after_directory(&mut self, directory: &Place) {
        let file = directory.file();
        match directory.member() {
            Some(member) => {
                let package = file_name(file);
                self.name = format!("{package}({member}/)");
                self.short = format!("{}/", last_name(&member));
                self.member = Some(format!("{member}/"));
            }
            None => {
                // The files are at the top of a package, which then is the file of the library, or in a directory on
                // disk.
                let path = file.to_string_lossy();
                let is_package = path == self.path;
                let end = if is_package { "" } else { "/" };
                self.name = format!("{}{end}", last_name(&path));
                self.short.clone_from(&self.name);
                self.path = format!("{path}{end}");
                self.member = None;
            }
        }
    }

    /// Adds the code of another library.
    fn merge(&mut self, library: &Self) {
        for (section, shares) in &library.sections {
            merge(self.section(section), shares);
        }
        self.coverage.merge(&library.coverage);
    }

    pub(crate) fn sizes(&self) -> Sizes {
        sum(self.sections.values().flat_map(SizesByGpu::values).copied())
    }

    /// Returns the stored size of all code of the library.
    pub(super) fn stored(&self) -> u64 {
        self.sizes().stored
    }

    fn section(&mut self, name: &str) -> &mut SizesByGpu {
        self.sections.entry(name.to_owned()).or_default()
    }

    /// Returns whether the library has bundles. A GPU may need code from each of them.
    pub(crate) fn has_bundles(&self) -> bool {
        self.bundles() > 0
    }

    /// Returns the number of bundles that serve each of these GPUs, or `None` if there are no bundles, or too many to
    /// compare.
    pub(crate) fn served(&self, gpus: &[Device]) -> Option<Vec<ServedBundles>> {
        if self.has_bundles() { self.coverage.served_each(gpus) } else { None }
    }

    /// Returns the path of the file or directory, or `None` for several libraries.
    pub(crate) fn path(&self) -> Option<&str> {
        if self.is_rest { None } else { Some(&self.path) }
    }

    pub(crate) fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// Returns the number of the library's bundles.
    pub(crate) fn bundles(&self) -> usize {
        self.coverage.bundles()
    }

    /// Returns the path of the package, archive or other file that the library is a member of, or `None` if the library
    /// is a file itself.
    pub(crate) fn package(&self) -> Option<&str> {
        if self.member.is_some() { Some(&self.path) } else { None }
    }

    /// Returns the path and the member for [`make_unique`], as `path(member)`. Only the path may lose directories.
    fn path_and_member(&self) -> (String, String) {
        let member = match &self.member {
            Some(member) => format!("({member})"),
            None => String::new(),
        };
        (self.path.clone(), member)
    }

    /// Returns the path and the member for [`make_unique`], as one path that may lose directories: `path/member`.
    fn whole_path(&self) -> (String, String) {
        let path = match &self.member {
            Some(member) => format!("{}/{member}", self.path),
            None => self.path.clone(),
        };
        (path, String::new())
    }
}

/// Returns the last name in a path, or the whole path if it has none, such as `..`.
pub(crate) fn file_name(path: &path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns a label without `.so`. A file of this name alone keeps it.
fn without_extension(label: &str) -> String {
    match label.strip_suffix(".so") {
        Some("") | None => label.to_owned(),
        Some(stem) => stem.to_owned(),
    }
}

/// Returns the last name in the path of a directory, such as `lib` for `opt/lib`. A `*` takes the place of a directory
/// that has the name of a GPU, and says too little alone: then the name before it is returned too (`hsa/*`).
fn last_name(directory: &str) -> &str {
    let named = directory.trim_end_matches(|c| c == '*' || path::is_separator(c));
    match named.rfind(path::is_separator) {
        Some(separator) => directory.get(separator.saturating_add(1)..).unwrap_or(directory),
        None => directory,
    }
}

/// Makes a text of libraries unique: the field that `text` returns, such as the name. Libraries with the same text get
/// their paths instead, without the directories that these paths have in common. `path` returns the path of a library,
/// and a text that follows it.
fn make_unique(
    libraries: &mut [Library],
    text: fn(&mut Library) -> &mut String,
    path: fn(&Library) -> (String, String),
) {
    let mut by_text: HashMap<String, Vec<&mut Library>> = HashMap::new();
    for library in libraries {
        by_text.entry(text(library).clone()).or_default().push(library);
    }
    for alike in by_text.into_values() {
        if alike.len() == 1 {
            continue;
        }
        let paths: Vec<(String, String)> = alike.iter().map(|library| path(library)).collect();
        let start = common_directory(paths.iter().map(|(path, _)| path.as_str()));
        for (library, (path, rest)) in alike.into_iter().zip(paths) {
            *text(library) = path.get(start..).unwrap_or_default().to_owned() + &rest;
        }
    }
}

/// Returns the sizes in a library, each with its section and GPU.
pub(crate) fn sections(library: &Library) -> impl Iterator<Item = (&String, &String, &Sizes)> {
    let sections = library.sections.iter();
    sections.flat_map(|(section, shares)| shares.iter().map(move |(gpu, sizes)| (section, gpu, sizes)))
}

fn merge(into: &mut SizesByGpu, shares: &SizesByGpu) {
    for (gpu, sizes) in shares {
        *into.entry(gpu.clone()).or_default() += *sizes;
    }
}

/// Returns the stored size of all GPUs.
pub(super) fn total(shares: &SizesByGpu) -> u64 {
    sum(shares.values().copied()).stored
}
