//! A kernel of a report.

use std::sync::Arc;

use crate::base::error::Result;
use crate::beyond::code::kernels::Kernel;
use crate::beyond::inventory::CodeFor;
use crate::beyond::scan::CodeObject;

/// A kernel of a code object. With the feature `serde`, it is serialized as `docs/kernels.schema.json` describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamedKernel {
    /// The code object, which its kernels share.
    pub code: Arc<ListedCode>,
    /// The demangled name, safe to print on a terminal.
    pub name: Arc<str>,
    /// The numbers, and the name as recorded.
    pub kernel: Kernel,
}

/// A code object with kernels in a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedCode {
    /// The code object.
    pub code_object: Arc<CodeObject>,
    /// The target ID, or else the triple or the ID of the entry; safe to print on a terminal.
    pub gpu: String,
    /// The [URI](CodeObject::uri), if the code object has one.
    pub uri: Option<String>,
}

impl ListedCode {
    /// Names the GPU and the URI of a code object. `recorded_target` is the target ID that its content records.
    ///
    /// # Errors
    /// The errors of the URI.
    pub(super) fn new(code_object: Arc<CodeObject>, recorded_target: Option<&str>) -> Result<Self> {
        let uri = code_object.uri()?.map(|uri| uri.to_string());
        Ok(Self { gpu: CodeFor::of(&code_object, recorded_target).name(), uri, code_object })
    }
}
