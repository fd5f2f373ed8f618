//! Recompresses the sections of a relocatable object, in which all that follows moves, and removes code from fat
//! objects.

use std::ops::Range;

use super::super::rewrite::{Rewriter, changed, changed_len};
use super::Recompressed;
use super::bundles::{FileRewrite, Moved};
use super::choice::{Chosen, NOTHING_LEFT};
use super::form::{contents, member};
use super::run::{Recompression, Rewritten};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::base::io::output::Output;
use crate::base::io::piece::total_len;
use crate::beyond::container::entry::Searched;
use crate::beyond::container::host::relocatable::{MovedBundle, NewContent, Relocatable};
use crate::beyond::container::{Bundle, Bundles};
use crate::beyond::scan::sections::{SectionContent, held};
use crate::beyond::scan::{EntryFacts, Format, Found};
use crate::llvm::container::Member;
use crate::llvm::container::object::{FatObject, Objects};
use crate::llvm::container::sequence::Inflate;
use crate::llvm::event::Observer;

/// Recompresses the `sections` of an object.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    (object, sections): (&Relocatable<'_>, Vec<Slice<'_>>),
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Rewritten> {
    let to = Rewriter::new(data, Output::aside()?);
    let mut work = FileRewrite::new(run, data, to);
    let mut written = Vec::new();
    for section in sections {
        let old = section.offset()..section.end();
        work.to.skip_until(old.start);
        let start = work.to.written();
        let moved = work.sequence(section, observer)?;
        work.end_of_row(&moved, &old)?;
        written.push((old, start..work.to.written(), moved));
    }
    let (to, mut result) = work.into_parts();
    let made = to.output.into_input(data.path())?;
    let content = |(old, new, moved): (Range<u64>, Range<u64>, Moved)| {
        let (was, new) = (data.claimed(&old)?, made.as_slice().claimed(&new)?);
        let bundle = |(before, now): (Range<u64>, Range<u64>)| {
            let is_same = was.claimed(&before)?.bytes() == new.claimed(&now)?.bytes();
            Ok(MovedBundle { before, now, is_same })
        };
        Ok(NewContent { old, new, moved: moved.into_iter().map(bundle).collect::<Result<_>>()? })
    };
    let contents = written.into_iter().map(content).collect::<Result<Vec<_>>>()?;
    let changes = object.changes(&contents).map_err(|reason| {
        let reason = format!("cannot rewrite the bundles: {reason}");
        Error::refused(ErrorKind::Unsupported, data.path(), None, reason)
    })?;
    result.note_len(data.len(), changed_len(data, &changes));
    Ok((changed(data, &changes, output)?, result))
}

/// The bundle of a fat object from which code may be removed; none of another file.
pub(super) fn fat_object<'d>(run: &mut Recompression<'_>, data: Slice<'d>) -> Result<Option<Bundle<'d>>> {
    let is_fat = || held(data.bytes()).is_ok_and(|held| held.contains(&SectionContent::FatObject));
    if !run.job.removes() || run.replacing.is_some() || !is_fat() {
        return Ok(None);
    }
    let mut bundles = Bundles::new(data, &Searched(FatObject), Inflate::Whole).with_limits(run.job.limits);
    let bundle = bundles.next().transpose()?;
    bundle.iter().try_for_each(|bundle| run.take_bundle(data, bundle))?;
    Ok(bundle)
}

/// Removes code from a fat object, which is written as the bundler writes it, around the same host. Linkers read no
/// other form.
pub(super) fn rewrite_fat(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    bundle: &Bundle<'_>,
    output: Output,
) -> Result<Rewritten> {
    let facts = EntryFacts::default();
    let found = Found { place: &run.place, format: Format::FatObject, index: 0, bundle, facts: &facts, space_end: 0 };
    let Chosen { kept, devices } = run.choice.choose(&found)?;
    let dropped = bundle.entries.len() - kept.len();
    let mut result = Recompressed { bundles: 1, before: data.len(), after: data.len(), ..Recompressed::default() };
    if dropped == 0 {
        return Ok((changed(data, &[], output)?, result));
    }
    let contents = contents(data.path(), bundle, &kept)?;
    let members: Vec<Member<'_>> = contents.iter().map(member).collect();
    ensure_fat(data, &members)?;
    let mut pieces = FatObject.plan(&members)?;
    // The bundler writes tables of its own after those of the host, which another tool's fat object does not have.
    if total_len(&pieces)? > data.len() {
        let dropped: Vec<usize> = (0..bundle.entries.len()).filter(|index| !kept.contains(index)).collect();
        pieces = FatObject.without(data, &dropped).unwrap_or(pieces);
    }
    let changes = [(0..data.len(), pieces)];
    (result.dropped, result.emptied) = (dropped, usize::from(devices == 0));
    result.after = changed_len(data, &changes);
    result.note_len(result.before, result.after);
    Ok((changed(data, &changes, output)?, result))
}

/// Ensures that the code objects that are kept of a fat object make a fat object again.
fn ensure_fat(data: Slice<'_>, members: &[Member<'_>]) -> Result<()> {
    let refused = |kind, reason| Error::refused(kind, data.path(), None, reason);
    Err(match FatObject::host_of(members) {
        _ if members.is_empty() => refused(ErrorKind::NotFound, NOTHING_LEFT),
        None => refused(ErrorKind::Unsupported, "a fat object cannot lose its host code, which is the object itself"),
        Some(_) if !Objects::is_fat(members) => {
            let reason = "cannot remove code: a linker has merged several fat objects into it (ld -r)";
            let hint = "remove the code from each fat object before they are merged";
            refused(ErrorKind::Unsupported, reason).with_hint(hint)
        }
        Some(_) => return Ok(()),
    })
}
