//! The code objects of a file that runtimes load on some GPUs.

use std::collections::BTreeMap;

use super::code::{Code, Codes, UnfoundCode};
use super::coverage::Units;
use super::device::Device;
use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::beyond::scan::{CodeObject, Finding, Format, Found, Place, Scan};

/// A code object that runtimes load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The code object.
    pub code_object: CodeObject,
    /// The GPUs on which it is loaded, by their indices in the list that was asked for. A GPU whose name leaves
    /// features open may load several code objects of a bundle.
    pub devices: Vec<usize>,
}

/// The code objects of a file that runtimes load on some GPUs, in the order of a search: for each GPU the best of every
/// bundle, by the [rules of its vendor](Device). Names mean GPUs: `sm_90a` is the GPU `sm_90`, and `gfx11-generic`
/// stands for all processors of that target. What is loaded of a bundle may depend on a later one: offload binaries at
/// one place are one choice. HIP's runtime finds only entries whose IDs begin as `hipv4-amdgcn-amd-amdhsa--` does.
///
/// ```
/// use offload_bundle::runtime::{self, Device};
/// use offload_bundle::scan::Scan;
///
/// let data = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/binary/llvm22-plain.bundle"))?;
/// let loaded = runtime::loaded(&Scan::default(), &data, &[Device::parse("gfx90a:sramecc+:xnack-")?])?;
/// assert_eq!(loaded[0].code_object.target(), "gfx90a:sramecc+:xnack-");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`Scan::run`]. Broken parts of the file are passed over.
pub fn loaded<'a>(scan: &Scan, data: impl Into<Slice<'a>>, devices: &[Device]) -> Result<Vec<Loaded>> {
    let (mut loader, mut loaded) = (Loader::new(devices), Vec::new());
    scan.run(data, &mut |finding| {
        if let Finding::Bundle(found) = finding {
            loaded.extend(loader.add(&found)?);
        }
        Ok(())
    })?;
    loaded.extend(loader.finish(|_| true));
    loaded.sort_unstable_by_key(|(position, _)| *position);
    Ok(loaded.into_iter().map(|(_, loaded)| loaded).collect())
}

/// Chooses the code objects that runtimes load on some GPUs, as a search finds them. It returns each with its position
/// in the search as soon as that is known: offload binaries at one place are one choice.
pub(crate) struct Loader {
    /// The [GPUs](Device::gpus) of each name.
    devices: Vec<Device>,
    units: Units,
    /// The code objects from the first one on that may still be chosen, by their positions.
    waiting: BTreeMap<usize, CodeObject>,
    /// Code for the GPUs that HIP's runtime does not find: the first of each GPU that is asked for.
    unfound: BTreeMap<usize, UnfoundCode>,
}

impl Loader {
    pub(crate) fn new(devices: &[Device]) -> Self {
        let (devices, units) = (devices.iter().map(Device::gpus).collect(), Units::of_bundles());
        Self { devices, units, waiting: BTreeMap::new(), unfound: BTreeMap::new() }
    }

    /// Adds the next bundle of the search.
    pub(crate) fn add(&mut self, found: &Found<'_>) -> Result<Vec<(usize, Loaded)>> {
        let (info, first) = (found.info()?, self.units.code_objects());
        self.waiting.extend((first..).zip(found.code_objects().map(|code_object| code_object.known(&info))));
        let units = self.units.add(found);
        units.iter().for_each(|unit| self.note_unfound(&unit.unfound));
        let mut loaded: Vec<_> = units.iter().flat_map(|unit| self.choose(&unit.codes)).collect();
        if found.is_for_some_gpus() {
            let codes = Codes::of(found).found.into_iter();
            let codes: Vec<_> = codes.map(|held| (first + held.index, held.code)).collect();
            // A program has device images for each of its kernels.
            let is_each_needed = matches!(found.format, Format::DeviceImages | Format::SyclBin);
            let size = if is_each_needed { 1 } else { codes.len().max(1) };
            loaded.extend(codes.chunks(size).flat_map(|codes| self.choose(codes)));
        }
        if !self.units.has_open() {
            self.waiting.clear();
        }
        Ok(loaded)
    }

    /// Ends the choices at the places that `is_over` accepts.
    pub(crate) fn finish(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<(usize, Loaded)> {
        self.units.finish(is_over).iter().flat_map(|unit| self.choose(&unit.codes)).collect()
    }

    /// Notes which GPUs some code would be for that HIP's runtime does not find.
    fn note_unfound(&mut self, unfound: &[UnfoundCode]) {
        for code in unfound {
            for (number, device) in self.devices.iter().enumerate() {
                if device.takes(&code.code) {
                    self.unfound.entry(number).or_insert_with(|| code.clone());
                }
            }
        }
    }

    /// The code so far that HIP's runtime does not find, by the indices of the GPUs that it is for: one for each GPU.
    pub(crate) fn take_unfound(&mut self) -> BTreeMap<usize, UnfoundCode> {
        std::mem::take(&mut self.unfound)
    }

    /// Chooses among code objects of which a program needs one.
    fn choose(&mut self, codes: &[(usize, Code)]) -> Vec<(usize, Loaded)> {
        let mut chosen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, device) in self.devices.iter().enumerate() {
            device.chosen(codes).into_iter().for_each(|position| chosen.entry(position).or_default().push(number));
        }
        let loaded = |(position, devices)| {
            let code_object = self.waiting.remove(&position)?;
            Some((position, Loaded { code_object, devices }))
        };
        chosen.into_iter().filter_map(loaded).collect()
    }
}
