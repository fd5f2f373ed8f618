//! Documents in JSON (feature `serde`): the fields that all reports have, and how types are written in them. The types
//! of reports stand where their contents are. The comments of their fields are the descriptions in
//! `docs/*.schema.json`, which a unit test compares with the types; `BLESS=1` writes them again.
//!
//! Names and texts are safe to show on a terminal. Paths are not escaped; they have U+FFFD for bytes that are not
//! UTF-8.

#[cfg(test)]
pub(crate) mod schemas;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// A report, with the fields that all reports have.
///
/// All offsets and sizes are in bytes. The document is UTF-8. Control characters in strings, and characters that change
/// the direction of text, are written as `\u` escapes. A later release may add fields without changing `version`;
/// `version` changes when a field is removed or changes its meaning.
#[cfg(feature = "cli")]
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
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only the executable writes documents"))]
pub(crate) trait Report: Serialize {
    /// The version of its document. Adding a field does not change it.
    const VERSION: u32 = 1;
}

impl<R: Report> Report for &R {
    const VERSION: u32 = R::VERSION;
}

#[cfg(feature = "cli")]
impl<R: Report, P: Serialize> Document<R, P> {
    /// The document of a report.
    pub(crate) fn new(report: R, problems: P) -> Self {
        Self { version: R::VERSION, report, problems }
    }
}

/// Serializes each type as the struct after the arrow, whose function `of` makes the struct from a value of the type.
macro_rules! serialized_as {
    ($($type:ty => $fields:ident),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $fields::of(self).serialize(serializer)
            }
        }

        #[cfg(test)]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $fields::schema_name()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $fields::json_schema(generator)
            }
        }
    )*};
}
pub(crate) use serialized_as;

/// Returns a path as text, with U+FFFD for bytes that are not UTF-8.
pub(crate) fn shown(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

/// Serializes a path, with U+FFFD for bytes that are not UTF-8.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    shown(path).serialize(serializer)
}

/// Serializes a text that is shared.
pub(crate) fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    (**text).serialize(serializer)
}

/// Serializes the sum of the numbers in a map.
pub(crate) fn sum<S: Serializer>(numbers: &BTreeMap<&str, usize>, serializer: S) -> Result<S::Ok, S::Error> {
    numbers.values().sum::<usize>().serialize(serializer)
}

/// Serializes a list that may be shared, or null for `None`.
pub(crate) fn shared<T: Serialize, S: Serializer>(list: &Option<Arc<[T]>>, serializer: S) -> Result<S::Ok, S::Error> {
    list.as_deref().serialize(serializer)
}
