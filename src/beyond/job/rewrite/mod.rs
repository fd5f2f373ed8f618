//! Writes a file again, for `recompress` and `replace`.
//!
//! | module | writes |
//! |---|---|
//! | `rewriter` | a file with other bytes in some of its ranges |
//! | `bundles`, `form` | the bundles of a file, each in a form that the job chooses |
//! | `linked_format` | programs and libraries, whose holes can be taken out |
//! | `zip`, `record` | zip files and the `RECORD` of wheels, with other members |

pub(super) mod bundles;
pub(super) mod form;
pub(super) mod linked_format;
pub(super) mod progress;
pub(super) mod record;
mod rewriter;
pub(super) mod zip;

use std::path::Path;

use crate::base::error::{Error, ErrorKind};
use crate::beyond::container::Magic;
pub(crate) use rewriter::{NO_CHANGES, Rewriter, changed, changed_len, changed_with_holes, undoes};

/// The path of temporary data. Errors about the data get the place of its member instead, or name the file.
pub(crate) const NO_PATH: &str = "";

/// Returns the error for a rewritten file with other `parts`, such as bundles, than expected.
pub(crate) fn unexpected_parts(path: &Path, parts: &str) -> Error {
    let reason = format!("cannot rewrite the {parts}: other {parts} would be found in the result");
    let hint = "verify reports what is wrong with the file";
    Error::refused(ErrorKind::Unsupported, path, None, reason).with_hint(hint)
}

/// Returns whether a file has sections where bundles stay at their offsets.
pub(crate) fn is_program(magic: Magic) -> bool {
    magic.is_elf() || magic == Magic::Pe
}
