//! The report of `kernels`.

use std::borrow::Cow;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::Report;
use super::code_object::Location;
use super::fields::shown;
#[cfg(test)]
use super::tests;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::scan::CodeObject;

/// The kernels in files, and the registers and memory that they take. A number that a code object does not record is
/// null.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct KernelsReport<K, O, F, N> {
    /// The kernels that match `--target`, `--name` and `--hostcall`: in the order of the files and their code objects,
    /// or of `--sort`.
    #[cfg_attr(test, schemars(with = "Vec<KernelRow<'_>>"))]
    pub kernels: K,
    /// The numbers of code objects that match `--target` but have no registers yet, because they are code for a virtual
    /// machine.
    #[cfg_attr(test, schemars(with = "Vec<OtherCode>"))]
    pub others: O,
    /// The conditions of `--fail-on` that are met. The exit status is 1 if there are any.
    #[cfg_attr(test, schemars(with = "Vec<Failure>"))]
    pub failures: F,
    /// The conditions of `--fail-on` that did not judge some of the kernels, because the code does not record the
    /// number. If a condition judged none, that is a problem.
    #[cfg_attr(test, schemars(with = "Vec<NotJudged>"))]
    pub not_judged: N,
}

impl<K: Serialize, O: Serialize, F: Serialize, N: Serialize> Report for KernelsReport<K, O, F, N> {}

/// A kernel.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct KernelRow<'r> {
    /// The path of the file, as named on the command line or found in a directory.
    path: Cow<'r, str>,
    #[serde(flatten)]
    location: Location<'r>,
    /// The target ID, such as `gfx90a:xnack-` or `sm_90`: of the bundle entry ID or, if that has none, as the code
    /// object records it. Otherwise the triple or the bundle entry ID.
    target_id: &'r str,
    #[serde(flatten)]
    name: KernelName<'r>,
    /// The URI of the code object, as in the report of `inspect`.
    #[cfg_attr(test, schemars(schema_with = "tests::uri"))]
    uri: Option<&'r str>,
    #[serde(flatten)]
    numbers: &'r Kernel,
}

impl<'r> KernelRow<'r> {
    /// Makes a row of a kernel with its GPU and its names, as they are shown, and with the [URI](CodeObject::uri) of
    /// its code object.
    pub(crate) fn new(
        code_object: &'r CodeObject,
        uri: Option<&'r str>,
        gpu: &'r str,
        (name, mangled_name): (&'r str, String),
        numbers: &'r Kernel,
    ) -> Self {
        let (path, location) = (shown(code_object.bundle.place.file()), Location::of(code_object));
        Self { path, location, target_id: gpu, name: KernelName { name, mangled_name }, uri, numbers }
    }
}

/// The names of a kernel.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(super) struct KernelName<'r> {
    /// The name, demangled if it is mangled by the Itanium C++ ABI. A name of more than 16,384 characters is cut and
    /// ends in `...`.
    pub(super) name: &'r str,
    /// The name as the code object records it. Bytes that are not printable are escaped. A name of more than 16,384
    /// bytes is cut and ends in `...`.
    pub(super) mangled_name: String,
}

/// Code objects without registers, of one kind.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OtherCode {
    /// The kind of the content, as in the report of `inspect`.
    pub image_kind: &'static str,
    /// The number of them.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub code_objects: usize,
}

/// A condition of `--fail-on` that did not judge some kernels.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NotJudged {
    /// The condition: `spill`, `scratch`, `hostcall` or a limit such as `vgpr>128`.
    #[cfg_attr(test, schemars(regex(pattern = "^(spill|scratch|hostcall|[a-z]+>[0-9]+)$")))]
    pub condition: String,
    /// The number of kernels that it did not judge.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: usize,
    /// The number of all kernels that the conditions apply to.
    pub of: usize,
}

/// A condition of `--fail-on` that is met.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Failure {
    /// The condition: `lost-gpu`, `spill`, `size` or `total` of `diff`; `spill`, `scratch`, `hostcall` or a limit
    /// such as `vgpr>128` of `kernels`.
    #[cfg_attr(test, schemars(regex(pattern = "^(lost-gpu|spill|size|total|scratch|hostcall|[a-z]+>[0-9]+)$")))]
    pub condition: String,
    /// The reason, as a sentence for people. For `kernels`, it has the number of kernels, and the first of them with
    /// the URIs of their code objects.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.condition, self.reason)
    }
}
