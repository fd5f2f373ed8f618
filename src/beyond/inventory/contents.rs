//! The device code of a file, as a model that does not need the file any more.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::groups::Groups;
use super::read::Reading;
use super::served::Coverage;
use super::unit::{Unit, Units};
use crate::base::bytes::{add, total};
use crate::base::display::printable_name;
use crate::base::error::{Error, Result};
use crate::base::io::input::{Input, Slice};
use crate::beyond::codec::Codec;
use crate::beyond::container::Rule;
use crate::beyond::scan::{
    BundleInfo, CodeObject, CodeObjectsWithParts, Finding, Format, FoundBundle, Place, Scan, Sizes, Split, Step,
    Unread, member_of,
};

/// The device code of a file. With the feature `serde`, it is serialized as a file in `docs/inspect.schema.json`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Contents {
    /// The path, as the caller gave it.
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub size: u64,
    /// The bundles, in file order.
    pub bundles: Vec<BundleContents>,
    /// The parts that are recognised but not read.
    pub unread: Vec<UnreadPart>,
    /// The references of split libraries to kpack archives.
    pub references: Vec<KpackReference>,
    /// The members of zip files with device code that have the same bytes as other members.
    pub copies: Vec<MemberCopies>,
    /// The parts that could not be read, in file order.
    pub problems: Vec<Error>,
    /// The groups of code that programs load together, in the order in which the groups end.
    pub(crate) units: Vec<Unit>,
    /// The code objects that have others inside.
    pub(crate) holders: CodeObjectsWithParts,
    /// Whether code objects of compressed bundles hold bundles or broken parts. A search that inflates only the
    /// beginnings of compressed bundles does not find all of these.
    pub(crate) has_nested: bool,
}

/// The findings of a file that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Code objects, units and parts that are not read.
    #[default]
    All,
    /// Units.
    Units,
    /// Nothing: the job itself keeps what it needs.
    Nothing,
}

/// A part of a file that could not be read, or other bytes after a bundle or package.
#[derive(Debug)]
pub(crate) struct BadPart {
    /// Its number among all findings of the file.
    pub(crate) number: usize,
    pub(crate) place: Place,
    pub(crate) fault: Bad,
}

/// The fault of a part of a file.
#[derive(Debug)]
pub(crate) enum Bad {
    /// The part begins like device code, or like a container of device code, but cannot be read.
    Broken(Error),
    /// The part may hold device code, but its names or tables are broken.
    Hidden(Error),
    /// Other bytes, at `offset` if it is known, follow the bundles of the part or, if `after` is set, the package with
    /// this name.
    Trailing { offset: Option<u64>, after: Option<&'static str> },
}

impl BadPart {
    pub(super) fn new(number: usize, place: &Place, fault: Bad) -> Self {
        Self { number, place: place.clone(), fault }
    }

    /// Returns the error for a part that could not be read, or `None` for trailing bytes.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self.fault {
            Bad::Broken(error) | Bad::Hidden(error) => Some(error.at(&self.place)),
            Bad::Trailing { .. } => None,
        }
    }
}

/// A part that is recognised but not read.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema), schemars(rename = "Unread"))]
#[non_exhaustive]
pub struct UnreadPart {
    /// The place.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub place: Place,
    /// Its offset from the start of the file, or from the start of the innermost inflated data, such as a deflated
    /// member of a zip file.
    pub offset: u64,
    /// The format.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub what: Unread,
}

/// A bundle and its code objects.
#[derive(Debug)]
#[non_exhaustive]
pub struct BundleContents {
    /// The properties of the bundle.
    pub info: Arc<BundleInfo>,
    /// The code objects of the bundle, in its order.
    pub code_objects: Vec<CodeObject>,
    /// The directory, if the bundle is a file that serves GPUs together with others there, as
    /// [`Coverage`] counts them.
    pub directory: Option<Arc<Place>>,
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

impl Contents {
    /// Searches an open file, and keeps what is found. Broken parts are problems, and so is a file that has changed.
    ///
    /// # Errors
    /// The errors of [`Scan::run`].
    pub fn read(input: &Input, scan: &Scan) -> Result<Self> {
        let read = Reading::new(scan, Keep::All).list(input);
        let contents = input.unless_changed(read)?;
        Ok(contents)
    }

    /// Returns the GPUs that each container of bundles serves, by the [steps](BundleInfo::container) to it.
    #[cfg(feature = "cli")]
    pub(crate) fn coverage_by_container(&self) -> HashMap<&[Step], Coverage> {
        let mut units: HashMap<&[Step], Vec<&Unit>> = HashMap::new();
        for unit in &self.units {
            units.entry(unit.at.place().steps()).or_default().push(unit);
        }
        units.into_iter().map(|(container, units)| (container, Coverage::of_library(units))).collect()
    }

    /// Returns the libraries of the file, in the order of their first finding. [`Place::library`] says which library a
    /// finding belongs to. Files that serve GPUs together with others of their directory are not among the libraries:
    /// [`files`](Self::files) returns them.
    pub(crate) fn libraries(&self) -> Vec<(Place, LibraryContents<'_>)> {
        let mut libraries: Groups<Place, LibraryContents<'_>> = Groups::default();
        for bundle in self.bundles.iter().filter(|bundle| bundle.directory.is_none()) {
            libraries.at(bundle.info.place.library()).bundles.push(bundle);
        }
        for unit in self.units.iter().filter(|unit| unit.directory.is_none()) {
            libraries.at(unit.library()).units.push(unit);
        }
        for reference in &self.references {
            libraries.at(reference.place.library()).references.push(reference);
        }
        libraries.into_vec()
    }

    /// Returns the files that serve GPUs together with others of their directory, each with the directory.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Arc<Place>, LibraryContents<'_>)> {
        // A file that has a directory has one bundle, and is one unit.
        let mut units: HashMap<&Place, &Unit> = HashMap::new();
        units.extend(self.units.iter().filter(|unit| unit.directory.is_some()).map(|unit| (unit.at.place(), unit)));
        self.bundles.iter().filter_map(move |bundle| {
            let directory = bundle.directory.as_ref()?;
            let mut file = LibraryContents { bundles: vec![bundle], ..LibraryContents::default() };
            file.units.extend(units.get(&bundle.info.place));
            Some((directory, file))
        })
    }

    /// Returns the number of libraries with code. A directory whose files serve GPUs together is one.
    pub(crate) fn libraries_with_code(&self) -> usize {
        // The boolean distinguishes a directory from a library at the same place.
        let libraries = self.bundles.iter().map(|bundle| match &bundle.directory {
            Some(directory) => (true, (**directory).clone()),
            None => (false, bundle.info.place.library()),
        });
        libraries.collect::<HashSet<(bool, Place)>>().len()
    }

    /// Returns whether nothing was found: no code, no formats that are not read, and no problems.
    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty() && self.unread.is_empty() && self.references.is_empty() && self.problems.is_empty()
    }

    /// Returns the number of bundles of the file that serve each GPU.
    pub fn coverage(&self) -> Coverage {
        let mut all = Coverage::default();
        for (_, library) in self.libraries() {
            all.merge(&library.coverage());
        }
        // Files that serve GPUs together with others of their directory are in none of the libraries above.
        all.merge(&Coverage::of_library(self.units.iter().filter(|unit| unit.directory.is_some())));
        all
    }
}

/// A library in a file.
#[derive(Debug, Default)]
pub(crate) struct LibraryContents<'c> {
    pub(crate) bundles: Vec<&'c BundleContents>,
    pub(crate) units: Vec<&'c Unit>,
    /// The references to kpack archives.
    pub(crate) references: Vec<&'c KpackReference>,
}

impl LibraryContents<'_> {
    /// Returns the number of bundles that serve each GPU.
    pub(crate) fn coverage(&self) -> Coverage {
        Coverage::of_library(self.units.iter().copied())
    }
}

/// The contents of a file while it is searched.
#[derive(Debug, Default)]
pub(super) struct ContentsBuilder {
    contents: Contents,
    keep: Keep,
    /// The number of findings so far, of all kinds.
    finding_count: usize,
    units: Units,
    /// The indices in `copies`, by the places of the first members.
    index_of_copies: HashMap<Place, usize>,
    /// The place of the last compressed bundle. Findings inside of its code objects follow it.
    last_compressed: Option<Place>,
}

impl ContentsBuilder {
    pub(super) fn new(data: Slice<'_>, keep: Keep) -> Self {
        let contents = Contents { path: data.path().to_owned(), size: data.len(), ..Contents::default() };
        Self { contents, keep, ..Self::default() }
    }

    /// Counts a finding of any kind, and returns its number, from 0 on. Also updates
    /// [`has_nested`](Contents::has_nested).
    pub(super) fn count(&mut self, finding: &Finding<'_>) -> usize {
        self.note_nested(finding);
        let number = self.finding_count;
        self.finding_count = number.saturating_add(1);
        number
    }

    /// Adds a bundle.
    ///
    /// # Errors
    /// The errors of [`FoundBundle::info`].
    pub(super) fn add_bundle(&mut self, found: &FoundBundle<'_>) -> Result<()> {
        if self.keep == Keep::All {
            self.contents.bundles.push(BundleContents::new(found)?);
        }
        if self.keep != Keep::Nothing {
            self.units.add(found);
        }
        // The code object around this bundle, if any, has others inside.
        self.contents.holders.note(found.place);
        Ok(())
    }

    /// Adds a split library.
    pub(super) fn add_split(&mut self, place: &Place, split: &Split<'_>) {
        if self.keep != Keep::Nothing {
            self.units.add_split(place, split);
        }
        if self.keep == Keep::All {
            self.contents.references.push(KpackReference::new(place, split));
        }
    }

    /// Keeps a part that is not read, or returns it if only [other findings](Keep) are kept.
    pub(super) fn keep_unread(&mut self, part: UnreadPart) -> Option<UnreadPart> {
        if self.keep != Keep::All {
            return Some(part);
        }
        self.contents.unread.push(part);
        None
    }

    /// Sets `has_nested` if a finding is a bundle or a broken part inside of a code object of a compressed bundle.
    fn note_nested(&mut self, finding: &Finding<'_>) {
        let (place, is_compressed) = match finding {
            Finding::Bundle(found) => (found.place, found.bundle.compressed.is_some()),
            Finding::Broken { place, .. } | Finding::Hidden { place, .. } => (*place, false),
            _ => return,
        };
        if self.last_compressed.as_ref().is_some_and(|outer| place.is_in_entry_at(outer)) {
            self.contents.has_nested = true;
        } else if is_compressed {
            self.last_compressed = Some(place.clone());
        }
    }

    pub(super) fn has_nested(&self) -> bool {
        self.contents.has_nested
    }

    /// Adds a copy of a member, with its inflated and its stored size.
    pub(super) fn add_copy(&mut self, place: &Place, first: &Place, (size, stored): (u64, u64)) {
        let all_copies = &mut self.contents.copies;
        let next_index = all_copies.len();
        let index = *self.index_of_copies.entry(first.clone()).or_insert(next_index);
        if index == next_index {
            all_copies.push(MemberCopies { first: first.clone(), copies: Vec::new(), size: 0, stored: 0 });
        }
        if let Some(copies) = all_copies.get_mut(index) {
            copies.copies.push(place.clone());
            add(&mut copies.size, size);
            add(&mut copies.stored, stored);
        }
    }

    /// Returns the contents. Called at the end of the search, because later findings decide which code objects have
    /// others inside, and which files serve GPUs alone.
    pub(super) fn finish(self) -> Contents {
        let Self { mut contents, units, .. } = self;
        contents.units = units.finish();
        let mut directory_by_file: HashMap<&Place, &Arc<Place>> = HashMap::new();
        for unit in &contents.units {
            if let Some(directory) = &unit.directory {
                directory_by_file.insert(unit.at.place(), directory);
            }
        }
        for bundle in &mut contents.bundles {
            for code_object in &mut bundle.code_objects {
                contents.holders.mark(code_object);
            }
            bundle.directory = directory_by_file.get(&bundle.info.place).map(|directory| Arc::clone(directory));
        }
        contents
    }
}

impl BundleContents {
    /// Keeps the properties of a found bundle. [`ContentsBuilder::finish`] sets the directory.
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
        let mut counts_whole_bundle = self.info.compressed.is_some();
        for code_object in &self.code_objects {
            let counted = code_object.sizes();
            sizes.code_objects = sizes.code_objects.saturating_add(counted.code_objects);
            add(&mut sizes.size, counted.size);
            add(&mut sizes.stored, counted.stored);
            counts_whole_bundle &= !code_object.has_parts;
        }
        if counts_whole_bundle {
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
    match place.steps() {
        [container @ .., _] if format.has(Rule::Archive) => container,
        steps => steps,
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
