//! The code objects of a file that runtimes load on some GPUs.

use std::collections::BTreeMap;

use super::code::{Code, Codes};
use super::coverage::Units;
use super::device::Device;
use crate::error::Result;
use crate::io::input::Slice;
use crate::scan::{CodeObject, Finding, Format, Found, Place, Scan};

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
/// one place are one choice.
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
/// Those of [`Scan::run`]. Broken parts of the file are passed over.
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
}

impl Loader {
    pub(crate) fn new(devices: &[Device]) -> Self {
        Self { devices: devices.iter().map(Device::gpus).collect(), units: Units::default(), waiting: BTreeMap::new() }
    }

    /// Adds the next bundle of the search.
    pub(crate) fn add(&mut self, found: &Found<'_>) -> Result<Vec<(usize, Loaded)>> {
        let (info, first) = (found.info()?, self.units.code_objects());
        self.waiting.extend((first..).zip(found.code_objects().map(|code_object| code_object.known(&info))));
        let mut loaded: Vec<_> = self.units.add(found).iter().flat_map(|unit| self.choose(&unit.codes)).collect();
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
