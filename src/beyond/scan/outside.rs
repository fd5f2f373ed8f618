//! Finds device code outside of the sections that are made for it.
//!
//! - Wrappers in `.hipFatBinSegment` may point at bundles in any section, such as `.rodata`. They are followed if there
//!   are more wrappers than bundles in the sections of the file, because finding their addresses takes all relocations.
//! - Data of programs, which is in sections that are loaded and not run, is searched by content.
//! - A [deep](super::Scan::deep) search does the same with all bytes.
//!
//! A search by content looks for the first bytes of containers (HCF data among them), ELF files for GPUs, SPIR-V,
//! bitcode and PTX, at any offset. Programs also mention these bytes, so only readable findings count: a container with
//! entries, an ELF file with tables and content inside the data, a SPIR-V module whose functions end, bitcode with a
//! module for a device, complete PTX. The search continues after the end of a finding.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::place::Step;
use super::sections::{self, ListedSections, SectionContent, Sections};
use super::walk::{FilePart, JointSections, SHADER, Walk};
use super::{AnyBundle, BundleReader, Checksums};
use crate::base::bytes::{Cursor, add, len_of, len_u64, slice, tail, to_u64, total};
use crate::base::display::shown;
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::code::{self, CodeMagic, ptx, spirv, target};
use crate::beyond::container::bundle_reader::OffloadingSection;
use crate::beyond::container::host::wrapper::{self, WrapperKind};
use crate::beyond::container::{FORMATS, Magic, SearchBundles, SearchContainer};
use crate::llvm::container::host::ChosenSection;
use crate::llvm::container::limits::HEADER_MAX;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::stream::HashCheck;
use crate::llvm::container::{Limits, bitcode, compressed};

/// The magics that a search by content looks for, besides those of containers.
const MAGICS: [&[u8]; 5] = [compressed::MAGIC, b"\x7fELF", &spirv::MAGIC.to_le_bytes(), &bitcode::MAGIC, ptx::VERSION];

/// The searchers for magics, made once, because making them takes longer than searching a small section.
static FINDERS: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    let containers = FORMATS.iter().filter(|row| row.anywhere.is_some()).flat_map(|row| row.magics);
    containers.chain(&MAGICS).map(|magic| Finder::new(*magic)).collect()
});

/// The length of the longest magic in bytes: it reaches no further into the next block.
const MAGIC_MAX: u64 = 32;

/// The number of bytes that are enough to identify the format at a magic.
const HEAD_LEN: u64 = 512;

/// The number of bytes that are inflated to identify the content of a compressed container.
const HEAD_INFLATED: usize = 64;

/// The maximum number of compressed bytes that are read to identify the content of a compressed container.
const HEAD_STORED: u64 = 128 << 10;

/// The number of bytes that are searched at a time, once for each magic, so that they stay in the processor's cache.
const BLOCK: u64 = 256 << 10;

/// The targets of wrappers for a search that knows none, or whose wrappers are searched elsewhere.
pub(super) const NO_TARGETS: &[u64] = &[];

/// The reason to read a container at an offset. It decides whether a broken container is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasonToRead {
    /// The bytes of a magic, which may be there for any reason.
    Magic,
    /// A wrapper that points there. If the container cannot be read, that is a fault.
    Wrapper,
}

/// Returns the source files of the bundles in a linked file, by the offsets of the bundles, as far as the symbol table
/// has them.
pub(crate) fn source_files(data: &[u8]) -> HashMap<u64, String> {
    let mut sources = HashMap::new();
    let base = 0;
    let Ok(sections) = sections::read(data, base, ListedSections::Known) else { return sources };
    for section in bundle_wrappers(&sections) {
        for (offset, source) in wrapper::sources(data, &section.range) {
            sources.insert(offset, shown(&source).to_string());
        }
    }
    sources
}

/// Returns the sections with wrappers of bundles.
fn bundle_wrappers(sections: &Sections) -> impl Iterator<Item = &ChosenSection<SectionContent>> {
    sections.for_device.iter().filter(|section| section.holds == SectionContent::Wrappers(WrapperKind::Bundle))
}

impl Walk<'_, '_, '_> {
    /// Searches sections of an object that are not made for device code: sections of data, and sections at which its
    /// wrappers point. `found` is the number of bundles that were found in the sections for bundles. Device images in
    /// the image tables of `joint` were found already, and are left out.
    pub(super) fn search_other_sections(
        &mut self,
        object: FilePart<'_>,
        sections: Sections,
        joint: &JointSections<'_>,
        found: u64,
    ) -> Result<()> {
        let data = object.data;
        let targets = if self.may_lack_bundles(data, &sections, found) {
            self.wrapper_targets(object, &sections)?
        } else {
            Vec::new()
        };
        // A wrapper may point into any section, so all sections are listed then.
        let mut others = if targets.is_empty() {
            sections.others
        } else {
            sections::read(data.bytes(), data.offset(), ListedSections::All).with_path(data.path())?.others
        };
        others.sort_by_key(|section| (section.range.start, section.range.end));
        let images = joint.images.ranges_outside_sections();
        let mut searched_until = 0_u64;
        // A walk numbers only a limited count of steps. Sections that are passed over must not use that up, so all
        // these sections are numbered here, in the same way.
        let (mut numbers, mut passed_bytes) = (HashMap::new(), 0);
        for ChosenSection { holds, name, range } in &others {
            let number = numbers.entry(name).or_insert(0);
            add(number, 1);
            // Bytes that an earlier section has too are not searched again.
            let range = range.start.max(searched_until)..range.end;
            let has_target = has_any_in(&targets, &range);
            if !has_target && *holds != SectionContent::Data {
                continue;
            }
            let Some(content) = data.range(&range).filter(|content| !content.is_empty()) else { continue };
            if !has_target && self.may_pass_over(content) {
                if !self.spend(object.with_bytes(content), content.len())? {
                    return Ok(());
                }
                add(&mut passed_bytes, content.len());
                searched_until = range.end;
                continue;
            }
            let Some(place) = self.step_to(object.place, Step::Section(name.clone()), *number) else { continue };
            searched_until = self.search_around_images(object.at_place(&place, data), range, &images, &targets)?;
        }
        // The sections that were passed over are noted as read in one call, because each call may release memory, which
        // takes time. Only the number of bytes matters, so any range of that length does.
        data.slice(0, passed_bytes).inspect(Slice::note_all_read);
        Ok(())
    }

    /// Returns whether a section needs no search: it is small and holds no magic. Objects have thousands of small
    /// sections, and making a place for each takes longer than looking for magics.
    fn may_pass_over(&self, content: Slice<'_>) -> bool {
        // A walk that looks for the data of a URI makes a place for each section, to see whether it leads there.
        content.len() <= BLOCK && !self.has_goal() && find_magics(content.bytes()).is_empty()
    }

    /// Searches a range of some data by content, except for the device images in it, which were found by their tables.
    /// `images` are the ranges of all device images in the data, in order, and `targets` those of
    /// [`search_by_content`](Self::search_by_content). Returns the end of the range, or of its last image if that is
    /// later.
    fn search_around_images(
        &mut self,
        at: FilePart<'_>,
        range: Range<u64>,
        images: &[Range<u64>],
        targets: &[u64],
    ) -> Result<u64> {
        let (mut position, mut next_index) = (range.start, 0);
        let before_range = images.partition_point(|image| image.start < range.start);
        for image in images.iter().skip(before_range).take_while(|image| image.start < range.end) {
            self.search_by_content(at, position..image.start, &mut next_index, targets)?;
            position = position.max(image.end);
        }
        self.search_by_content(at, position..range.end, &mut next_index, targets)?;
        Ok(position.max(range.end))
    }

    /// Returns whether bundles may be outside of the sections for bundles: the object has more wrappers than `found`,
    /// the number of bundles in these sections. Returns true in a check of the whole file, which follows all wrappers.
    fn may_lack_bundles(&self, data: Slice<'_>, sections: &Sections, found: u64) -> bool {
        // A search that compares all checksums, such as for `verify`, is a check of the whole file.
        let is_check_of_file = self.scan.checksums == Checksums::OfAll;
        if is_check_of_file {
            return true;
        }
        let mut count = 0;
        for section in bundle_wrappers(sections) {
            if let Some(content) = data.range(&section.range) {
                add(&mut count, wrapper::count(content.bytes(), WrapperKind::Bundle));
            }
        }
        count > found
    }

    /// Returns the offsets in an object at which its wrappers of bundles point, in order.
    fn wrapper_targets(&mut self, object: FilePart<'_>, sections: &Sections) -> Result<Vec<u64>> {
        let mut targets = Vec::new();
        for section in bundle_wrappers(sections) {
            // Reading the wrappers of a section takes the tables of the whole file.
            if self.spend(object, object.data.len())? {
                targets.extend(wrapper::targets(object.data.bytes(), &section.range, WrapperKind::Bundle));
            }
        }
        targets.sort_unstable();
        targets.dedup();
        Ok(targets)
    }

    /// Searches an object in file order, in a deep search: sections for device code as always, all other bytes by
    /// content. `count` is the number of bundles that were found at the place of the object itself, not in a section.
    /// The indices of bundles between the sections go on from there.
    pub(super) fn search_all_sections(&mut self, object: FilePart<'_>, sections: Sections, count: usize) -> Result<()> {
        let data = object.data;
        let targets = self.wrapper_targets(object, &sections)?;
        let joint = JointSections::new(data, &sections);
        let mut all = sections.for_device;
        all.extend(sections.others);
        all.sort_by_key(|section| (section.range.start, section.range.end));
        let (mut position, mut next_index) = (0_u64, count);
        for section in all {
            let Range { start, end } = section.range;
            // Sections may overlap. The range up to a section that begins before `position` has no bytes.
            self.search_by_content(object, position..start, &mut next_index, &targets)?;
            position = position.max(start);
            let place = self.search_section(object, &section, &joint)?;
            if let Some(place) = place
                && !is_read_whole(data, &section)
            {
                // A section that was not searched as a whole has no findings yet.
                let mut next_index = 0;
                self.search_by_content(object.at_place(&place, data), position..end, &mut next_index, &targets)?;
            }
            position = position.max(end);
        }
        self.search_by_content(object, position..data.len(), &mut next_index, &targets)
    }

    /// Reports a container that cannot be read, and searches its bytes if the search is deep.
    pub(super) fn report_broken_container(&mut self, at: FilePart<'_>, error: Error) -> Result<()> {
        self.report_broken(at, error)?;
        self.search_all_if_deep(at)
    }

    /// Searches all of some data by content if the search is deep. Otherwise does nothing.
    pub(super) fn search_all_if_deep(&mut self, at: FilePart<'_>) -> Result<()> {
        let (start, next_index) = (0, 0);
        self.search_rest_if_deep(at, start, next_index)
    }

    /// Searches some data from the offset `start` in it by content, if the search is deep. Otherwise does nothing.
    /// `next_index` is the index of the next bundle at the place.
    pub(super) fn search_rest_if_deep(&mut self, at: FilePart<'_>, start: u64, mut next_index: usize) -> Result<()> {
        if self.scan.deep {
            self.search_by_content(at, start..at.data.len(), &mut next_index, NO_TARGETS)?;
        }
        Ok(())
    }

    /// Searches a range of some data for containers and code objects that end in the range. `next_index` is the index
    /// of the next finding at the place; each finding counts it up. `targets` are the offsets in the data at which
    /// wrappers point, in order: a container there is reported even if it is broken.
    pub(super) fn search_by_content(
        &mut self,
        at: FilePart<'_>,
        range: Range<u64>,
        next_index: &mut usize,
        targets: &[u64],
    ) -> Result<()> {
        let Some(region) = at.data.range(&range) else { return Ok(()) };
        if region.is_empty() || !self.spend(at.with_bytes(region), len_of(&range))? {
            return Ok(());
        }
        let mut position = 0_u64;
        while let Some(rest) = region.tail(position)
            && !rest.is_empty()
        {
            // Holes of a sparse file are skipped: they take no time to skip, and have no magics.
            let rest = rest.tail(rest.hole_len()).unwrap_or(rest);
            position = rest.start_in(region);
            // A magic that begins in the block may end after it, so the block is longer by the longest magic.
            let block = rest.slice(0, rest.len().min(BLOCK.saturating_add(MAGIC_MAX))).unwrap_or(rest);
            // The end of the previous finding, or the start of the block.
            let mut previous_end = position;
            // The next block begins with a magic at `BLOCK` or after it.
            for offset_in_block in find_magics(block.bytes()).into_iter().take_while(|&offset| offset < BLOCK) {
                let hit = position.saturating_add(offset_in_block);
                let is_in_previous = hit < previous_end;
                if is_in_previous {
                    continue;
                }
                let is_target = targets.binary_search(&range.start.saturating_add(hit)).is_ok();
                let reason = if is_target { ReasonToRead::Wrapper } else { ReasonToRead::Magic };
                // PTX may start before its magic, with comments.
                let Some(start) = start_of(region.bytes(), previous_end, hit) else { continue };
                let Some(rest) = region.tail(start) else { continue };
                if let Some(len) = self.report_found_at(at.with_bytes(rest), next_index, reason)? {
                    previous_end = rest.start_in(region).saturating_add(len);
                }
                if self.budget.is_over {
                    return Ok(());
                }
            }
            block.note_all_read();
            position = previous_end.max(position.saturating_add(block.len().min(BLOCK)));
        }
        Ok(())
    }

    /// Reports the container or code object at the start of some data, and counts up `next_index`. Returns the number
    /// of bytes that need no further search: the length of the finding, or of text that is not complete PTX. Returns
    /// `None` if nothing can be read.
    fn report_found_at(
        &mut self,
        at: FilePart<'_>,
        next_index: &mut usize,
        reason: ReasonToRead,
    ) -> Result<Option<u64>> {
        let rest = at.data;
        let magic = Magic::identify(slice(rest.bytes(), 0, HEAD_LEN).unwrap_or(rest.bytes()));
        // A broken container at which a wrapper points is a fault to report. Other broken containers are not.
        let is_expected = reason == ReasonToRead::Wrapper && magic.is_container();
        if !is_expected && !is_plausible(magic, rest.bytes()) {
            return Ok(None);
        }
        // The length of the code object. If there is no code object, the error is the number of bytes that were read to
        // find that out.
        let len = match magic {
            Magic::Code(CodeMagic::Ptx) => {
                let text = ptx::text_at(rest.bytes());
                // If the text is not complete PTX, no part of it is either, so the whole text needs no further search.
                let Some(ptx) = ptx::whole(text) else { return Ok(Some(len_u64(text))) };
                Ok(len_u64(ptx))
            }
            Magic::Code(code @ (CodeMagic::SpirV | CodeMagic::Bitcode)) => code::len(code, rest.bytes()),
            Magic::Code(code) if code.is_gpu_elf() => code::len(code, rest.bytes()),
            _ => return self.report_container_at(at, magic, next_index, reason),
        };
        let code = match len.map(|len| rest.slice(0, len)) {
            Ok(Some(code)) => code,
            // The code object would end after the data.
            Ok(None) => return Ok(None),
            Err(cost) => {
                self.spend(at, cost)?;
                return Ok(None);
            }
        };
        match magic {
            Magic::Code(CodeMagic::SpirV) if !spirv::has_kernels(code.bytes()) => {
                self.report_unread(at.with_bytes(code), SHADER)?
            }
            // Compilers keep the bitcode of a host beside its code, and it may embed code for devices.
            Magic::Code(CodeMagic::Bitcode) if !target::is_bitcode_for_device(code.bytes()) => {
                self.spend(at, code.len())?;
                return Ok(None);
            }
            _ => {
                self.report_bare_code_object(at.with_bytes(code), *next_index)?;
                *next_index = next_index.saturating_add(1);
            }
        }
        Ok(Some(code.len()))
    }

    /// Reports the container at the start of some data, and counts up `next_index`. Returns its length. Returns `None`
    /// if the bytes only look like a container, or if it is broken.
    fn report_container_at(
        &mut self,
        at: FilePart<'_>,
        magic: Magic,
        next_index: &mut usize,
        reason: ReasonToRead,
    ) -> Result<Option<u64>> {
        let rest = at.data;
        let reader = BundleReader::for_magic(magic);
        let Some(len) = self.try_container(at, magic, reader, reason)? else { return Ok(None) };
        // The bundle is read again, and now inflated as far as the search was asked to.
        match self.next_bundle(at, &mut SearchBundles::new(rest, reader.container, self.scan.inflate))? {
            Some(Ok(bundle)) => {
                self.report_bundle(at.with_bytes(rest.slice(0, len).unwrap_or(rest)), *next_index, bundle, reader)?;
            }
            Some(Err(error)) => self.report_broken(at, error)?,
            None => {}
        }
        *next_index = next_index.saturating_add(1);
        Ok(Some(len))
    }

    /// Reads the headers of a container on trial, and returns its length. If that fails, charges the trial and returns
    /// `None`. A container that is broken is reported only if a wrapper points at it, or if it exceeds the limit of the
    /// search.
    fn try_container(
        &mut self,
        at: FilePart<'_>,
        magic: Magic,
        reader: BundleReader,
        reason: ReasonToRead,
    ) -> Result<Option<u64>> {
        let (rest, container) = (at.data, reader.container);
        let limits = self.budget.limits_at(at.place);
        // Headers are enough to tell a container from other data. They are read in the same way whatever the search
        // inflates, so that every search finds the same containers.
        let mut trial = SearchBundles::new(rest, container, Inflate::Headers);
        let mut bundle = Ok(None);
        if reason == ReasonToRead::Wrapper || is_container_inside(container, rest, limits) {
            bundle = trial.next_within(limits);
        }
        match bundle {
            Ok(Some(bundle)) if !bundle.entries.is_empty() && (reader.format_of)(&bundle).is_ok() => {
                return Ok(Some(bundle.stored_len()?));
            }
            Err(error) if error.is_of_system() => return Err(error),
            Err(error) if reason == ReasonToRead::Wrapper || claims_more_than(&error, self.scan.limits.inflated) => {
                self.report_broken(at, error)?;
            }
            // With any other fault, the bytes only look like a container.
            _ => {}
        }
        // The search goes on directly after the magic and may read the same bytes for each further magic, so the trial
        // is charged: the bytes that it read and inflated at most.
        let most_read = if magic == Magic::CompressedBundle { HEAD_STORED } else { HEADER_MAX };
        let cost_per_byte = if let Magic::Container(format) = magic { format.row().trial_cost } else { 1 };
        let cost_of_reading = rest.len().min(most_read).saturating_mul(cost_per_byte);
        self.spend(at, total([cost_of_reading, trial.claimed().unwrap_or(0)]))?;
        Ok(None)
    }
}

/// Returns whether any of some offsets, which are in order, is in a range.
fn has_any_in(offsets: &[u64], range: &Range<u64>) -> bool {
    match offsets.get(offsets.partition_point(|&offset| offset < range.start)) {
        Some(&first) => first < range.end,
        None => false,
    }
}

/// Returns whether a section of an object was searched as a whole, so that its bytes need no search by content.
fn is_read_whole(data: Slice<'_>, section: &ChosenSection<SectionContent>) -> bool {
    let range = &section.range;
    match section.holds {
        // All sections of a fat object were read together as one bundle.
        SectionContent::FatObject => true,
        // A section that begins with an unknown format may hold other data than device images.
        SectionContent::DeviceImages => identify_range(data, range) != Magic::Unknown,
        // Only a section that begins with a container was searched for containers.
        SectionContent::Containers | SectionContent::PerhapsContainers => identify_range(data, range).is_container(),
        SectionContent::OffloadBinaries => {
            let magic = identify_range(data, range);
            magic.is_container() || OffloadingSection::is_image(magic)
        }
        // In these sections, no containers were looked for.
        SectionContent::Wrappers(_)
        | SectionContent::KpackReference
        | SectionContent::ImageTable
        | SectionContent::Data
        | SectionContent::Other => false,
    }
}

/// Identifies the bytes in a range of some data. Bytes that are not in the data are of an unknown format.
fn identify_range(data: Slice<'_>, range: &Range<u64>) -> Magic {
    match data.range(range) {
        Some(content) => Magic::identify(content.bytes()),
        None => Magic::Unknown,
    }
}

/// Returns whether the content of a compressed container begins like a container, or false if it cannot be inflated.
/// Returns true for a container that is not compressed, and for one with a broken header, which reading it reports.
fn is_container_inside(container: &dyn SearchContainer, data: Slice<'_>, limits: Limits) -> bool {
    let Ok(Some(compressed)) = container.compressed(data, limits) else { return true };
    let Ok(mut inflater) = compressed.inflate(HashCheck::Skip) else { return false };
    let mut head = Vec::new();
    if inflater.fill(&mut head, HEAD_INFLATED).is_err() {
        return false;
    }
    AnyBundle::format_of_head(&head).is_some() || Magic::identify(&head).is_container()
}

/// Returns whether the error is about a container that claims a larger inflated size than `limit`.
fn claims_more_than(error: &Error, limit: u64) -> bool {
    matches!(error.fault(), Some(Malformed::Claim { claimed, .. }) if *claimed > limit)
}

/// Returns the offsets of magics in some bytes, in order.
fn find_magics(block: &[u8]) -> Vec<u64> {
    let mut hits = Vec::new();
    for finder in FINDERS.iter() {
        let mut position = 0_u64;
        while let Some(rest) = tail(block, position)
            && let Some(hit_in_rest) = finder.find(rest)
        {
            let hit = position.saturating_add(to_u64(hit_in_rest));
            hits.push(hit);
            position = hit.saturating_add(1);
        }
    }
    hits.sort_unstable();
    hits
}

/// Returns whether the fields after the magic are plausible for the format. This takes almost no time, and rules out
/// most of the places at which other data has the bytes of the magic.
fn is_plausible(magic: Magic, data: &[u8]) -> bool {
    match magic {
        Magic::Container(format) => format.row().anywhere.is_some_and(|check| check(data)),
        Magic::CompressedBundle => {
            let mut fields = Cursor::new(tail(data, len_u64(compressed::MAGIC)).unwrap_or_default(), 0);
            let (version, method) = (fields.u16("the version"), fields.u16("the compression method"));
            matches!((version, method), (Ok(1..=3), Ok(0..=1)))
        }
        Magic::Code(CodeMagic::SpirV) => spirv::is_plausible(data),
        Magic::Code(CodeMagic::Bitcode) => code::bitcode::is_plausible(data),
        Magic::Code(CodeMagic::Ptx) => true,
        magic if magic.is_gpu_elf() => true,
        _ => false,
    }
}

/// Returns the start of the container or PTX with the magic at the offset `hit`. A container starts with its magic. PTX
/// may start earlier, with comments, but not before `previous_end`, where the previous finding ends. Returns `None` if
/// the magic of PTX is in the middle of a line of text.
fn start_of(data: &[u8], previous_end: u64, hit: u64) -> Option<u64> {
    if !tail(data, hit)?.starts_with(ptx::VERSION) {
        return Some(hit);
    }
    let hit_after_previous = usize::try_from(hit.checked_sub(previous_end)?).ok()?;
    let start = ptx::start(tail(data, previous_end)?, hit_after_previous)?;
    previous_end.checked_add(to_u64(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_magic_is_longer_than_the_next_block_allows() {
        assert!(FINDERS.iter().all(|finder| len_u64(finder.needle()) <= MAGIC_MAX));
        // A format of each kind is looked for: a container, and code without one.
        for magic in [&b"__CLANG_OFFLOAD_BUNDLE__"[..], b"object-id", b"\x7fELF", b".version"] {
            assert_eq!(find_magics(magic), [0], "{}", magic.escape_ascii());
        }
    }
}
