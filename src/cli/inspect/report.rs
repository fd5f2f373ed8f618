//! The findings of `inspect` in a file, collected before they are printed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;

use offload_bundle::Result;
use offload_bundle::display::printable_name;
use offload_bundle::job::NotRead;
use offload_bundle::runtime::{Coverage, Device, Served};
use offload_bundle::scan::{CodeObject, Finding, Follow, Format, Found, Place, Scan, Split, Step};

use crate::cli::code_object::{Bundle, Entry, Target};
use crate::cli::files::{Origin, WorkFile};

/// The findings in one file.
#[derive(Debug)]
pub(super) struct FileReport {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    /// Its size in bytes.
    pub(super) size: u64,
    pub(super) bundles: Vec<Bundle>,
    /// Parts that are recognised but not read.
    pub(super) unread: Vec<NotRead>,
    /// The GPUs that its bundles serve, by the container of these bundles.
    pub(super) coverage: HashMap<Vec<Step>, Coverage>,
    /// References to kpack archives.
    pub(super) references: Vec<Reference>,
    pub(super) problems: Vec<String>,
}

/// A reference of a split library to the kpack archives with its device code.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) place: Place,
    /// The name of the library in the archives, safe to print on a terminal.
    pub(super) kernel_name: String,
    /// The paths that it names, safe to print on a terminal.
    pub(super) search_paths: Vec<String>,
    /// The archives that exist; none if they were not searched.
    pub(super) archives: Option<Vec<PathBuf>>,
    /// The number of code objects in them that the library loads.
    pub(super) code_objects: usize,
}

impl Reference {
    fn new(place: &Place, split: &Split<'_>) -> Self {
        let paths = split.archives.map(|archives| archives.iter().map(|followed| followed.path.clone()).collect());
        Self {
            place: place.clone(),
            kernel_name: printable_name(&split.reference.kernel_name),
            search_paths: split.reference.search_paths.iter().map(|path| printable_name(path)).collect(),
            archives: paths,
            code_objects: split.code_objects(),
        }
    }
}

impl FileReport {
    /// Scans a file.
    pub(super) fn new(file: WorkFile, scan: Scan, follow: Option<&Follow>) -> Result<Self> {
        let input = file.open(scan.limits)?;
        let (mut bundles, mut unread, mut references, mut problems) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut coverage = HashMap::new();
        let mut visit = |finding: Finding<'_>| {
            match finding {
                Finding::Bundle(found) => {
                    of_container(&mut coverage, container(found.format, found.place.steps())).add(&found);
                    bundles.push(bundle(&found)?);
                }
                Finding::Unread { place, offset, what } => {
                    unread.push(NotRead { place: place.clone(), offset, what });
                }
                Finding::Broken { place, error } | Finding::Hidden { place, error } => {
                    problems.push(error.at(place).to_string())
                }
                Finding::Split { place, split } => {
                    of_container(&mut coverage, place.steps()).add_split(place, &split);
                    references.push(Reference::new(place, &split));
                }
                _ => {}
            }
            Ok(())
        };
        scan.run_following(&input, follow, &mut visit)?;
        problems.extend(input.ensure_unchanged().err().map(|error| error.to_string()));
        let (path, origin, size) = (file.path, file.origin, input.len());
        Ok(Self { path, origin, size, bundles, unread, coverage, references, problems })
    }

    /// The GPUs that all of its bundles serve.
    pub(super) fn all_coverage(&self) -> Coverage {
        let mut all = Coverage::default();
        self.add_coverage(&mut all);
        all
    }

    /// Adds them to those of other files.
    pub(super) fn add_coverage(&self, all: &mut Coverage) {
        self.coverage.values().for_each(|coverage| all.merge(coverage));
    }

    /// The number of its findings.
    pub(super) fn weight(&self) -> usize {
        let code_objects = self.bundles.iter().map(|bundle| bundle.code_objects.len().saturating_add(1)).sum::<usize>();
        let others = self.unread.len().saturating_add(self.references.len()).saturating_add(self.problems.len());
        code_objects.saturating_add(others).saturating_add(1)
    }
}

/// Orders GPUs by what a reader needs to know: single ones first, of these the ones that most bundles do not serve.
pub(super) fn sort_by_need(gpus: &mut [(Device, Served)]) {
    gpus.sort_by_key(|(gpu, served)| (!gpu.is_one(), Reverse(served.missing())));
}

/// The steps to the container of a bundle: in kpack archives, the last step is the name of the bundle itself.
pub(super) fn container(format: Format, steps: &[Step]) -> &[Step] {
    match (format, steps) {
        (Format::Kpack, [container @ .., _]) => container,
        (_, steps) => steps,
    }
}

/// The coverage of the bundles in a container.
fn of_container<'c>(coverage: &'c mut HashMap<Vec<Step>, Coverage>, container: &[Step]) -> &'c mut Coverage {
    coverage.entry(container.to_vec()).or_default()
}

fn bundle(found: &Found<'_>) -> Result<Bundle> {
    let code_objects = found.code_objects().map(|code_object| entry(&code_object, found.format));
    let code_objects = code_objects.collect::<Result<Vec<Entry>>>()?;
    Ok(Bundle {
        place: found.place.clone().into(),
        format: found.format,
        index: found.index,
        range: found.bundle.range()?,
        compressed: found.bundle.compressed,
        size: code_objects.iter().map(|entry| entry.size).fold(0, u64::saturating_add),
        stored: code_objects.iter().map(Entry::stored).fold(0, u64::saturating_add),
        code_objects,
    })
}

fn entry(code_object: &CodeObject<'_>, format: Format) -> Result<Entry> {
    Ok(Entry {
        id: code_object.shown_id(),
        target: code_object.entry_id().map(|id| Target::new(&id, format)),
        content: code_object.kind(),
        size: code_object.size(),
        packed: code_object.packed().cloned(),
        source: code_object.shown_source(),
        range: code_object.range(),
        recorded_target: code_object.recorded_target(),
        uri: code_object.uri()?.map(|uri| uri.to_string()),
    })
}
