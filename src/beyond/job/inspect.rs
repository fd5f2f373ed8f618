//! Lists the device code of a file.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::NotRead;
use crate::base::bytes::{add, total};
use crate::base::codec::Codec;
use crate::base::display::printable_name;
use crate::base::error::{Error, Result};
use crate::base::io::input::Input;
use crate::beyond::runtime::Coverage;
use crate::beyond::scan::{
    BundleInfo, Checksums, CodeObject, Finding, Format, Found, Holders, Place, Scan, Sizes, Split, Step, member_of,
};
use crate::llvm::container::sequence::Inflate;

/// Lists the device code of a file, by its headers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspect {
    /// The search. How much it inflates and which checksums it compares is up to the job.
    pub scan: Scan,
    /// Whether everything is inflated, and all checksums are compared.
    pub inflate: bool,
}

/// The device code of a file. With the feature `serde`, it is serialized as `docs/inspect.schema.json` describes a
/// file.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Inspected {
    /// The path, as the caller gave it.
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub size: u64,
    /// The bundles, in file order.
    pub bundles: Vec<InspectedBundle>,
    /// The parts that are recognised but not read.
    pub unread: Vec<NotRead>,
    /// The references of split libraries to kpack archives.
    pub references: Vec<KpackReference>,
    /// The parts that could not be read, in file order.
    pub problems: Vec<Error>,
    coverage: HashMap<Vec<Step>, Coverage>,
    holders: Holders,
}

/// A bundle and its code objects.
#[derive(Debug)]
#[non_exhaustive]
pub struct InspectedBundle {
    /// What is known of it.
    pub info: Arc<BundleInfo>,
    /// Its code objects, in its order.
    pub code_objects: Vec<CodeObject>,
    /// The directory, if the bundle is a file that serves GPUs together with others there, as
    /// [`Coverage`] counts them.
    pub directory: Option<Place>,
}

/// A reference of a split library to the kpack archives with its device code.
#[derive(Debug)]
#[non_exhaustive]
pub struct KpackReference {
    /// The place of the reference.
    pub place: Place,
    /// The name of the library in the archives, safe to print on a terminal.
    pub kernel_name: String,
    /// The paths that it names, safe to print on a terminal.
    pub search_paths: Vec<String>,
    /// The archives that exist; none if they were not searched.
    pub archives: Option<Vec<PathBuf>>,
    /// The number of code objects in them that the library loads.
    pub code_objects: usize,
}

impl Inspect {
    /// Lists the device code of an open file.
    ///
    /// # Errors
    /// Those of [`Scan::run`]. What is broken in the file is a problem in the list, as is that the file has changed.
    pub fn run(&self, input: &Input) -> Result<Inspected> {
        let (inflate, checksums) = match self.inflate {
            true => (Inflate::Whole, Checksums::OfAll),
            false => (Inflate::Headers, Checksums::None),
        };
        let scan = Scan { inflate, checksums, ..self.scan.clone() };
        let mut inspected = Inspected::new(input);
        let visitor = &mut |finding: Finding<'_>| match finding {
            Finding::Broken { place, error } | Finding::Hidden { place, error } => {
                inspected.problems.push(error.at(place));
                Ok(())
            }
            finding => inspected.add(&finding),
        };
        match scan.run(input, visitor) {
            Ok(()) => inspected.problems.extend(input.ensure_unchanged().err()),
            Err(error) => input.vouch_for(Err(error))?,
        }
        inspected.finish();
        Ok(inspected)
    }
}

impl Inspected {
    /// A file, of which nothing is listed yet.
    pub(super) fn new(input: &Input) -> Self {
        Self { path: input.path().to_owned(), size: input.len(), ..Self::default() }
    }

    /// Adds what is found, except problems.
    pub(super) fn add(&mut self, finding: &Finding<'_>) -> Result<()> {
        match finding {
            Finding::Bundle(found) => {
                self.coverage.entry(container(found.format, found.place).to_vec()).or_default().add(found);
                self.bundles.push(InspectedBundle::new(found)?);
                self.holders.note(found.place);
            }
            Finding::Unread { place, offset, what } => {
                self.unread.push(NotRead { place: (*place).clone(), offset: *offset, what: *what });
            }
            Finding::Split { place, split } => {
                self.coverage.entry(place.steps().to_vec()).or_default().add_split(place, split);
                self.references.push(KpackReference::new(place, split));
            }
            Finding::Broken { .. } | Finding::Hidden { .. } | Finding::Trailing { .. } | Finding::Kpack { .. } => {}
        }
        Ok(())
    }

    /// Ends the list: only now it is known in which code objects others were found.
    pub(super) fn finish(&mut self) {
        for bundle in &mut self.bundles {
            bundle.code_objects.iter_mut().for_each(|code_object| self.holders.mark(code_object));
            let coverage = self.coverage.get(bundle.info.container());
            bundle.directory = coverage.and_then(Coverage::directory_of_file);
        }
    }

    /// In how many bundles of a container each GPU is served: that of a [bundle](BundleInfo::container), or the place
    /// of a [reference](Self::references).
    pub fn coverage_in(&self, container: &[Step]) -> Option<&Coverage> {
        self.coverage.get(container)
    }

    /// Whether nothing was found: neither code nor formats that are not read, and nothing that is broken.
    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty() && self.unread.is_empty() && self.references.is_empty() && self.problems.is_empty()
    }

    /// In how many bundles of the file each GPU is served.
    pub fn coverage(&self) -> Coverage {
        let mut all = Coverage::default();
        self.coverage.values().for_each(|coverage| all.merge(coverage));
        all
    }
}

impl InspectedBundle {
    fn new(found: &Found<'_>) -> Result<Self> {
        let info = found.info()?;
        let code_objects = found.code_objects().map(|code_object| code_object.known(&info)).collect();
        Ok(Self { info, code_objects, directory: None })
    }

    /// The stored size of all its code objects in bytes. In a compressed bundle it includes the header.
    pub fn stored(&self) -> u64 {
        match self.info.compressed {
            Some(_) => self.info.stored(),
            None => total(self.code_objects.iter().map(CodeObject::stored)),
        }
    }

    /// The number of its code objects, their inflated size and the [stored](Self::stored) one, as they
    /// [count](CodeObject::sizes) in sums.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        let mut is_whole = self.info.compressed.is_some();
        for code_object in &self.code_objects {
            let more = code_object.sizes();
            sizes.code_objects = sizes.code_objects.saturating_add(more.code_objects);
            add(&mut sizes.size, more.size);
            add(&mut sizes.stored, more.stored);
            is_whole &= !code_object.has_parts;
        }
        if is_whole {
            sizes.stored = self.stored();
        }
        sizes
    }

    /// The methods by which code objects are compressed on their own.
    pub fn codecs(&self) -> impl Iterator<Item = Codec> {
        self.code_objects.iter().filter_map(|code_object| Some(code_object.packed.as_ref()?.codec))
    }
}

impl BundleInfo {
    /// The steps to its container: in kpack archives, the last step to a bundle is the name of the bundle itself.
    pub fn container(&self) -> &[Step] {
        container(self.format, &self.place)
    }

    /// Returns the names of the members that its container is in, joined by slashes, or `None` without members.
    pub fn member(&self) -> Option<String> {
        member_of(self.container())
    }
}

fn container(format: Format, place: &Place) -> &[Step] {
    match (format, place.steps()) {
        (Format::Kpack, [container @ .., _]) => container,
        (_, steps) => steps,
    }
}

impl KpackReference {
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
