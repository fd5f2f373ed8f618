//! In how many bundles each GPU is served.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use super::code::{Code, Codes, GpuVendor, Held, UnfoundCode};
use super::device::Device;
use super::directory::{directory_of, is_loaded_file};
use crate::base::id::OffloadKind;
use crate::beyond::container::kpack;
use crate::beyond::scan::{Format, Found, Place, Split};

/// The largest number of comparisons of a GPU with a kind of bundle. Hostile files can have any number of both.
const COMPARISONS_MAX: usize = if cfg!(test) { 40_000 } else { 4_000_000 };

/// The largest number of different sets of code that are counted.
const KINDS_MAX: usize = if cfg!(test) { 2500 } else { 250_000 };

/// The bundles of a file, or of several, by the GPUs that they serve.
///
/// Offload binaries at one place count as one bundle, one for each source file and offload kind; so does all code in
/// kpack archives that one wrapper of a library loads. Files of a directory that are code objects, bundles or fatbins
/// themselves count as one together: a program loads those for its GPU. Other code objects without a bundle, device
/// images of SYCL, and relocatable CUDA code beside linked code are not counted: each of them need not serve every GPU.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    bundles: BTreeMap<CodeSet, usize>,
    /// The files of each directory.
    directories: HashMap<Place, FileSet>,
    units: Units,
    /// Whether there are more different sets of code than are counted.
    is_full: bool,
}

/// The code of a bundle, which others may have too, and the vendors of the GPUs that it has entries for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeSet {
    pub(crate) vendors: BTreeSet<GpuVendor>,
    pub(crate) codes: BTreeSet<Code>,
    /// Code that it has and a runtime does not find.
    pub(crate) unfound: BTreeSet<UnfoundCode>,
}

impl CodeSet {
    /// Whether the bundle should serve a GPU.
    pub(crate) fn is_for(&self, device: &Device) -> bool {
        self.vendors.is_empty() || self.vendors.contains(&device.vendor())
    }

    /// Adds the code of another bundle.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.vendors.extend(&other.vendors);
        self.codes.extend(other.codes.difference(&self.codes).cloned().collect::<Vec<_>>());
        self.unfound.extend(other.unfound.difference(&self.unfound).cloned().collect::<Vec<_>>());
    }
}

/// The files of a directory that are code objects, bundles or fatbins themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSet {
    /// The code of all of them.
    pub(crate) code: CodeSet,
    /// Their number.
    pub(crate) files: usize,
}

impl FileSet {
    pub(crate) fn add(&mut self, file: &Unit) {
        self.merge(&Self { code: file.set(), files: 1 });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.code.merge(&other.code);
        self.files += other.files;
    }
}

/// A directory whose files serve GPUs together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedDirectory {
    /// Its place: a directory on disk, or a package and in it a member. Names of GPUs in its path are replaced by `*`.
    pub place: Place,
    /// The number of files in it that are code objects, bundles or fatbins themselves.
    pub files: usize,
    /// The GPUs that they have code for, by name, and whether the files serve each: 1 of 1 or 0 of 1. None if there are
    /// too many to compare.
    pub gpus: Option<Vec<(Device, Served)>>,
}

/// In how many bundles a GPU is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Served {
    /// The number of bundles that serve it.
    pub serving: usize,
    /// The number of bundles that should: those with entries for GPUs of its vendor, or for none at all.
    pub bundles: usize,
}

impl Served {
    /// The number of bundles that should serve the GPU and do not.
    pub fn missing(self) -> usize {
        self.bundles.saturating_sub(self.serving)
    }

    /// Whether all bundles serve the GPU.
    pub fn is_complete(self) -> bool {
        self.serving == self.bundles
    }
}

/// As in `1 of 134`.
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.serving, self.bundles)
    }
}

impl Coverage {
    /// Adds a bundle. Bundles of a file are added in the order in which they are found.
    pub fn add(&mut self, found: &Found<'_>) {
        for unit in self.units.add(found) {
            match &unit.directory {
                Some(directory) => self.add_files(directory, &FileSet { code: unit.set(), files: 1 }),
                None => self.count(unit.set(), 1),
            }
        }
    }

    /// Adds the code objects in kpack archives that a split library loads.
    pub(crate) fn add_split(&mut self, place: &Place, split: &Split<'_>) {
        Unit::of_split(place, split).into_iter().for_each(|unit| self.count(unit.set(), 1));
    }

    /// Adds the bundles of another file.
    pub fn merge(&mut self, other: &Self) {
        self.is_full |= other.is_full;
        other.bundles.iter().for_each(|(kind, count)| self.count(kind.clone(), *count));
        other.units.open.iter().for_each(|(_, unit)| self.count(unit.set(), 1));
        other.directories().iter().for_each(|(directory, files)| self.add_files(directory, files));
    }

    fn add_files(&mut self, directory: &Place, files: &FileSet) {
        if self.directories.len() >= KINDS_MAX && !self.directories.contains_key(directory) {
            self.is_full = true;
            return;
        }
        self.directories.entry(directory.clone()).or_default().merge(files);
    }

    /// The files of each directory, with the last file.
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

    /// Returns the directory of a file that is a code object, a bundle or a fatbin itself, or `None` if there is
    /// anything else.
    pub(crate) fn directory_of_file(&self) -> Option<Place> {
        let is_alone = self.bundles.is_empty() && self.directories.is_empty() && self.units.open.is_empty();
        self.units.file.as_ref().filter(|_| is_alone)?.directory.clone()
    }

    /// The directories whose files serve GPUs together, by their places.
    pub fn served_directories(&self) -> Vec<ServedDirectory> {
        let mut directories = Vec::new();
        for (place, files) in self.directories() {
            let mut alone = Self { is_full: self.is_full, ..Self::default() };
            alone.add_files(place, &files);
            directories.push(ServedDirectory { place: place.clone(), files: files.files, gpus: alone.gpus() });
        }
        directories.sort_by_cached_key(|directory| directory.place.to_string());
        directories
    }

    fn count(&mut self, kind: CodeSet, more: usize) {
        if self.bundles.len() >= KINDS_MAX && !self.bundles.contains_key(&kind) {
            self.is_full = true;
            return;
        }
        let count = self.bundles.entry(kind).or_default();
        *count += more;
    }

    fn kinds(&self) -> Vec<(Cow<'_, CodeSet>, usize)> {
        let open = self.units.open.iter().map(|(_, unit)| (Cow::Owned(unit.set()), 1));
        let directories = self.directories().into_values().map(|files| match files {
            Cow::Borrowed(files) => (Cow::Borrowed(&files.code), 1),
            Cow::Owned(files) => (Cow::Owned(files.code), 1),
        });
        let bundles = self.bundles.iter().map(|(kind, count)| (Cow::Borrowed(kind), *count));
        bundles.chain(open).chain(directories).collect()
    }

    /// The number of bundles.
    pub fn bundles(&self) -> usize {
        self.bundles.values().sum::<usize>() + self.units.open.len() + self.directories().len()
    }

    /// In how many bundles a GPU is served.
    pub fn of(&self, device: &Device) -> Served {
        served(device, &self.kinds())
    }

    /// Code that HIP's runtime does not find, and what it looks for: a sentence for each entry ID.
    pub fn unfound(&self) -> Vec<String> {
        let mut unfound = BTreeSet::new();
        for (kind, _) in self.kinds() {
            unfound.extend(kind.unfound.iter().map(UnfoundCode::to_string));
        }
        unfound.into_iter().collect()
    }

    /// In how many bundles each of some GPUs is served. None if there are too many to compare.
    pub fn of_each(&self, devices: &[Device]) -> Option<Vec<Served>> {
        let kinds = self.kinds();
        let all: usize = kinds.iter().map(|(kind, _)| kind.codes.len() + kind.unfound.len() + 1).sum();
        let is_too_much = self.is_full || devices.len().saturating_mul(all) > COMPARISONS_MAX;
        (!is_too_much).then(|| devices.iter().map(|device| served(device, &kinds)).collect())
    }

    /// Returns the GPUs for which any bundle has code, by name, and in how many bundles each is served: in none if the
    /// runtime does not find the code, or `None` if there are too many to compare.
    pub fn gpus(&self) -> Option<Vec<(Device, Served)>> {
        let kinds = self.kinds();
        let mut codes: HashSet<&Code> = HashSet::new();
        for (kind, _) in &kinds {
            codes.extend(&kind.codes);
            codes.extend(kind.unfound.iter().map(|unfound| &unfound.code));
        }
        let named = codes.into_iter().filter_map(Device::of_code).map(|device| (device.name().to_owned(), device));
        let devices: Vec<Device> = named.collect::<BTreeMap<String, Device>>().into_values().collect();
        let served = self.of_each(&devices)?;
        Some(devices.into_iter().zip(served).collect())
    }
}

fn served(device: &Device, kinds: &[(Cow<'_, CodeSet>, usize)]) -> Served {
    let mut served = Served::default();
    for (kind, count) in kinds {
        if kind.is_for(device) {
            let serves = device.unserved(kind.codes.iter()).next().is_none();
            served.bundles += *count;
            served.serving += if serves { *count } else { 0 };
        }
    }
    served
}

/// The code of which a program needs one code object for its GPU.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) place: Place,
    /// The index and the offset of the bundle at the place; none if it is not a single one.
    pub(crate) bundle: Option<(usize, u64)>,
    /// The directory, if it is a file that serves together with others there.
    pub(crate) directory: Option<Place>,
    /// The first source file that its code objects record.
    pub(crate) source: Option<String>,
    pub(crate) vendors: BTreeSet<GpuVendor>,
    /// With their positions in the search, among all code objects.
    pub(crate) codes: Vec<(usize, Code)>,
    /// Code that it has and a runtime does not find.
    pub(crate) unfound: Vec<UnfoundCode>,
}

impl Unit {
    fn new(found: &Found<'_>, vendors: BTreeSet<GpuVendor>) -> Self {
        Self {
            place: found.place.clone(),
            bundle: (found.format != Format::OffloadBinary).then_some((found.index, found.bundle.offset)),
            directory: None,
            source: found.code_objects().find_map(|code_object| code_object.shown_source()),
            vendors,
            codes: Vec::new(),
            unfound: Vec::new(),
        }
    }

    /// The units of a split library: one for each of its wrappers.
    pub(crate) fn of_split(place: &Place, split: &Split<'_>) -> Vec<Self> {
        let Some(archives) = split.archives else { return Vec::new() };
        let mut by_index: HashMap<u32, Vec<(usize, Code)>> = HashMap::new();
        for archive in archives.iter().filter_map(|followed| followed.archive.as_ref()) {
            for binary in &archive.binaries {
                let Some(index) = split.reference.index_of(&binary.key) else { continue };
                let claimed = binary.entries.iter().map(kpack::target_of).filter(|target| archive.claims(target));
                by_index.entry(index).or_default().extend(claimed.filter_map(Code::of_kpack).map(|code| (0, code)));
            }
        }
        let mut seen = HashSet::new();
        let asked = split.indices.iter().filter(|index| seen.insert(**index));
        let unit = |index: &u32| Self {
            place: place.clone(),
            bundle: None,
            directory: None,
            source: None,
            vendors: BTreeSet::from([GpuVendor::Amd]),
            codes: by_index.get(index).cloned().unwrap_or_default(),
            unfound: Vec::new(),
        };
        asked.map(unit).collect()
    }

    pub(crate) fn set(&self) -> CodeSet {
        let codes = self.codes.iter().map(|(_, code)| code.clone()).collect();
        CodeSet { vendors: self.vendors.clone(), codes, unfound: self.unfound.iter().cloned().collect() }
    }
}

/// Puts units together from the bundles of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// The offload binaries at one place that are not complete yet, by their offload kind.
    open: Vec<(Option<OffloadKind>, Unit)>,
    /// The last file that is a code object, a bundle or a fatbin itself, unless more follows in it.
    file: Option<Unit>,
    /// Whether such files are bundles like others, and code objects without a bundle no units.
    ignores_files: bool,
    /// The number of code objects so far.
    code_objects: usize,
}

impl Units {
    /// Units of bundles alone, whatever files serve together.
    pub(crate) fn of_bundles() -> Self {
        Self { ignores_files: true, ..Self::default() }
    }

    /// Adds the next bundle of the search, and returns the units that are complete.
    pub(crate) fn add(&mut self, found: &Found<'_>) -> Vec<Unit> {
        let mut complete: Vec<Unit> = self.end_file(Some(found.place)).into_iter().collect();
        complete.extend(self.add_bundle(found));
        complete
    }

    /// Ends the last file, before something at a place.
    fn end_file(&mut self, next: Option<&Place>) -> Option<Unit> {
        let file = self.file.take()?;
        if next != Some(&file.place) {
            return Some(file);
        }
        // More follows in the file, so it is not one bundle.
        file.bundle.is_some().then_some(Unit { directory: None, ..file })
    }

    fn add_bundle(&mut self, found: &Found<'_>) -> Vec<Unit> {
        let first = self.code_objects;
        self.code_objects = first + found.bundle.entries.len();
        let is_file = !self.ignores_files && is_loaded_file(found);
        if found.is_for_some_gpus() && !is_file {
            return Vec::new();
        }
        let Codes { found: codes, unfound, vendors, is_outer } = Codes::of(found);
        if is_outer {
            return Vec::new();
        }
        if is_file {
            let codes = codes.into_iter().map(|held| (first + held.index, held.code)).collect();
            let mut file = Unit { codes, unfound, ..Unit::new(found, vendors) };
            file.directory = Some(directory_of(found.place));
            file.bundle = file.bundle.filter(|_| found.format != Format::CodeObject);
            self.file = Some(file);
            return Vec::new();
        }
        if found.format != Format::OffloadBinary {
            let codes = codes.into_iter().map(|held| (first + held.index, held.code)).collect();
            return vec![Unit { codes, unfound, ..Unit::new(found, vendors) }];
        }
        let is_elsewhere = found.index == 0 || self.open.iter().any(|(_, unit)| unit.place != *found.place);
        let mut complete = if is_elsewhere { self.finish_open(|_| true) } else { Vec::new() };
        if codes.is_empty() && self.open.is_empty() {
            self.open.push((None, Unit::new(found, vendors.clone())));
        }
        for Held { index, kind, code } in codes {
            let same = |(open, unit): &&mut (Option<OffloadKind>, Unit)| {
                open.is_none_or(|open| open == kind) && (open.is_some() || unit.codes.is_empty())
            };
            match self.open.iter_mut().find(same) {
                Some((open, unit)) => {
                    // A second image for the same GPU is from another source file.
                    if unit.codes.iter().any(|(_, other)| *other == code) {
                        complete.push(std::mem::replace(unit, Unit::new(found, vendors.clone())));
                    }
                    *open = Some(kind);
                    unit.vendors.extend(&vendors);
                    unit.codes.push((first + index, code));
                }
                None => {
                    let codes = vec![(first + index, code)];
                    self.open.push((Some(kind), Unit { codes, ..Unit::new(found, vendors.clone()) }));
                }
            }
        }
        complete
    }

    /// The units that were not complete at the places that `is_over` accepts.
    pub(crate) fn finish(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<Unit> {
        let mut complete = self.finish_open(&is_over);
        if self.file.as_ref().is_some_and(|file| is_over(&file.place)) {
            complete.extend(self.end_file(None));
        }
        complete
    }

    fn finish_open(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<Unit> {
        let complete = self.open.extract_if(.., |(_, unit)| is_over(&unit.place));
        complete.map(|(_, unit)| unit).collect()
    }

    /// Whether some units are not complete.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The number of code objects of all bundles so far.
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

    fn kind(names: impl IntoIterator<Item = String>) -> CodeSet {
        let codes = names.into_iter().map(Code::Other).collect();
        CodeSet { vendors: BTreeSet::from([GpuVendor::Amd]), codes, unfound: BTreeSet::new() }
    }

    fn of(targets: &[&str]) -> CodeSet {
        let codes = targets.iter().map(|target| Code::Amd(target.parse().unwrap())).collect();
        CodeSet { codes, ..kind([]) }
    }

    #[test]
    fn merged_files_count_as_one() {
        let (mut first, mut second) = (Coverage::default(), Coverage::default());
        first.count(of(&["gfx906"]), 2);
        second.count(of(&["gfx906"]), 3);
        second.count(of(&["gfx90a"]), 4);
        first.merge(&second);
        assert_eq!(first.bundles(), 9);
        let device = Device::parse("gfx906").unwrap();
        let served = Served { serving: 5, bundles: 9 };
        assert_eq!((first.of(&device), first.of_each(&[device])), (served, Some(vec![served])));
        assert_eq!((served.missing(), served.is_complete()), (4, false));
        assert!(Served { serving: 5, bundles: 5 }.is_complete());
        let names: Vec<_> =
            first.gpus().unwrap().iter().map(|(gpu, served)| (gpu.to_string(), served.serving)).collect();
        assert_eq!(names, [("gfx906".to_owned(), 5), ("gfx90a".to_owned(), 4)]);
        // One that is not complete makes the sum incomplete, whatever is merged later.
        for is_full in [true, false] {
            first.merge(&Coverage { is_full, ..Coverage::default() });
            assert!(first.gpus().is_none());
        }
    }

    #[test]
    fn bundles_without_entries_count_for_every_vendor() {
        let mut coverage = Coverage::default();
        coverage.count(CodeSet { vendors: BTreeSet::new(), ..of(&[]) }, 1);
        coverage.count(of(&["gfx906"]), 1);
        for (gpu, serving, bundles) in [("gfx906", 1, 2), ("sm_90", 0, 1)] {
            assert_eq!(coverage.of(&Device::parse(gpu).unwrap()), Served { serving, bundles }, "{gpu}");
        }
    }

    #[test]
    fn different_sets_of_code_are_counted_up_to_a_limit() {
        let kinds = (0..KINDS_MAX - 1).map(|index| (kind([format!("{index:06}")]), 1));
        let mut coverage = Coverage { bundles: kinds.collect(), ..Coverage::default() };
        for (name, is_full) in [("first", false), ("first", false), ("second", true)] {
            coverage.count(kind([name.to_owned()]), 1);
            assert_eq!((coverage.bundles.len(), coverage.is_full), (KINDS_MAX, is_full), "{name}");
        }
        assert_eq!(coverage.bundles(), KINDS_MAX + 1);
    }

    #[test]
    fn comparisons_are_limited() {
        let mut coverage = Coverage::default();
        coverage.count(kind((0..COMPARISONS_MAX / 10 - 1).map(|index| index.to_string())), 1);
        let devices = vec![Device::parse("gfx906").unwrap(); 11];
        assert!(coverage.of_each(&devices).is_none());
        assert_eq!(coverage.of_each(&devices[..1]), Some(vec![Served { serving: 0, bundles: 1 }]));
    }

    #[test]
    fn a_split_library_is_a_unit_for_each_wrapper() {
        let entry = |target: &str| {
            SearchEntry::new(format!("hipv4-amdgcn-amd-amdhsa--{target}").into_bytes(), Stored::Range(0..1))
        };
        let binary = |key: &str, targets: &[&str]| WrappedBinary {
            key: key.as_bytes().to_vec(),
            entries: targets.iter().map(|target| entry(target)).collect(),
        };
        // Of an archive that does not claim a target, its code is not loaded.
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
            assert_eq!(coverage.of(&Device::parse(gpu).unwrap()), Served { serving, bundles: 3 }, "{gpu}");
        }
    }

    /// Adds a file with an offload binary for each of these members.
    fn add(coverage: &mut Coverage, file: &str, members: &[(&str, &'static [u8])]) {
        let member =
            |(id, content): &(&str, &'static [u8])| Member { id: (*id).to_owned(), content: (*content).into() };
        let members: Vec<_> = members.iter().map(member).collect();
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
    fn offload_binaries_of_a_place_are_put_together() {
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
            files.iter().enumerate().for_each(|(index, members)| add(&mut coverage, &index.to_string(), members));
            let served = coverage.of(&Device::parse("gfx906").unwrap());
            assert_eq!(served, Served { serving, bundles }, "{files:?}");
        }
    }
}
