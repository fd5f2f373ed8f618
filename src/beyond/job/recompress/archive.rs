//! Recompresses the members of an archive, such as a static library.
//!
//! Every member that would be recompressed as a file is recompressed, one at a time. All other members are copied as
//! they are, and so are members that would not become smaller, unless code was removed. Names, times, owners, modes and
//! the order stay. The index gets the new offsets.

use std::path::Path;

use super::super::rewrite::{NO_PATH, Rewriter, unexpected_parts};
use super::Recompressed;
use super::run::{Recompression, RewrittenFile, may_hold_bundles};
use crate::base::bytes::len_u64;
use crate::base::error::{Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::base::io::piece::Piece;
use crate::beyond::container::Magic;
use crate::beyond::container::package::is_debian_package;
use crate::beyond::job::event::Observer;
use crate::beyond::scan::{Place, Step};
use crate::llvm::container::archive::Archive;

/// Returns whether a member of a zip file is an archive that can be recompressed.
pub(super) fn is_archive(head: &[u8]) -> bool {
    head.starts_with(b"!<arch>\n") && !is_debian_package(head)
}

/// Recompresses the members of an archive at a place.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    place: &Place,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<RewrittenFile> {
    let (archive, progress_of_archive, mut result) = (Archive::read(data)?, run.progress, Recompressed::default());
    let (mut to, mut is_changed) = (Rewriter::new(data, output), false);
    // The name of each member of the new archive, and the length of its content.
    let mut expected = Vec::new();
    for member in archive.members_before_padding() {
        let member = member?;
        let content = archive.content_of(&member)?;
        let range = archive.range_of(&member, content);
        run.progress = progress_of_archive.subrange(&range, data.len());
        let mut new_content = None;
        if may_hold_bundles(Magic::identify(content.bytes())) {
            let place = place.join(Step::Member(member.name.to_vec()));
            let (new, of_member) = rewrite_member(run, content, &place, observer)?;
            result.add(&of_member);
            new_content = new;
        }
        // A member that stays is copied later, together with the data around it.
        let Some(new) = new_content else {
            expected.push((member.name, content.len()));
            continue;
        };
        expected.push((member.name, new.len()));
        is_changed = true;
        to.copy_until(range.start)?;
        let header = archive.header_for(&member, content, new.len())?;
        // Members start at even offsets.
        let len = len_u64(&header) + new.len();
        let padding = if len.is_multiple_of(2) { "" } else { "\n" };
        to.write(&[Piece::Bytes(header), Piece::Input(new.as_slice()), Piece::Bytes(padding.into())])?;
        to.skip_until(range.end);
    }
    run.progress = progress_of_archive;
    result.note_len(data.len(), to.new_offset(data.len()));
    // The callers do not use the output of an archive without bundles, so it need not be complete.
    if result.bundles == 0 {
        return Ok((to.output, result));
    }
    // The index of symbols records the offsets of members, but comes before them. Fill in its new offsets at the end.
    let index = if is_changed { archive.index_with(|old| to.new_offset(old))? } else { Vec::new() };
    let (mut output, _) = to.finish()?;
    for (start, offsets) in index {
        output.writer()?.fill_in(start, &offsets)?;
    }
    // The contents of the members are checked already.
    if is_changed && !has_members(output.read_again(data.path())?.as_slice(), &expected)? {
        return Err(unexpected_parts(data.path(), "members"));
    }
    Ok((output, result))
}

/// Recompresses a member at a place. Returns its new content and the numbers for it. The new content is `None` if the
/// member stays as it is: it has no bundles, or would not become smaller and lost no code.
fn rewrite_member(
    run: &mut Recompression<'_>,
    content: Slice<'_>,
    place: &Place,
    observer: &mut Observer<'_>,
) -> Result<(Option<Input>, Recompressed)> {
    // Nothing of the member is done yet.
    run.progress.report(0, 1, observer);
    let old = Input::spool(Path::new(NO_PATH), content.reader()).with_path(content.path())?;
    match run.rewrite_member(&old, place, observer)? {
        (Some(new), numbers) if new.len() >= old.len() && !run.must_change(numbers.dropped) => {
            Ok((None, numbers.for_kept_file()))
        }
        rewritten => Ok(rewritten),
    }
}

/// Returns whether an archive has exactly these members: each with its name and the length of its content.
fn has_members(data: Slice<'_>, expected: &[(&[u8], u64)]) -> Result<bool> {
    let archive = Archive::read(data)?;
    let mut expected = expected.iter();
    for member in archive.members_before_padding() {
        let member = member?;
        let len = archive.content_of(&member)?.len();
        if expected.next().is_none_or(|(name, new_len)| *name != member.name || *new_len != len) {
            return Ok(false);
        }
    }
    Ok(expected.next().is_none())
}
