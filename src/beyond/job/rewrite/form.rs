//! Forms of a bundle: unchanged, plain or compressed.

use std::num::NonZeroU32;
use std::path::Path;

use crate::base::bytes::{is_zero, len_u64, total};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::base::io::piece::Piece;
use crate::beyond::container::Bundle;
use crate::beyond::container::sequence::Content;
use crate::beyond::container::text;
use crate::beyond::job::size_limit::ensure_size_limit;
use crate::llvm::container::binary::Binary;
use crate::llvm::container::text::{MarkerSide, Text};
use crate::llvm::container::{Entry, Member, Part};

/// The largest alignment of an offset that is kept: the size of a memory page.
const ALIGNMENT_MAX: u64 = 4096;

/// A bundle in its plain form, without the removed code objects.
pub(crate) struct PlainBundle<'p> {
    pub(crate) pieces: Vec<Piece<'p>>,
    /// Whether the code objects are not those of the old bundle: some are removed, or one is replaced.
    pub(crate) is_changed: bool,
    /// Whether the plain form is a text bundle, which ends only at the end of the file.
    pub(crate) is_text: bool,
    /// Whether the bundle was compressed together with data after it that is not zero. This data is in `pieces` too.
    pub(crate) has_tail: bool,
}

impl<'p> PlainBundle<'p> {
    /// Makes the plain form with the given members. If `members` is `None`, the bundle keeps all members and its old
    /// bytes. Fails if other members are wanted of a text bundle with text between its entries, which would be lost.
    pub(crate) fn new(path: &Path, bundle: &'p Bundle<'_>, members: Option<&[Member<'p>]>) -> Result<Self> {
        let whole = bundle.whole().ok_or_else(|| Error::internal("the bundle is not inflated"))?;
        let text = text::identify(bundle.beginning());
        if members.is_some()
            && let Some(text) = text
            && text.len_of(bundle.entries.iter().map(|entry| &entry.entry)) != whole.len()
        {
            return Err(cannot_drop(path, bundle, "text bundle", "it has text between its entries"));
        }
        // A text bundle without entries would be an empty file, so an empty binary bundle is written instead.
        let text = if matches!(members, Some([])) { None } else { text };
        let mut pieces = match (members, text) {
            (None, _) => vec![Piece::Input(whole)],
            (Some(members), Some(text)) => text.plan(members)?,
            (Some(members), None) => Binary { alignment: bundle_alignment(bundle) }.plan(members)?,
        };
        let tail = whole.slice(bundle.inflated_len, whole.len().saturating_sub(bundle.inflated_len));
        let mut has_tail = false;
        // Zeros after the bundle are padding, and not kept. The old bytes include a tail, and a planned bundle does
        // not.
        if let Some(tail) = tail
            && !is_zero(tail.bytes())
        {
            has_tail = true;
            if members.is_some() {
                pieces.push(Piece::Input(tail));
            }
        }
        Ok(Self { pieces, is_changed: members.is_some(), is_text: text.is_some(), has_tail })
    }
}

/// The form that is chosen for a bundle.
pub(crate) enum BundleForm<'p> {
    /// The old bytes.
    AsItWas,
    /// A new bundle.
    New(&'p [Piece<'p>]),
}

/// Fails if readers of a bundle that becomes plain would take data after it for a part of it. This can happen only if the
/// old one is compressed: its header then no longer records where it ends. `room` is `Some` for a bundle in a section.
pub(crate) fn ensure_end_is_known(
    data: Slice<'_>,
    bundle: &Bundle<'_>,
    plain: &PlainBundle<'_>,
    room: Option<u64>,
) -> Result<()> {
    if bundle.compressed.is_none() {
        return Ok(());
    }
    let is_last = bundle.range()?.end >= data.len();
    let is_in_section = room.is_some();
    let next = if plain.has_tail {
        "the data that was compressed with it"
    } else if plain.is_text && !is_last && !is_in_section {
        // A text bundle ends only at the end of the file. In a section, the caller searches the result for the same
        // bundles, and so finds out whether the end is lost.
        "the data after it"
    } else {
        return Ok(());
    };
    let offset = bundle.offset;
    let reason = format!("cannot decompress the bundle at offset {offset}: it would run into {next}");
    Err(Error::refused(ErrorKind::Unsupported, data.path(), offset, reason))
}

/// Returns a code object, which is its entry ID and content, as a member of a new bundle.
pub(crate) fn as_member<'c>((id, content): &'c (String, Content<'_>)) -> Member<'c> {
    Member { id: id.clone(), content: content.as_slice() }
}

/// Reads the code objects of a bundle to keep, with their IDs.
pub(crate) fn read_contents<'b>(
    path: &Path,
    bundle: &'b Bundle<'_>,
    kept: &[usize],
) -> Result<Vec<(String, Content<'b>)>> {
    ensure_size_limit(path, bundle, kept.iter().copied())?;
    let mut contents = Vec::with_capacity(kept.len());
    for &index in kept {
        let entry = bundle.entries.get(index).ok_or_else(|| Error::internal("no such entry"))?;
        let Ok(id) = str::from_utf8(entry.id()) else {
            return Err(cannot_drop(path, bundle, "bundle", "an entry ID is not valid UTF-8"));
        };
        contents.push((id.to_owned(), bundle.content(index)?));
    }
    Ok(contents)
}

fn cannot_drop(path: &Path, bundle: &Bundle<'_>, format: &str, reason: &str) -> Error {
    let offset = bundle.offset;
    let reason = format!("cannot drop entries of the {format} at offset {offset}: {reason}");
    Error::refused(ErrorKind::Unsupported, path, offset, reason)
}

/// Returns the first offset from `position` on that has exactly the alignment of `offset`, not a larger one. A later
/// job takes the alignment from the offset, and so finds the old offset again.
pub(crate) fn first_aligned_as(offset: u64, position: u64) -> u64 {
    let wanted = alignment(offset);
    let first = position.checked_next_multiple_of(wanted).unwrap_or(u64::MAX);
    // If the first multiple has a larger alignment, the next one does not.
    if alignment(first) == wanted { first } else { first.saturating_add(wanted) }
}

/// Returns the largest power of two that divides an offset, up to the size of a memory page.
fn alignment(offset: u64) -> u64 {
    if offset == 0 { ALIGNMENT_MAX } else { 1 << offset.trailing_zeros().min(ALIGNMENT_MAX.trailing_zeros()) }
}

/// Returns the smallest alignment of the code objects of a bundle, or 1 if all of them are empty.
fn bundle_alignment(bundle: &Bundle<'_>) -> NonZeroU32 {
    let mut smallest = None;
    for part in bundle.entries.iter().flat_map(|entry| &entry.entry.parts) {
        // Any offset may be recorded for an empty code object.
        if let Part::Range(range) = part
            && !range.is_empty()
        {
            smallest = Some(smallest.unwrap_or(u64::MAX).min(alignment(range.start)));
        }
    }
    let smallest = u32::try_from(smallest.unwrap_or(1)).unwrap_or(1);
    NonZeroU32::new(smallest).unwrap_or(NonZeroU32::MIN)
}

impl Text {
    /// The length in bytes of a bundle with exactly these entries, as [`plan`](Text::plan) writes it.
    fn len_of<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> u64 {
        let lines_len = [MarkerSide::Start, MarkerSide::End].map(|side| len_u64(&self.marker_line(side, "")));
        let mut len = 0_u64;
        for entry in entries {
            len = total([len, total(lines_len), 2 * len_u64(&entry.id), entry.size()]);
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::container::SearchBundles;
    use crate::beyond::container::entry::SearchFormat;
    use crate::llvm::container::sequence::Inflate;

    #[test]
    fn a_bundle_that_moved_can_go_back() {
        for power in 0..13 {
            let alignment_wanted = 1_u64 << power;
            for end in (0..20_000).step_by(37) {
                let offset = (end + 100_u64).next_multiple_of(alignment_wanted);
                for position in (1..20_000).step_by(111) {
                    let moved = first_aligned_as(offset, position);
                    assert!(moved >= position && moved - position < 2 * alignment(offset), "{offset} {position}");
                    assert_eq!(alignment(moved), alignment(offset), "{offset} {position}");
                    assert_eq!(first_aligned_as(moved, end + 100), offset, "{offset} {position}");
                }
            }
        }
    }

    #[test]
    fn a_bundle_is_aligned_as_all_its_code_objects_are() {
        for alignment in [1, 2, 8, 512, 4096].map(|alignment| NonZeroU32::new(alignment).unwrap()) {
            let binary = Binary { alignment };
            let members = ["empty", "one", "two", "six"].map(|id| {
                let content: &[u8] = if id == "empty" { b"" } else { b"abc" };
                Member { id: id.to_owned(), content: content.into() }
            });
            let mut data = Vec::new();
            crate::base::io::write_to(&binary.plan(&members).unwrap(), &mut data).unwrap();
            // Any offset may be recorded for an empty code object.
            data[32..40].copy_from_slice(&3_u64.to_le_bytes());
            let searched = SearchFormat(binary);
            let bundle = SearchBundles::new(&data, &searched, Inflate::Headers).next().unwrap().unwrap();
            assert_eq!(bundle_alignment(&bundle), alignment);
        }
    }
}
