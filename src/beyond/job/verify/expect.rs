//! Checks that bundles serve the expected GPUs.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::{Alone, Fault, Verified, VerifyRule};
use crate::base::io::input::Input;
use crate::beyond::base::text::listed;
use crate::beyond::runtime::{
    BundleCodes, Code, CodeSet, CodeUse, Device, FileSet, LoadUnit, LoadUnits, NeedingGpus, directory_of,
};
use crate::beyond::scan::{self, Format, FoundBundle, Place, Split, Step};

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

    /// Expects all bundles to serve all of these GPUs, and to hold no other code than
    /// [`keep_for`](super::super::Recompress::keep_for) keeps for them.
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

/// Compares the code of a file with the expected GPUs, unit by unit. A [`LoadUnit`] is a set of code objects, such as a
/// bundle: a program loads one of them, for its GPU.
pub(super) struct ExpectComparison<'e> {
    expect: &'e Expect,
    /// The expected GPUs, to find code that none of them needs.
    needing: NeedingGpus,
    input: &'e Input,
    /// The source files of the bundles in the file, by the offsets of the bundles. They are read when a fault needs
    /// them.
    sources: OnceCell<HashMap<u64, String>>,
    /// The units that are not complete yet.
    units: LoadUnits,
    /// The code of the last unit with its use, and its mismatches, which are reused for equal code.
    last_code: Option<((CodeSet, CodeUse), Vec<Mismatch>)>,
    /// The place of the last unit.
    last_place: Option<Place>,
    /// The library of the last unit, and all code of the library so far.
    library: Option<(Place, LibraryCode)>,
    /// Whether none of the bundles of some library serves some expected GPU.
    has_unserved_library: bool,
    /// The indices of the expected GPUs that any code in the file serves.
    served: BTreeSet<usize>,
    /// The code with which the file serves GPUs on its own.
    of_file: CodeSet,
    /// The files of directories in packages, in the order of the first file of each.
    directories: ServingDirectories,
}

impl<'e> ExpectComparison<'e> {
    pub(super) fn new(expect: &'e Expect, input: &'e Input) -> Self {
        let (sources, units, served) = (OnceCell::new(), LoadUnits::default(), BTreeSet::new());
        let (last_code, last_place, library) = (None, None, None);
        let (directories, of_file, has_unserved_library) = (ServingDirectories::default(), CodeSet::default(), false);
        Self {
            expect,
            needing: NeedingGpus::new(&expect.devices),
            input,
            sources,
            units,
            last_code,
            last_place,
            library,
            has_unserved_library,
            served,
            of_file,
            directories,
        }
    }

    /// Adds the next bundle of the search, and compares the units that it completes.
    pub(super) fn compare_bundle(&mut self, found: &FoundBundle<'_>, verified: &mut Verified) {
        self.compare_units_before(found.place, verified);
        if found.is_for_some_gpus() {
            self.compare_bundle_for_some_gpus(found, verified);
        }
        // Such a bundle is no unit, except for a file that serves together with the other files of its directory.
        for unit in self.units.add(found) {
            self.compare_unit(unit, verified);
        }
    }

    /// Compares a bundle that need not serve every expected GPU, and so is not a unit. With [`ExpectExtent::Exactly`],
    /// code that no expected GPU takes is a fault in this bundle too.
    fn compare_bundle_for_some_gpus(&mut self, found: &FoundBundle<'_>, verified: &mut Verified) {
        let codes = BundleCodes::of(found);
        let vendors = codes.vendors.clone();
        let unfound = codes.unfound.iter().map(|(_, unfound)| unfound.clone()).collect();
        let set = CodeSet { vendors, codes: codes.into_codes().into_iter().collect(), unfound };
        if !found.is_relinked() {
            self.note_served(&set.codes);
        }
        // Other files may have the code for the rest of the GPUs: other kpack archives of a library, or other files
        // like this one.
        let is_input = found.is_file() && found.place.steps().is_empty();
        if found.format != Format::Kpack && !is_input {
            self.of_file.merge(&set);
        }
        for code in &set.codes {
            if self.expect.is_exact() && !self.needing.takes(code) {
                let (bundle, offset) = (Some(found.index), Some(found.bundle.offset));
                verified.list(Fault { bundle, offset, ..Mismatch::unexpected(code).fault(found.place) });
            }
        }
        // The driver links relocatable code for a GPU only if all objects have code for it. So the GPUs that it serves
        // are known when the library ends.
        if found.is_relinked() {
            self.add_relinked(found.place, set, verified);
        }
    }

    /// Compares the units of a split library: the code in its kpack archives.
    pub(super) fn compare_split(&mut self, place: &Place, split: &Split<'_>, verified: &mut Verified) {
        self.compare_units_before(place, verified);
        for unit in LoadUnit::of_split(place, split) {
            self.compare_unit(unit, verified);
        }
    }

    /// Compares the units that end before `place`, because `place` is outside of their places. So all units of a
    /// library are compared before those of the next library.
    fn compare_units_before(&mut self, place: &Place, verified: &mut Verified) {
        for unit in self.units.finish_places(|place_of_unit| !place.steps().starts_with(place_of_unit.steps())) {
            self.compare_unit(unit, verified);
        }
    }

    /// Compares the units, the library and the directories that end with the file. Then adds the GPUs that the file
    /// serves to the result.
    pub(super) fn finish(mut self, verified: &mut Verified) {
        // Nothing follows, so the units at all places end.
        for unit in self.units.finish_all() {
            self.compare_unit(unit, verified);
        }
        self.compare_library(verified);
        // The directories of the file, such as those of a wheel, are complete now.
        for fault in std::mem::take(&mut self.directories).faults(self.expect) {
            self.has_unserved_library = true;
            verified.list(fault);
        }
        self.compare_of_file(verified);
        verified.is_served_by_libraries = !self.has_unserved_library;
        for (index, device) in self.expect.devices.iter().enumerate() {
            if self.served.contains(&index) {
                verified.served.push(device.name().to_owned());
            }
        }
    }

    /// Lists a fault of the file as a whole for each expected GPU that none of its code serves, unless a fault names
    /// the GPU already. A file without code has no such fault.
    fn compare_of_file(&mut self, verified: &mut Verified) {
        let set = std::mem::take(&mut self.of_file);
        if set.codes.is_empty() && set.unfound.is_empty() {
            return;
        }
        let place = Place::of_file(self.input.path());
        // The description is made only if there is a mismatch.
        let code_text = LazyCell::new(|| describe_code(&set.codes));
        for (index, device) in self.expect.devices.iter().enumerate() {
            let is_named = verified.faults.iter().any(|fault| fault.gpu.as_deref() == Some(device.name()));
            if is_named || self.served.contains(&index) {
                continue;
            }
            let mismatch = Mismatch::of_file(device, &set, &code_text);
            verified.list(Fault { alone: Some(Alone::InCommand), ..mismatch.fault(&place) });
        }
    }

    /// Notes the expected GPUs that some of the `codes` serves.
    fn note_served(&mut self, codes: &BTreeSet<Code>) {
        for (index, device) in self.expect.devices.iter().enumerate() {
            if !self.served.contains(&index) && codes.iter().any(|code| device.takes(code)) {
                self.served.insert(index);
            }
        }
    }

    /// Compares a file that serves GPUs together with the other files in its directory.
    ///
    /// If the file is the input itself, its directory may have other inputs. The faults are then those of the file
    /// alone, until an [`ExpectTree`] merges the results. In a package, the directory is compared at the end.
    fn compare_file(&mut self, unit: &LoadUnit, directory: &Place, verified: &mut Verified) {
        let set = unit.set();
        self.note_served(&set.codes);
        self.of_file.merge(&set);
        if unit.bundle.is_some() {
            // Code in a bundle is unexpected whatever the other files have.
            for mismatch in self.find_mismatches(&set, &unit.codes, unit.code_use) {
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
                verified.list(Fault { alone: Some(Alone::InDirectory), ..fault });
            }
            verified.directories = alone;
        } else {
            self.directories.add(directory, unit);
        }
    }

    /// Compares a unit and lists its faults, and adds its code to its library. A file that serves GPUs together with
    /// others is compared with its directory instead.
    fn compare_unit(&mut self, unit: LoadUnit, verified: &mut Verified) {
        if let Some(directory) = &unit.directory {
            return self.compare_file(&unit, directory, verified);
        }
        let set = unit.set();
        // Bundles of a library mostly have code for the same GPUs, so the work for equal code is done once.
        let has_new_code = match &self.last_code {
            Some(((last_set, last_use), _)) => *last_set != set || *last_use != unit.code_use,
            None => true,
        };
        let is_elsewhere = self.last_place.as_ref() != Some(&unit.place);
        if has_new_code || is_elsewhere {
            self.add_to_library(unit.place.library(), &set, verified);
        }
        if is_elsewhere {
            self.last_place = Some(unit.place.clone());
        }
        if has_new_code {
            self.note_served(&set.codes);
            self.of_file.merge(&set);
            // If libraries must serve the GPUs as a whole, single units have no mismatches.
            let is_by_library = self.expect.extent == ExpectExtent::Libraries;
            let mismatches =
                if is_by_library { Vec::new() } else { self.find_mismatches(&set, &unit.codes, unit.code_use) };
            self.last_code = Some(((set, unit.code_use), mismatches));
        }
        let Some(((set, _), mismatches)) = &self.last_code else { return };
        if mismatches.is_empty() {
            return;
        }
        let source = unit.source.or_else(|| self.source_of(&unit.place, unit.bundle));
        let bundle = MismatchedBundle { place: unit.place, bundle: unit.bundle, source };
        for mismatch in mismatches {
            let index = verified.faults.len();
            // Only counts the fault if the list is full.
            verified.list(bundle.fault(mismatch));
            let is_listed = verified.faults.len() > index;
            // The fault of a bundle without code may get a remark when the whole library is known.
            if is_listed
                && set.codes.is_empty()
                && let Some((_, library)) = &mut self.library
            {
                library.faults_of_empty.push(index);
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

    /// Returns the code so far of the library at the place `library`. If another library came before, compares that
    /// first.
    fn code_of_library(&mut self, library: Place, verified: &mut Verified) -> &mut LibraryCode {
        if let Some((last_library, _)) = &self.library
            && *last_library != library
        {
            self.compare_library(verified);
        }
        let (_, code) = self.library.get_or_insert_with(|| (library, LibraryCode::default()));
        code
    }

    /// Compares the library of the last unit as a whole. Lists its faults if libraries are expected to serve the GPUs
    /// as a whole, or if the library has only relocatable code, which is no unit. Does nothing if there was no unit.
    fn compare_library(&mut self, verified: &mut Verified) {
        let Some((library, code)) = self.library.take() else { return };
        const NO_UNIT: &[(usize, Code)] = &[];
        let mut mismatches = self.find_mismatches(&code.bundles, NO_UNIT, CodeUse::Choice);
        for (index, device) in self.expect.devices.iter().enumerate() {
            if code.is_relinked_for(device) {
                self.served.insert(index);
                // The driver links code for the GPU when the program starts, so none is missing.
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

    /// Returns the mismatches between the code of a unit or a library, which is `set`, and the expected GPUs. `codes`
    /// is the code of the unit with positions, to find unexpected code. It is empty for a library, because the
    /// unexpected code of a library was found unit by unit.
    fn find_mismatches(&self, set: &CodeSet, codes: &[(usize, Code)], code_use: CodeUse) -> Vec<Mismatch> {
        let mut mismatches = find_unserved(set, "", &self.expect.devices);
        if self.expect.is_exact() {
            let needed = self.needing.needed(codes, code_use);
            let unneeded: BTreeSet<&Code> =
                codes.iter().filter(|(position, _)| !needed.contains(position)).map(|(_, code)| code).collect();
            mismatches.extend(unneeded.into_iter().map(Mismatch::unexpected));
        }
        mismatches
    }

    /// Returns the source file of the unit with a single bundle, or `None` if it is not known. Only the symbol table of
    /// the input itself is read, so the bundle must be in one of its sections. `bundle` is its index and offset.
    fn source_of(&self, place: &Place, bundle: Option<(usize, u64)>) -> Option<String> {
        let [Step::Section(_)] = place.steps() else { return None };
        let (_, offset) = bundle?;
        self.sources.get_or_init(|| scan::source_files(self.input.bytes())).get(&offset).cloned()
    }
}

/// Returns a mismatch for each expected GPU that the code does not serve. The text says which GPUs the code is for, and
/// then `where_text`, such as " in 3 files".
fn find_unserved(set: &CodeSet, where_text: &str, devices: &[Device]) -> Vec<Mismatch> {
    // The description is made only if there is a mismatch.
    let code_text = LazyCell::new(|| describe_code(&set.codes));
    let mut mismatches = Vec::new();
    for device in devices {
        if set.is_for(device)
            && let Some(unserved) = describe_unserved(device, &set.codes)
        {
            let text = format!("{unserved}; {}{where_text}{}", *code_text, describe_unfound(device, set));
            mismatches.push(Mismatch { rule: VerifyRule::Expected, gpu: device.name().to_owned(), text });
        }
    }
    mismatches
}

/// Directories whose files serve GPUs together. They are checked when all files are known.
#[derive(Clone, Debug, Default)]
pub(super) struct ServingDirectories {
    /// The indices in `all`, by the place of the directory.
    indices: HashMap<Place, usize>,
    all: Vec<ServingDirectory>,
}

#[derive(Clone, Debug)]
struct ServingDirectory {
    place: Place,
    /// The first file, which gets the faults if it is the only one.
    first_file: MismatchedBundle,
    files: FileSet,
    /// Whether the command line names some of the files, which then serve each expected GPU together.
    is_named: bool,
}

/// The bundle or file that gets the faults of a unit.
#[derive(Clone, Debug)]
struct MismatchedBundle {
    place: Place,
    /// The index and the offset of the bundle, or `None` if the unit is not a single bundle.
    bundle: Option<(usize, u64)>,
    source: Option<String>,
}

impl MismatchedBundle {
    fn of_unit(unit: &LoadUnit) -> Self {
        Self { place: unit.place.clone(), bundle: unit.bundle, source: unit.source.clone() }
    }

    /// Returns the fault of this bundle or file for a mismatch.
    fn fault(&self, mismatch: &Mismatch) -> Fault {
        let mut fault = mismatch.fault(&self.place);
        // `self.bundle` has the index and the offset of the bundle.
        (fault.bundle, fault.offset) = self.bundle.unzip();
        if let Some(source) = &self.source {
            fault.text += &format!("; its source is '{source}'");
            fault.source = Some(source.clone());
        }
        fault
    }
}

impl ServingDirectories {
    /// Returns the directory at a place. Adds a directory without files, whose first file will be `file`, if the place
    /// is new. Never returns `None`.
    fn directory_at(&mut self, place: &Place, file: &MismatchedBundle) -> Option<&mut ServingDirectory> {
        let next = self.all.len();
        let index = *self.indices.entry(place.clone()).or_insert(next);
        if index == next {
            let (place, first_file, files) = (place.clone(), file.clone(), FileSet::default());
            self.all.push(ServingDirectory { place, first_file, files, is_named: false });
        }
        self.all.get_mut(index)
    }

    /// Adds a file to the directory at a place.
    fn add(&mut self, place: &Place, file: &LoadUnit) {
        if let Some(directory) = self.directory_at(place, &MismatchedBundle::of_unit(file)) {
            directory.files.add(file);
        }
    }

    /// Adds the files of the directories of another input.
    fn merge(&mut self, other: Self, is_named: bool) {
        for more in other.all {
            if let Some(directory) = self.directory_at(&more.place, &more.first_file) {
                directory.files.merge(&more.files);
                directory.is_named |= is_named;
            }
        }
    }

    /// Returns the faults of directories without code for a GPU that they should serve. The faults of a directory with
    /// a single file are those of the file.
    fn faults(self, expect: &Expect) -> Vec<Fault> {
        let mut faults = Vec::new();
        for ServingDirectory { place, first_file, files: FileSet { code, files }, is_named } in self.all {
            let where_text = if files == 1 { String::new() } else { format!(" in {files} files") };
            let mut mismatches = find_unserved(&code, &where_text, &expect.devices);
            if is_named {
                let code_text = LazyCell::new(|| format!("{}{where_text}", describe_code(&code.codes)));
                for device in expect.devices.iter().filter(|device| !code.is_for(device)) {
                    mismatches.push(Mismatch::of_file(device, &code, &code_text));
                }
            }
            for mismatch in mismatches {
                faults.push(if files == 1 { first_file.fault(&mismatch) } else { mismatch.fault(&place) });
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
    /// The number of all files in each directory, with or without device code.
    file_counts: HashMap<Place, usize>,
    directories: ServingDirectories,
}

impl ExpectTree {
    /// Creates a tree of these files. The result for each must be [added](Self::add).
    pub fn new<'p>(expect: Expect, paths: impl Iterator<Item = &'p Path>) -> Self {
        let mut file_counts = HashMap::new();
        for path in paths {
            let count: &mut usize = file_counts.entry(directory_of(&Place::of_file(path))).or_default();
            *count = count.saturating_add(1);
        }
        Self { expect, file_counts, directories: ServingDirectories::default() }
    }

    /// Adds the result for a file. Removes faults that other files of its directory may correct from the result:
    /// [`faults`](Self::faults) finds them again if all files together still have them. `is_named` is whether the user
    /// named the file itself, and not a directory that holds it. A named file and a package have to serve each expected
    /// GPU. Other files need not, so their faults as a whole are removed too.
    pub fn add(&mut self, verified: &mut Verified, is_named: bool) {
        let directory = directory_of(&Place::of_file(&verified.path));
        let has_others = self.file_counts.get(&directory).is_some_and(|count| *count > 1);
        let is_in_set = has_others && !verified.directories.all.is_empty();
        if is_in_set || !is_named && !verified.is_package {
            verified.faults.retain(|fault| fault.alone != Some(Alone::InCommand));
        }
        if is_in_set {
            verified.faults.retain(|fault| fault.alone != Some(Alone::InDirectory));
            self.directories.merge(std::mem::take(&mut verified.directories), is_named);
        }
        // `--expect-any` would not accept a file with such a fault.
        verified.is_served_by_libraries &= verified.faults.iter().all(|fault| fault.alone != Some(Alone::InCommand));
    }

    /// Returns the faults of all files together.
    pub fn faults(self) -> Vec<Fault> {
        self.directories.faults(&self.expect)
    }
}

/// The code of a library.
#[derive(Default)]
struct LibraryCode {
    /// The code of all bundles of the library.
    bundles: CodeSet,
    has_bundles: bool,
    /// The relocatable code of each object that was linked into the library. Equal code of several objects is kept
    /// once.
    relinked: BTreeSet<BTreeSet<Code>>,
    /// The indices, among all listed faults, of the faults of bundles without any code. `recompress --keep-for` makes
    /// such bundles of those without code for its GPUs.
    faults_of_empty: Vec<usize>,
}

impl LibraryCode {
    /// Adds a remark to each fault of a bundle without code, if other code of the library serves the GPU of the fault.
    /// `of_library` are the mismatches of the library as a whole.
    fn note_served_elsewhere(&self, of_library: &[Mismatch], verified: &mut Verified) {
        for &index in &self.faults_of_empty {
            let Some(fault) = verified.faults.get_mut(index) else { continue };
            let is_lacking = of_library.iter().any(|mismatch| Some(&mismatch.gpu) == fault.gpu.as_ref());
            if !is_lacking {
                fault.text +=
                    &format!(", but other code of its library serves {}", fault.gpu.as_deref().unwrap_or_default());
            }
        }
    }

    /// Returns whether CUDA's driver links the relocatable code for a GPU when the program starts. Every object needs
    /// code for the GPU, and at least one needs PTX, which the driver compiles: it does not link machine code alone.
    fn is_relinked_for(&self, device: &Device) -> bool {
        let has_ptx = self.relinked.iter().any(|codes| has_ptx_for(device, codes));
        has_ptx && self.relinked.iter().all(|codes| device.unserved_variants(codes.iter()).next().is_none())
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

    /// Returns the mismatch of a GPU that no code of one or more files serves. `code_text` describes this code.
    fn of_file(device: &Device, set: &CodeSet, code_text: &str) -> Self {
        let unserved = match device.vendor().name() {
            Some(vendor) if !set.is_for(device) => {
                format!("it does not serve {device}, because it is not for {vendor} GPUs")
            }
            _ => device.describe_lack(),
        };
        let text = format!("{unserved}; {code_text}{}", describe_unfound(device, set));
        Self { rule: VerifyRule::Expected, gpu: device.name().to_owned(), text }
    }

    fn fault(&self, place: &Place) -> Fault {
        Fault { gpu: Some(self.gpu.clone()), ..Fault::new(place, self.rule, self.text.clone()) }
    }
}

/// Describes the settings of a GPU's features, such as `xnack+`, that the code does not serve. Returns `None` if the
/// code serves all of them.
fn describe_unserved(device: &Device, codes: &BTreeSet<Code>) -> Option<String> {
    // The features in each unserved setting.
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
