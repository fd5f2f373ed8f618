//! Reports as the executable prints them in JSON (feature `serde`). The comments of the fields are the descriptions in
//! `docs/*.schema.json`, which a unit test compares with these types; `BLESS=1` writes them again.
//!
//! Names and texts are safe to show on a terminal. Paths are not escaped; they have U+FFFD for bytes that are not
//! UTF-8.

pub(crate) mod code_object;
pub(crate) mod fields;
mod place;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::beyond::job::Extracted;
use crate::beyond::scan::CodeObject;
use fields::shown;

/// A report, with the fields that all reports have.
///
/// All offsets and sizes are in bytes. The document is UTF-8. Control characters in strings, and characters that change
/// the direction of text, are written as `\u` escapes. A later release may add fields without changing `version`;
/// `version` changes when a field is removed or changes its meaning.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Document<R, P> {
    /// The version of this format.
    version: u32,
    #[serde(flatten)]
    report: R,
    /// Files and parts that could not be read, and that there was nothing to judge, as sentences for people. If there
    /// are any, the exit status is 1; everything else is reported nevertheless.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    problems: P,
}

/// A report of a subcommand.
pub(crate) trait Report: Serialize {
    /// The version of its document. Adding a field does not change it.
    const VERSION: u32 = 1;
}

impl<R: Report, P: Serialize> Document<R, P> {
    /// The document of a report.
    pub(crate) fn new(report: R, problems: P) -> Self {
        Self { version: R::VERSION, report, problems }
    }
}

/// The files that were written, and the code objects in them. There is no document if nothing was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExtractReport<'r> {
    /// The files that were written, in the order of the files that they are from.
    #[serde(serialize_with = "serialize_extracted")]
    #[cfg_attr(test, schemars(with = "Vec<WrittenFile<'_>>"))]
    pub code_objects: &'r [Extracted],
}

impl Report for ExtractReport<'_> {}

fn serialize_extracted<S: Serializer>(extracted: &&[Extracted], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(extracted.iter().map(|Extracted { path, sha256, code_object, .. }| WrittenFile {
        file: shown(path),
        sha256: sha256.map(|sha256| sha256.iter().map(|byte| format!("{byte:02x}")).collect()),
        code_object,
    }))
}

/// A file that was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "Written"))]
struct WrittenFile<'r> {
    /// The file that was written or, with `--dry-run`, would be written. Bytes that are not UTF-8, which the name of
    /// the directory may have, are replaced by U+FFFD.
    file: Cow<'r, str>,
    /// The SHA-256 of the bytes of the file, in lower-case hexadecimal digits.
    #[cfg_attr(test, schemars(with = "String", regex(pattern = "^[0-9a-f]{64}$")))]
    sha256: Option<String>,
    #[serde(flatten)]
    code_object: &'r CodeObject,
}
