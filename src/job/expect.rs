//! Checks that bundles serve the GPUs that they are expected to serve.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeSet, HashMap};

use super::verify::{Fault, Rule};
use crate::io::input::Input;
use crate::runtime::{Code, Codes, Device, Unit, Units};
use crate::scan::{self, Found, Place, Split, Step};

/// The GPUs that every bundle of a file has to serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expect {
    /// The GPUs.
    pub devices: Vec<Device>,
    /// Whether code is a fault that no runtime loads for any of these GPUs.
    pub is_exact: bool,
}

/// The number of GPUs that the text of a fault lists.
const LISTED_MAX: usize = 16;

impl Expect {
    /// Expects all bundles to serve some GPUs.
    pub fn new(devices: Vec<Device>) -> Self {
        Self { devices, is_exact: false }
    }

    /// Expects all bundles to serve some GPUs, and to hold no code but what their runtimes load.
    pub fn exactly(devices: Vec<Device>) -> Self {
        Self { devices, is_exact: true }
    }
}

/// The comparison of a file with what is expected.
pub(super) struct Comparison<'e> {
    expect: &'e Expect,
    input: &'e Input,
    /// The source files of the bundles in the file, by the offsets of the bundles, once they are needed.
    sources: OnceCell<HashMap<u64, String>>,
    units: Units,
    /// The positions of the GPUs that any code in the file serves.
    served: BTreeSet<usize>,
}

impl<'e> Comparison<'e> {
    pub(super) fn new(expect: &'e Expect, input: &'e Input) -> Self {
        Self { expect, input, sources: OnceCell::new(), units: Units::default(), served: BTreeSet::new() }
    }

    /// Compares a bundle, or what it completes.
    pub(super) fn bundle(&mut self, found: &Found<'_>) -> Vec<Fault> {
        if found.format.is_for_some_gpus() {
            let codes: Vec<Code> = Codes::of(found).found.into_iter().map(|(_, code)| code).collect();
            self.note(&codes);
            let others = codes.iter().filter(|code| self.expect.is_exact && !self.is_taken(code));
            let bundle = Some((found.index, found.bundle.offset));
            return others.map(|code| unexpected(found.place, bundle, code)).collect();
        }
        let complete = self.units.add(found);
        complete.map_or_else(Vec::new, |unit| self.unit(unit))
    }

    /// Compares a split library.
    pub(super) fn split(&mut self, place: &Place, split: &Split<'_>) -> Vec<Fault> {
        Unit::of_split(place, split).into_iter().flat_map(|unit| self.unit(unit)).collect()
    }

    /// Compares what was still open. Returns the names of the GPUs that are served by any code, too.
    pub(super) fn finish(mut self) -> (Vec<Fault>, Vec<String>) {
        let gaps = self.units.open.take().map_or_else(Vec::new, |unit| self.unit(unit));
        let devices = self.expect.devices.iter().enumerate();
        let served =
            devices.filter(|(index, _)| self.served.contains(index)).map(|(_, device)| device.name().to_owned());
        (gaps, served.collect())
    }

    fn note(&mut self, codes: &[Code]) {
        for (index, device) in self.expect.devices.iter().enumerate() {
            if !self.served.contains(&index) && codes.iter().any(|code| device.takes(code)) {
                self.served.insert(index);
            }
        }
    }

    fn is_taken(&self, code: &Code) -> bool {
        self.expect.devices.iter().any(|device| device.takes(code))
    }

    fn unit(&mut self, unit: Unit) -> Vec<Fault> {
        let Unit { place, bundle, source, codes: all, .. } = unit;
        let codes: Vec<Code> = all.iter().map(|(_, code)| code.clone()).collect();
        self.note(&codes);
        let held = LazyCell::new(|| held(&codes));
        let unserved = |device: &Device| {
            let text = format!("{}; {}", unserved(device, &codes)?, *held);
            Some(fault(&place, bundle, Rule::Expected, device.name(), text))
        };
        let mut faults: Vec<Fault> = self.expect.devices.iter().filter_map(unserved).collect();
        if self.expect.is_exact {
            // What a runtime chooses depends on the other code of the bundle.
            let chosen: BTreeSet<_> = self.expect.devices.iter().flat_map(|device| device.chosen(&all)).collect();
            let others = all.iter().filter(|(key, _)| !chosen.contains(key));
            let others: BTreeSet<&Code> = others.map(|(_, code)| code).collect();
            faults.extend(others.into_iter().map(|code| unexpected(&place, bundle, code)));
        }
        if !faults.is_empty()
            && let Some(source) = source.or_else(|| self.source(&place, bundle))
        {
            for fault in &mut faults {
                fault.text.push_str(&format!("; its source is '{source}'"));
                fault.source = Some(source.clone());
            }
        }
        faults
    }

    /// The source file of a bundle in a section of the file, if its symbol table tells that.
    fn source(&self, place: &Place, bundle: Option<(usize, u64)>) -> Option<String> {
        let [Step::Section(_)] = place.steps() else { return None };
        let (_, offset) = bundle?;
        self.sources.get_or_init(|| scan::sources(self.input.bytes())).get(&offset).cloned()
    }
}

fn unexpected(place: &Place, bundle: Option<(usize, u64)>, code: &Code) -> Fault {
    let text = format!("it has code for {}, which no expected GPU needs", code.name());
    fault(place, bundle, Rule::Unexpected, &code.name(), text)
}

fn fault(place: &Place, bundle: Option<(usize, u64)>, rule: Rule, gpu: &str, text: String) -> Fault {
    let (index, offset) = bundle.unzip();
    Fault { bundle: index, offset, gpu: Some(gpu.to_owned()), ..Fault::new(place, rule, text) }
}

/// What a bundle lacks for a GPU; none if it serves it.
fn unserved(device: &Device, codes: &[Code]) -> Option<String> {
    let unserved: Vec<Vec<String>> = device.unserved(codes.iter()).map(|setting| setting.features()).collect();
    let first = unserved.first()?;
    if unserved.len() == device.settings() {
        return Some(format!("it does not serve {device}"));
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
fn held(codes: &[Code]) -> String {
    let names: BTreeSet<String> = codes.iter().map(Code::name).collect();
    let listed: Vec<&str> = names.iter().take(LISTED_MAX).map(String::as_str).collect();
    match names.len().checked_sub(LISTED_MAX) {
        _ if names.is_empty() => "it has no code for any GPU".to_owned(),
        None | Some(0) => format!("it has code for {}", listed.join(", ")),
        Some(more) => format!("it has code for {}, and {more} more", listed.join(", ")),
    }
}
