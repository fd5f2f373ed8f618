//! Hints at `--deep` for files where a search finds no device code.
//!
//! Device code is looked for in the first bytes of a few files that the command line names. For every file in a
//! directory, this would cost more than the search itself.

use crate::base::io::Input;
use crate::beyond::scan::{Finding, Scan};

use super::files::WorkFile;

/// The number of bytes at the start of a file that are searched for a hint. Searching them takes less than 0.1 seconds.
const HEAD_MAX: u64 = 64 << 20;

/// The number of files of a command line that are searched for a hint.
pub(super) const FILES_MAX: usize = 8;

/// Returns the hint for a file where `scan` finds no device code: that `--deep` finds some in the first bytes, or that
/// it would search the rest of a long file. Returns `None` if a deep search of a whole file finds nothing or fails, or
/// if `scan` is deep already.
pub(super) fn hint_at_deep(input: &Input, scan: &Scan) -> Option<String> {
    if scan.deep {
        return None;
    }
    let mut deep = scan.clone();
    // The hint is about bytes of this file, not about kpack archives to which it refers.
    (deep.deep, deep.follow) = (true, None);
    // Searching all of a long file for a hint would take too long.
    let head = input.slice(0, input.len().min(HEAD_MAX))?;
    let name = input.path().display();
    match deep.finds_code(head) {
        Ok(true) => Some(format!("--deep finds device code in '{name}'")),
        Ok(false) if input.len() > HEAD_MAX => {
            Some(format!("--deep searches all bytes of '{name}', which takes longer"))
        }
        _ => None,
    }
}

/// Returns the hints for the first named files, where a job found nothing: `--deep`, or the name of a format that is
/// recognised but not read.
pub(super) fn hints_for_empty(files: &[WorkFile], scan: &Scan) -> Vec<String> {
    let named = files.iter().filter(|file| file.is_named() && file.path.is_file());
    named.take(FILES_MAX).filter_map(|file| hint_for_empty(file, scan)).collect()
}

/// Returns the hint for a file: the name of its format if that is recognised but not read, or the hint at `--deep`.
/// Returns `None` if the file cannot be read, or if a deep search finds nothing either. A file with device code, which
/// the job did not select, has no hint.
fn hint_for_empty(file: &WorkFile, scan: &Scan) -> Option<String> {
    let input = file.open(scan.limits).ok()?;
    let (mut has_code, mut unread) = (false, None);
    let searched = scan.run(&input, &mut |finding| {
        match finding {
            Finding::Bundle(_) => has_code = true,
            // The whole file is of a format that is not read, and not a part of it.
            Finding::Unread { place, what, .. } if place.steps().is_empty() => unread = Some(what.name()),
            _ => {}
        }
        Ok(())
    });
    if searched.is_err() || has_code {
        return None;
    }
    match unread {
        Some(what) => Some(format!("'{}' is not read: {what}", file.path.display())),
        None => hint_at_deep(&input, scan),
    }
}
