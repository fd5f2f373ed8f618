//! Compares the device code of two files.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod pairs;
mod side;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;
use std::sync::Arc;

use super::digest::{Digest, Digester, are_equal};
use super::kernels::{ListRoom, kernels_of};
use super::unmatched::Matches;
use crate::code::kernels::{self, Kernel};
use crate::container::Limits;
use crate::container::magic::Magic;
use crate::container::zip::{self, ZipContent, ZipMember};
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::io::input::{self, Input, Slice};
use crate::parallel;
use crate::runtime::{Coverage, Device, Served};
use crate::scan::{CodeObject, Follow, Format, Place, Selection, Sizes, Step, top_member};
use pairs::{IndexPair, Left};
use side::{Object, Side, StoredBytes, digest_of};

/// Compares the device code of two files, of any format: which code objects differ, their sizes, and the registers and
/// memory of their kernels.
///
/// Code objects are compared where they are. Checksums of zip files and hashes of compressed bundles are checked; with
/// `trust_hashes`, they decide instead, and only what may be equal to another one is inflated. Only the kernels of code
/// objects that differ are read. Bytes are compared, and bundles of the files inflated, on all processors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Diff {
    /// The code objects that are compared.
    pub selection: Selection,
    /// How the kpack archives of split libraries are found; none if they are not searched.
    pub follow: Option<Arc<Follow>>,
    /// Limits on the inflated size of compressed containers.
    pub limits: Limits,
    /// Whether all bytes are searched, as by [`Scan::deep`](crate::scan::Scan::deep).
    pub deep: bool,
    /// Whether compressed bundles that record the same hash and size, and members of zip files with the same checksum and
    /// size, are equal without being read. This is fast, and wrong of broken files.
    pub trust_hashes: bool,
}

/// The differences of two files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FileDiff {
    /// The code objects for each GPU, by the [name](CodeObject::target) of the GPU.
    pub gpus: BTreeMap<Arc<str>, GpuDiff>,
    /// The numbers of code objects that are equal.
    pub equal: Equal,
    /// The code objects that differ: changed and removed ones in the order of the old file, then added ones in that of
    /// the new file.
    pub code_objects: Vec<CodeObjectDiff>,
    /// The kernels in these that differ in a number, or are in one of them only; none for GPUs that only one of the
    /// files has code for.
    pub kernels: Vec<KernelDiff>,
    /// The number of other kernels in code objects that differ.
    pub same_kernels: usize,
    /// GPUs that fewer bundles of a library serve.
    pub losses: Vec<Loss>,
    /// The GPUs that the bundles of the old file serve, whether or not their code is selected.
    pub old_coverage: Coverage,
    /// The same for the new file.
    pub new_coverage: Coverage,
    /// Which parts of the selection have matched in either file.
    pub matches: Matches,
    /// The parts of the files that could not be read.
    pub problems: Vec<Error>,
}

/// The numbers of code objects that are equal in both files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Equal {
    /// All of them.
    pub all: usize,
    /// Those in compressed bundles that were not inflated, because they record the same hash and size; none without
    /// [`trust_hashes`](Diff::trust_hashes).
    pub by_hash: usize,
    /// Those in members of zip files that were read once, because both files record the same checksum and size; none
    /// without [`trust_hashes`](Diff::trust_hashes).
    pub by_checksum: usize,
}

/// The code objects of one GPU in two files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GpuDiff {
    /// The number of code objects that are in both files, with different bytes.
    pub changed: usize,
    /// The number of them that are only in the new file.
    pub added: usize,
    /// The number of them that are only in the old file.
    pub removed: usize,
    /// Those of the old file.
    pub old: Sizes,
    /// Those of the new file.
    pub new: Sizes,
}

impl AddAssign<&Self> for GpuDiff {
    fn add_assign(&mut self, more: &Self) {
        self.changed += more.changed;
        self.added += more.added;
        self.removed += more.removed;
        self.old += more.old;
        self.new += more.new;
    }
}

/// How something differs between two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is in both files.
    Changed,
    /// It is only in the new file.
    Added,
    /// It is only in the old file.
    Removed,
}

impl Change {
    fn of<T>(old: Option<&T>, new: Option<&T>) -> Self {
        match (old, new) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            _ => Self::Changed,
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

/// A code object that differs. With the feature `serde`, it is serialized as `docs/diff.schema.json` describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CodeObjectDiff {
    /// The name of its GPU.
    pub gpu: Arc<str>,
    /// That of the old file; none if it was added.
    pub old: Option<Arc<CodeObject>>,
    /// That of the new file; none if it was removed.
    pub new: Option<Arc<CodeObject>>,
}

impl CodeObjectDiff {
    /// How it differs.
    pub fn change(&self) -> Change {
        Change::of(self.old.as_ref(), self.new.as_ref())
    }
}

/// A kernel that differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelDiff {
    /// The name of its GPU.
    pub gpu: Arc<str>,
    /// Its code object: in the new file, unless the kernel was removed.
    pub code_object: Arc<CodeObject>,
    /// The name, which may be mangled and may be any bytes.
    pub name: Arc<[u8]>,
    /// The kernel in the old file; none if it was added.
    pub old: Option<Kernel>,
    /// The kernel in the new file; none if it was removed.
    pub new: Option<Kernel>,
}

impl KernelDiff {
    /// How it differs.
    pub fn change(&self) -> Change {
        Change::of(self.old.as_ref(), self.new.as_ref())
    }

    /// Whether the new kernel spills more vector registers or more scalar registers than the old one. An added kernel
    /// spills more if it spills.
    pub fn spills_more(&self) -> bool {
        let spills = |kernel: &Kernel| [kernel.vgpr_spills, kernel.sgpr_spills].map(Option::unwrap_or_default);
        let old = self.old.as_ref().map_or([0; 2], spills);
        self.new.as_ref().is_some_and(|new| spills(new).iter().zip(old).any(|(new, old)| *new > old))
    }
}

/// A GPU that fewer bundles of a library serve: all bundles did, or none does any longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// The name of the GPU.
    pub gpu: Arc<str>,
    /// The members of the file that lead to the library; none if it is the file.
    pub member: Option<String>,
    /// In how many bundles of the old library the GPU is served.
    pub old: Served,
    /// The same for the new library.
    pub new: Served,
}

/// The numbers that stand for the names of code objects of both files.
#[derive(Default)]
struct NameNumbers {
    known: HashMap<Vec<u8>, usize>,
}

/// The names of a code object, as numbers.
#[derive(Clone, Debug, Default)]
struct NameKey {
    gpu: Arc<str>,
    /// The place, in which versions of libraries do not count.
    place: usize,
    /// The library: the members of the place.
    library: usize,
    id: usize,
}

impl NameNumbers {
    fn number(&mut self, name: Vec<u8>) -> usize {
        let next = self.known.len();
        *self.known.entry(name).or_insert(next)
    }

    /// Sets the keys of the code objects of a file.
    fn set_keys(&mut self, objects: &mut [Object<'_>], gpus: &mut HashSet<Arc<str>>) {
        let mut last: Option<(&Place, usize, usize)> = None;
        for Object { code_object, key, .. } in objects {
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
fn library_name(place: &Place, format: Format) -> Vec<u8> {
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

/// A path without the version that follows `.so`, in which two builds of a library may differ.
pub fn unversioned(path: &[u8]) -> &[u8] {
    const EXTENSION: &[u8] = b".so";
    let at = memchr::memmem::rfind(path, b".so.").and_then(|at| at.checked_add(EXTENSION.len()));
    let Some((start, version)) = at.and_then(|at| path.split_at_checked(at)) else { return path };
    if version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') { start } else { path }
}

/// The members of two zip files for which both record the same size and checksum.
fn same_members(old: &Input, new: &Input) -> HashSet<Vec<u8>> {
    if ![old, new].iter().all(|input| Magic::identify(input.bytes()) == Magic::Zip) {
        return HashSet::new();
    }
    let [(of_old, _), (of_new, _)] = [old, new].map(|input| zip::members(input.as_slice()));
    let (of_old, of_new) = (by_name(&of_old), by_name(&of_new));
    let is_same = |(name, old): (&&[u8], &Option<&ZipContent<'_>>)| {
        let is_like = |new: &ZipContent<'_>| old.is_some_and(|old| old.is_like(new));
        of_new.get(name).copied().flatten().is_some_and(is_like).then(|| name.to_vec())
    };
    of_old.iter().filter_map(is_same).collect()
}

/// The readable members of a zip file; none for a name that several have.
fn by_name<'m, 'a>(members: &'m [ZipMember<'a>]) -> HashMap<&'m [u8], Option<&'m ZipContent<'a>>> {
    let mut by_name = HashMap::new();
    for member in members {
        let content = member.content.as_ref().ok();
        by_name.entry(&member.name[..]).and_modify(|known| *known = None).or_insert(content);
    }
    by_name
}

impl Diff {
    /// Compares an old file with a new one; none of either if the other has no counterpart.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if a file cannot be read, or has changed. What is broken in it is a problem in the result.
    pub fn run(&self, old: Option<&Input>, new: Option<&Input>) -> Result<FileDiff> {
        input::vouch_for(old.into_iter().chain(new), self.compare(old, new))
    }

    fn compare(&self, old: Option<&Input>, new: Option<&Input>) -> Result<FileDiff> {
        let digester = Digester::default();
        let same = match (old, new) {
            (Some(old), Some(new)) if self.trust_hashes => same_members(old, new),
            _ => HashSet::new(),
        };
        // What is in both files is searched in the old one only.
        let is_other = |name: &[u8]| !same.contains(name);
        let (old_side, new_side) = std::thread::scope(|scope| {
            let search = || Side::search(self, &digester, new, &is_other);
            let thread = std::thread::Builder::new().spawn_scoped(scope, search);
            let old = Side::search(self, &digester, old, &|_| true);
            let new = match thread {
                Ok(thread) => thread.join().unwrap_or(Err(Error::internal("the search ended early"))),
                // The system cannot start a thread.
                Err(_) => search(),
            };
            Ok::<_, Error>((old?, new?))
        })?;
        let mut comparison = FileComparison::new(self, &digester, old_side, new_side);
        if self.trust_hashes {
            comparison.take_members(same);
            comparison.by_recorded_hash();
        }
        comparison.stored_bytes()?;
        comparison.digests()?;
        let kernels = comparison.kernels(old, new)?;
        Ok(comparison.finish(kernels))
    }
}

/// The lengths and digests of code objects, by the index of the code object.
type Digests = HashMap<usize, (u64, Digest)>;

/// The kernels of code objects that differ, by the index of the code object.
type Kernels = [HashMap<usize, Vec<Kernel>>; 2];

struct FileComparison<'c, 'o, 'n> {
    job: &'c Diff,
    digester: &'c Digester,
    old: Side<'o>,
    new: Side<'n>,
    /// The code objects that are not known to be equal to others.
    left: Left,
    /// The members of zip files that were searched in the old file only.
    shared_members: HashSet<Vec<u8>>,
    /// The code objects of the old file that stand for equal ones of the new file, which were not searched.
    shared: Vec<usize>,
    diff: FileDiff,
}

impl<'c, 'o, 'n> FileComparison<'c, 'o, 'n> {
    fn new(job: &'c Diff, digester: &'c Digester, mut old: Side<'o>, mut new: Side<'n>) -> Self {
        let (mut names, mut gpus, mut diff) = (NameNumbers::default(), HashSet::new(), FileDiff::default());
        names.set_keys(&mut old.objects, &mut gpus);
        names.set_keys(&mut new.objects, &mut gpus);
        diff.matches.add(std::mem::take(&mut old.matches));
        diff.matches.add(std::mem::take(&mut new.matches));
        diff.problems.append(&mut old.problems);
        diff.problems.append(&mut new.problems);
        let left = Left::of(old.objects.len(), new.objects.len());
        Self { job, digester, old, new, left, shared_members: HashSet::new(), shared: Vec::new(), diff }
    }

    /// Pairs code objects that are equal.
    fn are_equal(&mut self, pairs: &[IndexPair]) {
        self.diff.equal.all += pairs.len();
        pairs.iter().for_each(|pair| self.left.pair(*pair));
    }

    /// Takes the code objects in members of zip files for equal that were searched in the old file only.
    fn take_members(&mut self, same: HashSet<Vec<u8>>) {
        let is_same = |object: &Object<'_>| object.member().is_some_and(|member| same.contains(member));
        let shared = self.old.objects.iter().enumerate().filter(|(_, object)| is_same(object));
        self.shared = shared.map(|(index, _)| index).collect();
        self.shared.iter().for_each(|index| self.left.pair((*index, usize::MAX)));
        let equal = &mut self.diff.equal;
        (equal.all, equal.by_checksum) = (self.shared.len(), self.shared.len());
        self.shared_members = same;
    }

    /// Pairs compressed bundles that record the same hash: first those at the same place.
    fn by_recorded_hash(&mut self) {
        let (old, new) = (bundles(&self.old.objects), bundles(&self.new.objects));
        let mut left = Left::of(old.len(), new.len());
        let recorded = |objects: &[Object<'_>], bundle: &std::ops::Range<usize>| {
            let recorded = objects.get(bundle.start)?.code_object.bundle.compressed?;
            // Zero may stand for no hash.
            Some((recorded.hash.filter(|hash| *hash != 0)?, recorded.inflated))
        };
        let of_old = |index: usize| recorded(&self.old.objects, old.get(index)?);
        let of_new = |index: usize| recorded(&self.new.objects, new.get(index)?);
        let place = |side: &Side<'_>, bundle: &std::ops::Range<usize>| Some(side.key(bundle.start)?.place);
        let mut pairs = left.pair_alike(
            |index| Some((of_old(index)?, place(&self.old, old.get(index)?)?)),
            |index| Some((of_new(index)?, place(&self.new, new.get(index)?)?)),
        );
        pairs.extend(left.pair_alike(of_old, of_new));
        let bundles = pairs.into_iter().filter_map(|(at, with)| Some((old.get(at)?.clone(), new.get(with)?.clone())));
        let objects: Vec<IndexPair> = bundles.flat_map(|(old, new)| old.zip(new)).collect();
        // What the headers of the bundles record is not believed against the entries.
        let objects: Vec<IndexPair> = objects.into_iter().filter(|pair| self.have_same_id_and_size(*pair)).collect();
        self.diff.equal.by_hash = objects.len();
        self.are_equal(&objects);
    }

    fn have_same_id_and_size(&self, (old, new): IndexPair) -> bool {
        let id_and_size =
            |side: &Side<'_>, index: usize| side.objects.get(index).map(|object| (object.key.id, object.size()));
        id_and_size(&self.old, old) == id_and_size(&self.new, new)
    }

    /// Compares code objects of the same place, entry ID and size as they are stored. Those that are compressed are
    /// inflated later, unless hashes are trusted: equal bytes may be broken.
    fn stored_bytes(&mut self) -> Result<()> {
        let key = |side: &Side<'_>, index: usize| {
            let object = side.objects.get(index)?;
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
        let pairs = self.left.alike(|index| key(&self.old, index), |index| key(&self.new, index));
        let slices =
            |(at, with): IndexPair| match (self.old.objects.get(at)?.stored, self.new.objects.get(with)?.stored) {
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
    /// where the other file has a code object for the GPU that may have the same size and, unless hashes are trusted, of
    /// everything that is compressed.
    fn digests(&mut self) -> Result<()> {
        let sizes = |side: &Side<'_>, left: &mut dyn Iterator<Item = usize>| {
            let objects = left.filter_map(|index| side.objects.get(index));
            objects.map(|object| (Arc::clone(&object.key.gpu), object.size())).collect::<HashSet<_>>()
        };
        let of_old = sizes(&self.old, &mut self.left.in_old());
        let of_new = sizes(&self.new, &mut self.left.in_new());
        let gpus = |sizes: &HashSet<(Arc<str>, Option<u64>)>| {
            sizes.iter().map(|(gpu, _)| Arc::clone(gpu)).collect::<HashSet<_>>()
        };
        let (gpus_of_old, gpus_of_new) = (gpus(&of_old), gpus(&of_new));
        let old = self.read_digests(&self.old, &mut self.left.in_old(), &of_new, &gpus_of_new)?;
        let new = self.read_digests(&self.new, &mut self.left.in_new(), &of_old, &gpus_of_old)?;
        let (of_old, of_new) = (&self.old, &self.new);
        let mut pairs = self.left.pair_alike(
            |index| of_old.group(index).zip(old.0.get(&index)),
            |index| of_new.group(index).zip(new.0.get(&index)),
        );
        pairs.extend(self.left.pair_alike(
            |index| of_old.key(index).map(|key| &key.gpu).zip(old.0.get(&index)),
            |index| of_new.key(index).map(|key| &key.gpu).zip(new.0.get(&index)),
        ));
        self.are_equal(&pairs);
        self.diff.problems.extend(old.1);
        self.diff.problems.extend(new.1);
        Ok(())
    }

    fn read_digests(
        &self,
        side: &Side<'_>,
        left: &mut dyn Iterator<Item = usize>,
        of_other: &HashSet<(Arc<str>, Option<u64>)>,
        gpus_of_other: &HashSet<Arc<str>>,
    ) -> Result<(Digests, Vec<Error>)> {
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
        for index in left.filter(is_read) {
            match side.objects.get(index).and_then(Object::digest) {
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
    fn kernels(&mut self, old: Option<&Input>, new: Option<&Input>) -> Result<Kernels> {
        let is_in = |side: &Side<'_>, index: &usize, others: &HashSet<Arc<str>>| {
            side.key(*index).is_some_and(|key| others.contains(&key.gpu))
        };
        let gpus =
            |side: &Side<'_>| side.objects.iter().map(|object| Arc::clone(&object.key.gpu)).collect::<HashSet<_>>();
        let shared = self.shared.iter().filter_map(|index| Some(Arc::clone(&self.old.key(*index)?.gpu)));
        let (in_old, in_new) = (gpus(&self.old), gpus(&self.new).into_iter().chain(shared).collect());
        let wanted = [
            self.left.in_old().filter(|index| is_in(&self.old, index, &in_new)).collect::<Vec<_>>(),
            self.left.in_new().filter(|index| is_in(&self.new, index, &in_old)).collect(),
        ];
        let mut kernels = Kernels::default();
        let sides = [(&self.old, old), (&self.new, new)];
        for (((side, input), wanted), kernels) in sides.into_iter().zip(wanted).zip(&mut kernels) {
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
            self.diff.problems.extend(input.and_then(|input| room.problem(input)));
        }
        Ok(kernels)
    }

    /// Pairs what differs, and counts everything.
    fn finish(mut self, kernels: Kernels) -> FileDiff {
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
        for object in &self.old.objects {
            self.diff.gpus.entry(Arc::clone(&object.key.gpu)).or_default().old += object.code_object.sizes();
        }
        let shared = self.shared.iter().filter_map(|index| self.old.objects.get(*index));
        for object in self.new.objects.iter().chain(shared) {
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
        if !self.new.is_there() {
            return;
        }
        // What the new file serves anywhere, of which each library needs a part.
        let all = self.diff.old_coverage.gpus().and_then(|gpus| {
            let devices: Vec<Device> = gpus.into_iter().map(|(device, _)| device).collect();
            let served = self.diff.new_coverage.of_each(&devices)?;
            Some(devices.into_iter().map(|device| device.name().to_owned()).zip(served).collect::<HashMap<_, _>>())
        });
        let (mut losses, nothing) = (Vec::new(), Coverage::default());
        for (library, (place, old)) in self.old.libraries.iter().filter(|(_, (place, _))| !is_shared(place)) {
            let new = self.new.libraries.get(library).map(|(_, coverage)| coverage);
            let is_bare = || top_member(place).is_some_and(|member| self.new.members.contains(unversioned(member)));
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

/// The GPUs that all bundles of the old library serve, but not all of the new one, or that are served no longer. None if
/// there are too many to compare.
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
fn bundles(objects: &[Object<'_>]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0_usize;
    let range = |bundle: &[Object<'_>]| {
        let end = start.saturating_add(bundle.len());
        std::mem::replace(&mut start, end)..end
    };
    objects.chunk_by(Object::is_beside).map(range).collect()
}

impl FileComparison<'_, '_, '_> {
    /// Pairs code objects of the same place and entry ID that differ: those that share most kernels, then the rest in
    /// the order of the files.
    fn pair_changed(&mut self, [of_old, of_new]: &Kernels) -> Vec<IndexPair> {
        let (old, new) = (&self.old, &self.new);
        let names = |kernels: &HashMap<usize, Vec<Kernel>>, index: usize| {
            let kernels = kernels.get(&index).map(Vec::as_slice).unwrap_or_default();
            kernels.iter().map(|kernel| Arc::clone(&kernel.name)).collect::<HashSet<_>>()
        };
        let mut left = self.left.clone();
        let mut pairs = left.pair_nearest(
            |index| (old.group(index), names(of_old, index)),
            |index| (new.group(index), names(of_new, index)),
        );
        pairs.extend(left.pair_alike(|index| old.group(index), |index| new.group(index)));
        pairs
    }

    fn list_code_objects(&mut self, changed: &[IndexPair]) {
        let with: HashMap<usize, usize> = changed.iter().copied().collect();
        let (old_objects, new_objects) = (&self.old.objects, &self.new.objects);
        for (index, old) in self.left.in_old().filter_map(|index| Some((index, old_objects.get(index)?))) {
            let new = with.get(&index).and_then(|new| new_objects.get(*new)).map(|new| Arc::clone(&new.code_object));
            let gpu = self.diff.gpus.entry(Arc::clone(&old.key.gpu)).or_default();
            let count = if new.is_some() { &mut gpu.changed } else { &mut gpu.removed };
            *count += 1;
            let (gpu, old) = (Arc::clone(&old.key.gpu), Some(Arc::clone(&old.code_object)));
            self.diff.code_objects.push(CodeObjectDiff { gpu, old, new });
        }
        let is_changed: HashSet<usize> = changed.iter().map(|(_, new)| *new).collect();
        let added = self.left.in_new().filter(|index| !is_changed.contains(index));
        for new in added.filter_map(|index| new_objects.get(index)) {
            let gpu = self.diff.gpus.entry(Arc::clone(&new.key.gpu)).or_default();
            gpu.added += 1;
            let (gpu, new) = (Arc::clone(&new.key.gpu), Some(Arc::clone(&new.code_object)));
            self.diff.code_objects.push(CodeObjectDiff { gpu, old: None, new });
        }
    }

    /// Pairs the kernels of code objects that differ, by GPU and name: those of code objects that are paired, then
    /// those of the same library, then all others. Several with the same name are paired in order.
    fn list_kernels(&mut self, changed: &[IndexPair], [mut of_old, mut of_new]: Kernels) {
        // If the kernels of one cannot be read, those of the other are not compared.
        for (old, new) in changed {
            if !of_old.contains_key(old) || !of_new.contains_key(new) {
                of_old.remove(old);
                of_new.remove(new);
            }
        }
        let (old, new) = (in_order(of_old), in_order(of_new));
        let with: HashMap<usize, usize> = changed.iter().copied().collect();
        let old_at = |index: usize| old.get(index).map(|(object, kernel)| (*object, &kernel.name));
        let new_at = |index: usize| new.get(index).map(|(object, kernel)| (*object, &kernel.name));
        let (of_old, of_new) = (&self.old, &self.new);
        let named_old = |index| old_at(index).and_then(|(object, name)| Some((of_old.key(object)?, name)));
        let named_new = |index| new_at(index).and_then(|(object, name)| Some((of_new.key(object)?, name)));
        let mut left = Left::of(old.len(), new.len());
        let mut pairs =
            left.pair_alike(|index| old_at(index).and_then(|(object, name)| Some((*with.get(&object)?, name))), new_at);
        pairs.extend(left.pair_alike(
            |index| named_old(index).map(|(key, name)| (key.library, &key.gpu, name)),
            |index| named_new(index).map(|(key, name)| (key.library, &key.gpu, name)),
        ));
        pairs.extend(left.pair_alike(
            |index| named_old(index).map(|(key, name)| (&key.gpu, name)),
            |index| named_new(index).map(|(key, name)| (&key.gpu, name)),
        ));
        let kernel = |kernels: &[(usize, Kernel)], index: usize| kernels.get(index).map(|(_, kernel)| kernel.clone());
        let mut add = |side: &Side<'_>, object: usize, old: Option<Kernel>, new: Option<Kernel>| {
            let (Some(object), Some(kernel)) = (side.objects.get(object), new.as_ref().or(old.as_ref())) else {
                return;
            };
            let (gpu, code_object) = (Arc::clone(&object.key.gpu), Arc::clone(&object.code_object));
            self.diff.kernels.push(KernelDiff { gpu, code_object, name: Arc::clone(&kernel.name), old, new });
        };
        for (at, with) in pairs {
            let (old, new) = (kernel(&old, at), kernel(&new, with));
            if old == new {
                self.diff.same_kernels += 1;
            } else if let Some((object, _)) = new_at(with) {
                add(of_new, object, old, new);
            }
        }
        for (index, object) in left.in_old().filter_map(|index| Some((index, old_at(index)?.0))) {
            add(of_old, object, kernel(&old, index), None);
        }
        for (index, object) in left.in_new().filter_map(|index| Some((index, new_at(index)?.0))) {
            add(of_new, object, None, kernel(&new, index));
        }
    }
}

/// The kernels of code objects, in the order of these.
fn in_order(kernels: HashMap<usize, Vec<Kernel>>) -> Vec<(usize, Kernel)> {
    let mut objects: Vec<(usize, Vec<Kernel>)> = kernels.into_iter().collect();
    objects.sort_unstable_by_key(|(object, _)| *object);
    objects.into_iter().flat_map(|(object, kernels)| kernels.into_iter().map(move |kernel| (object, kernel))).collect()
}
