//! The reports of jobs as the executable prints them in JSON, for `serde` (feature `serde`). The schemas in `docs` describe
//! the fields. Names and texts are safe to show on a terminal; paths are as they are, with U+FFFD for what is not UTF-8. Offsets and
//! sizes are in bytes.

use std::path::{Path, PathBuf};

use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use crate::container::fatbin;
use crate::display::printable;
use crate::error::Result;
use crate::job::{Fault, Inspected, KpackReference, NotRead, Verified};
use crate::runtime::{Device, Served};
use crate::scan::{CodeObject, ContentKind, Format, Origin};

/// Serializes a value as the fields that `$fields` makes of it.
macro_rules! serialize_as {
    ($($value:ty => $fields:expr),+ $(,)?) => {$(
        impl Serialize for $value {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                $fields(self).serialize(serializer)
            }
        }
    )+};
}

serialize_as! {
    NotRead => NotReadFields::new,
    KpackReference => KpackReferenceFields::new,
    Inspected => InspectedFields::new,
    Fault => FaultFields::new,
    Verified => VerifiedFields::new,
}

impl Serialize for CodeObject {
    /// Fails if the current directory is not known, which the URI of a file with a relative path needs.
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        CodeObjectFields::new(self).map_err(S::Error::custom)?.serialize(serializer)
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[derive(Serialize)]
struct CodeObjectFields {
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
    compressed: Option<CompressedFields>,
    inflated_offset: Option<u64>,
    entry_id: String,
    kind: Option<&'static str>,
    triple: Option<String>,
    target_id: Option<String>,
    recorded_target_id: Option<String>,
    image_kind: Option<&'static str>,
    source: Option<String>,
    uri: Option<String>,
}

#[derive(Serialize)]
struct CompressedFields {
    method: &'static str,
    format_version: u32,
    inflated_size: u64,
}

impl CodeObjectFields {
    fn new(code_object: &CodeObject) -> Result<Self> {
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
        let compressed = compressed.map(|(method, format_version, inflated_size)| CompressedFields {
            method,
            format_version,
            inflated_size,
        });
        Ok(Self {
            path: shown(bundle.place.file()),
            origin: bundle.place.other_file().map(shown),
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
            uri: code_object.uri()?.map(|uri| uri.to_string()),
        })
    }
}

#[derive(Serialize)]
struct NotReadFields {
    member: Option<String>,
    section: Option<String>,
    offset: u64,
    what: &'static str,
    is_device_code: bool,
}

impl NotReadFields {
    fn new(NotRead { place, offset, what }: &NotRead) -> Self {
        let (member, section) = (place.member(), place.section());
        Self { member, section, offset: *offset, what: what.name(), is_device_code: what.is_device_code() }
    }
}

#[derive(Serialize)]
struct KpackReferenceFields<'r> {
    member: Option<String>,
    kernel_name: &'r str,
    search_paths: &'r [String],
    archives: Option<Vec<String>>,
}

impl<'r> KpackReferenceFields<'r> {
    fn new(reference: &'r KpackReference) -> Self {
        let paths = |paths: &Vec<PathBuf>| paths.iter().map(|path| shown(path)).collect();
        Self {
            member: reference.place.member(),
            kernel_name: &reference.kernel_name,
            search_paths: &reference.search_paths,
            archives: reference.archives.as_ref().map(paths),
        }
    }
}

#[derive(Serialize)]
struct InspectedFields<'r> {
    path: String,
    size: u64,
    code_objects: Vec<&'r CodeObject>,
    unread: &'r [NotRead],
    bundles: usize,
    coverage: Option<Vec<ServedFields>>,
    kpack_references: &'r [KpackReference],
}

/// In how many bundles a GPU is served.
#[derive(Serialize)]
struct ServedFields {
    gpu: String,
    #[serde(flatten)]
    served: Served,
}

impl<'r> InspectedFields<'r> {
    fn new(inspected: &'r Inspected) -> Self {
        let all = inspected.coverage();
        let served = |(gpu, served): (Device, Served)| ServedFields { gpu: gpu.name().to_owned(), served };
        Self {
            path: shown(&inspected.path),
            size: inspected.size,
            code_objects: inspected.bundles.iter().flat_map(|bundle| &bundle.code_objects).collect(),
            unread: &inspected.unread,
            bundles: all.bundles(),
            coverage: all.gpus().map(|gpus| gpus.into_iter().map(served).collect()),
            kpack_references: &inspected.references,
        }
    }
}

#[derive(Serialize)]
struct FaultFields<'r> {
    rule: &'static str,
    member: Option<String>,
    section: Option<String>,
    bundle: Option<usize>,
    offset: Option<u64>,
    text: &'r str,
    gpu: Option<&'r str>,
    source: Option<&'r str>,
}

impl<'r> FaultFields<'r> {
    fn new(fault: &'r Fault) -> Self {
        Self {
            rule: fault.rule.name(),
            member: fault.place.member(),
            section: fault.place.section(),
            bundle: fault.bundle,
            offset: fault.offset,
            text: &fault.text,
            gpu: fault.gpu.as_deref(),
            source: fault.source.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct VerifiedFields<'r> {
    path: String,
    bundles: usize,
    code_objects: usize,
    without_bundle: usize,
    without_code: usize,
    faults: &'r [Fault],
    more_faults: usize,
    unread: &'r [NotRead],
    more_unread: usize,
    kpack_references: usize,
}

impl<'r> VerifiedFields<'r> {
    fn new(verified: &'r Verified) -> Self {
        Self {
            path: shown(&verified.path),
            bundles: verified.bundles,
            code_objects: verified.code_objects,
            without_bundle: verified.without_bundle,
            without_code: verified.without_code,
            faults: &verified.faults,
            more_faults: verified.more_faults,
            unread: &verified.unread,
            more_unread: verified.more_unread.values().sum(),
            kpack_references: verified.kpack_references,
        }
    }
}
