//! Checks that bundles serve the expected GPUs.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::{CorrectableBy, Fault, Verified, VerifyRule};
use crate::beyond::base::text::listed;
use crate::beyond::inventory::{CodeSet, FileSet, LibraryCode, Unit, UnitRole, by_library, listed_order, short_target};
use crate::beyond::runtime::{Code, CodeUse, Device, NeedingGpus, directory_of};
use crate::beyond::scan::{Place, Step};

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
    /// Every library, with some of its bundles, because each source may be built for other GPUs. A library is a file,
    /// or a file in a package. Members of static libraries count together.
    Libraries,
}

/// The number of GPUs that the text of a fault lists.
const NAMED_GPUS_MAX: usize = 16;

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

/// Compares the units of a file with the expected GPUs.
pub(super) struct ExpectComparison<'e> {
    expect: &'e Expect,
    /// The expected GPUs, prepared to find code that none of them needs.
    needing: NeedingGpus,
    /// The path of the file.
    path: &'e Path,
    /// Returns the source file of the bundle at an offset of the file, if a symbol names it.
    source_at: &'e dyn Fn(u64) -> Option<String>,
    /// Takes the faults.
    take_fault: &'e mut dyn FnMut(Fault),
    /// The names of the GPUs in faults so far.
    gpus_in_faults: BTreeSet<String>,
    /// The code of the last compared unit, the way in which a program uses it, and its mismatches. If the next unit has
    /// equal code, it has the same mismatches, which are not computed again.
    last_compared: Option<(Arc<CodeSet>, CodeUse, Vec<Mismatch>)>,
    result: Expected,
}

/// The GPUs that a file serves.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// The indices of the expected GPUs that any code in the file serves.
    pub(super) served: BTreeSet<usize>,
    /// Whether a library has no bundle that serves one of the expected GPUs.
    pub(super) has_unserved_library: bool,
    /// The directory of the file, if the file serves GPUs together with other files there.
    pub(super) directories: ServingDirectories,
}

impl<'e> ExpectComparison<'e> {
    pub(super) fn new(
        expect: &'e Expect,
        path: &'e Path,
        source_at: &'e dyn Fn(u64) -> Option<String>,
        take_fault: &'e mut dyn FnMut(Fault),
    ) -> Self {
        Self {
            expect,
            needing: NeedingGpus::new(&expect.devices),
            path,
            source_at,
            take_fault,
            gpus_in_faults: BTreeSet::new(),
            last_compared: None,
            result: Expected::default(),
        }
    }

    /// Compares all units of the file: each library, then the directories whose files serve GPUs together, then the
    /// file as a whole.
    pub(super) fn compare(mut self, units: &[Unit]) -> Expected {
        let mut code_of_file = CodeSet::default();
        // The directories inside the file, if it is a package such as a wheel.
        let mut directories = ServingDirectories::default();
        for (library, units) in by_library(units) {
            for unit in &units {
                if unit.role != UnitRole::Relinked {
                    self.note_served(&unit.code);
                }
                // A unit of this role need not serve all GPUs, because other files may serve the rest.
                if unit.role != UnitRole::RestInOtherFiles {
                    code_of_file.merge(&unit.code);
                }
                if let Some(directory) = &unit.directory {
                    self.compare_file(unit, directory, &mut directories);
                }
            }
            self.compare_library(&library, units.into_iter().filter(|unit| unit.directory.is_none()).collect());
        }
        for fault in directories.faults(self.expect) {
            self.result.has_unserved_library = true;
            self.list(fault);
        }
        self.compare_whole_file(&code_of_file);
        self.result
    }

    /// Lists a fault, and notes the GPU that it names.
    fn list(&mut self, fault: Fault) {
        self.gpus_in_faults.extend(fault.gpu.clone());
        (self.take_fault)(fault);
    }

    /// Notes the expected GPUs that some of the code serves.
    fn note_served(&mut self, code: &CodeSet) {
        for (index, device) in self.expect.devices.iter().enumerate() {
            if !self.result.served.contains(&index) && code.codes.keys().any(|code| device.takes(code)) {
                self.result.served.insert(index);
            }
        }
    }

    /// Lists a fault of the file as a whole for each expected GPU that none of its code serves, unless a fault names
    /// the GPU already. A file without code has no such fault.
    fn compare_whole_file(&mut self, set: &CodeSet) {
        if set.codes.is_empty() && set.unfound.is_empty() {
            return;
        }
        let place = Place::of_file(self.path);
        // The description is made only if there is a mismatch.
        let code_text = LazyCell::new(|| describe_code(set));
        for (index, device) in self.expect.devices.iter().enumerate() {
            if !self.gpus_in_faults.contains(device.name()) && !self.result.served.contains(&index) {
                let mismatch = Mismatch::of_file(device, set, &code_text);
                self.list(Fault { correctable_by: Some(CorrectableBy::FilesOfCommand), ..mismatch.fault(&place) });
            }
        }
    }

    /// Compares a file that serves GPUs together with the other files in its directory.
    ///
    /// If the file is the input itself, its directory may have other inputs. The faults are then those of the file
    /// alone, and an [`ExpectTree`] removes them if the other inputs correct them. A file in a package is only added to
    /// `directories`, which are compared at the end.
    fn compare_file(&mut self, unit: &Unit, directory: &Place, directories: &mut ServingDirectories) {
        // Code is unexpected whatever the other files have.
        self.list_unexpected(unit);
        if !unit.at.place().steps().is_empty() {
            return directories.add(directory, unit);
        }
        // The file is the input itself.
        let mut directory_of_input = ServingDirectories::default();
        directory_of_input.add(directory, unit);
        for fault in directory_of_input.clone().faults(self.expect) {
            self.result.has_unserved_library = true;
            self.list(Fault { correctable_by: Some(CorrectableBy::FilesOfDirectory), ..fault });
        }
        self.result.directories = directory_of_input;
    }

    /// Compares the units of a library one by one, or only the library as a whole with [`ExpectExtent::Libraries`].
    /// Units of relocatable code are not compared one by one either, so a GPU for which a library has only such code is
    /// compared with the library as a whole.
    fn compare_library(&mut self, library: &Place, units: Vec<&Unit>) {
        // All units were files of directories, which are compared together.
        if units.is_empty() {
            return;
        }
        let code = LibraryCode::of(units.iter().copied());
        let library_mismatches = self.mismatches_of_library(&code);
        // GPUs that the library serves completely have no faults in its units.
        let is_complete = |device: &Device| code.served(device).is_complete();
        let complete_gpus: BTreeSet<&str> =
            self.expect.devices.iter().filter(|gpu| is_complete(gpu)).map(Device::name).collect();
        for unit in units {
            if unit.role != UnitRole::Whole {
                self.list_unexpected(unit);
            } else if self.expect.extent != ExpectExtent::Libraries {
                self.compare_unit(unit, &complete_gpus, &library_mismatches);
            }
        }
        if code.is_empty() {
            return;
        }
        self.result.has_unserved_library |= !library_mismatches.is_empty();
        for device in &self.expect.devices {
            let mismatch = library_mismatches.iter().find(|mismatch| mismatch.gpu == device.name());
            let is_compared_as_whole = self.expect.extent == ExpectExtent::Libraries || code.is_relinked_alone(device);
            if let Some(mismatch) = mismatch
                && is_compared_as_whole
            {
                self.list(mismatch.fault(library));
            }
        }
    }

    /// Returns a mismatch for each expected GPU that no unit of a library serves. Notes the GPUs for which the driver
    /// links code of the library as served.
    fn mismatches_of_library(&mut self, code: &LibraryCode) -> Vec<Mismatch> {
        let mut mismatches = find_unserved(&code.together(), IN_ONE_PLACE, &self.expect.devices);
        for (index, device) in self.expect.devices.iter().enumerate() {
            if code.driver_links_for(device) {
                self.result.served.insert(index);
                // The driver links code for the GPU when the program starts, so none is missing.
                mismatches.retain(|mismatch| mismatch.gpu != device.name());
            }
        }
        if code.has_relinked() {
            let only_ptx = "; the driver links its relocatable code for another GPU only if that has PTX";
            for mismatch in &mut mismatches {
                mismatch.text += only_ptx;
            }
        }
        mismatches
    }

    /// Lists the faults of a unit. Its library serves the `complete_gpus` completely, and has the `library_mismatches`
    /// as a whole.
    fn compare_unit(&mut self, unit: &Unit, complete_gpus: &BTreeSet<&str>, library_mismatches: &[Mismatch]) {
        let mismatches = match self.last_compared.take() {
            Some((code, code_use, mismatches)) if Arc::ptr_eq(&code, &unit.code) && code_use == unit.code_use => {
                mismatches
            }
            _ => {
                let mut mismatches = find_unserved(&unit.code, IN_ONE_PLACE, &self.expect.devices);
                mismatches.extend(self.unexpected(unit));
                mismatches
            }
        };
        // The description is made only if there is a mismatch.
        let bundle = LazyCell::new(|| {
            let mut bundle = FaultyBundle::of_unit(unit);
            bundle.source = bundle.source.or_else(|| self.source_of(unit));
            bundle
        });
        let mut faults = Vec::new();
        for mismatch in &mismatches {
            if mismatch.rule == VerifyRule::Expected && complete_gpus.contains(mismatch.gpu.as_str()) {
                continue;
            }
            let mut fault = bundle.fault(mismatch);
            // `recompress --keep-for` leaves a bundle without any code if the bundle had none for the GPUs that are
            // kept.
            if unit.code.codes.is_empty() && library_mismatches.iter().all(|lacking| lacking.gpu != mismatch.gpu) {
                fault.text += &format!(", but other code of its library serves {}", mismatch.gpu);
            }
            faults.push(fault);
        }
        faults.into_iter().for_each(|fault| self.list(fault));
        self.last_compared = Some((Arc::clone(&unit.code), unit.code_use, mismatches));
    }

    /// Lists the code that no expected GPU needs, of a unit that need not serve all GPUs.
    fn list_unexpected(&mut self, unit: &Unit) {
        let container = FaultyBundle { bundle: unit.at.container(), ..FaultyBundle::of_unit(unit) };
        for mismatch in self.unexpected(unit) {
            self.list(container.fault(&mismatch));
        }
    }

    /// Returns a mismatch for each code of a unit that no expected GPU needs, with [`ExpectExtent::Exactly`], and
    /// nothing otherwise.
    fn unexpected(&self, unit: &Unit) -> Vec<Mismatch> {
        if !self.expect.is_exact() {
            return Vec::new();
        }
        // Which code of the unit a GPU uses then also depends on other units, so all code that it takes is needed.
        let code_use = if unit.role == UnitRole::Whole { unit.code_use } else { CodeUse::Each };
        let codes: Vec<(usize, Code)> = unit.code.codes.iter().map(|(code, index)| (*index, code.clone())).collect();
        let needed = self.needing.needed(&codes, code_use);
        // Code of one target may have several entries, which need different drivers.
        let unexpected = codes.iter().filter(|(index, _)| !needed.contains(index)).map(|(_, code)| (code.name(), code));
        unexpected.collect::<BTreeMap<_, _>>().into_values().map(Mismatch::unexpected).collect()
    }

    /// Returns the source file of the unit with a single bundle, or `None` if it is not known. Only the symbol table of
    /// the input itself is read, so the bundle must be in one of its sections.
    fn source_of(&self, unit: &Unit) -> Option<Arc<str>> {
        let [Step::Section(_)] = unit.at.place().steps() else { return None };
        let (_, offset) = unit.at.bundle()?;
        (self.source_at)(offset).map(Into::into)
    }
}

/// The words about the place of code that is in one bundle, library or file: none.
const IN_ONE_PLACE: &str = "";

/// Returns a mismatch for each expected GPU that the code does not serve. The text says which GPUs the code is for, and
/// then `where_text`, such as " in 3 files".
fn find_unserved(set: &CodeSet, where_text: &str, devices: &[Device]) -> Vec<Mismatch> {
    // The description is made only if there is a mismatch.
    let code_text = LazyCell::new(|| describe_code(set));
    let mut mismatches = Vec::new();
    for device in devices {
        if set.is_for(device)
            && let Some(unserved) = describe_unserved(device, set)
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
    /// The first file. The faults are reported for it if it is the only one.
    first_file: FaultyBundle,
    files: FileSet,
    /// Whether the command line names some of the files themselves. All files together must then serve each expected
    /// GPU.
    is_named: bool,
}

/// The bundle or file that the faults of a unit are reported for.
#[derive(Clone, Debug)]
struct FaultyBundle {
    place: Place,
    /// The index and the offset of the bundle, or `None` if the unit is not a single bundle.
    bundle: Option<(usize, u64)>,
    source: Option<Arc<str>>,
}

impl FaultyBundle {
    fn of_unit(unit: &Unit) -> Self {
        Self { place: unit.at.place().clone(), bundle: unit.at.bundle(), source: unit.source.clone() }
    }

    /// Returns the fault of this bundle or file for a mismatch.
    fn fault(&self, mismatch: &Mismatch) -> Fault {
        let mut fault = mismatch.fault(&self.place);
        // `self.bundle` has the index and the offset of the bundle.
        (fault.bundle, fault.offset) = self.bundle.unzip();
        if let Some(source) = &self.source {
            fault.text += &format!("; its source is '{source}'");
            fault.source = Some(source.to_string());
        }
        fault
    }
}

impl ServingDirectories {
    /// Returns the directory at a place. If the place is new, adds a directory without files, whose first file will be
    /// `file`. Never returns `None`, because each index in `indices` has its directory in `all`.
    fn directory_at(&mut self, place: &Place, file: &FaultyBundle) -> Option<&mut ServingDirectory> {
        let next = self.all.len();
        let index = *self.indices.entry(place.clone()).or_insert(next);
        if index == next {
            let (place, first_file, files) = (place.clone(), file.clone(), FileSet::default());
            self.all.push(ServingDirectory { place, first_file, files, is_named: false });
        }
        self.all.get_mut(index)
    }

    /// Adds a file to the directory at a place.
    fn add(&mut self, place: &Place, file: &Unit) {
        if let Some(directory) = self.directory_at(place, &FaultyBundle::of_unit(file)) {
            directory.files.add(&file.code);
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
            let where_text = if files == 1 { IN_ONE_PLACE.to_owned() } else { format!(" in {files} files") };
            let mut mismatches = find_unserved(&code, &where_text, &expect.devices);
            if is_named {
                let code_text = LazyCell::new(|| format!("{}{where_text}", describe_code(&code)));
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
pub(super) struct ExpectTree {
    expect: Expect,
    /// The number of all files in each directory, with or without device code.
    file_counts: HashMap<Place, usize>,
    directories: ServingDirectories,
}

impl ExpectTree {
    /// Creates a tree of these files. The result for each must be [added](Self::add).
    pub(super) fn new<'p>(expect: Expect, paths: impl Iterator<Item = &'p Path>) -> Self {
        let mut file_counts = HashMap::new();
        for path in paths {
            let count: &mut usize = file_counts.entry(directory_of(&Place::of_file(path))).or_default();
            *count = count.saturating_add(1);
        }
        Self { expect, file_counts, directories: ServingDirectories::default() }
    }

    /// Adds the result for a file. Removes faults from it that other files of its directory may correct:
    /// [`faults`](Self::faults) finds them again if all files together have them too. `is_named` is whether the user
    /// named the file itself, and not a directory that holds it. A named file and a package must serve each expected
    /// GPU with some of their code. Other files need not, so their faults about this are removed too.
    pub(super) fn add(&mut self, verified: &mut Verified, is_named: bool) {
        let directory = directory_of(&Place::of_file(&verified.path));
        let has_others = self.file_counts.get(&directory).is_some_and(|count| *count > 1);
        let serves_with_others = has_others && !verified.directories.all.is_empty();
        if serves_with_others || !is_named && !verified.is_package {
            verified.faults.retain(|fault| fault.correctable_by != Some(CorrectableBy::FilesOfCommand));
        }
        if serves_with_others {
            verified.faults.retain(|fault| fault.correctable_by != Some(CorrectableBy::FilesOfDirectory));
            self.directories.merge(std::mem::take(&mut verified.directories), is_named);
        }
        // `--expect-any` would not accept a file that serves a GPU with none of its code.
        let serves_all =
            verified.faults.iter().all(|fault| fault.correctable_by != Some(CorrectableBy::FilesOfCommand));
        verified.is_served_by_libraries &= serves_all;
    }

    /// Returns the faults of all files together.
    pub(super) fn faults(self) -> Vec<Fault> {
        self.directories.faults(&self.expect)
    }
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
fn describe_unserved(device: &Device, set: &CodeSet) -> Option<String> {
    // For each unserved setting, its features.
    let unserved: Vec<Vec<String>> =
        device.unserved_variants(set.codes.keys()).map(|setting| setting.features()).collect();
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

/// Describes code that the GPU could use if something were different, as the end of a sentence: code that its runtime
/// does not find, code that its driver does not read, or code for a similar GPU. Returns an empty text if there is no
/// such code.
fn describe_unfound(device: &Device, set: &CodeSet) -> String {
    if let Some(unfound) = set.unfound.iter().find(|unfound| device.takes(&unfound.code)) {
        return format!("; {unfound}");
    }
    if let Some(reason) = device.unread_by_driver(set.codes.keys()) {
        return format!("; {reason}");
    }
    match device.overriding(set.codes.keys()).and_then(|similar| Some((similar, override_version(similar)?))) {
        Some((similar, version)) => format!(
            "; with HSA_OVERRIDE_GFX_VERSION={version}, ROCm runs the code for {similar} there, and nobody promises that it works"
        ),
        None => String::new(),
    }
}

/// Returns the version of a processor as ROCm's override writes it: `10.3.0` for `gfx1030`, and `9.0.12` for `gfx90c`.
fn override_version(processor: &str) -> Option<String> {
    let number = processor.strip_prefix("gfx")?;
    let (rest, stepping) = number.split_at_checked(number.len().checked_sub(1)?)?;
    let (major, minor) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
    let [minor, stepping] = [minor, stepping].map(|digit| u8::from_str_radix(digit, 16));
    Some(format!("{major}.{}.{}", minor.ok()?, stepping.ok()?))
}

/// Describes the GPUs that a bundle has code for.
fn describe_code(set: &CodeSet) -> String {
    let names: BTreeSet<String> = set.codes.keys().map(Code::name).collect();
    if names.is_empty() {
        return "it has no code for any GPU".to_owned();
    }
    let mut names: Vec<&str> = names.iter().map(|name| short_target(name)).collect();
    names.sort_by_cached_key(|name| listed_order(name));
    format!("it has code for {}", listed(names, NAMED_GPUS_MAX, ", ", ", and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_processors_are_written_as_for_rocm() {
        for (processor, version) in [
            ("gfx1030", Some("10.3.0")),
            ("gfx90c", Some("9.0.12")),
            ("gfx1151", Some("11.5.1")),
            ("gfx11-generic", None),
            ("sm_90", None),
        ] {
            assert_eq!(override_version(processor).as_deref(), version, "{processor}");
        }
    }

    use crate::beyond::inventory::tests::{place, unit};

    /// Returns the faults of some units, each as its place and its text.
    fn faults(extent: ExpectExtent, gpus: &str, units: &[Unit]) -> Vec<String> {
        let expect = Expect { devices: Device::parse_list(gpus).unwrap(), extent };
        let mut faults = Vec::new();
        let list = &mut |fault: Fault| faults.push(format!("{}: {}", fault.place, fault.text));
        ExpectComparison::new(&expect, "in".as_ref(), &|_| None, list).compare(units);
        faults
    }

    #[test]
    fn units_libraries_and_files_are_compared() {
        use ExpectExtent::{Bundles, Exactly, Libraries};
        use UnitRole::{Relinked, RestInFile, RestInOtherFiles, Whole};
        let in_directory =
            |name: &str, targets| Unit { directory: Some(Arc::new(place("w.whl(dir)"))), ..unit(name, Whole, targets) };
        for (extent, gpus, units, expected) in [
            // Each bundle has to serve a GPU, or one of each library.
            (
                Bundles,
                "gfx906",
                vec![unit("in", Whole, "gfx906"), unit("in", Whole, "gfx90a gfx942")],
                &["in: it does not serve gfx906; it has code for gfx90a, gfx942"][..],
            ),
            (Libraries, "gfx906", vec![unit("in", Whole, "gfx906"), unit("in", Whole, "gfx90a")], &[]),
            (
                Libraries,
                "gfx906",
                vec![unit("w(a)", Whole, "gfx906"), unit("w(b)", Whole, "gfx90a")],
                &["w(b): it does not serve gfx906; it has code for gfx90a"],
            ),
            // Code for GPUs of other vendors is missing in the file alone.
            (Bundles, "sm_90", vec![unit("w(a)", Whole, "sm_90"), unit("w(b)", Whole, "gfx90a")], &[]),
            (
                Bundles,
                "sm_90",
                vec![unit("w(b)", Whole, "gfx90a")],
                &["in: it does not serve sm_90, because it is not for NVIDIA GPUs; it has code for gfx90a"],
            ),
            // The driver links relocatable code, which takes the place of one bundle.
            (
                Bundles,
                "sm_90",
                vec![
                    unit("in", Whole, "sm_80"),
                    unit("in", Relinked, "sm_80 compute_80"),
                    unit("in", Relinked, "compute_90"),
                ],
                &[],
            ),
            (
                Bundles,
                "sm_90",
                vec![unit("in", Whole, "sm_80"), unit("in", Relinked, "sm_80")],
                &["in: it does not serve sm_90; it has code for sm_80"],
            ),
            // Other bundles, or other files, have the rest.
            (Bundles, "gfx906", vec![unit("in", RestInFile, "gfx906"), unit("in", RestInFile, "gfx90a")], &[]),
            (
                Bundles,
                "gfx906",
                vec![unit("in", RestInFile, "gfx90a")],
                &["in: it does not serve gfx906; it has code for gfx90a"],
            ),
            (Bundles, "gfx906", vec![unit("in", RestInOtherFiles, "gfx90a")], &[]),
            // Only code that is loaded is expected.
            (
                Exactly,
                "gfx906",
                vec![unit("in", Whole, "gfx906 gfx90a")],
                &["in: it has code for gfx90a, which no expected GPU needs"],
            ),
            (
                Exactly,
                "sm_89",
                vec![unit("in", Whole, "sm_80 sm_86")],
                &["in: it has code for sm_80, which no expected GPU needs"],
            ),
            (Exactly, "sm_89", vec![unit("in", RestInFile, "sm_80 sm_86")], &[]),
            // Files of a directory serve together.
            (
                Bundles,
                "gfx906",
                vec![in_directory("w.whl(dir/a)", "gfx906"), in_directory("w.whl(dir/b)", "gfx90a")],
                &[],
            ),
            (
                Bundles,
                "gfx942",
                vec![in_directory("w.whl(dir/a)", "gfx906"), in_directory("w.whl(dir/b)", "gfx90a")],
                &["w.whl(dir): it does not serve gfx942; it has code for gfx906, gfx90a in 2 files"],
            ),
        ] {
            assert_eq!(faults(extent, gpus, &units), expected, "{gpus} {units:?}");
        }
    }

    #[test]
    fn a_bundle_without_code_is_a_fault_that_names_the_rest_of_its_library() {
        let mut empty = unit("in", UnitRole::Whole, "");
        empty.code = Arc::new(CodeSet {
            vendors: unit("in", UnitRole::Whole, "gfx906").code.vendors.clone(),
            ..CodeSet::default()
        });
        let text =
            "in: it does not serve gfx906; it has no code for any GPU, but other code of its library serves gfx906";
        assert_eq!(faults(ExpectExtent::Bundles, "gfx906", &[empty, unit("in", UnitRole::Whole, "gfx906")]), [text]);
    }
}
