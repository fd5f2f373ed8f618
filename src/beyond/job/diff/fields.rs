//! The fields of files, code objects and kernels that differ, in JSON.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::super::kernels::KernelNameFields;
use super::CodeObjectDiff;
use super::report::{Compared, Presence};
use super::rows::KernelRow;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::document::{serialized_as, shown};
#[cfg(test)]
use crate::beyond::job::schemas;
use crate::beyond::scan::CodeObject;
use crate::beyond::scan::fields::{Location, UriOf};

serialized_as!(Compared => ComparedFile, CodeObjectDiff => CodeObjectChange, KernelRow => KernelChange);

impl Serialize for Presence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// Two files whose code objects differ.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct ComparedFile<'r> {
    /// The path below the directories, or that of the new file.
    path: Cow<'r, str>,
    /// The path of the old file. Null if there is none.
    old: Option<Cow<'r, str>>,
    /// The path of the new file. Null if there is none.
    new: Option<Cow<'r, str>>,
    /// The code objects that differ: changed and removed ones in the order of the old file, then added ones in the
    /// order of the new file.
    code_objects: &'r [CodeObjectDiff],
    /// The kernels in these that differ in a number, or are in one file only; none for GPUs that only one of the files
    /// has code for. The ones that got worse are first: by spills, then scratch memory, registers, shared memory and
    /// code size. `--top` limits their number in each file.
    kernels: &'r [KernelRow],
}

impl<'r> ComparedFile<'r> {
    fn of(compared: &'r Compared) -> Self {
        Self {
            path: shown(&compared.path),
            old: compared.old.as_deref().map(shown),
            new: compared.new.as_deref().map(shown),
            code_objects: &compared.diff.code_objects,
            kernels: &compared.rows.kept,
        }
    }
}

/// A code object that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct CodeObjectChange<'r> {
    /// Whether it is in both files (`changed`), only in the new one (`added`) or only in the old one (`removed`).
    #[cfg_attr(test, schemars(schema_with = "schemas::changes"))]
    change: &'static str,
    /// The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle
    /// entry ID.
    target_id: &'r str,
    /// The one in the old file. Null if it was added.
    old: Option<Version<'r>>,
    /// The one in the new file. Null if it was removed.
    new: Option<Version<'r>>,
}

impl<'r> CodeObjectChange<'r> {
    fn of(diff: &'r CodeObjectDiff) -> Self {
        Self {
            change: diff.change().name(),
            target_id: &diff.gpu,
            old: diff.old.as_deref().map(Version::of),
            new: diff.new.as_deref().map(Version::of),
        }
    }
}

/// A code object of one of the files.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Version<'r> {
    #[serde(flatten)]
    location: Location<'r>,
    /// The inflated size.
    size: u64,
    /// The stored size; in a compressed bundle, its share of that by its inflated size.
    stored_size: u64,
    /// The URI, as in the report of `inspect`.
    uri: UriOf<'r>,
}

impl<'r> Version<'r> {
    fn of(code_object: &'r CodeObject) -> Self {
        let (size, stored_size) = (code_object.size, code_object.stored());
        Self { location: Location::of(code_object), size, stored_size, uri: UriOf(code_object) }
    }
}

/// A kernel that differs.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct KernelChange<'r> {
    /// Whether it is in both files (`changed`), only in the new one (`added`) or only in the old one (`removed`).
    #[cfg_attr(test, schemars(schema_with = "schemas::changes"))]
    change: &'static str,
    /// The target ID in the bundle entry ID, such as `gfx90a:xnack-` or `sm_90`. Otherwise the triple or the bundle
    /// entry ID.
    target_id: &'r str,
    #[serde(flatten)]
    name: KernelNameFields<'r>,
    #[serde(flatten)]
    location: Location<'r>,
    /// Whether it spills more vector or more scalar registers than in the old file; for an added kernel, whether it
    /// spills.
    spills_more: bool,
    /// Its numbers in the old file. Null if it was added.
    old: Option<&'r Kernel>,
    /// Its numbers in the new file. Null if it was removed.
    new: Option<&'r Kernel>,
}

impl<'r> KernelChange<'r> {
    fn of(KernelRow { diff, name }: &'r KernelRow) -> Self {
        Self {
            change: diff.change().name(),
            target_id: &diff.gpu,
            name: KernelNameFields::new(name, &diff.name),
            location: Location::of(&diff.code_object),
            spills_more: diff.spills_more(),
            old: diff.old.as_ref(),
            new: diff.new.as_ref(),
        }
    }
}
