//! The code objects of a file that runtimes choose for some GPUs.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use crate::error::Result;
use crate::io::input::Input;
use crate::runtime::{Code, Codes, Device, Position, Units};
use crate::scan::{Finding, Follow, Format, Found, Place, Scan};

/// What runtimes choose in a file.
#[derive(Default)]
pub(super) struct Choice {
    /// For the index of each chosen code object in its bundle, the positions of the GPUs for which it is chosen, by the place and
    /// the index of the bundle.
    chosen: HashMap<(Place, usize), HashMap<usize, Vec<usize>>>,
}

impl Choice {
    /// Searches a file. What is chosen in a bundle may depend on a later one: all offload binaries at one place are one choice.
    pub(super) fn of(input: &Input, scan: Scan, follow: Option<&Follow>, devices: &[Device]) -> Result<Self> {
        let (mut choice, mut units) = (Self::default(), Units::default());
        scan.run_following(input, follow, &mut |finding| {
            if let Finding::Bundle(found) = finding {
                match found.format {
                    // A program has device images for each of its kernels.
                    Format::DeviceImages => choice.all_that_run(&found, devices),
                    Format::CodeObject | Format::Kpack => {
                        let codes = Codes::of(&found).found.into_iter();
                        let codes: Vec<_> = codes.map(|(index, code)| ((found.index, index), code)).collect();
                        choice.best(found.place, &codes, devices);
                    }
                    _ => units.add(&found).into_iter().for_each(|unit| choice.best(&unit.place, &unit.codes, devices)),
                }
            }
            Ok(())
        })?;
        units.open.into_iter().for_each(|unit| choice.best(&unit.place, &unit.codes, devices));
        Ok(choice)
    }

    fn best(&mut self, place: &Place, codes: &[(Position, Code)], devices: &[Device]) {
        for (number, device) in devices.iter().enumerate() {
            for (bundle, index) in device.chosen(codes) {
                self.add(place, bundle, index, number);
            }
        }
    }

    fn all_that_run(&mut self, found: &Found<'_>, devices: &[Device]) {
        for (index, code) in Codes::of(found).found {
            for (number, _) in devices.iter().enumerate().filter(|(_, device)| device.takes(&code)) {
                self.add(found.place, found.index, index, number);
            }
        }
    }

    fn add(&mut self, place: &Place, bundle: usize, index: usize, device: usize) {
        self.chosen.entry((place.clone(), bundle)).or_default().entry(index).or_default().push(device);
    }

    /// The positions of the GPUs for which a code object of a bundle is chosen.
    pub(super) fn devices(&self, found: &Found<'_>, index: usize) -> &[usize] {
        let bundle = self.chosen.get(&(found.place.clone(), found.index));
        bundle.and_then(|bundle| bundle.get(&index)).map_or(&[], Vec::as_slice)
    }
}
