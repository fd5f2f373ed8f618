//! The GPUs that code serves.
//!
//! A program runs on a GPU if each unit of its libraries that is for GPUs of the vendor serves it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::order::listed_order;
use super::unit::{CodeSet, Unit, UnitRole};
use crate::beyond::limits::COMPARISONS_MAX;
use crate::beyond::runtime::{Code, Device, UnfoundCode};
use crate::beyond::scan::Place;

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
    /// The number of bundles that serve it only with code which is compiled when the program starts (JIT): PTX or
    /// SPIR-V.
    pub jit: usize,
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

    /// Returns the numbers for a table that has them beside the name of the GPU. Names such as `compute_90` and
    /// `spir64` already say that the code is compiled when a program starts, so `jit` is 0 then.
    pub(crate) fn without_implied_jit(self, gpu: &Device) -> Self {
        if gpu.is_by_code() { Self { jit: 0, ..self } } else { self }
    }

    /// Adds the bundles of `count` libraries, which have the numbers `more` each.
    pub(crate) fn add(&mut self, more: Self, count: usize) {
        self.serving = self.serving.saturating_add(more.serving.saturating_mul(count));
        self.bundles = self.bundles.saturating_add(more.bundles.saturating_mul(count));
        self.jit = self.jit.saturating_add(more.jit.saturating_mul(count));
    }
}

/// Writes the numbers as in `2 of 134`, `2 of 134, 1 by JIT`, or `2 of 134 by JIT`.
impl fmt::Display for ServedBundles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { serving, bundles, jit } = self;
        write!(f, "{serving} of {bundles}")?;
        match jit {
            0 => Ok(()),
            _ if jit == serving => f.write_str(" by JIT"),
            _ => write!(f, ", {jit} by JIT"),
        }
    }
}

impl CodeSet {
    /// Returns the numbers of one bundle with this code, which should serve the GPU.
    fn served(&self, device: &Device) -> ServedBundles {
        let is_served = self.serves(device);
        // Most code is machine code, and is not compared a second time.
        let has_jit = self.codes.keys().any(Code::is_jit);
        let is_by_jit = is_served && has_jit && !self.serves_without_jit(device);
        ServedBundles { serving: usize::from(is_served), bundles: 1, jit: usize::from(is_by_jit) }
    }
}

/// The code of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LibraryCode {
    /// The number of units with each set of code. Most units of a library have code for the same GPUs.
    units: BTreeMap<Arc<CodeSet>, usize>,
    /// The relocatable code of each object that was linked into the library.
    relinked: BTreeSet<Arc<CodeSet>>,
}

impl LibraryCode {
    /// Returns the code of the units of a library.
    pub(crate) fn of<'u>(units: impl IntoIterator<Item = &'u Unit>) -> Self {
        let mut library = Self::default();
        for unit in units {
            match unit.role {
                UnitRole::Whole => library.add_whole(Arc::clone(&unit.code)),
                UnitRole::Relinked => _ = library.relinked.insert(Arc::clone(&unit.code)),
                // Code that need not serve every GPU. Device images become one whole unit when the search is over.
                UnitRole::Together | UnitRole::RestInFile | UnitRole::RestInOtherFiles => {}
            }
        }
        library
    }

    fn add_whole(&mut self, code: Arc<CodeSet>) {
        let count = self.units.entry(code).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns whether no code in the library should serve any GPU.
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.relinked.is_empty()
    }

    /// Returns whether the library has relocatable code, and no bundles that may be for GPUs of the same vendor.
    fn has_relinked_alone(&self) -> bool {
        let may_share_vendor = |unit: &Arc<CodeSet>| {
            let shares_vendor = |object: &Arc<CodeSet>| !object.vendors.is_disjoint(&unit.vendors);
            unit.vendors.is_empty() || self.relinked.iter().any(shares_vendor)
        };
        self.has_relinked() && !self.units.keys().any(may_share_vendor)
    }

    /// Returns whether the library has nothing but relocatable code that should serve a GPU.
    pub(crate) fn is_relinked_alone(&self, device: &Device) -> bool {
        self.has_relinked_alone() && self.relinked.iter().any(|code| code.is_for(device))
    }

    /// Returns whether the library has relocatable code.
    pub(crate) fn has_relinked(&self) -> bool {
        !self.relinked.is_empty()
    }

    /// The number of bundles. Relocatable code counts as one bundle if the library has no other bundle for its GPUs.
    fn bundles(&self) -> usize {
        self.units.values().fold(usize::from(self.has_relinked_alone()), |sum, count| sum.saturating_add(*count))
    }

    /// Returns the number of bundles that serve a GPU, and the number that should.
    ///
    /// A linker makes one linked bundle of all relocatable code. So if the driver links the relocatable code for the
    /// GPU, one bundle that does not serve the GPU counts as serving it.
    pub(crate) fn served(&self, device: &Device) -> ServedBundles {
        let mut served = ServedBundles::default();
        for (code, count) in &self.units {
            if code.is_for(device) {
                served.add(code.served(device), *count);
            }
        }
        if self.is_relinked_alone(device) {
            served.bundles = served.bundles.saturating_add(1);
        }
        if !served.is_complete() && self.driver_links_for(device) {
            let by_linking = ServedBundles { serving: 1, bundles: 0, jit: 1 };
            served.add(by_linking, 1);
        }
        served
    }

    /// Returns whether CUDA's driver links the relocatable code for a GPU when the program starts. Every object needs
    /// code for the GPU, and at least one needs PTX, which the driver compiles: it does not link machine code alone, or
    /// LTO-IR.
    pub(crate) fn driver_links_for(&self, device: &Device) -> bool {
        let has_ptx =
            |code: &Arc<CodeSet>| code.codes.keys().any(|code| matches!(code, Code::Ptx(..)) && device.takes(code));
        let serves_all = |object: &Arc<CodeSet>| {
            let linkable = object.codes.keys().filter(|code| !matches!(code, Code::LtoIr(_)));
            device.unserved_variants(linkable).next().is_none()
        };
        self.relinked.iter().any(has_ptx) && self.relinked.iter().all(serves_all)
    }

    /// Returns the code of all units together. Of relocatable code, only the vendors are added.
    pub(crate) fn together(&self) -> CodeSet {
        let mut all = CodeSet::default();
        for code in self.units.keys() {
            all.merge(code);
        }
        for code in &self.relinked {
            all.vendors.extend(&code.vendors);
        }
        all
    }

    /// Returns the sets of code of the units, and of the relocatable code.
    fn sets(&self) -> impl Iterator<Item = &CodeSet> {
        self.units.keys().chain(&self.relinked).map(Arc::as_ref)
    }

    /// Returns the number of comparisons that it takes to compare a GPU with the library. A unit without code costs one
    /// too.
    fn comparisons(&self) -> usize {
        let costs = self.sets().map(|set| set.codes.len().saturating_add(set.unfound.len()).saturating_add(1));
        costs.fold(0, usize::saturating_add)
    }
}

/// The files of a directory that are code objects, bundles or fatbins themselves. They serve GPUs together.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSet {
    /// The code of all files.
    pub(crate) code: CodeSet,
    /// The number of files.
    pub(crate) files: usize,
}

impl FileSet {
    /// Adds a file.
    pub(crate) fn add(&mut self, code: &CodeSet) {
        self.code.merge(code);
        self.files = self.files.saturating_add(1);
    }

    /// Adds the files of another set.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.code.merge(&other.code);
        self.files = self.files.saturating_add(other.files);
    }

    /// Returns the code as that of a library, which is one unit.
    fn library(&self) -> LibraryCode {
        let mut library = LibraryCode::default();
        library.add_whole(Arc::new(self.code.clone()));
        library
    }
}

/// The libraries of some files, by the GPUs that they serve.
///
/// Some code that is not one bundle in the file counts as one bundle here:
///
/// - the offload binaries at one place that have the same source file and offload kind
/// - all code in kpack archives that one wrapper of a library loads
/// - the files of a directory that are code objects, bundles or fatbins themselves: a program loads those for its GPU
/// - the relocatable CUDA code in a linked file that has no other bundles
/// - all device images of a library, all its HCF data, and the code of a SYCLBIN file, because their parts do not
///   record which of them hold the same kernels
///
/// Other code objects without a bundle are not counted, because a single one need not serve every GPU.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The number of libraries with each code.
    libraries: BTreeMap<LibraryCode, usize>,
    /// The files of each directory.
    directories: HashMap<Place, FileSet>,
}

/// A directory whose files serve GPUs together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServedDirectory {
    /// The place: a directory on disk, or a package and a member in it. Names of GPUs in its path are replaced by `*`.
    pub place: Place,
    /// The number of files in it that are code objects, bundles or fatbins themselves.
    pub files: usize,
    /// The GPUs that the files have code for, in the order of their names, and whether the files serve each: 1 of 1 or
    /// 0 of 1. `None` if there are too many to compare.
    pub gpus: Option<Vec<(Device, ServedBundles)>>,
}

impl Coverage {
    /// Returns the coverage of some units of one library.
    pub(crate) fn of_library<'u>(units: impl IntoIterator<Item = &'u Unit>) -> Self {
        let (mut coverage, mut others) = (Self::default(), Vec::new());
        for unit in units {
            match &unit.directory {
                Some(directory) => coverage.add_file(directory, &unit.code),
                None => others.push(unit),
            }
        }
        coverage.add_library(LibraryCode::of(others), 1);
        coverage
    }

    /// Returns the coverage of the files of a directory.
    pub(crate) fn of_files(files: &FileSet) -> Self {
        let mut coverage = Self::default();
        coverage.add_library(files.library(), 1);
        coverage
    }

    /// Adds a file to the others of its directory.
    fn add_file(&mut self, directory: &Place, code: &CodeSet) {
        let mut file = FileSet::default();
        file.add(code);
        self.add_files(directory, &file);
    }

    /// Adds `count` libraries with the same code.
    fn add_library(&mut self, code: LibraryCode, count: usize) {
        if !code.is_empty() {
            let known = self.libraries.entry(code).or_default();
            *known = known.saturating_add(count);
        }
    }

    /// Adds the libraries of other files.
    pub fn merge(&mut self, other: &Self) {
        for (code, count) in &other.libraries {
            self.add_library(code.clone(), *count);
        }
        for (directory, files) in &other.directories {
            self.add_files(directory, files);
        }
    }

    /// Adds files to the other files of their directory.
    pub(crate) fn add_files(&mut self, directory: &Place, files: &FileSet) {
        self.directories.entry(directory.clone()).or_default().merge(files);
    }

    /// Returns the directories whose files serve GPUs together, by their places.
    pub fn served_directories(&self) -> Vec<ServedDirectory> {
        let mut directories = Vec::new();
        for (place, files) in &self.directories {
            let gpus = Self::of_files(files).gpus();
            directories.push(ServedDirectory { place: place.clone(), files: files.files, gpus });
        }
        directories.sort_by_cached_key(|directory| directory.place.to_string());
        directories
    }

    /// Returns all different libraries, each with the number of libraries that have the same code. A directory whose
    /// files serve GPUs together counts as a library.
    fn counted_libraries(&self) -> Vec<(Cow<'_, LibraryCode>, usize)> {
        let libraries = self.libraries.iter().map(|(code, count)| (Cow::Borrowed(code), *count));
        let directories = self.directories.values().map(|files| (Cow::Owned(files.library()), 1));
        libraries.chain(directories).collect()
    }

    /// Returns the number of comparisons that it takes to compare a GPU with all libraries.
    pub(super) fn comparisons(&self) -> usize {
        comparisons_in(&self.counted_libraries())
    }

    /// The number of bundles.
    pub fn bundles(&self) -> usize {
        let counts = self.libraries.iter().map(|(code, count)| code.bundles().saturating_mul(*count));
        counts.fold(self.directories.len(), usize::saturating_add)
    }

    /// Returns the number of bundles that serve a GPU, and the number that should.
    pub fn served(&self, device: &Device) -> ServedBundles {
        served_in(&self.counted_libraries(), device)
    }

    /// Describes the code that runtimes do not find or load: a sentence for each entry ID, with the reason.
    pub fn unfound(&self) -> Vec<String> {
        let mut unfound = BTreeSet::new();
        for (library, _) in self.counted_libraries() {
            unfound.extend(library.units.keys().flat_map(|set| &set.unfound).map(UnfoundCode::to_string));
        }
        unfound.into_iter().collect()
    }

    /// Returns for each of some GPUs the number of bundles that serve it, and the number that should. Returns `None` if
    /// there are too many bundles or GPUs to compare.
    pub fn served_each(&self, devices: &[Device]) -> Option<Vec<ServedBundles>> {
        served_each_in(&self.counted_libraries(), devices)
    }

    /// Returns the GPUs that any bundle has code for, with the number of bundles that serve each: 0 if the runtime does
    /// not find the code. They are in the order of their names, PTX and SPIR-V last. Returns `None` if there are too
    /// many to compare.
    pub fn gpus(&self) -> Option<Vec<(Device, ServedBundles)>> {
        let libraries = self.counted_libraries();
        let mut codes: HashSet<&Code> = HashSet::new();
        for set in libraries.iter().flat_map(|(library, _)| library.sets()) {
            codes.extend(set.codes.keys());
            codes.extend(set.unfound.iter().map(|unfound| &unfound.code));
        }
        let mut by_name = BTreeMap::new();
        for device in codes.into_iter().filter_map(Device::from_code) {
            by_name.insert(device.name().to_owned(), device);
        }
        let devices: Vec<Device> = by_name.into_values().collect();
        let served = served_each_in(&libraries, &devices)?;
        let mut gpus: Vec<(Device, ServedBundles)> = devices.into_iter().zip(served).collect();
        gpus.sort_by_cached_key(|(gpu, _)| listed_order(gpu.name()));
        Some(gpus)
    }
}

/// As [`Coverage::served_each`]. Each library has the number of libraries with the same code.
fn served_each_in(libraries: &[(Cow<'_, LibraryCode>, usize)], devices: &[Device]) -> Option<Vec<ServedBundles>> {
    if !can_compare(devices.len(), comparisons_in(libraries)) {
        return None;
    }
    Some(devices.iter().map(|device| served_in(libraries, device)).collect())
}

/// Returns whether this number of GPUs can be compared in reasonable time, if each takes this number of comparisons.
pub(super) fn can_compare(gpus: usize, comparisons: usize) -> bool {
    gpus.saturating_mul(comparisons) <= COMPARISONS_MAX
}

/// As [`Coverage::comparisons`].
fn comparisons_in(libraries: &[(Cow<'_, LibraryCode>, usize)]) -> usize {
    libraries.iter().map(|(library, _)| library.comparisons()).fold(0, usize::saturating_add)
}

/// As [`Coverage::served`]. Each library has the number of libraries with the same code.
fn served_in(libraries: &[(Cow<'_, LibraryCode>, usize)], device: &Device) -> ServedBundles {
    let mut served = ServedBundles::default();
    for (library, count) in libraries {
        served.add(library.served(device), *count);
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::{Input, write_to};
    use crate::beyond::container::kpack::{KpackArchive, Reference, WrappedBinary};
    use crate::beyond::container::{SearchEntry, Stored};
    use crate::beyond::inventory::UnitRole::{self, Relinked, Whole};
    use crate::beyond::inventory::tests::unit;
    use crate::beyond::inventory::{Contents, Units};
    use crate::beyond::runtime::GpuVendor;
    use crate::beyond::scan::{Followed, Scan, Split};
    use crate::llvm::container::Member;
    use crate::llvm::container::offload_binary::OffloadBinary;

    fn other_codes(names: impl IntoIterator<Item = String>) -> CodeSet {
        let codes = names.into_iter().map(|name| (Code::Other(name), 0)).collect();
        CodeSet { vendors: BTreeSet::from([GpuVendor::Amd]), codes, unfound: BTreeSet::new() }
    }

    fn amd_codes(targets: &[&str]) -> CodeSet {
        let codes = targets.iter().map(|target| (Code::Amd(target.parse().unwrap()), 0)).collect();
        CodeSet { codes, ..other_codes([]) }
    }

    /// Adds libraries with one bundle each.
    fn count(coverage: &mut Coverage, code: CodeSet, libraries: usize) {
        let mut library = LibraryCode::default();
        library.add_whole(Arc::new(code));
        coverage.add_library(library, libraries);
    }

    #[test]
    fn merged_files_count_as_one() {
        let (mut first, mut second) = (Coverage::default(), Coverage::default());
        count(&mut first, amd_codes(&["gfx906"]), 2);
        count(&mut second, amd_codes(&["gfx906"]), 3);
        count(&mut second, amd_codes(&["gfx90a"]), 4);
        first.merge(&second);
        assert_eq!(first.bundles(), 9);
        let device = Device::parse("gfx906").unwrap();
        let served = ServedBundles { serving: 5, bundles: 9, jit: 0 };
        assert_eq!((first.served(&device), first.served_each(&[device])), (served, Some(vec![served])));
        assert_eq!((served.missing(), served.is_complete()), (4, false));
        assert!(ServedBundles { serving: 5, bundles: 5, jit: 0 }.is_complete());
        let names: Vec<_> =
            first.gpus().unwrap().iter().map(|(gpu, served)| (gpu.to_string(), served.serving)).collect();
        assert_eq!(names, [("gfx906".to_owned(), 5), ("gfx90a".to_owned(), 4)]);
    }

    #[test]
    fn code_that_is_compiled_at_start_is_told_from_machine_code() {
        type Units = &'static [(UnitRole, &'static str)];
        let cases: [(Units, &str, &str, &str); 11] = [
            (&[(Whole, "sm_80"), (Whole, "sm_80")], "sm_86", "2 of 2", "2 of 2"),
            (&[(Whole, "sm_80"), (Whole, "compute_80")], "sm_80", "2 of 2, 1 by JIT", "1 of 2"),
            (&[(Whole, "sm_80 compute_80"), (Whole, "compute_80")], "sm_90", "2 of 2 by JIT", "0 of 2"),
            (&[(Whole, "sm_80 compute_80"), (Whole, "sm_80")], "sm_90", "1 of 2 by JIT", "0 of 2"),
            (&[(Whole, "sm_80")], "sm_75", "0 of 1", "0 of 1"),
            // A linker makes one bundle of relocatable code.
            (&[(Whole, "sm_75"), (Whole, "sm_90"), (Relinked, "compute_80")], "sm_90", "2 of 2, 1 by JIT", "1 of 2"),
            (&[(Relinked, "compute_80")], "sm_90", "1 of 1 by JIT", "0 of 1"),
            (&[(Whole, "gfx906 amdgcnspirv"), (Whole, "amdgcnspirv")], "gfx906", "2 of 2, 1 by JIT", "1 of 2"),
            // SPIR-V serves the other setting of XNACK.
            (&[(Whole, "gfx90a:xnack- amdgcnspirv")], "gfx90a", "1 of 1 by JIT", "0 of 1"),
            (&[(Whole, "gfx90a:xnack- amdgcnspirv")], "gfx90a:xnack-", "1 of 1", "1 of 1"),
            (&[(Whole, "gfx11-generic")], "gfx1100", "1 of 1", "1 of 1"),
        ];
        for (units, gpu, served, without_jit) in cases {
            let units: Vec<_> = units.iter().map(|(role, targets)| unit("lib.so", *role, targets)).collect();
            let (library, device) = (LibraryCode::of(&units), Device::parse(gpu).unwrap());
            assert_eq!(library.served(&device).to_string(), served, "{gpu}");
            assert_eq!(library.served(&device.without_jit().unwrap()).to_string(), without_jit, "{gpu}");
        }
        for by_code in ["compute_80", "amdgcnspirv", "ptx", "lto_90"] {
            assert_eq!(Device::parse(by_code).unwrap().without_jit(), None);
        }
    }

    #[test]
    fn bundles_without_entries_count_for_every_vendor() {
        let mut coverage = Coverage::default();
        count(&mut coverage, CodeSet { vendors: BTreeSet::new(), ..amd_codes(&[]) }, 1);
        count(&mut coverage, amd_codes(&["gfx906"]), 1);
        for (gpu, serving, bundles) in [("gfx906", 1, 2), ("sm_90", 0, 1)] {
            assert_eq!(
                coverage.served(&Device::parse(gpu).unwrap()),
                ServedBundles { serving, bundles, jit: 0 },
                "{gpu}"
            );
        }
    }

    #[test]
    fn comparisons_are_limited() {
        let mut coverage = Coverage::default();
        count(&mut coverage, other_codes((0..COMPARISONS_MAX / 10 - 1).map(|index| index.to_string())), 1);
        let devices = vec![Device::parse("gfx906").unwrap(); 11];
        assert!(coverage.served_each(&devices).is_none());
        assert_eq!(coverage.served_each(&devices[..1]), Some(vec![ServedBundles { serving: 0, bundles: 1, jit: 0 }]));
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
        let place = Place::of_file("lib.so".as_ref());
        let coverage_of = |archives| {
            let mut units = Units::default();
            units.add_split(&place, &Split { reference: &reference, indices: &[0, 1, 2, 1], archives });
            Coverage::of_library(&units.finish())
        };
        assert_eq!(coverage_of(None).bundles(), 0);
        let coverage = coverage_of(Some(&archives[..]));
        for (gpu, serving) in [("gfx906", 2), ("gfx90a", 1), ("gfx1030", 0)] {
            assert_eq!(
                coverage.served(&Device::parse(gpu).unwrap()),
                ServedBundles { serving, bundles: 3, jit: 0 },
                "{gpu}"
            );
        }
    }

    /// Adds a file with an offload binary for each of these members.
    fn add(coverage: &mut Coverage, file: &str, members: &[(&str, &'static [u8])]) {
        let members: Vec<_> =
            members.iter().map(|(id, content)| Member { id: (*id).to_owned(), content: (*content).into() }).collect();
        let mut data = Vec::new();
        write_to(&OffloadBinary::default().plan(&members).unwrap(), &mut data).unwrap();
        let contents = Contents::read(&Input::from_bytes(file, data), &Scan::default()).unwrap();
        coverage.merge(&contents.coverage());
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
            assert_eq!(served, ServedBundles { serving, bundles, jit: 0 }, "{files:?}");
        }
    }
}
