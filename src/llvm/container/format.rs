//! The trait that all formats implement.

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

    /// Whether several bundles may follow one another in a file. If not, a bundle is the whole file: its entries may be
    /// anywhere in the file, and nothing says where it ends.
    fn repeats(&self) -> bool {
        true
    }

    /// Reads the bundle at the start of `data`. Returns `None` if the data does not begin like a bundle.
    ///
    /// `data` may be only the first bytes of a longer run of `total` bytes. Then [`Malformed::Truncated`] may only mean
    /// that the header needs more bytes. Offsets in errors count from `base`.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes begin like a bundle of this format but are not valid.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents<Self::Entry>>, Malformed>;

    /// Reads the header of the compressed container at the start of `data`. Returns `None` if the data does not begin
    /// like one. Unless a format has its own compressed form, this is a compressed bundle.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if the bytes begin like a compressed container but are not
    /// valid, or claim more than `limits` allow.
    fn compressed<'a>(&self, data: Slice<'a>, limits: Limits) -> Result<Option<Compressed<'a>>> {
        compressed::read(data, limits)
    }
}
