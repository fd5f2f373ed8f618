//! The rules that the bundles of a file have to follow, each by itself.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::Rule;
use crate::base::bytes::{add, len_u64, text_lossy};
use crate::base::display::shown;
use crate::base::error::{Malformed, Result};
use crate::base::id::target_id::TargetId;
use crate::base::id::{EntryId, OffloadKind};
use crate::base::io::input::note_read;
use crate::beyond::code::{check, target};
use crate::beyond::container::packed::LastInflated;
use crate::beyond::container::ptx;
use crate::beyond::container::sycl::INTEL;
use crate::beyond::runtime::loadable;
use crate::beyond::scan::{CodeObjectRef, Format, Found, Shared};
use crate::llvm::container::content_kind::ContentKind;
use crate::llvm::container::offload_binary::ImageKind;

/// A broken rule, and a description of the fault.
pub(super) type BrokenRule = (Rule, String);

/// Checks a bundle. Returns the number of its entries for devices that are text or empty, if it has nothing else for
/// devices.
pub(super) fn check(found: &Found<'_>, plain_max: Option<u64>, fault: &mut impl FnMut(BrokenRule)) -> Result<usize> {
    if found.format != Format::CodeObject {
        let mut ids = Ids::default();
        // Device images have no ID of their own, and each abstract module of a SYCLBIN file has code for the same
        // targets.
        let repeats = matches!(found.format, Format::DeviceImages | Format::SyclBin);
        found.code_objects().for_each(|code_object| ids.check(code_object, repeats, fault));
    }
    for code_object in found.code_objects() {
        let unreadable = code_object.unreadable().filter(|_| found.format != Format::Kpack);
        unreadable.into_iter().for_each(|reason| fault(not_extractable(&code_object, reason)));
    }
    overlaps(found, fault);
    not_loadable(found).into_iter().for_each(&mut *fault);
    if let Some(most) = plain_max {
        not_compressed(found, most)?.into_iter().for_each(&mut *fault);
    }
    check_contents(found, fault)?;
    let without_code = without_code(found);
    if holds_code(found) {
        without_code.iter().for_each(|entry| fault(not_code(entry)));
        return Ok(0);
    }
    Ok(without_code.len())
}

fn not_extractable(code_object: &CodeObjectRef<'_>, reason: &Malformed) -> BrokenRule {
    (Rule::Readable, format!("'{}' cannot be extracted: {reason}", shown(code_object.id())))
}

/// The entries of a bundle for devices that are empty or text, as in bundles of assembly.
fn without_code<'f>(found: &Found<'f>) -> Vec<CodeObjectRef<'f>> {
    let is_for_device = |entry: &CodeObjectRef<'_>| entry.entry_id().is_some_and(|id| id.kind() != OffloadKind::Host);
    let is_without = |entry: &CodeObjectRef<'_>| matches!(entry.kind(), Some(ContentKind::Empty | ContentKind::Text));
    match found.format {
        Format::Bundle | Format::TextBundle | Format::FatObject => {
            found.code_objects().filter(|entry| is_without(entry) && is_for_device(entry)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether code objects are what a bundle holds for devices. No compiler puts text or nothing into such a bundle.
fn holds_code(found: &Found<'_>) -> bool {
    let is_code = |kind| !matches!(kind, None | Some(ContentKind::Empty | ContentKind::Text | ContentKind::Unknown));
    let is_host = |entry: &CodeObjectRef<'_>| entry.entry_id().is_none_or(|id| id.kind() == OffloadKind::Host);
    found.format != Format::TextBundle && found.code_objects().any(|entry| is_code(entry.kind()) && !is_host(&entry))
}

fn not_code(entry: &CodeObjectRef<'_>) -> BrokenRule {
    let what = if entry.size() == 0 { "is empty" } else { "is text" };
    (Rule::CodeObject, format!("'{}' {what}, but other entries of the bundle are code objects", shown(entry.id())))
}

/// Checks the code objects themselves. If too many of them share bytes, not all are checked, which is reported as a
/// fault.
fn check_contents(found: &Found<'_>, fault: &mut impl FnMut(BrokenRule)) -> Result<()> {
    let (mut shared, mut last) = (Shared::new(found.bundle)?, LastInflated::default());
    for code_object in found.code_objects() {
        let recorded = code_object.recorded_kind().filter(|_| code_object.size() > 0);
        let checked = match recorded.or_else(|| code_object.kind()) {
            kind if is_checked(kind, &code_object) => {
                if !shared.has_room_for(&code_object) {
                    let text = "code objects overlap too much: not all of them were checked".to_owned();
                    fault((Rule::CodeObject, text));
                    return Ok(());
                }
                let content = match found.bundle.content_after(code_object.index(), &mut last) {
                    Ok(content) => content,
                    Err(error) => match error.fault() {
                        Some(malformed) => {
                            fault(not_extractable(&code_object, malformed));
                            continue;
                        }
                        None => return Err(error),
                    },
                };
                let bytes = content.as_slice().bytes();
                note_read(len_u64(bytes));
                if code_object.packed().is_some()
                    && let Some(id) = code_object.entry_id()
                {
                    check_target(&code_object, &id, target::target_id(bytes)).into_iter().for_each(&mut *fault);
                }
                let checked =
                    kind.map_or(Ok(()), |kind| check_kind(kind, bytes)).and_then(|()| check::code_object(bytes));
                if checked.is_ok() && is_for_hip(&code_object) && check::lacks_strtab(bytes) {
                    fault(without_strtab(&code_object));
                }
                checked
            }
            Some(ContentKind::Unknown | ContentKind::Text) if found.format == Format::DeviceImages => {
                Err(Malformed::at("an image of an unknown format", 0))
            }
            Some(ContentKind::Unknown) if code_object.entry_id().is_some_and(|id| id.kind() != OffloadKind::Host) => {
                let head = found.bundle.head(code_object.index(), ContentKind::HEAD_LEN);
                check::beginning(head.unwrap_or_default(), code_object.size())
            }
            _ => Ok(()),
        };
        if let Err(malformed) = checked {
            fault((Rule::CodeObject, format!("'{}' is not a valid code object: {malformed}", shown(code_object.id()))));
        }
    }
    Ok(())
}

/// Whether HIP's runtime loads a code object: for HIP, or for SYCL, whose runtime asks HIP's.
fn is_for_hip(code_object: &CodeObjectRef<'_>) -> bool {
    code_object.entry_id().is_some_and(|id| id.kind().is_hip() || id.kind() == OffloadKind::Sycl)
}

fn without_strtab(code_object: &CodeObjectRef<'_>) -> BrokenRule {
    let id = shown(code_object.id());
    let text = "HIP runtimes refuse it without a section .strtab, which strip removes unless it is called with -g or \
                --discard-all";
    (Rule::Loadable, format!("'{id}': {text}"))
}

/// Whether a code object of a kind is checked. What is compressed by itself must inflate, if this build can do that.
fn is_checked(kind: Option<ContentKind>, code_object: &CodeObjectRef<'_>) -> bool {
    match kind {
        _ if code_object.unread().is_some() => false,
        Some(ContentKind::Elf | ContentKind::Cubin | ContentKind::SpirV | ContentKind::Bitcode | ContentKind::Ptx) => {
            true
        }
        _ => code_object.packed().is_some(),
    }
}

/// Checks that code recorded as ELF, SPIR-V, a cubin or PTX is that.
fn check_kind(kind: ContentKind, content: &[u8]) -> Result<(), Malformed> {
    let is_told = matches!(kind, ContentKind::Elf | ContentKind::SpirV | ContentKind::Cubin | ContentKind::Ptx);
    match ContentKind::of(content) {
        found if found == kind || !is_told => Ok(()),
        // Its first directives may follow long comments.
        _ if kind == ContentKind::Ptx && ptx::Header::of(content).is_some() => Ok(()),
        found => Err(Malformed::at(format!("{} instead of {}", found.name(), kind.name()), 0)),
    }
}

/// The entry IDs of a bundle so far.
#[derive(Default)]
struct Ids<'f> {
    counts: HashMap<&'f [u8], usize>,
    /// The first entry of each processor. Others are compared only with it, so the time is linear in the number of
    /// entries.
    firsts: HashMap<String, CodeObjectRef<'f>>,
}

impl<'f> Ids<'f> {
    /// Checks the ID of a code object, which others may have too if it `repeats`.
    fn check(&mut self, code_object: CodeObjectRef<'f>, repeats: bool, fault: &mut impl FnMut(BrokenRule)) {
        self.duplicate(&code_object).filter(|_| !repeats).into_iter().for_each(&mut *fault);
        match id_of(&code_object) {
            Ok(id) => {
                if let Err(error) = id.target_id().check_features() {
                    fault((Rule::Feature, format!("'{}': {error}", shown(code_object.id()))));
                }
                if id.triple().contradicts(id.target_id().processor()) {
                    fault((Rule::Target, contradiction(&code_object, &id)));
                }
                self.conflict(code_object, &id).into_iter().for_each(&mut *fault);
                check_target(&code_object, &id, code_object.recorded_target()).into_iter().for_each(fault);
            }
            Err(_) if is_unread_syclbin(&code_object) => {}
            Err(reason) => {
                let text = format!("'{}' is not a valid bundle entry ID: {reason}", shown(code_object.id()));
                fault((Rule::EntryId, text));
            }
        }
    }

    fn duplicate(&mut self, code_object: &CodeObjectRef<'f>) -> Option<BrokenRule> {
        let count = self.counts.entry(code_object.id()).or_default();
        *count += 1;
        let text = || format!("several entries have the ID '{}'; runtimes take one of them", shown(code_object.id()));
        (*count == 2).then(|| (Rule::Duplicate, text()))
    }

    fn conflict(&mut self, code_object: CodeObjectRef<'f>, id: &EntryId) -> Option<BrokenRule> {
        let mut without_features = id.to_string();
        without_features.truncate(without_features.find(':').unwrap_or(without_features.len()));
        let first = match self.firsts.entry(without_features) {
            Entry::Occupied(first) => *first.get(),
            Entry::Vacant(free) => *free.insert(code_object),
        };
        // Parsed again, because the parsed forms of all IDs would take many times the memory of the file.
        if !id.target_id().conflicts_with(id_of(&first).ok()?.target_id()) {
            return None;
        }
        let (one, other) = (shown(first.id()), shown(code_object.id()));
        Some((Rule::Conflict, format!("'{one}' and '{other}' conflict: a feature is set in one of them only")))
    }
}

/// The ID of a code object. LLVM's packager also writes images of the kind `none`: their triples and architectures are
/// checked as those of other kinds.
fn id_of(code_object: &CodeObjectRef<'_>) -> Result<EntryId, String> {
    let Some(image) = code_object.image().filter(|image| image.kind_number == 0) else {
        return code_object.parse_id();
    };
    let [triple, arch] = [image.triple(), image.arch()].map(text_lossy);
    EntryId::new(OffloadKind::Other, &triple, &arch).map_err(|error| error.to_string())
}

/// Whether an image of an offload binary is a SYCLBIN file that is not read. Its IDs are in the file itself.
fn is_unread_syclbin(code_object: &CodeObjectRef<'_>) -> bool {
    let is_syclbin = code_object.image().is_some_and(|image| image.image_kind == ImageKind::SyclBin);
    is_syclbin && code_object.found.format == Format::OffloadBinary
}

fn overlaps(found: &Found<'_>, fault: &mut impl FnMut(BrokenRule)) {
    let ranges = found.code_objects().filter_map(|code_object| Some((code_object.taken()?, code_object)));
    let mut ranges: Vec<(Range<u64>, CodeObjectRef<'_>)> = ranges.filter(|(range, _)| !range.is_empty()).collect();
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    // The code object with the largest end so far.
    let mut furthest: Option<(Range<u64>, CodeObjectRef<'_>)> = None;
    for (range, code_object) in ranges {
        if let Some((before, other)) = furthest.as_ref().filter(|(before, _)| before.end > range.start) {
            let (a, b) = (shown(other.id()), shown(code_object.id()));
            fault((Rule::Overlap, format!("'{a}' and '{b}' overlap: {before:?} and {range:?}")));
        }
        if furthest.as_ref().is_none_or(|(before, _)| before.end < range.end) {
            furthest = Some((range, code_object));
        }
    }
}

/// Checks that HIP's runtime can read a bundle for it.
fn not_loadable(found: &Found<'_>) -> Option<BrokenRule> {
    let first = loadable::first_lost_of(found)?;
    let reason = match found.bundle.compressed {
        Some(recorded) => {
            let size = loadable::misread_size(recorded)?;
            format!("of its recorded size, {size} bytes, they read 32 bits")
        }
        None => {
            let all = &found.bundle.entries;
            let (id, lost, all) = (shown(all.get(first)?.id()), all.len() - first, all.len());
            format!(
                "they look for entries in its first 4096 bytes, and those from '{id}' on ({lost} of {all}) are not there"
            )
        }
    };
    Some((Rule::Loadable, format!("HIP runtimes cannot load the bundle: {reason}")))
}

/// Checks that a container has at most `most` bytes of plain code, if it could be compressed. In a fatbin, that is what
/// is not compressed one by one.
fn not_compressed(found: &Found<'_>, most: u64) -> Result<Option<BrokenRule>> {
    let has_compressed_form = matches!(found.format, Format::Bundle | Format::OffloadBinary | Format::Fatbin);
    if !has_compressed_form || found.bundle.compressed.is_some() || found.place.is_in_packed_entry() {
        return Ok(None);
    }
    let (mut all, mut plain, mut size) = (0_usize, 0_usize, 0_u64);
    for entry in found.code_objects().filter(|entry| entry.size() > 0) {
        all += 1;
        let is_container = || matches!(entry.kind(), Some(ContentKind::Bundle | ContentKind::FatBinary));
        if entry.packed().is_none() && !is_container() {
            plain += 1;
            add(&mut size, entry.size());
        }
    }
    // Entries may share bytes.
    let size = size.min(found.bundle.stored_len()?);
    let text = || format!("{plain} of {all} code objects are not compressed: {size} bytes, expected at most {most}");
    Ok((size > most).then(|| (Rule::Compressed, text())))
}

fn contradiction(code_object: &CodeObjectRef<'_>, id: &EntryId) -> String {
    let named = id.triple().amd_processor().unwrap_or_default();
    let (id, processor) = (shown(code_object.id()), shown(id.target_id().processor().as_bytes()));
    format!("the triple of '{id}' is for {named}, its target ID for {processor}")
}

/// Checks that the target recorded in a code object can serve requests for its entry ID.
fn check_target(code_object: &CodeObjectRef<'_>, id: &EntryId, recorded: Option<String>) -> Option<BrokenRule> {
    // DPC++ has names for Intel's GPUs that are not those of `ocloc`, which records its own in the ELF file.
    let is_of_dpcpp = code_object.found.format == Format::SyclBin && id.triple().arch_name() == INTEL;
    let target = id.target();
    if target.is_empty() || is_of_dpcpp {
        return None;
    }
    let recorded = recorded?;
    let parsed = TargetId::parse(&recorded, id.triple().arch()).ok()?;
    let differs = |(name, on): (&str, bool)| parsed.features().any(|(other, other_on)| name == other && on != other_on);
    let (one, other) = (parsed.processor(), target.processor());
    // Before ROCm 4, features were part of it: gfx906+sram-ecc.
    let is_old = || other.split_once('+').is_some_and(|(processor, _)| processor == one);
    let is_same = one == other || is_same_architecture(one, other) || is_old();
    // In a fatbin, code of a kind that is not known may be an ELF file.
    if (is_same && !target.features().any(differs)) || other.starts_with("kind") {
        return None;
    }
    Some((Rule::Target, format!("'{}' holds an ELF file for '{recorded}'", shown(code_object.id()))))
}

/// Whether both are the same SM architecture, with or without a suffix: most ELF files do not record it.
fn is_same_architecture(one: &str, other: &str) -> bool {
    let number = |name: &str| Some(name.strip_prefix("sm_")?.trim_end_matches(['a', 'f']).to_owned());
    number(one).is_some_and(|one| number(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::io::write_to;
    use crate::beyond::container::Bundles;
    use crate::beyond::container::entry::Searched;
    use crate::beyond::scan::{EntryFacts, Place};
    use crate::llvm::container::Member;
    use crate::llvm::container::binary::Binary;
    use crate::llvm::container::sequence::Inflate;
    use crate::llvm::container::stream::{Method, Recorded};

    #[test]
    fn a_compressed_bundle_whose_size_takes_33_bits_is_not_loadable() {
        let (place, binary) = (Place::of_file(Path::new("in")), Binary::default());
        let fault = |id: &str, total: Option<u64>| {
            let member = Member { id: id.to_owned(), content: (&b"\x7fELF"[..]).into() };
            let mut data = Vec::new();
            write_to(&binary.plan(&[member]).unwrap(), &mut data).unwrap();
            let searched = Searched(binary);
            let mut bundle = Bundles::new(&data, &searched, Inflate::Whole).next().unwrap().unwrap();
            let (what, method) = ("compressed bundle", Method::Zstd);
            bundle.compressed = Some(Recorded { what, version: 3, method, total, inflated: 1 << 40, hash: None });
            not_loadable(&Found {
                place: &place,
                format: Format::Bundle,
                index: 0,
                bundle: &bundle,
                facts: &EntryFacts::default(),
                space_end: 0,
            })
        };
        let (hip, openmp) = ("hip-amdgcn-amd-amdhsa--gfx90a", "openmp-amdgcn-amd-amdhsa--gfx90a");
        for total in [None, Some(24), Some((1 << 32) - 1)] {
            assert_eq!(fault(hip, total), None);
        }
        for total in [1 << 32, (1 << 32) + 24, u64::MAX] {
            let (rule, text) = fault(hip, Some(total)).unwrap();
            assert!(rule == Rule::Loadable && text.contains(&format!("size, {total} bytes")), "{text}");
            assert_eq!(fault(openmp, Some(total)), None);
        }
    }

    #[test]
    fn content_is_of_the_recorded_kind() {
        let ptx = b".version 8.7\n.target sm_90\n.address_size 64\n";
        let commented = [&b"//"[..], &[b'x'; 5000], b"\n", ptx].concat();
        let elf = [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat();
        for (kind, content, is_sound) in [
            (ContentKind::Ptx, &ptx[..], true),
            (ContentKind::Ptx, &commented, true),
            (ContentKind::Ptx, b"text\n", false),
            (ContentKind::Ptx, &elf, false),
            (ContentKind::Elf, &elf, true),
            (ContentKind::Elf, ptx, false),
            (ContentKind::SpirV, &commented, false),
            (ContentKind::Bitcode, &elf, true),
        ] {
            assert_eq!(check_kind(kind, content).is_ok(), is_sound, "{kind:?} {}", content.len());
        }
    }

    #[test]
    fn each_overlap_is_found() {
        const LEN: u64 = 10;
        // The starts of three code objects, and the entries that overlap.
        for (starts, expected) in [
            ([0, 10, 20], &[][..]),
            ([0, 10, 19], &[("b", "c")]),
            ([0, 9, 19], &[("a", "b")]),
            ([0, 5, 9], &[("a", "b"), ("b", "c")]),
            ([0, 0, 0], &[("a", "b"), ("a", "c")]),
            ([20, 10, 0], &[]),
            ([20, 11, 0], &[("b", "a")]),
        ] {
            let member =
                |id: &str| Member { id: format!("hip-amdgcn-amd-amdhsa--{id}"), content: (&[1; 10][..]).into() };
            let mut data = Vec::new();
            write_to(&Binary::default().plan(&["a", "b", "c"].map(member)).unwrap(), &mut data).unwrap();
            let first = u64::from_le_bytes(data[32..40].try_into().unwrap());
            for (index, start) in starts.into_iter().enumerate() {
                let at = 32 + index * (24 + member("a").id.len());
                data[at..at + 8].copy_from_slice(&(first + start).to_le_bytes());
            }
            data.resize(usize::try_from(first + 3 * LEN).unwrap(), 0);
            let (binary, place) = (Searched(Binary::default()), Place::of_file(Path::new("in")));
            let bundle = Bundles::new(&data[..], &binary, Inflate::Headers).next().unwrap().unwrap();
            let (format, facts) = (Format::Bundle, &EntryFacts::default());
            let found = Found { place: &place, bundle: &bundle, index: 0, format, facts, space_end: 0 };
            let mut pairs = Vec::new();
            overlaps(&found, &mut |(rule, text)| {
                assert_eq!(rule, Rule::Overlap);
                pairs.push(text);
            });
            let expected: Vec<_> =
                expected.iter().map(|(a, b)| format!("--{a}' and 'hip-amdgcn-amd-amdhsa--{b}' overlap")).collect();
            assert_eq!(pairs.len(), expected.len(), "{starts:?}: {pairs:?}");
            assert!(
                pairs.iter().zip(&expected).all(|(pair, expected)| pair.contains(expected)),
                "{starts:?}: {pairs:?}"
            );
        }
    }
}
