//! Lists the device code of a file.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::UnreadPart;
use crate::base::bytes::{add, total};
use crate::base::display::printable_name;
use crate::base::error::{Error, Result};
use crate::base::io::input::Input;
use crate::beyond::codec::Codec;
use crate::beyond::runtime::Coverage;
use crate::beyond::scan::{
    BundleInfo, Checksums, CodeObject, CodeObjectsWithParts, Finding, Format, FoundBundle, Place, Scan, Sizes, Split,
    Step, member_of,
};
use crate::llvm::container::sequence::Inflate;

/// Lists the device code of a file, by its headers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspect {
    /// The options of the search. The job itself sets how much is inflated and which checksums are compared, whatever
    /// is set here.
    pub scan: Scan,
    /// Whether everything is inflated, and all checksums are compared.
    pub inflate: bool,
}

/// The device code of a file. With the feature `serde`, it is serialized as a file in `docs/inspect.schema.json`.
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
    pub unread: Vec<UnreadPart>,
    /// The references of split libraries to kpack archives.
    pub references: Vec<KpackReference>,
    /// The members of zip files with device code that have the same bytes as other members.
    pub copies: Vec<MemberCopies>,
    /// The indices in `copies`, by the places of the first members.
    index_of_copies: HashMap<Place, usize>,
    /// The parts that could not be read, in file order.
    pub problems: Vec<Error>,
    /// The GPUs that bundles serve, by the steps to the container of the bundles.
    coverage: HashMap<Vec<Step>, Coverage>,
    /// The code objects that have others inside.
    holders: CodeObjectsWithParts,
}

/// A bundle and its code objects.
#[derive(Debug)]
#[non_exhaustive]
pub struct InspectedBundle {
    /// The properties of the bundle.
    pub info: Arc<BundleInfo>,
    /// The code objects of the bundle, in its order.
    pub code_objects: Vec<CodeObject>,
    /// The directory, if the bundle is a file that serves GPUs together with others there, as
    /// [`Coverage`] counts them.
    pub directory: Option<Place>,
}

/// A member of a zip file with device code, and other members with the same bytes, such as links to a library that
/// became files in a wheel.
#[derive(Debug)]
#[non_exhaustive]
pub struct MemberCopies {
    /// The place of the first of these members.
    pub first: Place,
    /// The places of the others.
    pub copies: Vec<Place>,
    /// The inflated size of the copies together, in bytes.
    pub size: u64,
    /// The stored size of the copies together, in bytes.
    pub stored: u64,
}

/// A reference of a split library to the kpack archives with its device code.
#[derive(Debug)]
#[non_exhaustive]
pub struct KpackReference {
    /// The place of the reference.
    pub place: Place,
    /// The name of the library in the archives, safe to print on a terminal.
    pub kernel_name: String,
    /// The paths that the reference names, safe to print on a terminal.
    pub search_paths: Vec<String>,
    /// The archives that exist, or `None` if they were not searched.
    pub archives: Option<Vec<PathBuf>>,
    /// The number of code objects in them that the library loads.
    pub code_objects: usize,
}

impl Inspect {
    /// Lists the device code of an open file.
    ///
    /// # Errors
    /// The errors of [`Scan::run`]. Broken parts are problems in the list, and so is a file that has changed.
    pub fn run(&self, input: &Input) -> Result<Inspected> {
        let (inflate, checksums) =
            if self.inflate { (Inflate::Whole, Checksums::OfAll) } else { (Inflate::Headers, Checksums::None) };
        let scan = Scan { inflate, checksums, copies: true, ..self.scan.clone() };
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
            Err(error) => input.unless_changed(Err(error))?,
        }
        inspected.complete_bundles();
        Ok(inspected)
    }
}

impl Inspected {
    /// Creates an empty list for a file.
    pub(super) fn new(input: &Input) -> Self {
        Self { path: input.path().to_owned(), size: input.len(), ..Self::default() }
    }

    /// Adds a finding, except problems.
    pub(super) fn add(&mut self, finding: &Finding<'_>) -> Result<()> {
        match finding {
            Finding::Bundle(found) => {
                self.coverage.entry(container(found.format, found.place).to_vec()).or_default().add(found);
                self.bundles.push(InspectedBundle::new(found)?);
                // For `complete_bundles`: the code object around this bundle, if any, has others inside.
                self.holders.note(found.place);
            }
            Finding::Unread { place, offset, what } => {
                self.unread.push(UnreadPart { place: (*place).clone(), offset: *offset, what: *what });
            }
            Finding::Split { place, split } => {
                self.coverage.entry(place.steps().to_vec()).or_default().add_split(place, split);
                self.references.push(KpackReference::new(place, split));
            }
            Finding::Copy { place, first, size, stored } => self.add_copy(place, first, (*size, *stored)),
            // The callers list broken and hidden parts as problems. Trailing data is not listed, and the code objects
            // of a kpack archive were found as bundles before it.
            Finding::Broken { .. } | Finding::Hidden { .. } | Finding::Trailing { .. } | Finding::Kpack { .. } => {}
        }
        Ok(())
    }

    /// Adds a copy of a member, with its inflated and its stored size.
    fn add_copy(&mut self, place: &Place, first: &Place, (size, stored): (u64, u64)) {
        let next = self.copies.len();
        let index = *self.index_of_copies.entry(first.clone()).or_insert(next);
        if index == next {
            self.copies.push(MemberCopies { first: first.clone(), copies: Vec::new(), size: 0, stored: 0 });
        }
        if let Some(known) = self.copies.get_mut(index) {
            known.copies.push(place.clone());
            add(&mut known.size, size);
            add(&mut known.stored, stored);
        }
    }

    /// Marks the code objects that have others inside, and sets the directories of bundles. Both depend on findings
    /// that follow a bundle, so this is called at the end of the search.
    pub(super) fn complete_bundles(&mut self) {
        for bundle in &mut self.bundles {
            for code_object in &mut bundle.code_objects {
                self.holders.mark(code_object);
            }
            if let Some(coverage) = self.coverage.get(bundle.info.container()) {
                bundle.directory = coverage.directory_of_file();
            }
        }
    }

    /// Returns the number of bundles of a container that serve each GPU, or `None` if there is no such container.
    /// `container` has the steps to it: [`BundleInfo::container`] returns them for a bundle. For a split library, they
    /// are the steps of the place in its [reference](Self::references).
    pub fn coverage_in(&self, container: &[Step]) -> Option<&Coverage> {
        self.coverage.get(container)
    }

    /// Returns whether nothing was found: no code, no formats that are not read, and no problems.
    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty() && self.unread.is_empty() && self.references.is_empty() && self.problems.is_empty()
    }

    /// Returns the number of bundles of the file that serve each GPU.
    pub fn coverage(&self) -> Coverage {
        let mut all = Coverage::default();
        for coverage in self.coverage.values() {
            all.merge(coverage);
        }
        all
    }
}

impl InspectedBundle {
    /// Keeps the properties of a found bundle. [`Inspected::complete_bundles`] sets the directory.
    fn new(found: &FoundBundle<'_>) -> Result<Self> {
        let info = found.info()?;
        let code_objects = found.code_objects().map(|code_object| code_object.keep(&info)).collect();
        Ok(Self { info, code_objects, directory: None })
    }

    /// Returns the stored size of all code objects of the bundle in bytes. A compressed bundle counts with its header.
    pub fn stored(&self) -> u64 {
        match self.info.compressed {
            Some(_) => self.info.stored(),
            None => total(self.code_objects.iter().map(CodeObject::stored)),
        }
    }

    /// Returns the number, the inflated size and the stored size of the code objects, each [as it
    /// counts](CodeObject::sizes) in sums. The stored size of a compressed bundle is that of the [whole](Self::stored)
    /// bundle, unless one of its code objects has others inside. Then it is the sum over the listed code objects.
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

    /// Returns the compression methods of code objects that are compressed on their own.
    pub fn codecs(&self) -> impl Iterator<Item = Codec> {
        self.code_objects.iter().filter_map(|code_object| Some(code_object.packed.as_ref()?.codec))
    }
}

impl BundleInfo {
    /// Returns the steps to the container of the bundle. In kpack archives, this leaves out the last step to the
    /// bundle, which is its own name.
    pub fn container(&self) -> &[Step] {
        container(self.format, &self.place)
    }

    /// Returns the names of the members that the container is in, joined by slashes, or `None` without members.
    pub fn member(&self) -> Option<String> {
        member_of(self.container())
    }
}

/// Returns the steps to the container of a bundle: its place, without the last step in a kpack archive. That step is
/// the name of the bundle in the archive.
fn container(format: Format, place: &Place) -> &[Step] {
    match (format, place.steps()) {
        (Format::Kpack, [container @ .., _]) => container,
        (_, steps) => steps,
    }
}

impl KpackReference {
    fn new(place: &Place, split: &Split<'_>) -> Self {
        let archives = split.archives.map(|archives| archives.iter().map(|followed| followed.path.clone()).collect());
        Self {
            place: place.clone(),
            kernel_name: printable_name(&split.reference.kernel_name),
            search_paths: split.reference.search_paths.iter().map(|path| printable_name(path)).collect(),
            archives,
            code_objects: split.code_objects(),
        }
    }
}
