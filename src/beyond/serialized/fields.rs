//! Serializes single fields of reports. Types that are serialized by `derive` name these functions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Serializes a type as a struct, which the function `of` of that struct makes from it.
macro_rules! serialized_as {
    ($($type:ty => $fields:ident),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $fields::of(self).serialize(serializer)
            }
        }

        #[cfg(test)]
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $fields::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
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
