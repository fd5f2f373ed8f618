//! Reads the contents of code objects that a search has found, on all processors.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::code_object::{BundleInfo, CodeObject, CodeObjectRef, Locator};
use super::found::{Finding, Format};
use super::place::{Origin, Place, Step};
use super::wide::Wide;
use super::{Checksums, Scan};
use crate::codec::Codec;
use crate::container::Part;
use crate::container::limits::{Allowance, SEARCHED_MAX};
use crate::container::packed::LastInflated;
use crate::container::sequence::{Bundle, Inflate};
use crate::error::{Error, ErrorKind, Malformed, Result};
use crate::io::input::{Input, Slice};
use crate::parallel;

/// How often the bytes of a bundle may be read as code objects, which may share them.
const SHARED_MAX: u64 = 4;

/// What was read of a code object, by its index among those that were asked for; or an error, with its place.
pub type ReadResults<T> = Vec<(usize, Result<T>)>;

/// Code objects that are read together, by their indices.
enum Task<'i> {
    /// One that lies in the file as it is.
    Here(usize, Slice<'i>),
    /// Those of one bundle, compressed on their own: the bytes of the bundle.
    Packed(Slice<'i>, Vec<usize>),
    /// Those of the bundle at an offset of the file, of which a part has to be inflated or restored.
    Bundle(u64, Vec<usize>),
}

/// How much of a bundle is left to be read as code objects.
#[derive(Debug)]
pub(crate) struct Shared {
    left: Allowance,
    offset: u64,
}

impl Shared {
    pub(crate) fn new(bundle: &Bundle<'_>) -> Result<Self> {
        Ok(Self { left: Allowance::new(bundle.full_len()?.saturating_mul(SHARED_MAX)), offset: bundle.offset })
    }

    /// Takes a code object of the bundle, which is one of `input`.
    ///
    /// # Errors
    /// That the code objects overlap too much.
    pub(crate) fn take(&mut self, code_object: &CodeObjectRef<'_>, input: &Input) -> Result<()> {
        let offset = self.offset;
        self.left.take(code_object.size()).ok_or_else(|| {
            let text = format!("code objects of the bundle at offset {offset} overlap too much; not all were read");
            Error::malformed(input.path(), Malformed::other(ErrorKind::Limit, offset, text))
        })
    }
}

impl CodeObject {
    /// The code object as it is stored in `input`, the file that was searched: its bytes, or its compressed form if it is
    /// compressed on its own. None if its bundle is compressed, or not in the file, or if it has to be restored.
    pub(crate) fn stored_in<'i>(&self, input: &'i Input) -> Option<Slice<'i>> {
        let bundle = self.bundle.slice_of(input).filter(|_| self.bundle.compressed.is_none())?;
        match (&self.packed, &self.range) {
            (Some(packed), _) => bundle.range(&packed.stored),
            (None, Some(range)) => input.slice(range.start, range.end.checked_sub(range.start)?),
            (None, None) => None,
        }
    }
}

impl BundleInfo {
    /// Its bytes in `input`, if they are in the searched file.
    fn slice_of<'i>(&self, input: &'i Input) -> Option<Slice<'i>> {
        let is_in_file = matches!(self.place.origin(), Origin::File(file) if file == input.path());
        input.slice(self.range.start, self.stored()).filter(|_| is_in_file)
    }

    /// Whether it is read again from its offset in the searched file.
    pub(crate) fn is_read_alone(&self, input: &Input) -> bool {
        self.format == Format::Bundle && self.slice_of(input).is_some()
    }
}

impl Scan {
    /// Reads the contents of code objects that a search of `input` with the same settings has found. `work` makes something
    /// of each. What is compressed together is inflated once, and all processors are used where the code is in the file
    /// itself; what is in members of zip files and packages takes another search of these. `weight` estimates the memory that a
    /// result takes, in units of a few hundred bytes: while results of more than 100,000 wait, nothing else is read. `take` gets the
    /// results of what was read together, first those of the file, in order; what it breaks off is not read. If a bundle cannot
    /// be inflated, that is an error of the first of its code objects.
    ///
    /// # Errors
    /// Those of another search.
    pub fn read<T: Send>(
        &self,
        input: &Input,
        wanted: &[&CodeObject],
        work: impl Fn(&CodeObject, Slice<'_>) -> Result<T> + Sync,
        weight: impl Fn(&T) -> usize + Sync,
        take: &mut dyn FnMut(ReadResults<T>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (tasks, elsewhere) = tasks(input, wanted);
        let reader = Reader { scan: self, input, wanted, work: &work };
        let weigh = |read: &ReadResults<T>| {
            read.iter().map(|(_, read)| read.as_ref().map_or(1, &weight)).fold(1, usize::saturating_add)
        };
        let is_over = parallel::in_order(
            tasks,
            |task| reader.task(task),
            weigh,
            |read| {
                for contents in read {
                    if take(contents).is_break() {
                        return true;
                    }
                }
                false
            },
        );
        if is_over || elsewhere.is_empty() { Ok(()) } else { reader.elsewhere(elsewhere, take) }
    }
}

/// What is read together, and the indices of what takes another search.
fn tasks<'i>(input: &'i Input, wanted: &[&CodeObject]) -> (Vec<Task<'i>>, Vec<usize>) {
    let (mut tasks, mut elsewhere) = (Vec::new(), Vec::new());
    let mut together: HashMap<_, usize> = HashMap::new();
    for (index, &code_object) in wanted.iter().enumerate() {
        let bundle = &code_object.bundle;
        let (task, compressed) = match (code_object.stored_in(input), code_object.packed.as_deref()) {
            (Some(slice), None) => {
                tasks.push(Task::Here(index, slice));
                continue;
            }
            (Some(_), Some(packed)) if packed.codec != Codec::Unknown => {
                (bundle.slice_of(input).map(|slice| Task::Packed(slice, Vec::new())), Some(&packed.stored))
            }
            _ => (bundle.is_read_alone(input).then(|| Task::Bundle(bundle.range.start, Vec::new())), None),
        };
        let Some(task) = task else {
            elsewhere.push(index);
            continue;
        };
        let at = *together.entry((Arc::as_ptr(bundle), compressed)).or_insert(tasks.len());
        tasks.extend((at == tasks.len()).then_some(task));
        if let Some(Task::Packed(_, indices) | Task::Bundle(_, indices)) = tasks.get_mut(at) {
            indices.push(index);
        }
    }
    (tasks, elsewhere)
}

struct Reader<'r, W> {
    scan: &'r Scan,
    input: &'r Input,
    wanted: &'r [&'r CodeObject],
    work: &'r W,
}

impl<W> Reader<'_, W> {
    fn task<T>(&self, task: Task<'_>) -> ReadResults<T>
    where
        W: Fn(&CodeObject, Slice<'_>) -> Result<T>,
    {
        match task {
            Task::Here(index, slice) => {
                let read = self.each(vec![index], |wanted| (self.work)(wanted, slice));
                slice.looked_at();
                read
            }
            Task::Packed(bundle, indices) => {
                let mut last = LastInflated::default();
                self.each(indices, |wanted| {
                    let packed =
                        wanted.packed.as_ref().ok_or_else(|| Error::internal("a code object is not compressed"))?;
                    let inflated = last.get(bundle, packed)?;
                    (self.work)(wanted, packed.slice_of(&inflated)?)
                })
            }
            Task::Bundle(offset, indices) => {
                match Wide::bundle_at(self.input, offset, Inflate::Headers, self.scan.limits) {
                    Ok(bundle) => self.of_bundle(&bundle, indices),
                    Err(error) => self.failed(&indices, error),
                }
            }
        }
    }

    fn each<T>(&self, indices: Vec<usize>, mut read: impl FnMut(&CodeObject) -> Result<T>) -> ReadResults<T> {
        let wanted = indices.into_iter().filter_map(|index| Some((index, *self.wanted.get(index)?)));
        wanted.map(|(index, wanted)| (index, read(wanted).map_err(|error| placed(error, wanted)))).collect()
    }

    /// Reads code objects of a bundle, which is inflated as a whole if it is compressed.
    fn of_bundle<T>(&self, bundle: &Bundle<'_>, indices: Vec<usize>) -> ReadResults<T>
    where
        W: Fn(&CodeObject, Slice<'_>) -> Result<T>,
    {
        let whole = match bundle.inflate_whole() {
            Ok(whole) => whole,
            Err(error) => return self.failed(&indices, error),
        };
        let mut last = LastInflated::default();
        self.each(indices, |wanted| {
            match (&whole, bundle.entries.get(wanted.entry).map(|entry| entry.parts.as_slice())) {
                (Some(whole), Some([Part::Range(range)])) => (self.work)(wanted, whole.as_slice().claimed(range)?),
                _ => (self.work)(wanted, bundle.content_after(wanted.entry, &mut last)?.as_slice()),
            }
        })
    }

    /// Reads code objects by another search. One that it does not find is an error.
    fn elsewhere<T>(&self, indices: Vec<usize>, take: &mut dyn FnMut(ReadResults<T>) -> ControlFlow<()>) -> Result<()>
    where
        W: Fn(&CodeObject, Slice<'_>) -> Result<T>,
    {
        let Self { scan, input, wanted, .. } = *self;
        let mut room = Allowance::new(scan.limits.nested.max(input.len().saturating_mul(SEARCHED_MAX)));
        let mut by_locator: HashMap<Locator<'_>, Cell<Vec<usize>>> = HashMap::new();
        for (index, wanted) in indices.into_iter().filter_map(|index| Some((index, *wanted.get(index)?))) {
            by_locator.entry(wanted.locator()).or_default().get_mut().push(index);
        }
        let mut left = by_locator.len();
        let members: HashSet<_> = by_locator.keys().map(|locator| top_member(locator.place)).collect();
        let scan = Scan { checksums: Checksums::None, ..scan.clone() };
        let mut flow = ControlFlow::Continue(());
        scan.run_in_members(input.as_slice(), &|name| members.contains(&Some(name)), &mut |finding| {
            let Finding::Bundle(found) = finding else { return Ok(flow) };
            let entries = 0..found.bundle.entries.len();
            let here: Vec<_> = entries.filter_map(|entry| by_locator.get(&found.locator(entry))).collect();
            if !here.is_empty() {
                left = left.saturating_sub(here.len());
                let indices = here.into_iter().flat_map(Cell::take).collect::<Vec<_>>();
                flow = take(match room.take(found.bundle.full_len()?) {
                    Some(()) => self.of_bundle(found.bundle, indices),
                    None => {
                        let error = Malformed::search("bytes to read", room.most(), found.bundle.offset);
                        self.failed(&indices, Error::malformed(input.path(), error))
                    }
                });
            }
            Ok(if left == 0 { ControlFlow::Break(()) } else { flow })
        })?;
        let mut missing: Vec<usize> = by_locator.into_values().flat_map(Cell::into_inner).collect();
        if flow.is_continue() && !missing.is_empty() {
            missing.sort_unstable();
            let _is_over = take(self.each(missing, |wanted| {
                let text = format!("the code object '{}' is not found again", wanted.shown_id());
                Err(Error::malformed(input.path(), Malformed::other(ErrorKind::NotFound, None, text)))
            }));
        }
        Ok(())
    }

    /// An error of the first of some code objects.
    fn failed<T>(&self, indices: &[usize], error: Error) -> ReadResults<T> {
        let first = indices.first().and_then(|&index| Some((index, *self.wanted.get(index)?)));
        first.map(|(index, wanted)| (index, Err(placed(error, wanted)))).into_iter().collect()
    }
}

/// An error of a code object, with its place.
fn placed(error: Error, wanted: &CodeObject) -> Error {
    error.at(&wanted.bundle.place)
}

/// The member of a zip file that holds a place.
pub(crate) fn top_member(place: &Place) -> Option<&[u8]> {
    match place.steps().first() {
        Some(Step::Member(name)) => Some(name),
        _ => None,
    }
}
