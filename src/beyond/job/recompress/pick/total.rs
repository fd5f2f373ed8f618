//! The code objects that a job kept and removed in all bundles that it rewrote, and the messages about them.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{BundleCode, Candidate, Loading, TargetRules};
use super::{NOTHING_LEFT, Picker};
use crate::base::bytes::add;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Input;
use crate::beyond::inventory::pick::{Seen, pick};
use crate::beyond::inventory::request::{Facts, Request};
use crate::beyond::inventory::similar_names::SimilarNames;
use crate::beyond::job::recompress::CodeElsewhere;
use crate::beyond::job::recompress::remaining::visit_bundles;
use crate::beyond::job::recompress::{MissedCode, Recompressed, RemovedCode};
use crate::beyond::runtime::UnfoundCode;
use crate::beyond::scan::{CodeObjectRef, FoundBundle, Place};

/// The sums over some bundles: the code objects that were kept and removed.
#[derive(Debug, Default)]
pub(crate) struct PickTotal {
    pub(super) seen: Seen,
    /// The number of kept code objects for devices.
    kept_devices: usize,
    /// The removed code that GPUs would have used, by the index of the GPU among those that `keep` names.
    pub(super) missed: BTreeMap<usize, MissedCode>,
    /// The removed code objects, by the target ID or another name.
    removed: BTreeMap<String, RemovedCode>,
    /// The number of HIP's bundles that have no code left for some target, because the code for that target defines no
    /// kernel of `keep_kernels`.
    pub(super) unlaunched: usize,
}

impl PickTotal {
    /// Adds a code object that was seen, and the indices of the names of `keep_kernels` that it defines.
    fn add_seen(
        &mut self,
        rules: &TargetRules<'_>,
        (code_object, candidate): (&CodeObjectRef<'_>, &Candidate),
        kernels: BTreeSet<usize>,
    ) {
        let mut facts = Facts { kernels, ..Facts::default() };
        if rules.is_wanted(candidate) {
            let gpus = rules.takers(candidate);
            // The error for a GPU without code mentions code that its runtime does not find.
            if let (Loading::Refused(reason), Some(code)) = (&candidate.loading, &candidate.code) {
                let unfound =
                    UnfoundCode { code: code.clone(), id: candidate.id.shown.clone(), reason: reason.clone() };
                for gpu in gpus {
                    self.seen.add_unfound(gpu, unfound.clone());
                }
            } else {
                facts.gpus = gpus;
            }
        }
        self.seen.add(code_object.id(), code_object.found.format, facts);
    }

    /// Adds a code object of a bundle that is rewritten.
    pub(super) fn add_picked(
        &mut self,
        rules: &TargetRules<'_>,
        (code_object, candidate): (&CodeObjectRef<'_>, &Candidate),
        kernels: BTreeSet<usize>,
        is_kept: bool,
    ) {
        if is_kept {
            self.kept_devices += usize::from(!candidate.id.is_host());
        } else {
            let target = candidate.id.target().unwrap_or_default();
            self.removed.entry(target).or_default().add(code_object.size());
        }
        self.add_seen(rules, (code_object, candidate), kernels);
    }

    /// The number of kept code objects that are not host code.
    pub(super) fn kept_devices(&self) -> usize {
        self.kept_devices
    }

    /// Adds the sums over more bundles that are rewritten.
    pub(crate) fn extend(&mut self, more: Self) {
        self.seen.extend(more.seen);
        self.kept_devices += more.kept_devices;
        self.unlaunched += more.unlaunched;
        for (gpu, missed) in more.missed {
            match self.missed.get_mut(&gpu) {
                Some(known) => {
                    known.bundles += missed.bundles;
                    known.targets.extend(missed.targets);
                }
                None => drop(self.missed.insert(gpu, missed)),
            }
        }
        for (target, RemovedCode { code_objects, size }) in more.removed {
            let removed = self.removed.entry(target).or_default();
            removed.code_objects += code_objects;
            add(&mut removed.size, size);
        }
    }
}

impl Picker<'_> {
    /// Adds the removed code, and the removed code that GPUs would have used, to the result. Fails if a part of the job
    /// has matched nothing in the rewritten bundles, whose code objects `total` has, or if no device code is left. Code
    /// for the GPUs of `keep_for` may also be in parts that stay as they are.
    pub(crate) fn add_to_result(&self, total: PickTotal, input: &Input, result: &mut Recompressed) -> Result<()> {
        let (path, unmatched, kernels) = (input.path(), self.unmatched(&total.seen), total.seen.defined_kernels());
        if !unmatched.is_empty() {
            result.elsewhere = self.elsewhere(total.seen, &unmatched, input)?;
        }
        if let Some(names) = &self.job.keep_kernels {
            names.ensure_used(&kernels, &SimilarNames::default(), &[path])?;
        }
        if !total.removed.is_empty() && total.kept_devices == 0 && result.elsewhere.is_none() {
            return Err(Error::refused(ErrorKind::NotFound, path, None, NOTHING_LEFT));
        }
        result.missed = total.missed.into_values().collect();
        result.removed = total.removed;
        result.unlaunched = total.unlaunched;
        Ok(())
    }

    /// Returns the parts of `keep`, of `keep_for` and of `drop` that match none of the code objects that were `seen`.
    /// The key of each is its position among all parts, in which messages list them.
    fn unmatched(&self, seen: &Seen) -> BTreeMap<usize, String> {
        // The position of the first part of the request.
        let mut first_position = 0;
        let mut unmatched = BTreeMap::new();
        for request in self.rules.keep.iter().chain([&self.for_gpus]) {
            let of_request = pick(seen, request);
            unmatched.extend(of_request.unmatched().map(|(index, part)| (first_position + index, part.to_string())));
            first_position += request.parts().count();
        }
        if let Some(drop) = &self.rules.drop
            && pick(seen, drop).chosen.is_empty()
        {
            // Only one of these parts has to match, so the message names all of them.
            unmatched.extend(drop.parts().enumerate().map(|(index, part)| (first_position + index, part.to_string())));
        }
        unmatched
    }

    /// Returns the code for GPUs of `keep_for` that is in parts which recompress does not change. `unmatched` are the
    /// parts of the job that have matched nothing in the rewritten bundles, whose code objects were `seen`.
    ///
    /// # Errors
    /// A part matches nothing anywhere, or a part that is not a GPU of `keep_for` matches only code that recompress does
    /// not change. The error then lists its places.
    fn elsewhere(
        &self,
        mut seen: Seen,
        unmatched: &BTreeMap<usize, String>,
        input: &Input,
    ) -> Result<Option<CodeElsewhere>> {
        // Messages list entry IDs if the job names any, and otherwise targets.
        let names_entries = self.rules.keep.iter().chain(&self.rules.drop).any(Request::names_entries);
        let present = seen.present(names_entries);
        // The parts that match no code at all, and the places of the code that the other parts match.
        let (mut nowhere, mut places) = (unmatched.clone(), BTreeSet::new());
        let place = Place::of_file(input.path());
        let searched = visit_bundles(self.job.limits, &place, input.as_slice(), &mut |found| {
            let seen_here = self.seen_in(found);
            let unmatched_here = self.unmatched(&seen_here);
            let before = nowhere.len();
            nowhere.retain(|part, _| unmatched_here.contains_key(part));
            if nowhere.len() < before {
                places.insert(found.place.to_string());
            }
            seen.extend(seen_here);
        });
        let names = |parts: &BTreeMap<usize, String>| parts.values().cloned().collect::<Vec<_>>();
        // If the file cannot be searched, only the rewritten bundles are known.
        let nowhere = if searched.is_ok() { &nowhere } else { unmatched };
        if !nowhere.is_empty() {
            let unfound = pick(&seen, &self.for_gpus).unfound();
            return Err(
                Error::no_match(&[input.path().to_owned()], &names(nowhere), &present).with_unfound_code(unfound)
            );
        }
        let code = CodeElsewhere { gpus: names(unmatched), places: places.into_iter().collect() };
        // The parts of `keep` come first, those of `drop` last.
        let first_gpu = self.rules.keep.iter().map(|keep| keep.parts().count()).sum::<usize>();
        let gpus = first_gpu..first_gpu + self.for_gpus.parts().count();
        if unmatched.keys().all(|part| gpus.contains(part)) {
            return Ok(Some(code));
        }
        Err(Error::refused(ErrorKind::NotFound, input.path(), None, code.to_string()))
    }

    /// Returns the code objects of a bundle, without the kernels that they define.
    fn seen_in(&self, found: &FoundBundle<'_>) -> Seen {
        let (mut total, bundle) = (PickTotal::default(), BundleCode::of(found));
        for (code_object, candidate) in found.code_objects().zip(&bundle.code_objects) {
            total.add_seen(&self.rules, (&code_object, candidate), BTreeSet::new());
        }
        total.seen
    }
}
