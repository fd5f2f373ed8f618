//! One of the two files of a comparison: its code objects, and how their bytes are read.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::digest::{Digest, Digester};
use super::super::unmatched::Matches;
use super::{Diff, library_name, unversioned};
use crate::bytes::len_u64;
use crate::container::limits::{Allowance, SEARCHED_MAX};
use crate::container::magic::Magic;
use crate::container::packed::LastInflated;
use crate::container::sequence::{Bundle, Inflate};
use crate::container::{Codec, Part};
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::io::input::{Input, Slice};
use crate::parallel;
use crate::runtime::Coverage;
use crate::scan::{
    Checksums, CodeObject, ContentKind, Finding, Format, Found, Origin, Place, Provenance, Scan, Step, Wide,
};

/// How often the bytes of a bundle may be compared as code objects, which may share them.
const SHARED_MAX: u64 = 4;

/// A code object.
#[derive(Clone, Debug)]
pub(super) struct Object<'i> {
    pub(super) from: Arc<Provenance>,
    /// Its number in the bundle.
    pub(super) entry: usize,
    /// Its number among the code objects that the search finds in the same member of a zip file, or in the file.
    ordinal: usize,
    /// The inflated size in bytes; none if it is known only when the code object is inflated.
    pub(super) size: Option<u64>,
    /// The recorded size, which may include padding.
    pub(super) recorded_size: u64,
    /// The stored size in bytes; in a compressed bundle, its share of that.
    pub(super) stored: u64,
    pub(super) bytes: Bytes<'i>,
}

/// The stored bytes of a code object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bytes<'i> {
    /// In the file: the code object, or its compressed form.
    Here(Slice<'i>),
    /// The digest of those bytes, which are not in the file.
    Digest(Digest),
    /// In a compressed bundle, whose offset is known if it is in the file.
    InBundle(Option<u64>),
}

/// How a code object is compressed on its own: codec, inflated size, and its range in the inflated bytes.
pub(super) type Form = Option<(Codec, u64, u64, u64)>;

impl Object<'_> {
    pub(super) fn form(&self) -> Form {
        let packed = self.from.packed.as_ref()?;
        Some((packed.codec, packed.inflated, packed.range.start, packed.range.end))
    }

    /// The digest of the code object, if that is known already.
    pub(super) fn digest(&self) -> Option<(u64, Digest)> {
        match (self.bytes, self.form()) {
            (Bytes::Digest(digest), None) => Some((self.size?, digest)),
            _ => None,
        }
    }

    /// Whether both are in the same bundle.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let (a, b) = (&self.from, &other.from);
        Arc::ptr_eq(&a.place, &b.place) && a.bundle == b.bundle && a.bundle_range == b.bundle_range
    }

    /// The member of a zip file that holds it.
    pub(super) fn member(&self) -> Option<&[u8]> {
        top_member(&self.from.place)
    }
}

/// The member of a zip file that holds a place.
pub(super) fn top_member(place: &Place) -> Option<&[u8]> {
    match place.steps().first() {
        Some(Step::Member(name)) => Some(name),
        _ => None,
    }
}

/// A file, or nothing if there is none to compare with.
#[derive(Debug)]
pub(super) struct Side<'i> {
    input: Option<&'i Input>,
    pub(super) objects: Vec<Object<'i>>,
    /// The libraries, by name, and the GPUs that their bundles serve, whether or not their code is selected.
    pub(super) libraries: HashMap<Vec<u8>, (Place, Coverage)>,
    /// The names of its members without versions, whatever is in them, unless it is a static library.
    pub(super) members: HashSet<Vec<u8>>,
    pub(super) matches: Matches,
    pub(super) problems: Vec<Error>,
}

/// What was read of code objects, with their indices.
#[derive(Debug)]
pub(super) struct Read<T> {
    pub(super) read: Vec<(usize, T)>,
    pub(super) errors: Vec<Error>,
}

/// Code objects that are read together.
enum Task<'i> {
    Here(usize, Slice<'i>),
    /// The offset of a compressed bundle, and the wanted code objects.
    Bundle(u64, Vec<usize>),
}

impl<'i> Side<'i> {
    /// Finds the code objects of a file, in the members that `is_searched` accepts.
    pub(super) fn search(
        job: &Diff,
        digester: &Digester,
        input: Option<&'i Input>,
        is_searched: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Self> {
        let (objects, libraries, members, problems) = (Vec::new(), HashMap::new(), HashSet::new(), Vec::new());
        let mut side = Self { input, objects, libraries, members, matches: Matches::default(), problems };
        let Some(input) = input else { return Ok(side) };
        let (mut ordinals, members) = (HashMap::new(), RefCell::new(HashSet::new()));
        let is_static = Magic::identify(input.bytes()) == Magic::Archive;
        let is_searched = |member: &[u8]| {
            if !is_static {
                members.borrow_mut().insert(unversioned(member).to_vec());
            }
            is_searched(member)
        };
        let checksums = if job.trust_hashes { Checksums::None } else { Checksums::OfAll };
        walk(job, checksums, input, &is_searched, &mut |finding| {
            match finding {
                Finding::Bundle(found) => side.bundle(job, digester, input, &found, &mut ordinals)?,
                Finding::Split { place, split } => side.library(place, Format::Bundle).add_split(place, &split),
                Finding::Broken { error: error @ Error::Io { .. }, .. } => return Err(error),
                Finding::Broken { place, error } | Finding::Hidden { place, error } => {
                    side.problems.push(error.at(place));
                }
                _ => {}
            }
            Ok(())
        })?;
        side.members = members.into_inner();
        Ok(side)
    }

    /// The GPUs that the bundles of a library serve.
    fn library(&mut self, place: &Place, format: Format) -> &mut Coverage {
        let library = || (place.clone(), Coverage::default());
        &mut self.libraries.entry(library_name(place, format)).or_insert_with(library).1
    }

    /// Whether there is a file.
    pub(super) fn is_there(&self) -> bool {
        self.input.is_some()
    }

    fn bundle(
        &mut self,
        job: &Diff,
        digester: &Digester,
        input: &'i Input,
        found: &Found<'_>,
        ordinals: &mut Ordinals,
    ) -> Result<()> {
        let bundle = found.bundle;
        let mut left = Allowance::new(bundle.full_len()?.saturating_mul(SHARED_MAX));
        let size: u64 = bundle.entries.iter().map(crate::container::Entry::size).fold(0, u64::saturating_add);
        let stored = bundle.stored_len()?;
        let place = Arc::new(found.place.clone());
        self.library(found.place, found.format).add(found);
        for (code_object, ordinal) in compared(job, found, ordinals, &mut self.matches) {
            if left.take(code_object.size()).is_none() {
                let offset = bundle.offset;
                let text = format!("code objects of the bundle at offset {offset} overlap too much; not all were read");
                let error = Malformed::other(ErrorKind::Limit, offset, text);
                self.problems.push(Error::malformed(input.path(), error).at(&place));
                break;
            }
            let from = Arc::new(Provenance::new(&place, found.index, &code_object)?);
            let is_here = matches!(place.origin(), Origin::File(file) if file == place.file());
            let in_file = |slice: Slice<'_>| input.slice(slice.offset(), slice.len()).filter(|_| is_here);
            let bytes = match code_object.stored_bytes() {
                Some(slice) => match in_file(slice) {
                    Some(slice) => Bytes::Here(slice),
                    None => Bytes::Digest(digester.of(slice).with_path(slice.path())?),
                },
                None => Bytes::InBundle((is_here && found.format == Format::Bundle).then_some(bundle.offset)),
            };
            let (recorded_size, packed) = (code_object.size(), from.packed.as_ref());
            let share = u128::from(stored).saturating_mul(recorded_size.into()).checked_div(size.into());
            let stored = match (bundle.compressed, packed) {
                (Some(_), _) => share.and_then(|share| u64::try_from(share).ok()).unwrap_or(0),
                (None, Some(packed)) => packed.stored_len(),
                (None, None) => recorded_size,
            };
            let size = packed.is_none_or(|packed| packed.is_exact()).then_some(recorded_size);
            self.objects.push(Object { from, entry: code_object.index(), ordinal, size, recorded_size, stored, bytes });
        }
        Ok(())
    }

    /// Reads some code objects, given by their indices: on all processors, those of the file, and compressed bundles of
    /// it; by another search, all others. `weight` is that of [`parallel::in_order`].
    pub(super) fn read<T: Send>(
        &self,
        job: &Diff,
        wanted: &[usize],
        read: impl Fn(&Object<'_>, Slice<'_>) -> Result<T> + Sync,
        weight: impl Fn(&T) -> usize + Sync,
        take: &mut dyn FnMut(Read<T>),
    ) -> Result<()> {
        let Some(input) = self.input.filter(|_| !wanted.is_empty()) else { return Ok(()) };
        let (mut tasks, mut elsewhere): (Vec<Task<'i>>, HashMap<_, usize>) = (Vec::new(), HashMap::new());
        let mut last: Option<&Object<'_>> = None;
        for (&index, object) in wanted.iter().filter_map(|index| Some((index, self.objects.get(*index)?))) {
            match (object.bytes, object.form()) {
                (Bytes::Here(slice), None) => tasks.push(Task::Here(index, slice)),
                (Bytes::InBundle(Some(offset)), _) => match tasks.last_mut() {
                    Some(Task::Bundle(_, objects)) if last.is_some_and(|last| last.is_beside(object)) => {
                        objects.push(index);
                    }
                    _ => tasks.push(Task::Bundle(offset, vec![index])),
                },
                _ => drop(elsewhere.insert((object.member().map(<[u8]>::to_vec), object.ordinal), index)),
            }
            last = Some(object);
        }
        let work = |task| match task {
            Task::Here(index, slice) => {
                let mut done = Read { read: Vec::new(), errors: Vec::new() };
                if let Some(object) = self.objects.get(index) {
                    done.add(index, read(object, slice));
                }
                slice.looked_at();
                done
            }
            Task::Bundle(offset, objects) => self.in_bundle(job, input, offset, &objects, &read),
        };
        let weigh = |done: &Read<T>| done.read.iter().map(|(_, read)| weight(read)).fold(1, usize::saturating_add);
        parallel::in_order(tasks, work, weigh, |done| done.for_each(&mut *take));
        if elsewhere.is_empty() { Ok(()) } else { self.elsewhere(job, input, &elsewhere, &read, take) }
    }

    /// Reads code objects of a compressed bundle of the file.
    fn in_bundle<T>(
        &self,
        job: &Diff,
        input: &Input,
        offset: u64,
        wanted: &[usize],
        read: &dyn Fn(&Object<'_>, Slice<'_>) -> Result<T>,
    ) -> Read<T> {
        let mut done = Read { read: Vec::new(), errors: Vec::new() };
        match Wide::bundle_at(input, offset, Inflate::Headers, job.limits) {
            Ok(bundle) => self.of_bundle(&bundle, wanted, read, &mut done),
            Err(error) => done.fail(error, self.objects.get(wanted.first().copied().unwrap_or_default())),
        }
        done
    }

    /// Reads code objects of a bundle, which is inflated as a whole if it is compressed.
    fn of_bundle<T>(
        &self,
        bundle: &Bundle<'_>,
        wanted: &[usize],
        read: &dyn Fn(&Object<'_>, Slice<'_>) -> Result<T>,
        done: &mut Read<T>,
    ) {
        let objects = wanted.iter().filter_map(|index| Some((*index, self.objects.get(*index)?)));
        let whole = match bundle.inflate_whole() {
            Ok(whole) => whole,
            Err(error) => return done.fail(error, objects.map(|(_, object)| object).next()),
        };
        let mut last = LastInflated::default();
        for (index, object) in objects {
            let content = match (&whole, bundle.entries.get(object.entry).map(|entry| entry.parts.as_slice())) {
                (Some(input), Some([Part::Range(range)])) => {
                    input.as_slice().claimed(range).and_then(|slice| read(object, slice))
                }
                _ => bundle.content_after(object.entry, &mut last).and_then(|content| read(object, content.as_slice())),
            };
            done.add(index, content.map_err(|error| at(error, object)));
        }
    }

    /// Reads code objects by another search.
    fn elsewhere<T>(
        &self,
        job: &Diff,
        input: &Input,
        wanted: &HashMap<(Option<Vec<u8>>, usize), usize>,
        read: &dyn Fn(&Object<'_>, Slice<'_>) -> Result<T>,
        take: &mut dyn FnMut(Read<T>),
    ) -> Result<()> {
        let mut left = Allowance::new(job.limits.nested.max(input.len().saturating_mul(SEARCHED_MAX)));
        let (mut ordinals, members) = (HashMap::new(), || wanted.keys().map(|(member, _)| member.as_deref()));
        let members: std::collections::HashSet<_> = members().collect();
        let is_searched = |name: &[u8]| members.contains(&Some(name));
        walk(job, Checksums::None, input, &is_searched, &mut |finding| {
            let Finding::Bundle(found) = finding else { return Ok(()) };
            let member = top_member(found.place).map(<[u8]>::to_vec);
            let mut key = (member, 0);
            let mut of_bundle = Vec::new();
            for (_, ordinal) in compared(job, &found, &mut ordinals, &mut Matches::default()) {
                key.1 = ordinal;
                of_bundle.extend(wanted.get(&key));
            }
            if of_bundle.is_empty() {
                return Ok(());
            }
            let mut done = Read { read: Vec::new(), errors: Vec::new() };
            match left.take(found.bundle.full_len()?) {
                Some(()) => self.of_bundle(found.bundle, &of_bundle, read, &mut done),
                None => {
                    let offset = found.bundle.offset;
                    let error = Malformed::search("bytes to read", left.most(), offset);
                    let object = of_bundle.first().and_then(|index| self.objects.get(*index));
                    done.fail(Error::malformed(input.path(), error), object);
                }
            }
            take(done);
            Ok(())
        })
    }
}

impl<T> Read<T> {
    fn add(&mut self, index: usize, read: Result<T>) {
        match read {
            Ok(read) => self.read.push((index, read)),
            Err(error) => self.errors.push(error),
        }
    }

    /// Adds an error, with the place of a code object unless the error has one.
    fn fail(&mut self, error: Error, object: Option<&Object<'_>>) {
        self.errors.push(match object {
            Some(object) => at(error, object),
            None => error,
        });
    }
}

fn at(error: Error, object: &Object<'_>) -> Error {
    if matches!(error, Error::Inside { .. }) { error } else { error.at(&object.from.place) }
}

fn walk(
    job: &Diff,
    checksums: Checksums,
    input: &Input,
    is_searched: &dyn Fn(&[u8]) -> bool,
    visit: &mut dyn FnMut(Finding<'_>) -> Result<()>,
) -> Result<()> {
    let scan = Scan { inflate: Inflate::Headers, checksums, deep: job.deep, limits: job.limits };
    scan.run_in_members(input.as_slice(), job.follow.as_ref(), is_searched, visit)
}

/// The number of code objects found so far in each member of a zip file, or in the file.
type Ordinals = HashMap<Option<Vec<u8>>, usize>;

/// The code objects of a bundle that are compared, each with its number in its member. A code object that is itself
/// searched as a bundle is not.
fn compared<'f>(
    job: &Diff,
    found: &Found<'f>,
    ordinals: &mut Ordinals,
    matches: &mut Matches,
) -> Vec<(CodeObject<'f>, usize)> {
    let is_compressed = found.bundle.compressed.is_some();
    let is_searched = |kind| !is_compressed && matches!(kind, Some(ContentKind::Bundle | ContentKind::FatBinary));
    let mut is_compared = |code_object: &CodeObject<'_>| {
        matches.takes(&job.selection, &code_object.known_id())
            && code_object.size() > 0
            && !is_searched(code_object.recorded_kind().or_else(|| code_object.kind()))
    };
    let count = ordinals.entry(top_member(found.place).map(<[u8]>::to_vec)).or_default();
    let mut number = |code_object| {
        let ordinal = *count;
        *count = count.saturating_add(1);
        (code_object, ordinal)
    };
    found.code_objects().filter(|code_object| is_compared(code_object)).map(&mut number).collect()
}

/// The length of a code object, and its digest.
pub(super) fn digest_of(digester: &Digester, code: Slice<'_>) -> Result<(u64, Digest)> {
    Ok((len_u64(code.bytes()), digester.of(code).with_path(code.path())?))
}
