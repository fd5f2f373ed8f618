//! The number of bundles that serve each GPU.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use super::code::{BundleCodes, Code, FoundCode, GpuVendor, UnfoundCode};
use super::device::Device;
use super::directory::{directory_of, is_loaded_file};
use super::needed::CodeUse;
use crate::base::id::OffloadKind;
use crate::beyond::container::Rule;
use crate::beyond::container::kpack;
use crate::beyond::scan::{Format, FoundBundle, Place, Split};

/// The largest number of comparisons of a GPU with a code object of a [`CodeSet`]. Hostile files can have any number of
/// both. Tests have smaller limits, so that they reach them quickly.
const COMPARISONS_MAX: usize = if cfg!(test) { 40_000 } else { 4_000_000 };

/// The largest number of different [`CodeSet`]s, and of directories, that are counted.
const CODE_SETS_MAX: usize = if cfg!(test) { 2500 } else { 250_000 };

/// The position of code in kpack archives, which a search of the library does not number. Nothing reads it.
const NO_POSITION: usize = 0;

/// The bundles of a file, or of several, by the GPUs that they serve.
///
/// Offload binaries at one place count as one bundle, one for each source file and offload kind. All code in kpack
/// archives that one wrapper of a library loads counts as one too. Files of a directory that are code objects, bundles
/// or fatbins themselves count as one together: a program loads those for its GPU. Other code objects without a bundle,
/// device images of SYCL, and relocatable CUDA code in a file with linked code are not counted: each of them need not
/// serve every GPU.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The number of bundles with each set of code. Most bundles of a library have code for the same GPUs.
    bundles: BTreeMap<CodeSet, usize>,
    /// The files of each directory.
    directories: HashMap<Place, FileSet>,
    /// The units that are not complete, because the next bundles of the search may belong to them.
    units: LoadUnits,
    /// Whether there are more different sets of code than the limit.
    has_too_many_sets: bool,
}

/// The code of a bundle, which other bundles may have too, and the vendors of the GPUs that it has entries for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeSet {
    pub(crate) vendors: BTreeSet<GpuVendor>,
    pub(crate) codes: BTreeSet<Code>,
    /// Code in the bundle that a runtime does not find.
    pub(crate) unfound: BTreeSet<UnfoundCode>,
}

impl CodeSet {
    /// Returns whether the bundle should serve a GPU: it has entries for GPUs of the same vendor, or no entries for
    /// any.
    pub(crate) fn is_for(&self, device: &Device) -> bool {
        self.vendors.is_empty() || self.vendors.contains(&device.vendor())
    }

    /// Adds the code of another bundle.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.vendors.extend(&other.vendors);
        insert_new(&mut self.codes, &other.codes);
        insert_new(&mut self.unfound, &other.unfound);
    }
}

/// Adds clones of the items that a set does not have yet. `BTreeSet::extend` would clone all of them.
fn insert_new<T: Clone + Ord>(set: &mut BTreeSet<T>, others: &BTreeSet<T>) {
    for item in others {
        if !set.contains(item) {
            set.insert(item.clone());
        }
    }
}

/// The files of a directory that are code objects, bundles or fatbins themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSet {
    /// The code of all files.
    pub(crate) code: CodeSet,
    /// The number of files.
    pub(crate) files: usize,
}

impl FileSet {
    /// Adds a file.
    pub(crate) fn add(&mut self, file: &LoadUnit) {
        self.merge(&Self { code: file.set(), files: 1 });
    }

    /// Adds the files of another set.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.code.merge(&other.code);
        self.files += other.files;
    }
}

/// A directory whose files serve GPUs together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedDirectory {
    /// The place: a directory on disk, or a package and a member in it. Names of GPUs in its path are replaced by `*`.
    pub place: Place,
    /// The number of files in it that are code objects, bundles or fatbins themselves.
    pub files: usize,
    /// The GPUs that the files have code for, by name, and whether the files serve each: 1 of 1 or 0 of 1. `None` if
    /// there are too many to compare.
    pub gpus: Option<Vec<(Device, ServedBundles)>>,
}

/// The number of bundles that serve a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema), schemars(rename = "Served"))]
#[non_exhaustive]
pub struct ServedBundles {
    /// The number of bundles that serve it.
    pub serving: usize,
    /// The number of bundles that should: those for GPUs of its vendor, and those whose vendor is unknown.
    pub bundles: usize,
}

impl ServedBundles {
    /// The number of bundles that should serve the GPU and do not.
    pub fn missing(self) -> usize {
        self.bundles.saturating_sub(self.serving)
    }

    /// Whether all bundles serve the GPU.
    pub fn is_complete(self) -> bool {
        self.serving == self.bundles
    }
}

/// Writes the numbers as in `1 of 134`.
impl fmt::Display for ServedBundles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.serving, self.bundles)
    }
}

impl Coverage {
    /// Adds a bundle. Bundles of a file are added in the order of the search.
    pub fn add(&mut self, found: &FoundBundle<'_>) {
        for unit in self.units.add(found) {
            match &unit.directory {
                Some(directory) => self.add_files(directory, &FileSet { code: unit.set(), files: 1 }),
                None => self.count_bundles(unit.set(), 1),
            }
        }
    }

    /// Adds the code objects in kpack archives that a split library loads.
    pub(crate) fn add_split(&mut self, place: &Place, split: &Split<'_>) {
        for unit in LoadUnit::of_split(place, split) {
            self.count_bundles(unit.set(), 1);
        }
    }

    /// Adds the bundles of another file.
    pub fn merge(&mut self, other: &Self) {
        self.has_too_many_sets |= other.has_too_many_sets;
        for (set, count) in &other.bundles {
            self.count_bundles(set.clone(), *count);
        }
        // Nothing follows in the other file, so its last units are complete. Its last file is among `directories`.
        for (_, unit) in &other.units.incomplete {
            self.count_bundles(unit.set(), 1);
        }
        for (directory, files) in other.directories() {
            self.add_files(directory, &files);
        }
    }

    /// Adds files to the other files of their directory. If there are too many directories already, only notes that, so
    /// that no numbers are reported for single GPUs.
    fn add_files(&mut self, directory: &Place, files: &FileSet) {
        if self.directories.len() >= CODE_SETS_MAX && !self.directories.contains_key(directory) {
            self.has_too_many_sets = true;
            return;
        }
        self.directories.entry(directory.clone()).or_default().merge(files);
    }

    /// Returns the files of each directory, with the file that was read last. That file is not yet in
    /// `self.directories`: if more bundles of it follow, it does not serve together with the others.
    fn directories(&self) -> HashMap<&Place, Cow<'_, FileSet>> {
        let all = self.directories.iter().map(|(directory, files)| (directory, Cow::Borrowed(files)));
        let mut all: HashMap<&Place, Cow<'_, FileSet>> = all.collect();
        if let Some(file) = &self.units.file
            && let Some(directory) = &file.directory
        {
            all.entry(directory).or_default().to_mut().add(file);
        }
        all
    }

    /// Returns the directory of the only file that was added, if the file is itself a code object, a bundle or a
    /// fatbin. Returns `None` if anything else was added.
    pub(crate) fn directory_of_file(&self) -> Option<Place> {
        let is_alone = self.bundles.is_empty() && self.directories.is_empty() && self.units.incomplete.is_empty();
        if !is_alone {
            return None;
        }
        self.units.file.as_ref()?.directory.clone()
    }

    /// Returns the directories whose files serve GPUs together, by their places.
    pub fn served_directories(&self) -> Vec<ServedDirectory> {
        let mut directories = Vec::new();
        for (place, files) in self.directories() {
            // A coverage with nothing but this directory finds out its GPUs. If there were too many sets of code, it
            // reports no GPUs, like the whole coverage.
            let mut alone = Self { has_too_many_sets: self.has_too_many_sets, ..Self::default() };
            alone.add_files(place, &files);
            directories.push(ServedDirectory { place: place.clone(), files: files.files, gpus: alone.gpus() });
        }
        directories.sort_by_cached_key(|directory| directory.place.to_string());
        directories
    }

    /// Counts `more` bundles with the same code. If there are too many different sets of code already, only notes that.
    fn count_bundles(&mut self, set: CodeSet, more: usize) {
        if self.bundles.len() >= CODE_SETS_MAX && !self.bundles.contains_key(&set) {
            self.has_too_many_sets = true;
            return;
        }
        let count = self.bundles.entry(set).or_default();
        *count += more;
    }

    /// Returns the sets of code of all bundles and directories so far, each with the number of bundles that have it.
    /// Units that are not complete are included as they are.
    fn code_sets(&self) -> Vec<(Cow<'_, CodeSet>, usize)> {
        let mut sets = Vec::new();
        for (set, count) in &self.bundles {
            sets.push((Cow::Borrowed(set), *count));
        }
        for (_, unit) in &self.units.incomplete {
            sets.push((Cow::Owned(unit.set()), 1));
        }
        // The files of directories include the file that was read last.
        for files in self.directories().into_values() {
            let set = match files {
                Cow::Borrowed(files) => Cow::Borrowed(&files.code),
                Cow::Owned(files) => Cow::Owned(files.code),
            };
            sets.push((set, 1));
        }
        sets
    }

    /// The number of bundles.
    pub fn bundles(&self) -> usize {
        self.bundles.values().sum::<usize>() + self.units.incomplete.len() + self.directories().len()
    }

    /// Returns the number of bundles that serve a GPU, and the number that should.
    pub fn served(&self, device: &Device) -> ServedBundles {
        count_serving(device, &self.code_sets())
    }

    /// Describes the code that runtimes do not find or load: a sentence for each entry ID, with the reason.
    pub fn unfound(&self) -> Vec<String> {
        let mut unfound = BTreeSet::new();
        for (set, _) in self.code_sets() {
            unfound.extend(set.unfound.iter().map(UnfoundCode::to_string));
        }
        unfound.into_iter().collect()
    }

    /// Returns for each of some GPUs the number of bundles that serve it, and the number that should. Returns `None` if
    /// there are too many bundles or GPUs to compare.
    pub fn served_each(&self, devices: &[Device]) -> Option<Vec<ServedBundles>> {
        let sets = self.code_sets();
        // A set without code costs a comparison too.
        let all: usize = sets.iter().map(|(set, _)| set.codes.len() + set.unfound.len() + 1).sum();
        if self.has_too_many_sets || devices.len().saturating_mul(all) > COMPARISONS_MAX {
            return None;
        }
        Some(devices.iter().map(|device| count_serving(device, &sets)).collect())
    }

    /// Returns the GPUs that any bundle has code for, by name, with the number of bundles that serve each: 0 if the
    /// runtime does not find the code. Returns `None` if there are too many to compare.
    pub fn gpus(&self) -> Option<Vec<(Device, ServedBundles)>> {
        let sets = self.code_sets();
        let mut codes: HashSet<&Code> = HashSet::new();
        for (set, _) in &sets {
            codes.extend(&set.codes);
            codes.extend(set.unfound.iter().map(|unfound| &unfound.code));
        }
        let mut by_name = BTreeMap::new();
        for device in codes.into_iter().filter_map(Device::from_code) {
            by_name.insert(device.name().to_owned(), device);
        }
        let devices: Vec<Device> = by_name.into_values().collect();
        let served = self.served_each(&devices)?;
        Some(devices.into_iter().zip(served).collect())
    }
}

/// Counts the bundles that serve all variants of a GPU, and the bundles that should.
fn count_serving(device: &Device, sets: &[(Cow<'_, CodeSet>, usize)]) -> ServedBundles {
    let mut served = ServedBundles::default();
    for (set, count) in sets {
        if set.is_for(device) {
            let serves = device.unserved_variants(set.codes.iter()).next().is_none();
            served.bundles += *count;
            served.serving += if serves { *count } else { 0 };
        }
    }
    served
}

/// Code objects that one program loads together, for several GPUs: it needs one of them, for its GPU. A unit is usually
/// a bundle, but may be several offload binaries, a file, or the code of a wrapper in kpack archives.
#[derive(Clone, Debug)]
pub(crate) struct LoadUnit {
    /// The place of the first bundle of the unit.
    pub(crate) place: Place,
    /// The index and the offset of the bundle at the place, or `None` if the unit is not a single bundle.
    pub(crate) bundle: Option<(usize, u64)>,
    /// The directory, if the unit is a file that serves together with others there.
    pub(crate) directory: Option<Place>,
    /// The first source file that the code objects record.
    pub(crate) source: Option<String>,
    /// The vendors of the GPUs that the unit has entries for. It should serve all their GPUs.
    pub(crate) vendors: BTreeSet<GpuVendor>,
    /// The way in which a program uses the code.
    pub(crate) code_use: CodeUse,
    /// The code, each with the position of its code object in the search: its index among all code objects found.
    pub(crate) codes: Vec<(usize, Code)>,
    /// Code in the unit that a runtime does not find.
    pub(crate) unfound: Vec<UnfoundCode>,
}

impl LoadUnit {
    /// Returns a unit for a bundle, still without code.
    fn new(found: &FoundBundle<'_>, vendors: BTreeSet<GpuVendor>) -> Self {
        // Several containers, one for each target, may be one unit.
        let is_single = !found.format.has(Rule::OnePerTarget);
        Self {
            place: found.place.clone(),
            bundle: if is_single { Some((found.index, found.bundle.offset)) } else { None },
            directory: None,
            source: found.code_objects().find_map(|code_object| code_object.shown_source()),
            vendors,
            code_use: CodeUse::of(found),
            codes: Vec::new(),
            unfound: Vec::new(),
        }
    }

    /// Returns the units of a split library: one for each index in its wrappers, with the code of that index in the
    /// kpack archives. Returns no units if the reference of the library was not followed.
    pub(crate) fn of_split(place: &Place, split: &Split<'_>) -> Vec<Self> {
        let Some(archives) = split.archives else { return Vec::new() };
        let mut by_index: HashMap<u32, Vec<(usize, Code)>> = HashMap::new();
        for archive in archives.iter().filter_map(|followed| followed.archive.as_ref()) {
            for binary in &archive.binaries {
                let Some(index) = split.reference.index_of(&binary.key) else { continue };
                let codes = by_index.entry(index).or_default();
                for target in binary.entries.iter().map(kpack::target_of) {
                    // The loader asks an archive only for target IDs in the archive's list.
                    if archive.claims(target)
                        && let Some(code) = Code::of_kpack(target)
                    {
                        codes.push((NO_POSITION, code));
                    }
                }
            }
        }
        let mut units = Vec::new();
        let mut seen = HashSet::new();
        for index in split.indices {
            // An index without code in the archives makes a unit that serves no GPU, because the library needs that
            // code.
            if seen.insert(*index) {
                units.push(Self {
                    place: place.clone(),
                    bundle: None,
                    directory: None,
                    source: None,
                    vendors: BTreeSet::from([GpuVendor::Amd]),
                    code_use: CodeUse::Choice,
                    codes: by_index.get(index).cloned().unwrap_or_default(),
                    unfound: Vec::new(),
                });
            }
        }
        units
    }

    /// Returns whether the unit has this code, found or not.
    fn has(&self, code: &Code) -> bool {
        self.codes.iter().any(|(_, other)| other == code) || self.unfound.iter().any(|unfound| unfound.code == *code)
    }

    /// Returns the code without positions, as it is counted and compared.
    pub(crate) fn set(&self) -> CodeSet {
        let codes = self.codes.iter().map(|(_, code)| code.clone()).collect();
        CodeSet { vendors: self.vendors.clone(), codes, unfound: self.unfound.iter().cloned().collect() }
    }
}

/// Puts units together from the bundles of a search, which are added in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadUnits {
    /// The units of offload binaries at one place, by their offload kind. The next offload binary may add code to them.
    /// The kind is `None` as long as a unit has no code.
    incomplete: Vec<(Option<OffloadKind>, LoadUnit)>,
    /// The file that was read last, if it is a code object, a bundle or a fatbin itself. It is kept apart from
    /// `incomplete`, because nothing is added to it. It waits only for the next bundle: if that bundle is in the same
    /// file, the file counts in another way, see `end_file`.
    file: Option<LoadUnit>,
    /// Whether a file that is itself a bundle or a fatbin is a unit like any bundle, rather than a file of its
    /// directory. Code objects without a bundle are no units then.
    ignores_files: bool,
    /// The number of code objects of all bundles so far: the position of the next one.
    code_objects: usize,
}

impl LoadUnits {
    /// Returns a value that makes units of bundles alone, without regard to files that serve together.
    pub(crate) fn of_bundles() -> Self {
        Self { ignores_files: true, ..Self::default() }
    }

    /// Adds the next bundle of the search, and returns the units that are complete.
    pub(crate) fn add(&mut self, found: &FoundBundle<'_>) -> Vec<LoadUnit> {
        let mut complete: Vec<LoadUnit> = self.end_file(Some(found.place)).into_iter().collect();
        complete.extend(self.add_bundle(found));
        complete
    }

    /// Takes the file that was read last, and returns its unit. `next` is the place of the next bundle, or `None` if
    /// nothing follows. Returns `None` if there is no such file, and for the first of several code objects without a
    /// bundle in one file.
    fn end_file(&mut self, next: Option<&Place>) -> Option<LoadUnit> {
        let file = self.file.take()?;
        let has_more_bundles = next == Some(&file.place);
        if !has_more_bundles {
            return Some(file);
        }
        // With more than one bundle, the file does not serve together with the other files of its directory. A bundle
        // in it is a separate unit, and a code object without a bundle is none.
        if file.bundle.is_some() { Some(LoadUnit { directory: None, ..file }) } else { None }
    }

    /// Adds the next bundle of the search, and returns the units that are complete. `add` has taken the previous file
    /// out of `self.file` before the call.
    fn add_bundle(&mut self, found: &FoundBundle<'_>) -> Vec<LoadUnit> {
        // The position of the first code object of the bundle in the search.
        let first = self.code_objects;
        self.code_objects = first + found.bundle.entries.len();
        let is_file = !self.ignores_files && is_loaded_file(found);
        // A bundle that need not serve every GPU is no unit, unless it serves together with other files.
        if found.is_for_some_gpus() && !is_file {
            return Vec::new();
        }
        let BundleCodes { found: codes, unfound, vendors, is_outer } = BundleCodes::of(found);
        // The search reports the containers in such a bundle as bundles themselves.
        if is_outer {
            return Vec::new();
        }
        if !is_file && found.format.has(Rule::OnePerTarget) {
            return self.add_offload_binary(found, (first, codes, unfound), &vendors);
        }
        let codes = codes.into_iter().map(|found| (first + found.index, found.code)).collect();
        let unfound = unfound.into_iter().map(|(_, unfound)| unfound).collect();
        let unit = LoadUnit { codes, unfound, ..LoadUnit::new(found, vendors) };
        if is_file {
            let mut file = unit;
            file.directory = Some(directory_of(found.place));
            // A code object without a bundle counts only as a file of its directory.
            if found.format == Format::CodeObject {
                file.bundle = None;
            }
            // The file is complete only once the next bundle shows that no more bundles of it follow.
            self.file = Some(file);
            return Vec::new();
        }
        vec![unit]
    }

    /// Adds an offload binary to the units of its place. Offload binaries of one source file and one offload kind,
    /// which follow one another at a place, are one unit: clang writes one for each GPU. `first` is the position of the
    /// first code object. Returns the units that are complete.
    fn add_offload_binary(
        &mut self,
        found: &FoundBundle<'_>,
        (first, codes, unfound): (usize, Vec<FoundCode>, Vec<(OffloadKind, UnfoundCode)>),
        vendors: &BTreeSet<GpuVendor>,
    ) -> Vec<LoadUnit> {
        // The first offload binary at a place has the index 0. A caller may have left it out, so the places are
        // compared too.
        let is_new_place = found.index == 0 || self.incomplete.iter().any(|(_, unit)| unit.place != *found.place);
        // Nothing more is added to the units of the previous place.
        let mut complete = if is_new_place { self.take_all_incomplete() } else { Vec::new() };
        // An offload binary without code counts as a bundle too, unless others at its place have code.
        if codes.is_empty() && unfound.is_empty() && self.incomplete.is_empty() {
            self.incomplete.push((None, LoadUnit::new(found, vendors.clone())));
        }
        for FoundCode { index, kind, code } in codes {
            if let Some(unit) = self.unit_for(kind, &code, (found, vendors), &mut complete) {
                unit.codes.push((first + index, code));
            }
        }
        for (kind, unfound) in unfound {
            if let Some(unit) = self.unit_for(kind, &unfound.code, (found, vendors), &mut complete) {
                unit.unfound.push(unfound);
            }
        }
        complete
    }

    /// Returns the unit that gets a code object of an offload binary, which may be a new one. Adds a unit to `complete`
    /// if it has code for the same GPU: a second code object for a GPU is from another source file. Never returns
    /// `None`.
    fn unit_for(
        &mut self,
        kind: OffloadKind,
        code: &Code,
        (found, vendors): (&FoundBundle<'_>, &BTreeSet<GpuVendor>),
        complete: &mut Vec<LoadUnit>,
    ) -> Option<&mut LoadUnit> {
        let next = self.incomplete.len();
        // The first code decides the kind of a unit without code.
        let mut units = self.incomplete.iter();
        let index = units.position(|(unit_kind, _)| unit_kind.is_none_or(|unit_kind| unit_kind == kind));
        let index = index.unwrap_or(next);
        if index == next {
            self.incomplete.push((None, LoadUnit::new(found, vendors.clone())));
        }
        let (unit_kind, unit) = self.incomplete.get_mut(index)?;
        if unit.has(code) {
            complete.push(std::mem::replace(unit, LoadUnit::new(found, vendors.clone())));
        }
        *unit_kind = Some(kind);
        unit.vendors.extend(vendors);
        Some(unit)
    }

    /// Takes and returns all units that waited for more bundles: the units of offload binaries, and the file that was
    /// read last. They are complete now. Called at the end of the search.
    pub(crate) fn finish_all(&mut self) -> Vec<LoadUnit> {
        let mut finished = self.take_all_incomplete();
        finished.extend(self.end_file(None));
        finished
    }

    /// Takes and returns the units that waited for more bundles at the places that `is_over` accepts. No more bundles
    /// follow there, so these units are complete now.
    pub(crate) fn finish_places(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<LoadUnit> {
        let over = self.incomplete.extract_if(.., |(_, unit)| is_over(&unit.place));
        let mut finished: Vec<LoadUnit> = over.map(|(_, unit)| unit).collect();
        // The file that was read last waits too, but is not in `incomplete`.
        if let Some(file) = &self.file
            && is_over(&file.place)
        {
            finished.extend(self.end_file(None));
        }
        finished
    }

    /// Takes the units of offload binaries, because nothing more is added to them.
    fn take_all_incomplete(&mut self) -> Vec<LoadUnit> {
        std::mem::take(&mut self.incomplete).into_iter().map(|(_, unit)| unit).collect()
    }

    /// Returns whether the next offload binary may add code to some units. The file in `self.file` does not count:
    /// nothing is added to it.
    pub(crate) fn has_incomplete(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Returns the number of code objects of all bundles so far.
    pub(crate) fn code_objects(&self) -> usize {
        self.code_objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::{Input, write_to};
    use crate::beyond::container::kpack::{KpackArchive, Reference, WrappedBinary};
    use crate::beyond::container::{SearchEntry, Stored};
    use crate::beyond::scan::{Finding, Followed, Scan};
    use crate::llvm::container::Member;
    use crate::llvm::container::offload_binary::OffloadBinary;

    fn other_codes(names: impl IntoIterator<Item = String>) -> CodeSet {
        let codes = names.into_iter().map(Code::Other).collect();
        CodeSet { vendors: BTreeSet::from([GpuVendor::Amd]), codes, unfound: BTreeSet::new() }
    }

    fn amd_codes(targets: &[&str]) -> CodeSet {
        let codes = targets.iter().map(|target| Code::Amd(target.parse().unwrap())).collect();
        CodeSet { codes, ..other_codes([]) }
    }

    #[test]
    fn merged_files_count_as_one() {
        let (mut first, mut second) = (Coverage::default(), Coverage::default());
        first.count_bundles(amd_codes(&["gfx906"]), 2);
        second.count_bundles(amd_codes(&["gfx906"]), 3);
        second.count_bundles(amd_codes(&["gfx90a"]), 4);
        first.merge(&second);
        assert_eq!(first.bundles(), 9);
        let device = Device::parse("gfx906").unwrap();
        let served = ServedBundles { serving: 5, bundles: 9 };
        assert_eq!((first.served(&device), first.served_each(&[device])), (served, Some(vec![served])));
        assert_eq!((served.missing(), served.is_complete()), (4, false));
        assert!(ServedBundles { serving: 5, bundles: 5 }.is_complete());
        let names: Vec<_> =
            first.gpus().unwrap().iter().map(|(gpu, served)| (gpu.to_string(), served.serving)).collect();
        assert_eq!(names, [("gfx906".to_owned(), 5), ("gfx90a".to_owned(), 4)]);
        // A file over the limit makes the sum incomplete, whatever is merged later.
        for has_too_many_sets in [true, false] {
            first.merge(&Coverage { has_too_many_sets, ..Coverage::default() });
            assert!(first.gpus().is_none());
        }
    }

    #[test]
    fn bundles_without_entries_count_for_every_vendor() {
        let mut coverage = Coverage::default();
        coverage.count_bundles(CodeSet { vendors: BTreeSet::new(), ..amd_codes(&[]) }, 1);
        coverage.count_bundles(amd_codes(&["gfx906"]), 1);
        for (gpu, serving, bundles) in [("gfx906", 1, 2), ("sm_90", 0, 1)] {
            assert_eq!(coverage.served(&Device::parse(gpu).unwrap()), ServedBundles { serving, bundles }, "{gpu}");
        }
    }

    #[test]
    fn different_sets_of_code_are_counted_up_to_a_limit() {
        let sets = (0..CODE_SETS_MAX - 1).map(|index| (other_codes([format!("{index:06}")]), 1));
        let mut coverage = Coverage { bundles: sets.collect(), ..Coverage::default() };
        for (name, has_too_many_sets) in [("first", false), ("first", false), ("second", true)] {
            coverage.count_bundles(other_codes([name.to_owned()]), 1);
            assert_eq!(
                (coverage.bundles.len(), coverage.has_too_many_sets),
                (CODE_SETS_MAX, has_too_many_sets),
                "{name}"
            );
        }
        assert_eq!(coverage.bundles(), CODE_SETS_MAX + 1);
    }

    #[test]
    fn comparisons_are_limited() {
        let mut coverage = Coverage::default();
        coverage.count_bundles(other_codes((0..COMPARISONS_MAX / 10 - 1).map(|index| index.to_string())), 1);
        let devices = vec![Device::parse("gfx906").unwrap(); 11];
        assert!(coverage.served_each(&devices).is_none());
        assert_eq!(coverage.served_each(&devices[..1]), Some(vec![ServedBundles { serving: 0, bundles: 1 }]));
    }

    fn binary(key: &str, targets: &[&str]) -> WrappedBinary {
        let ids = targets.iter().map(|target| format!("hipv4-amdgcn-amd-amdhsa--{target}").into_bytes());
        let entries = ids.map(|id| SearchEntry::new(id, Stored::Range(0..1))).collect();
        WrappedBinary { key: key.as_bytes().to_vec(), entries }
    }

    #[test]
    fn a_split_library_is_a_unit_for_each_wrapper() {
        // Code for a target that the archive does not claim is not loaded.
        let archive = KpackArchive {
            targets: vec![b"gfx906".to_vec(), b"gfx90a".to_vec()],
            binaries: vec![
                binary("lib.so#0", &["gfx906", "gfx90a", "gfx1030"]),
                binary("lib.so#1", &["gfx906"]),
                binary("other.so#2", &["gfx906"]),
            ],
            faults: Vec::new(),
        };
        let archives = [Followed { path: "x.kpack".into(), archive: Some(archive), code_objects: 4 }];
        let reference = Reference { kernel_name: b"lib.so".to_vec(), search_paths: Vec::new() };
        let (place, mut coverage) = (Place::of_file("lib.so".as_ref()), Coverage::default());
        let mut split = Split { reference: &reference, indices: &[0, 1, 2, 1], archives: None };
        coverage.add_split(&place, &split);
        assert_eq!(coverage.bundles(), 0);
        split.archives = Some(&archives);
        coverage.add_split(&place, &split);
        for (gpu, serving) in [("gfx906", 2), ("gfx90a", 1), ("gfx1030", 0)] {
            assert_eq!(coverage.served(&Device::parse(gpu).unwrap()), ServedBundles { serving, bundles: 3 }, "{gpu}");
        }
    }

    /// Adds a file with an offload binary for each of these members.
    fn add(coverage: &mut Coverage, file: &str, members: &[(&str, &'static [u8])]) {
        let members: Vec<_> =
            members.iter().map(|(id, content)| Member { id: (*id).to_owned(), content: (*content).into() }).collect();
        let mut data = Vec::new();
        write_to(&OffloadBinary::default().plan(&members).unwrap(), &mut data).unwrap();
        let visitor = &mut |finding: Finding<'_>| {
            if let Finding::Bundle(found) = finding {
                coverage.add(&found);
            }
            Ok(())
        };
        Scan::default().run(&Input::from_bytes(file, data), visitor).unwrap();
    }

    const GFX906: (&str, &[u8]) = ("hip-amdgcn-amd-amdhsa--gfx906", b"\x7fELF");
    const GFX90A: (&str, &[u8]) = ("hip-amdgcn-amd-amdhsa--gfx90a", b"\x7fELF");
    const EMPTY: (&str, &[u8]) = ("hip-amdgcn-amd-amdhsa--gfx90a", b"");
    const OUTER: (&str, &[u8]) = ("cuda-nvptx64-nvidia-cuda--sm_90", b"\x50\xed\x55\xba\x01\0\x10\0\0\0\0\0\0\0\0\0");

    #[test]
    fn offload_binaries_at_one_place_are_joined() {
        type Files<'f> = &'f [&'f [(&'f str, &'static [u8])]];
        let cases: [(Files<'_>, usize, usize); 7] = [
            (&[&[GFX906, GFX90A][..]][..], 1, 1),
            (&[&[GFX906, EMPTY]], 1, 1),
            (&[&[EMPTY, GFX906]], 1, 1),
            (&[&[EMPTY]], 0, 1),
            (&[&[GFX906, GFX90A, GFX906]], 2, 2),
            (&[&[GFX906], &[GFX90A]], 1, 2),
            // The first one at the second place is not counted itself.
            (&[&[GFX906], &[OUTER, GFX90A]], 1, 2),
        ];
        for (files, serving, bundles) in cases {
            let mut coverage = Coverage::default();
            for (index, members) in files.iter().enumerate() {
                add(&mut coverage, &index.to_string(), members);
            }
            let served = coverage.served(&Device::parse("gfx906").unwrap());
            assert_eq!(served, ServedBundles { serving, bundles }, "{files:?}");
        }
    }
}
