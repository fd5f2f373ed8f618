//! The rules by which a job keeps code objects of a bundle because of their targets. They decide on values, and need no
//! file.

use std::collections::BTreeSet;

use crate::beyond::container::ContentKind;
use crate::beyond::inventory::CodeFor;
use crate::beyond::inventory::request::Request;
use crate::beyond::job::recompress::Recompress;
use crate::beyond::runtime::loadable::{self, UnfoundReason};
use crate::beyond::runtime::{Code, CodeUse, NeedingGpus, lacks_target};
use crate::beyond::scan::{CodeObjectRef, FoundBundle, ParsedId};

/// The code objects of a bundle, as far as the rules depend on them.
pub(super) struct BundleCode {
    pub(super) code_objects: Vec<Candidate>,
    pub(super) code_use: CodeUse,
}

/// A code object of a bundle.
pub(super) struct Candidate {
    pub(super) id: ParsedId,
    pub(super) content: Option<ContentKind>,
    /// The code, or `None` if no rule about GPUs applies: to host code, to code for unknown GPUs, and to containers,
    /// whose own entries name the GPUs.
    pub(super) code: Option<Code>,
    pub(super) loading: Loading,
}

/// Whether a runtime loads a code object from the new bundle.
pub(super) enum Loading {
    /// A runtime may choose it.
    Possible,
    /// Its runtime does not find or load it, for this reason.
    Refused(UnfoundReason),
    /// No runtime chooses it: it is empty, cannot be read, or has no known target.
    Never,
}

impl BundleCode {
    /// Returns the code objects of a bundle with the facts that decide whether they are kept.
    pub(super) fn of(found: &FoundBundle<'_>) -> Self {
        let mut unfound = loadable::unfound_in(found);
        let code_objects = found.code_objects().map(|code_object| {
            let unfound = unfound.remove(&code_object.index());
            // A position in the old bundle does not matter: in the new one, kept entries are where the runtime looks.
            Candidate::of(&code_object, unfound.filter(|reason| *reason != UnfoundReason::Position))
        });
        Self { code_objects: code_objects.collect(), code_use: CodeUse::of(found) }
    }

    /// Returns the targets of HIP's code among some code objects, which are given by their indices.
    pub(super) fn targets_of_hip(&self, indices: &BTreeSet<usize>) -> BTreeSet<String> {
        let code_objects = indices.iter().filter_map(|&index| self.code_objects.get(index));
        code_objects.filter(|code| code.id.is_of_hip()).filter_map(|code| code.id.target()).collect()
    }
}

impl Candidate {
    /// Returns the facts about a code object. `unfound` is the reason why its runtime would not find or load it in the
    /// new bundle.
    fn of(code_object: &CodeObjectRef<'_>, unfound: Option<UnfoundReason>) -> Self {
        let (id, content) = (code_object.parsed_id(), code_object.kind());
        let code = match code_object.code_for() {
            CodeFor::Gpus(code) if !is_container(content) && !id.parsed.as_ref().is_some_and(lacks_target) => {
                Some(code)
            }
            _ => None,
        };
        let is_empty = content == Some(ContentKind::Empty);
        let loading = match unfound {
            Some(reason) => Loading::Refused(reason),
            None if code.is_none() || is_empty || code_object.unreadable().is_some() => Loading::Never,
            None => Loading::Possible,
        };
        Self { id, content, code, loading }
    }

    /// Returns the code if a runtime may choose it.
    fn loadable(&self) -> Option<&Code> {
        if matches!(self.loading, Loading::Possible) { self.code.as_ref() } else { None }
    }
}

fn is_container(content: Option<ContentKind>) -> bool {
    matches!(content, Some(ContentKind::Bundle | ContentKind::FatBinary))
}

fn is_lto_ir(code: &Code) -> bool {
    matches!(code, Code::LtoIr(_))
}

/// Decides which code objects of a bundle a job keeps because of their targets. Nothing that it is asked changes it.
pub(super) struct TargetRules<'j> {
    pub(super) keep: Option<Request<'j>>,
    pub(super) drop: Option<Request<'j>>,
    /// The GPUs of `keep_for`, with the code that they need.
    needing: NeedingGpus,
}

impl<'j> TargetRules<'j> {
    pub(super) fn new(job: &'j Recompress) -> Self {
        Self {
            keep: job.keep.as_ref().map(Request::new),
            drop: job.drop.as_ref().map(Request::new),
            needing: NeedingGpus::new(&job.keep_for),
        }
    }

    /// Returns the indices of the code objects that are kept.
    pub(super) fn select(&self, bundle: &BundleCode) -> BTreeSet<usize> {
        let all = bundle.code_objects.iter().enumerate();
        // Host code is always kept, unless `drop` selects it.
        let wanted = all.filter(|(_, code)| !self.is_dropped(code) && (code.id.is_host() || self.is_wanted(code)));
        let wanted: BTreeSet<usize> = wanted.map(|(index, _)| index).collect();
        if self.needing.gpus().is_empty() { wanted } else { self.needed(bundle, &wanted) }
    }

    /// Returns whether `drop` selects a code object.
    fn is_dropped(&self, candidate: &Candidate) -> bool {
        self.drop.as_ref().is_some_and(|drop| drop.takes(&candidate.id))
    }

    /// Returns whether a code object is code for devices that `keep` does not remove.
    pub(super) fn is_wanted(&self, candidate: &Candidate) -> bool {
        let Candidate { id, content, .. } = candidate;
        // PTX passes, because the driver can compile it for GPUs without a cubin. `keep_for` may remove it later.
        let is_ptx = *content == Some(ContentKind::Ptx);
        !id.is_host() && self.keep.as_ref().is_none_or(|keep| is_ptx || keep.takes(id))
    }

    /// Returns the indices in `keep_for` of the GPUs that take a code object, whatever other code its bundle has.
    pub(super) fn takers(&self, candidate: &Candidate) -> BTreeSet<usize> {
        let Some(code) = &candidate.code else { return BTreeSet::new() };
        let gpus = self.needing.gpus().iter().enumerate();
        gpus.filter(|(_, gpu)| gpu.takes(code)).map(|(index, _)| index).collect()
    }

    /// Returns the code objects among those in `wanted` that the GPUs of `keep_for` need, and all that may be for any
    /// GPU. A GPU does not need code that it takes, if it loads other code of the bundle.
    fn needed(&self, bundle: &BundleCode, wanted: &BTreeSet<usize>) -> BTreeSet<usize> {
        // No runtime loads LTO-IR beside other code. A program may link both, so it stays with that code.
        let has_other = bundle.code_use == CodeUse::Choice && !self.loadable(bundle).is_empty();
        let candidates = wanted.iter().filter_map(|&index| Some((index, bundle.code_objects.get(index)?)));
        let loadable = candidates.clone().filter_map(|(index, candidate)| Some((index, candidate.loadable()?.clone())));
        let choice: Vec<(usize, Code)> = loadable.filter(|(_, code)| !(has_other && is_lto_ir(code))).collect();
        let chosen = self.needing.needed(&choice, bundle.code_use);
        // LTO-IR is compiled for the same GPUs as PTX.
        let is_linkable =
            |sm| self.needing.gpus().iter().any(|gpu| gpu.takes(&Code::LtoIr(sm)) || gpu.takes(&Code::Ptx(sm, None)));
        let is_needed = |index, candidate: &Candidate| match (&candidate.code, &candidate.loading) {
            // No rule about GPUs applies.
            (None, _) => true,
            (Some(_), Loading::Refused(_)) => false,
            // The choice of a runtime does not tell whether this code is needed, so its target decides alone.
            (Some(_), Loading::Never) => !self.takers(candidate).is_empty(),
            (Some(Code::LtoIr(sm)), Loading::Possible) if has_other => is_linkable(*sm) && !chosen.is_empty(),
            (Some(_), Loading::Possible) => chosen.contains(&index),
        };
        candidates.filter(|(index, candidate)| is_needed(*index, candidate)).map(|(index, _)| index).collect()
    }

    /// Returns the code that runtimes choose from, with the index of each code object. Leaves out code that `drop`
    /// names, which is removed on purpose, so that no GPU misses it, and LTO-IR, which is for linkers.
    pub(super) fn loadable(&self, bundle: &BundleCode) -> Vec<(usize, Code)> {
        let mut loadable = Vec::new();
        for (index, candidate) in bundle.code_objects.iter().enumerate() {
            if let Some(code) = candidate.loadable()
                && !is_lto_ir(code)
                && !self.is_dropped(candidate)
            {
                loadable.push((index, code.clone()));
            }
        }
        loadable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::inventory::request::{Pattern, Selection};
    use crate::beyond::runtime::Device;
    use crate::beyond::scan::Format;

    const HOST: &str = "host-x86_64-unknown-linux-gnu-";

    /// A code object that a runtime may choose, if its ID names GPUs.
    fn code(id: &str, content: ContentKind) -> Candidate {
        let id = ParsedId::parse(id.as_bytes(), Format::Bundle);
        let code = id.parsed.as_ref().and_then(|id| Code::of_entry(id, Some(content), None));
        let loading = if code.is_some() { Loading::Possible } else { Loading::Never };
        Candidate { id, content: Some(content), code, loading }
    }

    fn amd(target: &str) -> Candidate {
        code(&format!("hipv4-amdgcn-amd-amdhsa--{target}"), ContentKind::Elf)
    }

    fn nvidia(target: &str) -> Candidate {
        let content = match target.split_once('_').unwrap().0 {
            "compute" => ContentKind::Ptx,
            "lto" => ContentKind::LtoIr,
            _ => ContentKind::Cubin,
        };
        code(&format!("cuda-nvptx64-nvidia-cuda--{target}"), content)
    }

    fn bundle(code_use: CodeUse, code_objects: Vec<Candidate>) -> BundleCode {
        BundleCode { code_objects, code_use }
    }

    /// Makes a job with the values of its options `--keep`, `--keep-for` and `--drop`; an empty value is no option.
    fn job(keep: &str, keep_for: &str, drop: &str) -> Recompress {
        let selection = |patterns: &str| Selection {
            targets: patterns.split_whitespace().map(|text| Pattern::parse(text).unwrap()).collect(),
            ..Selection::default()
        };
        let given = |patterns| Some(patterns).filter(|patterns: &&str| !patterns.is_empty()).map(selection);
        let keep_for = Device::parse_list(keep_for).unwrap();
        Recompress { keep: given(keep), keep_for, drop: given(drop), ..Recompress::new("in", "out") }
    }

    fn selected(job: &Recompress, bundle: &BundleCode) -> Vec<usize> {
        TargetRules::new(job).select(bundle).into_iter().collect()
    }

    #[test]
    fn patterns_keep_host_code_and_ptx_unless_others_drop_them() {
        let ids = || vec![code(HOST, ContentKind::Elf), nvidia("sm_80"), nvidia("compute_80"), nvidia("sm_90")];
        for (keep, drop, expected) in [
            ("", "", &[0, 1, 2, 3][..]),
            ("sm_90", "", &[0, 2, 3]),
            ("sm_90", "compute_*", &[0, 3]),
            ("", "sm_80", &[0, 2, 3]),
            ("sm_*", "sm_80 host*", &[2, 3]),
            ("gfx906", "compute_80", &[0]),
        ] {
            let kept = selected(&job(keep, "", drop), &bundle(CodeUse::Choice, ids()));
            assert_eq!(kept, expected, "{keep:?} {drop:?}");
        }
    }

    #[test]
    fn a_gpu_needs_what_its_runtime_chooses_and_a_linker_all_that_the_gpu_takes() {
        let cuda = || ["sm_80", "sm_90", "compute_80", "compute_100"].map(nvidia).into();
        let rocm = || ["gfx90a", "gfx90a:xnack+", "gfx9-4-generic", "gfx942", "gfx1100"].map(amd).into();
        let [cuda, rocm]: [&dyn Fn() -> Vec<Candidate>; 2] = [&cuda, &rocm];
        for (gpus, code_objects, choice, each) in [
            ("sm_90", cuda, &[1][..], &[1, 2][..]),
            ("sm_89,sm_120", cuda, &[0, 3], &[0, 2, 3]),
            ("sm_75", cuda, &[], &[]),
            ("gfx90a", rocm, &[0], &[0, 1]),
            ("gfx90a:xnack-", rocm, &[0], &[0]),
            ("gfx942", rocm, &[3], &[2, 3]),
            ("gfx950,gfx1100", rocm, &[2, 4], &[2, 4]),
        ] {
            for (code_use, expected) in [(CodeUse::Choice, choice), (CodeUse::Each, each)] {
                let kept = selected(&job("", gpus, ""), &bundle(code_use, code_objects()));
                assert_eq!(kept, expected, "{gpus} {code_use:?}");
            }
        }
    }

    #[test]
    fn code_for_unknown_gpus_is_kept_and_code_that_no_runtime_loads_is_not() {
        let refused = |reason| Candidate { loading: Loading::Refused(reason), ..amd("gfx942") };
        let never = |target| Candidate { loading: Loading::Never, ..amd(target) };
        let unknown = |id| code(id, ContentKind::Elf);
        let all = vec![
            refused(UnfoundReason::Triple),
            amd("gfx942"),
            never("gfx942"),
            never("gfx906"),
            unknown("openmp-amdgcn-amd-amdhsa--"),
            unknown("no ID"),
            unknown(HOST),
        ];
        assert_eq!(selected(&job("", "gfx942", ""), &bundle(CodeUse::Choice, all)), [1, 2, 4, 5, 6]);
    }

    #[test]
    fn lto_ir_stays_with_the_other_code_of_its_bundle() {
        for (targets, gpus, drop, choice, each) in [
            (&["lto_80"][..], "sm_90", "", &[0][..], &[0][..]),
            (&["lto_80", "lto_90"], "sm_90", "", &[1], &[0, 1]),
            (&["lto_80", "sm_90"], "sm_90", "", &[0, 1], &[0, 1]),
            (&["lto_80", "sm_90"], "sm_80", "", &[], &[0]),
            (&["lto_80", "sm_90"], "sm_80", "sm_90", &[0], &[0]),
            (&["lto_90", "sm_80"], "sm_80", "", &[1], &[1]),
            (&["lto_80"], "compute_90", "", &[], &[]),
            (&["lto_80", "compute_90"], "compute_120", "", &[0, 1], &[1]),
            (&["lto_80"], "lto_90", "", &[0], &[0]),
        ] {
            for (code_use, expected) in [(CodeUse::Choice, choice), (CodeUse::Each, each)] {
                let code_objects = targets.iter().map(|target| nvidia(target)).collect();
                let kept = selected(&job("", gpus, drop), &bundle(code_use, code_objects));
                assert_eq!(kept, expected, "{targets:?} {gpus} {drop:?} {code_use:?}");
            }
        }
    }
}
