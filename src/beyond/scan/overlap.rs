//! Finds the sections of an ELF or PE file with bundles to be rewritten. Refuses sections that share bytes with other
//! sections, or that two segments load.
//!
//! No linker writes such files. Rewriting the bundles would change the bytes of the other section or segment, or of
//! the tables of headers, symbols or the signature. Several device code sections with exactly the same range count as
//! one. A section without bytes in the file (`SHT_NOBITS`) shares none.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use object::elf::PT_LOAD;
use object::{File, Object, ObjectSection};

use super::sections::{self, ListedSections};
use crate::base::bytes::{len_u64, span};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::code::elf;
use crate::beyond::container::host::gaps::pe;
use crate::beyond::container::{Format, Magic};
use crate::llvm::container::host;

/// A section or a table, and its range in the file.
struct OccupiedRange<'d> {
    /// The name of a section, or the description of a table.
    name: &'d [u8],
    is_table: bool,
    range: Range<u64>,
    /// Whether this is a section with bundles to be rewritten.
    has_bundles: bool,
}

impl OccupiedRange<'_> {
    /// Returns the name of the section or table for a message.
    fn description(&self) -> String {
        if self.is_table { shown(self.name).to_string() } else { format!("the section '{}'", shown(self.name)) }
    }
}

/// The formats of sections that are rewritten in linked files. Their bundles have to stay at their offsets, because
/// wrappers hold the addresses.
const BUNDLES: &[Magic] =
    &[Magic::Container(Format::Bundle), Magic::CompressedBundle, Magic::Container(Format::Fatbin)];

/// The formats of sections that are rewritten in relocatable objects, where bundles can be moved. Readers expect each
/// offload binary directly after the previous one, so a change of its size moves the next ones: only here is that
/// possible.
const MOVABLE: &[Magic] = &[
    Magic::Container(Format::Bundle),
    Magic::CompressedBundle,
    Magic::Container(Format::Fatbin),
    Magic::Container(Format::OffloadBinary),
];

/// Returns the sections of a linked ELF or PE file that begin with a bundle or a fatbin, in the order of their offsets,
/// each range once.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if one of them shares bytes with another section or with a table,
/// [`ErrorKind::Malformed`] if the sections cannot be read.
pub(crate) fn bundle_sections(data: Slice<'_>) -> Result<Vec<Slice<'_>>> {
    sections_with(data, BUNDLES)
}

/// Returns the sections of a relocatable object that begin with a bundle, a fatbin or an offload binary, in the form of
/// [`bundle_sections`].
pub(crate) fn movable_sections(data: Slice<'_>) -> Result<Vec<Slice<'_>>> {
    sections_with(data, MOVABLE)
}

/// Returns the contents of the sections for device code that begin with one of the magics, in the order of the file.
///
/// # Errors
/// The sections cannot be read, or one that would be returned shares bytes with other data, so that neither can be
/// rewritten without the other.
fn sections_with<'d>(data: Slice<'d>, magics: &[Magic]) -> Result<Vec<Slice<'d>>> {
    // This call comes first, because it limits the total length of the names, which `occupied_ranges` reads again.
    let sections = sections::read(data.bytes(), data.offset(), ListedSections::Known).with_path(data.path())?;
    let device = sections.for_device;
    // The section table may be in any order.
    let mut bundles = BTreeMap::new();
    for section in device.iter().filter(|section| section.holds.is_always_containers()) {
        let content = data.claimed(&section.range)?;
        if magics.contains(&Magic::identify(content.bytes())) {
            bundles.insert((section.range.start, section.range.end), content);
        }
    }
    let device_sections: HashSet<_> = device.iter().map(|section| (&section.range, section.name.as_slice())).collect();
    // A section of another name may have the same range as a section with bundles. It has no bundles to be rewritten.
    let occupied = occupied_ranges(data.bytes(), data.offset(), |range, name| {
        bundles.contains_key(&(range.start, range.end)) && device_sections.contains(&(range, name))
    });
    if let Some((section, other, offset)) = first_overlap(occupied.with_path(data.path())?) {
        let reason = format!(
            "cannot rewrite the bundles in section '{section}': it shares bytes at offset {offset} with {other}"
        );
        return Err(Error::refused(ErrorKind::Unsupported, data.path(), offset, reason));
    }
    if let Some((start, end)) = first_loaded_twice(data.bytes(), bundles.keys()) {
        let reason = format!(
            "cannot rewrite the bundles at offset {start}: two segments load bytes of them, up to offset {end}"
        );
        return Err(Error::refused(ErrorKind::Unsupported, data.path(), start, reason));
    }
    Ok(bundles.into_values().collect())
}

/// Returns the first of some ranges of an ELF file with bytes that two segments load. Returns `None` if no range has
/// such bytes, or if the file is not an ELF file. Rewriting such a range would change both segments.
fn first_loaded_twice<'r>(data: &[u8], ranges: impl Iterator<Item = &'r (u64, u64)>) -> Option<(u64, u64)> {
    let file = elf::File::read(data).ok()?;
    let mut segments: Vec<_> = file.segments.iter().filter(|segment| segment.is(PT_LOAD) && segment.size > 0).collect();
    segments.sort_by_key(|segment| segment.offset);
    // The bytes that a segment loads again. Only the furthest end before a segment matters, because the segments are in
    // the order of their offsets.
    let mut shared: Vec<Range<u64>> = Vec::new();
    let mut loaded_until = 0;
    for segment in segments {
        let range = span(segment.offset, segment.size);
        if range.start < loaded_until {
            shared.push(range.start..range.end.min(loaded_until));
        }
        loaded_until = range.end.max(loaded_until);
    }
    for &(start, end) in ranges {
        if shared.iter().any(|shared| shared.start < end && start < shared.end) {
            return Some((start, end));
        }
    }
    None
}

/// Returns the sections and tables of a file that occupy bytes of it. `is_rewritten` returns whether a section with this
/// range and name has bundles to be rewritten. Offsets in errors are increased by `base`.
fn occupied_ranges(
    data: &[u8],
    base: u64,
    is_rewritten: impl Fn(&Range<u64>, &[u8]) -> bool,
) -> Result<Vec<OccupiedRange<'_>>, Malformed> {
    let file = match File::parse(data) {
        Ok(file) => file,
        Err(error) => return Err(Malformed::at(error.to_string(), base)),
    };
    let tables = match elf::File::read(data) {
        Ok(elf) => elf_tables(&elf),
        Err(_) => pe::tables(data),
    };
    let mut occupied = Vec::new();
    for (name, range) in tables {
        occupied.push(OccupiedRange { name, is_table: true, range, has_bundles: false });
    }
    for section in file.sections() {
        let Some((start, size)) = host::file_range(&file, &section) else { continue };
        if size == 0 {
            continue;
        }
        let name = section.name_bytes().unwrap_or_default();
        // `is_rewritten` compares the range with ranges from `sections::read`, which have no padding either.
        let range = sections::without_padding(data, span(start, size));
        let has_bundles = is_rewritten(&range, name);
        occupied.push(OccupiedRange { name, is_table: false, range, has_bundles });
    }
    Ok(occupied)
}

/// Returns the ranges of an ELF file's headers, each with its description for a message. Missing tables are left out.
fn elf_tables(file: &elf::File<'_>) -> Vec<(&'static [u8], Range<u64>)> {
    let header = &file.header;
    let tables = [
        (&b"the file header"[..], 0, header.len),
        (b"the section headers", header.sections_at, len_u64(file.sections.bytes)),
        (b"the program headers", header.segments_at, len_u64(file.segments.bytes)),
    ];
    tables.into_iter().filter(|(_, _, len)| *len > 0).map(|(name, start, len)| (name, span(start, len))).collect()
}

/// Finds the first section in file order that has bundles and shares bytes. Returns its name, the description of the
/// other range, and the offset of the first shared byte, or `None` if no such section shares bytes.
fn first_overlap(mut occupied: Vec<OccupiedRange<'_>>) -> Option<(String, String, u64)> {
    occupied.sort_by_key(|section| (section.range.start, section.range.end, section.has_bundles));
    // Sections with the same range are neighbours now. If all of them have bundles, they count as one.
    occupied.dedup_by(|next, kept| next.has_bundles && kept.has_bundles && next.range == kept.range);
    // Of the ranges so far, the one that reaches furthest, and the section with bundles that reaches furthest. If the
    // next range shares bytes with any earlier one, then also with the furthest.
    let (mut furthest, mut furthest_bundles) = (None::<&OccupiedRange<'_>>, None);
    for section in &occupied {
        // Ranges without bundles may share bytes with each other, because they are not rewritten.
        let earlier = if section.has_bundles { furthest } else { furthest_bundles };
        if let Some(earlier) = earlier
            && earlier.range.end > section.range.start
        {
            let (bundles, other) = if section.has_bundles { (section, earlier) } else { (earlier, section) };
            return Some((shown(bundles.name).to_string(), other.description(), section.range.start));
        }
        furthest = Some(further(furthest, section));
        if section.has_bundles {
            furthest_bundles = Some(further(furthest_bundles, section));
        }
    }
    None
}

/// Returns the range that reaches further: `next` if both end at the same byte.
fn further<'r, 'd>(furthest: Option<&'r OccupiedRange<'d>>, next: &'r OccupiedRange<'d>) -> &'r OccupiedRange<'d> {
    match furthest {
        Some(furthest) if furthest.range.end > next.range.end => furthest,
        _ => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(sections: &[(&'static str, Range<u64>)]) -> Option<(String, String, u64)> {
        let occupied = sections.iter().map(|(name, range)| {
            let has_bundles = name.starts_with("bundles");
            OccupiedRange { name: name.as_bytes(), is_table: false, range: range.clone(), has_bundles }
        });
        first_overlap(occupied.collect())
    }

    #[test]
    fn only_what_shares_bytes_with_bundles_is_found() {
        let bundles = ("bundles", 100..200);
        for clean in [
            &[bundles.clone(), ("a", 0..100), ("b", 200..300)][..],
            &[bundles.clone(), ("a", 0..50), ("b", 20..100), ("c", 200..300), ("d", 250..260)],
            &[bundles.clone(), ("bundles 2", 100..200)],
            &[bundles.clone(), ("bundles 2", 200..300)],
        ] {
            assert_eq!(overlap(clean), None, "{clean:?}");
        }
        for (other, offset) in [(0..101, 100), (0..300, 100), (100..200, 100), (150..160, 150), (199..300, 199)] {
            let found = Some(("bundles".to_owned(), "the section 'other'".to_owned(), offset));
            let sections = [("far", 0..10), ("other", other.clone()), bundles.clone(), ("end", 300..400)];
            assert_eq!(overlap(&sections), found, "{other:?}");
            // Neither a shorter section nor a second name for the bundles hides the overlap.
            let hidden = [bundles.clone(), ("bundles", 100..200), ("short", 20..30), ("other", other.clone())];
            assert_eq!(overlap(&hidden), found, "{other:?}");
        }
        let found = Some(("bundles 2".to_owned(), "the section 'bundles'".to_owned(), 150));
        assert_eq!(overlap(&[bundles.clone(), ("bundles 2", 150..200)]), found);
    }

    #[test]
    fn bundles_that_two_segments_load_are_found() {
        let found = |second: Range<u64>| {
            let mut data = b"\x7fELF\x02\x01\x01".to_vec();
            data.resize(64 + 2 * 56, 0);
            (data[16], data[18], data[20], data[32], data[52], data[54], data[56]) = (3, 62, 1, 64, 64, 56, 2);
            for (at, range) in [(64, 0..300), (120, second)] {
                data[at] = 1;
                data[at + 8..at + 16].copy_from_slice(&range.start.to_le_bytes());
                data[at + 32..at + 40].copy_from_slice(&(range.end - range.start).to_le_bytes());
            }
            first_loaded_twice(&data, [(100, 200)].iter())
        };
        for clean in [300..400, 200..400, 0..100, 150..150] {
            assert_eq!(found(clean.clone()), None, "{clean:?}");
        }
        for shared in [0..101, 199..400, 150..160, 0..300] {
            assert_eq!(found(shared.clone()), Some((100, 200)), "{shared:?}");
        }
    }
}
