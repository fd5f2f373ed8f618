//! Limits the total size of the code objects that are extracted from a bundle: entries may overlap, so a small bundle
//! could make many large files.

use std::path::Path;

use crate::base::bytes::total;
use crate::base::error::{Error, Malformed, Result};
use crate::beyond::container::Bundle;
use crate::beyond::container::SearchEntry;

/// The maximum total size of code objects, as a multiple of the inflated size of their bundle. Code objects that do not
/// overlap never exceed the size itself.
const SIZE_RATIO_MAX: u64 = 16;

/// Fails if the total size of the code objects with these indices exceeds [`SIZE_RATIO_MAX`] times that of their
/// bundle.
pub(super) fn ensure_size_limit(path: &Path, bundle: &Bundle<'_>, taken: impl Iterator<Item = usize>) -> Result<()> {
    let sizes = taken.filter_map(|index| bundle.entries.get(index)).map(SearchEntry::size);
    let size = total(sizes);
    if size <= bundle.full_len()?.saturating_mul(SIZE_RATIO_MAX) {
        return Ok(());
    }
    let (what, expected) = ("size of all code objects", "no more than 16 times the bundle");
    Err(Error::malformed(path, Malformed::value(what, size, bundle.offset, expected)))
}
