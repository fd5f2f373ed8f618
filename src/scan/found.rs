//! What a search finds: bundles at places, and the code objects in them.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Unread;
use super::amdgpu;
use super::image::ContentKind;
use super::place::{Origin, Place};
use crate::bytes;
use crate::container::sequence::Bundle;
use crate::container::stream::Recorded;
use crate::container::{Entry, Part};
use crate::display::short_name;
use crate::error::{Error, Malformed, Result};
use crate::id::{EntryId, OffloadKind};
use crate::io::input::Slice;

/// The longest bundle entry ID that a search parses and shows in full, in bytes, and the most features of one. Those of compilers
/// have some dozens of bytes and two features.
pub(super) const ID_MAX: usize = 4096;
const FEATURES_MAX: usize = 32;

/// The container that code objects lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// A bundle, plain or compressed.
    Bundle,
    /// A bundle between comment lines.
    TextBundle,
    /// A host object with a section for each code object.
    FatObject,
    /// An offload binary.
    OffloadBinary,
    /// None: the file is a code object by itself.
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
            Self::CodeObject => "code object",
        }
    }
}

/// Something that was found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding<'f> {
    /// A bundle.
    Bundle(Found<'f>),
    /// A place that begins like device code, or like something that may hold some, but cannot be read.
    Broken {
        /// Where.
        place: &'f Place,
        /// Why; it names the file.
        error: Error,
    },
    /// Bytes behind the bundles of a place that are no bundle.
    Trailing {
        /// Where.
        place: &'f Place,
        /// The offset of the first of them.
        offset: u64,
    },
    /// Something that holds device code, or may hold some, and is recognised but not read.
    Unread {
        /// Where.
        place: &'f Place,
        /// Where it begins, counted from the [origin](Place::origin) of the place.
        offset: u64,
        /// What it is.
        what: Unread,
    },
    /// A part of a file that may hold device code, which cannot be told, as the names or tables that would say so are broken.
    /// What else the file holds is found all the same.
    Hidden {
        /// Where.
        place: &'f Place,
        /// What is broken; it names the file.
        error: Error,
    },
}

impl<'f> Finding<'f> {
    /// Where it is.
    pub(super) fn place(&self) -> &'f Place {
        match *self {
            Self::Bundle(Found { place, .. })
            | Self::Broken { place, .. }
            | Self::Trailing { place, .. }
            | Self::Unread { place, .. }
            | Self::Hidden { place, .. } => place,
        }
    }
}

/// A bundle at a place.
#[derive(Clone, Copy, Debug)]
pub struct Found<'f> {
    /// Where it lies.
    pub place: &'f Place,
    /// What it is.
    pub format: Format,
    /// Which one of those at the same place it is, counted from 0.
    pub index: usize,
    /// The bundle itself.
    pub bundle: &'f Bundle<'f>,
}

impl<'f> Found<'f> {
    /// Its code objects in file order.
    pub fn code_objects(&self) -> impl Iterator<Item = CodeObject<'f>> + use<'f> {
        let (place, format, bundle) = (self.place, self.format, self.bundle);
        (0..bundle.entries.len()).filter_map(move |index| {
            let entry = bundle.entries.get(index)?;
            Some(CodeObject { place, format, bundle, entry, index })
        })
    }
}

/// Where a code object is from, kept beyond the search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// The place of its bundle.
    pub place: Arc<Place>,
    /// The container that it lies in.
    pub format: Format,
    /// Which of the bundles at the place it is from, counted from 0.
    pub bundle: usize,
    /// Where that bundle lies, counted from the [origin](Place::origin) of the place.
    pub bundle_range: Range<u64>,
    /// What the header around the bundle says, if it is compressed.
    pub compressed: Option<Recorded>,
    /// Its bundle entry ID as recorded, as [`CodeObject::id`]; of one that is longer than any that is parsed, the start.
    pub id: Vec<u8>,
    /// Where it lies, as [`CodeObject::range`].
    pub range: Option<Range<u64>>,
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
        })
    }

    /// Its bundle entry ID, as [`CodeObject::entry_id`].
    pub fn entry_id(&self) -> Option<EntryId> {
        parse_id(&self.id, self.format).ok()
    }

    /// The ID, safe to print on a terminal, as [`CodeObject::shown_id`].
    pub fn shown_id(&self) -> String {
        short_name(&self.id, ID_MAX)
    }

    /// Its URI, as [`CodeObject::uri`].
    ///
    /// # Errors
    /// Those of [`Place::uri`].
    pub fn uri(&self) -> Result<Option<String>> {
        uri(&self.place, self.compressed.map(|_| self.bundle_range.clone()), self.range.clone())
    }
}

/// The entry ID of a code object, parsed once for all that is asked of it.
#[derive(Debug)]
pub(crate) struct KnownId {
    /// The ID, safe to print on a terminal, as [`CodeObject::shown_id`].
    pub(crate) shown: String,
    /// None if what is recorded is not an ID.
    pub(crate) parsed: Option<EntryId>,
}

impl KnownId {
    /// The ID that a container of this format records.
    pub(crate) fn of(recorded: &[u8], format: Format) -> Self {
        Self { shown: short_name(recorded, ID_MAX), parsed: parse_id(recorded, format).ok() }
    }

    /// Whether it is that of host code.
    pub(crate) fn is_host(&self) -> bool {
        self.parsed.as_ref().is_some_and(|id| id.kind() == OffloadKind::Host)
    }
}

/// The bundle entry ID that a container of this format records, or why what it records is none. Absurd ones are not parsed, as
/// a bundle may consist of them.
fn parse_id(id: &[u8], format: Format) -> Result<EntryId, String> {
    if id.len() > ID_MAX {
        return Err(format!("it is longer than {ID_MAX} bytes"));
    }
    if memchr::memchr_iter(b':', id).count() > FEATURES_MAX {
        return Err(format!("it has more than {FEATURES_MAX} target features"));
    }
    let text = bytes::text(id).ok_or("it is not valid UTF-8")?;
    let parsed = match format {
        // The kind is not recorded; the fields after it are all that is asked for.
        Format::CodeObject => EntryId::parse_any(&["hip-", &text].concat()),
        _ => EntryId::parse_any(&text),
    };
    parsed.map_err(|error| error.to_string())
}

/// The URI of a range at a place, or in the compressed bundle there.
fn uri(place: &Place, compressed: Option<Range<u64>>, range: Option<Range<u64>>) -> Result<Option<String>> {
    let uri = |range| match compressed {
        Some(bundle) => place.uri(bundle, Some(range)),
        None => place.uri(range, None),
    };
    range.filter(|_| !place.file().as_os_str().is_empty()).map(uri).transpose()
}

/// A code object in a bundle.
#[derive(Clone, Copy, Debug)]
pub struct CodeObject<'f> {
    place: &'f Place,
    format: Format,
    bundle: &'f Bundle<'f>,
    entry: &'f Entry,
    index: usize,
}

impl<'f> CodeObject<'f> {
    /// Its bundle entry ID as recorded, which may be any bytes. A code object without a bundle has none; its target
    /// triple and target ID stand there.
    pub fn id(&self) -> &'f [u8] {
        &self.entry.id
    }

    /// Its bundle entry ID, if what is recorded is one.
    pub fn entry_id(&self) -> Option<EntryId> {
        self.parse_id().ok()
    }

    /// Its bundle entry ID, for what asks about it more than once.
    pub(crate) fn known_id(&self) -> KnownId {
        KnownId::of(&self.entry.id, self.format)
    }

    /// Its bundle entry ID, or why it has none.
    pub(crate) fn parse_id(&self) -> Result<EntryId, String> {
        parse_id(&self.entry.id, self.format)
    }

    /// Its index in the bundle.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its size in bytes, inflated.
    pub fn size(&self) -> u64 {
        self.entry.size()
    }

    /// Where it lies: counted from the [origin](Place::origin) of its place, or, in a compressed bundle, from the start
    /// of the inflated bundle. None if it lies in no one piece. The range of one that lies [in the file](Self::is_in_file)
    /// and is not compressed can be taken from the searched bytes after the search.
    pub fn range(&self) -> Option<Range<u64>> {
        let [Part::Range(range)] = self.entry.parts.as_slice() else { return None };
        let base = if self.bundle.compressed.is_some() { 0 } else { self.bundle.offset };
        Some(base.checked_add(range.start)?..base.checked_add(range.end)?)
    }

    /// Where its bundle lies, counted from the [origin](Place::origin) of its place.
    ///
    /// # Errors
    /// Those of [`Bundle::stored_len`].
    pub fn bundle_range(&self) -> Result<Range<u64>> {
        self.bundle.range()
    }

    /// Whether its bytes are those of the file that was searched.
    pub fn is_in_file(&self) -> bool {
        matches!(self.place.origin(), Origin::File(_))
    }

    /// Why it cannot be taken, if it cannot: of a fat object, the host may not come back.
    pub(crate) fn unreadable(&self) -> Option<&'f Malformed> {
        self.entry.parts.iter().find_map(|part| match part {
            Part::Unreadable(malformed) => Some(malformed),
            _ => None,
        })
    }

    /// What it is; none where that would take more inflating than the search was told to do.
    pub fn kind(&self) -> Option<ContentKind> {
        if self.size() == 0 {
            return Some(ContentKind::Empty);
        }
        self.bundle.head(self.index, ContentKind::HEAD_LEN).map(ContentKind::of)
    }

    /// The target ID that the code object itself records, which every ELF for an AMD GPU does.
    pub fn recorded_target(&self) -> Option<String> {
        amdgpu::target_id(self.bundle.head(self.index, ContentKind::HEAD_LEN)?)
    }

    /// Its bytes: borrowed from the file if they lie there in one piece, otherwise restored, or inflated and checked.
    ///
    /// # Errors
    /// Those of [`write_to`](Self::write_to).
    pub fn bytes(&self) -> Result<Cow<'f, [u8]>> {
        self.bundle.bytes(self.index)
    }

    /// Writes its bytes to `out`, without holding all of them in memory. What was written is wrong unless this succeeds.
    ///
    /// # Errors
    /// Those of [`Bundle::write_to`].
    pub fn write_to(&self, out: &mut dyn io::Write) -> Result<()> {
        self.bundle.write_to(self.index, out)
    }

    /// The code object as it lies in the file; none where it is compressed, or has to be restored.
    pub fn in_place(&self) -> Option<Slice<'f>> {
        self.bundle.in_place(self.index)
    }

    /// The code object as a slice of the searched bytes, which are to be given again: unlike other borrowed bytes, it outlives the
    /// visit. None where it is compressed, has to be restored, or lies in a file beside a thin archive.
    pub fn slice_of<'a>(&self, searched: &'a [u8]) -> Option<&'a [u8]> {
        let is_inside = matches!(self.place.origin(), Origin::File(file) if file == self.place.file());
        let range = self.range().filter(|_| is_inside && self.bundle.compressed.is_none())?;
        bytes::slice(searched, range.start, range.end.checked_sub(range.start)?)
    }

    /// Its URI, as [`Place::uri`] forms it; none if it lies in no one piece, or the searched bytes are of no file.
    ///
    /// # Errors
    /// Those of [`Place::uri`].
    pub fn uri(&self) -> Result<Option<String>> {
        uri(self.place, self.bundle.compressed.map(|_| self.bundle_range()).transpose()?, self.range())
    }

    /// The ID, safe to print on a terminal. One of more than 4096 bytes is cut, and ends in `...`.
    pub fn shown_id(&self) -> String {
        short_name(&self.entry.id, ID_MAX)
    }
}
