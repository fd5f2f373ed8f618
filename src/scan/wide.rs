//! Reads a bundle of any form. The form, which `-type` selects in the bundler, is detected by content here.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::found::Format;
use crate::bytes::len_u64;
use crate::container::binary::Binary;
use crate::container::magic::Magic;
use crate::container::object::FatObject;
use crate::container::sequence::{Bundle, Bundles, Inflate};
use crate::container::text::Text;
use crate::container::{Container, Contents, Limits, Member, object};
use crate::error::{Error, ErrorKind, Malformed, Result};
use crate::io::input::Input;
use crate::io::piece::Piece;

/// The container for bundles of any form, detected by the first bytes.
pub(crate) struct Wide;

impl Wide {
    /// The form of a bundle that was read as [`Wide`].
    ///
    /// # Errors
    /// [`Malformed::Compressed`] if it is compressed, and the inflated content has none.
    pub(crate) fn form_of(bundle: &Bundle<'_>) -> Result<Format, Malformed> {
        let what = bundle.compressed.map_or("bundle", |recorded| recorded.what);
        Self::format_of(bundle.beginning()).ok_or_else(|| {
            let reason = "the inflated data is not a bundle".to_owned();
            Malformed::Compressed { what, offset: bundle.offset, reason }
        })
    }

    /// The bundle at an offset of a file where a search found one.
    ///
    /// # Errors
    /// Those of reading it, and [`Malformed::Other`] if the file has none there, because it changed.
    pub(crate) fn bundle_at(input: &Input, offset: u64, inflate: Inflate, limits: Limits) -> Result<Bundle<'_>> {
        let rest = input.slice(offset, input.len().saturating_sub(offset));
        let bundle = rest.and_then(|rest| Bundles::new(rest, &Self, inflate).with_limits(limits).next());
        bundle.unwrap_or_else(|| {
            let text = format!("the bundle at offset {offset} is no longer there");
            Err(Error::malformed(input.path(), Malformed::other(ErrorKind::Malformed, offset, text)))
        })
    }

    /// The form of a bundle that begins with `head`.
    pub(crate) fn format_of(head: &[u8]) -> Option<Format> {
        match Magic::identify(head) {
            Magic::Bundle => Some(Format::Bundle),
            Magic::TextBundle => Some(Format::TextBundle),
            _ => object::HostFormat::of(head).map(|_| Format::FatObject),
        }
    }
}

impl Container for Wide {
    fn repeats(&self) -> bool {
        true
    }

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        match Self::format_of(data) {
            Some(Format::Bundle) => Binary::default().read(data, total, base),
            Some(Format::TextBundle) => {
                let end = base.saturating_add(len_u64(data));
                let whole = Text::of(data).filter(|_| len_u64(data) == total);
                let what = || "the text bundle".to_owned();
                let text = whole.ok_or_else(|| Malformed::Truncated { what: what(), offset: base, needed: total, end });
                text?.read(data, total, base)
            }
            Some(_) => FatObject.read(data, total, base),
            None => Ok(None),
        }
    }

    fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        Binary::default().plan(members)
    }
}
