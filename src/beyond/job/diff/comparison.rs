//! The comparison of two files, of which all code objects are found.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::super::digest::{Digester, are_equal};
use super::super::kernels::{ListRoom, of_kernels};
use super::names::{NameKey, Renamed, library_name, unversioned};
use super::pairs::{IndexPair, Left};
use super::side::{ReadCode, ReadState, Side, SideObject, StoredBytes};
use super::{Change, CodeObjectDiff, Diff, FileDiff, KernelDiff, Loss};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::code::kernels::{self, Kernel};
use crate::beyond::parallel;
use crate::beyond::runtime::{Coverage, Device, Served};
use crate::beyond::scan::{CodeObject, Place, Step, top_member};

/// The numbers that stand for the names of code objects of both files.
#[derive(Default)]
struct NameNumbers {
    known: HashMap<Vec<u8>, usize>,
}

impl NameNumbers {
    fn number(&mut self, name: Vec<u8>) -> usize {
        let next = self.known.len();
        *self.known.entry(name).or_insert(next)
    }

    /// Sets the keys of the code objects of one file, whose members may be renamed.
    fn set_keys(&mut self, objects: &mut [SideObject<'_>], renamed: &Renamed) {
        let mut gpus: HashSet<Arc<str>> = HashSet::new();
        let mut last: Option<(&Place, usize, usize)> = None;
        for SideObject { code_object, key, .. } in objects {
            let code_object = &*code_object;
            let bundle = &code_object.bundle;
            let (place, library) = match last {
                Some((known, place, library)) if *known == bundle.place => (place, library),
                _ => {
                    let library = renamed.old_library(library_name(&bundle.place, bundle.format));
                    let library = library.iter().flat_map(|member| [b"\0library ", &member[..]].concat()).collect();
                    (self.number(place_name(&bundle.place, renamed)), self.number(library))
                }
            };
            last = Some((&bundle.place, place, library));
            let name: Arc<str> = code_object.target().into();
            let gpu = gpus.get(&name).cloned().unwrap_or(name);
            gpus.insert(Arc::clone(&gpu));
            *key = NameKey { gpu, place, library, id: self.number([b"id ", &code_object.id[..]].concat()) };
        }
    }
}

/// A name for a place: that in the old file, without the versions that names of libraries end in.
fn place_name(place: &Place, renamed: &Renamed) -> Vec<u8> {
    let step = |step: &Step| match step {
        Step::Member(name) => [b"\0member ", renamed.old(unversioned(name))].concat(),
        Step::Section(name) => [b"\0section ", &name[..]].concat(),
        Step::Embedded(index) => format!("\0embedded {index}").into_bytes(),
        Step::Entry(id) => [b"\0entry ", &id[..]].concat(),
    };
    place.steps().iter().flat_map(step).collect()
}

/// The kernels of code objects that differ, by the index of the code object.
pub(super) type Kernels = HashMap<usize, Vec<Kernel>>;

pub(super) struct FileComparison<'c> {
    job: &'c Diff,
    digester: &'c Digester,
    old: Side<'c>,
    new: Side<'c>,
    /// The code objects of both files, those of the old one first.
    objects: Vec<SideObject<'c>>,
    /// Those that are not known to be equal to others.
    left: Left,
    /// The members of zip files that were searched in the old file only.
    shared_members: HashSet<Vec<u8>>,
    /// The code objects of the old file that stand for equal ones of the new file, which were not searched.
    shared: Vec<usize>,
    diff: FileDiff,
}

impl<'c> FileComparison<'c> {
    pub(super) fn new(job: &'c Diff, digester: &'c Digester, mut sides: [Side<'c>; 2]) -> Self {
        let (mut objects, mut diff, of_old) = (Vec::new(), FileDiff::default(), sides[0].objects.len());
        let renamed = Renamed::between(&sides[0].names(), &sides[1].names());
        let mut numbers = NameNumbers::default();
        numbers.set_keys(&mut sides[0].objects, &Renamed::default());
        numbers.set_keys(&mut sides[1].objects, &renamed);
        sides[1].rename(&renamed);
        for side in &mut sides {
            objects.append(&mut side.objects);
            diff.matches.add(mem::take(&mut side.matches));
            diff.problems.append(&mut side.problems);
        }
        let ([old, new], left) = (sides, Left::of(of_old, objects.len()));
        Self { job, digester, old, new, objects, left, shared_members: HashSet::new(), shared: Vec::new(), diff }
    }

    /// The names of a code object.
    fn key(&self, index: usize) -> Option<&NameKey> {
        self.objects.get(index).map(|object| &object.key)
    }

    /// The place and the entry ID of a code object.
    fn group(&self, index: usize) -> Option<(usize, usize)> {
        self.key(index).map(|key| (key.place, key.id))
    }

    /// Pairs code objects that are equal.
    fn are_equal(&mut self, pairs: &[IndexPair]) {
        self.diff.equal.all += pairs.len();
        pairs.iter().for_each(|pair| self.left.pair(*pair));
    }

    /// Takes the code objects in members of zip files for equal that were searched in the old file only.
    pub(super) fn take_members(&mut self, same: HashSet<Vec<u8>>) {
        let is_same = |object: &SideObject<'_>| object.member().is_some_and(|member| same.contains(member));
        let is_shared = |index: &usize| !self.left.is_new(*index) && self.objects.get(*index).is_some_and(is_same);
        self.shared = (0..self.objects.len()).filter(is_shared).collect();
        self.shared.iter().for_each(|index| self.left.take(*index));
        let equal = &mut self.diff.equal;
        (equal.all, equal.by_checksum) = (self.shared.len(), self.shared.len());
        self.shared_members = same;
    }

    /// Pairs compressed bundles that record the same hash: first those at the same place.
    pub(super) fn by_recorded_hash(&mut self) {
        let bundles = bundles(&self.objects);
        let old = bundles.iter().filter(|bundle| !self.left.is_new(bundle.start)).count();
        let mut left = Left::of(old, bundles.len());
        let recorded = |index: usize| {
            let first = self.objects.get(bundles.get(index)?.start)?;
            let recorded = first.code_object.bundle.compressed?;
            // Zero may stand for no hash.
            Some((first.key.place, (recorded.hash.filter(|hash| *hash != 0)?, recorded.inflated)))
        };
        let mut pairs = left.pair_alike(recorded);
        pairs.extend(left.pair_alike(|index| recorded(index).map(|(_, recorded)| recorded)));
        let ranges = |(old, new): IndexPair| Some((bundles.get(old)?.clone(), bundles.get(new)?.clone()));
        let objects = pairs.into_iter().filter_map(ranges).flat_map(|(old, new)| old.zip(new));
        // What the headers of the bundles record is not believed against the entries.
        let id_and_size = |index: usize| self.objects.get(index).map(|object| (object.key.id, object.size()));
        let is_same = |(old, new): &IndexPair| id_and_size(*old) == id_and_size(*new);
        let objects: Vec<IndexPair> = objects.filter(is_same).collect();
        self.diff.equal.by_hash = objects.len();
        self.are_equal(&objects);
    }

    /// Compares code objects of the same place, entry ID and size as they are stored. Those that are compressed are
    /// inflated later, unless hashes are trusted: equal bytes may be broken.
    pub(super) fn stored_bytes(&mut self) -> Result<()> {
        let key = |index: usize| {
            let object = self.objects.get(index)?;
            if object.form().is_some() && object.is_readable() && !self.job.trust_hashes {
                return None;
            }
            let (len, digest) = match object.stored {
                StoredBytes::Here(slice) => (slice.len(), None),
                StoredBytes::Digest(digest) => (object.code_object.stored(), Some(digest)),
                StoredBytes::Elsewhere => return None,
            };
            Some((self.group(index), object.code_object.size, object.form(), len, digest))
        };
        let pairs = self.left.alike(key);
        let slice = |index: usize| match self.objects.get(index)?.stored {
            StoredBytes::Here(slice) => Some(slice),
            _ => None,
        };
        let compare = |pair: IndexPair| match (slice(pair.0), slice(pair.1)) {
            (Some(old), Some(new)) => are_equal(old, new).with_path(old.path()).map(|are| are.then_some(pair)),
            _ => Ok(Some(pair)),
        };
        let equal = parallel::in_order(pairs, compare, |_| 1, |equal| equal.collect::<Result<Vec<_>>>())?;
        self.are_equal(&equal.into_iter().flatten().collect::<Vec<_>>());
        Ok(())
    }

    /// Pairs code objects for the same GPU that have the same digest: first those at the same place. Digests are taken
    /// where the other file has a code object for the GPU that may have the same size and, unless hashes are trusted,
    /// of everything that is compressed.
    pub(super) fn digests(&mut self) -> Result<()> {
        let left = self.left.all().filter_map(|index| Some((index, self.objects.get(index)?)));
        let (mut gpus, mut sizes) = (HashSet::new(), HashSet::new());
        for (index, object) in left.clone() {
            let of_gpu = (self.left.is_new(index), &object.key.gpu);
            gpus.insert(of_gpu);
            sizes.insert((of_gpu, object.size()));
        }
        let is_read = |(index, object): &(usize, &SideObject<'_>)| {
            let of_other = (!self.left.is_new(*index), &object.key.gpu);
            let has = |size| sizes.contains(&(of_other, size));
            let may_be_equal = match object.size() {
                Some(size) => has(Some(size)) || has(None),
                None => gpus.contains(&of_other),
            };
            // The hash of a compressed bundle is checked when it is inflated.
            let is_compressed = object.form().is_some() || matches!(object.stored, StoredBytes::Elsewhere);
            may_be_equal || (!self.job.trust_hashes && is_compressed)
        };
        let mut wanted = Vec::new();
        for (index, object) in left {
            if matches!(object.read, ReadState::NotYet) && object.is_readable() && is_read(&(index, object)) {
                wanted.push(index);
            }
        }
        // Kernels are read too where that would take another inflation.
        let read = |code_object: &CodeObject, code: Slice<'_>| {
            if code_object.packed.is_some() || code_object.bundle.compressed.is_some() {
                ReadCode::with_kernels(self.digester, code_object, code)
            } else {
                ReadCode::without_kernels(self.digester, code)
            }
        };
        let mut contents = Vec::new();
        let (old, new) = wanted.split_at(wanted.partition_point(|index| !self.left.is_new(*index)));
        for (side, wanted) in [(&self.old, old), (&self.new, new)] {
            side.read(self.job, (&self.objects, wanted), read, ReadCode::weight, &mut |index, read| {
                contents.push((index, read));
            })?;
        }
        for (index, read) in contents {
            self.note_read(index, read);
        }
        let objects = &self.objects;
        let with_digest = |index: usize| {
            let object = objects.get(index)?;
            Some((&object.key, object.digest()?))
        };
        let at_place = |index| with_digest(index).map(|(key, digest)| (key.place, key.id, digest));
        let mut pairs = self.left.pair_alike(at_place);
        pairs.extend(self.left.pair_alike(|index| with_digest(index).map(|(key, digest)| (&key.gpu, digest))));
        self.are_equal(&pairs);
        Ok(())
    }

    /// Takes in the result of reading a code object.
    fn note_read(&mut self, index: usize, read: Result<ReadCode>) {
        match (read, self.objects.get_mut(index)) {
            (Ok(read), Some(object)) => object.read = ReadState::Done(read),
            (Err(error), _) => self.diff.problems.push(error),
            (Ok(_), None) => {}
        }
    }

    /// Reads the kernels of the code objects that differ, for GPUs that both files have code for.
    pub(super) fn kernels(&mut self) -> Result<Kernels> {
        let with_gpu = |is_new: bool, index: usize| Some((is_new, &*self.key(index)?.gpu));
        let in_files = (0..self.objects.len()).filter_map(|index| with_gpu(self.left.is_new(index), index));
        let shared = self.shared.iter().filter_map(|index| with_gpu(true, *index));
        let gpus: HashSet<(bool, &str)> = in_files.chain(shared).collect();
        let is_in_both =
            |index: &usize| with_gpu(!self.left.is_new(*index), *index).is_some_and(|gpu| gpus.contains(&gpu));
        let is_readable = |index: &usize| self.objects.get(*index).is_some_and(SideObject::is_readable);
        let differing: Vec<usize> = self.left.all().filter(is_in_both).filter(is_readable).collect();
        let (mut kernels, mut problems) = (Kernels::new(), Vec::new());
        let (old, new) = differing.split_at(differing.partition_point(|index| !self.left.is_new(*index)));
        for (side, differing) in [(&self.old, old), (&self.new, new)] {
            let mut room = ListRoom::default();
            let mut take = |index: usize, read: Result<Vec<Kernel>>| match read {
                Ok(mut read) => {
                    if room.take_kernels(&mut read) {
                        kernels.insert(index, read);
                    }
                }
                Err(error) => problems.push(error),
            };
            let mut wanted = Vec::new();
            for index in differing {
                let Some(object) = self.objects.get_mut(*index) else { continue };
                match (object.take_kernels(), &object.read) {
                    (Some(read), _) => take(*index, read),
                    // The reason is a problem already.
                    (None, ReadState::WithSearch) => {}
                    (None, _) => wanted.push(*index),
                }
            }
            let read = |code_object: &CodeObject, code: Slice<'_>| of_kernels(code_object, kernels::of(code.bytes()));
            side.read(self.job, (&self.objects, &wanted), read, Vec::len, &mut take)?;
            problems.extend(side.input.and_then(|input| room.problem(input)));
        }
        self.diff.problems.extend(problems);
        Ok(kernels)
    }

    /// Pairs what differs, and counts everything.
    pub(super) fn finish(mut self, kernels: Kernels) -> FileDiff {
        self.count();
        self.compare_coverage();
        let (changed, left) = self.pair_changed(&kernels);
        self.list_code_objects(&changed, &left);
        self.list_kernels(&changed, kernels);
        // The same part may have been read several times.
        let mut known = HashSet::new();
        self.diff.problems.retain(|problem| known.insert(problem.to_string()));
        self.diff
    }

    /// Counts the code objects of both files by GPU.
    fn count(&mut self) {
        for (index, object) in self.objects.iter().enumerate() {
            let numbers = self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default();
            let of_file = if self.left.is_new(index) { &mut numbers.new } else { &mut numbers.old };
            *of_file += object.code_object.sizes();
        }
        for object in self.shared.iter().filter_map(|index| self.objects.get(*index)) {
            self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default().new += object.code_object.sizes();
        }
    }

    /// Compares which GPUs the libraries of both files serve.
    fn compare_coverage(&mut self) {
        let is_shared = |place: &Place| top_member(place).is_some_and(|member| self.shared_members.contains(member));
        for (place, coverage) in self.old.libraries.values() {
            self.diff.old_coverage.merge(coverage);
            if is_shared(place) {
                self.diff.new_coverage.merge(coverage);
            }
        }
        self.new.libraries.values().for_each(|(_, coverage)| self.diff.new_coverage.merge(coverage));
        if self.new.input.is_none() {
            return;
        }
        let nothing = Coverage::default();
        let gone = lost(&self.diff.old_coverage, &self.diff.new_coverage).map(|lost| {
            let gone = lost.into_iter().filter(|(.., new)| new.serving == 0);
            gone.map(|(device, ..)| device.name().to_owned()).collect::<HashSet<_>>()
        });
        let is_bare =
            |place: &Place| top_member(place).is_some_and(|member| self.new.members.contains(unversioned(member)));
        for (library, (place, old)) in self.old.libraries.iter().filter(|(_, (place, _))| !is_shared(place)) {
            let losses = match self.new.libraries.get(library) {
                Some((_, new)) => lost(old, new),
                // The library is still there, without code.
                None if is_bare(place) => lost(old, &nothing),
                // The code may have moved to another place in the file.
                None => gone.as_ref().and_then(|gone| {
                    let mut losses = lost(old, &nothing)?;
                    losses.retain(|(device, ..)| gone.contains(device.name()));
                    Some(losses)
                }),
            };
            if losses.is_none() {
                let path = place.file();
                let text = "too many different bundles to compare which GPUs they serve".to_owned();
                let error = Malformed::other(ErrorKind::Limit, None, text);
                self.diff.problems.push(Error::malformed(path, error).at(place));
            }
            for (device, old, new) in losses.into_iter().flatten() {
                let gpu: Arc<str> = device.name().into();
                if self.diff.gpus.contains_key(&gpu) {
                    self.diff.losses.push(Loss { gpu, member: place.member(), old, new });
                }
            }
        }
        self.diff.losses.sort_by(|a, b| (&a.member, &a.gpu).cmp(&(&b.member, &b.gpu)));
    }
}

/// Returns the GPUs that all bundles of the old library serve, but not all of the new one, or that are served no
/// longer, or `None` if there are too many to compare.
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

/// The ranges of code objects that are in the same bundle.
fn bundles(objects: &[SideObject<'_>]) -> Vec<Range<usize>> {
    let mut start = 0_usize;
    let range = |bundle: &[SideObject<'_>]| {
        let end = start + bundle.len();
        mem::replace(&mut start, end)..end
    };
    objects.chunk_by(SideObject::is_beside).map(range).collect()
}

impl FileComparison<'_> {
    /// Pairs code objects of the same place and entry ID that differ: those that share most kernels, then the rest in
    /// the order of the files. Returns the new one for each old one, and what is left.
    fn pair_changed(&self, kernels: &Kernels) -> (HashMap<usize, usize>, Left) {
        let names = |index: usize| {
            let kernels = kernels.get(&index).map(Vec::as_slice).unwrap_or_default();
            kernels.iter().map(|kernel| Arc::clone(&kernel.name)).collect::<HashSet<_>>()
        };
        let mut left = self.left.clone();
        let mut pairs = left.pair_nearest(|index| (self.group(index), names(index)));
        pairs.extend(left.pair_alike(|index| self.group(index)));
        (pairs.into_iter().collect(), left)
    }

    fn list_code_objects(&mut self, changed: &HashMap<usize, usize>, left: &Left) {
        let of_old = self.left.of_old().map(|old| (Some(old), changed.get(&old).copied()));
        for (old, new) in of_old.chain(left.of_new().map(|new| (None, Some(new)))) {
            let [old, new] = [old, new].map(|index| self.objects.get(index?));
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
    fn list_kernels(&mut self, changed: &HashMap<usize, usize>, mut kernels: Kernels) {
        // If the kernels of one cannot be read, those of the other are not compared.
        for (old, new) in changed {
            if !kernels.contains_key(old) || !kernels.contains_key(new) {
                kernels.remove(old);
                kernels.remove(new);
            }
        }
        let (objects, kernels) = (&self.objects, in_order(kernels));
        let mut left = Left::of(kernels.partition_point(|(object, _)| !self.left.is_new(*object)), kernels.len());
        let with = |object: usize| if self.left.is_new(object) { Some(object) } else { changed.get(&object).copied() };
        let in_pair =
            |index: usize| kernels.get(index).and_then(|(object, kernel)| Some((with(*object)?, &kernel.name)));
        let named = |index: usize| {
            let (object, kernel) = kernels.get(index)?;
            Some((&objects.get(*object)?.key, &kernel.name))
        };
        let mut pairs = left.pair_alike(in_pair);
        pairs.extend(left.pair_alike(|index| named(index).map(|(key, name)| (key.library, &key.gpu, name))));
        pairs.extend(left.pair_alike(|index| named(index).map(|(key, name)| (&key.gpu, name))));
        let kernel = |index: usize| kernels.get(index).map(|(_, kernel)| kernel.clone());
        let mut add = |index: usize, old: Option<Kernel>, new: Option<Kernel>| {
            let Some((object, kernel)) = kernels.get(index) else { return };
            let Some(object) = objects.get(*object) else { return };
            let (gpu, code_object) = (Arc::clone(&object.key.gpu), Arc::clone(&object.code_object));
            self.diff.kernels.push(KernelDiff { gpu, code_object, name: Arc::clone(&kernel.name), old, new });
        };
        for (at, with) in pairs {
            let (old, new) = (kernel(at), kernel(with));
            match old == new {
                true => self.diff.same_kernels += 1,
                false => add(with, old, new),
            }
        }
        left.of_old().for_each(|index| add(index, kernel(index), None));
        left.of_new().for_each(|index| add(index, None, kernel(index)));
    }
}

/// The kernels of code objects, in the order of these.
fn in_order(kernels: HashMap<usize, Vec<Kernel>>) -> Vec<(usize, Kernel)> {
    let mut objects: Vec<(usize, Vec<Kernel>)> = kernels.into_iter().collect();
    objects.sort_unstable_by_key(|(object, _)| *object);
    objects.into_iter().flat_map(|(object, kernels)| kernels.into_iter().map(move |kernel| (object, kernel))).collect()
}
