//! The fields of a kernel in JSON.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::names::mangled;
use super::row::NamedKernel;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::document::{serialized_as, shown};
use crate::beyond::scan::fields::Location;
#[cfg(test)]
use crate::beyond::scan::schemas;

serialized_as!(NamedKernel => KernelFields);

/// A kernel.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "KernelRow"))]
struct KernelFields<'r> {
    /// The path of the file, as named on the command line or found in a directory.
    path: Cow<'r, str>,
    #[serde(flatten)]
    location: Location<'r>,
    /// The target ID, such as `gfx90a:xnack-` or `sm_90`: of the bundle entry ID or, if that has none, as the code
    /// object records it. Otherwise the triple or the bundle entry ID.
    target_id: &'r str,
    #[serde(flatten)]
    name: KernelNameFields<'r>,
    /// The URI of the code object, as in the report of `inspect`.
    #[cfg_attr(test, schemars(schema_with = "schemas::uri"))]
    uri: Option<&'r str>,
    #[serde(flatten)]
    numbers: &'r Kernel,
}

impl<'r> KernelFields<'r> {
    fn of(NamedKernel { code, name, kernel }: &'r NamedKernel) -> Self {
        Self {
            path: shown(code.code_object.bundle.place.file()),
            location: Location::of(&code.code_object),
            target_id: &code.gpu,
            name: KernelNameFields::new(name, kernel.name.as_ref()),
            uri: code.uri.as_deref(),
            numbers: kernel,
        }
    }
}

/// The names of a kernel.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(in super::super) struct KernelNameFields<'r> {
    /// The name, demangled if it is mangled by the Itanium C++ ABI. A name of more than 16,384 characters is cut and
    /// ends in `...`.
    name: &'r str,
    /// The name as the code object records it. Bytes that are not printable are escaped. A name of more than 16,384
    /// bytes is cut and ends in `...`.
    mangled_name: String,
}

impl<'r> KernelNameFields<'r> {
    /// The names of a kernel: as it is shown, and as it is recorded.
    pub(in super::super) fn new(name: &'r str, recorded: &[u8]) -> Self {
        Self { name, mangled_name: mangled(recorded) }
    }
}
