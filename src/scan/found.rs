//! The findings of a search: bundles, their places, and the code objects in them.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Unread;
use super::gpu_elf;
use super::image::ContentKind;
use super::kpack::Split;
use super::place::{Origin, Place, Step};
use super::uri::Uri;
use crate::bytes;
use crate::container::fatbin::{self, ImageKind};
use crate::container::kpack::{self, Archive};
use crate::container::magic::Magic;
use crate::container::sequence::Bundle;
use crate::container::stream::Recorded;
use crate::container::{Codec, Entry, Packed, Part};
use crate::display::{printable, short_name, shown};
use crate::error::{Error, Malformed, Result};
use crate::id::{EntryId, OffloadKind};
use crate::io::input::Slice;

/// The longest bundle entry ID that a search parses and shows in full, in bytes, and the maximum number of features of
/// an ID. Compilers write some dozens of bytes and two features.
pub(super) const ID_MAX: usize = 4096;
const FEATURES_MAX: usize = 32;

/// The container of code objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// A bundle, plain or compressed.
    Bundle,
    /// A text bundle: code objects between comment lines.
    TextBundle,
    /// A host object with a section for each code object.
    FatObject,
    /// An offload binary.
    OffloadBinary,
    /// A CUDA fatbin.
    Fatbin,
    /// A kpack archive: a bundle has the code objects that one wrapper of a library loads.
    Kpack,
    /// A section with device images that Intel's DPC++ linked.
    DeviceImages,
    /// No container: the file itself is a code object.
    CodeObject,
}

impl Format {
    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::TextBundle => "text bundle",
            Self::FatObject => "fat object",
            Self::OffloadBinary => "offload binary",
            Self::Fatbin => "fatbin",
            Self::Kpack => "kpack archive",
            Self::DeviceImages => "device images",
            Self::CodeObject => "code object",
        }
    }

    /// Whether a bundle of this format need not serve every GPU of a program: others beside it may serve the rest.
    pub(crate) fn is_for_some_gpus(self) -> bool {
        matches!(self, Self::CodeObject | Self::DeviceImages | Self::Kpack)
    }
}

/// A finding.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding<'f> {
    /// A bundle.
    Bundle(Found<'f>),
    /// A place that begins like device code, or like a container of it, but cannot be read.
    Broken {
        /// The place.
        place: &'f Place,
        /// The reason, with the file name.
        error: Error,
    },
    /// Trailing bytes after the bundles of a place that are not a bundle, or after a package.
    Trailing {
        /// The place.
        place: &'f Place,
        /// The offset of the first trailing byte; none after a package that had to be inflated itself.
        offset: Option<u64>,
        /// The format of the package.
        after: Option<&'static str>,
    },
    /// A format that holds or may hold device code, and is recognised but not read.
    Unread {
        /// The place.
        place: &'f Place,
        /// The offset of its start, counted from the [origin](Place::origin) of the place.
        offset: u64,
        /// The format.
        what: Unread,
    },
    /// A kpack archive, after the code objects in it.
    Kpack {
        /// The place.
        place: &'f Place,
        /// The table of contents.
        archive: &'f Archive,
    },
    /// A library whose device code is in kpack archives, after the code objects in those that were followed.
    Split {
        /// The place of the reference.
        place: &'f Place,
        /// The reference.
        split: Split<'f>,
    },
    /// A part of a file that may hold device code but cannot be searched, because its names or tables are broken. The
    /// search continues with the rest of the file.
    Hidden {
        /// The place.
        place: &'f Place,
        /// The fault, with the file name.
        error: Error,
    },
}

impl<'f> Finding<'f> {
    /// The place of the finding.
    pub(super) fn place(&self) -> &'f Place {
        match *self {
            Self::Bundle(Found { place, .. })
            | Self::Broken { place, .. }
            | Self::Trailing { place, .. }
            | Self::Unread { place, .. }
            | Self::Kpack { place, .. }
            | Self::Split { place, .. }
            | Self::Hidden { place, .. } => place,
        }
    }
}

/// A bundle at a place.
#[derive(Clone, Copy, Debug)]
pub struct Found<'f> {
    /// The place of the bundle.
    pub place: &'f Place,
    /// The format of the bundle.
    pub format: Format,
    /// The index of the bundle among those at the same place, counted from 0.
    pub index: usize,
    /// The bundle itself.
    pub bundle: &'f Bundle<'f>,
    /// Of each entry, its number among those at the place with its ID, counted from 1; empty if they are not numbered.
    pub(crate) numbers: &'f [u64],
    /// The end of the section, member or file that holds only such bundles and padding; 0 if it is not known.
    pub(crate) space_end: u64,
}

impl<'f> Found<'f> {
    /// The code objects in file order.
    pub fn code_objects(&self) -> impl Iterator<Item = CodeObject<'f>> + use<'f> {
        let Self { place, format, bundle, numbers, .. } = *self;
        (0..bundle.entries.len()).filter_map(move |index| {
            let (entry, number) = (bundle.entries.get(index)?, numbers.get(index).copied().unwrap_or_default());
            Some(CodeObject { place, format, bundle, entry, index, number })
        })
    }
}

/// The origin of a code object, kept after the search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// The place of its bundle.
    pub place: Arc<Place>,
    /// The container of the code object.
    pub format: Format,
    /// The index of the bundle at the place, counted from 0.
    pub bundle: usize,
    /// The range of the bundle, counted from the [origin](Place::origin) of the place.
    pub bundle_range: Range<u64>,
    /// The header of the compressed bundle, if it is compressed.
    pub compressed: Option<Recorded>,
    /// The bundle entry ID as recorded, as [`CodeObject::id`]. An ID that is too long to be parsed is cut.
    pub id: Vec<u8>,
    /// The range of the code object, as [`CodeObject::range`].
    pub range: Option<Range<u64>>,
    /// The compressed form, as [`CodeObject::packed`].
    pub packed: Option<Packed>,
    /// The name of the source file, as [`CodeObject::shown_source`].
    pub source: Option<String>,
    number: u64,
}

impl Provenance {
    pub(crate) fn new(place: &Arc<Place>, bundle: usize, code_object: &CodeObject<'_>) -> Result<Self> {
        Ok(Self {
            place: Arc::clone(place),
            format: code_object.format,
            bundle,
            bundle_range: code_object.bundle_range()?,
            compressed: code_object.bundle.compressed,
            id: code_object.id().get(..=ID_MAX).unwrap_or(code_object.id()).to_vec(),
            range: code_object.range(),
            packed: code_object.packed().cloned(),
            source: code_object.shown_source(),
            number: code_object.number,
        })
    }

    /// The bundle entry ID, as [`CodeObject::entry_id`].
    pub fn entry_id(&self) -> Option<EntryId> {
        parse_id(&self.id, self.format).ok()
    }

    /// The ID, safe to print on a terminal, as [`CodeObject::shown_id`].
    pub fn shown_id(&self) -> String {
        short_name(&self.id, ID_MAX)
    }

    /// The target of the code object in one word, safe to print on a terminal: the target ID, or else the triple or the
    /// whole ID.
    pub fn target(&self) -> String {
        let Some(id) = self.entry_id() else { return self.shown_id() };
        let target_id = id.target_id().to_string();
        printable(if target_id.is_empty() { id.triple().as_str().trim_end_matches('-') } else { &target_id })
    }

    /// The URI of the code object, as [`CodeObject::uri`].
    ///
    /// # Errors
    /// Those of [`Place::uri`].
    pub fn uri(&self) -> Result<Option<Uri>> {
        match &self.packed {
            Some(packed) => packed_uri(&self.place, packed, &self.id, self.number),
            None => uri(&self.place, self.compressed.map(|_| self.bundle_range.clone()), self.range.clone()),
        }
    }
}

/// The entry ID of a code object, parsed once for all uses.
#[derive(Debug)]
pub(crate) struct KnownId {
    /// The ID, safe to print on a terminal, as [`CodeObject::shown_id`].
    pub(crate) shown: String,
    /// None if the recorded ID is not valid.
    pub(crate) parsed: Option<EntryId>,
}

impl KnownId {
    /// The ID recorded in a container of this format.
    pub(crate) fn of(recorded: &[u8], format: Format) -> Self {
        Self { shown: short_name(recorded, ID_MAX), parsed: parse_id(recorded, format).ok() }
    }

    /// The name by which a selection of target IDs would select it: the target ID, or else the whole ID; none for host code.
    pub(crate) fn target(&self) -> Option<String> {
        let target = self.parsed.as_ref().map(|id| id.target_id().to_string()).filter(|target| !target.is_empty());
        (!self.is_host()).then(|| target.unwrap_or_else(|| self.shown.clone()))
    }

    /// Returns whether it is the ID of host code.
    pub(crate) fn is_host(&self) -> bool {
        self.parsed.as_ref().is_some_and(|id| id.kind() == OffloadKind::Host)
    }
}

/// Parses the ID recorded in a container of this format, or returns why it is not valid. Overlong IDs are not parsed,
/// because a bundle may consist of them.
fn parse_id(id: &[u8], format: Format) -> Result<EntryId, String> {
    if id.len() > ID_MAX {
        return Err(format!("it is longer than {ID_MAX} bytes"));
    }
    if memchr::memchr_iter(b':', id).count() > FEATURES_MAX {
        return Err(format!("it has more than {FEATURES_MAX} target features"));
    }
    let text = bytes::text(id).ok_or("it is not valid UTF-8")?;
    let parsed = match format {
        // The kind is not recorded; only the fields after it are used.
        Format::CodeObject if text.starts_with(gpu_elf::INTEL) => EntryId::parse_any(&["sycl-", &text].concat()),
        Format::CodeObject => EntryId::parse_any(&["hip-", &text].concat()),
        _ => EntryId::parse_any(&text),
    };
    parsed.map_err(|error| error.to_string())
}

/// The URI of a range at a place, or in the compressed bundle at that place.
fn uri(place: &Place, compressed: Option<Range<u64>>, range: Option<Range<u64>>) -> Result<Option<Uri>> {
    let Some(range) = range.filter(|_| !place.file().as_os_str().is_empty()) else { return Ok(None) };
    match compressed {
        Some(bundle) => place.uri(bundle, Some(range)),
        None => place.uri(range, None),
    }
}

/// The URI of a code object that is compressed on its own, or with others, at a place: its entry is a step to it.
fn packed_uri(place: &Place, packed: &Packed, id: &[u8], number: u64) -> Result<Option<Uri>> {
    if place.file().as_os_str().is_empty() || !packed.is_exact() || packed.codec == Codec::Unknown {
        return Ok(None);
    }
    place.join_numbered(Step::Entry(step_name(id).to_vec()), number).inflated().uri(packed.range.clone(), None)
}

/// An ID, which may be long, as the name of a step.
pub(super) fn step_name(id: &[u8]) -> &[u8] {
    id.get(..ID_MAX).unwrap_or(id)
}

/// A code object in a bundle.
#[derive(Clone, Copy, Debug)]
pub struct CodeObject<'f> {
    place: &'f Place,
    format: Format,
    bundle: &'f Bundle<'f>,
    entry: &'f Entry,
    index: usize,
    /// Its number among the entries at its place with its ID; 0 if it is not known.
    number: u64,
}

impl<'f> CodeObject<'f> {
    /// The bundle entry ID as recorded, which may be any bytes. For a code object without a bundle, which has no ID, it
    /// is the target triple and target ID.
    pub fn id(&self) -> &'f [u8] {
        &self.entry.id
    }

    /// The bundle entry ID, if the recorded ID is valid.
    pub fn entry_id(&self) -> Option<EntryId> {
        self.parse_id().ok()
    }

    /// The bundle entry ID, for callers that use it more than once.
    pub(crate) fn known_id(&self) -> KnownId {
        KnownId::of(&self.entry.id, self.format)
    }

    /// The bundle entry ID, or why the recorded ID is not valid.
    pub(crate) fn parse_id(&self) -> Result<EntryId, String> {
        parse_id(&self.entry.id, self.format)
    }

    /// The container.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Whether its bundle is compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.bundle.compressed.is_some()
    }

    /// All code objects of its bundle.
    pub(crate) fn entries(&self) -> &'f [Entry] {
        &self.bundle.entries
    }

    /// The index in the bundle.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The decompressed size in bytes.
    pub fn size(&self) -> u64 {
        self.entry.size()
    }

    /// The name of the source file, safe to print on a terminal, if the container records it. A name of more than 200
    /// characters is cut and ends in `...`.
    pub fn shown_source(&self) -> Option<String> {
        self.cuda().map(|image| image.source.as_slice()).filter(|source| !source.is_empty()).map(shown)
    }

    /// The compressed form, if the code object is compressed in its bundle.
    pub fn packed(&self) -> Option<&'f Packed> {
        match self.entry.parts.as_slice() {
            [Part::Packed(packed)] => Some(packed),
            _ => None,
        }
    }

    /// The range of its bytes, counted from the [origin](Place::origin) of its place or, in a compressed bundle, from
    /// the start of the inflated bundle. None if the bytes are not contiguous. If the code object is [in the
    /// file](Self::is_in_file) and not compressed, its range can be taken from the searched bytes after the search.
    pub fn range(&self) -> Option<Range<u64>> {
        let [Part::Range(range)] = self.entry.parts.as_slice() else { return None };
        let base = if self.bundle.compressed.is_some() { 0 } else { self.bundle.offset };
        Some(base.checked_add(range.start)?..base.checked_add(range.end)?)
    }

    /// The range of its bundle, counted from the [origin](Place::origin) of its place.
    ///
    /// # Errors
    /// Those of [`Bundle::stored_len`].
    pub fn bundle_range(&self) -> Result<Range<u64>> {
        self.bundle.range()
    }

    /// Returns whether its bytes are bytes of the searched file.
    pub fn is_in_file(&self) -> bool {
        matches!(self.place.origin(), Origin::File(_))
    }

    /// The reason why it cannot be extracted, if it cannot: the host of a fat object may not be restorable.
    pub(crate) fn unreadable(&self) -> Option<&'f Malformed> {
        self.entry.parts.iter().find_map(|part| match part {
            Part::Unreadable(malformed) => Some(malformed),
            _ => None,
        })
    }

    /// The kind of its content; none if finding it out needs more inflating than the search was asked to do.
    pub fn kind(&self) -> Option<ContentKind> {
        if self.size() == 0 {
            return Some(ContentKind::Empty);
        }
        let head = || self.head().map(|head| ContentKind::of(&head));
        self.recorded_kind().filter(|_| self.cuda().is_some() || self.packed().is_some()).or_else(head)
    }

    /// Its first bytes, up to [`ContentKind::HEAD_LEN`]; none if finding them out needs more inflating than the search was
    /// asked to do. Of a compressed device image, they are inflated.
    pub(super) fn head(&self) -> Option<Cow<'f, [u8]>> {
        match self.packed().filter(|_| self.format == Format::DeviceImages) {
            Some(packed) => packed.head(self.bundle.whole()?, ContentKind::HEAD_LEN).map(Cow::Owned),
            None => self.bundle.head(self.index, ContentKind::HEAD_LEN).map(Cow::Borrowed),
        }
    }

    /// The kind of content that its container records: a fatbin for each code object; in a kpack archive, all are ELF
    /// files or, for the target ID of SPIR-V, SPIR-V.
    pub(crate) fn recorded_kind(&self) -> Option<ContentKind> {
        match self.cuda().map(|image| image.kind) {
            Some(ImageKind::Ptx) => Some(ContentKind::Ptx),
            Some(ImageKind::Cubin) => Some(ContentKind::Cubin),
            Some(ImageKind::LtoIr) => Some(ContentKind::LtoIr),
            Some(ImageKind::Other(_)) => self.packed().map(|_| ContentKind::Unknown),
            None if self.format != Format::Kpack => None,
            None if kpack::target_of(self.entry) == kpack::SPIR_V => Some(ContentKind::SpirV),
            None => Some(ContentKind::Elf),
        }
    }

    /// Additional data, if its container is a CUDA fatbin.
    pub fn cuda(&self) -> Option<&'f fatbin::Image> {
        self.entry.cuda.as_deref()
    }

    /// The target ID that the code object itself records, as every ELF for an AMD GPU does.
    pub fn recorded_target(&self) -> Option<String> {
        let head = self.bundle.head(self.index, ContentKind::HEAD_LEN)?;
        match self.in_place().filter(|_| Magic::identify(head) == Magic::IntelGpu) {
            Some(whole) => gpu_elf::target_id(whole.bytes()),
            None => gpu_elf::target_id(head),
        }
    }

    /// The bytes: borrowed from the file if they are contiguous in it, otherwise restored, or inflated and checked.
    ///
    /// # Errors
    /// Those of [`write_to`](Self::write_to).
    pub fn bytes(&self) -> Result<Cow<'f, [u8]>> {
        self.bundle.bytes(self.index)
    }

    /// Writes the bytes to `out`, without holding all of them in memory. The output is valid only if this succeeds.
    ///
    /// # Errors
    /// Those of [`Bundle::write_to`].
    pub fn write_to(&self, out: &mut dyn io::Write) -> Result<()> {
        self.bundle.write_to(self.index, out)
    }

    /// The code object as it is stored: its bytes, or its compressed form if it is compressed on its own. None if its bundle is
    /// compressed, or it has to be restored.
    pub(crate) fn stored_bytes(&self) -> Option<Slice<'f>> {
        let packed = || self.bundle.whole().filter(|_| self.bundle.compressed.is_none())?.range(&self.packed()?.stored);
        self.in_place().or_else(packed)
    }

    /// The code object as a slice of the file; none if it is compressed or has to be restored.
    pub fn in_place(&self) -> Option<Slice<'f>> {
        self.bundle.in_place(self.index)
    }

    /// The code object as a slice of the searched bytes, which the caller passes again. Unlike other borrowed bytes,
    /// the slice outlives the visit. None if the code object is compressed, has to be restored, or lies in a separate
    /// file of a thin archive.
    pub fn slice_of<'a>(&self, searched: &'a [u8]) -> Option<&'a [u8]> {
        let is_inside = matches!(self.place.origin(), Origin::File(file) if file == self.place.file());
        let range = self.range().filter(|_| is_inside && self.bundle.compressed.is_none())?;
        bytes::slice(searched, range.start, range.end.checked_sub(range.start)?)
    }

    /// The URI, as [`Place::uri`]; none if the bytes are not contiguous, if the searched bytes are not from a file, or if the
    /// code object is compressed with others and was not inflated.
    ///
    /// # Errors
    /// Those of [`Place::uri`].
    pub fn uri(&self) -> Result<Option<Uri>> {
        match self.packed() {
            Some(packed) => packed_uri(self.place, packed, self.id(), self.number),
            None => uri(self.place, self.bundle.compressed.map(|_| self.bundle_range()).transpose()?, self.range()),
        }
    }

    /// The ID, safe to print on a terminal. An ID of more than 4096 bytes is cut and ends in `...`.
    pub fn shown_id(&self) -> String {
        short_name(&self.entry.id, ID_MAX)
    }
}
