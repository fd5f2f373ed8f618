//! The code that some GPUs need: one rule for `recompress --keep-for`, which keeps nothing else, and for
//! `verify --expect-exactly`, which expects nothing else.

use std::collections::BTreeSet;

use super::code::Code;
use super::device::Device;
use super::loadable;
use crate::beyond::container::FormatUse;
use crate::beyond::scan::{FoundBundle, Linking};

/// The way in which a program uses the code objects of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeUse {
    /// A runtime chooses one of them for its GPU.
    Choice,
    /// Each may be used on every GPU that takes it: by a linker, which needs code for the same target from all its
    /// inputs, or because other code is chosen elsewhere.
    Each,
}

impl CodeUse {
    /// Returns the use of the code in a bundle.
    pub(crate) fn of(found: &FoundBundle<'_>) -> Self {
        let is_each = match found.format.row().code_use {
            FormatUse::Each => true,
            FormatUse::ChoiceUnlessLinked => found.linking() != Linking::Before,
            FormatUse::ChoiceUnlessForTools => loadable::is_for_tools(found),
        };
        if is_each { Self::Each } else { Self::Choice }
    }
}

/// The GPUs that code is kept for or expected for.
#[derive(Clone, Debug)]
pub(crate) struct NeedingGpus {
    /// For each name in the list, the GPUs that it means.
    gpus: Vec<Device>,
}

impl NeedingGpus {
    pub(crate) fn new(names: &[Device]) -> Self {
        Self { gpus: names.iter().map(Device::gpus).collect() }
    }

    /// For each name in the list, the GPUs that it means.
    pub(crate) fn gpus(&self) -> &[Device] {
        &self.gpus
    }

    /// Returns the keys of the needed code among the code of a bundle, or of several that a runtime treats as one.
    ///
    /// Of a [choice](CodeUse::Choice), runtimes need the code that they choose. All other code for the same targets is
    /// kept too, because it may differ in ways that are not compared, such as debug information. Code with the name of
    /// a GPU in the list is always needed.
    pub(crate) fn needed<K: Copy + Ord>(&self, codes: &[(K, Code)], code_use: CodeUse) -> BTreeSet<K> {
        let chosen: BTreeSet<K> = match code_use {
            CodeUse::Choice => self.gpus.iter().flat_map(|gpu| gpu.choose(codes)).collect(),
            CodeUse::Each => BTreeSet::new(),
        };
        let chosen_codes: BTreeSet<&Code> =
            codes.iter().filter(|(key, _)| chosen.contains(key)).map(|(_, code)| code).collect();
        let is_chosen = |code: &Code| chosen_codes.iter().any(|chosen| chosen.has_target_of(code));
        let is_needed = |code: &Code| match code_use {
            CodeUse::Choice => is_chosen(code) || self.is_named(code),
            CodeUse::Each => self.takes(code),
        };
        codes.iter().filter(|(_, code)| is_needed(code)).map(|(key, _)| *key).collect()
    }

    /// Returns whether any of the GPUs takes some code, whatever other code there is.
    pub(crate) fn takes(&self, code: &Code) -> bool {
        self.gpus.iter().any(|gpu| gpu.takes(code)) || self.is_named(code)
    }

    /// Returns whether the code has the name of a GPU in the list, such as `compute_90`.
    fn is_named(&self, code: &Code) -> bool {
        self.gpus.iter().any(|gpu| gpu.name() == code.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(gpus: &str, codes: &[&str], code_use: CodeUse) -> Vec<usize> {
        let codes: Vec<(usize, Code)> =
            codes.iter().enumerate().map(|(index, name)| (index, Code::from_name(name).unwrap())).collect();
        NeedingGpus::new(&Device::parse_list(gpus).unwrap()).needed(&codes, code_use).into_iter().collect()
    }

    #[test]
    fn gpus_need_the_code_that_their_runtimes_choose() {
        let cuda = ["sm_80", "sm_90", "compute_100", "sm_120f", "sm_90"];
        let amd = ["gfx90a", "gfx90a:xnack+", "gfx9-generic", "gfx1100", "gfx11-generic"];
        for (gpus, codes, choice, each) in [
            // All code for a target that is chosen.
            ("sm_90,sm_120", &cuda, &[1, 3, 4][..], &[1, 2, 3, 4][..]),
            // Without machine code for it, a GPU needs PTX.
            ("sm_110", &cuda, &[2], &[2]),
            ("sm_89", &cuda, &[0], &[0]),
            ("compute_120", &cuda, &[2], &[2]),
            ("sm_75", &cuda, &[], &[]),
            // The first code that fits, and code that the list names.
            ("gfx90a:xnack+", &amd, &[0, 1], &[0, 1]),
            ("gfx1100", &amd, &[3], &[3, 4]),
            ("gfx1101", &amd, &[4], &[4]),
            // A generic name means all processors of its target.
            ("gfx11-generic", &amd, &[3, 4], &[3, 4]),
        ] {
            assert_eq!(needed(gpus, codes, CodeUse::Choice), choice, "{gpus}");
            assert_eq!(needed(gpus, codes, CodeUse::Each), each, "{gpus}");
        }
    }
}
