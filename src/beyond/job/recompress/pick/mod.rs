//! Picks the code objects that a recompression keeps, before anything is rewritten.
//!
//! A search of the file decides on each bundle: [`rules`] says what is kept because of its target, and the kernels that
//! code objects define leave out more. The rewriter only asks for the result ([`Picks`]), and sums up what it has
//! applied ([`PickTotal`]). Messages are computed from that sum.

mod rules;
mod total;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::check::{FileCode, KeptByOffset, KnownObjects};
use super::{MissedCode, Recompress};
use crate::base::error::Result;
use crate::base::io::input::{Input, Slice};
use crate::beyond::container::packed::LastInflated;
use crate::beyond::container::sequence::Content;
use crate::beyond::inventory::kernel_names::{KernelNames, MeantNames};
use crate::beyond::inventory::request::{ALL, Pattern, Request};
use crate::beyond::inventory::{Keep, Reading, Visit, each_bundle};
use crate::beyond::job::size_limit::ensure_size_limit;
use crate::beyond::runtime::{Code, Device};
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectRef, CodeObjectsOfBundle, FoundBundle, Place, PlaceOrigin, Scan, contents,
    weight_of,
};
use crate::llvm::container::Limits;
use crate::llvm::container::sequence::Inflate;
use rules::{BundleCode, TargetRules};
pub(super) use total::PickTotal;

pub(super) const NOTHING_LEFT: &str = "no device code would be left";

/// Decides on code objects. Nothing that it is asked changes it.
pub(super) struct Picker<'j> {
    job: &'j Recompress,
    rules: TargetRules<'j>,
    /// The GPUs of `keep_for`, as the parts of a request.
    for_gpus: Request<'j>,
    /// The GPUs that `keep` names.
    named: Vec<Device>,
    /// The names of `keep_kernels` that mean kernels of the whole file, if any of them has wildcards: wildcards are
    /// literal in a name that a kernel has.
    meant_in_file: MeantNames,
}

/// The code objects to keep in the bundles of a file.
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

/// The code objects to keep in a bundle.
pub(super) struct PickedBundle {
    /// The sorted indices of the code objects that are kept.
    pub(super) kept: Vec<usize>,
    /// The number of kept code objects that are not host code.
    pub(super) device_count: usize,
    pub(super) total: PickTotal,
}

impl<'j> Picker<'j> {
    /// Prepares the rules of a job. [`with_kernels_of`](Self::with_kernels_of) adds the kernels of the file.
    pub(super) fn new(job: &'j Recompress) -> Self {
        // The field `named` leaves out targets that are no names of GPUs, such as targets with wildcards.
        let named = job.keep.iter().flat_map(|keep| &keep.targets).map(Pattern::as_str);
        Self {
            job,
            rules: TargetRules::new(job),
            for_gpus: Request::new(&ALL).with(&job.keep_for, None),
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
        let selected = self.rules.select(&BundleCode::of(found));
        found.code_objects().filter(|code_object| !selected.contains(&code_object.index())).collect()
    }

    /// Picks the code objects of a file, or of a member, which is about to be rewritten.
    pub(super) fn pick_in(&self, data: Slice<'_>) -> Result<Picks> {
        // Compressed bundles are inflated, because only the content of a code object tells its kind and its kernels. A
        // search that compares checksums also checks wrappers, as the search after the job does.
        let (inflate, checksums) = (Inflate::Whole, Checksums::OfAll);
        let scan = Scan { inflate, checksums, limits: self.job.limits, ..Scan::default() };
        let mut picks = Picks::default();
        let faults = each_bundle(&scan, &Place::of_file(data.path()), data, &mut |found| {
            if !found.place.is_in_code_object() {
                picks.add(found, || self.pick_in_bundle(found));
            }
            Ok(())
        })?;
        Ok(Picks { has_faults: faults > 0, ..picks })
    }

    /// Picks the code objects of a bundle.
    fn pick_in_bundle(&self, found: &FoundBundle<'_>) -> Result<PickedBundle> {
        // The kernels of any code object may be read.
        if self.job.keep_kernels.is_some() {
            ensure_size_limit(found.place.file(), found.bundle, 0..found.bundle.entries.len())?;
        }
        let bundle = BundleCode::of(found);
        let selected = self.rules.select(&bundle);
        let mut kernels = self.kernels_in(found, &bundle, &selected);
        let mut kept = selected.clone();
        // A code object whose kernels are known stays only if one of the names means a kernel of it.
        kept.retain(|index| kernels.get(index).is_none_or(|kernels| !kernels.is_empty()));
        let mut total = PickTotal::default();
        for (code_object, candidate) in found.code_objects().zip(&bundle.code_objects) {
            let index = code_object.index();
            let kernels = kernels.remove(&index).unwrap_or_default();
            total.add_picked(&self.rules, (&code_object, candidate), kernels, kept.contains(&index));
        }
        // A target that keeps other code in the bundle has not lost all of it.
        let kept_targets = bundle.targets_of_hip(&kept);
        total.unlaunched = usize::from(!bundle.targets_of_hip(&selected).is_subset(&kept_targets));
        total.missed = self.missed(&self.rules.loadable(&bundle), &kept);
        Ok(PickedBundle { kept: kept.into_iter().collect(), device_count: total.kept_devices(), total })
    }

    /// Returns, for each of the `selected` code objects of a bundle whose kernels are known, the indices of the names
    /// of `keep_kernels` that mean a kernel or variable of it. Returns nothing if no names are given.
    fn kernels_in(
        &self,
        found: &FoundBundle<'_>,
        bundle: &BundleCode,
        selected: &BTreeSet<usize>,
    ) -> BTreeMap<usize, BTreeSet<usize>> {
        let (mut last_inflated, mut known) = (LastInflated::default(), BTreeMap::new());
        let Some(names) = &self.job.keep_kernels else { return known };
        for (index, candidate) in bundle.code_objects.iter().enumerate() {
            // Only code for devices has kernels.
            if selected.contains(&index)
                && !candidate.id.is_host()
                && let Some(meant) = self.kernels_of(names, found.bundle.content_after(index, &mut last_inflated))
            {
                known.insert(index, meant);
            }
        }
        known
    }

    /// Returns the names that mean kernels or variables of a code object, by their indices. Returns `None` for a code
    /// object whose kernels are not known: other code may need it.
    fn kernels_of(&self, names: &KernelNames, content: Result<Content<'_>>) -> Option<BTreeSet<usize>> {
        let (meant, has_kernels) = names.find_in_code(content.ok()?.as_slice().bytes()).ok()?;
        if has_kernels { Some(meant.strongest(&self.meant_in_file)) } else { None }
    }

    /// Returns the removed code of a bundle that GPUs named in `keep` would have used. `loadable` is the code that
    /// runtimes choose from, by the index of its code object.
    fn missed(&self, loadable: &[(usize, Code)], kept: &BTreeSet<usize>) -> BTreeMap<usize, MissedCode> {
        let mut missed = BTreeMap::new();
        for (device_index, device) in self.named.iter().enumerate() {
            let chosen = device.choose(loadable);
            let mut targets = BTreeSet::new();
            for (index, code) in loadable {
                if chosen.contains(index) && !kept.contains(index) {
                    targets.insert(code.name());
                }
            }
            if !targets.is_empty() {
                missed.insert(device_index, MissedCode { device: device.clone(), bundles: 1, targets });
            }
        }
        missed
    }
}

impl Picks {
    /// Adds a bundle that the search has found. Calls `pick`, and adds the result, if the bundle may be rewritten: only
    /// in the file itself, and not in inflated data.
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

    /// Takes what was decided about the bundle at an offset of the file, or the error of deciding. Returns `None` if
    /// the search has not found that bundle.
    pub(super) fn take(&mut self, offset: u64) -> Option<Result<PickedBundle>> {
        self.by_offset.remove(&offset)
    }

    /// Returns the code that a search finds in the new file if the bundles with code objects in `kept` keep only these.
    /// Returns `None` if the file has faults, or was not searched: these are counted in another search.
    pub(super) fn expected(&self, kept: &KeptByOffset) -> Option<FileCode> {
        if self.has_faults || self.known.is_empty() {
            return None;
        }
        let is_rewritten = |offset: &Option<u64>| offset.is_some_and(|offset| kept.contains_key(&offset));
        let known = self.known.iter().map(|(offset, all, kept)| if is_rewritten(offset) { *kept } else { *all });
        Some(FileCode::without_faults(known))
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
    Reading::new(&scan, Keep::Nothing).run(input, read, &|read| weight_of(read, MeantNames::len), &mut |visit| {
        match visit {
            Visit::Bundle(_, found, reads) => {
                // Entries may share bytes, so a small file can have code objects of any total size.
                let size_checked = ensure_size_limit(input.path(), found.bundle, 0..found.bundle.entries.len());
                if let (Ok(()), Ok(info)) = (size_checked, found.info()) {
                    for code_object in found.code_objects() {
                        reads.add(Some(&found), ((), code_object.keep(&info)));
                    }
                }
            }
            Visit::Read(read) => {
                for (_, meant) in read {
                    if let Ok(meant) = meant {
                        in_file.extend(&meant);
                    }
                }
            }
            Visit::Split(..) | Visit::Archive(..) | Visit::Bad(_) | Visit::Unread(_) | Visit::End(..) => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(in_file)
}
