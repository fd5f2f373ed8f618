//! Picks the code objects that a request takes, and names the parts of the request that match no code object.
//!
//! A search keeps what it has [`Seen`]. Everything that a message says is computed from that when the message is made.

use std::collections::{BTreeMap, BTreeSet, HashSet};
#[cfg(any(test, feature = "cli"))]
use std::path::PathBuf;

use super::request::{Facts, Part, Request};
use super::similar_names::SimilarNames;
#[cfg(any(test, feature = "cli"))]
use crate::base::error::{Error, Result};
use crate::beyond::runtime::UnfoundCode;
use crate::beyond::scan::{Format, ParsedId};

/// The code objects that a search has seen in some files, as far as a request can tell them apart: code objects with
/// the same ID are one.
#[derive(Debug, Default)]
pub struct Seen {
    by_id: BTreeMap<SeenId, SeenCode>,
    /// Code that runtimes do not find or load, by the index of a GPU that would take it.
    unfound: BTreeMap<usize, UnfoundCode>,
    /// The names of kernels in the files that are similar to requested names.
    pub(crate) similar: SimilarNames,
    /// Whether the files may have more code objects, so that no part of a request is known to match nothing.
    is_incomplete: bool,
}

/// The recorded ID of a code object, and whether that is a code object without a bundle, whose ID has another syntax.
type SeenId = (Box<[u8]>, bool);

/// The code objects with an ID.
#[derive(Debug)]
struct SeenCode {
    /// The number of IDs that were seen before this one.
    position: usize,
    facts: Facts,
}

impl Seen {
    /// Adds a code object: its recorded ID, the format of its bundle, and the facts about it that are known by now.
    pub(crate) fn add(&mut self, id: &[u8], format: Format, facts: Facts) {
        self.add_id((id.into(), format == Format::CodeObject), facts);
    }

    fn add_id(&mut self, id: SeenId, facts: Facts) {
        let position = self.by_id.len();
        let code = self.by_id.entry(id).or_insert_with(|| SeenCode { position, facts: Facts::default() });
        code.facts.add(facts);
    }

    /// Adds code that the runtime of a GPU does not find or load. Only the first for each GPU is kept.
    pub(crate) fn add_unfound(&mut self, gpu: usize, code: UnfoundCode) {
        self.unfound.entry(gpu).or_insert(code);
    }

    /// Says that not all code objects were seen.
    pub(crate) fn leave_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Adds the code objects of other files.
    pub fn extend(&mut self, more: Self) {
        let mut codes: Vec<_> = more.by_id.into_iter().collect();
        codes.sort_unstable_by_key(|(_, code)| code.position);
        for (id, code) in codes {
            self.add_id(id, code.facts);
        }
        for (gpu, code) in more.unfound {
            self.add_unfound(gpu, code);
        }
        self.similar.extend(&more.similar);
        self.is_incomplete |= more.is_incomplete;
    }

    /// Returns the recorded IDs with the facts about their code objects, in the order in which the search has seen
    /// them. Each is parsed when it is taken: there may be many, and long ones.
    fn codes(&self) -> impl ExactSizeIterator<Item = (&[u8], ParsedId, &Facts)> {
        let mut codes: Vec<_> = self.by_id.iter().collect();
        codes.sort_unstable_by_key(|(_, code)| code.position);
        codes.into_iter().map(|((id, is_alone), code)| {
            let format = if *is_alone { Format::CodeObject } else { Format::Bundle };
            (&**id, ParsedId::parse(id, format), &code.facts)
        })
    }

    /// Returns the names that messages list: all entry IDs if `by_whole_id` is set, otherwise the targets of code
    /// objects that are not for a host.
    pub(crate) fn present(&self, by_whole_id: bool) -> Vec<String> {
        let name = |id: ParsedId| if by_whole_id { Some(id.shown) } else { id.target() };
        let mut names: Vec<String> = self.codes().filter_map(|(_, id, _)| name(id)).collect();
        let mut known = HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        names
    }

    /// Returns the requested names of kernels that any of the code objects defines, by their indices.
    pub(crate) fn defined_kernels(&self) -> BTreeSet<usize> {
        self.by_id.values().flat_map(|code| &code.facts.kernels).copied().collect()
    }
}

/// The code objects that a request picks from those that were seen.
#[derive(Debug)]
pub(crate) struct Picked<'a> {
    request: &'a Request<'a>,
    seen: &'a Seen,
    /// The recorded IDs of the code objects that the request takes, in the order of the search.
    pub(crate) chosen: Vec<&'a [u8]>,
    /// The positions of the parts of the request that match a code object, whatever kernels it defines.
    matched: BTreeSet<usize>,
}

/// Picks the code objects that a request takes.
pub(crate) fn pick<'a>(seen: &'a Seen, request: &'a Request<'a>) -> Picked<'a> {
    let mut picked = Picked { request, seen, chosen: Vec::new(), matched: BTreeSet::new() };
    for (recorded, id, facts) in seen.codes() {
        let Some(parts) = request.parts_of(&id, facts) else { continue };
        picked.matched.extend(parts);
        if request.kernels.is_none() || !facts.kernels.is_empty() {
            picked.chosen.push(recorded);
        }
    }
    picked
}

impl<'a> Picked<'a> {
    /// Returns the parts of the request that match nothing, with their positions.
    pub(crate) fn unmatched(&self) -> impl Iterator<Item = (usize, Part<'a>)> {
        let is_matched = |position| {
            // Only the first of several equal patterns is compared.
            self.seen.is_incomplete || self.matched.contains(&self.request.first_same_part(position))
        };
        self.request.parts().enumerate().filter(move |(position, _)| !is_matched(*position))
    }

    /// Returns the parts that match nothing, as messages name them.
    pub(crate) fn unmatched_names(&self) -> Vec<String> {
        self.unmatched().map(|(_, part)| part.to_string()).collect()
    }

    /// Returns the names of the parts that match nothing here, in two lists: parts that match nothing in `other`
    /// either, and parts that match there. `other` is a pick of the same request.
    pub(crate) fn unmatched_names_without(&self, other: &Self) -> (Vec<String>, Vec<String>) {
        let unmatched_there: BTreeSet<usize> = other.unmatched().map(|(position, _)| position).collect();
        let (mut nowhere, mut only_there) = (Vec::new(), Vec::new());
        for (position, part) in self.unmatched() {
            let names = if unmatched_there.contains(&position) { &mut nowhere } else { &mut only_there };
            names.push(part.to_string());
        }
        (nowhere, only_there)
    }

    /// Returns the targets or entry IDs of all code objects, as messages about the request list them.
    pub(crate) fn present(&self) -> Vec<String> {
        self.seen.present(self.request.names_entries())
    }

    /// Returns a sentence about the first GPU of the request for which the files only have code that its runtime does
    /// not find or load. Returns `None` if there is no such GPU.
    pub(crate) fn unfound(&self) -> Option<String> {
        let gpus = self.unmatched().filter(|(_, part)| matches!(part, Part::Gpu(_)));
        let first_gpu_position = self.request.first_gpu();
        gpus.filter_map(|(position, _)| self.seen.unfound.get(&position.checked_sub(first_gpu_position)?))
            .next()
            .map(ToString::to_string)
    }

    /// Fails if a part of the request matches nothing in the files, which are `inputs`.
    ///
    /// # Errors
    /// The kind is [`NotFound`](crate::ErrorKind::NotFound). The message lists the GPUs that the files have code
    /// objects for.
    #[cfg(any(test, feature = "cli"))]
    pub(crate) fn ensure_all_match(&self, inputs: &[PathBuf]) -> Result<()> {
        let unmatched = self.unmatched_names();
        if unmatched.is_empty() { Ok(()) } else { Err(Error::no_match(inputs, &unmatched, &self.present())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::OffloadKind;
    use crate::beyond::inventory::kernel_names::KernelNames;
    use crate::beyond::inventory::request::{Comparison, Pattern, Selection};
    use crate::beyond::runtime::Device;

    const IDS: [&str; 9] = [
        "host-x86_64-unknown-linux-gnu-",
        "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
        "hipv4-amdgcn-amd-amdhsa--gfx942",
        "openmp-amdgcn-amd-amdhsa--gfx906",
        "cuda-nvptx64-nvidia-cuda--sm_90a",
        "cuda-nvptx64-nvidia-cuda--compute_90",
        "openmp-amdgcn-amd-amdhsa--",
        "not an ID",
        "sycl-spir64_gen-unknown-unknown--pvc",
    ];

    const PATTERNS: [&str; 12] = [
        "gfx90a",
        "gfx90a:xnack-",
        "gfx942",
        "gfx906",
        "gfx9*",
        "ptx",
        "sm_90",
        "*",
        "hip-amdgcn-amd-amdhsa--gfx942",
        "not an ID*",
        "gfx1100",
        "gfx90a",
    ];

    fn selection(targets: &[&str], kinds: &[&str]) -> Selection {
        let targets = targets.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let kinds = kinds.iter().map(|name| OffloadKind::from_name(name).unwrap()).collect();
        Selection { targets, kinds, comparison: Comparison::default() }
    }

    fn seen(ids: &[&str]) -> Seen {
        let mut seen = Seen::default();
        for id in ids {
            seen.add(id.as_bytes(), Format::Bundle, Facts::default());
        }
        seen
    }

    fn facts(gpus: &[usize], kernels: &[usize]) -> Facts {
        Facts { gpus: gpus.iter().copied().collect(), kernels: kernels.iter().copied().collect() }
    }

    /// All subsets of a list, as far as the bits of `seed` choose them.
    fn subset<'l>(list: &[&'l str], seed: usize) -> Vec<&'l str> {
        list.iter().enumerate().filter(|(index, _)| seed >> index & 1 == 1).map(|(_, text)| *text).collect()
    }

    /// A part is unmatched exactly if a request of this part alone, with the same kinds or targets, takes nothing.
    #[test]
    fn the_unmatched_parts_are_those_that_take_nothing() {
        let kinds = ["hip", "openmp", "sycl", "host"];
        for seed in 0..1 << 12 {
            // Multiplication by an odd number spreads the seeds over all subsets.
            let (targets, ids) = (subset(&PATTERNS, seed), subset(&IDS, seed.wrapping_mul(0x9e5) >> 3));
            let kinds = subset(&kinds, seed.wrapping_mul(0x6d3) >> 5);
            let (all, seen) = (selection(&targets, &kinds), seen(&ids));
            let takes = |targets: &[&str], kinds: &[&str]| {
                let selection = selection(targets, kinds);
                let request = Request::new(&selection);
                ids.iter().any(|id| request.takes(&ParsedId::parse(id.as_bytes(), Format::Bundle)))
            };
            let targets_of_nothing = targets.iter().filter(|target| !takes(&[target], &kinds));
            let kinds_of_nothing = kinds.iter().filter(|kind| !takes(&targets, &[kind]));
            let mut expected: Vec<_> = targets_of_nothing.map(|target| format!("'{target}'")).collect();
            expected.extend(kinds_of_nothing.map(|kind| format!("the kind '{kind}'")));
            assert_eq!(pick(&seen, &Request::new(&all)).unmatched_names(), expected, "{targets:?} {kinds:?} {ids:?}");
        }
    }

    #[test]
    fn the_chosen_code_objects_are_those_that_the_request_takes() {
        for seed in 0..1 << 12 {
            let (targets, ids) = (subset(&PATTERNS, seed), subset(&IDS, seed.wrapping_mul(0x9e5) >> 3));
            let selection = selection(&targets, &[]);
            let (request, seen) = (Request::new(&selection), seen(&ids));
            let mut expected = ids.clone();
            expected.retain(|id| request.takes(&ParsedId::parse(id.as_bytes(), Format::Bundle)));
            let picked = pick(&seen, &request);
            let expected: Vec<_> = expected.into_iter().map(str::as_bytes).collect();
            assert_eq!(picked.chosen, expected, "{targets:?}");
        }
    }

    #[test]
    fn a_gpu_matches_code_that_it_loads_and_a_target_only_code_that_any_gpu_loads() {
        let gpus = Device::parse_list("gfx90a:sramecc+:xnack+,gfx942,gfx1100").unwrap();
        let all = selection(&["gfx906", "gfx942"], &[]);
        let request = Request::new(&all).with(&gpus, None);
        let mut seen = seen(&IDS[1..4]);
        assert_eq!(pick(&seen, &request).unmatched().count(), 5);
        assert!(pick(&seen, &request).chosen.is_empty());
        // The selection leaves this code object out, whatever loads it.
        seen.add(IDS[1].as_bytes(), Format::Bundle, facts(&[0], &[]));
        seen.add(IDS[2].as_bytes(), Format::Bundle, facts(&[1], &[]));
        let picked = pick(&seen, &request);
        assert_eq!(picked.unmatched_names(), ["'gfx906'", "'gfx90a:sramecc+:xnack+'", "'gfx1100'"]);
        assert_eq!(picked.chosen.len(), 1);
        assert_eq!(picked.present(), ["gfx90a:xnack+", "gfx942", "gfx906"]);
    }

    #[test]
    fn kernels_choose_but_match_no_part() {
        let names = KernelNames::typed(["add", "fill"], |_| None);
        let all = selection(&["gfx942", "gfx906"], &[]);
        let request = Request::new(&all).with(&[], Some(&names));
        let mut seen = seen(&IDS);
        assert!(pick(&seen, &request).chosen.is_empty() && pick(&seen, &request).unmatched_names().is_empty());
        seen.add(IDS[3].as_bytes(), Format::Bundle, facts(&[], &[1]));
        assert_eq!(pick(&seen, &request).chosen.len(), 1);
        assert_eq!(seen.defined_kernels(), BTreeSet::from([1]));
    }

    #[test]
    fn parts_that_match_in_other_files_only_are_told_apart() {
        let all = selection(&["gfx942", "gfx906", "gfx1100", "gfx906"], &[]);
        let request = Request::new(&all);
        let (mut here, there) = (seen(&IDS[2..3]), seen(&IDS[3..4]));
        let (nowhere, only_there) = pick(&here, &request).unmatched_names_without(&pick(&there, &request));
        assert_eq!(nowhere, ["'gfx1100'"]);
        assert_eq!(only_there, ["'gfx906'", "'gfx906'"]);
        here.extend(there);
        let error = pick(&here, &request).ensure_all_match(&["a".into(), "b".into()]).unwrap_err();
        assert_eq!(error.to_string(), "no code object matches 'gfx1100' in 2 files; they have: gfx942, gfx906");
        // Whole IDs in a request list whole IDs.
        let by_kind = selection(&[], &["cuda"]);
        assert_eq!(pick(&here, &Request::new(&by_kind)).present(), IDS[2..4]);
        here.leave_incomplete();
        pick(&here, &request).ensure_all_match(&[]).unwrap();
    }

    #[test]
    fn an_id_without_a_bundle_is_another_one() {
        let mut seen = Seen::default();
        for format in [Format::CodeObject, Format::Bundle, Format::Fatbin] {
            seen.add(b"amdgcn-amd-amdhsa--gfx906", format, Facts::default());
        }
        assert_eq!(seen.codes().len(), 2);
        assert_eq!(seen.present(false), ["gfx906", "amdgcn-amd-amdhsa--gfx906"]);
    }
}
