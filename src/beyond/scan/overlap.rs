//! Finds the sections of an ELF or PE file whose bundles are to be rewritten, and refuses those that share bytes with
//! other sections, or that two segments load.
//!
//! No linker writes such files. Rewriting the bundles would change the bytes of the other section or segment, or of the
//! tables of headers, symbols or the signature. Several device code sections with exactly the same range count as one. A section
//! without bytes in the file (`SHT_NOBITS`) shares none.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use object::elf::PT_LOAD;
use object::{File, Object, ObjectSection};

use super::sections::{self, ListedSections};
use crate::base::bytes::{len_u64, span};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::container::host::gaps::pe;
use crate::llvm::container::host::{self, ChosenSection, elf};
use crate::llvm::container::magic::Magic;

/// A section or a table, and its range in the file.
struct OccupiedRange<'d> {
    /// The name of a section, or the description of a table.
    name: &'d [u8],
    is_table: bool,
    range: Range<u64>,
    has_bundles: bool,
}

impl OccupiedRange<'_> {
    fn described(&self) -> String {
        if self.is_table { shown(self.name).to_string() } else { format!("the section '{}'", shown(self.name)) }
    }
}

/// The first bytes of sections in which bundles stay at their offsets: in linked files.
const BUNDLES: &[Magic] = &[Magic::Bundle, Magic::CompressedBundle, Magic::FatBinary];

/// The first bytes of sections in which bundles may move: in relocatable objects. Offload binaries are among them,
/// since readers expect each directly after the one before.
const MOVABLE: &[Magic] = &[Magic::Bundle, Magic::CompressedBundle, Magic::FatBinary, Magic::OffloadBinary];

/// The sections of an ELF or PE file that begin with a bundle or a fatbin, in the order of their offsets, each range
/// once.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if one of them shares bytes with another section or with a table,
/// [`ErrorKind::Malformed`] if the sections cannot be read.
pub(crate) fn bundle_sections(data: Slice<'_>) -> Result<Vec<Slice<'_>>> {
    sections_with(data, BUNDLES)
}

/// The same of an object in which bundles may move, and those that begin with an offload binary.
pub(crate) fn movable_sections(data: Slice<'_>) -> Result<Vec<Slice<'_>>> {
    sections_with(data, MOVABLE)
}

fn sections_with<'d>(data: Slice<'d>, magics: &[Magic]) -> Result<Vec<Slice<'d>>> {
    // This call limits the total length of the names.
    let device = sections::read(data.bytes(), data.offset(), ListedSections::Known).with_path(data.path())?.chosen;
    // The section table may be in any order.
    let mut runs = BTreeMap::new();
    for ChosenSection { range, .. } in device.iter().filter(|section| section.holds.is_read()) {
        let run = data.claimed(range)?;
        if magics.contains(&Magic::identify(run.bytes())) {
            runs.insert((range.start, range.end), run);
        }
    }
    let device: HashSet<_> = device.iter().map(|section| (&section.range, section.name.as_slice())).collect();
    let has_bundles = |range: &Range<u64>, name: &[u8]| {
        runs.contains_key(&(range.start, range.end)) && device.contains(&(range, name))
    };
    let lying = lying(data.bytes(), data.offset(), has_bundles).with_path(data.path())?;
    match first_overlap(lying) {
        Some((bundles, other, offset)) => {
            let reason = format!(
                "cannot rewrite the bundles in section '{bundles}': it shares bytes at offset {offset} with {other}"
            );
            Err(Error::refused(ErrorKind::Unsupported, data.path(), offset, reason))
        }
        None => match second_segment(data.bytes(), runs.keys()) {
            Some((start, end)) => {
                let reason = format!(
                    "cannot rewrite the bundles at offset {start}: two segments load bytes of them, up to offset {end}"
                );
                Err(Error::refused(ErrorKind::Unsupported, data.path(), start, reason))
            }
            None => Ok(runs.into_values().collect()),
        },
    }
}

/// The first of some ranges of an ELF file, in order, of which two segments load bytes.
fn second_segment<'r>(data: &[u8], ranges: impl Iterator<Item = &'r (u64, u64)>) -> Option<(u64, u64)> {
    let file = elf::File::read(data).ok()?;
    let mut segments: Vec<_> = file.segments.iter().filter(|segment| segment.is(PT_LOAD) && segment.size > 0).collect();
    segments.sort_by_key(|segment| segment.offset);
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

/// The sections and tables of a file that take bytes of it. Offsets in errors count from `base`.
fn lying(
    data: &[u8],
    base: u64,
    has_bundles: impl Fn(&Range<u64>, &[u8]) -> bool,
) -> Result<Vec<OccupiedRange<'_>>, Malformed> {
    let broken = |error: object::read::Error| Malformed::at(error.to_string(), base);
    let file = File::parse(data).map_err(broken)?;
    let tables = elf::File::read(data).map_or_else(|_| pe::tables(data), |elf| tables(&elf));
    let table = |(name, range)| OccupiedRange { name, is_table: true, range, has_bundles: false };
    let mut lying: Vec<_> = tables.into_iter().map(table).collect();
    for section in file.sections() {
        let Some((start, size)) = host::file_range(&file, &section).filter(|(_, size)| *size > 0) else { continue };
        let name = section.name_bytes().unwrap_or_default();
        let range = sections::without_padding(data, span(start, size));
        let has_bundles = has_bundles(&range, name);
        lying.push(OccupiedRange { name, is_table: false, range, has_bundles });
    }
    Ok(lying)
}

/// The locations of an ELF file's headers, each with its description.
fn tables(file: &elf::File<'_>) -> Vec<(&'static [u8], Range<u64>)> {
    let header = &file.header;
    let tables = [
        (&b"the file header"[..], 0, header.len),
        (b"the section headers", header.sections_at, len_u64(file.sections.bytes)),
        (b"the program headers", header.segments_at, len_u64(file.segments.bytes)),
    ];
    tables.into_iter().filter(|(_, _, len)| *len > 0).map(|(name, start, len)| (name, span(start, len))).collect()
}

/// The name of the first section in file order that has bundles and shares bytes, what it shares them with, and the
/// offset of the first shared byte.
fn first_overlap(mut lying: Vec<OccupiedRange<'_>>) -> Option<(String, String, u64)> {
    lying.sort_by_key(|section| (section.range.start, section.range.end, section.has_bundles));
    lying.dedup_by(|next, kept| next.has_bundles && kept.has_bundles && next.range == kept.range);
    let end_of = |&index: &usize| lying.get(index).map(|section| section.range.end);
    let further = |kept: Option<usize>, index: usize| kept.into_iter().chain([index]).max_by_key(end_of);
    // The sections so far that reach furthest.
    let (mut furthest, mut furthest_bundles) = (None, None);
    for (index, section) in lying.iter().enumerate() {
        let before = if section.has_bundles { furthest } else { furthest_bundles };
        if let Some(before) = before.and_then(|before: usize| lying.get(before))
            && before.range.end > section.range.start
        {
            let (bundles, other) = if section.has_bundles { (section, before) } else { (before, section) };
            return Some((shown(bundles.name).to_string(), other.described(), section.range.start));
        }
        furthest = further(furthest, index);
        if section.has_bundles {
            furthest_bundles = further(furthest_bundles, index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(sections: &[(&'static str, Range<u64>)]) -> Option<(String, String, u64)> {
        let lying = sections.iter().map(|(name, range)| {
            let has_bundles = name.starts_with("bundles");
            OccupiedRange { name: name.as_bytes(), is_table: false, range: range.clone(), has_bundles }
        });
        first_overlap(lying.collect())
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
            second_segment(&data, [(100, 200)].iter())
        };
        for clean in [300..400, 200..400, 0..100, 150..150] {
            assert_eq!(found(clean.clone()), None, "{clean:?}");
        }
        for shared in [0..101, 199..400, 150..160, 0..300] {
            assert_eq!(found(shared.clone()), Some((100, 200)), "{shared:?}");
        }
    }
}
