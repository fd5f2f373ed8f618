//! Finds the sections of host objects, libraries and programs that hold device code.
//!
//! Of Mach-O files, only the sections that clang makes for device code are read. The known sections are in
//! [`container::section`](crate::beyond::container::section) and in the rows of the formats.
//!
//! Linked ELF files without section headers are read by their [`segments`].
//!
//! LLVM's packager looks for offload binaries only, in fewer places. The job
//! [`Unpackage`](crate::llvm::work::Unpackage) has its own walk.
//!
//! Rejected: everything that `container::host` rejects.

use std::collections::HashSet;
use std::ops::Range;

use super::found::Linking;
use super::segments::{self, Segments};
use crate::base::bytes::{add, bytes_in, slice, span, tail, to_u64};
use crate::base::error::Malformed;
use crate::beyond::code::{CodeMagic, elf_tables};
use crate::beyond::container::Magic;
use crate::beyond::container::host::gaps::pe::has_no_names;
use crate::beyond::container::section::{self, RELOCATABLE_CODE, known_content};
pub(crate) use crate::beyond::container::section::{HIP_SECTIONS, SectionContent};
use crate::llvm::container::host::{self, ChosenSection};

/// The end of the names of sections with offload binaries, of clang and of Cray's compilers.
const OFFLOADING: &[u8] = b".llvm.offloading";

/// The sections of an object that matter to a search.
pub(super) struct Sections {
    /// The sections that are made for device code, in the order of the section table.
    pub(super) for_device: Vec<ChosenSection<SectionContent>>,
    /// Whether the object is linked: a program or a library. In an object that is not, sections for device code may be
    /// empty or zero, because the linker fills them.
    pub(super) is_linked: bool,
    /// The total number of sections. In a file without sections, other lists have parts of its segments.
    pub(super) count: u64,
    /// The names of sections for bundles or offload binaries without content in the file, as `strip` leaves them in a
    /// file with debugging information alone.
    pub(super) empty: Vec<Vec<u8>>,
    /// Sections of data with content, in the order of the section table; with [`ListedSections::All`], all other
    /// sections with content too. Sections that reach beyond the file are left out.
    pub(super) others: Vec<ChosenSection<SectionContent>>,
    /// The fault that makes the names of some sections unreadable, so that sections for device code may be missed.
    pub(super) hidden: Option<Malformed>,
}

/// The sections to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedSections {
    /// Sections that are made for device code, and sections of data.
    Known,
    /// All sections with content, for a deep search or because wrappers may point into any of them.
    All,
}

/// Returns the kinds of content of the sections of an object that are made for device code.
pub(crate) fn device_contents(data: &[u8]) -> Result<Vec<SectionContent>, Malformed> {
    let base = 0;
    Ok(read(data, base, ListedSections::Known)?.for_device.iter().map(|section| section.holds).collect())
}

/// Reads the section table of an object, and sorts the sections by content. Offsets in errors count from the start of
/// the file, where the object is at `base`.
pub(super) fn read(data: &[u8], base: u64, listed: ListedSections) -> Result<Sections, Malformed> {
    let mut sorter =
        SectionSorter { data, listed, count: 0, nameless: 0, is_linked: false, empty: Vec::new(), others: Vec::new() };
    // `host::sections` checks the sections with a returned content: it fails if one reaches beyond the object.
    let mut for_device = host::sections(data, base, |section| Ok(sorter.content_of(section)))?;
    let SectionSorter { count, nameless, mut empty, is_linked, others, .. } = sorter;
    // The magic is checked first, because few files are without sections.
    if count == 0 && Magic::identify(data) == Magic::Code(CodeMagic::Elf) && elf_tables::check_names(data).is_ok() {
        let Segments { for_device, data: others, hidden } = segments::read(data, base);
        return Ok(Sections { for_device, is_linked: true, count, empty, others, hidden });
    }
    // A container is read from the start of its range, so padding before it is left out.
    for section in &mut for_device {
        if section.holds.is_always_containers() {
            section.range = without_padding(data, std::mem::take(&mut section.range));
        }
    }
    // When `recompress` splits a section, the old section stays without content, and its parts have the same name.
    let with_content: HashSet<_> = for_device.iter().map(|section| &section.name).collect();
    empty.retain(|name| !with_content.contains(name));
    // If names cannot be read, sections for device code may be missed, which the caller reports.
    let hidden = unreadable_names(data, nameless, base);
    Ok(Sections { for_device, is_linked, count, empty, others, hidden })
}

/// Sorts the sections of an object by content.
struct SectionSorter<'d> {
    data: &'d [u8],
    listed: ListedSections,
    /// The number of sections so far, and the number of those whose names cannot be read.
    count: u64,
    nameless: u64,
    is_linked: bool,
    /// The names of sections for device code that have no content in the file.
    empty: Vec<Vec<u8>>,
    /// The listed sections that are not made for device code. They need not be sound.
    others: Vec<ChosenSection<SectionContent>>,
}

impl SectionSorter<'_> {
    /// Returns the content of a section that is made for device code. Adds any other section to the lists instead, and
    /// returns `None`.
    fn content_of(&mut self, section: &host::Section<'_>) -> Option<SectionContent> {
        add(&mut self.count, 1);
        add(&mut self.nameless, section.name.is_err().into());
        // The answer is the same for each section of the object.
        self.is_linked = section::is_linked(section);
        let content = known_content(section);
        let name = section.name.unwrap_or_default();
        if content.is_some_and(SectionContent::is_always_containers) && section.range.is_none() {
            self.empty.push(name.to_vec());
        }
        let other = match content {
            None if self.listed == ListedSections::All => SectionContent::Other,
            Some(SectionContent::Data) => SectionContent::Data,
            content => return content,
        };
        // An empty section, or one that reaches beyond the object, has nothing to search.
        if let Some((start, len)) = section.range
            && len > 0
            && slice(self.data, start, len).is_some()
        {
            self.others.push(ChosenSection { holds: other, name: name.to_vec(), range: span(start, len) });
        }
        None
    }
}

/// Returns the fault that hides the names of some sections of an object, or `None` if no name is missing. `nameless` is
/// the number of sections whose names cannot be read, and `base` the offset of the object in its file.
fn unreadable_names(data: &[u8], nameless: u64, base: u64) -> Option<Malformed> {
    if Magic::identify(data).is_elf() {
        let Err(malformed) = elf_tables::check_names(data) else { return None };
        return Some(malformed.shifted_by(base));
    }
    // A PE program without a name table is usual: linkers and `strip` drop the table, but leave references to it.
    if nameless == 0 || has_no_names(data) {
        return None;
    }
    Some(Malformed::at(format!("the names of {nameless} sections cannot be read"), base))
}

/// Returns the range of a section of a PE file without the zeros before its container. `recompress` writes such zeros
/// where it splits a section, because the parts of a section of PE begin at pages. Returns any other range unchanged.
pub(super) fn without_padding(data: &[u8], range: Range<u64>) -> Range<u64> {
    /// The size of a page, and so more than the padding before a part.
    const PAGE: usize = 4096;
    let Some(content) = bytes_in(data, range.clone()) else { return range };
    if content.first() != Some(&0) || Magic::identify(data) != Magic::Pe {
        return range;
    }
    let zeros = to_u64(content.iter().take(PAGE).take_while(|&&byte| byte == 0).count());
    match tail(content, zeros) {
        Some(rest) if Magic::identify(rest).is_container() => range.start.saturating_add(zeros)..range.end,
        _ => range,
    }
}

/// Returns whether a section with this name has relocatable CUDA code.
pub(crate) fn is_relocatable_code(name: &[u8]) -> bool {
    // In Mach-O files, the name of the segment and a comma come first.
    let name = name.rsplit(|&byte| byte == b',').next().unwrap_or(name);
    RELOCATABLE_CODE.iter().any(|known| known.as_bytes() == name)
}

impl ChosenSection<SectionContent> {
    /// Returns when the code in the section is linked. Linkers and the CUDA driver link relocatable CUDA code, and
    /// clang's linker links the code in offload binaries. `is_linked` says whether the object itself is linked.
    pub(super) fn linking(&self, is_linked: bool) -> Linking {
        let is_relocatable = is_relocatable_code(&self.name);
        if is_linked {
            return if is_relocatable { Linking::AtStart } else { Linking::Before };
        }
        let is_for_linkers =
            is_relocatable || self.name.ends_with(OFFLOADING) || self.holds == SectionContent::OffloadBinaries;
        if is_for_linkers { Linking::WithObject } else { Linking::Before }
    }
}

/// Returns whether a section with this name, in an ELF or PE file, has device images.
pub(crate) fn has_device_images(name: &[u8]) -> bool {
    [&b"__CLANG_"[..], b"OFFLOAD_"].iter().any(|start| name.starts_with(start))
}
