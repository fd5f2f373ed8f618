//! Finds device code outside of the sections that are made for it.
//!
//! - Wrappers in `.hipFatBinSegment` may point at bundles in any section, such as `.rodata`. They are followed if there
//!   are more wrappers than bundles in the sections of the file, because finding their addresses takes all relocations.
//! - Data of programs, which is in sections that are loaded and not run, is searched by content.
//! - A [deep](super::Scan::deep) search does the same with all bytes.
//!
//! By content means: for the first bytes of containers, ELF files for GPUs, SPIR-V and PTX, at any offset. Programs also
//! mention these bytes, so that only what can be read counts: a container with entries, an ELF file whose tables and
//! content lie inside the data, a SPIR-V module whose functions end, PTX that is complete. Nothing is looked for inside
//! of what was found.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::place::Step;
use super::sections::{self, ListedSections, SectionContent, Sections};
use super::walk::{FilePart, JointSections, SHADER, Walk};
use super::{AnyBundle, BundleReader, Checksums};
use crate::base::bytes::{Cursor, add, len_of, len_u64, part, slice, tail, to_u64, total};
use crate::base::display::shown;
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::container::Bundles;
use crate::beyond::container::SearchEntry;
use crate::beyond::container::fatbin;
use crate::beyond::container::host::wrapper::{self, Wrapped};
use crate::beyond::container::{dxbc, ptx, spirv};
use crate::llvm::container::host::{ChosenSection, elf};
use crate::llvm::container::limits::HEADER_MAX;
use crate::llvm::container::magic::Magic;
use crate::llvm::container::offload_binary::Version;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::{self, Container, Limits, binary, compressed, offload_binary};

/// The first bytes that are looked for.
const MAGICS: [&[u8]; 8] = [
    BUNDLE,
    compressed::MAGIC,
    &offload_binary::MAGIC,
    &fatbin::MAGIC,
    b"\x7fELF",
    &spirv::MAGIC.to_le_bytes(),
    ptx::VERSION,
    &dxbc::MAGIC,
];

/// Searches for them: to make these takes longer than to search a small section.
static FINDERS: LazyLock<[Finder<'static>; MAGICS.len()]> = LazyLock::new(|| MAGICS.map(Finder::new));

/// The longest of them.
const BUNDLE: &[u8] = container::MAGIC.as_bytes();

/// The number of bytes that identify a format found by its first bytes.
const HEAD: u64 = 512;

/// The number of bytes that are inflated to identify the content of a compressed container.
const HEAD_INFLATED: usize = 64;

/// The number of bytes that this may take of a compressed container, at most.
const HEAD_STORED: u64 = 128 << 10;

/// The number of bytes that are searched at a time, for each of the magics: they should stay in the cache.
const BLOCK: u64 = 256 << 10;

/// The reason to read a container at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasonToRead {
    /// Its first bytes, which may be there for any reason.
    Magic,
    /// A wrapper that points there. It is a fault if it cannot be read.
    Wrapper,
}

/// The source files of the bundles in a linked file, by the offsets of the bundles, as far as its symbol table tells.
pub(crate) fn sources(data: &[u8]) -> HashMap<u64, String> {
    let Ok(sections) = sections::read(data, 0, ListedSections::Known) else { return HashMap::new() };
    let wrappers = sections.chosen.iter().filter(|section| section.holds == SectionContent::Wrappers(Wrapped::Bundle));
    let sources = wrappers.flat_map(|section| wrapper::sources(data, &section.range));
    sources.map(|(offset, source)| (offset, shown(&source).to_string())).collect()
}

impl Walk<'_, '_, '_> {
    /// Searches sections of an object that are not made for device code: those of data, and those into which its
    /// wrappers point. `found` is the number of bundles in its sections for them; images of `tables` were found
    /// already.
    pub(super) fn search_other_sections(
        &mut self,
        object: FilePart<'_>,
        sections: Sections,
        tables: &JointSections<'_>,
        found: u64,
    ) -> Result<()> {
        let data = object.data;
        let targets = if self.may_lack_bundles(data, &sections, found) {
            self.wrapper_targets(object, &sections)?
        } else {
            Vec::new()
        };
        let mut others = match targets.is_empty() {
            true => sections.others,
            false => sections::read(data.bytes(), data.offset(), ListedSections::All).with_path(data.path())?.others,
        };
        others.sort_by_key(|section| (section.range.start, section.range.end));
        let (images, mut position) = (tables.images.elsewhere(), 0_u64);
        // As `step` would number them all, but those that are passed over take none of the numbers that a search has.
        let (mut numbers, mut passed) = (HashMap::new(), 0);
        for ChosenSection { holds, name, range } in &others {
            let number = numbers.entry(name).or_insert(0);
            add(number, 1);
            let range = range.start.max(position)..range.end;
            let target = targets.get(targets.partition_point(|&target| target < range.start));
            let has_target = target.is_some_and(|&target| target < range.end);
            let content = data.range(&range).filter(|content| !content.is_empty());
            let Some(content) = content.filter(|_| has_target || *holds == SectionContent::Data) else { continue };
            // Objects have thousands of small sections, whose places take longer than the search. On the way to a goal,
            // what is off it need not be searched.
            let may_pass = !has_target && content.len() <= BLOCK && !self.has_goal();
            if may_pass && hits(content.bytes()).is_empty() {
                if !self.spend(object.with(content), content.len())? {
                    return Ok(());
                }
                add(&mut passed, content.len());
                position = range.end;
                continue;
            }
            let place = self.step_to(object.place, Step::Section(name.clone()), *number);
            let Some(place) = place else { continue };
            let (at, mut index) = (object.to(&place, data), 0);
            position = range.start;
            let first = images.partition_point(|image| image.start < range.start);
            for image in images.iter().skip(first).take_while(|image| image.start < range.end) {
                self.search_by_content(at, position..image.start, &mut index, &targets)?;
                position = position.max(image.end);
            }
            self.search_by_content(at, position..range.end, &mut index, &targets)?;
            position = position.max(range.end);
        }
        // Counted together, since a call may release memory.
        data.slice(0, passed).inspect(Slice::looked_through);
        Ok(())
    }

    /// Whether wrappers of an object may point at bundles outside of its sections for bundles, which have `found` of
    /// them.
    fn may_lack_bundles(&self, data: Slice<'_>, sections: &Sections, found: u64) -> bool {
        let wrappers =
            sections.chosen.iter().filter(|section| section.holds == SectionContent::Wrappers(Wrapped::Bundle));
        let count = |section: &ChosenSection<SectionContent>| {
            let content = data.range(&section.range).map(|section| section.bytes());
            wrapper::count(content.unwrap_or_default(), Wrapped::Bundle)
        };
        self.scan.checksums == Checksums::OfAll || total(wrappers.map(count)) > found
    }

    /// The offsets in an object, in order, to which its wrappers of bundles point.
    fn wrapper_targets(&mut self, object: FilePart<'_>, sections: &Sections) -> Result<Vec<u64>> {
        let mut targets = Vec::new();
        for section in &sections.chosen {
            // Each section takes the tables of the whole file.
            if section.holds == SectionContent::Wrappers(Wrapped::Bundle) && self.spend(object, object.data.len())? {
                targets.extend(wrapper::targets(object.data.bytes(), &section.range, Wrapped::Bundle));
            }
        }
        targets.sort_unstable();
        targets.dedup();
        Ok(targets)
    }

    /// Searches an object in file order: sections for device code as always, all other bytes by content. `count` is the
    /// number of bundles that were found at the place itself.
    pub(super) fn search_all_sections(&mut self, object: FilePart<'_>, sections: Sections, count: usize) -> Result<()> {
        let data = object.data;
        let targets = self.wrapper_targets(object, &sections)?;
        let tables = JointSections::new(data, &sections);
        let mut all = sections.chosen;
        all.extend(sections.others);
        all.sort_by_key(|section| (section.range.start, section.range.end));
        let (mut position, mut between) = (0_u64, count);
        for section in all {
            let Range { start, end } = section.range;
            self.search_by_content(object, position..start, &mut between, &targets)?;
            position = position.max(start);
            let place = self.search_section(object, &section, &tables)?;
            let magic = data.range(&section.range).map(|section| Magic::identify(section.bytes()));
            let is_read = match section.holds {
                SectionContent::FatObject => true,
                SectionContent::DeviceImages => magic.is_some_and(|magic| magic != Magic::Unknown),
                SectionContent::Containers | SectionContent::OffloadBinaries | SectionContent::PerhapsContainers => {
                    magic.is_some_and(Magic::is_container)
                }
                SectionContent::Wrappers(_)
                | SectionContent::KpackReference
                | SectionContent::ImageTable
                | SectionContent::Data
                | SectionContent::Other => false,
            };
            if let Some(place) = place.filter(|_| !is_read) {
                self.search_by_content(object.to(&place, data), position..end, &mut 0, &targets)?;
            }
            position = position.max(end);
        }
        self.search_by_content(object, position..data.len(), &mut between, &targets)
    }

    /// Reports a container that cannot be read, and searches its bytes if the search is deep.
    pub(super) fn report_broken_container(&mut self, at: FilePart<'_>, error: Error) -> Result<()> {
        self.report_broken(at, error)?;
        self.search_rest(at, 0, 0)
    }

    /// Searches the rest of some data, from an offset in it, if the search is deep. `count` bundles lie before it.
    pub(super) fn search_rest(&mut self, at: FilePart<'_>, from: u64, mut count: usize) -> Result<()> {
        match self.scan.deep {
            true => self.search_by_content(at, from..at.data.len(), &mut count, &[]),
            false => Ok(()),
        }
    }

    /// Searches a range of some data for containers and code objects, which are numbered from `index` and end in the
    /// range. `targets` are offsets in the data to which wrappers point.
    fn search_by_content(
        &mut self,
        at: FilePart<'_>,
        range: Range<u64>,
        index: &mut usize,
        targets: &[u64],
    ) -> Result<()> {
        let Some(region) = at.data.range(&range).filter(|region| !region.is_empty()) else { return Ok(()) };
        if !self.spend(at.with(region), len_of(&range))? {
            return Ok(());
        }
        let mut position = 0_u64;
        while let Some(rest) = region.tail(position).filter(|rest| !rest.is_empty()) {
            let rest = rest.tail(rest.hole_len()).unwrap_or(rest);
            position = rest.start_in(region);
            let block = rest.slice(0, rest.len().min(BLOCK.saturating_add(len_u64(BUNDLE)))).unwrap_or(rest);
            let mut end = position;
            for hit in hits(block.bytes()).into_iter().filter(|&hit| hit < BLOCK) {
                let hit = position.saturating_add(hit);
                if hit < end {
                    continue;
                }
                let lead = match targets.binary_search(&range.start.saturating_add(hit)) {
                    Ok(_) => ReasonToRead::Wrapper,
                    Err(_) => ReasonToRead::Magic,
                };
                let start = start_of(region.bytes(), end, hit);
                let Some(rest) = start.and_then(|start| region.tail(start)) else { continue };
                if let Some(len) = self.report_found_at(at.with(rest), index, lead)? {
                    end = rest.start_in(region).saturating_add(len);
                }
                if self.budget.is_spent {
                    return Ok(());
                }
            }
            block.looked_through();
            position = end.max(position.saturating_add(block.len().min(BLOCK)));
        }
        Ok(())
    }

    /// Reports the container or code object at the start of some data, counts it in `index` and returns its length, or
    /// that of text in which there is none; none if it cannot be read.
    fn report_found_at(&mut self, at: FilePart<'_>, index: &mut usize, lead: ReasonToRead) -> Result<Option<u64>> {
        let rest = at.data;
        let magic = Magic::identify(slice(rest.bytes(), 0, HEAD).unwrap_or(rest.bytes()));
        if !is_plausible(magic, rest.bytes()) && (lead == ReasonToRead::Magic || !magic.is_container()) {
            return Ok(None);
        }
        let len = match magic {
            magic if magic.is_gpu_elf() => elf::len(rest.bytes()).ok_or(rest.len().min(HEADER_MAX)),
            Magic::SpirV => spirv::len(rest.bytes()),
            Magic::Ptx => {
                let text = ptx::text_at(rest.bytes());
                // No part of it is PTX either.
                let Some(ptx) = ptx::whole(text) else { return Ok(Some(len_u64(text))) };
                Ok(len_u64(ptx))
            }
            Magic::Unread(_) => dxbc::len(rest.bytes()).ok_or(0),
            _ => return self.report_container_at(at, magic, index, lead),
        };
        let code = match len.map(|len| rest.slice(0, len)) {
            Ok(Some(code)) => code,
            Ok(None) => return Ok(None),
            Err(cost) => return self.spend(at, cost).map(|_| None),
        };
        match magic {
            Magic::SpirV if !spirv::has_kernels(code.bytes()) => self.report_unread(at.with(code), SHADER)?,
            Magic::Unread(what) => self.report_unread(at.with(code), what)?,
            _ => {
                self.report_bare_code_object(at.with(code), *index)?;
                *index = index.saturating_add(1);
            }
        }
        Ok(Some(code.len()))
    }

    /// The same for a container.
    fn report_container_at(
        &mut self,
        at: FilePart<'_>,
        magic: Magic,
        index: &mut usize,
        lead: ReasonToRead,
    ) -> Result<Option<u64>> {
        let rest = at.data;
        let reader = BundleReader::for_magic(magic);
        let container = reader.container;
        let limits = self.budget.limits_at(at.place);
        // The same for every search, so that one that inflates more finds no less.
        let mut trial = Bundles::new(rest, container, Inflate::Headers);
        let read = match lead == ReasonToRead::Wrapper || inflates(container, rest, limits) {
            true => trial.next_within(limits),
            false => Ok(None),
        };
        let len = match read {
            Ok(Some(bundle)) if !bundle.entries.is_empty() && (reader.format_of)(&bundle).is_ok() => {
                Some(bundle.stored_len()?)
            }
            Err(error) if error.is_of_system() => return Err(error),
            Err(error) if lead == ReasonToRead::Wrapper || is_beyond(&error, self.scan.limits.inflated) => {
                self.report_broken(at, error)?;
                None
            }
            _ => None,
        };
        let Some(len) = len else {
            // The bytes after it may be read again for the next one.
            let most = if magic == Magic::CompressedBundle { HEAD_STORED } else { HEADER_MAX };
            self.spend(at, total([rest.len().min(most), trial.claimed().unwrap_or(0)]))?;
            return Ok(None);
        };
        match self.next_bundle(at, &mut Bundles::new(rest, container, self.scan.inflate))? {
            Some(Ok(bundle)) => {
                self.report_bundle(at.with(rest.slice(0, len).unwrap_or(rest)), *index, bundle, reader)?;
            }
            Some(Err(error)) => self.report_broken(at, error)?,
            None => {}
        }
        *index = index.saturating_add(1);
        Ok(Some(len))
    }
}

/// Whether the first bytes of a container can be inflated, and are those of one, if it is compressed.
fn inflates(container: &dyn Container<Entry = SearchEntry>, data: Slice<'_>, limits: Limits) -> bool {
    let Ok(Some(compressed)) = container.compressed(data, limits) else { return true };
    let mut head = Vec::new();
    let inflated = compressed.inflate(false).and_then(|mut inflater| inflater.fill(&mut head, HEAD_INFLATED));
    inflated.is_ok() && (AnyBundle::format_of(&head).is_some() || Magic::identify(&head).is_container())
}

/// Whether it is the error for a container that claims more than the caller allows.
fn is_beyond(error: &Error, limit: u64) -> bool {
    matches!(error.fault(), Some(Malformed::Claim { claimed, .. }) if *claimed > limit)
}

/// The offsets of magics in some bytes, in order.
fn hits(block: &[u8]) -> Vec<u64> {
    let mut hits = Vec::new();
    for finder in FINDERS.iter() {
        let mut from = 0_u64;
        while let Some(hit) = tail(block, from).and_then(|rest| finder.find(rest)) {
            let hit = from.saturating_add(to_u64(hit));
            hits.push(hit);
            from = hit.saturating_add(1);
        }
    }
    hits.sort_unstable();
    hits
}

/// Whether the fields after the magic may be those of a container. This costs next to nothing, and leaves out almost
/// all that is not one.
fn is_plausible(magic: Magic, data: &[u8]) -> bool {
    let after = |magic: &[u8]| Cursor::new(tail(data, len_u64(magic)).unwrap_or_default(), 0);
    let what = "a field";
    match magic {
        Magic::Bundle => {
            let mut fields = after(BUNDLE);
            fields.u64(what).is_ok_and(|count| count > 0 && count <= fields.remaining() / binary::ENTRY_FIELDS)
        }
        Magic::CompressedBundle => {
            let mut fields = after(compressed::MAGIC);
            let [version, method] = [fields.u16(what), fields.u16(what)];
            version.is_ok_and(|version| (1..=3).contains(&version)) && method.is_ok_and(|method| method <= 1)
        }
        Magic::OffloadBinary => {
            let version = after(&offload_binary::MAGIC).u32(what);
            version.is_ok_and(|version| Version::from_number(version).is_some())
        }
        Magic::FatBinary => after(&fatbin::MAGIC).u16(what).is_ok_and(|version| u32::from(version) == fatbin::VERSION),
        Magic::SpirV => spirv::is_plausible(data),
        Magic::Ptx => true,
        Magic::Unread(_) => dxbc::len(data).is_some(),
        magic if magic.is_gpu_elf() => true,
        _ => false,
    }
}

/// Returns the start of a container or of PTX after `end`, from the offset of its first word (`hit`), or `None` if the word
/// is in the middle of a line of text. Only PTX may begin before its first word, with comments.
fn start_of(data: &[u8], end: u64, hit: u64) -> Option<u64> {
    match tail(data, hit)?.starts_with(ptx::VERSION) {
        true => ptx::start(part(data, end..len_u64(data))?, usize::try_from(hit.checked_sub(end)?).ok()?)
            .and_then(|start| end.checked_add(to_u64(start))),
        false => Some(hit),
    }
}
