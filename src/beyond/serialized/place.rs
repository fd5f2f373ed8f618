//! Places inside files.

#[cfg(test)]
use std::borrow::Cow;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::fields::serialized_as;
use crate::beyond::scan::Place;

serialized_as!(Place => InnerPlace);

/// The place inside a file.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "Inside"))]
pub(super) struct InnerPlace {
    /// The member of an archive, zip file or package; names of nested members are joined by slashes. For code in a
    /// kpack archive, its binary key (`lib/librocrand.so.1#0`). Null outside archives.
    member: Option<String>,
    /// The section, such as `.hip_fatbin`; the innermost of nested ones. Null outside sections.
    section: Option<String>,
}

impl InnerPlace {
    pub(super) fn of(place: &Place) -> Self {
        Self { member: place.member(), section: place.section() }
    }
}
