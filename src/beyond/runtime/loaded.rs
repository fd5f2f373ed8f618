//! The code objects of a file that runtimes load on some GPUs.

use std::collections::BTreeMap;

use super::code::{BundleCodes, Code, UnfoundCode};
use super::coverage::LoadUnits;
use super::device::Device;
use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::beyond::scan::{CodeObject, Finding, Format, FoundBundle, Place, Scan};

/// A code object that runtimes load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedCodeObject {
    /// The code object.
    pub code_object: CodeObject,
    /// The GPUs that load it, by their indices in the list that was asked for. A GPU whose name leaves features open
    /// may load several code objects of a bundle.
    pub devices: Vec<usize>,
}

/// Returns the code objects of a file that runtimes load on some GPUs, in the order of a search: for each GPU the best
/// of every bundle, by the [rules of its vendor](Device).
///
/// Names mean GPUs: `sm_90a` means the GPU `sm_90`, and `gfx11-generic` all processors of that target. The choice in a
/// bundle may depend on a later bundle: offload binaries at one place are one choice. HIP's runtime finds only entries
/// whose IDs begin like `hipv4-amdgcn-amd-amdhsa--`.
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
/// The errors of [`Scan::run`]. Broken parts of the file are skipped.
pub fn loaded<'a>(scan: &Scan, data: impl Into<Slice<'a>>, devices: &[Device]) -> Result<Vec<LoadedCodeObject>> {
    let (mut loader, mut loaded) = (Loader::new(devices), Vec::new());
    scan.run(data, &mut |finding| {
        if let Finding::Bundle(found) = finding {
            loaded.extend(loader.add(&found)?);
        }
        Ok(())
    })?;
    // Consecutive offload binaries at one place are one choice. The next place ends the choice, but the last place has
    // no next one. The search is over, so every place is.
    loaded.extend(loader.finish_places(|_| true));
    loaded.sort_unstable_by_key(|(position, _)| *position);
    Ok(loaded.into_iter().map(|(_, loaded)| loaded).collect())
}

/// Chooses the code objects that runtimes load on some GPUs, as a search finds them. It returns each code object with
/// its position in the search, once it is chosen: offload binaries at one place are one choice.
pub(crate) struct Loader {
    /// The [GPUs](Device::gpus) of each name.
    devices: Vec<Device>,
    units: LoadUnits,
    /// The code objects that may still be chosen, by their positions in the search.
    waiting: BTreeMap<usize, CodeObject>,
    /// The first code for each GPU that HIP's runtime does not find.
    unfound: BTreeMap<usize, UnfoundCode>,
}

impl Loader {
    pub(crate) fn new(devices: &[Device]) -> Self {
        let (devices, units) = (devices.iter().map(Device::gpus).collect(), LoadUnits::of_bundles());
        Self { devices, units, waiting: BTreeMap::new(), unfound: BTreeMap::new() }
    }

    /// Adds the next bundle of the search, and returns the code objects that are chosen now.
    pub(crate) fn add(&mut self, found: &FoundBundle<'_>) -> Result<Vec<(usize, LoadedCodeObject)>> {
        let (info, first) = (found.info()?, self.units.code_objects());
        self.waiting.extend((first..).zip(found.code_objects().map(|code_object| code_object.keep(&info))));
        let units = self.units.add(found);
        let mut loaded = Vec::new();
        for unit in &units {
            self.note_unfound(&unit.unfound);
            loaded.extend(self.choose(&unit.codes));
        }
        // A bundle that need not serve every GPU is no unit, so its code is chosen here.
        if found.is_for_some_gpus() {
            let codes = BundleCodes::of(found).found.into_iter();
            let codes: Vec<_> = codes.map(|found| (first + found.index, found.code)).collect();
            // A program has device images for each of its kernels.
            let is_each_needed = matches!(found.format, Format::DeviceImages | Format::SyclBin);
            // `chunks` takes no size of 0, not even for no code.
            let size = if is_each_needed { 1 } else { codes.len().max(1) };
            for codes in codes.chunks(size) {
                loaded.extend(self.choose(codes));
            }
        }
        // No unit waits for later bundles, so no code object of the bundles so far can still be chosen.
        if !self.units.has_incomplete() {
            self.waiting.clear();
        }
        Ok(loaded)
    }

    /// Ends the choices at the places that `is_over` accepts: nothing more is found there. Returns the chosen code
    /// objects.
    pub(crate) fn finish_places(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<(usize, LoadedCodeObject)> {
        self.units.finish_places(is_over).iter().flat_map(|unit| self.choose(&unit.codes)).collect()
    }

    /// Notes code that HIP's runtime does not find, for each GPU that would take it and has no such note yet.
    fn note_unfound(&mut self, unfound: &[UnfoundCode]) {
        for code in unfound {
            for (index, device) in self.devices.iter().enumerate() {
                if device.takes(&code.code) {
                    self.unfound.entry(index).or_insert_with(|| code.clone());
                }
            }
        }
    }

    /// Takes the noted code that HIP's runtime does not find, by the indices of the GPUs that it is for: one for each.
    pub(crate) fn take_unfound(&mut self) -> BTreeMap<usize, UnfoundCode> {
        std::mem::take(&mut self.unfound)
    }

    /// Chooses a code object for each GPU. A program needs only one of `codes`. Returns the chosen code objects, which
    /// no longer wait.
    fn choose(&mut self, codes: &[(usize, Code)]) -> Vec<(usize, LoadedCodeObject)> {
        let mut chosen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, device) in self.devices.iter().enumerate() {
            for position in device.choose(codes) {
                chosen.entry(position).or_default().push(index);
            }
        }
        let mut loaded = Vec::new();
        for (position, devices) in chosen {
            if let Some(code_object) = self.waiting.remove(&position) {
                loaded.push((position, LoadedCodeObject { code_object, devices }));
            }
        }
        loaded
    }
}
