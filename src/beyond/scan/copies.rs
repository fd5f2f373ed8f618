//! Members of a zip file with equal contents, such as the links to a library in a wheel, which became files.
//!
//! Members are copies if their SHA-256 is equal. Only members whose recorded size and checksum are those of another one
//! are hashed, while they are read for the search. So a zip file without copies costs nothing.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use sha2::digest::Output;
use sha2::{Digest, Sha256};

use super::place::Place;
use crate::base::bytes::{add, to_u64};
use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::beyond::container::zip::{RecordedContent, ZipContent, ZipMember};

/// The hash of the content of a member.
pub(super) type ContentHash = Output<Sha256>;

/// The members of a zip file that may have copies.
#[derive(Default)]
pub(super) struct Copies {
    /// The sizes and checksums that several members record.
    recorded: HashSet<RecordedContent>,
    /// The first member with each content, of those that were searched already.
    first: HashMap<ContentHash, Place>,
}

impl Copies {
    /// Finds the members that may have copies, by the directory of the zip file.
    pub(super) fn among(members: &[ZipMember<'_>]) -> Self {
        let (mut known, mut recorded) = (HashSet::new(), HashSet::new());
        for content in members.iter().filter_map(|member| member.content.as_ref().ok()) {
            if !known.insert(content.recorded()) {
                recorded.insert(content.recorded());
            }
        }
        Self { recorded, first: HashMap::new() }
    }

    /// Returns whether another member may have the same content: it records the same size and checksum.
    pub(super) fn may_have_copy(&self, content: &ZipContent<'_>) -> bool {
        self.recorded.contains(&content.recorded())
    }

    /// Returns the place of the first member with this hash. If no earlier member has it, notes `place` as the first,
    /// and returns `None`.
    pub(super) fn first_with(&mut self, hash: ContentHash, place: &Place) -> Option<Place> {
        match self.first.entry(hash) {
            Entry::Occupied(first) => Some(first.get().clone()),
            Entry::Vacant(free) => {
                free.insert(place.clone());
                None
            }
        }
    }
}

/// Returns the hash of a content that is in memory or in a file.
pub(super) fn hash_of(data: Slice<'_>) -> Result<ContentHash> {
    let mut hasher = Sha256::new();
    data.read_blocks(&mut |block| {
        hasher.update(block);
        Ok(())
    })?;
    Ok(hasher.finalize())
}

/// A reader that can also hash the bytes that it reads.
pub(super) struct HashingReader<R> {
    reader: R,
    hasher: Option<Sha256>,
    /// The number of bytes that were read and hashed.
    len: u64,
}

impl<R> HashingReader<R> {
    pub(super) fn new(reader: R, is_hashed: bool) -> Self {
        Self { reader, hasher: is_hashed.then(Sha256::new), len: 0 }
    }

    /// Returns the hash of a content of `len` bytes, or `None` if it was read in part only, or is not hashed.
    pub(super) fn hash_of(self, len: u64) -> Option<ContentHash> {
        let hasher = self.hasher?;
        if self.len == len { Some(hasher.finalize()) } else { None }
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(buffer.get(..count).unwrap_or_default());
            add(&mut self.len, to_u64(count));
        }
        Ok(count)
    }
}
