//! Code objects in the JSON reports: every report has the same fields for them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use offload_bundle::container::stream::Recorded;
use offload_bundle::container::{Packed, fatbin};
use offload_bundle::display::printable;
use offload_bundle::id::{EntryId, OffloadKind};
use offload_bundle::job::NotRead;
use offload_bundle::scan::{ContentKind, Format, Origin, Place, Provenance};
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

/// Where a code object is in its file.
#[derive(Serialize)]
pub(super) struct At {
    origin: Option<String>,
    member: Option<String>,
    section: Option<String>,
    container: &'static str,
    bundle: usize,
    entry_id: String,
}

impl At {
    pub(super) fn new(from: &Provenance) -> Self {
        Self {
            origin: other_file(&from.place).map(|path| path.to_string_lossy().into_owned()),
            member: from.place.member(),
            section: from.place.section(),
            container: from.format.name(),
            bundle: from.bundle,
            entry_id: from.shown_id(),
        }
    }
}

/// The fields of a code object.
#[derive(Serialize)]
pub(super) struct CodeObject<'r> {
    path: String,
    origin: Option<String>,
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

/// A bundle, or some code objects of one.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) place: Arc<Place>,
    pub(super) format: Format,
    /// Its index among the bundles at its place, from 0.
    pub(super) index: usize,
    /// Its byte range, relative to the origin of the place.
    pub(super) range: Range<u64>,
    pub(super) compressed: Option<Recorded>,
    /// The inflated size of all these code objects, in bytes.
    pub(super) size: u64,
    /// Their stored size in bytes, if the bundle is not compressed as a whole.
    pub(super) stored: u64,
    pub(super) code_objects: Vec<Entry>,
}

/// A code object of a bundle.
#[derive(Debug)]
pub(super) struct Entry {
    /// The bundle entry ID, safe to print on a terminal.
    pub(super) id: String,
    /// The ID's parts; none if the ID is invalid.
    pub(super) target: Option<Target>,
    pub(super) content: Option<ContentKind>,
    /// Its inflated size in bytes.
    pub(super) size: u64,
    /// The compressed form, if the code object is compressed on its own in its bundle.
    pub(super) packed: Option<Packed>,
    /// The name of the source file, safe to print on a terminal, if that is recorded.
    pub(super) source: Option<String>,
    /// Its byte range: in the inflated bundle if that is compressed, otherwise relative to the origin of the place.
    pub(super) range: Option<Range<u64>>,
    /// The target ID that the code object itself records.
    pub(super) recorded_target: Option<String>,
    pub(super) uri: Option<String>,
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

/// The file with the bytes of a place, if that is not the file that was searched.
pub(super) fn other_file(place: &Place) -> Option<&Path> {
    match place.origin() {
        Origin::File(file) if file != place.file() => Some(file),
        _ => None,
    }
}

impl Bundle {
    /// The file with its bytes, if that is not the file that was searched.
    pub(super) fn other_file(&self) -> Option<&Path> {
        other_file(&self.place)
    }

    /// The code objects as the reports show them.
    pub(super) fn in_report(&self) -> impl Iterator<Item = CodeObject<'_>> {
        self.code_objects.iter().map(|entry| CodeObject::new(self, entry))
    }

    /// The stored size of all code objects, in bytes. In a compressed bundle it includes the header.
    pub(super) fn stored(&self) -> u64 {
        if self.compressed.is_some() { self.range.end.saturating_sub(self.range.start) } else { self.stored }
    }

    /// Whether the bundle, or a code object in it, is compressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.compressed.is_some() || self.codecs().next().is_some()
    }

    /// The methods by which code objects are compressed on their own.
    pub(super) fn codecs(&self) -> impl Iterator<Item = &'static str> {
        self.code_objects.iter().filter_map(|entry| Some(entry.packed.as_ref()?.codec.name()))
    }

    /// The stored size of a code object, in bytes: in a compressed bundle, its share of the compressed size.
    pub(super) fn share(&self, entry: &Entry) -> u64 {
        if self.compressed.is_none() {
            return entry.stored();
        }
        let part = u128::from(self.stored()).saturating_mul(entry.size.into());
        u64::try_from(part.checked_div(self.size.into()).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

impl Entry {
    /// Its stored size in bytes, in a bundle that is not compressed.
    pub(super) fn stored(&self) -> u64 {
        self.packed.as_ref().map_or(self.size, Packed::stored_len)
    }

    /// The target of the code object in one word: the target ID, or else `host`, the triple or the whole ID.
    pub(super) fn for_whom(&self) -> &str {
        match &self.target {
            Some(Target { kind: Some(OffloadKind::Host), .. }) => "host",
            Some(target) if !target.target_id.is_empty() => &target.target_id,
            Some(target) => &target.triple,
            None => &self.id,
        }
    }
}

impl<'r> CodeObject<'r> {
    fn new(bundle: &'r Bundle, entry: &'r Entry) -> Self {
        let in_file = matches!(bundle.place.origin(), Origin::File(_));
        let start = entry.range.as_ref().map(|range| range.start);
        let (target, packed) = (entry.target.as_ref(), entry.packed.as_ref());
        let compressed = match (bundle.compressed, packed) {
            (Some(recorded), _) => Some((recorded.method.name(), recorded.version, recorded.inflated)),
            (None, Some(packed)) => Some((packed.codec.name(), fatbin::VERSION, packed.inflated)),
            (None, None) => None,
        };
        let compressed = compressed.map(|(method, format_version, inflated_size)| Compressed {
            method,
            format_version,
            inflated_size,
        });
        Self {
            path: bundle.place.file().to_string_lossy().into_owned(),
            origin: bundle.other_file().map(|path| path.to_string_lossy().into_owned()),
            member: bundle.place.member(),
            section: bundle.place.section(),
            container: bundle.format.name(),
            bundle: bundle.index,
            bundle_offset: bundle.range.start,
            bundle_size: bundle.range.end.saturating_sub(bundle.range.start),
            offset: start.filter(|_| in_file && bundle.compressed.is_none()),
            size: entry.size,
            stored_size: bundle.compressed.is_none().then(|| entry.stored()),
            compressed,
            inflated_offset: match packed {
                Some(packed) => Some(packed.range.start),
                None => start.filter(|_| bundle.compressed.is_some()),
            },
            entry_id: &entry.id,
            kind: target.and_then(|target| target.kind).map(OffloadKind::name),
            triple: target.map(|target| target.triple.as_str()),
            target_id: target.map(|target| target.target_id.as_str()).filter(|target_id| !target_id.is_empty()),
            recorded_target_id: entry.recorded_target.as_deref(),
            image_kind: entry.content.map(ContentKind::name),
            source: entry.source.as_deref(),
            uri: entry.uri.as_deref(),
        }
    }
}
