//! A kernel as it is listed.

use std::sync::Arc;

use offload_bundle::kernels::Kernel;
use offload_bundle::scan::CodeObject;

/// A kernel of a code object.
#[derive(Debug)]
pub(in crate::cli) struct Row {
    pub(super) code_object: Arc<CodeObject>,
    /// The target ID, or else the triple or the ID of the entry; safe to print on a terminal.
    pub(super) gpu: Arc<str>,
    /// The demangled name, safe to print on a terminal.
    pub(super) name: Arc<str>,
    pub(super) kernel: Kernel,
}
