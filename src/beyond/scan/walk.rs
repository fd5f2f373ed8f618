//! Walks through a file: identifies each part and searches the parts inside it.

use std::io::BufReader;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use super::budget::{self, Budget, ExceededLimit};
use super::code_object::{ID_MAX, step_name};
use super::found::{EntryFacts, Finding, Format, Found, WalkEvent};
use super::parts::shared_bytes;
use super::place::{Place, Step, StepNumbers};
use super::sections::{self, ListedSections, SectionContent, Sections, is_relocatable_code};
use super::stream::{ExplainingReader, Stream};
use super::sycl::ImageTables;
use super::wide::BundleReader;
use super::{Checksums, Scan, Unread, ahead};
use crate::base::bytes::{add, len_u64, total};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::code::target;
use crate::beyond::container::SearchEntry;
use crate::beyond::container::host::wrapper::{self, Wrapped};
use crate::beyond::container::package::sqlite;
use crate::beyond::container::zip::{self, CUT, ZipContent, ZipMember};
use crate::beyond::container::{Bundle, Bundles};
use crate::beyond::container::{lto_ir, spirv};
use crate::beyond::once;
use crate::llvm::container::archive::{Archive, ArchiveMember, MemberLocation, Sources};
use crate::llvm::container::content_kind::ContentKind;
use crate::llvm::container::host::{self, ChosenSection, elf};
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::{self, Content, Inflate};
use crate::llvm::container::stream::Compressed;
use crate::llvm::container::{Contents, Entry, bitcode};
use crate::llvm::uri::Level;

/// The maximum nesting depth of containers.
const DEPTH_MAX: u32 = 16;

/// An ELF file without section headers, so that its device code cannot be located.
const NO_SECTIONS: Unread = Unread::anything("ELF file without section headers");

/// SPIR-V for graphics, which compilers of HIP, SYCL and OpenMP do not write.
pub(super) const SHADER: Unread = Unread::anything("SPIR-V module without kernels");

/// A device code section without content: the file was split, or holds only debugging information.
const NO_CONTENT: Unread = Unread::anything("section for device code without content in this file");

/// A walk and its visitor.
pub(super) struct Walk<'a, 'w, 'v> {
    pub(super) scan: &'w Scan,
    /// The members of the file that are searched, if it is a zip file; all if none.
    pub(super) members: Option<&'w MemberFilter<'w>>,
    /// Whether a reference to kpack archives was followed: a library has one.
    pub(super) has_followed: bool,
    pub(super) sources: Sources<'a>,
    pub(super) budget: Budget,
    /// The number of bundles found.
    bundles: u64,
    /// Whether the section that is searched has relocatable code of a linked file.
    is_relinked: bool,
    /// The number of bundles in the narrow sense that lie in sections themselves, not in other bundles.
    pub(super) in_sections: u64,
    numbers: StepNumbers,
    /// What alone is looked for, if the walk is not a search.
    goal: Option<Goal<'w>>,
    visitor: &'w mut Visitor<'v>,
}

/// The inflated data that a walk looks for. Nothing else is searched.
pub(super) struct Goal<'w> {
    pub(super) way: &'w [Level],
    /// Receives the data, and tells whether it is searched too.
    pub(super) take: &'w mut dyn FnMut(Slice<'_>) -> Result<ControlFlow<()>>,
}

/// The callback of a walk. What it breaks off ends without an error.
pub(super) type Visitor<'v> = dyn FnMut(WalkEvent<'_>) -> Result<ControlFlow<()>> + 'v;

/// A part of a file to be searched.
#[derive(Clone, Copy)]
pub(super) struct FilePart<'s> {
    pub(super) place: &'s Place,
    pub(super) data: Slice<'s>,
    /// How many containers may be nested in it.
    depth: u32,
    /// The offset at which it begins, if it is a file or a member of a package, whose members are files.
    file_start: Option<u64>,
}

impl<'s> FilePart<'s> {
    /// Other bytes at the same place.
    pub(super) fn with(self, data: Slice<'s>) -> Self {
        Self { data, ..self }
    }

    /// Bytes at another place.
    pub(super) fn to<'t>(self, place: &'t Place, data: Slice<'t>) -> FilePart<'t> {
        FilePart { place, data, depth: self.depth, file_start: None }
    }

    /// The same bytes as a file.
    pub(super) fn as_file(self) -> Self {
        Self { file_start: Some(self.data.offset()), ..self }
    }

    /// What its bytes inflate to, or a copy of them.
    pub(super) fn copied<'t>(self, data: Slice<'t>) -> FilePart<'t>
    where
        's: 't,
    {
        let file_start = self.file_start.map(|_| data.offset());
        FilePart { place: self.place, data, depth: self.depth, file_start }
    }

    pub(super) fn error(self, malformed: Malformed) -> Error {
        Error::malformed(self.data.path(), malformed)
    }
}

/// Whether a member with a name is searched.
pub(crate) type MemberFilter<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// Whether data is a zip file, or ends with one.
pub(crate) fn is_zip(data: Slice<'_>) -> bool {
    let magic = Magic::identify(data.bytes());
    magic == Magic::Zip || zip_after(&Place::of_file(data.path()), data, magic).is_some()
}

/// The start of a zip file after a file or member of another format, if that may be followed by anything: the last
/// member of an archive may be a zip file too.
fn zip_after(place: &Place, data: Slice<'_>, magic: Magic) -> Option<u64> {
    let comment = match place.steps().last() {
        None => zip::COMMENT_MAX,
        Some(Step::Member(_)) => 0,
        Some(_) => return None,
    };
    let least = match magic {
        magic if magic.is_elf() => elf::len(data.bytes()).filter(|&len| len < data.len())?,
        Magic::Pe | Magic::MachO | Magic::Script | Magic::Unread(_) | Magic::Unknown => 0,
        _ => return None,
    };
    zip::start_at_end(data, comment).filter(|&start| start >= least)
}

/// Returns a member of a zip file, inflated, or `None` unless the search needs all of it.
fn inflate_for(scan: &Scan, content: &ZipContent<'_>) -> Option<Result<Input>> {
    let magic = Magic::identify(&once::head(&mut content.reader().ok()?, ContentKind::HEAD_LEN).ok()?);
    let is_kept = !magic.is_package() && (scan.deep || magic.may_hold_code() && magic.unread().is_none());
    let inflate = || content.reader().and_then(|reader| Input::spool(content.stored.path(), reader));
    (is_kept && content.size <= scan.limits.inflated).then(|| inflate().map_err(|error| content.error(error)))
}

/// The sections of an object that are read together with others.
#[derive(Default)]
pub(super) struct JointSections<'d> {
    /// Whether the object is a program or a library.
    is_linked: bool,
    /// The first section with wrappers of a HIP library.
    hip_wrappers: Option<Slice<'d>>,
    pub(super) images: ImageTables,
}

impl<'d> JointSections<'d> {
    pub(super) fn new(data: Slice<'d>, sections: &Sections) -> Self {
        let all = |holds: SectionContent| sections.chosen.iter().filter(move |section| section.holds == holds);
        let ranges = |holds: SectionContent| all(holds).map(|section| section.range.clone());
        let wrappers = all(SectionContent::Wrappers(Wrapped::Bundle)).next();
        Self {
            is_linked: sections.is_linked,
            hip_wrappers: wrappers.and_then(|wrappers| data.range(&wrappers.range)),
            images: ImageTables::new(ranges(SectionContent::ImageTable), ranges(SectionContent::DeviceImages)),
        }
    }
}

impl<'a, 'w, 'v> Walk<'a, 'w, 'v> {
    pub(super) fn new(scan: &'w Scan, data: Slice<'a>, visitor: &'w mut Visitor<'v>) -> Self {
        let (sources, budget) = (Sources::new(data), Budget::new(scan.limits, data.len()));
        Self {
            scan,
            members: None,
            has_followed: false,
            sources,
            budget,
            bundles: 0,
            is_relinked: false,
            in_sections: 0,
            numbers: StepNumbers::default(),
            goal: None,
            visitor,
        }
    }

    /// A walk to some inflated data.
    pub(super) fn with_goal(self, goal: Goal<'w>) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Returns the place one step further in, or `None` if the walk has a goal to which it does not lead.
    pub(super) fn step(&mut self, place: &Place, step: Step) -> Option<Place> {
        let number = self.numbers.next(self.numbers.key(place), &step.name());
        self.step_to(place, step, number)
    }

    /// As [`step`](Self::step), with the number of the step.
    pub(super) fn step_to(&self, place: &Place, step: Step, number: u64) -> Option<Place> {
        let place = place.join_numbered(step, number);
        self.goal.as_ref().is_none_or(|goal| place.is_on(goal.way)).then_some(place)
    }

    /// Whether only what lies on the way to some data is of interest.
    pub(super) fn has_goal(&self) -> bool {
        self.goal.is_some()
    }

    /// Walks a whole file.
    pub(super) fn file(self, data: Slice<'_>) -> Result<Sources<'a>> {
        #[cfg(test)]
        crate::base::testing::note_walk(data.path());
        self.at(&Place::of_file(data.path()), data)
    }

    /// Walks a file that is at a place of another one.
    pub(super) fn at(mut self, place: &Place, data: Slice<'_>) -> Result<Sources<'a>> {
        self.search_part(FilePart { place, data, depth: DEPTH_MAX, file_start: Some(data.offset()) })?;
        Ok(self.sources)
    }

    pub(super) fn search_part(&mut self, at: FilePart<'_>) -> Result<()> {
        if let Some(goal) = self.goal.take_if(|goal| at.place.is_end_of(goal.way)) {
            if (goal.take)(at.data)?.is_continue() {
                self.search_part(at)?;
            }
            // Nothing more is read.
            self.budget.is_spent = true;
            return Ok(());
        }
        let data = at.data;
        let magic = Magic::identify(data.bytes());
        let zip = zip_after(at.place, data, magic);
        let before = zip.and_then(|start| data.slice(0, start)).unwrap_or(data);
        self.search_as(magic, at.with(before))?;
        if let Some(start) = zip
            && let Some(at) = self.deeper(at, 1)?
            && self.spend(at, data.len().saturating_sub(start))?
        {
            self.search_zip(at)?;
        }
        if at.place.is_data() { self.report_end(at) } else { Ok(()) }
    }

    /// Reports the end of a file, or of what was inflated: also if nothing more is read of it.
    pub(super) fn report_end(&mut self, at: FilePart<'_>) -> Result<()> {
        self.budget.is_spent |= (self.visitor)(WalkEvent::End(at.place, at.data))?.is_break();
        Ok(())
    }

    /// Searches data of a known format.
    fn search_as(&mut self, magic: Magic, at: FilePart<'_>) -> Result<()> {
        if !magic.may_hold_code() {
            return self.search_rest(at, 0, 0);
        }
        let Some(at) = self.deeper(at, 1)? else { return Ok(()) };
        let data = at.data;
        if !self.spend(at, data.len())? {
            return Ok(());
        }
        match magic {
            Magic::Bitcode => self.search_bitcode(at),
            Magic::Archive => self.search_archive(at),
            magic if magic.is_gpu_elf() => self.report_code_object(at),
            Magic::Coff | Magic::Pe => self.search_object(at, magic),
            magic if magic.is_elf() => self.search_object(at, magic),
            Magic::Bundle
            | Magic::CompressedBundle
            | Magic::TextBundle
            | Magic::OffloadBinary
            | Magic::FatBinary
            | Magic::SyclBin => self.search_bundles_and_rest(at, BundleReader::for_magic(magic)),
            Magic::Kpack => self.search_kpack_archive(at),
            Magic::SpirV if spirv::has_kernels(data.bytes()) => self.report_code_object(at),
            Magic::SpirV => self.report_unread(at, SHADER),
            Magic::Ptx => self.report_code_object(at),
            Magic::LtoIr => match lto_ir::check(data.bytes(), data.offset()) {
                Ok(()) => self.report_code_object(at),
                Err(malformed) => self.report_broken_container(at, at.error(malformed)),
            },
            Magic::Sqlite => {
                sqlite::kernels(data.bytes())
                    .map(Unread::device_code)
                    .map_or(Ok(()), |what| self.report_unread(at, what))?;
                self.search_rest(at, 0, 0)
            }
            Magic::Zip => self.search_zip(at),
            Magic::Tar => self.search_tar_in_file(at),
            magic if magic.is_package() => {
                let reader = &mut BufReader::new(data.reader());
                self.search_package(magic, at, Stream { reader, size: None, is_charged: true, is_source: true })
            }
            magic => {
                magic.unread().map_or(Ok(()), |what| self.report_unread(at, what))?;
                self.search_rest(at, 0, 0)
            }
        }
    }

    /// Returns the same `levels` containers further in, or `None` if it is too deep, which is reported.
    pub(super) fn deeper<'s>(&mut self, at: FilePart<'s>, levels: u32) -> Result<Option<FilePart<'s>>> {
        let deeper = at.depth.checked_sub(levels).map(|depth| FilePart { depth, ..at });
        if deeper.is_none() {
            self.report_broken(at, at.error(Malformed::nested("containers", DEPTH_MAX, at.data.offset())))?;
        }
        Ok(deeper)
    }

    /// Charges bytes to read. Returns whether the search may continue; an exceeded limit is reported once.
    pub(super) fn spend(&mut self, at: FilePart<'_>, bytes: u64) -> Result<bool> {
        self.charge_cost(at, |budget| budget.take(bytes))
    }

    /// As [`spend`](Self::spend), for any cost.
    fn charge_cost(
        &mut self,
        at: FilePart<'_>,
        cost: impl FnOnce(&mut Budget) -> Result<(), ExceededLimit>,
    ) -> Result<bool> {
        if self.budget.is_spent {
            return Ok(false);
        }
        let Err((what, limit)) = cost(&mut self.budget) else { return Ok(true) };
        self.budget.is_spent = true;
        let error = at.error(Malformed::search(what, limit, at.data.offset()));
        (self.visitor)(WalkEvent::Found(Finding::Broken { place: at.place, error })).map(|_| false)
    }

    /// Reports a finding, charging `count` to the finding limit; does nothing once the limit is reached.
    pub(super) fn report_finding(&mut self, count: u64, at: FilePart<'_>, finding: Finding<'_>) -> Result<()> {
        add(&mut self.bundles, u64::from(matches!(finding, Finding::Bundle(_))));
        let names = at.place.weight().saturating_mul(count).saturating_add(match &finding {
            Finding::Bundle(found) => budget::ids_len(found.bundle, ID_MAX),
            _ => 0,
        });
        if self.charge_cost(at, |budget| budget.take_found(count).and_then(|()| budget.take_names(names)))? {
            // Nothing more is read.
            self.budget.is_spent |= (self.visitor)(WalkEvent::Found(finding))?.is_break();
        }
        Ok(())
    }

    pub(super) fn report_broken(&mut self, at: FilePart<'_>, error: Error) -> Result<()> {
        // A failure to write a temporary file is not a fault in the data.
        if error.kind() == ErrorKind::Temporary {
            return Err(error);
        }
        self.report_finding(1, at, Finding::Broken { place: at.place, error })
    }

    /// What was read; none if it is broken, which is reported.
    pub(super) fn ok_or_report<T>(&mut self, at: FilePart<'_>, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) => self.report_broken(at, error).map(|()| None),
        }
    }

    pub(super) fn report_unread(&mut self, at: FilePart<'_>, what: Unread) -> Result<()> {
        self.report_finding(1, at, Finding::Unread { place: at.place, offset: at.data.offset(), what })
    }

    /// Reports bytes at an offset that are not what was read before them: a bundle, or a package.
    pub(super) fn report_trailing(
        &mut self,
        at: FilePart<'_>,
        offset: Option<u64>,
        after: Option<&'static str>,
    ) -> Result<()> {
        self.report_finding(1, at, Finding::Trailing { place: at.place, offset, after })
    }

    fn search_bundles_and_rest(&mut self, at: FilePart<'_>, reader: BundleReader) -> Result<()> {
        let (count, end) = self.search_bundles(at, reader)?;
        self.search_rest(at, end, count)
    }

    /// Walks consecutive bundles of one family. Returns how many it found, and the end of the last one in the data.
    fn search_bundles(&mut self, at: FilePart<'_>, reader: BundleReader) -> Result<(usize, u64)> {
        let (data, container) = (at.data, reader.container);
        let compressed = match self.scan.inflate {
            Inflate::Whole | Inflate::AsNeeded if self.goal.is_none() => {
                sequence::to_inflate(data, container, self.scan.inflate, self.budget.limits_at(at.place))
            }
            _ => Vec::new(),
        };
        let with_size = compressed.into_iter().map(|compressed| (compressed.recorded().inflated, compressed));
        let inflate = |compressed: Compressed<'_>| Some((compressed.offset(), compressed.inflate_whole()));
        ahead::inflate(with_size, self.budget.left(), inflate, |inflated| {
            let mut bundles = Bundles::new(data, container, self.scan.inflate);
            let mut end = data.offset();
            let mut index = 0_usize;
            loop {
                bundles.take_inflated(inflated);
                match self.next_bundle(at, &mut bundles)? {
                    None => break,
                    Some(Ok(bundle)) => {
                        if self.scan.deep {
                            end = bundle.range().map_or(end, |range| range.end);
                        }
                        self.report_bundle(at, index, bundle, reader)?;
                    }
                    Some(Err(error)) => self.report_broken(at, error)?,
                }
                index = index.saturating_add(1);
            }
            if let Some(offset) = bundles.stopped_at() {
                self.report_trailing(at, Some(offset), None)?;
            }
            Ok((index, end.saturating_sub(data.offset())))
        })
    }

    /// Returns the next bundle, or why it cannot be read, or `None` at the end, and once the cost of inflating exceeds
    /// the limit.
    pub(super) fn next_bundle<'d>(
        &mut self,
        at: FilePart<'_>,
        bundles: &mut Bundles<'d>,
    ) -> Result<Option<Result<Bundle<'d>>>> {
        let bundle = bundles.next_within(self.budget.limits_at(at.place));
        let claimed = bundles.claimed();
        let inflated = match (&bundle, claimed) {
            (_, None) => 0,
            (Ok(Some(Bundle { compressed: Some(recorded), .. })), Some(claimed)) if recorded.has_no_end() => claimed,
            (Ok(Some(bundle)), Some(_)) if self.scan.inflate != Inflate::Whole => len_u64(bundle.beginning()),
            (_, Some(claimed)) => claimed,
        };
        if !self.spend(at, claimed.map_or(0, |_| Budget::inflating(at.place, inflated)))? {
            return Ok(None);
        }
        let Some(mut bundle) = bundle.transpose() else { return Ok(None) };
        let may_go_on = match &mut bundle {
            Ok(bundle) => self.find_ends(at, bundle)?,
            Err(_) => true,
        };
        Ok(may_go_on.then_some(bundle))
    }

    /// Charges the code objects that are compressed one by one, and finds their ends, if the search inflates them.
    /// Returns whether the search may continue.
    fn find_ends(&mut self, at: FilePart<'_>, bundle: &mut Bundle<'_>) -> Result<bool> {
        if self.scan.inflate != Inflate::Whole {
            return Ok(true);
        }
        let is_left = self.spend(at, bundle.packed_len())?;
        if is_left {
            bundle.settle()?;
        }
        Ok(is_left)
    }

    /// Reports one bundle and its faults.
    pub(super) fn report_bundle(
        &mut self,
        at: FilePart<'_>,
        index: usize,
        bundle: Bundle<'_>,
        reader: BundleReader,
    ) -> Result<()> {
        match (reader.format_of)(&bundle) {
            Ok(format) => {
                // What a deep search finds may have other data after it.
                let space_end = if self.scan.deep { 0 } else { at.data.end() };
                self.report_and_search(at, format, index, &bundle, space_end)?;
            }
            Err(malformed) => self.report_broken(at, at.error(malformed))?,
        }
        self.report_faults(at, bundle.faults)
    }

    /// Reports entries that stand in no container of the usual form as one bundle.
    pub(super) fn report_entries(
        &mut self,
        at: FilePart<'_>,
        format: Format,
        index: usize,
        entries: Vec<SearchEntry>,
    ) -> Result<()> {
        let contents = Contents::new(entries, at.data.len());
        let mut bundle = Bundle::plain(at.data, contents, self.budget.limits_at(at.place));
        if !self.find_ends(at, &mut bundle)? {
            return Ok(());
        }
        self.report_and_search(at, format, index, &bundle, 0)
    }

    /// Reports faults beside which the rest can be read.
    pub(super) fn report_faults(
        &mut self,
        at: FilePart<'_>,
        faults: impl IntoIterator<Item = Malformed>,
    ) -> Result<()> {
        faults.into_iter().try_for_each(|fault| self.report_broken(at, at.error(fault)))
    }

    /// Reports one bundle and searches it.
    fn report_and_search(
        &mut self,
        at: FilePart<'_>,
        format: Format,
        index: usize,
        bundle: &Bundle<'_>,
        space_end: u64,
    ) -> Result<()> {
        let place = at.place;
        let read = [place.weight(), budget::ids_len(bundle, usize::MAX), budget::targets_len(bundle)];
        if self.spend(at, total(read))? {
            let is_in_section = format == Format::Bundle && matches!(place.steps().last(), Some(Step::Section(_)));
            add(&mut self.in_sections, u64::from(is_in_section));
            let facts = EntryFacts {
                numbers: self.number_entries(place, bundle),
                shared: shared_bytes(bundle, format),
                begins_file: index == 0 && at.file_start == Some(bundle.offset),
                is_relinked: self.is_relinked && format == Format::Fatbin,
                ..EntryFacts::default()
            };
            let found = Found { place, format, index, bundle, facts: &facts, space_end };
            self.report_finding(budget::found_in(bundle), at, Finding::Bundle(found))?;
            self.search_nested(at, &found)?;
            at.data.looked_at();
        }
        Ok(())
    }

    /// The numbers of the steps to the entries of a bundle. All are numbered, whatever the search inflates.
    fn number_entries(&mut self, place: &Place, bundle: &Bundle<'_>) -> Vec<u64> {
        let key = self.numbers.key(place);
        bundle.entries.iter().map(|entry| self.numbers.next(key, step_name(entry.id()))).collect()
    }

    /// Searches the code objects of a bundle that are bundles themselves. A device image may be an archive.
    fn search_nested(&mut self, at: FilePart<'_>, found: &Found<'_>) -> Result<()> {
        let Found { bundle, facts, .. } = *found;
        // Entries may share bytes without limit; those of compilers never do.
        let Some(stored_len) = self.ok_or_report(at, bundle.stored_len())? else { return Ok(()) };
        let mut left = stored_len;
        for ((code_object, entry), &number) in found.code_objects().zip(&bundle.entries).zip(&facts.numbers) {
            let index = code_object.index();
            let is_container = code_object.head().is_some_and(|head| {
                let magic = Magic::identify(&head);
                magic.is_container() || (found.format == Format::DeviceImages && magic == Magic::Archive)
            });
            // The walk may lead to any code object that is compressed on its own.
            if !is_container && (self.goal.is_none() || code_object.packed().is_none()) {
                continue;
            }
            let step = Step::Entry(step_name(entry.id()).to_vec());
            let Some(place) = self.step_to(at.place, step, number) else { continue };
            let at = at.to(&place, at.data);
            if let Some(data) = bundle.in_place(index) {
                let Some(rest) = left.checked_sub(data.len()) else {
                    let (what, expected) = ("size of the bundles in it", "together no more than the bundle");
                    let found = stored_len.saturating_sub(left).saturating_add(data.len());
                    let malformed = Malformed::value(what, found, bundle.offset, expected);
                    return self.report_broken(at, Error::malformed(data.path(), malformed));
                };
                left = rest;
                self.search_part(at.with(data))?;
            } else if self.spend(at, entry.size())? {
                let content = match bundle.content(index) {
                    Ok(content) => content,
                    Err(error) if error.is_of_system() => return Err(error),
                    Err(_) => continue,
                };
                let inside = place.clone().inflated();
                let content = match content {
                    Content::Restored(input) => input,
                    Content::Inflated(input, _) => {
                        self.search_part(at.to(&inside, input.as_slice()))?;
                        continue;
                    }
                    // Its offsets count from its own start, not from that of the inflated data around it.
                    Content::InPlace(slice) => Input::set_aside(slice.path(), slice.bytes()).with_path(slice.path())?,
                };
                self.search_part(at.to(&inside, content.as_slice()))?;
            }
        }
        Ok(())
    }

    fn search_bitcode(&mut self, at: FilePart<'_>) -> Result<()> {
        let data = at.data;
        let embedded = match bitcode::embedded_objects(data.bytes(), data.offset()).with_path(data.path()) {
            Ok(embedded) => embedded,
            Err(error) => return self.report_broken_container(at, error),
        };
        if embedded.order.is_empty()
            && bitcode::triple(data.bytes()).is_some_and(|triple| target::is_for_device(&triple))
        {
            return self.report_code_object(at);
        }
        let path = data.path();
        let objects: Vec<Input> = embedded.contents.into_iter().map(|object| Input::from_bytes(path, object)).collect();
        let in_order = embedded.order.into_iter().filter_map(|index| objects.get(index));
        for (index, object) in in_order.enumerate() {
            let Some(place) = self.step(at.place, Step::Embedded(index)) else { continue };
            self.search_part(at.to(&place.inflated(), object.as_slice()))?;
        }
        Ok(())
    }

    /// Reports an ELF file for a GPU, SPIR-V, bitcode, PTX or LTO-IR. It is the whole file, unless other files may follow.
    fn report_code_object(&mut self, at: FilePart<'_>) -> Result<()> {
        let data = at.data;
        if self.scan.deep && elf::len(data.bytes()).is_some() {
            return self.search_rest(at, 0, 0);
        }
        self.report_bare_code_object(at, 0)
    }

    /// Reports a code object without a bundle as one with one entry.
    pub(super) fn report_bare_code_object(&mut self, at: FilePart<'_>, index: usize) -> Result<()> {
        let id = target::of(at.data.bytes());
        self.report_entries(at, Format::CodeObject, index, vec![Entry::at(id.as_bytes(), 0..at.data.len()).into()])
    }

    fn search_object(&mut self, at: FilePart<'_>, magic: Magic) -> Result<()> {
        let data = at.data;
        let listed = if self.scan.deep { ListedSections::All } else { ListedSections::Known };
        let mut sections = match sections::read(data.bytes(), data.offset(), listed).with_path(data.path()) {
            Ok(sections) => sections,
            Err(error) => {
                if magic != Magic::Coff || host::is_certainly_coff(data.bytes()) {
                    let cut = elf::missing_section_table(data.bytes()).filter(|_| magic.is_elf());
                    let end = data.len();
                    let text = |table| format!("the file ends at {end}, its section table is at {table}: {CUT}");
                    let cut = cut.map(|table| Malformed::other(ErrorKind::Malformed, table, text(table)));
                    self.report_broken(at, cut.map_or(error, |cut| at.error(cut)))?;
                }
                return self.search_rest(at, 0, 0);
            }
        };
        if let Some(hidden) = &sections.hidden {
            self.report_finding(1, at, Finding::Hidden { place: at.place, error: at.error(hidden.clone()) })?;
        } else if sections.count == 0 && magic.is_elf() {
            self.report_unread(at, NO_SECTIONS)?;
        }
        let is_split = sections.chosen.iter().any(|section| section.holds == SectionContent::KpackReference);
        if is_split {
            // The tools that split libraries leave parts of the section for bundles.
            let begins = |range: &Range<u64>| {
                data.range(range).is_some_and(|section| Magic::identify(section.bytes()).is_container())
            };
            sections.chosen.retain(|section| section.holds != SectionContent::Containers || begins(&section.range));
        }
        for name in sections.empty.iter().filter(|_| !is_split) {
            self.report_unread(at.to(&at.place.join(Step::Section(name.clone())), data), NO_CONTENT)?;
        }
        let is_fat = sections.chosen.iter().any(|section| section.holds == SectionContent::FatObject);
        let count = match is_fat {
            true => self.search_bundles(at, BundleReader::FAT_OBJECT)?.0,
            false => 0,
        };
        if self.scan.deep {
            return self.search_all_sections(at, sections, count);
        }
        let (before, tables) = (self.in_sections, JointSections::new(data, &sections));
        for section in &sections.chosen {
            self.search_section(at, section, &tables)?;
        }
        self.search_other_sections(at, sections, &tables, self.in_sections.saturating_sub(before))
    }

    /// Searches a section of an object, which may be read together with its `tables`. Returns its place, if
    /// [`step`](Self::step) has one.
    pub(super) fn search_section(
        &mut self,
        object: FilePart<'_>,
        section: &ChosenSection<SectionContent>,
        tables: &JointSections<'_>,
    ) -> Result<Option<Place>> {
        let ChosenSection { holds, name, range } = section;
        let data = object.data.claimed(range)?;
        let Some(place) = self.step(object.place, Step::Section(name.clone())) else { return Ok(None) };
        let at = object.to(&place, data);
        match *holds {
            SectionContent::FatObject | SectionContent::Data | SectionContent::Other => Ok(()),
            SectionContent::KpackReference => self.report_split_library(object.place, at, tables.hip_wrappers),
            SectionContent::DeviceImages => self.device_images(object.data, at, &tables.images),
            SectionContent::ImageTable => self.image_table(object, at, &tables.images),
            SectionContent::Wrappers(kind) => {
                // Each section takes the tables of the whole file.
                let is_checked =
                    self.scan.checksums == Checksums::OfAll && self.spend(at.with(object.data), object.data.len())?;
                let faults = match is_checked {
                    true => wrapper::faults(object.data.bytes(), object.data.offset(), range, kind),
                    false => Vec::new(),
                };
                self.report_faults(at, faults)
            }
            SectionContent::Containers | SectionContent::OffloadBinaries | SectionContent::PerhapsContainers => {
                match Magic::identify(data.bytes()) {
                    magic if magic.is_container() => {
                        self.is_relinked = tables.is_linked && is_relocatable_code(name);
                        let looked = self.search_part(at);
                        self.is_relinked = false;
                        looked
                    }
                    _ if *holds == SectionContent::PerhapsContainers => Ok(()),
                    // In an object that is not yet linked, the code may come from another object.
                    _ if data.is_empty() => Ok(()),
                    _ if !tables.is_linked && data.bytes().iter().take(4096).all(|&byte| byte == 0) => Ok(()),
                    _ => self.report_trailing(at.with(object.data), Some(data.offset()), None),
                }
            }
        }?;
        Ok(Some(place))
    }

    fn search_archive(&mut self, at: FilePart<'_>) -> Result<()> {
        match Archive::read(at.data) {
            Ok(archive) => self.search_members(at, archive.members()),
            Err(error) => self.report_broken_container(at, error),
        }
    }

    fn search_members<'m>(
        &mut self,
        at: FilePart<'_>,
        members: impl Iterator<Item = Result<ArchiveMember<'m>>>,
    ) -> Result<()> {
        for member in members {
            let Some(member) = self.ok_or_report(at, member)? else { return Ok(()) };
            // Many members may share a long name.
            if !self.spend(at, len_u64(member.name))? {
                return Ok(());
            }
            let Some(place) = self.step(at.place, Step::Member(member.name.to_vec())) else { continue };
            match member.location {
                MemberLocation::Inside(slice) => self.search_part(at.to(&place, slice))?,
                MemberLocation::Beside(path) => self.search_separate_member(at.to(&place, at.data), &path)?,
            }
            at.data.looked_at();
        }
        Ok(())
    }

    /// Searches a member of a thin archive, which is a separate file.
    fn search_separate_member(&mut self, at: FilePart<'_>, path: &Path) -> Result<()> {
        let place = at.place.clone().in_file(path);
        let entered = self.sources.enter(path);
        let Some(input) = self.ok_or_report(at.to(&place, at.data), entered)? else { return Ok(()) };
        self.budget.add_file(input.len());
        let looked = self.search_part(at.to(&place, input.as_slice()));
        self.sources.leave();
        input.vouch_for(looked)
    }

    fn search_zip(&mut self, at: FilePart<'_>) -> Result<()> {
        let (mut members, error) = zip::members(at.data);
        let is_unreadable = members.is_empty();
        if let Some(is_searched) = self.members.filter(|_| at.place.steps().is_empty()) {
            members.retain(|member| is_searched(&member.name));
        }
        let scan = self.scan;
        let compressed = (0..).zip(&members).filter_map(|(index, member)| {
            let content = member.content.as_ref().ok().filter(|content| content.form.is_some())?;
            Some((content.size, (index, *content)))
        });
        let compressed: Vec<_> = compressed.filter(|_| self.goal.is_none()).collect();
        let inflate = |(index, content)| Some((index, inflate_for(scan, &content)?));
        ahead::inflate(compressed.into_iter(), self.budget.left(), inflate, |inflated| {
            let mut inflated = inflated.peekable();
            for (index, member) in (0..).zip(members) {
                let inflated = inflated.next_if(|(next, _)| *next == index);
                self.search_zip_member(at, member, inflated.map(|(_, inflated)| inflated))?;
                at.data.looked_at();
                if self.budget.is_spent {
                    break;
                }
            }
            Ok::<(), Error>(())
        })?;
        match error {
            Some(error) if is_unreadable => self.report_broken_container(at, error)?,
            error => error.map_or(Ok(()), |error| self.report_broken(at, error))?,
        }
        match zip::trailing(at.data) {
            Some(offset) => self.report_trailing(at, Some(at.data.absolute(offset)), Some("zip file")),
            None => Ok(()),
        }
    }

    /// Searches a member, which another thread may have inflated.
    fn search_zip_member(
        &mut self,
        at: FilePart<'_>,
        member: ZipMember<'_>,
        inflated: Option<Result<Input>>,
    ) -> Result<()> {
        let Some(place) = self.step(at.place, Step::Member(member.name)) else { return Ok(()) };
        let Some(content) = self.ok_or_report(at.to(&place, at.data), member.content)? else { return Ok(()) };
        if content.form.is_none() {
            return self.search_stored_member(at.to(&place, content.stored).as_file(), &content);
        }
        let (place, stored) = (place.inflated(), content.stored);
        let at = at.to(&place, stored).as_file();
        match inflated {
            Some(_) if !self.spend(at, content.size)? => Ok(()),
            Some(Ok(input)) => self.search_part(at.copied(input.as_slice())),
            Some(Err(error)) => self.report_broken(at, error),
            None => match content.reader() {
                Ok(reader) => {
                    let reader = &mut ExplainingReader { reader, explain: |error| content.error(error) };
                    self.search_stream(
                        at,
                        Stream { reader, size: Some(content.size), is_charged: false, is_source: false },
                    )
                }
                Err(error) => self.report_broken(at, content.error(error)),
            },
        }
    }

    /// Searches a member that is stored uncompressed, so that it can be identified without being read as a whole.
    fn search_stored_member(&mut self, at: FilePart<'_>, content: &ZipContent<'_>) -> Result<()> {
        let before = self.bundles;
        self.search_part(at.with(content.stored))?;
        let is_checked = match self.scan.checksums {
            Checksums::None => false,
            Checksums::OfFound => self.bundles > before,
            Checksums::OfAll => true,
        };
        match if is_checked { content.check() } else { Ok(()) } {
            Err(error) => self.report_broken(at, content.error(error)),
            Ok(()) => Ok(()),
        }
    }
}
