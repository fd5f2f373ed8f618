//! Walks through a file: identifies each part and searches the parts inside it.

use std::io::BufReader;
use std::mem;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use super::Format;
use super::budget::{self, Budget, ExceededLimit};
use super::code_object::{CodeObjectRef, ID_MAX, step_name};
use super::copies::{self, ContentHash, Copies, HashingReader};
use super::found::{EntryFacts, Finding, FoundBundle, Linking, UNKNOWN_SPACE_END, WalkEvent};
use super::parts::shared_bytes;
use super::place::{Place, Step, StepNumbers};
use super::sections::{self, ListedSections, SectionContent, Sections};
use super::segments;
use super::stream::{ExplainingReader, Stream};
use super::sycl::ImageTables;
use super::{BundleReader, Checksums, Scan, Unread, ahead};
use crate::base::bytes::{add, len_u64, total};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::code::{CodeMagic, elf, lto_ir, spirv, target};
use crate::beyond::container::bundle_reader::OffloadingSection;
use crate::beyond::container::host::is_certainly_coff;
use crate::beyond::container::host::wrapper::{self, WrapperKind};
use crate::beyond::container::package::is_debian_package;
use crate::beyond::container::sequence::{Content, Inflated, find_inflated_whole};
use crate::beyond::container::zip::{self, CUT, ZipContent, ZipMember};
use crate::beyond::container::{Bundle, ContentKind, Magic, Rule, SearchBundles, SearchEntry};
use crate::beyond::once;
use crate::llvm::container::archive::{Archive, ArchiveMember, InputFiles, MemberLocation};
use crate::llvm::container::host::ChosenSection;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::stream::Compressed;
use crate::llvm::container::{Contents, Entry, bitcode};
use crate::llvm::uri::UriStep;

/// The maximum nesting depth of containers. The walk calls itself for each level, so the depth also limits the stack.
const DEPTH_MAX: u32 = 16;

/// An ELF file with neither section headers nor segments to load, so that its device code cannot be located.
const NO_SECTIONS: Unread = Unread::anything("ELF file without section headers");

/// A Mach-O file without a section for device code. Its data is not searched.
const MACH_O: Unread = Unread::anything("Mach-O file");

/// SPIR-V for graphics, which compilers of HIP, SYCL and OpenMP do not write.
pub(super) const SHADER: Unread = Unread::anything("SPIR-V module without kernels");

/// A device code section without content: the file was split, or holds only debugging information.
const NO_CONTENT: Unread = Unread::anything("section for device code without content in this file");

/// The number of bytes at the start of a section that are all zero if the linker has yet to fill the section.
const ZEROS_LOOKED_AT: usize = 4096;

/// The index of a bundle at a place that has no other.
pub(super) const ONLY_BUNDLE: usize = 0;

/// The format of the package before trailing bytes that follow bundles.
const NO_PACKAGE: Option<&str> = None;

/// A walk and its visitor.
pub(super) struct Walk<'a, 'w, 'v> {
    pub(super) scan: &'w Scan,
    /// The filter for the members of the file, if it is a zip file. Without one, all members are searched.
    pub(super) members: Option<&'w mut MemberFilter<'w>>,
    /// Whether a reference to kpack archives was followed already. A file of ROCm has one reference, so another one is
    /// reported as broken.
    pub(super) has_followed: bool,
    /// The searched file, and the files that it names: members of thin archives, and kpack archives.
    pub(super) sources: InputFiles<'a>,
    pub(super) budget: Budget,
    /// The number of bundles found so far in the whole file.
    bundles: u64,
    /// When the code in the section that is searched is linked: the [fact](EntryFacts) for the bundles in it.
    linking: Linking,
    /// The number of bundles of the format [`Format::Bundle`] that are directly in sections, not in other bundles.
    ///
    /// A program registers each such bundle with one wrapper, and the number of its wrappers is known. If that number is
    /// larger, the program has bundles in other sections, which are then searched too.
    pub(super) bundles_in_sections: u64,
    numbers: StepNumbers,
    /// The data that the walk leads to. `None` in a search of the whole file, and once the goal is reached.
    goal: Option<Goal<'w>>,
    /// Whether the goal was reached and searched, so that no further step is taken.
    is_past_goal: bool,
    visitor: &'w mut Visitor<'v>,
}

/// The inflated data that a URI names. A walk with a goal goes only through the steps that lead there.
pub(super) struct Goal<'w> {
    /// The steps from the file to the data.
    pub(super) steps: &'w [UriStep],
    /// The callback that receives the data. If it returns `Continue`, the walk also searches the data.
    pub(super) take: &'w mut dyn FnMut(Slice<'_>) -> Result<ControlFlow<()>>,
}

/// The callback of a walk. If it breaks off, the walk ends without an error.
pub(super) type Visitor<'v> = dyn FnMut(WalkEvent<'_>) -> Result<ControlFlow<()>> + 'v;

/// A part of a file to be searched: some bytes, and the place where findings in them are reported.
#[derive(Clone, Copy)]
pub(super) struct FilePart<'s> {
    pub(super) place: &'s Place,
    pub(super) data: Slice<'s>,
    /// The number of further containers that may be nested in the part.
    levels_left: u32,
    /// The offset where a file starts: the searched file, or a member of a package. `None` for other parts, such as
    /// sections. A bundle at this offset is a separate file.
    file_start: Option<u64>,
}

impl<'s> FilePart<'s> {
    /// Returns the part that is a whole file.
    pub(super) fn of_file(place: &'s Place, data: Slice<'s>) -> Self {
        Self { place, data, levels_left: DEPTH_MAX, file_start: Some(data.offset()) }
    }

    /// Returns the part with other bytes at the same place.
    pub(super) fn with_bytes(self, data: Slice<'s>) -> Self {
        Self { data, ..self }
    }

    /// Returns a part at another place, with the same limit on nesting. The part does not count as a file.
    pub(super) fn at_place<'t>(self, place: &'t Place, data: Slice<'t>) -> FilePart<'t> {
        FilePart { place, data, levels_left: self.levels_left, file_start: None }
    }

    /// Marks the part as a whole file.
    pub(super) fn as_file(self) -> Self {
        Self { file_start: Some(self.data.offset()), ..self }
    }

    /// Returns the part with its bytes inflated or copied to `data`. A file starts where the copy starts.
    pub(super) fn with_copy<'t>(self, data: Slice<'t>) -> FilePart<'t>
    where
        's: 't,
    {
        let file_start = self.file_start.map(|_| data.offset());
        FilePart { place: self.place, data, levels_left: self.levels_left, file_start }
    }

    /// Returns the error for a fault in the part.
    pub(super) fn error(self, malformed: Malformed) -> Error {
        Error::malformed(self.data.path(), malformed)
    }
}

/// Decides by the name of a member whether it is searched.
pub(crate) type MemberFilter<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Returns whether data is a zip file, or ends with one.
pub(crate) fn is_zip(data: Slice<'_>) -> bool {
    let magic = Magic::identify(data.bytes());
    magic == Magic::Zip || zip_after(&Place::of_file(data.path()), data, magic).is_some()
}

/// Returns whether a file holds files to be installed: a zip file such as a wheel, a package of Debian or RPM, or a tar
/// or cpio archive. A compressed file does not count: it may hold an archive, or a single code object.
pub(crate) fn is_package(data: Slice<'_>) -> bool {
    match Magic::identify(data.bytes()) {
        Magic::Archive => is_debian_package(data.bytes()),
        Magic::Tar | Magic::Cpio | Magic::Rpm => true,
        _ => is_zip(data),
    }
}

/// Returns the start of a zip file that ends a file or member of another format, as self-extracting programs do.
/// Returns `None` if there is no zip file, for sections and entries, and for formats that have their own rules for
/// data after them. Archives are such a format: a zip file at their end is their last member.
fn zip_after(place: &Place, data: Slice<'_>, magic: Magic) -> Option<u64> {
    // The longest comment that is looked for after the zip file. In members, zip files with a comment are not found.
    let comment_max = match place.steps().last() {
        None => zip::COMMENT_MAX,
        Some(Step::Member(_)) => 0,
        Some(_) => return None,
    };
    // The earliest offset at which the zip file may start: 0 if nothing shows where the other format ends.
    let earliest = match magic {
        magic if magic.is_elf() => elf::len(data.bytes())?,
        Magic::Pe | Magic::MachO | Magic::Script | Magic::Unread(_) | Magic::Unknown => 0,
        _ => return None,
    };
    if earliest >= data.len() {
        return None;
    }
    let start = zip::start_at_end(data, comment_max)?;
    // A zip file does not start inside the ELF file: there, the bytes only look like one.
    if start >= earliest { Some(start) } else { None }
}

/// Returns the compressed members of a zip file that can be read, each with its inflated size and its index.
fn compressed_members<'d>(members: &[ZipMember<'d>]) -> Vec<(u64, (u64, ZipContent<'d>))> {
    let mut compressed = Vec::new();
    for (index, member) in (0..).zip(members) {
        if let Ok(content) = &member.content
            && content.form.is_some()
        {
            compressed.push((content.size, (index, *content)));
        }
    }
    compressed
}

/// Inflates a member of a zip file on another thread, before the walk reaches it. Returns `None` if the walk does not
/// need the whole content, or finds an error itself when it reads the member.
fn inflate_if_needed(scan: &Scan, content: &ZipContent<'_>) -> Option<Result<Input>> {
    let head = once::head(&mut content.reader().ok()?, ContentKind::HEAD_LEN).ok()?;
    let magic = Magic::identify(&head);
    let is_searched_whole = scan.deep || (magic.may_hold_code() && magic.unread().is_none());
    // The walk reads a package, such as a tar archive, as a stream, and keeps only its members.
    if magic.is_package() || !is_searched_whole || content.size > scan.limits.inflated {
        return None;
    }
    let inflated = content.spool(content.stored.path());
    Some(inflated.map_err(|error| content.error(error)))
}

/// The sections of an object that are needed to read other sections of it: the wrappers of a library for its reference
/// to kpack archives, and the tables of device images for the sections with these images.
#[derive(Default)]
pub(super) struct JointSections<'d> {
    /// Whether the object is a program or a library.
    is_linked: bool,
    /// The content of the first section with HIP's wrappers; linkers write only one. In a split library, the wrappers
    /// hold the indices of code in kpack archives.
    hip_wrappers: Option<Slice<'d>>,
    pub(super) images: ImageTables,
}

impl<'d> JointSections<'d> {
    /// Finds the sections that others need in an object with the bytes `data`: the first one with HIP's wrappers, the
    /// tables of device images, and the sections with device images.
    pub(super) fn new(data: Slice<'d>, sections: &Sections) -> Self {
        let (mut hip_wrappers, mut image_tables, mut image_sections) = (None, Vec::new(), Vec::new());
        for section in &sections.for_device {
            match section.holds {
                SectionContent::Wrappers(WrapperKind::Bundle) if hip_wrappers.is_none() => {
                    hip_wrappers = Some(&section.range);
                }
                SectionContent::ImageTable => image_tables.push(section.range.clone()),
                SectionContent::DeviceImages => image_sections.push(section.range.clone()),
                _ => {}
            }
        }
        Self {
            is_linked: sections.is_linked,
            hip_wrappers: hip_wrappers.and_then(|range| data.range(range)),
            images: ImageTables::new(image_tables.into_iter(), image_sections.into_iter()),
        }
    }
}

impl<'a, 'w, 'v> Walk<'a, 'w, 'v> {
    /// Returns a walk with no goal and no filter of members. `data` is the whole searched file: its length decides how
    /// much the walk may read.
    pub(super) fn new(scan: &'w Scan, data: Slice<'a>, visitor: &'w mut Visitor<'v>) -> Self {
        let (sources, budget) = (InputFiles::new(data), Budget::new(scan.limits, data.len()));
        Self {
            scan,
            members: None,
            has_followed: false,
            sources,
            budget,
            bundles: 0,
            linking: Linking::Before,
            bundles_in_sections: 0,
            numbers: StepNumbers::default(),
            goal: None,
            is_past_goal: false,
            visitor,
        }
    }

    /// Restricts the walk to the steps that lead to a goal.
    pub(super) fn with_goal(self, goal: Goal<'w>) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// Returns the place one step after `place`. Steps with the same name from one place are numbered in the order of
    /// the calls, so each step is taken once. Returns `None` if the walk has a goal and the step does not lead there,
    /// or if the walk is past its goal.
    pub(super) fn step(&mut self, place: &Place, step: Step) -> Option<Place> {
        let number = self.numbers.count_step(self.numbers.place_key(place), &step.name());
        self.step_to(place, step, number)
    }

    /// Returns the place of a file in the package at `place`, as [`step`](Self::step) does.
    pub(super) fn step_into_package(&mut self, place: &Place, step: Step) -> Option<Place> {
        self.step(place, step).map(Place::packaged)
    }

    /// Returns the place one step after `place`, as [`step`](Self::step) does, for a step that has a number already.
    pub(super) fn step_to(&self, place: &Place, step: Step, number: u64) -> Option<Place> {
        let place = place.join_numbered(step, number);
        match &self.goal {
            // The goal was searched, and nothing else is wanted.
            _ if self.is_past_goal => None,
            Some(goal) if !place.last_step_is_in(goal.steps) => None,
            _ => Some(place),
        }
    }

    /// Returns whether the walk looks for the data at some steps, rather than search the whole file.
    pub(super) fn has_goal(&self) -> bool {
        self.goal.is_some()
    }

    /// Searches a whole file.
    pub(super) fn search_file(self, data: Slice<'_>) -> Result<InputFiles<'a>> {
        #[cfg(test)]
        crate::base::testing::note_walk(data.path());
        self.search_file_at(&Place::of_file(data.path()), data)
    }

    /// Searches a file that is at a place of another file.
    pub(super) fn search_file_at(mut self, place: &Place, data: Slice<'_>) -> Result<InputFiles<'a>> {
        self.search_part(FilePart::of_file(place, data))?;
        Ok(self.sources)
    }

    /// Searches a part of a file by its format, and a zip file after it. If the part is the data that the walk looks
    /// for, the receiver of the data decides whether it is searched.
    pub(super) fn search_part(&mut self, at: FilePart<'_>) -> Result<()> {
        match self.goal.take_if(|goal| at.place.is_end_of(goal.steps)) {
            Some(goal) => self.search_goal(at, goal),
            None => self.search_by_format(at),
        }
    }

    /// Passes the goal of the walk to its receiver, and searches the goal if the receiver asks for that. Then the walk
    /// ends.
    fn search_goal(&mut self, at: FilePart<'_>, goal: Goal<'_>) -> Result<()> {
        if (goal.take)(at.data)?.is_continue() {
            self.search_by_format(at)?;
        }
        // A URI names nothing outside of the goal.
        self.budget.is_over = true;
        self.is_past_goal = true;
        Ok(())
    }

    /// Searches a part of a file by its format, and a zip file after it.
    fn search_by_format(&mut self, at: FilePart<'_>) -> Result<()> {
        let data = at.data;
        let magic = Magic::identify(data.bytes());
        let zip = zip_after(at.place, data, magic);
        let before_zip = zip.and_then(|start| data.slice(0, start)).unwrap_or(data);
        self.search_as(magic, at.with_bytes(before_zip))?;
        if let Some(start) = zip
            && let Some(at) = self.enter_container(at)?
            && self.spend(at, data.len().saturating_sub(start))?
        {
            // The reader of zip files gets the bytes before the zip file too, because its offsets may count from there.
            self.search_zip(at)?;
        }
        if at.place.is_whole_data() { self.report_end(at) } else { Ok(()) }
    }

    /// Reports the end of a file or of inflated data. Called even if a limit ended the search of it, so that the
    /// visitor can read the code objects found until then.
    pub(super) fn report_end(&mut self, at: FilePart<'_>) -> Result<()> {
        self.budget.is_over |= (self.visitor)(WalkEvent::End(at.place, at.data))?.is_break();
        Ok(())
    }

    /// Searches data of a format. In a search that is not deep, data that can hold no device code is skipped.
    fn search_as(&mut self, magic: Magic, at: FilePart<'_>) -> Result<()> {
        if !magic.may_hold_code() {
            return self.search_all_if_deep(at);
        }
        let Some(at) = self.enter_container(at)? else { return Ok(()) };
        let data = at.data;
        if !self.spend(at, data.len())? {
            return Ok(());
        }
        match magic {
            Magic::Code(CodeMagic::Bitcode) => self.search_bitcode(at),
            Magic::Archive => self.search_archive(at),
            // The ELF files of GPUs are code objects. All other ELF files, below, are hosts.
            magic if magic.is_gpu_elf() => self.report_code_object(at),
            Magic::Coff | Magic::Pe | Magic::MachO => self.search_object(at, magic),
            magic if magic.is_elf() => self.search_object(at, magic),
            Magic::Container(Format::Kpack) => self.search_kpack_archive(at),
            Magic::Container(_) | Magic::CompressedBundle => {
                self.search_bundles_and_rest(at, BundleReader::for_magic(magic))
            }
            Magic::Code(CodeMagic::SpirV) if spirv::has_kernels(data.bytes()) => self.report_code_object(at),
            Magic::Code(CodeMagic::SpirV) => self.report_unread(at, SHADER),
            Magic::Code(CodeMagic::Ptx) => self.report_code_object(at),
            Magic::Code(CodeMagic::LtoIr) => match lto_ir::check(data.bytes(), data.offset()) {
                Ok(()) => self.report_code_object(at),
                Err(malformed) => self.report_broken_container(at, at.error(malformed)),
            },
            Magic::Zip => self.search_zip(at),
            Magic::Tar => self.search_tar_in_file(at),
            magic if magic.is_package() => {
                let reader = &mut BufReader::new(data.reader());
                self.search_package(
                    magic,
                    at,
                    Stream { reader, size: None, is_charged: true, has_source_offsets: true },
                )
            }
            // Formats that are recognised but not read, such as disk images.
            magic => {
                if let Some(format) = magic.unread() {
                    self.report_unread(at, format)?;
                }
                self.search_all_if_deep(at)
            }
        }
    }

    /// Returns the part with one nesting level less left. If no level is left, reports that and returns `None`.
    pub(super) fn enter_container<'s>(&mut self, at: FilePart<'s>) -> Result<Option<FilePart<'s>>> {
        if let Some(levels_left) = at.levels_left.checked_sub(1) {
            return Ok(Some(FilePart { levels_left, ..at }));
        }
        self.report_broken(at, at.error(Malformed::nested("containers", DEPTH_MAX, at.data.offset())))?;
        Ok(None)
    }

    /// Charges bytes to read. Returns whether the search may continue; an exceeded limit is reported once.
    pub(super) fn spend(&mut self, at: FilePart<'_>, bytes: u64) -> Result<bool> {
        self.charge_cost(at, |budget| budget.charge_bytes(bytes))
    }

    /// Charges the budget with `charge`. Returns whether the search may continue; an exceeded limit is reported once.
    fn charge_cost(
        &mut self,
        at: FilePart<'_>,
        charge: impl FnOnce(&mut Budget) -> Result<(), ExceededLimit>,
    ) -> Result<bool> {
        if self.budget.is_over {
            return Ok(false);
        }
        let Err((what, limit)) = charge(&mut self.budget) else { return Ok(true) };
        self.budget.is_over = true;
        let error = at.error(Malformed::search(what, limit, at.data.offset()));
        // The exceeded limit ends the walk anyway, whether the visitor breaks off or not.
        let _: ControlFlow<()> = (self.visitor)(WalkEvent::Found(Finding::Broken { place: at.place, error }))?;
        Ok(false)
    }

    /// Reports a finding that counts as `count` findings: a bundle counts together with its code objects. Charges them
    /// first, and does nothing once a limit is reached.
    pub(super) fn report_finding(&mut self, count: u64, at: FilePart<'_>, finding: Finding<'_>) -> Result<()> {
        // A visitor may keep the names in the place once for each code object of the finding.
        let mut names = at.place.weight().saturating_mul(count);
        if let Finding::Bundle(found) = &finding {
            add(&mut self.bundles, 1);
            add(&mut names, budget::ids_len(found.bundle, ID_MAX));
        }
        if self.charge_cost(at, |budget| budget.charge_findings(count).and_then(|()| budget.charge_names(names)))? {
            let flow = (self.visitor)(WalkEvent::Found(finding))?;
            self.budget.is_over |= flow.is_break();
        }
        Ok(())
    }

    /// Reports a fault in the data. A failure to write a temporary file is an error of the search instead.
    pub(super) fn report_broken(&mut self, at: FilePart<'_>, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::Temporary {
            return Err(error);
        }
        self.report_finding(1, at, Finding::Broken { place: at.place, error })
    }

    /// Returns the value that was read, or reports the fault and returns `None`.
    pub(super) fn ok_or_report<T>(&mut self, at: FilePart<'_>, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.report_broken(at, error)?;
                Ok(None)
            }
        }
    }

    /// Reports data at the start of the part that is recognised but not read.
    pub(super) fn report_unread(&mut self, at: FilePart<'_>, what: Unread) -> Result<()> {
        self.report_finding(1, at, Finding::Unread { place: at.place, offset: at.data.offset(), what })
    }

    /// Reports trailing bytes at an offset, or at an unknown offset if `offset` is `None`. The bytes follow a
    /// package if `after` is the format of one, otherwise bundles.
    pub(super) fn report_trailing(
        &mut self,
        at: FilePart<'_>,
        offset: Option<u64>,
        after: Option<&'static str>,
    ) -> Result<()> {
        self.report_finding(1, at, Finding::Trailing { place: at.place, offset, after })
    }

    /// Searches consecutive bundles and, in a deep search, the bytes after them.
    fn search_bundles_and_rest(&mut self, at: FilePart<'_>, reader: BundleReader) -> Result<()> {
        let (count, end) = self.search_bundles(at, reader)?;
        self.search_rest_if_deep(at, end, count)
    }

    /// Walks consecutive bundles of one reader. Returns their number and, in a deep search, the end of the last one in
    /// the data, where the search by content goes on. In other searches, the end is 0.
    fn search_bundles(&mut self, at: FilePart<'_>, reader: BundleReader) -> Result<(usize, u64)> {
        let (data, container) = (at.data, reader.container);
        // Bundles that are inflated as a whole anyway are inflated ahead, on all processors. A walk that looks for the
        // data of a URI inflates only the bundles that lead there.
        let inflated_ahead = match self.scan.inflate {
            Inflate::Whole | Inflate::AsNeeded if self.goal.is_none() => {
                find_inflated_whole(data, container, self.scan.inflate, self.budget.limits_at(at.place))
            }
            _ => Vec::new(),
        };
        let with_size = inflated_ahead.into_iter().map(|compressed| (compressed.recorded().inflated, compressed));
        ahead::inflate(with_size, self.budget.bytes_left(), inflate_numbered, |inflated| {
            let mut bundles = SearchBundles::new(data, container, self.scan.inflate);
            let mut end = data.offset();
            let mut index = 0_usize;
            loop {
                // Fetches the next bundle that was inflated ahead. `bundles` uses it when it reaches this bundle.
                bundles.take_inflated(inflated);
                match self.next_bundle(at, &mut bundles)? {
                    None => break,
                    Some(Ok(bundle)) => {
                        if self.scan.deep
                            && let Ok(range) = bundle.range()
                        {
                            end = range.end;
                        }
                        self.report_bundle(at, index, bundle, reader)?;
                    }
                    Some(Err(error)) => self.report_broken(at, error)?,
                }
                // A broken bundle has an index too, so that the indices of later bundles do not depend on the fault.
                index = index.saturating_add(1);
            }
            // The bundles may be followed by data that is not a bundle.
            if let Some(offset) = bundles.stopped_at() {
                self.report_trailing(at, Some(offset), NO_PACKAGE)?;
            }
            Ok((index, end.saturating_sub(data.offset())))
        })
    }

    /// Returns the next bundle, or the error of reading it. Returns `None` at the end, and once the cost of inflating
    /// exceeds the limit.
    pub(super) fn next_bundle<'d>(
        &mut self,
        at: FilePart<'_>,
        bundles: &mut SearchBundles<'d>,
    ) -> Result<Option<Result<Bundle<'d>>>> {
        let bundle = bundles.next_within(self.budget.limits_at(at.place));
        // The header of a compressed bundle claims an inflated size. Other bundles were not inflated.
        let cost = match bundles.claimed() {
            Some(claimed) => Budget::cost_of_inflating(at.place, self.inflated_len(&bundle, claimed)),
            None => 0,
        };
        if !self.spend(at, cost)? {
            return Ok(None);
        }
        match bundle {
            Ok(Some(mut bundle)) => {
                let may_go_on = self.charge_and_find_ends(at, &mut bundle)?;
                Ok(if may_go_on { Some(Ok(bundle)) } else { None })
            }
            Ok(None) => Ok(None),
            Err(error) => Ok(Some(Err(error))),
        }
    }

    /// Returns the number of bytes that were inflated to read a compressed bundle, which claims to inflate to `claimed`
    /// bytes.
    fn inflated_len(&self, bundle: &Result<Option<Bundle<'_>>>, claimed: u64) -> u64 {
        match bundle {
            // The whole stream was inflated to find its end.
            Ok(Some(Bundle { compressed: Some(recorded), .. })) if recorded.end_needs_inflating() => claimed,
            // Otherwise only the beginning was inflated, if the search needs no more.
            Ok(Some(bundle)) if self.scan.inflate != Inflate::Whole => len_u64(bundle.beginning()),
            // A broken bundle may have been inflated up to its last byte.
            _ => claimed,
        }
    }

    /// Charges the code objects that are compressed one by one, and inflates them to find their exact ends: recorded
    /// sizes may include padding. Does nothing unless the search inflates whole bundles. Returns whether the search may
    /// continue.
    fn charge_and_find_ends(&mut self, at: FilePart<'_>, bundle: &mut Bundle<'_>) -> Result<bool> {
        if self.scan.inflate != Inflate::Whole {
            return Ok(true);
        }
        if !self.spend(at, bundle.inflated_len_of_packed())? {
            return Ok(false);
        }
        bundle.find_exact_ends()?;
        Ok(true)
    }

    /// Reports a bundle and its faults, and searches it.
    pub(super) fn report_bundle(
        &mut self,
        at: FilePart<'_>,
        index: usize,
        bundle: Bundle<'_>,
        reader: BundleReader,
    ) -> Result<()> {
        match (reader.format_of)(&bundle) {
            Ok(format) => {
                // In a deep search, other data may follow the bundle, so the end of its space is not known.
                let space_end = if self.scan.deep { UNKNOWN_SPACE_END } else { at.data.end() };
                self.report_and_search(at, format, index, &bundle, space_end)?;
            }
            Err(malformed) => self.report_broken(at, at.error(malformed))?,
        }
        self.report_faults(at, bundle.faults)
    }

    /// Reports entries of a format without bundles as one bundle, and searches them. Used for bare code objects, device
    /// images and kpack archives.
    pub(super) fn report_entries(
        &mut self,
        at: FilePart<'_>,
        format: Format,
        index: usize,
        entries: Vec<SearchEntry>,
    ) -> Result<()> {
        let contents = Contents::new(entries, at.data.len());
        let mut bundle = Bundle::plain_within(at.data, contents, self.budget.limits_at(at.place));
        if !self.charge_and_find_ends(at, &mut bundle)? {
            return Ok(());
        }
        self.report_and_search(at, format, index, &bundle, UNKNOWN_SPACE_END)
    }

    /// Reports faults that do not end the search of the part.
    pub(super) fn report_faults(
        &mut self,
        at: FilePart<'_>,
        faults: impl IntoIterator<Item = Malformed>,
    ) -> Result<()> {
        for fault in faults {
            self.report_broken(at, at.error(fault))?;
        }
        Ok(())
    }

    /// Charges and reports a bundle of a known format, and searches its code objects. `space_end` is the
    /// [field](FoundBundle::space_end) of the finding.
    fn report_and_search(
        &mut self,
        at: FilePart<'_>,
        format: Format,
        index: usize,
        bundle: &Bundle<'_>,
        space_end: u64,
    ) -> Result<()> {
        let place = at.place;
        let bytes_read = [place.weight(), budget::ids_len(bundle, budget::WHOLE_ID), budget::targets_len(bundle)];
        if !self.spend(at, total(bytes_read))? {
            return Ok(());
        }
        if format == Format::Bundle && matches!(place.steps().last(), Some(Step::Section(_))) {
            add(&mut self.bundles_in_sections, 1);
        }
        let facts = EntryFacts {
            numbers: self.number_entries(place, bundle),
            shared: shared_bytes(bundle, format),
            begins_file: index == 0 && at.file_start == Some(bundle.offset),
            linking: self.linking,
            ..EntryFacts::default()
        };
        let found = FoundBundle { place, format, index, bundle, facts: &facts, space_end };
        self.report_finding(budget::findings_in(bundle), at, Finding::Bundle(found))?;
        self.search_nested(at, &found)?;
        at.data.note_header_read();
        Ok(())
    }

    /// Returns the numbers of the steps to the entries of a bundle. Entries that are not searched are numbered too, so
    /// that URIs do not depend on the settings of the search.
    fn number_entries(&mut self, place: &Place, bundle: &Bundle<'_>) -> Vec<u64> {
        let key = self.numbers.place_key(place);
        bundle.entries.iter().map(|entry| self.numbers.count_step(key, step_name(entry.id()))).collect()
    }

    /// Searches the code objects of a bundle that are containers themselves, and the goal of the walk among them.
    fn search_nested(&mut self, at: FilePart<'_>, found: &FoundBundle<'_>) -> Result<()> {
        let FoundBundle { bundle, facts, .. } = *found;
        let Some(stored_len) = self.ok_or_report(at, bundle.stored_len())? else { return Ok(()) };
        // A hostile bundle may list the same bytes as any number of entries. All searched entries together may take no
        // more bytes than the bundle has.
        let mut bytes_left = stored_len;
        for ((code_object, entry), &number) in found.code_objects().zip(&bundle.entries).zip(&facts.numbers) {
            let index = code_object.index();
            // A URI names the inflated bytes of a code object that is compressed on its own, whatever they hold.
            let may_be_goal = self.goal.is_some() && code_object.packed().is_some();
            if !is_searched(&code_object) && !may_be_goal {
                continue;
            }
            let step = Step::Entry(step_name(entry.id()).to_vec());
            let Some(place) = self.step_to(at.place, step, number) else { continue };
            let at = at.at_place(&place, at.data);
            if let Some(data) = bundle.in_place(index) {
                let Some(rest) = bytes_left.checked_sub(data.len()) else {
                    let (what, expected) = ("size of the bundles in it", "together no more than the bundle");
                    let found = stored_len.saturating_sub(bytes_left).saturating_add(data.len());
                    let malformed = Malformed::value(what, found, bundle.offset, expected);
                    return self.report_broken(at, Error::malformed(data.path(), malformed));
                };
                bytes_left = rest;
                self.search_part(at.with_bytes(data))?;
            } else if self.spend(at, entry.size())? {
                self.search_restored_entry(at, bundle, index)?;
            }
        }
        Ok(())
    }

    /// Searches a code object of a bundle that is not contiguous in the searched bytes: it is inflated or restored
    /// first. A code object that cannot be read is skipped without a report: the jobs that read it report the fault.
    fn search_restored_entry(&mut self, at: FilePart<'_>, bundle: &Bundle<'_>, index: usize) -> Result<()> {
        let content = match bundle.content(index) {
            Ok(content) => content,
            Err(error) if error.is_of_system() => return Err(error),
            Err(_) => return Ok(()),
        };
        let inside = at.place.clone().inflated();
        let content = match content {
            Content::Restored(input) => input,
            // Offsets at the place count in all bytes that were inflated together, also for a code object that has only
            // a range of them.
            Content::Inflated(input, _) => return self.search_part(at.at_place(&inside, input.as_slice())),
            // The code object is a range of an inflated bundle. Offsets at the place count from the start of the code
            // object, so it is copied.
            Content::InPlace(slice) => Input::spool_copy(slice.path(), slice.bytes()).with_path(slice.path())?,
        };
        self.search_part(at.at_place(&inside, content.as_slice()))
    }

    /// Searches the objects that bitcode embeds. Bitcode for a device that embeds none is a code object itself.
    fn search_bitcode(&mut self, at: FilePart<'_>) -> Result<()> {
        let data = at.data;
        let embedded = match bitcode::embedded_objects(data.bytes(), data.offset()).with_path(data.path()) {
            Ok(embedded) => embedded,
            Err(error) => return self.report_broken_container(at, error),
        };
        if embedded.order.is_empty() && target::is_bitcode_for_device(data.bytes()) {
            return self.report_code_object(at);
        }
        let path = data.path();
        // Several objects may have the same content, which is stored once.
        let contents: Vec<Input> =
            embedded.contents.into_iter().map(|content| Input::from_bytes(path, content)).collect();
        let objects = embedded.order.into_iter().filter_map(|index| contents.get(index));
        for (index, object) in objects.enumerate() {
            let Some(place) = self.step(at.place, Step::Embedded(index)) else { continue };
            let outer_linking = mem::replace(&mut self.linking, Linking::WithObject);
            let searched = self.search_part(at.at_place(&place.inflated(), object.as_slice()));
            self.linking = outer_linking;
            searched?;
        }
        Ok(())
    }

    /// Reports an ELF file for a GPU, SPIR-V, bitcode, PTX or LTO-IR. A deep search also looks for other files after an
    /// ELF file.
    fn report_code_object(&mut self, at: FilePart<'_>) -> Result<()> {
        let data = at.data;
        if self.scan.deep && elf::len(data.bytes()).is_some() {
            // The search by content finds this ELF file first, reports it, and goes on at its end.
            return self.search_all_if_deep(at);
        }
        self.report_bare_code_object(at, ONLY_BUNDLE)
    }

    /// Reports a code object without a bundle as a bundle with one entry. `index` is the index of that bundle at the
    /// place.
    pub(super) fn report_bare_code_object(&mut self, at: FilePart<'_>, index: usize) -> Result<()> {
        let id = target::triple_and_target_id(at.data.bytes());
        self.report_entries(at, Format::CodeObject, index, vec![Entry::at(id.as_bytes(), 0..at.data.len()).into()])
    }

    /// Searches an ELF, COFF, PE or Mach-O file of a host: its fat object, its sections for device code, and then other
    /// sections.
    fn search_object(&mut self, at: FilePart<'_>, magic: Magic) -> Result<()> {
        let data = at.data;
        let listed = if self.scan.deep { ListedSections::All } else { ListedSections::Known };
        let read = sections::read(data.bytes(), data.offset(), listed).with_path(data.path());
        let mut sections = match read {
            // Of Mach-O files, only sections for device code are read.
            Ok(sections) if magic != Magic::MachO || !sections.for_device.is_empty() => sections,
            _ if magic == Magic::MachO => {
                self.report_unread(at, MACH_O)?;
                return self.search_all_if_deep(at);
            }
            // The magic of COFF is only the number of a machine, so data of other kinds may begin with it too.
            Err(error) if magic != Magic::Coff || is_certainly_coff(data.bytes()) => {
                return self.report_broken_container(at, missing_section_table(at, magic).unwrap_or(error));
            }
            _ => return self.search_all_if_deep(at),
        };
        self.report_missing_sections(at, magic, &sections)?;
        if is_split_library(&sections) {
            // The tools that split libraries leave remains of the bundles in the section for them. The remains are not
            // searched, because they would be reported as trailing bytes.
            sections.for_device.retain(|section| {
                section.holds != SectionContent::Containers || begins_with_container(data, &section.range)
            });
        }
        let mut count = 0;
        if sections.for_device.iter().any(|section| section.holds == SectionContent::FatObject) {
            (count, _) = self.search_bundles(at, BundleReader::FAT_OBJECT)?;
        }
        if self.scan.deep {
            return self.search_all_sections(at, sections, count);
        }
        let (bundles_before, joint) = (self.bundles_in_sections, JointSections::new(data, &sections));
        for section in &sections.for_device {
            self.search_section(at, section, &joint)?;
        }
        let found = self.bundles_in_sections.saturating_sub(bundles_before);
        self.search_other_sections(at, sections, &joint, found)
    }

    /// Reports sections whose names cannot be read, an ELF file without sections, and sections for device code without
    /// content. A split library has such sections on purpose.
    fn report_missing_sections(&mut self, at: FilePart<'_>, magic: Magic, sections: &Sections) -> Result<()> {
        if let Some(hidden) = &sections.hidden {
            self.report_finding(1, at, Finding::Hidden { place: at.place, error: at.error(hidden.clone()) })?;
        } else if sections.count == 0 && magic.is_elf() {
            if sections.others.is_empty() {
                self.report_unread(at, NO_SECTIONS)?;
            } else if let Some(packer) = segments::packer(at.data.bytes()) {
                self.report_unread(at, packer)?;
            }
        }
        if !is_split_library(sections) {
            for name in &sections.empty {
                self.report_unread(at.at_place(&at.place.join(Step::Section(name.clone())), at.data), NO_CONTENT)?;
            }
        }
        Ok(())
    }

    /// Searches a section of an object by the content that its header promises. `joint` are the sections of the object
    /// that are needed to read others. Returns the place of the section, or `None` if the walk has a goal and the
    /// section does not lead there.
    pub(super) fn search_section(
        &mut self,
        object: FilePart<'_>,
        section: &ChosenSection<SectionContent>,
        joint: &JointSections<'_>,
    ) -> Result<Option<Place>> {
        let ChosenSection { holds, name, range } = section;
        let data = object.data.claimed(range)?;
        let Some(place) = self.step(object.place, Step::Section(name.clone())) else { return Ok(None) };
        let at = object.at_place(&place, data);
        match *holds {
            // The sections of a fat object were read together as one bundle. The caller searches data by content.
            SectionContent::FatObject | SectionContent::Data | SectionContent::Other => Ok(()),
            SectionContent::KpackReference => self.report_split_library(object.place, at, joint.hip_wrappers),
            SectionContent::DeviceImages => self.report_device_images(object.data, at, &joint.images),
            SectionContent::ImageTable => self.report_image_table(object, at, &joint.images),
            SectionContent::Wrappers(kind) => {
                // Checking the wrappers of a section takes the tables of the whole file. So it is only done in a check
                // of the whole file: a search that compares all checksums, such as for `verify`.
                let is_check_of_file = self.scan.checksums == Checksums::OfAll;
                if is_check_of_file && self.spend(at.with_bytes(object.data), object.data.len())? {
                    let faults = wrapper::faults(object.data.bytes(), object.data.offset(), range, kind);
                    self.report_faults(at, faults)?;
                }
                Ok(())
            }
            SectionContent::Containers | SectionContent::OffloadBinaries | SectionContent::PerhapsContainers => {
                self.search_containers(object, at, section, joint.is_linked)
            }
        }?;
        Ok(Some(place))
    }

    /// Searches a section for containers. If the section does not begin with a container, reports that, unless another
    /// kind of content is usual.
    fn search_containers(
        &mut self,
        object: FilePart<'_>,
        at: FilePart<'_>,
        section: &ChosenSection<SectionContent>,
        is_linked: bool,
    ) -> Result<()> {
        let data = at.data;
        let magic = Magic::identify(data.bytes());
        let has_images = OffloadingSection::is_image(magic) || magic == Magic::Container(Format::OffloadBinary);
        let is_offloading = section.holds == SectionContent::OffloadBinaries && has_images;
        if is_offloading || magic.is_container() {
            // This goes into the facts of each bundle that is found in the section.
            let outer_linking = mem::replace(&mut self.linking, section.linking(is_linked));
            let searched = if is_offloading { self.search_images(at) } else { self.search_part(at) };
            self.linking = outer_linking;
            return searched;
        }
        // The section may belong to another program that uses the same name.
        if section.holds == SectionContent::PerhapsContainers {
            return Ok(());
        }
        // Before linking, the code may be in another object. Then the section is empty, or has zeros that the linker
        // replaces.
        let is_placeholder = !is_linked && data.bytes().iter().take(ZEROS_LOOKED_AT).all(|&byte| byte == 0);
        if data.is_empty() || is_placeholder {
            return Ok(());
        }
        self.report_trailing(at.with_bytes(object.data), Some(data.offset()), NO_PACKAGE)
    }

    /// Searches a section with offload binaries, and with images that are in none.
    fn search_images(&mut self, at: FilePart<'_>) -> Result<()> {
        let Some(at) = self.enter_container(at)? else { return Ok(()) };
        if !self.spend(at, at.data.len())? {
            return Ok(());
        }
        self.search_bundles_and_rest(at, BundleReader::OFFLOADING_SECTION)
    }

    /// Searches the members of an `ar` archive, or of a thin archive.
    fn search_archive(&mut self, at: FilePart<'_>) -> Result<()> {
        match Archive::read(at.data) {
            Ok(archive) => self.search_members(at, archive.members()),
            Err(error) => self.report_broken_container(at, error),
        }
    }

    /// Searches the members of an archive, until one cannot be read or the search may not continue.
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
                MemberLocation::Inside(slice) => self.search_part(at.at_place(&place, slice))?,
                MemberLocation::Beside(path) => self.search_separate_member(at.at_place(&place, at.data), &path)?,
            }
            // An archive may have headers in gigabytes of data. Noting them releases their memory in time.
            at.data.note_header_read();
        }
        Ok(())
    }

    /// Searches a member of a thin archive, which is a separate file. During the search, `sources` refuses a member
    /// that is one of the archives around it.
    fn search_separate_member(&mut self, at: FilePart<'_>, path: &Path) -> Result<()> {
        let place = at.place.clone().in_file(path);
        let entered = self.sources.enter(path);
        let Some(input) = self.ok_or_report(at.at_place(&place, at.data), entered)? else { return Ok(()) };
        self.budget.add_file(input.len());
        let searched = self.search_part(at.at_place(&place, input.as_slice()));
        self.sources.leave();
        input.unless_changed(searched)
    }

    /// Searches the members of a zip file, and reports faults of its directory and trailing bytes. Large compressed
    /// members are inflated ahead, on all processors.
    fn search_zip(&mut self, at: FilePart<'_>) -> Result<()> {
        let (mut members, error) = zip::members(at.data);
        // This is asked before the filter: only a zip file without any readable member is broken as a whole.
        let is_unreadable = members.is_empty();
        // The filter is for the members of the file, not for zip files inside of it.
        if let Some(is_searched) = &mut self.members
            && at.place.steps().is_empty()
        {
            members.retain(|member| is_searched(&member.name));
        }
        let scan = self.scan;
        let mut copies = if scan.copies { Copies::among(&members) } else { Copies::default() };
        // A walk that looks for the data of a URI inflates only the members that lead there, when it reaches them.
        let compressed = if self.goal.is_none() { compressed_members(&members) } else { Vec::new() };
        let inflate = |(index, content)| Some((index, inflate_if_needed(scan, &content)?));
        ahead::inflate(compressed.into_iter(), self.budget.bytes_left(), inflate, |inflated| {
            // Not every member was inflated ahead, so the next result may be for a later member.
            let mut inflated = inflated.peekable();
            for (index, member) in (0..).zip(members) {
                let inflated = inflated.next_if(|(next, _)| *next == index);
                self.search_zip_member(at, member, inflated.map(|(_, inflated)| inflated), &mut copies)?;
                // A zip file may have headers in gigabytes of data. Noting them releases their memory in time.
                at.data.note_header_read();
                if self.budget.is_over {
                    break;
                }
            }
            Ok::<(), Error>(())
        })?;
        match error {
            Some(error) if is_unreadable => self.report_broken_container(at, error)?,
            Some(error) => self.report_broken(at, error)?,
            None => {}
        }
        if let Some(offset) = zip::trailing(at.data) {
            self.report_trailing(at, Some(at.data.absolute(offset)), Some("zip file"))?;
        }
        Ok(())
    }

    /// Searches a member of a zip file. `inflated` is its content, or the error, if another thread has inflated it
    /// already.
    fn search_zip_member(
        &mut self,
        at: FilePart<'_>,
        member: ZipMember<'_>,
        inflated: Option<Result<Input>>,
        copies: &mut Copies,
    ) -> Result<()> {
        let Some(place) = self.step_into_package(at.place, Step::Member(member.name)) else { return Ok(()) };
        if let Some((offset, what)) = member.unread {
            return self.report_finding(1, at, Finding::Unread { place: &place, offset, what });
        }
        let Some(content) = self.ok_or_report(at.at_place(&place, at.data), member.content)? else { return Ok(()) };
        let bundles_before = self.bundles;
        let place = if content.form.is_none() { place } else { place.inflated() };
        let at = at.at_place(&place, content.stored).as_file();
        let hash = self.search_zip_content(at, &content, inflated, copies.may_have_copy(&content))?;
        // Only copies with device code are reported.
        if self.bundles > bundles_before
            && let Some(hash) = hash
            && let Some(first) = copies.first_with(hash, at.place)
        {
            let (size, stored) = (content.size, content.stored.len());
            self.report_finding(1, at, Finding::Copy { place: at.place, first: &first, size, stored })?;
        }
        Ok(())
    }

    /// Searches the content of a member of a zip file. `inflated` is that of
    /// [`search_zip_member`](Self::search_zip_member). Returns the hash of the content if `is_hash_wanted`, unless only
    /// a part of the content was read.
    fn search_zip_content(
        &mut self,
        at: FilePart<'_>,
        content: &ZipContent<'_>,
        inflated: Option<Result<Input>>,
        is_hash_wanted: bool,
    ) -> Result<Option<ContentHash>> {
        if content.form.is_none() {
            self.search_stored_member(at, content)?;
            return if is_hash_wanted { copies::hash_of(content.stored).map(Some) } else { Ok(None) };
        }
        match inflated {
            // `spend` has reported the exceeded limit.
            Some(_) if !self.spend(at, content.size)? => Ok(None),
            Some(Ok(input)) => {
                self.search_part(at.with_copy(input.as_slice()))?;
                if is_hash_wanted { copies::hash_of(input.as_slice()).map(Some) } else { Ok(None) }
            }
            Some(Err(error)) => self.report_broken(at, error).map(|()| None),
            None => match content.reader() {
                Ok(reader) => {
                    let reader = HashingReader::new(reader, is_hash_wanted);
                    let mut reader = ExplainingReader { reader, explain: |error| content.error(error) };
                    let size = Some(content.size);
                    let stream = Stream { reader: &mut reader, size, is_charged: false, has_source_offsets: false };
                    self.search_stream(at, stream)?;
                    Ok(reader.reader.hash_of(content.size))
                }
                Err(error) => self.report_broken(at, content.error(error)).map(|()| None),
            },
        }
    }

    /// Searches a member that is stored uncompressed. The search need not read all of it, so its checksum is compared
    /// separately, if the settings ask for that.
    fn search_stored_member(&mut self, at: FilePart<'_>, content: &ZipContent<'_>) -> Result<()> {
        let bundles_before = self.bundles;
        self.search_part(at.with_bytes(content.stored))?;
        let is_checked = match self.scan.checksums {
            Checksums::None => false,
            Checksums::OfFound => self.bundles > bundles_before,
            Checksums::OfAll => true,
        };
        if is_checked && let Err(error) = content.check_all() {
            self.report_broken(at, content.error(error))?;
        }
        Ok(())
    }
}

/// Inflates a compressed bundle. The number of the result is the offset of the bundle.
fn inflate_numbered(compressed: Compressed<'_>) -> Option<(u64, Inflated)> {
    Some((compressed.offset(), compressed.inflate_whole()))
}

/// Returns whether the object has a reference to kpack archives, in place of its device code.
fn is_split_library(sections: &Sections) -> bool {
    sections.for_device.iter().any(|section| section.holds == SectionContent::KpackReference)
}

/// Returns whether a code object in a bundle is searched as a container. A device image may also be an archive, which
/// `ocloc` writes for several Intel GPUs.
fn is_searched(code_object: &CodeObjectRef<'_>) -> bool {
    let Some(head) = code_object.head() else { return false };
    let magic = Magic::identify(&head);
    magic.is_container() || (code_object.found.format.has(Rule::KnownByContent) && magic == Magic::Archive)
}

/// Returns the error for an ELF file that ends before its section table, as after an interrupted download. Returns
/// `None` if the object has another fault.
fn missing_section_table(object: FilePart<'_>, magic: Magic) -> Option<Error> {
    if !magic.is_elf() {
        return None;
    }
    let (table, end) = (elf::missing_section_table(object.data.bytes())?, object.data.len());
    let text = format!("the file ends at {end}, its section table is at {table}: {CUT}");
    Some(object.error(Malformed::other(ErrorKind::Malformed, table, text)))
}

/// Returns whether a range of an object begins with a container of code objects.
fn begins_with_container(data: Slice<'_>, range: &Range<u64>) -> bool {
    let Some(section) = data.range(range) else { return false };
    Magic::identify(section.bytes()).is_container()
}
