//! The document of `extract`.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::Extracted;
use crate::beyond::document::{Report, serialized_as, shown};
use crate::beyond::scan::CodeObject;

/// The files that were written, and the code objects in them. There is no document if nothing was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct ExtractReport<'r> {
    /// The files that were written, in the order of the files that they are from.
    pub code_objects: &'r [Extracted],
}

impl Report for ExtractReport<'_> {}

serialized_as!(Extracted => WrittenFile);

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

impl<'r> WrittenFile<'r> {
    fn of(Extracted { path, sha256, code_object, .. }: &'r Extracted) -> Self {
        let sha256 = sha256.map(|sha256| HEXLOWER.encode(&sha256));
        Self { file: shown(path), sha256, code_object }
    }
}

impl<'r> ExtractReport<'r> {
    /// Returns the report about these files.
    pub fn new(code_objects: &'r [Extracted]) -> Self {
        Self { code_objects }
    }
}
