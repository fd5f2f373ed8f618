//! Code objects: the facts that a search keeps about a code object, and the view of it during the search.

use std::borrow::Cow;
use std::io;
use std::iter::Sum;
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use super::Format;
use super::Unread;
use super::found::FoundBundle;
use super::place::{Place, PlaceOrigin, Step};
use crate::base::bytes::{self, add, len_of, total};
use crate::base::display::{short_name, shown};
use crate::base::error::{Malformed, Result};
use crate::base::id::{EntryId, OffloadKind};
use crate::base::io::input::Slice;
use crate::beyond::code::gpu_header::{self, GpuHeader};
use crate::beyond::code::undefined::{UndefinedSymbols, undefined_symbols};
use crate::beyond::code::{CodeMagic, intel_gpu, ptx, target};
use crate::beyond::codec::{self, Codec};
use crate::beyond::container::fatbin::{self, CudaKind};
use crate::beyond::container::{ContentKind, Magic, Packed, Rule, SearchEntry, kpack};
use crate::llvm::container::offload_binary::ImageInfo;
use crate::llvm::container::stream::Recorded;
use crate::llvm::uri::Uri;

/// The longest bundle entry ID that a search parses and shows in full, in bytes, and the maximum number of features of
/// an ID. Compilers write some dozens of bytes and two features.
pub(super) const ID_MAX: usize = 4096;
const FEATURES_MAX: usize = 32;

/// The facts about a bundle that are kept after the search. All kept code objects of the bundle share them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleInfo {
    /// The place of the bundle.
    pub place: Place,
    /// The format of the bundle.
    pub format: Format,
    /// The index among the bundles at the place, counted from 0.
    pub index: usize,
    /// The range of the bundle, counted from the [origin](Place::origin) of the place.
    pub range: Range<u64>,
    /// The header around the bundle, if the bundle is compressed.
    pub compressed: Option<Recorded>,
    /// The inflated size of all code objects of the bundle in bytes.
    pub size: u64,
}

impl BundleInfo {
    /// Copies the facts from a bundle that is being visited.
    pub(super) fn new(found: &FoundBundle<'_>) -> Result<Self> {
        let FoundBundle { place, format, index, bundle, .. } = *found;
        let (range, compressed) = (bundle.range()?, bundle.compressed);
        let size = total(bundle.entries.iter().map(SearchEntry::size));
        Ok(Self { place: place.clone(), format, index, range, compressed, size })
    }

    /// The stored size of the bundle in bytes, with its header.
    pub fn stored(&self) -> u64 {
        len_of(&self.range)
    }
}

/// The number of some code objects, and their sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Sizes {
    /// The number of code objects.
    pub code_objects: usize,
    /// The inflated size.
    pub size: u64,
    /// The stored size. A code object in a compressed bundle has a share of that by its inflated size.
    #[cfg_attr(feature = "serde", serde(rename = "stored_size"))]
    pub stored: u64,
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, more: Self) {
        self.code_objects = self.code_objects.saturating_add(more.code_objects);
        add(&mut self.size, more.size);
        add(&mut self.stored, more.stored);
    }
}

impl Sum for Sizes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        let mut sum = Self::default();
        sizes.for_each(|more| sum.add_assign(more));
        sum
    }
}

/// The address of a code object in a file. No two code objects of a search have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Locator<'c> {
    /// The place of its bundle.
    pub(super) place: &'c Place,
    /// The index of the bundle among those at the place.
    pub(super) bundle: usize,
    /// The index of the code object in the bundle.
    pub(super) entry: usize,
}

/// The facts about a code object, kept after the search. [`Scan::read`](super::Scan::read) reads its content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeObject {
    /// The bundle that holds the code object.
    pub bundle: Arc<BundleInfo>,
    /// The index in the bundle.
    pub entry: usize,
    /// The bundle entry ID as recorded, as [`CodeObjectRef::id`]. An ID that is too long to be parsed is cut.
    pub id: Box<[u8]>,
    /// The inflated size in bytes, as it is recorded.
    pub size: u64,
    /// The kind of the content, as [`CodeObjectRef::kind`].
    pub kind: Option<ContentKind>,
    /// The range of the bytes, as [`CodeObjectRef::range`].
    pub range: Option<Range<u64>>,
    /// The compressed form, as [`CodeObjectRef::packed`].
    pub packed: Option<Box<Packed>>,
    /// The target ID that the code object itself records, as [`CodeObjectRef::recorded_target`].
    pub recorded_target: Option<Box<str>>,
    /// The version of PTX, as [`CodeObjectRef::ptx_version`].
    pub ptx_version: Option<(u16, u16)>,
    /// The code object version, as [`CodeObjectRef::code_object_version`].
    pub code_object_version: Option<u8>,
    /// The name of the source file, safe to print on a terminal, if the container records it.
    pub source: Option<Box<str>>,
    /// Whether the code object is itself a container, and the search lists the code objects in it too. Then only these
    /// count in sums of sizes. Set by jobs that search whole files.
    pub has_parts: bool,
    /// The number of bytes that the code object shares with code objects before it in the bundle: inflated bytes in a
    /// compressed bundle, otherwise stored bytes. Compilers write no bundle that shares bytes.
    pub(crate) shared: u64,
    /// The number of the entry among the entries at the place with the same ID, counted from 1, for the URI. 0 if the
    /// entries are not numbered.
    pub(super) number: u64,
}

impl CodeObject {
    /// Returns the address of the code object in the file.
    pub(crate) fn locator(&self) -> Locator<'_> {
        Locator { place: &self.bundle.place, bundle: self.bundle.index, entry: self.entry }
    }

    /// The bundle entry ID, as [`CodeObjectRef::entry_id`].
    pub fn entry_id(&self) -> Option<EntryId> {
        parse_id(&self.id, self.bundle.format).ok()
    }

    /// Parses the ID, for callers that use it more than once.
    pub(crate) fn parsed_id(&self) -> ParsedId {
        ParsedId::parse(&self.id, self.bundle.format)
    }

    /// The ID, safe to print on a terminal, as [`CodeObjectRef::shown_id`].
    pub fn shown_id(&self) -> String {
        short_name(&self.id, ID_MAX)
    }

    /// The stored size in bytes. If the bundle is compressed as a whole, the code object has a share of the stored size
    /// of the bundle, in proportion to its inflated size.
    pub fn stored(&self) -> u64 {
        match (self.bundle.compressed, &self.packed) {
            (Some(_), _) => scale(self.bundle.stored(), self.size, self.bundle.size).unwrap_or(0),
            (None, Some(packed)) => packed.stored_len(),
            (None, None) => self.size,
        }
    }

    /// The sizes that the code object adds to sums: nothing if its [parts](Self::has_parts) count instead. Bytes that
    /// are shared with code objects before it in the bundle count once. So no sum is larger than the number of bytes in
    /// the file or in the inflated data.
    pub fn sizes(&self) -> Sizes {
        if self.has_parts {
            return Sizes::default();
        }
        let Sizes { code_objects, size, stored } = self.own_sizes();
        // `shared` counts inflated bytes in a compressed bundle, and stored bytes elsewhere. Both sizes become smaller
        // by the fraction of bytes that are shared.
        let whole = if self.bundle.compressed.is_some() { size } else { stored };
        let unshared = whole.saturating_sub(self.shared);
        Sizes {
            // An empty entry, such as that of a host without code, is no code object.
            code_objects: if size == 0 { 0 } else { code_objects },
            size: scale(size, unshared, whole).unwrap_or(size),
            stored: scale(stored, unshared, whole).unwrap_or(stored),
        }
    }

    /// The sizes of the code object itself, even if its [parts](Self::has_parts) count in sums instead.
    pub fn own_sizes(&self) -> Sizes {
        Sizes { code_objects: 1, size: self.size, stored: self.stored() }
    }

    /// Returns the URI of the code object, or `None` if no URI can name it: see [`CodeObjectRef::uri`].
    ///
    /// # Errors
    /// The errors of [`Place::uri`].
    pub fn uri(&self) -> Result<Option<Uri>> {
        let BundleInfo { place, compressed, range, .. } = &*self.bundle;
        let compressed_bundle = compressed.map(|_| range.clone());
        match &self.packed {
            Some(packed) => packed_uri(place, packed, &self.id, self.number),
            None => uri(place, compressed_bundle, self.range.clone()),
        }
    }
}

/// The entry ID of a code object as text and, if it is valid, parsed: made once for all comparisons with patterns.
#[derive(Debug)]
pub(crate) struct ParsedId {
    /// The ID, safe to print on a terminal, as [`CodeObjectRef::shown_id`].
    pub(crate) shown: String,
    /// The parsed ID, or `None` if the recorded ID is not valid.
    pub(crate) parsed: Option<EntryId>,
}

impl ParsedId {
    /// Parses the ID recorded in a container of this format.
    pub(crate) fn parse(recorded: &[u8], format: Format) -> Self {
        Self { shown: short_name(recorded, ID_MAX), parsed: parse_id(recorded, format).ok() }
    }

    /// Returns the name that selects the code object in a selection of target IDs: the target ID, or else the whole ID.
    /// Returns `None` for host code.
    pub(crate) fn target(&self) -> Option<String> {
        if self.is_host() {
            return None;
        }
        if let Some(id) = &self.parsed {
            let target = id.target().to_string();
            if !target.is_empty() {
                return Some(target);
            }
        }
        Some(self.shown.clone())
    }

    /// Returns the target in an ID that cannot be parsed, such as one of another vendor's compiler: the text after the
    /// last `--`. Returns `None` for an ID that can be parsed, and for an ID without `--`.
    pub(crate) fn foreign_target(&self) -> Option<&str> {
        if self.parsed.is_some() {
            return None;
        }
        let (_, target) = self.shown.rsplit_once("--")?;
        Some(target)
    }

    /// Returns the offload kind, or `None` for an ID that cannot be parsed.
    fn kind(&self) -> Option<OffloadKind> {
        self.parsed.as_ref().map(EntryId::kind)
    }

    /// Returns whether this is the ID of code for HIP's runtime.
    pub(crate) fn is_of_hip(&self) -> bool {
        matches!(self.kind(), Some(OffloadKind::Hip | OffloadKind::HipV4))
    }

    /// Returns whether this is the ID of host code.
    pub(crate) fn is_host(&self) -> bool {
        self.kind() == Some(OffloadKind::Host)
    }
}

/// Returns `value * part / whole`, or `None` if `whole` is zero or the result is too large.
fn scale(value: u64, part: u64, whole: u64) -> Option<u64> {
    let product = u128::from(value).saturating_mul(part.into());
    u64::try_from(product.checked_div(whole.into())?).ok()
}

/// Parses the ID recorded in a container of this format, or returns the reason why it is not valid. Overlong IDs are
/// not valid: parsing them would take too long for a hostile bundle that consists of them.
fn parse_id(id: &[u8], format: Format) -> Result<EntryId, String> {
    if id.len() > ID_MAX {
        return Err(format!("it is longer than {ID_MAX} bytes"));
    }
    // Each feature follows a colon.
    if memchr::memchr_iter(b':', id).count() > FEATURES_MAX {
        return Err(format!("it has more than {FEATURES_MAX} target features"));
    }
    let text = bytes::text(id).ok_or("it is not valid UTF-8")?;
    let parsed = match format {
        // A code object without a bundle has a triple and a target ID, but no kind. The usual kind makes an entry ID of
        // them.
        Format::CodeObject if intel_gpu::is_for_intel(&text) => EntryId::parse_any(&["sycl-", &text].concat()),
        Format::CodeObject => EntryId::parse_any(&["hip-", &text].concat()),
        _ => EntryId::parse_any(&text),
    };
    parsed.map_err(|error| error.to_string())
}

/// Returns the URI of a range at a place. If the range is in a compressed bundle, `compressed_bundle` is the range of
/// that, and `range` counts in the inflated bundle. Returns `None` without a range, or if the searched data has no file
/// name.
fn uri(place: &Place, compressed_bundle: Option<Range<u64>>, range: Option<Range<u64>>) -> Result<Option<Uri>> {
    let Some(range) = range else { return Ok(None) };
    if place.file().as_os_str().is_empty() {
        return Ok(None);
    }
    match compressed_bundle {
        Some(bundle) => place.uri(bundle, Some(range)),
        None => place.uri(range, None),
    }
}

/// Returns the URI of a code object that is compressed on its own, or with others, in the bundle at `place`. The entry
/// with this ID and number is a step of the URI, and the range counts in the inflated bytes. Returns `None` if the
/// searched data has no file name, if the end of the code object is not known exactly, or if its compression is
/// unknown.
fn packed_uri(place: &Place, packed: &Packed, id: &[u8], number: u64) -> Result<Option<Uri>> {
    if place.file().as_os_str().is_empty() || !packed.is_exact() || packed.codec == Codec::Unknown {
        return Ok(None);
    }
    place.join_numbered(Step::Entry(step_name(id).to_vec()), number).inflated().uri(packed.range.clone(), None)
}

/// Returns an ID as the name of a step. Long IDs are cut, because a place is copied for each finding in it.
pub(super) fn step_name(id: &[u8]) -> &[u8] {
    id.get(..ID_MAX).unwrap_or(id)
}

/// A code object in a bundle.
#[derive(Clone, Copy, Debug)]
pub struct CodeObjectRef<'f> {
    /// The bundle that holds the code object.
    pub(crate) found: FoundBundle<'f>,
    pub(super) entry: &'f SearchEntry,
    /// The index of the entry in the bundle.
    pub(super) index: usize,
}

impl<'f> CodeObjectRef<'f> {
    /// Returns the facts about the code object, to be kept after the search. `bundle` is the
    /// [information](FoundBundle::info) about its bundle.
    pub fn keep(&self, bundle: &Arc<BundleInfo>) -> CodeObject {
        let id = self.id();
        CodeObject {
            bundle: Arc::clone(bundle),
            entry: self.index,
            // One byte more than the maximum shows that the ID is too long to be parsed.
            id: id.get(..=ID_MAX).unwrap_or(id).into(),
            size: self.size(),
            kind: self.kind(),
            range: self.range(),
            packed: self.packed().cloned().map(Box::new),
            recorded_target: self.recorded_target().map(Into::into),
            ptx_version: self.ptx_version(),
            code_object_version: self.code_object_version(),
            source: self.shown_source().map(Into::into),
            // Whether it has parts is known only once all of its file is searched, and is set then.
            has_parts: false,
            shared: self.found.facts.shared.get(self.index).copied().unwrap_or_default(),
            number: self.number(),
        }
    }

    /// The bundle entry ID as recorded, which may be any bytes. For a code object without a bundle, which has no ID, it
    /// is the target triple and target ID.
    pub fn id(&self) -> &'f [u8] {
        self.entry.id()
    }

    /// The bundle entry ID, if the recorded ID is valid.
    pub fn entry_id(&self) -> Option<EntryId> {
        self.parse_id().ok()
    }

    /// Parses the bundle entry ID, for callers that use it more than once.
    pub(crate) fn parsed_id(&self) -> ParsedId {
        ParsedId::parse(self.entry.id(), self.found.format)
    }

    /// Returns the bundle entry ID, or the reason why the recorded ID is not valid.
    pub(crate) fn parse_id(&self) -> Result<EntryId, String> {
        parse_id(self.entry.id(), self.found.format)
    }

    /// Returns the number of the entry among the entries at the place with the same ID, or 0 if they are not numbered.
    fn number(&self) -> u64 {
        self.found.facts.numbers.get(self.index).copied().unwrap_or_default()
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
    pub(crate) fn shown_source(&self) -> Option<String> {
        let source = &self.cuda()?.source;
        if source.is_empty() { None } else { Some(shown(source).to_string()) }
    }

    /// The compressed form, if the code object is compressed in its bundle.
    pub fn packed(&self) -> Option<&'f Packed> {
        self.entry.packed.as_ref()
    }

    /// Returns the range of the code object's bytes, or `None` if they are not contiguous. The range counts from the
    /// [origin](Place::origin) of the place or, in a compressed bundle, from the start of the inflated bundle. If the
    /// code object is [in the file](Self::is_in_file) and not compressed, the range can be taken from the searched
    /// bytes after the search.
    pub fn range(&self) -> Option<Range<u64>> {
        let range = self.entry.range()?;
        let base = if self.found.bundle.compressed.is_some() { 0 } else { self.found.bundle.offset };
        Some(base.checked_add(range.start)?..base.checked_add(range.end)?)
    }

    /// Returns whether the bytes of the code object, perhaps compressed, are in a file as they are. Otherwise they are
    /// in data that was inflated from a file.
    pub fn is_in_file(&self) -> bool {
        matches!(self.found.place.origin(), PlaceOrigin::File(_))
    }

    /// Returns the reason why the code object cannot be extracted, or `None` if it can: the host of a fat object may
    /// not be restorable.
    pub(crate) fn unreadable(&self) -> Option<&'f Malformed> {
        self.entry.unreadable()
    }

    /// Returns a description of a code object whose content cannot be inflated: it is obfuscated, or its compression is
    /// unknown or missing in this build. Returns `None` for other code objects.
    pub fn unread(&self) -> Option<Unread> {
        let codec = self.packed()?.codec;
        let name = match codec {
            Codec::Unknown if self.is_obfuscated() => "obfuscated code object",
            Codec::Unknown => "code object of an unknown compression",
            Codec::Zlib | Codec::Lz4 | Codec::Zstd if codec::has_feature(codec.name()) => return None,
            Codec::Zlib => "code object compressed with zlib, which this build lacks",
            Codec::Lz4 => "code object compressed with LZ4, which this build lacks",
            Codec::Zstd => "code object compressed with zstd, which this build lacks",
        };
        Some(Unread::device_code(name))
    }

    /// Returns whether the code object is an obfuscated image of a CUDA fatbin.
    fn is_obfuscated(&self) -> bool {
        match self.cuda() {
            Some(image) => image.is_obfuscated(),
            None => false,
        }
    }

    /// Returns the kind of the content, or `None` if neither the container records it nor the first bytes are known
    /// without more inflating than the search was asked to do.
    pub fn kind(&self) -> Option<ContentKind> {
        if self.size() == 0 {
            return Some(ContentKind::Empty);
        }
        // For code objects of fatbins, and for compressed ones, the container's record saves inflating them. For
        // others, the content itself is more reliable.
        let is_record_used = self.cuda().is_some() || self.packed().is_some();
        if is_record_used && let Some(kind) = self.recorded_kind() {
            return Some(kind);
        }
        Some(ContentKind::identify(&self.head()?))
    }

    /// Returns the first bytes, up to [`ContentKind::HEAD_LEN`], or `None` if reading them needs more inflating than
    /// the search was asked to do. Compressed device images are inflated anyway, because nothing records their kind.
    pub(super) fn head(&self) -> Option<Cow<'f, [u8]>> {
        if let Some(packed) = self.packed()
            && self.found.format.has(Rule::KnownByContent)
        {
            return packed.head(self.found.bundle.whole()?, ContentKind::HEAD_LEN).map(Cow::Owned);
        }
        self.found.bundle.head(self.index, ContentKind::HEAD_LEN).map(Cow::Borrowed)
    }

    /// Returns the header of an ELF file for an AMD or NVIDIA GPU. Returns `None` for other content, and if its first
    /// bytes are not known.
    ///
    /// The first bytes of code that is compressed on its own are known:
    ///
    /// - if the content [was read](Self::note_content) for another reason
    /// - of device images, and in a fatbin that is a file itself: they are inflated here. `nvcc -fatbin -rdc=true`
    ///   makes such fatbins, of cubins that are not linked. A library has thousands of cubins, but linkers leave none
    ///   in it that is not linked, so those are not inflated.
    pub(crate) fn gpu_header(&self) -> Option<GpuHeader> {
        let Some(packed) = self.packed() else { return GpuHeader::read(&self.head()?) };
        let FoundBundle { format, facts, bundle, .. } = self.found;
        if let Some(noted) = facts.noted_header(self.index) {
            return noted;
        }
        let is_inflated = format.has(Rule::KnownByContent) || (format == Format::Fatbin && self.found.is_file());
        if !is_inflated {
            return None;
        }
        let head = packed.head(bundle.whole()?, gpu_header::HEADER_LEN);
        let header = head.and_then(|head| GpuHeader::read(&head));
        facts.note_header(self.index, header);
        header
    }

    /// Returns the code object version of an ELF file for an AMD GPU, such as 6. Returns `None` for other content, for
    /// code that is compressed on its own, and if the first bytes are not known.
    pub fn code_object_version(&self) -> Option<u8> {
        if self.packed().is_some() {
            return None;
        }
        GpuHeader::read(&self.head()?)?.code_object_version()
    }

    /// Notes the facts about the content of the code object that decide whether its runtime loads it, after the content
    /// was read for another reason.
    pub(crate) fn note_content(&self, content: &[u8]) {
        let facts = self.found.facts;
        if self.packed().is_some() {
            facts.note_header(self.index, GpuHeader::read(content));
        }
        // PTX that is linked at run time may call functions of other PTX.
        let is_linked_later = self.cuda().is_some_and(|image| image.is_linked_at_run_time);
        if !is_linked_later && let Some(undefined) = undefined_symbols(Magic::identify(content).code(), content) {
            facts.note_undefined(self.index, undefined);
        }
    }

    /// Returns the symbols that the code object needs and does not define. Returns `None` if there are none, and if its
    /// content was [not noted](Self::note_content).
    pub(crate) fn undefined_symbols(&self) -> Option<UndefinedSymbols> {
        self.found.facts.noted_undefined(self.index)
    }

    /// Returns the kind of content that its container records, or `None` if the container records no known kind. A
    /// fatbin records one for each code object. A kpack archive has ELF files, and SPIR-V for the target ID of SPIR-V.
    pub(crate) fn recorded_kind(&self) -> Option<ContentKind> {
        if let Some(image) = self.cuda() {
            return match image.kind {
                CudaKind::Ptx => Some(ContentKind::Ptx),
                CudaKind::Cubin => Some(ContentKind::Cubin),
                CudaKind::LtoIr => Some(ContentKind::LtoIr),
                // The first bytes of compressed content are not known, so its kind is unknown. Content that is not
                // compressed is identified by its first bytes instead.
                CudaKind::TileIr | CudaKind::Other(_) => self.packed().map(|_| ContentKind::Unknown),
            };
        }
        if self.found.format != Format::Kpack {
            return None;
        }
        let is_spirv = kpack::target_of(self.entry) == kpack::SPIR_V;
        Some(if is_spirv { ContentKind::SpirV } else { ContentKind::Elf })
    }

    /// Returns the additional data that offload binaries record, or `None` in other containers.
    pub(crate) fn image(&self) -> Option<&'f ImageInfo> {
        self.entry.entry.image.as_deref()
    }

    /// Returns the additional data that CUDA fatbins record, or `None` in other containers.
    pub fn cuda(&self) -> Option<&'f fatbin::Image> {
        self.entry.cuda.as_deref()
    }

    /// Returns the target ID that the code object itself records, as every ELF for an AMD GPU does. Returns `None` if
    /// it records no target ID, or if its first bytes are not known.
    pub fn recorded_target(&self) -> Option<String> {
        let head = self.found.bundle.head(self.index, ContentKind::HEAD_LEN)?;
        let is_whole_needed = match Magic::identify(head) {
            // The name of the GPU is in a section of the file.
            Magic::Code(CodeMagic::IntelGpu) => true,
            // The suffix of the architecture is in a section of the file. In a container, the entry ID has it already.
            Magic::Code(CodeMagic::Cubin) => self.found.format == Format::CodeObject,
            _ => false,
        };
        if is_whole_needed && let Some(whole) = self.in_place() {
            return self.found.facts.target(whole);
        }
        target::target_id(head)
    }

    /// Returns the version of PTX, such as 8.7: as its fatbin records it, otherwise from its first lines. Returns `None`
    /// for other code, and if too little was inflated to know it.
    pub fn ptx_version(&self) -> Option<(u16, u16)> {
        if let Some(image) = self.cuda() {
            return if image.kind == CudaKind::Ptx { Some(image.version) } else { None };
        }
        if self.kind()? != ContentKind::Ptx {
            return None;
        }
        // Comments of any length may come before the version.
        const FIRST_LINES: u64 = 4096;
        Some(ptx::Header::of(self.found.bundle.head(self.index, FIRST_LINES)?)?.version)
    }

    /// The bytes: borrowed from the file if they are contiguous in it, otherwise restored, or inflated and checked.
    ///
    /// # Errors
    /// The errors of [`write_to`](Self::write_to).
    pub fn bytes(&self) -> Result<Cow<'f, [u8]>> {
        self.found.bundle.bytes(self.index)
    }

    /// Writes the bytes to `out`, without holding all of them in memory. The output is valid only if this succeeds.
    ///
    /// # Errors
    /// The errors of [`Bundle::write_to`](crate::llvm::container::sequence::Bundle::write_to).
    pub fn write_to(&self, out: &mut dyn io::Write) -> Result<()> {
        self.found.bundle.write_to(self.index, out)
    }

    /// Returns the code object as it is stored: its bytes, or its compressed form if it is compressed on its own.
    /// Returns `None` if its bundle is compressed, or if the code object has to be restored.
    pub(crate) fn stored_bytes(&self) -> Option<Slice<'f>> {
        if let Some(bytes) = self.in_place() {
            return Some(bytes);
        }
        if self.found.bundle.compressed.is_some() {
            return None;
        }
        self.found.bundle.whole()?.range(&self.packed()?.stored)
    }

    /// Returns the code object as a slice of the file, or `None` if it is compressed or has to be restored.
    pub fn in_place(&self) -> Option<Slice<'f>> {
        self.found.bundle.in_place(self.index)
    }

    /// Returns the URI, as [`Place::uri`]. Returns `None` if the code object's bytes are not contiguous, or if the
    /// searched bytes are not from a file. Also returns `None` if the code object is compressed with others, and was
    /// not inflated.
    ///
    /// # Errors
    /// The errors of [`Place::uri`].
    pub fn uri(&self) -> Result<Option<Uri>> {
        match self.packed() {
            Some(packed) => packed_uri(self.found.place, packed, self.id(), self.number()),
            None => uri(
                self.found.place,
                self.found.bundle.compressed.map(|_| self.found.bundle.range()).transpose()?,
                self.range(),
            ),
        }
    }

    /// The ID, safe to print on a terminal. An ID of more than 4096 bytes is cut and ends in `...`.
    pub fn shown_id(&self) -> String {
        short_name(self.entry.id(), ID_MAX)
    }
}

#[cfg(test)]
impl CodeObject {
    /// Returns a code object of 64 bytes with this ID, in a bundle at the start of a file.
    pub(crate) fn in_bundle(place: Place, id: &str) -> Self {
        let (format, range) = (Format::Bundle, 0..4160);
        Self {
            bundle: Arc::new(BundleInfo { place, format, index: 0, range, compressed: None, size: 64 }),
            entry: 0,
            id: id.as_bytes().into(),
            size: 64,
            kind: Some(ContentKind::Elf),
            range: Some(4096..4160),
            packed: None,
            recorded_target: None,
            ptx_version: None,
            code_object_version: None,
            source: None,
            has_parts: false,
            shared: 0,
            number: 0,
        }
    }
}
