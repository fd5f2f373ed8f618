//! Lists the kernels of all device code in a file.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

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
    Checksums, CodeObject, ContentKind, Finding, Follow, Found, Place, Provenance, Scan, Selection, recorded_target,
};

/// Lists the kernels of all device code in a file.
///
/// Code objects are inflated as needed. Those that are not compressed are read on all processors, and only their tables
/// are read.
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
        let scan = Scan { inflate: Inflate::Whole, checksums: Checksums::None, deep: self.deep, limits: self.limits };
        let mut search = Search { job: self, input, found: Vec::new(), others: BTreeMap::new(), room: Room::default() };
        let scanned = scan.run_following(input, self.follow.as_ref(), &mut |finding| {
            match finding {
                Finding::Bundle(found) => search.bundle(&found)?,
                Finding::Broken { error: error @ Error::Io { .. }, .. } => return Err(error),
                Finding::Broken { place, error } | Finding::Hidden { place, error } => search.problem(place, error),
                _ => {}
            }
            Ok(())
        });
        input.vouch_for(scanned.map(|()| search.finish()))
    }
}

/// The search in a file.
struct Search<'j> {
    job: &'j ListKernels,
    input: &'j Input,
    found: Vec<Step<'j>>,
    others: BTreeMap<&'static str, usize>,
    room: Room,
}

/// A step of the search.
enum Step<'j> {
    /// A code object, with bytes of the file that are read later.
    Later(Provenance, &'j [u8]),
    /// A code object, or a problem.
    Done(Result<CodeObjectKernels>),
}

impl<'j> Search<'j> {
    fn problem(&mut self, place: &Place, error: Error) {
        self.found.push(Step::Done(Err(error.at(place))));
    }

    fn bundle(&mut self, found: &Found<'_>) -> Result<()> {
        let mut left = Allowance::new(found.bundle.full_len()?.saturating_mul(SHARED_MAX));
        let mut last = LastInflated::default();
        let place = Arc::new(found.place.clone());
        for code_object in found.code_objects() {
            if !self.job.selection.takes_id(&code_object.known_id()) {
                continue;
            }
            match code_object.recorded_kind().or_else(|| code_object.kind()) {
                Some(ContentKind::Elf | ContentKind::Cubin) => {}
                // It is searched too.
                Some(ContentKind::Bundle | ContentKind::FatBinary | ContentKind::Empty) => continue,
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

    /// Reads what is left to read, and lists all in file order.
    fn finish(self) -> KernelList {
        let Self { found, others, mut room, input, .. } = self;
        let work = |step| match step {
            Step::Later(from, code) => (true, read(from, code)),
            Step::Done(done) => (false, done),
        };
        let weight = |(_, read): &(bool, Result<CodeObjectKernels>)| read.as_ref().map_or(1, |read| read.kernels.len());
        let mut list = KernelList { others, ..KernelList::default() };
        parallel::in_order(found, work, weight, |results| {
            for (is_new, read) in results {
                match read {
                    Ok(code_object) if is_new => list.code_objects.extend(room.take(code_object)),
                    Ok(code_object) => list.code_objects.push(code_object),
                    Err(error) => list.problems.push(error),
                }
                if room.is_full {
                    break;
                }
            }
        });
        if room.is_full {
            let text = format!(
                "more than {FILE_KERNELS_MAX} kernels, or {FILE_KERNEL_NAMES_MAX} bytes of names; the rest is not listed"
            );
            list.problems.push(Error::malformed(input.path(), Malformed::other(ErrorKind::Limit, None, text)));
        }
        list
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
    match kernels::of(code) {
        Ok(kernels) => Ok(CodeObjectKernels { recorded_target: recorded_target(code), from, kernels }),
        Err(malformed) => {
            let text = format!("the kernels of '{}' cannot be read: {malformed}", shown(&from.id));
            let malformed = Malformed::other(malformed.kind(), malformed.offset(), text);
            Err(Error::malformed(from.place.file(), malformed).at(&from.place))
        }
    }
}

/// The rest of what may be listed for a file. The names of the same kernel for several GPUs share memory.
struct Room {
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
        let count = to_u64(code_object.kernels.len());
        let is_taken = self.kernels_left.take(count).is_some()
            && code_object.kernels.iter_mut().all(|kernel| self.share(&mut kernel.name).is_some());
        self.is_full |= !is_taken;
        is_taken.then_some(code_object)
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
