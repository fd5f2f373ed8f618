//! Lists the kernels of all device code in a file.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::unmatched::Matches;
use crate::bytes::{self, len_u64, to_u64};
use crate::code::kernels::{self, ArgumentLists, Kernel};
use crate::code::target;
use crate::container::Limits;
use crate::container::limits::{
    Allowance, FILE_ARGUMENT_LISTS_MAX, FILE_ARGUMENTS_MAX, FILE_KERNEL_NAMES_MAX, FILE_KERNELS_MAX,
};
use crate::container::packed::LastInflated;
use crate::container::sequence::Inflate;
use crate::display::shown;
use crate::error::{Error, ErrorKind, Malformed, Result};
use crate::io::input::{Input, Slice};
use crate::scan::{
    self, Checksums, CodeObject, ContentKind, Finding, Follow, Found, Origin, Place, Scan, Selection, Shared,
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
    pub follow: Option<Arc<Follow>>,
    /// Limits on the inflated size of compressed containers.
    pub limits: Limits,
    /// Whether all bytes are searched, as by [`Scan::deep`].
    pub deep: bool,
    /// Whether the [arguments](Kernel::arguments) of kernels are read. Equal lists of a file share memory.
    pub arguments: bool,
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
    /// The code object.
    pub code_object: Arc<CodeObject>,
    /// The target ID that it records itself.
    pub recorded_target: Option<String>,
    /// The kernels, in its order.
    pub kernels: Vec<Kernel>,
}

impl ListKernels {
    /// Lists the kernels of an open file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be read, or has changed. What is broken in it is a problem in the list.
    pub fn run(&self, input: &Input) -> Result<KernelList> {
        let first = if self.deep { Ok(None) } else { self.search(input, Inflate::Headers) };
        let listed = first.and_then(|list| match list {
            None => self.search(input, Inflate::Whole).map(Option::unwrap_or_default),
            list => Ok(list.unwrap_or_default()),
        });
        input.vouch_for(listed)
    }

    fn reader(&self) -> ReadKernels {
        if self.arguments { kernels::with_arguments } else { kernels::of }
    }

    /// Lists the kernels by a search that inflates compressed bundles, or by one that leaves them for later, when several
    /// are inflated at a time. The latter returns none for a file that needs the former: what is inside a compressed bundle,
    /// beside code objects, only the search itself finds.
    fn search(&self, input: &Input, inflate: Inflate) -> Result<Option<KernelList>> {
        let (checksums, follow) = (Checksums::None, self.follow.clone());
        let scan = Scan { inflate, checksums, deep: self.deep, limits: self.limits, follow };
        let mut search = Search::new(self, input, inflate);
        scan.run_until(input, &mut |finding| {
            match finding {
                finding if search.needs_inflating(&finding) => search.is_incomplete = true,
                Finding::Bundle(found) => search.bundle(&found)?,
                Finding::Broken { error, .. } if error.is_io() => return Err(error),
                Finding::Broken { place, error } | Finding::Hidden { place, error } => search.problem(error.at(place)),
                _ => {}
            }
            Ok(if search.is_incomplete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if search.is_incomplete { Ok(None) } else { search.finish(&scan) }
    }
}

/// The search in a file.
struct Search<'j> {
    job: &'j ListKernels,
    input: &'j Input,
    inflate: Inflate,
    found: Vec<Slot>,
    list: KernelList,
    room: ListRoom,
    /// Whether there is more to be found by a search that inflates compressed bundles.
    is_incomplete: bool,
}

/// What the search found.
enum Slot {
    /// A code object that is read later.
    Later(Arc<CodeObject>),
    /// A code object, or a problem.
    Done(Result<CodeObjectKernels>),
}

/// What was read of a code object.
enum ListedCode {
    Kernels(Option<String>, Vec<Kernel>),
    /// It has no kernels yet.
    Other(ContentKind),
}

impl ListedCode {
    /// Reads a code object, whose kind is known unless its bundle had to be inflated.
    fn read(code_object: &CodeObject, code: &[u8], read: ReadKernels) -> Result<Self> {
        let head = || bytes::slice(code, 0, ContentKind::HEAD_LEN).unwrap_or(code);
        match code_object.kind.unwrap_or_else(|| ContentKind::of(head())) {
            ContentKind::Elf | ContentKind::Cubin => {
                Ok(Self::Kernels(target::target_id(code), kernels_of(code_object, code, read)?))
            }
            other => Ok(Self::Other(other)),
        }
    }

    /// The number of kernels.
    fn weight(&self) -> usize {
        if let Self::Kernels(_, kernels) = self { kernels.len() } else { 0 }
    }
}

impl<'j> Search<'j> {
    fn new(job: &'j ListKernels, input: &'j Input, inflate: Inflate) -> Self {
        let (found, list, room) = (Vec::new(), KernelList::default(), ListRoom::default());
        Self { job, input, inflate, found, list, room, is_incomplete: false }
    }

    /// Whether a search that leaves compressed bundles for later misses something, by a finding: only those of the file
    /// itself can be inflated later.
    fn needs_inflating(&self, finding: &Finding<'_>) -> bool {
        let is_inside = |place: &Place| {
            *place.origin() == Origin::Inflated && place.steps().iter().any(|step| matches!(step, scan::Step::Entry(_)))
        };
        self.inflate == Inflate::Headers
            && match finding {
                Finding::Bundle(found) => {
                    let is_for_later = || found.info().is_ok_and(|bundle| bundle.is_read_alone(self.input));
                    is_inside(found.place) || (found.bundle.compressed.is_some() && !is_for_later())
                }
                Finding::Broken { place, .. } | Finding::Hidden { place, .. } => is_inside(place),
                _ => false,
            }
    }

    fn problem(&mut self, error: Error) {
        self.found.push(Slot::Done(Err(error)));
    }

    fn bundle(&mut self, found: &Found<'_>) -> Result<()> {
        let (mut shared, mut last) = (Shared::new(found.bundle)?, LastInflated::default());
        let reader = self.job.reader();
        let bundle = found.info()?;
        for code_object in found.code_objects() {
            if !self.list.matches.takes(&self.job.selection, &code_object.known_id()) {
                continue;
            }
            let is_for_later = self.inflate == Inflate::Headers && found.bundle.compressed.is_some();
            match code_object.recorded_kind().or_else(|| code_object.kind()) {
                Some(ContentKind::Elf | ContentKind::Cubin) => {}
                None if is_for_later => {}
                other => {
                    self.other(other.unwrap_or(ContentKind::Unknown), found.bundle.compressed.is_some());
                    continue;
                }
            }
            if let Err(error) = shared.take(&code_object, self.input) {
                self.problem(error.at(found.place));
                break;
            }
            let index = code_object.index();
            let code_object = Arc::new(code_object.known(&bundle));
            let step = if is_for_later || code_object.stored_in(self.input).is_some() {
                Slot::Later(code_object)
            } else if self.room.is_full {
                break;
            } else {
                // It is in another file, or has to be inflated or restored, which a second search would do again.
                let content = found.bundle.content_after(index, &mut last);
                let read =
                    content.and_then(|content| ListedCode::read(&code_object, content.as_slice().bytes(), reader));
                match read.map_err(|error| error.at(found.place)) {
                    Ok(content) => match self.taken(code_object, content) {
                        Some(kernels) => Slot::Done(Ok(kernels)),
                        None => break,
                    },
                    Err(error) => Slot::Done(Err(error)),
                }
            };
            self.found.push(step);
        }
        Ok(())
    }

    /// Counts a code object without kernels.
    fn other(&mut self, kind: ContentKind, is_compressed: bool) {
        match kind {
            ContentKind::Empty => {}
            // The search finds what is in it.
            ContentKind::Bundle | ContentKind::FatBinary => {
                self.is_incomplete |= is_compressed && self.inflate == Inflate::Headers;
            }
            kind => *self.list.others.entry(kind.name()).or_default() += 1,
        }
    }

    /// Takes in what was read of a code object; none if it has no kernels, or too many.
    fn taken(&mut self, code_object: Arc<CodeObject>, content: ListedCode) -> Option<CodeObjectKernels> {
        match content {
            ListedCode::Kernels(recorded_target, mut kernels) => self
                .room
                .take_kernels(&mut kernels)
                .then_some(CodeObjectKernels { code_object, recorded_target, kernels }),
            ListedCode::Other(kind) => {
                self.other(kind, code_object.bundle.compressed.is_some());
                None
            }
        }
    }

    /// Reads what was left for later, and lists all in file order; none if there is more to be found.
    fn finish(mut self, scan: &Scan) -> Result<Option<KernelList>> {
        let found = std::mem::take(&mut self.found);
        let later =
            |step: &Slot| if let Slot::Later(code_object) = step { Some(Arc::clone(code_object)) } else { None };
        let later: Vec<Arc<CodeObject>> = found.iter().filter_map(later).collect();
        let wanted: Vec<&CodeObject> = later.iter().map(Arc::as_ref).collect();
        let mut read: Vec<Option<Result<CodeObjectKernels>>> = later.iter().map(|_| None).collect();
        let reader = self.job.reader();
        let work = |code_object: &CodeObject, code: Slice<'_>| ListedCode::read(code_object, code.bytes(), reader);
        scan.read(self.input, &wanted, work, ListedCode::weight, &mut |contents| {
            for (index, content) in contents {
                if let (Some(code_object), Some(read)) = (later.get(index), read.get_mut(index)) {
                    *read = content.map(|content| self.taken(Arc::clone(code_object), content)).transpose();
                }
            }
            if self.room.is_full || self.is_incomplete { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if self.is_incomplete {
            return Ok(None);
        }
        let Self { job, input, mut list, room, .. } = self;
        let mut read = read.into_iter();
        for step in found {
            match if let Slot::Done(done) = step { Some(done) } else { read.next().flatten() } {
                Some(Ok(code_object)) => list.code_objects.push(code_object),
                Some(Err(error)) => list.problems.push(error),
                None => {}
            }
        }
        if let Some(problem) = room.problem(input) {
            list.matches.assume_all(&job.selection);
            list.problems.push(problem);
        }
        Ok(Some(list))
    }
}

/// Reads the kernels of a code object, with or without their arguments.
pub(super) type ReadKernels = fn(&[u8]) -> Result<Vec<Kernel>, Malformed>;

pub(super) fn kernels_of(code_object: &CodeObject, code: &[u8], read: ReadKernels) -> Result<Vec<Kernel>> {
    read(code).map_err(|malformed| {
        let text = format!("the kernels of '{}' cannot be read: {malformed}", shown(&code_object.id));
        let malformed = Malformed::other(malformed.kind(), malformed.offset(), text);
        let place = &code_object.bundle.place;
        Error::malformed(place.file(), malformed).at(place)
    })
}

/// The rest of what may be listed for a file. The names of the same kernel for several GPUs share memory, and so do equal lists
/// of arguments.
pub(super) struct ListRoom {
    names: HashSet<Arc<[u8]>>,
    names_left: Allowance,
    kernels_left: Allowance,
    lists: ArgumentLists,
    arguments_left: Allowance,
    is_full: bool,
    is_full_of_arguments: bool,
}

impl Default for ListRoom {
    fn default() -> Self {
        Self {
            names: HashSet::new(),
            names_left: Allowance::new(FILE_KERNEL_NAMES_MAX),
            kernels_left: Allowance::new(FILE_KERNELS_MAX),
            lists: ArgumentLists::new(FILE_ARGUMENT_LISTS_MAX),
            arguments_left: Allowance::new(FILE_ARGUMENTS_MAX),
            is_full: false,
            is_full_of_arguments: false,
        }
    }
}

impl ListRoom {
    /// Takes in kernels, unless they are too many.
    pub(super) fn take_kernels(&mut self, kernels: &mut [Kernel]) -> bool {
        let is_taken = self.kernels_left.take(to_u64(kernels.len())).is_some()
            && kernels.iter_mut().all(|kernel| self.share(kernel).is_some());
        self.is_full |= !is_taken;
        is_taken
    }

    /// The problem that not all kernels of a file were taken in.
    pub(super) fn problem(&self, input: &Input) -> Option<Error> {
        let text = format!(
            "more than {FILE_KERNELS_MAX} kernels, or {FILE_KERNEL_NAMES_MAX} bytes of names; the rest is not listed"
        );
        let text = match self.is_full_of_arguments {
            false => text,
            true => format!(
                "the kernels have more than {FILE_ARGUMENTS_MAX} arguments, or {FILE_ARGUMENT_LISTS_MAX} bytes of different \
                 ones; the rest is not listed"
            ),
        };
        let problem = || Error::malformed(input.path(), Malformed::other(ErrorKind::Limit, None, text));
        self.is_full.then(problem)
    }

    fn share(&mut self, kernel: &mut Kernel) -> Option<()> {
        let Kernel { name, arguments, .. } = kernel;
        match self.names.get(name) {
            Some(known) => *name = Arc::clone(known),
            None => {
                self.names_left.take(len_u64(name))?;
                self.names.insert(Arc::clone(name));
            }
        }
        if let Some(list) = arguments {
            let taken = self.arguments_left.take(to_u64(list.len()));
            let shared = taken.and_then(|()| self.lists.shared(Arc::clone(list)));
            self.is_full_of_arguments = shared.is_none();
            *list = shared?;
        }
        Some(())
    }
}
