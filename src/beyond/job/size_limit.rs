//! Limits on what a job makes of a file.

use std::path::Path;

use crate::base::bytes::total;
use crate::base::error::{Error, Malformed, Result};
use crate::beyond::container::{Bundle, SearchEntry};
use crate::llvm::container::Limits;

/// The maximum total size of the code objects that are extracted from a bundle, as a multiple of its inflated size.
/// Code objects that do not overlap never exceed the size itself. Entries may overlap, so a small bundle could make
/// many large files.
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

/// Returns the limits for reading a file that a job has made of a file within `limits`. Its containers may inflate to
/// any size, because the job has compressed them. Containers inside others were perhaps only copied, and stay limited.
pub(super) fn limits_of_result(limits: Limits) -> Limits {
    let default = Limits::default();
    Limits { nested: limits.nested.max(default.nested), ..default }
}
