//! Lists the kernels of all device code in a file.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::unmatched::Matches;
use crate::bytes::{len_u64, to_u64};
use crate::container::Limits;
use crate::container::limits::{Allowance, FILE_KERNEL_NAMES_MAX, FILE_KERNELS_MAX};
use crate::container::packed::LastInflated;
use crate::container::sequence::Inflate;
use crate::display::shown;
use crate::error::{Error, ErrorKind, Malformed, Result};
use crate::io::input::Input;
use crate::kernels::{self, Kernel};
use crate::parallel;
use crate::scan::{
    self, Checksums, CodeObject, ContentKind, Finding, Follow, Format, Found, Origin, Place, Provenance, Scan,
    Selection, Wide, recorded_target,
};

/// Lists the kernels of all device code in a file.
///
/// Code objects are inflated as needed. On all processors, code objects that are not compressed are read, of which only the
/// tables are, and compressed bundles of the file are inflated.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListKernels {
    /// The code objects whose kernels are listed.
    pub selection: Selection,
    /// How the kpack archives of split libraries are found; none if they are not searched.
    pub follow: Option<Follow>,
    /// Limits on the inflated size of compressed containers.
    pub limits: Limits,
    /// Whether all bytes are searched, as by [`Scan::deep`].
    pub deep: bool,
}

/// The kernels of a file.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KernelList {
    /// The selected code objects for AMD and NVIDIA GPUs, in file order.
    pub code_objects: Vec<CodeObjectKernels>,
    /// The numbers of selected code objects of other kinds, such as PTX and bitcode, by the
    /// [name](ContentKind::name) of the kind. They have no registers yet.
    pub others: BTreeMap<&'static str, usize>,
    /// Which parts of the selection have matched.
    pub matches: Matches,
    /// The parts of the file that could not be read, in file order.
    pub problems: Vec<Error>,
}

/// The kernels of a code object.
#[derive(Debug)]
#[non_exhaustive]
pub struct CodeObjectKernels {
    /// Its origin.
    pub from: Provenance,
    /// The target ID that it records itself.
    pub recorded_target: Option<String>,
    /// The kernels, in its order.
    pub kernels: Vec<Kernel>,
}

/// How often the bytes of a bundle may be read as code objects, which may share them.
const SHARED_MAX: u64 = 4;

impl ListKernels {
    /// Lists the kernels of an open file.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, or has changed. What is broken in it is a problem in the list.
    pub fn run(&self, input: &Input) -> Result<KernelList> {
        let first = if self.deep { Ok(None) } else { self.search(input, Inflate::Headers) };
        let listed = first.and_then(|list| match list {
            None => self.search(input, Inflate::Whole).map(Option::unwrap_or_default),
            list => Ok(list.unwrap_or_default()),
        });
        input.vouch_for(listed)
    }

    /// Lists the kernels by a search that inflates compressed bundles, or by one that leaves them for later, when several
    /// are inflated at a time. The latter returns none for a file that needs the former: what is inside a compressed bundle,
    /// beside code objects, only the search itself finds.
    fn search(&self, input: &Input, inflate: Inflate) -> Result<Option<KernelList>> {
        let scan = Scan { inflate, checksums: Checksums::None, deep: self.deep, limits: self.limits };
        let mut search = Search::new(self, input);
        let scanned = scan.run_following(input, self.follow.as_ref(), &mut |finding| {
            if inflate == Inflate::Headers && needs_inflating(&finding, input) {
                search.is_ended = true;
                return Err(Error::Internal("the search was ended"));
            }
            match finding {
                Finding::Bundle(found) if inflate == Inflate::Headers && found.bundle.compressed.is_some() => {
                    search.found.push(Step::Bundle(found.place.clone(), found.index, found.bundle.offset));
                }
                Finding::Bundle(found) => search.bundle(&found)?,
                Finding::Broken { error: error @ Error::Io { .. }, .. } => return Err(error),
                Finding::Broken { place, error } | Finding::Hidden { place, error } => search.problem(place, error),
                _ => {}
            }
            Ok(())
        });
        if search.is_ended {
            return Ok(None);
        }
        scanned.map(|()| search.finish())
    }
}

/// Whether a search has to inflate compressed bundles because of a finding: only bundles of the file itself can be
/// inflated later.
fn needs_inflating(finding: &Finding<'_>, input: &Input) -> bool {
    let is_inside = |place: &Place| {
        *place.origin() == Origin::Inflated && place.steps().iter().any(|step| matches!(step, scan::Step::Entry(_)))
    };
    match finding {
        Finding::Bundle(Found { place, format, bundle, .. }) => {
            let is_in_file = matches!(place.origin(), Origin::File(file) if file == input.path());
            let is_for_later = is_in_file && *format == Format::Bundle;
            is_inside(place) || bundle.packed_len() > 0 || (bundle.compressed.is_some() && !is_for_later)
        }
        Finding::Broken { place, .. } | Finding::Hidden { place, .. } => is_inside(place),
        _ => false,
    }
}

/// The search in a file, or in a compressed bundle of it.
struct Search<'j> {
    job: &'j ListKernels,
    input: &'j Input,
    found: Vec<Step<'j>>,
    others: BTreeMap<&'static str, usize>,
    matches: Matches,
    room: Room,
    /// Whether a code object is itself a container of code objects.
    is_nested: bool,
    /// Whether the search was ended, because it has to inflate what it finds.
    is_ended: bool,
}

/// A step of the search.
enum Step<'j> {
    /// A code object, with bytes of the file that are read later.
    Later(Provenance, &'j [u8]),
    /// A compressed bundle that is inflated later: its place, its index there, and its offset in the file.
    Bundle(Place, usize, u64),
    /// A code object, or a problem.
    Done(Result<CodeObjectKernels>),
}

/// The outcome of a step.
#[derive(Default)]
struct Outcome {
    read: Vec<Result<CodeObjectKernels>>,
    others: BTreeMap<&'static str, usize>,
    matches: Matches,
    /// Whether the room for the code objects has been taken already.
    is_counted: bool,
    is_incomplete: bool,
}

impl Outcome {
    /// The number of kernels and problems.
    fn weight(&self) -> usize {
        let weight = |read: &Result<CodeObjectKernels>| read.as_ref().map_or(1, |read| read.kernels.len());
        self.read.iter().map(weight).fold(1, usize::saturating_add)
    }
}

impl<'j> Search<'j> {
    fn new(job: &'j ListKernels, input: &'j Input) -> Self {
        let (found, others, matches) = (Vec::new(), BTreeMap::new(), Matches::default());
        Self { job, input, found, others, matches, room: Room::default(), is_nested: false, is_ended: false }
    }

    /// Reads what was left for later.
    fn later(job: &ListKernels, input: &Input, step: Step<'_>) -> Outcome {
        let (place, index, offset) = match step {
            Step::Later(from, code) => return Outcome { read: vec![read(from, code)], ..Outcome::default() },
            Step::Done(done) => return Outcome { read: vec![done], is_counted: true, ..Outcome::default() },
            Step::Bundle(place, index, offset) => (place, index, offset),
        };
        let mut search = Search::new(job, input);
        let searched = Wide::bundle_at(input, offset, Inflate::Whole, job.limits).and_then(|bundle| {
            let format = Wide::form_of(&bundle).map_err(|malformed| Error::malformed(input.path(), malformed))?;
            bundle
                .faults
                .iter()
                .for_each(|fault| search.problem(&place, Error::malformed(input.path(), fault.clone())));
            search.bundle(&Found { place: &place, format, index, bundle: &bundle, numbers: &[], space_end: 0 })
        });
        if let Err(error) = searched {
            search.problem(&place, error);
        }
        let Search { found, others, matches, is_nested, room, .. } = search;
        let read = found.into_iter().filter_map(|step| if let Step::Done(done) = step { Some(done) } else { None });
        Outcome { read: read.collect(), others, matches, is_counted: false, is_incomplete: is_nested || room.is_full }
    }

    fn problem(&mut self, place: &Place, error: Error) {
        self.found.push(Step::Done(Err(error.at(place))));
    }

    fn bundle(&mut self, found: &Found<'_>) -> Result<()> {
        let mut left = Allowance::new(found.bundle.full_len()?.saturating_mul(SHARED_MAX));
        let mut last = LastInflated::default();
        let place = Arc::new(found.place.clone());
        for code_object in found.code_objects() {
            if !self.matches.takes(&self.job.selection, &code_object.known_id()) {
                continue;
            }
            match code_object.recorded_kind().or_else(|| code_object.kind()) {
                Some(ContentKind::Elf | ContentKind::Cubin) => {}
                Some(ContentKind::Empty) => continue,
                Some(ContentKind::Bundle | ContentKind::FatBinary) => {
                    // The search of the file finds what is in it.
                    self.is_nested = true;
                    continue;
                }
                other => {
                    let count = self.others.entry(other.map_or("unknown", ContentKind::name)).or_default();
                    *count = count.saturating_add(1);
                    continue;
                }
            }
            if left.take(code_object.size()).is_none() {
                let offset = found.bundle.offset;
                let text = format!("code objects of the bundle at offset {offset} overlap too much; not all were read");
                let error = Error::malformed(self.input.path(), Malformed::other(ErrorKind::Limit, offset, text));
                self.problem(found.place, error);
                break;
            }
            let from = Provenance::new(&place, found.index, &code_object)?;
            let step = match code_object.slice_of(self.input.bytes()) {
                Some(bytes) => Step::Later(from, bytes),
                None if self.room.is_full => break,
                None => match inflated(from, &code_object, found, &mut last) {
                    Ok(code_object) => match self.room.take(code_object) {
                        Some(code_object) => Step::Done(Ok(code_object)),
                        None => break,
                    },
                    Err(error) => Step::Done(Err(error)),
                },
            };
            self.found.push(step);
        }
        Ok(())
    }

    /// Reads what was left for later, and lists all in file order; none if there is more to be found.
    fn finish(self) -> Option<KernelList> {
        let Self { job, found, others, matches, mut room, input, .. } = self;
        let mut list = KernelList { others, matches, ..KernelList::default() };
        let mut is_incomplete = false;
        let work = |step| Self::later(job, input, step);
        parallel::in_order(found, work, Outcome::weight, |outcomes| {
            for outcome in outcomes {
                is_incomplete |= outcome.is_incomplete;
                list.add_others(&outcome.others);
                list.matches.add(outcome.matches);
                for read in outcome.read {
                    match read {
                        Ok(code_object) if outcome.is_counted => list.code_objects.push(code_object),
                        Ok(code_object) => list.code_objects.extend(room.take(code_object)),
                        Err(error) => list.problems.push(error),
                    }
                }
                if room.is_full || is_incomplete {
                    break;
                }
            }
        });
        if let Some(problem) = room.problem(input) {
            list.matches.assume_all(&job.selection);
            list.problems.push(problem);
        }
        (!is_incomplete).then_some(list)
    }
}

impl KernelList {
    fn add_others(&mut self, more: &BTreeMap<&'static str, usize>) {
        for (kind, more) in more {
            let count = self.others.entry(kind).or_default();
            *count = count.saturating_add(*more);
        }
    }
}

/// The kernels of a code object that has to be inflated or restored, or is in another file.
fn inflated(
    from: Provenance,
    code_object: &CodeObject<'_>,
    found: &Found<'_>,
    last: &mut LastInflated,
) -> Result<CodeObjectKernels> {
    match found.bundle.content_after(code_object.index(), last) {
        Ok(content) => read(from, content.as_slice().bytes()),
        Err(error) => Err(error.at(found.place)),
    }
}

/// Reads the kernels of a code object.
fn read(from: Provenance, code: &[u8]) -> Result<CodeObjectKernels> {
    let kernels = kernels_of(&from, code)?;
    Ok(CodeObjectKernels { recorded_target: recorded_target(code), from, kernels })
}

pub(super) fn kernels_of(from: &Provenance, code: &[u8]) -> Result<Vec<Kernel>> {
    kernels::of(code).map_err(|malformed| {
        let text = format!("the kernels of '{}' cannot be read: {malformed}", shown(&from.id));
        let malformed = Malformed::other(malformed.kind(), malformed.offset(), text);
        Error::malformed(from.place.file(), malformed).at(&from.place)
    })
}

/// The rest of what may be listed for a file. The names of the same kernel for several GPUs share memory.
pub(super) struct Room {
    names: HashSet<Arc<[u8]>>,
    names_left: Allowance,
    kernels_left: Allowance,
    is_full: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            names: HashSet::new(),
            names_left: Allowance::new(FILE_KERNEL_NAMES_MAX),
            kernels_left: Allowance::new(FILE_KERNELS_MAX),
            is_full: false,
        }
    }
}

impl Room {
    /// Takes in the kernels of a code object; none if they are too many.
    fn take(&mut self, mut code_object: CodeObjectKernels) -> Option<CodeObjectKernels> {
        self.take_kernels(&mut code_object.kernels).then_some(code_object)
    }

    /// Takes in kernels, unless they are too many.
    pub(super) fn take_kernels(&mut self, kernels: &mut [Kernel]) -> bool {
        let is_taken = self.kernels_left.take(to_u64(kernels.len())).is_some()
            && kernels.iter_mut().all(|kernel| self.share(&mut kernel.name).is_some());
        self.is_full |= !is_taken;
        is_taken
    }

    /// The problem that not all kernels of a file were taken in.
    pub(super) fn problem(&self, input: &Input) -> Option<Error> {
        let text = format!(
            "more than {FILE_KERNELS_MAX} kernels, or {FILE_KERNEL_NAMES_MAX} bytes of names; the rest is not listed"
        );
        let problem = || Error::malformed(input.path(), Malformed::other(ErrorKind::Limit, None, text));
        self.is_full.then(problem)
    }

    fn share(&mut self, name: &mut Arc<[u8]>) -> Option<()> {
        match self.names.get(name) {
            Some(known) => *name = Arc::clone(known),
            None => {
                self.names_left.take(len_u64(name))?;
                self.names.insert(Arc::clone(name));
            }
        }
        Some(())
    }
}
