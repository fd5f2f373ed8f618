//! Containers of code objects: each format has a file of its own.
//!
//! A format reads ([`Container::read`]: bytes to entries). Those that we write have a `plan` beside it (members to
//! pieces). Compression wraps any of them; [`sequence`] walks several bundles in one file.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod archive;
pub mod binary;
pub(crate) mod bitcode;
pub mod compressed;
pub(crate) mod dxbc;
pub mod fatbin;
pub(crate) mod host;
pub mod kpack;
pub(crate) mod limits;
pub(crate) mod lto_ir;
pub(crate) mod magic;
pub mod object;
pub mod offload_binary;
pub(crate) mod package;
pub(crate) mod packed;
pub(crate) mod ptx;
pub(crate) mod records;
pub mod sequence;
pub(crate) mod spirv;
pub mod stream;
pub(crate) mod sycl;
pub(crate) mod syclbin;
pub mod text;
pub(crate) mod zip;

use std::num::NonZeroU64;
use std::ops::Range;

use crate::bytes;
pub use crate::codec::Codec;
use crate::error::{Malformed, Result};
use crate::id::EntryId;
use crate::io::input::Slice;
pub use limits::Limits;
use offload_binary::ImageInfo;
pub use packed::Packed;
use stream::Compressed;

/// The magic string in every bundle that is not compressed.
pub const MAGIC: &str = "__CLANG_OFFLOAD_BUNDLE__";

/// One code object in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bundle entry ID as recorded, which may be any bytes.
    pub id: Vec<u8>,
    /// The code object: one range of the bundle, unless the format stores it in another form.
    pub parts: Vec<Part>,
    /// Additional data of an image in an offload binary; none in other formats.
    pub image: Option<Box<ImageInfo>>,
    /// Additional data of an image in a CUDA fatbin; none in other formats.
    pub cuda: Option<Box<fatbin::Image>>,
}

/// A part of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A range of the bundle, counted from the start of the (inflated) bundle.
    Range(Range<u64>),
    /// Bytes that the reader restores.
    Bytes(Vec<u8>),
    /// A code object that is compressed in the bundle. It is the only part of its entry.
    Packed(Packed),
    /// Bytes that the reader cannot restore, and why. The entry can be listed; extracting its code object is an error.
    Unreadable(Malformed),
}

impl Entry {
    /// An entry whose code object is a range of the bundle.
    pub fn at(id: &[u8], range: Range<u64>) -> Self {
        Self { id: id.to_vec(), parts: vec![Part::Range(range)], image: None, cuda: None }
    }

    /// The bundle entry ID, if the recorded one is valid.
    pub(crate) fn entry_id(&self) -> Option<EntryId> {
        EntryId::parse_any(&bytes::text(&self.id)?).ok()
    }

    /// The size of the code object in bytes.
    pub fn size(&self) -> u64 {
        bytes::total(self.parts.iter().map(Part::len))
    }

    /// The code object, if `bundle` holds it and it can be restored.
    pub fn content(&self, bundle: &[u8]) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        for part in &self.parts {
            match part {
                Part::Range(range) => content.extend(bytes::slice(bundle, range.start, part.len())?),
                Part::Bytes(data) => content.extend(data),
                Part::Packed(packed) => content.extend(packed.content(bundle)?),
                Part::Unreadable(_) => return None,
            }
        }
        Some(content)
    }
}

impl Part {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Range(range) => bytes::len_of(range),
            Self::Bytes(data) => bytes::len_u64(data),
            Self::Packed(packed) => packed.len(),
            Self::Unreadable(_) => 0,
        }
    }

    /// Whether the part is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The entries at the start of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The entries in file order.
    pub entries: Vec<Entry>,
    /// The length of the bundle in bytes, as claimed by its header and entries.
    pub len: u64,
    /// The faults of a bundle whose length is known all the same, so that other entries and the next bundle can be
    /// read.
    pub faults: Vec<Malformed>,
}

impl Contents {
    /// The entries of a bundle of `len` bytes without faults.
    pub fn new(entries: Vec<Entry>, len: u64) -> Self {
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

/// A bundle format.
pub trait Container {
    /// Whether several bundles may follow one another in a file; if not, a bundle is the whole file.
    fn repeats(&self) -> bool {
        true
    }

    /// The alignment of each bundle after the first, in bytes from the start of the first.
    fn alignment(&self) -> NonZeroU64 {
        NonZeroU64::MIN
    }

    /// The bundle at the start of `data`, or `None` if the data does not begin like one.
    ///
    /// `data` may be the beginning of a longer run of `total` bytes. An error of the kind [`Malformed::Truncated`] may
    /// then only mean that more of it is needed. Offsets in errors count from `base`.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes begin like a bundle of this format but are not valid.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed>;

    /// The compressed container at the start of `data`, or `None` if the data does not begin like one. Unless a format
    /// has its own compressed form, this is a compressed bundle.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if the bytes begin like a compressed container but are not
    /// valid, or claim more than `limits` allow.
    fn compressed<'a>(&self, data: Slice<'a>, limits: Limits) -> Result<Option<Compressed<'a>>> {
        compressed::read(data, limits)
    }
}
