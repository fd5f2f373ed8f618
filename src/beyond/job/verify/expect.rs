//! Checks that bundles serve the GPUs that they are expected to serve.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::{Fault, Rule, Verified};
use crate::base::display::listed;
use crate::base::io::input::Input;
use crate::beyond::runtime::{Code, CodeSet, Codes, Device, FileSet, Unit, Units, directory_of};
use crate::beyond::scan::{self, Found, Place, Split, Step};

/// The GPUs that a file has to serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expect {
    /// The GPUs.
    pub devices: Vec<Device>,
    /// What has to serve them.
    pub extent: Extent,
}

/// What has to serve the expected GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// Every bundle.
    Bundles,
    /// Every bundle, and code is a fault that no runtime loads for any of these GPUs.
    Exactly,
    /// Every library with some of its bundles, as where each source is built for other GPUs. A library is a file or a
    /// member; members of static libraries (`.a`, `.lib`) count together.
    Libraries,
}

/// The number of GPUs that the text of a fault lists.
const LISTED_MAX: usize = 16;

impl Expect {
    /// Expects all bundles to serve some GPUs.
    pub fn new(devices: Vec<Device>) -> Self {
        Self { devices, extent: Extent::Bundles }
    }

    /// Expects all bundles to serve some GPUs, and to hold no code but what their runtimes load.
    pub fn exactly(devices: Vec<Device>) -> Self {
        Self { devices, extent: Extent::Exactly }
    }

    /// Expects every library to serve some GPUs with any of its bundles.
    pub fn libraries(devices: Vec<Device>) -> Self {
        Self { devices, extent: Extent::Libraries }
    }

    fn is_exact(&self) -> bool {
        self.extent == Extent::Exactly
    }
}

/// The comparison of a file with what is expected.
pub(super) struct ExpectComparison<'e> {
    expect: &'e Expect,
    input: &'e Input,
    /// The source files of the bundles in the file, by the offsets of the bundles, once they are needed.
    sources: OnceCell<HashMap<u64, String>>,
    units: Units,
    /// The code of the last unit, and what is wrong with it.
    last: Option<(CodeSet, Vec<Lack>)>,
    /// The place of the last unit.
    place: Option<Place>,
    /// The library of the last unit, and all its code.
    library: Option<(Place, LibraryCode)>,
    /// Whether a library lacks code for a GPU in all of its bundles.
    has_unserved_library: bool,
    /// The positions of the GPUs that any code in the file serves.
    served: BTreeSet<usize>,
    /// The files of directories in packages, in the order of the first file of each.
    directories: Directories,
}

impl<'e> ExpectComparison<'e> {
    pub(super) fn new(expect: &'e Expect, input: &'e Input) -> Self {
        let (sources, units, served) = (OnceCell::new(), Units::default(), BTreeSet::new());
        let (last, place, library, directories) = (None, None, None, Directories::default());
        Self { expect, input, sources, units, last, place, library, has_unserved_library: false, served, directories }
    }

    /// Compares a bundle, or what it completes.
    pub(super) fn bundle(&mut self, found: &Found<'_>, verified: &mut Verified) {
        self.finish_before(found.place, verified);
        if found.is_for_some_gpus() {
            let codes = Codes::of(found);
            let vendors = codes.vendors.clone();
            let codes: BTreeSet<Code> = codes.into_codes().into_iter().collect();
            match found.is_relinked() {
                true => self.relinked(
                    found.place,
                    CodeSet { vendors, codes: codes.clone(), ..CodeSet::default() },
                    verified,
                ),
                false => self.note(&codes),
            }
            for code in codes.iter().filter(|code| self.expect.is_exact() && !self.is_taken(code)) {
                let (bundle, offset) = (Some(found.index), Some(found.bundle.offset));
                verified.list(Fault { bundle, offset, ..Lack::unexpected(code).fault(found.place) });
            }
        }
        self.units.add(found).into_iter().for_each(|unit| self.unit(unit, verified));
    }

    /// Compares a split library.
    pub(super) fn split(&mut self, place: &Place, split: &Split<'_>, verified: &mut Verified) {
        self.finish_before(place, verified);
        Unit::of_split(place, split).into_iter().for_each(|unit| self.unit(unit, verified));
    }

    /// Compares what nothing at a place can complete: units of a library come before those of the next.
    fn finish_before(&mut self, place: &Place, verified: &mut Verified) {
        let units = self.units.finish(|open| !place.steps().starts_with(open.steps()));
        units.into_iter().for_each(|unit| self.unit(unit, verified));
    }

    /// Compares what was still open, and adds what is known only at the end.
    pub(super) fn finish(mut self, verified: &mut Verified) {
        self.units.finish(|_| true).into_iter().for_each(|unit| self.unit(unit, verified));
        self.finish_library(verified);
        for fault in std::mem::take(&mut self.directories).faults(self.expect) {
            self.has_unserved_library = true;
            verified.list(fault);
        }
        verified.is_served_by_libraries = !self.has_unserved_library;
        let devices = self.expect.devices.iter().enumerate();
        let served = devices.filter(|(index, _)| self.served.contains(index));
        verified.served = served.map(|(_, device)| device.name().to_owned()).collect();
    }

    fn note(&mut self, codes: &BTreeSet<Code>) {
        for (index, device) in self.expect.devices.iter().enumerate() {
            if !self.served.contains(&index) && codes.iter().any(|code| device.takes(code)) {
                self.served.insert(index);
            }
        }
    }

    fn is_taken(&self, code: &Code) -> bool {
        self.expect.devices.iter().any(|device| device.takes(code))
    }

    /// Compares a file that serves together with others. Those of a directory on disk are others of the command.
    fn file(&mut self, unit: &Unit, directory: &Place, verified: &mut Verified) {
        let set = unit.set();
        self.note(&set.codes);
        if unit.bundle.is_some() {
            // What is unexpected is so in each file.
            let lacks = self.lacks(&set, &unit.codes);
            let unexpected = lacks.iter().filter(|lack| lack.rule == Rule::Unexpected);
            unexpected.for_each(|lack| verified.list(LackingBundle::of(unit).fault(lack)));
        }
        if unit.place.steps().is_empty() {
            let mut alone = Directories::default();
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

    fn unit(&mut self, unit: Unit, verified: &mut Verified) {
        if let Some(directory) = &unit.directory {
            return self.file(&unit, directory, verified);
        }
        let set = unit.set();
        // Bundles of a library mostly have code for the same GPUs.
        let is_new = self.last.as_ref().is_none_or(|(last, _)| *last != set);
        let is_elsewhere = self.place.as_ref() != Some(&unit.place);
        if is_new || is_elsewhere {
            self.add_to_library(unit.place.library(), &set, verified);
        }
        if is_elsewhere {
            self.place = Some(unit.place.clone());
        }
        if is_new {
            self.note(&set.codes);
            let is_whole = self.expect.extent == Extent::Libraries;
            let lacks = if is_whole { Vec::new() } else { self.lacks(&set, &unit.codes) };
            self.last = Some((set, lacks));
        }
        let Some((_, lacks)) = self.last.as_ref().filter(|(_, lacks)| !lacks.is_empty()) else { return };
        let source = unit.source.or_else(|| self.source(&unit.place, unit.bundle));
        let at = LackingBundle { place: unit.place, bundle: unit.bundle, source };
        lacks.iter().for_each(|lack| verified.list(at.fault(lack)));
    }

    /// Adds the code of a unit to its library.
    fn add_to_library(&mut self, library: Place, set: &CodeSet, verified: &mut Verified) {
        let code = self.open_library(library, verified);
        code.has_bundles = true;
        code.bundles.merge(set);
    }

    /// Adds the relocatable code of an object to the library into which it was linked.
    fn relinked(&mut self, place: &Place, set: CodeSet, verified: &mut Verified) {
        let code = self.open_library(place.library(), verified);
        code.bundles.vendors.extend(set.vendors);
        code.relinked.insert(set.codes.into_iter().filter(|code| !matches!(code, Code::LtoIr(_))).collect());
    }

    /// The code of a library so far, after the faults of the library before it.
    fn open_library(&mut self, library: Place, verified: &mut Verified) -> &mut LibraryCode {
        if self.library.as_ref().is_some_and(|(open, _)| *open != library) {
            self.finish_library(verified);
        }
        let (_, code) = self.library.get_or_insert_with(|| (library, LibraryCode::default()));
        code
    }

    /// Lists the faults of the last library, if it counts as a whole.
    fn finish_library(&mut self, verified: &mut Verified) {
        let Some((library, code)) = self.library.take() else { return };
        let mut lacks = self.lacks(&code.bundles, &[]);
        for (index, device) in self.expect.devices.iter().enumerate() {
            if code.is_relinked_for(device) {
                self.served.insert(index);
                lacks.retain(|lack| lack.gpu != device.name());
            }
        }
        if !code.relinked.is_empty() {
            let only_ptx = "; the driver links its relocatable code for another GPU only if that has PTX";
            lacks.iter_mut().for_each(|lack| lack.text += only_ptx);
        }
        self.has_unserved_library |= !lacks.is_empty();
        if self.expect.extent == Extent::Libraries || !code.has_bundles {
            lacks.iter().for_each(|lack| verified.list(lack.fault(&library)));
        }
    }

    /// What is wrong with bundles that have some code.
    fn lacks(&self, set: &CodeSet, codes: &[(usize, Code)]) -> Vec<Lack> {
        let devices = &self.expect.devices;
        let mut lacks = unserved_by(set, "", devices);
        if self.expect.is_exact() {
            // What a runtime chooses depends on the other code of the bundle.
            let chosen: BTreeSet<usize> = devices.iter().flat_map(|device| device.chosen(codes)).collect();
            let is_named = |code: &Code| devices.iter().any(|device| device.name() == code.name());
            let others = codes.iter().filter(|(position, code)| !chosen.contains(position) && !is_named(code));
            let others: BTreeSet<&Code> = others.map(|(_, code)| code).collect();
            lacks.extend(others.into_iter().map(Lack::unexpected));
        }
        lacks
    }

    /// The source file of a bundle in a section of the file, if its symbol table tells that.
    fn source(&self, place: &Place, bundle: Option<(usize, u64)>) -> Option<String> {
        let [Step::Section(_)] = place.steps() else { return None };
        let (_, offset) = bundle?;
        self.sources.get_or_init(|| scan::sources(self.input.bytes())).get(&offset).cloned()
    }
}

/// What code lacks for some GPUs. The text says where it is, after the GPUs that it is for.
fn unserved_by(set: &CodeSet, place: &str, devices: &[Device]) -> Vec<Lack> {
    let held = LazyCell::new(|| held(&set.codes));
    let unserved = |device: &Device| {
        let text = format!("{}; {}{place}{}", unserved(device, &set.codes)?, *held, unfound(device, set));
        Some(Lack { rule: Rule::Expected, gpu: device.name().to_owned(), text })
    };
    devices.iter().filter(|device| set.is_for(device)).filter_map(unserved).collect()
}

/// Directories whose files serve together: what can only be checked when all files are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Directories {
    /// By the place of the directory, its position in the list.
    known: HashMap<Place, usize>,
    all: Vec<Directory>,
}

#[derive(Clone, Debug)]
struct Directory {
    place: Place,
    first: LackingBundle,
    files: FileSet,
}

/// A bundle in which something is wrong, for its faults.
#[derive(Clone, Debug)]
struct LackingBundle {
    place: Place,
    /// Its index and its offset; none if it is not a single one.
    bundle: Option<(usize, u64)>,
    source: Option<String>,
}

impl LackingBundle {
    fn of(unit: &Unit) -> Self {
        Self { place: unit.place.clone(), bundle: unit.bundle, source: unit.source.clone() }
    }

    fn fault(&self, lack: &Lack) -> Fault {
        let from = self.source.as_ref().map_or_else(String::new, |source| format!("; its source is '{source}'"));
        let (bundle, offset) = self.bundle.unzip();
        let fault = lack.fault(&self.place);
        let (source, text) = (self.source.clone(), fault.text.clone() + &from);
        Fault { bundle, offset, source, text, ..fault }
    }
}

impl Directories {
    fn entry(&mut self, place: &Place, first: &LackingBundle) -> Option<&mut Directory> {
        let next = self.all.len();
        let position = *self.known.entry(place.clone()).or_insert(next);
        if position == next {
            self.all.push(Directory { place: place.clone(), first: first.clone(), files: FileSet::default() });
        }
        self.all.get_mut(position)
    }

    fn add(&mut self, place: &Place, file: &Unit) {
        if let Some(directory) = self.entry(place, &LackingBundle::of(file)) {
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

    /// The faults of directories without code for a GPU that they should serve.
    fn faults(self, expect: &Expect) -> Vec<Fault> {
        let mut faults = Vec::new();
        for Directory { place, first, files: FileSet { code, files } } in self.all {
            if files == 1 {
                let lacks = unserved_by(&code, "", &expect.devices);
                faults.extend(lacks.iter().map(|lack| first.fault(lack)));
            } else {
                let lacks = unserved_by(&code, &format!(" in {files} files"), &expect.devices);
                faults.extend(lacks.iter().map(|lack| lack.fault(&place)));
            }
        }
        faults
    }
}

/// The files of a tree that serve GPUs together: those of a directory that are code objects, bundles or fatbins
/// themselves. Each [`Verified`] reports a file as if it were alone; added here, it is compared with the others.
#[derive(Clone, Debug)]
pub struct ExpectTree {
    expect: Expect,
    /// The number of files in each directory, whatever they are.
    files: HashMap<Place, usize>,
    directories: Directories,
}

impl ExpectTree {
    /// A tree of these files, which are to be added.
    pub fn new<'p>(expect: Expect, paths: impl Iterator<Item = &'p Path>) -> Self {
        let mut files = HashMap::new();
        for path in paths {
            let number: &mut usize = files.entry(directory_of(&Place::of_file(path))).or_default();
            *number = number.saturating_add(1);
        }
        Self { expect, files, directories: Directories::default() }
    }

    /// Adds a file. Faults that others of its directory may make up for are removed, to be found again when all are
    /// added.
    pub fn add(&mut self, verified: &mut Verified) {
        let directory = directory_of(&Place::of_file(&verified.path));
        if self.files.get(&directory).is_some_and(|files| *files > 1) {
            verified.faults.retain(|fault| !fault.is_of_file_alone);
            self.directories.merge(std::mem::take(&mut verified.directories));
        }
    }

    /// The faults of all files together.
    pub fn faults(self) -> Vec<Fault> {
        self.directories.faults(&self.expect)
    }
}

/// The code of a library.
#[derive(Default)]
struct LibraryCode {
    /// That of all of its bundles.
    bundles: CodeSet,
    has_bundles: bool,
    /// The relocatable code of each of its objects, from which bundles were linked.
    relinked: BTreeSet<BTreeSet<Code>>,
}

impl LibraryCode {
    /// Whether CUDA's driver links the relocatable code for a GPU when the program starts: it compiles PTX, and needs
    /// code of every object. Machine code alone was linked before, or not at all.
    fn is_relinked_for(&self, device: &Device) -> bool {
        let has_ptx =
            |codes: &BTreeSet<Code>| codes.iter().any(|code| matches!(code, Code::Ptx(_)) && device.takes(code));
        let serves = |codes: &BTreeSet<Code>| device.unserved(codes.iter()).next().is_none();
        self.relinked.iter().any(has_ptx) && self.relinked.iter().all(serves)
    }
}

/// Something wrong with a bundle.
#[derive(Debug)]
struct Lack {
    rule: Rule,
    gpu: String,
    text: String,
}

impl Lack {
    fn unexpected(code: &Code) -> Self {
        let text = format!("it has code for {}, which no expected GPU needs", code.name());
        Self { rule: Rule::Unexpected, gpu: code.name(), text }
    }

    fn fault(&self, place: &Place) -> Fault {
        Fault { gpu: Some(self.gpu.clone()), ..Fault::new(place, self.rule, self.text.clone()) }
    }
}

/// What a bundle lacks for a GPU; none if it serves it.
fn unserved(device: &Device, codes: &BTreeSet<Code>) -> Option<String> {
    let unserved: Vec<Vec<String>> = device.unserved(codes.iter()).map(|setting| setting.features()).collect();
    let first = unserved.first()?;
    if unserved.len() == device.settings() {
        return Some(device.lack());
    }
    // The features that all settings without code share.
    let shared: Vec<&str> = first
        .iter()
        .filter(|feature| unserved.iter().all(|other| other.contains(feature)))
        .map(String::as_str)
        .collect();
    let with = if shared.is_empty() { "some settings".to_owned() } else { shared.join(" and ") };
    Some(format!("it does not serve {device} with {with}"))
}

/// The code for a GPU that a runtime does not find, and why, after the rest of a sentence; empty without such code.
fn unfound(device: &Device, set: &CodeSet) -> String {
    match set.unfound.iter().find(|unfound| device.takes(&unfound.code)) {
        Some(unfound) => format!("; {unfound}"),
        None => String::new(),
    }
}

/// The GPUs for which a bundle has code.
fn held(codes: &BTreeSet<Code>) -> String {
    match codes.iter().map(Code::name).collect::<BTreeSet<String>>() {
        names if names.is_empty() => "it has no code for any GPU".to_owned(),
        names => format!("it has code for {}", listed(names, LISTED_MAX, ", ", ", and ")),
    }
}
