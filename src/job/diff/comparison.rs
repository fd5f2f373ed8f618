//! The comparison of two files, of which all code objects are found.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::super::digest::{Digest, Digester, are_equal};
use super::super::kernels::{ListRoom, kernels_of};
use super::pairs::{Both, IndexPair, Left, Of};
use super::side::{Side, SideObject, StoredBytes, digest_of};
use super::{Change, CodeObjectDiff, Diff, FileDiff, KernelDiff, Loss, unversioned};
use crate::code::kernels::{self, Kernel};
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::io::input::Slice;
use crate::parallel;
use crate::runtime::{Coverage, Device, Served};
use crate::scan::{CodeObject, Format, Place, Step, top_member};

/// The numbers that stand for the names of code objects of both files.
#[derive(Default)]
struct NameNumbers {
    known: HashMap<Vec<u8>, usize>,
}

/// The names of a code object, as numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct NameKey {
    pub(super) gpu: Arc<str>,
    /// The place, in which versions of libraries do not count.
    pub(super) place: usize,
    /// The library: the members of the place.
    library: usize,
    pub(super) id: usize,
}

impl NameNumbers {
    fn number(&mut self, name: Vec<u8>) -> usize {
        let next = self.known.len();
        *self.known.entry(name).or_insert(next)
    }

    /// Sets the keys of the code objects of a file.
    fn set_keys(&mut self, objects: &mut [SideObject<'_>], gpus: &mut HashSet<Arc<str>>) {
        let mut last: Option<(&Place, usize, usize)> = None;
        for SideObject { code_object, key, .. } in objects {
            let code_object = &*code_object;
            let bundle = &code_object.bundle;
            let (place, library) = match last {
                Some((known, place, library)) if *known == bundle.place => (place, library),
                _ => (self.number(place_name(&bundle.place)), self.number(library_name(&bundle.place, bundle.format))),
            };
            last = Some((&bundle.place, place, library));
            let name: Arc<str> = code_object.target().into();
            let gpu = gpus.get(&name).cloned().unwrap_or(name);
            gpus.insert(Arc::clone(&gpu));
            *key = NameKey { gpu, place, library, id: self.number([b"id ", &code_object.id[..]].concat()) };
        }
    }
}

/// A name for a place, without the versions that names of libraries end in.
fn place_name(place: &Place) -> Vec<u8> {
    let step = |step: &Step| match step {
        Step::Member(name) => [b"\0member ", unversioned(name)].concat(),
        Step::Section(name) => [b"\0section ", &name[..]].concat(),
        Step::Embedded(index) => format!("\0embedded {index}").into_bytes(),
        Step::Entry(id) => [b"\0entry ", &id[..]].concat(),
    };
    place.steps().iter().flat_map(step).collect()
}

/// A name for the library, or other file, that holds a bundle: the members on the way to it.
pub(super) fn library_name(place: &Place, format: Format) -> Vec<u8> {
    let member = |step: &&Step| matches!(step, Step::Member(_));
    let members: Vec<&Step> = place.steps().iter().filter(member).collect();
    // In a kpack archive, the innermost name is that of the bundle.
    let len = members.len().saturating_sub(usize::from(format == Format::Kpack));
    let names = members.into_iter().take(len).filter_map(|step| match step {
        Step::Member(name) => Some([b"\0library ", unversioned(name)].concat()),
        _ => None,
    });
    names.flatten().collect()
}

/// The lengths and digests of code objects, by the index of the code object.
type Digests = HashMap<usize, (u64, Digest)>;

/// The kernels of code objects that differ, by the index of the code object.
pub(super) type Kernels = Both<HashMap<usize, Vec<Kernel>>>;

pub(super) struct FileComparison<'c> {
    job: &'c Diff,
    digester: &'c Digester,
    sides: Both<Side<'c>>,
    /// The code objects that are not known to be equal to others.
    left: Left,
    /// The members of zip files that were searched in the old file only.
    shared_members: HashSet<Vec<u8>>,
    /// The code objects of the old file that stand for equal ones of the new file, which were not searched.
    shared: Vec<usize>,
    diff: FileDiff,
}

impl<'c> FileComparison<'c> {
    pub(super) fn new(job: &'c Diff, digester: &'c Digester, mut sides: Both<Side<'c>>) -> Self {
        let (mut names, mut gpus, mut diff) = (NameNumbers::default(), HashSet::new(), FileDiff::default());
        for side in [&mut sides.old, &mut sides.new] {
            names.set_keys(&mut side.objects, &mut gpus);
            diff.matches.add(mem::take(&mut side.matches));
            diff.problems.append(&mut side.problems);
        }
        let left = Left::of(sides.map(|side| side.objects.len()));
        Self { job, digester, sides, left, shared_members: HashSet::new(), shared: Vec::new(), diff }
    }

    fn object(&self, of: Of, index: usize) -> Option<&SideObject<'c>> {
        self.sides.of(of).objects.get(index)
    }

    /// Pairs code objects that are equal.
    fn are_equal(&mut self, pairs: &[IndexPair]) {
        self.diff.equal.all += pairs.len();
        pairs.iter().for_each(|pair| self.left.pair(*pair));
    }

    /// Takes the code objects in members of zip files for equal that were searched in the old file only.
    pub(super) fn take_members(&mut self, same: HashSet<Vec<u8>>) {
        let is_same = |object: &SideObject<'_>| object.member().is_some_and(|member| same.contains(member));
        let shared = self.sides.old.objects.iter().enumerate().filter(|(_, object)| is_same(object));
        self.shared = shared.map(|(index, _)| index).collect();
        self.shared.iter().for_each(|index| self.left.pair((*index, usize::MAX)));
        let equal = &mut self.diff.equal;
        (equal.all, equal.by_checksum) = (self.shared.len(), self.shared.len());
        self.shared_members = same;
    }

    /// Pairs compressed bundles that record the same hash: first those at the same place.
    pub(super) fn by_recorded_hash(&mut self) {
        let bundles = self.sides.map(|side| bundles(&side.objects));
        let mut left = Left::of(bundles.map(Vec::len));
        let recorded = |of: Of, index: usize| {
            let first = self.sides.of(of).objects.get(bundles.of(of).get(index)?.start)?;
            let recorded = first.code_object.bundle.compressed?;
            // Zero may stand for no hash.
            Some((first.key.place, (recorded.hash.filter(|hash| *hash != 0)?, recorded.inflated)))
        };
        let mut pairs = left.pair_alike(recorded);
        pairs.extend(left.pair_alike(|of, index| recorded(of, index).map(|(_, recorded)| recorded)));
        let ranges = |(at, with): IndexPair| Some((bundles.old.get(at)?.clone(), bundles.new.get(with)?.clone()));
        let objects = pairs.into_iter().filter_map(ranges).flat_map(|(old, new)| old.zip(new));
        // What the headers of the bundles record is not believed against the entries.
        let id_and_size = |of: Of, index: usize| self.object(of, index).map(|it| (it.key.id, it.size()));
        let is_same = |(old, new): &IndexPair| id_and_size(Of::Old, *old) == id_and_size(Of::New, *new);
        let objects: Vec<IndexPair> = objects.filter(is_same).collect();
        self.diff.equal.by_hash = objects.len();
        self.are_equal(&objects);
    }

    /// Compares code objects of the same place, entry ID and size as they are stored. Those that are compressed are
    /// inflated later, unless hashes are trusted: equal bytes may be broken.
    pub(super) fn stored_bytes(&mut self) -> Result<()> {
        let key = |of: Of, index: usize| {
            let object = self.object(of, index)?;
            if object.form().is_some() && !self.job.trust_hashes {
                return None;
            }
            let (len, digest) = match object.stored {
                StoredBytes::Here(slice) => (slice.len(), None),
                StoredBytes::Digest(digest) => (object.code_object.stored(), Some(digest)),
                StoredBytes::InBundle => return None,
            };
            Some((object.key.place, object.key.id, object.code_object.size, object.form(), len, digest))
        };
        let pairs = self.left.alike(key);
        let stored = |of: Of, index: usize| Some(self.object(of, index)?.stored);
        let slices = |(old, new): IndexPair| match (stored(Of::Old, old)?, stored(Of::New, new)?) {
            (StoredBytes::Here(old), StoredBytes::Here(new)) => Some((old, new)),
            _ => None,
        };
        let compare = |pair| match slices(pair) {
            Some((old, new)) => are_equal(old, new).with_path(old.path()).map(|are| are.then_some(pair)),
            None => Ok(Some(pair)),
        };
        let equal = parallel::in_order(pairs, compare, |_| 1, |equal| equal.collect::<Result<Vec<_>>>())?;
        self.are_equal(&equal.into_iter().flatten().collect::<Vec<_>>());
        Ok(())
    }

    /// Pairs code objects for the same GPU that have the same digest: first those at the same place. Digests are taken
    /// where the other file has a code object for the GPU that may have the same size and, unless hashes are trusted,
    /// of everything that is compressed.
    pub(super) fn digests(&mut self) -> Result<()> {
        let sizes = |of: Of| {
            let objects = self.left.in_file(of).filter_map(|index| self.object(of, index));
            objects.map(|object| (Arc::clone(&object.key.gpu), object.size())).collect::<HashSet<_>>()
        };
        let (old, old_errors) = self.read_digests(Of::Old, &sizes(Of::New))?;
        let (new, new_errors) = self.read_digests(Of::New, &sizes(Of::Old))?;
        let (sides, digests) = (&self.sides, Both { old, new });
        let digest = |of: Of, index: usize| digests.of(of).get(&index);
        let mut pairs = self.left.pair_alike(|of, index| sides.of(of).group(index).zip(digest(of, index)));
        pairs.extend(self.left.pair_alike(|of, index| Some((&sides.of(of).key(index)?.gpu, digest(of, index)?))));
        self.are_equal(&pairs);
        self.diff.problems.extend(old_errors);
        self.diff.problems.extend(new_errors);
        Ok(())
    }

    fn read_digests(&self, of: Of, of_other: &HashSet<(Arc<str>, Option<u64>)>) -> Result<(Digests, Vec<Error>)> {
        let (side, gpus_of_other) = (self.sides.of(of), of_other.iter().map(|(gpu, _)| gpu).collect::<HashSet<_>>());
        let may_be_equal = |index: &usize| {
            let Some(object) = side.objects.get(*index) else { return false };
            let gpu = &object.key.gpu;
            let has = |size| of_other.contains(&(Arc::clone(gpu), size));
            if let size @ Some(_) = object.size() { has(size) || has(None) } else { gpus_of_other.contains(gpu) }
        };
        // The hash of a compressed bundle is checked when it is inflated.
        let is_compressed = |index: &usize| {
            let object = side.objects.get(*index);
            object.is_some_and(|object| object.form().is_some() || matches!(object.stored, StoredBytes::InBundle))
        };
        let is_read = |index: &usize| may_be_equal(index) || (!self.job.trust_hashes && is_compressed(index));
        let (mut digests, mut wanted, mut errors) = (HashMap::new(), Vec::new(), Vec::new());
        for index in self.left.in_file(of).filter(is_read) {
            match side.objects.get(index).and_then(SideObject::digest) {
                Some(digest) => drop(digests.insert(index, digest)),
                None => wanted.push(index),
            }
        }
        let read = |_: &CodeObject, code: Slice<'_>| digest_of(self.digester, code);
        side.read(self.job, &wanted, read, |_| 1, &mut |index, read| match read {
            Ok(digest) => drop(digests.insert(index, digest)),
            Err(error) => errors.push(error),
        })?;
        Ok((digests, errors))
    }

    /// Reads the kernels of the code objects that differ, for GPUs that both files have code for.
    pub(super) fn kernels(&mut self) -> Result<Kernels> {
        let gpus = |side: &Side<'_>| side.objects.iter().map(|object| Arc::clone(&object.key.gpu)).collect();
        let mut gpus: Both<HashSet<Arc<str>>> = self.sides.map(gpus);
        gpus.new.extend(self.shared.iter().filter_map(|index| Some(Arc::clone(&self.sides.old.key(*index)?.gpu))));
        let mut kernels = Kernels::default();
        for (of, kernels) in [(Of::Old, &mut kernels.old), (Of::New, &mut kernels.new)] {
            let (side, others) = (self.sides.of(of), gpus.of(of.other()));
            let is_in_both = |index: &usize| side.key(*index).is_some_and(|key| others.contains(&key.gpu));
            let wanted: Vec<usize> = self.left.in_file(of).filter(is_in_both).collect();
            let (mut room, mut errors) = (ListRoom::default(), Vec::new());
            let read = |code_object: &CodeObject, code: Slice<'_>| kernels_of(code_object, code.bytes(), kernels::of);
            side.read(self.job, &wanted, read, Vec::len, &mut |index, read| match read {
                Ok(mut read) => {
                    if room.take_kernels(&mut read) {
                        kernels.insert(index, read);
                    }
                }
                Err(error) => errors.push(error),
            })?;
            self.diff.problems.extend(errors);
            self.diff.problems.extend(side.input.and_then(|input| room.problem(input)));
        }
        Ok(kernels)
    }

    /// Pairs what differs, and counts everything.
    pub(super) fn finish(mut self, kernels: Kernels) -> FileDiff {
        self.count();
        self.compare_coverage();
        let changed = self.pair_changed(&kernels);
        self.list_code_objects(&changed);
        self.list_kernels(&changed, kernels);
        // The same part may have been read several times.
        let mut known = HashSet::new();
        self.diff.problems.retain(|problem| known.insert(problem.to_string()));
        self.diff
    }

    /// Counts the code objects of both files by GPU.
    fn count(&mut self) {
        for object in &self.sides.old.objects {
            self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default().old += object.code_object.sizes();
        }
        let shared = self.shared.iter().filter_map(|index| self.sides.old.objects.get(*index));
        for object in self.sides.new.objects.iter().chain(shared) {
            self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default().new += object.code_object.sizes();
        }
    }

    /// Compares which GPUs the libraries of both files serve.
    fn compare_coverage(&mut self) {
        let is_shared = |place: &Place| top_member(place).is_some_and(|member| self.shared_members.contains(member));
        for (place, coverage) in self.sides.old.libraries.values() {
            self.diff.old_coverage.merge(coverage);
            if is_shared(place) {
                self.diff.new_coverage.merge(coverage);
            }
        }
        self.sides.new.libraries.values().for_each(|(_, coverage)| self.diff.new_coverage.merge(coverage));
        if self.sides.new.input.is_none() {
            return;
        }
        // What the new file serves anywhere, of which each library needs a part.
        let all = self.diff.old_coverage.gpus().and_then(|gpus| {
            let devices: Vec<Device> = gpus.into_iter().map(|(device, _)| device).collect();
            let served = self.diff.new_coverage.of_each(&devices)?;
            Some(devices.into_iter().map(|device| device.name().to_owned()).zip(served).collect::<HashMap<_, _>>())
        });
        let (mut losses, nothing) = (Vec::new(), Coverage::default());
        for (library, (place, old)) in self.sides.old.libraries.iter().filter(|(_, (place, _))| !is_shared(place)) {
            let new = self.sides.new.libraries.get(library).map(|(_, coverage)| coverage);
            let is_bare =
                || top_member(place).is_some_and(|member| self.sides.new.members.contains(unversioned(member)));
            let lost = match (new, &all) {
                (Some(new), _) => lost(old, new),
                // The library is still there, without code.
                (None, _) if is_bare() => lost(old, &nothing),
                // The code may have moved to another place in the file.
                (None, Some(all)) => old.gpus().map(|gpus| lost_from(gpus, all)),
                (None, None) => None,
            };
            if lost.is_none() {
                let path = place.file();
                let text = "too many different bundles to compare which GPUs they serve".to_owned();
                let error = Malformed::other(ErrorKind::Limit, None, text);
                self.diff.problems.push(Error::malformed(path, error).at(place));
            }
            for (device, served, now) in lost.into_iter().flatten() {
                let gpu: Arc<str> = device.name().into();
                let new = if new.is_some() { now } else { nothing.of(&device) };
                if self.diff.gpus.contains_key(&gpu) {
                    losses.push(Loss { gpu, member: place.member(), old: served, new });
                }
            }
        }
        losses.sort_by(|a, b| (&a.member, &a.gpu).cmp(&(&b.member, &b.gpu)));
        self.diff.losses = losses;
    }
}

/// The GPUs that all bundles of the old library serve, but not all of the new one, or that are served no longer. None
/// if there are too many to compare.
fn lost(old: &Coverage, new: &Coverage) -> Option<Vec<(Device, Served, Served)>> {
    let (devices, served): (Vec<Device>, Vec<Served>) = old.gpus()?.into_iter().unzip();
    let now = new.of_each(&devices)?;
    let all = devices.into_iter().zip(served).zip(now).map(|((device, old), new)| (device, old, new));
    let is_lost = |(_, old, new): &(Device, Served, Served)| {
        let is_none = old.serving > 0 && new.serving == 0;
        is_none || (old.is_complete() && !new.is_complete())
    };
    Some(all.filter(is_lost).collect())
}

/// The GPUs that some bundles served, and none do now.
fn lost_from(gpus: Vec<(Device, Served)>, now: &HashMap<String, Served>) -> Vec<(Device, Served, Served)> {
    let with_now = |(device, old): (Device, Served)| {
        let new = now.get(device.name()).copied().unwrap_or_default();
        (device, old, new)
    };
    gpus.into_iter().map(with_now).filter(|(_, old, new)| old.serving > 0 && new.serving == 0).collect()
}

/// The ranges of code objects that are in the same bundle.
fn bundles(objects: &[SideObject<'_>]) -> Vec<Range<usize>> {
    let mut start = 0_usize;
    let range = |bundle: &[SideObject<'_>]| {
        let end = start.saturating_add(bundle.len());
        mem::replace(&mut start, end)..end
    };
    objects.chunk_by(SideObject::is_beside).map(range).collect()
}

impl FileComparison<'_> {
    /// Pairs code objects of the same place and entry ID that differ: those that share most kernels, then the rest in
    /// the order of the files.
    fn pair_changed(&mut self, kernels: &Kernels) -> Vec<IndexPair> {
        let group = |of: Of, index: usize| self.sides.of(of).group(index);
        let names = |of: Of, index: usize| {
            let kernels = kernels.of(of).get(&index).map(Vec::as_slice).unwrap_or_default();
            kernels.iter().map(|kernel| Arc::clone(&kernel.name)).collect::<HashSet<_>>()
        };
        let mut left = self.left.clone();
        let mut pairs = left.pair_nearest(|of, index| (group(of, index), names(of, index)));
        pairs.extend(left.pair_alike(group));
        pairs
    }

    fn list_code_objects(&mut self, changed: &[IndexPair]) {
        let with: HashMap<usize, usize> = changed.iter().copied().collect();
        let is_changed: HashSet<usize> = changed.iter().map(|(_, new)| *new).collect();
        let of_old = self.left.in_file(Of::Old).map(|old| (Some(old), with.get(&old).copied()));
        let added = self.left.in_file(Of::New).filter(|new| !is_changed.contains(new)).map(|new| (None, Some(new)));
        for (old, new) in of_old.chain(added) {
            let old = old.and_then(|old| self.sides.old.objects.get(old));
            let new = new.and_then(|new| self.sides.new.objects.get(new));
            let Some(gpu) = old.or(new).map(|object| Arc::clone(&object.key.gpu)) else { continue };
            let [old, new] = [old, new].map(|object| object.map(|object| Arc::clone(&object.code_object)));
            let diff = CodeObjectDiff { gpu, old, new };
            let numbers = self.diff.gpus.entry(Arc::clone(&diff.gpu)).or_default();
            *match diff.change() {
                Change::Changed => &mut numbers.changed,
                Change::Added => &mut numbers.added,
                Change::Removed => &mut numbers.removed,
            } += 1;
            self.diff.code_objects.push(diff);
        }
    }

    /// Pairs the kernels of code objects that differ, by GPU and name: those of code objects that are paired, then
    /// those of the same library, then all others. Several with the same name are paired in order.
    fn list_kernels(&mut self, changed: &[IndexPair], mut kernels: Kernels) {
        // If the kernels of one cannot be read, those of the other are not compared.
        for (old, new) in changed {
            if !kernels.old.contains_key(old) || !kernels.new.contains_key(new) {
                kernels.old.remove(old);
                kernels.new.remove(new);
            }
        }
        let (sides, kernels) = (&self.sides, Both { old: in_order(kernels.old), new: in_order(kernels.new) });
        let with: HashMap<usize, usize> = changed.iter().copied().collect();
        let at = |of: Of, index: usize| kernels.of(of).get(index).map(|(object, kernel)| (*object, &kernel.name));
        let named = |of: Of, index: usize| {
            let (object, name) = at(of, index)?;
            Some((sides.of(of).key(object)?, name))
        };
        let mut left = Left::of(kernels.map(Vec::len));
        let mut pairs = left.pair_alike(|of, index| match (of, at(of, index)?) {
            (Of::Old, (object, name)) => Some((*with.get(&object)?, name)),
            (Of::New, new) => Some(new),
        });
        pairs.extend(left.pair_alike(|of, index| named(of, index).map(|(key, name)| (key.library, &key.gpu, name))));
        pairs.extend(left.pair_alike(|of, index| named(of, index).map(|(key, name)| (&key.gpu, name))));
        let kernel = |of: Of, index: usize| kernels.of(of).get(index).map(|(_, kernel)| kernel.clone());
        let mut add = |(of, index): (Of, usize), old: Option<Kernel>, new: Option<Kernel>| {
            let object = at(of, index).and_then(|(object, _)| sides.of(of).objects.get(object));
            let (Some(object), Some(kernel)) = (object, new.as_ref().or(old.as_ref())) else { return };
            let (gpu, code_object) = (Arc::clone(&object.key.gpu), Arc::clone(&object.code_object));
            self.diff.kernels.push(KernelDiff { gpu, code_object, name: Arc::clone(&kernel.name), old, new });
        };
        for (at, with) in pairs {
            let (old, new) = (kernel(Of::Old, at), kernel(Of::New, with));
            match old == new {
                true => self.diff.same_kernels += 1,
                false => add((Of::New, with), old, new),
            }
        }
        left.in_file(Of::Old).for_each(|index| add((Of::Old, index), kernel(Of::Old, index), None));
        left.in_file(Of::New).for_each(|index| add((Of::New, index), None, kernel(Of::New, index)));
    }
}

/// The kernels of code objects, in the order of these.
fn in_order(kernels: HashMap<usize, Vec<Kernel>>) -> Vec<(usize, Kernel)> {
    let mut objects: Vec<(usize, Vec<Kernel>)> = kernels.into_iter().collect();
    objects.sort_unstable_by_key(|(object, _)| *object);
    objects.into_iter().flat_map(|(object, kernels)| kernels.into_iter().map(move |kernel| (object, kernel))).collect()
}
