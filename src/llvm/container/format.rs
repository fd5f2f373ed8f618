//! The readers of formats have one shape.

use super::compressed;
use super::entry::{BundleEntry, Contents};
use super::limits::Limits;
use super::stream::Compressed;
use crate::base::error::{Malformed, Result};
use crate::base::io::input::Slice;

/// A bundle format.
pub trait Container {
    /// The entries of its bundles.
    type Entry: BundleEntry;

    /// Whether several bundles may follow one another in a file; if not, a bundle is the whole file.
    fn repeats(&self) -> bool {
        true
    }

    /// The fault of a bundle at `position`, counted from the first one, if no bundle may begin there. `offset` is its
    /// place in the file.
    fn misplaced(&self, _position: u64, _offset: u64) -> Option<Malformed> {
        None
    }

    /// The length of what may lie between bundles beside zeros, at the start of `data`.
    fn filler_len(&self, _data: &[u8]) -> u64 {
        0
    }

    /// The bundle at the start of `data`, or `None` if the data does not begin like one.
    ///
    /// `data` may be the beginning of a longer run of `total` bytes. An error of the kind [`Malformed::Truncated`] may
    /// then only mean that more of it is needed. Offsets in errors count from `base`.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes begin like a bundle of this format but are not valid.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<Self::Entry>>, Malformed>;

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
