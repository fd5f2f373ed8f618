//! Hints at `--deep` for files where a search finds no device code.
//!
//! A hint must not cost more than the search itself. So only the first [`FILES_MAX`] files that the command line names
//! get one, and only their first [`HEAD_MAX`] bytes are searched. Nothing is inflated or copied.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::base::io::Input;
use crate::beyond::scan::{self, Scan};

use super::files::WorkFile;

/// The number of bytes at the start of a file that are searched for a hint. Searching them takes a few milliseconds.
const HEAD_MAX: u64 = 16 << 20;

/// The number of files of a command line that are searched for a hint.
pub(super) const FILES_MAX: usize = 8;

/// Returns the hint at `--deep` for a file where `scan` finds no device code. It says that `--deep` finds some, if the
/// first bytes of the file hold some, or else that `--deep` also searches the rest of the file and compressed members.
/// Returns `None` if the file has neither, or if `scan` is deep already.
pub(super) fn hint_at_deep(input: &Input, scan: &Scan) -> Option<String> {
    if scan.deep {
        return None;
    }
    let head = input.slice(0, input.len().min(HEAD_MAX))?;
    let name = input.path().display();
    if scan::has_device_code_in_bytes(head) {
        return Some(format!("--deep finds device code in '{name}'"));
    }
    let is_searched_whole = input.len() <= HEAD_MAX && !scan::may_have_compressed_members(input.as_slice());
    if is_searched_whole { None } else { Some(format!("--deep searches all bytes of '{name}', which takes longer")) }
}

/// Returns hints for the first of the named `files`, after a job found nothing in them. The hint for a file names its
/// format, if that is recognised but not read, or else `--deep`. `unread` has the names of formats, by file.
pub(super) fn hints_for_empty(files: &[WorkFile], unread: &BTreeMap<PathBuf, &str>, scan: &Scan) -> Vec<String> {
    let mut hints = Vec::new();
    for file in files.iter().filter(|file| file.is_named() && file.path.is_file()).take(FILES_MAX) {
        hints.extend(match unread.get(&file.path) {
            Some(format) => Some(format!("'{}' is not read: {format}", file.path.display())),
            None => file.open(scan.limits).ok().and_then(|input| hint_at_deep(&input, scan)),
        });
    }
    hints
}
