//! Limits on what a job makes of a file.

use std::path::Path;

use crate::base::bytes::total;
use crate::base::error::{Error, Malformed, Result};
use crate::beyond::container::{Bundle, SearchEntry};
use crate::beyond::limits::SHARED_MAX;
use crate::llvm::container::Limits;

/// Fails if the total size of the code objects with these indices exceeds [`SHARED_MAX`] times the inflated size of
/// their bundle.
pub(super) fn ensure_size_limit(path: &Path, bundle: &Bundle<'_>, taken: impl Iterator<Item = usize>) -> Result<()> {
    let sizes = taken.filter_map(|index| bundle.entries.get(index)).map(SearchEntry::size);
    let size = total(sizes);
    if size <= bundle.full_len()?.saturating_mul(SHARED_MAX) {
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
