//! The code objects of a file that runtimes choose for some GPUs.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use crate::error::Result;
use crate::io::input::Input;
use crate::runtime::{Code, Codes, Device, Position, Units};
use crate::scan::{Finding, Format, Scan};

/// What runtimes choose in a file.
#[derive(Default)]
pub(super) struct Choice {
    /// The positions in a list of GPUs of those for which a code object is chosen.
    chosen: HashMap<Position, Vec<usize>>,
}

impl Choice {
    /// Searches a file. What is chosen in a bundle may depend on a later one: offload binaries at one place are one choice.
    pub(super) fn of(input: &Input, scan: &Scan, devices: &[Device]) -> Result<Self> {
        let (mut choice, mut units) = (Self::default(), Units::default());
        scan.run(input, &mut |finding| {
            if let Finding::Bundle(found) = finding {
                let complete = units.add(&found);
                complete.iter().for_each(|unit| choice.best(&unit.codes, devices));
                if found.format.is_for_some_gpus() {
                    let codes = Codes::of(&found).found.into_iter();
                    let codes: Vec<_> = codes.map(|held| ((units.last(), held.index), held.code)).collect();
                    match found.format {
                        // A program has device images for each of its kernels.
                        Format::DeviceImages => codes.chunks(1).for_each(|one| choice.best(one, devices)),
                        _ => choice.best(&codes, devices),
                    }
                }
            }
            Ok(())
        })?;
        units.finish().iter().for_each(|unit| choice.best(&unit.codes, devices));
        Ok(choice)
    }

    fn best(&mut self, codes: &[(Position, Code)], devices: &[Device]) {
        for (number, device) in devices.iter().enumerate() {
            for position in device.chosen(codes) {
                self.chosen.entry(position).or_default().push(number);
            }
        }
    }

    /// The positions of the GPUs for which a code object is chosen.
    pub(super) fn devices(&self, position: Position) -> &[usize] {
        self.chosen.get(&position).map_or(&[], Vec::as_slice)
    }
}
