//! Picks the code objects that a recompression keeps, before anything is rewritten.
//!
//! A search of the file decides on each code object ([`Picker`]). The rewriter only asks for the result ([`Picks`]), and
//! sums up what it has applied ([`PickTotal`]). Messages are computed from that sum.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::bundles::bundles_in;
use super::check::{FoundCode, KeptByOffset, KnownObjects, is_in_code_object, unexpected_parts};
use super::remaining::visit_bundles;
use super::{MissedCode, Recompress, Recompressed, RemovedCode};
use crate::base::bytes::add;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::{Input, Slice};
use crate::beyond::code::ContentKind;
use crate::beyond::container::packed::LastInflated;
use crate::beyond::container::sequence::Content;
use crate::beyond::inventory::kernel_names::{KernelNames, MeantNames};
use crate::beyond::inventory::pick::{Seen, pick};
use crate::beyond::inventory::request::{ALL, Facts, Pattern, Request};
use crate::beyond::inventory::similar_names::SimilarNames;
use crate::beyond::job::size_limit::ensure_size_limit;
use crate::beyond::runtime::loadable::{self, UnfoundEntries, UnfoundReason};
use crate::beyond::runtime::{Code, CodeUse, Device, NeedingGpus, UnfoundCode};
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectRef, CodeObjectsOfBundle, Finding, FoundBundle, ParsedId, Place, PlaceOrigin,
    ReadEvent, Scan, contents, weight_of,
};
use crate::llvm::container::Limits;
use crate::llvm::container::sequence::Inflate;

pub(super) const NOTHING_LEFT: &str = "no device code would be left";

/// Decides on code objects. Nothing that it is asked changes it.
pub(super) struct Picker<'j> {
    job: &'j Recompress,
    keep: Option<Request<'j>>,
    drop: Option<Request<'j>>,
    /// The GPUs of `keep_for`, as the parts of a request.
    for_gpus: Request<'j>,
    /// The same GPUs, with the code that they need.
    needing: NeedingGpus,
    /// The GPUs that `keep` names.
    named: Vec<Device>,
    /// The names of `keep_kernels` that mean kernels of the whole file, if any of them has wildcards: wildcards are
    /// literal in a name that a kernel has.
    meant_in_file: MeantNames,
}

/// The properties of a code object that decide whether it is kept.
struct Candidate {
    id: ParsedId,
    /// The code with its target, or `None` if the target is not known.
    code: Option<Code>,
    /// The reason why its runtime would not find or load the code object in the new bundle, or `None` if it would.
    unfound: Option<UnfoundReason>,
    /// The code that runtimes choose from, or `None` if they do not choose this code object.
    loaded: Option<Code>,
    /// The indices in `keep_for` of the GPUs that take the code, whether or not they find it.
    gpus: BTreeSet<usize>,
    /// Whether this is code for devices that `keep` does not remove.
    is_wanted: bool,
    /// Whether `drop` selects the code object.
    is_dropped: bool,
    /// Whether the code object is kept, as far as its target decides.
    is_selected: bool,
}

/// The pick in a file.
#[derive(Default)]
pub(super) struct Picks {
    /// The bundles that may be rewritten, by their offsets.
    by_offset: BTreeMap<u64, Result<PickedBundle>>,
    /// For each bundle in file order, its offset if it may be rewritten, and its code objects: all, and those that are
    /// kept.
    known: Vec<(Option<u64>, KnownObjects, KnownObjects)>,
    /// Whether the search has found faults.
    has_faults: bool,
}

/// The pick in a bundle.
pub(super) struct PickedBundle {
    /// The sorted indices of the code objects that are kept.
    pub(super) kept: Vec<usize>,
    /// The number of kept code objects that are not host code.
    pub(super) device_count: usize,
    total: PickTotal,
}

/// The pick in all bundles that were rewritten.
#[derive(Debug, Default)]
pub(super) struct PickTotal {
    seen: Seen,
    /// The number of kept code objects for devices.
    kept_devices: usize,
    /// The removed code that GPUs would have used, by the index of the GPU among those that `keep` names.
    missed: BTreeMap<usize, MissedCode>,
    /// The removed code objects, by the target ID or another name.
    removed: BTreeMap<String, RemovedCode>,
    /// The number of HIP's bundles that have no code left for some target, because the code for that target defines no
    /// kernel of `keep_kernels`.
    unlaunched: usize,
}

impl<'j> Picker<'j> {
    pub(super) fn new(job: &'j Recompress) -> Self {
        // The field `named` leaves out targets that are no names of GPUs, such as targets with wildcards.
        let named = job.keep.iter().flat_map(|keep| &keep.targets).map(Pattern::as_str);
        Self {
            job,
            keep: job.keep.as_ref().map(Request::new),
            drop: job.drop.as_ref().map(Request::new),
            for_gpus: Request::new(&ALL).with(&job.keep_for, None),
            needing: NeedingGpus::new(&job.keep_for),
            named: named.filter_map(|name| Device::parse(name).ok()).collect(),
            meant_in_file: MeantNames::default(),
        }
    }

    /// Searches the whole file for kernels that the names of `keep_kernels` mean, if any of them has wildcards.
    pub(super) fn with_kernels_of(self, input: &Input) -> Result<Self> {
        let meant_in_file = match &self.job.keep_kernels {
            Some(names) if names.has_patterns() => meant_in(names, self.job.limits, input)?,
            _ => MeantNames::default(),
        };
        Ok(Self { meant_in_file, ..self })
    }

    pub(super) fn limits(&self) -> Limits {
        self.job.limits
    }

    /// Returns the code objects of a bundle that are to be removed because of their targets.
    pub(super) fn unselected<'f>(&self, found: &FoundBundle<'f>) -> Vec<CodeObjectRef<'f>> {
        let candidates = found.code_objects().zip(self.candidates(found));
        candidates.filter(|(_, candidate)| !candidate.is_selected).map(|(code_object, _)| code_object).collect()
    }

    /// Returns the properties of each code object of a bundle, and whether its target is kept.
    fn candidates(&self, found: &FoundBundle<'_>) -> Vec<Candidate> {
        let unfound = loadable::unfound_in(found);
        let mut candidates: Vec<_> =
            found.code_objects().map(|code_object| self.candidate(&code_object, &unfound)).collect();
        if !self.needing.gpus().is_empty() {
            self.leave_out_unneeded(CodeUse::of(found), &mut candidates);
        }
        candidates
    }

    /// Returns the properties of a code object, whatever other code its bundle has.
    fn candidate(&self, code_object: &CodeObjectRef<'_>, unfound: &UnfoundEntries) -> Candidate {
        let (id, content) = (code_object.parsed_id(), code_object.kind());
        let code = id.parsed.as_ref().and_then(|id| Code::compiled_for(id, content));
        let unfound = match unfound.get(&code_object.index()) {
            // A position in the old bundle does not matter: in the new one, kept entries are where the runtime looks.
            None | Some(UnfoundReason::Position) => None,
            Some(reason) => Some(reason.clone()),
        };
        // Runtimes do not choose host code, code that cannot be read, and code in a container of its own.
        let is_chosen = !id.is_host()
            && unfound.is_none()
            && code_object.unreadable().is_none()
            && !matches!(content, Some(ContentKind::Bundle | ContentKind::FatBinary));
        let loaded = if is_chosen { id.parsed.as_ref().and_then(|id| Code::of_entry(id, content, None)) } else { None };
        let mut gpus = BTreeSet::new();
        if let Some(code) = &code {
            let all = self.needing.gpus().iter().enumerate();
            gpus.extend(all.filter(|(_, device)| device.takes(code)).map(|(index, _)| index));
        }
        // PTX is kept too, because the driver can compile it for GPUs without a cubin, unless `keep_for` names only GPUs
        // that cannot take it. PTX that they do not need is left out later.
        let is_ptx = content == Some(ContentKind::Ptx);
        let is_wanted = !id.is_host() && self.keep.as_ref().is_none_or(|keep| is_ptx || keep.takes(&id));
        // Code without a known target may be for any GPU. Code that the runtime does not find serves no GPU.
        let is_for_any = self.needing.gpus().is_empty() || code.is_none();
        let is_served = is_for_any || (unfound.is_none() && !gpus.is_empty());
        let is_dropped = self.drop.as_ref().is_some_and(|drop| drop.takes(&id));
        // Host code is always kept, unless `drop` selects it.
        let is_selected = !is_dropped && (id.is_host() || (is_wanted && is_served));
        Candidate { id, code, unfound, loaded, gpus, is_wanted, is_dropped, is_selected }
    }

    /// Leaves out the code that the GPUs of `keep_for` take, but do not need, because they load other code of its
    /// bundle. LTO-IR beside other code is not loaded, and stays with that code: a program may link both.
    fn leave_out_unneeded(&self, code_use: CodeUse, candidates: &mut [Candidate]) {
        let is_lto_ir = |candidate: &Candidate| matches!(candidate.loaded, Some(Code::LtoIr(_)));
        let has_other = candidates
            .iter()
            .any(|candidate| !candidate.is_dropped && candidate.loaded.is_some() && !is_lto_ir(candidate));
        let mut choice = Vec::new();
        for (index, candidate) in candidates.iter().enumerate() {
            if candidate.is_selected
                && !(has_other && is_lto_ir(candidate))
                && let Some(code) = &candidate.loaded
            {
                choice.push((index, code.clone()));
            }
        }
        let needed = self.needing.needed(&choice, code_use);
        for (index, candidate) in candidates.iter_mut().enumerate() {
            if candidate.loaded.is_some() {
                let stays_with_other = has_other && is_lto_ir(candidate) && !needed.is_empty();
                let is_linked = code_use == CodeUse::Each && is_lto_ir(candidate);
                candidate.is_selected &= needed.contains(&index) || stays_with_other || is_linked;
            }
        }
    }

    /// Picks the code objects of a bundle.
    fn pick_in_bundle(&self, found: &FoundBundle<'_>) -> Result<PickedBundle> {
        let bundle = found.bundle;
        // The kernels of any code object may be read.
        if self.job.keep_kernels.is_some() {
            ensure_size_limit(found.place.file(), bundle, 0..bundle.entries.len())?;
        }
        let mut last = LastInflated::default();
        let mut picked = PickedBundle { kept: Vec::new(), device_count: 0, total: PickTotal::default() };
        // The code that runtimes choose from, by the index of its code object.
        let mut loadable = Vec::new();
        // The targets of HIP's code that is kept, and of HIP's code that is removed only for its kernels.
        let (mut kept_targets, mut unlaunched_targets) = (BTreeSet::new(), BTreeSet::new());
        for (code_object, candidate) in found.code_objects().zip(self.candidates(found)) {
            let (index, id, total) = (code_object.index(), &candidate.id, &mut picked.total);
            // Only code for devices has kernels.
            let mut kernels = None;
            if candidate.is_selected && !id.is_host() {
                kernels = self.kept_kernels(|| bundle.content_after(index, &mut last));
            }
            let is_kept = candidate.is_selected && kernels.as_ref().is_none_or(|kernels| !kernels.is_empty());
            if candidate.is_selected && id.is_of_hip() {
                let targets = if is_kept { &mut kept_targets } else { &mut unlaunched_targets };
                targets.extend(id.target());
            }
            if is_kept {
                picked.device_count += usize::from(!id.is_host());
                picked.kept.push(index);
            } else {
                total.removed.entry(id.target().unwrap_or_default()).or_default().add(code_object.size());
            }
            total.add_seen(&code_object, &candidate, kernels.unwrap_or_default());
            // Code that `drop` names is removed on purpose, so no GPU misses it. LTO-IR is for linkers.
            if !candidate.is_dropped
                && let Some(code) = candidate.loaded
                && !matches!(code, Code::LtoIr(_))
            {
                loadable.push((index, code));
            }
        }
        picked.total.kept_devices = picked.device_count;
        // A target that keeps other code in the bundle has not lost all of it.
        picked.total.unlaunched = usize::from(!unlaunched_targets.is_subset(&kept_targets));
        picked.total.missed = self.missed(&loadable, &picked.kept);
        Ok(picked)
    }

    /// Returns the names of `keep_kernels` that mean kernels or variables of a code object, by their indices. Returns
    /// `None` if no names are given, and for a code object whose kernels are not known: other code may need it.
    fn kept_kernels<'c>(&self, content: impl FnOnce() -> Result<Content<'c>>) -> Option<BTreeSet<usize>> {
        let names = self.job.keep_kernels.as_ref()?;
        let (meant, has_kernels) = names.find_in_code(content().ok()?.as_slice().bytes()).ok()?;
        if has_kernels { Some(meant.strongest(&self.meant_in_file)) } else { None }
    }

    /// Returns the removed code of a bundle that GPUs named in `keep` would have used. `loadable` is the code that
    /// runtimes choose from, by the index of its code object, and `kept` has the sorted indices of the kept code
    /// objects.
    fn missed(&self, loadable: &[(usize, Code)], kept: &[usize]) -> BTreeMap<usize, MissedCode> {
        let mut missed = BTreeMap::new();
        for (device_index, device) in self.named.iter().enumerate() {
            let chosen = device.choose(loadable);
            let mut targets = BTreeSet::new();
            for (index, code) in loadable {
                if chosen.contains(index) && kept.binary_search(index).is_err() {
                    targets.insert(code.name());
                }
            }
            if !targets.is_empty() {
                missed.insert(device_index, MissedCode { device: device.clone(), bundles: 1, targets });
            }
        }
        missed
    }

    /// Picks the code objects of a bundle of some data. Inflates a compressed bundle: the kind of a code object counts,
    /// and only its content tells it.
    fn pick_in_whole(&self, data: Slice<'_>, found: &FoundBundle<'_>) -> Result<PickedBundle> {
        let offset = found.bundle.offset;
        if found.bundle.compressed.is_none() {
            return self.pick_in_bundle(found);
        }
        let rest = data.claimed(&(offset..data.end()))?;
        match bundles_in(rest, Inflate::Whole, self.job.limits).next().transpose()? {
            Some(whole) if whole.offset == offset => self.pick_in_bundle(&FoundBundle { bundle: &whole, ..*found }),
            _ => Err(unexpected_parts(data.path(), "bundles")),
        }
    }

    /// Picks the code objects of a file, or of a member, which is about to be rewritten.
    pub(super) fn pick_in(&self, data: Slice<'_>) -> Result<Picks> {
        // A search that compares checksums also checks wrappers, as the search after the job does.
        let scan = Scan { limits: self.job.limits, checksums: Checksums::OfAll, ..Scan::default() };
        let mut picks = Picks::default();
        scan.run_at(&Place::of_file(data.path()), data, &mut |finding| {
            picks.has_faults |= FoundCode::is_fault(&finding);
            if let Finding::Bundle(found) = finding
                && !is_in_code_object(found.place)
            {
                picks.add(&found, || self.pick_in_whole(data, &found));
            }
            Ok(())
        })?;
        Ok(picks)
    }

    /// Returns the parts of the job that match nothing of some code objects, by their positions in messages.
    fn unmatched(&self, seen: &Seen) -> BTreeMap<usize, String> {
        let (mut unmatched, mut first) = (BTreeMap::new(), 0);
        for request in self.keep.iter().chain([&self.for_gpus]) {
            unmatched.extend(pick(seen, request).unmatched().map(|(at, part)| (first + at, part.to_string())));
            first += request.parts().count();
        }
        if let Some(drop) = &self.drop
            && pick(seen, drop).chosen.is_empty()
        {
            // Only one of these parts has to match, so the message names all of them.
            unmatched.extend(drop.parts().enumerate().map(|(at, part)| (first + at, part.to_string())));
        }
        unmatched
    }

    /// Returns the error for parts of the job that have matched nothing in the rewritten bundles, whose code objects were
    /// `seen`. If they match code that recompress does not change, the error lists its places.
    fn mismatch_error(&self, mut seen: Seen, unmatched: &BTreeMap<usize, String>, input: &Input) -> Error {
        // Messages list entry IDs if the job names any, and otherwise targets.
        let names_entries = self.keep.iter().chain(&self.drop).any(Request::names_entries);
        let present = seen.present(names_entries);
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
        if searched.is_err() || !nowhere.is_empty() {
            let nowhere = if searched.is_err() { unmatched } else { &nowhere };
            let unfound = pick(&seen, &self.for_gpus).unfound();
            return Error::no_match(&[input.path().to_owned()], &names(nowhere), &present).with_reason(unfound);
        }
        let places: Vec<String> = places.into_iter().collect();
        let reason = format!(
            "the code for {} is in parts that recompress does not change: {}",
            names(unmatched).join(" and "),
            places.join(", ")
        );
        Error::refused(ErrorKind::NotFound, input.path(), None, reason)
    }

    /// Returns the code objects of a bundle, without the kernels that they define.
    fn seen_in(&self, found: &FoundBundle<'_>) -> Seen {
        let mut total = PickTotal::default();
        for (code_object, candidate) in found.code_objects().zip(self.candidates(found)) {
            total.add_seen(&code_object, &candidate, BTreeSet::new());
        }
        total.seen
    }

    /// Adds the removed code, and the removed code that GPUs would have used, to the result. Fails if a part of the job
    /// has matched nothing in the rewritten bundles, whose code objects `total` has, or if no device code is left.
    pub(super) fn add_to_result(&self, total: PickTotal, input: &Input, result: &mut Recompressed) -> Result<()> {
        let (path, unmatched) = (input.path(), self.unmatched(&total.seen));
        if !unmatched.is_empty() {
            return Err(self.mismatch_error(total.seen, &unmatched, input));
        }
        if let Some(names) = &self.job.keep_kernels {
            names.ensure_used(&total.seen.defined_kernels(), &SimilarNames::default(), &[path])?;
        }
        if !total.removed.is_empty() && total.kept_devices == 0 {
            return Err(Error::refused(ErrorKind::NotFound, path, None, NOTHING_LEFT));
        }
        result.missed = total.missed.into_values().collect();
        result.removed = total.removed;
        result.unlaunched = total.unlaunched;
        Ok(())
    }
}

impl Picks {
    /// Adds a bundle that the search has found, and the result of `pick` if the bundle may be rewritten: that is so only
    /// in the file itself, and not in data that is inflated.
    fn add(&mut self, found: &FoundBundle<'_>, pick: impl FnOnce() -> Result<PickedBundle>) {
        let all = KnownObjects::of(found, None);
        if !matches!(found.place.origin(), PlaceOrigin::File(_)) {
            self.known.push((None, all, all));
            return;
        }
        let (offset, picked) = (found.bundle.offset, pick());
        let kept = match &picked {
            Ok(picked) => KnownObjects::of(found, Some(&picked.kept)),
            Err(_) => all,
        };
        self.known.push((Some(offset), all, kept));
        self.by_offset.insert(offset, picked);
    }

    /// Takes the pick in the bundle at an offset of the file. Returns `None` if the search has not found that bundle.
    pub(super) fn take(&mut self, offset: u64) -> Option<Result<PickedBundle>> {
        self.by_offset.remove(&offset)
    }

    /// Returns the code that a search finds in the new file if the bundles with code objects in `kept` keep only these.
    /// Returns `None` if the file has faults, or was not searched: these are counted in another search.
    pub(super) fn expected(&self, kept: &KeptByOffset) -> Option<FoundCode> {
        if self.has_faults || self.known.is_empty() {
            return None;
        }
        let is_rewritten = |offset: &Option<u64>| offset.is_some_and(|offset| kept.contains_key(&offset));
        let known = self.known.iter().map(|(offset, all, kept)| if is_rewritten(offset) { *kept } else { *all });
        Some(FoundCode::without_faults(known))
    }
}

impl PickTotal {
    /// Adds a code object, and the indices of the names of `keep_kernels` that it defines.
    fn add_seen(&mut self, code_object: &CodeObjectRef<'_>, candidate: &Candidate, kernels: BTreeSet<usize>) {
        let mut facts = Facts { kernels, ..Facts::default() };
        if candidate.is_wanted {
            // The error for a GPU without code mentions code that its runtime does not find.
            if let (Some(reason), Some(code)) = (&candidate.unfound, &candidate.code) {
                let unfound =
                    UnfoundCode { code: code.clone(), id: candidate.id.shown.clone(), reason: reason.clone() };
                for gpu in &candidate.gpus {
                    self.seen.add_unfound(*gpu, unfound.clone());
                }
            } else {
                facts.gpus.clone_from(&candidate.gpus);
            }
        }
        self.seen.add(code_object.id(), code_object.found.format, facts);
    }

    /// Adds the pick in a bundle that is rewritten.
    pub(super) fn add(&mut self, picked: &mut PickedBundle) {
        let more = std::mem::take(&mut picked.total);
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

/// Returns the names that mean kernels or variables of a file. Code objects and bundles that cannot be read are passed
/// over, because the job itself reports them.
fn meant_in(names: &KernelNames, limits: Limits, input: &Input) -> Result<MeantNames> {
    let mut in_file = MeantNames::default();
    let read = &|together: CodeObjectsOfBundle<'_, (), CodeObject>| {
        contents(together, |_, code| match names.find_in_code(code.bytes()) {
            Ok((meant, _)) => Ok(meant),
            Err(_) => Ok(MeantNames::default()),
        })
    };
    let scan = Scan { limits, ..Scan::default() };
    scan.run_and_read(input, read, &|read| weight_of(read, MeantNames::len), &mut |step| {
        match step {
            ReadEvent::Found(Finding::Bundle(found), reads) => {
                // Entries may share bytes, so a small file can have code objects of any total size.
                let size_checked = ensure_size_limit(input.path(), found.bundle, 0..found.bundle.entries.len());
                if let (Ok(()), Ok(info)) = (size_checked, found.info()) {
                    for code_object in found.code_objects() {
                        reads.add(Some(&found), ((), code_object.keep(&info)));
                    }
                }
            }
            ReadEvent::Found(..) | ReadEvent::End(..) => {}
            ReadEvent::Read(read) => {
                for (_, meant) in read {
                    if let Ok(meant) = meant {
                        in_file.extend(&meant);
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(in_file)
}
