//! Code objects in the JSON reports: every report has the same fields for them.

use std::ops::Range;

use offload_bundle::container::stream::Recorded;
use offload_bundle::container::{Packed, fatbin};
use offload_bundle::display::printable;
use offload_bundle::id::{EntryId, OffloadKind};
use offload_bundle::job::NotRead;
use offload_bundle::scan::{ContentKind, Format, Origin, Place};
use serde::Serialize;

/// A part of a file that is recognised but not read, as the JSON reports show it.
#[derive(Debug, Serialize)]
pub(super) struct UnreadPart {
    member: Option<String>,
    section: Option<String>,
    offset: u64,
    what: &'static str,
    is_device_code: bool,
}

impl UnreadPart {
    pub(super) fn new(NotRead { place, offset, what }: &NotRead) -> Self {
        Self {
            member: place.member(),
            section: place.section(),
            offset: *offset,
            what: what.name(),
            is_device_code: what.is_device_code(),
        }
    }
}

/// The fields of a code object.
#[derive(Serialize)]
pub(super) struct CodeObject<'r> {
    path: String,
    member: Option<String>,
    section: Option<String>,
    container: &'static str,
    bundle: usize,
    bundle_offset: u64,
    bundle_size: u64,
    offset: Option<u64>,
    size: u64,
    stored_size: Option<u64>,
    compressed: Option<Compressed>,
    inflated_offset: Option<u64>,
    entry_id: &'r str,
    kind: Option<&'static str>,
    triple: Option<&'r str>,
    target_id: Option<&'r str>,
    recorded_target_id: Option<&'r str>,
    image_kind: Option<&'static str>,
    source: Option<&'r str>,
    uri: Option<&'r str>,
}

#[derive(Serialize)]
struct Compressed {
    method: &'static str,
    format_version: u32,
    inflated_size: u64,
}

/// The bundle that holds a code object.
pub(super) struct InBundle<'r> {
    pub(super) place: &'r Place,
    pub(super) format: Format,
    /// The index of the bundle at its place.
    pub(super) index: usize,
    /// The byte range of the bundle, relative to the origin of the place.
    pub(super) range: &'r Range<u64>,
    pub(super) compressed: Option<Recorded>,
}

/// The code object in its bundle. Texts are escaped for terminals.
pub(super) struct Entry<'r> {
    pub(super) id: &'r str,
    pub(super) target: Option<&'r Target>,
    pub(super) content: Option<ContentKind>,
    /// The inflated size in bytes.
    pub(super) size: u64,
    /// The compressed form, if the code object is compressed on its own.
    pub(super) packed: Option<&'r Packed>,
    pub(super) source: Option<&'r str>,
    /// The byte range: in the inflated bundle if that is compressed, otherwise relative to the origin of the place.
    pub(super) range: Option<&'r Range<u64>>,
    pub(super) recorded_target: Option<&'r str>,
    pub(super) uri: Option<&'r str>,
}

/// The parts of a bundle entry ID, escaped for terminals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// None for a code object without a bundle.
    pub(super) kind: Option<OffloadKind>,
    pub(super) triple: String,
    /// The target ID; empty if missing.
    pub(super) target_id: String,
}

impl Target {
    pub(super) fn new(id: &EntryId, format: Format) -> Self {
        Self {
            kind: (format != Format::CodeObject).then(|| id.kind()),
            triple: printable(id.triple().as_str().trim_end_matches('-')),
            target_id: printable(&id.target_id().to_string()),
        }
    }
}

impl<'r> CodeObject<'r> {
    pub(super) fn new(bundle: &InBundle<'r>, entry: &Entry<'r>) -> Self {
        let in_file = matches!(bundle.place.origin(), Origin::File(_));
        let start = entry.range.map(|range| range.start);
        let compressed = match (bundle.compressed, entry.packed) {
            (Some(recorded), _) => Some(Compressed::new(recorded.method.name(), recorded.version, recorded.inflated)),
            (None, Some(packed)) => Some(Compressed::new(packed.codec.name(), fatbin::VERSION, packed.inflated)),
            (None, None) => None,
        };
        Self {
            path: bundle.place.file().to_string_lossy().into_owned(),
            member: bundle.place.member(),
            section: bundle.place.section(),
            container: bundle.format.name(),
            bundle: bundle.index,
            bundle_offset: bundle.range.start,
            bundle_size: bundle.range.end.saturating_sub(bundle.range.start),
            offset: start.filter(|_| in_file && bundle.compressed.is_none()),
            size: entry.size,
            stored_size: (bundle.compressed.is_none()).then(|| entry.packed.map_or(entry.size, Packed::stored_len)),
            compressed,
            inflated_offset: match entry.packed {
                Some(packed) => Some(packed.range.start),
                None => start.filter(|_| bundle.compressed.is_some()),
            },
            entry_id: entry.id,
            kind: entry.target.and_then(|target| target.kind).map(OffloadKind::name),
            triple: entry.target.map(|target| target.triple.as_str()),
            target_id: entry.target.map(|target| target.target_id.as_str()).filter(|target_id| !target_id.is_empty()),
            recorded_target_id: entry.recorded_target,
            image_kind: entry.content.map(ContentKind::name),
            source: entry.source,
            uri: entry.uri,
        }
    }
}

impl Compressed {
    fn new(method: &'static str, format_version: u32, inflated_size: u64) -> Self {
        Self { method, format_version, inflated_size }
    }
}
