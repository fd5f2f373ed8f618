//! The libraries of a picture, with their labels.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

use crate::beyond::inventory::{Libraries, Library, SizesByGpu, make_unique};
use crate::beyond::scan::Sizes;

use crate::beyond::cli::print::names::CommonParts;
use crate::beyond::cli::print::units::{bytes, count};

/// The number of libraries in a picture. All smaller libraries are merged into one entry.
const SHOWN_MAX: usize = 40;

/// The largest libraries, and the sum of all others.
#[derive(Debug)]
pub(crate) struct PicturedLibraries {
    pub(crate) all: Libraries,
    /// The labels of the largest libraries, in their order: the part of each name that tells it apart from the others.
    labels: Vec<String>,
    /// The parts that labels leave out.
    common: CommonParts,
}

impl PicturedLibraries {
    pub(crate) fn new(mut all: Libraries) -> Self {
        let mut labels: Vec<String> = all.kept().iter().map(Library::last_name).collect();
        make_unique(&mut labels, all.kept(), Library::whole_path);
        // Labels lose the beginning and the end that all libraries have in common, also those that are not shown.
        let common = CommonParts::of(labels.iter().map(String::as_str));
        for label in &mut labels {
            *label = common.remove_from(label).to_owned();
        }
        drop_extensions(&mut labels);
        all.keep_largest(SHOWN_MAX);
        labels.truncate(SHOWN_MAX);
        Self { all, labels, common }
    }

    /// Returns the libraries with their labels, and last the sum of the libraries that are not shown, if there are any.
    pub(super) fn labelled(&self) -> impl Iterator<Item = (&Library, &str)> {
        // The sum has no label but its name.
        let labels = self.labels.iter().map(Some).chain([None]);
        self.all.iter().zip(labels).map(|(library, label)| (library, label.unwrap_or(&library.name).as_str()))
    }

    /// Returns the pattern of the libraries' names with `*` for the part that is their label, or `None` if labels are
    /// whole names.
    pub(crate) fn pattern(&self) -> Option<String> {
        if self.common.is_empty() { None } else { Some(self.common.pattern()) }
    }

    /// Returns the sizes of each GPU in all libraries, without GPUs of size 0; largest first.
    pub(super) fn gpus(&self) -> Vec<(String, Sizes)> {
        let mut gpus: Vec<(String, Sizes)> = self.all.gpus().into_iter().collect();
        gpus.retain(|(_, sizes)| sizes.stored > 0);
        gpus.sort_by_key(|(_, sizes)| Reverse(sizes.stored));
        gpus
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

/// Removes `.so` from the labels of several libraries, unless two of them would have the same label.
fn drop_extensions(labels: &mut [String]) {
    let short: HashSet<String> = labels.iter().map(|label| without_extension(label)).collect();
    if labels.len() > 1 && short.len() == labels.len() {
        for label in labels {
            *label = without_extension(label);
        }
    }
}

/// Returns a label without `.so`. A file of this name alone keeps it.
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

/// Returns the stored size of all GPUs.
pub(super) fn total(shares: &SizesByGpu) -> u64 {
    shares.values().copied().sum::<Sizes>().stored
}
