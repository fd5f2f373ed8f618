//! Lists the kernels of all device code in a file.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::base::bytes::{self, len_u64, to_u64};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::base::io::input::Input;
use crate::beyond::code::ContentKind;
use crate::beyond::code::kernels::{self, ArgumentLists, Kernel};
use crate::beyond::code::target;
use crate::beyond::inventory::pick::Seen;
use crate::beyond::inventory::request::{Facts, Request, Selection};
use crate::beyond::inventory::{Contents, ContentsBuilder};
use crate::beyond::limits::{FILE_ARGUMENT_LISTS_MAX, FILE_ARGUMENTS_MAX, FILE_KERNEL_NAMES_MAX, FILE_KERNELS_MAX};
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectsOfBundle, Finding, FoundBundle, OverlapLimit, Place, ReadEvent, ReadList, Scan,
    contents, weight_of,
};
use crate::llvm::container::limits::Allowance;
use crate::llvm::container::sequence::Inflate;

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
        self.list_and_inspect(input, &mut None)
    }

    /// Lists the kernels of an open file, and all of its device code as [`Inspect`](super::Inspect) does, by one
    /// search. Compressed bundles are inflated where kernels need it. Problems are in the list of kernels.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_with_contents(&self, input: &Input) -> Result<(Contents, KernelList)> {
        let mut inventory = Some(ContentsBuilder::new(input));
        let list = self.list_and_inspect(input, &mut inventory)?;
        Ok((inventory.unwrap_or_default().finish(), list))
    }

    /// Lists the kernels, and adds all findings to `inventory`, unless that is `None`.
    fn list_and_inspect(&self, input: &Input, inventory: &mut Option<ContentsBuilder>) -> Result<KernelList> {
        input.unless_changed(self.search(input, inventory))
    }

    /// Searches first without inflating compressed bundles, because their code objects are then read and inflated on
    /// all processors. If compressed bundles hold further bundles, searches again and inflates them in the search.
    fn search(&self, input: &Input, inventory: &mut Option<ContentsBuilder>) -> Result<KernelList> {
        // A deep search inflates everything, so the first search would not be faster.
        if !self.scan.deep
            && let Some(list) = self.search_inflating(input, Inflate::Headers, inventory)?
        {
            return Ok(list);
        }
        // A search that inflates everything is never incomplete.
        Ok(self.search_inflating(input, Inflate::Whole, inventory)?.unwrap_or_default())
    }

    /// Lists the kernels by one search, or returns `None` if it is incomplete. A search with [`Inflate::Headers`] is
    /// incomplete if compressed bundles hold more than code objects.
    fn search_inflating(
        &self,
        input: &Input,
        inflate: Inflate,
        inventory: &mut Option<ContentsBuilder>,
    ) -> Result<Option<KernelList>> {
        // Forget the findings of an incomplete search.
        if let Some(inventory) = inventory {
            *inventory = ContentsBuilder::new(input);
        }
        let scan = Scan { inflate, checksums: Checksums::None, ..self.scan.clone() };
        let request = Request::new(&self.selection);
        let mut search = Search::new(&request, input, inflate);
        let reader = if self.arguments { kernels::list_with_arguments } else { kernels::list };
        let read = &|together: CodeObjectsOfBundle<'_, usize, Arc<CodeObject>>| {
            contents(together, |code_object, code| {
                let read = ListedCode::read(code_object, code.bytes(), reader);
                // For progress reports, and to release the memory of the mapping.
                code.note_all_read();
                read
            })
        };
        scan.run_and_read(input, read, &|read| weight_of(read, ListedCode::weight), &mut |step| {
            if let (ReadEvent::Found(finding, _), Some(inventory)) = (&step, &mut *inventory) {
                inventory.add(finding)?;
            }
            match step {
                ReadEvent::Found(finding, _) if search.needs_inflating(&finding) => search.is_incomplete = true,
                // The list of kernels is full. The search goes on only for `inventory`.
                ReadEvent::Found(Finding::Bundle(_), _) if search.room.is_full => {}
                ReadEvent::Found(Finding::Bundle(found), wanted) => search.add_bundle(&found, wanted)?,
                ReadEvent::Found(Finding::Broken { error, .. }, _) if error.is_io() => return Err(error),
                ReadEvent::Found(Finding::Broken { place, error } | Finding::Hidden { place, error }, _) => {
                    search.add_problem(error.at(place));
                }
                ReadEvent::Found(..) | ReadEvent::End(..) => {}
                ReadEvent::Read(codes) => {
                    for (code_object, code) in codes {
                        search.add_code(code_object, code);
                    }
                }
            }
            // `inventory` needs all findings, even if the list of kernels is full.
            let needs_no_more = search.room.is_full && inventory.is_none();
            let is_over = search.is_incomplete || needs_no_more;
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if search.is_incomplete { Ok(None) } else { Ok(Some(search.into_list())) }
    }
}

/// The search in a file.
struct Search<'j> {
    request: &'j Request<'j>,
    input: &'j Input,
    inflate: Inflate,
    /// The number of code objects and problems so far. Each gets the next number, so that the results, which come in
    /// another order, can be sorted.
    found: usize,
    code_objects: Vec<(usize, CodeObjectKernels)>,
    problems: Vec<(usize, Error)>,
    others: BTreeMap<&'static str, usize>,
    seen: Seen,
    room: ListRoom,
    /// The place of the last compressed bundle. Findings inside of its code objects follow it.
    compressed: Option<Place>,
    /// Whether the search has missed code, so that only a search that inflates compressed bundles finds everything.
    is_incomplete: bool,
}

/// The kernels that were read of a code object.
enum ListedCode {
    /// The recorded target ID, and the kernels.
    Kernels(Option<String>, Vec<Kernel>),
    /// A code object of a kind without kernels.
    Other(ContentKind),
}

impl ListedCode {
    /// Reads a code object with the function `read`. The kind of a code object in a compressed bundle is identified
    /// here, because the search did not inflate the bundle.
    fn read(code_object: &CodeObject, code: &[u8], read: fn(&[u8]) -> Result<Vec<Kernel>, Malformed>) -> Result<Self> {
        let kind = match code_object.kind {
            Some(kind) => kind,
            None => ContentKind::identify(bytes::slice(code, 0, ContentKind::HEAD_LEN).unwrap_or(code)),
        };
        match kind {
            ContentKind::Elf | ContentKind::Cubin => {
                Ok(Self::Kernels(target::target_id(code), locate_kernel_error(code_object, read(code))?))
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
        let (compressed, is_incomplete) = (None, false);
        Self {
            request,
            input,
            inflate,
            found: 0,
            code_objects,
            problems,
            others,
            seen,
            room,
            compressed,
            is_incomplete,
        }
    }

    /// Returns whether a finding is inside of a code object of a compressed bundle. A search without inflating then
    /// finds only a part of the bundle, and is incomplete. Code objects that are compressed one by one are inflated by
    /// every search that looks for others in them.
    fn needs_inflating(&mut self, finding: &Finding<'_>) -> bool {
        if self.inflate != Inflate::Headers {
            return false;
        }
        // The search inflates only the beginning of a compressed bundle, and may find a further bundle there.
        let place = match finding {
            Finding::Bundle(FoundBundle { place, .. })
            | Finding::Broken { place, .. }
            | Finding::Hidden { place, .. } => *place,
            _ => return false,
        };
        if self.compressed.as_ref().is_some_and(|outer| place.is_in_entry_at(outer)) {
            return true;
        }
        if let Finding::Bundle(found) = finding
            && found.bundle.compressed.is_some()
        {
            self.compressed = Some(place.clone());
        }
        false
    }

    fn next_number(&mut self) -> usize {
        self.found += 1;
        self.found
    }

    fn add_problem(&mut self, error: Error) {
        let number = self.next_number();
        self.problems.push((number, error));
    }

    /// Adds the selected code objects of a bundle to the list `wanted` if they may have kernels, and counts the others.
    fn add_bundle(&mut self, found: &FoundBundle<'_>, wanted: &mut ReadList<usize, Arc<CodeObject>>) -> Result<()> {
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
                other => {
                    self.add_other(other.unwrap_or(ContentKind::Unknown), found.bundle.compressed.is_some());
                    continue;
                }
            }
            // Entries may overlap, so a small bundle could otherwise take very long to read.
            if let Err(error) = overlap_limit.charge(&code_object, self.input) {
                self.add_problem(error.at(found.place));
                break;
            }
            let (number, code_object) = (self.next_number(), Arc::new(code_object.keep(&bundle)));
            wanted.add(Some(found), (number, code_object));
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
    fn add_code(&mut self, (number, code_object): (usize, Arc<CodeObject>), code: Result<ListedCode>) {
        match code {
            Ok(ListedCode::Kernels(recorded_target, mut kernels)) => {
                if !self.room.is_full && self.room.reserve_for(&mut kernels) {
                    self.code_objects.push((number, CodeObjectKernels { code_object, recorded_target, kernels }));
                }
            }
            Ok(ListedCode::Other(kind)) => self.add_other(kind, code_object.bundle.compressed.is_some()),
            Err(error) => self.problems.push((number, error)),
        }
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

/// Returns items in the order of their numbers.
pub(super) fn in_order<T>(mut items: Vec<(usize, T)>) -> Vec<T> {
    items.sort_unstable_by_key(|(number, _)| *number);
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
