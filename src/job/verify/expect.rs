//! Checks that bundles serve the GPUs that they are expected to serve.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeSet, HashMap};

use super::{Fault, Rule, Verified};
use crate::display::listed;
use crate::io::input::Input;
use crate::runtime::{Code, CodeSet, Codes, Device, Unit, Units};
use crate::scan::{self, Found, Place, Split, Step};

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
}

impl<'e> ExpectComparison<'e> {
    pub(super) fn new(expect: &'e Expect, input: &'e Input) -> Self {
        let (sources, units, served) = (OnceCell::new(), Units::default(), BTreeSet::new());
        let (last, place, library) = (None, None, None);
        Self { expect, input, sources, units, last, place, library, has_unserved_library: false, served }
    }

    /// Compares a bundle, or what it completes.
    pub(super) fn bundle(&mut self, found: &Found<'_>, verified: &mut Verified) {
        if found.is_for_some_gpus() {
            let codes = Codes::of(found);
            let vendors = codes.vendors.clone();
            let codes: BTreeSet<Code> = codes.into_codes().into_iter().collect();
            match found.is_relinked() {
                true => self.relinked(found.place, CodeSet { vendors, codes: codes.clone() }, verified),
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
        Unit::of_split(place, split).into_iter().for_each(|unit| self.unit(unit, verified));
    }

    /// Compares what was still open, and adds what is known only at the end.
    pub(super) fn finish(mut self, verified: &mut Verified) {
        self.units.finish(|_| true).into_iter().for_each(|unit| self.unit(unit, verified));
        self.finish_library(verified);
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

    fn unit(&mut self, unit: Unit, verified: &mut Verified) {
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
        let from = source.as_ref().map_or_else(String::new, |source| format!("; its source is '{source}'"));
        let (bundle, offset) = unit.bundle.unzip();
        for lack in lacks {
            let fault = lack.fault(&unit.place);
            let (source, text) = (source.clone(), fault.text.clone() + &from);
            verified.list(Fault { bundle, offset, source, text, ..fault });
        }
    }

    /// Adds the code of a unit to its library.
    fn add_to_library(&mut self, library: Place, set: &CodeSet, verified: &mut Verified) {
        let code = self.open_library(library, verified);
        code.has_bundles = true;
        let all = &mut code.bundles;
        all.vendors.extend(&set.vendors);
        all.codes.extend(set.codes.difference(&all.codes).cloned().collect::<Vec<_>>());
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
        let held = LazyCell::new(|| held(&set.codes));
        let devices = &self.expect.devices;
        let unserved = |device: &Device| {
            let text = format!("{}; {}", unserved(device, &set.codes)?, *held);
            Some(Lack { rule: Rule::Expected, gpu: device.name().to_owned(), text })
        };
        let mut lacks: Vec<Lack> = devices.iter().filter(|device| set.is_for(device)).filter_map(unserved).collect();
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

/// The GPUs for which a bundle has code.
fn held(codes: &BTreeSet<Code>) -> String {
    match codes.iter().map(Code::name).collect::<BTreeSet<String>>() {
        names if names.is_empty() => "it has no code for any GPU".to_owned(),
        names => format!("it has code for {}", listed(names, LISTED_MAX, ", ", ", and ")),
    }
}
