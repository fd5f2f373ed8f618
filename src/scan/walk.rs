//! Walks through a file: identifies each part and searches the parts inside it.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::{self, BufReader};
use std::ops::Range;
use std::path::Path;

use super::budget::{self, Budget, Spent};
use super::code_object::{ID_MAX, step_name};
use super::found::{Finding, Format, Found};
use super::packages::{Explained, Stream};
use super::place::{Place, Step};
use super::sections::{self, Holds, ListedSections, Sections};
use super::sycl::ImageTables;
use super::uri::{Goal, StepNumbers};
use super::wide::Wide;
use super::zip::{self, CUT, ZipContent, ZipMember};
use super::{Checksums, Scan, Unread, Visitor, gpu_elf};
use crate::bytes::{is_text, len_u64, slice};
use crate::container::archive::{Archive, ArchiveMember, Location, Sources, is_debian_package, locate};
use crate::container::fatbin::Fatbin;
use crate::container::host::ChosenSection;
use crate::container::magic::{Magic, is_coff_object, is_elf_object};
use crate::container::object::FatObject;
use crate::container::offload_binary::OffloadBinary;
use crate::container::sequence::{self, Bundle, Bundles, Content, Inflate};
use crate::container::stream::Compressed;
use crate::container::wrapper::{self, Wrapped};
use crate::container::{Container, bitcode, extent, host, spirv};
use crate::error::{Error, ErrorKind, FileKind, Malformed, Result, WithPath};
use crate::io::input::{Input, Slice};
use crate::parallel;

/// The maximum nesting depth of containers.
const DEPTH_MAX: u32 = 16;

/// An ELF file without section headers, so that its device code cannot be located.
const NO_SECTIONS: Unread = Unread::anything("ELF file without section headers");

/// SPIR-V for graphics, which compilers of HIP, SYCL and OpenMP do not write.
const SHADER: Unread = Unread::anything("SPIR-V module without kernels");

/// A device code section without content: the file was split, or holds only debugging information.
const NO_CONTENT: Unread = Unread::anything("section for device code without content in this file");

/// The number of bytes that tell a text from other data.
const TEXT_HEAD: u64 = 4096;

/// The weight of what is inflated ahead: while one waits, no other is begun.
const ONE_WAITS: usize = parallel::WEIGHT_MAX + 1;

/// A walk and its visitor.
pub(super) struct Walk<'a, 'w, 'v> {
    pub(super) scan: &'w Scan,
    reach: Reach,
    /// The members of the file that are searched, if it is a zip file; all if none.
    pub(super) members: Option<&'w Accepts<'w>>,
    /// Whether a reference to kpack archives was followed: a library has one.
    pub(super) has_followed: bool,
    pub(super) sources: Sources<'a>,
    pub(super) budget: Budget,
    /// The number of bundles found.
    bundles: u64,
    /// The number of bundles in the narrow sense that lie in sections themselves, not in other bundles.
    pub(super) in_sections: u64,
    numbers: StepNumbers,
    /// What alone is looked for, if the walk is not a search.
    goal: Option<Goal<'w>>,
    visitor: &'w mut Visitor<'v>,
}

/// The parts of a file that a walk searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All parts that may hold device code.
    Everything,
    /// The places where LLVM's packager finds offload binaries: the file itself, sections of objects, bitcode, and
    /// members of archives that are any of these. Their content is treated as offload binaries without detection, and
    /// images are not searched. No budget applies, and the first error ends the walk.
    Packager,
}

/// Whether a member with a name is searched.
pub(crate) type Accepts<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// The form of a bundle, or why it has none.
pub(super) type FormatOf = fn(&Bundle<'_>) -> Result<Format, Malformed>;

/// The kind of a file that begins with `data` and is not a bundle.
pub(crate) fn file_kind(data: &[u8]) -> FileKind {
    let kind_by_sections = |sections: Sections| {
        let has = |holds: Holds| sections.chosen.iter().any(|section| section.holds == holds);
        match has(Holds::FatObject) {
            true => Some(FileKind::FatObject),
            false => has(Holds::DeviceImages).then_some(FileKind::DeviceImages),
        }
    };
    let magic = Magic::identify(data);
    match magic {
        _ if data.is_empty() => FileKind::Empty,
        // A compressed fat object: the other forms are bundles.
        Magic::Bundle | Magic::CompressedBundle => FileKind::FatObject,
        Magic::OffloadBinary => FileKind::OffloadBinary,
        Magic::SpirV if spirv::has_kernels(data) => FileKind::CodeObject,
        Magic::Ptx => FileKind::CodeObject,
        magic if magic.is_gpu_elf() => FileKind::CodeObject,
        Magic::Elf | Magic::BrokenElf | Magic::Coff | Magic::Pe => {
            match (magic, sections::read(data, 0, ListedSections::Known).map(kind_by_sections)) {
                (_, Ok(Some(kind))) => kind,
                // Any data may begin like a COFF object.
                (Magic::Coff, Err(_)) => FileKind::Other,
                (Magic::Elf | Magic::BrokenElf, _) => FileKind::Elf,
                _ => magic.name().map_or(FileKind::Other, FileKind::Known),
            }
        }
        Magic::Archive if is_debian_package(data) => FileKind::Package("Debian package"),
        Magic::Archive => FileKind::Archive,
        Magic::Zip => FileKind::Zip,
        Magic::Unknown if is_text(slice(data, 0, TEXT_HEAD).unwrap_or(data)) => FileKind::Known("text file"),
        magic => match magic.name() {
            Some(name) if magic.is_package() => FileKind::Package(name),
            Some(name) => FileKind::Known(name),
            None => FileKind::Other,
        },
    }
}

/// Whether data is a zip file, or ends with one.
pub(crate) fn is_zip(data: Slice<'_>) -> bool {
    let magic = Magic::identify(data.bytes());
    magic == Magic::Zip || zip_after(&Place::of_file(data.path()), data, magic).is_some()
}

/// The start of a zip file after a file or member of another format, if that may be followed by anything: the last member
/// of an archive may be a zip file too.
fn zip_after(place: &Place, data: Slice<'_>, magic: Magic) -> Option<u64> {
    let comment = match place.steps().last() {
        None => zip::COMMENT_MAX,
        Some(Step::Member(_)) => 0,
        Some(_) => return None,
    };
    let least = match magic {
        magic if magic.is_elf() => extent::elf_len(data.bytes()).filter(|&len| len < data.len())?,
        Magic::Pe | Magic::MachO | Magic::Script | Magic::Unread(_) | Magic::Unknown => 0,
        _ => return None,
    };
    zip::start_at_end(data, comment).filter(|&start| start >= least)
}

/// The sections of an object that are read together with others.
#[derive(Default)]
pub(super) struct JointSections<'d> {
    is_linked: bool,
    /// The first section with wrappers of a HIP library.
    hip_wrappers: Option<Slice<'d>>,
    pub(super) images: ImageTables,
}

impl<'d> JointSections<'d> {
    pub(super) fn of(data: Slice<'d>, sections: &Sections) -> Self {
        let all = |holds: Holds| sections.chosen.iter().filter(move |section| section.holds == holds);
        let ranges = |holds: Holds| all(holds).map(|section| section.range.clone());
        let wrappers = all(Holds::Wrappers(Wrapped::Bundle)).next();
        Self {
            is_linked: sections.is_linked,
            hip_wrappers: wrappers.and_then(|wrappers| data.range(&wrappers.range)),
            images: ImageTables::new(ranges(Holds::ImageTable), ranges(Holds::DeviceImages)),
        }
    }
}

impl<'a, 'w, 'v> Walk<'a, 'w, 'v> {
    pub(super) fn new(scan: &'w Scan, data: Slice<'a>, visitor: &'w mut Visitor<'v>) -> Self {
        let (sources, budget) = (Sources::new(data), Budget::new(scan.limits, data.len()));
        Self {
            scan,
            reach: Reach::Everything,
            members: None,
            has_followed: false,
            sources,
            budget,
            bundles: 0,
            in_sections: 0,
            numbers: StepNumbers::default(),
            goal: None,
            visitor,
        }
    }

    /// A walk with the reach of LLVM's packager.
    pub(super) fn of_packager(scan: &'w Scan, data: Slice<'a>, visitor: &'w mut Visitor<'v>) -> Self {
        Self { reach: Reach::Packager, ..Self::new(scan, data, visitor) }
    }

    /// A walk to some inflated data.
    pub(super) fn with_goal(self, goal: Goal<'w>) -> Self {
        Self { goal: Some(goal), ..self }
    }

    /// The place one step further in; none if the walk has a goal to which it does not lead.
    pub(super) fn step(&mut self, place: &Place, step: Step) -> Option<Place> {
        let number = self.numbers.next(self.numbers.key(place), &step.name());
        self.step_to(place, step, number)
    }

    /// As [`step`](Self::step), with the number of the step.
    fn step_to(&self, place: &Place, step: Step, number: u64) -> Option<Place> {
        let place = place.join_numbered(step, number);
        self.goal.as_ref().is_none_or(|goal| place.is_on(goal.way)).then_some(place)
    }

    /// Walks a whole file.
    pub(super) fn file(mut self, data: Slice<'_>) -> Result<Sources<'a>> {
        self.look(&Place::of_file(data.path()), data, DEPTH_MAX)?;
        Ok(self.sources)
    }

    pub(super) fn look(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        if let Some(goal) = self.goal.as_mut().filter(|goal| place.is_end_of(goal.way)) {
            // Nothing more is read.
            self.budget.is_spent = true;
            return (goal.take)(data);
        }
        let (magic, whole) = (Magic::identify(data.bytes()), data);
        let zip = if self.reach == Reach::Everything { zip_after(place, data, magic) } else { None };
        let data = zip.and_then(|start| data.slice(0, start)).unwrap_or(data);
        let magic = match magic {
            _ if self.reach == Reach::Packager && is_coff_object(data.bytes()) => Magic::Coff,
            Magic::Coff if self.reach == Reach::Packager => Magic::Unknown,
            magic => magic,
        };
        self.look_as(magic, place, data, depth)?;
        let Some(start) = zip else { return Ok(()) };
        let cost = whole.len().saturating_sub(start);
        match self.deeper(place, whole, 1, depth)? {
            Some(depth) if self.spend(place, whole, |budget| budget.take(cost))? => self.zip(place, whole, depth),
            _ => Ok(()),
        }
    }

    /// Searches data of a known format.
    fn look_as(&mut self, magic: Magic, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        if !magic.may_hold_code() {
            return self.rest(place, data, 0, 0, depth);
        }
        let levels = match self.reach {
            Reach::Everything => 1,
            Reach::Packager => u32::from(magic == Magic::Archive),
        };
        let Some(depth) = self.deeper(place, data, levels, depth)? else { return Ok(()) };
        if !self.spend(place, data, |budget| budget.take(data.len()))? {
            return Ok(());
        }
        match magic {
            Magic::OffloadBinary => self.offload_binaries(place, data, depth),
            Magic::Bitcode => self.bitcode(place, data, depth),
            Magic::Archive => self.archive(place, data, depth),
            magic if magic.is_gpu_elf() && self.reach == Reach::Everything => self.code_object(place, data, depth),
            magic if magic.is_elf() && self.reach == Reach::Packager && !is_elf_object(data.bytes()) => Ok(()),
            Magic::Coff | Magic::Pe => self.object(place, data, magic, depth),
            magic if magic.is_elf() => self.object(place, data, magic, depth),
            // LLVM's packager treats anything else as a file without offload binaries.
            _ if self.reach == Reach::Packager => Ok(()),
            Magic::Bundle | Magic::CompressedBundle | Magic::TextBundle => {
                self.bundles_and_rest(place, data, &Wide, Wide::form_of, depth)
            }
            Magic::FatBinary => self.bundles_and_rest(place, data, &Fatbin, |_| Ok(Format::Fatbin), depth),
            Magic::Kpack => self.kpack(place, data, depth),
            Magic::SpirV if spirv::has_kernels(data.bytes()) => self.code_object(place, data, depth),
            Magic::SpirV => self.unread(place, data, SHADER),
            Magic::Ptx => self.code_object(place, data, depth),
            Magic::Zip => self.zip(place, data, depth),
            Magic::Tar => self.tar_in_file(place, data, depth),
            magic if magic.is_package() => {
                let reader = &mut BufReader::new(data.reader());
                let stream = Stream { source: data, reader, size: None, is_charged: true, is_source: true };
                self.package(magic, place, stream, depth)
            }
            magic => {
                magic.unread().map_or(Ok(()), |what| self.unread(place, data, what))?;
                self.rest(place, data, 0, 0, depth)
            }
        }
    }

    /// The depth `levels` containers further in; none if it is exceeded, which is reported.
    pub(super) fn deeper(&mut self, place: &Place, data: Slice<'_>, levels: u32, depth: u32) -> Result<Option<u32>> {
        let deeper = depth.checked_sub(levels);
        if deeper.is_none() {
            let what = if self.reach == Reach::Packager { "archives" } else { "containers" };
            let error = Error::malformed(data.path(), Malformed::nested(what, DEPTH_MAX, data.offset()));
            self.broken(place, data, error)?;
        }
        Ok(deeper)
    }

    fn offload_binaries(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        self.bundles_and_rest(place, data, &OffloadBinary::default(), |_| Ok(Format::OffloadBinary), depth)
    }

    /// Charges a cost. Returns whether the search may continue; an exceeded limit is reported once.
    pub(super) fn spend(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        cost: impl FnOnce(&mut Budget) -> Result<(), Spent>,
    ) -> Result<bool> {
        if self.reach == Reach::Packager || self.budget.is_spent {
            return Ok(!self.budget.is_spent);
        }
        let Err((what, limit)) = cost(&mut self.budget) else { return Ok(true) };
        self.budget.is_spent = true;
        let error = Error::malformed(data.path(), Malformed::search(what, limit, data.offset()));
        (self.visitor)(Finding::Broken { place, error }).map(|_| false)
    }

    /// Reports a finding, charging `count` to the finding limit; does nothing once the limit is reached.
    pub(super) fn tell(&mut self, count: u64, data: Slice<'_>, finding: Finding<'_>) -> Result<()> {
        self.bundles = self.bundles.saturating_add(u64::from(matches!(finding, Finding::Bundle(_))));
        let names = finding.place().weight().saturating_mul(count).saturating_add(match &finding {
            Finding::Bundle(found) => budget::ids_len(found.bundle, ID_MAX),
            _ => 0,
        });
        if self
            .spend(finding.place(), data, |budget| budget.take_found(count).and_then(|()| budget.take_names(names)))?
        {
            // Nothing more is read.
            self.budget.is_spent |= (self.visitor)(finding)?.is_break();
        }
        Ok(())
    }

    pub(super) fn broken(&mut self, place: &Place, data: Slice<'_>, error: Error) -> Result<()> {
        // A failure to write a temporary file is not a fault in the data.
        if self.reach == Reach::Packager || matches!(error, Error::Temporary { .. }) {
            return Err(error);
        }
        self.tell(1, data, Finding::Broken { place, error })
    }

    pub(super) fn unread(&mut self, place: &Place, data: Slice<'_>, what: Unread) -> Result<()> {
        self.tell(1, data, Finding::Unread { place, offset: data.offset(), what })
    }

    fn bundles_and_rest(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        container: &dyn Container,
        format_of: FormatOf,
        depth: u32,
    ) -> Result<()> {
        let (count, end) = self.bundles(place, data, container, format_of, depth)?;
        self.rest(place, data, end, count, depth)
    }

    /// Walks consecutive bundles of one family. Returns how many it found, and the end of the last one in the data.
    fn bundles(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        container: &dyn Container,
        format_of: FormatOf,
        depth: u32,
    ) -> Result<(usize, u64)> {
        let compressed = match (self.scan.inflate, &self.goal) {
            (Inflate::Whole, None) => {
                sequence::ahead(data, container, self.budget.limits_at(place), self.budget.left())
            }
            _ => Vec::new(),
        };
        let inflate = |compressed: Compressed<'_>| (compressed.offset(), compressed.inflate_whole());
        parallel::in_order(
            compressed,
            inflate,
            |_| ONE_WAITS,
            |ahead| {
                let mut bundles = Bundles::new(data, container, self.scan.inflate);
                let mut end = data.offset();
                let mut index = 0_usize;
                loop {
                    bundles.take_inflated(ahead);
                    match self.next_bundle(place, data, &mut bundles)? {
                        None => break,
                        Some(Ok(bundle)) => {
                            if self.scan.deep {
                                end = bundle.range().map_or(end, |range| range.end);
                            }
                            self.report(place, data, index, bundle, format_of, depth)?;
                        }
                        Some(Err(error)) => self.broken(place, data, error)?,
                    }
                    index = index.saturating_add(1);
                }
                if let Some(offset) = bundles.stopped_at() {
                    self.tell(1, data, Finding::Trailing { place, offset: Some(offset), after: None })?;
                }
                Ok((index, end.saturating_sub(data.offset())))
            },
        )
    }

    /// The next bundle, or why it cannot be read. None at the end, and once the cost of inflating exceeds the limit.
    pub(super) fn next_bundle<'d>(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        bundles: &mut Bundles<'d>,
    ) -> Result<Option<Result<Bundle<'d>>>> {
        let limits = self.budget.limits_at(place);
        let bundle = bundles.next_within(limits);
        let claimed = bundles.claimed();
        let inflated = match (&bundle, claimed) {
            (_, None) => 0,
            (Ok(Some(Bundle { compressed: Some(recorded), .. })), Some(claimed)) if recorded.has_no_end() => claimed,
            (Ok(Some(bundle)), Some(_)) if self.scan.inflate != Inflate::Whole => len_u64(bundle.beginning()),
            (_, Some(claimed)) => claimed,
        };
        let cost = claimed.map_or(0, |_| Budget::inflating(place, inflated));
        if !self.spend(place, data, |budget| budget.take(cost))? {
            return Ok(None);
        }
        let Some(mut bundle) = bundle.transpose() else { return Ok(None) };
        let may_go_on = match &mut bundle {
            Ok(bundle) => self.settle(place, data, bundle)?,
            Err(_) => true,
        };
        Ok(may_go_on.then_some(bundle))
    }

    /// Charges the code objects that are compressed one by one, and finds their ends, if the search inflates them.
    /// Returns whether the search may continue.
    pub(super) fn settle(&mut self, place: &Place, data: Slice<'_>, bundle: &mut Bundle<'_>) -> Result<bool> {
        if self.scan.inflate != Inflate::Whole {
            return Ok(true);
        }
        let is_left = self.spend(place, data, |budget| budget.take(bundle.packed_len()))?;
        if is_left {
            bundle.settle()?;
        }
        Ok(is_left)
    }

    /// Reports one bundle and its faults.
    pub(super) fn report(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        index: usize,
        bundle: Bundle<'_>,
        format_of: FormatOf,
        depth: u32,
    ) -> Result<()> {
        match format_of(&bundle) {
            Ok(format) => {
                // What a deep search finds may have other data after it.
                let space_end = if self.scan.deep { 0 } else { data.end() };
                let found = Found { place, format, index, bundle: &bundle, numbers: &[], space_end };
                self.bundle(data, &found, depth)?;
            }
            Err(malformed) => self.broken(place, data, Error::malformed(data.path(), malformed))?,
        }
        self.faults(place, data, bundle.faults)
    }

    /// Reports faults beside which the rest can be read.
    pub(super) fn faults(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        faults: impl IntoIterator<Item = Malformed>,
    ) -> Result<()> {
        let mut errors = faults.into_iter().map(|fault| Error::malformed(data.path(), fault));
        errors.try_for_each(|error| self.broken(place, data, error))
    }

    /// Reports one bundle and searches it.
    pub(super) fn bundle(&mut self, data: Slice<'_>, found: &Found<'_>, depth: u32) -> Result<()> {
        let Found { place, bundle, .. } = *found;
        let ids = place.weight().saturating_add(budget::ids_len(bundle, usize::MAX));
        let cost = ids.saturating_add(budget::targets_len(bundle));
        if self.spend(place, data, |budget| budget.take(cost))? {
            let is_in_section =
                found.format == Format::Bundle && matches!(place.steps().last(), Some(Step::Section(_)));
            self.in_sections = self.in_sections.saturating_add(u64::from(is_in_section));
            let numbers = match self.reach {
                Reach::Everything => self.numbers_of(place, bundle),
                Reach::Packager => Vec::new(),
            };
            let found = Found { numbers: &numbers, ..*found };
            self.tell(budget::found_in(bundle), data, Finding::Bundle(found))?;
            if self.reach == Reach::Everything {
                self.nested(data, &found, depth)?;
            }
            data.looked_at();
        }
        Ok(())
    }

    /// The numbers of the steps to the entries of a bundle. All are numbered, whatever the search inflates.
    fn numbers_of(&mut self, place: &Place, bundle: &Bundle<'_>) -> Vec<u64> {
        let key = self.numbers.key(place);
        bundle.entries.iter().map(|entry| self.numbers.next(key, step_name(&entry.id))).collect()
    }

    /// Searches the code objects of a bundle that are bundles themselves. A device image may be an archive.
    fn nested(&mut self, around: Slice<'_>, found: &Found<'_>, depth: u32) -> Result<()> {
        let Found { place, bundle, numbers, .. } = *found;
        // Entries may share bytes without limit; those of compilers never do.
        let stored_len = match bundle.stored_len() {
            Ok(stored_len) => stored_len,
            Err(error) => return self.broken(place, around, error),
        };
        let mut left = stored_len;
        for ((code_object, entry), &number) in found.code_objects().zip(&bundle.entries).zip(numbers) {
            let index = code_object.index();
            let is_container = code_object.head().is_some_and(|head| {
                let magic = Magic::identify(&head);
                magic.is_container() || (found.format == Format::DeviceImages && magic == Magic::Archive)
            });
            // The walk may lead to any code object that is compressed on its own.
            if !is_container && (self.goal.is_none() || code_object.packed().is_none()) {
                continue;
            }
            let step = Step::Entry(step_name(&entry.id).to_vec());
            let Some(place) = self.step_to(place, step, number) else { continue };
            if let Some(data) = bundle.in_place(index) {
                let Some(rest) = left.checked_sub(data.len()) else {
                    let (what, expected) = ("size of the bundles in it", "together no more than the bundle");
                    let found = stored_len.saturating_sub(left).saturating_add(data.len());
                    let malformed = Malformed::Value { what, found, offset: bundle.offset, expected };
                    return self.broken(&place, around, Error::malformed(data.path(), malformed));
                };
                left = rest;
                self.look(&place, data, depth)?;
            } else if self.spend(&place, around, |budget| budget.take(entry.size()))? {
                let content = match bundle.content(index) {
                    Ok(content) => content,
                    Err(error @ (Error::Io { .. } | Error::Temporary { .. })) => return Err(error),
                    Err(_) => continue,
                };
                let content = match content {
                    Content::Restored(input) => input,
                    Content::Inflated(input, _) => {
                        self.look(&place.inflated(), input.as_slice(), depth)?;
                        continue;
                    }
                    // Its offsets count from its own start, not from that of the inflated data around it.
                    Content::InPlace(slice) => Input::set_aside(slice.path(), slice.bytes()).with_path(slice.path())?,
                };
                self.look(&place.inflated(), content.as_slice(), depth)?;
            }
        }
        Ok(())
    }

    fn bitcode(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let embedded = match bitcode::embedded_objects(data.bytes(), data.offset()).with_path(data.path()) {
            Ok(embedded) => embedded,
            Err(error) => return self.broken_container(place, data, error, depth),
        };
        if embedded.order.is_empty()
            && self.reach == Reach::Everything
            && bitcode::triple(data.bytes()).is_some_and(|triple| gpu_elf::is_for_device(&triple))
        {
            return self.code_object(place, data, depth);
        }
        let path = data.path();
        let objects: Vec<Input> = embedded.contents.into_iter().map(|object| Input::from_bytes(path, object)).collect();
        let in_order = embedded.order.into_iter().filter_map(|index| objects.get(index));
        for (index, object) in in_order.enumerate() {
            let Some(place) = self.step(place, Step::Embedded(index)) else { continue };
            match self.reach {
                Reach::Everything => self.look(&place.inflated(), object.as_slice(), depth)?,
                Reach::Packager => self.offload_binaries(&place, object.as_slice(), depth)?,
            }
        }
        Ok(())
    }

    /// Reports an ELF file for a GPU, SPIR-V or bitcode as a bundle with one entry. It is the whole file, unless other
    /// files may follow.
    fn code_object(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        if self.scan.deep && extent::elf_len(data.bytes()).is_some() {
            return self.rest(place, data, 0, 0, depth);
        }
        let container = gpu_elf::Bare;
        match Bundles::new(data, &container, self.scan.inflate).next() {
            Some(Ok(bundle)) => {
                let found =
                    Found { place, format: Format::CodeObject, index: 0, bundle: &bundle, numbers: &[], space_end: 0 };
                self.tell(2, data, Finding::Bundle(found))
            }
            Some(Err(error)) => self.broken(place, data, error),
            None => Ok(()),
        }
    }

    fn object(&mut self, place: &Place, data: Slice<'_>, magic: Magic, depth: u32) -> Result<()> {
        if self.reach == Reach::Packager {
            let sections = sections::of_packager(data.bytes(), data.offset()).with_path(data.path())?;
            let tables = JointSections { is_linked: true, ..JointSections::default() };
            return sections.iter().try_for_each(|section| self.section(place, data, section, &tables, depth));
        }
        let listed = if self.scan.deep { ListedSections::All } else { ListedSections::Known };
        let mut sections = match sections::read(data.bytes(), data.offset(), listed).with_path(data.path()) {
            Ok(sections) => sections,
            Err(error) => {
                if magic != Magic::Coff || host::is_certainly_coff(data.bytes()) {
                    let cut = extent::missing_section_table(data.bytes()).filter(|_| magic.is_elf());
                    let end = data.len();
                    let text = |table| format!("the file ends at {end}, its section table is at {table}: {CUT}");
                    let cut = cut.map(|table| Malformed::other(ErrorKind::Malformed, table, text(table)));
                    self.broken(place, data, cut.map_or(error, |cut| Error::malformed(data.path(), cut)))?;
                }
                return self.rest(place, data, 0, 0, depth);
            }
        };
        if let Some(hidden) = &sections.hidden {
            let error = Error::malformed(data.path(), hidden.clone());
            self.tell(1, data, Finding::Hidden { place, error })?;
        } else if sections.count == 0 && magic.is_elf() {
            self.unread(place, data, NO_SECTIONS)?;
        }
        let is_split = sections.chosen.iter().any(|section| section.holds == Holds::KpackReference);
        if is_split {
            // The tools that split libraries leave parts of the section for bundles.
            let begins = |range: &Range<u64>| {
                data.range(range).is_some_and(|section| Magic::identify(section.bytes()).is_container())
            };
            sections.chosen.retain(|section| section.holds != Holds::Containers || begins(&section.range));
        }
        for name in sections.empty.iter().filter(|_| !is_split) {
            self.unread(&place.join(Step::Section(name.clone())), data, NO_CONTENT)?;
        }
        let is_fat = sections.chosen.iter().any(|section| section.holds == Holds::FatObject);
        let count = match is_fat {
            true => self.bundles(place, data, &FatObject, |_| Ok(Format::FatObject), depth)?.0,
            false => 0,
        };
        if self.scan.deep {
            return self.all_sections(place, data, sections, count, depth);
        }
        let (before, tables) = (self.in_sections, JointSections::of(data, &sections));
        for section in &sections.chosen {
            self.section(place, data, section, &tables, depth)?;
        }
        let found = self.in_sections.saturating_sub(before);
        self.registered(place, data, &sections, found, depth)
    }

    /// Searches a section of an object, which may be read together with its `tables`.
    pub(super) fn section(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        section: &ChosenSection<Holds>,
        tables: &JointSections<'_>,
        depth: u32,
    ) -> Result<()> {
        let ChosenSection { holds, name, range } = section;
        let section = data.claimed(range)?;
        let of_object = place;
        let Some(place) = self.step(place, Step::Section(name.clone())) else { return Ok(()) };
        match *holds {
            Holds::FatObject | Holds::Other => Ok(()),
            Holds::KpackReference => self.split(of_object, &place, section, tables.hip_wrappers, depth),
            Holds::DeviceImages => self.device_images(&place, data, section, &tables.images, depth),
            Holds::ImageTable => self.image_table(of_object, &place, data, section, &tables.images, depth),
            Holds::Wrappers(kind) => {
                // Each section takes the tables of the whole file.
                let is_checked = matches!(self.scan.checksums, Checksums::OfAll)
                    && self.spend(&place, data, |budget| budget.take(data.len()))?;
                let faults = match is_checked {
                    true => wrapper::faults(data.bytes(), data.offset(), range, kind),
                    false => Vec::new(),
                };
                self.faults(&place, section, faults)
            }
            Holds::OffloadBinaries if self.reach == Reach::Packager => self.offload_binaries(&place, section, depth),
            Holds::Containers | Holds::OffloadBinaries | Holds::PerhapsContainers => {
                match Magic::identify(section.bytes()) {
                    magic if magic.is_container() => self.look(&place, section, depth),
                    _ if *holds == Holds::PerhapsContainers => Ok(()),
                    // In an object that is not yet linked, the code may come from another object.
                    _ if section.is_empty() => Ok(()),
                    _ if !tables.is_linked && section.bytes().iter().take(4096).all(|&byte| byte == 0) => Ok(()),
                    _ => {
                        let offset = Some(section.offset());
                        self.tell(1, data, Finding::Trailing { place: &place, offset, after: None })
                    }
                }
            }
        }
    }

    fn archive(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        match Archive::read(data) {
            Ok(archive) => self.members(place, data, archive.members(), depth),
            Err(error) => self.broken_container(place, data, error, depth),
        }
    }

    fn members<'m>(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        members: impl Iterator<Item = Result<ArchiveMember<'m>>>,
        depth: u32,
    ) -> Result<()> {
        for member in members {
            let member = match member {
                Ok(member) => member,
                Err(error) => return self.broken(place, data, error),
            };
            // Many members may share a long name.
            let name = len_u64(member.name);
            if !self.spend(place, data, |budget| budget.take(name))? {
                return Ok(());
            }
            let Some(place) = self.step(place, Step::Member(member.name.to_vec())) else { continue };
            let looked = match member.location {
                Location::Inside(slice) => self.look(&place, slice, depth),
                Location::Beside(path) => self.beside(&place, data, &path, depth),
            };
            looked.map_err(|error| match self.reach {
                Reach::Everything => error,
                Reach::Packager => locate(error, data.path(), member.name),
            })?;
            data.looked_at();
        }
        Ok(())
    }

    /// Searches a member of a thin archive, which is a separate file.
    fn beside(&mut self, place: &Place, around: Slice<'_>, path: &Path, depth: u32) -> Result<()> {
        let place = place.clone().in_file(path);
        let input = match self.sources.enter(path) {
            Ok(input) => input,
            Err(error) => return self.broken(&place, around, error),
        };
        self.budget.add_file(input.len());
        let looked = self.look(&place, input.as_slice(), depth);
        self.sources.leave();
        input.vouch_for(looked)
    }

    fn zip(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let (mut members, error) = zip::members(data);
        let is_unreadable = members.is_empty();
        if let Some(is_searched) = self.members.filter(|_| place.steps().is_empty()) {
            members.retain(|member| is_searched(&member.name));
        }
        let scan = self.scan;
        let large = match self.goal {
            Some(_) => Vec::new(),
            None => zip::large(&members, self.budget.left()),
        };
        let inflate = |(index, content): (usize, ZipContent<'_>)| (index, content.inflate_for(scan));
        parallel::in_order(
            large,
            inflate,
            |_| parallel::WEIGHT_MAX,
            |inflated| {
                let mut inflated = inflated.peekable();
                for (index, member) in members.into_iter().enumerate() {
                    let inflated = inflated.next_if(|(next, _)| *next == index).and_then(|(_, inflated)| inflated);
                    self.zip_member(place, data, member, inflated, depth)?;
                    data.looked_at();
                    if self.budget.is_spent {
                        break;
                    }
                }
                Ok::<(), Error>(())
            },
        )?;
        match error {
            Some(error) if is_unreadable => self.broken_container(place, data, error, depth)?,
            error => error.map_or(Ok(()), |error| self.broken(place, data, error))?,
        }
        match zip::trailing(data) {
            Some(at) => {
                let offset = Some(data.absolute(at));
                self.tell(1, data, Finding::Trailing { place, offset, after: Some("zip file") })
            }
            None => Ok(()),
        }
    }

    /// Searches a member, which another thread may have inflated.
    fn zip_member(
        &mut self,
        place: &Place,
        around: Slice<'_>,
        member: ZipMember<'_>,
        inflated: Option<io::Result<Input>>,
        depth: u32,
    ) -> Result<()> {
        let Some(place) = self.step(place, Step::Member(member.name)) else { return Ok(()) };
        match (member.content, inflated) {
            (Err(error), _) => self.broken(&place, around, error),
            (Ok(content), None) if content.form.is_none() => self.stored_member(&place, around, &content, depth),
            (Ok(content), None) => self.inflated_member(&place.inflated(), &content, depth),
            (Ok(content), Some(inflated)) => {
                let place = place.inflated();
                if !self.spend(&place, content.stored, |budget| budget.take(content.size))? {
                    return Ok(());
                }
                match inflated {
                    Ok(input) => self.look(&place, input.as_slice(), depth),
                    Err(error) => self.broken(&place, content.stored, content.error(error)),
                }
            }
        }
    }

    /// Searches a member that is stored uncompressed, so that it can be identified without being read as a whole.
    fn stored_member(&mut self, place: &Place, around: Slice<'_>, content: &ZipContent<'_>, depth: u32) -> Result<()> {
        let before = self.bundles;
        self.look(place, content.stored, depth)?;
        let is_checked = match self.scan.checksums {
            Checksums::None => false,
            Checksums::OfFound => self.bundles > before,
            Checksums::OfAll => true,
        };
        match if is_checked { content.check() } else { Ok(()) } {
            Err(error) => self.broken(place, around, content.error(error)),
            Ok(()) => Ok(()),
        }
    }

    fn inflated_member(&mut self, place: &Place, content: &ZipContent<'_>, depth: u32) -> Result<()> {
        let reader = match content.reader() {
            Ok(reader) => reader,
            Err(error) => return self.broken(place, content.stored, content.error(error)),
        };
        let mut reader = Explained { reader, explain: |error| content.error(error) };
        let (source, size) = (content.stored, Some(content.size));
        let stream = Stream { source, reader: &mut reader, size, is_charged: false, is_source: false };
        self.stream(place, stream, depth)
    }
}
