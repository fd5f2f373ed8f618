//! What pictures show: the device code of each library, by section and GPU.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use offload_bundle::job::{Inspected, InspectedBundle};
use offload_bundle::runtime::{Coverage, Device, Served};
use offload_bundle::scan::Sizes;

use crate::cli::gpus::generation;
use crate::cli::print::units::{bytes, count};

/// The number of libraries that are shown; the others share one place.
const LIBRARIES_MAX: usize = 40;

/// Sizes by GPU.
pub(super) type Shares = BTreeMap<String, Sizes>;

/// The device code of a file or of one of its members.
#[derive(Debug, Default)]
pub(in crate::cli) struct Library {
    /// The file, and in parentheses its member.
    pub(in crate::cli) name: String,
    /// Where there is room for little.
    pub(super) short: String,
    /// The sizes of each section, whose name is empty where there is none.
    pub(in crate::cli) sections: BTreeMap<String, Shares>,
    coverage: Coverage,
    stored: u64,
}

/// The libraries of several files, the largest first.
#[derive(Debug)]
pub(in crate::cli) struct Libraries {
    most: usize,
    largest: Vec<Library>,
    /// The others, and their number.
    rest: Library,
    others: usize,
    coverage: Coverage,
}

impl Default for Libraries {
    /// As many as a picture shows.
    fn default() -> Self {
        Self::of_the_largest(LIBRARIES_MAX)
    }
}

impl Libraries {
    /// Shows at most this number of libraries by themselves.
    pub(in crate::cli) fn of_the_largest(most: usize) -> Self {
        Self { most, largest: Vec::new(), rest: Library::default(), others: 0, coverage: Coverage::default() }
    }

    pub(in crate::cli) fn add(&mut self, file: &Inspected) {
        self.coverage.merge(&file.coverage());
        let mut by_member: BTreeMap<Option<String>, Vec<&InspectedBundle>> = BTreeMap::new();
        for bundle in &file.bundles {
            // What kpack archives have for single sources of a library belongs to the library.
            by_member.entry(bundle.info.member()).or_default().push(bundle);
        }
        let is_one = by_member.len() == 1;
        for (member, bundles) in by_member {
            self.add_library(Library::new(file, member, &bundles, is_one));
        }
    }

    fn add_library(&mut self, library: Library) {
        let index = self.largest.partition_point(|other| other.stored >= library.stored);
        self.largest.insert(index, library);
        if self.largest.len() > self.most {
            self.largest.pop().into_iter().for_each(|smallest| self.add_to_rest(&smallest));
        }
    }

    fn add_to_rest(&mut self, library: &Library) {
        self.others += 1;
        self.rest.name = count(self.others, "more library", "more libraries");
        self.rest.short.clone_from(&self.rest.name);
        library.sections.iter().for_each(|(section, shares)| merge(self.rest.section(section), shares));
        self.rest.coverage.merge(&library.coverage);
        self.rest.stored = self.rest.stored.saturating_add(library.stored);
    }

    /// The libraries that are shown.
    pub(in crate::cli) fn iter(&self) -> impl Iterator<Item = &Library> {
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
    pub(in crate::cli) fn stored(&self) -> u64 {
        self.iter().map(|library| library.stored).fold(0, u64::saturating_add)
    }

    /// What all of it is, in two sentences: of a heading, and of the line after it.
    pub(in crate::cli) fn summary(&self) -> [String; 2] {
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

    /// The bundles of all libraries.
    pub(super) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether there is something to compare.
    pub(in crate::cli) fn has_several_bundles(&self) -> bool {
        self.coverage.bundles() > 1
    }

    /// The GPUs that bundles have code for, by generation. None if there are too many bundles to
    /// compare.
    pub(in crate::cli) fn served(&self) -> Option<Vec<(Device, Served)>> {
        let mut gpus = self.coverage.gpus()?;
        gpus.sort_by_cached_key(|(gpu, _)| generation(gpu.name()));
        Some(gpus)
    }
}

impl Library {
    fn new(file: &Inspected, member: Option<String>, bundles: &[&InspectedBundle], is_one: bool) -> Self {
        let short = file.path.file_name().unwrap_or(file.path.as_os_str()).to_string_lossy().into_owned();
        let mut library = match member {
            Some(member) => {
                let last = member.rsplit('/').next().unwrap_or_default().to_owned();
                Self { name: format!("{short}({member})"), short: last, ..Self::default() }
            }
            None => Self { name: short.clone(), short, ..Self::default() },
        };
        let mut containers = HashSet::new();
        for bundle in bundles {
            let shares = library.section(&bundle.info.place.section().unwrap_or_default());
            for code_object in &bundle.code_objects {
                *shares.entry(code_object.target()).or_default() += code_object.sizes();
            }
            if !is_one && containers.insert(bundle.info.container()) {
                file.coverage_beside(&bundle.info).into_iter().for_each(|coverage| library.coverage.merge(coverage));
            }
        }
        if is_one {
            library.coverage = file.coverage();
        }
        library.stored = library.sections.values().map(total).fold(0, u64::saturating_add);
        library
    }

    fn section(&mut self, name: &str) -> &mut Shares {
        self.sections.entry(name.to_owned()).or_default()
    }

    /// In how many of its bundles each of these GPUs is served; none if it has no bundles, or too many to compare.
    pub(in crate::cli) fn served(&self, gpus: &[Device]) -> Option<Vec<Served>> {
        (self.coverage.bundles() > 0).then(|| self.coverage.of_each(gpus)).flatten()
    }
}

/// The sizes in a library, each with its section and GPU.
pub(in crate::cli) fn sections(library: &Library) -> impl Iterator<Item = (&String, &String, &Sizes)> {
    let sections = library.sections.iter();
    sections.flat_map(|(section, shares)| shares.iter().map(move |(gpu, sizes)| (section, gpu, sizes)))
}

fn merge(into: &mut Shares, shares: &Shares) {
    shares.iter().for_each(|(gpu, sizes)| *into.entry(gpu.clone()).or_default() += *sizes);
}

/// The stored size of all GPUs.
pub(super) fn total(shares: &Shares) -> u64 {
    shares.values().map(|sizes| sizes.stored).fold(0, u64::saturating_add)
}
