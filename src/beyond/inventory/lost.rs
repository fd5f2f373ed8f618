//! The GPUs that fewer bundles serve than before.

use super::served::{Coverage, ServedBundles};
use crate::beyond::runtime::Device;

/// A GPU that fewer bundles serve than before.
#[derive(Debug)]
pub(crate) struct LostGpu {
    pub(crate) device: Device,
    pub(crate) old: ServedBundles,
    pub(crate) new: ServedBundles,
}

/// Returns the lost GPUs. A GPU is lost if all old bundles serve it, but not all new ones, or if some old bundles serve
/// it, but no new one. Returns `None` if there are too many bundles to compare.
pub(crate) fn lost_gpus(old: &Coverage, new: &Coverage) -> Option<Vec<LostGpu>> {
    let (devices, old_served): (Vec<Device>, Vec<ServedBundles>) = old.gpus()?.into_iter().unzip();
    let new_served = new.served_each(&devices)?;
    let mut lost = Vec::new();
    for ((device, old), new) in devices.into_iter().zip(old_served).zip(new_served) {
        let is_gone = old.serving > 0 && new.serving == 0;
        if is_gone || (old.is_complete() && !new.is_complete()) {
            lost.push(LostGpu { device, old, new });
        }
    }
    Some(lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::inventory::UnitRole::{self, Relinked, Whole};
    use crate::beyond::inventory::tests::unit;

    #[test]
    fn gpus_are_lost_if_all_bundles_served_them_or_none_does_now() {
        type Units = &'static [(UnitRole, &'static str)];
        let cases: [(Units, Units, &[&str]); 8] = [
            (&[(Whole, "gfx906 gfx90a")], &[(Whole, "gfx906")], &["gfx90a: 1 of 1, 0 of 1"]),
            (&[(Whole, "gfx906")], &[(Whole, "gfx906"), (Whole, "gfx90a")], &["gfx906: 1 of 1, 1 of 2"]),
            // Not all served it before either.
            (&[(Whole, "gfx906"), (Whole, "gfx90a")], &[(Whole, "gfx906"), (Whole, "gfx90a")], &[]),
            (
                &[(Whole, "gfx906"), (Whole, "gfx906 gfx90a")],
                &[(Whole, "gfx90a"), (Whole, "gfx906")],
                &["gfx906: 2 of 2, 1 of 2"],
            ),
            // Another name serves the GPU.
            (&[(Whole, "sm_90")], &[(Whole, "compute_80")], &[]),
            (&[(Whole, "gfx1100")], &[(Whole, "gfx11-generic")], &[]),
            // Relocatable code is linked.
            (&[(Whole, "sm_90")], &[(Whole, "sm_80"), (Relinked, "compute_80")], &[]),
            (
                &[(Relinked, "sm_90 compute_90")],
                &[(Relinked, "sm_90")],
                &["sm_90: 1 of 1 by JIT, 0 of 1", "compute_90: 1 of 1 by JIT, 0 of 1"],
            ),
        ];
        for (old, new, expected) in cases {
            let coverage = |units: Units| {
                let units: Vec<_> = units.iter().map(|(role, targets)| unit("lib.so", *role, targets)).collect();
                Coverage::of_library(&units)
            };
            let lost = lost_gpus(&coverage(old), &coverage(new)).unwrap();
            let lost: Vec<_> =
                lost.iter().map(|LostGpu { device, old, new }| format!("{}: {old}, {new}", device.name())).collect();
            assert_eq!(lost, expected, "{old:?} {new:?}");
        }
    }
}
