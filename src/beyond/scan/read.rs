//! Reads the contents of code objects that a search has found, on all processors.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::BundleReader;
use super::code_object::{BundleInfo, CodeObject, CodeObjectRef};
use super::found::{Finding, FoundBundle, WalkEvent};
use super::place::{Place, PlaceOrigin, Step};
use super::walk::MemberFilter;
use super::{Checksums, Scan};
use crate::base::bytes::len_u64;
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::base::io::input::{Input, Slice};
use crate::beyond::container::packed::LastInflated;
use crate::beyond::container::{Bundle, Magic, SearchBundles, SearchEntry, Stored};
use crate::beyond::limits::{SEARCHED_MAX, SHARED_MAX};
use crate::beyond::parallel;
use crate::llvm::container::limits::Allowance;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::{Contents, Limits};

/// Copies the content of a code object: the simplest `work` for [`Scan::read_with`].
pub(crate) fn copy_bytes(_: &CodeObject, code: Slice<'_>) -> Result<Vec<u8>> {
    Ok(code.bytes().to_vec())
}

/// Returns the weight of a content copied by [`copy_bytes`].
#[allow(clippy::ptr_arg, reason = "the weight is that of a result, which is a vector")]
pub(crate) fn weight_of_bytes(bytes: &Vec<u8>) -> usize {
    parallel::weight_of_len(len_u64(bytes))
}

/// The results for some of the wanted code objects: the index of the code object among all wanted ones, and the result
/// of its `work`, or an error with its place.
type ReadResults<T> = Vec<(usize, Result<T>)>;

/// A limit on the bytes of a bundle that are read as code objects, which may share them.
#[derive(Debug)]
pub(crate) struct OverlapLimit {
    left: Allowance,
    /// The offset of the bundle, for errors.
    offset: u64,
}

impl OverlapLimit {
    /// Returns the limit for a bundle.
    ///
    /// # Errors
    /// The errors of finding the length of the bundle.
    pub(crate) fn new(bundle: &Bundle<'_>) -> Result<Self> {
        Ok(Self { left: Allowance::new(bundle.full_len()?.saturating_mul(SHARED_MAX)), offset: bundle.offset })
    }

    /// Charges a code object of the bundle. `input` is the file for the error.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the code objects overlap too much.
    pub(crate) fn charge(&mut self, code_object: &CodeObjectRef<'_>, input: &Input) -> Result<()> {
        if self.try_charge(code_object) {
            return Ok(());
        }
        let offset = self.offset;
        let text = format!("code objects of the bundle at offset {offset} overlap too much; not all were read");
        Err(Error::malformed(input.path(), Malformed::other(ErrorKind::Limit, offset, text)))
    }

    /// Charges a code object of the bundle. Returns whether the limit permits it.
    pub(crate) fn try_charge(&mut self, code_object: &CodeObjectRef<'_>) -> bool {
        self.left.take(code_object.size()).is_some()
    }
}

impl CodeObject {
    /// Returns the code object as it is stored in `input`, the searched file: its bytes, or its compressed form if it
    /// is compressed on its own. Returns `None` if its bundle is compressed, or not in the file, or if it has to be
    /// restored.
    pub(crate) fn stored_in<'i>(&self, input: &'i Input) -> Option<Slice<'i>> {
        if !self.bundle.is_in(input) {
            return None;
        }
        self.bundle.rest_of(input.as_slice())?.range(self.stored_part()?.range()?)
    }

    /// Returns the location of the code object in its bundle, or `None` if the bundle is compressed, or if the code
    /// object has to be restored.
    fn stored_part(&self) -> Option<Stored> {
        match (self.bundle.compressed, &self.packed, &self.range) {
            (None, Some(packed), _) => Some(Stored::Packed((**packed).clone())),
            (None, None, Some(range)) => {
                // The range counts from the start of the file, and the location from the start of the bundle.
                let base = self.bundle.range.start;
                Some(Stored::Range(range.start.checked_sub(base)?..range.end.checked_sub(base)?))
            }
            _ => None,
        }
    }
}

impl BundleInfo {
    /// Returns whether the bytes of the bundle are in `input`, the searched file.
    pub(crate) fn is_in(&self, input: &Input) -> bool {
        matches!(self.place.origin(), PlaceOrigin::File(file) if file == input.path())
    }

    /// Returns the part of `data` from the start of the bundle on, or `None` if `data` is shorter now. `data` is the
    /// file or inflated data that has the bundle.
    fn rest_of<'d>(&self, data: Slice<'d>) -> Option<Slice<'d>> {
        data.tail(self.range.start.checked_sub(data.offset())?)
    }
}

/// Code objects that a search has to read. They are read while their bytes are there: members and bundles are inflated
/// only for a part of the search.
///
/// `Key` is what the caller wants to have beside the result, such as the position of the code object. `Code` is an
/// owned or shared [`CodeObject`].
pub(crate) struct ReadList<Key, Code> {
    /// Code objects that can be read only during the visit of their bundle, because it was inflated, with their indices
    /// in the bundle.
    during_visit: Vec<(usize, (Key, Code))>,
    /// Code objects that are read at the end of the data that has them, by the place of that data.
    at_data_end: HashMap<Place, Vec<(Key, Code)>>,
}

impl<Key, Code: Borrow<CodeObject>> ReadList<Key, Code> {
    /// Adds a code object of the bundle that is being visited, or of a bundle that was visited before in the same data.
    /// It is read at once if that needs the visited bundle, otherwise at the end of the data.
    pub(crate) fn add(&mut self, visited: Option<&FoundBundle<'_>>, wanted: (Key, Code)) {
        let code_object = code_object_of(&wanted);
        let index = code_object.entry;
        if let Some(found) = visited
            && found.locator(index) == code_object.locator()
            && found.bundle.is_needed_for(index)
        {
            self.during_visit.push((index, wanted));
        } else {
            self.at_data_end.entry(code_object.bundle.place.data()).or_default().push(wanted);
        }
    }
}

/// An event in a search that also reads code objects. `Made` is what the caller makes of the contents of code objects
/// that are read together.
pub(crate) enum ReadEvent<'f, Key, Code, Made> {
    /// A finding. The receiver adds the code objects of the finding that it wants to the list.
    Found(Finding<'f>, &'f mut ReadList<Key, Code>),
    /// The end of the data at a place: the last chance to add code objects of that data to the list.
    End(&'f Place, &'f mut ReadList<Key, Code>),
    /// The result for wanted code objects that were read together.
    Read(Made),
}

/// The receiver of events. If it breaks off, the search ends without an error.
pub(crate) type ReadVisitor<'e, Key, Code, Made> =
    dyn FnMut(ReadEvent<'_, Key, Code, Made>) -> Result<ControlFlow<()>> + 'e;

/// Wanted code objects to be read together: their bundle, or the error of reading it, and the code objects with their
/// indices in the bundle.
pub(crate) type CodeObjectsOfBundle<'b, Key, Code> = (Result<&'b Bundle<'b>>, Vec<(usize, (Key, Code))>);

impl Scan {
    /// Searches a file, and reads the code objects that `each` adds to the list.
    ///
    /// - `members` accepts the names of the members of a zip file that are searched; all are if it is `None`.
    /// - `each` receives the findings, the ends of data, and the results of `read`.
    /// - `read` makes a result of code objects that are read together. Those of an inflated bundle are read when `each`
    ///   returns from the visit of it, all others at the end of the data that has them, on all processors.
    /// - `weight` estimates the memory that a result takes: see [`parallel::in_order`].
    ///
    /// # Errors
    /// The errors of the search, and of `each`.
    pub(crate) fn run_in_members_and_read<Key: Send, Code: Borrow<CodeObject> + Send, Made: Send>(
        &self,
        input: &Input,
        members: Option<&mut MemberFilter<'_>>,
        read: &(impl Fn(CodeObjectsOfBundle<'_, Key, Code>) -> Made + Sync),
        weight: &(impl Fn(&Made) -> usize + Sync),
        each: &mut ReadVisitor<'_, Key, Code, Made>,
    ) -> Result<()> {
        let mut list = ReadList { during_visit: Vec::new(), at_data_end: HashMap::new() };
        let mut budget = ReadBudget::new(input, self.limits);
        self.walk(input.as_slice(), members, &mut |event| match event {
            WalkEvent::Found(Finding::Bundle(found)) => {
                let bundle = found.bundle;
                let flow = each(ReadEvent::Found(Finding::Bundle(found), &mut list))?;
                // `each` has added code objects to the list. Those in `during_visit` are read now, because the bundle
                // stays inflated only during its visit.
                let during_visit = mem::take(&mut list.during_visit);
                if during_visit.is_empty() { Ok(flow) } else { each(ReadEvent::Read(read((Ok(bundle), during_visit)))) }
            }
            WalkEvent::Found(finding) => each(ReadEvent::Found(finding, &mut list)),
            WalkEvent::End(place, data) => {
                let flow = each(ReadEvent::End(place, &mut list))?;
                let Some(wanted) = list.at_data_end.remove(place) else { return Ok(flow) };
                budget.add_other_file(place, data);
                // A small file may inflate to many bundles that share bytes, so these are limited together.
                let wanted = if *place.origin() == PlaceOrigin::Inflated {
                    budget.sort_affordable(wanted)
                } else {
                    ChargedCode::all_affordable(wanted)
                };
                self.read_in(data, wanted, read, weight, &mut |made| each(ReadEvent::Read(made)))
            }
        })
    }

    /// Reads code objects that are in some data, and passes the results to `take`, in order. The errors of code objects
    /// that exceed the budget follow. Returns whether `take` wants more.
    ///
    /// `read` is called for each group of code objects of one bundle that are read together, or with the error of the
    /// bundle, and returns the result.
    /// `weight` estimates the memory of a result.
    fn read_in<Key: Send, Code: Borrow<CodeObject> + Send, Made: Send>(
        &self,
        data: Slice<'_>,
        wanted: ChargedCode<Key, Code>,
        read: &(impl Fn(CodeObjectsOfBundle<'_, Key, Code>) -> Made + Sync),
        weight: &(impl Fn(&Made) -> usize + Sync),
        take: &mut dyn FnMut(Made) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = parallel::in_order(
            group_by_bytes(wanted.affordable),
            |task| self.read_together(data, task, read),
            weight,
            |results| -> Result<_> {
                for result in results {
                    if take(result)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        for (error, code_objects) in wanted.refused {
            if flow.is_break() {
                break;
            }
            flow = take(read((Err(error), indexed(code_objects))))?;
        }
        Ok(flow)
    }

    /// Makes the result for some code objects of one bundle. If each of them is stored on its own, their kept locations
    /// are enough. Otherwise the bundle is opened again.
    fn read_together<Key, Code: Borrow<CodeObject>, Made>(
        &self,
        data: Slice<'_>,
        wanted: Vec<(Key, Code)>,
        read: impl Fn(CodeObjectsOfBundle<'_, Key, Code>) -> Made,
    ) -> Made {
        let info = wanted.first().map(|first| Arc::clone(&code_object_of(first).bundle));
        // If the file became shorter and ends before the bundle, reading from an empty slice gives the error.
        let rest = info.as_ref().and_then(|info| info.rest_of(data)).unwrap_or(Slice::from(&[][..]));
        let result = if let Some(entries) = stored_entries(&wanted) {
            // This stand-in for the bundle has the wanted entries alone, so their indices count from 0.
            let bundle = Bundle::plain_within(rest, Contents::new(entries, rest.len()), self.limits);
            read((Ok(&bundle), wanted.into_iter().enumerate().collect()))
        } else {
            match self.reopen(rest, info.as_deref()) {
                Ok(bundle) => read((Ok(&bundle), indexed(wanted))),
                Err(error) => read((Err(error), indexed(wanted))),
            }
        };
        // Headers of many bundles may be read from gigabytes of data. Noting them releases their memory in time.
        rest.note_header_read();
        result
    }

    /// Reads the headers of the bundle at the start of `rest` again. `info` is what the search kept of it. Without that,
    /// the length of the bundle is not limited.
    fn reopen<'d>(&self, rest: Slice<'d>, info: Option<&BundleInfo>) -> Result<Bundle<'d>> {
        let container = BundleReader::for_magic(Magic::identify(rest.bytes())).container;
        let data = info.and_then(|info| rest.slice(0, info.stored())).unwrap_or(rest);
        match SearchBundles::new(data, container, Inflate::Headers).with_limits(self.limits).next() {
            Some(bundle) => bundle,
            None => {
                let gone = Malformed::fault("the bundle", data.offset(), " is no longer there");
                Err(Error::malformed(data.path(), gone))
            }
        }
    }

    /// Reads code objects that a search of `input` with the same settings has found, on all processors. Passes the bytes
    /// of each to `take`, with its index in `wanted`, until `take` breaks off. The code objects in the file itself come
    /// first, in order. If a bundle cannot be inflated, the first of its code objects has the error, and the others are
    /// not passed on.
    ///
    /// # Errors
    /// The errors of another search, which finds code objects in members of zip files and packages.
    pub fn read(
        &self,
        input: &Input,
        wanted: &[&CodeObject],
        take: &mut dyn FnMut(usize, Result<Vec<u8>>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.read_with(input, wanted, copy_bytes, weight_of_bytes, &mut |results| {
            for (index, bytes) in results {
                take(index, bytes)?;
            }
            ControlFlow::Continue(())
        })
    }

    /// Reads code objects as [`read`](Self::read) does, and processes them on the reading threads.
    ///
    /// - `work` makes a result of each content. Code objects that are compressed together are inflated once. Code objects
    ///   in members of zip files and packages are found by another search of these members.
    /// - `weight` estimates the memory that a result takes, which limits how much is read ahead: see
    ///   [`parallel::in_order`].
    /// - `take` gets the results of code objects that were read together, first those in the file itself, in order. If it
    ///   breaks off, nothing more is read.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub(crate) fn read_with<T: Send>(
        &self,
        input: &Input,
        wanted: &[&CodeObject],
        work: impl Fn(&CodeObject, Slice<'_>) -> Result<T> + Sync,
        weight: impl Fn(&T) -> usize + Sync,
        take: &mut dyn FnMut(ReadResults<T>) -> ControlFlow<()>,
    ) -> Result<()> {
        let all = wanted.iter().copied().enumerate();
        let (in_file, elsewhere): (Vec<_>, Vec<_>) = all.partition(|(_, code_object)| code_object.bundle.is_in(input));
        let read = |together: CodeObjectsOfBundle<'_, usize, &CodeObject>| {
            let contents = contents(together, |code_object, code| work(code_object, code));
            contents.into_iter().map(|((index, _), content)| (index, content)).collect::<ReadResults<T>>()
        };
        let weigh = |read: &ReadResults<T>| weight_of(read, &weight);
        let take = &mut |read| Ok(take(read));
        let flow = self.read_in(input.as_slice(), ChargedCode::all_affordable(in_file), &read, &weigh, take)?;
        if flow.is_break() || elsewhere.is_empty() {
            return Ok(());
        }
        self.read_elsewhere(input, elsewhere, &read, &weigh, take)
    }

    /// Reads code objects in members of zip files and packages, by another search of these members. A code object that
    /// the search does not find again has an error as its result. Each code object of `wanted` has its index in the
    /// caller's list. `read` makes the results of code objects that are read together, `weight` estimates their memory,
    /// and `take` gets them.
    fn read_elsewhere<T: Send>(
        &self,
        input: &Input,
        wanted: Vec<(usize, &CodeObject)>,
        read: &(impl Fn(CodeObjectsOfBundle<'_, usize, &CodeObject>) -> ReadResults<T> + Sync),
        weight: &(impl Fn(&ReadResults<T>) -> usize + Sync),
        take: &mut dyn FnMut(ReadResults<T>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut budget = ReadBudget::new(input, self.limits);
        let mut by_data: HashMap<Place, Vec<(usize, &CodeObject)>> = HashMap::new();
        let members: HashSet<_> = wanted.iter().map(|(_, code_object)| top_member(&code_object.bundle.place)).collect();
        for (index, code_object) in wanted {
            by_data.entry(code_object.bundle.place.data()).or_default().push((index, code_object));
        }
        // The search that found the code objects has compared the checksums already, if it had to.
        let scan = Self { checksums: Checksums::None, ..self.clone() };
        let mut flow = ControlFlow::Continue(());
        let mut is_searched = |name: &[u8]| members.contains(&Some(name));
        scan.walk(input.as_slice(), Some(&mut is_searched), &mut |visit| {
            if let WalkEvent::End(place, data) = visit
                && flow.is_continue()
                && let Some(wanted) = by_data.remove(place)
            {
                budget.add_other_file(place, data);
                // A small file may inflate to many bundles that share bytes, so these are limited together.
                flow = self.read_in(data, budget.sort_affordable(wanted), read, weight, take)?;
            }
            // The search ends as soon as all code objects are found.
            Ok(if by_data.is_empty() { ControlFlow::Break(()) } else { flow })
        })?;
        // If `take` broke off, the rest is not missing: nobody wants it.
        if flow.is_break() {
            return Ok(());
        }
        let mut missing: Vec<_> = by_data.into_values().flatten().collect();
        missing.sort_unstable_by_key(|(index, _)| *index);
        for (index, code_object) in missing {
            let text = format!("the code object '{}' is not found again", code_object.shown_id());
            let error = Error::malformed(input.path(), Malformed::other(ErrorKind::NotFound, None, text));
            // Without a bundle, nothing uses the index in it.
            let unused_index = 0;
            if take(read((Err(error), vec![(unused_index, (index, code_object))])))?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the code object of a pair of key and code object.
fn code_object_of<Key, Code: Borrow<CodeObject>>((_, code_object): &(Key, Code)) -> &CodeObject {
    code_object.borrow()
}

/// Wanted code objects, sorted by whether the budget allows reading their bundles.
struct ChargedCode<Key, Code> {
    affordable: Vec<(Key, Code)>,
    /// For each bundle that exceeds the budget, the error and the code objects.
    refused: Vec<(Error, Vec<(Key, Code)>)>,
}

impl<Key, Code> ChargedCode<Key, Code> {
    /// Returns all code objects as affordable, without a charge: the bundles of a file itself are not limited together.
    fn all_affordable(wanted: Vec<(Key, Code)>) -> Self {
        Self { affordable: wanted, refused: Vec::new() }
    }
}

/// A limit on the bytes of bundles that are read again. Bundles may share bytes, so the sum of their sizes may exceed
/// the length of the data by far.
struct ReadBudget<'i> {
    /// The file for errors.
    path: &'i Path,
    /// The bytes that may still be read.
    left: Allowance,
}

impl<'i> ReadBudget<'i> {
    /// Returns the limit for a file: the number of bytes that the search of it may read.
    fn new(input: &'i Input, limits: Limits) -> Self {
        let left = Allowance::new(limits.nested.max(input.len().saturating_mul(SEARCHED_MAX)));
        Self { path: input.path(), left }
    }

    /// Raises the limit for `data` if that is another file, which the searched file names. Otherwise does nothing.
    fn add_other_file(&mut self, place: &Place, data: Slice<'_>) {
        if place.other_file().is_some() {
            self.left.add(data.len().saturating_mul(SEARCHED_MAX));
        }
    }

    /// Charges the bundles of some code objects, each once, and sorts the code objects by whether their bundle is
    /// affordable. The code objects of a bundle follow one another.
    fn sort_affordable<Key, Code: Borrow<CodeObject>>(&mut self, wanted: Vec<(Key, Code)>) -> ChargedCode<Key, Code> {
        let mut charged = ChargedCode { affordable: Vec::with_capacity(wanted.len()), refused: Vec::new() };
        // The bundle of the previous code object, and whether the bundle is affordable.
        let (mut previous, mut is_affordable) = (None::<Arc<BundleInfo>>, true);
        for wanted in wanted {
            let bundle = &code_object_of(&wanted).bundle;
            let is_charged = matches!(&previous, Some(previous) if Arc::ptr_eq(previous, bundle));
            if !is_charged {
                let result = self.charge_bundle(bundle);
                is_affordable = result.is_ok();
                if let Err(error) = result {
                    charged.refused.push((error, Vec::new()));
                }
                previous = Some(Arc::clone(bundle));
            }
            // If the bundle is not affordable, the last refusal is about this bundle.
            match charged.refused.last_mut() {
                Some((_, refused)) if !is_affordable => refused.push(wanted),
                _ => charged.affordable.push(wanted),
            }
        }
        charged
    }

    /// Charges a bundle with the largest of three sizes, because reading the bundle may take any of them: its stored
    /// size, its recorded inflated size, and the sum of its code objects.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the bundle exceeds the budget.
    fn charge_bundle(&mut self, bundle: &BundleInfo) -> Result<()> {
        let inflated = bundle.compressed.map_or(0, |recorded| recorded.inflated);
        if self.left.take(bundle.size.max(bundle.stored()).max(inflated)).is_some() {
            return Ok(());
        }
        let error = Malformed::search("bytes to read", self.left.most(), bundle.range.start);
        Err(Error::malformed(self.path, error))
    }
}

/// Returns entries with the kept locations of code objects, without IDs. Returns `None` if a code object is not stored
/// on its own, so that the bundle has to be read again.
fn stored_entries<Key, Code: Borrow<CodeObject>>(wanted: &[(Key, Code)]) -> Option<Vec<SearchEntry>> {
    let mut entries = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        entries.push(SearchEntry::new(Vec::new(), code_object_of(wanted).stored_part()?));
    }
    Some(entries)
}

/// Adds to each code object its index in the bundle.
fn indexed<Key, Code: Borrow<CodeObject>>(wanted: Vec<(Key, Code)>) -> Vec<(usize, (Key, Code))> {
    wanted.into_iter().map(|wanted| (code_object_of(&wanted).entry, wanted)).collect()
}

/// Groups code objects into tasks, so that each byte is inflated once. A task has the code objects of a bundle that are
/// compressed together, all code objects of a bundle that has to be inflated or restored, or a single code object.
fn group_by_bytes<Key, Code: Borrow<CodeObject>>(wanted: Vec<(Key, Code)>) -> Vec<Vec<(Key, Code)>> {
    let mut tasks = Vec::<Vec<(Key, Code)>>::new();
    // The index of the task for a bundle and the range of its bytes that are compressed together; `None` for a bundle
    // that is read as a whole.
    let mut shared_tasks = HashMap::new();
    for wanted in wanted {
        let code_object = code_object_of(&wanted);
        let bundle = Arc::as_ptr(&code_object.bundle);
        let new_task = tasks.len();
        let task_index = match code_object.stored_part() {
            Some(Stored::Packed(packed)) => *shared_tasks.entry((bundle, Some(packed.stored))).or_insert(new_task),
            // A code object that is not compressed is a separate task.
            Some(_) => new_task,
            None => *shared_tasks.entry((bundle, None)).or_insert(new_task),
        };
        match tasks.get_mut(task_index) {
            Some(task) => task.push(wanted),
            None => tasks.push(vec![wanted]),
        }
    }
    tasks
}

/// Reads code objects of a bundle one after another with `read`, and returns each with its result. If the bundle cannot
/// be inflated, returns only the first code object, with the error, so that the error is reported once.
pub(crate) fn contents<Key, Code: Borrow<CodeObject>, T>(
    (bundle, wanted): CodeObjectsOfBundle<'_, Key, Code>,
    read: impl Fn(&CodeObject, Slice<'_>) -> Result<T>,
) -> Vec<((Key, Code), Result<T>)> {
    // A bundle that is compressed as a whole is inflated once for all of its code objects.
    let inflated = bundle.and_then(|bundle| Ok((bundle, bundle.inflate_whole()?)));
    let (bundle, whole) = match inflated {
        Ok(inflated) => inflated,
        Err(error) => {
            let Some((_, first)) = wanted.into_iter().next() else { return Vec::new() };
            let error = error.at(&code_object_of(&first).bundle.place);
            return vec![(first, Err(error))];
        }
    };
    // The last inflated bytes are kept, so code objects that are compressed together are inflated once if they follow
    // one another.
    let mut last_inflated = LastInflated::default();
    let mut contents = Vec::with_capacity(wanted.len());
    for (index, wanted) in wanted {
        let code_object = code_object_of(&wanted);
        let content = match &whole {
            Some(whole) => read_range(bundle, index, whole, |code| read(code_object, code)),
            None => match bundle.content_after(index, &mut last_inflated) {
                Ok(content) => read(code_object, content.as_slice()),
                Err(error) => Err(error),
            },
        };
        let content = content.map_err(|error| error.at(&code_object.bundle.place));
        contents.push((wanted, content));
    }
    contents
}

/// Reads the range of an entry in `whole`, its inflated bundle.
fn read_range<T>(
    bundle: &Bundle<'_>,
    index: usize,
    whole: &Input,
    read: impl FnOnce(Slice<'_>) -> Result<T>,
) -> Result<T> {
    let range = bundle.range_of(index)?;
    read(whole.as_slice().claimed(&range)?)
}

/// Returns the weight of results that were read together. `weight` returns the weight of a single content.
pub(crate) fn weight_of<Key, T>(read: &[(Key, Result<T>)], weight: impl Fn(&T) -> usize) -> usize {
    // The list of results takes memory too: one unit is enough. The same holds for an error.
    let mut sum = 1_usize;
    for (_, result) in read {
        let weight_of_result = match result {
            Ok(content) => weight(content),
            Err(_) => 1,
        };
        sum = sum.saturating_add(weight_of_result);
    }
    sum
}

/// Returns the name of the outermost member that holds a place, such as the member of a zip file. Returns `None` if the
/// first step to the place is not a member.
pub(crate) fn top_member(place: &Place) -> Option<&[u8]> {
    match place.steps().first() {
        Some(Step::Member(name)) => Some(name),
        _ => None,
    }
}
