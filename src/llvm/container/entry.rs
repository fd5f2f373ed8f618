//! The entries of a bundle, as all formats have them.

use std::ops::Range;

use super::offload_binary::ImageInfo;
use crate::base::bytes;
use crate::base::error::{Error, Malformed, Result};
use crate::base::id::EntryId;
use crate::base::io::input::Slice;
use crate::base::io::piece::Sink;

/// A code object in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bundle entry ID as recorded, which may be any bytes.
    pub id: Vec<u8>,
    /// The code object, in order: one range of the bundle, or several parts if it has to be restored, as the host of a
    /// fat object.
    pub parts: Vec<Part>,
    /// Additional data of an image in an offload binary, or `None` in other formats.
    pub image: Option<Box<ImageInfo>>,
}

/// A part of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A range of the bundle, counted from the start of the (inflated) bundle.
    Range(Range<u64>),
    /// Bytes that are not stored in this form, and that the reader has computed.
    Bytes(Vec<u8>),
    /// Bytes that the reader cannot restore, with the reason. The entry can be listed; extracting its code object fails
    /// for this reason.
    Unreadable(Malformed),
}

impl Entry {
    /// An entry whose code object is a range of the bundle.
    pub fn at(id: &[u8], range: Range<u64>) -> Self {
        Self { id: id.to_vec(), parts: vec![Part::Range(range)], image: None }
    }

    /// Parses the bundle entry ID. Returns `None` if it is not valid.
    pub(crate) fn entry_id(&self) -> Option<EntryId> {
        EntryId::parse_recorded(&bytes::text(&self.id)?).ok()
    }

    /// The size of the code object in bytes.
    pub fn size(&self) -> u64 {
        bytes::total(self.parts.iter().map(Part::len))
    }

    /// Assembles the code object. Returns `None` if `bundle` does not hold all of it, or if it cannot be restored.
    pub fn content(&self, bundle: &[u8]) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        for part in &self.parts {
            match part {
                Part::Range(range) => content.extend(bytes::slice(bundle, range.start, part.len())?),
                Part::Bytes(data) => content.extend(data),
                Part::Unreadable(_) => return None,
            }
        }
        Some(content)
    }

    /// Copies the code object from `data`, its bundle.
    pub(crate) fn copy_parts(&self, data: Slice<'_>, sink: &mut dyn Sink) -> Result<()> {
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => sink.write(bytes)?,
                Part::Unreadable(malformed) => return Err(Error::malformed(data.path(), malformed.clone())),
                Part::Range(range) => sink.copy(data.claimed(range)?)?,
            }
        }
        Ok(())
    }
}

impl Part {
    /// The length in bytes; 0 for an unreadable part, whose length is unknown.
    pub fn len(&self) -> u64 {
        match self {
            Self::Range(range) => bytes::len_of(range),
            Self::Bytes(data) => bytes::len_u64(data),
            Self::Unreadable(_) => 0,
        }
    }

    /// Whether the part is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An entry of a bundle: [`Entry`], or a type that wraps it.
pub trait BundleEntry {
    /// The entry with the fields that LLVM has.
    fn entry(&self) -> &Entry;
}

impl BundleEntry for Entry {
    fn entry(&self) -> &Entry {
        self
    }
}

/// The entries of one bundle at the start of some bytes, and where the bundle ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents<E = Entry> {
    /// The entries in file order.
    pub entries: Vec<E>,
    /// The length of the bundle in bytes, as claimed by its header and entries.
    pub len: u64,
    /// The faults of a bundle whose length is known nevertheless, so that its other entries and the next bundle can be
    /// read. Entries that cannot be read are missing in `entries`.
    pub faults: Vec<Malformed>,
}

impl<E> Contents<E> {
    /// The contents of a bundle of `len` bytes without faults.
    pub fn new(entries: Vec<E>, len: u64) -> Self {
        Self { entries, len, faults: Vec::new() }
    }
}

/// A code object to write, with its bundle entry ID.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The bundle entry ID in its written form.
    pub id: String,
    /// The code object.
    pub content: Slice<'a>,
}
