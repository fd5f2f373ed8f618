//! Decides which code objects a recompression keeps.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{MissedCode, Recompress, Recompressed, RemovedCode};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::EntryId;
use crate::base::io::input::{Input, Slice};
use crate::beyond::code::ContentKind;
use crate::beyond::container::packed::LastInflated;
use crate::beyond::container::sequence::Content;
use crate::beyond::job::kernel_names::KernelNames;
use crate::beyond::job::similar_names::SimilarNames;
use crate::beyond::job::size_limit::{ensure_size_limit, limits_of_result};
use crate::beyond::job::unmatched::{SelectionMatches, WantedCode};
use crate::beyond::runtime::loadable::{self, UnfoundEntries, UnfoundReason};
use crate::beyond::runtime::{Code, CodeUse, Device, NeedingGpus, UnfoundCode};
use crate::beyond::scan::sections;
use crate::beyond::scan::{
    CodeObjectRef, Finding, Format, FoundBundle, ParsedId, Pattern, Place, PreparedSelection, Scan, Step,
};
use crate::llvm::container::Limits;

pub(super) const NOTHING_LEFT: &str = "no device code would be left";

/// The code objects of a bundle that are kept.
pub(super) struct KeptCodeObjects {
    pub(super) indices: Vec<usize>,
    /// The number of kept code objects that are not host code.
    pub(super) device_count: usize,
}

/// Decides which code objects of each bundle are kept, and records which parts of the job have matched so far.
pub(super) struct KeepFilter<'j> {
    job: &'j Recompress,
    keep: Option<PreparedSelection<'j>>,
    drop: Option<PreparedSelection<'j>>,
    keep_kernels: Option<KernelNames>,
    /// The parts of `keep` that have matched.
    matches: SelectionMatches,
    /// The GPUs of `keep_for`.
    kept_for: NeedingGpus,
    /// The indices in `keep_for` of the GPUs that could take a code object.
    served: BTreeSet<usize>,
    /// Whether `drop` has matched anything.
    has_dropped: bool,
    /// The number of kept code objects for devices, in all bundles.
    kept_devices: usize,
    /// The GPUs that `keep` names.
    named: Vec<Device>,
    /// The removed code that GPUs would have used, by the index of the GPU in `named`.
    missed: BTreeMap<usize, MissedCode>,
    /// The indices of the names in `keep_kernels` that a code object defines.
    defined_names: HashSet<usize>,
    /// The removed code objects, by the target ID or another name.
    removed: BTreeMap<String, RemovedCode>,
    /// The number of HIP's bundles that have no code left for some target, because the code for that target defines no
    /// kernel of `keep_kernels`.
    unlaunched: usize,
}

/// The properties of a code object that decide whether it is kept.
struct Candidate {
    id: ParsedId,
    content: Option<ContentKind>,
    /// The code with its target, or `None` if the target is not known.
    code: Option<Code>,
    /// The reason why its runtime would not find or load the code object in the new bundle, or `None` if it would.
    unfound: Option<UnfoundReason>,
    /// The code that runtimes choose from, or `None` if they do not choose this code object.
    loaded: Option<Code>,
    /// Whether `drop` selects the code object.
    is_dropped: bool,
    /// Whether the code object is kept, as far as its target decides.
    is_selected: bool,
}

impl<'j> KeepFilter<'j> {
    pub(super) fn new(job: &'j Recompress) -> Self {
        // The field `named` leaves out targets that are no names of GPUs, such as targets with wildcards.
        let named = job.keep.iter().flat_map(|keep| &keep.targets).map(Pattern::as_str);
        Self {
            job,
            keep: job.keep.as_ref().map(PreparedSelection::new),
            drop: job.drop.as_ref().map(PreparedSelection::new),
            keep_kernels: job.keep_kernels.clone(),
            matches: SelectionMatches::default(),
            kept_for: NeedingGpus::new(&job.keep_for),
            served: BTreeSet::new(),
            has_dropped: false,
            kept_devices: 0,
            named: named.filter_map(|name| Device::parse(name).ok()).collect(),
            missed: BTreeMap::new(),
            defined_names: HashSet::new(),
            removed: BTreeMap::new(),
            unlaunched: 0,
        }
    }

    /// Makes the wildcards in the names of `keep_kernels` literal where a kernel of the file has the whole name.
    pub(super) fn settle_names(&mut self, input: &Input) -> Result<()> {
        if let Some(names) = &mut self.keep_kernels
            && names.has_patterns()
        {
            let scan = Scan { limits: self.job.limits, ..Scan::default() };
            let equal = names.find_equal(&scan, input)?;
            names.take_literally(&equal);
        }
        Ok(())
    }

    /// Chooses the code objects of a bundle that are kept. Records the parts of the job that match, and the removed
    /// code.
    pub(super) fn choose(&mut self, found: &FoundBundle<'_>) -> Result<KeptCodeObjects> {
        let bundle = found.bundle;
        // The kernels of any code object may be read.
        if self.job.keep_kernels.is_some() {
            ensure_size_limit(found.place.file(), bundle, 0..bundle.entries.len())?;
        }
        let mut last = LastInflated::default();
        let mut kept = KeptCodeObjects { indices: Vec::new(), device_count: 0 };
        // The code that runtimes choose from, by the index of its code object.
        let mut loadable = Vec::new();
        // The targets of HIP's code that is kept, and of HIP's code that is removed only for its kernels.
        let (mut kept_targets, mut unlaunched_targets) = (BTreeSet::new(), BTreeSet::new());
        for (code_object, candidate) in found.code_objects().zip(self.candidates(found)) {
            let (index, Candidate { id, is_selected, .. }) = (code_object.index(), &candidate);
            // Only code for devices has kernels.
            let is_kept =
                *is_selected && (id.is_host() || self.defines_kept_name(|| bundle.content_after(index, &mut last)));
            if *is_selected && id.is_of_hip() {
                let targets = if is_kept { &mut kept_targets } else { &mut unlaunched_targets };
                targets.extend(id.target());
            }
            if is_kept {
                kept.device_count += usize::from(!id.is_host());
                kept.indices.push(index);
            } else {
                self.removed.entry(id.target().unwrap_or_default()).or_default().add(code_object.size());
            }
            // Code that `drop` names is removed on purpose, so no GPU misses it. LTO-IR is for linkers.
            if !candidate.is_dropped
                && let Some(code) = candidate.loaded
                && !matches!(code, Code::LtoIr(_))
            {
                loadable.push((index, code));
            }
        }
        self.kept_devices += kept.device_count;
        // A target that keeps other code in the bundle has not lost all of it.
        self.unlaunched += usize::from(!unlaunched_targets.is_subset(&kept_targets));
        self.note_missed(&loadable, &kept.indices);
        Ok(kept)
    }

    /// Returns the properties of each code object of a bundle, and whether its target is kept. Notes the parts of the
    /// job that match.
    fn candidates(&mut self, found: &FoundBundle<'_>) -> Vec<Candidate> {
        let unfound = loadable::unfound_in(found);
        let mut candidates = Vec::new();
        for code_object in found.code_objects() {
            let mut candidate = Candidate::new(&code_object, &unfound);
            // Both are called for every code object, because they note the parts of the job that match.
            candidate.is_dropped = self.is_dropped(&candidate.id);
            candidate.is_selected = self.keeps(&candidate) && !candidate.is_dropped;
            candidates.push(candidate);
        }
        if !self.kept_for.gpus().is_empty() {
            self.leave_out_unneeded(CodeUse::of(found), &mut candidates);
        }
        candidates
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
        let needed = self.kept_for.needed(&choice, code_use);
        for (index, candidate) in candidates.iter_mut().enumerate() {
            if candidate.loaded.is_some() {
                let stays_with_other = has_other && is_lto_ir(candidate) && !needed.is_empty();
                let is_linked = code_use == CodeUse::Each && is_lto_ir(candidate);
                candidate.is_selected &= needed.contains(&index) || stays_with_other || is_linked;
            }
        }
    }

    /// Returns whether `drop` selects a code object, and notes whether it has selected any.
    fn is_dropped(&mut self, id: &ParsedId) -> bool {
        let Some(drop) = &self.drop else { return false };
        let is_dropped = drop.takes(id);
        self.has_dropped |= is_dropped;
        is_dropped
    }

    /// Returns whether `keep` and `keep_for` keep a code object, whatever `drop` selects. Host code is always kept. PTX
    /// is kept too, because the driver can compile it for GPUs without a cubin, unless `keep_for` names only GPUs that
    /// cannot take it, which [`may_be_taken`](Self::may_be_taken) decides. PTX that they do not need is
    /// [left out later](Self::leave_out_unneeded). Notes the parts of the job that match.
    fn keeps(&mut self, candidate: &Candidate) -> bool {
        let Candidate { id, content, .. } = candidate;
        // Messages list entry IDs if the job names any, and otherwise targets.
        let names_entries = self.keep.iter().chain(&self.drop).any(PreparedSelection::names_entries);
        self.matches.note(id, names_entries);
        let is_ptx = *content == Some(ContentKind::Ptx);
        let is_selected = match &self.keep {
            Some(keep) => self.matches.takes_for(WantedCode::selected_by(keep), id, None) || is_ptx,
            None => true,
        };
        // The matches of host code were noted above, as those of other code.
        if id.is_host() {
            return true;
        }
        is_selected && self.may_be_taken(candidate)
    }

    /// Returns whether the runtime of any GPU of `keep_for` could take a code object, and notes these GPUs. Returns
    /// true if `keep_for` is empty, and for code without a known target, which may be for any GPU.
    fn may_be_taken(&mut self, candidate: &Candidate) -> bool {
        let Some(code) = &candidate.code else { return true };
        if self.kept_for.gpus().is_empty() {
            return true;
        }
        let mut is_taken = false;
        for (index, (device, named)) in self.kept_for.gpus().iter().zip(&self.job.keep_for).enumerate() {
            if !device.takes(code) {
                continue;
            }
            // Code that the runtime does not find serves no GPU. The error for a GPU without code mentions it.
            if let Some(reason) = &candidate.unfound {
                let (id, reason) = (candidate.id.shown.clone(), reason.clone());
                let unfound = UnfoundCode { code: code.clone(), id, reason };
                self.matches.note_unfound(named, unfound);
            } else {
                self.served.insert(index);
                is_taken = true;
            }
        }
        is_taken
    }

    /// Returns whether a code object defines a kernel or a variable of `keep_kernels`, and notes the defined names.
    /// Also returns true without `keep_kernels`, and for a code object whose kernels are not known: other code may need
    /// it.
    fn defines_kept_name<'c>(&mut self, content: impl FnOnce() -> Result<Content<'c>>) -> bool {
        let Some(names) = &self.keep_kernels else { return true };
        let Ok(content) = content() else { return true };
        let Ok((meant, has_kernels)) = names.find_in_code(content.as_slice().bytes()) else { return true };
        if !has_kernels {
            return true;
        }
        // `contained` stays empty: names in a list do not mean a part of the name of a kernel.
        self.defined_names.extend(meant.equal.iter().chain(&meant.matching));
        meant.len() > 0
    }

    /// Notes the removed code of a bundle that GPUs named in `keep` would have used. `loadable` is the code that
    /// runtimes choose from, by the index of its code object, and `kept` has the sorted indices of the kept code
    /// objects.
    fn note_missed(&mut self, loadable: &[(usize, Code)], kept: &[usize]) {
        for (device_index, device) in self.named.iter().enumerate() {
            let chosen = device.choose(loadable);
            let mut targets = BTreeSet::new();
            for (index, code) in loadable {
                if chosen.contains(index) && kept.binary_search(index).is_err() {
                    targets.insert(code.name());
                }
            }
            if targets.is_empty() {
                continue;
            }
            let missed = self.missed.entry(device_index).or_insert_with(|| MissedCode {
                device: device.clone(),
                bundles: 0,
                targets: BTreeSet::new(),
            });
            missed.bundles += 1;
            missed.targets.extend(targets);
        }
    }

    /// Adds the removed code, and the removed code that GPUs would have used, to the result. Fails if a part of the job
    /// has matched nothing, or if no device code is left.
    pub(super) fn add_to_result(self, input: &Input, result: &mut Recompressed) -> Result<()> {
        let path = input.path();
        let unmatched = self.unmatched();
        if !unmatched.is_empty() {
            return Err(self.into_mismatch_error(&unmatched, input));
        }
        if let Some(names) = &self.job.keep_kernels {
            names.ensure_used(&self.defined_names, &SimilarNames::default(), &[path])?;
        }
        if !self.removed.is_empty() && self.kept_devices == 0 {
            return Err(Error::refused(ErrorKind::NotFound, path, None, NOTHING_LEFT));
        }
        result.missed = self.missed.into_values().collect();
        result.removed = self.removed;
        result.unlaunched = self.unlaunched;
        Ok(())
    }

    /// Returns the number of parts of the job that have matched. All patterns of `drop` are one part.
    fn matched_count(&self) -> usize {
        self.matches.matched_count() + self.served.len() + usize::from(self.has_dropped)
    }

    /// Returns the parts of the job that have matched nothing.
    fn unmatched(&self) -> Vec<String> {
        let Recompress { drop, keep_for, .. } = self.job;
        let mut unmatched = Vec::new();
        if let Some(keep) = &self.keep {
            // There is no second set of files (`None`), so no part can match only there.
            (unmatched, _) = self.matches.unmatched(WantedCode::selected_by(keep), None);
        }
        for (index, device) in keep_for.iter().enumerate() {
            if !self.served.contains(&index) {
                unmatched.push(format!("'{device}'"));
            }
        }
        if let Some(drop) = drop
            && !self.has_dropped
        {
            unmatched.extend(drop.targets.iter().map(|pattern| format!("'{}'", pattern.as_str())));
        }
        unmatched
    }

    /// Returns the error for parts of the job that have matched nothing in the rewritten bundles. If they match code
    /// that recompress does not change, the error lists its places.
    fn into_mismatch_error(mut self, unmatched: &[String], input: &Input) -> Error {
        let present = self.matches.present().to_vec();
        let mut places = BTreeSet::new();
        let place = Place::of_file(input.path());
        let searched = visit_bundles(self.job.limits, &place, input.as_slice(), &mut |found| {
            let before = self.matched_count();
            // Called only because it notes the parts that match.
            self.candidates(found);
            if self.matched_count() > before {
                places.insert(found.place.to_string());
            }
        });
        // The search above has noted the parts that match outside of the rewritten bundles.
        let nowhere = self.unmatched();
        if searched.is_err() || !nowhere.is_empty() {
            let nowhere = if searched.is_err() { unmatched } else { &nowhere };
            let unfound = self.matches.unfound_for(nowhere);
            return Error::no_match(&[input.path().to_owned()], nowhere, &present).with_reason(unfound);
        }
        let places: Vec<String> = places.into_iter().collect();
        let reason = format!(
            "the code for {} is in parts that recompress does not change: {}",
            unmatched.join(" and "),
            places.join(", ")
        );
        Error::refused(ErrorKind::NotFound, input.path(), None, reason)
    }
}

/// Code outside of the rewritten bundles that stays, although the job removes such code from bundles.
pub(super) struct RemainingCode<'j> {
    filter: KeepFilter<'j>,
    by_holder: BTreeMap<String, RemovedCode>,
}

impl<'j> RemainingCode<'j> {
    pub(super) fn new(job: &'j Recompress) -> Self {
        Self { filter: KeepFilter::new(job), by_holder: BTreeMap::new() }
    }

    /// Adds the code of a written file, or of a written member, that stays although the job removes such code.
    pub(super) fn add(&mut self, place: &Place, written: Slice<'_>) -> Result<()> {
        let Self { filter, by_holder } = self;
        visit_bundles(limits_of_result(filter.job.limits), place, written, &mut |found| {
            for (code_object, candidate) in found.code_objects().zip(filter.candidates(found)) {
                if !candidate.is_selected {
                    by_holder.entry(holder_of(&code_object)).or_default().add(code_object.size());
                }
            }
        })
    }

    /// Returns the code that stays, by the vendor and the kind of its container.
    pub(super) fn into_holders(self) -> BTreeMap<String, RemovedCode> {
        self.by_holder
    }
}

/// Names the vendor of a code object and the kind of its container, such as "Intel's SYCL images".
fn holder_of(code_object: &CodeObjectRef<'_>) -> String {
    let is_in_images = is_in_device_images(code_object.found.place);
    let format = if is_in_images { Format::DeviceImages } else { code_object.found.format };
    let kind = format.row().left_as_they_are;
    let id = code_object.parsed_id().parsed;
    match id.as_ref().and_then(vendor_name) {
        Some(vendor) => format!("{vendor}'s {kind}"),
        None => kind.to_owned(),
    }
}

/// Returns whether a place is in a section of device images. An image may be an archive with code for several GPUs.
fn is_in_device_images(place: &Place) -> bool {
    place.steps().iter().any(|step| matches!(step, Step::Section(name) if sections::has_device_images(name)))
}

/// Returns the vendor of the GPU that an entry ID is for, or `None` if it is not known.
fn vendor_name(id: &EntryId) -> Option<&'static str> {
    let triple = id.triple();
    match (triple.arch(), triple.vendor()) {
        ("amdgpu", _) | (_, "amd") => Some("AMD"),
        ("nvptx" | "nvptx64", _) => Some("NVIDIA"),
        _ if triple.arch_name().starts_with("spir") => Some("Intel"),
        _ => None,
    }
}

/// Calls `visit` with each bundle in some data.
fn visit_bundles(
    limits: Limits,
    place: &Place,
    data: Slice<'_>,
    visit: &mut dyn FnMut(&FoundBundle<'_>),
) -> Result<()> {
    Scan { limits, ..Scan::default() }.run_at(place, data, &mut |finding| {
        if let Finding::Bundle(found) = finding {
            visit(&found);
        }
        Ok(())
    })
}

impl Candidate {
    fn new(code_object: &CodeObjectRef<'_>, unfound: &UnfoundEntries) -> Self {
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
        Self { id, content, code, unfound, loaded, is_dropped: false, is_selected: false }
    }
}
