//! Caps extraction size: entries may overlap, so a small bundle could expand without bound.

use std::path::Path;

use crate::bytes::total;
use crate::container::Entry;
use crate::container::sequence::Bundle;
use crate::error::{Error, Malformed, Result};

/// The maximum total size of code objects, as a multiple of the size of their bundle.
const SHARED_MAX: u64 = 16;

/// Checks that the total size of some code objects of a bundle, given by their indices, is within the limit. Without
/// overlaps it is less than the size of the bundle.
///
/// # Errors
/// [`Malformed`] if the limit is exceeded.
pub(super) fn check_size(path: &Path, bundle: &Bundle<'_>, taken: impl Iterator<Item = usize>) -> Result<()> {
    let sizes = taken.filter_map(|index| bundle.entries.get(index)).map(Entry::size);
    let size = total(sizes);
    if size <= bundle.full_len()?.saturating_mul(SHARED_MAX) {
        return Ok(());
    }
    let (what, expected) = ("size of all code objects", "no more than 16 times the bundle");
    Err(Error::malformed(path, Malformed::value(what, size, bundle.offset, expected)))
}
