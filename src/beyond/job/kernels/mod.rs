//! Lists the kernels of all device code in a file, and reports them.

mod column;
mod condition;
#[cfg(feature = "serde")]
mod fields;
mod names;
mod report;
mod row;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use object::elf::{EM_AMDGPU, EM_CUDA};

use crate::base::bytes::{self, len_u64, to_u64};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::base::io::input::Input;
use crate::beyond::code::elf_machine;
use crate::beyond::code::kernels::{self, ArgumentLists, Kernel};
use crate::beyond::code::target;
use crate::beyond::container::{ContentKind, Rule};
use crate::beyond::inventory::pick::Seen;
use crate::beyond::inventory::request::{Facts, Request, Selection};
use crate::beyond::inventory::{BadPart, Contents, Keep, Reading, Visit};
use crate::beyond::limits::{FILE_ARGUMENT_LISTS_MAX, FILE_ARGUMENTS_MAX, FILE_KERNEL_NAMES_MAX, FILE_KERNELS_MAX};
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectsOfBundle, FoundBundle, OverlapLimit, ReadList, Scan, contents, weight_of,
};
use crate::llvm::container::limits::Allowance;
use crate::llvm::container::sequence::Inflate;
pub use column::{FLAGS, KernelColumn, NUMBERS, RecordedKeys, SortKey};
pub(super) use column::{LDS, SCRATCH, spills};
pub use condition::{ConditionResults, KernelCondition, NotJudged};
#[cfg(feature = "serde")]
pub(super) use fields::KernelNameFields;
pub use names::DemangleName;
pub(super) use names::shown_names;
pub(super) use report::ROWS_BETWEEN_SORTS;
pub use report::{KernelOrder, KernelSums, KernelsOfFile, KernelsReport, OtherCode, WantedKernels};
pub use row::{ListedCode, NamedKernel};

/// Lists the kernels of all device code in a file.
///
/// Code objects are inflated as needed. If they are not compressed, only their tables are read. All processors read
/// code objects and inflate bundles.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListKernels {
    /// The code objects whose kernels are listed.
    pub selection: Selection,
    /// The options of the search. The job itself sets how much is inflated and which checksums are compared, whatever
    /// is set here.
    pub scan: Scan,
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
    /// [name](ContentKind::name) of the kind. Registers are assigned only when these are compiled.
    pub others: BTreeMap<&'static str, usize>,
    /// The code objects of the file, selected or not.
    pub seen: Seen,
    /// The parts of the file that could not be read, in file order.
    pub problems: Vec<Error>,
}

/// The kernels of a code object.
#[derive(Debug)]
#[non_exhaustive]
pub struct CodeObjectKernels {
    /// The code object.
    pub code_object: Arc<CodeObject>,
    /// The target ID that its content records.
    pub recorded_target: Option<String>,
    /// The kernels, in the order of the code object.
    pub kernels: Vec<Kernel>,
}

impl ListKernels {
    /// Lists the kernels of an open file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be read, or has changed. Broken parts are problems in the list.
    pub fn run(&self, input: &Input) -> Result<KernelList> {
        let (_, list) = self.read(input, Keep::Nothing)?;
        Ok(list)
    }

    /// Lists the kernels of an open file, and all of its device code as [`Inspect`](super::Inspect) does, by one
    /// search. Compressed bundles are inflated where kernels need it. Each problem is in one of them: parts that could
    /// not be read in the contents, and the others in the list.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_with_contents(&self, input: &Input) -> Result<(Contents, KernelList)> {
        self.read(input, Keep::All)
    }

    /// Reads a file, first without inflating compressed bundles, because their code objects are then read and inflated
    /// on all processors. If compressed bundles hold further bundles, reads it again and inflates them in the search.
    fn read(&self, input: &Input, keep: Keep) -> Result<(Contents, KernelList)> {
        // A deep search inflates everything, so the first reading would not be faster.
        let levels: &[_] = if self.scan.deep { &[Inflate::Whole] } else { &[Inflate::Headers, Inflate::Whole] };
        for inflate in levels {
            if let Some(read) = input.unless_changed(self.read_inflating(input, *inflate, keep))? {
                return Ok(read);
            }
        }
        Err(Error::internal("a search that inflates everything was incomplete"))
    }

    /// Reads a file once. Returns `None` if the result is incomplete: with [`Inflate::Headers`], if compressed bundles
    /// hold further bundles.
    fn read_inflating(&self, input: &Input, inflate: Inflate, keep: Keep) -> Result<Option<(Contents, KernelList)>> {
        let scan = Scan { inflate, checksums: Checksums::None, ..self.scan.clone() };
        let request = Request::new(&self.selection);
        let mut search = Search::new(&request, input, inflate);
        let list_kernels = if self.arguments { kernels::list_with_arguments } else { kernels::list };
        let read_bundle = &|together: CodeObjectsOfBundle<'_, Position, Arc<CodeObject>>| {
            contents(together, |code_object, code| {
                let read = KernelsOrKind::read(code_object, code.bytes(), list_kernels);
                // For progress reports, and to release the memory of the mapping.
                code.note_all_read();
                read
            })
        };
        let mut reading = Reading::new(&scan, keep);
        if inflate == Inflate::Headers {
            reading = reading.up_to_nested();
        }
        let mut bad_parts = Vec::new();
        let mut contents =
            reading.run(input, read_bundle, &|read| weight_of(read, KernelsOrKind::weight), &mut |visit| {
                match visit {
                    // The list of kernels is full. The reading goes on only for the contents.
                    Visit::Bundle(..) if search.room.is_full => {}
                    Visit::Bundle(number, found, wanted) => search.add_bundle(number, &found, wanted)?,
                    Visit::Bad(part) if keep == Keep::All => bad_parts.extend(part.into_error()),
                    Visit::Bad(part) => search.add_bad_part(part),
                    Visit::Split(..) | Visit::Archive(..) | Visit::Unread(_) | Visit::End(..) => {}
                    Visit::Read(codes) => codes.into_iter().for_each(|(at, code)| search.add_code(at, code)),
                }
                let needs_no_more = search.room.is_full && keep == Keep::Nothing;
                let is_over = search.is_incomplete || needs_no_more;
                Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        if search.is_incomplete || inflate == Inflate::Headers && contents.has_nested {
            return Ok(None);
        }
        contents.problems = bad_parts;
        Ok(Some((contents, search.into_list())))
    }
}

/// The position of a code object or an error in a file: the number of its finding, and the index of the entry in the
/// bundle. Results come in any order, and are sorted by position in the end.
type Position = (usize, usize);

/// The search in a file.
struct Search<'j> {
    request: &'j Request<'j>,
    input: &'j Input,
    inflate: Inflate,
    code_objects: Vec<(Position, CodeObjectKernels)>,
    problems: Vec<(Position, Error)>,
    others: BTreeMap<&'static str, usize>,
    seen: Seen,
    room: ListRoom,
    /// Whether the reading has missed code, so that only a search that inflates compressed bundles finds everything.
    is_incomplete: bool,
}

/// The result of reading a code object.
enum KernelsOrKind {
    /// The recorded target ID, and the kernels.
    Kernels(Option<String>, Vec<Kernel>),
    /// A code object of a kind without kernels.
    Other(ContentKind),
}

impl KernelsOrKind {
    /// Reads a code object. The kind of a code object in a compressed bundle is identified here, because the search did
    /// not inflate the bundle.
    fn read(
        code_object: &CodeObject,
        code: &[u8],
        list_kernels: fn(&[u8]) -> Result<Vec<Kernel>, Malformed>,
    ) -> Result<Self> {
        let kind = match code_object.kind {
            Some(kind) => kind,
            None => ContentKind::identify(bytes::slice(code, 0, ContentKind::HEAD_LEN).unwrap_or(code)),
        };
        // Kernels of other GPUs, such as Intel's, are not read.
        let is_for_other_gpu = elf_machine(code).is_some_and(|machine| ![EM_AMDGPU, EM_CUDA].contains(&machine));
        match kind {
            ContentKind::Elf | ContentKind::Cubin if !is_for_other_gpu => {
                Ok(Self::Kernels(target::target_id(code), locate_kernel_error(code_object, list_kernels(code))?))
            }
            other => Ok(Self::Other(other)),
        }
    }

    /// Returns the number of kernels, as the weight for [`Scan::read_with`].
    fn weight(&self) -> usize {
        if let Self::Kernels(_, kernels) = self { kernels.len() } else { 0 }
    }
}

impl<'j> Search<'j> {
    fn new(request: &'j Request<'j>, input: &'j Input, inflate: Inflate) -> Self {
        let (code_objects, problems, others) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (seen, room) = (Seen::default(), ListRoom::default());
        Self { request, input, inflate, code_objects, problems, others, seen, room, is_incomplete: false }
    }

    /// Adds the selected code objects of a bundle to the list `wanted` if they may have kernels, and counts the others.
    /// `number` is that of the finding in the file.
    fn add_bundle(
        &mut self,
        number: usize,
        found: &FoundBundle<'_>,
        wanted: &mut ReadList<Position, Arc<CodeObject>>,
    ) -> Result<()> {
        let (mut overlap_limit, bundle) = (OverlapLimit::new(found.bundle)?, found.info()?);
        for code_object in found.code_objects() {
            self.seen.add(code_object.id(), found.format, Facts::default());
            if !self.request.takes(&code_object.parsed_id()) {
                continue;
            }
            match code_object.recorded_kind().or_else(|| code_object.kind()) {
                Some(ContentKind::Elf | ContentKind::Cubin) => {}
                // The kind is identified when the bundle is inflated and the code object read.
                None if self.inflate == Inflate::Headers && found.bundle.compressed.is_some() => {}
                // The code objects in the archive are counted instead.
                Some(ContentKind::Archive) if found.format.has(Rule::KnownByContent) => continue,
                other => {
                    self.add_other(other.unwrap_or(ContentKind::Unknown), found.bundle.compressed.is_some());
                    continue;
                }
            }
            // Entries may overlap, so a small bundle could otherwise take very long to read.
            let position = (number, code_object.index());
            if let Err(error) = overlap_limit.charge(&code_object, self.input) {
                self.problems.push((position, error.at(found.place)));
                break;
            }
            wanted.add(Some(found), (position, Arc::new(code_object.keep(&bundle))));
        }
        Ok(())
    }

    /// Counts a code object that is not read for kernels. If it is a bundle in a compressed bundle, marks the search as
    /// incomplete unless the search inflates it.
    fn add_other(&mut self, kind: ContentKind, is_compressed: bool) {
        match kind {
            ContentKind::Empty => {}
            // The code objects in the inner bundle count, but the search finds them only if it inflates the outer one.
            ContentKind::Bundle | ContentKind::FatBinary => {
                self.is_incomplete |= is_compressed && self.inflate == Inflate::Headers;
            }
            kind => *self.others.entry(kind.name()).or_default() += 1,
        }
    }

    /// Adds the result of reading a code object: its kernels, a kind without kernels, or an error. Leaves kernels out
    /// when the list is full, which [`ListRoom::problem`] reports.
    fn add_code(&mut self, (position, code_object): (Position, Arc<CodeObject>), code: Result<KernelsOrKind>) {
        match code {
            Ok(KernelsOrKind::Kernels(recorded_target, mut kernels)) => {
                if !self.room.is_full && self.room.reserve_for(&mut kernels) {
                    self.code_objects.push((position, CodeObjectKernels { code_object, recorded_target, kernels }));
                }
            }
            Ok(KernelsOrKind::Other(kind)) => self.add_other(kind, code_object.bundle.compressed.is_some()),
            Err(error) => self.problems.push((position, error)),
        }
    }

    /// Adds the error of a part that could not be read, if it has one.
    fn add_bad_part(&mut self, part: BadPart) {
        let first_entry = 0;
        let position = (part.number, first_entry);
        self.problems.extend(part.into_error().map(|error| (position, error)));
    }

    /// Returns the list in file order. If it is full, that is a further problem.
    fn into_list(self) -> KernelList {
        let Self { input, others, mut seen, room, .. } = self;
        let (code_objects, mut problems) = (in_order(self.code_objects), in_order(self.problems));
        if let Some(problem) = room.problem(input) {
            // Code that was left out may match the rest of the selection.
            seen.leave_incomplete();
            problems.push(problem);
        }
        KernelList { code_objects, others, seen, problems }
    }
}

/// Returns items in the order of their positions.
pub(super) fn in_order<P: Ord + Copy, T>(mut items: Vec<(P, T)>) -> Vec<T> {
    items.sort_by_key(|(position, _)| *position);
    items.into_iter().map(|(_, item)| item).collect()
}

/// Adds the code object and its place to an error of reading kernels.
pub(super) fn locate_kernel_error<T>(code_object: &CodeObject, read: Result<T, Malformed>) -> Result<T> {
    read.map_err(|malformed| {
        let text = format!("the kernels of '{}' cannot be read: {malformed}", shown(&code_object.id));
        // The offset in the text counts from the code object.
        let malformed = Malformed::other(malformed.kind(), None, text);
        let place = &code_object.bundle.place;
        Error::malformed(place.file(), malformed).at(place)
    })
}

/// The remaining room in a list of the kernels of a file. The names of the same kernel for several GPUs share memory,
/// and so do equal lists of arguments.
pub(super) struct ListRoom {
    /// The names that are listed already, and the bytes that are left for others.
    names: HashSet<Arc<[u8]>>,
    names_left: Allowance,
    kernels_left: Allowance,
    /// The lists of arguments that are listed already, and the number of arguments that are left.
    lists: ArgumentLists,
    arguments_left: Allowance,
    /// Whether there was no room for some kernels.
    is_full: bool,
    /// Whether there was no room for the arguments of a kernel.
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
    /// Reserves room for kernels, and replaces their names and arguments by equal ones that are listed already. Returns
    /// whether there was room for all of them.
    pub(super) fn reserve_for(&mut self, kernels: &mut [Kernel]) -> bool {
        let is_taken = self.kernels_left.take(to_u64(kernels.len())).is_some()
            && kernels.iter_mut().all(|kernel| self.share_memory(kernel).is_some());
        self.is_full |= !is_taken;
        is_taken
    }

    /// Returns the problem that the list is full, or `None` if all kernels had room.
    pub(super) fn problem(&self, input: &Input) -> Option<Error> {
        if !self.is_full {
            return None;
        }
        let text = if self.is_full_of_arguments {
            format!(
                "the kernels have more than {FILE_ARGUMENTS_MAX} arguments, or {FILE_ARGUMENT_LISTS_MAX} bytes of different \
                 ones; the rest is not listed"
            )
        } else {
            format!(
                "more than {FILE_KERNELS_MAX} kernels, or {FILE_KERNEL_NAMES_MAX} bytes of names; the rest is not listed"
            )
        };
        Some(Error::malformed(input.path(), Malformed::other(ErrorKind::Limit, None, text)))
    }

    /// Replaces the name and the arguments of a kernel by equal ones that are listed already, so that they share
    /// memory. Returns `None` if a new name or new arguments have no room.
    fn share_memory(&mut self, kernel: &mut Kernel) -> Option<()> {
        let Kernel { name, arguments, .. } = kernel;
        match self.names.get(name) {
            Some(known) => *name = Arc::clone(known),
            None => {
                self.names_left.take(len_u64(name))?;
                self.names.insert(Arc::clone(name));
            }
        }
        if let Some(list) = arguments {
            let shared = match self.arguments_left.take(to_u64(list.len())) {
                Some(()) => self.lists.share(Arc::clone(list)),
                None => None,
            };
            self.is_full_of_arguments = shared.is_none();
            *list = shared?;
        }
        Some(())
    }
}
