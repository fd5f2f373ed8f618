//! The code objects of a file that runtimes load on some GPUs.

use std::collections::BTreeMap;

use super::code::{Code, Codes};
use super::coverage::Units;
use super::device::Device;
use crate::error::Result;
use crate::io::input::Slice;
use crate::scan::{CodeObject, Finding, Format, Scan};

/// A code object that runtimes load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The code object.
    pub code_object: CodeObject,
    /// The GPUs on which it is loaded, by their indices in the list that was asked for. A GPU whose name leaves features open may
    /// load several code objects of a bundle.
    pub devices: Vec<usize>,
}

/// The code objects of a file that runtimes load on some GPUs, in the order of a search: for each GPU the best of every bundle, by the
/// [rules of its vendor](Device). What is loaded of a bundle may depend on a later one: offload binaries at one place are one
/// choice.
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
    let (mut code_objects, mut chosen, mut units) =
        (Vec::new(), ChosenFor { devices, by_position: BTreeMap::new() }, Units::default());
    scan.run(data, &mut |finding| {
        let Finding::Bundle(found) = finding else { return Ok(()) };
        let (info, first) = (found.info()?, code_objects.len());
        code_objects.extend(found.code_objects().map(|code_object| code_object.known(&info)));
        units.add(&found).iter().for_each(|unit| chosen.add(&unit.codes));
        if found.format.is_for_some_gpus() {
            let codes = Codes::of(&found).found.into_iter();
            let codes: Vec<_> = codes.map(|held| (first + held.index, held.code)).collect();
            match found.format {
                // A program has device images for each of its kernels.
                Format::DeviceImages | Format::SyclBin => codes.chunks(1).for_each(|one| chosen.add(one)),
                _ => chosen.add(&codes),
            }
        }
        Ok(())
    })?;
    units.finish().iter().for_each(|unit| chosen.add(&unit.codes));
    let mut by_position = chosen.by_position;
    let with_devices = |(position, code_object)| Some(Loaded { code_object, devices: by_position.remove(&position)? });
    Ok(code_objects.into_iter().enumerate().filter_map(with_devices).collect())
}

/// The GPUs for which code objects are chosen, by the positions of these in the search.
struct ChosenFor<'d> {
    devices: &'d [Device],
    by_position: BTreeMap<usize, Vec<usize>>,
}

impl ChosenFor<'_> {
    /// Chooses among code objects of which a program needs one.
    fn add(&mut self, codes: &[(usize, Code)]) {
        for (number, device) in self.devices.iter().enumerate() {
            for position in device.chosen(codes) {
                self.by_position.entry(position).or_default().push(number);
            }
        }
    }
}
