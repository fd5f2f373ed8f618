//! In how many bundles each GPU is served.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use super::code::{Code, Codes, GpuVendor, Held};
use super::device::Device;
use crate::container::kpack;
use crate::id::OffloadKind;
use crate::scan::{Format, Found, Place, Split};

/// The largest number of comparisons of a GPU with a kind of bundle. Hostile files can have any number of both.
const COMPARISONS_MAX: usize = 4_000_000;

/// The largest number of different sets of code that are counted.
const KINDS_MAX: usize = 250_000;

/// The bundles of a file, or of several, by the GPUs that they serve.
///
/// Offload binaries at one place count as one bundle, one for each source file and offload kind; so does all code in kpack
/// archives that one wrapper of a library loads. Code objects without a bundle and device images of SYCL are not counted: each of them need not serve every
/// GPU.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    bundles: BTreeMap<BundleKind, usize>,
    units: Units,
    /// Whether there are more different sets of code than are counted.
    is_full: bool,
}

/// What bundles of the same kind have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BundleKind {
    vendors: BTreeSet<GpuVendor>,
    codes: BTreeSet<Code>,
}

/// In how many bundles a GPU is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
        let complete = self.units.add(found);
        complete.into_iter().for_each(|unit| self.count(unit.into_kind(), 1));
    }

    /// Adds the code objects in kpack archives that a split library loads.
    pub fn add_split(&mut self, place: &Place, split: &Split<'_>) {
        Unit::of_split(place, split).into_iter().for_each(|unit| self.count(unit.into_kind(), 1));
    }

    /// Adds the bundles of another file.
    pub fn merge(&mut self, other: &Self) {
        self.is_full |= other.is_full;
        other.kinds().into_iter().for_each(|(kind, count)| self.count(kind.into_owned(), count));
    }

    fn count(&mut self, kind: BundleKind, more: usize) {
        if self.bundles.len() >= KINDS_MAX && !self.bundles.contains_key(&kind) {
            self.is_full = true;
            return;
        }
        let count = self.bundles.entry(kind).or_default();
        *count += more;
    }

    fn kinds(&self) -> Vec<(Cow<'_, BundleKind>, usize)> {
        let open = self.units.open.iter().map(|(_, unit)| (Cow::Owned(unit.clone().into_kind()), 1));
        self.bundles.iter().map(|(kind, count)| (Cow::Borrowed(kind), *count)).chain(open).collect()
    }

    /// The number of bundles.
    pub fn bundles(&self) -> usize {
        self.bundles.values().sum::<usize>() + self.units.open.len()
    }

    /// In how many bundles a GPU is served.
    pub fn of(&self, device: &Device) -> Served {
        served(device, &self.kinds())
    }

    /// In how many bundles each of some GPUs is served. None if there are too many to compare.
    pub fn of_each(&self, devices: &[Device]) -> Option<Vec<Served>> {
        let kinds = self.kinds();
        let all: usize = kinds.iter().map(|(kind, _)| kind.codes.len() + 1).sum();
        let is_too_much = self.is_full || devices.len().saturating_mul(all) > COMPARISONS_MAX;
        (!is_too_much).then(|| devices.iter().map(|device| served(device, &kinds)).collect())
    }

    /// The GPUs for which any bundle has code, by name, and in how many bundles each is served. None if there are too many
    /// to compare.
    pub fn gpus(&self) -> Option<Vec<(Device, Served)>> {
        let kinds = self.kinds();
        let codes: HashSet<&Code> = kinds.iter().flat_map(|(kind, _)| &kind.codes).collect();
        let named = codes.into_iter().filter_map(Device::of_code).map(|device| (device.name().to_owned(), device));
        let devices: Vec<Device> = named.collect::<BTreeMap<String, Device>>().into_values().collect();
        let served = self.of_each(&devices)?;
        Some(devices.into_iter().zip(served).collect())
    }
}

fn served(device: &Device, kinds: &[(Cow<'_, BundleKind>, usize)]) -> Served {
    let mut served = Served::default();
    for (kind, count) in kinds {
        if is_for(&kind.vendors, device) {
            let serves = device.unserved(kind.codes.iter()).next().is_none();
            served.bundles += *count;
            served.serving += if serves { *count } else { 0 };
        }
    }
    served
}

/// Whether a bundle with entries for GPUs of these vendors should serve a GPU.
pub(crate) fn is_for(vendors: &BTreeSet<GpuVendor>, device: &Device) -> bool {
    vendors.is_empty() || vendors.contains(&device.vendor())
}

/// The code of which a program needs one code object for its GPU.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) place: Place,
    /// The index and the offset of the bundle at the place; none if it is not a single one.
    pub(crate) bundle: Option<(usize, u64)>,
    /// The first source file that its code objects record.
    pub(crate) source: Option<String>,
    pub(crate) vendors: BTreeSet<GpuVendor>,
    /// With their positions in the search, among all code objects.
    pub(crate) codes: Vec<(usize, Code)>,
}

impl Unit {
    fn new(found: &Found<'_>, vendors: BTreeSet<GpuVendor>) -> Self {
        Self {
            place: found.place.clone(),
            bundle: (found.format != Format::OffloadBinary).then_some((found.index, found.bundle.offset)),
            source: found.code_objects().find_map(|code_object| code_object.shown_source()),
            vendors,
            codes: Vec::new(),
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
            source: None,
            vendors: BTreeSet::from([GpuVendor::Amd]),
            codes: by_index.get(index).cloned().unwrap_or_default(),
        };
        asked.map(unit).collect()
    }

    fn into_kind(self) -> BundleKind {
        BundleKind { vendors: self.vendors, codes: self.codes.into_iter().map(|(_, code)| code).collect() }
    }
}

/// Puts units together from the bundles of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// The offload binaries at one place that are not complete yet, by their offload kind.
    open: Vec<(Option<OffloadKind>, Unit)>,
    /// The number of code objects so far.
    code_objects: usize,
}

impl Units {
    /// Adds the next bundle of the search, and returns the units that are complete.
    pub(crate) fn add(&mut self, found: &Found<'_>) -> Vec<Unit> {
        let first = self.code_objects;
        self.code_objects = first + found.bundle.entries.len();
        if found.format.is_for_some_gpus() {
            return Vec::new();
        }
        let Codes { found: codes, vendors, is_outer } = Codes::of(found);
        if is_outer {
            return Vec::new();
        }
        if found.format != Format::OffloadBinary {
            let codes = codes.into_iter().map(|held| (first + held.index, held.code)).collect();
            return vec![Unit { codes, ..Unit::new(found, vendors) }];
        }
        let is_elsewhere = found.index == 0 || self.open.iter().any(|(_, unit)| unit.place != *found.place);
        let mut complete = if is_elsewhere { self.finish() } else { Vec::new() };
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

    /// The units that were not complete.
    pub(crate) fn finish(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.open).into_iter().map(|(_, unit)| unit).collect()
    }
}
