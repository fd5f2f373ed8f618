//! Recompresses the sections of a relocatable object, in which all that follows moves.

use std::ops::Range;

use super::super::rewrite::{Rewriter, changed, changed_len};
use super::Recompressed;
use super::bundles::{FileRewrite, Moved};
use super::run::{Recompression, Rewritten};
use crate::container::host::relocatable::{MovedBundle, NewContent, Relocatable};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Observer;
use crate::io::input::Slice;
use crate::io::output::Output;

/// Recompresses the `sections` of an object.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    (object, sections): (&Relocatable<'_>, Vec<Slice<'_>>),
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Rewritten> {
    let to = Rewriter::new(data, Output::aside()?);
    let mut work = FileRewrite { run, data, to, result: Recompressed::default(), left: 0 };
    let mut written = Vec::new();
    for section in sections {
        let old = section.offset()..section.end();
        work.to.skip_until(old.start);
        let start = work.to.written();
        let moved = work.sequence(section, observer)?;
        work.to.copy_until(old.end)?;
        written.push((old, start..work.to.written(), moved));
    }
    let is_emptied = work.is_emptied();
    let FileRewrite { to, mut result, .. } = work;
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
    Ok(Rewritten { output: changed(data, &changes, output)?, result, is_emptied })
}
