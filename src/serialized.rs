//! The reports of jobs as the executable prints them in JSON, for `serde` (feature `serde`). The schemas in `docs` describe
//! the fields. Names and texts are safe to show on a terminal; paths are as they are, with U+FFFD for what is not UTF-8. Offsets and
//! sizes are in bytes.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};

use crate::code::ContentKind;
use crate::code::kernels::Argument;
use crate::container::fatbin;
use crate::display::{printable, short_name};
use crate::job::{CodeObjectDiff, Fault, Inspected, KpackReference, NotRead, Verified};
use crate::runtime::{Device, Served};
use crate::scan::{CodeObject, Format, Origin, Place};

/// The longest name of an argument that is shown in full.
const NAME_MAX: usize = 16 << 10;

impl Serialize for Argument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |text: &Option<Arc<[u8]>>| text.as_ref().map(|text| short_name(text, NAME_MAX));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("offset", &self.offset)?;
        map.serialize_entry("size", &self.size)?;
        map.serialize_entry("kind", &text(&self.kind))?;
        map.serialize_entry("name", &text(&self.name))?;
        map.end()
    }
}

/// The arguments of a kernel.
pub(crate) fn arguments<S: Serializer>(list: &Option<Arc<[Argument]>>, serializer: S) -> Result<S::Ok, S::Error> {
    list.as_deref().serialize(serializer)
}

fn shown(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

impl Serialize for CodeObject {
    /// Fails if the current directory is not known, which the URI of a file with a relative path needs.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (bundle, packed) = (&self.bundle, self.packed.as_ref());
        let in_file = matches!(bundle.place.origin(), Origin::File(_));
        let is_compressed = bundle.compressed.is_some();
        let start = self.range.as_ref().map(|range| range.start);
        let inflated_start = packed.map(|packed| packed.range.start).or(start.filter(|_| is_compressed));
        let id = self.entry_id();
        let target_id = id.as_ref().map(|id| id.target_id().to_string()).filter(|target_id| !target_id.is_empty());
        // A code object without a bundle has no kind.
        let kind = id.as_ref().filter(|_| bundle.format != Format::CodeObject).map(|id| id.kind().name());
        let triple = id.as_ref().map(|id| printable(id.triple().as_str().trim_end_matches('-')));
        let uri = self.uri().map_err(S::Error::custom)?;

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &shown(bundle.place.file()))?;
        bundle_entries(&mut map, self)?;
        map.serialize_entry("bundle_offset", &bundle.range.start)?;
        map.serialize_entry("bundle_size", &bundle.stored())?;
        map.serialize_entry("offset", &start.filter(|_| in_file && !is_compressed))?;
        map.serialize_entry("size", &self.size)?;
        map.serialize_entry("stored_size", &(!is_compressed).then(|| self.stored()))?;
        map.serialize_entry("compressed", &Compressed::of(self))?;
        map.serialize_entry("inflated_offset", &inflated_start)?;
        map.serialize_entry("entry_id", &self.shown_id())?;
        map.serialize_entry("kind", &kind)?;
        map.serialize_entry("triple", &triple)?;
        map.serialize_entry("target_id", &target_id.as_deref().map(printable))?;
        map.serialize_entry("recorded_target_id", &self.recorded_target.as_deref())?;
        map.serialize_entry("image_kind", &self.kind.map(ContentKind::name))?;
        map.serialize_entry("source", &self.source.as_deref())?;
        map.serialize_entry("uri", &uri.map(|uri| uri.to_string()))?;
        map.end()
    }
}

impl CodeObject {
    /// Serializes only the fields that say which code object of its file it is, for reports about its kernels.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize_location<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        location_entries(&mut map, self)?;
        map.end()
    }
}

fn place_entries<M: SerializeMap>(map: &mut M, place: &Place) -> Result<(), M::Error> {
    map.serialize_entry("member", &place.member())?;
    map.serialize_entry("section", &place.section())
}

fn bundle_entries<M: SerializeMap>(map: &mut M, code_object: &CodeObject) -> Result<(), M::Error> {
    let bundle = &code_object.bundle;
    map.serialize_entry("origin", &bundle.place.other_file().map(shown))?;
    place_entries(map, &bundle.place)?;
    map.serialize_entry("container", bundle.format.name())?;
    map.serialize_entry("bundle", &bundle.index)
}

fn location_entries<M: SerializeMap>(map: &mut M, code_object: &CodeObject) -> Result<(), M::Error> {
    bundle_entries(map, code_object)?;
    map.serialize_entry("entry_id", &code_object.shown_id())
}

/// How a code object, or its bundle, is compressed.
#[derive(Serialize)]
struct Compressed {
    method: &'static str,
    format_version: u32,
    inflated_size: u64,
}

impl Compressed {
    fn of(code_object: &CodeObject) -> Option<Self> {
        let (method, format_version, inflated_size) = match (code_object.bundle.compressed, &code_object.packed) {
            (Some(recorded), _) => (recorded.method.name(), recorded.version, recorded.inflated),
            (None, Some(packed)) => (packed.codec.name(), fatbin::VERSION, packed.inflated),
            (None, None) => return None,
        };
        Some(Self { method, format_version, inflated_size })
    }
}

impl Serialize for NotRead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        place_entries(&mut map, &self.place)?;
        map.serialize_entry("offset", &self.offset)?;
        map.serialize_entry("what", self.what.name())?;
        map.serialize_entry("is_device_code", &self.what.is_device_code())?;
        map.end()
    }
}

impl Serialize for KpackReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let archives = self.archives.as_ref().map(|paths| paths.iter().map(|path| shown(path)).collect::<Vec<_>>());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("member", &self.place.member())?;
        map.serialize_entry("kernel_name", &self.kernel_name)?;
        map.serialize_entry("search_paths", &self.search_paths)?;
        map.serialize_entry("archives", &archives)?;
        map.end()
    }
}

impl Serialize for Inspected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// In how many bundles a GPU is served.
        #[derive(Serialize)]
        struct ServedGpu {
            gpu: String,
            #[serde(flatten)]
            served: Served,
        }
        let coverage = self.coverage();
        let gpu = |(gpu, served): (Device, Served)| ServedGpu { gpu: gpu.name().to_owned(), served };
        let served = coverage.gpus().map(|gpus| gpus.into_iter().map(gpu).collect::<Vec<_>>());
        let code_objects: Vec<&CodeObject> = self.bundles.iter().flat_map(|bundle| &bundle.code_objects).collect();

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &shown(&self.path))?;
        map.serialize_entry("size", &self.size)?;
        map.serialize_entry("code_objects", &code_objects)?;
        map.serialize_entry("unread", &self.unread)?;
        map.serialize_entry("bundles", &coverage.bundles())?;
        map.serialize_entry("coverage", &served)?;
        map.serialize_entry("kpack_references", &self.references)?;
        map.end()
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rule", self.rule.name())?;
        place_entries(&mut map, &self.place)?;
        map.serialize_entry("bundle", &self.bundle)?;
        map.serialize_entry("offset", &self.offset)?;
        map.serialize_entry("text", &self.text)?;
        map.serialize_entry("gpu", &self.gpu)?;
        map.serialize_entry("source", &self.source)?;
        map.end()
    }
}

impl Serialize for Verified {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &shown(&self.path))?;
        map.serialize_entry("bundles", &self.bundles)?;
        map.serialize_entry("code_objects", &self.code_objects)?;
        map.serialize_entry("without_bundle", &self.without_bundle)?;
        map.serialize_entry("without_code", &self.without_code)?;
        map.serialize_entry("faults", &self.faults)?;
        map.serialize_entry("more_faults", &self.more_faults)?;
        map.serialize_entry("unread", &self.unread)?;
        map.serialize_entry("more_unread", &self.more_unread.values().sum::<usize>())?;
        map.serialize_entry("kpack_references", &self.kpack_references)?;
        map.end()
    }
}

impl Serialize for CodeObjectDiff {
    /// Fails as the serialization of a code object.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("change", self.change().name())?;
        map.serialize_entry("target_id", &*self.gpu)?;
        map.serialize_entry("old", &self.old.as_deref().map(Version))?;
        map.serialize_entry("new", &self.new.as_deref().map(Version))?;
        map.end()
    }
}

/// A code object that has another in its place in the other file.
struct Version<'c>(&'c CodeObject);

impl Serialize for Version<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let uri = self.0.uri().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        location_entries(&mut map, self.0)?;
        map.serialize_entry("size", &self.0.size)?;
        map.serialize_entry("stored_size", &self.0.stored())?;
        map.serialize_entry("uri", &uri.map(|uri| uri.to_string()))?;
        map.end()
    }
}
