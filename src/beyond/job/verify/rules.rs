//! Rules that each bundle of a file must follow.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::VerifyRule;
use crate::base::bytes::{add, len_u64, text_lossy};
use crate::base::display::shown;
use crate::base::error::{Error, Malformed, Result};
use crate::base::id::target_id::TargetId;
use crate::base::id::{EntryId, OffloadKind};
use crate::base::io::input::progress::note_read;
use crate::beyond::code::{check, intel_gpu, ptx, target};
use crate::beyond::container::packed::LastInflated;
use crate::beyond::container::{ContentKind, Magic, Rule};
use crate::beyond::parallel;
use crate::beyond::runtime::loadable;
use crate::beyond::scan::{CodeObjectRef, Format, FoundBundle, OverlapLimit};
use crate::llvm::container::offload_binary::ImageKind;

/// A broken rule, and a description of the fault.
pub(super) type BrokenRule = (VerifyRule, String);

/// Checks a bundle, and passes each broken rule to `fault`. More than `plain_max` bytes of plain code are a fault.
/// Returns the number of entries for devices that are text, in a bundle without code for devices. Next to code, each
/// entry that is text or empty is a fault, and zero is returned.
pub(super) fn check(
    found: &FoundBundle<'_>,
    plain_max: Option<u64>,
    fault: &mut impl FnMut(BrokenRule),
) -> Result<usize> {
    // A code object without a bundle has no recorded ID.
    if found.format != Format::CodeObject {
        let mut ids = EntryIds::default();
        let may_repeat = found.format.has(Rule::EachNeeded);
        for code_object in found.code_objects() {
            ids.check(code_object, may_repeat, fault);
        }
    }
    // The search reports the faults of an archive, and so its unreadable code objects.
    if !found.format.has(Rule::Archive) {
        for code_object in found.code_objects() {
            if let Some(reason) = code_object.unreadable() {
                fault(not_extractable_fault(&code_object, reason));
            }
        }
    }
    check_overlaps(found, fault);
    if let Some(broken) = check_loadable(found) {
        fault(broken);
    }
    if let Some(max) = plain_max
        && let Some(broken) = check_compressed(found, max)?
    {
        fault(broken);
    }
    check_contents(found, fault)?;
    let without_code = entries_without_code(found);
    // No compiler adds text or an empty entry to a bundle of code.
    if holds_code(found) {
        for entry in &without_code {
            fault(no_code_fault(entry));
        }
        return Ok(0);
    }
    Ok(without_code.iter().filter(|entry| entry.size() > 0).count())
}

fn not_extractable_fault(code_object: &CodeObjectRef<'_>, reason: &Malformed) -> BrokenRule {
    (VerifyRule::Readable, format!("'{}' cannot be extracted: {reason}", shown(code_object.id())))
}

/// Returns the entries for devices that are empty or text, as in bundles of assembly. Examines only the formats of
/// LLVM's bundler, which bundles files of any kind.
fn entries_without_code<'f>(found: &FoundBundle<'f>) -> Vec<CodeObjectRef<'f>> {
    let mut entries = Vec::new();
    if found.format.has(Rule::AnyFiles) {
        for entry in found.code_objects() {
            if matches!(entry.kind(), Some(ContentKind::Empty | ContentKind::Text)) && is_for_device(&entry) {
                entries.push(entry);
            }
        }
    }
    entries
}

/// Returns whether a code object is for a device, or false if its ID is not valid.
fn is_for_device(code_object: &CodeObjectRef<'_>) -> bool {
    match code_object.entry_id() {
        Some(id) => id.kind() != OffloadKind::Host,
        None => false,
    }
}

/// Returns whether a bundle holds code objects for devices. A text bundle may hold text, so nothing is expected of it.
fn holds_code(found: &FoundBundle<'_>) -> bool {
    if found.format.has(Rule::Text) {
        return false;
    }
    for entry in found.code_objects() {
        match entry.kind() {
            None | Some(ContentKind::Empty | ContentKind::Text | ContentKind::Unknown) => {}
            Some(_) if is_for_device(&entry) => return true,
            Some(_) => {}
        }
    }
    false
}

fn no_code_fault(entry: &CodeObjectRef<'_>) -> BrokenRule {
    let what = if entry.size() == 0 { "is empty" } else { "is text" };
    (
        VerifyRule::CodeObject,
        format!("'{}' {what}, but other entries of the bundle are code objects", shown(entry.id())),
    )
}

/// A code object to be checked.
#[derive(Clone, Copy)]
struct CheckedCode<'f> {
    code_object: CodeObjectRef<'f>,
    kind: Option<ContentKind>,
    /// Whether the content is read, and not only the first bytes.
    is_read: bool,
}

/// The least number of bytes of code objects that a task checks on one thread. A bundle of fewer bytes is not worth
/// starting threads.
const TASK_BYTES: u64 = 1 << 20;

/// Checks the content of code objects. If too many of them share bytes, not all are checked, and that is a fault.
fn check_contents(found: &FoundBundle<'_>, fault: &mut impl FnMut(BrokenRule)) -> Result<()> {
    let mut overlap_limit = OverlapLimit::new(found.bundle)?;
    let (mut tasks, mut task_size, mut is_incomplete) = (Vec::<Vec<CheckedCode<'_>>>::new(), 0, false);
    for code_object in found.code_objects() {
        // The content of an empty code object is empty, whatever kind is recorded.
        let recorded = if code_object.size() > 0 { code_object.recorded_kind() } else { None };
        let kind = recorded.or_else(|| code_object.kind());
        let is_read = is_read(kind, &code_object);
        if is_read && !overlap_limit.try_charge(&code_object) {
            is_incomplete = true;
            break;
        }
        let next = CheckedCode { code_object, kind, is_read };
        match tasks.last_mut() {
            // Code objects that are compressed together are inflated once.
            Some(task)
                if task_size < TASK_BYTES || task.last().is_some_and(|last| are_inflated_together(last, &next)) =>
            {
                task.push(next);
            }
            _ => {
                task_size = 0;
                tasks.push(vec![next]);
            }
        }
        add(&mut task_size, if is_read { code_object.size() } else { 0 });
    }
    parallel::in_order(
        tasks,
        check_task,
        |broken| broken.as_ref().map_or(1, Vec::len),
        |checked| {
            for broken in checked {
                broken?.into_iter().for_each(&mut *fault);
            }
            Ok::<_, Error>(())
        },
    )?;
    if is_incomplete {
        let text = "code objects overlap too much: not all of them were checked".to_owned();
        fault((VerifyRule::CodeObject, text));
    }
    Ok(())
}

/// Whether two code objects are compressed together, so that inflating one also inflates the other.
fn are_inflated_together(one: &CheckedCode<'_>, other: &CheckedCode<'_>) -> bool {
    match (one.code_object.packed(), other.code_object.packed()) {
        (Some(one), Some(other)) => one.inflates_like(other),
        _ => false,
    }
}

/// Returns the rules that code objects of a bundle break.
fn check_task(task: Vec<CheckedCode<'_>>) -> Result<Vec<BrokenRule>> {
    let (mut broken, mut last_inflated) = (Vec::new(), LastInflated::default());
    for CheckedCode { code_object, kind, is_read } in task {
        let checked = if is_read {
            // `last_inflated` keeps the bytes for the next code objects that were compressed together with this one.
            match code_object.found.bundle.content_after(code_object.index(), &mut last_inflated) {
                Ok(content) => {
                    check_read(&code_object, kind, content.as_slice().bytes(), &mut |rule| broken.push(rule))
                }
                Err(error) => {
                    let Some(malformed) = error.fault() else { return Err(error) };
                    broken.push(not_extractable_fault(&code_object, malformed));
                    continue;
                }
            }
        } else {
            check_unread(&code_object, kind)
        };
        if let Err(malformed) = checked {
            let text = format!("'{}' is not a valid code object: {malformed}", shown(code_object.id()));
            broken.push((VerifyRule::CodeObject, text));
        }
    }
    Ok(broken)
}

/// Checks a code object that was read. The error is about its content. Other broken rules go to `fault`.
fn check_read(
    code_object: &CodeObjectRef<'_>,
    kind: Option<ContentKind>,
    bytes: &[u8],
    fault: &mut impl FnMut(BrokenRule),
) -> Result<(), Malformed> {
    // The number of read bytes is shown as progress.
    note_read(len_u64(bytes));
    code_object.note_content(bytes);
    // `EntryIds` has compared the target in a plain code object with the ID. A compressed one had to be inflated first.
    if code_object.packed().is_some()
        && let Some(id) = code_object.entry_id()
        && let Some(broken) = check_target(code_object, &id, target::target_id(bytes))
    {
        fault(broken);
    }
    let checked = check_content(kind, bytes);
    if checked.is_ok() && is_for_hip(code_object) && check::lacks_strtab(bytes) {
        fault(no_strtab_fault(code_object));
    }
    checked
}

/// Checks a code object that is not read, by its kind or first bytes. Code for devices must have a known format.
fn check_unread(code_object: &CodeObjectRef<'_>, kind: Option<ContentKind>) -> Result<(), Malformed> {
    let found = code_object.found;
    match kind {
        Some(ContentKind::Unknown | ContentKind::Text) if found.format.has(Rule::KnownByContent) => {
            Err(Malformed::at("an image of an unknown format", 0))
        }
        Some(ContentKind::Unknown) if is_for_device(code_object) => {
            let head = found.bundle.head(code_object.index(), ContentKind::HEAD_LEN);
            check::beginning(head.unwrap_or_default(), code_object.size())
        }
        _ => Ok(()),
    }
}

/// Returns whether HIP's runtime loads a code object. SYCL's runtime uses HIP's.
fn is_for_hip(code_object: &CodeObjectRef<'_>) -> bool {
    match code_object.entry_id() {
        Some(id) => id.kind().is_hip() || id.kind() == OffloadKind::Sycl,
        None => false,
    }
}

fn no_strtab_fault(code_object: &CodeObjectRef<'_>) -> BrokenRule {
    let id = shown(code_object.id());
    let text = "HIP runtimes refuse it without a section .strtab, which strip removes unless it is called with -g or \
                --discard-all";
    (VerifyRule::Loadable, format!("'{id}': {text}"))
}

/// Returns whether the content of a code object is read. Kinds that have rules are read, and so are all code objects
/// that are compressed on their own, to see whether they can be inflated. Code that cannot be read, such as code
/// compressed with an unknown method, is left out.
fn is_read(kind: Option<ContentKind>, code_object: &CodeObjectRef<'_>) -> bool {
    if code_object.unread().is_some() {
        return false;
    }
    match kind {
        Some(ContentKind::Elf | ContentKind::Cubin | ContentKind::SpirV | ContentKind::Bitcode | ContentKind::Ptx) => {
            true
        }
        _ => code_object.packed().is_some(),
    }
}

/// Checks that the bytes of a code object have the given kind, if it is known, and follow the rules of their kind.
fn check_content(kind: Option<ContentKind>, bytes: &[u8]) -> Result<(), Malformed> {
    if let Some(kind) = kind {
        check_kind(kind, bytes)?;
    }
    check::code_object(Magic::identify(bytes).code(), bytes)
}

/// Checks that code has its recorded kind, if that is ELF, SPIR-V, a cubin or PTX.
fn check_kind(kind: ContentKind, content: &[u8]) -> Result<(), Malformed> {
    let is_comparable = matches!(kind, ContentKind::Elf | ContentKind::SpirV | ContentKind::Cubin | ContentKind::Ptx);
    match ContentKind::identify(content) {
        identified if identified == kind || !is_comparable => Ok(()),
        // The first directives of PTX may follow long comments.
        _ if kind == ContentKind::Ptx && ptx::Header::of(content).is_some() => Ok(()),
        identified => Err(Malformed::at(format!("{} instead of {}", identified.name(), kind.name()), 0)),
    }
}

/// The entry IDs of a bundle so far.
#[derive(Default)]
struct EntryIds<'f> {
    /// The number of entries with each ID.
    counts: HashMap<&'f [u8], usize>,
    /// The first entry of each processor. Later entries are compared only with the first, so the time is linear in the
    /// number of entries.
    firsts: HashMap<String, CodeObjectRef<'f>>,
}

impl<'f> EntryIds<'f> {
    /// Checks the ID of a code object. If IDs `may_repeat` in the bundle, a second entry with the ID is no fault.
    fn check(&mut self, code_object: CodeObjectRef<'f>, may_repeat: bool, fault: &mut impl FnMut(BrokenRule)) {
        if let Some(broken) = self.check_duplicate(&code_object)
            && !may_repeat
        {
            fault(broken);
        }
        match parse_id(&code_object) {
            Ok(id) => {
                if let Err(error) = id.target_id().check_features() {
                    fault((VerifyRule::Feature, format!("'{}': {error}", shown(code_object.id()))));
                }
                if id.triple().contradicts(id.target_id().processor()) {
                    fault((VerifyRule::Target, contradiction_text(&code_object, &id)));
                }
                if let Some(broken) = self.check_conflict(code_object, &id) {
                    fault(broken);
                }
                if let Some(broken) = check_target(&code_object, &id, code_object.recorded_target()) {
                    fault(broken);
                }
            }
            // The IDs are in the SYCLBIN file itself, so this image needs none.
            Err(_) if is_unread_syclbin(&code_object) => {}
            Err(reason) => {
                let text = format!("'{}' is not a valid bundle entry ID: {reason}", shown(code_object.id()));
                fault((VerifyRule::EntryId, text));
            }
        }
    }

    /// Returns the fault when an ID is found for the second time.
    fn check_duplicate(&mut self, code_object: &CodeObjectRef<'f>) -> Option<BrokenRule> {
        let count = self.counts.entry(code_object.id()).or_default();
        *count += 1;
        // A third entry is not another fault.
        if *count != 2 {
            return None;
        }
        let text = format!("several entries have the ID '{}'; runtimes take one of them", shown(code_object.id()));
        Some((VerifyRule::Duplicate, text))
    }

    /// Returns the fault if a feature is set in only one of two entries for the same processor.
    fn check_conflict(&mut self, code_object: CodeObjectRef<'f>, id: &EntryId) -> Option<BrokenRule> {
        // Features follow the first colon.
        let mut without_features = id.to_string();
        without_features.truncate(without_features.find(':').unwrap_or(without_features.len()));
        let first = match self.firsts.entry(without_features) {
            Entry::Occupied(first) => *first.get(),
            Entry::Vacant(free) => *free.insert(code_object),
        };
        // The first ID is parsed again, because kept parsed IDs would take many times the memory of the file.
        if !id.target_id().conflicts_with(parse_id(&first).ok()?.target_id()) {
            return None;
        }
        let (one, other) = (shown(first.id()), shown(code_object.id()));
        Some((VerifyRule::Conflict, format!("'{one}' and '{other}' conflict: a feature is set in one of them only")))
    }
}

/// The number of the offload kind `none` in an image of an offload binary.
const NO_KIND: u16 = 0;

/// Parses the ID of a code object. An image of an offload binary may have the offload kind `none`, which LLVM's
/// packager writes too, but which entry IDs do not have. The ID is then checked with the kind `host` in its place,
/// which no image has.
fn parse_id(code_object: &CodeObjectRef<'_>) -> Result<EntryId, String> {
    match code_object.image() {
        Some(image) if image.kind_number == NO_KIND => {
            let [triple, arch] = [image.triple(), image.arch()].map(text_lossy);
            EntryId::new(OffloadKind::Host, &triple, &arch).map_err(|error| error.to_string())
        }
        _ => code_object.parse_id(),
    }
}

/// Returns whether an image of an offload binary is a SYCLBIN file that is not read. The IDs of its code are in the
/// SYCLBIN file itself, so the image needs none.
fn is_unread_syclbin(code_object: &CodeObjectRef<'_>) -> bool {
    let is_syclbin = code_object.image().is_some_and(|image| image.image_kind == ImageKind::SyclBin);
    is_syclbin && code_object.found.format == Format::OffloadBinary
}

/// Checks that code objects which must not share bytes do not overlap. The ranges are sorted by their start, so it is
/// enough to compare each with the range before it that ends last.
fn check_overlaps(found: &FoundBundle<'_>, fault: &mut impl FnMut(BrokenRule)) {
    let mut ranges: Vec<(Range<u64>, CodeObjectRef<'_>)> = Vec::new();
    for code_object in found.code_objects() {
        if let Some(range) = code_object.exclusive_range()
            && !range.is_empty()
        {
            ranges.push((range, code_object));
        }
    }
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    // The code object with the largest end so far.
    let mut furthest: Option<(Range<u64>, CodeObjectRef<'_>)> = None;
    for (range, code_object) in ranges {
        if let Some((before, code_object_before)) = &furthest
            && before.end > range.start
        {
            let (a, b) = (shown(code_object_before.id()), shown(code_object.id()));
            fault((VerifyRule::Overlap, format!("'{a}' and '{b}' overlap: {before:?} and {range:?}")));
        }
        match &furthest {
            Some((before, _)) if before.end >= range.end => {}
            _ => furthest = Some((range, code_object)),
        }
    }
}

/// Returns the fault of a bundle for HIP's runtime that the runtime cannot read, or `None` if it can.
fn check_loadable(found: &FoundBundle<'_>) -> Option<BrokenRule> {
    let first_lost = loadable::first_lost_in(found)?;
    let reason = match found.bundle.compressed {
        Some(recorded) => {
            let size = loadable::misread_size(recorded)?;
            format!("of its recorded size, {size} bytes, they read 32 bits")
        }
        None => {
            let entries = &found.bundle.entries;
            let (all, lost) = (entries.len(), entries.len() - first_lost);
            let id = shown(entries.get(first_lost)?.id());
            format!(
                "they look for entries in its first 4096 bytes, and those from '{id}' on ({lost} of {all}) are not there"
            )
        }
    };
    Some((VerifyRule::Loadable, format!("HIP runtimes cannot load the bundle: {reason}")))
}

/// Returns the fault of a container that could be compressed, but has more than `max` bytes of plain code. Returns
/// `None` if there is no such fault. In a fatbin, code objects are compressed one by one.
fn check_compressed(found: &FoundBundle<'_>, max: u64) -> Result<Option<BrokenRule>> {
    // Code in a compressed entry is compressed with the entry.
    let is_compressed = found.bundle.compressed.is_some() || found.place.is_in_packed_entry();
    if !found.format.has(Rule::Compressible) || is_compressed {
        return Ok(None);
    }
    let (mut all, mut plain, mut plain_size) = (0_usize, 0_usize, 0_u64);
    for entry in found.code_objects() {
        if entry.size() == 0 {
            continue;
        }
        all += 1;
        // The code objects of a nested container are checked as a bundle of their own.
        if entry.packed().is_none() && !matches!(entry.kind(), Some(ContentKind::Bundle | ContentKind::FatBinary)) {
            plain += 1;
            add(&mut plain_size, entry.size());
        }
    }
    // Entries may share bytes, but are not stored in more bytes than the bundle has.
    let plain_size = plain_size.min(found.bundle.stored_len()?);
    if plain_size <= max {
        return Ok(None);
    }
    let text = format!("{plain} of {all} code objects are not compressed: {plain_size} bytes, expected at most {max}");
    Ok(Some((VerifyRule::Compressed, text)))
}

fn contradiction_text(code_object: &CodeObjectRef<'_>, id: &EntryId) -> String {
    let named = id.triple().amd_processor().unwrap_or_default();
    let (id, processor) = (shown(code_object.id()), shown(id.target_id().processor().as_bytes()));
    format!("the triple of '{id}' is for {named}, its target ID for {processor}")
}

/// Returns the fault if the target that a code object records is not that of its entry ID. Returns `None` if both
/// agree, or if they cannot be compared.
fn check_target(code_object: &CodeObjectRef<'_>, id: &EntryId, recorded: Option<String>) -> Option<BrokenRule> {
    // `ocloc` records other names of Intel's GPUs in the ELF file than DPC++ uses.
    let is_of_dpcpp = code_object.found.format.has(Rule::NamesOfDpcpp) && id.triple().arch_name() == intel_gpu::ARCH;
    let target = id.target();
    if target.is_empty() || is_of_dpcpp {
        return None;
    }
    let recorded = recorded?;
    let parsed = TargetId::parse(&recorded, id.triple().arch()).ok()?;
    // For code of an unknown kind in a fatbin, the ID has the number of the kind in place of a processor.
    if target.processor().starts_with("kind") {
        return None;
    }
    let is_same = is_same_processor(parsed.processor(), target.processor());
    if is_same && !have_different_features(&parsed, &target) {
        return None;
    }
    Some((VerifyRule::Target, format!("'{}' holds an ELF file for '{recorded}'", shown(code_object.id()))))
}

/// Returns whether the processor recorded in an ELF file is that of an entry ID, in any of the ways to write it.
fn is_same_processor(recorded: &str, of_entry: &str) -> bool {
    if recorded == of_entry {
        return true;
    }
    if let (Some(recorded), Some(of_entry)) = (sm_number(recorded), sm_number(of_entry))
        && recorded == of_entry
    {
        return true;
    }
    // Before ROCm 4, features were part of the processor: gfx906+sram-ecc.
    match of_entry.split_once('+') {
        Some((processor, _)) => processor == recorded,
        None => false,
    }
}

/// Returns the number of an SM architecture without its suffix, which most ELF files do not record.
fn sm_number(name: &str) -> Option<&str> {
    Some(name.strip_prefix("sm_")?.trim_end_matches(['a', 'f']))
}

/// Returns whether a feature is on in one target ID and off in the other.
fn have_different_features(one: &TargetId, other: &TargetId) -> bool {
    for (name, is_on) in one.features() {
        if other.features().any(|(other_name, other_is_on)| name == other_name && is_on != other_is_on) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::io::write_to;
    use crate::beyond::container::SearchBundles;
    use crate::beyond::container::entry::SearchFormat;
    use crate::beyond::scan::{EntryFacts, Place, UNKNOWN_SPACE_END};
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
            let searched = SearchFormat(binary);
            let mut bundle = SearchBundles::new(&data, &searched, Inflate::Whole).next().unwrap().unwrap();
            let (what, method) = ("compressed bundle", Method::Zstd);
            bundle.compressed = Some(Recorded { what, version: 3, method, total, inflated: 1 << 40, hash: None });
            check_loadable(&FoundBundle {
                place: &place,
                format: Format::Bundle,
                index: 0,
                bundle: &bundle,
                facts: &EntryFacts::default(),
                space_end: UNKNOWN_SPACE_END,
            })
        };
        let (hip, openmp) = ("hip-amdgcn-amd-amdhsa--gfx90a", "openmp-amdgcn-amd-amdhsa--gfx90a");
        for total in [None, Some(24), Some((1 << 32) - 1)] {
            assert_eq!(fault(hip, total), None);
        }
        for total in [1 << 32, (1 << 32) + 24, u64::MAX] {
            let (rule, text) = fault(hip, Some(total)).unwrap();
            assert!(rule == VerifyRule::Loadable && text.contains(&format!("size, {total} bytes")), "{text}");
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
            let (binary, place) = (SearchFormat(Binary::default()), Place::of_file(Path::new("in")));
            let bundle = SearchBundles::new(&data[..], &binary, Inflate::Headers).next().unwrap().unwrap();
            let (format, facts) = (Format::Bundle, &EntryFacts::default());
            let found =
                FoundBundle { place: &place, bundle: &bundle, index: 0, format, facts, space_end: UNKNOWN_SPACE_END };
            let mut pairs = Vec::new();
            check_overlaps(&found, &mut |(rule, text)| {
                assert_eq!(rule, VerifyRule::Overlap);
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
