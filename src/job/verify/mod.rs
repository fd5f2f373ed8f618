//! Verifies all device code in a file.

mod expect;
mod kpack_tree;

pub use expect::{Expect, Extent};
pub use kpack_tree::KpackTree;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open;
use crate::bytes::{add, len_u64, total};
use crate::code::{check, target};
use crate::codec::Codec;
use crate::container::packed::LastInflated;
use crate::container::sequence::Inflate;
use crate::container::sycl::INTEL;
use crate::container::{Limits, ptx};
use crate::display::{short_name, shown};
use crate::error::{Error, Malformed, Result};
use crate::id::target_id::TargetId;
use crate::id::{EntryId, OffloadKind};
use crate::io::input::{Accept, Input, note_read};
use crate::runtime::loadable;
use crate::scan::{Checksums, CodeObjectRef, ContentKind, Finding, Follow, Format, Found, Place, Scan, Unread, is_zip};
use expect::ExpectComparison;

/// Verifies all device code in a file.
///
/// Reads every header and range, inflates every compressed bundle, and compares it with its recorded sizes and hash.
/// Then checks the entries of each bundle against the rules of the Clang Offload Bundler documentation, and the code
/// objects themselves: headers, tables and notes of ELF files, SPIR-V and bitcode. Bundles for HIP's runtime must be
/// within its limits. A split library is compared with its kpack archives; those in zip files, and archives without
/// libraries, by a [`KpackTree`], to which every result is added. Formats that are recognised but not
/// read are reported.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verify {
    /// How the kpack archives of split libraries are found; none if libraries are not compared with them.
    pub follow: Option<Arc<Follow>>,
    /// Limits on the inflated size of compressed containers.
    pub limits: Limits,
    /// Whether all bytes are searched, as by [`Scan::deep`].
    pub deep: bool,
    /// The GPUs that every bundle has to serve.
    pub expect: Option<Expect>,
    /// The most bytes of plain code, if it is a fault to have more: in a bundle, a CUDA fatbin or an offload binary. Text
    /// bundles and fat objects, which have no compressed form in place, may have any number; so may what is inside of a
    /// compressed entry, and nested containers count by themselves.
    pub plain_max: Option<u64>,
}

/// The contents of a file, and its faults.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// The path, as the caller gave it.
    pub path: PathBuf,
    /// The number of checked bundles.
    pub bundles: usize,
    /// The number of checked code objects, in bundles and outside.
    pub code_objects: usize,
    /// The number of checked code objects outside bundles.
    pub without_bundle: usize,
    /// The number of entries for devices that are text or empty, in bundles that hold nothing else for devices.
    pub without_code: usize,
    /// The listed parts that were recognised but not read, in file order. They contain, or may contain, device code.
    pub unread: Vec<NotRead>,
    /// The number of further parts that were not read, by the [name](Unread::name) of their format. At most 10,000 are
    /// listed for a file.
    pub more_unread: BTreeMap<&'static str, usize>,
    /// The listed faults, in file order.
    pub faults: Vec<Fault>,
    /// The number of faults that are not listed. At most 10,000 are listed for a file.
    pub more_faults: usize,
    /// The number of references to kpack archives, in which the device code of a split library is.
    pub kpack_references: usize,
    /// The names of the [expected](Verify::expect) GPUs that some code of the file serves.
    pub served: Vec<String>,
    /// Whether every library has code for each expected GPU in some of its bundles: what
    /// [`Extent::Libraries`] asks.
    pub is_served_by_libraries: bool,
    /// What can only be checked together with other files.
    kpack: kpack_tree::KpackFacts,
    /// The size of the listed faults, in bytes.
    listed_bytes: u64,
}

/// A part that was recognised but not read.
#[derive(Clone, Debug)]
pub struct NotRead {
    /// The place.
    pub place: Place,
    /// The offset in bytes, relative to the origin of the place.
    pub offset: u64,
    /// The format.
    pub what: Unread,
}

/// A fault.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The place.
    pub place: Place,
    /// The index of the bundle at the place, from 0; `None` if the fault is not in a bundle.
    pub bundle: Option<usize>,
    /// The offset in bytes, relative to the origin of the place.
    pub offset: Option<u64>,
    /// The broken rule.
    pub rule: Rule,
    /// A description of the fault.
    pub text: String,
    /// The GPU that is not served, or for which there is code that is not expected.
    pub gpu: Option<String>,
    /// The name of the bundle's source file, safe to print on a terminal, if a GPU is not served or not expected.
    pub source: Option<String>,
}

/// The rules that device code must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// Headers, ranges, sizes and hashes match the data.
    Readable,
    /// Bundles are separated and followed only by padding.
    Trailing,
    /// Every entry ID is valid.
    EntryId,
    /// A processor supports the features that its target ID sets.
    Feature,
    /// All entries of a bundle have different IDs.
    Duplicate,
    /// A feature is set in all entries of a processor, or in none.
    Conflict,
    /// Code objects do not overlap.
    Overlap,
    /// A code object is for the target in its entry ID.
    Target,
    /// A code object is complete: its headers, tables and notes lie inside it and are consistent.
    CodeObject,
    /// HIP's runtime can read a bundle of code objects for it.
    Loadable,
    /// The kpack archives of a split library hold all of its code.
    Kpack,
    /// A bundle serves an expected GPU.
    Expected,
    /// A bundle holds only code for expected GPUs.
    Unexpected,
    /// A bundle, a fatbin or an offload binary is compressed.
    Compressed,
}

impl Rule {
    /// The name of the rule.
    pub fn name(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::Trailing => "trailing",
            Self::EntryId => "entry-id",
            Self::Feature => "feature",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Overlap => "overlap",
            Self::Target => "target",
            Self::CodeObject => "code-object",
            Self::Loadable => "loadable",
            Self::Kpack => "kpack",
            Self::Expected => "expected",
            Self::Unexpected => "unexpected",
            Self::Compressed => "compressed",
        }
    }
}

impl Fault {
    /// A fault at a place, in no bundle.
    pub(super) fn new(place: &Place, rule: Rule, text: String) -> Self {
        Self { place: place.clone(), bundle: None, offset: None, rule, text, gpu: None, source: None }
    }
}

/// Shows the place, the bundle and the fault.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(bundle) = self.bundle {
            write!(f, ": bundle {bundle}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {} [{}]", self.text, self.rule.name())
    }
}

/// The maximum length of the text of a fault, in characters. Reasons may quote IDs of any length.
const TEXT_MAX: usize = 800;

/// The maximum number of listed faults in a file, and their maximum total size in bytes. Further faults are only
/// counted.
const LISTED_MAX: usize = 10_000;
const LISTED_BYTES: u64 = 32 << 20;

impl Verify {
    /// Checks a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file cannot be read. A fault in its contents is a [`Fault`].
    pub fn run(&self, path: &Path) -> Result<Verified> {
        self.check(&open(path, Accept::Finite, self.limits.streamed)?)
    }

    /// Checks an open file.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn check(&self, input: &Input) -> Result<Verified> {
        let mut verified = Verified { path: input.path().to_owned(), ..Verified::default() };
        let (inflate, checksums, deep, limits) = (Inflate::Whole, Checksums::OfAll, self.deep, self.limits);
        let follow = self.follow.as_ref().map(|follow| Arc::new(follow.tables_only()));
        let scan = Scan { inflate, checksums, deep, limits, follow };
        let mut comparison = self.expect.as_ref().map(|expect| ExpectComparison::new(expect, input));
        let is_zip = is_zip(input.as_slice());
        let scanned = scan.run(input, &mut |finding| {
            match finding {
                Finding::Bundle(found) => {
                    verified.bundle(&found, self.plain_max)?;
                    let gaps = comparison.as_mut().map(|comparison| comparison.bundle(&found));
                    gaps.into_iter().flatten().for_each(|gap| verified.list(gap));
                }
                Finding::Broken { error, .. } if error.is_io() => return Err(error),
                Finding::Broken { place, error } | Finding::Hidden { place, error } => {
                    verified.fault(place, None, None, Rule::Readable, &inner_text(&error));
                }
                Finding::Trailing { place, offset, after } => {
                    let after_package = after.map(|package| format!("unexpected data after the {package}"));
                    let text = after_package.as_deref().unwrap_or("trailing data is not a bundle");
                    verified.fault(place, None, offset, Rule::Trailing, text);
                }
                Finding::Unread { place, offset, what } => verified.not_read(place, offset, what),
                Finding::Kpack { place, archive } => {
                    verified.kpack_faults(place, kpack_tree::check_archive(archive, place));
                    verified.kpack.add_archive(place, is_zip, archive);
                }
                Finding::Split { place, split } => {
                    verified.kpack_references += 1;
                    let faults = verified.kpack.add_library(place, is_zip, &split);
                    verified.kpack_faults(place, faults);
                    let gaps = comparison.as_mut().map(|comparison| comparison.split(place, &split));
                    gaps.into_iter().flatten().for_each(|gap| verified.list(gap));
                }
            }
            Ok(())
        });
        input.vouch_for(scanned)?;
        if let Some(comparison) = comparison {
            comparison.finish(&mut verified);
        }
        Ok(verified)
    }
}

impl Verified {
    fn fault(&mut self, place: &Place, bundle: Option<usize>, offset: Option<u64>, rule: Rule, text: &str) {
        self.list(Fault { bundle, offset, ..Fault::new(place, rule, text.to_owned()) });
    }

    pub(super) fn list(&mut self, fault: Fault) {
        // The text may quote entry IDs, which can contain any characters.
        let fault = Fault { text: short_name(fault.text.as_bytes(), TEXT_MAX), ..fault };
        if self.takes(self.faults.len(), &fault.place, len_u64(fault.text.as_bytes())) {
            self.faults.push(fault);
        } else {
            self.more_faults += 1;
        }
    }

    fn kpack_faults(&mut self, place: &Place, texts: Vec<String>) {
        texts.iter().for_each(|text| self.fault(place, None, None, Rule::Kpack, text));
    }

    fn not_read(&mut self, place: &Place, offset: u64, what: Unread) {
        if self.takes(self.unread.len(), place, 0) {
            self.unread.push(NotRead { place: place.clone(), offset, what });
        } else {
            let more = self.more_unread.entry(what.name()).or_default();
            *more += 1;
        }
    }

    /// Whether another fault of `len` bytes can be listed, in addition to `listed` faults. The first one always is,
    /// however long the names of its place are.
    fn takes(&mut self, listed: usize, place: &Place, len: u64) -> bool {
        add(&mut self.listed_bytes, total([place.weight(), len]));
        listed == 0 || (listed < LISTED_MAX && self.listed_bytes <= LISTED_BYTES)
    }

    fn bundle(&mut self, found: &Found<'_>, plain_max: Option<u64>) -> Result<()> {
        let code_objects = found.bundle.entries.len();
        self.code_objects += code_objects;
        let mut fault = |(rule, text): BrokenRule| {
            self.fault(found.place, Some(found.index), Some(found.bundle.offset), rule, &text)
        };
        if found.format != Format::CodeObject {
            let mut ids = Ids::default();
            // Device images have no ID of their own, and each abstract module of a SYCLBIN file has code for the same targets.
            let repeats = matches!(found.format, Format::DeviceImages | Format::SyclBin);
            found.code_objects().for_each(|code_object| ids.check(code_object, repeats, &mut fault));
        }
        for code_object in found.code_objects() {
            let unreadable = code_object.unreadable().filter(|_| found.format != Format::Kpack);
            unreadable.into_iter().for_each(|reason| fault(not_extractable(&code_object, reason)));
        }
        overlaps(found, &mut fault);
        not_loadable(found).into_iter().for_each(&mut fault);
        if let Some(most) = plain_max {
            not_compressed(found, most)?.into_iter().for_each(&mut fault);
        }
        check_contents(found, &mut fault)?;
        let without_code = without_code(found);
        if holds_code(found) {
            without_code.iter().for_each(|entry| fault(not_code(entry)));
        } else {
            self.without_code += without_code.len();
        }
        match found.format {
            Format::CodeObject => self.without_bundle += code_objects,
            _ => self.bundles += 1,
        }
        Ok(())
    }
}

/// A broken rule, and a description of the fault.
type BrokenRule = (Rule, String);

/// The text of an error without the file, which the place already names.
fn inner_text(error: &Error) -> String {
    error.fault().map_or_else(|| error.to_string(), ToString::to_string)
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

/// The maximum total size of code objects, as a multiple of the size of their bundle. Hosts of fat objects share bytes
/// with it.
const SHARED_MAX: u64 = 4;

/// Checks the code objects themselves. If too many of them share bytes, not all are checked, which is reported as a
/// fault.
fn check_contents(found: &Found<'_>, fault: &mut impl FnMut(BrokenRule)) -> Result<()> {
    let mut left = found.bundle.full_len()?.saturating_mul(SHARED_MAX);
    let mut last = LastInflated::default();
    for code_object in found.code_objects() {
        let recorded = code_object.recorded_kind().filter(|_| code_object.size() > 0);
        let checked = match recorded.or_else(|| code_object.kind()) {
            kind if is_checked(kind, &code_object) => {
                let Some(rest) = left.checked_sub(code_object.size()) else {
                    let text = "code objects overlap too much: not all of them were checked".to_owned();
                    fault((Rule::CodeObject, text));
                    return Ok(());
                };
                left = rest;
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
                kind.map_or(Ok(()), |kind| check_kind(kind, bytes)).and_then(|()| check::code_object(bytes))
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

/// Whether code objects of a kind are checked. What is compressed by itself must inflate.
fn is_checked(kind: Option<ContentKind>, code_object: &CodeObjectRef<'_>) -> bool {
    match kind {
        Some(ContentKind::Elf | ContentKind::Cubin | ContentKind::SpirV | ContentKind::Bitcode | ContentKind::Ptx) => {
            true
        }
        _ => code_object.packed().is_some_and(|packed| packed.codec != Codec::Unknown),
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
        match code_object.parse_id() {
            Ok(id) => {
                if let Err(error) = id.target_id().check_features() {
                    fault((Rule::Feature, format!("'{}': {error}", shown(code_object.id()))));
                }
                self.conflict(code_object, &id).into_iter().for_each(&mut *fault);
                check_target(&code_object, &id, code_object.recorded_target()).into_iter().for_each(fault);
            }
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
        if !id.target_id().conflicts_with(first.entry_id()?.target_id()) {
            return None;
        }
        let (one, other) = (shown(first.id()), shown(code_object.id()));
        Some((Rule::Conflict, format!("'{one}' and '{other}' conflict: a feature is set in one of them only")))
    }
}

fn overlaps(found: &Found<'_>, fault: &mut impl FnMut(BrokenRule)) {
    let ranges = found.code_objects().filter_map(|code_object| Some((taken(&code_object, found)?, code_object)));
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

/// The range that a code object takes in its bundle, if it shares that with no other: a compressed device image does not.
fn taken(code_object: &CodeObjectRef<'_>, found: &Found<'_>) -> Option<Range<u64>> {
    let stored = code_object.packed().filter(|_| found.format == Format::DeviceImages).map(|packed| &packed.stored);
    let stored = stored.and_then(|range| {
        let [start, end] = [range.start, range.end].map(|at| found.bundle.offset.checked_add(at));
        Some(start?..end?)
    });
    code_object.range().or(stored)
}

/// Checks that HIP's runtime can read a bundle for it.
fn not_loadable(found: &Found<'_>) -> Option<BrokenRule> {
    let entries = &found.bundle.entries;
    let reason = match found.bundle.compressed {
        _ if found.format != Format::Bundle => return None,
        Some(recorded) => {
            let size = loadable::misread_size(recorded)?;
            format!("of its recorded size, {size} bytes, they read 32 bits")
        }
        None => {
            let first = loadable::first_lost(entries.iter().map(|entry| entry.id.as_slice()))?;
            let lost = entries.get(first..)?;
            let (id, lost, all) = (shown(&lost.first()?.id), lost.len(), entries.len());
            format!(
                "they look for entries in its first 4096 bytes, and those from '{id}' on ({lost} of {all}) are not there"
            )
        }
    };
    let kinds = found.code_objects().map(|entry| (entry.entry_id().map(|id| id.kind()), entry.kind()));
    let text = || format!("HIP runtimes cannot load the bundle: {reason}");
    loadable::is_for_runtime(kinds).then(|| (Rule::Loadable, text()))
}

/// Checks that a container has at most `most` bytes of plain code, if it could be compressed. In a fatbin, that is what is not
/// compressed one by one.
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

/// Checks that the target recorded in a code object can serve requests for its entry ID.
fn check_target(code_object: &CodeObjectRef<'_>, id: &EntryId, recorded: Option<String>) -> Option<BrokenRule> {
    // DPC++ has names for Intel's GPUs that are not those of `ocloc`, which records its own in the ELF file.
    let is_of_dpcpp = code_object.format() == Format::SyclBin && id.triple().arch_name() == INTEL;
    if id.target_id().is_empty() || is_of_dpcpp {
        return None;
    }
    let recorded = recorded?;
    let parsed = TargetId::parse(&recorded, id.triple().arch()).ok()?;
    let differs = |(name, on): (&str, bool)| parsed.features().any(|(other, other_on)| name == other && on != other_on);
    let (one, other) = (parsed.processor(), id.target_id().processor());
    // Before ROCm 4, features were part of it: gfx906+sram-ecc.
    let is_old = || other.split_once('+').is_some_and(|(processor, _)| processor == one);
    let is_same = one == other || is_same_architecture(one, other) || is_old();
    // In a fatbin, code of a kind that is not known may be an ELF file.
    if (is_same && !id.target_id().features().any(differs)) || other.starts_with("kind") {
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
    use super::*;
    use crate::container::Member;
    use crate::container::binary::Binary;
    use crate::container::sequence::Bundles;
    use crate::container::stream::{Method, Recorded};
    use crate::io::write_to;
    use crate::scan::EntryFacts;

    #[test]
    fn a_compressed_bundle_whose_size_takes_33_bits_is_not_loadable() {
        let (place, binary) = (Place::of_file(Path::new("in")), Binary::default());
        let fault = |id: &str, total: Option<u64>| {
            let member = Member { id: id.to_owned(), content: (&b"\x7fELF"[..]).into() };
            let mut data = Vec::new();
            write_to(&binary.plan(&[member]).unwrap(), &mut data).unwrap();
            let mut bundle = Bundles::new(&data, &binary, Inflate::Whole).next().unwrap().unwrap();
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
            let (binary, place) = (Binary::default(), Place::of_file(Path::new("in")));
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
