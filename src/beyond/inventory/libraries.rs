//! The libraries of several files, with their sizes and the GPUs that they serve.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::{fmt, path};

use super::code_for::{Targets, short_target};
use super::served::can_compare;
use super::{Contents, Coverage, LibraryContents, ServedBundles};
use crate::beyond::base::text::{common_directory, count, file_name, natural_order};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{Place, Sizes};

/// The sizes of code objects by GPU, or `host`.
pub type SizesByGpu = BTreeMap<String, Sizes>;

/// The device code of a library: a file, a file in a package, or the files of a directory that serve GPUs together.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Library {
    /// The name of the file, and in parentheses its member. If several libraries would have the same name, each has as
    /// much of its path as tells it apart. For the sum of the libraries that a picture does not show, their number.
    pub name: String,
    /// The path of the file or of the directory, with U+FFFD for bytes that are not UTF-8. A directory on disk ends in a
    /// slash.
    path: String,
    /// The member of the file. A directory ends in a slash.
    member: Option<String>,
    /// Whether this is a directory with files that serve GPUs together.
    is_directory: bool,
    /// Whether this is the sum of the libraries that a picture does not show, and not a single library.
    pub is_rest: bool,
    /// Whether the library refers to kpack archives that were not searched.
    pub has_unsearched_archives: bool,
    /// Whether the library refers to kpack archives, and no archive was found.
    pub lacks_archives: bool,
    /// The sizes by section. The name is empty for code outside of sections.
    pub sections: BTreeMap<String, SizesByGpu>,
    /// The GPUs that the bundles serve.
    pub coverage: Coverage,
}

/// The number of libraries that serve a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServingLibraries {
    /// The number of libraries with bundles for GPUs of the same vendor.
    pub all: usize,
    /// The number of libraries that serve the GPU with all their bundles.
    pub complete: usize,
    /// The number of libraries that serve the GPU with some bundles only.
    pub partial: usize,
    /// The number of libraries of both kinds that serve the GPU with code which is compiled when the program starts. 0
    /// if the name of the GPU says this already, as `compute_90` does.
    pub jit: usize,
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
        self.jit += usize::from(served.jit > 0);
    }
}

/// Writes the numbers as in `5 of 13` or, if only some bundles of 2 libraries serve the GPU, `5+2 of 13`. If some of
/// them need a compiler when the program starts, ` by JIT` or `, 3 by JIT` follows.
impl fmt::Display for ServingLibraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partial {
            0 => write!(f, "{} of {}", self.complete, self.all)?,
            partial => write!(f, "{}+{partial} of {}", self.complete, self.all)?,
        }
        match self.jit {
            0 => Ok(()),
            jit if jit == self.complete.saturating_add(self.partial) => f.write_str(" by JIT"),
            jit => write!(f, ", {jit} by JIT"),
        }
    }
}

/// The libraries of several files, largest first.
#[derive(Debug, Default)]
pub struct Libraries {
    kept: Vec<Library>,
    /// The sum of the libraries that are not kept: see [`keep_largest`](Self::keep_largest).
    rest: Library,
    /// The number of libraries in `rest`.
    number_in_rest: usize,
    coverage: Coverage,
}

/// The libraries of the files so far.
#[derive(Debug, Default)]
pub struct LibrariesBuilder {
    libraries: Libraries,
    /// Directories whose files serve GPUs together, by their places, with the number of files in each. Each directory
    /// becomes one library.
    directories: HashMap<String, (Library, usize)>,
}

impl LibrariesBuilder {
    /// Adds the libraries in a file: the file itself, or files in it if it is a package.
    pub fn add(&mut self, file: &Contents) {
        let mut targets = Targets::default();
        let libraries = &mut self.libraries;
        for (place, contents) in file.libraries() {
            let library = Library::new(file, &place, &contents, &mut targets);
            libraries.coverage.merge(&library.coverage);
            libraries.kept.push(library);
        }
        for (directory, contents) in file.files() {
            // `files` returns one bundle for each file.
            let Some(bundle) = contents.bundles.first() else { continue };
            let library = Library::new(file, &bundle.info.place.library(), &contents, &mut targets);
            self.libraries.coverage.merge(&library.coverage);
            self.add_file(library, directory);
        }
    }

    /// Adds a file that serves GPUs together with the other files of its directory.
    fn add_file(&mut self, library: Library, directory: &Place) {
        match self.directories.entry(directory.to_string()) {
            Entry::Vacant(free) => {
                free.insert((library, 1));
            }
            Entry::Occupied(known) => {
                let (sum, file_count) = known.into_mut();
                // Until now, the library was a single file.
                if *file_count == 1 {
                    sum.become_directory(directory);
                }
                *file_count += 1;
                sum.merge(&library);
            }
        }
    }

    /// Returns the libraries, largest first, with unique names.
    pub fn finish(self) -> Libraries {
        let Self { mut libraries, directories } = self;
        // The order of a hash map is random, and libraries of the same size stay in this order.
        let mut directories: Vec<_> = directories.into_iter().collect();
        directories.sort_by(|(one, _), (other, _)| one.cmp(other));
        libraries.kept.extend(directories.into_iter().map(|(_, (library, _))| library));
        libraries.kept.sort_by_cached_key(|library| Reverse(library.sizes().stored));
        let mut names: Vec<String> = libraries.kept.iter().map(Library::own_name).collect();
        make_unique(&mut names, &libraries.kept, Library::path_and_member);
        for (library, name) in libraries.kept.iter_mut().zip(names) {
            library.name = name;
        }
        libraries
    }
}

impl Libraries {
    /// Merges all but the `kept_count` largest libraries into a sum, whose name is their number.
    pub fn keep_largest(&mut self, kept_count: usize) {
        for library in self.kept.split_off(self.kept.len().min(kept_count)) {
            self.number_in_rest += 1;
            self.rest.merge(&library);
        }
        self.rest.is_rest = true;
        self.rest.name = count(self.number_in_rest, "more library", "more libraries");
    }

    /// Returns the number of all libraries, also of libraries that are not kept.
    pub fn len(&self) -> usize {
        self.kept.len() + self.number_in_rest
    }

    /// Returns whether there are no libraries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the kept libraries, largest first, and last the sum of the libraries that are not kept, if there are any.
    pub fn iter(&self) -> impl Iterator<Item = &Library> {
        let rest = if self.number_in_rest > 0 { Some(&self.rest) } else { None };
        self.kept.iter().chain(rest)
    }

    /// Returns the libraries that are not merged with others, largest first.
    pub fn kept(&self) -> &[Library] {
        &self.kept
    }

    /// Returns the kept libraries in the natural order of their names, and last the sum of the libraries that are not
    /// kept.
    pub fn by_name(&self) -> Vec<&Library> {
        let mut libraries: Vec<&Library> = self.iter().collect();
        libraries
            .sort_by(|one, other| one.is_rest.cmp(&other.is_rest).then_with(|| natural_order(&one.name, &other.name)));
        libraries
    }

    /// Returns the sizes of each GPU in all libraries.
    pub fn gpus(&self) -> SizesByGpu {
        let mut all = SizesByGpu::new();
        for library in self.iter() {
            for gpu_sizes in library.sections.values() {
                merge(&mut all, gpu_sizes);
            }
        }
        all
    }

    /// Returns the sizes of all libraries together.
    pub fn sizes(&self) -> Sizes {
        self.iter().map(Library::sizes).sum()
    }

    /// Returns the GPUs that the bundles of all libraries serve.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Returns whether each of this number of GPUs can be compared with each library in reasonable time.
    pub(crate) fn can_compare(&self, gpus: usize) -> bool {
        let costs = self.iter().map(|library| library.coverage.comparisons());
        can_compare(gpus, costs.fold(0, usize::saturating_add))
    }

    /// Counts the libraries that serve each of some GPUs, or returns `None` if there are too many libraries or
    /// bundles to compare.
    pub fn serving(&self, gpus: &[Device]) -> Option<Vec<ServingLibraries>> {
        if !self.can_compare(gpus.len()) {
            return None;
        }
        let mut counts = vec![ServingLibraries::default(); gpus.len()];
        for library in self.iter() {
            if !library.has_bundles() {
                continue;
            }
            for ((count, served), gpu) in counts.iter_mut().zip(library.served(gpus)?).zip(gpus) {
                count.add(served.without_implied_jit(gpu));
            }
        }
        Some(counts)
    }
}

impl Library {
    /// Returns the library with these contents, at a place of a file. It has no name yet.
    fn new<'f>(file: &Contents, place: &Place, contents: &LibraryContents<'f>, targets: &mut Targets<'f>) -> Self {
        let mut library = Self {
            path: file.path.to_string_lossy().into_owned(),
            member: place.member(),
            // Archives are not searched with `--no-follow`, for example.
            has_unsearched_archives: contents.references.iter().any(|reference| reference.archives.is_none()),
            lacks_archives: contents.references.iter().any(|reference| reference.archives == Some(Vec::new())),
            coverage: contents.coverage(),
            ..Self::default()
        };
        for bundle in &contents.bundles {
            let gpu_sizes = library.section(&bundle.info.place.section().unwrap_or_default());
            for code_object in &bundle.code_objects {
                // A bundle has an empty entry for a host without code. The contents of a container count in its place.
                if code_object.size == 0 || code_object.has_parts {
                    continue;
                }
                let target = short_target(targets.target_of(code_object));
                match gpu_sizes.get_mut(target) {
                    Some(sizes) => *sizes += code_object.sizes(),
                    None => {
                        gpu_sizes.insert(target.to_owned(), code_object.sizes());
                    }
                }
            }
        }
        library
    }

    /// Turns the library of one file into the library of its directory, which has the code of all files there.
    fn become_directory(&mut self, directory: &Place) {
        self.is_directory = true;
        self.member = directory.member().map(|member| format!("{member}/"));
        if self.member.is_none() {
            // The files are at the top of a package, which then is the file of the library, or in a directory on disk.
            let path = directory.file().to_string_lossy();
            if path != self.path {
                self.path = format!("{path}/");
            }
        }
    }

    /// Adds the code of another library.
    fn merge(&mut self, library: &Self) {
        for (section, gpu_sizes) in &library.sections {
            merge(self.section(section), gpu_sizes);
        }
        self.coverage.merge(&library.coverage);
    }

    /// Returns the sizes of all code of the library.
    pub fn sizes(&self) -> Sizes {
        self.sections.values().flat_map(SizesByGpu::values).copied().sum()
    }

    fn section(&mut self, name: &str) -> &mut SizesByGpu {
        self.sections.entry(name.to_owned()).or_default()
    }

    /// Returns whether the library has bundles. A GPU may need code from each of them.
    pub fn has_bundles(&self) -> bool {
        self.coverage.bundles() > 0
    }

    /// Returns the number of bundles that serve each of these GPUs, or `None` if there are no bundles, or too many to
    /// compare.
    pub fn served(&self, gpus: &[Device]) -> Option<Vec<ServedBundles>> {
        if self.has_bundles() { self.coverage.served_each(gpus) } else { None }
    }

    /// Returns the path of the file or directory, or `None` for several libraries.
    pub fn path(&self) -> Option<&str> {
        if self.is_rest { None } else { Some(&self.path) }
    }

    /// Returns the member of an archive or package that the library is, or the directory in it.
    pub fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// Returns the path of the package, archive or other file that the library is a member of, or `None` if the library
    /// is a file itself.
    pub fn package(&self) -> Option<&str> {
        if self.member.is_some() { Some(&self.path) } else { None }
    }

    /// Returns the name of the file, and in parentheses its member. Other libraries may have the same name.
    fn own_name(&self) -> String {
        match &self.member {
            Some(member) => format!("{}({member})", file_name(self.path.as_ref())),
            None => self.last_name(),
        }
    }

    /// Returns the last name in the path to the library: that of the file, the member or the directory.
    pub(crate) fn last_name(&self) -> String {
        match &self.member {
            Some(member) if self.is_directory => last_name_of_directory(member),
            Some(member) => member.rsplit('/').next().unwrap_or_default().to_owned(),
            None if self.is_directory => last_name_of_directory(&self.path),
            None => file_name(self.path.as_ref()),
        }
    }

    /// Returns the path and the member for [`make_unique`], as `path(member)`. Only the path may lose directories.
    fn path_and_member(&self) -> (String, String) {
        let member = match &self.member {
            Some(member) => format!("({member})"),
            None => String::new(),
        };
        (self.path.clone(), member)
    }
}

/// Returns the last name in the path of a directory, such as `lib/` for `opt/lib/`. A `*` takes the place of a directory
/// that has the name of a GPU, and says too little alone: then the name before it is returned too (`hsa/*/`).
fn last_name_of_directory(path: &str) -> String {
    let (directory, slash) = match path.strip_suffix('/') {
        Some(directory) => (directory, "/"),
        None => (path, ""),
    };
    let without_placeholders = directory.trim_end_matches(|c| c == '*' || path::is_separator(c));
    let name = match without_placeholders.rfind(path::is_separator) {
        Some(separator) => directory.get(separator.saturating_add(1)..).unwrap_or(directory),
        None => directory,
    };
    format!("{name}{slash}")
}

/// Makes texts of libraries unique, such as their names. Libraries with the same text get their paths instead, without
/// the directories that these paths have in common. `path` returns the path of a library, and a suffix, which is kept.
fn make_unique(texts: &mut [String], libraries: &[Library], path: fn(&Library) -> (String, String)) {
    let mut by_text: HashMap<String, Vec<(&mut String, &Library)>> = HashMap::new();
    for (text, library) in texts.iter_mut().zip(libraries) {
        by_text.entry(text.clone()).or_default().push((text, library));
    }
    for same_text in by_text.into_values() {
        if same_text.len() == 1 {
            continue;
        }
        let paths: Vec<(String, String)> = same_text.iter().map(|(_, library)| path(library)).collect();
        let common_len = common_directory(paths.iter().map(|(path, _)| path.as_str()));
        for ((text, _), (path, suffix)) in same_text.into_iter().zip(paths) {
            *text = path.get(common_len..).unwrap_or_default().to_owned() + &suffix;
        }
    }
}

/// Adds sizes of GPUs to others.
fn merge(into: &mut SizesByGpu, gpu_sizes: &SizesByGpu) {
    for (gpu, sizes) in gpu_sizes {
        *into.entry(gpu.clone()).or_default() += *sizes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::inventory::UnitRole;
    use crate::beyond::inventory::tests::unit;

    /// Returns the libraries of files with these units, each as its place and its targets.
    fn libraries(files: &[(&str, &[(&str, &str)])]) -> Libraries {
        let mut libraries = LibrariesBuilder::default();
        for (path, units) in files {
            let units = units.iter().map(|(name, targets)| unit(name, UnitRole::Whole, targets)).collect();
            libraries.add(&Contents { path: path.into(), units, ..Contents::default() });
        }
        libraries.finish()
    }

    #[test]
    fn names_of_libraries_are_unique_and_in_their_natural_order() {
        let libraries = libraries(&[
            ("x/a.so", &[("x/a.so", "gfx906")]),
            ("y/a.so", &[("y/a.so", "gfx906")]),
            ("w10.whl", &[("w10.whl(l/k.so)", "gfx906"), ("w10.whl(l/m.so)", "gfx906")]),
            ("w9.whl", &[("w9.whl(l/k.so)", "gfx906")]),
        ]);
        let names: Vec<&str> = libraries.by_name().into_iter().map(|library| library.name.as_str()).collect();
        assert_eq!(names, ["w9.whl(l/k.so)", "w10.whl(l/k.so)", "w10.whl(l/m.so)", "x/a.so", "y/a.so"]);
        let places: Vec<_> =
            libraries.by_name().into_iter().map(|library| (library.path(), library.member())).collect();
        assert_eq!(places[..2], [(Some("w9.whl"), Some("l/k.so")), (Some("w10.whl"), Some("l/k.so"))]);
        assert_eq!(places[3], (Some("x/a.so"), None));
    }

    #[test]
    fn libraries_serve_a_gpu_with_all_some_or_none_of_their_bundles() {
        let libraries = libraries(&[
            ("all", &[("all", "gfx906 gfx90a"), ("all", "gfx906")]),
            ("some", &[("some", "gfx906"), ("some", "gfx90a")]),
            ("none", &[("none", "gfx90a")]),
            ("other", &[("other", "sm_90")]),
        ]);
        let gpus = Device::parse_list("gfx906,gfx90a,sm_90,gfx1100").unwrap();
        let serving: Vec<String> = libraries.serving(&gpus).unwrap().iter().map(ServingLibraries::to_string).collect();
        assert_eq!(serving, ["1+1 of 3", "1+2 of 3", "1 of 1", "0 of 3"]);
        assert_eq!((libraries.len(), libraries.coverage().bundles()), (4, 6));
    }
}
