//! Compares the code objects of two files, and the kernels of code objects that differ.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::super::digest::{Digester, are_equal};
use super::super::kernels::{ListRoom, locate_kernel_error};
use super::names::{LibraryName, NameKey, RenamedMembers, members_of, unversioned};
use super::pairs::{IndexPair, Unpaired};
use super::side::{ComparedObject, ReadCode, ReadState, Side, StoredBytes};
use super::{CodeObjectDiff, Diff, DiffChange, FileDiff, KernelDiff, LostCoverage, TOO_MANY_BUNDLES};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::code::kernels::{self, Kernel};
use crate::beyond::inventory::{Coverage, FileSet, LostGpu, Unit, by_library, lost_gpus};
use crate::beyond::parallel;
use crate::beyond::scan::{CodeObject, Place, Step, top_member};

/// Numbers for the names in the two files. Equal names have equal numbers in both files, so keys are compared without
/// reading the names again.
#[derive(Default)]
struct NameNumbers {
    numbers: HashMap<Vec<u8>, usize>,
}

impl NameNumbers {
    /// Returns the number of a name. A new name gets the next number.
    fn number_of(&mut self, name: Vec<u8>) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(name).or_insert(next)
    }

    /// Sets the keys of the code objects of one file. Members in `renamed` count by their names in the old file.
    fn set_keys(&mut self, objects: &mut [ComparedObject<'_>], renamed: &RenamedMembers) {
        let mut gpus: HashSet<Arc<str>> = HashSet::new();
        // The code objects of a bundle follow each other and have one place, so the numbers of the last place are kept.
        let mut last: Option<(&Place, [usize; 2])> = None;
        for ComparedObject { code_object, key, .. } in objects {
            let place = &code_object.bundle.place;
            let [place_number, library_number] = match last {
                Some((last_place, numbers)) if last_place == place => numbers,
                _ => [place_key(place, renamed), library_key(place, renamed)].map(|key| self.number_of(key)),
            };
            last = Some((place, [place_number, library_number]));
            let id_number = self.number_of([b"id ", &code_object.id[..]].concat());
            let name: Arc<str> = code_object.target().into();
            // Equal names of GPUs share their memory.
            let gpu = gpus.get(&name).cloned().unwrap_or(name);
            gpus.insert(Arc::clone(&gpu));
            *key = NameKey { gpu, place_number, library_number, id_number };
        }
    }
}

/// Returns a text for the library at a place. Its members have their names in the old file.
fn library_key(place: &Place, renamed: &RenamedMembers) -> Vec<u8> {
    let mut key = Vec::new();
    for member in renamed.old_library_name(members_of(&place.library())) {
        key.extend_from_slice(b"\0library ");
        key.extend(member);
    }
    key
}

/// Returns a text for a place. Members have their names in the old file, without the versions at the ends of names of
/// libraries. Each step begins with a zero byte and its kind, so that different places have different texts.
fn place_key(place: &Place, renamed: &RenamedMembers) -> Vec<u8> {
    let mut key = Vec::new();
    for step in place.steps() {
        match step {
            Step::Member(member) => key.extend([b"\0member ", renamed.old_name(unversioned(member))].concat()),
            Step::Section(section) => key.extend([b"\0section ", &section[..]].concat()),
            Step::Embedded(index) => key.extend(format!("\0embedded {index}").into_bytes()),
            Step::Entry(id) => key.extend([b"\0entry ", &id[..]].concat()),
        }
    }
    key
}

/// The kernels of code objects that differ, by the index of the code object.
pub(super) type Kernels = HashMap<usize, Vec<Kernel>>;

pub(super) struct FileComparison<'c> {
    job: &'c Diff,
    digester: &'c Digester,
    old: Side<'c>,
    new: Side<'c>,
    /// The members of the new file that have another name in the old file.
    renamed: RenamedMembers,
    /// The code objects of both files, the old file first.
    objects: Vec<ComparedObject<'c>>,
    /// The code objects that are not known to equal one of the other file.
    unpaired: Unpaired,
    /// The members of zip files that have the same checksum in both files, and so were searched in the old file only.
    equal_members: HashSet<Vec<u8>>,
    /// The indices of the code objects in the `equal_members`. Each counts as a code object of the new file too.
    in_equal_members: Vec<usize>,
    diff: FileDiff,
}

impl<'c> FileComparison<'c> {
    /// Starts the comparison of two searched files, in which nothing is paired yet.
    pub(super) fn new(job: &'c Diff, digester: &'c Digester, [mut old, mut new]: [Side<'c>; 2]) -> Self {
        // The names of both files are compared before any of them changes.
        let renamed = RenamedMembers::between(&old.names(), &new.names());
        let mut numbers = NameNumbers::default();
        // In keys, members have their names in the old file, so only the members of the new file are renamed.
        let nothing_renamed = RenamedMembers::default();
        numbers.set_keys(&mut old.objects, &nothing_renamed);
        numbers.set_keys(&mut new.objects, &renamed);
        new.rename_as_in_old(&renamed);
        let old_count = old.objects.len();
        let (mut objects, mut diff) = (Vec::new(), FileDiff::default());
        for side in [&mut old, &mut new] {
            objects.append(&mut side.objects);
            diff.seen.extend(std::mem::take(&mut side.seen));
            diff.problems.extend(side.problems.drain(..).map(|(_, error)| error));
        }
        let unpaired = Unpaired::new(old_count, objects.len());
        let (equal_members, in_equal_members) = (HashSet::new(), Vec::new());
        Self { job, digester, old, new, renamed, objects, unpaired, equal_members, in_equal_members, diff }
    }

    /// Returns the numbers of the place and the entry ID of a code object, or `None` if the index is out of range. An
    /// old and a new code object with the same numbers can be two versions of one code object.
    fn place_and_id(&self, index: usize) -> Option<(usize, usize)> {
        let object = self.objects.get(index)?;
        Some((object.key.place_number, object.key.id_number))
    }

    /// Counts pairs of code objects as equal, and marks them as paired.
    fn note_equal(&mut self, pairs: &[IndexPair]) {
        self.diff.equal.all += pairs.len();
        for pair in pairs {
            self.unpaired.mark_pair(*pair);
            // The kernels of equal code objects are not needed.
            for index in [pair.0, pair.1] {
                if let Some(object) = self.objects.get_mut(index) {
                    drop(object.take_kernels());
                }
            }
        }
    }

    /// Counts the code objects in the `equal_members` as equal. These members of zip files have the same checksum in
    /// both files, and were searched in the old file only.
    pub(super) fn note_equal_members(&mut self, equal_members: HashSet<Vec<u8>>) {
        self.equal_members = equal_members;
        for (index, object) in self.objects.iter().enumerate() {
            if !self.unpaired.is_new(index) && self.is_in_equal_member(&object.code_object.bundle.place) {
                self.in_equal_members.push(index);
            }
        }
        for index in &self.in_equal_members {
            self.unpaired.mark_paired(*index);
        }
        self.diff.equal.all = self.in_equal_members.len();
        self.diff.equal.by_checksum = self.in_equal_members.len();
    }

    /// Returns whether a place is in one of the `equal_members`, which were searched in the old file only.
    fn is_in_equal_member(&self, place: &Place) -> bool {
        match top_member(place) {
            Some(member) => self.equal_members.contains(member),
            None => false,
        }
    }

    /// Pairs compressed bundles that record the same hash and inflated size: first those at the same place, then the
    /// others. Code objects of such bundles count as equal without being inflated.
    pub(super) fn pair_by_recorded_hash(&mut self) {
        let bundles = bundle_ranges(&self.objects);
        let old_count = bundles.partition_point(|bundle| !self.unpaired.is_new(bundle.start));
        let mut unpaired = Unpaired::new(old_count, bundles.len());
        let mut pairs = unpaired.pair_equal_keys(|index| self.place_and_hash(bundles.get(index)?));
        pairs.extend(unpaired.pair_equal_keys(|index| {
            let (_, hash, inflated) = self.place_and_hash(bundles.get(index)?)?;
            Some((hash, inflated))
        }));
        let mut equal = Vec::new();
        for (old, new) in pairs {
            let (Some(old), Some(new)) = (bundles.get(old), bundles.get(new)) else { continue };
            for (old, new) in old.clone().zip(new.clone()) {
                // A recorded hash may be wrong, but IDs and sizes are known without it, so at least these must be
                // equal.
                if self.id_and_size(old) == self.id_and_size(new) {
                    equal.push((old, new));
                }
            }
        }
        self.diff.equal.by_hash = equal.len();
        self.note_equal(&equal);
    }

    /// Returns the number of the place of a bundle, and the hash and the inflated size that the bundle records. Returns
    /// `None` if the bundle is not compressed, or records no hash.
    fn place_and_hash(&self, bundle: &Range<usize>) -> Option<(usize, u64, u64)> {
        let first = self.objects.get(bundle.start)?;
        let recorded = first.code_object.bundle.compressed?;
        match recorded.hash? {
            // Tools write zero for no hash.
            0 => None,
            hash => Some((first.key.place_number, hash, recorded.inflated)),
        }
    }

    /// Returns the number of the entry ID of a code object, and its inflated size if it is known.
    fn id_and_size(&self, index: usize) -> Option<(usize, Option<u64>)> {
        let object = self.objects.get(index)?;
        Some((object.key.id_number, object.size()))
    }

    /// Pairs code objects of the same place, entry ID and size whose stored bytes are equal.
    ///
    /// Unless hashes are trusted, compressed code objects are compared later, when they are inflated: two equal streams
    /// can both be broken. Code objects that cannot be inflated are compared only here.
    pub(super) fn pair_by_stored_bytes(&mut self) -> Result<()> {
        let pairs = self.unpaired.find_equal_keys(|index| {
            let object = self.objects.get(index)?;
            let is_inflated_later = object.packed_form().is_some() && object.is_readable() && !self.job.trust_hashes;
            if is_inflated_later {
                return None;
            }
            let (len, digest) = match object.stored {
                StoredBytes::InFile(slice) => (slice.len(), None),
                StoredBytes::Digest(digest) => (object.code_object.stored(), Some(digest)),
                StoredBytes::NotOneRange => return None,
            };
            Some((self.place_and_id(index), object.code_object.size, object.packed_form(), len, digest))
        });
        let objects = &self.objects;
        let compared = parallel::in_order(
            pairs,
            |pair| Ok((pair, have_equal_bytes(objects, pair)?)),
            // Each result has the same weight.
            |_| 1,
            |compared| compared.collect::<Result<Vec<_>>>(),
        )?;
        let mut equal = Vec::new();
        for (pair, is_equal) in compared {
            if is_equal {
                equal.push(pair);
            }
        }
        self.note_equal(&equal);
        Ok(())
    }

    /// Pairs code objects that have the same digest: first at the same place with the same entry ID, then for the same
    /// GPU anywhere, because code may have moved to another library.
    pub(super) fn pair_by_digest(&mut self) -> Result<()> {
        self.read_digests()?;
        let objects = &self.objects;
        let mut pairs = self.unpaired.pair_equal_keys(|index| {
            let object = objects.get(index)?;
            Some((object.key.place_number, object.key.id_number, object.digest()?))
        });
        pairs.extend(self.unpaired.pair_equal_keys(|index| {
            let object = objects.get(index)?;
            Some((&object.key.gpu, object.digest()?))
        }));
        self.note_equal(&pairs);
        Ok(())
    }

    /// Reads the digests of all code objects that may have an equal one, and notes the results.
    fn read_digests(&mut self) -> Result<()> {
        let wanted = self.objects_to_read();
        let (old, new) = self.unpaired.split(&wanted);
        let mut contents = Vec::new();
        for (side, wanted) in [(&self.old, old), (&self.new, new)] {
            let mut room = ListRoom::default();
            side.read_code_objects(
                self.job,
                (&self.objects, wanted),
                |code_object, code| read_code(self.digester, code_object, code),
                ReadCode::weight,
                &mut |index, mut read| {
                    if let Ok(read) = &mut read {
                        // Kernels without room are read again if their code object turns out to differ.
                        read.limit_kernels(&mut room);
                    }
                    contents.push((index, read));
                },
            )?;
        }
        // The code objects are borrowed while they are read.
        for (index, read) in contents {
            self.note_read(index, read);
        }
        Ok(())
    }

    /// Returns the indices of the unpaired code objects that were not read yet and may equal one of the other file.
    /// Unless hashes are trusted, adds all compressed code objects, because reading them checks their hashes. Leaves
    /// out code objects that cannot be read.
    fn objects_to_read(&self) -> Vec<usize> {
        let (mut old_sizes, mut new_sizes) = (GpuSizes::default(), GpuSizes::default());
        for index in self.unpaired.indices() {
            let Some(object) = self.objects.get(index) else { continue };
            let sizes = if self.unpaired.is_new(index) { &mut new_sizes } else { &mut old_sizes };
            sizes.add(object);
        }
        let mut wanted = Vec::new();
        for index in self.unpaired.indices() {
            let Some(object) = self.objects.get(index) else { continue };
            if !matches!(object.read, ReadState::NotYet) || !object.is_readable() {
                continue;
            }
            let sizes_in_other = if self.unpaired.is_new(index) { &old_sizes } else { &new_sizes };
            // The hash of a compressed bundle is checked when it is inflated. The code objects in such a bundle have no
            // range in the file. A few others have none either (`StoredBytes::NotOneRange`), and are read too.
            let may_be_compressed = object.packed_form().is_some() || matches!(object.stored, StoredBytes::NotOneRange);
            if sizes_in_other.may_have_equal(object) || (may_be_compressed && !self.job.trust_hashes) {
                wanted.push(index);
            }
        }
        wanted
    }

    /// Notes the result of reading a code object: its digest, or a problem of the file.
    fn note_read(&mut self, index: usize, read: Result<ReadCode>) {
        match (read, self.objects.get_mut(index)) {
            (Ok(read), Some(object)) => object.read = ReadState::Done(read),
            (Err(error), _) => self.diff.problems.push(error),
            (Ok(_), None) => {}
        }
    }

    /// Reads the kernels of the code objects that differ, for GPUs that both files have code for. Takes kernels that
    /// were read already from their code objects. Errors of reading are problems of the file.
    pub(super) fn read_kernels(&mut self) -> Result<Kernels> {
        let differing = self.differing_objects();
        let (old, new) = self.unpaired.split(&differing);
        let (mut all, mut problems) = (Kernels::new(), Vec::new());
        for (side, differing) in [(&self.old, old), (&self.new, new)] {
            let mut listed = SideKernels::default();
            let mut wanted = Vec::new();
            for index in differing {
                let Some(object) = self.objects.get_mut(*index) else { continue };
                match (object.take_kernels(), &object.read) {
                    (Some(kernels), _) => listed.add(*index, kernels),
                    // The search failed to read the code object, and reported that as a problem.
                    (None, ReadState::DuringSearch) => {}
                    (None, _) => wanted.push(*index),
                }
            }
            side.read_code_objects(
                self.job,
                (&self.objects, &wanted),
                |code_object, code| locate_kernel_error(code_object, kernels::list(code.bytes())),
                Vec::len,
                &mut |index, kernels| listed.add(index, kernels),
            )?;
            all.extend(listed.kernels);
            problems.append(&mut listed.problems);
            if let Some(input) = side.input {
                problems.extend(listed.room.problem(input));
            }
        }
        self.diff.problems.extend(problems);
        Ok(all)
    }

    /// Returns the indices of the readable code objects that differ, for GPUs that both files have code for.
    fn differing_objects(&self) -> Vec<usize> {
        let (mut old_gpus, mut new_gpus) = (HashSet::new(), HashSet::new());
        for (index, object) in self.objects.iter().enumerate() {
            let gpus = if self.unpaired.is_new(index) { &mut new_gpus } else { &mut old_gpus };
            gpus.insert(&object.key.gpu);
        }
        // Equal members were searched in the old file only, but the new file has their code objects too.
        for index in &self.in_equal_members {
            if let Some(object) = self.objects.get(*index) {
                new_gpus.insert(&object.key.gpu);
            }
        }
        let mut differing = Vec::new();
        for index in self.unpaired.indices() {
            let Some(object) = self.objects.get(index) else { continue };
            let other_gpus = if self.unpaired.is_new(index) { &old_gpus } else { &new_gpus };
            if other_gpus.contains(&object.key.gpu) && object.is_readable() {
                differing.push(index);
            }
        }
        differing
    }

    /// Pairs the code objects that differ, and their `kernels`, and returns all lists and counts. Kernels come last,
    /// because they are paired first within pairs of code objects.
    pub(super) fn list_differences(mut self, kernels: Kernels) -> FileDiff {
        self.count_by_gpu();
        self.compare_coverage();
        let (changed, unpaired) = self.pair_changed(&kernels);
        self.list_code_objects(&changed, &unpaired);
        self.list_kernels(&changed, kernels);
        // Code objects may be read twice, for the digest and for the kernels, with the same problem each time.
        let mut known = HashSet::new();
        self.diff.problems.retain(|problem| known.insert(problem.to_string()));
        self.diff
    }

    /// Counts the code objects of both files by GPU.
    fn count_by_gpu(&mut self) {
        for (index, object) in self.objects.iter().enumerate() {
            let numbers = self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default();
            let sizes = if self.unpaired.is_new(index) { &mut numbers.new } else { &mut numbers.old };
            *sizes += object.code_object.sizes();
        }
        // The new file has these code objects too, but only the old file was searched for them.
        for index in &self.in_equal_members {
            if let Some(object) = self.objects.get(*index) {
                self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default().new += object.code_object.sizes();
            }
        }
    }

    /// Notes which GPUs the libraries of both files serve, and which GPUs fewer bundles serve than before.
    fn compare_coverage(&mut self) {
        let [old_libraries, new_libraries] = self.libraries();
        for (_, coverage) in old_libraries.values() {
            self.diff.old_coverage.merge(coverage);
        }
        for (_, coverage) in new_libraries.values() {
            self.diff.new_coverage.merge(coverage);
        }
        // A file that serves GPUs together with others of its directory is compared with these, unless it is a library
        // of its own in the other version.
        let in_directory = [&self.old, &self.new].map(|side| side.file_in_directory().cloned());
        let is_in_both = self.old.input.is_some() && self.new.input.is_some();
        if !is_in_both || in_directory.iter().all(Option::is_some) {
            self.diff.in_directory = in_directory;
        }
        let is_compared_with_others = self.diff.in_directory.iter().any(Option::is_some);
        // A file without a counterpart is removed as a whole, so no library of it lost a GPU.
        if self.new.input.is_some() && !is_compared_with_others {
            self.list_losses(&old_libraries, &new_libraries);
        }
    }

    /// Lists the GPUs that fewer bundles of a library serve than before. A library with too many bundles to compare is
    /// a problem of the file.
    fn list_losses(&mut self, old_libraries: &Libraries, new_libraries: &Libraries) {
        let gone_from_file = self.gone_gpus();
        for (library, (place, old)) in old_libraries {
            let lost = match new_libraries.get(library) {
                Some((_, new)) => lost_gpus(old, new),
                None => self.lost_with_library(place, old, gone_from_file.as_ref()),
            };
            let Some(lost) = lost else {
                self.diff.problems.push(too_many_bundles(place));
                continue;
            };
            for LostGpu { device, old, new } in lost {
                let gpu: Arc<str> = device.name().into();
                // GPUs whose code is not selected are not reported.
                if self.diff.gpus.contains_key(&gpu) {
                    self.diff.losses.push(LostCoverage { gpu, member: place.member(), old, new });
                }
            }
        }
        self.diff.losses.sort_by(|a, b| (&a.member, &a.gpu).cmp(&(&b.member, &b.gpu)));
    }

    /// Returns the libraries of the old and of the new file. Members that were searched in the old file only are in the
    /// new file too. Files that serve GPUs together in one version are one library in the other version too.
    fn libraries(&self) -> [Libraries; 2] {
        let name_of = |unit: &Unit| members_of(&unit.at.place().library());
        let old: Vec<_> = self.old.units.iter().map(|unit| (name_of(unit), unit)).collect();
        let in_both = old.iter().filter(|(_, unit)| self.is_in_equal_member(unit.at.place())).cloned();
        let new = self.new.units.iter().map(|unit| (self.renamed.old_library_name(name_of(unit)), unit));
        let new: Vec<_> = new.chain(in_both).collect();
        let mut directories: HashMap<LibraryName, LibraryName> = HashMap::new();
        for (name, unit) in old.iter().chain(&new) {
            if let Some(directory) = &unit.directory {
                directories.insert(name.clone(), members_of(directory));
            }
        }
        [old, new].map(|units| {
            let mut by_name: HashMap<LibraryName, Vec<&Unit>> = HashMap::new();
            for (name, unit) in units {
                by_name.entry(directories.get(&name).cloned().unwrap_or(name)).or_default().push(unit);
            }
            by_name.into_iter().map(|(name, units)| (name, library(units))).collect()
        })
    }

    /// Returns the GPUs that no library of the new file serves any longer, or `None` if there are too many bundles to
    /// compare.
    fn gone_gpus(&self) -> Option<HashSet<String>> {
        let lost = lost_gpus(&self.diff.old_coverage, &self.diff.new_coverage)?;
        let mut gone = HashSet::new();
        for LostGpu { device, new, .. } in lost {
            if new.serving == 0 {
                gone.insert(device.name().to_owned());
            }
        }
        Some(gone)
    }

    /// Returns the GPUs that are lost with an old library, if the new file has no code under its name. If the new file
    /// still has the library, without code, these are all GPUs of `old`. Otherwise these are only the GPUs in
    /// `gone_from_file`. Returns `None` if there are too many bundles to compare.
    fn lost_with_library(
        &self,
        place: &Place,
        old: &Coverage,
        gone_from_file: Option<&HashSet<String>>,
    ) -> Option<Vec<LostGpu>> {
        let no_coverage = Coverage::default();
        if let Some(member) = top_member(place)
            && self.new.members.contains(unversioned(member))
        {
            return lost_gpus(old, &no_coverage);
        }
        // The library may have another name now, so a GPU is lost only if no library serves it.
        let gone_from_file = gone_from_file?;
        let mut lost = lost_gpus(old, &no_coverage)?;
        lost.retain(|lost| gone_from_file.contains(lost.device.name()));
        Some(lost)
    }
}

/// The libraries of a file, by name: where each is, and the GPUs that its bundles serve.
type Libraries = HashMap<LibraryName, (Place, Coverage)>;

/// Returns the place of the library with these units, and the GPUs that its bundles serve. Several libraries have one
/// name, and are one here, if only their versions differ.
fn library(units: Vec<&Unit>) -> (Place, Coverage) {
    let mut coverage = Coverage::default();
    // The code of the units that serve GPUs together with others of their directory, and the directory of the first
    // one.
    let (mut files, mut directory) = (FileSet::default(), None);
    let (in_directory, others): (Vec<&Unit>, Vec<&Unit>) = units.into_iter().partition(|unit| unit.directory.is_some());
    for unit in &in_directory {
        files.add(&unit.code);
        directory = directory.or(unit.directory.as_deref());
    }
    if let Some(directory) = directory {
        coverage.add_files(directory, &files);
    }
    let mut place = None;
    for (library, units) in by_library(others) {
        coverage.merge(&Coverage::of_library(units));
        place.get_or_insert(library);
    }
    // A file that is alone in its directory is the library. There is at least one unit, so there is some place.
    let place = match (in_directory.as_slice(), place, directory) {
        ([file], None, _) => file.at.place().clone(),
        ([], Some(place), _) => place,
        (_, place, directory) => directory.cloned().or(place).unwrap_or_else(|| Place::of_file("".as_ref())),
    };
    (place, coverage)
}

/// Returns whether two code objects that were paired by [`pair_by_stored_bytes`](FileComparison::pair_by_stored_bytes)
/// have equal bytes. Bytes that are not in the file are known to be equal, because the pair has one digest.
fn have_equal_bytes(objects: &[ComparedObject<'_>], (old, new): IndexPair) -> Result<bool> {
    // A pair has the indices of code objects, so both are there.
    let (Some(old), Some(new)) = (objects.get(old), objects.get(new)) else { return Ok(true) };
    match (old.stored, new.stored) {
        (StoredBytes::InFile(old), StoredBytes::InFile(new)) => are_equal(old, new).with_path(old.path()),
        _ => Ok(true),
    }
}

/// Computes the digest of a code object. Reads the kernels of a compressed code object too, because reading them later
/// would inflate it again.
fn read_code(digester: &Digester, code_object: &CodeObject, code: Slice<'_>) -> Result<ReadCode> {
    if code_object.packed.is_some() || code_object.bundle.compressed.is_some() {
        ReadCode::with_kernels(digester, code_object, code)
    } else {
        ReadCode::without_kernels(digester, code)
    }
}

/// The sizes of the unpaired code objects of one file, by GPU. A size is `None` if it is known only when the code
/// object is inflated.
#[derive(Default)]
struct GpuSizes<'a>(HashMap<&'a str, HashSet<Option<u64>>>);

impl<'a> GpuSizes<'a> {
    fn add(&mut self, object: &'a ComparedObject<'_>) {
        self.0.entry(&object.key.gpu).or_default().insert(object.size());
    }

    /// Returns whether a code object here may equal `other`, a code object of the other file. Equal code objects are
    /// for one GPU and have one size, as far as their sizes are known.
    fn may_have_equal(&self, other: &ComparedObject<'_>) -> bool {
        let Some(sizes) = self.0.get(&*other.key.gpu) else { return false };
        match other.size() {
            Some(size) => sizes.contains(&Some(size)) || sizes.contains(&None),
            None => true,
        }
    }
}

/// The kernels of the differing code objects of one file, within the limits of a list.
#[derive(Default)]
struct SideKernels {
    room: ListRoom,
    kernels: Kernels,
    problems: Vec<Error>,
}

impl SideKernels {
    /// Adds the kernels of a code object, or the error of reading them. Leaves the kernels out if there is no room,
    /// which [`ListRoom::problem`] reports.
    fn add(&mut self, index: usize, kernels: Result<Vec<Kernel>>) {
        match kernels {
            Ok(mut kernels) => {
                if self.room.reserve_for(&mut kernels) {
                    self.kernels.insert(index, kernels);
                }
            }
            Err(error) => self.problems.push(error),
        }
    }
}

fn too_many_bundles(place: &Place) -> Error {
    let malformed = Malformed::other(ErrorKind::Limit, None, TOO_MANY_BUNDLES.to_owned());
    Error::malformed(place.file(), malformed).at(place)
}

/// Returns the range of indices of the code objects of each bundle. Code objects of one bundle follow each other.
fn bundle_ranges(objects: &[ComparedObject<'_>]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0_usize;
    for bundle in objects.chunk_by(ComparedObject::is_in_same_bundle) {
        let end = start + bundle.len();
        ranges.push(start..end);
        start = end;
    }
    ranges
}

impl FileComparison<'_> {
    /// Pairs code objects of the same place and entry ID that differ. Code objects that share most kernels are paired
    /// first, then the rest in the order of the files. Returns the index of the new code object by that of the old one,
    /// and the code objects that remain unpaired.
    fn pair_changed(&self, kernels: &Kernels) -> (HashMap<usize, usize>, Unpaired) {
        let mut unpaired = self.unpaired.clone();
        let mut pairs = unpaired.pair_nearest(|index| (self.place_and_id(index), kernel_names(kernels, index)));
        pairs.extend(unpaired.pair_equal_keys(|index| self.place_and_id(index)));
        (pairs.into_iter().collect(), unpaired)
    }

    /// Lists the code objects that differ: changed and removed ones, then added ones. Counts them by GPU. `changed` has
    /// the index of the new code object by that of the old one. `self.unpaired` still has the changed ones,
    /// so its old indices are those of changed and removed code objects. The new indices in `unpaired` are the added
    /// ones.
    fn list_code_objects(&mut self, changed: &HashMap<usize, usize>, unpaired: &Unpaired) {
        let mut pairs = Vec::new();
        for old in self.unpaired.old_indices() {
            pairs.push((Some(old), changed.get(&old).copied()));
        }
        for new in unpaired.new_indices() {
            pairs.push((None, Some(new)));
        }
        for (old, new) in pairs {
            let [old, new] = [old, new].map(|index| self.objects.get(index?));
            let Some(either) = old.or(new) else { continue };
            let gpu = Arc::clone(&either.key.gpu);
            let [old, new] = [old, new].map(|object| Some(Arc::clone(&object?.code_object)));
            let diff = CodeObjectDiff { gpu, old, new };
            let numbers = self.diff.gpus.entry(Arc::clone(&diff.gpu)).or_default();
            match diff.change() {
                DiffChange::Changed => numbers.changed += 1,
                DiffChange::Added => numbers.added += 1,
                DiffChange::Removed => numbers.removed += 1,
            }
            self.diff.code_objects.push(diff);
        }
    }

    /// Lists the kernels that differ, of code objects that differ. Counts the equal kernels of these code objects.
    fn list_kernels(&mut self, changed: &HashMap<usize, usize>, mut kernels: Kernels) {
        // If the kernels of one code object of a pair could not be read, those of its counterpart would seem added or
        // removed.
        for (old, new) in changed {
            if !kernels.contains_key(old) || !kernels.contains_key(new) {
                kernels.remove(old);
                kernels.remove(new);
            }
        }
        let kernels = self.compared_kernels(changed, kernels);
        let old_count = kernels.partition_point(|kernel| !kernel.is_new);
        let mut unpaired = Unpaired::new(old_count, kernels.len());
        let (mut same, mut diffs) = (0, Vec::new());
        for (old, new) in pair_kernels(&mut unpaired, &kernels) {
            let (Some(old), Some(new)) = (kernels.get(old), kernels.get(new)) else { continue };
            if old.kernel == new.kernel {
                same += 1;
            } else {
                diffs.push(new.diff(Some(&old.kernel), Some(&new.kernel)));
            }
        }
        for old in unpaired.old_indices().filter_map(|index| kernels.get(index)) {
            diffs.push(old.diff(Some(&old.kernel), None));
        }
        for new in unpaired.new_indices().filter_map(|index| kernels.get(index)) {
            diffs.push(new.diff(None, Some(&new.kernel)));
        }
        self.diff.same_kernels = same;
        self.diff.kernels = diffs;
    }

    /// Returns all kernels to compare, each with its code object, in the order of the code objects: the old file first.
    fn compared_kernels(&self, changed: &HashMap<usize, usize>, kernels: Kernels) -> Vec<ComparedKernel<'_>> {
        let mut by_object: Vec<(usize, Vec<Kernel>)> = kernels.into_iter().collect();
        by_object.sort_unstable_by_key(|(index, _)| *index);
        let mut compared = Vec::new();
        for (index, kernels) in by_object {
            let Some(object) = self.objects.get(index) else { continue };
            let is_new = self.unpaired.is_new(index);
            let new_object = if is_new { Some(index) } else { changed.get(&index).copied() };
            for kernel in kernels {
                compared.push(ComparedKernel {
                    code_object: &object.code_object,
                    key: &object.key,
                    is_new,
                    new_object,
                    kernel,
                });
            }
        }
        compared
    }
}

fn kernel_names(kernels: &Kernels, index: usize) -> HashSet<Arc<[u8]>> {
    let kernels = kernels.get(&index).map(Vec::as_slice).unwrap_or_default();
    kernels.iter().map(|kernel| Arc::clone(&kernel.name)).collect()
}

/// A kernel of a code object that differs.
struct ComparedKernel<'a> {
    code_object: &'a Arc<CodeObject>,
    /// The names of the code object.
    key: &'a NameKey,
    is_new: bool,
    /// The index of the new code object in the pair of the kernel's code object. `None` for an old code object without
    /// a counterpart.
    new_object: Option<usize>,
    kernel: Kernel,
}

impl ComparedKernel<'_> {
    /// Returns the difference of an old and a new kernel. `self` is the new one or, if it was removed, the old one.
    fn diff(&self, old: Option<&Kernel>, new: Option<&Kernel>) -> KernelDiff {
        KernelDiff {
            gpu: Arc::clone(&self.key.gpu),
            code_object: Arc::clone(self.code_object),
            name: Arc::clone(&self.kernel.name),
            old: old.cloned(),
            new: new.cloned(),
        }
    }
}

/// Pairs kernels with the same name: first within pairs of code objects, then within libraries, then within all code
/// for a GPU. Several kernels of the same name are paired in order.
fn pair_kernels(unpaired: &mut Unpaired, kernels: &[ComparedKernel<'_>]) -> Vec<IndexPair> {
    let mut pairs = unpaired.pair_equal_keys(|index| {
        let ComparedKernel { new_object, kernel, .. } = kernels.get(index)?;
        Some(((*new_object)?, &kernel.name))
    });
    pairs.extend(unpaired.pair_equal_keys(|index| {
        let ComparedKernel { key, kernel, .. } = kernels.get(index)?;
        Some((key.library_number, &key.gpu, &kernel.name))
    }));
    pairs.extend(unpaired.pair_equal_keys(|index| {
        let ComparedKernel { key, kernel, .. } = kernels.get(index)?;
        Some((&key.gpu, &kernel.name))
    }));
    pairs
}
