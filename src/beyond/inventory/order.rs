//! The order in which lists name GPUs.

use crate::base::id::processors;
use crate::beyond::code::intel_gpu;
use crate::beyond::runtime::{Code, processor_in};

/// Returns the key that sorts target IDs for a list of GPUs: by [`generation`], but targets of code that is compiled
/// when a program starts come last.
pub(crate) fn listed_order(target: &str) -> impl Ord + use<> {
    let is_jit = Code::from_name(target).is_some_and(|code| code.is_jit());
    (is_jit, generation(target))
}

/// Returns the key that sorts target IDs by vendors and generations: `sm_50` before `sm_100`, `gfx90a` before
/// `gfx1030`. Processors that LLVM knows come first, in its order; then Intel's GPUs, the older ones first; then
/// all others, by name.
pub(crate) fn generation(target: &str) -> impl Ord + use<> {
    let processor = processor_in(target);
    // PTX and LTO-IR come with the machine code of the same version.
    let processor = match processor.split_once('_') {
        Some(("compute" | "lto", version)) => format!("sm_{version}"),
        _ => processor.to_owned(),
    };
    let mut known_position = processors::all().position(|known| known.name == processor);
    if known_position.is_none()
        && let Some(version) = sm_version(&processor)
    {
        known_position = position_before(version);
    }
    let intel_name = intel_gpu::name_of_target(&processor);
    let intel_position = intel_name.and_then(|name| intel_gpu::all().position(|gpu| gpu.name == name));
    (known_position.unwrap_or(usize::MAX), intel_position.unwrap_or(usize::MAX), target.to_owned())
}

/// Returns the version in the name of a processor of NVIDIA: 90 for `sm_90a`.
fn sm_version(name: &str) -> Option<u32> {
    name.strip_prefix("sm_")?.trim_end_matches(char::is_alphabetic).parse().ok()
}

/// Returns the position of the newest known processor of NVIDIA before this version, or `None` if there is none. A
/// processor that is newer than our table gets this position, so that it is sorted next to its predecessor.
fn position_before(version: u32) -> Option<usize> {
    // The newest version so far, and its position.
    let mut newest = None;
    for (position, known) in processors::all().enumerate() {
        if let Some(older) = sm_version(known.name)
            && older < version
        {
            newest = newest.max(Some((older, position)));
        }
    }
    newest.map(|(_, position)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_in_the_order_of_generations() {
        let mut all = [
            "spir64-unknown-unknown",
            "bmg-g21",
            "sm_121",
            "sm_107",
            "sm_100",
            "sm_50",
            "compute_90",
            "sm_90",
            "sm_90a",
            "gfx1100",
            "gfx1030",
            "gfx11-generic",
            "gfx90a:xnack+",
            "pvc",
            "gfx906",
            "gfx9-generic",
        ];
        all.sort_by_key(|target| generation(target));
        let expected = [
            "gfx9-generic",
            "gfx906",
            "gfx90a:xnack+",
            "gfx1030",
            "gfx11-generic",
            "gfx1100",
            "sm_50",
            "compute_90",
            "sm_90",
            "sm_90a",
            "sm_100",
            "sm_107",
            "sm_121",
            "pvc",
            "bmg-g21",
            "spir64-unknown-unknown",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn code_that_is_compiled_comes_last_in_a_list() {
        let expected = ["gfx906", "sm_90", "sm_100", "bmg-g21", "compute_90", "compute_100", "spir64-unknown-unknown"];
        let mut all = expected;
        all.sort_unstable();
        all.sort_by_key(|target| listed_order(target));
        assert_eq!(all, expected);
    }
}
