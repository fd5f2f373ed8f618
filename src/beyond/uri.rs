//! URIs of parts of files that a search finds.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::PathBuf;

use crate::llvm::uri::{MEMORY, SCHEME, Uri, UriStep};

/// Returns whether a text begins as URIs do.
pub(crate) fn has_scheme(text: &OsStr) -> bool {
    [SCHEME, MEMORY].iter().any(|scheme| text.as_encoded_bytes().starts_with(scheme))
}

impl Uri {
    /// The URI of a range of a file, or of the data that `steps` lead to.
    pub(crate) fn new(path: PathBuf, steps: Vec<UriStep>, range: Range<u64>, inflated: Option<Range<u64>>) -> Self {
        Self { path, steps, range: Some(range), inflated }
    }

    /// Whether both URIs name the same bytes of one file of `len` bytes.
    pub(crate) fn is_same_part(&self, other: &Self, len: u64) -> bool {
        let [range, other_range] = [self, other].map(|uri| uri.range.clone().unwrap_or(0..len));
        range == other_range && self.steps == other.steps && self.inflated == other.inflated
    }

    /// Turns this URI, whose file is the bytes that `outer` names, into a URI of the file of `outer`.
    ///
    /// Returns `None` if this URI has steps, which cannot follow a range, if data would be inflated twice, or if an
    /// offset would be too large.
    pub(crate) fn inside(self, outer: Self) -> Option<Self> {
        let Self { path, steps, range, inflated } = outer;
        if steps.is_empty() && range.is_none() && inflated.is_none() {
            return Some(Self { path, ..self });
        }
        if !self.steps.is_empty() {
            return None;
        }
        let inner = self.range.unwrap_or_default();
        match (inflated, self.inflated) {
            // This URI counts from the start of the inflated bytes that `outer` names.
            (Some(outer_inflated), None) => {
                let inflated = Some(shifted(&inner, outer_inflated.start)?);
                Some(Self { path, steps, range, inflated })
            }
            // This URI counts from the start of the stored bytes, or of the member, that `outer` names.
            (None, inflated) => {
                let base = match range {
                    Some(range) => range.start,
                    None => 0,
                };
                let range = Some(shifted(&inner, base)?);
                Some(Self { path, steps, range, inflated })
            }
            (Some(_), Some(_)) => None,
        }
    }
}

/// Returns the range moved by `base`, or `None` if it would end beyond all offsets.
fn shifted(range: &Range<u64>, base: u64) -> Option<Range<u64>> {
    Some(base.checked_add(range.start)?..base.checked_add(range.end)?)
}
