//! Finds the parts of linked ELF files without section headers (`ld.lld -z nosectionheader`, `sstrip`) that may hold
//! device code.
//!
//! Loaders do not read section headers, so such files run like others. Their segments are searched by content, like
//! sections of data. Wrappers and references to kpack archives are found by their magics, and take the place of the
//! sections with them.

use std::ops::Range;

use super::Unread;
use super::sections::SectionContent;
use crate::base::bytes::{len_u64, slice, span};
use crate::base::error::Malformed;
use crate::beyond::code::elf;
use crate::beyond::container::host::dynamic::loaded_segments;
use crate::beyond::container::host::wrapper::{self, WrapperKind};
use crate::beyond::container::kpack::REFERENCE_SECTIONS;
use crate::llvm::container::host::ChosenSection;

/// The parts of a file without section headers, in the order of their offsets.
pub(super) struct Segments {
    /// The wrappers and the reference to kpack archives, named like the sections that linkers put them into.
    pub(super) for_device: Vec<ChosenSection<SectionContent>>,
    /// The bytes of the file that a loader maps. Segments that share bytes are one part.
    pub(super) data: Vec<ChosenSection<SectionContent>>,
    /// The fault of a segment that ends after the file.
    pub(super) hidden: Option<Malformed>,
}

/// Reads the segments of a program or library. Offsets in errors count from the start of the file, where the program is
/// at `base`.
pub(super) fn read(data: &[u8], base: u64) -> Segments {
    let (mut for_device, mut parts, mut hidden) = (Vec::new(), Vec::<ChosenSection<_>>::new(), None);
    let mut segments = loaded_segments(data);
    segments.sort_by_key(|segment| segment.range.start);
    let file_end = len_u64(data);
    for segment in segments {
        let Range { start, end } = segment.range;
        if end > file_end && hidden.is_none() {
            let what = format!("segment {} ends at {end}, after the end of the file", segment.index);
            hidden = Some(Malformed::at(what, base.saturating_add(start)));
        }
        let end = end.min(file_end);
        match parts.last_mut() {
            // Code may be in the bytes of two segments together.
            Some(last) if start < last.range.end => last.range.end = last.range.end.max(end),
            _ if start < end => {
                let name = format!("segment {}", segment.index).into_bytes();
                parts.push(ChosenSection { holds: SectionContent::Data, name, range: start..end });
            }
            _ => {}
        }
    }
    let runs = parts.iter().flat_map(|part| wrapper::runs(data, &part.range));
    for (kind, range) in runs.take(wrapper::RUNS_MAX) {
        add_wrappers(data, kind, range, &mut for_device);
    }
    Segments { for_device, data: parts, hidden }
}

/// Adds a run of wrappers, and the reference to kpack archives that they lead to.
fn add_wrappers(
    data: &[u8],
    kind: WrapperKind,
    range: Range<u64>,
    for_device: &mut Vec<ChosenSection<SectionContent>>,
) {
    let (kind, name) = match kind {
        WrapperKind::Fatbin => (kind, ".nvFatBinSegment"),
        WrapperKind::Bundle | WrapperKind::KpackReference => (WrapperKind::Bundle, ".hipFatBinSegment"),
    };
    if let Some(start) = wrapper::reference(data, &range) {
        let (holds, name) = (SectionContent::KpackReference, REFERENCE_SECTIONS[0].into());
        // The reference records its own end.
        for_device.push(ChosenSection { holds, name, range: start..len_u64(data).max(start) });
    }
    let holds = SectionContent::Wrappers(kind);
    for_device.push(ChosenSection { holds, name: name.into(), range });
}

/// Returns the packer of a file whose segments are compressed, or `None` if it is not packed.
pub(super) fn packer(data: &[u8]) -> Option<Unread> {
    /// The bytes after the program headers in which UPX leaves its magic.
    const MAGIC_WITHIN: u64 = 16;
    let header = elf::Header::read(data)?;
    let headers = span(header.segments_at, header.segment_len.saturating_mul(header.segment_count));
    let after = slice(data, headers.end, MAGIC_WITHIN)?;
    let is_packed = after.windows(4).any(|magic| magic == b"UPX!");
    if is_packed { Some(Unread::anything("program packed with UPX")) } else { None }
}
