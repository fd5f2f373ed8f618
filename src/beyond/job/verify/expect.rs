//! Checks that bundles serve the expected GPUs.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::{Fault, Verified, VerifyRule};
use crate::base::display::listed;
use crate::base::io::input::Input;
use crate::beyond::runtime::{BundleCodes, Code, CodeSet, Device, FileSet, LoadUnit, LoadUnits, directory_of};
use crate::beyond::scan::{self, FoundBundle, Place, Split, Step};

/// The GPUs that a file has to serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expect {
    /// The GPUs.
    pub devices: Vec<Device>,
    /// The parts of the file that must serve them.
    pub extent: ExpectExtent,
}

/// The parts of a file that must serve the expected GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectExtent {
    /// Every bundle.
    Bundles,
    /// Every bundle. Code that no runtime loads for any of these GPUs is a fault.
    Exactly,
    /// Every library, with some of its bundles, because each source may be built for other GPUs. A library is a file or
    /// a member. Members of static libraries (`.a`, `.lib`) count together.
    Libraries,
}

/// The number of GPUs that the text of a fault lists.
const LISTED_MAX: usize = 16;

impl Expect {
    /// Expects all bundles to serve some GPUs.
    pub fn new(devices: Vec<Device>) -> Self {
        Self { devices, extent: ExpectExtent::Bundles }
    }

    /// Expects all bundles to serve all of these GPUs, and to hold no other code than their runtimes load.
    pub fn exactly(devices: Vec<Device>) -> Self {
        Self { devices, extent: ExpectExtent::Exactly }
    }

    /// Expects every library to serve all of these GPUs, each with at least one of its bundles.
    pub fn libraries(devices: Vec<Device>) -> Self {
        Self { devices, extent: ExpectExtent::Libraries }
    }

    fn is_exact(&self) -> bool {
        self.extent == ExpectExtent::Exactly
    }
}

/// Compares the code of a file with the expected GPUs, unit by unit: a [`LoadUnit`] has the code objects of which a
/// program loads one.
pub(super) struct ExpectComparison<'e> {
    expect: &'e Expect,
    input: &'e Input,
    /// The source files of the bundles in the file, by the offsets of the bundles. They are read when a fault needs
    /// them.
    sources: OnceCell<HashMap<u64, String>>,
    /// The units that are not complete yet.
    units: LoadUnits,
    /// The code of the last unit, and its mismatches, which are reused for equal code.
    last: Option<(CodeSet, Vec<Mismatch>)>,
    /// The place of the last unit.
    place: Option<Place>,
    /// The library of the last unit, and all code of the library.
    library: Option<(Place, LibraryCode)>,
    /// Whether a library lacks code for a GPU in all of its bundles.
    has_unserved_library: bool,
    /// The positions of the GPUs that any code in the file serves.
    served: BTreeSet<usize>,
    /// The files of directories in packages, in the order of the first file of each.
    directories: ServingDirectories,
}

impl<'e> ExpectComparison<'e> {
    pub(super) fn new(expect: &'e Expect, input: &'e Input) -> Self {
        let (sources, units, served) = (OnceCell::new(), LoadUnits::default(), BTreeSet::new());
        let (last, place, library, directories) = (None, None, None, ServingDirectories::default());
        Self { expect, input, sources, units, last, place, library, has_unserved_library: false, served, directories }
    }

    /// Compares a bundle, and units that it completes. A bundle that need not serve every GPU is compared only here,
    /// and not as a unit.
    pub(super) fn compare_bundle(&mut self, found: &FoundBundle<'_>, verified: &mut Verified) {
        self.finish_before(found.place, verified);
        if found.is_for_some_gpus() {
            let codes = BundleCodes::of(found);
            let vendors = codes.vendors.clone();
            let codes: BTreeSet<Code> = codes.into_codes().into_iter().collect();
            if found.is_relinked() {
                let set = CodeSet { vendors, codes: codes.clone(), ..CodeSet::default() };
                self.add_relinked(found.place, set, verified);
            } else {
                self.note_served(&codes);
            }
            for code in &codes {
                if self.expect.is_exact() && !self.is_taken(code) {
                    let (bundle, offset) = (Some(found.index), Some(found.bundle.offset));
                    verified.list(Fault { bundle, offset, ..Mismatch::unexpected(code).fault(found.place) });
                }
            }
        }
        for unit in self.units.add(found) {
            self.compare_unit(unit, verified);
        }
    }

    /// Compares a split library.
    pub(super) fn compare_split(&mut self, place: &Place, split: &Split<'_>, verified: &mut Verified) {
        self.finish_before(place, verified);
        for unit in LoadUnit::of_split(place, split) {
            self.compare_unit(unit, verified);
        }
    }

    /// Compares the units that end before `place`, because nothing there belongs to them. So all units of a library are
    /// compared before those of the next library.
    fn finish_before(&mut self, place: &Place, verified: &mut Verified) {
        for unit in self.units.finish_places(|place_of_unit| !place.steps().starts_with(place_of_unit.steps())) {
            self.compare_unit(unit, verified);
        }
    }

    /// Compares the units that end with the file, and adds the results that are known only at the end.
    pub(super) fn finish(mut self, verified: &mut Verified) {
        // Nothing follows, so the units at all places end.
        for unit in self.units.finish_all() {
            self.compare_unit(unit, verified);
        }
        self.finish_library(verified);
        // The directories of the file, such as those of a wheel, are complete now.
        for fault in std::mem::take(&mut self.directories).faults(self.expect) {
            self.has_unserved_library = true;
            verified.list(fault);
        }
        verified.is_served_by_libraries = !self.has_unserved_library;
        for (index, device) in self.expect.devices.iter().enumerate() {
            if self.served.contains(&index) {
                verified.served.push(device.name().to_owned());
            }
        }
    }

    /// Notes the GPUs that some code serves.
    fn note_served(&mut self, codes: &BTreeSet<Code>) {
        for (index, device) in self.expect.devices.iter().enumerate() {
            if !self.served.contains(&index) && codes.iter().any(|code| device.takes(code)) {
                self.served.insert(index);
            }
        }
    }

    /// Returns whether any expected GPU could take some code.
    fn is_taken(&self, code: &Code) -> bool {
        self.expect.devices.iter().any(|device| device.takes(code))
    }

    /// Compares a file that serves GPUs together with the others in its directory. If this is the input itself, the
    /// others are other inputs: the faults are those of the file alone, until an [`ExpectTree`] merges the results.
    fn compare_file(&mut self, unit: &LoadUnit, directory: &Place, verified: &mut Verified) {
        let set = unit.set();
        self.note_served(&set.codes);
        if unit.bundle.is_some() {
            // Unexpected code does not depend on the other files.
            for mismatch in self.find_mismatches(&set, &unit.codes) {
                if mismatch.rule == VerifyRule::Unexpected {
                    verified.list(MismatchedBundle::of_unit(unit).fault(&mismatch));
                }
            }
        }
        if unit.place.steps().is_empty() {
            // The file is the input itself.
            let mut alone = ServingDirectories::default();
            alone.add(directory, unit);
            for fault in alone.clone().faults(self.expect) {
                self.has_unserved_library = true;
                verified.list(Fault { is_of_file_alone: true, ..fault });
            }
            verified.directories = alone;
        } else {
            self.directories.add(directory, unit);
        }
    }

    /// Compares a unit, and lists its faults.
    fn compare_unit(&mut self, unit: LoadUnit, verified: &mut Verified) {
        if let Some(directory) = &unit.directory {
            return self.compare_file(&unit, directory, verified);
        }
        let set = unit.set();
        // Bundles of a library mostly have code for the same GPUs, so the work for equal code is done once.
        let is_new = match &self.last {
            Some((last, _)) => *last != set,
            None => true,
        };
        let is_elsewhere = self.place.as_ref() != Some(&unit.place);
        if is_new || is_elsewhere {
            self.add_to_library(unit.place.library(), &set, verified);
        }
        if is_elsewhere {
            self.place = Some(unit.place.clone());
        }
        if is_new {
            self.note_served(&set.codes);
            // Only whole libraries have mismatches then.
            let is_by_library = self.expect.extent == ExpectExtent::Libraries;
            let mismatches = if is_by_library { Vec::new() } else { self.find_mismatches(&set, &unit.codes) };
            self.last = Some((set, mismatches));
        }
        let Some((set, mismatches)) = &self.last else { return };
        if mismatches.is_empty() {
            return;
        }
        let source = unit.source.or_else(|| self.source_of(&unit.place, unit.bundle));
        let bundle = MismatchedBundle { place: unit.place, bundle: unit.bundle, source };
        for mismatch in mismatches {
            let position = verified.faults.len();
            verified.list(bundle.fault(mismatch));
            // The fault of a bundle without code may get a remark when the whole library is known.
            if set.codes.is_empty()
                && verified.faults.len() > position
                && let Some((_, library)) = &mut self.library
            {
                library.faults_of_empty.push(position);
            }
        }
    }

    /// Adds the code of a unit to its library.
    fn add_to_library(&mut self, library: Place, set: &CodeSet, verified: &mut Verified) {
        let code = self.code_of_library(library, verified);
        code.has_bundles = true;
        code.bundles.merge(set);
    }

    /// Adds the relocatable code of an object to the library that it was linked into.
    fn add_relinked(&mut self, place: &Place, set: CodeSet, verified: &mut Verified) {
        let code = self.code_of_library(place.library(), verified);
        code.bundles.vendors.extend(set.vendors);
        let mut codes = set.codes;
        // The driver does not link LTO-IR.
        codes.retain(|code| !matches!(code, Code::LtoIr(_)));
        code.relinked.insert(codes);
    }

    /// Returns the code so far of the library at `library`. If another library came before, lists its faults first.
    fn code_of_library(&mut self, library: Place, verified: &mut Verified) -> &mut LibraryCode {
        if let Some((last, _)) = &self.library
            && *last != library
        {
            self.finish_library(verified);
        }
        let (_, code) = self.library.get_or_insert_with(|| (library, LibraryCode::default()));
        code
    }

    /// Ends the last library. Lists its faults if libraries count as a whole, or if it has only relocatable code.
    fn finish_library(&mut self, verified: &mut Verified) {
        let Some((library, code)) = self.library.take() else { return };
        let mut mismatches = self.find_mismatches(&code.bundles, &[]);
        for (index, device) in self.expect.devices.iter().enumerate() {
            if code.is_relinked_for(device) {
                self.served.insert(index);
                // The driver links the code, so it is not missing.
                mismatches.retain(|mismatch| mismatch.gpu != device.name());
            }
        }
        if !code.relinked.is_empty() {
            let only_ptx = "; the driver links its relocatable code for another GPU only if that has PTX";
            for mismatch in &mut mismatches {
                mismatch.text += only_ptx;
            }
        }
        code.note_served_elsewhere(&mismatches, verified);
        self.has_unserved_library |= !mismatches.is_empty();
        if self.expect.extent == ExpectExtent::Libraries || !code.has_bundles {
            for mismatch in &mismatches {
                verified.list(mismatch.fault(&library));
            }
        }
    }

    /// Returns the mismatches between the code of one bundle or several and the expected GPUs. `codes` has the code of
    /// a bundle with positions, for what is unexpected in it, and is empty for a library.
    fn find_mismatches(&self, set: &CodeSet, codes: &[(usize, Code)]) -> Vec<Mismatch> {
        let devices = &self.expect.devices;
        let mut mismatches = find_unserved(set, "", devices);
        if self.expect.is_exact() {
            // A runtime chooses among all code of the bundle, so code that it could take may be unexpected too.
            let chosen: BTreeSet<usize> = devices.iter().flat_map(|device| device.choose(codes)).collect();
            let mut unexpected = BTreeSet::new();
            for (position, code) in codes {
                if !chosen.contains(position) && !devices.iter().any(|device| device.name() == code.name()) {
                    unexpected.insert(code);
                }
            }
            mismatches.extend(unexpected.into_iter().map(Mismatch::unexpected));
        }
        mismatches
    }

    /// Returns the source file of a bundle in a section of the file, or `None` if the symbol table does not have it.
    fn source_of(&self, place: &Place, bundle: Option<(usize, u64)>) -> Option<String> {
        let [Step::Section(_)] = place.steps() else { return None };
        let (_, offset) = bundle?;
        self.sources.get_or_init(|| scan::source_files(self.input.bytes())).get(&offset).cloned()
    }
}

/// Returns a mismatch for each expected GPU that some code does not serve. `place` is added in the text to the list of
/// GPUs that the code is for.
fn find_unserved(set: &CodeSet, place: &str, devices: &[Device]) -> Vec<Mismatch> {
    // The list is made only for the first mismatch.
    let code_text = LazyCell::new(|| describe_code(&set.codes));
    let mut mismatches = Vec::new();
    for device in devices {
        if set.is_for(device)
            && let Some(unserved) = describe_unserved(device, &set.codes)
        {
            let text = format!("{unserved}; {}{place}{}", *code_text, describe_unfound(device, set));
            mismatches.push(Mismatch { rule: VerifyRule::Expected, gpu: device.name().to_owned(), text });
        }
    }
    mismatches
}

/// Directories whose files serve GPUs together. They are checked when all files are known.
#[derive(Clone, Debug, Default)]
pub(super) struct ServingDirectories {
    /// The positions in the list, by the place of the directory.
    known: HashMap<Place, usize>,
    all: Vec<ServingDirectory>,
}

#[derive(Clone, Debug)]
struct ServingDirectory {
    place: Place,
    /// The first file, which has the faults if it is the only one.
    first: MismatchedBundle,
    files: FileSet,
}

/// A bundle with a mismatch, for its faults.
#[derive(Clone, Debug)]
struct MismatchedBundle {
    place: Place,
    /// The index and the offset of the bundle, or `None` if there are several.
    bundle: Option<(usize, u64)>,
    source: Option<String>,
}

impl MismatchedBundle {
    fn of_unit(unit: &LoadUnit) -> Self {
        Self { place: unit.place.clone(), bundle: unit.bundle, source: unit.source.clone() }
    }

    fn fault(&self, mismatch: &Mismatch) -> Fault {
        let mut fault = mismatch.fault(&self.place);
        (fault.bundle, fault.offset) = self.bundle.unzip();
        if let Some(source) = &self.source {
            fault.text += &format!("; its source is '{source}'");
            fault.source = Some(source.clone());
        }
        fault
    }
}

impl ServingDirectories {
    /// Returns the directory at a place. If it is new, `first` is its first file.
    fn entry(&mut self, place: &Place, first: &MismatchedBundle) -> Option<&mut ServingDirectory> {
        let next = self.all.len();
        let position = *self.known.entry(place.clone()).or_insert(next);
        if position == next {
            self.all.push(ServingDirectory { place: place.clone(), first: first.clone(), files: FileSet::default() });
        }
        self.all.get_mut(position)
    }

    fn add(&mut self, place: &Place, file: &LoadUnit) {
        if let Some(directory) = self.entry(place, &MismatchedBundle::of_unit(file)) {
            directory.files.add(file);
        }
    }

    fn merge(&mut self, other: Self) {
        for more in other.all {
            if let Some(directory) = self.entry(&more.place, &more.first) {
                directory.files.merge(&more.files);
            }
        }
    }

    /// Returns the faults of directories without code for a GPU that they should serve.
    fn faults(self, expect: &Expect) -> Vec<Fault> {
        let mut faults = Vec::new();
        for ServingDirectory { place, first, files: FileSet { code, files } } in self.all {
            if files == 1 {
                let mismatches = find_unserved(&code, "", &expect.devices);
                faults.extend(mismatches.iter().map(|mismatch| first.fault(mismatch)));
            } else {
                let mismatches = find_unserved(&code, &format!(" in {files} files"), &expect.devices);
                faults.extend(mismatches.iter().map(|mismatch| mismatch.fault(&place)));
            }
        }
        faults
    }
}

/// The files of a tree that serve GPUs together: the code objects, bundles and fatbins in the same directory. Each
/// [`Verified`] has the result for a file as if it were alone. A tree compares the files of each directory together.
#[derive(Clone, Debug)]
pub struct ExpectTree {
    expect: Expect,
    /// The number of all files in each directory.
    files: HashMap<Place, usize>,
    directories: ServingDirectories,
}

impl ExpectTree {
    /// Creates a tree of these files. Their results must be added.
    pub fn new<'p>(expect: Expect, paths: impl Iterator<Item = &'p Path>) -> Self {
        let mut files = HashMap::new();
        for path in paths {
            let number: &mut usize = files.entry(directory_of(&Place::of_file(path))).or_default();
            *number = number.saturating_add(1);
        }
        Self { expect, files, directories: ServingDirectories::default() }
    }

    /// Adds the result for a file. Faults that other files of its directory may correct are removed, and found again
    /// when all files are added.
    pub fn add(&mut self, verified: &mut Verified) {
        let directory = directory_of(&Place::of_file(&verified.path));
        if let Some(files) = self.files.get(&directory)
            && *files > 1
        {
            verified.faults.retain(|fault| !fault.is_of_file_alone);
            self.directories.merge(std::mem::take(&mut verified.directories));
        }
    }

    /// Returns the faults of all files together.
    pub fn faults(self) -> Vec<Fault> {
        self.directories.faults(&self.expect)
    }
}

/// The code of a library.
#[derive(Default)]
struct LibraryCode {
    /// The code of all of its bundles.
    bundles: CodeSet,
    has_bundles: bool,
    /// The relocatable code of each of its objects, before it was linked. Equal code of several objects is kept once.
    relinked: BTreeSet<BTreeSet<Code>>,
    /// The positions of the listed faults of bundles without any code, such as fatbins that `recompress --keep-for` has
    /// emptied because none of their code was for the GPUs.
    faults_of_empty: Vec<usize>,
}

impl LibraryCode {
    /// Adds a remark to the faults of bundles without code: other code of the library serves the GPU of the fault.
    /// Leaves out GPUs that the library as a whole lacks code for.
    fn note_served_elsewhere(&self, of_library: &[Mismatch], verified: &mut Verified) {
        for &position in &self.faults_of_empty {
            let Some(fault) = verified.faults.get_mut(position) else { continue };
            let is_lacking = of_library.iter().any(|mismatch| Some(&mismatch.gpu) == fault.gpu.as_ref());
            if !is_lacking {
                fault.text +=
                    &format!(", but other code of its library serves {}", fault.gpu.as_deref().unwrap_or_default());
            }
        }
    }

    /// Returns whether CUDA's driver links the relocatable code for a GPU when the program starts. For this, at least
    /// one object needs PTX, which the driver compiles, and every object needs code for the GPU. Machine code alone is
    /// not linked then.
    fn is_relinked_for(&self, device: &Device) -> bool {
        self.relinked.iter().any(|codes| has_ptx_for(device, codes))
            && self.relinked.iter().all(|codes| device.unserved_variants(codes.iter()).next().is_none())
    }
}

fn has_ptx_for(device: &Device, codes: &BTreeSet<Code>) -> bool {
    codes.iter().any(|code| matches!(code, Code::Ptx(_)) && device.takes(code))
}

/// A mismatch of a bundle: code for an expected GPU is missing, or code for another GPU is present.
#[derive(Debug)]
struct Mismatch {
    rule: VerifyRule,
    gpu: String,
    text: String,
}

impl Mismatch {
    fn unexpected(code: &Code) -> Self {
        let text = format!("it has code for {}, which no expected GPU needs", code.name());
        Self { rule: VerifyRule::Unexpected, gpu: code.name(), text }
    }

    fn fault(&self, place: &Place) -> Fault {
        Fault { gpu: Some(self.gpu.clone()), ..Fault::new(place, self.rule, self.text.clone()) }
    }
}

/// Describes which settings of a GPU some code does not serve, or returns `None` if the code serves all.
fn describe_unserved(device: &Device, codes: &BTreeSet<Code>) -> Option<String> {
    let unserved: Vec<Vec<String>> = device.unserved_variants(codes.iter()).map(|setting| setting.features()).collect();
    let first = unserved.first()?;
    if unserved.len() == device.variant_count() {
        return Some(device.describe_lack());
    }
    // If code is missing for some settings only, the text names the features that all of these settings share.
    let mut shared = Vec::new();
    for feature in first {
        if unserved.iter().all(|other| other.contains(feature)) {
            shared.push(feature.as_str());
        }
    }
    let with = if shared.is_empty() { "some settings".to_owned() } else { shared.join(" and ") };
    Some(format!("it does not serve {device} with {with}"))
}

/// Describes code for a GPU that a runtime does not find, as the end of a sentence. Empty if there is no such code.
fn describe_unfound(device: &Device, set: &CodeSet) -> String {
    match set.unfound.iter().find(|unfound| device.takes(&unfound.code)) {
        Some(unfound) => format!("; {unfound}"),
        None => String::new(),
    }
}

/// Describes the GPUs that a bundle has code for.
fn describe_code(codes: &BTreeSet<Code>) -> String {
    match codes.iter().map(Code::name).collect::<BTreeSet<String>>() {
        names if names.is_empty() => "it has no code for any GPU".to_owned(),
        names => format!("it has code for {}", listed(names, LISTED_MAX, ", ", ", and ")),
    }
}
