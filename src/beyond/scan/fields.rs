//! The fields of code objects and places in documents (feature `serde`).

use std::borrow::Cow;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

#[cfg(test)]
use super::schemas;
use super::{CodeObject, Format, Place, PlaceOrigin};
use crate::base::display::printable;
use crate::beyond::container::{ContentKind, fatbin};
use crate::beyond::document::{serialized_as, shown};

serialized_as!(CodeObject => CodeObjectFields, Place => InnerPlace);

/// A code object.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "CodeObject"))]
struct CodeObjectFields<'c> {
    /// The path of the file, as named on the command line or found in a directory. Bytes that are not UTF-8 are
    /// replaced by U+FFFD, so such a path cannot be opened; `uri` has every byte.
    path: Cow<'c, str>,
    #[serde(flatten)]
    bundle: BundleFields<'c>,
    /// The offset of the bundle from the start of the file, or from the start of the innermost inflated data, such as a
    /// deflated member of a zip file.
    bundle_offset: u64,
    /// The size of the bundle, as it is stored: compressed, if it is. For code objects in a kpack archive, the size of
    /// the archive.
    bundle_size: u64,
    /// The offset of the code object from the start of the file, which is `origin` if that is not null. Null if its
    /// bytes are not in the file as they are: in a compressed bundle, in a deflated member, in bitcode, in several
    /// pieces, or if the code object is compressed in a fatbin or kpack archive.
    offset: Option<u64>,
    /// The inflated size of the code object.
    size: u64,
    /// The size of the code object, as it is stored in its bundle. Code objects of a fatbin that are compressed
    /// together each have a share by their size. Null if the bundle is compressed as a whole.
    stored_size: Option<u64>,
    /// Whether it is a container itself whose code objects are listed too, such as an archive of device binaries. Sums
    /// of sizes leave it out.
    has_parts: bool,
    /// The compression of the bundle or, in a fatbin or kpack archive, of the code object. Null if it is not
    /// compressed.
    compressed: Option<Compressed>,
    /// The offset of the code object from the start of the inflated bundle or, in a fatbin, of the data that is
    /// compressed together. Null if it is not compressed, or in several pieces.
    inflated_offset: Option<u64>,
    /// The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters,
    /// and all bytes of an ID that is not UTF-8, are escaped as in C.
    entry_id: String,
    /// The offload kind in the entry ID. Null if the ID is not valid, and for a code object without a bundle.
    #[cfg_attr(test, schemars(schema_with = "schemas::kinds"))]
    kind: Option<&'static str>,
    /// The target triple in the entry ID, without dashes at its end. Null if the ID is not valid.
    triple: Option<String>,
    /// The target ID in the entry ID: processor and features, such as `gfx90a:xnack+`; if it has none, the processor
    /// that its triple names, such as `gfx942` for `amdgpu9.42-amd-amdhsa`. Null if neither is there.
    target_id: Option<String>,
    /// The target ID that the code object records, as ELF files for GPUs do. Null if it records none, or if too little
    /// of a compressed bundle was inflated (`--inflate` inflates all of it).
    recorded_target_id: Option<&'c str>,
    /// The version of PTX, such as `8.7`. Null for other code, and if too little of a compressed bundle was inflated.
    ptx_version: Option<String>,
    /// The kind of the content, by its first bytes. Null if too little of a compressed bundle was inflated (`--inflate`
    /// inflates all of it).
    #[cfg_attr(test, schemars(schema_with = "schemas::content_kinds"))]
    image_kind: Option<&'static str>,
    /// The name of the source file, if a fatbin records it, otherwise null. A name of more than 200 characters is cut
    /// and ends in `...`.
    source: Option<&'c str>,
    /// `file://<absolute path>#offset=<n>&size=<n>`, as ROCm's debuggers and profilers name code objects. In a
    /// compressed bundle, offset and size are those of the bundle, and `&inflated-offset=<n>&inflated-size=<n>` follow.
    /// If data on the way had to be inflated, a field `member=<name>&` for each step to it (a member, a section or a
    /// bundle entry; `member=<name>;<n>` for the n-th of that name) is before `offset`, which counts from the start of
    /// the inflated data. For a code object that is compressed on its own, as in a fatbin, its entry is the last step.
    /// Null if the code object is in several pieces, if its compression is not known, or if its end is found only by
    /// inflating (`inspect --inflate`).
    uri: UriOf<'c>,
}

impl<'c> CodeObjectFields<'c> {
    /// Returns the fields that a JSON report has for a code object.
    fn of(code_object: &'c CodeObject) -> Self {
        let (bundle, packed) = (&code_object.bundle, code_object.packed.as_ref());
        // In other places, such as inflated members, offsets do not count from the start of a file.
        let in_file = matches!(bundle.place.origin(), PlaceOrigin::File(_));
        let is_compressed = bundle.compressed.is_some();
        let start = code_object.range.as_ref().map(|range| range.start);
        let (mut kind, mut triple, mut target_id) = (None, None, None);
        if let Some(id) = code_object.entry_id() {
            // A code object without a bundle records no kind: the kind of its ID is an assumption of the search.
            if bundle.format != Format::CodeObject {
                kind = Some(id.kind().name());
            }
            triple = Some(printable(id.triple().as_str().trim_end_matches('-')));
            let target = id.target().to_string();
            if !target.is_empty() {
                target_id = Some(printable(&target));
            }
        }
        Self {
            path: shown(bundle.place.file()),
            bundle: BundleFields::of(code_object),
            bundle_offset: bundle.range.start,
            bundle_size: bundle.stored(),
            offset: if in_file && !is_compressed { start } else { None },
            size: code_object.size,
            stored_size: if is_compressed { None } else { Some(code_object.stored()) },
            has_parts: code_object.has_parts,
            compressed: Compressed::of(code_object),
            inflated_offset: match packed {
                Some(packed) => Some(packed.range.start),
                None if is_compressed => start,
                None => None,
            },
            entry_id: code_object.shown_id(),
            kind,
            triple,
            target_id,
            recorded_target_id: code_object.recorded_target.as_deref(),
            ptx_version: code_object.ptx_version.map(|(major, minor)| format!("{major}.{minor}")),
            image_kind: code_object.kind.map(ContentKind::name),
            source: code_object.source.as_deref(),
            uri: UriOf(code_object),
        }
    }
}

/// The bundle of a code object.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct BundleFields<'c> {
    /// The file with the bytes, if that is another one: a member of a thin archive, or a kpack archive to which a
    /// library refers. Otherwise null.
    origin: Option<Cow<'c, str>>,
    #[serde(flatten)]
    inside: InnerPlace,
    /// The format that contains the code object. `bundle` is a binary bundle, plain or compressed; `code object` is a
    /// GPU ELF file without a bundle.
    #[cfg_attr(test, schemars(schema_with = "schemas::formats"))]
    container: &'static str,
    /// The number of the bundle among those at the same place (path, origin, member, section), counted from 0.
    bundle: usize,
}

impl<'c> BundleFields<'c> {
    /// Returns the fields about the bundle of a code object.
    fn of(code_object: &'c CodeObject) -> Self {
        let bundle = &code_object.bundle;
        Self {
            origin: bundle.place.other_file().map(shown),
            inside: InnerPlace::of(&bundle.place),
            container: bundle.format.name(),
            bundle: bundle.index,
        }
    }
}

/// The location of a code object in its file.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Location<'c> {
    #[serde(flatten)]
    bundle: BundleFields<'c>,
    /// The bundle entry ID as recorded; for a code object without a bundle, triple and target ID. Control characters,
    /// and all bytes of an ID that is not UTF-8, are escaped as in C.
    entry_id: String,
}

impl<'c> Location<'c> {
    pub(crate) fn of(code_object: &'c CodeObject) -> Self {
        Self { bundle: BundleFields::of(code_object), entry_id: code_object.shown_id() }
    }
}

/// The URI of a code object. Serializing it fails if the current directory is not known, which a relative path needs.
pub(crate) struct UriOf<'c>(pub(crate) &'c CodeObject);

impl Serialize for UriOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let uri = self.0.uri().map_err(S::Error::custom)?;
        uri.map(|uri| uri.to_string()).serialize(serializer)
    }
}

#[cfg(test)]
impl JsonSchema for UriOf<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Uri".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schemas::uri(generator)
    }
}

/// The compression of a bundle or of a code object.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Compressed {
    /// The method.
    #[cfg_attr(test, schemars(schema_with = "schemas::methods"))]
    method: &'static str,
    /// The version of the header: 1, 2 or 3 of a compressed bundle, 3 of an offload binary, 1 of a fatbin.
    #[cfg_attr(test, schemars(range(min = 1)))]
    format_version: u32,
    /// The inflated size that the header records: of the bundle or, in a fatbin, of the data that is compressed
    /// together.
    inflated_size: u64,
}

impl Compressed {
    /// Returns the compression of the bundle or, if the bundle is not compressed, of the code object itself. Returns
    /// `None` if neither is compressed.
    fn of(code_object: &CodeObject) -> Option<Self> {
        let (method, format_version, inflated_size) = match (code_object.bundle.compressed, &code_object.packed) {
            (Some(recorded), _) => (recorded.method.name(), recorded.version, recorded.inflated),
            // Code objects of their own are compressed in fatbins and kpack archives. Both formats have only version 1.
            (None, Some(packed)) => (packed.codec.name(), fatbin::VERSION, packed.inflated),
            (None, None) => return None,
        };
        Some(Self { method, format_version, inflated_size })
    }
}

/// The place inside a file.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "Inside"))]
struct InnerPlace {
    /// The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a
    /// kpack archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    member: Option<String>,
    /// The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections.
    section: Option<String>,
}

impl InnerPlace {
    fn of(place: &Place) -> Self {
        Self { member: place.member(), section: place.section() }
    }
}
