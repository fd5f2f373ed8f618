//! Code objects in the JSON reports: every report has the same fields for them.

use std::path::Path;

use offload_bundle::Result;
use offload_bundle::container::fatbin;
use offload_bundle::display::printable;
use offload_bundle::id::OffloadKind;
use offload_bundle::job::NotRead;
use offload_bundle::scan::{CodeObject, ContentKind, Format, Origin, Place, Uri};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

/// A part of a file that is recognised but not read, as the JSON reports show it.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct UnreadPart {
    member: Option<String>,
    section: Option<String>,
    offset: u64,
    what: &'static str,
    is_device_code: bool,
}

impl UnreadPart {
    pub(in crate::cli) fn new(NotRead { place, offset, what }: &NotRead) -> Self {
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
pub(in crate::cli) struct At {
    origin: Option<String>,
    member: Option<String>,
    section: Option<String>,
    container: &'static str,
    bundle: usize,
    entry_id: String,
}

impl At {
    pub(in crate::cli) fn new(code_object: &CodeObject) -> Self {
        let bundle = &code_object.bundle;
        Self {
            origin: other_file(&bundle.place).map(|path| path.to_string_lossy().into_owned()),
            member: bundle.place.member(),
            section: bundle.place.section(),
            container: bundle.format.name(),
            bundle: bundle.index,
            entry_id: code_object.shown_id(),
        }
    }
}

/// The fields of a code object.
#[derive(Serialize)]
pub(in crate::cli) struct Fields {
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
    entry_id: String,
    kind: Option<&'static str>,
    triple: Option<String>,
    target_id: Option<String>,
    recorded_target_id: Option<String>,
    image_kind: Option<&'static str>,
    source: Option<String>,
    #[serde(serialize_with = "write_uri")]
    uri: Result<Option<Uri>>,
}

#[derive(Serialize)]
struct Compressed {
    method: &'static str,
    format_version: u32,
    inflated_size: u64,
}

impl Fields {
    pub(in crate::cli) fn new(code_object: &CodeObject) -> Self {
        let (bundle, packed) = (&code_object.bundle, code_object.packed.as_ref());
        let in_file = matches!(bundle.place.origin(), Origin::File(_));
        let start = code_object.range.as_ref().map(|range| range.start);
        let id = code_object.entry_id();
        let target_id = id.as_ref().map(|id| id.target_id().to_string()).filter(|target_id| !target_id.is_empty());
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
            origin: other_file(&bundle.place).map(|path| path.to_string_lossy().into_owned()),
            member: bundle.place.member(),
            section: bundle.place.section(),
            container: bundle.format.name(),
            bundle: bundle.index,
            bundle_offset: bundle.range.start,
            bundle_size: bundle.stored(),
            offset: start.filter(|_| in_file && bundle.compressed.is_none()),
            size: code_object.size,
            stored_size: bundle.compressed.is_none().then(|| code_object.stored()),
            compressed,
            inflated_offset: match packed {
                Some(packed) => Some(packed.range.start),
                None => start.filter(|_| bundle.compressed.is_some()),
            },
            entry_id: code_object.shown_id(),
            // A code object without a bundle has none.
            kind: id.as_ref().filter(|_| bundle.format != Format::CodeObject).map(|id| id.kind().name()),
            triple: id.map(|id| printable(id.triple().as_str().trim_end_matches('-'))),
            target_id: target_id.map(|target_id| printable(&target_id)),
            recorded_target_id: code_object.recorded_target.as_deref().map(str::to_owned),
            image_kind: code_object.kind.map(ContentKind::name),
            source: code_object.source.as_deref().map(str::to_owned),
            uri: code_object.uri(),
        }
    }
}

/// Writes a URI. The report fails if the current directory is not known, which a URI of a relative path needs.
pub(in crate::cli) fn write_uri<S: Serializer>(
    uri: &Result<Option<Uri>>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    match uri {
        Ok(uri) => uri.as_ref().map(Uri::to_string).serialize(serializer),
        Err(error) => Err(S::Error::custom(error)),
    }
}

/// The file with the bytes of a place, if that is not the file that was searched.
pub(in crate::cli) fn other_file(place: &Place) -> Option<&Path> {
    match place.origin() {
        Origin::File(file) if file != place.file() => Some(file),
        _ => None,
    }
}

/// The target of a code object in one word: the target ID, or else `host`, the triple or the whole ID.
pub(in crate::cli) fn for_whom(code_object: &CodeObject) -> String {
    let is_host = |kind| kind == OffloadKind::Host && code_object.bundle.format != Format::CodeObject;
    match code_object.entry_id() {
        Some(id) if is_host(id.kind()) => "host".to_owned(),
        _ => code_object.target(),
    }
}
