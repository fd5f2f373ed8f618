//! The code objects of a file that runtimes load on some GPUs.

use std::collections::BTreeMap;

use super::read::each_bundle;
use super::unit::{FoundUnit, UnitBuilder, UnitRole};
use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::beyond::runtime::{Code, CodeUse, Device, UnfoundCode};
use crate::beyond::scan::{CodeObject, FoundBundle, Place, Scan};

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

impl LoadedCodeObject {
    /// Returns the target in one word, as [`CodeObject::target`].
    pub fn target(&self) -> String {
        self.code_object.target()
    }
}

/// Returns the code objects of a file that runtimes load on some GPUs, in the order of a search. For each GPU, that is
/// the best code object of every bundle, by the [rules of its vendor](Device).
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
/// assert_eq!(loaded[0].target(), "gfx90a:sramecc+:xnack-");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`Scan::run`]. Broken parts of the file are skipped.
pub fn loaded<'a>(scan: &Scan, data: impl Into<Slice<'a>>, devices: &[Device]) -> Result<Vec<LoadedCodeObject>> {
    let (mut loader, mut loaded) = (Loader::new(devices), Vec::new());
    let data = data.into();
    each_bundle(scan, &Place::of_file(data.path()), data, &mut |found| {
        loaded.extend(loader.add(found)?);
        Ok(())
    })?;
    // Consecutive offload binaries at one place are one choice. The next place ends the choice, and the end of the
    // search the last one.
    loaded.extend(loader.finish_all());
    loaded.sort_unstable_by_key(|(position, _)| *position);
    Ok(loaded.into_iter().map(|(_, loaded)| loaded).collect())
}

/// Chooses the code objects that runtimes load on some GPUs, while a search finds them. The position of a code object
/// is its index among all code objects of the search. A choice may have to wait for the next bundles, because
/// consecutive offload binaries at one place are one choice.
pub(crate) struct Loader {
    /// The [GPUs](Device::gpus) of each name that the caller asked for.
    devices: Vec<Device>,
    units: UnitBuilder,
    /// The code objects that may still be chosen, by their positions.
    waiting: BTreeMap<usize, CodeObject>,
    /// For the GPU with an index in `devices`, the first code that its runtime does not find or load.
    unfound: BTreeMap<usize, UnfoundCode>,
}

impl Loader {
    /// Returns a loader for the GPUs that these names mean.
    pub(crate) fn new(devices: &[Device]) -> Self {
        let (devices, units) = (devices.iter().map(Device::gpus).collect(), UnitBuilder::of_bundles());
        Self { devices, units, waiting: BTreeMap::new(), unfound: BTreeMap::new() }
    }

    /// Adds the next bundle of the search, and returns the code objects that are chosen now, with their positions. They
    /// may be in earlier bundles.
    pub(crate) fn add(&mut self, found: &FoundBundle<'_>) -> Result<Vec<(usize, LoadedCodeObject)>> {
        let (info, first_position) = (found.info()?, self.units.code_objects());
        self.waiting.extend((first_position..).zip(found.code_objects().map(|code_object| code_object.keep(&info))));
        let mut loaded = Vec::new();
        for unit in self.units.add(found) {
            self.note_unfound(&unit.unfound);
            // The code of a unit is one choice. But a program may need each device image that runs on its GPU. `chunks`
            // needs a length of at least 1, also for a unit without code.
            let is_each_a_choice = unit.role == UnitRole::Together && unit.code_use == CodeUse::Each;
            let len_of_choice = if is_each_a_choice { 1 } else { unit.codes.len().max(1) };
            for choice in unit.codes.chunks(len_of_choice) {
                loaded.extend(self.choose(choice));
            }
        }
        // If no unit waits for later bundles, no code object of the bundles so far can be chosen any more.
        if !self.units.has_incomplete() {
            self.waiting.clear();
        }
        Ok(loaded)
    }

    /// Makes all choices that are left, and returns the chosen code objects with their positions. Called at the end of
    /// the search.
    pub(crate) fn finish_all(&mut self) -> Vec<(usize, LoadedCodeObject)> {
        let units = self.units.finish_all();
        self.choose_in(&units)
    }

    /// Makes the choices at the places that `is_over` accepts: no more bundles follow there. Returns the chosen code
    /// objects with their positions.
    pub(crate) fn finish_places(&mut self, is_over: impl Fn(&Place) -> bool) -> Vec<(usize, LoadedCodeObject)> {
        let units = self.units.finish_places(is_over);
        self.choose_in(&units)
    }

    /// Makes the choice in each of some complete units, and notes their code that runtimes do not find or load.
    fn choose_in(&mut self, units: &[FoundUnit]) -> Vec<(usize, LoadedCodeObject)> {
        let mut loaded = Vec::new();
        for unit in units {
            self.note_unfound(&unit.unfound);
            loaded.extend(self.choose(&unit.codes));
        }
        loaded
    }

    /// Notes code that runtimes do not find or load, for each GPU that would take the code. Only the first code for a
    /// GPU is kept.
    fn note_unfound<'u>(&mut self, unfound: impl IntoIterator<Item = &'u UnfoundCode>) {
        for code in unfound {
            for (index, device) in self.devices.iter().enumerate() {
                if device.takes(&code.code) {
                    self.unfound.entry(index).or_insert_with(|| code.clone());
                }
            }
        }
    }

    /// Takes the noted code that runtimes do not find or load: one code object for each GPU, by the index of the GPU.
    pub(crate) fn take_unfound(&mut self) -> BTreeMap<usize, UnfoundCode> {
        std::mem::take(&mut self.unfound)
    }

    /// Chooses a code object for each GPU among `codes`, which are alternatives, and their positions. Returns the
    /// chosen code objects, and takes them out of `waiting`.
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
